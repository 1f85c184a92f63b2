// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The instruments themselves: they must be able to find fault.
#include <gtest/gtest-spi.h>

#include "fabric.hpp"

using namespace sirdma::test;

namespace
{

// A packet from host 0 to QP 5 of host 1, as the fabric would carry it.
Packet make_packet(u16 payload)
{
	snic_flow flow{};
	snic_tx_pkt pkt{};
	snic_seg_iter it{};
	std::vector<u8> data(payload, 0x5a);
	snic_seg seg{data.data(), payload};
	Packet out;

	flow.src_ip = ip4(10, 0, 0, 1);
	flow.dst_ip = ip4(10, 0, 0, 2);
	flow.is_v4 = true;
	memcpy(flow.dst_mac, "\x02SI\0\0\2", 6);
	pkt.hdr[0] = SIRDMA_BTH_SEND_ONLY;
	pkt.hdr[7] = 5;
	pkt.hdr_len = sizeof(sirdma_bth);
	pkt.payload_len = payload;
	it.seg = &seg;
	out.bytes.resize(SNIC_ETH_HLEN + snic_ip_len(&flow, &pkt));
	u32 eth = snic_frame_eth(&flow, true, out.bytes.data());
	snic_frame_ip(&flow, &pkt, &it, out.bytes.data() + eth);
	EXPECT_TRUE(parse_frame(out));
	return out;
}

class HarnessTest : public ::testing::Test {
protected:
	HarnessTest() : fabric_(4)
	{
		for (u8 i = 0; i < 2; i++)
			fabric_.add_host().add_ip(ip4(10, 0, 0, 1 + i));
	}

	// Statistics of host 1 after everything in flight arrived.
	u64 after(sirdma_stat id)
	{
		fabric_.run_for(1000000);
		return fabric_.host(1).stat(id);
	}

	Fabric fabric_;
};

} // namespace

TEST(DmaSpace, AccessOutsideAMappingIsAFailure)
{
	static DmaSpace dma(1);
	static u64 addr;
	std::vector<u8> mem(8192);
	static auto get = [](u64 at, u32 len) { return port_dma_ptr(dma.port(), at, len); };

	addr = dma.map(mem.data(), mem.size());
	EXPECT_EQ(get(addr, 8192), mem.data());
	EXPECT_EQ(get(addr + 8191, 1), mem.data() + 8191);
	EXPECT_NONFATAL_FAILURE(get(addr + 8191, 2), "outside mapped memory");
	EXPECT_NONFATAL_FAILURE(get(addr - 1, 1), "outside mapped memory");
	EXPECT_NONFATAL_FAILURE(get(~0ull, 4), "outside mapped memory");
	{
		DmaSpace::ExpectFaults faults(dma);
		EXPECT_EQ(get(addr, 8193), nullptr);
	}
	EXPECT_EQ(dma.violations(), 4u);
	dma.unmap(addr);
	EXPECT_NONFATAL_FAILURE(get(addr, 1), "outside mapped memory");
	EXPECT_NONFATAL_FAILURE(dma.unmap(addr), "no mapping starts");
}

TEST(DmaSpace, AddressesAreUnrelatedToThoseOfTheProcess)
{
	DmaSpace dma(2);
	UserMemory mem(dma, 64 << 12);
	int adjacent = 0;

	for (size_t i = 0; i < 64; i++) {
		EXPECT_NE(mem.blocks()[i], mem.va() + (i << 12));
		adjacent += i && mem.blocks()[i] == mem.blocks()[i - 1] + 4096;
	}
	EXPECT_EQ(adjacent, 0);
}

TEST_F(HarnessTest, IntactPacketArrives)
{
	fabric_.inject(make_packet(100).bytes);
	EXPECT_EQ(after(SIRDMA_STAT_RX_NO_QP), 1u) << "no such QP, but it got that far";
	EXPECT_EQ(after(SIRDMA_STAT_RX_BAD_ICRC), 0u);
}

TEST_F(HarnessTest, EveryFlippedBitOfTheTransportIsNoticed)
{
	Packet good = make_packet(20);
	u64 injected = 0;

	for (size_t byte = good.bth; byte < good.bytes.size(); byte++) {
		if (byte == good.bth + 4)
			continue; // reserved, not covered
		auto bad = good.bytes;
		bad[byte] ^= static_cast<u8>(1 << byte % 8);
		fabric_.inject(bad);
		injected++;
	}
	EXPECT_EQ(after(SIRDMA_STAT_RX_BAD_ICRC), injected);
	EXPECT_EQ(after(SIRDMA_STAT_RX_NO_QP), 0u);
}

TEST_F(HarnessTest, FramesForAnotherMacOrWithABrokenIpHeaderGoNowhere)
{
	auto bytes = make_packet(20).bytes;

	bytes[3] ^= 1;
	fabric_.inject(bytes);
	bytes[3] ^= 1;
	bytes[20] ^= 0x20; // fragment offset: the header checksum no longer fits
	fabric_.inject(bytes);
	bytes.resize(30);
	fabric_.inject(bytes);
	fabric_.inject({});
	EXPECT_EQ(after(SIRDMA_STAT_RX_NO_QP), 0u);
	EXPECT_EQ(after(SIRDMA_STAT_RX_BAD_ICRC), 0u);
}

TEST_F(HarnessTest, VirtualTimeStandsStillWithoutWork)
{
	u64 now = fabric_.clock()->now();

	EXPECT_FALSE(fabric_.run_until([] { return false; }, 1000000000));
	EXPECT_EQ(fabric_.clock()->now(), now);
	fabric_.inject(make_packet(4).bytes, 5000);
	EXPECT_TRUE(fabric_.run_until([&] { return fabric_.host(1).stat(SIRDMA_STAT_RX_NO_QP); },
				      1000000000));
	EXPECT_EQ(fabric_.clock()->now(), now + 5000);
}
