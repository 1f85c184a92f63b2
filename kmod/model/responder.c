// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of RC (IBTA 9.7.4, 9.7.5.2.4): checks PSNs, executes requests, decides what to
 * acknowledge.
 */
#include "responder.h"

#include "xrc.h"

static void resp_owe(struct snic_resp *resp, u8 syndrome, u32 psn)
{
	/*
	 * A NAK acknowledges all packets before it too: an ACK must not replace the NAK. The ACK of a
	 * duplicate must not replace an ACK of later packets.
	 */
	if (resp->ack_due && syndrome == (SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID) &&
	    (resp->nak_sent || snic_psn_diff(psn, resp->ack_psn) < 0))
		return;
	resp->ack_due = true;
	resp->ack_syndrome = syndrome;
	resp->ack_psn = psn;
	resp->owed++;
}

void snic_resp_owe_ack(struct snic_resp *resp, u32 psn)
{
	resp_owe(resp, SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID,
		 snic_psn_add(psn, SIRDMA_PSN_MASK));
}

static void resp_owe_nak(struct snic_resp *resp, u8 kind_and_value)
{
	resp->nak_sent = true;
	resp_owe(resp, kind_and_value, resp->epsn);
}

void snic_resp_linger(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	if (!PORT_WIRE_IN_MEMORY)
		return;
	if (resp->lingers && !resp->ack_due) {
		resp->unacked = true;
		return;
	}
	if (!snic_dev_ops(qp->dev)->linger)
		return;
	if (resp->ack_due) {
		/* The acknowledgement covers this message as well; a NAK does anyway. */
		if (!resp->nak_sent)
			resp->ack_psn = snic_psn_add(resp->epsn, SIRDMA_PSN_MASK);
		return;
	}
	resp->unacked = true;
	resp->lingers = true;
	snic_dev_ops(qp->dev)->linger(qp->dev->host, qp->obj.id);
}

void snic_resp_end_linger(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	if (!resp->unacked || !snic_qp_can_receive(qp))
		return;
	resp->unacked = false;
	if (!resp->ack_due)
		snic_resp_owe_ack(resp, resp->epsn);
}

/*
 * The PSN is beyond the expected one, or the payload is lost: send a NAK of the sequence error
 * (IBTA 9.7.5.2.1).
 */
static void resp_out_of_sequence(struct snic_qp *qp, u32 psn)
{
	struct snic_resp *resp = &qp->resp;
	u32 ahead = snic_psn_fwd(psn, resp->epsn), cause;

	snic_stat_inc(qp->dev, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
	/*
	 * Send one NAK for one loss. When the PSN that caused the NAK arrives again, the
	 * requester has retransmitted and the expected packet was lost once more. A PSN before that one
	 * says the same, or that the network has reordered packets: then each of them would take one of
	 * the requester's retries, so only the first gets a NAK. The expected packet itself, without its
	 * payload, is repeated for sure.
	 */
	if (resp->nak_sent) {
		cause = snic_psn_fwd(resp->nak_cause, resp->epsn);
		if (ahead > cause || (ahead && ahead < cause && resp->nak_nearer))
			return;
	}
	resp->nak_nearer = resp->nak_sent && psn != resp->nak_cause;
	resp->nak_cause = psn;
	snic_stat_inc(qp->dev, SIRDMA_STAT_SEQ_NAK_SENT);
	resp_owe_nak(resp, SIRDMA_AETH_NAK | SIRDMA_NAK_PSN_SEQ);
}

static void resp_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RX_DUPLICATE);
	if (pkt->flags & SNIC_PKT_RD_ATOMIC)
		snic_rd_duplicate(qp, pkt);
	else if (pkt->ackreq || (pkt->flags & SNIC_PKT_LAST))
		snic_resp_owe_ack(&qp->resp, snic_rd_after(&qp->resp, pkt->psn));
}

static void resp_rnr(struct snic_qp *qp, u32 psn)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_NAK_SENT);
	/* Later packets are dropped without a NAK until the requester repeats this one. */
	qp->resp.nak_cause = psn;
	resp_owe_nak(&qp->resp, SIRDMA_AETH_RNR_NAK | (qp->min_rnr_timer & SIRDMA_AETH_VALUE));
}

/* The responder cannot serve the request: send a NAK, then fail the QP. */
static void resp_refuse(struct snic_qp *qp, enum snic_recv_verdict verdict)
{
	static const struct {
		enum sirdma_stat stat;
		u8 nak;
	} naks[] = {
		[SNIC_RECV_NAK_INVALID] = {SIRDMA_STAT_NAK_INV_REQ_SENT, SIRDMA_NAK_INV_REQ},
		[SNIC_RECV_NAK_ACCESS] = {SIRDMA_STAT_NAK_REM_ACCESS_SENT, SIRDMA_NAK_REM_ACCESS},
		[SNIC_RECV_NAK_OP] = {SIRDMA_STAT_NAK_REM_OP_SENT, SIRDMA_NAK_REM_OP},
	};
	struct snic_resp *resp = &qp->resp;

	snic_stat_inc(qp->dev, naks[verdict].stat);
	/* A failed receive WQE is reported by its completion, every other error by an event. */
	if (verdict == SNIC_RECV_NAK_INVALID && !resp->fail_minor && !resp->fail_ae)
		resp->fail_ae = SIRDMA_AE_IB_INVALID_REQUEST;
	resp->fatal = true;
	resp_owe_nak(resp, SIRDMA_AETH_NAK | naks[verdict].nak);
}

enum snic_recv_verdict snic_resp_execute(struct snic_qp *qp, const struct snic_pkt *pkt,
					 const struct snic_rx_pkt *rx)
{
	if (!(pkt->flags & SNIC_PKT_RD_ATOMIC))
		return snic_recv_data(qp, pkt, rx);
	if (!snic_recv_format_ok(qp, pkt))
		return SNIC_RECV_NAK_INVALID;
	if (pkt->flags & SNIC_PKT_READ)
		return snic_read_request(qp, pkt);
	if (pkt->flags & SNIC_PKT_ATOMIC)
		return snic_atomic_request(qp, pkt);
	return pkt->flags & SNIC_PKT_PAYLOAD ? snic_atomic_write_request(qp, pkt, rx) :
					       snic_flush_request(qp, pkt);
}

/* @is_xrc is a constant: the compiler makes two functions, so that RC does not test it. */
static __always_inline void resp_expected(struct snic_qp *qp, const struct snic_pkt *pkt,
					  const struct snic_rx_pkt *rx, bool is_xrc)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_recv_verdict verdict;
	u32 before = resp->epsn;
	bool owed;

	snic_recv_begin(resp);
	verdict = is_xrc ? snic_xrc_execute(qp, pkt, rx) : snic_resp_execute(qp, pkt, rx);
	if (!snic_qp_can_receive(qp))
		return; /* the CQ overflowed, and the overflow put the QP into the error state */
	if (verdict == SNIC_RECV_RNR) {
		resp_rnr(qp, pkt->psn);
		return;
	}
	if (verdict == SNIC_RECV_LOST) {
		resp_out_of_sequence(qp, pkt->psn);
		return;
	}
	if (verdict != SNIC_RECV_DONE) {
		resp_refuse(qp, verdict);
		return;
	}
	/*
	 * The expected packet cancels a NAK that was not sent; the packets before it must be
	 * acknowledged.
	 */
	owed = resp->nak_sent && resp->ack_due;
	resp->nak_sent = false;
	if (pkt->flags & SNIC_PKT_RD_ATOMIC)
		return; /* the responses acknowledge the request; snic_rd_accept() advanced epsn */
	snic_recv_advance(resp, pkt);
	snic_rd_forget_old(qp, before);
	if (pkt->ackreq || owed)
		snic_resp_owe_ack(resp, resp->epsn);
	else if (pkt->flags & SNIC_PKT_LAST)
		snic_resp_linger(qp);
}

void snic_resp_end_wait(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	if (!snic_recv_end_wait(qp) || !resp->inv_dropped)
		return;
	resp->inv_dropped = false;
	resp_out_of_sequence(qp, resp->epsn);
}

static __always_inline void resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt,
				    const struct snic_rx_pkt *rx, bool is_xrc)
{
	s32 diff = snic_psn_diff(pkt->psn, qp->resp.epsn);

	if (qp->resp.fatal) {
		/*
		 * The NAK waits after responses of earlier READs and atomics. Try to send those
		 * again: absent memory may be present now.
		 */
		qp->resp.absent = false;
		return;
	}
	if (unlikely(qp->resp.inv_wait) && diff >= 0) {
		/*
		 * The NAK may wait only for answers to READs that are sent at the end of this
		 * batch. If a packet was dropped already, this one cannot be accepted.
		 */
		if (!qp->resp.inv_dropped)
			snic_resp_run(qp);
		if (qp->resp.inv_wait || !snic_qp_can_receive(qp)) {
			qp->resp.inv_dropped = true;
			return;
		}
	}
	snic_recv_established(qp);
	if (diff > 0)
		resp_out_of_sequence(qp, pkt->psn);
	else if (diff < 0)
		resp_duplicate(qp, pkt);
	else
		resp_expected(qp, pkt, rx, is_xrc);
}

void snic_resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	resp_rx(qp, pkt, rx, false);
}

void snic_resp_rx_xrc(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	resp_rx(qp, pkt, rx, true);
}
