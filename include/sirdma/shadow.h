/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shadow areas: 64 bytes of user memory beside each ring, in which either side of the ring
 * publishes its progress. Layout source: irdma; need_kick words are an extension
 * (SIRDMA_UCTX_KICK).
 */
#ifndef SIRDMA_SHADOW_H
#define SIRDMA_SHADOW_H

#include "bits.h"

/* Written by the device, read by the provider. */
struct sirdma_qp_shadow {
	__le64 sq_tail; /* SIRDMA_QP_SHADOW_HW_SQ_TAIL */
	/*
	 * Non-zero while the device does not read the send queue by itself: a poster must
	 * then kick it. Poster: write WQEs, full fence, read this word. Device: write 1, full
	 * fence, read the ring once more.
	 */
	__le64 need_kick;
	/* Same for the receive queue; set only in the error state, to have posts flushed. */
	__le64 rq_need_kick;
	__le64 rsvd[5];
};
SIRDMA_SIZE_IS(struct sirdma_qp_shadow, 64);
#define SIRDMA_QP_SHADOW_HW_SQ_TAIL SIRDMA_MASK(14, 0)

/*
 * Written by the provider, read by the device. The device clears ARM_NEXT and
 * ARM_NEXT_SE, by an atomic exchange of the arm word, when it fires: two bits of
 * sequence cannot tell an arming from the one four armings ago.
 */
struct sirdma_cq_shadow {
	__le64 cons_idx; /* SIRDMA_CQ_SHADOW_CQEIDX: next element the provider will look at */
	__le64 rsvd0[3];
	__le64 arm; /* SIRDMA_CQ_SHADOW_ARM_* ; full fence after it, then read the queue */
	__le64 rsvd1[3];
};
SIRDMA_SIZE_IS(struct sirdma_cq_shadow, 64);
SIRDMA_OFFSET_IS(struct sirdma_cq_shadow, arm, 32);
#define SIRDMA_CQ_SHADOW_CQEIDX SIRDMA_MASK(19, 0)
#define SIRDMA_CQ_SHADOW_ARM_NEXT SIRDMA_BIT(14)
#define SIRDMA_CQ_SHADOW_ARM_NEXT_SE SIRDMA_BIT(15)
/*
 * Changes with each arming, so that the device, which clears the one before, does not clear
 * this one.
 */
#define SIRDMA_CQ_SHADOW_ARM_SEQ SIRDMA_MASK(17, 16)

/*
 * Of a shared receive queue. irdma's first word, the poster's index, is not used: the valid
 * bits of the WQEs say how far the poster is.
 */
struct sirdma_srq_shadow {
	__le64 rsvd0[4];
	/*
	 * Written by the device: how many WQEs it has copied out of the ring since the queue was
	 * created (SIRDMA_SRQ_SHADOW_FETCHED). Their places may be written anew.
	 */
	__le64 fetched;
	__le64 rsvd1[3];
};
SIRDMA_SIZE_IS(struct sirdma_srq_shadow, 64);
SIRDMA_OFFSET_IS(struct sirdma_srq_shadow, fetched, 32);
#define SIRDMA_SRQ_SHADOW_FETCHED SIRDMA_MASK(31, 0)

#define SIRDMA_SHADOW_SIZE 64

#endif
