// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the hub of verbs_mesh and its members say to each other.
#pragma once

#include "verbs.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace verbs::mesh
{

using Clock = std::chrono::steady_clock;

inline constexpr uint32_t members_max = 64;

[[noreturn]] inline void die(const std::string &what, int error = errno)
{
	std::fprintf(stderr, "verbs_mesh: %s: %s\n", what.c_str(), std::strerror(error));
	std::exit(1);
}

inline double since(Clock::time_point start)
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

inline sockaddr_un socket_name(const std::string &name, socklen_t &len)
{
	sockaddr_un sa = {};

	sa.sun_family = AF_UNIX;
	name.copy(sa.sun_path + 1, sizeof(sa.sun_path) - 1);
	len = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
	return sa;
}

// A member of the hub whose socket has that name; the exit status of its process.
int be_member(const std::string &name);

} // namespace verbs::mesh
