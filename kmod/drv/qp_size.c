// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/log2.h>

#include "qp_size.h"
#include "sirdma/geometry.h"

/* The size that an older provider gives: valid if it is a power of two within the limits. */
static int sirdma_ring_quanta_given(u32 wqes, u8 shift, u32 *quanta)
{
	u64 wanted = (u64)wqes << shift;

	if (!is_power_of_2(wqes) || wanted > SIRDMA_MAX_WQ_QUANTA || wanted < SIRDMA_MIN_WQ_QUANTA)
		return -EINVAL;
	*quanta = wanted;
	return 0;
}

static u32 sirdma_size_sq(const struct ib_qp_cap *cap, const struct sirdma_qp_size *size)
{
	if (size->pool)
		return sirdma_sq_pool_quanta(cap->max_send_wr, size->sq_shift, SIRDMA_MIN_WQ_QUANTA,
					     SIRDMA_MAX_WQ_QUANTA);
	return sirdma_sq_quanta(cap->max_send_wr, size->sq_shift, SIRDMA_MIN_WQ_QUANTA,
				SIRDMA_MAX_WQ_QUANTA);
}

int sirdma_qp_size(const struct ib_qp_cap *cap, enum sirdma_qp_sizing sizing, bool shared,
		   struct sirdma_qp_size *size)
{
	int err;

	if (cap->max_send_sge > SIRDMA_MAX_SGE || cap->max_recv_sge > SIRDMA_MAX_SGE ||
	    cap->max_inline_data > SIRDMA_MAX_INLINE)
		return -EINVAL;
	/* Only providers that know shared queues use them, and those give raw attributes. */
	if (shared && sizing == SIRDMA_QP_SIZING_GIVEN)
		return -EINVAL;

	size->pool = sizing == SIRDMA_QP_SIZING_POOL;
	size->sq_shift = sirdma_sq_shift(cap->max_send_sge, cap->max_inline_data);
	size->rq_shift = sirdma_rq_shift(cap->max_recv_sge);
	if (sizing == SIRDMA_QP_SIZING_GIVEN) {
		err = sirdma_ring_quanta_given(cap->max_send_wr, size->sq_shift, &size->sq_quanta);
		if (!err)
			err = sirdma_ring_quanta_given(cap->max_recv_wr, size->rq_shift,
						       &size->rq_quanta);
		size->max_send_wr = cap->max_send_wr;
		size->max_recv_wr = cap->max_recv_wr;
		return err;
	}

	size->sq_quanta = sirdma_size_sq(cap, size);
	if (!size->sq_quanta)
		return -EINVAL;
	size->max_send_wr = sirdma_sq_wrs(size->sq_quanta, size->sq_shift);
	size->rq_quanta = 0;
	size->max_recv_wr = 0;
	if (shared)
		return 0;
	size->rq_quanta = sirdma_rq_quanta(cap->max_recv_wr, size->rq_shift, SIRDMA_MIN_WQ_QUANTA,
					   SIRDMA_MAX_WQ_QUANTA);
	if (!size->rq_quanta)
		return -EINVAL;
	size->max_recv_wr = sirdma_rq_wrs(size->rq_quanta, size->rq_shift);
	return 0;
}
