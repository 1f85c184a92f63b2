/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The records in a ring between two processes: packets of the model without a valid ICRC,
 * super-packets, which contain several packets of one message, streams, which contain several small
 * messages, and datagrams that the owner of a shared port hands over to another process.
 *
 * The writer is another process, so the functions that take a record check everything.
 */
#pragma once

#include <span>

#include "shm_ring.hpp"
#include "udp_link.hpp"

extern "C" {
#include "model/stream.h"
}

namespace sirdma::twin
{

enum RecordKind : uint16_t {
	record_packet = 1,
	record_datagram = 2,
	record_super = 3,
	record_stream = 4,
};

/* Flag: the next record belongs to the same burst. */
constexpr uint16_t record_more = 1;
/* The upper byte of the flags of packets and streams is their traffic class. */
constexpr unsigned record_class_shift = 8;

/* Bits in RingControl::takes: what the reader accepts. */
constexpr uint32_t takes_supers = 1;
constexpr uint32_t takes_references = 2; /* for long payload */
/* The same for a class of middle lengths (payload_choice.hpp). */
constexpr uint32_t takes_references_of(u32 length_class) noexcept
{
	return takes_references << (1 + length_class);
}

/* Streams of small WRITEs (model/stream.h); the classes of length take the bits below from the lowest on. */
constexpr uint32_t takes_streams = 1u << 31;

/* Precedes a datagram that is handed over. */
struct DatagramHead {
	sirdma_ip src;
	uint32_t scope;
	uint16_t sport;
	uint16_t index;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t reserved;
};

/* Precedes the payload of a super-packet, or the list of its pieces in the sender's memory. */
struct SuperHead {
	uint64_t lease; /* lease number for reading the pieces; 0: the payload follows */
	uint32_t payload_len;
	uint32_t npieces;
	uint16_t npkts;
	uint8_t hdr_len;
	uint8_t pad;
	uint8_t hdr[SNIC_MAX_HDR];
};

struct Piece {
	uint64_t addr;
	uint64_t len;
};

/* Precedes the writes of a stream (struct snic_stream_write), and has its other fields. */
struct StreamHead {
	__be64 bth;
	__be64 rkey_len;
	uint32_t psn;
	uint16_t count;
	uint16_t ackreq;
};

static_assert(sizeof(StreamHead) == 24);
static_assert(sizeof(DatagramHead) == 28 && sizeof(SuperHead) == 72 && sizeof(Piece) == 16);

struct SuperPacket {
	std::span<const snic_seg> segs; /* the first has the headers */
	u32 len; /* BTH to ICRC */
	u32 payload_len;
	u32 npkts;
	bool by_reference;
};

/*
 * Writing. The functions return false if there is no room; the reader wakes a sender of packets
 * when there is.
 */

/* Write packet @at of @burst, and its part of @payload. */
bool put_packet(RingWriter &ring, const snic_burst &burst, u32 at, snic_seg_iter &payload) noexcept;
/* Write @n packets of @burst from @at on. @lease: the payload goes by reference; 0: copy it. */
bool put_super(RingWriter &ring, const snic_burst &burst, u32 at, u32 n, uint64_t lease,
	       snic_seg_iter &payload) noexcept;
/* Write @stream, the packets of @burst from @at on. */
bool put_stream(RingWriter &ring, const snic_burst &burst, u32 at,
		const snic_stream &stream) noexcept;
/* Write a datagram that came by @path. */
bool put_datagram(RingWriter &ring, const Path &path, const uint8_t *data, size_t len, u32 index,
		  bool more) noexcept;

/* Reading. The functions return false if the record is malformed. */

struct SuperRecord {
	SuperRecord() = default;
	SuperRecord(const SuperRecord &) = delete;
	SuperRecord &operator=(const SuperRecord &) = delete;

	SuperPacket packet() const noexcept;

	SuperHead head;
	u32 nsegs;
	snic_seg segs[SNIC_BURST_SEGS + 2]; /* of the head, the payload, and pad with ICRC */
};

bool take_super(const RecordHead &record, uint8_t *data, SuperRecord &super) noexcept;
/* The writes of @stream stay in the ring. */
bool take_stream(const RecordHead &record, const uint8_t *data, snic_stream &stream) noexcept;
bool take_datagram(const RecordHead &record, uint8_t *data, DatagramSink &sink,
		   const IpAddress &to) noexcept;

} // namespace sirdma::twin
