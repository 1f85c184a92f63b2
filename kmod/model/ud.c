// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Unreliable datagram (IBTA 9.8.4). Each message is one packet, whose destination the WQE names by
 * an address vector, a QP number and a Q_Key. The requester completes it when it is sent. The
 * responder drops datagrams that it cannot receive.
 */
#include "recv.h"
#include "retry.h"
#include "transport.h"

/* Make qp->path the path of address vector @idx. Returns false if the QP may not use the vector. */
static bool ud_load_path(struct snic_qp *qp, u32 idx)
{
	struct sirdma_av av;
	u64 ctrl;

	/*
	 * The first word changes with each write of the vector. While the word is the same, the
	 * path is the same.
	 */
	if (qp->av_ctrl && qp->av_idx == idx && snic_av_ctrl(qp->dev, idx, &ctrl) &&
	    ctrl == qp->av_ctrl)
		return true;
	qp->av_ctrl = 0;
	if (!snic_av_read(qp->dev, idx, &av))
		return false;
	ctrl = le64_to_cpu(av.ctrl);
	if (SIRDMA_GET(SIRDMA_AV_PD, ctrl) != qp->pd || !snic_path_set_av(qp->dev, &qp->path, &av))
		return false;
	qp->av_ctrl = ctrl;
	qp->av_idx = idx;
	return true;
}

static void ud_fail(struct snic_qp *qp, u16 minor, u32 vendor)
{
	struct snic_req *req = &qp->req;

	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	snic_send_mark_failed(qp, snic_out_at(req, req->cur), minor, vendor);
}

/*
 * Make qp->path lead to the destination of the current message. Returns false if the message has
 * failed.
 */
static bool ud_prepare(struct snic_qp *qp, const struct snic_out *out)
{
	if (out->len > snic_qp_mtu(qp)) {
		ud_fail(qp, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		return false;
	}
	if (!ud_load_path(qp, snic_sqe_av(&qp->req.sqe))) {
		ud_fail(qp, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
		return false;
	}
	return true;
}

/* Does the current message have the destination address of the burst? */
static bool ud_same_address(const struct snic_qp *qp)
{
	return snic_sqe_av(&qp->req.sqe) == qp->av_idx;
}

static enum snic_send_stop ud_burst(struct snic_qp *qp)
{
	const struct snic_out *out;
	enum snic_send_stop why;
	struct snic_tx tx __uninitialized;
	u32 n;

	out = snic_send_current(qp, &why);
	if (!out)
		return why;
	if (!ud_prepare(qp, out))
		return SNIC_SEND_BLOCKED;
	snic_tx_begin(&tx, qp, &qp->path, SIRDMA_ACCESS_LOCAL_READ);
	do {
		n = snic_send_room(&tx, out);
		why = n ? snic_send_data(&tx, out, n) : SNIC_SEND_MORE;
		if (why != SNIC_SEND_NEXT)
			break;
		out = snic_send_current(qp, &why);
		if (!out)
			break;
		/* The next burst handles the message, which has another address or an error. */
		why = SNIC_SEND_MORE;
	} while (ud_same_address(qp) && out->len <= snic_qp_mtu(qp));
	return snic_send_unanswered(&tx, why);
}

static void ud_request(struct snic_qp *qp)
{
	snic_send_run(qp);
}

static bool ud_admit(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx,
		     enum sirdma_stat *why)
{
	*why = SIRDMA_STAT_RX_BAD_QKEY;
	if (pkt->qkey != qp->qkey)
		return false;
	/* Consumers of management datagrams read all bytes of a datagram. */
	*why = SIRDMA_STAT_RX_BAD_LENGTH;
	return qp->obj.id != SIRDMA_GSI_QPN || pkt->payload_len == SIRDMA_MAD_LEN;
}

static void ud_rx_request(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx)
{
	snic_recv_begin(&qp->resp);
	if (pkt->payload_len > snic_qp_mtu(qp)) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_REFUSED);
		return;
	}
	switch (snic_recv_datagram(qp, pkt, rx)) {
	case SNIC_RECV_DONE:
		/* Progress, which no PSN shows (see prq_progress()). */
		qp->asks.since[SNIC_RESPONDER] = 0;
		break;
	case SNIC_RECV_RNR:
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_NO_RECV);
		break;
	case SNIC_RECV_LOST:
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
		break;
	case SNIC_RECV_NAK_INVALID:
	case SNIC_RECV_NAK_ACCESS:
		/*
		 * A sender must not be able to break the QP: drop the packet. The next packet uses
		 * the WQE.
		 */
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_REFUSED);
		/* The WQE of a shared queue would be lost to the other QPs, so it completes. */
		if (qp->srq)
			snic_qp_fail_recv(qp, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		break;
	case SNIC_RECV_NAK_OP:
		/* The error is local: the receive WQE completes in error (IBTA 9.9.3.1). */
		snic_recv_fail(qp);
		break;
	}
}

/* Datagrams may arrive in any order. */
static void ud_recv_start(struct snic_qp *qp) {}

const struct snic_transport snic_ud = {
	.sq_ops = SNIC_SQ_OPS_SEND,
	.bth = SIRDMA_BTH_UD,
	.adds_header = true,
	.is_datagram = true,
	.has_sqe = true,
	.recv_start = ud_recv_start,
	.send_start = snic_send_start,
	.admit = ud_admit,
	.rx_request = ud_rx_request,
	.request = ud_request,
	.burst = ud_burst,
	.timer_due = snic_retry_due,
	.timer_expired = snic_retry_expired,
};
