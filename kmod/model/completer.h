/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completer: handles ACKs, NAKs and READ responses. QP lock held throughout. */
#ifndef SNIC_COMPLETER_H
#define SNIC_COMPLETER_H

#include "qp.h"

/* An ACK, NAK or READ response arrived. */
void snic_comp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/*
 * An ACK of the packet @psn arrived, while no READ or atomic is outstanding. Returns false if no such packet
 * is in flight, and nothing has changed.
 */
bool snic_comp_ack(struct snic_qp *qp, u32 psn);
/*
 * The oldest message has waited for an invalidation, while answers were dropped. Fail the QP if the
 * peer has failed meanwhile. Returns false if the QP cannot send.
 */
bool snic_comp_end_wait(struct snic_qp *qp);

#endif
