/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that finds libibverbs' functions by dlsym() goes past the shim's, and the
 * library's own ibv_create_comp_channel() asks the kernel for a file: by write() of a
 * command to the device's file, which for a device of ours is /dev/full. So that
 * command, and nothing else, is answered here.
 */
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

namespace
{

struct CreateCompChannel {
	ib_uverbs_cmd_hdr hdr;
	ib_uverbs_create_comp_channel core;
};

constexpr size_t word = 4;
constexpr unsigned full_major = 1, full_minor = 7;

using Write = ssize_t (*)(int, const void *, size_t);

std::atomic<Write> next_write{nullptr};

/* Of whoever comes behind us: a sanitizer, or the C library. */
Write next() noexcept
{
	Write found = next_write.load(std::memory_order_relaxed);

	if (!found) [[unlikely]] {
		found = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
		next_write.store(found, std::memory_order_relaxed);
	}
	return found;
}

/* Before main(), while nobody can be in a signal handler. */
__attribute__((constructor)) void find_next() noexcept
{
	(void)next();
}

/* Nobody else writes so many bytes there, so they may be looked at. */
bool is_device(int fd) noexcept
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(full_major, full_minor);
}

/* False when it is another command. */
bool create_channel(const void *buffer, ssize_t &result) noexcept
{
	CreateCompChannel command;

	memcpy(&command, buffer, sizeof(command));
	if (command.hdr.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL ||
	    command.hdr.in_words * word != sizeof(command) ||
	    command.hdr.out_words * word != sizeof(ib_uverbs_create_comp_channel_resp))
		return false;

	const int fd = eventfd(0, EFD_CLOEXEC);

	result = fd < 0 ? -1 : ssize_t{sizeof(command)};
	if (fd >= 0)
		reinterpret_cast<ib_uverbs_create_comp_channel_resp *>(command.core.response)->fd =
			static_cast<uint32_t>(fd);
	return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) ssize_t write(int fd, const void *buffer,
								size_t count)
{
	ssize_t result;

	if (count == sizeof(CreateCompChannel)) [[unlikely]] {
		const int before = errno;

		if (is_device(fd) && create_channel(buffer, result))
			return result;
		errno = before;
	}
	return next()(fd, buffer, count);
}
