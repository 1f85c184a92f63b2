/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send queue: from work requests to WQEs, and from a completed WQE's position
 * back to its request.
 */
#pragma once

#include <cstdint>
#include <span>

#include <infiniband/verbs.h>

#include "doorbell.hpp"
#include "lock.hpp"
#include "ring.hpp"

namespace sirdma
{

/* What the queue remembers of the WQE that begins in a quantum. */
struct SendSlot {
	uint64_t wr_id;
	uint64_t hdr; /* header word, until it is published */
	uint32_t length; /* bytes of payload */
	uint32_t quanta;
};

/* One work request, whichever interface it came through. */
struct SendWork {
	uint64_t wr_id;
	unsigned opcode; /* enum ibv_wr_opcode, or whatever the application put there */
	unsigned flags; /* IBV_SEND_* */
	uint64_t remote_addr;
	uint32_t key; /* rkey, or the stag to invalidate */
	uint32_t imm; /* CPU order */
	std::span<const ibv_sge> sges;
};

struct SendLimits {
	uint32_t max_sge;
	uint32_t max_read_sge;
	uint32_t max_inline; /* bytes */
	bool signal_all;
};

class SendQueue {
public:
	/*
	 * @ring and @slots hold @quanta elements each, a power of two, more than
	 * SIRDMA_SQ_RSVD_QUANTA; @ring is zeroed.
	 */
	SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots, const SendLimits &limits,
		  QpDoorbell &doorbell, bool locked) noexcept;

	/* ibv_post_send(): 0 or errno with *bad the first request that was not taken. */
	int post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept;

	/*
	 * ibv_wr_start() … ibv_wr_complete(): requests are taken one by one and become
	 * valid together. begin() returns with the queue locked, commit() and abort()
	 * unlock it. @err of commit: nothing becomes valid, and it is returned.
	 */
	void begin() noexcept;
	int take(const SendWork &work) noexcept;
	int commit(int err) noexcept;
	void abort() noexcept;

	/*
	 * A CQE names quantum @position: @done gets the request that began there, and
	 * it and all before it are retired; false when nothing is outstanding there.
	 */
	bool complete(uint32_t position, SendSlot &done) noexcept;

	/* Forget everything, as after RESET. The device must not be looking. */
	void reset() noexcept;

	/* Quanta a request may still take. */
	uint32_t free_quanta() const noexcept;

	const SendLimits &limits() const noexcept { return limits_; }

	std::span<const sirdma_wqe> ring() const noexcept { return ring_; }

private:
	int reserve(uint32_t quanta, uint32_t &index) noexcept;
	void pad(uint32_t from, uint32_t quanta) noexcept;
	void publish(uint32_t from, uint32_t to) noexcept;
	void rewind(uint32_t from, uint32_t to) noexcept;
	int take_inline(const SendWork &work, uint64_t hdr, uint32_t length) noexcept;
	int take_fragments(const SendWork &work, uint64_t hdr, uint32_t length) noexcept;
	void settle(uint32_t index, const SendWork &work, uint64_t hdr, uint32_t length,
		    uint32_t quanta) noexcept;

	QueueLock lock_;
	RingIndex index_;
	const std::span<sirdma_wqe> ring_;
	const std::span<SendSlot> slots_;
	const SendLimits limits_;
	QpDoorbell &doorbell_;
	uint32_t begun_ = 0; /* head when begin() was called */
};

} // namespace sirdma
