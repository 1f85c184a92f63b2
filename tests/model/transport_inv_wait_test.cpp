// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Invalidations that wait, for users of the key or for READs that came before, and what happens meanwhile: errors of
// the queue pair, refusals of later requests, other invalidations of the same key.
#include "transport.hpp"

extern "C" {
#include "model/mr.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u32 length = 3000; // three packets
constexpr size_t inbox = 1 << 20; // offset of receive buffers

class InvalidateWait : public Transport {
protected:
	InvalidateWait() : fa(fast(a)), fb(fast(b)) {}

	// A region of a slot made by ALLOC_STAG, over all of the node's memory.
	static MrParams fast(Node &n, u32 idx = 10)
	{
		MrParams mr = n.mr;

		mr.idx = idx;
		mr.key = 0x10;
		mr.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
			    SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;
		EXPECT_EQ(n.drv.alloc_stag(mr.stag()), SIRDMA_CQP_OK);
		EXPECT_EQ(n.drv.reg_mr(mr), SIRDMA_CQP_OK);
		return mr;
	}
	// A user of the region, as another queue pair in the middle of a packet. Null: the key is invalid.
	static snic_mr *use(Node &n, const MrParams &mr)
	{
		sirdma_ae_code ae;

		return snic_mr_get(n.host.dev(), mr.stag(), mr.pd, mr.va, 1, 0, &ae);
	}
	static bool usable(Node &n, const MrParams &mr)
	{
		snic_mr *found = use(n, mr);

		if (found)
			snic_mr_put(found);
		return found;
	}
	Wr send_inv(u32 stag, u32 len = length)
	{
		return {.op = SIRDMA_OP_SEND_INV, .sges = {a.sge(0, len)}, .rkey = stag};
	}

	// A READ whose end invalidates fa, which a user delays.
	Wr read_inv()
	{
		return {.op = SIRDMA_OP_READ_LOC_INV,
			.sges = {{a.va(inbox), length, fa.stag()}},
			.remote = b.va(),
			.rkey = b.mr.stag()};
	}
	Wr write(u32 rkey)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(0, 8)},
			.remote = b.va(2 * inbox),
			.rkey = rkey};
	}
	Wr read(u32 rkey)
	{
		return {.op = SIRDMA_OP_READ,
			.sges = {a.sge(0, length)},
			.remote = b.va(),
			.rkey = rkey};
	}

	// What @l.a has placed arrives in one batch: the receiver runs other queue pairs before that of @l.
	void kick_batch(Link &l)
	{
		while (others_.size() < 4)
			others_.push_back(link());
		fabric.faults().delay_ns = 0;
		l.a.kick(true);
		for (auto &other : others_)
			b.host.ring(other->b.id);
	}

	static constexpr u32 no_key = 0x7700;
	MrParams fa, fb; // of each node

private:
	std::vector<std::unique_ptr<Link>> others_;
};

// The last user of the key leaves, and before the queue pair notices it fails by another packet.
TEST_F(InvalidateWait, AReceiveThatWasFlushedDoesNotCompleteOnceMore)
{
	constexpr int posted = 3;
	auto l = link(), other = link();
	snic_mr *user = use(b, fb);
	std::optional<Packet> nak;

	ASSERT_TRUE(user);
	for (int i = 0; i < posted; i++)
		l->b.recv({b.sge(inbox + 4096 * i, length)});
	l->a.post(send_inv(fb.stag()));
	settle();
	EXPECT_FALSE(usable(b, fb)) << "it does not wait";
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from != &a.host)
			return Verdict::pass;
		nak = pkt;
		return Verdict::drop;
	});
	l->b.post({.op = SIRDMA_OP_WRITE, .sges = {b.sge(0, 8)}, .remote = a.va(), .rkey = no_key});
	settle();
	ASSERT_TRUE(nak);
	ASSERT_EQ(nak->opcode(), SIRDMA_BTH_ACK);
	fabric.set_filter(nullptr);
	b.host.ring(other->b.id); // the host runs it first, and then delivers the NAK
	snic_mr_put(user);
	fabric.inject(nak->bytes);
	settle();
	expect_error(wait_send(l->b), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	for (int i = 0; i < posted; i++)
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_FALSE(l->b.poll(false));
}

// The peer fails while the READ waits, and answers nothing after that.
TEST_F(InvalidateWait, ARefusalMeanwhileIsReported)
{
	for (u8 timeout : {10, 0}) {
		QpOptions o;

		o.timeout = timeout;
		auto l = link(o);
		snic_mr *user = use(a, fa);

		ASSERT_TRUE(user);
		for (const Wr &wr :
		     {read_inv(), write(b.mr.stag()), write(no_key), write(b.mr.stag())})
			l->a.place(wr);
		l->a.kick(true);
		settle();
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		EXPECT_TRUE(silent(l->a));
		snic_mr_put(user);
		expect_ok(wait_send(l->a), SIRDMA_OP_READ_LOC_INV);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		fa.key++;
		ASSERT_EQ(a.drv.reg_mr(fa), SIRDMA_CQP_OK);
	}
}

// The responses to a READ between them were dropped, and there will be no others.
TEST_F(InvalidateWait, ARefusalMeanwhileFailsAReadBeforeIt)
{
	QpOptions o;

	o.timeout = 0;
	auto l = link(o);
	snic_mr *user = use(a, fa);

	ASSERT_TRUE(user);
	for (const Wr &wr : {read_inv(), read(b.mr.stag()), write(no_key)})
		l->a.place(wr);
	l->a.kick(true);
	settle();
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
	snic_mr_put(user);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ_LOC_INV);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
}

// A NAK that belongs to nothing in flight says nothing.
TEST_F(InvalidateWait, AStaleRefusalMeanwhileIsIgnored)
{
	auto l = link();
	snic_mr *user = use(a, fa);
	std::optional<Packet> ack;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (!ack && &from == &b.host && pkt.opcode() == SIRDMA_BTH_ACK)
			ack = pkt;
		return Verdict::pass;
	});
	ASSERT_TRUE(user);
	l->a.post(write(b.mr.stag()));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	ASSERT_TRUE(ack);
	l->a.place(read_inv());
	l->a.place(write(b.mr.stag()));
	l->a.kick(true);
	settle();
	ack->bytes[ack->bth + 12] = SIRDMA_AETH_NAK | SIRDMA_NAK_REM_ACCESS;
	seal(*ack);
	fabric.inject(ack->bytes);
	settle();
	snic_mr_put(user);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ_LOC_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// However long it takes: the peer is not asked in vain.
TEST_F(InvalidateWait, TheAckTimeoutDoesNotCountAnswersThatAreDropped)
{
	auto l = link();
	snic_mr *user = use(a, fa);

	ASSERT_TRUE(user);
	l->a.place(read_inv());
	l->a.place(write(b.mr.stag()));
	l->a.kick(true);
	settle(2'000'000'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	snic_mr_put(user);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ_LOC_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// Its requester may not repeat anything, and need not.
TEST_F(InvalidateWait, NothingIsRepeatedBecauseOfAReadBefore)
{
	QpOptions o;

	o.retry_cnt = 0;
	auto l = link(o);

	for (bool batch : {true, false}) {
		l->b.recv({b.sge(inbox, length)});
		l->a.place(read(fb.stag()));
		l->a.place(send_inv(fb.stag(), 100));
		if (batch) {
			l->a.place(write(b.mr.stag()));
			kick_batch(*l);
		} else {
			// The answer waits for room in the host's queue, and so does the key.
			b.host.set_room(false);
			l->a.kick(true);
			settle();
			EXPECT_FALSE(l->b.poll(false));
			EXPECT_TRUE(usable(b, fb));
			b.host.set_room(true);
		}
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
		if (batch)
			expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
		EXPECT_EQ(wait_recv(l->b).inv, fb.stag());
		EXPECT_FALSE(usable(b, fb));
		fb.key++;
		ASSERT_EQ(b.drv.reg_mr(fb), SIRDMA_CQP_OK);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_SEQ_NAK_SENT), 0u);
}

TEST_F(InvalidateWait, ARefusalIsReportedBehindAReadToo)
{
	QpOptions o;

	o.retry_cnt = 0;
	auto l = link(o);

	l->b.recv({b.sge(inbox, length)});
	l->a.place(read(b.mr.stag()));
	l->a.place(send_inv(b.mr.stag(), 100));
	kick_batch(*l);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
	EXPECT_TRUE(usable(b, b.mr));
}

// The READ that it waits for is refused, or the queue pair goes: no receive completes, and the key stays.
TEST_F(InvalidateWait, NothingIsInvalidatedIfAReadBeforeFails)
{
	constexpr u32 page = 2;
	const u64 block = b.mem->blocks()[page];
	MrParams other = fast(b, 11);

	for (bool refused : {true, false}) {
		auto l = link(), helper = link();
		Wr first = read(other.stag());

		first.remote = b.va(page * 4096 - 1024);
		b.drv.write_pble(other.first_pble + page, block | SIRDMA_PBLE_ABSENT);
		l->b.recv({b.sge(inbox, length)});
		l->a.place(first);
		l->a.place(send_inv(fb.stag()));
		l->a.kick(true);
		settle();
		EXPECT_FALSE(l->b.poll(false));
		EXPECT_TRUE(usable(b, fb));
		if (refused) {
			helper->b.post(local_inv(other.stag()));
			expect_ok(wait_send(helper->b), SIRDMA_OP_LOCAL_INV);
			b.drv.write_pble(other.first_pble + page, block);
			expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS,
				     SIRDMA_VENDOR_REM_ACCESS);
			other.key++;
			ASSERT_EQ(b.drv.reg_mr(other), SIRDMA_CQP_OK);
		} else {
			l->b.error();
			b.drv.write_pble(other.first_pble + page, block);
		}
		settle();
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_FALSE(l->b.poll(false));
		EXPECT_TRUE(usable(b, fb));
	}
}

// Whoever finds the key invalid already may be faster than the one that made it so.
TEST_F(InvalidateWait, NobodyCompletesBeforePeersLoseWhatTheyRead)
{
	auto l = link(), other = link();
	snic_mr *user = use(a, fa);

	ASSERT_TRUE(user);
	l->a.place(local_inv(fa.stag()));
	l->a.kick(true);
	settle();
	EXPECT_TRUE(silent(l->a));
	const u64 before = a.host.references_finished();
	snic_mr_put(user);
	other->a.place(local_inv(fa.stag()));
	other->a.kick(true);
	ASSERT_EQ(a.host.references_finished(), before + 1);
	expect_ok(wait_send(other->a), SIRDMA_OP_LOCAL_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	EXPECT_EQ(a.host.references_finished(), before + 2);
}

} // namespace
