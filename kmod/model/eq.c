// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion and asynchronous event queues. */
#include "eq.h"
#include "dev.h"
#include "ring.h"

void snic_eq_init(struct snic_dev *dev)
{
	u32 i;

	port_lock_init(&dev->aeq.lock);
	for (i = 0; i < dev->cfg.max_ceqs; i++) {
		port_lock_init(&dev->ceqs[i].lock);
		dev->ceqs[i].id = i;
	}
}

/* Helpers for the list of due events. The caller holds the lock. */
static void ceq_list_add(struct snic_ceq *ceq, struct snic_ceq_event *event)
{
	event->due = true;
	event->next = NULL;
	event->prev = ceq->last;
	if (ceq->last)
		ceq->last->next = event;
	else
		ceq->first = event;
	ceq->last = event;
}

static void ceq_list_del(struct snic_ceq *ceq, struct snic_ceq_event *event)
{
	if (event->prev)
		event->prev->next = event->next;
	else
		ceq->first = event->next;
	if (event->next)
		event->next->prev = event->prev;
	else
		ceq->last = event->prev;
	event->due = false;
}

static void ceq_clear(struct snic_ceq *ceq)
{
	port_lock(&ceq->lock);
	while (ceq->first)
		ceq_list_del(ceq, ceq->first);
	ceq->entries = 0;
	ceq->cqs = 0;
	ceq->pending = 0;
	port_unlock(&ceq->lock);
}

static void aeq_clear(struct snic_aeq *aeq)
{
	port_lock(&aeq->lock);
	aeq->entries = 0;
	aeq->pending = 0;
	aeq->overflow = false;
	aeq->backlog_len = 0;
	port_unlock(&aeq->lock);
}

void snic_eq_reset(struct snic_dev *dev)
{
	u32 i;

	aeq_clear(&dev->aeq);
	for (i = 0; i < dev->cfg.max_ceqs; i++)
		ceq_clear(&dev->ceqs[i]);
}

/* Completion events */

bool snic_ceq_attach(struct snic_dev *dev, u32 ceq_id)
{
	struct snic_ceq *ceq;
	bool exists;

	if (ceq_id >= dev->cfg.max_ceqs)
		return false;
	ceq = &dev->ceqs[ceq_id];
	port_lock(&ceq->lock);
	exists = ceq->entries;
	if (exists)
		ceq->cqs++;
	port_unlock(&ceq->lock);
	return exists;
}

void snic_ceq_detach(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event)
{
	struct snic_ceq *ceq = &dev->ceqs[ceq_id];

	port_lock(&ceq->lock);
	if (event->due)
		ceq_list_del(ceq, event);
	if (ceq->cqs)
		ceq->cqs--;
	port_unlock(&ceq->lock);
}

/* Write one element. The caller holds the lock, and there is room. */
static bool ceq_write(struct snic_dev *dev, struct snic_ceq *ceq, u64 cq_ctx)
{
	struct sirdma_ceqe *ceqe;
	u64 val;

	ceqe = port_dma_ptr(dev->dma, ceq->addr + (u64)ceq->prod * sizeof(*ceqe), sizeof(*ceqe));
	if (!ceqe) {
		snic_fault(dev);
		return false;
	}
	val = SIRDMA_PREP(SIRDMA_CEQE_CQCTX, cq_ctx) |
	      SIRDMA_PREP(SIRDMA_CEQE_VALID, ceq->polarity);
	/*
	 * A release: pairs with the consumer's read of the valid bit, after which it sees the
	 * CQEs.
	 */
	smp_store_release(&ceqe->val, cpu_to_le64(val));
	ceq->pending++;
	if (++ceq->prod == ceq->entries) {
		ceq->prod = 0;
		ceq->polarity = !ceq->polarity;
	}
	return true;
}

static void ceq_tell(struct snic_dev *dev, u32 ceq_id, u32 events)
{
	if (!events)
		return;
	snic_stat_add(dev, SIRDMA_STAT_CEQES, events);
	snic_irq(dev, SIRDMA_VECTOR_CEQ(ceq_id));
}

void snic_ceq_post(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event)
{
	struct snic_ceq *ceq = &dev->ceqs[ceq_id];
	u32 written = 0;

	port_lock(&ceq->lock);
	if (ceq->entries && !event->due) {
		if (ceq->pending < ceq->entries)
			written = ceq_write(dev, ceq, event->cq_ctx);
		else
			ceq_list_add(ceq, event);
	}
	port_unlock(&ceq->lock);
	ceq_tell(dev, ceq_id, written);
}

void snic_ceq_ack(struct snic_dev *dev, u32 val)
{
	u32 id = SIRDMA_GET(SIRDMA_CEQACK_ID, val), count = SIRDMA_GET(SIRDMA_CEQACK_COUNT, val);
	struct snic_ceq_event *event;
	struct snic_ceq *ceq;
	u32 written = 0;

	if (id >= dev->cfg.max_ceqs)
		return;
	ceq = &dev->ceqs[id];
	port_lock(&ceq->lock);
	ceq->pending -= min(count, ceq->pending);
	while (ceq->first && ceq->pending < ceq->entries) {
		event = ceq->first;
		ceq_list_del(ceq, event);
		if (!ceq_write(dev, ceq, event->cq_ctx))
			break;
		written++;
	}
	port_unlock(&ceq->lock);
	ceq_tell(dev, id, written);
}

/* Asynchronous events */

static void aeq_write(struct snic_dev *dev, struct snic_aeq *aeq, const struct sirdma_aeqe *event)
{
	struct sirdma_aeqe *aeqe;
	u64 val = le64_to_cpu(event->val);

	aeqe = port_dma_ptr(dev->dma, aeq->addr + (u64)aeq->prod * sizeof(*aeqe), sizeof(*aeqe));
	if (!aeqe) {
		snic_fault(dev);
		return;
	}
	if (aeq->overflow)
		val |= SIRDMA_AEQE_OVERFLOW;
	aeq->overflow = false;
	val |= SIRDMA_PREP(SIRDMA_AEQE_VALID, aeq->polarity);
	WRITE_ONCE(aeqe->event_ctx, event->event_ctx);
	/* Pairs with the consumer's read of the valid bit. */
	smp_store_release(&aeqe->val, cpu_to_le64(val));
	aeq->pending++;
	if (++aeq->prod == aeq->entries) {
		aeq->prod = 0;
		aeq->polarity = !aeq->polarity;
	}
	snic_stat_inc(dev, SIRDMA_STAT_AEQES);
}

/* Does the event report the failure of an object, which nothing reports again? */
static bool ae_must_arrive(enum sirdma_ae_code code)
{
	return code != SIRDMA_AE_CONNECTION_ESTABLISHED && code != SIRDMA_AE_BAD_COMMAND;
}

/* True when the event was written or kept for later. The caller holds the lock. */
static bool aeq_add(struct snic_dev *dev, struct snic_aeq *aeq, enum sirdma_ae_code code,
		    const struct sirdma_aeqe *event)
{
	if (!aeq->backlog_len && aeq->pending < aeq->entries) {
		aeq_write(dev, aeq, event);
		return true;
	}
	if (!ae_must_arrive(code) || aeq->backlog_len == SNIC_AEQ_BACKLOG)
		return false;
	aeq->backlog[aeq->backlog_len++] = *event;
	return true;
}

void snic_aeq_post(struct snic_dev *dev, enum sirdma_ae_code code, enum sirdma_ae_source src,
		   u32 id, u64 event_ctx, u32 wqe_idx, enum sirdma_qp_state state)
{
	struct snic_aeq *aeq = &dev->aeq;
	struct sirdma_aeqe event = {
		.event_ctx = cpu_to_le64(event_ctx),
		.val = cpu_to_le64(SIRDMA_PREP(SIRDMA_AEQE_QPCQID_LOW, id) |
				   SIRDMA_PREP(SIRDMA_AEQE_QPCQID_HI, id >> 18) |
				   SIRDMA_PREP(SIRDMA_AEQE_WQDESCIDX, wqe_idx) |
				   SIRDMA_PREP(SIRDMA_AEQE_AECODE, code) |
				   SIRDMA_PREP(SIRDMA_AEQE_AESRC, src) |
				   SIRDMA_PREP(SIRDMA_AEQE_QPSTATE, state)),
	};
	bool exists;

	port_lock(&aeq->lock);
	exists = aeq->entries;
	if (exists && !aeq_add(dev, aeq, code, &event)) {
		aeq->overflow = true;
		snic_stat_inc(dev, SIRDMA_STAT_AEQ_OVERFLOWS);
	}
	port_unlock(&aeq->lock);
	if (exists)
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
}

void snic_aeq_ack(struct snic_dev *dev, u32 count)
{
	struct snic_aeq *aeq = &dev->aeq;
	u32 n = 0;

	port_lock(&aeq->lock);
	aeq->pending -= min(count, aeq->pending);
	while (n < aeq->backlog_len && aeq->pending < aeq->entries)
		aeq_write(dev, aeq, &aeq->backlog[n++]);
	aeq->backlog_len -= n;
	memmove(aeq->backlog, &aeq->backlog[n], aeq->backlog_len * sizeof(aeq->backlog[0]));
	port_unlock(&aeq->lock);
	if (n)
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
}

void snic_eq_unmask(struct snic_dev *dev, u32 unmasked)
{
	u32 i;

	if ((unmasked & (1u << SIRDMA_VECTOR_AEQ)) && READ_ONCE(dev->aeq.pending))
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
	for (i = 0; i < dev->cfg.max_ceqs && SIRDMA_VECTOR_CEQ(i) < 32; i++)
		if ((unmasked & (1u << SIRDMA_VECTOR_CEQ(i))) && READ_ONCE(dev->ceqs[i].pending))
			snic_irq(dev, SIRDMA_VECTOR_CEQ(i));
}

/* Commands */

static u32 eq_check(struct snic_dev *dev, u64 addr, u64 entries, u32 elem)
{
	if (entries < SNIC_EQ_MIN_ENTRIES || entries > SNIC_EQ_MAX_ENTRIES)
		return SIRDMA_CQP_BAD_PARAM;
	if (addr % SNIC_RING_ALIGN || addr + entries * elem < addr ||
	    !port_dma_ptr(dev->dma, addr, entries * elem))
		return SIRDMA_CQP_BAD_ADDRESS;
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_create_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_ceq *cmd = (const void *)wqe;
	u32 id = SIRDMA_GET(SIRDMA_CQP_CEQ_ID, le64_to_cpu(cmd->hdr));
	u64 entries = le64_to_cpu(cmd->size), addr = le64_to_cpu(cmd->addr);
	struct snic_ceq *ceq;
	u32 status;

	if (id >= dev->cfg.max_ceqs)
		return SIRDMA_CQP_BAD_INDEX;
	ceq = &dev->ceqs[id];
	if (ceq->entries)
		return SIRDMA_CQP_IN_USE;
	status = eq_check(dev, addr, entries, sizeof(struct sirdma_ceqe));
	if (status)
		return status;
	port_lock(&ceq->lock);
	ceq->addr = addr;
	ceq->entries = entries;
	ceq->prod = 0;
	ceq->pending = 0;
	ceq->polarity = true;
	port_unlock(&ceq->lock);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_destroy_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u32 id = SIRDMA_GET(SIRDMA_CQP_CEQ_ID, le64_to_cpu(wqe->hdr));

	if (id >= dev->cfg.max_ceqs)
		return SIRDMA_CQP_BAD_INDEX;
	if (!dev->ceqs[id].entries)
		return SIRDMA_CQP_NO_OBJECT;
	if (dev->ceqs[id].cqs)
		return SIRDMA_CQP_IN_USE;
	ceq_clear(&dev->ceqs[id]);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_create_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_aeq *cmd = (const void *)wqe;
	u64 entries = le64_to_cpu(cmd->size), addr = le64_to_cpu(cmd->addr);
	struct snic_aeq *aeq = &dev->aeq;
	u32 status;

	if (aeq->entries)
		return SIRDMA_CQP_IN_USE;
	status = eq_check(dev, addr, entries, sizeof(struct sirdma_aeqe));
	if (status)
		return status;
	port_lock(&aeq->lock);
	aeq->addr = addr;
	aeq->entries = entries;
	aeq->prod = 0;
	aeq->pending = 0;
	aeq->polarity = true;
	port_unlock(&aeq->lock);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_destroy_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	if (!dev->aeq.entries)
		return SIRDMA_CQP_NO_OBJECT;
	aeq_clear(&dev->aeq);
	return SIRDMA_CQP_OK;
}
