// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Unreliable connections: everything but READs, no word back, and messages that nobody can take are dropped.
#include "fixture.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <string>

namespace verbs
{
namespace
{

using namespace std::chrono_literals;

constexpr size_t room = 64 << 10;
// Sent in one go without a word back: it must fit into a receiver's buffer.
constexpr uint32_t longest = 40000;

class Unreliable : public VerbsTest {
protected:
	static EndOptions uc()
	{
		EndOptions options;

		options.type = IBV_QPT_UC;
		options.inline_data = 64;
		return options;
	}
	Pair make_pair() { return VerbsTest::make_pair(uc()); }
	// The next message on @pair arrives.
	static void expect_works(const Pair &pair, const Region &local, const Region &remote)
	{
		run_transfer(pair, local, remote, {IBV_WR_SEND_WITH_IMM, 1, 2, 5000});
	}
};

TEST_F(Unreliable, MovesExactlyTheBytesAsked)
{
	Pair pair = make_pair();
	const uint32_t mtu = mtu_bytes(pair.link.mtu);
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	for (uint32_t length : {0u, 1u, mtu - 1, mtu, mtu + 1, 5 * mtu + 3, longest}) {
		run_transfer(pair, local, remote, {IBV_WR_SEND, 3, 5, length});
		run_transfer(pair, local, remote, {IBV_WR_SEND_WITH_IMM, 0, 1, length});
		run_transfer(pair, local, remote, {IBV_WR_RDMA_WRITE_WITH_IMM, 1, 64, length});
		if (HasFailure())
			break;
	}
}

// A WRITE tells nobody: the message behind it shows that it came.
TEST_F(Unreliable, WritesArriveBeforeWhatFollows)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	local.fill(7);
	remote.fill(8);
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				.sges = {local.sge(0, 9000)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey}),
		  0);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND}), 0);
	EXPECT_EQ(expect_wc(pair.a.scq).opcode, IBV_WC_RDMA_WRITE);
	expect_wc(pair.a.scq);
	expect_wc(pair.b.rcq);
	EXPECT_TRUE(has_pattern(remote.bytes(0, 9000), 7));
}

// A SEND completes when it is sent, and its memory is the program's again. A message of this length may be lost on a wire.
TEST_F(Unreliable, MemoryMayBeReusedAfterTheCompletion)
{
	constexpr size_t length = 96 << 10;
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, length);
	const Region remote = make_region(pair.b.pd, length);
	unsigned arrived = 0;

	ASSERT_TRUE(local && remote);
	for (uint64_t seed = 1; seed <= 8; ++seed) {
		ASSERT_EQ(post_recv(pair.b, {remote.sge(0, length)}), 0);
		local.fill(seed);
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND, .sges = {local.sge(0, length)}}), 0);
		expect_wc(pair.a.scq);
		local.fill(seed + 100);
		if (!await(pair.b.rcq, patience() / 2))
			break;
		++arrived;
		EXPECT_TRUE(has_pattern(remote.bytes(0, length), seed)) << "message " << seed;
	}
	if (!arrived)
		GTEST_SKIP() << "none of these messages arrived";
}

TEST_F(Unreliable, InlineDataIsTakenAtOnce)
{
	Pair pair = make_pair();
	const Region remote = make_region(pair.b.pd, room);
	char text[] = "taken at once";
	const ibv_sge sge = {reinterpret_cast<uintptr_t>(text), sizeof(text), 0};

	ASSERT_TRUE(remote);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 100)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = {sge}, .flags = signaled | IBV_SEND_INLINE}), 0);
	expect_wc(pair.a.scq);
	EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, sizeof(text));
	EXPECT_EQ(memcmp(remote.memory.data(), text, sizeof(text)), 0);
}

TEST_F(Unreliable, MessagesThatCannotBeTakenAreDropped)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	remote.fill(9);
	// Nobody waits for it; its key is wrong; it does not fit its receive, which the next message takes.
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 3000)}}), 0);
	expect_wc(pair.a.scq);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				.sges = {local.sge(0, 3000)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey + 1}),
		  0);
	expect_wc(pair.a.scq);
	expect_quiet(pair.b.rcq, 50ms);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), 9));
	if (!peer().is_rxe()) { // which completes it in error
		ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 2000)}, 3), 0);
		ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 3000)}}), 0);
		expect_wc(pair.a.scq);
		expect_quiet(pair.b.rcq, 50ms);
		ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 2000)}}), 0);
		expect_wc(pair.a.scq);
		EXPECT_EQ(expect_wc(pair.b.rcq).wr_id, 3u);
	}
	expect_works(pair, local, remote);
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_RTS);
	EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_RTS);
}

TEST_F(Unreliable, HasNoReads)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe fails it when it is sent";
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	EXPECT_NE(post(pair.a, {.op = IBV_WR_RDMA_READ,
				.sges = {local.sge(0, 10)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey}),
		  0);
	expect_works(pair, local, remote);
}

// A failed send stops the send queue only; modify starts it again.
TEST_F(Unreliable, AFailedSendLeavesTheReceiveQueueAlone)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe has no SQE";
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);
	ibv_sge wrong = local.sge(0, 100);

	ASSERT_TRUE(local && remote);
	wrong.lkey++;
	ASSERT_EQ(post(pair.a, {.sges = {wrong}}), 0);
	expect_wc(pair.a.scq, IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_SQE);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 100)}}), 0);
	expect_wc(pair.a.scq, IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(post_recv(pair.a, {local.sge(0, 100)}), 0);
	ASSERT_EQ(post(pair.b, {.sges = {remote.sge(0, 100)}}), 0);
	expect_wc(pair.b.scq);
	expect_wc(pair.a.rcq);
	ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_RTS), 0);
	expect_works(pair, local, remote);
}

TEST_F(Unreliable, AttributesAreThoseOfItsType)
{
	Pair pair;

	pair.link = default_link();
	pair.a = End::create(device(), uc());
	pair.b = End::create(peer(), uc());
	ASSERT_TRUE(pair.a.qp && pair.b.qp);
	ibv_qp *qp = pair.a.qp.get();
	const struct {
		ibv_qp_attr attr;
		int required;
	} steps[] = {
		{init_attr(device(), pair.link), init_mask},
		{rtr_attr(device(), pair.b.address(), pair.link), mask_for(IBV_QPT_UC, rtr_mask)},
		{rts_attr(pair.a.psn, pair.link), mask_for(IBV_QPT_UC, rts_mask)},
	};

	for (const auto &step : steps) {
		SCOPED_TRACE(testing::Message() << "to state " << step.attr.qp_state);
		ibv_qp_attr attr = step.attr;

		for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
			if (step.required & bit) {
				EXPECT_EQ(ibv_modify_qp(qp, &attr, step.required & ~bit), EINVAL)
					<< "without 0x" << std::hex << bit;
			} else if (reliable_mask & bit) {
				EXPECT_EQ(ibv_modify_qp(qp, &attr, step.required | bit), EINVAL)
					<< "with 0x" << std::hex << bit;
			}
		}
		ASSERT_EQ(ibv_modify_qp(qp, &attr, step.required), 0);
	}

	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};

	ASSERT_EQ(ibv_query_qp(qp, &attr, (IBV_QP_DEST_QPN << 1) - 1, &init), 0);
	EXPECT_EQ(init.qp_type, IBV_QPT_UC);
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(attr.dest_qp_num, pair.b.qp->qp_num);
	EXPECT_EQ(attr.path_mtu, pair.link.mtu);
}

TEST_F(Unreliable, WorksThroughTheExtendedInterface)
{
	ibv_qp_init_attr_ex init = {};
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	init.qp_type = IBV_QPT_UC;
	init.send_cq = pair.a.scq;
	init.recv_cq = pair.a.rcq;
	init.cap = pair.a.cap;
	init.pd = pair.a.pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	EXPECT_EQ(ibv_create_qp_ex(device().context.get(), &init), nullptr);
	init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	Qp made(ibv_create_qp_ex(device().context.get(), &init));
	if (!made && errno == EOPNOTSUPP)
		GTEST_SKIP() << not_offered("ibv_create_qp_ex", errno);
	ASSERT_TRUE(made);
	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
	pair.a.qp = std::move(made);
	pair.connect();

	ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair.a.qp.get());

	local.fill(3);
	remote.fill(4);
	ASSERT_EQ(post_recv(pair.b, {}, 1), 0);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(20000, 3000)}, 2), 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write_imm(ex, remote.mr->rkey, remote.address(), htonl(77));
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(), 5000);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(20000), 3000);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(expect_wc(pair.a.scq).opcode, IBV_WC_RDMA_WRITE);
	EXPECT_EQ(expect_wc(pair.a.scq).opcode, IBV_WC_SEND);
	EXPECT_EQ(expect_wc(pair.b.rcq).imm_data, htonl(77));
	EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, 3000u);
	EXPECT_TRUE(has_pattern(remote.bytes(0, 5000), 3));
	EXPECT_TRUE(has_pattern(remote.bytes(20000, 3000), 3, 20000));
}

} // namespace
} // namespace verbs
