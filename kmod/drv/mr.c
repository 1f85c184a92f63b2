// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/slab.h>

#include "compat/ib_umem.h"
#include "device.h"
#include "health.h"
#include "hw/access.h"
#include "hw/cqp_cmd.h"
#include "hw/stag.h"
#include "mr.h"
#include "pd.h"
#include "ring.h"
#include "sirdma/abi.h"
#include "trace.h"
#include "umem.h"

/* Each takes as long as a command, longer than a page list is copied. */
#define FAST_DEALLOC_TRIES 100

static int sirdma_mr_check(struct sirdma_dev *dev, u64 start, u64 length, u64 iova, int access)
{
	const struct sirdma_region region = {
		.start = start,
		.length = length,
		.iova = iova,
		.access = access,
	};
	const char *why;
	int err;

	err = sirdma_region_check(&region, &why);
	if (err) {
		sirdma_refused(dev, "reg_mr: %llu bytes at %#llx, iova %#llx, access %#x: %s",
			       length, start, iova, access, why);
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

/* A stag for the region of @params; it is the key of @mr. */
static int sirdma_mr_register(struct sirdma_dev *dev, struct sirdma_mr *mr,
			      struct sirdma_cqp_reg_mr_params *params)
{
	int err;

	err = sirdma_stag_alloc(&dev->hw, &params->stag);
	if (err)
		return err;
	trace_sirdma_mr_register(dev, params);
	err = sirdma_cqp_reg_mr(&dev->hw, params);
	trace_sirdma_mr_registered(dev, params->stag, err);
	if (err) {
		sirdma_stag_free(&dev->hw, params->stag);
		return err;
	}
	mr->ibmr.lkey = params->stag;
	mr->ibmr.rkey = params->stag;
	return 0;
}

static int sirdma_mr_register_umem(struct sirdma_dev *dev, struct sirdma_mr *mr, u64 length,
				   u64 iova, int access, u32 pd)
{
	struct sirdma_cqp_reg_mr_params params = {
		.pd = pd,
		.va = iova,
		.len = length,
		.access = sirdma_region_rights(access),
		.block_shift = mr->pbl.block_shift,
		.level = mr->pbl.level,
		.zero_based = access & SIRDMA_VERBS_ZERO_BASED,
	};

	if (mr->pbl.level)
		params.first_pble = sirdma_pbl_first(&mr->pbl);
	else
		params.addr = mr->pbl.addr;
	return sirdma_mr_register(dev, mr, &params);
}

static struct ib_umem *sirdma_mr_pin(struct sirdma_dev *dev, u64 start, u64 length, int access)
{
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

static struct ib_mr *sirdma_reg_memory(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
				       int access)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_mr *mr;
	int err;

	err = sirdma_mr_check(dev, start, length, iova, access);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->umem = sirdma_mr_pin(dev, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	err = sirdma_mr_map(dev, mr, iova);
	if (err)
		goto err_unpin;
	err = sirdma_mr_register_umem(dev, mr, length, iova, access, to_spd(ibpd)->id);
	if (err)
		goto err_unmap;

	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_REGISTERED);
	sirdma_count_add(&dev->counters, SIRDMA_COUNTER_MR_PAGES_PINNED,
			 ib_umem_num_pages(mr->umem));
	return &mr->ibmr;

err_unmap:
	sirdma_pbl_free(&dev->hw, &mr->pbl);
err_unpin:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	trace_sirdma_mr_unwound(dev, start, length, err);
	return ERR_PTR(err);
}

/*
 * A region of all memory by DMA address: the local DMA key of a PD. ib_alloc_pd() asks for
 * it, so the PD is a kernel consumer's, and no user's QP can use the key. Remote rights are
 * asked for with IB_PD_UNSAFE_GLOBAL_RKEY only.
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
	err = sirdma_mr_register(dev, mr, &params);
	if (err) {
		kfree(mr);
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
		return ERR_PTR(err);
	}
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_REGISTERED);
	return &mr->ibmr;
}

static int sirdma_dereg_memory(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	u32 stag = mr->ibmr.lkey, tries = 0;
	int err;

	/*
	 * When this command is done, no data path of the device uses the region any more. A work
	 * request that registers it at this moment is done in some microseconds.
	 */
	do {
		err = sirdma_cqp_dealloc_stag(&dev->hw, stag);
	} while (err == -EBUSY && sirdma_mr_is_fast(&mr->ibmr) && ++tries < FAST_DEALLOC_TRIES);
	trace_sirdma_mr_dealloc(dev, stag, err);
	if (err == -EBUSY) {
		sirdma_refused(dev, "dereg_mr: region %#x: %s", stag,
			       sirdma_mr_is_fast(&mr->ibmr) ? "it is being registered" :
							      "memory windows are bound to it");
		return err;
	}
	if (err)
		sirdma_dev_fail(dev, err);
	sirdma_stag_free(&dev->hw, stag);
	sirdma_pbl_free(&dev->hw, &mr->pbl);
	if (mr->umem) {
		sirdma_count_add(&dev->counters, SIRDMA_COUNTER_MR_PAGES_PINNED,
				 -(s64)ib_umem_num_pages(mr->umem));
		ib_umem_release(mr->umem);
	}
	kfree(mr);
	return 0;
}

struct ib_mr *sirdma_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				 struct ib_udata *udata)
{
	struct sirdma_mem_reg_req req = {};
	int err;

	if (udata->inlen < sizeof(req))
		return ERR_PTR(-EINVAL);
	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (err)
		return ERR_PTR(err);

	switch (req.reg_type) {
	case SIRDMA_MEMREG_MEM:
		return sirdma_reg_memory(ibpd, start, length, iova, access);
	case SIRDMA_MEMREG_QP:
	case SIRDMA_MEMREG_CQ:
	case SIRDMA_MEMREG_SRQ:
		return sirdma_ring_register(ibpd, start, length, &req, udata);
	default:
		sirdma_refused(to_sdev(ibpd->device), "reg_mr: no such memory type: %u",
			       req.reg_type);
		return ERR_PTR(-EINVAL);
	}
}

int sirdma_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibmr->device);
	struct sirdma_mr *mr = to_smr(ibmr);

	return sirdma_mr_is_ring(mr) ? sirdma_ring_deregister(dev, mr) :
				       sirdma_dereg_memory(dev, mr);
}
