/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The options of sirdma run. */
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "address.hpp"

namespace sirdma::cli
{

enum class View { automatic, sysfs, preload };

struct Options {
	std::vector<twin::IpAddress> addrs; /* one per device; any(): choose a free one */
	unsigned devices = 0;
	View view = View::automatic;
	bool shell = false;
	bool one_capture = false; /* capture has no %d, so only one device can write it */
	std::string capture; /* absolute file name, may contain %p and %d; empty: none */
	bool verbose = false;
	bool help = false;
	/* Environment variables for the program: names and values. */
	std::vector<std::pair<std::string, std::string>> environment;
	char **program =
		nullptr; /* the program and its arguments: the null-terminated rest of argv */
};

extern const char run_usage[];

/* Parse the arguments after argv[0]. Returns the error, or nothing. */
std::optional<std::string> parse_options(int argc, char **argv, Options &out);

} // namespace sirdma::cli
