// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Invalidation of a key by a queue pair. */
#include "inv.h"

#include "qp.h"

enum {
	INV_IDLE,
	INV_STARTING,
	INV_WAITING,
	INV_DONE,
};

/*
 * The last user of the memory is gone. The caller may be in any context, and may hold the lock of
 * another QP.
 */
static void inv_drained(struct snic_slot_callback *callback)
{
	struct snic_inv *inv = container_of(callback, struct snic_inv, callback);
	struct snic_qp *qp = inv->qp;
	u64 old;

	do {
		old = READ_ONCE(inv->state);
	} while (!port_cas64(&inv->state, old, INV_DONE));
	if (old == INV_WAITING) {
		smp_mb(); /* pairs with qp_take(), which clears the flag before the state is read */
		WRITE_ONCE(qp->inv_drained, true);
		snic_dev_ops(qp->dev)->defer(qp->dev->host, qp->obj.id, false);
	}
	snic_qp_put(qp);
}

bool snic_inv_alloc(struct snic_qp *qp)
{
	u32 i;

	qp->inv = port_alloc_charged(SNIC_INVS * sizeof(*qp->inv));
	if (!qp->inv)
		return false;
	for (i = 0; i < SNIC_INVS; i++) {
		qp->inv[i].callback.done = inv_drained;
		qp->inv[i].qp = qp;
		qp->inv[i].state = INV_IDLE;
	}
	return true;
}

bool snic_inv_finish(struct snic_inv *inv)
{
	if (READ_ONCE(inv->state) != INV_DONE)
		return false;
	WRITE_ONCE(inv->state, INV_IDLE);
	/*
	 * Where the wire is memory, packets whose payload peers read hold no reference of the slot, and peers may
	 * still be about to read it. Those of bursts that the host keeps do (kept.h).
	 */
	snic_finish_references(inv->qp->dev);
	return true;
}

enum snic_inv_result snic_inv_start(struct snic_inv *inv, u32 stag, enum snic_inv_why why)
{
	struct snic_qp *qp = inv->qp;
	enum snic_invalidate ret;

	/*
	 * A reset or an error may have left an invalidation under way. When that invalidation ends,
	 * inv_drained() schedules this queue pair, which then tries again.
	 */
	if (READ_ONCE(inv->state) != INV_IDLE && !snic_inv_finish(inv))
		return SNIC_INV_AGAIN;
	/* The QP may hold a reference to this region, for the last packet. */
	snic_qp_put_rx_mr(qp);
	WRITE_ONCE(inv->state, INV_STARTING);
	snic_obj_get(&qp->obj);
	ret = snic_mr_invalidate(qp->dev, stag, qp->pd, qp->obj.id, why, &inv->callback);
	if (ret == SNIC_INVALIDATE_STARTED) {
		if (port_cas64(&inv->state, INV_STARTING, INV_WAITING))
			return SNIC_INV_WAIT;
		snic_inv_finish(inv);
		return SNIC_INV_DONE;
	}
	snic_qp_put(qp);
	WRITE_ONCE(inv->state, INV_IDLE);
	switch (ret) {
	case SNIC_INVALIDATE_DONE:
		/*
		 * Another queue pair may have invalidated the key, and may not have run since the
		 * slot drained.
		 */
		snic_finish_references(qp->dev);
		return SNIC_INV_DONE;
	case SNIC_INVALIDATE_BUSY:
		snic_qp_defer(qp);
		return SNIC_INV_AGAIN;
	default:
		return SNIC_INV_REFUSED;
	}
}
