/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Options of IDs. The kernel determines which options are refused, and by which error. */
#include <cerrno>
#include <cstring>
#include <endian.h>

#include <infiniband/sa.h>

#include "cm/call.hpp"

namespace sirdma::twin::cm
{

namespace
{

constexpr u32 value_max = 4 << 20; /* the kernel's limit of an allocation */
constexpr u32 path_flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
constexpr uint8_t path_value = 0x3f; /* of a byte that begins with a selector */

} // namespace

int Agent::set_only_its_family(Id &id, bool only)
{
	if (!id.in(states(State::idle, State::bound)))
		return EINVAL;
	id.only_its_family = only;
	id.only_its_family_set = true;
	if (id.state != State::bound || id.reuse_address)
		return 0;
	/*
	 * The ID means other devices now, and keeps its port at those that it had. Another process
	 * may have reserved the port at one of the other devices. The kernel accepts this, too:
	 * requests there go to that process.
	 */
	release_claims(id, [&](const Claim &claim) { return !covers(id, *claim.port); });
	claim_rest(id);
	return 0;
}

int Agent::set_id_option(Id &id, u32 name, const uint8_t *value, size_t len)
{
	const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
	int number = 0;

	if (name > RDMA_OPTION_ID_ACK_TIMEOUT)
		return ENOSYS;
	if (len != (is_byte ? sizeof(uint8_t) : sizeof(int)))
		return EINVAL;
	if (!is_byte)
		memcpy(&number, value, sizeof(number));
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id.tos = *value;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		/* The peer does not acknowledge datagrams. */
		if (id.is_datagram())
			return EINVAL;
		id.ack_timeout = *value;
		id.ack_timeout_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (id.state != State::idle && (!number || id.state == State::listening))
			return EINVAL;
		id.reuse_address = number;
		/* See own_port() for the reason. */
		if (number)
			release_claims(id);
		return 0;
	default:
		return set_only_its_family(id, number);
	}
}

/* This is a route that the program has from elsewhere. */
int Agent::set_path(Id &id, const uint8_t *paths, size_t len)
{
	ibv_path_data path;

	if (len % sizeof(path))
		return EINVAL;
	for (; len; len -= sizeof(path), paths += sizeof(path)) {
		memcpy(&path, paths, sizeof(path));
		if (path.flags == path_flags)
			break;
	}
	if (!len || !id.port || id.state != State::address_resolved)
		return EINVAL;
	if (id.dst.family == AF_IB)
		return ENODEV;
	route_resolved(id, path.path.mtu & path_value, path.path.tclass,
		       path.path.packetlifetime & path_value);
	return 0;
}

int Agent::set_option(Call &call)
{
	const auto cmd = parse<rdma_ucm_set_option>(call.in, call.in_len);

	if (cmd.optlen > value_max)
		return EINVAL;

	Id *id = find(call.channel, cmd.id);
	const auto *value = reinterpret_cast<const uint8_t *>(cmd.optval);

	if (!id)
		return ENOENT;
	if (cmd.optlen && !value)
		return EFAULT;
	switch (cmd.level) {
	case RDMA_OPTION_ID:
		return set_id_option(*id, cmd.optname, value, cmd.optlen);
	case RDMA_OPTION_IB:
		return cmd.optname == RDMA_OPTION_IB_PATH ? set_path(*id, value, cmd.optlen) :
							    ENOSYS;
	default:
		return ENOSYS;
	}
}

} // namespace sirdma::twin::cm
