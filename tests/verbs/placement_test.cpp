// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// ATOMIC WRITE: eight bytes that are written at once. FLUSH: data that is where all can see it. What is refused.
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
constexpr uint64_t initial = 0x1122334455667788, other = 0x99aabbccddeeff00;

// Of device_cap_flags_ex: the library has no names for them.
constexpr uint64_t cap_flush_global = 1ull << 38, cap_flush_persistent = 1ull << 39,
		   cap_atomic_write = 1ull << 40;

// Names that older headers lack.
constexpr int access_flush_global = 1 << 8, access_flush_persistent = 1 << 9;
constexpr uint64_t with_flush = 1 << 11;
constexpr int wc_flush = 8;
enum Placed : uint8_t { global = 1, persistent = 2 };
enum Level : uint8_t { range = 0, region = 1 };

template <typename Ex>
concept KnowsFlush = requires(Ex *ex)
{
	ex->wr_flush;
};

// Is ibv_wr_flush() in the header? The library is not older.
template <typename Ex> constexpr bool header_knows_flush = KnowsFlush<Ex>;

template <typename Ex>
void wr_flush(Ex *ex, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level)
{
	if constexpr (KnowsFlush<Ex>)
		ex->wr_flush(ex, rkey, address, length, type, level);
}

uint64_t caps_of(const Device &dev)
{
	ibv_device_attr_ex attr = {};

	EXPECT_EQ(ibv_query_device_ex(dev.context.get(), nullptr, &attr), 0);
	return attr.device_cap_flags_ex;
}

class Placement : public VerbsTest {
protected:
	void require(uint64_t cap)
	{
		for (const Device *dev : {&device(), &peer()}) {
			if (caps_of(*dev) & cap)
				continue;
			// Ours have them.
			ASSERT_TRUE(dev->is_rxe());
			GTEST_SKIP() << "this soft-RoCE does not know the operation";
		}
	}
	// A connected pair whose first end has the builder, with a region at each end.
	struct World {
		Pair pair;
		Region local, remote;
		ibv_qp_ex *ex = nullptr;

		uint64_t &word(size_t offset = 0) const
		{
			return *reinterpret_cast<uint64_t *>(remote.address(offset));
		}
		// Post a request that @add adds to the builder's list.
		template <typename Add> int post(Add add, unsigned flags = signaled) const
		{
			ibv_wr_start(ex);
			ex->wr_id = 1;
			ex->wr_flags = flags;
			add();
			return ibv_wr_complete(ex);
		}
		int store(uint64_t value, size_t at = 0, unsigned flags = signaled) const
		{
			return store_at(remote.mr->rkey, remote.address(at), value, flags);
		}
		int store_at(uint32_t rkey, uint64_t address, uint64_t value,
			     unsigned flags = signaled) const
		{
			return post([&] { ibv_wr_atomic_write(ex, rkey, address, &value); }, flags);
		}
	};
	World make_world(uint64_t ops, int access = all_access, int qp_access = all_access)
	{
		World world;
		Link link = default_link();

		link.access = qp_access;
		world.pair = make_pair({}, link);
		world.ex = use_builder(world.pair, ops | IBV_QP_EX_WITH_RDMA_WRITE);
		EXPECT_TRUE(world.ex) << std::strerror(errno);
		world.local = make_region(world.pair.a.pd, room);
		world.remote = make_region(world.pair.b.pd, room, access);
		EXPECT_TRUE(world.local && world.remote);
		world.local.fill(1);
		world.remote.fill(2);
		world.word() = initial;
		return world;
	}
};

class AtomicWrites : public Placement {
protected:
	void SetUp() override
	{
		Placement::SetUp();
		require(cap_atomic_write);
	}
	World make_world(int access = all_access)
	{
		return Placement::make_world(IBV_QP_EX_WITH_ATOMIC_WRITE, access);
	}
};

// Refused ones, for which a NAK must arrive.
class AtomicWriteProtection : public AtomicWrites {};

TEST_F(AtomicWrites, WriteEightBytes)
{
	World w = make_world();

	ASSERT_EQ(w.store(other), 0);
	const ibv_wc wc = expect_wc(w.pair.a.scq);
	EXPECT_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	EXPECT_EQ(w.word(), other);
	EXPECT_TRUE(has_pattern(w.remote.bytes(8, room - 8), 2, 8));
}

TEST_F(AtomicWrites, ByPostSend)
{
	if (device().is_rxe())
		GTEST_SKIP() << "soft-RoCE takes them from the builder only";
	World w = make_world();
	std::memcpy(reinterpret_cast<void *>(w.local.address(64)), &other, sizeof(other));
	SendSpec spec = {.op = IBV_WR_ATOMIC_WRITE,
			 .sges = {w.local.sge(64, 8)},
			 .remote_addr = w.remote.address(),
			 .rkey = w.remote.mr->rkey};

	ASSERT_EQ(post(w.pair.a, spec), 0);
	const ibv_wc wc = expect_wc(w.pair.a.scq);
	EXPECT_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	EXPECT_EQ(wc.byte_len, 8u);
	EXPECT_EQ(w.word(), other);
	// Inline, in a queue pair that was made without inline data.
	uint64_t value = ~other;
	spec.sges = {{.addr = reinterpret_cast<uintptr_t>(&value), .length = 8, .lkey = 0}};
	spec.flags |= IBV_SEND_INLINE;
	ASSERT_EQ(post(w.pair.a, spec), 0);
	expect_wc(w.pair.a.scq);
	EXPECT_EQ(w.word(), ~other);

	for (uint32_t len : {0u, 4u, 16u}) {
		spec.sges[0].length = len;
		EXPECT_EQ(post(w.pair.a, spec), EINVAL);
	}
	spec.sges = {};
	EXPECT_EQ(post(w.pair.a, spec), EINVAL);
}

// A reader sees one of the values, never parts of two.
TEST_F(AtomicWrites, AreSeenWhole)
{
	constexpr int rounds = 300;
	World w = make_world();
	std::atomic<bool> over{false};
	std::atomic<uint64_t> seen{0};
	uint64_t torn = 0;

	w.word() = 0;
	std::thread reader([&] {
		std::atomic_ref<uint64_t> word(w.word());

		while (!over) {
			const uint64_t now = word.load();

			seen++;
			if ((now >> 32) != (now & 0xffffffff))
				torn = now;
		}
	});
	/* On a busy machine all rounds would be over before it begins. */
	while (!seen)
		std::this_thread::yield();
	for (uint64_t i = 1; i <= rounds && !HasFailure(); ++i) {
		EXPECT_EQ(w.store(i << 32 | i), 0);
		expect_wc(w.pair.a.scq);
	}
	over = true;
	reader.join();
	EXPECT_EQ(torn, 0u);
	EXPECT_GT(seen, 0u);
	EXPECT_EQ(w.word() & 0xffffffff, uint64_t{rounds});
}

TEST_F(AtomicWrites, ComeInOrderWithWrites)
{
	constexpr size_t bytes = 4000;
	World w = make_world();

	for (uint64_t round = 1; round <= 20 && !HasFailure(); ++round) {
		fill_pattern(w.local.memory.bytes(), round);
		ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_RDMA_WRITE,
					  .sges = {w.local.sge(64, bytes)},
					  .flags = 0,
					  .remote_addr = w.remote.address(64),
					  .rkey = w.remote.mr->rkey}),
			  0);
		ASSERT_EQ(w.store(round), 0);
		// Whoever sees the value sees all that was written before it.
		await_condition(
			[&] { return std::atomic_ref<uint64_t>(w.word()).load() == round; });
		EXPECT_TRUE(has_pattern(w.remote.bytes(64, bytes), round, 64));
		expect_wc(w.pair.a.scq);
	}
}

TEST_F(AtomicWriteProtection, MisalignedAddressIsAnInvalidRequest)
{
	World w = make_world();

	ASSERT_EQ(w.store_at(w.remote.mr->rkey, w.remote.address(4), other), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_EQ(w.word(), initial);
}

TEST_F(AtomicWriteProtection, RegionWithoutTheRight)
{
	World w = make_world(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	ASSERT_EQ(w.store(other), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(w.word(), initial);
}

TEST_F(AtomicWriteProtection, WrongKeyOrPlace)
{
	for (int what = 0; what < 3; ++what) {
		World w = make_world();
		const uint32_t key = w.remote.mr->rkey;

		ASSERT_EQ(w.store_at(what ? key : key ^ 1,
				     what == 1 ? w.remote.address() - 8 :
				     what == 2 ? w.remote.address(room) :
						 w.remote.address(),
				     other),
			  0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(w.word(), initial);
	}
}

class Flushes : public Placement {
protected:
	static constexpr int flush_access = all_access | access_flush_global;

	void SetUp() override
	{
		Placement::SetUp();
		if (!header_knows_flush<ibv_qp_ex>)
			GTEST_SKIP() << "this release of libibverbs does not know the operation";
		require(cap_flush_global);
	}
	World make_world(int access = flush_access,
			 int qp_access = flush_access | access_flush_persistent)
	{
		return Placement::make_world(with_flush, access, qp_access);
	}
	static int flush(const World &w, size_t length, uint8_t type = global,
			 uint8_t level = range)
	{
		return flush_at(w, w.remote.mr->rkey, w.remote.address(), length, type, level);
	}
	static int flush_at(const World &w, uint32_t rkey, uint64_t address, size_t length,
			    uint8_t type = global, uint8_t level = range)
	{
		return w.post([&] { wr_flush(w.ex, rkey, address, length, type, level); });
	}
};

// Refused ones, for which a NAK must arrive.
class FlushProtection : public Flushes {};

TEST_F(Flushes, OfARangeAndOfARegion)
{
	World w = make_world();

	for (auto [length, level] :
	     {std::pair{room, range}, {size_t{8}, range}, {size_t{0}, region}}) {
		ASSERT_EQ(flush(w, length, global, level), 0);
		EXPECT_EQ(int{expect_wc(w.pair.a.scq).opcode}, wc_flush);
	}
}

// When a FLUSH is complete, what was written before it can be read.
TEST_F(Flushes, FollowTheDataOfWrites)
{
	World w = make_world();

	for (uint64_t round = 1; round <= 20 && !HasFailure(); ++round) {
		fill_pattern(w.local.memory.bytes(), round);
		ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_RDMA_WRITE,
					  .sges = {w.local.sge(0, room)},
					  .flags = 0,
					  .remote_addr = w.remote.address(),
					  .rkey = w.remote.mr->rkey}),
			  0);
		ASSERT_EQ(flush(w, room, global, round % 2 ? region : range), 0);
		EXPECT_EQ(int{expect_wc(w.pair.a.scq).opcode}, wc_flush);
		EXPECT_TRUE(has_pattern(w.remote.memory.bytes(), round));
	}
}

TEST_F(Flushes, RequestsThatCannotBe)
{
	if (device().is_rxe())
		GTEST_SKIP() << "soft-RoCE takes some of them";
	World w = make_world();

	EXPECT_EQ(flush(w, 8, 0), EINVAL);
	EXPECT_EQ(flush(w, 8, 4), EINVAL);
	EXPECT_EQ(flush(w, 8, global, 2), EINVAL);
	EXPECT_EQ(flush(w, size_t{1} << 32), EINVAL);
	// struct ibv_send_wr has no place for what is asked for.
	EXPECT_EQ(post(w.pair.a, {.op = static_cast<ibv_wr_opcode>(14)}), EINVAL);
	ASSERT_EQ(flush(w, 8), 0);
	expect_wc(w.pair.a.scq);
}

TEST_F(FlushProtection, RegionWithoutTheRight)
{
	for (uint8_t level : {range, region}) {
		World w = make_world(all_access);

		ASSERT_EQ(flush(w, 8, global, level), 0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	}
}

TEST_F(FlushProtection, QueuePairWithoutTheRight)
{
	World w = make_world(flush_access, all_access);

	ASSERT_EQ(flush(w, 8), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(FlushProtection, PersistenceIsNotGlobalVisibility)
{
	World w = make_world();

	ASSERT_EQ(flush(w, 8, persistent), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FlushProtection, WrongKeyOrPlace)
{
	for (int what = 0; what < 3; ++what) {
		World w = make_world();
		const uint32_t key = w.remote.mr->rkey;

		ASSERT_EQ(flush_at(w, what ? key : key ^ 1,
				   what == 1 ? w.remote.address() - 8 : w.remote.address(),
				   what == 2 ? room + 1 : 8),
			  0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	}
}

// What the device does not report, regions cannot have.
TEST_F(Placement, NoRegionCanBeFlushedForPersistence)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE knows persistent memory";
	EXPECT_FALSE(caps_of(peer()) & cap_flush_persistent);
	const Pd pd(ibv_alloc_pd(peer().context.get()));
	ASSERT_TRUE(pd);
	const Mapping memory = Mapping::anonymous(room);
	ASSERT_TRUE(memory);
	const bool known = caps_of(peer()) & cap_flush_global;
	const Mr mr(
		ibv_reg_mr(pd.get(), memory.data(), room, all_access | access_flush_persistent));
	const int error = errno;
	EXPECT_FALSE(mr);
	// Older kernels do not know the flag.
	EXPECT_TRUE(error == EOPNOTSUPP || (error == EINVAL && !known)) << std::strerror(error);
}

} // namespace
} // namespace verbs
