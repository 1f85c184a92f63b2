/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The commands by which the provider asks the driver of a device. There is a table for each kind of
 * driver: the kernel's (kernel_commands.cpp), which libibverbs' commands reach, and the twin's in
 * this process (uprov/twin/commands.cpp). Of these only req_notify_cq() is on the data path, and
 * seldom.
 */
#pragma once

#include "command.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

/* Device memory, as its driver describes it. */
struct DmInfo {
	uint32_t handle;
	size_t length; /* bytes that the application asked for */
	uint8_t *memory; /* null: the provider maps map_bytes of the device file at mmap_key */
	uint64_t mmap_key;
	size_t map_bytes;
};

/* What a registration gets. */
struct Keys {
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * All return 0 or an errno. They fill in those fields of a verbs object that libibverbs' own
 * commands do.
 */
struct Commands {
	int (*get_context)(ibv_context *, GetContextRequest &, GetContextResponse &);
	/*
	 * The functions for imports return EOPNOTSUPP if other processes cannot share a context.
	 * query_context() fills in what get_context() does, for a context that another process made.
	 */
	int (*query_context)(ibv_context *, sirdma_alloc_ucontext_resp &);
	int (*query_pd)(ibv_context *, uint32_t handle, sirdma_alloc_pd_resp &);
	int (*query_mr)(ibv_context *, uint32_t handle, Keys &, uint64_t &length);
	int (*query_dm)(ibv_context *, uint32_t handle, DmInfo &);
	int (*query_device)(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *,
			    size_t attr_size, uint64_t &fw_version);
	/* @now: the device's clock, in ns. Timestamps of completions are read from this clock. */
	int (*read_clock)(ibv_context *, uint64_t &now);
	int (*query_port)(ibv_context *, uint8_t port_num, ibv_port_attr *);
	int (*alloc_pd)(ibv_context *, ibv_pd *, AllocPdResponse &);
	int (*dealloc_pd)(ibv_pd *);
	int (*reg_mr)(ibv_pd *, void *addr, size_t length, uint64_t hca_va, int access, verbs_mr *,
		      RegMrRequest &);
	int (*rereg_mr)(verbs_mr *, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
			int access, ibv_pd *, ReregMrRequest &);
	int (*dereg_mr)(verbs_mr *);
	/* Returns EOPNOTSUPP if the driver has no regions on demand. */
	int (*advise_mr)(ibv_pd *, ibv_advise_mr_advice, uint32_t flags, const ibv_sge *,
			 uint32_t count);
	int (*alloc_mw)(ibv_pd *, ibv_mw_type, ibv_mw *);
	int (*dealloc_mw)(ibv_mw *);
	int (*alloc_dm)(ibv_context *, const ibv_alloc_dm_attr &, DmInfo &);
	/* Returns EBUSY if regions are over the memory. */
	int (*free_dm)(ibv_context *, uint32_t handle);
	int (*reg_dm_mr)(ibv_pd *, uint32_t dm, uint64_t offset, size_t length, uint32_t access,
			 Keys &);
	/* Returns EOPNOTSUPP if regions cannot be over DMA buffers. */
	int (*reg_dmabuf_mr)(ibv_pd *, uint64_t offset, size_t length, uint64_t iova, int fd,
			     int access, Keys &);
	int (*create_cq)(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector, ibv_cq *,
			 CreateCqRequest &, CreateCqResponse &);
	/* @cqe: number of elements of the ring that the request names. */
	int (*resize_cq)(ibv_cq *, int cqe, ResizeCqRequest &);
	int (*modify_cq)(ibv_cq *, ibv_modify_cq_attr *);
	int (*destroy_cq)(ibv_cq *);
	/*
	 * The arm word requests an event: the device raises it if there is such a completion already. A
	 * driver that does not know this command refuses it.
	 */
	int (*req_notify_cq)(ibv_cq *);
	int (*create_qp)(ibv_pd *, ibv_qp *, ibv_qp_init_attr *, CreateQpRequest &,
			 CreateQpResponse &);
	/* Create an XRC target of attr->xrcd: it has no rings. */
	int (*create_target)(ibv_context *, verbs_qp *, ibv_qp_init_attr_ex *);
	/* Open a target that attr->xrcd has already, by its number. @qp_size: bytes at @qp. */
	int (*open_qp)(ibv_context *, verbs_qp *qp, size_t qp_size, ibv_qp_open_attr *);
	int (*query_qp)(ibv_qp *, ibv_qp_attr *, int attr_mask, ibv_qp_init_attr *);
	int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int attr_mask);
	int (*destroy_qp)(ibv_qp *);
	int (*create_srq)(ibv_pd *, ibv_srq *, ibv_srq_init_attr *, CreateSrqRequest &,
			  CreateSrqResponse &);
	/* Create a shared receive queue of an XRC domain. */
	int (*create_xrc_srq)(ibv_context *, verbs_srq *, ibv_srq_init_attr_ex *,
			      CreateXsrqRequest &, CreateSrqResponse &);
	int (*modify_srq)(ibv_srq *, ibv_srq_attr *, int attr_mask);
	int (*query_srq)(ibv_srq *, ibv_srq_attr *);
	int (*destroy_srq)(ibv_srq *);
	int (*open_xrcd)(ibv_context *, verbs_xrcd *, ibv_xrcd_init_attr *);
	int (*close_xrcd)(verbs_xrcd *);
	int (*create_ah)(ibv_pd *, ibv_ah *, ibv_ah_attr *, CreateAhResponse &);
	int (*destroy_ah)(ibv_ah *);
	int (*attach_mcast)(ibv_qp *, const ibv_gid *, uint16_t lid);
	int (*detach_mcast)(ibv_qp *, const ibv_gid *, uint16_t lid);
	/*
	 * The part of the rings that a forked child gets if the application asked for fork safety.
	 */
	InChildren rings_in_children;
};

/* The commands of a device of the kernel. */
extern const Commands kernel_commands;

} // namespace sirdma
