// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder (IBTA 9.7.4, 9.7.5.2.4): checks PSN, opcode sequence, length and
 * rights in this order, places payload, owes acknowledgements.
 */
#include "responder.h"

#include "sge.h"

/* Failure of the request being handled, kept until its NAK is sent. */
static void resp_set_failure(struct snic_resp *resp, enum sirdma_ae_code ae, u16 minor, u32 vendor)
{
	resp->fail_ae = ae;
	resp->fail_minor = minor;
	resp->fail_vendor = vendor;
}

void snic_resp_start(struct snic_qp *qp)
{
	qp->resp.epsn = qp->rq_psn;
	qp->resp.msn = 0;
}

bool snic_resp_pending(const struct snic_qp *qp)
{
	return qp->resp.ack_due || qp->resp.rd_todo;
}

static void resp_owe(struct snic_resp *resp, u8 syndrome, u32 psn)
{
	/* A NAK acknowledges what came before it: it is not replaced by an ACK. */
	if (resp->ack_due && syndrome == (SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID) &&
	    resp->nak_sent)
		return;
	resp->ack_due = true;
	resp->ack_syndrome = syndrome;
	resp->ack_psn = psn;
	resp->owed++;
}

/* Acknowledge everything before @psn. */
static void resp_owe_ack(struct snic_resp *resp, u32 psn)
{
	resp_owe(resp, SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID,
		 snic_psn_add(psn, SIRDMA_PSN_MASK));
}

static void resp_owe_nak(struct snic_resp *resp, u8 kind_and_value)
{
	resp->nak_sent = true;
	resp_owe(resp, kind_and_value, resp->epsn);
}

/* A PSN beyond the expected one, or one whose payload is gone: something was lost (IBTA 9.7.5.2.1). */
static void resp_ahead(struct snic_qp *qp, u32 psn)
{
	struct snic_resp *resp = &qp->resp;

	snic_stat_inc(qp->dev, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
	/*
	 * One NAK for one loss. The PSN that caused it coming again means that the
	 * requester went back and the expected packet was lost once more.
	 */
	if (resp->nak_sent &&
	    snic_psn_fwd(psn, resp->epsn) > snic_psn_fwd(resp->nak_cause, resp->epsn))
		return;
	resp->nak_cause = psn;
	snic_stat_inc(qp->dev, SIRDMA_STAT_SEQ_NAK_SENT);
	resp_owe_nak(resp, SIRDMA_AETH_NAK | SIRDMA_NAK_PSN_SEQ);
}

static void resp_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RX_DUPLICATE);
	if (pkt->flags & SNIC_PKT_READ)
		snic_rd_duplicate(qp, pkt);
	else if (pkt->ackreq || (pkt->flags & SNIC_PKT_LAST))
		resp_owe_ack(&qp->resp, snic_rd_after(&qp->resp, pkt->psn));
}

/* Opcode sequence and payload length (IBTA 9.7.4.1.4, 9.7.4.1.6). */
static bool resp_shape_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	u16 kind = pkt->flags & (SNIC_PKT_SEND | SNIC_PKT_WRITE);
	u32 mtu = snic_qp_mtu(qp);

	if (pkt->flags & SNIC_PKT_UNSUPPORTED)
		return false;
	if ((pkt->flags & SNIC_PKT_FIRST) ? qp->resp.in_msg != 0 : qp->resp.in_msg != kind)
		return false;
	if (!(pkt->flags & SNIC_PKT_LAST))
		return pkt->payload_len == pkt->npkts * mtu;
	if (!(pkt->flags & SNIC_PKT_FIRST) && !pkt->payload_len)
		return false;
	return snic_qp_pkts(qp, pkt->payload_len) == pkt->npkts;
}

/* Take a receive WQE, if none is in use. */
static enum snic_verdict resp_take_rqe(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_wqe_status status;

	if (resp->rqe_valid)
		return SNIC_DONE;
	status = snic_rqe_load(qp, resp->rq_idx, resp->rq_polarity, &resp->rqe);
	if (status == SNIC_WQE_NONE)
		return SNIC_RNR;
	resp->rqe_valid = true;
	resp->recv_len = 0;
	if (++resp->rq_idx == qp->rq_wqes) {
		resp->rq_idx = 0;
		resp->rq_polarity = !resp->rq_polarity;
	}
	if (status == SNIC_WQE_OK)
		return SNIC_DONE;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	resp_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	return SNIC_NAK_OP;
}

/* The message that used the receive WQE is complete. */
static bool resp_complete(struct snic_qp *qp, const struct snic_pkt *pkt, u32 len)
{
	struct snic_completion c = {
		.wqe_idx = (u32)qp->resp.rqe.idx << qp->rq_stride_shift,
		.len = len,
		.op = pkt->opcode & 0x3f,
		.has_imm = pkt->flags & SNIC_PKT_IMM,
		.imm = pkt->imm,
		.solicited = pkt->solicited,
	};

	qp->resp.rqe_valid = false;
	return snic_qp_complete_recv(qp, &c);
}

static enum snic_verdict resp_send(struct snic_qp *qp, const struct snic_pkt *pkt,
				   const struct snic_rx_pkt *rx)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);
	struct snic_resp *resp = &qp->resp;
	enum snic_verdict verdict;
	enum sirdma_ae_code ae;

	verdict = resp_take_rqe(qp);
	if (verdict != SNIC_DONE)
		return verdict;
	if (pkt->payload_len > resp->rqe.len - resp->recv_len) {
		resp_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		return SNIC_NAK_INVALID;
	}
	if (!snic_sge_scatter(qp, resp->rqe.sge, resp->rqe.nsge, resp->recv_len, &it,
			      pkt->payload_len, &ae)) {
		if (ae == SIRDMA_AE_NONE)
			return SNIC_LOST;
		resp_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		return SNIC_NAK_OP;
	}
	resp->recv_len += pkt->payload_len;
	if (pkt->flags & SNIC_PKT_LAST)
		resp_complete(qp, pkt, resp->recv_len);
	return SNIC_DONE;
}

/* The RETH of a WRITE: remember where it goes; its rights are checked as payload comes. */
static enum snic_verdict resp_write_begin(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_resp *resp = &qp->resp;
	enum sirdma_ae_code ae;

	if (!(qp->access & SIRDMA_ACCESS_REMOTE_WRITE) || pkt->dma_len > SIRDMA_MAX_MSG_SIZE)
		return SNIC_NAK_INVALID;
	resp->wr_va = pkt->va;
	resp->wr_rkey = pkt->rkey;
	resp->wr_left = pkt->dma_len;
	/* An empty WRITE needs no valid key (IBTA 9.7.4.1.7). */
	if (!pkt->dma_len)
		return SNIC_DONE;
	/* The whole range, before the first byte of it. */
	if (!snic_qp_rx_mr(qp, pkt->rkey, pkt->va, pkt->dma_len, SIRDMA_ACCESS_REMOTE_WRITE, &ae)) {
		resp_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		return SNIC_NAK_ACCESS;
	}
	return SNIC_DONE;
}

static enum snic_verdict resp_write_place(struct snic_qp *qp, const struct snic_pkt *pkt,
					  const struct snic_rx_pkt *rx)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);
	struct snic_resp *resp = &qp->resp;
	enum sirdma_ae_code ae;
	struct snic_mr *mr;

	if (!pkt->payload_len)
		return SNIC_DONE;
	/* Asked for by each packet: the region may have been deregistered meanwhile. */
	mr = snic_qp_rx_mr(qp, resp->wr_rkey, resp->wr_va, pkt->payload_len,
			   SIRDMA_ACCESS_REMOTE_WRITE, &ae);
	if (!mr) {
		resp_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		return SNIC_NAK_ACCESS;
	}
	if (!snic_mr_copy_in(qp->dev, mr, resp->wr_va, &it, pkt->payload_len, &ae)) {
		if (ae == SIRDMA_AE_NONE)
			return SNIC_LOST;
		resp_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		return SNIC_NAK_OP;
	}
	resp->wr_va += pkt->payload_len;
	resp->wr_left -= pkt->payload_len;
	return SNIC_DONE;
}

static enum snic_verdict resp_write(struct snic_qp *qp, const struct snic_pkt *pkt,
				    const struct snic_rx_pkt *rx)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_verdict verdict = SNIC_DONE;
	u32 left;

	/* Nothing changes before the packet is known to be acceptable: it may come again. */
	left = (pkt->flags & SNIC_PKT_FIRST) ? pkt->dma_len : resp->wr_left;
	if (pkt->flags & SNIC_PKT_LAST ? pkt->payload_len != left : pkt->payload_len >= left)
		return SNIC_NAK_INVALID;
	if (pkt->flags & SNIC_PKT_IMM)
		verdict = resp_take_rqe(qp);
	if (verdict == SNIC_DONE && (pkt->flags & SNIC_PKT_FIRST)) {
		verdict = resp_write_begin(qp, pkt);
		resp->wr_total = pkt->dma_len;
	}
	if (verdict == SNIC_DONE)
		verdict = resp_write_place(qp, pkt, rx);
	if (verdict == SNIC_DONE && (pkt->flags & SNIC_PKT_IMM))
		resp_complete(qp, pkt, resp->wr_total);
	return verdict;
}

static void resp_rnr(struct snic_qp *qp, u32 psn)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_NAK_SENT);
	/* What follows is dropped in silence until this packet comes again. */
	qp->resp.nak_cause = psn;
	resp_owe_nak(&qp->resp, SIRDMA_AETH_RNR_NAK | (qp->min_rnr_timer & SIRDMA_AETH_VALUE));
}

/* A request that cannot be served: NAK it, then the QP fails. */
static void resp_refuse(struct snic_qp *qp, enum snic_verdict verdict)
{
	static const struct {
		enum sirdma_stat stat;
		u8 nak;
	} naks[] = {
		[SNIC_NAK_INVALID] = {SIRDMA_STAT_NAK_INV_REQ_SENT, SIRDMA_NAK_INV_REQ},
		[SNIC_NAK_ACCESS] = {SIRDMA_STAT_NAK_REM_ACCESS_SENT, SIRDMA_NAK_REM_ACCESS},
		[SNIC_NAK_OP] = {SIRDMA_STAT_NAK_REM_OP_SENT, SIRDMA_NAK_REM_OP},
	};
	struct snic_resp *resp = &qp->resp;

	snic_stat_inc(qp->dev, naks[verdict].stat);
	/* A failed receive WQE tells by its completion, everything else by an event. */
	if (verdict == SNIC_NAK_INVALID && !resp->fail_minor && !resp->fail_ae)
		resp->fail_ae = SIRDMA_AE_IB_INVALID_REQUEST;
	resp->fatal = true;
	resp_owe_nak(resp, SIRDMA_AETH_NAK | naks[verdict].nak);
}

static enum snic_verdict resp_execute(struct snic_qp *qp, const struct snic_pkt *pkt,
				      const struct snic_rx_pkt *rx)
{
	if (!resp_shape_ok(qp, pkt))
		return SNIC_NAK_INVALID;
	if (pkt->flags & SNIC_PKT_READ)
		return snic_rd_request(qp, pkt);
	return pkt->flags & SNIC_PKT_SEND ? resp_send(qp, pkt, rx) : resp_write(qp, pkt, rx);
}

static void resp_expected(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_verdict verdict;
	bool owed;

	resp_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
	verdict = resp_execute(qp, pkt, rx);
	if (!snic_qp_can_receive(qp))
		return; /* the completion killed the QP */
	if (verdict == SNIC_RNR) {
		resp_rnr(qp, pkt->psn);
		return;
	}
	if (verdict == SNIC_LOST) {
		resp_ahead(qp, pkt->psn);
		return;
	}
	if (verdict != SNIC_DONE) {
		resp_refuse(qp, verdict);
		return;
	}
	/* An unsent sequence NAK is void, but what it would have acknowledged is owed. */
	owed = resp->nak_sent && resp->ack_due;
	resp->nak_sent = false;
	if (pkt->flags & SNIC_PKT_READ)
		return; /* its responses are the acknowledgement; epsn has moved */
	resp->epsn = snic_psn_add(resp->epsn, pkt->npkts);
	resp->in_msg = 0;
	if (pkt->flags & SNIC_PKT_LAST)
		resp->msn = snic_psn_add(resp->msn, 1);
	else
		resp->in_msg = pkt->flags & (SNIC_PKT_SEND | SNIC_PKT_WRITE);
	if (pkt->ackreq || owed)
		resp_owe_ack(resp, resp->epsn);
}

/* The first packet shows that the connection works, should RTU be late (IBTA 11.6.3). */
static void resp_established(struct snic_qp *qp)
{
	if (qp->resp.comm_est || qp->state != SIRDMA_QPS_RTR)
		return;
	qp->resp.comm_est = true;
	snic_aeq_post(qp->dev, SIRDMA_AE_CONNECTION_ESTABLISHED, SIRDMA_AE_SRC_RQ, qp->obj.id,
		      qp->compl_ctx, 0, qp->state);
}

void snic_resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	s32 diff = snic_psn_diff(pkt->psn, qp->resp.epsn);

	if (qp->resp.fatal)
		return; /* the NAK waits for earlier READs to be answered */
	resp_established(qp);
	if (diff > 0)
		resp_ahead(qp, pkt->psn);
	else if (diff < 0)
		resp_duplicate(qp, pkt);
	else
		resp_expected(qp, pkt, rx);
}
