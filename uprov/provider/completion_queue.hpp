/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queue: the ring the device fills, without a system call.
 */
#pragma once

#include <cstdint>
#include <span>

#include <infiniband/verbs.h>
#include <sirdma/cqe.h>
#include <sirdma/regs.h>
#include <sirdma/shadow.h>

#include "lock.hpp"
#include "queue_pair.hpp"

namespace sirdma
{

/* A CQE taken off the ring and traced back to its work request. */
struct Completion {
	uint64_t wr_id;
	ibv_wc_status status;
	ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t imm; /* CPU order, or the invalidated rkey */
	unsigned wc_flags;
};

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

	uint32_t capacity() const noexcept { return static_cast<uint32_t>(ring_.size()); }

private:
	enum class Arm : uint8_t { none, solicited, any };

	struct Element {
		const sirdma_cqe *cqe;
		const sirdma_cqe_ext *ext; /* null when there is none */
		uint64_t hdr;
	};

	bool peek(Element &element) const noexcept;
	void consume(const Element &element) noexcept;
	bool take(Completion &completion) noexcept;
	void publish() noexcept;
	void write_arm(Arm want) noexcept;

	QueueLock lock_;
	const std::span<sirdma_cqe> ring_;
	sirdma_cq_shadow *const shadow_;
	uint32_t head_ = 0; /* position looked at next */
	uint64_t valid_ = SIRDMA_CQE_VALID; /* valid bit expected there */
	uint32_t unpublished_ = 0; /* elements consumed since the device was told */
	Arm armed_ = Arm::none; /* what the device was asked for, as long as no event was taken */
	Arm again_ = Arm::none; /* what to ask for when that event is taken */
	uint8_t arm_seq_ = 0;
	sirdma_db_page *page_ = nullptr;
	uint32_t cq_id_ = 0;
};

} // namespace sirdma
