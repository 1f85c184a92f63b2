/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "file_message.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace sirdma::twin
{

namespace
{

constexpr size_t control_max = CMSG_SPACE(message_files_max * sizeof(int));

/*
 * Take all files of the message, and close those that do not fit into @files. Returns how many
 * came.
 */
size_t take_files(msghdr &m, std::span<Fd> files) noexcept
{
	size_t n = 0;

	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, reinterpret_cast<uint8_t *>(c) + at, sizeof(fd));

			Fd file(fd);

			if (n < files.size())
				files[n] = std::move(file);
			++n;
		}
	}
	return n;
}

} // namespace

bool send_with_files(int sock, const void *message, size_t len, std::span<const int> files) noexcept
{
	alignas(cmsghdr) uint8_t control[control_max] = {};
	iovec piece = {.iov_base = const_cast<void *>(message), .iov_len = len};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = CMSG_SPACE(files.size_bytes());

	cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(files.size_bytes());
	memcpy(CMSG_DATA(c), files.data(), files.size_bytes());
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(len);
}

namespace
{

/* Returns as recvmsg(). @came: how many files there were; @flags: those of the message. */
ssize_t receive(int sock, void *message, size_t len, std::span<Fd> files, size_t &came,
		int &flags) noexcept
{
	alignas(cmsghdr) uint8_t control[control_max];
	iovec piece = {.iov_base = message, .iov_len = len};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	came = n < 0 ? 0 : take_files(m, files);
	flags = m.msg_flags;
	return n;
}

} // namespace

bool receive_with_files(int sock, void *message, size_t len, std::span<Fd> files) noexcept
{
	size_t came;
	int flags;
	const ssize_t n = receive(sock, message, len, files, came, flags);

	if (n < 0)
		return false;
	errno = !n ? ENOTCONN : flags & MSG_CTRUNC ? EMFILE : EPROTO;
	return n == static_cast<ssize_t>(len) && !(flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	       came == files.size();
}

ssize_t receive_with_file(int sock, void *message, size_t len, Fd &file) noexcept
{
	size_t came;
	int flags;

	return receive(sock, message, len, {&file, 1}, came, flags);
}

} // namespace sirdma::twin
