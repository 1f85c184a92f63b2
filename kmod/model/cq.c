// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion queues. */
#include "cq.h"
#include "dev.h"

#define CQE_SHIFT 5
#define CQE64_SHIFT 6
/*
 * If the owner of the arm word makes this many compare-and-swaps of it fail, the device raises the
 * event anyway.
 */
#define DISARM_TRIES 4

struct snic_cq *snic_cq_get(struct snic_dev *dev, u32 id)
{
	struct snic_obj *obj = snic_table_get(&dev->cqs, id);

	return obj ? container_of(obj, struct snic_cq, obj) : NULL;
}

/* The next element that the consumer will look at: user memory, which may have any value. */
static u32 cq_cons(const struct snic_cq *cq)
{
	u32 cons =
		SIRDMA_GET(SIRDMA_CQ_SHADOW_CQEIDX, le64_to_cpu(READ_ONCE(cq->shadow->cons_idx)));

	if (unlikely(cons >= cq->entries))
		cons %= cq->entries;
	/* In the first lap an index ahead of the producer belongs to the ring before a resize. */
	return cq->first_lap && cons > cq->prod ? 0 : cons;
}

static u32 cq_elems_from(const struct snic_cq *cq, u32 cons)
{
	return cons <= cq->prod ? cq->prod - cons : cq->prod + cq->entries - cons;
}

/* Elements of the ring that the consumer has not consumed yet. */
static u32 cq_used(const struct snic_cq *cq)
{
	return cq_elems_from(cq, cq_cons(cq));
}

/* The same with those of rings before a resize, which are consumed before this one. */
static u32 cq_unread(const struct snic_cq *cq)
{
	u32 cons = cq_cons(cq);

	return cq_elems_from(cq, cons) + (cq->first_lap && !cons ? cq->carried : 0);
}

bool snic_cq_drained(struct snic_cq *cq)
{
	bool drained;

	port_lock(&cq->lock);
	drained = !cq_used(cq);
	port_unlock(&cq->lock);
	return drained;
}

/* Notifications */

/*
 * Take the request out of the arm word if it asks for an event at the next completion, or at the next
 * solicited one and @solicited. One arming gives one event, which the caller raises if this returns true.
 * If @may_wait the event may wait for more completions; the queue stays armed then.
 */
static inline bool cq_disarm(struct snic_cq *cq, bool solicited, bool may_wait)
{
	u64 bits = SIRDMA_CQ_SHADOW_ARM_NEXT, clear = bits | SIRDMA_CQ_SHADOW_ARM_NEXT_SE;
	u64 old, val, word;
	__le64 now, then;
	int i;

	if (solicited)
		bits |= SIRDMA_CQ_SHADOW_ARM_NEXT_SE;
	for (i = 0; i < DISARM_TRIES; i++) {
		now = READ_ONCE(cq->shadow->arm);
		word = le64_to_cpu(now);
		if (!(word & bits))
			return false;
		if (may_wait && unlikely(cq->moderation) &&
		    snic_moderation_wait(cq->moderation, solicited))
			return false;
		may_wait = false;
		then = cpu_to_le64(word & ~clear);
		memcpy(&old, &now, sizeof(old));
		memcpy(&val, &then, sizeof(val));
		if (port_cas64((void *)&cq->shadow->arm, old, val))
			break;
	}
	return true;
}

void snic_cq_notify(struct snic_dev *dev, struct snic_cq *cq, bool solicited)
{
	if (cq_disarm(cq, solicited, false))
		snic_ceq_post(dev, cq->ceq_id, &cq->event);
}

void snic_cq_arm(struct snic_dev *dev, u32 id)
{
	struct snic_cq *cq = snic_cq_get(dev, id);
	u32 unread;

	if (!cq)
		return;
	port_lock(&cq->lock);
	if (cq->use_ceq && !cq->overflowed) {
		unread = cq_unread(cq);
		if (unread && cq_disarm(cq, cq->written - cq->written_se < unread, true))
			snic_ceq_post(dev, cq->ceq_id, &cq->event);
	}
	port_unlock(&cq->lock);
	snic_cq_put(cq);
}

/* Elements */

static void *cq_elem(struct snic_dev *dev, struct snic_cq *cq, u32 idx)
{
	return snic_ring_ptr(dev, &cq->ring, idx << cq->elem_shift, 1u << cq->elem_shift);
}

static void cq_advance(struct snic_cq *cq, u32 count)
{
	cq->prod += count;
	cq->written += count;
	if (cq->prod >= cq->entries) {
		cq->prod -= cq->entries;
		cq->polarity = !cq->polarity;
		cq->first_lap = false;
	}
}

/* Mark the queue dead. Returns true to the caller that has to report it. */
static bool cq_kill(struct snic_dev *dev, struct snic_cq *cq)
{
	if (cq->overflowed)
		return false;
	WRITE_ONCE(cq->overflowed, true);
	snic_stat_inc(dev, SIRDMA_STAT_CQ_OVERFLOWS);
	return true;
}

static void cq_report(struct snic_dev *dev, struct snic_cq *cq)
{
	snic_aeq_post(dev, &cq->async, SIRDMA_AE_CQ_CATASTROPHIC, SIRDMA_AE_SRC_CQ, 0,
		      SIRDMA_QPS_RESET);
	if (cq->is_ccq)
		snic_fault(dev);
}

static void cqe_put(struct sirdma_cqe *cqe, u64 w0, u64 w1, u64 w2, u64 hdr)
{
	WRITE_ONCE(cqe->len, cpu_to_le64(w0));
	WRITE_ONCE(cqe->compl_ctx, cpu_to_le64(w1));
	WRITE_ONCE(cqe->qp, cpu_to_le64(w2));
	/* Pairs with the consumer's read of the valid bit. */
	smp_store_release(&cqe->hdr, cpu_to_le64(hdr));
}

static bool completion_failed(const struct snic_completion *c)
{
	return c->major || c->minor;
}

static bool completion_extended(const struct snic_cq *cq, const struct snic_completion *c)
{
	return c->has_imm || c->has_mac || cq->timestamps;
}

static u64 cqe_hdr(const struct snic_completion *c, bool extended, bool valid)
{
	u64 hdr = SIRDMA_PREP(SIRDMA_CQE_MINERR, c->minor) |
		  SIRDMA_PREP(SIRDMA_CQE_MAJERR, c->major) |
		  SIRDMA_PREP(SIRDMA_CQE_WQEIDX, c->wqe_idx) | SIRDMA_PREP(SIRDMA_CQE_OP, c->op);

	if (completion_failed(c))
		hdr |= SIRDMA_CQE_ERROR;
	if (extended)
		hdr |= SIRDMA_CQE_EXT;
	if (c->has_inv)
		hdr |= SIRDMA_CQE_STAG;
	if (c->is_datagram)
		hdr |= SIRDMA_PREP(SIRDMA_CQE_OP, SIRDMA_CQE_OP_DATAGRAM) |
		       SIRDMA_PREP(SIRDMA_CQE_IPV4, c->is_v4);
	if (c->solicited)
		hdr |= SIRDMA_CQE_SOLICITED;
	if (c->is_sq)
		hdr |= SIRDMA_CQE_SQ;
	if (c->is_shared)
		hdr |= SIRDMA_CQE_SRQ;
	if (valid)
		hdr |= SIRDMA_CQE_VALID;
	return hdr;
}

/* The elements for the halves of a completion, and their valid bits. */
struct cq_slot {
	struct sirdma_cqe *first;
	struct sirdma_cqe *second; /* struct sirdma_cqe_ext */
	u32 elems;
	bool second_valid;
};

static bool cq_reserve(struct snic_dev *dev, struct snic_cq *cq, bool extended,
		       struct cq_slot *slot)
{
	u32 next = cq->prod + 1 == cq->entries ? 0 : cq->prod + 1;

	slot->elems = extended && cq->elem_shift == CQE_SHIFT ? 2 : 1;
	if (cq_used(cq) + slot->elems > cq->entries - 1)
		return false;
	slot->first = cq_elem(dev, cq, cq->prod);
	if (!slot->first)
		return false;
	slot->second = NULL;
	slot->second_valid = cq->polarity;
	if (!extended)
		return true;
	if (slot->elems == 1) {
		slot->second = slot->first + 1;
		return true;
	}
	slot->second = cq_elem(dev, cq, next);
	if (!next)
		slot->second_valid = !cq->polarity;
	return slot->second;
}

static void cqe_put_ext(struct snic_dev *dev, const struct snic_cq *cq, struct sirdma_cqe *second,
			const struct snic_completion *c, bool valid)
{
	u64 hdr = SIRDMA_PREP(SIRDMA_CQE_VALID, valid), mac = 0, time = 0;

	if (cq->timestamps) {
		hdr |= SIRDMA_CQE_EXT_TSVALID;
		time = port_now_ns(dev->clock);
	}
	if (c->has_imm)
		hdr |= SIRDMA_CQE_EXT_IMMVALID;
	if (c->has_mac) {
		mac = c->src_mac | SIRDMA_PREP(SIRDMA_CQE_EXT_VLAN, c->vlan_id);
		hdr |= SIRDMA_CQE_EXT_SMACVALID;
		if (c->vlan_id)
			hdr |= SIRDMA_CQE_EXT_VLANVALID;
	}
	/* struct sirdma_cqe_ext has its words at the same offsets as struct sirdma_cqe. */
	cqe_put(second, c->imm, time, mac, hdr);
}

static bool cq_write(struct snic_dev *dev, struct snic_cq *cq, const struct snic_completion *c)
{
	u64 len = completion_failed(c) ? SIRDMA_PREP(SIRDMA_CQE_VENDOR_ERR, c->vendor_err) :
					 SIRDMA_PREP(SIRDMA_CQE_PAYLDLEN, c->len);
	u64 qp = SIRDMA_PREP(SIRDMA_CQE_QPID, c->qpn);
	bool extended = completion_extended(cq, c);
	struct cq_slot slot;

	if (!cq_reserve(dev, cq, extended, &slot))
		return false;
	if (c->has_inv)
		qp |= SIRDMA_PREP(SIRDMA_CQE_INVSTAG, c->inv_stag);
	if (c->is_datagram)
		qp |= SIRDMA_PREP(SIRDMA_CQE_SRCQPN, c->src_qpn);
	/* The consumer reads the second half only after the first is valid: write it first. */
	if (extended)
		cqe_put_ext(dev, cq, slot.second, c, slot.second_valid);
	cqe_put(slot.first, len, c->compl_ctx, qp, cqe_hdr(c, extended, cq->polarity));
	cq_advance(cq, slot.elems);
	return true;
}

bool snic_cq_post(struct snic_dev *dev, struct snic_cq *cq, const struct snic_completion *c)
{
	bool solicited = c->solicited || completion_failed(c), raise = false, tell = false, done;

	port_lock(&cq->lock);
	/*
	 * A consumer that sees the element sees the request gone, too: so it knows that the next
	 * completion raises no event, unless it makes another request. A moderated event waits behind
	 * the element.
	 */
	if (cq->use_ceq && !cq->moderation && !cq->overflowed)
		raise = cq_disarm(cq, solicited, false);
	done = !cq->overflowed && cq_write(dev, cq, c);
	if (!done)
		tell = cq_kill(dev, cq);
	else if (solicited)
		cq->written_se = cq->written;
	if (done && cq->use_ceq && !raise) {
		/*
		 * Orders the element before the read of the arm word; the consumer does it in
		 * reverse order.
		 */
		smp_mb();
		raise = cq_disarm(cq, solicited, true);
	}
	if (raise)
		snic_ceq_post(dev, cq->ceq_id, &cq->event);
	port_unlock(&cq->lock);
	if (tell)
		cq_report(dev, cq);
	return done;
}

bool snic_ccq_post(struct snic_dev *dev, struct snic_cq *cq, u32 wqe_idx, u8 opcode, u32 status,
		   u64 retval)
{
	u64 hdr = SIRDMA_PREP(SIRDMA_CQE_WQEIDX, wqe_idx);
	struct cq_slot slot;
	bool tell = false, done;

	if (status)
		hdr |= SIRDMA_CQE_ERROR | SIRDMA_PREP(SIRDMA_CQE_MINERR, status) |
		       SIRDMA_PREP(SIRDMA_CQE_MAJERR, SIRDMA_CQP_MAJ_ERROR);
	port_lock(&cq->lock);
	done = !cq->overflowed && cq_reserve(dev, cq, false, &slot);
	if (done) {
		hdr |= SIRDMA_PREP(SIRDMA_CQE_VALID, cq->polarity);
		/* struct sirdma_ccqe has its words at the same offsets as struct sirdma_cqe. */
		cqe_put(slot.first, retval, dev->cqp.compl_ctx,
			SIRDMA_PREP(SIRDMA_CQP_OPCODE, opcode), hdr);
		cq_advance(cq, slot.elems);
		cq->written_se = cq->written;
	} else {
		tell = cq_kill(dev, cq);
	}
	if (done && cq->use_ceq) {
		smp_mb(); /* as in snic_cq_post() */
		snic_cq_notify(dev, cq, true);
	}
	port_unlock(&cq->lock);
	if (tell)
		cq_report(dev, cq);
	return done;
}

struct snic_cq *snic_cq_attach(struct snic_dev *dev, u32 id)
{
	struct snic_cq *cq = snic_cq_get(dev, id);

	if (!cq)
		return NULL;
	if (cq->is_ccq) {
		snic_cq_put(cq);
		return NULL;
	}
	port_lock(&cq->lock);
	cq->qp_refs++;
	port_unlock(&cq->lock);
	return cq;
}

void snic_cq_detach(struct snic_cq *cq)
{
	port_lock(&cq->lock);
	cq->qp_refs--;
	port_unlock(&cq->lock);
	snic_cq_put(cq);
}

/* Commands */

/* The ring that @cmd describes: elements of 32 bytes, or half as many of 64. */
static u32 cq_decode_ring(struct snic_dev *dev, const struct sirdma_cqp_cq *cmd, u8 elem_shift,
			  struct snic_ring *ring)
{
	u64 hdr = le64_to_cpu(cmd->hdr), size = le64_to_cpu(cmd->size);
	u32 per_elem = 1u << (elem_shift - CQE_SHIFT);

	if (size & ~SIRDMA_CQP_CQ_SIZE || size > dev->cfg.max_cqe || size % per_elem ||
	    size / per_elem < SIRDMA_MIN_CQ_ELEMENTS)
		return SIRDMA_CQP_BAD_PARAM;
	ring->bytes = size << CQE_SHIFT;
	ring->vmap = !!(hdr & SIRDMA_CQP_CQ_VMAP);
	if (ring->vmap)
		ring->first_pble =
			(u32)SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, le64_to_cpu(cmd->first_pble));
	else
		ring->addr = le64_to_cpu(cmd->addr);
	return snic_ring_valid(dev, ring) ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
}

static u32 cq_decode(struct snic_dev *dev, const struct sirdma_cqp_cq *cmd, struct snic_cq *cq)
{
	u64 hdr = le64_to_cpu(cmd->hdr), shadow = le64_to_cpu(cmd->shadow_addr);
	u32 status;

	cq->obj.id = SIRDMA_GET(SIRDMA_CQP_CQ_ID, hdr);
	if (cq->obj.id >= dev->cfg.max_cqs)
		return SIRDMA_CQP_BAD_INDEX;
	cq->elem_shift = hdr & SIRDMA_CQP_CQ_64B ? CQE64_SHIFT : CQE_SHIFT;
	cq->is_ccq = hdr & SIRDMA_CQP_CQ_IS_CCQ;
	cq->use_ceq = hdr & SIRDMA_CQP_CQ_ENCEQE;
	cq->timestamps = hdr & SIRDMA_CQP_CQ_TIMESTAMPS;
	cq->ceq_id = SIRDMA_GET(SIRDMA_CQP_CQ_CEQID, hdr);
	cq->event.cq_ctx = le64_to_cpu(cmd->ctx);
	snic_aeq_events_init(&cq->async, cq->obj.id, cq->event.cq_ctx << 1);
	if (cq->use_ceq && !(hdr & SIRDMA_CQP_CQ_CEQIDVALID))
		return SIRDMA_CQP_BAD_PARAM;
	if (cq->is_ccq &&
	    (hdr & (SIRDMA_CQP_CQ_VMAP | SIRDMA_CQP_CQ_64B | SIRDMA_CQP_CQ_TIMESTAMPS)))
		return SIRDMA_CQP_BAD_PARAM;
	if (cq->is_ccq && dev->cqp.ccq)
		return SIRDMA_CQP_IN_USE;
	status = cq_decode_ring(dev, cmd, cq->elem_shift, &cq->ring);
	if (status)
		return status;
	if (shadow % SIRDMA_SHADOW_SIZE)
		return SIRDMA_CQP_BAD_ADDRESS;
	cq->shadow = port_dma_ptr(dev->dma, shadow, SIRDMA_SHADOW_SIZE);
	return cq->shadow ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
}

static u32 cq_insert(struct snic_dev *dev, struct snic_cq *cq)
{
	u32 status;

	if (cq->use_ceq && !snic_ceq_attach(dev, cq->ceq_id))
		return SIRDMA_CQP_BAD_INDEX;
	status = snic_table_status(snic_table_insert(&dev->cqs, cq->obj.id, &cq->obj));
	if (status && cq->use_ceq)
		snic_ceq_detach(dev, cq->ceq_id, &cq->event);
	return status;
}

u32 snic_cqp_create_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_cq *cq;
	u32 status;

	cq = port_alloc_charged(sizeof(*cq));
	if (!cq)
		return SIRDMA_CQP_NO_MEMORY;
	status = cq_decode(dev, (const void *)wqe, cq);
	if (status)
		goto err_free;
	snic_obj_init(&cq->obj);
	port_lock_init(&cq->lock);
	cq->entries = cq->ring.bytes >> cq->elem_shift;
	cq->polarity = true;
	cq->first_lap = true;
	status = cq_insert(dev, cq);
	if (status)
		goto err_free;
	if (cq->is_ccq)
		dev->cqp.ccq = cq;
	return SIRDMA_CQP_OK;

err_free:
	port_free(cq);
	return status;
}

static struct snic_cq *cq_by_cmd(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe,
				 u32 *status)
{
	u32 id = SIRDMA_GET(SIRDMA_CQP_CQ_ID, le64_to_cpu(wqe->hdr));
	struct snic_cq *cq = snic_cq_get(dev, id);

	if (cq)
		*status = SIRDMA_CQP_OK;
	else
		*status = id < dev->cfg.max_cqs ? SIRDMA_CQP_NO_OBJECT : SIRDMA_CQP_BAD_INDEX;
	return cq;
}

/*
 * Resize: the next completion is element 0 of the new ring. The consumer consumes the old
 * ring before it reads the new one.
 */
static u32 cq_resize(struct snic_dev *dev, struct snic_cq *cq, const struct sirdma_cqp_cq *cmd)
{
	struct snic_ring ring = {};
	u32 status;

	status = cq_decode_ring(dev, cmd, cq->elem_shift, &ring);
	if (status)
		return status;
	port_lock(&cq->lock);
	if (cq->overflowed) {
		status = SIRDMA_CQP_BAD_STATE;
	} else {
		cq->carried = cq_unread(cq);
		/* The index is of the old ring. The consumer does the same when it knows of the new one. */
		WRITE_ONCE(cq->shadow->cons_idx, 0);
		cq->ring = ring;
		cq->entries = ring.bytes >> cq->elem_shift;
		cq->prod = 0;
		cq->polarity = true;
		cq->first_lap = true;
	}
	port_unlock(&cq->lock);
	return status;
}

/* Commands execute one at a time, and only they make a queue moderated. */
static u32 cq_moderate(struct snic_dev *dev, struct snic_cq *cq, const struct sirdma_cqp_cq *cmd)
{
	u64 word = le64_to_cpu(cmd->moderation);
	u32 count = SIRDMA_GET(SIRDMA_CQP_CQ_COUNT, word);
	u32 period = SIRDMA_GET(SIRDMA_CQP_CQ_PERIOD, word);
	struct snic_moderation *m = cq->moderation;
	bool solicited;

	if (count > SIRDMA_MAX_CQ_COUNT || period > SIRDMA_MAX_CQ_PERIOD)
		return SIRDMA_CQP_BAD_PARAM;
	/* A queue without CEQ has no events that could wait. */
	if (!count || !period || !cq->use_ceq)
		count = 0;
	if (!m && !count)
		return SIRDMA_CQP_OK;
	if (!m)
		m = snic_moderation_create(dev, cq);
	if (!m)
		return SIRDMA_CQP_NO_MEMORY;
	port_lock(&cq->lock);
	m->count = count;
	m->period_ns = period * 1000;
	cq->moderation = m;
	if (snic_moderation_end(m, &solicited))
		snic_cq_notify(dev, cq, solicited);
	port_unlock(&cq->lock);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_modify_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_cq *cmd = (const void *)wqe;
	u64 what = le64_to_cpu(cmd->hdr) & (SIRDMA_CQP_CQ_RESIZE | SIRDMA_CQP_CQ_MODERATE);
	struct snic_cq *cq;
	u32 status;

	cq = cq_by_cmd(dev, wqe, &status);
	if (!cq)
		return status;
	if (cq->is_ccq)
		status = SIRDMA_CQP_BAD_PARAM;
	else if (what == SIRDMA_CQP_CQ_RESIZE)
		status = cq_resize(dev, cq, cmd);
	else if (what == SIRDMA_CQP_CQ_MODERATE)
		status = cq_moderate(dev, cq, cmd);
	else
		status = SIRDMA_CQP_BAD_PARAM;
	snic_cq_put(cq);
	return status;
}

static void cq_destroy(struct snic_dev *dev, struct snic_cq *cq)
{
	snic_table_remove(&dev->cqs, cq->obj.id);
	if (dev->cqp.ccq == cq)
		dev->cqp.ccq = NULL;
	snic_obj_drain(&cq->obj);
	if (cq->moderation)
		snic_moderation_destroy(cq->moderation);
	snic_aeq_detach(dev, &cq->async);
	if (cq->use_ceq)
		snic_ceq_detach(dev, cq->ceq_id, &cq->event);
	port_free_rcu(cq, obj.rcu);
}

u32 snic_cqp_destroy_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_cq *cq;
	u32 status, users;

	cq = cq_by_cmd(dev, wqe, &status);
	if (!cq)
		return status;
	port_lock(&cq->lock);
	users = cq->qp_refs;
	port_unlock(&cq->lock);
	snic_cq_put(cq);
	if (users)
		return SIRDMA_CQP_IN_USE;
	cq_destroy(dev, cq);
	return SIRDMA_CQP_OK;
}

void snic_cq_destroy_all(struct snic_dev *dev)
{
	struct snic_obj *obj;
	u32 id = 0;

	while ((obj = snic_table_next(&dev->cqs, &id))) {
		cq_destroy(dev, container_of(obj, struct snic_cq, obj));
		port_cond_resched();
	}
}
