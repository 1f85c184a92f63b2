/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues: several QPs take their receive WQEs from one.
 *
 * A queue that is short of WQEs shares them out in periods: while QPs wait, each QP gets one WQE in
 * a share period. A QP that finds no WQE waits in the current period: its peer gets an RNR NAK and
 * repeats the request later. One WQE is reserved for each QP that waits in the period, but never
 * more than half of the queue. When more WQEs than these are there, a QP gets its WQE of the next
 * period as well; it gets further ones only when there are more WQEs than QPs that wait in both
 * periods. A period ends when no QP waits in it any more, or when none of them has repeated its
 * request for SNIC_SRQ_RETRY_NS: a peer may be gone.
 *
 * Some QPs may not be deferred: see snic_srq_fetch(). They get any WQE there is, and never wait.
 */
#ifndef SNIC_SRQ_H
#define SNIC_SRQ_H

#include "cq.h"
#include "eq.h"
#include "obj.h"
#include "rq.h"
#include "sirdma/cqp.h"
#include "sirdma/shadow.h"

/*
 * Peers end their RNR waits late: our requester by its backoff (SNIC_MAX_RNR_BACKOFF_NS), and
 * soft-RoCE by a timer in jiffies, of 10 ms at 100 Hz. The value is two such delays, ns.
 */
#define SNIC_SRQ_RETRY_NS 20000000ull

/* The state of one QP at the queue. Periods count from 1, so a zeroed share is of none. */
struct snic_srq_share {
	u64 got_period; /* period whose WQE the QP got: the current one or the next; else stale */
	u64 wait_period; /* in which it waits for one: the current period or the next; else stale */
};

#define SNIC_SRQ_ID_BITS 16 /* of SIRDMA_CQP_SRQ_ID */

struct snic_srq {
	struct snic_obj obj;
	struct port_lock lock; /* protects rq, and fetched to period_end; taken inside a QP lock */
	struct snic_rq rq;
	struct sirdma_srq_shadow *shadow;
	u32 pd; /* PD of the memory that the WQEs name */
	struct snic_aeq_events async;
	u32 fetched; /* WQEs since creation */
	u32 limit; /* an event comes when fewer WQEs are left; 0: no event */
	u32 qp_refs; /* QPs attached: destroy is refused (IN_USE) while non-zero */
	u64 period; /* the current share period */
	u32 waiting; /* QPs that wait in this period */
	u32 waiting_next; /* QPs that got their WQE of this period and wait in the next one */
	u64 period_end; /* when WQEs are no longer reserved for the QPs that wait in this period */
	/*
	 * Set at creation, read without the lock. Of a queue of an XRC domain (xrc.h); name is 0 for
	 * other queues.
	 */
	u64 name;
	struct snic_cq *cq;
	u32 domain;
};

/*
 * Fetch the next WQE, as snic_rq_fetch(), for the QP of @share. @may_defer: its peer repeats a
 * refused request within SNIC_SRQ_RETRY_NS. Then the result is SNIC_WQE_NONE also when all WQEs are
 * reserved for QPs that wait, and the QP waits as well unless it already got its WQE of the next
 * period.
 */
enum snic_wqe_status snic_srq_fetch(struct snic_srq *srq, struct snic_srq_share *share,
				    bool may_defer, struct snic_rqe *rqe);
/* The QP of @share does not wait any more. */
void snic_srq_leave(struct snic_srq *srq, struct snic_srq_share *share);
/* Queue @id with a reference, or NULL. */
struct snic_srq *snic_srq_get(struct snic_dev *dev, u32 id);
static inline void snic_srq_put(struct snic_srq *srq)
{
	snic_obj_put(&srq->obj);
}
/*
 * Count a user of queue @id, which makes its destruction fail. NULL: there is no such queue, or it
 * is one of an XRC domain.
 */
struct snic_srq *snic_srq_attach(struct snic_dev *dev, u32 id);
/* The QP of @share is not attached any more. */
void snic_srq_detach(struct snic_srq *srq, struct snic_srq_share *share);
/* Destroy every shared queue at the device's teardown, after the QPs. */
void snic_srq_destroy_all(struct snic_dev *dev);

u32 snic_cqp_create_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_modify_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_query_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
