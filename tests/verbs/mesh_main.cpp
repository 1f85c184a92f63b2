// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// verbs_mesh: processes of which each has an RC queue pair to every other one.
//   verbs_mesh [-w SECONDS] [-t SECONDS] COMMAND...
//     the hub; it starts the members as "COMMAND... verbs_mesh -m NAME"
//     -w  how long it waits for anything (60)     -t  how long each measurement takes (0.1)
//
// First there are half of them, then all. Each time data go between every pair and are compared at both ends, and the memory
// of all is measured when they have been idle for a while. Then members 0 and 1 measure what polls and messages cost them,
// while all others sleep, alternately with two processes that are connected to each other only.
//
// A member sleeps in recv() on its socket to the hub until an order comes. The hub prints the figures and the goals that are
// missed; it fails if there are any, or if data differ.
#include "mesh_wire.hpp"

#include <getopt.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_mesh: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

} // namespace verbs

namespace verbs::mesh
{
namespace
{

constexpr int rounds = 12; // of each measurement, alternately in the mesh and alone
constexpr double pace = 1.2; // the mesh may cost so many times what the pair alone costs
constexpr double pair_kib = 64; // KiB of a pair that is idle, at both ends

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
} // namespace verbs::mesh

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
		return verbs::mesh::be_member(member);
	if (optind == argc || wait < 1 || seconds <= 0) {
		std::fputs("verbs_mesh [-w SECONDS] [-t SECONDS] COMMAND...\n", stderr);
		return 2;
	}
	return verbs::mesh::be_hub({argv + optind, argv + argc}, wait, seconds);
}
