// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receive queues. */
#include "rq.h"

void snic_rq_reset(struct snic_rq *rq)
{
	rq->idx = 0;
	rq->polarity = true;
}

static enum snic_wqe_status rq_fetch(struct snic_rq *rq, struct snic_rqe *rqe)
{
	enum snic_wqe_status status = snic_rqe_load(rq, rq->idx, rq->polarity, rqe);

	if (status == SNIC_WQE_NONE)
		return status;
	if (++rq->idx == rq->wqes) {
		rq->idx = 0;
		rq->polarity = !rq->polarity;
	}
	return status;
}

enum snic_wqe_status snic_rq_fetch(struct snic_rq *rq, struct snic_rqe *rqe)
{
	enum snic_wqe_status status;

	if (likely(!snic_rq_shared(rq)))
		return rq_fetch(rq, rqe);
	port_lock(rq->lock);
	status = rq_fetch(rq, rqe);
	port_unlock(rq->lock);
	return status;
}

bool snic_rq_has_next(struct snic_rq *rq)
{
	return snic_rqe_peek(rq, rq->idx, rq->polarity);
}
