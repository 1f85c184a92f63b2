/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qp.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "cq.hpp"
#include "pd.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

static_assert(int{IBV_QPT_RC} == SIRDMA_VERBS_QPT_RC && int{IBV_QPT_UC} == SIRDMA_VERBS_QPT_UC &&
	      int{IBV_QPT_UD} == SIRDMA_VERBS_QPT_UD &&
	      int{IBV_QPT_XRC_SEND} == SIRDMA_VERBS_QPT_XRC_INI &&
	      int{IBV_QPT_XRC_RECV} == SIRDMA_VERBS_QPT_XRC_TGT);

/* Hold Context::numbers, for a QP that has a shared receive queue. */
class NumberGuard {
public:
	NumberGuard(Context &context, const ibv_srq *srq) noexcept
		: mutex_(srq ? &context.numbers : nullptr)
	{
		if (mutex_)
			pthread_mutex_lock(mutex_);
	}
	~NumberGuard()
	{
		if (mutex_)
			pthread_mutex_unlock(mutex_);
	}
	NumberGuard(const NumberGuard &) = delete;
	NumberGuard &operator=(const NumberGuard &) = delete;

private:
	pthread_mutex_t *const mutex_;
};

} // namespace

bool QpGeometry::compute(const ibv_qp_cap &cap, bool shared, const Limits &limits,
			 QpGeometry &out) noexcept
{
	if (cap.max_send_sge > limits.max_sge || cap.max_recv_sge > limits.max_sge ||
	    cap.max_inline_data > limits.max_inline)
		return false;
	out.pooled = false;
	out.sq_shift = sirdma_sq_shift(cap.max_send_sge, cap.max_inline_data);
	out.rq_shift = sirdma_rq_shift(cap.max_recv_sge);
	out.sq_quanta = sirdma_sq_quanta(cap.max_send_wr, out.sq_shift, limits.min_wq_quanta,
					 limits.max_sq_quanta);
	out.rq_quanta = shared ? 0 :
				 sirdma_rq_quanta(cap.max_recv_wr, out.rq_shift,
						  limits.min_wq_quanta, limits.max_rq_quanta);
	return out.sq_quanta && (out.rq_quanta || shared);
}

bool QpGeometry::compute_in_pool(const ibv_qp_cap &cap, bool shared, const Limits &limits,
				 QpGeometry &out) noexcept
{
	if (!compute(cap, shared, limits, out))
		return false;
	out.sq_quanta = sirdma_sq_pool_quanta(cap.max_send_wr, out.sq_shift, limits.min_wq_quanta,
					      limits.max_sq_quanta);
	out.pooled = true;
	return out.places().end <= hw_page_size;
}

bool QpGeometry::choose(const Context &context, const Pd &pd, const ibv_qp_cap &cap, bool shared,
			QpGeometry &out) noexcept
{
	/* An allocator of the application is asked for the memory of each queue pair. */
	return (context.pool && !pd.rings.alloc &&
		compute_in_pool(cap, shared, context.limits, out)) ||
	       compute(cap, shared, context.limits, out);
}

QueuePairMemory Qp::layout() noexcept
{
	const sirdma_qp_places places = geometry_.places();
	uint8_t *sq = memory_.data();

	return {
		.sq = {reinterpret_cast<sirdma_wqe *>(sq), geometry_.sq_quanta},
		.rq = {reinterpret_cast<sirdma_wqe *>(sq + places.rq), geometry_.rq_quanta},
		.send_slots = {slots_.get(), geometry_.sq_quanta},
		.recv_wr_ids = {wr_ids_.get(), geometry_.rq_quanta},
		.recv_shift = geometry_.rq_shift,
		.shadow = reinterpret_cast<sirdma_qp_shadow *>(sq + places.shadow),
	};
}

Qp::Qp(Memory memory, std::unique_ptr<SendSlot[]> slots, std::unique_ptr<__u64[]> wr_ids,
       const QpGeometry &geometry, const SendLimits &limits, uint32_t max_recv_sge,
       bool locked) noexcept
	: QpBase{.reserved = {}}, geometry_(geometry), memory_(std::move(memory)),
	  slots_(std::move(slots)), wr_ids_(std::move(wr_ids)),
	  queues_(layout(), limits, max_recv_sge, locked)
{
}

int Qp::register_memory(ibv_pd *pd) noexcept
{
	sirdma_mem_reg_req what{};

	if (geometry_.pooled)
		return 0;
	what.reg_type = SIRDMA_MEMREG_QP;
	what.sq_pages = static_cast<uint16_t>(sirdma_wq_pages(geometry_.sq_quanta));
	what.rq_pages = static_cast<uint16_t>(sirdma_wq_pages(geometry_.rq_quanta));
	return registration_.open(pd, memory_.own, geometry_.places().end, what);
}

int Qp::create_in_kernel(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept
{
	CreateQpRequest req;
	CreateQpResponse resp;
	const ibv_qp_cap wanted = attr.cap;

	req.drv.user_wqe_bufs = reinterpret_cast<uintptr_t>(memory_.data());
	req.drv.user_compl_ctx = reinterpret_cast<uintptr_t>(&queues_);
	const NumberGuard guard(context, attr.srq);
	QpDoorbell &doorbell = queues_.send.doorbell;

	/* This process could not kick: see Kick::prepare_command(). */
	if (context.kick && context.imported && !context.kick_method)
		return EOPNOTSUPP;
	if (const int err = context.commands->create_qp(pd, &qp, &attr, req, resp))
		return err;
	/* The driver computes the ring sizes too. If the results differ, the QP cannot be used. */
	if (resp.drv.actual_sq_size << geometry_.sq_shift != geometry_.sq_quanta ||
	    resp.drv.actual_rq_size << geometry_.rq_shift != geometry_.rq_quanta) {
		context.commands->destroy_qp(&qp);
		return EPROTO;
	}
	qp.qp_num = resp.drv.qp_id;
	queues_.attach(context.doorbell, resp.drv.qp_id);
	if (context.kick_method)
		doorbell.kick_by_method(context.verbs.cmd_fd, driver_id_of(context.verbs.device),
					resp.drv.qp_id);
	else if (context.kick)
		doorbell.kick_by_command(context.verbs.cmd_fd, qp.handle);

	cap_ = wanted;
	cap_.max_send_wr = geometry_.send_wrs();
	cap_.max_recv_wr = geometry_.recv_wrs();
	attr.cap = cap_;
	return 0;
}

Qp::Memory Qp::allocate(Context &context, Pd &pd, const QpGeometry &geometry) noexcept
{
	Memory memory;

	if (geometry.pooled)
		memory.pooled = context.pool->take(geometry.places().end);
	else
		memory.own = PageBuffer::ring(&pd, RingKind::qp, geometry.places().end,
					      context.commands->rings_in_children);
	return memory;
}

namespace
{

/* Check @attr, and compute the sizes of the rings. Returns 0 or an errno. */
int plan_qp(const Context &context, ibv_pd *pd, ibv_qp_init_attr &attr,
	    QpGeometry &geometry) noexcept
{
	const bool initiator = attr.qp_type == IBV_QPT_XRC_SEND;
	const bool no_rq = attr.srq || initiator;
	const int type = sirdma_qp_type_from_verbs(attr.qp_type);

	if (!sirdma_send_on(type) || (attr.srq && !sirdma_qp_may_share_rq(type)) ||
	    (initiator && !context.limits.xrc))
		return EOPNOTSUPP;
	/* Without a receive queue its attributes are ignored (ibv_create_qp(3)). */
	if (no_rq)
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	if (!attr.send_cq || (!attr.recv_cq && !initiator) ||
	    !QpGeometry::choose(context, Pd::of(pd), attr.cap, no_rq, geometry))
		return EINVAL;
	return 0;
}

} // namespace

Qp *Qp::create(Context &context, ibv_pd *pd, ibv_qp_init_attr &attr) noexcept
{
	QpGeometry geometry;

	if (const int err = plan_qp(context, pd, attr, geometry)) {
		errno = err;
		return nullptr;
	}
	/*
	 * Grant the inline data that the WQEs hold anyway: rdma_xclient of rdmacm-utils asks for
	 * none and sends some, for which rdma_rxe has room.
	 */
	attr.cap.max_inline_data =
		std::min(sirdma_inline_room(geometry.sq_shift), context.limits.max_inline);

	const SendLimits limits = {
		.max_sge = attr.cap.max_send_sge,
		.max_read_sge = context.limits.max_read_sge,
		.max_inline = attr.cap.max_inline_data,
		.signal_all = attr.sq_sig_all != 0,
		.qp_type = sirdma_send_on(sirdma_qp_type_from_verbs(attr.qp_type)),
		.lacks = context.limits.lacks,
		.domain = Pd::of(pd).name(),
	};
	Memory memory = allocate(context, Pd::of(pd), geometry);

	if (!memory)
		return nullptr;
	std::unique_ptr<SendSlot[]> slots(new (std::nothrow) SendSlot[geometry.sq_quanta]{});
	std::unique_ptr<__u64[]> wr_ids(new (std::nothrow) __u64[geometry.rq_quanta]);

	if (!slots || !wr_ids) {
		errno = ENOMEM;
		return nullptr;
	}

	const bool locked = !context.single_threaded && Pd::of(pd).locked();
	std::unique_ptr<Qp> qp(new (std::nothrow)
				       Qp(std::move(memory), std::move(slots), std::move(wr_ids),
					  geometry, limits, attr.cap.max_recv_sge, locked));
	int err = qp ? qp->register_memory(pd) : ENOMEM;

	if (!err)
		err = qp->create_in_kernel(context, pd, attr);
	if (err) {
		qp.reset(); /* do this before errno is set: it makes system calls */
		errno = err;
		return nullptr;
	}
	return qp.release();
}

void Qp::forget_completions() noexcept
{
	Cq::of(qp.send_cq).queue().forget(&queues_, qp.qp_num);
	if (qp.recv_cq && qp.recv_cq != qp.send_cq)
		Cq::of(qp.recv_cq).queue().forget(&queues_, qp.qp_num);
}

template <typename Make> Qp *Qp::create_target(Make make) noexcept
{
	std::unique_ptr<Qp> qp(new (std::nothrow) Qp(Memory{}, nullptr, nullptr, QpGeometry{},
						     SendLimits{}, 0, false));
	const int err = qp ? make(*qp) : ENOMEM;

	if (err) {
		qp.reset();
		errno = err;
		return nullptr;
	}
	return qp.release();
}

ibv_qp *create_target(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept
{
	if (!Context::of(context).limits.xrc) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd) {
		errno = EINVAL;
		return nullptr;
	}
	/* A target has no queues, CQs and PD: what the application says of them is ignored. */
	ibv_qp_init_attr_ex own{};

	own.qp_context = attr->qp_context;
	own.qp_type = attr->qp_type;
	own.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	own.xrcd = attr->xrcd;
	Qp *qp = Qp::create_target([&](Qp &made) {
		return commands(context).create_target(context, reinterpret_cast<verbs_qp *>(&made),
						       &own);
	});

	if (!qp)
		return nullptr;
	attr->cap = {};
	return &qp->qp;
}

ibv_qp *open_qp(ibv_context *context, ibv_qp_open_attr *attr) noexcept
{
	constexpr uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				    IBV_QP_OPEN_ATTR_TYPE;

	if (!Context::of(context).limits.xrc) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if ((attr->comp_mask & ~uint32_t{needed | IBV_QP_OPEN_ATTR_CONTEXT}) ||
	    (attr->comp_mask & needed) != needed || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return nullptr;
	}
	Qp *qp = Qp::create_target([&](Qp &made) {
		made.qp.qp_type = IBV_QPT_XRC_RECV;
		return commands(context).open_qp(context, reinterpret_cast<verbs_qp *>(&made),
						 sizeof(QpBase), attr);
	});

	return qp ? &qp->qp : nullptr;
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	ibv_qp_init_attr granted = *attr;
	Qp *qp = Qp::create(Context::of(pd->context), pd, granted);

	if (!qp)
		return nullptr;
	attr->cap = granted.cap;
	return &qp->qp;
}

int query_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr) noexcept
{
	Qp &qp = Qp::of(ibqp);
	const auto hold = qp.lock_state();

	if (const int err = commands(ibqp->context).query_qp(ibqp, attr, attr_mask, init_attr))
		return err;
	/* The state may have changed, for example to the error state. */
	if ((attr_mask & IBV_QP_STATE) && !qp.is_target())
		qp.queues().set_state(attr->qp_state);
	attr->cap = qp.cap();
	init_attr->cap = qp.cap();
	return 0;
}

int attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid) noexcept
{
	return commands(qp->context).attach_mcast(qp, gid, lid);
}

int detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid) noexcept
{
	return commands(qp->context).detach_mcast(qp, gid, lid);
}

int modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask) noexcept
{
	Qp &qp = Qp::of(ibqp);
	const bool new_state = (attr_mask & IBV_QP_STATE) && !qp.is_target();

	{
		const auto hold = qp.lock_state();

		if (const int err = commands(ibqp->context).modify_qp(ibqp, attr, attr_mask))
			return err;
		/* Before the rings are emptied, so that no request comes meanwhile. */
		if (new_state)
			qp.queues().set_state(attr->qp_state);
	}
	if (new_state && attr->qp_state == IBV_QPS_RESET) {
		qp.forget_completions();
		qp.queues().reset();
	}
	return 0;
}

int destroy_qp(ibv_qp *ibqp) noexcept
{
	Qp &qp = Qp::of(ibqp);
	const NumberGuard guard(Context::of(ibqp->context), ibqp->srq);

	if (const int err = commands(ibqp->context).destroy_qp(ibqp))
		return err;
	if (!qp.is_target())
		qp.forget_completions();
	delete &qp;
	return 0;
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept
{
	QueuePair &queues = Qp::of(ibqp).queues();

	if (const int err = queues.may_recv()) [[unlikely]] {
		*bad_wr = wr;
		return err;
	}
	return queues.recv.post(wr, const_cast<const ibv_recv_wr **>(bad_wr));
}

} // namespace sirdma
