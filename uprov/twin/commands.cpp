/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The provider's commands, executed in this process. */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <sirdma/wqe.h>

#include "commands.hpp"
#include "device.hpp"
#include "no_cancel.hpp"
#include "pd.hpp"
#include "qp.hpp"

namespace sirdma::twin
{

namespace
{

/* The structure of older libraries ends here. Newer libraries have zeroed the rest. */
constexpr size_t port_attr_common =
	offsetof(ibv_port_attr, port_cap_flags2) + sizeof(ibv_port_attr::port_cap_flags2);

/* The destination QP is the last attribute that a device without packet pacing may have. */
constexpr int known_qp_attributes = (IBV_QP_DEST_QPN << 1) - 1;

/* As those of the kernel's devices, and implicit regions: nothing is kept for each page. */
constexpr ibv_odp_caps on_demand_caps = {
	.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	.per_transport_caps = {.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
					      IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
					      IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV,
			       .uc_odp_caps = 0,
			       .ud_odp_caps = IBV_ODP_SUPPORT_SEND},
};

Driver &driver_of(ibv_context *context) noexcept
{
	return *Instance::of(context).driver;
}

/*
 * A child must not use its parent's device. The parent's objects that the child destroys are
 * copies.
 */
bool is_parents(ibv_context *context) noexcept
{
	return Instance::of(context).inherited();
}

/* A parent domain has the number of the protection domain it contains. */
uint32_t pd_number(ibv_pd *pd) noexcept
{
	return pd->handle;
}

/* Wait until the application has acknowledged the events of the object. */
template <typename Object, typename Ready> void wait_for_acks(Object &object, Ready ready) noexcept
{
	const NoCancel no_cancel;

	pthread_mutex_lock(&object.mutex);
	while (!ready())
		pthread_cond_wait(&object.cond, &object.mutex);
	pthread_mutex_unlock(&object.mutex);
}

int get_context(ibv_context *context, GetContextRequest &, GetContextResponse &resp)
{
	auto &answer = resp.drv;

	Context::of(context).device = Device::of(context).instance();
	driver_of(context).describe(answer);
	answer.feature_flags |= SIRDMA_FEATURE_SRQ;
	/* No KICK: the file is not a device; see Kick::prepare_local(). */
	answer.comp_mask |= SIRDMA_UCTX_USE_RAW_ATTR | SIRDMA_UCTX_RING_POOL;
	context->num_comp_vectors = 1;
	return 0;
}

/* Other processes have no access to a device in this one, so nothing can be imported. */
int query_context(ibv_context *, sirdma_alloc_ucontext_resp &)
{
	return EOPNOTSUPP;
}

int query_pd(ibv_context *, uint32_t, sirdma_alloc_pd_resp &)
{
	return EOPNOTSUPP;
}

int query_mr(ibv_context *, uint32_t, Keys &, uint64_t &)
{
	return EOPNOTSUPP;
}

int query_dm(ibv_context *, uint32_t, DmInfo &)
{
	return EOPNOTSUPP;
}

int query_device(ibv_context *context, const ibv_query_device_ex_input *input,
		 ibv_device_attr_ex *attr, size_t attr_size, uint64_t &fw_version)
{
	ibv_device_attr_ex full{};

	if (input && input->comp_mask)
		return EINVAL;
	if (is_parents(context))
		return ENODEV;
	driver_of(context).query_device(full.orig_attr);
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags |
				   SIRDMA_VERBS_DEVICE_FLUSH_GLOBAL |
				   SIRDMA_VERBS_DEVICE_ATOMIC_WRITE;
	full.phys_port_cnt_ex = 1;
	/* To find out takes system calls that a program without on-demand paging need not be allowed. */
	if (attr_size >= offsetof(ibv_device_attr_ex, odp_caps) + sizeof(full.odp_caps) &&
	    ProcessMemory::may_fault())
		full.odp_caps = on_demand_caps;
	full.max_dm_size = SIRDMA_MAX_DM_SIZE;
	full.completion_timestamp_mask = ~uint64_t{0};
	full.hca_core_clock = SIRDMA_CLOCK_KHZ;
	full.cq_mod_caps = {.max_cq_count = SIRDMA_MAX_CQ_COUNT,
			    .max_cq_period = SIRDMA_MAX_CQ_PERIOD};
	memcpy(static_cast<void *>(attr), &full, std::min(sizeof(full), attr_size));
	fw_version = uint64_t{SIRDMA_FW_MAJOR} << 32 | SIRDMA_FW_MINOR;
	return 0;
}

int read_clock(ibv_context *context, uint64_t &now)
{
	if (is_parents(context))
		return ENODEV;
	now = port_now_ns(Instance::of(context).nic->device_clock());
	return 0;
}

int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr)
{
	if (port_num != 1)
		return EINVAL;
	if (is_parents(context))
		return ENODEV;
	ibv_port_attr full;

	driver_of(context).query_port(full);
	memcpy(static_cast<void *>(attr), &full, port_attr_common);
	return 0;
}

int alloc_pd(ibv_context *context, ibv_pd *pd, AllocPdResponse &resp)
{
	uint32_t number;

	if (is_parents(context))
		return ENODEV;
	if (const int err = driver_of(context).alloc_pd(context, number))
		return err;
	pd->handle = number;
	pd->context = context;
	resp.drv.pd_id = number;
	return 0;
}

int dealloc_pd(ibv_pd *pd)
{
	return is_parents(pd->context) ? 0 : driver_of(pd->context).dealloc_pd(pd_number(pd));
}

sirdma_region region_of(const void *addr, size_t length, uint64_t iova, int access) noexcept
{
	return {
		.start = reinterpret_cast<uintptr_t>(addr),
		.length = length,
		.iova = iova,
		.access = static_cast<u32>(access),
	};
}

int reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access, verbs_mr *mr,
	   RegMrRequest &req)
{
	uint32_t stag = 0;

	if (is_parents(pd->context))
		return ENODEV;
	/*
	 * The device can access all memory of the process, since create_cq and create_qp pass ring
	 * addresses.
	 */
	if (req.drv.reg_type == SIRDMA_MEMREG_MEM) {
		if (const int err = driver_of(pd->context)
					    .reg_mr(pd_number(pd),
						    region_of(addr, length, hca_va, access), stag))
			return err;
	}
	mr->mr.handle = stag;
	mr->mr.lkey = stag;
	mr->mr.rkey = stag;
	mr->mr.context = pd->context;
	mr->mr_type = VERBS_MR_MEMORY;
	mr->access = access;
	return 0;
}

int rereg_mr(verbs_mr *mr, uint32_t flags, void *addr, size_t length, uint64_t hca_va, int access,
	     ibv_pd *pd, ReregMrRequest &)
{
	const MrChange change = {
		.flags = flags,
		.pd = flags & SIRDMA_REREG_PD ? pd_number(pd) : 0,
		.to = region_of(addr, length, hca_va, access),
	};

	if (is_parents(mr->mr.context))
		return ENODEV;
	/* Ring memory has no region of the device. */
	if (!mr->mr.handle)
		return EINVAL;
	if (const int err = driver_of(mr->mr.context).rereg_mr(mr->mr.handle, change))
		return err;
	if (flags & SIRDMA_REREG_ACCESS)
		mr->access = access;
	return 0;
}

int dereg_mr(verbs_mr *mr)
{
	if (!mr->mr.handle || is_parents(mr->mr.context))
		return 0;
	return driver_of(mr->mr.context).dereg_mr(mr->mr.handle);
}

int alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw)
{
	if (is_parents(pd->context))
		return ENODEV;
	if (const int err = driver_of(pd->context).alloc_mw(pd_number(pd), type, mw->rkey))
		return err;
	mw->context = pd->context;
	mw->pd = pd;
	mw->handle = mw->rkey; /* binds change rkey */
	mw->type = type;
	return 0;
}

int dealloc_mw(ibv_mw *mw)
{
	return is_parents(mw->context) ? 0 : driver_of(mw->context).dealloc_mw(mw->handle);
}

int alloc_dm(ibv_context *context, const ibv_alloc_dm_attr &attr, DmInfo &dm)
{
	if (is_parents(context))
		return ENODEV;
	dm.length = attr.length;
	return driver_of(context).alloc_dm(context, attr, dm.handle, dm.memory);
}

int free_dm(ibv_context *context, uint32_t handle)
{
	return is_parents(context) ? 0 : driver_of(context).free_dm(handle);
}

int reg_dm_mr(ibv_pd *pd, uint32_t dm, uint64_t offset, size_t length, uint32_t access, Keys &keys)
{
	uint32_t stag = 0;

	if (is_parents(pd->context))
		return ENODEV;
	if (const int err = driver_of(pd->context)
				    .reg_dm_mr(pd_number(pd), dm, offset, length, access, stag))
		return err;
	keys = {.handle = stag, .lkey = stag, .rkey = stag};
	return 0;
}

/* The errors of uverbs. */
int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, const ibv_sge *sges,
	      uint32_t count)
{
	if (!ProcessMemory::may_fault())
		return EOPNOTSUPP;
	if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) || !count)
		return EINVAL;
	if (is_parents(pd->context))
		return ENODEV;
	return driver_of(pd->context)
		.advise_mr(pd_number(pd), advice, flags & IBV_ADVISE_MR_FLAG_FLUSH, {sges, count});
}

/*
 * A program must tell the exporter before and after each access (DMA_BUF_IOCTL_SYNC). The device
 * would have to do so for each packet.
 */
int reg_dmabuf_mr(ibv_pd *, uint64_t, size_t, uint64_t, int, int, Keys &)
{
	return EOPNOTSUPP;
}

int create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, ibv_cq *cq,
	      CreateCqRequest &req, CreateCqResponse &resp)
{
	const auto &rings = req.drv;
	const CqRings where = {
		.elements = reinterpret_cast<const void *>(rings.user_cq_buf),
		.shadow = reinterpret_cast<const void *>(rings.user_shadow_area),
		.count = static_cast<uint32_t>(cqe),
		.timestamps = (rings.flags & SIRDMA_CQ_TIMESTAMPS) != 0,
	};

	if (comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return EINVAL;
	if (is_parents(context))
		return ENODEV;
	cq->context = context;
	if (const int err = driver_of(context).create_cq(context, cq, channel, where))
		return err;
	cq->cqe = cqe;
	resp.drv = {
		.cq_id = cq->handle,
		.cq_size = static_cast<uint32_t>(cqe),
	};
	return 0;
}

int resize_cq(ibv_cq *cq, int cqe, ResizeCqRequest &req)
{
	if (is_parents(cq->context))
		return ENODEV;
	return driver_of(cq->context)
		.resize_cq(cq->handle, reinterpret_cast<const void *>(req.drv.user_cq_buffer),
			   static_cast<uint32_t>(cqe));
}

int req_notify_cq(ibv_cq *cq)
{
	if (is_parents(cq->context))
		return ENODEV;
	driver_of(cq->context).req_notify_cq(cq->handle);
	return 0;
}

int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr)
{
	/* As libibverbs' command and the kernel's. */
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	if (is_parents(cq->context))
		return ENODEV;
	return driver_of(cq->context)
		.moderate_cq(cq->handle, attr->moderate.cq_count, attr->moderate.cq_period);
}

int destroy_cq(ibv_cq *cq)
{
	uint32_t comp, async;

	if (is_parents(cq->context))
		return 0;
	if (const int err = driver_of(cq->context).destroy_cq(cq->handle, comp, async))
		return err;
	wait_for_acks(*cq, [&] {
		return cq->comp_events_completed == comp && cq->async_events_completed == async;
	});
	return 0;
}

int create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr, CreateQpRequest &req,
	      CreateQpResponse &resp)
{
	const auto *base = reinterpret_cast<const uint8_t *>(req.drv.user_wqe_bufs);
	QpGeometry g;

	/* The provider has put the rings where this says. */
	if (!QpGeometry::choose(Context::of(pd->context), Pd::of(pd), attr->cap,
				attr->srq || attr->qp_type == IBV_QPT_XRC_SEND, g))
		return EINVAL;
	if (is_parents(pd->context))
		return ENODEV;
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	qp->events_completed = 0;
	pthread_mutex_init(&qp->mutex, nullptr);
	pthread_cond_init(&qp->cond, nullptr);

	const sirdma_qp_places places = g.places();
	const QpRings rings = {
		.sq = base,
		.rq = base + places.rq,
		.shadow = base + places.shadow,
		.sq_quanta = g.sq_quanta,
		.rq_quanta = g.rq_quanta,
		.rq_shift = g.rq_shift,
		.compl_ctx = req.drv.user_compl_ctx,
	};
	ibv_qp_cap cap = attr->cap;

	cap.max_send_wr = g.send_wrs();
	cap.max_recv_wr = g.recv_wrs();
	if (const int err =
		    driver_of(pd->context)
			    .create_qp(qp, pd_number(pd), rings, cap, attr->sq_sig_all != 0))
		return err;

	auto &answer = resp.drv;

	answer.qp_id = qp->qp_num;
	answer.actual_sq_size = g.sq_quanta >> g.sq_shift;
	answer.actual_rq_size = g.rq_quanta >> g.rq_shift;
	answer.qp_caps = SIRDMA_QP_CAPS;
	return 0;
}

int create_target(ibv_context *context, verbs_qp *vqp, ibv_qp_init_attr_ex *attr)
{
	auto *qp = reinterpret_cast<ibv_qp *>(vqp);

	if (is_parents(context))
		return ENODEV;
	qp->context = context;
	qp->qp_context = attr->qp_context;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->mutex, nullptr);
	pthread_cond_init(&qp->cond, nullptr);
	return driver_of(context).create_target(qp,
						reinterpret_cast<verbs_xrcd *>(attr->xrcd)->handle);
}

/*
 * All contexts that opened the target would have to get its events; the twin knows one context for
 * each queue pair.
 */
int open_qp(ibv_context *, verbs_qp *, size_t, ibv_qp_open_attr *)
{
	return EOPNOTSUPP;
}

int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int, ibv_qp_init_attr *init)
{
	if (is_parents(qp->context))
		return ENODEV;
	return driver_of(qp->context).query_qp(qp->handle, *attr, *init);
}

/* As uverbs, ignore the attributes that only the other end of an XRC connection has. */
int attributes_of(ibv_qp_type type, int mask) noexcept
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask)
{
	/*
	 * The error of libibverbs' command for attributes that the kernel's first command cannot
	 * carry.
	 */
	if (attr_mask & ~known_qp_attributes)
		return EOPNOTSUPP;
	if (is_parents(qp->context))
		return ENODEV;
	return driver_of(qp->context)
		.modify_qp(qp->handle, *attr,
			   static_cast<uint32_t>(attributes_of(qp->qp_type, attr_mask)));
}

int destroy_qp(ibv_qp *qp)
{
	uint32_t async;

	if (is_parents(qp->context))
		return 0;
	if (const int err = driver_of(qp->context).destroy_qp(qp->handle, async))
		return err;
	wait_for_acks(*qp, [&] { return qp->events_completed == async; });
	return 0;
}

int create_any_srq(ibv_pd *pd, ibv_srq *srq, const ibv_srq_attr &attr,
		   const sirdma_create_srq_req &req, uint32_t xrcd, uint32_t cq,
		   sirdma_create_srq_resp &resp)
{
	const uint32_t shift = sirdma_rq_shift(attr.max_sge);
	/*
	 * The provider computed the same from the same numbers, but knows no limit of work
	 * requests.
	 */
	const uint32_t quanta = sirdma_srq_ring_quanta(attr.max_wr, attr.max_sge);

	if (!quanta)
		return EINVAL;
	if (is_parents(pd->context))
		return ENODEV;
	srq->context = pd->context;

	const SrqRing ring = {
		.wqes = reinterpret_cast<const void *>(req.user_srq_buf),
		.shadow = reinterpret_cast<const void *>(req.user_shadow_area),
		.count = quanta >> shift,
		.shift = shift,
		.max_wr = sirdma_srq_wrs(quanta, shift),
		.max_sge = attr.max_sge,
		.xrcd = xrcd,
		.cq = cq,
	};

	if (const int err = driver_of(pd->context).create_srq(srq, pd_number(pd), ring))
		return err;
	resp.srq_id = srq->handle;
	resp.srq_size = ring.count;
	return 0;
}

int create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, CreateSrqRequest &req,
	       CreateSrqResponse &resp)
{
	return create_any_srq(pd, srq, attr->attr, req.drv, 0, 0, resp.drv);
}

int create_xrc_srq(ibv_context *, verbs_srq *srq, ibv_srq_init_attr_ex *attr,
		   CreateXsrqRequest &req, CreateSrqResponse &resp)
{
	auto *xrcd = reinterpret_cast<verbs_xrcd *>(attr->xrcd);

	srq->srq.pd = attr->pd;
	pthread_mutex_init(&srq->srq.mutex, nullptr);
	pthread_cond_init(&srq->srq.cond, nullptr);
	if (const int err = create_any_srq(attr->pd, &srq->srq, attr->attr, req.drv, xrcd->handle,
					   attr->cq->handle, resp.drv))
		return err;
	srq->srq_type = IBV_SRQT_XRC;
	srq->xrcd = xrcd;
	srq->cq = attr->cq;
	srq->srq_num = srq->srq.handle;
	return 0;
}

int open_xrcd(ibv_context *context, verbs_xrcd *xrcd, ibv_xrcd_init_attr *attr)
{
	if (is_parents(context))
		return ENODEV;
	xrcd->xrcd.context = context;
	return driver_of(context).open_xrcd(context, attr->fd, attr->oflags, xrcd->handle);
}

int close_xrcd(verbs_xrcd *xrcd)
{
	ibv_context *context = xrcd->xrcd.context;

	return is_parents(context) ? 0 : driver_of(context).close_xrcd(xrcd->handle);
}

int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask)
{
	if (is_parents(srq->context))
		return ENODEV;
	return driver_of(srq->context)
		.modify_srq(srq->handle, *attr, static_cast<uint32_t>(attr_mask));
}

int query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
	if (is_parents(srq->context))
		return ENODEV;
	return driver_of(srq->context).query_srq(srq->handle, *attr);
}

int destroy_srq(ibv_srq *srq)
{
	uint32_t async;

	if (is_parents(srq->context))
		return 0;
	if (const int err = driver_of(srq->context).destroy_srq(srq->handle, async))
		return err;
	wait_for_acks(*srq, [&] { return srq->events_completed == async; });
	return 0;
}

int create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *attr, CreateAhResponse &resp)
{
	if (is_parents(pd->context))
		return ENODEV;
	if (const int err = driver_of(pd->context).create_ah(pd_number(pd), *attr, ah->handle))
		return err;
	ah->context = pd->context;
	resp.drv.ah_id = ah->handle;
	return 0;
}

int destroy_ah(ibv_ah *ah)
{
	return is_parents(ah->context) ? 0 : driver_of(ah->context).destroy_ah(ah->handle);
}

int attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid)
{
	if (is_parents(qp->context))
		return ENODEV;
	return driver_of(qp->context).attach_mcast(qp->handle, *gid, lid);
}

int detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid)
{
	if (is_parents(qp->context))
		return 0;
	return driver_of(qp->context).detach_mcast(qp->handle, *gid, lid);
}

} // namespace

constinit const Commands twin_commands = {
	.get_context = get_context,
	.query_context = query_context,
	.query_pd = query_pd,
	.query_mr = query_mr,
	.query_dm = query_dm,
	.query_device = query_device,
	.read_clock = read_clock,
	.query_port = query_port,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.rereg_mr = rereg_mr,
	.dereg_mr = dereg_mr,
	.advise_mr = advise_mr,
	.alloc_mw = alloc_mw,
	.dealloc_mw = dealloc_mw,
	.alloc_dm = alloc_dm,
	.free_dm = free_dm,
	.reg_dm_mr = reg_dm_mr,
	.reg_dmabuf_mr = reg_dmabuf_mr,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.modify_cq = modify_cq,
	.destroy_cq = destroy_cq,
	.req_notify_cq = req_notify_cq,
	.create_qp = create_qp,
	.create_target = create_target,
	.open_qp = open_qp,
	.query_qp = query_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.create_srq = create_srq,
	.create_xrc_srq = create_xrc_srq,
	.modify_srq = modify_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.open_xrcd = open_xrcd,
	.close_xrcd = close_xrcd,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.attach_mcast = attach_mcast,
	.detach_mcast = detach_mcast,
	/*
	 * The device reads the rings like any thread of the process, so copying them does no harm.
	 * A child without a copy could map other memory at the same address, and would lose it
	 * when it destroys the parent's object.
	 */
	.rings_in_children = InChildren::copy,
};

} // namespace sirdma::twin
