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

/* The caller holds the queue's lock. */
static void eq_list_add(struct snic_eq_list *list, struct snic_eq_link *link)
{
	link->next = NULL;
	link->prev = list->last;
	if (list->last)
		list->last->next = link;
	else
		list->first = link;
	list->last = link;
}

static void eq_list_del(struct snic_eq_list *list, struct snic_eq_link *link)
{
	if (link->prev)
		link->prev->next = link->next;
	else
		list->first = link->next;
	if (link->next)
		link->next->prev = link->prev;
	else
		list->last = link->prev;
}

/* The first event that waits for room, or NULL. The caller holds the lock. */
static struct snic_ceq_event *ceq_first(struct snic_ceq *ceq)
{
	struct snic_eq_link *link = ceq->waiting.first;

	return link ? container_of(link, struct snic_ceq_event, link) : NULL;
}

static void ceq_wait(struct snic_ceq *ceq, struct snic_ceq_event *event)
{
	event->due = true;
	eq_list_add(&ceq->waiting, &event->link);
}

static void ceq_unwait(struct snic_ceq *ceq, struct snic_ceq_event *event)
{
	event->due = false;
	eq_list_del(&ceq->waiting, &event->link);
}

static void ceq_clear(struct snic_ceq *ceq)
{
	struct snic_ceq_event *event;

	port_lock(&ceq->lock);
	while ((event = ceq_first(ceq)))
		ceq_unwait(ceq, event);
	ceq->entries = 0;
	ceq->cqs = 0;
	ceq->pending = 0;
	port_unlock(&ceq->lock);
}

static struct snic_aeq_events *aeq_first(struct snic_aeq *aeq)
{
	struct snic_eq_link *link = aeq->waiting.first;

	return link ? container_of(link, struct snic_aeq_events, link) : NULL;
}

static void aeq_forget(struct snic_aeq *aeq, struct snic_aeq_events *events)
{
	events->count = 0;
	eq_list_del(&aeq->waiting, &events->link);
}

static void aeq_clear(struct snic_aeq *aeq)
{
	struct snic_aeq_events *events;

	port_lock(&aeq->lock);
	while ((events = aeq_first(aeq)))
		aeq_forget(aeq, events);
	aeq->entries = 0;
	aeq->acked = aeq->written;
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
		ceq_unwait(ceq, event);
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
	 * This store is a release. It pairs with the consumer's read of the valid bit, after which
	 * the consumer sees the CQEs.
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
			ceq_wait(ceq, event);
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
	while (ceq->pending < ceq->entries && (event = ceq_first(ceq))) {
		ceq_unwait(ceq, event);
		if (!ceq_write(dev, ceq, event->cq_ctx))
			break;
		written++;
	}
	port_unlock(&ceq->lock);
	ceq_tell(dev, id, written);
}

/* Asynchronous events */

/* Write one element. The caller holds the lock, and there is room. */
static void aeq_write(struct snic_dev *dev, struct snic_aeq *aeq, struct snic_aeq_events *events,
		      u64 val)
{
	struct sirdma_aeqe *aeqe;

	aeqe = port_dma_ptr(dev->dma, aeq->addr + (u64)aeq->prod * sizeof(*aeqe), sizeof(*aeqe));
	if (!aeqe) {
		snic_fault(dev);
		return;
	}
	val |= SIRDMA_PREP(SIRDMA_AEQE_VALID, aeq->polarity);
	WRITE_ONCE(aeqe->event_ctx, cpu_to_le64(events->ctx));
	/* Pairs with the consumer's read of the valid bit. */
	smp_store_release(&aeqe->val, cpu_to_le64(val));
	WRITE_ONCE(aeq->written, aeq->written + 1);
	events->last = aeq->written;
	if (++aeq->prod == aeq->entries) {
		aeq->prod = 0;
		aeq->polarity = !aeq->polarity;
	}
	snic_stat_inc(dev, SIRDMA_STAT_AEQES);
}

/* Is there room, and has the driver acknowledged the object's last element? */
static bool aeq_may_write(const struct snic_aeq *aeq, const struct snic_aeq_events *events)
{
	return aeq->written - aeq->acked < aeq->entries && events->last <= aeq->acked;
}

/* Two events of an object are of one kind if the later event adds no information. */
static u32 ae_kind(u64 val)
{
	switch (SIRDMA_GET(SIRDMA_AEQE_AECODE, val)) {
	case SIRDMA_AE_CONNECTION_ESTABLISHED:
		return 0;
	case SIRDMA_AE_QP_SUSPEND_COMPLETE:
		return 1;
	case SIRDMA_AE_LAST_WQE_REACHED:
		return 2;
	default: /* the object failed, or has a single kind of event */
		return SNIC_AE_KINDS - 1;
	}
}

static void aeq_wait(struct snic_dev *dev, struct snic_aeq *aeq, struct snic_aeq_events *events,
		     u64 val)
{
	u32 i;

	for (i = 0; i < events->count; i++) {
		if (ae_kind(events->waiting[i]) == ae_kind(val)) {
			snic_stat_inc(dev, SIRDMA_STAT_AEQ_MERGED);
			return;
		}
	}
	if (!events->count)
		eq_list_add(&aeq->waiting, &events->link);
	events->waiting[events->count++] = val;
}

void snic_aeq_post(struct snic_dev *dev, struct snic_aeq_events *events, enum sirdma_ae_code code,
		   enum sirdma_ae_source src, u32 wqe_idx, enum sirdma_qp_state state)
{
	u64 val = SIRDMA_PREP(SIRDMA_AEQE_QPCQID_LOW, events->id) |
		  SIRDMA_PREP(SIRDMA_AEQE_QPCQID_HI, events->id >> 18) |
		  SIRDMA_PREP(SIRDMA_AEQE_WQDESCIDX, wqe_idx) |
		  SIRDMA_PREP(SIRDMA_AEQE_AECODE, code) | SIRDMA_PREP(SIRDMA_AEQE_AESRC, src) |
		  SIRDMA_PREP(SIRDMA_AEQE_QPSTATE, state);
	struct snic_aeq *aeq = &dev->aeq;
	bool exists;

	port_lock(&aeq->lock);
	exists = aeq->entries;
	if (exists && !events->count && aeq_may_write(aeq, events))
		aeq_write(dev, aeq, events, val);
	else if (exists)
		aeq_wait(dev, aeq, events, val);
	port_unlock(&aeq->lock);
	if (exists)
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
}

/* Write the first event of those that wait in @events. */
static void aeq_write_waiting(struct snic_dev *dev, struct snic_aeq *aeq,
			      struct snic_aeq_events *events)
{
	aeq_write(dev, aeq, events, events->waiting[0]);
	eq_list_del(&aeq->waiting, &events->link);
	if (!--events->count)
		return;
	memmove(events->waiting, events->waiting + 1, events->count * sizeof(events->waiting[0]));
	eq_list_add(&aeq->waiting, &events->link);
}

void snic_aeq_ack(struct snic_dev *dev, u32 count)
{
	struct snic_aeq *aeq = &dev->aeq;
	struct snic_aeq_events *events;
	bool written = false;

	port_lock(&aeq->lock);
	WRITE_ONCE(aeq->acked, aeq->acked + min_t(u64, count, aeq->written - aeq->acked));
	/*
	 * While some objects wait, there is an element that the driver has not acknowledged: no
	 * object waits for ever.
	 */
	while ((events = aeq_first(aeq)) && aeq_may_write(aeq, events)) {
		aeq_write_waiting(dev, aeq, events);
		written = true;
	}
	port_unlock(&aeq->lock);
	if (written)
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
}

void snic_aeq_detach(struct snic_dev *dev, struct snic_aeq_events *events)
{
	struct snic_aeq *aeq = &dev->aeq;

	port_lock(&aeq->lock);
	if (events->count)
		aeq_forget(aeq, events);
	port_unlock(&aeq->lock);
}

static bool aeq_has_elements(const struct snic_aeq *aeq)
{
	return READ_ONCE(aeq->written) != READ_ONCE(aeq->acked);
}

void snic_eq_unmask(struct snic_dev *dev, u32 unmasked)
{
	u32 i;

	if ((unmasked & (1u << SIRDMA_VECTOR_AEQ)) && aeq_has_elements(&dev->aeq))
		snic_irq(dev, SIRDMA_VECTOR_AEQ);
	for (i = 0; i < dev->cfg.max_ceqs && SIRDMA_VECTOR_CEQ(i) < 32; i++)
		if ((unmasked & (1u << SIRDMA_VECTOR_CEQ(i))) && READ_ONCE(dev->ceqs[i].pending))
			snic_irq(dev, SIRDMA_VECTOR_CEQ(i));
}

/* Commands */

u32 snic_eq_check(struct snic_dev *dev, u64 addr, u64 entries, u32 elem)
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
	status = snic_eq_check(dev, addr, entries, sizeof(struct sirdma_ceqe));
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
	status = snic_eq_check(dev, addr, entries, sizeof(struct sirdma_aeqe));
	if (status)
		return status;
	port_lock(&aeq->lock);
	aeq->addr = addr;
	aeq->entries = entries;
	aeq->prod = 0;
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
