/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How payload of middle length should come: copied through the ring, or by reference. A reference takes a
 * system call of the reader, and one copy in place of two. Where the processors share a cache, 16 KiB
 * messages have 27 GB/s through the ring and 6.9 by reference; where they share none, 2.0 and 5.6.
 */
#pragma once

#include "trial.hpp"

namespace sirdma::twin
{

/* The side of the reader. */
class PayloadChoice {
public:
	/* Shorter payload is copied. Longer payload than bytes_max comes by reference, where that is possible. */
	static constexpr u32 bytes_min = 8 << 10;
	static constexpr u32 bytes_max = 64 << 10;
	/* Lengths from bytes_min, twice, and four times bytes_min on. */
	static constexpr u32 classes = 3;

	static constexpr u32 class_of(u32 bytes) noexcept
	{
		return (bytes >= 2 * bytes_min) + (bytes >= 4 * bytes_min);
	}

	/* Should payload of this class come by reference? */
	bool refers(u32 of) const noexcept { return trials_[of].second(); }

	/*
	 * The reader took @bytes of payload in @ticks, which the writer had copied at @cost ticks for 1
	 * KiB; 0: it has not measured that yet. Returns true if refers() may have changed.
	 */
	bool note(bool by_reference, u32 bytes, u64 ticks, u32 cost) noexcept
	{
		if (bytes < bytes_min || bytes > bytes_max || !cost)
			return false;

		Trial &trial = trials_[class_of(bytes)];
		const bool before = trial.second();

		if (trial.note(by_reference, bytes, ticks))
			trial.settle(trial.cost(true) < trial.cost(false) + cost);
		return trial.second() != before;
	}

private:
	Trial trials_[classes]; /* second: by reference */
};

} // namespace sirdma::twin
