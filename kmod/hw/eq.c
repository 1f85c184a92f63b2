// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Event queues: completion events (CEQ) and asynchronous events (AEQ). */
#include "eq.h"
#include "cqp_cmd.h"
#include "hw.h"
#include "sirdma/cqp.h"

static int eq_alloc(struct sirdma_hw *hw, struct sirdma_eq *eq, u32 entries, u32 entry_size)
{
	memset(eq, 0, sizeof(*eq));
	eq->entries = entries;
	eq->polarity = true;
	if (!hw->bus->ops->dma_alloc(hw->bus, (u64)entries * entry_size, &eq->ring))
		return 0;
	eq->ring.va = NULL;
	return -ENOMEM;
}

static void eq_free(struct sirdma_hw *hw, struct sirdma_eq *eq)
{
	if (eq->ring.va)
		hw->bus->ops->dma_free(hw->bus, &eq->ring);
	eq->ring.va = NULL;
}

/*
 * The number of events to consume before they are acknowledged: at half a ring the device gets room
 * again.
 */
static u32 eq_batch(const struct sirdma_eq *eq, u32 budget)
{
	return min_t(u32, eq->entries / 2 + 1, budget);
}

static void eq_advance(struct sirdma_eq *eq)
{
	if (++eq->cons == eq->entries) {
		eq->cons = 0;
		eq->polarity = !eq->polarity;
	}
}

/* Completion events */

/* Consume one event. Returns false when the ring is empty. */
static bool ceq_take(struct sirdma_eq *eq, u64 *cookie)
{
	const struct sirdma_ceqe *ceqe = (const struct sirdma_ceqe *)eq->ring.va + eq->cons;
	/*
	 * This load pairs with the device, which writes a CQE before its event: the driver reads
	 * the CQE after the event.
	 */
	u64 val = le64_to_cpu(smp_load_acquire(&ceqe->val));

	if (!!(val & SIRDMA_CEQE_VALID) != eq->polarity)
		return false;
	*cookie = SIRDMA_GET(SIRDMA_CEQE_CQCTX, val);
	eq_advance(eq);
	return true;
}

/* Handle a batch of events; returns how many there were. */
static u32 ceq_drain(struct sirdma_ceq *ceq, u32 budget)
{
	u32 batch = eq_batch(&ceq->eq, budget), count = 0;
	struct sirdma_hw *hw = ceq->hw;
	u64 cookie;

	while (count < batch && ceq_take(&ceq->eq, &cookie)) {
		count++;
		if (cookie == sirdma_cqp_cookie(hw))
			sirdma_cqp_event(hw);
		else if (hw->events && hw->events->cq_event)
			hw->events->cq_event(hw->events_ctx, cookie);
	}
	return count;
}

static u32 ceq_irq(void *arg, u32 vector, u32 budget)
{
	struct sirdma_ceq *ceq = arg;
	struct sirdma_hw *hw = ceq->hw;
	u32 count, done = 0;

	(void)vector;
	/*
	 * An acknowledgement makes room, and the device may add events: repeat until there are
	 * none.
	 */
	while ((count = ceq_drain(ceq, budget - done))) {
		done += count;
		sirdma_wr32(hw->bus, SIRDMA_REG_CEQACK,
			    (u32)(SIRDMA_PREP(SIRDMA_CEQACK_ID, ceq->id) |
				  SIRDMA_PREP(SIRDMA_CEQACK_COUNT, count)));
	}
	return done;
}

static int ceq_start(struct sirdma_hw *hw, struct sirdma_ceq *ceq, u32 id)
{
	int err;

	ceq->hw = hw;
	ceq->id = id;
	err = eq_alloc(hw, &ceq->eq, hw->cfg.ceq_entries, sizeof(struct sirdma_ceqe));
	if (err)
		return err;
	err = hw->bus->ops->irq_request(hw->bus, SIRDMA_VECTOR_CEQ(id), ceq_irq, ceq);
	if (err)
		goto err_free_ring;
	err = sirdma_cqp_create_ceq(hw, id, ceq->eq.ring.pa, ceq->eq.entries);
	if (err)
		goto err_free_irq;
	return 0;

err_free_irq:
	hw->bus->ops->irq_free(hw->bus, SIRDMA_VECTOR_CEQ(id));
err_free_ring:
	eq_free(hw, &ceq->eq);
	return err;
}

static void ceq_stop(struct sirdma_hw *hw, struct sirdma_ceq *ceq)
{
	sirdma_cqp_destroy_ceq(hw, ceq->id);
	hw->bus->ops->irq_free(hw->bus, SIRDMA_VECTOR_CEQ(ceq->id));
}

int sirdma_ceqs_start(struct sirdma_hw *hw)
{
	u32 id;
	int err;

	hw->ceqs = port_alloc(hw->cfg.num_ceqs * sizeof(*hw->ceqs));
	if (!hw->ceqs)
		return -ENOMEM;
	for (id = 0; id < hw->cfg.num_ceqs; id++) {
		err = ceq_start(hw, &hw->ceqs[id], id);
		if (err)
			goto err_stop;
	}
	return 0;

err_stop:
	while (id--)
		ceq_stop(hw, &hw->ceqs[id]);
	return err;
}

void sirdma_ceqs_stop(struct sirdma_hw *hw)
{
	u32 id = hw->cfg.num_ceqs;

	while (id--)
		ceq_stop(hw, &hw->ceqs[id]);
}

/* Asynchronous events */

/* Take one event. Returns false when the ring is empty. */
static bool aeq_take(struct sirdma_aeq *aeq, struct sirdma_async_event *event)
{
	struct sirdma_eq *eq = &aeq->eq;
	const struct sirdma_aeqe *aeqe = (const struct sirdma_aeqe *)eq->ring.va + eq->cons;
	/*
	 * This load pairs with the device, which writes this word last: the driver reads the rest
	 * of the element after it.
	 */
	u64 val = le64_to_cpu(smp_load_acquire(&aeqe->val));

	if (!!(val & SIRDMA_AEQE_VALID) != eq->polarity)
		return false;
	event->cookie = le64_to_cpu(READ_ONCE(aeqe->event_ctx));
	event->code = (enum sirdma_ae_code)SIRDMA_GET(SIRDMA_AEQE_AECODE, val);
	event->source = (enum sirdma_ae_source)SIRDMA_GET(SIRDMA_AEQE_AESRC, val);
	event->id = (u32)(SIRDMA_GET(SIRDMA_AEQE_QPCQID_LOW, val) |
			  SIRDMA_GET(SIRDMA_AEQE_QPCQID_HI, val) << 18);
	event->wqe_idx = (u32)SIRDMA_GET(SIRDMA_AEQE_WQDESCIDX, val);
	event->state = (enum sirdma_qp_state)SIRDMA_GET(SIRDMA_AEQE_QPSTATE, val);
	event->overflow = !!(val & SIRDMA_AEQE_OVERFLOW);
	/* An AEQE has the whole context of a CQ, twice the cookie (see exec_cq()). */
	if (event->source == SIRDMA_AE_SRC_CQ)
		event->cookie >>= 1;
	eq_advance(eq);
	return true;
}

static u32 aeq_drain(struct sirdma_hw *hw, u32 budget)
{
	struct sirdma_aeq *aeq = &hw->aeq;
	u32 batch = eq_batch(&aeq->eq, budget), count = 0;
	struct sirdma_async_event event;

	while (count < batch && aeq_take(aeq, &event)) {
		count++;
		if (event.overflow)
			aeq->overflows++;
		if (hw->events && hw->events->async_event)
			hw->events->async_event(hw->events_ctx, &event);
	}
	return count;
}

static u32 aeq_irq(void *arg, u32 vector, u32 budget)
{
	struct sirdma_hw *hw = arg;
	u32 count, done = 0;

	(void)vector;
	while ((count = aeq_drain(hw, budget - done))) {
		done += count;
		sirdma_wr32(hw->bus, SIRDMA_REG_AEQALLOC, count);
	}
	return done;
}

int sirdma_aeq_start(struct sirdma_hw *hw)
{
	struct sirdma_eq *eq = &hw->aeq.eq;
	int err;

	hw->aeq.overflows = 0;
	err = eq_alloc(hw, eq, hw->cfg.aeq_entries, sizeof(struct sirdma_aeqe));
	if (err)
		return err;
	err = hw->bus->ops->irq_request(hw->bus, SIRDMA_VECTOR_AEQ, aeq_irq, hw);
	if (err)
		goto err_free_ring;
	err = sirdma_cqp_create_aeq(hw, eq->ring.pa, eq->entries);
	if (err)
		goto err_free_irq;
	return 0;

err_free_irq:
	hw->bus->ops->irq_free(hw->bus, SIRDMA_VECTOR_AEQ);
err_free_ring:
	eq_free(hw, eq);
	return err;
}

void sirdma_aeq_stop(struct sirdma_hw *hw)
{
	sirdma_cqp_destroy_aeq(hw);
	hw->bus->ops->irq_free(hw->bus, SIRDMA_VECTOR_AEQ);
}

void sirdma_eqs_free(struct sirdma_hw *hw)
{
	u32 id;

	for (id = 0; hw->ceqs && id < hw->cfg.num_ceqs; id++)
		eq_free(hw, &hw->ceqs[id].eq);
	port_free(hw->ceqs);
	hw->ceqs = NULL;
	eq_free(hw, &hw->aeq.eq);
}
