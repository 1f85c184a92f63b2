/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Work queue elements, in memory the application can write.
 *
 * Layout source: the GEN2 user interface of Intel's irdma (Linux
 * drivers/infiniband/hw/irdma/{defs.h,uk.c}). The unit of a ring is the
 * quantum of 32 bytes. Word 3 of the first quantum is the header and is
 * written last. The valid bit toggles each time index 0 is taken; it is 1 on
 * the first lap.
 *
 * The layout is whole, since other libraries write it: a field that this device does not
 * read (push, round-trip reports) is here so that nothing else takes its bits.
 */
#ifndef SIRDMA_WQE_H
#define SIRDMA_WQE_H

#include "bits.h"

#define SIRDMA_QUANTUM 32 /* bytes */
#define SIRDMA_MAX_WQE_QUANTA 8
#define SIRDMA_SQ_CHUNK_QUANTA 8 /* no WQE crosses a multiple of this */
#define SIRDMA_MAX_SGE 13
#define SIRDMA_MAX_READ_SGE 13
#define SIRDMA_MAX_INLINE 101 /* bytes */
#define SIRDMA_MIN_WQ_QUANTA 8
#define SIRDMA_MAX_WQ_QUANTA 32768
#define SIRDMA_MAX_SRQ_QUANTA 262144
#define SIRDMA_SQ_RSVD_QUANTA 258 /* kept free by the ring writer */
/*
 * The same in a ring of SIRDMA_MEMREG_POOL: NOPs before a WQE that must not cross a chunk take up to
 * 7, and the quantum before the oldest WQE stays free.
 */
#define SIRDMA_SQ_POOL_RSVD_QUANTA 8
#define SIRDMA_RQ_RSVD_WQES 1
#define SIRDMA_MAX_MSG_SIZE 0x7fffffffu /* bytes */
#define SIRDMA_ATOMIC_LEN 8 /* bytes that an atomic reads and changes */

/* One quantum: a fragment, a per-opcode word, the header. */
struct sirdma_wqe {
	__le64 frag_addr; /* fragment 0 address, or immediate data and SIRDMA_WQE_XRC_SRQ */
	__le64 frag_stag; /* fragment 0 stag and length: SIRDMA_FRAG_* */
	__le64 remote; /* WRITE/READ: remote address; SEND: SIRDMA_WQE_DEST*; shared RQ: wr_id */
	__le64 hdr; /* SIRDMA_WQE_* */
};
SIRDMA_SIZE_IS(struct sirdma_wqe, SIRDMA_QUANTUM);

/* Additional quanta hold two fragments each. */
struct sirdma_frag {
	__le64 addr;
	__le64 stag; /* SIRDMA_FRAG_* */
};
SIRDMA_SIZE_IS(struct sirdma_frag, 16);

#define SIRDMA_FRAG_STAG SIRDMA_MASK(31, 0)
#define SIRDMA_FRAG_LEN SIRDMA_MASK(62, 32)
#define SIRDMA_FRAG_VALID SIRDMA_BIT(63) /* same polarity as the header's valid */

/* Header (word 3) */
#define SIRDMA_WQE_REMSTAG SIRDMA_MASK(31, 0) /* WRITE/READ: rkey; SEND_INV: stag */
#define SIRDMA_WQE_AHID SIRDMA_MASK(16, 0) /* datagram SEND: index of the address vector */
#define SIRDMA_WQE_OPCODE SIRDMA_MASK(37, 32)
#define SIRDMA_WQE_ADDFRAGCNT SIRDMA_MASK(41, 38) /* fragments beyond the first, padding included */
#define SIRDMA_WQE_COPY_PBL SIRDMA_BIT(43)
#define SIRDMA_WQE_LPBLSIZE SIRDMA_MASK(45, 44)
#define SIRDMA_WQE_HPAGESIZE SIRDMA_MASK(47, 46) /* of FAST_REG; else the next one */
#define SIRDMA_WQE_IMMDATA_FLAG SIRDMA_BIT(47) /* word 0, 31:0: immediate data */
#define SIRDMA_WQE_STAGRIGHTS SIRDMA_MASK(52, 48)
#define SIRDMA_WQE_VABASED SIRDMA_BIT(53)
#define SIRDMA_WQE_MWTYPE SIRDMA_BIT(54) /* the window is of type 1 */
#define SIRDMA_WQE_REMOTE_ATOMICS SIRDMA_BIT(55)
#define SIRDMA_WQE_INLINELEN SIRDMA_MASK(55, 48)
#define SIRDMA_WQE_INLINE SIRDMA_BIT(57)
#define SIRDMA_WQE_READFENCE SIRDMA_BIT(60)
#define SIRDMA_WQE_LOCALFENCE SIRDMA_BIT(61) /* libirdma sets it; this device needs none */
#define SIRDMA_WQE_SIGCOMPL SIRDMA_BIT(62)
#define SIRDMA_WQE_VALID SIRDMA_BIT(63)

/*
 * Word 2 of a datagram SEND. A Q_Key with its highest bit set stands for that of the queue pair
 * (IBTA 10.2.5).
 */
#define SIRDMA_WQE_DESTQKEY SIRDMA_MASK(31, 0)
#define SIRDMA_WQE_DESTQPN SIRDMA_MASK(55, 32)
#define SIRDMA_QKEY_OF_QP 0x80000000u

/*
 * Extension: each request of an XRC initiator names the shared receive queue to which it goes, a
 * remote one, in word 0 above the immediate data. So the data begins with fragment 1. An atomic and a
 * FLUSH, which use word 0 otherwise, have a place of their own.
 */
#define SIRDMA_WQE_XRC_SRQ SIRDMA_MASK(55, 32)

/* SQ opcodes; the same codes are reported in a send CQE. */
enum sirdma_sq_op {
	SIRDMA_OP_WRITE = 0x00,
	SIRDMA_OP_READ = 0x01,
	SIRDMA_OP_SEND = 0x03,
	SIRDMA_OP_SEND_INV = 0x04,
	SIRDMA_OP_SEND_SOL = 0x05,
	SIRDMA_OP_SEND_SOL_INV = 0x06,
	SIRDMA_OP_BIND_MW = 0x08,
	SIRDMA_OP_FAST_REG = 0x09,
	SIRDMA_OP_LOCAL_INV = 0x0a,
	SIRDMA_OP_READ_LOC_INV = 0x0b,
	SIRDMA_OP_NOP = 0x0c,
	SIRDMA_OP_WRITE_SOL = 0x0d,
	SIRDMA_OP_FETCH_ADD = 0x0f,
	SIRDMA_OP_CMP_SWAP = 0x11,
	SIRDMA_OP_FLUSH = 0x20, /* extension, as the next one */
	SIRDMA_OP_ATOMIC_WRITE = 0x21,
};

/*
 * Inline data (SIRDMA_WQE_INLINE): the first 8 bytes lie in words 1 of quantum 0
 * (bytes 8..15; bytes 0..7 are left to immediate data); each further quantum
 * holds 31 bytes and then one byte whose bit 7 is the valid polarity.
 */
#define SIRDMA_INLINE_FIRST 8
#define SIRDMA_INLINE_NEXT 31

/*
 * LOCAL_INV: word 1 has the stag to invalidate in SIRDMA_FRAG_STAG. READ_LOC_INV is a READ that
 * invalidates the stag of its first fragment when the data is placed. SEND_INV and SEND_SOL_INV
 * name a stag of the receiver in SIRDMA_WQE_REMSTAG.
 */

/*
 * BIND_MW: word 0 is the address of the window's first byte in the region, word 1 the stags of
 * both, word 2 the length; 0 unbinds a window of type 1. Of the window's stag the key is the new
 * one. STAGRIGHTS (SIRDMA_ACCESS_REMOTE_READ and _WRITE), VABASED, MWTYPE, REMOTE_ATOMICS.
 */
#define SIRDMA_BIND_WINDOW SIRDMA_MASK(31, 0)
#define SIRDMA_BIND_REGION SIRDMA_MASK(63, 32)

/*
 * FAST_REG, of queue pairs with SIRDMA_QPC_FAST_REG: registers memory with the slot that ALLOC_STAG
 * made. Word 0 is the address of the first byte, word 2 the length; word 1 is 0. SIRDMA_WQE_REMSTAG
 * is the stag with its new key. STAGRIGHTS, REMOTE_ATOMICS, VABASED, HPAGESIZE (enum
 * sirdma_hpage_size), LPBLSIZE 1 and COPY_PBL: the device copies the list that the driver wrote to
 * the slot's own PBLEs (SIRDMA_CQP_STAG_BLOCKS). irdma's list may be anywhere; words 1 and 2 say
 * where.
 */
#define SIRDMA_FAST_REG_LEN SIRDMA_MASK(40, 0)

/*
 * Atomics: words 0 and 1 are the address and the stag of the SIRDMA_ATOMIC_LEN bytes that
 * receive the original value; word 2 and SIRDMA_WQE_REMSTAG name the remote ones. ADDFRAGCNT is 1.
 */
#define SIRDMA_ATOMIC_WQE_QUANTA 2

/* The second quantum of an atomic. */
struct sirdma_atomic_operands {
	__le64 swap_add; /* the value to swap in, or to add */
	__le64 compare;
	__le64 xrc_srq; /* an XRC initiator's: number of the remote shared receive queue; else 0 */
	__le64 valid; /* SIRDMA_FRAG_VALID */
};
SIRDMA_SIZE_IS(struct sirdma_atomic_operands, SIRDMA_QUANTUM);

/*
 * ATOMIC_WRITE: as WRITE, of SIRDMA_ATOMIC_LEN bytes exactly, from fragments or inline. The receiver
 * writes them at once.
 *
 * FLUSH: word 0 is SIRDMA_WQE_FLUSH_*; word 1 is 0, or of an XRC initiator the number of the remote
 * shared receive queue; word 2 and SIRDMA_WQE_REMSTAG name the remote bytes.
 */
#define SIRDMA_WQE_FLUSH_LEN SIRDMA_MASK(31, 0) /* bytes of a range */
#define SIRDMA_WQE_FLUSH_PLT SIRDMA_MASK(39, 32) /* SIRDMA_FLUSH_TO_* */
#define SIRDMA_WQE_FLUSH_SEL SIRDMA_MASK(47, 40) /* SIRDMA_FLUSH_RANGE or _REGION */

/*
 * Receive WQE: word 0/1 fragment 0, word 2 zero, header with ADDFRAGCNT and
 * VALID only; further fragments as in a send WQE. Stride 32, 64, 128 or 256
 * bytes, fixed per queue. The header's valid bit is the only doorbell.
 */

#endif
