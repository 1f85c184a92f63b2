// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Send queue: fetches WQEs, splits SENDs and WRITEs into packets and completes messages in order. A
 * retransmission reads the WQE from the ring again, and the application may have changed it: the
 * reload is compared with the values in snic_req.out[].
 */
#include "send.h"

#include "fast.h"
#include "key_op.h"
#include "sq_poll.h"
#include "requester.h"
#include "retry.h"
#include "transport.h"

/*
 * The number of NOPs that one fetch skips at most: each costs a read of the ring, under the QP's
 * lock.
 */
#define SEND_NOP_BATCH 256
/*
 * The number of FAST_REGs that one burst executes: each copies a page list of up to 512 entries,
 * under the QP's lock.
 */
#define SEND_FAST_REGS 8
/*
 * The least cost of a burst: its hold of the lock and its call of the host take as long as copying
 * 4 KiB.
 */
#define SEND_MIN_COST 4

void snic_send_start(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->una = qp->sq_psn;
	req->nxt = qp->sq_psn;
	req->max = qp->sq_psn;
	req->psn = qp->sq_psn;
	req->cur = req->tail;
	req->rd_atomic_msgs = 0;
	req->failed = false;
}

void snic_send_mark_failed(struct snic_qp *qp, struct snic_out *out, u16 minor, u32 vendor)
{
	out->flags |= SNIC_OUT_FAILED;
	qp->req.failed = true;
	qp->req.fail_minor = minor;
	qp->req.fail_vendor = vendor;
}

bool snic_send_reload(struct snic_qp *qp, u32 slot, struct snic_sqe *sqe)
{
	struct snic_out *out = snic_out_at(&qp->req, slot);

	if (snic_sqe_load(qp, out->idx, out->flags & SNIC_OUT_POLARITY, sqe) == SNIC_WQE_OK &&
	    sqe->op == out->op && sqe->len == out->len)
		return true;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	snic_send_mark_failed(qp, out, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	return false;
}

void snic_send_advance(struct snic_qp *qp, u32 quanta)
{
	struct snic_req *req = &qp->req;

	req->sq_idx += quanta;
	if (req->sq_idx == qp->sq_quanta) {
		req->sq_idx = 0;
		req->sq_polarity = !req->sq_polarity;
	}
}

static void send_push(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->tail++);

	out->psn = req->psn;
	out->len = sqe->len;
	out->idx = sqe->idx;
	out->op = sqe->op;
	out->flags = (u8)((sqe->signaled ? SNIC_OUT_SIGNALED : 0) |
			  (req->sq_polarity ? SNIC_OUT_POLARITY : 0));
	if (snic_op_is_local(sqe->op))
		out->flags |= SNIC_OUT_LOCAL;
	if (snic_op_invalidates(sqe->op) || sqe->op == SIRDMA_OP_BIND_MW)
		out->flags |= SNIC_OUT_TODO;
	req->rd_atomic_msgs += snic_op_is_rd_atomic(sqe->op);
	snic_send_advance(qp, sqe->quanta);
	req->psn = snic_psn_add(req->psn, snic_out_pkts(qp, out));
}

/*
 * The WQE is invalid: it completes in error once it is the oldest message, and no later message
 * starts.
 */
static void send_push_bad(struct snic_qp *qp, struct snic_sqe *sqe)
{
	sqe->len = 0;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	send_push(qp, sqe);
	snic_out_at(&qp->req, qp->req.tail - 1)->flags |= SNIC_OUT_LOCAL;
	snic_out_at(&qp->req, qp->req.tail - 1)->flags &= (u8)~SNIC_OUT_TODO;
	snic_send_mark_failed(qp, snic_out_at(&qp->req, qp->req.tail - 1), SIRDMA_FLUSH_LOC_QP_OP,
			      SIRDMA_VENDOR_LOC_QP_OP);
}

/* May this queue pair post the operation of @sqe? */
static bool send_op_allowed(const struct snic_qp *qp, const struct snic_sqe *sqe)
{
	return (qp->transport->sq_ops >> sqe->op & 1) &&
	       (sqe->op != SIRDMA_OP_FAST_REG || (qp->queue_flags & SIRDMA_QPC_FAST_REG));
}

/*
 * Put the WQE that was fetched into out[]. Fast registration is done here: later WQEs of the queue
 * may use the region, and earlier ones are done or have been sent (IBTA 10.8.3.3).
 */
static void send_push_fetched(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->tail);

	req->sqe_slot = req->tail;
	req->sqe_valid = true;
	send_push(qp, &req->sqe);
	if (req->sqe.op != SIRDMA_OP_FAST_REG)
		return;
	req->fast_regs++;
	if (!snic_fast_reg(qp, &req->sqe))
		snic_send_mark_failed(qp, out, SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
}

/*
 * Fetch the next WQE of the ring into out[]. SNIC_SEND_MORE: there is a message to send, or
 * more to fetch.
 */
static enum snic_send_stop send_fetch(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 i;

	for (i = 0; i < SEND_NOP_BATCH; i++) {
		if (qp->state != SIRDMA_QPS_RTS || req->failed ||
		    req->tail - req->head == SNIC_OUT_MSGS)
			return SNIC_SEND_BLOCKED;
		req->sqe_valid = false;
		switch (snic_sqe_load(qp, req->sq_idx, req->sq_polarity, &req->sqe)) {
		case SNIC_WQE_NONE:
			return SNIC_SEND_EMPTY;
		case SNIC_WQE_BAD:
			send_push_bad(qp, &req->sqe);
			return SNIC_SEND_BLOCKED;
		case SNIC_WQE_OK:
			break;
		}
		if (!send_op_allowed(qp, &req->sqe)) {
			send_push_bad(qp, &req->sqe);
			return SNIC_SEND_BLOCKED;
		}
		if (req->sqe.op == SIRDMA_OP_NOP && !req->sqe.signaled) {
			snic_send_advance(qp, 1);
			continue;
		}
		if (req->sqe.read_fence && req->rd_atomic_msgs)
			return SNIC_SEND_BLOCKED;
		send_push_fetched(qp);
		return SNIC_SEND_MORE;
	}
	return SNIC_SEND_MORE;
}

struct snic_out *snic_send_current(struct snic_qp *qp, enum snic_send_stop *why)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out;

	for (;;) {
		if (req->cur == req->tail) {
			*why = SNIC_SEND_MORE;
			if (req->fast_regs >= SEND_FAST_REGS)
				return NULL;
			*why = send_fetch(qp);
			if (req->cur == req->tail)
				return NULL;
		}
		out = snic_out_at(req, req->cur);
		*why = SNIC_SEND_BLOCKED;
		if (out->flags & SNIC_OUT_FAILED)
			return NULL;
		if (!(out->flags & SNIC_OUT_LOCAL))
			break;
		/* snic_send_retire() completes the message. */
		if (out->flags & SNIC_OUT_TODO)
			return NULL;
		req->cur++;
	}
	if (!req->sqe_valid || req->sqe_slot != req->cur) {
		req->sqe_valid = false;
		if (!snic_send_reload(qp, req->cur, &req->sqe))
			return NULL;
		req->sqe_slot = req->cur;
		req->sqe_valid = true;
	}
	return out;
}

enum snic_gather snic_send_gather(struct snic_tx *tx, u32 off, u32 len, u32 *got)
{
	const struct snic_sqe *sqe = &tx->qp->req.sqe;
	enum snic_gather ret = SNIC_GATHER_OK;
	enum sirdma_ae_code ae;
	u32 i, n, run;
	void *p;

	*got = 0;
	if (sqe->is_inline) {
		tx->in_ring = true;
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

/* The operation in the lower bits of the BTH opcode. */
static u8 send_opcode(const struct snic_sqe *sqe, bool first, bool last)
{
	/* Index of a packet: 1 if it is the first, plus 2 if it is the last. */
	static const u8 send[] = {SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_SEND_FIRST,
				  SIRDMA_BTH_SEND_LAST, SIRDMA_BTH_SEND_ONLY};
	static const u8 write[] = {SIRDMA_BTH_WRITE_MIDDLE, SIRDMA_BTH_WRITE_FIRST,
				   SIRDMA_BTH_WRITE_LAST, SIRDMA_BTH_WRITE_ONLY};
	u8 op = (snic_op_is_write(sqe->op) ? write : send)[first + 2 * last];

	if (sqe->op == SIRDMA_OP_ATOMIC_WRITE)
		return SIRDMA_BTH_ATOMIC_WRITE;
	if (last && snic_op_is_send_inv(sqe->op))
		return first ? SIRDMA_BTH_SEND_ONLY_INV : SIRDMA_BTH_SEND_LAST_INV;
	/* The opcode with immediate data is the next one after each LAST and ONLY opcode. */
	return (u8)(op + (last && sqe->has_imm));
}

/* The Q_Key of a datagram: a user may not choose a controlled one (IBTA 10.2.5). */
static u32 send_qkey(const struct snic_qp *qp, const struct snic_sqe *sqe)
{
	u32 qkey = snic_sqe_dest_qkey(sqe);

	return qkey & SIRDMA_QKEY_OF_QP ? qp->qkey : qkey;
}

/* The header that the transport adds. */
static void send_added_header(struct snic_tx *tx, struct snic_tx_pkt *pkt)
{
	struct snic_qp *qp = tx->qp;
	const struct snic_sqe *sqe = &qp->req.sqe;

	if (qp->transport->is_datagram)
		snic_pkt_deth(pkt, send_qkey(qp, sqe), qp->obj.id);
	else
		snic_pkt_xrceth(pkt, sqe->srqn);
}

/* Build the header of one SEND, WRITE or ATOMIC WRITE packet of @len bytes at @off. */
static void send_packet(struct snic_tx *tx, const struct snic_out *out, u32 off, u32 len)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	const struct snic_sqe *sqe = &req->sqe;
	struct snic_tx_pkt *pkt = snic_tx_packet(tx);
	bool last = off + len == out->len, datagram = qp->transport->is_datagram;

	snic_pkt_bth(pkt, qp->transport->bth | send_opcode(sqe, !off, last), qp->pkey,
		     datagram ? snic_sqe_dest_qpn(sqe) : qp->dest_qpn, req->nxt, len);
	if (qp->transport->adds_header)
		send_added_header(tx, pkt);
	if ((snic_op_is_write(sqe->op) || sqe->op == SIRDMA_OP_ATOMIC_WRITE) && !off)
		snic_pkt_reth(pkt, sqe->remote_va, sqe->rkey, out->len);
	if (last && sqe->has_imm)
		snic_pkt_imm(pkt, sqe->imm);
	if (last && snic_op_is_send_inv(sqe->op))
		snic_pkt_ieth(pkt, sqe->rkey);
	if (last && (sqe->op == SIRDMA_OP_SEND_SOL || sqe->op == SIRDMA_OP_SEND_SOL_INV ||
		     (sqe->op == SIRDMA_OP_WRITE_SOL && sqe->has_imm)))
		pkt->bth.flags |= SIRDMA_BTH_SE;
	req->nxt = snic_psn_add(req->nxt, 1);
}

enum snic_send_stop snic_send_unanswered(struct snic_tx *tx, enum snic_send_stop why)
{
	struct snic_qp *qp = tx->qp;
	u32 n = tx->burst->npkts, sent = snic_tx_end(tx);

	if (sent < n) {
		snic_send_seek(qp, snic_pkt_psn(&tx->burst->pkts[sent]));
		why = SNIC_SEND_STALLED;
	}
	qp->req.una = qp->req.nxt;
	qp->req.max = qp->req.nxt;
	return why;
}

/* Offset of nxt in its message, bytes. */
static u32 send_offset(const struct snic_qp *qp, const struct snic_out *out)
{
	return snic_psn_fwd(qp->req.nxt, out->psn) << qp->mtu_shift;
}

u32 snic_send_room(struct snic_tx *tx, const struct snic_out *out)
{
	u32 off = send_offset(tx->qp, out), n;

	if (off)
		snic_tx_continue(tx);
	n = min_t(u32, snic_tx_room(tx), snic_tx_bytes_room(tx) >> tx->qp->mtu_shift);
	return min(n, snic_qp_pkts(tx->qp, out->len - off));
}

enum snic_send_stop snic_send_data(struct snic_tx *tx, const struct snic_out *out, u32 n)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	u32 off = send_offset(qp, out), mtu = snic_qp_mtu(qp), bytes, got;
	enum snic_gather ret;

	if (!snic_tx_ready(tx))
		return SNIC_SEND_STALLED;
	bytes = min_t(u32, out->len - off, n << qp->mtu_shift);
	ret = snic_send_gather(tx, off, bytes, &got);
	if (ret == SNIC_GATHER_FAULT) {
		snic_tx_trim(tx, got);
		snic_send_mark_failed(qp, snic_out_at(req, req->cur), SIRDMA_FLUSH_PROT,
				      SIRDMA_VENDOR_LOC_PROT);
		return SNIC_SEND_BLOCKED;
	}
	if (ret != SNIC_GATHER_OK) {
		/* Send whole packets only. An empty burst has room for at least one. */
		bytes = got & ~(mtu - 1);
		snic_tx_trim(tx, got - bytes);
		if (!bytes)
			return ret == SNIC_GATHER_ABSENT ? SNIC_SEND_ABSENT : SNIC_SEND_MORE;
	}
	do {
		n = min(mtu, bytes);
		send_packet(tx, out, off, n);
		off += n;
		bytes -= n;
	} while (bytes);
	if (off == out->len)
		req->cur++;
	return ret == SNIC_GATHER_OK ? SNIC_SEND_NEXT : SNIC_SEND_MORE;
}

void snic_send_seek(struct snic_qp *qp, u32 psn)
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
		/* The search stops at a local operation that is not done yet. */
		if ((out->flags & SNIC_OUT_LOCAL) && (out->flags & SNIC_OUT_TODO))
			break;
	}
	req->cur = slot;
}

void snic_send_fail_oldest(struct snic_qp *qp, u16 minor, u32 vendor)
{
	struct snic_req *req = &qp->req;
	struct snic_out out = *snic_out_at(req, req->head);

	req->head++;
	if (snic_qp_complete_send(qp, &out, minor, vendor))
		snic_qp_fail_send(qp);
}

/* Complete the oldest message. Returns false when that fails the QP. */
static bool send_done(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	struct snic_out out = *snic_out_at(req, req->head);

	req->rd_atomic_msgs -= snic_op_is_rd_atomic(out.op);
	/*
	 * A message may be acknowledged while it waits to be retransmitted: cur must not fall
	 * behind head.
	 */
	if (req->cur == req->head)
		req->cur++;
	req->head++;
	/* The message is in no packet whose answer would make the device continue. */
	if (out.flags & SNIC_OUT_LOCAL)
		req->local_done = true;
	req->last_signaled = out.flags & SNIC_OUT_SIGNALED;
	return !(out.flags & SNIC_OUT_SIGNALED) ||
	       snic_qp_complete_send(qp, &out, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
}

/* Is there no more to do for @out than to forget it? The host may have executed it, or it may have failed. */
static bool send_is_unsignaled(const struct snic_out *out)
{
	return (out->flags & ~SNIC_OUT_POLARITY) == SNIC_OUT_UNSIGNALED;
}

/*
 * Complete the oldest messages, the first of which is unsignaled, up to one that is not. Returns
 * false if none is done.
 */
static bool send_done_unsignaled(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 slot = req->head, acked = snic_psn_fwd(req->una, snic_out_at(req, slot)->psn);
	u32 end = slot + min(req->tail - slot, acked);

	while (slot != end && send_is_unsignaled(snic_out_at(req, slot)))
		slot++;
	if (slot == req->head)
		return false;
	/* As in send_done(). */
	if (req->cur - req->head < slot - req->head)
		req->cur = slot;
	req->head = slot;
	req->last_signaled = false;
	return true;
}

bool snic_send_retire(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out;

	while (req->head != req->tail) {
		out = snic_out_at(req, req->head);
		if (send_is_unsignaled(out) && send_done_unsignaled(qp))
			continue;
		if (out->flags & SNIC_OUT_FAILED) {
			snic_send_fail_oldest(qp, req->fail_minor, req->fail_vendor);
			return false;
		}
		/*
		 * una never precedes the oldest message, so an unsigned distance suffices: it
		 * may be 2^23 packets long.
		 */
		if (!(out->flags & SNIC_OUT_LOCAL) &&
		    snic_psn_fwd(req->una, out->psn) < snic_out_pkts(qp, out))
			break;
		if (out->flags & SNIC_OUT_TODO) {
			req->inv_wait = !snic_key_op_run(qp, req->head) &&
					!(out->flags & SNIC_OUT_LOCAL);
			if (out->flags & SNIC_OUT_FAILED)
				continue;
			if (out->flags & SNIC_OUT_TODO)
				break;
		}
		if (!send_done(qp))
			return false;
	}
	snic_qp_check_drained(qp);
	return snic_qp_can_send(qp);
}

static void send_wake(struct snic_qp *qp)
{
	if (qp->req.awake)
		return;
	qp->req.awake = true;
	if (qp->queue_flags & SIRDMA_QPC_KICK)
		WRITE_ONCE(qp->shadow->need_kick, 0);
}

/*
 * The ring is empty: ask for a kick. Returns false when a WQE became valid meanwhile. No kick is
 * needed while enough messages are in flight, since their answers, of which one was asked for, or at
 * last the ACK timer, make the device read the ring again; nor while the poll timer runs.
 */
static bool send_sleep(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!req->awake && req->sq_published == req->sq_idx)
		return true; /* the shadow said so before the ring was found empty */
	/*
	 * A poster that does not read need_kick compares the index that the device will read next
	 * with its own.
	 */
	req->sq_published = req->sq_idx;
	WRITE_ONCE(qp->shadow->sq_tail, cpu_to_le64(req->sq_idx));
	if ((qp->ack_timeout && req->tail - req->head >= SNIC_AWAKE_MSGS &&
	     snic_req_was_asked(req)) ||
	    snic_sq_poll_stay(qp)) {
		send_wake(qp);
		return true;
	}
	if (req->awake && (qp->queue_flags & SIRDMA_QPC_KICK))
		WRITE_ONCE(qp->shadow->need_kick, cpu_to_le64(1));
	req->awake = false;
	smp_mb(); /* this barrier pairs with the poster's fence between valid bit and shadow */
	return !snic_sqe_peek(qp, req->sq_idx, req->sq_polarity);
}

/*
 * The cost of a burst in the budget, in packets of 1 KiB. Datagrams to many addresses make bursts
 * of one packet, so a burst of datagrams counts by its size, and as SEND_MIN_COST at least.
 * SEND_MIN_COST does not change the rate of datagrams (1 to 16 tried), only how soon other queue
 * pairs get their share.
 */
static u32 send_cost(const struct snic_qp *qp, u32 before)
{
	u32 pkts = snic_psn_fwd(qp->req.nxt, before);

	if (!qp->transport->is_datagram)
		return SNIC_BURST_PKTS;
	return max_t(u32, pkts * max_t(u32, snic_qp_mtu(qp) / 1024, 1), SEND_MIN_COST);
}

bool snic_send_run(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 left = SNIC_HOLD_BURSTS * SNIC_BURST_PKTS, before;
	enum snic_send_stop why;

	if (!snic_qp_can_send(qp) || req->wait != SNIC_WAIT_NONE || qp->tx_stalled)
		return false;
	do {
		before = req->nxt;
		req->local_done = false;
		req->fast_regs = 0;
		why = snic_transport_call(qp, burst, qp);
		/* Failed and local messages complete once they are the oldest. */
		if (!snic_send_retire(qp))
			return false;
		if (why == SNIC_SEND_BLOCKED && req->local_done)
			why = SNIC_SEND_MORE;
		if (why == SNIC_SEND_EMPTY) {
			if (send_sleep(qp))
				break;
			why = SNIC_SEND_MORE;
		}
		send_wake(qp);
		left -= min(left, send_cost(qp, before));
	} while (why == SNIC_SEND_MORE && left);
	if (why == SNIC_SEND_MORE)
		snic_qp_defer(qp);
	/*
	 * While packets are in flight their answers, or the ACK timer, start the next attempt. When
	 * nxt is una, no packets are in flight: wait for the memory.
	 */
	if (why == SNIC_SEND_ABSENT && req->nxt == req->una)
		return snic_retry_absent(qp);
	return true;
}
