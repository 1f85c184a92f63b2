/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Waiting for a neighbour that is about to finish something. */
#pragma once

#include <sys/types.h>

namespace sirdma::twin
{

/*
 * A neighbour copies at most SNIC_BURST_BYTES at once, 16 us at 16 GB/s. So many yields take 60 us where
 * no other thread wants the processor: a neighbour that needs longer waits for one. From then on the
 * waiting thread sleeps for 1 ms at a time, little beside reader_stuck_ns.
 */
inline constexpr int wait_yields = 100;

/*
 * Wait for a moment; @tries: how often the caller has called this. @sock leads to the neighbour.
 * Returns false if the neighbour died.
 */
bool wait_for_neighbour(int sock, int tries) noexcept;

/* Does the process execute nothing, because all its threads are stopped, or it has ended? */
bool is_stopped(pid_t pid) noexcept;

} // namespace sirdma::twin
