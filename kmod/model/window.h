/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Congestion window of the requester. QP lock held throughout. */
#ifndef SNIC_WINDOW_H
#define SNIC_WINDOW_H

#include "qp.h"

/* The QP enters RTS from RTR. */
void snic_win_start(struct snic_qp *qp);
/* @npkts packets were acknowledged; una has moved. */
void snic_win_progress(struct snic_qp *qp, u32 npkts);
/* Packets were lost. @timeout: the ACK timer detected the loss. */
void snic_win_loss(struct snic_qp *qp, bool timeout);
/* The network is congested: packets were marked. */
void snic_win_congested(struct snic_qp *qp);
/* After an RNR wait, begin with one packet, and double until cwnd is reached. */
void snic_win_probe(struct snic_qp *qp);
/* The number of packets that the requester may still send. */
u32 snic_win_left(const struct snic_qp *qp);
/*
 * Messages of so many bytes are small: their packets are counted by the memory that their buffers take at the
 * receiver.
 */
#define SNIC_WIN_SMALL 256u
/* The number of small messages that the requester may still send. */
u32 snic_win_small(const struct snic_qp *qp);
/*
 * How many of @want packets, of a SEND or WRITE of @len bytes, the requester may send now; 0: an
 * acknowledgement must come first.
 */
u32 snic_win_burst(const struct snic_qp *qp, u32 len, u32 want);
/*
 * Length of the next READ request, in response packets. The length is a power of two: requests end
 * at multiples of it, counted from the start of their message.
 */
u32 snic_win_read_pkts(const struct snic_qp *qp);

#endif
