// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Address vectors: the driver core writes them, the device model reads them.
#include "c_api.hpp"
#include "packet.hpp"
#include "test_host.hpp"

#include <set>
#include <thread>
#include <vector>

extern "C" {
#include "hw/hw.h"
#include "model/dev.h"
}

namespace sirdma::test
{
namespace
{

class AddressVectors : public testing::Test {
protected:
	void start(u32 max_sds = 64)
	{
		HostOptions opts;
		sirdma_hw_config cfg{};

		opts.cfg.max_sds = max_sds;
		host_ = std::make_unique<TestHost>(opts);
		ASSERT_EQ(sirdma_hw_probe(&hw_, host_->bus(), &cfg, &events_, nullptr), 0);
	}
	void stop()
	{
		if (!host_)
			return;
		sirdma_hw_remove(&hw_);
		EXPECT_EQ(host_->dma_blocks(), 0u);
		host_.reset();
	}
	void TearDown() override { stop(); }

	static sirdma_av_params params(u8 n)
	{
		sirdma_av_params p{};

		p.path.dst_ip = ip4(10, 0, 0, n);
		p.path.flow_label = 0xfff12300u + n; // its low 20 bits count
		p.path.port_num = 1;
		p.path.sl = n % 8;
		p.path.hop_limit = 64;
		p.path.traffic_class = n;
		p.path.has_grh = true;
		p.mac[0] = 2;
		p.mac[5] = n;
		p.sgid_idx = n;
		p.pd = 100u + n;
		return p;
	}
	int create(u8 n, u32 *idx, sirdma_av_consumer who = SIRDMA_AV_USER)
	{
		const sirdma_av_params p = params(n);

		return sirdma_av_create(&hw_, &p, who, idx);
	}
	// How many of @who are made before one is refused.
	u32 exhaust(sirdma_av_consumer who, std::set<u32> &out)
	{
		u32 idx, n = 0;

		while (!create(1, &idx, who)) {
			EXPECT_TRUE(out.insert(idx).second) << "given twice: " << idx;
			EXPECT_NE(idx, 0u);
			n++;
		}
		return n;
	}
	void destroy(std::set<u32> &all)
	{
		for (u32 idx : all)
			sirdma_av_destroy(&hw_, idx);
		all.clear();
	}

	static void ignore_cq(void *, u64) {}
	static void ignore_async(void *, const sirdma_async_event *) {}
	const sirdma_hw_events events_ = {.cq_event = ignore_cq, .async_event = ignore_async};
	std::unique_ptr<TestHost> host_;
	sirdma_hw hw_{};
};

TEST_F(AddressVectors, DeviceReadsWhatTheDriverWrites)
{
	std::set<u64> seen;
	sirdma_av av;
	u32 idx;

	start();
	for (u8 n = 1; n < 200; n++) {
		const sirdma_av_params p = params(n);

		ASSERT_EQ(create(n, &idx), 0);
		ASSERT_TRUE(snic_av_read(host_->dev(), idx, &av));
		EXPECT_EQ(memcmp(&av.dst_ip, &p.path.dst_ip, sizeof(av.dst_ip)), 0);
		EXPECT_EQ(av.flow_label, p.path.flow_label & 0xfffff);
		EXPECT_EQ(av.mac, 0x020000000000u + n);
		EXPECT_EQ(av.sgid_idx, n);
		EXPECT_EQ(av.vlan_prio, n % 8);
		EXPECT_EQ(av.hop_limit, 64);
		EXPECT_EQ(av.traffic_class, n);
		EXPECT_GE(av.udp_sport, 0xc000);
		EXPECT_EQ(SIRDMA_GET(SIRDMA_AV_PD, av.ctrl), p.pd);
		EXPECT_TRUE(seen.insert(av.ctrl).second) << "the same words would hide a change";
		sirdma_av_destroy(&hw_, idx);
		EXPECT_FALSE(snic_av_read(host_->dev(), idx, &av));
	}
	EXPECT_FALSE(snic_av_read(host_->dev(), 0, &av)) << "no handle has the index 0";
	EXPECT_FALSE(snic_av_read(host_->dev(), SIRDMA_MAX_AVS - 1, &av)) << "not backed";
	EXPECT_FALSE(snic_av_read(host_->dev(), SIRDMA_MAX_AVS, &av));
}

TEST_F(AddressVectors, HopLimitOfZeroIsTheDefault)
{
	sirdma_av_params p = params(1);
	sirdma_av av;
	u32 idx;

	start();
	p.path.hop_limit = 0;
	ASSERT_EQ(sirdma_av_create(&hw_, &p, SIRDMA_AV_USER, &idx), 0);
	ASSERT_TRUE(snic_av_read(host_->dev(), idx, &av));
	EXPECT_EQ(av.hop_limit, SIRDMA_DEFAULT_HOP_LIMIT);
}

// Whoever takes all he can have leaves as many to those who come later.
TEST_F(AddressVectors, NobodyHasMoreThanIsLeftToOthers)
{
	const auto greedy = [this](sirdma_av_consumer who, std::set<u32> &out) {
		u32 idx, n = 0;

		while (sirdma_av_is_fair(&hw_, who, n) && !create(1, &idx, who)) {
			EXPECT_TRUE(out.insert(idx).second);
			n++;
		}
		return n;
	};
	std::set<u32> all;

	start();
	const u32 limit = sirdma_av_user_limit(&hw_);
	EXPECT_EQ(sirdma_av_one_user_limit(&hw_), limit / 2);
	EXPECT_EQ(greedy(SIRDMA_AV_USER, all), limit / 2);
	EXPECT_EQ(greedy(SIRDMA_AV_USER, all), limit / 4);
	EXPECT_EQ(greedy(SIRDMA_AV_KERNEL, all), (limit / 4 + SIRDMA_AV_RESERVE) / 2);
	while (greedy(SIRDMA_AV_USER, all))
		;
	EXPECT_EQ(greedy(SIRDMA_AV_KERNEL, all), SIRDMA_AV_RESERVE - 1) << "all but index 0 of "
									   "what is reserved for "
									   "the kernel";
	destroy(all);
}

// Users cannot take what kernel consumers need, whatever they make.
TEST_F(AddressVectors, UsersLeaveSomeToTheKernel)
{
	std::set<u32> users, others;

	start();
	EXPECT_EQ(exhaust(SIRDMA_AV_USER, users), sirdma_av_user_limit(&hw_));
	EXPECT_EQ(sirdma_av_user_limit(&hw_), SIRDMA_MAX_AVS - SIRDMA_AV_RESERVE);
	EXPECT_EQ(exhaust(SIRDMA_AV_ATOMIC, others), SIRDMA_AV_RESERVE - 1);
	// All but the index 0, and nothing more.
	exhaust(SIRDMA_AV_KERNEL, others);
	EXPECT_EQ(users.size() + others.size(), SIRDMA_MAX_AVS - 1);
	EXPECT_FALSE(sirdma_av_low(&hw_)) << "there is nothing to be filled";
	destroy(users);
	destroy(others);
}

// Others may take what one thread backs before it looks.
TEST_F(AddressVectors, ThreadsThatTakeThemTogetherGetAll)
{
	constexpr u32 threads = 4;

	for (int round = 0; round < 20; ++round) {
		std::vector<std::set<u32>> taken(threads);
		std::vector<std::thread> takers;
		std::set<u32> all;

		start();
		for (std::set<u32> &mine : taken)
			takers.emplace_back([&] {
				u32 idx;

				for (u32 i = 0; i < sirdma_av_user_limit(&hw_) / threads; ++i)
					if (!create(1, &idx))
						mine.insert(idx);
			});
		for (std::thread &taker : takers)
			taker.join();
		for (std::set<u32> &mine : taken) {
			EXPECT_EQ(mine.size(), sirdma_av_user_limit(&hw_) / threads);
			all.merge(mine);
		}
		destroy(all);
		stop();
	}
}

// Whoever cannot wait gets those that are ready, and more of them once they were filled.
TEST_F(AddressVectors, AtomicOnesComeFromThoseThatAreReady)
{
	std::set<u32> all;
	size_t before;
	u32 n;

	start();
	EXPECT_FALSE(sirdma_av_low(&hw_));
	before = host_->dma_blocks();
	n = exhaust(SIRDMA_AV_ATOMIC, all);
	EXPECT_GE(n, SIRDMA_AV_RESERVE);
	EXPECT_EQ(host_->dma_blocks(), before) << "nothing was allocated";
	EXPECT_TRUE(sirdma_av_low(&hw_));
	EXPECT_EQ(sirdma_av_fill(&hw_), 0);
	EXPECT_FALSE(sirdma_av_low(&hw_));
	EXPECT_GE(exhaust(SIRDMA_AV_ATOMIC, all), SIRDMA_AV_RESERVE);
	destroy(all);
}

TEST_F(AddressVectors, FailureToBackAPageLeavesTheOthers)
{
	std::set<u32> all;
	u32 idx;

	start();
	exhaust(SIRDMA_AV_ATOMIC, all);
	host_->fail_alloc_after(0);
	EXPECT_EQ(create(1, &idx, SIRDMA_AV_KERNEL), -ENOMEM);
	EXPECT_EQ(create(1, &idx, SIRDMA_AV_USER), -ENOMEM);
	EXPECT_EQ(sirdma_av_fill(&hw_), -ENOMEM);
	host_->fail_alloc_after(-1);
	EXPECT_EQ(create(1, &idx, SIRDMA_AV_KERNEL), 0);
	sirdma_av_destroy(&hw_, idx);
	destroy(all);
}

// The one segment of such a device is that of the page lists.
TEST_F(AddressVectors, ADeviceOfOneSegmentHasNone)
{
	u32 idx;

	start(1);
	EXPECT_EQ(hw_.caps.max_avs, 0u);
	EXPECT_EQ(sirdma_av_user_limit(&hw_), 0u);
	EXPECT_EQ(create(1, &idx), -EOPNOTSUPP);
	EXPECT_FALSE(sirdma_av_low(&hw_));
}

} // namespace
} // namespace sirdma::test
