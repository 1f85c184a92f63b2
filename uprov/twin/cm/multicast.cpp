/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memberships in multicast groups. RoCE has no subnet manager to ask: the program gets at once the
 * address to send to and the group to attach its QP to. This host joins the group when the program
 * attaches that QP.
 */
#include <cerrno>
#include <cstddef>

#include <sirdma/roce.h>

#include "cm/call.hpp"

namespace sirdma::twin::cm
{

int Agent::join(Call &call, u64 response, u64 uid, u32 handle, const Endpoint &group)
{
	Id *id = find(call.channel, handle);
	rdma_ucm_create_id_resp resp{};
	rdma_ucm_event_resp body{};

	if (group.family == AF_UNSPEC)
		return EINVAL;
	if (!id)
		return ENOENT;
	if (!id->port || !id->is_datagram() || group.addr.any() ||
	    !id->in(states(State::bound, State::address_resolved)))
		return EINVAL;
	if (group.family != AF_INET)
		return EOPNOTSUPP; /* The kernel's rdma_cm has no IPv6 groups with RoCEv2 either. */

	do {
		++next_membership_;
	} while (!next_membership_ || memberships_.contains(next_membership_));
	resp.id = next_membership_;
	if (const int err = respond(response, &resp, sizeof(resp)))
		return err;
	memberships_[resp.id] = {.id = id->handle, .uid = uid};

	auto &ah = body.param.ud.ah_attr;

	body.event = RDMA_CM_EVENT_MULTICAST_JOIN;
	body.uid = uid;
	body.id = resp.id;
	body.param.ud.qp_num = SIRDMA_MCAST_QPN;
	body.param.ud.qkey = id->qkey;
	memcpy(ah.grh.dgid, group.addr.ip().b, sizeof(ah.grh.dgid));
	ah.grh.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
	ah.is_global = 1;
	ah.port_num = 1;
	if (id->uid)
		add_event(*id->channel, {.id = id->handle, .membership = resp.id, .body = body});
	return 0;
}

int Agent::join_ip_multicast(Call &call)
{
	const auto cmd = parse<rdma_ucm_join_ip_mcast>(call.in, call.in_len);

	return join(call, cmd.response, cmd.uid, cmd.id, endpoint_of(&cmd.addr, sizeof(cmd.addr)));
}

int Agent::join_multicast(Call &call)
{
	const auto cmd = parse<rdma_ucm_join_mcast>(call.in, call.in_len);
	const Endpoint group = endpoint_of(&cmd.addr, sizeof(cmd.addr));

	if (!cmd.addr_size || cmd.addr_size != length_of(group.family) ||
	    cmd.join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return EINVAL;
	return join(call, cmd.response, cmd.uid, cmd.id, group);
}

int Agent::leave_multicast(Call &call)
{
	const auto cmd = parse<rdma_ucm_destroy_id>(call.in, call.in_len);
	const auto membership = memberships_.find(cmd.id);
	rdma_ucm_destroy_id_resp resp{};

	if (membership == memberships_.end())
		return ENOENT;

	Id *id = find(call.channel, membership->second.id);

	if (!id)
		return EINVAL;
	purge_events(*id, [&](const Event &event) { return event.membership == cmd.id; });
	resp.events_reported = membership->second.events_reported;
	memberships_.erase(membership);
	return respond(cmd.response, &resp, sizeof(resp));
}

} // namespace sirdma::twin::cm
