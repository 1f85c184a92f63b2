// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "kverbs.h"

#include <linux/etherdevice.h>
#include <linux/slab.h>

#include "ah.h"
#include "compat/ib_verbs.h"
#include "cq.h"
#include "device.h"
#include "fast_mr.h"
#include "health.h"
#include "hw/qp_create.h"
#include "kflush.h"
#include "qp.h"
#include "qp_size.h"
#include "srq.h"

static_assert(sizeof(struct sirdma_sge) == sizeof(struct ib_sge));
static_assert(offsetof(struct sirdma_sge, length) == offsetof(struct ib_sge, length));
static_assert(offsetof(struct sirdma_sge, lkey) == offsetof(struct ib_sge, lkey));

#define SAME(codec, verbs) static_assert((int)(codec) == (int)(verbs))
SAME(SIRDMA_WR_WRITE, IB_WR_RDMA_WRITE);
SAME(SIRDMA_WR_WRITE_IMM, IB_WR_RDMA_WRITE_WITH_IMM);
SAME(SIRDMA_WR_SEND, IB_WR_SEND);
SAME(SIRDMA_WR_SEND_IMM, IB_WR_SEND_WITH_IMM);
SAME(SIRDMA_WR_READ, IB_WR_RDMA_READ);
SAME(SIRDMA_WR_CMP_SWAP, IB_WR_ATOMIC_CMP_AND_SWP);
SAME(SIRDMA_WR_FETCH_ADD, IB_WR_ATOMIC_FETCH_AND_ADD);
SAME(SIRDMA_WR_LOCAL_INV, IB_WR_LOCAL_INV);
SAME(SIRDMA_WR_SEND_INV, IB_WR_SEND_WITH_INV);
SAME(SIRDMA_WR_ATOMIC_WRITE, IB_WR_ATOMIC_WRITE);
SAME(SIRDMA_SEND_FENCE, IB_SEND_FENCE);
SAME(SIRDMA_SEND_SIGNALED, IB_SEND_SIGNALED);
SAME(SIRDMA_SEND_SOLICITED, IB_SEND_SOLICITED);
SAME(SIRDMA_SEND_INLINE, IB_SEND_INLINE);
SAME(SIRDMA_WC_SUCCESS, IB_WC_SUCCESS);
SAME(SIRDMA_WC_LOC_LEN_ERR, IB_WC_LOC_LEN_ERR);
SAME(SIRDMA_WC_LOC_QP_OP_ERR, IB_WC_LOC_QP_OP_ERR);
SAME(SIRDMA_WC_LOC_PROT_ERR, IB_WC_LOC_PROT_ERR);
SAME(SIRDMA_WC_WR_FLUSH_ERR, IB_WC_WR_FLUSH_ERR);
SAME(SIRDMA_WC_MW_BIND_ERR, IB_WC_MW_BIND_ERR);
SAME(SIRDMA_WC_LOC_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR);
SAME(SIRDMA_WC_REM_INV_REQ_ERR, IB_WC_REM_INV_REQ_ERR);
SAME(SIRDMA_WC_REM_ACCESS_ERR, IB_WC_REM_ACCESS_ERR);
SAME(SIRDMA_WC_REM_OP_ERR, IB_WC_REM_OP_ERR);
SAME(SIRDMA_WC_RETRY_EXC_ERR, IB_WC_RETRY_EXC_ERR);
SAME(SIRDMA_WC_RNR_RETRY_EXC_ERR, IB_WC_RNR_RETRY_EXC_ERR);
SAME(SIRDMA_WC_FATAL_ERR, IB_WC_FATAL_ERR);
SAME(SIRDMA_WC_GENERAL_ERR, IB_WC_GENERAL_ERR);
SAME(SIRDMA_WC_SEND, IB_WC_SEND);
SAME(SIRDMA_WC_WRITE, IB_WC_RDMA_WRITE);
SAME(SIRDMA_WC_READ, IB_WC_RDMA_READ);
SAME(SIRDMA_WC_COMP_SWAP, IB_WC_COMP_SWAP);
SAME(SIRDMA_WC_FETCH_ADD, IB_WC_FETCH_ADD);
SAME(SIRDMA_WC_LOCAL_INV, IB_WC_LOCAL_INV);
SAME(SIRDMA_WC_FLUSH, IB_WC_FLUSH);
SAME(SIRDMA_WC_ATOMIC_WRITE, IB_WC_ATOMIC_WRITE);
SAME(SIRDMA_WC_RECV, IB_WC_RECV);
SAME(SIRDMA_WC_RECV_WRITE_IMM, IB_WC_RECV_RDMA_WITH_IMM);
#undef SAME

static const struct sirdma_sge *sirdma_sges_from_verbs(const struct ib_sge *sges)
{
	return (const struct sirdma_sge *)sges;
}

/* Completion queues */

struct sirdma_kcq *sirdma_kcq_create(struct sirdma_dev *dev, u32 entries)
{
	u32 ring_bytes = PAGE_ALIGN(entries * sizeof(struct sirdma_cqe));
	struct sirdma_kcq *kcq;
	int err;

	kcq = kzalloc(sizeof(*kcq), GFP_KERNEL);
	if (!kcq)
		return ERR_PTR(-ENOMEM);
	err = dev->bus->ops->dma_alloc(dev->bus, ring_bytes + SIRDMA_SHADOW_SIZE, &kcq->mem);
	if (err) {
		kfree(kcq);
		return ERR_PTR(err);
	}
	spin_lock_init(&kcq->lock);
	INIT_LIST_HEAD(&kcq->senders);
	INIT_LIST_HEAD(&kcq->receivers);
	sirdma_cq_ring_init(&kcq->ring, kcq->mem.va, entries, kcq->mem.va + ring_bytes);
	return kcq;
}

void sirdma_kcq_destroy(struct sirdma_dev *dev, struct sirdma_kcq *kcq)
{
	dev->bus->ops->dma_free(dev->bus, &kcq->mem);
	kfree(kcq);
}

/* Make later polls skip the completions of @kqp that are still in the ring. */
static void sirdma_kcq_forget(struct ib_cq *ibcq, const struct sirdma_kqp *kqp)
{
	struct sirdma_kcq *kcq = to_scq(ibcq)->kcq;
	unsigned long flags;

	spin_lock_irqsave(&kcq->lock, flags);
	sirdma_cq_forget(&kcq->ring, (uintptr_t)kqp, kqp->qp->ibqp.qp_num);
	spin_unlock_irqrestore(&kcq->lock, flags);
}

/* Fill in where a datagram came from. */
static void sirdma_wc_add_source(const struct sirdma_wc *c, struct ib_wc *wc)
{
	wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
	wc->network_hdr_type = c->flags & SIRDMA_WC_IS_IPV4 ? RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6;
	if (c->flags & SIRDMA_WC_HAS_MAC) {
		u64_to_ether_addr(SIRDMA_GET(SIRDMA_CQE_EXT_MAC, c->mac_vlan), wc->smac);
		wc->wc_flags |= IB_WC_WITH_SMAC;
	}
	if (c->flags & SIRDMA_WC_HAS_VLAN) {
		wc->vlan_id = SIRDMA_GET(SIRDMA_CQE_EXT_VLAN, c->mac_vlan);
		wc->wc_flags |= IB_WC_WITH_VLAN;
	}
}

static void sirdma_wc_to_verbs(const struct sirdma_wc *c, struct sirdma_qp *qp, struct ib_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = c->wr_id;
	wc->status = c->status;
	wc->opcode = c->opcode == SIRDMA_WC_FAST_REG ? IB_WC_REG_MR : c->opcode;
	wc->vendor_err = c->vendor_err;
	wc->byte_len = c->byte_len;
	wc->qp = &qp->ibqp;
	wc->src_qp = c->src_qp;
	wc->port_num = 1;
	if (c->flags & SIRDMA_WC_HAS_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = c->imm;
	} else if (c->flags & SIRDMA_WC_HAS_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = cpu_to_be32(c->imm);
	}
	if (c->flags & SIRDMA_WC_HAS_GRH)
		sirdma_wc_add_source(c, wc);
}

/*
 * The QP of completion @at, which becomes @c. NULL: the request of the completion is gone. A
 * destroyed QP leaves the table, then its completions are forgotten, and then another QP may get
 * its number.
 */
static struct sirdma_qp *sirdma_kcq_decode(struct sirdma_dev *dev, const struct sirdma_cqe_at *at,
					   struct sirdma_wc *c)
{
	struct sirdma_kqp *kqp;
	struct sirdma_obj *obj;

	if (sirdma_cqe_shared(at)) {
		obj = sirdma_cqe_decode_shared(at, c) ? sirdma_obj_peek(&dev->qps, c->qp_num) :
							NULL;
		return obj ? container_of(obj, struct sirdma_qp, obj) : NULL;
	}
	kqp = (struct sirdma_kqp *)(uintptr_t)sirdma_get64(&at->cqe->compl_ctx);
	return kqp && sirdma_cqe_decode(at, &kqp->sq, &kqp->rq, c) ? kqp->qp : NULL;
}

int sirdma_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc)
{
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_kcq *kcq = to_scq(ibcq)->kcq;
	struct sirdma_cqe_at at;
	struct sirdma_qp *qp;
	struct sirdma_wc c;
	unsigned long flags;
	int polled = 0;
	bool reset;

	/* Only the user's provider reads a user's ring. */
	if (!kcq)
		return -EOPNOTSUPP;
	spin_lock_irqsave(&kcq->lock, flags);
	/*
	 * Read this first: requests that the device completed before its reset must not be flushed.
	 */
	reset = sirdma_dev_was_reset(dev);
	while (polled < num_entries && sirdma_cq_peek(&kcq->ring, &at)) {
		qp = sirdma_kcq_decode(dev, &at, &c);
		if (qp)
			sirdma_wc_to_verbs(&c, qp, &wc[polled++]);
		sirdma_cq_consume(&kcq->ring, &at);
		sirdma_cq_publish_some(&kcq->ring);
	}
	sirdma_cq_publish(&kcq->ring);
	if (unlikely(reset))
		polled += sirdma_kcq_flush(kcq, num_entries - polled, &wc[polled]);
	spin_unlock_irqrestore(&kcq->lock, flags);
	return polled;
}

int sirdma_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct sirdma_kcq *kcq = to_scq(ibcq)->kcq;
	struct sirdma_cqe_at at;
	unsigned long irq;
	int missed = 0;

	if (!kcq) {
		/*
		 * The user's provider has written the arm word, which has the flags. It makes this call
		 * if there may be a completion already.
		 */
		sirdma_wr32(to_sdev(ibcq->device)->hw.bus, SIRDMA_REG_CQARM, to_scq(ibcq)->id);
		return 0;
	}
	spin_lock_irqsave(&kcq->lock, irq);
	/* A pending request for any completion includes solicited ones, so the request stays. */
	if (sirdma_get64(&kcq->ring.shadow->arm) & SIRDMA_CQ_SHADOW_ARM_NEXT)
		solicited = false;
	sirdma_cq_put_arm(kcq->ring.shadow, ++kcq->arm_seq, solicited);
	/*
	 * This barrier pairs with the device's fence between its write of a CQE and its read of the
	 * arm word: either the peek below sees the completion, or the device sees the arming.
	 */
	smp_mb();
	if (flags & IB_CQ_REPORT_MISSED_EVENTS)
		missed =
			sirdma_cq_peek(&kcq->ring, &at) ||
			(sirdma_dev_was_reset(to_sdev(ibcq->device)) && sirdma_kcq_must_flush(kcq));
	spin_unlock_irqrestore(&kcq->lock, irq);
	return missed;
}

/* Shared receive queues */

struct sirdma_ksrq *sirdma_ksrq_create(struct sirdma_dev *dev, u32 quanta, u32 max_sge)
{
	u32 ring_bytes = sirdma_wq_bytes(quanta);
	struct sirdma_ksrq *ksrq;
	int err;

	ksrq = kzalloc(sizeof(*ksrq), GFP_KERNEL);
	if (!ksrq)
		return ERR_PTR(-ENOMEM);
	err = dev->bus->ops->dma_alloc(dev->bus, ring_bytes + SIRDMA_SHADOW_SIZE, &ksrq->mem);
	if (err) {
		kfree(ksrq);
		return ERR_PTR(err);
	}
	spin_lock_init(&ksrq->lock);
	ksrq->queue.ring = ksrq->mem.va;
	ksrq->queue.shadow = ksrq->mem.va + ring_bytes;
	ksrq->queue.shift = sirdma_rq_shift(max_sge);
	ksrq->queue.size = quanta >> ksrq->queue.shift;
	ksrq->queue.max_sge = max_sge;
	return ksrq;
}

void sirdma_ksrq_destroy(struct sirdma_dev *dev, struct sirdma_ksrq *ksrq)
{
	dev->bus->ops->dma_free(dev->bus, &ksrq->mem);
	kfree(ksrq);
}

int sirdma_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr)
{
	struct sirdma_ksrq *ksrq = to_ssrq(ibsrq)->ksrq;
	unsigned long flags;
	int err = 0;

	if (!ksrq) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	spin_lock_irqsave(&ksrq->lock, flags);
	for (; wr; wr = wr->next) {
		err = sirdma_shared_rq_take(&ksrq->queue, wr->wr_id,
					    sirdma_sges_from_verbs(wr->sg_list), wr->num_sge);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&ksrq->lock, flags);
	return err;
}

/* Queue pairs */

static struct sirdma_qp_places sirdma_kqp_layout(const struct sirdma_qp_size *size)
{
	return sirdma_qp_layout(size->sq_quanta, size->rq_quanta, false);
}

static void sirdma_kqp_init_queues(struct sirdma_kqp *kqp, const struct sirdma_qp_size *size)
{
	const struct sirdma_qp_places places = sirdma_kqp_layout(size);
	const struct ib_qp_cap *cap = &kqp->qp->cap;
	struct sirdma_sq *sq = &kqp->sq;
	struct sirdma_rq *rq = &kqp->rq;

	spin_lock_init(&kqp->sq_lock);
	sq->ring = kqp->mem.va;
	sq->size = size->sq_quanta;
	sq->max_sge = cap->max_send_sge;
	sq->max_read_sge = SIRDMA_MAX_READ_SGE;
	sq->max_inline = cap->max_inline_data;
	sq->qp_type = sirdma_send_on(kqp->qp->type);
	sq->signal_all = kqp->qp->sig_all;
	sirdma_sq_init(sq);

	spin_lock_init(&kqp->rq_lock);
	rq->ring = kqp->mem.va + places.rq;
	rq->size = size->rq_quanta;
	rq->stride = 1u << size->rq_shift;
	rq->max_sge = cap->max_recv_sge;
	sirdma_rq_init(rq);

	kqp->shadow = kqp->mem.va + places.shadow;
	kqp->state = IB_QPS_RESET;
}

struct sirdma_kqp *sirdma_kqp_create(struct sirdma_dev *dev, struct sirdma_qp *qp,
				     const struct sirdma_qp_size *size)
{
	struct sirdma_kqp *kqp;
	int err = -ENOMEM;

	kqp = kzalloc(sizeof(*kqp), GFP_KERNEL);
	if (!kqp)
		return ERR_PTR(err);
	kqp->qp = qp;
	kqp->sq.slots = kvcalloc(size->sq_quanta, sizeof(*kqp->sq.slots), GFP_KERNEL);
	kqp->rq.wr_ids = kvcalloc(size->rq_quanta, sizeof(*kqp->rq.wr_ids), GFP_KERNEL);
	if (!kqp->sq.slots || !kqp->rq.wr_ids)
		goto err_free;
	err = dev->bus->ops->dma_alloc(dev->bus, sirdma_kqp_layout(size).end, &kqp->mem);
	if (err)
		goto err_free;
	sirdma_kqp_init_queues(kqp, size);
	sirdma_kqp_join_cqs(kqp);
	return kqp;

err_free:
	kvfree(kqp->rq.wr_ids);
	kvfree(kqp->sq.slots);
	kfree(kqp);
	return ERR_PTR(err);
}

static void sirdma_kqp_forget(struct sirdma_kqp *kqp)
{
	struct ib_qp *ibqp = &kqp->qp->ibqp;

	sirdma_kcq_forget(ibqp->send_cq, kqp);
	if (ibqp->recv_cq != ibqp->send_cq)
		sirdma_kcq_forget(ibqp->recv_cq, kqp);
}

void sirdma_kqp_destroy(struct sirdma_dev *dev, struct sirdma_kqp *kqp)
{
	sirdma_kqp_leave_cqs(kqp);
	sirdma_kqp_forget(kqp);
	dev->bus->ops->dma_free(dev->bus, &kqp->mem);
	kvfree(kqp->rq.wr_ids);
	kvfree(kqp->sq.slots);
	kfree(kqp);
}

void sirdma_kqp_locate_rings(const struct sirdma_kqp *kqp, struct sirdma_qp_create *create)
{
	const void *base = kqp->mem.va;

	create->compl_ctx = (uintptr_t)kqp;
	create->sq.addr = kqp->mem.pa;
	create->rq.addr = kqp->mem.pa + ((void *)kqp->rq.ring - base);
	create->shadow = kqp->mem.pa + ((void *)kqp->shadow - base);
}

void sirdma_kqp_modified(struct sirdma_kqp *kqp, enum ib_qp_state state)
{
	unsigned long flags;

	WRITE_ONCE(kqp->state, state);
	if (state != IB_QPS_RESET)
		return;
	sirdma_kqp_forget(kqp);
	spin_lock_irqsave(&kqp->sq_lock, flags);
	sirdma_sq_reset(&kqp->sq);
	spin_unlock_irqrestore(&kqp->sq_lock, flags);
	spin_lock_irqsave(&kqp->rq_lock, flags);
	sirdma_rq_reset(&kqp->rq);
	spin_unlock_irqrestore(&kqp->rq_lock, flags);
}

/* Wake the device if it sleeps. @asleep is the word of the shadow area that tells. */
static void sirdma_kqp_ring_doorbell(const struct sirdma_kqp *kqp, const __le64 *asleep)
{
	struct sirdma_dev *dev = to_sdev(kqp->qp->ibqp.device);

	/*
	 * This barrier pairs with the device's fence between writing "asleep" and its last read of
	 * the ring, and with that of sirdma_kflush_start().
	 */
	smp_mb();
	if (sirdma_get64(asleep))
		sirdma_doorbell(dev->bus, kqp->qp->ibqp.qp_num);
	if (unlikely(sirdma_dev_was_reset(dev)))
		queue_work(sirdma_rescue_wq, &dev->kflush);
}

/* IBTA C10-96: a send is refused before RTS. In the error state it is accepted and flushed. */
static bool sirdma_kqp_may_send(const struct sirdma_kqp *kqp)
{
	switch (READ_ONCE(kqp->state)) {
	case IB_QPS_RTS:
	case IB_QPS_SQD:
	case IB_QPS_SQE:
	case IB_QPS_ERR:
		return true;
	default:
		return false;
	}
}

/*
 * ib_drain_sq() posts an RDMA WRITE to a queue pair of any type. In the error state only its
 * completion matters, so a queue pair of datagrams gets a SEND.
 */
static bool sirdma_kqp_is_drain(const struct sirdma_kqp *kqp, const struct ib_send_wr *wr)
{
	return kqp->sq.qp_type == SIRDMA_SEND_ON_UD && READ_ONCE(kqp->state) == IB_QPS_ERR &&
	       !wr->num_sge;
}

/* Set the destination of a request to a datagram QP. */
static int sirdma_kqp_set_dest(const struct sirdma_kqp *kqp, const struct ib_send_wr *wr,
			       struct sirdma_send *send)
{
	const struct ib_ud_wr *ud = ud_wr(wr);

	/* Requests of other kinds have no address handle in this place. */
	if (wr->opcode != IB_WR_SEND && wr->opcode != IB_WR_SEND_WITH_IMM)
		return -EINVAL;
	if (!ud->ah || ud->ah->pd != kqp->qp->ibqp.pd || ud->pkey_index)
		return -EINVAL;
	send->remote_addr = sirdma_send_dest(ud->remote_qpn, ud->remote_qkey);
	send->key = to_sah(ud->ah)->idx;
	return 0;
}

/*
 * This is a function of its own, because the compiler may zero @reg first, which costs other
 * requests time.
 */
static noinline int sirdma_kqp_post_reg(struct sirdma_kqp *kqp, const struct ib_send_wr *wr,
					struct sirdma_send *send)
{
	struct sirdma_fast_reg reg;
	int err;

	if (kqp->sq.qp_type == SIRDMA_SEND_ON_UD)
		return -EINVAL;
	err = sirdma_fast_reg_fill(kqp->qp, reg_wr(wr), &reg);
	if (err)
		return err;
	send->opcode = SIRDMA_WR_FAST_REG;
	send->reg = &reg;
	return sirdma_sq_take(&kqp->sq, send);
}

static int sirdma_kqp_post_one(struct sirdma_kqp *kqp, const struct ib_send_wr *wr)
{
	struct sirdma_send send = {
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
		.sges = sirdma_sges_from_verbs(wr->sg_list),
		.num_sge = wr->num_sge,
	};
	int err;

	switch ((u32)wr->opcode) {
	case IB_WR_RDMA_WRITE_WITH_IMM:
		send.imm = be32_to_cpu(wr->ex.imm_data);
		fallthrough;
	case IB_WR_RDMA_WRITE:
		if (sirdma_kqp_is_drain(kqp, wr)) {
			send.opcode = IB_WR_SEND;
			return sirdma_sq_take(&kqp->sq, &send);
		}
		fallthrough;
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_WRITE:
		send.remote_addr = rdma_wr(wr)->remote_addr;
		send.key = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		send.remote_addr = atomic_wr(wr)->remote_addr;
		send.key = atomic_wr(wr)->rkey;
		sirdma_send_set_operands(&send, atomic_wr(wr)->compare_add, atomic_wr(wr)->swap);
		break;
	case IB_WR_SEND_WITH_IMM:
		send.imm = be32_to_cpu(wr->ex.imm_data);
		break;
	case IB_WR_RDMA_READ_WITH_INV:
		send.opcode = SIRDMA_WR_READ_INV;
		send.remote_addr = rdma_wr(wr)->remote_addr;
		send.key = rdma_wr(wr)->rkey;
		break;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		send.key = wr->ex.invalidate_rkey;
		break;
	case IB_WR_REG_MR:
		return sirdma_kqp_post_reg(kqp, wr, &send);
	case IB_WR_SEND:
		break;
	default:
		/* The device attributes offer no integrity regions and no masked atomics. */
		return -EOPNOTSUPP;
	}
	if (kqp->sq.qp_type == SIRDMA_SEND_ON_UD) {
		err = sirdma_kqp_set_dest(kqp, wr, &send);
		if (err)
			return err;
	}
	return sirdma_sq_take(&kqp->sq, &send);
}

int sirdma_kqp_post_send(struct sirdma_kqp *kqp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad_wr)
{
	unsigned long flags;
	bool posted = false;
	int err = 0;

	if (!sirdma_kqp_may_send(kqp)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&kqp->sq_lock, flags);
	for (; wr; wr = wr->next) {
		err = sirdma_kqp_post_one(kqp, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		posted |= sirdma_sq_publish(&kqp->sq);
	}
	spin_unlock_irqrestore(&kqp->sq_lock, flags);
	if (posted)
		sirdma_kqp_ring_doorbell(kqp, &kqp->shadow->need_kick);
	return err;
}

int sirdma_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad_wr)
{
	struct sirdma_kqp *kqp = to_sqp(ibqp)->kqp;
	unsigned long flags;
	bool posted = false;
	int err = 0;

	if (!kqp || READ_ONCE(kqp->state) == IB_QPS_RESET || !kqp->rq.size) {
		*bad_wr = wr;
		return kqp ? -EINVAL : -EOPNOTSUPP;
	}
	spin_lock_irqsave(&kqp->rq_lock, flags);
	for (; wr; wr = wr->next) {
		err = sirdma_rq_take(&kqp->rq, wr->wr_id, sirdma_sges_from_verbs(wr->sg_list),
				     wr->num_sge);
		if (err) {
			*bad_wr = wr;
			break;
		}
		posted = true;
	}
	spin_unlock_irqrestore(&kqp->rq_lock, flags);
	if (posted)
		sirdma_kqp_ring_doorbell(kqp, &kqp->shadow->rq_need_kick);
	return err;
}
