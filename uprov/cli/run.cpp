/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "run.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <getopt.h>
#include <optional>
#include <string>
#include <unistd.h>

#include "config.hpp"
#include "program.hpp"

namespace sirdma::cli
{

const char run_usage[] = "sirdma run [OPTIONS] -- PROGRAM [ARGS...]\n"
			 "  Runs PROGRAM with an RDMA device of its own, sirdma0 with GID index "
			 "0.\n"
			 "  --addr ADDR    IPv4 address of the device (default: a free one in "
			 "127.64.0.0/16)\n"
			 "  --netdev IF    take the address of network interface IF\n"
			 "  --mtu N        IP MTU, 1280 to 65535 (default: that of the interface)\n"
			 "  --loss P       lose P percent of the packets received\n"
			 "  --corrupt P    let P percent of them fail their ICRC\n"
			 "  --reorder P    let P percent change places with the one behind\n"
			 "  --seed N       which ones (default 1)\n"
			 "  --pcap FILE    record all packets for Wireshark; %p becomes the "
			 "process id\n"
			 "  --stats        print the device's counters when PROGRAM ends\n"
			 "  --verbose      say what the device is\n";

namespace
{

/* As of env(1). */
constexpr int exit_usage = 125;
constexpr int exit_cannot_run = 126;
constexpr int exit_not_found = 127;

int usage_error(const std::string &what)
{
	fprintf(stderr, "sirdma run: %s\n%s", what.c_str(), run_usage);
	return exit_usage;
}

template <typename T> bool parse(const char *text, T low, T high)
{
	const char *end = text + strlen(text);
	T value{};
	const auto [stop, error] = std::from_chars(text, end, value);

	return error == std::errc{} && stop == end && value >= low && value <= high;
}

void put(const char *name, const std::string &value)
{
	setenv(name, value.c_str(), 1);
}

std::string absolute(const char *path)
{
	return std::filesystem::absolute(path).string();
}

/* Check one option and hand it on; an error message or nothing. */
std::optional<std::string> apply(int option, const char *arg)
{
	in_addr addr;
	char text[INET_ADDRSTRLEN];

	switch (option) {
	case 'a':
		if (inet_pton(AF_INET, arg, &addr) != 1)
			return std::string("--addr: not an IPv4 address: ") + arg;
		put(twin::env_addr, arg);
		break;
	case 'n':
		if (!twin::interface_addr(arg, addr))
			return std::string("--netdev: no interface with an IPv4 address: ") + arg;
		put(twin::env_addr, inet_ntop(AF_INET, &addr, text, sizeof(text)));
		break;
	case 'm':
		if (!parse<uint32_t>(arg, twin::mtu_min, twin::mtu_max))
			return std::string("--mtu: not in 1280 to 65535: ") + arg;
		put(twin::env_mtu, arg);
		break;
	case 'l':
		if (!parse<double>(arg, 0, 100))
			return std::string("--loss: not a percentage: ") + arg;
		put(twin::env_loss, arg);
		break;
	case 'c':
		if (!parse<double>(arg, 0, 100))
			return std::string("--corrupt: not a percentage: ") + arg;
		put(twin::env_corrupt, arg);
		break;
	case 'r':
		if (!parse<double>(arg, 0, 100))
			return std::string("--reorder: not a percentage: ") + arg;
		put(twin::env_reorder, arg);
		break;
	case 's':
		if (!parse<uint64_t>(arg, 0, UINT64_MAX))
			return std::string("--seed: not a number: ") + arg;
		put(twin::env_seed, arg);
		break;
	case 'p':
		put(twin::env_pcap, absolute(arg));
		break;
	case 'S':
		put(twin::env_stats, "1");
		break;
	case 'v':
		put(twin::env_verbose, "1");
		break;
	default:
		return "unknown option";
	}
	return {};
}

/* The shim, installed or in the build folder; empty when there is none. */
std::string find_shim()
{
	std::error_code ignored;
	const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);

	for (const char *folder : {SIRDMA_LIBDIR, SIRDMA_BUILD_LIBDIR}) {
		const auto path = self.parent_path() / folder / "libsirdma-preload.so";

		if (!access(path.c_str(), R_OK))
			return std::filesystem::canonical(path, ignored).string();
	}
	return {};
}

int refuse(const std::string &program, Preload why)
{
	const char *reason = "";

	switch (why) {
	case Preload::possible:
		return 0;
	case Preload::is_static:
		reason = "is statically linked: no library can be put before its own";
		break;
	case Preload::is_privileged:
		reason = "runs with other rights than yours (setuid, setgid or capabilities), so "
			 "the "
			 "loader ignores what sirdma sets; run a copy without them, or as that "
			 "user";
		break;
	case Preload::is_foreign:
		reason = "is for another architecture than sirdma";
		break;
	}
	fprintf(stderr, "sirdma run: cannot serve %s: it %s\n", program.c_str(), reason);
	return exit_cannot_run;
}

} // namespace

int run(int argc, char **argv)
{
	static const option options[] = {
		{"addr", required_argument, nullptr, 'a'},
		{"netdev", required_argument, nullptr, 'n'},
		{"mtu", required_argument, nullptr, 'm'},
		{"loss", required_argument, nullptr, 'l'},
		{"corrupt", required_argument, nullptr, 'c'},
		{"reorder", required_argument, nullptr, 'r'},
		{"seed", required_argument, nullptr, 's'},
		{"pcap", required_argument, nullptr, 'p'},
		{"stats", no_argument, nullptr, 'S'},
		{"verbose", no_argument, nullptr, 'v'},
		{"help", no_argument, nullptr, 'h'},
		{},
	};

	for (int c; (c = getopt_long(argc, argv, "+", options, nullptr)) != -1;) {
		if (c == 'h') {
			fputs(run_usage, stdout);
			return 0;
		}
		if (c == '?')
			return exit_usage;
		if (const auto error = apply(c, optarg))
			return usage_error(*error);
	}
	if (optind >= argc)
		return usage_error("no program named");

	const std::string program = find_program(argv[optind]);

	if (program.empty()) {
		fprintf(stderr, "sirdma run: %s: %s\n", argv[optind], strerror(errno));
		return errno == ENOENT ? exit_not_found : exit_cannot_run;
	}
	if (const int status = refuse(program, can_preload(program)))
		return status;

	const std::string shim = find_shim();

	if (shim.empty()) {
		fputs("sirdma run: libsirdma-preload.so is missing: build or install it\n", stderr);
		return exit_usage;
	}

	const char *others = getenv("LD_PRELOAD");

	put("LD_PRELOAD", others && *others ? shim + ":" + others : shim);
	execv(program.c_str(), argv + optind);
	fprintf(stderr, "sirdma run: %s: %s\n", program.c_str(), strerror(errno));
	return exit_cannot_run;
}

} // namespace sirdma::cli
