/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which acknowledgements leave at once, and which wait for the end of their call. */
#include <gtest/gtest.h>

#include "ack_hold.hpp"
#include "answer_habit.hpp"

namespace sirdma::twin::test
{

namespace
{

const IpAddress peer(in_addr{htonl(0x7f400001)});

Ack ack(u32 psn, u32 qpn = 7)
{
	Ack a{};
	sirdma_bth bth{};
	sirdma_aeth aeth{};

	a.dst = peer;
	a.qpn = qpn;
	a.pkt.hdr_len = sizeof(bth) + sizeof(aeth);
	bth.opcode = SIRDMA_BTH_ACK;
	bth.apsn = cpu_to_be32(psn);
	aeth.smsn = cpu_to_be32((SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID) << 24);
	memcpy(a.pkt.hdr, &bth, sizeof(bth));
	memcpy(a.pkt.hdr + sizeof(bth), &aeth, sizeof(aeth));
	return a;
}

} // namespace

class TwinAck : public ::testing::Test {
protected:
	/* How far the queue pairs are is known. */
	TwinAck()
	{
		for (const u32 qpn : {7, 8}) {
			hold.offer(ack(4, qpn), out);
			hold.flush(out);
		}
	}

	AckHold hold;
	Ack out{};
};

TEST_F(TwinAck, LeavesAtTheEndOfTheCall)
{
	EXPECT_FALSE(hold.any());
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_TRUE(hold.any());
	EXPECT_TRUE(hold.flush(out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.any());
	EXPECT_FALSE(hold.flush(out));
}

TEST_F(TwinAck, TheNewestStandsForAll)
{
	for (u32 psn = 5; psn < 4 + AckHold::packets_max; ++psn)
		EXPECT_FALSE(hold.offer(ack(psn), out));
	EXPECT_TRUE(hold.flush(out));
	EXPECT_EQ(out.psn(), 4 + AckHold::packets_max - 1);
	EXPECT_FALSE(hold.any());
}

TEST_F(TwinAck, OneForManyPacketsLeavesAtOnce)
{
	constexpr u32 step = AckHold::packets_max;
	u32 psn = SIRDMA_PSN_MASK - step;

	for (int i = 0; i < 3; ++i) {
		psn = (psn + step) & SIRDMA_PSN_MASK;
		EXPECT_TRUE(hold.offer(ack(psn), out)) << i;
		EXPECT_EQ(out.psn(), psn);
		EXPECT_FALSE(hold.any());
	}
	EXPECT_FALSE(hold.offer(ack(psn + step - 1), out));
	EXPECT_TRUE(hold.offer(ack(psn + step), out)) << "counted from what left";
	EXPECT_FALSE(hold.any());
}

TEST_F(TwinAck, OfAnotherQueuePairLeavesBeforeIt)
{
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_TRUE(hold.offer(ack(6, 8), out));
	EXPECT_EQ(out.qpn, 7u);
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_TRUE(hold.flush(out));
	EXPECT_EQ(out.qpn, 8u);
	EXPECT_EQ(out.psn(), 6u);
}

TEST_F(TwinAck, OneThatLeavesAtOnceLeavesAnotherQueuePairsWhereItIs)
{
	constexpr u32 psn = 4 + AckHold::packets_max;

	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_TRUE(hold.offer(ack(psn, 8), out));
	EXPECT_EQ(out.qpn, 8u);
	EXPECT_TRUE(hold.any());
	EXPECT_TRUE(hold.offer(ack(psn, 7), out)) << "in place of its own";
	EXPECT_EQ(out.qpn, 7u);
	EXPECT_EQ(out.psn(), psn);
	EXPECT_FALSE(hold.any());
}

TEST_F(TwinAck, WherePacketsAreLostEachLeavesAtOnce)
{
	u32 psn = 5;

	EXPECT_FALSE(hold.offer(ack(++psn), out));
	hold.refused(7);
	for (u32 i = 0; i < AckHold::wary_acks; ++i) {
		ASSERT_TRUE(hold.offer(ack(++psn), out));
		ASSERT_EQ(out.psn(), psn);
		ASSERT_FALSE(hold.any());
	}
	EXPECT_FALSE(hold.offer(ack(++psn), out));
}

/* Each has lost packets, or has not, and is as far as it is. */
TEST_F(TwinAck, QueuePairsInTurnsDoNotDisturbEachOther)
{
	u32 psn = 4;

	hold.refused(7);
	for (u32 i = 0; i < AckHold::wary_acks; ++i) {
		++psn;
		ASSERT_TRUE(hold.offer(ack(psn), out)) << i;
		ASSERT_EQ(out.qpn, 7u);
		ASSERT_FALSE(hold.offer(ack(psn, 8), out)) << "it missed nothing";
		ASSERT_TRUE(hold.flush(out));
		ASSERT_EQ(out.qpn, 8u);
	}
	for (int i = 0; i < 3; ++i) {
		psn += AckHold::packets_max;
		for (const u32 qpn : {7, 8}) {
			ASSERT_TRUE(hold.offer(ack(psn, qpn), out)) << "one for many packets";
			ASSERT_EQ(out.qpn, qpn);
			ASSERT_FALSE(hold.any());
		}
	}
}

TEST_F(TwinAck, ARepeatedRequestIsAnsweredAgain)
{
	for (int i = 0; i < 3; ++i) {
		EXPECT_FALSE(hold.offer(ack(5), out));
		EXPECT_TRUE(hold.flush(out));
		EXPECT_EQ(out.psn(), 5u);
	}
}

TEST_F(TwinAck, TheNewerOneCountsWhereThereWasNoRoom)
{
	hold.give_back(ack(5));
	EXPECT_TRUE(hold.flush(out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.offer(ack(6), out));
	hold.give_back(ack(5));
	EXPECT_TRUE(hold.flush(out));
	EXPECT_EQ(out.psn(), 6u);
}

TEST_F(TwinAck, OnlyPlainAcknowledgementsWait)
{
	snic_burst burst{};

	burst.npkts = 1;
	burst.pkts[0] = ack(5).pkt;
	EXPECT_EQ(ack_kind(burst), AckKind::plain);
	burst.npkts = 2;
	EXPECT_EQ(ack_kind(burst), AckKind::none) << "behind the response to a READ";
	burst.npkts = 1;
	for (const u32 kind : {SIRDMA_AETH_NAK, SIRDMA_AETH_RNR_NAK}) {
		const sirdma_aeth aeth = {.smsn = cpu_to_be32(kind << 24)};

		memcpy(burst.pkts[0].hdr + sizeof(sirdma_bth), &aeth, sizeof(aeth));
		EXPECT_EQ(ack_kind(burst), AckKind::refusal);
	}
	burst.pkts[0] = ack(5).pkt;
	burst.pkts[0].hdr[0] = SIRDMA_BTH_WRITE_ONLY;
	EXPECT_EQ(ack_kind(burst), AckKind::none);
}

TEST_F(TwinAck, IsTakenByAnAnswerOfItsQueuePair)
{
	EXPECT_FALSE(hold.take(7, peer, out));
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_FALSE(hold.take(8, peer, out));
	EXPECT_FALSE(hold.take(7, IpAddress(in_addr{htonl(0x7f400002)}), out));
	EXPECT_TRUE(hold.any());
	EXPECT_TRUE(hold.take(7, peer, out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.any());
	/* It has left: the next ones count from there. */
	EXPECT_FALSE(hold.offer(ack(5 + AckHold::packets_max - 1), out));
}

TEST(TwinAnswerHabit, LastsWhileAPostSoonFollowsEachMessage)
{
	AnswerHabit habit;

	habit.note_post();
	EXPECT_FALSE(habit.note_message(ticks()));
	habit.note_post();
	EXPECT_TRUE(habit.note_message(ticks()));
	habit.note_post();
	/* Between an answer and the next message the program polls in vain. */
	habit.note_no_post();
	EXPECT_TRUE(habit.note_message(ticks()));
	habit.note_no_post();
	habit.note_post();
	EXPECT_FALSE(habit.note_message(ticks()));
	habit.note_post();
	EXPECT_TRUE(habit.note_message(ticks() - 4 * AnswerHabit::soon_us * ticks_per_us()));
	/* The program has computed before it posts. */
	habit.note_post();
	EXPECT_FALSE(habit.note_message(ticks()));
	habit.note_post();
	/* Of several messages that it takes in at a time one waits at most. */
	EXPECT_TRUE(habit.note_message(ticks()));
	EXPECT_FALSE(habit.note_message(ticks()));
}

} // namespace sirdma::twin::test
