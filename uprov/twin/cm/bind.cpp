/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The addresses and ports of an ID. Errors are those of the kernel. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <new>

#include "cm/call.hpp"
#include "next_hop.hpp"

namespace sirdma::twin::cm
{

namespace
{

constexpr u32 port_tries = 4096;

} // namespace

size_t length_of(int family) noexcept
{
	switch (family) {
	case AF_INET:
		return sizeof(sockaddr_in);
	case AF_INET6:
		return sizeof(sockaddr_in6);
	case AF_IB:
		return sizeof(SockaddrIb);
	default:
		return 0;
	}
}

Endpoint endpoint_of(const void *at, size_t room) noexcept
{
	sa_family_t family;
	Endpoint out;

	memcpy(&family, at, sizeof(family));
	if (length_of(family) > room)
		return out;
	if (family == AF_INET) {
		sockaddr_in sa;

		memcpy(&sa, at, sizeof(sa));
		out.addr = IpAddress(sa.sin_addr);
		out.port = be16toh(sa.sin_port);
	} else if (family == AF_INET6) {
		sockaddr_in6 sa;

		memcpy(&sa, at, sizeof(sa));
		out.addr = IpAddress::of(reinterpret_cast<const sockaddr *>(&sa));
		out.port = be16toh(sa.sin6_port);
	} else if (family == AF_IB) {
		SockaddrIb sa;
		sirdma_ip gid;

		memcpy(&sa, at, sizeof(sa));
		memcpy(gid.b, sa.gid, sizeof(gid.b));
		out.addr = IpAddress(gid);
		out.pkey = be16toh(sa.pkey);
		out.service_id = be64toh(sa.service_id);
		out.port = static_cast<uint16_t>(out.service_id & be64toh(sa.service_id_mask));
	} else {
		return out;
	}
	out.family = family;
	return out;
}

Port *Agent::port_of(const IpAddress &addr)
{
	for (Port *port : host_.ports())
		if (port->address() == addr)
			return port;
	return nullptr;
}

/* Do requests that come to @port reach a listener that is bound as @id is? */
bool Agent::covers(const Id &id, const Port &port) noexcept
{
	const bool v4 = port.address().is_v4();

	if (id.port)
		return id.port == &port;
	switch (id.bound.family) {
	case AF_INET:
		return v4;
	case AF_INET6:
		return !v4 || !id.only_its_family;
	default:
		return true;
	}
}

/* May @id have its port beside the other IDs of this process that have it? */
int Agent::check_port(const Id &id, bool shared) noexcept
{
	const u32 service = id.service();

	for (auto at = bound_.lower_bound({service, 0}); at != bound_.end() && at->first == service;
	     ++at) {
		const Id &other = *find(at->second);

		if (&other == &id || (shared && other.reuse_address))
			continue;
		if (id.only_its_family && other.only_its_family &&
		    id.bound.family != other.bound.family)
			continue;
		if (id.bound.addr.any() || other.bound.addr.any())
			return EADDRNOTAVAIL;
		if (id.bound.addr == other.bound.addr)
			return EADDRINUSE;
	}
	return 0;
}

/*
 * Reserve the service of the ID's port on each device that the ID may use. Reserve it on all of
 * them or on none.
 */
int Agent::claim(Id &id) noexcept
{
	std::vector<Claim> claims;

	try {
		for (Port *port : host_.ports()) {
			if (!covers(id, *port))
				continue;

			Fd file = host_.claim(*port, id.service());

			if (!file)
				return errno;
			claims.push_back({port, std::move(file)});
		}
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	}
	id.claims = std::move(claims);
	return 0;
}

/* Reserve the service also on devices where the ID has not, as far as no other process has it. */
void Agent::claim_rest(Id &id) noexcept
{
	const auto has = [&](const Port *port) {
		return std::any_of(id.claims.begin(), id.claims.end(),
				   [&](const Claim &claim) { return claim.port == port; });
	};

	try {
		for (Port *port : host_.ports())
			if (covers(id, *port) && !has(port))
				if (Fd file = host_.claim(*port, id.service()))
					id.claims.push_back({port, std::move(file)});
	} catch (const std::bad_alloc &) {
		port_warn("rdma_cm: no memory to reserve a port at every device");
	}
}

/*
 * Other processes see the reservations of an ID. An ID that shares its port reserves nothing before
 * it listens, so that an ID of another process may share the port too. Until then it only finds out
 * whether the port is reserved.
 */
int Agent::own_port(Id &id)
{
	if (const int err = check_port(id, id.reuse_address))
		return err;
	/* Do this first, because it may throw: nothing is reserved then. */
	const auto entry = bound_.emplace(id.service(), id.handle).first;

	if (const int err = claim(id)) {
		bound_.erase(entry);
		return err;
	}
	if (id.reuse_address)
		release_claims(id);
	return 0;
}

/* Choose a port for a program that asks for port 0. */
int Agent::choose_port(Id &id)
{
	for (u32 i = 0; i < port_tries; ++i) {
		id.src.port =
			static_cast<uint16_t>(first_free_port + port_random_u32() % num_free_ports);

		const int err = check_port(id, false) ? EADDRINUSE : own_port(id);

		if (err != EADDRINUSE)
			return err;
	}
	return EADDRNOTAVAIL;
}

/* The device of the address @to; none means all devices. */
int Agent::find_device(Id &id, const Endpoint &to)
{
	id.port = nullptr;
	if (to.addr.any())
		return 0;
	/* The kernel does not find a RoCE device by an address of InfiniBand either. */
	if (to.family == AF_IB)
		return ENODEV;
	id.port = port_of(to.addr);
	/* As in the kernel, a loopback address that no device has means all devices. */
	if (id.port || to.addr.is_loopback())
		return 0;
	return check_route(to.addr, to.addr) ? EADDRNOTAVAIL : ENODEV;
}

int Agent::bind_to(Id &id, const Endpoint &to)
{
	if (to.family == AF_UNSPEC)
		return EAFNOSUPPORT;
	if (id.state != State::idle)
		return EINVAL;

	int err = find_device(id, to);

	if (err)
		return err;
	id.src = id.bound = to;
	if (!id.only_its_family_set)
		id.only_its_family = to.family == AF_INET;
	err = to.port ? own_port(id) : choose_port(id);
	if (err) {
		release_claims(id);
		id.src = id.bound = {};
		id.port = nullptr;
		return err;
	}
	id.bound.port = id.src.port;
	id.state = State::bound;
	return 0;
}

int Agent::bind_ip(Call &call)
{
	const auto cmd = parse<rdma_ucm_bind_ip>(call.in, call.in_len);
	const Endpoint to = endpoint_of(&cmd.addr, sizeof(cmd.addr));

	if (to.family == AF_UNSPEC)
		return EINVAL;

	Id *id = find(call.channel, cmd.id);

	return id ? bind_to(*id, to) : ENOENT;
}

int Agent::bind(Call &call)
{
	const auto cmd = parse<rdma_ucm_bind>(call.in, call.in_len);
	const Endpoint to = endpoint_of(&cmd.addr, sizeof(cmd.addr));

	if (cmd.reserved || !cmd.addr_size || cmd.addr_size != length_of(to.family))
		return EINVAL;

	Id *id = find(call.channel, cmd.id);

	return id ? bind_to(*id, to) : ENOENT;
}

int Agent::listen(Call &call)
{
	const auto cmd = parse<rdma_ucm_listen>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (id->state == State::idle)
		/* Any address, any port */
		if (const int err = bind_to(*id, {.family = AF_INET}))
			return err;
	if (id->state != State::bound)
		return EINVAL;
	if (id->reuse_address)
		if (const int err = check_port(*id, false))
			return err;
	if (id->claims.empty())
		if (const int err = claim(*id))
			return err;
	listeners_.emplace(id->service(), id->handle);
	for (const Claim &claimed : id->claims) {
		if (host_.serve(claimed.file))
			continue;

		const int err = errno;

		listeners_.erase({id->service(), id->handle});
		/* Some devices may serve already. A later call begins anew. */
		release_claims(*id);
		if (!id->reuse_address)
			claim_rest(*id);
		return err;
	}
	id->reuse_address = false;
	id->backlog = cmd.backlog && cmd.backlog < backlog_max ? cmd.backlog : backlog_max;
	id->state = State::listening;
	return 0;
}

} // namespace sirdma::twin::cm
