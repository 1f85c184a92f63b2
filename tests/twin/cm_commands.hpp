/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands that librdmacm gives by an event channel, for tests. */
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm/agent.hpp"

namespace sirdma::twin::cm::test
{

inline constexpr uint16_t service_port = 7174;
inline constexpr u64 group_uid = 4321;
inline constexpr u32 client_qpn = 0x123456, server_qpn = 0x654321;

/* A program with one event channel. What takes its commands is the derived class's. */
class Commands {
public:
	explicit Commands(int channel) : file(channel) { EXPECT_GE(file, 0) << strerror(errno); }
	Commands(const Commands &) = delete;
	Commands &operator=(const Commands &) = delete;
	virtual ~Commands() { ::close(file); }

	template <typename Command, typename Response = char>
	ssize_t run(u32 number, Command &command, Response *response = nullptr)
	{
		struct {
			rdma_ucm_cmd_hdr hdr;
			Command body;
		} __attribute__((packed)) message{};

		message.hdr = {.cmd = number,
			       .in = sizeof(Command),
			       .out = static_cast<uint16_t>(response ? sizeof(*response) : 0)};
		message.body = command;

		const ssize_t n = write(&message, sizeof(message));

		return n == sizeof(message) ? 0 : n;
	}

	u32 create(uint16_t port_space = RDMA_PS_TCP, u64 uid = 1)
	{
		rdma_ucm_create_id_resp resp{};
		rdma_ucm_create_id command{};

		command.uid = uid;
		command.response = reinterpret_cast<uintptr_t>(&resp);
		command.ps = port_space;
		command.qp_type = port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
		EXPECT_EQ(run(RDMA_USER_CM_CMD_CREATE_ID, command, &resp), 0);
		return resp.id;
	}

	ssize_t bind(u32 id, const IpAddress &addr, uint16_t to)
	{
		rdma_ucm_bind_ip command{};
		sockaddr_storage sa;

		memcpy(&command.addr, &sa, addr.to_socket(to, sa));
		command.id = id;
		return run(RDMA_USER_CM_CMD_BIND_IP, command);
	}

	ssize_t listen(u32 id, u32 backlog = 0)
	{
		rdma_ucm_listen command = {.id = id, .backlog = backlog};

		return run(RDMA_USER_CM_CMD_LISTEN, command);
	}

	u32 listener(const IpAddress &addr, uint16_t port = service_port,
		     uint16_t port_space = RDMA_PS_TCP, u32 backlog = 0)
	{
		const u32 id = create(port_space, 77);

		EXPECT_EQ(bind(id, addr, port), 0);
		EXPECT_EQ(listen(id, backlog), 0);
		return id;
	}

	/* Join 239.1.2.@n: the membership, or a negative error. */
	ssize_t join(u32 id, uint8_t n = 3)
	{
		rdma_ucm_create_id_resp resp{};
		rdma_ucm_join_ip_mcast command{};
		auto &to = reinterpret_cast<sockaddr_in &>(command.addr);

		to.sin_family = AF_INET;
		to.sin_addr.s_addr = htobe32(0xef010200u + n);
		command.response = reinterpret_cast<uintptr_t>(&resp);
		command.uid = group_uid;
		command.id = id;

		const ssize_t err = run(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command, &resp);

		return err ? err : static_cast<ssize_t>(resp.id);
	}

	/* Events reported, or a negative error. */
	ssize_t leave(ssize_t membership)
	{
		rdma_ucm_destroy_id_resp resp{};
		rdma_ucm_destroy_id command{};

		command.response = reinterpret_cast<uintptr_t>(&resp);
		command.id = static_cast<u32>(membership);

		const ssize_t err = run(RDMA_USER_CM_CMD_LEAVE_MCAST, command, &resp);

		return err ? err : static_cast<ssize_t>(resp.events_reported);
	}

	static rdma_ucm_conn_param param(u32 qpn, const char *data = "")
	{
		rdma_ucm_conn_param out{};

		out.qp_num = qpn;
		out.valid = 1;
		out.responder_resources = 3;
		out.initiator_depth = 5;
		out.retry_count = 6;
		out.rnr_retry_count = 7;
		out.private_data_len = static_cast<uint8_t>(strlen(data));
		memcpy(out.private_data, data, strlen(data));
		return out;
	}

	ssize_t connect(u32 id, const rdma_ucm_conn_param &param)
	{
		rdma_ucm_connect command{};

		command.id = id;
		command.conn_param = param;
		return run(RDMA_USER_CM_CMD_CONNECT, command);
	}

	ssize_t resolve(u32 id, const IpAddress &to, u32 timeout_ms = 1)
	{
		rdma_ucm_resolve_ip address{};
		sockaddr_storage sa;

		memcpy(&address.dst_addr, &sa, to.to_socket(service_port, sa));
		address.id = id;
		address.timeout_ms = timeout_ms;
		return run(RDMA_USER_CM_CMD_RESOLVE_IP, address);
	}

	/* An ID whose route to @to is resolved */
	u32 resolved(const IpAddress &to, uint16_t port_space = RDMA_PS_TCP)
	{
		const u32 id = create(port_space);
		rdma_ucm_resolve_route route = {.id = id, .timeout_ms = 1};

		EXPECT_EQ(resolve(id, to), 0);
		EXPECT_EQ(event().event, RDMA_CM_EVENT_ADDR_RESOLVED);
		EXPECT_EQ(run(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route), 0);
		EXPECT_EQ(event().event, RDMA_CM_EVENT_ROUTE_RESOLVED);
		return id;
	}

	ssize_t accept(u32 id, const rdma_ucm_conn_param &param, u64 uid = 2)
	{
		rdma_ucm_accept command{};

		command.id = id;
		command.uid = uid;
		command.conn_param = param;
		return run(RDMA_USER_CM_CMD_ACCEPT, command);
	}

	template <typename Command> ssize_t simple(u32 number, u32 id)
	{
		Command command{};

		command.id = id;
		return run(number, command);
	}
	ssize_t disconnect(u32 id)
	{
		return simple<rdma_ucm_disconnect>(RDMA_USER_CM_CMD_DISCONNECT, id);
	}

	/* Events reported; negative: the error. */
	int destroy(u32 id)
	{
		rdma_ucm_destroy_id_resp resp{};
		rdma_ucm_destroy_id command{};

		command.response = reinterpret_cast<uintptr_t>(&resp);
		command.id = id;

		const ssize_t err = run(RDMA_USER_CM_CMD_DESTROY_ID, command, &resp);

		return err ? static_cast<int>(err) : static_cast<int>(resp.events_reported);
	}

	bool has_event()
	{
		eventfd_t count;

		if (eventfd_read(file, &count))
			return false;
		eventfd_write(file, 1);
		return true;
	}

	rdma_ucm_event_resp event()
	{
		rdma_ucm_event_resp resp{};
		rdma_ucm_get_event command = {.response = reinterpret_cast<uintptr_t>(&resp)};
		eventfd_t count;

		if (eventfd_read(file, &count)) {
			ADD_FAILURE() << "no event";
			return resp;
		}
		EXPECT_EQ(run(RDMA_USER_CM_CMD_GET_EVENT, command, &resp), 0);
		return resp;
	}

	ib_uverbs_qp_attr qp_attr(u32 id, u32 state, ssize_t want = 0)
	{
		ib_uverbs_qp_attr resp{};
		rdma_ucm_init_qp_attr command{};

		command.response = reinterpret_cast<uintptr_t>(&resp);
		command.id = id;
		command.qp_state = state;
		EXPECT_EQ(run(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, &resp), want);
		return resp;
	}

	const int file;

private:
	/* A command: its length, or a negative errno */
	virtual ssize_t write(const void *bytes, size_t len) = 0;
};

} // namespace sirdma::twin::cm::test
