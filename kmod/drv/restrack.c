// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "cq.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "srq.h"

static struct nlattr *sirdma_res_start(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

static int sirdma_res_end(struct sk_buff *msg, struct nlattr *table, int err)
{
	if (err) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

int sirdma_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct sirdma_cq *cq = to_scq(ibcq);
	struct nlattr *table = sirdma_res_start(msg);
	int err;

	if (!table)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "elements", READ_ONCE(cq->entries));
	if (!err)
		err = rdma_nl_put_driver_string(msg, "armed", sirdma_cq_armed(cq));
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "moderation_count", READ_ONCE(cq->count));
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "moderation_us", READ_ONCE(cq->period));
	return sirdma_res_end(msg, table, err);
}

int sirdma_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct sirdma_mr *mr = to_smr(ibmr);
	struct nlattr *table = sirdma_res_start(msg);
	int err;

	if (!table)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "ring", sirdma_mr_is_ring(mr));
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "block_shift", mr->pbl.block_shift);
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "blocks", mr->pbl.count);
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "pbl_level", mr->pbl.level);
	return sirdma_res_end(msg, table, err);
}

int sirdma_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	const struct sirdma_qp *qp = to_sqp(ibqp);
	struct nlattr *table = sirdma_res_start(msg);
	int err;

	if (!table)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "max_send_wr", qp->cap.max_send_wr);
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "max_recv_wr", qp->cap.max_recv_wr);
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "max_inline", qp->cap.max_inline_data);
	return sirdma_res_end(msg, table, err);
}

int sirdma_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	const struct sirdma_srq *srq = to_ssrq(ibsrq);
	struct nlattr *table = sirdma_res_start(msg);
	int err;

	if (!table)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "max_wr", srq->max_wr);
	if (!err)
		err = rdma_nl_put_driver_u32(msg, "max_sge", srq->max_sge);
	return sirdma_res_end(msg, table, err);
}
