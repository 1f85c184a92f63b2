/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The part of a QP that posting and polling use, without verbs objects. Its address is the
 * completion context that the device writes into every CQE.
 */
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "doorbell.hpp"
#include "recv_queue.hpp"
#include "send_queue.hpp"

namespace sirdma
{

struct QueuePairMemory {
	std::span<sirdma_wqe> sq;
	std::span<sirdma_wqe> rq;
	std::span<SendSlot> send_slots;
	std::span<__u64> recv_wr_ids;
	uint32_t recv_shift;
	sirdma_qp_shadow *shadow;
};

/*
 * The members of a work completion that are the same for all plain completions of a QP, in the order of
 * ibv_wc, so that they are copied together.
 */
struct WcConstants {
	uint32_t imm = 0;
	uint32_t qp_num = 0;
	uint32_t src_qp = 0;
	uint32_t flags = 0;
};

class QueuePair {
public:
	QueuePair(const QueuePairMemory &memory, const SendLimits &send_limits,
		  uint32_t max_recv_sge, bool locked) noexcept
		: send(memory.sq, memory.send_slots, send_limits, locked),
		  recv(memory.rq, memory.recv_wr_ids, memory.recv_shift, max_recv_sge,
		       send.doorbell, locked),
		  shadow_(memory.shadow)
	{
	}

	QueuePair(const QueuePair &) = delete;
	QueuePair &operator=(const QueuePair &) = delete;

	/* The QP has its number: from now on doorbells reach the device. */
	void attach(sirdma_db_page *page, uint32_t qp_id) noexcept
	{
		wc_constants_.qp_num = qp_id;
		wc_constants_.src_qp = qp_id;
		send.doorbell.attach(page, shadow_, qp_id);
	}

	/* A QP with a shared receive queue takes no receives. */
	int may_recv() const noexcept
	{
		return state() == IBV_QPS_RESET || !recv.size() ? EINVAL : 0;
	}

	/* Of its plain work completions. */
	const WcConstants &wc_constants() const noexcept { return wc_constants_; }

	ibv_qp_state state() const noexcept { return state_.load(std::memory_order_relaxed); }

	/* Where sends become possible or impossible, the send queue's lock is taken. */
	void set_state(ibv_qp_state state) noexcept
	{
		const bool could_send = may_send(state_.exchange(state, std::memory_order_relaxed));

		if (may_send(state) == could_send)
			return;
		if (could_send)
			send.close();
		else
			send.open();
	}

	/*
	 * The QP enters RESET: both rings start again at index 0, with the polarity of the
	 * first lap.
	 */
	void reset() noexcept
	{
		send.reset();
		recv.reset();
	}

	SendQueue send;
	RecvQueue recv;

private:
	/*
	 * A send is refused before RTS, a receive in RESET (IBTA C10-96). In the error state both
	 * are accepted and flushed.
	 */
	static bool may_send(ibv_qp_state state) noexcept
	{
		return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
		       state == IBV_QPS_ERR;
	}

	sirdma_qp_shadow *const shadow_;
	WcConstants wc_constants_;
	std::atomic<ibv_qp_state> state_{IBV_QPS_RESET};
};

} // namespace sirdma
