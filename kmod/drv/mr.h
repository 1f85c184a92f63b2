/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions. */
#ifndef SIRDMA_DRV_MR_H
#define SIRDMA_DRV_MR_H

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include "hw/access.h"
#include "hw/pble.h"

struct sirdma_dev;

/* Sizes of the blocks that a page list may have. */
#define SIRDMA_MR_PAGE_SIZES (SZ_4K | SZ_2M | SZ_1G)

/* The second half of the PBLEs of a region for fast registration. ib_map_mr_sg() writes them. */
struct sirdma_fast_list {
	u32 max; /* number of entries */
	u32 used;
	u32 offset; /* offset of the first byte in its page */
	struct sirdma_pbl_walk walk;
};

struct sirdma_mr {
	struct ib_mr ibmr;
	/*
	 * NULL: a region of all memory, for fast registration, of device memory or of a DMA buffer
	 */
	struct ib_umem *umem;
	struct sirdma_pbl pbl;
};

/* A region of IB_MR_TYPE_MEM_REG. */
struct sirdma_fast_mr {
	struct sirdma_mr mr;
	struct sirdma_fast_list list;
};

static inline struct sirdma_mr *to_smr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct sirdma_mr, ibmr);
}

static inline bool sirdma_mr_is_fast(const struct ib_mr *ibmr)
{
	return ibmr->type == IB_MR_TYPE_MEM_REG;
}

static inline struct sirdma_fast_mr *to_sfast(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct sirdma_fast_mr, mr.ibmr);
}

/* True for the member of a struct sirdma_ring: ring memory has no stag. */
static inline bool sirdma_mr_is_ring(const struct sirdma_mr *mr)
{
	return !mr->ibmr.lkey;
}

/*
 * Register @mr, whose page list is complete, with the device as @region of protection domain @pd.
 * Returns 0 with keys, length and iova of @mr set, or an errno.
 */
int sirdma_mr_create(struct sirdma_dev *dev, struct sirdma_mr *mr,
		     const struct sirdma_region *region, u32 pd);
/* The same with the stag of the caller, who frees it on failure. */
int sirdma_mr_create_with(struct sirdma_dev *dev, struct sirdma_mr *mr,
			  const struct sirdma_region *region, u32 pd, u32 stag);

struct ib_mr *sirdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				 struct ib_udata *udata);
struct ib_mr *sirdma_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *sirdma_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				   int access, struct ib_pd *ibpd, struct ib_udata *udata);
int sirdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif
