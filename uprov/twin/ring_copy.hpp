/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies payload into a ring. The ring's cache lines are in the reader's cache, because the reader used them
 * last. An ordinary store must fetch the line from there. Processors that share a cache do so fast, and the
 * payload stays in that cache. On an EPYC whose two processors share none each line takes 27 ns, which is
 * 2 GB/s; with non-temporal stores, which need no line, one copies 12 GB/s. (tests/bench/twin,
 * twin-shm-bw-*.)
 */
#pragma once

#include "trial.hpp"

namespace sirdma::twin
{

class RingCopy {
public:
	/*
	 * Shorter payload is copied by ordinary stores: with the others 1 KiB messages had 0.9 of the
	 * bandwidth and 4 KiB ones 1.2, at 1.07 of the latency, where both were near.
	 */
	static constexpr u32 bytes_min = 4 << 10;

	/* Copy the next @len bytes of @payload. */
	void copy(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept;

	/* Are non-temporal stores in use now? */
	bool non_temporal() const noexcept { return trial_.way() == non_temporal_stores; }
	/* What it takes, ticks for 1 KiB; 0: not known yet. */
	u32 cost() const noexcept { return cost_; }

private:
	static constexpr Way ordinary_stores = Way::first, non_temporal_stores = Way::second;

	void decide(u64 now) noexcept;

	Trial trial_;
	u32 cost_ = 0;
};

} // namespace sirdma::twin
