// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What UDP sockets do between two processes, and nothing else.
//   udp_sockets latency [NETNS:]ADDRESS [NETNS:]PEER-ADDRESS BYTES COUNT [sleep|spin|helper]
// Prints half a round trip, in microseconds (median). NETNS is the name of a network namespace (`ip netns`), for both or none; ADDRESS an
// IPv4 address in it. A process waits
//   sleep   in recv(), by a connected socket
//   spin    by calls of recv() that do not wait
//   helper  by looking at its memory, as the target of WRITEs that spins on its memory and never polls, while a thread of its own
//           sleeps in recv()
//   udp_sockets stream ADDRESS PEER-ADDRESS BYTES SECONDS
// Prints MB/s of datagrams of BYTES, as many in a system call as segmentation offload takes. The receiver allows 1 MiB in flight, so
// that none is lost, and does not look at the data.
//
// With spin, helper or stream each process is pinned to one of the first two processors that it may use; the thread of helper shares
// it. Their sockets are not connected, as a twin's cannot be: the ICRC covers the IP identification, which is 0 for an unconnected
// socket, and a counter from a random start for a connected one.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
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

enum class Wait { sleep, spin, helper };

void check(bool ok, const char *what)
{
	if (ok)
		return;
	std::perror(what);
	std::_Exit(1);
}

/* [NETNS:]ADDRESS. The kernel chooses the port when a socket is bound to it. */
struct Endpoint {
	explicit Endpoint(std::string_view text)
	{
		const size_t colon = text.find(':');

		if (colon != text.npos) {
			netns = "/run/netns/" + std::string(text.substr(0, colon));
			text.remove_prefix(colon + 1);
		}
		const std::string name(text);

		address.sin_family = AF_INET;
		check(inet_pton(AF_INET, name.c_str(), &address.sin_addr) == 1, name.c_str());
	}

	sockaddr *as_sockaddr() { return reinterpret_cast<sockaddr *>(&address); }

	std::string netns;
	sockaddr_in address{};
};

int open_socket(Endpoint &own)
{
	const timeval patience = {.tv_sec = 5, .tv_usec = 0};

	if (!own.netns.empty()) {
		const int ns = open(own.netns.c_str(), O_RDONLY | O_CLOEXEC);

		check(ns >= 0 && !setns(ns, CLONE_NEWNET), own.netns.c_str());
		close(ns);
	}
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(own.address);

	check(fd >= 0 && !bind(fd, own.as_sockaddr(), len) &&
		      !getsockname(fd, own.as_sockaddr(), &len) &&
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
	End(int fd, const Endpoint &peer, size_t bytes, Wait wait)
		: fd_(fd), peer_(peer), message_(bytes), wait_(wait)
	{
		if (wait == Wait::sleep)
			check(!connect(fd, peer_.as_sockaddr(), sizeof(peer_.address)), "connect");
		if (wait == Wait::helper)
			std::thread([this] {
				std::vector<char> message(message_.size());

				for (;;) {
					receive(message, 0);
					arrived_.fetch_add(1, std::memory_order_release);
				}
			}).detach();
	}

	void send()
	{
		const bool connected = wait_ == Wait::sleep;

		check(sendto(fd_, message_.data(), message_.size(), 0,
			     connected ? nullptr : peer_.as_sockaddr(),
			     connected ? 0 : sizeof(peer_.address)) ==
			      static_cast<ssize_t>(message_.size()),
		      "sendto");
	}

	void wait()
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
	Endpoint peer_;
	std::vector<char> message_;
	const Wait wait_;
	unsigned long expected_ = 0;
	std::atomic<unsigned long> arrived_{0};
};

int usage()
{
	std::fprintf(stderr, "udp_sockets latency [NETNS:]ADDRESS [NETNS:]PEER-ADDRESS BYTES COUNT "
			     "[sleep|spin|helper]\n"
			     "udp_sockets stream ADDRESS PEER-ADDRESS BYTES SECONDS\n");
	return 2;
}

constexpr size_t window = 1 << 20, most_bytes = 65507, most_segments = 64;

void set_option(int fd, int level, int name, int value)
{
	check(!setsockopt(fd, level, name, &value, sizeof(value)), "setsockopt");
}

// Receive for ever. After a quarter of the window a datagram of one byte to @peer says so.
[[noreturn]] void receive_stream(int fd, Endpoint &peer)
{
	std::vector<char> data(most_bytes);
	size_t got = 0;

	set_option(fd, SOL_UDP, UDP_GRO, 1);
	for (;;) {
		const ssize_t n = recv(fd, data.data(), data.size(), MSG_DONTWAIT);

		check(n > 0 || errno == EAGAIN, "recv");
		if (n <= 0)
			continue;
		got += static_cast<size_t>(n);
		if (got < window / 4)
			continue;
		got -= window / 4;
		check(sendto(fd, "", 1, 0, peer.as_sockaddr(), sizeof(peer.address)) == 1, "sendt"
											   "o");
	}
}

// Send datagrams of @bytes to @peer for @seconds. Returns the MB/s that arrived.
double send_stream(int fd, Endpoint &peer, size_t bytes, double seconds)
{
	const size_t batch = std::min(most_bytes / bytes, most_segments) * bytes;
	const std::vector<char> data(batch);
	const auto start = std::chrono::steady_clock::now();
	std::chrono::duration<double> took{};
	size_t sent = 0, arrived = 0;
	char answer;

	set_option(fd, SOL_UDP, UDP_SEGMENT, static_cast<int>(bytes));
	while (took.count() < seconds) {
		if (sent - arrived + batch > window) {
			check(recv(fd, &answer, 1, 0) == 1, "an answer");
			arrived += window / 4;
		} else {
			check(sendto(fd, data.data(), batch, 0, peer.as_sockaddr(),
				     sizeof(peer.address)) == static_cast<ssize_t>(batch),
			      "sendto");
			sent += batch;
		}
		took = std::chrono::steady_clock::now() - start;
	}
	return static_cast<double>(arrived) / took.count() / 1e6;
}

int stream(int argc, char **argv)
{
	if (argc != 6)
		return usage();

	Endpoint near(argv[2]), far(argv[3]);
	const size_t bytes = std::strtoul(argv[4], nullptr, 10);
	const double seconds = std::atof(argv[5]);

	if (!bytes || bytes > most_bytes || seconds <= 0 || !near.netns.empty() ||
	    !far.netns.empty())
		return usage();

	const int near_fd = open_socket(near), far_fd = open_socket(far);

	for (const int fd : {near_fd, far_fd}) {
		const int room = 4 * window;

		// More than the system allows everybody; without that the window is what limits.
		if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
			set_option(fd, SOL_SOCKET, SO_RCVBUF, room);
	}
	const pid_t child = fork();

	check(child >= 0, "fork");
	pin(!child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		receive_stream(far_fd, near);
	}
	std::printf("%.1f\n", send_stream(near_fd, far, bytes, seconds));
	std::fflush(stdout);
	kill(child, SIGKILL);
	return 0;
}

int latency(int argc, char **argv)
{
	if (argc < 6 || argc > 7)
		return usage();

	Endpoint near(argv[2]), far(argv[3]);
	const size_t bytes = std::strtoul(argv[4], nullptr, 10);
	const unsigned long count = std::strtoul(argv[5], nullptr, 10);
	const std::string_view how = argc == 7 ? argv[6] : "sleep";
	const Wait wait = how == "spin" ? Wait::spin : how == "helper" ? Wait::helper : Wait::sleep;

	if (!bytes || bytes > 1400 || !count || (wait == Wait::sleep && how != "sleep") ||
	    near.netns.empty() != far.netns.empty())
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
			end.wait();
			end.send();
		}
	}
	End end(near_fd, far, bytes, wait);
	std::vector<double> halves;

	for (unsigned long i = 0; i < count; i++) {
		const auto start = std::chrono::steady_clock::now();

		end.send();
		end.wait();

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

} // namespace

int main(int argc, char **argv)
{
	const std::string_view what = argc > 1 ? argv[1] : "";

	return what == "latency" ? latency(argc, argv) :
	       what == "stream"	 ? stream(argc, argv) :
				   usage();
}
