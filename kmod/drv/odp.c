// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An explicit region is one range of addresses (odp_range.h), an implicit one is all addresses of a
 * process, with a range for each part that is in use (odp_child.h).
 */
#include "odp.h"

#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat/ib_umem.h"
#include "compat/ib_umem_odp.h"
#include "device.h"
#include "hw/prq.h"
#include "hw/stag.h"
#include "odp_child.h"
#include "odp_range.h"
#include "odp_user.h"
#include "pd.h"
#include "ucontext.h"
#include "user.h"

/*
 * Works of an implicit region, and requests that wait for one work, at most. Requests of different queue
 * pairs are not merged, even for the same page. A request beyond this is counted and dropped, and the queue
 * pair asks again. Not tuned.
 */
#define SIRDMA_ODP_WORKS 8
#define SIRDMA_ODP_JOBS 32

/*
 * A request whose queue pair has waited for this long is answered by an error, whatever the reason, as
 * SIRDMA_PRQ_WAITED: 10 units of 1.07 s. Memory that is short comes back in less, and the user sees an
 * error that names the access instead of a queue pair that hangs. Not tuned.
 */
#define SIRDMA_ODP_PATIENCE 11

/*
 * What an explicit region costs beyond its pages, in pages as odp_user.h charges them: 3 KiB, of which its
 * work is 1 KiB. An implicit one is charged as one child, whose 12 KiB cover its root and its works.
 */
#define SIRDMA_ODP_REGION_PAGES 128

/* Ranges are named by an unsigned long. */
#define SIRDMA_ODP_IMPLICIT IS_ENABLED(CONFIG_64BIT)

enum sirdma_odp_job_type {
	SIRDMA_ODP_FAULT, /* the device needs the pages */
	SIRDMA_ODP_CLEAR_ERROR, /* the device was told that there is no memory, and failed the access */
	SIRDMA_ODP_PREFETCH,
	SIRDMA_ODP_PREFETCH_WRITE,
	SIRDMA_ODP_PREFETCH_NO_FAULT, /* enter the pages that are there */
};

struct sirdma_odp_job {
	u64 block;
	u32 count;
	u32 qpn;
	u32 gen;
	u8 type; /* enum sirdma_odp_job_type */
	u8 waited;
};

/*
 * The requests for one child, all advice on an implicit region, or all requests for an explicit one, whose
 * range admits one walk of the page tables at a time. A page fault that takes long holds up these only.
 * A work is memory of its region, which the registration allocates, and accounts to its process.
 */
struct sirdma_odp_work {
	struct work_struct work;
	struct sirdma_odp_mr *odp;
	/* Under the lock of the lists */
	bool busy; /* it is queued, or takes requests, with a reference to the region */
	u32 njobs; /* used entries of jobs[] */
	u64 key; /* sirdma_odp_key() of the requests */
	struct sirdma_odp_job jobs[SIRDMA_ODP_JOBS];
};

/*
 * A region that ended has no page list, and its range or its children have ended. What is left of it, and
 * the memory of the device, stays until its works and ibv_advise_mr() have dropped it: a page fault may
 * take for ever, and whoever ends the region, or the device, does not wait for it.
 */
struct sirdma_odp_mr {
	struct sirdma_mr mr;
	struct sirdma_dev *dev;
	struct sirdma_odp_user *user;
	u32 pd;
	u32 charged; /* pages, but for those of children */
	bool implicit;
	union {
		struct sirdma_odp_range range;
		struct sirdma_odp_children children; /* of an implicit region */
	};
	struct mm_struct *mm; /* implicit: a reference, which the core takes for ranges only */
	u64 base; /* address of the first byte in the region: the IOVA, or 0 if zero-based */
	u64 length;
	u64 blocks;
	u32 first_off; /* offset of the first byte in its page */
	/* One of the region, one of each busy work, one for each ibv_advise_mr() that runs */
	refcount_t refs;
	u32 nworks;
	struct sirdma_odp_work works[];
};

static struct sirdma_odp_mr *to_sodp(struct sirdma_mr *mr)
{
	return container_of(mr, struct sirdma_odp_mr, mr);
}

static struct ib_umem_odp *sirdma_odp_umem(const struct sirdma_odp_mr *odp)
{
	return to_ib_umem_odp(odp->mr.umem);
}

/* Keep the region from its end. Returns false if it has ended. */
static bool sirdma_odp_lock(struct sirdma_odp_mr *odp)
{
	return odp->implicit ? sirdma_odp_children_lock(&odp->children) :
			       sirdma_odp_range_lock(&odp->range);
}

static void sirdma_odp_unlock(struct sirdma_odp_mr *odp)
{
	if (odp->implicit)
		sirdma_odp_children_unlock(&odp->children);
	else
		sirdma_odp_range_unlock(&odp->range);
}

/* Call @write for the entry that the device finds for the block of @job. The region is locked. */
static void sirdma_odp_mark(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job,
			    void (*write)(__le64 *entry, u64 mark))
{
	const u64 mark = sirdma_odp_error_of(job->qpn, job->gen);

	if (odp->implicit)
		sirdma_odp_children_mark(&odp->children, job->block, mark, write);
	else
		write(sirdma_odp_range_entry(&odp->range, job->block), mark);
}

/* Faults */

/* Enter pages. @need: for this access of the device; NULL: for advice. */
static int sirdma_odp_map(struct sirdma_odp_mr *odp, u64 block, u64 count, bool write, bool fault,
			  const struct sirdma_odp_need *need)
{
	if (odp->implicit)
		return sirdma_odp_children_map(&odp->children, block, count, write, fault, need);
	return sirdma_odp_range_map(&odp->range, block, count, write, fault);
}

/* May the same fault succeed later, although the process does nothing about it? */
static bool sirdma_odp_is_temporary(int err)
{
	return err == -ENOMEM || err == -EDQUOT || err == -EBUSY || err == -EAGAIN ||
	       err == -EINTR || err == -ETIME || err == -ETIMEDOUT;
}

/* The device needs pages. Of a message that is not all there, it gets what comes first. */
static void sirdma_odp_fault(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	const struct sirdma_odp_need need = {.qpn = job->qpn, .waited = job->waited};
	u32 count = min_t(u32, job->count, SIRDMA_ODP_STEP);
	struct sirdma_dev *dev = odp->dev;
	bool later;
	int err;

	/* Of pages the last of which are missing, the device gets at least half of those before. */
	for (;; count /= 2) {
		err = sirdma_odp_map(odp, job->block, count, odp->mr.umem->writable, true, &need);
		later = sirdma_odp_is_temporary(err);
		if (!err || later || count == 1)
			break;
	}
	/* After the end of the region nothing of the device is touched. */
	if (!sirdma_odp_lock(odp))
		return;
	sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAULTS);
	if (later && job->waited < SIRDMA_ODP_PATIENCE)
		goto out; /* the queue pair asks again */
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_ODP_FAILURES);
		ibdev_dbg(&dev->ibdev, "page %llu of region %#x, for QP %u: no memory: %d\n",
			  job->block, odp->mr.ibmr.lkey, job->qpn, err);
		sirdma_odp_mark(odp, job, sirdma_odp_set_error);
	}
	sirdma_doorbell(dev->bus, job->qpn);
out:
	sirdma_odp_unlock(odp);
}

/* The access of a QP failed. */
static void sirdma_odp_clear_error(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	if (!sirdma_odp_lock(odp))
		return;
	sirdma_odp_mark(odp, job, sirdma_odp_end_error);
	sirdma_odp_unlock(odp);
}

/*
 * Advice. The RDMA core gives up (EBUSY) on pages that were taken away for a second while it walked the
 * page tables. The rest is not prefetched either: it might take a second for each SIRDMA_ODP_STEP pages,
 * and the device's page faults wait for the same work. The device asks for each page that is missing.
 */
static int sirdma_odp_prefetch(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job,
			       bool write, bool fault)
{
	const int err = sirdma_odp_map(odp, job->block, job->count, write, fault, NULL);

	return err == -EBUSY ? 0 : err;
}

static int sirdma_odp_do(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	switch (job->type) {
	case SIRDMA_ODP_FAULT:
		sirdma_odp_fault(odp, job);
		return 0;
	case SIRDMA_ODP_CLEAR_ERROR:
		sirdma_odp_clear_error(odp, job);
		return 0;
	case SIRDMA_ODP_PREFETCH:
		return sirdma_odp_prefetch(odp, job, false, true);
	case SIRDMA_ODP_PREFETCH_WRITE:
		return sirdma_odp_prefetch(odp, job, true, true);
	case SIRDMA_ODP_PREFETCH_NO_FAULT:
		return sirdma_odp_prefetch(odp, job, false, false);
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
	if (odp->mm)
		mmdrop(odp->mm);
	sirdma_odp_user_put(odp->user, odp->charged);
	put_device(&odp->dev->ibdev.dev);
	kvfree(odp);
}

/* Take the next request. Without one the work is free for other requests. */
static bool sirdma_odp_next(struct sirdma_odp_work *work, struct sirdma_odp_job *job)
{
	struct xarray *lists = &work->odp->dev->odp.lists;
	bool found;

	xa_lock_bh(lists);
	found = work->njobs;
	if (found) {
		*job = work->jobs[0];
		memmove(work->jobs, work->jobs + 1, --work->njobs * sizeof(work->jobs[0]));
	}
	work->busy = found;
	xa_unlock_bh(lists);
	return found;
}

static void sirdma_odp_work(struct work_struct *w)
{
	struct sirdma_odp_work *work = container_of(w, struct sirdma_odp_work, work);
	struct sirdma_odp_job job;

	while (sirdma_odp_next(work, &job)) {
		sirdma_odp_do(work->odp, &job);
		cond_resched();
	}
	/* The work may be queued again by now, with a reference of its own. */
	sirdma_odp_put(work->odp);
}

static u64 sirdma_odp_key(const struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	if (!odp->implicit)
		return 0;
	if (job->type == SIRDMA_ODP_FAULT || job->type == SIRDMA_ODP_CLEAR_ERROR)
		return job->block / SIRDMA_PBLE_PER_LEAF;
	return U64_MAX; /* advice may be on many children */
}

/* The work for @key, or NULL. The lock of the lists is held. */
static struct sirdma_odp_work *sirdma_odp_get_work(struct sirdma_odp_mr *odp, u64 key)
{
	struct sirdma_odp_work *work, *unused = NULL;

	for (work = odp->works; work < odp->works + odp->nworks; work++) {
		if (!work->busy)
			unused = work;
		else if (work->key == key)
			return work;
	}
	if (!unused)
		return NULL;
	unused->busy = true;
	unused->key = key;
	refcount_inc(&odp->refs);
	/* It waits for the lock before it looks for a request. */
	queue_work(odp->user->wq, &unused->work);
	return unused;
}

static bool sirdma_odp_is_same(const struct sirdma_odp_job *a, const struct sirdma_odp_job *b)
{
	return a->block == b->block && a->type == b->type && a->count == b->count &&
	       a->qpn == b->qpn && a->gen == b->gen;
}

/* Returns false if there is no room. The lock of the lists is held. */
static bool sirdma_odp_queue(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	struct sirdma_odp_work *work = sirdma_odp_get_work(odp, sirdma_odp_key(odp, job));
	struct sirdma_odp_job *has;

	if (!work)
		return false;
	for (has = work->jobs; has < work->jobs + work->njobs; has++) {
		if (sirdma_odp_is_same(has, job)) {
			has->waited = job->waited;
			return true;
		}
	}
	if (work->njobs == SIRDMA_ODP_JOBS)
		return false;
	work->jobs[work->njobs++] = *job;
	return true;
}

/* The lock of the lists is held, and the region is in them or has been found by sirdma_odp_get(). */
static void sirdma_odp_add(struct sirdma_odp_mr *odp, const struct sirdma_odp_job *job)
{
	if (!sirdma_odp_queue(odp, job))
		sirdma_count(&odp->dev->counters, SIRDMA_COUNTER_ODP_DROPS);
}

void sirdma_odp_ask(void *ctx, const struct sirdma_page_ask *ask)
{
	struct sirdma_odp_job job = {
		.type = ask->failed ? SIRDMA_ODP_CLEAR_ERROR : SIRDMA_ODP_FAULT,
		.block = ask->block,
		.count = ask->count,
		.qpn = ask->qpn,
		.gen = ask->gen,
		.waited = ask->waited,
	};
	struct sirdma_dev *dev = ctx;
	struct sirdma_odp_mr *odp;

	xa_lock_bh(&dev->odp.lists);
	odp = xa_load(&dev->odp.lists, ask->first_pble);
	/* The region may have ended, and its list be another's. */
	if (odp && job.block < odp->blocks) {
		/* A fragment may be longer than its region; a message that needs so much fails. */
		job.count = min_t(u64, job.count, odp->blocks - job.block);
		/* The next child has a work of its own. */
		if (odp->implicit)
			job.count = min_t(u32, job.count,
					  SIRDMA_PBLE_PER_LEAF - job.block % SIRDMA_PBLE_PER_LEAF);
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
	const char *why = "on-demand paging needs pages of 4 KiB";
	struct sirdma_region rest = *region;
	int err = -EOPNOTSUPP;

	rest.access &= ~IB_ACCESS_ON_DEMAND;
	/* Huge pages are taken in pages of 4 KiB, so their flag changes nothing. */
	if (!sirdma_odp_is_implicit(region))
		rest.access &= ~IB_ACCESS_HUGETLB;
	/* A page list has blocks of the device's page size, and those of this one are the kernel's. */
	if (ib_uses_virt_dma(&dev->ibdev) && PAGE_SIZE == SIRDMA_PAGE_SIZE) {
		if (!sirdma_odp_is_implicit(region)) {
			err = sirdma_region_check(&rest, &why);
		} else if (!SIRDMA_ODP_IMPLICIT) {
			why = "addresses of this machine are too short for an implicit region";
		} else if (region->iova) {
			why = "a region of all addresses begins at address 0 and iova 0";
			err = -EINVAL;
		} else {
			err = sirdma_region_access_check(rest.access, &why);
		}
	}
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

static void sirdma_odp_collect(struct work_struct *work)
{
	struct sirdma_odp_mr *odp =
		container_of(to_delayed_work(work), struct sirdma_odp_mr, children.collect);

	sirdma_odp_children_collect(&odp->children);
	sirdma_odp_put(odp);
}

/*
 * The children have not ended. Their memory comes back on a queue where no work waits for a page fault,
 * and where only works of their user wait. That it is to be soon moves a work that waits, and that it may
 * be later does not.
 */
static void sirdma_odp_collect_in(struct sirdma_odp_children *children, unsigned long delay)
{
	struct sirdma_odp_mr *odp = container_of(children, struct sirdma_odp_mr, children);
	bool queued;

	refcount_inc(&odp->refs);
	queued = delay ? queue_delayed_work(odp->user->frees, &children->collect, delay) :
			 !mod_delayed_work(odp->user->frees, &children->collect, 0);
	/* If it was queued already, it has its reference, and this is another one. */
	if (!queued)
		refcount_dec(&odp->refs);
}

/* Make the range of an explicit region, without any page. */
static int sirdma_odp_begin_range(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	struct ib_umem_odp *umem;
	int err;

	/* With the flag of huge pages the umem would have no others. */
	umem = ib_umem_odp_get(&odp->dev->ibdev, region->start, region->length,
			       region->access & ~IB_ACCESS_HUGETLB, &sirdma_odp_notifier_ops);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	odp->mr.umem = &umem->umem;
	err = sirdma_pbl_alloc(&odp->dev->hw, ib_umem_odp_num_pages(umem), false, &odp->mr.pbl);
	if (err)
		return err; /* sirdma_odp_put() releases the umem */
	odp->range = (struct sirdma_odp_range){
		.dev = odp->dev,
		.pd = odp->pd,
		.umem = umem,
		.list = &odp->mr.pbl,
	};
	sirdma_odp_range_begin(&odp->range);
	return 0;
}

static int sirdma_odp_begin_children(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	struct ib_umem_odp *umem;
	int err;

	umem = ib_umem_odp_alloc_implicit(&odp->dev->ibdev, region->access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	odp->mr.umem = &umem->umem;
	odp->mm = current->mm;
	mmgrab(odp->mm);
	odp->children = (struct sirdma_odp_children){
		.dev = odp->dev,
		.user = odp->user,
		.umem = umem,
		.pd = odp->pd,
		.collect_in = sirdma_odp_collect_in,
	};
	INIT_DELAYED_WORK(&odp->children.collect, sirdma_odp_collect);
	err = sirdma_odp_children_begin(&odp->children);
	if (err)
		return err;
	/* The children own the tables. This is what the device gets. */
	odp->mr.pbl.first = odp->children.root;
	odp->mr.pbl.level = SIRDMA_PBL_LEVEL_SPARSE;
	return 0;
}

/* Take the memory of the region from the device and from the notifier. */
static void sirdma_odp_end(struct sirdma_odp_mr *odp)
{
	struct sirdma_dev *dev = odp->dev;
	struct sirdma_odp_work *work;

	xa_erase_bh(&dev->odp.keys, odp->mr.ibmr.lkey);
	xa_erase_bh(&dev->odp.lists, sirdma_pbl_first(&odp->mr.pbl));
	/* The device and ibv_advise_mr() do not find the region any more. */
	xa_lock_bh(&dev->odp.lists);
	for (work = odp->works; work < odp->works + odp->nworks; work++)
		work->njobs = 0;
	xa_unlock_bh(&dev->odp.lists);
	if (odp->implicit) {
		sirdma_odp_children_end(&odp->children);
	} else {
		sirdma_odp_range_end(&odp->range);
		sirdma_pbl_free(&dev->hw, &odp->mr.pbl);
	}
}

static int sirdma_odp_take_memory(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	int err;

	err = odp->implicit ? sirdma_odp_begin_children(odp, region) :
			      sirdma_odp_begin_range(odp, region);
	if (err)
		return err;
	odp->mr.pbl.block_shift = PAGE_SHIFT;
	err = xa_insert_bh(&odp->dev->odp.lists, sirdma_pbl_first(&odp->mr.pbl), odp, GFP_KERNEL);
	if (err)
		sirdma_odp_end(odp);
	return err;
}

void sirdma_odp_release(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	struct sirdma_odp_mr *odp = to_sodp(mr);

	sirdma_odp_end(odp);
	if (odp->implicit && cancel_delayed_work(&odp->children.collect))
		sirdma_odp_put(odp);
	sirdma_odp_put(odp);
}

/* The addresses that the region has, and what its page list costs for now. */
static void sirdma_odp_measure(struct sirdma_odp_mr *odp, const struct sirdma_region *region)
{
	odp->implicit = sirdma_odp_is_implicit(region);
	if (odp->implicit) {
		odp->length = SIRDMA_PBL_SPARSE_BYTES;
		odp->blocks = 1ull << SIRDMA_PBL_SPARSE_BITS;
		odp->charged = SIRDMA_PBLE_PER_LEAF;
		return;
	}
	odp->base = region->access & IB_ZERO_BASED ? 0 : region->iova;
	odp->length = region->length;
	odp->blocks = sirdma_odp_pages(region);
	odp->charged = SIRDMA_ODP_REGION_PAGES + odp->blocks;
	odp->first_off = offset_in_page(region->start);
}

static struct sirdma_odp_mr *sirdma_odp_alloc(struct ib_pd *ibpd,
					      const struct sirdma_region *region)
{
	const u32 nworks = sirdma_odp_is_implicit(region) ? SIRDMA_ODP_WORKS : 1;
	struct sirdma_odp_work *work;
	struct sirdma_odp_mr *odp;

	odp = kvzalloc(struct_size(odp, works, nworks), GFP_KERNEL_ACCOUNT);
	if (!odp)
		return NULL;
	odp->nworks = nworks;
	for (work = odp->works; work < odp->works + nworks; work++) {
		INIT_WORK(&work->work, sirdma_odp_work);
		work->odp = odp;
	}
	sirdma_odp_measure(odp, region);
	if (odp->implicit || odp->blocks <= SIRDMA_PBL_MAX_BLOCKS)
		odp->user = sirdma_odp_user_get(to_suctx(ibpd->uobject->context)->user->uid,
						odp->charged);
	if (IS_ERR_OR_NULL(odp->user)) {
		kvfree(odp);
		return NULL;
	}
	odp->dev = to_sdev(ibpd->device);
	get_device(&odp->dev->ibdev.dev);
	odp->pd = to_spd(ibpd)->id;
	refcount_set(&odp->refs, 1);
	return odp;
}

struct ib_mr *sirdma_odp_reg(struct ib_pd *ibpd, const struct sirdma_region *region)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_region described = *region;
	struct sirdma_odp_mr *odp;
	u32 stag;
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
	described.access &= ~(IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB);
	if (odp->implicit) {
		/* It begins at 0 in any case, and a zero-based region has no windows. */
		if (described.access & IB_ZERO_BASED)
			described.access &= ~(IB_ZERO_BASED | IB_ACCESS_MW_BIND);
		described.length = 0; /* the page list says it */
	}
	err = sirdma_stag_alloc(&dev->hw, &stag);
	if (err)
		goto err_end;
	/*
	 * Nothing may fail once the device has the region: another thread may have guessed the key,
	 * and bound a window to it.
	 */
	err = xa_reserve_bh(&dev->odp.keys, stag, GFP_KERNEL);
	if (err)
		goto err_stag;
	err = sirdma_mr_create_with(dev, &odp->mr, &described, odp->pd, stag);
	if (err)
		goto err_release;
	odp->mr.pbl.access = region->access & SIRDMA_VERBS_ACCESS_KNOWN;
	odp->mr.ibmr.length = region->length;
	xa_store_bh(&dev->odp.keys, stag, odp, GFP_KERNEL);
	/* This is a prefetch: its error does not matter, the device asks for each page that is missing. */
	if (!odp->implicit)
		sirdma_odp_map(odp, 0, odp->blocks, false, false, NULL);
	return &odp->mr.ibmr;

err_release:
	xa_erase_bh(&dev->odp.keys, stag); /* takes the reservation back */
err_stag:
	sirdma_stag_free(&dev->hw, stag);
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
	u64 off = sge->addr - odp->base;

	if (odp->pd != pd || (job->type == SIRDMA_ODP_PREFETCH_WRITE && !odp->mr.umem->writable))
		return -EPERM;
	if (off >= odp->length || sge->length > odp->length - off)
		return -EFAULT;
	off += odp->first_off;
	job->block = off >> PAGE_SHIFT;
	job->count = ((off + sge->length - 1) >> PAGE_SHIFT) - job->block + 1;
	return 0;
}

/* Check advice on @sge. Unless @check, follow it: now, or (without @wait) by a work of the region. */
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
	attr->odp_caps.general_caps = IB_ODP_SUPPORT |
				      (SIRDMA_ODP_IMPLICIT ? IB_ODP_SUPPORT_IMPLICIT : 0);
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;
	/* A datagram that finds no memory at its receiver is lost, which is no support. */
	attr->odp_caps.per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}
