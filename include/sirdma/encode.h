/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Encodes work requests into the words of a WQE. The header word is composed here; the
 * queue writes it last.
 */
#ifndef SIRDMA_ENCODE_H
#define SIRDMA_ENCODE_H

#include "geometry.h"
#include "qpctx.h"
#include "roce.h"
#include "word.h"

/*
 * The fields of struct ibv_sge and of the kernel's struct ib_sge, both of which are read
 * through it.
 */
struct sirdma_sge {
	__u64 addr;
	__u32 length;
	__u32 lkey;
} __attribute__((__may_alias__));
SIRDMA_SIZE_IS(struct sirdma_sge, 16);

/* Values of enum ibv_wr_opcode, and of the kernel's enum ib_wr_opcode where it has them. */
enum sirdma_wr_opcode {
	SIRDMA_WR_WRITE = 0,
	SIRDMA_WR_WRITE_IMM = 1,
	SIRDMA_WR_SEND = 2,
	SIRDMA_WR_SEND_IMM = 3,
	SIRDMA_WR_READ = 4,
	SIRDMA_WR_CMP_SWAP = 5,
	SIRDMA_WR_FETCH_ADD = 6,
	SIRDMA_WR_LOCAL_INV = 7,
	SIRDMA_WR_BIND_MW = 8,
	SIRDMA_WR_SEND_INV = 9,
	SIRDMA_WR_FLUSH =
		14, /* of ibv_wr_flush() only: other interfaces have no place for sirdma_flush */
	SIRDMA_WR_ATOMIC_WRITE = 15,
	/* The kernel's only: an application's numbers mean other operations. */
	SIRDMA_WR_READ_INV = 0x10000,
	SIRDMA_WR_FAST_REG = 0x10001,
};

/* Values of IBV_SEND_* and IB_SEND_*. */
#define SIRDMA_SEND_FENCE 0x1u
#define SIRDMA_SEND_SIGNALED 0x2u
#define SIRDMA_SEND_SOLICITED 0x4u
#define SIRDMA_SEND_INLINE 0x8u
/* Those that change the header: see sirdma_send_flag_bits(). */
#define SIRDMA_SEND_HDR_FLAGS (SIRDMA_SEND_FENCE | SIRDMA_SEND_SIGNALED | SIRDMA_SEND_SOLICITED)

/* A memory window to be bound. */
struct sirdma_bind {
	__u64 addr; /* of its first byte in the region */
	__u64 length; /* 0: unbind a window of type 1 */
	__u32 window; /* stag that it gets */
	__u32 region; /* stag */
	__u32 rights; /* SIRDMA_ACCESS_REMOTE_* */
	int type1;
	int zero_based; /* peers address it from 0 */
};

/* Memory to be registered with a region; its page list is written already (cqp.h). */
struct sirdma_fast_reg {
	__u64 addr; /* of its first byte */
	__u64 length;
	__u32 stag; /* with its new key */
	__u32 rights; /* SIRDMA_ACCESS_* */
	__u32 hpage; /* enum sirdma_hpage_size */
};

/* What a FLUSH asks for. */
struct sirdma_flush {
	__u64 length; /* bytes of a range */
	__u32 placement; /* SIRDMA_FLUSH_TO_*, one or both */
	__u32 level; /* SIRDMA_FLUSH_RANGE or _REGION */
};

/* Can a WQE ask for it? */
static inline int sirdma_flush_ok(const struct sirdma_flush *flush)
{
	return flush->length <= 0xffffffffu && flush->placement &&
	       !(flush->placement &
		 ~(__u32)(SIRDMA_FLUSH_TO_GLOBAL | SIRDMA_FLUSH_TO_PERSISTENT)) &&
	       flush->level <= SIRDMA_FLUSH_REGION;
}

/* A send request, from any of the posting interfaces. */
struct sirdma_send {
	__u64 wr_id;
	__u32 opcode; /* enum sirdma_wr_opcode; an application may pass any value */
	__u32 flags; /* SIRDMA_SEND_*, others are ignored */
	__u64 remote_addr; /* or sirdma_send_dest() of a datagram */
	__u32 key; /* rkey, the stag to invalidate, or the index of a datagram's address vector */
	__u32 imm; /* CPU order */
	const struct sirdma_sge *sges; /* inline data: addresses of the caller's own memory */
	__u32 num_sge;
	__u64 swap_add; /* of an atomic: the value to swap in, or to add */
	__u64 compare; /* of a compare-and-swap */
	__u64 srq; /* an XRC initiator's: sirdma_send_srq(); else 0 */
	union {
		const struct sirdma_bind *bind; /* of a BIND_MW */
		const struct sirdma_fast_reg *reg; /* of a FAST_REG */
		const struct sirdma_flush *flush; /* of a FLUSH: sirdma_flush_ok() */
	};
};

/* sirdma_send.srq is set. The bit is outside SIRDMA_WQE_XRC_SRQ, and the device ignores it. */
#define SIRDMA_SEND_HAS_SRQ SIRDMA_BIT(63)

/* An entry of the opcode table: two opcodes, and the parts that the request may have. */
#define SIRDMA_SEND_OP_CODE SIRDMA_MASK(5, 0) /* enum sirdma_sq_op */
#define SIRDMA_SEND_OP_CODE_SOL SIRDMA_MASK(13, 8) /* the same of a solicited request */
#define SIRDMA_SEND_OP_IMM 0x10000u
#define SIRDMA_SEND_OP_KEY 0x20000u /* the header's low word is the key */
#define SIRDMA_SEND_OP_INLINE 0x40000u
#define SIRDMA_SEND_OP_READ 0x80000u /* the fragments receive data */
#define SIRDMA_SEND_OP_ATOMIC 0x100000u
#define SIRDMA_SEND_OP_NO_DATA 0x200000u /* changes a key, or is a FLUSH */
#define SIRDMA_SEND_OP_KERNEL 0x400000u /* of kernel consumers only */
#define SIRDMA_SEND_OP_PLACEMENT 0x800000u /* of IBTA annex A19 */
/* The types of queue pairs that support the operation. */
#define SIRDMA_SEND_ON_RC 0x1000000u
#define SIRDMA_SEND_ON_UC 0x2000000u
#define SIRDMA_SEND_ON_UD 0x4000000u
#define SIRDMA_SEND_ON_XRC 0x8000000u
#define SIRDMA_SEND_ON_RELIABLE (SIRDMA_SEND_ON_RC | SIRDMA_SEND_ON_XRC)
#define SIRDMA_SEND_ON_CONNECTED (SIRDMA_SEND_ON_RELIABLE | SIRDMA_SEND_ON_UC)

/* The SIRDMA_SEND_ON_* of device type @type (enum sirdma_qp_type); 0: its QPs send nothing. */
static inline __u32 sirdma_send_on(__u32 type)
{
	switch (type) {
	case SIRDMA_QPT_RC:
		return SIRDMA_SEND_ON_RC;
	case SIRDMA_QPT_UC:
		return SIRDMA_SEND_ON_UC;
	case SIRDMA_QPT_UD:
		return SIRDMA_SEND_ON_UD;
	case SIRDMA_QPT_XRC_INI:
		return SIRDMA_SEND_ON_XRC;
	default:
		return 0;
	}
}

#define SIRDMA_SEND_OP(code, code_sol, flags) ((__u32)(code) | (__u32)(code_sol) << 8 | (flags))

/* The entry of an operation of kernel consumers. */
static inline __u32 sirdma_send_kernel_op(__u32 opcode)
{
	switch (opcode) {
	case SIRDMA_WR_READ_INV:
		return SIRDMA_SEND_OP(SIRDMA_OP_READ_LOC_INV, SIRDMA_OP_READ_LOC_INV,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_READ |
					      SIRDMA_SEND_OP_KERNEL | SIRDMA_SEND_ON_RC);
	case SIRDMA_WR_FAST_REG:
		return SIRDMA_SEND_OP(SIRDMA_OP_FAST_REG, SIRDMA_OP_FAST_REG,
				      SIRDMA_SEND_OP_NO_DATA | SIRDMA_SEND_OP_KERNEL |
					      SIRDMA_SEND_ON_RC | SIRDMA_SEND_ON_UC);
	default:
		return 0;
	}
}

/*
 * The entry of @opcode; 0: there is no such operation. The numbers of the cases lie close together, so
 * that compilers make an array of them.
 */
static inline __u32 sirdma_send_op(__u32 opcode)
{
	switch (opcode) {
	case SIRDMA_WR_WRITE:
		return SIRDMA_SEND_OP(SIRDMA_OP_WRITE, SIRDMA_OP_WRITE,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_INLINE |
					      SIRDMA_SEND_ON_CONNECTED);
	case SIRDMA_WR_WRITE_IMM:
		return SIRDMA_SEND_OP(SIRDMA_OP_WRITE, SIRDMA_OP_WRITE_SOL,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_INLINE |
					      SIRDMA_SEND_OP_IMM | SIRDMA_SEND_ON_CONNECTED);
	case SIRDMA_WR_SEND:
		return SIRDMA_SEND_OP(SIRDMA_OP_SEND, SIRDMA_OP_SEND_SOL,
				      SIRDMA_SEND_OP_INLINE | SIRDMA_SEND_ON_CONNECTED |
					      SIRDMA_SEND_ON_UD);
	case SIRDMA_WR_SEND_IMM:
		return SIRDMA_SEND_OP(SIRDMA_OP_SEND, SIRDMA_OP_SEND_SOL,
				      SIRDMA_SEND_OP_INLINE | SIRDMA_SEND_OP_IMM |
					      SIRDMA_SEND_ON_CONNECTED | SIRDMA_SEND_ON_UD);
	case SIRDMA_WR_READ:
		return SIRDMA_SEND_OP(SIRDMA_OP_READ, SIRDMA_OP_READ,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_READ |
					      SIRDMA_SEND_ON_RELIABLE);
	case SIRDMA_WR_CMP_SWAP:
		return SIRDMA_SEND_OP(SIRDMA_OP_CMP_SWAP, SIRDMA_OP_CMP_SWAP,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_ATOMIC |
					      SIRDMA_SEND_ON_RELIABLE);
	case SIRDMA_WR_FETCH_ADD:
		return SIRDMA_SEND_OP(SIRDMA_OP_FETCH_ADD, SIRDMA_OP_FETCH_ADD,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_ATOMIC |
					      SIRDMA_SEND_ON_RELIABLE);
	case SIRDMA_WR_LOCAL_INV:
		return SIRDMA_SEND_OP(SIRDMA_OP_LOCAL_INV, SIRDMA_OP_LOCAL_INV,
				      SIRDMA_SEND_OP_NO_DATA | SIRDMA_SEND_ON_CONNECTED);
	case SIRDMA_WR_SEND_INV:
		return SIRDMA_SEND_OP(SIRDMA_OP_SEND_INV, SIRDMA_OP_SEND_SOL_INV,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_INLINE |
					      SIRDMA_SEND_ON_RELIABLE);
	case SIRDMA_WR_BIND_MW:
		return SIRDMA_SEND_OP(SIRDMA_OP_BIND_MW, SIRDMA_OP_BIND_MW,
				      SIRDMA_SEND_OP_NO_DATA | SIRDMA_SEND_ON_CONNECTED);
	case SIRDMA_WR_FLUSH:
		return SIRDMA_SEND_OP(SIRDMA_OP_FLUSH, SIRDMA_OP_FLUSH,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_NO_DATA |
					      SIRDMA_SEND_OP_PLACEMENT | SIRDMA_SEND_ON_RELIABLE);
	case SIRDMA_WR_ATOMIC_WRITE:
		return SIRDMA_SEND_OP(SIRDMA_OP_ATOMIC_WRITE, SIRDMA_OP_ATOMIC_WRITE,
				      SIRDMA_SEND_OP_KEY | SIRDMA_SEND_OP_INLINE |
					      SIRDMA_SEND_OP_PLACEMENT | SIRDMA_SEND_ON_RELIABLE);
	default:
		return sirdma_send_kernel_op(opcode);
	}
}

/* srq of a request to the remote shared receive queue @number. */
static inline __u64 sirdma_send_srq(__u32 number)
{
	return SIRDMA_SEND_HAS_SRQ | SIRDMA_PREP(SIRDMA_WQE_XRC_SRQ, number);
}

/*
 * The first fragment that is data: immediate data and the number of a queue take the place of
 * fragment 0.
 */
static inline __u32 sirdma_send_first_frag(const struct sirdma_send *send, int has_imm)
{
	return has_imm || (send->srq & SIRDMA_SEND_HAS_SRQ) ? 1 : 0;
}

/* remote_addr of a datagram to @qpn. */
static inline __u64 sirdma_send_dest(__u32 qpn, __u32 qkey)
{
	return SIRDMA_PREP(SIRDMA_WQE_DESTQPN, qpn) | SIRDMA_PREP(SIRDMA_WQE_DESTQKEY, qkey);
}

/*
 * The operands of an atomic as the verbs API has them: @compare_add is the value to add, or to
 * compare.
 */
static inline void sirdma_send_set_operands(struct sirdma_send *send, __u64 compare_add, __u64 swap)
{
	const int swaps = send->opcode == SIRDMA_WR_CMP_SWAP;

	send->swap_add = swaps ? swap : compare_add;
	send->compare = swaps ? compare_add : 0;
}

/* Valid bit of a WQE at free-running @index in a ring of @size, a power of two: 1 on even laps. */
static inline __u64 sirdma_valid_bit(__u32 index, __u32 size)
{
	return index & size ? 0 : SIRDMA_WQE_VALID;
}

/* The place of fragment @i: fragment 0 lies in the first quantum, the others behind it. */
static inline struct sirdma_frag *sirdma_frag_at(struct sirdma_wqe *wqe, __u32 i)
{
	return (struct sirdma_frag *)wqe + (i ? i + 1 : 0);
}

static inline void sirdma_put_frag(struct sirdma_frag *frag, const struct sirdma_sge *sge,
				   __u64 valid)
{
	/* Before the stores, because a compiler reads @sge again behind them. */
	const __u64 stag = valid | SIRDMA_PREP(SIRDMA_FRAG_LEN, sge->length) |
			   SIRDMA_PREP(SIRDMA_FRAG_STAG, sge->lkey);

	sirdma_put64(&frag->addr, sge->addr);
	sirdma_put64(&frag->stag, stag);
}

/*
 * Write @count of @sges as fragments @first (1 where immediate data took the place
 * of fragment 0) and up, padded so that the last quantum is whole and every quantum
 * carries this lap's valid bit. Returns the ADDFRAGCNT field.
 */
static inline __u64 sirdma_put_frags(struct sirdma_wqe *wqe, const struct sirdma_sge *sges,
				     __u32 count, __u32 first, __u64 valid)
{
	struct sirdma_frag *frag;
	__u32 next = first;

	while (count--)
		sirdma_put_frag(sirdma_frag_at(wqe, next++), sges++, valid);
	if (next % 2 == 0) {
		frag = sirdma_frag_at(wqe, next++);
		sirdma_put64(&frag->addr, 0);
		sirdma_put64(&frag->stag, valid);
	}
	return SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, next - 1);
}

/*
 * Writer of inline data, which lies around the header and the polarity bytes: the header ends the
 * first quantum, a polarity byte each of the others.
 */
struct sirdma_inline {
	__u8 *at; /* place of the next byte */
	__u32 room; /* bytes from there to the end of the quantum's data */
	__u8 polarity;
	__u8 in_first; /* quantum */
};

static inline void sirdma_inline_begin(struct sirdma_inline *data, struct sirdma_wqe *wqe,
				       __u64 valid)
{
	data->at = (__u8 *)wqe + __builtin_offsetof(struct sirdma_wqe, frag_stag);
	data->room = SIRDMA_INLINE_FIRST;
	data->polarity = valid ? 0x80 : 0;
	data->in_first = 1;
}

/* Go to the next quantum; this one is full. */
static inline void sirdma_inline_next(struct sirdma_inline *data)
{
	if (data->in_first)
		data->at +=
			sizeof(struct sirdma_wqe) - __builtin_offsetof(struct sirdma_wqe, remote);
	else
		*data->at++ = data->polarity;
	data->in_first = 0;
	data->room = SIRDMA_INLINE_NEXT;
}

static inline void sirdma_inline_add(struct sirdma_inline *data, const void *bytes, __u32 length)
{
	const __u8 *from = (const __u8 *)bytes;

	while (length) {
		__u32 n;

		if (!data->room)
			sirdma_inline_next(data);
		n = length < data->room ? length : data->room;
		/* A whole quantum, or all of the first one, is copied without a call. */
		if (n == SIRDMA_INLINE_NEXT)
			__builtin_memcpy(data->at, from, SIRDMA_INLINE_NEXT);
		else if (n == SIRDMA_INLINE_FIRST)
			__builtin_memcpy(data->at, from, SIRDMA_INLINE_FIRST);
		else
			__builtin_memcpy(data->at, from, n);
		data->at += n;
		from += n;
		data->room -= n;
		length -= n;
	}
}

static inline void sirdma_inline_end(struct sirdma_inline *data)
{
	if (!data->in_first)
		data->at[data->room] = data->polarity;
}

/* The header bits of @bytes of inline data. */
static inline __u64 sirdma_inline_bits(__u32 bytes)
{
	return SIRDMA_WQE_INLINE | SIRDMA_PREP(SIRDMA_WQE_INLINELEN, bytes);
}

/* Write the bytes of @sges, whose addresses are the caller's own memory. */
static inline void sirdma_put_inline(struct sirdma_wqe *wqe, const struct sirdma_sge *sges,
				     __u32 count, __u64 valid)
{
	struct sirdma_inline data;

	sirdma_inline_begin(&data, wqe, valid);
	for (; count--; sges++)
		sirdma_inline_add(&data, (const void *)(__UINTPTR_TYPE__)sges->addr, sges->length);
	sirdma_inline_end(&data);
}

/* Sum of the lengths; ~0 when one of them, or the sum, is more than a message can have. */
static inline __u64 sirdma_sge_bytes(const struct sirdma_sge *sges, __u32 count)
{
	__u64 bytes = 0;

	for (; count--; sges++) {
		if (sges->length > SIRDMA_MAX_MSG_SIZE)
			return ~0ULL;
		bytes += sges->length;
	}
	return bytes <= SIRDMA_MAX_MSG_SIZE ? bytes : ~0ULL;
}

/* What a solicited SEND, with or without invalidation, adds to the header of another. */
#define SIRDMA_SEND_SOLICITED_CODE (SIRDMA_OP_SEND_SOL - SIRDMA_OP_SEND)
SIRDMA_STATIC_ASSERT(SIRDMA_SEND_SOLICITED_CODE == SIRDMA_OP_SEND_SOL_INV - SIRDMA_OP_SEND_INV,
		     "one table of flags for all SENDs");

/* What the flags of a SEND add to its header; without SOLICITED those of other requests. */
static inline __u64 sirdma_send_flag_bits(__u32 flags)
{
	return (flags & SIRDMA_SEND_FENCE ? SIRDMA_WQE_READFENCE : 0) |
	       (flags & SIRDMA_SEND_SIGNALED ? SIRDMA_WQE_SIGCOMPL : 0) |
	       (flags & SIRDMA_SEND_SOLICITED ?
			SIRDMA_PREP(SIRDMA_WQE_OPCODE, SIRDMA_SEND_SOLICITED_CODE) :
			0);
}

/*
 * The header word of a request with entry @op, without its key and the bits that its data adds.
 * @flag_bits: for each combination of flags sirdma_send_flag_bits() and the valid bit.
 */
static inline __u64 sirdma_send_hdr(__u32 op, __u32 flags, const __u64 *flag_bits)
{
	const __u32 code = SIRDMA_GET(SIRDMA_SEND_OP_CODE, op);
	const __u32 solicited = SIRDMA_GET(SIRDMA_SEND_OP_CODE_SOL, op);
	__u64 hdr = SIRDMA_PREP(SIRDMA_WQE_OPCODE, code);

	if (op & SIRDMA_SEND_OP_IMM)
		hdr |= SIRDMA_WQE_IMMDATA_FLAG;
	if (solicited - code == SIRDMA_SEND_SOLICITED_CODE)
		return hdr + flag_bits[flags & SIRDMA_SEND_HDR_FLAGS];
	if (solicited != code && (flags & SIRDMA_SEND_SOLICITED))
		hdr |= SIRDMA_PREP(SIRDMA_WQE_OPCODE, solicited);
	return hdr | flag_bits[flags & SIRDMA_SEND_HDR_FLAGS & ~SIRDMA_SEND_SOLICITED];
}
SIRDMA_STATIC_ASSERT(SIRDMA_OP_WRITE == 0, "a solicited WRITE_IMM is an OR");

/*
 * Write the fragments of a send WQE from fragment @first on. What takes the place of fragment 0, if
 * @first is 1, is word 0. Returns the header bits that they add.
 */
static inline __u64 sirdma_put_data(struct sirdma_wqe *wqe, const struct sirdma_sge *sges,
				    __u32 count, __u32 first, __u64 valid)
{
	if (first)
		sirdma_put64(&wqe->frag_stag, 0);
	return sirdma_put_frags(wqe, sges, count, first, valid);
}

/*
 * Write the body of a send WQE, whose data is @send's memory or inline. @hdr: the header so far.
 * Returns the complete header.
 */
static inline __u64 sirdma_put_send(struct sirdma_wqe *wqe, const struct sirdma_send *send,
				    __u64 hdr, __u64 valid)
{
	const __u32 first = sirdma_send_first_frag(send, !!(hdr & SIRDMA_WQE_IMMDATA_FLAG));

	if (first)
		sirdma_put64(&wqe->frag_addr, send->imm | send->srq);
	hdr |= sirdma_put_data(wqe, send->sges, send->num_sge, first, valid);
	sirdma_put64(&wqe->remote, send->remote_addr);
	return hdr | valid;
}

static inline __u64 sirdma_put_send_inline(struct sirdma_wqe *wqe, const struct sirdma_send *send,
					   __u64 hdr, __u32 bytes, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr, send->imm | send->srq);
	sirdma_put_inline(wqe, send->sges, send->num_sge, valid);
	sirdma_put64(&wqe->remote, send->remote_addr);
	return hdr | sirdma_inline_bits(bytes) | valid;
}

/* The second quantum of the WQE of an atomic. */
static inline struct sirdma_atomic_operands *sirdma_operands_at(struct sirdma_wqe *wqe)
{
	return (struct sirdma_atomic_operands *)(wqe + 1);
}

/* Write what an atomic shall do; @srq: the number of the remote queue, or 0. */
static inline void sirdma_put_operands(struct sirdma_wqe *wqe, __u64 swap_add, __u64 compare,
				       __u64 srq, __u64 valid)
{
	struct sirdma_atomic_operands *operands = sirdma_operands_at(wqe);

	sirdma_put64(&operands->swap_add, swap_add);
	sirdma_put64(&operands->compare, compare);
	sirdma_put64(&operands->xrc_srq, srq);
	sirdma_put64(&operands->valid, valid);
}

/*
 * Write the one fragment of an atomic, which is where the original value goes. Returns the header
 * bits that it adds.
 */
static inline __u64 sirdma_put_result(struct sirdma_wqe *wqe, const struct sirdma_sge *sge)
{
	sirdma_put64(&wqe->frag_addr, sge->addr);
	sirdma_put64(&wqe->frag_stag, SIRDMA_PREP(SIRDMA_FRAG_STAG, sge->lkey));
	return SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, 1);
}

/* Write the body of an atomic. */
static inline __u64 sirdma_put_atomic(struct sirdma_wqe *wqe, const struct sirdma_send *send,
				      __u64 hdr, __u64 valid)
{
	hdr |= sirdma_put_result(wqe, send->sges);
	sirdma_put64(&wqe->remote, send->remote_addr);
	sirdma_put_operands(wqe, send->swap_add, send->compare,
			    SIRDMA_GET(SIRDMA_WQE_XRC_SRQ, send->srq), valid);
	return hdr | valid;
}

/* Write the body of a LOCAL_INV. */
static inline __u64 sirdma_put_local_inv(struct sirdma_wqe *wqe, const struct sirdma_send *send,
					 __u64 hdr, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr, 0);
	sirdma_put64(&wqe->frag_stag, SIRDMA_PREP(SIRDMA_FRAG_STAG, send->key));
	sirdma_put64(&wqe->remote, 0);
	return hdr | valid;
}

/* Write the body of a BIND_MW. */
static inline __u64 sirdma_put_bind(struct sirdma_wqe *wqe, const struct sirdma_bind *bind,
				    __u64 hdr, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr, bind->addr);
	sirdma_put64(&wqe->frag_stag, SIRDMA_PREP(SIRDMA_BIND_WINDOW, bind->window) |
					      SIRDMA_PREP(SIRDMA_BIND_REGION, bind->region));
	sirdma_put64(&wqe->remote, bind->length);
	hdr |= SIRDMA_PREP(SIRDMA_WQE_STAGRIGHTS, bind->rights);
	if (bind->rights & SIRDMA_ACCESS_REMOTE_ATOMIC)
		hdr |= SIRDMA_WQE_REMOTE_ATOMICS;
	if (bind->type1)
		hdr |= SIRDMA_WQE_MWTYPE;
	if (!bind->zero_based)
		hdr |= SIRDMA_WQE_VABASED;
	return hdr | valid;
}

/* Write the body of a FAST_REG. */
static inline __u64 sirdma_put_fast_reg(struct sirdma_wqe *wqe, const struct sirdma_fast_reg *reg,
					__u64 hdr, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr, reg->addr);
	sirdma_put64(&wqe->frag_stag, 0);
	sirdma_put64(&wqe->remote, SIRDMA_PREP(SIRDMA_FAST_REG_LEN, reg->length));
	hdr |= SIRDMA_PREP(SIRDMA_WQE_REMSTAG, reg->stag) |
	       SIRDMA_PREP(SIRDMA_WQE_STAGRIGHTS, reg->rights) |
	       SIRDMA_PREP(SIRDMA_WQE_LPBLSIZE, 1) | SIRDMA_PREP(SIRDMA_WQE_HPAGESIZE, reg->hpage) |
	       SIRDMA_WQE_COPY_PBL | SIRDMA_WQE_VABASED;
	if (reg->rights & SIRDMA_ACCESS_REMOTE_ATOMIC)
		hdr |= SIRDMA_WQE_REMOTE_ATOMICS;
	return hdr | valid;
}

/* Write the body of a FLUSH. */
static inline __u64 sirdma_put_flush(struct sirdma_wqe *wqe, const struct sirdma_send *send,
				     __u64 hdr, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr,
		     SIRDMA_PREP(SIRDMA_WQE_FLUSH_LEN, send->flush->length) |
			     SIRDMA_PREP(SIRDMA_WQE_FLUSH_PLT, send->flush->placement) |
			     SIRDMA_PREP(SIRDMA_WQE_FLUSH_SEL, send->flush->level));
	sirdma_put64(&wqe->frag_stag, SIRDMA_GET(SIRDMA_WQE_XRC_SRQ, send->srq));
	sirdma_put64(&wqe->remote, send->remote_addr);
	return hdr | valid;
}

/*
 * Write the number of the remote shared receive queue into a WQE with entry @op and immediate data
 * @imm, or 0.
 */
static inline void sirdma_put_srq(struct sirdma_wqe *wqe, __u32 op, __u32 number, __u32 imm)
{
	const __u64 srq = sirdma_send_srq(number);

	if (op & SIRDMA_SEND_OP_ATOMIC)
		sirdma_put64(&sirdma_operands_at(wqe)->xrc_srq,
			     SIRDMA_GET(SIRDMA_WQE_XRC_SRQ, srq));
	else if (op & SIRDMA_SEND_OP_NO_DATA) /* FLUSH */
		sirdma_put64(&wqe->frag_stag, SIRDMA_GET(SIRDMA_WQE_XRC_SRQ, srq));
	else
		sirdma_put64(&wqe->frag_addr, imm | srq);
}

/* Write the body of an operation with SIRDMA_SEND_OP_NO_DATA. */
static inline __u64 sirdma_put_no_data(struct sirdma_wqe *wqe, const struct sirdma_send *send,
				       __u64 hdr, __u64 valid)
{
	switch (send->opcode) {
	case SIRDMA_WR_BIND_MW:
		return sirdma_put_bind(wqe, send->bind, hdr, valid);
	case SIRDMA_WR_FAST_REG:
		return sirdma_put_fast_reg(wqe, send->reg, hdr, valid);
	case SIRDMA_WR_FLUSH:
		return sirdma_put_flush(wqe, send, hdr, valid);
	default:
		return sirdma_put_local_inv(wqe, send, hdr, valid);
	}
}

/* One quantum of padding. */
static inline __u64 sirdma_put_nop(struct sirdma_wqe *wqe, __u64 valid)
{
	sirdma_put64(&wqe->frag_addr, 0);
	sirdma_put64(&wqe->frag_stag, 0);
	sirdma_put64(&wqe->remote, 0);
	return SIRDMA_PREP(SIRDMA_WQE_OPCODE, SIRDMA_OP_NOP) | valid;
}

/* @wr_id: of a shared queue; else 0. */
static inline __u64 sirdma_put_recv(struct sirdma_wqe *wqe, const struct sirdma_sge *sges,
				    __u32 count, __u64 wr_id, __u64 valid)
{
	const __u64 hdr = sirdma_put_frags(wqe, sges, count, 0, valid);

	sirdma_put64(&wqe->remote, wr_id);
	return hdr | valid;
}

#endif
