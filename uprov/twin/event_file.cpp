/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "event_file.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

/* Returns -1 with EAGAIN if there is no event, with another error if the kernel cannot do this. */
ssize_t read_counter(int fd) noexcept
{
	eventfd_t value;
	const iovec piece = {.iov_base = &value, .iov_len = sizeof(value)};

	return preadv2(fd, &piece, 1, -1, RWF_NOWAIT);
}

/* Remove all datagrams that are in the socket, as far as they came before it was connected. */
void empty_socket(int fd) noexcept
{
	eventfd_t value;

	while (recv(fd, &value, sizeof(value), MSG_DONTWAIT) >= 0)
		;
}

/*
 * The kernel chooses the name of the socket. It accepts no datagrams of other sockets once the socket is
 * connected.
 */
bool connect_to_itself(int fd) noexcept
{
	sockaddr_un name{};
	auto *addr = reinterpret_cast<sockaddr *>(&name);
	socklen_t len = sizeof(name);

	name.sun_family = AF_UNIX;
	if (bind(fd, addr, sizeof(name.sun_family)) || getsockname(fd, addr, &len) ||
	    connect(fd, addr, len))
		return false;
	empty_socket(fd);
	return true;
}

int create_socket() noexcept
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect_to_itself(fd))
		return fd;
	close(fd);
	return -1;
}

} // namespace

int create_event_file() noexcept
{
	const NoCancel no_cancel;
	const int counter = eventfd(0, EFD_CLOEXEC);

	if (counter < 0 || (read_counter(counter) < 0 && errno == EAGAIN))
		return counter;

	const int socket = create_socket();

	if (socket < 0)
		return counter;
	close(counter);
	return socket;
}

bool take_back_event(int fd) noexcept
{
	eventfd_t value;

	if (recv(fd, &value, sizeof(value), MSG_DONTWAIT) >= 0)
		return true;
	return errno == ENOTSOCK && read_counter(fd) >= 0;
}

} // namespace sirdma::twin
