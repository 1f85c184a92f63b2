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
 * The queue pair numbers of an address, as many as the device has, are dealt out in
 * slots, one to a process, so that the number in a packet names the process. The first
 * processes get large slots. Whoever wants a thousand at one address wants small ones.
 */
inline constexpr uint32_t num_qpns = 1 << 18;
inline constexpr uint32_t num_large_slots = 32, qpns_per_slot = 4096;
inline constexpr uint32_t num_small_slots = 1024, qpns_per_small_slot = 128;
inline constexpr uint32_t num_slots = num_large_slots + num_small_slots;
inline constexpr uint32_t first_small_qpn = num_large_slots * qpns_per_slot;

static_assert(first_small_qpn + num_small_slots * qpns_per_small_slot == num_qpns);

/*
 * In place of a slot: the owner of the UDP port. Another value when what an owner and its
 * members say to each other changes.
 */
inline constexpr uint32_t port_owner = ~1u;

/* num_slots or more: nobody's. */
constexpr uint32_t slot_of(uint32_t qpn) noexcept
{
	return qpn < first_small_qpn ?
		       qpn / qpns_per_slot :
		       num_large_slots + (qpn - first_small_qpn) / qpns_per_small_slot;
}

constexpr uint32_t first_qpn_of(uint32_t slot) noexcept
{
	return slot < num_large_slots ?
		       slot * qpns_per_slot :
		       first_small_qpn + (slot - num_large_slots) * qpns_per_small_slot;
}

/* A listening socket, or none with errno: EADDRINUSE when a live process has the name. */
Fd rendezvous_listen(const IpAddress &addr, uint32_t slot) noexcept;

/*
 * Of a listening socket that another process made: from now on those who connect see this
 * process's credentials, and accepting never blocks.
 */
bool rendezvous_take(int listener) noexcept;

/*
 * Connected to the process that has the name, if it is of this user; none with errno:
 * EADDRNOTAVAIL when the address is not this host's, whoever has the name.
 */
Fd rendezvous_connect(const IpAddress &addr, uint32_t slot) noexcept;

/* The process at the other end of @sock has this name; false with errno. */
bool rendezvous_is(int sock, const IpAddress &addr, uint32_t slot) noexcept;

/*
 * The next process that connected and is of this user; none when nobody waits. Others are
 * hung up on and counted. @spare is a file, which stands in when there is room for no other:
 * then who waits is hung up on as well, or it would wait for ever and keep us awake.
 */
Fd rendezvous_accept(int listener, Fd &spare, uint64_t &refused) noexcept;
/* A file that is good for nothing else. */
Fd spare_file() noexcept;

} // namespace sirdma::twin
