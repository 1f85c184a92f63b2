// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The connection manager of a process: messages of peers and commands of its program.
//
// Input: steps. A step is a message with some bytes changed, a command, the arrival of what waits
// on the wire, its loss, or time. Oracles: each message that comes is counted; a listener has no
// more requests than its backlog; an event channel is readable exactly when an event waits; when
// the channel is closed no timer runs, and whoever connects afterwards is served.
#include "../twin/cm_world.hpp"
#include "input.hpp"

namespace sirdma::twin::cm
{
namespace
{

using sirdma::test::Input;
using namespace test;

constexpr u32 backlog = 4;

class World : Pair {
public:
	using Pair::end;

	World() { server.listener(RDMA_PS_TCP, backlog); }

	void step(Input &input)
	{
		switch (input.byte() % 8) {
		case 0:
			return change(input);
		case 1:
			return deliver(64);
		case 2:
			wire.clear();
			return;
		case 3:
			return pass(input.byte() % 130 * second);
		case 4:
			if (ids.size() < 8)
				ids.push_back(connect(input.half() | 2));
			return;
		case 5:
			return fetch();
		case 6:
			if (!requests.empty())
				command(server, requests[input.byte() % requests.size()], input);
			return;
		default:
			if (!ids.empty())
				command(client, ids[input.byte() % ids.size()], input);
		}
	}

private:
	/* With events of the address and the route fetched */
	u32 connect(u32 qpn)
	{
		while (client.has_event())
			client.event();

		const u32 id = client.resolved(server);

		EXPECT_EQ(client.connect(id, Process::param(qpn)), 0);
		return id;
	}

	/* The message that waits first, with other bytes: it stays, too. */
	void change(Input &input)
	{
		if (wire.empty())
			return;

		Packet packet = wire.front();
		auto *bytes = reinterpret_cast<uint8_t *>(&packet.mad);

		for (unsigned n = input.byte() % 8; n; --n) {
			const u8 at = input.byte();

			bytes[at] = input.byte();
		}
		deliver(packet);
	}

	void fetch()
	{
		while (client.has_event())
			client.event();
		for (unsigned n = 0; server.has_event(); ++n) {
			const rdma_ucm_event_resp event = server.event();

			if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST && requests.size() < 64)
				requests.push_back(event.id);
			EXPECT_LT(n, 1000u);
		}
	}

	void command(Process &process, u32 id, Input &input)
	{
		rdma_ucm_reject reject{};

		switch (input.byte() % 7) {
		case 0:
			process.accept(id, Process::param(input.half()));
			return;
		case 1:
			process.accept(id, {});
			return;
		case 2:
			process.disconnect(id);
			return;
		case 3:
			reject.id = id;
			reject.private_data_len = input.byte();
			process.run(RDMA_USER_CM_CMD_REJECT, reject);
			return;
		case 5:
			if (memberships.size() < 64)
				memberships.push_back(client.join(datagrams, input.byte()));
			return;
		case 6:
			if (!memberships.empty())
				client.leave(memberships[input.byte() % memberships.size()]);
			return;
		default:
			process.destroy(id);
		}
	}

	std::vector<u32> ids, requests;
	const u32 datagrams = client.bound();
	std::vector<ssize_t> memberships;
};

} // namespace
} // namespace sirdma::twin::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sirdma::test::fail_loudly();

	sirdma::twin::cm::World world;
	sirdma::test::Input input(data, size);

	for (int i = 0; i < 200 && input.more(); ++i)
		world.step(input);
	world.end();
	return 0;
}
