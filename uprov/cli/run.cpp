/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "run.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <string>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sirdma/roce.h>

#include "config.hpp"
#include "identity.hpp"
#include "libraries.hpp"
#include "options.hpp"
#include "program.hpp"
#include "sysfs_view.hpp"

namespace sirdma::cli
{

namespace
{

constexpr int exit_usage = 2;
/* The exit statuses of env(1). */
constexpr int exit_failure = 125;
constexpr int exit_cannot_run = 126;
constexpr int exit_not_found = 127;

void set_variable(const char *name, const std::string &value)
{
	setenv(name, value.c_str(), 1);
}

/* Add @value before the other values of a list separated by colons. */
void prepend_variable(const char *name, const std::string &value)
{
	const char *others = getenv(name);

	set_variable(name, others && *others ? value + ":" + others : value);
}

bool is_free(const twin::IpAddress &addr)
{
	const int fd = socket(addr.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sockaddr_storage name;
	const socklen_t len = addr.to_socket(SIRDMA_ROCE_UDP_PORT, name);
	const bool bound = fd >= 0 && !bind(fd, reinterpret_cast<sockaddr *>(&name), len);

	if (fd >= 0)
		close(fd);
	return bound;
}

/*
 * The sysfs tree and sirdma show tell a device's address before any process opens the device, so
 * the address is chosen here. All processes of the run share it. No process holds the address until
 * the first one opens the device, so the address is random: process numbers are alike in
 * containers.
 */
void choose_addrs(std::vector<twin::IpAddress> &addrs)
{
	uint32_t next = std::random_device()(), tried = 0;

	for (twin::IpAddress &addr : addrs) {
		for (; addr.any() && tried < twin::IpAddress::default_count; ++tried, ++next) {
			const twin::IpAddress free = twin::IpAddress::default_address(next);

			if (is_free(free))
				addr = free;
		}
	}
}

std::string join(const std::vector<twin::IpAddress> &addrs)
{
	std::string list;

	for (size_t i = 0; i < addrs.size(); ++i)
		list += (i ? "," : "") + (addrs[i].any() ? std::string() : addrs[i].text());
	return list;
}

bool try_sysfs(const std::vector<twin::IpAddress> &addrs, std::string &why)
{
	std::vector<TreeDevice> tree;

	for (const twin::IpAddress &addr : addrs) {
		TreeDevice device{};

		memcpy(device.gid, addr.ip().b, sizeof(device.gid));
		device.guid = twin::device_guid(addr);
		device.netdev = twin::interface_name(addr);
		tree.push_back(device);
	}
	return enter_sysfs_view(tree, why);
}

/* Report a program that cannot be served. Returns the exit status, 0 when it can. */
int report_refused(const std::string &program, Preload why)
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
			 "the loader ignores what sirdma sets; run a copy without them, or as that "
			 "user";
		break;
	case Preload::is_foreign:
		reason = "is for another architecture than sirdma";
		break;
	}
	fprintf(stderr, "sirdma run: cannot serve %s: it %s\n", program.c_str(), reason);
	return exit_cannot_run;
}

/* Truncate a capture file before the run, unless another run writes to it (see PcapWriter). */
bool truncate_capture(const std::string &path)
{
	struct stat st;

	if (!stat(path.c_str(), &st) && !S_ISREG(st.st_mode))
		return true;

	const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	const bool ok = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) || !ftruncate(fd, 0));

	if (!ok)
		fprintf(stderr, "sirdma run: --pcap %s: %s\n", path.c_str(), strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Truncate the captures of the run. A process truncates its own capture (%p). */
bool truncate_captures(const Options &options)
{
	if (options.capture.empty() || options.capture.find("%p") != std::string::npos)
		return true;

	const size_t at = options.capture.find("%d");

	for (unsigned i = 0; i < options.devices; ++i) {
		std::string path = options.capture;

		if (at != std::string::npos)
			path.replace(at, 2, std::to_string(i));
		if (!truncate_capture(path))
			return false;
	}
	return true;
}

/*
 * Enter the view and set the environment for the program. Returns the exit status; 0: all went
 * well.
 */
int prepare(Options &options)
{
	const std::string shim = find_library(twin::shim_library),
			  twin = find_library(twin::twin_library);
	std::string why = "--view";

	if (shim.empty() || twin.empty()) {
		fprintf(stderr, "sirdma run: %s is missing: build or install it\n",
			shim.empty() ? twin::shim_library : twin::twin_library);
		return exit_failure;
	}

	choose_addrs(options.addrs);

	const bool sysfs = options.view != View::preload && try_sysfs(options.addrs, why);

	if (!sysfs && options.view == View::sysfs) {
		fprintf(stderr, "sirdma run: --view sysfs is not possible here: %s\n", why.c_str());
		return exit_failure;
	}
	if (options.verbose)
		fprintf(stderr, "sirdma run: view: %s%s%s%s\n",
			sysfs ? twin::view_sysfs : twin::view_preload, sysfs ? "" : " (",
			sysfs ? "" : why.c_str(), sysfs ? "" : ")");

	prepend_variable("LD_PRELOAD", shim);
	set_variable(twin::env_view, sysfs ? twin::view_sysfs : twin::view_preload);
	set_variable(twin::env_addr, join(options.addrs));
	set_variable(twin::env_devices, std::to_string(options.devices));
	for (const char *name : twin::env_options)
		unsetenv(name);
	for (const auto &[name, value] : options.environment)
		set_variable(name.c_str(), value);
	if (sysfs) {
		unsetenv("SYSFS_PATH");
		/*
		 * libibverbs appends -rdmav and its number. Links with these names lie beside the
		 * library.
		 */
		prepend_variable("RDMAV_DRIVERS", twin.substr(0, twin.rfind(".so")));
	}
	return 0;
}

} // namespace

int run(int argc, char **argv)
{
	Options options;

	if (const auto error = parse_options(argc, argv, options)) {
		fprintf(stderr, "sirdma run: %s\n", error->c_str());
		return exit_usage;
	}
	if (options.help) {
		fputs(run_usage, stdout);
		return 0;
	}

	std::string shell = login_shell();
	char *shell_argv[] = {shell.data(), nullptr};
	char **arguments = options.shell ? shell_argv : options.program;
	const std::string program = find_program(arguments[0]);

	if (program.empty()) {
		const int err = errno;

		fprintf(stderr, "sirdma run: %s: %s\n", arguments[0], strerror(err));
		return err == ENOENT ? exit_not_found : exit_cannot_run;
	}
	if (const int status = report_refused(program, can_preload(program)))
		return status;
	if (!truncate_captures(options))
		return exit_failure;
	if (const int status = prepare(options))
		return status;
	execv(program.c_str(), arguments);
	fprintf(stderr, "sirdma run: %s: %s\n", program.c_str(), strerror(errno));
	return exit_cannot_run;
}

} // namespace sirdma::cli
