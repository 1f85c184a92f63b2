// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// CRC primitives: against the definition, in every split and alignment.
#include "c_api.hpp"

extern "C" {
#include "model/crc32_table.h"
}

namespace
{

u32 crc_bitwise(u32 crc, std::span<const u8> data)
{
	for (u8 byte : data) {
		crc ^= byte;
		for (int i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return crc;
}

u32 crc_from(u32 crc, const void *data, size_t len)
{
	snic_icrc icrc{};

	icrc.sum = crc;
	snic_icrc_update(&icrc, data, static_cast<u32>(len));
	return ~snic_icrc_final(&icrc);
}

std::vector<u8> noise(size_t len, u64 seed)
{
	std::mt19937_64 rng(seed);
	std::vector<u8> data(len);

	std::generate(data.begin(), data.end(), [&] { return static_cast<u8>(rng()); });
	return data;
}

} // namespace

TEST(Icrc, TablesFollowFromThePolynomial)
{
	for (u32 n = 0; n < 256; n++) {
		std::vector<u8> message{static_cast<u8>(n)};
		for (int k = 0; k < 8; k++) {
			EXPECT_EQ(crc32_table[k][n], crc_bitwise(0, message)) << k << ' ' << n;
			message.push_back(0);
		}
		// Byte k of a word whose sum goes on five words later.
		for (int k = 0; k < 8; k++) {
			message.assign(40 - k, 0);
			message[0] = static_cast<u8>(n);
			EXPECT_EQ(crc32_braid[k][n], crc_bitwise(0, message)) << k << ' ' << n;
		}
	}
}

// Each way this CPU has.
class IcrcWays : public ::testing::TestWithParam<port_crc32_way> {
protected:
	void SetUp() override
	{
		if (!port_crc32_use(GetParam()))
			GTEST_SKIP() << "not on this CPU";
	}
	void TearDown() override
	{
		for (auto way : {PORT_CRC32_NONE, PORT_CRC32_PCLMUL, PORT_CRC32_VPCLMUL})
			port_crc32_use(way); // the best is the last that works
	}
};

TEST_P(IcrcWays, GivesTheCheckValueOfCrc32)
{
	// "123456789": the check value of CRC-32/ISO-HDLC.
	EXPECT_EQ(~crc_from(0xffffffff, "123456789", 9), 0xcbf43926u);
}

TEST_P(IcrcWays, UpdateMatchesDefinitionForEveryLengthAndAlignment)
{
	// Blocks of exact size, so that a byte read beyond one is seen.
	for (size_t len = 0; len <= 1100; len++) {
		auto data = noise(len, len);
		u32 want = crc_bitwise(0x12345678, data);
		for (size_t off = 0; off < 16; off++) {
			std::vector<u8> moved(off + len);
			std::copy(data.begin(), data.end(), moved.begin() + off);
			ASSERT_EQ(crc_from(0x12345678, moved.data() + off, len), want)
				<< len << " bytes at " << off;
		}
	}
}

TEST_P(IcrcWays, AnySplitSumsTheSame)
{
	for (size_t len : {64, 129, 300, 577, 1024, 1100}) {
		auto data = noise(len, len);
		u32 want = crc_bitwise(0xffffffff, data);
		for (size_t cut = 0; cut <= len; cut++) {
			snic_icrc icrc{};
			icrc.sum = 0xffffffff;
			snic_icrc_update(&icrc, data.data(), cut);
			snic_icrc_update(&icrc, data.data() + cut, len - cut);
			ASSERT_EQ(~snic_icrc_final(&icrc), want) << len << " bytes cut at " << cut;
		}
	}
}

TEST_P(IcrcWays, CopySumsWhatItCopies)
{
	std::mt19937 rng(7);

	for (int round = 0; round < 2000; round++) {
		auto src = noise(rng() % 5000, round);
		std::vector<u8> dst(src.size() + 16, 0xee);
		size_t off = rng() % 16;
		snic_icrc icrc{};
		icrc.sum = 0xffffffff;
		// Many short runs and some long ones.
		for (size_t at = 0, n; at < src.size(); at += n) {
			n = std::min<size_t>(rng() % 4 ? rng() % 70 : rng() % 4200,
					     src.size() - at);
			snic_icrc_copy(&icrc, dst.data() + off + at, src.data() + at, n);
		}
		ASSERT_EQ(~snic_icrc_final(&icrc), crc_bitwise(0xffffffff, src));
		ASSERT_TRUE(std::equal(src.begin(), src.end(), dst.begin() + off));
		for (size_t i = 0; i < dst.size(); i++)
			if (i < off || i >= off + src.size()) {
				ASSERT_EQ(dst[i], 0xee);
			}
	}
}

static std::string way_name(const ::testing::TestParamInfo<port_crc32_way> &info)
{
	static const char *const names[] = {"Scalar", "Pclmul", "Vpclmul"};

	return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(Cpu, IcrcWays,
			 ::testing::Values(PORT_CRC32_NONE, PORT_CRC32_PCLMUL, PORT_CRC32_VPCLMUL),
			 way_name);
