// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <rdma/ib_cache.h>

#include "device.h"
#include "hw/cqp_cmd.h"
#include "hw/qp_attr.h"
#include "port.h"
#include "qp.h"
#include "qp_modify.h"
#include "qp_query.h"
#include "sirdma/abi.h"
#include "sirdma/roce.h"
#include "trace.h"

#define QP_ACCESS_SUPPORTED (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)
#define VLAN_PRIO_MAX 7

/* One modify on its way: what is held until it is committed or dropped. */
struct sirdma_modify {
	struct sirdma_dev *dev;
	struct sirdma_qp *qp;
	const struct ib_qp_attr *attr;
	u32 mask;
	enum sirdma_qp_state cur;
	enum sirdma_qp_state next;
	u32 dest_qpn; /* now */
	struct sirdma_qp_attr hw;
	struct sirdma_arp *arp;
	struct sirdma_sgid *sgid;
};

#define modify_warn(mod, fmt, ...) \
	ibdev_warn_ratelimited(&(mod)->dev->ibdev, "modify_qp %u %s -> %s: " fmt "\n", \
			       (mod)->qp->ibqp.qp_num, sirdma_qp_state_name((mod)->cur), \
			       sirdma_qp_state_name((mod)->next), ##__VA_ARGS__)

static int sirdma_modify_reject(struct sirdma_modify *mod, u32 bit, int err)
{
	sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_REJECTED);
	modify_warn(mod, "%s is not acceptable: %d", sirdma_qp_attr_name(bit), err);
	return err;
}

/* The state the device is in: it may have gone to SQE or ERR by itself. */
static int sirdma_modify_read_state(struct sirdma_modify *mod)
{
	struct sirdma_qpctx ctx;
	int err;

	sirdma_qpctx_get(mod->dev, &ctx);
	err = sirdma_cqp_upload_ctx(&mod->dev->hw, mod->qp->ibqp.qp_num, ctx.pa);
	mod->cur = ctx.va->state;
	mod->dest_qpn = le32_to_cpu(ctx.va->dest_qpn);
	sirdma_qpctx_put(mod->dev, &ctx);
	return err;
}

static int sirdma_modify_check_access(struct sirdma_modify *mod)
{
	u32 excess = mod->attr->qp_access_flags & ~QP_ACCESS_SUPPORTED;

	if (!(mod->mask & IB_QP_ACCESS_FLAGS) || !excess)
		return 0;
	return sirdma_modify_reject(mod, IB_QP_ACCESS_FLAGS,
				    excess & ~IB_ACCESS_SUPPORTED ? -EINVAL : -EOPNOTSUPP);
}

static int sirdma_modify_check_mtu(struct sirdma_modify *mod)
{
	int mtu = ib_mtu_enum_to_int(mod->attr->path_mtu);

	if (!(mod->mask & IB_QP_PATH_MTU))
		return 0;
	if (mtu < 0)
		return sirdma_modify_reject(mod, IB_QP_PATH_MTU, -EINVAL);
	if (mod->attr->path_mtu <= sirdma_port_mtu(mod->dev))
		return 0;
	sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_REJECTED);
	modify_warn(mod, "path MTU %d does not fit the MTU %u of %s", mtu, mod->dev->ndev->mtu,
		    netdev_name(mod->dev->ndev));
	return -EINVAL;
}

/* What no transition of this device takes, whatever the tables say. */
static int sirdma_modify_check_device(struct sirdma_modify *mod)
{
	const struct ib_qp_attr *attr = mod->attr;
	u32 mask = mod->mask;
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return sirdma_modify_reject(mod, mask & ~IB_QP_ATTR_STANDARD_BITS, -EOPNOTSUPP);
	if (mask & IB_QP_ALT_PATH)
		return sirdma_modify_reject(mod, IB_QP_ALT_PATH, -EOPNOTSUPP);
	if (mask & IB_QP_CAP)
		return sirdma_modify_reject(mod, IB_QP_CAP, -EOPNOTSUPP);
	if (mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state != IB_MIG_MIGRATED)
		return sirdma_modify_reject(mod, IB_QP_PATH_MIG_STATE, -EOPNOTSUPP);
	if (mask & IB_QP_PORT && attr->port_num != 1)
		return sirdma_modify_reject(mod, IB_QP_PORT, -EINVAL);
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return sirdma_modify_reject(mod, IB_QP_PKEY_INDEX, -EINVAL);
	err = sirdma_modify_check_access(mod);
	return err ? err : sirdma_modify_check_mtu(mod);
}

static int sirdma_modify_check_transition(struct sirdma_modify *mod)
{
	u32 bad = 0;
	int err;

	if (mod->mask & IB_QP_CUR_STATE && (u32)mod->attr->cur_qp_state != mod->cur)
		return sirdma_modify_reject(mod, IB_QP_CUR_STATE, -EINVAL);
	err = sirdma_qp_check_transition(SIRDMA_QPT_RC, mod->cur, mod->next, mod->mask, &bad);
	if (!err)
		return 0;
	sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_REJECTED);
	if (!bad)
		modify_warn(mod, "no such transition");
	else
		modify_warn(mod, "%s is %s", sirdma_qp_attr_name(bad & -bad),
			    bad & mod->mask ? "not allowed here" : "missing");
	return err;
}

static void sirdma_modify_convert(struct sirdma_modify *mod)
{
	const struct ib_qp_attr *attr = mod->attr;
	struct sirdma_qp_attr *hw = &mod->hw;

	SIRDMA_QP_ATTR_FROM_VERBS(hw, attr);
	hw->next = mod->next;
	hw->pkey = SIRDMA_DEFAULT_PKEY;
	hw->path_mtu = sirdma_path_mtu_bytes(attr->path_mtu);
}

static int sirdma_modify_check_values(struct sirdma_modify *mod, u32 mask)
{
	const struct sirdma_hw_caps *caps = &mod->dev->hw.caps;
	u32 bad = 0;
	int err;

	err = sirdma_qp_check_attr(&mod->hw, mask, caps->max_ord, caps->max_ird, &bad);
	return err ? sirdma_modify_reject(mod, bad, err) : 0;
}

static int sirdma_modify_check_av(struct sirdma_modify *mod)
{
	const struct rdma_ah_attr *ah = &mod->attr->ah_attr;
	const struct ib_gid_attr *sgid_attr;

	if (!(mod->mask & IB_QP_AV))
		return 0;
	if (rdma_ah_get_port_num(ah) != 1 || !(rdma_ah_get_ah_flags(ah) & IB_AH_GRH) ||
	    rdma_ah_get_sl(ah) > VLAN_PRIO_MAX)
		return sirdma_modify_reject(mod, IB_QP_AV, -EINVAL);
	sgid_attr = rdma_ah_read_grh(ah)->sgid_attr;
	if (!sgid_attr || sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return sirdma_modify_reject(mod, IB_QP_AV, -EINVAL);
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
	else
		key->ifindex = ndev->ifindex;
	rcu_read_unlock();
	trace_sirdma_modify_path(mod->dev, mod->qp->ibqp.qp_num, key, grh->sgid_index, err);
	return err;
}

/*
 * GIDs to addresses, addresses to entries of the device's tables. Waits for the
 * neighbour, for seconds at worst, so qp->lock must not be held.
 */
static int sirdma_modify_resolve(struct sirdma_modify *mod)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(&mod->attr->ah_attr);
	struct sirdma_route_key key;
	int err;

	err = sirdma_modify_route_key(mod, &key);
	if (err)
		return sirdma_modify_reject(mod, IB_QP_AV, err);
	mod->sgid = sirdma_sgid_get(mod->dev, grh->sgid_attr);
	if (IS_ERR(mod->sgid)) {
		err = PTR_ERR(mod->sgid);
		mod->sgid = NULL;
		return sirdma_modify_reject(mod, IB_QP_AV, err);
	}
	mod->arp = sirdma_arp_get(mod->dev, &key);
	if (IS_ERR(mod->arp)) {
		err = PTR_ERR(mod->arp);
		mod->arp = NULL;
		modify_warn(mod, "destination %pI6c cannot be reached from %pI6c: %d", &key.dst,
			    &key.src, err);
		return err;
	}
	return 0;
}

static int sirdma_modify_set_path(struct sirdma_modify *mod)
{
	const struct rdma_ah_attr *ah = &mod->attr->ah_attr;
	const struct ib_global_route *grh = rdma_ah_read_grh(ah);
	struct sirdma_qp_attr *hw = &mod->hw;
	u32 dest_qpn;

	dest_qpn = mod->mask & IB_QP_DEST_QPN ? mod->attr->dest_qp_num : mod->dest_qpn;
	memcpy(&hw->dst_ip, &grh->dgid, sizeof(hw->dst_ip));
	hw->flow_label = grh->flow_label;
	hw->sgid_idx = sirdma_sgid_index(mod->dev, mod->sgid);
	hw->arp_idx = mod->arp->idx;
	hw->udp_sport = sirdma_udp_sport(grh->flow_label, mod->qp->ibqp.qp_num, dest_qpn);
	hw->hop_limit = grh->hop_limit;
	hw->traffic_class = grh->traffic_class;
	hw->vlan_prio = rdma_ah_get_sl(ah);
	return sirdma_modify_check_values(mod, IB_QP_AV);
}

static void sirdma_modify_drop(struct sirdma_modify *mod)
{
	if (mod->arp)
		sirdma_arp_put(mod->dev, mod->arp);
	if (mod->sgid)
		sirdma_sgid_put(mod->dev, mod->sgid);
}

/* The device accepted: what the QP held before is no longer used. */
static void sirdma_modify_commit(struct sirdma_modify *mod)
{
	struct sirdma_qp *qp = mod->qp;

	if (mod->next == SIRDMA_QPS_INIT)
		sirdma_neigh_expect(mod->dev);
	if (mod->mask & IB_QP_PATH_MTU)
		qp->path_mtu = mod->attr->path_mtu;
	if (mod->mask & IB_QP_AV) {
		qp->sl = rdma_ah_get_sl(&mod->attr->ah_attr);
		qp->sgid_index = rdma_ah_read_grh(&mod->attr->ah_attr)->sgid_index;
	}
	if (mod->mask & IB_QP_AV || mod->next == SIRDMA_QPS_RESET) {
		swap(qp->arp, mod->arp);
		swap(qp->sgid, mod->sgid);
	}
	sirdma_modify_drop(mod);
}

static int sirdma_modify_execute(struct sirdma_modify *mod)
{
	struct sirdma_cqp_modify_qp_params params = {
		.qpn = mod->qp->ibqp.qp_num,
		.cur = mod->cur,
		.next = mod->next,
		.check_cur = true,
	};
	struct sirdma_qpctx ctx;
	int err;

	sirdma_qpctx_get(mod->dev, &ctx);
	sirdma_qp_attr_to_ctx(&mod->hw, mod->mask, ctx.va);
	params.ctx_pa = ctx.pa;
	err = sirdma_cqp_modify_qp(&mod->dev->hw, &params);
	sirdma_qpctx_put(mod->dev, &ctx);
	if (err) {
		sirdma_count(&mod->dev->counters, SIRDMA_COUNTER_QP_MODIFY_FAILURES);
		modify_warn(mod, "the device refused: %d", err);
	}
	return err;
}

/* qp->lock held: everything that can be said without the path. */
static int sirdma_modify_check(struct sirdma_modify *mod)
{
	int err;

	err = sirdma_modify_read_state(mod);
	if (err)
		return err;
	mod->next = mod->mask & IB_QP_STATE ? (u32)mod->attr->qp_state : mod->cur;

	err = sirdma_modify_check_transition(mod);
	if (!err)
		err = sirdma_modify_check_device(mod);
	if (err)
		return err;
	sirdma_modify_convert(mod);
	err = sirdma_modify_check_values(mod, mod->mask & ~IB_QP_AV);
	return err ? err : sirdma_modify_check_av(mod);
}

/* qp->lock held on entry and on return, but not in between, so the QP's state is checked again. */
static int sirdma_modify_find_path(struct sirdma_modify *mod)
{
	int err;

	mutex_unlock(&mod->qp->lock);
	err = sirdma_modify_resolve(mod);
	mutex_lock(&mod->qp->lock);
	if (!err)
		err = sirdma_modify_check(mod);
	return err ? err : sirdma_modify_set_path(mod);
}

/* qp->lock held. Nothing has changed when this fails. */
static int sirdma_modify_locked(struct sirdma_modify *mod)
{
	int err;

	err = sirdma_modify_check(mod);
	if (!err && mod->mask & IB_QP_AV)
		err = sirdma_modify_find_path(mod);
	if (!err)
		err = sirdma_modify_execute(mod);
	if (err)
		sirdma_modify_drop(mod);
	else
		sirdma_modify_commit(mod);
	return err;
}

/* A library of the irdma interface asks for a flush after posting in the error state. */
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
		.mask = mask,
	};
	int err;

	mutex_lock(&mod.qp->lock);
	err = sirdma_modify_locked(&mod);
	trace_sirdma_modify_qp(mod.dev, ibqp->qp_num, mod.cur, mod.next, mask, err);
	mutex_unlock(&mod.qp->lock);
	if (!err && mod.next == SIRDMA_QPS_ERR)
		err = sirdma_modify_flush(mod.dev, ibqp, udata);
	return err;
}
