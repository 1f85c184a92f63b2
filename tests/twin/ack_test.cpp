/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which acknowledgements leave at once, with what, and which wait for the next one. */
#include <gtest/gtest.h>

#include "ack_hold.hpp"

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
	bth.opcode = SIRDMA_RC_ACK;
	bth.apsn = cpu_to_be32(psn);
	aeth.smsn = cpu_to_be32((SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID) << 24);
	memcpy(a.pkt.hdr, &bth, sizeof(bth));
	memcpy(a.pkt.hdr + sizeof(bth), &aeth, sizeof(aeth));
	return a;
}

} // namespace

class TwinAck : public ::testing::Test {
protected:
	/* The first one of a peer waits for nothing. */
	void SetUp() override
	{
		ASSERT_TRUE(hold.offer(ack(0), out));
		ASSERT_FALSE(hold.any());
	}
	/* Acknowledgements that leave at the end of their call, until one stays. */
	void until_trial()
	{
		for (u32 i = 0; i < AckHold::trial_max; ++i) {
			ASSERT_FALSE(hold.offer(ack(++psn), out));
			if (!hold.flush(false, out))
				return;
			ASSERT_EQ(out.psn(), psn);
			++sent;
		}
		FAIL() << "no trial";
	}

	AckHold hold;
	Ack out{};
	u32 psn = 0, sent = 0;
};

TEST_F(TwinAck, LeavesAtTheEndOfTheCall)
{
	EXPECT_FALSE(hold.any());
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_TRUE(hold.any());
	EXPECT_TRUE(hold.flush(false, out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.any());
	EXPECT_FALSE(hold.flush(true, out));
}

TEST_F(TwinAck, RidesWithTheAnswerToItsPeer)
{
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_FALSE(hold.ride(peer, 8, out)) << "another queue pair";
	EXPECT_FALSE(hold.ride(IpAddress(in_addr{htonl(0x7f400002)}), 7, out));
	EXPECT_TRUE(hold.ride(peer, 7, out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.flush(true, out));
}

TEST_F(TwinAck, AnotherPeersGoesFirst)
{
	EXPECT_FALSE(hold.offer(ack(5), out));
	EXPECT_TRUE(hold.offer(ack(90, 8), out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_TRUE(hold.flush(false, out));
	EXPECT_EQ(out.psn(), 90u);
}

TEST_F(TwinAck, TheNewerOneCountsWhereThereWasNoRoom)
{
	hold.give_back(ack(5));
	EXPECT_TRUE(hold.flush(false, out));
	EXPECT_EQ(out.psn(), 5u);
	EXPECT_FALSE(hold.offer(ack(6), out));
	hold.give_back(ack(5));
	EXPECT_TRUE(hold.flush(false, out));
	EXPECT_EQ(out.psn(), 6u);
}

TEST_F(TwinAck, APeerThatGoesOnWithoutGetsFewer)
{
	until_trial();
	EXPECT_EQ(sent, AckHold::trial_min - 1);
	EXPECT_FALSE(hold.ride(peer, 7, out)) << "not with every answer";
	sent = 0;
	for (u32 i = 1; i <= 100; ++i) {
		if (hold.offer(ack(psn + i), out)) {
			EXPECT_EQ(out.psn(), psn + i) << "the newest";
			EXPECT_FALSE(hold.any());
			++sent;
		}
		EXPECT_FALSE(hold.flush(false, out)) << i;
		EXPECT_FALSE(hold.pass(out));
	}
	EXPECT_EQ(sent, 100 / (AckHold::fold_max + 1));
	EXPECT_EQ(hold.flush(true, out), hold.any());
}

TEST_F(TwinAck, APeerThatWaitsIsTriedSeldom)
{
	u32 before = 0;

	for (int trial = 0; trial < 5; ++trial) {
		sent = 0;
		until_trial();
		EXPECT_GE(sent, before * 3 / 2);
		before = sent;
		for (u32 i = 1; i < AckHold::passes_max; ++i)
			ASSERT_FALSE(hold.pass(out));
		ASSERT_TRUE(hold.pass(out));
		EXPECT_EQ(out.psn(), psn);
	}
	EXPECT_GT(before, 4 * AckHold::trial_min);
}

TEST_F(TwinAck, ARepeatedRequestIsAnsweredAtOnce)
{
	until_trial();
	EXPECT_TRUE(hold.offer(ack(psn), out));
	EXPECT_EQ(out.psn(), psn);
	EXPECT_FALSE(hold.any());
	/* And no more patience with this peer for now. */
	EXPECT_TRUE(hold.offer(ack(++psn), out));
	EXPECT_EQ(out.psn(), psn);
}

TEST_F(TwinAck, OneForManyPacketsLeavesAtOnce)
{
	constexpr u32 step = AckHold::many_packets;

	psn = SIRDMA_PSN_MASK - step;
	EXPECT_TRUE(hold.offer(ack(psn), out));
	for (int i = 0; i < 3; ++i) {
		psn = (psn + step) & SIRDMA_PSN_MASK;
		EXPECT_TRUE(hold.offer(ack(psn), out)) << i;
		EXPECT_EQ(out.psn(), psn);
	}
	EXPECT_FALSE(hold.offer(ack(psn + step - 1), out));
	EXPECT_TRUE(hold.offer(ack(psn + step), out)) << "counted from what left";
	EXPECT_FALSE(hold.any());
}

TEST_F(TwinAck, WherePacketsAreLostEachLeavesAtOnce)
{
	EXPECT_FALSE(hold.offer(ack(++psn), out));
	hold.refused(IpAddress(in_addr{htonl(0x7f400002)}), 7);
	EXPECT_FALSE(hold.offer(ack(++psn), out)) << "another peer missed one";
	hold.refused(peer, 7);
	for (u32 i = 0; i < AckHold::wary_acks; ++i) {
		ASSERT_TRUE(hold.offer(ack(++psn), out));
		ASSERT_EQ(out.psn(), psn);
		ASSERT_FALSE(hold.any());
	}
	EXPECT_FALSE(hold.offer(ack(++psn), out));
	EXPECT_TRUE(hold.flush(false, out));
}

TEST_F(TwinAck, NobodyLeftToPoll)
{
	until_trial();
	EXPECT_TRUE(hold.flush(true, out));
	EXPECT_EQ(out.psn(), psn);
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
	burst.pkts[0].hdr[0] = SIRDMA_RC_WRITE_ONLY;
	EXPECT_EQ(ack_kind(burst), AckKind::none);
}

} // namespace sirdma::twin::test
