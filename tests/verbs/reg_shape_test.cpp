// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Registrations of every size, alignment and kind of memory, each proven by traffic to its corners.
#include "fixture.hpp"

#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

namespace verbs
{
namespace
{

constexpr uint64_t page = 4096;
constexpr uint64_t mib = 1 << 20;
constexpr uint64_t gib = 1 << 30;

bool under_user_mode_linux()
{
	std::ifstream file("/proc/cpuinfo");
	const std::string text(std::istreambuf_iterator<char>(file), {});
	return text.find("User Mode Linux") != std::string::npos;
}

// Before Linux 6.2 the RDMA core pins all memory for writing, which a shared read-only mapping does not allow.
bool refused_by_old_core(const Mr &mr)
{
	utsname name = {};
	unsigned major = 0, minor = 0;
	const bool refused = !mr && errno == EFAULT;
	return refused && !uname(&name) &&
	       std::sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 2));
}

// A connected pair, and a scratch buffer at the initiator to write from and read into.
class Registration : public VerbsTest {
protected:
	static constexpr uint32_t most = 70000;

	void SetUp() override
	{
		VerbsTest::SetUp();
		pair_ = make_pair();
		scratch_ = make_region(pair_.a.pd, most);
		ASSERT_TRUE(scratch_);
	}

	Mr reg(void *start, size_t length, int access = all_access) const
	{
		return Mr(ibv_reg_mr(pair_.b.pd, start, length, access));
	}

	void move(ibv_wr_opcode op, uint64_t address, uint32_t rkey, uint32_t length,
		  ibv_wc_status status = IBV_WC_SUCCESS) const
	{
		ASSERT_EQ(post(pair_.a, {.op = op,
					 .sges = {scratch_.sge(0, length)},
					 .remote_addr = address,
					 .rkey = rkey}),
			  0);
		expect_wc(pair_.a.scq, status);
	}

	// Writes a pattern through the key, looks at it through the mapping, changes it there and reads it back.
	void prove(const ibv_mr *mr, uint64_t iova, std::byte *start, uint64_t offset,
		   uint32_t length)
	{
		SCOPED_TRACE(testing::Message()
			     << length << " bytes at " << offset << ", seed " << options().seed);
		const uint64_t pattern = seed() + offset;
		fill_pattern(scratch_.bytes(0, length), pattern);
		move(IBV_WR_RDMA_WRITE, iova + offset, mr->rkey, length);
		EXPECT_TRUE(has_pattern({start + offset, length}, pattern)) << "written";
		fill_pattern({start + offset, length}, ~pattern);
		move(IBV_WR_RDMA_READ, iova + offset, mr->rkey, length);
		EXPECT_TRUE(has_pattern(scratch_.bytes(0, length), ~pattern)) << "read back";
	}

	// Both ends, page boundaries, the middle, and seeded places between.
	void prove_all_over(const ibv_mr *mr, uint64_t iova, std::byte *start, uint64_t length)
	{
		Random random(seed());
		const auto part = static_cast<uint32_t>(std::min<uint64_t>(length, most));

		prove(mr, iova, start, 0, part);
		prove(mr, iova, start, length - part, part);
		prove(mr, iova, start, length - 1, 1);
		prove(mr, iova, start, length / 2,
		      static_cast<uint32_t>(std::min<uint64_t>(length - length / 2, 5000)));
		for (int i = 0; i < 6 && !HasFailure(); i++) {
			const auto count = static_cast<uint32_t>(1 + random.below(part));
			prove(mr, iova, start, random.below(length - count + 1), count);
		}
	}

	// One byte outside must be refused; the pair needs a fresh connection after each refusal.
	void expect_refused(const ibv_mr *mr, uint64_t address)
	{
		for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
			move(op, address, mr->rkey, 1, IBV_WC_REM_ACCESS_ERR);
			pair_.reset();
			pair_.connect();
		}
	}

	void prove_bounds(const ibv_mr *mr, uint64_t iova, uint64_t length)
	{
		expect_refused(mr, iova - 1);
		expect_refused(mr, iova + length);
	}

	Pair pair_;
	Region scratch_;
};

struct Shape {
	const char *name;
	uint64_t length;
	uint64_t offset; // of its start from a page boundary
};

void PrintTo(const Shape &shape, std::ostream *out)
{
	*out << shape.name;
}

const Shape shapes[] = {
	{"1B", 1, 0},
	{"1BAtPageEnd", 1, 4095},
	{"2BOverPageEnd", 2, 4095},
	{"4095B", 4095, 0},
	{"4KiB", page, 0},
	{"4KiBUnaligned", page, 1},
	{"4097B", 4097, 0},
	{"64KiB", 16 * page, 0},
	{"64KiBAndABitUnaligned", 16 * page + 123, 777},
	{"1MiB", mib, 0},
	{"2MiB", 2 * mib, 0},
	{"2MiBUnaligned", 2 * mib, 2049},
	{"3MiBAndABit", 3 * mib + 5, 4000},
	{"65MiB", 65 * mib + 1, 3},
	{"256MiB", 256 * mib, 0},
};

class Shapes : public Registration, public testing::WithParamInterface<Shape> {};

TEST_P(Shapes, WholeRangeAndNothingElseIsReachable)
{
	const Shape &shape = GetParam();
	const uint64_t room = shape.length + shape.offset + page;
	if (available_memory() < room * 2)
		GTEST_SKIP() << "needs " << room * 2 / mib << " MiB of memory";
	const Mapping memory = Mapping::anonymous(room);
	ASSERT_TRUE(memory) << std::strerror(errno);
	std::byte *start = memory.data() + shape.offset;
	const Mr mr = reg(start, shape.length);
	ASSERT_TRUE(mr) << std::strerror(errno);
	EXPECT_EQ(mr->addr, start);
	EXPECT_EQ(mr->length, shape.length);

	const auto address = reinterpret_cast<uint64_t>(start);
	prove_all_over(mr.get(), address, start, shape.length);
	prove_bounds(mr.get(), address, shape.length);
}

INSTANTIATE_TEST_SUITE_P(All, Shapes, testing::ValuesIn(shapes),
			 [](const auto &info) { return info.param.name; });

// IBV_ACCESS_ZERO_BASED: both ends name bytes by their distance from the region's first one.
TEST_F(Registration, ZeroBased)
{
	constexpr uint64_t skew = 777, length = 20 * page + 123;
	const Mapping memory = Mapping::anonymous(length + 2 * page);

	if (peer().is_rxe())
		GTEST_SKIP() << "soft-RoCE ignores the flag";
	ASSERT_TRUE(memory);
	const Mr mr = reg(memory.data() + skew, length, all_access | IBV_ACCESS_ZERO_BASED);
	ASSERT_TRUE(mr) << std::strerror(errno);

	prove_all_over(mr.get(), 0, memory.data() + skew, length);
	// As the memory of a work request.
	fill_pattern(memory.bytes().subspan(skew), seed());
	ASSERT_EQ(post_recv(pair_.a, {scratch_.sge(0, most)}), 0);
	ASSERT_EQ(post(pair_.b, {.sges = {{5, 2 * page, mr->lkey}}}), 0);
	expect_wc(pair_.b.scq);
	EXPECT_EQ(expect_wc(pair_.a.rcq).byte_len, 2 * page);
	EXPECT_TRUE(has_pattern(scratch_.bytes(0, 2 * page), seed(), 5));
	expect_refused(mr.get(), length);
	expect_refused(mr.get(), memory.address(skew));
	expect_refused(mr.get(), ~0ull);
}

TEST_F(Registration, OneGibibyteOfRealMemory)
{
	if (available_memory() < gib + 512 * mib)
		GTEST_SKIP() << "needs 1.5 GiB of memory, " << available_memory() / mib
			     << " MiB are available";
	const Mapping memory = Mapping::anonymous(gib);
	ASSERT_TRUE(memory) << std::strerror(errno);
	const Mr mr = reg(memory.data(), gib);
	ASSERT_TRUE(mr) << std::strerror(errno);
	prove_all_over(mr.get(), memory.address(), memory.data(), gib);
	prove_bounds(mr.get(), memory.address(), gib);
}

// A small file mapped again and again gives more address space than 32 bits can count with little memory behind it.
TEST_F(Registration, MoreThanFourGibibytes)
{
	constexpr uint64_t period = 64 * mib;
	constexpr uint64_t length = 4 * gib + 3 * period + 12345;
	if (available_memory() < 2 * period)
		GTEST_SKIP() << "needs " << 2 * period / mib << " MiB of memory";
	if (under_user_mode_linux())
		GTEST_SKIP() << "User-Mode Linux needs a mapping of its host for each scattered "
				"page, and has not so many";
	const Mapping memory = Mapping::aliased(length, period);
	ASSERT_TRUE(memory) << std::strerror(errno);
	const Mr mr = reg(memory.data(), length);
	ASSERT_TRUE(mr) << std::strerror(errno);
	EXPECT_EQ(mr->length, length);
	for (uint64_t offset : {uint64_t{0}, gib - 100, 2 * gib - 7, 4 * gib - 33333, 4 * gib - 1,
				4 * gib, length - 5000})
		prove(mr.get(), memory.address(), memory.data(), offset, 5000);
	prove_bounds(mr.get(), memory.address(), length);
}

// One block from a page of 1 GiB, at any offset in it.
TEST_F(Registration, GiganticPage)
{
	const Mapping memory =
		Mapping::anonymous(gib, MAP_HUGETLB | std::countr_zero(gib) << MAP_HUGE_SHIFT);
	if (!memory)
		GTEST_SKIP() << "no free huge page of 1 GiB: " << std::strerror(errno);
	struct {
		uint64_t offset, length;
	} const ranges[] = {{0, gib}, {12345, gib - 12345 - page}, {gib / 2 - 1, 3}, {gib - 1, 1}};
	for (const auto &range : ranges) {
		SCOPED_TRACE(testing::Message()
			     << range.length << " bytes at " << range.offset << " in 1 GiB");
		std::byte *start = memory.data() + range.offset;
		const Mr mr = reg(start, range.length);
		ASSERT_TRUE(mr) << std::strerror(errno);
		prove_all_over(mr.get(), memory.address(range.offset), start, range.length);
		prove_bounds(mr.get(), memory.address(range.offset), range.length);
	}
}

TEST_F(Registration, HugePages)
{
	constexpr uint64_t huge = 2 * mib;
	const Mapping memory = Mapping::anonymous(4 * huge, MAP_HUGETLB);
	if (!memory)
		GTEST_SKIP() << "no four huge pages of 2 MiB: " << std::strerror(errno);
	struct {
		uint64_t offset, length;
	} const ranges[] = {
		{0, 4 * huge}, {0, huge},     {page, huge},	    {12345, 3 * huge},
		{1, 1},	       {huge - 3, 6}, {huge, 2 * huge - 1}, {huge + page, page}};
	for (const auto &range : ranges) {
		SCOPED_TRACE(testing::Message()
			     << range.length << " bytes at " << range.offset << " in huge pages");
		std::byte *start = memory.data() + range.offset;
		const Mr mr = reg(start, range.length);
		ASSERT_TRUE(mr) << std::strerror(errno);
		prove_all_over(mr.get(), memory.address(range.offset), start, range.length);
		prove_bounds(mr.get(), memory.address(range.offset), range.length);
	}
}

TEST_F(Registration, TransparentHugePagesOnBothSidesOfSmallOnes)
{
	constexpr uint64_t length = 10 * mib;
	const Mapping memory = Mapping::anonymous(length);
	ASSERT_TRUE(memory);
	madvise(memory.data(), length / 2, MADV_HUGEPAGE);
	madvise(memory.data() + length / 2, length / 2, MADV_NOHUGEPAGE);
	const Mr mr = reg(memory.data() + 5000, length - 6000);
	ASSERT_TRUE(mr) << std::strerror(errno);
	prove_all_over(mr.get(), memory.address(5000), memory.data() + 5000, length - 6000);
}

TEST_F(Registration, ReadOnlyFileMappingIsReadRemotely)
{
	const int fd = anonymous_file(3 * page);
	ASSERT_GE(fd, 0);
	{
		const Mapping writable =
			Mapping::of_file(fd, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED);
		ASSERT_TRUE(writable);
		fill_pattern(writable.bytes(), seed());
	}
	for (int sharing : {MAP_SHARED, MAP_PRIVATE}) {
		SCOPED_TRACE(sharing == MAP_SHARED ? "shared" : "private");
		const Mapping memory = Mapping::of_file(fd, 3 * page, PROT_READ, sharing);
		ASSERT_TRUE(memory);
		const Mr mr = reg(memory.data(), 3 * page, IBV_ACCESS_REMOTE_READ);
		if (sharing == MAP_SHARED && refused_by_old_core(mr))
			continue;
		ASSERT_TRUE(mr) << std::strerror(errno);
		move(IBV_WR_RDMA_READ, memory.address(100), mr->rkey, 9000);
		EXPECT_TRUE(has_pattern(scratch_.bytes(0, 9000), seed(), 100));
		EXPECT_FALSE(reg(memory.data(), 3 * page, IBV_ACCESS_LOCAL_WRITE)) << "local write";
		EXPECT_EQ(errno, EFAULT);
		EXPECT_FALSE(reg(memory.data(), 3 * page, all_access)) << "all rights";
		EXPECT_EQ(errno, EFAULT);
	}
	close(fd);
}

TEST_F(Registration, ReadOnlyMemoryIsASendSource)
{
	const int fd = anonymous_file(2 * page);
	ASSERT_GE(fd, 0);
	const Mapping writable = Mapping::of_file(fd, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED);
	const Mapping memory = Mapping::of_file(fd, 2 * page, PROT_READ, MAP_SHARED);
	close(fd);
	ASSERT_TRUE(writable && memory);
	fill_pattern(writable.bytes(), seed());
	const Mr mr(ibv_reg_mr(pair_.a.pd, memory.data(), 2 * page, 0));
	if (refused_by_old_core(mr))
		GTEST_SKIP() << "this kernel's RDMA core pins shared memory for writing";
	ASSERT_TRUE(mr) << std::strerror(errno);
	const Region sink = make_region(pair_.b.pd, 2 * page);
	ASSERT_EQ(post_recv(pair_.b, {sink.sge(0, 2 * page)}), 0);
	ASSERT_EQ(post(pair_.a, {.sges = {{memory.address(), 2 * page, mr->lkey}}}), 0);
	expect_wc(pair_.a.scq);
	expect_wc(pair_.b.rcq);
	EXPECT_TRUE(has_pattern(sink.memory.bytes(), seed()));
}

TEST_F(Registration, SharedFileIsWrittenForAllItsMappings)
{
	constexpr uint64_t length = 5 * mib;
	const int fd = anonymous_file(length);
	ASSERT_GE(fd, 0);
	const Mapping memory = Mapping::of_file(fd, length, PROT_READ | PROT_WRITE, MAP_SHARED);
	const Mapping other = Mapping::of_file(fd, length, PROT_READ | PROT_WRITE, MAP_SHARED);
	close(fd);
	ASSERT_TRUE(memory && other);
	const Mr mr = reg(memory.data() + 9, length - 9);
	ASSERT_TRUE(mr) << std::strerror(errno);
	prove_all_over(mr.get(), memory.address(9), memory.data() + 9, length - 9);
	fill_pattern(scratch_.bytes(0, 60000), seed());
	move(IBV_WR_RDMA_WRITE, memory.address(2 * mib), mr->rkey, 60000);
	EXPECT_TRUE(has_pattern({other.data() + 2 * mib, 60000}, seed()));
}

TEST_F(Registration, IovaIsIndependentOfTheAddress)
{
	constexpr uint64_t length = 3 * mib + 100;
	const Mapping memory = Mapping::anonymous(length + page);
	ASSERT_TRUE(memory);
	for (uint64_t offset : {uint64_t{0}, uint64_t{100}})
		for (uint64_t base : std::initializer_list<uint64_t>{
			     0, page, 1ull << 40, 0x7fff00000000, 0xffff800000000000}) {
			SCOPED_TRACE(testing::Message() << "iova 0x" << std::hex << base + offset);
			std::byte *start = memory.data() + offset;
			const Mr mr(ibv_reg_mr_iova(pair_.b.pd, start, length, base + offset,
						    all_access));
			ASSERT_TRUE(mr) << std::strerror(errno);
			prove_all_over(mr.get(), base + offset, start, length);
			if (base + offset)
				prove_bounds(mr.get(), base + offset, length);
			expect_refused(mr.get(), memory.address(offset));
		}
}

TEST_F(Registration, IovaMustSharePageOffset)
{
	const Mapping memory = Mapping::anonymous(2 * page);
	ASSERT_TRUE(memory);
	errno = 0;
	const Mr mr(ibv_reg_mr_iova(pair_.b.pd, memory.data(), page, 0x10001, all_access));
	EXPECT_FALSE(mr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Registration, IovaThatWrapsIsRefused)
{
	const Mapping memory = Mapping::anonymous(2 * page);
	ASSERT_TRUE(memory);
	const Mr mr(ibv_reg_mr_iova(pair_.b.pd, memory.data(), 2 * page, ~0ull & ~(page - 1),
				    all_access));
	EXPECT_FALSE(mr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Registration, LocalKeyOfAnIovaRegionUsesTheIova)
{
	const Mapping memory = Mapping::anonymous(4 * page);
	ASSERT_TRUE(memory);
	const Mr mr(ibv_reg_mr_iova(pair_.a.pd, memory.data(), 4 * page, 0x5000, all_access));
	const Region sink = make_region(pair_.b.pd, 4 * page);
	ASSERT_TRUE(mr && sink);
	fill_pattern(memory.bytes(), seed());
	ASSERT_EQ(post(pair_.a, {.op = IBV_WR_RDMA_WRITE,
				 .sges = {{0x5000 + 17, 9999, mr->lkey}},
				 .remote_addr = sink.address(),
				 .rkey = sink.mr->rkey}),
		  0);
	expect_wc(pair_.a.scq);
	EXPECT_TRUE(has_pattern(sink.bytes(0, 9999), seed(), 17));
}

TEST_F(Registration, OneMemoryManyRegistrations)
{
	constexpr int count = 200;
	const Mapping memory = Mapping::anonymous(16 * page);
	ASSERT_TRUE(memory);
	std::vector<Mr> regions;
	for (int i = 0; i < count; i++) {
		regions.push_back(reg(memory.data() + i, 16 * page - 2 * i));
		ASSERT_TRUE(regions.back()) << std::strerror(errno);
	}
	std::vector<uint32_t> keys;
	for (const Mr &mr : regions)
		keys.push_back(mr->rkey);
	std::sort(keys.begin(), keys.end());
	EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end()) << "two regions share a key";
	for (int i = 0; i < count; i += 50)
		prove_all_over(regions[i].get(), memory.address(i), memory.data() + i,
			       16 * page - 2 * i);
	regions.resize(1);
	prove_all_over(regions[0].get(), memory.address(), memory.data(), 16 * page);
}

// Pages stay with the registration although the process maps something else there.
TEST_F(Registration, UnmappedMemoryStaysPinned)
{
	if (options().unpinned)
		GTEST_SKIP() << device().name << " runs in this process, which unmaps for it too";
	const int fd = anonymous_file(8 * page);
	ASSERT_GE(fd, 0);
	const Mapping kept = Mapping::of_file(fd, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED);
	ASSERT_TRUE(kept);
	Mr mr;
	uint64_t address = 0;
	{
		const Mapping gone =
			Mapping::of_file(fd, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED);
		ASSERT_TRUE(gone);
		mr = reg(gone.data(), 8 * page);
		ASSERT_TRUE(mr);
		address = gone.address();
	}
	close(fd);
	fill_pattern(scratch_.bytes(0, 8 * page), seed());
	move(IBV_WR_RDMA_WRITE, address, mr->rkey, 8 * page);
	EXPECT_TRUE(has_pattern(kept.bytes(), seed()));
}

} // namespace
} // namespace verbs
