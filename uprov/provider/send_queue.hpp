/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send queue: writes work requests as WQEs. Polling finds the request of a completed WQE by its
 * position.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <infiniband/verbs.h>
#include <sirdma/workq.h>

#include "domain_name.hpp"
#include "doorbell.hpp"
#include "lock.hpp"
#include "open_request.hpp"

namespace sirdma
{

using SendSlot = sirdma_sq_slot;

static_assert(sizeof(sirdma_sge) == sizeof(ibv_sge) &&
	      offsetof(sirdma_sge, length) == offsetof(ibv_sge, length) &&
	      offsetof(sirdma_sge, lkey) == offsetof(ibv_sge, lkey));

/* The fragments in the form that the codec reads. */
inline const sirdma_sge *codec_sges(const ibv_sge *sges) noexcept
{
	return reinterpret_cast<const sirdma_sge *>(sges);
}

struct SendLimits {
	uint32_t max_sge;
	uint32_t max_read_sge;
	uint32_t max_inline; /* bytes */
	bool signal_all;
	uint32_t qp_type = SIRDMA_SEND_ON_RC;
	uint32_t lacks = 0; /* see sirdma_sq */
	DomainName domain{}; /* PD of the address handles that datagrams may have */
};

class SendQueue {
public:
	/*
	 * @ring and @slots have @quanta elements each, a power of two and more than
	 * SIRDMA_SQ_RSVD_QUANTA; @ring must be zeroed. The queue is closed.
	 */
	SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots, const SendLimits &limits,
		  bool locked) noexcept;

	/* A queue that is closed refuses requests with EINVAL. */
	void open() noexcept { sirdma_sq_open(&queue_); }
	void close() noexcept;

	/*
	 * ibv_post_send(). Returns 0, or an errno with *bad = the first request that was not
	 * posted.
	 */
	int post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept;

	/*
	 * ibv_wr_start() … ibv_wr_complete(): requests are written one by one and become valid
	 * together. start() locks the queue, complete() and abort() unlock it. complete() returns
	 * the errno of the first request that failed; then nothing was posted.
	 */
	void start() noexcept
	{
		if (!lock_.unshared()) [[unlikely]]
			start_shared();
		else
			lock_.lock_unshared();
	}
	int complete() noexcept;
	void abort() noexcept;

	/* Between start() and complete(): write a request that is described as a whole. */
	int take(const sirdma_send &work) noexcept { return -sirdma_sq_take(&queue_, &work); }

	/*
	 * Between start() and complete(): the parts of a request. Those that are called without a
	 * request that misses them do nothing.
	 *
	 * prepare() ends the request before, and finds room for the next one, of @quanta or more.
	 * Returns false if that fails, or if a request has failed. take_next() does the same and
	 * writes a request as a whole.
	 */
	bool prepare(uint32_t quanta) noexcept;
	void take_next(const sirdma_send &work) noexcept;
	/* Data: fragments, or a copy of bytes. */
	void set_fragments(std::span<const ibv_sge> sges) noexcept;
	void set_inline(std::span<const ibv_data_buf> bufs) noexcept;
	/* The destination of a datagram, or the remote shared receive queue. */
	void set_address(ibv_ah *ah, uint32_t qpn, uint32_t qkey) noexcept;
	void set_srq(uint32_t number) noexcept;
	/* The data of the WQE is written; it adds @bits to the header. */
	void data_is_set(uint32_t quanta, uint32_t length, uint64_t bits) noexcept
	{
		request.hdr |= bits;
		request.quanta = quanta;
		request.length = length;
		is_set(OpenRequest::data | OpenRequest::special);
	}

	/* The open request cannot be posted. */
	void fail(int errno_value) noexcept
	{
		queue_.unfinished = OpenRequest::failed;
		request.err = errno_value;
	}
	bool has_failed() const noexcept { return queue_.unfinished & OpenRequest::failed; }

	/* The request that OpenRequest::one describes is written. */
	void commit_one() noexcept
	{
		queue_.unfinished = 0;
		sirdma_sq_commit(&queue_, 1, request.hdr);
	}

	/* Empty the queue, for RESET. The device must not access the ring. */
	void reset() noexcept;

	bool datagrams() const noexcept { return queue_.qp_type == SIRDMA_SEND_ON_UD; }

	/* Does each request name a remote shared receive queue? */
	bool xrc() const noexcept { return queue_.qp_type == SIRDMA_SEND_ON_XRC; }

	uint32_t max_sge() const noexcept { return queue_.max_sge; }

	/* For completion polling, and for the calls of ibv_wr_*() with the queue locked. */
	sirdma_sq &queue() noexcept { return queue_; }

	OpenRequest request; /* the lock protects it */
	QpDoorbell doorbell; /* of both queues of the QP */

private:
	bool post_plain(const ibv_send_wr &wr) noexcept;
	bool post_inline(const ibv_send_wr &wr) noexcept;
	bool post_single(const ibv_send_wr &wr) noexcept;
	int post_rest(const ibv_send_wr *wr, const ibv_send_wr **bad, bool posted) noexcept;
	int post_contended(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept;
	int take(const ibv_send_wr &wr) noexcept;
	int take_bind(const ibv_send_wr &wr, sirdma_send &work) noexcept;

	void start_shared() noexcept;
	int complete_list() noexcept;
	int publish() noexcept;
	bool end_request() noexcept;
	bool misses_data() noexcept;
	bool place_request(uint32_t quanta) noexcept;
	/* @parts are set. The request is committed when nothing is missing. */
	void is_set(uint32_t parts) noexcept;
	uint32_t first_frag() const noexcept;

	QueueLock lock_;
	uint32_t plain_; /* a bit for each opcode that post_plain() writes */
	bool takes_inline_; /* post_inline() may write requests */
	sirdma_sq queue_;
	const DomainName domain_;
};

inline int SendQueue::complete() noexcept
{
	if (queue_.unfinished != OpenRequest::one || queue_.waiting) [[unlikely]]
		return complete_list();
	queue_.unfinished = 0;
	sirdma_sq_commit_alone(&queue_, 1, request.hdr);
	lock_.unlock();
	/* Do this after the lock is dropped: see QpDoorbell. */
	doorbell.ring_send();
	return 0;
}

} // namespace sirdma
