/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * twin_many CONTEXTS EXECS PROGRAM [ARGS...]: a process with many contexts on each of its
 * devices, each with a queue pair, and each of these connected to another one. Between writes it
 * forks a child that just exits, and one that becomes PROGRAM, which must succeed; and at last
 * it becomes itself again, EXECS times.
 */
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "end.hpp"

namespace
{

/* From each to its peer: the first one's is the last. */
void write_all(std::vector<End> &ends, unsigned value)
{
	for (size_t i = 0; i < ends.size(); ++i)
		ends[i].write(ends[ends.size() - 1 - i], static_cast<int>(value + i));
}

/* A child that ends at once, with all a program does at its end, or becomes @program. */
void child(char **program)
{
	int status = -1;
	const pid_t pid = fork();

	check(pid >= 0, "fork");
	if (!pid && !program)
		std::exit(0);
	if (!pid) {
		execvp(*program, program);
		die(*program);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0, "the child");
}

} // namespace

int main(int argc, char **argv)
{
	check(argc > 3, "usage");

	const size_t contexts = std::strtoul(argv[1], nullptr, 10);
	const unsigned long execs = std::strtoul(argv[2], nullptr, 10);
	std::vector<End> ends;
	int devices = 0;
	ibv_device **list = ibv_get_device_list(&devices);

	check(list && devices, "no devices");
	for (int d = 0; d < devices; ++d)
		for (size_t i = 0; i < contexts; ++i)
			ends.emplace_back(list[d]);
	ibv_free_device_list(list);
	for (size_t i = 0; i < ends.size(); ++i)
		ends[i].connect(ends[ends.size() - 1 - i]);
	write_all(ends, 1);
	child(nullptr);
	write_all(ends, 2);
	child(argv + 3);
	write_all(ends, 3);
	std::printf("%d devices, %zu contexts\n", devices, ends.size());
	if (!execs)
		return 0;
	std::fflush(stdout);

	std::string fewer = std::to_string(execs - 1);

	argv[2] = fewer.data();
	execv("/proc/self/exe", argv);
	die("exec");
}
