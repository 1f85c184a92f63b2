// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What happens to posted work when a queue pair fails, and how it is used again.
#include "fixture.hpp"

#include <cerrno>

namespace verbs
{
namespace
{

class Errors : public VerbsTest {};

TEST_F(Errors, TooLongSendFailsBothEnds)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 10000);
	const Region remote = make_region(pair.b.pd, 10000);

	ASSERT_TRUE(local && remote);
	remote.fill(1);
	local.fill(2);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 5000)}, 4), 0);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 5001)}, .wr_id = 3}), 0);
	EXPECT_EQ(expect_wc(pair.b.rcq, IBV_WC_LOC_LEN_ERR).wr_id, 4u);
	EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_REM_INV_REQ_ERR).wr_id, 3u);
	EXPECT_TRUE(has_pattern(remote.bytes(5000, 5000), 1, 5000)) << "behind the receive buffer";
}

TEST_F(Errors, TooLongSendMovesRespondersQueuePairToError)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 1000);
	const Region remote = make_region(pair.b.pd, 1000);

	ASSERT_TRUE(local && remote);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 10)}, 1), 0);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 1000)}, 2), 0);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 1000)}}), 0);
	EXPECT_EQ(expect_wc(pair.b.rcq, IBV_WC_LOC_LEN_ERR).wr_id, 1u);
	EXPECT_EQ(expect_wc(pair.b.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, 2u);
	EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
}

// A peer that is not ready keeps the sends pending while the queue pair is moved to ERR.
TEST_F(Errors, ErrorStateFlushesBothQueuesInOrder)
{
	constexpr uint64_t count = 12;
	Pair pair = make_pair();

	for (uint64_t i = 0; i < count; i++) {
		ASSERT_EQ(post_recv(pair.a, {}, 100 + i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i, .flags = i % 2 ? signaled : 0u}), 0);
	}
	ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < count; i++) {
		const ibv_wc wc = expect_wc(pair.a.scq, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wc.wr_id, i) << "unsignaled work is flushed with a completion too";
		EXPECT_EQ(wc.qp_num, pair.a.qp->qp_num);
	}
	for (uint64_t i = 0; i < count; i++)
		EXPECT_EQ(expect_wc(pair.a.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, 100 + i);
}

TEST_F(Errors, PostsInErrorStateAreFlushed)
{
	Pair pair = make_pair();

	ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 100 && !HasFailure(); i++) {
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
		EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_WR_FLUSH_ERR).wr_id, i);
		ASSERT_EQ(post_recv(pair.a, {}, i), 0);
		EXPECT_EQ(expect_wc(pair.a.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, i);
	}
}

TEST_F(Errors, ReceivesPostedBeforeConnectionAreFlushed)
{
	End end = End::create(device());
	ASSERT_TRUE(end.qp);
	ASSERT_EQ(to_init(end.qp.get(), device(), default_link()), 0);
	for (uint64_t i = 0; i < 5; i++)
		ASSERT_EQ(post_recv(end, {}, i), 0);
	ASSERT_EQ(to_state(end.qp.get(), IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 5; i++)
		EXPECT_EQ(expect_wc(end.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, i);
}

TEST_F(Errors, ResetForgetsPostedWork)
{
	Pair pair = make_pair();

	for (uint64_t i = 0; i < 6; i++) {
		ASSERT_EQ(post_recv(pair.a, {}, i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
	}
	pair.reset();
	expect_quiet(pair.a.scq, std::chrono::milliseconds(50));
	expect_quiet(pair.a.rcq, std::chrono::milliseconds(1));
}

TEST_F(Errors, QueuePairWorksAgainAfterReset)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 20000);
	const Region remote = make_region(pair.b.pd, 20000);

	ASSERT_TRUE(local && remote);
	for (uint32_t round = 0; round < 6 && !HasFailure(); round++) {
		for (ibv_wr_opcode op : all_ops)
			run_transfer(pair, local, remote, {op, 1, 2, 9000});
		// Every second time with work left in the queues.
		if (round % 2)
			for (int i = 0; i < 3; i++) {
				ASSERT_EQ(post_recv(pair.a, {}), 0);
				ASSERT_EQ(post(pair.a, {}), 0);
			}
		if (round % 3) {
			ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_ERR), 0);
		}
		pair.reset();
		ibv_wc wc = {};
		for (ibv_cq *cq : {pair.a.scq, pair.a.rcq, pair.b.scq, pair.b.rcq})
			while (ibv_poll_cq(cq, 1, &wc) > 0)
				;
		pair.a.psn = (pair.a.psn + 7777) & 0xffffff;
		pair.b.psn = (pair.b.psn + 12345) & 0xffffff;
		pair.connect();
	}
}

TEST_F(Errors, CompletionsOutliveTheirQueuePair)
{
	Pair pair = make_pair();

	ASSERT_EQ(post_recv(pair.b, {}, 1), 0);
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_wc(pair.b.rcq);
	ASSERT_EQ(destroy(pair.a.qp), 0);
	// The queue may drop or keep the completion of the destroyed queue pair, but must stay usable.
	ibv_wc wc = {};
	EXPECT_GE(ibv_poll_cq(pair.a.scq, 1, &wc), 0);
}

TEST_F(Errors, PsnWrapsWithinAMessage)
{
	Link link = default_link();
	link.mtu = IBV_MTU_256;
	Pair pair = make_pair({}, link);
	const Region local = make_region(pair.a.pd, 60000);
	const Region remote = make_region(pair.b.pd, 60000);

	ASSERT_TRUE(local && remote);
	for (ibv_wr_opcode op : all_ops) {
		pair.reset();
		pair.a.psn = 0xfffffe;
		pair.b.psn = 0xffffff;
		pair.connect();
		run_transfer(pair, local, remote, {op, 0, 0, 50000});
		run_transfer(pair, local, remote, {op, 3, 1, 50000});
	}
}

} // namespace
} // namespace verbs
