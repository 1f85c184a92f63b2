/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Index arithmetic of the two work rings. Head and tail run freely over 32 bits;
 * sizes are powers of two, so the lap, and with it the valid polarity, is one
 * bit of the index.
 *
 * Head is written by the poster and tail by the poller, each under the lock of
 * its own queue; the other side only reads.
 */
#pragma once

#include <atomic>
#include <cstdint>

#include <sirdma/wqe.h>

namespace sirdma
{

/* Valid bit of a WQE at free-running @index in a ring of @size: set on even laps. */
constexpr uint64_t valid_bit(uint32_t index, uint32_t size) noexcept
{
	return index & size ? 0 : SIRDMA_WQE_VALID;
}

class RingIndex {
public:
	explicit RingIndex(uint32_t size) noexcept : size_(size) {}

	uint32_t size() const noexcept { return size_; }

	uint32_t mask() const noexcept { return size_ - 1; }

	uint32_t head() const noexcept { return head_.load(std::memory_order_relaxed); }

	/*
	 * Move the head before making the elements valid: the poller that sees one
	 * completed (through the device's acquire and release) then sees the head too.
	 */
	void set_head(uint32_t head) noexcept { head_.store(head, std::memory_order_relaxed); }

	/* Elements written and not yet known to be done. Partner: retire_to(). */
	uint32_t used() const noexcept { return head() - tail_.load(std::memory_order_acquire); }

	/*
	 * Free-running index of the outstanding element in position @position; false
	 * when nothing is outstanding there.
	 */
	bool locate(uint32_t position, uint32_t &index) const noexcept
	{
		const uint32_t tail = tail_.load(std::memory_order_relaxed);
		const uint32_t ahead = (position - tail) & mask();

		index = tail + ahead;
		return ahead < head() - tail;
	}

	/* Everything before @index is done and may be overwritten. */
	void retire_to(uint32_t index) noexcept { tail_.store(index, std::memory_order_release); }

	/* Nobody else looks. */
	void reset() noexcept
	{
		head_.store(0, std::memory_order_relaxed);
		tail_.store(0, std::memory_order_relaxed);
	}

private:
	const uint32_t size_;
	std::atomic<uint32_t> head_{0};
	std::atomic<uint32_t> tail_{0};
};

} // namespace sirdma
