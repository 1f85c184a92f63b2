/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues: a ring of receive WQEs, which arriving messages use in order. A QP has a
 * receive queue of its own, or several QPs share one (srq.h).
 */
#ifndef SNIC_RQ_H
#define SNIC_RQ_H

#include "ring.h"
#include "wqe.h"

struct snic_dev;

/*
 * The lock of the QP, or of the shared queue (srq.h), protects the object and its calls. The queue
 * of one QP has no lock of its own: the QP's lock is held anyway, and each message would pay for
 * both: 5 ns for a lock that nobody contends (Zen 3), of the 120 ns of a short message in memory that
 * two processes share.
 */
struct snic_rq {
	struct snic_dev *dev;
	struct snic_ring ring;
	u32 wqes; /* power of two; 0: the QP has no receive queue of its own */
	u32 idx; /* next WQE to fetch */
	u8 stride_shift; /* log2 of the quanta of a WQE */
	bool polarity; /* valid bit of the current lap */
};

/* Start at the first WQE of the ring. */
void snic_rq_reset(struct snic_rq *rq);
/* Fetch the next WQE, if there is one, into @rqe and remove it from the queue. */
enum snic_wqe_status snic_rq_fetch(struct snic_rq *rq, struct snic_rqe *rqe);
/* Are there more than @ahead WQEs? */
bool snic_rq_has(struct snic_rq *rq, u32 ahead);

#endif
