/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes of one user find each other by address: by names of abstract UNIX sockets. These names
 * belong to a network namespace, as addresses do, and disappear with their process. So a bound name
 * is also a lock that a dead process cannot hold.
 */
#pragma once

#include <unistd.h>

#include "address.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

/*
 * The QP numbers of an address are divided into slots. Each process has one slot, so the QP
 * number in a packet identifies the process. The first processes get large slots; later
 * ones get small slots, so that a thousand processes may use one address.
 */
inline constexpr uint32_t num_qpns = 1 << 18;
inline constexpr uint32_t num_large_slots = 32, qpns_per_slot = 4096;
inline constexpr uint32_t num_small_slots = 1024, qpns_per_small_slot = 128;
inline constexpr uint32_t num_slots = num_large_slots + num_small_slots;
inline constexpr uint32_t first_small_qpn = num_large_slots * qpns_per_slot;

static_assert(first_small_qpn + num_small_slots * qpns_per_small_slot == num_qpns);

/*
 * The owner of the UDP port, in place of a slot. A change of the messages between owner and
 * members changes this number.
 */
inline constexpr uint32_t port_owner = ~1u;

/* The slot of a QP number. num_slots or more: the number belongs to no process. */
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

/*
 * A name contains the effective user of its process. A process may change that user later, for example give up root:
 * @opener of the functions below is the effective user that opened the device, whose names all have that user. The
 * kernel reports the credentials that a peer had when it called connect() or listen().
 */

/* Who else than the user that this process has now may be the peer? */
enum class Trust {
	this_user, /* nobody */
	/*
	 * Root, if root opened the device: it may do anything to this process, so that nothing is weakened. Of other users
	 * that opened the device, which this process is no more, none is trusted.
	 */
	opener_if_root,
};

/*
 * Make a listening socket with this name. Returns none with errno; EADDRINUSE: another process has
 * the name.
 */
Fd rendezvous_listen(const IpAddress &addr, uint32_t slot, uid_t opener = geteuid()) noexcept;

/* The same, but no process can connect before rendezvous_take(). */
Fd rendezvous_bind(const IpAddress &addr, uint32_t slot, uid_t opener = geteuid()) noexcept;

/*
 * Take over a listening socket that another process created: processes that connect from now
 * on see the credentials of this process, and accept() does not block.
 */
bool rendezvous_take(int listener) noexcept;

/*
 * Make a socket that is connected to the process with this name, if it belongs to this user, or who else is trusted.
 * Returns none with errno. EADDRNOTAVAIL: the address does not belong to this host.
 */
Fd rendezvous_connect(const IpAddress &addr, uint32_t slot, uid_t opener = geteuid(),
		      Trust trust = Trust::this_user) noexcept;

/*
 * The lowest loopback address of the family at which a process of this user serves name @slot;
 * any(): there is none.
 */
IpAddress rendezvous_find_loopback(bool v4, uint32_t slot) noexcept;

/* Does the process at the other end of @sock have this name? Returns false with errno. */
bool rendezvous_is(int sock, const IpAddress &addr, uint32_t slot,
		   uid_t opener = geteuid()) noexcept;

/*
 * The process group of the process that connected @sock. 0: it cannot be seen, or does not exist
 * any more.
 */
pid_t rendezvous_group(int sock) noexcept;

/*
 * Accept the next connection by a process of this user, or of an opener that is root. Returns none
 * if there is none or, with EBUSY, if other users made many connections and there may be more.
 * Connections by other users are closed and counted. @spare is a file that is closed when no descriptors are left, so that the
 * waiting connection can be accepted and closed; otherwise the listener would stay readable.
 */
Fd rendezvous_accept(int listener, Fd &spare, uint64_t &refused, uid_t opener = geteuid()) noexcept;
/* A file for the parameter @spare of rendezvous_accept(). */
Fd spare_file() noexcept;

} // namespace sirdma::twin
