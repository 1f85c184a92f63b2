// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Page lists in HMC space, read back the way the device resolves them.
#include "fake_device.hpp"
#include "pbl.hpp"

extern "C" {
#include "hw/pble_chunk.h"
}

namespace sirdma::test
{
namespace
{

constexpr u32 per_chunk = 262144;

u64 block_addr(u64 tag, u32 i)
{
	return (tag << 32) + u64{i} * 4096;
}

class PbleTest : public testing::Test {
protected:
	void start(FakeDevice::Options opts = {}) { host_ = std::make_unique<FakeHost>(opts); }
	sirdma_hw &hw() { return host_->hw; }
	FakeDevice &dev() { return host_->dev; }

	void fill(sirdma_pbl &pbl, u64 tag)
	{
		for (u32 i = 0, n = 0; i < pbl.count; i += n) {
			__le64 *entries = sirdma_pbl_entries(&hw(), &pbl, i, &n);

			ASSERT_NE(entries, nullptr) << i;
			ASSERT_GE(n, 1u);
			ASSERT_LE(n, pbl.count - i);
			for (u32 k = 0; k < n; k++)
				entries[k] = cpu_to_le64(block_addr(tag, i + k));
		}
		expect_walk(pbl, tag, 0);
		expect_walk(pbl, tag, pbl.count / 2);
	}
	// A walk from entry @first on meets each entry once, and ends behind the last.
	void expect_walk(const sirdma_pbl &pbl, u64 tag, u32 first)
	{
		sirdma_pbl_walk walk = {.pbl = &pbl, .next = first, .left = 0, .entry = nullptr};

		for (u32 i = first; i < pbl.count; i++) {
			const __le64 *entry = sirdma_pbl_next(&hw(), &walk);

			ASSERT_NE(entry, nullptr) << i;
			ASSERT_EQ(le64_to_cpu(*entry), block_addr(tag, i)) << i;
			ASSERT_EQ(walk.next, i + 1);
		}
		ASSERT_EQ(sirdma_pbl_next(&hw(), &walk), nullptr);
	}
	// Block @i as the device finds it.
	std::optional<u64> resolve(const sirdma_pbl &pbl, u32 i)
	{
		u32 first = sirdma_pbl_first(&pbl);

		if (pbl.level == 1)
			return dev().pble(first + i);
		auto leaf = dev().pble(first + i / 512);
		if (!leaf || *leaf > SIRDMA_PBLE_LEAF_IDX)
			return std::nullopt;
		return dev().pble(static_cast<u32>(*leaf) + i % 512);
	}
	void expect_resolves(const sirdma_pbl &pbl, u64 tag, u32 step = 1)
	{
		for (u32 i = 0; i < pbl.count; i += step)
			ASSERT_EQ(resolve(pbl, i), block_addr(tag, i)) << i;
		ASSERT_EQ(resolve(pbl, pbl.count - 1), block_addr(tag, pbl.count - 1));
	}
	sirdma_pbl alloc(u32 count, bool level1_only = false)
	{
		sirdma_pbl pbl;

		EXPECT_EQ(sirdma_pbl_alloc(&hw(), count, level1_only, &pbl), 0) << count;
		return pbl;
	}
	// Single entries until nothing is left.
	std::vector<sirdma_pbl> exhaust(u32 count = 512)
	{
		std::vector<sirdma_pbl> all;
		sirdma_pbl pbl;

		while (sirdma_pbl_alloc(&hw(), count, true, &pbl) == 0)
			all.push_back(pbl);
		return all;
	}
	void free_all(std::vector<sirdma_pbl> &all)
	{
		for (auto &pbl : all)
			sirdma_pbl_free(&hw(), &pbl);
		all.clear();
	}

	std::unique_ptr<FakeHost> host_;
};

TEST_F(PbleTest, Level0NeedsNoEntries)
{
	sirdma_pbl pbl;

	start();
	sirdma_pbl_set_contiguous(&pbl, 0x1234000, 77);
	EXPECT_EQ(pbl.level, 0);
	EXPECT_EQ(pbl.addr, 0x1234000u);
	EXPECT_EQ(pbl.count, 77u);
	EXPECT_EQ(sirdma_pbl_first(&pbl), SIRDMA_PBLE_INVALID_IDX);
	pbl_write(hw(), pbl, 0, 1);
	sirdma_pbl_free(&hw(), &pbl);
	EXPECT_EQ(hw().pble.num_chunks, 0u);
}

TEST_F(PbleTest, Level1OfEverySizeResolves)
{
	start();
	std::vector<sirdma_pbl> lists;
	for (u32 count :
	     {1u,   2u,	  3u,	63u,   64u,   65u,     127u,	255u,	 256u,	  257u,
	      511u, 512u, 513u, 1000u, 4097u, 100000u, 131072u, 131073u, 262143u, 262144u}) {
		lists.push_back(alloc(count));
		EXPECT_EQ(lists.back().level, 1);
		fill(lists.back(), lists.size());
	}
	for (size_t i = 0; i < lists.size(); i++)
		expect_resolves(lists[i], i + 1, lists[i].count > 5000 ? 97 : 1);
	u64 sum = 0;
	for (auto &pbl : lists)
		sum += pbl.count;
	EXPECT_EQ(hw().pble.in_use, sum) << "no entry more than there are blocks";
	free_all(lists);
	EXPECT_EQ(hw().pble.in_use, 0u);
}

TEST_F(PbleTest, LongListsAreLevel2)
{
	start();
	for (u32 count : {262145u, 262144u + 512u, 600000u}) {
		auto pbl = alloc(count);
		EXPECT_EQ(pbl.level, 2);
		fill(pbl, 5);
		expect_resolves(pbl, 5, 61);
		u32 leaves = (count + 511) / 512;
		EXPECT_EQ(hw().pble.in_use, count + leaves);
		sirdma_pbl_free(&hw(), &pbl);
		EXPECT_EQ(pbl.level, 0);
		EXPECT_EQ(hw().pble.in_use, 0u);
	}
	EXPECT_EQ(hw().pble.allocs_l2, 3u);
}

TEST_F(PbleTest, FragmentedSpaceGivesLevel2ButRingsStayLevel1)
{
	start({.max_sds = 1, .max_pbles = per_chunk});
	auto all = exhaust();
	ASSERT_EQ(all.size(), 512u);
	// Every second page is free: 131072 entries, no two pages adjacent.
	for (size_t i = 0; i < all.size(); i += 2)
		sirdma_pbl_free(&hw(), &all[i]);

	sirdma_pbl ring;
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 513, true, &ring), -ENOMEM);
	EXPECT_EQ(ring.level, 0) << "nothing to free";

	auto pbl = alloc(100 * 512 + 17);
	EXPECT_EQ(pbl.level, 2);
	fill(pbl, 9);
	expect_resolves(pbl, 9, 7);
	sirdma_pbl_free(&hw(), &pbl);

	u64 before = hw().pble.in_use;
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 256 * 512, false, &pbl), -ENOMEM) << "no room for the "
									       "root";
	EXPECT_EQ(hw().pble.in_use, before);
	free_all(all);
	EXPECT_EQ(hw().pble.in_use, 0u);
}

TEST_F(PbleTest, Level2SurvivesNeighboursComingAndGoing)
{
	start({.max_sds = 2, .max_pbles = 2 * per_chunk});
	auto all = exhaust();
	for (size_t i = 0; i < all.size(); i += 3)
		sirdma_pbl_free(&hw(), &all[i]);
	auto pbl = alloc(30000);
	ASSERT_EQ(pbl.level, 2);
	fill(pbl, 3);
	free_all(all);
	auto other = alloc(1000);
	fill(other, 4);
	expect_resolves(pbl, 3);
	expect_resolves(other, 4);
	sirdma_pbl_free(&hw(), &pbl);
	sirdma_pbl_free(&hw(), &other);
}

TEST_F(PbleTest, ExhaustionIsCountedAndReversible)
{
	start({.max_sds = 4, .max_pbles = 2 * per_chunk + 1000});
	for (int round = 0; round < 3; round++) {
		auto all = exhaust();
		EXPECT_EQ(all.size(), 512u * 2 + 1) << "the last chunk ends at the limit";
		EXPECT_EQ(hw().pble.failures, static_cast<u64>(round + 1));
		auto rest = exhaust(1);
		EXPECT_EQ(rest.size(), 1000u - 512);
		EXPECT_EQ(hw().pble.in_use, 2 * per_chunk + 1000);
		hw().pble.failures--;
		free_all(all);
		free_all(rest);
		EXPECT_EQ(hw().pble.in_use, 0u);
	}
}

TEST_F(PbleTest, ImpossibleCountsAreInvalid)
{
	sirdma_pbl pbl;

	start();
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 0, false, &pbl), -EINVAL);
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), per_chunk + 1, true, &pbl), -EINVAL);
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), SIRDMA_PBL_MAX_BLOCKS + 1, false, &pbl), -EINVAL);
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), SIRDMA_PBL_MAX_BLOCKS, false, &pbl), -ENOMEM);
	EXPECT_EQ(hw().pble.failures, 1u);
	EXPECT_EQ(hw().pble.in_use, 0u);
}

TEST_F(PbleTest, WritesBeyondTheListGoNowhere)
{
	start();
	auto a = alloc(8), b = alloc(8);
	fill(b, 2);
	for (u32 i = 8; i < 40; i++)
		pbl_write(hw(), a, i, ~0ull);
	expect_resolves(b, 2);
	sirdma_pbl_free(&hw(), &a);
	sirdma_pbl_free(&hw(), &b);
}

TEST_F(PbleTest, FirstRegistrationsAreCheap)
{
	start();
	size_t blocks = dev().dma_blocks();
	auto pbl = alloc(1);
	EXPECT_EQ(dev().dma_blocks(), blocks + 2) << "a PD table and one page";
	EXPECT_FALSE(dev().sd_direct(0));
	EXPECT_TRUE(dev().sd_valid(0));
	EXPECT_EQ(hw().hmc.backed_bytes, 4096u);
	auto more = alloc(512);
	EXPECT_EQ(hw().hmc.backed_bytes, 8192u) << "page by page";
	fill(pbl, 1);
	fill(more, 2);
	expect_resolves(pbl, 1);
	expect_resolves(more, 2);
	sirdma_pbl_free(&hw(), &pbl);
	sirdma_pbl_free(&hw(), &more);
}

TEST_F(PbleTest, LaterSegmentsAreDirectOrPagedWhereNoBlockIsLeft)
{
	start();
	auto a = alloc(per_chunk);
	auto b = alloc(per_chunk);
	EXPECT_FALSE(dev().sd_direct(0));
	EXPECT_TRUE(dev().sd_direct(1));
	dev().set_dma_fail([](u64 size) { return size > 4096; });
	auto c = alloc(per_chunk);
	EXPECT_TRUE(dev().sd_valid(2));
	EXPECT_FALSE(dev().sd_direct(2));
	dev().set_dma_fail(nullptr);
	EXPECT_EQ(hw().hmc.direct_sds, 1u);
	EXPECT_EQ(hw().hmc.paged_sds, 2u);
	for (auto *pbl : {&a, &b, &c}) {
		fill(*pbl, 6);
		expect_resolves(*pbl, 6, 511);
		sirdma_pbl_free(&hw(), pbl);
	}
}

TEST_F(PbleTest, ForcedPagingNeverAsksForABlock)
{
	start();
	hw().hmc.force_paged = true;
	std::vector<sirdma_pbl> all;
	for (int i = 0; i < 4; i++)
		all.push_back(alloc(per_chunk));
	EXPECT_EQ(hw().hmc.direct_sds, 0u);
	fill(all[3], 1);
	expect_resolves(all[3], 1, 300);
	free_all(all);
}

TEST_F(PbleTest, OneIdleChunkIsKept)
{
	start();
	std::vector<sirdma_pbl> all;
	for (int i = 0; i < 5; i++)
		all.push_back(alloc(per_chunk));
	EXPECT_EQ(hw().pble.num_chunks, 5u);
	sirdma_pbl_free(&hw(), &all[4]);
	EXPECT_EQ(hw().pble.num_chunks, 5u) << "kept against thrash";
	sirdma_pbl_free(&hw(), &all[2]);
	EXPECT_EQ(hw().pble.num_chunks, 4u);
	EXPECT_TRUE(dev().sd_valid(2));
	EXPECT_FALSE(dev().sd_valid(4));
	// A hole is used again before new space.
	sirdma_pbl_free(&hw(), &all[1]);
	EXPECT_FALSE(dev().sd_valid(2));
	all[1] = alloc(per_chunk);
	all[2] = alloc(per_chunk);
	EXPECT_TRUE(dev().sd_valid(2));
	EXPECT_FALSE(dev().sd_valid(4));
	all.pop_back();
	free_all(all);
	EXPECT_EQ(hw().pble.num_chunks, 1u);
	EXPECT_TRUE(dev().sd_valid(0));
}

TEST_F(PbleTest, PageDescriptorsAreInvalidatedWhenTheyChange)
{
	// The fake device caches descriptors: stale ones would read freed memory and fail.
	start();
	auto a = alloc(512);
	fill(a, 1);
	expect_resolves(a, 1);
	int countdown = 3;
	dev().set_dma_fail([&](u64) { return countdown-- <= 0; });
	sirdma_pbl big;
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 512 * 8, true, &big), -ENOMEM);
	dev().set_dma_fail(nullptr);
	EXPECT_EQ(hw().hmc.backed_bytes, 4096u) << "pages added go again";
	big = alloc(512 * 8);
	fill(big, 2);
	expect_resolves(big, 2);
	expect_resolves(a, 1);
	sirdma_pbl_free(&hw(), &a);
	sirdma_pbl_free(&hw(), &big);
}

TEST_F(PbleTest, EveryFailingAllocationUnwinds)
{
	static int countdown;
	auto fail = [](size_t) { return countdown-- == 0; };

	for (u32 count : {1u, 600u, 262144u, 300000u}) {
		for (bool dma : {false, true}) {
			int needed = 0;
			for (bool failed = true; failed; needed++) {
				ASSERT_LT(needed, 3000);
				start();
				auto keep = alloc(3);
				fill(keep, 8);
				// Failures in the middle of hundreds of pages are all alike.
				if (needed > 12)
					needed += 101;
				countdown = needed;
				if (dma)
					dev().set_dma_fail(fail);
				else
					port_alloc_fail = fail;
				sirdma_pbl pbl;
				int err = sirdma_pbl_try_alloc(&hw(), count, false, &pbl);
				failed = countdown < 0;
				port_alloc_fail = nullptr;
				dev().set_dma_fail(nullptr);
				if (err) {
					EXPECT_EQ(err, -ENOMEM);
					EXPECT_EQ(hw().pble.in_use, 3u);
					// One idle chunk may stay, and pages of runs that were taken back.
					EXPECT_LE(hw().pble.num_chunks, 2u);
					EXPECT_LE(hw().hmc.backed_bytes, 4u << 20);
					pbl = alloc(count);
				}
				fill(pbl, 1);
				expect_resolves(pbl, 1, 89);
				expect_resolves(keep, 8);
				sirdma_pbl_free(&hw(), &pbl);
				sirdma_pbl_free(&hw(), &keep);
			}
		}
	}
}

// Memory is reclaimed between tries, while no other allocation waits, and not for a device whose lists are all in use.
TEST_F(PbleTest, WaitsForMemoryWithoutTheLock)
{
	static u32 failures, reclaimed;
	static struct port_mutex *lock;
	sirdma_pbl pbl;

	start();
	lock = &hw().pble.lock;
	port_alloc_fail = [](size_t size) {
		if (size != PORT_RECLAIM)
			return failures && failures--;
		reclaimed++;
		EXPECT_TRUE(port_mutex_trylock(lock));
		port_mutex_unlock(lock);
		return false;
	};
	for (u32 n : {0u, 1u, 2u}) {
		failures = n;
		reclaimed = 0;
		EXPECT_EQ(sirdma_pbl_alloc(&hw(), 300000, false, &pbl), 0);
		EXPECT_EQ(reclaimed, n);
		sirdma_pbl_free(&hw(), &pbl);
	}
	EXPECT_EQ(hw().pble.failures, 0u);
	failures = 1000;
	reclaimed = 0;
	EXPECT_EQ(sirdma_pbl_try_alloc(&hw(), 300000, false, &pbl), -ENOMEM);
	EXPECT_EQ(reclaimed, 0u);
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 300000, false, &pbl), -ENOMEM);
	EXPECT_EQ(reclaimed, 2u);
	EXPECT_EQ(hw().pble.failures, 2u);
	failures = 0;
	reclaimed = 0;
	while (!sirdma_pbl_alloc(&hw(), per_chunk, true, &pbl))
		;
	EXPECT_EQ(reclaimed, 0u);
	port_alloc_fail = nullptr;
}

TEST_F(PbleTest, DeviceThatRefusesASegmentLeavesNothing)
{
	start();
	dev().set_script([](auto &cmd) -> std::optional<FakeDevice::Reply> {
		if (cmd.op == SIRDMA_CQP_UPDATE_SDS)
			return FakeDevice::Reply{.status = 0xffff0000 | SIRDMA_CQP_NO_MEMORY};
		return std::nullopt;
	});
	sirdma_pbl pbl;
	EXPECT_EQ(sirdma_pbl_alloc(&hw(), 10, false, &pbl), -ENOMEM);
	EXPECT_EQ(hw().pble.num_chunks, 0u);
	EXPECT_EQ(hw().hmc.backed_bytes, 0u);
	dev().set_script(nullptr);
	pbl = alloc(10);
	sirdma_pbl_free(&hw(), &pbl);
}

TEST_F(PbleTest, DeviceThatKeepsASegmentKeepsItsMemory)
{
	start();
	auto a = alloc(per_chunk), b = alloc(per_chunk);
	dev().set_script([](auto &cmd) -> std::optional<FakeDevice::Reply> {
		if (cmd.op == SIRDMA_CQP_UPDATE_SDS)
			return FakeDevice::Reply{.status = 0xffff0000 | SIRDMA_CQP_IN_USE};
		return std::nullopt;
	});
	sirdma_pbl_free(&hw(), &a);
	sirdma_pbl_free(&hw(), &b);
	EXPECT_EQ(hw().pble.num_chunks, 2u);
	EXPECT_TRUE(dev().sd_valid(1));
	b = alloc(per_chunk);
	fill(b, 2);
	expect_resolves(b, 2, 1000);
	sirdma_pbl_free(&hw(), &b);
	// And removal frees it all, after the reset.
}

TEST_F(PbleTest, MemoryStaysWithinTheRule)
{
	static u64 bytes;
	constexpr u32 regs = 20000;

	start();
	auto warm = alloc(1);
	bytes = 0;
	port_alloc_fail = [](size_t size) {
		bytes += size;
		return false;
	};
	u64 backed = hw().hmc.backed_bytes;
	std::vector<sirdma_pbl> all;
	for (u32 i = 0; i < regs; i++)
		all.push_back(alloc(1 + i % 9));
	port_alloc_fail = nullptr;
	u64 blocks = hw().pble.in_use;
	u64 cost = bytes + hw().hmc.backed_bytes - backed;
	EXPECT_LT(cost, blocks * 8 + regs * (512 - sizeof(sirdma_pbl)));
	EXPECT_LT(cost, blocks * 8 + regs * 8) << "little beyond the entries themselves";
	free_all(all);
	sirdma_pbl_free(&hw(), &warm);
}

// Each entry has one owner at a time, whatever threads do.
TEST_F(PbleTest, ConcurrentListsNeverOverlap)
{
	start({.max_sds = 3, .max_pbles = 3 * per_chunk});
	std::vector<std::atomic<u32>> owner(3 * per_chunk);
	std::vector<std::thread> threads;
	std::atomic<u64> level2{0}, failures{0};

	auto claim = [&](const sirdma_pbl &pbl, u32 from, u32 to) {
		auto run = [&](const sirdma_pble_run &r) {
			for (u32 i = 0; i < r.count; i++)
				ASSERT_EQ(owner[r.first + i].exchange(to), from);
		};
		run({.first = pbl.first,
		     .count = pbl.level == 1 ?
				      pbl.count :
				      (pbl.count + SIRDMA_PBLE_PER_LEAF - 1) / SIRDMA_PBLE_PER_LEAF,
		     .start = 0});
		for (u32 r = 0; r < pbl.num_runs; r++)
			run(pbl.runs[r]);
	};
	for (u32 t = 1; t <= 4; t++) {
		threads.emplace_back([&, t] {
			std::mt19937 rng(t);
			std::vector<std::pair<sirdma_pbl, u64>> mine;
			for (int i = 0; i < 600; i++) {
				if (mine.size() > 20 || (!mine.empty() && rng() % 3 == 0)) {
					size_t k = rng() % mine.size();
					auto &[pbl, tag] = mine[k];
					expect_resolves(pbl, tag, 1 + rng() % 200);
					claim(pbl, t, 0);
					sirdma_pbl_free(&hw(), &pbl);
					mine.erase(mine.begin() + static_cast<long>(k));
					continue;
				}
				u32 count = rng() % 4 == 0 ? 1 + rng() % 50000 :
					    rng() % 3 == 0 ? 1 + rng() % 3000 :
							     1 + rng() % 20;
				sirdma_pbl pbl;
				if (sirdma_pbl_alloc(&hw(), count, rng() % 4 == 0, &pbl)) {
					failures++;
					continue;
				}
				level2 += pbl.level == 2;
				claim(pbl, 0, t);
				u64 tag = (u64{t} << 20) + static_cast<u64>(i);
				fill(pbl, tag);
				mine.emplace_back(pbl, tag);
			}
			for (auto &[pbl, tag] : mine) {
				expect_resolves(pbl, tag, 50);
				claim(pbl, t, 0);
				sirdma_pbl_free(&hw(), &pbl);
			}
		});
	}
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(hw().pble.in_use, 0u);
	EXPECT_EQ(hw().pble.num_chunks, 1u);
	EXPECT_EQ(hw().pble.failures, failures);
}

// The chunk against a plain bitmap.
TEST(PbleChunk, AgreesWithABitmap)
{
	for (u32 limit : {per_chunk, 1u, 511u, 512u, 513u, 100001u}) {
		std::mt19937 rng(limit);
		auto *chunk = sirdma_pble_chunk_create(limit);
		std::vector<bool> taken(per_chunk);
		std::vector<std::pair<u32, u32>> runs;
		u32 used = 0;

		ASSERT_NE(chunk, nullptr);
		for (u32 i = limit; i < per_chunk; i++)
			taken[i] = true;
		auto has_run = [&](u32 order) {
			for (u32 at = 0; at < per_chunk; at += 1u << order) {
				u32 i = 0;
				while (i < 1u << order && !taken[at + i])
					i++;
				if (i == 1u << order)
					return std::optional(at);
			}
			return std::optional<u32>();
		};
		for (int step = 0; step < 3000; step++) {
			if (rng() % 5 < 2 && !runs.empty()) {
				size_t k = rng() % runs.size();
				auto [first, count] = runs[k];
				sirdma_pble_chunk_give(chunk, first, count);
				for (u32 i = 0; i < count; i++)
					taken[first + i] = false;
				used -= count;
				runs[k] = runs.back();
				runs.pop_back();
				continue;
			}
			u32 order = rng() % (rng() % 8 == 0 ? 19 : 12), first;
			bool found = sirdma_pble_chunk_find(chunk, order, &first);
			if (step % 16 == 0 || !found) {
				ASSERT_EQ(found ? std::optional(first) : std::nullopt,
					  has_run(order));
			}
			if (!found)
				continue;
			u32 count = order ? (1u << (order - 1)) + 1 + rng() % (1u << (order - 1)) :
					    1;
			ASSERT_EQ(sirdma_pble_order(count), order);
			ASSERT_EQ(sirdma_pble_chunk_take(chunk, first, count), 0);
			for (u32 i = 0; i < count; i++) {
				ASSERT_FALSE(taken[first + i]);
				taken[first + i] = true;
			}
			used += count;
			runs.emplace_back(first, count);
			ASSERT_EQ(chunk->used, used);
		}
		for (auto [first, count] : runs)
			sirdma_pble_chunk_give(chunk, first, count);
		EXPECT_EQ(chunk->used, 0u);
		u32 maps = 0;
		for (auto *map : chunk->maps)
			maps += map != nullptr;
		EXPECT_LE(maps, 1u) << "only the page where the limit falls";
		sirdma_pble_chunk_destroy(chunk);
	}
}

} // namespace
} // namespace sirdma::test
