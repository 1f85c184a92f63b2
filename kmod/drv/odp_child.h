/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory of an implicit region: all addresses of a process, in children of 2 MiB. Each is a range
 * with a leaf of the region's sparse page list. A child is made when the device, or advice, needs a page
 * of it. It is freed when the notifier has taken its last page, or when another child is needed and the
 * user may have no more: empty children first, then the one that was not needed for the longest time.
 *
 * A child that an access of the device needed is held for a while: the access tries again by then, and
 * finds the page, or the mark that says that there is none. Only another access of the same QP, which
 * tells that this one is over, takes a held child. So accesses that need each other's room take turns,
 * and one that needs more children than there is room for fails when its QP has waited for too long.
 *
 * The mutex of the children protects the tables of the page list and their set. It is held by all that
 * touches the device for them, but by notifiers, which hold the mutex of a child's umem, and it is not
 * held while a page fault waits, nor while the core makes or releases a umem. So the end of the region
 * waits for no page fault. Taken before the mutex of a umem. Memory is allocated under it.
 */
#ifndef SIRDMA_DRV_ODP_CHILD_H
#define SIRDMA_DRV_ODP_CHILD_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

struct ib_umem_odp;
struct sirdma_dev;
struct sirdma_odp_user;

struct sirdma_odp_children {
	struct sirdma_dev *dev;
	struct sirdma_odp_user *user;
	struct ib_umem_odp *umem; /* of the region */
	/*
	 * Call sirdma_odp_children_collect() by the work @collect, after @delay jiffies. The children have
	 * not ended: their mutex, or that of a umem, is held. Does not allocate.
	 */
	void (*collect_in)(struct sirdma_odp_children *children, unsigned long delay);
	struct delayed_work collect;
	u32 pd;
	u32 root; /* the first PBLE of the list */
	struct mutex lock; /* protects the members below */
	bool ended;
	struct xarray set; /* number -> struct sirdma_odp_child; marked: it has no page */
	unsigned long next; /* number at which the search for marked children continues */
	/* The children of the set. One moves to the end when it is needed, or when cut_oldest() skips it. */
	struct list_head by_use;
};

/* The access of the device that needs pages. */
struct sirdma_odp_need {
	u32 qpn;
	u8 waited; /* SIRDMA_PRQ_WAITED; not 0: the QP has asked before, and made no progress since */
};

/*
 * Allocate the page list; dev, user, umem, collect_in, collect and pd are set. Returns 0 or an errno, with nothing
 * allocated.
 */
int sirdma_odp_children_begin(struct sirdma_odp_children *children);
/* The device does not use the page list any more, and nothing of it is touched from now on. */
void sirdma_odp_children_end(struct sirdma_odp_children *children);
/* Take the mutex. Returns false, without it, if they have ended. */
bool sirdma_odp_children_lock(struct sirdma_odp_children *children);
void sirdma_odp_children_unlock(struct sirdma_odp_children *children);
/*
 * As sirdma_odp_range_map(), with blocks of the region's list. Also -EDQUOT: the user may have no more
 * pages, and all children are in use or held. @need: the access of the device, for which the children are
 * held also if they get no page, for a mark (one above the leaves would be for many pages); NULL: advice.
 */
int sirdma_odp_children_map(struct sirdma_odp_children *children, u64 first, u64 count, bool write,
			    bool fault, const struct sirdma_odp_need *need);
/* Free some children without a page. If there are more, the work comes again. */
void sirdma_odp_children_collect(struct sirdma_odp_children *children);
/* Call @write for the entry that the device finds for @block, under its lock. The mutex is held. */
void sirdma_odp_children_mark(struct sirdma_odp_children *children, u64 block, u64 mark,
			      void (*write)(__le64 *entry, u64 mark));

#endif
