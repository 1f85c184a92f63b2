// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The TCP connection beside the data: settings, addresses, and the end.
#include "stream.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace verbs::stream
{
namespace
{

constexpr uint32_t magic = 0x57e4a001;
constexpr char met = 'x', gave_up = '!';
constexpr uint32_t report_max = 65536; // bytes

struct Hello {
	uint32_t magic;
	uint32_t op_mask;
	uint32_t size;
	uint32_t depth;
	uint32_t lanes;
	uint32_t mtu;
	uint32_t exact;
	uint32_t both;
	uint64_t iterations;
	uint64_t seed;
	double seconds;
};

int listen_once(const std::string &port)
{
	const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int yes = 1, no = 0;
	sockaddr_in6 address = {};
	address.sin6_family = AF_INET6;
	address.sin6_port = htons(static_cast<uint16_t>(std::atoi(port.c_str())));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (listener < 0 ||
	    bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)) ||
	    listen(listener, 1))
		die("listening on port " + port + ": " + std::strerror(errno));
	const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
	close(listener);
	return fd;
}

int connect_once(const std::string &host, const std::string &port)
{
	addrinfo hints = {}, *found = nullptr;
	hints.ai_socktype = SOCK_STREAM;
	if (int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
		die(host + ": " + gai_strerror(rc));
	int fd = -1;
	for (const addrinfo *one = found; one && fd < 0; one = one->ai_next) {
		fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	return fd;
}

// The listener may not be there yet.
int connect_patiently(const std::string &host, const std::string &port, double seconds)
{
	const auto deadline =
		std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
	int fd = -1;
	while ((fd = connect_once(host, port)) < 0 && std::chrono::steady_clock::now() < deadline)
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
	return fd;
}

uint32_t mask_of(const std::vector<ibv_wr_opcode> &ops)
{
	uint32_t mask = 0;
	for (ibv_wr_opcode op : ops)
		mask |= 1u << op;
	return mask;
}

} // namespace

Wire::Wire(const Settings &settings)
	: fd_(settings.connect.empty() ?
		      listen_once(settings.port) :
		      connect_patiently(settings.connect, settings.port, settings.stall))
{
	if (fd_ < 0)
		die("no control connection: " + std::string(std::strerror(errno)));
	const timeval limit = {static_cast<time_t>(settings.stall), 0};
	setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

Wire::~Wire()
{
	close(fd_);
}

void Wire::send(const void *data, size_t length)
{
	if (::send(fd_, data, length, MSG_NOSIGNAL) != static_cast<ssize_t>(length))
		die("control connection: " + std::string(std::strerror(errno)));
}

void Wire::receive(void *data, size_t length)
{
	const ssize_t got = recv(fd_, data, length, MSG_WAITALL);
	if (got != static_cast<ssize_t>(length))
		die(got < 0 ? "control connection: " + std::string(std::strerror(errno)) :
			      std::string("the other side is gone"));
}

// A byte says what comes: meeting, or giving up, whose report follows.
void Wire::meet()
{
	char token = met;

	send(&token, 1);
	receive(&token, 1);
	if (token != gave_up)
		return;
	receive_report();
	die("the other side gave up");
}

void Wire::look()
{
	char token = 0;

	if (recv(fd_, &token, 1, MSG_DONTWAIT | MSG_PEEK) < 0 || token == met)
		return;
	receive(&token, 1);
	receive_report();
	die("the other side gave up");
}

void Wire::receive_report()
{
	uint32_t length = 0;

	receive(&length, sizeof(length));
	std::string report(std::min(length, report_max), ' ');
	receive(report.data(), report.size());
	std::fprintf(stderr, "the other side:\n%s", report.c_str());
	heard_ = true;
}

void Wire::give_up(const std::string &report)
{
	const auto length = static_cast<uint32_t>(std::min<size_t>(report.size(), report_max));
	const std::string message =
		gave_up + std::string(reinterpret_cast<const char *>(&length), sizeof(length)) +
		report.substr(0, length);
	char token = 0;

	std::fprintf(stderr, "this side:\n%s", report.c_str());
	send(message.data(), message.size());
	if (heard_)
		return;
	// It may have met us already; a token of that lies before its report.
	do
		receive(&token, 1);
	while (token == met);
	receive_report();
}

void agree(Settings &settings, const Device &device, Wire &wire, bool listens)
{
	const uint32_t port_mtu = mtu_bytes(device.port_attr.active_mtu);
	const uint32_t own_mtu = settings.mtu ? std::min(settings.mtu, port_mtu) : port_mtu;
	Hello hello = {magic,	       mask_of(settings.ops), settings.size,
		       settings.depth, settings.lanes,	      own_mtu,
		       settings.exact, settings.both,	      settings.iterations,
		       settings.seed,  settings.seconds};
	if (!listens) {
		wire.send(&hello, sizeof(hello));
		wire.receive(&settings.mtu, sizeof(settings.mtu));
		return;
	}
	wire.receive(&hello, sizeof(hello));
	if (hello.magic != magic || !hello.op_mask || !hello.depth || !hello.lanes)
		die("the other side speaks another language");
	settings.ops.clear();
	for (uint32_t op = 0; op < 32; op++)
		if (hello.op_mask >> op & 1)
			settings.ops.push_back(static_cast<ibv_wr_opcode>(op));
	settings.size = hello.size;
	settings.depth = hello.depth;
	settings.lanes = hello.lanes;
	settings.mtu = std::min(own_mtu, hello.mtu);
	settings.exact = hello.exact;
	settings.both = hello.both;
	settings.iterations = hello.iterations;
	settings.seed = hello.seed;
	settings.seconds = hello.seconds;
	wire.send(&settings.mtu, sizeof(settings.mtu));
}

} // namespace verbs::stream
