// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "compat/ib_umem.h"
#include "device.h"
#include "dmabuf.h"
#include "health.h"
#include "hw/access.h"
#include "hw/cqp_cmd.h"
#include "hw/stag.h"
#include "mr.h"
#include "odp.h"
#include "pd.h"
#include "ring.h"
#include "sirdma/abi.h"
#include "trace.h"
#include "umem.h"

/*
 * The time for which deregistration waits for a work request that registers the region. The device
 * copies the page list in some microseconds, unless a hypervisor or an interrupt handler has its
 * CPU.
 */
#define FAST_DEALLOC_MS 1000

static int sirdma_mr_check(struct sirdma_dev *dev, const struct sirdma_region *region)
{
	const char *why;
	int err;

	err = sirdma_region_check(region, &why);
	if (err) {
		sirdma_refused(dev, "reg_mr: %llu bytes at %#llx, iova %#llx, access %#x: %s",
			       region->length, region->start, region->iova, region->access, why);
	}
	return err;
}

/* Describe the pinned pages by the largest blocks that fit them. */
static int sirdma_mr_map(struct sirdma_dev *dev, struct sirdma_mr *mr, u64 iova)
{
	unsigned long pgsz;
	size_t count;
	int err;

	pgsz = ib_umem_find_best_pgsz(mr->umem, SIRDMA_MR_PAGE_SIZES, iova);
	if (!pgsz)
		return -EINVAL;
	count = ib_umem_num_dma_blocks(mr->umem, pgsz);
	if (count > U32_MAX)
		return -EINVAL;
	err = sirdma_umem_to_pbl(dev, mr->umem, __ffs(pgsz), count, &mr->pbl);
	trace_sirdma_mr_map(dev, mr, iova, err);
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_LIST_FAILURES);
		ibdev_dbg(&dev->ibdev, "reg_mr: no page list for %zu blocks: %d\n", count, err);
	}
	return err;
}

/* Make the region of @params, whose stag becomes the key of @mr. */
static int sirdma_mr_register(struct sirdma_dev *dev, struct sirdma_mr *mr,
			      const struct sirdma_cqp_reg_mr_params *params)
{
	int err;

	trace_sirdma_mr_register(dev, params);
	err = sirdma_cqp_reg_mr(&dev->hw, params);
	trace_sirdma_mr_registered(dev, params->stag, err);
	if (err)
		return err;
	mr->ibmr.lkey = params->stag;
	mr->ibmr.rkey = params->stag;
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_REGISTERED);
	return 0;
}

/* The command that gives the device @mr, all but the stag. */
static void sirdma_mr_describe(const struct sirdma_mr *mr, const struct sirdma_region *region,
			       u32 pd, struct sirdma_cqp_reg_mr_params *params)
{
	*params = (struct sirdma_cqp_reg_mr_params){
		.pd = pd,
		.va = region->iova,
		.len = region->length,
		.access = sirdma_region_rights(region->access),
		.block_shift = mr->pbl.block_shift,
		.level = mr->pbl.level,
		.zero_based = region->access & SIRDMA_VERBS_ZERO_BASED,
		.may_fault = sirdma_mr_is_odp(mr) && mr->pbl.level != SIRDMA_PBL_LEVEL_SPARSE,
	};
	if (mr->pbl.level)
		params->first_pble = sirdma_pbl_first(&mr->pbl);
	else
		params->addr = mr->pbl.addr;
}

int sirdma_mr_create_with(struct sirdma_dev *dev, struct sirdma_mr *mr,
			  const struct sirdma_region *region, u32 pd, u32 stag)
{
	struct sirdma_cqp_reg_mr_params params;

	sirdma_mr_describe(mr, region, pd, &params);
	params.stag = stag;
	mr->ibmr.length = region->length;
	mr->ibmr.iova = params.zero_based ? 0 : region->iova;
	return sirdma_mr_register(dev, mr, &params);
}

int sirdma_mr_create(struct sirdma_dev *dev, struct sirdma_mr *mr,
		     const struct sirdma_region *region, u32 pd)
{
	u32 stag;
	int err;

	err = sirdma_stag_alloc(&dev->hw, &stag);
	if (err)
		return err;
	err = sirdma_mr_create_with(dev, mr, region, pd, stag);
	if (err)
		sirdma_stag_free(&dev->hw, stag);
	return err;
}

static struct ib_umem *sirdma_mr_pin(struct sirdma_dev *dev, const struct sirdma_region *region)
{
	u64 start = region->start, length = region->length;
	int access = region->access;
	struct ib_umem *umem;

	umem = ib_umem_get_va(&dev->ibdev, start, length, access);
	trace_sirdma_mr_pin(dev, start, length, access, PTR_ERR_OR_ZERO(umem));
	if (IS_ERR(umem)) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_PIN_FAILURES);
		ibdev_dbg(&dev->ibdev, "reg_mr: cannot pin %llu bytes at %#llx: %ld%s\n", length,
			  start, PTR_ERR(umem),
			  PTR_ERR(umem) == -ENOMEM ? ", see RLIMIT_MEMLOCK" : "");
	}
	return umem;
}

/* Pin and describe the memory of @region. */
static int sirdma_mr_get_memory(struct sirdma_dev *dev, struct sirdma_mr *mr,
				const struct sirdma_region *region)
{
	int err;

	mr->umem = sirdma_mr_pin(dev, region);
	if (IS_ERR(mr->umem))
		return PTR_ERR(mr->umem);
	err = sirdma_mr_map(dev, mr, region->iova);
	if (err) {
		ib_umem_release(mr->umem);
		return err;
	}
	mr->pbl.access = region->access & SIRDMA_VERBS_ACCESS_KNOWN;
	sirdma_count_add(&dev->counters, SIRDMA_COUNTER_MR_PAGES_PINNED,
			 ib_umem_num_pages(mr->umem));
	return 0;
}

static void sirdma_mr_put_memory(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	sirdma_pbl_free(&dev->hw, &mr->pbl);
	if (sirdma_mr_is_dmabuf(mr))
		sirdma_dmabuf_put(mr);
	if (!mr->umem)
		return;
	sirdma_count_add(&dev->counters, SIRDMA_COUNTER_MR_PAGES_PINNED,
			 -(s64)ib_umem_num_pages(mr->umem));
	ib_umem_release(mr->umem);
}

static struct ib_mr *sirdma_reg_memory(struct ib_pd *ibpd, const struct sirdma_region *region)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_mr *mr;
	int err;

	err = sirdma_mr_check(dev, region);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	err = sirdma_mr_get_memory(dev, mr, region);
	if (err)
		goto err_free;
	err = sirdma_mr_create(dev, mr, region, to_spd(ibpd)->id);
	if (err)
		goto err_put_memory;
	return &mr->ibmr;

err_put_memory:
	sirdma_mr_put_memory(dev, mr);
err_free:
	kfree(mr);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	trace_sirdma_mr_unwound(dev, region->start, region->length, err);
	return ERR_PTR(err);
}

/*
 * A region of all memory by DMA address: the local DMA key of a PD. ib_alloc_pd() asks for it, so
 * the PD is a kernel consumer's, and no user's QP can use the key. It asks for remote rights with
 * IB_PD_UNSAFE_GLOBAL_RKEY only.
 */
struct ib_mr *sirdma_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_cqp_reg_mr_params params = {
		.pd = to_spd(ibpd)->id,
		.access = sirdma_region_rights(access),
		.block_shift = __ffs(SZ_4K),
		.all_memory = true,
	};
	struct sirdma_mr *mr;
	const char *why;
	int err;

	err = sirdma_region_access_check(access, &why);
	if (err) {
		sirdma_refused(dev, "get_dma_mr: access %#x: %s", access, why);
		return ERR_PTR(err);
	}
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = sirdma_stag_alloc(&dev->hw, &params.stag);
	if (err)
		goto err_free;
	err = sirdma_mr_register(dev, mr, &params);
	if (err)
		goto err_stag;
	return &mr->ibmr;

err_stag:
	sirdma_stag_free(&dev->hw, params.stag);
err_free:
	kfree(mr);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	return ERR_PTR(err);
}

/* When this function has returned 0, no data path of the device uses the region any more. */
static int sirdma_mr_dealloc(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	unsigned long end = jiffies + msecs_to_jiffies(FAST_DEALLOC_MS);
	int err;

	for (;;) {
		err = sirdma_cqp_dealloc_stag(&dev->hw, mr->ibmr.lkey);
		if (err != -EBUSY || !sirdma_mr_is_fast(&mr->ibmr) || time_after(jiffies, end))
			return err;
		usleep_range(10, 50);
	}
}

static int sirdma_dereg_memory(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	u32 stag = mr->ibmr.lkey;
	int err = sirdma_mr_dealloc(dev, mr);

	trace_sirdma_mr_dealloc(dev, stag, err);
	if (err == -EBUSY) {
		sirdma_refused(dev, "dereg_mr: region %#x: %s", stag,
			       sirdma_mr_is_fast(&mr->ibmr) ? "it is being registered" :
							      "memory windows are bound to it");
		return err;
	}
	if (err)
		sirdma_dev_fail(dev, err);
	if (sirdma_mr_is_odp(mr)) {
		/* It is found by its stag until this. */
		sirdma_odp_release(dev, mr);
	} else {
		sirdma_mr_put_memory(dev, mr);
		kfree(mr);
	}
	sirdma_stag_free(&dev->hw, stag);
	return 0;
}

struct ib_mr *sirdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				 struct ib_udata *udata)
{
	const struct sirdma_region region = {
		.start = start,
		.length = length,
		.iova = iova,
		.access = access,
	};
	struct sirdma_mem_reg_req req = {};
	int err;

	/* A consumer in the kernel, RDS, registers memory of users by ib_reg_user_mr(). This is not supported. */
	if (!udata)
		return ERR_PTR(-EOPNOTSUPP);
	if (udata->inlen < sizeof(req))
		return ERR_PTR(-EINVAL);
	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (err)
		return ERR_PTR(err);

	switch (req.reg_type) {
	case SIRDMA_MEMREG_MEM:
		return access & IB_ACCESS_ON_DEMAND ? sirdma_odp_reg(ibpd, &region) :
						      sirdma_reg_memory(ibpd, &region);
	case SIRDMA_MEMREG_QP:
	case SIRDMA_MEMREG_CQ:
	case SIRDMA_MEMREG_SRQ:
	case SIRDMA_MEMREG_POOL:
		return sirdma_ring_register(ibpd, start, length, &req, udata);
	default:
		sirdma_refused(to_sdev(ibpd->device), "reg_mr: no such memory type: %u",
			       req.reg_type);
		return ERR_PTR(-EINVAL);
	}
}

/* Make the region of @stag the @region of @pd on the device, with the memory of @mr. */
static int sirdma_mr_replace(struct sirdma_dev *dev, const struct sirdma_mr *mr,
			     const struct sirdma_region *region, u32 stag, u32 pd)
{
	struct sirdma_cqp_reg_mr_params params;
	int err;

	sirdma_mr_describe(mr, region, pd, &params);
	params.stag = stag;
	params.replace = true;
	trace_sirdma_mr_register(dev, &params);
	err = sirdma_cqp_reg_mr(&dev->hw, &params);
	trace_sirdma_mr_registered(dev, stag, err);
	if (err == -EBUSY)
		sirdma_refused(dev, "rereg_mr: region %#x: memory windows are bound to it", stag);
	return err;
}

/* The region as the user registered it, without the optional flags, which change nothing. */
static struct sirdma_region sirdma_mr_region(const struct sirdma_mr *mr)
{
	return (struct sirdma_region){
		.start = mr->umem->address,
		.length = mr->umem->length,
		.iova = mr->umem->iova,
		.access = mr->pbl.access,
	};
}

/*
 * Make @mr the region @to, with memory of its own, which @next holds meanwhile, if @new_memory. The
 * device no longer uses the former memory when its command has ended, and nothing has changed when
 * the command has failed.
 */
static int sirdma_mr_rereg(struct sirdma_dev *dev, struct sirdma_mr *mr, struct sirdma_mr *next,
			   const struct sirdma_region *to, bool new_memory, u32 pd)
{
	int err;

	if (!new_memory) {
		err = sirdma_mr_replace(dev, mr, to, mr->ibmr.lkey, pd);
		if (!err)
			mr->pbl.access = to->access & SIRDMA_VERBS_ACCESS_KNOWN;
		return err;
	}
	err = sirdma_mr_get_memory(dev, next, to);
	if (err)
		return err;
	err = sirdma_mr_replace(dev, next, to, mr->ibmr.lkey, pd);
	if (!err) {
		swap(mr->umem, next->umem);
		swap(mr->pbl, next->pbl);
	}
	sirdma_mr_put_memory(dev, next);
	return err;
}

/* Returns 0 if the region can be changed as the arguments of rereg_user_mr say, with *next set. */
static int sirdma_rereg_check(struct sirdma_dev *dev, const struct sirdma_mr *mr, u32 flags,
			      const struct sirdma_region *to, struct sirdma_region *next)
{
	const char *why = "it is no memory of an application";
	int err = -EINVAL;

	if (!sirdma_mr_is_ring(mr)) {
		err = -EOPNOTSUPP;
		if (sirdma_mr_is_odp(mr)) {
			why = "its memory comes on demand";
		} else if (mr->umem) {
			*next = sirdma_mr_region(mr);
			err = sirdma_region_change(next, flags, to, &why);
		}
	}
	if (err) {
		sirdma_refused(dev, "rereg_mr %#x: change %#x: %llu bytes at %#llx, access %#x: %s",
			       mr->ibmr.lkey, flags, to->length, to->start, to->access, why);
	}
	return err;
}

/*
 * Pages that were pinned for reading must be pinned again before the device may write to them. They
 * belong to the process that registered them.
 */
static int sirdma_rereg_needs_write(const struct sirdma_mr *mr, const struct sirdma_region *next)
{
	if (mr->umem->writable || !ib_access_writable(next->access))
		return 0;
	return mr->umem->owning_mm == current->mm ? 1 : -EACCES;
}

/* An application may leave out that its memory is of this type. */
static int sirdma_rereg_check_type(struct ib_udata *udata)
{
	struct sirdma_mem_reg_req req = {};
	int err;

	if (!udata->inlen)
		return 0;
	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (!err && req.reg_type != SIRDMA_MEMREG_MEM)
		err = -EINVAL;
	return err;
}

/*
 * The keys stay, as with hardware. The region changes at once: whoever uses it meanwhile finds its
 * former or its new attributes.
 */
struct ib_mr *sirdma_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				   int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	const struct sirdma_region to = {
		.start = start,
		.length = length,
		.iova = iova,
		.access = access,
	};
	struct sirdma_dev *dev = to_sdev(ibmr->device);
	struct sirdma_mr *mr = to_smr(ibmr), *next;
	struct sirdma_region changed = {};
	int err, new_memory = 1;

	err = sirdma_rereg_check_type(udata);
	if (err)
		return ERR_PTR(err);
	/* uverbs refuses a call without flags, but since 7.x drops the flag of the PD that it is. */
	if (!flags)
		return NULL;
	next = kzalloc(sizeof(*next), GFP_KERNEL);
	if (!next)
		return ERR_PTR(-ENOMEM);
	err = sirdma_rereg_check(dev, mr, flags, &to, &changed);
	if (err)
		goto out;
	if (!(flags & IB_MR_REREG_TRANS))
		new_memory = sirdma_rereg_needs_write(mr, &changed);
	if (new_memory < 0)
		err = new_memory;
	else
		err = sirdma_mr_rereg(dev, mr, next, &changed, new_memory, to_spd(ibpd)->id);
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
		trace_sirdma_mr_unwound(dev, changed.start, changed.length, err);
	}
out:
	kfree(next);
	return ERR_PTR(err);
}

int sirdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibmr->device);
	struct sirdma_mr *mr = to_smr(ibmr);

	return sirdma_mr_is_ring(mr) ? sirdma_ring_deregister(dev, mr) :
				       sirdma_dereg_memory(dev, mr);
}
