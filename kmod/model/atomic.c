// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of atomics (IBTA 9.4.5). The processor's own atomic instructions execute them, so
 * they are atomic against all devices and all CPUs. Memory holds the value in CPU byte order.
 */
#include "responder.h"

#include "mr.h"

static u64 atomic_execute(const struct snic_pkt *pkt, u64 *p)
{
	if ((pkt->opcode & SIRDMA_BTH_OPERATION) == SIRDMA_BTH_FETCH_ADD)
		return port_user_fetch_add64(p, pkt->swap_add);
	return port_user_cmpxchg64(p, pkt->compare, pkt->swap_add);
}

/* Execute @pkt on the memory of @mr; *orig: what it held before. */
static enum snic_recv_verdict atomic_on_region(struct snic_qp *qp, const struct snic_mr *mr,
					       const struct snic_pkt *pkt, u64 *orig)
{
	void *p;
	u32 run;

	switch (snic_mr_ptr(qp->dev, mr, pkt->va, SIRDMA_ATOMIC_LEN, &p, &run)) {
	case SNIC_MEM_OK:
		break;
	case SNIC_MEM_ABSENT:
		return SNIC_RECV_RNR;
	default:
		qp->resp.fail_ae = SIRDMA_AE_QP_CATASTROPHIC;
		return SNIC_RECV_NAK_ACCESS;
	}
	/* Addresses of a zero-based region may be aligned where its memory is not. */
	if ((uintptr_t)p % SIRDMA_ATOMIC_LEN)
		return SNIC_RECV_NAK_INVALID;
	*orig = atomic_execute(pkt, p);
	return SNIC_RECV_DONE;
}

enum snic_recv_verdict snic_atomic_request(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	enum snic_recv_verdict verdict;
	enum sirdma_ae_code ae;
	struct snic_mr *mr;
	u64 orig;

	if (!(qp->access & SIRDMA_ACCESS_REMOTE_ATOMIC) || pkt->va % SIRDMA_ATOMIC_LEN ||
	    !snic_rd_has_room(qp))
		return SNIC_RECV_NAK_INVALID;
	mr = snic_qp_rx_mr(qp, qp->pd, pkt->rkey, pkt->va, SIRDMA_ATOMIC_LEN,
			   SIRDMA_ACCESS_REMOTE_ATOMIC, &ae);
	if (!mr) {
		qp->resp.fail_ae = ae;
		return SNIC_RECV_NAK_ACCESS;
	}
	verdict = atomic_on_region(qp, mr, pkt, &orig);
	if (verdict == SNIC_RECV_DONE)
		snic_rd_accept(qp, pkt, SIRDMA_ATOMIC_LEN)->orig = orig;
	return verdict;
}
