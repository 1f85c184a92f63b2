/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Transport headers: built and parsed (IBTA volume 1, chapter 9). */
#ifndef SNIC_PACKET_H
#define SNIC_PACKET_H

#include "burst.h"
#include "port/port.h"
#include "sirdma/roce.h"
#include "snic.h"

/* Flags of an operation or a packet. */
#define SNIC_PKT_REQ (1u << 0) /* neither REQ nor RESP is set: a reserved opcode */
#define SNIC_PKT_RESP (1u << 1)
#define SNIC_PKT_FIRST (1u << 2)
#define SNIC_PKT_MIDDLE (1u << 3)
#define SNIC_PKT_LAST (1u << 4)
#define SNIC_PKT_ONLY (SNIC_PKT_FIRST | SNIC_PKT_LAST)
#define SNIC_PKT_SEND (1u << 5)
#define SNIC_PKT_WRITE (1u << 6)
#define SNIC_PKT_READ (1u << 7) /* READ request or response */
#define SNIC_PKT_RETH (1u << 8)
#define SNIC_PKT_IMM (1u << 9)
#define SNIC_PKT_AETH (1u << 10)
#define SNIC_PKT_PAYLOAD (1u << 11) /* the packet may carry payload */
#define SNIC_PKT_UNSUPPORTED (1u << 12) /* this device refuses the operation */
#define SNIC_PKT_ATOMIC (1u << 13) /* atomic request or its response */
#define SNIC_PKT_INV (1u << 14) /* the packet names a key to invalidate */
#define SNIC_PKT_PLACEMENT (1u << 15) /* FLUSH or ATOMIC WRITE request (annex A19) */
/*
 * A READ, atomic, FLUSH or ATOMIC WRITE, request or response. The responder answers such a request by
 * responses of its own, limits their number, and remembers it for duplicates.
 */
#define SNIC_PKT_RD_ATOMIC (SNIC_PKT_READ | SNIC_PKT_ATOMIC | SNIC_PKT_PLACEMENT)

/* An operation of any transport. */
struct snic_op_info {
	u16 flags;
	u8 hdr_len; /* BTH and extended headers, without those that the transport adds */
};

/* Opcodes and headers of a transport. */
struct snic_bth_info {
	u32 ops; /* bit map of its operations */
	u8 req_len; /* headers that the transport adds to each request, after the BTH */
	u8 resp_len; /* the same for each response */
};

extern const struct snic_op_info snic_ops[SIRDMA_BTH_OPERATION + 1];
/* The transports by the upper bits of the opcode. */
extern const struct snic_bth_info snic_bths[8];

static inline const struct snic_op_info *snic_op(u8 opcode)
{
	return &snic_ops[opcode & SIRDMA_BTH_OPERATION];
}

static inline const struct snic_bth_info *snic_bth(u8 opcode)
{
	return &snic_bths[opcode / (SIRDMA_BTH_OPERATION + 1)];
}

/* Does the transport of @opcode define it? */
static inline bool snic_opcode_known(u8 opcode)
{
	return snic_bth(opcode)->ops >> (opcode & SIRDMA_BTH_OPERATION) & 1;
}

/* BTH and all extended headers of @opcode, which is known. */
static inline u32 snic_opcode_hdr_len(u8 opcode)
{
	const struct snic_op_info *op = snic_op(opcode);
	const struct snic_bth_info *bth = snic_bth(opcode);

	return op->hdr_len + (op->flags & SNIC_PKT_RESP ? bth->resp_len : bth->req_len);
}

/*
 * A received packet with its headers in CPU byte order. Fields of absent headers are 0; swap_add,
 * compare and orig are undefined unless the packet is an atomic request or response, and flush unless
 * it is a FLUSH.
 */
struct snic_pkt {
	u64 va; /* RETH, AtomicETH */
	u64 swap_add; /* AtomicETH */
	u64 compare; /* AtomicETH */
	u64 orig; /* AtomicAckETH */
	u32 rkey; /* RETH, AtomicETH, IETH */
	u32 dma_len;
	u32 imm;
	u32 flush; /* FETH */
	u32 aeth;
	u32 qpn;
	u32 psn;
	u32 payload_off; /* offset from the BTH */
	u32 payload_len; /* bytes without the pad */
	u32 qkey; /* DETH */
	union {
		u32 src_qpn; /* DETH */
		u32 srqn; /* XRCETH */
	};
	u32 npkts; /* PSNs that the packet takes: 1, unless it is a super-packet */
	u16 flags; /* SNIC_PKT_* */
	u16 pkey;
	u8 opcode;
	u8 pad;
	bool ackreq;
	bool solicited;
};

/*
 * Check the parts that do not depend on the QP (length, ICRC, version, pad) and fill @pkt. Returns
 * false with *why = the counter of the reason. The QP checks opcodes.
 */
bool snic_pkt_parse(const struct snic_rx_pkt *rx, struct snic_pkt *pkt, enum sirdma_stat *why);

/* The payload of @pkt within @rx. */
struct snic_seg_iter snic_pkt_payload(const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);

/* Header builders: append a header to @pkt and increase hdr_len. */
static inline void snic_pkt_bth(struct snic_tx_pkt *pkt, u8 opcode, u16 pkey, u32 dest_qpn, u32 psn,
				u32 payload_len)
{
	struct sirdma_bth *bth = &pkt->bth;

	pkt->pad = (u8)(-payload_len & 3);
	pkt->payload_len = (u16)payload_len;
	pkt->hdr_len = sizeof(*bth);
	bth->opcode = opcode;
	/*
	 * The packet has MigReq set: the path is in its migrated state (IBTA 17.2.8), which
	 * hardware expects.
	 */
	bth->flags = (u8)(SIRDMA_BTH_MIGREQ | pkt->pad << SIRDMA_BTH_PAD_SHIFT);
	bth->pkey = cpu_to_be16(pkey);
	bth->qpn = cpu_to_be32(dest_qpn);
	bth->apsn = cpu_to_be32(psn);
}

/*
 * @len is a constant, so the compiler copies by a few stores; the kernel's checked memcpy() would
 * be a call.
 */
static __always_inline void snic_pkt_append(struct snic_tx_pkt *pkt, const void *header, u32 len)
{
	__builtin_memcpy(pkt->hdr + pkt->hdr_len, header, len);
	pkt->hdr_len += (u8)len;
}

static inline void snic_pkt_reth(struct snic_tx_pkt *pkt, u64 va, u32 rkey, u32 len)
{
	const struct sirdma_reth reth = {
		.va = cpu_to_be64(va),
		.rkey = cpu_to_be32(rkey),
		.len = cpu_to_be32(len),
	};

	snic_pkt_append(pkt, &reth, sizeof(reth));
}

/*
 * Append the inline data of a WQE of one quantum behind the last header: the first @len bytes of
 * @data, 1 to 8. The packet has no payload in the scatter list of its burst then.
 */
static inline void snic_pkt_inline_data(struct snic_tx_pkt *pkt, __le64 data, u32 len)
{
	/* The others are of an earlier WQE. */
	data &= cpu_to_le64(~0ull >> (64 - 8 * len));
	__builtin_memcpy(pkt->hdr + pkt->hdr_len, &data, sizeof(data));
	pkt->hdr_len += (u8)len;
	pkt->payload_len = 0;
}

void snic_pkt_deth(struct snic_tx_pkt *pkt, u32 qkey, u32 src_qpn);
void snic_pkt_xrceth(struct snic_tx_pkt *pkt, u32 srqn);
void snic_pkt_feth(struct snic_tx_pkt *pkt, u32 flush);
void snic_pkt_imm(struct snic_tx_pkt *pkt, u32 imm);
void snic_pkt_ieth(struct snic_tx_pkt *pkt, u32 rkey);
void snic_pkt_aeth(struct snic_tx_pkt *pkt, u8 syndrome, u32 msn);
void snic_pkt_atomiceth(struct snic_tx_pkt *pkt, u64 va, u32 rkey, u64 swap_add, u64 compare);
void snic_pkt_atomicacketh(struct snic_tx_pkt *pkt, u64 orig);

static inline void snic_pkt_set_ackreq(struct snic_tx_pkt *pkt)
{
	pkt->bth.apsn |= cpu_to_be32(SIRDMA_BTH_ACKREQ);
}

static inline u32 snic_pkt_psn(const struct snic_tx_pkt *pkt)
{
	return be32_to_cpu(pkt->bth.apsn) & SIRDMA_PSN_MASK;
}

/* Distance from @base forward to @psn, 0 .. 2^24-1. */
static inline u32 snic_psn_fwd(u32 psn, u32 base)
{
	return (psn - base) & SIRDMA_PSN_MASK;
}

/* Signed distance from @base to @psn, -2^23 .. 2^23-1. */
static inline s32 snic_psn_diff(u32 psn, u32 base)
{
	return (s32)((psn - base) << 8) >> 8;
}

static inline u32 snic_psn_add(u32 psn, u32 n)
{
	return (psn + n) & SIRDMA_PSN_MASK;
}

#endif
