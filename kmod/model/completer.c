// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completer: acknowledgements, READ and atomic responses (IBTA 9.7.5, 9.7.5.1.1).
 *
 * A response acknowledges every message before it, except that a READ, atomic, FLUSH or ATOMIC
 * WRITE is completed by its own responses only: an answer beyond an incomplete one shows that
 * responses were lost.
 */
#include "completer.h"

#include "requester.h"
#include "retry.h"
#include "sge.h"
#include "window.h"

/* The peer acknowledged @npkts packets: reset retry counters and the ACK timeout. */
static void comp_progress(struct snic_qp *qp, u32 npkts)
{
	struct snic_req *req = &qp->req;

	req->retry_left = qp->retry_cnt;
	req->rnr_left = qp->rnr_retry;
	req->rnr_tries = 0;
	req->restarted = false;
	req->repeats_last = false;
	if (req->wait != SNIC_WAIT_NONE)
		snic_retry_end_wait(qp);
	snic_reads_answered(qp);
	snic_win_progress(qp, npkts);
	/* When nothing is in flight, snic_retry_start() sets the deadline of the next request. */
	if (snic_req_in_flight(req))
		snic_retry_set_deadline(qp);
}

/*
 * The peer has acknowledged all packets before una, whose memory is about to return to the application. A peer that
 * acknowledges what it has not received does not receive it from now on.
 */
static void comp_finish_kept(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!qp->kept_unacked)
		return;
	snic_dev_ops(qp->dev)->finish_kept_before(qp->dev->host, qp->obj.id, req->una);
	qp->kept_unacked = snic_psn_diff(req->una, qp->kept_end) < 0;
}

/*
 * The peer received all packets before @psn (una <= @psn <= max): move una and complete messages.
 * Returns false if responses of a READ or atomic before @psn are missing, or if the QP failed.
 */
static bool comp_ack_before(struct snic_qp *qp, u32 psn)
{
	struct snic_req *req = &qp->req;
	u32 una = req->una, left = snic_psn_fwd(psn, una), n;
	u32 sent = snic_psn_fwd(req->nxt, una);
	const struct snic_out *out;
	bool complete = true;

	/* Without READs and atomics, one step acknowledges all packets. */
	if (left && !req->rd_atomic_msgs && req->head != req->tail) {
		req->una = psn;
		left = 0;
		comp_finish_kept(qp);
		if (!snic_send_retire(qp))
			return false;
	}
	while (left && req->head != req->tail) {
		out = snic_out_at(req, req->head);
		/* Packets of this message that the peer has not acknowledged yet. */
		n = snic_psn_fwd(snic_psn_add(out->psn, snic_out_pkts(qp, out)), req->una);
		if (snic_op_is_rd_atomic(out->op) && n) {
			complete = false;
			break;
		}
		n = min(n, left);
		left -= n;
		req->una = snic_psn_add(req->una, n);
		comp_finish_kept(qp);
		if (!snic_send_retire(qp))
			return false;
	}
	n = snic_psn_fwd(req->una, una);
	if (n) {
		comp_progress(qp, n);
		/*
		 * The answer is to packets that were sent before a restart: do not retransmit them.
		 */
		if (sent < n)
			snic_req_seek(qp, req->una);
	}
	return complete;
}

/*
 * The answer @pkt shows that packets from una on were lost: retransmit them. Answers to
 * packets sent before that keep arriving, and acknowledgements may repeat a PSN. So until
 * una moves, only a response with data counts as another loss, and only if it is no further
 * ahead than the first one that showed the loss: that one answers the retransmission.
 */
static void comp_lost(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_req *req = &qp->req;
	u32 dist = snic_psn_fwd(pkt->psn, req->una);

	if (req->wait != SNIC_WAIT_NONE)
		return;
	if (req->restarted && (dist > req->lost_dist || !(pkt->flags & SNIC_PKT_RD_ATOMIC)))
		return;
	snic_retry_lost(qp, false);
	req->restarted = true;
	req->lost_dist = dist;
}

/* A NAK of a sequence error: the peer expects una and has dropped all later packets. */
static void comp_nak_seq(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_SEQ_NAK_RCVD);
	if (qp->req.wait == SNIC_WAIT_RNR)
		return;
	/* The repetition has a deadline of its own, and waits for the memory again. */
	if (qp->req.wait == SNIC_WAIT_ABSENT)
		snic_retry_end_wait(qp);
	snic_retry_lost(qp, false);
	qp->req.restarted = true;
	qp->req.lost_dist = 0;
}

static void comp_nak(struct snic_qp *qp, u8 code)
{
	static const struct {
		u16 minor;
		u32 vendor;
	} errors[] = {
		[SIRDMA_NAK_INV_REQ] = {SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ},
		[SIRDMA_NAK_REM_ACCESS] = {SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS},
		[SIRDMA_NAK_REM_OP] = {SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP},
		[SIRDMA_NAK_INV_RD_REQ] = {SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ},
	};

	if (code == SIRDMA_NAK_PSN_SEQ)
		comp_nak_seq(qp);
	else if (code < ARRAY_SIZE(errors))
		snic_send_fail_oldest(qp, errors[code].minor, errors[code].vendor);
}

static bool comp_in_flight(const struct snic_req *req, u32 psn)
{
	return snic_psn_fwd(psn, req->una) < snic_psn_fwd(req->max, req->una);
}

/*
 * Answers are dropped while the oldest message waits for an invalidation, and their requests are
 * repeated then. A peer that has failed answers no repetition, so keep the NAK that reports the
 * failure.
 */
static void comp_drop(struct snic_req *req, const struct snic_pkt *pkt)
{
	u8 syndrome = (u8)(pkt->aeth >> 24), code = syndrome & SIRDMA_AETH_VALUE;

	req->answers_dropped = true;
	if ((pkt->flags & SNIC_PKT_RD_ATOMIC) || req->nak_kept ||
	    (syndrome & SIRDMA_AETH_KIND) != SIRDMA_AETH_NAK || code == SIRDMA_NAK_PSN_SEQ ||
	    !comp_in_flight(req, pkt->psn))
		return;
	req->nak_kept = true;
	req->nak_code = code;
	req->nak_psn = pkt->psn;
}

bool snic_comp_end_wait(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!req->nak_kept)
		return true;
	req->nak_kept = false;
	if (!comp_in_flight(req, req->nak_psn))
		return true;
	/*
	 * If responses to earlier READs were dropped, the NAK is the NAK of the first of these
	 * READs: their responses do not come any more.
	 */
	comp_ack_before(qp, req->nak_psn);
	if (snic_qp_can_send(qp) && req->head != req->tail)
		comp_nak(qp, req->nak_code);
	return snic_qp_can_send(qp);
}

/*
 * Is @pkt a NAK of the READ or atomic that is being answered? Its PSN may be that of the response
 * expected next, of one after responses that were lost, or, from soft-RoCE, of the request,
 * of which a part is answered already. A NAK of a request that was answered completely is
 * stale.
 */
static bool comp_refuses_oldest(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	const struct snic_req *req = &qp->req;
	const struct snic_out *out = &req->out[req->head % SNIC_OUT_MSGS];
	u32 chunk = SNIC_READ_CHUNK >> qp->mtu_shift, first, end;
	u8 syndrome = (u8)(pkt->aeth >> 24);

	if ((syndrome & SIRDMA_AETH_KIND) != SIRDMA_AETH_NAK ||
	    (syndrome & SIRDMA_AETH_VALUE) == SIRDMA_NAK_PSN_SEQ)
		return false;
	if (req->head == req->tail || !snic_op_is_rd_atomic(out->op) ||
	    (out->flags & SNIC_OUT_FAILED) || !snic_req_in_flight(req))
		return false;
	/* The request that una belongs to cannot begin before this PSN. */
	first = snic_psn_fwd(req->una, out->psn);
	first = snic_psn_add(out->psn, first - first % chunk);
	end = min(snic_psn_fwd(req->max, first),
		  snic_psn_fwd(snic_psn_add(out->psn, snic_out_pkts(qp, out)), first));
	return snic_psn_fwd(pkt->psn, first) < end;
}

static void comp_rnr(struct snic_qp *qp, u8 timer)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_NAK_RCVD);
	/* The requester waits already: the NAK is a copy, or answers a request from before the restart. */
	if (qp->req.wait != SNIC_WAIT_NONE)
		return;
	snic_retry_rnr(qp, timer);
}

bool snic_comp_ack(struct snic_qp *qp, u32 psn)
{
	if (!comp_in_flight(&qp->req, psn))
		return false;
	snic_stat_inc(qp->dev, SIRDMA_STAT_ACKS_RCVD);
	/* This fails only if the QP fails. */
	(void)comp_ack_before(qp, snic_psn_add(psn, 1));
	return true;
}

static void comp_aeth(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	u8 syndrome = (u8)(pkt->aeth >> 24), value = syndrome & SIRDMA_AETH_VALUE;
	struct snic_req *req = &qp->req;

	switch (syndrome & SIRDMA_AETH_KIND) {
	case SIRDMA_AETH_ACK:
		snic_stat_inc(qp->dev, SIRDMA_STAT_ACKS_RCVD);
		if (!comp_ack_before(qp, snic_psn_add(pkt->psn, 1)) && snic_qp_can_send(qp))
			comp_lost(qp, pkt);
		break;
	case SIRDMA_AETH_RNR_NAK:
	case SIRDMA_AETH_NAK:
		if (!comp_ack_before(qp, pkt->psn)) {
			if (snic_qp_can_send(qp))
				comp_lost(qp, pkt);
		} else if (req->head == req->tail) {
			snic_stat_inc(qp->dev, SIRDMA_STAT_RX_STALE_ACK);
		} else if ((syndrome & SIRDMA_AETH_KIND) == SIRDMA_AETH_NAK) {
			comp_nak(qp, value);
		} else {
			comp_rnr(qp, value);
		}
		break;
	default:
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_BAD_HEADER);
	}
}

/* Is the response @pkt of the kind that @out asked for? */
static bool comp_answers(const struct snic_pkt *pkt, const struct snic_out *out)
{
	if (pkt->flags & SNIC_PKT_ATOMIC)
		return snic_op_is_atomic(out->op);
	return snic_op_is_read(out->op) || snic_op_is_placement(out->op);
}

/* Is @pkt as long as the response at offset @off of @out, no atomic, must be? */
static bool read_len_ok(const struct snic_qp *qp, const struct snic_out *out, u32 off,
			const struct snic_pkt *pkt)
{
	u32 left = snic_op_is_placement(out->op) ? 0 : out->len - off;

	if (pkt->payload_len != min(left, pkt->npkts << qp->mtu_shift) ||
	    pkt->npkts != snic_qp_pkts(qp, pkt->payload_len))
		return false;
	/*
	 * Requests of a message may be split differently when repeated: only the last response
	 * must be LAST.
	 */
	return left > pkt->payload_len || (pkt->flags & SNIC_PKT_LAST);
}

enum comp_placed {
	COMP_PLACED,
	COMP_LOST, /* the payload cannot be read any more: treat the packet as lost */
	COMP_ABSENT, /* memory of the local region is absent */
	COMP_FAILED, /* the message is marked as failed */
};

/* Place the response whose PSN is una. */
static enum comp_placed comp_place(struct snic_qp *qp, const struct snic_pkt *pkt,
				   const struct snic_rx_pkt *rx)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->head);
	u32 off = snic_psn_fwd(req->una, out->psn) << qp->mtu_shift, len = pkt->payload_len;
	struct snic_seg value = {.len = SIRDMA_ATOMIC_LEN};
	struct snic_seg_iter it = {.seg = &value};
	const struct snic_sqe *sqe;
	enum sirdma_ae_code ae;
	u64 orig;

	if (pkt->flags & SNIC_PKT_ATOMIC) {
		orig = pkt->orig;
		value.ptr = &orig;
		len = SIRDMA_ATOMIC_LEN;
	} else if (read_len_ok(qp, out, off, pkt)) {
		it = snic_pkt_payload(pkt, rx);
	} else {
		snic_send_mark_failed(qp, out, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		return COMP_FAILED;
	}
	if (snic_op_is_placement(out->op))
		return COMP_PLACED;
	sqe = snic_send_oldest(qp);
	if (!sqe)
		return COMP_FAILED;
	switch (snic_sge_scatter(qp, SNIC_REQUESTER, sqe->sge, sqe->nsge, off, &it, len, &ae)) {
	case SNIC_PLACED:
		return COMP_PLACED;
	case SNIC_PLACE_LOST:
		return COMP_LOST;
	case SNIC_PLACE_ABSENT:
		return COMP_ABSENT;
	default:
		snic_send_mark_failed(qp, out, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		return COMP_FAILED;
	}
}

/* Drop the response, and repeat its request when the memory may be present. */
static void comp_absent(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	/* The response shows that the peer is ready, so it ends an RNR wait. A wait for absent memory goes on. */
	if (req->wait != SNIC_WAIT_NONE && req->wait != SNIC_WAIT_RNR)
		return;
	/* The response is an answer: the retry counts start again. */
	req->retry_left = qp->retry_cnt;
	req->rnr_left = qp->rnr_retry;
	req->rnr_tries = 0;
	snic_req_restart(qp);
	/* The responses behind this one, which arrive late and are dropped, tell of no loss. */
	req->restarted = true;
	req->lost_dist = 0;
	snic_win_probe(qp);
	snic_retry_absent(qp);
}

static void comp_data_resp(struct snic_qp *qp, const struct snic_pkt *pkt,
			   const struct snic_rx_pkt *rx)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out;
	bool complete;

	/* A response with data cannot refuse the request. */
	if ((pkt->flags & SNIC_PKT_AETH) &&
	    (pkt->aeth >> 24 & SIRDMA_AETH_KIND) != SIRDMA_AETH_ACK) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_BAD_HEADER);
		return;
	}
	complete = comp_ack_before(qp, pkt->psn);
	if (!snic_qp_can_send(qp))
		return;
	out = snic_out_at(req, req->head);
	if (!complete || req->head == req->tail) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
		comp_lost(qp, pkt);
		return;
	}
	if (!comp_answers(pkt, out) || (out->flags & SNIC_OUT_FAILED)) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_BAD_OPCODE);
		return;
	}
	switch (comp_place(qp, pkt, rx)) {
	case COMP_LOST:
		comp_lost(qp, pkt);
		return;
	case COMP_ABSENT:
		comp_absent(qp);
		return;
	case COMP_PLACED:
		req->una = snic_psn_add(req->una, pkt->npkts);
		comp_finish_kept(qp);
		if (snic_psn_fwd(req->nxt, pkt->psn) < pkt->npkts)
			snic_req_seek(qp, req->una);
		comp_progress(qp, pkt->npkts);
		break;
	case COMP_FAILED:
		break;
	}
	snic_send_retire(qp);
}

void snic_comp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	struct snic_req *req = &qp->req;

	if (unlikely(req->inv_wait)) {
		comp_drop(req, pkt);
		return;
	}
	if (!(pkt->flags & SNIC_PKT_RD_ATOMIC) && comp_refuses_oldest(qp, pkt)) {
		comp_nak(qp, (pkt->aeth >> 24) & SIRDMA_AETH_VALUE);
		return;
	}
	/* An answer must be to a packet in flight; a stale one is dropped. */
	if (!comp_in_flight(req, pkt->psn)) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_STALE_ACK);
		return;
	}
	if (pkt->flags & SNIC_PKT_RD_ATOMIC)
		comp_data_resp(qp, pkt, rx);
	else
		comp_aeth(qp, pkt);
}
