// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Streams of small messages. */
#include "small.h"

#include "requester.h"
#include "responder.h"
#include "transport.h"
#include "window.h"

/* Of these bits of its header, a WQE of one quantum without immediate data has only those of the opcode. */
#define SMALL_KIND (SIRDMA_WQE_OPCODE | SIRDMA_WQE_ADDFRAGCNT | SIRDMA_WQE_IMMDATA_FLAG)
#define SMALL_WRITE SIRDMA_PREP(SIRDMA_WQE_OPCODE, SIRDMA_OP_WRITE)
#define SMALL_SEND SIRDMA_PREP(SIRDMA_WQE_OPCODE, SIRDMA_OP_SEND)

/* May the next message be a small one? It is the next of the ring, and waits for nothing. */
static bool small_may_begin(const struct snic_tx *tx)
{
	const struct snic_qp *qp = tx->qp;
	const struct snic_req *req = &qp->req;

	if (req->cur != req->tail || req->rd_atomic_msgs || req->failed || req->probe ||
	    qp->state != SIRDMA_QPS_RTS || qp->transport != &snic_rc)
		return false;
	/* The host may execute the only message of a queue pair (one_sided.h). */
	return !PORT_WIRE_IN_MEMORY || req->head != req->tail || req->max != req->una ||
	       !snic_dev_ops(qp->dev)->one_sided;
}

/* The payload of a WQE of one quantum. NULL: it is not small, or not in the run of the burst. */
static u8 *small_payload(const struct snic_tx *tx, struct sirdma_wqe *wqe, u64 hdr, bool polarity,
			 u32 *len)
{
	u64 stag;

	if (hdr & SIRDMA_WQE_INLINE) {
		*len = (u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr);
		return *len - 1 < SIRDMA_INLINE_FIRST ? (u8 *)&wqe->frag_stag : NULL;
	}
	stag = le64_to_cpu(READ_ONCE(wqe->frag_stag));
	*len = (u32)SIRDMA_GET(SIRDMA_FRAG_LEN, stag);
	if (*len > SNIC_WIN_SMALL || !!(stag & SIRDMA_FRAG_VALID) != polarity ||
	    (u32)SIRDMA_GET(SIRDMA_FRAG_STAG, stag) != tx->run_stag)
		return NULL;
	return snic_run_at(&tx->run, le64_to_cpu(READ_ONCE(wqe->frag_addr)), *len);
}

/* Put the WQE at the next quantum of the ring into out[]. */
static void small_push(struct snic_qp *qp, u64 hdr, u32 len)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->tail++);

	out->psn = req->psn;
	out->len = len;
	out->idx = (u16)req->sq_idx;
	out->op = (u8)SIRDMA_GET(SIRDMA_WQE_OPCODE, hdr);
	out->flags = (u8)((hdr & SIRDMA_WQE_SIGCOMPL || qp->queue_flags & SIRDMA_QPC_SIG_ALL ?
				   SNIC_OUT_SIGNALED :
				   0) |
			  (req->sq_polarity ? SNIC_OUT_POLARITY : 0));
	req->cur = req->tail;
	req->sqe_valid = false;
	req->psn = snic_psn_add(req->psn, 1);
	req->nxt = req->psn;
	snic_send_advance(qp, 1);
}

enum snic_send_stop snic_small_fill(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	const u32 dest_qpn = qp->dest_qpn;
	const u16 pkey = qp->pkey;
	struct snic_tx_pkt *pkt;
	struct sirdma_wqe *wqe;
	u32 left, len;
	u8 *payload;
	u64 hdr, remote;
	bool write;

	if (!small_may_begin(tx))
		return SNIC_SEND_NEXT;
	left = snic_win_small(qp);
	left = min(left, snic_tx_room(tx));
	left = min_t(u32, left, SNIC_OUT_MSGS - (req->tail - req->head));
	for (; left; left--) {
		wqe = snic_ring_ptr(qp->dev, &qp->sq_ring, req->sq_idx * SIRDMA_QUANTUM,
				    SIRDMA_QUANTUM);
		if (!wqe)
			return SNIC_SEND_EMPTY;
		hdr = le64_to_cpu(READ_ONCE(wqe->hdr));
		write = (hdr & SMALL_KIND) == SMALL_WRITE;
		if (!!(hdr & SIRDMA_WQE_VALID) != req->sq_polarity ||
		    !(write || (hdr & SMALL_KIND) == SMALL_SEND))
			break;
		smp_rmb(); /* this barrier pairs with the poster's barrier before the header */
		payload = small_payload(tx, wqe, hdr, req->sq_polarity, &len);
		if (!payload || snic_tx_bytes_room(tx) < len)
			break;
		if (!snic_tx_ready(tx))
			return SNIC_SEND_STALLED;
		remote = le64_to_cpu(READ_ONCE(wqe->remote));
		if (!snic_tx_seg(tx, payload, len))
			break;
		pkt = snic_tx_packet(tx);
		snic_pkt_bth(pkt,
			     SIRDMA_BTH_RC | (write ? SIRDMA_BTH_WRITE_ONLY : SIRDMA_BTH_SEND_ONLY),
			     pkey, dest_qpn, req->psn, len);
		if (write)
			snic_pkt_reth(pkt, remote, (u32)SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr), len);
		small_push(qp, hdr, len);
		snic_req_added(req, pkt);
	}
	return SNIC_SEND_NEXT;
}

/* The headers of a WRITE of one packet. */
struct small_write {
	struct sirdma_bth bth;
	struct sirdma_reth reth;
};
SIRDMA_SIZE_IS(struct small_write, 28);

/* Is the responder of @qp in the state in which it only awaits the next message? */
static bool small_may_recv(const struct snic_qp *qp)
{
	const struct snic_resp *resp = &qp->resp;

	return qp->state == SIRDMA_QPS_RTS && qp->transport == &snic_rc &&
	       (qp->access & SIRDMA_ACCESS_REMOTE_WRITE) && !resp->in_msg && !resp->nak_sent &&
	       !resp->fatal && !resp->inv_wait;
}

u32 snic_small_recv(struct snic_qp *qp, const struct snic_rx_pkt *rx)
{
	const u32 overhead = sizeof(struct small_write) + SIRDMA_ICRC_LEN;
	struct snic_resp *resp = &qp->resp;
	struct small_write h;
	const u8 *p;
	u32 body, len, psn, before = resp->epsn;
	u64 va;
	u8 *to;

	body = rx->len - overhead;
	if (rx->len < overhead || body > SNIC_WIN_SMALL || body % 4 || rx->npkts > 1 ||
	    !rx->nsegs || rx->segs[0].len < rx->len || !rx->icrc_ok ||
	    (rx->traffic_class & 3) == 3 || !small_may_recv(qp))
		return 0;
	p = rx->segs[0].ptr;
	memcpy(&h, p, sizeof(h)); /* the sender may change it meanwhile */
	psn = be32_to_cpu(h.bth.apsn);
	len = body - ((h.bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT);
	if (h.bth.opcode != (SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY) ||
	    (h.bth.flags & SIRDMA_BTH_TVER) || be16_to_cpu(h.bth.pkey) != qp->pkey ||
	    !(qp->pkey & SIRDMA_PKEY_FULL_MEMBER) ||
	    (be32_to_cpu(h.bth.qpn) & SIRDMA_QPN_MASK) != qp->obj.id ||
	    (psn & SIRDMA_PSN_MASK) != before || !len || len > snic_qp_mtu(qp) ||
	    be32_to_cpu(h.reth.len) != len || !snic_is_from_peer(qp, rx))
		return 0;
	va = be64_to_cpu(h.reth.va);
	if (!snic_rx_mem_grants(qp->rx_mem, qp->pd, be32_to_cpu(h.reth.rkey), va, len,
				SIRDMA_ACCESS_REMOTE_WRITE))
		return 0;
	to = snic_run_at(&qp->rx_mem->run, va, len);
	if (!to)
		return 0;
	memcpy(to, p + sizeof(h), len);
	resp->epsn = snic_psn_add(before, 1);
	resp->msn = snic_psn_add(resp->msn, 1);
	snic_rd_forget_old(qp, before);
	if (psn & SIRDMA_BTH_ACKREQ)
		snic_resp_owe_ack(resp, resp->epsn);
	return len;
}
