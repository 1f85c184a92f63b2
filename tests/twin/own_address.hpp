/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses of a test's own: two for each process of the machine, above those that
 * twins choose by themselves (127.64.0.0/16). So neither tests nor checkouts that run
 * at the same time meet.
 */
#pragma once

#include <arpa/inet.h>
#include <unistd.h>

#include "address.hpp"

namespace sirdma::twin::test
{

/* The first or second (@which 0 or 1) address of process @pid, 127.128.0.0/9: 22 bits of it and one. */
inline IpAddress own_address(unsigned which, pid_t pid = getpid())
{
	constexpr uint32_t base = 127u << 24 | 128u << 16;

	return IpAddress(
		in_addr{htonl(base + ((static_cast<uint32_t>(pid) << 1 | which) & 0x7fffff))});
}

} // namespace sirdma::twin::test
