// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Compare-and-swap and fetch-and-add: what they return, what they refuse, and that none gets lost among many
// queue pairs and CPUs.
#include "fixture.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace verbs
{
namespace
{

constexpr size_t room = 8192;
constexpr int atomic_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint64_t initial = 0x1122334455667788, other = 0x99aabbccddeeff00;

class Atomics : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		ASSERT_NE(device().attr.atomic_cap, IBV_ATOMIC_NONE);
		ASSERT_NE(peer().attr.atomic_cap, IBV_ATOMIC_NONE);
	}
	static Link atomic_link()
	{
		Link link = default_link();

		link.access = atomic_access;
		return link;
	}
	// A connected pair with a region at each end; the counter is the first word of the remote one.
	struct World {
		Pair pair;
		Region local, remote;

		uint64_t &word(size_t offset = 0) const
		{
			return *reinterpret_cast<uint64_t *>(remote.address(offset));
		}
		uint64_t result(size_t offset = 0) const
		{
			return *reinterpret_cast<const uint64_t *>(local.address(offset));
		}
		SendSpec add(uint64_t n, size_t to = 0) const
		{
			return {.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
				.sges = {local.sge(to, 8)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey,
				.compare_add = n};
		}
		SendSpec swap(uint64_t compare, uint64_t next, size_t to = 0) const
		{
			SendSpec spec = add(compare, to);

			spec.op = IBV_WR_ATOMIC_CMP_AND_SWP;
			spec.swap = next;
			return spec;
		}
	};
	World make_world(int access = atomic_access)
	{
		World world = {.pair = make_pair({}, atomic_link()), .local = {}, .remote = {}};

		world.local = make_region(world.pair.a.pd, room);
		world.remote = make_region(world.pair.b.pd, room, access);
		EXPECT_TRUE(world.local && world.remote);
		world.local.fill(1);
		world.remote.fill(2);
		world.word() = initial;
		return world;
	}
};

// Refused ones, for which a NAK must arrive.
class AtomicProtection : public Atomics {};

TEST_F(Atomics, ReturnWhatWasThere)
{
	World w = make_world();

	ASSERT_EQ(post(w.pair.a, w.add(5, 0)), 0);
	ASSERT_EQ(post(w.pair.a, w.swap(initial + 5, other, 8)), 0);
	ASSERT_EQ(post(w.pair.a, w.swap(initial, 1, 16)), 0);
	ASSERT_EQ(post(w.pair.a, w.add(~0ull, 24)), 0);
	for (ibv_wc_opcode op :
	     {IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD}) {
		const ibv_wc wc = expect_wc(w.pair.a.scq);

		EXPECT_EQ(wc.opcode, op);
		EXPECT_EQ(wc.byte_len, 8u);
	}
	EXPECT_EQ(w.result(0), initial);
	EXPECT_EQ(w.result(8), initial + 5);
	EXPECT_EQ(w.result(16), other);
	EXPECT_EQ(w.result(24), other);
	EXPECT_EQ(w.word(), other - 1);
	// Nothing around them.
	EXPECT_TRUE(has_pattern(w.local.bytes(32, room - 32), 1, 32));
	EXPECT_TRUE(has_pattern(w.remote.bytes(8, room - 8), 2, 8));
}

TEST_F(Atomics, OneCounterForManyQueuePairsAndThisProcess)
{
	constexpr int lanes = 4, each = 200;
	std::vector<World> worlds;

	worlds.push_back(make_world());
	while (worlds.size() < lanes) {
		worlds.push_back({.pair = make_pair({}, atomic_link()), .local = {}, .remote = {}});
		worlds.back().local = make_region(worlds.back().pair.a.pd, room);
		// The same memory, registered in each protection domain.
		worlds.back().remote.mr.reset(ibv_reg_mr(worlds.back().pair.b.pd,
							 worlds[0].remote.memory.data(), room,
							 atomic_access));
		ASSERT_TRUE(worlds.back().local && worlds.back().remote);
	}
	const Region &counter = worlds[0].remote;
	const auto post_add = [&](const World &w) {
		return post(w.pair.a, {.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
				       .sges = {w.local.sge(0, 8)},
				       .remote_addr = counter.address(),
				       .rkey = w.remote.mr->rkey,
				       .compare_add = 1});
	};
	// IBV_ATOMIC_GLOB: atomic against the CPUs as well. One adds until all of the others have completed.
	const bool global = peer().attr.atomic_cap == IBV_ATOMIC_GLOB;
	std::atomic<bool> over{false};
	std::atomic<uint64_t> own{0};
	std::thread cpu([&] {
		std::atomic_ref<uint64_t> word(worlds[0].word());

		while (global && !over) {
			word.fetch_add(1);
			own.fetch_add(1, std::memory_order_relaxed);
		}
	});
	if (global)
		await_condition([&] { return own > 0; });
	const uint64_t own_before = own;

	for (int i = 0; i < each; ++i) {
		for (const World &w : worlds)
			EXPECT_EQ(post_add(w), 0);
		for (const World &w : worlds)
			expect_wc(w.pair.a.scq);
		if (HasFailure())
			break;
	}
	const uint64_t own_after = own;
	over = true;
	cpu.join();
	EXPECT_EQ(worlds[0].word(), initial + lanes * each + own);
	if (global) {
		EXPECT_GT(own_after - own_before, 100u) << "not at the same time";
	}
}

TEST_F(Atomics, FenceMakesTheNextRequestWait)
{
	World w = make_world();

	ASSERT_EQ(post_recv(w.pair.b, {w.remote.sge(4096, 8)}), 0);
	ASSERT_EQ(post(w.pair.a, w.swap(initial, other)), 0);
	// The SEND carries the result of the atomic before it.
	ASSERT_EQ(post(w.pair.a, {.sges = {w.local.sge(0, 8)}, .flags = signaled | IBV_SEND_FENCE}),
		  0);
	expect_wc(w.pair.a.scq);
	expect_wc(w.pair.a.scq);
	expect_wc(w.pair.b.rcq);
	EXPECT_EQ(w.word(4096), initial);
	EXPECT_EQ(w.word(), other);
}

TEST_F(AtomicProtection, MisalignedAddressIsAnInvalidRequest)
{
	World w = make_world();
	SendSpec spec = w.add(1);

	spec.remote_addr += 4;
	if (const int err = post(w.pair.a, spec)) {
		EXPECT_TRUE(device().is_rxe()); // which refuses it at once
		EXPECT_EQ(err, EINVAL);
		return;
	}
	expect_wc(w.pair.a.scq, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_EQ(w.word(), initial);
}

TEST_F(AtomicProtection, RegionWithoutTheRight)
{
	World w = make_world(all_access);

	ASSERT_EQ(post(w.pair.a, w.add(1)), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(w.word(), initial);
}

TEST_F(AtomicProtection, QueuePairWithoutTheRight)
{
	Pair pair = make_pair();
	const Region remote = make_region(pair.b.pd, room, atomic_access);
	const Region local = make_region(pair.a.pd, room);

	ASSERT_TRUE(remote && local);
	remote.fill(3);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
				.sges = {local.sge(0, 8)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey,
				.compare_add = 1}),
		  0);
	expect_wc(pair.a.scq, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), 3));
}

TEST_F(AtomicProtection, WrongKeyOrPlace)
{
	for (int what = 0; what < 3; ++what) {
		World w = make_world();
		SendSpec spec = w.swap(initial, 0);

		switch (what) {
		case 0:
			spec.rkey ^= 1;
			break;
		case 1:
			spec.remote_addr -= 8;
			break;
		default:
			spec.remote_addr = w.remote.address(room);
		}
		ASSERT_EQ(post(w.pair.a, spec), 0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(w.word(), initial);
	}
}

TEST_F(Atomics, RequestsThatCannotBe)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe takes some of them";
	World w = make_world();
	SendSpec spec = w.add(1);

	spec.sges = {};
	EXPECT_EQ(post(w.pair.a, spec), EINVAL);
	spec.sges = {w.local.sge(0, 4)};
	EXPECT_EQ(post(w.pair.a, spec), EINVAL);
	spec.sges = {w.local.sge(0, 8), w.local.sge(8, 8)};
	EXPECT_EQ(post(w.pair.a, spec), EINVAL);
	spec = w.add(1);
	spec.flags |= IBV_SEND_INLINE;
	EXPECT_EQ(post(w.pair.a, spec), EINVAL);

	EndOptions uc;
	uc.type = IBV_QPT_UC;
	Pair unreliable = make_pair(uc);
	EXPECT_EQ(post(unreliable.a, w.add(1)), EINVAL);
	EXPECT_EQ(w.word(), initial);
}

TEST_F(Atomics, BuilderWritesThemToo)
{
	Pair pair = make_pair({}, atomic_link());
	ibv_qp_ex *ex = use_builder(pair, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
						  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);

	ASSERT_TRUE(ex) << std::strerror(errno);

	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room, atomic_access);

	ASSERT_TRUE(local && remote);
	uint64_t &word = *reinterpret_cast<uint64_t *>(remote.address());
	const auto *results = reinterpret_cast<const uint64_t *>(local.address());
	word = initial;
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 1;
	ibv_wr_atomic_fetch_add(ex, remote.mr->rkey, remote.address(), 3);
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(), 8);
	ex->wr_id = 2;
	ibv_wr_atomic_cmp_swp(ex, remote.mr->rkey, remote.address(), initial + 3, other);
	ibv_wr_set_sge(ex, local.mr->lkey, local.address(8), 8);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(expect_wc(pair.a.scq).opcode, IBV_WC_FETCH_ADD);
	EXPECT_EQ(expect_wc(pair.a.scq).opcode, IBV_WC_COMP_SWAP);
	EXPECT_EQ(results[0], initial);
	EXPECT_EQ(results[1], initial + 3);
	EXPECT_EQ(word, other);
}

} // namespace
} // namespace verbs
