// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "odp_range.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>

#include "compat/ib_umem_odp.h"
#include "device.h"
#include "hw/prq.h"

/* Page lists */

static bool entry_is_absent(__le64 entry)
{
	return le64_to_cpu(entry) & (SIRDMA_PBLE_ABSENT | SIRDMA_PBLE_ERROR);
}

/*
 * Does the kernel's direct map lack the page? Then the device cannot reach it. Pinning refuses such
 * memory, and the walk of the page tables does not.
 */
static bool page_is_secret(struct page *page)
{
	const struct address_space *mapping = folio_mapping(page_folio(page));

	return mapping && mapping->host && mapping->host->i_sb->s_magic == SECRETMEM_MAGIC;
}

/*
 * Write the entries of @count pages from @first on as the umem has them. Returns false if one of them
 * is memory that the device cannot reach. The umem's mutex is held.
 */
static bool range_enter(struct sirdma_odp_range *range, u32 first, u32 count)
{
	struct ib_umem_odp *umem = range->umem;
	const unsigned long need = HMM_PFN_VALID | (umem->umem.writable ? HMM_PFN_WRITE : 0);
	const unsigned long *pfns = compat_umem_odp_pfns(umem);
	struct sirdma_pbl_walk walk = {.pbl = range->list, .next = first};
	bool reachable = true;
	struct page *page;
	__le64 *entry;
	u32 i;

	for (i = first; i < first + count; i++) {
		entry = sirdma_pbl_next(&range->dev->hw, &walk);
		if (!entry)
			break;
		/*
		 * The device writes to any page of a region that it may write to. One that is mapped
		 * for reading, as after fork(), stays absent until the device needs it.
		 */
		if ((pfns[i] & need) != need)
			continue;
		page = hmm_pfn_to_page(pfns[i]);
		if (unlikely(page_is_secret(page))) {
			reachable = false;
			continue;
		}
		range->present += entry_is_absent(*entry);
		WRITE_ONCE(*entry, cpu_to_le64((uintptr_t)page_address(page)));
	}
	return reachable;
}

/*
 * Clear the entries of pages first .. end - 1. Returns true if the device may be using one of them.
 * The umem's mutex is held.
 */
static bool range_clear(struct sirdma_odp_range *range, u32 first, u32 end)
{
	struct sirdma_pbl_walk walk = {.pbl = range->list, .next = first};
	const u32 before = range->present;
	__le64 *entry;

	while (walk.next < end) {
		if (!walk.left)
			cond_resched();
		entry = sirdma_pbl_next(&range->dev->hw, &walk);
		if (!entry)
			break;
		range->present -= !entry_is_absent(*entry);
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
	}
	return range->present != before;
}

/*
 * The device may have written to the pages first .. end - 1, and the page tables need not know:
 * MADV_FREE leaves a page writable and clean. The umem's mutex is held.
 */
static void range_set_dirty(struct sirdma_odp_range *range, u32 first, u32 end)
{
	const unsigned long *pfns = compat_umem_odp_pfns(range->umem);
	const unsigned long dirty = HMM_PFN_VALID | HMM_PFN_WRITE;
	struct sirdma_pbl_walk walk = {.pbl = range->list, .next = first};
	__le64 *entry;
	u32 i;

	if (!range->umem->umem.writable)
		return;
	for (i = first; i < end; i++) {
		if (!walk.left)
			cond_resched();
		entry = sirdma_pbl_next(&range->dev->hw, &walk);
		if (!entry)
			break;
		if ((pfns[i] & dirty) == dirty && !entry_is_absent(*entry))
			set_page_dirty(compound_head(hmm_pfn_to_page(pfns[i])));
	}
}

__le64 *sirdma_odp_range_entry(struct sirdma_odp_range *range, u32 block)
{
	u32 n;

	return sirdma_pbl_entries(&range->dev->hw, range->list, block, &n);
}

u64 sirdma_odp_error_of(u32 qpn, u32 gen)
{
	return SIRDMA_PBLE_ERROR | SIRDMA_PREP(SIRDMA_PBLE_ERROR_QPN, qpn) |
	       SIRDMA_PREP(SIRDMA_PBLE_ERROR_GEN, gen);
}

void sirdma_odp_set_error(__le64 *entry, u64 mark)
{
	if (entry && entry_is_absent(*entry))
		WRITE_ONCE(*entry, cpu_to_le64(mark));
}

void sirdma_odp_end_error(__le64 *entry, u64 mark)
{
	if (entry && le64_to_cpu(*entry) == mark)
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
}

bool sirdma_odp_range_lock(struct sirdma_odp_range *range)
{
	mutex_lock(&range->umem->umem_mutex);
	if (range->umem->private)
		return true;
	mutex_unlock(&range->umem->umem_mutex);
	return false;
}

void sirdma_odp_range_unlock(struct sirdma_odp_range *range)
{
	mutex_unlock(&range->umem->umem_mutex);
}

/* Notifiers */

/* Take the pages first .. end - 1 back from the device. The umem's mutex is held. */
static void range_revoke(struct sirdma_odp_range *range, u32 first, u32 end)
{
	range_set_dirty(range, first, end);
	if (range_clear(range, first, end)) {
		sirdma_pble_sync(&range->dev->hw, range->pd);
		sirdma_count(&range->dev->counters, SIRDMA_COUNTER_ODP_INVALIDATIONS);
	}
}

/*
 * The OOM killer's reaper may not wait, so it gets no memory that the device uses: it tries again, or
 * leaves the memory to the exit of the process.
 */
static bool notifier_lock(struct ib_umem_odp *umem, const struct mmu_notifier_range *gone)
{
	const struct sirdma_odp_range *range;

	if (mmu_notifier_range_blockable(gone)) {
		mutex_lock(&umem->umem_mutex);
		return true;
	}
	if (!mutex_trylock(&umem->umem_mutex))
		return false;
	range = umem->private;
	if (!range || !range->present)
		return true;
	mutex_unlock(&umem->umem_mutex);
	return false;
}

/* Take the memory of [start, end) back from the device. The umem's mutex is held. */
static void range_invalidate(struct sirdma_odp_range *range, u64 start, u64 end)
{
	const u64 base = ib_umem_start(range->umem);
	const u32 before = range->present;

	range_revoke(range, (start - base) >> PAGE_SHIFT, ((end - 1 - base) >> PAGE_SHIFT) + 1);
	if (before && !range->present && range->emptied)
		range->emptied(range);
}

static bool notifier_invalidate(struct mmu_interval_notifier *notifier,
				const struct mmu_notifier_range *gone, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(notifier, struct ib_umem_odp, notifier);
	struct sirdma_odp_range *range;
	u64 start, end;

	if (!notifier_lock(umem, gone))
		return false;
	mmu_interval_set_seq(notifier, seq);
	range = umem->private;
	start = max_t(u64, ib_umem_start(umem), gone->start);
	end = min_t(u64, ib_umem_end(umem), gone->end);
	/* Without a range the device knows no page yet, or none any more. */
	if (range && start < end && mmu_notifier_range_blockable(gone))
		range_invalidate(range, start, end);
	/*
	 * The umem has also pages that the device did not get, or that were found when the range had
	 * ended.
	 */
	if (start < end)
		ib_umem_odp_unmap_dma_pages(umem, start, end);
	mutex_unlock(&umem->umem_mutex);
	return true;
}

const struct mmu_interval_notifier_ops sirdma_odp_notifier_ops = {
	.invalidate = notifier_invalidate,
};

/* Pages that come */

static int range_map_step(struct sirdma_odp_range *range, u32 first, u32 count, bool write,
			  bool fault)
{
	struct ib_umem_odp *umem = range->umem;
	const u64 start = ib_umem_start(umem) + ((u64)first << PAGE_SHIFT);
	int np, err = 0;

	if (mutex_lock_killable(&range->walk))
		return -EINTR;
	np = fault ? compat_umem_odp_fault(umem, start, count, write) : 0;
	if (!np)
		np = ib_umem_odp_map_dma_and_lock(umem, start, (u64)count << PAGE_SHIFT,
						  write ? COMPAT_ODP_WRITE : COMPAT_ODP_READ,
						  fault);
	if (np >= 0) {
		if (!umem->private)
			err = -ENOENT;
		else if (!range_enter(range, first, np))
			err = -EFAULT;
		mutex_unlock(&umem->umem_mutex);
	}
	mutex_unlock(&range->walk);
	return np < 0 ? np : err;
}

int sirdma_odp_range_map(struct sirdma_odp_range *range, u32 first, u32 count, bool write,
			 bool fault)
{
	u32 n;
	int err = 0;

	for (; count && !err; first += n, count -= n) {
		n = min_t(u32, count, SIRDMA_ODP_STEP);
		err = range_map_step(range, first, n, write, fault);
		cond_resched();
		if (fatal_signal_pending(current))
			err = -EINTR;
	}
	return err;
}

/* Beginning and end */

void sirdma_odp_range_begin(struct sirdma_odp_range *range)
{
	range->present = 0;
	mutex_init(&range->walk);
	mutex_lock(&range->umem->umem_mutex);
	range_clear(range, 0, range->list->count);
	range->present = 0; /* the list had the entries of its former owner */
	range->umem->private = range;
	mutex_unlock(&range->umem->umem_mutex);
}

void sirdma_odp_range_end(struct sirdma_odp_range *range)
{
	mutex_lock(&range->umem->umem_mutex);
	range_set_dirty(range, 0, range->list->count);
	range->umem->private = NULL;
	mutex_unlock(&range->umem->umem_mutex);
}

bool sirdma_odp_range_end_empty(struct sirdma_odp_range *range, bool force)
{
	bool ends;

	mutex_lock(&range->umem->umem_mutex);
	if (force)
		range_revoke(range, 0, range->list->count);
	ends = !range->present;
	if (ends)
		range->umem->private = NULL;
	mutex_unlock(&range->umem->umem_mutex);
	return ends;
}

bool sirdma_odp_range_is_empty(struct sirdma_odp_range *range)
{
	bool empty;

	mutex_lock(&range->umem->umem_mutex);
	empty = !range->present;
	mutex_unlock(&range->umem->umem_mutex);
	return empty;
}
