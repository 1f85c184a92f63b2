// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Host memory cache: direct and paged segments, invalidation, faults.
#include "mini_driver.hpp"

using namespace sirdma::test;

namespace
{

constexpr u32 per_sd = SIRDMA_HMC_SD_SIZE / SIRDMA_PBLE_SIZE;
constexpr u32 per_page = SIRDMA_PBLE_PER_PAGE;

class HmcTest : public ::testing::Test {
protected:
	HmcTest() : drv_(host_) {}
	void SetUp() override { drv_.bring_up(0); }

	std::optional<u64> read(u32 idx)
	{
		u64 val = 0, faults = host_.stat(SIRDMA_STAT_HMC_FAULTS);
		bool ok = snic_pble_read(host_.dev(), idx, &val);

		EXPECT_EQ(host_.stat(SIRDMA_STAT_HMC_FAULTS), faults + !ok);
		return ok ? std::optional(val) : std::nullopt;
	}

	// A paged segment: its table, and pages filled with a pattern.
	struct Paged {
		sirdma_dma_mem table;
		std::map<u32, sirdma_dma_mem> pages;
	};
	Paged make_paged(u32 sd)
	{
		Paged p{host_.alloc(4096), {}};

		EXPECT_EQ(drv_.update_sd(sd, p.table.pa | SIRDMA_SDDATA_VALID), SIRDMA_CQP_OK);
		return p;
	}
	void back(Paged &p, u32 pd, u64 pattern)
	{
		auto page = host_.alloc(4096);
		auto *words = static_cast<__le64 *>(page.va);

		for (u32 i = 0; i < per_page; i++)
			words[i] = pattern + i;
		static_cast<__le64 *>(p.table.va)[pd] = page.pa | SIRDMA_PD_VALID;
		p.pages[pd] = page;
	}
	void invalidate(u32 sd, u32 pd)
	{
		host_.write32(SIRDMA_REG_PMPDINV,
			      static_cast<u32>(SIRDMA_PREP(SIRDMA_PMPDINV_SDIDX, sd) |
					       SIRDMA_PREP(SIRDMA_PMPDINV_PDIDX, pd)));
	}

	TestHost host_;
	MiniDriver drv_;
};

} // namespace

TEST_F(HmcTest, NothingResolvesBeforeCommitAndBacking)
{
	EXPECT_FALSE(read(0));
	ASSERT_EQ(drv_.commit_pbles(0, 10), SIRDMA_CQP_OK);
	EXPECT_FALSE(read(0)) << "committed, but without a segment";
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	ASSERT_EQ(drv_.update_sd(0, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	EXPECT_TRUE(read(9));
	EXPECT_FALSE(read(10)) << "beyond the committed count";
	EXPECT_FALSE(read(~0u));
}

TEST_F(HmcTest, DirectAndPagedSegmentsReadTheirMemory)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	auto *words = static_cast<__le64 *>(mem.va);

	for (u32 i = 0; i < per_sd; i++)
		words[i] = 0xd000'0000'0000 + i;
	ASSERT_EQ(drv_.update_sd(5, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	auto paged = make_paged(6);
	back(paged, 0, 0xa000);
	back(paged, 511, 0xb000);
	// PBLE 0 half-way through segment 5: the base need not be a segment.
	constexpr u32 skip = SIRDMA_HMC_SD_SIZE / 2;
	sirdma_cqp_buf cmd{};
	auto buf = host_.alloc(4096);
	auto *commit = static_cast<sirdma_fpm_commit *>(buf.va);
	commit->obj[SIRDMA_HMC_OBJ_PBLE].base =
		(5 * SIRDMA_HMC_SD_SIZE + skip) / SIRDMA_HMC_FPM_UNIT;
	commit->obj[SIRDMA_HMC_OBJ_PBLE].count = per_sd + per_sd / 2;
	cmd.addr = buf.pa;
	cmd.len = sizeof(*commit);
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_COMMIT_FPM);
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);

	EXPECT_EQ(read(0), 0xd000'0000'0000 + per_sd / 2);
	EXPECT_EQ(read(per_sd / 2 - 1), 0xd000'0000'0000 + per_sd - 1);
	EXPECT_EQ(read(per_sd / 2), 0xa000u);
	EXPECT_EQ(read(per_sd / 2 + 511), 0xa000u + 511);
	EXPECT_FALSE(read(per_sd / 2 + 512)) << "page 1 has no descriptor";
	EXPECT_EQ(read(per_sd / 2 + per_sd - 1), 0xb000u + 511);
}

// As many as lie in one page, of direct and of paged segments.
TEST_F(HmcTest, RunsOfPblesEndWithTheirPage)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	auto paged = make_paged(1);

	memset(mem.va, 0, SIRDMA_HMC_SD_SIZE);
	ASSERT_EQ(drv_.update_sd(0, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	back(paged, 0, 0xa000);
	ASSERT_EQ(drv_.commit_pbles(0, per_sd + 2 * per_page), SIRDMA_CQP_OK);

	// How many there are of `count` from `idx` on, and the first one; nothing: a fault.
	const auto run = [&](u32 idx, u32 count) -> std::optional<std::pair<u32, u64>> {
		const u64 faults = host_.stat(SIRDMA_STAT_HMC_FAULTS);

		port_rcu_read_lock();
		const __le64 *first = snic_pbles_at(host_.dev(), idx, &count);
		port_rcu_read_unlock();
		EXPECT_EQ(host_.stat(SIRDMA_STAT_HMC_FAULTS), faults + !first);
		return first ? std::optional(std::pair(count, u64{*first})) : std::nullopt;
	};
	EXPECT_EQ(run(0, 1), std::pair(1u, u64{0}));
	EXPECT_EQ(run(0, 2000), std::pair(per_page, u64{0}));
	EXPECT_EQ(run(per_page - 3, 7), std::pair(3u, u64{0}));
	EXPECT_EQ(run(per_sd - 1, 2), std::pair(1u, u64{0}));
	EXPECT_EQ(run(per_sd + 2, 5), std::pair(5u, u64{0xa002}));
	EXPECT_EQ(run(per_sd + 2, 2 * per_page - 2), std::pair(per_page - 2, u64{0xa002}));
	EXPECT_FALSE(run(per_sd + per_page, 1)) << "this page has no descriptor";
	EXPECT_FALSE(run(per_sd + 2, 2 * per_page - 1)) << "more than are committed";
	EXPECT_FALSE(run(per_sd + 2 * per_page, 1));
	EXPECT_FALSE(run(~0u, ~0u));
}

TEST_F(HmcTest, PageDescriptorsAreCachedUntilInvalidated)
{
	auto paged = make_paged(0);

	ASSERT_EQ(drv_.commit_pbles(0, per_sd), SIRDMA_CQP_OK);
	EXPECT_FALSE(read(3 * per_page));
	back(paged, 3, 0x100);
	EXPECT_EQ(read(3 * per_page), 0x100u) << "an invalid descriptor is not cached";
	auto old = paged.pages[3];
	back(paged, 3, 0x200);
	EXPECT_EQ(read(3 * per_page), 0x100u) << "the old page, as silicon would";
	invalidate(0, 3);
	host_.free(old);
	EXPECT_EQ(read(3 * per_page), 0x200u);
	static_cast<__le64 *>(paged.table.va)[3] = 0;
	invalidate(0, 3);
	EXPECT_FALSE(read(3 * per_page));
}

TEST_F(HmcTest, InvalidationOfNothingIsHarmless)
{
	ASSERT_EQ(drv_.commit_pbles(0, per_sd), SIRDMA_CQP_OK);
	for (u32 val : {0u, ~0u, 0xfffu, 63u << 16, 0x1ff0fffu})
		host_.write32(SIRDMA_REG_PMPDINV, val);
}

TEST_F(HmcTest, WithdrawnSegmentIsNotTouchedAgain)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	auto paged = make_paged(1);

	back(paged, 0, 1);
	ASSERT_EQ(drv_.update_sd(0, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.commit_pbles(0, 2 * per_sd), SIRDMA_CQP_OK);
	EXPECT_TRUE(read(7));
	EXPECT_TRUE(read(per_sd));
	EXPECT_EQ(drv_.update_sd(0, 0, false), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.update_sd(1, 0, false), SIRDMA_CQP_OK);
	host_.free(mem);
	host_.free(paged.table);
	host_.free(paged.pages[0]);
	EXPECT_FALSE(read(7));
	EXPECT_FALSE(read(per_sd));
}

TEST_F(HmcTest, UpdateRefusesBadEntriesAndAppliesAllOrNone)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE), buf = host_.alloc(4096);
	auto *more = static_cast<sirdma_sd_entry *>(buf.va);
	const u64 valid = SIRDMA_SDCMD_VALID | SIRDMA_SDCMD_WR;
	const u64 data = mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT;
	sirdma_cqp_sds cmd{};
	DmaSpace::ExpectFaults faults(host_.dma());

	ASSERT_EQ(drv_.commit_pbles(0, 3 * per_sd), SIRDMA_CQP_OK);
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_UPDATE_SDS);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM) << "no entry at all";
	cmd.cmd0 = valid;
	cmd.data0 = data;
	cmd.cmd1 = valid | 64; // beyond max_sds
	cmd.data1 = data;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_INDEX);
	EXPECT_FALSE(read(0)) << "the first entry must not have been applied";
	cmd.cmd1 = (valid | 1) & ~SIRDMA_SDCMD_WR;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
	cmd.cmd1 = valid | 1;
	cmd.data1 = host_.dma().unmapped_address() | SIRDMA_SDDATA_VALID;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS) << "PD table";
	cmd.data1 |= SIRDMA_SDDATA_DIRECT;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS) << "block";
	EXPECT_FALSE(read(0));
	cmd.data1 = data;
	cmd.buf = buf.pa;
	cmd.hdr |= SIRDMA_PREP(SIRDMA_CQP_SDS_BUF_COUNT, 9);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM) << "more than 8 in the buffer";
	cmd.hdr &= ~SIRDMA_CQP_SDS_BUF_COUNT;
	cmd.hdr |= SIRDMA_PREP(SIRDMA_CQP_SDS_BUF_COUNT, 1);
	more[0].cmd = valid | 2;
	more[0].data = data;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	EXPECT_TRUE(read(0) && read(per_sd) && read(2 * per_sd));
	cmd.buf = host_.dma().unmapped_address();
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS);
}

TEST_F(HmcTest, CommitIsCheckedAndFixedOnceObjectsUseIt)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	UserMemory user(host_.dma(), 4096);
	MrParams mr{.va = 0, .len = 4096, .level = 1};

	EXPECT_EQ(drv_.commit_pbles(0, 64 * per_sd), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.commit_pbles(1, 64 * per_sd), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.commit_pbles(65, 0), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.commit_pbles(0, ~0u), SIRDMA_CQP_BAD_PARAM);
	ASSERT_EQ(drv_.update_sd(0, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	*static_cast<__le64 *>(mem.va) = user.blocks()[0];
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.commit_pbles(1, per_sd), SIRDMA_CQP_BAD_STATE);
	EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.commit_pbles(1, per_sd), SIRDMA_CQP_OK);
}

TEST_F(HmcTest, ResetForgetsEverySegment)
{
	auto mem = host_.alloc(SIRDMA_HMC_SD_SIZE);
	auto paged = make_paged(1);

	back(paged, 0, 1);
	ASSERT_EQ(drv_.update_sd(0, mem.pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
		  SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.commit_pbles(0, 2 * per_sd), SIRDMA_CQP_OK);
	EXPECT_TRUE(read(0) && read(per_sd));
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(host_.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
	host_.free(mem);
	host_.free(paged.pages[0]);
	EXPECT_FALSE(read(0));
	drv_.bring_up(0);
	ASSERT_EQ(drv_.commit_pbles(0, 2 * per_sd), SIRDMA_CQP_OK);
	EXPECT_FALSE(read(0));
	EXPECT_FALSE(read(per_sd));
}

TEST_F(HmcTest, ReadersSeeOldOrNewPageWhileDescriptorsChange)
{
	auto paged = make_paged(0);
	std::atomic<bool> stop{false};
	std::atomic<u64> reads{0};

	ASSERT_EQ(drv_.commit_pbles(0, per_sd), SIRDMA_CQP_OK);
	back(paged, 0, 0);
	// Reads PBLE 0 only while nobody changes page 0: page 1 is the one that comes and goes.
	std::thread reader([&] {
		while (!stop) {
			u64 val = 0;
			snic_pble_read(host_.dev(), 0, &val);
			EXPECT_EQ(val, 0u);
			reads++;
		}
	});
	for (u32 i = 1; i < 200; i++) {
		back(paged, 1, i * 1000);
		EXPECT_EQ(read(per_page), i * 1000);
		static_cast<__le64 *>(paged.table.va)[1] = 0;
		invalidate(0, 1);
		host_.free(paged.pages[1]);
	}
	while (reads < 1000)
		std::this_thread::yield();
	stop = true;
	reader.join();
}
