/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which memory can be mapped by others, and what an initiator maps of what a table names. Both are this
 * process here.
 */
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mappings.hpp"
#include "peer_memory.hpp"
#include "rcu_guard.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr size_t page = 4096, bytes = 16 * page;
constexpr u32 qpn = first_qpn_of(0) + 3, pd = 5, stag = 0x4200;
constexpr u32 all_rights = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			   SIRDMA_ACCESS_REMOTE_ATOMIC;

/* A file with memory of this process. */
struct Memory {
	explicit Memory(int seals = F_SEAL_SHRINK, int flags = MAP_SHARED, size_t size = bytes,
			unsigned kind = 0)
		: file(memfd_create("sirdma-mappings-test",
				    MFD_CLOEXEC | MFD_ALLOW_SEALING | kind)),
		  length(size)
	{
		if (!file || ftruncate(file.get(), static_cast<off_t>(size)) ||
		    (seals && fcntl(file.get(), F_ADD_SEALS, seals)))
			return;
		at = static_cast<uint8_t *>(
			mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file.get(), 0));
		if (at == MAP_FAILED)
			at = nullptr;
	}
	~Memory()
	{
		if (at)
			munmap(at, length);
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	SharedFile shared(size_t offset = 0, size_t len = page) const
	{
		at[offset] = 1; /* the page is present */
		return shared_file_of(reinterpret_cast<uintptr_t>(at) + offset, len);
	}

	Fd file;
	const size_t length;
	uint8_t *at = nullptr;
};

/* How often this process has mapped a test's file. */
int times_mapped()
{
	std::ifstream maps("/proc/self/maps");
	std::string line;
	int n = 0;

	while (std::getline(maps, line))
		n += line.find("sirdma-mappings-test") != std::string::npos;
	return n;
}

uint8_t *memory_of(const Mappings &mappings, const AccessView::Found &region, u32 len, bool write)
{
	const RcuGuard guard;
	const Mappings::Mapping *const m = mappings.find(region);

	return m ? m->memory(region, len, write) : nullptr;
}

class MappingsTest : public ::testing::Test {
protected:
	void SetUp() override
	{
		table = AccessTable::create(first_qpn_of(0));
		ASSERT_TRUE(table && view.map(table->fd()));
		table->open_qp(qpn, pd, all_rights);
		mappings.attach(getpid());
		if (!mappings.is_alive())
			GTEST_SKIP() << "no pidfd_open()";
	}

	/* Offer memory that this process says is @file's. */
	void offer(const SharedFile &file, u32 key = stag, u32 rights = all_rights,
		   size_t length = page)
	{
		table->open_region({.stag = key,
				    .pd = pd,
				    .rights = rights,
				    .base = 0x10000,
				    .length = length,
				    .start = 0x20000,
				    .file = file});
	}
	AccessView::Found found(u32 key = stag, u32 right = SIRDMA_ACCESS_REMOTE_READ)
	{
		AccessView::Found at{};

		EXPECT_TRUE(view.check(
			{.qpn = qpn, .rkey = key, .va = 0x10000, .len = 8, .right = right}, at));
		return at;
	}
	bool maps(u32 key = stag)
	{
		const AccessView::Found region = found(key);

		(void)mappings.map_once(view, region);
		return memory_of(mappings, region, 8, false);
	}
	void close(u32 key = stag)
	{
		bool mappable = false;

		EXPECT_TRUE(table->close_region(key, mappable));
		EXPECT_TRUE(mappable);
	}

	std::unique_ptr<AccessTable> table;
	AccessView view;
	Mappings mappings;
};

} // namespace

TEST(SharedFiles, AreSealedOnesThatAreMappedShared)
{
	const Memory memory;
	struct stat st;

	ASSERT_TRUE(memory.at);
	ASSERT_EQ(fstat(memory.file.get(), &st), 0);
	for (const size_t offset : {size_t{0}, size_t{100}, page, 3 * page + 8}) {
		const SharedFile file = memory.shared(offset, 2 * page);

		EXPECT_EQ(file.fd, memory.file.get());
		EXPECT_EQ(file.offset, offset);
		EXPECT_EQ(file.device, st.st_dev);
		EXPECT_EQ(file.inode, st.st_ino);
	}
	EXPECT_GE(memory.shared(0, bytes).fd, 0);
}

TEST(SharedFiles, AreNoOthers)
{
	const Memory unsealed(0), growing(F_SEAL_GROW), copied(F_SEAL_SHRINK, MAP_PRIVATE);
	const Memory whole;
	std::vector<uint8_t> heap(2 * page, 1);

	for (const Memory *memory : {&unsealed, &growing, &copied}) {
		ASSERT_TRUE(memory->at);
		EXPECT_LT(memory->shared().fd, 0);
	}
	EXPECT_LT(shared_file_of(reinterpret_cast<uintptr_t>(heap.data()), page).fd, 0);
	/* A part lies elsewhere. */
	ASSERT_EQ(munmap(whole.at + 2 * page, page), 0);
	EXPECT_GE(whole.shared(page, page).fd, 0);
	EXPECT_LT(whole.shared(page, page + 1).fd, 0);
}

TEST(SharedFiles, NeedADescriptorThatCanWrite)
{
	Memory memory;

	ASSERT_TRUE(memory.at);

	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory.file.get());

	const Fd for_reading(open(path, O_RDONLY | O_CLOEXEC));

	ASSERT_TRUE(for_reading);
	EXPECT_EQ(memory.shared().fd, memory.file.get());
	memory.file.reset();
	EXPECT_LT(memory.shared().fd, 0);
}

TEST(SharedFiles, AreNotOfHugePages)
{
	const Memory memory(F_SEAL_SHRINK, MAP_SHARED, 2 << 20, MFD_HUGETLB);

	if (!memory.at)
		GTEST_SKIP() << "no huge pages";
	EXPECT_LT(memory.shared().fd, 0);
}

/* Most processes are never accessed: nothing is allocated for them, and nothing is found. */
TEST_F(MappingsTest, AreNoneBeforeTheProcessIsAttached)
{
	const Memory memory;
	Mappings fresh;

	ASSERT_TRUE(memory.at);
	EXPECT_LE(sizeof(fresh), 128u);
	offer(memory.shared());

	const AccessView::Found region = found();

	EXPECT_FALSE(fresh.can_map());
	EXPECT_FALSE(fresh.map_once(view, region));
	EXPECT_FALSE(memory_of(fresh, region, 8, false));
	EXPECT_EQ(fresh.sweep(view), 0u);
	fresh.attach(getpid());
	EXPECT_TRUE(fresh.map_once(view, region));
	EXPECT_EQ(fresh.sweep(view), 1u);
}

/* Parts of one file at any offset are the memory they name. */
TEST_F(MappingsTest, AreOfThePartsOfTheFile)
{
	const Memory memory;
	constexpr size_t offsets[] = {0, 2 * page + 24, 5 * page};

	ASSERT_TRUE(memory.at);
	for (u32 i = 0; i < std::size(offsets); ++i) {
		const u32 key = stag + 0x100 * i;

		offer(memory.shared(offsets[i]), key);
		ASSERT_TRUE(maps(key));
		ASSERT_TRUE(maps(key)) << "it is mapped already";

		uint8_t *const at = memory_of(mappings, found(key), page, true);

		ASSERT_TRUE(at);
		memset(at, static_cast<int>(10 + i), page);
		for (size_t n = 0; n < page; ++n)
			ASSERT_EQ(memory.at[offsets[i] + n], 10 + i);
	}
	EXPECT_EQ(times_mapped(), 1 + int{std::size(offsets)});
	EXPECT_EQ(mappings.sweep(view), std::size(offsets));
}

TEST_F(MappingsTest, EndWithTheirRegions)
{
	const Memory memory;

	ASSERT_TRUE(memory.at);
	offer(memory.shared());
	ASSERT_TRUE(maps());

	const AccessView::Found region = found();
	{
		const RcuGuard guard;
		uint8_t *const at = mappings.find(region)->memory(region, page, true);

		ASSERT_TRUE(at);
		close();
		/* A thread may use it, and nobody waits for that. */
		EXPECT_EQ(mappings.sweep(view), 1u);
		EXPECT_TRUE(mappings.retired_any());
		EXPECT_FALSE(mappings.find(region));
		at[0] = 9;
		EXPECT_EQ(memory.at[0], 9);
	}
	EXPECT_EQ(times_mapped(), 2);
	EXPECT_EQ(mappings.sweep(view), 0u);
	EXPECT_FALSE(mappings.retired_any());
	EXPECT_EQ(times_mapped(), 1) << "it is still mapped";
	/* The next one with its key has another number. */
	offer(memory.shared(page));
	EXPECT_FALSE(memory_of(mappings, region, page, true));
	EXPECT_TRUE(maps());
	EXPECT_FALSE(memory_of(mappings, region, page, true));
}

/* A region takes the place of one that was closed while a thread uses that. */
TEST_F(MappingsTest, MakeRoomWhileOthersAreUsed)
{
	constexpr u32 in_one_set =
		Mappings::count_max / 4 * 0x100; /* keys that far apart share their slots */
	const Memory memory;

	ASSERT_TRUE(memory.at);
	for (u32 i = 0; i < 5; ++i) {
		offer(memory.shared(i * page), stag + i * in_one_set);
		EXPECT_EQ(maps(stag + i * in_one_set), i < 4) << "four slots";
	}

	const AccessView::Found first = found();
	{
		const RcuGuard guard;
		uint8_t *const at = mappings.find(first)->memory(first, page, true);

		close();
		EXPECT_TRUE(maps(stag + 4 * in_one_set));
		at[1] = 7;
		EXPECT_EQ(memory.at[1], 7);
		EXPECT_EQ(times_mapped(), 1 + 5);
	}
	EXPECT_EQ(mappings.sweep(view), 4u);
	EXPECT_EQ(times_mapped(), 1 + 4);
}

/* The table of another process may say anything. */
TEST_F(MappingsTest, AreOnlyOfFilesThatCannotShrink)
{
	const Memory memory, unsealed(0);
	SharedFile file = memory.shared();
	struct stat st;
	u32 key = stag;

	ASSERT_TRUE(memory.at && unsealed.at);
	ASSERT_EQ(fstat(unsealed.file.get(), &st), 0);

	SharedFile wrong_file = file, wrong_device = file, wrong_fd = file, no_fd = file;
	SharedFile too_far = file, shrinks = file;

	++wrong_file.inode;
	++wrong_device.device;
	wrong_fd.fd = table->fd();
	no_fd.fd = 1 << 20;
	too_far.offset = bytes - page + 1;
	shrinks.fd = unsealed.file.get();
	shrinks.inode = st.st_ino;

	SharedFile huge = file, negative = file;

	huge.offset = INT64_MAX - 10;
	negative.offset = ~0ull - 10;
	for (const SharedFile &wrong :
	     {wrong_file, wrong_device, wrong_fd, no_fd, too_far, shrinks, huge, negative}) {
		offer(wrong, key);
		EXPECT_FALSE(maps(key));
		EXPECT_FALSE(maps(key));
		EXPECT_FALSE(memory_of(mappings, found(key), page, false));
		key += 0x100;
	}
	EXPECT_EQ(times_mapped(), 2);
	EXPECT_EQ(mappings.sweep(view), 0u);
	offer(file, key);
	EXPECT_TRUE(maps(key));
}

/* Closing any descriptor of a file would drop this process's locks on it. */
TEST_F(MappingsTest, FetchNoDescriptorOfAnotherFile)
{
	const Memory memory, other;
	struct flock lock {};

	ASSERT_TRUE(memory.at && other.at);
	lock.l_type = F_WRLCK;
	ASSERT_EQ(fcntl(other.file.get(), F_SETLK, &lock), 0);

	SharedFile file = memory.shared();

	file.fd = other.file.get();
	offer(file);
	EXPECT_FALSE(maps());
	lock = {};
	lock.l_type = F_WRLCK;
	ASSERT_EQ(fcntl(other.file.get(), F_OFD_GETLK, &lock), 0);
	EXPECT_EQ(lock.l_type, F_WRLCK) << "the lock is gone";
}

TEST_F(MappingsTest, AreNotWrittenIfTheRegionIsForReading)
{
	const Memory memory;

	ASSERT_TRUE(memory.at);
	offer(memory.shared(), stag, SIRDMA_ACCESS_REMOTE_READ);
	ASSERT_TRUE(maps());
	EXPECT_TRUE(memory_of(mappings, found(), page, false));
	EXPECT_FALSE(memory_of(mappings, found(), page, true));
}

/* A table that changes after the mapping names no memory outside of it. */
TEST_F(MappingsTest, AreUsedWithinTheLengthThatWasMapped)
{
	const Memory memory;

	ASSERT_TRUE(memory.at);
	offer(memory.shared(page));
	ASSERT_TRUE(maps());

	const AccessView::Found region = found();
	uint8_t *const whole = memory_of(mappings, region, page, true);
	const auto use = [&](uint64_t offset, u32 len) {
		AccessView::Found changed = region;

		changed.offset = offset;
		changed.length = 1ull << 40;
		return memory_of(mappings, changed, len, true);
	};

	ASSERT_TRUE(whole);
	EXPECT_EQ(use(0, page), whole);
	EXPECT_EQ(use(page - 8, 8), whole + page - 8);
	EXPECT_FALSE(use(page - 8, 9));
	EXPECT_FALSE(use(page, 1));
	EXPECT_FALSE(use(page + 1, 8));
	EXPECT_FALSE(use(0, page + 1));
	EXPECT_FALSE(use(1ull << 32, 8));
	EXPECT_FALSE(use(~0ull - 3, 8));
}

/* Neither too many nor too much. Regions that are closed make room. */
TEST_F(MappingsTest, AreBounded)
{
	constexpr u32 many = Mappings::count_max * 2;
	const Memory memory;
	const Fd large(memfd_create("sirdma-mappings-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	unsigned mapped = 0;

	ASSERT_TRUE(memory.at && large);
	for (u32 i = 0; i < many; ++i) {
		offer(memory.shared(), stag + 0x100 * i);
		mapped += maps(stag + 0x100 * i);
	}
	EXPECT_EQ(mapped, Mappings::count_max);
	for (u32 i = 0; i < many; ++i)
		close(stag + 0x100 * i);
	offer(memory.shared());
	EXPECT_TRUE(maps());
	close();

	/* Of a file of 8 GiB, in which no memory is, 4 GiB. */
	constexpr size_t part = 1 << 30;
	struct stat st;

	ASSERT_EQ(ftruncate(large.get(), off_t{8} << 30), 0);
	ASSERT_EQ(fcntl(large.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ASSERT_EQ(fstat(large.get(), &st), 0);
	(void)mappings.sweep(view);
	mapped = 0;
	for (u32 i = 0; i < 8; ++i) {
		offer({.fd = large.get(),
		       .offset = i * uint64_t{part},
		       .device = st.st_dev,
		       .inode = st.st_ino},
		      stag + 0x100 * i, all_rights, part);
		mapped += maps(stag + 0x100 * i);
	}
	EXPECT_EQ(mapped, Mappings::bytes_max / part);
}

} // namespace sirdma::twin::test
