/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One-sided execution: the host executes a WRITE, READ or atomic in the memory of the peer, and no packet is
 * sent. It exists only where PORT_WIRE_IN_MEMORY: the kernel modules are built without one_sided.c.
 *
 * The request is executed when it is fetched, so it must be the only one: whatever the QP sent before is
 * acknowledged, hence executed, and whatever comes later is sent later. It takes no PSN. The host knows
 * whether the peer would accept the request. One that it would refuse is sent, so that the refusal and
 * its consequences are the peer's.
 *
 * The host may wait for memory of the peer that it has not mapped. Therefore only snic_qp_run() and
 * snic_qp_kick() execute requests: no thread that receives, and no command. The lock of the QP is dropped for a
 * host that may wait.
 */
#ifndef SNIC_ONE_SIDED_H
#define SNIC_ONE_SIDED_H

#include "transport.h"

/* See snic_one_sided(), which has checked the message. */
bool snic_one_sided_execute(struct snic_tx *tx, struct snic_out *out, enum snic_send_stop *why);

/* Is the current message the only one of a QP that has nothing in flight? */
static inline bool snic_one_sided_alone(const struct snic_req *req)
{
	return req->cur == req->head && req->cur + 1 == req->tail && req->nxt == req->una &&
	       req->max == req->una;
}

/*
 * Execute the current message @out instead of sending it, if possible. Returns false if it has to be
 * sent. Else @tx has no packet, and @why is SNIC_SEND_MORE if the message waits only for
 * snic_send_retire(), or SNIC_SEND_BLOCKED if the QP has left RTS meanwhile.
 */
static inline bool snic_one_sided(struct snic_tx *tx, struct snic_out *out,
				  enum snic_send_stop *why)
{
	const struct snic_qp *qp = tx->qp;
	const struct snic_req *req = &qp->req;

	if (!PORT_WIRE_IN_MEMORY || !snic_one_sided_alone(req))
		return false;
	if (!snic_dev_ops(qp->dev)->one_sided_nowait || qp->transport != &snic_rc ||
	    qp->state != SIRDMA_QPS_RTS || !qp->in_run)
		return false;
	/* The host has refused this message, and then there was no room to send it. */
	if (out->flags & SNIC_OUT_REFUSED)
		return false;
	if (!out->len || out->len > SNIC_ONE_SIDED_MAX ||
	    !(out->op == SIRDMA_OP_READ || snic_op_is_atomic(out->op) ||
	      (snic_op_is_write(out->op) && !req->sqe.has_imm)))
		return false;
	return snic_one_sided_execute(tx, out, why);
}

#endif
