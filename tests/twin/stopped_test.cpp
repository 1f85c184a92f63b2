/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Processes of an address whose port's owner is stopped. */
#include <csignal>
#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.hpp"

namespace sirdma::twin::test
{

/* Threads of another process, stopped by a debugger until it goes away. */
class Debugger {
public:
	explicit Debugger(pid_t pid)
	{
		const std::string path = "/proc/" + std::to_string(pid) + "/task";
		DIR *dir = opendir(path.c_str());

		while (const dirent *entry = readdir(dir)) {
			const pid_t tid = atoi(entry->d_name);
			int status;

			if (!tid)
				continue;
			EXPECT_EQ(ptrace(PTRACE_SEIZE, tid, 0, 0), 0) << strerror(errno);
			EXPECT_EQ(ptrace(PTRACE_INTERRUPT, tid, 0, 0), 0);
			EXPECT_EQ(waitpid(tid, &status, __WALL), tid);
			tids_.push_back(tid);
		}
		closedir(dir);
	}
	~Debugger()
	{
		for (const pid_t tid : tids_)
			EXPECT_EQ(ptrace(PTRACE_DETACH, tid, 0, 0), 0);
	}

private:
	std::vector<pid_t> tids_;
};

/* It has what it needs to succeed the port's owner. */
bool may_succeed(pid_t pid)
{
	const std::string path = "/proc/" + std::to_string(pid) + "/fd";

	for (int ms = 0; ms < 20000; ++ms) {
		bool found = false;
		DIR *dir = opendir(path.c_str());

		while (const dirent *entry = readdir(dir)) {
			char to[64] = {};

			found = found ||
				(readlinkat(dirfd(dir), entry->d_name, to, sizeof(to) - 1) > 0 &&
				 strstr(to, "sirdma-port"));
		}
		closedir(dir);
		if (found)
			return true;
		usleep(1000);
	}
	return false;
}

/* Traffic of the others goes on while the owner of the port is stopped, and its own afterwards. */
class TwinStopped : public ::testing::Test {
protected:
	using Clock = std::chrono::steady_clock;

	TwinStopped()
	{
		a.connect(owner.address(), very_patient);
		owner.connect(a.address());
		b.connect(second.address(), very_patient);
		second.connect(b.address());
		c.connect(third.address(), very_patient);
		third.connect(c.address());
		write_and_read(a, owner.address());
		write_and_read(b, second.address());
		write_and_read(c, third.address());
		EXPECT_TRUE(may_succeed(second.pid()) && may_succeed(third.pid()));
	}

	/* Until one message was acknowledged, in ms. */
	static double gap(Node &node, const Address &to)
	{
		const auto start = Clock::now();

		EXPECT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 64, &to), 0);
		EXPECT_EQ(node.poll().status, IBV_WC_SUCCESS);
		return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
	}

	static constexpr uint8_t very_patient = 18; /* 1.07 s: what is sent is not sent again */
	const Config config = at(own_address(0), LinkKind::udp);
	Child owner{config}, second{config}, third{config};
	Node a{at(own_address(1), LinkKind::udp)}, b{at(own_address(1), LinkKind::udp)},
		c{at(own_address(1), LinkKind::udp)};
};

TEST_F(TwinStopped, ByASignal)
{
	stop(owner.pid());
	printf("%.1f ms\n", gap(b, second.address()));
	write_and_read(b, second.address());
	write_and_read(c, third.address());
	kill(owner.pid(), SIGCONT);
	write_and_read(a, owner.address());
	write_and_read(b, second.address());
	write_and_read(c, third.address());
}

TEST_F(TwinStopped, ByADebugger)
{
	{
		const Debugger debugger(owner.pid());

		printf("%.1f ms\n", gap(c, third.address()));
		write_and_read(b, second.address());
		write_and_read(c, third.address());
	}
	write_and_read(a, owner.address());
}

TEST_F(TwinStopped, AndThenItsSuccessorToo)
{
	stop(owner.pid());
	write_and_read(c, third.address());
	stop(second.pid());
	write_and_read(c, third.address());
	kill(owner.pid(), SIGCONT);
	kill(second.pid(), SIGCONT);
	write_and_read(a, owner.address());
	write_and_read(b, second.address());
}

TEST_F(TwinStopped, AndThenKilled)
{
	stop(owner.pid());
	write_and_read(b, second.address());
	owner.kill();
	write_and_read(c, third.address());
	second.kill();
	write_and_read(c, third.address());

	/* Whoever comes afterwards is served as well. */
	Node fourth(config), d(at(own_address(1), LinkKind::udp));

	d.connect(fourth.address(), very_patient);
	fourth.connect(d.address());
	write_and_read(d, fourth.address());
	third.kill();
	write_and_read(d, fourth.address());
}

} // namespace sirdma::twin::test
