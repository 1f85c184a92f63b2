/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Streams: consecutive small WRITEs of one queue pair that differ in PSN, address and payload only. A host that moves
 * packets through memory can transfer them as one record, without their common headers. Each is a message and a packet
 * of its own all the same. They exist only where PORT_WIRE_IN_MEMORY: the kernel modules are built without stream.c.
 */
#ifndef SNIC_STREAM_H
#define SNIC_STREAM_H

#include "burst.h"

/* No packet of a stream has more payload, bytes. */
#define SNIC_STREAM_PAYLOAD 8u
/* BTH and RETH, the longest payload with its pad, ICRC */
#define SNIC_STREAM_PKT_MAX (28u + SNIC_STREAM_PAYLOAD + SIRDMA_ICRC_LEN)

/* What a WRITE has for itself. */
struct snic_stream_write {
	__be64 va;
	u8 data[SNIC_STREAM_PAYLOAD]; /* the payload, in the first bytes */
};

struct snic_stream {
	u64 bth; /* the BTH of each but for its last word, as it is in memory */
	u64 key_len; /* R_Key and length of the RETH of each, as they are in memory */
	u32 psn; /* of the first */
	u32 count; /* 1 .. SNIC_BURST_PKTS */
	bool asks; /* the last asks for an acknowledgement */
	const struct snic_stream_write *writes;
};

/* Payload of each packet, bytes; what is beyond SNIC_STREAM_PAYLOAD is no stream's. */
static inline u32 snic_stream_payload(const struct snic_stream *stream)
{
	__be32 key_len[2];

	__builtin_memcpy(key_len, &stream->key_len, sizeof(key_len));
	return be32_to_cpu(key_len[1]);
}

/*
 * The stream that begins with packet @at of @burst: describe it in @stream but for its writes, and return its length; 1: it
 * is no stream.
 */
u32 snic_stream_count(const struct snic_burst *burst, u32 at, struct snic_stream *stream);
/* Fill @write with what is packet @at's own. */
static inline void snic_stream_take(const struct snic_burst *burst, u32 at,
				    struct snic_stream_write *write)
{
	const u8 *hdr = burst->pkts[at].hdr;

	__builtin_memcpy(&write->va, hdr + sizeof(struct sirdma_bth), sizeof(write->va));
	__builtin_memcpy(write->data, hdr + sizeof(struct sirdma_bth) + sizeof(struct sirdma_reth),
			 sizeof(write->data));
}
/*
 * Write packet @at of @stream, BTH to ICRC, which is 0, to @to, which has SNIC_STREAM_PKT_MAX bytes. Returns its length.
 */
u32 snic_stream_packet(const struct snic_stream *stream, u32 at, u8 *to);

#endif
