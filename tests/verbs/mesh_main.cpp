// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// verbs_mesh: processes of which each has an RC queue pair to every other one.
//   verbs_mesh [-w SECONDS] [-t SECONDS] COMMAND...
//     the hub; it starts the members as "COMMAND... verbs_mesh -m NAME"
//     -w  how long it waits for anything (60)     -t  how long each measurement takes (0.1)
//
// First there are half of them, then all. Each time data go between every pair and are compared at both ends, and the memory
// of all is measured when they have been idle for a while. Then members 0 and 1 measure what polls and messages cost them,
// while all others sleep, by turns with two processes that are connected to each other only.
//
// A member sleeps in recv() on its socket to the hub until an order comes. The hub prints the figures and the goals that are
// missed; it fails if there are any, or if data differ.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_mesh: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

using Clock = std::chrono::steady_clock;

constexpr uint32_t members_max = 64;
// Of a member's memory. The three parts of a peer are written by it, filled by a SEND of it, and read from it.
constexpr size_t part = 4096;
constexpr size_t slot = 4 * part;
constexpr size_t words_at =
	members_max * slot; // words of the measurements: what the peer writes, what is written from
constexpr uint32_t depth = 256;
constexpr uint32_t list = 16;
constexpr uint32_t word_len = 8;
constexpr uint64_t stop_word = ~0ull;
constexpr int rounds = 12; // of each measurement, in the mesh and alone by turns
constexpr double pace = 1.2; // the mesh may cost so many times what the pair alone costs
constexpr double pair_kib = 64; // KiB of a pair that is idle, at both ends

[[noreturn]] void die(const std::string &what, int error = errno)
{
	std::fprintf(stderr, "verbs_mesh: %s: %s\n", what.c_str(), std::strerror(error));
	std::exit(1);
}

double since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class What : uint32_t { join, connect, fill, move, check, memory, measure, serve };

struct Order {
	What what;
	uint32_t rank; // join: of the member that gets it
	uint32_t members; // of the mesh from now on
	uint32_t peer; // measure, serve
	uint64_t seed;
	double seconds;
};

// What the others must know of a member.
struct Card {
	ibv_gid gid;
	uint64_t base;
	uint32_t rkey;
	uint32_t qpns[members_max];
};

struct Costs {
	double first_ns; // of a poll that finds nothing, soon after one that did
	double empty_ns; // of a poll that finds nothing, after many such
	double busy_ns; // of a poll that returns a completion, while lists are posted
	double rate; // WRITEs of 8 bytes in lists of 16, millions a second
	double latency_us; // half a round trip of WRITEs of 8 bytes
};

struct Memory {
	uint64_t rss; // KiB, shared pages in full in each process that has them
	uint64_t pss; // KiB, each page once among all processes
};

struct Answer {
	uint64_t wrong; // parts that differ
	Memory memory;
	Costs costs;
	Card card;
};

template <typename Value> void send_value(int fd, const Value &value)
{
	if (send(fd, &value, sizeof(value), MSG_NOSIGNAL) != ssize_t(sizeof(value)))
		die("a message to the other side");
}

template <typename Value> bool receive_value(int fd, Value &value)
{
	ssize_t n;

	do
		n = recv(fd, &value, sizeof(value), 0);
	while (n < 0 && errno == EINTR);
	if (n && n != ssize_t(sizeof(value)))
		die("a message from the other side");
	return n;
}

sockaddr_un socket_name(const std::string &name, socklen_t &len)
{
	sockaddr_un sa = {};

	sa.sun_family = AF_UNIX;
	name.copy(sa.sun_path + 1, sizeof(sa.sun_path) - 1);
	len = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
	return sa;
}

uint64_t pattern_of(uint64_t seed, uint32_t from, uint32_t to)
{
	return seed * 0x10001 + from * members_max + to;
}

// To the @n-th processor that this process may use, as far as there are so many.
void pin(uint32_t n)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			die("sched_setaffinity");
	}
}

double processor_seconds()
{
	timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double median(std::vector<double> &values)
{
	const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);

	std::nth_element(values.begin(), middle, values.end());
	return *middle;
}

Memory memory_of_this_process()
{
	std::ifstream in("/proc/self/smaps_rollup");
	Memory memory = {};

	for (std::string line; std::getline(in, line);) {
		if (!line.compare(0, 4, "Rss:"))
			memory.rss = std::strtoull(line.c_str() + 4, nullptr, 10);
		if (!line.compare(0, 4, "Pss:"))
			memory.pss = std::strtoull(line.c_str() + 4, nullptr, 10);
	}
	if (!memory.rss || !memory.pss)
		die("/proc/self/smaps_rollup");
	return memory;
}

// ---- a member

class Member {
public:
	Member(int fd, const Order &join) : fd_(fd), rank_(join.rank)
	{
		if (rank_ < 2)
			pin(rank_);
		auto opened = Device::open("", {});
		if (!opened)
			std::exit(1);
		device_ = std::move(*opened);
		pd_.reset(ibv_alloc_pd(device_.context.get()));
		cq_.reset(
			ibv_create_cq(device_.context.get(), members_max * 8, nullptr, nullptr, 0));
		// Of its own, whose ring is small: what a poll finds is the pair's.
		memory_ = Mapping::anonymous(words_at + part);
		if (!pd_ || !cq_ || !memory_)
			die("the device's objects");
		mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), link_.access));
		if (!mr_)
			die("ibv_reg_mr");
		// It is all there before the first measurement of memory.
		std::memset(memory_.data(), 0, memory_.size());
		link_.mtu = device_.port_attr.active_mtu;
		link_.timeout = 18; // of a second: on two processors nothing may count as lost
		card_.gid = device_.gid;
		card_.base = memory_.address();
		card_.rkey = mr_->rkey;
	}

	// Does what the hub orders until it hangs up.
	void obey()
	{
		for (Order order; receive_value(fd_, order);) {
			Answer answer = {};

			switch (order.what) {
			case What::join:
				create_qps(order.members);
				answer.card = card_;
				break;
			case What::connect:
				connect_qps(order.members);
				break;
			case What::fill:
				fill(order);
				break;
			case What::move:
				move(order);
				break;
			case What::check:
				answer.wrong = count_wrong(order);
				break;
			case What::memory:
				answer.memory = memory_of_this_process();
				break;
			case What::measure:
				answer.costs = measure(order);
				break;
			case What::serve:
				serve(order);
				break;
			}
			send_value(fd_, answer);
		}
	}

private:
	struct Peer {
		Qp qp;
		Card card = {};
		bool connected = false;
	};

	std::byte *at(uint32_t peer, size_t which) const
	{
		return memory_.data() + peer * slot + which * part;
	}
	std::span<std::byte> part_of(uint32_t peer, size_t which) const
	{
		return {at(peer, which), part};
	}
	template <typename Do> void for_each_peer(uint32_t members, Do what)
	{
		// Each begins with the one after it, so that they do not all send to the same one.
		for (uint32_t i = 1; i < members; i++)
			what((rank_ + i) % members);
	}

	void create_qps(uint32_t members)
	{
		for_each_peer(members, [&](uint32_t p) {
			ibv_qp_init_attr init = {};

			if (peers_[p].qp)
				return;
			init.qp_type = IBV_QPT_RC;
			init.send_cq = init.recv_cq = cq_.get();
			// Members 0 and 1 send lists to each other.
			init.cap.max_send_wr = rank_ + p == 1 ? depth : 4;
			init.cap.max_recv_wr = 1;
			init.cap.max_send_sge = init.cap.max_recv_sge = 1;
			init.cap.max_inline_data = word_len;
			peers_[p].qp.reset(ibv_create_qp(pd_.get(), &init));
			if (!peers_[p].qp)
				die("ibv_create_qp");
			if (const int rc = to_init(peers_[p].qp.get(), device_, link_))
				die("to INIT", rc);
			card_.qpns[p] = peers_[p].qp->qp_num;
		});
	}

	void connect_qps(uint32_t members)
	{
		for (uint32_t p = 0; p < members; p++) {
			Card card;

			if (!receive_value(fd_, card))
				die("the cards");
			if (p == rank_ || peers_[p].connected)
				continue;
			ibv_qp *const qp = peers_[p].qp.get();
			const Address remote = {card.qpns[rank_], 0, card.gid};
			if (const int rc = to_rtr(qp, device_, remote, link_))
				die("to RTR", rc);
			if (const int rc = to_rts(qp, 0, link_))
				die("to RTS", rc);
			peers_[p].card = card;
			peers_[p].connected = true;
		}
	}

	void fill(const Order &order)
	{
		for_each_peer(order.members, [&](uint32_t p) {
			ibv_sge sge = {reinterpret_cast<uint64_t>(at(p, 2)), part, mr_->lkey};
			ibv_recv_wr wr = {}, *bad = nullptr;

			std::memset(at(p, 1), 0, 3 * part);
			fill_pattern(part_of(p, 0), pattern_of(order.seed, rank_, p));
			wr.sg_list = &sge;
			wr.num_sge = 1;
			if (const int rc = ibv_post_recv(peers_[p].qp.get(), &wr, &bad))
				die("ibv_post_recv", rc);
		});
	}

	// To and from each peer: a WRITE, a SEND and a READ, all in flight at once.
	void move(const Order &order)
	{
		uint32_t left = 0;

		for_each_peer(order.members, [&](uint32_t p) {
			const uint64_t theirs = peers_[p].card.base + rank_ * slot;

			post(p, IBV_WR_RDMA_WRITE, at(p, 0), theirs + part);
			post(p, IBV_WR_SEND, at(p, 0), 0);
			post(p, IBV_WR_RDMA_READ, at(p, 3), theirs);
			left += 4;
			while (left && poll())
				left--;
		});
		const Clock::time_point start = Clock::now();
		while (left) {
			left -= poll();
			if (since(start) > order.seconds)
				die("completions of " + std::to_string(left) + " requests",
				    ETIMEDOUT);
		}
	}

	void post(uint32_t p, ibv_wr_opcode op, const std::byte *local, uint64_t remote)
	{
		ibv_sge sge = {reinterpret_cast<uint64_t>(local), part, mr_->lkey};
		ibv_send_wr wr = {}, *bad = nullptr;

		wr.opcode = op;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma = {remote, peers_[p].card.rkey};
		if (const int rc = ibv_post_send(peers_[p].qp.get(), &wr, &bad))
			die("ibv_post_send", rc);
	}

	uint64_t count_wrong(const Order &order)
	{
		uint64_t wrong = 0;

		for_each_peer(order.members, [&](uint32_t p) {
			for (size_t which = 1; which < 4; which++) {
				const auto at_byte = find_mismatch(
					part_of(p, which), pattern_of(order.seed, p, rank_));

				if (!at_byte)
					continue;
				std::fprintf(stderr,
					     "member %u: part %zu from %u differs at byte %zu\n",
					     rank_, which, p, *at_byte);
				wrong++;
			}
		});
		return wrong;
	}

	uint32_t poll()
	{
		ibv_wc wc;
		const int n = ibv_poll_cq(cq_.get(), 1, &wc);

		if (n < 0)
			die("ibv_poll_cq");
		if (n && wc.status != IBV_WC_SUCCESS) {
			std::fprintf(stderr, "verbs_mesh: member %u: %s\n", rank_,
				     ibv_wc_status_str(wc.status));
			std::exit(1);
		}
		return static_cast<uint32_t>(n);
	}

	// ---- measurements

	std::atomic_ref<uint64_t> word(size_t index) const
	{
		return std::atomic_ref<uint64_t>(
			reinterpret_cast<uint64_t *>(memory_.data() + words_at)[index]);
	}

	// WRITE @value to the peer's word, @count times in one list.
	void write_word(uint32_t p, uint64_t value, uint32_t count, bool signaled)
	{
		ibv_sge sge = {memory_.address(words_at + word_len), word_len, mr_->lkey};
		std::array<ibv_send_wr, list> wrs = {};
		ibv_send_wr *bad = nullptr;

		word(1) = value;
		for (uint32_t i = 0; i < count; i++) {
			wrs[i].opcode = IBV_WR_RDMA_WRITE;
			wrs[i].sg_list = &sge;
			wrs[i].num_sge = 1;
			wrs[i].send_flags = IBV_SEND_INLINE;
			wrs[i].wr.rdma = {peers_[p].card.base + words_at, peers_[p].card.rkey};
			wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
		}
		if (signaled)
			wrs[count - 1].send_flags |= IBV_SEND_SIGNALED;
		if (const int rc = ibv_post_send(peers_[p].qp.get(), wrs.data(), &bad))
			die("ibv_post_send", rc);
	}

	// Every 16th is signaled, and its completion is taken while the next ones are under way.
	void write_counted(uint32_t p, uint64_t value)
	{
		const bool signaled = ++written_ % list == 0;

		write_word(p, value, 1, signaled);
		unpolled_ += signaled;
	}

	void drain()
	{
		while (unpolled_)
			unpolled_ -= poll();
	}

	// The peer answers each word with the same one. The best batch counts, as with lists: on a busy machine the median is the
	// time for which one of the two waits for a processor.
	double latency_us(uint32_t p, double seconds)
	{
		constexpr int batch = 8;
		const Clock::time_point start = Clock::now();
		std::vector<double> halves;

		do {
			const Clock::time_point begin = Clock::now();

			for (int i = 0; i < batch; i++) {
				write_counted(p, ++value_);
				while (word(0) != value_)
					unpolled_ -= poll();
			}
			halves.push_back(since(begin) / batch / 2 * 1e6);
		} while (since(start) < seconds);
		drain();
		return *std::min_element(halves.begin(), halves.end());
	}

	// The device does not yield the processor before 64 polls.
	double first_polls_ns(uint32_t p, double seconds)
	{
		constexpr int batch = 32;
		const Clock::time_point start = Clock::now();
		std::vector<double> costs;

		do {
			write_word(p, 0, 1, true);
			unpolled_++;
			drain();
			const Clock::time_point begin = Clock::now();
			for (int i = 0; i < batch; i++)
				if (poll())
					die("a completion of nothing", EPROTO);
			costs.push_back(since(begin) / batch * 1e9);
		} while (since(start) < seconds);
		return median(costs);
	}

	// In time of the processor, because a process that finds nothing yields it to others.
	double empty_poll_ns(double seconds)
	{
		constexpr int batch = 128;
		const Clock::time_point start = Clock::now();
		std::vector<double> costs;

		do {
			const double begin = processor_seconds();

			for (int i = 0; i < batch; i++)
				if (poll())
					die("a completion of nothing", EPROTO);
			costs.push_back((processor_seconds() - begin) / batch * 1e9);
		} while (since(start) < seconds);
		return median(costs);
	}

	// Lists to the peer, which does not answer these.
	void flood(uint32_t p, double seconds, Costs &costs)
	{
		constexpr uint32_t batch = 4 * depth / list;
		const Clock::time_point start = Clock::now();
		std::vector<double> rates, polls;

		do {
			const Clock::time_point begin = Clock::now();

			for (uint32_t done = 0; done < batch;) {
				for (; unpolled_ < depth / list; unpolled_++)
					write_word(p, 0, list, true);
				const Clock::time_point before = Clock::now();
				const uint32_t found = poll();
				if (found)
					polls.push_back(since(before) * 1e9);
				unpolled_ -= found;
				done += found;
			}
			rates.push_back(batch * list / since(begin) / 1e6);
		} while (since(start) < seconds);
		drain();
		costs.rate = *std::max_element(rates.begin(), rates.end());
		costs.busy_ns = median(polls);
	}

	Costs measure(const Order &order)
	{
		Costs costs = {};

		costs.latency_us = latency_us(order.peer, order.seconds);
		costs.first_ns = first_polls_ns(order.peer, order.seconds);
		costs.empty_ns = empty_poll_ns(order.seconds);
		flood(order.peer, order.seconds, costs);
		write_word(order.peer, stop_word, 1, true);
		unpolled_ = 1;
		drain();
		return costs;
	}

	void serve(const Order &order)
	{
		uint64_t seen = 0, now;

		while ((now = word(0)) != stop_word) {
			if (now && now != seen)
				write_counted(order.peer, seen = now);
			unpolled_ -= poll();
		}
		drain();
		word(0) = 0; // for the next time
	}

	const int fd_;
	const uint32_t rank_;
	Device device_;
	Link link_;
	Pd pd_;
	Cq cq_;
	Mapping memory_;
	Mr mr_;
	std::array<Peer, members_max> peers_;
	Card card_ = {};
	uint64_t value_ = 0;
	uint64_t written_ = 0;
	uint32_t unpolled_ = 0;
};

int be_member(const std::string &name)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t len;
	const sockaddr_un sa = socket_name(name, len);
	Order join;

	if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr *>(&sa), len))
		die("the hub");
	if (!receive_value(fd, join))
		die("the hub's first order", EPIPE);
	Member member(fd, join);
	send_value(fd, Answer{});
	member.obey();
	return 0;
}

// ---- the hub

struct Sums {
	double rss, pss; // KiB of a member
};

class Hub {
	static inline int hubs;

public:
	Hub(std::vector<std::string> command, double wait, double seconds)
		: command_(std::move(command)), wait_(wait), seconds_(seconds),
		  name_("verbs_mesh-" + std::to_string(getpid()) + "-" + std::to_string(hubs++)),
		  listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0))
	{
		socklen_t len;
		const sockaddr_un sa = socket_name(name_, len);

		if (listener_ < 0 ||
		    bind(listener_, reinterpret_cast<const sockaddr *>(&sa), len) ||
		    listen(listener_, members_max))
			die("the members' socket");
		command_.insert(command_.end(), {own_path(), "-m", name_});
	}

	uint32_t size() const { return static_cast<uint32_t>(fds_.size()); }

	// Until there are @members, each connected to each.
	void grow(uint32_t members)
	{
		const uint32_t before = size();
		std::vector<Card> cards;

		for (uint32_t i = before; i < members; i++)
			start();
		while (size() < members)
			welcome();
		for (const Answer &answer : order_all({.what = What::join, .members = members}))
			cards.push_back(answer.card);
		for (const int fd : fds_) {
			send_value(fd, Order{.what = What::connect, .members = members});
			for (const Card &card : cards)
				send_value(fd, card);
		}
		answers();
	}

	// All end.
	void end()
	{
		for (const int fd : fds_)
			close(fd);
		fds_.clear();
		for (; !pids_.empty(); pids_.pop_back())
			reap();
	}

	// Returns how many parts differ.
	uint64_t exchange(uint64_t seed)
	{
		Order order = {
			.what = What::fill, .members = size(), .seed = seed, .seconds = wait_};
		uint64_t wrong = 0;

		order_all(order);
		order.what = What::move;
		order_all(order);
		order.what = What::check;
		for (const Answer &answer : order_all(order))
			wrong += answer.wrong;
		return wrong;
	}

	// When all members have been idle for so long that their memory does not shrink any more.
	Sums idle_memory()
	{
		const Clock::time_point start = Clock::now();
		Sums now = memory(), before;

		do {
			before = now;
			usleep(500000);
			now = memory();
		} while (now.rss < 0.99 * before.rss && since(start) < wait_);
		return now;
	}

	Sums memory()
	{
		Sums sums = {};

		for (const Answer &answer : order_all({.what = What::memory})) {
			sums.rss += static_cast<double>(answer.memory.rss) / size();
			sums.pss += static_cast<double>(answer.memory.pss) / size();
		}
		return sums;
	}

	Costs measure()
	{
		Answer answer;

		send_value(fds_[1], Order{.what = What::serve, .peer = 0});
		send_value(fds_[0], Order{.what = What::measure, .peer = 1, .seconds = seconds_});
		get(fds_[0], answer);
		const Costs costs = answer.costs;
		get(fds_[1], answer);
		return costs;
	}

private:
	static std::string own_path()
	{
		char path[4096];
		const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

		if (n < 0)
			die("/proc/self/exe");
		return std::string(path, static_cast<size_t>(n));
	}

	void start()
	{
		std::vector<char *> args;
		pid_t pid;

		for (std::string &word : command_)
			args.push_back(word.data());
		args.push_back(nullptr);
		if (const int rc =
			    posix_spawnp(&pid, args[0], nullptr, nullptr, args.data(), environ))
			die(command_[0], rc);
		pids_.push_back(pid);
	}

	// A member comes and gets its rank.
	void welcome()
	{
		timeval limit = {.tv_sec = static_cast<time_t>(wait_), .tv_usec = 0};
		Answer answer;

		setsockopt(listener_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
		if (fd < 0)
			die("a member that does not come");
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		send_value(fd, Order{.what = What::join, .rank = size()});
		get(fd, answer);
		fds_.push_back(fd);
	}

	static void get(int fd, Answer &answer)
	{
		if (!receive_value(fd, answer))
			die("a member that ended", EPIPE);
	}

	std::vector<Answer> answers()
	{
		std::vector<Answer> all(fds_.size());

		for (size_t i = 0; i < fds_.size(); i++)
			get(fds_[i], all[i]);
		return all;
	}

	std::vector<Answer> order_all(const Order &order)
	{
		for (const int fd : fds_)
			send_value(fd, order);
		return answers();
	}

	static void reap()
	{
		int status = -1;

		if (wait(&status) < 0 || status) {
			std::fprintf(stderr, "verbs_mesh: a member ended with status %x\n", status);
			std::exit(1);
		}
	}

	std::vector<std::string> command_;
	const double wait_;
	const double seconds_; // of a measurement
	const std::string name_;
	const int listener_;
	std::vector<int> fds_; // by rank
	std::vector<pid_t> pids_;
};

double best_of(const std::vector<Costs> &rounds_of, double Costs::*cost, bool more_is_better)
{
	double best = rounds_of.front().*cost;

	for (const Costs &costs : rounds_of)
		best = more_is_better ? std::max(best, costs.*cost) : std::min(best, costs.*cost);
	return best;
}

// Prints a line; returns 1 if the mesh is worse than the goal. The best rounds are compared: other work on the machine only adds
// to what a round costs, and both sides have had rounds at all of its paces, since they took turns.
int judge(const char *what, const std::vector<Costs> &alone, const std::vector<Costs> &mesh,
	  double Costs::*cost, bool more_is_better = false)
{
	const double theirs = best_of(alone, cost, more_is_better);
	const double ours = best_of(mesh, cost, more_is_better);
	const double ratio = more_is_better ? theirs / ours : ours / theirs;
	const bool good = ratio <= pace;

	std::printf("%-28s alone %8.3f, in the mesh %8.3f, %.2f times the cost%s\n", what, theirs,
		    ours, ratio, good ? "" : ": MISSED");
	return !good;
}

// The memory of a member is a + b * peers, and a pair has b at each end.
int judge_memory(const char *what, uint32_t few, double of_few, uint32_t many, double of_many,
		 bool has_goal)
{
	const double pair = 2 * (of_many - of_few) / (many - few);
	const bool good = !has_goal || pair <= pair_kib;

	std::printf("%-28s %.0f KiB with %u members, %.0f with %u: %.1f KiB of a pair%s\n", what,
		    of_few, few, of_many, many, pair, good ? "" : ": MISSED");
	return !good;
}

int be_hub(const std::vector<std::string> &command, double wait, double seconds)
{
	constexpr uint32_t few = members_max / 2;
	Hub pair(command, wait, seconds), hub(command, wait, seconds);
	uint64_t wrong = 0;

	pair.grow(2);
	wrong += pair.exchange(1);
	hub.grow(few);
	wrong += hub.exchange(2);
	const Sums of_few = hub.idle_memory();
	hub.grow(members_max);
	const Clock::time_point start = Clock::now();
	wrong += hub.exchange(3);
	std::printf("%u pairs exchange data in %.2f s\n", members_max * (members_max - 1) / 2,
		    since(start));
	const Sums of_all = hub.idle_memory();
	std::vector<Costs> alone, mesh;
	for (int round = 0; round < rounds; round++) {
		alone.push_back(pair.measure());
		mesh.push_back(hub.measure());
	}
	wrong += hub.exchange(4);

	int missed = 0;

	missed += judge("first empty polls, ns", alone, mesh, &Costs::first_ns);
	missed += judge("many empty polls, ns", alone, mesh, &Costs::empty_ns);
	missed += judge("poll with a completion, ns", alone, mesh, &Costs::busy_ns);
	missed += judge("8 B latency, us", alone, mesh, &Costs::latency_us);
	missed += judge("8 B lists of 16, M/s", alone, mesh, &Costs::rate, true);
	missed += judge_memory("resident", few, of_few.rss, members_max, of_all.rss, true);
	missed += judge_memory("each shared page once", few, of_few.pss, members_max, of_all.pss,
			       false);
	std::printf("%llu parts differ, %d goals missed\n", static_cast<unsigned long long>(wrong),
		    missed);
	pair.end();
	hub.end();
	return wrong || missed;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	double wait = 60, seconds = 0.1;
	std::string member;

	for (int opt; (opt = getopt(argc, argv, "+w:t:m:")) != -1;) {
		if (opt == 'w')
			wait = std::atof(optarg);
		else if (opt == 't')
			seconds = std::atof(optarg);
		else if (opt == 'm')
			member = optarg;
		else
			return 2;
	}
	if (!member.empty())
		return verbs::be_member(member);
	if (optind == argc || wait < 1 || seconds <= 0) {
		std::fputs("verbs_mesh [-w SECONDS] [-t SECONDS] COMMAND...\n", stderr);
		return 2;
	}
	return verbs::be_hub({argv + optind, argv + argc}, wait, seconds);
}
