/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completer: what the peer answers. QP lock held throughout. */
#ifndef SNIC_COMPLETER_H
#define SNIC_COMPLETER_H

#include "qp.h"

/* An ACK, NAK or READ response arrived. */
void snic_comp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/*
 * Complete the oldest messages as far as they are done, local and failed ones
 * included. False when the QP left the states that send.
 */
bool snic_comp_retire(struct snic_qp *qp);
/* Fail the oldest message in flight, and with it the QP. */
void snic_comp_fail_oldest(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
