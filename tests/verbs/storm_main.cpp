// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// How much of its rate a ping-pong keeps while another process, of another user if root starts this, storms the device:
//   flush    queue pairs with deep receive queues go to the error state, all of them together
//   events   queue pairs in the error state, each with a completion queue that is armed again and again: each receive is an event
// Prints the ping-pong's rates in messages per second: alone, beside a process that only computes, and during the storm. Then
// what the storm leaves of the greater of the first two, in percent; the best of a few storms, for the machine may be busy
// with something else during one. With -c it is what the storm leaves of the rate beside the computing process: on one CPU,
// any process that runs is entitled to half of it, so the ping-pong cannot keep its rate alone.
//   verbs_storm -d DEVICE [-n QPS] [-w RECEIVES OF EACH] [-r STORMS] [-l PERCENT THAT ARE ENOUGH] [-c] flush|events
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <grp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_storm: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_storm: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

struct Plan {
	std::string device;
	uint32_t qps = 1000;
	uint32_t depth = 1024;
	int storms = 5;
	int enough = 50;
	bool events = false;
	bool beside = false; // compare with the rate beside a process that computes
};

// What the two processes tell each other.
struct Shared {
	std::atomic<uint64_t> messages{0}; // of the ping-pong
	std::atomic<bool> ready{false}; // the storm can begin
	std::atomic<bool> compute{false}; // the storm's process computes until @go
	std::atomic<bool> go{false};
	std::atomic<bool> over{false}; // it has ended
	std::atomic<uint64_t> done{0}; // completions of it
};

void await(const std::atomic<bool> &flag)
{
	while (!flag)
		std::this_thread::sleep_for(1ms);
}

ibv_qp_init_attr qp_attr(ibv_cq *cq, uint32_t depth)
{
	ibv_qp_init_attr init = {};

	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = 1;
	init.cap.max_recv_wr = depth;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	return init;
}

// The storm

struct Target {
	Cq own; // of events alone
	Qp qp;
	uint64_t due = 0;
};

void post_recv(ibv_qp *qp)
{
	ibv_recv_wr wr = {}, *bad = nullptr;

	if (const int rc = ibv_post_recv(qp, &wr, &bad)) {
		errno = rc;
		die("post_recv");
	}
}

class Storm {
public:
	Storm(const Plan &plan, Shared &shared) : plan_(plan), shared_(shared)
	{
		device_ = Device::open(plan.device, {});
		if (!device_)
			_exit(1);
		ibv_context *context = device_->context.get();
		pd_.reset(ibv_alloc_pd(context));
		channel_.reset(ibv_create_comp_channel(context));
		if (!pd_ || !channel_)
			die("set-up of the storm");
		const uint32_t each =
			static_cast<uint32_t>(std::min(device_->attr.max_cqe, 1 << 18));
		uint32_t room = 0;
		for (uint32_t i = 0; i < plan.qps; i++) {
			if (!plan.events && room < plan.depth) {
				cqs_.emplace_back(ibv_create_cq(context, static_cast<int>(each),
								nullptr, nullptr, 0));
				if (!cqs_.back())
					die("completion queue");
				room = each;
			}
			room -= plan.depth;
			add();
		}
	}

	void run()
	{
		if (plan_.events)
			event_storm();
		else
			flush_storm();
	}

private:
	void add()
	{
		Target target;
		ibv_cq *cq = plan_.events ? nullptr : cqs_.back().get();

		if (plan_.events) {
			target.own.reset(ibv_create_cq(device_->context.get(), 16, nullptr,
						       channel_.get(), 0));
			cq = target.own.get();
			if (!cq)
				die("completion queue");
		}
		ibv_qp_init_attr init = qp_attr(cq, plan_.events ? 4 : plan_.depth);
		target.qp.reset(ibv_create_qp(pd_.get(), &init));
		if (!target.qp || (errno = to_init(target.qp.get(), *device_, {})))
			die("queue pair");
		if (plan_.events && (errno = to_state(target.qp.get(), IBV_QPS_ERR)))
			die("error state");
		for (uint32_t n = 0; !plan_.events && n < plan_.depth; n++)
			post_recv(target.qp.get());
		targets_.push_back(std::move(target));
	}

	void flush_storm()
	{
		uint64_t left = uint64_t{plan_.qps} * plan_.depth;

		for (Target &target : targets_)
			if ((errno = to_state(target.qp.get(), IBV_QPS_ERR)))
				die("error state");
		std::vector<ibv_wc> wc(1024);
		while (left) {
			uint64_t got = 0;
			for (const Cq &cq : cqs_) {
				const int n = ibv_poll_cq(cq.get(), static_cast<int>(wc.size()),
							  wc.data());
				if (n < 0)
					die("poll_cq");
				got += static_cast<uint64_t>(n);
			}
			left -= got;
			shared_.done += got;
			if (!got)
				std::this_thread::sleep_for(5ms);
		}
	}

	// For two seconds: each gets a receive, which is an event, and is armed again.
	void event_storm()
	{
		const auto end = Clock::now() + 2s;

		while (Clock::now() < end) {
			for (Target &target : targets_) {
				ibv_wc wc;
				if (ibv_req_notify_cq(target.own.get(), 0))
					die("req_notify_cq");
				post_recv(target.qp.get());
				while (ibv_poll_cq(target.own.get(), 1, &wc) > 0)
					shared_.done++;
			}
			ibv_cq *cq;
			void *ctx;
			for (size_t i = 0; i < targets_.size(); i++) {
				if (ibv_get_cq_event(channel_.get(), &cq, &ctx))
					die("get_cq_event");
				ibv_ack_cq_events(cq, 1);
			}
		}
	}

	const Plan &plan_;
	Shared &shared_;
	std::optional<Device> device_;
	Pd pd_;
	Channel channel_;
	std::vector<Cq> cqs_;
	std::vector<Target> targets_;
};

// The ping-pong: two threads that sleep until the other one's message is there.

struct End {
	Channel channel;
	Cq cq;
	Qp qp;
};

End make_end(const Device &device, ibv_pd *pd)
{
	End end;

	end.channel.reset(ibv_create_comp_channel(device.context.get()));
	end.cq.reset(ibv_create_cq(device.context.get(), 64, nullptr, end.channel.get(), 0));
	if (!end.channel || !end.cq)
		die("set-up of the ping-pong");
	ibv_qp_init_attr init = qp_attr(end.cq.get(), 4);
	end.qp.reset(ibv_create_qp(pd, &init));
	if (!end.qp)
		die("queue pair");
	return end;
}

void connect(const Device &device, const End &end, const End &peer)
{
	const Link link;
	const Address to{.qpn = peer.qp->qp_num, .psn = 0, .gid = device.gid};

	if ((errno = to_init(end.qp.get(), device, link)) ||
	    (errno = to_rtr(end.qp.get(), device, to, link)) ||
	    (errno = to_rts(end.qp.get(), 0, link)))
		die("connect");
}

void post_send(ibv_qp *qp)
{
	ibv_send_wr wr = {}, *bad = nullptr;

	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (const int rc = ibv_post_send(qp, &wr, &bad)) {
		errno = rc;
		die("post_send");
	}
}

// Until a message has come and @sends of the end's own are done.
void take(const End &end, bool sent, const std::atomic<bool> &stop)
{
	bool received = false;

	for (;;) {
		ibv_wc wc;
		int n;
		while ((n = ibv_poll_cq(end.cq.get(), 1, &wc)) > 0) {
			if (wc.status != IBV_WC_SUCCESS && !stop)
				die(ibv_wc_status_str(wc.status));
			if (wc.opcode & IBV_WC_RECV)
				received = true;
			else
				sent = true;
		}
		if ((received && sent) || stop)
			return;
		if (ibv_req_notify_cq(end.cq.get(), 0))
			die("req_notify_cq");
		if ((n = ibv_poll_cq(end.cq.get(), 1, &wc)) > 0) {
			if (wc.opcode & IBV_WC_RECV)
				received = true;
			else
				sent = true;
			if (received && sent)
				return;
		}
		pollfd ready{.fd = end.channel->fd, .events = POLLIN, .revents = 0};
		if (poll(&ready, 1, 100) <= 0)
			continue;
		ibv_cq *cq;
		void *ctx;
		if (ibv_get_cq_event(end.channel.get(), &cq, &ctx))
			die("get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
}

class PingPong {
public:
	PingPong(const Plan &plan, Shared &shared) : shared_(shared)
	{
		device_ = Device::open(plan.device, {});
		if (!device_)
			_exit(1);
		pd_.reset(ibv_alloc_pd(device_->context.get()));
		if (!pd_)
			die("alloc_pd");
		a_ = make_end(*device_, pd_.get());
		b_ = make_end(*device_, pd_.get());
		connect(*device_, a_, b_);
		connect(*device_, b_, a_);
		post_recv(a_.qp.get());
		post_recv(b_.qp.get());
		threads_.emplace_back([this] { play(a_, true); });
		threads_.emplace_back([this] { play(b_, false); });
	}
	~PingPong()
	{
		stop_ = true;
		for (std::thread &thread : threads_)
			thread.join();
	}

private:
	void play(const End &end, bool first)
	{
		bool sent = !first;

		if (first)
			post_send(end.qp.get());
		while (!stop_) {
			take(end, sent, stop_);
			if (stop_)
				return;
			shared_.messages++;
			post_recv(end.qp.get());
			post_send(end.qp.get());
			sent = false;
		}
	}

	Shared &shared_;
	std::optional<Device> device_;
	Pd pd_;
	End a_, b_;
	std::atomic<bool> stop_{false};
	std::vector<std::thread> threads_;
};

double seconds_since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

// Messages per second until @end is true, or for @length.
double rate(const Shared &shared, const std::atomic<bool> *end, std::chrono::milliseconds length)
{
	const auto start = Clock::now();
	const uint64_t before = shared.messages;

	while (end ? !*end : Clock::now() - start < length)
		std::this_thread::sleep_for(1ms);
	return static_cast<double>(shared.messages - before) / seconds_since(start);
}

// What root may pin stays allowed.
void become_another_user()
{
	constexpr uid_t nobody = 65534;
	const rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	if (geteuid())
		return;
	if (setrlimit(RLIMIT_MEMLOCK, &all) || setgroups(0, nullptr) ||
	    setresgid(nobody, nobody, nobody) || setresuid(nobody, nobody, nobody))
		die("another user");
}

pid_t fork_storm(const Plan &plan, Shared &shared)
{
	const pid_t child = fork();

	if (child < 0)
		die("fork");
	if (child)
		return child;
	become_another_user();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	{
		Storm storm(plan, shared);
		shared.ready = true;
		await(shared.compute);
		while (!shared.go)
			;
		storm.run();
		shared.over = true;
	}
	_exit(0);
}

double one_storm(const Plan &plan, Shared &shared)
{
	new (&shared) Shared;
	const auto forked = Clock::now();
	const pid_t child = fork_storm(plan, shared); // before this process opens the device
	int status = 0;
	double left = 0;
	{
		PingPong victim(plan, shared);
		while (!shared.ready) {
			if (waitpid(child, &status, WNOHANG) == child)
				std::exit(1);
			std::this_thread::sleep_for(10ms);
		}
		const double setup = seconds_since(forked);
		const double alone = rate(shared, nullptr, 500ms);
		shared.compute = true;
		const double beside = rate(shared, nullptr, 500ms);
		shared.go = true;
		const auto start = Clock::now();
		const double during = rate(shared, &shared.over, 0ms);
		const double seconds = seconds_since(start);
		const double kept = plan.beside ? beside : std::max(alone, beside);
		left = during * 100 / std::max(kept, 1.0);
		std::printf("alone %.0f, beside a process that computes %.0f, during the storm "
			    "%.0f, left %.0f %%: %u queue pairs, made in %.1f s, %llu completions "
			    "in %.1f s\n",
			    alone, beside, during, left, plan.qps, setup,
			    static_cast<unsigned long long>(shared.done), seconds);
		std::fflush(stdout);
	}
	if (waitpid(child, &status, 0) != child || status)
		std::exit(1);
	return left;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	verbs::Plan plan;
	for (int opt; (opt = getopt(argc, argv, "d:n:w:r:l:c")) != -1;) {
		if (opt == 'd')
			plan.device = optarg;
		else if (opt == 'n')
			plan.qps = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
		else if (opt == 'w')
			plan.depth = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
		else if (opt == 'r')
			plan.storms = std::atoi(optarg);
		else if (opt == 'l')
			plan.enough = std::atoi(optarg);
		else if (opt == 'c')
			plan.beside = true;
		else
			return 2;
	}
	const std::string what = optind < argc ? argv[optind] : "";
	plan.events = what == "events";
	if (plan.device.empty() || (what != "flush" && what != "events") || !plan.qps ||
	    !plan.depth) {
		std::fputs("verbs_storm -d DEVICE [-n QPS] [-w RECEIVES] [-r STORMS] "
			   "[-l PERCENT] [-c] flush|events\n",
			   stderr);
		return 2;
	}
	void *memory = mmap(nullptr, sizeof(verbs::Shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	double best = 0;
	for (int i = 0; i < plan.storms && best < plan.enough; i++)
		best = std::max(best,
				verbs::one_storm(plan, *static_cast<verbs::Shared *>(memory)));
	std::printf("best %.0f\n", best);
}
