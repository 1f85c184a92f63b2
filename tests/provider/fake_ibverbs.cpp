/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fake_ibverbs.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <sirdma/geometry.h>

#include "command.hpp"
#include "library.hpp"

namespace sirdma::test
{

FakeDriver &fake_driver()
{
	static FakeDriver driver;

	return driver;
}

const Registration *FakeDriver::pool_of(uint64_t address) const
{
	for (const auto &[handle, r] : registrations) {
		if (r.what.reg_type == SIRDMA_MEMREG_POOL && address - r.start < r.length)
			return &r;
	}
	return nullptr;
}

bool FakeDriver::in_use(uint64_t start) const
{
	for (const auto &[handle, qp] : qps) {
		const Registration *pool = pool_of(qp.user_wqe_bufs);

		if (qp.user_wqe_bufs == start || (pool && pool->start == start))
			return true;
	}
	for (const auto &[handle, srq] : srqs) {
		if (srq.user_srq_buf == start)
			return true;
	}
	for (const auto &[handle, cq] : cqs) {
		if (cq.user_cq_buf == start || cq.user_shadow_area == start)
			return true;
	}
	return false;
}

void FakeDriver::reset()
{
	const verbs_device_ops *kept = ops;

	*this = FakeDriver{};
	ops = kept;
	context_answer.kernel_ver = SIRDMA_ABI_VERSION;
	context_answer.feature_flags = SIRDMA_FEATURE_CQ_RESIZE | SIRDMA_FEATURE_SRQ |
				       SIRDMA_FEATURE_ATOMICS | SIRDMA_FEATURE_PLACEMENT |
				       SIRDMA_FEATURE_XRC;
	context_answer.max_hw_wq_frags = SIRDMA_MAX_SGE;
	context_answer.max_hw_read_sges = SIRDMA_MAX_READ_SGE;
	context_answer.max_hw_inline = SIRDMA_MAX_INLINE;
	context_answer.max_hw_rq_quanta = SIRDMA_MAX_WQ_QUANTA;
	context_answer.max_hw_wq_quanta = SIRDMA_MAX_WQ_QUANTA;
	context_answer.min_hw_cq_size = 4;
	context_answer.max_hw_cq_size = 1048575;
	context_answer.max_hw_sq_chunk = SIRDMA_SQ_CHUNK_QUANTA;
	context_answer.hw_rev = SIRDMA_HW_REV_GEN2;
	context_answer.comp_mask = SIRDMA_UCTX_USE_RAW_ATTR | SIRDMA_UCTX_MIN_HW_WQ_SIZE |
				   SIRDMA_UCTX_MAX_HW_SRQ_QUANTA | SIRDMA_UCTX_KICK;
	context_answer.max_hw_srq_quanta = SIRDMA_MAX_SRQ_QUANTA;
	context_answer.min_hw_wq_size = SIRDMA_MIN_WQ_QUANTA;
}

namespace
{

/* One command at a time, as in the driver. */
std::mutex commands_lock;

bool fails(const char *command)
{
	return fake_driver().failing == command;
}

/* Ring size in WQEs for @wrs, the driver's way: doubling until it fits. */
uint32_t ring_wqes(uint32_t wrs, uint32_t shift, uint32_t reserved)
{
	uint32_t quanta = SIRDMA_MIN_WQ_QUANTA << shift;

	while (quanta < (wrs << shift) + reserved)
		quanta *= 2;
	return quanta >> shift;
}

int ibv_cmd_get_context(verbs_context *, verbs_cmd<ib_uverbs_get_context> *cmd, size_t cmd_size,
			ib_uverbs_get_context_resp *resp, size_t resp_size)
{
	if (fails("get_context") || cmd_size != sizeof(GetContextRequest) ||
	    resp_size != sizeof(GetContextResponse))
		return ENOMEM;
	fake_driver().context_request = reinterpret_cast<GetContextRequest *>(cmd)->drv;
	reinterpret_cast<GetContextResponse *>(resp)->drv = fake_driver().context_answer;
	return 0;
}

int ibv_cmd_query_device_any(ibv_context *, const ibv_query_device_ex_input *,
			     ibv_device_attr_ex *attr, size_t, ib_uverbs_ex_query_device_resp *resp,
			     size_t *)
{
	attr->orig_attr.max_qp = 17;
	resp->base.fw_ver = uint64_t{2} << 32 | 3 << 16 | 4;
	return 0;
}

int ibv_cmd_query_port(ibv_context *, uint8_t, ibv_port_attr *attr,
		       verbs_cmd<ib_uverbs_query_port> *, size_t)
{
	attr->state = IBV_PORT_ACTIVE;
	return 0;
}

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, verbs_cmd<ib_uverbs_alloc_pd> *, size_t,
		     ib_uverbs_alloc_pd_resp *resp, size_t)
{
	if (fails("alloc_pd"))
		return ENOMEM;
	pd->context = context;
	pd->handle = fake_driver().next_handle++;
	fake_driver().pds.insert(pd->handle);
	reinterpret_cast<AllocPdResponse *>(resp)->drv.pd_id = 100 + pd->handle;
	return 0;
}

int ibv_cmd_dealloc_pd(ibv_pd *pd)
{
	return fake_driver().pds.erase(pd->handle) ? 0 : EINVAL;
}

int ibv_cmd_reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t, int access, verbs_mr *mr,
		   verbs_cmd<ib_uverbs_reg_mr> *cmd, size_t, ib_uverbs_reg_mr_resp *, size_t)
{
	const std::lock_guard hold(commands_lock);

	if (fails("reg_mr") || length > fake_driver().reg_mr_limit ||
	    !fake_driver().pds.count(pd->handle))
		return ENOMEM;
	mr->mr.handle = fake_driver().next_handle++;
	mr->mr.context = pd->context;
	mr->access = access;
	fake_driver().registrations[mr->mr.handle] = {
		.start = reinterpret_cast<uintptr_t>(addr),
		.length = length,
		.what = reinterpret_cast<RegMrRequest *>(cmd)->drv,
	};
	return 0;
}

int ibv_cmd_rereg_mr(verbs_mr *mr, uint32_t flags, void *addr, size_t length, uint64_t hca_va, int,
		     ibv_pd *pd, verbs_cmd<ib_uverbs_rereg_mr> *cmd, size_t cmd_size,
		     ib_uverbs_rereg_mr_resp *, size_t)
{
	auto &driver = fake_driver();
	const auto it = driver.registrations.find(mr->mr.handle);

	if (fails("rereg_mr"))
		return ENOMEM;
	if (it == driver.registrations.end() || cmd_size != sizeof(ReregMrRequest) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !driver.pds.count(pd->handle)) ||
	    hca_va != reinterpret_cast<uintptr_t>(addr))
		return EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		it->second.start = hca_va, it->second.length = length;
	it->second.what = reinterpret_cast<ReregMrRequest *>(cmd)->drv;
	return 0;
}

/* Ring memory under a live object is held, as in the driver. */
int ibv_cmd_dereg_mr(verbs_mr *mr)
{
	const std::lock_guard hold(commands_lock);
	auto &driver = fake_driver();
	auto it = driver.registrations.find(mr->mr.handle);

	if (it == driver.registrations.end())
		return EINVAL;
	if (driver.in_use(it->second.start))
		return EBUSY;
	driver.registrations.erase(it);
	return 0;
}

/* The key of a window is 0x100 times its handle. */
int ibv_cmd_alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, verbs_cmd<ib_uverbs_alloc_mw> *,
		     size_t cmd_size, ib_uverbs_alloc_mw_resp *, size_t resp_size)
{
	auto &driver = fake_driver();

	if (fails("alloc_mw") || cmd_size != sizeof(verbs_cmd<ib_uverbs_alloc_mw>) ||
	    resp_size != sizeof(ib_uverbs_alloc_mw_resp))
		return ENOMEM;
	mw->context = pd->context;
	mw->pd = pd;
	mw->handle = driver.next_handle++;
	mw->rkey = mw->handle << 8;
	mw->type = type;
	driver.mws[mw->handle] = type;
	return 0;
}

int ibv_cmd_dealloc_mw(ibv_mw *mw)
{
	if (fails("dealloc_mw"))
		return EBUSY;
	return fake_driver().mws.erase(mw->handle) ? 0 : EINVAL;
}

int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *, int, ibv_cq *cq,
		      verbs_cmd<ib_uverbs_create_cq> *cmd, size_t, ib_uverbs_create_cq_resp *resp,
		      size_t)
{
	if (fails("create_cq"))
		return ENOMEM;
	cq->context = context;
	cq->handle = fake_driver().next_handle++;
	cq->cqe = cqe;
	fake_driver().cq_size = cqe;
	fake_driver().cq_request = reinterpret_cast<CreateCqRequest *>(cmd)->drv;
	fake_driver().cqs[cq->handle] = fake_driver().cq_request;
	reinterpret_cast<CreateCqResponse *>(resp)->drv.cq_id = 9;
	return 0;
}

/* The registration of the new ring is held instead of that of the old one. */
int ibv_cmd_resize_cq(ibv_cq *cq, int cqe, verbs_cmd<ib_uverbs_resize_cq> *cmd, size_t,
		      ib_uverbs_resize_cq_resp *, size_t)
{
	const uint64_t ring = reinterpret_cast<ResizeCqRequest *>(cmd)->drv.user_cq_buffer;

	if (fails("resize_cq"))
		return ENOMEM;
	cq->cqe = cqe;
	fake_driver().cq_size = cqe;
	fake_driver().cqs[cq->handle].user_cq_buf = ring;
	if (fake_driver().after_resize_cq)
		fake_driver().after_resize_cq(
			{reinterpret_cast<sirdma_cqe *>(ring), static_cast<size_t>(cqe)});
	return 0;
}

int ibv_cmd_modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr, verbs_ex_cmd<ib_uverbs_ex_modify_cq> *,
		      size_t cmd_size)
{
	if (fails("modify_cq"))
		return ENOMEM;
	if (!fake_driver().cqs.count(cq->handle) || cmd_size != 40)
		return EINVAL;
	fake_driver().moderation = attr->moderate;
	return 0;
}

int ibv_cmd_destroy_cq(ibv_cq *cq)
{
	if (fails("destroy_cq"))
		return EBUSY;
	return fake_driver().cqs.erase(cq->handle) ? 0 : EINVAL;
}

int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr,
		      verbs_cmd<ib_uverbs_create_qp> *cmd, size_t, ib_uverbs_create_qp_resp *resp,
		      size_t)
{
	const std::lock_guard hold(commands_lock);
	auto &driver = fake_driver();
	auto &answer = reinterpret_cast<CreateQpResponse *>(resp)->drv;

	if (fails("create_qp"))
		return ENOMEM;
	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	qp->handle = driver.next_handle++;
	driver.qp_request = reinterpret_cast<CreateQpRequest *>(cmd)->drv;
	driver.qps[qp->handle] = driver.qp_request;
	driver.qp_cap = attr->cap;
	answer.qp_id = 77;
	answer.actual_sq_size =
		ring_wqes(attr->cap.max_send_wr,
			  sirdma_sq_shift(attr->cap.max_send_sge, attr->cap.max_inline_data),
			  driver.pool_of(driver.qp_request.user_wqe_bufs) ?
				  SIRDMA_SQ_POOL_RSVD_QUANTA :
				  SIRDMA_SQ_RSVD_QUANTA) +
		driver.sq_size_error;
	answer.actual_rq_size = attr->srq || attr->qp_type == IBV_QPT_XRC_SEND ?
					0 :
					ring_wqes(attr->cap.max_recv_wr,
						  sirdma_rq_shift(attr->cap.max_recv_sge), 1);
	return 0;
}

int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *attr, int, ibv_qp_init_attr *,
		     verbs_cmd<ib_uverbs_query_qp> *, size_t)
{
	attr->qp_state = fake_driver().qp_state;
	if (fake_driver().after_query_qp)
		fake_driver().after_query_qp();
	return 0;
}

int ibv_cmd_modify_qp(ibv_qp *, ibv_qp_attr *attr, int, verbs_cmd<ib_uverbs_modify_qp> *, size_t)
{
	if (fails("modify_qp"))
		return EINVAL;
	fake_driver().qp_state = attr->qp_state;
	return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *qp)
{
	{
		const std::lock_guard hold(commands_lock);

		if (fails("destroy_qp"))
			return EBUSY;
		if (!fake_driver().qps.erase(qp->handle))
			return EINVAL;
	}
	if (fake_driver().after_destroy_qp)
		fake_driver().after_destroy_qp();
	return 0;
}

int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr,
		       verbs_cmd<ib_uverbs_create_srq> *cmd, size_t,
		       ib_uverbs_create_srq_resp *resp, size_t)
{
	auto &driver = fake_driver();
	auto &answer = reinterpret_cast<CreateSrqResponse *>(resp)->drv;

	if (fails("create_srq"))
		return ENOMEM;
	srq->context = pd->context;
	srq->handle = driver.next_handle++;
	driver.srq_request = reinterpret_cast<CreateSrqRequest *>(cmd)->drv;
	driver.srqs[srq->handle] = driver.srq_request;
	driver.srq_attr = attr->attr;
	answer.srq_id = 5;
	answer.srq_size = ring_wqes(attr->attr.max_wr, sirdma_rq_shift(attr->attr.max_sge), 0) +
			  driver.srq_size_error;
	return 0;
}

int ibv_cmd_modify_srq(ibv_srq *, ibv_srq_attr *attr, int, verbs_cmd<ib_uverbs_modify_srq> *,
		       size_t)
{
	fake_driver().srq_attr.srq_limit = attr->srq_limit;
	return 0;
}

int ibv_cmd_query_srq(ibv_srq *, ibv_srq_attr *attr, verbs_cmd<ib_uverbs_query_srq> *, size_t)
{
	*attr = fake_driver().srq_attr;
	return 0;
}

int ibv_cmd_create_srq_ex(ibv_context *context, verbs_srq *srq, ibv_srq_init_attr_ex *attr,
			  verbs_cmd<ib_uverbs_create_xsrq> *cmd, size_t,
			  ib_uverbs_create_srq_resp *resp, size_t)
{
	auto &driver = fake_driver();
	auto &answer = reinterpret_cast<CreateSrqResponse *>(resp)->drv;

	if (fails("create_srq"))
		return ENOMEM;
	srq->srq.context = context;
	srq->srq.handle = driver.next_handle++;
	srq->srq_type = attr->srq_type;
	srq->srq_num = 9;
	driver.srq_request = reinterpret_cast<CreateXsrqRequest *>(cmd)->drv;
	driver.srqs[srq->srq.handle] = driver.srq_request;
	driver.srq_attr = attr->attr;
	answer.srq_id = 9;
	answer.srq_size = ring_wqes(attr->attr.max_wr, sirdma_rq_shift(attr->attr.max_sge), 0);
	return 0;
}

int ibv_cmd_open_xrcd(ibv_context *context, verbs_xrcd *xrcd, int size, ibv_xrcd_init_attr *attr,
		      verbs_cmd<ib_uverbs_open_xrcd> *, size_t, ib_uverbs_open_xrcd_resp *, size_t)
{
	if (fails("open_xrcd"))
		return ENOMEM;
	if (size != sizeof(*xrcd) || attr->fd != -1)
		return EINVAL;
	xrcd->xrcd.context = context;
	xrcd->handle = fake_driver().next_handle++;
	fake_driver().xrcds.insert(xrcd->handle);
	return 0;
}

int ibv_cmd_close_xrcd(verbs_xrcd *xrcd)
{
	if (fails("close_xrcd"))
		return EBUSY;
	return fake_driver().xrcds.erase(xrcd->handle) ? 0 : EINVAL;
}

/* A target, as the library fills it. */
int make_target(ibv_context *context, verbs_qp *vqp, uint32_t qpn)
{
	auto *qp = reinterpret_cast<ibv_qp *>(vqp);
	auto &driver = fake_driver();

	qp->context = context;
	qp->qp_num = qpn;
	qp->qp_type = IBV_QPT_XRC_RECV;
	qp->handle = driver.next_handle++;
	driver.qps[qp->handle] = {};
	return 0;
}

int ibv_cmd_create_qp_ex(ibv_context *context, verbs_qp *qp, ibv_qp_init_attr_ex *attr,
			 verbs_cmd<ib_uverbs_create_qp> *, size_t cmd_size,
			 ib_uverbs_create_qp_resp *, size_t)
{
	if (fails("create_qp"))
		return ENOMEM;
	/* A target has no data of the driver's. */
	if (cmd_size != sizeof(verbs_cmd<ib_uverbs_create_qp>) ||
	    attr->comp_mask != IBV_QP_INIT_ATTR_XRCD || attr->send_cq || attr->recv_cq)
		return EINVAL;
	return make_target(context, qp, 78);
}

int ibv_cmd_open_qp(ibv_context *context, verbs_qp *qp, int size, ibv_qp_open_attr *attr,
		    verbs_cmd<ib_uverbs_open_qp> *, size_t, ib_uverbs_create_qp_resp *, size_t)
{
	return size == private_abi::qp_size_max ? make_target(context, qp, attr->qp_num) : EINVAL;
}

int ibv_cmd_destroy_srq(ibv_srq *srq)
{
	if (fails("destroy_srq"))
		return EBUSY;
	return fake_driver().srqs.erase(srq->handle) ? 0 : EINVAL;
}

/* The index of its address vector is 1,000 more than the handle. */
int ibv_cmd_create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *, ib_uverbs_create_ah_resp *resp,
		      size_t resp_size)
{
	auto &driver = fake_driver();

	if (fails("create_ah") || resp_size != sizeof(CreateAhResponse))
		return ENOMEM;
	ah->context = pd->context;
	ah->handle = driver.next_handle++;
	driver.ahs[ah->handle] = pd->handle;
	reinterpret_cast<CreateAhResponse *>(resp)->drv.ah_id = 1000 + ah->handle;
	return 0;
}

int ibv_cmd_attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t)
{
	if (fails("attach_mcast"))
		return ENOMEM;
	fake_driver().mcasts.insert({qp->handle, gid->raw[15]});
	return 0;
}

int ibv_cmd_detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t)
{
	return fake_driver().mcasts.erase({qp->handle, gid->raw[15]}) ? 0 : EINVAL;
}

int ibv_cmd_destroy_ah(ibv_ah *ah)
{
	if (fails("destroy_ah"))
		return EBUSY;
	return fake_driver().ahs.erase(ah->handle) ? 0 : EINVAL;
}

} // namespace

} // namespace sirdma::test

using namespace sirdma;
using sirdma::test::fails;
using sirdma::test::fake_driver;

namespace sirdma
{

void register_driver(const verbs_device_ops &ops) noexcept
{
	fake_driver().ops = &ops;
}

bool library_is_known() noexcept
{
	return true;
}

verbs_context *library_context(ibv_context *context) noexcept
{
	return reinterpret_cast<verbs_context *>(reinterpret_cast<uint8_t *>(context) -
						 offsetof(verbs_context, context));
}

void *alloc_context_memory(ibv_device *device, int cmd_fd, size_t size, size_t offset,
			   uint32_t driver_id) noexcept
{
	auto *memory = static_cast<uint8_t *>(calloc(1, size));
	auto *context = reinterpret_cast<ibv_context *>(memory + offset);

	context->device = device;
	context->cmd_fd = cmd_fd;
	fake_driver().context_driver_id = driver_id;
	++fake_driver().contexts;
	return memory;
}

const Library &library() noexcept
{
	static const Library fake = [] {
		Library commands;

#define ENTRY(name) commands.name = test::name;
		SIRDMA_LIBRARY_COMMANDS(ENTRY)
#undef ENTRY
		return commands;
	}();

	return fake;
}

int set_operations(ibv_context *, const Operations &) noexcept
{
	return fails("set_operations") ? EPROTO : 0;
}

void uninit_context(ibv_context *) noexcept
{
	--fake_driver().contexts;
}

} // namespace sirdma

extern "C" {

int ibv_dontfork_range(void *, size_t)
{
	return fails("dontfork") ? -1 : 0;
}

int ibv_dofork_range(void *, size_t)
{
	return 0;
}

} /* extern "C" */
