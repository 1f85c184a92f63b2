/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "context.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <rdma/ib_user_ioctl_verbs.h>
#include <sirdma/encode.h>
#include <sirdma/shadow.h>
#include <sirdma/wqe.h>

#include "page_buffer.hpp"
#include "pd.hpp"
#include "ring_pool.hpp"
#include "verbs.hpp"

namespace sirdma
{

constinit const Operations context_ops = [] {
	Operations ops{};

	ops.advise_mr = advise_mr;
	ops.alloc_dm = alloc_dm;
	ops.alloc_mw = alloc_mw;
	ops.alloc_parent_domain = alloc_parent_domain;
	ops.alloc_pd = alloc_pd;
	ops.alloc_td = alloc_td;
	ops.attach_mcast = attach_mcast;
	ops.bind_mw = bind_mw;
	ops.close_xrcd = close_xrcd;
	ops.cq_event = cq_event;
	ops.create_ah = create_ah;
	ops.create_cq = create_cq;
	ops.create_cq_ex = create_cq_ex;
	ops.create_qp = create_qp;
	ops.create_qp_ex = create_qp_ex;
	ops.create_srq = create_srq;
	ops.create_srq_ex = create_srq_ex;
	ops.dealloc_mw = dealloc_mw;
	ops.dealloc_pd = dealloc_pd;
	ops.dealloc_td = dealloc_td;
	ops.dereg_mr = dereg_mr;
	ops.destroy_ah = destroy_ah;
	ops.destroy_cq = destroy_cq;
	ops.destroy_qp = destroy_qp;
	ops.destroy_srq = destroy_srq;
	ops.detach_mcast = detach_mcast;
	ops.free_context = free_context;
	ops.free_dm = free_dm;
	ops.get_srq_num = get_srq_num;
	ops.import_dm = import_dm;
	ops.import_mr = import_mr;
	ops.import_pd = import_pd;
	ops.modify_cq = modify_cq;
	ops.modify_qp = modify_qp;
	ops.modify_srq = modify_srq;
	ops.open_qp = open_qp;
	ops.open_xrcd = open_xrcd;
	ops.poll_cq = poll_cq;
	ops.post_recv = post_recv;
	ops.post_send = post_send;
	ops.post_srq_recv = post_srq_recv;
	ops.query_device_ex = query_device_ex;
	ops.query_port = query_port;
	ops.query_qp = query_qp;
	ops.query_rt_values = query_rt_values;
	ops.query_srq = query_srq;
	ops.reg_dm_mr = reg_dm_mr;
	ops.reg_dmabuf_mr = reg_dmabuf_mr;
	ops.reg_mr = reg_mr;
	ops.req_notify_cq = req_notify_cq;
	ops.rereg_mr = rereg_mr;
	ops.resize_cq = resize_cq;
	ops.unimport_dm = unimport_dm;
	ops.unimport_mr = unimport_mr;
	ops.unimport_pd = unimport_pd;
	return ops;
}();

namespace
{

/* The limits of the driver, clipped to the values that the layouts of the provider can hold. */
Limits limits_from(const sirdma_alloc_ucontext_resp &resp) noexcept
{
	Limits l{};

	l.max_sge = std::min<uint32_t>(resp.max_hw_wq_frags, SIRDMA_MAX_SGE);
	l.max_read_sge = std::min<uint32_t>(resp.max_hw_read_sges, SIRDMA_MAX_READ_SGE);
	l.max_inline = std::min<uint32_t>(resp.max_hw_inline, SIRDMA_MAX_INLINE);
	l.max_sq_quanta = std::min<uint32_t>(resp.max_hw_wq_quanta, SIRDMA_MAX_WQ_QUANTA);
	l.max_rq_quanta = std::min<uint32_t>(resp.max_hw_rq_quanta, SIRDMA_MAX_WQ_QUANTA);
	l.min_wq_quanta = resp.comp_mask & SIRDMA_UCTX_MIN_HW_WQ_SIZE ? resp.min_hw_wq_size :
									SIRDMA_MIN_WQ_QUANTA;
	/* A driver that has no shared receive queues does not know the field. */
	if ((resp.feature_flags & SIRDMA_FEATURE_SRQ) &&
	    (resp.comp_mask & SIRDMA_UCTX_MAX_HW_SRQ_QUANTA))
		l.max_srq_quanta =
			std::min<uint32_t>(resp.max_hw_srq_quanta, SIRDMA_MAX_SRQ_QUANTA);
	l.max_cq_size = std::min<uint32_t>(resp.max_hw_cq_size, SIRDMA_CQ_SHADOW_CQEIDX);
	l.min_cq_size = resp.min_hw_cq_size;
	l.lacks = SIRDMA_SEND_OP_KERNEL;
	if (!(resp.feature_flags & SIRDMA_FEATURE_ATOMICS))
		l.lacks |= SIRDMA_SEND_OP_ATOMIC;
	if (!(resp.feature_flags & SIRDMA_FEATURE_PLACEMENT))
		l.lacks |= SIRDMA_SEND_OP_PLACEMENT;
	l.xrc = resp.feature_flags & SIRDMA_FEATURE_XRC;
	return l;
}

int make_context(Context &ctx, sirdma_alloc_ucontext_resp &answer) noexcept
{
	GetContextRequest req;
	GetContextResponse resp;

	req.drv.userspace_ver = SIRDMA_ABI_VERSION;
	req.drv.comp_mask = SIRDMA_UCTX_USE_RAW_ATTR;
	/* A device of this identity is driven as libirdma drives it, whoever made it. */
	if (driver_id_of(ctx.verbs.device) != RDMA_DRIVER_IRDMA)
		req.drv.comp_mask |= SIRDMA_UCTX_KICK;
	if (const int err = ctx.commands->get_context(&ctx.verbs, req, resp))
		return err;
	answer = resp.drv;
	return 0;
}

int get_context(Context &ctx, Origin origin, sirdma_alloc_ucontext_resp &answer) noexcept
{
	const int err = origin == Origin::imported ?
				ctx.commands->query_context(&ctx.verbs, answer) :
				make_context(ctx, answer);

	if (err)
		return err;
	/*
	 * Driver and provider compute ring sizes from raw attributes. The provider does not support
	 * a driver without them.
	 */
	if (!(answer.comp_mask & SIRDMA_UCTX_USE_RAW_ATTR) || answer.hw_rev != SIRDMA_HW_REV_GEN2)
		return EOPNOTSUPP;
	return 0;
}

/* The decimal number that is all of @text; 0: there is none. */
uint32_t number_of(const char *text) noexcept
{
	const char *const end = text ? text + strlen(text) : nullptr;
	uint32_t number = 0;
	const auto [stop, error] = std::from_chars(text, end, number);

	return error == std::errc{} && stop == end ? number : 0;
}

int open_context(Context &ctx, int cmd_fd, Origin origin) noexcept
{
	sirdma_alloc_ucontext_resp resp{};

	if (const int err = get_context(ctx, origin, resp))
		return err;
	ctx.imported = origin == Origin::imported;
	ctx.limits = limits_from(resp);
	ctx.kick = resp.comp_mask & SIRDMA_UCTX_KICK;
	ctx.kick_method = resp.comp_mask & SIRDMA_UCTX_KICK_METHOD;
	ctx.cq_flags = resp.comp_mask & SIRDMA_UCTX_CQ_FLAGS;
	ctx.clears_arm = resp.comp_mask & (SIRDMA_UCTX_KICK | SIRDMA_UCTX_RING_POOL);
	ctx.cq_shadow_apart = resp.feature_flags & SIRDMA_FEATURE_CQ_RESIZE;

	const char *env = getenv("SIRDMA_SINGLE_THREADED");
	ctx.single_threaded = env && !strcmp(env, "1");
	ctx.vendor_part_id = number_of(getenv("SIRDMA_VENDOR_PART_ID"));

	if (const int err = set_operations(&ctx.verbs, context_ops))
		return err;

	PageBuffer page = PageBuffer::device(cmd_fd, static_cast<off_t>(resp.db_mmap_key),
					     sizeof(sirdma_db_page),
					     ctx.commands->rings_in_children);
	if (!page)
		return errno;

	ibv_pd *pd = alloc_pd(&ctx.verbs);
	if (!pd)
		return errno;
	pd->context = &ctx.verbs;
	ctx.pd = &Pd::of(pd);
	if (resp.comp_mask & SIRDMA_UCTX_RING_POOL)
		ctx.pool = new (std::nothrow) RingPool(ctx); /* without it QPs work as well */
	ctx.doorbell = reinterpret_cast<sirdma_db_page *>(page.release());
	return 0;
}

} // namespace

ibv_context *open_device(ibv_device *device, int cmd_fd, const Commands &commands,
			 Origin origin) noexcept
{
	auto *ctx = static_cast<Context *>(alloc_context_memory(
		device, cmd_fd, sizeof(Context), offsetof(Context, verbs), driver_id_of(device)));

	if (!ctx)
		return nullptr;
	ctx->commands = &commands;
	if (const int err = open_context(*ctx, cmd_fd, origin)) {
		uninit_context(&ctx->verbs);
		free(ctx);
		errno = err;
		return nullptr;
	}
	return &ctx->verbs;
}

void free_context(ibv_context *context) noexcept
{
	Context &ctx = Context::of(context);

	delete ctx.pool;
	/* The twin's driver has already freed the rest of the context, including this PD. */
	static_cast<void>(ctx.commands->dealloc_pd(&ctx.pd->base));
	delete ctx.pd;
	PageBuffer::adopt(ctx.doorbell, sizeof(sirdma_db_page), ctx.commands->rings_in_children);
	uninit_context(&ctx.verbs);
	free(&ctx);
}

int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
		    ibv_device_attr_ex *attr, size_t attr_size) noexcept
{
	uint64_t version = 0;

	if (const int err =
		    commands(context).query_device(context, input, attr, attr_size, version))
		return err;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 static_cast<unsigned>(version >> 32 & 0xffff),
		 static_cast<unsigned>(version >> 16 & 0xffff),
		 static_cast<unsigned>(version & 0xffff));
	/* perftest uses ibv_wr_*() on devices whose part ID it knows. */
	if (const uint32_t id = Context::of(context).vendor_part_id)
		attr->orig_attr.vendor_part_id = id;
	return 0;
}

/*
 * tv_nsec is the count of the clock and tv_sec is 0, as with other providers. comp_mask names the
 * values that were read.
 */
int query_rt_values(ibv_context *context, ibv_values_ex *values) noexcept
{
	const uint32_t wanted = values->comp_mask;
	uint64_t now = 0;

	values->comp_mask = wanted & IBV_VALUES_MASK_RAW_CLOCK;
	if (!values->comp_mask)
		return 0;
	if (const int err = commands(context).read_clock(context, now))
		return err;
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = static_cast<long>(now);
	return 0;
}

int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr) noexcept
{
	return commands(context).query_port(context, port_num, attr);
}

} // namespace sirdma
