/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstdint>
#include <string>

#include "address.hpp"
#include "environment.hpp"

namespace sirdma::twin
{

/* The way in which packets are transferred. */
enum class LinkKind {
	automatic, /* shared memory to processes of this user on this host, UDP to all others */
	udp,
	shm, /* shared memory only: other processes cannot be reached */
};

/* Parse "udp", "shm" or "auto". Returns false if @text is none of these. */
bool parse_link(const char *text, LinkKind &kind) noexcept;

/* Configuration of a device, set by the launcher. */
struct Config {
	IpAddress addr; /* any: the device uses a free loopback address */
	LinkKind link = LinkKind::automatic;
	uint32_t mtu = 0; /* IP MTU, bytes; 0: the MTU of the interface */
	/* Fractions of the packets received, 0 .. 1. */
	double loss = 0;
	double corrupt = 0;
	double reorder = 0; /* delivered after the next packet, if one follows at once */
	uint64_t seed = 1; /* seed of the random numbers for these three */
	uint32_t buffer = 0; /* socket buffers, bytes; 0: as much as the system permits */
	std::string pcap; /* capture file, %p is the process id; empty: none */
	bool one_sided =
		false; /* short requests may be executed by their initiators, one_sided.hpp */
	bool stats = false;
	bool verbose = false;

	/*
	 * Configuration of sirdma@device. The function reports invalid values on stderr and uses
	 * the defaults instead.
	 */
	static Config from_environment(unsigned device = 0);
};

/* Number of devices that the launcher asks for, at least one. */
unsigned device_count() noexcept;

inline constexpr uint32_t mtu_min = 1280;
inline constexpr uint32_t mtu_max = 65535;

/* IP MTU of the interface that has @addr, or 0. */
uint32_t interface_mtu(const IpAddress &addr);
/* The index of that interface, or 0. */
uint32_t interface_index(const IpAddress &addr);
/* The name of that interface, or an empty string. */
std::string interface_name(const IpAddress &addr);
/*
 * Find the first IPv4 address of interface @name, or else its first IPv6 address. Returns false if
 * it has none.
 */
bool interface_addr(const char *name, IpAddress &addr) noexcept;

} // namespace sirdma::twin
