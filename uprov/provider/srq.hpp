/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <sirdma/workq.h>

#include "context.hpp"
#include "lock.hpp"
#include "mr.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

/* The verbs object must come first: libibverbs hands out its address. */
struct SrqBase {
	verbs_srq verbs;
};

/* Shared receive queue. The ring's valid bits are the only doorbell. */
class Srq : public SrqBase {
public:
	/*
	 * Returns null with errno set. @attr gets the actual attributes of the queue. It is of an
	 * XRC domain if @attr.comp_mask has IBV_SRQ_INIT_ATTR_XRCD.
	 */
	static Srq *create(Context &context, ibv_pd *pd, ibv_srq_init_attr_ex &attr) noexcept;

	static Srq &of(ibv_srq *srq) noexcept
	{
		return *static_cast<Srq *>(reinterpret_cast<SrqBase *>(srq));
	}

	/*
	 * ibv_post_srq_recv(). Returns 0, or an errno with *bad = the first request that was not
	 * taken.
	 */
	int post(const ibv_recv_wr *wr, const ibv_recv_wr **bad) noexcept;

private:
	Srq(PageBuffer memory, const sirdma_shared_rq &queue, bool locked) noexcept;
	int register_memory(ibv_pd *pd) noexcept;
	int create_in_kernel(Context &context, ibv_pd *pd, ibv_srq_init_attr_ex &attr) noexcept;
	template <typename Req> void locate(Req &req) const noexcept;

	/* Members are destroyed in reverse order: the registration before its memory. */
	PageBuffer memory_;
	QueueLock lock_;
	sirdma_shared_rq queue_;
	RingRegistration registration_;
};

} // namespace sirdma
