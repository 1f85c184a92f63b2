/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hello.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "rendezvous.hpp"

namespace sirdma::twin
{

namespace
{

/* Every file of the message, closed again unless it is the only one. */
size_t take_files(msghdr &m, Fd &file) noexcept
{
	size_t n = 0;

	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, reinterpret_cast<uint8_t *>(c) + at, sizeof(fd));
			file = Fd(fd);
			++n;
		}
	}
	return n;
}

} // namespace

bool send_hello(int sock, const Hello &hello, int rings) noexcept
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
	iovec piece = {.iov_base = const_cast<Hello *>(&hello), .iov_len = sizeof(hello)};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(rings));
	memcpy(CMSG_DATA(c), &rings, sizeof(rings));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == ssize_t(sizeof(hello));
}

bool receive_hello(int sock, Hello &hello, Fd &rings) noexcept
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	iovec piece = {.iov_base = &hello, .iov_len = sizeof(hello)};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;

	const size_t files = take_files(m, rings);

	errno = n ? EPROTO : ENOTCONN;
	return n == ssize_t(sizeof(hello)) && files == 1 &&
	       !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && hello.magic == hello_magic &&
	       hello.ring_size == ring_bytes && hello.slot < num_slots;
}

} // namespace sirdma::twin
