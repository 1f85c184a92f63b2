/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands of rdma_ucm, by which librdmacm asks for everything. Errors are those of the kernel. */
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <endian.h>
#include <new>
#include <unistd.h>

#include <sirdma/roce.h>

#include "cm/call.hpp"

namespace sirdma::twin::cm
{

namespace
{

/* Ports that are chosen for programs, as by the kernel's default */
constexpr u32 first_free_port = 32768, num_free_ports = 60999 - 32768 + 1;
constexpr u32 port_tries = 4096;

/* Can @addr of this host send to @dst? 0 or an errno. */
int check_reachable(const IpAddress &addr, const IpAddress &dst) noexcept
{
	sockaddr_storage from, to;
	const socklen_t from_len = addr.to_socket(0, from);
	const socklen_t to_len =
		IpAddress(dst.ip(), addr.scope()).to_socket(SIRDMA_ROCE_UDP_PORT, to);
	const int fd = socket(addr.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return errno;
	/* Linux says EINVAL for a way from a loopback address to another host. */
	if (::bind(fd, reinterpret_cast<sockaddr *>(&from), from_len) ||
	    ::connect(fd, reinterpret_cast<sockaddr *>(&to), to_len))
		err = errno == EINVAL ? ENETUNREACH : errno;
	::close(fd);
	return err;
}

/* The address from which this host would send to @dst; any: there is no route. */
IpAddress source_for(const IpAddress &dst) noexcept
{
	sockaddr_storage to, from{};
	socklen_t len = sizeof(from);
	const socklen_t to_len = dst.to_socket(SIRDMA_ROCE_UDP_PORT, to);
	const int fd = socket(dst.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return {};
	if (::connect(fd, reinterpret_cast<sockaddr *>(&to), to_len) ||
	    getsockname(fd, reinterpret_cast<sockaddr *>(&from), &len))
		from = {};
	::close(fd);
	return IpAddress::of(reinterpret_cast<const sockaddr *>(&from));
}

/* 127.0.0.1 or ::1 */
bool is_localhost(const IpAddress &addr) noexcept
{
	return addr.is_v4() ? addr.v4().s_addr == htobe32(INADDR_LOOPBACK) :
			      !memcmp(addr.ip().b, &in6addr_loopback, sizeof(addr.ip().b));
}

ssize_t destroy_parents_id(const void *bytes, size_t len) noexcept
{
	const rdma_ucm_destroy_id_resp resp{};
	rdma_ucm_destroy_id cmd;

	if (len < sizeof(rdma_ucm_cmd_hdr) + sizeof(cmd))
		return -EINVAL;
	memcpy(&cmd, static_cast<const uint8_t *>(bytes) + sizeof(rdma_ucm_cmd_hdr), sizeof(cmd));
	respond(cmd.response, &resp, sizeof(resp));
	return static_cast<ssize_t>(len);
}

} // namespace

Endpoint endpoint_of(const void *at) noexcept
{
	sockaddr_in6 sa;
	Endpoint out;

	memcpy(static_cast<void *>(&sa), at, sizeof(sa));
	if (sa.sin6_family == AF_INET) {
		const auto &v4 = reinterpret_cast<const sockaddr_in &>(sa);

		out = {.family = AF_INET,
		       .addr = IpAddress(v4.sin_addr),
		       .port = be16toh(v4.sin_port)};
	} else if (sa.sin6_family == AF_INET6) {
		out = {.family = AF_INET6,
		       .addr = IpAddress::of(reinterpret_cast<const sockaddr *>(&sa)),
		       .port = be16toh(sa.sin6_port)};
	}
	return out;
}

struct Agent::CommandRow {
	u32 number;
	size_t in_min, out_min;
	int (Agent::*handle)(Call &call);
};

/* What is not here is not implemented. */
const Agent::CommandRow Agent::commands[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, offsetof(rdma_ucm_create_id, reserved),
	 sizeof(rdma_ucm_create_id_resp), &Agent::create_id},
	{RDMA_USER_CM_CMD_DESTROY_ID, offsetof(rdma_ucm_destroy_id, reserved),
	 sizeof(rdma_ucm_destroy_id_resp), &Agent::destroy_id},
	{RDMA_USER_CM_CMD_BIND_IP, offsetof(rdma_ucm_bind_ip, id) + sizeof(u32), 0,
	 &Agent::bind_ip},
	{RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(rdma_ucm_resolve_ip), 0, &Agent::resolve_ip},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(rdma_ucm_resolve_route), 0, &Agent::resolve_route},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof(rdma_ucm_query) - sizeof(u32),
	 offsetof(rdma_ucm_query_route_resp, ibdev_index), &Agent::query_route},
	{RDMA_USER_CM_CMD_CONNECT, offsetof(rdma_ucm_connect, reserved), 0, &Agent::connect},
	{RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen), 0, &Agent::listen},
	{RDMA_USER_CM_CMD_ACCEPT, offsetof(rdma_ucm_accept, reserved), 0, &Agent::accept},
	{RDMA_USER_CM_CMD_REJECT, sizeof(rdma_ucm_reject), 0, &Agent::reject},
	{RDMA_USER_CM_CMD_DISCONNECT, sizeof(rdma_ucm_disconnect), 0, &Agent::disconnect},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(rdma_ucm_init_qp_attr), sizeof(ib_uverbs_qp_attr),
	 &Agent::init_qp_attr},
	{RDMA_USER_CM_CMD_GET_EVENT, sizeof(rdma_ucm_get_event),
	 offsetof(rdma_ucm_event_resp, reserved), &Agent::get_event},
	{RDMA_USER_CM_CMD_SET_OPTION, sizeof(rdma_ucm_set_option), 0, &Agent::set_option},
	{RDMA_USER_CM_CMD_NOTIFY, sizeof(rdma_ucm_notify), 0, &Agent::notify},
	{RDMA_USER_CM_CMD_JOIN_IP_MCAST, offsetof(rdma_ucm_join_ip_mcast, id) + sizeof(u32),
	 sizeof(rdma_ucm_create_id_resp), &Agent::join_ip_multicast},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, offsetof(rdma_ucm_destroy_id, reserved),
	 sizeof(rdma_ucm_destroy_id_resp), &Agent::leave_multicast},
	{RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(rdma_ucm_migrate_id), sizeof(rdma_ucm_migrate_resp),
	 &Agent::migrate_id},
	{RDMA_USER_CM_CMD_QUERY, sizeof(rdma_ucm_query),
	 offsetof(rdma_ucm_query_addr_resp, src_addr), &Agent::query},
	{RDMA_USER_CM_CMD_BIND, offsetof(rdma_ucm_bind, addr) + sizeof(sockaddr_in6), 0,
	 &Agent::bind},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, sizeof(rdma_ucm_resolve_addr), 0, &Agent::resolve_addr},
	{RDMA_USER_CM_CMD_JOIN_MCAST, offsetof(rdma_ucm_join_mcast, addr) + sizeof(sockaddr_in6),
	 sizeof(rdma_ucm_create_id_resp), &Agent::join_multicast},
};

ssize_t Agent::command(int file, const void *bytes, size_t len) noexcept
{
	std::lock_guard hold(lock_);
	const auto channel = channels_.find(file);
	rdma_ucm_cmd_hdr hdr;

	if (len < sizeof(hdr))
		return -EINVAL;
	memcpy(&hdr, bytes, sizeof(hdr));
	/* A parent's: its IDs can be destroyed, which changes nothing here. */
	if (channel == channels_.end())
		return hdr.cmd == RDMA_USER_CM_CMD_DESTROY_ID ? destroy_parents_id(bytes, len) :
								-ENODEV;
	if (hdr.in + sizeof(hdr) > len)
		return -EINVAL;

	const auto row = std::find_if(std::begin(commands), std::end(commands),
				      [&](const CommandRow &r) { return r.number == hdr.cmd; });

	if (row == std::end(commands))
		return hdr.cmd == RDMA_USER_CM_CMD_GET_OPTION ? -ENOSYS : -EINVAL;

	Call call{*channel->second, static_cast<const uint8_t *>(bytes) + sizeof(hdr), hdr.in,
		  hdr.out};

	if (hdr.in < row->in_min)
		return -EINVAL;
	if (hdr.out < row->out_min)
		return -ENOSPC;
	try {
		const int err = (this->*row->handle)(call);

		return err ? -err : static_cast<ssize_t>(len);
	} catch (const std::bad_alloc &) {
		return -ENOMEM;
	}
}

Port *Agent::port_of(const IpAddress &addr)
{
	for (Port *port : host_.ports())
		if (port->address() == addr)
			return port;
	return nullptr;
}

/* IDs */

int Agent::create_id(Call &call)
{
	const auto cmd = parse<rdma_ucm_create_id>(call.in, call.in_len);
	rdma_ucm_create_id_resp resp{};
	uint8_t qp_type;

	switch (cmd.ps) {
	case ::RDMA_PS_TCP:
		qp_type = IBV_QPT_RC;
		break;
	case ::RDMA_PS_UDP:
	case ::RDMA_PS_IPOIB:
		qp_type = IBV_QPT_UD;
		break;
	case ::RDMA_PS_IB:
		qp_type = cmd.qp_type;
		break;
	default:
		return EINVAL;
	}
	if (qp_type != IBV_QPT_RC && qp_type != IBV_QPT_UD)
		return EOPNOTSUPP;

	Id &id = create(call.channel);

	id.uid = cmd.uid;
	id.port_space = cmd.ps;
	id.qp_type = qp_type;
	id.qkey = udp_qkey;
	id.rq_psn = port_random_u32() & SIRDMA_PSN_MASK;
	resp.id = id.handle;
	return respond(cmd.response, &resp, sizeof(resp));
}

int Agent::destroy_id(Call &call)
{
	const auto cmd = parse<rdma_ucm_destroy_id>(call.in, call.in_len);
	rdma_ucm_destroy_id_resp resp{};
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	resp.events_reported = id->events_reported;
	destroy(*id);
	return respond(cmd.response, &resp, sizeof(resp));
}

int Agent::migrate_id(Call &call)
{
	const auto cmd = parse<rdma_ucm_migrate_id>(call.in, call.in_len);
	rdma_ucm_migrate_resp resp{};
	const auto from = channels_.find(static_cast<int>(cmd.fd));

	if (from == channels_.end())
		return EINVAL;

	Channel &old = *from->second;
	Id *id = find(old, cmd.id);

	if (!id)
		return ENOENT;
	resp.events_reported = id->events_reported;
	if (&old == &call.channel)
		return respond(cmd.response, &resp, sizeof(resp));
	for (auto event = old.events.begin(); event != old.events.end();) {
		if (event->id != id->handle) {
			++event;
			continue;
		}
		add_event(call.channel, *event);
		take_token(old);
		event = old.events.erase(event);
	}
	id->channel = &call.channel;
	if (id->state == State::listening)
		for (const auto &entry : ids_)
			if (entry.second->listener == id->handle)
				entry.second->channel = &call.channel;
	return respond(cmd.response, &resp, sizeof(resp));
}

/* Addresses */

/* Reserve the service of the ID's port on each device that the ID may use. */
int Agent::claim(Id &id)
{
	std::vector<Fd> claims;

	for (Port *port : host_.ports()) {
		const bool v4 = port->address().is_v4();

		if (id.port ? id.port != port :
			      v4 != (id.src.family == AF_INET) && (!v4 || id.only_its_family))
			continue;

		Fd file = host_.claim(*port, id.service());

		if (!file)
			return errno;
		claims.push_back(std::move(file));
	}
	id.claims = std::move(claims);
	return 0;
}

/* For a program that asks for port 0 */
int Agent::choose_port(Id &id)
{
	for (u32 i = 0; i < port_tries; ++i) {
		id.src.port =
			static_cast<uint16_t>(first_free_port + port_random_u32() % num_free_ports);

		const int err = claim(id);

		if (err != EADDRINUSE)
			return err;
	}
	return EADDRNOTAVAIL;
}

int Agent::bind_to(Id &id, const Endpoint &to)
{
	if (to.family == AF_UNSPEC)
		return EAFNOSUPPORT;
	if (id.state != State::idle)
		return EINVAL;

	Port *port = to.addr.any() ? nullptr : port_of(to.addr);

	/* As in the kernel, a loopback address of no device means every device. */
	if (!to.addr.any() && !to.addr.is_loopback() && !port)
		return check_reachable(to.addr, to.addr) ? EADDRNOTAVAIL : ENODEV;
	id.src = to;
	id.port = port;

	int err = 0;

	if (!to.port)
		err = choose_port(id);
	else if (!id.reuse_address)
		err = claim(id);
	if (err) {
		id.src = {};
		id.port = nullptr;
		return err;
	}
	id.state = State::bound;
	return 0;
}

int Agent::bind_ip(Call &call)
{
	const auto cmd = parse<rdma_ucm_bind_ip>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	return id ? bind_to(*id, endpoint_of(&cmd.addr)) : ENOENT;
}

int Agent::bind(Call &call)
{
	const auto cmd = parse<rdma_ucm_bind>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);
	const Endpoint to = endpoint_of(&cmd.addr);

	/* For AF_IB, too: librdmacm tries that first, and then uses it no more. */
	if (to.family == AF_UNSPEC)
		return EINVAL;
	return id ? bind_to(*id, to) : ENOENT;
}

/* The device by which @dst is reached. */
int Agent::choose_device(Id &id, const Endpoint &dst)
{
	const std::span<Port *const> ports = host_.ports();
	const IpAddress source = source_for(dst.addr);
	int err = ENODEV;

	if (Port *port = port_of(dst.addr) ? port_of(dst.addr) : port_of(source)) {
		id.port = port;
		return 0;
	}
	/* The route may begin at another address of the interface: a loopback has many. */
	for (Port *port : ports) {
		if (port->address().is_v4() != dst.addr.is_v4())
			continue;
		err = check_reachable(port->address(), dst.addr);
		if (err)
			continue;
		id.port = port;
		return 0;
	}
	return err;
}

/*
 * The address that @dst, as a destination, means to @device. In the kernel the unspecified address
 * and loopback addresses mean the device itself. But twins have loopback addresses: each of them
 * means what it says, and users expect that 127.0.0.1 reaches the other programs of the host.
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

	const u32 service = static_cast<u32>(id.port_space) << 16 | dst.port;
	const IpAddress other = host_.loopback_of(dst.addr, service);

	return other.any() ? own : other;
}

int Agent::resolve(Id &id, const Endpoint *src, Endpoint dst)
{
	if (dst.family == AF_UNSPEC || (src && src->family == AF_UNSPEC))
		return EAFNOSUPPORT;
	if (id.state == State::idle && src) {
		if (const int err = bind_to(id, *src))
			return err;
	}
	if (!id.in(states(State::idle, State::bound)))
		return EINVAL;

	const std::span<Port *const> ports = host_.ports();
	Port *const first = id.port ? id.port : ports.empty() ? nullptr : ports[0];

	if (!first)
		return ENODEV;

	dst.addr = meaning_of(id, dst, *first);
	if (!id.port) {
		if (const int err = choose_device(id, dst))
			return err;
	} else {
		if (id.port->address().is_v4() != dst.addr.is_v4())
			return EINVAL;
		if (const int err = check_reachable(id.port->address(), dst.addr))
			return err;
	}
	id.dst = {.family = id.port->address().family(), .addr = dst.addr, .port = dst.port};
	/* Only a listener's port must be its own: requests are answered by communication ID. */
	if (!id.src.port)
		id.src.port =
			static_cast<uint16_t>(first_free_port + port_random_u32() % num_free_ports);
	id.src.family = id.port->address().family();
	id.src.addr = id.port->address();
	id.peer = id.dst.addr;
	id.state = State::address_resolved;
	post(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

int Agent::resolve_ip(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_ip>(call.in, call.in_len);
	const Endpoint src = endpoint_of(&cmd.src_addr);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	return resolve(*id, src.family == AF_UNSPEC ? nullptr : &src, endpoint_of(&cmd.dst_addr));
}

int Agent::resolve_addr(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_addr>(call.in, call.in_len);
	const Endpoint src = endpoint_of(&cmd.src_addr);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	return resolve(*id, cmd.src_size ? &src : nullptr, endpoint_of(&cmd.dst_addr));
}

int Agent::resolve_route(Call &call)
{
	const auto cmd = parse<rdma_ucm_resolve_route>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (id->state != State::address_resolved)
		return EINVAL;
	id->mtu = static_cast<uint8_t>(sirdma_path_mtu_of_port(id->port->ip_mtu()));
	id->timeout = id->ack_timeout ? id->ack_timeout : packet_lifetime + 1;
	id->state = State::route_resolved;
	post(*id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}

int Agent::set_option(Call &call)
{
	const auto cmd = parse<rdma_ucm_set_option>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);
	const bool is_byte = cmd.optname == RDMA_OPTION_ID_TOS ||
			     cmd.optname == RDMA_OPTION_ID_ACK_TIMEOUT;

	if (!id)
		return ENOENT;
	if (cmd.level != RDMA_OPTION_ID || cmd.optname > RDMA_OPTION_ID_ACK_TIMEOUT)
		return ENOSYS;
	if (cmd.optlen != (is_byte ? sizeof(uint8_t) : sizeof(int)))
		return EINVAL;
	if (!cmd.optval)
		return EFAULT;

	int number = 0;
	uint8_t byte = 0;

	if (is_byte)
		memcpy(&byte, reinterpret_cast<const void *>(cmd.optval), sizeof(byte));
	else
		memcpy(&number, reinterpret_cast<const void *>(cmd.optval), sizeof(number));
	switch (cmd.optname) {
	case RDMA_OPTION_ID_TOS:
		id->traffic_class = byte;
		break;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (byte > 31)
			return EINVAL;
		id->ack_timeout = byte;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		if (id->state != State::idle && number)
			return EINVAL;
		id->reuse_address = number;
		break;
	default:
		if (id->state != State::idle)
			return EINVAL;
		id->only_its_family = number;
	}
	return 0;
}

/* Connections */

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
	if (id->claims.empty())
		if (const int err = claim(*id))
			return err;
	listeners_.emplace(id->service(), id->handle);
	for (const Fd &claim : id->claims) {
		if (host_.serve(claim))
			continue;

		const int err = errno;

		listeners_.erase({id->service(), id->handle});
		return err;
	}
	id->backlog = cmd.backlog && cmd.backlog < backlog_max ? cmd.backlog : backlog_max;
	id->state = State::listening;
	return 0;
}

int Agent::connect(Call &call)
{
	const auto cmd = parse<rdma_ucm_connect>(call.in, call.in_len);
	const rdma_ucm_conn_param &param = cmd.conn_param;
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (!param.valid || id->state != State::route_resolved)
		return EINVAL;

	const size_t room = id->is_datagram() ? SIRDMA_CM_SIDR_REQ_PRIVATE : SIRDMA_CM_REQ_PRIVATE;

	if (param.private_data_len + sizeof(sirdma_cm_ip) > room)
		return EINVAL;
	if (id->is_datagram()) {
		id->state = State::sidr_req_sent;
		send_sidr_req(*id, param);
		return 0;
	}
	id->qpn = param.qp_num & SIRDMA_QPN_MASK;
	id->srq = param.srq;
	id->responder_resources = param.responder_resources;
	id->initiator_depth = param.initiator_depth;
	id->retry_count = std::min<uint8_t>(param.retry_count, 7);
	id->state = State::req_sent;
	send_req(*id, param);
	return 0;
}

int Agent::accept_datagram(Id &id, const rdma_ucm_conn_param &param)
{
	if (param.private_data_len > SIRDMA_CM_SIDR_REP_PRIVATE)
		return EINVAL;
	id.qpn = param.qp_num & SIRDMA_QPN_MASK;
	id.qkey = udp_qkey;
	send_sidr_rep(id, SIRDMA_CM_SIDR_VALID, param.private_data, param.private_data_len);
	close(id);
	return 0;
}

int Agent::accept(Call &call)
{
	const auto cmd = parse<rdma_ucm_accept>(call.in, call.in_len);
	const rdma_ucm_conn_param &param = cmd.conn_param;
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (!param.valid) {
		/* The requester's QP is ready. */
		if (id->state != State::rep_received)
			return EINVAL;
		id->state = State::established;
		send_rtu(*id);
		return 0;
	}
	if (id->state == State::sidr_req_received) {
		const int err = accept_datagram(*id, param);

		if (!err)
			id->uid = cmd.uid;
		return err;
	}
	if (id->state != State::req_received || param.private_data_len > SIRDMA_CM_REP_PRIVATE)
		return EINVAL;
	id->uid = cmd.uid;
	id->qpn = param.qp_num & SIRDMA_QPN_MASK;
	id->srq = param.srq;
	id->responder_resources = param.responder_resources;
	id->initiator_depth = param.initiator_depth;
	id->state = State::rep_sent;
	send_rep(*id, param);
	return 0;
}

int Agent::reject(Call &call)
{
	const auto cmd = parse<rdma_ucm_reject>(call.in, call.in_len);
	const uint16_t reason = cmd.reason ? uint16_t{cmd.reason} :
					     uint16_t{SIRDMA_CM_REJECT_CONSUMER};
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (id->state == State::sidr_req_received) {
		if (cmd.private_data_len > SIRDMA_CM_SIDR_REP_PRIVATE)
			return EINVAL;
		send_sidr_rep(*id, SIRDMA_CM_SIDR_REJECTED, cmd.private_data, cmd.private_data_len);
	} else {
		if (!id->in(states(State::req_received, State::rep_sent, State::rep_received)) ||
		    cmd.private_data_len > SIRDMA_CM_REJ_PRIVATE)
			return EINVAL;
		send_rej(*id, reason, cmd.private_data, cmd.private_data_len);
	}
	close(*id);
	return 0;
}

int Agent::disconnect(Call &call)
{
	const auto cmd = parse<rdma_ucm_disconnect>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	if (id->in(states(State::idle, State::bound, State::address_resolved, State::route_resolved,
			  State::listening)))
		return EINVAL;
	if (id->state == State::established) {
		send_dreq(*id);
	} else if (id->state == State::dreq_received) {
		send_drep(*id);
		enter_timewait(*id);
	}
	/* In other states there is nothing to be said, which the kernel does not refuse. */
	return 0;
}

int Agent::notify(Call &call)
{
	const auto cmd = parse<rdma_ucm_notify>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	/* A message came on the QP, so the peer's RTU was lost. */
	if (cmd.event != IBV_EVENT_COMM_EST || id->state != State::rep_sent)
		return EINVAL;
	stop_timer(*id);
	id->state = State::established;
	post(*id, RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

/* Events */

int Agent::get_event(Call &call)
{
	const auto cmd = parse<rdma_ucm_get_event>(call.in, call.in_len);

	/* The event whose token the caller read is gone. */
	if (call.channel.events.empty())
		return EAGAIN;

	const Event &event = call.channel.events.front();

	if (const int err =
		    respond(cmd.response, &event.body, std::min(call.out_len, sizeof(event.body))))
		return err;
	if (Id *id = find(event.id))
		++id->events_reported;
	if (const auto joined = memberships_.find(event.membership); joined != memberships_.end())
		++joined->second.events_reported;
	if (Id *request = find(event.request)) {
		if (Id *listener = find(event.id))
			++listener->backlog;
		request->listener = 0;
		stop_timer(*request);
	}
	call.channel.events.pop_front();
	return 0;
}

} // namespace sirdma::twin::cm
