// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page requests that the driver answers with an error: the device fails the access that waited for the page, and no other,
// and tells the driver.
#include "prq.hpp"

using namespace sirdma::test;
using namespace sirdma::test::prq;

TEST_F(PageRequests, MemoryThatIsNotThereFailsTheAccess)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(b, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_b, b, l->b, 2, 2);
		set(b, 2, error_of(l->b));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		expect_failure(at_b, l->b, 2);
		// The responder's own event names an access violation.
		bool violation = false;
		while (const auto event = b.drv.next_aeqe())
			violation |= event->code == SIRDMA_AE_AMP_BOUNDS_VIOLATION;
		EXPECT_TRUE(violation);
		set(b, 2, 0);
		while (at_b.next())
			;
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
	EXPECT_GE(b.stat(SIRDMA_STAT_PAGE_ERRORS), 2u);
}

TEST_F(PageRequests, OwnMemoryThatIsNotThereFailsTheRequest)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_a, a, l->a, 2, 2);
		set(a, 2, error_of(l->a));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		expect_failure(at_a, l->a, 2);
		set(a, 2, 0);
		while (at_a.next())
			;
	}
}

TEST_F(PageRequests, ReceiveBufferThatIsNotThereFailsTheReceive)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->b.recv({b.sge(0, length)});
	l->a.post(wr(SIRDMA_OP_SEND, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, error_of(l->b));
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP);
}

// The driver found no memory for one queue pair; another one came later, and there may be memory by then.
TEST_F(PageRequests, TheErrorOfAnotherQueuePairIsAbsentMemory)
{
	auto other = link(), l = link();

	set(b, 2, error_of(other->b));
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(a, 2, error_of(other->a));
	set(b, 2, 0);
	settle(ms / 10);
	set(a, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(a.stat(SIRDMA_STAT_PAGE_ERRORS) + b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
	EXPECT_EQ(other->b.state(), SIRDMA_QPS_RTS);
}

// A mark that the queue pair did not wait for answered somebody who had its number before, or itself before its reset.
TEST_F(PageRequests, AnErrorThatAnswersNoRequestIsAbsentMemory)
{
	auto l = link();

	set(b, 2, error_of(l->b));
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
}

// Each message has a PSN of its own, also those that are dropped.
TEST_F(PageRequests, ReceiveOfAnUnreliableConnectionFailsWithoutMemory)
{
	auto l = link({.type = SIRDMA_QPT_UC});

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->b.recv({b.sge(0, length)});
	for (const bool answered : {false, true}) {
		l->a.post(wr(SIRDMA_OP_SEND, length));
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		settle(ms / 10);
		if (!answered) {
			EXPECT_TRUE(silent(l->b));
			expect_request(at_b, b, l->b, 2, 2);
			set(b, 2, error_of(l->b));
		}
	}
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

// Requests for one page do not answer those for the next.
TEST_F(PageRequests, TheErrorOfAPageThatWasReadIsAbsentMemory)
{
	auto l = link({.timeout = 0});

	set(b, 2, SIRDMA_PBLE_ABSENT);
	set(b, 3, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(ms / 10);
	const auto first = at_b.next();
	ASSERT_TRUE(first);
	const u64 mark = error_of(l->b);
	set(b, 2, 0);
	l->b.kick(true);
	settle(ms / 10);
	EXPECT_TRUE(at_b.next());
	set(b, 3, mark);
	l->b.kick(true);
	settle(ms / 10);
	EXPECT_TRUE(silent(l->a));
	std::optional<Request> latest;
	while (const auto got = at_b.next())
		latest = got;
	ASSERT_TRUE(latest);
	EXPECT_EQ(latest->block, 3u);
	EXPECT_NE(latest->gen, first->gen);
	set(b, 3, error_of(l->b));
	l->b.kick(true);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// A request that was made twice is answered when the access has succeeded, and the page has gone again.
TEST_F(PageRequests, TheErrorOfAnAccessBeforeIsAbsentMemory)
{
	for (const bool own : {false, true}) {
		Node &node = own ? a : b;
		Prq &prq = own ? at_a : at_b;
		auto l = link({.rnr_retry = 7});
		const Qp &qp = own ? l->a : l->b;

		set(node, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(SIRDMA_OP_WRITE, length));
		settle(ms / 10);
		auto first = prq.next();
		ASSERT_TRUE(first);
		const u64 mark = error_of(qp);
		set(node, 2, 0);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		while (prq.next())
			;
		set(node, 2, mark);
		l->a.post(wr(SIRDMA_OP_WRITE, length));
		u32 asked = 0;
		for (u32 n = 0; n < 5; n++) {
			settle(1100 * ms);
			while (const auto got = prq.next()) {
				EXPECT_FALSE(got->failed);
				EXPECT_NE(got->gen, first->gen);
				asked++;
			}
		}
		EXPECT_GE(asked, 5u);
		EXPECT_TRUE(silent(l->a));
		set(node, 2, 0);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(node.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
		while (prq.next())
			;
	}
}

// The driver answers a request when the queue pair was reset already, and asks for other memory by then.
class PageRequestsAfterReset : public PageRequests, public testing::WithParamInterface<u32> {};

TEST_P(PageRequestsAfterReset, AnErrorFromBeforeTheResetIsAbsentMemory)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	const u64 mark = error_of(l->b);
	for (Qp *qp : {&l->a, &l->b}) {
		ASSERT_EQ(qp->modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
		qp->empty_rings();
	}
	while (at_b.next())
		;
	b.host.dev()->prq.gen += GetParam(); // so many other queue pairs have asked meanwhile
	l->connect();
	set(b, 1, SIRDMA_PBLE_ABSENT);
	set(b, 2, mark);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 1, 3);
	EXPECT_NE(error_of(l->b), mark);
	set(b, 1, 0);
	settle(1000 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
}

// Generations go round after 2^20 - 1.
INSTANTIATE_TEST_SUITE_P(OthersAsked, PageRequestsAfterReset, testing::Values(0, 1, 1u << 19));
