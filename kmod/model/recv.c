// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receiving SENDs, WRITEs and datagrams, for all transports: checks opcode sequence, length and
 * access rights in this order (IBTA 9.7.4), and places the payload.
 */
#include "recv.h"

#include "frame.h"
#include "retry.h"
#include "sge.h"
#include "srq.h"
#include "transport.h"
#include "xrc.h"

/*
 * Record how the current request fails. snic_recv_fail() reports the failure once the NAK is sent.
 */
static void recv_set_failure(struct snic_resp *resp, enum sirdma_ae_code ae, u16 minor, u32 vendor)
{
	resp->fail_ae = (u16)ae;
	resp->fail_minor = minor;
	resp->fail_vendor = vendor;
}

/* IBTA 9.7.4.1.4 and 9.7.4.1.6 give the rules. */
bool snic_recv_format_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
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

/*
 * May a shared queue that is short of WQEs refuse the QP one in favour of others? Only if the peer
 * repeats the request soon, and as often as it takes. A datagram is not repeated; a QP of rdma_cm
 * asks its peer to wait for 655 ms; a peer with few retries would fail. The responder does not know
 * the retry limit of the peer, and takes its own limit: connections usually have the same at both
 * ends. An XRC target receives from several queues, and waits at none of them.
 */
static bool recv_may_defer(const struct snic_qp *qp)
{
	return qp->rnr_retry == SNIC_RNR_RETRY_INFINITE && !qp->transport->is_datagram &&
	       !qp->xrc && 2 * snic_rnr_ns(qp->min_rnr_timer) <= SNIC_SRQ_RETRY_NS;
}

/* Fetch a receive WQE, unless the message has one. */
static enum snic_recv_verdict recv_fetch_rqe(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_wqe_status status;

	if (resp->rqe_valid)
		return SNIC_RECV_DONE;
	status = qp->srq ? snic_srq_fetch(qp->srq, &qp->srq_share, recv_may_defer(qp), &resp->rqe) :
			   snic_rq_fetch(&qp->own_rq, &resp->rqe);
	if (status == SNIC_WQE_NONE)
		return SNIC_RECV_RNR;
	resp->rqe_valid = true;
	resp->recv_len = 0;
	if (status == SNIC_WQE_OK)
		return SNIC_RECV_DONE;
	snic_stat_inc(qp->dev, SIRDMA_STAT_WQE_INVALID);
	recv_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	return SNIC_RECV_NAK_OP;
}

/* The message that used the receive WQE is complete. */
static bool recv_complete(struct snic_qp *qp, const struct snic_pkt *pkt, u32 len)
{
	struct snic_completion c = {
		.wqe_idx = qp->resp.rqe.idx,
		.len = len,
		.op = pkt->opcode & SIRDMA_BTH_OPERATION,
		.has_imm = pkt->flags & SNIC_PKT_IMM,
		.imm = pkt->imm,
		.solicited = pkt->solicited,
	};

	qp->resp.rqe_valid = false;
	return snic_qp_complete_recv(qp, &c);
}

/* The same for a SEND with invalidate whose key is invalid now. */
static bool recv_complete_inv(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	struct snic_completion c = {
		.wqe_idx = resp->rqe.idx,
		.len = resp->recv_len,
		.op = resp->inv_op,
		.has_inv = true,
		.inv_stag = resp->inv_stag,
		.solicited = resp->inv_solicited,
	};

	resp->rqe_valid = false;
	return snic_qp_complete_recv(qp, &c);
}

static void recv_fail_invalidate(struct snic_resp *resp)
{
	resp->inv_wait = false;
	recv_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
}

/*
 * Invalidate the stag that the peer named. resp->inv_wait is set if the invalidation is not done
 * yet. Returns false when the device refuses it.
 */
static bool recv_invalidate(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_inv_result ret =
		snic_inv_start(&qp->inv[SNIC_INV_RQ], resp->inv_stag, SNIC_INV_REMOTE);

	resp->inv_wait = ret == SNIC_INV_WAIT || ret == SNIC_INV_AGAIN;
	resp->inv_started = ret == SNIC_INV_WAIT;
	if (ret == SNIC_INV_REFUSED)
		recv_fail_invalidate(resp);
	return ret != SNIC_INV_REFUSED;
}

/* Invalidate after the packet is gone. An XRC target has to take its queue again for that. */
static bool recv_invalidate_late(struct snic_qp *qp)
{
	bool ok;

	if (likely(!qp->xrc))
		return recv_invalidate(qp);
	ok = snic_xrc_bind(qp, qp->xrc->queue);
	if (!ok)
		recv_fail_invalidate(&qp->resp);
	else
		ok = recv_invalidate(qp);
	snic_xrc_unbind(qp);
	return ok;
}

bool snic_recv_end_wait(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	/*
	 * Earlier READs may need the key. If one of them is refused, the requests after it are
	 * refused, too.
	 */
	if (resp->fatal || (!resp->inv_started && resp->rd_pending))
		return false;
	if (resp->inv_started) {
		resp->inv_wait = !snic_inv_finish(&qp->inv[SNIC_INV_RQ]);
	} else if (!recv_invalidate_late(qp)) {
		/* The key changed after the SEND was acknowledged: no NAK can follow. */
		snic_recv_fail(qp);
		return false;
	}
	if (resp->inv_wait)
		return false;
	return recv_complete_inv(qp);
}

/* The datagram is placed: complete its receive WQE. */
static bool recv_complete_datagram(struct snic_qp *qp, const struct snic_pkt *pkt,
				   const struct snic_rx_pkt *rx)
{
	struct snic_completion c = {
		.wqe_idx = qp->resp.rqe.idx,
		.len = SIRDMA_GRH_LEN + pkt->payload_len,
		.op = pkt->opcode & SIRDMA_BTH_OPERATION,
		.has_imm = pkt->flags & SNIC_PKT_IMM,
		.imm = pkt->imm,
		.solicited = pkt->solicited,
		.is_datagram = true,
		.is_v4 = rx->is_v4,
		.src_qpn = pkt->src_qpn,
	};

	if (rx->vlan_id && (qp->queue_flags & SIRDMA_QPC_RECV_MAC)) {
		c.has_mac = true;
		c.src_mac = sirdma_mac_to_word(rx->src_mac);
		c.vlan_id = rx->vlan_id;
	}
	qp->resp.rqe_valid = false;
	return snic_qp_complete_recv(qp, &c);
}

/*
 * The IP header in the place of the GRH (annex A17.4.5.1): that of IPv4 is the second half. The
 * host did not keep the identification and the fragment offset: they get the values of our own
 * packets.
 */
static void recv_build_grh(const struct snic_rx_pkt *rx, u8 *grh)
{
	const struct snic_flow flow = {
		.src_ip = rx->src_ip,
		.dst_ip = rx->dst_ip,
		.flow_label = rx->flow_label,
		.is_v4 = rx->is_v4,
		.traffic_class = rx->traffic_class,
		.hop_limit = rx->ttl,
	};
	u32 hlen = rx->is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN;

	memset(grh, 0, SIRDMA_GRH_LEN - hlen);
	snic_frame_ip_header(&flow, hlen + SNIC_UDP_HLEN + rx->len, grh + SIRDMA_GRH_LEN - hlen);
}

/*
 * A receiver whose memory is absent is not ready: the requester repeats the packet after an
 * RNR NAK.
 */
static enum snic_recv_verdict recv_placed(enum snic_placed placed)
{
	switch (placed) {
	case SNIC_PLACED:
		return SNIC_RECV_DONE;
	case SNIC_PLACE_LOST:
		return SNIC_RECV_LOST;
	case SNIC_PLACE_ABSENT:
		return SNIC_RECV_RNR;
	default:
		return SNIC_RECV_NAK_OP;
	}
}

/* The last packet of a SEND with invalidate is placed. */
static enum snic_recv_verdict recv_end_inv(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct snic_resp *resp = &qp->resp;

	resp->inv_op = pkt->opcode & SIRDMA_BTH_OPERATION;
	resp->inv_solicited = pkt->solicited;
	resp->inv_stag = pkt->rkey;
	/*
	 * READs accepted before may need the key: snic_recv_end_wait() invalidates it when they are
	 * answered. No NAK can follow then, so check the key now.
	 */
	if (resp->rd_pending) {
		if (!snic_mr_may_invalidate(qp->dev, resp->inv_stag, qp->pd, qp->obj.id,
					    SNIC_INV_REMOTE)) {
			recv_fail_invalidate(resp);
			return SNIC_RECV_NAK_ACCESS;
		}
		resp->inv_wait = true;
		resp->inv_started = false;
		return SNIC_RECV_DONE;
	}
	if (!recv_invalidate(qp))
		return SNIC_RECV_NAK_ACCESS;
	if (!resp->inv_wait)
		recv_complete_inv(qp);
	return SNIC_RECV_DONE;
}

static enum snic_recv_verdict recv_send(struct snic_qp *qp, const struct snic_pkt *pkt,
					const struct snic_rx_pkt *rx)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);
	struct snic_resp *resp = &qp->resp;
	enum snic_recv_verdict verdict;
	enum sirdma_ae_code ae;

	verdict = recv_fetch_rqe(qp);
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	if (pkt->payload_len > resp->rqe.len - resp->recv_len) {
		recv_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		return SNIC_RECV_NAK_INVALID;
	}
	verdict = recv_placed(snic_sge_scatter(qp, SNIC_RESPONDER, resp->rqe.sge, resp->rqe.nsge,
					       resp->recv_len, &it, pkt->payload_len, &ae));
	if (verdict == SNIC_RECV_NAK_OP)
		recv_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	resp->recv_len += pkt->payload_len;
	if (pkt->flags & SNIC_PKT_INV)
		return recv_end_inv(qp, pkt);
	if (pkt->flags & SNIC_PKT_LAST)
		recv_complete(qp, pkt, resp->recv_len);
	return SNIC_RECV_DONE;
}

enum snic_recv_verdict snic_recv_datagram(struct snic_qp *qp, const struct snic_pkt *pkt,
					  const struct snic_rx_pkt *rx)
{
	struct snic_seg_iter payload = snic_pkt_payload(pkt, rx), it;
	struct snic_resp *resp = &qp->resp;
	const struct snic_rqe *rqe = &resp->rqe;
	u8 grh[SIRDMA_GRH_LEN];
	const struct snic_seg seg = {.ptr = grh, .len = sizeof(grh)};
	enum snic_recv_verdict verdict;
	enum sirdma_ae_code ae;

	verdict = recv_fetch_rqe(qp);
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	if (rqe->len < SIRDMA_GRH_LEN || pkt->payload_len > rqe->len - SIRDMA_GRH_LEN)
		return SNIC_RECV_NAK_INVALID;
	recv_build_grh(rx, grh);
	it = (struct snic_seg_iter){.seg = &seg};
	verdict = recv_placed(snic_sge_scatter(qp, SNIC_RESPONDER, rqe->sge, rqe->nsge, 0, &it,
					       SIRDMA_GRH_LEN, &ae));
	if (verdict == SNIC_RECV_DONE)
		verdict = recv_placed(snic_sge_scatter(qp, SNIC_RESPONDER, rqe->sge, rqe->nsge,
						       SIRDMA_GRH_LEN, &payload, pkt->payload_len,
						       &ae));
	if (verdict == SNIC_RECV_NAK_OP)
		recv_set_failure(resp, SIRDMA_AE_NONE, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	if (verdict == SNIC_RECV_DONE)
		recv_complete_datagram(qp, pkt, rx);
	return verdict;
}

/*
 * Check the RETH of a WRITE and remember where its payload goes. *@mr: the region, if the WRITE has
 * any.
 */
static enum snic_recv_verdict recv_write_begin(struct snic_qp *qp, const struct snic_pkt *pkt,
					       struct snic_mr **mr)
{
	struct snic_resp *resp = &qp->resp;
	enum sirdma_ae_code ae;

	if (!(qp->access & SIRDMA_ACCESS_REMOTE_WRITE) || pkt->dma_len > SIRDMA_MAX_MSG_SIZE)
		return SNIC_RECV_NAK_INVALID;
	resp->wr_va = pkt->va;
	resp->wr_rkey = pkt->rkey;
	resp->wr_left = pkt->dma_len;
	/* An empty WRITE needs no valid key (IBTA 9.7.4.1.7). */
	if (!pkt->dma_len)
		return SNIC_RECV_DONE;
	/* Check the whole range before the first byte is written. */
	*mr = snic_qp_rx_mr(qp, qp->pd, pkt->rkey, pkt->va, pkt->dma_len,
			    SIRDMA_ACCESS_REMOTE_WRITE, &ae);
	if (!*mr) {
		recv_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		return SNIC_RECV_NAK_ACCESS;
	}
	return SNIC_RECV_DONE;
}

/* @mr: the region if the caller looked it up for this packet, or NULL. */
static enum snic_recv_verdict recv_write_place(struct snic_qp *qp, const struct snic_pkt *pkt,
					       const struct snic_rx_pkt *rx, struct snic_mr *mr)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);
	struct snic_resp *resp = &qp->resp;
	enum snic_recv_verdict verdict;
	enum sirdma_ae_code ae;

	if (!pkt->payload_len)
		return SNIC_RECV_DONE;
	/*
	 * Look the region up for each packet: the application may have deregistered it since the
	 * last one.
	 */
	if (!mr)
		mr = snic_qp_rx_mr(qp, qp->pd, resp->wr_rkey, resp->wr_va, pkt->payload_len,
				   SIRDMA_ACCESS_REMOTE_WRITE, &ae);
	if (!mr) {
		recv_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		return SNIC_RECV_NAK_ACCESS;
	}
	verdict = recv_placed(snic_qp_copy_in(qp, SNIC_RESPONDER, resp->wr_va, &it,
					      pkt->payload_len, resp->wr_left, &ae));
	if (verdict == SNIC_RECV_NAK_OP) {
		recv_set_failure(resp, ae, SIRDMA_FLUSH_INVALID, SIRDMA_VENDOR_NONE);
		/* The application took the memory away: the peer may not write there. */
		if (ae != SIRDMA_AE_QP_CATASTROPHIC)
			verdict = SNIC_RECV_NAK_ACCESS;
	}
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	resp->wr_va += pkt->payload_len;
	resp->wr_left -= pkt->payload_len;
	return SNIC_RECV_DONE;
}

static enum snic_recv_verdict recv_write(struct snic_qp *qp, const struct snic_pkt *pkt,
					 const struct snic_rx_pkt *rx)
{
	struct snic_resp *resp = &qp->resp;
	enum snic_recv_verdict verdict = SNIC_RECV_DONE;
	struct snic_mr *mr = NULL;
	u32 left;

	/* Check everything before any state changes: after an RNR NAK the packet comes again. */
	left = (pkt->flags & SNIC_PKT_FIRST) ? pkt->dma_len : resp->wr_left;
	if (pkt->flags & SNIC_PKT_LAST ? pkt->payload_len != left : pkt->payload_len >= left)
		return SNIC_RECV_NAK_INVALID;
	if (pkt->flags & SNIC_PKT_IMM)
		verdict = recv_fetch_rqe(qp);
	if (verdict == SNIC_RECV_DONE && (pkt->flags & SNIC_PKT_FIRST)) {
		verdict = recv_write_begin(qp, pkt, &mr);
		resp->wr_total = pkt->dma_len;
	}
	if (verdict == SNIC_RECV_DONE)
		verdict = recv_write_place(qp, pkt, rx, mr);
	if (verdict == SNIC_RECV_DONE && (pkt->flags & SNIC_PKT_IMM))
		recv_complete(qp, pkt, resp->wr_total);
	return verdict;
}

enum snic_recv_verdict snic_recv_data(struct snic_qp *qp, const struct snic_pkt *pkt,
				      const struct snic_rx_pkt *rx)
{
	if (!snic_recv_format_ok(qp, pkt))
		return SNIC_RECV_NAK_INVALID;
	return pkt->flags & SNIC_PKT_SEND ? recv_send(qp, pkt, rx) : recv_write(qp, pkt, rx);
}

void snic_recv_report_established(struct snic_qp *qp)
{
	qp->resp.comm_est = true;
	snic_aeq_post(qp->dev, &qp->async, SIRDMA_AE_CONNECTION_ESTABLISHED, SIRDMA_AE_SRC_RQ, 0,
		      qp->state);
}

void snic_recv_fail(struct snic_qp *qp)
{
	struct snic_resp *resp = &qp->resp;

	if (resp->fail_minor && resp->rqe_valid &&
	    !snic_qp_fail_recv(qp, resp->fail_minor, resp->fail_vendor))
		return;
	snic_qp_fail(qp, (enum sirdma_ae_code)resp->fail_ae, SIRDMA_AE_SRC_RQ);
}
