// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Unreliable connection (IBTA 9.8). The requester completes a message when its last
 * packet is sent; the responder sends no answers. The responder drops a message that
 * lacks a packet or cannot be placed, and continues with the next FIRST or ONLY packet.
 */
#include "recv.h"
#include "retry.h"
#include "transport.h"

static enum snic_send_stop uc_burst(struct snic_qp *qp)
{
	const struct snic_out *out;
	enum snic_send_stop why;
	struct snic_tx tx __uninitialized;
	u32 n;

	snic_tx_begin(&tx, qp, &qp->path, SIRDMA_ACCESS_LOCAL_READ);
	do {
		out = snic_send_current(qp, &why);
		if (!out)
			break;
		n = snic_send_room(&tx, out);
		why = n ? snic_send_data(&tx, out, n) : SNIC_SEND_MORE;
	} while (why == SNIC_SEND_NEXT);
	return snic_send_unanswered(&tx, why);
}

static void uc_request(struct snic_qp *qp)
{
	snic_send_run(qp);
}

/*
 * Drop the message. The next message uses its receive WQE; the contents of the memory are
 * undefined.
 */
static void uc_drop(struct snic_qp *qp, enum sirdma_stat why)
{
	snic_stat_inc(qp->dev, why);
	qp->resp.in_msg = 0;
	qp->resp.recv_len = 0;
}

static void uc_refuse(struct snic_qp *qp, enum snic_recv_verdict verdict)
{
	switch (verdict) {
	case SNIC_RECV_DONE:
		break;
	case SNIC_RECV_RNR:
		uc_drop(qp, SIRDMA_STAT_RX_NO_RECV);
		break;
	case SNIC_RECV_LOST:
		uc_drop(qp, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
		break;
	case SNIC_RECV_NAK_INVALID:
	case SNIC_RECV_NAK_ACCESS:
		uc_drop(qp, SIRDMA_STAT_RX_REFUSED);
		break;
	case SNIC_RECV_NAK_OP:
		/* The error is local: the receive WQE completes in error (IBTA 9.9.3.1). */
		snic_recv_fail(qp);
		break;
	}
}

static void uc_rx_request(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx)
{
	struct snic_resp *resp = &qp->resp;
	bool first = pkt->flags & SNIC_PKT_FIRST;
	enum snic_recv_verdict verdict;

	snic_recv_established(qp);
	if (pkt->psn != resp->epsn || (first && resp->in_msg))
		uc_drop(qp, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
	resp->epsn = pkt->psn;
	if (!first && !resp->in_msg) {
		/* The packet is of the rest of a message that was dropped. */
		resp->epsn = snic_psn_add(resp->epsn, pkt->npkts);
		return;
	}
	snic_recv_begin(resp);
	verdict = snic_recv_data(qp, pkt, rx);
	if (!snic_qp_can_receive(qp))
		return; /* the CQ overflowed, and the overflow put the QP into the error state */
	if (verdict == SNIC_RECV_DONE) {
		snic_recv_advance(resp, pkt);
		return;
	}
	resp->epsn = snic_psn_add(resp->epsn, pkt->npkts);
	uc_refuse(qp, verdict);
}

const struct snic_transport snic_uc = {
	.sq_ops = SNIC_SQ_OPS_SEND_WRITE | SNIC_SQ_OP(LOCAL_INV) | SNIC_SQ_OP(BIND_MW) |
		  SNIC_SQ_OP(FAST_REG),
	.bth = SIRDMA_BTH_UC,
	.has_sqe = true,
	.recv_start = snic_connected_recv_start,
	.send_start = snic_send_start,
	.admit = snic_connected_admit,
	.rx_request = uc_rx_request,
	.request = uc_request,
	.burst = uc_burst,
	.timer_due = snic_retry_due,
	.timer_expired = snic_retry_expired,
};
