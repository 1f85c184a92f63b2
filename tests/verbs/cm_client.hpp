/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The client of the example: see cm_example.hpp. */
#pragma once

#include <memory>

#include "cm_example.hpp"

namespace example
{

inline constexpr int timeout_ms = 2000;

class Client {
public:
	/* Each step asks for something, and an event says that it is done. */
	Client(const char *address, const char *port)
	{
		rdma_addrinfo hints{}, *to;
		rdma_conn_param param = conn_param();

		channel_ = rdma_create_event_channel();
		check(channel_, "rdma_create_event_channel");
		check(!rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP), "rdma_create_id");
		hints.ai_port_space = RDMA_PS_TCP;
		check(!rdma_getaddrinfo(address, port, &hints, &to), "rdma_getaddrinfo");
		check(!rdma_resolve_addr(id_, nullptr, to->ai_dst_addr, timeout_ms), "rdma_resolve_"
										     "addr");
		rdma_freeaddrinfo(to);
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		check(!rdma_resolve_route(id_, timeout_ms), "rdma_resolve_route");
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		/* The device is known now. */
		connection_ = std::make_unique<Connection>(id_);
		check(!rdma_connect(id_, &param), "rdma_connect");
		expect(RDMA_CM_EVENT_ESTABLISHED);
	}

	~Client()
	{
		if (!id_)
			return;
		check(!rdma_disconnect(id_), "rdma_disconnect");
		expect(RDMA_CM_EVENT_DISCONNECTED);
		connection_.reset();
		check(!rdma_destroy_id(id_), "rdma_destroy_id");
		rdma_destroy_event_channel(channel_);
	}

	Client(const Client &) = delete;
	Client &operator=(const Client &) = delete;

	void talk(uint32_t seed)
	{
		connection_->send_keys();
		keys_ = connection_->receive(Kind::keys);
		connection_->write_pattern(keys_, seed);

		const Message written = connection_->receive(Kind::written);

		connection_->compare(seed + 1);
		printf("%u bytes are right\n", written.length);
	}

	/* After talk(): the server does not look at it, but its device acknowledges it. */
	void write_again(uint32_t seed) { connection_->write_pattern(keys_, seed); }

	/* In a forked child: destroy the parent's objects, which the parent goes on to use. */
	void abandon()
	{
		connection_.reset();
		check(!rdma_destroy_id(id_), "rdma_destroy_id");
		id_ = nullptr;
		rdma_destroy_event_channel(channel_);
	}

private:
	void expect(rdma_cm_event_type type)
	{
		rdma_cm_event *event;

		check(!rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");
		if (event->event != type) {
			fprintf(stderr, "%s, status %d, instead of %s\n",
				rdma_event_str(event->event), event->status, rdma_event_str(type));
			exit(1);
		}
		rdma_ack_cm_event(event);
	}

	rdma_event_channel *channel_;
	rdma_cm_id *id_;
	std::unique_ptr<Connection> connection_;
	Message keys_{}; /* of the server's buffer */
};

} // namespace example
