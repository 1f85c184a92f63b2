// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "odp_child.h"

#include <linux/jiffies.h>
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
/*
 * The children that are looked at, and perhaps freed, under one hold of the mutex, after one wait for the
 * device. Not tuned.
 */
#define COLLECT_BATCH 64
/*
 * How long a child is held for an access, jiffies. Most try again at once. For a QP that has waited for
 * longer it is doubled in each unit of SIRDMA_PRQ_WAITED, to 1.6 s: a QP tries again within 1.1 s
 * (SNIC_ABSENT_DOUBLINGS_ASKED), and after an RNR timer of at most 655 ms.
 */
#define CHILD_HOLD (HZ / 10)
#define CHILD_HOLD_DOUBLINGS 4
/* After this time no hold that there is now is left, jiffies. */
#define CHILD_HOLD_END (2 * HZ)
#define HELD_FOR_SEVERAL U32_MAX

struct sirdma_odp_child {
	struct sirdma_odp_range range;
	struct sirdma_odp_children *of;
	struct sirdma_pbl list;
	struct sirdma_sparse_cut cut; /* tables that go with this child */
	unsigned long number; /* address / 2 MiB */
	/* Under the mutex of the children */
	u32 users; /* tasks that find its pages */
	bool ended; /* the last user frees it */
	u32 held_for; /* the QP whose access needed it last, or HELD_FOR_SEVERAL; 0: none did */
	unsigned long held_until; /* jiffies */
	struct list_head link; /* of sirdma_odp_children.by_use, or of those that are to be freed */
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
	child->of->collect_in(child->of, 0);
}

/* Make and free. The mutex is not held: a new umem may wait for mmap_lock, and an old one for a notifier. */

static struct sirdma_odp_child *child_alloc(struct sirdma_odp_children *children,
					    unsigned long number)
{
	struct sirdma_odp_child *child;
	struct ib_umem_odp *umem;
	int err = -ENOMEM;

	if (!sirdma_odp_user_charge(children->user, CHILD_PAGES))
		return ERR_PTR(-EDQUOT);
	child = kzalloc(sizeof(*child), GFP_KERNEL);
	if (!child)
		goto err_charge;
	umem = ib_umem_odp_alloc_child(children->umem, number * SZ_2M, SZ_2M,
				       &sirdma_odp_notifier_ops);
	if (IS_ERR(umem)) {
		err = PTR_ERR(umem);
		goto err_child;
	}
	child->of = children;
	child->number = number;
	child->range.dev = children->dev;
	child->range.pd = children->pd;
	child->range.umem = umem;
	child->range.list = &child->list;
	child->range.emptied = child_emptied;
	return child;

err_child:
	kfree(child);
err_charge:
	sirdma_odp_user_uncharge(children->user, CHILD_PAGES);
	return ERR_PTR(err);
}

static void child_free(struct sirdma_odp_child *child)
{
	struct sirdma_odp_user *user = child->of->user;

	ib_umem_odp_release(child->range.umem);
	kfree(child);
	sirdma_odp_user_uncharge(user, CHILD_PAGES);
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

	err = sirdma_pbl_try_alloc(hw_of(children), CHILD_PAGES, true, &child->list);
	if (err)
		return err;
	err = xa_insert(&children->set, child->number, child, GFP_KERNEL);
	if (err)
		goto err_list;
	sirdma_odp_range_begin(&child->range);
	err = sirdma_sparse_link(hw_of(children), children->root, first_block(child), &child->list);
	if (err)
		goto err_range;
	list_add_tail(&child->link, &children->by_use);
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
	list_move_tail(&child->link, gone);
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

/* Is there an access that needs @child, other than one that is over by the access @need? */
static bool child_is_held(const struct sirdma_odp_child *child, const struct sirdma_odp_need *need)
{
	if (!child->held_for || time_after_eq(jiffies, child->held_until))
		return false;
	return !need || need->waited || need->qpn != child->held_for;
}

/*
 * Look at a batch of children without a page, and cut those that nobody needs. The work continues with the
 * next batch at once. At the end of the set, the work runs again after CHILD_HOLD_END if a child is still
 * marked. Returns false if none was cut.
 */
static bool cut_emptied(struct sirdma_odp_children *children, const struct sirdma_odp_need *need,
			struct list_head *gone)
{
	struct sirdma_odp_child *child;
	u32 n;

	for (n = 0; n < COLLECT_BATCH; n++) {
		child = xa_find(&children->set, &children->next, ULONG_MAX, CHILD_EMPTIED);
		if (!child)
			break;
		children->next = child->number + 1;
		if (child->users || child_is_held(child, need))
			continue;
		xa_clear_mark(&children->set, child->number, CHILD_EMPTIED);
		child_cut(child, false, gone);
	}
	if (n == COLLECT_BATCH) {
		children->collect_in(children, 0);
	} else {
		children->next = 0;
		if (xa_marked(&children->set, CHILD_EMPTIED))
			children->collect_in(children, CHILD_HOLD_END);
	}
	return !list_empty(gone);
}

/*
 * Cut the child that was not needed for the longest time. One that is in use or held gets a second chance
 * behind all others, so that the next call does not look at it again. Returns false after a batch of them.
 */
static bool cut_oldest(struct sirdma_odp_children *children, const struct sirdma_odp_need *need,
		       struct list_head *gone)
{
	struct sirdma_odp_child *child;
	u32 n;

	for (n = 0; n < COLLECT_BATCH && !list_empty(&children->by_use); n++) {
		child = list_first_entry(&children->by_use, struct sirdma_odp_child, link);
		if (!child_is_held(child, need) && child_cut(child, true, gone)) {
			sirdma_count(&children->dev->counters, SIRDMA_COUNTER_ODP_RECLAIMS);
			return true;
		}
		list_move_tail(&child->link, &children->by_use);
	}
	return false;
}

/*
 * Free a child for another one, which @need needs. Returns false if there is none among a batch; the access
 * asks again, and the next call looks further.
 */
static bool children_reclaim(struct sirdma_odp_children *children,
			     const struct sirdma_odp_need *need)
{
	LIST_HEAD(gone);
	bool found;

	if (!sirdma_odp_children_lock(children))
		return false;
	found = cut_emptied(children, need, &gone) || cut_oldest(children, need, &gone);
	children_free_lists(children, &gone);
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
	if (!IS_ERR_OR_NULL(child)) {
		child->users++;
		list_move_tail(&child->link, &children->by_use);
	}
	sirdma_odp_children_unlock(children);
	return child;
}

static struct sirdma_odp_child *child_get(struct sirdma_odp_children *children,
					  unsigned long number, const struct sirdma_odp_need *need)
{
	struct sirdma_odp_child *child, *fresh = NULL;

	for (;;) {
		child = child_find(children, number, &fresh);
		if (!child) {
			fresh = child_alloc(children, number);
			if (!IS_ERR(fresh))
				continue;
			child = fresh;
			fresh = NULL;
		}
		/* The user has a limit, and so has the device for its page lists. */
		if (child != ERR_PTR(-EDQUOT) && child != ERR_PTR(-ENOMEM))
			break;
		if (!children_reclaim(children, need))
			break;
	}
	if (fresh)
		child_free(fresh);
	return child;
}

/* The child stays for @need. The mutex is held. */
static void child_hold(struct sirdma_odp_child *child, const struct sirdma_odp_need *need)
{
	struct sirdma_odp_children *children = child->of;

	child->held_for = child_is_held(child, NULL) && child->held_for != need->qpn ?
				  HELD_FOR_SEVERAL :
				  need->qpn;
	child->held_until = jiffies + (CHILD_HOLD << min_t(u8, need->waited, CHILD_HOLD_DOUBLINGS));
	if (sirdma_odp_range_is_empty(&child->range)) {
		xa_set_mark(&children->set, child->number, CHILD_EMPTIED);
		children->collect_in(children, CHILD_HOLD_END);
	}
}

/* Unless it is held, a child without a page goes with its last user. */
static void child_put(struct sirdma_odp_child *child, const struct sirdma_odp_need *need)
{
	struct sirdma_odp_children *children = child->of;
	LIST_HEAD(gone);

	mutex_lock(&children->lock);
	child->users--;
	if (child->ended) {
		if (!child->users)
			list_add(&child->link, &gone);
	} else if (need) {
		child_hold(child, need);
	} else if (!child_is_held(child, NULL) && child_cut(child, false, &gone)) {
		children_free_lists(children, &gone);
	}
	mutex_unlock(&children->lock);
	children_free(&gone);
}

int sirdma_odp_children_map(struct sirdma_odp_children *children, u64 first, u64 count, bool write,
			    bool fault, const struct sirdma_odp_need *need)
{
	struct sirdma_odp_child *child;
	int err = 0;
	u32 in, n;

	for (; count && !err; first += n, count -= n) {
		in = first % CHILD_PAGES;
		n = min_t(u64, count, CHILD_PAGES - in);
		child = child_get(children, first / CHILD_PAGES, need);
		if (IS_ERR(child))
			return PTR_ERR(child);
		err = sirdma_odp_range_map(&child->range, in, n, write, fault);
		child_put(child, need);
	}
	return err;
}

/* All of them */

void sirdma_odp_children_collect(struct sirdma_odp_children *children)
{
	LIST_HEAD(gone);

	if (!sirdma_odp_children_lock(children))
		return;
	cut_emptied(children, NULL, &gone);
	children_free_lists(children, &gone);
	sirdma_odp_children_unlock(children);
	children_free(&gone);
}

void sirdma_odp_children_mark(struct sirdma_odp_children *children, u64 block, u64 mark,
			      void (*write)(__le64 *entry, u64 mark))
{
	struct sirdma_odp_child *child = xa_load(&children->set, block / CHILD_PAGES);

	if (!child) {
		write(sirdma_sparse_end(hw_of(children), children->root, block), mark);
	} else if (sirdma_odp_range_lock(&child->range)) {
		write(sirdma_odp_range_entry(&child->range, block % CHILD_PAGES), mark);
		sirdma_odp_range_unlock(&child->range);
	}
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
	INIT_LIST_HEAD(&children->by_use);
	return sirdma_sparse_alloc(hw_of(children), &children->root);
}

void sirdma_odp_children_end(struct sirdma_odp_children *children)
{
	struct sirdma_odp_child *child, *next;
	LIST_HEAD(gone);

	mutex_lock(&children->lock);
	children->ended = true;
	list_for_each_entry_safe(child, next, &children->by_use, link) {
		sirdma_odp_range_end(&child->range);
		sirdma_pbl_free(hw_of(children), &child->list);
		child->ended = true;
		if (child->users)
			list_del(&child->link);
		else
			list_move_tail(&child->link, &gone);
		cond_resched();
	}
	xa_destroy(&children->set);
	sirdma_sparse_free(hw_of(children), children->root);
	mutex_unlock(&children->lock);
	children_free(&gone);
}
