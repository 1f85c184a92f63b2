// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Shared receive queues. */
#include "srq.h"

#include "dev.h"

/* The number 0 in a QP's context means that the QP has no shared queue. */
#define SRQ_FIRST_ID 1
#define SRQ_FIRST_PERIOD 1

struct snic_srq *snic_srq_get(struct snic_dev *dev, u32 id)
{
	struct snic_obj *obj = snic_table_get(&dev->srqs, id);

	return obj ? container_of(obj, struct snic_srq, obj) : NULL;
}

struct snic_srq *snic_srq_attach(struct snic_dev *dev, u32 id)
{
	struct snic_srq *srq = snic_srq_get(dev, id);

	if (!srq)
		return NULL;
	if (srq->name) {
		snic_srq_put(srq);
		return NULL;
	}
	port_lock(&srq->lock);
	srq->qp_refs++;
	port_unlock(&srq->lock);
	return srq;
}

/* Raise the event that the driver asked for, if fewer WQEs are left than the limit. */
static void srq_check_limit(struct snic_srq *srq)
{
	if (likely(!srq->limit) || snic_rq_has(&srq->rq, srq->limit - 1))
		return;
	srq->limit = 0;
	snic_aeq_post(srq->rq.dev, &srq->async, SIRDMA_AE_SRQ_LIMIT, SIRDMA_AE_SRC_RQ, 0,
		      SIRDMA_QPS_RESET);
}

/* The functions of share periods (srq.h) need the lock. */

static void srq_next_period(struct snic_srq *srq)
{
	srq->period++;
	srq->waiting = srq->waiting_next;
	srq->waiting_next = 0;
	if (srq->waiting)
		srq->period_end = port_now_ns(srq->rq.dev->clock) + SNIC_SRQ_RETRY_NS;
}

/* The QP of @share waits no more: it got a WQE, or it leaves. */
static void srq_end_wait(struct snic_srq *srq, struct snic_srq_share *share)
{
	if (share->wait_period == srq->period && srq->waiting) {
		if (!--srq->waiting)
			srq_next_period(srq);
	} else if (share->wait_period == srq->period + 1 && srq->waiting_next) {
		srq->waiting_next--;
	}
	share->wait_period = 0;
}

/* Are there more WQEs than the queue reserves when @waiting QPs wait? */
static bool srq_has_more(struct snic_srq *srq, u32 waiting)
{
	return snic_rq_has(&srq->rq, min(waiting, srq->rq.wqes / 2));
}

/* Are all WQEs reserved for QPs that wait? */
static bool srq_is_reserved(struct snic_srq *srq, const struct snic_srq_share *share)
{
	if (likely(!srq->waiting))
		return false;
	if (share->got_period == srq->period)
		return !srq_has_more(srq, srq->waiting);
	if (share->got_period == srq->period + 1)
		return !srq_has_more(srq, srq->waiting + srq->waiting_next);
	return false;
}

static void srq_got(struct snic_srq *srq, struct snic_srq_share *share)
{
	if (srq->waiting &&
	    (share->got_period == srq->period || share->got_period == srq->period + 1))
		share->got_period = srq->period + 1;
	else
		share->got_period = srq->period;
	srq_end_wait(srq, share);
}

static void srq_wait(struct snic_srq *srq, struct snic_srq_share *share)
{
	if (!srq->waiting)
		srq_next_period(srq);
	if (share->wait_period == srq->period + 1 || share->got_period == srq->period + 1)
		return;
	if (share->got_period == srq->period) {
		share->wait_period = srq->period + 1;
		srq->waiting_next++;
		return;
	}
	if (share->wait_period != srq->period) {
		share->wait_period = srq->period;
		srq->waiting++;
	}
	srq->period_end = port_now_ns(srq->rq.dev->clock) + SNIC_SRQ_RETRY_NS;
}

enum snic_wqe_status snic_srq_fetch(struct snic_srq *srq, struct snic_srq_share *share,
				    bool may_defer, struct snic_rqe *rqe)
{
	enum snic_wqe_status status = SNIC_WQE_NONE;

	port_lock(&srq->lock);
	if (unlikely(srq->waiting) && port_now_ns(srq->rq.dev->clock) >= srq->period_end)
		srq_next_period(srq);
	if (!may_defer || likely(!srq_is_reserved(srq, share)))
		status = snic_rq_fetch(&srq->rq, rqe);
	if (status != SNIC_WQE_NONE) {
		if (may_defer)
			srq_got(srq, share);
		srq->fetched++;
		/*
		 * This store is a release: the copy is made before the poster may write its place
		 * anew.
		 */
		smp_store_release(&srq->shadow->fetched, cpu_to_le64(srq->fetched));
		srq_check_limit(srq);
	} else if (may_defer) {
		srq_wait(srq, share);
	}
	port_unlock(&srq->lock);
	return status;
}

void snic_srq_leave(struct snic_srq *srq, struct snic_srq_share *share)
{
	port_lock(&srq->lock);
	srq_end_wait(srq, share);
	port_unlock(&srq->lock);
}

void snic_srq_detach(struct snic_srq *srq, struct snic_srq_share *share)
{
	port_lock(&srq->lock);
	srq_end_wait(srq, share);
	srq->qp_refs--;
	port_unlock(&srq->lock);
	snic_srq_put(srq);
}

/* Commands */

static u32 srq_decode(struct snic_dev *dev, const struct sirdma_cqp_srq *cmd, struct snic_srq *srq)
{
	u64 hdr = le64_to_cpu(cmd->hdr), size = le64_to_cpu(cmd->size);
	u64 shadow = le64_to_cpu(cmd->shadow_addr), pd = le64_to_cpu(cmd->pd);
	struct snic_rq *rq = &srq->rq;

	srq->obj.id = (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_ID, hdr);
	if (srq->obj.id < SRQ_FIRST_ID || srq->obj.id >= dev->srqs.limit || pd >= dev->cfg.max_pds)
		return SIRDMA_CQP_BAD_INDEX;
	snic_aeq_events_init(&srq->async, srq->obj.id, le64_to_cpu(cmd->ctx));
	rq->dev = dev;
	srq->pd = (u32)pd;
	rq->wqes = (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_WQES, size);
	rq->stride_shift = (u8)SIRDMA_GET(SIRDMA_CQP_SRQ_STRIDE, hdr);
	if (!rq->wqes || (rq->wqes & (rq->wqes - 1)) ||
	    rq->wqes > SIRDMA_MAX_SRQ_QUANTA >> rq->stride_shift)
		return SIRDMA_CQP_BAD_PARAM;
	rq->ring.vmap = !!(hdr & SIRDMA_CQP_SRQ_VMAP);
	rq->ring.bytes = (rq->wqes * SIRDMA_QUANTUM) << rq->stride_shift;
	if (rq->ring.vmap)
		rq->ring.first_pble =
			(u32)SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, le64_to_cpu(cmd->first_pble));
	else
		rq->ring.addr = le64_to_cpu(cmd->addr);
	if (!snic_ring_valid(dev, &rq->ring) || !shadow || shadow % SIRDMA_SHADOW_SIZE)
		return SIRDMA_CQP_BAD_ADDRESS;
	srq->shadow = port_dma_ptr(dev->dma, shadow, sizeof(*srq->shadow));
	return srq->shadow ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
}

/* Attach a queue of an XRC domain to the domain and its CQ. Commands run one at a time. */
static u32 srq_join_domain(struct snic_dev *dev, struct snic_srq *srq, u64 xrc)
{
	if (!(xrc & SIRDMA_CQP_SRQ_XRC))
		return xrc ? SIRDMA_CQP_BAD_PARAM : SIRDMA_CQP_OK;
	srq->cq = snic_cq_attach(dev, (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_CQ, xrc));
	if (!srq->cq)
		return SIRDMA_CQP_NO_OBJECT;
	srq->domain = (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_XRCD, xrc);
	if (!snic_domain_add_srq(srq)) {
		snic_cq_detach(srq->cq);
		return SIRDMA_CQP_NO_MEMORY;
	}
	srq->name = ++dev->xrc_queues << SNIC_SRQ_ID_BITS | srq->obj.id;
	return SIRDMA_CQP_OK;
}

static void srq_leave_domain(struct snic_srq *srq)
{
	if (!srq->cq)
		return;
	snic_domain_remove_srq(srq);
	snic_cq_detach(srq->cq);
}

u32 snic_cqp_create_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_srq *cmd = (const void *)wqe;
	struct snic_srq *srq;
	u32 status;

	*ret = 0;
	srq = port_alloc_charged(sizeof(*srq));
	if (!srq)
		return SIRDMA_CQP_NO_MEMORY;
	status = srq_decode(dev, cmd, srq);
	if (!status)
		status = srq_join_domain(dev, srq, le64_to_cpu(cmd->xrc));
	if (status)
		goto err_free;
	snic_obj_init(&srq->obj);
	port_lock_init(&srq->lock);
	snic_rq_reset(&srq->rq);
	srq->period = SRQ_FIRST_PERIOD;
	WRITE_ONCE(srq->shadow->fetched, 0);
	status = snic_table_status(snic_table_insert(&dev->srqs, srq->obj.id, &srq->obj));
	if (status)
		goto err_domain;
	return SIRDMA_CQP_OK;

err_domain:
	srq_leave_domain(srq);
err_free:
	port_free(srq);
	return status;
}

static struct snic_srq *srq_by_cmd(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe,
				   u32 *status)
{
	u32 id = (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_ID, le64_to_cpu(wqe->hdr));
	struct snic_srq *srq = snic_srq_get(dev, id);

	if (srq)
		*status = SIRDMA_CQP_OK;
	else
		*status = id < dev->srqs.limit ? SIRDMA_CQP_NO_OBJECT : SIRDMA_CQP_BAD_INDEX;
	return srq;
}

/* The event comes at once when the queue has fewer WQEs already (IBTA, Modify SRQ). */
u32 snic_cqp_modify_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_srq *cmd = (const void *)wqe;
	u32 limit = (u32)SIRDMA_GET(SIRDMA_CQP_SRQ_LIMIT, le64_to_cpu(cmd->size)), status;
	struct snic_srq *srq;

	*ret = 0;
	srq = srq_by_cmd(dev, wqe, &status);
	if (!srq)
		return status;
	port_lock(&srq->lock);
	if (limit > srq->rq.wqes) {
		status = SIRDMA_CQP_BAD_PARAM;
	} else {
		srq->limit = limit;
		srq_check_limit(srq);
	}
	port_unlock(&srq->lock);
	snic_srq_put(srq);
	return status;
}

u32 snic_cqp_query_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_srq *srq;
	u32 status;

	*ret = 0;
	srq = srq_by_cmd(dev, wqe, &status);
	if (!srq)
		return status;
	port_lock(&srq->lock);
	*ret = srq->limit;
	port_unlock(&srq->lock);
	snic_srq_put(srq);
	return SIRDMA_CQP_OK;
}

/* Takes over the table's reference; no thread can find the queue any more. */
static void srq_destroy(struct snic_srq *srq)
{
	snic_obj_drain(&srq->obj);
	snic_aeq_detach(srq->rq.dev, &srq->async);
	srq_leave_domain(srq);
	port_free_rcu(srq, obj.rcu);
}

u32 snic_cqp_destroy_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_srq *srq;
	u32 status, users;

	*ret = 0;
	srq = srq_by_cmd(dev, wqe, &status);
	if (!srq)
		return status;
	port_lock(&srq->lock);
	users = srq->qp_refs;
	port_unlock(&srq->lock);
	snic_srq_put(srq);
	if (users)
		return SIRDMA_CQP_IN_USE;
	snic_table_remove(&dev->srqs, srq->obj.id);
	srq_destroy(srq);
	return SIRDMA_CQP_OK;
}

void snic_srq_destroy_all(struct snic_dev *dev)
{
	struct snic_obj *obj;
	u32 id = 0;

	while ((obj = snic_table_next(&dev->srqs, &id))) {
		snic_table_remove(&dev->srqs, obj->id);
		srq_destroy(container_of(obj, struct snic_srq, obj));
		port_cond_resched();
	}
}
