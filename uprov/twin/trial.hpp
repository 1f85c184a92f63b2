/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which of two ways to move payload takes less time? That depends on the two processors: what caches they
 * share, and how a line gets from one to the other. So both ways are measured in use. A virtual processor
 * moves to other places, so after some seconds they are measured again.
 */
#pragma once

#include "ticks.hpp"

namespace sirdma::twin
{

enum class Way : bool { first, second };

class Trial {
public:
	/* Transfers of each way that are measured, and how long the result holds, us. Not tuned. */
	static constexpr u32 transfers = 32;
	static constexpr u64 result_holds_us = 10000000;

	/* The way of the next transfer. */
	Way way() const noexcept { return way_; }
	/* Shall the next transfer be measured? @now: ticks() */
	bool measures(u64 now) noexcept
	{
		if (step_ == Step::decided &&
		    now - decided_at_ > result_holds_us * ticks_per_us()) {
			step_ = Step::current_way;
			count_ = 0;
		}
		return step_ != Step::decided;
	}

	/*
	 * @bytes were moved in @took ticks. Returns true when both ways have been measured: the caller calls
	 * decide(). Call this after measures() returned true.
	 */
	bool note(Way way, u32 bytes, u64 took) noexcept
	{
		/* After a change some transfers still go the other way. */
		if (way != way_)
			return false;
		samples_[count_++] = static_cast<u32>(std::min<u64>(took * 1024 / bytes, ~u32{0}));
		if (count_ < transfers)
			return false;
		count_ = 0;
		cost_[index(way)] = median();
		if (step_ == Step::other_way)
			return true;
		step_ = Step::other_way;
		way_ = way == Way::first ? Way::second : Way::first;
		return false;
	}

	/* What a way took when it was measured last, ticks for 1 KiB; 0: it has not been. */
	u64 cost(Way way) const noexcept { return cost_[index(way)]; }

	void decide(Way way, u64 now) noexcept
	{
		step_ = Step::decided;
		decided_at_ = now;
		way_ = way;
	}

private:
	enum class Step { current_way, other_way, decided }; /* which one is measured */

	static size_t index(Way way) noexcept { return static_cast<size_t>(way); }

	/* Some transfers are interrupted, and of others the device drops the payload. */
	u32 median() noexcept
	{
		const auto middle = samples_.begin() + transfers / 2;

		std::nth_element(samples_.begin(), middle, samples_.end());
		return std::max<u32>(*middle, 1);
	}

	Step step_ = Step::current_way;
	Way way_ = Way::first;
	u32 count_ = 0; /* used entries of samples_ */
	std::array<u32, transfers> samples_; /* ticks for 1 KiB */
	u64 cost_[2] = {};
	u64 decided_at_ = 0;
};

} // namespace sirdma::twin
