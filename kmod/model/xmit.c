// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Filling a burst and handing it to the host. */
#include "xmit.h"

#include "frame.h"
#include "prq.h"
#include "transport.h"

bool snic_tx_start(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_dev *dev = qp->dev;

	if (!snic_dev_ops(dev)->room || snic_dev_ops(dev)->room(dev->host, qp->obj.id))
		return true;
	qp->tx_stalled = true;
	snic_stat_inc(dev, SIRDMA_STAT_TX_STALLS);
	return false;
}

void snic_tx_begin(struct snic_tx *tx, struct snic_qp *qp, struct snic_path *path, u8 access)
{
	tx->qp = qp;
	tx->path = path;
	tx->burst = snic_dev_ops(qp->dev)->burst(qp->dev->host);
	tx->bytes = 0;
	tx->max_bytes = qp->limits.burst ? qp->limits.burst : SNIC_BURST_DEFAULT;
	snic_mrc_init(&tx->mrs, access);
	tx->run_stag = 0;
	tx->run.va = 0;
	tx->run.len = 0;
	tx->in_ring = false;
	if (PORT_WIRE_IN_MEMORY) {
		tx->needs_ack = false;
		tx->signaled = false;
	}
	/* Packets and segments are written as they are used. */
	tx->burst->flow = &path->flow;
	tx->burst->qpn = qp->obj.id;
	tx->burst->npkts = 0;
	tx->burst->nsegs = 0;
	tx->burst->next = (struct snic_limits){0};
	if (PORT_MEMORY_MAY_FAULT || PORT_WIRE_IN_MEMORY)
		tx->burst->transient = !snic_is_reliable(qp);
}

/* Bytes of the frames of the first @n packets. */
static u64 tx_frame_bytes(const struct snic_tx *tx, u32 n)
{
	const struct snic_flow *flow = tx->burst->flow;
	u64 bytes = (u64)n * (snic_frame_hlen(flow->is_v4, flow->has_vlan) + SIRDMA_ICRC_LEN);
	const struct snic_tx_pkt *pkt = tx->burst->pkts, *end = pkt + n;

	for (; pkt < end; pkt++)
		bytes += pkt->hdr_len + pkt->payload_len + pkt->pad;
	return bytes;
}

/* A responder sends what its peer may read. */
static enum snic_side tx_side(const struct snic_tx *tx)
{
	return tx->mrs.access == SIRDMA_ACCESS_REMOTE_READ ? SNIC_RESPONDER : SNIC_REQUESTER;
}

/* The host keeps the payload of the burst. */
static void tx_note_kept(struct snic_qp *qp, const struct snic_burst *burst)
{
	u32 end = snic_psn_add(snic_pkt_psn(&burst->pkts[burst->npkts - 1]), 1);

	qp->kept[burst->side] = true;
	if (burst->side == SNIC_RESPONDER)
		return;
	/* A retransmission ends before packets that were kept earlier. */
	if (!qp->kept_unacked || snic_psn_diff(end, qp->kept_end) > 0)
		qp->kept_end = end;
	qp->kept_unacked = true;
}

/*
 * Give the burst to the host. It may keep the payload of a reliable transport: requests of the others
 * complete when they are sent.
 */
static u32 tx_send(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_dev *dev = qp->dev;
	struct snic_burst *burst = tx->burst;
	bool may_keep = tx->mrs.count && !tx->in_ring && snic_is_reliable(qp);
	u32 n;

	burst->regions = NULL;
	if (may_keep) {
		burst->regions = &tx->mrs;
		burst->side = tx_side(tx);
		burst->una = qp->kept_unacked ? SNIC_UNA_KNOWN : qp->req.una;
	}
	if (PORT_WIRE_IN_MEMORY) {
		burst->signaled = tx->signaled;
		if (tx->bytes && !burst->transient)
			qp->referenced = true;
	}
	n = snic_dev_ops(dev)->tx(dev->host, burst);
	if (may_keep && !burst->regions)
		tx_note_kept(qp, burst);
	return n;
}

u32 snic_tx_end(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_dev *dev = qp->dev;
	u32 n = tx->burst->npkts;

	if (n) {
		snic_path_refresh(dev, tx->path);
		if (tx->path->src_ok && tx->path->dst_ok) {
			n = tx_send(tx);
			qp->limits = tx->burst->next;
			snic_stat_add(dev, SIRDMA_STAT_TX_PKTS, n);
			snic_stat_add(dev, SIRDMA_STAT_TX_BYTES, tx_frame_bytes(tx, n));
		} else {
			snic_stat_add(dev, SIRDMA_STAT_TX_DROPS, n);
		}
		if (n < tx->burst->npkts) {
			qp->tx_stalled = true;
			snic_stat_inc(dev, SIRDMA_STAT_TX_STALLS);
		}
	}
	snic_mrc_put(&tx->mrs);
	return n;
}

bool snic_tx_seg(struct snic_tx *tx, void *ptr, u32 len)
{
	struct snic_burst *burst = tx->burst;
	struct snic_seg *last;

	if (burst->nsegs) {
		last = &burst->segs[burst->nsegs - 1];
		if ((u8 *)last->ptr + last->len == ptr) {
			last->len += len;
			tx->bytes += len;
			return true;
		}
	}
	if (burst->nsegs == SNIC_BURST_SEGS)
		return false;
	burst->segs[burst->nsegs].ptr = ptr;
	burst->segs[burst->nsegs++].len = len;
	tx->bytes += len;
	return true;
}

/*
 * snic_tx_region() for memory that may be missing: copy it now, as later may be too late. All of it is
 * there, or nothing is sent.
 */
static noinline enum snic_gather tx_region_copy(struct snic_tx *tx, const struct snic_mr *mr,
						u64 va, u32 len, u32 *got, enum sirdma_ae_code *ae)
{
	u8 *to = tx->burst->copies + tx->bytes;
	struct snic_dev *dev = tx->qp->dev;
	int err = port_dma_read(dev->dma, snic_mr_addr(mr, va), to, len);

	if (err) {
		*ae = snic_mr_faulted(dev, err);
		return *ae == SIRDMA_AE_NONE ? SNIC_GATHER_ABSENT : SNIC_GATHER_FAULT;
	}
	if (!snic_tx_seg(tx, to, len))
		return SNIC_GATHER_FULL;
	tx->burst->transient = true;
	*got = len;
	return SNIC_GATHER_OK;
}

/* snic_tx_region() for memory that is not all in the run of the last call. */
static enum snic_gather tx_region_runs(struct snic_tx *tx, u32 stag, u64 va, u32 len, u32 *got,
				       enum sirdma_ae_code *ae)
{
	struct snic_mr *mr = snic_mrc_get(tx->qp, &tx->mrs, stag, va, len, ae);
	enum snic_mem mem;
	u8 *p;
	u32 n;

	*got = 0;
	if (!mr)
		return *ae == SIRDMA_AE_NONE ? SNIC_GATHER_FULL : SNIC_GATHER_FAULT;
	if (snic_mr_may_fault(mr))
		return tx_region_copy(tx, mr, va, len, got, ae);
	tx->run_stag = stag;
	for (; *got < len; *got += n) {
		mem = snic_mr_run(tx->qp->dev, mr, va + *got, len - *got, &tx->run);
		if (unlikely(mem != SNIC_MEM_OK)) {
			*ae = snic_prq_missed(tx->qp, tx_side(tx), mr, va + *got, len - *got, mem);
			return *ae == SIRDMA_AE_NONE ? SNIC_GATHER_ABSENT : SNIC_GATHER_FAULT;
		}
		p = snic_run_some(&tx->run, va + *got, len - *got, &n);
		if (!snic_tx_seg(tx, p, n))
			return SNIC_GATHER_FULL;
	}
	return SNIC_GATHER_OK;
}

enum snic_gather snic_tx_region(struct snic_tx *tx, u32 stag, u64 va, u32 len, u32 *got,
				enum sirdma_ae_code *ae)
{
	u8 *p = tx->run_stag == stag ? snic_run_at(&tx->run, va, len) : NULL;

	if (!p)
		return tx_region_runs(tx, stag, va, len, got, ae);
	*got = 0;
	if (!snic_tx_seg(tx, p, len))
		return SNIC_GATHER_FULL;
	*got = len;
	return SNIC_GATHER_OK;
}

u8 *snic_tx_try_region(struct snic_tx *tx, u32 stag, u64 va, u32 len)
{
	struct snic_mrc *mrs = &tx->mrs;
	struct snic_qp *qp = tx->qp;
	struct snic_mr *mr;

	if (mrs->count)
		return NULL;
	mr = snic_mr_try_qp(qp->dev, stag, qp->pd, qp->obj.id, va, len, mrs->access);
	if (!mr)
		return NULL;
	snic_mrc_add(mrs, stag, mr);
	if (snic_mr_may_fault(mr) || snic_mr_run(qp->dev, mr, va, len, &tx->run) != SNIC_MEM_OK)
		return NULL;
	tx->run_stag = stag;
	return snic_run_at(&tx->run, va, len);
}

void snic_tx_trim(struct snic_tx *tx, u32 len)
{
	struct snic_burst *burst = tx->burst;
	struct snic_seg *last;
	u32 n;

	tx->bytes -= len;
	while (len) {
		last = &burst->segs[burst->nsegs - 1];
		n = min(len, last->len);
		last->len -= n;
		len -= n;
		if (!last->len)
			burst->nsegs--;
	}
}
