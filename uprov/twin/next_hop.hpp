/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Can this host send to an address? The kernel's RDMA core asks that before it makes an address
 * handle, connects a queue pair or resolves an address for rdma_cm: it looks up the route, and
 * waits until the neighbour (the destination, or the router to it) has a link-layer address. UDP
 * sockets do not report this: they drop datagrams that they cannot send.
 */
#pragma once

#include "address.hpp"

namespace sirdma::twin
{

/*
 * The time to wait for a neighbour, for address handles and queue pairs. The kernel's RDMA core waits
 * for 1,000 ms, but the kernel repeats a request that was lost only then (retrans_time_ms), as when a
 * link goes down and comes up. Two requests may be lost here.
 */
inline constexpr unsigned next_hop_wait_ms = 2500;

/* Does a route lead from @from, an address of this host, to @to? Returns 0 or an errno. */
int check_route(const IpAddress &from, const IpAddress &to) noexcept;

/*
 * Does a route lead there, and does the neighbour answer? Returns EAGAIN if the kernel has asked
 * the neighbour, which has not answered yet, or if the netdev of @from is down: it may come up.
 * Where the kernel does not tell (a container may forbid it), the result is that of check_route().
 */
int check_next_hop(const IpAddress &from, const IpAddress &to) noexcept;

/*
 * Check the next hop, and wait for at most next_hop_wait_ms. Returns ETIMEDOUT if the neighbour did
 * not answer, or ENETUNREACH if the netdev did not come up.
 */
int await_next_hop(const IpAddress &from, const IpAddress &to) noexcept;

} // namespace sirdma::twin
