// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Regions some of whose pages have no memory for a while, as with on-demand paging: every
// message waits for them and arrives whole, or fails once, on the side whose memory it is
// or by the retries of its peer.
#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr u64 ms = 1'000'000, page = 4096;
constexpr u64 patience = 20'000 * ms; // longer than anybody waits for memory

class Absent : public Transport {
protected:
	void set(Node &node, size_t first, size_t count, bool present)
	{
		for (size_t i = first; i < first + count; i++)
			node.drv.write_pble(node.mr.first_pble + static_cast<u32>(i),
					    node.mem->blocks()[i] |
						    (present ? 0 : SIRDMA_PBLE_ABSENT));
	}
	void take(Node &node, size_t first, size_t count = 1) { set(node, first, count, false); }
	void give(Node &node, size_t first, size_t count = 1) { set(node, first, count, true); }

	// Further work of @qp is put off, as by a burst that was not the last.
	void defer(Node &node, Qp &qp)
	{
		snic_qp *model = snic_qp_get(node.host.dev(), qp.id);

		ASSERT_NE(model, nullptr);
		port_lock(&model->lock);
		snic_qp_defer(model);
		port_unlock(&model->lock);
		snic_qp_put(model);
	}
	Wr wr(u8 op, size_t from, u32 len, size_t to = 0)
	{
		Wr wr{.op = op, .sges = {a.sge(from, len)}};

		if (op != SIRDMA_OP_SEND) {
			wr.remote = b.va(to);
			wr.rkey = b.mr.stag();
		}
		return wr;
	}
	void expect_same(size_t at_a, size_t at_b, size_t len)
	{
		EXPECT_EQ(memcmp(a.data(at_a), b.data(at_b), len), 0);
	}
};

constexpr u32 length = 5 * page; // of messages here; page 2 is the one that is taken

} // namespace

TEST_F(Absent, SenderWaitsForItsMemory)
{
	auto l = link();

	take(a, 2);
	l->b.recv({b.sge(1 << 20, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	settle(20 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_GT(a.stat(SIRDMA_STAT_MR_ABSENT), 2u);
	give(a, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
	expect_same(0, 1 << 20, length);
}

TEST_F(Absent, DoorbellTellsThatMemoryCame)
{
	auto l = link();

	take(a, 0, 8);
	l->a.post(wr(SIRDMA_OP_WRITE, 0, length, 1 << 20));
	settle(1000 * ms); // by now it tries every 67 ms
	give(a, 0, 8);
	l->a.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_WRITE);
	expect_same(0, 1 << 20, length);
}

TEST_F(Absent, WhatWasPostedBeforeAndBehindKeepsItsOrder)
{
	auto l = link();

	take(a, 2);
	for (u32 i = 0; i < 3; i++)
		l->b.recv({b.sge((1 << 20) + i * length, length)});
	l->a.place(wr(SIRDMA_OP_SEND, 16 * page, page));
	l->a.place(wr(SIRDMA_OP_SEND, 0, length));
	l->a.post(wr(SIRDMA_OP_SEND, 32 * page, page));
	EXPECT_EQ(wait_send(l->a).len, page);
	settle(10 * ms);
	EXPECT_FALSE(l->a.poll(true));
	give(a, 2);
	EXPECT_EQ(wait_send(l->a).len, length);
	EXPECT_EQ(wait_send(l->a).len, page);
	for (u32 len : {u32{page}, length, u32{page}})
		EXPECT_EQ(wait_recv(l->b).len, len);
	expect_same(0, (1 << 20) + length, length);
}

TEST_F(Absent, SenderGivesUpMemoryThatNeverComes)
{
	for (u8 type : {SIRDMA_QPT_RC, SIRDMA_QPT_UC}) {
		auto l = link({.type = type});

		take(a, 2);
		l->a.post(wr(SIRDMA_OP_WRITE, 0, length, 1 << 20));
		settle(1000 * ms);
		EXPECT_TRUE(silent(l->a));
		expect_error(wait(l->a, true, patience), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		EXPECT_EQ(l->a.state(), type == SIRDMA_QPT_UC ? SIRDMA_QPS_SQE : SIRDMA_QPS_ERR);
		give(a, 2);
	}
}

TEST_F(Absent, UnreliableSenderWaitsAndReceiverDrops)
{
	auto l = link({.type = SIRDMA_QPT_UC});

	take(a, 2);
	l->b.recv({b.sge(1 << 20, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	settle(10 * ms);
	EXPECT_TRUE(silent(l->a));
	give(a, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
	expect_same(0, 1 << 20, length);

	take(b, 256 + 2); // of the message at 1 MiB
	l->b.recv({b.sge(1 << 20, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	settle(10 * ms);
	EXPECT_TRUE(silent(l->b));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_NO_RECV), 1u);
}

TEST_F(Absent, ReceiverWithoutMemoryIsNotReady)
{
	for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_WRITE}) {
		auto l = link();
		u64 before = b.stat(SIRDMA_STAT_RNR_NAK_SENT);

		a.mem->fill(op);
		take(b, 256 + 2);
		if (op == SIRDMA_OP_SEND)
			l->b.recv({b.sge(1 << 20, length)});
		l->a.post(wr(op, 0, length, 1 << 20));
		settle(20 * ms);
		EXPECT_TRUE(silent(l->a) && silent(l->b));
		EXPECT_GT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), before + 2);
		give(b, 256 + 2);
		expect_ok(wait_send(l->a), op);
		if (op == SIRDMA_OP_SEND) {
			EXPECT_EQ(wait_recv(l->b).len, length);
		}
		expect_same(0, 1 << 20, length);
	}
}

TEST_F(Absent, ReceiverWhoseMemoryNeverComesExhaustsItsPeer)
{
	for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link({.rnr_retry = 3});

		take(b, 256, 5);
		if (op == SIRDMA_OP_SEND)
			l->b.recv({b.sge(1 << 20, length)});
		l->a.post(wr(op, 0, length, 1 << 20));
		expect_error(wait(l->a, true, patience), SIRDMA_FLUSH_RNR_RETRY_EXC,
			     SIRDMA_VENDOR_RNR_RETRY_EXC);
		/* The receive is not used up by what never came. */
		EXPECT_TRUE(silent(l->b));
		give(b, 256, 5);
	}
}

TEST_F(Absent, ReadOfAbsentMemoryIsAnsweredWhenItComes)
{
	// The first page makes the responder not ready, a later one leaves responses out.
	for (size_t missing : {0, 2, 3}) {
		auto l = link();
		u64 before = b.stat(SIRDMA_STAT_RNR_NAK_SENT);

		b.mem->fill(100 + missing);
		take(b, 256 + missing);
		l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
		settle(10 * ms);
		EXPECT_TRUE(silent(l->a));
		EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT) > before, missing == 0);
		give(b, 256 + missing);
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		expect_same(0, 1 << 20, length);
	}
}

// Responses to READs behind the absent one tell the requester of no loss: it would ask again at once.
TEST_F(Absent, ReadsBehindAnAbsentOneWaitAsWell)
{
	auto l = link({.mtu = 4096, .retry_cnt = 2});

	take(b, 256 + 1);
	for (u32 i = 0; i < 4; i++)
		l->a.place(wr(SIRDMA_OP_READ, i * length, 2 * page, (1 << 20) + i * 2 * page));
	l->a.kick(true);
	settle(6 * ms);
	EXPECT_TRUE(silent(l->a));
	give(b, 256 + 1);
	for (u32 i = 0; i < 4; i++) {
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		expect_same(i * length, (1 << 20) + i * 2 * page, 2 * page);
	}
}

TEST_F(Absent, ViolationBehindAnAbsentReadIsAnsweredWhenItComes)
{
	auto l = link();
	Wr wrong = wr(SIRDMA_OP_WRITE, 0, 8, 1 << 20);

	wrong.rkey ^= 1;
	take(b, 256 + 2);
	l->a.place(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
	l->a.place(wrong);
	l->a.kick(true);
	settle(10 * ms);
	EXPECT_TRUE(silent(l->a));
	give(b, 256 + 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_same(0, 1 << 20, length);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// What was lost is not in flight: its memory is waited for without a timeout, too.
TEST_F(Absent, RepetitionWaitsForItsMemory)
{
	auto l = link({.mtu = 4096, .timeout = 0});
	bool lost = false;

	fabric.set_filter([&](TestHost &from, Packet &) {
		if (&from != &a.host || lost)
			return Fabric::Verdict::pass;
		lost = true;
		take(a, 0);
		return Fabric::Verdict::drop;
	});
	l->b.recv({b.sge(1 << 20, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	settle(20 * ms);
	EXPECT_TRUE(lost && silent(l->a));
	give(a, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
	expect_same(0, 1 << 20, length);
	fabric.set_filter(nullptr);
}

TEST_F(Absent, DoorbellTellsAResponderThatMemoryCame)
{
	auto l = link({.timeout = 20}); // 4.3 s

	take(b, 256 + 2);
	l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
	settle(10 * ms);
	give(b, 256 + 2);
	EXPECT_TRUE(silent(l->a));
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	expect_same(0, 1 << 20, length);
}

// Work that was put off before the doorbell, and is put off again while it is acted on, takes nothing from it.
TEST_F(Absent, DoorbellDoesNotMergeWithDeferredWork)
{
	for (bool at_once : {true, false}) {
		auto l = link({.timeout = 20}); // 4.3 s
		const auto ring = [&](Node &node, Qp &qp) {
			const u64 before = node.stat(SIRDMA_STAT_KICKS);

			defer(node, qp);
			if (at_once)
				node.host.kick(qp.id);
			else
				node.host.ring(qp.id);
			defer(node, qp);
			settle(ms / 2);
			EXPECT_EQ(node.stat(SIRDMA_STAT_KICKS), before + 1);
		};

		take(a, 0, 8);
		l->a.post(wr(SIRDMA_OP_WRITE, 0, length, 1 << 20));
		settle(1000 * ms); // by now it tries every 67 ms
		give(a, 0, 8);
		ring(a, l->a);
		expect_ok(wait(l->a, true, ms), SIRDMA_OP_WRITE);

		take(b, 256 + 2);
		l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
		settle(10 * ms);
		give(b, 256 + 2);
		ring(b, l->b);
		expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	}
}

// Deferred work is no doorbell: it does not cut the waits short, which would then never be enough.
TEST_F(Absent, DeferredWorkTellsNothingAboutMemory)
{
	auto l = link();

	take(a, 2);
	l->a.post(wr(SIRDMA_OP_WRITE, 0, length, 1 << 20));
	settle(1000 * ms);
	const u64 tries = a.stat(SIRDMA_STAT_MR_ABSENT), kicks = a.stat(SIRDMA_STAT_KICKS);
	for (u32 i = 0; i < 100; i++) {
		defer(a, l->a);
		settle(1);
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_MR_ABSENT), tries);
	EXPECT_EQ(a.stat(SIRDMA_STAT_KICKS), kicks);
	give(a, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

TEST_F(Absent, ReadOfMemoryThatNeverComesIsRetriedInVain)
{
	auto l = link();

	take(b, 256 + 2);
	l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
	expect_error(wait(l->a, true, patience), SIRDMA_FLUSH_RETRY_EXC, SIRDMA_VENDOR_RETRY_EXC);
}

TEST_F(Absent, ReaderWaitsForItsOwnMemory)
{
	auto l = link();

	take(a, 2);
	l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
	settle(20 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_GT(a.stat(SIRDMA_STAT_MR_ABSENT), 2u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u) << "the peer is not to blame";
	give(a, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_same(0, 1 << 20, length);
}

TEST_F(Absent, ReaderGivesUpMemoryThatNeverComes)
{
	auto l = link();

	take(a, 2);
	const u64 start = fabric.clock()->now();
	l->a.post(wr(SIRDMA_OP_READ, 0, length, 1 << 20));
	expect_error(wait(l->a, true, patience), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_GE(fabric.clock()->now() - start, 3400 * ms) << "each wait is at least as long as "
							       "the one before";
	EXPECT_LE(fabric.clock()->now() - start, 3500 * ms);
	give(a, 2);
}

// An invalid key beside absent pages is still one.
TEST_F(Absent, ViolationsAreNotWaitedFor)
{
	auto l = link();
	Wr bad = wr(SIRDMA_OP_WRITE, 0, length, 1 << 20);

	take(b, 256, 5);
	bad.rkey ^= 1;
	l->a.post(bad);
	expect_error(wait(l->a, true, 10 * ms), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// Pages of both sides come and go under traffic of every kind; all of it arrives in order.
TEST_F(Absent, PagesComeAndGoUnderTraffic)
{
	std::mt19937_64 rng(7);
	auto l = link({.timeout = 14}); // 67 ms
	constexpr u32 slot = 16 * page, messages = 200;
	u32 sent = 0, done = 0;
	struct {
		u8 op;
		u32 at, len;
	} log[messages];

	for (u32 step = 0; done < messages; step++) {
		ASSERT_LT(step, 200'000u) << done << " of " << messages << " done";
		if (sent < messages && sent - done < 8) {
			const u8 ops[] = {SIRDMA_OP_SEND, SIRDMA_OP_WRITE, SIRDMA_OP_READ};
			u32 at = sent % 8 * slot, len = 1 + rng() % slot;
			u8 op = ops[rng() % 3];

			// What was here before is done.
			std::generate_n(a.data(at), len, [&] { return static_cast<u8>(rng()); });
			std::generate_n(b.data(at + (1 << 20)), len,
					[&] { return static_cast<u8>(rng()); });
			log[sent] = {op, at, len};
			if (op == SIRDMA_OP_SEND)
				l->b.recv({b.sge((1 << 20) + at, len)});
			l->a.post(wr(op, at, len, (1 << 20) + at));
			sent++;
		}
		for (Node *node : {&a, &b})
			for (u32 i = 0; i < 8; i++)
				set(*node, (node == &b ? 256 : 0) + rng() % 128, 1, rng() % 4);
		settle(1 + rng() % (ms / 2));
		while (auto wc = l->a.poll(true)) {
			ASSERT_FALSE(wc->error) << "minor " << wc->minor;
			ASSERT_EQ(wc->op, log[done].op);
			expect_same(log[done].at, (1 << 20) + log[done].at, log[done].len);
			done++;
		}
		while (auto wc = l->b.poll(false))
			ASSERT_FALSE(wc->error);
	}
	EXPECT_GT(a.stat(SIRDMA_STAT_MR_ABSENT), 20u);
	EXPECT_GT(b.stat(SIRDMA_STAT_MR_ABSENT), 20u);
}
