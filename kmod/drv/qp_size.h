/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sizes of a QP's rings, computed as the providers of the irdma interface do. */
#ifndef SIRDMA_DRV_QP_SIZE_H
#define SIRDMA_DRV_QP_SIZE_H

#include <rdma/ib_verbs.h>

struct sirdma_qp_size {
	u32 sq_quanta; /* power of two */
	u32 rq_quanta;
	u8 sq_shift; /* log2 of the quanta of the largest WQE */
	u8 rq_shift;
	u32 max_send_wr; /* number of requests that the application may have outstanding */
	u32 max_recv_wr;
	bool pool; /* the rings lie in a pool */
};

enum sirdma_qp_sizing {
	/* ring sizes in WQEs of the largest size, as older providers give them */
	SIRDMA_QP_SIZING_GIVEN,
	SIRDMA_QP_SIZING_RAW, /* the application's numbers */
	SIRDMA_QP_SIZING_POOL, /* the same, for rings in a pool */
};

/*
 * @sizing: what cap->max_*_wr are. @shared: the QP has no receive queue. Returns 0 or -EINVAL. There
 * may be more short WQEs than the device attribute max_qp_wr, which is for WQEs of any size.
 */
int sirdma_qp_size(const struct ib_qp_cap *cap, enum sirdma_qp_sizing sizing, bool shared,
		   struct sirdma_qp_size *size);

#endif
