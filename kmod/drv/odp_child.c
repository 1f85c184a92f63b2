// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "odp_child.h"

#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "compat/ib_umem_odp.h"
#include "device.h"
#include "hw/pbl_sparse.h"
#include "hw/prq.h"
#include "odp_range.h"
#include "odp_user.h"

/* One leaf of a sparse list. */
#define CHILD_PAGES SIRDMA_PBLE_PER_LEAF
#define CHILD_EMPTIED XA_MARK_0
/* The children that are freed under one hold of the mutex, after one wait for the device. Not tuned. */
#define COLLECT_BATCH 64

struct sirdma_odp_child {
	struct sirdma_odp_range range;
	struct sirdma_odp_children *of;
	struct sirdma_pbl list;
	struct sirdma_sparse_cut cut; /* tables that go with this child */
	unsigned long number; /* address / 2 MiB */
	u32 users; /* tasks that find its pages; under the mutex of the children */
	bool ended; /* the last user frees it */
	struct list_head link; /* of those that are to be freed */
};

static struct sirdma_hw *hw_of(const struct sirdma_odp_children *children)
{
	return &children->dev->hw;
}

static u64 first_block(const struct sirdma_odp_child *child)
{
	return (u64)child->number * CHILD_PAGES;
}

/* The mutex of the umem is held, so the range has not ended, and the child is in the set. */
static void child_emptied(struct sirdma_odp_range *range)
{
	struct sirdma_odp_child *child = container_of(range, struct sirdma_odp_child, range);

	xa_set_mark(&child->of->set, child->number, CHILD_EMPTIED);
	child->of->emptied(child->of);
}

/* Make and free. The mutex is not held: a new umem may wait for mmap_lock, and an old one for a notifier. */

static struct sirdma_odp_child *child_alloc(struct sirdma_odp_children *children,
					    unsigned long number)
{
	struct sirdma_odp_child *child = kzalloc(sizeof(*child), GFP_KERNEL);
	struct ib_umem_odp *umem;

	if (!child)
		return ERR_PTR(-ENOMEM);
	umem = ib_umem_odp_alloc_child(children->umem, number * SZ_2M, SZ_2M,
				       &sirdma_odp_notifier_ops);
	if (IS_ERR(umem)) {
		kfree(child);
		return ERR_CAST(umem);
	}
	child->of = children;
	child->number = number;
	child->range.dev = children->dev;
	child->range.pd = children->pd;
	child->range.umem = umem;
	child->range.list = &child->list;
	child->range.emptied = child_emptied;
	return child;
}

static void child_free(struct sirdma_odp_child *child)
{
	ib_umem_odp_release(child->range.umem);
	sirdma_odp_user_uncharge(child->of->user, CHILD_PAGES);
	kfree(child);
}

static void children_free(struct list_head *gone)
{
	struct sirdma_odp_child *child, *next;

	list_for_each_entry_safe(child, next, gone, link) {
		child_free(child);
		cond_resched();
	}
}

/* The set and the page list. The mutex is held. */

static int child_insert(struct sirdma_odp_child *child)
{
	struct sirdma_odp_children *children = child->of;
	int err;

	err = sirdma_pbl_alloc(hw_of(children), CHILD_PAGES, true, &child->list);
	if (err)
		return err;
	err = xa_insert(&children->set, child->number, child, GFP_KERNEL);
	if (err)
		goto err_list;
	sirdma_odp_range_begin(&child->range);
	err = sirdma_sparse_link(hw_of(children), children->root, first_block(child), &child->list);
	if (err)
		goto err_range;
	return 0;

err_range:
	sirdma_odp_range_end(&child->range);
	xa_erase(&children->set, child->number);
err_list:
	sirdma_pbl_free(hw_of(children), &child->list);
	return err;
}

/*
 * Take a child without users from the page list, if the device has no page of it; with @force, take its
 * pages first. The device may still read its entries.
 */
static bool child_cut(struct sirdma_odp_child *child, bool force, struct list_head *gone)
{
	struct sirdma_odp_children *children = child->of;

	if (child->users || !sirdma_odp_range_end_empty(&child->range, force))
		return false;
	xa_erase(&children->set, child->number);
	sirdma_sparse_unlink(hw_of(children), children->root, first_block(child), &child->cut);
	list_add_tail(&child->link, gone);
	return true;
}

/* Free the page lists of the children that were cut. */
static void children_free_lists(struct sirdma_odp_children *children, struct list_head *gone)
{
	struct sirdma_odp_child *child;

	if (list_empty(gone))
		return;
	sirdma_pble_sync(hw_of(children), children->pd);
	list_for_each_entry(child, gone, link) {
		sirdma_pbl_free(hw_of(children), &child->list);
		sirdma_sparse_free_cut(hw_of(children), &child->cut);
	}
}

static bool cut_next(struct sirdma_odp_children *children, unsigned long from, unsigned long to,
		     struct list_head *gone)
{
	struct sirdma_odp_child *child;
	unsigned long number;

	xa_for_each_range(&children->set, number, child, from, to) {
		if (child_cut(child, true, gone)) {
			children->hand = number;
			return true;
		}
	}
	return false;
}

/* Free one child, in the order of addresses, for another one. Returns false if all of them have users. */
static bool children_reclaim(struct sirdma_odp_children *children)
{
	bool found = false;
	LIST_HEAD(gone);

	if (!sirdma_odp_children_lock(children))
		return false;
	found = cut_next(children, children->hand + 1, ULONG_MAX, &gone) ||
		cut_next(children, 0, children->hand, &gone);
	children_free_lists(children, &gone);
	if (found)
		sirdma_count(&children->dev->counters, SIRDMA_COUNTER_ODP_RECLAIMS);
	sirdma_odp_children_unlock(children);
	children_free(&gone);
	return found;
}

/* Users of a child */

/* The child @number with one more user, made of *@fresh if there is none. NULL: there is neither. */
static struct sirdma_odp_child *child_find(struct sirdma_odp_children *children,
					   unsigned long number, struct sirdma_odp_child **fresh)
{
	struct sirdma_odp_child *child;
	int err;

	if (!sirdma_odp_children_lock(children))
		return ERR_PTR(-ENOENT);
	child = xa_load(&children->set, number);
	if (!child && *fresh) {
		err = child_insert(*fresh);
		child = err ? ERR_PTR(err) : *fresh;
		if (!err)
			*fresh = NULL;
	}
	if (!IS_ERR_OR_NULL(child))
		child->users++;
	sirdma_odp_children_unlock(children);
	return child;
}

/* A child that is in no set yet, charged to its user. */
static struct sirdma_odp_child *child_make(struct sirdma_odp_children *children,
					   unsigned long number)
{
	struct sirdma_odp_child *child;

	while (!sirdma_odp_user_charge(children->user, CHILD_PAGES))
		if (!children_reclaim(children))
			return ERR_PTR(-EDQUOT);
	child = child_alloc(children, number);
	if (IS_ERR(child))
		sirdma_odp_user_uncharge(children->user, CHILD_PAGES);
	return child;
}

static struct sirdma_odp_child *child_get(struct sirdma_odp_children *children,
					  unsigned long number)
{
	struct sirdma_odp_child *child, *fresh = NULL;

	for (;;) {
		child = child_find(children, number, &fresh);
		if (child == ERR_PTR(-ENOMEM)) {
			/* The page lists of the device have a limit, too. */
			if (children_reclaim(children))
				continue;
			child = ERR_PTR(-ENOSPC);
		}
		if (child)
			break;
		fresh = child_make(children, number);
		if (IS_ERR(fresh))
			return fresh;
	}
	if (fresh)
		child_free(fresh);
	return child;
}

/* Unless @keep, a child without a page goes with its last user. */
static void child_put(struct sirdma_odp_child *child, bool keep)
{
	struct sirdma_odp_children *children = child->of;
	LIST_HEAD(gone);

	mutex_lock(&children->lock);
	if (!--child->users) {
		if (child->ended)
			list_add(&child->link, &gone);
		else if (!keep && child_cut(child, false, &gone))
			children_free_lists(children, &gone);
	}
	mutex_unlock(&children->lock);
	children_free(&gone);
}

int sirdma_odp_children_map(struct sirdma_odp_children *children, u64 first, u64 count, bool write,
			    bool fault, bool keep)
{
	struct sirdma_odp_child *child;
	int err = 0;
	u32 in, n;

	for (; count && !err; first += n, count -= n) {
		in = first % CHILD_PAGES;
		n = min_t(u64, count, CHILD_PAGES - in);
		child = child_get(children, first / CHILD_PAGES);
		if (IS_ERR(child))
			return PTR_ERR(child);
		err = sirdma_odp_range_map(&child->range, in, n, write, fault);
		child_put(child, keep);
		keep = false;
	}
	return err;
}

/* All of them */

/* Cut a batch of those that are empty. Returns false if there was none. The mutex is held. */
static bool cut_emptied(struct sirdma_odp_children *children, struct list_head *gone)
{
	struct sirdma_odp_child *child;
	unsigned long number;
	u32 n = 0;

	xa_for_each_marked(&children->set, number, child, CHILD_EMPTIED) {
		/* One that has users now is looked at by the last of them. */
		xa_clear_mark(&children->set, number, CHILD_EMPTIED);
		child_cut(child, false, gone);
		if (++n == COLLECT_BATCH)
			break;
	}
	return n;
}

void sirdma_odp_children_collect(struct sirdma_odp_children *children)
{
	bool more = true;

	while (more && sirdma_odp_children_lock(children)) {
		LIST_HEAD(gone);

		more = cut_emptied(children, &gone);
		children_free_lists(children, &gone);
		sirdma_odp_children_unlock(children);
		children_free(&gone);
	}
}

void sirdma_odp_children_mark(struct sirdma_odp_children *children, u64 block, u32 qpn,
			      void (*mark)(__le64 *entry, u32 qpn))
{
	struct sirdma_odp_child *child = xa_load(&children->set, block / CHILD_PAGES);

	if (!child) {
		mark(sirdma_sparse_end(hw_of(children), children->root, block), qpn);
	} else if (sirdma_odp_range_lock(&child->range)) {
		mark(sirdma_odp_range_entry(&child->range, block % CHILD_PAGES), qpn);
		sirdma_odp_range_unlock(&child->range);
	}
}

void sirdma_odp_children_release(struct sirdma_odp_children *children, u64 block)
{
	/* No child is no error. */
	xa_set_mark(&children->set, block / CHILD_PAGES, CHILD_EMPTIED);
}

bool sirdma_odp_children_lock(struct sirdma_odp_children *children)
{
	mutex_lock(&children->lock);
	if (!children->ended)
		return true;
	mutex_unlock(&children->lock);
	return false;
}

void sirdma_odp_children_unlock(struct sirdma_odp_children *children)
{
	mutex_unlock(&children->lock);
}

int sirdma_odp_children_begin(struct sirdma_odp_children *children)
{
	mutex_init(&children->lock);
	xa_init(&children->set);
	return sirdma_sparse_alloc(hw_of(children), &children->root);
}

void sirdma_odp_children_end(struct sirdma_odp_children *children)
{
	struct sirdma_odp_child *child;
	unsigned long number;
	LIST_HEAD(gone);

	mutex_lock(&children->lock);
	children->ended = true;
	xa_for_each(&children->set, number, child) {
		sirdma_odp_range_end(&child->range);
		sirdma_pbl_free(hw_of(children), &child->list);
		if (child->users)
			child->ended = true;
		else
			list_add_tail(&child->link, &gone);
		cond_resched();
	}
	xa_destroy(&children->set);
	sirdma_sparse_free(hw_of(children), children->root);
	mutex_unlock(&children->lock);
	children_free(&gone);
}
