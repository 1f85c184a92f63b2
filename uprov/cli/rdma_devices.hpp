/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The RDMA devices of a machine, of all drivers, as sysfs describes them. */
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sirdma::cli
{

/* An entry of a port's GID table that is not zero. */
struct RdmaGid {
	unsigned index = 0;
	std::string gid; /* eight groups of four hexadecimal digits */
	std::string ipv4; /* empty unless the GID is an IPv4 address */
	std::string type; /* in the words of sysfs: "RoCE v2", "IB/RoCE v1" */
	std::string netdev; /* empty: there is none */
};

struct RdmaPort {
	unsigned number = 0;
	std::string state; /* "ACTIVE", "DOWN" … */
	std::string phys_state; /* "LinkUp", "Disabled" … */
	std::string link_layer; /* "Ethernet" or "InfiniBand" */
	std::string rate;
	std::string netdev; /* empty: there is none, or it is not known */
	/*
	 * No value: sysfs does not show the interface, as when it is in another network namespace.
	 */
	std::optional<bool> netdev_up;
	std::vector<RdmaGid> gids;
};

struct RdmaDevice {
	std::string name;
	std::string node_type; /* "CA", "RNIC" … */
	std::string node_guid;
	std::vector<RdmaPort> ports;
};

/* The devices below @sysfs (/sys except in tests), in the order of the numbers in their names. */
std::vector<RdmaDevice> sysfs_devices(const std::string &sysfs);

/*
 * The devices that programs see: those of /sys, or in sirdma run's preload view those of the
 * twin, which that view does not put into /sys.
 */
std::vector<RdmaDevice> visible_devices();

/*
 * The word for a GID's type in vendors' lists: v1, v2, IB or iWARP. It is empty if the type cannot
 * be read.
 */
std::string gid_version(const RdmaDevice &device, const RdmaPort &port, const RdmaGid &gid);

} // namespace sirdma::cli
