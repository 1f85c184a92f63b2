// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/log2.h>

#include "qp_size.h"
#include "sirdma/wqe.h"

/* log2 of the quanta that @frags fragments or @inline_len bytes of inline data take. */
static u8 sirdma_wqe_shift(u32 frags, u32 inline_len)
{
	u32 quanta;

	quanta = max(1 + frags / 2,
		     1 + DIV_ROUND_UP(inline_len - min_t(u32, inline_len, SIRDMA_INLINE_FIRST),
				      SIRDMA_INLINE_NEXT));
	return order_base_2(quanta);
}

static int sirdma_ring_quanta(u32 wrs, u8 shift, u32 reserved, u32 *quanta)
{
	u64 wanted = ((u64)wrs << shift) + reserved;

	if (wanted > SIRDMA_MAX_WQ_QUANTA)
		return -EINVAL;
	*quanta = max_t(u32, roundup_pow_of_two(wanted), SIRDMA_MIN_WQ_QUANTA << shift);
	return 0;
}

/* A library that gives the ring itself: a power of two within the limits. */
static int sirdma_ring_quanta_given(u32 wqes, u8 shift, u32 *quanta)
{
	u64 wanted = (u64)wqes << shift;

	if (!is_power_of_2(wqes) || wanted > SIRDMA_MAX_WQ_QUANTA || wanted < SIRDMA_MIN_WQ_QUANTA)
		return -EINVAL;
	*quanta = wanted;
	return 0;
}

int sirdma_qp_size(const struct ib_qp_cap *cap, u32 max_wr, bool raw, struct sirdma_qp_size *size)
{
	int err;

	if (cap->max_send_sge > SIRDMA_MAX_SGE || cap->max_recv_sge > SIRDMA_MAX_SGE ||
	    cap->max_inline_data > SIRDMA_MAX_INLINE)
		return -EINVAL;

	/* One fragment more: immediate data takes the place of the first. */
	size->sq_shift = sirdma_wqe_shift(cap->max_send_sge + 1, cap->max_inline_data);
	size->rq_shift = sirdma_wqe_shift(cap->max_recv_sge, 0);
	if (!raw) {
		err = sirdma_ring_quanta_given(cap->max_send_wr, size->sq_shift, &size->sq_quanta);
		if (!err)
			err = sirdma_ring_quanta_given(cap->max_recv_wr, size->rq_shift,
						       &size->rq_quanta);
		size->max_send_wr = cap->max_send_wr;
		size->max_recv_wr = cap->max_recv_wr;
		return err;
	}

	if (cap->max_send_wr > max_wr || cap->max_recv_wr > max_wr)
		return -EINVAL;
	err = sirdma_ring_quanta(cap->max_send_wr, size->sq_shift, SIRDMA_SQ_RSVD_QUANTA,
				 &size->sq_quanta);
	if (err)
		return err;
	err = sirdma_ring_quanta(cap->max_recv_wr, size->rq_shift, SIRDMA_RQ_RSVD_WQES,
				 &size->rq_quanta);
	if (err)
		return err;
	size->max_send_wr = (size->sq_quanta - SIRDMA_SQ_RSVD_QUANTA) >> size->sq_shift;
	size->max_recv_wr = (size->rq_quanta - SIRDMA_RQ_RSVD_WQES) >> size->rq_shift;
	return 0;
}
