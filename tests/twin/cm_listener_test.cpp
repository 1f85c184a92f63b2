/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Listeners of the connection manager: how long they live, and who is reached at a loopback address. */
#include "cm_world.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

using CmListener = Cm;

/* As perftest's server does between its two connections */
TEST_F(CmListener, WaitsForAListenerThatIsOpenedAgain)
{
	client.connecting(server);
	deliver();
	EXPECT_FALSE(client.has_event());
	server.listener();
	EXPECT_FALSE(server.has_event());
	pass(second / 10);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

TEST_F(CmListener, WaitsForADatagramServiceThatIsOpenedAgain)
{
	EXPECT_EQ(client.connect(client.resolved(server, RDMA_PS_UDP), Process::param(0)), 0);
	deliver();
	EXPECT_FALSE(client.has_event());
	server.listener(RDMA_PS_UDP);
	pass(second / 10);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

TEST_F(CmListener, AServiceHasOneListener)
{
	const u32 first = server.listener();
	const u32 second_id = server.create();

	EXPECT_EQ(server.bind(second_id, service_port), -EADDRINUSE);
	EXPECT_EQ(server.destroy(first), 0);
	EXPECT_EQ(server.bind(second_id, service_port), 0);
	EXPECT_EQ(server.listen(second_id), 0);
}

/* Not even when its ID, of which nothing is left, is destroyed, and another device goes on */
TEST_F(CmListener, AListenerEndsWithItsDevice)
{
	TestPort other("127.0.0.13", 7, wire);
	const u32 id = server.listener();

	server.add_first(other);
	client.connecting(server);
	ASSERT_FALSE(wire.empty());

	const Packet request = wire.front();

	EXPECT_TRUE(server.agent.serves(server.port, request.src, request.mad));
	server.agent.forget(server.port);
	EXPECT_FALSE(server.agent.serves(other, request.src, request.mad));
	EXPECT_EQ(server.destroy(id), 0);
	EXPECT_FALSE(server.agent.serves(other, request.src, request.mad));
}

/* A process that has no file left to listen with may try again when it has one. */
TEST_F(CmListener, AListenThatFailedMayBeRepeated)
{
	const u32 id = server.create(RDMA_PS_TCP, 77);

	EXPECT_EQ(server.bind(id, service_port), 0);
	server.serve_error = EMFILE;
	EXPECT_EQ(server.listen(id), -EMFILE);
	EXPECT_EQ(server.bind(server.create(), service_port), -EADDRINUSE) << "it is still bound";
	server.serve_error = 0;
	EXPECT_EQ(server.listen(id), 0);
	client.connecting(server);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* libfabric's programs listen at "localhost" unless they are told where. */
TEST_F(CmListener, AListenerAtALoopbackAddressOfNoDeviceHearsEveryDevice)
{
	const u32 id = server.create(RDMA_PS_TCP, 77);
	IpAddress loopback;

	ASSERT_TRUE(IpAddress::parse("127.0.0.1", loopback));
	EXPECT_EQ(server.bind(id, loopback, service_port), 0);
	EXPECT_EQ(server.listen(id), 0);
	client.connecting(server);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

TEST_F(CmListener, ALoopbackAddressOfNoDeviceIsReachedByTheDeviceItself)
{
	for (const auto &[device, loopback] :
	     {std::pair{"192.0.2.1", "127.0.0.1"}, std::pair{"2001:db8::1", "::1"}}) {
		Process process(device, 7, wire, now);
		IpAddress addr;

		ASSERT_TRUE(IpAddress::parse(loopback, addr));
		EXPECT_EQ(process.connect(process.resolved(addr), Process::param(client_qpn)), 0);
		ASSERT_FALSE(wire.empty());
		EXPECT_EQ(wire.back().dst.text(), device);
		EXPECT_EQ(wire.back().src.text(), device);
	}
}

/* Twins have loopback addresses. 127.0.0.1 is that of a server of this user, or of the device itself. */
TEST_F(CmListener, ALoopbackAddressOfNoTwinIsThatOfWhoServesThere)
{
	IpAddress loopback, other;

	ASSERT_TRUE(IpAddress::parse("127.0.0.1", loopback));
	ASSERT_TRUE(IpAddress::parse("127.0.0.9", other));
	EXPECT_EQ(client.connect(client.resolved(loopback), Process::param(client_qpn)), 0);
	EXPECT_EQ(wire.back().dst.text(), "127.0.0.11");
	/* Of a twin that has not started yet */
	EXPECT_EQ(client.connect(client.resolved(other), Process::param(client_qpn)), 0);
	EXPECT_EQ(wire.back().dst.text(), "127.0.0.9");
	client.elsewhere = server.port.address();
	EXPECT_EQ(client.connect(client.resolved(loopback), Process::param(client_qpn)), 0);
	EXPECT_EQ(wire.back().dst.text(), "127.0.0.12");
	EXPECT_EQ(wire.back().src.text(), "127.0.0.11");
}

/* Also when the first device of a process is at another address, of either family */
TEST_F(CmListener, ALoopbackAddressIsLeftToTheDeviceThatHasOne)
{
	for (const char *address : {"192.0.2.1", "2001:db8::1"}) {
		Process process("127.0.0.13", 7, wire, now);
		TestPort first(address, 8, wire);
		IpAddress loopback;

		ASSERT_TRUE(IpAddress::parse("127.0.0.1", loopback));
		process.add_first(first);
		process.elsewhere = server.port.address();
		EXPECT_EQ(process.connect(process.resolved(loopback), Process::param(client_qpn)),
			  0);
		ASSERT_FALSE(wire.empty());
		EXPECT_EQ(wire.back().dst.text(), server.port.address().text()) << address;
		EXPECT_EQ(wire.back().src.text(), "127.0.0.13") << address;
	}
}

} // namespace

} // namespace sirdma::twin::cm
