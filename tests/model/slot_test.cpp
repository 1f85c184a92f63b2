// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// States of a region's slot: what commands and the data path may do in each, and that the
// end of a region waits for its users without anybody waiting for it.
#include "mini_driver.hpp"

extern "C" {
#include "model/slot.h"
}

using namespace sirdma::test;

namespace
{

constexpr u8 read_local = SIRDMA_ACCESS_LOCAL_READ;

// Counts how often it was told of an end.
struct End : snic_slot_callback {
	End()
		: snic_slot_callback{[](snic_slot_callback *end) {
					     static_cast<End *>(end)->times++;
				     },
				     nullptr}
	{
	}
	std::atomic<int> times{0};
};

class SlotTest : public ::testing::Test {
protected:
	SlotTest() : drv_(host_), mem_(host_.dma(), 8 << 12)
	{
		mr_.va = 0x10000;
		mr_.len = mem_.size();
	}
	void SetUp() override
	{
		drv_.bring_up(8);
		drv_.describe(mr_, mem_, 1);
	}

	u32 alloc_stag(u32 stag)
	{
		sirdma_cqp_stag cmd{};

		cmd.stag = stag;
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_ALLOC_STAG) |
			  SIRDMA_CQP_STAG_MR;
		return drv_.exec(cmd);
	}
	u32 query(u32 stag)
	{
		sirdma_cqp_stag cmd{};

		cmd.stag = stag;
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_QUERY_STAG) |
			  SIRDMA_CQP_STAG_MR;
		return drv_.exec(cmd);
	}
	// Referenced, or null with the violation.
	snic_mr *use(u32 stag)
	{
		return snic_mr_get(host_.dev(), stag, 1, mr_.va, 64, read_local, &ae_);
	}
	enum sirdma_ae_code violation(u32 stag)
	{
		if (snic_mr *mr = use(stag)) {
			snic_mr_put(mr);
			return SIRDMA_AE_NONE;
		}
		return ae_;
	}
	// As a data path does: with a reference of its own while it ends the region.
	bool invalidate(u32 stag, snic_slot_callback *end = nullptr)
	{
		snic_mr *mr = use(stag);
		bool ended = mr && snic_slot_invalidate(&mr->slot, end);

		if (mr)
			snic_mr_put(mr);
		return ended;
	}

	TestHost host_;
	MiniDriver drv_;
	UserMemory mem_;
	MrParams mr_;
	enum sirdma_ae_code ae_ = SIRDMA_AE_NONE;
};

} // namespace

TEST_F(SlotTest, AllocatedSlotServesNobodyUntilItIsRegistered)
{
	u32 stag = mr_.stag();

	EXPECT_EQ(alloc_stag(0x5a), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(alloc_stag(4096 << 8), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(violation(stag), SIRDMA_AE_AMP_UNALLOCATED_STAG);
	ASSERT_EQ(alloc_stag(stag), SIRDMA_CQP_OK);
	EXPECT_EQ(alloc_stag(stag), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(violation(stag), SIRDMA_AE_AMP_INVALID_STAG);
	EXPECT_EQ(query(stag), SIRDMA_CQP_BAD_STATE);
	EXPECT_FALSE(invalidate(stag));

	ASSERT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(alloc_stag(stag), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(violation(stag), SIRDMA_AE_NONE);
	EXPECT_EQ(query(stag), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.dealloc_stag(stag), SIRDMA_CQP_OK);
	EXPECT_EQ(violation(stag), SIRDMA_AE_AMP_UNALLOCATED_STAG);
}

TEST_F(SlotTest, SlotThatWasNeverRegisteredIsFreed)
{
	ASSERT_EQ(alloc_stag(mr_.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.dealloc_stag(mr_.stag() + 0x100), SIRDMA_CQP_NO_OBJECT);
	/* Its key changes by work requests, so the driver names it by its index. */
	EXPECT_EQ(drv_.dealloc_stag(mr_.stag() ^ 1), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.dealloc_stag(mr_.stag()), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(host_.dev()->mrs.count, 0u);
}

TEST_F(SlotTest, RefusedRegistrationLeavesTheSlotAsItWas)
{
	MrParams bad = mr_;

	bad.access = SIRDMA_ACCESS_REMOTE_WRITE;
	EXPECT_EQ(drv_.reg_mr(bad), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(host_.dev()->mrs.count, 0u);
	ASSERT_EQ(alloc_stag(mr_.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.reg_mr(bad), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(violation(mr_.stag()), SIRDMA_AE_AMP_INVALID_STAG);
	EXPECT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
}

TEST_F(SlotTest, InvalidationEndsItAtOnceAndTellsWhenTheLastUserLeft)
{
	End end, unused;

	ASSERT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
	snic_mr *first = use(mr_.stag()), *second = use(mr_.stag());
	ASSERT_TRUE(first && second);
	EXPECT_TRUE(invalidate(mr_.stag(), &end));
	EXPECT_EQ(violation(mr_.stag()), SIRDMA_AE_AMP_INVALID_STAG);
	EXPECT_FALSE(snic_slot_invalidate(&first->slot, &unused)) << "it ends already";
	EXPECT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_IN_USE);

	// Whoever has it may finish.
	void *p;
	u32 run;
	EXPECT_EQ(bytes_at(host_.dev(), first, mr_.va, 64, &p, &run), SNIC_MEM_OK);
	snic_mr_put(first);
	EXPECT_EQ(end.times, 0);
	snic_mr_put(second);
	EXPECT_EQ(end.times, 1);
	EXPECT_EQ(unused.times, 0);

	// Free again, for another region with another key.
	mr_.key++;
	mr_.va += 1 << 20;
	ASSERT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
	EXPECT_EQ(violation(mr_.stag()), SIRDMA_AE_NONE);
	EXPECT_EQ(violation(mr_.stag() - 1), SIRDMA_AE_AMP_BAD_STAG_KEY);
	EXPECT_TRUE(invalidate(mr_.stag()));
	EXPECT_EQ(drv_.dealloc_stag(mr_.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(end.times, 1);
}

TEST_F(SlotTest, DeallocationWaitsForAnInvalidationUnderWay)
{
	End end;

	ASSERT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
	snic_mr *user = use(mr_.stag());
	ASSERT_TRUE(invalidate(mr_.stag(), &end));
	std::atomic<bool> freed{false};
	std::thread remover([&] {
		EXPECT_EQ(drv_.dealloc_stag(mr_.stag()), SIRDMA_CQP_OK);
		freed = true;
	});
	while (snic_slot_state(&user->slot) != SNIC_SLOT_REMOVED)
		std::this_thread::yield();
	EXPECT_FALSE(freed);
	EXPECT_EQ(end.times, 0);
	snic_mr_put(user);
	remover.join();
	EXPECT_EQ(end.times, 1);
	EXPECT_EQ(host_.dev()->mrs.count, 0u);
}

// Many look-ups of a key that ended do not keep its last user's leaving from being noticed.
TEST_F(SlotTest, LookUpsDoNotProlongAnEnd)
{
	ASSERT_EQ(drv_.reg_mr(mr_), SIRDMA_CQP_OK);
	snic_mr *user = use(mr_.stag());
	ASSERT_NE(user, nullptr);
	const auto refs = [&] { return __atomic_load_n(&user->slot.obj.refs.n, __ATOMIC_RELAXED); };
	ASSERT_TRUE(invalidate(mr_.stag()));
	ASSERT_EQ(refs(), 1u);
	EXPECT_EQ(snic_slot_get(&host_.dev()->mrs, mr_.idx), nullptr);
	EXPECT_EQ(refs(), 1u);
	snic_mr_put(user);
}

// Users, somebody who ends the region and registers it anew, and the memory of each
// registration unmapped as soon as its end is told: no user may find it gone.
TEST_F(SlotTest, UsersNeverMeetTheMemoryOfAnEndedRegistration)
{
	constexpr int rounds = 300;
	std::atomic<bool> stop{false};
	std::atomic<u64> uses{0};
	std::vector<std::thread> users;
	const u32 idx = mr_.idx;

	ASSERT_EQ(alloc_stag(mr_.stag()), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 2; n++) {
		users.emplace_back([&, n] {
			std::mt19937_64 rng(n);
			while (!stop) {
				enum sirdma_ae_code ae;
				u32 stag = idx << 8 | (rng() & 3), run = 1;
				snic_mr *mr = snic_mr_get(host_.dev(), stag, 1, 0x10000, 4096,
							  read_local, &ae);
				if (!mr)
					continue;
				void *at = nullptr;
				EXPECT_EQ(bytes_at(host_.dev(), mr, 0x10000, 4096, &at, &run),
					  SNIC_MEM_OK);
				auto *p = static_cast<u8 *>(at);
				// Every registration's bytes are its key.
				EXPECT_TRUE(p[0] == (stag & 3) && p[run - 1] == (stag & 3));
				snic_mr_put(mr);
				uses++;
			}
		});
	}
	for (int round = 0; round < rounds; round++) {
		auto mem = std::make_unique<UserMemory>(host_.dma(), 4096);
		MrParams mr{
			.idx = idx, .key = static_cast<u8>(round & 3), .va = 0x10000, .len = 4096};
		End end;

		memset(mem->data(), round & 3, 4096);
		mr.addr = mem->blocks()[0];
		ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
		for (u64 before = uses; round % 8 == 0 && uses == before;)
			std::this_thread::yield();
		ASSERT_TRUE(invalidate(mr.stag(), &end));
		while (!end.times)
			std::this_thread::yield();
		mem.reset();
	}
	stop = true;
	for (std::thread &user : users)
		user.join();
	EXPECT_EQ(drv_.dealloc_stag(idx << 8 | ((rounds - 1) & 3)), SIRDMA_CQP_OK);
}

// Pages of a registered region come and go while it is used: an access finds one of its entry's values, whole.
TEST_F(SlotTest, UsersReadEntriesWhileTheyChange)
{
	constexpr u32 rounds = 20000;
	UserMemory other(host_.dma(), mem_.size());
	MrParams mr{.idx = 7, .va = 0x10000, .len = mem_.size()};
	std::atomic<bool> stop{false};
	std::atomic<u64> found{0}, absent{0};

	drv_.describe(mr, mem_, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	std::thread user([&] {
		while (!stop) {
			enum sirdma_ae_code ae;
			void *p;
			u32 run;
			snic_mr *used =
				snic_mr_get(host_.dev(), mr.stag(), 1, mr.va, 64, read_local, &ae);

			ASSERT_NE(used, nullptr);
			switch (bytes_at(host_.dev(), used, mr.va, 64, &p, &run)) {
			case SNIC_MEM_OK:
				EXPECT_TRUE(p == mem_.data() || p == other.data());
				found++;
				break;
			case SNIC_MEM_ABSENT:
				absent++;
				break;
			default:
				ADD_FAILURE() << "a fault";
			}
			snic_mr_put(used);
		}
	});
	for (u32 i = 0; i < rounds || !found || !absent; i++) {
		const u64 block = (i & 2 ? mem_ : other).blocks()[0];

		drv_.write_pble(mr.first_pble, i & 1 ? block : block | SIRDMA_PBLE_ABSENT);
		if (i >= rounds)
			std::this_thread::yield();
	}
	stop = true;
	user.join();
	EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
}

// The driver learns by the region's end that memory an entry named before is used no more.
TEST_F(SlotTest, MemoryThatWasTakenAwayIsUsedUntilTheRegionEnds)
{
	MrParams mr{.idx = 7, .va = 0x10000, .len = mem_.size()};
	std::atomic<bool> freed{false};
	void *p = nullptr;
	u32 run;

	drv_.describe(mr, mem_, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	snic_mr *user = use(mr.stag());
	ASSERT_NE(user, nullptr);
	ASSERT_EQ(bytes_at(host_.dev(), user, mr.va, 64, &p, &run), SNIC_MEM_OK);
	drv_.write_pble(mr.first_pble, mem_.blocks()[0] | SIRDMA_PBLE_ABSENT);
	std::thread remover([&] {
		EXPECT_EQ(drv_.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
		freed = true;
	});
	while (snic_slot_state(&user->slot) != SNIC_SLOT_REMOVED)
		std::this_thread::yield();
	EXPECT_FALSE(freed);
	memset(p, 1, 64); // an access that began before
	snic_mr_put(user);
	remover.join();
}
