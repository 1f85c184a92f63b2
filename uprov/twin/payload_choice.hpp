/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How payload of middle length should come: copied through the ring, or by reference. A reference takes a
 * system call of the reader, and one copy in place of two. Where processors share a cache, 64 KiB messages
 * had 45 GB/s through the ring and 20 by reference; on an EPYC whose processors share none, 2.1 and 14.
 * (tests/bench/twin, twin-shm-bw-65536.)
 *
 * The two copies are made by two processors: a message alone takes the sum of both, and each message of a
 * stream the longer one. The choice goes by the mean of the two.
 */
#pragma once

#include "trial.hpp"

namespace sirdma::twin
{

/* The side of the reader. */
class PayloadChoice {
public:
	/*
	 * Shorter payload is copied: it is one packet of the largest path MTU, or little more. Longer
	 * payload than bytes_max comes by reference, where that is possible; it would not fit the ring.
	 */
	static constexpr u32 bytes_min = 8 << 10;
	static constexpr u32 bytes_max = 64 << 10;
	/* Class i: lengths from bytes_min << i on; the last one up to bytes_max. */
	static constexpr u32 classes = 3;

	static constexpr u32 class_of(u32 bytes) noexcept
	{
		return (bytes >= 2 * bytes_min) + (bytes >= 4 * bytes_min);
	}
	static constexpr bool chooses(size_t bytes) noexcept
	{
		return bytes >= bytes_min && bytes <= bytes_max;
	}

	/* Should payload of this class come by reference? */
	bool refers(u32 length_class) const noexcept
	{
		return trials_[length_class].way() == reference;
	}
	/* Shall the next payload, of @bytes, be measured? @now: ticks() */
	bool measures(u32 bytes, u64 now) noexcept
	{
		return trials_[class_of(bytes)].measures(now);
	}
	/*
	 * The reader took @bytes of payload from @start to @now, ticks(), and the writer copies at
	 * @copy_cost ticks for 1 KiB. Returns true if refers() has changed. Call this after measures()
	 * returned true.
	 */
	bool note(bool by_reference, u32 bytes, u64 start, u64 now, u32 copy_cost) noexcept
	{
		Trial &trial = trials_[class_of(bytes)];
		const Way before = trial.way();

		if (trial.note(by_reference ? reference : copy, bytes, now - start)) {
			const u64 read = trial.cost(copy);
			const u64 both = (read + copy_cost + std::max<u64>(read, copy_cost)) / 2;

			trial.decide(trial.cost(reference) < both ? reference : copy, now);
		}
		return trial.way() != before;
	}

private:
	static constexpr Way copy = Way::first, reference = Way::second;

	Trial trials_[classes];
};

} // namespace sirdma::twin
