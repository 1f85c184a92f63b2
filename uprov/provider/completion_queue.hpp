/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queue: the ring the device fills, without a system call.
 */
#pragma once

#include <cstdint>
#include <span>

#include <infiniband/verbs.h>
#include <sirdma/decode.h>
#include <sirdma/regs.h>

#include "lock.hpp"
#include "queue_pair.hpp"

namespace sirdma
{

/* A CQE taken off the ring and traced back to its work request. */
using Completion = sirdma_wc;

class CompletionQueue {
public:
	/* @ring is zeroed and may have any number of elements. */
	CompletionQueue(std::span<sirdma_cqe> ring, sirdma_cq_shadow *shadow, bool locked) noexcept;

	CompletionQueue(const CompletionQueue &) = delete;
	CompletionQueue &operator=(const CompletionQueue &) = delete;

	void attach(sirdma_db_page *page, uint32_t cq_id) noexcept
	{
		page_ = page;
		cq_id_ = cq_id;
	}

	/* ibv_poll_cq(): how many of @wcs were filled. */
	int poll(std::span<ibv_wc> wcs) noexcept;

	/*
	 * Extended polling. begin() returns with the queue locked when it has a
	 * completion, else unlocked and false; end() unlocks.
	 */
	bool begin(Completion &completion) noexcept;
	bool next(Completion &completion) noexcept;
	void end() noexcept;

	/* Ask for an event on the next (solicited) completion. */
	void arm(bool solicited_only) noexcept;
	/* The application took the event that was asked for. */
	void event_taken() noexcept;

	/* @qp is gone: whatever it left in the ring is skipped. */
	void forget(const QueuePair *qp) noexcept;

	uint32_t capacity() const noexcept { return ring_.size; }

private:
	enum class Arm : uint8_t { none, solicited, any };

	bool take(Completion &completion) noexcept;
	void write_arm(Arm want) noexcept;

	QueueLock lock_;
	sirdma_cq_ring ring_;
	Arm armed_ = Arm::none; /* what the device was asked for, as long as no event was taken */
	Arm again_ = Arm::none; /* what to ask for when that event is taken */
	uint8_t arm_seq_ = 0;
	sirdma_db_page *page_ = nullptr;
	uint32_t cq_id_ = 0;
};

} // namespace sirdma
