/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "neighbour_wait.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "fd.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

constexpr timespec poll_period = {.tv_sec = 0, .tv_nsec = 1000000};

/* Does the thread execute nothing? Its state is behind its name, which may contain anything. */
bool thread_is_stopped(pid_t pid, const char *thread) noexcept
{
	char path[64], text[256] = {};

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid, thread);

	const Fd file(open(path, O_RDONLY | O_CLOEXEC));

	if (!file)
		return errno == ENOENT;
	if (read(file.get(), text, sizeof(text) - 1) <= 0)
		return errno == ESRCH;

	const char *const end = strrchr(text, ')');

	/* Stopped by a signal or by a debugger, or at its end. */
	return end && end[1] == ' ' && end[2] && strchr("TtZX", end[2]);
}

/* Threads that end while the directory is read may hide others, but stopped threads do not end. */
bool all_threads_are_stopped(pid_t pid) noexcept
{
	char path[32];
	bool all = true;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);

	DIR *const threads = opendir(path);

	/* A process may be hidden, or there may be no /proc. */
	if (!threads)
		return kill(pid, 0) && errno == ESRCH;
	while (const dirent *entry = readdir(threads))
		if (entry->d_name[0] != '.')
			all = thread_is_stopped(pid, entry->d_name) && all;
	closedir(threads);
	return all;
}

} // namespace

/* Without requested events poll() reports only the end of the connection. */
bool wait_for_neighbour(int sock, int tries) noexcept
{
	pollfd end = {.fd = sock, .events = 0, .revents = 0};

	if (tries < wait_yields) {
		sched_yield();
		return true;
	}
	return raw_syscall::poll(&end, 1, poll_period) <= 0;
}

bool is_stopped(pid_t pid) noexcept
{
	return pid > 0 && all_threads_are_stopped(pid) && all_threads_are_stopped(pid);
}

} // namespace sirdma::twin
