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

enum sirdma_odp_what {
	SIRDMA_ODP_FAULT, /* the device needs the pages */
	SIRDMA_ODP_FORGET, /* the device was told that there is no memory, and failed the access */
	SIRDMA_ODP_PREFETCH,
	SIRDMA_ODP_PREFETCH_WRITE,
	SIRDMA_ODP_SNAPSHOT, /* enter the pages that are there */
};

struct sirdma_odp_job {
	enum sirdma_odp_what what;
	u32 block;
	u32 count;
	u32 qpn;
};

struct sirdma_odp_mr {
	struct sirdma_mr mr;
	struct sirdma_dev *dev;
	struct sirdma_user *user;
	u32 pd;
	u32 pages;
	u64 base; /* address of the first byte in the region: the IOVA, or 0 if zero-based */
	u32 first_off; /* offset of the first byte in its page */
	/*
	 * Held from the walk of the page tables until its pages are entered: two walks at once would
	 * write the umem's list of pages, and the core checks only that no notifier came. Taken before
	 * mmap_lock and the umem's mutex.
	 */
	struct mutex walk;
	refcount_t refs; /* one of the region, one for each ibv_advise_mr() that runs */
	struct completion idle;
	struct workqueue_struct *wq; /* of the user */
	struct work_struct work;
	u32 count; /* used entries of jobs[] */
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
		if (unlikely(sirdma_odp_is_secret(page)))
			reachable = false;
		else
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
	bool found = false;
	__le64 *entry;

	while (walk.next < end) {
		if (!walk.left)
			cond_resched();
		entry = sirdma_pbl_next(&odp->dev->hw, &walk);
		if (!entry)
			break;
		if (!sirdma_odp_is_absent(*entry))
			found = true;
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
	}
	return found;
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

/* The next access of QP @qpn to page @block fails, unless the page has memory by now. */
static void sirdma_odp_set_error(struct sirdma_odp_mr *odp, u32 block, u32 qpn)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	__le64 *entry;
	u32 n;

	mutex_lock(&umem->umem_mutex);
	entry = sirdma_pbl_entries(&odp->dev->hw, &odp->mr.pbl, block, &n);
	/* A QP whose mark is overwritten asks again. */
	if (entry && sirdma_odp_is_absent(*entry))
		WRITE_ONCE(*entry, cpu_to_le64(sirdma_odp_error(qpn)));
	mutex_unlock(&umem->umem_mutex);
}

/* The access of QP @qpn failed. */
static void sirdma_odp_end_error(struct sirdma_odp_mr *odp, u32 block, u32 qpn)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	__le64 *entry;
	u32 n;

	mutex_lock(&umem->umem_mutex);
	entry = sirdma_pbl_entries(&odp->dev->hw, &odp->mr.pbl, block, &n);
	if (entry && le64_to_cpu(*entry) == sirdma_odp_error(qpn))
		WRITE_ONCE(*entry, cpu_to_le64(SIRDMA_PBLE_ABSENT));
	mutex_unlock(&umem->umem_mutex);
}

/* Take the pages of [start, end) back from the device. The umem's mutex is held. */
static void sirdma_odp_revoke(struct sirdma_odp_mr *odp, u64 start, u64 end)
{
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);
	u32 first = (start - ib_umem_start(umem)) >> PAGE_SHIFT;
	u32 last = (end - 1 - ib_umem_start(umem)) >> PAGE_SHIFT;

	sirdma_odp_set_dirty(odp, first, last + 1);
	if (sirdma_odp_clear(odp, first, last + 1)) {
		sirdma_pble_sync(&odp->dev->hw);
		sirdma_count(&odp->dev->counters, SIRDMA_COUNTER_ODP_INVALIDATIONS);
	}
	/* The umem has also pages that the device did not get. */
	ib_umem_odp_unmap_dma_pages(umem, start, end);
}

static bool sirdma_odp_invalidate(struct mmu_interval_notifier *notifier,
				  const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(notifier, struct ib_umem_odp, notifier);
	struct sirdma_odp_mr *odp;
	u64 start, end;

	/* The OOM killer's reaper tries again, or leaves the memory to the exit of the process. */
	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(notifier, seq);
	odp = umem->private;
	start = max_t(u64, ib_umem_start(umem), range->start);
	end = min_t(u64, ib_umem_end(umem), range->end);
	/* Without a region the device knows no page yet. */
	if (odp && start < end)
		sirdma_odp_revoke(odp, start, end);
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

	mutex_lock(&odp->walk);
	np = ib_umem_odp_map_dma_and_lock(umem, ib_umem_start(umem) + ((u64)first << PAGE_SHIFT),
					  (u64)count << PAGE_SHIFT,
					  write ? COMPAT_ODP_WRITE : COMPAT_ODP_READ, fault);
	if (np >= 0) {
		if (!sirdma_odp_enter(odp, first, np))
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

	sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAULTS);
	err = sirdma_odp_map(odp, job->block, count, write, true);
	if (err && count > 1)
		err = sirdma_odp_map(odp, job->block, 1, write, true);
	if (err && sirdma_odp_is_temporary(err))
		return; /* the queue pair asks again */
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAILURES);
		ibdev_dbg(&dev->ibdev, "page %u of region %#x, for QP %u: no memory: %d\n",
			  job->block, odp->mr.ibmr.lkey, job->qpn, err);
		sirdma_odp_set_error(odp, job->block, job->qpn);
	}
	sirdma_doorbell(dev->bus, job->qpn);
}

static int sirdma_odp_do(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	switch (job->what) {
	case SIRDMA_ODP_FAULT:
		sirdma_odp_fault(odp, job);
		return 0;
	case SIRDMA_ODP_FORGET:
		sirdma_odp_end_error(odp, job->block, job->qpn);
		return 0;
	case SIRDMA_ODP_PREFETCH:
		return sirdma_odp_map(odp, job->block, job->count, false, true);
	case SIRDMA_ODP_PREFETCH_WRITE:
		return sirdma_odp_map(odp, job->block, job->count, true, true);
	case SIRDMA_ODP_SNAPSHOT:
		return sirdma_odp_map(odp, job->block, job->count, false, false);
	}
	return -EINVAL;
}

static bool sirdma_odp_next(struct sirdma_odp_mr *odp, struct sirdma_odp_job *job)
{
	struct xarray *lists = &odp->dev->odp.lists;
	bool found;

	xa_lock_bh(lists);
	found = odp->count;
	if (found) {
		*job = odp->jobs[0];
		memmove(odp->jobs, odp->jobs + 1, --odp->count * sizeof(odp->jobs[0]));
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
}

/* The lock of the lists is held, and the region is in them. */
static void sirdma_odp_add(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	const struct sirdma_odp_job *has;

	for (has = odp->jobs; has < odp->jobs + odp->count; has++)
		if (!memcmp(has, job, sizeof(*job)))
			return;
	if (odp->count == SIRDMA_ODP_JOBS)
		return;
	odp->jobs[odp->count++] = *job;
	queue_work(odp->wq, &odp->work);
}

void sirdma_odp_ask(void *ctx, const struct sirdma_page_ask *ask)
{
	struct sirdma_odp_job job = {
		.what = ask->failed ? SIRDMA_ODP_FORGET : SIRDMA_ODP_FAULT,
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

/*
 * Regions on demand pin nothing, but each of their pages takes 24 bytes of the kernel's memory, which
 * no limit of the process covers. So those of one user have no more pages than the machine.
 */
static int sirdma_odp_count(struct sirdma_odp_mr *odp, u64 pages)
{
	if (pages > totalram_pages() || pages > SIRDMA_PBL_MAX_BLOCKS)
		return -ENOMEM;
	odp->pages = pages;
	if (atomic64_add_return(pages, &odp->user->odp_pages) <= totalram_pages())
		return 0;
	atomic64_sub(pages, &odp->user->odp_pages);
	return -ENOMEM;
}

static void sirdma_odp_uncount(struct sirdma_odp_mr *odp)
{
	atomic64_sub(odp->pages, &odp->user->odp_pages);
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
	return 0;
}

static int sirdma_odp_take_memory(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	struct ib_umem_odp *umem;
	int err;

	err = sirdma_odp_count(odp, sirdma_odp_pages(region));
	if (err)
		return err;
	umem = ib_umem_odp_get(&odp->dev->ibdev, region->start, region->length, region->access,
			       &sirdma_odp_notifier_ops);
	if (IS_ERR(umem)) {
		err = PTR_ERR(umem);
		goto err_count;
	}
	odp->mr.umem = &umem->umem;
	err = sirdma_odp_alloc_list(odp);
	if (err)
		goto err_umem;
	mutex_lock(&umem->umem_mutex);
	umem->private = odp;
	mutex_unlock(&umem->umem_mutex);
	err = xa_insert_bh(&odp->dev->odp.lists, sirdma_pbl_first(&odp->mr.pbl), odp, GFP_KERNEL);
	if (err)
		goto err_list;
	return 0;

err_list:
	mutex_lock(&umem->umem_mutex);
	umem->private = NULL;
	mutex_unlock(&umem->umem_mutex);
	sirdma_pbl_free(&odp->dev->hw, &odp->mr.pbl);
err_umem:
	ib_umem_odp_release(umem);
err_count:
	sirdma_odp_uncount(odp);
	return err;
}

static void sirdma_odp_put(struct sirdma_odp_mr *odp)
{
	if (refcount_dec_and_test(&odp->refs))
		complete(&odp->idle);
}

void sirdma_odp_release_memory(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	struct sirdma_odp_mr *odp = to_sodp(mr);
	struct ib_umem_odp *umem = sirdma_odp_umem(odp);

	xa_erase_bh(&dev->odp.keys, mr->ibmr.lkey);
	xa_erase_bh(&dev->odp.lists, sirdma_pbl_first(&mr->pbl));
	/* The device and ibv_advise_mr() do not find the region any more. */
	sirdma_odp_put(odp);
	wait_for_completion(&odp->idle);
	cancel_work_sync(&odp->work);
	mutex_lock(&umem->umem_mutex);
	sirdma_odp_set_dirty(odp, 0, mr->pbl.count);
	/*
	 * From here on a notifier finds no region, so no page may be left for it: ib_umem_odp_release()
	 * would mark it as written to when it is another's.
	 */
	ib_umem_odp_unmap_dma_pages(umem, ib_umem_start(umem), ib_umem_end(umem));
	umem->private = NULL;
	mutex_unlock(&umem->umem_mutex);
	ib_umem_odp_release(umem);
	sirdma_pbl_free(&dev->hw, &mr->pbl);
	sirdma_odp_uncount(odp);
}

static struct sirdma_odp_mr *sirdma_odp_alloc(struct ib_pd *ibpd,
					      const struct sirdma_region *region)
{
	struct sirdma_odp_mr *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);

	if (!odp)
		return NULL;
	odp->dev = to_sdev(ibpd->device);
	odp->user = to_suctx(ibpd->uobject->context)->user;
	odp->wq = sirdma_user_odp_wq(&odp->dev->users, odp->user);
	if (!odp->wq) {
		kfree(odp);
		return NULL;
	}
	odp->pd = to_spd(ibpd)->id;
	odp->base = region->access & IB_ZERO_BASED ? 0 : region->iova;
	odp->first_off = offset_in_page(region->start);
	mutex_init(&odp->walk);
	refcount_set(&odp->refs, 1);
	init_completion(&odp->idle);
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
		goto err_free;
	described.access &= ~IB_ACCESS_ON_DEMAND;
	err = sirdma_mr_create(dev, &odp->mr, &described, odp->pd);
	if (err)
		goto err_put;
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
err_put:
	sirdma_odp_release_memory(dev, &odp->mr);
err_free:
	kfree(odp);
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

	if (odp->pd != pd || (job->what == SIRDMA_ODP_PREFETCH_WRITE && !odp->mr.umem->writable))
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
			     enum sirdma_odp_what what, bool check, bool wait)
{
	struct sirdma_odp_job job = {.what = what};
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
	static const enum sirdma_odp_what what[] = {
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH] = SIRDMA_ODP_PREFETCH,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE] = SIRDMA_ODP_PREFETCH_WRITE,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = SIRDMA_ODP_SNAPSHOT,
	};
	const bool wait = flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	u32 pd = to_spd(ibpd)->id, i;
	int err = 0;

	if (advice >= ARRAY_SIZE(what))
		return -EOPNOTSUPP;
	/* Nothing is fetched if a part of the advice is wrong. */
	for (i = 0; !err && i < count; i++)
		err = sirdma_odp_advise(dev, pd, &sges[i], what[advice], true, wait);
	for (i = 0; !err && i < count; i++)
		err = sirdma_odp_advise(dev, pd, &sges[i], what[advice], false, wait);
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
