// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the tests of on-demand paging share: a connection whose regions at both ends are on demand.
#pragma once

#include "fixture.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <thread>

namespace verbs::odp
{

inline constexpr size_t page = 4096;
inline constexpr int on_demand = all_access | IBV_ACCESS_ON_DEMAND;

inline ibv_odp_caps caps_of(const Device &dev)
{
	ibv_device_attr_ex attr = {};

	return ibv_query_device_ex(dev.context.get(), nullptr, &attr) ? ibv_odp_caps{} :
									attr.odp_caps;
}

inline bool supported(const Device &dev)
{
	return caps_of(dev).general_caps & IBV_ODP_SUPPORT;
}

class OnDemand : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (!supported(device()) || !supported(peer()))
			GTEST_SKIP() << not_reported(
				"odp_caps.general_caps",
				caps_of(supported(device()) ? peer() : device()).general_caps);
	}

	void TearDown() override { clear(); }

	// The first connection has the domains of the others.
	void clear()
	{
		local_ = {};
		remote_ = {};
		pair_.reset();
		while (!former_.empty())
			former_.pop_back();
	}

	// Flags of memory far from other mappings. When it goes away, no other is mapped there meanwhile.
#ifdef MAP_32BIT
	static constexpr int apart = MAP_32BIT;
#else
	static constexpr int apart = 0;
#endif

	static Region make_apart(ibv_pd *pd, size_t length, int access)
	{
		Region region;

		region.memory = Mapping::anonymous(length, apart);
		region.mr.reset(ibv_reg_mr(pd, region.memory.data(), length, access));
		EXPECT_TRUE(region.memory && region.mr);
		return region;
	}

	// Untouched memory, at both ends on demand.
	void make(size_t length, int access = on_demand)
	{
		clear();
		link_ = default_link();
		link_.access = access & ~IBV_ACCESS_ON_DEMAND;
		pair_ = std::make_unique<Pair>(make_pair({}, link_));
		ASSERT_FALSE(HasFailure());
		local_ = make_apart(pair_->a.pd, length, access);
		remote_ = make_apart(pair_->b.pd, length, access);
		ASSERT_TRUE(local_ && remote_);
	}

	// A connection of the same regions. The old one ends with the test.
	void connect_again()
	{
		former_.push_back(std::move(pair_));
		pair_ = std::make_unique<Pair>(make_pair({.shared_pd = former_[0]->a.pd},
							 {.shared_pd = former_[0]->b.pd}, link_));
		ASSERT_FALSE(HasFailure());
	}

	int start(ibv_wr_opcode op, size_t from, size_t to, uint32_t length)
	{
		if (takes_recv(op)) {
			EXPECT_EQ(post_recv(pair_->b, {remote_.sge(to, length)}), 0);
		}
		return post(pair_->a, {.op = op,
				       .sges = {local_.sge(from, length)},
				       .remote_addr = remote_.address(to),
				       .rkey = remote_.mr->rkey});
	}

	// One operation whose source the program wrote, and whose target nobody did.
	void move(ibv_wr_opcode op, size_t from, size_t to, uint32_t length, uint64_t seed)
	{
		const bool back = op == IBV_WR_RDMA_READ;
		const auto source = back ? remote_.bytes(to, length) : local_.bytes(from, length);
		const auto target = back ? local_.bytes(from, length) : remote_.bytes(to, length);

		fill_pattern(source, seed);
		ASSERT_EQ(start(op, from, to, length), 0);
		expect_wc(pair_->a.scq);
		if (takes_recv(op))
			expect_wc(pair_->b.rcq);
		EXPECT_TRUE(has_pattern(target, seed)) << op_name(op) << " of " << length;
	}

	void drop(const Region &region) // its pages, not its addresses
	{
		ASSERT_EQ(madvise(region.memory.data(), region.memory.size(), MADV_DONTNEED), 0);
	}

	// Does the kernel place memory apart that is to be so? Not all know the flag.
	static bool makes_apart()
	{
		const Mapping low = Mapping::anonymous(page, apart),
			      other = Mapping::anonymous(page);

		return low.address() >> 32 != other.address() >> 32;
	}

	// Take memory away. Where it is not apart its addresses stay in use, so that they do not become those of another mapping.
	static void take(std::byte *at, size_t length)
	{
		static const bool is_apart = makes_apart();

		if (is_apart) {
			ASSERT_EQ(munmap(at, length), 0);
		} else {
			ASSERT_EQ(mmap(at, length, PROT_NONE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				       0),
				  at);
		}
	}

	void unmap(const Region &region)
	{
		take(region.memory.data(), region.memory.size());
	}

	void map_again(const Region &region)
	{
		ASSERT_EQ(mmap(region.memory.data(), region.memory.size(), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			  region.memory.data());
	}

	// Each slot of a region is mapped or not. A thread changes that while messages use the others: what is mapped is written and
	// read, byte for byte, and what is not is an access error.
	void use_mapped_parts(size_t slot, unsigned rounds)
	{
		constexpr size_t slots = 16;
		struct Slot {
			std::mutex lock;
			bool mapped = true;
		};
		const auto state = std::make_unique<Slot[]>(slots);
		std::atomic<bool> stop{false};
		std::atomic<unsigned> changes{0};
		unsigned moved = 0, refused = 0;

		std::thread changer([&] {
			Random random(seed() + 1);

			while (!stop) {
				const size_t i = random.below(slots);
				const std::lock_guard hold(state[i].lock);
				std::byte *at = remote_.memory.data() + i * slot;

				if (state[i].mapped) {
					take(at, slot);
				} else {
					EXPECT_EQ(mmap(at, slot, PROT_READ | PROT_WRITE,
						       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
						       0),
						  at);
				}
				state[i].mapped = !state[i].mapped;
				changes++;
			}
		});
		const ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};
		Random random(seed());
		for (unsigned i = 0; !HasFailure() && i < rounds; i++) {
			const ibv_wr_opcode op = ops[i % 3];
			const size_t n = random.below(slots), in = random.below(page);
			const auto length = static_cast<uint32_t>(1 + random.below(slot - page));
			const std::lock_guard hold(state[n].lock);

			if (state[n].mapped) {
				move(op, n * slot + in, n * slot + in, length, i);
				moved++;
				continue;
			}
			refused++;
			EXPECT_EQ(start(op, 0, n * slot + in, length), 0);
			const auto wc = await(pair_->a.scq);
			ASSERT_TRUE(wc.has_value());
			EXPECT_TRUE(ends_as(wc->status, op == IBV_WR_SEND ? IBV_WC_REM_OP_ERR :
									    IBV_WC_REM_ACCESS_ERR))
				<< ibv_wc_status_str(wc->status);
			connect_again();
			former_.resize(1);
		}
		stop = true;
		changer.join();
		EXPECT_GT(moved, rounds / 5);
		EXPECT_GT(refused, rounds / 20);
		EXPECT_GT(changes, 100u);
	}

	Link link_; // of all connections of the test
	std::vector<std::unique_ptr<Pair>> former_;
	std::unique_ptr<Pair> pair_;
	Region local_, remote_;
};

} // namespace verbs::odp
