// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fast_mr.h"

#include <linux/slab.h>

#include "device.h"
#include "health.h"
#include "hw/access.h"
#include "hw/cqp_cmd.h"
#include "hw/stag.h"
#include "mr.h"
#include "pd.h"
#include "qp.h"
#include "sirdma/encode.h"

static int sirdma_fast_mr_create(struct sirdma_dev *dev, struct sirdma_mr *mr, u32 blocks, u32 pd)
{
	struct sirdma_cqp_alloc_mr_params params = {
		.pd = pd,
		.blocks = blocks,
	};
	int err;

	err = sirdma_pbl_alloc(&dev->hw, 2 * blocks, true, &mr->pbl);
	if (err)
		return err;
	params.first_pble = sirdma_pbl_first(&mr->pbl);
	err = sirdma_stag_alloc(&dev->hw, &params.stag);
	if (err)
		goto err_pbl;
	err = sirdma_cqp_alloc_mr(&dev->hw, &params);
	if (err)
		goto err_stag;
	mr->ibmr.lkey = params.stag;
	mr->ibmr.rkey = params.stag;
	return 0;

err_stag:
	sirdma_stag_free(&dev->hw, params.stag);
err_pbl:
	sirdma_pbl_free(&dev->hw, &mr->pbl);
	return err;
}

struct ib_mr *sirdma_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_fast_mr *fast;
	int err;

	if (type != IB_MR_TYPE_MEM_REG) {
		sirdma_refused(dev, "alloc_mr: type %u is not supported", type);
		return ERR_PTR(-EOPNOTSUPP);
	}
	if (!max_num_sg || max_num_sg > SIRDMA_FAST_MR_MAX_PAGES) {
		sirdma_refused(dev, "alloc_mr: %u pages, not 1 to %u", max_num_sg,
			       SIRDMA_FAST_MR_MAX_PAGES);
		return ERR_PTR(-EINVAL);
	}
	fast = kzalloc(sizeof(*fast), GFP_KERNEL);
	if (!fast)
		return ERR_PTR(-ENOMEM);
	fast->list.max = max_num_sg;
	err = sirdma_fast_mr_create(dev, &fast->mr, max_num_sg, to_spd(ibpd)->id);
	if (err) {
		kfree(fast);
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
		return ERR_PTR(err);
	}
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_REGISTERED);
	return &fast->mr.ibmr;
}

static int sirdma_fast_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct sirdma_fast_list *list = &to_sfast(ibmr)->list;
	__le64 *entry;

	if (list->used == list->max)
		return -ENOMEM;
	entry = sirdma_pbl_next(&to_sdev(ibmr->device)->hw, &list->walk);
	if (!entry)
		return -EIO;
	WRITE_ONCE(*entry, cpu_to_le64(addr));
	list->used++;
	return 0;
}

int sirdma_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset)
{
	struct sirdma_fast_list *list = &to_sfast(ibmr)->list;
	int n;

	if (!sirdma_mr_is_fast(ibmr))
		return -EINVAL;
	list->used = 0;
	list->walk = (struct sirdma_pbl_walk){.pbl = &to_smr(ibmr)->pbl, .next = list->max};
	if (!is_power_of_2(ibmr->page_size) || !(ibmr->page_size & SIRDMA_MR_PAGE_SIZES))
		return -EINVAL;
	n = ib_sg_to_pages(ibmr, sg, nents, offset, sirdma_fast_set_page);
	list->offset = ibmr->iova & (ibmr->page_size - 1);
	return n;
}

/*
 * Does the list of @fast cover the region (iova, length), and does it begin at the offset of the
 * region in its page? The list may be longer.
 */
static bool sirdma_fast_mr_is_mapped(const struct sirdma_fast_mr *fast)
{
	const struct sirdma_fast_list *list = &fast->list;
	const struct ib_mr *ibmr = &fast->mr.ibmr;
	u32 offset = ibmr->iova & (ibmr->page_size - 1);

	return list->used && offset == list->offset && ibmr->length &&
	       ibmr->length <= (u64)list->used * ibmr->page_size - offset;
}

int sirdma_fast_reg_fill(const struct sirdma_qp *qp, const struct ib_reg_wr *wr,
			 struct sirdma_fast_reg *reg)
{
	const struct ib_mr *ibmr = wr->mr;
	const char *why;
	int err;

	if (!ibmr || ibmr->device != qp->ibqp.device || !sirdma_mr_is_fast(ibmr) ||
	    (wr->key ^ ibmr->rkey) >> 8 || !sirdma_fast_mr_is_mapped(to_sfast(wr->mr)))
		return -EINVAL;
	err = sirdma_region_access_check(wr->access, &why);
	if (err)
		return err;
	/*
	 * The kernel has no windows, page lists have no zero-based addresses, and the work request
	 * has no bit for the right to be flushed.
	 */
	if (wr->access & (IB_ACCESS_MW_BIND | IB_ZERO_BASED | SIRDMA_VERBS_FLUSH_GLOBAL))
		return -EOPNOTSUPP;
	*reg = (struct sirdma_fast_reg){
		.addr = ibmr->iova,
		.length = ibmr->length,
		.stag = wr->key,
		.rights = sirdma_region_rights(wr->access),
		.hpage = sirdma_hpage_size(ilog2(ibmr->page_size)),
	};
	return 0;
}
