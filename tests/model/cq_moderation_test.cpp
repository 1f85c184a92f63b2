// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completion queues whose events wait for more completions, or for a time.
#include "cq.hpp"

using namespace sirdma::test;

TEST_F(CqTest, CqarmRegisterStartsTheWaitOfAModeratedEvent)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 3, 50), SIRDMA_CQP_OK);
	post(4, plain(0));
	cq.arm();
	host_.write32(SIRDMA_REG_CQARM, 4);
	EXPECT_FALSE(drv_.next_ceqe());
	expect_event_after(50'000);
	cq.arm();
	host_.write32(SIRDMA_REG_CQARM, 4);
	post(4, plain(1));
	EXPECT_FALSE(drv_.next_ceqe());
	post(4, plain(2));
	EXPECT_TRUE(drv_.next_ceqe());
	EXPECT_EQ(host_.clock().next(), ~0ull) << "the timer";
}

TEST_F(CqTest, ModeratedEventWaitsForThatManyCompletions)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 5, 1000), SIRDMA_CQP_OK);
	post(4, plain(0)); // before the arming: it does not count
	for (int i = 0; i < 3; i++) {
		cq.arm();
		for (u32 n = 1; n < 5; n++) {
			post(4, plain(n));
			EXPECT_FALSE(drv_.next_ceqe()) << n;
			EXPECT_TRUE(requested(cq)) << n;
		}
		post(4, plain(5));
		EXPECT_TRUE(drv_.next_ceqe());
		EXPECT_FALSE(requested(cq));
		EXPECT_EQ(host_.clock().next(), ~0ull) << "the timer";
		post(4, plain(6));
		EXPECT_FALSE(drv_.next_ceqe()) << "not armed";
		while (cq.poll())
			;
	}
	host_.clock().advance(10'000'000);
	EXPECT_FALSE(drv_.next_ceqe());
}

TEST_F(CqTest, ModeratedEventWaitsNoLongerThanThePeriod)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 100, 50), SIRDMA_CQP_OK);
	for (int i = 0; i < 3; i++) {
		cq.arm();
		host_.clock().advance(1'000'000);
		EXPECT_FALSE(drv_.next_ceqe());
		post(4, plain(1));
		host_.clock().advance(30'000);
		post(4, plain(2));
		EXPECT_TRUE(requested(cq));
		expect_event_after(20'000); // from the first one on
		EXPECT_FALSE(requested(cq));
		post(4, plain(3));
		host_.clock().advance(1'000'000);
		EXPECT_FALSE(drv_.next_ceqe()) << "not armed";
		while (cq.poll())
			;
	}
}

// The timer of an event that was raised by its count does not shorten the next one's time.
TEST_F(CqTest, EachModeratedEventHasItsOwnPeriod)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 2, 50), SIRDMA_CQP_OK);
	cq.arm();
	post(4, plain(1));
	host_.clock().advance(40'000);
	post(4, plain(2));
	EXPECT_TRUE(drv_.next_ceqe());
	cq.arm();
	host_.clock().advance(5'000);
	post(4, plain(3));
	expect_event_after(50'000);
}

TEST_F(CqTest, ModeratedSolicitedArmingCountsSolicitedCompletions)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 3, 50), SIRDMA_CQP_OK);
	cq.arm(true);
	for (u32 n = 0; n < 5; n++)
		post(4, plain(n));
	host_.clock().advance(1'000'000);
	EXPECT_FALSE(drv_.next_ceqe());
	for (u32 n = 0; n < 2; n++) {
		post(4, solicited(n));
		post(4, plain(n));
	}
	EXPECT_FALSE(drv_.next_ceqe());
	post(4, solicited(2));
	EXPECT_TRUE(drv_.next_ceqe());

	cq.arm(true);
	post(4, solicited(1));
	expect_event_after(50'000);

	// An ordinary completion waits when the program arms anew, for solicited ones only.
	while (cq.poll())
		;
	cq.arm();
	post(4, plain(1));
	cq.arm(true);
	host_.clock().advance(1'000'000);
	EXPECT_FALSE(drv_.next_ceqe());
	post(4, solicited(1));
	expect_event_after(50'000);
}

TEST_F(CqTest, ModerationEndsByAZeroAndRaisesWhatWaits)
{
	TestCq cq;
	const struct {
		u32 count, period;
	} off[] = {{0, 0}, {0, 50}, {7, 0}, {1, 50}};

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	EXPECT_EQ(moderate(4, 0, 0), SIRDMA_CQP_OK) << "it is off already";
	for (const auto &what : off) {
		ASSERT_EQ(moderate(4, 100, 50), SIRDMA_CQP_OK);
		cq.arm();
		post(4, plain(1));
		EXPECT_FALSE(drv_.next_ceqe());
		ASSERT_EQ(moderate(4, what.count, what.period), SIRDMA_CQP_OK);
		EXPECT_TRUE(drv_.next_ceqe());
		EXPECT_EQ(host_.clock().next(), ~0ull);
		cq.arm();
		post(4, plain(1));
		EXPECT_TRUE(drv_.next_ceqe()) << what.count << " " << what.period;
		while (cq.poll())
			;
	}
	// The greatest values, and an event that a doorbell raises at once.
	ASSERT_EQ(moderate(4, SIRDMA_MAX_CQ_COUNT, SIRDMA_MAX_CQ_PERIOD), SIRDMA_CQP_OK);
	cq.arm();
	post(4, plain(1));
	expect_event_after(SIRDMA_MAX_CQ_PERIOD * 1000ull);
}

TEST_F(CqTest, ModerationIsRefusedWhereItIsWrong)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	EXPECT_EQ(moderate(4, SIRDMA_MAX_CQ_COUNT + 1, 1), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(moderate(4, 1, SIRDMA_MAX_CQ_PERIOD + 1), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(moderate(4, 1, 1, SIRDMA_CQP_CQ_MODERATE | SIRDMA_CQP_CQ_RESIZE),
		  SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(moderate(4, 1, 1, 0), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(moderate(5, 1, 1), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(moderate(1u << 20, 1, 1), SIRDMA_CQP_BAD_INDEX);
	port_alloc_fail = [](size_t) { return true; };
	EXPECT_EQ(moderate(4, 5, 5), SIRDMA_CQP_NO_MEMORY);
	port_alloc_fail = nullptr;
	cq.arm();
	post(4, plain(1));
	EXPECT_TRUE(drv_.next_ceqe()) << "it is not moderated";
}

TEST_F(CqTest, QueueWhoseEventWaitsIsDestroyed)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	ASSERT_EQ(moderate(4, 5, 50), SIRDMA_CQP_OK);
	cq.arm();
	post(4, plain(1));
	ASSERT_EQ(drv_.destroy_cq(cq), SIRDMA_CQP_OK);
	host_.clock().advance(1'000'000);
	EXPECT_FALSE(drv_.next_ceqe());
}
