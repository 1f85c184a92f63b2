// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requester: fetches send WQEs, cuts them into packets and sends bursts within
 * a window. Lost packets are sent again from the oldest one (go-back-N, IBTA
 * 9.7.5.1); WQEs are then read again from the ring, whose owner may have changed
 * them: what was sent is remembered in snic_req.out[] and compared.
 */
#include "requester.h"

#include "completer.h"
#include "lookout.h"
#include "retry.h"
#include "window.h"
#include "xmit.h"

/* Why filling a burst ended. */
enum req_stop {
	REQ_NEXT, /* it has not: take the next message */
	REQ_MORE, /* the burst is full */
	REQ_EMPTY, /* no WQE left */
	REQ_BLOCKED, /* an answer must come first */
	REQ_STALLED, /* the host has no room */
};

/* NOPs skipped in one go. */
#define REQ_NOP_BATCH 256

void snic_req_start(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->una = qp->sq_psn;
	req->nxt = qp->sq_psn;
	req->max = qp->sq_psn;
	req->psn = qp->sq_psn;
	req->retry_left = qp->retry_cnt;
	req->rnr_left = qp->rnr_retry;
	req->rnr_tries = 0;
	snic_win_start(qp);
}

void snic_req_mark_failed(struct snic_qp *qp, struct snic_out *out, u16 minor, u32 vendor)
{
	out->flags |= SNIC_OUT_FAILED;
	qp->req.failed = true;
	qp->req.fail_minor = minor;
	qp->req.fail_vendor = vendor;
}

bool snic_req_reload(struct snic_qp *qp, u32 slot, struct snic_sqe *sqe)
{
	struct snic_out *out = snic_out_at(&qp->req, slot);

	if (snic_sqe_load(qp, out->idx, out->flags & SNIC_OUT_POLARITY, sqe) == SNIC_WQE_OK &&
	    sqe->op == out->op && sqe->len == out->len)
		return true;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	snic_req_mark_failed(qp, out, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	return false;
}

static void req_advance_sq(struct snic_qp *qp, u32 quanta)
{
	struct snic_req *req = &qp->req;

	req->sq_idx += quanta;
	if (req->sq_idx == qp->sq_quanta) {
		req->sq_idx = 0;
		req->sq_polarity = !req->sq_polarity;
	}
}

static void req_push(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->tail++);

	out->psn = req->psn;
	out->len = sqe->len;
	out->idx = sqe->idx;
	out->op = sqe->op;
	out->flags = (u8)((sqe->signaled ? SNIC_OUT_SIGNALED : 0) |
			  (req->sq_polarity ? SNIC_OUT_POLARITY : 0));
	if (sqe->op == SIRDMA_OP_NOP)
		out->flags |= SNIC_OUT_LOCAL;
	req->read_msgs += snic_op_is_read(sqe->op);
	req_advance_sq(qp, sqe->quanta);
	req->psn = snic_psn_add(req->psn, snic_out_pkts(qp, out));
}

/* The ring holds garbage: it fails in its turn and nothing behind it starts. */
static void req_push_bad(struct snic_qp *qp, struct snic_sqe *sqe)
{
	sqe->len = 0;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	req_push(qp, sqe);
	snic_out_at(&qp->req, qp->req.tail - 1)->flags |= SNIC_OUT_LOCAL;
	snic_req_mark_failed(qp, snic_out_at(&qp->req, qp->req.tail - 1), SIRDMA_FLUSH_LOC_QP_OP,
			     SIRDMA_VENDOR_LOC_QP_OP);
}

/* Take the next WQE of the ring into out[]; REQ_MORE when there is one to work on. */
static enum req_stop req_fetch(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 i;

	for (i = 0; i < REQ_NOP_BATCH; i++) {
		if (qp->state != SIRDMA_QPS_RTS || req->failed ||
		    req->tail - req->head == SNIC_OUT_MSGS)
			return REQ_BLOCKED;
		req->sqe_valid = false;
		switch (snic_sqe_load(qp, req->sq_idx, req->sq_polarity, &req->sqe)) {
		case SNIC_WQE_NONE:
			return REQ_EMPTY;
		case SNIC_WQE_BAD:
			req_push_bad(qp, &req->sqe);
			return REQ_BLOCKED;
		case SNIC_WQE_OK:
			break;
		}
		if (req->sqe.op == SIRDMA_OP_NOP && !req->sqe.signaled) {
			req_advance_sq(qp, 1);
			continue;
		}
		if (req->sqe.read_fence && req->read_msgs)
			return REQ_BLOCKED;
		req->sqe_slot = req->tail;
		req->sqe_valid = true;
		req_push(qp, &req->sqe);
		return REQ_MORE;
	}
	return REQ_MORE;
}

/* The message nxt lies in, its WQE decoded in req->sqe. NULL: *why not. */
static struct snic_out *req_current(struct snic_qp *qp, enum req_stop *why)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out;

	for (;;) {
		if (req->cur == req->tail) {
			*why = req_fetch(qp);
			if (req->cur == req->tail)
				return NULL;
		}
		out = snic_out_at(req, req->cur);
		*why = REQ_BLOCKED;
		if (out->flags & SNIC_OUT_FAILED)
			return NULL;
		if (!(out->flags & SNIC_OUT_LOCAL))
			break;
		req->cur++;
	}
	if (!req->sqe_valid || req->sqe_slot != req->cur) {
		req->sqe_valid = false;
		if (!snic_req_reload(qp, req->cur, &req->sqe))
			return NULL;
		req->sqe_slot = req->cur;
		req->sqe_valid = true;
	}
	return out;
}

/* Payload [off, off + len) of the current WQE into the burst; *got of it. */
static enum snic_gather req_gather(struct snic_tx *tx, u32 off, u32 len, u32 *got)
{
	const struct snic_sqe *sqe = &tx->qp->req.sqe;
	enum snic_gather ret = SNIC_GATHER_OK;
	enum sirdma_ae_code ae;
	u32 i, n, run;
	void *p;

	*got = 0;
	if (sqe->is_inline) {
		for (; *got < len; *got += run) {
			p = snic_sqe_inline_ptr(tx->qp, sqe, off + *got, len - *got, &run);
			if (!p)
				return SNIC_GATHER_FAULT;
			if (!snic_tx_seg(tx, p, run))
				return SNIC_GATHER_FULL;
		}
		return SNIC_GATHER_OK;
	}
	for (i = 0; i < sqe->nsge && *got < len && ret == SNIC_GATHER_OK; i++) {
		if (off >= sqe->sge[i].len) {
			off -= sqe->sge[i].len;
			continue;
		}
		n = min(sqe->sge[i].len - off, len - *got);
		ret = snic_tx_region(tx, sqe->sge[i].stag, sqe->sge[i].addr + off, n, &run, &ae);
		*got += run;
		off = 0;
	}
	return ret;
}

static u8 req_opcode(const struct snic_sqe *sqe, bool first, bool last)
{
	/* By message kind: middle, first, last, only. */
	static const u8 send[] = {SIRDMA_RC_SEND_MIDDLE, SIRDMA_RC_SEND_FIRST, SIRDMA_RC_SEND_LAST,
				  SIRDMA_RC_SEND_ONLY};
	static const u8 write[] = {SIRDMA_RC_WRITE_MIDDLE, SIRDMA_RC_WRITE_FIRST,
				   SIRDMA_RC_WRITE_LAST, SIRDMA_RC_WRITE_ONLY};
	bool is_write = sqe->op == SIRDMA_OP_WRITE || sqe->op == SIRDMA_OP_WRITE_SOL;
	u8 op = (is_write ? write : send)[first + 2 * last];

	/* The form with immediate data follows each LAST and ONLY opcode. */
	return (u8)(op + (last && sqe->has_imm));
}

static void req_ask_ack(struct snic_req *req, struct snic_tx_pkt *pkt)
{
	snic_pkt_set_ackreq(pkt);
	req->unasked = 0;
}

/* Header of one SEND or WRITE packet of @len bytes at @off. */
static void req_data_packet(struct snic_tx *tx, const struct snic_out *out, u32 off, u32 len)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	const struct snic_sqe *sqe = &req->sqe;
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	bool is_write = sqe->op == SIRDMA_OP_WRITE || sqe->op == SIRDMA_OP_WRITE_SOL;
	bool last = off + len == out->len;

	snic_pkt_bth(pkt, req_opcode(sqe, !off, last), qp->pkey, qp->dest_qpn, req->nxt, len);
	if (is_write && !off)
		snic_pkt_reth(pkt, sqe->remote_va, sqe->rkey, out->len);
	if (last && sqe->has_imm)
		snic_pkt_imm(pkt, sqe->imm);
	if (last &&
	    (sqe->op == SIRDMA_OP_SEND_SOL || (sqe->op == SIRDMA_OP_WRITE_SOL && sqe->has_imm)))
		pkt->bth.flags |= SIRDMA_BTH_SE;
	if (++req->unasked >= min_t(u32, SNIC_ACKREQ_PKTS, max_t(u32, req->cwnd / 4, 1)))
		req_ask_ack(req, pkt);
	req->nxt = snic_psn_add(req->nxt, 1);
}

/* As many packets of the current SEND or WRITE as window and burst take. */
static enum req_stop req_data(struct snic_tx *tx, const struct snic_out *out)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	u32 off = snic_psn_fwd(req->nxt, out->psn) << qp->mtu_shift;
	u32 mtu = snic_qp_mtu(qp), n, bytes, got;
	enum snic_gather ret;

	if (off)
		snic_tx_continue(tx);
	n = min_t(u32, snic_tx_room(tx), snic_tx_bytes_room(tx) >> qp->mtu_shift);
	if (!n)
		return REQ_MORE;
	n = snic_win_burst(qp, out->len, min(n, snic_qp_pkts(qp, out->len - off)));
	if (!n)
		return REQ_BLOCKED;
	bytes = min_t(u32, out->len - off, n << qp->mtu_shift);
	ret = req_gather(tx, off, bytes, &got);
	if (ret == SNIC_GATHER_FAULT) {
		snic_tx_trim(tx, got);
		snic_req_mark_failed(qp, snic_out_at(req, req->cur), SIRDMA_FLUSH_PROT,
				     SIRDMA_VENDOR_LOC_PROT);
		return REQ_BLOCKED;
	}
	if (ret == SNIC_GATHER_FULL) {
		/* Whole packets only; at least one fits an empty burst. */
		bytes = got & ~(mtu - 1);
		snic_tx_trim(tx, got - bytes);
		if (!bytes)
			return REQ_MORE;
	}
	do {
		n = min(mtu, bytes);
		req_data_packet(tx, out, off, n);
		off += n;
		bytes -= n;
	} while (bytes);
	if (off == out->len)
		req->cur++;
	return ret == SNIC_GATHER_FULL ? REQ_MORE : REQ_NEXT;
}

/* The next piece of the current READ. */
static enum req_stop req_read(struct snic_tx *tx, const struct snic_out *out)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	u32 first = snic_psn_fwd(req->nxt, out->psn), off = first << qp->mtu_shift, npkts, len;
	struct snic_tx_pkt *pkt;

	if (!snic_tx_room(tx))
		return REQ_MORE;
	npkts = snic_reads_ask(qp, first, snic_out_pkts(qp, out) - first);
	if (!npkts)
		return REQ_BLOCKED;
	len = min_t(u32, out->len - off, npkts << qp->mtu_shift);
	pkt = snic_tx_packet(tx);
	snic_pkt_bth(pkt, SIRDMA_RC_READ_REQUEST, qp->pkey, qp->dest_qpn, req->nxt, 0);
	/* Nobody looks at the key of an empty READ (IBTA C9-88), but soft-RoCE does when it is repeated: it wants 0. */
	snic_pkt_reth(pkt, req->sqe.remote_va + off, len ? req->sqe.rkey : 0, len);
	req->unasked = 0; /* its responses acknowledge what went before */
	req->nxt = snic_psn_add(req->nxt, npkts);
	if (off + len == out->len)
		req->cur++;
	return REQ_NEXT;
}

/*
 * Is the message before the current one an empty READ that is not answered?
 * Soft-RoCE refuses to repeat it once it has served anything else, so nothing is
 * sent behind it.
 */
static bool req_behind_empty_read(struct snic_req *req)
{
	const struct snic_out *before;

	if (!req->read_msgs || req->cur == req->head)
		return false;
	before = snic_out_at(req, req->cur - 1);
	return snic_op_is_read(before->op) && !before->len;
}

static enum req_stop req_fill(struct snic_tx *tx)
{
	struct snic_req *req = &tx->qp->req;
	const struct snic_out *out;
	enum req_stop why;

	do {
		out = req_current(tx->qp, &why);
		if (!out)
			return why;
		if (req_behind_empty_read(req))
			return REQ_BLOCKED;
		if (snic_op_is_read(out->op) && !tx->qp->ord) {
			snic_req_mark_failed(tx->qp, snic_out_at(req, req->cur),
					     SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
			return REQ_BLOCKED;
		}
		why = snic_op_is_read(out->op) ? req_read(tx, out) : req_data(tx, out);
	} while (why == REQ_NEXT);
	return why;
}

/* max follows nxt, but never beyond what was handed to the host. */
static void req_note_sent(struct snic_qp *qp, struct snic_burst *burst, u32 sent)
{
	struct snic_req *req = &qp->req;
	u32 seen = snic_psn_fwd(req->max, req->una), again = 0;

	while (again < sent && snic_psn_fwd(snic_pkt_psn(&burst->pkts[again]), req->una) < seen)
		again++;
	if (again)
		snic_stat_add(qp->dev, SIRDMA_STAT_RETRANSMITS, again);
	if (snic_psn_fwd(req->nxt, req->una) > snic_psn_fwd(req->max, req->una))
		req->max = req->nxt;
}

/* The host took only @sent packets of the burst: the others were not sent. */
static void req_unsend(struct snic_qp *qp, struct snic_burst *burst, u32 sent)
{
	struct snic_req *req = &qp->req;
	u32 max = req->max;

	snic_req_seek(qp, snic_pkt_psn(&burst->pkts[sent]));
	if (snic_psn_fwd(req->nxt, req->una) > snic_psn_fwd(max, req->una))
		max = req->nxt;
	snic_reads_unsend(&req->reads, max);
}

static enum req_stop req_burst(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	struct snic_burst *burst;
	struct snic_tx_pkt *last;
	enum req_stop why;
	struct snic_tx tx;
	u32 sent;

	/* Local reading is always granted (IBTA 10.6.3.1). */
	snic_tx_begin(&tx, qp, 0);
	burst = tx.burst;
	why = req_fill(&tx);
	if (!burst->npkts) {
		snic_tx_end(&tx);
		return why;
	}
	/* Whatever ends a burst is answered, so the window moves on. */
	last = &burst->pkts[burst->npkts - 1];
	if (last->bth.opcode != SIRDMA_RC_READ_REQUEST)
		req_ask_ack(req, last);
	sent = snic_tx_end(&tx);
	if (sent < burst->npkts) {
		req_unsend(qp, burst, sent);
		why = REQ_STALLED;
	}
	req_note_sent(qp, burst, sent);
	return why;
}

void snic_req_seek(struct snic_qp *qp, u32 psn)
{
	struct snic_req *req = &qp->req;
	u32 dist = snic_psn_fwd(psn, req->una);
	const struct snic_out *out;
	u32 slot, end;

	req->nxt = psn;
	for (slot = req->head; slot != req->tail; slot++) {
		out = snic_out_at(req, slot);
		end = snic_psn_add(out->psn, snic_out_pkts(qp, out));
		if (snic_psn_fwd(end, req->una) > dist)
			break;
	}
	req->cur = slot;
	snic_reads_seek(&req->reads, psn);
}

void snic_req_restart(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->unasked = 0;
	req->restarted = false;
	snic_req_seek(qp, req->una);
}

static void req_wake(struct snic_qp *qp)
{
	if (qp->req.awake)
		return;
	qp->req.awake = true;
	if (qp->queue_flags & SIRDMA_QPC_KICK)
		WRITE_ONCE(qp->shadow->need_kick, 0);
}

/*
 * Nothing to fetch: ask to be kicked. False when a WQE became valid meanwhile.
 * With enough in flight the answers make the device look again, at the latest
 * the ACK timer, and posters are spared the kick; so they are while the lookout
 * keeps looking.
 */
static bool req_sleep(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!req->awake && req->sq_shown == req->sq_idx)
		return true; /* said so before the ring was found empty */
	/* What a poster without need_kick words goes by: where the device looks next. */
	req->sq_shown = req->sq_idx;
	WRITE_ONCE(qp->shadow->sq_tail, cpu_to_le64(req->sq_idx));
	if ((qp->ack_timeout && req->tail - req->head >= SNIC_AWAKE_MSGS) ||
	    snic_lookout_stay(qp)) {
		req_wake(qp);
		return true;
	}
	if (req->awake && (qp->queue_flags & SIRDMA_QPC_KICK))
		WRITE_ONCE(qp->shadow->need_kick, cpu_to_le64(1));
	req->awake = false;
	smp_mb(); /* pairs with the poster's fence between valid bit and shadow */
	return !snic_sqe_peek(qp, req->sq_idx, req->sq_polarity);
}

void snic_req_run(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	bool idle = !snic_req_in_flight(req);
	u32 turns = SNIC_RUN_BURSTS;
	enum req_stop why;

	if (!snic_qp_can_send(qp) || req->rnr_wait || qp->tx_stalled)
		return;
	do {
		why = req_burst(qp);
		/* Failed and local messages may be the oldest by now. */
		if (!snic_comp_retire(qp))
			return;
		if (why == REQ_EMPTY) {
			if (req_sleep(qp))
				break;
			why = REQ_MORE;
		}
		req_wake(qp);
	} while (why == REQ_MORE && --turns);
	if (why == REQ_MORE)
		snic_qp_defer(qp);
	if (snic_req_in_flight(req))
		snic_retry_start(qp, idle);
}
