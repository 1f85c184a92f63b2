/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Explicit congestion notification (annex A17.9.3) of reliable transports. A switch marks packets whose traffic
 * class allows that (RFC 3168: ECT) before it has to drop any. The receiver of a marked packet sends a congestion
 * notification packet (CNP) to its sender, which then reduces its window. QP lock held throughout.
 *
 * Only packets with payload count: the network on the way of acknowledgements is not that of the data.
 * The requester's window also limits the responses to its READs, so it reacts to their marks itself. A responder
 * that gets a CNP has no window to reduce.
 */
#ifndef SNIC_CNP_H
#define SNIC_CNP_H

#include "transport.h"

static inline bool snic_is_cnp(const struct snic_pkt *pkt)
{
	return pkt->opcode == (SIRDMA_BTH_CNP | SIRDMA_BTH_CNP_OPERATION);
}

/* May @pkt be a CNP of the QP's peer? Nobody marks the packets of a QP whose traffic class is not ECT. */
bool snic_cnp_admit(const struct snic_qp *qp, const struct snic_pkt *pkt);
/* The QP has accepted a CNP. */
void snic_cnp_rx(struct snic_qp *qp);

static inline bool snic_is_marked(const struct snic_rx_pkt *rx)
{
	return (rx->traffic_class & SIRDMA_ECN_MASK) == SIRDMA_ECN_CE;
}

/* Received @pkt, which is marked, and which was expected. */
void snic_cnp_marked(struct snic_qp *qp, const struct snic_pkt *pkt);

#endif
