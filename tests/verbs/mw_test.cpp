// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory windows of type 1 and 2: what peers may do by a window and what they may not, and how a window ends.
#include "mw.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <thread>
#include <unistd.h>

namespace verbs::windows
{
namespace
{

class MemoryWindows : public WindowTest {};
// Refused accesses, for which a NAK must arrive, and unreliable connections.
class MemoryWindowProtection : public WindowTest {};

TEST_F(MemoryWindows, AreAttributesOfTheDevice)
{
	EXPECT_GT(peer().attr.max_mw, 0);
	EXPECT_FALSE(peer().attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	if (!peer().is_rxe()) {
		EXPECT_EQ(peer().attr.max_mw, peer().attr.max_mr);
	}
}

TEST_F(MemoryWindows, HaveKeysOfTheirOwn)
{
	const World w = make_world();

	for (ibv_mw_type type : both_types) {
		EXPECT_EQ(w.window(type)->type, type);
		EXPECT_EQ(w.window(type)->pd, w.pair.b.pd);
		EXPECT_NE(w.window(type)->rkey >> 8, w.remote.mr->rkey >> 8);
	}
	EXPECT_NE(w.mw[0]->rkey >> 8, w.mw[1]->rkey >> 8);
}

TEST_F(MemoryWindows, AreReadAndWritten)
{
	for (ibv_mw_type type : both_types) {
		const World w = make_world();

		expect_bound(w.binder(), w.window(type), w.remote);
		expect_usable(w, w.window(type), w.remote.address(start));
	}
}

TEST_F(MemoryWindows, AtomicsNeedTheirRight)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_1);
	const SendSpec add = {.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
			      .sges = {w.local.sge(0, 8)},
			      .remote_addr = w.remote.address(start),
			      .compare_add = 1};
	uint64_t before, after;

	expect_bound(w.binder(), mw, w.remote, {.rights = IBV_ACCESS_REMOTE_ATOMIC});
	memcpy(&before, w.remote.bytes(start, 8).data(), 8);
	SendSpec spec = add;
	spec.rkey = mw->rkey;
	ASSERT_EQ(post(w.pair.a, spec), 0);
	expect_wc(w.pair.a.scq);
	memcpy(&after, w.remote.bytes(start, 8).data(), 8);
	EXPECT_EQ(after, before + 1);
}

TEST_F(MemoryWindows, Type2MayBeZeroBased)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	expect_bound(w.binder(), mw, w.remote, {.rights = window_rights | IBV_ACCESS_ZERO_BASED});
	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE addresses it otherwise";
	expect_usable(w, mw, 0);
	expect_access(w.pair.a, w, IBV_WR_RDMA_READ, mw->rkey, length - 1, 1);
}

// What a consumer may do before it has seen the completion: send the key by the same queue pair.
TEST_F(MemoryWindows, KeySentBehindTheBindIsValid)
{
	const World w = make_world();

	for (int i = 0; i < 20; i++) {
		ibv_mw *mw = w.window(IBV_MW_TYPE_1);

		ASSERT_EQ(post_recv(w.pair.a, {w.local.sge(8192, 64)}), 0);
		ASSERT_EQ(post_bind(w.binder(), mw, w.remote, Bind{}), 0);
		memcpy(w.remote.bytes(0, 4).data(), &mw->rkey, 4);
		ASSERT_EQ(post(w.binder(), {.sges = {w.remote.sge(0, 4)}}), 0);
		expect_wc(w.pair.a.rcq);

		uint32_t key;
		memcpy(&key, w.local.bytes(8192, 4).data(), 4);
		EXPECT_EQ(key, mw->rkey);
		expect_access(w.pair.a, w, IBV_WR_RDMA_WRITE, key, w.remote.address(start), 64);
		EXPECT_EQ(expect_wc(w.binder().scq).opcode, IBV_WC_BIND_MW);
		EXPECT_EQ(expect_wc(w.binder().scq).opcode, IBV_WC_SEND);
	}
}

TEST_F(MemoryWindows, Type1IsOfAllQueuePairsOfItsDomain)
{
	const World w = make_world();
	const Pair other = sibling(w);
	ibv_mw *mw = w.window(IBV_MW_TYPE_1);

	expect_bound(other.b, mw, w.remote);
	expect_usable(w, mw, w.remote.address(start));
	// Any of them binds it again.
	expect_bound(w.binder(), mw, w.remote);
	expect_usable(w, mw, w.remote.address(start));
	expect_access(other.a, w, IBV_WR_RDMA_READ, mw->rkey, w.remote.address(start), 64);
}

TEST_F(MemoryWindows, ManyLieInOneRegion)
{
	const World w = make_world();
	std::vector<Mw> many;

	for (int i = 0; i < 64; i++) {
		const size_t at = static_cast<size_t>(i) * 256;

		many.emplace_back(ibv_alloc_mw(w.pair.b.pd, both_types[i % 2]));
		ASSERT_TRUE(many.back()) << std::strerror(errno);
		expect_bound(w.binder(), many.back().get(), w.remote, {.from = at, .length = 256});
		expect_access(w.pair.a, w, IBV_WR_RDMA_WRITE, many.back()->rkey,
			      w.remote.address(at), 256);
	}
	for (int i = 0; i < 64; i++)
		EXPECT_TRUE(has_pattern(w.remote.bytes(static_cast<size_t>(i) * 256, 256), 1)) << i;
}

TEST_F(MemoryWindowProtection, UnreliableConnectionsHaveThem)
{
	if (device().is_rxe() || peer().is_rxe())
		GTEST_SKIP() << "between devices of ours";
	const World w = make_world(bind_access, IBV_QPT_UC);
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	expect_bound(w.binder(), mw, w.remote);
	ASSERT_EQ(post_recv(w.pair.b, {}), 0);
	expect_access(w.pair.a, w, IBV_WR_RDMA_WRITE_WITH_IMM, mw->rkey, w.remote.address(start),
		      length);
	// The sender does not know when it has arrived.
	expect_wc(w.pair.b.rcq);
	EXPECT_TRUE(has_pattern(w.remote.bytes(start, length), 1));
	EXPECT_TRUE(has_pattern(w.remote.bytes(0, start), 2));
}

TEST_F(MemoryWindows, BuilderBindsThem)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "the builder of ours";
	World w = make_world();
	ibv_qp_init_attr_ex init = {};

	init.send_cq = w.pair.b.scq;
	init.recv_cq = w.pair.b.rcq;
	init.cap = {.max_send_wr = 8,
		    .max_recv_wr = 1,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 0};
	init.qp_type = IBV_QPT_RC;
	init.pd = w.pair.b.pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	w.pair.b.qp.reset(ibv_create_qp_ex(peer().context.get(), &init));
	ASSERT_TRUE(w.pair.b.qp) << std::strerror(errno);
	w.pair.reset();
	w.pair.connect();

	ibv_qp_ex *ex = ibv_qp_to_qp_ex(w.pair.b.qp.get());
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);
	ibv_mw_bind_info info = {};

	info.mr = w.remote.mr.get();
	info.addr = w.remote.address(start);
	info.length = length;
	info.mw_access_flags = window_rights;
	ASSERT_TRUE(ex);
	for (uint32_t key : {0x11u, 0xffu}) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(ex, mw, key, &info);
		ASSERT_EQ(ibv_wr_complete(ex), 0);
		EXPECT_EQ(expect_wc(w.pair.b.scq).opcode, IBV_WC_BIND_MW);
		mw->rkey = (mw->rkey & ~0xffu) | key;
		expect_usable(w, mw, w.remote.address(start));
		ibv_wr_start(ex);
		ibv_wr_local_inv(ex, mw->rkey);
		ASSERT_EQ(ibv_wr_complete(ex), 0);
		expect_wc(w.pair.b.scq);
	}
}

// What an access does wrong.
struct WindowFault {
	const char *name;
	ibv_wr_opcode op;
	int rights;
	int64_t at; // relative to the window
	size_t bytes;
	uint32_t key_flip;
};

void PrintTo(const WindowFault &fault, std::ostream *out)
{
	*out << fault.name;
}

const WindowFault window_faults[] = {
	{"ReadBefore", IBV_WR_RDMA_READ, window_rights, -1, 1, 0},
	{"WriteBefore", IBV_WR_RDMA_WRITE, window_rights, -1, 2, 0},
	{"ReadBehind", IBV_WR_RDMA_READ, window_rights, length, 1, 0},
	{"WriteAcrossTheEnd", IBV_WR_RDMA_WRITE, window_rights, length - 1, 2, 0},
	{"WriteTooMuch", IBV_WR_RDMA_WRITE, window_rights, 0, length + 1, 0},
	{"ReadFarAway", IBV_WR_RDMA_READ, window_rights, 1ll << 40, 8, 0},
	{"WriteWithoutRight", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, 0, 8, 0},
	{"WriteWithALocalRight", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE,
	 0, 8, 0},
	{"ReadWithoutRight", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_WRITE, 0, 8, 0},
	{"ReadWithoutAnyRight", IBV_WR_RDMA_READ, 0, 0, 8, 0},
	{"AddWithoutRight", IBV_WR_ATOMIC_FETCH_AND_ADD, window_rights, 0, 8, 0},
	{"OtherKey", IBV_WR_RDMA_READ, window_rights, 0, 8, 1},
};

class MemoryWindowProtectionTable
	: public WindowTest,
	  public testing::WithParamInterface<std::tuple<ibv_mw_type, WindowFault>> {};

TEST_P(MemoryWindowProtectionTable, IsRefused)
{
	const auto &[type, fault] = GetParam();
	const World w = make_world();

	if (peer().is_rxe() && (fault.at || fault.bytes > length) && fault.at < 1 << 20)
		GTEST_SKIP() << "soft-RoCE compares with the region, not with the window";

	expect_bound(w.binder(), w.window(type), w.remote, {.rights = fault.rights});
	expect_refused(w.pair.a, w, fault.op, w.window(type)->rkey ^ fault.key_flip,
		       w.remote.address(start) + static_cast<uint64_t>(fault.at), fault.bytes);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryWindowProtectionTable,
			 testing::Combine(testing::ValuesIn(both_types),
					  testing::ValuesIn(window_faults)),
			 [](const auto &info) {
				 return std::string("Type") +
					(std::get<0>(info.param) == IBV_MW_TYPE_1 ? "1" : "2") +
					std::get<1>(info.param).name;
			 });

TEST_F(MemoryWindowProtection, RegionBehindTheWindowStaysClosed)
{
	const World w = make_world();

	expect_bound(w.binder(), w.window(IBV_MW_TYPE_1), w.remote);
	expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, w.remote.mr->rkey, w.remote.address(start),
		       8);
}

TEST_F(MemoryWindowProtection, ZeroBasedWindowEndsAtItsLength)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE addresses it otherwise";
	for (uint64_t at : {uint64_t{length} - 1, uint64_t{length}, ~uint64_t{0}, uint64_t{0}}) {
		const World w = make_world();
		ibv_mw *mw = w.window(IBV_MW_TYPE_2);

		expect_bound(w.binder(), mw, w.remote,
			     {.rights = window_rights | IBV_ACCESS_ZERO_BASED});
		expect_refused(w.pair.a, w, IBV_WR_RDMA_WRITE, mw->rkey,
			       at ? at : w.remote.address(start), 2);
	}
}

TEST_F(MemoryWindowProtection, UnboundWindow)
{
	for (ibv_mw_type type : both_types) {
		const World w = make_world();

		expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, w.window(type)->rkey,
			       w.remote.address(start), 8);
	}
}

TEST_F(MemoryWindowProtection, BindingType1AgainEndsTheFormerKey)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_1);

	expect_bound(w.binder(), mw, w.remote);
	const uint32_t former = mw->rkey;
	expect_bound(w.binder(), mw, w.remote, {.from = 0, .length = 64});
	EXPECT_NE(mw->rkey, former);
	expect_access(w.pair.a, w, IBV_WR_RDMA_READ, mw->rkey, w.remote.address(), 64);
	expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, former, w.remote.address(), 64);
}

TEST_F(MemoryWindowProtection, BindingNothingEndsType1)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_1);
	ibv_mw_bind_info nothing = {};

	expect_bound(w.binder(), mw, w.remote);
	const uint32_t former = mw->rkey;
	if (peer().is_rxe()) // whose library wants a region
		nothing.mr = w.remote.mr.get();
	ASSERT_EQ(post_bind(w.binder(), mw, nothing), 0);
	expect_wc(w.binder().scq);
	expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, former, w.remote.address(start), 8);
}

TEST_F(MemoryWindowProtection, Type2IsOfTheQueuePairThatBoundIt)
{
	const World w = make_world();
	const Pair other = sibling(w);
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	expect_bound(w.binder(), mw, w.remote);
	expect_refused(other.a, w, IBV_WR_RDMA_READ, mw->rkey, w.remote.address(start), 8);
	expect_usable(w, mw, w.remote.address(start));
}

TEST_F(MemoryWindowProtection, LocalInvalidationEndsType2)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	for (int i = 0; i < 3; i++) {
		expect_bound(w.binder(), mw, w.remote);
		expect_usable(w, mw, w.remote.address(start));
		ASSERT_EQ(post(w.binder(), {.op = IBV_WR_LOCAL_INV, .rkey = mw->rkey}), 0);
		EXPECT_EQ(expect_wc(w.binder().scq).opcode, IBV_WC_LOCAL_INV);
	}
	expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, mw->rkey, w.remote.address(start), 8);
}

TEST_F(MemoryWindowProtection, PeersInvalidationEndsType2)
{
	const World w = make_world();
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	for (int i = 0; i < 3; i++) {
		expect_bound(w.binder(), mw, w.remote);
		expect_usable(w, mw, w.remote.address(start));
		ASSERT_EQ(post_recv(w.binder(), {w.remote.sge(0, 64)}), 0);
		ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_SEND_WITH_INV,
					  .sges = {w.local.sge(0, 0)},
					  .rkey = mw->rkey}),
			  0);
		expect_wc(w.pair.a.scq);
		const ibv_wc wc = expect_wc(w.binder().rcq);
		if (peer().is_rxe())
			continue; // does not say so
		EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
		EXPECT_EQ(wc.invalidated_rkey, mw->rkey);
	}
	expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, mw->rkey, w.remote.address(start), 8);
}

TEST_F(MemoryWindowProtection, DeallocationEndsABoundWindow)
{
	for (ibv_mw_type type : both_types) {
		World w = make_world();
		Mw &mw = w.mw[type == IBV_MW_TYPE_2];

		expect_bound(w.binder(), mw.get(), w.remote);
		const uint32_t key = mw->rkey;
		ASSERT_EQ(destroy(mw), 0);
		expect_refused(w.pair.a, w, IBV_WR_RDMA_READ, key, w.remote.address(start), 8);
	}
}

// Neither freed nor changed: it can be used until its windows are gone.
TEST_F(MemoryWindows, KeepTheirRegion)
{
	for (ibv_mw_type type : both_types) {
		World w = make_world();
		Mw &mw = w.mw[type == IBV_MW_TYPE_2];

		expect_bound(w.binder(), mw.get(), w.remote);
		for (int i = 0; i < 3; i++) {
			const int err = ibv_dereg_mr(w.remote.mr.get());
			if (peer().is_rxe())
				ASSERT_NE(err, 0);
			else
				ASSERT_EQ(err, EBUSY);
		}
		expect_usable(w, mw.get(), w.remote.address(start));
		ASSERT_EQ(destroy(mw), 0);
		EXPECT_EQ(destroy(w.remote.mr), 0);
	}
}

// IBTA o10-2.2.5: a queue pair may be destroyed while windows of type 2B are bound to it.
TEST_F(MemoryWindows, Type2EndsWithItsQueuePair)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "a window holds its queue pair there";
	World w = make_world();
	World other = make_world();
	std::vector<Mw> many;

	for (int i = 0; i < 20; i++) {
		many.emplace_back(ibv_alloc_mw(w.pair.b.pd, IBV_MW_TYPE_2));
		ASSERT_TRUE(many.back());
		expect_bound(w.binder(), many.back().get(), w.remote);
	}
	// From the middle, the end and the beginning.
	for (size_t i : {10u, 18u, 0u})
		ASSERT_EQ(destroy(many[i]), 0);
	expect_bound(w.binder(), w.window(IBV_MW_TYPE_2), w.remote);
	expect_bound(w.binder(), w.window(IBV_MW_TYPE_1), w.remote);
	expect_bound(other.binder(), other.window(IBV_MW_TYPE_2), other.remote);
	ASSERT_EQ(destroy(w.pair.b.qp), 0);
	// That of type 1 is not the queue pair's.
	EXPECT_EQ(ibv_dereg_mr(w.remote.mr.get()), EBUSY);
	const Pair again = sibling(w);
	expect_access(again.a, w, IBV_WR_RDMA_READ, w.window(IBV_MW_TYPE_1)->rkey,
		      w.remote.address(start), 64);
	expect_bound(again.b, w.window(IBV_MW_TYPE_2), w.remote);
	for (auto &mw : w.mw)
		ASSERT_EQ(destroy(mw), 0);
	EXPECT_EQ(destroy(w.remote.mr), 0);
	expect_usable(other, other.window(IBV_MW_TYPE_2), other.remote.address(start));
}

TEST_F(MemoryWindows, KeepTheirDomain)
{
	Pd pd(ibv_alloc_pd(peer().context.get()));
	Mw mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1));

	ASSERT_TRUE(mw);
	EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
	EXPECT_EQ(destroy(mw), 0);
	EXPECT_EQ(destroy(pd), 0);
}

TEST_F(MemoryWindows, AreFlushedInAStoppedQueuePair)
{
	for (ibv_mw_type type : both_types) {
		World w = make_world();

		ASSERT_EQ(to_state(w.binder().qp.get(), IBV_QPS_ERR), 0);
		ASSERT_EQ(post_bind(w.binder(), w.window(type), w.remote, Bind{}), 0);
		expect_wc(w.binder().scq, IBV_WC_WR_FLUSH_ERR);
		// It was not bound.
		EXPECT_EQ(destroy(w.remote.mr), 0);
	}
}

// Each bind ends what another queue pair has just bound, and the region is not let go meanwhile.
TEST_F(MemoryWindows, TwoQueuePairsBindOneWindowInTurns)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "devices of ours";
	constexpr int binds = 300;
	const World w = make_world();
	const Pair other = sibling(w);
	ibv_mw *mw = w.window(IBV_MW_TYPE_1);

	expect_bound(w.binder(), mw, w.remote);
	// Another window keeps the region.
	expect_bound(w.binder(), w.window(IBV_MW_TYPE_2), w.remote);
	auto run = [&](const End &end, uint32_t key) {
		ibv_mw mine = *mw;

		for (int i = 0; i < binds && !testing::Test::HasFailure(); i++) {
			mine.rkey = (mine.rkey & ~0xffu) | key;
			ASSERT_EQ(post_bind(end, &mine, w.remote, Bind{}), 0);
			expect_wc(end.scq);
		}
	};
	std::thread one(run, std::cref(w.binder()), 0x20), two(run, std::cref(other.b), 0x40);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(ibv_dereg_mr(w.remote.mr.get()), EBUSY);
	one.join();
	two.join();
	expect_bound(w.binder(), mw, w.remote);
	expect_usable(w, mw, w.remote.address(start));
}

// Binds and invalidations while the peer reads: a READ is served whole, or refused and the connection made anew.
TEST_F(MemoryWindowProtection, InvalidationWhileThePeerReads)
{
	if (device().is_rxe() || peer().is_rxe())
		GTEST_SKIP() << "devices of ours";
	World w = make_world();

	for (int i = 0; i < 60 && !HasFailure(); i++) {
		const Mw mw(ibv_alloc_mw(w.pair.b.pd, IBV_MW_TYPE_2));

		ASSERT_TRUE(mw);
		expect_bound(w.binder(), mw.get(), w.remote);
		for (int n = 0; n < 4; n++)
			ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_RDMA_READ,
						  .sges = {w.local.sge(0, length)},
						  .remote_addr = w.remote.address(start),
						  .rkey = mw->rkey}),
				  0);
		ASSERT_EQ(post(w.binder(), {.op = IBV_WR_LOCAL_INV, .rkey = mw->rkey}), 0);
		bool broken = false;
		for (int n = 0; n < 4; n++) {
			const auto wc = await(w.pair.a.scq);

			ASSERT_TRUE(wc);
			if (wc->status == IBV_WC_SUCCESS)
				continue;
			EXPECT_TRUE(ends_as(wc->status,
					    broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR))
				<< ibv_wc_status_str(wc->status);
			broken = true;
		}
		// It ends by itself, or is flushed with the connection.
		ASSERT_TRUE(await(w.binder().scq));
		if (!broken)
			continue;
		w.pair.reset();
		w.pair.connect();
	}
	EXPECT_EQ(destroy(w.remote.mr), 0);
}

// For a scenario that kills this program: everything is bound, and stays so.
TEST_F(MemoryWindows, HeldUntilTheProgramIsKilled)
{
	const char *seconds = std::getenv("VERBS_HOLD_WINDOWS");
	if (!seconds)
		GTEST_SKIP() << "VERBS_HOLD_WINDOWS is not set";
	const World w = make_world();
	std::vector<Mw> many;

	for (int i = 0; i < 100; i++) {
		many.emplace_back(ibv_alloc_mw(w.pair.b.pd, both_types[i % 2]));
		expect_bound(w.binder(), many.back().get(), w.remote);
	}
	printf("windows are bound\n");
	fflush(stdout);
	sleep(static_cast<unsigned>(std::atoi(seconds)));
}

} // namespace
} // namespace verbs::windows
