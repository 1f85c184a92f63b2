// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <rdma/ib_umem.h>
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
#include "sirdma/shadow.h"
#include "ucontext.h"

static int sirdma_cq_check_entries(struct sirdma_dev *dev, u64 entries)
{
	if (entries < SIRDMA_MIN_CQ_ELEMENTS || entries > sirdma_max_cq_elements(&dev->hw)) {
		sirdma_refused(dev, "CQ of %llu elements, allowed are %u to %u", entries,
			       SIRDMA_MIN_CQ_ELEMENTS, sirdma_max_cq_elements(&dev->hw));
		return -EINVAL;
	}
	return 0;
}

/* The user's registered memory at @addr as the place of a ring. The caller drops the reference. */
static struct sirdma_ring *sirdma_cq_get_ring(struct sirdma_ucontext *uctx, u64 addr, u32 entries,
					      struct sirdma_cqp_cq_params *params)
{
	u32 pages = DIV_ROUND_UP(entries * sizeof(struct sirdma_cqe), SZ_4K);
	struct sirdma_ring *ring = sirdma_ring_get(uctx, SIRDMA_MEMREG_CQ, addr);
	struct sirdma_ring_addr place;

	if (IS_ERR(ring))
		return ring;
	if (ring->sq_pages < pages || ring->length < entries * sizeof(struct sirdma_cqe)) {
		sirdma_ring_put(ring);
		return ERR_PTR(-EINVAL);
	}
	sirdma_ring_locate(ring, 0, pages, &place);
	params->vmap = place.vmap;
	params->pa = place.pa;
	params->first_pble = place.first_pble;
	return ring;
}

/* Find a user's memory of ring and shadow area; both stay in use until the CQ is destroyed. */
static int sirdma_cq_take_ring(struct sirdma_cq *cq, u32 entries, struct ib_udata *udata,
			       struct sirdma_cqp_cq_params *params)
{
	struct sirdma_ucontext *uctx = sirdma_udata_to_uctx(udata);
	struct sirdma_create_cq_req req = {};
	int err;

	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (err)
		return err;
	if (req.flags & ~SIRDMA_CQ_TIMESTAMPS)
		return -EINVAL;
	params->timestamps = req.flags & SIRDMA_CQ_TIMESTAMPS;
	cq->ring = sirdma_cq_get_ring(uctx, req.user_cq_buf, entries, params);
	if (IS_ERR(cq->ring))
		return PTR_ERR(cq->ring);
	cq->shadow = sirdma_ring_get(uctx, SIRDMA_MEMREG_CQ, req.user_shadow_area);
	if (IS_ERR(cq->shadow)) {
		err = PTR_ERR(cq->shadow);
		goto err_put;
	}

	params->shadow_pa = sirdma_ring_shadow(cq->shadow, 0);
	if (params->shadow_pa)
		return 0;
	err = -EINVAL;
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
	params->cookie = cq->obj.cookie;
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
	if (attr->flags)
		return -EOPNOTSUPP;
	err = sirdma_cq_check_entries(dev, entries);
	if (err)
		return err;
	mutex_init(&cq->resize);
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
	cq->entries = entries;
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

int sirdma_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_cq *cq = to_scq(ibcq);
	int err = sirdma_cqp_moderate_cq(&dev->hw, cq->id, count, period);

	if (!err) {
		WRITE_ONCE(cq->count, count);
		WRITE_ONCE(cq->period, period);
	}
	if (err == -EINVAL) {
		sirdma_refused(dev, "modify_cq: %u completions, %u us: at most %u and %u", count,
			       period, SIRDMA_MAX_CQ_COUNT, SIRDMA_MAX_CQ_PERIOD);
	}
	return err;
}

/* The caller holds the mutex. */
static int sirdma_cq_swap_ring(struct sirdma_cq *cq, struct sirdma_ring *ring,
			       const struct sirdma_cqp_cq_params *params)
{
	struct sirdma_dev *dev = to_sdev(cq->ibcq.device);
	int err = sirdma_cqp_resize_cq(&dev->hw, params);

	if (err) {
		sirdma_ring_put(ring);
		return err;
	}
	sirdma_ring_put(cq->ring);
	cq->ring = ring;
	cq->ibcq.cqe = params->entries;
	WRITE_ONCE(cq->entries, params->entries);
	return 0;
}

int sirdma_resize_cq(struct ib_cq *ibcq, u32 entries, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_cq *cq = to_scq(ibcq);
	struct sirdma_cqp_cq_params params = {.cq_id = cq->id, .entries = entries};
	struct sirdma_resize_cq_req req;
	struct sirdma_ring *ring;
	int err;

	if (!udata || cq->kcq)
		return -EOPNOTSUPP;
	if (udata->inlen < sizeof(req))
		return -EINVAL;
	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (!err)
		err = sirdma_cq_check_entries(dev, entries);
	if (err)
		return err;
	ring = sirdma_cq_get_ring(sirdma_udata_to_uctx(udata), req.user_cq_buffer, entries,
				  &params);
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	mutex_lock(&cq->resize);
	err = sirdma_cq_swap_ring(cq, ring, &params);
	mutex_unlock(&cq->resize);
	return err;
}

int sirdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibcq->device);
	struct sirdma_cq *cq = to_scq(ibcq);

	sirdma_cq_stop(dev, cq);
	/* "rdma resource show" may still look at the CQ: the core untracks it after this call. */
	mutex_lock(&cq->resize);
	sirdma_cq_drop_memory(dev, cq);
	cq->kcq = NULL;
	cq->shadow = NULL;
	mutex_unlock(&cq->resize);
	return 0;
}

/* The arm word, in which the device clears the bits of an arming when it raises the event. */
static u64 sirdma_cq_arm_word(struct sirdma_cq *cq)
{
	__le64 arm = 0;

	lockdep_assert_held(&cq->resize);
	if (cq->kcq)
		return sirdma_get64(&cq->kcq->ring.shadow->arm);
	if (cq->shadow)
		ib_umem_copy_from(&arm, cq->shadow->mr.umem, offsetof(struct sirdma_cq_shadow, arm),
				  sizeof(arm));
	return le64_to_cpu(arm);
}

const char *sirdma_cq_armed(struct sirdma_cq *cq)
{
	u64 arm;

	mutex_lock(&cq->resize);
	arm = sirdma_cq_arm_word(cq);
	mutex_unlock(&cq->resize);
	if (arm & SIRDMA_CQ_SHADOW_ARM_NEXT)
		return "next";
	return arm & SIRDMA_CQ_SHADOW_ARM_NEXT_SE ? "solicited" : "no";
}
