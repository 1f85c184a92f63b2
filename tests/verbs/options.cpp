// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "options.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace verbs
{
namespace
{

struct Option {
	const char *flag;
	const char *variable;
	const char *help;
	std::function<void(Options &, const char *)> set;
};

const Option table[] = {
	{"--device", "VERBS_DEVICE", "RDMA device under test",
	 [](Options &o, const char *v) { o.device = v; }},
	{"--peer-device", "VERBS_PEER_DEVICE", "device at the other end; the same one by default",
	 [](Options &o, const char *v) { o.peer_device = v; }},
	{"--gid-index", "VERBS_GID_INDEX", "index of the address to use; found by default",
	 [](Options &o, const char *v) { o.gid.index = std::atoi(v); }},
	{"--peer-gid-index", "VERBS_PEER_GID_INDEX", "the same at the other end",
	 [](Options &o, const char *v) { o.peer_gid.index = std::atoi(v); }},
	{"--ip", "VERBS_IP", "4 or 6: which family to look for",
	 [](Options &o, const char *v) { o.gid.family = o.peer_gid.family = std::atoi(v); }},
	{"--unreachable", "VERBS_UNREACHABLE", "an address on the link that nobody has",
	 [](Options &o, const char *v) { o.unreachable = v; }},
	{"--exhaust", "VERBS_EXHAUST", "1: the device is small, use up all it has",
	 [](Options &o, const char *v) { o.exhaust = std::atoi(v); }},
	{"--unpinned", "VERBS_UNPINNED", "1: the device cannot hold pages the process unmaps",
	 [](Options &o, const char *v) { o.unpinned = std::atoi(v); }},
	{"--lossy", "VERBS_LOSSY",
	 "1: packets are lost on the way, a responder's last one among them",
	 [](Options &o, const char *v) { o.lossy = std::atoi(v); }},
	{"--spare-netdev", "VERBS_SPARE_NETDEV", "a netdev to make and remove sirdma devices on",
	 [](Options &o, const char *v) { o.spare_netdev = v; }},
	{"--change-mtu", "VERBS_CHANGE_MTU", "1: the MTU of a device's netdev may be changed",
	 [](Options &o, const char *v) { o.change_mtu = std::atoi(v); }},
	{"--seed", "VERBS_SEED", "seed of sizes and patterns",
	 [](Options &o, const char *v) { o.seed = std::strtoull(v, nullptr, 0); }},
	{"--patience", "VERBS_PATIENCE", "factor on every time limit",
	 [](Options &o, const char *v) { o.patience = std::atof(v); }},
};

void print_usage()
{
	std::puts("options besides --gtest_*:");
	for (const Option &option : table)
		std::printf("  %-18s %s (%s)\n", option.flag, option.help, option.variable);
	std::puts("  --list-exceptions  print what is not expected of rdma_rxe, and why");
}

// "--flag value" or "--flag=value"; how many arguments it took, 0 when the flag is another one.
int match(const Option &option, int left, char **argv, Options &result)
{
	const std::string_view argument = argv[0];
	const std::string_view flag = option.flag;

	if (!argument.starts_with(flag))
		return 0;
	if (argument.size() > flag.size() && argument[flag.size()] == '=') {
		option.set(result, argv[0] + flag.size() + 1);
		return 1;
	}
	if (argument.size() == flag.size() && left > 1) {
		option.set(result, argv[1]);
		return 2;
	}
	return 0;
}

} // namespace

Options &options()
{
	static Options instance;
	return instance;
}

bool parse_options(int *argc, char **argv)
{
	Options &result = options();
	int kept = 1;

	for (const Option &option : table)
		if (const char *value = std::getenv(option.variable))
			option.set(result, value);
	for (int i = 1; i < *argc;) {
		const std::string_view argument = argv[i];
		int taken = 0;
		for (const Option &option : table)
			if (!taken)
				taken = match(option, *argc - i, argv + i, result);
		if (taken) {
			i += taken;
		} else if (argument == "--list-exceptions") {
			result.list_exceptions = true;
			i++;
		} else if (argument.starts_with("--gtest")) {
			argv[kept++] = argv[i++];
		} else {
			print_usage();
			return false;
		}
	}
	*argc = kept;
	return true;
}

std::chrono::milliseconds patience(int milliseconds)
{
	return std::chrono::milliseconds(static_cast<long>(milliseconds * options().patience));
}

} // namespace verbs
