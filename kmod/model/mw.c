// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory windows: allocation, binding, unbinding. */
#include "mw.h"

#include "qp.h"

#define MW_RIGHTS \
	(SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC)
#define MW_CHANGE (SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC)

static struct snic_mw *mw_of_slot(struct snic_slot *slot)
{
	return container_of(container_of(slot, struct snic_mr, slot), struct snic_mw, mr);
}

bool snic_mw_is_of_qp(const struct snic_mr *mr, u32 pd, u32 qpn)
{
	const struct snic_mw *mw;

	if (mr->map.pd != SNIC_PD_OF_QP)
		return false;
	mw = container_of(mr, struct snic_mw, mr);
	return mw->qpn == qpn && mw->pd == pd;
}

u32 snic_mw_alloc(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd)
{
	u64 stag = le64_to_cpu(cmd->stag);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag), status;
	struct snic_mw *mw;

	mw = port_alloc_charged(sizeof(*mw));
	if (!mw)
		return SIRDMA_CQP_NO_MEMORY;
	mw->pd = snic_stag_pd(cmd);
	mw->type1 = le64_to_cpu(cmd->hdr) & SIRDMA_CQP_STAG_MWTYPE;
	snic_slot_init(&mw->mr.slot, SNIC_SLOT_WINDOW, SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag));
	status = snic_table_status(snic_table_insert(&dev->mrs, idx, &mw->mr.slot.obj));
	if (status)
		port_free(mw);
	return status;
}

/* Put a window of type 2 into the list of @qp, which is about to bind it. */
static void mw_join(struct snic_qp *qp, struct snic_mw *mw)
{
	mw->qpn = qp->obj.id;
	mw->qp = qp;
	port_lock(&qp->dev->mw_lock);
	mw->next = qp->windows;
	mw->link = &qp->windows;
	if (mw->next)
		mw->next->link = &mw->next;
	qp->windows = mw;
	port_unlock(&qp->dev->mw_lock);
}

/* The queue pair stays until its list is empty: see snic_mw_unbind_qp(). */
static void mw_leave(struct snic_mw *mw)
{
	struct snic_dev *dev = mw->qp->dev;

	port_lock(&dev->mw_lock);
	*mw->link = mw->next;
	if (mw->next)
		mw->next->link = mw->link;
	mw->qp = NULL;
	port_unlock(&dev->mw_lock);
}

void snic_mw_unbound(struct snic_slot *slot)
{
	struct snic_mw *mw = mw_of_slot(slot);

	snic_slot_unbind(&mw->region->slot);
	mw->region = NULL;
	if (mw->qp)
		mw_leave(mw);
}

/* Does @mr contain the window? Neither end of the region wraps. */
static bool mw_within(const struct snic_mr *mr, u64 va, u64 len)
{
	return va - mr->map.base < mr->map.len && len <= mr->map.len - (va - mr->map.base);
}

/*
 * May @mr have the window that @sqe describes (IBTA 10.6.7.2)? A window may grant rights that the
 * region does not grant to peers; a window that may be written needs local write access.
 */
static bool mw_allowed(const struct snic_qp *qp, const struct snic_mr *mr,
		       const struct snic_sqe *sqe)
{
	return !snic_slot_is_window(&mr->slot) &&
	       snic_slot_key(&mr->slot) == (sqe->bind.region & SNIC_SLOT_KEY) &&
	       mr->map.pd == qp->pd && mr->map.level != SNIC_LEVEL_ALL &&
	       (mr->map.access & SIRDMA_ACCESS_BIND_WINDOW) && !(sqe->bind.rights & ~MW_RIGHTS) &&
	       (!(sqe->bind.rights & MW_CHANGE) || (mr->map.access & SIRDMA_ACCESS_LOCAL_WRITE)) &&
	       mw_within(mr, sqe->bind.va, sqe->bind.len);
}

/*
 * Find the region that @sqe names and count one more window of it. Returns SNIC_INV_DONE and the
 * region, or SNIC_INV_REFUSED: it must not have the window.
 */
static enum snic_inv_result mw_bind_region(struct snic_qp *qp, const struct snic_sqe *sqe,
					   struct snic_mr **region)
{
	struct snic_slot *slot =
		snic_slot_get(&qp->dev->mrs, sqe->bind.region >> SNIC_STAG_KEY_BITS);
	enum snic_inv_result ret = SNIC_INV_REFUSED;
	struct snic_mr *mr;

	if (!slot)
		return ret;
	mr = container_of(slot, struct snic_mr, slot);
	if (mw_allowed(qp, mr, sqe)) {
		if (snic_slot_bind(slot)) {
			*region = mr;
			ret = SNIC_INV_DONE;
		} else {
			/*
			 * A command on another CPU is replacing or removing the region. The next
			 * try finds the new region, or none.
			 */
			snic_qp_defer(qp);
			ret = SNIC_INV_AGAIN;
		}
	}
	snic_slot_put(slot);
	return ret;
}

/* The window that @sqe names, if @qp may bind it in this way. */
static struct snic_mw *mw_find(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	struct snic_obj *obj = snic_table_at(&qp->dev->mrs, sqe->bind.window >> SNIC_STAG_KEY_BITS);
	struct snic_slot *slot = obj ? container_of(obj, struct snic_slot, obj) : NULL;
	struct snic_mw *mw;

	if (!slot || !snic_slot_is_window(slot))
		return NULL;
	mw = mw_of_slot(slot);
	if (mw->pd != qp->pd || mw->type1 != sqe->bind.type1)
		return NULL;
	/*
	 * Type 1 has no zero-based windows (o10-36.2.2), and a zero length does not unbind type 2
	 * (o10-37.2.40).
	 */
	return (mw->type1 ? !sqe->bind.zero_based : sqe->bind.len != 0) ? mw : NULL;
}

/* End the binding of a window of type 1, if the window is bound. */
static enum snic_inv_result mw_end_binding(struct snic_qp *qp, struct snic_mw *mw)
{
	u32 stag = mw->mr.slot.obj.id << SNIC_STAG_KEY_BITS | snic_slot_key(&mw->mr.slot);
	enum snic_inv_result ret;

	if (snic_slot_state(&mw->mr.slot) == SNIC_SLOT_FREE) {
		/*
		 * Another queue pair may have ended the binding, and may not have run since the
		 * last user left.
		 */
		snic_finish_references(qp->dev);
		return SNIC_INV_DONE;
	}
	ret = snic_inv_start(&qp->inv[SNIC_INV_SQ], stag, SNIC_INV_REBIND);
	if (ret != SNIC_INV_REFUSED)
		return ret;
	/* Another queue pair has just bound or unbound the window as well. */
	snic_qp_defer(qp);
	return SNIC_INV_AGAIN;
}

/* Claim the window, to bind it anew. */
static enum snic_inv_result mw_claim(struct snic_qp *qp, struct snic_mw *mw)
{
	enum snic_inv_result ret = mw->type1 ? mw_end_binding(qp, mw) : SNIC_INV_DONE;

	if (ret != SNIC_INV_DONE || snic_slot_claim(&mw->mr.slot))
		return ret;
	switch (snic_slot_state(&mw->mr.slot)) {
	case SNIC_SLOT_VALID:
		/* A window of type 2 must not be bound yet (o10-37.2.30). */
		if (!mw->type1)
			return SNIC_INV_REFUSED;
		break;
	case SNIC_SLOT_REMOVED:
		return SNIC_INV_REFUSED;
	default:
		break;
	}
	/* Another CPU claims the window for some instructions. */
	snic_qp_defer(qp);
	return SNIC_INV_AGAIN;
}

/* The mapping of that part of @of which @sqe describes. */
static void mw_map(struct snic_mw *mw, const struct snic_mapping *of, const struct snic_sqe *sqe)
{
	u64 off = sqe->bind.va - of->base + of->first_block_off;
	u64 in_block = off & ((1ull << of->block_shift) - 1);
	struct snic_mapping *map = &mw->mr.map;

	*map = *of;
	map->base = sqe->bind.zero_based ? 0 : sqe->bind.va;
	map->len = sqe->bind.len;
	map->first_block_off = (u32)in_block;
	if (map->level)
		map->first_block += off >> of->block_shift;
	else
		map->addr += off - in_block;
	map->pd = mw->type1 ? mw->pd : SNIC_PD_OF_QP;
	map->access = sqe->bind.rights;
}

/*
 * If @sqe names a region, the caller has counted the window there. The caller is a reader of the
 * table.
 */
static enum snic_inv_result mw_bind(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	u8 key = sqe->bind.window & SNIC_SLOT_KEY;
	struct snic_mw *mw = mw_find(qp, sqe);
	struct snic_mr *region = NULL;
	enum snic_inv_result ret;

	if (!mw)
		return SNIC_INV_REFUSED;
	if (sqe->bind.len) {
		ret = mw_bind_region(qp, sqe, &region);
		if (ret != SNIC_INV_DONE)
			return ret;
	}
	ret = mw_claim(qp, mw);
	if (ret != SNIC_INV_DONE) {
		if (region)
			snic_slot_unbind(&region->slot);
		return ret;
	}
	if (!region) {
		snic_slot_unclaim(&mw->mr.slot, key);
		return SNIC_INV_DONE;
	}
	mw_map(mw, &region->map, sqe);
	mw->region = region;
	if (!mw->type1)
		mw_join(qp, mw);
	snic_slot_publish(&mw->mr.slot, key);
	return SNIC_INV_DONE;
}

enum snic_inv_result snic_mw_bind(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	enum snic_inv_result ret;

	/*
	 * A window without references stays until this read section ends; a region stays while it
	 * has windows.
	 */
	port_rcu_read_lock();
	ret = mw_bind(qp, sqe);
	port_rcu_read_unlock();
	if (ret == SNIC_INV_REFUSED)
		snic_stat_inc(qp->dev, SIRDMA_STAT_MW_BAD_BIND);
	return ret;
}

struct mw_end {
	struct snic_slot_callback callback;
	struct port_event idle;
};

static void mw_ended(struct snic_slot_callback *callback)
{
	port_event_set(&container_of(callback, struct mw_end, callback)->idle);
}

static struct snic_mw *mw_first(struct snic_qp *qp)
{
	struct snic_mw *mw;

	port_lock(&qp->dev->mw_lock);
	mw = qp->windows;
	port_unlock(&qp->dev->mw_lock);
	return mw;
}

/*
 * The caller executes a command, and only commands free windows. @qp is in RESET, so no window
 * joins its list.
 */
bool snic_mw_unbind_qp(struct snic_qp *qp, u32 most)
{
	struct snic_table *table = &qp->dev->mrs;
	struct snic_slot *slot;
	struct snic_mw *mw;
	struct mw_end end;

	while ((mw = mw_first(qp))) {
		if (!most)
			return false;
		slot = snic_slot_get(table, mw->mr.slot.obj.id);
		if (!slot)
			slot = snic_slot_get_draining(table, mw->mr.slot.obj.id);
		if (!slot)
			continue; /* its last user is about to take it from the list */
		if (mw->qp != qp) {
			/* Its last user did, and another queue pair has bound it. */
			snic_slot_put(slot);
			continue;
		}
		end.callback.done = mw_ended;
		port_event_init(&end.idle);
		/*
		 * If another caller invalidated the window first, wait for its last user as well.
		 */
		if (!snic_slot_invalidate(slot, &end.callback))
			snic_slot_wait(slot, &end.callback);
		snic_slot_put(slot);
		snic_obj_wait(&end.idle);
		most--;
		port_cond_resched();
	}
	return true;
}
