// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Device memory: what is copied to it and from it, what peers do to regions over it, and how it ends. The peer has the
// memory, the device under test uses it. A device without any refuses it.
#include "dm.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace verbs
{
namespace
{

constexpr size_t page = 4096;
constexpr size_t room = 5 * page;

class DeviceMemory : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (max_dm_size(peer()))
			return;
		EXPECT_FALSE(alloc_dm(peer(), page));
		EXPECT_EQ(errno, EOPNOTSUPP) << std::strerror(errno);
		EXPECT_TRUE(peer().is_rxe()) << "a device of ours has device memory";
		GTEST_SKIP() << not_reported("max_dm_size");
	}

	// A connection, ordinary memory at the initiator, and a region over a part of device memory at the peer.
	struct World {
		Pair pair;
		Region local;
		Dm dm;
		Mr mr;
	};

	World make_world(uint64_t offset = 0, size_t length = room, unsigned access = dm_access)
	{
		Link link = default_link();
		link.access = all_access | IBV_ACCESS_REMOTE_ATOMIC;
		World w = {.pair = make_pair({}, link), .local = {}, .dm = {}, .mr = {}};
		w.local = make_region(w.pair.a.pd, room);
		w.dm = alloc_dm(peer(), room);
		EXPECT_TRUE(w.local && w.dm) << std::strerror(errno);
		w.mr.reset(ibv_reg_dm_mr(w.pair.b.pd, w.dm.get(), offset, length, access));
		EXPECT_TRUE(w.mr) << std::strerror(errno);
		w.local.fill(1);
		fill_dm(w.dm.get(), room, 2);
		return w;
	}

	static SendSpec access(const World &w, ibv_wr_opcode op, uint64_t at, size_t bytes)
	{
		return {.op = op,
			.sges = {w.local.sge(0, bytes)},
			.remote_addr = at,
			.rkey = w.mr->rkey};
	}

	static void expect_dm(const World &w, size_t first, size_t length, uint64_t seed,
			      uint64_t from)
	{
		EXPECT_TRUE(has_pattern(read_dm(w.dm.get(), first, length), seed, from)) << first;
	}
};

// Refused accesses, for which a NAK must arrive.
class DeviceMemoryProtection : public DeviceMemory {};

TEST_F(DeviceMemory, IsZeroedAndNamed)
{
	const Dm dm = alloc_dm(peer(), 3 * page + 4, 6);

	ASSERT_TRUE(dm) << std::strerror(errno);
	EXPECT_EQ(dm->context, peer().context.get());
	EXPECT_TRUE(dm->comp_mask & IBV_DM_MASK_HANDLE);
	for (std::byte byte : read_dm(dm.get(), 0, 3 * page + 4))
		ASSERT_EQ(byte, std::byte{0});
}

TEST_F(DeviceMemory, KeepsWhatIsCopiedAtAnyWord)
{
	const Dm dm = alloc_dm(peer(), room);
	std::vector<std::byte> all(room);

	ASSERT_TRUE(dm);
	fill_dm(dm.get(), room, 1);
	fill_pattern(all, 1);
	for (uint64_t offset : {0, 4, 8, 12, 4092, 4096, 8188}) {
		for (size_t length : {0, 4, 8, 12, 16, 20, 4100}) {
			std::vector<std::byte> bytes(length + 1);

			fill_pattern(bytes, offset + length);
			// The host's memory need not be aligned.
			ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), offset, bytes.data() + 1, length), 0);
			std::copy(bytes.begin() + 1, bytes.end(),
				  all.begin() + static_cast<ssize_t>(offset));
			ASSERT_EQ(read_dm(dm.get(), 0, room), all) << offset << "+" << length;
			ASSERT_EQ(ibv_memcpy_from_dm(bytes.data() + 1, dm.get(), offset, length),
				  0);
		}
	}
}

TEST_F(DeviceMemory, CopiesStayWithinItAndAreOfWholeWords)
{
	constexpr size_t size = 100;
	const Dm dm = alloc_dm(peer(), size);
	std::vector<std::byte> host(2 * page);
	const std::pair<uint64_t, size_t> bad[] = {
		{0, 104},	   {100, 4},	    {104, 0}, {96, 8}, {0, 2 * page},
		{~uint64_t{3}, 8}, {8, ~size_t{7}}, {1, 4},   {4, 3},  {2, 8},
	};

	ASSERT_TRUE(dm);
	fill_dm(dm.get(), size, 1);
	for (const auto &[offset, length] : bad) {
		EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), offset, host.data(), length), EINVAL);
		EXPECT_EQ(ibv_memcpy_from_dm(host.data(), dm.get(), offset, length), EINVAL);
	}
	EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, size), 1));
	EXPECT_EQ(ibv_memcpy_from_dm(host.data(), dm.get(), 100, 0), 0);
}

TEST_F(DeviceMemory, PeersReadAndWriteIt)
{
	const World w = make_world();

	for (uint64_t at : {uint64_t{0}, uint64_t{10}, uint64_t{page - 8}, uint64_t{room - 100}}) {
		fill_dm(w.dm.get(), room, 2);
		w.local.fill(1);
		ASSERT_EQ(post(w.pair.a, access(w, IBV_WR_RDMA_WRITE, at, 100)), 0);
		expect_wc(w.pair.a.scq);
		const auto all = read_dm(w.dm.get(), 0, room);
		const auto part = std::span(all);
		EXPECT_TRUE(has_pattern(part.subspan(0, at), 2));
		EXPECT_TRUE(has_pattern(part.subspan(at, 100), 1));
		EXPECT_TRUE(has_pattern(part.subspan(at + 100), 2, at + 100));

		fill_dm(w.dm.get(), room, 3);
		ASSERT_EQ(post(w.pair.a, access(w, IBV_WR_RDMA_READ, at, 100)), 0);
		expect_wc(w.pair.a.scq);
		EXPECT_TRUE(has_pattern(w.local.bytes(0, 100), 3, at));
	}
}

// As a scatter list of the peer's own requests and receives: addresses are offsets in the region.
TEST_F(DeviceMemory, MessagesComeFromItAndGoToIt)
{
	const World w = make_world(page, 2 * page);
	const ibv_sge inside = {.addr = 64, .length = page + 64, .lkey = w.mr->lkey};

	ASSERT_EQ(post_recv(w.pair.b, {inside}), 0);
	ASSERT_EQ(post(w.pair.a, {.sges = {w.local.sge(0, page + 64)}}), 0);
	expect_wc(w.pair.a.scq);
	EXPECT_EQ(expect_wc(w.pair.b.rcq).byte_len, page + 64);
	expect_dm(w, 0, page + 64, 2, 0);
	expect_dm(w, page + 64, page + 64, 1, 0);
	expect_dm(w, 2 * page + 128, room - 2 * page - 128, 2, 2 * page + 128);

	fill_dm(w.dm.get(), room, 4);
	ASSERT_EQ(post_recv(w.pair.a, {w.local.sge(0, page + 64)}), 0);
	ASSERT_EQ(post(w.pair.b, {.sges = {inside}}), 0);
	expect_wc(w.pair.b.scq);
	expect_wc(w.pair.a.rcq);
	EXPECT_TRUE(has_pattern(w.local.bytes(0, page + 64), 4, page + 64));
}

TEST_F(DeviceMemory, RegionBeginsAtAnyByte)
{
	constexpr uint64_t offset = page + 4091;
	constexpr size_t length = page + 7;
	const World w = make_world(offset, length);

	ASSERT_EQ(post(w.pair.a, access(w, IBV_WR_RDMA_WRITE, 0, length)), 0);
	expect_wc(w.pair.a.scq);
	const auto all = read_dm(w.dm.get(), 0, room);
	const auto part = std::span(all);
	EXPECT_TRUE(has_pattern(part.subspan(0, offset), 2));
	EXPECT_TRUE(has_pattern(part.subspan(offset, length), 1));
	EXPECT_TRUE(has_pattern(part.subspan(offset + length), 2, offset + length));
}

TEST_F(DeviceMemory, LongMessages)
{
	const size_t length = std::min<size_t>(max_dm_size(peer()), 2 << 20);
	const Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, length);
	const Dm dm = alloc_dm(peer(), length);

	ASSERT_TRUE(local && dm) << std::strerror(errno);
	const Mr mr(ibv_reg_dm_mr(pair.b.pd, dm.get(), 0, length, dm_access));
	ASSERT_TRUE(mr) << std::strerror(errno);
	local.fill(5);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				.sges = {local.sge(0, length)},
				.remote_addr = 0,
				.rkey = mr->rkey}),
		  0);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, length), 5));
	fill_dm(dm.get(), length, 6);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_READ,
				.sges = {local.sge(0, length)},
				.remote_addr = 0,
				.rkey = mr->rkey}),
		  0);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(local.memory.bytes(), 6));
}

uint64_t word_at(ibv_dm *dm, uint64_t offset)
{
	uint64_t word = 0;

	EXPECT_EQ(ibv_memcpy_from_dm(&word, dm, offset, sizeof(word)), 0);
	return word;
}

TEST_F(DeviceMemory, AtomicsOfPeersAndCopiesSeeEachOther)
{
	// Both halves grow alike, so a copy that took half of a word shows.
	constexpr uint64_t step = 0x0000000100000001;
	constexpr uint64_t at = page + 8;
	constexpr int rounds = 200;
	const World w = make_world();
	uint64_t start = 7 * step;
	std::atomic<bool> over{false};

	ASSERT_EQ(ibv_memcpy_to_dm(w.dm.get(), at, &start, sizeof(start)), 0);
	std::thread reader([&] {
		uint64_t last = start;

		while (!over) {
			const uint64_t now = word_at(w.dm.get(), at);

			EXPECT_EQ(now >> 32, now & 0xffffffff);
			EXPECT_GE(now, last);
			last = now;
			std::this_thread::yield();
		}
	});
	for (int i = 0; i < rounds; i++) {
		SendSpec add = access(w, IBV_WR_ATOMIC_FETCH_AND_ADD, at, 8);

		add.compare_add = step;
		EXPECT_EQ(post(w.pair.a, add), 0);
		expect_wc(w.pair.a.scq);
		uint64_t before;
		memcpy(&before, w.local.bytes(0, 8).data(), 8);
		EXPECT_EQ(before, start + static_cast<uint64_t>(i) * step);
		EXPECT_EQ(word_at(w.dm.get(), at), before + step);
	}
	over = true;
	reader.join();

	const uint64_t expected = start + rounds * step;
	SendSpec swap = access(w, IBV_WR_ATOMIC_CMP_AND_SWP, at, 8);
	swap.compare_add = expected;
	swap.swap = 42;
	ASSERT_EQ(post(w.pair.a, swap), 0);
	expect_wc(w.pair.a.scq);
	EXPECT_EQ(word_at(w.dm.get(), at), 42u);
	// A copy in between is what the next atomic finds.
	const uint64_t copied = 99;
	ASSERT_EQ(ibv_memcpy_to_dm(w.dm.get(), at, &copied, sizeof(copied)), 0);
	swap.compare_add = 42;
	ASSERT_EQ(post(w.pair.a, swap), 0);
	expect_wc(w.pair.a.scq);
	EXPECT_EQ(word_at(w.dm.get(), at), copied);
}

struct DmFault {
	const char *name;
	ibv_wr_opcode op;
	uint64_t at;
	size_t bytes;
	unsigned access;
};

constexpr size_t faulty_length = 100;
const DmFault dm_faults[] = {
	{"WriteBeyond", IBV_WR_RDMA_WRITE, faulty_length, 1, dm_access},
	{"WriteAcrossTheEnd", IBV_WR_RDMA_WRITE, faulty_length - 4, 8, dm_access},
	{"ReadBeyond", IBV_WR_RDMA_READ, faulty_length, 1, dm_access},
	{"ReadFarAway", IBV_WR_RDMA_READ, ~uint64_t{0} - 4, 4, dm_access},
	{"AtomicBeyond", IBV_WR_ATOMIC_FETCH_AND_ADD, 104, 8, dm_access},
	{"WriteWithoutRight", IBV_WR_RDMA_WRITE, 0, 8,
	 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
	{"ReadWithoutRight", IBV_WR_RDMA_READ, 0, 8,
	 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	{"AtomicWithoutRight", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8,
	 IBV_ACCESS_ZERO_BASED | static_cast<unsigned>(all_access)},
};

void PrintTo(const DmFault &fault, std::ostream *out)
{
	*out << fault.name;
}

class DeviceMemoryProtectionTable : public DeviceMemory,
				    public testing::WithParamInterface<DmFault> {};

TEST_P(DeviceMemoryProtectionTable, IsRefused)
{
	const DmFault &fault = GetParam();
	const World w = make_world(8, faulty_length, fault.access);

	ASSERT_EQ(post(w.pair.a, access(w, fault.op, fault.at, fault.bytes)), 0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	expect_dm(w, 0, room, 2, 0);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceMemoryProtectionTable, testing::ValuesIn(dm_faults),
			 [](const auto &info) { return std::string(info.param.name); });

// rdma-core's own tests make such regions.
TEST_F(DeviceMemoryProtection, RegionOfNoBytesGivesAccessToNone)
{
	for (const size_t offset : {size_t{0}, page, room}) {
		const World w = make_world(offset, 0);

		EXPECT_EQ(w.mr->length, 0u);
		ASSERT_EQ(post(w.pair.a, access(w, IBV_WR_RDMA_WRITE, 0, 0)), 0);
		expect_wc(w.pair.a.scq, IBV_WC_SUCCESS);
		ASSERT_EQ(post(w.pair.a, access(w, IBV_WR_RDMA_WRITE, 0, 1)), 0);
		expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
		expect_dm(w, 0, room, 2, 0);
	}
}

TEST_F(DeviceMemoryProtection, DeregistrationClosesIt)
{
	World w = make_world();
	const uint32_t key = w.mr->rkey;

	EXPECT_EQ(ibv_free_dm(w.dm.get()), EBUSY);
	ASSERT_EQ(destroy(w.mr), 0);
	ASSERT_EQ(post(w.pair.a, {.op = IBV_WR_RDMA_READ,
				  .sges = {w.local.sge(0, 8)},
				  .remote_addr = 0,
				  .rkey = key}),
		  0);
	expect_wc(w.pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	expect_dm(w, 0, room, 2, 0);
}

TEST_F(DeviceMemory, IsBusyWhileRegionsAreOverIt)
{
	Dm dm = alloc_dm(peer(), room);
	const Pd pd(ibv_alloc_pd(peer().context.get()));

	ASSERT_TRUE(dm && pd);
	{
		const Mr first(ibv_reg_dm_mr(pd.get(), dm.get(), 0, page, dm_access));
		Mr second(ibv_reg_dm_mr(pd.get(), dm.get(), 0, room, dm_access));

		ASSERT_TRUE(first && second) << std::strerror(errno);
		EXPECT_NE(first->rkey, second->rkey);
		EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
		ASSERT_EQ(destroy(second), 0);
		EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
		fill_dm(dm.get(), room, 1);
		EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, room), 1));
	}
	EXPECT_EQ(destroy(dm), 0);
}

TEST_F(DeviceMemory, RegionOverItDoesNotChange)
{
	const Dm dm = alloc_dm(peer(), room);
	const Pd pd(ibv_alloc_pd(peer().context.get()));

	ASSERT_TRUE(dm && pd);
	const Mr mr(ibv_reg_dm_mr(pd.get(), dm.get(), 0, room, dm_access));
	ASSERT_TRUE(mr);
	EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       IBV_ACCESS_LOCAL_WRITE),
		  IBV_REREG_MR_ERR_INPUT);
}

// Allocates pieces until there are no more.
std::vector<Dm> take_all(const Device &of, size_t piece)
{
	std::vector<Dm> all;
	Dm one;

	while (all.size() < 1u << 16 && (one = alloc_dm(of, piece)))
		all.push_back(std::move(one));
	EXPECT_EQ(errno, ENOMEM) << std::strerror(errno);
	return all;
}

TEST_F(DeviceMemory, RunsOutAndComesBack)
{
	const uint64_t limit = max_dm_size(peer());
	const size_t piece = limit / 16;

	for (int round = 0; round < 2; round++) {
		std::vector<Dm> all = take_all(peer(), piece);

		EXPECT_LE(all.size() * piece, limit);
		EXPECT_GE(all.size() * piece, limit / 2);
		EXPECT_FALSE(alloc_dm(peer(), piece));
		EXPECT_EQ(errno, ENOMEM);
		all.pop_back();
		all.push_back(alloc_dm(peer(), piece));
		EXPECT_TRUE(all.back()) << "what was given back can be had again";
	}
	EXPECT_TRUE(alloc_dm(peer(), limit)) << std::strerror(errno);
}

// What one user took, whoever asks in its name, leaves room for another one.
TEST_F(DeviceMemory, OneUserLeavesSomeToAnother)
{
	constexpr uid_t nobody = 65534;
	const size_t piece = max_dm_size(peer()) / 16;
	std::vector<Dm> mine;
	int status = -1;

	if (getuid() || options().unpinned)
		GTEST_SKIP() << "users share a kernel's device, and only root can become another "
				"one";
	auto other = Device::open(peer().name, {peer().gid_index, 4});
	ASSERT_TRUE(other);
	mine = take_all(peer(), piece);
	EXPECT_EQ(take_all(*other, piece).size(), 0u) << "of the same user";
	const pid_t child = fork();
	if (!child) {
		if (setgid(nobody) || setuid(nobody))
			_exit(1);
		const auto own = Device::open(peer().name, {peer().gid_index, 4});
		_exit(own && take_all(*own, piece).size() >= mine.size() / 2 ? 0 : 2);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the other user's process";
}

// The scenario verbs-objects kills the program that runs this.
TEST_F(DeviceMemory, HeldUntilTheProgramIsKilled)
{
	const char *seconds = getenv("VERBS_HOLD_OBJECTS");

	if (!seconds)
		GTEST_SKIP() << "holds device memory for a scenario to kill the program";
	std::vector<World> worlds;
	for (int i = 0; i < 10; i++)
		worlds.push_back(make_world());
	printf("device memory is held\n");
	fflush(stdout);
	sleep(static_cast<unsigned>(atoi(seconds)));
}

} // namespace
} // namespace verbs
