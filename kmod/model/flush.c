// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of FLUSH (annex A19). The processor has executed all earlier requests when a FLUSH
 * arrives, and the caches of all processors are coherent, so that a barrier makes their data visible
 * to all readers. Whether memory keeps its data without power the device does not know: no region has
 * the right to be flushed for persistence.
 */
#include "responder.h"

#include "mr.h"

/* Does the device know what the FETH asks for? Reserved bits are not looked at. */
static bool flush_format_ok(u32 flush)
{
	return (flush & SIRDMA_FETH_PLT) &&
	       !(flush & SIRDMA_FETH_PLT &
		 ~(SIRDMA_FLUSH_TO_GLOBAL | SIRDMA_FLUSH_TO_PERSISTENT)) &&
	       (flush & SIRDMA_FETH_SEL) >> SIRDMA_FETH_SEL_SHIFT <= SIRDMA_FLUSH_REGION;
}

enum snic_recv_verdict snic_flush_request(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	bool region = (pkt->flush & SIRDMA_FETH_SEL) >> SIRDMA_FETH_SEL_SHIFT ==
		      SIRDMA_FLUSH_REGION;
	enum sirdma_ae_code ae;
	struct snic_mr *mr;

	if (!flush_format_ok(pkt->flush) || !(qp->access & SIRDMA_ACCESS_REMOTE_FLUSH) ||
	    !snic_rd_has_room(qp))
		return SNIC_RECV_NAK_INVALID;
	if (pkt->flush & SIRDMA_FLUSH_TO_PERSISTENT) {
		qp->resp.fail_ae = SIRDMA_AE_AMP_RIGHTS_VIOLATION;
		return SNIC_RECV_NAK_ACCESS;
	}
	/* The key must be valid even if no byte is named. A length of 0 leaves the range unchecked. */
	mr = snic_mr_get_qp(qp->dev, pkt->rkey, qp->pd, qp->obj.id, pkt->va,
			    region ? 0 : pkt->dma_len, SIRDMA_ACCESS_REMOTE_FLUSH, &ae);
	if (!mr) {
		qp->resp.fail_ae = (u16)ae;
		return SNIC_RECV_NAK_ACCESS;
	}
	snic_mr_put(mr);
	smp_mb(); /* the data of earlier requests is written before the answer */
	snic_rd_accept(qp, pkt);
	return SNIC_RECV_DONE;
}
