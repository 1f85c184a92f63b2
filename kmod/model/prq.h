/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Page request queue: the device asks for memory of regions that are not pinned (sirdma/prq.h). */
#ifndef SNIC_PRQ_H
#define SNIC_PRQ_H

#include "eq.h"
#include "mr.h"
#include "qp_side.h"

struct snic_qp;

struct snic_prq {
	struct port_lock lock; /* innermost but for that of the AEQ; protects the members below */
	u64 addr;
	u32 entries; /* 0: the queue does not exist */
	u32 prod;
	u32 pending; /* requests that PRQACK has not acknowledged */
	u32 gen; /* the generation that a queue pair got last */
	bool polarity;
	struct snic_aeq_events async; /* PAGE_REQUEST */
};

void snic_prq_init(struct snic_dev *dev);
/* Device reset: the queue does not exist any more. */
void snic_prq_reset(struct snic_dev *dev);
void snic_prq_ack(struct snic_dev *dev, u32 count);

/* What a queue pair has asked for since it left RESET. Under the lock of the queue pair. */
struct snic_page_asks {
	u32 since[SNIC_SIDES]; /* prq_now() of the first request without progress; 0: there was none */
	u32 progress[SNIC_SIDES]; /* see prq_progress() */
	u32 gen[SNIC_SIDES]; /* generation (sirdma/prq.h), another one after progress; 0: it has not asked */
};

/*
 * An access of @side of @qp to [va, va + len) of @mr, which it may use, met @mem at @va, not OK. Ask
 * the driver for the memory, or tell it of the failed access. Returns SIRDMA_AE_NONE if the caller
 * tries again later, else what the access violated. QP lock held. Never sleeps.
 */
enum sirdma_ae_code snic_prq_missed(struct snic_qp *qp, enum snic_side side,
				    const struct snic_mr *mr, u64 va, u32 len, enum snic_mem mem);
/* The packets of this burst were sent after the request for what follows them. They are no progress since that request. */
void snic_prq_waits_from_now(struct snic_qp *qp, enum snic_side side);
/* SIRDMA_REG_PBLESYNC, for the regions of protection domain @pd. Sleeps. */
void snic_pble_sync(struct snic_dev *dev, u32 pd);

u32 snic_cqp_create_prq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_prq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
