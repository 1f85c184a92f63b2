/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Control queue pair: the command ring between driver and device.
 *
 * The driver gives the device a CQP context through CCQPLOW/HIGH, writes
 * 64-byte commands (valid bit of word 3 last, polarity 1 on the first lap) and
 * rings CQPDB with the new head. Each command completes in ring order: CQPTAIL
 * advances and, once a completion queue of type CQP exists, a CQE appears in
 * it. Structure and opcodes follow irdma (defs.h, ctrl.c).
 */
#ifndef SIRDMA_CQP_H
#define SIRDMA_CQP_H

#include "hmc.h"
#include "qpctx.h"

#define SIRDMA_CQP_MIN_ENTRIES 4
#define SIRDMA_CQP_MAX_ENTRIES 2048

struct sirdma_cqp_ctx {
	__le64 sq_base; /* 512-byte aligned DMA address of the ring */
	__le32 sq_entries; /* power of two, 4..2048 */
	__le32 version; /* SIRDMA_HW_VERSION the driver was written for */
	__le64 compl_ctx; /* echoed in each CCQ element */
	__le64 rsvd[5];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_ctx, 64);

/*
 * The driver does not send NOP and QUERY_STAG, which tests use.
 */
enum sirdma_cqp_op {
	SIRDMA_CQP_CREATE_QP = 0x00,
	SIRDMA_CQP_MODIFY_QP = 0x01,
	SIRDMA_CQP_DESTROY_QP = 0x02,
	SIRDMA_CQP_CREATE_CQ = 0x03,
	SIRDMA_CQP_MODIFY_CQ = 0x04,
	SIRDMA_CQP_DESTROY_CQ = 0x05,
	SIRDMA_CQP_CREATE_SRQ = 0x06,
	SIRDMA_CQP_MODIFY_SRQ = 0x07,
	SIRDMA_CQP_DESTROY_SRQ = 0x08,
	SIRDMA_CQP_ALLOC_STAG = 0x09,
	SIRDMA_CQP_REG_MR = 0x0a, /* "register MR, non-shared" */
	SIRDMA_CQP_QUERY_STAG = 0x0b,
	SIRDMA_CQP_DEALLOC_STAG = 0x0d,
	SIRDMA_CQP_MANAGE_ARP = 0x0f,
	SIRDMA_CQP_UPLOAD_CONTEXT = 0x13,
	SIRDMA_CQP_CREATE_CEQ = 0x16,
	SIRDMA_CQP_DESTROY_CEQ = 0x18,
	SIRDMA_CQP_CREATE_AEQ = 0x19,
	SIRDMA_CQP_DESTROY_AEQ = 0x1b,
	SIRDMA_CQP_UPDATE_SDS = 0x1f,
	SIRDMA_CQP_QUERY_FPM = 0x20,
	SIRDMA_CQP_COMMIT_FPM = 0x21,
	SIRDMA_CQP_FLUSH_WQES = 0x22,
	SIRDMA_CQP_NOP = 0x24,
	SIRDMA_CQP_CREATE_MCAST_GRP = 0x26,
	SIRDMA_CQP_MODIFY_MCAST_GRP = 0x27,
	SIRDMA_CQP_DESTROY_MCAST_GRP = 0x28,
	SIRDMA_CQP_GATHER_STATS = 0x2e,
	SIRDMA_CQP_MANAGE_SGID = 0x30, /* extension: local address table */
	SIRDMA_CQP_QUERY_SRQ = 0x31, /* extension: returns the limit, 0 when it is not armed */
	SIRDMA_CQP_CREATE_PRQ = 0x32, /* extension: page request queue */
	SIRDMA_CQP_DESTROY_PRQ = 0x33,
	SIRDMA_CQP_OP_COUNT = 0x40,
};

/* Header, word 3 of every command */
#define SIRDMA_CQP_OPCODE SIRDMA_MASK(37, 32)
#define SIRDMA_CQP_VALID SIRDMA_BIT(63)

/* Any command; each struct below overlays it. */
struct sirdma_cqp_wqe {
	__le64 w0;
	__le64 w1;
	__le64 w2;
	__le64 hdr;
	__le64 w4;
	__le64 w5;
	__le64 w6;
	__le64 w7;
};
SIRDMA_SIZE_IS(struct sirdma_cqp_wqe, 64);

/* CREATE_QP, MODIFY_QP, DESTROY_QP, UPLOAD_CONTEXT */
struct sirdma_cqp_qp {
	__le64 rsvd0;
	__le64 rsvd1;
	__le64 ctx_addr; /* struct sirdma_qp_ctx; DESTROY_QP: 0 */
	__le64 hdr; /* SIRDMA_CQP_QP_* */
	__le64 rsvd2[4];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_qp, 64);
#define SIRDMA_CQP_QP_ID SIRDMA_MASK(23, 0)
#define SIRDMA_CQP_QP_NEXT_STATE SIRDMA_MASK(62, 60) /* enum sirdma_qp_state */
#define SIRDMA_CQP_QP_CUR_STATE_VALID SIRDMA_BIT(59)
/* The command fails with BAD_STATE when the QP is in another. */
#define SIRDMA_CQP_QP_CUR_STATE SIRDMA_MASK(58, 56)
/*
 * DESTROY_QP unbinds at most this many windows of type 2. If the QP has more, the command completes
 * with AGAIN and the QP stays, in RESET: the driver sends it again. Other commands wait for one part.
 */
#define SIRDMA_CQP_DESTROY_WINDOWS 1024u
/*
 * MODIFY_QP from SQE to RTS flushes the send queue, and at most this many WQEs of it. If there are
 * more, the command completes with AGAIN and nothing else has changed: the driver sends it again.
 * The device reads the context anew for each part and applies the one of the last part, so the
 * driver keeps its buffer until the command completes with another status.
 */
#define SIRDMA_CQP_MODIFY_FLUSHES 512u

/* CREATE_CQ, MODIFY_CQ (either RESIZE or MODERATE), DESTROY_CQ */
struct sirdma_cqp_cq {
	__le64 size; /* elements of 32 bytes (SIRDMA_CQP_CQ_SIZE) */
	__le64 ctx; /* driver's cookie >> 1, echoed in CEQEs */
	__le64 rsvd0;
	__le64 hdr; /* SIRDMA_CQP_CQ_* */
	__le64 addr; /* DMA address when not VMAP */
	__le64 shadow_addr; /* DMA address of struct sirdma_cq_shadow */
	__le64 first_pble; /* SIRDMA_CQP_FIRST_PBLE when VMAP: level 1, 4 KiB blocks */
	__le64 moderation; /* extension: SIRDMA_CQP_CQ_COUNT, _PERIOD when MODERATE */
};
SIRDMA_SIZE_IS(struct sirdma_cqp_cq, 64);
#define SIRDMA_CQP_CQ_SIZE SIRDMA_MASK(20, 0)
#define SIRDMA_CQP_CQ_ID SIRDMA_MASK(21, 0)
#define SIRDMA_CQP_CQ_CEQID SIRDMA_MASK(31, 22)
#define SIRDMA_CQP_CQ_RESIZE SIRDMA_BIT(43)
#define SIRDMA_CQP_CQ_CHKOVERFLOW SIRDMA_BIT(46)
#define SIRDMA_CQP_CQ_VMAP SIRDMA_BIT(47)
#define SIRDMA_CQP_CQ_ENCEQE SIRDMA_BIT(48) /* raise CEQEs */
#define SIRDMA_CQP_CQ_CEQIDVALID SIRDMA_BIT(49)
#define SIRDMA_CQP_CQ_IS_CCQ SIRDMA_BIT(50) /* completion queue of the CQP */
/* Extension: each completion has a second half with the time at which it was written. */
#define SIRDMA_CQP_CQ_TIMESTAMPS SIRDMA_BIT(51)
/*
 * Extension: the event of the armed queue waits for COUNT completions for which the queue is armed,
 * and for PERIOD at most after the first of them. 0 in one of them: it does not wait. The command
 * raises an event that waits.
 */
#define SIRDMA_CQP_CQ_MODERATE SIRDMA_BIT(52)
#define SIRDMA_CQP_CQ_COUNT SIRDMA_MASK(15, 0) /* SIRDMA_MAX_CQ_COUNT at most */
#define SIRDMA_CQP_CQ_PERIOD SIRDMA_MASK(31, 16) /* us, SIRDMA_MAX_CQ_PERIOD at most */
/*
 * A program notices a completion by PERIOD later. That is less than half of the timeout of most
 * connections, 67 ms.
 */
#define SIRDMA_MAX_CQ_PERIOD 32767
#define SIRDMA_MAX_CQ_COUNT 32767
#define SIRDMA_CQP_CQ_64B SIRDMA_BIT(61) /* elements of 64 bytes */
#define SIRDMA_CQP_FIRST_PBLE SIRDMA_MASK(27, 0)

/* CREATE_SRQ, MODIFY_SRQ (arm the limit), DESTROY_SRQ, QUERY_SRQ */
struct sirdma_cqp_srq {
	__le64 size; /* SIRDMA_CQP_SRQ_WQES; MODIFY_SRQ: SIRDMA_CQP_SRQ_LIMIT */
	__le64 ctx; /* driver's cookie, echoed in events */
	__le64 pd; /* SIRDMA_CQP_SRQ_PD: of the memory that its WQEs name */
	__le64 hdr; /* SIRDMA_CQP_SRQ_* */
	__le64 addr; /* DMA address when not VMAP */
	__le64 shadow_addr; /* DMA address of struct sirdma_srq_shadow */
	__le64 first_pble; /* SIRDMA_CQP_FIRST_PBLE when VMAP: level 1, 4 KiB blocks */
	__le64 xrc; /* extension: SIRDMA_CQP_SRQ_XRC, _CQ, _XRCD */
};
SIRDMA_SIZE_IS(struct sirdma_cqp_srq, 64);
#define SIRDMA_CQP_SRQ_WQES SIRDMA_MASK(31, 0) /* power of two */
/* An event when fewer WQEs are left, once; 0: none. */
#define SIRDMA_CQP_SRQ_LIMIT SIRDMA_MASK(63, 32)
#define SIRDMA_CQP_SRQ_PD SIRDMA_MASK(23, 0)
#define SIRDMA_CQP_SRQ_ID SIRDMA_MASK(15, 0)
#define SIRDMA_CQP_SRQ_STRIDE SIRDMA_MASK(41, 40) /* log2 of the quanta of a WQE */
#define SIRDMA_CQP_SRQ_VMAP SIRDMA_BIT(47)
/*
 * The queue is one of an XRC domain. Targets of the domain receive from it, and no other queue pair.
 * Its completions go to CQ. Packets that name the queue may access regions of PD. Targets do not keep
 * the queue from being destroyed; packets that name it are refused from then on.
 */
#define SIRDMA_CQP_SRQ_XRC SIRDMA_BIT(63)
#define SIRDMA_CQP_SRQ_XRCD SIRDMA_MASK(47, 32)
#define SIRDMA_CQP_SRQ_CQ SIRDMA_MASK(21, 0)

/*
 * ALLOC_STAG, REG_MR, DEALLOC_STAG, QUERY_STAG. Without SIRDMA_CQP_STAG_MR a command is about a
 * memory window: ALLOC_STAG takes its index, PD and type, DEALLOC_STAG and QUERY_STAG its index.
 *
 * ALLOC_STAG of a region takes its stag and PD, and the PBLEs that fast registration uses:
 * FIRST_PBLE is the first of SIRDMA_CQP_STAG_BLOCKS that the device writes, and behind them are as
 * many that the driver writes, from which FAST_REG copies. So what the driver writes changes no
 * region that is in use. The key of such a region changes by FAST_REG, therefore DEALLOC_STAG and
 * QUERY_STAG take its index only.
 *
 * REG_MR with SIRDMA_CQP_STAG_REPLACE gives the region that has this stag another mapping, PD and
 * rights, at one moment: every access by the stag finds the former or the new ones, but a bind of a
 * window at that moment may be refused. When the command has completed, no access uses the former
 * ones. If it fails, nothing has changed. IN_USE: windows are bound to the region. BAD_STATE: it is
 * a region of fast registration, of all memory, or with a sparse list.
 */
struct sirdma_cqp_stag {
	__le64 va; /* VA of the first byte, or offset in the first block when zero based */
	__le64 len_pd; /* SIRDMA_CQP_STAG_LEN, _PDID_LO; high bits of the PD in hdr word 5 */
	__le64 stag; /* SIRDMA_CQP_STAG_KEY, _IDX */
	__le64 hdr; /* SIRDMA_CQP_STAG_* */
	__le64 addr; /* LPBLSIZE 0: DMA address of the first block (block aligned) */
	__le64 pd_hi; /* SIRDMA_CQP_STAG_PDID_HI */
	__le64 first_pble; /* SIRDMA_CQP_FIRST_PBLE; ALLOC_STAG: and SIRDMA_CQP_STAG_BLOCKS */
	__le64 rsvd;
};
SIRDMA_SIZE_IS(struct sirdma_cqp_stag, 64);
#define SIRDMA_CQP_STAG_BLOCKS SIRDMA_MASK(59, 32) /* extension; 0: no fast registration */
#define SIRDMA_CQP_STAG_LEN SIRDMA_MASK(45, 0) /* bytes, 1 .. 2^46-1 */
#define SIRDMA_CQP_STAG_PDID_LO SIRDMA_MASK(63, 46) /* PD 17:0 */
#define SIRDMA_CQP_STAG_PDID_HI SIRDMA_MASK(5, 0) /* PD 23:18 */
#define SIRDMA_CQP_STAG_KEY SIRDMA_MASK(7, 0)
#define SIRDMA_CQP_STAG_IDX SIRDMA_MASK(31, 8)
#define SIRDMA_CQP_STAG_MWTYPE SIRDMA_BIT(42) /* the window is of type 1 */
#define SIRDMA_CQP_STAG_MR SIRDMA_BIT(43)
/*
 * PBL level: 0, 1, 2. Extension: SIRDMA_PBL_LEVEL_SPARSE. That region is all addresses that the list
 * can name, from 0 on, and windows may be bound to it: VABASED, blocks of 4 KiB, and VA, length and
 * address are 0.
 */
#define SIRDMA_CQP_STAG_LPBLSIZE SIRDMA_MASK(45, 44)
#define SIRDMA_CQP_STAG_HPAGESIZE SIRDMA_MASK(47, 46) /* enum sirdma_hpage_size */
#define SIRDMA_CQP_STAG_ARIGHTS SIRDMA_MASK(52, 48) /* SIRDMA_ACCESS_* 4:0 */
#define SIRDMA_CQP_STAG_REMACCENABLED SIRDMA_BIT(53)
#define SIRDMA_CQP_STAG_ATOMICS SIRDMA_BIT(55) /* SIRDMA_ACCESS_REMOTE_ATOMIC */
/*
 * The region is all memory, and its addresses are DMA addresses: VABASED, LPBLSIZE 0,
 * and VA, length and address are 0. irdma says the same by the length alone.
 */
#define SIRDMA_CQP_STAG_ALL_MEMORY SIRDMA_BIT(56)
#define SIRDMA_CQP_STAG_REPLACE SIRDMA_BIT(57) /* extension: the region exists */
#define SIRDMA_CQP_STAG_FLUSH SIRDMA_BIT(58) /* extension: SIRDMA_ACCESS_REMOTE_FLUSH */
#define SIRDMA_CQP_STAG_VABASED SIRDMA_BIT(59)
/*
 * Extension: the driver does not say that the region's memory is there, now or later (LPBLSIZE 0). Its
 * DMA addresses are those of a process, whose memory comes and goes at any time, as with shared virtual
 * addressing: an access that finds no memory, or none that it may write to, is an access error. With
 * ALL_MEMORY the region is all of the process's addresses, and windows may be bound to it. BAD_PARAM:
 * the device has no access to such memory.
 *
 * With LPBLSIZE 1 or 2: entries of the page list change (hmc.h). Those of a sparse list may always, and with this bit the
 * device refuses it.
 */
#define SIRDMA_CQP_STAG_MAY_FAULT SIRDMA_BIT(62)

enum sirdma_hpage_size {
	SIRDMA_HPAGE_4K = 0,
	SIRDMA_HPAGE_2M = 1,
	SIRDMA_HPAGE_1G = 2,
};

/* MANAGE_ARP */
struct sirdma_cqp_arp {
	__le64 rsvd0;
	__le64 rsvd1;
	__le64 mac; /* 47:0, first byte on the wire in 47:40 */
	__le64 hdr; /* SIRDMA_CQP_ARP_* */
	__le64 rsvd2[4];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_arp, 64);
#define SIRDMA_CQP_ARP_IDX SIRDMA_MASK(15, 0)
#define SIRDMA_CQP_ARP_ENTRYVALID SIRDMA_BIT(42) /* clear: delete the entry */

/* MANAGE_SGID */
struct sirdma_cqp_sgid {
	__le64 ip_lo; /* bytes 0..7 of the address, byte 0 in 7:0 */
	__le64 ip_hi; /* bytes 8..15 */
	__le64 mac; /* source MAC 47:0 as in MANAGE_ARP; VLAN id 59:48; VLAN valid 63 */
	__le64 hdr; /* SIRDMA_CQP_SGID_* */
	__le64 rsvd[4];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_sgid, 64);
#define SIRDMA_CQP_SGID_IDX SIRDMA_MASK(15, 0)
#define SIRDMA_CQP_SGID_ENTRYVALID SIRDMA_BIT(42)
#define SIRDMA_CQP_SGID_MAC SIRDMA_MASK(47, 0)
#define SIRDMA_CQP_SGID_VLAN SIRDMA_MASK(59, 48)
#define SIRDMA_CQP_SGID_VLANVALID SIRDMA_BIT(63)

/* CREATE_MCAST_GRP, MODIFY_MCAST_GRP, DESTROY_MCAST_GRP */
struct sirdma_cqp_mcast {
	__le64 ip_lo; /* CREATE: the multicast address, as in MANAGE_SGID */
	__le64 ip_hi;
	__le64 ctx_addr; /* CREATE, MODIFY: struct sirdma_mcast_ctx, 16-byte aligned */
	__le64 hdr; /* SIRDMA_CQP_MCAST_* */
	__le64 rsvd[4];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_mcast, 64);
#define SIRDMA_CQP_MCAST_ID SIRDMA_MASK(15, 0)

/*
 * The queue pairs of a multicast group: each gets a copy of a packet. Their number bounds
 * the work that one packet causes.
 */
#define SIRDMA_MCAST_MAX_QPS 32
struct sirdma_mcast_ctx {
	__le32 count; /* 1 .. SIRDMA_MCAST_MAX_QPS */
	__le32 rsvd[3];
	__le32 qpns[SIRDMA_MCAST_MAX_QPS]; /* a number that is no queue pair's gets nothing */
};
SIRDMA_SIZE_IS(struct sirdma_mcast_ctx, 144);

/* CREATE_CEQ, DESTROY_CEQ: physically contiguous rings */
struct sirdma_cqp_ceq {
	__le64 size; /* entries */
	__le64 rsvd0;
	__le64 rsvd1;
	__le64 hdr; /* SIRDMA_CQP_CEQ_ID; raises vector id + 1 */
	__le64 addr;
	__le64 rsvd2[3];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_ceq, 64);
#define SIRDMA_CQP_CEQ_SIZE SIRDMA_MASK(21, 0)
#define SIRDMA_CQP_CEQ_ID SIRDMA_MASK(9, 0)

/* CREATE_AEQ, DESTROY_AEQ: raises vector 0 */
struct sirdma_cqp_aeq {
	__le64 size; /* entries */
	__le64 rsvd0;
	__le64 rsvd1;
	__le64 hdr;
	__le64 addr;
	__le64 rsvd2[3];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_aeq, 64);
#define SIRDMA_VECTOR_AEQ 0
#define SIRDMA_VECTOR_CEQ(id) (1 + (id))

/* CREATE_PRQ, DESTROY_PRQ: a contiguous ring of struct sirdma_page_request, whose events are in the AEQ */
struct sirdma_cqp_prq {
	__le64 size; /* entries */
	__le64 ctx; /* driver's cookie, echoed in events */
	__le64 rsvd1;
	__le64 hdr;
	__le64 addr;
	__le64 rsvd2[3];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_prq, 64);

/* UPDATE_SDS: up to 3 entries in the command, more (≤ 8) in a buffer */
struct sirdma_cqp_sds {
	__le64 cmd0;
	__le64 data0;
	__le64 buf; /* DMA address of further struct sirdma_sd_entry, 16-byte aligned */
	__le64 hdr; /* SIRDMA_CQP_SDS_BUF_COUNT */
	__le64 cmd1;
	__le64 data1;
	__le64 cmd2;
	__le64 data2;
};
SIRDMA_SIZE_IS(struct sirdma_cqp_sds, 64);
#define SIRDMA_CQP_SDS_BUF_COUNT SIRDMA_MASK(3, 0)
#define SIRDMA_CQP_SDS_MAX 11

/* QUERY_FPM, COMMIT_FPM, GATHER_STATS */
struct sirdma_cqp_buf {
	__le64 rsvd0;
	__le64 rsvd1;
	__le64 addr; /* struct sirdma_fpm_query, _fpm_commit, or __le64[SIRDMA_STAT_COUNT] */
	__le64 hdr;
	__le64 len; /* bytes */
	__le64 rsvd2[3];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_buf, 64);

/* FLUSH_WQES: complete everything posted with a flush error */
struct sirdma_cqp_flush {
	__le64 rsvd0[3];
	__le64 hdr; /* SIRDMA_CQP_FLUSH_* */
	__le64 rsvd1[4];
};
SIRDMA_SIZE_IS(struct sirdma_cqp_flush, 64);
#define SIRDMA_CQP_FLUSH_QPID SIRDMA_MASK(23, 0)
#define SIRDMA_CQP_FLUSH_SQ SIRDMA_BIT(61)
#define SIRDMA_CQP_FLUSH_RQ SIRDMA_BIT(62)

/* Element of the CQP's completion queue (CCQ), 32 bytes. */
struct sirdma_ccqe {
	__le64 retval; /* command specific, see the opcode */
	__le64 compl_ctx;
	__le64 op; /* opcode 37:32 */
	__le64 hdr; /* as a CQE: MINERR, MAJERR, WQEIDX (command index), ERROR, VALID */
};
SIRDMA_SIZE_IS(struct sirdma_ccqe, 32);

/* Major codes of a failed command */
#define SIRDMA_CQP_MAJ_ERROR 0xffffu
/* Minor codes */
enum sirdma_cqp_status {
	SIRDMA_CQP_OK = 0,
	SIRDMA_CQP_BAD_OPCODE = 1,
	SIRDMA_CQP_BAD_INDEX = 2, /* outside the object's range */
	SIRDMA_CQP_IN_USE = 3, /* the index is in use, or the object still referenced */
	SIRDMA_CQP_NO_OBJECT = 4, /* no object has this index */
	SIRDMA_CQP_BAD_PARAM = 5, /* a field's value is not allowed */
	SIRDMA_CQP_BAD_STATE = 6, /* QP transition or command not allowed now */
	SIRDMA_CQP_NO_MEMORY = 7, /* on-chip memory exhausted */
	SIRDMA_CQP_BAD_ADDRESS = 8, /* a DMA address, SD or PBLE does not resolve */
	SIRDMA_CQP_BAD_RING = 9, /* WQE without valid polarity below the doorbell */
	SIRDMA_CQP_RESET = 10, /* device was reset before the command ran */
	SIRDMA_CQP_AGAIN = 11, /* part of the work is done; send the same command again */
};

#endif
