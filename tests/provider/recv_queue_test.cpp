/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <cerrno>

#include "rings.hpp"

namespace sirdma::test
{

TEST(RecvQueue, CarriesEveryFragmentCountAtEveryStride)
{
	constexpr uint32_t max_sge[] = {1, 3, 7, 13};

	for (uint32_t shift = 0; shift <= 3; ++shift) {
		TestQp qp({.rq_wqes = 16, .rq_shift = shift, .max_recv_sge = max_sge[shift]});
		TestCq cq;

		for (uint32_t lap = 0; lap < 5; ++lap) {
			for (uint32_t n = 0; n <= max_sge[shift]; ++n) {
				auto sges = make_sges(n);

				ASSERT_EQ(post_recv(*qp, 100 + n, sges), 0);
				auto seen = qp.recvs.next();
				ASSERT_TRUE(seen);
				ASSERT_EQ(seen->sges.size(), n);
				for (uint32_t i = 0; i < n; ++i)
					EXPECT_TRUE(same(seen->sges[i], sges[i]));

				const auto done = complete(qp, cq, *seen, false);
				ASSERT_TRUE(done);
				EXPECT_EQ(done->wr_id, 100 + n);
			}
		}
	}
}

TEST(RecvQueue, TakesAllButOneAndThenSaysEnomem)
{
	TestQp qp({.rq_wqes = 16, .rq_shift = 1});
	TestCq cq;
	auto sges = make_sges(2);

	for (int i = 0; i < 15; ++i)
		ASSERT_EQ(post_recv(*qp, 1, sges), 0);
	EXPECT_EQ(post_recv(*qp, 1, sges), ENOMEM);

	ASSERT_TRUE(complete(qp, cq, *qp.recvs.next(), false));
	EXPECT_EQ(post_recv(*qp, 1, sges), 0);
}

TEST(RecvQueue, RefusesTooManyFragmentsAndLengthsThatDoNotFit)
{
	TestQp qp({.max_recv_sge = 2});
	auto three = make_sges(3);
	auto huge = make_sges(1, 0x80000000u);

	EXPECT_EQ(post_recv(*qp, 1, three), EINVAL);
	EXPECT_EQ(post_recv(*qp, 1, huge), EINVAL);
	EXPECT_FALSE(qp.recvs.next());
}

TEST(RecvQueue, BadRequestInAListLeavesTheEarlierOnesPosted)
{
	TestQp qp({.max_recv_sge = 2});
	auto one = make_sges(1);
	auto three = make_sges(3);
	ibv_recv_wr second{};
	ibv_recv_wr first{};
	const ibv_recv_wr *bad = nullptr;

	first.sg_list = one.data();
	first.num_sge = 1;
	first.next = &second;
	second.sg_list = three.data();
	second.num_sge = 3;
	EXPECT_EQ(qp->recv.post(&first, &bad), EINVAL);
	EXPECT_EQ(bad, &second);
	EXPECT_TRUE(qp.recvs.next());
	EXPECT_FALSE(qp.recvs.next());
}

TEST(RecvQueue, KicksOnlyThroughItsOwnWord)
{
	TestQp qp;
	auto sges = make_sges(1);

	qp.shadow.need_kick = htole64(1);
	ASSERT_EQ(post_recv(*qp, 1, sges), 0);
	EXPECT_TRUE(qp.take_kick().empty());

	qp.shadow.rq_need_kick = htole64(1);
	ASSERT_EQ(post_recv(*qp, 1, sges), 0);
	EXPECT_FALSE(qp.take_kick().empty());
}

/* A queue pair completes its receives in order: a CQE says so of all before, and none is reported twice. */
TEST(RecvQueue, ACompletionRetiresAllBefore)
{
	TestQp qp({.rq_wqes = 8, .rq_shift = 1});
	TestCq cq;
	auto sges = make_sges(1);
	std::vector<SeenWqe> open;

	for (uint64_t id = 0; id < 3; ++id) {
		ASSERT_EQ(post_recv(*qp, id, sges), 0);
		open.push_back(*qp.recvs.next());
	}
	ASSERT_EQ(complete(qp, cq, open[1], false)->wr_id, 1u);
	EXPECT_FALSE(complete(qp, cq, open[0], false));
	EXPECT_FALSE(complete(qp, cq, open[1], false)) << "twice";
	EXPECT_EQ(sirdma_rq_free(&qp->recv.queue()), 12u) << "in quanta";
	ASSERT_EQ(complete(qp, cq, open[2], false)->wr_id, 2u);
	EXPECT_EQ(sirdma_rq_free(&qp->recv.queue()), 14u);
}

/* Indices run freely over 32 bits; the lap, and with it the valid bit, follows them. */
TEST(SharedRecvQueue, GoesOnAcrossTheEndOfItsIndices)
{
	constexpr uint32_t size = 8;
	std::vector<sirdma_wqe> ring(size);
	sirdma_srq_shadow shadow{};
	const uint32_t start = ~0u - 2;
	sirdma_shared_rq queue = {.ring = ring.data(),
				  .shadow = &shadow,
				  .size = size,
				  .shift = 0,
				  .max_sge = 1,
				  .head = start,
				  .fetched = start};

	shadow.fetched = htole64(start);
	for (uint32_t i = 0; i < size; ++i)
		ASSERT_EQ(sirdma_shared_rq_take(&queue, i, nullptr, 0), 0);
	EXPECT_EQ(sirdma_shared_rq_take(&queue, 0, nullptr, 0), -ENOMEM);
	for (uint32_t i = 0; i < size; ++i) {
		const uint32_t index = start + i;
		const sirdma_wqe &wqe = ring[index % size];

		EXPECT_EQ(le64toh(wqe.remote), i);
		EXPECT_EQ((le64toh(wqe.hdr) & SIRDMA_WQE_VALID) != 0, !(index & size)) << i;
	}
	shadow.fetched = htole64(start + 3);
	for (uint32_t i = 0; i < 3; ++i)
		ASSERT_EQ(sirdma_shared_rq_take(&queue, i, nullptr, 0), 0);
	EXPECT_EQ(sirdma_shared_rq_take(&queue, 0, nullptr, 0), -ENOMEM);
}

} // namespace sirdma::test
