/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the launcher tells the twin, through the environment of the program it starts.
 */
#pragma once

#include <cstdint>
#include <netinet/in.h>
#include <string>

namespace sirdma::twin
{

inline constexpr char env_addr[] = "SIRDMA_TWIN_ADDR";
inline constexpr char env_mtu[] = "SIRDMA_TWIN_MTU";
inline constexpr char env_loss[] = "SIRDMA_TWIN_LOSS";
inline constexpr char env_corrupt[] = "SIRDMA_TWIN_CORRUPT";
inline constexpr char env_reorder[] = "SIRDMA_TWIN_REORDER";
inline constexpr char env_seed[] = "SIRDMA_TWIN_SEED";
inline constexpr char env_pcap[] = "SIRDMA_TWIN_PCAP";
inline constexpr char env_stats[] = "SIRDMA_TWIN_STATS";
inline constexpr char env_verbose[] = "SIRDMA_TWIN_VERBOSE";

struct Config {
	in_addr addr{}; /* any: a free loopback address */
	uint32_t mtu = 0; /* of IP, bytes; 0: that of the interface */
	/* Parts of the packets received, 0 .. 1. */
	double loss = 0;
	double corrupt = 0;
	double reorder = 0; /* taken after the one behind, when one waits */
	uint64_t seed = 1; /* of the three */
	std::string pcap; /* %p: the process id; empty: none */
	bool stats = false;
	bool verbose = false;

	/* A value that cannot be read is reported on stderr and left at its default. */
	static Config from_environment();
};

inline constexpr uint32_t mtu_min = 1280;
inline constexpr uint32_t mtu_max = 65535;

/* IP MTU of the interface that has @addr; 0 when none has. */
uint32_t interface_mtu(in_addr addr) noexcept;
/* First IPv4 address of interface @name; false when it has none. */
bool interface_addr(const char *name, in_addr &addr) noexcept;

} // namespace sirdma::twin
