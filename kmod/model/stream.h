/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Streams: consecutive WRITEs of inline data of one queue pair that differ in PSN, address and
 * payload only. A host that moves packets through memory can transfer them as one record, without
 * their common headers. Each is a message and a packet of its own all the same. They exist only
 * where PORT_WIRE_IN_MEMORY: the kernel modules are built without stream.c and stream_rx.c.
 *
 * In lists of 16, a WRITE of 8 bytes takes 170 instructions at its sender, from the post to its
 * completion, and 46 at its receiver; as a packet of its own it took 620 and 440 (callgrind over
 * tests/bench/twinbench).
 */
#ifndef SNIC_STREAM_H
#define SNIC_STREAM_H

#include "packet.h"
#include "small.h"

/* Inline data of a WQE of one quantum: no packet of a stream has more payload, bytes. */
#define SNIC_STREAM_PAYLOAD SIRDMA_INLINE_FIRST
#define SNIC_STREAM_PKT_MAX (SNIC_SMALL_HDR + SNIC_STREAM_PAYLOAD + SIRDMA_ICRC_LEN)
SIRDMA_STATIC_ASSERT(SNIC_SMALL_HDR + SNIC_STREAM_PAYLOAD <= SNIC_MAX_HDR, "inline data");

/* What a WRITE has for itself. */
struct snic_stream_write {
	__be64 va;
	u8 data[SNIC_STREAM_PAYLOAD]; /* the payload, in the first bytes */
};
SIRDMA_SIZE_IS(struct snic_stream_write, 16);

struct snic_stream {
	__be64 bth; /* of each, all but the last word */
	__be64 rkey_len; /* of the RETH of each */
	u32 psn; /* of the first */
	u32 count; /* 1 .. SNIC_BURST_PKTS */
	bool ackreq; /* the last asks for an acknowledgement */
	const struct snic_stream_write *writes;
};

/* Payload of each packet, bytes: 1 .. SNIC_STREAM_PAYLOAD, unless a peer has described the stream. */
static inline u32 snic_stream_payload(const struct snic_stream *stream)
{
	return (u32)be64_to_cpu(stream->rkey_len);
}

/*
 * Describe the stream that begins with packet @at of @burst, except for its writes. Returns the
 * number of its packets; 1: there is none, and @stream is undefined.
 */
u32 snic_stream_describe(const struct snic_burst *burst, u32 at, struct snic_stream *stream);

/* What @pkt of a stream has for itself. */
static inline struct snic_stream_write snic_stream_write_of(const struct snic_tx_pkt *pkt)
{
	struct snic_stream_write write;

	__builtin_memcpy(&write.va, pkt->hdr + sizeof(struct sirdma_bth), sizeof(write.va));
	__builtin_memcpy(write.data, pkt->hdr + SNIC_SMALL_HDR, sizeof(write.data));
	return write;
}

/* The first @n packets of @stream are done. */
static inline void snic_stream_skip(struct snic_stream *stream, u32 n)
{
	stream->psn = snic_psn_add(stream->psn, n);
	stream->writes += n;
	stream->count -= n;
}

/*
 * Write the first packet of @stream, BTH to ICRC, which is 0, to @to, which has SNIC_STREAM_PKT_MAX
 * bytes. Returns its length.
 */
u32 snic_stream_first(const struct snic_stream *stream, u8 *to);

#endif
