/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What QPs, CQs and shared receive queues have in common: the device's events name them by
 * number, and an object stays while an event of it is delivered.
 */
#ifndef SIRDMA_DRV_OBJ_H
#define SIRDMA_DRV_OBJ_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/xarray.h>

struct sirdma_obj {
	refcount_t refs; /* 1 while it exists, more while an event is delivered */
	struct completion idle; /* refs reached zero */
};

/* From now on events of number @id find @obj. 0 or -ENOMEM. */
static inline int sirdma_obj_publish(struct xarray *table, u32 id, struct sirdma_obj *obj)
{
	refcount_set(&obj->refs, 1);
	init_completion(&obj->idle);
	return xa_err(xa_store_irq(table, id, obj, GFP_KERNEL));
}

/* The object of that number, held; NULL. Any context. */
static inline struct sirdma_obj *sirdma_obj_get(struct xarray *table, u32 id)
{
	struct sirdma_obj *obj;
	unsigned long flags;

	/* The lock keeps the entry, and so the object, until the reference is taken. */
	xa_lock_irqsave(table, flags);
	obj = xa_load(table, id);
	if (obj)
		refcount_inc(&obj->refs);
	xa_unlock_irqrestore(table, flags);
	return obj;
}

static inline void sirdma_obj_put(struct sirdma_obj *obj)
{
	if (refcount_dec_and_test(&obj->refs))
		complete(&obj->idle);
}

/* No event finds @obj any more, and none of it is being delivered. */
static inline void sirdma_obj_unpublish(struct xarray *table, u32 id, struct sirdma_obj *obj)
{
	xa_erase_irq(table, id);
	sirdma_obj_put(obj);
	wait_for_completion(&obj->idle);
}

#endif
