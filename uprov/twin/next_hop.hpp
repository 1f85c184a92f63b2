/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Can this host send to an address? The kernel's RDMA core asks that before it makes an address
 * handle, connects a queue pair or resolves an address for rdma_cm: it looks up the route, and
 * waits until the neighbour (the destination, or the router to it) has a link-layer address. UDP
 * sockets do not say so: they drop what they cannot send.
 */
#pragma once

#include "address.hpp"

namespace sirdma::twin
{

/* How long the kernel's RDMA core waits for a neighbour, in address handles and queue pairs */
inline constexpr unsigned next_hop_wait_ms = 1000;

/* Does a route lead from @from, an address of this host, to @to? 0 or an errno. */
int check_route(const IpAddress &from, const IpAddress &to) noexcept;

/*
 * The same, and does the neighbour answer? EAGAIN: it has been asked, and has not answered yet.
 * Where the kernel does not tell (a container may forbid it), the answer is that of check_route().
 */
int check_next_hop(const IpAddress &from, const IpAddress &to) noexcept;

/* The same, and wait for at most next_hop_wait_ms. ETIMEDOUT: the neighbour did not answer. */
int await_next_hop(const IpAddress &from, const IpAddress &to) noexcept;

} // namespace sirdma::twin
