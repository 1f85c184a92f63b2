/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Devices where every RDMA program looks for them: /sys/class/infiniband* and
 * /dev/infiniband, in a mount namespace of the program's own. libibverbs then
 * finds them as it finds those of the kernel, and so do programs that open it by
 * dlopen or read sysfs themselves.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sirdma::cli
{

/* What the tree says of a device; its place in the list is its number. */
struct TreeDevice {
	uint8_t gid[16];
	uint64_t guid;
	std::string netdev;
};

/*
 * Put this process into such a namespace: its own, and of users where that is
 * what it takes. False with @why where that is not possible; nothing has changed then.
 */
bool enter_sysfs_view(const std::vector<TreeDevice> &devices, std::string &why);

} // namespace sirdma::cli
