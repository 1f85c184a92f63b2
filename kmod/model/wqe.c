// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Work request decoding and validation. */
#include "wqe.h"

#include "qp.h"
#include "sirdma/geometry.h"
#include "sirdma/roce.h"
#include "transport.h"

enum {
	OPF_INLINE = 1 << 0, /* the operation may carry inline data */
	OPF_IMM = 1 << 1, /* the operation may carry immediate data */
	OPF_DATA = 1 << 2, /* the operation has fragments */
	OPF_ATOMIC = 1 << 3, /* the operation has one fragment of eight bytes, and two operands */
	OPF_LOCAL = 1 << 4, /* the operation changes a key and has no data */
	OPF_BIND = 1 << 5, /* the operation binds a memory window */
	OPF_REG =
		1 << 6, /* registers memory; SIRDMA_WQE_HPAGESIZE is in the place of IMMDATA_FLAG */
	OPF_EIGHT = 1 << 7, /* the data are SIRDMA_ATOMIC_LEN bytes */
	OPF_FLUSH = 1 << 8, /* the operation flushes remote memory and has no data */
};

#define OPF_SEND (OPF_DATA | OPF_INLINE | OPF_IMM)

/* OPF_* of each operation; 0: not supported. */
static const u16 sq_ops[1 << 6] = {
	[SIRDMA_OP_WRITE] = OPF_SEND,
	[SIRDMA_OP_WRITE_SOL] = OPF_SEND,
	[SIRDMA_OP_SEND] = OPF_SEND,
	[SIRDMA_OP_SEND_SOL] = OPF_SEND,
	[SIRDMA_OP_READ] = OPF_DATA,
	[SIRDMA_OP_CMP_SWAP] = OPF_ATOMIC,
	[SIRDMA_OP_FETCH_ADD] = OPF_ATOMIC,
	[SIRDMA_OP_SEND_INV] = OPF_DATA | OPF_INLINE,
	[SIRDMA_OP_SEND_SOL_INV] = OPF_DATA | OPF_INLINE,
	[SIRDMA_OP_READ_LOC_INV] = OPF_DATA,
	[SIRDMA_OP_LOCAL_INV] = OPF_LOCAL,
	[SIRDMA_OP_BIND_MW] = OPF_BIND,
	[SIRDMA_OP_FAST_REG] = OPF_REG,
	[SIRDMA_OP_FLUSH] = OPF_FLUSH,
	[SIRDMA_OP_ATOMIC_WRITE] = OPF_DATA | OPF_INLINE | OPF_EIGHT,
};

static u64 wqe_hdr(const struct sirdma_wqe *wqe)
{
	return le64_to_cpu(READ_ONCE(wqe->hdr));
}

static bool hdr_valid(u64 hdr, bool polarity)
{
	return !!(hdr & SIRDMA_WQE_VALID) == polarity;
}

static u32 sqe_quanta(u64 hdr)
{
	if (hdr & SIRDMA_WQE_INLINE)
		return sirdma_inline_quanta((u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr));
	return sirdma_frag_quanta((u32)SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) + 1);
}

/*
 * A copy of a WQE. Behind the first quantum two fragments share 32 bytes, so the copy is an array
 * of fragments, except for the second half of quantum 0.
 */
union wqe_copy {
	struct sirdma_wqe first;
	struct {
		struct sirdma_wqe first;
		struct sirdma_atomic_operands operands;
	} atomic;
	struct sirdma_frag frags[2 * SIRDMA_MAX_WQE_QUANTA];
};

/* Fragment @i of a WQE copy. */
static bool frag_load(const union wqe_copy *copy, u32 i, bool polarity, struct snic_sge *sge)
{
	u32 at = i ? i + 1 : 0;
	u64 stag = le64_to_cpu(copy->frags[at].stag);

	sge->addr = le64_to_cpu(copy->frags[at].addr);
	sge->stag = (u32)SIRDMA_GET(SIRDMA_FRAG_STAG, stag);
	sge->len = (u32)SIRDMA_GET(SIRDMA_FRAG_LEN, stag);
	/*
	 * The fragment is of an earlier lap: the poster wrote the header before the rest of the
	 * WQE.
	 */
	return !sge->len || !!(stag & SIRDMA_FRAG_VALID) == polarity;
}

/* Decode fragments @first .. @count-1 of @copy, and leave out empty ones. */
static bool frags_load(const union wqe_copy *copy, u32 first, u32 count, bool polarity,
		       struct snic_sge *sge, u8 *nsge, u32 *len)
{
	struct snic_sge one;
	u64 total = 0;
	u32 n = 0, i;

	for (i = first; i < count; i++) {
		if (!frag_load(copy, i, polarity, &one))
			return false;
		if (!one.len)
			continue;
		if (n == SIRDMA_MAX_SGE)
			return false;
		total += one.len;
		sge[n++] = one;
	}
	if (total > SIRDMA_MAX_MSG_SIZE)
		return false;
	*nsge = (u8)n;
	*len = (u32)total;
	return true;
}

/* The fragment has neither length nor valid bit; the last word of the WQE has a valid bit. */
static bool atomic_load(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr, bool polarity)
{
	if (SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) != 1 ||
	    !hdr_valid(le64_to_cpu(copy->atomic.operands.valid), polarity))
		return false;
	sqe->sge[0].addr = le64_to_cpu(copy->first.frag_addr);
	sqe->sge[0].stag = (u32)SIRDMA_GET(SIRDMA_FRAG_STAG, le64_to_cpu(copy->first.frag_stag));
	sqe->sge[0].len = SIRDMA_ATOMIC_LEN;
	sqe->nsge = 1;
	sqe->len = SIRDMA_ATOMIC_LEN;
	sqe->atomic.swap_add = le64_to_cpu(copy->atomic.operands.swap_add);
	sqe->atomic.compare = le64_to_cpu(copy->atomic.operands.compare);
	sqe->srqn = (u32)le64_to_cpu(copy->atomic.operands.xrc_srq) & SIRDMA_QPN_MASK;
	return true;
}

static bool flush_load(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr, bool names_srq)
{
	u64 what = le64_to_cpu(copy->first.frag_addr), srqn = le64_to_cpu(copy->first.frag_stag);
	u32 plt = (u32)SIRDMA_GET(SIRDMA_WQE_FLUSH_PLT, what);
	u32 sel = (u32)SIRDMA_GET(SIRDMA_WQE_FLUSH_SEL, what);

	if (SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) || srqn > (names_srq ? SIRDMA_QPN_MASK : 0) ||
	    !plt || plt & ~(u32)(SIRDMA_FLUSH_TO_GLOBAL | SIRDMA_FLUSH_TO_PERSISTENT) ||
	    sel > SIRDMA_FLUSH_REGION)
		return false;
	sqe->srqn = (u32)srqn & SIRDMA_QPN_MASK;
	sqe->flush.len = (u32)SIRDMA_GET(SIRDMA_WQE_FLUSH_LEN, what);
	sqe->flush.feth = (u8)(plt | sel << SIRDMA_FETH_SEL_SHIFT);
	return true;
}

static bool bind_load(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr)
{
	u64 stags = le64_to_cpu(copy->first.frag_stag);

	if (SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr))
		return false;
	sqe->bind.va = le64_to_cpu(copy->first.frag_addr);
	sqe->bind.len = le64_to_cpu(copy->first.remote);
	sqe->bind.window = (u32)SIRDMA_GET(SIRDMA_BIND_WINDOW, stags);
	sqe->bind.region = (u32)SIRDMA_GET(SIRDMA_BIND_REGION, stags);
	sqe->bind.rights = (u8)SIRDMA_GET(SIRDMA_WQE_STAGRIGHTS, hdr);
	if (hdr & SIRDMA_WQE_REMOTE_ATOMICS)
		sqe->bind.rights |= SIRDMA_ACCESS_REMOTE_ATOMIC;
	sqe->bind.type1 = hdr & SIRDMA_WQE_MWTYPE;
	sqe->bind.zero_based = !(hdr & SIRDMA_WQE_VABASED);
	return true;
}

static bool reg_load(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr)
{
	const u64 needed = SIRDMA_WQE_COPY_PBL | SIRDMA_WQE_VABASED;

	/* Word 1, and word 2 above the length, are irdma's place of the list. */
	if ((hdr & (needed | SIRDMA_WQE_INLINE)) != needed || copy->first.frag_stag ||
	    SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) || SIRDMA_GET(SIRDMA_WQE_LPBLSIZE, hdr) != 1 ||
	    (le64_to_cpu(copy->first.remote) & ~SIRDMA_FAST_REG_LEN))
		return false;
	sqe->reg.va = le64_to_cpu(copy->first.frag_addr);
	sqe->reg.len = le64_to_cpu(copy->first.remote);
	sqe->reg.stag = (u32)SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr);
	sqe->reg.rights = (u8)SIRDMA_GET(SIRDMA_WQE_STAGRIGHTS, hdr);
	if (hdr & SIRDMA_WQE_REMOTE_ATOMICS)
		sqe->reg.rights |= SIRDMA_ACCESS_REMOTE_ATOMIC;
	sqe->reg.hpage = (u8)SIRDMA_GET(SIRDMA_WQE_HPAGESIZE, hdr);
	return true;
}

/* Decode the data of @sqe: bytes in the ring, or fragments. */
static bool data_load(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr, bool polarity,
		      bool names_srq)
{
	u32 nfrags;

	/* Only an XRC initiator names a queue; for others this word is an address. */
	sqe->srqn = (u32)SIRDMA_GET(SIRDMA_WQE_XRC_SRQ, le64_to_cpu(copy->first.frag_addr));
	if (sqe->is_inline) {
		sqe->len = (u32)SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr);
		return sqe->len <= SIRDMA_MAX_INLINE;
	}
	nfrags = 1 + (u32)SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr);
	if (nfrags > SNIC_WQE_FRAGS)
		return false;
	/* Immediate data and the number of the queue take the place of fragment 0. */
	return frags_load(copy, sqe->has_imm | names_srq, nfrags, polarity, sqe->sge, &sqe->nsge,
			  &sqe->len);
}

static bool sqe_decode(struct snic_sqe *sqe, const union wqe_copy *copy, u64 hdr, bool polarity,
		       bool names_srq)
{
	u16 allowed = sq_ops[sqe->op];

	if (sqe->op == SIRDMA_OP_NOP)
		return true;
	/* Only the stag of the fragment has a meaning. Its valid bit has none: irdma writes 0. */
	if (snic_op_invalidates(sqe->op))
		sqe->inv_stag =
			(u32)SIRDMA_GET(SIRDMA_FRAG_STAG, le64_to_cpu(copy->first.frag_stag));
	if (allowed & OPF_LOCAL)
		return true;
	if (allowed & OPF_REG)
		return reg_load(sqe, copy, hdr);
	sqe->has_imm = hdr & SIRDMA_WQE_IMMDATA_FLAG;
	sqe->is_inline = hdr & SIRDMA_WQE_INLINE;
	if (!allowed || (sqe->has_imm && !(allowed & OPF_IMM)) ||
	    (sqe->is_inline && !(allowed & OPF_INLINE)))
		return false;
	if (sqe->has_imm)
		sqe->imm = (u32)le64_to_cpu(copy->first.frag_addr);
	if (allowed & OPF_BIND)
		return bind_load(sqe, copy, hdr);
	sqe->remote_va = le64_to_cpu(copy->first.remote);
	sqe->rkey = (u32)SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr);
	if (allowed & OPF_FLUSH)
		return flush_load(sqe, copy, hdr, names_srq);
	if (allowed & OPF_ATOMIC)
		return atomic_load(sqe, copy, hdr, polarity);
	return data_load(sqe, copy, hdr, polarity, names_srq) &&
	       (!(allowed & OPF_EIGHT) || sqe->len == SIRDMA_ATOMIC_LEN);
}

enum snic_wqe_status snic_sqe_load(struct snic_qp *qp, u32 idx, bool polarity, struct snic_sqe *sqe)
{
	union wqe_copy copy __uninitialized;
	const struct sirdma_wqe *wqe;
	u32 quanta;
	u64 hdr;

	wqe = snic_ring_ptr(qp->dev, &qp->sq_ring, idx * SIRDMA_QUANTUM, SIRDMA_QUANTUM);
	if (!wqe)
		return SNIC_WQE_NONE;
	hdr = wqe_hdr(wqe);
	if (!hdr_valid(hdr, polarity))
		return SNIC_WQE_NONE;
	smp_rmb(); /* this barrier pairs with the poster's barrier before the header */
	sqe->idx = (u16)idx;
	sqe->op = (u8)SIRDMA_GET(SIRDMA_WQE_OPCODE, hdr);
	/* A NOP that does not ask for a completion is the ring writer's padding. */
	sqe->signaled = (hdr & SIRDMA_WQE_SIGCOMPL) ||
			((qp->queue_flags & SIRDMA_QPC_SIG_ALL) && sqe->op != SIRDMA_OP_NOP);
	sqe->read_fence = hdr & SIRDMA_WQE_READFENCE;
	sqe->has_imm = false;
	sqe->is_inline = false;
	sqe->imm = 0;
	sqe->len = 0;
	sqe->nsge = 0;
	quanta = sqe->op == SIRDMA_OP_NOP ? 1 : sqe_quanta(hdr);
	if ((idx % SIRDMA_SQ_CHUNK_QUANTA) + quanta > SIRDMA_SQ_CHUNK_QUANTA) {
		sqe->quanta = 1;
		return SNIC_WQE_BAD;
	}
	sqe->quanta = (u8)quanta;
	/* A chunk of quanta is 256 aligned bytes: the pointer is valid for all of it. */
	if (quanta == 1) {
		copy.first.frag_addr = READ_ONCE(wqe->frag_addr);
		copy.first.frag_stag = READ_ONCE(wqe->frag_stag);
		copy.first.remote = READ_ONCE(wqe->remote);
	} else {
		memcpy(&copy, wqe, quanta * SIRDMA_QUANTUM);
	}
	return sqe_decode(sqe, &copy, hdr, polarity, qp->transport->names_srq) ? SNIC_WQE_OK :
										 SNIC_WQE_BAD;
}

bool snic_sqe_peek(struct snic_qp *qp, u32 idx, bool polarity)
{
	const struct sirdma_wqe *wqe =
		snic_ring_ptr(qp->dev, &qp->sq_ring, idx * SIRDMA_QUANTUM, SIRDMA_QUANTUM);

	return wqe && hdr_valid(wqe_hdr(wqe), polarity);
}

void *snic_sqe_inline_ptr(struct snic_qp *qp, const struct snic_sqe *sqe, u32 off, u32 len,
			  u32 *run)
{
	u32 pos, left, quantum;

	if (off < SIRDMA_INLINE_FIRST) {
		pos = SIRDMA_INLINE_FIRST + off;
		left = SIRDMA_INLINE_FIRST - off;
	} else {
		off -= SIRDMA_INLINE_FIRST;
		quantum = off / SIRDMA_INLINE_NEXT;
		off %= SIRDMA_INLINE_NEXT;
		pos = (1 + quantum) * SIRDMA_QUANTUM + off;
		left = SIRDMA_INLINE_NEXT - off;
	}
	*run = min(left, len);
	return snic_ring_ptr(qp->dev, &qp->sq_ring, sqe->idx * SIRDMA_QUANTUM + pos, *run);
}

static const struct sirdma_wqe *rqe_ptr(struct snic_rq *rq, u32 idx)
{
	u32 stride = SIRDMA_QUANTUM << rq->stride_shift;

	return snic_ring_ptr(rq->dev, &rq->ring, idx * stride, stride);
}

enum snic_wqe_status snic_rqe_load(struct snic_rq *rq, u32 idx, bool polarity, struct snic_rqe *rqe)
{
	union wqe_copy copy __uninitialized;
	const struct sirdma_wqe *wqe;
	u32 nfrags, quanta;
	u64 hdr;

	if (!rq->wqes)
		return SNIC_WQE_NONE;
	wqe = rqe_ptr(rq, idx);
	if (!wqe)
		return SNIC_WQE_NONE;
	hdr = wqe_hdr(wqe);
	if (!hdr_valid(hdr, polarity))
		return SNIC_WQE_NONE;
	smp_rmb(); /* this barrier pairs with the poster's barrier before the header */
	rqe->idx = (u16)(idx << rq->stride_shift);
	rqe->wr_id = le64_to_cpu(READ_ONCE(wqe->remote));
	nfrags = 1 + (u32)SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr);
	quanta = sirdma_frag_quanta(nfrags);
	if (quanta > 1u << rq->stride_shift)
		return SNIC_WQE_BAD;
	memcpy(&copy, wqe, quanta * SIRDMA_QUANTUM);
	return frags_load(&copy, 0, nfrags, polarity, rqe->sge, &rqe->nsge, &rqe->len) ?
		       SNIC_WQE_OK :
		       SNIC_WQE_BAD;
}

bool snic_rqe_peek(struct snic_rq *rq, u32 idx, bool polarity)
{
	const struct sirdma_wqe *wqe = rq->wqes ? rqe_ptr(rq, idx) : NULL;

	return wqe && hdr_valid(wqe_hdr(wqe), polarity);
}
