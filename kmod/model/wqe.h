/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Decoding of WQEs. A WQE lies in memory that the application can write, so the device copies it
 * once, and checks and uses only the copy.
 */
#ifndef SNIC_WQE_H
#define SNIC_WQE_H

#include "port/port.h"
#include "sirdma/wqe.h"

struct snic_qp;
struct snic_rq;

/* The number of fragments of the largest WQE: one in the first quantum, two in each other. */
#define SNIC_WQE_FRAGS (2 * SIRDMA_MAX_WQE_QUANTA - 1)

struct snic_sge {
	u64 addr;
	u32 stag;
	u32 len;
};

enum snic_wqe_status {
	SNIC_WQE_NONE, /* the next element is not valid yet */
	SNIC_WQE_OK,
	SNIC_WQE_BAD, /* the valid bit of the WQE is set, but its contents are invalid */
};

/* A send WQE. */
struct snic_sqe {
	u64 remote_va; /* of a datagram: snic_sqe_dest_qpn() and snic_sqe_dest_qkey() read it */
	u32 rkey; /* of a datagram: snic_sqe_av(); of SEND_INV: key of the peer to invalidate */
	union {
		u32 imm; /* CPU order */
		u32 inv_stag; /* stag that LOCAL_INV and READ_LOC_INV invalidate */
	};
	u32 len; /* sum of the lengths of all fragments, or length of the inline data */
	u16 idx; /* ring position, quanta */
	u8 op; /* enum sirdma_sq_op */
	u8 quanta;
	u8 nsge;
	bool signaled;
	bool read_fence;
	bool has_imm;
	bool is_inline; /* the data stays in the ring: see snic_sqe_inline_ptr() */
	u32 srqn : 24; /* of an XRC initiator: the remote queue to which the request goes */
	union {
		struct snic_sge sge[SIRDMA_MAX_SGE];
		struct {
			struct snic_sge result; /* sge[0] */
			u64 swap_add;
			u64 compare;
		} atomic;
		struct {
			u32 len; /* bytes of a range */
			u8 feth; /* SIRDMA_FETH_* */
		} flush;
		struct {
			u64 va; /* address of the first byte */
			u64 len; /* 0: the window is unbound */
			u32 window; /* stag that the window gets */
			u32 region; /* stag of the region */
			u8 rights; /* SIRDMA_ACCESS_* */
			bool type1;
			bool zero_based;
		} bind;
		struct {
			u64 va; /* address of the first byte */
			u64 len;
			u32 stag; /* stag of the region with its new key */
			u8 rights; /* SIRDMA_ACCESS_* */
			u8 hpage; /* enum sirdma_hpage_size */
		} reg;
	};
};

/* A receive WQE. */
struct snic_rqe {
	u64 wr_id; /* a shared queue's WQEs only */
	u32 len; /* sum of the lengths of all fragments */
	u16 idx; /* ring position, quanta; of a shared queue, meaningless */
	u8 nsge;
	struct snic_sge sge[SIRDMA_MAX_SGE];
};

/*
 * Decode the send WQE at quantum @idx if its valid bit is @polarity. On SNIC_WQE_BAD, idx, op,
 * quanta and signaled are set, so that the caller can complete and skip the WQE.
 */
enum snic_wqe_status snic_sqe_load(struct snic_qp *qp, u32 idx, bool polarity,
				   struct snic_sqe *sqe);
/* Is there a valid send WQE at quantum @idx? Reads the header only. */
bool snic_sqe_peek(struct snic_qp *qp, u32 idx, bool polarity);
/*
 * Inline bytes of @sqe from @off on, up to *run (≤ @len) of them. The
 * application may change them until they are sent; nothing depends on their
 * value. NULL on an HMC fault.
 */
void *snic_sqe_inline_ptr(struct snic_qp *qp, const struct snic_sqe *sqe, u32 off, u32 len,
			  u32 *run);
/* Decode receive WQE number @idx. On SNIC_WQE_BAD, idx and wr_id are set. */
enum snic_wqe_status snic_rqe_load(struct snic_rq *rq, u32 idx, bool polarity,
				   struct snic_rqe *rqe);
bool snic_rqe_peek(struct snic_rq *rq, u32 idx, bool polarity);

/* Destination of a datagram. */
static inline u32 snic_sqe_dest_qpn(const struct snic_sqe *sqe)
{
	return (u32)SIRDMA_GET(SIRDMA_WQE_DESTQPN, sqe->remote_va);
}

static inline u32 snic_sqe_dest_qkey(const struct snic_sqe *sqe)
{
	return (u32)SIRDMA_GET(SIRDMA_WQE_DESTQKEY, sqe->remote_va);
}

/* The index of the datagram's address vector. */
static inline u32 snic_sqe_av(const struct snic_sqe *sqe)
{
	return (u32)SIRDMA_GET(SIRDMA_WQE_AHID, sqe->rkey);
}

/* Is @op an RDMA READ? */
static inline bool snic_op_is_read(u8 op)
{
	return op == SIRDMA_OP_READ || op == SIRDMA_OP_READ_LOC_INV;
}

/* Does @op invalidate a key of the peer? */
static inline bool snic_op_is_send_inv(u8 op)
{
	return op == SIRDMA_OP_SEND_INV || op == SIRDMA_OP_SEND_SOL_INV;
}

/* Does @op send nothing? */
static inline bool snic_op_is_local(u8 op)
{
	return op == SIRDMA_OP_NOP || op == SIRDMA_OP_LOCAL_INV || op == SIRDMA_OP_BIND_MW ||
	       op == SIRDMA_OP_FAST_REG;
}

/* Does @op invalidate a key of its own queue pair's protection domain? */
static inline bool snic_op_invalidates(u8 op)
{
	return op == SIRDMA_OP_LOCAL_INV || op == SIRDMA_OP_READ_LOC_INV;
}

static inline bool snic_op_is_atomic(u8 op)
{
	return op == SIRDMA_OP_CMP_SWAP || op == SIRDMA_OP_FETCH_ADD;
}

/* Is @op completed by an empty READ response? */
static inline bool snic_op_is_placement(u8 op)
{
	return op == SIRDMA_OP_ATOMIC_WRITE || op == SIRDMA_OP_FLUSH;
}

/* Is @op completed by responses of its own, and limited in number? */
static inline bool snic_op_is_rd_atomic(u8 op)
{
	return snic_op_is_read(op) || snic_op_is_atomic(op) || snic_op_is_placement(op);
}

static inline bool snic_op_is_write(u8 op)
{
	return op == SIRDMA_OP_WRITE || op == SIRDMA_OP_WRITE_SOL;
}

#endif
