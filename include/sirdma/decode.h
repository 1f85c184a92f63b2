/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The poller's side of a completion queue: decodes the elements that the device writes into
 * work completions.
 */
#ifndef SIRDMA_DECODE_H
#define SIRDMA_DECODE_H

#include "cqe.h"
#include "roce.h"
#include "shadow.h"
#include "workq.h"

/* Values of enum ibv_wc_status and of the kernel's enum ib_wc_status. */
enum sirdma_wc_status {
	SIRDMA_WC_SUCCESS = 0,
	SIRDMA_WC_LOC_LEN_ERR = 1,
	SIRDMA_WC_LOC_QP_OP_ERR = 2,
	SIRDMA_WC_LOC_PROT_ERR = 4,
	SIRDMA_WC_WR_FLUSH_ERR = 5,
	SIRDMA_WC_MW_BIND_ERR = 6,
	SIRDMA_WC_LOC_ACCESS_ERR = 8,
	SIRDMA_WC_REM_INV_REQ_ERR = 9,
	SIRDMA_WC_REM_ACCESS_ERR = 10,
	SIRDMA_WC_REM_OP_ERR = 11,
	SIRDMA_WC_RETRY_EXC_ERR = 12,
	SIRDMA_WC_RNR_RETRY_EXC_ERR = 13,
	SIRDMA_WC_FATAL_ERR = 19,
	SIRDMA_WC_GENERAL_ERR = 21,
};

/* Values of enum ibv_wc_opcode, and of the kernel's enum ib_wc_opcode where it has them. */
enum sirdma_wc_opcode {
	SIRDMA_WC_SEND = 0,
	SIRDMA_WC_WRITE = 1,
	SIRDMA_WC_READ = 2,
	SIRDMA_WC_COMP_SWAP = 3,
	SIRDMA_WC_FETCH_ADD = 4,
	SIRDMA_WC_BIND_MW = 5,
	SIRDMA_WC_LOCAL_INV = 6,
	SIRDMA_WC_FLUSH = 8,
	SIRDMA_WC_ATOMIC_WRITE = 9,
	SIRDMA_WC_RECV = 128,
	SIRDMA_WC_RECV_WRITE_IMM = 129,
	SIRDMA_WC_NO_OPCODE = 255, /* not one of the above */
	SIRDMA_WC_FAST_REG = 0x10000, /* the kernel's only, whose number differs between versions */
};

/* Values of enum ibv_wc_flags in SIRDMA_WC_VERBS_FLAGS; the others are our own. */
#define SIRDMA_WC_HAS_GRH 0x1u
#define SIRDMA_WC_HAS_IMM 0x2u
#define SIRDMA_WC_HAS_INV 0x8u
#define SIRDMA_WC_VERBS_FLAGS 0xffffu
#define SIRDMA_WC_IS_IPV4 0x10000u /* the GRH holds an IPv4 header */
#define SIRDMA_WC_HAS_MAC 0x20000u
#define SIRDMA_WC_HAS_VLAN 0x40000u

/*
 * A work completion. wr_id, and byte_len of a send, are valid only with the request that it
 * completes.
 */
struct sirdma_wc {
	__u64 wr_id;
	__u32 status; /* enum sirdma_wc_status */
	__u32 opcode; /* enum sirdma_wc_opcode */
	__u32 vendor_err;
	__u32 byte_len;
	__u32 imm; /* CPU order, or the invalidated rkey */
	__u32 qp_num;
	__u32 src_qp;
	__u32 flags; /* SIRDMA_WC_* */
	__u64 mac_vlan; /* SIRDMA_CQE_EXT_MAC and _VLAN, with SIRDMA_WC_HAS_MAC and _VLAN */
	__u64 timestamp; /* of a CQ that was created with timestamps */
};

struct sirdma_cq_ring {
	struct sirdma_cqe *ring; /* zeroed at first; any number of elements */
	struct sirdma_cq_shadow *shadow;
	__u32 size;
	__u32 head; /* position of the next element to read */
	__u32 unpublished; /* elements consumed that the device does not know of yet */
	__u64 valid; /* valid bit expected at the head */
};

/* An element of the ring, its header read once. */
struct sirdma_cqe_at {
	struct sirdma_cqe *cqe;
	struct sirdma_cqe_ext *ext; /* NULL when there is none */
	__u64 hdr;
};

static inline void sirdma_cq_ring_init(struct sirdma_cq_ring *cq, struct sirdma_cqe *ring,
				       __u32 size, struct sirdma_cq_shadow *shadow)
{
	cq->ring = ring;
	cq->shadow = shadow;
	cq->size = size;
	cq->head = 0;
	cq->unpublished = 0;
	cq->valid = SIRDMA_CQE_VALID;
}

/* *at: the element at the head. 0 when it, or its second half, is not valid yet. */
static inline int sirdma_cq_peek(const struct sirdma_cq_ring *cq, struct sirdma_cqe_at *at)
{
	struct sirdma_cqe *cqe = &cq->ring[cq->head];
	struct sirdma_cqe_ext *ext;
	int wraps;

	at->cqe = cqe;
	at->ext = (struct sirdma_cqe_ext *)0;
	at->hdr = sirdma_get64_acquire(&cqe->hdr);
	if ((at->hdr & SIRDMA_CQE_VALID) != cq->valid)
		return 0;
	if (!(at->hdr & SIRDMA_CQE_EXT))
		return 1;

	wraps = cq->head + 1 == cq->size;
	ext = (struct sirdma_cqe_ext *)&cq->ring[wraps ? 0 : cq->head + 1];
	at->ext = ext;
	return (sirdma_get64_acquire(&ext->hdr) & SIRDMA_CQE_VALID) ==
	       (wraps ? cq->valid ^ SIRDMA_CQE_VALID : cq->valid);
}

/* Go to the element at @head of this lap; the size of the ring: to the first one of the next lap. */
static inline void sirdma_cq_seek(struct sirdma_cq_ring *cq, __u32 head)
{
	if (head == cq->size) {
		head = 0;
		cq->valid ^= SIRDMA_CQE_VALID;
	}
	cq->head = head;
}

/* The next @n elements, which do not go beyond the end of the ring, are consumed. */
static inline void sirdma_cq_advance(struct sirdma_cq_ring *cq, __u32 n)
{
	sirdma_cq_seek(cq, cq->head + n);
	cq->unpublished += n;
}

static inline void sirdma_cq_consume(struct sirdma_cq_ring *cq, const struct sirdma_cqe_at *at)
{
	sirdma_cq_advance(cq, 1);
	if (at->ext)
		sirdma_cq_advance(cq, 1);
}

/* Release the elements before the head, which the device may then overwrite. Partner: its acquire. */
static inline void sirdma_cq_put_head(const struct sirdma_cq_ring *cq)
{
	sirdma_put64_release(&cq->shadow->cons_idx, SIRDMA_PREP(SIRDMA_CQ_SHADOW_CQEIDX, cq->head));
}

/* The same if elements were consumed since the last time. */
static inline void sirdma_cq_publish(struct sirdma_cq_ring *cq)
{
	if (!cq->unpublished)
		return;
	cq->unpublished = 0;
	sirdma_cq_put_head(cq);
}

/*
 * Elements that a call which polls many consumes before it releases them. The number bounds how much
 * of the ring the device lacks meanwhile; each release costs the device a cache miss. It was not
 * tuned.
 */
#define SIRDMA_CQ_PUBLISH_INTERVAL 64

/* Release consumed elements if there are many. A call that polls releases the rest at its end. */
static inline void sirdma_cq_publish_some(struct sirdma_cq_ring *cq)
{
	if (cq->unpublished >= SIRDMA_CQ_PUBLISH_INTERVAL)
		sirdma_cq_publish(cq);
}

/* Is @at of a WQE that came from a shared queue? Then its compl_ctx is the wr_id. */
static inline int sirdma_cqe_shared(const struct sirdma_cqe_at *at)
{
	return !!(at->hdr & SIRDMA_CQE_SRQ);
}

/*
 * Detach @at from its QP, which its word @qp names. Also set SIRDMA_CQE_ERROR: a poller need not look
 * for a missing QP in completions without it.
 */
static inline void sirdma_cqe_detach(const struct sirdma_cqe_at *at, __le64 *qp)
{
	sirdma_put64(qp, 0);
	sirdma_put64(&at->cqe->hdr, at->hdr | SIRDMA_CQE_ERROR);
}

/*
 * Detach the completions in the ring from the QP @qpn with @compl_ctx, so that the poller
 * skips them.
 */
static inline void sirdma_cq_forget(const struct sirdma_cq_ring *cq, __u64 compl_ctx, __u32 qpn)
{
	struct sirdma_cq_ring walk = *cq;
	struct sirdma_cqe_at at;
	__u32 seen;

	for (seen = 0; seen < cq->size && sirdma_cq_peek(&walk, &at); seen += at.ext ? 2 : 1) {
		if (sirdma_cqe_shared(&at)) {
			if (SIRDMA_GET(SIRDMA_CQE_QPID, sirdma_get64(&at.cqe->qp)) == qpn)
				sirdma_cqe_detach(&at, &at.cqe->qp);
		} else if (sirdma_get64(&at.cqe->compl_ctx) == compl_ctx) {
			sirdma_cqe_detach(&at, &at.cqe->compl_ctx);
		}
		sirdma_cq_consume(&walk, &at);
	}
}

/* Did sirdma_cq_forget() detach the completion? No QP has the number 0 or this context. */
static inline int sirdma_cqe_forgotten(const struct sirdma_cqe_at *at)
{
	if (sirdma_cqe_shared(at))
		return !SIRDMA_GET(SIRDMA_CQE_QPID, sirdma_get64(&at->cqe->qp));
	return !sirdma_get64(&at->cqe->compl_ctx);
}

/*
 * Arm: request an event at the next completion, or at the next solicited one or error. @seq
 * changes with each arming.
 */
static inline void sirdma_cq_put_arm(struct sirdma_cq_shadow *shadow, __u32 seq, int solicited_only)
{
	sirdma_put64_release(&shadow->arm,
			     SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, seq) |
				     SIRDMA_CQ_SHADOW_ARM_NEXT_SE |
				     (solicited_only ? 0 : SIRDMA_CQ_SHADOW_ARM_NEXT));
}

static inline __u32 sirdma_flush_status(__u32 minor)
{
	switch (minor) {
	case SIRDMA_FLUSH_GENERAL:
		return SIRDMA_WC_WR_FLUSH_ERR;
	case SIRDMA_FLUSH_PROT:
		return SIRDMA_WC_LOC_PROT_ERR;
	case SIRDMA_FLUSH_REM_ACCESS:
		return SIRDMA_WC_REM_ACCESS_ERR;
	case SIRDMA_FLUSH_LOC_QP_OP:
		return SIRDMA_WC_LOC_QP_OP_ERR;
	case SIRDMA_FLUSH_REM_OP:
		return SIRDMA_WC_REM_OP_ERR;
	case SIRDMA_FLUSH_LOC_LEN:
		return SIRDMA_WC_LOC_LEN_ERR;
	case SIRDMA_FLUSH_RETRY_EXC:
		return SIRDMA_WC_RETRY_EXC_ERR;
	case SIRDMA_FLUSH_MW_BIND:
		return SIRDMA_WC_MW_BIND_ERR;
	case SIRDMA_FLUSH_REM_INV_REQ:
		return SIRDMA_WC_REM_INV_REQ_ERR;
	case SIRDMA_FLUSH_RNR_RETRY_EXC:
		return SIRDMA_WC_RNR_RETRY_EXC_ERR;
	case SIRDMA_FLUSH_LOC_ACCESS:
		return SIRDMA_WC_LOC_ACCESS_ERR;
	default:
		return SIRDMA_WC_FATAL_ERR;
	}
}

/* Status of a CQE with header word @hdr. */
static inline __u32 sirdma_cqe_status(__u64 hdr)
{
	if (!(hdr & SIRDMA_CQE_ERROR))
		return SIRDMA_WC_SUCCESS;
	if (SIRDMA_GET(SIRDMA_CQE_MAJERR, hdr) != SIRDMA_CQE_MAJ_FLUSH)
		return SIRDMA_WC_GENERAL_ERR;
	return sirdma_flush_status((__u32)SIRDMA_GET(SIRDMA_CQE_MINERR, hdr));
}

/* Opcode of a send completion whose CQE says @code. */
static inline SIRDMA_CONSTEXPR __u32 sirdma_send_wc_opcode(__u32 code)
{
	switch (code) {
	case SIRDMA_OP_WRITE:
	case SIRDMA_OP_WRITE_SOL:
		return SIRDMA_WC_WRITE;
	case SIRDMA_OP_READ:
	case SIRDMA_OP_READ_LOC_INV:
		return SIRDMA_WC_READ;
	case SIRDMA_OP_SEND:
	case SIRDMA_OP_SEND_INV:
	case SIRDMA_OP_SEND_SOL:
	case SIRDMA_OP_SEND_SOL_INV:
		return SIRDMA_WC_SEND;
	case SIRDMA_OP_BIND_MW:
		return SIRDMA_WC_BIND_MW;
	case SIRDMA_OP_LOCAL_INV:
		return SIRDMA_WC_LOCAL_INV;
	case SIRDMA_OP_FAST_REG:
		return SIRDMA_WC_FAST_REG;
	case SIRDMA_OP_FETCH_ADD:
		return SIRDMA_WC_FETCH_ADD;
	case SIRDMA_OP_CMP_SWAP:
		return SIRDMA_WC_COMP_SWAP;
	case SIRDMA_OP_FLUSH:
		return SIRDMA_WC_FLUSH;
	case SIRDMA_OP_ATOMIC_WRITE:
		return SIRDMA_WC_ATOMIC_WRITE;
	default:
		return SIRDMA_WC_NO_OPCODE;
	}
}

/* Opcode of a receive completion whose CQE says @code. */
static inline SIRDMA_CONSTEXPR __u32 sirdma_recv_wc_opcode(__u32 code)
{
	switch (code & SIRDMA_BTH_OPERATION) {
	case SIRDMA_BTH_WRITE_LAST_IMM:
	case SIRDMA_BTH_WRITE_ONLY_IMM:
		return SIRDMA_WC_RECV_WRITE_IMM;
	default:
		return SIRDMA_WC_RECV;
	}
}

/* Decode the second half of a completion. */
static inline void sirdma_cqe_decode_ext(const struct sirdma_cqe_ext *ext, struct sirdma_wc *wc)
{
	const __u64 hdr = sirdma_get64(&ext->hdr);

	if (hdr & SIRDMA_CQE_EXT_IMMVALID) {
		wc->flags |= SIRDMA_WC_HAS_IMM;
		wc->imm = (__u32)sirdma_get64(&ext->imm);
	}
	if (hdr & SIRDMA_CQE_EXT_SMACVALID)
		wc->flags |= SIRDMA_WC_HAS_MAC;
	if (hdr & SIRDMA_CQE_EXT_VLANVALID)
		wc->flags |= SIRDMA_WC_HAS_VLAN;
	if (wc->flags & (SIRDMA_WC_HAS_MAC | SIRDMA_WC_HAS_VLAN))
		wc->mac_vlan = sirdma_get64(&ext->smac_vlan);
	if (hdr & SIRDMA_CQE_EXT_TSVALID)
		wc->timestamp = sirdma_get64(&ext->timestamp);
}

/* Decode the fields that all completions have. */
static inline void sirdma_cqe_decode_common(const struct sirdma_cqe_at *at, struct sirdma_wc *wc)
{
	const __u64 len = sirdma_get64(&at->cqe->len);
	const __u64 qp = sirdma_get64(&at->cqe->qp);

	wc->status = sirdma_cqe_status(at->hdr);
	wc->vendor_err =
		wc->status == SIRDMA_WC_SUCCESS ? 0 : (__u32)SIRDMA_GET(SIRDMA_CQE_VENDOR_ERR, len);
	wc->qp_num = (__u32)SIRDMA_GET(SIRDMA_CQE_QPID, qp);
	wc->src_qp = wc->qp_num;
	wc->imm = 0;
	wc->flags = 0;
	if (at->ext)
		sirdma_cqe_decode_ext(at->ext, wc);
}

/* Decode the fields that completions of receive requests have in addition. */
static inline void sirdma_cqe_decode_recv(const struct sirdma_cqe_at *at, struct sirdma_wc *wc)
{
	const __u64 len = sirdma_get64(&at->cqe->len);
	const __u32 op = (__u32)SIRDMA_GET(SIRDMA_CQE_OP, at->hdr);

	wc->byte_len =
		wc->status == SIRDMA_WC_SUCCESS ? (__u32)SIRDMA_GET(SIRDMA_CQE_PAYLDLEN, len) : 0;
	wc->opcode = sirdma_recv_wc_opcode(op);
	if (op & SIRDMA_CQE_OP_DATAGRAM) {
		wc->flags |= SIRDMA_WC_HAS_GRH;
		if (at->hdr & SIRDMA_CQE_IPV4)
			wc->flags |= SIRDMA_WC_IS_IPV4;
		wc->src_qp = (__u32)SIRDMA_GET(SIRDMA_CQE_SRCQPN, sirdma_get64(&at->cqe->qp));
	} else if (at->hdr & SIRDMA_CQE_STAG) {
		wc->flags |= SIRDMA_WC_HAS_INV;
		wc->imm = (__u32)SIRDMA_GET(SIRDMA_CQE_INVSTAG, sirdma_get64(&at->cqe->qp));
	}
}

/*
 * Decode @at, and find the request of @sq or @rq that it completes. 0 when there is no such
 * request: the caller skips the completion.
 */
static inline int sirdma_cqe_decode(const struct sirdma_cqe_at *at, struct sirdma_sq *sq,
				    struct sirdma_rq *rq, struct sirdma_wc *wc)
{
	const __u32 position = (__u32)SIRDMA_GET(SIRDMA_CQE_WQEIDX, at->hdr);

	sirdma_cqe_decode_common(at, wc);
	if (!(at->hdr & SIRDMA_CQE_SQ)) {
		sirdma_cqe_decode_recv(at, wc);
		return sirdma_rq_complete(rq, position, &wc->wr_id);
	}
	if (!sirdma_sq_complete(sq, position, &wc->wr_id, &wc->byte_len))
		return 0;
	wc->opcode = sirdma_send_wc_opcode((__u32)SIRDMA_GET(SIRDMA_CQE_OP, at->hdr));
	if (wc->opcode == SIRDMA_WC_NO_OPCODE) {
		wc->opcode = SIRDMA_WC_SEND;
		if (wc->status == SIRDMA_WC_SUCCESS)
			wc->status = SIRDMA_WC_GENERAL_ERR;
	}
	return 1;
}

/* Decode the completion of a request of a shared queue. 0: its QP is destroyed. */
static inline int sirdma_cqe_decode_shared(const struct sirdma_cqe_at *at, struct sirdma_wc *wc)
{
	sirdma_cqe_decode_common(at, wc);
	sirdma_cqe_decode_recv(at, wc);
	wc->wr_id = sirdma_get64(&at->cqe->compl_ctx);
	return wc->qp_num != 0;
}

#endif
