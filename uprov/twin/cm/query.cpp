/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands that ask for addresses, routes and attributes of a QP */
#include <cstddef>
#include <endian.h>

#include <infiniband/sa.h>
#include <sirdma/roce.h>

#include "cm/call.hpp"
#include "identity.hpp"

namespace sirdma::twin::cm
{

namespace
{

/* Write the address in the form of InfiniBand's, which IP addresses have, too */
void put_ib(const Id &id, const Endpoint &from, void *to) noexcept
{
	SockaddrIb sa{};
	u64 service = id.service_at(from.port);

	if (from.family == AF_IB && from.service_id >> 16)
		service = (from.service_id & ~0xffffull) | from.port;
	sa.family = AF_IB;
	sa.pkey = htobe16(from.family == AF_IB ? from.pkey : id.port ? SIRDMA_DEFAULT_PKEY : 0);
	memcpy(sa.gid, from.addr.ip().b, sizeof(sa.gid));
	sa.service_id = htobe64(service);
	if (from.family == AF_IB)
		sa.service_id_mask = ~0ull;
	memcpy(to, &sa, sizeof(sa));
}

void put_address(const Id &id, const Endpoint &from, void *to) noexcept
{
	sockaddr_storage sa{};

	if (from.family == AF_IB) {
		put_ib(id, from, to);
		return;
	}
	if (from.family == AF_UNSPEC)
		return;
	if (from.family == AF_INET6 && from.addr.any()) {
		auto &v6 = reinterpret_cast<sockaddr_in6 &>(sa);

		v6.sin6_family = AF_INET6;
		v6.sin6_port = htobe16(from.port);
	} else {
		from.addr.to_socket(from.port, sa);
	}
	if (from.family == AF_INET)
		reinterpret_cast<sockaddr_in &>(sa).sin_family = AF_INET;
	memcpy(to, &sa, length_of(from.family));
}

/* The attributes for a QP that is not connected yet */
constexpr u32 init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

void fill_init(const Id &id, ib_uverbs_qp_attr &attr) noexcept
{
	attr.qp_attr_mask = init_mask | IBV_QP_ACCESS_FLAGS;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id.responder_resources)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void fill_rtr(const Id &id, ib_uverbs_qp_attr &attr) noexcept
{
	attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	memcpy(attr.ah_attr.grh.dgid, id.peer.ip().b, sizeof(attr.ah_attr.grh.dgid));
	attr.ah_attr.grh.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
	attr.ah_attr.grh.traffic_class = id.traffic_class;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.path_mtu = id.mtu;
	attr.dest_qp_num = id.remote_qpn;
	attr.rq_psn = id.rq_psn;
	attr.max_dest_rd_atomic = id.responder_resources;
}

void fill_rts(const Id &id, ib_uverbs_qp_attr &attr) noexcept
{
	attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
	attr.sq_psn = id.sq_psn;
	attr.retry_cnt = id.retry_count;
	attr.rnr_retry = id.rnr_retry_count;
	attr.max_rd_atomic = id.initiator_depth;
	attr.timeout = id.ack_timeout_set ? id.ack_timeout : id.timeout;
}

} // namespace

int Agent::query_route(Call &call)
{
	const auto cmd = parse<rdma_ucm_query>(call.in, call.in_len);
	rdma_ucm_query_route_resp resp{};
	Id *id = find(call.channel, cmd.id);
	ib_user_path_rec &path = resp.ib_route[0];

	if (!id)
		return ENOENT;
	/*
	 * The response has no room for addresses of InfiniBand, and librdmacm does not ask for them
	 * in this way.
	 */
	if (id->src.family != AF_IB)
		put_address(*id, id->src, &resp.src_addr);
	if (id->dst.family != AF_IB)
		put_address(*id, id->dst, &resp.dst_addr);
	if (id->port) {
		resp.node_guid = htobe64(device_guid(id->port->address()));
		resp.port_num = 1;
		path.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
		memcpy(path.sgid, id->src.addr.ip().b, sizeof(path.sgid));
		memcpy(path.dgid, id->dst.addr.ip().b, sizeof(path.dgid));
	}
	if (id->mtu) {
		resp.num_paths = 1;
		path.mtu = id->mtu;
		path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;
		path.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
		path.traffic_class = id->traffic_class;
		path.packet_life_time = packet_lifetime;
		path.reversible = 1;
		path.numb_path = 1;
	}
	/* The device has no index: librdmacm then finds it by the GUID. */
	return respond(cmd.response, &resp, offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

namespace
{

void put_device(const Id &id, rdma_ucm_query_addr_resp &resp) noexcept
{
	if (!id.port)
		return;
	resp.node_guid = htobe64(device_guid(id.port->address()));
	resp.port_num = 1;
	resp.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
}

int respond_addr(size_t room, u64 to, const rdma_ucm_query_addr_resp &resp) noexcept
{
	constexpr size_t len = offsetof(rdma_ucm_query_addr_resp, ibdev_index);

	/* The device has no index: librdmacm then finds it by the GUID. */
	return room < len ? ENOSPC : respond(to, &resp, len);
}

} // namespace

int Agent::query_addr(const Id &id, Call &call, u64 response)
{
	rdma_ucm_query_addr_resp resp{};

	resp.src_size = static_cast<__u16>(length_of(id.src.family));
	resp.dst_size = static_cast<__u16>(length_of(id.dst.family));
	put_address(id, id.src, &resp.src_addr);
	put_address(id, id.dst, &resp.dst_addr);
	put_device(id, resp);
	return respond_addr(call.out_len, response, resp);
}

int Agent::query_gid(const Id &id, Call &call, u64 response)
{
	rdma_ucm_query_addr_resp resp{};

	resp.src_size = resp.dst_size = sizeof(SockaddrIb);
	put_ib(id, id.src, &resp.src_addr);
	put_ib(id, id.dst, &resp.dst_addr);
	put_device(id, resp);
	return respond_addr(call.out_len, response, resp);
}

int Agent::query_path(const Id &id, Call &call, u64 response)
{
	constexpr uint8_t exactly = 2 << 6; /* a selector: exactly the value that follows */
	/* struct rdma_ucm_query_path_resp and its first path */
	struct {
		__u32 num_paths, reserved;
		ibv_path_data path;
	} resp{};
	constexpr size_t head = offsetof(decltype(resp), path);
	ibv_path_record &path = resp.path.path;
	const bool fits = call.out_len >= sizeof(resp);

	static_assert(head == sizeof(rdma_ucm_query_path_resp));
	if (call.out_len < head)
		return ENOSPC;
	resp.num_paths = id.mtu ? 1 : 0;
	resp.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	memcpy(path.sgid.raw, id.src.addr.ip().b, sizeof(path.sgid.raw));
	memcpy(path.dgid.raw, id.dst.addr.ip().b, sizeof(path.dgid.raw));
	path.flowlabel_hoplimit = htobe32(SIRDMA_DEFAULT_HOP_LIMIT);
	path.tclass = id.traffic_class;
	path.reversible_numpath = 1 << 7 | 1;
	path.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
	path.mtu = exactly | id.mtu;
	path.rate = exactly;
	path.packetlifetime = exactly | static_cast<uint8_t>(id.timeout ? id.timeout - 1 : 0);
	return respond(response, &resp, id.mtu && fits ? sizeof(resp) : head);
}

int Agent::query(Call &call)
{
	const auto cmd = parse<rdma_ucm_query>(call.in, call.in_len);
	const Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	switch (cmd.option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_addr(*id, call, cmd.response);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(*id, call, cmd.response);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(*id, call, cmd.response);
	default:
		return ENOSYS;
	}
}

int Agent::init_qp_attr(Call &call)
{
	static constexpr States known_peer = states(State::req_received, State::rep_sent,
						    State::rep_received, State::established);
	const auto cmd = parse<rdma_ucm_init_qp_attr>(call.in, call.in_len);
	ib_uverbs_qp_attr attr{};
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (cmd.qp_state > IBV_QPS_ERR || !id->port)
		return EINVAL;
	attr.qp_state = cmd.qp_state;
	attr.port_num = 1;
	if (id->is_datagram()) {
		attr.qp_attr_mask = init_mask | IBV_QP_QKEY;
		attr.qkey = id->qkey;
	} else if (id->in(states(State::bound, State::address_query, State::address_resolved,
				 State::route_resolved))) {
		attr.qp_attr_mask = init_mask | IBV_QP_ACCESS_FLAGS;
	} else if (cmd.qp_state == IBV_QPS_INIT &&
		   (id->state == State::req_sent || id->in(known_peer))) {
		fill_init(*id, attr);
	} else if (cmd.qp_state == IBV_QPS_RTR && id->in(known_peer)) {
		fill_rtr(*id, attr);
	} else if (cmd.qp_state == IBV_QPS_RTS && id->in(known_peer)) {
		fill_rts(*id, attr);
	} else {
		return EINVAL;
	}
	return respond(cmd.response, &attr, sizeof(attr));
}

} // namespace sirdma::twin::cm
