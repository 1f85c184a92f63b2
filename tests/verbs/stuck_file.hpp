// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A file whose memory does not come: its server, a child with a FUSE mount, answers no read. A page fault in a mapping of it waits
// until the server is killed.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace verbs::stuck
{

inline constexpr size_t length = 16 * 4096;

[[noreturn]] inline void die(const char *what)
{
	std::fprintf(stderr, "server of a stuck file: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

template <typename Body> inline void answer(int fuse, const fuse_in_header &to, const Body &body)
{
	fuse_out_header header = {
		.len = sizeof(header) + sizeof(body), .error = 0, .unique = to.unique};
	const iovec parts[] = {{&header, sizeof(header)},
			       {const_cast<Body *>(&body), sizeof(body)}};

	if (writev(fuse, parts, 2) < 0)
		die("writev to FUSE");
}

inline void refuse(int fuse, const fuse_in_header &to)
{
	const fuse_out_header header = {
		.len = sizeof(header), .error = -ENOSYS, .unique = to.unique};

	if (write(fuse, &header, sizeof(header)) < 0)
		die("write to FUSE");
}

[[noreturn]] inline void serve(int fuse, int report)
{
	std::vector<char> request(1 << 18);

	while (read(fuse, request.data(), request.size()) > 0) {
		const auto &in = *reinterpret_cast<const fuse_in_header *>(request.data());

		switch (in.opcode) {
		case FUSE_INIT: {
			fuse_init_out init = {};
			init.major = FUSE_KERNEL_VERSION;
			init.minor = FUSE_KERNEL_MINOR_VERSION;
			init.max_write = 4096;
			answer(fuse, in, init);
			break;
		}
		case FUSE_GETATTR: {
			fuse_attr_out out = {};
			out.attr.ino = FUSE_ROOT_ID;
			out.attr.size = length;
			out.attr.mode = S_IFREG | 0600;
			out.attr.nlink = 1;
			answer(fuse, in, out);
			break;
		}
		case FUSE_OPEN:
			answer(fuse, in, fuse_open_out{});
			break;
		case FUSE_READ:
			dprintf(report, "waiting %d\n", getpid());
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			refuse(fuse, in);
		}
	}
	_exit(0);
}

// Mounts FUSE on the file, which a child serves from now on: it ends by itself after so many seconds (0: never), and writes
// "waiting" and its process ID to `report` when a page fault has reached it. Returns its process ID, or -1.
inline pid_t serve_file(const char *path, int report, unsigned seconds)
{
	const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	const std::string options =
		"fd=" + std::to_string(fuse) + ",rootmode=100600,user_id=0,group_id=0";

	if (fuse < 0)
		return -1;
	const bool mounted = !mount("stuck", path, "fuse", MS_NOSUID | MS_NODEV, options.c_str());
	const pid_t child = mounted ? fork() : -1;

	if (!child) {
		alarm(seconds);
		serve(fuse, report);
	}
	close(fuse);
	return child;
}

// Opens the file, whose length the kernel learns from the server. Returns a descriptor, or -1.
inline int open_file(const char *path)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status = {};

	if (file < 0 || (!fstat(file, &status) && status.st_size == length))
		return file;
	close(file);
	return -1;
}

} // namespace verbs::stuck
