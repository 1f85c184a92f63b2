// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Looks for doorbells that a device loses. Each thread has queue pairs that are connected to themselves, and writes through one after
// the other, one message at a time; a message whose completion does not come within the patience was not seen. The pauses between
// messages are drawn from the range in which a device that polls for a while goes to sleep again. All queue pairs have the same
// context, and so the same doorbell page.
//   verbs_doorbell -d DEVICE [-t THREADS] [-q QUEUE-PAIRS-OF-A-THREAD] [-n MESSAGES-OF-A-THREAD] [-p PAUSE-US] [-w PATIENCE-MS]
//                  [-x SECONDS]   first, for so long, store into the doorbell page without having posted, as fast as possible
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_doorbell: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

[[noreturn]] void die(const char *what, int error = errno)
{
	std::fprintf(stderr, "verbs_doorbell: %s: %s\n", what, std::strerror(error));
	std::exit(1);
}

struct Plan {
	std::string device;
	unsigned threads = 2, pairs = 2, messages = 2000, pause_us = 300, patience_ms = 20000;
	unsigned hostile_s = 0;
};

class Writer {
public:
	Writer(const Device &device, ibv_pd *pd, const Plan &plan, unsigned seed)
		: plan_(plan), random_(seed)
	{
		cq_.reset(ibv_create_cq(device.context.get(), 64, nullptr, nullptr, 0));
		memory_ = Mapping::anonymous(4096);
		mr_.reset(ibv_reg_mr(pd, memory_.data(), 4096,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
		if (!cq_ || !mr_)
			die("objects");
		for (unsigned i = 0; i < plan.pairs; ++i)
			qps_.push_back(make_pair(device, pd));
	}

	// How long the program waited for completions: in all, and for one.
	Clock::duration waited{}, longest{};

	void run(std::atomic<unsigned> &lost)
	{
		for (unsigned i = 0; i < plan_.messages && !lost; ++i) {
			if (!write(qps_[i % qps_.size()].get()))
				++lost;
			const auto until =
				Clock::now() +
				std::chrono::microseconds(random_.next() % (plan_.pause_us + 1));
			// A thread that sleeps leaves its processor to the device.
			if (i % 2)
				std::this_thread::sleep_until(until);
			while (Clock::now() < until)
				;
		}
	}

private:
	Qp make_pair(const Device &device, ibv_pd *pd)
	{
		ibv_qp_init_attr attr{};

		attr.qp_type = IBV_QPT_RC;
		attr.send_cq = attr.recv_cq = cq_.get();
		attr.cap = {.max_send_wr = 16,
			    .max_recv_wr = 1,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		Qp qp(ibv_create_qp(pd, &attr));
		if (!qp)
			die("ibv_create_qp");
		const Address self = {.qpn = qp->qp_num, .psn = 0, .gid = device.gid};
		int err = to_init(qp.get(), device, {});
		if (!err)
			err = to_rtr(qp.get(), device, self, {});
		if (!err)
			err = to_rts(qp.get(), 0, {});
		if (err)
			die("ibv_modify_qp", err);
		return qp;
	}

	// Returns false when the completion does not come.
	bool write(ibv_qp *qp)
	{
		ibv_sge sge = {.addr = memory_.address(), .length = 64, .lkey = mr_->lkey};
		ibv_send_wr wr{}, *bad = nullptr;
		ibv_wc wc{};

		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma = {.remote_addr = memory_.address(2048), .rkey = mr_->rkey};
		if (const int err = ibv_post_send(qp, &wr, &bad))
			die("ibv_post_send", err);
		const auto start = Clock::now();
		const auto end = start + std::chrono::milliseconds(plan_.patience_ms);
		while (Clock::now() < end) {
			const int polled = ibv_poll_cq(cq_.get(), 1, &wc);

			if (polled < 0 || (polled && wc.status != IBV_WC_SUCCESS))
				die("a write failed", EIO);
			if (!polled)
				continue;
			const auto took = Clock::now() - start;
			waited += took;
			longest = std::max(longest, took);
			return true;
		}
		return false;
	}

	const Plan &plan_;
	Random random_;
	Cq cq_;
	Mapping memory_;
	Mr mr_;
	std::vector<Qp> qps_;
};

// The page that the provider has mapped from the device's file.
volatile uint32_t *doorbell_page()
{
	std::ifstream maps("/proc/self/maps");

	for (std::string line; std::getline(maps, line);) {
		uintptr_t from = 0;

		if (line.find("/dev/infiniband/uverbs") != std::string::npos &&
		    std::sscanf(line.c_str(), "%" SCNxPTR "-", &from) == 1)
			return reinterpret_cast<volatile uint32_t *>(from);
	}
	return nullptr;
}

uint64_t store_for(unsigned seconds)
{
	volatile uint32_t *page = doorbell_page();
	const auto end = Clock::now() + std::chrono::seconds(seconds);
	uint64_t stores = 0;

	if (!page)
		die("no doorbell page", ENOENT);
	while (Clock::now() < end)
		for (int i = 0; i < 1000; ++i, ++stores)
			page[stores % 1024] = static_cast<uint32_t>(stores * 2654435761u);
	return stores;
}

} // namespace

int run(const Plan &plan)
{
	auto device = Device::open(plan.device, {});
	if (!device)
		return 1;
	const Pd pd(ibv_alloc_pd(device->context.get()));
	if (!pd)
		die("ibv_alloc_pd");
	std::vector<Writer> writers;
	std::vector<std::thread> threads;
	std::atomic<unsigned> lost{0};

	for (unsigned i = 0; i < plan.threads; ++i)
		writers.emplace_back(*device, pd.get(), plan, i + 1);
	if (plan.hostile_s)
		std::printf("%" PRIu64 " stores\n", store_for(plan.hostile_s));
	const auto start = Clock::now();
	for (Writer &writer : writers)
		threads.emplace_back([&] { writer.run(lost); });
	for (std::thread &thread : threads)
		thread.join();
	const double took = std::chrono::duration<double>(Clock::now() - start).count();
	Clock::duration waited{}, longest{};
	for (const Writer &writer : writers) {
		waited += writer.waited;
		longest = std::max(longest, writer.longest);
	}
	std::printf("%u messages through %u queue pairs of %u threads in %.1f s, "
		    "each %.0f us (%.0f at most), %u lost\n",
		    plan.threads * plan.messages, plan.threads * plan.pairs, plan.threads, took,
		    Micros(waited).count() / (plan.threads * plan.messages),
		    Micros(longest).count(), lost.load());
	return lost ? 1 : 0;
}

} // namespace verbs

int main(int argc, char **argv)
{
	verbs::Plan plan;

	for (int option; (option = getopt(argc, argv, "d:t:q:n:p:w:x:")) != -1;) {
		const unsigned number =
			static_cast<unsigned>(std::strtoul(optarg ? optarg : "", nullptr, 0));

		switch (option) {
		case 'd':
			plan.device = optarg;
			break;
		case 't':
			plan.threads = number;
			break;
		case 'q':
			plan.pairs = number;
			break;
		case 'n':
			plan.messages = number;
			break;
		case 'p':
			plan.pause_us = number;
			break;
		case 'w':
			plan.patience_ms = number;
			break;
		case 'x':
			plan.hostile_s = number;
			break;
		default:
			return 2;
		}
	}
	return verbs::run(plan);
}
