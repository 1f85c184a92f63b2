// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Small messages. */
#include "small.h"

#include "completer.h"
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

/*
 * Is a message of @len bytes short enough? A longer one has to fit one packet, and nothing may be in flight:
 * then every window allows it.
 */
static bool small_fits(const struct snic_tx *tx, u32 len)
{
	const struct snic_qp *qp = tx->qp;

	if (len > SNIC_WIN_SMALL)
		return len <= snic_qp_mtu(qp) && qp->req.nxt == qp->req.una;
	return len;
}

/* The payload of a WQE of one quantum. NULL: it is not small, or its place is not found at once. */
static u8 *small_payload(struct snic_tx *tx, struct sirdma_wqe *wqe, u64 hdr, bool polarity,
			 u32 *len)
{
	u64 stag, va;
	u8 *p;

	if (hdr & SIRDMA_WQE_INLINE) {
		*len = (u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr);
		return *len - 1 < SIRDMA_INLINE_FIRST ? (u8 *)&wqe->frag_stag : NULL;
	}
	stag = le64_to_cpu(READ_ONCE(wqe->frag_stag));
	*len = (u32)SIRDMA_GET(SIRDMA_FRAG_LEN, stag);
	if (!small_fits(tx, *len) || !!(stag & SIRDMA_FRAG_VALID) != polarity)
		return NULL;
	va = le64_to_cpu(READ_ONCE(wqe->frag_addr));
	stag = SIRDMA_GET(SIRDMA_FRAG_STAG, stag);
	p = stag == tx->run_stag ? snic_run_at(&tx->run, va, *len) : NULL;
	return p ? p : snic_tx_try_region(tx, (u32)stag, va, *len);
}

/* Put the WQE at the next quantum of the ring into out[]. */
static void small_push(struct snic_tx *tx, u64 hdr, u32 len)
{
	struct snic_qp *qp = tx->qp;
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
	if (PORT_WIRE_IN_MEMORY)
		tx->needs_ack |= (out->flags & SNIC_OUT_SIGNALED) || out->op != SIRDMA_OP_WRITE ||
				 len > SNIC_WIN_SMALL;
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
		if (!!(hdr & SIRDMA_WQE_VALID) != req->sq_polarity) {
			req->sqe_valid = false; /* as send_fetch() leaves it */
			return SNIC_SEND_EMPTY;
		}
		if (!(write || (hdr & SMALL_KIND) == SMALL_SEND))
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
		small_push(tx, hdr, len);
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

/* The headers of an acknowledgement. */
struct small_ack {
	struct sirdma_bth bth;
	struct sirdma_aeth aeth;
};
SIRDMA_SIZE_IS(struct small_ack, 16);

/* Bytes of a small WRITE without its payload. */
#define SMALL_WRITE_MIN (sizeof(struct small_write) + SIRDMA_ICRC_LEN)
SIRDMA_STATIC_ASSERT(SMALL_WRITE_MIN + 4096 == SNIC_SMALL_MAX, "a WRITE of the longest path MTU");
#define SMALL_ACK_LEN (sizeof(struct small_ack) + SIRDMA_ICRC_LEN)

enum snic_small snic_small_kind(const struct snic_rx_pkt *rx, u32 *qpn)
{
	enum snic_small kind = SNIC_SMALL_NONE;
	struct sirdma_bth bth;

	if (rx->len < SMALL_ACK_LEN || rx->npkts > 1 || !rx->nsegs || rx->segs[0].len < rx->len ||
	    !rx->icrc_ok || (rx->traffic_class & 3) == 3)
		return SNIC_SMALL_NONE;
	memcpy(&bth, rx->segs[0].ptr, sizeof(bth));
	if (bth.opcode == (SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY) && rx->len > SMALL_WRITE_MIN &&
	    rx->len % 4 == 0)
		kind = SNIC_SMALL_WRITE;
	else if (bth.opcode == (SIRDMA_BTH_RC | SIRDMA_BTH_ACK) && rx->len == SMALL_ACK_LEN)
		kind = SNIC_SMALL_ACK;
	*qpn = be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK;
	return kind;
}

/*
 * Is the packet for @qp, and from its peer? What snic_small_kind() has seen may have changed since: the
 * sender can write to it.
 */
static bool small_admit(struct snic_qp *qp, const struct snic_rx_pkt *rx,
			const struct sirdma_bth *bth, u8 opcode)
{
	return qp->state == SIRDMA_QPS_RTS && qp->transport == &snic_rc &&
	       bth->opcode == (SIRDMA_BTH_RC | opcode) && !(bth->flags & SIRDMA_BTH_TVER) &&
	       be16_to_cpu(bth->pkey) == qp->pkey && (qp->pkey & SIRDMA_PKEY_FULL_MEMBER) &&
	       (be32_to_cpu(bth->qpn) & SIRDMA_QPN_MASK) == qp->obj.id && snic_is_from_peer(qp, rx);
}

/* Does the responder of @qp only await the next message? */
static bool small_may_recv(const struct snic_qp *qp)
{
	const struct snic_resp *resp = &qp->resp;

	return (qp->access & SIRDMA_ACCESS_REMOTE_WRITE) && !resp->in_msg && !resp->nak_sent &&
	       !resp->fatal && !resp->inv_wait;
}

/* Where a WRITE of @len bytes goes. NULL: its key is wrong, or its place is not found at once. */
static u8 *small_target(struct snic_qp *qp, u32 rkey, u64 va, u32 len)
{
	struct snic_mr *mr = snic_qp_try_rx_mr(qp, rkey, va, len, SIRDMA_ACCESS_REMOTE_WRITE);
	struct snic_run *run = &qp->rx_mem->run;
	u8 *to = mr ? snic_run_at(run, va, len) : NULL;

	if (to || !mr || snic_mr_may_fault(mr) ||
	    snic_mr_run(qp->dev, mr, va, len, run) != SNIC_MEM_OK)
		return to;
	return snic_run_at(run, va, len);
}

u32 snic_small_write(struct snic_qp *qp, const struct snic_rx_pkt *rx)
{
	struct snic_resp *resp = &qp->resp;
	u32 len, psn, before = resp->epsn;
	struct small_write h;
	const u8 *p;
	u8 *to;

	if (!small_may_recv(qp))
		return 0;
	p = rx->segs[0].ptr;
	memcpy(&h, p, sizeof(h)); /* the sender may change it meanwhile */
	psn = be32_to_cpu(h.bth.apsn);
	len = rx->len - SMALL_WRITE_MIN - ((h.bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT);
	if ((psn & SIRDMA_PSN_MASK) != before || !len || len > snic_qp_mtu(qp) ||
	    be32_to_cpu(h.reth.len) != len || !small_admit(qp, rx, &h.bth, SIRDMA_BTH_WRITE_ONLY))
		return 0;
	to = small_target(qp, be32_to_cpu(h.reth.rkey), be64_to_cpu(h.reth.va), len);
	if (!to)
		return 0;
	memcpy(to, p + sizeof(h), len);
	resp->epsn = snic_psn_add(before, 1);
	resp->msn = snic_psn_add(resp->msn, 1);
	snic_rd_forget_old(qp, before);
	if (psn & SIRDMA_BTH_ACKREQ)
		snic_resp_owe_ack(resp, resp->epsn);
	else
		snic_resp_linger(qp);
	return len;
}

bool snic_small_ack(struct snic_qp *qp, const struct snic_rx_pkt *rx)
{
	const struct snic_req *req = &qp->req;
	struct small_ack h;

	if (req->inv_wait || req->rd_atomic_msgs || req->head == req->tail)
		return false;
	memcpy(&h, rx->segs[0].ptr, sizeof(h));
	if ((h.bth.flags & SIRDMA_BTH_PAD) ||
	    (be32_to_cpu(h.aeth.smsn) >> 24 & SIRDMA_AETH_KIND) != SIRDMA_AETH_ACK ||
	    !small_admit(qp, rx, &h.bth, SIRDMA_BTH_ACK))
		return false;
	return snic_comp_ack(qp, be32_to_cpu(h.bth.apsn) & SIRDMA_PSN_MASK);
}
