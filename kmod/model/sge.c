// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Payload between packets and memory regions. */
#include "sge.h"

#include "qp.h"

static bool mr_covers(const struct snic_mr *mr, u64 va, u32 len)
{
	return va >= mr->map.base && va - mr->map.base <= mr->map.len &&
	       len <= mr->map.len - (va - mr->map.base);
}

struct snic_mr *snic_mrc_get(struct snic_qp *qp, struct snic_mrc *mrc, u32 stag, u64 va, u32 len,
			     enum sirdma_ae_code *ae)
{
	struct snic_mr *mr;
	u32 i = mrc->count;

	*ae = SIRDMA_AE_NONE;
	/* Search from the most recent, which is used most. */
	while (i--) {
		if (mrc->stag[i] == stag && mr_covers(mrc->mr[i], va, len))
			return mrc->mr[i];
	}
	if (mrc->count == SNIC_MRC_SIZE)
		return NULL;
	mr = snic_mr_get_qp(qp->dev, stag, qp->pd, qp->obj.id, va, len, mrc->access, ae);
	if (mr) {
		mrc->stag[mrc->count] = stag;
		mrc->mr[mrc->count++] = mr;
	}
	return mr;
}

struct snic_mr *snic_qp_rx_mr(struct snic_qp *qp, u32 pd, u32 stag, u64 va, u32 len, u8 access,
			      enum sirdma_ae_code *ae)
{
	struct snic_mr *mr = qp->rx_mr;

	/* The key was checked, and the mapping does not change under a reference. */
	if (mr && qp->rx_stag == stag && qp->rx_pd == pd && snic_slot_valid(&mr->slot) &&
	    (mr->map.access & access) == access && mr_covers(mr, va, len))
		return mr;
	snic_qp_put_rx_mr(qp);
	mr = snic_mr_get_qp(qp->dev, stag, pd, qp->obj.id, va, len, access, ae);
	qp->rx_mr = mr;
	qp->rx_stag = stag;
	qp->rx_pd = pd;
	return mr;
}

void snic_qp_put_rx_mr(struct snic_qp *qp)
{
	if (qp->rx_mr)
		snic_mr_put(qp->rx_mr);
	qp->rx_mr = NULL;
}

enum snic_placed snic_mr_copy_in(struct snic_dev *dev, const struct snic_mr *mr, u64 va,
				 struct snic_seg_iter *it, u32 len, enum sirdma_ae_code *ae)
{
	while (len) {
		enum snic_mem mem;
		void *p;
		u32 run;

		mem = snic_mr_ptr(dev, mr, va, len, &p, &run);
		if (unlikely(mem == SNIC_MEM_ABSENT))
			return SNIC_PLACE_ABSENT;
		if (unlikely(mem != SNIC_MEM_OK)) {
			*ae = SIRDMA_AE_QP_CATASTROPHIC;
			return SNIC_PLACE_FAULT;
		}
		if (!PORT_WIRE_IN_MEMORY || !it->by_reference)
			snic_seg_copy(it, p, run);
		else if (!snic_dev_ops(dev)->pull(dev->host, it, p, run))
			return SNIC_PLACE_LOST;
		va += run;
		len -= run;
	}
	return SNIC_PLACED;
}

enum snic_placed snic_sge_scatter(struct snic_qp *qp, u32 pd, const struct snic_sge *sge, u32 nsge,
				  u32 off, struct snic_seg_iter *it, u32 len,
				  enum sirdma_ae_code *ae)
{
	enum snic_placed placed;
	struct snic_mr *mr;
	u32 n;

	for (; nsge && off >= sge->len; sge++, nsge--)
		off -= sge->len;
	for (; len; sge++, nsge--, off = 0) {
		if (!nsge) {
			*ae = SIRDMA_AE_AMP_BOUNDS_VIOLATION;
			return SNIC_PLACE_FAULT;
		}
		n = min(sge->len - off, len);
		mr = snic_qp_rx_mr(qp, pd, sge->stag, sge->addr + off, n, SIRDMA_ACCESS_LOCAL_WRITE,
				   ae);
		if (!mr)
			return SNIC_PLACE_FAULT;
		placed = snic_mr_copy_in(qp->dev, mr, sge->addr + off, it, n, ae);
		if (placed != SNIC_PLACED)
			return placed;
		len -= n;
	}
	return SNIC_PLACED;
}
