/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * UCX uses a device only if it has a file in /dev/infiniband. If the launcher could not create
 * one, the shim pretends that it exists.
 */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "environment.hpp"
#include "shim.hpp"

namespace
{

constexpr char folder[] = "/dev/infiniband/uverbs";
/* The file that replaces a missing one, as in the launcher's own /dev/infiniband. */
constexpr char stand_in[] = "/dev/full";

bool is_device_of_ours(const char *path) noexcept
{
	if (strncmp(path, folder, sizeof(folder) - 1) != 0)
		return false;

	const char *digits = path + sizeof(folder) - 1;
	const char *count = getenv(sirdma::twin::env_devices);
	char *end = nullptr;
	const unsigned long number = strtoul(digits, &end, 10);

	return end != digits && !*end && number < (count ? strtoul(count, nullptr, 10) : 1) &&
	       !sirdma::twin::shim_in_sysfs() && sirdma::twin::shim_twin();
}

/* Call @look with @path, or with the file that replaces it. */
template <typename Look> int look_at(const char *path, Look look) noexcept
{
	const int before = errno;

	if (!look(path))
		return 0;
	if (errno != ENOENT || !is_device_of_ours(path))
		return -1;
	errno = before;
	return look(stand_in);
}

int find(const char *path, struct stat *out) noexcept
{
	return look_at(path, [=](const char *at) { return fstatat(AT_FDCWD, at, out, 0); });
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int stat(const char *path, struct stat *out)
{
	return find(path, out);
}

EXPORT int access(const char *path, int mode)
{
	return look_at(path, [=](const char *at) { return faccessat(AT_FDCWD, at, mode, 0); });
}

/* On systems with 64-bit file sizes this is the same as stat(). */
EXPORT int stat64(const char *path, struct stat64 *out)
{
	static_assert(sizeof(struct stat) == sizeof(struct stat64));
	return find(path, reinterpret_cast<struct stat *>(out));
}
