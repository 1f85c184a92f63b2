// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completion channels and asynchronous events.
#include "fixture.hpp"

#include <poll.h>
#include <sys/prctl.h>

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

// Programs over UCX do not poll after the request: hardware looks at the queue then.
class EventsOfWhatIsThere : public CompletionEvents {
protected:
	void SetUp() override
	{
		CompletionEvents::SetUp();
		if (peer().is_rxe())
			GTEST_SKIP() << "soft-RoCE looks at no queue when an event is requested";
	}

	ibv_wc wc_[4] = {};
};

TEST_F(EventsOfWhatIsThere, ACompletionBetweenPollAndRequestRaisesAnEvent)
{
	for (int i = 0; i < 10 && !HasFailure(); i++) {
		ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, wc_), 0);
		send();
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		expect_event();
		expect_wc(cq_.get());
	}
	expect_no_event();
}

TEST_F(EventsOfWhatIsThere, APollThatFindsFewerThanItCouldFindsTheQueueEmpty)
{
	send();
	for (int i = 0; i < 10 && !HasFailure(); i++) {
		ASSERT_EQ(ibv_poll_cq(cq_.get(), 4, wc_), 1);
		send();
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		expect_event();
	}
	expect_wc(cq_.get());
	expect_no_event();
}

// The event is of a completion that was polled already.
TEST_F(EventsOfWhatIsThere, AnEventThatIsReadLateTellsOfNothingNew)
{
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	send();
	for (int i = 0; i < 10 && !HasFailure(); i++) {
		ASSERT_TRUE(readable(channel_->fd, patience()));
		expect_wc(cq_.get());
		ASSERT_EQ(ibv_poll_cq(cq_.get(), 4, wc_), 0);
		send();
		expect_event();
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	}
	expect_event();
	expect_wc(cq_.get());
	expect_no_event();
}

TEST_F(EventsOfWhatIsThere, ACompletionThatTheReplacedRingHeldRaisesAnEvent)
{
	ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, wc_), 0);
	send();
	ASSERT_EQ(ibv_resize_cq(cq_.get(), 800), 0);
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	expect_event();
	expect_wc(cq_.get());
	expect_no_event();
}

// The kernel serves some commands only if the thread has the credentials that opened the device.
TEST_F(EventsOfWhatIsThere, AThreadWithCredentialsOfItsOwnGetsThem)
{
	ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, wc_), 0);
	send();
	std::thread([&] {
		EXPECT_EQ(prctl(PR_SET_KEEPCAPS, 1), 0);
		EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	}).join();
	expect_event();
	expect_wc(cq_.get());
}

TEST_F(EventsOfWhatIsThere, AnOrdinaryCompletionBeforeASolicitedRequestRaisesNone)
{
	ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, wc_), 0);
	send();
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
	expect_no_event();
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	expect_event();
	expect_wc(cq_.get());
	expect_no_event();
}

// The event that was read tells of the completion already.
TEST_F(CompletionEvents, ARequestBeforeThePollRaisesNoSecondEvent)
{
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	for (int i = 0; i < 10 && !HasFailure(); i++) {
		send();
		expect_event();
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		EXPECT_FALSE(readable(channel_->fd, milliseconds(0)));
		expect_wc(cq_.get());
	}
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

// A queue without a channel raises no event, but can be armed, moderated and polled.
TEST_F(CompletionEvents, QueueWithoutChannelIsArmedModeratedAndPolled)
{
	ibv_cq *const silent = pair_.a.scq;
	ibv_modify_cq_attr attr = {};

	attr.attr_mask = IBV_CQ_ATTR_MODERATE;
	attr.moderate = {.cq_count = 4, .cq_period = 4};
	ASSERT_EQ(ibv_req_notify_cq(silent, 0), 0);
	send();
	if (!device().is_rxe()) {
		ASSERT_EQ(ibv_modify_cq(silent, &attr), 0);
	}
	ASSERT_EQ(ibv_req_notify_cq(silent, 1), 0);
	send();
	expect_wc(cq_.get());
	expect_wc(cq_.get());
	expect_no_event();
}

// Events that wait for more completions, or for a time. The test measures from before the first message, so a slow machine
// makes no event look too early.
class ModeratedEvents : public CompletionEvents {
protected:
	void SetUp() override
	{
		CompletionEvents::SetUp();
		if (peer().is_rxe())
			GTEST_SKIP() << "soft-RoCE has no moderation";
	}

	int moderate(uint16_t count, uint16_t period)
	{
		ibv_modify_cq_attr attr = {};
		attr.attr_mask = IBV_CQ_ATTR_MODERATE;
		attr.moderate = {.cq_count = count, .cq_period = period};
		return ibv_modify_cq(cq_.get(), &attr);
	}

	int completions()
	{
		ibv_wc wc[16];
		int total = 0;
		for (int n; (n = ibv_poll_cq(cq_.get(), 16, wc)) > 0;)
			total += n;
		return total;
	}

	// From now until the event: it comes after that time, unless @count completions came before.
	void expect_event_after(std::chrono::steady_clock::time_point start,
				std::chrono::microseconds period, int count)
	{
		expect_event();
		const auto elapsed = std::chrono::steady_clock::now() - start;
		if (completions() < count) {
			EXPECT_GE(elapsed, period);
		}
	}
};

TEST_F(ModeratedEvents, LimitsAreReportedAndHold)
{
	ibv_device_attr_ex attr = {};
	ASSERT_EQ(ibv_query_device_ex(peer().context.get(), nullptr, &attr), 0);
	const auto [count, period] = attr.cq_mod_caps;
	ASSERT_GT(count, 0);
	ASSERT_GT(period, 0);
	EXPECT_EQ(moderate(count, period), 0);
	EXPECT_EQ(moderate(static_cast<uint16_t>(count + 1), period), EINVAL);
	EXPECT_EQ(moderate(count, static_cast<uint16_t>(period + 1)), EINVAL);
}

TEST_F(ModeratedEvents, ComeAfterACountOrAPeriod)
{
	constexpr std::chrono::microseconds period{20000};
	ASSERT_EQ(moderate(8, period.count()), 0);
	for (int messages : {1, 3, 8, 12}) {
		SCOPED_TRACE(messages);
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < messages; i++)
			send();
		expect_event_after(start, period, 8);
		while (completions())
			;
		expect_no_event();
	}
}

TEST_F(ModeratedEvents, SolicitedArmingWaitsForSolicitedMessages)
{
	constexpr std::chrono::microseconds period{20000};
	ASSERT_EQ(moderate(8, period.count()), 0);
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 1), 0);
	for (int i = 0; i < 10; i++)
		send();
	EXPECT_EQ(completions(), 10);
	expect_no_event();
	const auto start = std::chrono::steady_clock::now();
	send(IBV_SEND_SOLICITED);
	expect_event_after(start, period, 8);
}

TEST_F(ModeratedEvents, WaitAlsoForACompletionBeforeTheRequest)
{
	constexpr std::chrono::microseconds period{20000};
	ASSERT_EQ(moderate(8, period.count()), 0);
	ASSERT_EQ(completions(), 0);
	send();
	const auto start = std::chrono::steady_clock::now();
	ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
	expect_event_after(start, period, 8);
	expect_no_event();
}

// The event that was read tells of the completion, although it waited when the queue was polled.
TEST_F(ModeratedEvents, ARequestBeforeThePollRaisesNoSecondEvent)
{
	ASSERT_EQ(moderate(8, 20000), 0);
	for (int i = 0; i < 3 && !HasFailure(); i++) {
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		EXPECT_EQ(completions(), 0);
		send();
		expect_event();
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		EXPECT_EQ(completions(), 1);
		expect_no_event();
	}
}

TEST_F(ModeratedEvents, EndWhenModerationDoes)
{
	ASSERT_EQ(moderate(1000, 30000), 0);
	for (auto [count, period] : {std::pair{0, 30000}, {1000, 0}, {0, 0}}) {
		ASSERT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		send();
		EXPECT_EQ(moderate(static_cast<uint16_t>(count), static_cast<uint16_t>(period)), 0);
		expect_event();
		EXPECT_EQ(completions(), 1);
	}
}

// The way that misses nothing, with events that wait: each completion is found in the end.
TEST_F(ModeratedEvents, LoseNoCompletion)
{
	constexpr int count = 200;
	ASSERT_EQ(moderate(16, 2000), 0);
	std::thread sender([&] {
		for (int i = 0; i < count && !HasFailure(); i++)
			send();
	});
	int received = 0, events = 0;
	while (received < count) {
		EXPECT_EQ(ibv_req_notify_cq(cq_.get(), 0), 0);
		received += completions();
		if (received == count)
			break;
		if (!readable(channel_->fd, patience())) {
			ADD_FAILURE() << "no event after " << received << " of " << count;
			break;
		}
		while (readable(channel_->fd, milliseconds(0))) {
			expect_event();
			events++;
		}
	}
	sender.join();
	EXPECT_LE(events, count) << "an event tells of at least one completion";
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
