/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The part of a QP context that the device takes at the creation of a queue pair, and
 * never again. A driver says here where the rings are and which objects the queue pair uses.
 */
#ifndef SIRDMA_HW_QP_CREATE_H
#define SIRDMA_HW_QP_CREATE_H

#include "port/port.h"
#include "sirdma/qpctx.h"

/* The place of a ring: a DMA address, or the index of its first PBLE (4 KiB blocks, level 1). */
struct sirdma_qp_queue {
	u64 addr;
	u32 quanta; /* power of two; 0: there is no such queue */
	bool vmap; /* addr is the index of a PBLE */
};

struct sirdma_qp_create {
	enum sirdma_qp_type type;
	bool sig_all; /* every send WQE completes with a CQE */
	bool kernel; /* the QP of a kernel consumer */
	bool no_kick; /* the poster does not read need_kick words, and rings for each post */
	u8 rq_shift; /* log2 of the quanta of a receive WQE */
	struct sirdma_qp_queue sq;
	struct sirdma_qp_queue rq;
	u64 shadow; /* DMA address of struct sirdma_qp_shadow */
	u64 compl_ctx; /* echoed in each CQE */
	u64 cookie; /* echoed in each AEQE */
	u32 send_cq;
	u32 recv_cq; /* of an XRC initiator, which receives nothing: any */
	u32 srq; /* the shared queue it receives from, without a receive queue; 0: none */
	u32 pd;
	u32 kicker; /* number of the user context that may kick; 0: none may */
	u32 xrcd; /* domain of an XRC target, which has none of the queues, CQs and PD above */
};

/* Fill the queues of @ctx. The other fields are left as they are. */
void sirdma_qp_create_to_ctx(const struct sirdma_qp_create *qp, struct sirdma_qp_ctx *ctx);

#endif
