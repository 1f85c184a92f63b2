// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cq.h"
#include "device.h"
#include "doorbell.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "hw/limits.h"
#include "hw/qp_attr.h"
#include "hw/qp_create.h"
#include "kverbs.h"
#include "pd.h"
#include "qp.h"
#include "qp_size.h"
#include "ring.h"
#include "sirdma/abi.h"
#include "sirdma/geometry.h"
#include "srq.h"
#include "trace.h"
#include "ucontext.h"
#include "user.h"
#include "xrcd.h"

/* Is the CQ a user's, and not a kernel consumer's? */
static bool sirdma_cq_is_users(struct ib_cq *ibcq)
{
	return !to_scq(ibcq)->kcq;
}

static int sirdma_qp_check_cqs(const struct ib_qp_init_attr *init, bool user)
{
	const bool receives = init->qp_type != IB_QPT_XRC_INI;

	if (!init->send_cq || (receives && !init->recv_cq))
		return -EINVAL;
	/* A user can poll only a user's CQ, a kernel consumer only a kernel consumer's. */
	if (sirdma_cq_is_users(init->send_cq) != user)
		return -EINVAL;
	return !receives || sirdma_cq_is_users(init->recv_cq) == user ? 0 : -EINVAL;
}

/* The device's type, or -1. The GSI QP sends and receives datagrams. */
static int sirdma_qp_type(const struct ib_qp_init_attr *init)
{
	static_assert((int)IB_QPT_RC == SIRDMA_VERBS_QPT_RC &&
		      (int)IB_QPT_UC == SIRDMA_VERBS_QPT_UC &&
		      (int)IB_QPT_UD == SIRDMA_VERBS_QPT_UD &&
		      (int)IB_QPT_XRC_INI == SIRDMA_VERBS_QPT_XRC_INI &&
		      (int)IB_QPT_XRC_TGT == SIRDMA_VERBS_QPT_XRC_TGT);

	return init->qp_type == IB_QPT_GSI ? SIRDMA_QPT_UD :
					     sirdma_qp_type_from_verbs(init->qp_type);
}

static int sirdma_qp_check_init(struct sirdma_dev *dev, const struct ib_qp_init_attr *init,
				struct ib_udata *udata)
{
	if (init->create_flags || init->rwq_ind_tbl)
		return -EOPNOTSUPP;
	if (sirdma_qp_type(init) < 0) {
		sirdma_refused(dev,
			       "create_qp: types RC, UC, UD, XRC and GSI are supported, not %u",
			       init->qp_type);
		return -EOPNOTSUPP;
	}
	/* A target has no queues, CQs and PD, and the core creates it without the user's data. */
	if (init->qp_type == IB_QPT_XRC_TGT)
		return init->xrcd ? 0 : -EINVAL;
	if (init->qp_type == IB_QPT_XRC_INI && !udata)
		return -EOPNOTSUPP;
	if (udata && (udata->inlen < sizeof(struct sirdma_create_qp_req) ||
		      udata->outlen < sizeof(struct sirdma_create_qp_resp)))
		return -EINVAL;
	if (sirdma_qp_check_cqs(init, !!udata))
		return -EINVAL;
	if (init->qp_type == IB_QPT_GSI && udata)
		return -EPERM;
	if (!init->srq)
		return 0;
	if (!sirdma_qp_may_share_rq(sirdma_qp_type(init))) {
		sirdma_refused(dev, "create_qp: type %u has no shared receive queue",
			       init->qp_type);
		return -EOPNOTSUPP;
	}
	return !to_ssrq(init->srq)->ksrq == !!udata ? 0 : -EINVAL;
}

/* Find the part of a pool that has a user's rings; it stays in use until the QP is destroyed. */
static int sirdma_qp_take_part(struct sirdma_dev *dev, struct sirdma_qp *qp, u64 start,
			       const struct sirdma_qp_size *size, struct ib_udata *udata)
{
	struct sirdma_ring_part part = {
		.start = start,
		.bytes = sirdma_qp_layout(size->sq_quanta, size->rq_quanta, true).end,
	};

	qp->ring = sirdma_ring_get_part(sirdma_udata_to_uctx(udata), &part);
	if (IS_ERR(qp->ring)) {
		sirdma_refused(dev, "create_qp: %u bytes for rings at %#llx: %ld", part.bytes,
			       start, PTR_ERR(qp->ring));
		return PTR_ERR(qp->ring);
	}
	qp->part = part;
	return 0;
}

/* Find the ring memory of a user; it stays in use until the QP is destroyed. */
static int sirdma_qp_take_ring(struct sirdma_dev *dev, struct sirdma_qp *qp, u64 start,
			       const struct sirdma_qp_size *size, struct ib_udata *udata)
{
	u32 sq_pages = sirdma_wq_pages(size->sq_quanta);
	u32 rq_pages = sirdma_wq_pages(size->rq_quanta);

	qp->ring = sirdma_ring_get(sirdma_udata_to_uctx(udata), SIRDMA_MEMREG_QP, start);
	if (IS_ERR(qp->ring)) {
		sirdma_refused(dev, "create_qp: no ring memory at %#llx, or another has it", start);
		return PTR_ERR(qp->ring);
	}
	if (qp->ring->sq_pages < sq_pages || qp->ring->rq_pages < rq_pages) {
		sirdma_refused(dev, "create_qp: %u+%u pages of rings in memory for %u+%u", sq_pages,
			       rq_pages, qp->ring->sq_pages, qp->ring->rq_pages);
		sirdma_ring_put(qp->ring);
		return -EINVAL;
	}
	return 0;
}

static int sirdma_qp_take_memory(struct sirdma_dev *dev, struct sirdma_qp *qp, u64 start,
				 const struct sirdma_qp_size *size, struct ib_udata *udata)
{
	struct sirdma_kqp *kqp;

	if (size->pool)
		return sirdma_qp_take_part(dev, qp, start, size, udata);
	if (udata)
		return sirdma_qp_take_ring(dev, qp, start, size, udata);
	kqp = sirdma_kqp_create(dev, qp, size);
	if (IS_ERR(kqp))
		return PTR_ERR(kqp);
	qp->kqp = kqp;
	return 0;
}

static void sirdma_qp_drop_memory(struct sirdma_dev *dev, struct sirdma_qp *qp)
{
	if (qp->type == SIRDMA_QPT_XRC_TGT)
		return;
	if (qp->kqp)
		sirdma_kqp_destroy(dev, qp->kqp);
	else if (qp->part.bytes)
		sirdma_ring_put_part(qp->ring, &qp->part);
	else
		sirdma_ring_put(qp->ring);
}

/* Fill in the addresses of a user's rings. */
static void sirdma_qp_locate_rings(struct sirdma_qp *qp, struct sirdma_qp_create *create)
{
	struct sirdma_qp_places places;
	struct sirdma_ring_addr sq, rq;

	if (qp->part.bytes) {
		places = sirdma_qp_layout(create->sq.quanta, create->rq.quanta, true);
		create->sq.addr = qp->part.pa;
		create->rq.addr = qp->part.pa + places.rq;
		create->shadow = qp->part.pa + places.shadow;
		return;
	}
	places = sirdma_qp_layout_registered(qp->ring->sq_pages, qp->ring->rq_pages);
	sirdma_ring_locate(qp->ring, 0, sirdma_wq_pages(create->sq.quanta), &sq);
	sirdma_ring_locate(qp->ring, places.rq / SIRDMA_PAGE_SIZE,
			   sirdma_wq_pages(create->rq.quanta), &rq);
	create->sq.vmap = sq.vmap;
	create->sq.addr = sq.vmap ? sq.first_pble : sq.pa;
	create->rq.vmap = rq.vmap;
	create->rq.addr = rq.vmap ? rq.first_pble : rq.pa;
	create->shadow = sirdma_ring_shadow(qp->ring, places.shadow / SIRDMA_PAGE_SIZE);
}

static void sirdma_target_fill_ctx(struct sirdma_qp *qp, struct sirdma_qp_ctx *ctx)
{
	struct sirdma_qp_create create = {
		.type = qp->type,
		.cookie = qp->obj.cookie,
		.xrcd = qp->xrcd,
	};

	sirdma_qp_create_to_ctx(&create, ctx);
}

static void sirdma_qp_fill_ctx(struct sirdma_qp *qp, const struct sirdma_qp_size *size,
			       u64 compl_ctx, struct sirdma_qp_ctx *ctx)
{
	/* An initiator has no CQ for receives, and needs none. */
	struct ib_cq *recv_cq = qp->ibqp.recv_cq ? qp->ibqp.recv_cq : qp->ibqp.send_cq;
	struct sirdma_qp_create create = {
		.type = qp->type,
		.sig_all = qp->sig_all,
		.kernel = qp->kqp,
		.no_kick = qp->doorbell,
		.rq_shift = size->rq_shift,
		.sq.quanta = size->sq_quanta,
		.rq.quanta = size->rq_quanta,
		.compl_ctx = compl_ctx,
		.cookie = qp->obj.cookie,
		.send_cq = to_scq(qp->ibqp.send_cq)->id,
		.recv_cq = to_scq(recv_cq)->id,
		.kicker = qp->kicker,
		.srq = qp->ibqp.srq ? to_ssrq(qp->ibqp.srq)->id : 0,
		.pd = to_spd(qp->ibqp.pd)->id,
	};

	if (qp->kqp)
		sirdma_kqp_locate_rings(qp->kqp, &create);
	else
		sirdma_qp_locate_rings(qp, &create);
	sirdma_qp_create_to_ctx(&create, ctx);
}

static int sirdma_qp_make(struct sirdma_dev *dev, struct sirdma_qp *qp,
			  const struct sirdma_qp_size *size, u64 compl_ctx)
{
	struct sirdma_qpctx_buf ctx;
	int err;

	sirdma_qpctx_buf_get(dev, &ctx);
	if (qp->type == SIRDMA_QPT_XRC_TGT)
		sirdma_target_fill_ctx(qp, ctx.va);
	else
		sirdma_qp_fill_ctx(qp, size, compl_ctx, ctx.va);
	err = sirdma_cqp_create_qp(&dev->hw, qp->ibqp.qp_num, ctx.pa);
	sirdma_qpctx_buf_put(dev, &ctx);
	return err;
}

/* The GSI QP has a fixed number. A second one fails with -EBUSY when it is published. */
static int sirdma_qpn_get(struct sirdma_dev *dev, const struct sirdma_qp *qp, u32 *qpn)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		return sirdma_idpool_get(&dev->hw.qp_ids, qpn);
	*qpn = SIRDMA_GSI_QPN;
	return 0;
}

static void sirdma_qpn_put(struct sirdma_dev *dev, const struct sirdma_qp *qp, u32 qpn)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		sirdma_idpool_put(&dev->hw.qp_ids, qpn);
}

static int sirdma_qp_start(struct sirdma_dev *dev, struct sirdma_qp *qp,
			   const struct sirdma_qp_size *size, u64 compl_ctx)
{
	u32 qpn, tries = 0;
	int err;

	mutex_init(&qp->lock);
	err = sirdma_qpn_get(dev, qp, &qpn);
	if (err)
		return err;
	qp->ibqp.qp_num = qpn;
	err = sirdma_obj_publish(&dev->qps, &dev->hw.qp_ids, qpn, &qp->obj);
	if (err)
		goto err_id;

	/* Other users wait for the buffers, so none is held while memory is reclaimed. */
	do {
		err = sirdma_qp_make(dev, qp, size, compl_ctx);
	} while (sirdma_cqp_make_room(err, &tries));
	trace_sirdma_qp_create(dev, qpn, size->sq_quanta, size->rq_quanta, err);
	if (err)
		goto err_unpublish;
	return 0;

err_unpublish:
	sirdma_obj_unpublish(&dev->qps, &qp->obj);
err_id:
	sirdma_qpn_put(dev, qp, qpn);
	/* Another QP may have the number when sirdma_kqp_destroy() forgets completions by it. */
	qp->ibqp.qp_num = 0;
	return err;
}

static void sirdma_qp_stop(struct sirdma_dev *dev, struct sirdma_qp *qp)
{
	int err;

	mutex_lock(&qp->lock);
	qp->gone = true;
	mutex_unlock(&qp->lock);
	sirdma_doorbell_remove(qp);
	/* The device stops and drains the QP before it answers. */
	err = sirdma_cqp_destroy_qp(&dev->hw, qp->ibqp.qp_num);
	trace_sirdma_qp_destroy(dev, qp->ibqp.qp_num, err);
	if (err)
		sirdma_dev_fail(dev, err);
	sirdma_obj_unpublish(&dev->qps, &qp->obj);
	if (qp->arp)
		sirdma_arp_put(dev, qp->arp);
	if (qp->sgid)
		sirdma_sgid_put(dev, qp->sgid);
	/* Free the number last: completions name it, and they are forgotten with the memory. */
	sirdma_qp_drop_memory(dev, qp);
	sirdma_qpn_put(dev, qp, qp->ibqp.qp_num);
}

static int sirdma_qp_respond(const struct sirdma_qp *qp, const struct sirdma_qp_size *size,
			     struct ib_udata *udata)
{
	struct sirdma_create_qp_resp resp = {
		.qp_id = qp->ibqp.qp_num,
		.actual_sq_size = size->sq_quanta >> size->sq_shift,
		.actual_rq_size = size->rq_quanta >> size->rq_shift,
		.qp_caps = SIRDMA_QP_CAPS,
	};

	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

static enum sirdma_qp_sizing sirdma_qp_sizing(struct sirdma_ucontext *uctx, u64 start)
{
	if (!uctx->raw_attrs)
		return SIRDMA_QP_SIZING_GIVEN;
	return sirdma_ring_in_pool(uctx, start) ? SIRDMA_QP_SIZING_POOL : SIRDMA_QP_SIZING_RAW;
}

static int sirdma_create_target(struct sirdma_dev *dev, struct sirdma_qp *qp,
				struct ib_qp_init_attr *init)
{
	static const struct sirdma_qp_size none;

	memset(&init->cap, 0, sizeof(init->cap));
	/* The core passes no context. The kernel's consumers have no targets. */
	qp->uid = sirdma_user_id();
	qp->xrcd = to_sxrcd(init->xrcd)->id;
	return sirdma_qp_start(dev, qp, &none, 0);
}

int sirdma_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibqp->device);
	struct sirdma_create_qp_req req = {};
	struct sirdma_qp *qp = to_sqp(ibqp);
	enum sirdma_qp_sizing sizing = SIRDMA_QP_SIZING_RAW;
	struct sirdma_qp_size size;
	bool no_rq;
	int err;

	err = sirdma_qp_check_init(dev, init, udata);
	if (err)
		return err;
	qp->type = sirdma_qp_type(init);
	qp->uid = udata ? sirdma_udata_to_uctx(udata)->user->uid : INVALID_UID;
	if (qp->type == SIRDMA_QPT_XRC_TGT)
		return sirdma_create_target(dev, qp, init);
	if (udata) {
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
		sizing = sirdma_qp_sizing(sirdma_udata_to_uctx(udata), req.user_wqe_bufs);
	}
	/* Without a receive queue its attributes are ignored (IBTA 11.2.4.1). */
	no_rq = init->srq || init->qp_type == IB_QPT_XRC_INI;
	if (no_rq)
		init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
	err = sirdma_qp_size(&init->cap, sizing, no_rq, &size);
	if (err) {
		sirdma_refused(dev, "create_qp: wr %u/%u sge %u/%u inline %u: too much",
			       init->cap.max_send_wr, init->cap.max_recv_wr, init->cap.max_send_sge,
			       init->cap.max_recv_sge, init->cap.max_inline_data);
		return err;
	}
	init->cap.max_send_wr = size.max_send_wr;
	init->cap.max_recv_wr = size.max_recv_wr;
	qp->cap = init->cap;
	qp->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	if (udata) {
		qp->doorbell = sirdma_udata_to_uctx(udata)->doorbell;
		qp->kicker = sirdma_udata_to_uctx(udata)->kicker;
	}
	err = sirdma_qp_take_memory(dev, qp, req.user_wqe_bufs, &size, udata);
	if (err)
		return err;
	err = sirdma_qp_start(dev, qp, &size, req.user_compl_ctx);
	if (err)
		goto err_memory;
	sirdma_doorbell_add(qp);
	err = udata ? sirdma_qp_respond(qp, &size, udata) : 0;
	if (err)
		sirdma_qp_stop(dev, qp);
	return err;

err_memory:
	sirdma_qp_drop_memory(dev, qp);
	return err;
}

int sirdma_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibqp->device);
	struct sirdma_qp *qp = to_sqp(ibqp);

	sirdma_qp_stop(dev, qp);
	return 0;
}

int sirdma_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad_wr)
{
	struct sirdma_bus *bus = to_sdev(ibqp->device)->bus;
	struct sirdma_kqp *kqp = to_sqp(ibqp)->kqp;

	if (kqp)
		return sirdma_kqp_post_send(kqp, wr, bad_wr);
	if (wr) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	bus->ops->kick(bus, ibqp->qp_num, 0);
	return 0;
}

int sirdma_kick(struct ib_ucontext *ibuctx, u32 qpn)
{
	struct sirdma_bus *bus = to_sdev(ibuctx->device)->bus;
	u32 kicker = to_suctx(ibuctx)->kicker;

	/* For the bus 0 is the driver itself. */
	if (WARN_ON_ONCE(!kicker))
		return -EINVAL;
	return bus->ops->kick(bus, qpn, kicker) ? 0 : -EINVAL;
}
