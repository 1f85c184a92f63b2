/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages that this process sends. */
#include <algorithm>
#include <cstring>
#include <endian.h>

#include <sirdma/roce.h>

#include "cm/agent.hpp"
#include "identity.hpp"

namespace sirdma::twin::cm
{

namespace
{

__be32 high24(u32 value, u32 low = 0) noexcept
{
	return htobe32(value << SIRDMA_CM_HIGH24_SHIFT | low);
}

uint8_t timeout_bits(unsigned exponent) noexcept
{
	return static_cast<uint8_t>(exponent << SIRDMA_CM_TIMEOUT_SHIFT);
}

/*
 * The time until a request is sent again: that of the path, there and back, and of the peer's
 * answer.
 */
constexpr u64 request_period_ns =
	(2 * exponent_ms(packet_lifetime) + exponent_ms(response_timeout)) * ns_per_ms;

uint8_t at_most_7(uint8_t count) noexcept
{
	return std::min<uint8_t>(count, 7);
}

} // namespace

sirdma_mad Agent::header(const Id &id, sirdma_cm_attr attr) const noexcept
{
	sirdma_mad mad{};

	mad.hdr.base_version = SIRDMA_MAD_BASE_VERSION;
	mad.hdr.mgmt_class = SIRDMA_MAD_CLASS_CM;
	mad.hdr.class_version = SIRDMA_MAD_CLASS_CM_VERSION;
	mad.hdr.method = SIRDMA_MAD_METHOD_SEND;
	mad.hdr.tid = htobe64(id.tid);
	mad.hdr.attr_id = htobe16(attr);
	return mad;
}

sirdma_mad Agent::with_ids(const Id &id, sirdma_cm_attr attr) const noexcept
{
	sirdma_mad mad = header(id, attr);

	mad.ids.local_id = htobe32(comm_id(id));
	mad.ids.remote_id = htobe32(id.remote_id);
	return mad;
}

void Agent::format_ip(const Id &id, sirdma_cm_ip &ip) const noexcept
{
	const bool v4 = id.dst.addr.is_v4();
	const size_t from = v4 ? sizeof(ip.src) - sizeof(in_addr) : 0;

	ip = {};
	ip.ip_version = static_cast<uint8_t>((v4 ? 4 : 6) << SIRDMA_CM_IP_VERSION_SHIFT);
	ip.port = htobe16(id.src.port);
	memcpy(ip.src + from, id.src.addr.ip().b + from, sizeof(ip.src) - from);
	memcpy(ip.dst + from, id.dst.addr.ip().b + from, sizeof(ip.dst) - from);
}

void Agent::send_req(Id &id, const rdma_ucm_conn_param &param) noexcept
{
	id.tid = static_cast<u64>(port_random_u32()) << 32 | id.handle;
	id.message = header(id, SIRDMA_CM_REQ);

	sirdma_cm_req &req = id.message.req;
	sirdma_cm_path &path = req.primary;

	id.message.hdr.attr_mod = htobe32(id.ece.attr_mod);
	req.local_id = htobe32(comm_id(id));
	req.vendor_id = htobe32(id.ece.vendor_id & vendor_mask);
	req.service_id = htobe64(SIRDMA_CM_IP_SERVICE(id.port_space, id.dst.port));
	req.ca_guid = htobe64(device_guid(id.port->address()));
	req.qpn_resources = high24(id.qpn, id.responder_resources);
	req.eecn_depth = htobe32(id.initiator_depth);
	req.remote_timeout =
		static_cast<uint8_t>(timeout_bits(response_timeout) |
				     (param.flow_control ? SIRDMA_CM_REQ_FLOW_CONTROL : 0));
	req.psn_retry = high24(id.rq_psn, timeout_bits(response_timeout) | id.retry_count);
	req.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
	req.mtu = static_cast<uint8_t>(id.mtu << SIRDMA_CM_REQ_MTU_SHIFT |
				       at_most_7(param.rnr_retry_count));
	req.cm_retries = static_cast<uint8_t>(max_cm_retries << SIRDMA_CM_REQ_CM_RETRIES_SHIFT |
					      (id.srq ? SIRDMA_CM_REQ_SRQ : 0));
	path.local_lid = path.remote_lid = htobe16(SIRDMA_CM_PERMISSIVE_LID);
	memcpy(path.local_gid, id.port->address().ip().b, sizeof(path.local_gid));
	memcpy(path.remote_gid, id.peer.ip().b, sizeof(path.remote_gid));
	path.traffic_class = id.traffic_class;
	path.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
	path.ack_timeout = timeout_bits(id.timeout);
	format_ip(id, *reinterpret_cast<sirdma_cm_ip *>(req.private_data));
	memcpy(req.private_data + sizeof(sirdma_cm_ip), param.private_data, param.private_data_len);
	send_and_wait(id, request_period_ns, max_cm_retries);
}

void Agent::send_sidr_req(Id &id, const rdma_ucm_conn_param &param) noexcept
{
	id.tid = static_cast<u64>(port_random_u32()) << 32 | id.handle;
	id.message = header(id, SIRDMA_CM_SIDR_REQ);

	sirdma_cm_sidr_req &req = id.message.sidr_req;

	req.request_id = htobe32(comm_id(id));
	req.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
	req.service_id = htobe64(SIRDMA_CM_IP_SERVICE(id.port_space, id.dst.port));
	format_ip(id, *reinterpret_cast<sirdma_cm_ip *>(req.private_data));
	memcpy(req.private_data + sizeof(sirdma_cm_ip), param.private_data, param.private_data_len);
	send_and_wait(id, exponent_ms(response_timeout) * ns_per_ms, max_cm_retries);
}

void Agent::send_mra(Id &id, sirdma_cm_answered answered) noexcept
{
	sirdma_mad mad = with_ids(id, SIRDMA_CM_MRA);

	mad.mra.answered = static_cast<uint8_t>(answered << SIRDMA_CM_ANSWERED_SHIFT);
	mad.mra.service_timeout = timeout_bits(service_timeout);
	send(*id.port, id.peer, mad);
}

void Agent::send_rej(Id &id, uint16_t reason, const uint8_t *data, size_t len) noexcept
{
	sirdma_mad mad = with_ids(id, SIRDMA_CM_REJ);
	const sirdma_cm_answered answered =
		id.state == State::req_received ? SIRDMA_CM_ANSWERS_REQ :
		id.state == State::rep_received ? SIRDMA_CM_ANSWERS_REP :
						  SIRDMA_CM_ANSWERS_OTHER;

	mad.rej.answered = static_cast<uint8_t>(answered << SIRDMA_CM_ANSWERED_SHIFT);
	mad.rej.reason = htobe16(reason);
	if (reason == SIRDMA_CM_REJECT_TIMEOUT) {
		/*
		 * The peer finds the connection by this field, as its own ID is not known (table
		 * 109).
		 */
		const __be64 guid = htobe64(device_guid(id.port->address()));

		mad.rej.info_len = sizeof(guid) << 1;
		memcpy(mad.rej.info, &guid, sizeof(guid));
	}
	if (len)
		memcpy(mad.rej.private_data, data, len);
	send(*id.port, id.peer, mad);
}

void Agent::send_rep(Id &id, const rdma_ucm_conn_param &param) noexcept
{
	id.message = with_ids(id, SIRDMA_CM_REP);

	sirdma_cm_rep &rep = id.message.rep;

	id.message.hdr.attr_mod = htobe32(id.ece.attr_mod);
	rep.qpn = high24(id.qpn, id.ece.vendor_id >> 16 & 0xff);
	rep.eecn = high24(0, id.ece.vendor_id >> 8 & 0xff);
	rep.psn = high24(id.rq_psn, id.ece.vendor_id & 0xff);
	rep.resources = id.responder_resources;
	rep.depth = id.initiator_depth;
	rep.ack_delay = param.flow_control ? SIRDMA_CM_REP_FLOW_CONTROL : 0;
	rep.rnr_retry =
		static_cast<uint8_t>(at_most_7(param.rnr_retry_count) << SIRDMA_CM_REP_RNR_SHIFT |
				     (id.srq ? SIRDMA_CM_REP_SRQ : 0));
	rep.ca_guid = htobe64(device_guid(id.port->address()));
	memcpy(rep.private_data, param.private_data, param.private_data_len);
	/* The request named the number of retries and the timeout. */
	send_and_wait(id, id.period_ns, id.tries_left);
}

void Agent::send_rtu(Id &id) noexcept
{
	send(*id.port, id.peer, with_ids(id, SIRDMA_CM_RTU));
}

void Agent::send_dreq(Id &id) noexcept
{
	id.tid = static_cast<u64>(port_random_u32()) << 32 | id.handle;
	id.message = with_ids(id, SIRDMA_CM_DREQ);
	id.message.dreq.remote_qpn = high24(id.remote_qpn);
	id.state = State::dreq_sent;
	send_and_wait(id, request_period_ns, max_cm_retries);
}

void Agent::send_drep(Id &id) noexcept
{
	send(*id.port, id.peer, with_ids(id, SIRDMA_CM_DREP));
}

void Agent::send_sidr_rep(Id &id, sirdma_cm_sidr_status status, const uint8_t *data,
			  size_t len) noexcept
{
	sirdma_mad mad = header(id, SIRDMA_CM_SIDR_REP);
	sirdma_cm_sidr_rep &rep = mad.sidr_rep;

	rep.request_id = htobe32(id.remote_id);
	rep.status = static_cast<uint8_t>(status);
	rep.service_id = htobe64(SIRDMA_CM_IP_SERVICE(id.port_space, id.src.port));
	mad.hdr.attr_mod = htobe32(id.ece.attr_mod);
	rep.vendor_high = htobe16(static_cast<uint16_t>(id.ece.vendor_id >> 8));
	rep.qpn = high24(0, id.ece.vendor_id & 0xff);
	if (status == SIRDMA_CM_SIDR_VALID) {
		rep.qpn = high24(id.qpn, id.ece.vendor_id & 0xff);
		rep.qkey = htobe32(id.qkey);
	}
	if (len)
		memcpy(rep.private_data, data, len);
	send(*id.port, id.peer, mad);
}

/* Reject @mad. This process keeps no state of it. */
void Agent::reject(Port &port, const IpAddress &dst, const sirdma_mad &mad, uint16_t reason,
		   sirdma_cm_answered answered) noexcept
{
	sirdma_mad answer{};

	answer.hdr = mad.hdr;
	answer.hdr.status = 0;
	answer.hdr.class_specific = 0;
	answer.hdr.attr_mod = 0;
	answer.hdr.attr_id = htobe16(SIRDMA_CM_REJ);
	answer.rej.ids.remote_id = mad.ids.local_id;
	answer.rej.ids.local_id = answered == SIRDMA_CM_ANSWERS_REQ ? 0 : mad.ids.remote_id;
	answer.rej.answered = static_cast<uint8_t>(answered << SIRDMA_CM_ANSWERED_SHIFT);
	answer.rej.reason = htobe16(reason);
	send(port, dst, answer);
}

} // namespace sirdma::twin::cm
