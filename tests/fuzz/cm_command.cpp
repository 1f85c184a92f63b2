// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The commands of rdma_ucm, byte by byte: what a program, or a librdmacm that this one does not know, may
// write to an event channel.
//
// Input: steps. A step is a command with arbitrary bytes and lengths, for an ID that may be one of the
// channel's, or the arrival of what waits on the wire, or time, or that a neighbour does not answer or no file is
// left. Only the place of an answer and an option's value are always memory of the program, and just as long as the
// command says. Oracles: AddressSanitizer for the command's bytes, the answer's room and the option's value; a command
// returns its length or an errno; when the channel is closed no timer runs and no event is left, and whoever connects
// afterwards is served.
#include <infiniband/sa.h>

#include "../twin/cm_world.hpp"
#include "input.hpp"

namespace sirdma::twin::cm
{
namespace
{

using sirdma::test::Input;
using namespace test;

constexpr size_t none = ~size_t{0};

// The kernel's limit, which is the agent's; and lengths of values that there are
constexpr u32 option_max = 4 << 20;
constexpr u32 option_lengths[] = {sizeof(u8), sizeof(int), sizeof(ibv_path_data),
				  2 * sizeof(ibv_path_data)};

// Where a command has a pointer and an ID.
struct Shape {
	u32 number;
	size_t pointer, id;
};

constexpr Shape shapes[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, offsetof(rdma_ucm_create_id, response), none},
	{RDMA_USER_CM_CMD_DESTROY_ID, offsetof(rdma_ucm_destroy_id, response),
	 offsetof(rdma_ucm_destroy_id, id)},
	{RDMA_USER_CM_CMD_BIND_IP, none, offsetof(rdma_ucm_bind_ip, id)},
	{RDMA_USER_CM_CMD_RESOLVE_IP, none, offsetof(rdma_ucm_resolve_ip, id)},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, none, offsetof(rdma_ucm_resolve_route, id)},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, offsetof(rdma_ucm_query, response),
	 offsetof(rdma_ucm_query, id)},
	{RDMA_USER_CM_CMD_CONNECT, none, offsetof(rdma_ucm_connect, id)},
	{RDMA_USER_CM_CMD_LISTEN, none, offsetof(rdma_ucm_listen, id)},
	{RDMA_USER_CM_CMD_ACCEPT, none, offsetof(rdma_ucm_accept, id)},
	{RDMA_USER_CM_CMD_REJECT, none, offsetof(rdma_ucm_reject, id)},
	{RDMA_USER_CM_CMD_DISCONNECT, none, offsetof(rdma_ucm_disconnect, id)},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, offsetof(rdma_ucm_init_qp_attr, response),
	 offsetof(rdma_ucm_init_qp_attr, id)},
	{RDMA_USER_CM_CMD_GET_EVENT, offsetof(rdma_ucm_get_event, response), none},
	{RDMA_USER_CM_CMD_GET_OPTION, none, none},
	{RDMA_USER_CM_CMD_SET_OPTION, offsetof(rdma_ucm_set_option, optval),
	 offsetof(rdma_ucm_set_option, id)},
	{RDMA_USER_CM_CMD_NOTIFY, none, offsetof(rdma_ucm_notify, id)},
	{RDMA_USER_CM_CMD_JOIN_IP_MCAST, offsetof(rdma_ucm_join_ip_mcast, response),
	 offsetof(rdma_ucm_join_ip_mcast, id)},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, offsetof(rdma_ucm_destroy_id, response),
	 offsetof(rdma_ucm_destroy_id, id)},
	{RDMA_USER_CM_CMD_MIGRATE_ID, offsetof(rdma_ucm_migrate_id, response),
	 offsetof(rdma_ucm_migrate_id, id)},
	{RDMA_USER_CM_CMD_QUERY, offsetof(rdma_ucm_query, response), offsetof(rdma_ucm_query, id)},
	{RDMA_USER_CM_CMD_BIND, none, offsetof(rdma_ucm_bind, id)},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, none, offsetof(rdma_ucm_resolve_addr, id)},
	{RDMA_USER_CM_CMD_JOIN_MCAST, offsetof(rdma_ucm_join_mcast, response),
	 offsetof(rdma_ucm_join_mcast, id)},
};

class World : Pair {
public:
	using Pair::end;

	World() { server.listener(); }

	void step(Input &input)
	{
		switch (input.byte() % 8) {
		case 0:
			return deliver(64);
		case 1:
			wire.clear();
			return;
		case 2:
			return pass(input.byte() % 130 * second);
		case 3:
			// What a command may then be about
			if (ids.size() < 64)
				ids.push_back(client.create(input.byte() & 1 ? RDMA_PS_UDP :
									       RDMA_PS_TCP));
			return;
		case 4:
			return obstruct(input.byte());
		default:
			command(input);
		}
	}

private:
	// What the host answers from now on when an ID resolves an address or listens
	void obstruct(u8 which)
	{
		constexpr int next_hops[] = {0, EAGAIN, EHOSTUNREACH};

		client.next_hop_error = next_hops[which % std::size(next_hops)];
		client.serve_error = which & 0x80 ? EMFILE : 0;
	}

	// The bytes of @shape, with a place for its answer and perhaps an ID that exists
	void fill(const Shape &shape, Input &input, std::span<u8> body, const u8 *answer)
	{
		const auto given = input.bytes(input.byte());
		u64 pointer = reinterpret_cast<uintptr_t>(answer);

		std::copy_n(given.begin(), std::min(given.size(), body.size()), body.begin());
		if (shape.number == RDMA_USER_CM_CMD_SET_OPTION)
			pointer = option_value(input, body);
		if (shape.pointer != none && body.size() >= shape.pointer + sizeof(pointer))
			memcpy(&body[shape.pointer], &pointer, sizeof(pointer));

		const u8 which = input.byte();

		if (shape.id != none && body.size() >= shape.id + sizeof(u32) && !ids.empty() &&
		    which < 224)
			memcpy(&body[shape.id], &ids[which % ids.size()], sizeof(u32));
	}

	// Where the value of the option in @body is; as long as @body says, up to what makes sense
	u64 option_value(Input &input, std::span<u8> body)
	{
		constexpr size_t max = 4 * sizeof(ibv_path_data);
		rdma_ucm_set_option cmd{};

		value.clear();
		if (body.size() < sizeof(cmd))
			return 0;
		memcpy(&cmd, body.data(), sizeof(cmd));
		if (const u8 wanted = input.byte(); wanted < 128)
			cmd.optlen = option_lengths[wanted % std::size(option_lengths)];
		// The agent refuses a longer one unread.
		if (cmd.optlen <= option_max)
			cmd.optlen = std::min<u32>(cmd.optlen, max);
		memcpy(body.data(), &cmd, sizeof(cmd));
		if (cmd.optlen > option_max)
			return reinterpret_cast<uintptr_t>(&value);

		const auto given = input.bytes(cmd.optlen);

		value.assign(given.begin(), given.end());
		value.resize(cmd.optlen);
		value.shrink_to_fit();
		return reinterpret_cast<uintptr_t>(value.data());
	}

	void command(Input &input)
	{
		const u8 which = input.byte();
		const Shape &shape = shapes[which % std::size(shapes)];
		const u32 number = which < 240 ? shape.number : which;
		const size_t in = input.half() % 400;
		const size_t out = input.half() % 1000;
		std::vector<u8> answer(out), message(sizeof(rdma_ucm_cmd_hdr) + in);
		const rdma_ucm_cmd_hdr hdr = {
			.cmd = number, .in = static_cast<u16>(in), .out = static_cast<u16>(out)};
		eventfd_t token;

		memcpy(message.data(), &hdr, sizeof(hdr));
		fill(shape, input, std::span(message).subspan(sizeof(hdr)), answer.data());
		// As the shim does it: see write_event_channel()
		if (number == RDMA_USER_CM_CMD_GET_EVENT && eventfd_read(client.file, &token))
			return;

		const ssize_t n = client.agent.command(client.file, message.data(), message.size());

		EXPECT_TRUE(n == static_cast<ssize_t>(message.size()) || (n < 0 && n > -200)) << n;
		if (number == RDMA_USER_CM_CMD_GET_EVENT && n < 0)
			eventfd_write(client.file, 1);
		learn(number, n, answer);
	}

	// IDs that the program has heard of
	void learn(u32 number, ssize_t n, const std::vector<u8> &answer)
	{
		rdma_ucm_event_resp event{};

		if (n < 0 || number != RDMA_USER_CM_CMD_GET_EVENT || ids.size() >= 64)
			return;
		memcpy(&event, answer.data(), std::min(answer.size(), sizeof(event)));
		if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			ids.push_back(event.id);
	}

	std::vector<u32> ids;
	std::vector<u8> value;
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
