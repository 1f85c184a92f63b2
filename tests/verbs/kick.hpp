// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The kick as a command to the kernel driver (include/sirdma/abi.h), which the provider gives in ibv_post_send().
#pragma once

#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sirdma/abi.h>

namespace verbs
{

// The errno of a kick of queue pair `qpn` by the open file, 0 if the device takes it. `attrs`: 1, or another number of
// attributes, which is wrong.
inline int kick(int cmd_fd, uint32_t qpn, uint16_t attrs = 1)
{
	ib_uverbs_ioctl_hdr header = {};
	ib_uverbs_attr attr = {};
	alignas(ib_uverbs_ioctl_hdr) std::array<std::byte, sizeof(header) + sizeof(attr)> command;

	header.length = static_cast<uint16_t>(sizeof(header) + attrs * sizeof(attr));
	header.object_id = UVERBS_OBJECT_DEVICE;
	header.method_id = SIRDMA_METHOD_KICK;
	header.num_attrs = attrs;
	header.driver_id = SIRDMA_DRIVER_ID;
	attr.attr_id = SIRDMA_ATTR_KICK_QPN;
	attr.len = sizeof(qpn);
	attr.flags = UVERBS_ATTR_F_MANDATORY;
	std::memcpy(&attr.data, &qpn, sizeof(qpn));
	std::memcpy(command.data(), &header, sizeof(header));
	std::memcpy(command.data() + sizeof(header), &attr, sizeof(attr));
	return ioctl(cmd_fd, RDMA_VERBS_IOCTL, command.data()) ? errno : 0;
}

} // namespace verbs
