// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Posters that run ahead of the device, and posters that wait: who must kick.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr u64 period = 50'000;

class SqPoll : public Transport {
protected:
	SqPoll() : c(fabric, 3, false, options()), l(connect(), b, {}, {}) {}

	static HostOptions options()
	{
		HostOptions o;
		o.cfg.sq_poll_ns = period;
		return o;
	}
	Node &connect()
	{
		c.learn(b);
		EXPECT_EQ(b.drv.set_arp(0, c.mac().data()), SIRDMA_CQP_OK);
		return c;
	}
	Wr write(u32 len, bool signaled)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {c.sge(0, len)},
			.remote = b.va(1 << 20),
			.rkey = b.mr.stag(),
			.signaled = signaled};
	}
	bool asleep() { return l.a.area()->need_kick; }
	u64 kicks() { return c.stat(SIRDMA_STAT_KICKS); }
	// @n messages, each through before the next is posted.
	void stream(u32 n, u32 len = 8)
	{
		for (u32 i = 0; i < n; i++) {
			l.a.post(write(len, false));
			settle(period / 10);
		}
	}

	Node c;
	Link l;
};

// A long message stops the timer, but not for those that follow.
TEST_F(SqPoll, SparesAStreamBehindALongMessageTheKicks)
{
	Wr one = write(8, false);

	one.sges.clear();
	one.inl.assign(8, 0x5a);
	one.is_inline = true;
	l.a.post(write(65536, false));
	settle(1'000'000);
	for (u32 i = 0; i < 1000; i++) {
		l.a.post(one);
		settle(period / 10);
	}
	EXPECT_LT(kicks(), 12u);
}

TEST_F(SqPoll, SparesAStreamTheKicks)
{
	stream(1000);
	EXPECT_LT(kicks(), 10u);
	l.a.post(write(8, true));
	expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(b.data(1 << 20), c.data(0), 8), 0);
}

TEST_F(SqPoll, FindsWhatWasPostedWithoutAKick)
{
	stream(20);
	ASSERT_FALSE(asleep());
	u64 before = kicks();
	l.a.place(write(8, true));
	settle(2 * period);
	EXPECT_TRUE(l.a.poll(true).has_value());
	EXPECT_EQ(kicks(), before);
}

TEST_F(SqPoll, EndsWhenThePosterPauses)
{
	stream(20);
	settle(5 * period);
	EXPECT_TRUE(asleep());
	settle(20'000'000); // the ACK timer, armed lazily, looks for the last time
	EXPECT_EQ(fabric.clock()->next(), ~0ull) << "the timer of an idle queue pair runs on";
	l.a.post(write(8, true));
	expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
}

TEST_F(SqPoll, SurvivesEmptyPeriodsOfAStream)
{
	stream(20);
	for (u32 i = 0; i < 20; i++) {
		settle(3 * period);
		EXPECT_FALSE(asleep()) << "after pause " << i;
		stream(8);
	}
	EXPECT_LT(kicks(), 10u);
}

TEST_F(SqPoll, StartsAgainWithFewKicksAfterAStream)
{
	stream(50);
	settle(10 * period);
	ASSERT_TRUE(asleep());
	u64 before = kicks();
	stream(50);
	EXPECT_EQ(kicks() - before, 2u);
}

// Its messages would wait for the timer, each.
TEST_F(SqPoll, IsNotForOneMessageInAPeriod)
{
	u32 i;

	stream(20);
	for (i = 0; i < 16 && !asleep(); i++) {
		l.a.post(write(8, false));
		settle(period);
	}
	EXPECT_LT(i, 16u);
}

TEST_F(SqPoll, IsNotForPostersWhoTakeTheirCompletions)
{
	for (u32 i = 0; i < 100; i++) {
		EXPECT_TRUE(asleep() || !i);
		l.a.post(write(8, true));
		expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
		EXPECT_TRUE(asleep()) << "after message " << i;
	}
}

TEST_F(SqPoll, IsNotForPostersWhomThePeerAnswers)
{
	for (u32 i = 0; i < 100; i++) {
		l.b.recv({b.sge(0, 64)});
		l.a.recv({c.sge(4096, 64)});
		l.a.post({.sges = {c.sge(0, 64)}, .signaled = false});
		wait_recv(l.b);
		l.b.post({.sges = {b.sge(0, 64)}, .signaled = false});
		wait_recv(l.a);
		EXPECT_TRUE(asleep()) << "after message " << i;
	}
}

TEST_F(SqPoll, IsNotForLongMessages)
{
	stream(50, 100'000);
	settle(period);
	EXPECT_TRUE(asleep());
}

TEST_F(SqPoll, IsOffUnlessAskedFor)
{
	b.learn(a); // in place of c
	auto other = link();
	for (u32 i = 0; i < 50; i++) {
		other->a.post({.op = SIRDMA_OP_WRITE,
			       .sges = {a.sge(0, 8)},
			       .remote = b.va(),
			       .rkey = b.mr.stag(),
			       .signaled = false});
		settle(period / 10);
		EXPECT_TRUE(other->a.area()->need_kick);
	}
}

TEST_F(SqPoll, StopsWithTheQueuePair)
{
	stream(20);
	ASSERT_FALSE(asleep());
	l.a.place(write(8, true));
	l.a.error();
	settle(2 * period);
	auto wc = l.a.poll(true);
	ASSERT_TRUE(wc.has_value());
	EXPECT_TRUE(wc->error);
	EXPECT_TRUE(asleep());
	stream(3); // flushed, each by its kick
	EXPECT_EQ(l.a.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
	settle(2 * period);
}

// On one processor such a poster gives way to its peer's (kmod/host/host.c).
TEST_F(SqPoll, PostersThatTakeTurnsAreKnown)
{
	const auto takes_turns = [](Qp &qp) {
		return snic_qp_takes_turns(qp.node.host.dev(), qp.id);
	};
	const auto answer = [&](Qp &from, Node &there) {
		from.post({.op = SIRDMA_OP_WRITE,
			   .sges = {from.node.sge(0, 8)},
			   .remote = there.va(1 << 20),
			   .rkey = there.mr.stag(),
			   .signaled = false});
		settle();
	};

	answer(l.a, b);
	EXPECT_FALSE(takes_turns(l.a)) << "nothing was received";
	answer(l.b, c);
	EXPECT_TRUE(takes_turns(l.b));
	EXPECT_FALSE(takes_turns(l.b)) << "nothing new was received";
	answer(l.a, b);
	EXPECT_TRUE(takes_turns(l.a));

	// Streams, of which each side gets several messages while the other one runs.
	answer(l.b, c);
	answer(l.b, c);
	EXPECT_FALSE(takes_turns(l.a)) << "two messages were received";
	EXPECT_FALSE(takes_turns(l.a));
	answer(l.b, c);
	EXPECT_TRUE(takes_turns(l.a));
	EXPECT_FALSE(snic_qp_takes_turns(c.host.dev(), 12345)) << "there is no such queue pair";
}

} // namespace
