/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "record.hpp"

#include <cstring>

#include "wire_order.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin
{

namespace
{

/*
 * Reserve room in the ring. Returns null if there is none; the reader will wake this process when
 * there is.
 */
uint8_t *reserve(RingWriter &ring, size_t len) noexcept
{
	if (uint8_t *at = ring.reserve(len)) [[likely]]
		return at;
	return ring.want_room(len) ? ring.reserve(len) : nullptr;
}

void commit(RingWriter &ring, size_t len, RecordKind kind, bool more,
	    uint8_t traffic_class = 0) noexcept
{
	order_by_wire();
	ring.commit({.len = static_cast<uint32_t>(len),
		     .kind = kind,
		     .flags = static_cast<uint16_t>(traffic_class << record_class_shift |
						    (more ? record_more : 0))});
}

/*
 * Describe the next @len bytes at @it by pieces. Returns the number of pieces; 0: @pieces is too
 * small.
 */
u32 take_pieces(snic_seg_iter &it, u32 len, std::span<Piece> pieces) noexcept
{
	u32 n = 0, run;

	for (; len; len -= run) {
		if (n == pieces.size()) [[unlikely]]
			return 0;

		const void *at = snic_seg_next(&it, len, &run);

		pieces[n++] = {.addr = reinterpret_cast<uintptr_t>(at), .len = run};
	}
	return n;
}

/*
 * Convert the pieces at @data, which follow @head, to segments. Returns false if their sum is
 * wrong.
 */
bool read_pieces(const SuperHead &head, const uint8_t *data, snic_seg *segs) noexcept
{
	u64 sum = 0;

	for (u32 i = 0; i < head.npieces; ++i) {
		Piece piece;

		memcpy(&piece, data + i * sizeof(piece), sizeof(piece));
		if (!piece.len || piece.len > head.payload_len - sum)
			return false;
		sum += piece.len;
		segs[i] = {.ptr = reinterpret_cast<void *>(piece.addr),
			   .len = static_cast<u32>(piece.len)};
	}
	return sum == head.payload_len;
}

/* Do header length and pad agree with opcode and flags? The payload then begins with a segment. */
bool headers_fit(const SuperHead &head) noexcept
{
	sirdma_bth bth;

	memcpy(&bth, head.hdr, sizeof(bth));
	return snic_opcode_known(bth.opcode) && snic_op(bth.opcode)->flags & SNIC_PKT_PAYLOAD &&
	       head.hdr_len == snic_opcode_hdr_len(bth.opcode) &&
	       head.hdr_len <= sizeof(head.hdr) &&
	       head.pad == (bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT;
}

} // namespace

/* The packet has room for the ICRC, which is not computed. */
bool put_packet(RingWriter &ring, const snic_burst &burst, u32 at, snic_seg_iter &payload) noexcept
{
	constexpr uint64_t zero = 0;
	const snic_tx_pkt &pkt = burst.pkts[at];
	const size_t body = pkt.hdr_len + pkt.payload_len + pkt.pad;
	uint8_t *to = reserve(ring, body + SIRDMA_ICRC_LEN);

	if (!to)
		return false;
	/*
	 * Copy all of hdr, or the part that acknowledgements have. Bytes beyond the headers are
	 * overwritten later, or are beyond the end of the record; no inline data of an earlier
	 * packet is among them.
	 */
	constexpr size_t part = sizeof(sirdma_bth) + sizeof(sirdma_aeth);
	static_assert(sizeof(RecordHead) + sizeof(pkt.hdr) <= ring_align);
	if (pkt.hdr_len > part)
		memcpy(to, pkt.hdr, sizeof(pkt.hdr));
	else
		memcpy(to, pkt.hdr, part);
	if (pkt.payload_len >= RingCopy::bytes_min) {
		ring.copy(to + pkt.hdr_len, payload, pkt.payload_len);
	} else if (pkt.payload_len) {
		if (const void *from = snic_seg_whole(&payload, pkt.payload_len)) [[likely]]
			memcpy(to + pkt.hdr_len, from, pkt.payload_len);
		else
			snic_seg_copy(&payload, to + pkt.hdr_len, pkt.payload_len);
	}
	/*
	 * Write pad and ICRC. They may reach into the head of the next record, which is not written
	 * yet.
	 */
	static_assert(SIRDMA_ICRC_LEN + 3 <= sizeof(zero));
	memcpy(to + body - pkt.pad, &zero, sizeof(zero));
	commit(ring, body + SIRDMA_ICRC_LEN, record_packet, at + 1 < burst.npkts,
	       burst.flow->traffic_class);
	return true;
}

bool put_super(RingWriter &ring, const snic_burst &burst, u32 at, u32 n, uint64_t lease,
	       snic_seg_iter &payload) noexcept
{
	Piece pieces[SNIC_BURST_SEGS];
	snic_seg_iter behind = payload;
	snic_super super;

	snic_super_build(&burst, at, n, &super);

	SuperHead head = {
		.lease = lease,
		.payload_len = super.payload_len,
		.npieces = lease ? take_pieces(behind, super.payload_len, pieces) : 0,
		.npkts = super.npkts,
		.hdr_len = super.hdr_len,
		.pad = super.pad,
		.hdr = {},
	};
	const size_t body = lease ? head.npieces * sizeof(Piece) : super.payload_len;
	uint8_t *to = reserve(ring, sizeof(head) + body);

	if (!to)
		return false;
	memcpy(head.hdr, super.hdr, sizeof(head.hdr));
	memcpy(to, &head, sizeof(head));
	if (lease) {
		memcpy(to + sizeof(head), pieces, body);
		payload = behind;
	} else {
		ring.copy(to + sizeof(head), payload, super.payload_len);
	}
	commit(ring, sizeof(head) + body, record_super, at + n < burst.npkts);
	return true;
}

bool put_stream(RingWriter &ring, const snic_burst &burst, u32 at,
		const snic_stream &stream) noexcept
{
	const StreamHead head = {.bth = stream.bth,
				 .rkey_len = stream.rkey_len,
				 .psn = stream.psn,
				 .count = static_cast<uint16_t>(stream.count),
				 .ackreq = stream.ackreq};
	const size_t len = sizeof(head) + stream.count * sizeof(snic_stream_write);
	uint8_t *to = reserve(ring, len);

	if (!to)
		return false;
	memcpy(to, &head, sizeof(head));
	to += sizeof(head);
	for (u32 i = 0; i < stream.count; ++i, to += sizeof(snic_stream_write)) {
		const snic_stream_write write = snic_stream_write_of(&burst.pkts[at + i]);

		memcpy(to, &write, sizeof(write));
	}
	commit(ring, len, record_stream, at + stream.count < burst.npkts,
	       burst.flow->traffic_class);
	return true;
}

/* The caller does not wait for room: without room the datagram is lost, as on any wire. */
bool put_datagram(RingWriter &ring, const Path &path, const uint8_t *data, size_t len, u32 index,
		  bool more) noexcept
{
	const DatagramHead head = {
		.src = path.src.ip(),
		.scope = path.src.scope(),
		.sport = path.sport,
		.index = static_cast<uint16_t>(index),
		.traffic_class = path.traffic_class,
		.hop_limit = path.hop_limit,
		.reserved = 0,
	};
	uint8_t *at = ring.reserve(sizeof(head) + len);

	if (!at)
		return false;
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), data, len);
	commit(ring, sizeof(head) + len, record_datagram, more);
	return true;
}

bool take_super(const RecordHead &record, uint8_t *data, SuperRecord &super) noexcept
{
	static uint8_t zero[8]; /* pad and ICRC */
	SuperHead &head = super.head;

	if (record.len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);

	const size_t body = record.len - sizeof(head);

	if (!headers_fit(head) || !head.npkts || head.npkts > SNIC_BURST_PKTS ||
	    head.payload_len > SNIC_BURST_BYTES)
		return false;
	super.segs[0] = {.ptr = head.hdr, .len = head.hdr_len};
	super.nsegs = 1;
	if (head.lease) {
		if (head.npieces > SNIC_BURST_SEGS || body != head.npieces * sizeof(Piece) ||
		    !read_pieces(head, data, super.segs + 1))
			return false;
		super.nsegs += head.npieces;
	} else {
		if (body != head.payload_len)
			return false;
		super.segs[super.nsegs++] = {.ptr = data, .len = head.payload_len};
	}
	super.segs[super.nsegs++] = {.ptr = zero, .len = sizeof(zero)};
	return true;
}

SuperPacket SuperRecord::packet() const noexcept
{
	return {.segs = {segs, nsegs},
		.len = head.hdr_len + head.payload_len + head.pad + SIRDMA_ICRC_LEN,
		.payload_len = head.payload_len,
		.npkts = head.npkts,
		.by_reference = head.lease != 0};
}

bool take_stream(const RecordHead &record, const uint8_t *data, snic_stream &stream) noexcept
{
	StreamHead head;

	if (record.len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	if (!head.count || head.count > SNIC_BURST_PKTS ||
	    record.len != sizeof(head) + head.count * sizeof(snic_stream_write))
		return false;
	stream = {.bth = head.bth,
		  .rkey_len = head.rkey_len,
		  .psn = head.psn & SIRDMA_PSN_MASK,
		  .count = head.count,
		  .ackreq = head.ackreq != 0,
		  .writes = reinterpret_cast<const snic_stream_write *>(data + sizeof(head))};

	const u32 payload = snic_stream_payload(&stream);

	return payload && payload <= SNIC_STREAM_PAYLOAD;
}

bool take_datagram(const RecordHead &record, uint8_t *data, DatagramSink &sink,
		   const IpAddress &to) noexcept
{
	DatagramHead from;

	if (record.len <= sizeof(from))
		return false;
	memcpy(&from, data, sizeof(from));
	sink.datagram({.src = IpAddress(from.src, from.scope),
		       .dst = to,
		       .sport = from.sport,
		       .dport = SIRDMA_ROCE_UDP_PORT,
		       .traffic_class = from.traffic_class,
		       .hop_limit = from.hop_limit},
		      data + sizeof(from), record.len - sizeof(from), from.index,
		      record.flags & record_more);
	return true;
}

} // namespace sirdma::twin
