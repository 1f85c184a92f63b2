/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast groups that IDs of the connection manager join. */
#include "cm_world.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

using CmMulticast = Cm;

TEST_F(CmMulticast, AMemberIsToldWhatToSendTo)
{
	const u32 id = client.bound();
	const ssize_t membership = client.join(id);

	ASSERT_GT(membership, 0);

	const rdma_ucm_event_resp event = client.event();
	const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
	const ib_uverbs_ah_attr &ah = event.param.ud.ah_attr;

	EXPECT_EQ(event.event, RDMA_CM_EVENT_MULTICAST_JOIN);
	EXPECT_EQ(event.status, 0u);
	EXPECT_EQ(event.uid, group_uid);
	EXPECT_EQ(event.id, membership);
	EXPECT_EQ(event.param.ud.qp_num, 0xffffffu);
	EXPECT_EQ(event.param.ud.qkey, 0x01234567u);
	EXPECT_EQ(memcmp(ah.grh.dgid, gid, sizeof(gid)), 0);
	EXPECT_EQ(ah.grh.hop_limit, 64);
	EXPECT_EQ(ah.is_global, 1);
	EXPECT_EQ(ah.port_num, 1);
	EXPECT_EQ(client.leave(membership), 1);
	EXPECT_EQ(client.leave(membership), -ENOENT);
	EXPECT_EQ(client.destroy(id), 1) << "the event counts for the ID as well";
}

TEST_F(CmMulticast, AnEventThatWasNotFetchedGoesWithTheMembership)
{
	const u32 id = client.bound();
	const ssize_t first = client.join(id, 3), second = client.join(id, 4);

	ASSERT_GT(first, 0);
	ASSERT_GT(second, 0);
	EXPECT_NE(first, second);
	EXPECT_EQ(client.leave(first), 0);
	EXPECT_EQ(client.event().id, second);
	EXPECT_FALSE(client.has_event());
	EXPECT_EQ(client.destroy(id), 1);
	EXPECT_EQ(client.leave(second), -ENOENT) << "it went with the ID";
}

TEST_F(CmMulticast, RefusesWhatIsNoGroupOrNoDatagrams)
{
	const u32 id = client.bound(), connected = client.create(RDMA_PS_TCP);
	rdma_ucm_create_id_resp resp{};
	rdma_ucm_join_ip_mcast command{};
	rdma_ucm_join_mcast newer{};

	EXPECT_EQ(client.join(99999), -ENOENT);
	EXPECT_EQ(client.join(client.create(RDMA_PS_UDP)), -EINVAL) << "it has no device yet";
	EXPECT_EQ(client.bind(connected, service_port + 1), 0);
	EXPECT_EQ(client.join(connected), -EINVAL);
	command.response = newer.response = reinterpret_cast<uintptr_t>(&resp);
	command.id = newer.id = id;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command, &resp), -EINVAL) << "no "
											  "address";
	command.addr.sin6_family = AF_INET;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command, &resp), -EINVAL) << "any "
											  "address";
	command.addr.sin6_family = AF_INET6;
	command.addr.sin6_addr.s6_addr[0] = 0xff;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command, &resp), -EOPNOTSUPP);

	auto &to = reinterpret_cast<sockaddr_in &>(newer.addr);

	to.sin_family = AF_INET;
	to.sin_addr.s_addr = htobe32(0xef010203u);
	newer.addr_size = sizeof(sockaddr_in6);
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_MCAST, newer, &resp), -EINVAL);
	newer.addr_size = sizeof(to);
	newer.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_MCAST, newer, &resp), -EINVAL);
	EXPECT_FALSE(client.has_event());
	newer.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_JOIN_MCAST, newer, &resp), 0);
	EXPECT_EQ(client.event().id, resp.id);
	EXPECT_EQ(server.leave(resp.id), -ENOENT) << "of another process";
	EXPECT_EQ(client.leave(resp.id), 1);
}

} // namespace

} // namespace sirdma::twin::cm
