/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A range of addresses of a process, whose memory comes on demand: its page list, and the MMU notifier
 * that takes pages back. An explicit region is one range, an implicit one has many.
 *
 * The mutex of a range's umem orders what its page list says: a page is entered under it, after the
 * core has checked that no notifier came since the page was found, and a notifier clears entries
 * under it. A notifier may run while memory is reclaimed, so nothing allocates under the mutex, and
 * the notifier uses no command: commands wait for memory.
 */
#ifndef SIRDMA_DRV_ODP_RANGE_H
#define SIRDMA_DRV_ODP_RANGE_H

#include <linux/mutex.h>

#include "hw/pble.h"

struct ib_umem_odp;
struct sirdma_dev;

struct sirdma_odp_range {
	struct sirdma_dev *dev;
	u32 pd;
	u32 present; /* entries of the page list that name memory; under the umem's mutex */
	/* Its private pointer is this range from sirdma_odp_range_begin() to the end of the range. */
	struct ib_umem_odp *umem;
	struct sirdma_pbl *list; /* of level 1 or 2, one entry for each page of the umem */
	/*
	 * Held from the walk of the page tables until its pages are entered: two walks at once would
	 * write the umem's list of pages, and the core checks only that no notifier came. Taken before
	 * mmap_lock and the umem's mutex.
	 */
	struct mutex walk;
	/* NULL, or: a notifier has taken the last page. The umem's mutex is held. Does not allocate. */
	void (*emptied)(struct sirdma_odp_range *range);
};

/*
 * The pages that are found by one walk of the page tables, 4 MiB: it bounds how long the locks of the
 * address space and of the umem are held. A request of the device gets no more than this at once, and
 * a longer message asks again. Not tuned.
 */
#define SIRDMA_ODP_STEP 1024

extern const struct mmu_interval_notifier_ops sirdma_odp_notifier_ops;

/* The members above are set. The page list gets no page. The device does not know it yet. */
void sirdma_odp_range_begin(struct sirdma_odp_range *range);
/*
 * The device does not use the page list any more, or has no page of it and will find it no more. From
 * now on nothing of the device is touched for this range.
 */
void sirdma_odp_range_end(struct sirdma_odp_range *range);
/*
 * The same if the device has no page of the range, which its page list may still say to the device.
 * Otherwise returns false, but with @force takes the pages from the device first.
 */
bool sirdma_odp_range_end_empty(struct sirdma_odp_range *range, bool force);
bool sirdma_odp_range_is_empty(struct sirdma_odp_range *range);
/*
 * Enter @count pages from @first on. Unless @fault, those that are mapped. Returns 0 or an errno; -ENOENT:
 * the range has ended. May wait for ever.
 */
int sirdma_odp_range_map(struct sirdma_odp_range *range, u32 first, u32 count, bool write,
			 bool fault);
/* Take the umem's mutex. Returns false, without it, if the range has ended. */
bool sirdma_odp_range_lock(struct sirdma_odp_range *range);
void sirdma_odp_range_unlock(struct sirdma_odp_range *range);
/* The entry of page @block. The umem's mutex is held. */
__le64 *sirdma_odp_range_entry(struct sirdma_odp_range *range, u32 block);

/* The mark that answers the requests of QP @qpn while it has the generation @gen. */
u64 sirdma_odp_error_of(u32 qpn, u32 gen);
/*
 * The next access that meets @entry, of the QP that @mark names, fails, unless the entry names something
 * by now. A QP whose mark is overwritten asks again. The caller holds the lock of the entry.
 */
void sirdma_odp_set_error(__le64 *entry, u64 mark);
/* That access has failed. The lock of the entry is held. */
void sirdma_odp_end_error(__le64 *entry, u64 mark);

#endif
