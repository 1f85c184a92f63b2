// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Invalidation by work requests: a region registered by ibv_reg_mr() may not be invalidated, neither by its
// owner nor by a peer.
#include "fixture.hpp"

#include <cerrno>
#include <cstring>

namespace verbs
{
namespace
{

constexpr size_t room = 4096;

class InvalidationProtection : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (device().is_rxe() || peer().is_rxe())
			GTEST_SKIP() << "rdma_rxe reports other errors";
	}
	void make()
	{
		pair = make_pair();
		local = make_region(pair.a.pd, room);
		remote = make_region(pair.b.pd, room);
		ASSERT_TRUE(local && remote);
		local.fill(1);
		remote.fill(2);
		ASSERT_EQ(post_recv(pair.b, {remote.sge(0, room)}), 0);
	}
	// Another connection of the same protection domains uses both regions.
	void expect_valid()
	{
		const Pair other = make_pair({.shared_pd = pair.a.pd}, {.shared_pd = pair.b.pd},
					     default_link());

		ASSERT_EQ(post(other.a, {.op = IBV_WR_RDMA_WRITE,
					 .sges = {local.sge(0, room)},
					 .remote_addr = remote.address(),
					 .rkey = remote.mr->rkey}),
			  0);
		expect_wc(other.a.scq);
		EXPECT_TRUE(has_pattern(remote.bytes(0, room), 1));
	}

	Pair pair;
	Region local, remote;
};

TEST_F(InvalidationProtection, OfAnOwnRegion)
{
	make();
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_LOCAL_INV, .rkey = local.mr->lkey}), 0);
	expect_wc(pair.a.scq, IBV_WC_MW_BIND_ERR);
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
	expect_valid();
}

TEST_F(InvalidationProtection, OfAPeersRegion)
{
	make();
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND_WITH_INV,
				.sges = {local.sge(0, 64)},
				.rkey = remote.mr->rkey}),
		  0);
	expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	expect_wc(pair.b.rcq, IBV_WC_REM_INV_REQ_ERR);
	expect_valid();
}

TEST_F(InvalidationProtection, OfNoRegion)
{
	for (const uint32_t key : {0u, 0xffffffffu}) {
		const Pair one = make_pair();

		ASSERT_EQ(post(one.a, {.op = IBV_WR_LOCAL_INV, .rkey = key}), 0);
		expect_wc(one.a.scq, IBV_WC_MW_BIND_ERR);
	}
}

TEST_F(InvalidationProtection, Builder)
{
	if (options().lossy)
		GTEST_SKIP() << lost_answers;
	make();
	ibv_qp_ex *ex = use_builder(pair, IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV |
						  IBV_QP_EX_WITH_SEND);

	ASSERT_TRUE(ex) << std::strerror(errno);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, room)}), 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(), 8);
	ibv_wr_send_inv(ex, remote.mr->rkey);
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(), 8);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, room)}), 0);
	expect_wc(pair.a.scq);
	expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR);
}

} // namespace
} // namespace verbs
