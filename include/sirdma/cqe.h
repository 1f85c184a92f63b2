/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion, completion-event and asynchronous-event queue elements.
 * Layout source: irdma GEN2 (defs.h, ctrl.c).
 */
#ifndef SIRDMA_CQE_H
#define SIRDMA_CQE_H

#include "bits.h"

/*
 * Elements of the smallest CQ: one completion may take two, and two stay free (sirdma_cq_elements()
 * of one completion).
 */
#define SIRDMA_MIN_CQ_ELEMENTS 4

/* CQE, 32 bytes. The ring expects valid 1 on the first lap and flips on wrap. */
struct sirdma_cqe {
	__le64 len; /* SIRDMA_CQE_PAYLDLEN */
	__le64 compl_ctx; /* the QP's compl_ctx, echoed; SIRDMA_CQE_SRQ: wr_id of the WQE */
	__le64 qp; /* SIRDMA_CQE_INVSTAG or SRCQPN, SIRDMA_CQE_QPID */
	__le64 hdr; /* SIRDMA_CQE_* */
};
SIRDMA_SIZE_IS(struct sirdma_cqe, 32);

/*
 * Second half of an extended CQE (SIRDMA_CQE_EXT in the first): the next
 * 32 bytes of the ring, wrapping to index 0 with its own polarity; in a CQ of
 * 64-byte elements, the second half of the same element.
 */
struct sirdma_cqe_ext {
	__le64 imm; /* immediate data in CPU order, 31:0 */
	__le64 timestamp; /* extension, with SIRDMA_CQE_EXT_TSVALID: the device's clock, in ns */
	__le64 smac_vlan; /* SIRDMA_CQE_EXT_MAC, SIRDMA_CQE_EXT_VLAN */
	__le64 hdr; /* SIRDMA_CQE_EXT_* and SIRDMA_CQE_VALID */
};
SIRDMA_SIZE_IS(struct sirdma_cqe_ext, 32);

/* The device's clock, which timestamps are read from, counts nanoseconds. */
#define SIRDMA_CLOCK_KHZ 1000000

#define SIRDMA_CQE_PAYLDLEN SIRDMA_MASK(31, 0)
#define SIRDMA_CQE_INVSTAG SIRDMA_MASK(31, 0)
#define SIRDMA_CQE_SRCQPN SIRDMA_MASK(31, 0)
#define SIRDMA_CQE_QPID SIRDMA_MASK(55, 32)

#define SIRDMA_CQE_MINERR SIRDMA_MASK(15, 0)
#define SIRDMA_CQE_MAJERR SIRDMA_MASK(31, 16)
#define SIRDMA_CQE_WQEIDX SIRDMA_MASK(46, 32) /* in quanta, both queues; not with SIRDMA_CQE_SRQ */
#define SIRDMA_CQE_EXT SIRDMA_BIT(50)
#define SIRDMA_CQE_SRQ SIRDMA_BIT(52) /* the receive WQE came from a shared queue */
#define SIRDMA_CQE_STAG SIRDMA_BIT(53) /* RC: INVSTAG is valid */
#define SIRDMA_CQE_IPV4 SIRDMA_BIT(53) /* UD: the GRH holds an IPv4 header */
#define SIRDMA_CQE_SOLICITED SIRDMA_BIT(54)
#define SIRDMA_CQE_ERROR SIRDMA_BIT(55)
#define SIRDMA_CQE_OP SIRDMA_MASK(61, 56) /* SQ: enum sirdma_sq_op; RQ: SIRDMA_RQ_OP_* */
#define SIRDMA_CQE_SQ SIRDMA_BIT(62)
#define SIRDMA_CQE_VALID SIRDMA_BIT(63)

#define SIRDMA_CQE_EXT_MAC SIRDMA_MASK(47, 0) /* first byte on the wire in 47:40 */
#define SIRDMA_CQE_EXT_VLAN SIRDMA_MASK(63, 48)
#define SIRDMA_CQE_EXT_TSVALID SIRDMA_BIT(59)
#define SIRDMA_CQE_EXT_VLANVALID SIRDMA_BIT(60)
#define SIRDMA_CQE_EXT_SMACVALID SIRDMA_BIT(61)
#define SIRDMA_CQE_EXT_IMMVALID SIRDMA_BIT(62)

/*
 * Receive opcodes, as stock libraries read them in plain poll: the operation of the BTH
 * opcode of the message's last packet (SEND 0x04, SEND_IMM 0x05, WRITE_IMM 0x0b,
 * SEND_INV 0x17 …), the immediate found through CQE_EXT_IMMVALID. Those of datagrams have
 * SIRDMA_CQE_OP_DATAGRAM as well: SRCQPN is valid, bit 53 is SIRDMA_CQE_IPV4, and the first
 * SIRDMA_GRH_LEN bytes of the buffer are the GRH.
 */
#define SIRDMA_CQE_OP_DATAGRAM 0x20

/* Major error of a CQE; minor codes follow. */
#define SIRDMA_CQE_MAJ_NONE 0
#define SIRDMA_CQE_MAJ_FLUSH 1 /* minor: enum sirdma_flush_code */
/*
 * A WQE that failed completes with major FLUSH, too, and the code of its error; the WQEs
 * that are flushed behind it carry SIRDMA_FLUSH_GENERAL.
 */
enum sirdma_flush_code {
	SIRDMA_FLUSH_INVALID = 0,
	SIRDMA_FLUSH_GENERAL = 1, /* IBV_WC_WR_FLUSH_ERR */
	SIRDMA_FLUSH_PROT = 2, /* IBV_WC_LOC_PROT_ERR */
	SIRDMA_FLUSH_REM_ACCESS = 3, /* IBV_WC_REM_ACCESS_ERR */
	SIRDMA_FLUSH_LOC_QP_OP = 4, /* IBV_WC_LOC_QP_OP_ERR */
	SIRDMA_FLUSH_REM_OP = 5, /* IBV_WC_REM_OP_ERR */
	SIRDMA_FLUSH_LOC_LEN = 6, /* IBV_WC_LOC_LEN_ERR */
	SIRDMA_FLUSH_RETRY_EXC = 8, /* IBV_WC_RETRY_EXC_ERR */
	/*
	 * IBV_WC_MW_BIND_ERR: also of LOCAL_INV and FAST_REG (IBTA: memory management operation
	 * error)
	 */
	SIRDMA_FLUSH_MW_BIND = 9,
	SIRDMA_FLUSH_REM_INV_REQ = 10, /* IBV_WC_REM_INV_REQ_ERR */
	SIRDMA_FLUSH_RNR_RETRY_EXC = 11, /* IBV_WC_RNR_RETRY_EXC_ERR */
	SIRDMA_FLUSH_LOC_ACCESS = 12, /* IBV_WC_LOC_ACCESS_ERR */
	/* Any other code: IBV_WC_FATAL_ERR. */
};

/*
 * Vendor error of a failed CQE, in SIRDMA_CQE_VENDOR_ERR of its word 0, which holds no
 * length then.
 */
#define SIRDMA_CQE_VENDOR_ERR SIRDMA_MASK(63, 32)
enum sirdma_vendor_err {
	SIRDMA_VENDOR_NONE = 0,
	SIRDMA_VENDOR_LOC_LEN = 0x52,
	SIRDMA_VENDOR_LOC_PROT = 0x53,
	SIRDMA_VENDOR_LOC_QP_OP = 0x54,
	SIRDMA_VENDOR_MW_BIND = 0x55,
	SIRDMA_VENDOR_RETRY_EXC = 0x81,
	SIRDMA_VENDOR_RNR_RETRY_EXC = 0x82,
	SIRDMA_VENDOR_REM_INV_REQ = 0x89,
	SIRDMA_VENDOR_REM_ACCESS = 0x88,
	SIRDMA_VENDOR_REM_OP = 0x8a,
	SIRDMA_VENDOR_FLUSH = 0xf9,
};

/* CEQE, 8 bytes. The ring flips its expected valid bit on wrap; first lap 1. */
struct sirdma_ceqe {
	__le64 val;
};
SIRDMA_SIZE_IS(struct sirdma_ceqe, 8);
#define SIRDMA_CEQE_CQCTX SIRDMA_MASK(62, 0) /* CQ context >> 1, as given at CQ creation */
#define SIRDMA_CEQE_VALID SIRDMA_BIT(63)

/* AEQE, 16 bytes. */
struct sirdma_aeqe {
	__le64 event_ctx; /* driver's cookie of the QP, CQ or SRQ, as given at creation */
	__le64 val; /* SIRDMA_AEQE_* */
};
SIRDMA_SIZE_IS(struct sirdma_aeqe, 16);
#define SIRDMA_AEQE_QPCQID_LOW SIRDMA_MASK(17, 0)
#define SIRDMA_AEQE_WQDESCIDX SIRDMA_MASK(32, 18)
#define SIRDMA_AEQE_OVERFLOW SIRDMA_BIT(33)
#define SIRDMA_AEQE_AECODE SIRDMA_MASK(45, 34)
#define SIRDMA_AEQE_QPCQID_HI SIRDMA_BIT(46)
#define SIRDMA_AEQE_AESRC SIRDMA_MASK(53, 50)
#define SIRDMA_AEQE_QPSTATE SIRDMA_MASK(56, 54) /* enum sirdma_qp_state after the event */
#define SIRDMA_AEQE_VALID SIRDMA_BIT(63)

enum sirdma_ae_source {
	SIRDMA_AE_SRC_NONE = 0x0,
	SIRDMA_AE_SRC_RQ = 0x1,
	SIRDMA_AE_SRC_CQ = 0x2,
	SIRDMA_AE_SRC_SQ = 0x5,
	SIRDMA_AE_SRC_OUT_RR = 0xd,
};

enum sirdma_ae_code {
	SIRDMA_AE_NONE = 0,
	SIRDMA_AE_AMP_UNALLOCATED_STAG = 0x102,
	SIRDMA_AE_AMP_INVALID_STAG = 0x103,
	SIRDMA_AE_AMP_BAD_QP = 0x104,
	SIRDMA_AE_AMP_BAD_PD = 0x105,
	SIRDMA_AE_AMP_BAD_STAG_KEY = 0x106,
	SIRDMA_AE_AMP_BAD_STAG_INDEX = 0x107,
	SIRDMA_AE_AMP_BOUNDS_VIOLATION = 0x108,
	SIRDMA_AE_AMP_RIGHTS_VIOLATION = 0x109,
	SIRDMA_AE_AMP_TO_WRAP = 0x10a,
	SIRDMA_AE_CQ_OPERATION_ERROR = 0x203,
	SIRDMA_AE_IB_RREQ_AND_Q1_FULL = 0x207,
	SIRDMA_AE_IB_INVALID_REQUEST = 0x208,
	SIRDMA_AE_SRQ_LIMIT = 0x209,
	SIRDMA_AE_WQE_UNEXPECTED_OPCODE = 0x20a,
	SIRDMA_AE_WQE_INVALID_PARAMETER = 0x20b,
	SIRDMA_AE_WQE_INVALID_FRAG_DATA = 0x20c,
	SIRDMA_AE_IB_REMOTE_ACCESS_ERROR = 0x20d,
	SIRDMA_AE_IB_REMOTE_OP_ERROR = 0x20e,
	SIRDMA_AE_INVALID_REQUEST = 0x223,
	SIRDMA_AE_MSG_TOO_LONG = 0x303,
	SIRDMA_AE_ROCE_RSP_LENGTH_ERROR = 0x316,
	SIRDMA_AE_INVALID_ARP_ENTRY = 0x401,
	SIRDMA_AE_STALE_ARP_ENTRY = 0x403,
	/* The first packet on a QP in RTR: IBV_EVENT_COMM_EST. */
	SIRDMA_AE_CONNECTION_ESTABLISHED = 0x50e,
	SIRDMA_AE_RESOURCE_EXHAUSTION = 0x520,
	SIRDMA_AE_QP_CATASTROPHIC = 0x700,
	SIRDMA_AE_FUNCTION_CATASTROPHIC = 0x701,
	SIRDMA_AE_CQ_CATASTROPHIC = 0x702, /* CQ overflow among them */
	SIRDMA_AE_BAD_COMMAND = 0x800, /* a CQP command had a bad index or opcode */
	SIRDMA_AE_LAST_WQE_REACHED = 0x801,
	SIRDMA_AE_PAGE_REQUEST = 0x802, /* extension: the PRQ has requests */
	SIRDMA_AE_QP_SUSPEND_COMPLETE = 0x900, /* send queue drained */
};

#endif
