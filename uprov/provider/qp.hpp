/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <memory>

#include <sirdma/geometry.h>

#include "context.hpp"
#include "mr.hpp"
#include "page_buffer.hpp"
#include "queue_pair.hpp"

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

/* Sizes of the two rings. The driver computes the same from the same attributes. */
struct QpGeometry {
	uint32_t sq_quanta;
	uint32_t sq_shift;
	uint32_t rq_quanta;
	uint32_t rq_shift;

	/* False when @cap asks for more than @limits allow. @shared: there is no receive queue. */
	static bool compute(const ibv_qp_cap &cap, bool shared, const Limits &limits,
			    QpGeometry &out) noexcept;

	uint32_t send_wrs() const noexcept { return sirdma_sq_wrs(sq_quanta, sq_shift); }

	uint32_t recv_wrs() const noexcept
	{
		return rq_quanta ? sirdma_rq_wrs(rq_quanta, rq_shift) : 0;
	}

	size_t sq_bytes() const noexcept { return sirdma_wq_bytes(sq_quanta); }

	size_t rq_bytes() const noexcept { return sirdma_wq_bytes(rq_quanta); }

	/* The SQ, the RQ and the shadow area, in this order. */
	size_t bytes() const noexcept { return sq_bytes() + rq_bytes() + SIRDMA_SHADOW_SIZE; }
};

/* A request of ibv_wr_*() whose data, or whose destination, is not set yet. */
struct OpenRequest {
	sirdma_send work{};
	bool open = false;
	bool has_data = false; /* which was set before the destination */
	bool addressed = true; /* its destination is set, or that of the QP */
	int err = 0; /* first error since ibv_wr_start() */
	sirdma_bind bind{}; /* of a BIND_MW */
	/* has_data */
	ibv_sge sges[SIRDMA_MAX_SGE]{};
	uint8_t bytes[SIRDMA_MAX_INLINE]{};
};

class Qp : public QpBase {
public:
	/* Null with errno set. @attr.cap is set to the actual capabilities. */
	static Qp *create(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept;

	static Qp &of(ibv_qp *qp) noexcept
	{
		return *static_cast<Qp *>(reinterpret_cast<QpBase *>(qp));
	}

	static Qp &of(ibv_qp_ex *qp) noexcept
	{
		return *static_cast<Qp *>(reinterpret_cast<QpBase *>(qp));
	}

	QueuePair &queues() noexcept { return queues_; }

	const ibv_qp_cap &cap() const noexcept { return cap_; }

	/* Enable ibv_wr_*() for the operations in @send_ops (IBV_QP_EX_WITH_*). */
	void enable_wr_api(uint64_t send_ops) noexcept;

	/* From now on ignore the completions of this QP. */
	void forget_completions() noexcept;

	OpenRequest request; /* under the send queue's lock */

private:
	Qp(PageBuffer memory, std::unique_ptr<SendSlot[]> slots, std::unique_ptr<__u64[]> wr_ids,
	   const QpGeometry &geometry, const SendLimits &limits, uint32_t max_recv_sge,
	   bool locked) noexcept;
	int register_memory(ibv_pd *pd) noexcept;
	int create_in_kernel(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept;
	QueuePairMemory layout() noexcept;

	/* Destroyed in reverse order: the registration before its memory. */
	const QpGeometry geometry_;
	PageBuffer memory_;
	std::unique_ptr<SendSlot[]> slots_;
	std::unique_ptr<__u64[]> wr_ids_;
	QueuePair queues_;
	RingRegistration registration_;
	ibv_qp_cap cap_{};
};

} // namespace sirdma
