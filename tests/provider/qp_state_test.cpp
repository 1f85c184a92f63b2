/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * States of queue pairs, against the fake driver: what may be posted in which, changes beside queries, polls and
 * children, and what a reset and a destroy leave behind.
 */
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "../harness/sleeps_in.hpp"
#include "lifecycle.hpp"
#include "qp.hpp"

namespace sirdma::test
{

namespace
{

constexpr std::chrono::seconds patience(20); /* only a failure takes so long */

} // namespace

TEST_F(WithCq, PostingFollowsTheState)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ibv_send_wr send{};
	ibv_recv_wr recv{};
	ibv_send_wr *bad_send = nullptr;
	ibv_recv_wr *bad_recv = nullptr;
	ibv_qp_attr attr{};

	ASSERT_TRUE(qp);
	send.opcode = IBV_WR_SEND;
	EXPECT_EQ(post_recv(qp, &recv, &bad_recv), EINVAL);
	EXPECT_EQ(bad_recv, &recv);
	EXPECT_EQ(post_send(qp, &send, &bad_send), EINVAL);
	EXPECT_EQ(bad_send, &send);

	const std::array<std::pair<ibv_qp_state, int>, 6> states = {{
		{IBV_QPS_INIT, EINVAL},
		{IBV_QPS_RTR, EINVAL},
		{IBV_QPS_RTS, 0},
		{IBV_QPS_SQD, 0},
		{IBV_QPS_SQE, 0},
		{IBV_QPS_ERR, 0},
	}};
	for (const auto &[state, expected] : states) {
		attr.qp_state = state;
		ASSERT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), 0);
		EXPECT_EQ(post_send(qp, &send, &bad_send), expected) << state;
		EXPECT_EQ(post_recv(qp, &recv, &bad_recv), 0) << state;
	}

	driver.failing = "modify_qp";
	attr.qp_state = IBV_QPS_RESET;
	EXPECT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	EXPECT_EQ(Qp::of(qp).queues().state(), IBV_QPS_ERR) << "a failed modify changed it";
	driver.failing.clear();
	EXPECT_EQ(destroy_qp(qp), 0);
}

/* The state changes after a query has read it, and before the query returns. */
TEST_F(WithCq, AStateThatWasReadBeforeAChangeDoesNotUndoIt)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	std::atomic<pid_t> thread{0};
	std::atomic<bool> over{false};
	std::jthread other;
	ibv_qp_attr attr{};

	ASSERT_TRUE(qp);
	ASSERT_EQ(to_state(qp, IBV_QPS_RTR), 0);
	driver.after_query_qp = [&] {
		const auto end = std::chrono::steady_clock::now() + patience;

		other = std::jthread([&] {
			thread = static_cast<pid_t>(syscall(SYS_gettid));
			EXPECT_EQ(to_state(qp, IBV_QPS_RTS), 0);
			over = true;
		});
		while (!over && !(thread && sleeps_in(thread, Qp::of(qp)))) {
			if (std::chrono::steady_clock::now() > end) {
				ADD_FAILURE() << "ibv_modify_qp() neither returns nor waits";
				break;
			}
			std::this_thread::yield();
		}
	};
	EXPECT_EQ(query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	driver.after_query_qp = nullptr;
	ASSERT_TRUE(other.joinable());
	other.join();
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTR);
	EXPECT_EQ(Qp::of(qp).queues().state(), IBV_QPS_RTS);
	ibv_send_wr send{}, *bad = nullptr;
	send.opcode = IBV_WR_SEND;
	EXPECT_EQ(post_send(qp, &send, &bad), 0);
	EXPECT_EQ(destroy_qp(qp), 0);
}

/*
 * The parent holds the state lock: it is within ibv_query_qp(). fork() makes one child, the system call clone() another,
 * for which no handler of pthread_atfork() runs.
 */
TEST_F(WithCq, ChildrenDoNotWaitForTheStateLockOfTheirParent)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ibv_qp_attr attr{};
	bool called = false;

	ASSERT_TRUE(qp);
	driver.after_query_qp = [&] {
		if (std::exchange(called, true))
			return;
		for (const bool by_clone : {false, true}) {
			const pid_t child = by_clone ?
						    static_cast<pid_t>(syscall(SYS_clone, SIGCHLD,
									       0, 0, 0, 0)) :
						    fork();
			int status = -1;

			if (!child) {
				alarm(20); /* a failure */
				(void)query_qp(qp, &attr, IBV_QP_STATE, &init);
				_exit(to_state(qp, IBV_QPS_ERR));
			}
			EXPECT_EQ(waitpid(child, &status, 0), child);
			EXPECT_EQ(status, 0) << (by_clone ? "clone" : "fork");
		}
	};
	EXPECT_EQ(query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	EXPECT_TRUE(called);
	driver.after_query_qp = nullptr;
	EXPECT_EQ(destroy_qp(qp), 0);
}

/* A reset waits until the thread that polls has ended its batch, and that thread asks for the state before. */
TEST_F(WithCq, AQueryWithinABatchDoesNotWaitForAReset)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ibv_recv_wr recv{}, *bad = nullptr;
	ibv_qp_attr attr{};
	Completion c;

	ASSERT_TRUE(qp);
	ASSERT_EQ(to_state(qp, IBV_QPS_INIT), 0);
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);
	complete_receive();
	ASSERT_TRUE(Cq::of(cq).queue().begin(c));

	auto reset = std::async(std::launch::async, [&] { return to_state(qp, IBV_QPS_RESET); });
	const auto end = std::chrono::steady_clock::now() + patience;
	while (Qp::of(qp).queues().state() != IBV_QPS_RESET &&
	       std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	auto query = std::async(std::launch::async,
				[&] { return query_qp(qp, &attr, IBV_QP_STATE, &init); });
	EXPECT_EQ(query.wait_for(patience), std::future_status::ready);
	EXPECT_EQ(reset.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
	Cq::of(cq).queue().end();
	EXPECT_EQ(reset.get(), 0);
	EXPECT_EQ(query.get(), 0);
	EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WithCq, ResetDropsCompletionsAndRestartsTheRings)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ibv_recv_wr recv{};
	ibv_recv_wr *bad = nullptr;
	ibv_qp_attr attr{};

	ASSERT_TRUE(qp);
	attr.qp_state = IBV_QPS_INIT;
	ASSERT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), 0);
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);

	/* Nobody polls before the reset. */
	complete_receive();

	attr.qp_state = IBV_QPS_RESET;
	ASSERT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), 0);
	ibv_wc wc;
	EXPECT_EQ(poll_cq(cq, 1, &wc), 0);

	auto *rq = reinterpret_cast<const sirdma_wqe *>(driver.qp_request.user_wqe_bufs +
							512 * SIRDMA_QUANTUM);
	EXPECT_EQ(rq[0].hdr, 0u);
	attr.qp_state = IBV_QPS_INIT;
	ASSERT_EQ(modify_qp(qp, &attr, IBV_QP_STATE), 0);
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);
	EXPECT_EQ(le64toh(rq[0].hdr), SIRDMA_WQE_VALID);
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WithCq, DestroyedQpLeavesNoCompletionBehind)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);

	ASSERT_TRUE(qp);
	complete_receive();
	EXPECT_EQ(destroy_qp(qp), 0);
	ibv_wc wc;
	EXPECT_EQ(poll_cq(cq, 1, &wc), 0);
}

} // namespace sirdma::test
