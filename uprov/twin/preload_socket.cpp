/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libibverbs first asks the kernel for devices by RDMA netlink, and reads sysfs only if the
 * kernel does not support such a socket. In the sysfs view the program must use the devices
 * in the sysfs tree, so the shim refuses the socket. It also keeps the kernel from loading
 * a module because of the request.
 */
#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "shim.hpp"

namespace
{

using Socket = int (*)(int, int, int);

std::atomic<Socket> next_socket{nullptr};

} // namespace

extern "C" __attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	Socket next = next_socket.load(std::memory_order_relaxed);

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && sirdma::twin::shim_in_sysfs()) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	if (!next) {
		next = reinterpret_cast<Socket>(dlsym(RTLD_NEXT, "socket"));
		next_socket.store(next, std::memory_order_relaxed);
	}
	return next(domain, type, protocol);
}
