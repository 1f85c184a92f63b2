// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: deferred work, completions, and flushing in the error states. */
#include "qp.h"

#include "sirdma/cqp.h"
#include "sq_poll.h"
#include "responder.h"
#include "retry.h"
#include "send.h"
#include "transport.h"
#include "window.h"
#include "xrc.h"

struct snic_qp *snic_qp_get(struct snic_dev *dev, u32 qpn)
{
	struct snic_obj *obj = snic_table_get(&dev->qps, qpn);

	return obj ? container_of(obj, struct snic_qp, obj) : NULL;
}

void snic_qp_defer(struct snic_qp *qp)
{
	if (qp->in_run) {
		qp->run_again = true;
		return;
	}
	if (qp->deferred)
		return;
	qp->deferred = true;
	snic_dev_ops(qp->dev)->defer(qp->dev->host, qp->obj.id, false);
}

/* Background work is deferred separately, so that other work does not wait for it. */
static void qp_defer_flush(struct snic_qp *qp)
{
	if (qp->flush_deferred)
		return;
	qp->flush_deferred = true;
	snic_dev_ops(qp->dev)->defer(qp->dev->host, qp->obj.id, true);
}

/* Were the last messages small ones? The next one is then likely to be. */
static bool qp_posts_small(const struct snic_qp *qp)
{
	const struct snic_req *req = &qp->req;

	return req->out[(req->tail - 1) % SNIC_OUT_MSGS].len <= SNIC_WIN_SMALL;
}

void snic_qp_advance(struct snic_qp *qp)
{
	bool follows;

	if (qp->state == SIRDMA_QPS_ERR || qp->state == SIRDMA_QPS_SQE)
		snic_qp_flush(qp);
	if (qp->state == SIRDMA_QPS_ERR)
		return;
	if (qp->timer_due) {
		qp->timer_due = false;
		qp->timer_armed = false;
		snic_transport_call(qp, timer_expired, qp);
	}
	follows = snic_resp_ack_can_follow(qp) && qp_posts_small(qp);
	/* Respond first: the peer waits for the answers before it sends more. */
	if (!follows && snic_transport_op(qp, respond))
		snic_transport_call(qp, respond, qp);
	qp->ack_follows = follows;
	snic_transport_call(qp, request, qp);
	qp->ack_follows = false;
	if (follows)
		snic_transport_call(qp, respond, qp);
}

/*
 * Do the work of one hold of the lock. Returns true if there is more, and the caller takes the lock
 * again.
 */
static bool qp_run_hold(struct snic_qp *qp, bool last)
{
	qp->in_run = !last;
	qp->run_again = false;
	snic_qp_advance(qp);
	qp->in_run = false;
	return qp->run_again;
}

void snic_qp_ring(struct snic_dev *dev, u32 qpn)
{
	struct snic_obj *obj;

	port_rcu_read_lock();
	obj = snic_table_at(&dev->qps, qpn);
	if (obj) {
		/*
		 * This barrier pairs with qp_take(): the thread that clears the flag sees all posts
		 * before the doorbell.
		 */
		smp_mb();
		WRITE_ONCE(container_of(obj, struct snic_qp, obj)->rung, true);
	}
	port_rcu_read_unlock();
}

/* Clear a flag that is set without the lock. Returns whether it was set. */
static bool qp_take(bool *flag)
{
	if (!READ_ONCE(*flag))
		return false;
	WRITE_ONCE(*flag, false);
	smp_mb(); /* pairs with the barrier before the flag is set */
	return true;
}

static void qp_doorbell(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_KICKS);
	snic_sq_poll_kicked(qp);
	/* The driver also kicks the QP when absent memory is present again. */
	snic_retry_end_absent(qp);
	qp->resp.absent = false;
}

/* Consumes the reference to @qp. */
static void qp_run(struct snic_qp *qp, bool rung)
{
	u32 holds = SNIC_RUN_HOLDS;
	bool more, drained;

	port_lock(&qp->lock);
	rung |= qp_take(&qp->rung);
	drained = qp_take(&qp->inv_drained);
	if (rung) {
		qp_doorbell(qp);
	} else if (!drained && !qp->deferred && !qp->flush_deferred) {
		/* A kick, or another run, has done the work. */
		port_unlock(&qp->lock);
		snic_qp_put(qp);
		return;
	}
	qp->deferred = false;
	qp->flush_deferred = false;
	do {
		more = qp_run_hold(qp, !--holds);
		port_unlock(&qp->lock);
		if (more)
			port_lock(&qp->lock);
	} while (more);
	snic_qp_put(qp);
}

void snic_qp_kick(struct snic_dev *dev, u32 qpn)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);

	if (qp)
		qp_run(qp, true);
}

bool snic_qp_kick_by(struct snic_dev *dev, u32 qpn, u32 kicker)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);

	if (!qp)
		return false;
	/* The number 0 is no context's. */
	if (qp->kicker != kicker || !kicker) {
		snic_qp_put(qp);
		return false;
	}
	qp_run(qp, true);
	return true;
}

bool snic_qp_takes_turns(struct snic_dev *dev, u32 qpn)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);
	bool turn;

	if (!qp)
		return false;
	port_lock(&qp->lock);
	turn = qp->resp.msn == snic_psn_add(qp->turn_msn, 1);
	qp->turn_msn = qp->resp.msn;
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	return turn;
}

void snic_qp_run(struct snic_dev *dev, u32 qpn)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);

	if (qp)
		qp_run(qp, false);
}

void snic_qp_acknowledge(struct snic_dev *dev, u32 qpn)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);

	if (!qp)
		return;
	port_lock(&qp->lock);
	qp->resp.lingers = false;
	snic_resp_end_linger(qp);
	if (snic_transport_op(qp, respond))
		snic_transport_call(qp, respond, qp);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
}

void snic_tx_resume(struct snic_dev *dev, u32 qpn)
{
	struct snic_qp *qp = snic_qp_get(dev, qpn);

	if (!qp)
		return;
	port_lock(&qp->lock);
	qp->tx_stalled = false;
	snic_qp_advance(qp);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
}

/*
 * Timers of thousands of QPs may fire together, and the timer context has no budget: leave
 * the work to the bottom half, which has one.
 */
static void qp_timer(struct port_timer *timer)
{
	struct snic_qp *qp = container_of(timer, struct snic_qp, timer);

	port_lock(&qp->lock);
	qp->timer_armed = false;
	if (qp->resp.absent && snic_qp_can_receive(qp)) {
		qp->resp.absent = false; /* snic_retry_ask_again() */
		snic_qp_defer(qp);
	}
	if (snic_transport_op(qp, timer_due) && snic_transport_call(qp, timer_due, qp)) {
		qp->timer_armed = true;
		qp->timer_due = true;
		snic_qp_defer(qp);
	}
	port_unlock(&qp->lock);
}

void snic_qp_timer_init(struct snic_qp *qp)
{
	port_timer_init(&qp->timer, qp->dev->clock, qp_timer);
}

static void qp_timer_stop(struct snic_qp *qp)
{
	port_timer_cancel(&qp->timer);
	qp->timer_armed = false;
	qp->timer_due = false;
}

void snic_qp_reset(struct snic_qp *qp)
{
	qp_timer_stop(qp);
	snic_sq_poll_stop(qp);
	snic_qp_finish_references(qp);
	if (qp->srq)
		snic_srq_leave(qp->srq, &qp->srq_share);
	qp->sqd_event = false;
	qp->last_wqe_raised = false;
	memset(&qp->asks, 0, sizeof(qp->asks));
	qp->state = SIRDMA_QPS_RESET;
	memset(&qp->req, 0, sizeof(qp->req));
	memset(&qp->resp, 0, sizeof(qp->resp));
	qp->limits = (struct snic_limits){0};
	qp->req.sq_polarity = true;
	snic_rq_reset(&qp->own_rq);
	/* A post before RTS needs no kick: the change to RTS reads the ring. */
	qp->req.awake = true;
	WRITE_ONCE(qp->shadow->sq_tail, 0);
	WRITE_ONCE(qp->shadow->need_kick, 0);
	WRITE_ONCE(qp->shadow->rq_need_kick, 0);
}

static bool qp_complete(struct snic_qp *qp, struct snic_cq *cq, struct snic_completion *c)
{
	c->qpn = qp->obj.id;
	if (snic_cq_post(qp->dev, cq, c))
		return true;
	/* The CQ lost the completion: the QP cannot continue. */
	snic_qp_fail(qp, SIRDMA_AE_QP_CATASTROPHIC, SIRDMA_AE_SRC_CQ);
	return false;
}

bool snic_qp_complete_send(struct snic_qp *qp, const struct snic_out *out, u16 minor, u32 vendor)
{
	struct snic_completion c = {
		.compl_ctx = qp->compl_ctx,
		.is_sq = true,
		.wqe_idx = out->idx,
		.op = out->op,
		.len = out->len,
		.major = minor ? SIRDMA_CQE_MAJ_FLUSH : SIRDMA_CQE_MAJ_NONE,
		.minor = minor,
		.vendor_err = vendor,
		.solicited = minor != 0,
	};

	/* The peer does not know of a local error and may still read the payload. */
	if (minor)
		snic_qp_finish_requests(qp);
	return qp_complete(qp, qp->send_cq, &c);
}

bool snic_qp_complete_recv(struct snic_qp *qp, struct snic_completion *c)
{
	if (unlikely(!qp->recv_cq))
		return snic_xrc_complete(qp, c);
	c->is_shared = qp->srq;
	c->compl_ctx = qp->srq ? qp->resp.rqe.wr_id : qp->compl_ctx;
	return qp_complete(qp, qp->recv_cq, c);
}

void snic_qp_fail(struct snic_qp *qp, enum sirdma_ae_code ae, enum sirdma_ae_source src)
{
	if (qp->state == SIRDMA_QPS_ERR)
		return;
	/* The peer must not repeat a request that was executed. */
	if (unlikely(qp->ack_follows)) {
		qp->ack_follows = false;
		snic_transport_call(qp, respond, qp);
	}
	qp->state = SIRDMA_QPS_ERR;
	if (PORT_WIRE_IN_MEMORY && snic_dev_ops(qp->dev)->qp_failed)
		snic_dev_ops(qp->dev)->qp_failed(qp->dev->host, qp->obj.id);
	/*
	 * Before the application can be told. A responder that has refused a request leaves its answers to
	 * requests before that to the peer, which may have them.
	 */
	if (qp->resp.fatal)
		snic_qp_finish_kept(qp, SNIC_REQUESTER);
	else
		snic_qp_finish_references(qp);
	qp_timer_stop(qp);
	snic_sq_poll_stop(qp);
	qp->req.wait = SNIC_WAIT_NONE;
	if (ae != SIRDMA_AE_NONE)
		snic_aeq_post(qp->dev, &qp->async, ae, src, 0, SIRDMA_QPS_ERR);
	snic_qp_flush(qp);
}

void snic_qp_fail_send(struct snic_qp *qp)
{
	if (!qp->transport->has_sqe) {
		snic_qp_fail(qp, SIRDMA_AE_NONE, SIRDMA_AE_SRC_SQ);
		return;
	}
	qp->state = SIRDMA_QPS_SQE;
	qp->flush_left = 0;
	/* When the QP returns to RTS, it continues to send here. */
	qp->sq_psn = qp->req.nxt;
	snic_sq_poll_stop(qp);
	snic_qp_flush(qp);
}

/* Flush one send WQE. Returns false when there is none, or when the CQ is dead. */
static bool flush_next_send(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	struct snic_out out = {0};

	if (snic_cq_dead(qp->send_cq))
		return false;
	if (req->head != req->tail) {
		out = *snic_out_at(req, req->head++);
	} else {
		if (snic_sqe_load(qp, req->sq_idx, req->sq_polarity, &req->sqe) == SNIC_WQE_NONE)
			return false;
		out.idx = req->sqe.idx;
		out.op = req->sqe.op;
		snic_send_advance(qp, req->sqe.quanta);
	}
	if (out.op != SIRDMA_OP_NOP)
		snic_qp_complete_send(qp, &out, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	return true;
}

bool snic_qp_fail_recv(struct snic_qp *qp, u16 minor, u32 vendor)
{
	struct snic_completion c = {
		.wqe_idx = qp->resp.rqe.idx,
		.op = SIRDMA_BTH_SEND_ONLY,
		.major = SIRDMA_CQE_MAJ_FLUSH,
		.minor = minor,
		.vendor_err = vendor,
		.solicited = true,
	};

	qp->resp.rqe_valid = false;
	return snic_qp_complete_recv(qp, &c);
}

static bool flush_next_recv(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	/* In SQE the receive queue still works. */
	if (qp->state == SIRDMA_QPS_SQE || snic_cq_dead(qp->recv_cq))
		return false;
	/* WQEs in a shared queue do not belong to this QP. */
	if (!resp->rqe_valid &&
	    (qp->srq || snic_rq_fetch(&qp->own_rq, &resp->rqe) == SNIC_WQE_NONE))
		return false;
	snic_qp_fail_recv(qp, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	return true;
}

/*
 * In the error state the QP fetches no WQE from the shared queue any more: after this event
 * the application may destroy the QP (IBTA, Last WQE Reached).
 */
static void qp_last_wqe(struct snic_qp *qp)
{
	if (!(qp->srq || qp->xrc) || qp->last_wqe_raised || qp->state != SIRDMA_QPS_ERR)
		return;
	qp->last_wqe_raised = true;
	if (qp->srq)
		snic_srq_leave(qp->srq, &qp->srq_share);
	snic_aeq_post(qp->dev, &qp->async, SIRDMA_AE_LAST_WQE_REACHED, SIRDMA_AE_SRC_RQ, 0,
		      SIRDMA_QPS_ERR);
}

/* Are there posted WQEs that the QP can flush? */
static bool flush_has_work(struct snic_qp *qp)
{
	return (!snic_cq_dead(qp->send_cq) &&
		snic_sqe_peek(qp, qp->req.sq_idx, qp->req.sq_polarity)) ||
	       (qp->state != SIRDMA_QPS_SQE && !snic_cq_dead(qp->recv_cq) && !qp->srq &&
		snic_rq_has(&qp->own_rq, 0));
}

/* A target has no send queue, and one receive WQE at most. */
static void flush_target(struct snic_qp *qp)
{
	if (qp->resp.rqe_valid)
		snic_qp_fail_recv(qp, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	qp_last_wqe(qp);
}

void snic_qp_flush(struct snic_qp *qp)
{
	u32 budget = SNIC_FLUSH_BATCH;

	if (qp->xrc) {
		flush_target(qp);
		return;
	}

	do {
		while (budget && flush_next_send(qp))
			budget--;
		while (budget && flush_next_recv(qp))
			budget--;
		if (!budget) {
			qp_defer_flush(qp);
			return;
		}
		qp_last_wqe(qp);
		WRITE_ONCE(qp->shadow->sq_tail, cpu_to_le64(qp->req.sq_idx));
		if (qp->queue_flags & SIRDMA_QPC_KICK) {
			WRITE_ONCE(qp->shadow->need_kick, cpu_to_le64(1));
			if (qp->state != SIRDMA_QPS_SQE)
				WRITE_ONCE(qp->shadow->rq_need_kick, cpu_to_le64(1));
		}
		smp_mb(); /* pairs with the poster's fence between valid bit and shadow */
	} while (flush_has_work(qp));
}

bool snic_qp_flush_sends(struct snic_qp *qp)
{
	u32 budget = SIRDMA_CQP_MODIFY_FLUSHES;

	if (!qp->flush_left)
		qp->flush_left = qp->sq_quanta;
	while (qp->flush_left && qp->state != SIRDMA_QPS_ERR && flush_next_send(qp)) {
		qp->flush_left--;
		if (!--budget)
			return !qp->flush_left || qp->state == SIRDMA_QPS_ERR;
	}
	qp->flush_left = 0;
	return true;
}

void snic_qp_check_drained(struct snic_qp *qp)
{
	if (qp->state != SIRDMA_QPS_SQD || !qp->sqd_event || qp->req.head != qp->req.tail)
		return;
	qp->sqd_event = false;
	snic_aeq_post(qp->dev, &qp->async, SIRDMA_AE_QP_SUSPEND_COMPLETE, SIRDMA_AE_SRC_SQ,
		      qp->req.sq_idx, SIRDMA_QPS_SQD);
}
