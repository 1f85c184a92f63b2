/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many connections of rdma_cm at the same time: cm_many server|client ADDRESS PORT COUNT. The client
 * sends its first message when it has COUNT established connections, and the server answers when it
 * has (the protocol of cm_example.hpp). No connection is closed before the client has compared the
 * data of all. Exits with 0 when all of it was right.
 */
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include <sys/resource.h>

#include "cm_example.hpp"

namespace
{

using namespace example;

/* An emulated machine takes seconds to resolve a thousand addresses at once. */
constexpr int resolve_ms = 30000;

/* What a client sends with its request, so that both ends take the connections in the same order */
struct Number {
	uint32_t value;
};

class Many {
public:
	Many(const char *address, const char *port, uint32_t count, bool passive) : count_(count)
	{
		rdma_addrinfo hints{};

		channel_ = rdma_create_event_channel();
		check(channel_, "rdma_create_event_channel");
		hints.ai_flags = passive ? RAI_PASSIVE : 0;
		hints.ai_port_space = RDMA_PS_TCP;
		check(!rdma_getaddrinfo(address, port, &hints, &addresses_), "rdma_getaddrinfo");
	}

	~Many()
	{
		for (auto &[id, number] : numbers_) {
			connections_.erase(number.value);
			check(!rdma_destroy_id(id), "rdma_destroy_id");
		}
		if (listener_)
			check(!rdma_destroy_id(listener_), "rdma_destroy_id");
		rdma_freeaddrinfo(addresses_);
		rdma_destroy_event_channel(channel_);
	}

	Many(const Many &) = delete;
	Many &operator=(const Many &) = delete;

	void serve()
	{
		check(!rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_"
										   "id");
		check(!rdma_bind_addr(listener_, addresses_->ai_src_addr), "rdma_bind_addr");
		check(!rdma_listen(listener_, static_cast<int>(count_)), "rdma_listen");
		until(established_);
		for (auto &[number, connection] : connections_) {
			const Message keys = connection->receive(Kind::keys);

			connection->send_keys();

			const Message written = connection->receive(Kind::written);

			connection->compare(written.seed);
			connection->write_pattern(keys, written.seed + 1);
		}
		until(disconnected_);
	}

	void connect()
	{
		const auto began = std::chrono::steady_clock::now();

		for (uint32_t i = 0; i < count_; ++i) {
			rdma_cm_id *id;

			check(!rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_"
										    "id");
			numbers_[id] = {i};
			check(!rdma_resolve_addr(id, nullptr, addresses_->ai_dst_addr, resolve_ms),
			      "rdma_resolve_addr");
		}
		until(established_);

		const std::chrono::duration<double, std::milli> took =
			std::chrono::steady_clock::now() - began;

		for (auto &[number, connection] : connections_) {
			connection->send_keys();
			connection->write_pattern(connection->receive(Kind::keys), number);
			connection->receive(Kind::written);
			connection->compare(number + 1);
		}
		for (auto &[id, number] : numbers_)
			check(!rdma_disconnect(id), "rdma_disconnect");
		until(disconnected_);
		printf("%u connections at once in %.0f ms, %u bytes each way are right\n", count_,
		       took.count(), buffer_bytes);
	}

private:
	/* Handle events until @counter is that of all connections. */
	void until(const uint32_t &counter)
	{
		while (counter < count_) {
			rdma_cm_event *event;
			Number number{};

			check(!rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");

			rdma_cm_id *id = event->id;
			const rdma_cm_event_type type = event->event;
			const int status = event->status;

			if (type == RDMA_CM_EVENT_CONNECT_REQUEST &&
			    event->param.conn.private_data_len >= sizeof(number))
				memcpy(&number, event->param.conn.private_data, sizeof(number));
			rdma_ack_cm_event(event);
			handle(id, type, status, number.value);
		}
	}

	void handle(rdma_cm_id *id, rdma_cm_event_type type, int status, uint32_t number)
	{
		switch (type) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			check(!rdma_resolve_route(id, resolve_ms), "rdma_resolve_route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			request(id, numbers_.at(id));
			break;
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			accept(id, number);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			++established_;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			++disconnected_;
			/* Answers the peer's request to disconnect. */
			rdma_disconnect(id);
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			fprintf(stderr, "%s, status %d, after %u of %u connections\n",
				rdma_event_str(type), status, established_, count_);
			exit(1);
		}
	}

	void request(rdma_cm_id *id, const Number &number)
	{
		rdma_conn_param param = conn_param();

		connections_[number.value] = std::make_unique<Connection>(id);
		param.private_data = &number;
		param.private_data_len = sizeof(number);
		check(!rdma_connect(id, &param), "rdma_connect");
	}

	void accept(rdma_cm_id *id, uint32_t number)
	{
		rdma_conn_param param = conn_param();
		auto &connection = connections_[number];

		if (connection) {
			fprintf(stderr, "two requests have the number %u\n", number);
			exit(1);
		}
		connection = std::make_unique<Connection>(id);
		numbers_[id] = {number};
		check(!rdma_accept(id, &param), "rdma_accept");
	}

	const uint32_t count_;
	uint32_t established_ = 0, disconnected_ = 0;
	rdma_event_channel *channel_;
	rdma_addrinfo *addresses_;
	rdma_cm_id *listener_ = nullptr;
	std::map<rdma_cm_id *, Number> numbers_;
	std::map<uint32_t, std::unique_ptr<Connection>> connections_; /* by number */
};

/* Each connection has a completion channel, which is a file. */
void allow_files()
{
	rlimit files;

	check(!getrlimit(RLIMIT_NOFILE, &files), "getrlimit");
	files.rlim_cur = files.rlim_max;
	check(!setrlimit(RLIMIT_NOFILE, &files), "setrlimit");
}

} // namespace

int main(int argc, char **argv)
{
	const std::string role = argc == 5 ? argv[1] : "";

	if (role != "server" && role != "client") {
		fprintf(stderr, "cm_many server|client ADDRESS PORT COUNT\n");
		return 2;
	}
	allow_files();

	Many many(argv[2], argv[3], static_cast<uint32_t>(atoi(argv[4])), role == "server");

	if (role == "server")
		many.serve();
	else
		many.connect();
	return 0;
}
