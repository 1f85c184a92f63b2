/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager of two processes, by the commands that librdmacm gives. Messages wait on
 * a wire until the test delivers, loses or changes them. The clock is the test's.
 */
#include <random>

#include "cm_world.hpp"
#include "identity.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

TEST_F(Cm, ConnectsWithTheParametersOfBothEnds)
{
	const u32 listener = server.listener();
	const u32 id = client.connecting(server, "hello");

	deliver();

	const rdma_ucm_event_resp request = server.event();

	EXPECT_EQ(request.event, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(request.uid, 77);
	EXPECT_NE(request.id, listener);
	EXPECT_STREQ(reinterpret_cast<const char *>(request.param.conn.private_data), "hello");
	EXPECT_EQ(request.param.conn.private_data_len, 56);
	EXPECT_EQ(request.param.conn.qp_num, client_qpn);
	/* What one end initiates the other responds to. */
	EXPECT_EQ(request.param.conn.responder_resources, 5);
	EXPECT_EQ(request.param.conn.initiator_depth, 3);
	EXPECT_EQ(request.param.conn.retry_count, 6);
	EXPECT_EQ(request.param.conn.rnr_retry_count, 7);

	EXPECT_EQ(server.accept(request.id, Process::param(server_qpn, "welcome")), 0);
	deliver();

	const rdma_ucm_event_resp response = client.event();

	EXPECT_EQ(response.event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(response.id, id);
	EXPECT_STREQ(reinterpret_cast<const char *>(response.param.conn.private_data), "welcome");
	EXPECT_EQ(response.param.conn.qp_num, server_qpn);

	const ib_uverbs_qp_attr of_client = client.qp_attr(id, IBV_QPS_RTR);
	const ib_uverbs_qp_attr of_server = server.qp_attr(request.id, IBV_QPS_RTR);

	EXPECT_EQ(of_client.dest_qp_num, server_qpn);
	EXPECT_EQ(of_server.dest_qp_num, client_qpn);
	EXPECT_EQ(of_client.path_mtu, of_server.path_mtu);
	EXPECT_EQ(client.qp_attr(id, IBV_QPS_RTS).sq_psn, of_server.rq_psn);
	EXPECT_EQ(server.qp_attr(request.id, IBV_QPS_RTS).sq_psn, of_client.rq_psn);
	EXPECT_FALSE(memcmp(of_client.ah_attr.grh.dgid, server.port.address().ip().b, 16));
	EXPECT_EQ(client.accept(id, {}), 0);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
	EXPECT_EQ(server.agent.next_due(), Agent::never_due);
}

TEST_F(Cm, SendsARequestAsTheStandardLaysItOut)
{
	server.listener();
	client.connecting(server, "x");
	ASSERT_EQ(wire.size(), 1u);

	const auto *bytes = reinterpret_cast<const uint8_t *>(&wire[0].mad);
	const uint8_t header[] = {1, 7, 2, 3};
	const uint8_t service[] = {0, 0, 0, 0, 1, 6, service_port >> 8, service_port & 0xff};

	EXPECT_FALSE(memcmp(bytes, header, sizeof(header)));
	EXPECT_EQ(bytes[17], 0x10);
	EXPECT_FALSE(memcmp(bytes + 24 + 8, service, sizeof(service)));
	EXPECT_EQ(bytes[24 + 32], 0x12); /* QP number */
	EXPECT_EQ(bytes[24 + 35], 3); /* responder resources */
	EXPECT_EQ(bytes[24 + 39], 5); /* initiator depth */
	EXPECT_EQ(bytes[24 + 43], 20 << 3); /* response timeout, RC */
	EXPECT_EQ(bytes[24 + 47], 20 << 3 | 6); /* the same here, retries */
	EXPECT_EQ(bytes[24 + 50], 3 << 4 | 7); /* MTU 1024, RNR retries */
	EXPECT_EQ(bytes[24 + 56 + 15], 11); /* the GIDs */
	EXPECT_EQ(bytes[24 + 72 + 15], 12);
	EXPECT_EQ(bytes[24 + 95], 17 << 3); /* ACK timeout */
	EXPECT_EQ(bytes[24 + 140 + 1], 4 << 4); /* IPv4 */
	EXPECT_EQ(bytes[24 + 140 + 4 + 15], 11);
	EXPECT_EQ(bytes[24 + 140 + 20 + 15], 12);
	EXPECT_EQ(bytes[24 + 140 + 36], 'x');
}

TEST_F(Cm, RejectsWithPrivateData)
{
	rdma_ucm_reject command{};

	server.listener();
	client.connecting(server);
	deliver();
	command.id = server.event().id;
	command.private_data_len = 3;
	memcpy(command.private_data, "no!", 3);
	EXPECT_EQ(server.run(RDMA_USER_CM_CMD_REJECT, command), 0);
	deliver();

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event.status, 28u);
	EXPECT_EQ(event.param.conn.private_data_len, 148);
	EXPECT_STREQ(reinterpret_cast<const char *>(event.param.conn.private_data), "no!");
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
}

TEST_F(Cm, RejectsWhatNobodyListensTo)
{
	client.connecting(server);
	be_refused();

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event.status, 8u);
	EXPECT_EQ(server.counted(Counter::cm_no_listener), 11u);
}

TEST_F(Cm, DisconnectsBothEnds)
{
	const auto [id, request] = establish();

	EXPECT_EQ(client.disconnect(id), 0);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_FALSE(client.has_event());
	EXPECT_EQ(server.disconnect(request), 0);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_DISCONNECTED);
	pass(2 * second);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	/* address, route, response, disconnected, exit; established, disconnected, exit */
	EXPECT_EQ(client.destroy(id), 5);
	EXPECT_EQ(server.destroy(request), 3);
}

/* The application may destroy its queue pair when it gets the event and a poll finds no completion. */
TEST_F(Cm, TellsTheDeviceOfTheEndBeforeTheApplication)
{
	const auto [id, request] = establish();
	unsigned of_client = 0, of_server = 0;

	client.port.on_end = [&] { of_client += !client.has_event(); };
	server.port.on_end = [&] { of_server += !server.has_event(); };
	EXPECT_EQ(client.disconnect(id), 0);
	deliver();
	EXPECT_EQ(of_server, 1u);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(of_client, 0u);
	EXPECT_EQ(server.disconnect(request), 0);
	deliver();
	EXPECT_EQ(of_client, 1u);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(of_server, 1u);
}

TEST_F(Cm, DestroyEndsTheConnection)
{
	const auto [id, request] = establish();

	EXPECT_EQ(server.destroy(request), 1);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(client.disconnect(id), 0);
	EXPECT_EQ(server.destroy(request), -ENOENT);
}

TEST_F(Cm, BothEndsMayDisconnectAtOnce)
{
	const auto [id, request] = establish();

	EXPECT_EQ(client.disconnect(id), 0);
	EXPECT_EQ(server.disconnect(request), 0);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_FALSE(client.has_event());
	EXPECT_FALSE(server.has_event());
}

TEST_F(Cm, RepeatsALostRequestAndGivesUp)
{
	server.listener();

	const u32 id = client.connecting(server);

	for (unsigned i = 0; i < max_cm_retries; ++i) {
		ASSERT_EQ(wire.size(), i + 1);
		pass(5 * second);
	}
	EXPECT_EQ(wire.size(), 1 + max_cm_retries);
	EXPECT_FALSE(client.has_event());
	pass(5 * second);

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_UNREACHABLE);
	EXPECT_EQ(static_cast<int>(event.status), -ETIMEDOUT);
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
	EXPECT_EQ(client.counted(Counter::cm_retries), max_cm_retries);
	/* All of them are one request. */
	deliver();
	EXPECT_EQ(server.counted(Counter::cm_duplicates), max_cm_retries);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_FALSE(server.has_event());
	EXPECT_EQ(client.destroy(id), 3);
}

TEST_F(Cm, RepeatsTheLostAnswersOfAHandshake)
{
	server.listener();

	const u32 id = client.connecting(server);

	deliver();

	const u32 request = server.event().id;

	EXPECT_EQ(server.accept(request, Process::param(server_qpn)), 0);
	wire.clear(); /* the REP is lost */
	pass(5 * second);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(client.accept(id, {}), 0);
	wire.clear(); /* the RTU is lost */
	EXPECT_FALSE(server.has_event());
	pass(5 * second);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_FALSE(client.has_event());
}

TEST_F(Cm, ARequestThatWaitsIsNotRepeatedSoon)
{
	server.listener();
	client.connecting(server);
	deliver();
	pass(5 * second);
	deliver(); /* the request again, and the MRA for it */
	EXPECT_EQ(server.counted(Counter::cm_duplicates), 1u);
	pass(60 * second);
	EXPECT_TRUE(wire.empty());
	EXPECT_FALSE(client.has_event());
}

TEST_F(Cm, ResolvesADatagramService)
{
	server.listener(RDMA_PS_UDP);

	const u32 id = client.resolved(server, RDMA_PS_UDP);

	EXPECT_EQ(client.connect(id, Process::param(0, "who")), 0);
	deliver();

	const rdma_ucm_event_resp request = server.event();

	EXPECT_EQ(request.event, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_STREQ(reinterpret_cast<const char *>(request.param.ud.private_data), "who");
	/* The QPs of both ends have the Q_Key of rdma_cm. */
	EXPECT_EQ(server.qp_attr(request.id, IBV_QPS_INIT).qkey, udp_qkey);
	EXPECT_EQ(client.qp_attr(id, IBV_QPS_INIT).qkey, udp_qkey);
	EXPECT_EQ(server.accept(request.id, Process::param(server_qpn, "me")), 0);
	deliver();

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(event.param.ud.qp_num, server_qpn);
	EXPECT_EQ(event.param.ud.qkey, udp_qkey);
	EXPECT_STREQ(reinterpret_cast<const char *>(event.param.ud.private_data), "me");
	EXPECT_FALSE(memcmp(event.param.ud.ah_attr.grh.dgid, server.port.address().ip().b, 16));
	EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
}

TEST_F(Cm, ADatagramServiceThatIsNotThereIsUnreachable)
{
	const u32 id = client.resolved(server, RDMA_PS_UDP);

	EXPECT_EQ(client.connect(id, Process::param(0)), 0);
	be_refused();

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_UNREACHABLE);
	EXPECT_EQ(event.status, 1u);
}

TEST_F(Cm, AFloodOfRequestsIsBoundedAndExpires)
{
	constexpr u32 backlog = 8, flood = 100;
	const u32 listener = server.listener(RDMA_PS_TCP, backlog);

	client.connecting(server);

	Packet packet = wire.front();

	wire.clear();
	for (u32 i = 0; i < flood; ++i) {
		packet.mad.req.local_id = htobe32(1000 + i);
		packet.mad.req.qpn_resources = htobe32((1000 + i) << 8);
		deliver(packet);
	}
	EXPECT_EQ(server.counted(Counter::cm_backlog_full), flood - backlog);
	pass(121 * second);
	EXPECT_EQ(server.counted(Counter::cm_expired), backlog);
	EXPECT_FALSE(server.has_event());
	/* There is room again. */
	packet.mad.req.local_id = htobe32(5000);
	deliver(packet);
	EXPECT_TRUE(server.has_event());
	EXPECT_EQ(server.destroy(listener), 0);
	EXPECT_FALSE(server.has_event());
}

TEST_F(Cm, ARequesterThatGivesUpTakesItsRequestBack)
{
	server.listener();

	const u32 id = client.connecting(server);

	deliver();
	EXPECT_TRUE(server.has_event());
	EXPECT_EQ(client.destroy(id), 2);
	deliver();
	EXPECT_FALSE(server.has_event());
}

TEST_F(Cm, AQpThatConnectsAgainEndsItsOldConnection)
{
	establish();

	/* The client died and begins again with the same QP number. */
	Process again{"127.0.0.11", 3, wire, now};
	const u32 id = again.connecting(server);

	ASSERT_EQ(wire.size(), 1u);
	deliver(wire.front());
	wire.pop_front();
	ASSERT_EQ(wire.size(), 2u);
	EXPECT_EQ(attr(wire[0]), SIRDMA_CM_REJ);
	EXPECT_EQ(be16toh(wire[0].mad.rej.reason), SIRDMA_CM_REJECT_STALE);
	EXPECT_EQ(attr(wire[1]), SIRDMA_CM_DREQ);
	EXPECT_EQ(server.counted(Counter::cm_stale), 1u);
	again.agent.receive(again.port, wire[0].src, wire[0].mad);
	EXPECT_EQ(again.event().status, 10u);
	EXPECT_EQ(again.destroy(id), 3);
}

TEST_F(Cm, IgnoresWhatComesFromAnotherAddress)
{
	const auto [id, request] = establish();
	IpAddress stranger;

	IpAddress::parse("127.0.0.13", stranger);
	EXPECT_EQ(client.disconnect(id), 0);
	server.agent.receive(server.port, stranger, wire.front().mad);
	EXPECT_FALSE(server.has_event());
	EXPECT_EQ(server.counted(Counter::cm_unexpected), 1u);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(server.destroy(request), 2);
}

/* Another user of the peer's host has its address, but does not know its communication ID. */
TEST_F(Cm, LetsNoOtherUserOfTheHostEndAConnection)
{
	const auto [id, request] = establish();

	EXPECT_EQ(client.disconnect(id), 0);
	ASSERT_EQ(wire.size(), 1u);

	const auto message = wire.front();

	wire.clear();
	for (const u16 attr : {SIRDMA_CM_DREQ, SIRDMA_CM_REJ}) {
		auto forged = message;

		forged.mad.hdr.attr_id = htobe16(attr);
		forged.mad.ids.local_id = htobe32(be32toh(message.mad.ids.local_id) + 1);
		deliver(forged);
	}
	EXPECT_FALSE(server.has_event());
	EXPECT_EQ(server.counted(Counter::cm_unexpected), 2u);
	deliver(message);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	deliver();
	EXPECT_EQ(server.destroy(request), 2);
}

/* A request of another host that names the GUID and the QP number of a peer */
TEST_F(Cm, LetsNoOtherHostEndAConnection)
{
	const auto [id, request] = establish();
	Process stranger{"127.0.0.13", 3, wire, now};

	stranger.connecting(server);
	wire.front().mad.req.ca_guid = htobe64(device_guid(client.port.address()));
	deliver(wire.front());
	wire.clear();
	EXPECT_EQ(server.counted(Counter::cm_stale), 0u);
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_FALSE(client.has_event());
	EXPECT_EQ(client.disconnect(id), 0);
	deliver();
	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(server.destroy(request), 2);
}

TEST_F(Cm, RefusesCommandsThatAreTooShortOrUnknown)
{
	rdma_ucm_cmd_hdr hdr{};

	EXPECT_EQ(client.agent.command(client.file, &hdr, sizeof(hdr) - 1), -EINVAL);
	for (u32 number = 0; number < 64; ++number) {
		hdr = {.cmd = number, .in = 0, .out = 0};
		const ssize_t err = client.agent.command(client.file, &hdr, sizeof(hdr));

		EXPECT_LT(err, 0) << number;
		hdr.in = 1;
		EXPECT_EQ(client.agent.command(client.file, &hdr, sizeof(hdr)), -EINVAL) << number;
	}
	/* No room for the answer */
	rdma_ucm_create_id command{};

	command.ps = RDMA_PS_TCP;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_CREATE_ID, command), -ENOSPC);
}

/* librdmacm finds out by this command that there is AF_IB; what then comes of it is the kernel's errno. */
TEST_F(Cm, KnowsNoDeviceByAnAddressOfInfiniband)
{
	rdma_ucm_bind command{};
	SockaddrIb sa{};

	sa.family = AF_IB;
	sa.gid[15] = 1;
	command.id = client.create(RDMA_PS_IB);
	command.addr_size = sizeof(sa);
	memcpy(&command.addr, &sa, sizeof(sa));
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_BIND, command), -ENODEV);
	command.addr_size = sizeof(sa) - 1;
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_BIND, command), -EINVAL);
}

/* An address is resolved when the neighbour has answered, and not before. */
TEST_F(Cm, WaitsForTheNeighbour)
{
	const u32 id = client.create();

	client.next_hop_error = EAGAIN;
	EXPECT_EQ(client.resolve(id, server.port.address(), 2000), 0);
	for (int i = 0; i < 10; ++i)
		pass(second / 10);
	EXPECT_FALSE(client.has_event());
	EXPECT_NE(client.agent.next_due(), Agent::never_due);
	client.next_hop_error = 0;
	pass(second / 10);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
}

TEST_F(Cm, ANeighbourThatDoesNotAnswerEndsTheResolution)
{
	const u32 id = client.create();

	client.next_hop_error = EAGAIN;
	EXPECT_EQ(client.resolve(id, server.port.address(), 500), 0);
	EXPECT_EQ(client.resolve(id, server.port.address(), 500), -EINVAL) << "it is asked already";
	for (int i = 0; i < 6; ++i)
		pass(second / 10);

	const rdma_ucm_event_resp event = client.event();

	EXPECT_EQ(event.event, RDMA_CM_EVENT_ADDR_ERROR);
	EXPECT_EQ(static_cast<int>(event.status), -ETIMEDOUT);
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
	/* As with the kernel, the same ID may try another address. */
	client.next_hop_error = 0;
	EXPECT_EQ(client.resolve(id, server.port.address()), 0);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(Cm, AnIdThatIsDestroyedAsksNoLonger)
{
	const u32 id = client.create();

	client.next_hop_error = EAGAIN;
	EXPECT_EQ(client.resolve(id, server.port.address(), 500), 0);
	EXPECT_EQ(client.destroy(id), 0);
	EXPECT_EQ(client.agent.next_due(), Agent::never_due);
	pass(second);
	EXPECT_FALSE(client.has_event());
}

TEST_F(Cm, MigratesAnIdWithItsEvents)
{
	rdma_ucm_migrate_resp resp{};
	rdma_ucm_migrate_id command{};
	const int other = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	eventfd_t count;

	ASSERT_EQ(client.agent.open_channel(other), 0);

	const u32 id = client.connecting(server);

	be_refused();
	EXPECT_TRUE(client.has_event());
	command.response = reinterpret_cast<uintptr_t>(&resp);
	command.id = id;
	command.fd = static_cast<u32>(client.file);

	struct {
		rdma_ucm_cmd_hdr hdr;
		rdma_ucm_migrate_id body;
	} message = {
		{.cmd = RDMA_USER_CM_CMD_MIGRATE_ID, .in = sizeof(command), .out = sizeof(resp)},
		command};

	EXPECT_EQ(client.agent.command(other, &message, sizeof(message)),
		  static_cast<ssize_t>(sizeof(message)));
	EXPECT_EQ(resp.events_reported, 2u);
	EXPECT_FALSE(client.has_event());
	EXPECT_EQ(eventfd_read(other, &count), 0);
	EXPECT_EQ(client.destroy(id), -ENOENT);
	client.agent.close_channel(other);
	::close(other);
}

TEST_F(Cm, MigratesAnIdToItsOwnChannel)
{
	rdma_ucm_migrate_resp resp{};
	rdma_ucm_migrate_id command{};
	const u32 id = client.connecting(server);

	be_refused();
	ASSERT_TRUE(client.has_event());
	command.response = reinterpret_cast<uintptr_t>(&resp);
	command.id = id;
	command.fd = static_cast<u32>(client.file);
	EXPECT_EQ(client.run(RDMA_USER_CM_CMD_MIGRATE_ID, command, &resp), 0);
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_REJECTED);
	EXPECT_FALSE(client.has_event());
}

/* Messages with fields changed at random, in every state. Afterwards the agent still connects. */
TEST_F(Cm, SurvivesMessagesWithWrongFields)
{
	std::mt19937 random(1);
	const auto [id, request] = establish();
	std::vector<sirdma_mad> seeds;

	for (const uint16_t number :
	     {SIRDMA_CM_REQ, SIRDMA_CM_MRA, SIRDMA_CM_REJ, SIRDMA_CM_REP, SIRDMA_CM_RTU,
	      SIRDMA_CM_DREQ, SIRDMA_CM_DREP, SIRDMA_CM_SIDR_REQ, SIRDMA_CM_SIDR_REP}) {
		client.connecting(server);
		seeds.push_back(wire.back().mad);
		seeds.back().hdr.attr_id = htobe16(number);
		if (number != SIRDMA_CM_REQ)
			seeds.back().ids.remote_id =
				htobe32(server.port.slot() << Agent::handle_bits | request);
		wire.clear();
	}
	std::vector<u32> requests;
	for (unsigned i = 0; i < 50000; ++i) {
		sirdma_mad mad = seeds[random() % seeds.size()];
		auto *bytes = reinterpret_cast<uint8_t *>(&mad);

		for (unsigned n = random() % 4; n; --n)
			bytes[random() % sizeof(mad)] = static_cast<uint8_t>(random());
		server.agent.receive(server.port, client.port.address(), mad);
		wire.clear();
		if (!(random() % 64))
			pass(second);
		while (server.has_event()) {
			const rdma_ucm_event_resp event = server.event();

			if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
				requests.push_back(event.id);
		}
	}
	/* One of them may have the communication id of the last connection below. */
	for (const u32 one : requests)
		server.destroy(one);
	EXPECT_GE(server.counted(Counter::cm_received), 50000u);
	EXPECT_GT(server.counted(Counter::cm_malformed), 0u);
	pass(200 * second);
	wire.clear();
	while (client.has_event())
		client.event();

	/* With another QP, as the others may be connected */
	const u32 last = client.resolved(server);

	EXPECT_EQ(client.connect(last, Process::param(4711)), 0);
	deliver();
	EXPECT_EQ(server.event().param.conn.qp_num, 4711u);
	client.destroy(id);
}

} // namespace

} // namespace sirdma::twin::cm
