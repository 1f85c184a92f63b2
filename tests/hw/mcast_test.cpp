// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Multicast groups: the driver core attaches queue pairs, the device model knows the groups.
#include "c_api.hpp"
#include "packet.hpp"
#include "test_host.hpp"

#include <set>

extern "C" {
#include "hw/hw.h"
#include "hw/limits.h"
#include "model/dev.h"
}

namespace sirdma::test
{
namespace
{

class Multicast : public testing::Test {
protected:
	void SetUp() override
	{
		sirdma_hw_config cfg{};

		host_ = std::make_unique<TestHost>(HostOptions{});
		ASSERT_EQ(sirdma_hw_probe(&hw_, host_->bus(), &cfg, &events_, nullptr), 0);
	}
	void TearDown() override
	{
		sirdma_hw_remove(&hw_);
		EXPECT_EQ(host_->dma_blocks(), 0u);
	}

	static sirdma_ip group(u32 n)
	{
		return ip4(239, static_cast<u8>(n >> 16), static_cast<u8>(n >> 8),
			   static_cast<u8>(n));
	}
	// ff0e:: with the number in the bytes 2 to 9, which name no Ethernet address.
	static sirdma_ip spread(u32 n)
	{
		sirdma_ip ip{};

		ip.b[0] = 0xff;
		ip.b[1] = 0x0e;
		ip.b[2] = static_cast<u8>(n >> 7);
		ip.b[9] = static_cast<u8>(n & 0x7f);
		ip.b[15] = 1;
		return ip;
	}
	int attach(const sirdma_ip &ip, u32 qpn)
	{
		return sirdma_mcast_attach(&hw_, &ip, qpn, &edge_);
	}
	int detach(const sirdma_ip &ip, u32 qpn)
	{
		return sirdma_mcast_detach(&hw_, &ip, qpn, &edge_);
	}
	std::set<u32> members(const sirdma_ip &ip)
	{
		u32 qpns[SIRDMA_MCAST_MAX_QPS];
		const u32 n = snic_mcast_members(host_->dev(), &ip, qpns);

		return {qpns, qpns + n};
	}

	static void ignore_cq(void *, u64) {}
	static void ignore_async(void *, const sirdma_async_event *) {}
	const sirdma_hw_events events_ = {.cq_event = ignore_cq, .async_event = ignore_async};
	std::unique_ptr<TestHost> host_;
	sirdma_hw hw_{};
	bool edge_ = false; // of the last call: the group is new, or gone
};

TEST_F(Multicast, GroupsBeginAndEndWithTheirQueuePairs)
{
	const sirdma_ip ip = group(1);

	ASSERT_EQ(attach(ip, 5), 0);
	EXPECT_TRUE(edge_);
	ASSERT_EQ(attach(ip, 6), 0);
	EXPECT_FALSE(edge_);
	EXPECT_EQ(members(ip), (std::set<u32>{5, 6}));
	EXPECT_EQ(detach(ip, 5), 0);
	EXPECT_FALSE(edge_);
	EXPECT_EQ(members(ip), std::set<u32>{6});
	EXPECT_EQ(detach(ip, 6), 0);
	EXPECT_TRUE(edge_);
	EXPECT_FALSE(snic_mcast_has(host_->dev(), &ip));
}

// Each attachment is to be undone, and one copy comes.
TEST_F(Multicast, AttachingTwiceCounts)
{
	sirdma_ip ip = ip6(1);

	ip.b[0] = 0xff;
	ASSERT_EQ(attach(ip, 5), 0);
	ASSERT_EQ(attach(ip, 5), 0);
	EXPECT_EQ(members(ip), std::set<u32>{5});
	EXPECT_EQ(detach(ip, 5), 0);
	EXPECT_EQ(members(ip), std::set<u32>{5});
	EXPECT_EQ(detach(ip, 5), 0);
	EXPECT_EQ(detach(ip, 5), -EINVAL);
}

TEST_F(Multicast, RefusesWhatIsNoGroup)
{
	for (const sirdma_ip &ip :
	     {ip4(10, 0, 0, 1), ip4(223, 255, 255, 255), ip4(240, 0, 0, 0), ip6(1), sirdma_ip{}})
		EXPECT_EQ(attach(ip, 5), -EINVAL);
	EXPECT_EQ(detach(group(1), 5), -EINVAL);
	ASSERT_EQ(attach(group(1), 5), 0);
	EXPECT_EQ(detach(group(1), 6), -EINVAL);
	EXPECT_EQ(detach(group(1), 5), 0);
}

TEST_F(Multicast, LimitsAreThoseReported)
{
	sirdma_limits limits;

	sirdma_hw_limits(&hw_, &limits);
	ASSERT_GT(limits.max_mcast_grp, 0u);
	EXPECT_EQ(limits.max_total_mcast_qp_attach,
		  limits.max_mcast_grp * limits.max_mcast_qp_attach);
	for (u32 i = 0; i < limits.max_mcast_grp; i++)
		ASSERT_EQ(attach(group(i), 5), 0) << i;
	EXPECT_EQ(attach(group(limits.max_mcast_grp), 5), -ENOMEM);
	for (u32 i = 1; i < limits.max_mcast_qp_attach; i++)
		ASSERT_EQ(attach(group(0), 5 + i), 0) << i;
	EXPECT_EQ(attach(group(0), 5 + limits.max_mcast_qp_attach), -ENOMEM);
	EXPECT_EQ(attach(group(0), 5), 0) << "it is attached already";
	EXPECT_EQ(members(group(0)).size(), limits.max_mcast_qp_attach);
	EXPECT_EQ(detach(group(0), 5), 0);
	for (u32 i = 0; i < limits.max_mcast_qp_attach; i++)
		EXPECT_EQ(detach(group(0), 5 + i), 0) << i;
	for (u32 i = 1; i < limits.max_mcast_grp; i++) {
		EXPECT_EQ(members(group(i)), std::set<u32>{5});
		EXPECT_EQ(detach(group(i), 5), 0);
	}
}

// Their hosts may choose addresses that differ only in a few bytes, and each packet to a group searches one chain.
TEST_F(Multicast, ChosenAddressesDoNotShareAChain)
{
	const u32 num_groups = 1024;
	size_t found = 0, longest = 0;

	for (u32 i = 0; i < num_groups; i++)
		ASSERT_EQ(attach(spread(i), 5), 0) << i;
	for (const snic_mcast *group : host_->dev()->mcasts.buckets) {
		size_t length = 0;

		for (; group; group = group->next)
			length++;
		found += length;
		longest = std::max(longest, length);
	}
	EXPECT_EQ(found, num_groups);
	// Of random chains one in 10^20 is longer.
	EXPECT_LE(longest, 32u);
	for (u32 i = 0; i < num_groups; i++) {
		EXPECT_EQ(members(spread(i)), std::set<u32>{5});
		ASSERT_EQ(detach(spread(i), 5), 0) << i;
	}
}

// What was learnt of one device does not tell which groups share a chain of another.
TEST_F(Multicast, EachDeviceHasAKeyOfItsOwn)
{
	TestHost other(HostOptions{});

	EXPECT_NE(memcmp(&host_->dev()->mcasts.key, &other.dev()->mcasts.key,
			 sizeof(port_hash_key)),
		  0);
}

// A device that takes no commands any more: what was attached goes nevertheless.
TEST_F(Multicast, DetachesFromADeviceThatFailed)
{
	ASSERT_EQ(attach(group(1), 5), 0);
	ASSERT_EQ(attach(group(1), 6), 0);
	sirdma_cqp_kill(&hw_);
	EXPECT_NE(attach(group(2), 5), 0);
	EXPECT_LT(detach(group(1), 5), 0);
	EXPECT_LT(detach(group(1), 6), 0);
	EXPECT_TRUE(edge_);
	EXPECT_EQ(detach(group(1), 6), -EINVAL);
}

} // namespace
} // namespace sirdma::test
