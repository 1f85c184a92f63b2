/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "doctor.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sirdma/roce.h>

#include "address.hpp"
#include "environment.hpp"
#include "interface.hpp"
#include "libraries.hpp"
#include "sysfs_view.hpp"

namespace sirdma::cli
{

namespace
{

constexpr char doctor_usage[] = "sirdma doctor\n"
				"  Says whether sirdma run can serve programs on this machine, and "
				"how.\n"
				"  Exit status: 0 when it can, 1 when it cannot.\n";

enum class Verdict { good, limit, bad };

class Report {
public:
	void say(Verdict verdict, const std::string &what, const std::string &found)
	{
		static constexpr const char *words[] = {"ok", "note", "FAIL"};

		printf("%-5s %-28s %s\n", words[static_cast<int>(verdict)], what.c_str(),
		       found.c_str());
		bad_ |= verdict == Verdict::bad;
	}

	bool bad() const { return bad_; }

private:
	bool bad_ = false;
};

/* The path a library of this process was loaded from. */
std::string path_of(void *library)
{
	link_map *map = nullptr;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) ? std::string() : std::string(map->l_name);
}

/* The release of rdma-core, from the name of its file: libibverbs.so.1.14.56.1 belongs to 56.1. */
std::string release_of(const std::string &path)
{
	constexpr std::string_view stem = "libibverbs.so.1.";
	std::error_code ignored;
	const std::string name = std::filesystem::canonical(path, ignored).filename().string();
	const size_t dot = name.starts_with(stem) ? name.find('.', stem.size()) : std::string::npos;

	return dot == std::string::npos ? std::string() : ", rdma-core " + name.substr(dot + 1);
}

void check_libibverbs(Report &report)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (!library) {
		report.say(Verdict::bad, "libibverbs",
			   std::string(dlerror()) + ": install libibverbs1");
		return;
	}

	const std::string path = path_of(library);
	std::string why;
	const Interface *interface = find_interface(library, why);

	report.say(Verdict::good, "libibverbs", path + release_of(path));
	report.say(interface ? Verdict::good : Verdict::bad, "its provider interface",
		   interface ? describe(*interface) : why);
}

void check_library(Report &report, const char *name)
{
	const std::string path = find_library(name);

	if (path.empty()) {
		report.say(Verdict::bad, name, "is missing: build or install it");
		return;
	}

	void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);

	report.say(library ? Verdict::good : Verdict::bad, name, library ? path : dlerror());
}

void check_view(Report &report)
{
	std::string why;

	if (enter_sysfs_view({}, why))
		report.say(Verdict::good, "view",
			   "sysfs: also for programs that open libibverbs by dlopen");
	else
		report.say(Verdict::limit, "view",
			   "preload, for programs linked with libibverbs (" + why + ")");
}

void check_port(Report &report)
{
	sockaddr_in addr{};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const std::string port = "UDP port " + std::to_string(SIRDMA_ROCE_UDP_PORT);

	addr.sin_family = AF_INET;
	addr.sin_port = htons(SIRDMA_ROCE_UDP_PORT);
	if (!bind(fd, reinterpret_cast<sockaddr *>(&addr), sizeof(addr)))
		report.say(Verdict::good, port, "free at every address");
	else
		report.say(errno == EADDRINUSE ? Verdict::limit : Verdict::bad, port,
			   std::string(strerror(errno)) + ": by twins, each at its address, or by "
							  "a RoCE driver of the kernel");
	addr.sin_addr = twin::IpAddress::default_address(static_cast<uint32_t>(getpid())).v4();
	close(fd);

	const int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const bool bound = !bind(own, reinterpret_cast<sockaddr *>(&addr), sizeof(addr));

	report.say(bound ? Verdict::good : Verdict::bad, "loopback addresses",
		   bound ? "127.64.0.0/16 can be used" : strerror(errno));
	close(own);
}

void check_memory(Report &report)
{
	rlimit limit{};

	getrlimit(RLIMIT_MEMLOCK, &limit);

	const std::string size = limit.rlim_cur == RLIM_INFINITY ?
					 "unlimited" :
					 std::to_string(limit.rlim_cur >> 10) + " KiB";

	report.say(Verdict::good, "locked memory", size + "; not needed, nothing is pinned");
	if (limit.rlim_cur <= 32768 && geteuid())
		report.say(Verdict::limit, "", "libibverbs itself warns below 32 KiB; ignore it");
}

/*
 * May a process read the memory of a process that is not its child? A child that reads its parent's
 * memory finds out.
 */
void check_copies(Report &report)
{
	static uint64_t word = 0x736972646d61;
	const pid_t parent = getpid(), child = fork();
	int status = 0;

	if (!child) {
		uint64_t copy = 0;
		const iovec to = {.iov_base = &copy, .iov_len = sizeof(copy)};
		const iovec from = {.iov_base = &word, .iov_len = sizeof(word)};

		_exit(process_vm_readv(parent, &to, 1, &from, 1, 0) < 0 ? errno : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return;
	if (!WEXITSTATUS(status))
		report.say(Verdict::good, "long messages", "one copy between processes");
	else
		report.say(Verdict::limit, "long messages",
			   std::string("two copies between processes: process_vm_readv: ") +
				   strerror(WEXITSTATUS(status)) +
				   ", see kernel.yama.ptrace_scope");
}

} // namespace

int doctor(int argc, char **argv)
{
	Report report;

	if (argc > 1) {
		if (strcmp(argv[1], "--help") != 0) {
			fprintf(stderr, "sirdma doctor: takes no arguments, but got '%s'\n",
				argv[1]);
			return 2;
		}
		fputs(doctor_usage, stdout);
		return 0;
	}
	check_libibverbs(report);
	check_library(report, twin::shim_library);
	check_library(report, twin::twin_library);
	check_port(report);
	check_memory(report);
	check_copies(report);
	/* Do this last, as it moves this process into another mount namespace. */
	check_view(report);
	return report.bad();
}

} // namespace sirdma::cli
