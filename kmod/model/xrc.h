/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended reliable connected transport (IBTA annex A14). An initiator is a QP of RC without a
 * receive queue, and a target one without a send queue. Each request names a shared receive queue in
 * its XRCETH, and the target finds the queue in its XRC domain. The queue has the PD that the request
 * is checked against, and the CQ for the completion of its receive WQE.
 *
 * A target takes a queue (recv_cq, pd, recv_pd and srq of struct snic_qp) while it executes a
 * request, and while it completes one later. It holds a reference to the queue for that time only, so
 * that a peer that stops within a message does not keep the queue from being destroyed. In between
 * the target knows the queue by its name, which no other queue of the device ever has. All need the
 * QP lock.
 */
#ifndef SNIC_XRC_H
#define SNIC_XRC_H

#include "recv.h"
#include "srq.h"

/* The part of a target that other queue pairs do not have. */
struct snic_xrc {
	struct sirdma_qp_shadow shadow; /* a target has none in host memory */
	u32 domain;
	u64 queue; /* snic_srq.name of the current message, and of the receive WQE that is fetched */
	u64 read_queue[SNIC_MAX_RD_ATOMIC + SNIC_RD_REPEATS]; /* of each entry of snic_resp.rd[] */
};

/* Allocate qp->xrc; port_free() frees it. Returns false without memory. */
bool snic_xrc_alloc(struct snic_qp *qp, u32 domain);
/* Take the queue @name. Returns false if it is destroyed. */
bool snic_xrc_bind(struct snic_qp *qp, u64 name);
/* Release the queue that the target has taken, if any. */
void snic_xrc_unbind(struct snic_qp *qp);
/* Execute a request to a target, as snic_resp_execute(). */
enum snic_recv_verdict snic_xrc_execute(struct snic_qp *qp, const struct snic_pkt *pkt,
					const struct snic_rx_pkt *rx);
/*
 * snic_qp_complete_recv() for a target that has taken no queue. The completion of a queue that is
 * destroyed is dropped.
 */
bool snic_xrc_complete(struct snic_qp *qp, struct snic_completion *c);

static inline u64 *snic_xrc_queue_of_read(struct snic_qp *qp, const struct snic_rd *rd)
{
	return &qp->xrc->read_queue[rd - qp->resp.rd];
}

/* @again answers a part of @rd once more. */
static inline void snic_xrc_read_again(struct snic_qp *qp, const struct snic_rd *again,
				       const struct snic_rd *rd)
{
	*snic_xrc_queue_of_read(qp, again) = *snic_xrc_queue_of_read(qp, rd);
}

#endif
