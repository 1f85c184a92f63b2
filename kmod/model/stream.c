// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Streams of small WRITEs. */
#include "stream.h"

u32 snic_stream_describe(const struct snic_burst *burst, u32 at, struct snic_stream *stream)
{
	const struct snic_tx_pkt *first = &burst->pkts[at], *pkt = first;
	const struct snic_tx_pkt *end = burst->pkts + burst->npkts;
	struct snic_small_words h, next;
	u32 n;

	/* Of a WRITE, only inline data is within hdr_len. */
	if (pkt + 1 == end || pkt->bth.opcode != (SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY) ||
	    pkt->hdr_len == sizeof(h))
		return 1;
	__builtin_memcpy(&h, pkt->hdr, sizeof(h));
	while (++pkt < end) {
		__builtin_memcpy(&next, pkt->hdr, sizeof(next));
		if (next.bth != h.bth || next.rkey_len != h.rkey_len ||
		    pkt->hdr_len != first->hdr_len)
			break;
		h.apsn |= next.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ);
	}
	n = (u32)(pkt - first);
	/* PSNs ascend, so the last one tells whether one is missing. */
	if (snic_psn_fwd(snic_pkt_psn(pkt - 1), snic_pkt_psn(first)) != n - 1)
		return 1;
	stream->bth = h.bth;
	stream->rkey_len = h.rkey_len;
	stream->psn = snic_pkt_psn(first);
	stream->count = n;
	stream->ackreq = h.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ);
	return n;
}

u32 snic_stream_first(const struct snic_stream *stream, u8 *to)
{
	const struct snic_stream_write write = *stream->writes;
	u32 len = snic_stream_payload(stream);
	const struct snic_small_words h = {
		.bth = stream->bth,
		.apsn = cpu_to_be32(stream->psn |
				    (stream->ackreq && stream->count == 1 ? SIRDMA_BTH_ACKREQ : 0)),
		.va = write.va,
		.rkey_len = stream->rkey_len,
	};

	memset(to, 0, SNIC_STREAM_PKT_MAX);
	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), write.data, len);
	return (u32)sizeof(h) + ((len + 3) & ~3u) + SIRDMA_ICRC_LEN;
}
