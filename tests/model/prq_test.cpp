// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page requests: the device asks its driver for memory that a page list lacks, and says when what an entry named is used
// no more.
#include "prq.hpp"

#include <atomic>
#include <thread>

using namespace sirdma::test;
using namespace sirdma::test::prq;

TEST_F(PageRequests, ResponderAsksForAllThatAWriteNeeds)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	const auto event = b.drv.next_aeqe();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->code, u32{SIRDMA_AE_PAGE_REQUEST});
	EXPECT_EQ(event->event_ctx, cookie);
	EXPECT_FALSE(at_a.next());
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

TEST_F(PageRequests, ResponderAsksForTheRestOfAReceiveBuffer)
{
	auto l = link();

	set(b, 1, SIRDMA_PBLE_ABSENT);
	l->b.recv({b.sge(0, 8 * page)});
	l->a.post(wr(SIRDMA_OP_SEND, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 1, 7);
	set(b, 1, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
}

TEST_F(PageRequests, ReadIsAnsweredAtOnceWhenTheDriverRings)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

// The driver does not answer the request, and the peer does not repeat its own.
TEST_F(PageRequests, ResponderAsksAgainForMemoryOfARead)
{
	auto l = link({.timeout = 0});

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	for (u32 n = 0; n < 5; n++) {
		settle(1100 * ms);
		expect_request(at_b, b, l->b, 2, 2);
	}
	set(b, 2, 0);
	expect_ok(wait(l->a, true, 1100 * ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
	while (at_b.next())
		;
	settle(5000 * ms);
	EXPECT_FALSE(at_b.next());
}

TEST_F(PageRequests, ReadWhoseFirstByteIsAbsentNamesItsWholeLength)
{
	auto l = link();

	set(b, 0, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 0, 4);
	EXPECT_GE(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	set(b, 0, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

// The usual attributes. An RNR NAK keeps the requester from giving up.
TEST_F(PageRequests, ReadThatHasBegunWaitsForItsMemory)
{
	auto l = link({.timeout = 14, .retry_cnt = 7});
	u64 waited = 0;

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	for (u32 s = 0; s < 12; s++) {
		settle(1000 * ms);
		while (const auto got = at_b.next())
			waited = got->waited;
	}
	EXPECT_TRUE(silent(l->a));
	EXPECT_GE(waited, 11u);
	EXPECT_LT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 12u * 17);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

// A request that is not answered is not complete: the MSN does not count it.
TEST_F(PageRequests, NakOfAReadCarriesTheMsnBeforeIt)
{
	for (const bool fails : {false, true}) {
		const u8 kind = fails ? SIRDMA_AETH_NAK : SIRDMA_AETH_RNR_NAK;
		auto l = link({.timeout = 0});

		set(b, 2, SIRDMA_PBLE_ABSENT);
		const auto requests = read_requests(*l, 2);
		ASSERT_EQ(requests.size(), 2u);
		if (fails) {
			// The second request came after the responder had asked, so it asks again.
			repeat(requests[0]);
			EXPECT_TRUE(naks(kind).empty());
			set(b, 2, error_of(l->b));
		}
		repeat(requests[0]);
		const auto sent = naks(kind);
		ASSERT_EQ(sent.size(), 1u);
		EXPECT_EQ(sent[0].psn(), l->a.opts.a_psn + (fails ? 0 : 8));
		EXPECT_EQ(msn(sent[0]), 0u);
		set(b, 2, 0);
	}
}

// A requester with few RNR retries would fail by them long before its ACK timeouts do.
TEST_F(PageRequests, ReaderWithFewRnrRetriesWaitsByItsAckTimeouts)
{
	auto l = link({.timeout = 18, .retry_cnt = 7, .rnr_retry = 1}); // 1.07 s

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(3000 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_GE(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 2u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

TEST_F(PageRequests, ARepetitionGetsOneNak)
{
	auto l = link({.timeout = 0});

	set(b, 2, SIRDMA_PBLE_ABSENT);
	const auto requests = read_requests(*l, 2);
	ASSERT_EQ(requests.size(), 2u);
	for (u32 n = 0; n < 10; n++)
		l->b.kick(true);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u) << "nothing was repeated";
	repeat(requests[0]);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	repeat(requests[1]); // which waits behind the first one
	for (u32 n = 0; n < 10; n++)
		l->b.kick(true);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	repeat(requests[0], 4);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 2u) << "one more repetition";
	EXPECT_EQ(naks(SIRDMA_AETH_RNR_NAK).size(), 2u);
	set(b, 2, 0);
	l->b.kick(true);
	for (u32 n = 0; n < 2; n++)
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

// The responses that the host has not accepted, and the NAK behind them, follow when it has room again.
TEST_F(PageRequests, ResponsesBeforeAbsentMemoryWaitForRoomOnly)
{
	HostOptions one_packet;

	one_packet.tx_room = 1;
	Node c(fabric, 3, false, one_packet);
	Prq at_c(c, 16);
	Wr read = wr(SIRDMA_OP_READ, length);
	const QpOptions options{.mtu = 4096, .timeout = 0};
	const auto responses = [&] {
		u32 n = 0;

		for (const Packet &pkt : fabric.sent())
			n += pkt.opcode() == SIRDMA_BTH_READ_RESP_FIRST ||
			     pkt.opcode() == SIRDMA_BTH_READ_RESP_MIDDLE;
		return n;
	};

	ASSERT_EQ(at_c.create(), SIRDMA_CQP_OK);
	ASSERT_EQ(a.drv.set_arp(0, c.mac().data()), SIRDMA_CQP_OK);
	c.learn(a);
	Link l(a, c, options, options);
	set(c, 2, SIRDMA_PBLE_ABSENT);
	read.remote = c.va();
	read.rkey = c.mr.stag();
	fabric.record(true);
	l.a.post(read);
	settle(ms / 10);
	EXPECT_EQ(responses(), 2u);
	const Packet request = fabric.sent()[0];
	ASSERT_EQ(request.opcode(), SIRDMA_BTH_READ_REQUEST);
	fabric.sent().clear();
	repeat(request);
	EXPECT_EQ(responses(), 2u);
	EXPECT_EQ(naks(SIRDMA_AETH_RNR_NAK).size(), 1u);
	EXPECT_EQ(c.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	set(c, 2, 0);
	l.b.kick(true);
	expect_ok(wait_send(l.a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), c.data(), length), 0);
}

// Each page comes when its turn is there, and later than the ACK timeout.
TEST_F(PageRequests, ReadOfAColdRegionTakesItsPagesAsTheyCome)
{
	const size_t pages = b.mem->blocks().size();
	auto l = link({.timeout = 14, .retry_cnt = 7});

	for (size_t n = 0; n < pages; n++)
		set(b, n, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, static_cast<u32>(pages * page)));
	for (size_t n = 0; n < pages; n++) {
		settle(100 * ms);
		const auto got = at_b.next();
		ASSERT_TRUE(got);
		EXPECT_EQ(got->block, n);
		while (at_b.next())
			;
		set(b, n, 0);
		l->b.kick(true);
	}
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), pages * page), 0);
}

TEST_F(PageRequests, RequesterAsksForItsOwnMemoryAndContinuesWhenTheDriverRings)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_a, a, l->a, 2, 2);
		set(a, 2, 0);
		l->a.kick(true);
		expect_ok(wait(l->a, true, ms), op);
		while (at_a.next())
			;
	}
}

// Reclaim takes pages of both sides again and again, so that all of them are present only for a moment. A requester that stayed in its
// RNR wait after the response would miss that moment.
TEST_F(PageRequests, ResponseEndsTheRnrWaitWhenOwnMemoryIsAbsent)
{
	auto l = link({.timeout = 14, .rnr_retry = 7});

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	ASSERT_TRUE(
		fabric.run_until([&] { return a.stat(SIRDMA_STAT_RNR_NAK_RCVD) == 1; }, 1000 * ms));
	set(a, 2, SIRDMA_PBLE_ABSENT);
	set(b, 2, 0);
	l->b.kick(true);
	settle(ms / 10);
	expect_request(at_a, a, l->a, 2, 2);
	set(a, 2, 0);
	l->a.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

// The deadline of a wait that a kick has ended says nothing about later requests.
TEST_F(PageRequests, WithoutAnAckTimeoutNoPacketCountsAsLostAfterAWait)
{
	auto l = link({.timeout = 0, .retry_cnt = 0, .rnr_retry = 7});

	set(a, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	EXPECT_GT(wait_absent(20), 15u);
	set(a, 2, 0);
	l->a.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(3000 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
}

// The device waits for a slow driver, as one has whose memory is on a file server, and asks about once a second.
TEST_F(PageRequests, OwnMemoryMayComeLate)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		const u32 asked = wait_absent(300);
		EXPECT_GT(asked, 280u);
		EXPECT_LT(asked, 310u);
		l->a.kick(true);
		EXPECT_LT(wait_absent(2), 5u) << "a kick does not begin again with short waits";
		EXPECT_FALSE(l->a.poll(true));
		set(a, 2, 0);
		expect_ok(wait_send(l->a), op);
	}
}

TEST_F(PageRequests, ALongWaitEndsWithItsQueuePairOrItsQueue)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		wait_absent(100);
		l->a.error();
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_EQ(wait_absent(5), 0u);
	}
	auto l = link();
	l->a.post(wr(SIRDMA_OP_READ, length));
	wait_absent(100);
	ASSERT_EQ(at_a.destroy(), SIRDMA_CQP_OK);
	expect_error(wait(l->a, true, 2000 * ms), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

// Responses that are dropped because memory is absent are answers. What else is lost takes no retry from them.
TEST_F(PageRequests, AnswersToAWaitingReadTakeNoRetry)
{
	auto l = link({.retry_cnt = 1});

	fabric.faults().reorder = 0.3; // responses of one READ arrive when it was repeated
	set(a, 2, SIRDMA_PBLE_ABSENT);
	for (u32 n = 0; n < 4; n++)
		l->a.post(wr(SIRDMA_OP_READ, length));
	for (u32 n = 0; n < 3000; n++) {
		settle(1000); // responses are on their way for longer
		l->a.kick(true);
		while (at_a.next())
			;
	}
	EXPECT_FALSE(l->a.poll(true));
	fabric.faults() = {};
	set(a, 2, 0);
	l->a.kick(true);
	for (u32 n = 0; n < 4; n++)
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

TEST_F(PageRequests, AtomicAsksForOneBlock)
{
	auto l = link();

	set(b, 0, SIRDMA_PBLE_ABSENT);
	l->a.post({.op = SIRDMA_OP_FETCH_ADD,
		   .sges = {a.sge(0, 8)},
		   .remote = b.va(),
		   .rkey = b.mr.stag(),
		   .swap_add = 1});
	settle(ms / 10);
	expect_request(at_b, b, l->b, 0, 1);
	set(b, 0, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
}

// A request tells the driver for how long its queue pair has sent and received nothing new.
TEST_F(PageRequests, SayForHowLongTheQueuePairWaits)
{
	constexpr u64 unit = 1ull << SIRDMA_PRQ_WAITED_SHIFT;
	auto l = link({.rnr_retry = 7});

	for (const u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		for (const bool own : {false, true}) {
			SCOPED_TRACE(testing::Message() << "op " << int{op} << ", own " << own);
			Node &node = own ? a : b;
			Prq &prq = own ? at_a : at_b;
			u64 waited = 0;

			set(node, 0, SIRDMA_PBLE_ABSENT);
			set(node, 3, SIRDMA_PBLE_ABSENT);
			l->a.post(wr(op, length));
			settle(ms / 10);
			const auto first = prq.next();
			ASSERT_TRUE(first);
			EXPECT_EQ(first->block, 0u);
			EXPECT_EQ(first->waited, 0u);
			for (u32 n = 0; n < 20; n++) {
				while (const auto got = prq.next()) {
					EXPECT_GE(got->waited, std::max<u64>(waited, 1));
					EXPECT_LE(got->waited, n + 1);
					waited = got->waited;
				}
				settle(unit);
			}
			EXPECT_EQ(waited, 15u);
			// With the memory there is progress, as far as the next block.
			while (prq.next())
				;
			set(node, 0, 0);
			std::optional<Request> next;
			ASSERT_TRUE(fabric.run_until(
				[&] { return (next = prq.next()).has_value(); }, 2 * unit));
			EXPECT_EQ(next->block, 3u);
			EXPECT_EQ(next->waited, 0u);
			set(node, 3, 0);
			expect_ok(wait_send(l->a), op);
			while (prq.next())
				;
		}
	}
}

// A response that is sent again is no progress.
TEST_F(PageRequests, RepeatedReadsAreNoProgress)
{
	auto l = link({.timeout = 0, .rnr_retry = 1});
	u64 waited = 0;

	set(b, 2, SIRDMA_PBLE_ABSENT);
	const auto requests = read_requests(*l, 1);
	ASSERT_EQ(requests.size(), 1u);
	for (u32 n = 0; n < 15; n++) {
		settle(1000 * ms);
		repeat(requests[0], n % 2 ? 4 : 0);
		while (const auto got = at_b.next())
			waited = std::max(waited, got->waited);
	}
	EXPECT_GE(waited, 11u);
	EXPECT_LT(waited, 15u);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
}

// A datagram that was placed ends the wait for memory of the one before.
TEST_F(PageRequests, DatagramsThatArriveAreProgress)
{
	const QpOptions options{.type = SIRDMA_QPT_UD, .timeout = 0};
	Qp from(a, options), to(b, options);
	sirdma_av *av = a.drv.av(1);

	for (Qp *qp : {&from, &to}) {
		qp->to_init();
		qp->context()->path_mtu = options.mtu;
		ASSERT_EQ(qp->modify(SIRDMA_QPS_RTR, SIRDMA_QPC_MOD_MTU, SIRDMA_QPS_INIT),
			  SIRDMA_CQP_OK);
		ASSERT_EQ(qp->modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_SQ_PSN, SIRDMA_QPS_RTR),
			  SIRDMA_CQP_OK);
	}
	av->mac = sirdma_mac_to_word(b.mac().data());
	av->dst_ip = b.ip;
	av->udp_sport = 0xc123;
	av->hop_limit = 64;
	__atomic_store_n(&av->ctrl,
			 SIRDMA_PREP(SIRDMA_AV_PD, pd) | SIRDMA_PREP(SIRDMA_AV_SEQ, 1) |
				 SIRDMA_AV_VALID,
			 __ATOMIC_SEQ_CST);
	const auto send = [&] {
		from.post({.sges = {a.sge(0, 64)},
			   .remote = sirdma_send_dest(to.id, options.qkey),
			   .rkey = 1});
		expect_ok(wait_send(from), SIRDMA_OP_SEND);
		settle(ms / 10);
	};

	for (u32 n = 0; n < 2; n++) {
		set(b, 0, SIRDMA_PBLE_ABSENT);
		to.recv({b.sge(0, page)});
		send();
		auto got = at_b.next();
		ASSERT_TRUE(got);
		EXPECT_EQ(got->waited, 0u);
		settle(3000 * ms);
		send();
		got = at_b.next();
		ASSERT_TRUE(got);
		EXPECT_EQ(got->waited, 3u);
		set(b, 0, 0);
		send();
		EXPECT_EQ(wait_recv(to).len, 64u + SIRDMA_GRH_LEN);
		settle(20'000 * ms);
	}
}

// What one side of a queue pair does is no progress of the other one.
TEST_F(PageRequests, OneSideWaitsWhileTheOtherIsBusy)
{
	constexpr u64 unit = 1ull << SIRDMA_PRQ_WAITED_SHIFT;
	const auto write = [](Node &from, Node &to, size_t at) {
		return Wr{.op = SIRDMA_OP_WRITE,
			  .sges = {from.sge(at, 64)},
			  .remote = to.va() + at,
			  .rkey = to.mr.stag()};
	};

	for (const bool requester : {true, false}) {
		SCOPED_TRACE(requester ? "requester" : "responder");
		auto l = link({.rnr_retry = 7});
		Qp &waits = requester ? l->a : l->b, &busy = requester ? l->b : l->a;
		u64 waited = 0;

		set(a, 0, SIRDMA_PBLE_ABSENT);
		waits.post(write(waits.node, busy.node, 0));
		for (u32 n = 0; n < 12; n++) {
			busy.post(write(busy.node, waits.node, 3 * page));
			expect_ok(wait_send(busy), SIRDMA_OP_WRITE);
			settle(unit);
			while (const auto got = at_a.next())
				waited = got->waited;
		}
		EXPECT_GE(waited, 11u);
		set(a, 0, 0);
		expect_ok(wait_send(waits), SIRDMA_OP_WRITE);
		while (at_a.next())
			;
	}
}

// The queue pair that waits asks again each time that it tries.
TEST_F(PageRequests, RequestsThatFindNoRoomAreMadeAgain)
{
	auto l = link();
	u32 seen = 0;

	set(a, 0, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, page));
	settle(20000 * ms); // some 30 tries
	EXPECT_EQ(a.stat(SIRDMA_STAT_PAGE_REQUESTS), 16u);
	EXPECT_GT(a.stat(SIRDMA_STAT_PAGE_REQUESTS_LOST), 0u);
	EXPECT_TRUE(silent(l->a));
	while (at_a.next(false))
		seen++;
	EXPECT_EQ(seen, 16u);
	at_a.ack(16);
	l->a.kick(true);
	expect_request(at_a, a, l->a, 0, 1);
	EXPECT_FALSE(at_a.next());
	set(a, 0, 0);
	l->a.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_WRITE);
}

TEST_F(PageRequests, CommandsCheckTheQueue)
{
	Prq other(a, 16);

	EXPECT_EQ(other.create(), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(at_a.destroy(), SIRDMA_CQP_OK);
	EXPECT_EQ(at_a.destroy(), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(other.create(3, page), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(other.create(16, 8), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(other.create(), SIRDMA_CQP_OK);
}

TEST_F(PageRequests, ResetEndsTheQueue)
{
	a.host.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(snic_reg_read(a.host.dev(), SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
	EXPECT_EQ(a.host.dev()->prq.entries, 0u);
}

// A data path that found an entry before it was written may still use the memory.
TEST_F(PageRequests, SyncWaitsForTheUsersOfAnEntry)
{
	auto l = link();
	snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);
	std::atomic<bool> synced{false};

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	set(b, 2, SIRDMA_PBLE_ABSENT);
	std::thread driver([&] {
		b.host.write32(SIRDMA_REG_PBLESYNC, pd);
		synced = true;
	});
	for (int i = 0; i < 1000; i++) {
		std::this_thread::yield();
		ASSERT_FALSE(synced);
	}
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	driver.join();
	EXPECT_TRUE(synced);
}

TEST_F(PageRequests, SyncWaitsForNoOtherProtectionDomain)
{
	auto l = link();
	snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	b.host.write32(SIRDMA_REG_PBLESYNC, pd + 1);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
}

// A reset destroys all queue pairs. It takes none out of the sight of a driver that takes memory back.
TEST_F(PageRequests, SyncWaitsForTheUsersOfAnEntryDuringAReset)
{
	auto l = link();
	snic_dev *dev = b.host.dev();
	snic_qp *qp = snic_qp_get(dev, l->b.id);
	std::atomic<bool> synced{false};
	const auto is_there = [&] {
		u32 id = l->b.id;
		return snic_table_seek(&dev->qps, &id) && id == l->b.id;
	};

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	std::thread reset([&] { snic_qp_destroy_all(dev); });
	for (int i = 0; i < 1000 && is_there(); i++)
		std::this_thread::yield();
	std::thread driver([&] {
		b.host.write32(SIRDMA_REG_PBLESYNC, pd);
		synced = true;
	});
	for (int i = 0; i < 1000 && !synced; i++)
		std::this_thread::yield();
	EXPECT_FALSE(synced);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	driver.join();
	reset.join();
	EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_NO_OBJECT);
}
