/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How processes of one user find each other by address: abstract UNIX sockets,
 * which exist per network namespace, as addresses do, and vanish with their
 * process. A name bound is a lock that no dead process can hold.
 */
#pragma once

#include "address.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

/*
 * The queue pair numbers of an address are dealt out in slots, one to a process,
 * so that the number in a packet names the process.
 */
inline constexpr uint32_t qpns_per_slot = 4096;
inline constexpr uint32_t num_slots = 64;
/* In place of a slot: the owner of the UDP port. */
inline constexpr uint32_t port_owner = num_slots;

inline uint32_t slot_of(uint32_t qpn) noexcept
{
	return qpn / qpns_per_slot;
}

/* A listening socket, or none with errno: EADDRINUSE when a live process has the name. */
Fd rendezvous_listen(const IpAddress &addr, uint32_t slot) noexcept;

/*
 * Connected to the process that has the name, if it is of this user; none with errno:
 * EADDRNOTAVAIL when the address is not this host's, whoever has the name.
 */
Fd rendezvous_connect(const IpAddress &addr, uint32_t slot) noexcept;

/* The process at the other end of @sock has this name; false with errno. */
bool rendezvous_is(int sock, const IpAddress &addr, uint32_t slot) noexcept;

/* The next process that connected and is of this user; none when nobody waits. */
Fd rendezvous_accept(int listener) noexcept;

} // namespace sirdma::twin
