/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory of an implicit region: all addresses of a process, in children of 2 MiB. Each is a range
 * with a leaf of the region's sparse page list. A child is made when the device, or advice, needs a page
 * of it, and goes when the notifier has taken its last page, or when the user has no more pages of
 * children left and another one is needed.
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
#include <linux/xarray.h>

struct ib_umem_odp;
struct sirdma_dev;
struct sirdma_odp_user;

struct sirdma_odp_children {
	struct sirdma_dev *dev;
	struct sirdma_odp_user *user;
	struct ib_umem_odp *umem; /* of the region */
	/* Call sirdma_odp_children_collect() soon. The mutex of a umem is held. Does not allocate. */
	void (*emptied)(struct sirdma_odp_children *children);
	u32 pd;
	u32 root; /* the first PBLE of the list */
	struct mutex lock; /* protects the members below */
	bool ended;
	unsigned long hand; /* the number of the child that was taken last for another one */
	struct xarray
		set; /* number -> struct sirdma_odp_child; marked: a notifier took its last page */
};

/*
 * Allocate the page list; dev, user, umem, emptied and pd are set. Returns 0 or an errno, with nothing
 * allocated.
 */
int sirdma_odp_children_begin(struct sirdma_odp_children *children);
/* The device does not use the page list any more, and nothing of it is touched from now on. */
void sirdma_odp_children_end(struct sirdma_odp_children *children);
/* Take the mutex. Returns false, without it, if they have ended. */
bool sirdma_odp_children_lock(struct sirdma_odp_children *children);
void sirdma_odp_children_unlock(struct sirdma_odp_children *children);
/*
 * As sirdma_odp_range_map(), with blocks of the region's list. Also -EDQUOT and -ENOSPC: the user's
 * limit of pages, or that of the device's page lists, leaves none for another child. @keep: the child of
 * the first block stays although it gets no page, for a mark. Marks above the leaves are for many pages,
 * and the QP that they name may have ended, and its number be that of another one, which has memory there.
 */
int sirdma_odp_children_map(struct sirdma_odp_children *children, u64 first, u64 count, bool write,
			    bool fault, bool keep);
/* The mark at @block is of use no more: collect the child if it has no page. The mutex is held. */
void sirdma_odp_children_release(struct sirdma_odp_children *children, u64 block);
/* Free the children without a page that a notifier, or sirdma_odp_children_release(), has left. */
void sirdma_odp_children_collect(struct sirdma_odp_children *children);
/* Call @mark for the entry that the device finds for @block, under its lock. The mutex is held. */
void sirdma_odp_children_mark(struct sirdma_odp_children *children, u64 block, u32 qpn,
			      void (*mark)(__le64 *entry, u32 qpn));

#endif
