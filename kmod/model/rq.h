/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues: a ring of receive WQEs, which arriving messages use in order. A QP has a
 * receive queue of its own, or several QPs share one.
 */
#ifndef SNIC_RQ_H
#define SNIC_RQ_H

#include "ring.h"
#include "wqe.h"

struct snic_dev;

struct snic_rq {
	/*
	 * Protects idx and polarity. NULL: the queue belongs to one QP, whose lock protects
	 * them.
	 */
	struct port_lock *lock;
	struct snic_dev *dev;
	struct snic_ring ring;
	u32 wqes; /* power of two; 0: nothing can be received */
	u32 idx; /* next WQE to fetch */
	u8 stride_shift; /* log2 of the quanta of one */
	bool polarity; /* valid bit of the lap */
};

/* Do several QPs use it? */
static inline bool snic_rq_shared(const struct snic_rq *rq)
{
	return rq->lock;
}

/* Start at the first WQE of the ring. */
void snic_rq_reset(struct snic_rq *rq);
/* Fetch the next WQE, if there is one, into @rqe and remove it from the queue. */
enum snic_wqe_status snic_rq_fetch(struct snic_rq *rq, struct snic_rqe *rqe);
/* Is there a WQE? Only for a queue that is not shared. */
bool snic_rq_has_next(struct snic_rq *rq);

#endif
