// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Extended reliable connected transport: the queues of a target, and the operations of both ends */
#include "xrc.h"

#include "completer.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "transport.h"

bool snic_xrc_alloc(struct snic_qp *qp, u32 domain)
{
	qp->xrc = port_alloc_charged(sizeof(*qp->xrc));
	if (!qp->xrc)
		return false;
	qp->xrc->domain = domain;
	qp->shadow = &qp->xrc->shadow;
	return true;
}

/* @srq: with a reference, which the target keeps. */
static void xrc_take(struct snic_qp *qp, struct snic_srq *srq)
{
	qp->srq = srq;
	qp->recv_cq = srq->cq;
	qp->pd = srq->pd;
	qp->recv_pd = srq->pd;
}

bool snic_xrc_bind(struct snic_qp *qp, u64 name)
{
	struct snic_srq *srq =
		snic_srq_get(qp->dev, (u32)(name & SIRDMA_MASK(SNIC_SRQ_ID_BITS - 1, 0)));

	if (!srq)
		return false;
	if (srq->name != name) {
		snic_srq_put(srq);
		return false;
	}
	xrc_take(qp, srq);
	return true;
}

void snic_xrc_unbind(struct snic_qp *qp)
{
	if (!qp->srq)
		return;
	snic_srq_put(qp->srq);
	qp->srq = NULL;
	qp->recv_cq = NULL;
}

/* May the request that is executed go to @srq? All packets of a message name the same queue. */
static bool xrc_admits(const struct snic_qp *qp, const struct snic_srq *srq)
{
	if (!srq->name || srq->domain != qp->xrc->domain)
		return false;
	return !(qp->resp.in_msg || qp->resp.rqe_valid) || srq->name == qp->xrc->queue;
}

enum snic_recv_verdict snic_xrc_execute(struct snic_qp *qp, const struct snic_pkt *pkt,
					const struct snic_rx_pkt *rx)
{
	struct snic_srq *srq = snic_srq_get(qp->dev, pkt->srqn);
	struct snic_resp *resp = &qp->resp;
	u32 reads = resp->rd_tail;
	enum snic_recv_verdict verdict;

	if (!srq)
		return SNIC_RECV_NAK_INVALID;
	if (!xrc_admits(qp, srq)) {
		snic_srq_put(srq);
		return SNIC_RECV_NAK_INVALID;
	}
	xrc_take(qp, srq);
	qp->xrc->queue = srq->name;
	verdict = snic_resp_execute(qp, pkt, rx);
	if (resp->rd_tail != reads)
		*snic_xrc_queue_of_read(qp, &resp->rd[reads % SNIC_MAX_RD_ATOMIC]) = srq->name;
	snic_xrc_unbind(qp);
	return verdict;
}

bool snic_xrc_complete(struct snic_qp *qp, struct snic_completion *c)
{
	bool done;

	if (!snic_xrc_bind(qp, qp->xrc->queue))
		return true;
	done = snic_qp_complete_recv(qp, c);
	snic_xrc_unbind(qp);
	return done;
}

/*
 * Drop a packet that this end of an XRC connection never gets: a request to an initiator, a response
 * to a target.
 */
static void xrc_drop(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RX_BAD_OPCODE);
}

static void xrc_nothing(struct snic_qp *qp) {}

/* A target has nothing to send after a response. */
static void xrc_tgt_rx_done(struct snic_qp *qp, bool response, bool more)
{
	if (!response)
		snic_reliable_rx_done(qp, response, more);
}

const struct snic_transport snic_xrc_ini = {
	.sq_ops = SNIC_SQ_OPS_SEND_WRITE | SNIC_SQ_OP(READ) | SNIC_SQ_OP(CMP_SWAP) |
		  SNIC_SQ_OP(FETCH_ADD) | SNIC_SQ_OP(SEND_INV) | SNIC_SQ_OP(SEND_SOL_INV) |
		  SNIC_SQ_OP(LOCAL_INV) | SNIC_SQ_OP(BIND_MW) | SNIC_SQ_OP(FLUSH) |
		  SNIC_SQ_OP(ATOMIC_WRITE),
	.bth = SIRDMA_BTH_XRC,
	.adds_header = true,
	.names_srq = true,
	.no_rq = true,
	.recv_start = xrc_nothing,
	.send_start = snic_req_start,
	.admit = snic_connected_admit,
	.fits = snic_reliable_fits,
	.rx_request = xrc_drop,
	.rx_response = snic_comp_rx,
	.rx_done = snic_reliable_rx_done,
	.request = snic_req_run,
	.burst = snic_req_burst,
	.timer_due = snic_retry_due,
	.timer_expired = snic_retry_expired,
};

const struct snic_transport snic_xrc_tgt = {
	.bth = SIRDMA_BTH_XRC,
	.no_sq = true,
	.no_rq = true,
	.recv_start = snic_connected_recv_start,
	.send_start = xrc_nothing,
	.admit = snic_connected_admit,
	.fits = snic_reliable_fits,
	.rx_request = snic_resp_rx_xrc,
	.rx_response = xrc_drop,
	.rx_done = xrc_tgt_rx_done,
	.respond = snic_resp_run,
	.request = xrc_nothing,
};
