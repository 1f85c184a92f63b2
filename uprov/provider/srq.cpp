/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "srq.hpp"

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "pd.hpp"
#include "send_queue.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/* The queue over @memory, which has a ring of @quanta and the shadow area. */
sirdma_shared_rq queue_over(const PageBuffer &memory, uint32_t quanta, uint32_t shift,
			    uint32_t max_sge) noexcept
{
	return {
		.ring = reinterpret_cast<sirdma_wqe *>(memory.data()),
		.shadow = reinterpret_cast<sirdma_srq_shadow *>(memory.data() +
								sirdma_wq_bytes(quanta)),
		.size = quanta >> shift,
		.shift = shift,
		.max_sge = max_sge,
		.head = 0,
		.fetched = 0,
	};
}

} // namespace

Srq::Srq(PageBuffer memory, const sirdma_shared_rq &queue, bool locked) noexcept
	: SrqBase{}, memory_(std::move(memory)), lock_(locked), queue_(queue)
{
}

int Srq::register_memory(ibv_pd *pd) noexcept
{
	const size_t ring = sirdma_wq_bytes(queue_.size << queue_.shift);
	sirdma_mem_reg_req what{};

	what.reg_type = SIRDMA_MEMREG_SRQ;
	what.rq_pages = static_cast<uint16_t>(ring / SIRDMA_PAGE_SIZE);
	return registration_.open(pd, memory_, ring + SIRDMA_SHADOW_SIZE, what);
}

template <typename Req> void Srq::locate(Req &req) const noexcept
{
	req.drv.user_srq_buf = reinterpret_cast<uintptr_t>(queue_.ring);
	req.drv.user_shadow_area = reinterpret_cast<uintptr_t>(queue_.shadow);
}

int Srq::create_in_kernel(Context &context, ibv_pd *pd, ibv_srq_init_attr_ex &attr) noexcept
{
	CreateSrqResponse resp;
	int err;

	if (attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) {
		CreateXsrqRequest req;

		locate(req);
		err = context.commands->create_xrc_srq(&context.verbs, &verbs, &attr, req, resp);
	} else {
		CreateSrqRequest req;
		ibv_srq_init_attr plain = {.srq_context = attr.srq_context, .attr = attr.attr};

		locate(req);
		err = context.commands->create_srq(pd, &verbs.srq, &plain, req, resp);
	}
	if (err)
		return err;
	/* Both sides computed the size of the ring. If the results differ, nothing can work. */
	if (resp.drv.srq_size != queue_.size) {
		context.commands->destroy_srq(&verbs.srq);
		return EPROTO;
	}
	attr.attr.max_wr = queue_.size;
	return 0;
}

Srq *Srq::create(Context &context, ibv_pd *pd, ibv_srq_init_attr_ex &attr) noexcept
{
	const Limits &limits = context.limits;
	const uint32_t shift = sirdma_rq_shift(attr.attr.max_sge);
	uint32_t quanta;

	if (!limits.max_srq_quanta) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	quanta = attr.attr.max_sge > limits.max_sge ?
			 0 :
			 sirdma_srq_quanta(attr.attr.max_wr, shift, limits.min_wq_quanta,
					   limits.max_srq_quanta);
	if (!quanta) {
		errno = EINVAL;
		return nullptr;
	}

	PageBuffer memory = PageBuffer::ring(&Pd::of(pd), RingKind::srq,
					     sirdma_wq_bytes(quanta) + SIRDMA_SHADOW_SIZE,
					     context.commands->rings_in_children);

	if (!memory)
		return nullptr;

	const sirdma_shared_rq queue = queue_over(memory, quanta, shift, attr.attr.max_sge);
	const bool locked = !context.single_threaded && Pd::of(pd).locked();
	std::unique_ptr<Srq> srq(new (std::nothrow) Srq(std::move(memory), queue, locked));
	int err = srq ? srq->register_memory(pd) : ENOMEM;

	if (!err)
		err = srq->create_in_kernel(context, pd, attr);
	if (err) {
		srq.reset(); /* do this before errno is set: it makes system calls */
		errno = err;
		return nullptr;
	}
	return srq.release();
}

int Srq::post(const ibv_recv_wr *wr, const ibv_recv_wr **bad) noexcept
{
	int err = 0;

	lock_.lock();
	for (; wr; wr = wr->next) {
		err = -sirdma_shared_rq_take(&queue_, wr->wr_id, codec_sges(wr->sg_list),
					     static_cast<uint32_t>(wr->num_sge));
		if (err) {
			*bad = wr;
			break;
		}
	}
	lock_.unlock();
	return err;
}

ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept
{
	ibv_srq_init_attr_ex full{};

	full.srq_context = attr->srq_context;
	full.attr = attr->attr;
	Srq *srq = Srq::create(Context::of(pd->context), pd, full);

	if (!srq)
		return nullptr;
	attr->attr = full.attr;
	return &srq->verbs.srq;
}

ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr) noexcept
{
	constexpr uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const bool typed = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE;
	const bool is_xrc = typed && attr->srq_type == IBV_SRQT_XRC;

	if ((attr->comp_mask & ~uint32_t{IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | xrc}) ||
	    (typed && !is_xrc && attr->srq_type != IBV_SRQT_BASIC) ||
	    (is_xrc && !Context::of(context).limits.xrc)) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
	    (attr->comp_mask & xrc) != (is_xrc ? xrc : 0) ||
	    (is_xrc && (!attr->xrcd || !attr->cq))) {
		errno = EINVAL;
		return nullptr;
	}
	Srq *srq = Srq::create(Context::of(context), attr->pd, *attr);

	if (!srq)
		return nullptr;
	/* ibv_create_srq() does this for other queues. */
	srq->verbs.srq.srq_context = attr->srq_context;
	return &srq->verbs.srq;
}

int get_srq_num(ibv_srq *srq, uint32_t *srq_num) noexcept
{
	const verbs_srq &verbs = Srq::of(srq).verbs;

	/* Peers name the queues of XRC domains alone. */
	if (verbs.srq_type != IBV_SRQT_XRC)
		return EINVAL;
	*srq_num = verbs.srq_num;
	return 0;
}

int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask) noexcept
{
	return commands(srq->context).modify_srq(srq, attr, attr_mask);
}

int query_srq(ibv_srq *srq, ibv_srq_attr *attr) noexcept
{
	return commands(srq->context).query_srq(srq, attr);
}

int destroy_srq(ibv_srq *srq) noexcept
{
	if (const int err = commands(srq->context).destroy_srq(srq))
		return err;
	delete &Srq::of(srq);
	return 0;
}

int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept
{
	return Srq::of(srq).post(wr, const_cast<const ibv_recv_wr **>(bad_wr));
}

} // namespace sirdma
