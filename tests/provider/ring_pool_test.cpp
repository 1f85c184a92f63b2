/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings of small queue pairs in registered pages that several share.
 */
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "lifecycle.hpp"
#include "pd.hpp"
#include "qp.hpp"

namespace sirdma::test
{

class RingPools : public WithCq {
protected:
	void SetUp() override
	{
		Lifecycle::SetUp();
		driver.context_answer.comp_mask |= SIRDMA_UCTX_RING_POOL;
		ASSERT_TRUE(open_device());
		pd = alloc_pd(context_);
		cq = create_cq(context_, 100, nullptr, 0);
		ASSERT_TRUE(pd && cq);
		others_ = driver.registrations.size();
	}

	ibv_qp_init_attr small_attr()
	{
		ibv_qp_init_attr attr = qp_attr(cq);

		attr.cap = {.max_send_wr = 1,
			    .max_recv_wr = 1,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		return attr;
	}

	/* Returns the address of its rings; 0 if there is none. */
	uint64_t create(ibv_qp_init_attr attr)
	{
		ibv_qp *qp = create_qp(pd, &attr);

		if (!qp)
			return 0;
		qps_.push_back(qp);
		return driver.qp_request.user_wqe_bufs;
	}

	void destroy_all()
	{
		for (ibv_qp *qp : qps_)
			EXPECT_EQ(destroy_qp(qp), 0);
		qps_.clear();
	}

	size_t pools() const { return driver.registrations.size() - others_; }

	size_t others_ = 0; /* registrations beside those of the pool */
	std::vector<ibv_qp *> qps_;
};

/* (1 << 1) + 8 -> 16 quanta of SQ, 8 of RQ, and the shadow area: 832 bytes. */
constexpr uint64_t sq_bytes = 16 * 32, rq_bytes = 8 * 32;
constexpr uint64_t small_bytes = sq_bytes + rq_bytes + SIRDMA_SHADOW_SIZE;
constexpr uint64_t stride = 1024;

TEST_F(RingPools, SmallQueuePairsShareAPage)
{
	const uint64_t first = create(small_attr());

	ASSERT_EQ(pools(), 1u);
	const Registration *page = registered_at(first);
	ASSERT_TRUE(page);
	EXPECT_EQ(page->what.reg_type, SIRDMA_MEMREG_POOL);
	EXPECT_EQ(page->what.sq_pages + page->what.rq_pages + page->what.cq_pages, 0);
	EXPECT_EQ(page->length, 4096u);
	for (uint64_t i = 1; i < 4; i++)
		EXPECT_EQ(create(small_attr()), first + i * stride);
	EXPECT_EQ(pools(), 1u);
	EXPECT_NE(create(small_attr()) / 4096, first / 4096);
	EXPECT_EQ(pools(), 2u);

	const Qp &qp = Qp::of(qps_[1]);
	EXPECT_EQ(qp.cap().max_send_wr, (16u - 8) >> 1);
	EXPECT_EQ(qp.cap().max_recv_wr, 7u);
	destroy_all();
}

TEST_F(RingPools, RingsAndShadowAreaFollowEachOther)
{
	const uint64_t start = create(small_attr());
	QueuePair &queues = Qp::of(qps_[0]).queues();
	ibv_recv_wr recv{}, *bad_recv = nullptr;
	ibv_send_wr send{}, *bad_send = nullptr;

	queues.set_state(IBV_QPS_RTS);
	send.opcode = IBV_WR_SEND;
	ASSERT_EQ(post_send(qps_[0], &send, &bad_send), 0);
	ASSERT_EQ(post_recv(qps_[0], &recv, &bad_recv), 0);
	EXPECT_NE(reinterpret_cast<const sirdma_wqe *>(start)->hdr, 0u);
	EXPECT_NE(reinterpret_cast<const sirdma_wqe *>(start + sq_bytes)->hdr, 0u);

	/* Whoever has the memory next finds it zeroed. */
	ibv_qp *first = qps_[0];
	EXPECT_EQ(destroy_qp(first), 0);
	qps_.clear();
	ASSERT_EQ(create(small_attr()), start);
	const auto *bytes = reinterpret_cast<const uint8_t *>(start);
	EXPECT_TRUE(std::all_of(bytes, bytes + small_bytes, [](uint8_t b) { return !b; }));
	destroy_all();
}

TEST_F(RingPools, WhatIsLargerThanAPageIsRegisteredByItself)
{
	const uint64_t start = create(qp_attr(cq));
	const Registration *memory = registered_at(start);

	ASSERT_TRUE(memory);
	EXPECT_EQ(memory->what.reg_type, SIRDMA_MEMREG_QP);
	destroy_all();
	EXPECT_EQ(pools(), 0u);
}

TEST_F(RingPools, AllocatorsOfTheApplicationAreAsked)
{
	static int asked;
	ibv_parent_domain_init_attr attr{};

	asked = 0;
	attr.pd = pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = [](ibv_pd *, void *, size_t, size_t, uint64_t) -> void * {
		asked++;
		return IBV_ALLOCATOR_USE_DEFAULT;
	};
	attr.free = [](ibv_pd *, void *, void *, uint64_t) {};
	ibv_pd *domain = alloc_parent_domain(context_, &attr);
	ibv_qp_init_attr init = small_attr();
	ibv_qp *qp = create_qp(domain, &init);

	ASSERT_TRUE(qp);
	EXPECT_EQ(asked, 1);
	EXPECT_EQ(registered_at(driver.qp_request.user_wqe_bufs)->what.reg_type, SIRDMA_MEMREG_QP);
	EXPECT_EQ(destroy_qp(qp), 0);
	EXPECT_EQ(dealloc_pd(domain), 0);
}

/* Each chunk is as large as all before it, up to 16 pages; what has no users goes, but for one. */
TEST_F(RingPools, GrowsAndShrinks)
{
	std::vector<uint64_t> at;

	for (int i = 0; i < 200; i++)
		at.push_back(create(small_attr()));
	EXPECT_EQ(pools(), 8u) << "1 + 1 + 2 + 4 + 8 + 16 + 16 + 16 pages of 4 for 200 queue pairs";
	std::sort(at.begin(), at.end());
	for (size_t i = 0; i < at.size(); i++) {
		ASSERT_EQ(at[i] % SIRDMA_POOL_ALIGN, 0u);
		ASSERT_EQ(at[i] / 4096, (at[i] + small_bytes - 1) / 4096);
		ASSERT_TRUE(!i || at[i] - at[i - 1] >= small_bytes);
	}

	/* Every other one goes: no chunk without users. Their room is used again. */
	for (size_t i = 0; i < qps_.size(); i++) {
		EXPECT_EQ(destroy_qp(qps_[i]), 0);
		qps_.erase(qps_.begin() + static_cast<ptrdiff_t>(i));
	}
	EXPECT_EQ(pools(), 8u);
	while (qps_.size() < 200)
		ASSERT_TRUE(create(small_attr()));
	EXPECT_EQ(pools(), 8u);

	destroy_all();
	EXPECT_EQ(pools(), 1u);
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(create(small_attr()));
		destroy_all();
		EXPECT_EQ(pools(), 1u);
	}
}

/* The process may pin a page more, but no chunk of the usual size. */
TEST_F(RingPools, GrowsByAPageWhereMoreIsRefused)
{
	for (int i = 0; i < 32; i++)
		ASSERT_TRUE(create(small_attr()));
	ASSERT_EQ(pools(), 4u) << "1 + 1 + 2 + 4 pages";
	driver.reg_mr_limit = 4096;
	for (int i = 0; i < 8; i++)
		ASSERT_TRUE(create(small_attr()));
	EXPECT_EQ(pools(), 6u);
	driver.reg_mr_limit = 0;
	EXPECT_FALSE(create(small_attr()));
	EXPECT_EQ(errno, ENOMEM);
	destroy_all();
}

TEST_F(RingPools, FailedQueuePairLeavesNothing)
{
	for (const char *step : {"reg_mr", "dontfork"}) {
		driver.failing = step;
		EXPECT_FALSE(create(small_attr())) << step;
		EXPECT_EQ(errno, ENOMEM) << step;
		EXPECT_EQ(pools(), 0u) << step;
	}
	driver.failing = "create_qp";
	EXPECT_FALSE(create(small_attr()));
	EXPECT_EQ(errno, ENOMEM);
	driver.failing.clear();
	EXPECT_EQ(pools(), 1u) << "the chunk stays for the next";
	const uint64_t start = create(small_attr());
	EXPECT_EQ(start % 4096, 0u);
	EXPECT_EQ(pools(), 1u);
	destroy_all();
}

} // namespace sirdma::test
