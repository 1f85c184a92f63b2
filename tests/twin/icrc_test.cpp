/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ICRC of datagrams whose IP header only the kernel sees, against the model's own frames. */
#include <algorithm>
#include <random>
#include <string>
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

	const uint32_t icrc = icrc_of(on, id, d.data(), d.size());

	memcpy(d.data() + end, &icrc, sizeof(icrc));
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

TEST(TwinIcrc, BelievesSmallIdentificationsOfAnyone)
{
	IdFilter filter;

	for (uint16_t id = 0; id < max_segments; ++id)
		EXPECT_TRUE(filter.credible(addr("10.0.0.1"), id, 0));
}

TEST(TwinIcrc, BelievesTheFirstOfASenderAndThenItsSequence)
{
	const IpAddress a = addr("10.0.0.1");
	IdFilter filter;

	EXPECT_TRUE(filter.credible(a, 40000, 0));
	EXPECT_TRUE(filter.credible(a, 40001, 0));
	EXPECT_TRUE(filter.credible(a, 40100, 0));
	EXPECT_FALSE(filter.credible(a, 39000, 0)) << "no second first one";
	EXPECT_TRUE(filter.credible(a, 40101, 0)) << "what was refused changes nothing";
	EXPECT_FALSE(filter.credible(a, 20000, 0));
	EXPECT_TRUE(filter.credible(a, 20001, 0)) << "it jumped and goes on from there";
	EXPECT_TRUE(filter.credible(a, 20000 - 300, 0)) << "one that was overtaken";
	EXPECT_TRUE(filter.credible(a, 20001 + IdFilter::step_max, 0)) << "an overtaken one does "
									  "not lead back";
}

TEST(TwinIcrc, BelievesSequencesAcrossTheWrap)
{
	const IpAddress a = addr("10.0.0.1");
	IdFilter filter;

	EXPECT_TRUE(filter.credible(a, 65500, 0));
	EXPECT_TRUE(filter.credible(a, 200, 0));
	EXPECT_FALSE(filter.credible(a, 64800, 0));
}

/* Linux skips at most one in each tick of a sequence's silence. */
TEST(TwinIcrc, BelievesMoreAfterSilence)
{
	const IpAddress a = addr("10.0.0.1");
	const uint16_t far = 30000 + IdFilter::step_max + 1000;
	IdFilter filter, late;

	EXPECT_TRUE(filter.credible(a, 30000, 0));
	EXPECT_FALSE(filter.credible(a, far, 999 * IdFilter::tick_ns));
	EXPECT_TRUE(late.credible(a, 30000, 0));
	EXPECT_TRUE(late.credible(a, far, 1000 * IdFilter::tick_ns));
}

TEST(TwinIcrc, BelievesSendersThatShareAPlace)
{
	IdFilter filter;
	unsigned believed = 0, senders = 0;

	/* More senders than places: at most one first packet for each place. */
	for (unsigned i = 1; i < 250; ++i, ++senders)
		believed += filter.credible(addr(("10.1.0." + std::to_string(i)).c_str()),
					    static_cast<uint16_t>(20000 + i), 0);
	EXPECT_LE(believed, IdFilter::places);
	EXPECT_GT(believed, IdFilter::places / 2);

	/* Two of one place, in turns: both are believed once they have shown themselves. */
	IdFilter two;
	const IpAddress a = addr("10.0.0.1");
	IpAddress b;

	EXPECT_TRUE(two.credible(a, 1000, 0));
	for (unsigned i = 2; i < 250; ++i) {
		b = addr(("10.0.0." + std::to_string(i)).c_str());
		if (!two.credible(b, 2000, 0))
			break;
	}
	for (uint16_t i = 1; i < 20; ++i) {
		EXPECT_TRUE(two.credible(b, 2000 + i, 0));
		EXPECT_TRUE(two.credible(a, 1000 + i, 0));
	}
}

/* Of the 2^32 values an ICRC can have, so many pass: 1089, or the one that is right over IPv6. */
TEST(TwinIcrc, LetsAsManyIcrcsPassAsItSays)
{
	const uint16_t last = 30000;
	IdFilter talking;
	unsigned passed = 0;

	ASSERT_TRUE(talking.credible(path.src, last, 0));
	for (uint32_t i = 0; i < 65536; ++i) {
		const auto d = datagram(16, static_cast<uint16_t>(i));
		IdFilter filter = talking;
		uint16_t id = 0;

		ASSERT_TRUE(icrc_holds(path, d.data(), d.size(), id));
		ASSERT_EQ(id, i) << "one identification for each";
		passed += filter.credible(path.src, id, 0);
	}
	EXPECT_EQ(passed, 1089u);
	EXPECT_EQ(passed, max_segments + IdFilter::step_back + IdFilter::step_max + 1);
}

TEST(TwinIcrc, RefusesCorruption)
{
	uint16_t id;
	auto d = datagram(256, 0);

	for (size_t bit = 0; bit < d.size() * 8; bit += 13) {
		if (bit / 8 == 4) /* reserved byte of the BTH: not covered */
			continue;
		/* Of a sender that is known, and of a new one. */
		for (const uint16_t sent : {uint16_t{3}, uint16_t{30000}}) {
			IdFilter filter;

			d = datagram(256, sent);
			d[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
			id = sent;
			EXPECT_FALSE(icrc_holds(path, d.data(), d.size(), id) &&
				     filter.credible(path.src, id, 0))
				<< "bit " << bit;
		}
		d = datagram(256, 0, path6);
		d[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		EXPECT_FALSE(icrc_holds(path6, d.data(), d.size(), id)) << "bit " << bit;
	}
}

/* Damage of any kind: one in 65536 finds an identification at all, and that is hardly ever a credible one. */
TEST(TwinIcrc, RefusesRandomDamage)
{
	constexpr unsigned packets = 1 << 18;
	std::mt19937 random(1);
	IdFilter filter;
	unsigned found = 0, passed = 0;
	uint16_t next = 30000;

	for (unsigned i = 0; i < packets; ++i) {
		auto d = datagram(32, next);
		uint16_t id = next;

		ASSERT_TRUE(icrc_holds(path, d.data(), d.size(), id) &&
			    filter.credible(path.src, id, i));
		next = static_cast<uint16_t>(std::max<unsigned>(max_segments, next + 1u));
		for (unsigned n = 1 + random() % 8; n; --n) {
			size_t at;

			do
				at = random() % d.size();
			while (at == 4);
			d[at] ^= static_cast<uint8_t>(1 + random() % 255);
		}
		if (d == datagram(32, static_cast<uint16_t>(next - 1)))
			continue;
		if (icrc_holds(path, d.data(), d.size(), id)) {
			++found;
			passed += filter.credible(path.src, id, i);
		}
	}
	EXPECT_LE(found, 30u) << "expected: 4";
	EXPECT_EQ(passed, 0u) << "expected: 0.07";
}

TEST(TwinIcrc, RefusesWhatIsTooShort)
{
	const uint8_t few[sizeof(sirdma_bth) + SIRDMA_ICRC_LEN - 1] = {};
	uint16_t id = 0;

	for (size_t len = 0; len <= sizeof(few); ++len)
		EXPECT_FALSE(icrc_holds(path, few, len, id));
}

} // namespace sirdma::twin::test
