/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The files of RDMA devices in sysfs. */
#pragma once

#include <string>
#include <vector>

#include "sysfs_view.hpp"

namespace sirdma::cli
{

/*
 * Write the files below @classes/infiniband, @classes/infiniband_verbs and
 * @classes/infiniband_mad, which exist. Returns 0 or an errno.
 */
int write_sysfs_tree(const std::string &classes, const std::vector<TreeDevice> &devices,
		     dev_t device_node);

} // namespace sirdma::cli
