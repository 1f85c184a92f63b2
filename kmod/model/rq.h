/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues: a ring of receive WQEs, taken in order by the messages that arrive.
 * A QP has one of its own, or several QPs take from a shared one.
 */
#ifndef SNIC_RQ_H
#define SNIC_RQ_H

#include "ring.h"
#include "wqe.h"

struct snic_dev;

struct snic_rq {
	/* Protects idx and polarity. NULL: the queue is of one QP, whose lock does it. */
	struct port_lock *lock;
	struct snic_dev *dev;
	struct snic_ring ring;
	u32 wqes; /* power of two; 0: nothing can be received */
	u32 idx; /* next WQE to take */
	u8 stride_shift; /* log2 of the quanta of one */
	bool polarity; /* valid bit of the lap */
};

/* Do several QPs take from it? */
static inline bool snic_rq_shared(const struct snic_rq *rq)
{
	return rq->lock;
}

/* The ring is set; start at its first WQE. */
void snic_rq_reset(struct snic_rq *rq);
/* Take the next WQE, if there is one: @rqe is a copy, and nobody else gets it. */
enum snic_wqe_status snic_rq_take(struct snic_rq *rq, struct snic_rqe *rqe);
/* Is there one to take? Of a queue that is not shared. */
bool snic_rq_has_next(struct snic_rq *rq);

#endif
