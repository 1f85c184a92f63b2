/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "options.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <getopt.h>
#include <span>

#include "config.hpp"

namespace sirdma::cli
{

const char run_usage[] =
	R"(sirdma run [OPTIONS] -- PROGRAM [ARGS...]
sirdma run [OPTIONS] --shell
  Runs PROGRAM, or a shell, with RDMA devices of its own: sirdma0 and so on, GID index 0 each.

  --addr ADDR    IPv4 or IPv6 address of a device (default: a free one in 127.64.0.0/16)
  --netdev IF    take the address of network interface IF
                 each --addr or --netdev makes a device
  --devices N    the number of devices, 1 to 64
  --mtu N        IP MTU, 1280 to 65535 (default: that of the interface)
  --link KIND    udp, shm (only processes of yours on this host), or auto (the default: shm
                 where the peer is such a process, else udp)

  --loss P       drop P percent of the packets received
  --corrupt P    let P percent of them fail the check of their ICRC
  --reorder P    deliver P percent of them after the packet that follows
  --seed N       seed that decides which packets (default 1)

  --pcap FILE    record all packets for Wireshark, of all processes of the run in one file;
                 %p in its name becomes the process id, for one file each; %d the device
  --one-sided    let processes of yours that have this option, too, execute short WRITEs,
                 READs and, where memory can be mapped (memfd_create() with F_SEAL_SHRINK,
                 device memory), atomics in each other's memory, without the target's processor;
                 a page that the target lacks holds up the call that posted the request, and a
                 process that is frozen meanwhile ibv_dereg_mr() of the target, for a second
  --stats        print the counters of the devices and of rdma_cm when a process ends
  --verbose      say what the devices are and how the program sees them
  --view KIND    sysfs: devices in a /sys and /dev of the program's own; preload: a library put
                 before libibverbs; auto (the default): sysfs where the system allows it
)";

namespace
{

using Error = std::optional<std::string>;

enum Option {
	opt_addr = 1000,
	opt_netdev,
	opt_devices,
	opt_mtu,
	opt_link,
	opt_loss,
	opt_corrupt,
	opt_reorder,
	opt_seed,
	opt_pcap,
	opt_one_sided,
	opt_stats,
	opt_verbose,
	opt_view,
	opt_shell,
	opt_help,
};

constexpr option long_options[] = {
	{"addr", required_argument, nullptr, opt_addr},
	{"netdev", required_argument, nullptr, opt_netdev},
	{"devices", required_argument, nullptr, opt_devices},
	{"mtu", required_argument, nullptr, opt_mtu},
	{"link", required_argument, nullptr, opt_link},
	{"loss", required_argument, nullptr, opt_loss},
	{"corrupt", required_argument, nullptr, opt_corrupt},
	{"reorder", required_argument, nullptr, opt_reorder},
	{"seed", required_argument, nullptr, opt_seed},
	{"pcap", required_argument, nullptr, opt_pcap},
	{"one-sided", no_argument, nullptr, opt_one_sided},
	{"stats", no_argument, nullptr, opt_stats},
	{"verbose", no_argument, nullptr, opt_verbose},
	{"view", required_argument, nullptr, opt_view},
	{"shell", no_argument, nullptr, opt_shell},
	{"help", no_argument, nullptr, opt_help},
	{},
};

template <typename T> bool parse(const char *text, T low, T high, T &value)
{
	const char *end = text + strlen(text);
	const auto [stop, error] = std::from_chars(text, end, value);

	/* NaN is in no range. */
	return error == std::errc{} && stop == end && value >= low && value <= high;
}

std::string quoted(const char *text)
{
	return std::string("'") + text + "'";
}

Error percentage(const char *option, const char *variable, const char *arg, Options &out)
{
	double value;

	if (!parse(arg, 0.0, 100.0, value))
		return std::string(option) + ": not a percentage from 0 to 100: " + quoted(arg);
	out.environment.emplace_back(variable, arg);
	return {};
}

Error choice(const char *option, const char *arg, std::span<const char *const> words, size_t &which)
{
	std::string list;

	for (which = 0; which < words.size(); ++which) {
		if (!strcmp(arg, words[which]))
			return {};
		list += (which ? which + 1 == words.size() ? " or " : ", " : "");
		list += words[which];
	}
	return std::string(option) + ": not " + list + ": " + quoted(arg);
}

Error add_addr(const char *arg, Options &out)
{
	twin::IpAddress addr;

	if (!twin::IpAddress::parse(arg, addr))
		return "--addr: not an IP address: " + quoted(arg);
	if (addr.any())
		return "--addr: not the address of an interface: " + quoted(arg);
	if (std::find(out.addrs.begin(), out.addrs.end(), addr) != out.addrs.end())
		return "--addr: given twice: " + quoted(arg);
	out.addrs.push_back(addr);
	return {};
}

Error add_netdev(const char *arg, Options &out)
{
	twin::IpAddress addr;

	if (!twin::interface_addr(arg, addr))
		return "--netdev: no interface with an IP address: " + quoted(arg);
	out.addrs.push_back(addr);
	return {};
}

/* Check the folder now: the twin could report it only after the program began. */
Error set_pcap(const char *arg, Options &out)
{
	const std::filesystem::path path = std::filesystem::absolute(arg);
	std::error_code error;

	if (!*arg || !path.has_filename())
		return "--pcap: not a file name: " + quoted(arg);
	if (!std::filesystem::is_directory(path.parent_path(), error))
		return "--pcap: no such folder: " + quoted(path.parent_path().c_str());
	out.one_capture = path.string().find("%d") == std::string::npos;
	out.capture = path.string();
	out.environment.emplace_back(twin::env_pcap, out.capture);
	return {};
}

Error apply(int opt, const char *arg, Options &out)
{
	static constexpr const char *links[] = {"auto", "udp", "shm"};
	static constexpr const char *views[] = {"auto", "sysfs", "preload"};
	uint32_t mtu;
	uint64_t seed;
	size_t which = 0;
	Error error;

	switch (opt) {
	case opt_addr:
		return add_addr(arg, out);
	case opt_netdev:
		return add_netdev(arg, out);
	case opt_devices:
		if (!parse(arg, 1u, twin::devices_max, out.devices))
			return "--devices: not a number from 1 to 64: " + quoted(arg);
		return {};
	case opt_mtu:
		if (!parse(arg, twin::mtu_min, twin::mtu_max, mtu))
			return "--mtu: not a number from 1280 to 65535: " + quoted(arg);
		out.environment.emplace_back(twin::env_mtu, arg);
		return {};
	case opt_link:
		error = choice("--link", arg, links, which);
		if (!error)
			out.environment.emplace_back(twin::env_link, arg);
		return error;
	case opt_loss:
		return percentage("--loss", twin::env_loss, arg, out);
	case opt_corrupt:
		return percentage("--corrupt", twin::env_corrupt, arg, out);
	case opt_reorder:
		return percentage("--reorder", twin::env_reorder, arg, out);
	case opt_seed:
		if (!parse(arg, uint64_t{0}, UINT64_MAX, seed))
			return "--seed: not a number: " + quoted(arg);
		out.environment.emplace_back(twin::env_seed, arg);
		return {};
	case opt_pcap:
		return set_pcap(arg, out);
	case opt_one_sided:
		out.environment.emplace_back(twin::env_one_sided, "1");
		return {};
	case opt_stats:
		out.environment.emplace_back(twin::env_stats, "1");
		return {};
	case opt_verbose:
		out.environment.emplace_back(twin::env_verbose, "1");
		out.verbose = true;
		return {};
	case opt_view:
		error = choice("--view", arg, views, which);
		out.view = static_cast<View>(which);
		return error;
	case opt_shell:
		out.shell = true;
		return {};
	default:
		out.help = true;
		return {};
	}
}

/* Describe the error in the argument before @at, as the user wrote it. */
std::string describe_refused(int argc, char **argv, int at, bool no_value)
{
	const char *arg = at > 0 && at <= argc ? argv[at - 1] : "";

	if (no_value)
		return std::string(arg) + ": needs a value";
	return "no such option, or not complete: " + quoted(arg);
}

} // namespace

std::optional<std::string> parse_options(int argc, char **argv, Options &out)
{
	optind = 1;
	for (int c; (c = getopt_long(argc, argv, "+:", long_options, nullptr)) != -1;) {
		if (c == '?' || c == ':')
			return describe_refused(argc, argv, optind, c == ':');
		if (Error error = apply(c, optarg, out))
			return error;
		if (out.help)
			return {};
	}
	out.program = argv + optind;
	if (out.shell && *out.program)
		return "--shell: takes no program, but got " + quoted(*out.program);
	if (!out.shell && !*out.program)
		return "no program named; try --help";
	if (!out.devices)
		out.devices = std::max<unsigned>(1, static_cast<unsigned>(out.addrs.size()));
	if (out.devices > twin::devices_max || out.addrs.size() > out.devices)
		return "--devices: more addresses than devices";
	if (out.one_capture && out.devices > 1)
		return "--pcap: several devices need %d in the name of the file";
	out.addrs.resize(out.devices);
	return {};
}

} // namespace sirdma::cli
