// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Many queue pairs write through one slow netdev: what they get together, how equal their shares are (Jain's index: 1 when all
// are equal, 1/n when one has everything), and what that costs the processor.
//   verbs_fairness -d DEVICE -p PEER-DEVICE [-n QUEUE-PAIRS] [-m MESSAGES-OF-EACH] [-s BYTES]
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_fairness: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

constexpr uint32_t outstanding = 4; // messages of each queue pair

struct Plan {
	std::string device, peer;
	size_t pairs = 1000;
	size_t messages = 16;
	size_t bytes = 16384;
};

[[noreturn]] void die(const char *what, int error = errno)
{
	std::fprintf(stderr, "verbs_fairness: %s: %s\n", what, std::strerror(error));
	std::exit(1);
}

// One device with what all queue pairs share.
struct Side {
	Device device;
	Pd pd;
	Cq cq;
	Mapping memory;
	Mr mr;

	Side(const std::string &name, const Plan &plan)
	{
		auto opened = Device::open(name, {});
		if (!opened)
			std::exit(1);
		device = std::move(*opened);
		pd.reset(ibv_alloc_pd(device.context.get()));
		cq.reset(ibv_create_cq(device.context.get(),
				       static_cast<int>(plan.pairs * outstanding), nullptr, nullptr,
				       0));
		memory = Mapping::anonymous(plan.bytes);
		if (!pd || !cq || !memory)
			die(name.c_str());
		mr.reset(ibv_reg_mr(pd.get(), memory.data(), plan.bytes, Link().access));
		if (!mr)
			die("ibv_reg_mr");
	}
	Qp make_qp(const Link &link) const
	{
		Qp qp = make_rc_qp(pd.get(), cq.get(), outstanding);
		if (!qp)
			die("ibv_create_qp");
		if (const int rc = to_init(qp.get(), device, link))
			die("to INIT", rc);
		return qp;
	}
	Address address(const Qp &qp) const { return {qp->qp_num, 0, device.gid}; }
};

void connect(const Side &side, const Qp &qp, const Address &remote, const Link &link)
{
	if (const int rc = to_rtr(qp.get(), side.device, remote, link))
		die("to RTR", rc);
	if (const int rc = to_rts(qp.get(), 0, link))
		die("to RTS", rc);
}

// Clock ticks the processors worked and were idle, since boot.
std::pair<uint64_t, uint64_t> processor_ticks()
{
	std::ifstream file("/proc/stat");
	std::string name;
	std::array<uint64_t, 8> ticks = {}; // user nice system idle iowait irq softirq steal
	file >> name;
	for (uint64_t &t : ticks)
		file >> t;
	const uint64_t idle = ticks[3] + ticks[4];
	uint64_t all = 0;
	for (const uint64_t t : ticks)
		all += t;
	return {all - idle, idle};
}

void post(const Side &near, const Side &far, const Qp &qp, size_t index, size_t bytes)
{
	ibv_sge sge = {near.memory.address(), static_cast<uint32_t>(bytes), near.mr->lkey};
	ibv_send_wr wr = {}, *bad = nullptr;
	wr.wr_id = index;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = far.memory.address();
	wr.wr.rdma.rkey = far.mr->rkey;
	if (const int rc = ibv_post_send(qp.get(), &wr, &bad))
		die("ibv_post_send", rc);
}

void run(const Plan &plan)
{
	const Side near(plan.device, plan), far(plan.peer, plan);
	Link link;
	// Frames wait for long in front of a slow netdev.
	link.timeout = 21;
	std::vector<Qp> from, to;
	for (size_t i = 0; i < plan.pairs; i++) {
		from.push_back(near.make_qp(link));
		to.push_back(far.make_qp(link));
		connect(near, from.back(), far.address(to.back()), link);
		connect(far, to.back(), near.address(from.back()), link);
	}

	const auto began = std::chrono::steady_clock::now();
	const auto before = processor_ticks();
	for (size_t n = 0; n < outstanding; n++)
		for (size_t i = 0; i < plan.pairs; i++)
			post(near, far, from[i], i, plan.bytes);
	std::vector<uint64_t> done(plan.pairs);
	std::array<ibv_wc, 64> wcs;
	for (size_t total = 0; total < plan.pairs * plan.messages;) {
		const int n = ibv_poll_cq(near.cq.get(), static_cast<int>(wcs.size()), wcs.data());
		if (n < 0)
			die("ibv_poll_cq");
		if (!n)
			usleep(500);
		for (int i = 0; i < n; i++) {
			if (wcs[static_cast<size_t>(i)].status != IBV_WC_SUCCESS) {
				std::fprintf(stderr, "verbs_fairness: %s\n",
					     ibv_wc_status_str(wcs[static_cast<size_t>(i)].status));
				std::exit(1);
			}
			const size_t who = wcs[static_cast<size_t>(i)].wr_id;
			done[who]++;
			total++;
			post(near, far, from[who], who, plan.bytes);
		}
	}
	const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
	const auto after = processor_ticks();

	double sum = 0, squares = 0;
	uint64_t least = done[0];
	for (const uint64_t n : done) {
		sum += static_cast<double>(n);
		squares += static_cast<double>(n) * static_cast<double>(n);
		least = n < least ? n : least;
	}
	const double busy = static_cast<double>(after.first - before.first);
	const double idle = static_cast<double>(after.second - before.second);
	std::printf("mbytes_per_s %.1f\njain %.3f\nleast %llu\nbusy_percent %.0f\nseconds %.1f\n",
		    sum * static_cast<double>(plan.bytes) / took.count() / 1e6,
		    sum * sum / (static_cast<double>(plan.pairs) * squares),
		    static_cast<unsigned long long>(least), 100 * busy / (busy + idle + 1e-9),
		    took.count());
	std::fflush(stdout);
	// What is on its way is cut off.
	for (const Qp &qp : from)
		to_state(qp.get(), IBV_QPS_ERR);
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	verbs::Plan plan;
	for (int opt; (opt = getopt(argc, argv, "d:p:n:m:s:")) != -1;) {
		switch (opt) {
		case 'd':
			plan.device = optarg;
			break;
		case 'p':
			plan.peer = optarg;
			break;
		case 'n':
			plan.pairs = std::strtoul(optarg, nullptr, 0);
			break;
		case 'm':
			plan.messages = std::strtoul(optarg, nullptr, 0);
			break;
		case 's':
			plan.bytes = std::strtoul(optarg, nullptr, 0);
			break;
		default:
			return 2;
		}
	}
	if (plan.device.empty() || plan.peer.empty() || !plan.pairs || !plan.messages ||
	    !plan.bytes) {
		std::fputs("verbs_fairness -d DEVICE -p PEER-DEVICE [-n QUEUE-PAIRS] [-m MESSAGES] "
			   "[-s BYTES]\n",
			   stderr);
		return 2;
	}
	verbs::run(plan);
}
