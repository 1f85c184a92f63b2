/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private data of the uverbs commands. Layout source: irdma's uverbs ABI 5
 * (include/uapi/rdma/irdma-abi.h); extensions are negotiated by SIRDMA_UCTX_KICK,
 * SIRDMA_UCTX_CQ_FLAGS, SIRDMA_UCTX_RING_POOL and SIRDMA_UCTX_KICK_METHOD in comp_mask. A provider
 * that does not ask for kicks gets none of the extensions; only devices that have irdma's identity
 * take it. Flags that are marked "compat" are of features that no device of ours has: libirdma
 * reads them, and finds 0.
 */
#ifndef SIRDMA_ABI_H
#define SIRDMA_ABI_H

#include "bits.h"

#define SIRDMA_ABI_VERSION 5
/* rdma_driver_id of our own identity: outside the range of enum rdma_driver_id ("SIRD"). */
#define SIRDMA_DRIVER_ID 0x53495244
#define SIRDMA_ABI_MIN_USER_VERSION 4

enum sirdma_memreg_type {
	SIRDMA_MEMREG_MEM = 0,
	SIRDMA_MEMREG_QP = 1, /* SQ pages, RQ pages, then the shadow area on a page of its own */
	SIRDMA_MEMREG_CQ = 2, /* CQ pages (cq_pages), or the CQ shadow area (cq_pages = 1) */
	SIRDMA_MEMREG_SRQ = 3, /* SRQ pages (rq_pages), then the shadow area on a page of its own */
	/*
	 * Whole pages for the rings of many small QPs: SQ, RQ and shadow area of a QP lie there
	 * without a gap, within one page, at a multiple of SIRDMA_POOL_ALIGN. Only with
	 * SIRDMA_UCTX_RING_POOL.
	 */
	SIRDMA_MEMREG_POOL = 4,
};

#define SIRDMA_POOL_ALIGN 256 /* the device wants contiguous rings aligned so */

/* comp_mask of alloc_ucontext, request and response */
#define SIRDMA_UCTX_USE_RAW_ATTR SIRDMA_BIT(0)
#define SIRDMA_UCTX_MIN_HW_WQ_SIZE SIRDMA_BIT(1) /* response: min_hw_wq_size is filled in */
#define SIRDMA_UCTX_MAX_HW_SRQ_QUANTA SIRDMA_BIT(2) /* response: max_hw_srq_quanta is filled in */
#define SIRDMA_UCTX_KICK SIRDMA_BIT(32) /* need_kick words are kept; post_send(NULL) kicks */
#define SIRDMA_UCTX_CQ_FLAGS SIRDMA_BIT(33) /* response: create_cq knows its flags */
#define SIRDMA_UCTX_RING_POOL SIRDMA_BIT(34) /* response: reg_mr knows SIRDMA_MEMREG_POOL */
#define SIRDMA_UCTX_KICK_METHOD SIRDMA_BIT(35) /* response: SIRDMA_METHOD_KICK kicks as well */

/* feature_flags */
#define SIRDMA_FEATURE_RTS_AE SIRDMA_BIT(0)
#define SIRDMA_FEATURE_CQ_RESIZE SIRDMA_BIT(1) /* the CQ shadow is registered separately */
#define SIRDMA_FEATURE_64B_CQE SIRDMA_BIT(5) /* compat */
#define SIRDMA_FEATURE_ATOMICS SIRDMA_BIT(6)
#define SIRDMA_FEATURE_SRQ SIRDMA_BIT(7)
#define SIRDMA_FEATURE_PLACEMENT SIRDMA_BIT(32) /* extension: FLUSH, ATOMIC_WRITE */
#define SIRDMA_FEATURE_XRC SIRDMA_BIT(33) /* extension: XRC domains, and what belongs to them */

#define SIRDMA_HW_REV_GEN2 2

struct sirdma_alloc_ucontext_req {
	__u32 rsvd32;
	__u8 userspace_ver;
	__u8 rsvd8[3];
	__aligned_u64 comp_mask;
};
SIRDMA_SIZE_IS(struct sirdma_alloc_ucontext_req, 16);

struct sirdma_alloc_ucontext_resp {
	__u32 max_pds;
	__u32 max_qps;
	__u32 wq_size;
	__u8 kernel_ver;
	__u8 rsvd[3];
	__aligned_u64 feature_flags;
	__aligned_u64 db_mmap_key;
	__u32 max_hw_wq_frags;
	__u32 max_hw_read_sges;
	__u32 max_hw_inline;
	__u32 max_hw_rq_quanta;
	__u32 max_hw_wq_quanta;
	__u32 min_hw_cq_size;
	__u32 max_hw_cq_size;
	__u16 max_hw_sq_chunk;
	__u8 hw_rev;
	__u8 rsvd2;
	__aligned_u64 comp_mask;
	__u16 min_hw_wq_size;
	__u8 rsvd3[2];
	__u32 max_hw_srq_quanta;
};
SIRDMA_OFFSET_IS(struct sirdma_alloc_ucontext_resp, comp_mask, 64);
SIRDMA_OFFSET_IS(struct sirdma_alloc_ucontext_resp, max_hw_srq_quanta, 76);

struct sirdma_alloc_pd_resp {
	__u32 pd_id;
	__u8 rsvd[4];
};

struct sirdma_resize_cq_req {
	__aligned_u64 user_cq_buffer;
};

struct sirdma_create_cq_req {
	__aligned_u64 user_cq_buf;
	__aligned_u64 user_shadow_area;
	__aligned_u64 flags; /* SIRDMA_CQ_*; absent in irdma's requests */
};
SIRDMA_SIZE_IS(struct sirdma_create_cq_req, 24);

#define SIRDMA_CQ_TIMESTAMPS SIRDMA_BIT(0)

struct sirdma_create_cq_resp {
	__u32 cq_id;
	__u32 cq_size;
};

struct sirdma_create_qp_req {
	__aligned_u64 user_wqe_bufs;
	__aligned_u64 user_compl_ctx;
};

struct sirdma_create_qp_resp {
	__u32 qp_id;
	__u32 actual_sq_size; /* ring size in WQEs of the largest size: quanta >> shift */
	__u32 actual_rq_size; /* same */
	__u32 drv_opt;
	__u16 push_idx;
	__u8 lsmm;
	__u8 rsvd;
	__u32 qp_caps; /* SIRDMA_QP_CAP_* */
};
SIRDMA_SIZE_IS(struct sirdma_create_qp_resp, 24);

#define SIRDMA_QP_CAP_WRITE_IMM SIRDMA_BIT(0)
#define SIRDMA_QP_CAP_SEND_IMM SIRDMA_BIT(1)
#define SIRDMA_QP_CAP_ROCE SIRDMA_BIT(2)
#define SIRDMA_QP_CAP_PUSH SIRDMA_BIT(3) /* compat: pages that WQEs are pushed to */

struct sirdma_create_srq_req {
	__aligned_u64 user_srq_buf;
	__aligned_u64 user_shadow_area;
};

struct sirdma_create_srq_resp {
	__u32 srq_id;
	__u32 srq_size; /* ring size in WQEs */
};
SIRDMA_SIZE_IS(struct sirdma_create_srq_req, 16);
SIRDMA_SIZE_IS(struct sirdma_create_srq_resp, 8);

struct sirdma_mem_reg_req {
	__u16 reg_type; /* enum sirdma_memreg_type */
	__u16 cq_pages;
	__u16 rq_pages;
	__u16 sq_pages;
};
SIRDMA_SIZE_IS(struct sirdma_mem_reg_req, 8);

/*
 * Attributes and methods that this driver adds to those of uverbs' ioctl interface. Numbers from
 * here on are a driver's own (UVERBS_ID_NS_SHIFT).
 */
#define SIRDMA_UVERBS_FIRST 0x1000

enum sirdma_alloc_dm_attrs {
	SIRDMA_ATTR_ALLOC_DM_RESP = SIRDMA_UVERBS_FIRST, /* struct sirdma_dm_resp */
};

enum sirdma_query_context_attrs {
	/* struct sirdma_alloc_ucontext_resp, as alloc_ucontext answered */
	SIRDMA_ATTR_QUERY_CONTEXT_RESP = SIRDMA_UVERBS_FIRST,
};

enum sirdma_device_methods {
	/*
	 * A kick, as post_send(NULL) is one, at half the cost. Every process that has the context may
	 * kick. Fails with EINVAL if the queue pair is not one of the context.
	 */
	SIRDMA_METHOD_KICK = SIRDMA_UVERBS_FIRST,
};

enum sirdma_kick_attrs {
	SIRDMA_ATTR_KICK_QPN = SIRDMA_UVERBS_FIRST, /* __u32 */
};

/* By these methods a process imports an object of a context that it shares with others. */
enum sirdma_dm_methods {
	SIRDMA_METHOD_DM_QUERY = SIRDMA_UVERBS_FIRST,
};

enum sirdma_dm_query_attrs {
	SIRDMA_ATTR_DM_QUERY_HANDLE = SIRDMA_UVERBS_FIRST,
	SIRDMA_ATTR_DM_QUERY_RESP, /* struct sirdma_dm_resp */
};

enum sirdma_pd_methods {
	SIRDMA_METHOD_PD_QUERY = SIRDMA_UVERBS_FIRST,
};

enum sirdma_pd_query_attrs {
	SIRDMA_ATTR_PD_QUERY_HANDLE = SIRDMA_UVERBS_FIRST,
	SIRDMA_ATTR_PD_QUERY_RESP, /* struct sirdma_alloc_pd_resp */
};

struct sirdma_dm_resp {
	__aligned_u64 mmap_key; /* offset for mmap() */
	__aligned_u64 map_bytes; /* size for mmap() */
	__aligned_u64 length; /* bytes that the application asked for */
};
SIRDMA_SIZE_IS(struct sirdma_dm_resp, 24);

struct sirdma_modify_qp_req {
	__u8 sq_flush;
	__u8 rq_flush;
	__u8 rsvd[6];
};

struct sirdma_create_ah_resp {
	__u32 ah_id;
	__u8 rsvd[4];
};

#endif
