/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which of two ways to move payload takes less time? That depends on the two processors: what caches they
 * share, and how a line gets from one to the other. So both ways are measured in use. A virtual processor
 * moves to other places, so that is done again from time to time.
 */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

class Trial {
public:
	/* Transfers of each way that are measured, and how many follow of the one that won. Not tuned. */
	static constexpr u32 measured = 32;
	static constexpr u32 settled = 1 << 16;

	/* The way to go now. */
	bool second() const noexcept { return second_; }
	/* What a way took, ticks for 1 KiB: the least, since others were interrupted. ~0: not known. */
	u64 cost(bool second) const noexcept { return least_[second]; }

	/*
	 * @bytes were moved in @ticks by the first or the second way. Returns true when both have been
	 * measured: the caller calls settle().
	 */
	bool note(bool second, u32 bytes, u64 ticks) noexcept
	{
		/* After a change some transfers still go the other way. */
		if (second != second_)
			return false;
		if (step_ != Step::settled)
			least_[second] = std::min(least_[second], ticks * 1024 / bytes);
		return !--left_ && next();
	}

	void settle(bool second) noexcept
	{
		step_ = Step::settled;
		left_ = settled;
		second_ = second;
	}

private:
	enum class Step { one, other, settled }; /* which way is measured */

	bool next() noexcept
	{
		left_ = measured;
		if (step_ == Step::other)
			return true;
		if (step_ == Step::one) {
			step_ = Step::other;
			second_ = !second_;
		} else {
			step_ = Step::one;
			least_[false] = least_[true] = ~u64{0};
		}
		return false;
	}

	Step step_ = Step::one;
	bool second_ = false;
	u32 left_ = measured; /* transfers until the next step */
	u64 least_[2] = {~u64{0}, ~u64{0}};
};

} // namespace sirdma::twin
