/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requester of RC: send queue to request packets. QP lock held throughout. */
#ifndef SNIC_REQUESTER_H
#define SNIC_REQUESTER_H

#include "send.h"
#include "window.h"

/* The QP enters RTS from RTR: start at the send PSN that modify set. */
void snic_req_start(struct snic_qp *qp);
/* Send as many packets as window and host allow. When the send queue is empty, ask for a kick. */
void snic_req_run(struct snic_qp *qp);
/* Ask for an acknowledgement of @pkt. */
static inline void snic_req_ask_ack(struct snic_req *req, struct snic_tx_pkt *pkt)
{
	snic_pkt_set_ackreq(pkt);
	req->unasked = 0;
}

/* @pkt is in the burst: ask for an acknowledgement, if it is time. */
static inline void snic_req_added(struct snic_req *req, struct snic_tx_pkt *pkt)
{
	if (++req->unasked >= req->ask_after)
		snic_req_ask_ack(req, pkt);
}

/* The burst is to have packets of @out. */
static inline void snic_req_note(struct snic_tx *tx, const struct snic_out *out)
{
	if (!PORT_WIRE_IN_MEMORY)
		return;
	tx->signaled |= (out->flags & SNIC_OUT_SIGNALED) != 0;
	tx->needs_ack |= tx->signaled || out->len > SNIC_WIN_SMALL || out->op != SIRDMA_OP_WRITE;
}

/* Was an answer to a packet in flight asked for? */
static inline bool snic_req_was_asked(const struct snic_req *req)
{
	return snic_psn_fwd(req->max, req->una) > req->unasked;
}

/* Send one burst. */
enum snic_send_stop snic_req_burst(struct snic_qp *qp);
/*
 * Continue at @psn: back for a retransmission, or forward when answers overtook a retransmission.
 */
void snic_req_seek(struct snic_qp *qp, u32 psn);
/*
 * Packets are in flight. If no answer to any of them was asked for, repeat the last one and ask, once. Returns
 * false if an answer was asked for already.
 */
bool snic_req_request_ack(struct snic_qp *qp);
/* Retransmit all packets from una on. */
void snic_req_restart(struct snic_qp *qp);

#endif
