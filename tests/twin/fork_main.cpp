/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * twin_fork: children of a process with a device, made in each way there is, open the device
 * anew, destroy their parent's objects, and use their own; and a process that closes all
 * descriptors it did not open, as daemons do, and opens files of its own. Each line it
 * prints is a thing that worked.
 */
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "../harness/forbid_syscall.hpp"
#include "end.hpp"

namespace
{

constexpr int first_file = 3;
constexpr int last_file = 200;

ibv_device *device()
{
	int n = 0;
	ibv_device **list = ibv_get_device_list(&n);

	check(list && n, "no devices");
	return *list;
}

/* Two ends of a connection. */
struct Pair {
	explicit Pair(ibv_device *of) : a(of), b(of)
	{
		a.connect(b);
		b.connect(a);
	}

	void write(int value)
	{
		a.write(b, value);
		b.write(a, value + 1);
	}

	End a, b;
};

void destroy(const End &end)
{
	check(!ibv_destroy_qp(end.qp) && !ibv_dereg_mr(end.mr) && !ibv_destroy_cq(end.cq) &&
		      !ibv_dealloc_pd(end.pd) && !ibv_close_device(end.context),
	      "destroy");
}

pid_t raw_clone(unsigned long flags)
{
	return static_cast<pid_t>(
		syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, 0));
}

/* What a child of @parent, made as @pid says, does; then the parent goes on. */
void child(const char *name, pid_t pid, Pair &parent)
{
	int status = -1;

	if (pid < 0 && errno == EPERM) {
		std::printf("not permitted: %s\n", name);
		std::fflush(stdout);
		return;
	}
	check(pid >= 0, name);
	if (!pid) {
		alarm(60);
		Pair own(device());

		own.write(10);
		check(!ibv_alloc_pd(parent.a.context) && errno == ENODEV, "the parent's device");
		destroy(parent.a);
		destroy(parent.b);
		own.write(20);
		destroy(own.a);
		destroy(own.b);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0, name);
	parent.write(30);
	std::printf("%s\n", name);
	std::fflush(stdout);
}

/* Close what is not ours; then all numbers are taken by files of ours, which nobody else may touch. */
template <typename Close> void close_all(const char *name, Close close_them, Pair &pair)
{
	std::vector<int> files;
	int status = -1;

	close_them();
	for (;;) {
		const int fd = memfd_create("mine", MFD_CLOEXEC);

		check(fd >= 0, "memfd_create");
		files.push_back(fd);
		if (fd > last_file)
			break;
	}
	pair.write(40);

	Pair more(device());

	more.write(50);

	const pid_t pid = fork();

	check(pid >= 0, "fork");
	if (!pid) {
		struct stat st;

		for (const int fd : files)
			if (fstat(fd, &st))
				_exit(1);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0, "a child lost files of its parent's");
	for (const int fd : files) {
		struct stat st;

		check(!fstat(fd, &st) && st.st_size == 0, "a file was closed or written to");
		close(fd);
	}
	pair.write(60);
	std::printf("%s\n", name);
	std::fflush(stdout);
}

/* As in a container whose seccomp filter is older than close_range(), with the usual limit of files there. */
void refuse_close_range()
{
	rlimit files;

	check(!getrlimit(RLIMIT_NOFILE, &files), "getrlimit");
	files.rlim_cur = files.rlim_max;
	check(!setrlimit(RLIMIT_NOFILE, &files), "setrlimit");
	check(sirdma::test::forbid_syscall(SYS_close_range, ENOSYS), "seccomp");
	check(close_range(last_file, last_file, 0) && errno == ENOSYS, "close_range is refused");
}

} // namespace

int main()
{
	Pair pair(device());

	alarm(100);
	pair.write(1);
	child("fork", fork(), pair);
	child("clone", raw_clone(0), pair);
	child("clone as init", raw_clone(CLONE_NEWPID), pair);
	close_all(
		"closefrom", [] { closefrom(first_file); }, pair);
	close_all(
		"close_range", [] { close_range(first_file, ~0u, 0); }, pair);
	close_all(
		"close",
		[] {
			for (int fd = first_file; fd <= last_file; ++fd)
				close(fd);
		},
		pair);
	child("fork after that", fork(), pair);
	refuse_close_range();
	close_all(
		"closefrom, one by one", [] { closefrom(first_file); }, pair);
	return 0;
}
