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

/* The eight bytes of an atomic. */
struct atomic_word {
	u64 *p; /* NULL: the memory may be missing */
	u64 addr; /* its DMA address then */
};

/* What a request does to its eight bytes. */
struct atomic_change {
	enum port_atomic op;
	u64 operand;
	u64 compare;
};

static struct atomic_change atomic_change_of(const struct snic_pkt *pkt)
{
	bool add = (pkt->opcode & SIRDMA_BTH_OPERATION) == SIRDMA_BTH_FETCH_ADD;

	return (struct atomic_change){
		.op = add ? PORT_ATOMIC_ADD : PORT_ATOMIC_SWAP_IF,
		.operand = pkt->swap_add,
		.compare = pkt->compare,
	};
}

static enum snic_recv_verdict atomic_refused(struct snic_qp *qp, enum sirdma_ae_code ae)
{
	if (ae == SIRDMA_AE_NONE)
		return SNIC_RECV_RNR;
	qp->resp.fail_ae = (u16)ae;
	return SNIC_RECV_NAK_ACCESS;
}

/* Change the bytes. *before: their value before. */
static enum snic_recv_verdict atomic_execute(struct snic_qp *qp, const struct atomic_word *word,
					     const struct atomic_change *change, u64 *before)
{
	struct snic_dev *dev = qp->dev;
	int err;

	if (PORT_MEMORY_MAY_FAULT && unlikely(!word->p)) {
		err = port_dma_atomic(dev->dma, word->addr, change->op, change->operand,
				      change->compare, before);
		return err ? atomic_refused(qp, snic_mr_faulted(dev, err)) : SNIC_RECV_DONE;
	}
	switch (change->op) {
	case PORT_ATOMIC_ADD:
		*before = port_user_fetch_add64(word->p, change->operand);
		break;
	case PORT_ATOMIC_SWAP_IF:
		*before = port_user_cmpxchg64(word->p, change->compare, change->operand);
		break;
	case PORT_ATOMIC_STORE:
		port_user_store64(word->p, change->operand);
		break;
	}
	return SNIC_RECV_DONE;
}

/*
 * Check that the peer may have the eight bytes that @pkt names, with @right on their region, and find
 * them. A queue pair permits what @right names, too.
 */
static enum snic_recv_verdict atomic_find(struct snic_qp *qp, const struct snic_pkt *pkt, u8 right,
					  struct atomic_word *word)
{
	enum sirdma_ae_code ae;
	struct snic_mr *mr;
	struct snic_run run;
	enum snic_mem mem;

	if (!(qp->access & right) || pkt->va % SIRDMA_ATOMIC_LEN || !snic_rd_has_room(qp))
		return SNIC_RECV_NAK_INVALID;
	mr = snic_qp_rx_mr(qp, qp->pd, pkt->rkey, pkt->va, SIRDMA_ATOMIC_LEN, right, &ae);
	if (!mr)
		return atomic_refused(qp, ae);
	/* The address in a zero-based region may be aligned while its memory is not. */
	if (snic_mr_may_fault(mr)) {
		*word = (struct atomic_word){.addr = snic_mr_addr(mr, pkt->va)};
		return word->addr % SIRDMA_ATOMIC_LEN ? SNIC_RECV_NAK_INVALID : SNIC_RECV_DONE;
	}
	mem = snic_mr_run(qp->dev, mr, pkt->va, SIRDMA_ATOMIC_LEN, &run);
	if (unlikely(mem != SNIC_MEM_OK))
		return atomic_refused(qp, snic_prq_missed(qp, SNIC_RESPONDER, mr, pkt->va,
							  SIRDMA_ATOMIC_LEN, mem));
	*word = (struct atomic_word){.p = (u64 *)(run.ptr + (pkt->va - run.va))};
	return (uintptr_t)word->p % SIRDMA_ATOMIC_LEN ? SNIC_RECV_NAK_INVALID : SNIC_RECV_DONE;
}

enum snic_recv_verdict snic_atomic_request(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	struct atomic_change change = atomic_change_of(pkt);
	enum snic_recv_verdict verdict;
	struct atomic_word word;
	u64 before;

	verdict = atomic_find(qp, pkt, SIRDMA_ACCESS_REMOTE_ATOMIC, &word);
	if (verdict == SNIC_RECV_DONE)
		verdict = atomic_execute(qp, &word, &change, &before);
	if (verdict == SNIC_RECV_DONE)
		snic_rd_accept(qp, pkt)->orig = before;
	return verdict;
}

/* Copy the payload of an ATOMIC WRITE. Returns false if it cannot be read any more. */
static bool atomic_write_value(struct snic_qp *qp, const struct snic_pkt *pkt,
			       const struct snic_rx_pkt *rx, u64 *value)
{
	struct snic_seg_iter it = snic_pkt_payload(pkt, rx);

	if (it.by_reference)
		return snic_dev_ops(qp->dev)->pull(qp->dev->host, &it, value, sizeof(*value));
	snic_seg_copy(&it, value, sizeof(*value));
	return true;
}

enum snic_recv_verdict snic_atomic_write_request(struct snic_qp *qp, const struct snic_pkt *pkt,
						 const struct snic_rx_pkt *rx)
{
	struct atomic_change change = {.op = PORT_ATOMIC_STORE};
	enum snic_recv_verdict verdict;
	struct atomic_word word;
	u64 before;

	if (pkt->dma_len != SIRDMA_ATOMIC_LEN || pkt->payload_len != SIRDMA_ATOMIC_LEN)
		return SNIC_RECV_NAK_INVALID;
	verdict = atomic_find(qp, pkt, SIRDMA_ACCESS_REMOTE_WRITE, &word);
	if (verdict != SNIC_RECV_DONE)
		return verdict;
	if (!atomic_write_value(qp, pkt, rx, &change.operand))
		return SNIC_RECV_LOST;
	verdict = atomic_execute(qp, &word, &change, &before);
	if (verdict == SNIC_RECV_DONE)
		snic_rd_accept(qp, pkt);
	return verdict;
}
