/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Explicit congestion notification (annex A17.9.3) of reliable transports. A switch marks packets whose traffic
 * class allows that (RFC 3168: ECT) before it has to drop any. Who receives a marked packet sends its
 * sender a congestion notification packet (CNP), and who gets that reduces its window. QP lock held throughout.
 */
#ifndef SNIC_CNP_H
#define SNIC_CNP_H

#include "transport.h"

/* A transport without acknowledgements has no window that could be reduced. */
static inline bool snic_cnp_applies(const struct snic_qp *qp)
{
	return snic_transport_op(qp, rx_done) != NULL;
}

static inline bool snic_is_cnp(const struct snic_pkt *pkt)
{
	return pkt->opcode == (SIRDMA_BTH_CNP | SIRDMA_BTH_CNP_OPERATION);
}

/* The QP has accepted a CNP. */
void snic_cnp_rx(struct snic_qp *qp);

static inline bool snic_is_marked(const struct snic_rx_pkt *rx)
{
	return (rx->traffic_class & SIRDMA_ECN) == SIRDMA_ECN_CE;
}

/* The QP has accepted @pkt, which is marked. */
void snic_cnp_marked(struct snic_qp *qp, const struct snic_pkt *pkt);

#endif
