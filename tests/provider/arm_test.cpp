/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests for completion events.
 */
#include <cerrno>
#include <functional>

#include "rings.hpp"

namespace sirdma::test
{

namespace
{

/* As a device does that raises the event and clears the request. */
void fire(TestCq &cq)
{
	put(cq.shadow.arm,
	    get(cq.shadow.arm) & ~(SIRDMA_CQ_SHADOW_ARM_NEXT | SIRDMA_CQ_SHADOW_ARM_NEXT_SE));
}

} // namespace

TEST(Arm, WritesTheWordAndTheDoorbell)
{
	TestCq cq;

	cq->arm(false);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 1u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT_SE), 1u);
	EXPECT_EQ(le32toh(cq.page.cq_arm), 0x44u);
}

TEST(Arm, SolicitedIsStrengthenedButNeverWeakened)
{
	TestCq cq;

	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 0u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT_SE), 1u);
	cq->arm(false);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
}

/* Two bits of sequence: without an event in between it must not come round. */
TEST(Arm, SequenceDoesNotRunAheadOfTheDevice)
{
	TestCq cq;

	for (int i = 0; i < 9; ++i)
		cq->arm(false);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 1u);
}

TEST(Arm, RequestMadeBeforeTheEventWasTakenIsHonouredThen)
{
	TestCq cq;

	cq->arm(false); /* 1; say it fired, and the event waits in the channel */
	cq->arm(false);
	cq->event_taken();
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
	cq->event_taken();
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 3u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 0u);
}

TEST(Arm, ALostEventIsNotTheLast)
{
	TestCq cq(64, true);

	cq->arm(false);
	fire(cq); /* and nobody reads the event */
	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 0u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT_SE), 1u);
	fire(cq);
	cq->arm(false);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 3u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
}

/* The event of an earlier request is read while the device has a later one. */
TEST(Arm, ALateEventLeavesTheRequestThatTheDeviceHas)
{
	TestCq cq(64, true);

	cq->arm(false);
	fire(cq);
	cq->arm(false);
	cq->event_taken();
	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u) << "weakened";
	cq->event_taken();
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u) << "weakened";
}

TEST(Arm, RequestMadeBeforeTheEventIsHonouredWhenItIsTaken)
{
	TestCq cq(64, true);

	cq->arm(true);
	cq->arm(true);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 1u);
	fire(cq);
	cq->event_taken();
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT_SE), 1u);
	fire(cq);
	cq->event_taken();
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_SEQ), 2u);
}

/* arm() returns true if there may be a completion for which no event was raised. */
class Missed : public testing::Test {
protected:
	void come() { cq.device.write(qp.completion_of(send_one(qp, 1), true)); }

	/* No event is requested, and what was noted before is forgotten. */
	void forget()
	{
		cq->arm(false);
		fire(cq);
		cq->event_taken();
		fire(cq);
	}

	TestQp qp;
	TestCq cq{64, true};
};

TEST_F(Missed, NothingByAnEmptyQueue)
{
	EXPECT_FALSE(cq->arm(false)) << "it is new";
	fire(cq);
	cq->event_taken();
	EXPECT_TRUE(cq.poll().empty());
	EXPECT_FALSE(cq->arm(false));
}

TEST_F(Missed, ANewQueueMayHaveCompletions)
{
	come();
	EXPECT_TRUE(cq->arm(false));
}

TEST_F(Missed, EachWayOfFindingTheQueueEmptyCounts)
{
	Completion c;
	const struct {
		const char *name;
		std::function<void()> poll;
	} ways[] = {
		{"nothing", [&] { EXPECT_TRUE(cq.poll().empty()); }},
		{"fewer than asked for",
		 [&] {
			 come();
			 EXPECT_EQ(cq.poll(2).size(), 1u);
		 }},
		{"fewer than asked for, many",
		 [&] {
			 come();
			 EXPECT_EQ(cq.poll(SIRDMA_CQ_PUBLISH_INTERVAL + 1).size(), 1u);
		 }},
		{"only what was forgotten",
		 [&] {
			 TestQp gone;

			 cq.device.write(gone.completion_of(send_one(gone, 1), true));
			 cq->forget(&*gone, 7);
			 EXPECT_TRUE(cq.poll().empty());
		 }},
		{"an extended poll of nothing", [&] { EXPECT_FALSE(cq->begin(c)); }},
		{"an extended poll",
		 [&] {
			 come();
			 ASSERT_TRUE(cq->begin(c));
			 EXPECT_FALSE(cq->next(c));
			 cq->end();
		 }},
	};

	for (const auto &way : ways) {
		SCOPED_TRACE(way.name);
		forget();
		way.poll();
		come();
		EXPECT_TRUE(cq->arm(false));
		EXPECT_EQ(cq.poll(1).size(), 1u);
		forget();
		come();
		EXPECT_FALSE(cq->arm(false)) << "nobody polled";
		fire(cq);
		EXPECT_EQ(cq.poll(1).size(), 1u);
	}
}

/* Requests before polls, as most programs make them: the device sees each completion as it comes. */
TEST_F(Missed, NothingThatComesAfterARequest)
{
	forget();
	for (int i = 0; i < 3; ++i) {
		EXPECT_FALSE(cq->arm(false));
		EXPECT_TRUE(cq.poll().empty());
		come();
		fire(cq);
		cq->event_taken();
		EXPECT_FALSE(cq->arm(false)) << "the event that was read tells of it";
		EXPECT_EQ(cq.poll(2).size(), 1u);
	}
}

/* The event of a completion is read after that completion, and another one is there. */
TEST_F(Missed, AnEventThatIsReadLateTellsOfNothingNew)
{
	for (bool again : {false, true}) {
		forget();
		EXPECT_FALSE(cq->arm(false));
		if (again) {
			EXPECT_FALSE(cq->arm(false));
		}
		come();
		fire(cq);
		EXPECT_EQ(cq.poll().size(), 1u);
		EXPECT_TRUE(cq.poll().empty());
		come();
		cq->event_taken();
		EXPECT_TRUE(cq->arm(false)) << again;
		EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u);
		EXPECT_EQ(cq.poll().size(), 1u);
	}
}

TEST_F(Missed, AnOrdinaryCompletionAfterASolicitedRequestIsStillMissed)
{
	forget();
	EXPECT_FALSE(cq->arm(true));
	EXPECT_TRUE(cq.poll().empty());
	come();
	EXPECT_FALSE(cq->arm(true)) << "the device would have raised the event";
	EXPECT_TRUE(cq->arm(false));
	EXPECT_FALSE(cq->arm(false)) << "once";
}

TEST_F(Missed, ARequestForSolicitedOnesLeavesTheOthersMissed)
{
	EXPECT_TRUE(cq.poll().empty());
	come();
	EXPECT_TRUE(cq->arm(true));
	EXPECT_FALSE(cq->arm(true)) << "once";
	EXPECT_TRUE(cq->arm(false));
}

/*
 * A moderated event tells of all that comes until it is raised, also if its first completion was polled. Its request
 * stays in the arm word until then: until fire().
 */
TEST_F(Missed, NothingThatComesWhileAModeratedEventWaits)
{
	forget();
	for (int i = 0; i < 3; ++i) {
		EXPECT_FALSE(cq->arm(false));
		come();
		EXPECT_EQ(cq.poll().size(), 1u);
		EXPECT_TRUE(cq.poll().empty());
		come();
		fire(cq);
		cq->event_taken();
		EXPECT_FALSE(cq->arm(false)) << "the event that was read tells of it";
		EXPECT_EQ(cq.poll(1).size(), 1u);
	}
}

/* The device must know what was read: the application may request an event before ibv_end_poll(). */
TEST_F(Missed, AnExtendedPollPublishesWhatItReadBeforeItEnds)
{
	Completion c;

	come();
	ASSERT_TRUE(cq->begin(c));
	EXPECT_FALSE(cq->next(c));
	EXPECT_EQ(le64toh(cq.shadow.cons_idx), 1u);
	cq->end();
}

/* The thread that has the lock may have read the element before: the device knows better. */
TEST_F(Missed, ALockedQueueMayHaveCompletions)
{
	std::vector<sirdma_cqe> ring(16);
	Completion c;

	EXPECT_TRUE(cq.poll().empty());
	come();
	EXPECT_EQ(cq->replace_ring(ring, nullptr,
				   [&] {
					   EXPECT_TRUE(cq->arm(false));
					   return EIO;
				   }),
		  EIO);
	EXPECT_EQ(cq.poll().size(), 1u);

	fire(cq);
	EXPECT_TRUE(cq.poll().empty());
	come();
	ASSERT_TRUE(cq->begin(c));
	EXPECT_TRUE(cq->arm(false));
	cq->end();
}

} // namespace sirdma::test
