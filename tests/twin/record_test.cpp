/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Records of a ring: what was put is what is taken, without a connection. */
#include <cstring>
#include <unistd.h>

#include <gtest/gtest.h>

#include "own_address.hpp"
#include "record.hpp"

extern "C" {
#include "model/packet.h"
}

namespace sirdma::twin::test
{

namespace
{

constexpr u32 mtu = 1024, packets = 4,
	      odd = 3; /* bytes of the last packet beyond a multiple of 4 */
constexpr u32 payload_len = (packets - 1) * mtu + 500 + odd;

class TwinRecord : public ::testing::Test, protected DatagramSink {
protected:
	void SetUp() override
	{
		int file = -1;

		pair = RingPair::create(file);
		ASSERT_TRUE(pair);
		close(file);
		out = pair.writer(0);
		in = pair.reader(0);
		for (u32 i = 0; i < payload_len; ++i)
			bytes.push_back(static_cast<uint8_t>(i * 7 + (i >> 8)));
		burst->npkts = packets;
		burst->flow = &flow;
		burst->nsegs = 2;
		burst->segs[0] = {.ptr = bytes.data(), .len = 700};
		burst->segs[1] = {.ptr = &bytes[700], .len = payload_len - 700};
		for (u32 i = 0; i < packets; ++i) {
			const bool last = i + 1 == packets;

			snic_pkt_bth(&burst->pkts[i],
				     !i	  ? SIRDMA_BTH_WRITE_FIRST :
				     last ? SIRDMA_BTH_WRITE_LAST :
					    SIRDMA_BTH_WRITE_MIDDLE,
				     0xffff, 5, i, last ? payload_len - i * mtu : mtu);
			if (!i)
				snic_pkt_reth(&burst->pkts[i], 0x1000, 7, payload_len);
		}
		snic_seg_iter_init(&payload, burst.get());
	}
	void datagram(const Path &path, uint8_t *data, size_t len, u32 index,
		      bool more) noexcept override
	{
		came = path;
		came_index = index;
		came_more = more;
		got.assign(data, data + len);
	}
	uint8_t *next()
	{
		out.publish();
		return in.peek(head);
	}
	/* What the segments of @super from the second on have. */
	std::vector<uint8_t> payload_of(const SuperPacket &super) const
	{
		std::vector<uint8_t> all(super.payload_len);
		snic_seg_iter it{};

		it.seg = super.segs.data() + 1;
		snic_seg_copy(&it, all.data(), super.payload_len);
		return all;
	}

	RingPair pair;
	RingWriter out;
	RingReader in;
	RecordHead head{};
	std::vector<uint8_t> bytes, got;
	std::unique_ptr<snic_burst> burst = std::make_unique<snic_burst>();
	snic_flow flow{};
	snic_seg_iter payload{};
	Path came{};
	u32 came_index = 0;
	bool came_more = false;
};

} // namespace

TEST_F(TwinRecord, PacketsComeOneByOne)
{
	size_t at = 0;

	for (u32 i = 0; i < packets; ++i)
		ASSERT_TRUE(put_packet(out, *burst, i, payload));
	for (u32 i = 0; i < packets; ++i) {
		const snic_tx_pkt &pkt = burst->pkts[i];
		const uint8_t *data = next();

		ASSERT_TRUE(data);
		EXPECT_EQ(head.kind, record_packet);
		EXPECT_EQ(head.flags, i + 1 < packets ? record_more : 0);
		ASSERT_EQ(head.len, pkt.hdr_len + pkt.payload_len + pkt.pad + SIRDMA_ICRC_LEN);
		EXPECT_FALSE(memcmp(data, pkt.hdr, pkt.hdr_len));
		EXPECT_FALSE(memcmp(data + pkt.hdr_len, &bytes[at], pkt.payload_len));
		at += pkt.payload_len;
		in.next();
	}
	EXPECT_EQ(at, payload_len);
	EXPECT_FALSE(next());
}

TEST_F(TwinRecord, APacketHasItsTrafficClass)
{
	flow.traffic_class = 0xa7;
	for (u32 i = 0; i < packets; ++i)
		ASSERT_TRUE(put_packet(out, *burst, i, payload));
	for (u32 i = 0; i < packets; ++i) {
		ASSERT_TRUE(next());
		EXPECT_EQ(head.flags >> record_class_shift, 0xa7);
		EXPECT_EQ(head.flags & record_more, i + 1 < packets ? record_more : 0);
		in.next();
	}
}

TEST_F(TwinRecord, ASuperPacketHasItsPayloadOrNamesIt)
{
	for (const uint64_t lease : {0ull, 9ull}) {
		SuperRecord super;

		snic_seg_iter_init(&payload, burst.get());
		ASSERT_TRUE(put_super(out, *burst, 0, packets, lease, payload));

		uint8_t *data = next();

		ASSERT_TRUE(data);
		EXPECT_EQ(head.kind, record_super);
		EXPECT_EQ(head.flags, 0);
		ASSERT_TRUE(take_super(head, data, super));

		const SuperPacket packet = super.packet();

		EXPECT_EQ(super.head.lease, lease);
		EXPECT_EQ(packet.by_reference, lease != 0);
		EXPECT_EQ(packet.npkts, packets);
		EXPECT_EQ(packet.payload_len, payload_len);
		EXPECT_EQ(packet.len, packet.segs[0].len + payload_len + 1 + SIRDMA_ICRC_LEN);
		EXPECT_EQ(packet.segs.size(), lease ? 4u : 3u);
		EXPECT_EQ(payload_of(packet), bytes);
		if (lease) {
			EXPECT_EQ(packet.segs[1].ptr, bytes.data());
		}
		in.next();
	}
}

/* As connection's tests do it for each field, but also shorter than they say. */
TEST_F(TwinRecord, ASuperPacketIsAsLongAsItSays)
{
	SuperRecord super;

	for (const uint64_t lease : {0ull, 9ull}) {
		snic_seg_iter_init(&payload, burst.get());
		ASSERT_TRUE(put_super(out, *burst, 0, packets, lease, payload));

		uint8_t *data = next();
		const u32 whole = head.len;

		for (head.len = 1; head.len < whole; ++head.len)
			ASSERT_FALSE(take_super(head, data, super)) << head.len;
		EXPECT_TRUE(take_super(head, data, super));
		in.next();
	}
}

TEST_F(TwinRecord, AStreamHasWhatItsPacketsHave)
{
	constexpr u32 count = 20;
	std::vector<std::vector<uint8_t>> all;
	snic_stream sent, came_stream;
	uint8_t packet[SNIC_STREAM_PKT_MAX];

	flow.traffic_class = 0xa7;
	burst->npkts = count + 1;
	for (u32 i = 0; i < count; ++i) {
		snic_tx_pkt &pkt = burst->pkts[i];
		const u64 data = 0x1122334455667788 * (i + 1);

		snic_pkt_bth(&pkt, SIRDMA_BTH_WRITE_ONLY, 0xffff, 5, (0xfffff0 + i) & 0xffffff, 7);
		snic_pkt_reth(&pkt, 0x1000 + i * 24, 77, 7);
		snic_pkt_inline_data(&pkt, data, 7);
		if (i + 1 == count)
			snic_pkt_set_ackreq(&pkt);
		all.emplace_back(pkt.hdr, pkt.hdr + pkt.hdr_len);
		all.back().resize(40);
	}
	ASSERT_EQ(snic_stream_describe(burst.get(), 0, &sent), count);
	ASSERT_TRUE(put_stream(out, *burst, 0, sent));

	const uint8_t *data = next();

	ASSERT_TRUE(data);
	EXPECT_EQ(head.kind, record_stream);
	EXPECT_EQ(head.flags, 0xa7 << record_class_shift | record_more);
	ASSERT_TRUE(take_stream(head, data, came_stream));
	ASSERT_EQ(came_stream.count, count);
	for (u32 i = 0; i < count; ++i, snic_stream_skip(&came_stream, 1)) {
		ASSERT_EQ(snic_stream_first(&came_stream, packet), 40u);
		EXPECT_EQ(std::vector<uint8_t>(packet, packet + 40), all[i]) << i;
	}
}

TEST_F(TwinRecord, AStreamIsAsLongAsItSays)
{
	std::vector<uint8_t> data(sizeof(StreamHead) + (SNIC_BURST_PKTS + 1) * 16);
	StreamHead stream_head{};
	snic_stream stream;
	const auto is_taken = [&](u32 count, u32 writes, u32 payload) {
		const __be32 key_len[] = {cpu_to_be32(7), cpu_to_be32(payload)};

		stream_head.count = static_cast<uint16_t>(count);
		memcpy(&stream_head.rkey_len, key_len, sizeof(key_len));
		memcpy(data.data(), &stream_head, sizeof(stream_head));
		head.len = static_cast<u32>(sizeof(stream_head) + writes * 16);
		return take_stream(head, data.data(), stream);
	};

	for (u32 n : {1u, 2u, u32{SNIC_BURST_PKTS}})
		EXPECT_TRUE(is_taken(n, n, 8)) << n;
	EXPECT_FALSE(is_taken(0, 0, 8));
	EXPECT_FALSE(is_taken(SNIC_BURST_PKTS + 1, SNIC_BURST_PKTS + 1, 8));
	EXPECT_FALSE(is_taken(2, 1, 8));
	EXPECT_FALSE(is_taken(1, 2, 8));
	EXPECT_FALSE(is_taken(1, 1, 0));
	EXPECT_FALSE(is_taken(1, 1, 9));
	EXPECT_FALSE(is_taken(1, 1, ~0u));
	EXPECT_TRUE(is_taken(1, 1, 8));
	for (head.len = 1; head.len < sizeof(stream_head) + 16; ++head.len)
		ASSERT_FALSE(take_stream(head, data.data(), stream)) << head.len;
}

TEST_F(TwinRecord, ADatagramSaysWhereItCameFrom)
{
	const Path path = {.src = own_address(2),
			   .dst = own_address(0),
			   .sport = 777,
			   .dport = SIRDMA_ROCE_UDP_PORT,
			   .traffic_class = 0xa7,
			   .hop_limit = 3};

	ASSERT_TRUE(put_datagram(out, path, bytes.data(), 100, 3, true));

	uint8_t *data = next();

	ASSERT_TRUE(data);
	EXPECT_EQ(head.kind, record_datagram);
	ASSERT_TRUE(take_datagram(head, data, *this, own_address(1)));
	EXPECT_TRUE(came.src == path.src && came.dst == own_address(1));
	EXPECT_EQ(came.sport, 777);
	EXPECT_EQ(came.traffic_class, 0xa7);
	EXPECT_EQ(came.hop_limit, 3);
	EXPECT_EQ(came_index, 3u);
	EXPECT_TRUE(came_more);
	EXPECT_EQ(got, std::vector<uint8_t>(bytes.begin(), bytes.begin() + 100));
	head.len = sizeof(DatagramHead);
	EXPECT_FALSE(take_datagram(head, data, *this, own_address(1)));
}

/* Senders of packets wait for room, and are told of it; datagrams are lost. */
TEST_F(TwinRecord, WithoutRoomNothingIsPut)
{
	const Path path{};

	while (put_datagram(out, path, bytes.data(), 2000, 0, false))
		;
	while (next())
		in.next();
	EXPECT_FALSE(in.release()) << "for whom nobody waits";
	while (put_packet(out, *burst, packets - 1, payload))
		snic_seg_iter_init(&payload, burst.get());
	snic_seg_iter_init(&payload, burst.get());
	EXPECT_FALSE(put_super(out, *burst, 0, packets, 0, payload));
	while (next())
		in.next();
	EXPECT_TRUE(in.release());
	EXPECT_TRUE(put_super(out, *burst, 0, packets, 0, payload));
	ASSERT_TRUE(next());
	EXPECT_EQ(payload.seg, burst->segs + 2) << "all of the payload was put";
}

} // namespace sirdma::twin::test
