// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Small messages. */
#include "small.h"

#include "completer.h"
#include "frame.h"
#include "requester.h"
#include "responder.h"
#include "stream.h"
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

/* The payload of a WQE of one quantum without inline data. NULL: it is not small, or not in the run of the burst. */
static u8 *small_payload(const struct snic_tx *tx, struct sirdma_wqe *wqe, bool polarity, u32 *len)
{
	u64 stag = le64_to_cpu(READ_ONCE(wqe->frag_stag));

	*len = (u32)SIRDMA_GET(SIRDMA_FRAG_LEN, stag);
	if (*len > SNIC_WIN_SMALL || !!(stag & SIRDMA_FRAG_VALID) != polarity ||
	    (u32)SIRDMA_GET(SIRDMA_FRAG_STAG, stag) != tx->run_stag)
		return NULL;
	return snic_run_at(&tx->run, le64_to_cpu(READ_ONCE(wqe->frag_addr)), *len);
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
				   SNIC_OUT_PLAIN) |
			  (req->sq_polarity ? SNIC_OUT_POLARITY : 0));
	if (PORT_WIRE_IN_MEMORY)
		tx->needs_ack |= (out->flags & SNIC_OUT_SIGNALED) || out->op != SIRDMA_OP_WRITE;
	req->cur = req->tail;
	req->sqe_valid = false;
	req->psn = snic_psn_add(req->psn, 1);
	req->nxt = req->psn;
	snic_send_advance(qp, 1);
}

/*
 * The WQE @wqe, with inline data, is the last one of the burst. Append those behind it that have the same header, up to
 * @max of them and the end of the page: all but PSN, address and payload is as before. Returns their number.
 */
static u32 small_repeat(struct snic_tx *tx, const struct sirdma_wqe *wqe, __le64 hdr, bool write,
			u32 max)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	struct snic_tx_pkt *pkt = &tx->burst->pkts[tx->burst->npkts - 1];
	struct snic_out out = *snic_out_at(req, req->tail - 1);
	const u32 at = pkt->hdr_len - out.len; /* of the payload */
	__le64 data;
	__be64 va;
	u32 n;

	for (n = 0; n < max; n++) {
		wqe++;
		if (READ_ONCE(wqe->hdr) != hdr)
			break;
		smp_rmb(); /* as in snic_small_fill() */
		out.psn = snic_psn_add(out.psn, 1);
		out.idx++;
		*snic_out_at(req, req->tail + n) = out;
		pkt[1] = pkt[0];
		pkt++;
		pkt->bth.apsn = cpu_to_be32(out.psn);
		if (write) {
			va = cpu_to_be64(le64_to_cpu(READ_ONCE(wqe->remote)));
			__builtin_memcpy(pkt->hdr + sizeof(struct sirdma_bth), &va, sizeof(va));
		}
		data = READ_ONCE(wqe->frag_stag);
		__builtin_memcpy(pkt->hdr + at, &data, sizeof(data));
		snic_req_added(req, pkt);
	}
	tx->burst->npkts += n;
	req->tail += n;
	req->cur = req->tail;
	req->psn = snic_psn_add(out.psn, 1);
	req->nxt = req->psn;
	snic_send_advance(qp, n);
	return n;
}

/* Quanta from the next one on that lie behind the last one in memory, too: at the end of a page the ring goes on elsewhere. */
static u32 small_in_page(const struct snic_qp *qp)
{
	const u32 quanta = SIRDMA_PAGE_SIZE / SIRDMA_QUANTUM, idx = qp->req.sq_idx;

	return idx % quanta ? min(quanta - idx % quanta, qp->sq_quanta - idx) : 0;
}

enum snic_send_stop snic_small_fill(struct snic_tx *tx)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	const u32 dest_qpn = qp->dest_qpn;
	const u16 pkey = qp->pkey;
	struct snic_tx_pkt *pkt;
	struct sirdma_wqe *wqe;
	u32 left, len, in_page;
	u8 *payload = NULL;
	u64 hdr, remote;
	bool write, is_inline;

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
		is_inline = hdr & SIRDMA_WQE_INLINE;
		if (is_inline) {
			len = (u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr);
			if (len - 1 >= SIRDMA_INLINE_FIRST)
				break;
		} else {
			payload = small_payload(tx, wqe, req->sq_polarity, &len);
			if (!payload || snic_tx_bytes_room(tx) < len)
				break;
		}
		if (!snic_tx_ready(tx))
			return SNIC_SEND_STALLED;
		remote = le64_to_cpu(READ_ONCE(wqe->remote));
		if (!is_inline && !snic_tx_seg(tx, payload, len))
			break;
		pkt = snic_tx_packet(tx);
		snic_pkt_bth(pkt,
			     SIRDMA_BTH_RC | (write ? SIRDMA_BTH_WRITE_ONLY : SIRDMA_BTH_SEND_ONLY),
			     pkey, dest_qpn, req->psn, len);
		if (write)
			snic_pkt_reth(pkt, remote, (u32)SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr), len);
		if (is_inline)
			snic_pkt_short_payload(pkt, READ_ONCE(wqe->frag_stag), len);
		small_push(tx, hdr, len);
		snic_req_added(req, pkt);
		if (!is_inline)
			continue;
		in_page = min(left - 1, small_in_page(qp));
		if (in_page && READ_ONCE(wqe[1].hdr) == cpu_to_le64(hdr))
			left -= small_repeat(tx, wqe, cpu_to_le64(hdr), write, in_page);
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
SIRDMA_STATIC_ASSERT(SMALL_WRITE_MIN + SNIC_WIN_SMALL == SNIC_SMALL_MAX, "the longest small WRITE");
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

	if (to || !mr || mr->map.level || snic_mr_may_fault(mr) ||
	    snic_mr_run(qp->dev, mr, va, len, run) != SNIC_MEM_OK)
		return to;
	return snic_run_at(run, va, len);
}

/* @n WRITEs of one packet are in their place. @asks: the last asks for an acknowledgement. */
static __always_inline void small_written(struct snic_qp *qp, u32 n, bool asks)
{
	struct snic_resp *resp = &qp->resp;
	u32 before = resp->epsn;

	resp->epsn = snic_psn_add(before, n);
	resp->msn = snic_psn_add(resp->msn, n);
	snic_rd_forget_old(qp, before);
	if (asks)
		snic_resp_owe_ack(resp, resp->epsn);
	else
		snic_resp_linger(qp);
}

/* What the next WRITE has in common with @h, which was received. */
static void small_begin_stream(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx,
			       const struct small_write *h, u32 len)
{
	struct snic_rx_stream *stream = &batch->stream;

	if (!PORT_WIRE_IN_MEMORY)
		return;
	memcpy(&stream->bth, &h->bth, sizeof(stream->bth));
	memcpy(&stream->key_len, &h->reth.rkey, sizeof(stream->key_len));
	stream->len = rx->len;
	stream->payload_len = (u16)len;
	stream->traffic_class = rx->traffic_class;
	stream->hlen = (u8)snic_frame_hlen(rx->is_v4, rx->vlan_id != 0);
}

u32 snic_small_write(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx)
{
	struct snic_qp *qp = batch->qp;
	struct small_write h;
	const u8 *p;
	u32 len, psn;
	u8 *to;

	if (!small_may_recv(qp))
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
	small_written(qp, 1, psn & SIRDMA_BTH_ACKREQ);
	small_begin_stream(batch, rx, &h, len);
	return len;
}

/* Does a packet at @psn go on with the stream? What came since the packet before may have failed the QP. */
static bool small_goes_on(const struct snic_rx_batch *batch, u64 bth, u64 key_len, u32 psn)
{
	const struct snic_qp *qp = batch->qp;

	return bth == batch->stream.bth && key_len == batch->stream.key_len &&
	       psn == qp->resp.epsn && qp->state == SIRDMA_QPS_RTS && small_may_recv(qp);
}

bool snic_small_next(struct snic_rx_batch *batch, const u8 *p)
{
	const struct snic_rx_stream *stream = &batch->stream;
	struct snic_qp *qp = batch->qp;
	u32 psn, len = stream->payload_len;
	struct small_write h;
	u64 bth, key_len;
	u8 *to;

	if (!PORT_WIRE_IN_MEMORY)
		return false;
	memcpy(&h, p, sizeof(h)); /* the sender may change it meanwhile */
	memcpy(&bth, &h.bth, sizeof(bth));
	memcpy(&key_len, &h.reth.rkey, sizeof(key_len));
	psn = be32_to_cpu(h.bth.apsn);
	if (!small_goes_on(batch, bth, key_len, psn & SIRDMA_PSN_MASK))
		return false;
	to = snic_run_at(&batch->mem.run, be64_to_cpu(h.reth.va), len);
	if (!to)
		return false;
	if (len == sizeof(u64))
		memcpy(to, p + sizeof(h), sizeof(u64));
	else
		memcpy(to, p + sizeof(h), len);
	small_written(qp, 1, psn & SIRDMA_BTH_ACKREQ);
	return true;
}

u32 snic_small_stream(struct snic_rx_batch *batch, const struct snic_stream *stream, u32 max)
{
	u32 i, n = min(stream->count, max), len = batch->stream.payload_len;
	const struct snic_stream_write *write = stream->writes;
	struct snic_qp *qp = batch->qp;
	u8 *to;

	if (!PORT_WIRE_IN_MEMORY || len > SNIC_STREAM_PAYLOAD ||
	    !small_goes_on(batch, stream->bth, stream->key_len, stream->psn))
		return 0;
	for (i = 0; i < n; i++, write++) {
		to = snic_run_at(&batch->mem.run, be64_to_cpu(READ_ONCE(write->va)), len);
		if (!to)
			break;
		if (len == sizeof(u64))
			memcpy(to, write->data, sizeof(u64));
		else
			memcpy(to, write->data, len);
	}
	if (i)
		small_written(qp, i, stream->asks && i == stream->count);
	return i;
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
