// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Memory windows: what a bind is refused for, what peers may do by a bound window, and how a
// window ends.
#include "transport.hpp"

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <unistd.h>

extern "C" {
#include "model/dev.h"
#include "model/mr.h"
}

using namespace sirdma::test;

namespace
{

constexpr u8 reads = SIRDMA_ACCESS_REMOTE_READ, writes = SIRDMA_ACCESS_REMOTE_WRITE,
	     atomics = SIRDMA_ACCESS_REMOTE_ATOMIC;
constexpr u32 window = 40, other = 41; // indices of windows
constexpr u32 start = 3 * 4096 + 256, length = 2 * 4096; // of the window, in the memory of b

// b has the windows, a uses them.
class Windows : public Transport {
protected:
	Windows()
	{
		// Peers have no rights to it: what they may do, they may by windows only.
		region_ = b.mr;
		region_.idx = 9;
		region_.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
				 SIRDMA_ACCESS_BIND_WINDOW;
		EXPECT_EQ(b.drv.reg_mr(region_), SIRDMA_CQP_OK);
		EXPECT_EQ(b.drv.alloc_mw(window, true), SIRDMA_CQP_OK);
		EXPECT_EQ(b.drv.alloc_mw(other, false), SIRDMA_CQP_OK);
	}

	sirdma_bind bind(u32 idx, u8 key, u32 rights = reads | writes)
	{
		return {.addr = b.va(start),
			.length = length,
			.window = idx << 8 | key,
			.region = region_.stag(),
			.rights = rights,
			.type1 = idx == window,
			.zero_based = 0};
	}
	static Wr wr(const sirdma_bind &what) { return {.op = SIRDMA_OP_BIND_MW, .bind = what}; }
	void bound(Qp &qp, const sirdma_bind &what)
	{
		qp.post(wr(what));
		expect_ok(wait_send(qp), SIRDMA_OP_BIND_MW);
	}
	// The bind fails, and so does its queue pair.
	void refused(const sirdma_bind &what)
	{
		auto l = link();
		const u64 before = b.stat(SIRDMA_STAT_MW_BAD_BIND);

		l->b.post(wr(what));
		expect_error(wait_send(l->b), SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		EXPECT_EQ(b.stat(SIRDMA_STAT_MW_BAD_BIND), before + 1);
	}

	// @thread sleeps: each of 100 looks in a row finds it so.
	static bool sleeps(const std::atomic<pid_t> &thread)
	{
		const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
		int looks = 0;

		while (looks < 100 && std::chrono::steady_clock::now() < end) {
			std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
			std::string stat; // "TID (NAME) STATE ..."

			std::getline(file, stat);
			looks = stat.find(") S ") == std::string::npos ? 0 : looks + 1;
		}
		return looks == 100;
	}

	MrParams region_;
};

} // namespace

TEST_F(Windows, ReadsWritesAndAtomicsGoThroughAWindow)
{
	for (u32 idx : {window, other}) {
		auto l = link();
		const sirdma_bind what = bind(idx, 7, reads | writes | atomics);

		bound(l->b, what);
		memset(a.data(), 0x33 + static_cast<int>(idx), 6000);
		served(*l, SIRDMA_OP_WRITE, what.window, b.va(start + 100), 6000);
		EXPECT_EQ(memcmp(b.data(start + 100), a.data(), 6000), 0);
		memcpy(b.data(start), "zzzzzzzz", 8);
		served(*l, SIRDMA_OP_READ, what.window, b.va(start), length);
		EXPECT_EQ(memcmp(b.data(start), a.data(), length), 0);
		served(*l, SIRDMA_OP_FETCH_ADD, what.window, b.va(start), 8);
	}
}

TEST_F(Windows, EndsAreExactAndTheRegionBehindStaysClosed)
{
	const sirdma_bind what = bind(window, 1);

	{
		auto l = link();

		bound(l->b, what);
		served(*l, SIRDMA_OP_WRITE, what.window, b.va(start + length - 1), 1);
		served(*l, SIRDMA_OP_READ, what.window, b.va(start), 1);
	}
	denied(SIRDMA_OP_READ, what.window, b.va(start - 1), 1);
	denied(SIRDMA_OP_READ, what.window, b.va(start + length), 1);
	denied(SIRDMA_OP_WRITE, what.window, b.va(start + length - 1), 2);
	denied(SIRDMA_OP_WRITE, what.window, b.va(start), length + 1);
	denied(SIRDMA_OP_READ, region_.stag(), b.va(start), 1);
}

TEST_F(Windows, RightsAreThoseOfTheBind)
{
	const sirdma_bind what = bind(window, 1, reads);

	{
		auto l = link();

		bound(l->b, what);
		served(*l, SIRDMA_OP_READ, what.window, b.va(start), 8);
	}
	denied(SIRDMA_OP_WRITE, what.window, b.va(start), 8);
	denied(SIRDMA_OP_FETCH_ADD, what.window, b.va(start), 8);
}

TEST_F(Windows, ZeroBasedWindowIsAddressedFromZero)
{
	auto l = link();
	sirdma_bind what = bind(other, 3);

	what.zero_based = 1;
	bound(l->b, what);
	memset(a.data(), 0x77, 5000);
	served(*l, SIRDMA_OP_WRITE, what.window, 1, 5000);
	EXPECT_EQ(memcmp(b.data(start + 1), a.data(), 5000), 0);
	served(*l, SIRDMA_OP_READ, what.window, length - 1, 1);
	denied(*l, SIRDMA_OP_READ, what.window, length - 1, 2);
}

// The blocks of a window begin in the middle of each kind of list.
TEST_F(Windows, EveryKindOfPageListIsCutAtItsBlocks)
{
	constexpr size_t blocks = 3 * SIRDMA_PBLE_PER_LEAF + 7;
	UserMemory flat(b.host.dma(), 64 << 12, 12, true), scattered(b.host.dma(), blocks << 12);
	u32 idx = 50;

	for (u8 level : {0, 1, 2}) {
		UserMemory &mem = level ? scattered : flat;
		MrParams mr = region_;

		mr.idx = ++idx;
		mr.va = mem.va();
		mr.len = mem.size();
		b.drv.describe(mr, mem, level);
		ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
		for (size_t at :
		     {size_t{0}, size_t{4096}, mem.size() / 2 + 17, mem.size() - 9000}) {
			sirdma_bind what = bind(window, 1);
			auto l = link();

			what.addr = mem.va() + at;
			what.length = 9000;
			what.region = mr.stag();
			bound(l->b, what);
			mem.fill(static_cast<u8>(at));
			served(*l, SIRDMA_OP_READ, what.window, what.addr, 9000);
			for (size_t i = 0; i < 9000; i++)
				ASSERT_EQ(a.data()[i], mem.data()[at + i]) << level << ' ' << i;
		}
	}
}

TEST_F(Windows, Type1IsOfAllQueuePairsOfItsDomain)
{
	auto binder = link();
	const sirdma_bind what = bind(window, 1);

	bound(binder->b, what);
	auto user = link();
	served(*user, SIRDMA_OP_READ, what.window, b.va(start), 64);
	EXPECT_EQ(b.drv.alloc_mw(60, true, 2), SIRDMA_CQP_OK);
	refused(bind(60, 1)); // of another domain than the queue pair
}

TEST_F(Windows, Type2IsOfTheQueuePairThatBoundIt)
{
	auto l = link();
	const sirdma_bind what = bind(other, 9);

	bound(l->b, what);
	denied(SIRDMA_OP_READ, what.window, b.va(start), 64);
	denied(SIRDMA_OP_WRITE, what.window, b.va(start), 64);
	served(*l, SIRDMA_OP_READ, what.window, b.va(start), 64);
	refused(bind(other, 10)); // by another queue pair, and bound already
	served(*l, SIRDMA_OP_READ, what.window, b.va(start), 64);
	l->b.post(wr(bind(other, 10)));
	expect_error(wait_send(l->b), SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
}

TEST_F(Windows, BindingAgainEndsTheFormerKey)
{
	const sirdma_bind before = bind(window, 1);
	sirdma_bind after = bind(window, 2);

	{
		auto l = link();

		bound(l->b, before);
		served(*l, SIRDMA_OP_WRITE, before.window, b.va(start), 64);
		after.addr += 4096;
		bound(l->b, after);
		served(*l, SIRDMA_OP_WRITE, after.window, after.addr, 64);
		denied(*l, SIRDMA_OP_WRITE, before.window, after.addr, 64);
	}
	denied(SIRDMA_OP_WRITE, after.window, b.va(start), 64);
	after.length = 0;
	after.region = 0;
	after.window = window << 8 | 3;
	{
		auto l = link();

		bound(l->b, after);
	}
	denied(SIRDMA_OP_WRITE, window << 8 | 3, b.va(start + 4096), 64);
	denied(SIRDMA_OP_WRITE, window << 8 | 2, b.va(start + 4096), 64);
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_OK);
}

// A region is replaced neither while windows are bound to it, nor is anything of it changed then.
TEST_F(Windows, RegionWithWindowsIsNotReplaced)
{
	auto l = link();
	const sirdma_bind what = bind(window, 1);
	MrParams next = region_;

	next.replace = true;
	next.access |= SIRDMA_ACCESS_REMOTE_READ;
	bound(l->b, what);
	EXPECT_EQ(b.drv.reg_mr(next), SIRDMA_CQP_IN_USE);
	served(*l, SIRDMA_OP_WRITE, what.window, b.va(start), 100);

	sirdma_bind none = what;
	none.length = 0;
	bound(l->b, none);
	EXPECT_EQ(b.drv.reg_mr(next), SIRDMA_CQP_OK);
	// The region in its place has windows as the former one had.
	bound(l->b, bind(window, 2));
	served(*l, SIRDMA_OP_WRITE, bind(window, 2).window, b.va(start), 100);
	EXPECT_EQ(b.drv.reg_mr(next), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(b.drv.dealloc_stag(next.stag()), SIRDMA_CQP_IN_USE);
}

// A command on another CPU is putting another region in the place of this one: the bind waits for it.
TEST_F(Windows, BindWaitsForTheRegionInThePlaceOfASealedOne)
{
	auto l = link();
	const sirdma_bind what = bind(window, 1);
	MrParams next = region_;
	snic_slot *slot = snic_slot_get(&b.host.dev()->mrs, region_.idx);

	ASSERT_TRUE(slot);
	ASSERT_TRUE(snic_slot_seal(slot));
	snic_slot_put(slot);
	l->b.post(wr(what));
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(b.host.run_deferred()) << "the queue pair tries again";
		ASSERT_TRUE(silent(l->b));
	}
	next.replace = true;
	ASSERT_EQ(b.drv.reg_mr(next), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
	EXPECT_EQ(b.stat(SIRDMA_STAT_MW_BAD_BIND), 0u);
	served(*l, SIRDMA_OP_WRITE, what.window, b.va(start), 100);
}

// A bind that is refused changes nothing.
TEST_F(Windows, WrongBindsAreRefused)
{
	const sirdma_bind good = bind(window, 1);

	{
		auto l = link();

		bound(l->b, good);
	}
	auto with = [&](auto change) {
		sirdma_bind what = bind(window, 2);

		change(what);
		refused(what);
	};

	with([&](sirdma_bind &w) { w.window = 70 << 8; }); // no such window
	with([&](sirdma_bind &w) { w.window = ~0u; });
	with([&](sirdma_bind &w) { w.window = 0; });
	with([&](sirdma_bind &w) { w.window = region_.stag(); });
	with([&](sirdma_bind &w) { w.region = window << 8 | 1; });
	with([&](sirdma_bind &w) { w.region = region_.stag() ^ 1; });
	with([&](sirdma_bind &w) { w.region = 71 << 8; });
	with([&](sirdma_bind &w) { w.region = ~0u; });
	with([&](sirdma_bind &w) { w.region = b.mr.stag(); }); // without the right to be bound
	with([&](sirdma_bind &w) { w.type1 = 0; });
	with([&](sirdma_bind &w) { w.zero_based = 1; });
	with([&](sirdma_bind &w) { w.rights = SIRDMA_ACCESS_LOCAL_WRITE; });
	with([&](sirdma_bind &w) { w.rights = reads | SIRDMA_ACCESS_BIND_WINDOW; });
	with([&](sirdma_bind &w) { w.addr = b.va() - 1; });
	with([&](sirdma_bind &w) { w.addr = b.va() + b.mem->size(); });
	with([&](sirdma_bind &w) { w.addr = ~0ull; });
	with([&](sirdma_bind &w) { w.length = b.mem->size() - start + 1; });
	with([&](sirdma_bind &w) { w.length = ~0ull; });
	with([&](sirdma_bind &w) { w.length = 0ull - w.addr + 1; });

	sirdma_bind none = bind(other, 1);

	none.length = 0;
	refused(none); // type 2 is invalidated, not unbound
	auto l = link();

	served(*l, SIRDMA_OP_READ, good.window, b.va(start), length);
}

TEST_F(Windows, RightsToChangeNeedLocalWriteAccess)
{
	MrParams mr = region_;

	mr.idx = 61;
	mr.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_BIND_WINDOW;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	for (u8 rights : {writes, atomics}) {
		sirdma_bind what = bind(window, 1, rights);

		what.region = mr.stag();
		refused(what);
	}
	sirdma_bind what = bind(window, 1, reads);
	auto l = link();

	what.region = mr.stag();
	bound(l->b, what);
	served(*l, SIRDMA_OP_READ, what.window, b.va(start), 64);
}

TEST_F(Windows, RegionOutlivesItsWindows)
{
	auto l = link();

	bound(l->b, bind(window, 1));
	bound(l->b, bind(other, 1));
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(b.drv.dealloc_mw(window), SIRDMA_CQP_OK);
	EXPECT_EQ(b.drv.dealloc_mw(window), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_IN_USE);
	served(*l, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
	EXPECT_EQ(b.drv.dealloc_mw(other), SIRDMA_CQP_OK);
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_OK);
	denied(*l, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
}

TEST_F(Windows, QueuePairTakesItsWindowsOfType2WithIt)
{
	{
		auto l = link();

		bound(l->b, bind(window, 1));
		bound(l->b, bind(other, 1));
		l->b.error(); // they are still bound
		EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_IN_USE);
	}
	{
		auto l = link();

		served(*l, SIRDMA_OP_READ, window << 8 | 1, b.va(start), 64);
		bound(l->b, bind(other, 2)); // free again
	}
	EXPECT_EQ(b.drv.dealloc_mw(window), SIRDMA_CQP_OK);
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_OK);
}

// Those of the queue pair and no others, also when some went before it, from anywhere in its list.
TEST_F(Windows, QueuePairEndsItsOwnWindowsOnly)
{
	constexpr u32 first = 100, count = 9;
	auto other_link = link();

	for (u32 i = 0; i < 2 * count; i++)
		ASSERT_EQ(b.drv.alloc_mw(first + i, false), SIRDMA_CQP_OK);
	{
		auto l = link();

		for (u32 i = 0; i < count; i++) {
			bound(l->b, bind(first + i, 1));
			bound(other_link->b, bind(first + count + i, 1));
		}
		l->b.post(local_inv((first + 8) << 8 | 1)); // the last one
		expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
		EXPECT_EQ(b.drv.dealloc_mw(first + 4), SIRDMA_CQP_OK);
		EXPECT_EQ(b.drv.dealloc_mw(first), SIRDMA_CQP_OK);
	}
	auto l = link();

	for (u32 i : {1u, 2u, 3u, 5u, 6u, 7u, 8u})
		bound(l->b, bind(first + i, 2)); // free again
	for (u32 i = 0; i < count; i++)
		served(*other_link, SIRDMA_OP_READ, (first + count + i) << 8 | 1, b.va(start), 64);
}

// A user on another CPU holds the window when its queue pair is destroyed.
TEST_F(Windows, DestructionWaitsForUsersOfTheWindow)
{
	auto l = link();
	const u32 qpn = l->b.id; // the link goes away in another thread
	enum sirdma_ae_code ae;
	std::atomic<bool> destroyed = false;

	bound(l->b, bind(other, 1));
	snic_mr *user =
		snic_mr_get_qp(b.host.dev(), other << 8 | 1, 1, qpn, b.va(start), 64, reads, &ae);
	ASSERT_TRUE(user);
	std::thread commands([&] {
		l.reset();
		destroyed = true;
	});
	// The key goes first.
	while (snic_mr *again = snic_mr_get_qp(b.host.dev(), other << 8 | 1, 1, qpn, b.va(start),
					       64, reads, &ae))
		snic_mr_put(again);
	EXPECT_FALSE(destroyed);
	void *bytes;
	u32 run;
	EXPECT_EQ(bytes_at(b.host.dev(), user, b.va(start), 1, &bytes, &run), SNIC_MEM_OK);
	EXPECT_EQ(bytes, b.data(start));
	snic_mr_put(user);
	commands.join();
	EXPECT_TRUE(destroyed);
}

// The window was invalidated already, and a user on another CPU holds it: the command does not spin.
TEST_F(Windows, DestructionSleepsWhileAWindowIsDrained)
{
	auto l = link();
	const u32 qpn = l->b.id;
	enum sirdma_ae_code ae;
	std::atomic<pid_t> thread = 0;

	bound(l->b, bind(other, 1));
	snic_mr *user =
		snic_mr_get_qp(b.host.dev(), other << 8 | 1, 1, qpn, b.va(start), 64, reads, &ae);
	ASSERT_TRUE(user);
	ASSERT_TRUE(snic_slot_invalidate(&user->slot, nullptr));
	std::thread commands([&] {
		thread = gettid();
		l.reset();
	});
	EXPECT_TRUE(sleeps(thread));
	snic_mr_put(user);
	commands.join();
	bound(link()->b, bind(other, 2)); // free again
}

TEST_F(Windows, KeyOfAWindowIsNoLocalKey)
{
	auto l = link();
	const sirdma_bind what = bind(window, 1);

	bound(l->b, what);
	l->b.post({.op = SIRDMA_OP_WRITE,
		   .sges = {{b.va(start), 64, what.window}},
		   .remote = a.va(),
		   .rkey = a.mr.stag()});
	expect_error(wait_send(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

TEST_F(Windows, CommandsKeepRegionsAndWindowsApart)
{
	EXPECT_EQ(b.drv.alloc_mw(window, false), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(b.drv.alloc_mw(region_.idx, false), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(b.drv.alloc_mw(0, false), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(b.drv.alloc_mw(80, false, b.host.options().cfg.max_pds), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(b.drv.dealloc_mw(region_.idx), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(b.drv.dealloc_stag(window << 8), SIRDMA_CQP_NO_OBJECT);
	MrParams mr = region_;

	mr.idx = window;
	EXPECT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_IN_USE);
}

// A bind waits for the fence, and what follows it for the bind.
TEST_F(Windows, BindsKeepTheirPlaceInTheQueue)
{
	auto l = link();
	Wr fenced = wr(bind(window, 1));

	fenced.fence = true;
	l->b.place({.op = SIRDMA_OP_READ,
		    .sges = {b.sge(0, 8192)},
		    .remote = a.va(),
		    .rkey = a.mr.stag()});
	l->b.place(fenced);
	l->a.recv({a.sge(0, 64)});
	l->b.post({.op = SIRDMA_OP_SEND, .sges = {b.sge(0, 8)}});
	for (u8 op : {SIRDMA_OP_READ, SIRDMA_OP_BIND_MW, SIRDMA_OP_SEND})
		expect_ok(wait_send(l->b), op);
	served(*l, SIRDMA_OP_READ, window << 8 | 1, b.va(start), 64);
}

// More than the queue pair remembers messages: none of them has an answer.
TEST_F(Windows, ManyBindsInARow)
{
	QpOptions opts{.sq_quanta = 1024};
	auto l = link(opts);

	for (u32 i = 0; i < 500; i++)
		l->b.place(wr(bind(window, static_cast<u8>(i))));
	l->b.kick();
	for (u32 i = 0; i < 500; i++)
		expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
	served(*l, SIRDMA_OP_READ, window << 8 | (499 & 0xff), b.va(start), 64);
}

// The former binding has a user on another CPU: the bind waits, and ends when the user has gone.
TEST_F(Windows, BindWaitsForUsersOfTheFormerBinding)
{
	auto l = link();
	enum sirdma_ae_code ae;

	bound(l->b, bind(window, 1));
	snic_mr *user = snic_mr_get(b.host.dev(), window << 8 | 1, 1, b.va(start), 64, reads, &ae);
	ASSERT_TRUE(user);
	l->b.post(wr(bind(window, 2)));
	settle();
	EXPECT_FALSE(l->b.poll(true));
	EXPECT_EQ(snic_mr_get(b.host.dev(), window << 8 | 1, 1, b.va(start), 64, reads, &ae),
		  nullptr);
	snic_mr_put(user);
	expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
	served(*l, SIRDMA_OP_READ, window << 8 | 2, b.va(start), 64);
}

// Whoever finds the former binding ended may be faster than the one that ended it.
TEST_F(Windows, NobodyBindsBeforePeersLoseWhatTheyRead)
{
	auto l = link(), faster = link();
	enum sirdma_ae_code ae;

	bound(l->b, bind(window, 1));
	snic_mr *user = snic_mr_get_qp(b.host.dev(), window << 8 | 1, 1, l->b.id, b.va(start), 64,
				       reads, &ae);
	ASSERT_TRUE(user);
	l->b.place(wr(bind(window, 2)));
	l->b.kick(true);
	settle();
	const u64 before = b.host.references_finished();
	snic_mr_put(user);
	faster->b.place(wr(bind(window, 3)));
	faster->b.kick(true);
	EXPECT_GT(b.host.references_finished(), before);
	expect_ok(wait_send(faster->b), SIRDMA_OP_BIND_MW);
	expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
}

TEST_F(Windows, UnreliableConnectionsBindToo)
{
	QpOptions opts{.type = SIRDMA_QPT_UC};
	auto l = link(opts);
	const sirdma_bind what = bind(other, 4);

	bound(l->b, what);
	memset(a.data(), 0x5e, 3000);
	served(*l, SIRDMA_OP_WRITE, what.window, b.va(start), 3000);
	settle();
	EXPECT_EQ(memcmp(b.data(start), a.data(), 3000), 0);
}

TEST_F(Windows, DeviceGoesWithBoundWindows)
{
	auto l = link();

	bound(l->b, bind(window, 1));
	bound(l->b, bind(other, 1));
	// The harness destroys the device, and the sanitizer finds what is left.
}

TEST_F(Windows, LocalInvalidationFreesAWindowOfType2)
{
	auto l = link();

	for (u8 key : {1, 2}) {
		bound(l->b, bind(other, key));
		served(*l, SIRDMA_OP_READ, other << 8 | key, b.va(start), 64);
		l->b.post(local_inv(other << 8 | key));
		expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
	}
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_OK);
	denied(*l, SIRDMA_OP_READ, other << 8 | 2, b.va(start), 64);
}

TEST_F(Windows, PeerInvalidatesAWindowOfType2)
{
	auto l = link();

	bound(l->b, bind(other, 1));
	l->b.recv({b.sge(0, 64)});
	l->a.post({.op = SIRDMA_OP_SEND_INV, .sges = {a.sge(0, 8)}, .rkey = other << 8 | 1});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
	EXPECT_FALSE(wait_recv(l->b).error);
	bound(l->b, bind(other, 2)); // it is free
	denied(*l, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
}

// Not of type 1, by another queue pair, by another key, or twice.
TEST_F(Windows, WrongInvalidationsAreRefused)
{
	auto l = link();
	auto invalidate = [&](u32 stag) {
		auto mine = link();

		mine->b.post(local_inv(stag));
		expect_error(wait_send(mine->b), SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
	};

	bound(l->b, bind(window, 1));
	bound(l->b, bind(other, 1));
	invalidate(window << 8 | 1);
	invalidate(other << 8 | 1);
	invalidate(other << 8 | 2);
	served(*l, SIRDMA_OP_READ, window << 8 | 1, b.va(start), 64);
	served(*l, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
	l->b.post(local_inv(other << 8 | 1));
	expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
	l->b.post(local_inv(other << 8 | 1));
	expect_error(wait_send(l->b), SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
}

// Other commands do not wait until thousands of windows are unbound.
TEST_F(Windows, AQueuePairWithManyWindowsEndsInParts)
{
	constexpr u32 parts = 3, first = 100, many = (parts - 1) * SIRDMA_CQP_DESTROY_WINDOWS + 1;
	const auto left = [&] {
		return snic_slot_peek(&b.host.dev()->mrs, region_.idx) / SNIC_SLOT_BOUND;
	};
	auto l = link(), another = link();

	bound(another->b, bind(other, 1));
	for (u32 i = 0; i < many; i++) {
		ASSERT_EQ(b.drv.alloc_mw(first + i, false), SIRDMA_CQP_OK);
		bound(l->b, bind(first + i, 1));
	}
	EXPECT_EQ(left(), many + 1);

	const u64 errors = b.stat(SIRDMA_STAT_CQP_ERRORS);

	for (u32 part = 1; part < parts; part++) {
		EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_AGAIN);
		EXPECT_EQ(left(), many + 1 - part * SIRDMA_CQP_DESTROY_WINDOWS);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_RESET);
		served(*another, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_CQP_ERRORS), errors);
	EXPECT_EQ(b.drv.dealloc_stag(region_.stag()), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_OK);
	EXPECT_EQ(left(), 1u);
	EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_NO_OBJECT);
	served(*another, SIRDMA_OP_READ, other << 8 | 1, b.va(start), 64);
}
