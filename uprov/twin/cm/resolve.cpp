/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path to a peer: which device, address and route lead there. Errors are those of the kernel.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <new>
#include <unistd.h>

#include <sirdma/roce.h>

#include "cm/call.hpp"
#include "next_hop.hpp"

namespace sirdma::twin::cm
{

namespace
{

/*
 * An ID asks after first_poll_ns whether its neighbour has answered; a neighbour on a LAN answers
 * in less than 1 ms. Each wait is twice as long as the one before, up to last_poll_ns, so that many
 * IDs which wait for an absent neighbour use little of the processor.
 */
constexpr u64 first_poll_ns = 10 * ns_per_ms, last_poll_ns = 80 * ns_per_ms;
static_assert(first_poll_ns >= HopCache::period_ns, "the first answer would be the old one");
constexpr unsigned timeout_max = 31; /* the largest value of five bits */

/* The address from which this host would send to @dst; any: there is no route. */
IpAddress source_for(const IpAddress &dst) noexcept
{
	sockaddr_storage to, from{};
	socklen_t len = sizeof(from);
	const socklen_t to_len = dst.to_socket(SIRDMA_ROCE_UDP_PORT, to);
	const Fd fd(socket(dst.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));

	if (!fd)
		return {};
	if (::connect(fd.get(), reinterpret_cast<sockaddr *>(&to), to_len) ||
	    getsockname(fd.get(), reinterpret_cast<sockaddr *>(&from), &len))
		from = {};
	return IpAddress::of(reinterpret_cast<const sockaddr *>(&from));
}

/* 127.0.0.1 or ::1 */
bool is_localhost(const IpAddress &addr) noexcept
{
	return addr.is_v4() ? addr.v4().s_addr == htobe32(INADDR_LOOPBACK) :
			      !memcmp(addr.ip().b, &in6addr_loopback, sizeof(addr.ip().b));
}

/* The device that gives an unspecified or loopback address @dst its meaning, or null. */
Port *device_for(std::span<Port *const> ports, const IpAddress &dst) noexcept
{
	Port *best = ports.empty() ? nullptr : ports[0];
	bool is_of_family = false;

	for (Port *port : ports) {
		if (port->address().is_v4() != dst.is_v4())
			continue;
		if (dst.is_loopback() && port->address().is_loopback())
			return port;
		if (!is_of_family)
			best = port;
		is_of_family = true;
	}
	return best;
}

} // namespace

/* The device that reaches @dst. */
int Agent::choose_device(Id &id, const IpAddress &dst)
{
	const std::span<Port *const> ports = host_.ports();
	int err = ENODEV;

	id.port = port_of(dst);
	if (!id.port)
		id.port = port_of(source_for(dst));
	if (id.port)
		return 0;
	/* The route may begin at another address of the interface: a loopback has many. */
	for (Port *port : ports) {
		if (port->address().is_v4() != dst.is_v4())
			continue;
		err = check_route(port->address(), dst);
		if (err)
			continue;
		id.port = port;
		return 0;
	}
	return err;
}

/*
 * The address that @dst, as a destination, means to @device. In the kernel the unspecified address
 * and loopback addresses mean the device itself. But twins have loopback addresses: each of these
 * addresses means the twin that has it, and users expect that 127.0.0.1 reaches the other programs
 * of the host.
 */
IpAddress Agent::meaning_of(const Id &id, const Endpoint &dst, const Port &device)
{
	const IpAddress &own = device.address();

	if (dst.family != own.family() || port_of(dst.addr))
		return dst.addr;
	if (dst.addr.any())
		return own;
	if (!dst.addr.is_loopback())
		return dst.addr;
	if (!own.is_loopback())
		return own;
	if (!is_localhost(dst.addr))
		return dst.addr;

	const IpAddress other = host_.loopback_of(dst.addr, id.service_at(dst.port));

	return other.any() ? own : other;
}

/*
 * The ID is bound afterwards. As in the kernel, it is bound even if its address cannot be resolved.
 */
int Agent::prepare(Id &id, const Endpoint &src, const Endpoint &dst)
{
	if (id.state == State::bound)
		return 0;
	if (src.family != AF_UNSPEC)
		return bind_to(id, src);
	if (id.state != State::idle)
		return EINVAL;
	/* Only the port of a listener must be its own: answers are matched by communication ID. */
	id.bound.family = dst.family;
	id.bound.pkey = dst.pkey;
	id.bound.port = static_cast<uint16_t>(first_free_port + port_random_u32() % num_free_ports);
	id.src = id.bound;
	id.state = State::bound;
	return 0;
}

int Agent::resolve(Id &id, const Endpoint &src, const Endpoint &dst, u32 timeout_ms)
{
	if (const int err = prepare(id, src, dst))
		return err;
	if (id.bound.family != dst.family)
		return EINVAL;
	return dst.family == AF_IB ? resolve_gid(id, dst) : resolve_ip(id, dst, timeout_ms);
}

int Agent::resolve_ip(Id &id, const Endpoint &dst, u32 timeout_ms)
{
	Port *const device = id.port ? id.port : device_for(host_.ports(), dst.addr);
	int err = 0;

	if (!device)
		return ENODEV;

	const IpAddress to = meaning_of(id, dst, *device);

	id.chose_device = !id.port;
	if (!id.port)
		err = choose_device(id, to);
	else if (id.port->address().is_v4() != to.is_v4())
		err = EINVAL;
	if (!err)
		err = host_.next_hop(*id.port, to);
	if (err && err != EAGAIN) {
		unresolve(id);
		return err;
	}
	id.dst = {.family = id.port->address().family(), .addr = to, .port = dst.port};
	id.peer = to;
	if (!err) {
		address_resolved(id);
		return 0;
	}
	id.state = State::address_query;
	id.deadline = host_.now_ns() + timeout_ms * ns_per_ms;
	id.period_ns = first_poll_ns;
	wait_for_neighbour(id);
	return 0;
}

/*
 * An address of InfiniBand names a device that has the GID or, as the kernel's RDMA core sees it, a
 * GID of the same subnet prefix, which all IPv4 addresses have. But no route can be resolved then,
 * because RoCE needs an IP address for it.
 */
int Agent::resolve_gid(Id &id, const Endpoint &dst)
{
	constexpr uint16_t pkey_mask = 0x7fff;
	constexpr size_t prefix_len = 8;
	const auto fits = [&](const Port *port) {
		return !memcmp(port->address().ip().b, dst.addr.ip().b, prefix_len) &&
		       !((dst.pkey ^ SIRDMA_DEFAULT_PKEY) & pkey_mask);
	};
	const std::span<Port *const> ports = host_.ports();
	const auto found = std::find_if(ports.begin(), ports.end(), fits);

	id.chose_device = !id.port;
	if (!id.port) {
		if (found == ports.end())
			return ENODEV;
		id.port = *found;
	}
	id.src.addr = id.port->address();
	id.dst = dst;
	id.peer = dst.addr;
	id.state = State::address_resolved;
	post(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

void Agent::address_resolved(Id &id) noexcept
{
	id.src.family = id.port->address().family();
	id.src.addr = id.port->address();
	id.state = State::address_resolved;
	post(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

/* The address cannot be reached. The program may try another address. */
void Agent::unresolve(Id &id) noexcept
{
	if (id.chose_device)
		id.port = nullptr;
	id.src = id.bound;
	id.state = State::bound;
}

void Agent::wait_for_neighbour(Id &id) noexcept
{
	const u64 now = host_.now_ns(), left = id.deadline > now ? id.deadline - now : 0;

	start_timer(id, std::min(id.period_ns, left));
}

/*
 * Queue a query for the neighbour of @id after those of IDs that came before, so that each ID gets
 * its query. The timer of @id ends the wait at its deadline.
 */
void Agent::queue_query(Id &id) noexcept
{
	const u64 now = host_.now_ns();
	u64 left = id.deadline > now ? id.deadline - now : 0;

	try {
		queries_.push_back(id.handle);
	} catch (const std::bad_alloc &) {
		left = std::min(left, HopCache::period_ns);
	}
	start_timer(id, left);
}

void Agent::poll_addresses() noexcept
{
	while (!queries_.empty()) {
		Id *id = find(queries_.front());

		/* The program may have destroyed the ID meanwhile, or its deadline is over. */
		if (id && id->state == State::address_query && !poll_address(*id))
			return;
		queries_.pop_front();
	}
}

/*
 * Returns false if there were too many queries: the caller tries again in the next period. At its
 * deadline an ID does not wait for that.
 */
bool Agent::poll_address(Id &id) noexcept
{
	const u64 now = host_.now_ns();
	int err = EAGAIN;

	if (!hops_.find(host_, *id.port, id.dst.addr, err) && now < id.deadline)
		return false;
	/*
	 * The ID has the timer of its deadline, or, if the handle was a destroyed ID's, a timer of
	 * its own.
	 */
	stop_timer(id);
	if (err == EAGAIN && now < id.deadline) {
		id.period_ns = std::min(id.period_ns * 2, last_poll_ns);
		wait_for_neighbour(id);
		return true;
	}
	if (!err) {
		address_resolved(id);
		return true;
	}
	/* At the deadline, report ETIMEDOUT for any error, as the kernel does. */
	if (now >= id.deadline)
		err = ETIMEDOUT;
	unresolve(id);
	post(id, RDMA_CM_EVENT_ADDR_ERROR, -err);
	return true;
}

int Agent::resolve_ip(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_ip>(call.in, call.in_len);
	const Endpoint src = endpoint_of(&cmd.src_addr, sizeof(cmd.src_addr));
	const Endpoint dst = endpoint_of(&cmd.dst_addr, sizeof(cmd.dst_addr));

	if ((cmd.src_addr.sin6_family && src.family == AF_UNSPEC) || dst.family == AF_UNSPEC)
		return EINVAL;

	Id *id = find(call.channel, cmd.id);

	return id ? resolve(*id, src, dst, cmd.timeout_ms) : ENOENT;
}

int Agent::resolve_addr(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_addr>(call.in, call.in_len);
	const Endpoint src = endpoint_of(&cmd.src_addr, sizeof(cmd.src_addr));
	const Endpoint dst = endpoint_of(&cmd.dst_addr, sizeof(cmd.dst_addr));

	if (cmd.reserved || (cmd.src_size && cmd.src_size != length_of(src.family)) ||
	    !cmd.dst_size || cmd.dst_size != length_of(dst.family))
		return EINVAL;

	Id *id = find(call.channel, cmd.id);

	return id ? resolve(*id, src, dst, cmd.timeout_ms) : ENOENT;
}

void Agent::route_resolved(Id &id, uint8_t mtu, uint8_t traffic_class, unsigned lifetime) noexcept
{
	id.mtu = mtu;
	id.traffic_class = traffic_class;
	id.timeout = static_cast<uint8_t>(std::min(lifetime + 1, timeout_max));
	id.state = State::route_resolved;
	post(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int Agent::resolve_route(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_route>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (!cmd.timeout_ms || id->state != State::address_resolved)
		return EINVAL;
	/* See resolve_gid() for the reason. */
	if (id->dst.family == AF_IB)
		return ENODEV;
	route_resolved(*id, static_cast<uint8_t>(sirdma_path_mtu_of_port(id->port->ip_mtu())),
		       id->tos, id->ack_timeout ? id->ack_timeout - 1u : packet_lifetime);
	return 0;
}

} // namespace sirdma::twin::cm
