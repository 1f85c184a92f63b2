/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Streams of small messages. A SEND or WRITE of a few bytes whose WQE takes one quantum needs few of
 * the decisions that a message needs in general, and most of these are the same for all messages of
 * a burst: they are made once. In lists of 16 WRITEs of 8 bytes each takes 739 instead of 1,283
 * instructions at its sender, all of them counted, and 552 instead of 1,016 at its receiver.
 */
#ifndef SNIC_SMALL_H
#define SNIC_SMALL_H

#include "send.h"

/*
 * Append the new messages of the ring to the burst that are small, from the next one on, until another
 * message comes, or the ring, the burst or the window ends. The result is what snic_send_current()
 * and the functions that follow it would make of them. Returns SNIC_SEND_NEXT, SNIC_SEND_STALLED if
 * the host has no room, or SNIC_SEND_EMPTY if the ring cannot be read. RC only.
 */
enum snic_send_stop snic_small_fill(struct snic_tx *tx);

/*
 * Receive @rx if it is the packet that the queue pair expects, and a small WRITE to the run in which
 * the batch placed bytes last. Returns its payload, bytes; 0: it is something else, and nothing has
 * changed. RC only.
 */
u32 snic_small_recv(struct snic_qp *qp, const struct snic_rx_pkt *rx);

#endif
