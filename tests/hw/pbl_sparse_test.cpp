// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Sparse page lists: the driver core adds and removes leaves, and the device finds each block that has one, and no other.
#include "c_api.hpp"
#include "test_host.hpp"

#include <gtest/gtest.h>
#include <map>
#include <random>

extern "C" {
#include "hw/cqp_cmd.h"
#include "hw/hw.h"
#include "hw/pbl_sparse.h"
#include "hw/prq.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 per_leaf = SIRDMA_PBLE_PER_LEAF;
constexpr u64 leaves = 1ull << (SIRDMA_PBL_SPARSE_BITS - 9);
constexpr u32 stag = 0x500, pd = 5;

class SparseList : public testing::Test {
protected:
	SparseList() : mem_(host_.dma(), per_leaf << 12) {}
	void SetUp() override
	{
		sirdma_hw_config cfg{};

		cfg.num_ceqs = 2;
		ASSERT_EQ(sirdma_hw_probe(&hw_, host_.bus(), &cfg, &events_, nullptr), 0);
		before_ = hw_.pble.in_use;
		ASSERT_EQ(sirdma_sparse_alloc(&hw_, &root_), 0);
		const sirdma_cqp_reg_mr_params params{.stag = stag,
						      .pd = pd,
						      .va = 0,
						      .len = 0,
						      .access = SIRDMA_ACCESS_LOCAL_READ,
						      .block_shift = 12,
						      .level = SIRDMA_PBL_LEVEL_SPARSE,
						      .addr = 0,
						      .first_pble = root_};
		ASSERT_EQ(sirdma_cqp_reg_mr(&hw_, &params), 0);
	}
	void TearDown() override
	{
		port_alloc_fail = nullptr;
		EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, stag), 0);
		for (auto &[number, leaf] : leaves_)
			sirdma_pbl_free(&hw_, &leaf);
		sirdma_sparse_free(&hw_, root_);
		EXPECT_EQ(hw_.pble.in_use, before_) << "tables are left";
		sirdma_hw_remove(&hw_);
	}

	int add(u64 number)
	{
		sirdma_pbl leaf;
		u32 n;
		int err = sirdma_pbl_alloc(&hw_, per_leaf, true, &leaf);

		if (err)
			return err;
		for (u32 i = 0; i < per_leaf; i++)
			*sirdma_pbl_entries(&hw_, &leaf, i, &n) =
				mem_.blocks()[(number + i) % per_leaf];
		err = sirdma_sparse_link(&hw_, root_, number * per_leaf, &leaf);
		if (err)
			sirdma_pbl_free(&hw_, &leaf);
		else
			leaves_[number] = leaf;
		return err;
	}
	void remove(u64 number)
	{
		sirdma_sparse_cut cut;

		sirdma_sparse_unlink(&hw_, root_, number * per_leaf, &cut);
		sirdma_pble_sync(&hw_, pd);
		sirdma_sparse_free_cut(&hw_, &cut);
		sirdma_pbl_free(&hw_, &leaves_[number]);
		leaves_.erase(number);
	}
	// What the device finds at page @in of leaf @number
	void expect_found(u64 number, u32 in)
	{
		const u64 va = (number * per_leaf + in) << 12;
		sirdma_ae_code ae;
		void *p = nullptr;
		u32 n;
		snic_mr *mr =
			snic_mr_get(host_.dev(), stag, pd, va, 64, SIRDMA_ACCESS_LOCAL_READ, &ae);

		ASSERT_NE(mr, nullptr);
		const snic_mem found = bytes_at(host_.dev(), mr, va, 64, &p, &n);
		snic_mr_put(mr);
		if (!leaves_.count(number)) {
			ASSERT_EQ(found, SNIC_MEM_ABSENT) << number;
			EXPECT_NE(sirdma_sparse_end(&hw_, root_, va >> 12), nullptr);
			return;
		}
		ASSERT_EQ(found, SNIC_MEM_OK) << number;
		EXPECT_EQ(p, mem_.data() + ((number + in) % per_leaf << 12));
		EXPECT_EQ(sirdma_sparse_end(&hw_, root_, va >> 12), nullptr);
	}

	TestHost host_;
	UserMemory mem_;
	sirdma_hw hw_{};
	sirdma_hw_events events_{};
	u64 before_ = 0;
	u32 root_ = 0;
	std::map<u64, sirdma_pbl> leaves_;
};

TEST_F(SparseList, DeviceFindsTheLeavesThatThereAre)
{
	std::mt19937_64 rng(1);
	// Leaves that share all tables, some and none
	const auto any = [&] { return (rng() % 4) << 18 | (rng() % 3) << 9 | rng() % 5; };

	for (u32 i = 0; i < 1000 && !HasFailure(); i++) {
		const u64 number = any();

		if (leaves_.count(number))
			remove(number);
		else
			ASSERT_EQ(add(number), 0);
		for (u32 n = 0; n < 20; n++)
			expect_found(any(), rng() % per_leaf);
		expect_found(number, rng() % per_leaf);
	}
	EXPECT_EQ(host_.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(SparseList, HasItsFirstAndItsLastBlock)
{
	for (u64 number : {u64{0}, leaves - 1}) {
		expect_found(number, 0);
		ASSERT_EQ(add(number), 0);
		expect_found(number, 0);
		expect_found(number, per_leaf - 1);
	}
	EXPECT_EQ(hw_.pble.in_use, before_ + per_leaf * (1 + 2 * 3));
}

TEST_F(SparseList, TablesGoWithTheirLastLeaf)
{
	const u64 empty = hw_.pble.in_use;

	for (u64 number : {u64{0}, u64{1}, u64{512}, leaves / 2})
		ASSERT_EQ(add(number), 0);
	EXPECT_EQ(hw_.pble.in_use, empty + per_leaf * (4 + 3 + 2));
	remove(1);
	EXPECT_EQ(hw_.pble.in_use, empty + per_leaf * (3 + 3 + 2));
	remove(0);
	EXPECT_EQ(hw_.pble.in_use, empty + per_leaf * (2 + 2 + 2));
	remove(512);
	EXPECT_EQ(hw_.pble.in_use, empty + per_leaf * (1 + 1 + 1));
	remove(leaves / 2);
	EXPECT_EQ(hw_.pble.in_use, empty);
}

TEST_F(SparseList, MarksAreNoTables)
{
	const u64 block = (leaves / 2 + 3) * per_leaf;
	__le64 *end = sirdma_sparse_end(&hw_, root_, block);

	ASSERT_NE(end, nullptr);
	*end = SIRDMA_PBLE_ERROR | SIRDMA_PREP(SIRDMA_PBLE_ERROR_QPN, 0xffffff);
	EXPECT_EQ(sirdma_sparse_end(&hw_, root_, block), end);
	ASSERT_EQ(add(block / per_leaf), 0);
	expect_found(block / per_leaf, 7);
	// A mark is no leaf either, so this table goes.
	*sirdma_sparse_end(&hw_, root_, block + per_leaf) = SIRDMA_PBLE_ERROR;
	remove(block / per_leaf);
	EXPECT_EQ(hw_.pble.in_use, before_ + per_leaf);
}

TEST_F(SparseList, WithoutMemoryHasWhatItHad)
{
	ASSERT_EQ(add(3), 0);
	for (u32 nth = 0; nth < 20; nth++) {
		static u32 left;

		left = nth;
		port_alloc_fail = [](size_t) { return !left--; };
		const int err = add(leaves - 1);
		port_alloc_fail = nullptr;
		expect_found(3, 1);
		expect_found(leaves - 1, 1);
		if (!err)
			remove(leaves - 1);
		else
			EXPECT_EQ(err, -ENOMEM);
	}
}

} // namespace
