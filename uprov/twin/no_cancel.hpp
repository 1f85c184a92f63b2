/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs are no cancellation points (pthreads(7)): a thread that is cancelled in the
 * middle of one would leave locks held, or end the program, because nothing may unwind
 * through a noexcept function. Control paths disable cancellation with NoCancel. Data paths
 * call the kernel directly, past the C library's cancellation points; that costs nothing.
 */
#pragma once

#include <cstddef>
#include <ctime>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace sirdma::twin
{

/* While it exists, its thread is not cancelled. */
class NoCancel {
public:
	NoCancel() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~NoCancel()
	{
		int ignored;

		pthread_setcancelstate(before_, &ignored);
	}
	NoCancel(const NoCancel &) = delete;
	NoCancel &operator=(const NoCancel &) = delete;

private:
	int before_;
};

/* System calls by their names. They return -1 and set errno, as usual. */
namespace raw_syscall
{

inline int poll(pollfd *files, unsigned count, timespec timeout) noexcept
{
	return static_cast<int>(syscall(SYS_ppoll, files, count, &timeout, nullptr, 0));
}

/* This does not wait. */
inline int epoll_look(int fd, epoll_event *events, int count) noexcept
{
	return static_cast<int>(syscall(SYS_epoll_pwait, fd, events, count, 0, nullptr, 0));
}

inline ssize_t sendmsg(int fd, const msghdr *message, int flags) noexcept
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

inline int sendmmsg(int fd, mmsghdr *messages, unsigned count, int flags) noexcept
{
	return static_cast<int>(syscall(SYS_sendmmsg, fd, messages, count, flags));
}

inline ssize_t send(int fd, const void *bytes, size_t len, int flags) noexcept
{
	return syscall(SYS_sendto, fd, bytes, len, flags, nullptr, 0);
}

/* @message has one piece and no control data. */
inline ssize_t sendto(int fd, const msghdr &message) noexcept
{
	return syscall(SYS_sendto, fd, message.msg_iov->iov_base, message.msg_iov->iov_len, 0,
		       message.msg_name, message.msg_namelen);
}

inline ssize_t recvmsg(int fd, msghdr *message, int flags) noexcept
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

inline int recvmmsg(int fd, mmsghdr *messages, unsigned count, int flags) noexcept
{
	return static_cast<int>(syscall(SYS_recvmmsg, fd, messages, count, flags, nullptr));
}

inline ssize_t write(int fd, const void *bytes, size_t len) noexcept
{
	return syscall(SYS_write, fd, bytes, len);
}

inline ssize_t writev(int fd, const iovec *pieces, size_t count) noexcept
{
	return syscall(SYS_writev, fd, pieces, count);
}

} // namespace raw_syscall

} // namespace sirdma::twin
