// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of atomics (IBTA 9.4.5) and of ATOMIC WRITEs (annex A19). The processor's own atomic
 * instructions execute them, so they are atomic against all devices and all CPUs. Memory holds the
 * value of an atomic in CPU byte order, and the bytes of an ATOMIC WRITE in the order of the packet.
 */
#include "responder.h"

#include "frame.h"
#include "mr.h"
#include "prq.h"

static u64 atomic_execute(const struct snic_pkt *pkt, u64 *p)
{
	if ((pkt->opcode & SIRDMA_BTH_OPERATION) == SIRDMA_BTH_FETCH_ADD)
		return port_user_fetch_add64(p, pkt->swap_add);
	return port_user_cmpxchg64(p, pkt->compare, pkt->swap_add);
}

/*
 * Check that the peer may have the eight bytes that @pkt names, with @right on their region, and find
 * them. A queue pair permits what @right names, too.
 */
static enum snic_recv_verdict atomic_find(struct snic_qp *qp, const struct snic_pkt *pkt, u8 right,
					  u64 **found)
{
	enum sirdma_ae_code ae;
	struct snic_mr *mr;
	struct snic_run run;
	enum snic_mem mem;
	u8 *p;

	if (!(qp->access & right) || pkt->va % SIRDMA_ATOMIC_LEN || !snic_rd_has_room(qp))
		return SNIC_RECV_NAK_INVALID;
	mr = snic_qp_rx_mr(qp, qp->pd, pkt->rkey, pkt->va, SIRDMA_ATOMIC_LEN, right, &ae);
	if (!mr) {
		qp->resp.fail_ae = ae;
		return SNIC_RECV_NAK_ACCESS;
	}
	mem = snic_mr_run(qp->dev, mr, pkt->va, SIRDMA_ATOMIC_LEN, &run);
	if (unlikely(mem != SNIC_MEM_OK)) {
		ae = snic_prq_missed(qp, mr, pkt->va, SIRDMA_ATOMIC_LEN, mem);
		if (ae == SIRDMA_AE_NONE)
			return SNIC_RECV_RNR;
		qp->resp.fail_ae = ae;
		return SNIC_RECV_NAK_ACCESS;
	}
	p = run.ptr + (pkt->va - run.va);
	/* The address in a zero-based region may be aligned while its memory is not. */
	if ((uintptr_t)p % SIRDMA_ATOMIC_LEN)
		return SNIC_RECV_NAK_INVALID;
	*found = (u64 *)p;
	return SNIC_RECV_DONE;
}

enum snic_recv_verdict snic_atomic_request(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	enum snic_recv_verdict verdict;
	u64 *p;

	verdict = atomic_find(qp, pkt, SIRDMA_ACCESS_REMOTE_ATOMIC, &p);
	if (verdict == SNIC_RECV_DONE)
		snic_rd_accept(qp, pkt)->orig = atomic_execute(pkt, p);
	return verdict;
}

/* Copy the payload of an ATOMIC WRITE. Returns false if it cannot be read any more. */
static bool atomic_write_value(struct snic_qp *qp, const struct snic_pkt *pkt,
			       const struct snic_rx_pkt *rx, u64 *value)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);

	if (snic_seg_by_reference(&it))
		return snic_dev_ops(qp->dev)->pull(qp->dev->host, &it, value, sizeof(*value));
	snic_seg_copy(&it, value, sizeof(*value));
	return true;
}

enum snic_recv_verdict snic_atomic_write_request(struct snic_qp *qp, const struct snic_pkt *pkt,
						 const struct snic_rx_pkt *rx)
{
	enum snic_recv_verdict verdict;
	u64 *p, value;

	if (pkt->dma_len != SIRDMA_ATOMIC_LEN || pkt->payload_len != SIRDMA_ATOMIC_LEN)
		return SNIC_RECV_NAK_INVALID;
	verdict = atomic_find(qp, pkt, SIRDMA_ACCESS_REMOTE_WRITE, &p);
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	if (!atomic_write_value(qp, pkt, rx, &value))
		return SNIC_RECV_LOST;
	port_user_store64(p, value);
	snic_rd_accept(qp, pkt);
	return SNIC_RECV_DONE;
}
