// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What objects of a device cost in kernel memory: makes many, watches /proc/meminfo, prints bytes of each. An object's share of what
// the RDMA core and uverbs keep for it is included. For a machine that does nothing else meanwhile.
//   verbs_footprint -d DEVICE [-n COUNT] [-c FILE]
// -c FILE: watches the memory.stat of a cgroup instead.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_footprint: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_footprint: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

const char *cgroup_stat = nullptr;

// Bytes of slab and vmalloc that this cgroup is charged for.
int64_t charged_memory()
{
	std::ifstream file(cgroup_stat);
	int64_t bytes = 0, value = 0;
	std::string name;
	while (file >> name >> value)
		if (name == "slab" || name == "vmalloc" || name == "percpu")
			bytes += value;
	return bytes;
}

// Bytes of slab and vmalloc. Not seen are pages taken directly, which a device may count itself (hmc_bytes of sirdma);
// MemFree would show them, but pages idle on per-CPU lists move it by more than this measures.
int64_t kernel_memory()
{
	if (cgroup_stat)
		return charged_memory();
	std::ifstream file("/proc/meminfo");
	int64_t kib = 0, value = 0;
	std::string name, rest;
	for (; file >> name >> value && std::getline(file, rest);)
		if (name == "Slab:" || name == "VmallocUsed:" || name == "Percpu:")
			kib += value;
	return kib * 1024;
}

// Freed by RCU and by workers: what is in use settles. The statistics of a cgroup are summed over CPUs every two seconds only.
int64_t settled_kernel_memory()
{
	const int wanted = cgroup_stat ? 25 : 1; // intervals of 100 ms without a change
	int64_t last = kernel_memory();
	for (int same = 0, i = 0; same < wanted && i < 200; i++) {
		usleep(100'000);
		const int64_t now = kernel_memory();
		same = std::llabs(now - last) > 64 * 1024 ? 0 : same + 1;
		last = now;
	}
	return last;
}

template <typename Handle>
void measure(const char *what, size_t count, const std::function<Handle(size_t)> &make)
{
	// The first ones pay for slabs and tables that the others share.
	std::vector<Handle> all;
	all.reserve(count + count / 10);
	const auto more = [&](size_t n) {
		while (n--) {
			all.push_back(make(all.size()));
			if (!all.back())
				die(what);
		}
	};
	more(count / 10);
	const int64_t before = settled_kernel_memory();
	more(count);
	const int64_t used = settled_kernel_memory() - before;
	std::printf("%s %lld bytes\n", what,
		    static_cast<long long>(used / static_cast<int64_t>(count)));
	std::fflush(stdout);
}

void run(const std::string &name, size_t count)
{
	const std::optional<Device> device = Device::open(name, {});
	if (!device)
		std::exit(1);
	const Pd pd(ibv_alloc_pd(device->context.get()));
	const Cq cq(ibv_create_cq(device->context.get(), 64, nullptr, nullptr, 0));
	constexpr size_t page = 4096;
	const Mapping memory = Mapping::anonymous(page);
	if (!pd || !cq || !memory)
		die("set-up");
	const Link link;

	measure<Mr>("region", 4 * count, [&](size_t) {
		return Mr(ibv_reg_mr(pd.get(), memory.data(), page, link.access));
	});
	measure<Cq>("completion-queue", count, [&](size_t) {
		return Cq(ibv_create_cq(device->context.get(), 16, nullptr, nullptr, 0));
	});
	measure<Qp>("queue-pair", count, [&](size_t) {
		ibv_qp_init_attr init = {};
		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq.get();
		init.cap.max_send_wr = init.cap.max_recv_wr = 1;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		Qp qp(ibv_create_qp(pd.get(), &init));
		if (qp) { // connected with itself and idle
			const Address self{.qpn = qp->qp_num, .psn = 0, .gid = device->gid};
			if ((errno = to_init(qp.get(), *device, link)) ||
			    (errno = to_rtr(qp.get(), *device, self, link)) ||
			    (errno = to_rts(qp.get(), 0, link)))
				die("connect");
		}
		return qp;
	});
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	std::string device;
	size_t count = 2000;
	for (int opt; (opt = getopt(argc, argv, "d:n:c:")) != -1;) {
		if (opt == 'd')
			device = optarg;
		else if (opt == 'n')
			count = std::strtoul(optarg, nullptr, 0);
		else if (opt == 'c')
			verbs::cgroup_stat = optarg;
		else
			return 2;
	}
	if (device.empty() || count < 10 || optind != argc) {
		std::fputs("verbs_footprint -d DEVICE [-n COUNT, at least 10] [-c memory.stat]\n",
			   stderr);
		return 2;
	}
	verbs::run(device, count);
}
