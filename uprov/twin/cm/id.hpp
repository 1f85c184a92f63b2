/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* An rdma_cm_id, with the connection that it has or wants. */
#pragma once

#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include "cm/host.hpp"

namespace sirdma::twin::cm
{

/*
 * The states of a connection (IBTA 12.9.7) after those of an address: idle -> bound ->
 * address_query -> address_resolved -> route_resolved, or bound -> listening.
 *
 *   requester: route_resolved -> req_sent -> rep_received -> established
 *   listener's: req_received -> rep_sent -> established
 *   both:      established -> dreq_sent or dreq_received -> timewait -> closed
 *   datagrams: route_resolved -> sidr_req_sent -> closed
 *              sidr_req_received -> closed
 *
 * A connection that fails or is rejected is closed.
 */
enum class State : uint8_t {
	idle,
	bound,
	address_query,
	address_resolved,
	route_resolved,
	listening,
	req_sent,
	req_received,
	rep_sent,
	rep_received,
	established,
	dreq_sent,
	dreq_received,
	timewait,
	sidr_req_sent,
	sidr_req_received,
	closed,
};

/* Events, by the numbers of librdmacm, whose header does not go with <rdma/rdma_user_cm.h>. */
enum EventType : u32 {
	RDMA_CM_EVENT_ADDR_RESOLVED = 0,
	RDMA_CM_EVENT_ADDR_ERROR = 1,
	RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
	RDMA_CM_EVENT_CONNECT_REQUEST = 4,
	RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
	RDMA_CM_EVENT_UNREACHABLE = 7,
	RDMA_CM_EVENT_REJECTED = 8,
	RDMA_CM_EVENT_ESTABLISHED = 9,
	RDMA_CM_EVENT_DISCONNECTED = 10,
	RDMA_CM_EVENT_MULTICAST_JOIN = 12,
	RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
};

/* A set of states. */
using States = uint32_t;

template <typename... S> constexpr States states(S... s) noexcept
{
	return ((1u << static_cast<unsigned>(s)) | ...);
}

/* An address and a port of rdma_cm. */
struct Endpoint {
	int family = AF_UNSPEC;
	IpAddress addr; /* of AF_IB: the GID */
	uint16_t port = 0;
	uint16_t pkey = 0; /* this and the next one: of AF_IB */
	u64 service_id = 0;
};

/* struct sockaddr_ib of the kernel, whose header is no part of its user interface */
struct SockaddrIb {
	__u16 family;
	__be16 pkey;
	__be32 flowinfo;
	__u8 gid[16];
	__be64 service_id;
	__be64 service_id_mask;
	__u64 scope_id;
};
static_assert(sizeof(SockaddrIb) == 48);

struct Channel;

/* A reservation of the service of an ID's port at a device, see Host::claim(). */
struct Claim {
	const Port *port;
	Fd file;
};

struct Id {
	u32 handle = 0;
	u64 uid = 0; /* 0: the program has not accepted it yet */
	uint16_t port_space = 0;
	uint8_t qp_type = 0;
	State state = State::idle;
	Channel *channel = nullptr;
	u32 events_reported = 0;
	u32 listener = 0; /* handle of the listener of a request that the program has not fetched */

	Endpoint src, dst;
	Endpoint bound; /* src until an address was resolved */
	Port *port = nullptr; /* null: any device */
	bool chose_device = false; /* port leads to dst, but the ID is not bound to it */
	bool reuse_address = false;
	bool only_its_family = false; /* AFONLY, or the default of the family */
	bool only_its_family_set = false; /* set by the program */
	uint8_t tos = 0; /* value for routes that are resolved from now on */
	uint8_t traffic_class = 0; /* value of the route */
	uint8_t ack_timeout = 0; /* timeout of the QP, set by the program */
	bool ack_timeout_set = false;
	std::vector<Claim> claims;
	u32 backlog = 0; /* number of requests for which a listener still has room */

	/* The connection */
	u32 remote_id = 0;
	u64 remote_guid = 0; /* if not 0, the ID is in Agent::by_remote_ */
	IpAddress peer;
	u64 tid = 0;
	u32 qpn = 0, remote_qpn = 0;
	u32 rq_psn = 0, sq_psn = 0;
	u32 qkey = 0;
	uint8_t responder_resources = 0, initiator_depth = 0;
	uint8_t retry_count = 0, rnr_retry_count = 0;
	uint8_t mtu = 0; /* enum ibv_mtu */
	uint8_t timeout = 0; /* timeout of the QP, 4.096 us << n */
	bool srq = false;
	rdma_ucm_ece ece{}; /* ECE of this end */

	/* The timer, and the message that it repeats. */
	u64 due = 0; /* 0: the timer does not run */
	u64 period_ns = 0;
	u64 deadline = 0; /* deadline of address_query */
	unsigned tries_left = 0;
	unsigned refusals = 0; /* how often the peer had no listener */
	sirdma_mad message{};

	bool is_datagram() const noexcept { return qp_type == IBV_QPT_UD; }
	bool in(States set) const noexcept { return set >> static_cast<unsigned>(state) & 1; }
	u32 service() const noexcept { return service_at(src.port); }
	u32 service_at(uint16_t of_port) const noexcept
	{
		const u64 space = bound.family == AF_IB ? bound.service_id >> 16 : port_space;

		return static_cast<u32>(space) << 16 | of_port;
	}
};

} // namespace sirdma::twin::cm
