// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Times queue pairs from one device to another (or to itself), both ends in this process.
//   qpbench rts DEVICE PEER [COUNT]                        median microseconds from ibv_create_qp to the state RTS, and of
//                                                          ibv_destroy_qp; one queue pair after the other
//   qpbench lat DEVICE PEER send|write BYTES [COUNT]       median microseconds of a message and of its answer, halved. This
//                                                          thread is both ends, so that with time that is counted
//                                                          (vm/run --icount) the figure is exact
//   qpbench write DEVICE PEER BYTES [SECONDS [QPS]]        RDMA WRITEs: MB/s, and CPU seconds for a GB. QPS queue pairs, each
//                                                          with a thread on a CPU of its own
// The threads of `write` sleep until there are completions, so that the CPU time is that of the work. It is the time of all
// CPUs in which they were not idle, by /proc/stat: interrupts are in it. MB and GB are those of perftest, 2^20 and 2^30 bytes.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "qpbench: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr uint32_t outstanding = 16; // messages of each queue pair
// A message is given up by the device after 8 times 67 ms; a completion that takes longer than this was lost.
constexpr int patience_ms = 10000;

[[noreturn]] void die(const char *what, int error = errno)
{
	std::fprintf(stderr, "qpbench: %s: %s\n", what, std::strerror(error));
	_exit(1); // other threads may be at work
}

Device open_device(const std::string &name)
{
	auto device = Device::open(name, {});
	if (!device)
		_exit(1); // Device::open has said why
	return std::move(*device);
}

Link link_between(const Device &a, const Device &b)
{
	Link link;
	link.mtu = std::min(a.port_attr.active_mtu, b.port_attr.active_mtu);
	return link;
}

// A device with a completion queue, and a channel for its events.
struct Side {
	const Device &device;
	Pd pd;
	Channel channel;
	Cq cq;

	explicit Side(const Device &opened) : device(opened)
	{
		pd.reset(ibv_alloc_pd(device.context.get()));
		channel.reset(ibv_create_comp_channel(device.context.get()));
		if (pd && channel)
			cq.reset(ibv_create_cq(device.context.get(), outstanding, nullptr,
					       channel.get(), 0));
		if (!cq)
			die(device.name.c_str());
	}
	Qp make_qp() const
	{
		Qp qp = make_rc_qp(pd.get(), cq.get(), outstanding);
		if (!qp)
			die("ibv_create_qp");
		return qp;
	}
	Address address(const Qp &qp) const { return {qp->qp_num, 0, device.gid}; }
};

void connect(const Device &device, ibv_qp *qp, const Address &remote, const Link &link)
{
	if (const int rc = to_init(qp, device, link))
		die("to INIT", rc);
	if (const int rc = to_rtr(qp, device, remote, link))
		die("to RTR", rc);
	if (const int rc = to_rts(qp, 0, link))
		die("to RTS", rc);
}

// ---- rts

double median(std::vector<double> &values)
{
	const auto middle = values.begin() + static_cast<long>(values.size() / 2);
	std::nth_element(values.begin(), middle, values.end());
	return *middle;
}

void time_rts(const std::string &name, const std::string &peer_name, size_t count)
{
	const Device device = open_device(name), peer = open_device(peer_name);
	const Side near(device), far(peer);
	const Link link = link_between(device, peer);
	const Qp other = far.make_qp();
	std::vector<double> made, destroyed;

	for (size_t i = 0; i <= count; i++) {
		const auto start = Clock::now();
		Qp qp = near.make_qp();
		connect(device, qp.get(), far.address(other), link);
		const auto middle = Clock::now();
		qp.reset();
		const auto end = Clock::now();
		if (i) { // the first one resolves the peer's address
			made.push_back(Microseconds(middle - start).count());
			destroyed.push_back(Microseconds(end - middle).count());
		}
	}
	std::printf("%.2f %.2f\n", median(made), median(destroyed));
}

// ---- lat

// An end of the connection, with the memory for a message to each direction.
class Player {
public:
	Player(const Device &device, size_t bytes)
		: side_(device), memory_(Mapping::anonymous(2 * bytes)), bytes_(bytes),
		  qp_(side_.make_qp())
	{
		if (!memory_)
			die("memory");
		std::memset(memory_.data(), 0, memory_.size());
		mr_.reset(ibv_reg_mr(side_.pd.get(), memory_.data(), memory_.size(),
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
		if (!mr_)
			die("ibv_reg_mr");
	}
	void connect(const Player &peer, const Link &link)
	{
		verbs::connect(side_.device, qp_.get(), peer.side_.address(peer.qp_), link);
	}
	// The peer's message `n` ends with the lowest byte of n.
	void write(const Player &peer, uint32_t n)
	{
		ibv_send_wr wr = message(n);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = peer.memory_.address(bytes_);
		wr.wr.rdma.rkey = peer.mr_->rkey;
		post(wr);
	}
	void await_write(uint32_t n) const
	{
		const auto *last =
			reinterpret_cast<const volatile uint8_t *>(memory_.data()) + 2 * bytes_ - 1;
		const auto limit = Clock::now() + std::chrono::milliseconds(patience_ms);
		while (*last != static_cast<uint8_t>(n)) {
			if (Clock::now() > limit)
				die("no message", ETIMEDOUT);
		}
	}
	void send(uint32_t n)
	{
		ibv_send_wr wr = message(n);
		wr.opcode = IBV_WR_SEND;
		post(wr);
	}
	void receive()
	{
		ibv_sge sge = {memory_.address(bytes_), static_cast<uint32_t>(bytes_), mr_->lkey};
		ibv_recv_wr wr = {}, *bad = nullptr;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (const int rc = ibv_post_recv(qp_.get(), &wr, &bad))
			die("ibv_post_recv", rc);
	}
	// Takes completions until there were `sends` and `receives` of them.
	void await(int sends, int receives)
	{
		const auto limit = Clock::now() + std::chrono::milliseconds(patience_ms);
		ibv_wc wc;
		while (sends_ < sends || receives_ < receives) {
			const int n = ibv_poll_cq(side_.cq.get(), 1, &wc);
			if (n < 0)
				die("ibv_poll_cq", -n);
			if (n && wc.status != IBV_WC_SUCCESS) {
				std::fprintf(stderr, "qpbench: %s\n", ibv_wc_status_str(wc.status));
				_exit(1);
			}
			if (n)
				(wc.opcode & IBV_WC_RECV ? receives_ : sends_)++;
			else if (Clock::now() > limit)
				die("no completion", ETIMEDOUT);
		}
		sends_ -= sends;
		receives_ -= receives;
	}

private:
	ibv_send_wr message(uint32_t n)
	{
		memory_.data()[bytes_ - 1] = static_cast<std::byte>(n);
		sge_ = {memory_.address(), static_cast<uint32_t>(bytes_), mr_->lkey};
		ibv_send_wr wr = {};
		wr.sg_list = &sge_;
		wr.num_sge = 1;
		return wr;
	}
	void post(ibv_send_wr &wr)
	{
		ibv_send_wr *bad = nullptr;
		if (const int rc = ibv_post_send(qp_.get(), &wr, &bad))
			die("ibv_post_send", rc);
	}

	Side side_;
	Mapping memory_;
	size_t bytes_;
	Mr mr_;
	Qp qp_;
	ibv_sge sge_ = {};
	int sends_ = 0, receives_ = 0;
};

// One message. As in perftest, the sender takes its completion, which the peer does not wait for.
void play(Player &from, Player &to, bool sends, uint32_t n)
{
	if (sends) {
		from.send(n);
		to.await(0, 1);
		to.receive();
	} else {
		from.write(to, n);
		to.await_write(n);
	}
	from.await(1, 0);
}

void time_messages(const std::string &name, const std::string &peer_name, bool sends, size_t bytes,
		   uint32_t count)
{
	const Device device = open_device(name), peer = open_device(peer_name);
	Player near(device, bytes), far(peer, bytes);
	const Link link = link_between(device, peer);
	std::vector<double> took;

	near.connect(far, link);
	far.connect(near, link);
	if (sends) {
		near.receive();
		far.receive();
	}
	for (uint32_t n = 1; n <= count; n++) {
		const auto start = Clock::now();
		play(near, far, sends, n);
		play(far, near, sends, n);
		took.push_back(Microseconds(Clock::now() - start).count() / 2);
	}
	std::printf("%.3f\n", median(took));
}

// ---- write

void pin_to(size_t cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (const int rc = pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("pthread_setaffinity_np", rc);
}

// The seconds all CPUs were not idle, since boot.
double busy_seconds()
{
	std::ifstream file("/proc/stat");
	std::string name;
	std::array<uint64_t, 8> ticks = {}; // user nice system idle iowait irq softirq steal
	file >> name;
	for (uint64_t &t : ticks)
		file >> t;
	if (!file)
		die("/proc/stat");
	const uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
	return static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A queue pair, its peer, and their memory.
class Writer {
public:
	Writer(const Device &from, const Device &to, size_t bytes)
		: near_(from), far_(to), memory_(Mapping::anonymous(2 * bytes)), bytes_(bytes),
		  qp_(near_.make_qp()), peer_(far_.make_qp())
	{
		const Link link = link_between(from, to);
		if (!memory_)
			die("memory");
		std::memset(memory_.data(), 1, memory_.size());
		source_.reset(ibv_reg_mr(near_.pd.get(), memory_.data(), bytes, 0));
		target_.reset(
			ibv_reg_mr(far_.pd.get(), memory_.data() + bytes, bytes, link.access));
		if (!source_ || !target_)
			die("ibv_reg_mr");
		connect(from, qp_.get(), far_.address(peer_), link);
		connect(to, peer_.get(), near_.address(qp_), link);
	}

	// Keeps messages on their way until the deadline, and waits for the last one.
	void run_until(Clock::time_point deadline)
	{
		for (uint32_t i = 0; i < outstanding; i++)
			post();
		while (on_their_way_) {
			if (const int rc = ibv_req_notify_cq(near_.cq.get(), 0))
				die("ibv_req_notify_cq", rc);
			if (!take(deadline) && on_their_way_)
				sleep_until_event();
		}
	}
	uint64_t completed() const { return completed_; }

private:
	void post()
	{
		ibv_sge sge = {memory_.address(), static_cast<uint32_t>(bytes_), source_->lkey};
		ibv_send_wr wr = {}, *bad = nullptr;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = memory_.address(bytes_);
		wr.wr.rdma.rkey = target_->rkey;
		if (const int rc = ibv_post_send(qp_.get(), &wr, &bad))
			die("ibv_post_send", rc);
		on_their_way_++;
	}
	// Takes all completions; the number of them.
	size_t take(Clock::time_point deadline)
	{
		std::array<ibv_wc, outstanding> wcs;
		size_t taken = 0;
		int n;
		while ((n = ibv_poll_cq(near_.cq.get(), static_cast<int>(wcs.size()), wcs.data())) >
		       0) {
			for (int i = 0; i < n; i++) {
				const ibv_wc &wc = wcs[static_cast<size_t>(i)];
				if (wc.status != IBV_WC_SUCCESS) {
					std::fprintf(stderr, "qpbench: %s\n",
						     ibv_wc_status_str(wc.status));
					_exit(1);
				}
				on_their_way_--;
				completed_++;
				if (Clock::now() < deadline)
					post();
			}
			taken += static_cast<size_t>(n);
		}
		if (n < 0)
			die("ibv_poll_cq", -n);
		return taken;
	}
	void sleep_until_event()
	{
		pollfd ready = {near_.channel->fd, POLLIN, 0};
		const int rc = poll(&ready, 1, patience_ms);
		if (rc <= 0)
			die("no completion", rc ? errno : ETIMEDOUT);
		ibv_cq *cq;
		void *context;
		if (ibv_get_cq_event(near_.channel.get(), &cq, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}

	Side near_, far_;
	Mapping memory_;
	size_t bytes_;
	Mr source_, target_;
	Qp qp_, peer_;
	uint32_t on_their_way_ = 0;
	uint64_t completed_ = 0;
};

void time_writes(const std::string &name, const std::string &peer_name, size_t bytes,
		 double seconds, size_t pairs)
{
	const Device device = open_device(name), peer = open_device(peer_name);
	std::vector<std::unique_ptr<Writer>> writers;
	std::vector<std::thread> threads;
	for (size_t i = 0; i < pairs; i++)
		writers.push_back(std::make_unique<Writer>(device, peer, bytes));

	Clock::time_point start, deadline;
	double busy = 0;
	std::barrier ready(static_cast<std::ptrdiff_t>(pairs), [&]() noexcept {
		busy = busy_seconds();
		start = Clock::now();
		deadline = start + std::chrono::duration_cast<Clock::duration>(
					   std::chrono::duration<double>(seconds));
	});
	for (size_t i = 0; i < pairs; i++)
		threads.emplace_back([&, i] {
			pin_to(i);
			ready.arrive_and_wait();
			writers[i]->run_until(deadline);
		});
	for (std::thread &thread : threads)
		thread.join();
	const std::chrono::duration<double> took = Clock::now() - start;
	busy = busy_seconds() - busy;

	double total = 0;
	for (const auto &writer : writers)
		total += static_cast<double>(writer->completed()) * static_cast<double>(bytes);
	std::printf("%.2f %.4f\n", total / took.count() / (1 << 20), busy / (total / (1 << 30)));
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	const std::string mode = argc > 1 ? argv[1] : "";
	const auto number = [&](int i, double otherwise) {
		return argc > i ? std::atof(argv[i]) : otherwise;
	};
	const size_t count = static_cast<size_t>(number(4, 200));
	const double seconds = number(5, 1);
	const size_t pairs = static_cast<size_t>(number(6, 1));
	if (mode == "rts" && argc >= 4 && count) {
		verbs::time_rts(argv[2], argv[3], count);
		return 0;
	}
	const std::string how = argc > 4 ? argv[4] : "";
	const auto bytes = static_cast<size_t>(number(5, 0));
	if (mode == "lat" && (how == "send" || how == "write") && bytes) {
		verbs::time_messages(argv[2], argv[3], how == "send", bytes,
				     static_cast<uint32_t>(number(6, 1000)));
		return 0;
	}
	if (mode == "write" && argc >= 5 && count && seconds > 0 && pairs) {
		verbs::time_writes(argv[2], argv[3], count, seconds, pairs);
		return 0;
	}
	std::fprintf(stderr, "qpbench rts DEVICE PEER [COUNT] | lat DEVICE PEER send|write BYTES "
			     "[COUNT] | "
			     "write DEVICE PEER BYTES [SECONDS [QPS]]\n");
	return 2;
}
