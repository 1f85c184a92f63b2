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
	std::vector<twin::IpAddress> addrs; /* as many as devices; any: a free one */
	unsigned devices = 0; /* 0: one for each address, one at least */
	View view = View::automatic;
	bool shell = false;
	bool one_capture = false; /* of all devices, which cannot be */
	std::string capture; /* the file's name, with %p and %d; empty: none */
	bool verbose = false;
	bool help = false;
	/* Passed on as they are: names and values for the environment. */
	std::vector<std::pair<std::string, std::string>> environment;
	char **program = nullptr; /* and its arguments, to a null; of argv */
};

extern const char run_usage[];

/* What is wrong with the arguments, or nothing. argv[0] is the command's name. */
std::optional<std::string> parse_options(int argc, char **argv, Options &out);

} // namespace sirdma::cli
