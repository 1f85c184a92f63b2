/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copying payload between packets and memory regions. A burst keeps references to its regions in a
 * small cache, and drops them when the host has taken the burst, unless the host keeps them (kept.h).
 */
#ifndef SNIC_SGE_H
#define SNIC_SGE_H

#include "frame.h"
#include "mr.h"
#include "qp_side.h"
#include "wqe.h"

#define SNIC_MRC_SIZE (SIRDMA_MAX_SGE + 3)

/* Regions that a burst uses, all checked for the same access rights. */
struct snic_mrc {
	u32 count;
	u8 access; /* SIRDMA_ACCESS_* */
	u32 stag[SNIC_MRC_SIZE];
	struct snic_mr *mr[SNIC_MRC_SIZE];
};

static inline void snic_mrc_init(struct snic_mrc *mrc, u8 access)
{
	mrc->count = 0;
	mrc->access = access;
}

/* The cache is not full, and takes over the reference to @mr. */
static inline void snic_mrc_add(struct snic_mrc *mrc, u32 stag, struct snic_mr *mr)
{
	mrc->stag[mrc->count] = stag;
	mrc->mr[mrc->count++] = mr;
}

/* Drop the references. */
static inline void snic_mrc_put(struct snic_mrc *mrc)
{
	while (mrc->count)
		snic_mr_put(mrc->mr[--mrc->count]);
}

/*
 * The region of @stag, checked for [va, va + len). NULL: *ae is the violation, or SIRDMA_AE_NONE if
 * the cache is full.
 */
struct snic_mr *snic_mrc_get(struct snic_qp *qp, struct snic_mrc *mrc, u32 stag, u64 va, u32 len,
			     enum sirdma_ae_code *ae);

/* Result of placing payload. With any result other than PLACED, a part may have been written. */
enum snic_placed {
	SNIC_PLACED,
	SNIC_PLACE_LOST, /* the payload cannot be read any more */
	SNIC_PLACE_ABSENT, /* memory of the region is absent */
	SNIC_PLACE_FAULT, /* *ae names the violation */
};

/* Scatter @len payload bytes to position @off of the @nsge fragments, which @side of @qp fetched. */
enum snic_placed snic_sge_scatter(struct snic_qp *qp, enum snic_side side,
				  const struct snic_sge *sge, u32 nsge, u32 off,
				  struct snic_seg_iter *it, u32 len, enum sirdma_ae_code *ae);
/*
 * Is the region in which the batch placed bytes last also that of [va, va + len) of @stag? Its key was
 * checked, and the mapping does not change while there is a reference.
 */
static inline bool snic_rx_mem_grants(const struct snic_rx_mem *mem, u32 pd, u32 stag, u64 va,
				      u32 len, u8 access)
{
	const struct snic_mr *mr = mem->mr;

	return mr && mem->stag == stag && mem->pd == pd && snic_slot_valid(&mr->slot) &&
	       (mr->map.access & access) == access && snic_mr_covers(mr, va, len);
}

/*
 * Copy @len payload bytes to @va of the region that snic_qp_rx_mr() returned last. That call
 * checked the region for these bytes. @left: the bytes that the message may still place from @va on,
 * these ones included.
 */
enum snic_placed snic_qp_copy_in(struct snic_qp *qp, enum snic_side side, u64 va,
				 struct snic_seg_iter *it, u32 len, u32 left,
				 enum sirdma_ae_code *ae);

#endif
