// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What a message of two processes costs at least that sleep until it comes: half a round trip of UDP datagrams, in microseconds (median).
//   udp_latency NETNS ADDRESS PEER-NETNS PEER-ADDRESS BYTES COUNT
// NETNS is the name of a network namespace (`ip netns`), ADDRESS an IPv4 address in it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace
{

constexpr in_port_t port = 9000;

void check(bool ok, const char *what)
{
	if (ok)
		return;
	std::perror(what);
	std::exit(1);
}

sockaddr_in at(const char *address)
{
	sockaddr_in sa = {};
	sa.sin_family = AF_INET;
	sa.sin_port = htons(port);
	check(inet_pton(AF_INET, address, &sa.sin_addr) == 1, address);
	return sa;
}

int open_socket(const char *netns, const char *address, const char *peer)
{
	const std::string path = std::string("/run/netns/") + netns;
	const int ns = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	check(ns >= 0 && !setns(ns, CLONE_NEWNET), netns);
	close(ns);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	const sockaddr_in mine = at(address), other = at(peer);
	const timeval patience = {.tv_sec = 5, .tv_usec = 0};
	check(fd >= 0 && !bind(fd, reinterpret_cast<const sockaddr *>(&mine), sizeof(mine)) &&
		      !connect(fd, reinterpret_cast<const sockaddr *>(&other), sizeof(other)) &&
		      !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
	      address);
	return fd;
}

} // namespace

int main(int argc, char **argv)
{
	const size_t bytes = argc == 7 ? std::strtoul(argv[5], nullptr, 10) : 0;
	const unsigned long count = argc == 7 ? std::strtoul(argv[6], nullptr, 10) : 0;
	if (!bytes || bytes > 1400 || !count) {
		std::fprintf(stderr, "udp_latency NETNS ADDRESS PEER-NETNS PEER-ADDRESS BYTES "
				     "COUNT\n");
		return 2;
	}
	const int near = open_socket(argv[1], argv[2], argv[4]);
	const int far = open_socket(argv[3], argv[4], argv[2]);
	std::vector<char> message(bytes);
	const auto get = [&](int fd) {
		check(recv(fd, message.data(), bytes, 0) == static_cast<ssize_t>(bytes), "recv");
	};
	const auto put = [&](int fd) {
		check(send(fd, message.data(), bytes, 0) == static_cast<ssize_t>(bytes), "send");
	};

	const pid_t child = fork();
	check(child >= 0, "fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			get(far);
			put(far);
		}
	}
	std::vector<double> halves;
	for (unsigned long i = 0; i < count; i++) {
		const auto start = std::chrono::steady_clock::now();
		put(near);
		get(near);
		const std::chrono::duration<double, std::micro> took =
			std::chrono::steady_clock::now() - start;
		halves.push_back(took.count() / 2);
	}
	kill(child, SIGKILL);
	const auto middle = halves.begin() + static_cast<long>(halves.size() / 2);
	std::nth_element(halves.begin(), middle, halves.end());
	std::printf("%.3f\n", *middle);
	return 0;
}
