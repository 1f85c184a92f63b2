/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How much a requester may have in flight. QP lock held throughout. */
#ifndef SNIC_WINDOW_H
#define SNIC_WINDOW_H

#include "qp.h"

/* RTS entered from RTR. */
void snic_win_start(struct snic_qp *qp);
/* @npkts more packets are acknowledged; una has moved. */
void snic_win_progress(struct snic_qp *qp, u32 npkts);
/* Packets were lost. @silence: it was the timer that noticed. */
void snic_win_loss(struct snic_qp *qp, bool silence);
/* The receiver was not ready: one packet asks whether it is now. */
void snic_win_probe(struct snic_qp *qp);
/* Packets that may still be sent. */
u32 snic_win_left(const struct snic_qp *qp);
/*
 * How many of the @want packets of a SEND or WRITE of @len bytes to send now; 0:
 * wait for an acknowledgement.
 */
u32 snic_win_burst(const struct snic_qp *qp, u32 len, u32 want);
/*
 * The READ packets asked for next end at a multiple of this many, counted from their
 * message. A power of two.
 */
u32 snic_win_piece(const struct snic_qp *qp);

#endif
