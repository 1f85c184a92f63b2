// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Streams of a burst: which packets they take, and that these can be told from them again.
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "model/packet.h"
#include "model/stream.h"
}

namespace
{

constexpr u8 write_only = SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY;

class Streams : public ::testing::Test {
protected:
	// Append a WRITE of @len bytes.
	snic_tx_pkt &add(u32 len = 8, u32 key = 77, u8 opcode = write_only, bool is_inline = true)
	{
		const u32 n = burst->npkts++;
		snic_tx_pkt &pkt = burst->pkts[n];
		const u64 data = 0x0102030405060708 * (n + 1);

		snic_pkt_bth(&pkt, opcode, 0xffff, 5, (psn + n) & SIRDMA_PSN_MASK, len);
		snic_pkt_reth(&pkt, 0x1000 + n * 24, key, len);
		if (is_inline)
			snic_pkt_inline_data(&pkt, data, len);
		return pkt;
	}
	// As a link sends it, with an ICRC of 0.
	static std::vector<u8> bytes_of(const snic_tx_pkt &pkt)
	{
		std::vector<u8> all(pkt.hdr, pkt.hdr + pkt.hdr_len);

		all.resize(all.size() + pkt.pad + SIRDMA_ICRC_LEN);
		return all;
	}
	u32 count(u32 at = 0) { return snic_stream_describe(burst.get(), at, &stream); }
	void expect_stream(u32 at, u32 n)
	{
		std::vector<snic_stream_write> writes(n);
		u8 bytes[SNIC_STREAM_PKT_MAX];

		ASSERT_EQ(count(at), n);
		ASSERT_EQ(stream.count, n);
		for (u32 i = 0; i < n; i++)
			writes[i] = snic_stream_write_of(&burst->pkts[at + i]);
		stream.writes = writes.data();
		bool asked = false;
		for (u32 i = 0; i < n; i++, snic_stream_skip(&stream, 1)) {
			const u32 len = snic_stream_first(&stream, bytes);
			snic_tx_pkt pkt = burst->pkts[at + i];

			// The last one asks for all.
			asked |= pkt.bth.apsn & cpu_to_be32(SIRDMA_BTH_ACKREQ);
			pkt.bth.apsn &= ~cpu_to_be32(SIRDMA_BTH_ACKREQ);
			if (i + 1 == n && asked)
				snic_pkt_set_ackreq(&pkt);
			EXPECT_EQ(std::vector<u8>(bytes, bytes + len), bytes_of(pkt)) << i;
		}
	}

	std::unique_ptr<snic_burst> burst = std::make_unique<snic_burst>();
	snic_stream stream{};
	u32 psn = 0xfffffe;
};

TEST_F(Streams, KeepEveryBitOfTheirPackets)
{
	for (u32 len = 1; len <= SNIC_STREAM_PAYLOAD; len++) {
		burst->npkts = 0;
		for (u32 i = 0; i < SNIC_BURST_PKTS; i++)
			add(len);
		expect_stream(0, SNIC_BURST_PKTS);
		expect_stream(60, 4);
		EXPECT_FALSE(stream.ackreq);
		snic_pkt_set_ackreq(&burst->pkts[63]);
		expect_stream(0, SNIC_BURST_PKTS);
		EXPECT_TRUE(stream.ackreq);
	}
}

TEST_F(Streams, EndBeforeAnotherPacket)
{
	const auto ends = [&](auto other) {
		burst->npkts = 0;
		add();
		add();
		other();
		add();
		EXPECT_EQ(count(), 2u);
	};

	ends([&] { add(8, 78); });
	ends([&] { add(7); });
	ends([&] { add().bth.pkey = 3; });
	ends([&] { add().bth.qpn ^= 1; });
	ends([&] { add().bth.flags ^= SIRDMA_BTH_SE; });
	ends([&] { add(8, 77, SIRDMA_BTH_RC | SIRDMA_BTH_SEND_ONLY); });
	// Its payload is in the scatter list.
	ends([&] { add(8, 77, write_only, false); });
}

TEST_F(Streams, AskOnceForAll)
{
	for (u32 i = 0; i < 5; i++)
		add();
	snic_pkt_set_ackreq(&burst->pkts[2]);
	expect_stream(0, 5);
	ASSERT_EQ(count(0), 5u);
	EXPECT_TRUE(stream.ackreq);
	expect_stream(3, 2);
	ASSERT_EQ(count(3), 2u);
	EXPECT_FALSE(stream.ackreq);
}

TEST_F(Streams, MissNoPsn)
{
	for (u32 i = 0; i < 5; i++)
		add();
	burst->pkts[4].bth.apsn = cpu_to_be32(5);
	EXPECT_EQ(count(), 1u);
	EXPECT_EQ(count(3), 1u);
}

TEST_F(Streams, HaveNoOtherPackets)
{
	add(8, 77, write_only, false);
	add(8, 77, write_only, false);
	EXPECT_EQ(count(), 1u);
	burst->npkts = 0;
	add(8, 77, SIRDMA_BTH_UC | SIRDMA_BTH_WRITE_ONLY);
	add(8, 77, SIRDMA_BTH_UC | SIRDMA_BTH_WRITE_ONLY);
	EXPECT_EQ(count(), 1u);
	burst->npkts = 0;
	add();
	EXPECT_EQ(count(), 1u);
	// A WRITE without payload has nothing behind its headers.
	burst->npkts = 0;
	add(0);
	add(0);
	EXPECT_EQ(count(), 1u);
}

} // namespace
