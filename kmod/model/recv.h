/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receiving SENDs and WRITEs, for all transports. QP lock held throughout. */
#ifndef SNIC_RECV_H
#define SNIC_RECV_H

#include "qp.h"

/* Result of handling a request packet. */
enum snic_recv_verdict {
	SNIC_RECV_DONE,
	SNIC_RECV_RNR, /* receiver not ready: no receive WQE, or its memory is absent */
	SNIC_RECV_LOST, /* the payload cannot be read any more: the packet counts as lost */
	SNIC_RECV_NAK_INVALID, /* NAK invalid request */
	SNIC_RECV_NAK_ACCESS, /* NAK remote access error */
	SNIC_RECV_NAK_OP, /* NAK remote operational error */
};

/* Begin a request packet: forget how an earlier request failed. */
static inline void snic_recv_begin(struct snic_resp *resp)
{
	resp->fail_ae = SIRDMA_AE_NONE;
	resp->fail_minor = SIRDMA_FLUSH_INVALID;
	resp->fail_vendor = SIRDMA_VENDOR_NONE;
}

/* Are opcode sequence and payload length valid? */
bool snic_recv_format_ok(const struct snic_qp *qp, const struct snic_pkt *pkt);
/* Place a SEND or WRITE packet, and complete its receive WQE when it is the last. */
enum snic_recv_verdict snic_recv_data(struct snic_qp *qp, const struct snic_pkt *pkt,
				      const struct snic_rx_pkt *rx);
/*
 * Place a datagram after its GRH, and complete its receive WQE. NAK_INVALID: the WQE has no room
 * for the datagram, and stays fetched.
 */
enum snic_recv_verdict snic_recv_datagram(struct snic_qp *qp, const struct snic_pkt *pkt,
					  const struct snic_rx_pkt *rx);
/* @pkt, at epsn, is handled: expect the next PSN. */
static inline void snic_recv_advance(struct snic_resp *resp, const struct snic_pkt *pkt)
{
	resp->epsn = snic_psn_add(resp->epsn, pkt->npkts);
	resp->in_msg = 0;
	if (pkt->flags & SNIC_PKT_LAST)
		resp->msn = snic_psn_add(resp->msn, 1);
	else
		resp->in_msg = pkt->flags & (SNIC_PKT_SEND | SNIC_PKT_WRITE);
}

/*
 * A SEND with invalidate waits: invalidate its key when the READs before it are answered, and
 * complete its receive WQE when the key is invalid. Returns false if the SEND still waits, or if
 * the QP has failed.
 */
bool snic_recv_end_wait(struct snic_qp *qp);
/* Raise the event for the first packet that arrives in RTR. */
void snic_recv_report_established(struct snic_qp *qp);

/* In RTR, report that a packet arrived: the CM's RTU message may be late or lost (IBTA 11.6.3). */
static inline void snic_recv_established(struct snic_qp *qp)
{
	if (!qp->resp.comm_est && qp->state == SIRDMA_QPS_RTR)
		snic_recv_report_established(qp);
}

/* Report by the receive WQE or by an event how the request failed, and fail the QP. */
void snic_recv_fail(struct snic_qp *qp);

#endif
