/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Peers of a connection manager that die, or that claim to be another. */
#include "cm_world.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

/* Another host uses a peer's GUID and communication ID: then there are two requests. */
TEST_F(Cm, KnowsRequestsByTheirAddressAsWell)
{
	Process stranger{"127.0.0.13", 3, wire, now};

	server.listener();

	const u32 id = client.connecting(server);
	const Packet own = wire.front();

	wire.clear();
	stranger.connecting(server);

	Packet other = wire.front();

	wire.clear();
	other.mad.req.ca_guid = own.mad.req.ca_guid;
	other.mad.req.local_id = own.mad.req.local_id;
	other.mad.req.qpn_resources = own.mad.req.qpn_resources;
	deliver(own);
	deliver(other);

	const u32 request = server.event().id;

	EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
	deliver(own);
	EXPECT_FALSE(server.has_event()) << "a duplicate is a second request";
	EXPECT_EQ(server.counted(Counter::cm_duplicates), 1u);
	/* The stranger may not take the client's request back, either. */
	Packet reject = other;

	reject.mad.hdr.attr_id = htobe16(SIRDMA_CM_REJ);
	reject.mad.rej = {};
	reject.mad.rej.ids.local_id = own.mad.req.local_id;
	reject.mad.rej.reason = htobe16(SIRDMA_CM_REJECT_TIMEOUT);
	memcpy(reject.mad.rej.info, &own.mad.req.ca_guid, sizeof(own.mad.req.ca_guid));
	wire.clear();
	deliver(reject);
	EXPECT_EQ(server.accept(request, Process::param(server_qpn)), 0);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(client.destroy(id), 3);
}

/* After each step of the handshake one end dies: it sends nothing any more, and takes nothing. */
class CmDeath : public Cm {
protected:
	/* Time passes for who is left, until it has nothing to wait for. */
	void outlive(Process &left)
	{
		for (int i = 0; i < 100 && left.agent.next_due() != Agent::never_due; ++i) {
			wire.clear();
			now += 5 * second;
			left.agent.expire();
		}
		wire.clear();
		EXPECT_EQ(left.agent.next_due(), Agent::never_due);
	}

	/* The client connects again after its death, as another process. */
	void connect_again()
	{
		Process again{"127.0.0.11", 4, wire, now};
		const u32 id = again.resolved(server);

		EXPECT_EQ(again.connect(id, Process::param(client_qpn + 7)), 0);
		deliver(wire.front());
		wire.clear();
		EXPECT_EQ(server.event().event, RDMA_CM_EVENT_CONNECT_REQUEST);
	}

	void expect_event(Process &of, u32 event, int status)
	{
		const rdma_ucm_event_resp got = of.event();

		EXPECT_EQ(got.event, event);
		EXPECT_EQ(static_cast<int>(got.status), status);
	}

	/* Up to the request; the server has fetched it. */
	u32 request()
	{
		server.listener();
		id = client.connecting(server);
		deliver();
		return server.event().id;
	}

	u32 id = 0;
};

TEST_F(CmDeath, TheClientAfterItsRequest)
{
	server.listener();
	client.connecting(server);
	deliver();
	outlive(server);
	EXPECT_FALSE(server.has_event()) << "a request of nobody";
	EXPECT_EQ(server.counted(Counter::cm_expired), 1u);
	connect_again();
}

TEST_F(CmDeath, TheClientBeforeItsRequestIsAccepted)
{
	const u32 of_server = request();

	EXPECT_EQ(server.accept(of_server, Process::param(server_qpn)), 0);
	outlive(server);
	expect_event(server, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	EXPECT_EQ(server.counted(Counter::cm_timeouts), 1u);
	EXPECT_EQ(server.destroy(of_server), 1);
	connect_again();
}

TEST_F(CmDeath, TheClientAfterTheReply)
{
	const u32 of_server = request();

	EXPECT_EQ(server.accept(of_server, Process::param(server_qpn)), 0);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	outlive(server);
	expect_event(server, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	EXPECT_EQ(server.destroy(of_server), 1);
	connect_again();
}

/* Who disconnects learns that the peer does not answer. */
TEST_F(CmDeath, TheClientOfAConnection)
{
	const auto [of_client, of_server] = establish();

	EXPECT_EQ(server.disconnect(of_server), 0);
	outlive(server);
	expect_event(server, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	expect_event(server, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	EXPECT_EQ(server.destroy(of_server), 3);
	connect_again();
}

TEST_F(CmDeath, TheServerBeforeTheRequest)
{
	client.connecting(server);
	outlive(client);
	expect_event(client, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	EXPECT_EQ(client.counted(Counter::cm_retries), max_cm_retries);
}

/* It said that the request waits, and then nothing any more. */
TEST_F(CmDeath, TheServerWithTheRequest)
{
	request();
	pass(5 * second);
	deliver();
	outlive(client);
	expect_event(client, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

TEST_F(CmDeath, TheServerAfterItsReply)
{
	const u32 of_server = request();

	EXPECT_EQ(server.accept(of_server, Process::param(server_qpn)), 0);
	deliver();
	EXPECT_EQ(client.event().event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(client.accept(id, {}), 0);
	outlive(client);
	EXPECT_FALSE(client.has_event()) << "its verbs find out";
	EXPECT_EQ(client.disconnect(id), 0);
	outlive(client);
	expect_event(client, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	expect_event(client, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	EXPECT_EQ(client.destroy(id), 5);
}

} // namespace

} // namespace sirdma::twin::cm
