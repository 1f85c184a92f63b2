/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The send queue, for all transports. QP lock held throughout. */
#ifndef SNIC_SEND_H
#define SNIC_SEND_H

#include "qp.h"
#include "xmit.h"

/* The reason why filling a burst ended. */
enum snic_send_stop {
	SNIC_SEND_NEXT, /* filling has not ended: go on with the next message */
	SNIC_SEND_MORE, /* the burst is full */
	SNIC_SEND_EMPTY, /* there is no WQE left */
	SNIC_SEND_BLOCKED, /* an answer must come first, or a message has failed */
	SNIC_SEND_STALLED, /* the host has no room */
	SNIC_SEND_ABSENT, /* memory of the payload is absent: retry later */
};

/* The QP enters RTS with no message in flight: start at the send PSN that modify set. */
void snic_send_start(struct snic_qp *qp);
/*
 * Send bursts until window, host or budget stop them. Ask for a kick when the ring is empty.
 * Returns false if the QP cannot send.
 */
bool snic_send_run(struct snic_qp *qp);
/*
 * The message that nxt belongs to, with its WQE decoded in req->sqe. NULL: there is none, and *why
 * is the reason.
 */
struct snic_out *snic_send_current(struct snic_qp *qp, enum snic_send_stop *why);
/*
 * Append payload [off, off + len) of the current WQE to the burst. *got: how many bytes were
 * appended.
 */
enum snic_gather snic_send_gather(struct snic_tx *tx, u32 off, u32 len, u32 *got);
/* How many packets of @out, from nxt on, fit into the burst; 0: the burst is full. */
u32 snic_send_room(struct snic_tx *tx, const struct snic_out *out);
/* Append @n packets of the current message @out, a SEND, WRITE or ATOMIC WRITE, from nxt on. */
enum snic_send_stop snic_send_data(struct snic_tx *tx, const struct snic_out *out, u32 n);
/*
 * Transmit a burst whose packets are not answered: each counts as acknowledged once the host
 * accepted it. @why: why filling ended; returned, unless the host has no room.
 */
enum snic_send_stop snic_send_unanswered(struct snic_tx *tx, enum snic_send_stop why);
/* Continue sending at @psn, which lies between una and the first PSN of the next new message. */
void snic_send_seek(struct snic_qp *qp, u32 psn);
/* Move to the WQE that is @quanta further in the ring. */
void snic_send_advance(struct snic_qp *qp, u32 quanta);
/* Make message @out fail with @minor once all messages before it are complete. */
void snic_send_mark_failed(struct snic_qp *qp, struct snic_out *out, u16 minor, u32 vendor);
/*
 * Decode the WQE of message @slot of out[] again. Returns false when the ring no longer holds the
 * WQE that was sent; the message is then marked as failed.
 */
bool snic_send_reload(struct snic_qp *qp, u32 slot, struct snic_sqe *sqe);
/* The decoded WQE of the oldest message. NULL: the message has failed. */
static inline const struct snic_sqe *snic_send_oldest(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!req->rd_valid || req->rd_slot != req->head) {
		req->rd_valid = snic_send_reload(qp, req->head, &req->rd_sqe);
		req->rd_slot = req->head;
	}
	return req->rd_valid ? &req->rd_sqe : NULL;
}
/*
 * Complete the oldest messages whose PSNs all precede una, and local and failed messages among
 * them. Returns false when the QP left the states in which it can send.
 */
bool snic_send_retire(struct snic_qp *qp);
/* Fail the oldest message, and the send queue with it. */
void snic_send_fail_oldest(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
