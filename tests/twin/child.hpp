/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Another process with a node, told over a socket whom to connect to, and killed at last. */
#pragma once

#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.hpp"
#include "open_files.hpp"
#include "own_address.hpp"

namespace sirdma::twin::test
{

/* A child that has all files of its parent and sleeps: the handlers of fork() would close them. */
class SleepingChild {
public:
	SleepingChild()
		: pid_(static_cast<pid_t>(
			  syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)))
	{
		if (!pid_) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		EXPECT_GT(pid_, 0);
	}
	~SleepingChild()
	{
		if (pid_ > 0 && !kill(pid_, SIGKILL))
			waitpid(pid_, nullptr, 0);
	}
	pid_t pid() const { return pid_; }
	SleepingChild(const SleepingChild &) = delete;
	SleepingChild &operator=(const SleepingChild &) = delete;

private:
	const pid_t pid_;
};

/* A child of this process, until SIGCONT. */
inline void stop(pid_t pid)
{
	int status;

	EXPECT_EQ(kill(pid, SIGSTOP), 0);
	EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
}

inline Config at(const IpAddress &addr, LinkKind link)
{
	Config config;

	config.addr = addr;
	config.link = link;
	return config;
}

class Child {
public:
	/* What it does once connected; by default it sleeps, and only its helper serves. */
	using Work = void (*)(Node &node, const Address &peer);

	/*
	 * To be made before devices of this process: one of their threads may have locked the
	 * sanitizer's allocator when the child is forked, and there it stays locked.
	 */
	explicit Child(const Config &config, Work work = nullptr)
	{
		int ends[2];

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pid_ = fork();
		if (!pid_) {
			close(ends[0]);
			serve(ends[1], config, work);
		}
		close(ends[1]);
		fd_ = ends[0];
		EXPECT_EQ(read(fd_, &address_, sizeof(address_)), ssize_t(sizeof(address_)));
	}

	~Child()
	{
		kill();
		close(fd_);
	}

	void connect(const Address &to) { EXPECT_TRUE(try_connect(to)); }

	/* False when it is dead. */
	bool try_connect(const Address &to)
	{
		char done;

		return send(fd_, &to, sizeof(to), MSG_NOSIGNAL) == ssize_t(sizeof(to)) &&
		       read(fd_, &done, 1) == 1;
	}

	void kill()
	{
		if (pid_ > 0) {
			::kill(pid_, SIGKILL);
			waitpid(pid_, nullptr, 0);
		}
		pid_ = -1;
	}

	const Address &address() const { return address_; }
	pid_t pid() const { return pid_; }

private:
	[[noreturn]] static void serve(int fd, const Config &config, Work work)
	{
		Node node(config);
		const Address mine = node.address();
		Address peer;

		node.fill(33);
		if (write(fd, &mine, sizeof(mine)) < 0)
			_exit(1);
		while (read(fd, &peer, sizeof(peer)) == ssize_t(sizeof(peer))) {
			node.connect(peer);
			if (write(fd, "", 1) != 1)
				_exit(1);
			if (work)
				work(node, peer);
		}
		_exit(0);
	}

	pid_t pid_;
	int fd_;
	Address address_{};
};

} // namespace sirdma::twin::test
