/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Payload between packets and memory regions. References to regions are held
 * for one step only, in a small cache that is put at its end.
 */
#ifndef SNIC_SGE_H
#define SNIC_SGE_H

#include "frame.h"
#include "mr.h"
#include "wqe.h"

#define SNIC_MRC_SIZE (SIRDMA_MAX_SGE + 3)

/* Regions in use by this step, all with the same rights. */
struct snic_mrc {
	u32 count;
	u8 access; /* SIRDMA_ACCESS_* each was checked for */
	u32 stag[SNIC_MRC_SIZE];
	struct snic_mr *mr[SNIC_MRC_SIZE];
};

static inline void snic_mrc_init(struct snic_mrc *mrc, u8 access)
{
	mrc->count = 0;
	mrc->access = access;
}

void snic_mrc_put(struct snic_mrc *mrc);

/*
 * The region of @stag, checked for [va, va + len). NULL with *ae = the
 * violation, or SIRDMA_AE_NONE when the cache is full.
 */
struct snic_mr *snic_mrc_get(struct snic_qp *qp, struct snic_mrc *mrc, u32 stag, u64 va, u32 len,
			     enum sirdma_ae_code *ae);

/* What became of payload. What was written before it ended otherwise than PLACED stays. */
enum snic_placed {
	SNIC_PLACED,
	SNIC_PLACE_LOST, /* the bytes cannot be had any more */
	SNIC_PLACE_ABSENT, /* the region has no memory there for now */
	SNIC_PLACE_FAULT, /* *ae names the violation */
};

/* Scatter @len payload bytes to position @off of the @nsge fragments. */
enum snic_placed snic_sge_scatter(struct snic_qp *qp, const struct snic_sge *sge, u32 nsge, u32 off,
				  struct snic_seg_iter *it, u32 len, enum sirdma_ae_code *ae);
/* Bring @len payload bytes to @va of @mr, which was checked for them. */
enum snic_placed snic_mr_copy_in(struct snic_dev *dev, const struct snic_mr *mr, u64 va,
				 struct snic_seg_iter *it, u32 len, enum sirdma_ae_code *ae);

#endif
