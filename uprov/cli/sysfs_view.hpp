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

/*
 * The properties of a device that sysfs shows. The index of the device in the list is the number in
 * its name.
 */
struct TreeDevice {
	uint8_t gid[16];
	uint64_t guid;
	std::string netdev;
};

/*
 * Move this process into a mount namespace of its own with @devices in it, and into a user
 * namespace if it has no privilege otherwise. Returns false with @why if that is not possible;
 * nothing has changed then.
 */
bool enter_sysfs_view(const std::vector<TreeDevice> &devices, std::string &why);

} // namespace sirdma::cli
