/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An example server of rdma_cm: cm_server ADDRESS PORT CLIENTS. It serves so many clients, one
 * after the other or several at once, and exits with 0 when all of their data was right. See
 * cm_example.hpp for the protocol.
 */
#include <map>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>

#include "cm_example.hpp"

namespace
{

using namespace example;

class Server {
public:
	Server(const char *address, const char *port)
	{
		rdma_addrinfo hints{}, *to;

		channel_ = rdma_create_event_channel();
		check(channel_, "rdma_create_event_channel");
		check(!rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_"
										   "id");
		hints.ai_flags = RAI_PASSIVE;
		hints.ai_port_space = RDMA_PS_TCP;
		check(!rdma_getaddrinfo(address, port, &hints, &to), "rdma_getaddrinfo");
		check(!rdma_bind_addr(listener_, to->ai_src_addr), "rdma_bind_addr");
		rdma_freeaddrinfo(to);
		check(!rdma_listen(listener_, 8), "rdma_listen");
	}

	~Server()
	{
		check(!rdma_destroy_id(listener_), "rdma_destroy_id");
		rdma_destroy_event_channel(channel_);
	}

	/* The event loop. Each event is copied and acknowledged before it is acted on. */
	void serve(unsigned clients)
	{
		while (clients) {
			rdma_cm_event *event;

			check(!rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");

			rdma_cm_id *id = event->id;
			const rdma_cm_event_type type = event->event;
			const int status = event->status;

			rdma_ack_cm_event(event);
			switch (type) {
			case RDMA_CM_EVENT_CONNECT_REQUEST:
				accept(id);
				break;
			case RDMA_CM_EVENT_ESTABLISHED:
				talk(*connections_.at(id));
				break;
			case RDMA_CM_EVENT_DISCONNECTED:
				end(id);
				--clients;
				break;
			case RDMA_CM_EVENT_TIMEWAIT_EXIT:
				break;
			default:
				fprintf(stderr, "%s, status %d\n", rdma_event_str(type), status);
				exit(1);
			}
		}
	}

private:
	void accept(rdma_cm_id *id)
	{
		rdma_conn_param param = conn_param();

		connections_[id] = std::make_unique<Connection>(id);
		check(!rdma_accept(id, &param), "rdma_accept");
	}

	void talk(Connection &connection)
	{
		const Message keys = connection.receive(Kind::keys);

		connection.send_keys();

		const Message written = connection.receive(Kind::written);

		connection.compare(written.seed);
		connection.write_pattern(keys, written.seed + 1);
		printf("client %u: %u bytes are right\n", written.seed, written.length);
		fflush(stdout);
	}

	void end(rdma_cm_id *id)
	{
		/* Answers the client's request to disconnect. */
		rdma_disconnect(id);
		connections_.erase(id);
		check(!rdma_destroy_id(id), "rdma_destroy_id");
	}

	rdma_event_channel *channel_;
	rdma_cm_id *listener_;
	std::map<rdma_cm_id *, std::unique_ptr<Connection>> connections_;
};

} // namespace

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "cm_server ADDRESS PORT CLIENTS\n");
		return 2;
	}
	Server(argv[1], argv[2]).serve(static_cast<unsigned>(atoi(argv[3])));
	return 0;
}
