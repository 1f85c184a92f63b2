/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts that QPs, CQs and shared receive queues have in common: the device's events name them
 * by a cookie, and an object stays while an event of it is delivered.
 */
#ifndef SIRDMA_DRV_OBJ_H
#define SIRDMA_DRV_OBJ_H

#include <linux/completion.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "hw/idpool.h"

struct sirdma_obj {
	u64 cookie; /* see sirdma_idpool_cookie() */
	struct sirdma_obj_entry *entry;
	struct completion idle; /* entry->refs reached zero */
};

/*
 * The table's entry for an object. The RDMA core frees an object as soon as it is destroyed. Its
 * entry is freed after a grace period of RCU, so that the lookup of an event takes no lock. The
 * cookie is compared before the object may be touched.
 */
struct sirdma_obj_entry {
	struct sirdma_obj *obj;
	u64 cookie;
	refcount_t refs; /* 1 while the object exists, more while an event is delivered */
	struct rcu_head rcu;
};

/*
 * Set the cookie of @obj: from now on events with this cookie find @obj. Returns 0, -EBUSY if
 * another object has @id, or -ENOMEM.
 */
static inline int sirdma_obj_publish(struct xarray *table, struct sirdma_idpool *ids, u32 id,
				     struct sirdma_obj *obj)
{
	struct sirdma_obj_entry *entry = kmalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	int err;

	if (!entry)
		return -ENOMEM;
	obj->cookie = sirdma_idpool_cookie(ids, id);
	obj->entry = entry;
	init_completion(&obj->idle);
	entry->obj = obj;
	entry->cookie = obj->cookie;
	refcount_set(&entry->refs, 1);
	err = xa_insert(table, id, entry, GFP_KERNEL);
	if (err)
		kfree(entry);
	return err;
}

/* Hold the object of @entry. NULL: it is being destroyed. The caller holds the RCU read lock. */
static inline struct sirdma_obj *sirdma_obj_tryget(struct sirdma_obj_entry *entry)
{
	return refcount_inc_not_zero(&entry->refs) ? entry->obj : NULL;
}

/* The object of that cookie, held; NULL: the event came too late. Any context. */
static inline struct sirdma_obj *sirdma_obj_get(struct xarray *table, u64 cookie)
{
	struct sirdma_obj_entry *entry;
	struct sirdma_obj *obj = NULL;

	rcu_read_lock();
	entry = xa_load(table, sirdma_cookie_id(cookie));
	if (entry && entry->cookie == cookie)
		obj = sirdma_obj_tryget(entry);
	rcu_read_unlock();
	return obj;
}

/* The object of that number, not held, or NULL. The caller keeps it from being freed. */
static inline struct sirdma_obj *sirdma_obj_peek(struct xarray *table, u32 id)
{
	struct sirdma_obj_entry *entry;
	struct sirdma_obj *obj;

	rcu_read_lock();
	entry = xa_load(table, id);
	obj = entry ? entry->obj : NULL;
	rcu_read_unlock();
	return obj;
}

static inline void sirdma_obj_put(struct sirdma_obj *obj)
{
	if (refcount_dec_and_test(&obj->entry->refs))
		complete(&obj->idle);
}

/* When this function returns, no event finds @obj, and no event of it is being delivered. */
static inline void sirdma_obj_unpublish(struct xarray *table, struct sirdma_obj *obj)
{
	xa_erase(table, sirdma_cookie_id(obj->cookie));
	sirdma_obj_put(obj);
	wait_for_completion(&obj->idle);
	kfree_rcu(obj->entry, rcu);
}

#endif
