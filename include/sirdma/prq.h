/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Page request queue (PRQ): how the device asks for memory of regions that are not pinned.
 *
 * The page list of such a region may have entries without memory. The driver fills them as the
 * device asks for them, and takes them back when the memory goes away:
 *
 *      device                                  driver
 *   a QP meets SIRDMA_PBLE_ABSENT
 *   struct sirdma_page_request ──────────▶  finds the region by its page list, and the memory
 *   event SIRDMA_AE_PAGE_REQUEST            writes the entries: addresses, or SIRDMA_PBLE_ERROR for
 *                                           that QP
 *   the QP tries again ◀──────────────────  rings the QP's doorbell
 *
 *   users of the old entries end            memory goes away: writes SIRDMA_PBLE_ABSENT
 *   the write returns  ◀──────────────────  writes SIRDMA_REG_PBLESYNC, then gives the memory up
 *
 * While a QP waits, the requester tries again by a timer of its own, and so does the responder with a
 * READ that has begun. The responder answers a SEND, WRITE, atomic or READ by an RNR NAK. A datagram,
 * and a message of an unreliable connection, is dropped. So each request only makes the wait shorter:
 * one that is lost, since the queue is full, is made again when the QP tries again. Requests need no
 * answer but the doorbell.
 *
 * An access of the QP that SIRDMA_PBLE_ERROR names fails, and the device tells the driver by a request
 * with SIRDMA_PRQ_FAILED. The driver then writes SIRDMA_PBLE_ABSENT: the next access asks again, because
 * there may be memory by then. To other QPs the entry is absent, and so it is to the same QP after a
 * reset, or to another QP with its number: they do not fail by what was true before they came. Requests
 * and their answers name a generation. The requester, and the responder, of a QP has a new one with its
 * first request after a reset, and after it has sent or received a new packet.
 *
 * A request says for how long the QP has asked without success, so that the driver knows when to answer
 * by an error although memory may come later: SIRDMA_PRQ_WAITED is 0 in the first request after the
 * requester, or the responder, of the QP has sent or received a new packet, and then 1 more than the
 * time since that request, in units of 2^30 ns.
 *
 * Of a sparse list (hmc.h) the entry that is written is the one at which the tables end: that of the
 * block, or the entry above it that names no table.
 *
 * The queue is a ring of host memory that CREATE_PRQ names, with valid bits as an AEQ has. The driver
 * acknowledges the requests that it has read by SIRDMA_REG_PRQACK.
 */
#ifndef SIRDMA_PRQ_H
#define SIRDMA_PRQ_H

#include "bits.h"

struct sirdma_page_request {
	__le64 block; /* SIRDMA_PRQ_PBLE, _BLOCK */
	__le64 qp; /* all others; written last */
};
SIRDMA_SIZE_IS(struct sirdma_page_request, 16);
#define SIRDMA_PRQ_PBLE SIRDMA_MASK(27, 0) /* the first PBLE of the region's list, or its root */
#define SIRDMA_PRQ_BLOCK SIRDMA_MASK(63, 28) /* index in the list of the block that was absent */
#define SIRDMA_PRQ_QPN SIRDMA_MASK(23, 0) /* the QP that waits, or failed */
#define SIRDMA_PRQ_GEN SIRDMA_MASK(43, 24) /* generation of that QP, not 0 */
/* The blocks that the message needs from there on, 1 or more. The greatest number: or more of them. */
#define SIRDMA_PRQ_COUNT SIRDMA_MASK(57, 44)
#define SIRDMA_PRQ_WAITED SIRDMA_MASK(61, 58) /* 15: at least 14 units */
#define SIRDMA_PRQ_WAITED_SHIFT 30 /* log2 of a unit, ns */
#define SIRDMA_PRQ_FAILED SIRDMA_BIT(62) /* SIRDMA_PBLE_ERROR: the access failed */
#define SIRDMA_PRQ_VALID SIRDMA_BIT(63) /* 1 on the first lap of the ring, and flips on wrap */

#endif
