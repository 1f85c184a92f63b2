// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Loss, timeouts, receiver not ready: what is sent again, when, how often.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

class Retry : public Transport {
protected:
	// Drop the packets that @match names, by count of such packets so far (from 1).
	void drop(std::function<bool(bool from_a, const Packet &, u32 nth)> match)
	{
		auto seen = std::make_shared<std::map<std::pair<bool, u32>, u32>>();
		fabric.set_filter([this, match, seen](TestHost &from, Packet &pkt) {
			bool from_a = &from == &a.host;
			u32 nth = ++(*seen)[{from_a, pkt.psn() << 8 | pkt.opcode()}];
			return match(from_a, pkt, nth) ? Verdict::drop : Verdict::pass;
		});
	}
	u32 count(bool from_a, u32 psn)
	{
		u32 n = 0;
		for (auto &p : fabric.sent())
			n += (p.bytes[11] == 1) == from_a && p.psn() == psn;
		return n;
	}
	u64 now() { return fabric.clock()->now(); }
	void check_all_kinds(const QpOptions &o = {})
	{
		auto l = link(o);
		a.mem->fill(21);
		b.mem->fill(22);
		l->b.recv({b.sge(0, 20000)});
		l->b.recv({});
		l->a.place({.sges = {a.sge(0, 9000)}});
		l->a.place({.op = SIRDMA_OP_READ,
			    .sges = {a.sge(1 << 20, 9000)},
			    .remote = b.va(2 << 20),
			    .rkey = b.mr.stag()});
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(30000, 9000)},
			    .remote = b.va(1 << 20),
			    .rkey = b.mr.stag(),
			    .imm = 5});
		l->a.kick(true);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(wait_recv(l->b).len, 9000u);
		EXPECT_EQ(wait_recv(l->b).imm, 5u);
		settle();
		EXPECT_TRUE(silent(l->a));
		EXPECT_TRUE(silent(l->b)) << "a duplicate was taken for a new message";
		EXPECT_EQ(memcmp(b.data(0), a.data(0), 9000), 0);
		EXPECT_EQ(memcmp(a.data(1 << 20), b.data(2 << 20), 9000), 0);
		EXPECT_EQ(memcmp(b.data(1 << 20), a.data(30000), 9000), 0);
	}
};

TEST_F(Retry, GivesUpAfterExactlyTheRetryCount)
{
	for (u8 retries : {0, 1, 3, 7}) {
		SCOPED_TRACE(static_cast<int>(retries));
		QpOptions o;
		o.retry_cnt = retries;
		o.timeout = 12; // 16.8 ms
		auto l = link(o);
		fabric.sent().clear();
		fabric.record(true);
		drop([](bool, const Packet &, u32) { return true; });
		u64 start = now();
		u32 idx = l->a.post({.sges = {a.sge(0, 10)}});
		l->a.post({.sges = {a.sge(0, 10)}});
		Wc wc = wait_send(l->a);
		expect_error(wc, SIRDMA_FLUSH_RETRY_EXC, SIRDMA_VENDOR_RETRY_EXC);
		EXPECT_EQ(wc.idx, idx);
		EXPECT_EQ(wc.vendor, 0x81u);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_EQ(count(true, o.a_psn), retries + 1u);
		EXPECT_EQ(now() - start, (retries + 1ull) * (4096ull << 12));
		EXPECT_FALSE(a.drv.next_aeqe());
		fabric.set_filter(nullptr);
	}
}

TEST_F(Retry, ProgressRestoresTheRetryCount)
{
	QpOptions o;
	o.retry_cnt = 1;
	auto l = link(o);
	// Each packet is lost once.
	drop([](bool from_a, const Packet &, u32 nth) { return from_a && nth == 1; });
	l->b.recv({b.sge(0, 65536)});
	l->a.post({.sges = {a.sge(0, 2000)}});
	l->b.recv({b.sge(0, 65536)});
	l->a.post({.sges = {a.sge(0, 2000)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
}

// Whoever fires them has no budget: each queue pair has its turn in the bottom half.
TEST_F(Retry, TimersThatExpireTogetherLeaveTheirWorkToTheBottomHalf)
{
	constexpr u32 count = 32;
	std::vector<std::unique_ptr<Link>> links;

	drop([](bool, const Packet &, u32 nth) { return nth == 1; });
	for (u32 i = 0; i < count; i++) {
		QpOptions o;
		o.a_psn = 0x1000 * (i + 1); // so that drop() tells them apart
		links.push_back(link(o));
		links.back()->b.recv({b.sge(i * 64, 64)});
		links.back()->a.post({.sges = {a.sge(i * 64, 64)}});
	}
	while (fabric.step())
		;
	ASSERT_EQ(fabric.packets_sent(), count);
	fabric.clock()->advance(20'000'000); // no acknowledgement timeout is longer
	EXPECT_EQ(fabric.packets_sent(), count) << "packets were sent from within a timer";
	for (u32 i = 1; i <= count; i++) {
		ASSERT_TRUE(a.host.run_deferred());
		EXPECT_EQ(fabric.packets_sent(), count + i);
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), count);
	for (auto &l : links) {
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(l->b).len, 64u);
	}
}

TEST_F(Retry, AnAnswerBetweenTimerAndBottomHalfCounts)
{
	auto l = link();
	Packet ack;

	drop([&](bool from_a, const Packet &p, u32) {
		if (!from_a)
			ack = p;
		return !from_a;
	});
	l->b.recv({b.sge(0, 64)});
	l->a.post({.sges = {a.sge(0, 64)}});
	settle(100'000);
	ASSERT_EQ(ack.opcode(), SIRDMA_BTH_ACK);
	fabric.clock()->advance(20'000'000);
	ASSERT_TRUE(a.host.has_deferred());

	snic_seg seg = {ack.bytes.data() + ack.bth, static_cast<u32>(ack.bytes.size() - ack.bth)};
	snic_rx_pkt rx{};

	rx.src_ip = b.ip;
	rx.dst_ip = a.ip;
	rx.segs = &seg;
	rx.nsegs = 1;
	rx.len = seg.len;
	rx.is_v4 = true;
	rx.icrc_ok = true;
	snic_rx(a.host.dev(), &rx);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	settle();
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(fabric.clock()->next(), ~0ull) << "the timer of an idle queue pair runs on";
}

TEST_F(Retry, NoTimerWithoutTimeout)
{
	QpOptions o;
	o.timeout = 0;
	auto l = link(o);
	drop([](bool from_a, const Packet &, u32 nth) { return from_a && nth == 1; });
	l->b.recv({b.sge(0, 100)});
	l->b.recv({b.sge(0, 100)});
	l->a.post({.sges = {a.sge(0, 10)}});
	settle(20'000'000'000ull);
	EXPECT_TRUE(silent(l->a));
	// The next message makes the responder notice.
	l->a.place({.sges = {a.sge(0, 10)}});
	fabric.set_filter(nullptr);
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
}

TEST_F(Retry, LostAcknowledgementDeliversOnce)
{
	drop([](bool from_a, const Packet &p, u32 nth) {
		return !from_a && p.opcode() == SIRDMA_BTH_ACK && nth == 1;
	});
	check_all_kinds();
}

TEST_F(Retry, EveryPacketLostOnceInTurn)
{
	// All kinds take a few dozen packets: lose the nth of each direction.
	for (u32 n = 0; n < 40; n++) {
		for (bool dir : {true, false}) {
			SCOPED_TRACE((dir ? "a " : "b ") + std::to_string(n));
			auto seen = std::make_shared<u32>(0);
			fabric.set_filter([=, this](TestHost &from, Packet &) {
				if ((&from == &a.host) == dir && (*seen)++ == n)
					return Verdict::drop;
				return Verdict::pass;
			});
			check_all_kinds();
		}
	}
}

TEST_F(Retry, EveryPacketLostTwiceInTurn)
{
	for (u32 n = 0; n < 36; n++) {
		for (bool dir : {true, false}) {
			SCOPED_TRACE((dir ? "a " : "b ") + std::to_string(n));
			auto seen = std::make_shared<u32>(0);
			auto victim = std::make_shared<std::optional<u32>>();
			auto left = std::make_shared<u32>(2);
			fabric.set_filter([=, this](TestHost &from, Packet &pkt) {
				if ((&from == &a.host) != dir || !*left)
					return Verdict::pass;
				if (!*victim && (*seen)++ == n)
					*victim = pkt.psn();
				if (*victim != pkt.psn())
					return Verdict::pass;
				--*left;
				return Verdict::drop;
			});
			check_all_kinds();
		}
	}
}

TEST_F(Retry, EveryPacketDuplicated)
{
	fabric.faults().duplicate = 1;
	check_all_kinds();
	fabric.faults().jitter_ns = 5000;
	check_all_kinds();
}

TEST_F(Retry, ReorderedPackets)
{
	for (int i = 0; i < 20; i++) {
		fabric.faults().reorder = 0.2;
		fabric.faults().reorder_ns = 3000;
		check_all_kinds();
	}
}

// Nothing is lost. Each NAK takes one of the requester's retries.
TEST_F(Retry, AReversedBurstTakesFewRetries)
{
	constexpr u32 burst = 12;
	QpOptions o;
	o.retry_cnt = 2;
	auto l = link(o);
	std::vector<std::vector<u8>> packets;
	fabric.set_filter([&](TestHost &, Packet &pkt) {
		packets.push_back(pkt.bytes);
		return Fabric::Verdict::drop;
	});
	for (u32 i = 0; i < burst; i++)
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(64 * i, 64)},
			    .remote = b.va(64 * i),
			    .rkey = b.mr.stag()});
	l->a.kick(true);
	settle(100'000);
	ASSERT_EQ(packets.size(), burst);
	fabric.set_filter(nullptr);
	for (auto it = packets.rbegin(); it != packets.rend(); ++it)
		fabric.inject(*it);
	for (u32 i = 0; i < burst; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_LE(b.stat(SIRDMA_STAT_SEQ_NAK_SENT), 2u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
}

TEST_F(Retry, SequenceNakBeatsTheTimer)
{
	QpOptions o;
	o.timeout = 20; // 4.3 s
	auto l = link(o);
	drop([&](bool from_a, const Packet &p, u32 nth) {
		return from_a && p.psn() == o.a_psn + 2 && nth <= 2;
	});
	l->b.recv({b.sge(0, 65536)});
	l->a.post({.sges = {a.sge(0, 50000)}});
	u64 start = now();
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_LT(now() - start, 1'000'000u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_SEQ_NAK_SENT), 2u) << "one NAK for one loss";
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
}

TEST_F(Retry, LostReadResponseBeatsTheTimer)
{
	QpOptions o;
	o.timeout = 20;
	auto l = link(o);
	drop([&](bool from_a, const Packet &p, u32 nth) {
		return !from_a && p.psn() == o.a_psn + 5 && nth <= 2;
	});
	b.mem->fill(44);
	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(0, 200000)},
		   .remote = b.va(),
		   .rkey = b.mr.stag()});
	u64 start = now();
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_LT(now() - start, 1'000'000u);
	EXPECT_EQ(memcmp(a.data(), b.data(), 200000), 0);
}

TEST_F(Retry, RnrTimerIsHonoured)
{
	static constexpr u64 us[32] = {655360, 10,     20,     30,    40,    60,    80,
				       120,    160,    240,    320,   480,   640,   960,
				       1280,   1920,   2560,   3840,  5120,  7680,  10240,
				       15360,  20480,  30720,  40960, 61440, 81920, 122880,
				       163840, 245760, 327680, 491520};

	for (u32 code = 0; code < 32; code++) {
		SCOPED_TRACE(code);
		QpOptions o;
		o.min_rnr_timer = static_cast<u8>(code);
		auto l = link(o);
		u64 nak = 0, again = 0;
		u32 tries = 0;
		fabric.set_filter([&](TestHost &from, Packet &) {
			if (&from != &a.host)
				nak = nak ? nak : now();
			else if (++tries == 2)
				again = now();
			return Verdict::pass;
		});
		l->a.post({.sges = {a.sge(0, 10)}});
		settle(100'000 > us[code] * 500 ? 5000 : 100'000);
		l->b.recv({b.sge(0, 10)});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(tries, 2u);
		EXPECT_EQ(again - nak - fabric.faults().delay_ns, us[code] * 1000);
		fabric.set_filter(nullptr);
	}
}

TEST_F(Retry, RnrGivesUpAfterExactlyTheCount)
{
	for (u8 retries : {0, 1, 6}) {
		QpOptions o;
		o.rnr_retry = retries;
		o.retry_cnt = 1;
		auto l = link(o);
		u64 naks = b.stat(SIRDMA_STAT_RNR_NAK_SENT);
		l->a.post({.sges = {a.sge(0, 10)}});
		expect_error(wait_send(l->a), SIRDMA_FLUSH_RNR_RETRY_EXC,
			     SIRDMA_VENDOR_RNR_RETRY_EXC);
		EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT) - naks, retries + 1u);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS) << "the responder just waits";
	}
}

TEST_F(Retry, RnrSevenIsForEver)
{
	QpOptions o;
	o.rnr_retry = 7;
	o.retry_cnt = 0;
	o.min_rnr_timer = 1;
	auto l = link(o);
	l->a.post({.sges = {a.sge(0, 4000)}});
	fabric.run_until([&] { return b.stat(SIRDMA_STAT_RNR_NAK_SENT) >= 200; }, 1'000'000'000);
	EXPECT_GE(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 200u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_SEQ_NAK_SENT), 0u) << "packets behind an RNR NAK are no loss";
	l->b.recv({b.sge(0, 4000)});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
}

// Who answers that it is not ready is there: what was lost before counts no more.
TEST_F(Retry, RnrNakRestoresTheRetryCount)
{
	QpOptions o;
	o.rnr_retry = 7;
	o.retry_cnt = 1;
	o.min_rnr_timer = 1;
	auto l = link(o);
	// Every other request is lost.
	drop([](bool from_a, const Packet &, u32 nth) { return from_a && nth % 2; });
	l->a.post({.sges = {a.sge(0, 10)}});
	fabric.run_until([&] { return b.stat(SIRDMA_STAT_RNR_NAK_SENT) >= 10; }, 10'000'000'000);
	EXPECT_GE(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 10u);
	EXPECT_GE(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 10u);
	l->b.recv({b.sge(0, 10)});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
}

// A receiver that stays unready is asked ever more rarely: the questions and their answers must
// not take the processor from the program that is to post the receive.
TEST_F(Retry, RnrWaitsGrowWithoutProgress)
{
	constexpr u64 asked = 10'000;
	QpOptions o;
	o.min_rnr_timer = 1;
	auto l = link(o);
	std::vector<u64> tries;
	fabric.set_filter([&](TestHost &from, Packet &) {
		if (&from == &a.host)
			tries.push_back(now());
		return Verdict::pass;
	});
	for (int i = 0; i < 60; i++)
		l->a.place({.sges = {a.sge(0, 3000)}});
	l->a.kick(true);
	settle(1000); // the first window is on its way
	tries.clear();
	u64 naks = b.stat(SIRDMA_STAT_RNR_NAK_SENT);
	settle(50'000'000);
	EXPECT_LT(b.stat(SIRDMA_STAT_RNR_NAK_SENT) - naks, 60u);
	EXPECT_EQ(tries.size(), b.stat(SIRDMA_STAT_RNR_NAK_SENT) - naks - 1) << "one packet is "
										"enough to ask "
										"again";
	ASSERT_GT(tries.size(), 10u);
	u64 last = 0;
	for (size_t i = 1; i < tries.size(); i++) {
		u64 gap = tries[i] - tries[i - 1];
		EXPECT_GE(gap, asked);
		EXPECT_GE(gap, last);
		EXPECT_LT(gap, 5'000'000u) << "nor does it fall asleep";
		last = gap;
	}
	EXPECT_GE(last, 1'000'000u);
	// Each message takes a receive posted late; progress makes it impatient again.
	for (int i = 0; i < 60; i++) {
		l->b.recv({b.sge(0, 3000)});
		EXPECT_EQ(wait_recv(l->b).len, 3000u);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		tries.clear();
		settle(asked * 3);
		if (i < 59) {
			EXPECT_GE(tries.size(), 1u) << "message " << i;
		}
	}
}

TEST_F(Retry, RnrNeverWaitsLessThanAsked)
{
	QpOptions o;
	o.min_rnr_timer = 22; // 20.48 ms, beyond any back-off
	auto l = link(o);
	std::vector<u64> tries;
	fabric.set_filter([&](TestHost &from, Packet &) {
		if (&from == &a.host)
			tries.push_back(now());
		return Verdict::pass;
	});
	l->a.post({.sges = {a.sge(0, 10)}});
	settle(200'000'000);
	ASSERT_GE(tries.size(), 9u);
	for (size_t i = 1; i < tries.size(); i++) {
		EXPECT_GE(tries[i] - tries[i - 1], 20'480'000u);
		EXPECT_LT(tries[i] - tries[i - 1], 20'500'000u);
	}
}

TEST_F(Retry, RnrForImmediateOfAWrite)
{
	auto l = link();
	a.mem->fill(8);
	l->a.post({.op = SIRDMA_OP_WRITE,
		   .sges = {a.sge(0, 5000)},
		   .remote = b.va(4096),
		   .rkey = b.mr.stag(),
		   .imm = 3});
	settle(100'000);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	l->b.recv({});
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(wait_recv(l->b).imm, 3u);
	EXPECT_EQ(memcmp(b.data(4096), a.data(0), 5000), 0);
}

TEST_F(Retry, RemovedAddressStopsTraffic)
{
	QpOptions o;
	o.timeout = 12;
	auto l = link(o);
	l->b.recv({b.sge(0, 10)});
	l->b.recv({b.sge(0, 10)});
	ASSERT_EQ(a.drv.set_sgid(0, a.ip, a.mac().data(), false), SIRDMA_CQP_OK);
	u64 sent = fabric.packets_sent();
	l->a.post({.sges = {a.sge(0, 10)}});
	settle(40'000'000);
	EXPECT_EQ(fabric.packets_sent(), sent);
	EXPECT_GE(a.stat(SIRDMA_STAT_TX_DROPS), 2u);
	ASSERT_EQ(a.drv.set_sgid(0, a.ip, a.mac().data()), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	// Neither does a removed address receive.
	ASSERT_EQ(b.drv.set_sgid(0, b.ip, b.mac().data(), false), SIRDMA_CQP_OK);
	l->a.post({.sges = {a.sge(0, 10)}});
	expect_error(wait_send(l->a), SIRDMA_FLUSH_RETRY_EXC, SIRDMA_VENDOR_RETRY_EXC);
	EXPECT_GE(b.stat(SIRDMA_STAT_RX_BAD_GID), 8u);
}

TEST_F(Retry, NeighbourMoveIsFollowed)
{
	auto l = link();
	u8 mac[6] = {0x02, 0x53, 0x49, 9, 9, 9};
	l->b.recv({b.sge(0, 10)});
	l->b.recv({b.sge(0, 10)});
	l->a.post({.sges = {a.sge(0, 10)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	snic_mac_set(b.host.dev(), mac); // the fabric no longer delivers to the old one
	l->a.post({.sges = {a.sge(0, 10)}});
	settle(2'000'000);
	EXPECT_TRUE(silent(l->a));
	ASSERT_EQ(a.drv.set_arp(0, mac), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
}

TEST_F(Retry, WindowBoundsWhatIsInFlight)
{
	HostOptions ho;
	ho.cfg.window_bytes = 16384;
	Node c(fabric, 3, false, ho);
	c.learn(b);
	EXPECT_EQ(b.drv.set_arp(0, c.mac().data()), SIRDMA_CQP_OK);
	Link l(c, b, {}, {});
	l.b.recv({b.sge(0, 1 << 20)});
	u32 high = 0;
	fabric.set_filter([&](TestHost &from, Packet &p) {
		if (&from == &c.host)
			high = p.psn();
		return Verdict::drop;
	});
	l.a.post({.sges = {c.sge(0, 1 << 20)}});
	settle(10'000);
	EXPECT_EQ(high, 0x100u + 15);
	fabric.set_filter(nullptr);
	EXPECT_FALSE(wait_send(l.a).error);
	EXPECT_EQ(memcmp(b.data(), c.data(), 1 << 20), 0);
}

TEST_F(Retry, BurstsAreAsLongAsSuitsThePeer)
{
	struct Case {
		snic_limits limits;
		u32 longest;
	};
	const Case cases[] = {
		{{0, 0}, SNIC_BURST_DEFAULT},
		{{SNIC_BURST_BYTES, 1 << 20}, SNIC_BURST_PKTS * 4096},
		{{20000, 1 << 20}, 4 * 4096},
		{{SNIC_BURST_BYTES, 100000}, 24 * 4096}, // all of the window
		{{4096, 4096}, 4096},
	};
	QpOptions opts;

	opts.mtu = 4096;
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		for (const Case &c : cases) {
			SCOPED_TRACE(testing::Message()
				     << int{op} << " " << c.limits.burst << " " << c.limits.window);
			Link l(a, b, opts, opts);
			Node &sender = op == SIRDMA_OP_READ ? b : a;

			for (int round = 0; round < 8; round++) {
				// The window grows and the host speaks after the first.
				for (Node *n : {&a, &b})
					n->host.set_limits(c.limits);
				l.a.post({.op = op,
					  .sges = {a.sge(0, 2 << 20)},
					  .remote = b.va(),
					  .rkey = b.mr.stag()});
				ASSERT_FALSE(wait_send(l.a).error);
			}
			if (op == SIRDMA_OP_READ)
				EXPECT_LE(sender.host.longest_burst(), c.longest);
			else
				EXPECT_EQ(sender.host.longest_burst(), c.longest);
		}
	}
	for (Node *n : {&a, &b})
		n->host.set_limits({});
}

// In the middle of a message all packets are of one length: as many as segmentation offload takes at once.
TEST_F(Retry, LongMessagesGoInTrains)
{
	QpOptions opts;

	opts.mtu = 4096;
	Link l(a, b, opts, opts);
	// The first burst, whose first packet is longer, does not count.
	fabric.set_filter([&](TestHost &from, Packet &p) {
		if (&from == &a.host && p.opcode() == SIRDMA_BTH_WRITE_FIRST)
			a.host.set_limits({});
		return Verdict::pass;
	});
	l.a.post({.op = SIRDMA_OP_WRITE,
		  .sges = {a.sge(0, 2 << 20)},
		  .remote = b.va(),
		  .rkey = b.mr.stag()});
	ASSERT_FALSE(wait_send(l.a).error);
	fabric.set_filter(nullptr);
	EXPECT_EQ(a.host.longest_burst(), u32{SNIC_BURST_GSO});
}

} // namespace
