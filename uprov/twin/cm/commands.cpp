/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The commands of rdma_ucm, by which librdmacm asks for everything. Errors are those of the kernel.
 */
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

struct Agent::CommandRow {
	u32 number;
	size_t in_min, out_min;
	int (Agent::*handle)(Call &call);
};

/* Commands that are not in the table are not implemented. */
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
	/*
	 * The channel is a parent's: the program may destroy its IDs, which changes nothing here.
	 */
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

/* Connections */

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
	id->ece = cmd.ece;
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
		/* The QP of the requester is ready. */
		if (id->state != State::rep_received)
			return EINVAL;
		id->state = State::established;
		send_rtu(*id);
		return 0;
	}
	if (id->in(states(State::req_received, State::sidr_req_received)))
		id->ece = cmd.ece;
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
	if (reason != SIRDMA_CM_REJECT_CONSUMER && reason != SIRDMA_CM_REJECT_VENDOR_OPTION)
		return EINVAL;

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
	if (id->in(states(State::idle, State::bound, State::address_query, State::address_resolved,
			  State::route_resolved, State::listening)))
		return EINVAL;
	if (id->state == State::established) {
		send_dreq(*id);
	} else if (id->state == State::dreq_received) {
		send_drep(*id);
		enter_timewait(*id);
	}
	/*
	 * In other states there is no message to send, and the kernel does not refuse the command.
	 */
	return 0;
}

int Agent::notify(Call &call)
{
	const auto cmd = parse<rdma_ucm_notify>(call.in, call.in_len);
	Id *id = find(call.channel, cmd.id);

	if (!id)
		return ENOENT;
	/* A message came on the QP: the RTU of the peer was lost. */
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
