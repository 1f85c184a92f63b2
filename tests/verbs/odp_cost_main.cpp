// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What an implicit region costs: the kernel's memory for pages that the device may use, next to each other or one in each 2 MiB, the
// time to bring one, and to take one back, also with idle queue pairs of another protection domain, and of the same one. The memory is
// there already, so the program's own pages are not counted. Other programs that take or free memory meanwhile change the result, so it
// is measured five times, and the medians are printed.
//   verbs_odp_cost -d DEVICE [-n QUEUE_PAIRS]
// Prints "near BYTES" and "far BYTES", the memory for one page, "fault NANOSECONDS", the time of one ibv_advise_mr(), and "unmap
// NANOSECONDS", "unmap-beside NANOSECONDS", "unmap-among NANOSECONDS" and "unmap-among-many NANOSECONDS" (four times as many queue
// pairs), the time to take one page from the process and the device.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_odp_cost: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
}

namespace
{

constexpr size_t page = 4096, part = 2 << 20;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_odp_cost: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

// Memory that is free, in bytes
long long free_memory()
{
	char line[100];
	long long kib = -1;
	FILE *const file = std::fopen("/proc/meminfo", "re");

	while (file && kib < 0 && std::fgets(line, sizeof(line), file))
		if (std::sscanf(line, "MemFree: %lld kB", &kib) != 1)
			kib = -1;
	if (kib < 0)
		die("/proc/meminfo");
	std::fclose(file);
	return kib << 10;
}

struct Cost {
	double bytes, nanoseconds; // for one page
	double unmap; // nanoseconds
};

// The cost of @count pages, @stride bytes apart
Cost measure(ibv_pd *pd, const Mapping &memory, size_t count, size_t stride)
{
	const Mr mr(
		ibv_reg_mr(pd, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));

	if (!mr)
		die("ibv_reg_mr");

	const long long before = free_memory();
	const auto start = std::chrono::steady_clock::now();

	for (size_t i = 0; i < count; i++) {
		ibv_sge sge = {memory.address(i * stride), page, mr.get()->lkey};

		errno = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
		if (errno)
			die("ibv_advise_mr");
	}

	const std::chrono::duration<double, std::nano> time =
		std::chrono::steady_clock::now() - start;
	const auto pages = static_cast<double>(count);
	const double bytes = static_cast<double>(before - free_memory()) / pages;
	const auto unmap_start = std::chrono::steady_clock::now();

	// The device asks for no page that is taken back.
	if (madvise(memory.data(), memory.size(), MADV_DONTNEED))
		die("madvise");

	const std::chrono::duration<double, std::nano> unmap =
		std::chrono::steady_clock::now() - unmap_start;

	return {bytes, time.count() / pages, unmap.count() / pages};
}

constexpr size_t repeats = 5;

double median(std::array<double, repeats> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

Cost median_cost(ibv_pd *pd, size_t count, size_t stride)
{
	std::array<double, repeats> bytes, nanoseconds, unmap;

	const Mapping memory = Mapping::anonymous(count * stride, MAP_NORESERVE);

	if (!memory)
		die("mmap");
	madvise(memory.data(), memory.size(), MADV_NOHUGEPAGE);
	for (size_t i = 0; i < repeats; i++) {
		for (size_t n = 0; n < count; n++)
			memory.data()[n * stride] = std::byte{1};

		const Cost cost = measure(pd, memory, count, stride);

		bytes[i] = cost.bytes;
		nanoseconds[i] = cost.nanoseconds;
		unmap[i] = cost.unmap;
	}
	return {median(bytes), median(nanoseconds), median(unmap)};
}

std::vector<Qp> idle_queue_pairs(ibv_pd *pd, ibv_cq *cq, size_t count)
{
	std::vector<Qp> all;
	ibv_qp_init_attr init = {};

	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = init.cap.max_recv_wr = 1;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	while (all.size() < count) {
		all.emplace_back(ibv_create_qp(pd, &init));
		if (!all.back())
			die("ibv_create_qp");
	}
	return all;
}

int run(const char *name, size_t others)
{
	const auto device = Device::open(name, {});

	if (!device)
		return 1;
	const Pd pd(ibv_alloc_pd(device->context.get()));
	if (!pd)
		die("ibv_alloc_pd");
	median_cost(pd.get(), 1, part); // the first region makes what all later ones share

	const Cost near = median_cost(pd.get(), 128 * part / page, page);
	const Cost far = median_cost(pd.get(), 512, part);
	const Pd other(ibv_alloc_pd(device->context.get()));
	const Cq cq(ibv_create_cq(device->context.get(), 64, nullptr, nullptr, 0));
	if (!other || !cq)
		die("set-up");
	const std::vector<Qp> idle = idle_queue_pairs(other.get(), cq.get(), others);
	const Cost beside = median_cost(pd.get(), 512, part);
	const Cost among = median_cost(other.get(), 512, part);
	const std::vector<Qp> more = idle_queue_pairs(other.get(), cq.get(), 3 * others);
	const Cost among_many = median_cost(other.get(), 512, part);

	std::printf("near %.0f\nfar %.0f\nfault %.0f\n", near.bytes, far.bytes, near.nanoseconds);
	std::printf("unmap %.0f\nunmap-beside %.0f\nunmap-among %.0f\nunmap-among-many %.0f\n",
		    far.unmap, beside.unmap, among.unmap, among_many.unmap);
	return 0;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	if ((argc != 3 && argc != 5) || std::strcmp(argv[1], "-d") != 0 ||
	    (argc == 5 && std::strcmp(argv[3], "-n") != 0)) {
		std::fprintf(stderr, "usage: verbs_odp_cost -d DEVICE [-n QUEUE_PAIRS]\n");
		return 2;
	}
	return verbs::run(argv[2], argc == 5 ? std::strtoul(argv[4], nullptr, 0) : 2000);
}
