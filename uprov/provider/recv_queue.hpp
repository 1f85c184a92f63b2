/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queue: WQEs of one fixed stride. The valid bit is the only doorbell.
 */
#pragma once

#include <cstdint>
#include <span>

#include <infiniband/verbs.h>
#include <sirdma/workq.h>

#include "doorbell.hpp"
#include "lock.hpp"

namespace sirdma
{

class RecvQueue {
public:
	/*
	 * @ring holds a power of two of WQEs of 1 << @shift quanta each, zeroed; @wr_ids has as many
	 * elements as @ring.
	 */
	RecvQueue(std::span<sirdma_wqe> ring, std::span<__u64> wr_ids, uint32_t shift,
		  uint32_t max_sge, QpDoorbell &doorbell, bool locked) noexcept;

	/*
	 * ibv_post_recv(). Returns 0, or an errno with *bad = the first request that was not
	 * posted.
	 */
	int post(const ibv_recv_wr *wr, const ibv_recv_wr **bad) noexcept;

	/* Empty the queue, for RESET. The device must not access the ring. */
	void reset() noexcept;

	/* The functions below are for completion polling. */
	sirdma_rq &queue() noexcept { return queue_; }

	/* Quanta; 0: the QP has no receive queue. */
	uint32_t size() const noexcept { return queue_.size; }

private:
	QueueLock lock_;
	sirdma_rq queue_;
	const QpDoorbell &doorbell_;
};

} // namespace sirdma
