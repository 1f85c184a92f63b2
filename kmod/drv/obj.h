/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts that QPs, CQs and shared receive queues have in common: the device's events name them
 * by a cookie, and an object stays while an event of it is delivered.
 */
#ifndef SIRDMA_DRV_OBJ_H
#define SIRDMA_DRV_OBJ_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/xarray.h>

#include "hw/idpool.h"

struct sirdma_obj {
	u64 cookie; /* see sirdma_idpool_cookie() */
	refcount_t refs; /* 1 while the object exists, more while an event is delivered */
	struct completion idle; /* refs reached zero */
};

/*
 * Set the cookie of @obj: from now on events with this cookie find @obj. Returns 0, -EBUSY if
 * another object has @id, or -ENOMEM.
 */
static inline int sirdma_obj_publish(struct xarray *table, struct sirdma_idpool *ids, u32 id,
				     struct sirdma_obj *obj)
{
	obj->cookie = sirdma_idpool_cookie(ids, id);
	refcount_set(&obj->refs, 1);
	init_completion(&obj->idle);
	return xa_insert_irq(table, id, obj, GFP_KERNEL);
}

/* The object of that cookie, held; NULL: the event came too late. Any context. */
static inline struct sirdma_obj *sirdma_obj_get(struct xarray *table, u64 cookie)
{
	struct sirdma_obj *obj;
	unsigned long flags;

	/* The lock keeps the entry, and so the object, until the reference is taken. */
	xa_lock_irqsave(table, flags);
	obj = xa_load(table, sirdma_cookie_id(cookie));
	if (obj && obj->cookie == cookie)
		refcount_inc(&obj->refs);
	else
		obj = NULL;
	xa_unlock_irqrestore(table, flags);
	return obj;
}

static inline void sirdma_obj_put(struct sirdma_obj *obj)
{
	if (refcount_dec_and_test(&obj->refs))
		complete(&obj->idle);
}

/* When this function returns, no event finds @obj, and no event of it is being delivered. */
static inline void sirdma_obj_unpublish(struct xarray *table, struct sirdma_obj *obj)
{
	xa_erase_irq(table, sirdma_cookie_id(obj->cookie));
	sirdma_obj_put(obj);
	wait_for_completion(&obj->idle);
}

#endif
