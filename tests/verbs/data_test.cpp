// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Every byte arrives, and no other byte changes: all operations, sizes, offsets and path MTUs.
#include "fixture.hpp"

#include <string>
#include <tuple>

namespace verbs
{
namespace
{

constexpr size_t margin = 4200; // room for offsets before and guards after the data

// Sizes around packet boundaries depend on the path MTU, so they are named and not numbered.
struct Size {
	const char *name;
	uint32_t (*bytes)(uint32_t mtu);
};

const Size sizes[] = {
	{"0", [](uint32_t) { return 0u; }},
	{"1", [](uint32_t) { return 1u; }},
	{"3", [](uint32_t) { return 3u; }},
	{"4", [](uint32_t) { return 4u; }},
	{"5", [](uint32_t) { return 5u; }},
	{"MtuMinus1", [](uint32_t mtu) { return mtu - 1; }},
	{"Mtu", [](uint32_t mtu) { return mtu; }},
	{"MtuPlus1", [](uint32_t mtu) { return mtu + 1; }},
	{"4095", [](uint32_t) { return 4095u; }},
	{"4096", [](uint32_t) { return 4096u; }},
	{"4097", [](uint32_t) { return 4097u; }},
	{"64K", [](uint32_t) { return 64u << 10; }},
	{"1M", [](uint32_t) { return 1u << 20; }},
	{"8M", [](uint32_t) { return 8u << 20; }},
};

struct Offsets {
	size_t local;
	size_t remote;
};

constexpr Offsets offsets[] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}, {4095, 2}, {63, 64}};

class DataIntegrity : public VerbsTest,
		      public testing::WithParamInterface<std::tuple<ibv_wr_opcode, Size>> {};

TEST_P(DataIntegrity, MovesExactlyTheBytesAsked)
{
	const auto [op, size] = GetParam();
	Pair pair = make_pair();
	const uint32_t length = size.bytes(mtu_bytes(pair.link.mtu));
	const Region local = make_region(pair.a.pd, length + margin);
	const Region remote = make_region(pair.b.pd, length + margin);
	const size_t rounds = length > (1u << 20) ? 2 : std::size(offsets);

	ASSERT_TRUE(local && remote);
	for (size_t i = 0; i < rounds && !HasFailure(); i++)
		run_transfer(pair, local, remote,
			     {op, offsets[i].local, offsets[i].remote, length});
}

INSTANTIATE_TEST_SUITE_P(All, DataIntegrity,
			 testing::Combine(testing::ValuesIn(all_ops), testing::ValuesIn(sizes)),
			 [](const auto &info) {
				 return std::string(op_name(std::get<0>(info.param))) + "_" +
					std::get<1>(info.param).name;
			 });

class PathMtu : public VerbsTest,
		public testing::WithParamInterface<std::tuple<ibv_wr_opcode, ibv_mtu>> {};

TEST_P(PathMtu, SegmentsAtItsBoundaries)
{
	const auto [op, mtu] = GetParam();
	Link link = default_link();
	if (mtu > link.mtu)
		GTEST_SKIP() << "the ports allow a path MTU of " << mtu_bytes(link.mtu) << " bytes";
	link.mtu = mtu;
	Pair pair = make_pair({}, link);
	const uint32_t unit = mtu_bytes(mtu);
	const Region local = make_region(pair.a.pd, 5 * unit + margin);
	const Region remote = make_region(pair.b.pd, 5 * unit + margin);

	ASSERT_TRUE(local && remote);
	for (uint32_t length : {unit - 1, unit, unit + 1, 2 * unit, 2 * unit + 3, 5 * unit - 2}) {
		run_transfer(pair, local, remote, {op, 1, 2, length});
		if (HasFailure())
			break;
	}
}

INSTANTIATE_TEST_SUITE_P(All, PathMtu,
			 testing::Combine(testing::ValuesIn(all_ops),
					  testing::Values(IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024,
							  IBV_MTU_2048, IBV_MTU_4096)),
			 [](const auto &info) {
				 return std::string(op_name(std::get<0>(info.param))) + "_" +
					std::to_string(mtu_bytes(std::get<1>(info.param)));
			 });

class Data : public VerbsTest {};

TEST_F(Data, SeededMixOfSizesAndOffsets)
{
	constexpr size_t room = 200000;
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);
	Random random(seed());

	ASSERT_TRUE(local && remote);
	for (int i = 0; i < 150 && !HasFailure(); i++) {
		const auto op = all_ops[random.below(std::size(all_ops))];
		const uint64_t bits = random.below(18);
		const auto length = static_cast<uint32_t>(random.below((1ull << bits) + 1));
		run_transfer(pair, local, remote,
			     {op, random.below(room - length), random.below(room - length),
			      length});
	}
}

// The end of a mapping is where a copy that goes one byte too far is noticed.
TEST_F(Data, LastByteOfTheRegionIsReachable)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 8192);
	const Region remote = make_region(pair.b.pd, 8192);

	ASSERT_TRUE(local && remote);
	for (ibv_wr_opcode op : all_ops)
		for (uint32_t length : {1u, 3u, 1025u, 8192u})
			run_transfer(pair, local, remote,
				     {op, 8192 - length, 8192 - length, length});
}

TEST_F(Data, SendAfterWriteSeesTheWrite)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 1 << 16);
	const Region remote = make_region(pair.b.pd, 1 << 16);

	ASSERT_TRUE(local && remote);
	for (uint64_t round = 1; round <= 20; round++) {
		local.fill(seed() + round);
		ASSERT_EQ(post_recv(pair.b, {}, round), 0);
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
					.sges = {local.sge(0, 1 << 16)},
					.flags = 0,
					.remote_addr = remote.address(),
					.rkey = remote.mr->rkey}),
			  0);
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND, .wr_id = round}), 0);
		EXPECT_EQ(expect_wc(pair.b.rcq).wr_id, round);
		EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed() + round));
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, round);
	}
}

TEST_F(Data, ReadAfterWriteReturnsWhatWasWritten)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 40000);
	const Region back = make_region(pair.a.pd, 40000);
	const Region remote = make_region(pair.b.pd, 40000);

	ASSERT_TRUE(local && back && remote);
	for (uint64_t round = 1; round <= 20; round++) {
		local.fill(seed() + round);
		for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
			const Region &buffer = op == IBV_WR_RDMA_READ ? back : local;
			ASSERT_EQ(post(pair.a, {.op = op,
						.sges = {buffer.sge(0, 40000)},
						.remote_addr = remote.address(),
						.rkey = remote.mr->rkey}),
				  0);
		}
		expect_wc(pair.a.scq);
		expect_wc(pair.a.scq);
		EXPECT_TRUE(has_pattern(back.memory.bytes(), seed() + round));
	}
}

// What a fenced operation sends must be what the READ before it fetched.
TEST_F(Data, FencedSendWaitsForTheRead)
{
	constexpr uint32_t length = 100000;
	Pair pair = make_pair();
	const Region middle = make_region(pair.a.pd, length);
	const Region source = make_region(pair.b.pd, length);
	const Region sink = make_region(pair.b.pd, length);

	ASSERT_TRUE(middle && source && sink);
	for (uint64_t round = 1; round <= 10; round++) {
		source.fill(seed() + round);
		ASSERT_EQ(post_recv(pair.b, {sink.sge(0, length)}), 0);
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_READ,
					.sges = {middle.sge(0, length)},
					.remote_addr = source.address(),
					.rkey = source.mr->rkey}),
			  0);
		ASSERT_EQ(post(pair.a, {.sges = {middle.sge(0, length)},
					.flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}),
			  0);
		expect_wc(pair.b.rcq);
		EXPECT_TRUE(has_pattern(sink.memory.bytes(), seed() + round));
		expect_wc(pair.a.scq);
		expect_wc(pair.a.scq);
	}
}

// C9-88: the R_Key of an RDMA operation of no bytes is not checked.
TEST_F(Data, ZeroLengthRdmaNeedsNoKey)
{
	Pair pair = make_pair();

	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		SCOPED_TRACE(op_name(op));
		ASSERT_EQ(post(pair.a, {.op = op, .remote_addr = 0x1234, .rkey = 0xdeadbe00}), 0);
		expect_wc(pair.a.scq);
	}
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_RTS);
	EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_RTS);
}

TEST_F(Data, ShorterSendReportsItsOwnLength)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 8192);
	const Region remote = make_region(pair.b.pd, 8192);

	ASSERT_TRUE(local && remote);
	for (uint32_t length : {0u, 1u, 100u, 4000u}) {
		remote.fill(1);
		local.fill(2);
		ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 8192)}), 0);
		ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, length)}}), 0);
		EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, length);
		expect_wc(pair.a.scq);
		EXPECT_TRUE(has_pattern(remote.bytes(0, length), 2));
		EXPECT_TRUE(has_pattern(remote.bytes(length, 8192 - length), 1, length));
	}
}

} // namespace
} // namespace verbs
