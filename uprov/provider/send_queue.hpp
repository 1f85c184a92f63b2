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

#include "doorbell.hpp"
#include "lock.hpp"

namespace sirdma
{

struct Pd;

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
	const Pd *domain = nullptr; /* PD of the address handles that datagrams may have */
};

class SendQueue {
public:
	/*
	 * @ring and @slots have @quanta elements each, a power of two and more than
	 * SIRDMA_SQ_RSVD_QUANTA; @ring must be zeroed.
	 */
	SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots, const SendLimits &limits,
		  QpDoorbell &doorbell, bool locked) noexcept;

	/*
	 * ibv_post_send(). Returns 0, or an errno with *bad = the first request that was not
	 * posted.
	 */
	int post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept;

	/*
	 * ibv_wr_start() … ibv_wr_complete(): requests are written one by one and become valid
	 * together. begin() locks the queue, commit() and abort() unlock it. With a nonzero @err
	 * commit() discards the requests and returns it.
	 */
	void begin() noexcept;
	int take(const sirdma_send &work) noexcept;
	/*
	 * Set the destination of datagram @work. Returns 0, or EINVAL if this queue cannot use @ah.
	 */
	int address(ibv_ah *ah, uint32_t qpn, uint32_t qkey, sirdma_send &work) const noexcept;
	int commit(int err) noexcept;
	void abort() noexcept;

	/* Empty the queue, for RESET. The device must not access the ring. */
	void reset() noexcept;

	bool datagrams() const noexcept { return queue_.qp_type == SIRDMA_SEND_ON_UD; }

	/* Does each request name a remote shared receive queue? */
	bool xrc() const noexcept { return queue_.qp_type == SIRDMA_SEND_ON_XRC; }

	/* Does each request that is sent name its destination: either of these? */
	bool addressed() const noexcept
	{
		return queue_.qp_type & (SIRDMA_SEND_ON_UD | SIRDMA_SEND_ON_XRC);
	}

	/* The functions below are for completion polling. */
	sirdma_sq &queue() noexcept { return queue_; }

private:
	int take(const ibv_send_wr &wr) noexcept;
	int take_bind(const ibv_send_wr &wr, sirdma_send &work) noexcept;

	QueueLock lock_;
	sirdma_sq queue_;
	const Pd *const domain_;
	QpDoorbell &doorbell_;
	uint32_t begun_ = 0; /* value of head when begin() was called */
};

} // namespace sirdma
