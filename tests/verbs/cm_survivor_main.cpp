/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a connection of rdma_cm whose other end stops answering:
 *   cm_survivor ask ADDRESS PORT      connects
 *   cm_survivor serve ADDRESS PORT    listens, and accepts one request
 * Either disconnects as soon as it is connected. It prints each event with the seconds since the
 * request, and exits with 0 when the connection ends by UNREACHABLE or DISCONNECTED.
 */
#include <chrono>
#include <string>

#include "cm_example.hpp"

namespace
{

using namespace example;

constexpr int resolve_ms = 5000;

class Survivor {
public:
	Survivor(const char *address, const char *port, bool passive)
	{
		rdma_addrinfo hints{}, *found;

		channel_ = rdma_create_event_channel();
		check(channel_, "rdma_create_event_channel");
		hints.ai_flags = passive ? RAI_PASSIVE : 0;
		hints.ai_port_space = RDMA_PS_TCP;
		check(!rdma_getaddrinfo(address, port, &hints, &found), "rdma_getaddrinfo");
		check(!rdma_create_id(channel_, &first_, nullptr, RDMA_PS_TCP), "rdma_create_id");
		if (passive) {
			check(!rdma_bind_addr(first_, found->ai_src_addr), "rdma_bind_addr");
			check(!rdma_listen(first_, 1), "rdma_listen");
		} else {
			check(!rdma_resolve_addr(first_, nullptr, found->ai_dst_addr, resolve_ms),
			      "rdma_resolve_addr");
		}
		rdma_freeaddrinfo(found);
	}

	~Survivor()
	{
		if (connected_)
			rdma_destroy_qp(connected_);
		if (connected_ && connected_ != first_)
			check(!rdma_destroy_id(connected_), "rdma_destroy_id");
		check(!rdma_destroy_id(first_), "rdma_destroy_id");
		rdma_destroy_event_channel(channel_);
	}

	Survivor(const Survivor &) = delete;
	Survivor &operator=(const Survivor &) = delete;

	/* Handle events until the connection has ended. */
	bool run()
	{
		for (;;) {
			rdma_cm_event *event;

			check(!rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");

			rdma_cm_id *id = event->id;
			const rdma_cm_event_type type = event->event;

			tell(type, event->status);
			rdma_ack_cm_event(event);
			switch (type) {
			case RDMA_CM_EVENT_ADDR_RESOLVED:
				check(!rdma_resolve_route(id, resolve_ms), "rdma_resolve_route");
				break;
			case RDMA_CM_EVENT_ROUTE_RESOLVED:
				connect(id);
				break;
			case RDMA_CM_EVENT_CONNECT_REQUEST:
				accept(id);
				break;
			case RDMA_CM_EVENT_ESTABLISHED:
				check(!rdma_disconnect(id), "rdma_disconnect");
				break;
			default:
				return type == RDMA_CM_EVENT_UNREACHABLE ||
				       type == RDMA_CM_EVENT_DISCONNECTED;
			}
		}
	}

private:
	void tell(rdma_cm_event_type type, int status) const
	{
		const std::chrono::duration<double> since =
			std::chrono::steady_clock::now() - began_;

		printf("%s, status %d, after %.0f s\n", rdma_event_str(type), status,
		       connected_ ? since.count() : 0);
		fflush(stdout);
	}

	void make_qp(rdma_cm_id *id)
	{
		ibv_qp_init_attr init{};

		init.cap.max_send_wr = init.cap.max_recv_wr = 1;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		init.qp_type = IBV_QPT_RC;
		check(!rdma_create_qp(id, nullptr, &init), "rdma_create_qp");
		connected_ = id;
		began_ = std::chrono::steady_clock::now();
	}

	void connect(rdma_cm_id *id)
	{
		rdma_conn_param param{};

		param.retry_count = param.rnr_retry_count = 7;
		make_qp(id);
		check(!rdma_connect(id, &param), "rdma_connect");
	}

	void accept(rdma_cm_id *id)
	{
		rdma_conn_param param{};

		make_qp(id);
		check(!rdma_accept(id, &param), "rdma_accept");
	}

	rdma_event_channel *channel_;
	rdma_cm_id *first_ = nullptr; /* the listener or the client */
	rdma_cm_id *connected_ = nullptr; /* the identifier that has a queue pair */
	std::chrono::steady_clock::time_point began_;
};

} // namespace

int main(int argc, char **argv)
{
	const std::string role = argc == 4 ? argv[1] : "";

	if (role != "ask" && role != "serve") {
		fprintf(stderr, "cm_survivor ask|serve ADDRESS PORT\n");
		return 2;
	}

	Survivor survivor(argv[2], argv[3], role == "serve");

	return survivor.run() ? 0 : 1;
}
