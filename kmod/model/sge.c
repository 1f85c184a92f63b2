// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Payload between packets and memory regions. */
#include "sge.h"

#include "prq.h"
#include "qp.h"

struct snic_mr *snic_mrc_get(struct snic_qp *qp, struct snic_mrc *mrc, u32 stag, u64 va, u32 len,
			     enum sirdma_ae_code *ae)
{
	struct snic_mr *mr;
	u32 i = mrc->count;

	*ae = SIRDMA_AE_NONE;
	/* Search from the most recent region, which is used most. */
	while (i--) {
		if (mrc->stag[i] == stag && snic_mr_covers(mrc->mr[i], va, len))
			return mrc->mr[i];
	}
	if (mrc->count == SNIC_MRC_SIZE)
		return NULL;
	mr = snic_mr_get_qp(qp->dev, stag, qp->pd, qp->obj.id, va, len, mrc->access, ae);
	if (mr)
		snic_mrc_add(mrc, stag, mr);
	return mr;
}

struct snic_mr *snic_qp_rx_mr(struct snic_qp *qp, u32 pd, u32 stag, u64 va, u32 len, u8 access,
			      enum sirdma_ae_code *ae)
{
	struct snic_rx_mem *mem = qp->rx_mem;

	if (snic_rx_mem_grants(mem, pd, stag, va, len, access))
		return mem->mr;
	snic_qp_put_rx_mr(qp);
	mem->mr = snic_mr_get_qp(qp->dev, stag, pd, qp->obj.id, va, len, access, ae);
	mem->stag = stag;
	mem->pd = pd;
	return mem->mr;
}

struct snic_mr *snic_qp_try_rx_mr(struct snic_qp *qp, u32 stag, u64 va, u32 len, u8 access)
{
	struct snic_rx_mem *mem = qp->rx_mem;

	if (snic_rx_mem_grants(mem, qp->pd, stag, va, len, access))
		return mem->mr;
	snic_qp_put_rx_mr(qp);
	mem->mr = snic_mr_try_qp(qp->dev, stag, qp->pd, qp->obj.id, va, len, access);
	mem->stag = stag;
	mem->pd = qp->pd;
	return mem->mr;
}

void snic_qp_put_rx_mr(struct snic_qp *qp)
{
	struct snic_rx_mem *mem = qp->rx_mem;

	if (!mem || !mem->mr)
		return;
	snic_mr_put(mem->mr);
	mem->mr = NULL;
	mem->run.len = 0;
}

/* snic_qp_copy_in() to memory that may be missing. */
static noinline enum snic_placed copy_in_checked(struct snic_qp *qp, u64 va,
						 struct snic_seg_iter *it, u32 len,
						 enum sirdma_ae_code *ae)
{
	u64 addr = snic_mr_addr(qp->rx_mem->mr, va);
	struct snic_dev *dev = qp->dev;
	const void *from;
	int err;
	u32 n;

	for (; len; addr += n, len -= n) {
		if (it->by_reference) {
			/* No burst is being filled while packets are received. */
			n = min_t(u32, len, SNIC_BURST_BYTES);
			from = snic_dev_ops(dev)->burst(dev->host)->copies;
			if (!snic_dev_ops(dev)->pull(dev->host, it, (void *)from, n))
				return SNIC_PLACE_LOST;
		} else {
			from = snic_seg_next(it, len, &n);
		}
		err = port_dma_write(dev->dma, addr, from, n);
		if (err) {
			*ae = snic_mr_faulted(dev, err);
			return *ae == SIRDMA_AE_NONE ? SNIC_PLACE_ABSENT : SNIC_PLACE_FAULT;
		}
	}
	return SNIC_PLACED;
}

enum snic_placed snic_qp_copy_in(struct snic_qp *qp, enum snic_side side, u64 va,
				 struct snic_seg_iter *it, u32 len, u32 left,
				 enum sirdma_ae_code *ae)
{
	struct snic_rx_mem *mem = qp->rx_mem;
	const u64 end = va + left;
	struct snic_dev *dev = qp->dev;
	enum snic_mem found;
	u32 n;
	u8 *p;

	if (snic_mr_may_fault(mem->mr))
		return copy_in_checked(qp, va, it, len, ae);
	for (; len; va += n, len -= n) {
		n = len;
		p = snic_run_at(&mem->run, va, len);
		if (!p) {
			found = snic_mr_run(dev, mem->mr, va, len, &mem->run);
			if (unlikely(found != SNIC_MEM_OK)) {
				*ae = snic_prq_missed(qp, side, mem->mr, va, end - va, found);
				return *ae == SIRDMA_AE_NONE ? SNIC_PLACE_ABSENT : SNIC_PLACE_FAULT;
			}
			p = snic_run_some(&mem->run, va, len, &n);
		}
		if (!it->by_reference)
			snic_seg_copy(it, p, n);
		else if (!snic_dev_ops(dev)->pull(dev->host, it, p, n))
			return SNIC_PLACE_LOST;
	}
	return SNIC_PLACED;
}

enum snic_placed snic_sge_scatter(struct snic_qp *qp, enum snic_side side,
				  const struct snic_sge *sge, u32 nsge, u32 off,
				  struct snic_seg_iter *it, u32 len, enum sirdma_ae_code *ae)
{
	const u32 pd = side == SNIC_RESPONDER ? qp->recv_pd : qp->pd;
	enum snic_placed placed;
	u32 n;

	for (; nsge && off >= sge->len; sge++, nsge--)
		off -= sge->len;
	for (; len; sge++, nsge--, off = 0) {
		if (!nsge) {
			*ae = SIRDMA_AE_AMP_BOUNDS_VIOLATION;
			return SNIC_PLACE_FAULT;
		}
		n = min(sge->len - off, len);
		if (!snic_qp_rx_mr(qp, pd, sge->stag, sge->addr + off, n, SIRDMA_ACCESS_LOCAL_WRITE,
				   ae))
			return SNIC_PLACE_FAULT;
		placed = snic_qp_copy_in(qp, side, sge->addr + off, it, n, sge->len - off, ae);
		if (placed != SNIC_PLACED)
			return placed;
		len -= n;
	}
	return SNIC_PLACED;
}
