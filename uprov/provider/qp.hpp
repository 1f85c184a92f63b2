/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <memory>
#include <mutex>

#include <sirdma/geometry.h>

#include "context.hpp"
#include "fork.hpp"
#include "mr.hpp"
#include "page_buffer.hpp"
#include "queue_pair.hpp"
#include "ring_pool.hpp"

namespace sirdma
{

class Cq;
struct Pd;

/*
 * The verbs object must come first. The library's comp_mask follows it, at an offset that
 * depends on the release: there is room for the larger layout.
 */
struct QpBase {
	union {
		ibv_qp qp;
		ibv_qp_ex ex;
		uint8_t reserved[private_abi::qp_size_max];
	};
};

static_assert(sizeof(ibv_qp_ex) <= private_abi::qp_size_max);

/* The sizes of the two rings. The driver computes the same sizes from the same attributes. */
struct QpGeometry {
	uint32_t sq_quanta;
	uint32_t sq_shift;
	uint32_t rq_quanta;
	uint32_t rq_shift;
	bool pooled = false;

	/*
	 * Returns false if @cap asks for more than @limits allow. @shared: there is no receive
	 * queue.
	 */
	static bool compute(const ibv_qp_cap &cap, bool shared, const Limits &limits,
			    QpGeometry &out) noexcept;

	uint32_t send_wrs() const noexcept { return sirdma_sq_wrs(sq_quanta, sq_shift); }

	uint32_t recv_wrs() const noexcept
	{
		return rq_quanta ? sirdma_rq_wrs(rq_quanta, rq_shift) : 0;
	}

	/* The sizes if the rings are in a pool. Returns false if they are too large for it. */
	static bool compute_in_pool(const ibv_qp_cap &cap, bool shared, const Limits &limits,
				    QpGeometry &out) noexcept;
	/*
	 * The sizes for a QP of @pd: in the pool, if the context has one and the rings fit. Returns
	 * false as compute() does.
	 */
	static bool choose(const Context &context, const Pd &pd, const ibv_qp_cap &cap, bool shared,
			   QpGeometry &out) noexcept;

	sirdma_qp_places places() const noexcept
	{
		return sirdma_qp_layout(sq_quanta, rq_quanta, pooled);
	}
};

class Qp : public QpBase {
public:
	/* Returns null with errno set. @attr.cap gets the actual capabilities. */
	static Qp *create(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept;

	/*
	 * An XRC target, which has no rings. It stays in RESET here, so that nothing is posted.
	 * @make: the command that creates or opens it. Returns null with errno set.
	 */
	template <typename Make> static Qp *create_target(Make make) noexcept;

	static Qp &of(ibv_qp *qp) noexcept
	{
		return *static_cast<Qp *>(reinterpret_cast<QpBase *>(qp));
	}

	static Qp &of(ibv_qp_ex *qp) noexcept
	{
		return *static_cast<Qp *>(reinterpret_cast<QpBase *>(qp));
	}

	bool is_target() const noexcept { return qp.qp_type == IBV_QPT_XRC_RECV; }

	QueuePair &queues() noexcept { return queues_; }

	const ibv_qp_cap &cap() const noexcept { return cap_; }

	/* Enable ibv_wr_*() for the operations in @send_ops (IBV_QP_EX_WITH_*); see wr_api.cpp. */
	void enable_wr_api(uint64_t send_ops) noexcept;

	/* From now on ignore the completions of this QP. */
	void forget_completions() noexcept;

	/*
	 * The lock is held from a command that changes or reads the state until the queues know the
	 * result, so that an older result does not replace a newer one. Its owner never waits for a
	 * CQ: the thread that polls that CQ may wait for this lock. A forked child does not lock: a
	 * thread of its parent may have had the lock.
	 */
	std::unique_lock<std::mutex> lock_state() noexcept
	{
		std::unique_lock hold(state_lock_, std::defer_lock);

		if (process_number() == process_)
			hold.lock();
		return hold;
	}

private:
	/* Rings that are registered by themselves, or in a pool: one of them is empty. */
	struct Memory {
		PageBuffer own;
		PooledRings pooled;

		explicit operator bool() const noexcept { return own || pooled; }

		uint8_t *data() const noexcept { return own ? own.data() : pooled.data(); }
	};

	Qp(Memory memory, std::unique_ptr<SendSlot[]> slots, std::unique_ptr<__u64[]> wr_ids,
	   const QpGeometry &geometry, const SendLimits &limits, uint32_t max_recv_sge,
	   bool locked) noexcept;
	static Memory allocate(Context &context, Pd &pd, const QpGeometry &geometry) noexcept;
	int register_memory(ibv_pd *pd) noexcept;
	int create_in_kernel(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept;
	QueuePairMemory layout() noexcept;

	/* Members are destroyed in reverse order: the registration before its memory. */
	const QpGeometry geometry_;
	Memory memory_;
	std::unique_ptr<SendSlot[]> slots_;
	std::unique_ptr<__u64[]> wr_ids_;
	QueuePair queues_;
	RingRegistration registration_;
	ibv_qp_cap cap_{};
	std::mutex state_lock_;
	const unsigned process_ = process_number();
};

/* Create an XRC target by ibv_create_qp_ex(). */
ibv_qp *create_target(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept;

} // namespace sirdma
