// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completion channels and asynchronous events.
#include "fixture.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace verbs
{
namespace
{

using std::chrono::milliseconds;

// Long enough for an event that should not come to have come.
constexpr milliseconds quiet_time{60};

bool readable(int fd, milliseconds limit)
{
	pollfd entry = {fd, POLLIN, 0};
	return poll(&entry, 1, static_cast<int>(limit.count())) == 1;
}

class CompletionEvents : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		channel_.reset(ibv_create_comp_channel(peer().context.get()));
		ASSERT_TRUE(channel_);
		cq_.reset(ibv_create_cq(peer().context.get(), 512, this, channel_.get(), 0));
		ASSERT_TRUE(cq_);
		pair_ = make_pair({}, {.recv_wr = 400, .shared_cq = cq_.get()}, default_link());
	}

	void send(unsigned extra_flags = 0)
	{
		ASSERT_EQ(post_recv(pair_.b, {}), 0);
		ASSERT_EQ(post(pair_.a, {.flags = signaled | extra_flags}), 0);
		expect_wc(pair_.a.scq);
	}

	void expect_event()
	{
		ASSERT_TRUE(readable(channel_->fd, patience()));
		ibv_cq *cq = nullptr;
		void *context = nullptr;
		ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
		EXPECT_EQ(cq, cq_.get());
		EXPECT_EQ(context, this);
		ibv_ack_cq_events(cq, 1);
	}

	void expect_no_event() { EXPECT_FALSE(readable(channel_->fd, quiet_time)); }

	Channel channel_;
	Cq cq_;
	Pair pair_;
};

TEST_F(CompletionEvents, ArmedQueueRaisesOneEvent)
{
	for (int i = 0; i < 10 && !HasFailure(); i++) {
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		send();
		expect_event();
		expect_wc(cq_.get());
	}
	expect_no_event();
}

TEST_F(CompletionEvents, UnarmedQueueIsSilent)
{
	send();
	expect_wc(cq_.get());
	expect_no_event();
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	send();
	expect_event();
	send();
	expect_wc(cq_.get());
	expect_wc(cq_.get());
	expect_no_event();
}

TEST_F(CompletionEvents, SolicitedArmingIgnoresOrdinaryMessages)
{
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
	send();
	expect_wc(cq_.get());
	expect_no_event();
	send(IBV_SEND_SOLICITED);
	expect_event();
	expect_wc(cq_.get());
}

TEST_F(CompletionEvents, SolicitedArmingCatchesErrors)
{
	ASSERT_EQ(post_recv(pair_.b, {}), 0);
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
	ASSERT_EQ(to_state(pair_.b.qp.get(), IBV_QPS_ERR), 0);
	expect_event();
	expect_wc(cq_.get(), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CompletionEvents, ArmingForAnySupersedesSolicited)
{
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	send();
	expect_event();
	expect_wc(cq_.get());
}

// Arm, then look once more, then sleep: the way of using it that must never miss a completion.
TEST_F(CompletionEvents, ArmPollWaitLosesNothing)
{
	constexpr int count = 300;
	std::thread sender([&] {
		for (int i = 0; i < count && !HasFailure(); i++)
			send();
	});
	int received = 0;
	ibv_wc wc = {};
	while (received < count) {
		EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		int found = 0;
		while (ibv_poll_cq(cq_.get(), 1, &wc) > 0)
			found++;
		received += found;
		if (received < count && !readable(channel_->fd, patience())) {
			ADD_FAILURE() << "no event after " << received << " of " << count;
			break;
		}
		while (readable(channel_->fd, milliseconds(0)))
			expect_event();
	}
	sender.join();
	EXPECT_EQ(received, count);
}

TEST_F(CompletionEvents, QueuesOfOneChannelAreToldApart)
{
	Cq second(ibv_create_cq(peer().context.get(), 16, &second, channel_.get(), 0));
	ASSERT_TRUE(second);
	Pair other = make_pair({}, {.shared_cq = second.get()}, default_link());

	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	ASSERT_EQ(ibv_req_notify_cq(second.get(), 0), 0);
	ASSERT_EQ(post_recv(other.b, {}), 0);
	ASSERT_EQ(post(other.a, {}), 0);
	ASSERT_TRUE(readable(channel_->fd, patience()));
	ibv_cq *cq = nullptr;
	void *context = nullptr;
	ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(cq, second.get());
	EXPECT_EQ(context, &second);
	expect_wc(second.get());
	send();
	expect_event();
	expect_wc(cq_.get());
}

class AsyncEvents : public VerbsTest {};

TEST_F(AsyncEvents, RefusedAccessIsReportedAtTheResponder)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 64);

	ASSERT_TRUE(local);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				.sges = {local.sge(0, 64)},
				.remote_addr = 0x1000,
				.rkey = 0xabcdef00}),
		  0);
	expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(await_qp_event(peer(), pair.b.qp.get()), IBV_EVENT_QP_ACCESS_ERR);
}

// A queue with more completions than it holds has lost some: that is fatal to it and must be said.
TEST_F(AsyncEvents, OverflowingCompletionQueueIsReported)
{
	Cq small(ibv_create_cq(device().context.get(), 1, nullptr, nullptr, 0));
	ASSERT_TRUE(small);
	const auto depth = static_cast<uint32_t>(small->cqe) + 32;
	if (depth > static_cast<uint32_t>(device().attr.max_qp_wr))
		GTEST_SKIP() << "the smallest completion queue holds " << small->cqe
			     << ", more than a send queue can fill";
	Pair pair = make_pair({.send_wr = depth, .shared_cq = small.get()}, {}, default_link());

	for (uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE}), 0);
	EXPECT_EQ(await_cq_event(device(), small.get()), IBV_EVENT_CQ_ERR);
}

} // namespace
} // namespace verbs
