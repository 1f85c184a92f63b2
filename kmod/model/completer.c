// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completer: acknowledgements and READ responses (IBTA 9.7.5, 9.7.5.1.1).
 *
 * A response acknowledges every message before it, except that a READ is done
 * by its own responses only: an answer beyond an unfinished READ means that
 * responses were lost.
 */
#include "completer.h"

#include "requester.h"
#include "retry.h"
#include "sge.h"
#include "window.h"

/* The peer is alive and got further. */
static void comp_progress(struct snic_qp *qp, u32 npkts)
{
	struct snic_req *req = &qp->req;

	req->retry_left = qp->retry_cnt;
	req->rnr_left = qp->rnr_retry;
	req->rnr_tries = 0;
	req->restarted = false;
	if (req->rnr_wait)
		snic_retry_end_wait(qp);
	snic_reads_answered(qp);
	snic_win_progress(qp, npkts);
	snic_retry_touch(qp);
}

/*
 * The peer has everything before @psn (una <= @psn <= max): complete what that
 * finishes. False when responses of a READ before @psn are missing, or the QP
 * failed.
 */
static bool comp_ack_before(struct snic_qp *qp, u32 psn)
{
	struct snic_req *req = &qp->req;
	u32 una = req->una, left = snic_psn_fwd(psn, una), n;
	u32 sent = snic_psn_fwd(req->nxt, una);
	const struct snic_out *out;
	bool complete = true;

	/* Without READs a step takes all of it. */
	if (left && !req->read_msgs && req->head != req->tail) {
		req->una = psn;
		left = 0;
		if (!snic_send_retire(qp))
			return false;
	}
	while (left && req->head != req->tail) {
		out = snic_out_at(req, req->head);
		/* Packets of this message not acknowledged so far. */
		n = snic_psn_fwd(snic_psn_add(out->psn, snic_out_pkts(qp, out)), req->una);
		if (snic_op_is_read(out->op) && n) {
			complete = false;
			break;
		}
		n = min(n, left);
		left -= n;
		req->una = snic_psn_add(req->una, n);
		if (!snic_send_retire(qp))
			return false;
	}
	n = snic_psn_fwd(req->una, una);
	if (n) {
		comp_progress(qp, n);
		/* Answered by what was sent before a restart: no need to send it again. */
		if (sent < n)
			snic_req_seek(qp, req->una);
	}
	return complete;
}

/*
 * The answer @pkt shows that packets from una on were lost: go back. Answers to
 * what was sent before that keep coming, and acknowledgements may repeat a PSN:
 * until una moves again only a READ response counts that is no further ahead than
 * the first one to tell of the loss, since it answers the second try.
 */
static void comp_lost(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_req *req = &qp->req;
	u32 dist = snic_psn_fwd(pkt->psn, req->una);

	if (req->rnr_wait)
		return;
	if (req->restarted && (dist > req->lost_dist || !(pkt->flags & SNIC_PKT_READ)))
		return;
	snic_retry_lost(qp, false);
	req->restarted = true;
	req->lost_dist = dist;
}

/* The peer expects una: whatever it was sent since is gone. */
static void comp_nak_seq(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_SEQ_NAK_RCVD);
	if (qp->req.rnr_wait && !qp->req.absent_wait)
		return;
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

/*
 * Is @pkt the refusal of the READ being answered? Its PSN may be that of the
 * response owed, of one behind responses that were lost, or of the request, part of
 * which is answered already (soft-RoCE). What was answered in full before is not
 * refused: such a NAK is stale.
 */
static bool comp_refuses_read(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	const struct snic_req *req = &qp->req;
	const struct snic_out *out = &req->out[req->head % SNIC_OUT_MSGS];
	u32 chunk = SNIC_READ_CHUNK >> qp->mtu_shift, first, end;
	u8 syndrome = (u8)(pkt->aeth >> 24);

	if ((syndrome & SIRDMA_AETH_KIND) != SIRDMA_AETH_NAK ||
	    (syndrome & SIRDMA_AETH_VALUE) == SIRDMA_NAK_PSN_SEQ)
		return false;
	if (req->head == req->tail || !snic_op_is_read(out->op) || (out->flags & SNIC_OUT_FAILED) ||
	    !snic_req_in_flight(req))
		return false;
	/* The request una belongs to began no earlier than this. */
	first = snic_psn_fwd(req->una, out->psn);
	first = snic_psn_add(out->psn, first - first % chunk);
	end = min(snic_psn_fwd(req->max, first),
		  snic_psn_fwd(snic_psn_add(out->psn, snic_out_pkts(qp, out)), first));
	return snic_psn_fwd(pkt->psn, first) < end;
}

static void comp_rnr(struct snic_qp *qp, u8 timer)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_NAK_RCVD);
	/* A copy of the NAK already obeyed. */
	if (qp->req.rnr_wait)
		return;
	snic_retry_rnr(qp, timer);
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

/* Is @pkt as long as the response at offset @off of the READ @out must be? */
static bool read_len_ok(const struct snic_qp *qp, const struct snic_out *out, u32 off,
			const struct snic_pkt *pkt)
{
	u32 left = out->len - off;

	if (pkt->payload_len != min(left, pkt->npkts << qp->mtu_shift) ||
	    pkt->npkts != snic_qp_pkts(qp, pkt->payload_len))
		return false;
	/* Where requests before the last one end depends on which try of them this answers. */
	return left > pkt->payload_len || (pkt->flags & SNIC_PKT_LAST);
}

enum comp_placed {
	COMP_PLACED,
	COMP_LOST, /* its payload is not to be had any more */
	COMP_ABSENT, /* there is no memory for it for now */
	COMP_FAILED, /* so did the READ */
};

/* The READ response at una: place it. */
static enum comp_placed comp_place(struct snic_qp *qp, const struct snic_pkt *pkt,
				   const struct snic_rx_pkt *rx)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out = snic_out_at(req, req->head);
	u32 off = snic_psn_fwd(req->una, out->psn) << qp->mtu_shift;
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);
	enum sirdma_ae_code ae;

	if (!read_len_ok(qp, out, off, pkt)) {
		snic_send_mark_failed(qp, out, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		return COMP_FAILED;
	}
	if (!req->rd_valid || req->rd_slot != req->head) {
		req->rd_valid = snic_send_reload(qp, req->head, &req->rd_sqe);
		req->rd_slot = req->head;
		if (!req->rd_valid)
			return COMP_FAILED;
	}
	switch (snic_sge_scatter(qp, req->rd_sqe.sge, req->rd_sqe.nsge, off, &it, pkt->payload_len,
				 &ae)) {
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

/* Let the response go, and ask for it again when there may be memory for it. */
static void comp_absent(struct snic_qp *qp)
{
	if (qp->req.rnr_wait)
		return;
	snic_req_restart(qp);
	snic_retry_absent(qp);
}

static void comp_read_resp(struct snic_qp *qp, const struct snic_pkt *pkt,
			   const struct snic_rx_pkt *rx)
{
	struct snic_req *req = &qp->req;
	struct snic_out *out;
	bool complete;

	complete = comp_ack_before(qp, pkt->psn);
	if (!snic_qp_can_send(qp))
		return;
	out = snic_out_at(req, req->head);
	if (!complete || req->head == req->tail) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
		comp_lost(qp, pkt);
		return;
	}
	if (!snic_op_is_read(out->op) || (out->flags & SNIC_OUT_FAILED)) {
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

	if (!(pkt->flags & SNIC_PKT_READ) && comp_refuses_read(qp, pkt)) {
		comp_nak(qp, (pkt->aeth >> 24) & SIRDMA_AETH_VALUE);
		return;
	}
	/* Only what was sent and not answered can be answered: stale answers are dropped. */
	if (snic_psn_fwd(pkt->psn, req->una) >= snic_psn_fwd(req->max, req->una)) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_STALE_ACK);
		return;
	}
	if (pkt->flags & SNIC_PKT_READ)
		comp_read_resp(qp, pkt, rx);
	else
		comp_aeth(qp, pkt);
}
