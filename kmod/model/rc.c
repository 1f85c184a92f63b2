// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Reliable connection (IBTA 9.7): the operations of the transport. The work is done in
 * requester.c, completer.c, responder.c, read_resp.c and retry.c.
 */
#include "completer.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "transport.h"

bool snic_reliable_fits(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	const struct snic_req *req = &qp->req;

	if (!(pkt->flags & SNIC_PKT_RESP))
		return pkt->psn == qp->resp.epsn;
	return snic_psn_fwd(pkt->psn, req->una) + pkt->npkts <= snic_psn_fwd(req->max, req->una);
}

/*
 * Answer a request, or let the requester use the window that a response opened. While more packets
 * of the flow follow, both wait for the last of them, except that a NAK is sent at once. The next
 * packet may be dropped or belong to another QP, so the QP is deferred as well: snic_qp_run() then
 * does the remaining work.
 */
void snic_reliable_rx_done(struct snic_qp *qp, bool response, bool more)
{
	if (more && qp->resp.owed < SNIC_ACK_COALESCE && !(qp->resp.ack_due && qp->resp.nak_sent)) {
		if (response || snic_resp_pending(qp))
			snic_qp_defer(qp);
		return;
	}
	/*
	 * The twin's acknowledgement of a request before the response waits for what the program posts, and the
	 * QP is deferred.
	 */
	if (!PORT_WIRE_IN_MEMORY || !response || !qp->deferred || !snic_resp_ack_can_follow(qp))
		snic_resp_run(qp);
	/* While the ring is empty, and nothing is in flight, there is nothing to send until a kick. */
	if (response && (qp->req.awake || snic_req_in_flight(&qp->req)))
		snic_req_run(qp);
}

const struct snic_transport snic_rc = {
	.sq_ops = SNIC_SQ_OPS_SEND_WRITE | SNIC_SQ_OP(READ) | SNIC_SQ_OP(CMP_SWAP) |
		  SNIC_SQ_OP(FETCH_ADD) | SNIC_SQ_OP(SEND_INV) | SNIC_SQ_OP(SEND_SOL_INV) |
		  SNIC_SQ_OP(READ_LOC_INV) | SNIC_SQ_OP(LOCAL_INV) | SNIC_SQ_OP(BIND_MW) |
		  SNIC_SQ_OP(FAST_REG) | SNIC_SQ_OP(FLUSH) | SNIC_SQ_OP(ATOMIC_WRITE),
	.bth = SIRDMA_BTH_RC,
	.recv_start = snic_connected_recv_start,
	.send_start = snic_req_start,
	.admit = snic_connected_admit,
	.fits = snic_reliable_fits,
	.rx_request = snic_resp_rx,
	.rx_response = snic_comp_rx,
	.rx_done = snic_reliable_rx_done,
	.respond = snic_resp_run,
	.request = snic_req_run,
	.burst = snic_req_burst,
	.timer_due = snic_retry_due,
	.timer_expired = snic_retry_expired,
};
