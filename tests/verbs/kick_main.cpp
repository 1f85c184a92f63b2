// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Kicks as commands to the kernel driver: a context may kick its own queue pairs, by whatever process, and no others.
//   verbs_kick -d DEVICE [-n COUNT]     exit status 0 if all was as it must be; prints the nanoseconds of a kick that finds
//                                       nothing to do, the median of COUNT (10000)
#include "device.hpp"
#include "kick.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace verbs
{

namespace
{

std::atomic<int> failures{0};

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_kick: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

void expect(const char *what, int got, int wanted)
{
	if (got == wanted)
		return;
	std::fprintf(stderr, "verbs_kick: %s gives %d (%s) instead of %d\n", what, got,
		     std::strerror(got), wanted);
	failures++;
}

} // namespace

void report_destroy_failure(const char *what, int rc) noexcept
{
	expect(what, rc > 0 ? rc : errno, 0);
}

namespace
{

// A context with a queue pair.
struct Side {
	Device device;
	Pd pd;
	Cq cq;
	Qp qp;

	explicit Side(const std::string &name)
	{
		std::optional<Device> opened = Device::open(name, {});
		if (!opened)
			_exit(1); // Device::open has said why
		device = std::move(*opened);
		pd.reset(ibv_alloc_pd(device.context.get()));
		cq.reset(ibv_create_cq(device.context.get(), 16, nullptr, nullptr, 0));
		if (!pd || !cq)
			die("objects");
		qp = make_rc_qp(pd.get(), cq.get(), 8);
		if (!qp)
			die("queue pair");
	}
	int fd() const { return device.context->cmd_fd; }
};

// A process that has the file by inheritance, as one that imports the context has it.
void another_process_kicks(const Side &side, const Side &other)
{
	int status = -1;
	const pid_t child = fork();

	if (!child) {
		expect("a kick by another process", kick(side.fd(), side.qp->qp_num), 0);
		expect("another process's kick of a foreign queue pair",
		       kick(side.fd(), other.qp->qp_num), EINVAL);
		_exit(failures ? 1 : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("fork");
	expect("the other process", status, 0);
}

// Kicks meet the end of their queue pair; each either finds it or does not.
void kicks_race_with_destruction(Side &side)
{
	std::atomic<uint32_t> number{0};
	std::atomic<bool> done{false};
	std::thread kicker([&] {
		while (!done) {
			const int err = kick(side.fd(), number);
			if (err)
				expect("a kick beside destroy_qp", err, EINVAL);
		}
	});

	for (int i = 0; i < 200; i++) {
		const Qp qp = make_rc_qp(side.pd.get(), side.cq.get(), 8);
		if (!qp)
			die("queue pair");
		number = qp->qp_num;
		expect("a kick of a new queue pair", kick(side.fd(), number), 0);
	}
	done = true;
	kicker.join();
}

double time_kicks(const Side &side, size_t count)
{
	std::vector<double> took;

	for (size_t i = 0; i < count; i++) {
		const auto start = std::chrono::steady_clock::now();
		kick(side.fd(), side.qp->qp_num);
		took.push_back(std::chrono::duration<double, std::nano>(
				       std::chrono::steady_clock::now() - start)
				       .count());
	}
	std::sort(took.begin(), took.end());
	return took[took.size() / 2];
}

void run(const std::string &name, size_t count)
{
	Side one(name), two(name);
	const uint32_t number = one.qp->qp_num;

	expect("a kick", kick(one.fd(), number), 0);
	expect("a kick by another context", kick(two.fd(), number), EINVAL);
	expect("a kick of another context's queue pair", kick(one.fd(), two.qp->qp_num), EINVAL);
	for (const uint32_t wrong : {0u, 1u, number + 1000, 0xffffffu, number | 1u << 24, ~0u})
		expect("a kick of a number that is nobody's", kick(one.fd(), wrong), EINVAL);
	expect("a kick without a number", kick(one.fd(), number, 0), EINVAL);
	another_process_kicks(one, two);
	std::printf("%.0f ns\n", time_kicks(one, count));
	one.qp.reset();
	expect("a kick of a destroyed queue pair", kick(one.fd(), number), EINVAL);
	kicks_race_with_destruction(one);
	expect("a kick of the other context's queue pair", kick(two.fd(), two.qp->qp_num), 0);
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	std::string device;
	size_t count = 10000;
	for (int opt; (opt = getopt(argc, argv, "d:n:")) != -1;) {
		if (opt == 'd')
			device = optarg;
		else if (opt == 'n')
			count = std::strtoul(optarg, nullptr, 10);
	}
	if (device.empty() || !count || optind != argc) {
		std::fputs("verbs_kick -d DEVICE [-n COUNT]\n", stderr);
		return 2;
	}
	verbs::run(device, count);
	return verbs::failures ? 1 : 0;
}
