/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "rendezvous.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <sys/un.h>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

constexpr int backlog = 128;

/* A null byte, then text; the user in it keeps users apart by accident, credentials by intent. */
socklen_t make_name(const IpAddress &addr, uint32_t slot, sockaddr_un &sa) noexcept
{
	const uint8_t *b = addr.ip().b;
	char *text = sa.sun_path + 1;
	const size_t room = sizeof(sa.sun_path) - 1;
	int len;

	sa = {};
	sa.sun_family = AF_UNIX;
	len = snprintf(text, room, "sirdma/%u/", static_cast<unsigned>(geteuid()));
	for (unsigned i = 0; i < sizeof(addr.ip().b); ++i)
		len += snprintf(text + len, room - static_cast<size_t>(len), "%02x", b[i]);
	len += snprintf(text + len, room - static_cast<size_t>(len), "/%u/%u", addr.scope(), slot);
	return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
				      static_cast<size_t>(len));
}

Fd open_socket() noexcept
{
	return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_of_this_user(int fd) noexcept
{
	ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid();
}

} // namespace

Fd rendezvous_listen(const IpAddress &addr, uint32_t slot) noexcept
{
	sockaddr_un sa;
	const socklen_t len = make_name(addr, slot, sa);
	Fd fd = open_socket();

	if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len) ||
	    listen(fd.get(), backlog))
		return Fd();
	return fd;
}

Fd rendezvous_connect(const IpAddress &addr, uint32_t slot) noexcept
{
	sockaddr_un sa;
	const socklen_t len = make_name(addr, slot, sa);
	Fd fd = open_socket();

	if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len))
		return Fd();
	if (!is_of_this_user(fd.get())) {
		errno = EACCES;
		return Fd();
	}
	return fd;
}

Fd rendezvous_accept(int listener) noexcept
{
	for (;;) {
		Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (!fd || is_of_this_user(fd.get()))
			return fd;
	}
}

} // namespace sirdma::twin
