// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Small messages. */
#include "small.h"

#include "cnp.h"
#include "completer.h"
#include "frame.h"
#include "requester.h"
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
	       !snic_dev_ops(qp->dev)->one_sided_nowait;
}

/* Bytes of inline data of a WQE of one quantum; 0: it has more quanta, or no data. */
static u32 small_inline_len(u64 hdr)
{
	u32 len = (u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr);

	return len <= SIRDMA_INLINE_FIRST ? len : 0;
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
	return len != 0; /* empty messages take the general path */
}

/*
 * The payload of a WQE of one quantum without inline data. NULL, and *len is 0: it is not small, or
 * its place is not found at once.
 */
static u8 *small_payload(struct snic_tx *tx, struct sirdma_wqe *wqe, bool polarity, u32 *len)
{
	u64 va, word = le64_to_cpu(READ_ONCE(wqe->frag_stag));
	u32 stag = (u32)SIRDMA_GET(SIRDMA_FRAG_STAG, word);
	u8 *payload = NULL;

	*len = (u32)SIRDMA_GET(SIRDMA_FRAG_LEN, word);
	if (small_fits(tx, *len) && !!(word & SIRDMA_FRAG_VALID) == polarity) {
		va = le64_to_cpu(READ_ONCE(wqe->frag_addr));
		if (stag == tx->run_stag)
			payload = snic_run_at(&tx->run, va, *len);
		if (!payload)
			payload = snic_tx_try_region(tx, stag, va, *len);
	}
	if (!payload)
		*len = 0;
	return payload;
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
				   SNIC_OUT_UNSIGNALED) |
			  (req->sq_polarity ? SNIC_OUT_POLARITY : 0));
	snic_req_note(tx, out);
	req->cur = req->tail;
	req->sqe_valid = false;
	req->psn = snic_psn_add(req->psn, 1);
	req->nxt = req->psn;
	snic_send_advance(qp, 1);
}

/* WQEs that follow the next one within its page and the ring. 0: the next WQE begins a page. */
static u32 small_in_page(const struct snic_qp *qp)
{
	const u32 quanta = SIRDMA_PAGE_SIZE / SIRDMA_QUANTUM, idx = qp->req.sq_idx;

	return idx % quanta ? min(quanta - idx % quanta, qp->sq_quanta - idx) : 0;
}

/*
 * The WQE @wqe, a WRITE of inline data with @hdr, is the last one of the burst. Append those of up
 * to @max behind it that have its header: all but PSN, address and payload is as before. Returns
 * their number.
 */
static u32 small_fill_alike(struct snic_tx *tx, const struct sirdma_wqe *wqe, __le64 hdr, u32 max)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	struct snic_tx_pkt *pkt = &tx->burst->pkts[tx->burst->npkts - 1];
	u32 n, unasked = req->unasked, ask_after = req->ask_after;
	struct snic_tx_pkt like;
	struct snic_out out;
	__le64 data, mask;
	__be64 va;

	max = min(max, small_in_page(qp));
	if (!max || READ_ONCE(wqe[1].hdr) != hdr)
		return 0;
	like = *pkt;
	out = *snic_out_at(req, req->tail - 1);
	mask = cpu_to_le64(~0ull >> (64 - 8 * out.len)); /* as in snic_pkt_inline_data() */
	for (n = 0; n < max; n++) {
		wqe++;
		if (READ_ONCE(wqe->hdr) != hdr)
			break;
		smp_rmb(); /* as in snic_small_fill() */
		out.psn = snic_psn_add(out.psn, 1);
		out.idx++;
		*snic_out_at(req, req->tail + n) = out;
		*++pkt = like;
		pkt->bth.apsn = cpu_to_be32(out.psn);
		va = cpu_to_be64(le64_to_cpu(READ_ONCE(wqe->remote)));
		data = READ_ONCE(wqe->frag_stag) & mask;
		__builtin_memcpy(pkt->hdr + sizeof(struct sirdma_bth), &va, sizeof(va));
		__builtin_memcpy(pkt->hdr + SNIC_SMALL_HDR, &data, sizeof(data));
		if (++unasked >= ask_after) {
			snic_pkt_set_ackreq(pkt);
			unasked = 0;
		}
	}
	req->unasked = unasked;
	tx->burst->npkts += n;
	req->tail += n;
	req->cur = req->tail;
	req->psn = snic_psn_add(out.psn, 1);
	req->nxt = req->psn;
	snic_send_advance(qp, n);
	return n;
}

/* Append the packet of a message of @len bytes, whose payload is appended, or inline in @wqe. */
static void small_packet(struct snic_tx *tx, const struct sirdma_wqe *wqe, u64 hdr, u32 len)
{
	const struct snic_qp *qp = tx->qp;
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	bool write = (hdr & SMALL_KIND) == SMALL_WRITE;

	snic_pkt_bth(pkt, SIRDMA_BTH_RC | (write ? SIRDMA_BTH_WRITE_ONLY : SIRDMA_BTH_SEND_ONLY),
		     qp->pkey, qp->dest_qpn, qp->req.psn, len);
	if (write)
		snic_pkt_reth(pkt, le64_to_cpu(READ_ONCE(wqe->remote)),
			      (u32)SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr), len);
	if (hdr & SIRDMA_WQE_INLINE)
		snic_pkt_inline_data(pkt, READ_ONCE(wqe->frag_stag), len);
	snic_req_added(&tx->qp->req, pkt);
}

enum snic_send_stop snic_small_fill(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	struct sirdma_wqe *wqe;
	u32 left, len;
	u8 *payload;
	u64 hdr;

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
		if (!!(hdr & SIRDMA_WQE_VALID) != req->sq_polarity) {
			req->sqe_valid = false; /* as send_fetch() leaves it */
			return SNIC_SEND_EMPTY;
		}
		if ((hdr & SMALL_KIND) != SMALL_WRITE && (hdr & SMALL_KIND) != SMALL_SEND)
			break;
		smp_rmb(); /* this barrier pairs with the poster's barrier before the header */
		payload = NULL;
		if (hdr & SIRDMA_WQE_INLINE)
			len = small_inline_len(hdr);
		else
			payload = small_payload(tx, wqe, req->sq_polarity, &len);
		if (!len || snic_tx_bytes_room(tx) < len)
			break;
		if (!snic_tx_ready(tx))
			return SNIC_SEND_STALLED;
		if (payload && !snic_tx_seg(tx, payload, len))
			break;
		small_packet(tx, wqe, hdr, len);
		small_push(tx, hdr, len);
		if (!payload && left > 1 && (hdr & SMALL_KIND) == SMALL_WRITE)
			left -= small_fill_alike(tx, wqe, cpu_to_le64(hdr), left - 1);
	}
	return SNIC_SEND_NEXT;
}

/* The headers of an acknowledgement. */
struct small_ack {
	struct sirdma_bth bth;
	struct sirdma_aeth aeth;
};
SIRDMA_SIZE_IS(struct small_ack, 16);

/* Bytes of a small WRITE without its payload. */
#define SMALL_WRITE_MIN (SNIC_SMALL_HDR + SIRDMA_ICRC_LEN)
SIRDMA_STATIC_ASSERT(SMALL_WRITE_MIN + 4096 == SNIC_SMALL_MAX, "a WRITE of the longest path MTU");
#define SMALL_ACK_LEN (sizeof(struct small_ack) + SIRDMA_ICRC_LEN)

enum snic_small snic_small_kind(const struct snic_rx_pkt *rx, u32 *qpn)
{
	enum snic_small kind = SNIC_SMALL_NONE;
	struct sirdma_bth bth;

	if (rx->len < SMALL_ACK_LEN || rx->npkts > 1 || !rx->nsegs || rx->segs[0].len < rx->len ||
	    !rx->icrc_ok || snic_is_marked(rx))
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

/* Note what the next WRITE is likely to have in common with @rx, whose headers are @h. */
static void small_note_last(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx,
			    const struct snic_small_hdr *h, u32 len)
{
	struct snic_rx_last *last = &batch->last;
	struct snic_small_words words;

	if (!PORT_WIRE_IN_MEMORY)
		return;
	memcpy(&words, h, sizeof(words));
	last->bth = words.bth;
	last->rkey_len = words.rkey_len;
	last->len = rx->len;
	last->payload_len = (u16)len;
	last->traffic_class = rx->traffic_class;
	last->hlen = (u8)snic_frame_hlen(rx->is_v4, rx->vlan_id != 0);
}

u32 snic_small_write(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx)
{
	struct snic_qp *qp = batch->qp;
	struct snic_small_hdr h;
	const u8 *p;
	u32 len, psn;
	u8 *to;

	if (!snic_small_may_recv(qp))
		return 0;
	p = rx->segs[0].ptr;
	memcpy(&h, p, sizeof(h)); /* the sender may change it meanwhile */
	psn = be32_to_cpu(h.bth.apsn);
	len = rx->len - SMALL_WRITE_MIN - ((h.bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT);
	if ((psn & SIRDMA_PSN_MASK) != qp->resp.epsn || !len || len > snic_qp_mtu(qp) ||
	    be32_to_cpu(h.reth.len) != len || !small_admit(qp, rx, &h.bth, SIRDMA_BTH_WRITE_ONLY))
		return 0;
	to = small_target(qp, be32_to_cpu(h.reth.rkey), be64_to_cpu(h.reth.va), len);
	if (!to)
		return 0;
	memcpy(to, p + sizeof(h), len);
	snic_small_written(qp, 1, psn & SIRDMA_BTH_ACKREQ);
	small_note_last(batch, rx, &h, len);
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
