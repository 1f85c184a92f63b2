/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ICRC of datagrams whose IP header only the kernel sees, against the model's own frames. */
#include <arpa/inet.h>
#include <vector>

#include <gtest/gtest.h>

#include "icrc.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr Path path = {.src = {0x0100407f}, .dst = {0x0200407f}, .sport = 4791, .dport = 4791};

/* BTH, payload and the ICRC over everything with identification @id. */
std::vector<uint8_t> datagram(size_t payload, uint16_t id)
{
	std::vector<uint8_t> d(sizeof(sirdma_bth) + payload + SIRDMA_ICRC_LEN);
	const size_t end = d.size() - SIRDMA_ICRC_LEN;

	for (size_t i = 0; i < end; ++i)
		d[i] = static_cast<uint8_t>(i * 37 + 11);

	uint32_t crc = icrc_begin(path, id, d.size(), d.data());

	crc = snic_icrc_final(
		snic_icrc_update(crc, d.data() + sizeof(sirdma_bth), static_cast<u32>(payload)));
	memcpy(d.data() + end, &crc, sizeof(crc));
	return d;
}

} // namespace

TEST(TwinIcrc, AgreesWithTheFramesOfTheModel)
{
	std::vector<uint8_t> payload(1000, 0x5a);
	snic_seg seg = {.ptr = payload.data(), .len = 1000};
	snic_seg_iter it = {.seg = &seg, .off = 0};
	snic_flow flow{};
	snic_tx_pkt pkt{};
	uint8_t frame[2048];

	flow.is_v4 = true;
	flow.hop_limit = 3;
	flow.udp_sport = path.sport;
	memcpy(flow.src_ip.b + 12, &path.src, 4);
	memcpy(flow.dst_ip.b + 12, &path.dst, 4);
	pkt.hdr_len = sizeof(sirdma_bth);
	pkt.payload_len = 1000;
	for (u32 i = 0; i < pkt.hdr_len; ++i)
		pkt.hdr[i] = static_cast<u8>(i);

	const u32 len = snic_frame_ip(&flow, &pkt, &it, frame);
	uint16_t id = 0;

	EXPECT_TRUE(icrc_holds(path, frame + headers_len, len - headers_len, id));
	EXPECT_EQ(id, 0);
}

TEST(TwinIcrc, FindsTheIdentificationOfAnySegment)
{
	for (const size_t payload : {0, 4, 1024, 4096}) {
		for (uint16_t id = 0; id < max_segments; ++id) {
			const auto d = datagram(payload, id);
			uint16_t found = 17;

			ASSERT_TRUE(icrc_holds(path, d.data(), d.size(), found));
			EXPECT_EQ(found, id);
		}
	}
}

TEST(TwinIcrc, RefusesOtherIdentificationsAndCorruption)
{
	uint16_t id = 0;
	auto d = datagram(256, max_segments);

	EXPECT_FALSE(icrc_holds(path, d.data(), d.size(), id));
	for (size_t bit = 0; bit < d.size() * 8; bit += 13) {
		if (bit / 8 == 4) /* reserved byte of the BTH: not covered */
			continue;
		d = datagram(256, 3);
		d[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		id = 3;
		EXPECT_FALSE(icrc_holds(path, d.data(), d.size(), id)) << "bit " << bit;
	}
}

TEST(TwinIcrc, RefusesWhatIsTooShort)
{
	const uint8_t few[sizeof(sirdma_bth) + SIRDMA_ICRC_LEN - 1] = {};
	uint16_t id = 0;

	for (size_t len = 0; len <= sizeof(few); ++len)
		EXPECT_FALSE(icrc_holds(path, few, len, id));
}

} // namespace sirdma::twin::test
