/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* UDP sockets and their options. */
#pragma once

#include <cstdint>

#include "address.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

/* Set an option. A failure is ignored: an option that an older kernel lacks, or a name space forbids. */
void set_option(int fd, int level, int name, int value) noexcept;

/*
 * A socket that is bound to @port of @addr; 0: to an unused one. It does not block. Its datagrams are not
 * fragmented, and over IPv4 have identification 0, or the number of the segment, which the ICRC covers. Those of a
 * connected socket are numbered at random: connect none. @interface: of a member of the multicast group @addr,
 * else 0. The result is empty, with errno, on failure.
 */
Fd open_udp_socket(const IpAddress &addr, uint16_t port, uint32_t interface = 0) noexcept;

/* Set the size of socket buffers to @bytes; 0: as much as the system permits. */
void size_buffers(int fd, uint32_t bytes) noexcept;

/*
 * Datagrams to a group leave by the interface of @addr, and reach as far as others unless
 * their address handle says otherwise: the default TTL of 1 passes no router.
 */
void set_group_egress(int fd, const IpAddress &addr) noexcept;

/* Make the socket a member of @group on @interface. Returns false with errno. */
bool join_group(int fd, const IpAddress &group, uint32_t interface) noexcept;

} // namespace sirdma::twin
