// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A member of the mesh: it has a queue pair to every other one, and does what the hub orders.
#include "device.hpp"
#include "memory.hpp"
#include "mesh_wire.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <fstream>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace verbs::mesh
{
namespace
{

// Of a member's memory. The three parts of a peer are written by it, filled by a SEND of it, and read from it.
constexpr size_t part = 4096;
constexpr size_t slot = 4 * part;
constexpr size_t words_at =
	members_max * slot; // words of the measurements: what the peer writes, what is written from
constexpr uint32_t depth = 256;
constexpr uint32_t list = 16;
constexpr uint32_t word_len = 8;
constexpr uint64_t stop_word = ~0ull;

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

// The mean without the upper and the lower quarter: of times that are a few ticks of the clock the median is one number of ticks.
double middle_mean(std::vector<double> &values)
{
	const auto quarter = static_cast<ptrdiff_t>(values.size() / 4);

	std::sort(values.begin(), values.end());
	return std::accumulate(values.begin() + quarter, values.end() - quarter, 0.0) /
	       static_cast<double>(values.end() - values.begin() - 2 * quarter);
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
		costs.busy_ns = middle_mean(polls);
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

} // namespace

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

} // namespace verbs::mesh
