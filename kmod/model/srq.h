/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues: several QPs take their receive WQEs from one. */
#ifndef SNIC_SRQ_H
#define SNIC_SRQ_H

#include "eq.h"
#include "obj.h"
#include "rq.h"
#include "sirdma/cqp.h"
#include "sirdma/shadow.h"

struct snic_srq {
	struct snic_obj obj;
	struct port_lock lock; /* protects the members below; inside a QP lock */
	struct snic_rq rq;
	struct sirdma_srq_shadow *shadow;
	u32 pd; /* of the memory that the WQEs name */
	struct snic_aeq_events async;
	u32 fetched; /* WQEs since creation */
	u32 limit; /* an event when fewer are left; 0: none */
	u32 qp_refs; /* QPs attached: destroy is refused (IN_USE) while non-zero */
};

/* Fetch the next WQE, as snic_rq_fetch(). */
enum snic_wqe_status snic_srq_fetch(struct snic_srq *srq, struct snic_rqe *rqe);
/* Count a user of queue @id, which makes its destruction fail. NULL: there is none. */
struct snic_srq *snic_srq_attach(struct snic_dev *dev, u32 id);
void snic_srq_detach(struct snic_srq *srq);
/* Device teardown, after the QPs: destroy every shared queue. */
void snic_srq_destroy_all(struct snic_dev *dev);

u32 snic_cqp_create_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_modify_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_query_srq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
