// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cq.h"
#include "device.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "hw/limits.h"
#include "kverbs.h"
#include "pd.h"
#include "ring.h"
#include "sirdma/abi.h"
#include "sirdma/geometry.h"
#include "srq.h"
#include "ucontext.h"
#include "xrcd.h"

static_assert(SIRDMA_SRQ_MAX_WR == IB_SRQ_MAX_WR && SIRDMA_SRQ_LIMIT == IB_SRQ_LIMIT);

static int sirdma_srq_check(struct sirdma_dev *dev, const struct ib_srq_init_attr *init,
			    struct ib_udata *udata)
{
	const struct ib_srq_attr *attr = &init->attr;

	if (!dev->ibdev.attrs.max_srq)
		return -EOPNOTSUPP;
	/* Only users have queues of XRC domains. */
	if (init->srq_type != IB_SRQT_BASIC && (init->srq_type != IB_SRQT_XRC || !udata))
		return -EOPNOTSUPP;
	if (init->srq_type == IB_SRQT_XRC && to_scq(init->ext.cq)->kcq)
		return -EINVAL;
	if (udata && (udata->inlen < sizeof(struct sirdma_create_srq_req) ||
		      udata->outlen < sizeof(struct sirdma_create_srq_resp)))
		return -EINVAL;
	if (sirdma_srq_ring_quanta(attr->max_wr, attr->max_sge))
		return 0;
	sirdma_refused(dev, "create_srq: wr %u sge %u: too much, or none", attr->max_wr,
		       attr->max_sge);
	return -EINVAL;
}

/* Find the ring memory of a user; it stays in use until the queue is destroyed. */
static int sirdma_srq_take_ring(struct sirdma_dev *dev, struct sirdma_srq *srq, u32 quanta,
				struct ib_udata *udata, struct sirdma_cqp_srq_params *params)
{
	struct sirdma_create_srq_req req = {};
	u32 pages = sirdma_wq_pages(quanta);
	struct sirdma_ring_addr addr;
	int err;

	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (err)
		return err;
	srq->ring =
		sirdma_ring_get(sirdma_udata_to_uctx(udata), SIRDMA_MEMREG_SRQ, req.user_srq_buf);
	if (IS_ERR(srq->ring)) {
		sirdma_refused(dev, "create_srq: no ring memory at %#llx, or another has it",
			       req.user_srq_buf);
		return PTR_ERR(srq->ring);
	}
	params->shadow_pa = sirdma_ring_shadow(srq->ring, srq->ring->rq_pages);
	if (srq->ring->rq_pages < pages || !params->shadow_pa) {
		sirdma_refused(dev, "create_srq: %u pages of ring in memory for %u", pages,
			       srq->ring->rq_pages);
		sirdma_ring_put(srq->ring);
		return -EINVAL;
	}
	sirdma_ring_locate(srq->ring, 0, pages, &addr);
	params->vmap = addr.vmap;
	params->pa = addr.pa;
	params->first_pble = addr.first_pble;
	return 0;
}

static int sirdma_srq_take_memory(struct sirdma_dev *dev, struct sirdma_srq *srq, u32 quanta,
				  struct ib_udata *udata, struct sirdma_cqp_srq_params *params)
{
	struct sirdma_ksrq *ksrq;

	if (udata)
		return sirdma_srq_take_ring(dev, srq, quanta, udata, params);
	ksrq = sirdma_ksrq_create(dev, quanta, srq->max_sge);
	if (IS_ERR(ksrq))
		return PTR_ERR(ksrq);
	srq->ksrq = ksrq;
	params->pa = ksrq->mem.pa;
	params->shadow_pa = ksrq->mem.pa + ((void *)ksrq->queue.shadow - ksrq->mem.va);
	return 0;
}

static void sirdma_srq_drop_memory(struct sirdma_dev *dev, struct sirdma_srq *srq)
{
	if (srq->ksrq)
		sirdma_ksrq_destroy(dev, srq->ksrq);
	else
		sirdma_ring_put(srq->ring);
}

static int sirdma_srq_start(struct sirdma_dev *dev, struct sirdma_srq *srq,
			    struct sirdma_cqp_srq_params *params)
{
	int err;

	err = sirdma_idpool_get(&dev->hw.srq_ids, &srq->id);
	if (err)
		return err;
	err = sirdma_obj_publish(&dev->srqs, &dev->hw.srq_ids, srq->id, &srq->obj);
	if (err)
		goto err_id;
	params->srq_id = srq->id;
	params->cookie = srq->obj.cookie;
	err = sirdma_cqp_create_srq(&dev->hw, params);
	if (err)
		goto err_unpublish;
	return 0;

err_unpublish:
	sirdma_obj_unpublish(&dev->srqs, &srq->obj);
err_id:
	sirdma_idpool_put(&dev->hw.srq_ids, srq->id);
	return err;
}

static void sirdma_srq_stop(struct sirdma_dev *dev, struct sirdma_srq *srq)
{
	int err;

	/*
	 * The core refuses to destroy a queue that queue pairs use; XRC targets find it for each
	 * request.
	 */
	err = sirdma_cqp_destroy_srq(&dev->hw, srq->id);
	if (err)
		sirdma_dev_fail(dev, err);
	sirdma_obj_unpublish(&dev->srqs, &srq->obj);
	sirdma_idpool_put(&dev->hw.srq_ids, srq->id);
}

static int sirdma_srq_respond(const struct sirdma_srq *srq, u32 wqes, struct ib_udata *udata)
{
	struct sirdma_create_srq_resp resp = {
		.srq_id = srq->id,
		.srq_size = wqes,
	};

	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

int sirdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibsrq->device);
	u32 shift = sirdma_rq_shift(init->attr.max_sge), quanta;
	struct sirdma_srq *srq = to_ssrq(ibsrq);
	struct sirdma_cqp_srq_params params = {
		.stride_shift = shift,
		.pd = to_spd(ibsrq->pd)->id,
	};
	int err;

	err = sirdma_srq_check(dev, init, udata);
	if (err)
		return err;
	if (init->srq_type == IB_SRQT_XRC) {
		params.xrc = true;
		params.xrcd = to_sxrcd(init->ext.xrc.xrcd)->id;
		params.cq_id = to_scq(init->ext.cq)->id;
	}
	quanta = sirdma_srq_ring_quanta(init->attr.max_wr, init->attr.max_sge);
	params.wqes = quanta >> shift;
	srq->max_wr = sirdma_srq_wrs(quanta, shift);
	srq->max_sge = init->attr.max_sge;
	err = sirdma_srq_take_memory(dev, srq, quanta, udata, &params);
	if (err)
		return err;
	err = sirdma_srq_start(dev, srq, &params);
	if (err)
		goto err_memory;
	err = udata ? sirdma_srq_respond(srq, params.wqes, udata) : 0;
	if (err)
		goto err_stop;
	init->attr.max_wr = srq->max_wr;
	if (params.xrc)
		ibsrq->ext.xrc.srq_num = srq->id;
	return 0;

err_stop:
	sirdma_srq_stop(dev, srq);
err_memory:
	sirdma_srq_drop_memory(dev, srq);
	return err;
}

int sirdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		      struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibsrq->device);
	struct sirdma_srq *srq = to_ssrq(ibsrq);
	const char *why;
	int err;

	err = sirdma_srq_modify_check(mask, attr->srq_limit, srq->max_wr, &why);
	if (err) {
		sirdma_refused(dev, "modify_srq %u: limit %u of %u WQEs: %s", srq->id,
			       attr->srq_limit, srq->max_wr, why);
		return err;
	}
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	return sirdma_cqp_arm_srq(&dev->hw, srq->id, attr->srq_limit);
}

int sirdma_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct sirdma_srq *srq = to_ssrq(ibsrq);

	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	return sirdma_cqp_query_srq(&to_sdev(ibsrq->device)->hw, srq->id, &attr->srq_limit);
}

int sirdma_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibsrq->device);
	struct sirdma_srq *srq = to_ssrq(ibsrq);

	sirdma_srq_stop(dev, srq);
	sirdma_srq_drop_memory(dev, srq);
	return 0;
}
