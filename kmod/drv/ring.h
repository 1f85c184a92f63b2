/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ring memory: the provider registers it as memory of type QP, CQ or SRQ, and create_qp, create_cq
 * and create_srq find it again by its address. A registration of type POOL serves many QPs.
 */
#ifndef SIRDMA_DRV_RING_H
#define SIRDMA_DRV_RING_H

#include <linux/list.h>
#include "mr.h"
#include "sirdma/abi.h"

struct sirdma_dev;
struct sirdma_ucontext;

struct sirdma_ring {
	struct sirdma_mr mr;
	struct list_head node; /* entry of rings of the context */
	struct sirdma_ucontext *uctx;
	/*
	 * Addresses are those of the process that registered: processes that share a context may
	 * each have a ring at the same one. mr.umem keeps the pointer from being used again.
	 */
	const struct mm_struct *mm;
	u64 start; /* user address, page aligned */
	u64 length;
	u32 users; /* QPs, CQs or SRQs that use it; while there are any, dereg_mr is refused */
	struct sirdma_ring_page *pool; /* type POOL: its pages */
	u16 type; /* SIRDMA_MEMREG_QP, _CQ, _SRQ, _POOL */
	u16 sq_pages; /* type CQ: pages of the ring; SRQ: 0 */
	u16 rq_pages;
};

/* A page of a pool. */
struct sirdma_ring_page {
	u64 pa; /* DMA address */
	u32 used; /* a bit for each SIRDMA_POOL_ALIGN bytes of which a QP has some */
};

/* The part of a pool that a QP has. */
struct sirdma_ring_part {
	u64 start; /* user address */
	u32 bytes;
	u64 pa; /* DMA address */
};

/* Address of one ring: the DMA address, or the index of its first PBLE when @vmap is set. */
struct sirdma_ring_addr {
	u64 pa;
	u32 first_pble;
	bool vmap;
};

struct ib_mr *sirdma_ring_register(struct ib_pd *ibpd, u64 start, u64 length,
				   const struct sirdma_mem_reg_req *req, struct ib_udata *udata);
int sirdma_ring_deregister(struct sirdma_dev *dev, struct sirdma_mr *mr);

/*
 * Take the ring memory of @type at user address @start into use. Returns ERR_PTR(-ENODATA) if there
 * is none, or ERR_PTR(-EBUSY) if another QP or CQ uses it: two device objects in one ring would
 * corrupt each other's progress.
 */
struct sirdma_ring *sirdma_ring_get(struct sirdma_ucontext *uctx, u16 type, u64 start);
void sirdma_ring_put(struct sirdma_ring *ring);
/* Does a pool have the user address @start? */
bool sirdma_ring_in_pool(struct sirdma_ucontext *uctx, u64 start);
/*
 * Take @part of a pool into use, and fill in part->pa. Returns ERR_PTR(-ENODATA) if no pool has the
 * address, ERR_PTR(-EINVAL) if the part is misaligned or leaves its page, or ERR_PTR(-EBUSY).
 */
struct sirdma_ring *sirdma_ring_get_part(struct sirdma_ucontext *uctx,
					 struct sirdma_ring_part *part);
void sirdma_ring_put_part(struct sirdma_ring *ring, const struct sirdma_ring_part *part);
/* Pages [first_page, first_page + pages) of @ring. */
void sirdma_ring_locate(struct sirdma_ring *ring, u32 first_page, u32 pages,
			struct sirdma_ring_addr *addr);
/* DMA address of the 64-byte shadow area at the start of @page; 0 if the area is not there. */
u64 sirdma_ring_shadow(struct sirdma_ring *ring, u32 page);

#endif
