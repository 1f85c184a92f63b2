// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The mutex of a region's umem orders what its page list says: a page is entered under it, after the
 * core has checked that no notifier came since the page was found, and a notifier clears entries
 * under it. A notifier may run while memory is reclaimed, so nothing allocates under the mutex, and
 * the notifier uses no command: commands wait for memory.
 */
#include "odp.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat/ib_umem.h"
#include "compat/ib_umem_odp.h"
#include "device.h"
#include "hw/prq.h"
#include "odp_user.h"
#include "pd.h"
#include "ucontext.h"
#include "user.h"

/*
 * Requests that wait for one region, at most. Those of different queue pairs are not merged, even for
 * the same page. A request beyond this is dropped, and the queue pair asks again. Not tuned.
 */
#define SIRDMA_ODP_JOBS 32
/*
 * The pages that are found by one walk of the page tables, 4 MiB: it bounds how long the locks of the
 * address space and of the umem are held. A request of the device gets no more than this at once, and
 * a longer message asks again. Not tuned.
 */
#define SIRDMA_ODP_STEP 1024

enum sirdma_odp_job_type {
	SIRDMA_ODP_FAULT, /* the device needs the pages */
	SIRDMA_ODP_CLEAR_ERROR, /* the device was told that there is no memory, and failed the access */
	SIRDMA_ODP_PREFETCH,
	SIRDMA_ODP_PREFETCH_WRITE,
	SIRDMA_ODP_PREFETCH_NO_FAULT, /* enter the pages that are there */
};

struct sirdma_odp_job {
	enum sirdma_odp_job_type type;
	u32 block;
	u32 count;
	u32 qpn;
};

/*
 * A region that ended has no page list, and the umem's private pointer is NULL. What is left of it, and
 * the memory of the device, stays until the work and ibv_advise_mr() have dropped it: a page fault may
 * take for ever, and whoever ends the region, or the device, does not wait for it.
 */
struct sirdma_odp_mr {
	struct sirdma_mr mr;
	struct sirdma_dev *dev;
	struct sirdma_odp_user *user;
	u32 pd;
	u32 pages;
	u32 present; /* entries of the page list that name memory; under the umem's mutex */
	u64 base; /* address of the first byte in the region: the IOVA, or 0 if zero-based */
	u32 first_off; /* offset of the first byte in its page */
	/*
	 * Held from the walk of the page tables until its pages are entered: two walks at once would
	 * write the umem's list of pages, and the core checks only that no notifier came. Taken before
	 * mmap_lock and the umem's mutex.
	 */
	struct mutex walk;
	/* One of the region, one of the work, one for each ibv_advise_mr() that runs */
	refcount_t refs;
	struct work_struct work;
	u32 njobs; /* used entries of jobs[] */
	struct sirdma_odp_job jobs[SIRDMA_ODP_JOBS];
};

static struct sirdma_odp_mr *to_sodp(struct sirdma_mr *mr)
{
	return container_of(mr, struct sirdma_odp_mr, mr);
}

static struct ib_umem_odp *sirdma_odp_umem(const struct sirdma_odp_mr *odp)
{
	return to_ib_umem_odp(odp->mr.umem);
}

/* Page lists */

static bool sirdma_odp_is_absent(__le64 entry)
{
	return le64_to_cpu(entry) & (SIRDMA_PBLE_ABSENT | SIRDMA_PBLE_ERROR);
}

/*
 * Does the kernel's direct map lack the page? Then the device cannot reach it. Pinning refuses such
 * memory, and the walk of the page tables does not.
 */
static bool sirdma_odp_is_secret(struct page *page)
{
	const struct address_space *mapping = folio_mapping(page_folio(page));

	return mapping && mapping->host && mapping->host->i_sb->s_magic == SECRETMEM_MAGIC;
}

/*
 * Write the entries of @count pages from @first on as the umem has them. Returns false if one of them
 * is memory that the device cannot reach. The umem's mutex is held.
 */
static bool sirdma_odp_enter(struct sirdma_odp_mr *odp, u32 first, u32 count)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	const unsigned long need = HMM_PFN_VALID | (umem->umem.writable ? HMM_PFN_WRITE : 0);
	const unsigned long *pfns = compat_umem_odp_pfns(umem);
	struct sirdma_pbl_walk walk = {.pbl = &odp->mr.pbl, .next = first};
	bool reachable = true;
	struct page *page;
	__le64 *entry;
	u32 i;

	for (i = first; i < first + count; i++) {
		entry = sirdma_pbl_next(&odp->dev->hw, &walk);
		if (!entry)
			break;
		/*
		 * The device writes to any page of a region that it may write to. One that is mapped
		 * for reading, as after fork(), stays absent until the device needs it.
		 */
		if ((pfns[i] & need) != need)
			continue;
		page = hmm_pfn_to_page(pfns[i]);
		if (unlikely(sirdma_odp_is_secret(page))) {
			reachable = false;
			continue;
		}
		odp->present += sirdma_odp_is_absent(*entry);
		WRITE_ONCE(*entry, cpu_to_le64((uintptr_t)page_address(page)));
	}
	return reachable;
}

/*
 * Clear the entries of pages first .. end - 1. Returns true if the device may be using one of them.
 * The umem's mutex is held.
 */
static bool sirdma_odp_clear(struct sirdma_odp_mr *odp, u32 first, u32 end)
{
	struct sirdma_pbl_walk walk = {.pbl = &odp->mr.pbl, .next = first};
	const u32 before = odp->present;
	__le64 *entry;

	while (walk.next < end) {
		if (!walk.left)
			cond_resched();
		entry = sirdma_pbl_next(&odp->dev->hw, &walk);
		if (!entry)
			break;
		odp->present -= !sirdma_odp_is_absent(*entry);
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
	}
	return odp->present != before;
}

/*
 * The device may have written to the pages first .. end - 1, and the page tables need not know:
 * MADV_FREE leaves a page writable and clean. The umem's mutex is held.
 */
static void sirdma_odp_set_dirty(struct sirdma_odp_mr *odp, u32 first, u32 end)
{
	const unsigned long *pfns = compat_umem_odp_pfns(sirdma_odp_umem(odp));
	const unsigned long dirty = HMM_PFN_VALID | HMM_PFN_WRITE;
	struct sirdma_pbl_walk walk = {.pbl = &odp->mr.pbl, .next = first};
	__le64 *entry;
	u32 i;

	if (!odp->mr.umem->writable)
		return;
	for (i = first; i < end; i++) {
		if (!walk.left)
			cond_resched();
		entry = sirdma_pbl_next(&odp->dev->hw, &walk);
		if (!entry)
			break;
		if ((pfns[i] & dirty) == dirty && !sirdma_odp_is_absent(*entry))
			set_page_dirty(compound_head(hmm_pfn_to_page(pfns[i])));
	}
}

static u64 sirdma_odp_error(u32 qpn)
{
	return SIRDMA_PBLE_ERROR | SIRDMA_PREP(SIRDMA_PBLE_ERROR_QPN, qpn);
}

/*
 * The next access of QP @qpn to page @block fails, unless the page has memory by now. The umem's mutex
 * is held.
 */
static void sirdma_odp_set_error(struct sirdma_odp_mr *odp, u32 block, u32 qpn)
{
	__le64 *entry;
	u32 n;

	entry = sirdma_pbl_entries(&odp->dev->hw, &odp->mr.pbl, block, &n);
	/* A QP whose mark is overwritten asks again. */
	if (entry && sirdma_odp_is_absent(*entry))
		WRITE_ONCE(*entry, cpu_to_le64(sirdma_odp_error(qpn)));
}

/* Take the umem's mutex. Returns false, without it, if the region has ended. */
static bool sirdma_odp_lock(struct sirdma_odp_mr *odp)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);

	mutex_lock(&umem->umem_mutex);
	if (umem->private)
		return true;
	mutex_unlock(&umem->umem_mutex);
	return false;
}

static void sirdma_odp_unlock(struct sirdma_odp_mr *odp)
{
	mutex_unlock(&sirdma_odp_umem(odp)->umem_mutex);
}

/* The access of QP @qpn failed. */
static void sirdma_odp_end_error(struct sirdma_odp_mr *odp, u32 block, u32 qpn)
{
	__le64 *entry;
	u32 n;

	if (!sirdma_odp_lock(odp))
		return;
	entry = sirdma_pbl_entries(&odp->dev->hw, &odp->mr.pbl, block, &n);
	if (entry && le64_to_cpu(*entry) == sirdma_odp_error(qpn))
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
	sirdma_odp_unlock(odp);
}

/* Take the pages of [start, end) back from the device. The umem's mutex is held. */
static void sirdma_odp_revoke(struct sirdma_odp_mr *odp, u64 start, u64 end)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	u32 first = (start - ib_umem_start(umem)) >> PAGE_SHIFT;
	u32 last = (end - 1 - ib_umem_start(umem)) >> PAGE_SHIFT;

	sirdma_odp_set_dirty(odp, first, last + 1);
	if (sirdma_odp_clear(odp, first, last + 1)) {
		sirdma_pble_sync(&odp->dev->hw, odp->pd);
		sirdma_count(&odp->dev->counters, SIRDMA_COUNTER_ODP_INVALIDATIONS);
	}
}

/*
 * The OOM killer's reaper may not wait, so it gets no memory that the device uses: it tries again, or
 * leaves the memory to the exit of the process.
 */
static bool sirdma_odp_lock_range(struct ib_umem_odp *umem, const struct mmu_notifier_range *range)
{
	const struct sirdma_odp_mr *odp;

	if (mmu_notifier_range_blockable(range)) {
		mutex_lock(&umem->umem_mutex);
		return true;
	}
	if (!mutex_trylock(&umem->umem_mutex))
		return false;
	odp = umem->private;
	if (!odp || !odp->present)
		return true;
	mutex_unlock(&umem->umem_mutex);
	return false;
}

static bool sirdma_odp_invalidate(struct mmu_interval_notifier *notifier,
				  const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(notifier, struct ib_umem_odp, notifier);
	struct sirdma_odp_mr *odp;
	u64 start, end;

	if (!sirdma_odp_lock_range(umem, range))
		return false;
	mmu_interval_set_seq(notifier, seq);
	odp = umem->private;
	start = max_t(u64, ib_umem_start(umem), range->start);
	end = min_t(u64, ib_umem_end(umem), range->end);
	/* Without a region the device knows no page yet, or none any more. */
	if (odp && start < end && mmu_notifier_range_blockable(range))
		sirdma_odp_revoke(odp, start, end);
	/*
	 * The umem has also pages that the device did not get, or that were found when the region had
	 * ended.
	 */
	if (start < end)
		ib_umem_odp_unmap_dma_pages(umem, start, end);
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops sirdma_odp_notifier_ops = {
	.invalidate = sirdma_odp_invalidate,
};

/* Faults */

static int sirdma_odp_map_step(struct sirdma_odp_mr *odp, u32 first, u32 count, bool write,
			       bool fault)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	int np, err = 0;

	if (mutex_lock_killable(&odp->walk))
		return -EINTR;
	np = ib_umem_odp_map_dma_and_lock(umem, ib_umem_start(umem) + ((u64)first << PAGE_SHIFT),
					  (u64)count << PAGE_SHIFT,
					  write ? COMPAT_ODP_WRITE : COMPAT_ODP_READ, fault);
	if (np >= 0) {
		if (!umem->private)
			err = -ENOENT; /* the region has ended */
		else if (!sirdma_odp_enter(odp, first, np))
			err = -EFAULT;
		mutex_unlock(&umem->umem_mutex);
	}
	mutex_unlock(&odp->walk);
	return np < 0 ? np : err;
}

/* Enter @count pages from @first on. Unless @fault, those that are mapped. Returns 0 or an errno. */
static int sirdma_odp_map(struct sirdma_odp_mr *odp, u32 first, u32 count, bool write, bool fault)
{
	u32 n;
	int err = 0;

	for (; count && !err; first += n, count -= n) {
		n = min_t(u32, count, SIRDMA_ODP_STEP);
		err = sirdma_odp_map_step(odp, first, n, write, fault);
		cond_resched();
		if (fatal_signal_pending(current))
			err = -EINTR;
	}
	return err;
}

/* May the same fault succeed later, although the process does nothing about it? */
static bool sirdma_odp_is_temporary(int err)
{
	return err == -ENOMEM || err == -EBUSY || err == -EAGAIN || err == -EINTR ||
	       err == -ETIME || err == -ETIMEDOUT;
}

/* The device needs pages. Of a message that is not all there, it gets what comes first. */
static void sirdma_odp_fault(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	const bool write = odp->mr.umem->writable;
	struct sirdma_dev *dev = odp->dev;
	u32 count = min_t(u32, job->count, SIRDMA_ODP_STEP);
	int err;

	err = sirdma_odp_map(odp, job->block, count, write, true);
	if (err && count > 1)
		err = sirdma_odp_map(odp, job->block, 1, write, true);
	/* After the end of the region nothing of the device is touched. */
	if (!sirdma_odp_lock(odp))
		return;
	sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAULTS);
	if (err && sirdma_odp_is_temporary(err))
		goto out; /* the queue pair asks again */
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAILURES);
		ibdev_dbg(&dev->ibdev, "page %u of region %#x, for QP %u: no memory: %d\n",
			  job->block, odp->mr.ibmr.lkey, job->qpn, err);
		sirdma_odp_set_error(odp, job->block, job->qpn);
	}
	sirdma_doorbell(dev->bus, job->qpn);
out:
	sirdma_odp_unlock(odp);
}

static int sirdma_odp_do(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	switch (job->type) {
	case SIRDMA_ODP_FAULT:
		sirdma_odp_fault(odp, job);
		return 0;
	case SIRDMA_ODP_CLEAR_ERROR:
		sirdma_odp_end_error(odp, job->block, job->qpn);
		return 0;
	case SIRDMA_ODP_PREFETCH:
		return sirdma_odp_map(odp, job->block, job->count, false, true);
	case SIRDMA_ODP_PREFETCH_WRITE:
		return sirdma_odp_map(odp, job->block, job->count, true, true);
	case SIRDMA_ODP_PREFETCH_NO_FAULT:
		return sirdma_odp_map(odp, job->block, job->count, false, false);
	}
	return -EINVAL;
}

/* Sleeps. */
static void sirdma_odp_put(struct sirdma_odp_mr *odp)
{
	if (!refcount_dec_and_test(&odp->refs))
		return;
	if (odp->mr.umem)
		ib_umem_odp_release(sirdma_odp_umem(odp));
	sirdma_odp_user_put(odp->user, odp->pages);
	put_device(&odp->dev->ibdev.dev);
	kfree(odp);
}

static bool sirdma_odp_next(struct sirdma_odp_mr *odp, struct sirdma_odp_job *job)
{
	struct xarray *lists = &odp->dev->odp.lists;
	bool found;

	xa_lock_bh(lists);
	found = odp->njobs;
	if (found) {
		*job = odp->jobs[0];
		memmove(odp->jobs, odp->jobs + 1, --odp->njobs * sizeof(odp->jobs[0]));
	}
	xa_unlock_bh(lists);
	return found;
}

static void sirdma_odp_work(struct work_struct *work)
{
	struct sirdma_odp_mr *odp = container_of(work, struct sirdma_odp_mr, work);
	struct sirdma_odp_job job;

	while (sirdma_odp_next(odp, &job)) {
		sirdma_odp_do(odp, &job);
		cond_resched();
	}
	sirdma_odp_put(odp);
}

/* The lock of the lists is held, and the region is in them or has been found by sirdma_odp_get(). */
static void sirdma_odp_add(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	const struct sirdma_odp_job *has;

	for (has = odp->jobs; has < odp->jobs + odp->njobs; has++)
		if (!memcmp(has, job, sizeof(*job)))
			return;
	if (odp->njobs == SIRDMA_ODP_JOBS)
		return;
	odp->jobs[odp->njobs++] = *job;
	refcount_inc(&odp->refs);
	/* If it is queued already, it has its reference, and the caller holds another one. */
	if (!queue_work(odp->user->wq, &odp->work))
		refcount_dec(&odp->refs);
}

void sirdma_odp_ask(void *ctx, const struct sirdma_page_ask *ask)
{
	struct sirdma_odp_job job = {
		.type = ask->failed ? SIRDMA_ODP_CLEAR_ERROR : SIRDMA_ODP_FAULT,
		.block = ask->block,
		.count = ask->count,
		.qpn = ask->qpn,
	};
	struct sirdma_dev *dev = ctx;
	struct sirdma_odp_mr *odp;

	xa_lock_bh(&dev->odp.lists);
	odp = xa_load(&dev->odp.lists, ask->first_pble);
	/* The region may have ended, and its list be another's. */
	if (odp && job.block < odp->mr.pbl.count) {
		/* A fragment may be longer than its region; a message that needs so much fails. */
		job.count = min(job.count, odp->mr.pbl.count - job.block);
		sirdma_odp_add(odp, &job);
	}
	xa_unlock_bh(&dev->odp.lists);
}

/* Regions */

/* All bytes of the process by their addresses. */
static bool sirdma_odp_is_implicit(const struct sirdma_region *region)
{
	return !region->start && region->length == U64_MAX;
}

static int sirdma_odp_check(struct sirdma_dev *dev, const struct sirdma_region *region)
{
	const char *why = "on-demand paging needs an explicit address range, and pages of 4 KiB";
	struct sirdma_region rest = *region;
	int err = -EOPNOTSUPP;

	rest.access &= ~IB_ACCESS_ON_DEMAND;
	/* A page list has blocks of the device's page size, and those of this one are the kernel's. */
	if (!sirdma_odp_is_implicit(region) && ib_uses_virt_dma(&dev->ibdev) &&
	    PAGE_SIZE == SIRDMA_PAGE_SIZE)
		err = sirdma_region_check(&rest, &why);
	if (err) {
		sirdma_refused(dev, "reg_mr: %llu bytes at %#llx, iova %#llx, access %#x: %s",
			       region->length, region->start, region->iova, region->access, why);
	}
	return err;
}

static u64 sirdma_odp_pages(const struct sirdma_region *region)
{
	return (PAGE_ALIGN(region->start + region->length) - (region->start & PAGE_MASK)) >>
	       PAGE_SHIFT;
}

/* Allocate the page list, without any page. */
static int sirdma_odp_alloc_list(struct sirdma_odp_mr *odp)
{
	size_t count = ib_umem_odp_num_pages(sirdma_odp_umem(odp));
	int err;

	err = sirdma_pbl_alloc(&odp->dev->hw, count, false, &odp->mr.pbl);
	if (err)
		return err;
	odp->mr.pbl.block_shift = PAGE_SHIFT;
	sirdma_odp_clear(odp, 0, count);
	odp->present = 0; /* the entries were those of former lists */
	return 0;
}

/* Take the memory of the region from the device and from the notifier. */
static void sirdma_odp_end(struct sirdma_odp_mr *odp)
{
	struct sirdma_dev *dev = odp->dev;

	xa_erase_bh(&dev->odp.keys, odp->mr.ibmr.lkey);
	xa_erase_bh(&dev->odp.lists, sirdma_pbl_first(&odp->mr.pbl));
	/* The device and ibv_advise_mr() do not find the region any more. */
	xa_lock_bh(&dev->odp.lists);
	odp->njobs = 0;
	xa_unlock_bh(&dev->odp.lists);
	mutex_lock(&sirdma_odp_umem(odp)->umem_mutex);
	sirdma_odp_set_dirty(odp, 0, odp->mr.pbl.count);
	sirdma_odp_clear(odp, 0, odp->mr.pbl.count);
	WARN_ON_ONCE(odp->present);
	sirdma_odp_umem(odp)->private = NULL;
	mutex_unlock(&sirdma_odp_umem(odp)->umem_mutex);
	sirdma_pbl_free(&dev->hw, &odp->mr.pbl);
}

static int sirdma_odp_take_memory(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	struct ib_umem_odp *umem;
	int err;

	umem = ib_umem_odp_get(&odp->dev->ibdev, region->start, region->length, region->access,
			       &sirdma_odp_notifier_ops);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	odp->mr.umem = &umem->umem;
	err = sirdma_odp_alloc_list(odp);
	if (err)
		return err; /* sirdma_odp_put() releases the umem */
	mutex_lock(&umem->umem_mutex);
	umem->private = odp;
	mutex_unlock(&umem->umem_mutex);
	err = xa_insert_bh(&odp->dev->odp.lists, sirdma_pbl_first(&odp->mr.pbl), odp, GFP_KERNEL);
	if (err)
		sirdma_odp_end(odp);
	return err;
}

void sirdma_odp_release(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	struct sirdma_odp_mr *odp = to_sodp(mr);

	sirdma_odp_end(odp);
	if (cancel_work(&odp->work))
		sirdma_odp_put(odp);
	sirdma_odp_put(odp);
}

static struct sirdma_odp_mr *sirdma_odp_alloc(struct ib_pd *ibpd,
					      const struct sirdma_region *region)
{
	struct sirdma_odp_mr *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	const u64 pages = sirdma_odp_pages(region);

	if (!odp)
		return NULL;
	if (pages <= SIRDMA_PBL_MAX_BLOCKS)
		odp->user = sirdma_odp_user_get(to_suctx(ibpd->uobject->context)->user->uid, pages);
	if (IS_ERR_OR_NULL(odp->user)) {
		kfree(odp);
		return NULL;
	}
	odp->pages = pages;
	odp->dev = to_sdev(ibpd->device);
	get_device(&odp->dev->ibdev.dev);
	odp->pd = to_spd(ibpd)->id;
	odp->base = region->access & IB_ZERO_BASED ? 0 : region->iova;
	odp->first_off = offset_in_page(region->start);
	mutex_init(&odp->walk);
	refcount_set(&odp->refs, 1);
	INIT_WORK(&odp->work, sirdma_odp_work);
	return odp;
}

struct ib_mr *sirdma_odp_reg(struct ib_pd *ibpd, const struct sirdma_region *region)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_region described = *region;
	struct sirdma_odp_mr *odp;
	int err;

	err = sirdma_odp_check(dev, region);
	if (err)
		return ERR_PTR(err);
	odp = sirdma_odp_alloc(ibpd, region);
	if (!odp)
		return ERR_PTR(-ENOMEM);
	err = sirdma_odp_take_memory(odp, region);
	if (err)
		goto err_put;
	described.access &= ~IB_ACCESS_ON_DEMAND;
	err = sirdma_mr_create(dev, &odp->mr, &described, odp->pd);
	if (err)
		goto err_end;
	odp->mr.pbl.access = region->access & SIRDMA_VERBS_ACCESS_KNOWN;
	err = xa_insert_bh(&dev->odp.keys, odp->mr.ibmr.lkey, odp, GFP_KERNEL);
	if (err)
		goto err_dereg;
	/* This is a prefetch: its error does not matter, the device asks for each page that is missing. */
	sirdma_odp_map(odp, 0, odp->mr.pbl.count, false, false);
	return &odp->mr.ibmr;

err_dereg:
	sirdma_mr_uncreate(dev, &odp->mr);
	odp->mr.ibmr.lkey = 0; /* the stag may be another region's from now on */
err_end:
	sirdma_odp_end(odp);
err_put:
	sirdma_odp_put(odp);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	return ERR_PTR(err);
}

/* Advice */

static struct sirdma_odp_mr *sirdma_odp_get(struct sirdma_dev *dev, u32 lkey)
{
	struct sirdma_odp_mr *odp;

	xa_lock_bh(&dev->odp.keys);
	odp = xa_load(&dev->odp.keys, lkey);
	if (odp)
		refcount_inc(&odp->refs);
	xa_unlock_bh(&dev->odp.keys);
	return odp;
}

/* Check @sge, which is not empty, and describe its pages. */
static int sirdma_odp_check_sge(const struct sirdma_odp_mr *odp, u32 pd, const struct ib_sge *sge,
				struct sirdma_odp_job *job)
{
	u64 off = sge->addr - odp->base, length = odp->mr.umem->length;

	if (odp->pd != pd || (job->type == SIRDMA_ODP_PREFETCH_WRITE && !odp->mr.umem->writable))
		return -EPERM;
	if (off >= length || sge->length > length - off)
		return -EFAULT;
	off += odp->first_off;
	job->block = off >> PAGE_SHIFT;
	job->count = ((off + sge->length - 1) >> PAGE_SHIFT) - job->block + 1;
	return 0;
}

/* Check advice on @sge. Unless @check, follow it: now, or (without @wait) by the work of the region. */
static int sirdma_odp_advise(struct sirdma_dev *dev, u32 pd, const struct ib_sge *sge,
			     enum sirdma_odp_job_type type, bool check, bool wait)
{
	struct sirdma_odp_job job = {.type = type};
	struct sirdma_odp_mr *odp;
	int err;

	odp = sirdma_odp_get(dev, sge->lkey);
	if (!odp)
		return -ENOENT;
	err = sge->length ? sirdma_odp_check_sge(odp, pd, sge, &job) : 0;
	if (!err && sge->length && !check) {
		if (wait) {
			err = sirdma_odp_do(odp, &job);
		} else {
			xa_lock_bh(&dev->odp.lists);
			sirdma_odp_add(odp, &job);
			xa_unlock_bh(&dev->odp.lists);
		}
	}
	sirdma_odp_put(odp);
	return err;
}

int sirdma_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		     struct ib_sge *sges, u32 count, struct uverbs_attr_bundle *attrs)
{
	static const enum sirdma_odp_job_type types[] = {
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH] = SIRDMA_ODP_PREFETCH,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE] = SIRDMA_ODP_PREFETCH_WRITE,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = SIRDMA_ODP_PREFETCH_NO_FAULT,
	};
	const bool wait = flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	u32 pd = to_spd(ibpd)->id, i;
	int err = 0;

	if (advice >= ARRAY_SIZE(types))
		return -EOPNOTSUPP;
	/* Nothing is fetched if a part of the advice is wrong. */
	for (i = 0; !err && i < count; i++)
		err = sirdma_odp_advise(dev, pd, &sges[i], types[advice], true, wait);
	for (i = 0; !err && i < count; i++)
		err = sirdma_odp_advise(dev, pd, &sges[i], types[advice], false, wait);
	return err;
}

/* Devices */

void sirdma_odp_init(struct sirdma_dev *dev)
{
	xa_init_flags(&dev->odp.lists, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->odp.keys, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
}

void sirdma_odp_fini(struct sirdma_dev *dev)
{
	xa_destroy(&dev->odp.keys);
	xa_destroy(&dev->odp.lists);
}

void sirdma_odp_exit(void)
{
	sirdma_odp_users_wait();
}

void sirdma_odp_caps(const struct sirdma_dev *dev, struct ib_device_attr *attr)
{
	if (PAGE_SIZE != SIRDMA_PAGE_SIZE)
		return;
	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;
	/* A datagram that finds no memory at its receiver is lost, which is no support. */
	attr->odp_caps.per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}
