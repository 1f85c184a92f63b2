// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Streams of small WRITEs. */
#include "stream.h"

#include "packet.h"

/* The headers of each packet: the parts that all have, and its own. */
struct stream_hdr {
	u64 bth;
	__be32 apsn;
	__be64 va;
	u64 key_len;
} __attribute__((__packed__));
SIRDMA_SIZE_IS(struct stream_hdr, 28);
SIRDMA_STATIC_ASSERT(sizeof(struct stream_hdr) ==
			     sizeof(struct sirdma_bth) + sizeof(struct sirdma_reth),
		     "BTH and RETH");
SIRDMA_STATIC_ASSERT(SNIC_STREAM_PKT_MAX - SNIC_STREAM_PAYLOAD ==
			     sizeof(struct stream_hdr) + SIRDMA_ICRC_LEN,
		     "the longest packet");

u32 snic_stream_count(const struct snic_burst *burst, u32 at, struct snic_stream *stream)
{
	const struct snic_tx_pkt *pkt = &burst->pkts[at], *end = burst->pkts + burst->npkts;
	const u32 hdr_len = pkt->hdr_len;
	struct stream_hdr h, next;
	u32 n = 1;

	if (pkt + 1 == end)
		return 1;
	/* Only a short payload (snic_pkt_short_payload()) is within hdr_len. */
	if (pkt->bth.opcode != (SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY) || pkt->payload_len ||
	    hdr_len == sizeof(h))
		return 1;
	__builtin_memcpy(&h, pkt->hdr, sizeof(h));
	stream->bth = h.bth;
	stream->key_len = h.key_len;
	stream->psn = be32_to_cpu(h.apsn) & SIRDMA_PSN_MASK;
	while (!(h.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ)) && ++pkt < end) {
		__builtin_memcpy(&next, pkt->hdr, sizeof(next));
		if (next.bth != h.bth || next.key_len != h.key_len || pkt->hdr_len != hdr_len ||
		    pkt->payload_len ||
		    snic_psn_fwd(be32_to_cpu(next.apsn), stream->psn) != n)
			break;
		h.apsn = next.apsn;
		n++;
	}
	stream->count = n;
	stream->asks = h.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ);
	return n;
}

u32 snic_stream_packet(const struct snic_stream *stream, u32 at, u8 *to)
{
	const struct snic_stream_write write = stream->writes[at];
	u32 psn = snic_psn_add(stream->psn, at), len = snic_stream_payload(stream);
	const struct stream_hdr h = {
		.bth = stream->bth,
		.apsn = cpu_to_be32(psn | (stream->asks && at + 1 == stream->count ?
						   SIRDMA_BTH_ACKREQ :
						   0)),
		.va = write.va,
		.key_len = stream->key_len,
	};

	memset(to, 0, SNIC_STREAM_PKT_MAX);
	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), write.data, min(len, SNIC_STREAM_PAYLOAD));
	return (u32)sizeof(h) + ((len + 3) & ~3u) + SIRDMA_ICRC_LEN;
}
