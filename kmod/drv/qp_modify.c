// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <rdma/ib_cache.h>

#include "ah.h"
#include "device.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "hw/qp_modify.h"
#include "kflush.h"
#include "kverbs.h"
#include "port.h"
#include "qp.h"
#include "qp_modify.h"
#include "qp_query.h"
#include "sirdma/abi.h"
#include "trace.h"

/* One modify in progress. It holds arp and sgid until it is committed or dropped. */
struct sirdma_modify {
	struct sirdma_dev *dev;
	struct sirdma_qp *qp;
	const struct ib_qp_attr *attr;
	struct sirdma_qp_modify core;
	struct sirdma_arp *arp;
	struct sirdma_sgid *sgid;
};

/* This is sirdma_refused() with a counter of its own. */
static int sirdma_modify_reject(struct sirdma_modify *mod, const char *bad, const char *why,
				int err)
{
	sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_REJECTED);
	ibdev_dbg(&mod->dev->ibdev, "modify_qp %u %s -> %s: %s %s: %d\n", mod->qp->ibqp.qp_num,
		  sirdma_qp_state_name(mod->core.cur), sirdma_qp_state_name(mod->core.next), bad,
		  why, err);
	return err;
}

static int sirdma_modify_reject_av(struct sirdma_modify *mod, const char *why, int err)
{
	return sirdma_modify_reject(mod, sirdma_qp_attr_name(IB_QP_AV), why, err);
}

/* Copy the state that the driver core read from the device. */
static void sirdma_modify_copy_state(struct sirdma_modify *mod)
{
	mod->qp->state = mod->core.cur;
	mod->qp->dest_qpn = mod->core.cur_dest_qpn;
}

static int sirdma_modify_read_state(struct sirdma_modify *mod)
{
	struct sirdma_qpctx_buf ctx;
	int err;

	sirdma_qpctx_buf_get(mod->dev, &ctx);
	err = sirdma_qp_modify_read(&mod->dev->hw, &mod->core, ctx.va, ctx.pa);
	sirdma_qpctx_buf_put(mod->dev, &ctx);
	if (!err)
		sirdma_modify_copy_state(mod);
	return err;
}

static void sirdma_modify_translate(struct sirdma_modify *mod)
{
	SIRDMA_QP_MODIFY_FROM_VERBS(&mod->core, mod->attr);
	/* The port of the GSI QP was set at its creation. */
	if (mod->qp->ibqp.qp_type == IB_QPT_GSI && (mod->core.mask & IB_QP_STATE) &&
	    mod->core.qp_state == IB_QPS_INIT) {
		mod->core.mask |= IB_QP_PORT;
		mod->core.port_num = mod->qp->ibqp.port;
	}
	mod->core.port_mtu = sirdma_port_mtu(mod->dev);
	if (mod->core.mask & IB_QP_AV)
		sirdma_path_from_verbs(&mod->attr->ah_attr, &mod->core.path);
}

/* Check the part of the path that only the kernel knows. */
static int sirdma_modify_check_gid(struct sirdma_modify *mod)
{
	const struct ib_gid_attr *sgid_attr = rdma_ah_read_grh(&mod->attr->ah_attr)->sgid_attr;

	if (!sgid_attr || sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return sirdma_modify_reject_av(mod, "has a GID that is not of RoCEv2", -EINVAL);
	return 0;
}

static int sirdma_modify_route_key(struct sirdma_modify *mod, struct sirdma_route_key *key)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(&mod->attr->ah_attr);
	struct net_device *ndev;
	int err = 0;

	memcpy(&key->src, &grh->sgid_attr->gid, sizeof(key->src));
	memcpy(&key->dst, &grh->dgid, sizeof(key->dst));
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(grh->sgid_attr);
	if (IS_ERR(ndev))
		err = PTR_ERR(ndev);
	else if (!net_eq(dev_net(ndev), dev_net(mod->dev->ndev)))
		err = -ENETUNREACH;
	else
		key->ifindex = ndev->ifindex;
	rcu_read_unlock();
	trace_sirdma_modify_path(mod->dev, mod->qp->ibqp.qp_num, key, grh->sgid_index, err);
	return err;
}

/*
 * Find the entries of the device's tables for the path's GIDs. The function waits for the
 * neighbour, for seconds at worst, so the caller must not hold qp->lock.
 */
static int sirdma_modify_resolve(struct sirdma_modify *mod)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(&mod->attr->ah_attr);
	struct sirdma_route_key key;
	int err;

	err = sirdma_modify_route_key(mod, &key);
	if (err == -ENETUNREACH)
		return sirdma_modify_reject_av(mod, "has a GID of another namespace", err);
	if (err)
		return sirdma_modify_reject_av(mod, "has a GID without a netdev", err);
	mod->sgid = sirdma_sgid_get(mod->dev, grh->sgid_attr);
	if (IS_ERR(mod->sgid)) {
		err = PTR_ERR(mod->sgid);
		mod->sgid = NULL;
		return sirdma_modify_reject_av(mod, "has a source address that is gone", err);
	}
	mod->arp = sirdma_arp_get(mod->dev, &key, mod->qp->uid);
	if (IS_ERR(mod->arp)) {
		err = PTR_ERR(mod->arp);
		mod->arp = NULL;
		return sirdma_modify_reject_av(mod, "has a destination that cannot be reached",
					       err);
	}
	return 0;
}

static void sirdma_modify_drop(struct sirdma_modify *mod)
{
	if (mod->arp)
		sirdma_arp_put(mod->dev, mod->arp);
	if (mod->sgid)
		sirdma_sgid_put(mod->dev, mod->sgid);
}

/* The device accepted the new context, so the QP's old arp and sgid can go. */
static void sirdma_modify_commit(struct sirdma_modify *mod)
{
	struct sirdma_qp *qp = mod->qp;

	qp->state = mod->core.next;
	if (mod->core.mask & IB_QP_DEST_QPN)
		qp->dest_qpn = mod->attr->dest_qp_num;
	if (mod->core.next == SIRDMA_QPS_INIT)
		sirdma_neigh_expect(mod->dev);
	if (qp->kqp)
		sirdma_kqp_modified(qp->kqp, (enum ib_qp_state)mod->core.next);
	if (mod->core.mask & IB_QP_PATH_MTU)
		qp->path_mtu = mod->attr->path_mtu;
	if (mod->core.mask & IB_QP_AV) {
		qp->sl = rdma_ah_get_sl(&mod->attr->ah_attr);
		qp->sgid_index = rdma_ah_read_grh(&mod->attr->ah_attr)->sgid_index;
	}
	if (mod->core.mask & IB_QP_AV || mod->core.next == SIRDMA_QPS_RESET) {
		swap(qp->arp, mod->arp);
		swap(qp->sgid, mod->sgid);
	}
	sirdma_modify_drop(mod);
}

/* The caller holds qp->lock. Check the request against the state that the driver knows. */
static int sirdma_modify_check_known(struct sirdma_modify *mod)
{
	mod->core.cur = mod->qp->state;
	mod->core.cur_dest_qpn = mod->qp->dest_qpn;
	return sirdma_qp_modify_check(&mod->dev->hw.caps, &mod->core);
}

/*
 * The caller holds qp->lock. Check everything that does not need the neighbour. Most requests suit
 * the state that the driver knows, so the device is asked for its own only before a refusal.
 */
static int sirdma_modify_check(struct sirdma_modify *mod)
{
	int err = sirdma_modify_check_known(mod);

	if (err) {
		err = sirdma_modify_read_state(mod);
		if (err)
			return err;
		err = sirdma_modify_check_known(mod);
	}
	if (err)
		return sirdma_modify_reject(mod, mod->core.bad, mod->core.why, err);
	return mod->core.mask & IB_QP_AV ? sirdma_modify_check_gid(mod) : 0;
}

/* The caller holds qp->lock and has checked the request. */
static int sirdma_modify_execute(struct sirdma_modify *mod)
{
	struct sirdma_qpctx_buf ctx;
	int err;

	sirdma_qpctx_buf_get(mod->dev, &ctx);
	err = sirdma_qp_modify_execute(&mod->dev->hw, &mod->core, ctx.va, ctx.pa);
	sirdma_qpctx_buf_put(mod->dev, &ctx);
	sirdma_modify_copy_state(mod);
	if (err && mod->core.bad)
		return sirdma_modify_reject(mod, mod->core.bad, mod->core.why, err);
	if (err) {
		sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_FAILURES);
		ibdev_dbg(&mod->dev->ibdev, "modify_qp %u %s -> %s: the device refused: %d\n",
			  mod->qp->ibqp.qp_num, sirdma_qp_state_name(mod->core.cur),
			  sirdma_qp_state_name(mod->core.next), err);
	}
	return err;
}

/*
 * The caller holds qp->lock. The function drops and retakes it, so it checks the QP's state again.
 */
static int sirdma_modify_find_path(struct sirdma_modify *mod)
{
	int err;

	mutex_unlock(&mod->qp->lock);
	err = sirdma_modify_resolve(mod);
	mutex_lock(&mod->qp->lock);
	if (!err)
		err = sirdma_modify_check(mod);
	if (err)
		return err;
	mod->core.attr.sgid_idx = sirdma_sgid_index(mod->dev, mod->sgid);
	mod->core.attr.arp_idx = mod->arp->idx;
	return 0;
}

/*
 * A kernel consumer that drains its queue pair moves it to ERR and waits for the requests that it
 * posts then. A device that failed is not asked: the driver flushes the requests (kflush.h).
 */
static bool sirdma_modify_drains_failed_dev(const struct sirdma_modify *mod)
{
	return mod->qp->kqp && (mod->core.mask & IB_QP_STATE) && mod->core.qp_state == IB_QPS_ERR &&
	       sirdma_dev_failed(mod->dev);
}

/* The caller holds qp->lock. Nothing has changed when this function fails. */
static int sirdma_modify_locked(struct sirdma_modify *mod)
{
	int err;

	if (sirdma_modify_drains_failed_dev(mod)) {
		sirdma_kqp_modified(mod->qp->kqp, IB_QPS_ERR);
		sirdma_kqp_drained(mod->qp->kqp);
		return 0;
	}
	err = sirdma_modify_check(mod);
	if (!err && mod->core.mask & IB_QP_AV)
		err = sirdma_modify_find_path(mod);
	if (!err)
		err = sirdma_modify_execute(mod);
	if (err)
		sirdma_modify_drop(mod);
	else
		sirdma_modify_commit(mod);
	return err;
}

/* A provider of the irdma interface asks for a flush after posting in the error state. */
static int sirdma_modify_flush(struct sirdma_dev *dev, struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct sirdma_modify_qp_req req = {};
	int err;

	if (!udata || udata->inlen < offsetofend(struct sirdma_modify_qp_req, rq_flush))
		return 0;
	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (err || !(req.sq_flush || req.rq_flush))
		return err;
	return sirdma_cqp_flush_wqes(&dev->hw, ibqp->qp_num, req.sq_flush, req.rq_flush);
}

int sirdma_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct sirdma_modify mod = {
		.dev = to_sdev(ibqp->device),
		.qp = to_sqp(ibqp),
		.attr = attr,
		.core.type = to_sqp(ibqp)->type,
		.core.qpn = ibqp->qp_num,
		.core.mask = mask,
	};
	int err;

	sirdma_modify_translate(&mod);
	mutex_lock(&mod.qp->lock);
	err = sirdma_modify_locked(&mod);
	trace_sirdma_modify_qp(mod.dev, ibqp->qp_num, mod.core.cur, mod.core.next, mask, err);
	mutex_unlock(&mod.qp->lock);
	if (!err && mod.core.next == SIRDMA_QPS_ERR)
		err = sirdma_modify_flush(mod.dev, ibqp, udata);
	return err;
}
