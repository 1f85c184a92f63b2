// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// XRC: initiators whose requests name shared receive queues of the target's domain.
#include "transport.hpp"

#include <set>

extern "C" {
#include "model/packet.h"
#include "model/qp.h"
#include "model/srq.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u32 domain = 7;
constexpr size_t inbox = 1 << 20; // offset of receive buffers

u64 xrc_word(u32 xrcd, const TestCq &cq)
{
	return SIRDMA_CQP_SRQ_XRC | SIRDMA_PREP(SIRDMA_CQP_SRQ_XRCD, xrcd) |
	       SIRDMA_PREP(SIRDMA_CQP_SRQ_CQ, cq.id);
}

QpOptions initiator()
{
	QpOptions opts;

	opts.type = SIRDMA_QPT_XRC_INI;
	opts.rq_wqes = 0;
	return opts;
}

QpOptions target(u32 xrcd = domain)
{
	QpOptions opts;

	opts.type = SIRDMA_QPT_XRC_TGT;
	opts.xrcd = xrcd;
	opts.access |= SIRDMA_ACCESS_REMOTE_FLUSH;
	return opts;
}

class Xrc : public Transport {
protected:
	Xrc() : l(a, b, initiator(), target()), srq(queue()) { a.mem->fill(1), b.mem->fill(2); }

	// A queue of the domain whose completions are found at the target.
	std::unique_ptr<Srq> queue(u32 pd = 1, u32 number = 0, u32 xrcd = domain)
	{
		return std::make_unique<Srq>(b, 64, pd, xrc_word(xrcd, l.b.rcq), number);
	}
	Wr send(u32 len, size_t from = 0) { return {.sges = {a.sge(from, len)}, .srqn = srq->id}; }
	Wr transfer(u8 op, u32 len, u32 number = 0)
	{
		return {.op = op,
			.sges = {a.sge(0, len)},
			.remote = b.va(8192),
			.rkey = b.mr.stag(),
			.srqn = number ? number : srq->id};
	}
	int recv(u64 wr_id, u32 len = 65536, size_t to = inbox)
	{
		return srq->recv(wr_id, {b.sge(to, len)});
	}
	void refused(const Wr &wr)
	{
		l.a.post(wr);
		expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
		EXPECT_EQ(l.a.state(), SIRDMA_QPS_ERR);
		EXPECT_EQ(l.b.state(), SIRDMA_QPS_ERR);
	}
	// A region of its own over all of b's memory.
	MrParams region(u32 idx, u32 pd, bool may_be_invalidated = false)
	{
		MrParams mr = b.mr;

		mr.idx = idx;
		mr.pd = pd;
		if (may_be_invalidated) {
			EXPECT_EQ(b.drv.alloc_stag(mr.stag()), SIRDMA_CQP_OK);
		}
		EXPECT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
		return mr;
	}
	bool wait_fetched()
	{
		return fabric.run_until(
			[&] {
				snic_qp *of = snic_qp_get(b.host.dev(), l.b.id);
				const bool fetched = of->resp.rqe_valid;

				snic_qp_put(of);
				return fetched;
			},
			1'000'000'000);
	}
	// The next event of node b of another kind than an established connection.
	TestAeqe event()
	{
		for (;;) {
			const TestAeqe ae = b.drv.next_aeqe().value_or(TestAeqe{});

			if (ae.code != SIRDMA_AE_CONNECTION_ESTABLISHED)
				return ae;
		}
	}

	Link l;
	std::unique_ptr<Srq> srq;
};

TEST_F(Xrc, SendsArriveInTheQueueThatTheyName)
{
	std::unique_ptr<Srq> other = queue();

	ASSERT_EQ(recv(1), 0);
	ASSERT_EQ(other->recv(2, {b.sge(inbox + 65536, 65536)}), 0);

	Wr wr = send(5000);
	wr.srqn = other->id;
	wr.imm = 0x12345678;
	l.a.post(wr);
	Wc wc = wait_recv(l.b);
	expect_ok(wc, SIRDMA_BTH_SEND_LAST_IMM);
	EXPECT_EQ(wc.wr_id, 2u);
	EXPECT_EQ(wc.len, 5000u);
	EXPECT_EQ(wc.imm, 0x12345678u);
	EXPECT_EQ(memcmp(b.data(inbox + 65536), a.data(), 5000), 0);

	wr = send(0, 0);
	wr.sges.clear();
	wr.is_inline = true;
	wr.inl = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	l.a.post(wr);
	wc = wait_recv(l.b);
	expect_ok(wc, SIRDMA_BTH_SEND_ONLY);
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_EQ(memcmp(b.data(inbox), wr.inl.data(), wr.inl.size()), 0);
	for (int i = 0; i < 2; i++)
		expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
	EXPECT_EQ(l.b.state(), SIRDMA_QPS_RTS);
}

TEST_F(Xrc, EveryRequestHasTheNumberAndNoResponseHasIt)
{
	std::set<u8> requests, responses;

	fabric.set_filter([&](TestHost &sender, Packet &pkt) {
		EXPECT_EQ(pkt.opcode() & SIRDMA_BTH_TRANSPORT, SIRDMA_BTH_XRC);
		if (&sender == &a.host) {
			EXPECT_EQ(pkt.be32(pkt.bth + 12), srq->id);
			requests.insert(pkt.opcode() & SIRDMA_BTH_OPERATION);
		} else {
			responses.insert(pkt.opcode() & SIRDMA_BTH_OPERATION);
		}
		return Verdict::pass;
	});
	ASSERT_EQ(recv(1), 0);
	ASSERT_EQ(recv(2), 0);
	l.a.post(send(3000));
	l.a.post(transfer(SIRDMA_OP_WRITE, 3000));
	Wr imm = transfer(SIRDMA_OP_WRITE, 10);
	imm.imm = 5;
	l.a.post(imm);
	l.a.post(transfer(SIRDMA_OP_READ, 3000));
	l.a.post(transfer(SIRDMA_OP_FETCH_ADD, 8));
	for (int i = 0; i < 5; i++)
		EXPECT_FALSE(wait_send(l.a).error);
	EXPECT_EQ(requests,
		  (std::set<u8>{SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_SEND_MIDDLE, SIRDMA_BTH_SEND_LAST,
				SIRDMA_BTH_WRITE_FIRST, SIRDMA_BTH_WRITE_MIDDLE,
				SIRDMA_BTH_WRITE_LAST, SIRDMA_BTH_WRITE_ONLY_IMM,
				SIRDMA_BTH_READ_REQUEST, SIRDMA_BTH_FETCH_ADD}));
	EXPECT_EQ(responses, (std::set<u8>{SIRDMA_BTH_ACK, SIRDMA_BTH_READ_RESP_FIRST,
					   SIRDMA_BTH_READ_RESP_MIDDLE, SIRDMA_BTH_READ_RESP_LAST,
					   SIRDMA_BTH_ATOMIC_ACK}));
}

TEST_F(Xrc, WritesReadsAndAtomicsNeedNoReceive)
{
	u64 before, now;

	l.a.post(transfer(SIRDMA_OP_WRITE, 10000));
	expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(b.data(8192), a.data(), 10000), 0);

	b.mem->fill(3);
	l.a.post(transfer(SIRDMA_OP_READ, 10000));
	expect_ok(wait_send(l.a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(b.data(8192), a.data(), 10000), 0);

	memcpy(&before, b.data(8192), sizeof(before));
	Wr atomic = transfer(SIRDMA_OP_FETCH_ADD, 8);
	atomic.swap_add = 5;
	l.a.post(atomic);
	atomic.op = SIRDMA_OP_CMP_SWAP;
	atomic.compare = before + 5;
	atomic.swap_add = 99;
	l.a.post(atomic);
	expect_ok(wait_send(l.a), SIRDMA_OP_FETCH_ADD);
	expect_ok(wait_send(l.a), SIRDMA_OP_CMP_SWAP);
	memcpy(&now, b.data(8192), sizeof(now));
	EXPECT_EQ(now, 99u);
	memcpy(&now, a.data(), sizeof(now));
	EXPECT_EQ(now, before + 5);

	a.mem->fill(4);
	l.a.post(transfer(SIRDMA_OP_ATOMIC_WRITE, 8));
	expect_ok(wait_send(l.a), SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(memcmp(b.data(8192), a.data(), 8), 0);
	EXPECT_FALSE(l.b.poll(false));
}

TEST_F(Xrc, FlushesARegionThatPermitsIt)
{
	MrParams mr = b.mr;

	mr.idx = 20;
	mr.access |= SIRDMA_ACCESS_REMOTE_FLUSH;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);

	Wr wr = transfer(SIRDMA_OP_FLUSH, 0);
	wr.sges.clear();
	wr.rkey = mr.stag();
	wr.flush = sirdma_flush{
		.length = 100, .placement = SIRDMA_FLUSH_TO_GLOBAL, .level = SIRDMA_FLUSH_RANGE};
	l.a.post(wr);
	expect_ok(wait_send(l.a), SIRDMA_OP_FLUSH);
}

TEST_F(Xrc, WriteWithImmediateTakesAReceive)
{
	ASSERT_EQ(recv(9), 0);
	Wr wr = transfer(SIRDMA_OP_WRITE, 3000);
	wr.imm = 77;
	l.a.post(wr);
	const Wc wc = wait_recv(l.b);
	expect_ok(wc, SIRDMA_BTH_WRITE_LAST_IMM);
	EXPECT_EQ(wc.wr_id, 9u);
	EXPECT_EQ(wc.imm, 77u);
	EXPECT_EQ(wc.len, 3000u);
	EXPECT_EQ(memcmp(b.data(8192), a.data(), 3000), 0);
}

TEST_F(Xrc, SeveralTargetsReceiveFromOneQueue)
{
	Link more(a, b, initiator(), target());
	u64 id = 0;

	for (u32 round = 0; round < 4; round++) {
		ASSERT_EQ(recv(++id), 0);
		ASSERT_EQ(recv(++id), 0);
		l.a.post(send(2000));
		more.a.post(send(2000));
		expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
		expect_ok(wait_send(more.a), SIRDMA_OP_SEND);
		std::set<u32> from;
		for (int i = 0; i < 2; i++) {
			const auto entry = l.b.rcq.poll();

			ASSERT_TRUE(entry);
			from.insert(static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_QPID, entry->cqe.qp)));
		}
		EXPECT_EQ(from, (std::set<u32>{l.b.id, more.b.id}));
	}
}

TEST_F(Xrc, ANumberThatNoQueueHasIsRefused)
{
	Wr wr = send(8);

	wr.srqn = 63;
	refused(wr);
	EXPECT_EQ(event().code, SIRDMA_AE_IB_INVALID_REQUEST);
	EXPECT_EQ(event().code, SIRDMA_AE_LAST_WQE_REACHED);
}

TEST_F(Xrc, ANumberBeyondTheTableIsRefused)
{
	Wr wr = transfer(SIRDMA_OP_READ, 8);

	wr.srqn = 0xffffff;
	refused(wr);
}

TEST_F(Xrc, AQueueOfAnotherDomainIsRefused)
{
	const std::unique_ptr<Srq> other = queue(1, 0, domain + 1);

	ASSERT_EQ(other->recv(1, {b.sge(inbox, 64)}), 0);
	Wr wr = send(8);
	wr.srqn = other->id;
	refused(wr);
	EXPECT_FALSE(l.b.poll(false));
}

TEST_F(Xrc, AnOrdinarySharedQueueIsRefused)
{
	Srq plain(b);

	ASSERT_EQ(plain.recv(1, {b.sge(inbox, 64)}), 0);
	refused(transfer(SIRDMA_OP_WRITE, 8, plain.id));
}

TEST_F(Xrc, AMessageThatChangesItsQueueIsRefused)
{
	const std::unique_ptr<Srq> other = queue();

	ASSERT_EQ(recv(1), 0);
	ASSERT_EQ(other->recv(2, {b.sge(inbox, 65536)}), 0);
	fabric.set_filter([&](TestHost &sender, Packet &pkt) {
		if (&sender != &a.host || pkt.opcode() != (SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_MIDDLE))
			return Verdict::pass;
		pkt.bytes[pkt.bth + 15] = static_cast<u8>(other->id);
		seal(pkt);
		return Verdict::pass;
	});
	refused(send(5000));
	// The queue that the message named first has lost its WQE.
	const Wc wc = wait_recv(l.b);
	expect_error(wc, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_FALSE(l.b.poll(false));
}

TEST_F(Xrc, AnEmptyQueueIsNotReady)
{
	l.a.post(send(8));
	settle(5'000'000);
	EXPECT_TRUE(silent(l.b));
	EXPECT_GT(a.stat(SIRDMA_STAT_RNR_NAK_RCVD), 0u);
	ASSERT_EQ(recv(1), 0);
	expect_ok(wait_recv(l.b), SIRDMA_BTH_SEND_ONLY);
	expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
}

TEST_F(Xrc, ADestroyedQueueIsRefused)
{
	ASSERT_EQ(recv(1), 0);
	l.a.post(send(8));
	expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
	ASSERT_EQ(srq->destroy(), SIRDMA_CQP_OK);
	refused(transfer(SIRDMA_OP_WRITE, 8));
}

/* The queue goes while a message is half there; the peer does not keep it. */
TEST_F(Xrc, AQueueIsDestroyedWithinAMessage)
{
	for (bool again : {false, true}) {
		SCOPED_TRACE(again);
		Link own(a, b, initiator(), target());
		bool hold = true;
		const u32 number = srq->id;

		ASSERT_EQ(recv(1), 0);
		fabric.set_filter([&](TestHost &sender, Packet &pkt) {
			return &sender == &a.host && hold &&
					       pkt.opcode() ==
						       (SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_LAST) ?
				       Verdict::drop :
				       Verdict::pass;
		});
		own.a.post(send(5000));
		settle(2'000'000);
		ASSERT_EQ(srq->destroy(), SIRDMA_CQP_OK);
		if (again) {
			srq = queue(1, number);
			ASSERT_EQ(recv(2), 0);
		}
		hold = false;
		expect_error(wait_send(own.a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
		settle();
		EXPECT_FALSE(l.b.poll(false)); // neither queue gets a completion
		srq = queue();
	}
}

/* The responses were lost. Without the queue its PD, by which the key is checked, may be another's by now. */
TEST_F(Xrc, AQueueIsDestroyedBeforeItsReadIsAnswered)
{
	bool hold = true;

	fabric.set_filter([&](TestHost &sender, Packet &pkt) {
		return &sender == &b.host && hold &&
				       pkt.opcode() != (SIRDMA_BTH_XRC | SIRDMA_BTH_ACK) ?
			       Verdict::drop :
			       Verdict::pass;
	});
	l.a.post(transfer(SIRDMA_OP_READ, 3000));
	settle();
	ASSERT_EQ(srq->destroy(), SIRDMA_CQP_OK);
	hold = false;
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

TEST_F(Xrc, KeysAreOfThePdOfTheQueue)
{
	const MrParams other_pd = region(20, 2);
	const std::unique_ptr<Srq> other = queue(2);
	Wr wr = transfer(SIRDMA_OP_READ, 3000, other->id);

	wr.rkey = other_pd.stag();
	// READs of two PDs are answered one behind the other.
	for (int i = 0; i < 4; i++)
		l.a.post(i % 2 ? wr : transfer(SIRDMA_OP_READ, 3000));
	for (int i = 0; i < 4; i++)
		expect_ok(wait_send(l.a), SIRDMA_OP_READ);
	wr.op = SIRDMA_OP_WRITE;
	l.a.post(wr);
	expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
	wr.srqn = srq->id;
	l.a.post(wr);
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

TEST_F(Xrc, ReceivesAreOfThePdOfTheQueue)
{
	const std::unique_ptr<Srq> other = queue(2);

	ASSERT_EQ(other->recv(1, {b.sge(inbox, 64)}), 0); // a key of PD 1
	Wr wr = send(8);
	wr.srqn = other->id;
	l.a.post(wr);
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP);
	expect_error(wait_recv(l.b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

TEST_F(Xrc, AMessageThatIsTooLongFailsBothEnds)
{
	ASSERT_EQ(recv(4, 10), 0);
	refused(send(11));
	const Wc wc = wait_recv(l.b);
	expect_error(wc, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
	EXPECT_EQ(wc.wr_id, 4u);
	EXPECT_EQ(event().code, SIRDMA_AE_LAST_WQE_REACHED);
}

TEST_F(Xrc, SendWithInvalidateWaitsForReadsAndInvalidates)
{
	const MrParams mr = region(20, 1, true);
	Wr inv = send(100);

	ASSERT_EQ(recv(1), 0);
	inv.op = SIRDMA_OP_SEND_INV;
	inv.rkey = mr.stag();
	for (int i = 0; i < 3; i++) {
		Wr read = transfer(SIRDMA_OP_READ, 65536);

		read.rkey = mr.stag();
		l.a.post(read);
	}
	l.a.post(inv);
	for (int i = 0; i < 3; i++)
		expect_ok(wait_send(l.a), SIRDMA_OP_READ);
	expect_ok(wait_send(l.a), SIRDMA_OP_SEND_INV);
	const Wc wc = wait_recv(l.b);
	expect_ok(wc, SIRDMA_BTH_SEND_ONLY_INV);
	EXPECT_EQ(wc.inv, mr.stag());
	EXPECT_EQ(wc.wr_id, 1u);

	Wr stale = transfer(SIRDMA_OP_WRITE, 8);
	stale.rkey = mr.stag();
	l.a.post(stale);
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

TEST_F(Xrc, LimitEventComesFromTheQueue)
{
	ASSERT_EQ(recv(1), 0);
	ASSERT_EQ(recv(2), 0);
	ASSERT_EQ(srq->arm(2), SIRDMA_CQP_OK);
	l.a.post(send(8));
	expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
	const TestAeqe ae = event();
	EXPECT_EQ(ae.code, SIRDMA_AE_SRQ_LIMIT);
	EXPECT_EQ(ae.id, srq->id);
}

TEST_F(Xrc, ErrorFlushesTheMessageThatIsHalfThere)
{
	ASSERT_EQ(recv(3), 0);
	ASSERT_EQ(recv(4), 0);
	fabric.set_filter([&](TestHost &sender, Packet &pkt) {
		return &sender == &a.host &&
				       pkt.opcode() == (SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_LAST) ?
			       Verdict::drop :
			       Verdict::pass;
	});
	l.a.post(send(5000));
	ASSERT_TRUE(wait_fetched());
	l.b.error();
	const Wc wc = wait_recv(l.b);
	expect_error(wc, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(wc.wr_id, 3u);
	EXPECT_FALSE(l.b.poll(false));
	const TestAeqe ae = event();
	EXPECT_EQ(ae.code, SIRDMA_AE_LAST_WQE_REACHED);
	EXPECT_EQ(ae.id, l.b.id);
	EXPECT_EQ(l.b.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
	EXPECT_EQ(l.b.state(), SIRDMA_QPS_RESET);
}

TEST_F(Xrc, EveryPacketMayBeLost)
{
	u32 n = 0;

	for (u32 drop = 0; drop < 24; drop++) {
		SCOPED_TRACE(drop);
		n = 0;
		fabric.set_filter([&](TestHost &, Packet &) {
			return n++ == drop ? Verdict::drop : Verdict::pass;
		});
		a.mem->fill(static_cast<u8>(drop));
		ASSERT_EQ(recv(drop), 0);
		l.a.post(send(3000));
		l.a.post(transfer(SIRDMA_OP_READ, 3000));
		l.a.post(transfer(SIRDMA_OP_FETCH_ADD, 8));
		for (int i = 0; i < 3; i++)
			ASSERT_FALSE(wait_send(l.a).error);
		const Wc wc = wait_recv(l.b);
		ASSERT_FALSE(wc.error);
		EXPECT_EQ(wc.wr_id, drop);
		EXPECT_EQ(memcmp(b.data(8192 + 8), a.data(8), 2992), 0);
	}
}

TEST_F(Xrc, PacketsOfTheWrongKindAreDropped)
{
	const auto rc = link();
	const auto dropped = [&](Node &to, u8 from_op, u8 opcode, Qp &poster, const Wr &wr) {
		const u64 before = to.stat(SIRDMA_STAT_RX_BAD_OPCODE);
		bool changed = false;

		fabric.set_filter([&](TestHost &, Packet &pkt) {
			if (pkt.opcode() != from_op || changed)
				return Verdict::pass;
			changed = true;
			pkt.bytes[pkt.bth] = opcode;
			seal(pkt);
			return Verdict::pass;
		});
		poster.post(wr);
		expect_ok(wait_send(poster), wr.op); // by a retransmission
		EXPECT_TRUE(changed);
		EXPECT_EQ(to.stat(SIRDMA_STAT_RX_BAD_OPCODE), before + 1);
	};

	ASSERT_EQ(recv(1), 0);
	rc->b.recv({b.sge(inbox, 64)});
	// RC's SEND to a target, XRC's to a QP of RC.
	dropped(b, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_SEND_ONLY, l.a, send(8));
	dropped(b, SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY, rc->a,
		{.sges = {a.sge(0, 8)}});
	// A request to an initiator, and a response to a target.
	ASSERT_EQ(recv(2), 0);
	dropped(a, SIRDMA_BTH_XRC | SIRDMA_BTH_ACK, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY, l.a,
		send(8));
	ASSERT_EQ(recv(3), 0);
	// An empty SEND is as long as an acknowledgement.
	Wr empty = send(0);
	empty.sges.clear();
	dropped(b, SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_XRC | SIRDMA_BTH_ACK, l.a,
		empty);
}

TEST_F(Xrc, KicksOfATargetDoNothing)
{
	for (int i = 0; i < 100; i++)
		b.host.kick(l.b.id);
	ASSERT_EQ(recv(1), 0);
	l.a.post(send(8));
	expect_ok(wait_recv(l.b), SIRDMA_BTH_SEND_ONLY);
	EXPECT_EQ(l.b.modify(SIRDMA_QPS_SQD, SIRDMA_QPC_MOD_SQD_EVENT), SIRDMA_CQP_OK);
	EXPECT_EQ(event().code, SIRDMA_AE_QP_SUSPEND_COMPLETE);
	EXPECT_EQ(l.b.modify(SIRDMA_QPS_RTS, 0), SIRDMA_CQP_OK);
}

TEST_F(Xrc, TheQueueKeepsItsCq)
{
	EXPECT_EQ(b.drv.destroy_cq(l.b.rcq), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(srq->destroy(), SIRDMA_CQP_OK);
	TestCq cq;
	ASSERT_EQ(b.drv.create_cq(cq, b.new_cq(), 16), SIRDMA_CQP_OK);
	EXPECT_EQ(srq->create(64, 1, xrc_word(domain, cq)), SIRDMA_CQP_OK);
	EXPECT_EQ(srq->destroy(), SIRDMA_CQP_OK);
	ASSERT_EQ(b.drv.destroy_cq(cq), SIRDMA_CQP_OK);
	EXPECT_EQ(srq->create(64, 1, xrc_word(domain, cq)), SIRDMA_CQP_NO_OBJECT);
	// What has a meaning only together with the flag.
	EXPECT_EQ(srq->create(64, 1, xrc_word(domain, l.b.rcq) & ~SIRDMA_CQP_SRQ_XRC),
		  SIRDMA_CQP_BAD_PARAM);
	b.host.free(cq.ring);
	b.host.free(cq.shadow);
}

TEST_F(Xrc, QueuesThatAnEndDoesNotHaveAreRefused)
{
	const auto create = [&](QpOptions opts, Qp &like) {
		like.opts = opts;
		return like.create(like.scq.id, like.rcq.id);
	};
	Qp tgt(b, target()), ini(b, initiator());
	QpOptions opts = target();

	ASSERT_EQ(tgt.destroy(), SIRDMA_CQP_OK);
	ASSERT_EQ(ini.destroy(), SIRDMA_CQP_OK);
	opts.rq_wqes = 0;
	opts.sq_quanta = 8;
	EXPECT_EQ(create(opts, tgt), SIRDMA_CQP_BAD_PARAM);
	opts.sq_quanta = 0;
	opts.rq_wqes = 8;
	EXPECT_EQ(create(opts, tgt), SIRDMA_CQP_BAD_PARAM);
	opts.rq_wqes = 0;
	opts.srq = srq->id;
	EXPECT_EQ(create(opts, tgt), SIRDMA_CQP_BAD_PARAM);
	opts.srq = 0;
	opts.xrcd = SIRDMA_MAX_XRCDS;
	EXPECT_EQ(create(opts, tgt), SIRDMA_CQP_BAD_INDEX);
	opts.xrcd = SIRDMA_MAX_XRCDS - 1;
	EXPECT_EQ(create(opts, tgt), SIRDMA_CQP_OK);
	EXPECT_EQ(tgt.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(tgt.context()->xrcd, SIRDMA_MAX_XRCDS - 1);

	opts = initiator();
	opts.rq_wqes = 8;
	EXPECT_EQ(create(opts, ini), SIRDMA_CQP_BAD_PARAM);
	opts.rq_wqes = 0;
	opts.srq = srq->id;
	EXPECT_EQ(create(opts, ini), SIRDMA_CQP_BAD_PARAM);
	// No QP of another type receives from a queue of a domain.
	opts.type = SIRDMA_QPT_RC;
	EXPECT_EQ(create(opts, ini), SIRDMA_CQP_NO_OBJECT);
}

} // namespace
