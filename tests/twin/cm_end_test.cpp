/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Listeners and devices that go while connections arrive: what is left afterwards, and who is told. */
#include <thread>

#include "cm_world.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

constexpr Agent::Holdings nothing{};

/*
 * Several clients of one server. Some of their messages have come when the listener or its device
 * goes, and the others come afterwards.
 */
class CmEnd : public Cm {
protected:
	static constexpr unsigned clients = 4;

	/* The request of a client that has a queue pair of its own */
	u32 request(const IpAddress &to, u32 qpn)
	{
		const u32 id = client.resolved(to);

		EXPECT_EQ(client.connect(id, Process::param(qpn)), 0);
		return id;
	}
	/* Requests of as many clients, which wait on the wire. */
	std::vector<u32> requests(const Process &to)
	{
		std::vector<u32> ids;

		for (unsigned i = 0; i < clients; ++i)
			ids.push_back(request(to.port.address(), client_qpn + i));
		EXPECT_EQ(wire.size(), clients);
		return ids;
	}
	/* The clients go as well: then nothing is left of either end. */
	void end_of(const std::vector<u32> &ids)
	{
		while (client.has_event())
			client.event();
		for (const u32 id : ids)
			EXPECT_GE(client.destroy(id), 0);
		deliver();
		EXPECT_EQ(client.agent.holdings(), nothing);
		EXPECT_EQ(server.agent.holdings(), nothing);
		EXPECT_FALSE(server.has_event());
	}
};

/* @fetched: the program has them already; then they are its own to reject. */
TEST_F(CmEnd, AListenerThatClosesRejectsWhatItHasNotFetched)
{
	for (unsigned came = 0; came <= clients; ++came)
		for (unsigned fetched = 0; fetched <= came; ++fetched) {
			SCOPED_TRACE(testing::Message() << came << " came, fetched " << fetched);

			const u32 listener = server.listener();
			const std::vector<u32> ids = requests(server);
			std::vector<u32> own;

			deliver(came);
			while (own.size() < fetched)
				own.push_back(server.event().id);
			EXPECT_EQ(server.destroy(listener), static_cast<int>(fetched));
			EXPECT_EQ(server.agent.holdings().ids, fetched);
			EXPECT_EQ(server.agent.holdings().events, 0u);
			EXPECT_EQ(server.agent.holdings().claims, 0u);
			/* The rest comes, is refused, and is repeated until it has been refused often. */
			deliver();
			for (int i = 0; i < 20; ++i) {
				pass(second / 10);
				deliver();
			}
			for (unsigned i = fetched; i < clients; ++i)
				EXPECT_EQ(client.event().event, RDMA_CM_EVENT_REJECTED);
			EXPECT_FALSE(client.has_event()) << "the program has it still";
			for (const u32 id : own)
				EXPECT_EQ(server.destroy(id), 0);
			deliver();
			for (unsigned i = 0; i < fetched; ++i)
				EXPECT_EQ(client.event().event, RDMA_CM_EVENT_REJECTED);
			end_of(ids);
		}
}

/* Its listener stays until the program destroys it, but no request that the program never saw. */
TEST_F(CmEnd, ADeviceThatGoesTakesItsRequestsWithIt)
{
	for (unsigned came = 0; came <= clients; ++came)
		for (unsigned fetched = 0; fetched <= came; ++fetched) {
			SCOPED_TRACE(testing::Message() << came << " came, fetched " << fetched);

			Process gone{"127.0.0.14", 8, wire, now};
			const u32 listener = gone.listener();
			std::vector<u32> own;

			requests(gone);
			wire.resize(came);
			for (const Packet &packet : wire)
				deliver(packet, gone);
			wire.clear();
			while (own.size() < fetched)
				own.push_back(gone.event().id);
			gone.agent.forget(gone.port);
			EXPECT_EQ(gone.agent.holdings().ids, 1 + fetched) << "a request is left";
			EXPECT_EQ(gone.agent.holdings().events, 0u);
			EXPECT_EQ(gone.agent.holdings().claims, 0u);
			EXPECT_EQ(gone.agent.next_due(), Agent::never_due);
			for (const u32 id : own)
				EXPECT_EQ(gone.accept(id, Process::param(server_qpn)), -EINVAL);
			for (const u32 id : own)
				EXPECT_EQ(gone.destroy(id), 0);
			EXPECT_EQ(gone.destroy(listener), static_cast<int>(fetched));
			EXPECT_EQ(gone.agent.holdings(), nothing);
			client.agent.close_channel(client.file);
			EXPECT_EQ(client.agent.open_channel(client.file), 0);
			wire.clear();
		}
}

/* Of a listener at every device, those that came by another device are served. */
TEST_F(CmEnd, AListenerAtEveryDeviceLosesTheRequestsOfOne)
{
	constexpr u32 backlog = 2;
	TestPort other("127.0.0.15", 9, wire);
	const IpAddress every(in_addr{});

	server.add_first(other);

	const u32 listener = server.listener(every, service_port, RDMA_PS_TCP, backlog);

	EXPECT_EQ(server.agent.holdings().claims, 2u);
	for (u32 i = 0; i <= backlog; ++i)
		request(server.port.address(), client_qpn + i);
	deliver();
	EXPECT_EQ(server.counted(Counter::cm_backlog_full), 1u);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_REJECTED);
	/* The device goes with its two requests, so there is room for two of the other one. */
	server.agent.forget(server.port);
	EXPECT_EQ(server.agent.holdings().ids, 1u);
	EXPECT_EQ(server.agent.holdings().claims, 1u);
	EXPECT_FALSE(server.has_event());
	wire.clear();
	for (u32 i = 0; i < backlog; ++i) {
		const u32 id = request(other.address(), client_qpn + 8 + i);

		server.agent.receive(other, client.port.address(), wire.front().mad);
		wire.clear();
		EXPECT_EQ(server.accept(server.event().id, Process::param(server_qpn + i)), 0);
		client.agent.receive(client.port, other.address(), wire.front().mad);
		wire.clear();
		while (client.has_event()) {
			if (client.event().event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
				EXPECT_EQ(client.accept(id, {}), 0);
			}
		}
		server.agent.receive(other, client.port.address(), wire.front().mad);
		wire.clear();
		EXPECT_EQ(server.event().event, RDMA_CM_EVENT_ESTABLISHED);
	}
	EXPECT_EQ(server.destroy(listener), static_cast<int>(backlog));
	server.agent.close_channel(server.file);
	EXPECT_EQ(server.agent.holdings(), nothing);
}

/* The port is free for others, also at the device that stays. */
TEST_F(CmEnd, APortIsReservedAtADeviceAsLongAsItIsThere)
{
	TestPort other("127.0.0.15", 9, wire);
	const IpAddress every(in_addr{});

	server.add_first(other);

	const u32 listener = server.listener(every);
	const u32 service = RDMA_PS_TCP << 16 | service_port;

	EXPECT_FALSE(server.claim(server.port, service));
	server.agent.forget(server.port);
	EXPECT_TRUE(server.claim(server.port, service)) << "of no device any more";
	EXPECT_FALSE(server.claim(other, service));
	EXPECT_EQ(server.destroy(listener), 0);
	EXPECT_TRUE(server.claim(other, service));
}

/* As one thread delivers while threads of the program close and listen. In each round so many come. */
TEST_F(CmEnd, RequestsArriveWhileListenersCloseAndDevicesGo)
{
	constexpr int rounds = 50, at_a_time = 32;
	const std::vector<u32> ids = requests(server);
	const Packet request = wire.front();
	std::atomic<int> round{0};
	int served = 0; /* rounds in which a request came while its listener was there */

	wire.clear();
	std::thread net([&] {
		Packet packet = request;
		u32 number = 1;

		for (int i = 1; i <= rounds; ++i) {
			round.wait(i - 1);
			for (int n = 0; n < at_a_time; ++n) {
				packet.mad.req.local_id = htobe32(++number);
				packet.mad.req.qpn_resources = htobe32((number + 2) << 8);
				server.agent.receive(server.port, packet.src, packet.mad);
			}
		}
	});

	for (int i = 1; i <= rounds; ++i) {
		const u32 listener = server.listener();

		round = i;
		round.notify_one();
		for (int spins = 0; spins < 1000 && !server.has_event(); ++spins)
			std::this_thread::yield();
		served += server.has_event();
		if (i % 2)
			server.agent.forget(server.port);
		EXPECT_GE(server.destroy(listener), 0);
		if (i % 2)
			server.add_first(server.port);
		EXPECT_EQ(server.agent.holdings(), nothing) << "in round " << i;
	}
	net.join();
	EXPECT_GT(served, 0);
	EXPECT_EQ(server.counted(Counter::cm_received), rounds * at_a_time + 0u);
	EXPECT_EQ(server.agent.holdings(), nothing);
	wire.clear();
	for (const u32 id : ids)
		EXPECT_GE(client.destroy(id), 0);
}

/* AFONLY */

class CmFamilies : public Cm {
protected:
	CmFamilies() { server.add_first(six); }

	/* As rdma_set_option() does it */
	ssize_t set_only(u32 id, int only)
	{
		rdma_ucm_set_option command{};

		command.optval = reinterpret_cast<uintptr_t>(&only);
		command.id = id;
		command.level = RDMA_OPTION_ID;
		command.optname = RDMA_OPTION_ID_AFONLY;
		command.optlen = sizeof(only);
		return server.run(RDMA_USER_CM_CMD_SET_OPTION, command);
	}
	u32 bound_to_every(int only)
	{
		const u32 id = server.create(RDMA_PS_TCP, 77);

		EXPECT_EQ(set_only(id, only), 0);
		EXPECT_EQ(server.bind(id, IpAddress(sirdma_ip{}), service_port), 0);
		return id;
	}
	bool is_free(Port &at) { return !!server.claim(at, service); }

	static constexpr u32 service = RDMA_PS_TCP << 16 | service_port;
	TestPort six{"2001:db8::9", 9, wire};
};

TEST_F(CmFamilies, ABoundIdTakesAndLeavesTheOtherFamily)
{
	const u32 id = bound_to_every(0);

	EXPECT_FALSE(is_free(server.port));
	EXPECT_EQ(set_only(id, 1), 0);
	EXPECT_TRUE(is_free(server.port));
	EXPECT_FALSE(is_free(six));
	EXPECT_EQ(set_only(id, 1), 0);
	EXPECT_EQ(set_only(id, 0), 0);
	EXPECT_FALSE(is_free(server.port));
	EXPECT_EQ(server.agent.holdings().claims, 2u);
	EXPECT_EQ(server.listen(id), 0);
	EXPECT_EQ(set_only(id, 1), -EINVAL) << "it listens";
	EXPECT_EQ(server.destroy(id), 0);
	EXPECT_EQ(server.agent.holdings(), nothing);
}

/* Another process has the port of IPv4. As in the kernel the option is set, and nothing is lost. */
TEST_F(CmFamilies, ABoundIdKeepsItsPortWhateverTheOtherFamilyHas)
{
	const u32 id = bound_to_every(1);
	const Fd others = server.claim(server.port, service);

	ASSERT_TRUE(others);
	EXPECT_EQ(set_only(id, 0), 0);
	EXPECT_FALSE(is_free(six));
	EXPECT_EQ(server.agent.holdings().claims, 1u);
	EXPECT_EQ(server.listen(id), 0);
	EXPECT_EQ(server.agent.holdings().listeners, 1u);
}

/* A listen that fails, too, leaves what the ID had. */
TEST_F(CmFamilies, AListenThatFailsKeepsThePort)
{
	const u32 id = bound_to_every(1);
	const Fd others = server.claim(server.port, service);

	EXPECT_EQ(set_only(id, 0), 0);
	server.serve_error = EMFILE;
	EXPECT_EQ(server.listen(id), -EMFILE);
	EXPECT_FALSE(is_free(six));
	server.serve_error = 0;
	EXPECT_EQ(server.listen(id), 0);
}

} // namespace

} // namespace sirdma::twin::cm
