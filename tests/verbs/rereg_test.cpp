// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Registrations that are changed: ibv_rereg_mr(). The keys stay; memory, protection domain and rights are the new ones at
// once, or, when the call fails, the old ones. The peer has the regions, the device under test uses them.
#include "mw.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <thread>

namespace verbs
{
namespace
{

constexpr size_t page = 4096;
constexpr size_t room = 3 * page;
constexpr int change_place = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int change_pd = IBV_REREG_MR_CHANGE_PD;
constexpr int change_access = IBV_REREG_MR_CHANGE_ACCESS;
constexpr int read_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

class Rereg : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (peer().is_rxe())
			GTEST_SKIP() << "soft-RoCE changes no translation";
		pd_.reset(ibv_alloc_pd(peer().context.get()));
		other_pd_.reset(ibv_alloc_pd(peer().context.get()));
		other_ = Mapping::anonymous(room);
		ASSERT_TRUE(pd_ && other_pd_ && other_);
		region_ = make_region(pd_.get(), room);
		ASSERT_TRUE(region_);
		region_.fill(1);
		fill_pattern(other_.bytes(), 2);
	}

	// One operation of 100 bytes at that address by the region's key, through a connection of the peer's domain @pd.
	void use(ibv_pd *pd, ibv_wr_opcode op, uint64_t at, ibv_wc_status status = IBV_WC_SUCCESS)
	{
		Pair pair = make_pair({}, {.shared_pd = pd}, default_link());
		const Region local = make_region(pair.a.pd, 100);
		ASSERT_TRUE(local);
		local.fill(3);
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {local.sge(0, 100)},
					.remote_addr = at,
					.rkey = region_.mr->rkey}),
			  0);
		expect_wc(pair.a.scq, status);
		if (op == IBV_WR_RDMA_READ && status == IBV_WC_SUCCESS) {
			EXPECT_EQ(std::memcmp(local.memory.data(),
					      reinterpret_cast<const void *>(at), 100),
				  0);
		}
	}

	void expect_refused(ibv_pd *pd, ibv_wr_opcode op, uint64_t at)
	{
		use(pd, op, at, IBV_WC_REM_ACCESS_ERR);
	}

	int rereg(int flags, ibv_pd *pd, void *addr, size_t length, int access)
	{
		errno = 0;
		return ibv_rereg_mr(region_.mr.get(), flags, pd, addr, length, access);
	}

	// As it was registered, and of use.
	void expect_as_before()
	{
		EXPECT_EQ(region_.mr->addr, region_.memory.data());
		EXPECT_EQ(region_.mr->length, room);
		EXPECT_EQ(region_.mr->pd, pd_.get());
		use(pd_.get(), IBV_WR_RDMA_READ, region_.address(10));
		use(pd_.get(), IBV_WR_RDMA_WRITE, region_.address(page));
		EXPECT_TRUE(has_pattern(region_.bytes(page, 100), 3));
		EXPECT_TRUE(has_pattern(other_.bytes(), 2));
	}

	void expect_failure(int result, int error, int flags, ibv_pd *pd, void *addr, size_t length,
			    int access)
	{
		SCOPED_TRACE(testing::Message() << "flags " << flags << " access " << access);
		EXPECT_EQ(rereg(flags, pd, addr, length, access), result);
		EXPECT_EQ(errno, error) << std::strerror(errno);
		expect_as_before();
	}

	Pd pd_, other_pd_;
	Mapping other_;
	Region region_;
};

class ReregCombinations : public Rereg, public testing::WithParamInterface<int> {};

TEST_P(ReregCombinations, ChangeWhatTheyNameAndKeepTheKeys)
{
	const int flags = GetParam();
	const bool moved = flags & change_place, adopted = flags & change_pd,
		   limited = flags & change_access;
	const Mapping &mine = moved ? other_ : region_.memory;
	const Mapping &former = moved ? region_.memory : other_;
	ibv_pd *pd = adopted ? other_pd_.get() : pd_.get();
	const uint32_t lkey = region_.mr->lkey, rkey = region_.mr->rkey;

	ASSERT_EQ(rereg(flags, adopted ? pd : nullptr, moved ? other_.data() : nullptr,
			moved ? room - page : 0, limited ? read_access : 0),
		  0)
		<< std::strerror(errno);
	EXPECT_EQ(region_.mr->lkey, lkey);
	EXPECT_EQ(region_.mr->rkey, rkey);
	EXPECT_EQ(region_.mr->addr, mine.data());
	EXPECT_EQ(region_.mr->length, moved ? room - page : room);
	EXPECT_EQ(region_.mr->pd, pd);

	use(pd, IBV_WR_RDMA_READ, mine.address(page + 5));
	if (limited) {
		expect_refused(pd, IBV_WR_RDMA_WRITE, mine.address(7));
		EXPECT_TRUE(has_pattern(mine.bytes(), moved ? 2 : 1));
	} else {
		use(pd, IBV_WR_RDMA_WRITE, mine.address(7));
		EXPECT_TRUE(has_pattern(mine.bytes().subspan(7, 100), 3));
		EXPECT_TRUE(has_pattern(mine.bytes().subspan(107), moved ? 2 : 1, 107));
	}
	if (moved) {
		expect_refused(pd, IBV_WR_RDMA_WRITE, region_.address(7));
		expect_refused(pd, IBV_WR_RDMA_READ, mine.address(room - page - 99));
	}
	if (adopted)
		expect_refused(pd_.get(), IBV_WR_RDMA_READ, mine.address(7));
	EXPECT_TRUE(has_pattern(former.bytes(), moved ? 1 : 2));

	// And back, once more with everything.
	ASSERT_EQ(rereg(change_place | change_pd | change_access, pd_.get(), region_.memory.data(),
			room, all_access),
		  0);
	region_.fill(1);
	fill_pattern(other_.bytes(), 2);
	expect_as_before();
}

INSTANTIATE_TEST_SUITE_P(All, ReregCombinations, testing::Range(1, 8));

TEST_F(Rereg, DomainThatItHasAlreadyIsNoChange)
{
	EXPECT_EQ(rereg(change_pd, pd_.get(), nullptr, 0, 0), 0) << std::strerror(errno);
	expect_as_before();
}

TEST_F(Rereg, LocalKeyNamesTheNewMemory)
{
	if (device().is_rxe())
		GTEST_SKIP() << "soft-RoCE changes no translation";
	Pair pair = make_pair();
	const Region source = make_region(pair.a.pd, room), sink = make_region(pair.b.pd, room);
	Mapping next = Mapping::anonymous(64 * page);
	ASSERT_TRUE(source && sink && next);
	source.fill(5);
	fill_pattern(next.bytes(), 6);
	ASSERT_EQ(ibv_rereg_mr(source.mr.get(), change_place, nullptr, next.data(), next.size(), 0),
		  0);
	const ibv_sge sge = {next.address(60 * page), 1000, source.mr->lkey};
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				.sges = {sge},
				.remote_addr = sink.address(),
				.rkey = sink.mr->rkey}),
		  0);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(sink.bytes(0, 1000), 6, 60 * page));
}

// From one page to a list of lists and back: each form of a region's pages after each other.
TEST_F(Rereg, EverySizeAfterEveryOther)
{
	const size_t pages[] = {1, 700, 2, 300 * 20, 1};
	for (size_t count : pages) {
		const Mapping memory = Mapping::anonymous(count * page);
		ASSERT_TRUE(memory);
		fill_pattern(memory.bytes(), count);
		ASSERT_EQ(rereg(change_place, nullptr, memory.data() + 11, count * page - 11, 0), 0)
			<< std::strerror(errno);
		use(pd_.get(), IBV_WR_RDMA_WRITE, memory.address(count * page - 100));
		EXPECT_TRUE(has_pattern(memory.bytes().last(100), 3));
		use(pd_.get(), IBV_WR_RDMA_READ, memory.address(11));
		// Before the memory goes.
		ASSERT_EQ(rereg(change_place, nullptr, region_.memory.data(), room, 0), 0);
	}
	expect_as_before();
}

TEST_F(Rereg, FailureLeavesTheRegionAsItWas)
{
	const int input = IBV_REREG_MR_ERR_INPUT, command = IBV_REREG_MR_ERR_CMD;
	void *other = other_.data();
	Mapping hole = Mapping::anonymous(room);
	ASSERT_TRUE(hole);
	ASSERT_EQ(munmap(hole.data() + page, page), 0);

	expect_failure(command, EINVAL, 0, nullptr, nullptr, 0, 0);
	expect_failure(input, EINVAL, 8, nullptr, nullptr, 0, 0);
	expect_failure(input, EINVAL, change_place | 1 << 20, nullptr, other, room, 0);
	expect_failure(input, EINVAL, change_place, nullptr, other, 0, 0);
	expect_failure(input, EINVAL, change_place, nullptr, nullptr, room, 0);
	expect_failure(input, EINVAL, change_place, nullptr, other, room, read_access);
	expect_failure(command, EINVAL, change_place, nullptr, other, size_t{1} << 50, 0);
	expect_failure(command, EINVAL, change_place, nullptr, other, ~size_t{0}, 0);
	expect_failure(command, EFAULT, change_place, nullptr, hole.data(), room, 0);
	expect_failure(command, EFAULT, change_place | change_pd | change_access, other_pd_.get(),
		       hole.data(), room, read_access);
	expect_failure(command, EINVAL, change_access, nullptr, nullptr, 0,
		       IBV_ACCESS_REMOTE_WRITE);
	expect_failure(command, EINVAL, change_access | change_place, nullptr, other, room,
		       IBV_ACCESS_REMOTE_ATOMIC);
	expect_failure(command, EOPNOTSUPP, change_access, nullptr, nullptr, 0,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	expect_failure(command, EINVAL, change_pd, nullptr, nullptr, 0, 0);
	// The other domain has no users left.
	EXPECT_EQ(destroy(other_pd_), 0);
}

// The device could not write to pages that were pinned for reading.
TEST_F(Rereg, MemoryThatWasReadOnlyIsWritten)
{
	region_.mr.reset(
		ibv_reg_mr(pd_.get(), region_.memory.data(), room, IBV_ACCESS_REMOTE_READ));
	ASSERT_TRUE(region_.mr);
	use(pd_.get(), IBV_WR_RDMA_READ, region_.address());
	expect_refused(pd_.get(), IBV_WR_RDMA_WRITE, region_.address());
	ASSERT_EQ(rereg(change_access, nullptr, nullptr, 0, all_access), 0) << std::strerror(errno);
	expect_as_before();

	ASSERT_EQ(rereg(change_access, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
	expect_refused(pd_.get(), IBV_WR_RDMA_WRITE, region_.address());
	use(pd_.get(), IBV_WR_RDMA_READ, region_.address());
}

TEST_F(Rereg, MemoryThatMayNotBeWrittenStaysReadOnly)
{
	const int file = anonymous_file(room);
	ASSERT_GE(file, 0);
	const Mapping fixed = Mapping::of_file(file, room, PROT_READ, MAP_PRIVATE);
	close(file);
	ASSERT_TRUE(fixed);
	Mr mr(ibv_reg_mr(pd_.get(), fixed.data(), room, IBV_ACCESS_REMOTE_READ));
	ASSERT_TRUE(mr) << std::strerror(errno);
	std::swap(mr, region_.mr);
	EXPECT_EQ(rereg(change_access, nullptr, nullptr, 0, all_access), IBV_REREG_MR_ERR_CMD);
	EXPECT_EQ(errno, EFAULT) << std::strerror(errno);
	use(pd_.get(), IBV_WR_RDMA_READ, fixed.address());
	expect_refused(pd_.get(), IBV_WR_RDMA_WRITE, fixed.address());
	std::swap(mr, region_.mr);
}

TEST_F(Rereg, DomainThatLostTheRegionMayGo)
{
	EXPECT_EQ(destroy(pd_), EBUSY);
	ASSERT_EQ(rereg(change_pd, other_pd_.get(), nullptr, 0, 0), 0);
	EXPECT_EQ(destroy(pd_), 0);
	EXPECT_EQ(destroy(other_pd_), EBUSY);
	use(other_pd_.get(), IBV_WR_RDMA_READ, region_.address());
	EXPECT_EQ(destroy(region_.mr), 0);
	EXPECT_EQ(destroy(other_pd_), 0);
}

// A stream of writes to address 0 of a region that begins there, which moves between two pieces of memory meanwhile. No
// write fails, and memory that the region has left is written no more.
TEST_F(Rereg, TrafficNeverMissesTheRegion)
{
	const int access = all_access | IBV_ACCESS_ZERO_BASED;
	Pair pair = make_pair({}, {.shared_pd = pd_.get()}, default_link());
	const Region local = make_region(pair.a.pd, 2 * page);
	region_.mr.reset(ibv_reg_mr(pd_.get(), region_.memory.data(), room, access));
	ASSERT_TRUE(local && region_.mr) << std::strerror(errno);
	std::atomic<bool> stop = false, failed = false;
	std::atomic<uint64_t> done = 0;
	std::mutex writing; // one message; who holds it may look at the region's memory
	std::atomic<bool> looking = false; // the mutex is wanted
	const uint32_t rkey = region_.mr->rkey;

	std::thread writer([&] {
		while (!stop && !failed) {
			while (looking)
				std::this_thread::yield();
			const std::lock_guard hold(writing);
			if (post(pair.a, {.op = IBV_WR_RDMA_WRITE,
					  .sges = {local.sge(0, 2 * page)},
					  .remote_addr = 0,
					  .rkey = rkey})) {
				failed = true;
				break;
			}
			const std::optional<ibv_wc> wc = await(pair.a.scq);
			failed = !wc || wc->status != IBV_WC_SUCCESS;
			done++;
		}
	});
	const auto more = [&] {
		const uint64_t goal = done + 3;
		return await_condition([&] { return done >= goal || failed; });
	};
	for (int i = 0; i < 100 && !failed && !HasFailure(); i++) {
		const Mapping &next = i % 2 ? region_.memory : other_;
		const Mapping &former = i % 2 ? other_ : region_.memory;
		fill_pattern(next.bytes(), 100 + i);
		EXPECT_EQ(rereg(change_place | (i % 3 ? change_access : 0), nullptr, next.data(),
				room, i % 3 ? access | IBV_ACCESS_REMOTE_ATOMIC : 0),
			  0)
			<< std::strerror(errno);
		fill_pattern(former.bytes(), 100 + i);
		EXPECT_TRUE(more());
		EXPECT_TRUE(has_pattern(former.bytes(), 100 + i));
		looking = true;
		const std::lock_guard hold(writing);
		looking = false;
		EXPECT_FALSE(has_pattern(next.bytes().first(2 * page), 100 + i));
		EXPECT_TRUE(has_pattern(next.bytes().last(page), 100 + i, 2 * page));
	}
	stop = true;
	writer.join();
	EXPECT_FALSE(failed);
	EXPECT_GT(done, 0u);
}

class ReregWithWindows : public windows::WindowTest {};

TEST_F(ReregWithWindows, IsRefusedWhileTheyAreBound)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE changes regions that have windows";
	for (ibv_mw_type type : windows::both_types) {
		windows::World w = make_world();
		ibv_mw *mw = w.window(type);
		ibv_mr *mr = w.remote.mr.get();
		const auto limit = [&] {
			errno = 0;
			return ibv_rereg_mr(mr, change_access, nullptr, nullptr, 0, all_access);
		};

		windows::expect_bound(w.binder(), mw, w.remote);
		EXPECT_EQ(limit(), IBV_REREG_MR_ERR_CMD);
		EXPECT_EQ(errno, EBUSY) << std::strerror(errno);
		expect_usable(w, mw, w.remote.address(windows::start));
		EXPECT_EQ(destroy(w.mw[type == IBV_MW_TYPE_2]), 0);
		EXPECT_EQ(limit(), 0) << std::strerror(errno);
		// It has no windows any more, since that right is gone.
		ibv_mw *other = w.window(type == IBV_MW_TYPE_1 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
		ASSERT_EQ(windows::post_bind(w.binder(), other, w.remote, {}), 0);
		expect_wc(w.binder().scq, IBV_WC_MW_BIND_ERR);
	}
}

} // namespace
} // namespace verbs
