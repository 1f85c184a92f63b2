// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Super-packets: packets of a message put together, and taken apart again as they were.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr u32 mtu = 256;
constexpr u32 first_psn = 0xfffffe; // they wrap

struct Kind {
	const char *name;
	u8 first, middle, last, only;
};

const Kind kinds[] = {
	{"Send", SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_SEND_LAST,
	 SIRDMA_BTH_SEND_ONLY},
	{"SendImm", SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_SEND_LAST_IMM,
	 SIRDMA_BTH_SEND_ONLY_IMM},
	{"SendInv", SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_SEND_LAST_INV,
	 SIRDMA_BTH_SEND_ONLY_INV},
	{"Write", SIRDMA_BTH_WRITE_FIRST, SIRDMA_BTH_WRITE_MIDDLE, SIRDMA_BTH_WRITE_LAST,
	 SIRDMA_BTH_WRITE_ONLY},
	{"WriteImm", SIRDMA_BTH_WRITE_FIRST, SIRDMA_BTH_WRITE_MIDDLE, SIRDMA_BTH_WRITE_LAST_IMM,
	 SIRDMA_BTH_WRITE_ONLY_IMM},
	{"ReadResponse", SIRDMA_BTH_READ_RESP_FIRST, SIRDMA_BTH_READ_RESP_MIDDLE,
	 SIRDMA_BTH_READ_RESP_LAST, SIRDMA_BTH_READ_RESP_ONLY},
	{"XrcSend", SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_MIDDLE,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_LAST, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY},
	{"XrcSendInv", SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_FIRST,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_LAST_INV,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY_INV},
	{"XrcWriteImm", SIRDMA_BTH_XRC | SIRDMA_BTH_WRITE_FIRST,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_WRITE_MIDDLE, SIRDMA_BTH_XRC | SIRDMA_BTH_WRITE_LAST_IMM,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_WRITE_ONLY_IMM},
	{"XrcReadResponse", SIRDMA_BTH_XRC | SIRDMA_BTH_READ_RESP_FIRST,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_READ_RESP_MIDDLE, SIRDMA_BTH_XRC | SIRDMA_BTH_READ_RESP_LAST,
	 SIRDMA_BTH_XRC | SIRDMA_BTH_READ_RESP_ONLY},
};

class Supers : public ::testing::TestWithParam<Kind> {
protected:
	// A message of @npkts packets whose last one has @tail bytes.
	void make(u32 npkts, u32 tail)
	{
		const Kind &k = GetParam();

		burst = {};
		for (u32 i = 0; i < npkts; i++) {
			snic_tx_pkt &pkt = burst.pkts[burst.npkts++];
			const bool last = i + 1 == npkts;
			const u8 opcode = npkts == 1 ? k.only :
					  !i	     ? k.first :
					  last	     ? k.last :
						       k.middle;
			const u16 flags = snic_op(opcode)->flags;

			snic_pkt_bth(&pkt, opcode, 0xffff, 5, snic_psn_add(first_psn, i),
				     last ? tail : mtu);
			if (snic_opcode_hdr_len(opcode) > snic_op(opcode)->hdr_len)
				snic_pkt_xrceth(&pkt, 0xabcde);
			if (flags & SNIC_PKT_RETH)
				snic_pkt_reth(&pkt, 0x123456789, 42, (npkts - 1) * mtu + tail);
			if (flags & SNIC_PKT_IMM)
				snic_pkt_imm(&pkt, 0xabcdef);
			if (flags & SNIC_PKT_INV)
				snic_pkt_ieth(&pkt, 0xfedcba);
			if (flags & SNIC_PKT_AETH)
				snic_pkt_aeth(&pkt, 31, 7);
			if (i % 3 == 1)
				snic_pkt_set_ackreq(&pkt);
			if (last)
				pkt.bth.flags |= SIRDMA_BTH_SE;
		}
	}
	snic_pkt parse(const u8 *hdr, u32 hdr_len, u32 payload, u32 npkts)
	{
		std::vector<u8> bytes(hdr, hdr + hdr_len);
		bytes.resize(hdr_len + ((payload + 3) & ~3u) + SIRDMA_ICRC_LEN);
		snic_seg seg{bytes.data(), static_cast<u32>(bytes.size())};
		snic_rx_pkt rx{};
		snic_pkt pkt{};
		sirdma_stat why{};

		rx.segs = &seg;
		rx.nsegs = 1;
		rx.len = seg.len;
		rx.icrc_ok = true;
		rx.npkts = npkts;
		EXPECT_TRUE(snic_pkt_parse(&rx, &pkt, &why)) << why;
		return pkt;
	}
	// Packets @from .. @from + @n together, and apart again.
	void check(u32 from, u32 n)
	{
		snic_super super;
		u32 bytes = 0;
		bool ackreq = false;

		snic_super_build(&burst, from, n, &super);
		for (u32 i = 0; i < n; i++)
			bytes += burst.pkts[from + i].payload_len;
		ASSERT_EQ(super.payload_len, bytes);
		ASSERT_EQ(super.npkts, n);
		const snic_pkt whole = parse(super.hdr, super.hdr_len, bytes, n);
		ASSERT_EQ(whole.payload_len, bytes);
		ASSERT_EQ(whole.npkts, n);
		for (u32 i = 0; i < n; i++) {
			const snic_tx_pkt &tx = burst.pkts[from + i];
			const snic_pkt was = parse(tx.hdr, tx.hdr_len, tx.payload_len, 1);
			snic_pkt part;

			SCOPED_TRACE(i);
			snic_super_part(&whole, mtu, i, &part);
			EXPECT_EQ(part.psn, was.psn);
			EXPECT_EQ(part.srqn, was.srqn);
			EXPECT_EQ(part.npkts, 1u);
			EXPECT_EQ(part.payload_len, was.payload_len);
			EXPECT_EQ(part.payload_off, whole.payload_off + i * mtu);
			EXPECT_EQ(part.solicited, was.solicited);
			constexpr u16 kept = SNIC_PKT_ONLY | SNIC_PKT_IMM | SNIC_PKT_INV |
					     SNIC_PKT_SEND | SNIC_PKT_WRITE | SNIC_PKT_READ |
					     SNIC_PKT_RESP;
			EXPECT_EQ(part.flags & kept, was.flags & kept);
			if (was.flags & SNIC_PKT_INV) {
				EXPECT_EQ(part.rkey, was.rkey);
			}
			if (was.flags & SNIC_PKT_RETH) {
				EXPECT_EQ(part.va, was.va);
				EXPECT_EQ(part.rkey, was.rkey);
				EXPECT_EQ(part.dma_len, was.dma_len);
			}
			if (was.flags & SNIC_PKT_IMM) {
				EXPECT_EQ(part.imm, was.imm);
			}
			if (was.flags & SNIC_PKT_AETH) {
				EXPECT_EQ(part.aeth, was.aeth);
			}
			ackreq = ackreq || was.ackreq;
			// An acknowledgement of the last is one of all.
			EXPECT_EQ(part.ackreq, i + 1 == n && whole.ackreq);
		}
		EXPECT_EQ(whole.ackreq, ackreq);
	}

	snic_burst burst{};
};

TEST_P(Supers, EveryPartOfAMessageComesApartAsItWas)
{
	for (u32 npkts = 1; npkts <= 6; npkts++) {
		for (u32 tail : {1u, 6u, mtu}) {
			make(npkts, tail);
			for (u32 from = 0; from < npkts; from++) {
				for (u32 n = 1; from + n <= npkts; n++) {
					SCOPED_TRACE(std::to_string(n) + " from " +
						     std::to_string(from) + " of " +
						     std::to_string(npkts) + ", tail " +
						     std::to_string(tail));
					check(from, n);
				}
			}
		}
	}
}

TEST_P(Supers, NoneReachesBeyondItsMessageOrItsRoom)
{
	make(6, 100);
	EXPECT_EQ(snic_super_count(&burst, 0, 1 << 20), 6u);
	EXPECT_EQ(snic_super_count(&burst, 0, 3 * mtu), 3u);
	EXPECT_EQ(snic_super_count(&burst, 4, 1 << 20), 2u);
	EXPECT_EQ(snic_super_count(&burst, 5, 1 << 20), 1u);
	// The next message, in the same burst.
	burst.pkts[burst.npkts++] = burst.pkts[0];
	EXPECT_EQ(snic_super_count(&burst, 0, 1 << 20), 6u);
	make(1, 100);
	burst.pkts[burst.npkts++] = burst.pkts[0];
	EXPECT_EQ(snic_super_count(&burst, 0, 1 << 20), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, Supers, ::testing::ValuesIn(kinds),
			 [](const auto &info) { return std::string(info.param.name); });

} // namespace
