// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Scatter, gather and inline data.
#include "fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbs
{
namespace
{

constexpr size_t room = 300000;

uint32_t sge_limit(const Device &dev)
{
	return std::min<uint32_t>(static_cast<uint32_t>(dev.attr.max_sge), 32);
}

// `total` bytes cut into `count` pieces, some of them empty, that lie in the region in order with gaps between.
std::vector<ibv_sge> cut(const Region &region, uint32_t count, uint32_t total, Random &random)
{
	std::vector<uint32_t> cuts = {0, total};
	for (uint32_t i = 1; i < count; i++)
		cuts.push_back(random.below(4) == 0 ?
				       cuts[random.below(cuts.size())] :
				       static_cast<uint32_t>(random.below(total + 1)));
	std::sort(cuts.begin(), cuts.end());
	std::vector<ibv_sge> sges;
	size_t gap = 0;
	for (uint32_t i = 0; i < count; i++) {
		gap += random.below(50);
		sges.push_back(region.sge(cuts[i] + gap, cuts[i + 1] - cuts[i]));
	}
	return sges;
}

// Fills the pieces, taken as one string of bytes, with a pattern.
void fill_pieces(const std::vector<ibv_sge> &sges, uint64_t seed)
{
	uint64_t at = 0;
	for (const ibv_sge &sge : sges) {
		fill_pattern({reinterpret_cast<std::byte *>(sge.addr), sge.length}, seed, at);
		at += sge.length;
	}
}

testing::AssertionResult pieces_match(const std::vector<ibv_sge> &sges, uint64_t seed)
{
	uint64_t at = 0;
	for (size_t i = 0; i < sges.size(); i++) {
		auto result = has_pattern(
			{reinterpret_cast<std::byte *>(sges[i].addr), sges[i].length}, seed, at);
		if (!result)
			return result << " in piece " << i;
		at += sges[i].length;
	}
	return testing::AssertionSuccess();
}

class ScatterGather : public VerbsTest, public testing::WithParamInterface<ibv_wr_opcode> {};

TEST_P(ScatterGather, EveryCountOfPieces)
{
	const ibv_wr_opcode op = GetParam();
	const uint32_t most = std::min(sge_limit(device()), sge_limit(peer()));
	const uint32_t most_here =
		op == IBV_WR_RDMA_READ && device().attr.max_sge_rd > 0 ?
			std::min<uint32_t>(most, static_cast<uint32_t>(device().attr.max_sge_rd)) :
			most;
	Pair pair = make_pair({.send_sge = most, .recv_sge = most});
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);
	Random random(seed());

	ASSERT_TRUE(local && remote);
	for (uint32_t count = 1; count <= most_here && !HasFailure(); count++) {
		SCOPED_TRACE(testing::Message() << count << " pieces, seed " << options().seed);
		const auto total = static_cast<uint32_t>(random.below(count % 3 ? 9000 : 150000));
		const auto pieces = cut(local, count, total, random);
		const auto sinks =
			cut(remote, 1 + static_cast<uint32_t>(random.below(most)), total, random);
		const std::vector<ibv_sge> whole = {remote.sge(0, total)};
		const bool scatters = takes_recv(op) && !is_rdma(op);
		const auto &far = scatters ? sinks : whole;
		const bool reads = op == IBV_WR_RDMA_READ;

		fill_pieces(reads ? far : pieces, seed() + count);
		fill_pieces(reads ? pieces : far, ~seed());
		if (takes_recv(op)) {
			ASSERT_EQ(post_recv(pair.b, scatters ? sinks : std::vector<ibv_sge>{}), 0);
		}
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = pieces,
					.remote_addr = remote.address(),
					.rkey = remote.mr->rkey}),
			  0);
		expect_wc(pair.a.scq);
		if (takes_recv(op)) {
			EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, total);
		}
		EXPECT_TRUE(pieces_match(reads ? pieces : far, seed() + count));
	}
}

INSTANTIATE_TEST_SUITE_P(All, ScatterGather, testing::ValuesIn(all_ops),
			 [](const auto &info) { return op_name(info.param); });

class Sge : public VerbsTest {};

TEST_F(Sge, PiecesOfSeveralRegionsAreGathered)
{
	Pair pair = make_pair({.send_sge = 3, .recv_sge = 3});
	const Region one = make_region(pair.a.pd, 5000);
	const Region two = make_region(pair.a.pd, 70000, 0);
	const Region three = make_region(pair.b.pd, 80000);
	const std::vector<ibv_sge> pieces = {one.sge(1, 4999), two.sge(4095, 60001), one.sge(0, 1)};

	ASSERT_TRUE(one && two && three);
	fill_pieces({pieces[0], pieces[1]}, seed());
	ASSERT_EQ(post_recv(pair.b, {three.sge(10, 4), three.sge(20, 70000)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = pieces}), 0);
	expect_wc(pair.a.scq);
	EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, 4999u + 60001 + 1);
	EXPECT_TRUE(pieces_match({three.sge(10, 4), three.sge(20, 4999 + 60001 - 4)}, seed()));
	EXPECT_EQ(three.bytes(20 + 4999 + 60001 - 4, 1)[0], one.bytes(0, 1)[0]);
}

// The empty pieces may even name no valid key: nothing of them is touched.
TEST_F(Sge, OnlyEmptyPieces)
{
	Pair pair = make_pair({.send_sge = 2, .recv_sge = 2});
	const Region local = make_region(pair.a.pd, 64);
	const Region remote = make_region(pair.b.pd, 64);

	ASSERT_TRUE(local && remote);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 0), remote.sge(64, 0)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 0), local.sge(64, 0)}}), 0);
	expect_wc(pair.a.scq);
	EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, 0u);
}

TEST_F(Sge, MorePiecesThanTheQueuePairHasAreRefused)
{
	Pair pair = make_pair({.send_sge = 2, .recv_sge = 2});
	const Region local = make_region(pair.a.pd, 4096);
	ASSERT_TRUE(local);
	const std::vector<ibv_sge> too_many(pair.a.cap.max_send_sge + 1, local.sge(0, 1));
	const std::vector<ibv_sge> too_many_recv(pair.a.cap.max_recv_sge + 1, local.sge(0, 1));

	EXPECT_EQ(post(pair.a, {.sges = too_many}), EINVAL);
	EXPECT_EQ(post_recv(pair.a, too_many_recv), EINVAL);
}

class Inline : public VerbsTest, public testing::WithParamInterface<ibv_wr_opcode> {};

// Inline data is taken when it is posted: the buffer may change at once, and needs no registration.
TEST_P(Inline, EverySizeUpToTheLimit)
{
	const ibv_wr_opcode op = GetParam();
	Pair pair = make_pair({.inline_data = 64});
	const Region remote = make_region(pair.b.pd, 4096);
	std::vector<std::byte> buffer(pair.a.cap.max_inline_data);

	ASSERT_TRUE(remote);
	ASSERT_GE(buffer.size(), 64u);
	for (uint32_t length = 0; length <= std::min<size_t>(buffer.size(), 400) && !HasFailure();
	     length++) {
		SCOPED_TRACE(length);
		fill_pattern({buffer.data(), length}, seed() + length);
		remote.fill(~seed());
		if (takes_recv(op)) {
			ASSERT_EQ(post_recv(pair.b, {remote.sge(3, 4000)}), 0);
		}
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {{reinterpret_cast<uint64_t>(buffer.data()), length,
						  0xbad}},
					.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					.remote_addr = remote.address(3),
					.rkey = remote.mr->rkey}),
			  0);
		fill_pattern(buffer, 99);
		expect_wc(pair.a.scq);
		if (takes_recv(op))
			expect_wc(pair.b.rcq);
		EXPECT_TRUE(has_pattern(remote.bytes(3, length), seed() + length));
		EXPECT_TRUE(has_pattern(remote.bytes(3 + length, 100), ~seed(), 3 + length));
	}
}

TEST_P(Inline, PiecesAreJoined)
{
	const ibv_wr_opcode op = GetParam();
	Pair pair = make_pair({.send_sge = 4, .inline_data = 96});
	const Region remote = make_region(pair.b.pd, 4096);
	const Region local = make_region(pair.a.pd, 4096);
	Random random(seed());

	ASSERT_TRUE(remote && local);
	for (int round = 0; round < 40 && !HasFailure(); round++) {
		SCOPED_TRACE(testing::Message()
			     << "round " << round << ", seed " << options().seed);
		const auto total = static_cast<uint32_t>(random.below(97));
		const auto pieces =
			cut(local, 1 + static_cast<uint32_t>(random.below(4)), total, random);
		fill_pieces(pieces, seed() + round);
		if (takes_recv(op)) {
			ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 4096)}), 0);
		}
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = pieces,
					.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					.remote_addr = remote.address(),
					.rkey = remote.mr->rkey}),
			  0);
		local.fill(1);
		expect_wc(pair.a.scq);
		if (takes_recv(op))
			expect_wc(pair.b.rcq);
		EXPECT_TRUE(has_pattern(remote.bytes(0, total), seed() + round));
	}
}

INSTANTIATE_TEST_SUITE_P(All, Inline,
			 testing::Values(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					 IBV_WR_RDMA_WRITE_WITH_IMM),
			 [](const auto &info) { return op_name(info.param); });

// rdma_xclient asks for none and sends 16 bytes; soft-RoCE has room for 16 beside one piece.
TEST_F(Sge, InlineDataThatRequestsHoldAnywayIsTaken)
{
	Pair pair = make_pair({.send_sge = 1, .inline_data = 0});
	const Region remote = make_region(pair.b.pd, 4096);
	std::vector<std::byte> buffer(pair.a.cap.max_inline_data);

	ASSERT_TRUE(remote);
	ASSERT_GE(buffer.size(), 16u);
	fill_pattern(buffer, seed());
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 4000)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = {{reinterpret_cast<uint64_t>(buffer.data()),
					  static_cast<uint32_t>(buffer.size()), 0}},
				.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}),
		  0);
	fill_pattern(buffer, 99);
	expect_wc(pair.a.scq);
	expect_wc(pair.b.rcq);
	EXPECT_TRUE(has_pattern(remote.bytes(0, buffer.size()), seed()));
}

TEST_F(Sge, MoreInlineDataThanTheQueuePairTakesIsRefused)
{
	Pair pair = make_pair({.inline_data = 32});
	std::vector<std::byte> buffer(pair.a.cap.max_inline_data + 1);

	EXPECT_EQ(post(pair.a, {.sges = {{reinterpret_cast<uint64_t>(buffer.data()),
					  static_cast<uint32_t>(buffer.size()), 0}},
				.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}),
		  EINVAL);
}

} // namespace
} // namespace verbs
