// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Regions over DMA buffers, here of /dev/udmabuf over a file in memory. The peer has the buffer, the device under test uses
// it. A device without such regions refuses them.
#include "fixture.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verbs
{
namespace
{

constexpr size_t page = 4096;
constexpr size_t room = 4 * page;
constexpr uint64_t iova = 0x123450000;
constexpr int dmabuf_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;

// A file in memory, mapped, and the DMA buffer over it; descriptors are -1 where there is no /dev/udmabuf.
struct Buffer {
	Mapping memory;
	int fd = -1;

	explicit Buffer(size_t length)
	{
		const int file = memfd_create("buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
		udmabuf_create create = {};

		create.memfd = static_cast<uint32_t>(file);
		create.flags = UDMABUF_FLAGS_CLOEXEC;
		create.size = length;
		if (file >= 0 && device >= 0 && !ftruncate(file, static_cast<off_t>(length)) &&
		    !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK)) {
			memory = Mapping::of_file(file, length, PROT_READ | PROT_WRITE, MAP_SHARED);
			fd = ioctl(device, UDMABUF_CREATE, &create);
			EXPECT_GE(fd, 0) << std::strerror(errno);
		}
		close(file);
		close(device);
	}
	Buffer(Buffer &&other) noexcept
		: memory(std::move(other.memory)), fd(std::exchange(other.fd, -1))
	{
	}
	Buffer &operator=(Buffer &&other) noexcept
	{
		memory = std::move(other.memory);
		std::swap(fd, other.fd);
		return *this;
	}
	~Buffer()
	{
		if (fd >= 0)
			close(fd);
	}

	std::span<std::byte> bytes(size_t at, size_t length) const
	{
		return memory.bytes().subspan(at, length);
	}
};

class DmaBuffers : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		pd_.reset(ibv_alloc_pd(peer().context.get()));
		ASSERT_TRUE(pd_);
		const int err = reg(-1, 0, page);
		if (err == EBADF)
			return;
		EXPECT_EQ(err, EOPNOTSUPP) << std::strerror(err);
		EXPECT_TRUE(peer().is_rxe() || options().unpinned) << "a kernel's device of ours "
								      "has such regions";
		GTEST_SKIP() << not_offered("ibv_reg_dmabuf_mr", err);
	}

	// The errno of a registration; 0: it succeeded, and was undone.
	int reg(int fd, uint64_t offset, size_t length, int access = dmabuf_access,
		uint64_t at = iova)
	{
		errno = 0;
		const Mr mr(ibv_reg_dmabuf_mr(pd_.get(), offset, length, at, fd, access));

		return mr ? 0 : errno;
	}

	struct World {
		Pair pair;
		Region local;
		Buffer buffer;
		Mr mr;
	};

	// The region begins at that byte of the buffer, and its iova in the same place of a page.
	World make_world(uint64_t offset = 0, size_t length = room, int access = dmabuf_access)
	{
		Link link = default_link();
		link.access = dmabuf_access;
		World w = {
			.pair = make_pair({}, link), .local = {}, .buffer = Buffer(room), .mr = {}};
		w.local = make_region(w.pair.a.pd, room);
		EXPECT_TRUE(w.local);
		if (w.buffer.fd < 0)
			return w;
		w.mr.reset(ibv_reg_dmabuf_mr(w.pair.b.pd, offset, length, iova + offset % page,
					     w.buffer.fd, access));
		EXPECT_TRUE(w.mr) << std::strerror(errno);
		w.local.fill(1);
		fill_pattern(w.buffer.memory.bytes(), 2);
		return w;
	}

	static SendSpec use(const World &w, ibv_wr_opcode op, uint64_t at, size_t bytes)
	{
		return {.op = op,
			.sges = {w.local.sge(0, bytes)},
			.remote_addr = at,
			.rkey = w.mr->rkey};
	}

	Pd pd_;
};

#define SKIP_WITHOUT_BUFFER(buffer) \
	if ((buffer).fd < 0) \
	GTEST_SKIP() << "no /dev/udmabuf here, or no right to it"

// Refused accesses, for which a NAK must arrive.
class DmaBufferProtection : public DmaBuffers {};

TEST_F(DmaBuffers, AreNoOtherDescriptors)
{
	int ends[2];

	ASSERT_EQ(pipe(ends), 0);
	EXPECT_EQ(reg(ends[0], 0, page), EINVAL);
	close(ends[0]);
	close(ends[1]);
	EXPECT_EQ(reg(ends[0], 0, page), EBADF);
	// What the device file of a context is.
	EXPECT_EQ(reg(peer().context->cmd_fd, 0, page), EINVAL);
}

TEST_F(DmaBuffers, HaveBoundsAndRights)
{
	const Buffer buffer(room);
	SKIP_WITHOUT_BUFFER(buffer);
	const struct {
		int error;
		uint64_t offset;
		size_t length;
		int access;
		uint64_t at;
	} rows[] = {
		{0, 0, room, dmabuf_access, iova},
		{0, 0, 1, 0, 0},
		{0, room - 1, 1, dmabuf_access, iova + page - 1},
		{EINVAL, 0, 0, dmabuf_access, iova},
		{EINVAL, 0, room + 1, dmabuf_access, iova},
		{EINVAL, page, room, dmabuf_access, iova},
		{EINVAL, room, 1, dmabuf_access, iova},
		{EINVAL, ~uint64_t{0} - page + 1, 2 * page, dmabuf_access, iova},
		{EINVAL, 0, ~size_t{0}, dmabuf_access, iova},
		{EINVAL, 0, size_t{1} << 50, dmabuf_access, iova},
		{EINVAL, 1, page, dmabuf_access, iova}, // another place in its page
		{EINVAL, 0, page, dmabuf_access, ~uint64_t{0} - page + 1 + page / 2},
		{EINVAL, 0, page, IBV_ACCESS_REMOTE_WRITE, iova},
		{EINVAL, 0, page, dmabuf_access | IBV_ACCESS_MW_BIND, iova},
		{EINVAL, 0, page, dmabuf_access | IBV_ACCESS_ZERO_BASED, iova},
		{EINVAL, 0, page, dmabuf_access | IBV_ACCESS_ON_DEMAND, iova},
		{EINVAL, 0, page, dmabuf_access | 1 << 14, iova},
	};

	for (const auto &row : rows)
		EXPECT_EQ(reg(buffer.fd, row.offset, row.length, row.access, row.at), row.error)
			<< row.length << " bytes at " << row.offset << ", access " << row.access;
}

TEST_F(DmaBuffers, ArePeersMemory)
{
	for (uint64_t offset : {uint64_t{0}, uint64_t{page}, uint64_t{page + 100}}) {
		const size_t length = room - offset;
		const World w = make_world(offset, length);
		const uint64_t start = iova + offset % page;

		SKIP_WITHOUT_BUFFER(w.buffer);
		EXPECT_EQ(w.mr->length, length);
		ASSERT_EQ(post(w.pair.a, use(w, IBV_WR_RDMA_WRITE, start, length)), 0);
		expect_wc(w.pair.a.scq);
		EXPECT_TRUE(has_pattern(w.buffer.bytes(0, offset), 2));
		EXPECT_TRUE(has_pattern(w.buffer.bytes(offset, length), 1));
		fill_pattern(w.buffer.memory.bytes(), 3);
		ASSERT_EQ(post(w.pair.a, use(w, IBV_WR_RDMA_READ, start + 5, length - 5)), 0);
		expect_wc(w.pair.a.scq);
		EXPECT_TRUE(has_pattern(w.local.bytes(0, length - 5), 3, offset + 5));
	}
}

TEST_F(DmaBuffers, TakePartInMessagesAndAtomics)
{
	const World w = make_world();
	SKIP_WITHOUT_BUFFER(w.buffer);
	const ibv_sge inside = {.addr = iova + 64, .length = page + 64, .lkey = w.mr->lkey};
	uint64_t word = 40;

	ASSERT_EQ(post_recv(w.pair.b, {inside}), 0);
	ASSERT_EQ(post(w.pair.a, {.sges = {w.local.sge(0, page + 64)}}), 0);
	expect_wc(w.pair.a.scq);
	expect_wc(w.pair.b.rcq);
	EXPECT_TRUE(has_pattern(w.buffer.bytes(64, page + 64), 1));
	ASSERT_EQ(post_recv(w.pair.a, {w.local.sge(0, page + 64)}), 0);
	ASSERT_EQ(post(w.pair.b, {.sges = {inside}}), 0);
	expect_wc(w.pair.b.scq);
	expect_wc(w.pair.a.rcq);
	EXPECT_TRUE(has_pattern(w.local.bytes(0, page + 64), 1));

	memcpy(w.buffer.memory.data() + page, &word, sizeof(word));
	SendSpec add = use(w, IBV_WR_ATOMIC_FETCH_AND_ADD, iova + page, 8);
	add.compare_add = 2;
	ASSERT_EQ(post(w.pair.a, add), 0);
	expect_wc(w.pair.a.scq);
	memcpy(&word, w.buffer.memory.data() + page, sizeof(word));
	EXPECT_EQ(word, 42u);
}

TEST_F(DmaBuffers, StayWhileRegionsAreOverThem)
{
	World w = make_world();
	SKIP_WITHOUT_BUFFER(w.buffer);
	const Mr second(ibv_reg_dmabuf_mr(w.pair.b.pd, 0, room, iova, w.buffer.fd, dmabuf_access));
	ASSERT_TRUE(second);

	// The descriptor and the process's mapping go; the regions do not.
	close(std::exchange(w.buffer.fd, -1));
	w.buffer.memory = Mapping();
	ASSERT_EQ(destroy(w.mr), 0);
	ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_RDMA_READ,
				  .sges = {w.local.sge(0, room)},
				  .remote_addr = iova,
				  .rkey = second->rkey}),
		  0);
	expect_wc(w.pair.a.scq);
	EXPECT_TRUE(has_pattern(w.local.memory.bytes(), 2));
}

TEST_F(DmaBuffers, LongOnes)
{
	constexpr size_t length = 4 << 20;
	const Buffer buffer(length);
	SKIP_WITHOUT_BUFFER(buffer);
	const Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, length);
	const Mr mr(ibv_reg_dmabuf_mr(pair.b.pd, 0, length, iova, buffer.fd, all_access));

	ASSERT_TRUE(local && mr) << std::strerror(errno);
	local.fill(5);
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {local.sge(0, length)},
					.remote_addr = iova,
					.rkey = mr->rkey}),
			  0);
		expect_wc(pair.a.scq);
		EXPECT_TRUE(has_pattern(buffer.memory.bytes(), op == IBV_WR_RDMA_WRITE ? 5 : 6));
		EXPECT_TRUE(has_pattern(local.memory.bytes(), op == IBV_WR_RDMA_WRITE ? 5 : 6));
		fill_pattern(buffer.memory.bytes(), 6);
	}
}

TEST_F(DmaBuffers, DoNotChange)
{
	const Buffer buffer(room);
	SKIP_WITHOUT_BUFFER(buffer);
	const Mr mr(ibv_reg_dmabuf_mr(pd_.get(), 0, room, iova, buffer.fd, dmabuf_access));

	ASSERT_TRUE(mr);
	EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       IBV_ACCESS_LOCAL_WRITE),
		  IBV_REREG_MR_ERR_INPUT);
}

// A buffer that the process may only read is not written by its regions.
TEST_F(DmaBuffers, ReadOnlyOnesAreNotWritten)
{
	const Buffer buffer(room);
	SKIP_WITHOUT_BUFFER(buffer);
	const std::string path = "/proc/self/fd/" + std::to_string(buffer.fd);
	const int read_only = open(path.c_str(), O_RDONLY | O_CLOEXEC);

	if (read_only < 0)
		GTEST_SKIP() << "this kernel opens no DMA buffer again: " << std::strerror(errno);
	EXPECT_EQ(reg(read_only, 0, room, IBV_ACCESS_REMOTE_READ), 0);
	EXPECT_EQ(reg(read_only, 0, room, IBV_ACCESS_LOCAL_WRITE), EACCES);
	close(read_only);
}

TEST_F(DmaBufferProtection, EndWithTheirLengthAndTheirRights)
{
	const struct {
		ibv_wr_opcode op;
		uint64_t at;
		int access;
	} faults[] = {
		{IBV_WR_RDMA_READ, iova + page, dmabuf_access},
		{IBV_WR_RDMA_WRITE, iova + page - 4, dmabuf_access},
		{IBV_WR_RDMA_READ, iova - 8, dmabuf_access},
		{IBV_WR_RDMA_WRITE, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
		{IBV_WR_RDMA_READ, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	};

	for (const auto &fault : faults) {
		const World w = make_world(page, page, fault.access);

		SKIP_WITHOUT_BUFFER(w.buffer);
		ASSERT_EQ(post(w.pair.a, use(w, fault.op, fault.at, 8)), 0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
		EXPECT_TRUE(has_pattern(w.buffer.memory.bytes(), 2));
	}
}

// The scenario verbs-objects kills the program that runs this.
TEST_F(DmaBuffers, HeldUntilTheProgramIsKilled)
{
	const char *seconds = getenv("VERBS_HOLD_OBJECTS");

	if (!seconds)
		GTEST_SKIP() << "holds DMA buffers for a scenario to kill the program";
	std::vector<World> worlds;
	for (int i = 0; i < 10; i++)
		worlds.push_back(make_world());
	SKIP_WITHOUT_BUFFER(worlds[0].buffer);
	printf("DMA buffers are held\n");
	fflush(stdout);
	sleep(static_cast<unsigned>(atoi(seconds)));
}

} // namespace
} // namespace verbs
