// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory windows: what is not bound, and what is not invalidated.
#include "mw.hpp"

namespace verbs::windows
{
namespace
{

// What a bind does wrong; each is MW_BIND_ERR.
class MemoryWindowBinds : public WindowTest {
protected:
	static void expect_bind_error(const End &end)
	{
		const auto wc = await(end.scq);

		ASSERT_TRUE(wc) << "no completion";
		// Soft-RoCE flushes it, in some kernels.
		if (!peer().is_rxe() || wc->status != IBV_WC_WR_FLUSH_ERR) {
			EXPECT_EQ(wc->status, IBV_WC_MW_BIND_ERR);
		}
	}
	static void expect_not_bound(const World &w, ibv_mw_type type, const Bind &bind,
				     const Region *region = nullptr)
	{
		ASSERT_EQ(post_bind(w.binder(), w.window(type), region ? *region : w.remote, bind),
			  0);
		expect_bind_error(w.binder());
		EXPECT_EQ(state_of(w.binder().qp.get()), IBV_QPS_ERR);
	}
};

TEST_F(MemoryWindowBinds, OutsideTheRegion)
{
	for (ibv_mw_type type : both_types) {
		expect_not_bound(make_world(), type, {.from = room - 63, .length = 64});
		expect_not_bound(make_world(), type, {.from = size_t{0} - 1, .length = 64});
		expect_not_bound(make_world(), type, {.from = room, .length = 1});
		expect_not_bound(make_world(), type, {.from = 0, .length = room + 1});
	}
}

TEST_F(MemoryWindowBinds, LengthThatWraps)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE does not see it";
	for (ibv_mw_type type : both_types)
		expect_not_bound(make_world(), type, {.length = ~0ull});
}

TEST_F(MemoryWindowBinds, RegionThatMayNotBeBound)
{
	for (ibv_mw_type type : both_types)
		expect_not_bound(make_world(all_access), type, {});
}

TEST_F(MemoryWindowBinds, MoreThanTheRegionItself)
{
	for (ibv_mw_type type : both_types) {
		for (int rights : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC})
			expect_not_bound(make_world(IBV_ACCESS_MW_BIND), type, {.rights = rights});
		const World w = make_world(IBV_ACCESS_MW_BIND);
		expect_bound(w.binder(), w.window(type), w.remote,
			     {.rights = IBV_ACCESS_REMOTE_READ});
	}
}

// libibverbs itself compares the domains of a window of type 1 and its region.
TEST_F(MemoryWindowBinds, RegionOfAnotherDomain)
{
	const Pd pd(ibv_alloc_pd(peer().context.get()));
	const Region foreign = make_region(pd.get(), room, bind_access);

	ASSERT_TRUE(foreign);
	expect_not_bound(make_world(), IBV_MW_TYPE_2, {}, &foreign);
	const World w = make_world();
	EXPECT_EQ(post_bind(w.binder(), w.window(IBV_MW_TYPE_1), foreign, Bind{}), EPERM);
}

TEST_F(MemoryWindowBinds, QueuePairOfAnotherDomain)
{
	for (ibv_mw_type type : both_types) {
		const Pd pd(ibv_alloc_pd(peer().context.get()));
		const Region foreign = make_region(pd.get(), room, bind_access);
		World w = make_world();
		Mw &mw = w.mw[type == IBV_MW_TYPE_2];

		mw.reset(ibv_alloc_mw(pd.get(), type));
		ASSERT_TRUE(mw && foreign);
		expect_not_bound(w, type, {}, &foreign);
		mw.reset(); // before its domain
	}
}

TEST_F(MemoryWindowBinds, WindowOfAnotherDomain)
{
	const Pd pd(ibv_alloc_pd(peer().context.get()));
	World w = make_world();

	w.mw[1].reset(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
	ASSERT_TRUE(w.mw[1]);
	expect_not_bound(w, IBV_MW_TYPE_2, {});
	w.mw[1].reset(); // before its domain
}

TEST_F(MemoryWindowBinds, Type2TwiceOrByAnotherOrToNothing)
{
	const World w = make_world();
	const Pair other = sibling(w);
	ibv_mw *mw = w.window(IBV_MW_TYPE_2);

	expect_bound(w.binder(), mw, w.remote);
	const uint32_t key = mw->rkey;
	ASSERT_EQ(post_bind(other.b, mw, w.remote, Bind{}), 0);
	expect_bind_error(other.b);
	mw->rkey = key;
	expect_usable(w, mw, w.remote.address(start));
	expect_not_bound(w, IBV_MW_TYPE_2, {});
	expect_not_bound(make_world(), IBV_MW_TYPE_2, {.length = 0});
}

TEST_F(MemoryWindowBinds, InvalidationsOfOtherWindows)
{
	for (ibv_mw_type type : both_types) {
		const World w = make_world();
		const Pair other = sibling(w);
		const bool mine = type == IBV_MW_TYPE_1; // which no invalidation ends

		expect_bound(w.binder(), w.window(type), w.remote);
		if (peer().is_rxe() && !mine)
			continue; // soft-RoCE lets any queue pair do it
		ASSERT_EQ(post(other.b, {.op = IBV_WR_LOCAL_INV, .rkey = w.window(type)->rkey}), 0);
		const auto wc = await(other.b.scq);
		ASSERT_TRUE(wc);
		EXPECT_NE(wc->status, IBV_WC_SUCCESS);
		if (!peer().is_rxe()) {
			EXPECT_EQ(wc->status, IBV_WC_MW_BIND_ERR);
		}
		expect_usable(w, w.window(type), w.remote.address(start));
	}
}

// What libraries refuse, so that no completion comes.
TEST_F(MemoryWindowBinds, ThatAreNotPosted)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "the library of ours";
	const World w = make_world();
	const Region zero = make_region(w.pair.b.pd, room, bind_access | IBV_ACCESS_ZERO_BASED);

	ASSERT_TRUE(zero);
	for (ibv_mw_type type : both_types) {
		const uint32_t key = w.window(type)->rkey;

		EXPECT_EQ(post_bind(w.binder(), w.window(type), zero, Bind{}), EINVAL);
		EXPECT_EQ(post_bind(w.binder(), w.window(type), w.remote, {.rights = 1 << 30}),
			  EINVAL);
		EXPECT_EQ(w.window(type)->rkey, key);
	}
	EXPECT_EQ(post_bind(w.binder(), w.window(IBV_MW_TYPE_1), w.remote,
			    {.rights = window_rights | IBV_ACCESS_ZERO_BASED}),
		  EINVAL);
	ibv_mw_bind bind = {};
	EXPECT_EQ(ibv_bind_mw(w.binder().qp.get(), w.window(IBV_MW_TYPE_2), &bind), EINVAL);
	expect_quiet(w.binder().scq, std::chrono::milliseconds(50));
	expect_bound(w.binder(), w.window(IBV_MW_TYPE_2), w.remote);
}

} // namespace
} // namespace verbs::windows
