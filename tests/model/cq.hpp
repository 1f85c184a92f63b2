// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A device for tests of its completion queues, which post completions by hand.
#pragma once

#include "mini_driver.hpp"

namespace sirdma::test
{

class CqTest : public ::testing::Test {
protected:
	CqTest() : drv_(host_) {}
	void SetUp() override { drv_.bring_up(1); }

	bool post(u32 id, const snic_completion &c)
	{
		snic_cq *cq = snic_cq_get(host_.dev(), id);
		EXPECT_NE(cq, nullptr);
		bool ok = snic_cq_post(host_.dev(), cq, &c);
		snic_cq_put(cq);
		return ok;
	}

	static snic_completion plain(u32 n)
	{
		snic_completion c{};
		c.compl_ctx = 0x1000 + n;
		c.qpn = 7;
		c.len = n;
		c.wqe_idx = n & 0x7fff;
		c.op = SIRDMA_OP_WRITE;
		c.is_sq = true;
		return c;
	}

	static snic_completion with_imm(u32 n)
	{
		snic_completion c = plain(n);
		c.is_sq = false;
		c.op = 0x0b;
		c.has_imm = true;
		c.imm = ~n;
		return c;
	}

	// Events of the CQ wait for @count completions, and for @period microseconds at most.
	u32 moderate(u32 id, u32 count, u32 period, u64 flags = SIRDMA_CQP_CQ_MODERATE)
	{
		sirdma_cqp_cq cmd{};
		cmd.moderation = SIRDMA_PREP(SIRDMA_CQP_CQ_COUNT, count) |
				 SIRDMA_PREP(SIRDMA_CQP_CQ_PERIOD, period);
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_MODIFY_CQ) |
			  SIRDMA_PREP(SIRDMA_CQP_CQ_ID, id) | flags;
		return drv_.exec(cmd);
	}

	static snic_completion solicited(u32 n)
	{
		snic_completion c = plain(n);
		c.solicited = true;
		return c;
	}

	// Is the request for any completion still in the arm word? It is until its event is raised, also while that waits.
	static bool requested(TestCq &cq)
	{
		return le64toh(cq.area()->arm) & SIRDMA_CQ_SHADOW_ARM_NEXT;
	}

	// An event comes at that time from now on, and not a nanosecond before.
	void expect_event_after(u64 ns)
	{
		host_.clock().advance(ns - 1);
		EXPECT_FALSE(drv_.next_ceqe()) << "too early";
		host_.clock().advance(1);
		EXPECT_TRUE(drv_.next_ceqe()) << "too late";
		EXPECT_FALSE(drv_.next_ceqe()) << "twice";
	}

	TestHost host_;
	MiniDriver drv_;
};

} // namespace sirdma::test
