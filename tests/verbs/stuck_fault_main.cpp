// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A program whose memory does not come: it maps a file whose server, a child with a FUSE mount, answers no read. It registers the
// mapping on demand, asks the driver to prefetch it, and waits to be killed. The server prints "waiting" and its process ID when a
// page fault has reached it.
//   verbs_stuck_fault -d DEVICE [-i] FILE      FUSE is mounted on the file; -i: the region is implicit
#include "device.hpp"
#include "stuck_file.hpp"
#include "verbs.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_stuck_fault: %s: %s\n", what,
		     std::strerror(rc > 0 ? rc : errno));
}

namespace
{

using stuck::length;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_stuck_fault: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

int run(const char *name, bool implicit, const char *path)
{
	if (stuck::serve_file(path, STDOUT_FILENO, 0) < 0)
		die("FUSE");

	const auto device = Device::open(name, {});
	const int file = stuck::open_file(path);

	if (!device)
		return 1;
	if (file < 0)
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
