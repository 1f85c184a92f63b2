/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * twin_cm_fork ADDRESS PORT: a client of cm_server that forks once it is connected. One child only
 * exits. The next destroys its parent's objects, and opens the device anew; it cannot connect,
 * because librdmacm keeps the context of its parent. The parent's connection lives on. Each line that is
 * printed is a thing that worked.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../verbs/cm_client.hpp"
#include "end.hpp"

namespace
{

using example::Client;

void expect_child(pid_t pid, const char *name)
{
	int status = -1;

	check(pid > 0 && waitpid(pid, &status, 0) == pid && !status, name);
	printf("%s\n", name);
	fflush(stdout);
}

/* Two ends of a connection of its own, without rdma_cm */
void use_device()
{
	ibv_device **list = ibv_get_device_list(nullptr);

	check(list && *list, "no devices");

	End a(*list), b(*list);

	a.connect(b);
	b.connect(a);
	a.write(b, 10);
	b.write(a, 20);
}

/* The address cannot be resolved, and the program is told. */
void expect_no_rdma_cm(const char *address, const char *port)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_addrinfo hints{}, *to;
	rdma_cm_event *event;
	rdma_cm_id *id;

	hints.ai_port_space = RDMA_PS_TCP;
	check(channel && !rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
	check(!rdma_getaddrinfo(address, port, &hints, &to), "rdma_getaddrinfo");
	check(!rdma_resolve_addr(id, nullptr, to->ai_dst_addr, 2000), "rdma_resolve_addr");
	check(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	check(event->event == RDMA_CM_EVENT_ADDR_ERROR, rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	check(!rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	rdma_freeaddrinfo(to);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "twin_cm_fork ADDRESS PORT\n");
		return 2;
	}

	Client client(argv[1], argv[2]);

	client.talk(1);
	fflush(stdout);

	pid_t pid = fork();

	/* With the handlers of atexit(), but not the client's destructor */
	if (!pid)
		exit(0);
	expect_child(pid, "a child that exits");
	client.write_again(2);

	pid = fork();
	if (!pid) {
		client.abandon();
		use_device();
		expect_no_rdma_cm(argv[1], argv[2]);
		exit(0);
	}
	expect_child(pid, "a child with a device of its own");
	client.write_again(4);
	printf("the parent goes on\n");
	return 0;
}
