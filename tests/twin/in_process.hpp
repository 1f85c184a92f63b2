/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tests that need a process or a network of their own. */
#pragma once

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fd.hpp"

namespace sirdma::twin::test
{

/* The exit status of a child that runs @body, as waitpid() has it: 0 if nothing failed there. */
template <typename Body> int status_of_child(Body body)
{
	int status = -1;
	const pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
		_exit(testing::Test::HasFailure());
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* In a child, so that each test has a process and devices of its own. */
template <typename Body> void in_process(Body body)
{
	EXPECT_EQ(status_of_child(body), 0);
}

/*
 * Give this process a network without any address. An ordinary user becomes root of a user
 * namespace for it, which takes a process of one thread. False: neither is permitted.
 */
inline bool enter_network_namespace()
{
	const std::string uid = "0 " + std::to_string(geteuid()) + " 1",
			  gid = "0 " + std::to_string(getegid()) + " 1";
	const auto put = [](const char *path, const std::string &text) {
		const Fd file(open(path, O_WRONLY | O_CLOEXEC));

		return write(file.get(), text.data(), text.size()) ==
		       static_cast<ssize_t>(text.size());
	};

	if (!unshare(CLONE_NEWNET))
		return true;
	return !unshare(CLONE_NEWUSER | CLONE_NEWNET) && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", uid) && put("/proc/self/gid_map", gid);
}

/* In a child that has a network namespace. False: it is not permitted here. */
template <typename Body> bool in_network_namespace(Body body)
{
	constexpr int not_permitted = 77;
	const int status = status_of_child([&] {
		if (!enter_network_namespace())
			_exit(not_permitted);
		body();
	});

	if (WIFEXITED(status) && WEXITSTATUS(status) == not_permitted)
		return false;
	EXPECT_EQ(status, 0);
	return true;
}

} // namespace sirdma::twin::test
