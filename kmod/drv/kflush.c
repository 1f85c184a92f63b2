// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cq.h"
#include "kflush.h"
#include "kverbs.h"
#include "qp.h"

static void sirdma_put_flushed(struct sirdma_qp *qp, u64 wr_id, enum ib_wc_opcode opcode,
			       struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.wr_id = wr_id,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = opcode,
		.vendor_err = SIRDMA_VENDOR_FLUSH,
		.qp = &qp->ibqp,
		.src_qp = qp->ibqp.qp_num,
		.port_num = 1,
	};
}

static int sirdma_kqp_flush_sends(struct sirdma_kqp *kqp, int num_entries, struct ib_wc *wc)
{
	struct sirdma_sq *sq = &kqp->sq;
	int n = 0;

	spin_lock(&kqp->sq_lock);
	while (n < num_entries && sq->tail != sq->head) {
		const struct sirdma_sq_slot slot = *sirdma_sq_slot_at(sq, sq->tail);
		const u64 hdr = sirdma_get64(&sirdma_sq_wqe_at(sq, sq->tail)->hdr);

		/* The slots are the driver's own, but the tail is where the device's CQEs put it. */
		if (WARN_ON_ONCE(!sirdma_sq_is_outstanding(sq, slot.end)))
			break;
		sirdma_wq_retire(&sq->tail, slot.end);
		/* The entry is padding, which no consumer posted. */
		if (SIRDMA_GET(SIRDMA_WQE_OPCODE, hdr) == SIRDMA_OP_NOP)
			continue;
		sirdma_put_flushed(kqp->qp, slot.wr_id, IB_WC_SEND, &wc[n++]);
	}
	spin_unlock(&kqp->sq_lock);
	return n;
}

static int sirdma_kqp_flush_recvs(struct sirdma_kqp *kqp, int num_entries, struct ib_wc *wc)
{
	struct sirdma_rq *rq = &kqp->rq;
	int n = 0;

	spin_lock(&kqp->rq_lock);
	while (n < num_entries && rq->tail != rq->head) {
		sirdma_put_flushed(kqp->qp, rq->wr_ids[rq->tail & rq->mask], IB_WC_RECV, &wc[n++]);
		sirdma_wq_retire(&rq->tail, rq->tail + rq->stride);
	}
	spin_unlock(&kqp->rq_lock);
	return n;
}

int sirdma_kcq_flush(struct sirdma_kcq *kcq, int num_entries, struct ib_wc *wc)
{
	struct sirdma_kqp *kqp;
	int n = 0;

	list_for_each_entry(kqp, &kcq->senders, send_node) {
		if (n == num_entries)
			return n;
		n += sirdma_kqp_flush_sends(kqp, num_entries - n, &wc[n]);
	}
	list_for_each_entry(kqp, &kcq->receivers, recv_node) {
		if (n == num_entries)
			return n;
		n += sirdma_kqp_flush_recvs(kqp, num_entries - n, &wc[n]);
	}
	return n;
}

bool sirdma_kcq_must_flush(struct sirdma_kcq *kcq)
{
	struct sirdma_kqp *kqp;

	list_for_each_entry(kqp, &kcq->senders, send_node)
		if (kqp->sq.tail != READ_ONCE(kqp->sq.head))
			return true;
	list_for_each_entry(kqp, &kcq->receivers, recv_node)
		if (kqp->rq.tail != READ_ONCE(kqp->rq.head))
			return true;
	return false;
}

static void sirdma_kcq_change_list(struct ib_cq *ibcq, struct list_head *node,
				   struct list_head *list)
{
	struct sirdma_kcq *kcq = to_scq(ibcq)->kcq;
	unsigned long flags;

	spin_lock_irqsave(&kcq->lock, flags);
	if (list)
		list_add_tail(node, list);
	else
		list_del(node);
	spin_unlock_irqrestore(&kcq->lock, flags);
}

void sirdma_kqp_join_cqs(struct sirdma_kqp *kqp)
{
	struct ib_qp *ibqp = &kqp->qp->ibqp;

	sirdma_kcq_change_list(ibqp->send_cq, &kqp->send_node,
			       &to_scq(ibqp->send_cq)->kcq->senders);
	sirdma_kcq_change_list(ibqp->recv_cq, &kqp->recv_node,
			       &to_scq(ibqp->recv_cq)->kcq->receivers);
}

void sirdma_kqp_leave_cqs(struct sirdma_kqp *kqp)
{
	sirdma_kcq_change_list(kqp->qp->ibqp.send_cq, &kqp->send_node, NULL);
	sirdma_kcq_change_list(kqp->qp->ibqp.recv_cq, &kqp->recv_node, NULL);
}

/* The next QP of a kernel consumer from number *qpn on, held; NULL: there is none. */
static struct sirdma_qp *sirdma_kqp_next(struct sirdma_dev *dev, unsigned long *qpn)
{
	struct sirdma_obj_entry *entry;
	struct sirdma_qp *qp = NULL;
	struct sirdma_obj *obj;

	rcu_read_lock();
	for (entry = xa_find(&dev->qps, qpn, ULONG_MAX, XA_PRESENT); entry;
	     entry = xa_find_after(&dev->qps, qpn, ULONG_MAX, XA_PRESENT)) {
		obj = sirdma_obj_tryget(entry);
		if (!obj)
			continue;
		qp = container_of(obj, struct sirdma_qp, obj);
		if (qp->kqp)
			break;
		sirdma_obj_put(obj);
		qp = NULL;
	}
	rcu_read_unlock();
	return qp;
}

/* A consumer that never asked for events has no handler to call. */
static void sirdma_kcq_call_handler(struct ib_cq *ibcq)
{
	if (!READ_ONCE(to_scq(ibcq)->kcq->arm_seq) || !ibcq->comp_handler)
		return;
	local_bh_disable();
	ibcq->comp_handler(ibcq, ibcq->cq_context);
	local_bh_enable();
}

void sirdma_kqp_drained(struct sirdma_kqp *kqp)
{
	struct ib_qp *ibqp = &kqp->qp->ibqp;

	if (!ibqp->srq || !ibqp->event_handler)
		return;
	atomic_set(&kqp->last_wqe_due, 1);
	/* Work that is queued already and has not begun yet sees the flag as well. */
	queue_work(sirdma_rescue_wq, &to_sdev(ibqp->device)->kflush);
}

static void sirdma_kqp_raise_last_wqe(struct sirdma_kqp *kqp)
{
	struct ib_qp *ibqp = &kqp->qp->ibqp;
	struct ib_event event = {
		.device = ibqp->device,
		.event = IB_EVENT_QP_LAST_WQE_REACHED,
		.element.qp = ibqp,
	};

	if (!atomic_xchg(&kqp->last_wqe_due, 0))
		return;
	local_bh_disable();
	ibqp->event_handler(&event, ibqp->qp_context);
	local_bh_enable();
}

/* A CQ is not being made or freed while a QP that uses it is held: so walk the QPs. */
static void sirdma_kflush_notify(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, kflush);
	struct sirdma_qp *qp;
	unsigned long qpn = 0;

	/*
	 * A device that failed still completes requests until it was reset. What is due then is
	 * raised by sirdma_kflush_start().
	 */
	if (!test_bit(SIRDMA_DEV_RESET, &dev->flags))
		return;
	for (; (qp = sirdma_kqp_next(dev, &qpn)); qpn++) {
		sirdma_kcq_call_handler(qp->ibqp.send_cq);
		if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
			sirdma_kcq_call_handler(qp->ibqp.recv_cq);
		sirdma_kqp_raise_last_wqe(qp->kqp);
		sirdma_obj_put(&qp->obj);
	}
}

void sirdma_kflush_init(struct sirdma_dev *dev)
{
	INIT_WORK(&dev->kflush, sirdma_kflush_notify);
}

void sirdma_kflush_fini(struct sirdma_dev *dev)
{
	cancel_work_sync(&dev->kflush);
}

void sirdma_kflush_start(struct sirdma_dev *dev)
{
	smp_mb__before_atomic(); /* this barrier pairs with sirdma_dev_was_reset() */
	set_bit(SIRDMA_DEV_RESET, &dev->flags);
	smp_mb__after_atomic(); /* pairs with sirdma_kqp_ring_doorbell() and req_notify_cq */
	sirdma_kflush_notify(&dev->kflush);
}
