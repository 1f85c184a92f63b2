// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The queues of a queue pair, as the device takes them at its creation. */
#include "qp_create.h"

static u8 queue_flags(const struct sirdma_qp_create *qp)
{
	u8 flags = 0;

	if (!qp->no_kick)
		flags |= SIRDMA_QPC_KICK;
	if (qp->sig_all)
		flags |= SIRDMA_QPC_SIG_ALL;
	if (qp->sq.vmap)
		flags |= SIRDMA_QPC_SQ_VMAP;
	if (qp->rq.vmap)
		flags |= SIRDMA_QPC_RQ_VMAP;
	if (!qp->kernel)
		return flags;
	/* A user who registers memory by addresses of his own choice would reach all memory. */
	flags |= SIRDMA_QPC_FAST_REG;
	/* The kernel finds the local address of a datagram by the VLAN of the datagram. */
	if (qp->type == SIRDMA_QPT_UD)
		flags |= SIRDMA_QPC_RECV_MAC;
	return flags;
}

void sirdma_qp_create_to_ctx(const struct sirdma_qp_create *qp, struct sirdma_qp_ctx *ctx)
{
	ctx->compl_ctx = cpu_to_le64(qp->compl_ctx);
	ctx->event_ctx = cpu_to_le64(qp->cookie);
	ctx->sq_addr = cpu_to_le64(qp->sq.addr);
	ctx->rq_addr = cpu_to_le64(qp->rq.addr);
	ctx->shadow_addr = cpu_to_le64(qp->shadow);
	ctx->sq_quanta = cpu_to_le32(qp->sq.quanta);
	ctx->rq_wqes = cpu_to_le32(qp->rq.quanta >> qp->rq_shift);
	ctx->send_cq = cpu_to_le32(qp->send_cq);
	ctx->recv_cq = cpu_to_le32(qp->recv_cq);
	ctx->srq = cpu_to_le32(qp->srq);
	ctx->pd = cpu_to_le32(qp->pd);
	ctx->xrcd = cpu_to_le32(qp->xrcd);
	ctx->kicker = cpu_to_le32(qp->kicker);
	ctx->qp_type = qp->type;
	ctx->rq_stride_shift = qp->rq_shift;
	ctx->queue_flags = queue_flags(qp);
}
