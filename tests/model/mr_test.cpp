// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory regions: what registration accepts, and every byte of every list level
// against the memory it was made from.
#include "mini_driver.hpp"

using namespace sirdma::test;

namespace
{

constexpr u8 read_local = SIRDMA_ACCESS_LOCAL_READ;
constexpr u8 all_rights = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
			  SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC;

class MrTest : public ::testing::Test {
protected:
	MrTest() : drv_(host_) {}
	void SetUp() override { drv_.bring_up(8); }

	enum sirdma_ae_code try_access(const MrParams &mr, u64 va, u64 len, u8 access, u32 pd = 1)
	{
		enum sirdma_ae_code ae = SIRDMA_AE_NONE;
		snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), pd, va, len, access, &ae);

		EXPECT_EQ(got == nullptr, ae != SIRDMA_AE_NONE);
		if (got)
			snic_mr_put(got);
		return ae;
	}

	// Bytes from the first on that a data path finds at once.
	u64 longest_run(const MrParams &mr)
	{
		enum sirdma_ae_code ae;
		snic_mr *got =
			snic_mr_get(host_.dev(), mr.stag(), mr.pd, mr.va, 1, read_local, &ae);
		void *p;
		u32 n = 0;

		EXPECT_NE(got, nullptr);
		if (!got)
			return 0;
		EXPECT_EQ(bytes_at(host_.dev(), got, mr.va, static_cast<u32>(mr.len), &p, &n),
			  SNIC_MEM_OK);
		snic_mr_put(got);
		return n;
	}

	// Copy out of a region the way a data path does.
	std::vector<u8> read_back(const MrParams &mr, u64 va, u64 len)
	{
		enum sirdma_ae_code ae;
		snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), mr.pd, va, len, read_local, &ae);
		std::vector<u8> out;

		EXPECT_NE(got, nullptr) << "AE 0x" << std::hex << ae;
		while (got && len) {
			u32 want = static_cast<u32>(std::min<u64>(len, 1 << 20)), run = 0;
			void *at = nullptr;
			EXPECT_EQ(bytes_at(host_.dev(), got, va, want, &at, &run), SNIC_MEM_OK);
			auto *p = static_cast<u8 *>(at);
			if (!p || !run || run > want)
				break;
			out.insert(out.end(), p, p + run);
			va += run;
			len -= run;
		}
		if (got)
			snic_mr_put(got);
		return out;
	}

	TestHost host_;
	MiniDriver drv_;
};

} // namespace

TEST_F(MrTest, EveryLevelAndBlockSizeFindsItsBytes)
{
	struct Case {
		u32 shift;
		size_t bytes;
		u8 level;
	};
	const Case cases[] = {
		{12, 4096, 0},	    {12, 64 << 12, 0},	{12, 4096, 1},
		{12, 700 << 12, 1}, {12, 300 << 12, 2}, {12, 1700 << 12, 2},
		{21, 8 << 21, 0},   {21, 8 << 21, 1},	{21, 8 << 21, 2},
	};
	std::mt19937_64 rng(5);
	u32 idx = 1;

	for (const auto &c : cases) {
		SCOPED_TRACE(testing::Message() << "block shift " << c.shift << " level "
						<< +c.level << " bytes " << c.bytes);
		UserMemory mem(host_.dma(), c.bytes, c.shift, c.level == 0);
		u64 block = 1ull << c.shift, off = rng() % block;
		MrParams mr{.idx = idx++};

		mem.fill(idx);
		// The address the application uses is unrelated, but agrees within a block.
		mr.va = 0x7000'0000'0000 + off;
		mr.len = mem.size() - off - rng() % std::min<u64>(block, mem.size() - off);
		drv_.describe(mr, mem, c.level);
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
		for (int i = 0; i < 200; i++) {
			u64 at = rng() % mr.len,
			    len = 1 + rng() % std::min<u64>(mr.len - at, 20000);
			auto got = read_back(mr, mr.va + at, len);
			ASSERT_EQ(got.size(), len);
			ASSERT_EQ(memcmp(got.data(), mem.data() + off + at, len), 0);
		}
		auto ends = {mr.va, mr.va + mr.len - 1};
		for (u64 va : ends)
			EXPECT_EQ(read_back(mr, va, 1)[0], mem.data()[off + va - mr.va]);
		EXPECT_EQ(longest_run(mr), c.level ? std::min(mr.len, block - off) : mr.len);
		EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
	}
}

TEST_F(MrTest, GigabyteBlocksReachBeyondFourGibibytes)
{
	UserMemory mem(host_.dma(), 6ull << 30, 30);
	MrParams mr{.va = 0x1000'0000'0000, .len = 6ull << 30};
	const u64 spots[] = {0, (1ull << 30) - 2, (4ull << 30) - 1, (4ull << 30) + 12345,
			     (6ull << 30) - 4};

	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	for (u64 spot : spots) {
		memcpy(mem.data() + spot, "abc", 3);
		auto got = read_back(mr, mr.va + spot, 3);
		EXPECT_EQ(std::string(got.begin(), got.end()), "abc");
	}
	EXPECT_EQ(try_access(mr, mr.va, mr.len, read_local), SIRDMA_AE_NONE);
	EXPECT_EQ(try_access(mr, mr.va, mr.len + 1, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
}

TEST_F(MrTest, ZeroBasedRegionStartsAtAddressZero)
{
	UserMemory mem(host_.dma(), 3 << 12);
	MrParams mr{.va = 100, .len = 5000, .zero_based = true};

	mem.fill(3);
	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	auto got = read_back(mr, 0, 5000);
	EXPECT_EQ(memcmp(got.data(), mem.data() + 100, 5000), 0);
	EXPECT_EQ(try_access(mr, 1, 5000, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
	EXPECT_EQ(try_access(mr, mem.va() + 100, 1, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
	MrParams bad{.idx = 2, .va = 4096, .len = 1, .zero_based = true};
	drv_.describe(bad, mem, 1);
	EXPECT_EQ(drv_.reg_mr(bad), SIRDMA_CQP_BAD_PARAM);
}

TEST_F(MrTest, ChecksKeyThenPdThenRightsThenBounds)
{
	UserMemory mem(host_.dma(), 4096);
	MrParams mr{.va = 0x10000, .len = 4096, .access = read_local}, other = mr;
	auto counts = [&] {
		return std::array{host_.stat(SIRDMA_STAT_MR_INVALID_KEY),
				  host_.stat(SIRDMA_STAT_MR_BAD_PD),
				  host_.stat(SIRDMA_STAT_MR_BAD_ACCESS),
				  host_.stat(SIRDMA_STAT_MR_BAD_RANGE)};
	};
	const u8 write = SIRDMA_ACCESS_REMOTE_WRITE;

	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	other.key++;
	EXPECT_EQ(try_access(other, 0, 9999, write, 7), SIRDMA_AE_AMP_BAD_STAG_KEY);
	EXPECT_EQ(counts(), (std::array<u64, 4>{1, 0, 0, 0}));
	EXPECT_EQ(try_access(mr, 0, 9999, write, 7), SIRDMA_AE_AMP_BAD_PD);
	EXPECT_EQ(counts(), (std::array<u64, 4>{1, 1, 0, 0}));
	EXPECT_EQ(try_access(mr, 0, 9999, write), SIRDMA_AE_AMP_RIGHTS_VIOLATION);
	EXPECT_EQ(counts(), (std::array<u64, 4>{1, 1, 1, 0}));
	EXPECT_EQ(try_access(mr, 0, 9999, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
	EXPECT_EQ(counts(), (std::array<u64, 4>{1, 1, 1, 1}));
	other.idx = 3000;
	EXPECT_EQ(try_access(other, 0, 1, read_local), SIRDMA_AE_AMP_UNALLOCATED_STAG);
	other.idx = 0xffffff;
	EXPECT_EQ(try_access(other, 0, 1, read_local), SIRDMA_AE_AMP_BAD_STAG_INDEX);
	EXPECT_EQ(counts(), (std::array<u64, 4>{3, 1, 1, 1}));
}

TEST_F(MrTest, LengthZeroDoesNotSwitchChecksOff)
{
	UserMemory mem(host_.dma(), 4096);
	MrParams mr{.va = 0x10000, .len = 4096, .access = read_local};

	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	EXPECT_EQ(try_access(mr, 0xdead, 0, read_local), SIRDMA_AE_NONE);
	EXPECT_EQ(try_access(mr, 0x10000, 0, read_local, 2), SIRDMA_AE_AMP_BAD_PD);
	EXPECT_EQ(try_access(mr, 0x10000, 0, SIRDMA_ACCESS_REMOTE_READ),
		  SIRDMA_AE_AMP_RIGHTS_VIOLATION);
}

TEST_F(MrTest, RegionOfNoBytesHasNoPageListAndNoAddress)
{
	UserMemory mem(host_.dma(), 4096);
	MrParams empty{.va = 0x10000, .len = 4096, .access = read_local};

	drv_.describe(empty, mem, 1);
	empty.len = 0;
	EXPECT_EQ(drv_.reg_mr(empty), SIRDMA_CQP_BAD_PARAM) << "with a page list";
	empty.level = 0;
	empty.addr = 0;
	ASSERT_EQ(drv_.reg_mr(empty), SIRDMA_CQP_OK);
	EXPECT_EQ(try_access(empty, 0x10000, 0, read_local), SIRDMA_AE_NONE);
	EXPECT_EQ(try_access(empty, 0x10000, 1, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
	EXPECT_EQ(try_access(empty, 0xffff, 1, read_local), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
}

TEST_F(MrTest, BoundsHoldAgainstAnOracle)
{
	UserMemory mem(host_.dma(), 16 << 12);
	std::mt19937_64 rng(2024);
	const u64 bases[] = {0, 0x1000, 0x7fff'ffff'f000, 0xffff'ffff'fff0'0000};
	u32 idx = 1;

	for (u64 base : bases) {
		MrParams mr{.idx = idx++, .va = base + rng() % 4096};
		mr.len = 1 + rng() % (15 << 12);
		drv_.describe(mr, mem, 1);
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
		const u64 anchors[] = {0, mr.va, mr.va + mr.len, ~0ull, 1ull << 63, mr.va + 4096};
		for (int i = 0; i < 20000; i++) {
			u64 va = anchors[rng() % std::size(anchors)] + rng() % 9 - 4;
			u64 lens[] = {rng() % 8, mr.len + rng() % 9 - 4, 0ull - va, ~va, rng()};
			u64 len = lens[rng() % std::size(lens)];
			auto first = static_cast<unsigned __int128>(va), end = first + len;
			enum sirdma_ae_code want = SIRDMA_AE_NONE;
			if (len && end > (static_cast<unsigned __int128>(1) << 64))
				want = SIRDMA_AE_AMP_TO_WRAP;
			else if (len && (first < mr.va || end > first - va + mr.va + mr.len))
				want = SIRDMA_AE_AMP_BOUNDS_VIOLATION;
			ASSERT_EQ(try_access(mr, va, len, read_local), want)
				<< std::hex << "va 0x" << va << " len 0x" << len << " region 0x"
				<< mr.va << " + 0x" << mr.len;
		}
	}
}

TEST_F(MrTest, RegistrationRefusesWhatItCannotServe)
{
	UserMemory mem(host_.dma(), 8 << 12), flat(host_.dma(), 8 << 12, 12, true);
	MrParams good{.va = 0x10000, .len = 8 << 12};
	auto status = [&](auto change) {
		MrParams mr = good;
		change(mr);
		DmaSpace::ExpectFaults faults(host_.dma());
		return drv_.reg_mr(mr);
	};

	drv_.describe(good, mem, 1);
	EXPECT_EQ(status([](auto &m) { m.idx = 0; }), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(status([](auto &m) { m.idx = 4096; }), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(status([](auto &m) { m.pd = 256; }), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(status([](auto &m) { m.pd = 1 << 18; }), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(status([](auto &m) { m.is_mr = false; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.len = 0; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.level = 3; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.va = ~0ull - 100; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.access = SIRDMA_ACCESS_REMOTE_WRITE; }),
		  SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.access = SIRDMA_ACCESS_REMOTE_ATOMIC; }),
		  SIRDMA_CQP_BAD_PARAM);
	// The list must lie within what is committed, and its first and last block resolve.
	u32 committed = 8 * (SIRDMA_HMC_SD_SIZE / 8);
	EXPECT_EQ(status([&](auto &m) { m.first_pble = committed; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([&](auto &m) { m.first_pble = committed - 7; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([](auto &m) { m.len += 1; }), SIRDMA_CQP_BAD_ADDRESS);
	u64 last = mem.blocks().back();
	drv_.write_pble(good.first_pble + 7, last + 8);
	EXPECT_EQ(status([](auto &) {}), SIRDMA_CQP_BAD_ADDRESS) << "a block must be aligned";
	drv_.write_pble(good.first_pble + 7, host_.dma().unmapped_address());
	EXPECT_EQ(status([](auto &) {}), SIRDMA_CQP_BAD_ADDRESS);
	drv_.write_pble(good.first_pble + 7, last);
	// So many blocks that the index of the last one, cut to 32 bits, is that of the first.
	EXPECT_EQ(status([](auto &m) { m.len = (SIRDMA_BIT(32) + 1) << 12; }),
		  SIRDMA_CQP_BAD_ADDRESS);
	// Level 2: a root entry that is no index.
	auto root = [&](u64 entry) {
		u32 at = drv_.alloc_pbles(1);
		drv_.write_pble(at, entry);
		return status([&](auto &m) {
			m.level = 2;
			m.first_pble = at;
		});
	};
	EXPECT_EQ(root(good.first_pble | SIRDMA_BIT(28)), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(root(committed - 3), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(root(SIRDMA_PBLE_INVALID_IDX), SIRDMA_CQP_BAD_ADDRESS);
	// Level 0.
	auto level0 = [&](u64 addr, u64 len) {
		return status([&](auto &m) {
			m.level = 0;
			m.addr = addr;
			m.len = len;
		});
	};
	EXPECT_EQ(level0(flat.blocks()[0] + 512, 4096), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(level0(flat.blocks()[0], (8 << 12) + 1), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(level0(~0ull << 12, 8192), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(level0(flat.blocks()[0], SIRDMA_CQP_STAG_LEN), SIRDMA_CQP_BAD_ADDRESS);
	// None of this left anything behind.
	EXPECT_EQ(drv_.reg_mr(good), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.reg_mr(good), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(try_access(good, good.va, good.len, read_local), SIRDMA_AE_NONE);
}

TEST_F(MrTest, RemoteRightsNeedRemoteAccessEnabled)
{
	UserMemory mem(host_.dma(), 4096);
	MrParams mr{.va = 0, .len = 4096, .access = all_rights};
	sirdma_cqp_stag cmd{};

	drv_.describe(mr, mem, 1);
	cmd.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_LEN, 4096) |
		     SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, 1);
	cmd.stag = mr.stag();
	cmd.first_pble = mr.first_pble;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_REG_MR) | SIRDMA_CQP_STAG_MR |
		  SIRDMA_CQP_STAG_VABASED | SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, 1) |
		  SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, SIRDMA_ACCESS_REMOTE_READ);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
	cmd.hdr = (cmd.hdr & ~SIRDMA_CQP_STAG_HPAGESIZE) |
		  SIRDMA_PREP(SIRDMA_CQP_STAG_HPAGESIZE, 3) | SIRDMA_CQP_STAG_REMACCENABLED;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM) << "page size 3 does not exist";
	EXPECT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
}

TEST_F(MrTest, DeallocNeedsIndexAndKey)
{
	UserMemory mem(host_.dma(), 4096);
	MrParams mr{.va = 0x1000, .len = 4096};

	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.dealloc_stag(mr.stag() ^ 1), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(drv_.dealloc_stag(0x500), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(drv_.dealloc_stag(0xffffff00), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.dealloc_stag(0), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(try_access(mr, mr.va, 1, read_local), SIRDMA_AE_AMP_UNALLOCATED_STAG);
	EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_NO_OBJECT);
}

TEST_F(MrTest, DeallocWaitsForUsersAndNothingTouchesTheMemoryLater)
{
	for (int round = 0; round < 30; round++) {
		auto mem = std::make_unique<UserMemory>(host_.dma(), 64 << 12);
		MrParams mr{.va = 0x40000, .len = 64 << 12};
		std::atomic<bool> stop{false};
		std::atomic<u64> uses{0};
		drv_.describe(mr, *mem, 1);
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
		std::thread user([&] {
			std::mt19937_64 rng(round);
			while (!stop) {
				enum sirdma_ae_code ae;
				u64 va = mr.va + rng() % (mr.len - 64);
				snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), 1, va, 64,
							   read_local, &ae);
				if (!got)
					continue;
				void *p;
				u32 run;
				if (bytes_at(host_.dev(), got, va, 64, &p, &run) == SNIC_MEM_OK)
					memset(p, round, run);
				snic_mr_put(got);
				uses++;
			}
		});
		while (uses < 100)
			std::this_thread::yield();
		EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
		mem.reset(); // a later access would be a use after free, and an unmapped DMA address
		stop = true;
		user.join();
	}
}

TEST_F(MrTest, ReplacedRegionHasTheSameKeyAndNothingElseOfTheFormer)
{
	UserMemory before(host_.dma(), 300 << 12), after(host_.dma(), 5 << 12, 12, true);
	const u8 levels[] = {1, 0, 2, 1};

	before.fill(1);
	after.fill(2);
	for (u8 level : levels) {
		MrParams mr{.va = 0x7000'0000'0100, .len = before.size() - 0x100};
		drv_.describe(mr, before, level ? level : 1);
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);

		MrParams next{.pd = 2,
			      .va = 0x9000'0000'0010,
			      .len = 0x4000,
			      .access = SIRDMA_ACCESS_LOCAL_READ,
			      .replace = true};
		drv_.describe(next, after, level == 2 ? 1 : level);
		ASSERT_EQ(drv_.reg_mr(next), SIRDMA_CQP_OK);
		auto got = read_back(next, next.va, next.len);
		ASSERT_EQ(got.size(), next.len);
		EXPECT_EQ(memcmp(got.data(), after.data() + 0x10, next.len), 0);
		EXPECT_EQ(try_access(mr, mr.va, 1, read_local, 2), SIRDMA_AE_AMP_BOUNDS_VIOLATION);
		EXPECT_EQ(try_access(mr, next.va, 1, read_local, 1), SIRDMA_AE_AMP_BAD_PD);
		EXPECT_EQ(try_access(next, next.va, 1, SIRDMA_ACCESS_LOCAL_WRITE, 2),
			  SIRDMA_AE_AMP_RIGHTS_VIOLATION);
		// Back again, and so to its end.
		mr.replace = true;
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
		EXPECT_EQ(try_access(mr, mr.va, mr.len, read_local), SIRDMA_AE_NONE);
		EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
		EXPECT_EQ(try_access(mr, mr.va, 1, read_local), SIRDMA_AE_AMP_UNALLOCATED_STAG);
	}
}

TEST_F(MrTest, RefusedReplacementChangesNothing)
{
	UserMemory mem(host_.dma(), 8 << 12), other(host_.dma(), 8 << 12);
	MrParams mr{.va = 0x40000, .len = mem.size()};
	const auto refused = [&](u32 status, auto spoil) {
		MrParams next{.va = 0x80000, .len = other.size(), .replace = true};
		drv_.describe(next, other, 1);
		spoil(next);
		EXPECT_EQ(drv_.reg_mr(next), status);
		EXPECT_EQ(try_access(mr, mr.va, mr.len, all_rights), SIRDMA_AE_NONE);
		EXPECT_EQ(read_back(mr, mr.va, 1)[0], mem.data()[0]);
	};

	mem.fill(1);
	other.fill(2);
	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.alloc_mw(20, true), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.alloc_stag(21 << 8), SIRDMA_CQP_OK);
	MrParams all{.idx = 22, .all_memory = true};
	ASSERT_EQ(drv_.reg_mr(all), SIRDMA_CQP_OK);

	refused(SIRDMA_CQP_NO_OBJECT, [](auto &p) { p.key ^= 1; });
	refused(SIRDMA_CQP_NO_OBJECT, [](auto &p) { p.idx = 2; });
	refused(SIRDMA_CQP_NO_OBJECT, [](auto &p) { p.idx = 20; });
	refused(SIRDMA_CQP_BAD_STATE, [](auto &p) { p.idx = 21; });
	refused(SIRDMA_CQP_BAD_STATE, [](auto &p) { p.idx = 22; });
	refused(SIRDMA_CQP_BAD_INDEX, [](auto &p) { p.idx = 0; });
	refused(SIRDMA_CQP_BAD_INDEX, [](auto &p) { p.idx = 1u << 23; });
	refused(SIRDMA_CQP_BAD_INDEX, [](auto &p) { p.pd = 1u << 23; });
	refused(SIRDMA_CQP_BAD_PARAM, [](auto &p) { p.len = 0; });
	refused(SIRDMA_CQP_BAD_PARAM, [](auto &p) { p.is_mr = false; });
	refused(SIRDMA_CQP_BAD_PARAM, [](auto &p) { p.access = SIRDMA_ACCESS_REMOTE_WRITE; });
	refused(SIRDMA_CQP_BAD_PARAM, [](auto &p) { p = {.all_memory = true, .replace = true}; });
	refused(SIRDMA_CQP_BAD_ADDRESS, [](auto &p) { p.first_pble = ~0u >> 4; });
	refused(SIRDMA_CQP_BAD_ADDRESS, [](auto &p) {
		p.level = 0;
		p.addr = 0x1001;
	});
	refused(SIRDMA_CQP_IN_USE, [](auto &p) { p.replace = false; });
	refused(SIRDMA_CQP_NO_MEMORY,
		[&](auto &) { port_alloc_fail = [](size_t) { return true; }; });
	port_alloc_fail = nullptr;
}

// Two pieces of memory take turns behind one key, while others use it. A use by the key is never
// refused, and the memory that was replaced is unmapped when the command has completed.
TEST_F(MrTest, ReplacementIsOneMomentForThoseWhoUseTheRegion)
{
	constexpr size_t bytes = 4 << 12;
	auto mem = std::make_unique<UserMemory>(host_.dma(), bytes);
	MrParams mr{.va = 0x40000, .len = bytes};
	std::atomic<bool> stop{false};
	std::atomic<u64> uses{0};
	std::vector<std::thread> users;

	memset(mem->data(), 0, bytes);
	drv_.describe(mr, *mem, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 2; n++) {
		users.emplace_back([&, n] {
			std::mt19937_64 rng(n);
			while (!stop) {
				enum sirdma_ae_code ae;
				u64 va = mr.va + rng() % (bytes - 64);
				snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), 1, va, 64,
							   read_local, &ae);
				ASSERT_NE(got, nullptr) << "AE 0x" << std::hex << ae;
				void *at;
				u32 run;
				if (bytes_at(host_.dev(), got, va, 64, &at, &run) == SNIC_MEM_OK)
					memset(at, static_cast<int>(n), run);
				else
					ADD_FAILURE() << "no memory";
				snic_mr_put(got);
				uses++;
			}
		});
	}
	mr.replace = true;
	for (int round = 0; round < 300 && !HasFailure(); round++) {
		auto next = std::make_unique<UserMemory>(host_.dma(), bytes);
		MrParams to = mr;

		drv_.describe(to, *next, 1);
		for (u64 before = uses; round % 8 == 0 && uses < before + 10 && !HasFailure();)
			std::this_thread::yield();
		EXPECT_EQ(drv_.reg_mr(to), SIRDMA_CQP_OK);
		mem = std::move(next); // the former one is unmapped
	}
	stop = true;
	for (std::thread &user : users)
		user.join();
	EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
}

TEST_F(MrTest, QueryTellsWhatWasRegistered)
{
	UserMemory mem(host_.dma(), 4 << 21, 21);
	MrParams mr{.va = 0, .len = 4 << 21, .access = all_rights};
	TestCq ccq;
	const auto query = [&](const MrParams &of) -> u64 {
		sirdma_cqp_stag cmd{};

		EXPECT_EQ(drv_.reg_mr(of), SIRDMA_CQP_OK);
		while (ccq.poll())
			;
		cmd.stag = of.stag();
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_QUERY_STAG) |
			  SIRDMA_CQP_STAG_MR;
		EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
		const auto e = ccq.poll();
		EXPECT_TRUE(e);
		return e ? e->cqe.len : 0;
	};
	constexpr u64 kinds = SIRDMA_CQP_STAG_LPBLSIZE | SIRDMA_CQP_STAG_ALL_MEMORY |
			      SIRDMA_CQP_STAG_MAY_FAULT;

	drv_.describe(mr, mem, 1);
	ASSERT_EQ(drv_.create_cq(ccq, 0, 64, SIRDMA_CQP_CQ_IS_CCQ), SIRDMA_CQP_OK);
	const u64 ret = query(mr);
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQP_STAG_LPBLSIZE, ret), 1u);
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQP_STAG_HPAGESIZE, ret), u64{SIRDMA_HPAGE_2M});
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQP_STAG_ARIGHTS, ret), u64{all_rights & 0x1f});
	EXPECT_TRUE(ret & SIRDMA_CQP_STAG_ATOMICS);
	EXPECT_EQ(ret & kinds, SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, 1));

	// Regions of all addresses, each kind of which says so in its own way
	MrParams all{.idx = 2, .access = all_rights, .all_memory = true};
	EXPECT_EQ(query(all) & kinds, u64{SIRDMA_CQP_STAG_ALL_MEMORY});
	all.idx = 3;
	all.may_fault = true;
	EXPECT_EQ(query(all) & kinds, SIRDMA_CQP_STAG_ALL_MEMORY | SIRDMA_CQP_STAG_MAY_FAULT);
	MrParams sparse{.idx = 4, .access = all_rights, .level = SIRDMA_PBL_LEVEL_SPARSE};
	sparse.first_pble = drv_.alloc_pbles(SIRDMA_PBLE_PER_LEAF, SIRDMA_PBLE_PER_LEAF);
	for (u32 i = 0; i < SIRDMA_PBLE_PER_LEAF; i++)
		drv_.write_pble(sparse.first_pble + i, SIRDMA_PBLE_ABSENT);
	EXPECT_EQ(query(sparse) & kinds, u64{SIRDMA_CQP_STAG_LPBLSIZE});
}

// The key of consumers in the kernel: whatever is mapped, by the address the bus gave it.
TEST_F(MrTest, AllMemoryIsAddressedAsTheBusMapsIt)
{
	UserMemory scattered(host_.dma(), 8 << 12), flat(host_.dma(), 8 << 12, 12, true);
	MrParams mr{.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE,
		    .all_memory = true};

	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	scattered.fill(1);
	flat.fill(2);
	for (size_t at = 0; at < scattered.size(); at += 1000) {
		size_t len = std::min<size_t>(4096 - at % 4096, 777);
		auto bytes = scattered.bytes().subspan(at, len);
		EXPECT_EQ(read_back(mr, scattered.pa(at), len),
			  std::vector<u8>(bytes.begin(), bytes.end()));
	}
	EXPECT_EQ(read_back(mr, flat.pa(5), flat.size() - 5),
		  std::vector<u8>(flat.bytes().begin() + 5, flat.bytes().end()));
	// What is mapped later belongs to it as well, up to the end of the address space.
	UserMemory late(host_.dma(), 4096);
	EXPECT_EQ(read_back(mr, late.pa(0), 4096),
		  std::vector<u8>(late.bytes().begin(), late.bytes().end()));
	EXPECT_EQ(try_access(mr, ~0ull - 100, 100, read_local), SIRDMA_AE_NONE);
	EXPECT_EQ(try_access(mr, ~0ull - 100, 102, read_local), SIRDMA_AE_AMP_TO_WRAP);

	// Peers have no right to it unless it was made so, other PDs never.
	EXPECT_EQ(try_access(mr, late.pa(0), 1, SIRDMA_ACCESS_REMOTE_READ),
		  SIRDMA_AE_AMP_RIGHTS_VIOLATION);
	EXPECT_EQ(try_access(mr, late.pa(0), 1, read_local, 2), SIRDMA_AE_AMP_BAD_PD);

	// Where nothing is mapped there is nothing.
	DmaSpace::ExpectFaults faults(host_.dma());
	enum sirdma_ae_code ae;
	u64 nowhere = host_.dma().unmapped_address();
	void *p;
	u32 run;
	snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), 1, nowhere, 8, read_local, &ae);
	ASSERT_NE(got, nullptr);
	EXPECT_EQ(bytes_at(host_.dev(), got, nowhere, 8, &p, &run), SNIC_MEM_FAULT);
	snic_mr_put(got);
}

TEST_F(MrTest, AllMemoryNamesNoPartOfIt)
{
	UserMemory mem(host_.dma(), 4096, 12, true);
	MrParams all{.all_memory = true};
	auto status = [&](auto change) {
		MrParams mr = all;
		change(mr);
		return drv_.reg_mr(mr);
	};

	EXPECT_EQ(status([](auto &m) { m.len = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.va = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([&](auto &m) { m.addr = mem.pa(0); }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.level = 1; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &m) { m.zero_based = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.reg_mr(all), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.dealloc_stag(all.stag()), SIRDMA_CQP_OK);
}

TEST_F(MrTest, AbsentBlocksAreRegisteredAndFoundOnceTheyCome)
{
	UserMemory mem(host_.dma(), 4 << 12);
	MrParams mr{.va = 0x10000, .len = 4 << 12};
	enum sirdma_ae_code ae;
	void *p;
	u32 run;

	drv_.describe(mr, mem, 1);
	for (u32 i = 0; i < 4; i++)
		drv_.write_pble(mr.first_pble + i, SIRDMA_PBLE_ABSENT);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	u64 faults = host_.stat(SIRDMA_STAT_HMC_FAULTS);
	snic_mr *got = snic_mr_get(host_.dev(), mr.stag(), 1, mr.va, mr.len, read_local, &ae);
	ASSERT_NE(got, nullptr);
	EXPECT_EQ(bytes_at(host_.dev(), got, mr.va, 64, &p, &run), SNIC_MEM_ABSENT);
	for (u32 i = 0; i < 4; i++)
		drv_.write_pble(mr.first_pble + i, mem.blocks()[i]);
	EXPECT_EQ(bytes_at(host_.dev(), got, mr.va, 64, &p, &run), SNIC_MEM_OK);
	EXPECT_EQ(p, mem.data());
	snic_mr_put(got);
	EXPECT_EQ(host_.stat(SIRDMA_STAT_HMC_FAULTS), faults);
}
