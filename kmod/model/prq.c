// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Page request queue. */
#include "prq.h"

#include "dev.h"
#include "qp.h"
#include "sirdma/prq.h"
#include "transport.h"

#define PRQ_TIME_SHIFT 20

void snic_prq_init(struct snic_dev *dev)
{
	port_lock_init(&dev->prq.lock);
}

/* The caller owns the queue's creation and destruction: commands, or the reset. */
static void prq_clear(struct snic_dev *dev)
{
	struct snic_prq *prq = &dev->prq;

	port_lock(&prq->lock);
	WRITE_ONCE(prq->entries, 0);
	prq->pending = 0;
	port_unlock(&prq->lock);
	snic_aeq_detach(dev, &prq->async);
}

void snic_prq_reset(struct snic_dev *dev)
{
	prq_clear(dev);
}

void snic_prq_ack(struct snic_dev *dev, u32 count)
{
	struct snic_prq *prq = &dev->prq;

	port_lock(&prq->lock);
	prq->pending -= min(count, prq->pending);
	port_unlock(&prq->lock);
}

/* Write one element. The caller holds the lock, and there is room. */
static void prq_write(struct snic_dev *dev, u64 block, u64 asker)
{
	struct snic_prq *prq = &dev->prq;
	struct sirdma_page_request *request;

	request = port_dma_ptr(dev->dma, prq->addr + (u64)prq->prod * sizeof(*request),
			       sizeof(*request));
	if (!request) {
		snic_fault(dev);
		return;
	}
	WRITE_ONCE(request->block, cpu_to_le64(block));
	/* Pairs with the consumer's read of the valid bit. */
	smp_store_release(&request->qp,
			  cpu_to_le64(asker | SIRDMA_PREP(SIRDMA_PRQ_VALID, prq->polarity)));
	prq->pending++;
	if (++prq->prod == prq->entries) {
		prq->prod = 0;
		prq->polarity = !prq->polarity;
	}
}

static void prq_post(struct snic_dev *dev, u64 block, u64 asker)
{
	struct snic_prq *prq = &dev->prq;
	bool written;

	port_lock(&prq->lock);
	written = prq->entries && prq->pending < prq->entries;
	if (written)
		prq_write(dev, block, asker);
	port_unlock(&prq->lock);
	/* Without room the driver has not handled the requests before: the QP will ask again. */
	snic_stat_inc(dev, written ? SIRDMA_STAT_PAGE_REQUESTS : SIRDMA_STAT_PAGE_REQUESTS_LOST);
	if (written)
		snic_aeq_post(dev, &prq->async, SIRDMA_AE_PAGE_REQUEST, SIRDMA_AE_SRC_NONE, 0,
			      SIRDMA_QPS_RESET);
}

/*
 * A sum that changes when the requester sends a new packet or has one acknowledged, or when the
 * responder accepts one or sends a new READ response. An unreliable connection goes on to the next PSN
 * also when it drops a message, so there the number of complete messages counts. The responder of
 * datagrams, which have no sequence, forgets the wait itself when it places one.
 */
static u32 prq_progress(const struct snic_qp *qp, enum snic_side side)
{
	if (side == SNIC_REQUESTER)
		return qp->req.una + qp->req.max;
	if (qp->transport == &snic_uc)
		return qp->resp.msn;
	return qp->resp.epsn + qp->resp.rd_new;
}

/* Has @side of @qp asked before, and made no progress since? */
static bool prq_waits(const struct snic_qp *qp, enum snic_side side)
{
	return qp->asks.since[side] && qp->asks.progress[side] == prq_progress(qp, side);
}

/*
 * Is @mark the answer to a request for what @side of @qp waits for? An answer to an earlier request is
 * stale: that request may have been made twice, and there may be memory by now.
 */
static bool prq_is_answer(const struct snic_qp *qp, enum snic_side side, u64 mark)
{
	return prq_waits(qp, side) &&
	       SIRDMA_GET(SIRDMA_PBLE_ERROR_GEN, mark) == qp->asks.gen[side] &&
	       SIRDMA_GET(SIRDMA_PBLE_ERROR_QPN, mark) == qp->obj.id;
}

static u32 prq_next_gen(struct snic_prq *prq)
{
	u32 gen;

	port_lock(&prq->lock);
	gen = prq->gen % (u32)SIRDMA_GET(SIRDMA_PRQ_GEN, ~0ull) + 1; /* 0 is none */
	prq->gen = gen;
	port_unlock(&prq->lock);
	return gen;
}

/* The time, in units of 2^PRQ_TIME_SHIFT ns, not 0. */
static u32 prq_now(const struct snic_qp *qp)
{
	return (u32)(port_now_ns(qp->dev->clock) >> PRQ_TIME_SHIFT) | 1;
}

void snic_prq_waits_from_now(struct snic_qp *qp, enum snic_side side)
{
	if (!qp->asks.since[side] || prq_waits(qp, side))
		return;
	qp->asks.progress[side] = prq_progress(qp, side);
	qp->asks.since[side] = prq_now(qp);
}

/* @side of @qp makes a request. Returns its SIRDMA_PRQ_WAITED. */
static u64 prq_waited(struct snic_qp *qp, enum snic_side side)
{
	const u32 now = prq_now(qp);
	u32 units;

	if (prq_waits(qp, side)) {
		units = (now - qp->asks.since[side]) >> (SIRDMA_PRQ_WAITED_SHIFT - PRQ_TIME_SHIFT);
		return min_t(u64, 1 + units, SIRDMA_GET(SIRDMA_PRQ_WAITED, ~0ull));
	}
	qp->asks.progress[side] = prq_progress(qp, side);
	qp->asks.since[side] = now;
	qp->asks.gen[side] = prq_next_gen(&qp->dev->prq);
	return 0;
}

enum sirdma_ae_code snic_prq_missed(struct snic_qp *qp, enum snic_side side,
				    const struct snic_mr *mr, u64 va, u32 len, enum snic_mem mem)
{
	u64 off = va - mr->map.base + mr->map.first_block_off;
	u64 first = off >> mr->map.block_shift, last = (off + len - 1) >> mr->map.block_shift;
	u64 count, asker, waited;

	if (mem == SNIC_MEM_FAULT)
		return SIRDMA_AE_QP_CATASTROPHIC;
	if (mem == SNIC_MEM_ABSENT)
		snic_stat_inc(qp->dev, SIRDMA_STAT_MR_ABSENT);
	if (mem == SNIC_MEM_ERROR) {
		if (prq_is_answer(qp, side, snic_mr_error_mark(qp->dev, mr, va)))
			snic_stat_inc(qp->dev, SIRDMA_STAT_PAGE_ERRORS);
		else
			mem = SNIC_MEM_ABSENT;
	}
	if (READ_ONCE(qp->dev->prq.entries)) {
		waited = prq_waited(qp, side);
		count = min_t(u64, last - first + 1, SIRDMA_GET(SIRDMA_PRQ_COUNT, ~0ull));
		asker = SIRDMA_PREP(SIRDMA_PRQ_QPN, qp->obj.id) |
			SIRDMA_PREP(SIRDMA_PRQ_GEN, qp->asks.gen[side]) |
			SIRDMA_PREP(SIRDMA_PRQ_COUNT, count) |
			SIRDMA_PREP(SIRDMA_PRQ_WAITED, waited);
		if (mem == SNIC_MEM_ERROR)
			asker |= SIRDMA_PRQ_FAILED;
		prq_post(qp->dev,
			 SIRDMA_PREP(SIRDMA_PRQ_PBLE, mr->map.first_pble) |
				 SIRDMA_PREP(SIRDMA_PRQ_BLOCK, mr->map.first_block + first),
			 asker);
	}
	return mem == SNIC_MEM_ABSENT ? SIRDMA_AE_NONE : SIRDMA_AE_AMP_BOUNDS_VIOLATION;
}

/*
 * All uses of what a PBLE named, if it may change, are within one hold of the lock of a queue pair: a burst
 * that is sent and a batch that is received keep their runs no longer. So it is enough that each hold of
 * the lock of a queue pair that can use a region of this protection domain has ended.
 */
void snic_pble_sync(struct snic_dev *dev, u32 pd)
{
	snic_domain_sync(dev, pd);
	snic_finish_references(dev);
}

/* Commands */

u32 snic_cqp_create_prq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_prq *cmd = (const void *)wqe;
	u64 entries = le64_to_cpu(cmd->size), addr = le64_to_cpu(cmd->addr);
	struct snic_prq *prq = &dev->prq;
	u32 status;

	if (prq->entries)
		return SIRDMA_CQP_IN_USE;
	status = snic_eq_check(dev, addr, entries, sizeof(struct sirdma_page_request));
	if (status)
		return status;
	snic_aeq_events_init(&prq->async, 0, le64_to_cpu(cmd->ctx));
	port_lock(&prq->lock);
	prq->addr = addr;
	prq->prod = 0;
	prq->pending = 0;
	prq->polarity = true;
	WRITE_ONCE(prq->entries, (u32)entries);
	port_unlock(&prq->lock);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_destroy_prq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	if (!dev->prq.entries)
		return SIRDMA_CQP_NO_OBJECT;
	prq_clear(dev);
	return SIRDMA_CQP_OK;
}
