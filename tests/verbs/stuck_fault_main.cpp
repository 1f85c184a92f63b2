// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A program whose memory does not come: it maps a file whose server, a child with a FUSE mount, answers no read. It registers the
// mapping on demand, asks the driver to prefetch it, and waits to be killed. The server prints "waiting" and its process ID when a
// page fault has reached it.
//   verbs_stuck_fault -d DEVICE [-i] FILE      FUSE is mounted on the file; -i: the region is implicit
#include "device.hpp"
#include "verbs.hpp"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_stuck_fault: %s: %s\n", what,
		     std::strerror(rc > 0 ? rc : errno));
}

namespace
{

constexpr size_t length = 16 * 4096;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_stuck_fault: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

template <typename Body> void answer(int fuse, const fuse_in_header &to, const Body &body)
{
	fuse_out_header header = {
		.len = sizeof(header) + sizeof(body), .error = 0, .unique = to.unique};
	const iovec parts[] = {{&header, sizeof(header)},
			       {const_cast<Body *>(&body), sizeof(body)}};

	if (writev(fuse, parts, 2) < 0)
		die("writev to FUSE");
}

void refuse(int fuse, const fuse_in_header &to)
{
	const fuse_out_header header = {
		.len = sizeof(header), .error = -ENOSYS, .unique = to.unique};

	if (write(fuse, &header, sizeof(header)) < 0)
		die("write to FUSE");
}

[[noreturn]] void serve(int fuse)
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
			std::printf("waiting %d\n", getpid());
			std::fflush(stdout);
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

// The file is served by a child from now on.
void serve_file(const char *path)
{
	const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	const std::string options =
		"fd=" + std::to_string(fuse) + ",rootmode=100600,user_id=0,group_id=0";

	if (fuse < 0 || mount("stuck", path, "fuse", MS_NOSUID | MS_NODEV, options.c_str()))
		die("mount of FUSE");

	const pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child)
		serve(fuse);
	close(fuse);
}

int run(const char *name, bool implicit, const char *path)
{
	serve_file(path);

	const auto device = Device::open(name, {});
	const int file = open(path, O_RDONLY | O_CLOEXEC);

	if (!device)
		return 1;
	// The kernel asks the server for the file's length only now.
	struct stat status = {};

	if (file < 0 || fstat(file, &status) || status.st_size != length)
		die(path);

	void *const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

	if (memory == MAP_FAILED)
		die("mmap");

	const Pd pd(ibv_alloc_pd(device->context.get()));
	const Mr mr(ibv_reg_mr(pd.get(), implicit ? nullptr : memory, implicit ? SIZE_MAX : length,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));

	if (!mr)
		die("ibv_reg_mr");

	ibv_sge sge = {
		.addr = reinterpret_cast<uintptr_t>(memory),
		.length = length,
		.lkey = mr.get()->lkey,
	};

	errno = ibv_advise_mr(pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1);
	if (errno)
		die("ibv_advise_mr");
	for (;;)
		pause();
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	const bool implicit = argc == 5 && !std::strcmp(argv[3], "-i");

	if ((argc != 4 && !implicit) || std::strcmp(argv[1], "-d") != 0) {
		std::fprintf(stderr, "usage: verbs_stuck_fault -d DEVICE [-i] FILE\n");
		return 2;
	}
	return verbs::run(argv[2], implicit, argv[argc - 1]);
}
