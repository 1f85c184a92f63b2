// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receive queues. */
#include "rq.h"

void snic_rq_reset(struct snic_rq *rq)
{
	rq->idx = 0;
	rq->polarity = true;
}

enum snic_wqe_status snic_rq_fetch(struct snic_rq *rq, struct snic_rqe *rqe)
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

bool snic_rq_has(struct snic_rq *rq, u32 ahead)
{
	u32 idx = rq->idx + ahead;

	if (ahead >= rq->wqes)
		return false;
	return idx < rq->wqes ? snic_rqe_peek(rq, idx, rq->polarity) :
				snic_rqe_peek(rq, idx - rq->wqes, !rq->polarity);
}
