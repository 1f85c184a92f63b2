/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests to receive: what all transports do with SENDs and WRITEs. QP lock held throughout. */
#ifndef SNIC_RECV_H
#define SNIC_RECV_H

#include "qp.h"

/* What a request comes to. */
enum snic_recv_verdict {
	SNIC_RECV_DONE,
	SNIC_RECV_RNR, /* no receive WQE, or no memory for now */
	SNIC_RECV_LOST, /* its payload is not to be had any more */
	SNIC_RECV_NAK_INVALID, /* NAK invalid request */
	SNIC_RECV_NAK_ACCESS, /* NAK remote access error */
	SNIC_RECV_NAK_OP, /* NAK remote operational error */
};

/* A request is about to be handled: no failure of one before is reported for it. */
void snic_recv_begin(struct snic_resp *resp);
/* Do opcode sequence and payload length fit what came before? */
bool snic_recv_shape_ok(const struct snic_qp *qp, const struct snic_pkt *pkt);
/* Place a SEND or WRITE packet, and complete its receive WQE when it is the last. */
enum snic_recv_verdict snic_recv_data(struct snic_qp *qp, const struct snic_pkt *pkt,
				      const struct snic_rx_pkt *rx);
/* @pkt at epsn is done. */
void snic_recv_took(struct snic_resp *resp, const struct snic_pkt *pkt);
/* The first packet shows that the connection works, should RTU be late (IBTA 11.6.3). */
void snic_recv_established(struct snic_qp *qp);
/* The failure of the request is reported here, by its receive WQE or an event, and the QP fails. */
void snic_recv_fail(struct snic_qp *qp);

#endif
