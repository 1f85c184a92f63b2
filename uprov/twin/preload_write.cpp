/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that finds the functions of libibverbs by dlsym() does not call the shim's. The
 * library's own ibv_create_comp_channel() writes a command to the device's file, which is
 * /dev/full for a device of the twin. This file answers that command and no other.
 */
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include "event_file.hpp"
#include "shim.hpp"

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

/* The next definition of write(): that of a sanitizer or of the C library. */
Write next() noexcept
{
	Write found = next_write.load(std::memory_order_relaxed);

	if (!found) [[unlikely]] {
		found = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
		next_write.store(found, std::memory_order_relaxed);
	}
	return found;
}

/* This runs before main(), when no signal handler can run. */
__attribute__((constructor)) void find_next() noexcept
{
	(void)next();
}

/* Only the library writes this many bytes to that file, so the command may be read. */
bool is_device(int fd) noexcept
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(full_major, full_minor);
}

/* Execute the command at @buffer. Returns false if it is another command. */
bool create_channel(const void *buffer, ssize_t &result) noexcept
{
	CreateCompChannel command;

	memcpy(&command, buffer, sizeof(command));
	if (command.hdr.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL ||
	    command.hdr.in_words * word != sizeof(command) ||
	    command.hdr.out_words * word != sizeof(ib_uverbs_create_comp_channel_resp))
		return false;

	const int fd = sirdma::twin::create_event_file();

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

	if (sirdma::twin::is_event_channel(fd)) [[unlikely]]
		return sirdma::twin::write_event_channel(fd, buffer, count);
	if (count == sizeof(CreateCompChannel)) [[unlikely]] {
		const int before = errno;

		if (is_device(fd) && create_channel(buffer, result))
			return result;
		errno = before;
	}
	return next()(fd, buffer, count);
}
