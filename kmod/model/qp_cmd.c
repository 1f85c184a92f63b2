// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pair commands. The context is copied out of driver memory once; it is
 * checked completely before anything changes.
 */
#include "qp_cmd.h"
#include "sq_poll.h"

#include "mw.h"
#include "requester.h"
#include "responder.h"
#include "srq.h"
#include "transport.h"
#include "xrc.h"

/* QP 0 is the subnet manager's, which RoCE does not have. QP 1 is the GSI QP. */
#define QP_FIRST_ID 1

static u32 wqe_qpn(const struct sirdma_cqp_wqe *wqe)
{
	return (u32)SIRDMA_GET(SIRDMA_CQP_QP_ID, le64_to_cpu(wqe->hdr));
}

static struct sirdma_qp_ctx *ctx_ptr(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe)
{
	u64 addr = le64_to_cpu(wqe->w2);

	if (!addr || addr % SIRDMA_QP_CTX_ALIGN)
		return NULL;
	return port_dma_ptr(dev->dma, addr, sizeof(struct sirdma_qp_ctx));
}

static bool ctx_read(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe,
		     struct sirdma_qp_ctx *ctx)
{
	const struct sirdma_qp_ctx *p = ctx_ptr(dev, wqe);

	if (!p)
		return false;
	memcpy(ctx, p, sizeof(*ctx));
	return true;
}

static bool is_pow2(u32 n)
{
	return n && !(n & (n - 1));
}

static bool create_sizes_ok(const struct snic_transport *transport, const struct sirdma_qp_ctx *ctx)
{
	u32 sq = le32_to_cpu(ctx->sq_quanta), rq = le32_to_cpu(ctx->rq_wqes);

	if (transport->no_sq ?
		    sq != 0 :
		    (!is_pow2(sq) || sq < SIRDMA_MIN_WQ_QUANTA || sq > SIRDMA_MAX_WQ_QUANTA))
		return false;
	if (rq &&
	    (transport->no_rq || !is_pow2(rq) || rq > SIRDMA_MAX_WQ_QUANTA >> ctx->rq_stride_shift))
		return false;
	return !ctx->srq || (!rq && sirdma_qp_may_share_rq(ctx->qp_type));
}

/* Check the queue part of the context, which only creation sets. */
static u32 create_check(struct snic_dev *dev, const struct sirdma_qp_ctx *ctx)
{
	const struct snic_transport *transport = snic_transport(ctx->qp_type);

	if (!transport || ctx->rq_stride_shift > 3 ||
	    (ctx->queue_flags & ~(SIRDMA_QPC_SQ_VMAP | SIRDMA_QPC_RQ_VMAP | SIRDMA_QPC_KICK |
				  SIRDMA_QPC_SIG_ALL | SIRDMA_QPC_RECV_MAC | SIRDMA_QPC_FAST_REG)))
		return SIRDMA_CQP_BAD_PARAM;
	if (!create_sizes_ok(transport, ctx))
		return SIRDMA_CQP_BAD_PARAM;
	if (transport->no_sq)
		return le32_to_cpu(ctx->xrcd) < SIRDMA_MAX_XRCDS ? SIRDMA_CQP_OK :
								   SIRDMA_CQP_BAD_INDEX;
	return le32_to_cpu(ctx->pd) < dev->cfg.max_pds ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_INDEX;
}

static bool ring_from_ctx(struct snic_ring *ring, u64 addr, u32 bytes, bool vmap)
{
	ring->vmap = vmap;
	ring->bytes = bytes;
	if (!vmap)
		ring->addr = addr;
	else
		ring->first_pble = (u32)addr;
	return !vmap || addr == (u32)addr;
}

static u32 create_rings(struct snic_qp *qp, const struct sirdma_qp_ctx *ctx)
{
	u64 shadow = le64_to_cpu(ctx->shadow_addr);
	u64 sq = le64_to_cpu(ctx->sq_addr), rq_addr = le64_to_cpu(ctx->rq_addr);
	struct snic_rq *rq = &qp->own_rq;

	qp->sq_quanta = le32_to_cpu(ctx->sq_quanta);
	rq->dev = qp->dev;
	rq->wqes = le32_to_cpu(ctx->rq_wqes);
	rq->stride_shift = ctx->rq_stride_shift;
	qp->queue_flags = ctx->queue_flags;
	if (!ring_from_ctx(&qp->sq_ring, sq, qp->sq_quanta * SIRDMA_QUANTUM,
			   qp->queue_flags & SIRDMA_QPC_SQ_VMAP) ||
	    !ring_from_ctx(&rq->ring, rq_addr, (rq->wqes * SIRDMA_QUANTUM) << rq->stride_shift,
			   qp->queue_flags & SIRDMA_QPC_RQ_VMAP))
		return SIRDMA_CQP_BAD_ADDRESS;
	if (!snic_ring_valid(qp->dev, &qp->sq_ring) ||
	    (rq->wqes && !snic_ring_valid(qp->dev, &rq->ring)))
		return SIRDMA_CQP_BAD_ADDRESS;
	if (!shadow || shadow % SIRDMA_SHADOW_SIZE)
		return SIRDMA_CQP_BAD_ADDRESS;
	qp->shadow = port_dma_ptr(qp->dev->dma, shadow, sizeof(*qp->shadow));
	return qp->shadow ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
}

/* Returns true if @id is 0: the QP has a receive queue of its own. */
static bool srq_attach(struct snic_qp *qp, u32 id)
{
	if (!id)
		return true;
	qp->srq = snic_srq_attach(qp->dev, id);
	if (!qp->srq)
		return false;
	qp->recv_pd = qp->srq->pd;
	return true;
}

/* On a failure the caller calls drop_queues(). */
static u32 create_queues(struct snic_qp *qp, const struct sirdma_qp_ctx *ctx)
{
	u32 status;

	if (qp->transport->no_sq)
		return snic_xrc_alloc(qp, le32_to_cpu(ctx->xrcd)) ? SIRDMA_CQP_OK :
								    SIRDMA_CQP_NO_MEMORY;
	status = create_rings(qp, ctx);
	if (status)
		return status;
	qp->send_cq = snic_cq_attach(qp->dev, le32_to_cpu(ctx->send_cq));
	if (!qp->send_cq)
		return SIRDMA_CQP_NO_OBJECT;
	qp->recv_cq = snic_cq_attach(qp->dev, le32_to_cpu(ctx->recv_cq));
	if (!qp->recv_cq || !srq_attach(qp, le32_to_cpu(ctx->srq)))
		return SIRDMA_CQP_NO_OBJECT;
	return SIRDMA_CQP_OK;
}

static void drop_queues(struct snic_qp *qp)
{
	if (qp->srq)
		snic_srq_detach(qp->srq, &qp->srq_share);
	if (qp->recv_cq)
		snic_cq_detach(qp->recv_cq);
	if (qp->send_cq)
		snic_cq_detach(qp->send_cq);
	port_free(qp->xrc);
}

/* Set the attributes that need no check, and those that a QP has before it is modified. */
static void create_init(struct snic_qp *qp, struct snic_dev *dev, u32 id,
			const struct sirdma_qp_ctx *ctx)
{
	snic_obj_init(&qp->obj);
	qp->obj.id = id;
	qp->dev = dev;
	qp->compl_ctx = le64_to_cpu(ctx->compl_ctx);
	snic_aeq_events_init(&qp->async, id, le64_to_cpu(ctx->event_ctx));
	qp->pd = le32_to_cpu(ctx->pd);
	qp->recv_pd = qp->pd;
	qp->kicker = le32_to_cpu(ctx->kicker);
	port_lock_init(&qp->lock);
	qp->type = ctx->qp_type;
	qp->transport = snic_transport(ctx->qp_type);
	snic_qp_timer_init(qp);
	snic_sq_poll_init(qp);
	snic_path_init(dev, &qp->path);
	qp->mtu_shift = 10;
	qp->pkey = SIRDMA_DEFAULT_PKEY;
}

/* The QP is not in its table any more. This function drops the table's reference. */
static void qp_destroy(struct snic_qp *qp)
{
	/* In RESET the QP does no work, and no timer is armed again. */
	port_lock(&qp->lock);
	qp->state = SIRDMA_QPS_RESET;
	port_unlock(&qp->lock);
	snic_obj_drain(&qp->obj);
	/* Until its last use of memory has ended, snic_pble_sync() has to find it. */
	snic_domain_remove_qp(qp);
	/* No other thread has a reference, so no lock is needed. */
	snic_mw_unbind_qp(qp, ~0u);
	port_timer_cancel_sync(&qp->timer);
	port_timer_cancel_sync(&qp->sq_poll);
	snic_aeq_detach(qp->dev, &qp->async);
	drop_queues(qp);
	port_free(qp->inv);
	port_free_rcu(qp, obj.rcu);
}

u32 snic_cqp_create_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u32 id = wqe_qpn(wqe), status;
	struct sirdma_qp_ctx ctx;
	struct snic_qp *qp;

	*ret = 0;
	if (id < QP_FIRST_ID || id >= dev->qps.limit)
		return SIRDMA_CQP_BAD_INDEX;
	if (!ctx_read(dev, wqe, &ctx))
		return SIRDMA_CQP_BAD_ADDRESS;
	status = create_check(dev, &ctx);
	if (status)
		return status;
	qp = port_alloc_charged(sizeof(*qp));
	if (!qp)
		return SIRDMA_CQP_NO_MEMORY;
	create_init(qp, dev, id, &ctx);
	status = SIRDMA_CQP_NO_MEMORY;
	if (!snic_inv_alloc(qp))
		goto err_free;
	status = create_queues(qp, &ctx);
	if (status)
		goto err_queues;
	snic_qp_reset(qp);
	status = snic_table_status(snic_table_insert(&dev->qps, id, &qp->obj));
	if (status)
		goto err_queues;
	if (snic_domain_add_qp(qp))
		return SIRDMA_CQP_OK;
	/* Other threads may have found it by now. */
	snic_table_remove(&dev->qps, id);
	qp_destroy(qp);
	return SIRDMA_CQP_NO_MEMORY;

err_queues:
	drop_queues(qp);
err_free:
	port_free(qp->inv);
	port_free(qp);
	return status;
}

/*
 * Send the acknowledgement that waits for more packets, or that nobody asked for. Without this acknowledgement the sender of
 * a message that has completed here would repeat it, get no answer, and report an error.
 */
static void qp_acknowledge(struct snic_qp *qp)
{
	snic_resp_end_linger(qp);
	if (snic_qp_can_receive(qp) && qp->resp.ack_due && !qp->resp.rd_pending)
		snic_transport_call(qp, respond, qp);
}

u32 snic_cqp_destroy_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u32 id = wqe_qpn(wqe);
	struct snic_obj *obj;
	struct snic_qp *qp;

	*ret = 0;
	if (id < QP_FIRST_ID || id >= dev->qps.limit)
		return SIRDMA_CQP_BAD_INDEX;
	/* The object stays while this command runs: only commands remove queue pairs. */
	obj = snic_table_at(&dev->qps, id);
	if (!obj)
		return SIRDMA_CQP_NO_OBJECT;
	qp = container_of(obj, struct snic_qp, obj);
	port_lock(&qp->lock);
	qp_acknowledge(qp);
	snic_qp_reset(qp);
	port_unlock(&qp->lock);
	if (!snic_mw_unbind_qp(qp, SIRDMA_CQP_DESTROY_WINDOWS))
		return SIRDMA_CQP_AGAIN;
	snic_table_remove(&dev->qps, id);
	qp_destroy(qp);
	return SIRDMA_CQP_OK;
}

void snic_qp_destroy_all(struct snic_dev *dev)
{
	struct snic_obj *obj;
	struct snic_qp *qp;
	u32 id = 0;

	while (snic_table_next(&dev->qps, &id)) {
		/* Only the reset removes queue pairs now, so the object stays. */
		obj = snic_table_at(&dev->qps, id);
		qp = container_of(obj, struct snic_qp, obj);
		port_lock(&qp->lock);
		qp->state = SIRDMA_QPS_RESET;
		snic_qp_finish_references(qp);
		port_unlock(&qp->lock);
		snic_table_remove(&dev->qps, id);
		qp_destroy(qp);
		port_cond_resched();
	}
}

#define S(state) (1u << SIRDMA_QPS_##state)

/* Transitions of an RC QP (IBTA figure 124): next states of each state. */
static const u8 transitions[] = {
	[SIRDMA_QPS_RESET] = S(RESET) | S(INIT) | S(ERR),
	[SIRDMA_QPS_INIT] = S(RESET) | S(INIT) | S(RTR) | S(ERR),
	[SIRDMA_QPS_RTR] = S(RESET) | S(RTR) | S(RTS) | S(ERR),
	[SIRDMA_QPS_RTS] = S(RESET) | S(RTS) | S(SQD) | S(ERR),
	[SIRDMA_QPS_SQD] = S(RESET) | S(SQD) | S(RTS) | S(ERR),
	[SIRDMA_QPS_SQE] = S(RESET) | S(RTS) | S(ERR),
	[SIRDMA_QPS_ERR] = S(RESET) | S(ERR),
};

/* Attribute groups that may change in a state; others are fixed by then. */
#define MOD_ANY_TIME \
	(SIRDMA_QPC_MOD_ACCESS | SIRDMA_QPC_MOD_PATH | SIRDMA_QPC_MOD_PKEY | \
	 SIRDMA_QPC_MOD_TIMEOUT | SIRDMA_QPC_MOD_RETRY_CNT | SIRDMA_QPC_MOD_RNR_RETRY | \
	 SIRDMA_QPC_MOD_MIN_RNR | SIRDMA_QPC_MOD_ORD | SIRDMA_QPC_MOD_IRD | SIRDMA_QPC_MOD_QKEY | \
	 SIRDMA_QPC_MOD_SQD_EVENT)

static u32 mod_allowed(u8 state)
{
	switch (state) {
	case SIRDMA_QPS_RESET:
	case SIRDMA_QPS_INIT:
		return SIRDMA_QPC_MOD_ALL;
	case SIRDMA_QPS_RTR:
		return MOD_ANY_TIME | SIRDMA_QPC_MOD_SQ_PSN;
	default:
		return MOD_ANY_TIME;
	}
}

static u8 mtu_to_shift(u32 mtu)
{
	u8 shift;

	for (shift = 8; shift <= 12; shift++) {
		if (mtu == 1u << shift)
			return shift;
	}
	return 0;
}

static bool path_ok(struct snic_dev *dev, const struct sirdma_qp_ctx *ctx)
{
	struct snic_sgid sgid;
	u8 mac[6];

	return le32_to_cpu(ctx->flow_label) <= SIRDMA_MAX_FLOW_LABEL &&
	       ctx->vlan_prio <= SIRDMA_MAX_VLAN_PRIO && ctx->hop_limit &&
	       le16_to_cpu(ctx->udp_sport) >= SIRDMA_ROCE_UDP_SPORT_MIN &&
	       snic_sgid_read(dev, le16_to_cpu(ctx->sgid_idx), &sgid) &&
	       snic_arp_read(dev, le16_to_cpu(ctx->arp_idx), mac);
}

/* Check the ranges of the groups in @mod. */
static bool mod_values_ok(struct snic_dev *dev, const struct sirdma_qp_ctx *ctx, u32 mod)
{
	const u32 remote = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			   SIRDMA_ACCESS_REMOTE_ATOMIC | SIRDMA_ACCESS_REMOTE_FLUSH;
	const struct {
		u32 bit;
		u32 value;
		u32 max;
	} ranges[] = {
		{SIRDMA_QPC_MOD_ACCESS, le32_to_cpu(ctx->access) & ~remote, 0},
		{SIRDMA_QPC_MOD_DEST_QPN, le32_to_cpu(ctx->dest_qpn), SIRDMA_QPN_MASK},
		{SIRDMA_QPC_MOD_MTU, !mtu_to_shift(le16_to_cpu(ctx->path_mtu)), 0},
		{SIRDMA_QPC_MOD_PKEY, !(le16_to_cpu(ctx->pkey) & 0x7fff), 0},
		{SIRDMA_QPC_MOD_SQ_PSN, le32_to_cpu(ctx->sq_psn), SIRDMA_PSN_MASK},
		{SIRDMA_QPC_MOD_RQ_PSN, le32_to_cpu(ctx->rq_psn), SIRDMA_PSN_MASK},
		{SIRDMA_QPC_MOD_TIMEOUT, ctx->ack_timeout, 31},
		{SIRDMA_QPC_MOD_RETRY_CNT, ctx->retry_cnt, 7},
		{SIRDMA_QPC_MOD_RNR_RETRY, ctx->rnr_retry, 7},
		{SIRDMA_QPC_MOD_MIN_RNR, ctx->min_rnr_timer, 31},
		{SIRDMA_QPC_MOD_ORD, ctx->ord, SNIC_MAX_ORD},
		{SIRDMA_QPC_MOD_IRD, ctx->ird, SNIC_MAX_RD_ATOMIC},
	};
	u32 i;

	if (mod & ~SIRDMA_QPC_MOD_ALL)
		return false;
	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		if ((mod & ranges[i].bit) && ranges[i].value > ranges[i].max)
			return false;
	return !(mod & SIRDMA_QPC_MOD_PATH) || path_ok(dev, ctx);
}

static void mod_apply(struct snic_qp *qp, const struct sirdma_qp_ctx *ctx, u32 mod)
{
	if (mod & SIRDMA_QPC_MOD_ACCESS)
		qp->access = le32_to_cpu(ctx->access);
	if (mod & SIRDMA_QPC_MOD_PATH)
		snic_path_set(qp->dev, &qp->path, ctx);
	if (mod & SIRDMA_QPC_MOD_DEST_QPN)
		qp->dest_qpn = le32_to_cpu(ctx->dest_qpn);
	if (mod & SIRDMA_QPC_MOD_MTU)
		qp->mtu_shift = mtu_to_shift(le16_to_cpu(ctx->path_mtu));
	if (mod & SIRDMA_QPC_MOD_PKEY)
		qp->pkey = le16_to_cpu(ctx->pkey);
	if (mod & SIRDMA_QPC_MOD_SQ_PSN)
		qp->sq_psn = le32_to_cpu(ctx->sq_psn);
	if (mod & SIRDMA_QPC_MOD_RQ_PSN)
		qp->rq_psn = le32_to_cpu(ctx->rq_psn);
	if (mod & SIRDMA_QPC_MOD_TIMEOUT)
		qp->ack_timeout = ctx->ack_timeout;
	if (mod & SIRDMA_QPC_MOD_RETRY_CNT)
		qp->req.retry_left = qp->retry_cnt = ctx->retry_cnt;
	if (mod & SIRDMA_QPC_MOD_RNR_RETRY)
		qp->req.rnr_left = qp->rnr_retry = ctx->rnr_retry;
	if (mod & SIRDMA_QPC_MOD_MIN_RNR)
		qp->min_rnr_timer = ctx->min_rnr_timer;
	if (mod & SIRDMA_QPC_MOD_ORD)
		qp->ord = ctx->ord;
	if (mod & SIRDMA_QPC_MOD_IRD)
		qp->ird = ctx->ird;
	if (mod & SIRDMA_QPC_MOD_QKEY)
		qp->qkey = le32_to_cpu(ctx->qkey);
}

static void state_apply(struct snic_qp *qp, u8 next, u32 mod)
{
	u8 cur = qp->state;

	if (next == SIRDMA_QPS_RESET || next == SIRDMA_QPS_ERR)
		qp_acknowledge(qp);
	if (next == SIRDMA_QPS_RESET) {
		snic_qp_reset(qp);
		return;
	}
	if (next == SIRDMA_QPS_ERR) {
		/* The memory of responses, too, returns to the application, also if the QP has failed before. */
		snic_qp_finish_references(qp);
		snic_qp_fail(qp, SIRDMA_AE_NONE, SIRDMA_AE_SRC_NONE);
		return;
	}
	/* The CQ overflowed when the send queue was flushed. */
	if (cur == SIRDMA_QPS_ERR)
		return;
	qp->state = next;
	if (next == SIRDMA_QPS_RTR && cur != SIRDMA_QPS_RTR)
		snic_transport_call(qp, recv_start, qp);
	if (next == SIRDMA_QPS_RTS && (cur == SIRDMA_QPS_RTR || cur == SIRDMA_QPS_SQE))
		snic_transport_call(qp, send_start, qp);
	if (next == SIRDMA_QPS_SQD) {
		qp->sqd_event = mod & SIRDMA_QPC_MOD_SQD_EVENT;
		/* The queue is drained when all is acknowledged. */
		if (snic_req_in_flight(&qp->req))
			snic_req_request_ack(qp);
	}
	snic_qp_check_drained(qp);
	snic_qp_advance(qp);
}

u32 snic_cqp_modify_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u64 hdr = le64_to_cpu(wqe->hdr);
	u8 next = (u8)SIRDMA_GET(SIRDMA_CQP_QP_NEXT_STATE, hdr);
	u32 id = wqe_qpn(wqe), mod, status = SIRDMA_CQP_OK;
	struct sirdma_qp_ctx ctx;
	struct snic_qp *qp;

	*ret = 0;
	if (id < QP_FIRST_ID || id >= dev->qps.limit)
		return SIRDMA_CQP_BAD_INDEX;
	if (!ctx_read(dev, wqe, &ctx))
		return SIRDMA_CQP_BAD_ADDRESS;
	mod = le32_to_cpu(ctx.modify);
	if (next > SIRDMA_QPS_ERR || !mod_values_ok(dev, &ctx, mod))
		return SIRDMA_CQP_BAD_PARAM;
	qp = snic_qp_get(dev, id);
	if (!qp)
		return SIRDMA_CQP_NO_OBJECT;
	port_lock(&qp->lock);
	if (((hdr & SIRDMA_CQP_QP_CUR_STATE_VALID) &&
	     SIRDMA_GET(SIRDMA_CQP_QP_CUR_STATE, hdr) != qp->state) ||
	    !(transitions[qp->state] & (1u << next)) || (mod & ~mod_allowed(qp->state))) {
		status = SIRDMA_CQP_BAD_STATE;
	} else if (qp->state == SIRDMA_QPS_SQE && next == SIRDMA_QPS_RTS &&
		   !snic_qp_flush_sends(qp)) {
		/*
		 * The device flushes WQEs that were posted after the one that failed, and does not
		 * send them (IBTA 10.3.1).
		 */
		status = SIRDMA_CQP_AGAIN;
	} else {
		mod_apply(qp, &ctx, mod);
		state_apply(qp, next, mod);
	}
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	return status;
}

static u8 ctx_activity(const struct snic_qp *qp)
{
	u64 activity = 0;

	if (qp->timer_armed)
		activity |= SIRDMA_QPC_TIMER_RUNS;
	if (qp->req.wait == SNIC_WAIT_RNR)
		activity |= SIRDMA_QPC_RNR_WAIT;
	if (qp->tx_stalled)
		activity |= SIRDMA_QPC_TX_STALLED;
	if (qp->deferred || qp->flush_deferred)
		activity |= SIRDMA_QPC_RUN_PENDING;
	if (snic_resp_pending(qp))
		activity |= SIRDMA_QPC_RESP_PENDING;
	if (!qp->req.awake)
		activity |= SIRDMA_QPC_SQ_ASLEEP;
	return (u8)activity;
}

static void ctx_fill(struct snic_qp *qp, struct sirdma_qp_ctx *ctx)
{
	ctx->compl_ctx = cpu_to_le64(qp->compl_ctx);
	ctx->event_ctx = cpu_to_le64(qp->async.ctx);
	ctx->sq_quanta = cpu_to_le32(qp->sq_quanta);
	ctx->rq_wqes = cpu_to_le32(qp->own_rq.wqes);
	if (qp->xrc) {
		ctx->xrcd = cpu_to_le32(qp->xrc->domain);
	} else {
		ctx->send_cq = cpu_to_le32(qp->send_cq->obj.id);
		ctx->recv_cq = cpu_to_le32(qp->recv_cq->obj.id);
		ctx->pd = cpu_to_le32(qp->pd);
	}
	ctx->qp_type = qp->type;
	ctx->srq = cpu_to_le32(qp->srq ? qp->srq->obj.id : 0);
	ctx->rq_stride_shift = qp->own_rq.stride_shift;
	ctx->state = qp->state;
	ctx->queue_flags = qp->queue_flags;
	ctx->access = cpu_to_le32(qp->access);
	ctx->dest_qpn = cpu_to_le32(qp->dest_qpn);
	ctx->path_mtu = cpu_to_le16((u16)snic_qp_mtu(qp));
	snic_path_fill(&qp->path, ctx);
	ctx->min_rnr_timer = qp->min_rnr_timer;
	ctx->retry_cnt = qp->retry_cnt;
	ctx->rnr_retry = qp->rnr_retry;
	ctx->ack_timeout = qp->ack_timeout;
	ctx->pkey = cpu_to_le16(qp->pkey);
	ctx->qkey = cpu_to_le32(qp->qkey);
	ctx->ord = qp->ord;
	ctx->ird = qp->ird;
	/* Before RTS and RTR the requester's and responder's PSNs are not set. */
	ctx->sq_psn = cpu_to_le32(snic_qp_can_send(qp) ? qp->req.psn : qp->sq_psn);
	ctx->rq_psn = cpu_to_le32(snic_qp_can_receive(qp) ? qp->resp.epsn : qp->rq_psn);
	ctx->sq_draining = qp->state == SIRDMA_QPS_SQD && qp->req.head != qp->req.tail;
	ctx->sq_una = cpu_to_le32(qp->req.una);
	ctx->sq_max = cpu_to_le32(qp->req.max);
	ctx->rq_msn = cpu_to_le32(qp->resp.msn);
	ctx->retry_left = qp->req.retry_left;
	ctx->rnr_left = qp->req.rnr_left;
	ctx->activity = ctx_activity(qp);
}

u32 snic_cqp_upload_ctx(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u32 id = wqe_qpn(wqe);
	struct sirdma_qp_ctx ctx, *out;
	struct snic_qp *qp;

	*ret = 0;
	if (id < QP_FIRST_ID || id >= dev->qps.limit)
		return SIRDMA_CQP_BAD_INDEX;
	out = ctx_ptr(dev, wqe);
	if (!out)
		return SIRDMA_CQP_BAD_ADDRESS;
	qp = snic_qp_get(dev, id);
	if (!qp)
		return SIRDMA_CQP_NO_OBJECT;
	port_lock(&qp->lock);
	memset(&ctx, 0, sizeof(ctx));
	ctx_fill(qp, &ctx);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	memcpy(out, &ctx, sizeof(ctx));
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_flush_wqes(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u64 hdr = le64_to_cpu(wqe->hdr);
	u32 id = (u32)SIRDMA_GET(SIRDMA_CQP_FLUSH_QPID, hdr), status = SIRDMA_CQP_OK;
	struct snic_qp *qp;

	*ret = 0;
	if (id < QP_FIRST_ID || id >= dev->qps.limit)
		return SIRDMA_CQP_BAD_INDEX;
	if (!(hdr & (SIRDMA_CQP_FLUSH_SQ | SIRDMA_CQP_FLUSH_RQ)))
		return SIRDMA_CQP_BAD_PARAM;
	qp = snic_qp_get(dev, id);
	if (!qp)
		return SIRDMA_CQP_NO_OBJECT;
	port_lock(&qp->lock);
	/* The change to ERR flushed both queues; flush the WQEs that were posted since. */
	if (qp->state == SIRDMA_QPS_ERR)
		snic_qp_flush(qp);
	else
		status = SIRDMA_CQP_BAD_STATE;
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	return status;
}
