/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages that arrive. No field of them is trusted. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <new>

#include "cm/agent.hpp"
#include "identity.hpp"

namespace sirdma::twin::cm
{

namespace
{

/* A peer may ask this process to wait, but for a limited time only. */
constexpr u64 wait_max_ns = 120'000 * ns_per_ms;
/*
 * A request that finds no listener is repeated for half a second. perftest's server closes its
 * listener between its two connections and listens again, and its client crashes when it is
 * refused. Through the kernel the client is slower, because each step of its address resolution
 * waits for a work queue.
 */
constexpr u64 refused_wait_ns = 50 * ns_per_ms;
constexpr unsigned refusals_max = 10;
/* The lowest and highest QP number of a connection */
constexpr u32 first_qpn = 2, last_qpn = 0xfffffe;

u32 high24(__be32 word) noexcept
{
	return be32toh(word) >> SIRDMA_CM_HIGH24_SHIFT;
}

u32 low8(__be32 word) noexcept
{
	return be32toh(word) & 0xff;
}

u64 timeout_ns(uint8_t bits) noexcept
{
	return std::min(exponent_ms(bits >> SIRDMA_CM_TIMEOUT_SHIFT) * ns_per_ms, wait_max_ns);
}

/* Time in which a message is acknowledged, 4.096 us << n, as ib_cm computes it. */
uint8_t ack_timeout(unsigned ack_delay, unsigned lifetime) noexcept
{
	unsigned timeout = lifetime + 1;

	if (timeout >= ack_delay)
		timeout += ack_delay >= timeout - 1;
	else
		timeout = ack_delay + (timeout >= ack_delay - 1);
	return static_cast<uint8_t>(std::min(timeout, 31u));
}

bool is_cm(const sirdma_mad_hdr &hdr) noexcept
{
	return hdr.base_version == SIRDMA_MAD_BASE_VERSION &&
	       hdr.mgmt_class == SIRDMA_MAD_CLASS_CM &&
	       hdr.class_version == SIRDMA_MAD_CLASS_CM_VERSION &&
	       hdr.method == SIRDMA_MAD_METHOD_SEND;
}

bool is_gid_of(const uint8_t (&gid)[16], const IpAddress &addr) noexcept
{
	return !memcmp(gid, addr.ip().b, sizeof(gid));
}

/* The addresses of a request. Returns false if they differ from those of the packet. */
bool parse_ip(const sirdma_cm_ip &ip, const IpAddress &src, const IpAddress &dst,
	      uint16_t &port) noexcept
{
	const bool v4 = dst.is_v4();
	const size_t from = v4 ? sizeof(ip.src) - sizeof(in_addr) : 0;

	port = be16toh(ip.port);
	return !ip.version && ip.ip_version >> SIRDMA_CM_IP_VERSION_SHIFT == (v4 ? 4 : 6) &&
	       !memcmp(ip.src + from, src.ip().b + from, sizeof(ip.src) - from) &&
	       !memcmp(ip.dst + from, dst.ip().b + from, sizeof(ip.dst) - from);
}

template <size_t n>
void copy_private(uint8_t (&to)[RDMA_MAX_PRIVATE_DATA], uint8_t &len, const uint8_t (&from)[n],
		  size_t skip = 0) noexcept
{
	static_assert(n <= RDMA_MAX_PRIVATE_DATA);
	memcpy(to, from + skip, n - skip);
	len = static_cast<uint8_t>(n - skip);
}

} // namespace

u32 Agent::receiver_of(const sirdma_mad &mad) noexcept
{
	switch (be16toh(mad.hdr.attr_id)) {
	case SIRDMA_CM_REQ:
	case SIRDMA_CM_SIDR_REQ:
		return 0;
	case SIRDMA_CM_SIDR_REP:
		return be32toh(mad.sidr_rep.request_id);
	default:
		return be32toh(mad.ids.remote_id);
	}
}

/*
 * Does a message for @id name the peer's communication ID, if that is known? Our own are easy to guess,
 * and any user of the peer's host can send messages from its address.
 */
bool Agent::names_sender(const Id &id, const sirdma_mad &mad) noexcept
{
	return !id.remote_id || be16toh(mad.hdr.attr_id) == SIRDMA_CM_SIDR_REP ||
	       be32toh(mad.ids.local_id) == id.remote_id;
}

bool Agent::names_request(const sirdma_mad &mad, u64 &guid, u32 &id) noexcept
{
	__be64 named;

	switch (be16toh(mad.hdr.attr_id)) {
	case SIRDMA_CM_REQ:
		guid = be64toh(mad.req.ca_guid);
		id = be32toh(mad.req.local_id);
		return true;
	case SIRDMA_CM_REJ:
		if (mad.ids.remote_id || be16toh(mad.rej.reason) != SIRDMA_CM_REJECT_TIMEOUT)
			return false;
		memcpy(&named, mad.rej.info, sizeof(named));
		guid = be64toh(named);
		id = be32toh(mad.ids.local_id);
		return true;
	default:
		return false;
	}
}

u32 Agent::service_of(const sirdma_mad &mad) noexcept
{
	const u16 attr = be16toh(mad.hdr.attr_id);
	const u64 service = attr == SIRDMA_CM_REQ      ? be64toh(mad.req.service_id) :
			    attr == SIRDMA_CM_SIDR_REQ ? be64toh(mad.sidr_req.service_id) :
							 0;

	/* Port spaces have 16 bits; the spaces in use have 9. */
	return service >= 1 << 16 && service < 1ull << 31 ? static_cast<u32>(service) : 0;
}

struct Agent::MessageRow {
	sirdma_cm_attr attr;
	States in; /* states in which the message has a meaning */
	void (Agent::*handle)(Id &id, const Arrival &arrival);
};

const Agent::MessageRow Agent::messages[] = {
	{SIRDMA_CM_MRA, states(State::req_sent, State::rep_sent), &Agent::on_mra},
	{SIRDMA_CM_REP, states(State::req_sent, State::rep_received, State::established),
	 &Agent::on_rep},
	{SIRDMA_CM_RTU, states(State::rep_sent), &Agent::on_rtu},
	{SIRDMA_CM_REJ,
	 states(State::req_sent, State::req_received, State::rep_sent, State::rep_received,
		State::established, State::dreq_sent),
	 &Agent::on_rej},
	{SIRDMA_CM_DREQ,
	 states(State::rep_sent, State::established, State::dreq_sent, State::timewait),
	 &Agent::on_dreq},
	{SIRDMA_CM_DREP, states(State::dreq_sent), &Agent::on_drep},
	{SIRDMA_CM_SIDR_REP, states(State::sidr_req_sent), &Agent::on_sidr_rep},
};

Id *Agent::listener(const Port &port, u32 service) noexcept
{
	for (auto at = listeners_.lower_bound({service, 0});
	     at != listeners_.end() && at->first == service; ++at) {
		Id *id = find(at->second);

		if (covers(*id, port))
			return id;
	}
	return nullptr;
}

bool Agent::serves(const Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept
{
	std::lock_guard hold(lock_);
	const u32 receiver = receiver_of(mad);
	u64 guid;
	u32 id;

	if (receiver)
		return slot_of_id(receiver) == port.slot();
	if (names_request(mad, guid, id) && by_remote_.contains(remote(src, guid, id)))
		return true;
	switch (be16toh(mad.hdr.attr_id)) {
	case SIRDMA_CM_REJ:
		return false;
	case SIRDMA_CM_REQ:
	case SIRDMA_CM_SIDR_REQ:
		return listener(port, service_of(mad));
	default:
		return true; /* this counts a datagram that is no message, too */
	}
}

void Agent::refuse(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept
{
	std::lock_guard hold(lock_);

	count(Counter::cm_received);
	answer({port, src, mad});
}

/* Answer a message for a service or connection that this address does not have. */
void Agent::answer(const Arrival &arrival) noexcept
{
	const sirdma_mad &mad = arrival.mad;
	sirdma_mad answer{};

	answer.hdr = mad.hdr;
	answer.hdr.status = 0;
	answer.hdr.attr_mod = 0;
	if (!is_cm(mad.hdr)) {
		count(Counter::cm_malformed);
		return;
	}
	switch (be16toh(mad.hdr.attr_id)) {
	case SIRDMA_CM_REQ:
		count(Counter::cm_no_listener);
		reject(arrival.port, arrival.src, mad, SIRDMA_CM_REJECT_SERVICE_ID,
		       SIRDMA_CM_ANSWERS_REQ);
		break;
	case SIRDMA_CM_SIDR_REQ:
		count(Counter::cm_no_listener);
		answer.hdr.attr_id = htobe16(SIRDMA_CM_SIDR_REP);
		answer.sidr_rep.request_id = mad.sidr_req.request_id;
		answer.sidr_rep.status = SIRDMA_CM_SIDR_SERVICE_ID;
		answer.sidr_rep.service_id = mad.sidr_req.service_id;
		send(arrival.port, arrival.src, answer);
		break;
	case SIRDMA_CM_DREQ:
		/* The connection does not exist any more, as the peer wants it. */
		answer.hdr.attr_id = htobe16(SIRDMA_CM_DREP);
		answer.ids.remote_id = mad.ids.local_id;
		answer.ids.local_id = mad.ids.remote_id;
		send(arrival.port, arrival.src, answer);
		break;
	default:
		count(Counter::cm_unknown);
	}
}

void Agent::receive(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept
{
	std::lock_guard hold(lock_);

	try {
		take({port, src, mad});
	} catch (const std::bad_alloc &) {
		port_warn("rdma_cm: a message is lost: no memory");
	}
}

void Agent::receive(const IpAddress &dst, const IpAddress &src, const sirdma_mad &mad) noexcept
{
	std::lock_guard hold(lock_);

	try {
		if (Port *port = port_of(dst))
			take({*port, src, mad});
	} catch (const std::bad_alloc &) {
		port_warn("rdma_cm: a message is lost: no memory");
	}
}

void Agent::take(const Arrival &arrival)
{
	const sirdma_mad &mad = arrival.mad;
	const uint16_t attr = be16toh(mad.hdr.attr_id);
	const auto row = std::find_if(std::begin(messages), std::end(messages),
				      [&](const MessageRow &m) { return m.attr == attr; });

	count(Counter::cm_received);
	if (!is_cm(mad.hdr) ||
	    (row == std::end(messages) && attr != SIRDMA_CM_REQ && attr != SIRDMA_CM_SIDR_REQ)) {
		count(Counter::cm_malformed);
		return;
	}
	if (attr == SIRDMA_CM_REQ || attr == SIRDMA_CM_SIDR_REQ) {
		if (attr == SIRDMA_CM_REQ && is_duplicate(arrival))
			return;
		if (!listener(arrival.port, service_of(mad)))
			answer(arrival);
		else if (attr == SIRDMA_CM_REQ)
			on_req(arrival);
		else
			on_sidr_req(arrival);
		return;
	}

	Id *id = addressee(arrival);

	if (!id || id->port != &arrival.port)
		answer(arrival);
	else if (!(id->peer == arrival.src) || !id->in(row->in) || !names_sender(*id, mad))
		count(Counter::cm_unexpected);
	else
		(this->*row->handle)(*id, arrival);
}

Id *Agent::addressee(const Arrival &arrival) noexcept
{
	const sirdma_mad &mad = arrival.mad;
	const u32 receiver = receiver_of(mad);
	u64 guid;
	u32 id;

	if (receiver)
		return slot_of_id(receiver) == arrival.port.slot() ? find(receiver & handle_mask) :
								     nullptr;
	/* A requester that gave up knows its own ID only. */
	return names_request(mad, guid, id) ? find(by_remote_, remote(arrival.src, guid, id)) :
					      nullptr;
}

/* Requests */

/* Did the request arrive before? Then this process has done what it needs. */
bool Agent::is_duplicate(const Arrival &arrival) noexcept
{
	const sirdma_cm_req &req = arrival.mad.req;
	Id *id = find(by_remote_, remote(arrival.src, be64toh(req.ca_guid), be32toh(req.local_id)));

	if (!id)
		return false;
	count(Counter::cm_duplicates);
	if (id->state == State::req_received)
		send_mra(*id, SIRDMA_CM_ANSWERS_REQ);
	else if (id->state == State::timewait)
		reject(arrival.port, arrival.src, arrival.mad, SIRDMA_CM_REJECT_STALE,
		       SIRDMA_CM_ANSWERS_REQ);
	return true;
}

/*
 * If the peer's QP is connected here already, reject the message and disconnect the old connection,
 * which is dead. Returns true if the QP was connected.
 */
bool Agent::is_stale(const Arrival &arrival)
{
	const bool is_req = be16toh(arrival.mad.hdr.attr_id) == SIRDMA_CM_REQ;
	const u64 guid = be64toh(is_req ? arrival.mad.req.ca_guid : arrival.mad.rep.ca_guid);
	const u32 qpn = high24(is_req ? arrival.mad.req.qpn_resources : arrival.mad.rep.qpn);
	Id *id = find(by_qp_, remote(arrival.src, guid, qpn));

	if (!id)
		return false;
	count(Counter::cm_stale);
	reject(arrival.port, arrival.src, arrival.mad, SIRDMA_CM_REJECT_STALE,
	       is_req ? SIRDMA_CM_ANSWERS_REQ : SIRDMA_CM_ANSWERS_REP);
	if (id->state == State::established)
		send_dreq(*id);
	return true;
}

bool Agent::check_req(const Arrival &arrival, const Id &listener) noexcept
{
	const sirdma_cm_req &req = arrival.mad.req;
	const u32 qpn = high24(req.qpn_resources);
	const uint8_t mtu = req.mtu >> SIRDMA_CM_REQ_MTU_SHIFT;
	const auto &ip = *reinterpret_cast<const sirdma_cm_ip *>(req.private_data);
	uint16_t port, reason = 0;

	if (listener.is_datagram() || req.remote_timeout & SIRDMA_CM_REQ_TRANSPORT)
		reason = SIRDMA_CM_REJECT_TRANSPORT;
	else if (!is_gid_of(req.primary.local_gid, arrival.src) ||
		 !is_gid_of(req.primary.remote_gid, arrival.port.address()))
		reason = SIRDMA_CM_REJECT_GID;
	else if (mtu < IBV_MTU_256 || mtu > sirdma_path_mtu_of_port(arrival.port.ip_mtu()))
		reason = SIRDMA_CM_REJECT_MTU;
	else if (qpn < first_qpn || qpn > last_qpn ||
		 !parse_ip(ip, arrival.src, arrival.port.address(), port))
		reason = SIRDMA_CM_REJECT_CONSUMER;
	if (!reason)
		return true;
	count(Counter::cm_malformed);
	reject(arrival.port, arrival.src, arrival.mad, reason, SIRDMA_CM_ANSWERS_REQ);
	return false;
}

/*
 * Make the ID of a request, with the fields that both kinds of requests have. Returns null if there
 * is no room for it.
 */
Id *Agent::new_request(const Arrival &arrival, Id &listener, const uint8_t *private_data)
{
	const auto &ip = *reinterpret_cast<const sirdma_cm_ip *>(private_data);
	const IpAddress &own = arrival.port.address();

	if (!listener.backlog) {
		count(Counter::cm_backlog_full);
		return nullptr;
	}

	Id &id = create(*listener.channel);

	--listener.backlog;
	id.listener = listener.handle;
	id.port_space = listener.port_space;
	id.qp_type = listener.qp_type;
	id.qkey = listener.qkey;
	id.tos = listener.tos;
	id.port = &arrival.port;
	id.peer = arrival.src;
	id.tid = be64toh(arrival.mad.hdr.tid);
	id.src = {.family = own.family(), .addr = own, .port = listener.src.port};
	id.dst = {.family = own.family(), .addr = arrival.src, .port = be16toh(ip.port)};
	return &id;
}

void Agent::post_request(Id &listener, Id &id, rdma_ucm_event_resp &body) noexcept
{
	body.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	body.uid = listener.uid;
	body.id = id.handle;
	add_event(*listener.channel, {.id = listener.handle, .request = id.handle, .body = body});
	/* After that time the peer has given up. */
	start_timer(id, std::min(id.period_ns * (id.tries_left + 1), wait_max_ns));
}

void Agent::on_req(const Arrival &arrival)
{
	const sirdma_cm_req &req = arrival.mad.req;
	Id &from = *listener(arrival.port, service_of(arrival.mad));
	rdma_ucm_event_resp body{};
	rdma_ucm_conn_param &param = body.param.conn;

	if (!check_req(arrival, from) || is_stale(arrival))
		return;

	Id *id = new_request(arrival, from, req.private_data);

	if (!id) {
		reject(arrival.port, arrival.src, arrival.mad, SIRDMA_CM_REJECT_CONSUMER,
		       SIRDMA_CM_ANSWERS_REQ);
		return;
	}
	id->state = State::req_received;
	id->remote_id = be32toh(req.local_id);
	id->remote_qpn = high24(req.qpn_resources);
	id->sq_psn = high24(req.psn_retry);
	id->rq_psn = port_random_u32() & SIRDMA_PSN_MASK;
	id->initiator_depth = static_cast<uint8_t>(be32toh(req.qpn_resources));
	id->responder_resources = static_cast<uint8_t>(be32toh(req.eecn_depth));
	id->retry_count = be32toh(req.psn_retry) & SIRDMA_CM_REQ_RETRIES;
	id->rnr_retry_count = req.mtu & SIRDMA_CM_REQ_RETRIES;
	id->mtu = req.mtu >> SIRDMA_CM_REQ_MTU_SHIFT;
	id->traffic_class = req.primary.traffic_class;
	id->timeout = req.primary.ack_timeout >> SIRDMA_CM_TIMEOUT_SHIFT;
	id->period_ns = timeout_ns(static_cast<uint8_t>(be32toh(req.psn_retry)));
	id->tries_left = req.cm_retries >> SIRDMA_CM_REQ_CM_RETRIES_SHIFT;
	learn_request(*id, be64toh(req.ca_guid));

	copy_private(param.private_data, param.private_data_len, req.private_data,
		     sizeof(sirdma_cm_ip));
	param.responder_resources = id->responder_resources;
	param.initiator_depth = id->initiator_depth;
	param.flow_control = req.remote_timeout & SIRDMA_CM_REQ_FLOW_CONTROL;
	param.retry_count = id->retry_count;
	param.rnr_retry_count = id->rnr_retry_count;
	param.srq = req.cm_retries & SIRDMA_CM_REQ_SRQ ? 1 : 0;
	param.qp_num = id->remote_qpn;
	body.ece.vendor_id = be32toh(req.vendor_id) & vendor_mask;
	body.ece.attr_mod = be32toh(arrival.mad.hdr.attr_mod);
	post_request(from, *id, body);
}

void Agent::on_sidr_req(const Arrival &arrival)
{
	const sirdma_cm_sidr_req &req = arrival.mad.sidr_req;
	const auto &ip = *reinterpret_cast<const sirdma_cm_ip *>(req.private_data);
	/* The message has no GUID: use the address in its place. */
	const u64 guid = device_guid(arrival.src);
	Id &from = *listener(arrival.port, service_of(arrival.mad));
	rdma_ucm_event_resp body{};
	uint16_t port;

	if (by_remote_.contains(remote(arrival.src, guid, be32toh(req.request_id)))) {
		count(Counter::cm_duplicates);
		return;
	}
	if (!from.is_datagram() || !parse_ip(ip, arrival.src, arrival.port.address(), port)) {
		count(Counter::cm_malformed);
		return;
	}

	/* If there is no room for it, the peer asks again later. */
	Id *id = new_request(arrival, from, req.private_data);

	if (!id)
		return;
	id->state = State::sidr_req_received;
	id->remote_id = be32toh(req.request_id);
	id->period_ns = exponent_ms(response_timeout) * ns_per_ms;
	id->tries_left = max_cm_retries;
	learn_request(*id, guid);
	copy_private(body.param.ud.private_data, body.param.ud.private_data_len, req.private_data,
		     sizeof(sirdma_cm_ip));
	post_request(from, *id, body);
}

/* Messages of a connection */

/* The peer asks for more time. */
void Agent::on_mra(Id &id, const Arrival &arrival)
{
	start_timer(id, std::min(timeout_ns(arrival.mad.mra.service_timeout) + id.period_ns,
				 wait_max_ns));
}

void Agent::on_rep(Id &id, const Arrival &arrival)
{
	const sirdma_cm_rep &rep = arrival.mad.rep;
	rdma_ucm_event_resp body{};
	rdma_ucm_conn_param &param = body.param.conn;

	if (id.state != State::req_sent) {
		count(Counter::cm_duplicates);
		if (id.state == State::established)
			send_rtu(id);
		else
			send_mra(id, SIRDMA_CM_ANSWERS_REP);
		return;
	}
	if (high24(rep.qpn) < first_qpn || high24(rep.qpn) > last_qpn) {
		count(Counter::cm_malformed);
		return;
	}
	if (is_stale(arrival))
		return;
	id.remote_id = be32toh(rep.ids.local_id);
	id.remote_qpn = high24(rep.qpn);
	/* If there is no memory for it, nothing has happened, and the peer repeats the message. */
	learn_remote(id, be64toh(rep.ca_guid));
	stop_timer(id);
	id.state = State::rep_received;
	id.sq_psn = high24(rep.psn);
	id.initiator_depth = rep.resources;
	id.responder_resources = rep.depth;
	id.rnr_retry_count = rep.rnr_retry >> SIRDMA_CM_REP_RNR_SHIFT;
	id.timeout = ack_timeout(rep.ack_delay >> SIRDMA_CM_TIMEOUT_SHIFT, packet_lifetime);

	body.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
	copy_private(param.private_data, param.private_data_len, rep.private_data);
	param.responder_resources = id.responder_resources;
	param.initiator_depth = id.initiator_depth;
	param.flow_control = rep.ack_delay & SIRDMA_CM_REP_FLOW_CONTROL;
	param.rnr_retry_count = id.rnr_retry_count;
	param.srq = rep.rnr_retry & SIRDMA_CM_REP_SRQ ? 1 : 0;
	param.qp_num = id.remote_qpn;
	body.ece.vendor_id = low8(rep.qpn) << 16 | low8(rep.eecn) << 8 | low8(rep.psn);
	body.ece.attr_mod = be32toh(arrival.mad.hdr.attr_mod);
	post(id, body);
}

void Agent::on_rtu(Id &id, const Arrival &)
{
	stop_timer(id);
	id.state = State::established;
	post(id, RDMA_CM_EVENT_ESTABLISHED);
}

/* The peer has no listener: repeat the request later. Returns false if refusals_max is reached. */
bool Agent::ask_again(Id &id) noexcept
{
	if (id.refusals >= refusals_max)
		return false;
	++id.refusals;
	++id.tries_left;
	start_timer(id, refused_wait_ns);
	return true;
}

void Agent::on_rej(Id &id, const Arrival &arrival)
{
	const sirdma_cm_rej &rej = arrival.mad.rej;
	rdma_ucm_event_resp body{};

	if (id.listener) {
		/* The peer gave up before the program fetched the request. */
		drop_request(id);
		return;
	}
	if (id.in(states(State::established, State::dreq_sent))) {
		enter_timewait(id);
		post(id, RDMA_CM_EVENT_DISCONNECTED);
		return;
	}
	if (id.state == State::req_sent && be16toh(rej.reason) == SIRDMA_CM_REJECT_SERVICE_ID &&
	    ask_again(id))
		return;
	if (id.state == State::rep_received)
		enter_timewait(id);
	else
		close(id);
	body.event = RDMA_CM_EVENT_REJECTED;
	body.status = be16toh(rej.reason);
	copy_private(body.param.conn.private_data, body.param.conn.private_data_len,
		     rej.private_data);
	post(id, body);
}

void Agent::on_dreq(Id &id, const Arrival &arrival)
{
	const State was = id.state;

	if (high24(arrival.mad.dreq.remote_qpn) != id.qpn) {
		count(Counter::cm_unexpected);
		return;
	}
	id.tid = be64toh(arrival.mad.hdr.tid);
	switch (was) {
	case State::timewait:
		count(Counter::cm_duplicates);
		send_drep(id);
		return;
	case State::dreq_sent:
		/* Both ends want to end the connection. */
		send_drep(id);
		enter_timewait(id);
		break;
	default:
		stop_timer(id);
		id.state = State::dreq_received;
	}
	post(id, RDMA_CM_EVENT_DISCONNECTED);
}

void Agent::on_drep(Id &id, const Arrival &)
{
	enter_timewait(id);
	post(id, RDMA_CM_EVENT_DISCONNECTED);
}

void Agent::on_sidr_rep(Id &id, const Arrival &arrival)
{
	const sirdma_cm_sidr_rep &rep = arrival.mad.sidr_rep;
	rdma_ucm_event_resp body{};
	rdma_ucm_ud_param &param = body.param.ud;

	if (rep.status == SIRDMA_CM_SIDR_SERVICE_ID && ask_again(id))
		return;
	close(id);
	copy_private(param.private_data, param.private_data_len, rep.private_data);
	if (rep.status != SIRDMA_CM_SIDR_VALID) {
		body.event = RDMA_CM_EVENT_UNREACHABLE;
		body.status = rep.status;
	} else if (!rep.qkey) {
		body.event = RDMA_CM_EVENT_ADDR_ERROR;
		body.status = static_cast<u32>(-EINVAL);
	} else {
		body.event = RDMA_CM_EVENT_ESTABLISHED;
		param.qp_num = high24(rep.qpn);
		param.qkey = be32toh(rep.qkey);
		memcpy(param.ah_attr.grh.dgid, id.peer.ip().b, sizeof(param.ah_attr.grh.dgid));
		param.ah_attr.grh.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
		param.ah_attr.grh.traffic_class = id.traffic_class;
		param.ah_attr.is_global = 1;
		param.ah_attr.port_num = 1;
	}
	post(id, body);
}

} // namespace sirdma::twin::cm
