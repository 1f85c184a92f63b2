// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Times memory registration, and the machine itself.
//   regbench reg DEVICE BYTES [SECONDS]    median microseconds of ibv_reg_mr and of ibv_dereg_mr, and how many were timed
//   regbench calibrate                     memcpy GB/s (1 MiB, in cache mostly), spin loops per microsecond, TSC MHz
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace
{

double now_us()
{
	timespec t = {};
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double median(std::vector<double> values)
{
	const auto middle = values.begin() + static_cast<long>(values.size() / 2);
	std::nth_element(values.begin(), middle, values.end());
	return *middle;
}

template <auto Destroy> struct Destroyer {
	template <typename T> void operator()(T *object) const { Destroy(object); }
};
using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;

Context open_device(const char *name)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	Context context;
	for (int i = 0; list && i < count && !context; i++)
		if (std::strcmp(ibv_get_device_name(list[i]), name) == 0)
			context.reset(ibv_open_device(list[i]));
	if (list)
		ibv_free_device_list(list);
	return context;
}

int fail(const char *what)
{
	std::fprintf(stderr, "regbench: %s: %s\n", what, std::strerror(errno));
	return 1;
}

int time_registration(const char *name, size_t bytes, double seconds)
{
	constexpr int least = 3;
	constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_WRITE;
	const Context context = open_device(name);
	if (!context)
		return fail(name);
	const Pd pd(ibv_alloc_pd(context.get()));
	// Pages are there before the clock runs: this times the driver, not the page allocator.
	void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!pd || memory == MAP_FAILED)
		return fail("memory");
	std::vector<double> reg, dereg;
	const double end = now_us() + seconds * 1e6;
	for (int i = 0; now_us() < end || i < least; i++) {
		const double start = now_us();
		ibv_mr *mr = ibv_reg_mr(pd.get(), memory, bytes, access);
		const double middle = now_us();
		if (!mr)
			return fail("ibv_reg_mr");
		if (ibv_dereg_mr(mr))
			return fail("ibv_dereg_mr");
		if (i) { // the first one warms up
			reg.push_back(middle - start);
			dereg.push_back(now_us() - middle);
		}
	}
	std::printf("%.3f %.3f %zu\n", median(reg), median(dereg), reg.size());
	return 0;
}

#ifdef __x86_64__
struct Stamp {
	double us;
	uint64_t ticks;
};

/* The same moment on both clocks: of many tries the one that was interrupted least. */
Stamp stamp()
{
	Stamp best = {};
	uint64_t shortest = UINT64_MAX;
	for (int i = 0; i < 1000; i++) {
		const uint64_t before = __rdtsc();
		const double us = now_us();
		const uint64_t after = __rdtsc();
		if (after - before < shortest) {
			shortest = after - before;
			best = {us, before + shortest / 2};
		}
	}
	return best;
}
#endif

int calibrate()
{
	std::vector<char> from(1 << 20, 1), to(1 << 20, 2);
	double start = now_us();
	int copies = 0;
	while (now_us() < start + 100000) {
		std::memcpy(to.data(), from.data(), from.size());
		asm volatile("" : : "r"(to.data()) : "memory");
		copies++;
	}
	const double copy_us = now_us() - start;
	start = now_us();
	uint64_t loops = 0;
	while (now_us() < start + 100000)
		for (int i = 0; i < 1000; i++, loops++)
			asm volatile("" : : : "memory");
	const double spin_us = now_us() - start;
	double mhz = 0;
#ifdef __x86_64__
	const Stamp first = stamp();
	start = now_us();
	while (now_us() < start + 200000)
		;
	const Stamp last = stamp();
	mhz = static_cast<double>(last.ticks - first.ticks) / (last.us - first.us);
#endif
	std::printf("%.2f %.0f %.1f\n", copies * static_cast<double>(from.size()) / copy_us / 1e3,
		    static_cast<double>(loops) / spin_us, mhz);
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	const std::string mode = argc > 1 ? argv[1] : "";
	if (mode == "calibrate")
		return calibrate();
	if (mode == "reg" && argc >= 4)
		return time_registration(argv[2], std::strtoull(argv[3], nullptr, 0),
					 argc > 4 ? std::atof(argv[4]) : 1);
	std::fprintf(stderr, "regbench reg DEVICE BYTES [SECONDS] | calibrate\n");
	return 2;
}
