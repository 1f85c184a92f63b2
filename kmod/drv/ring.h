/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ring memory: what the provider registers as memory of type QP, CQ or SRQ, and
 * create_qp, create_cq and create_srq find again by its address.
 */
#ifndef SIRDMA_DRV_RING_H
#define SIRDMA_DRV_RING_H

#include <linux/list.h>
#include "mr.h"
#include "sirdma/abi.h"

struct sirdma_ucontext;

struct sirdma_ring {
	struct sirdma_mr mr;
	struct list_head node; /* in the context's rings */
	struct sirdma_ucontext *uctx;
	u64 start; /* user address, page aligned */
	u64 length;
	bool in_use; /* by a QP, CQ or SRQ; until it is destroyed, dereg_mr is refused */
	u16 type; /* SIRDMA_MEMREG_QP, _CQ, _SRQ */
	u16 sq_pages; /* type CQ: pages of the ring; SRQ: 0 */
	u16 rq_pages;
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
 * Take the ring memory of @type at user address @start into use. ERR_PTR: -ENODATA when
 * there is none, -EBUSY when another QP or CQ uses it: two device objects in one ring
 * would corrupt each other's progress.
 */
struct sirdma_ring *sirdma_ring_get(struct sirdma_ucontext *uctx, u16 type, u64 start);
void sirdma_ring_put(struct sirdma_ring *ring);
/* Pages [first_page, first_page + pages) of @ring. */
void sirdma_ring_locate(struct sirdma_ring *ring, u32 first_page, u32 pages,
			struct sirdma_ring_addr *addr);
/* DMA address of the 64-byte shadow area at the start of @page; 0 when it is not there. */
u64 sirdma_ring_shadow(struct sirdma_ring *ring, u32 page);

#endif
