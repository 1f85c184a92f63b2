// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Atomics: executed once, whatever is lost, and with the rights that region and queue pair give.
#include "transport.hpp"

extern "C" {
#include "model/packet.h"
#include "model/responder.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u64 initial = 0x1122334455667788, other = 0x99aabbccddeeff00;

class Atomics : public Transport {
protected:
	Atomics() { set(initial); }
	void set(u64 value, size_t at = 0) { memcpy(b.data(at), &value, sizeof(value)); }
	u64 remote(size_t at = 0) { return value(b.data(at)); }
	u64 result(size_t at = 0) { return value(a.data(at)); }
	static u64 value(const u8 *p)
	{
		u64 out;

		memcpy(&out, p, sizeof(out));
		return out;
	}
	Wr add(u64 n, size_t to = 0, size_t at = 0)
	{
		return {.op = SIRDMA_OP_FETCH_ADD,
			.sges = {a.sge(to, 8)},
			.remote = b.va(at),
			.rkey = b.mr.stag(),
			.swap_add = n};
	}
	Wr swap(u64 compare, u64 next, size_t to = 0)
	{
		Wr wr = add(next, to);

		wr.op = SIRDMA_OP_CMP_SWAP;
		wr.compare = compare;
		return wr;
	}
	Wr transfer(u8 op, size_t local, size_t at, u32 len)
	{
		return {.op = op,
			.sges = {a.sge(local, len)},
			.remote = b.va(at),
			.rkey = b.mr.stag()};
	}
	// The next message of l.a has this PSN. Nothing is in flight.
	static void go_on_at(Link &l, u32 psn)
	{
		psn &= SIRDMA_PSN_MASK;
		for (Qp *qp : {&l.a, &l.b}) {
			snic_qp *model = snic_qp_get(qp->node.host.dev(), qp->id);
			snic_req &req = model->req;

			port_lock(&model->lock);
			if (qp == &l.a)
				req.una = req.nxt = req.max = req.psn = psn;
			else
				model->resp.epsn = psn;
			port_unlock(&model->lock);
			snic_qp_put(model);
		}
	}
	// Drop the first @n packets of @from with @opcode.
	void lose(Node &from, u8 opcode, u32 n)
	{
		fabric.set_filter(
			[host = &from.host, opcode, n](TestHost &sender, Packet &pkt) mutable {
				if (&sender != host || pkt.opcode() != opcode || !n)
					return Verdict::pass;
				n--;
				return Verdict::drop;
			});
	}
	// @wr fails with these codes, and changes nothing.
	void refused(const Wr &wr, u16 minor, u32 vendor, const QpOptions &opts = {})
	{
		auto l = link(opts);

		l->a.post(wr);
		expect_error(wait_send(l->a), minor, vendor);
		EXPECT_EQ(remote(), initial);
	}
};

TEST_F(Atomics, ReturnWhatWasThere)
{
	auto l = link();

	l->a.post(add(5, 0));
	l->a.post(swap(initial + 5, other, 8));
	l->a.post(swap(initial, 1, 16));
	l->a.post(add(~0ull, 24));
	for (u8 op :
	     {SIRDMA_OP_FETCH_ADD, SIRDMA_OP_CMP_SWAP, SIRDMA_OP_CMP_SWAP, SIRDMA_OP_FETCH_ADD})
		expect_ok(wait_send(l->a), op);
	EXPECT_EQ(result(0), initial);
	EXPECT_EQ(result(8), initial + 5);
	EXPECT_EQ(result(16), other); // not equal to what it compared with: unchanged
	EXPECT_EQ(result(24), other);
	EXPECT_EQ(remote(), other - 1);
}

TEST_F(Atomics, RequestIsLost)
{
	auto l = link();

	lose(a, SIRDMA_BTH_FETCH_ADD, 3);
	l->a.post(add(1));
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(result(), initial);
	EXPECT_EQ(remote(), initial + 1);
}

TEST_F(Atomics, LostResponseIsSentAgainAndNothingIsDoneTwice)
{
	auto l = link();

	lose(b, SIRDMA_BTH_ATOMIC_ACK, 3);
	l->a.post(add(1, 0));
	l->a.post(add(1, 8));
	l->a.post(swap(initial + 2, other, 16));
	for (int i = 0; i < 3; i++)
		EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_EQ(result(0), initial);
	EXPECT_EQ(result(8), initial + 1);
	EXPECT_EQ(result(16), initial + 2);
	EXPECT_EQ(remote(), other);
	EXPECT_GT(b.stat(SIRDMA_STAT_RX_DUPLICATE), 0u);
}

// As many as the responder remembers are unanswered, and other CPUs change the memory meanwhile.
TEST_F(Atomics, ResultsAreKeptForAsManyAsMayBeUnanswered)
{
	auto l = link();
	const u32 count = l->a.opts.ord;

	lose(b, SIRDMA_BTH_ATOMIC_ACK, count);
	for (u32 i = 0; i < count; i++)
		l->a.post(add(1, 8 * i));
	ASSERT_TRUE(fabric.run_until([&] { return remote() == initial + count; }, 1'000'000'000));
	set(other);
	for (u32 i = 0; i < count; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	for (u32 i = 0; i < count; i++)
		EXPECT_EQ(result(8 * i), initial + i);
	EXPECT_EQ(remote(), other);
}

TEST_F(Atomics, NoMoreAreUnansweredThanAgreed)
{
	QpOptions opts;

	opts.ord = 2;
	opts.ird = 2;
	auto l = link(opts);
	u32 asked = 0, answered = 0, most = 0;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		asked += &from == &a.host && pkt.opcode() == SIRDMA_BTH_FETCH_ADD;
		answered += pkt.opcode() == SIRDMA_BTH_ATOMIC_ACK;
		most = std::max(most, asked - answered);
		return Verdict::pass;
	});
	for (u32 i = 0; i < 10; i++)
		l->a.post(add(1));
	for (u32 i = 0; i < 10; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(most, 2u);
	EXPECT_EQ(remote(), initial + 10);
}

TEST_F(Atomics, MoreThanAgreedIsAnInvalidRequest)
{
	QpOptions none;

	none.ird = 0;
	Link l(a, b, {}, none);

	l.a.post(add(1));
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
	EXPECT_EQ(remote(), initial);
}

TEST_F(Atomics, ComeInOrderWithOtherOperations)
{
	auto l = link();

	memcpy(a.data(4096), &other, 8);
	l->a.post(transfer(SIRDMA_OP_WRITE, 4096, 0, 8));
	l->a.post(add(1, 0));
	l->a.post(transfer(SIRDMA_OP_READ, 8, 0, 8));
	l->a.post(add(1, 16));
	l->b.recv({b.sge(1 << 20, 8)});
	l->a.post({.sges = {a.sge(16, 8)}, .fence = true});
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_FETCH_ADD, SIRDMA_OP_READ, SIRDMA_OP_FETCH_ADD,
		      SIRDMA_OP_SEND})
		expect_ok(wait_send(l->a), op);
	EXPECT_EQ(result(0), other);
	EXPECT_EQ(result(16), other + 1);
	EXPECT_EQ(wait_recv(l->b).len, 8u);
	// The fence made the SEND wait for the result.
	EXPECT_EQ(value(b.data(1 << 20)), other + 1);
}

TEST_F(Atomics, OneCounterForManyQueuePairs)
{
	std::vector<std::unique_ptr<Link>> links;
	constexpr u32 each = 50;

	fabric.faults().loss = 0.02;
	for (int i = 0; i < 8; i++)
		links.push_back(link());
	for (u32 n = 0; n < each; n++)
		for (auto &l : links)
			l->a.post(add(1, 8 * n));
	for (auto &l : links)
		for (u32 n = 0; n < each; n++)
			expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(remote(), initial + links.size() * each);
}

TEST_F(Atomics, RightsBoundsAndAlignment)
{
	MrParams no_atomics = b.mr;
	QpOptions no_access;
	Wr wr;

	no_atomics.idx = 9;
	no_atomics.access &= static_cast<u8>(~SIRDMA_ACCESS_REMOTE_ATOMIC);
	ASSERT_EQ(b.drv.reg_mr(no_atomics), SIRDMA_CQP_OK);
	no_access.access = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;

	wr = add(1);
	wr.remote += 4;
	refused(wr, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
	refused(add(1), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ, no_access);
	wr = swap(initial, 0);
	wr.rkey = no_atomics.stag();
	refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	wr = add(1);
	wr.rkey ^= 1;
	refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	wr = add(1);
	wr.remote = b.mr.va + b.mr.len;
	refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	wr = add(1);
	wr.remote = b.mr.va - 8;
	refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// It was executed: only its result cannot be placed.
TEST_F(Atomics, ResultNeedsLocalMemoryThatMayBeWritten)
{
	MrParams read_only = a.mr;
	auto l = link();
	Wr wr = add(1);

	read_only.idx = 9;
	read_only.access = SIRDMA_ACCESS_LOCAL_READ;
	ASSERT_EQ(a.drv.reg_mr(read_only), SIRDMA_CQP_OK);
	wr.sges[0].stag = read_only.stag();
	l->a.post(wr);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(remote(), initial + 1);
}

// Region addresses begin at 0, and its memory in the middle of a word.
TEST_F(Atomics, MemoryOfAZeroBasedRegionMustBeAlignedToo)
{
	MrParams mr = b.mr;
	auto l = link();
	Wr wr = add(1);

	mr.idx = 9;
	mr.zero_based = true;
	mr.va = 4;
	mr.len = 4096;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	wr.rkey = mr.stag();
	wr.remote = 8;
	l->a.post(wr);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
	EXPECT_EQ(remote(), initial);
}

TEST_F(Atomics, AbsentMemoryIsNotReady)
{
	auto l = link();
	const auto page = [&](bool present) {
		b.drv.write_pble(b.mr.first_pble,
				 b.mem->blocks()[0] | (present ? 0 : SIRDMA_PBLE_ABSENT));
	};

	page(false);
	l->a.post(add(1));
	settle(2'000'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_GT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u);
	page(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(remote(), initial + 1);
}

// The response comes while the page for its result is away: the kept value is sent again.
TEST_F(Atomics, AbsentResultMemoryWaits)
{
	auto l = link();
	const auto page = [&](bool present) {
		a.drv.write_pble(a.mr.first_pble,
				 a.mem->blocks()[0] | (present ? 0 : SIRDMA_PBLE_ABSENT));
	};

	page(false);
	l->a.post(add(1));
	settle(20'000'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(remote(), initial + 1);
	page(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(result(), initial);
	EXPECT_EQ(remote(), initial + 1);
}

TEST_F(Atomics, BadRequestsFailAlone)
{
	const auto spoil = [&](auto change) {
		auto l = link();
		const u32 idx = l->a.place(add(1));

		change(l->a.quantum(idx));
		l->a.kick();
		expect_error(wait_send(l->a), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
		EXPECT_EQ(remote(), initial);
	};
	const u64 one = SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, 1);

	spoil([&](sirdma_wqe *wqe) { wqe->hdr &= ~SIRDMA_WQE_ADDFRAGCNT; });
	spoil([&](sirdma_wqe *wqe) { wqe->hdr += one; });
	spoil([&](sirdma_wqe *wqe) { wqe->hdr |= SIRDMA_WQE_INLINE; });
	spoil([&](sirdma_wqe *wqe) { wqe->hdr |= SIRDMA_WQE_IMMDATA_FLAG; });
	spoil([&](sirdma_wqe *wqe) { wqe[1].hdr ^= SIRDMA_WQE_VALID; });
}

// All PSNs come again after 2^24 packets. A result of the lap before is nobody's: any message with which the
// responder enters another quarter of the lap makes it forget old ones. The others of the lap are left out.
TEST_F(Atomics, ResultOfAnEarlierLapIsForgotten)
{
	constexpr u32 quarter = 0x400000, mtu = 256;
	QpOptions opts;

	opts.mtu = mtu;
	for (u8 crossing : {u8{SIRDMA_OP_WRITE}, u8{SIRDMA_OP_READ}}) {
		SCOPED_TRACE(::testing::Message() << "operation " << int{crossing});
		auto l = link(opts);
		const u32 psn = l->a.opts.a_psn;

		set(initial);
		l->a.post(add(1, 0));
		expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
		for (u32 i = 1; i <= 4; i++) {
			// Its first packet is the last of a quarter, its second one the first of the next.
			go_on_at(*l, (psn / quarter + i) * quarter - 1);
			l->a.post(transfer(crossing, 4096, 4096, 2 * mtu));
			expect_ok(wait_send(l->a), crossing);
		}
		go_on_at(*l, psn);
		lose(b, SIRDMA_BTH_ATOMIC_ACK, 1);
		l->a.post(add(1, 8));
		expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
		EXPECT_EQ(result(8), initial + 1);
		EXPECT_EQ(remote(), initial + 2);
	}
}

TEST_F(Atomics, ResponsesThatRefuseAreNone)
{
	auto l = link();
	bool spoil = true;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &b.host && spoil) {
			spoil = false;
			pkt.bytes[pkt.bth + 12] = SIRDMA_AETH_NAK | SIRDMA_NAK_REM_OP;
			seal(pkt);
		}
		return Verdict::pass;
	});
	const u64 before = a.stat(SIRDMA_STAT_RX_BAD_HEADER);
	l->a.post(add(1));
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RX_BAD_HEADER), before + 1);
	EXPECT_EQ(result(), initial);
	EXPECT_EQ(remote(), initial + 1);
}

// Nothing but the response to it completes an atomic, and it completes nothing else.
TEST_F(Atomics, ResponsesOfTheOtherKindAreDropped)
{
	for (u8 op : {u8{SIRDMA_OP_READ}, u8{SIRDMA_OP_FETCH_ADD}}) {
		SCOPED_TRACE(op);
		auto l = link();
		bool change = true;

		set(initial);
		fabric.set_filter([&](TestHost &from, Packet &pkt) {
			if (&from != &b.host || !change)
				return Verdict::pass;
			change = false;
			// Both have an AETH and eight bytes behind it.
			pkt.bytes[pkt.bth] = pkt.opcode() == SIRDMA_BTH_ATOMIC_ACK ?
						     u8{SIRDMA_BTH_READ_RESP_ONLY} :
						     u8{SIRDMA_BTH_ATOMIC_ACK};
			seal(pkt);
			return Verdict::pass;
		});
		Wr wr = add(1);
		wr.op = op;
		l->a.post(wr);
		expect_ok(wait_send(l->a), op);
		EXPECT_EQ(a.stat(SIRDMA_STAT_RX_BAD_OPCODE), op == SIRDMA_OP_READ ? 1u : 2u);
		EXPECT_EQ(result(), initial);
		fabric.set_filter(nullptr);
	}
}

// Address and operands are not kept, so they may differ; key and operation may not.
TEST_F(Atomics, RepeatedPsnOfAnotherRequestIsNotAnswered)
{
	auto l = link();
	Packet first;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &a.host)
			first = pkt;
		return Verdict::pass;
	});
	l->a.post(add(1));
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	fabric.set_filter(nullptr);
	fabric.record(true);
	const auto answers = [&](Packet pkt) {
		fabric.sent().clear();
		seal(pkt);
		fabric.inject(pkt.bytes);
		settle(100'000);
		return fabric.sent().size();
	};
	EXPECT_EQ(answers(first), 1u);
	for (size_t at : {12 + 11, 0}) { // key, operation
		Packet other_request = first;

		other_request.bytes[first.bth + at] ^=
			at ? 1 : SIRDMA_BTH_FETCH_ADD ^ SIRDMA_BTH_CMP_SWAP;
		EXPECT_EQ(answers(other_request), 0u) << at;
	}
	EXPECT_EQ(remote(), initial + 1);
}

} // namespace
