// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Each NAK and each local error: status and vendor error on both sides, the
// flush behind it, the events.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

class Errors : public Transport {
protected:
	// The requester's failure and the flush of everything behind it.
	void expect_send_failure(Qp &qp, u16 minor, u32 vendor, u32 idx, int flushed)
	{
		Wc wc = wait_send(qp);
		expect_error(wc, minor, vendor);
		EXPECT_EQ(wc.idx, idx);
		for (int i = 0; i < flushed; i++)
			expect_error(wait_send(qp), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		settle();
		EXPECT_FALSE(qp.poll(true));
		EXPECT_EQ(qp.state(), SIRDMA_QPS_ERR);
	}
	void expect_event(Node &node, u32 code, u32 qpn)
	{
		auto e = node.drv.next_aeqe();
		ASSERT_TRUE(e);
		EXPECT_EQ(e->code, code);
		EXPECT_EQ(e->id, qpn);
		EXPECT_EQ(e->event_ctx, 0xeee0000ull + qpn);
	}
	void drain_events(Node &node)
	{
		while (node.drv.next_aeqe())
			;
	}
	Wr write(u64 remote, u32 rkey, u32 len = 100)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(0, len)},
			.remote = remote,
			.rkey = rkey};
	}
	Wr read(u64 remote, u32 rkey, u32 len = 100)
	{
		return {.op = SIRDMA_OP_READ,
			.sges = {a.sge(0, len)},
			.remote = remote,
			.rkey = rkey};
	}
	// A remote access violation: NAK, both QPs in error, one event at the responder.
	void remote_access(const Wr &wr, u32 ae)
	{
		auto l = link();
		settle();
		drain_events(b);
		std::vector<u8> before(b.data(), b.data() + b.mem->size());
		l->b.recv({b.sge(0, 64)});
		u32 idx = l->a.place(wr);
		l->a.place({.sges = {a.sge(0, 8)}});
		l->a.kick(true);
		expect_send_failure(l->a, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS, idx,
				    1);
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		expect_event(b, ae, l->b.id);
		EXPECT_FALSE(b.drv.next_aeqe());
		EXPECT_FALSE(a.drv.next_aeqe()) << "the completion tells it already";
		EXPECT_EQ(memcmp(before.data(), b.data(), before.size()), 0);
	}
};

TEST_F(Errors, WriteWithWrongKey)
{
	remote_access(write(b.va(), b.mr.stag() ^ 1), SIRDMA_AE_AMP_BAD_STAG_KEY);
}

TEST_F(Errors, WriteWithUnknownKey)
{
	remote_access(write(b.va(), 0x77700), SIRDMA_AE_AMP_UNALLOCATED_STAG);
}

TEST_F(Errors, WriteBeyondTheRegion)
{
	remote_access(write(b.va() + b.mem->size() - 99, b.mr.stag()),
		      SIRDMA_AE_AMP_BOUNDS_VIOLATION);
}

// The messages lie in a block of which the region has a part.
TEST_F(Errors, EachMessageOfABurstMustLieInTheRegion)
{
	for (Node *node : {&a, &b}) {
		for (size_t beyond : {50u, 5096u}) {
			MrParams mr = node->mr;
			mr.idx = 7;
			mr.va = node->va() + 100;
			mr.len = 5000;
			ASSERT_EQ(node->drv.reg_mr(mr), SIRDMA_CQP_OK);
			size_t within = beyond < 4096 ? 200 : 4096;
			auto l = link();
			for (size_t at : {within, within + 8, beyond}) {
				Wr wr = write(b.va(at), b.mr.stag(), 8);
				if (node == &a)
					wr.sges = {{a.va(at), 8, mr.stag()}};
				else
					wr.rkey = mr.stag();
				l->a.place(wr);
			}
			l->a.kick(true);
			expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
			expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
			expect_error(wait_send(l->a),
				     node == &a ? SIRDMA_FLUSH_PROT : SIRDMA_FLUSH_REM_ACCESS,
				     node == &a ? SIRDMA_VENDOR_LOC_PROT :
						  SIRDMA_VENDOR_REM_ACCESS);
			ASSERT_EQ(node->drv.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
		}
	}
}

TEST_F(Errors, LongWriteBeyondTheRegionPlacesNothing)
{
	remote_access(write(b.va() + b.mem->size() - 5000, b.mr.stag(), 5001),
		      SIRDMA_AE_AMP_BOUNDS_VIOLATION);
}

TEST_F(Errors, ReadBeyondTheRegion)
{
	remote_access(read(b.va() - 1, b.mr.stag()), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
}

TEST_F(Errors, ReadOfAWriteOnlyRegion)
{
	MrParams mr = b.mr;
	mr.idx = 7;
	mr.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
		    SIRDMA_ACCESS_REMOTE_WRITE;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	remote_access(read(b.va(), mr.stag()), SIRDMA_AE_AMP_RIGHTS_VIOLATION);
}

TEST_F(Errors, WriteToAnotherProtectionDomain)
{
	MrParams mr = b.mr;
	mr.idx = 7;
	mr.pd = 2;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	remote_access(write(b.va(), mr.stag()), SIRDMA_AE_AMP_BAD_PD);
}

TEST_F(Errors, EmptyWriteNeedsNoKey)
{
	auto l = link();
	l->a.post(write(0, 0xdead, 0));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	l->a.post(read(0, 0xdead, 0));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

TEST_F(Errors, OperationTheResponderDoesNotAllow)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		QpOptions o;
		o.access = op == SIRDMA_OP_WRITE ? SIRDMA_ACCESS_REMOTE_READ :
						   SIRDMA_ACCESS_REMOTE_WRITE;
		auto l = link(o);
		Wr wr = write(b.va(), b.mr.stag());
		wr.op = op;
		u32 idx = l->a.post(wr);
		expect_send_failure(l->a, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ, idx,
				    0);
		drain_events(a);
		while (auto e = b.drv.next_aeqe())
			EXPECT_TRUE(e->code == SIRDMA_AE_IB_INVALID_REQUEST ||
				    e->code == SIRDMA_AE_CONNECTION_ESTABLISHED);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
	}
}

TEST_F(Errors, SendLongerThanTheReceive)
{
	for (u32 len : {101u, 5000u}) {
		auto l = link();
		drain_events(b);
		memset(b.data(0), 0xee, 8192);
		u32 ridx = l->b.recv({b.sge(0, 100)});
		l->b.recv({b.sge(0, 100)});
		u32 idx = l->a.post({.sges = {a.sge(0, len)}});
		expect_send_failure(l->a, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ, idx,
				    0);
		Wc wc = wait_recv(l->b);
		expect_error(wc, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
		EXPECT_EQ(wc.idx, ridx);
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		for (int i = 100; i < 8192; i++)
			ASSERT_EQ(b.data(0)[i], 0xee) << "byte beyond the receive at " << i;
	}
}

TEST_F(Errors, ReceiveIntoForbiddenMemory)
{
	MrParams ro = b.mr;
	ro.idx = 9;
	ro.access = SIRDMA_ACCESS_LOCAL_READ;
	ASSERT_EQ(b.drv.reg_mr(ro), SIRDMA_CQP_OK);
	auto l = link();
	u32 ridx = l->b.recv({{b.va(), 100, ro.stag()}});
	u32 idx = l->a.post({.sges = {a.sge(0, 10)}});
	expect_send_failure(l->a, SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP, idx, 0);
	Wc wc = wait_recv(l->b);
	expect_error(wc, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(wc.idx, ridx);
}

TEST_F(Errors, LocalProtectionErrorWaitsItsTurn)
{
	auto l = link();
	for (int i = 0; i < 4; i++)
		l->b.recv({b.sge(0, 4096)});
	l->a.place({.sges = {a.sge(0, 3000)}});
	u32 bad = l->a.place({.sges = {{a.va(), 10, 0x12345}}});
	l->a.place({.sges = {a.sge(0, 8)}});
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	expect_send_failure(l->a, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT, bad, 1);
	EXPECT_EQ(wait_recv(l->b).len, 3000u);
	settle();
	EXPECT_FALSE(l->b.poll(false)) << "nothing behind the failed request was sent";
}

TEST_F(Errors, ReadIntoForbiddenMemory)
{
	MrParams ro = a.mr;
	ro.idx = 9;
	ro.access = SIRDMA_ACCESS_LOCAL_READ;
	ASSERT_EQ(a.drv.reg_mr(ro), SIRDMA_CQP_OK);
	auto l = link();
	Wr wr = read(b.va(), b.mr.stag());
	wr.sges = {{a.va(), 100, ro.stag()}};
	u32 idx = l->a.post(wr);
	expect_send_failure(l->a, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT, idx, 0);
}

TEST_F(Errors, DeregisteredMidwayIsARemoteAccessError)
{
	MrParams mr = b.mr;
	mr.idx = 11;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();
		Wr wr = write(b.va(), mr.stag(), 1 << 20);
		wr.op = op;
		l->a.post(wr);
		fabric.run_until([&] { return b.stat(SIRDMA_STAT_RX_PKTS) > 3; }, 1'000'000);
		ASSERT_EQ(b.drv.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		mr.key++;
		ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	}
}

TEST_F(Errors, UnknownOpcodeInTheRing)
{
	for (u8 op : {0x02, 0x07, 0x09, 0x0e, 0x10, 0x3f}) {
		auto l = link();
		l->b.recv({b.sge(0, 64)});
		l->a.place({.sges = {a.sge(0, 64)}});
		u32 idx = l->a.place({.op = op, .sges = {a.sge(0, 8)}});
		l->a.kick(true);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		expect_send_failure(l->a, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP, idx, 0);
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_WQE_INVALID), 6u);
}

TEST_F(Errors, ReadWithoutOutboundReads)
{
	QpOptions o;
	o.ord = 0;
	auto l = link(o);
	u32 idx = l->a.post(read(b.va(), b.mr.stag()));
	expect_send_failure(l->a, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP, idx, 0);
}

TEST_F(Errors, MoreReadsThanTheResponderTakes)
{
	QpOptions oa, ob;
	oa.ord = 8;
	ob.ird = 0;
	Link l(a, b, oa, ob);
	u32 idx = l.a.post(read(b.va(), b.mr.stag()));
	expect_send_failure(l.a, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ, idx, 0);
}

TEST_F(Errors, OutboundReadsStayWithinTheLimit)
{
	for (u8 ord : {1, 2, 5}) {
		QpOptions o;
		o.ord = o.ird = ord;
		auto l = link(o);
		for (int i = 0; i < 20; i++)
			l->a.place(read(b.va(static_cast<size_t>(i) * 3000), b.mr.stag(), 3000));
		l->a.kick(true);
		for (int i = 0; i < 20; i++)
			expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	}
}

TEST_F(Errors, FencedSendWaitsForReads)
{
	auto l = link();
	l->b.recv({b.sge(4096, 64)});
	a.mem->fill(5);
	b.mem->fill(6);
	l->a.place(read(b.va(), b.mr.stag(), 64));
	l->a.place({.sges = {a.sge(0, 64)}, .fence = true});
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(memcmp(b.data(4096), b.data(0), 64), 0) << "the READ's data was sent back";
}

TEST_F(Errors, ErrorStateFlushesBothQueuesAndLaterPosts)
{
	auto l = link();
	for (int i = 0; i < 5; i++)
		l->a.recv({a.sge(0, 64)});
	for (int i = 0; i < 3; i++)
		l->a.place({.sges = {a.sge(0, 64)}, .signaled = false});
	l->a.error();
	for (int i = 0; i < 3; i++)
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	for (int i = 0; i < 5; i++)
		expect_error(wait_recv(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	for (int i = 0; i < 2000; i++) {
		l->a.post({.sges = {a.sge(0, 64)}});
		l->a.recv({a.sge(0, 64)});
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		expect_error(wait_recv(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	}
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(l->a.flush(), SIRDMA_CQP_OK);
	EXPECT_EQ(l->b.flush(), SIRDMA_CQP_BAD_STATE);
}

TEST_F(Errors, NopsAreNotFlushed)
{
	auto l = link();
	l->a.place({.op = SIRDMA_OP_NOP});
	l->a.place({.op = SIRDMA_OP_NOP, .signaled = false});
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_NOP);
	EXPECT_TRUE(silent(l->a));
	l->a.place({.op = SIRDMA_OP_NOP});
	l->a.error();
	EXPECT_TRUE(silent(l->a));
}

TEST_F(Errors, CompletionQueueOverflowEndsTheQueuePair)
{
	QpOptions o;
	Qp qa(a, o, 8), qb(b, o);
	qa.to_init();
	qb.to_init();
	qa.to_rtr(b, qb.id, o.b_psn);
	qb.to_rtr(a, qa.id, o.a_psn);
	qa.to_rts(o.a_psn);
	qb.to_rts(o.b_psn);
	drain_events(a);
	for (int i = 0; i < 40; i++)
		qb.recv({b.sge(0, 8)});
	for (int i = 0; i < 40; i++)
		qa.place({.sges = {a.sge(0, 8)}});
	qa.kick(true);
	settle(100'000'000);
	EXPECT_EQ(qa.state(), SIRDMA_QPS_ERR);
	bool cq = false, qp = false;
	while (auto e = a.drv.next_aeqe()) {
		cq |= e->code == SIRDMA_AE_CQ_CATASTROPHIC && e->id == qa.scq.id;
		qp |= e->code == SIRDMA_AE_QP_CATASTROPHIC && e->id == qa.id;
	}
	EXPECT_TRUE(cq);
	EXPECT_TRUE(qp);
}

// Nobody could be told of the rest: the device leaves it in the rings instead of going through all of it.
TEST_F(Errors, FlushEndsWhereTheCompletionQueueDies)
{
	QpOptions o;
	o.sq_quanta = 4096;
	o.rq_wqes = 1024;
	Qp qp(a, o, 8);
	qp.to_init();
	for (int i = 0; i < 1000; i++)
		qp.recv({a.sge(0, 8)});
	for (int i = 0; i < 2000; i++)
		qp.place({.sges = {a.sge(0, 8)}});
	qp.error();
	settle();
	EXPECT_LT(le64_to_cpu(qp.area()->sq_tail), 16u);
	int done = 0;
	while (qp.poll(true))
		done++;
	EXPECT_EQ(done, 7) << "all that fit";
	// It says where it stopped, and posting more makes it do no more.
	qp.kick(true);
	settle();
	EXPECT_LT(le64_to_cpu(qp.area()->sq_tail), 16u);
	EXPECT_FALSE(qp.poll(true));
}

// A host looks at all its peers to finish references.
TEST_F(Errors, AFlushFinishesReferencesOnce)
{
	constexpr u32 count = 300;
	QpOptions o;
	o.sq_quanta = 2048;

	u64 before = a.host.references_finished();
	Qp idle(a, o);
	idle.to_init();
	for (u32 i = 0; i < count; i++)
		idle.place({.sges = {a.sge(0, 8)}});
	idle.error();
	settle();
	for (u32 i = 0; i < count; i++)
		expect_error(wait_send(idle), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(a.host.references_finished(), before) << "nothing was transmitted";

	auto l = link(o);
	fabric.set_filter([](TestHost &, Packet &) { return Fabric::Verdict::drop; });
	for (u32 i = 0; i < count; i++)
		l->a.place({.sges = {a.sge(0, 100)}});
	l->a.kick(true);
	EXPECT_EQ(a.host.references_finished(), before);
	l->a.error();
	EXPECT_EQ(a.host.references_finished(), before + 1) << "before anybody can be told";
	settle();
	for (u32 i = 0; i < count; i++)
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	fabric.set_filter(nullptr);
	l.reset();
	EXPECT_EQ(a.host.references_finished(), before + 1);

	// Responses to a READ are of the responder's memory; its owner takes it back by the end of the QP.
	l = link();
	before = b.host.references_finished();
	l->a.post(read(b.va(), b.mr.stag()));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(b.host.references_finished(), before);
	l.reset();
	EXPECT_EQ(b.host.references_finished(), before + 1);
}

TEST_F(Errors, WqesRewrittenInFlightHurtOnlyTheirOwner)
{
	auto l = link();
	// Lose everything once, so that the requester reads its ring again.
	bool lose = true;
	fabric.set_filter([&](TestHost &, Packet &) {
		return lose ? Fabric::Verdict::drop : Fabric::Verdict::pass;
	});
	l->b.recv({b.sge(0, 8192)});
	u32 idx = l->a.post({.sges = {a.sge(0, 5000)}});
	settle(100'000);
	u64 frag = l->a.quantum(idx)->frag_stag;
	l->a.quantum(idx)->frag_stag = (frag & ~SIRDMA_FRAG_LEN) | SIRDMA_PREP(SIRDMA_FRAG_LEN, 77);
	lose = false;
	expect_send_failure(l->a, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP, idx, 0);
	EXPECT_FALSE(l->b.poll(false));
}

} // namespace
