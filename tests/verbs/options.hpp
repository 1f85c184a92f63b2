// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the test program was told on its command line or, failing that, in the environment.
#pragma once

#include "device.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace verbs
{

struct Options {
	std::string device; // VERBS_DEVICE; the first one when empty
	std::string peer_device; // VERBS_PEER_DEVICE; the same device when empty
	GidChoice gid; // VERBS_GID_INDEX, VERBS_IP
	GidChoice peer_gid; // VERBS_PEER_GID_INDEX
	std::string unreachable; // VERBS_UNREACHABLE: an address on the link that nobody answers for
	uint64_t seed = 1; // VERBS_SEED
	double patience = 1.0; // VERBS_PATIENCE: stretches every time limit, for slow machines
	bool exhaust =
		false; // VERBS_EXHAUST: the device was made small, so that its ends can be reached
	bool unpinned =
		false; // VERBS_UNPINNED: the device runs in this process and cannot hold its pages
	bool lossy = false; // VERBS_LOSSY: packets are lost on the way
	std::string spare_netdev; // VERBS_SPARE_NETDEV: one on which devices may be made and removed
	bool change_mtu = false; // VERBS_CHANGE_MTU: a test may change the MTU of a device's netdev
	bool list_exceptions = false;
};

Options &options();

// Takes the options it knows out of argv; returns false (after printing why) on a bad one.
bool parse_options(int *argc, char **argv);

// How long a test waits for something that must happen.
std::chrono::milliseconds patience(int milliseconds = 20000);

} // namespace verbs
