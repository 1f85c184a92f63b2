// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Preloaded: a host whose kernel answers for RDMA devices, and has none. */
#include <dlfcn.h>
#include <linux/netlink.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		protocol = NETLINK_USERSOCK;
	return next(domain, type, protocol);
}
