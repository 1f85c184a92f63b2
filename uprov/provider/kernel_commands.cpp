/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands to a device of the kernel: the library's. */
#include <cinttypes>
#include <cstdio>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>

#include "clock.hpp"
#include "context.hpp"
#include "ioctl.hpp"
#include "library.hpp"

namespace sirdma
{

namespace
{

/* The inode of /proc/self/ns/time of a process that is in the first time namespace. */
constexpr ino_t first_time_namespace = 0xeffffffa;

/*
 * How far CLOCK_MONOTONIC of this process is ahead of the kernel's own, which is 0 outside of time
 * namespaces. The file describes the namespace of future children (time_namespaces(7)). This is the
 * namespace of the process, unless unshare() made a new one.
 */
int64_t monotonic_offset() noexcept
{
	struct stat space = {};
	int64_t seconds = 0;
	long ns = 0;

	if (stat("/proc/self/ns/time", &space) || space.st_ino == first_time_namespace)
		return 0;

	FILE *offsets = fopen("/proc/self/timens_offsets", "re");

	if (!offsets)
		return 0;
	if (fscanf(offsets, "monotonic %" SCNd64 " %ld", &seconds, &ns) != 2)
		seconds = ns = 0;
	fclose(offsets);
	return seconds * static_cast<int64_t>(ns_per_second) + ns;
}

/* The command has one more argument since release 57. */
int get_context_of_library(ibv_context *context, GetContextRequest &req, GetContextResponse &resp)
{
	using WithFds = int(verbs_context *, verbs_cmd<ib_uverbs_get_context> *, size_t,
			    void *fd_arr, ib_uverbs_get_context_resp *, size_t);
	const auto get = library().ibv_cmd_get_context;
	verbs_context *of = library_context(context);

	if (library().interface.get_context_takes_fds)
		return reinterpret_cast<WithFds *>(reinterpret_cast<verbs_unused_op>(get))(
			of, &req.cmd, sizeof(req), nullptr, resp.kernel(), sizeof(resp));
	return get(of, &req.cmd, sizeof(req), resp.kernel(), sizeof(resp));
}

int get_context(ibv_context *context, GetContextRequest &req, GetContextResponse &resp)
{
	Context::of(context).clock_offset = monotonic_offset();
	return get_context_of_library(context, req, resp);
}

/* For imports: what the library's own command would set, and the driver's part. */
int query_context(ibv_context *context, sirdma_alloc_ucontext_resp &resp)
{
	uint32_t vectors = 0;
	uint64_t core_support = 0;
	Ioctl<3> command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);

	Context::of(context).clock_offset = monotonic_offset();
	command.out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, vectors)
		.out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, core_support)
		.out(SIRDMA_ATTR_QUERY_CONTEXT_RESP, resp);
	if (const int err = command.run(context))
		return err;
	context->num_comp_vectors = static_cast<int>(vectors);
	reinterpret_cast<verbs_device *>(context->device)->core_support = core_support;
	return 0;
}

int query_pd(ibv_context *context, uint32_t handle, sirdma_alloc_pd_resp &resp)
{
	return Ioctl<2>(UVERBS_OBJECT_PD, SIRDMA_METHOD_PD_QUERY)
		.object(SIRDMA_ATTR_PD_QUERY_HANDLE, handle)
		.out(SIRDMA_ATTR_PD_QUERY_RESP, resp)
		.run(context);
}

int query_mr(ibv_context *context, uint32_t handle, Keys &keys, uint64_t &length)
{
	keys.handle = handle;
	return Ioctl<4>(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR)
		.object(UVERBS_ATTR_QUERY_MR_HANDLE, handle)
		.out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, keys.lkey)
		.out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, keys.rkey)
		.out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, length)
		.run(context);
}

DmInfo dm_info(uint32_t handle, const sirdma_dm_resp &resp) noexcept
{
	return {
		.handle = handle,
		.length = resp.length,
		.memory = nullptr,
		.mmap_key = resp.mmap_key,
		.map_bytes = resp.map_bytes,
	};
}

int query_dm(ibv_context *context, uint32_t handle, DmInfo &dm)
{
	sirdma_dm_resp resp{};

	if (const int err = Ioctl<2>(UVERBS_OBJECT_DM, SIRDMA_METHOD_DM_QUERY)
				    .object(SIRDMA_ATTR_DM_QUERY_HANDLE, handle)
				    .out(SIRDMA_ATTR_DM_QUERY_RESP, resp)
				    .run(context))
		return err;
	dm = dm_info(handle, resp);
	return 0;
}

int query_device(ibv_context *context, const ibv_query_device_ex_input *input,
		 ibv_device_attr_ex *attr, size_t attr_size, uint64_t &fw_version)
{
	ib_uverbs_ex_query_device_resp resp{};
	size_t resp_size = sizeof(resp);
	const int err = library().ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
							   &resp_size);

	fw_version = resp.base.fw_ver;
	return err;
}

/* The device reads the kernel's monotonic clock. */
int read_clock(ibv_context *context, uint64_t &now)
{
	now = clock_ns(CLOCK_MONOTONIC) - static_cast<uint64_t>(Context::of(context).clock_offset);
	return 0;
}

int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr)
{
	verbs_cmd<ib_uverbs_query_port> cmd{};

	return library().ibv_cmd_query_port(context, port_num, attr, &cmd, sizeof(cmd));
}

int alloc_pd(ibv_context *context, ibv_pd *pd, AllocPdResponse &resp)
{
	verbs_cmd<ib_uverbs_alloc_pd> cmd{};

	return library().ibv_cmd_alloc_pd(context, pd, &cmd, sizeof(cmd), resp.kernel(),
					  sizeof(resp));
}

int dealloc_pd(ibv_pd *pd)
{
	return library().ibv_cmd_dealloc_pd(pd);
}

int reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access, verbs_mr *mr,
	   RegMrRequest &req)
{
	ib_uverbs_reg_mr_resp resp{};

	return library().ibv_cmd_reg_mr(pd, addr, length, hca_va, access, mr, &req.cmd, sizeof(req),
					&resp, sizeof(resp));
}

int rereg_mr(verbs_mr *mr, uint32_t flags, void *addr, size_t length, uint64_t hca_va, int access,
	     ibv_pd *pd, ReregMrRequest &req)
{
	ib_uverbs_rereg_mr_resp resp{};

	return library().ibv_cmd_rereg_mr(mr, flags, addr, length, hca_va, access, pd, &req.cmd,
					  sizeof(req), &resp, sizeof(resp));
}

int dereg_mr(verbs_mr *mr)
{
	return library().ibv_cmd_dereg_mr(mr);
}

int alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw)
{
	verbs_cmd<ib_uverbs_alloc_mw> cmd{};
	ib_uverbs_alloc_mw_resp resp{};

	return library().ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp));
}

int dealloc_mw(ibv_mw *mw)
{
	return library().ibv_cmd_dealloc_mw(mw);
}

int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, const ibv_sge *sges,
	      uint32_t count)
{
	static_assert(sizeof(ibv_sge) == sizeof(ib_uverbs_sge));
	static_assert(offsetof(ibv_sge, length) == offsetof(ib_uverbs_sge, length));
	static_assert(offsetof(ibv_sge, lkey) == offsetof(ib_uverbs_sge, lkey));

	using Command = Ioctl<4>;

	/* ibv_cmd_advise_mr() of libibverbs gives EINVAL, too. */
	if (count > Command::max_bytes / sizeof(*sges))
		return EINVAL;
	return Command(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR)
		.object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd->handle)
		.in<uint64_t>(UVERBS_ATTR_ADVISE_MR_ADVICE, advice)
		.in<uint32_t>(UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
		.in_memory(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sges, count * sizeof(*sges))
		.run(pd->context);
}

int alloc_dm(ibv_context *context, const ibv_alloc_dm_attr &attr, DmInfo &dm)
{
	sirdma_dm_resp resp{};
	Ioctl<4> command(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);

	command.new_object(UVERBS_ATTR_ALLOC_DM_HANDLE)
		.in<uint64_t>(UVERBS_ATTR_ALLOC_DM_LENGTH, attr.length)
		.in<uint32_t>(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, attr.log_align_req)
		.out(SIRDMA_ATTR_ALLOC_DM_RESP, resp);
	if (const int err = command.run(context))
		return err;
	dm = dm_info(command.object_of(UVERBS_ATTR_ALLOC_DM_HANDLE), resp);
	return 0;
}

int free_dm(ibv_context *context, uint32_t handle)
{
	return Ioctl<1>(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE)
		.object(UVERBS_ATTR_FREE_DM_HANDLE, handle)
		.run(context);
}

int reg_dm_mr(ibv_pd *pd, uint32_t dm, uint64_t offset, size_t length, uint32_t access, Keys &keys)
{
	Ioctl<8> command(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);

	command.new_object(UVERBS_ATTR_REG_DM_MR_HANDLE)
		.object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd->handle)
		.object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm)
		.in<uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET, offset)
		.in<uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH, length)
		.in<uint32_t>(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access)
		.out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, keys.lkey)
		.out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, keys.rkey);
	if (const int err = command.run(pd->context))
		return err;
	keys.handle = command.object_of(UVERBS_ATTR_REG_DM_MR_HANDLE);
	return 0;
}

int reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access,
		  Keys &keys)
{
	Ioctl<9> command(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);

	command.new_object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
		.object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd->handle)
		.in<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset)
		.in<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length)
		.in<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova)
		.in<uint32_t>(UVERBS_ATTR_REG_DMABUF_MR_FD, static_cast<uint32_t>(fd))
		.in<uint32_t>(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, static_cast<uint32_t>(access))
		.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, keys.lkey)
		.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, keys.rkey);
	if (const int err = command.run(pd->context))
		return err;
	keys.handle = command.object_of(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
	return 0;
}

int create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, ibv_cq *cq,
	      CreateCqRequest &req, CreateCqResponse &resp)
{
	return library().ibv_cmd_create_cq(context, cqe, channel, comp_vector, cq, &req.cmd,
					   sizeof(req), resp.kernel(), sizeof(resp));
}

int resize_cq(ibv_cq *cq, int cqe, ResizeCqRequest &req)
{
	ib_uverbs_resize_cq_resp resp{};

	return library().ibv_cmd_resize_cq(cq, cqe, &req.cmd, sizeof(req), &resp, sizeof(resp));
}

int req_notify_cq(ibv_cq *cq)
{
	const ib_uverbs_req_notify_cq request = {.cq_handle = cq->handle, .solicited_only = 0};
	const auto command =
		Ioctl<2>(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE)
			.in<uint64_t>(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ)
			.in<ib_uverbs_req_notify_cq>(UVERBS_ATTR_CORE_IN, request)
			.build(driver_id_of(cq->context->device));

	/* write() would be a cancellation point, and serves only the credentials that opened the file. */
	while (command.send_again(cq->context->cmd_fd)) {
		/* Without it the event would not come: as Kick::wake(). */
		if (errno != ENOMEM)
			return errno;
		sched_yield();
	}
	return 0;
}

int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr)
{
	verbs_ex_cmd<ib_uverbs_ex_modify_cq> cmd{};

	return library().ibv_cmd_modify_cq(cq, attr, &cmd, sizeof(cmd));
}

int destroy_cq(ibv_cq *cq)
{
	return library().ibv_cmd_destroy_cq(cq);
}

int create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr, CreateQpRequest &req,
	      CreateQpResponse &resp)
{
	return library().ibv_cmd_create_qp(pd, qp, attr, &req.cmd, sizeof(req), resp.kernel(),
					   sizeof(resp));
}

int create_target(ibv_context *context, verbs_qp *qp, ibv_qp_init_attr_ex *attr)
{
	verbs_cmd<ib_uverbs_create_qp> cmd{};
	ib_uverbs_create_qp_resp resp{};

	return library().ibv_cmd_create_qp_ex(context, qp, attr, &cmd, sizeof(cmd), &resp,
					      sizeof(resp));
}

int open_qp(ibv_context *context, verbs_qp *qp, size_t qp_size, ibv_qp_open_attr *attr)
{
	verbs_cmd<ib_uverbs_open_qp> cmd{};
	ib_uverbs_create_qp_resp resp{};

	return library().ibv_cmd_open_qp(context, qp, static_cast<int>(qp_size), attr, &cmd,
					 sizeof(cmd), &resp, sizeof(resp));
}

int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr)
{
	verbs_cmd<ib_uverbs_query_qp> cmd{};

	return library().ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
}

int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask)
{
	verbs_cmd<ib_uverbs_modify_qp> cmd{};

	return library().ibv_cmd_modify_qp(qp, attr, attr_mask, &cmd, sizeof(cmd));
}

int destroy_qp(ibv_qp *qp)
{
	return library().ibv_cmd_destroy_qp(qp);
}

int create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, CreateSrqRequest &req,
	       CreateSrqResponse &resp)
{
	return library().ibv_cmd_create_srq(pd, srq, attr, &req.cmd, sizeof(req), resp.kernel(),
					    sizeof(resp));
}

int create_xrc_srq(ibv_context *context, verbs_srq *srq, ibv_srq_init_attr_ex *attr,
		   CreateXsrqRequest &req, CreateSrqResponse &resp)
{
	return library().ibv_cmd_create_srq_ex(context, srq, attr, &req.cmd, sizeof(req),
					       resp.kernel(), sizeof(resp));
}

int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask)
{
	verbs_cmd<ib_uverbs_modify_srq> cmd{};

	return library().ibv_cmd_modify_srq(srq, attr, attr_mask, &cmd, sizeof(cmd));
}

int query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
	verbs_cmd<ib_uverbs_query_srq> cmd{};

	return library().ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int destroy_srq(ibv_srq *srq)
{
	return library().ibv_cmd_destroy_srq(srq);
}

int open_xrcd(ibv_context *context, verbs_xrcd *xrcd, ibv_xrcd_init_attr *attr)
{
	verbs_cmd<ib_uverbs_open_xrcd> cmd{};
	ib_uverbs_open_xrcd_resp resp{};

	return library().ibv_cmd_open_xrcd(context, xrcd, sizeof(*xrcd), attr, &cmd, sizeof(cmd),
					   &resp, sizeof(resp));
}

int close_xrcd(verbs_xrcd *xrcd)
{
	return library().ibv_cmd_close_xrcd(xrcd);
}

int create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *attr, CreateAhResponse &resp)
{
	return library().ibv_cmd_create_ah(pd, ah, attr, resp.kernel(), sizeof(resp));
}

int destroy_ah(ibv_ah *ah)
{
	return library().ibv_cmd_destroy_ah(ah);
}

int attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid)
{
	return library().ibv_cmd_attach_mcast(qp, gid, lid);
}

int detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid)
{
	return library().ibv_cmd_detach_mcast(qp, gid, lid);
}

} // namespace

constinit const Commands kernel_commands = {
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
	/* The rings are pinned: a child's copy on write could take them from their process. */
	.rings_in_children = InChildren::nothing,
};

} // namespace sirdma
