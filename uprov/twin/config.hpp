/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstdint>
#include <string>

#include "address.hpp"
#include "environment.hpp"

namespace sirdma::twin
{

/* What carries packets. */
enum class LinkKind {
	automatic, /* shared memory to processes of this user on this host, UDP to others */
	udp,
	shm, /* nobody else is reached */
};

/* udp, shm or auto; false when @text is neither. */
bool parse_link(const char *text, LinkKind &kind) noexcept;

/* A device as the launcher wants it. */
struct Config {
	IpAddress addr; /* any: a free loopback address */
	LinkKind link = LinkKind::automatic;
	uint32_t mtu = 0; /* of IP, bytes; 0: that of the interface */
	/* Parts of the packets received, 0 .. 1. */
	double loss = 0;
	double corrupt = 0;
	double reorder = 0; /* taken after the one behind, when one waits */
	uint64_t seed = 1; /* of the three */
	uint32_t buffer = 0; /* of sockets, bytes; 0: as much as the machine lets us have */
	std::string pcap; /* %p: the process id; empty: none */
	bool stats = false;
	bool verbose = false;

	/* Of sirdma@device. What cannot be read is reported on stderr and left at its default. */
	static Config from_environment(unsigned device = 0);
};

/* How many devices the launcher wants: at least one. */
unsigned device_count() noexcept;

inline constexpr uint32_t mtu_min = 1280;
inline constexpr uint32_t mtu_max = 65535;

/* IP MTU of the interface that has @addr; 0 when none has. */
uint32_t interface_mtu(const IpAddress &addr);
/* Its index; 0 when none has. */
uint32_t interface_index(const IpAddress &addr);
/* Its name; empty when none has. */
std::string interface_name(const IpAddress &addr);
/* First IPv4 address of interface @name, else its first IPv6 one; false when it has none. */
bool interface_addr(const char *name, IpAddress &addr) noexcept;

} // namespace sirdma::twin
