/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ICRC of datagrams whose IP header only the kernel sees, against the model's own frames. */
#include <vector>

#include <gtest/gtest.h>

#include "icrc.hpp"

namespace sirdma::twin::test
{

namespace
{

IpAddress addr(const char *text)
{
	IpAddress a;

	EXPECT_TRUE(IpAddress::parse(text, a));
	return a;
}

const Path path = {
	.src = addr("127.64.0.1"), .dst = addr("127.64.0.2"), .sport = 4791, .dport = 4791};
const Path path6 = {
	.src = addr("2001:db8::1"), .dst = addr("2001:db8::2"), .sport = 50000, .dport = 4791};

/* BTH, payload and the ICRC over everything with identification @id. */
std::vector<uint8_t> datagram(size_t payload, uint16_t id, const Path &on = path)
{
	std::vector<uint8_t> d(sizeof(sirdma_bth) + payload + SIRDMA_ICRC_LEN);
	const size_t end = d.size() - SIRDMA_ICRC_LEN;

	for (size_t i = 0; i < end; ++i)
		d[i] = static_cast<uint8_t>(i * 37 + 11);

	uint32_t crc = icrc_begin(on, id, d.size(), d.data());

	crc = snic_icrc_final(
		snic_icrc_update(crc, d.data() + sizeof(sirdma_bth), static_cast<u32>(payload)));
	memcpy(d.data() + end, &crc, sizeof(crc));
	return d;
}

void agree_with_the_model(const Path &path)
{
	std::vector<uint8_t> payload(1000, 0x5a);
	snic_seg seg = {.ptr = payload.data(), .len = 1000};
	snic_seg_iter it = {.seg = &seg, .off = 0};
	snic_flow flow{};
	snic_tx_pkt pkt{};
	uint8_t frame[2048];

	flow.is_v4 = path.src.is_v4();
	flow.hop_limit = 3;
	flow.udp_sport = path.sport;
	flow.src_ip = path.src.ip();
	flow.dst_ip = path.dst.ip();
	pkt.hdr_len = sizeof(sirdma_bth);
	pkt.payload_len = 1000;
	for (u32 i = 0; i < pkt.hdr_len; ++i)
		pkt.hdr[i] = static_cast<u8>(i);

	const u32 len = snic_frame_ip(&flow, &pkt, &it, frame);
	uint16_t id = 0;

	EXPECT_TRUE(icrc_holds(path, frame + path.headers_len(), len - path.headers_len(), id));
	EXPECT_EQ(id, 0);
}

} // namespace

TEST(TwinIcrc, AgreesWithTheFramesOfTheModel)
{
	agree_with_the_model(path);
	agree_with_the_model(path6);
}

TEST(TwinIcrc, FindsTheIdentification)
{
	for (const size_t payload : {0, 4, 1024, 4096}) {
		for (uint32_t i = 0; i<65536; i += payload> 1000 ? 999 : 251) {
			const uint16_t id = static_cast<uint16_t>(i);
			const auto d = datagram(payload, id);
			uint16_t found = 17;

			ASSERT_TRUE(icrc_holds(path, d.data(), d.size(), found));
			EXPECT_EQ(found, id);
		}
	}
}

TEST(TwinIcrc, BelievesSmallIdentificationsAndSequences)
{
	const IpAddress a = addr("10.0.0.1"), b = addr("10.0.0.2");
	IdFilter filter;

	EXPECT_TRUE(filter.credible(a, 0));
	EXPECT_TRUE(filter.credible(a, max_segments - 1));
	EXPECT_FALSE(filter.credible(a, 40000));
	EXPECT_TRUE(filter.credible(a, 40001));
	EXPECT_TRUE(filter.credible(a, 40100));
	EXPECT_FALSE(filter.credible(a, 39000));
	EXPECT_FALSE(filter.credible(b, 39001));
	EXPECT_TRUE(filter.credible(a, 39003));
}

TEST(TwinIcrc, RefusesCorruption)
{
	IdFilter filter;
	uint16_t id;
	auto d = datagram(256, 0);

	for (size_t bit = 0; bit < d.size() * 8; bit += 13) {
		if (bit / 8 == 4) /* reserved byte of the BTH: not covered */
			continue;
		d = datagram(256, 3);
		d[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		id = 3;
		EXPECT_FALSE(icrc_holds(path, d.data(), d.size(), id) &&
			     filter.credible(path.src, id))
			<< "bit " << bit;
		d = datagram(256, 0, path6);
		d[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		EXPECT_FALSE(icrc_holds(path6, d.data(), d.size(), id)) << "bit " << bit;
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
