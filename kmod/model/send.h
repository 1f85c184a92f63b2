/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Send queue: what all transports do to send. QP lock held throughout. */
#ifndef SNIC_SEND_H
#define SNIC_SEND_H

#include "qp.h"
#include "xmit.h"

/* Why filling a burst ended. */
enum snic_send_stop {
	SNIC_SEND_NEXT, /* it has not: take the next message */
	SNIC_SEND_MORE, /* the burst is full */
	SNIC_SEND_EMPTY, /* no WQE left */
	SNIC_SEND_BLOCKED, /* an answer must come first, or a message failed */
	SNIC_SEND_STALLED, /* the host has no room */
	SNIC_SEND_ABSENT, /* the payload's memory is absent for now */
};

/* RTS entered with no message under way: count from the PSN the QP was given. */
void snic_send_start(struct snic_qp *qp);
/* Send bursts of the transport until nothing may be sent; sleep when the ring is empty. False: the QP cannot send. */
bool snic_send_run(struct snic_qp *qp);
/* The message nxt lies in, its WQE decoded in req->sqe. NULL: *why not. */
struct snic_out *snic_send_current(struct snic_qp *qp, enum snic_send_stop *why);
/* Packets of @out from nxt on that the burst takes; 0: it is full. */
u32 snic_send_room(struct snic_tx *tx, const struct snic_out *out);
/* @n packets of the SEND or WRITE @out, the current one, from nxt on. */
enum snic_send_stop snic_send_data(struct snic_tx *tx, const struct snic_out *out, u32 n);
/* The next packet to send is @psn: una <= @psn <= the next new message's. */
void snic_send_seek(struct snic_qp *qp, u32 psn);
/* The ring's next WQE is @quanta further on. */
void snic_send_advance(struct snic_qp *qp, u32 quanta);
/* Message @out fails with @minor once everything before it is complete. */
void snic_send_mark_failed(struct snic_qp *qp, struct snic_out *out, u16 minor, u32 vendor);
/*
 * Decode the WQE of message @slot again. False, and the message marked failed,
 * when the ring no longer holds what was sent.
 */
bool snic_send_reload(struct snic_qp *qp, u32 slot, struct snic_sqe *sqe);
/*
 * Complete the oldest messages as far as they are before una, local and failed ones
 * included. False when the QP left the states that send.
 */
bool snic_send_retire(struct snic_qp *qp);
/* Fail the oldest message, and with it the send queue. */
void snic_send_fail_oldest(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
