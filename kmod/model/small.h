/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Small messages. A SEND or WRITE of a few bytes whose WQE takes one quantum needs few of the decisions that
 * a message needs in general, and most of these are the same for all messages of a burst: they are made once.
 * So does one that fits a packet while nothing else is in flight, as in a ping-pong: 620 instructions
 * less (vm/run --icount, qpbench lat).
 * The packet of a WRITE of one packet, and an acknowledgement, have a fast path at their receiver too.
 */
#ifndef SNIC_SMALL_H
#define SNIC_SMALL_H

#include "responder.h"
#include "send.h"

/*
 * Append the new messages of the ring to the burst that are small, from the next one on, until another
 * message comes, or the ring, the burst or the window ends. The result is what snic_send_current()
 * and the functions that follow it would make of them. Returns SNIC_SEND_NEXT, SNIC_SEND_STALLED if
 * the host has no room, or SNIC_SEND_EMPTY if the ring is empty or cannot be read. RC only.
 */
enum snic_send_stop snic_small_fill(struct snic_tx *tx);

/* The headers of a WRITE of one packet. */
struct snic_small_hdr {
	struct sirdma_bth bth;
	struct sirdma_reth reth;
};
#define SNIC_SMALL_HDR 28u
SIRDMA_SIZE_IS(struct snic_small_hdr, SNIC_SMALL_HDR);

/* The same in words: those that the WRITEs of a stream (stream.h) have in common are compared at once. */
struct snic_small_words {
	__be64 bth; /* all but the last word of the BTH */
	__be32 apsn;
	__be64 va;
	__be64 rkey_len;
} __attribute__((__packed__));
SIRDMA_SIZE_IS(struct snic_small_words, SNIC_SMALL_HDR);

/* Packets that have a fast path. */
enum snic_small {
	SNIC_SMALL_NONE, /* any other packet */
	SNIC_SMALL_WRITE, /* a WRITE of one packet */
	SNIC_SMALL_ACK,
};

/* No such packet is longer, bytes from BTH to ICRC: 4096 bytes of payload and 32 of headers. */
#define SNIC_SMALL_MAX 4128u

/* The kind of @rx, of SNIC_SMALL_MAX bytes at most, by its opcode and length. *@qpn: the QP it names. */
enum snic_small snic_small_kind(const struct snic_rx_pkt *rx, u32 *qpn);
/*
 * Receive @rx, SNIC_SMALL_WRITE, if it is the packet that the batch's QP expects and its memory is
 * in one piece, or in the run that the batch used last. Returns its payload, bytes; 0: it takes the
 * general path. RC only.
 */
u32 snic_small_write(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx);
/*
 * Receive @rx, SNIC_SMALL_ACK, if it acknowledges packets in flight and no READ or atomic is outstanding. Returns
 * false if it takes the general path. RC only.
 */
bool snic_small_ack(struct snic_qp *qp, const struct snic_rx_pkt *rx);

/* Does the responder of @qp only await the next message? */
static inline bool snic_small_may_recv(const struct snic_qp *qp)
{
	const struct snic_resp *resp = &qp->resp;

	return (qp->access & SIRDMA_ACCESS_REMOTE_WRITE) && !resp->in_msg && !resp->nak_sent &&
	       !resp->fatal && !resp->inv_wait;
}

/* @n WRITEs of one packet are in their place. @ackreq: one of them asks for an acknowledgement. */
static __always_inline void snic_small_written(struct snic_qp *qp, u32 n, bool ackreq)
{
	struct snic_resp *resp = &qp->resp;
	u32 before = resp->epsn;

	resp->epsn = snic_psn_add(before, n);
	resp->msn = snic_psn_add(resp->msn, n);
	snic_rd_forget_old(qp, before);
	if (ackreq)
		snic_resp_owe_ack(resp, resp->epsn);
	else
		snic_resp_linger(qp);
}

#endif
