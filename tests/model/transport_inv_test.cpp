// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Invalidation by work requests: LOCAL_INV, SEND with invalidate and READ with invalidate. A key is useless
// once the completion is there, in-flight use delays it, and what may not be invalidated is refused.
#include "transport.hpp"

#include <map>

extern "C" {
#include "model/mr.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u64 ms = 1'000'000;
constexpr u32 length = 3000; // three packets
constexpr size_t inbox = 1 << 20; // offset of receive buffers
constexpr u8 remote_all = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
			  SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;
constexpr u8 local_all = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE;

class Invalidate : public Transport {
protected:
	Invalidate() : fa(fast(a)), fb(fast(b)) {}

	// A region of a slot made by ALLOC_STAG, over all of the node's memory.
	MrParams fast(Node &n, u8 access = remote_all, u32 pd = 1)
	{
		MrParams mr = n.mr;

		mr.idx = next_idx_++;
		mr.key = 0x10;
		mr.access = access;
		mr.pd = pd;
		EXPECT_EQ(n.drv.alloc_stag(mr.stag()), SIRDMA_CQP_OK);
		EXPECT_EQ(n.drv.reg_mr(mr), SIRDMA_CQP_OK);
		return mr;
	}
	// What may not be used any more, from outside: refused at once.
	bool usable(Node &n, const MrParams &mr)
	{
		sirdma_ae_code ae;
		snic_mr *found = snic_mr_get(n.host.dev(), mr.stag(), mr.pd, mr.va, 1, 0, &ae);

		if (found)
			snic_mr_put(found);
		return found;
	}
	// A user of the region, as another queue pair in the middle of a packet.
	snic_mr *hold(Node &n, const MrParams &mr)
	{
		sirdma_ae_code ae;
		snic_mr *found = snic_mr_get(n.host.dev(), mr.stag(), mr.pd, mr.va, 1, 0, &ae);

		EXPECT_TRUE(found);
		return found;
	}
	Wr send_inv(u32 stag, u32 len = length)
	{
		return {.op = SIRDMA_OP_SEND_INV, .sges = {a.sge(0, len)}, .rkey = stag};
	}
	Wr transfer(u8 op, const MrParams &to, u32 len = length)
	{
		return {.op = op, .sges = {a.sge(0, len)}, .remote = b.va(8192), .rkey = to.stag()};
	}
	// The peer of @l.b cannot use @mr any more. It costs the connection.
	void expect_stale(Link &l, const MrParams &mr)
	{
		EXPECT_FALSE(usable(b, mr));
		l.a.post(transfer(SIRDMA_OP_WRITE, mr));
		expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	}
	// Why @n refused keys: how often for each reason.
	static std::map<sirdma_stat, u64> refusals(Node &n)
	{
		std::map<sirdma_stat, u64> out;

		for (sirdma_stat why : {SIRDMA_STAT_MR_INVALID_KEY, SIRDMA_STAT_MR_BAD_PD,
					SIRDMA_STAT_MR_BAD_ACCESS, SIRDMA_STAT_MR_BAD_INVALIDATE})
			out[why] = n.stat(why);
		return out;
	}
	void refused_locally(u32 stag, sirdma_stat why)
	{
		SCOPED_TRACE(::testing::Message() << "stag " << stag);
		auto l = link();
		auto expected = refusals(a);

		expected[why]++;
		l->a.post(local_inv(stag));
		const Wc wc = wait_send(l->a);
		expect_error(wc, SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
		EXPECT_EQ(l->a.state(), SIRDMA_QPS_ERR);
		EXPECT_EQ(refusals(a), expected);
	}
	void refused_remotely(u32 stag, sirdma_stat why)
	{
		SCOPED_TRACE(::testing::Message() << "stag " << stag);
		auto l = link();
		auto expected = refusals(b);

		expected[why]++;
		l->b.recv({b.sge(inbox, length)});
		l->a.post(send_inv(stag));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		EXPECT_EQ(refusals(b), expected);
	}

private:
	u32 next_idx_ = 10;

protected:
	MrParams fa, fb; // of each node
};

TEST_F(Invalidate, LocallyTheKeyIsUseless)
{
	auto l = link();

	l->a.post(transfer(SIRDMA_OP_WRITE, fb));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	l->b.post(local_inv(fb.stag()));
	expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
	expect_stale(*l, fb);
}

TEST_F(Invalidate, TheSlotTakesAnotherRegion)
{
	auto l = link();
	const u32 old = fb.stag();

	for (int i = 0; i < 300; i++) {
		l->b.post(local_inv(fb.stag()));
		expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
		fb.key++;
		ASSERT_EQ(b.drv.reg_mr(fb), SIRDMA_CQP_OK);
		l->a.post(transfer(SIRDMA_OP_WRITE, fb));
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	}
	fb.key = static_cast<u8>(old + 1);
	EXPECT_NE(fb.key, static_cast<u8>(old + 300));
	expect_stale(*l, fb);
}

TEST_F(Invalidate, ByTheSendOfAPeer)
{
	auto l = link();

	for (bool solicited : {false, true}) {
		Wr wr = send_inv(fb.stag());

		wr.op = solicited ? SIRDMA_OP_SEND_SOL_INV : SIRDMA_OP_SEND_INV;
		l->b.recv({b.sge(inbox, length)});
		l->a.post(wr);
		expect_ok(wait_send(l->a), wr.op);
		const Wc wc = wait_recv(l->b);
		expect_ok(wc, SIRDMA_BTH_SEND_LAST_INV);
		EXPECT_EQ(wc.len, length);
		EXPECT_EQ(wc.inv, fb.stag());
		EXPECT_EQ(wc.solicited, solicited);
		EXPECT_FALSE(wc.imm);
		EXPECT_EQ(memcmp(a.data(), b.data(inbox), length), 0);
		EXPECT_FALSE(usable(b, fb));
		fb.key++;
		ASSERT_EQ(b.drv.reg_mr(fb), SIRDMA_CQP_OK);
	}
	l->b.recv({b.sge(inbox, length)});
	l->a.post({.op = SIRDMA_OP_SEND});
	EXPECT_FALSE(wait_recv(l->b).inv);
	l->b.recv({b.sge(inbox, length)});
	l->a.post(
		{.op = SIRDMA_OP_SEND_INV, .rkey = fb.stag(), .inl = {1, 2, 3}, .is_inline = true});
	EXPECT_EQ(wait_recv(l->b).inv, fb.stag());
	for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_SEND_INV})
		expect_ok(wait_send(l->a), op);
	expect_stale(*l, fb);
}

TEST_F(Invalidate, ByTheReadThatUsesIt)
{
	auto l = link();
	Wr wr = transfer(SIRDMA_OP_READ_LOC_INV, b.mr);

	const std::vector<u8> was(b.data(8192), b.data(8192) + length);
	wr.sges = {{a.va(inbox), length, fa.stag()}};
	l->a.post(wr);
	l->a.post(transfer(SIRDMA_OP_WRITE, b.mr));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ_LOC_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(inbox), was.data(), length), 0);
	EXPECT_FALSE(usable(a, fa));
	// The next one cannot place its data.
	l->a.post(wr);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

TEST_F(Invalidate, RegionsOfOrdinaryRegistrationAreRefused)
{
	refused_locally(a.mr.stag(), SIRDMA_STAT_MR_BAD_INVALIDATE);
	refused_remotely(b.mr.stag(), SIRDMA_STAT_MR_BAD_INVALIDATE);
	EXPECT_TRUE(usable(a, a.mr));
	EXPECT_TRUE(usable(b, b.mr));
}

TEST_F(Invalidate, KeysThatAreNotTheirsAreRefused)
{
	const MrParams other_a = fast(a, remote_all, 2), other_b = fast(b, remote_all, 2);
	const MrParams local = fast(b, local_all);

	for (u32 stag : {fa.stag() ^ 1, 0u, 0x7700u, ~0u})
		refused_locally(stag, SIRDMA_STAT_MR_INVALID_KEY);
	refused_locally(other_a.stag(), SIRDMA_STAT_MR_BAD_PD);
	for (u32 stag : {fb.stag() ^ 1, 0u, 0x7700u, ~0u})
		refused_remotely(stag, SIRDMA_STAT_MR_INVALID_KEY);
	refused_remotely(other_b.stag(), SIRDMA_STAT_MR_BAD_PD);
	refused_remotely(local.stag(), SIRDMA_STAT_MR_BAD_INVALIDATE);
	EXPECT_TRUE(usable(a, fa));
	EXPECT_TRUE(usable(b, fb));
	EXPECT_TRUE(usable(b, local));
	EXPECT_TRUE(usable(a, other_a));
	EXPECT_TRUE(usable(b, other_b));
}

// Without remote rights the key is none of the peer's business, but its owner may invalidate it.
TEST_F(Invalidate, RegionWithoutRemoteRights)
{
	const MrParams local = fast(a, local_all);
	auto l = link();

	l->a.post(local_inv(local.stag()));
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	EXPECT_FALSE(usable(a, local));
}

TEST_F(Invalidate, TwiceIsNoError)
{
	auto l = link();

	for (int i = 0; i < 2; i++) {
		l->a.post(local_inv(fa.stag()));
		expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
		l->b.recv({b.sge(inbox, length)});
		l->a.post(send_inv(fb.stag()));
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
		expect_ok(wait_recv(l->b), SIRDMA_BTH_SEND_LAST_INV);
	}
}

// It does not overtake a SEND whose data it would take away, lost and repeated as that may be.
TEST_F(Invalidate, EarlierRequestsCompleteFirst)
{
	auto l = link();
	u32 lose = 3;

	fabric.set_filter([&](TestHost &from, Packet &) {
		return &from == &a.host && lose && lose-- ? Verdict::drop : Verdict::pass;
	});
	l->b.recv({b.sge(inbox, length)});
	l->a.post({.sges = {{a.va(), length, fa.stag()}}});
	Wr read = transfer(SIRDMA_OP_READ, b.mr);
	read.sges = {{a.va(4096), length, fa.stag()}};
	l->a.post(read);
	l->a.post(local_inv(fa.stag()));
	l->a.post(transfer(SIRDMA_OP_WRITE, b.mr));
	for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_READ, SIRDMA_OP_LOCAL_INV, SIRDMA_OP_WRITE})
		expect_ok(wait_send(l->a), op);
	EXPECT_EQ(wait_recv(l->b).len, length);
	EXPECT_EQ(memcmp(a.data(), b.data(inbox), length), 0);
	EXPECT_FALSE(usable(a, fa));
}

TEST_F(Invalidate, LaterRequestsDoNotUseTheKey)
{
	auto l = link();

	l->a.post(local_inv(fa.stag()));
	l->a.post({.sges = {{a.va(), length, fa.stag()}}});
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

TEST_F(Invalidate, ManyInARow)
{
	constexpr int count = 200;
	std::vector<MrParams> mrs;
	auto l = link();

	for (int i = 0; i < count; i++)
		mrs.push_back(fast(a));
	for (auto &mr : mrs) {
		Wr wr = local_inv(mr.stag());

		wr.signaled = &mr == &mrs.back();
		l->a.place(wr);
	}
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	for (auto &mr : mrs)
		EXPECT_FALSE(usable(a, mr));
}

// The READ was not fenced; the responder answers it before the key goes, although its memory is absent for a while.
TEST_F(Invalidate, ReadsThatCameBeforeAreAnswered)
{
	constexpr u32 page = 2;
	constexpr size_t from = 2 * 4096 - 1024;
	const u64 block = b.mem->blocks()[page];
	auto l = link();

	memset(a.data(inbox), 0, length);
	l->b.recv({b.sge(inbox, length)});
	Wr read = transfer(SIRDMA_OP_READ, fb);
	read.sges = {a.sge(inbox, length)};
	read.remote = b.va(from);
	b.drv.write_pble(fb.first_pble + page, block | SIRDMA_PBLE_ABSENT);
	l->a.place(read);
	l->a.place(send_inv(fb.stag(), 100));
	l->a.kick(true);
	settle(8 * ms);
	EXPECT_EQ(b.stat(SIRDMA_STAT_SEQ_NAK_SENT), 0u);
	EXPECT_TRUE(silent(l->a));
	EXPECT_FALSE(l->b.poll(false));
	EXPECT_TRUE(usable(b, fb));
	b.drv.write_pble(fb.first_pble + page, block);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
	EXPECT_EQ(wait_recv(l->b).inv, fb.stag());
	EXPECT_EQ(memcmp(a.data(inbox), b.data(from), length), 0);
	EXPECT_FALSE(usable(b, fb));
}

TEST_F(Invalidate, LocalOneWaitsForUsers)
{
	auto l = link();
	snic_mr *user = hold(a, fa);

	l->a.post(local_inv(fa.stag()));
	l->a.post(transfer(SIRDMA_OP_WRITE, b.mr));
	settle(50 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_FALSE(usable(a, fa)); // no new ones
	snic_mr_put(user);
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

TEST_F(Invalidate, ReadWithInvalidateWaitsForUsers)
{
	auto l = link();
	snic_mr *user = hold(a, fa);
	Wr wr = transfer(SIRDMA_OP_READ_LOC_INV, b.mr);

	wr.sges = {{a.va(inbox), length, fa.stag()}};
	l->a.post(wr);
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ})
		l->a.post(transfer(op, b.mr));
	settle(3 * ms);
	EXPECT_TRUE(silent(l->a));
	snic_mr_put(user);
	for (u8 op : {SIRDMA_OP_READ_LOC_INV, SIRDMA_OP_WRITE, SIRDMA_OP_READ})
		expect_ok(wait_send(l->a), op);
	EXPECT_FALSE(usable(a, fa));
}

TEST_F(Invalidate, ReceiverWaitsForUsers)
{
	auto l = link();
	snic_mr *user = hold(b, fb);

	for (int i = 0; i < 3; i++)
		l->b.recv({b.sge(inbox + 4096 * i, length)});
	l->a.post(send_inv(fb.stag()));
	l->a.post({.sges = {a.sge(100, length)}});
	settle(2 * ms);
	EXPECT_FALSE(l->b.poll(false));
	EXPECT_FALSE(usable(b, fb));
	snic_mr_put(user);
	EXPECT_EQ(wait_recv(l->b).inv, fb.stag());
	EXPECT_EQ(wait_recv(l->b).len, length);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(memcmp(a.data(), b.data(inbox), length), 0);
	EXPECT_EQ(memcmp(a.data(100), b.data(inbox + 4096), length), 0);
}

// Two queue pairs invalidate the same region: both complete when it is invalid.
TEST_F(Invalidate, ByTwoAtOnce)
{
	auto l = link(), other = link();
	snic_mr *user = hold(a, fa);

	l->a.post(local_inv(fa.stag()));
	other->a.post(local_inv(fa.stag()));
	for (int i = 0; i < 10; i++)
		settle(10'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_TRUE(silent(other->a));
	snic_mr_put(user);
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
	expect_ok(wait_send(other->a), SIRDMA_OP_LOCAL_INV);
}

TEST_F(Invalidate, QueuePairGoesWhileItWaits)
{
	for (bool error : {false, true}) {
		auto l = link();
		snic_mr *ua = hold(a, fa), *ub = hold(b, fb);

		l->b.recv({b.sge(inbox, length)});
		l->a.post(send_inv(fb.stag()));
		l->a.post(local_inv(fa.stag()));
		settle(2 * ms);
		// The invalidations are under way.
		EXPECT_FALSE(usable(a, fa));
		EXPECT_FALSE(usable(b, fb));
		if (error) {
			l->a.error();
			l->b.error();
			EXPECT_TRUE(wait_recv(l->b).error);
		} else {
			EXPECT_EQ(l->a.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
			EXPECT_EQ(l->b.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
		}
		snic_mr_put(ua);
		snic_mr_put(ub);
		settle();
		EXPECT_EQ(l->a.destroy(), SIRDMA_CQP_OK);
		EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_OK);
		for (auto [n, mr] : {std::pair{&a, &fa}, {&b, &fb}}) {
			EXPECT_FALSE(usable(*n, *mr));
			mr->key++;
			EXPECT_EQ(n->drv.reg_mr(*mr), SIRDMA_CQP_OK);
		}
	}
}

TEST_F(Invalidate, EachOnceUnderLoss)
{
	std::mt19937 rng(7);
	auto l = link();

	fabric.set_filter([&](TestHost &, Packet &) {
		return rng() % 100 < 15 ? Verdict::drop : Verdict::pass;
	});
	for (u32 i = 0; i < 200; i++) {
		const u32 len = rng() % (2 * length);

		memset(b.data(inbox), 0, 2 * length);
		l->b.recv({b.sge(inbox, 2 * length)});
		l->a.place(transfer(SIRDMA_OP_WRITE, fb));
		l->a.place(send_inv(fb.stag(), len));
		l->a.kick(true);
		const Wc wc = wait_recv(l->b);
		ASSERT_FALSE(wc.error) << i;
		EXPECT_EQ(wc.inv, fb.stag());
		EXPECT_EQ(wc.len, len);
		EXPECT_EQ(memcmp(a.data(), b.data(inbox), len), 0);
		EXPECT_FALSE(usable(b, fb));
		// Before the sender's completion: a repeated SEND must not touch the new region.
		fb.key++;
		ASSERT_EQ(b.drv.reg_mr(fb), SIRDMA_CQP_OK);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
		EXPECT_TRUE(usable(b, fb));
	}
}

TEST_F(Invalidate, OfUnreliableQueuePairs)
{
	QpOptions uc;

	uc.type = SIRDMA_QPT_UC;
	{
		auto l = link(uc);
		snic_mr *user = hold(a, fa);

		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {{a.va(), length, fa.stag()}},
			   .remote = b.va(),
			   .rkey = b.mr.stag()});
		l->a.post(local_inv(fa.stag()));
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		settle();
		EXPECT_TRUE(silent(l->a));
		snic_mr_put(user);
		expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
		EXPECT_FALSE(usable(a, fa));
	}
	auto l = link(uc);
	l->a.post(send_inv(fb.stag()));
	expect_error(wait_send(l->a), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	EXPECT_TRUE(usable(b, fb));
}

// What the application writes into the ring between fetch and execution is checked like the first.
TEST_F(Invalidate, RequestThatChangesWhileItWaits)
{
	auto l = link();

	fabric.set_filter([&](TestHost &, Packet &) { return Verdict::drop; });
	l->b.recv({b.sge(inbox, length)});
	l->a.post({.sges = {a.sge(0, 8)}});
	const u32 idx = l->a.post(local_inv(fa.stag()));
	settle(100'000);
	l->a.quantum(idx)->frag_stag = SIRDMA_PREP(SIRDMA_FRAG_STAG, a.mr.stag());
	fabric.set_filter(nullptr);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	wait_send(l->a); // of whichever it read
	settle();
	EXPECT_TRUE(usable(a, a.mr));
}

} // namespace
