/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shared_file.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * Is the page at @addr one of private memory? /proc/PID/pagemap tells in 2 us; the list of mappings is long
 * in some processes. Pages that are not present may be anything.
 */
bool is_private(uintptr_t addr) noexcept
{
	constexpr uint64_t present = 1ull << 63, of_file_or_shared = 1ull << 61;
	const Fd pages(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
	const auto index = static_cast<off_t>(addr / static_cast<uintptr_t>(getpagesize()));
	uint64_t entry = 0;

	return pages &&
	       pread(pages.get(), &entry, sizeof(entry), index * off_t{sizeof(entry)}) ==
		       sizeof(entry) &&
	       (entry & present) && !(entry & of_file_or_shared);
}

/* A line of /proc/PID/maps. */
bool parse_mapping(const char *line, uintptr_t &start, uintptr_t &end, SharedFile &file) noexcept
{
	unsigned long long offset, inode;
	unsigned major, minor;
	char rights[5] = {};

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %llx %x:%x %llu", &start, &end, rights,
		   &offset, &major, &minor, &inode) != 7)
		return false;
	file.offset = offset;
	file.device = makedev(major, minor);
	file.inode = rights[3] == 's' ? inode : 0;
	return true;
}

/* Find the mapping with all of the memory. Returns false if it is not of a file. */
bool find_mapping(uintptr_t first, size_t length, SharedFile &file) noexcept
{
	FILE *const list = fopen("/proc/self/maps", "re");
	uintptr_t start, end;
	char *line = nullptr;
	size_t room = 0;
	bool found = false;

	if (!list)
		return false;
	while (getline(&line, &room, list) > 0) {
		if (!parse_mapping(line, start, end, file) || end <= first)
			continue;
		found = first >= start && length <= end - first && file.inode;
		file.offset += first - start;
		break;
	}
	free(line);
	fclose(list);
	return found;
}

/* Find a descriptor by which the file can be mapped for writing. */
bool find_descriptor(SharedFile &file, uint64_t end) noexcept
{
	DIR *const all = opendir("/proc/self/fd");

	if (!all)
		return false;
	while (const dirent *entry = readdir(all)) {
		const int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || !is_mappable(fd, file, end) ||
		    (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
			continue;
		file.fd = fd;
		break;
	}
	closedir(all);
	return file.fd >= 0;
}

} // namespace

bool is_mappable(int file, const SharedFile &what, uint64_t end) noexcept
{
	const int seals = fcntl(file, F_GET_SEALS);
	struct statfs system;
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(file, &st) &&
	       st.st_dev == what.device && st.st_ino == what.inode && S_ISREG(st.st_mode) &&
	       static_cast<uint64_t>(st.st_size) >= end && !fstatfs(file, &system) &&
	       system.f_type == TMPFS_MAGIC;
}

/* Servers of network file systems are not asked: they may not answer. */
bool is_file_of(pid_t pid, const SharedFile &what) noexcept
{
	char path[48];
	struct statx st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, what.fd);
	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &st) &&
	       makedev(st.stx_dev_major, st.stx_dev_minor) == what.device &&
	       st.stx_ino == what.inode;
}

SharedFile shared_file_of(uintptr_t start, size_t length) noexcept
{
	const NoCancel no_cancel;
	const int err = errno;
	SharedFile file;

	if (is_private(start) || !find_mapping(start, length, file) ||
	    !find_descriptor(file, file.offset + length))
		file.fd = -1;
	errno = err;
	return file;
}

Fd new_shared_file(const char *name, size_t bytes) noexcept
{
	Fd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) ||
	    fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return {};
	return file;
}

} // namespace sirdma::twin
