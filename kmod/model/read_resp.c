// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The packets that the responder sends: responses to READs, atomics, FLUSHes and ATOMIC WRITEs, then
 * the acknowledgement.
 *
 * The last SNIC_MAX_RD_ATOMIC of these requests are remembered. A duplicate READ is answered
 * again from the region (IBTA 9.7.5.1.2), a duplicate atomic with the value that was kept. A
 * duplicate ATOMIC WRITE is answered again and changes nothing, like a duplicate atomic. A
 * requester may repeat a READ in several parts; each part has an entry of its own until it is
 * answered. An acknowledgement is sent after the responses to all requests before it, because it
 * acknowledges those too.
 */
#include "prq.h"
#include "responder.h"
#include "retry.h"
#include "transport.h"
#include "window.h"
#include "xmit.h"
#include "xrc.h"

/* The two highest bits of a PSN tell its quarter of the circle. */
#define PSN_QUARTER 0xc00000u
#define PSN_QUARTER_LEN 0x400000u

/*
 * The RNR timer for a READ whose memory is absent after its beginning, 61 ms: the requester repeats the
 * READ no sooner than by the usual ACK timeout (14, 67 ms). A response ends the wait, so it costs nothing
 * when the memory comes.
 */
#define RD_RNR_TIMER 25

/* PSN of the next response. */
static u32 rd_psn(const struct snic_rd *rd)
{
	return snic_psn_add(rd->psn, rd->pos);
}

struct snic_rd *snic_rd_next(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	struct snic_rd *oldest = NULL;
	u32 i, age, max_age = 0, left = resp->rd_pending;

	for (i = 0; left; i++) {
		if (!resp->rd[i].pending)
			continue;
		left--;
		age = snic_psn_fwd(resp->epsn, rd_psn(&resp->rd[i]));
		if (age >= max_age) {
			oldest = &resp->rd[i];
			max_age = age;
		}
	}
	return oldest;
}

/* Set @rd to a READ of @len bytes at @va, owner first response has @psn. */
static void rd_begin(struct snic_rd *rd, u64 va, u32 rkey, u32 len, u32 psn)
{
	rd->va = va;
	rd->rkey = rkey;
	rd->len = len;
	rd->psn = psn;
	rd->used = true;
	rd->pos = 0;
	rd->done = false;
	rd->rnr_due = false;
	rd->sent = false;
	rd->answered = false;
}

static void rd_set_pending(struct snic_resp *resp, struct snic_rd *rd)
{
	resp->rd_pending += !rd->pending;
	rd->pending = true;
}

/* There is nothing more to send for @rd. */
static void rd_finish(struct snic_resp *resp, struct snic_rd *rd)
{
	rd->pending = false;
	rd->done = true;
	resp->rd_pending--;
}

/* The bytes that the responses to request @pkt carry. */
static u32 rd_len(const struct snic_pkt *pkt)
{
	if (pkt->flags & SNIC_PKT_READ)
		return pkt->dma_len;
	return pkt->flags & SNIC_PKT_ATOMIC ? SIRDMA_ATOMIC_LEN : 0;
}

/* Requests that the responder accepted and has not answered yet, without duplicates. */
static u32 rd_outstanding(const struct snic_resp *resp)
{
	u32 i, n = 0;

	for (i = 0; i < SNIC_MAX_RD_ATOMIC; i++)
		n += resp->rd[i].pending && !resp->rd[i].done;
	return n;
}

bool snic_rd_has_room(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	if (resp->rd_pending < qp->ird || rd_outstanding(resp) < qp->ird)
		return true;
	resp->fail_ae = SIRDMA_AE_IB_RREQ_AND_Q1_FULL;
	return false;
}

/* The PSN after the last response of @rd. */
static u32 rd_end(const struct snic_qp *qp, const struct snic_rd *rd)
{
	return snic_psn_add(rd->psn, snic_qp_pkts(qp, rd->len));
}

void snic_rd_forget_old(struct snic_qp *qp, u32 before)
{
	struct snic_resp *resp = &qp->resp;
	u32 i;

	/*
	 * One step of epsn is at most two quarters long, so epsn never skips two quarters in
	 * sequence. A look in each quarter that it enters finds every old request within a lap.
	 */
	if (likely(!((before ^ resp->epsn) & PSN_QUARTER)))
		return;
	for (i = 0; i < SNIC_MAX_RD_ATOMIC; i++) {
		if (!resp->rd[i].pending &&
		    snic_psn_fwd(resp->epsn, rd_end(qp, &resp->rd[i])) > PSN_QUARTER_LEN)
			resp->rd[i].used = false;
	}
}

struct snic_rd *snic_rd_accept(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_resp *resp = &qp->resp;
	struct snic_rd *rd = &resp->rd[resp->rd_tail++ % SNIC_MAX_RD_ATOMIC];
	u32 before = resp->epsn, len = rd_len(pkt);

	rd_begin(rd, pkt->va, pkt->rkey, len, pkt->psn);
	rd->opcode = pkt->opcode & SIRDMA_BTH_OPERATION;
	if (!resp->rd_pending)
		resp->rd_new = pkt->psn;
	rd_set_pending(resp, rd);
	resp->msn = snic_psn_add(resp->msn, 1);
	rd->msn = resp->msn;
	resp->epsn = snic_psn_add(resp->epsn, snic_qp_pkts(qp, len));
	snic_rd_forget_old(qp, before);
	/* The responses acknowledge all packets before the request. */
	resp->ack_due = false;
	resp->unacked = false;
	resp->owed++;
	return rd;
}

enum snic_recv_verdict snic_read_request(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	enum sirdma_ae_code ae;
	struct snic_mr *mr;

	if (!(qp->access & SIRDMA_ACCESS_REMOTE_READ) || pkt->dma_len > SIRDMA_MAX_MSG_SIZE)
		return SNIC_RECV_NAK_INVALID;
	if (!snic_rd_has_room(qp))
		return SNIC_RECV_NAK_INVALID;
	if (pkt->dma_len) {
		mr = snic_qp_rx_mr(qp, qp->pd, pkt->rkey, pkt->va, pkt->dma_len,
				   SIRDMA_ACCESS_REMOTE_READ, &ae);
		if (!mr) {
			qp->resp.fail_ae = (u16)ae;
			return SNIC_RECV_NAK_ACCESS;
		}
		/* Before the READ is accepted the whole request gets an RNR NAK; later see rd_absent(). */
		if (!snic_mr_may_fault(mr) && !snic_run_at(&qp->rx_mem->run, pkt->va, 1) &&
		    snic_mr_run(qp->dev, mr, pkt->va, 1, &qp->rx_mem->run) == SNIC_MEM_ABSENT) {
			snic_prq_missed(qp, SNIC_RESPONDER, mr, pkt->va, pkt->dma_len,
					SNIC_MEM_ABSENT);
			return SNIC_RECV_RNR;
		}
	}
	snic_rd_accept(qp, pkt);
	return SNIC_RECV_DONE;
}

u32 snic_rd_after(const struct snic_resp *resp, u32 psn)
{
	u32 i, dist, nearest = snic_psn_fwd(resp->epsn, psn);

	for (i = 0; i < SNIC_MAX_RD_ATOMIC; i++) {
		dist = snic_psn_fwd(resp->rd[i].psn, psn);
		if (resp->rd[i].used && dist < nearest)
			nearest = dist;
	}
	return snic_psn_add(psn, nearest);
}

static struct snic_rd *rd_find(struct snic_qp *qp, u32 psn)
{
	struct snic_rd *rd;
	u32 i;

	for (i = 0; i < SNIC_MAX_RD_ATOMIC; i++) {
		rd = &qp->resp.rd[i];
		if (rd->used && snic_psn_fwd(psn, rd->psn) < snic_qp_pkts(qp, rd->len))
			return rd;
	}
	return NULL;
}

/*
 * The peer requests responses in [psn, psn + npkts) again: cancel entries that would send them too.
 */
static void rd_supersede(struct snic_qp *qp, u32 psn, u32 npkts)
{
	struct snic_rd *rd;
	u32 i, left;

	for (i = 0; i < ARRAY_SIZE(qp->resp.rd); i++) {
		rd = &qp->resp.rd[i];
		left = snic_qp_pkts(qp, rd->len) - rd->pos;
		if (!rd->pending || (snic_psn_fwd(psn, rd_psn(rd)) >= left &&
				     snic_psn_fwd(rd_psn(rd), psn) >= npkts))
			continue;
		rd_finish(&qp->resp, rd);
	}
}

/*
 * A free entry for a part of a READ, or NULL if there is none: the requester will then retransmit
 * the request.
 */
static struct snic_rd *rd_free(struct snic_resp *resp)
{
	u32 i;

	for (i = SNIC_MAX_RD_ATOMIC; i < ARRAY_SIZE(resp->rd); i++) {
		if (!resp->rd[i].pending)
			return &resp->rd[i];
	}
	return NULL;
}

/*
 * Is @pkt a duplicate of the request @rd, or of a part of it that is @len bytes long? Address
 * and operands of an atomic are not kept, so they are not compared.
 */
static bool rd_covers(const struct snic_qp *qp, const struct snic_rd *rd,
		      const struct snic_pkt *pkt, u32 len)
{
	u32 off = snic_psn_fwd(pkt->psn, rd->psn) << qp->mtu_shift;

	if ((pkt->opcode & SIRDMA_BTH_OPERATION) != rd->opcode || pkt->rkey != rd->rkey)
		return false;
	if (rd->opcode != SIRDMA_BTH_READ_REQUEST)
		return true;
	return pkt->va == rd->va + off && len <= rd->len - off && (!rd->len || len);
}

void snic_rd_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_rd *rd = rd_find(qp, pkt->psn), *again;
	u32 len = rd_len(pkt);

	if (!rd || qp->resp.fatal || !rd_covers(qp, rd, pkt, len))
		return;
	qp->resp.absent = false;
	if (rd->sent)
		rd->answered = true;
	rd_supersede(qp, pkt->psn, snic_qp_pkts(qp, len));
	again = rd;
	if (pkt->psn == rd->psn && len == rd->len) {
		rd->pos = 0;
	} else {
		again = rd_free(&qp->resp);
		if (!again)
			return;
		rd_begin(again, pkt->va, pkt->rkey, len, pkt->psn);
		again->opcode = rd->opcode;
		again->msn = rd->msn;
		again->answered = rd->answered;
		if (qp->xrc)
			snic_xrc_read_again(qp, again, rd);
	}
	again->done = true; /* a duplicate does not count against ird */
	again->rnr_due = true;
	rd_set_pending(&qp->resp, again);
	qp->resp.owed++;
}

/* The MSN of a NAK in place of a response to @rd: that of the requests before it, which are complete. */
static u32 rd_msn_before(const struct snic_rd *rd)
{
	return snic_psn_add(rd->msn, SIRDMA_PSN_MASK);
}

/*
 * Did the host take the responses to @rd? After those to a part that was repeated, and that ends where the READ ends, it
 * has taken all of the READ: the peer has what is before the part.
 */
static void rd_set_sent(struct snic_qp *qp, struct snic_rd *rd, bool sent)
{
	struct snic_rd *whole;

	rd->sent = sent;
	if (rd < &qp->resp.rd[SNIC_MAX_RD_ATOMIC])
		return;
	whole = rd_find(qp, rd->psn);
	if (whole && rd_end(qp, whole) == rd_end(qp, rd))
		whole->sent = sent;
}

static void rd_sent(struct snic_qp *qp, struct snic_rd *rd, bool last)
{
	struct snic_resp *resp = &qp->resp;

	rd->pos++;
	if (snic_psn_fwd(resp->epsn, rd_psn(rd)) < snic_psn_fwd(resp->epsn, resp->rd_new))
		resp->rd_new = rd_psn(rd);
	if (!last)
		return;
	rd_finish(resp, rd);
	rd_set_sent(qp, rd, true);
}

static void resp_aeth_packet(struct snic_tx *tx, u32 psn, u8 syndrome, u32 msn)
{
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	struct snic_qp *qp = tx->qp;

	snic_pkt_bth(pkt, qp->transport->bth | SIRDMA_BTH_ACK, qp->pkey, qp->dest_qpn, psn, 0);
	snic_pkt_aeth(pkt, syndrome, msn);
}

/*
 * The region of @rd can no longer be read: NAK, and send no further responses. If the request was answered before
 * it was repeated, the QP goes on: the peer may have its answer, and the region may be gone because of that. Then it
 * ignores the NAK.
 */
static void rd_fault(struct snic_tx *tx, struct snic_rd *rd, enum sirdma_ae_code ae)
{
	struct snic_qp *qp = tx->qp;
	struct snic_resp *resp = &qp->resp;
	u32 i;

	if (rd->answered) {
		if (!snic_tx_room(tx))
			return; /* @rd stays pending */
		snic_stat_inc(qp->dev, SIRDMA_STAT_NAK_REM_ACCESS_SENT);
		resp_aeth_packet(tx, rd_psn(rd), SIRDMA_AETH_NAK | SIRDMA_NAK_REM_ACCESS,
				 rd_msn_before(rd));
		rd_finish(resp, rd);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(resp->rd); i++)
		resp->rd[i].pending = false;
	resp->rd_pending = 0;
	snic_stat_inc(qp->dev, SIRDMA_STAT_NAK_REM_ACCESS_SENT);
	resp->fail_ae = (u16)ae;
	resp->fail_minor = SIRDMA_FLUSH_INVALID;
	resp->fatal = true;
	resp->msn = rd_msn_before(rd);
	resp->nak_sent = true;
	resp->ack_due = true;
	resp->ack_psn = rd_psn(rd);
	resp->ack_syndrome = SIRDMA_AETH_NAK | SIRDMA_NAK_REM_ACCESS;
}

static void rd_packet(struct snic_tx *tx, struct snic_rd *rd, u32 len)
{
	static const u8 opcodes[] = {SIRDMA_BTH_READ_RESP_MIDDLE, SIRDMA_BTH_READ_RESP_FIRST,
				     SIRDMA_BTH_READ_RESP_LAST, SIRDMA_BTH_READ_RESP_ONLY};
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	struct snic_qp *qp = tx->qp;
	bool first = !rd->pos, last = rd->pos + 1 == snic_qp_pkts(qp, rd->len);

	snic_pkt_bth(pkt, qp->transport->bth | opcodes[first + 2 * last], qp->pkey, qp->dest_qpn,
		     rd_psn(rd), len);
	if (first || last)
		snic_pkt_aeth(pkt, SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID, rd->msn);
	rd_sent(qp, rd, last);
}

/* Append the one response to @rd, which is no READ. Returns false when the burst is full. */
static bool rd_fill_one(struct snic_tx *tx, struct snic_rd *rd)
{
	bool atomic = snic_op(rd->opcode)->flags & SNIC_PKT_ATOMIC;
	struct snic_qp *qp = tx->qp;
	struct snic_tx_pkt *pkt;

	if (!snic_tx_room(tx))
		return false;
	pkt = snic_tx_packet(tx);
	/* An empty READ response is the answer to a FLUSH or an ATOMIC WRITE (annex A19). */
	snic_pkt_bth(pkt,
		     qp->transport->bth |
			     (atomic ? SIRDMA_BTH_ATOMIC_ACK : SIRDMA_BTH_READ_RESP_ONLY),
		     qp->pkey, qp->dest_qpn, rd->psn, 0);
	snic_pkt_aeth(pkt, SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID, rd->msn);
	if (atomic)
		snic_pkt_atomicacketh(pkt, rd->orig);
	rd_sent(qp, rd, true);
	return true;
}

/*
 * The region of a READ to an XRC target is of the PD of the shared queue that the request named. All
 * READs of one burst are of one queue. Returns false if @rd is of another one, or if the queue is
 * gone.
 */
static bool rd_take_queue(struct snic_tx *tx, struct snic_rd *rd)
{
	struct snic_qp *qp = tx->qp;
	u64 name = *snic_xrc_queue_of_read(qp, rd);

	if (qp->srq)
		return qp->srq->name == name;
	if (snic_xrc_bind(qp, name))
		return true;
	rd_fault(tx, rd, SIRDMA_AE_AMP_BAD_PD);
	return false;
}

/*
 * Append responses to the READ @rd. Returns false when the burst is full, or when no response can
 * follow.
 */
static bool rd_fill(struct snic_tx *tx, struct snic_rd *rd)
{
	struct snic_qp *qp = tx->qp;
	u32 mtu = snic_qp_mtu(qp), off = rd->pos << qp->mtu_shift;
	u32 n, bytes, got = 0, asked = qp->asks.gen[SNIC_RESPONDER];
	enum snic_gather ret = SNIC_GATHER_OK;
	enum sirdma_ae_code ae;

	if (unlikely(qp->xrc) && !rd_take_queue(tx, rd))
		return false;
	if (rd->pos)
		snic_tx_continue(tx);
	n = min_t(u32, snic_tx_room(tx), snic_tx_bytes_room(tx) >> qp->mtu_shift);
	if (!n)
		return false;
	bytes = min_t(u32, rd->len - off, n << qp->mtu_shift);
	if (bytes)
		ret = snic_tx_region(tx, rd->rkey, rd->va + off, bytes, &got, &ae);
	if (ret == SNIC_GATHER_FAULT) {
		snic_tx_trim(tx, got);
		rd_fault(tx, rd, ae);
		return false;
	}
	if (ret != SNIC_GATHER_OK) {
		bytes = got & ~(mtu - 1);
		snic_tx_trim(tx, got - bytes);
	}
	if (ret == SNIC_GATHER_OK || bytes) {
		do {
			n = min(mtu, bytes);
			rd_packet(tx, rd, n);
			bytes -= n;
		} while (bytes);
	}
	if (ret == SNIC_GATHER_ABSENT) {
		qp->resp.absent = true;
		/* An older generation is that of requests for other memory. */
		if (qp->asks.gen[SNIC_RESPONDER] != asked)
			snic_prq_waits_from_now(qp, SNIC_RESPONDER);
	}
	return ret == SNIC_GATHER_OK;
}

/*
 * Memory for the next response to @rd is absent. All later READs wait as well, because the responder
 * answers them in order. A requester that has repeated the request would not do so for ever: an RNR
 * NAK tells it to wait, once for each repetition. The responses follow when the driver rings, or when
 * the requester repeats the request once more. It may do so late or never, and the driver does not ring
 * if the request for the memory was lost: the responder asks again by the timer. Returns false if no NAK
 * is sent.
 *
 * IBTA 9.7.5.2.8 describes RNR NAKs as answers to requests, and is silent about a READ that has begun.
 * As other NAKs of such a READ (9.7.5.2.4), this one names the response that is due. A requester with a
 * limit of RNR retries, as xprtrdma, would fail by it before its ACK timeouts do, and gets none. The
 * responder takes its own limit for that of the peer: connections usually have the same at both ends.
 */
static bool rd_absent(struct snic_tx *tx, const struct snic_rd *rd)
{
	struct snic_qp *qp = tx->qp;
	u8 timer = qp->min_rnr_timer;

	/* Without a driver to ask, only the retries of the requester end a wait for memory that never comes. */
	if (!READ_ONCE(qp->dev->prq.entries))
		return false;
	snic_retry_ask_again(qp);
	if (!rd->rnr_due || qp->rnr_retry != SNIC_RNR_RETRY_INFINITE || !snic_tx_room(tx))
		return false;
	if (snic_rnr_ns(timer) < snic_rnr_ns(RD_RNR_TIMER))
		timer = RD_RNR_TIMER;
	resp_aeth_packet(tx, rd_psn(rd), SIRDMA_AETH_RNR_NAK | (timer & SIRDMA_AETH_VALUE),
			 rd_msn_before(rd));
	return true;
}

/*
 * The host accepted only @sent packets: the other responses are pending again. They wait for room in
 * the host's queue, not for memory.
 */
static void resp_unsend(struct snic_qp *qp, struct snic_burst *burst, u32 sent, const u8 *owner,
			u32 owned)
{
	struct snic_rd *rd;
	u32 i;

	qp->resp.absent = false;
	for (i = owned; i-- > sent;) {
		rd = &qp->resp.rd[owner[i]];
		if ((burst->pkts[i].bth.opcode & SIRDMA_BTH_OPERATION) == SIRDMA_BTH_ACK) {
			/* The NAK of rd_fault() */
			rd_set_pending(&qp->resp, rd);
			continue;
		}
		rd->pos = snic_psn_fwd(snic_pkt_psn(&burst->pkts[i]), rd->psn);
		rd_set_sent(qp, rd, false);
		rd_set_pending(&qp->resp, rd);
	}
}

bool snic_resp_add_ack(struct snic_tx *tx)
{
	const struct snic_resp *resp = &tx->qp->resp;
	const struct snic_burst *burst = tx->burst;

	if (!snic_tx_room(tx) || tx->bytes > SNIC_WIN_SMALL ||
	    !(snic_op(burst->pkts[burst->npkts - 1].bth.opcode)->flags & SNIC_PKT_LAST))
		return false;
	resp_aeth_packet(tx, resp->ack_psn, resp->ack_syndrome, resp->msn);
	return true;
}

void snic_resp_ack_sent(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_ACKS_SENT);
	qp->resp.ack_due = false;
	qp->resp.unacked = false;
	qp->resp.owed = 0;
}

/* Send one burst. Returns false when the host has no room. */
static bool resp_burst(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	struct snic_burst *burst;
	struct snic_rd *rd;
	struct snic_tx tx __uninitialized;
	u8 owner[SNIC_BURST_PKTS] __uninitialized; /* index in rd[] of each response */
	bool with_ack, with_rnr, more = true;
	u32 sent, i = 0;

	snic_tx_begin(&tx, qp, &qp->path, SIRDMA_ACCESS_REMOTE_READ);
	/*
	 * Data waits for room in the host's queue. An acknowledgement does not wait, since the
	 * peer's ACK timer runs.
	 */
	if (snic_rd_next(qp) && !snic_tx_ready(&tx)) {
		snic_tx_end(&tx);
		return false;
	}
	burst = tx.burst;
	while (more && (rd = snic_rd_next(qp))) {
		more = rd->opcode == SIRDMA_BTH_READ_REQUEST ? rd_fill(&tx, rd) :
							       rd_fill_one(&tx, rd);
		for (; i < burst->npkts; i++)
			owner[i] = (u8)(rd - resp->rd);
	}
	if (unlikely(qp->xrc))
		snic_xrc_unbind(qp);
	with_rnr = resp->absent && rd_absent(&tx, rd);
	with_ack = resp->ack_due && snic_tx_room(&tx) && !snic_rd_next(qp);
	if (with_ack)
		resp_aeth_packet(&tx, resp->ack_psn, resp->ack_syndrome, resp->msn);
	sent = snic_tx_end(&tx);
	if (sent < burst->npkts) {
		resp_unsend(qp, burst, sent, owner, i);
		return false;
	}
	if (with_rnr) {
		rd->rnr_due = false;
		snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_NAK_SENT);
	}
	if (!with_ack)
		return true;
	snic_resp_ack_sent(qp);
	if (resp->fatal)
		snic_recv_fail(qp); /* the NAK of the failed request is sent */
	return true;
}

/*
 * May responses be sent? A QP that is stalled with requests of its own may still send an
 * acknowledgement, if no READ response is due before it.
 */
static bool resp_ready(struct snic_qp *qp)
{
	return snic_qp_can_receive(qp) && !qp->resp.absent && snic_resp_pending(qp) &&
	       (!qp->tx_stalled || (snic_dev_ops(qp->dev)->room && !snic_rd_next(qp)));
}

void snic_resp_run(struct snic_qp *qp)
{
	u32 bursts = SNIC_HOLD_BURSTS;

	for (;;) {
		/* In the error state the receive WQE that waits is flushed already. */
		if (unlikely(qp->resp.inv_wait) && snic_qp_can_receive(qp))
			snic_resp_end_wait(qp);
		if (!resp_ready(qp))
			break;
		if (!bursts--) {
			snic_qp_defer(qp);
			return;
		}
		if (!resp_burst(qp))
			break;
	}
	qp->resp.owed = 0;
}
