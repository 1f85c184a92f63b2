// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.h"
#include "hw/cqp_cmd.h"
#include "hw/qp_attr.h"
#include "qp.h"
#include "qp_query.h"
#include "sirdma/wqe.h"

static void sirdma_query_path(struct sirdma_dev *dev, struct sirdma_qp *qp,
			      const struct sirdma_qp_ctx *ctx, struct rdma_ah_attr *ah)
{
	union ib_gid dgid;

	if (!qp->arp)
		return;
	memcpy(&dgid, &ctx->dst_ip, sizeof(dgid));
	ah->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_grh(ah, &dgid, le32_to_cpu(ctx->flow_label), qp->sgid_index, ctx->hop_limit,
			ctx->traffic_class);
	rdma_ah_set_port_num(ah, 1);
	rdma_ah_set_sl(ah, qp->sl);
	sirdma_arp_copy_mac(dev, qp->arp, ah->roce.dmac);
}

static void sirdma_query_fill(struct sirdma_dev *dev, struct sirdma_qp *qp,
			      const struct sirdma_qp_ctx *ctx, struct ib_qp_attr *attr)
{
	attr->qp_state = ctx->state;
	attr->cur_qp_state = ctx->state;
	attr->path_mtu = qp->path_mtu;
	attr->path_mig_state = IB_MIG_MIGRATED;
	attr->cap = qp->cap;
	attr->port_num = qp->ibqp.port ? qp->ibqp.port : 1;
	SIRDMA_QP_CTX_TO_VERBS(attr, ctx);
	sirdma_query_path(dev, qp, ctx, &attr->ah_attr);
}

static int sirdma_query_locked(struct sirdma_dev *dev, struct sirdma_qp *qp,
			       struct ib_qp_attr *attr)
{
	struct sirdma_qpctx_buf ctx;
	int err;

	/*
	 * "rdma resource" queries a QP until the core takes it off its list, which is after
	 * its destruction. Its number may be another QP's by now, so report it in RESET.
	 */
	if (qp->gone)
		return 0;
	sirdma_qpctx_buf_get(dev, &ctx);
	err = sirdma_cqp_upload_ctx(&dev->hw, qp->ibqp.qp_num, ctx.pa);
	if (!err)
		sirdma_query_fill(dev, qp, ctx.va, attr);
	sirdma_qpctx_buf_put(dev, &ctx);
	return err;
}

int sirdma_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init)
{
	struct sirdma_dev *dev = to_sdev(ibqp->device);
	struct sirdma_qp *qp = to_sqp(ibqp);
	int err;

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));

	mutex_lock(&qp->lock);
	err = sirdma_query_locked(dev, qp, attr);
	mutex_unlock(&qp->lock);
	if (err)
		return err;

	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->event_handler = ibqp->event_handler;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	init->port_num = attr->port_num;
	return 0;
}
