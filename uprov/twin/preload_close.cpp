/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that closes all descriptors it did not open, as daemons do, must not close those of
 * the device, or their numbers would be reused for files of the program. A kernel device has
 * no such descriptors. The program may close the descriptors that libibverbs shows to it.
 */
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <linux/close_range.h>
#include <unistd.h>

#include "shim.hpp"

namespace
{

using Close = int (*)(int);
using CloseRange = int (*)(unsigned, unsigned, int);

std::atomic<sirdma_next_file> next_file{nullptr};
std::atomic<Close> next_close{nullptr};
std::atomic<CloseRange> next_close_range{nullptr};

/* The next definition (RTLD_NEXT), or null. */
template <typename Function>
Function next_function(std::atomic<Function> &known, const char *name) noexcept
{
	Function found = known.load(std::memory_order_relaxed);

	if (!found) [[unlikely]] {
		found = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
		known.store(found, std::memory_order_relaxed);
	}
	return found;
}

/* This runs before main(), when no signal handler can run. */
__attribute__((constructor)) void find_next() noexcept
{
	(void)next_function(next_close, "close");
	(void)next_function(next_close_range, "close_range");
}

/* The first descriptor of the device that is not below @fd, or ~0. */
unsigned device_file(unsigned fd) noexcept
{
	const sirdma_next_file next = next_file.load(std::memory_order_acquire);

	return next ? next(fd) : ~0u;
}

int close_files(unsigned first, unsigned last, int flags) noexcept
{
	if (const CloseRange next = next_function(next_close_range, "close_range"))
		return next(first, last, flags);
	errno = ENOSYS;
	return -1;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void sirdma_guard_files(sirdma_next_file next)
{
	next_file.store(next, std::memory_order_release);
}

EXPORT int close(int fd)
{
	if (fd >= 0 && device_file(static_cast<unsigned>(fd)) == static_cast<unsigned>(fd))
		[[unlikely]] {
		errno = EBADF;
		return -1;
	}
	if (sirdma::twin::is_event_channel(fd)) [[unlikely]]
		sirdma::twin::close_event_channels(static_cast<unsigned>(fd),
						   static_cast<unsigned>(fd));
	return next_function(next_close, "close")(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (first > last || flags & CLOSE_RANGE_CLOEXEC)
		return close_files(first, last, flags);
	sirdma::twin::close_event_channels(first, last);
	for (;;) {
		const unsigned kept = device_file(first);

		if (kept > last || kept == ~0u)
			return close_files(first, last, flags);
		if (kept > first && close_files(first, kept - 1, flags))
			return -1;
		if (kept == last)
			return 0;
		first = kept + 1;
	}
}

/* Used if close_range() fails (Linux before 5.9, seccomp). The limit of open files may be 2^30. */
static void close_listed(int first) noexcept
{
	DIR *listed = opendir("/proc/self/fd");

	if (!listed)
		return;
	while (const dirent *entry = readdir(listed)) {
		const int fd = atoi(entry->d_name);

		if (fd >= first && entry->d_name[0] != '.' && fd != dirfd(listed))
			close(fd);
	}
	closedir(listed);
}

EXPORT void closefrom(int first)
{
	const int before = errno;

	first = first < 0 ? 0 : first;
	if (close_range(static_cast<unsigned>(first), ~0u, 0))
		close_listed(first);
	errno = before;
}
