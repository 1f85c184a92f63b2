/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "port_words.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

constexpr size_t file_bytes = 4096;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

PortFile::~PortFile()
{
	if (words_)
		munmap(words_, file_bytes);
}

PortFile PortFile::create() noexcept
{
	Fd file(memfd_create("sirdma-port", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (!file || ftruncate(file.get(), file_bytes) || fcntl(file.get(), F_ADD_SEALS, seals))
		return {};
	return map(std::move(file));
}

/* All-zero memory is what the words begin as. */
PortFile PortFile::map(Fd file) noexcept
{
	const int has = fcntl(file.get(), F_GET_SEALS);
	PortFile port;
	struct stat st;

	if (has < 0 || (has & seals) != seals || fstat(file.get(), &st) ||
	    st.st_size != file_bytes) {
		errno = EINVAL;
		return port;
	}

	void *at = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);

	if (at == MAP_FAILED)
		return port;
	(void)madvise(at, file_bytes, MADV_DONTFORK);
	port.file_ = std::move(file);
	port.words_ = std::launder(static_cast<PortWords *>(at));
	return port;
}

bool send_grant(int sock, const PortGrant &grant, const int (&files)[PortFiles::count]) noexcept
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(files))] = {};
	iovec piece = {.iov_base = const_cast<PortGrant *>(&grant), .iov_len = sizeof(grant)};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(files));
	memcpy(CMSG_DATA(c), files, sizeof(files));
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(sizeof(grant));
}

bool receive_grant(int sock, PortGrant &grant, PortFiles &files) noexcept
{
	Fd *const to[PortFiles::count] = {&files.socket, &files.name, &files.words};
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(PortFiles::count * sizeof(int))];
	iovec piece = {.iov_base = &grant, .iov_len = sizeof(grant)};
	size_t got = 0;
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return false;
	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, reinterpret_cast<uint8_t *>(c) + at, sizeof(fd));

			Fd file(fd);

			if (got < PortFiles::count)
				*to[got++] = std::move(file);
		}
	}
	errno = !n ? ENOTCONN : m.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
	return n == ssize_t(sizeof(grant)) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	       got == PortFiles::count && grant.magic == PortGrant::magic_value;
}

} // namespace sirdma::twin
