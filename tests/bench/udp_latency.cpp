// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What a message between two processes costs at least: half a round trip of UDP datagrams, in microseconds (median).
//   udp_latency [NETNS:]ADDRESS [NETNS:]PEER-ADDRESS BYTES COUNT [sleep|spin|helper]
// NETNS is the name of a network namespace (`ip netns`), ADDRESS an IPv4 address in it. A process waits
//   sleep   in recv()
//   spin    by calls of recv() that do not wait
//   helper  by looking at its memory, while a thread of its own sleeps in recv(): what the target of a WRITE does if it
//           never polls, and somebody has to take in the packet
// The two processes have a processor each, unless they sleep. The sockets are not connected, as those of RoCEv2 cannot be: Linux
// chooses the IP identifications of a connected socket itself, and the ICRC covers them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace
{

constexpr in_port_t port = 9000;

enum class Wait { sleep, spin, helper };

void check(bool ok, const char *what)
{
	if (ok)
		return;
	std::perror(what);
	std::_Exit(1);
}

/* [NETNS:]ADDRESS */
struct Place {
	explicit Place(std::string_view text)
	{
		const size_t colon = text.find(':');

		if (colon != text.npos) {
			netns = "/run/netns/" + std::string(text.substr(0, colon));
			text.remove_prefix(colon + 1);
		}
		const std::string name(text);

		address.sin_family = AF_INET;
		address.sin_port = htons(port);
		check(inet_pton(AF_INET, name.c_str(), &address.sin_addr) == 1, name.c_str());
	}

	const sockaddr *as_sockaddr() const { return reinterpret_cast<const sockaddr *>(&address); }

	std::string netns;
	sockaddr_in address{};
};

int open_socket(const Place &place)
{
	const timeval patience = {.tv_sec = 5, .tv_usec = 0};

	if (!place.netns.empty()) {
		const int ns = open(place.netns.c_str(), O_RDONLY | O_CLOEXEC);

		check(ns >= 0 && !setns(ns, CLONE_NEWNET), place.netns.c_str());
		close(ns);
	}
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);

	check(fd >= 0 && !bind(fd, place.as_sockaddr(), sizeof(place.address)) &&
		      !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
	      "socket");
	return fd;
}

/* Stay on the processor number @which of those that the process may use, if there are as many. */
void pin(int which)
{
	cpu_set_t may, one;

	check(!sched_getaffinity(0, sizeof(may), &may), "sched_getaffinity");
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &may) && !which--) {
			CPU_SET(cpu, &one);
			check(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
			return;
		}
	}
}

class End {
public:
	End(int fd, const Place &peer, size_t bytes, Wait wait)
		: fd_(fd), peer_(peer), message_(bytes), wait_(wait)
	{
		if (wait == Wait::helper)
			std::thread([this] {
				std::vector<char> message(message_.size());

				for (;;) {
					receive(message, 0);
					arrived_.fetch_add(1, std::memory_order_release);
				}
			}).detach();
	}

	void put()
	{
		check(sendto(fd_, message_.data(), message_.size(), 0, peer_.as_sockaddr(),
			     sizeof(peer_.address)) == static_cast<ssize_t>(message_.size()),
		      "sendto");
	}

	void get()
	{
		++expected_;
		if (wait_ == Wait::helper)
			while (arrived_.load(std::memory_order_acquire) < expected_)
				;
		else if (wait_ == Wait::spin)
			while (!receive(message_, MSG_DONTWAIT))
				;
		else
			receive(message_, 0);
	}

private:
	/* Returns false if there is nothing. */
	bool receive(std::vector<char> &message, int flags)
	{
		const ssize_t n = recv(fd_, message.data(), message.size(), flags);

		if (n < 0 && errno == EAGAIN && flags)
			return false;
		check(n == static_cast<ssize_t>(message.size()), "recv");
		return true;
	}

	const int fd_;
	const Place peer_;
	std::vector<char> message_;
	const Wait wait_;
	unsigned long expected_ = 0;
	std::atomic<unsigned long> arrived_{0};
};

int usage()
{
	std::fprintf(stderr, "udp_latency [NETNS:]ADDRESS [NETNS:]PEER-ADDRESS BYTES COUNT "
			     "[sleep|spin|helper]\n");
	return 2;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5 || argc > 6)
		return usage();

	const Place near(argv[1]), far(argv[2]);
	const size_t bytes = std::strtoul(argv[3], nullptr, 10);
	const unsigned long count = std::strtoul(argv[4], nullptr, 10);
	const std::string_view how = argc == 6 ? argv[5] : "sleep";
	const Wait wait = how == "spin" ? Wait::spin : how == "helper" ? Wait::helper : Wait::sleep;

	if (!bytes || bytes > 1400 || !count || (wait == Wait::sleep && how != "sleep"))
		return usage();

	const int near_fd = open_socket(near), far_fd = open_socket(far);
	const pid_t child = fork();

	check(child >= 0, "fork");
	if (wait != Wait::sleep)
		pin(!child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);

		End end(far_fd, near, bytes, wait);

		for (;;) {
			end.get();
			end.put();
		}
	}
	End end(near_fd, far, bytes, wait);
	std::vector<double> halves;

	for (unsigned long i = 0; i < count; i++) {
		const auto start = std::chrono::steady_clock::now();

		end.put();
		end.get();

		const std::chrono::duration<double, std::micro> took =
			std::chrono::steady_clock::now() - start;

		halves.push_back(took.count() / 2);
	}
	kill(child, SIGKILL);

	const auto middle = halves.begin() + static_cast<long>(halves.size() / 2);

	std::nth_element(halves.begin(), middle, halves.end());
	std::printf("%.3f\n", *middle);
	std::fflush(stdout);
	std::_Exit(0); /* the helper sleeps in recv() */
}
