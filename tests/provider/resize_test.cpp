/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues of another size, and what other threads do while the ring is replaced.
 */
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <infiniband/opcode.h>

#include "fake_device.hpp"
#include "lifecycle.hpp"
#include "qp.hpp"

namespace sirdma::test
{

namespace
{

class Resize : public WithCq {
protected:
	/*
	 * Resize the CQ. As soon as the device fills the new ring it writes @spec there, and
	 * another thread does @meanwhile. A call that needs the queue has to wait until the
	 * provider knows the new ring; if it did not, it would be over before resize_cq() goes on.
	 */
	void resize_while(const CqeSpec &spec, const std::function<void()> &meanwhile)
	{
		std::atomic<bool> over{false};
		std::jthread other;

		driver.after_resize_cq = [&](std::span<sirdma_cqe> ring) {
			CompletionWriter(ring, shadow()).write(spec);
			other = std::jthread([&] {
				meanwhile();
				over = true;
			});
			for (int ms = 0; ms < 100 && !over; ++ms)
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
		};
		EXPECT_EQ(resize_cq(cq, 20), 0);
		driver.after_resize_cq = nullptr;
	}

	const sirdma_cq_shadow &shadow() const
	{
		return *reinterpret_cast<const sirdma_cq_shadow *>(
			driver.cqs[cq->handle].user_shadow_area);
	}

	/* A queue pair to which receive requests can be posted. */
	ibv_qp *make_qp(ibv_srq *srq = nullptr)
	{
		ibv_qp_init_attr init = qp_attr(cq);

		init.srq = srq;
		ibv_qp *qp = create_qp(pd, &init);

		EXPECT_TRUE(qp);
		if (qp)
			to_state(qp, IBV_QPS_INIT);
		return qp;
	}

	static void to_state(ibv_qp *qp, ibv_qp_state state)
	{
		ibv_qp_attr attr{};

		attr.qp_state = state;
		EXPECT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), 0);
	}

	static void post(ibv_qp *qp, uint64_t wr_id)
	{
		ibv_recv_wr wr{}, *bad = nullptr;

		wr.wr_id = wr_id;
		EXPECT_EQ(post_recv(qp, &wr, &bad), 0);
	}

	/* The ring that the device fills. */
	std::span<sirdma_cqe> ring() const
	{
		return {reinterpret_cast<sirdma_cqe *>(driver.cqs[cq->handle].user_cq_buf),
			static_cast<size_t>(driver.cq_size)};
	}

	/* The first receive request of @qp is complete. */
	CqeSpec received(ibv_qp *qp) const
	{
		return {.compl_ctx = driver.qps[qp->handle].user_compl_ctx,
			.op = IBV_OPCODE_SEND_ONLY,
			.send = false};
	}
};

} // namespace

TEST_F(Resize, ResizedCqHasARingOfItsOwnAgain)
{
	const size_t before = driver.registrations.size();
	const uint64_t first = driver.cqs[cq->handle].user_cq_buf;

	ASSERT_EQ(resize_cq(cq, 1000), 0);
	EXPECT_EQ(cq->cqe, 1000);
	EXPECT_EQ(driver.cq_size, 2 * 1000 + 2) << "elements, as create_cq has them";
	EXPECT_NE(driver.cqs[cq->handle].user_cq_buf, first);
	EXPECT_EQ(driver.registrations.size(), before);
	EXPECT_FALSE(registered_at(first));
	EXPECT_TRUE(registered_at(driver.cqs[cq->handle].user_cq_buf));
}

TEST_F(Resize, FailedResizeLeavesTheOldRing)
{
	const auto before = driver.cqs[cq->handle].user_cq_buf;
	const size_t registered = driver.registrations.size();
	const int cqe = cq->cqe;

	for (const char *step : {"resize_cq", "reg_mr", "dontfork"}) {
		driver.failing = step;
		EXPECT_EQ(resize_cq(cq, 1000), ENOMEM) << step;
	}
	driver.failing.clear();
	for (int wrong : {0, -1, 1 << 20})
		EXPECT_EQ(resize_cq(cq, wrong), EINVAL) << wrong;
	EXPECT_EQ(driver.cqs[cq->handle].user_cq_buf, before);
	EXPECT_EQ(driver.registrations.size(), registered);
	EXPECT_EQ(cq->cqe, cqe);
}

TEST_F(Resize, AQueuePairDestroyedMeanwhileLeavesNoCompletion)
{
	ibv_qp *qp = make_qp();
	ibv_wc wc{};

	ASSERT_TRUE(qp);
	post(qp, 1);
	resize_while(received(qp), [&] { EXPECT_EQ(destroy_qp(qp), 0); });
	EXPECT_EQ(poll_cq(cq, 1, &wc), 0);
}

TEST_F(Resize, AQueuePairResetMeanwhileLeavesNoCompletion)
{
	ibv_qp *qp = make_qp();
	ibv_wc wc{};

	ASSERT_TRUE(qp);
	post(qp, 1);
	resize_while(received(qp), [&] { to_state(qp, IBV_QPS_RESET); });
	to_state(qp, IBV_QPS_INIT);
	post(qp, 2);
	EXPECT_EQ(poll_cq(cq, 1, &wc), 0) << wc.wr_id;
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(Resize, AQueuePairOnASharedQueueDestroyedMeanwhileLeavesNoCompletion)
{
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 10;
	attr.attr.max_sge = 1;
	ibv_srq *srq = create_srq(pd, &attr);
	ASSERT_TRUE(srq);
	ibv_qp *qp = make_qp(srq);
	ibv_wc wc{};

	ASSERT_TRUE(qp);
	resize_while({.compl_ctx = 5,
		      .op = IBV_OPCODE_SEND_ONLY,
		      .send = false,
		      .shared = true,
		      .qp_id = qp->qp_num},
		     [&] { EXPECT_EQ(destroy_qp(qp), 0); });
	EXPECT_EQ(poll_cq(cq, 1, &wc), 0) << wc.qp_num;
	EXPECT_EQ(destroy_srq(srq), 0);
}

/*
 * The device wrote the completion while no event was requested. A thread that requests one, and
 * polls before it waits for it, finds the completion.
 */
TEST_F(Resize, AnEventRequestedMeanwhileMissesNoCompletion)
{
	ibv_qp *qp = make_qp();
	ibv_wc wc{};
	int polled = 0;

	ASSERT_TRUE(qp);
	post(qp, 1);
	resize_while(received(qp), [&] {
		EXPECT_EQ(req_notify_cq(cq, 0), 0);
		polled = poll_cq(cq, 1, &wc);
	});
	EXPECT_EQ(polled, 1);
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_EQ(destroy_qp(qp), 0);
}

/* Completions that nobody will poll take no room. */
TEST_F(Resize, CompletionsOfQueuePairsThatAreGoneDoNotCount)
{
	constexpr int count = 10;
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 10;
	attr.attr.max_sge = 1;
	ibv_srq *srq = create_srq(pd, &attr);
	ASSERT_TRUE(srq);
	ibv_qp *stays = make_qp();
	ASSERT_TRUE(stays);
	ibv_qp *own = make_qp(), *sharing = make_qp(srq);
	ASSERT_TRUE(own && sharing);
	CqeSpec shared{.op = IBV_OPCODE_SEND_ONLY, .send = false, .shared = true};
	shared.qp_id = 78; /* the fake driver gives all queue pairs one number */
	sharing->qp_num = shared.qp_id;
	CompletionWriter device(ring(), shadow());

	post(stays, 7);
	for (int i = 0; i < count; i++) {
		post(own, 1);
		device.write(received(own));
		device.write(shared);
	}
	device.write(received(stays));
	EXPECT_EQ(resize_cq(cq, 1), EINVAL) << "they can still be polled";
	EXPECT_EQ(destroy_qp(own), 0);
	EXPECT_EQ(destroy_qp(sharing), 0);
	ASSERT_EQ(resize_cq(cq, 1), 0);
	ibv_wc wc[2]{};
	ASSERT_EQ(poll_cq(cq, 2, wc), 1);
	EXPECT_EQ(wc[0].wr_id, 7u);
	EXPECT_EQ(destroy_qp(stays), 0);
	EXPECT_EQ(destroy_srq(srq), 0);
}

} // namespace sirdma::test
