// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Super-packets. */
#include "super.h"

static const struct snic_op_info *tx_op(const struct snic_tx_pkt *pkt)
{
	return snic_op(pkt->bth.opcode);
}

u32 snic_super_count(const struct snic_burst *burst, u32 at, u32 max_bytes)
{
	u32 n, bytes = burst->pkts[at].payload_len;

	/* READ requests and acknowledgements are never combined, nor the packets of two messages. */
	if ((tx_op(&burst->pkts[at])->flags & (SNIC_PKT_PAYLOAD | SNIC_PKT_LAST)) !=
	    SNIC_PKT_PAYLOAD)
		return 1;
	for (n = 1; at + n < burst->npkts; n++) {
		if ((tx_op(&burst->pkts[at + n - 1])->flags & SNIC_PKT_LAST) ||
		    (tx_op(&burst->pkts[at + n])->flags & (SNIC_PKT_PAYLOAD | SNIC_PKT_FIRST)) !=
			    SNIC_PKT_PAYLOAD)
			break;
		bytes += burst->pkts[at + n].payload_len;
		if (bytes > max_bytes)
			break;
	}
	return n;
}

/* Opcode of a part of a message that begins as @first and ends as @last. */
static u8 super_opcode(u8 first, u8 last)
{
	u16 begins = snic_op(first)->flags & SNIC_PKT_FIRST, ends = snic_op(last)->flags;

	if (!(ends & SNIC_PKT_LAST))
		return first;
	if (!begins)
		return last;
	if (ends & SNIC_PKT_INV)
		return (u8)(last - SIRDMA_BTH_SEND_LAST_INV + SIRDMA_BTH_SEND_ONLY_INV);
	/* The opcodes without and with immediate data have the same order (IBTA table 38). */
	if (ends & SNIC_PKT_SEND)
		return (u8)(last - SIRDMA_BTH_SEND_LAST + SIRDMA_BTH_SEND_ONLY);
	if (ends & SNIC_PKT_WRITE)
		return (u8)(last - SIRDMA_BTH_WRITE_LAST + SIRDMA_BTH_WRITE_ONLY);
	return (u8)(last - SIRDMA_BTH_READ_RESP_LAST + SIRDMA_BTH_READ_RESP_ONLY);
}

void snic_super_build(const struct snic_burst *burst, u32 at, u32 n, struct snic_super *out)
{
	const struct snic_tx_pkt *first = &burst->pkts[at], *last = &burst->pkts[at + n - 1];
	struct sirdma_bth *bth = &out->bth;
	/* Each request has the header that the transport adds, a super-packet has it once. */
	u32 added = tx_op(first)->flags & SNIC_PKT_REQ ? snic_bth(first->bth.opcode)->req_len : 0;
	u32 skip = sizeof(*bth) + added, tail = last->hdr_len - skip, i;

	memcpy(out->hdr, first->hdr, sizeof(out->hdr));
	out->hdr_len = first->hdr_len;
	out->pad = last->pad;
	out->npkts = (u16)n;
	out->payload_len = 0;
	for (i = 0; i < n; i++) {
		out->payload_len += burst->pkts[at + i].payload_len;
		bth->apsn |= burst->pkts[at + i].bth.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ);
	}
	if (n == 1)
		return;
	/*
	 * The pad count and the solicited event come from the last packet. The AETH does, too, when
	 * the first packet has none.
	 */
	bth->flags = last->bth.flags;
	bth->opcode = super_opcode(bth->opcode, last->bth.opcode);
	if (out->hdr_len + tail == snic_opcode_hdr_len(bth->opcode)) {
		memcpy(out->hdr + out->hdr_len, last->hdr + skip, tail);
		out->hdr_len += tail;
	}
}

u32 snic_super_saved(const struct snic_pkt *whole)
{
	u32 added = whole->flags & SNIC_PKT_REQ ? snic_bth(whole->opcode)->req_len : 0;
	u32 bytes = (whole->npkts - 1) * ((u32)sizeof(struct sirdma_bth) + added + SIRDMA_ICRC_LEN);

	/* The first and the last packet of a READ response have an AETH each (IBTA table 38). */
	if (whole->flags & SNIC_PKT_RESP && (whole->flags & SNIC_PKT_ONLY) == SNIC_PKT_ONLY)
		bytes += (u32)sizeof(struct sirdma_aeth);
	return bytes;
}

void snic_super_part(const struct snic_pkt *whole, u32 mtu, u32 i, struct snic_pkt *part)
{
	bool last = i + 1 == whole->npkts;

	*part = *whole;
	part->npkts = 1;
	part->psn = snic_psn_add(whole->psn, i);
	part->payload_off += i * mtu;
	part->payload_len = min(mtu, whole->payload_len - i * mtu);
	if (i)
		part->flags &= ~SNIC_PKT_FIRST;
	if (last)
		return;
	part->flags &= ~(SNIC_PKT_LAST | SNIC_PKT_IMM | SNIC_PKT_INV);
	part->ackreq = false;
	part->solicited = false;
}
