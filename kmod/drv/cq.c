// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <rdma/uverbs_ioctl.h>

#include "cq.h"
#include "device.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "hw/limits.h"
#include "kverbs.h"
#include "ring.h"
#include "sirdma/abi.h"
#include "sirdma/cqe.h"
#include "ucontext.h"

static int sirdma_cq_check(struct sirdma_dev *dev, const struct ib_cq_init_attr *attr, u64 entries)
{
	if (attr->flags)
		return -EOPNOTSUPP;
	if (entries < SIRDMA_MIN_CQ_ELEMENTS || entries > sirdma_max_cq_elements(&dev->hw)) {
		sirdma_refused(dev, "create_cq: %llu elements, allowed are %u to %u", entries,
			       SIRDMA_MIN_CQ_ELEMENTS, sirdma_max_cq_elements(&dev->hw));
		return -EINVAL;
	}
	return 0;
}

/* Find a user's memory of ring and shadow area; both stay in use until the CQ is destroyed. */
static int sirdma_cq_take_ring(struct sirdma_cq *cq, u32 entries, struct ib_udata *udata,
			       struct sirdma_cqp_cq_params *params)
{
	struct sirdma_ucontext *uctx = sirdma_udata_to_uctx(udata);
	u32 pages = DIV_ROUND_UP(entries * sizeof(struct sirdma_cqe), SZ_4K);
	struct sirdma_create_cq_req req = {};
	struct sirdma_ring_addr addr;
	int err;

	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (err)
		return err;
	if (req.flags & ~SIRDMA_CQ_TIMESTAMPS)
		return -EINVAL;
	params->timestamps = req.flags & SIRDMA_CQ_TIMESTAMPS;
	cq->ring = sirdma_ring_get(uctx, SIRDMA_MEMREG_CQ, req.user_cq_buf);
	if (IS_ERR(cq->ring))
		return PTR_ERR(cq->ring);
	cq->shadow = sirdma_ring_get(uctx, SIRDMA_MEMREG_CQ, req.user_shadow_area);
	if (IS_ERR(cq->shadow)) {
		err = PTR_ERR(cq->shadow);
		goto err_put;
	}

	params->shadow_pa = sirdma_ring_shadow(cq->shadow, 0);
	if (!params->shadow_pa || cq->ring->sq_pages < pages ||
	    cq->ring->length < entries * sizeof(struct sirdma_cqe)) {
		err = -EINVAL;
		goto err_put_shadow;
	}
	sirdma_ring_locate(cq->ring, 0, pages, &addr);
	params->vmap = addr.vmap;
	params->pa = addr.pa;
	params->first_pble = addr.first_pble;
	return 0;

err_put_shadow:
	sirdma_ring_put(cq->shadow);
err_put:
	sirdma_ring_put(cq->ring);
	return err;
}

static int sirdma_cq_take_memory(struct sirdma_dev *dev, struct sirdma_cq *cq, u32 entries,
				 struct ib_udata *udata, struct sirdma_cqp_cq_params *params)
{
	struct sirdma_kcq *kcq;

	if (udata)
		return sirdma_cq_take_ring(cq, entries, udata, params);
	kcq = sirdma_kcq_create(dev, entries);
	if (IS_ERR(kcq))
		return PTR_ERR(kcq);
	cq->kcq = kcq;
	params->pa = kcq->mem.pa;
	params->shadow_pa = kcq->mem.pa + ((void *)kcq->ring.shadow - kcq->mem.va);
	return 0;
}

static void sirdma_cq_drop_memory(struct sirdma_dev *dev, struct sirdma_cq *cq)
{
	if (cq->kcq) {
		sirdma_kcq_destroy(dev, cq->kcq);
		return;
	}
	sirdma_ring_put(cq->shadow);
	sirdma_ring_put(cq->ring);
}

static int sirdma_cq_start(struct sirdma_dev *dev, struct sirdma_cq *cq,
			   struct sirdma_cqp_cq_params *params)
{
	int err;

	err = sirdma_idpool_get(&dev->hw.cq_ids, &cq->id);
	if (err)
		return err;
	err = sirdma_obj_publish(&dev->cqs, &dev->hw.cq_ids, cq->id, &cq->obj);
	if (err)
		goto err_id;
	params->cq_id = cq->id;
	params->ctx = cq->obj.cookie << 1; /* the device keeps 63 bits and drops the lowest */
	err = sirdma_cqp_create_cq(&dev->hw, params);
	if (err)
		goto err_unpublish;
	return 0;

err_unpublish:
	sirdma_obj_unpublish(&dev->cqs, &cq->obj);
err_id:
	sirdma_idpool_put(&dev->hw.cq_ids, cq->id);
	return err;
}

static void sirdma_cq_stop(struct sirdma_dev *dev, struct sirdma_cq *cq)
{
	int err;

	err = sirdma_cqp_destroy_cq(&dev->hw, cq->id);
	if (err)
		sirdma_dev_fail(dev, err);
	sirdma_obj_unpublish(&dev->cqs, &cq->obj);
	sirdma_idpool_put(&dev->hw.cq_ids, cq->id);
}

int sirdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	/* A provider passes the ring's elements, a kernel consumer the completions it needs. */
	u64 entries = attrs ? attr->cqe : sirdma_cq_elements(attr->cqe);
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_cqp_cq_params params = {
		.entries = entries,
		.ceq_id = attr->comp_vector % dev->hw.cfg.num_ceqs,
	};
	struct sirdma_create_cq_resp resp = {};
	struct sirdma_cq *cq = to_scq(ibcq);
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
	int err;

	if (udata && (udata->inlen < offsetofend(struct sirdma_create_cq_req, user_shadow_area) ||
		      udata->outlen < sizeof(resp)))
		return -EINVAL;
	err = sirdma_cq_check(dev, attr, entries);
	if (err)
		return err;
	err = sirdma_cq_take_memory(dev, cq, entries, udata, &params);
	if (err) {
		sirdma_refused(dev, "create_cq: no ring memory for %llu elements: %d", entries,
			       err);
		return err;
	}
	err = sirdma_cq_start(dev, cq, &params);
	if (err)
		goto err_memory;

	ibcq->cqe = attr->cqe;
	if (!udata)
		return 0;
	resp.cq_id = cq->id;
	resp.cq_size = attr->cqe;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		goto err_stop;
	return 0;

err_stop:
	sirdma_cq_stop(dev, cq);
err_memory:
	sirdma_cq_drop_memory(dev, cq);
	return err;
}

int sirdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_cq *cq = to_scq(ibcq);

	sirdma_cq_stop(dev, cq);
	sirdma_cq_drop_memory(dev, cq);
	return 0;
}
