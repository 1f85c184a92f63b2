// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Transport headers. */
#include "packet.h"

#define BTH_LEN sizeof(struct sirdma_bth)
#define RETH_LEN sizeof(struct sirdma_reth)
#define AETH_LEN sizeof(struct sirdma_aeth)
#define IMM_LEN sizeof(struct sirdma_immdt)
#define IETH_LEN sizeof(struct sirdma_ieth)
#define DETH_LEN sizeof(struct sirdma_deth)
#define RDETH_LEN sizeof(struct sirdma_rdeth)
#define XRCETH_LEN sizeof(struct sirdma_xrceth)
#define FETH_LEN sizeof(struct sirdma_feth)
#define ATOMICETH_LEN sizeof(struct sirdma_atomiceth)
#define ATOMICACKETH_LEN sizeof(struct sirdma_atomicacketh)

#define SND (SNIC_PKT_REQ | SNIC_PKT_SEND | SNIC_PKT_PAYLOAD)
#define WR (SNIC_PKT_REQ | SNIC_PKT_WRITE | SNIC_PKT_PAYLOAD)
#define RRESP (SNIC_PKT_RESP | SNIC_PKT_READ | SNIC_PKT_PAYLOAD)
#define ATOMIC (SNIC_PKT_REQ | SNIC_PKT_ATOMIC | SNIC_PKT_ONLY)

/* IBTA table 38 and annex A19: operations and the headers that follow the BTH. */
const struct snic_op_info snic_ops[SIRDMA_BTH_OPERATION + 1] = {
	[SIRDMA_BTH_SEND_FIRST] = {SND | SNIC_PKT_FIRST, BTH_LEN},
	[SIRDMA_BTH_SEND_MIDDLE] = {SND | SNIC_PKT_MIDDLE, BTH_LEN},
	[SIRDMA_BTH_SEND_LAST] = {SND | SNIC_PKT_LAST, BTH_LEN},
	[SIRDMA_BTH_SEND_LAST_IMM] = {SND | SNIC_PKT_LAST | SNIC_PKT_IMM, BTH_LEN + IMM_LEN},
	[SIRDMA_BTH_SEND_ONLY] = {SND | SNIC_PKT_ONLY, BTH_LEN},
	[SIRDMA_BTH_SEND_ONLY_IMM] = {SND | SNIC_PKT_ONLY | SNIC_PKT_IMM, BTH_LEN + IMM_LEN},
	[SIRDMA_BTH_WRITE_FIRST] = {WR | SNIC_PKT_FIRST | SNIC_PKT_RETH, BTH_LEN + RETH_LEN},
	[SIRDMA_BTH_WRITE_MIDDLE] = {WR | SNIC_PKT_MIDDLE, BTH_LEN},
	[SIRDMA_BTH_WRITE_LAST] = {WR | SNIC_PKT_LAST, BTH_LEN},
	[SIRDMA_BTH_WRITE_LAST_IMM] = {WR | SNIC_PKT_LAST | SNIC_PKT_IMM, BTH_LEN + IMM_LEN},
	[SIRDMA_BTH_WRITE_ONLY] = {WR | SNIC_PKT_ONLY | SNIC_PKT_RETH, BTH_LEN + RETH_LEN},
	[SIRDMA_BTH_WRITE_ONLY_IMM] = {WR | SNIC_PKT_ONLY | SNIC_PKT_RETH | SNIC_PKT_IMM,
				       BTH_LEN + RETH_LEN + IMM_LEN},
	[SIRDMA_BTH_READ_REQUEST] = {SNIC_PKT_REQ | SNIC_PKT_READ | SNIC_PKT_ONLY | SNIC_PKT_RETH,
				     BTH_LEN + RETH_LEN},
	[SIRDMA_BTH_READ_RESP_FIRST] = {RRESP | SNIC_PKT_FIRST | SNIC_PKT_AETH, BTH_LEN + AETH_LEN},
	[SIRDMA_BTH_READ_RESP_MIDDLE] = {RRESP | SNIC_PKT_MIDDLE, BTH_LEN},
	[SIRDMA_BTH_READ_RESP_LAST] = {RRESP | SNIC_PKT_LAST | SNIC_PKT_AETH, BTH_LEN + AETH_LEN},
	[SIRDMA_BTH_READ_RESP_ONLY] = {RRESP | SNIC_PKT_ONLY | SNIC_PKT_AETH, BTH_LEN + AETH_LEN},
	[SIRDMA_BTH_ACK] = {SNIC_PKT_RESP | SNIC_PKT_AETH, BTH_LEN + AETH_LEN},
	[SIRDMA_BTH_ATOMIC_ACK] = {SNIC_PKT_RESP | SNIC_PKT_ATOMIC | SNIC_PKT_ONLY | SNIC_PKT_AETH,
				   BTH_LEN + AETH_LEN + ATOMICACKETH_LEN},
	[SIRDMA_BTH_CMP_SWAP] = {ATOMIC, BTH_LEN + ATOMICETH_LEN},
	[SIRDMA_BTH_FETCH_ADD] = {ATOMIC, BTH_LEN + ATOMICETH_LEN},
	[SIRDMA_BTH_RESYNC] = {SNIC_PKT_REQ | SNIC_PKT_UNSUPPORTED, BTH_LEN},
	[SIRDMA_BTH_SEND_LAST_INV] = {SND | SNIC_PKT_LAST | SNIC_PKT_INV, BTH_LEN + IETH_LEN},
	[SIRDMA_BTH_SEND_ONLY_INV] = {SND | SNIC_PKT_ONLY | SNIC_PKT_INV, BTH_LEN + IETH_LEN},
	[SIRDMA_BTH_FLUSH] = {SNIC_PKT_REQ | SNIC_PKT_PLACEMENT | SNIC_PKT_ONLY | SNIC_PKT_RETH,
			      BTH_LEN + FETH_LEN + RETH_LEN},
	[SIRDMA_BTH_ATOMIC_WRITE] = {SNIC_PKT_REQ | SNIC_PKT_PLACEMENT | SNIC_PKT_ONLY |
					     SNIC_PKT_RETH | SNIC_PKT_PAYLOAD,
				     BTH_LEN + RETH_LEN},
};

/* The transport does not define the opcode: treat all bytes after the BTH as payload. */
static const struct snic_op_info reserved_op = {SNIC_PKT_PAYLOAD, BTH_LEN};

#define OPS(first, last) (0xffffffffu >> (31 - (last) + (first)) << (first))
#define SEND_WRITE OPS(SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_WRITE_ONLY_IMM)
#define READ_ATOMIC OPS(SIRDMA_BTH_READ_REQUEST, SIRDMA_BTH_FETCH_ADD)
#define SEND_INV OPS(SIRDMA_BTH_SEND_LAST_INV, SIRDMA_BTH_SEND_ONLY_INV)
#define PLACEMENT OPS(SIRDMA_BTH_FLUSH, SIRDMA_BTH_ATOMIC_WRITE)

/* The operations of each transport, and the extended headers it adds (IBTA table 38). */
const struct snic_bth_info snic_bths[8] = {
	[SIRDMA_BTH_RC / 32] = {.ops = SEND_WRITE | READ_ATOMIC | SEND_INV | PLACEMENT},
	[SIRDMA_BTH_UC / 32] = {.ops = SEND_WRITE},
	[SIRDMA_BTH_RD / 32] = {.ops = SEND_WRITE | READ_ATOMIC | 1u << SIRDMA_BTH_RESYNC |
				       1u << SIRDMA_BTH_FLUSH,
				.req_len = RDETH_LEN + DETH_LEN,
				.resp_len = RDETH_LEN},
	[SIRDMA_BTH_UD / 32] = {.ops = OPS(SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_SEND_ONLY_IMM),
				.req_len = DETH_LEN},
	[SIRDMA_BTH_CNP / 32] = {.ops = 1u << SIRDMA_BTH_CNP_OPERATION, .req_len = SIRDMA_CNP_LEN},
	[SIRDMA_BTH_XRC / 32] = {.ops = SEND_WRITE | READ_ATOMIC | SEND_INV | PLACEMENT,
				 .req_len = XRCETH_LEN},
};

static bool rx_len_ok(const struct snic_rx_pkt *rx)
{
	u32 i, total = 0;

	if (rx->len < BTH_LEN + SIRDMA_ICRC_LEN || !rx->nsegs)
		return false;
	for (i = 0; i < rx->nsegs && total < rx->len; i++)
		total += rx->segs[i].len;
	return total >= rx->len && rx->segs[0].len >= BTH_LEN;
}

static void parse_deth(const u8 *p, struct snic_pkt *pkt)
{
	struct sirdma_deth deth;

	memcpy(&deth, p, sizeof(deth));
	pkt->qkey = be32_to_cpu(deth.qkey);
	pkt->src_qpn = be32_to_cpu(deth.sqpn) & SIRDMA_QPN_MASK;
}

static void parse_xrceth(const u8 *p, struct snic_pkt *pkt)
{
	struct sirdma_xrceth xrceth;

	memcpy(&xrceth, p, sizeof(xrceth));
	pkt->srqn = be32_to_cpu(xrceth.xrcsrq) & SIRDMA_QPN_MASK;
}

/* The headers that the transport adds. Nothing reads those of CNP and RD. */
static void parse_added(const u8 *p, struct snic_pkt *pkt)
{
	if ((pkt->opcode & SIRDMA_BTH_TRANSPORT) == SIRDMA_BTH_UD)
		parse_deth(p, pkt);
	else if ((pkt->opcode & SIRDMA_BTH_TRANSPORT) == SIRDMA_BTH_XRC)
		parse_xrceth(p, pkt);
}

static void parse_atomic(const struct snic_op_info *op, const u8 *p, struct snic_pkt *pkt)
{
	struct sirdma_atomicacketh ack;
	struct sirdma_atomiceth eth;

	if (op->flags & SNIC_PKT_RESP) {
		memcpy(&ack, p, sizeof(ack));
		pkt->orig = be64_to_cpu(ack.orig);
		return;
	}
	memcpy(&eth, p, sizeof(eth));
	pkt->va = be64_to_cpu(eth.va);
	pkt->rkey = be32_to_cpu(eth.rkey);
	pkt->swap_add = be64_to_cpu(eth.swap_add);
	pkt->compare = be64_to_cpu(eth.compare);
}

/* Has @op a FETH? FLUSH has; it is the one operation of annex A19 without payload. */
static bool has_feth(const struct snic_op_info *op)
{
	return (op->flags & (SNIC_PKT_PLACEMENT | SNIC_PKT_PAYLOAD)) == SNIC_PKT_PLACEMENT;
}

static void parse_extended(const struct snic_op_info *op, const u8 *p, struct snic_pkt *pkt)
{
	if (op->flags & SNIC_PKT_RETH) {
		struct sirdma_reth reth;
		struct sirdma_feth feth;

		if (unlikely(has_feth(op))) {
			memcpy(&feth, p, sizeof(feth));
			pkt->flush = be32_to_cpu(feth.flush);
			p += sizeof(feth);
		}
		memcpy(&reth, p, sizeof(reth));
		pkt->va = be64_to_cpu(reth.va);
		pkt->rkey = be32_to_cpu(reth.rkey);
		pkt->dma_len = be32_to_cpu(reth.len);
		p += sizeof(reth);
	}
	if (op->flags & SNIC_PKT_IMM) {
		struct sirdma_immdt imm;

		memcpy(&imm, p, sizeof(imm));
		pkt->imm = be32_to_cpu(imm.imm);
	}
	if (op->flags & SNIC_PKT_INV) {
		struct sirdma_ieth ieth;

		memcpy(&ieth, p, sizeof(ieth));
		pkt->rkey = be32_to_cpu(ieth.rkey);
	}
	if (op->flags & SNIC_PKT_AETH) {
		struct sirdma_aeth aeth;

		memcpy(&aeth, p, sizeof(aeth));
		pkt->aeth = be32_to_cpu(aeth.smsn);
		p += sizeof(aeth);
	}
	if (op->flags & SNIC_PKT_ATOMIC)
		parse_atomic(op, p, pkt);
}

bool snic_pkt_parse(const struct snic_rx_pkt *rx, struct snic_pkt *pkt, enum sirdma_stat *why)
{
	const struct snic_op_info *op;
	struct sirdma_bth bth;
	u32 body, hdr_len;

	*why = SIRDMA_STAT_RX_BAD_LENGTH;
	if (!rx_len_ok(rx))
		return false;
	*why = SIRDMA_STAT_RX_BAD_ICRC;
	if (!rx->icrc_ok)
		return false;
	memcpy(&bth, rx->segs[0].ptr, sizeof(bth));
	*why = SIRDMA_STAT_RX_BAD_HEADER;
	if (bth.flags & SIRDMA_BTH_TVER)
		return false;
	op = &reserved_op;
	hdr_len = BTH_LEN;
	if (likely(snic_opcode_known(bth.opcode))) {
		op = snic_op(bth.opcode);
		hdr_len = snic_opcode_hdr_len(bth.opcode);
	}
	*why = SIRDMA_STAT_RX_BAD_LENGTH;
	if (rx->len < hdr_len + SIRDMA_ICRC_LEN || rx->segs[0].len < hdr_len)
		return false;
	body = rx->len - hdr_len - SIRDMA_ICRC_LEN;
	pkt->pad = (bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT;
	/* The body is a whole number of words, the pad less than one (IBTA 9.2.6). */
	if (body % 4 || pkt->pad > body || (body && !(op->flags & SNIC_PKT_PAYLOAD)))
		return false;
	pkt->va = 0;
	pkt->rkey = 0;
	pkt->dma_len = 0;
	pkt->imm = 0;
	pkt->aeth = 0;
	pkt->qkey = 0;
	pkt->src_qpn = 0;
	pkt->qpn = be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK;
	pkt->psn = be32_to_cpu(bth.apsn) & SIRDMA_PSN_MASK;
	pkt->ackreq = be32_to_cpu(bth.apsn) & SIRDMA_BTH_ACKREQ;
	pkt->solicited = bth.flags & SIRDMA_BTH_SE;
	pkt->payload_off = hdr_len;
	pkt->payload_len = body - pkt->pad;
	pkt->npkts = PORT_WIRE_IN_MEMORY ? max_t(u32, rx->npkts, 1) : 1;
	/* The packets of a super-packet have payload. */
	if (pkt->npkts > 1 && !(op->flags & SNIC_PKT_PAYLOAD))
		return false;
	pkt->flags = op->flags;
	pkt->pkey = be16_to_cpu(bth.pkey);
	pkt->opcode = bth.opcode;
	if (hdr_len > op->hdr_len)
		parse_added((const u8 *)rx->segs[0].ptr + BTH_LEN, pkt);
	parse_extended(op, (const u8 *)rx->segs[0].ptr + BTH_LEN + hdr_len - op->hdr_len, pkt);
	return true;
}

struct snic_seg_iter snic_pkt_payload(const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	struct snic_seg_iter it = {
		.seg = rx->segs,
		.off = pkt->payload_off,
		.by_reference = rx->by_reference,
	};

	while (pkt->payload_len && it.off >= it.seg->len)
		it.off -= it.seg++->len;
	return it;
}

void snic_pkt_deth(struct snic_tx_pkt *pkt, u32 qkey, u32 src_qpn)
{
	const struct sirdma_deth deth = {
		.qkey = cpu_to_be32(qkey),
		.sqpn = cpu_to_be32(src_qpn),
	};

	snic_pkt_append(pkt, &deth, sizeof(deth));
}

void snic_pkt_xrceth(struct snic_tx_pkt *pkt, u32 srqn)
{
	const struct sirdma_xrceth xrceth = {.xrcsrq = cpu_to_be32(srqn)};

	snic_pkt_append(pkt, &xrceth, sizeof(xrceth));
}

void snic_pkt_feth(struct snic_tx_pkt *pkt, u32 flush)
{
	const struct sirdma_feth feth = {.flush = cpu_to_be32(flush)};

	snic_pkt_append(pkt, &feth, sizeof(feth));
}

void snic_pkt_imm(struct snic_tx_pkt *pkt, u32 imm)
{
	const struct sirdma_immdt immdt = {.imm = cpu_to_be32(imm)};

	snic_pkt_append(pkt, &immdt, sizeof(immdt));
}

void snic_pkt_ieth(struct snic_tx_pkt *pkt, u32 rkey)
{
	const struct sirdma_ieth ieth = {.rkey = cpu_to_be32(rkey)};

	snic_pkt_append(pkt, &ieth, sizeof(ieth));
}

void snic_pkt_aeth(struct snic_tx_pkt *pkt, u8 syndrome, u32 msn)
{
	const struct sirdma_aeth aeth = {
		.smsn = cpu_to_be32((u32)syndrome << 24 | (msn & SIRDMA_PSN_MASK)),
	};

	snic_pkt_append(pkt, &aeth, sizeof(aeth));
}

void snic_pkt_atomiceth(struct snic_tx_pkt *pkt, u64 va, u32 rkey, u64 swap_add, u64 compare)
{
	const struct sirdma_atomiceth eth = {
		.va = cpu_to_be64(va),
		.rkey = cpu_to_be32(rkey),
		.swap_add = cpu_to_be64(swap_add),
		.compare = cpu_to_be64(compare),
	};

	snic_pkt_append(pkt, &eth, sizeof(eth));
}

void snic_pkt_atomicacketh(struct snic_tx_pkt *pkt, u64 orig)
{
	const struct sirdma_atomicacketh eth = {.orig = cpu_to_be64(orig)};

	snic_pkt_append(pkt, &eth, sizeof(eth));
}
