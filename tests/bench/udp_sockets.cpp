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
// Prints MB/s that datagrams of BYTES carry from one buffer of 1 MiB to another, as many in a system call as segmentation offload
// takes. The sender has no more in flight than a quarter of the receiver's socket buffer, so that none is lost. Nobody looks at the
// data.
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

constexpr size_t buffer_bytes = 1 << 20, most_bytes = 65507, most_segments = 64;

void set_option(int fd, int level, int name, int value)
{
	check(!setsockopt(fd, level, name, &value, sizeof(value)), "setsockopt");
}

// Receive for ever. After each quarter of @window a datagram of one byte to @peer is a credit.
[[noreturn]] void receive_stream(int fd, Endpoint &peer, size_t window)
{
	std::vector<char> data(buffer_bytes + most_bytes);
	size_t got = 0, at = 0;

	set_option(fd, SOL_UDP, UDP_GRO, 1);
	for (;;) {
		const ssize_t n = recv(fd, data.data() + at, most_bytes, MSG_DONTWAIT);

		check(n > 0 || errno == EAGAIN, "recv");
		if (n <= 0)
			continue;
		at = (at + static_cast<size_t>(n)) % buffer_bytes;
		got += static_cast<size_t>(n);
		for (; got >= window / 4; got -= window / 4)
			check(sendto(fd, "", 1, 0, peer.as_sockaddr(), sizeof(peer.address)) == 1,
			      "a credit");
	}
}

// Send datagrams of @bytes to @peer for @seconds, of which @window bytes may be in flight. Returns the MB/s that arrived.
double send_stream(int fd, Endpoint &peer, size_t bytes, double seconds, size_t window)
{
	const size_t batch = std::min(most_bytes / bytes, most_segments) * bytes;
	const std::vector<char> data(buffer_bytes + batch, 1);
	const auto start = std::chrono::steady_clock::now();
	std::chrono::duration<double> took{};
	size_t sent = 0, arrived = 0;
	char credit;

	set_option(fd, SOL_UDP, UDP_SEGMENT, static_cast<int>(bytes));
	while (took.count() < seconds) {
		if (recv(fd, &credit, 1, MSG_DONTWAIT) == 1)
			arrived += window / 4;
		if (sent - arrived + batch <= window) {
			const char *const from = data.data() + sent % buffer_bytes;
			const ssize_t n = sendto(fd, from, batch, 0, peer.as_sockaddr(),
						 sizeof(peer.address));

			check(n == static_cast<ssize_t>(batch), "sendto");
			sent += batch;
		}
		took = std::chrono::steady_clock::now() - start;
	}
	const double rate = static_cast<double>(arrived) / took.count() / 1e6;

	// Lost datagrams earn no credit.
	for (const auto end = std::chrono::steady_clock::now(); sent - arrived >= window / 4;) {
		if (recv(fd, &credit, 1, MSG_DONTWAIT) == 1)
			arrived += window / 4;
		if (std::chrono::steady_clock::now() - end > std::chrono::seconds(1)) {
			std::fprintf(stderr, "datagrams were lost\n");
			std::_Exit(1);
		}
	}
	return rate;
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

	int room = 16 * buffer_bytes;
	socklen_t len = sizeof(room);

	// More than the system allows everybody, if possible.
	if (setsockopt(far_fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, len))
		set_option(far_fd, SOL_SOCKET, SO_RCVBUF, room);
	check(!getsockopt(far_fd, SOL_SOCKET, SO_RCVBUF, &room, &len), "getsockopt");

	const size_t window =
		std::clamp<size_t>(static_cast<size_t>(room) / 4, most_bytes, buffer_bytes);
	const pid_t child = fork();

	check(child >= 0, "fork");
	pin(!child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		receive_stream(far_fd, near, window);
	}
	std::printf("%.1f\n", send_stream(near_fd, far, bytes, seconds, window));
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
