// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requester of RC: sends SENDs, WRITEs and the requests that are answered by responses of their own
 * (READs, atomics, FLUSHes, ATOMIC WRITEs) within a window. After a
 * loss it retransmits from the oldest unacknowledged packet (go-back-N, IBTA 9.7.5.1).
 */
#include "requester.h"

#include "completer.h"
#include "one_sided.h"
#include "responder.h"
#include "retry.h"
#include "small.h"
#include "transport.h"
#include "window.h"

void snic_req_start(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	snic_send_start(qp);
	req->retry_left = qp->retry_cnt;
	req->rnr_left = qp->rnr_retry;
	req->rnr_tries = 0;
	snic_win_start(qp);
}

/* Append as many packets of the current SEND or WRITE as fit into the window and the burst. */
static enum snic_send_stop req_data(struct snic_tx *tx, const struct snic_out *out)
{
	struct snic_req *req = &tx->qp->req;
	u32 first = tx->burst->npkts, n = snic_send_room(tx, out);
	enum snic_send_stop why;

	if (!n)
		return SNIC_SEND_MORE;
	n = snic_win_burst(tx->qp, out->len, n);
	if (!n)
		return SNIC_SEND_BLOCKED;
	why = snic_send_data(tx, out, n);
	for (n = first; n < tx->burst->npkts; n++)
		snic_req_added(req, &tx->burst->pkts[n]);
	return why;
}

/* Begin the packet of the current request, which has no payload. */
static struct snic_tx_pkt *req_packet(struct snic_tx *tx, u8 opcode)
{
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	struct snic_qp *qp = tx->qp;

	snic_pkt_bth(pkt, qp->transport->bth | opcode, qp->pkey, qp->dest_qpn, qp->req.nxt, 0);
	if (qp->transport->names_srq)
		snic_pkt_xrceth(pkt, qp->req.sqe.srqn);
	return pkt;
}

/* The next request of the current READ, which may need several requests. */
static enum snic_send_stop req_read(struct snic_tx *tx, const struct snic_out *out)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	u32 first = snic_psn_fwd(req->nxt, out->psn), off = first << qp->mtu_shift, npkts, len;
	struct snic_tx_pkt *pkt;

	if (!snic_tx_room(tx))
		return SNIC_SEND_MORE;
	if (!snic_tx_ready(tx))
		return SNIC_SEND_STALLED;
	npkts = snic_reads_ask(qp, first, snic_out_pkts(qp, out) - first);
	if (!npkts)
		return SNIC_SEND_BLOCKED;
	len = min_t(u32, out->len - off, npkts << qp->mtu_shift);
	pkt = req_packet(tx, SIRDMA_BTH_READ_REQUEST);
	/*
	 * A responder must not check the key of an empty READ (IBTA C9-88). Soft-RoCE does when
	 * the request is repeated, and accepts 0 only.
	 */
	snic_pkt_reth(pkt, req->sqe.remote_va + off, len ? req->sqe.rkey : 0, len);
	req->unasked = 0; /* READ responses acknowledge all packets before them */
	req->nxt = snic_psn_add(req->nxt, npkts);
	if (off + len == out->len)
		req->cur++;
	return SNIC_SEND_NEXT;
}

/* The request of the current atomic or FLUSH, which has no payload. */
static enum snic_send_stop req_one(struct snic_tx *tx, u8 opcode)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	const struct snic_sqe *sqe = &req->sqe;
	struct snic_tx_pkt *pkt;

	if (!snic_tx_room(tx))
		return SNIC_SEND_MORE;
	if (!snic_tx_ready(tx))
		return SNIC_SEND_STALLED;
	if (!snic_reads_ask(qp, 0, 1))
		return SNIC_SEND_BLOCKED;
	pkt = req_packet(tx, opcode);
	if (opcode == SIRDMA_BTH_FLUSH) {
		snic_pkt_feth(pkt, sqe->flush.feth);
		snic_pkt_reth(pkt, sqe->remote_va, sqe->rkey, sqe->flush.len);
	} else {
		snic_pkt_atomiceth(pkt, sqe->remote_va, sqe->rkey, sqe->atomic.swap_add,
				   sqe->atomic.compare);
	}
	req->unasked = 0; /* its response acknowledges all packets before it */
	req->nxt = snic_psn_add(req->nxt, 1);
	req->cur++;
	return SNIC_SEND_NEXT;
}

/* Forget what snic_reads_ask() noted of requests from nxt on, unless the host had them before. */
static void req_unask(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 max = req->max;

	snic_reads_seek(&req->reads, req->nxt);
	if (snic_psn_fwd(req->nxt, req->una) > snic_psn_fwd(max, req->una))
		max = req->nxt;
	snic_reads_unsend(&req->reads, max);
}

static enum snic_send_stop req_atomic_write(struct snic_tx *tx, const struct snic_out *out)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	enum snic_send_stop why;
	u32 psn = req->nxt;

	if (!snic_send_room(tx, out))
		return SNIC_SEND_MORE;
	if (!snic_reads_ask(qp, 0, 1))
		return SNIC_SEND_BLOCKED;
	why = snic_send_data(tx, out, 1);
	if (req->nxt == psn)
		req_unask(qp);
	else
		req->unasked = 0; /* its response acknowledges all packets before it */
	return why;
}

/*
 * Is the message before the current one an unanswered empty READ? Soft-RoCE does not
 * answer a repeated empty READ once it has executed a later request, so no request
 * follows until the READ is answered.
 */
static bool req_behind_empty_read(struct snic_req *req)
{
	const struct snic_out *before;
	u32 slot;

	if (!req->rd_atomic_msgs)
		return false;
	for (slot = req->cur; slot != req->head; slot--) {
		before = snic_out_at(req, slot - 1);
		/* The requester does not send a NOP. */
		if (!(before->flags & SNIC_OUT_LOCAL))
			return snic_op_is_read(before->op) && !before->len;
	}
	return false;
}

/* Append packets of the message @out, which nxt belongs to. */
static enum snic_send_stop req_message(struct snic_tx *tx, const struct snic_out *out)
{
	switch (out->op) {
	case SIRDMA_OP_READ:
	case SIRDMA_OP_READ_LOC_INV:
		return req_read(tx, out);
	case SIRDMA_OP_CMP_SWAP:
		return req_one(tx, SIRDMA_BTH_CMP_SWAP);
	case SIRDMA_OP_FETCH_ADD:
		return req_one(tx, SIRDMA_BTH_FETCH_ADD);
	case SIRDMA_OP_FLUSH:
		return req_one(tx, SIRDMA_BTH_FLUSH);
	case SIRDMA_OP_ATOMIC_WRITE:
		return req_atomic_write(tx, out);
	default:
		return req_data(tx, out);
	}
}

static enum snic_send_stop req_fill(struct snic_tx *tx)
{
	struct snic_req *req = &tx->qp->req;
	enum snic_send_stop why;
	struct snic_out *out;

	do {
		why = snic_small_fill(tx);
		if (why != SNIC_SEND_NEXT)
			return why;
		out = snic_send_current(tx->qp, &why);
		if (!out)
			return why;
		if (req_behind_empty_read(req))
			return SNIC_SEND_BLOCKED;
		if (snic_op_is_rd_atomic(out->op) && !tx->qp->ord) {
			snic_send_mark_failed(tx->qp, snic_out_at(req, req->cur),
					      SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
			return SNIC_SEND_BLOCKED;
		}
		if (snic_one_sided(tx, out, &why))
			return why;
		snic_req_note(tx, out);
		if (PORT_WIRE_IN_MEMORY)
			tx->needs_ack |= req->nxt != req->max;
		why = req_message(tx, out);
	} while (why == SNIC_SEND_NEXT);
	return why;
}

/* Count retransmissions, and move max up to nxt: the host accepted all packets before nxt. */
static void req_note_sent(struct snic_qp *qp, struct snic_burst *burst, u32 sent)
{
	struct snic_req *req = &qp->req;
	u32 seen = snic_psn_fwd(req->max, req->una), again = 0;

	while (again < sent && snic_psn_fwd(snic_pkt_psn(&burst->pkts[again]), req->una) < seen)
		again++;
	if (req->repeats_last && again) {
		/* The repeated packet asks for an answer; nothing was lost. */
		req->repeats_last = false;
		again--;
	}
	if (again)
		snic_stat_add(qp->dev, SIRDMA_STAT_RETRANSMITS, again);
	if (snic_psn_fwd(req->nxt, req->una) > snic_psn_fwd(req->max, req->una))
		req->max = req->nxt;
}

/* The host accepted only @sent packets of the burst: go back to the first of the others. */
static void req_unsend(struct snic_qp *qp, struct snic_burst *burst, u32 sent)
{
	snic_send_seek(qp, snic_pkt_psn(&burst->pkts[sent]));
	req_unask(qp);
	/* The packet that asked for an answer may be among the others: take all before them as not asked for. */
	if (PORT_WIRE_IN_MEMORY)
		qp->req.unasked = snic_psn_fwd(qp->req.nxt, qp->req.una);
}

/*
 * Ask for an answer to the last packet of a burst? In general, so that the window moves on. But to a near peer
 * an acknowledgement costs as much as the answer of its program. A small WRITE without completion is
 * acknowledged with a later packet: snic_req_added() asks once in ask_after packets. If none follows, the
 * peer acknowledges in its own time, or snic_retry_expired() asks. Nothing may wait for packets of which
 * none was asked for: no message but these WRITEs, of one packet each, was fetched since @tail.
 */
static bool req_asks(const struct snic_tx *tx, u32 tail, enum snic_send_stop why)
{
	const struct snic_qp *qp = tx->qp;
	const struct snic_req *req = &qp->req;

	return !PORT_WIRE_IN_MEMORY || !qp->limits.near || tx->needs_ack || !qp->ack_timeout ||
	       req->probe || why != SNIC_SEND_EMPTY || req->tail - tail != tx->burst->npkts;
}

/* Nothing was sent. What was fetched since @tail, or is blocked, may wait for packets that were not asked for. */
static enum snic_send_stop req_nothing(struct snic_qp *qp, u32 tail, enum snic_send_stop why)
{
	const struct snic_req *req = &qp->req;

	if (!PORT_WIRE_IN_MEMORY || !req->unasked || !snic_req_in_flight(req) ||
	    (req->tail == tail && why != SNIC_SEND_BLOCKED && why != SNIC_SEND_ABSENT))
		return why;
	return snic_req_request_ack(qp) ? SNIC_SEND_MORE : why;
}

enum snic_send_stop snic_req_burst(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	const u32 tail = req->tail;
	struct snic_burst *burst;
	struct snic_tx_pkt *last;
	enum snic_send_stop why;
	struct snic_tx tx __uninitialized;
	bool with_ack;
	u32 sent;

	snic_tx_begin(&tx, qp, &qp->path, SIRDMA_ACCESS_LOCAL_READ);
	burst = tx.burst;
	why = req_fill(&tx);
	if (!burst->npkts) {
		snic_tx_end(&tx);
		return req_nothing(qp, tail, why);
	}
	last = &burst->pkts[burst->npkts - 1];
	if (req_asks(&tx, tail, why) && !(snic_op(last->bth.opcode)->flags & SNIC_PKT_RD_ATOMIC))
		snic_req_ask_ack(req, last);
	with_ack = snic_resp_ack_can_follow(qp) && snic_resp_add_ack(&tx);
	sent = snic_tx_end(&tx);
	if (with_ack) {
		if (sent == burst->npkts)
			snic_resp_ack_sent(qp);
		else
			why = SNIC_SEND_STALLED;
		burst->npkts--;
		sent = min(sent, burst->npkts);
	}
	if (sent < burst->npkts) {
		req_unsend(qp, burst, sent);
		why = SNIC_SEND_STALLED;
	}
	req_note_sent(qp, burst, sent);
	return why;
}

void snic_req_seek(struct snic_qp *qp, u32 psn)
{
	snic_send_seek(qp, psn);
	snic_reads_seek(&qp->req.reads, psn);
}

bool snic_req_request_ack(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (req->repeats_last || snic_req_was_asked(req))
		return false;
	req->repeats_last = true;
	snic_req_seek(qp, snic_psn_add(req->max, SIRDMA_PSN_MASK));
	return true;
}

void snic_req_restart(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->unasked = 0;
	req->repeats_last = false;
	req->restarted = false;
	snic_req_seek(qp, req->una);
}

/*
 * The oldest message waited for an invalidation, and answers to later ones were dropped. Returns
 * false if the QP cannot send.
 */
static bool req_end_wait(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (req->inv_wait && !snic_send_retire(qp))
		return false;
	if (req->inv_wait || !req->answers_dropped)
		return true;
	req->answers_dropped = false;
	if (!snic_comp_end_wait(qp))
		return false;
	if (snic_req_in_flight(req))
		snic_req_restart(qp);
	return true;
}

void snic_req_run(struct snic_qp *qp)
{
	bool asked = snic_req_was_asked(&qp->req), idle = !snic_req_in_flight(&qp->req);

	if (unlikely(qp->req.inv_wait || qp->req.answers_dropped) &&
	    (!snic_qp_can_send(qp) || !req_end_wait(qp)))
		return;
	/* The answer takes its time from when it was first asked for. */
	if (snic_send_run(qp) && snic_req_in_flight(&qp->req))
		snic_retry_start(qp, idle || (!asked && snic_req_was_asked(&qp->req)));
}
