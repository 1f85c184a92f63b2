/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The port of an address that processes share: who has it, who watches its owner, who succeeds. */
#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "child.hpp"
#include "file_message.hpp"
#include "port_share.hpp"

static bool no_more_watches;

/* Nothing more is watched, as where the user's limit is reached (epoll(7), max_user_watches). */
extern "C" int epoll_ctl(int epoll, int op, int fd, epoll_event *event) noexcept
{
	if (no_more_watches && op == EPOLL_CTL_ADD) {
		errno = ENOSPC;
		return -1;
	}
	return static_cast<int>(syscall(SYS_epoll_ctl, epoll, op, fd, event));
}

namespace sirdma::twin::test
{

namespace
{

/* A succession where a processor is free, which a busy machine has once in a while. */
constexpr auto fast = std::chrono::milliseconds(10);

} // namespace

/* A child keeps its parent's sockets open; epoll reports such a socket after the parent closed it. */
TEST(TwinPortShare, ForgetsAMemberWhoseSocketAChildHas)
{
	const auto share = PortShare::create(own_address(0), true);
	const Fd member = rendezvous_connect(own_address(0), port_owner);

	ASSERT_TRUE(share && member);
	share->serve();

	const SleepingChild child;

	ASSERT_EQ(shutdown(member.get(), SHUT_RDWR), 0);
	share->serve();

	pollfd wakes = {.fd = share->fd(), .events = POLLIN, .revents = 0};

	EXPECT_EQ(poll(&wakes, 1, 0), 0) << "the helper spins";
}

/* How long nobody has the port when its owner is killed, at least once. */
TEST(TwinPortShare, ChangesHandsWithinMilliseconds)
{
	using Clock = std::chrono::steady_clock;

	const IpAddress addr = own_address(0);
	auto best = Clock::duration::max();

	for (const auto end = Clock::now() + std::chrono::seconds(20);
	     best >= fast && Clock::now() < end;) {
		int ready[2];
		char c = 0;

		ASSERT_EQ(pipe(ready), 0);

		const pid_t owner = fork();

		if (!owner) {
			const auto share = PortShare::create(addr, true);

			if (!share || write(ready[1], &c, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		ASSERT_EQ(read(ready[0], &c, 1), 1);
		close(ready[0]);
		close(ready[1]);

		const auto share = PortShare::create(addr, false);

		ASSERT_TRUE(share && !share->receiver());

		const auto killed = Clock::now();

		kill(owner, SIGKILL);
		while (!share->receiver()) {
			pollfd p = {.fd = share->fd(), .events = POLLIN, .revents = 0};

			/* As the helper does. */
			::poll(&p, 1, share->wait() < never_ns ? 1 : 10000);
			share->serve();
			ASSERT_LT(Clock::now() - killed, std::chrono::seconds(20));
		}
		best = std::min(best, Clock::now() - killed);
		waitpid(owner, nullptr, 0);
	}
	EXPECT_LT(best, fast);
	RecordProperty("microseconds", static_cast<int>(best / std::chrono::microseconds(1)));
	printf("%d us\n", static_cast<int>(best / std::chrono::microseconds(1)));
}

/* A datagram to RoCEv2's port. */
void send_packet(const IpAddress &addr)
{
	const Fd sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	sockaddr_storage to;
	const socklen_t len = addr.to_socket(SIRDMA_ROCE_UDP_PORT, to);

	EXPECT_EQ(sendto(sender.get(), "packet", 6, 0, reinterpret_cast<sockaddr *>(&to), len), 6);
}

/* As the helper serves it: when it is told, or when it is time. */
void serve(PortShare &share, int limit_ms)
{
	constexpr u64 ns_per_ms = 1000000;
	pollfd p = {.fd = share.fd(), .events = POLLIN, .revents = 0};
	const u64 wait = share.wait();

	::poll(&p, 1, wait == never_ns ? limit_ms : static_cast<int>(wait / ns_per_ms));
	share.serve();
}

/* Two processes of an address, the second of which may succeed the first. */
class TwinPortPair : public ::testing::Test {
protected:
	using Clock = std::chrono::steady_clock;

	void SetUp() override
	{
		ASSERT_TRUE(owner && member && owner->receiver() && !member->receiver());
		owner->serve();
		member->serve();
		ASSERT_EQ(member->wait(), never_ns);
	}

	/* Two others. */
	void renew()
	{
		member.reset();
		owner.reset();
		owner = PortShare::create(addr, true, small_buffer);
		member = PortShare::create(addr, false, small_buffer);
		SetUp();
	}

	/* The owner is stopped: nobody serves it while packets come. */
	void pass_to_member(useconds_t pause_us = 0)
	{
		const auto stopped = Clock::now();

		send_packet(addr);
		while (!member->receiver()) {
			serve(*member, 10000);
			if (pause_us)
				usleep(pause_us);
			ASSERT_LT(Clock::now() - stopped, std::chrono::seconds(20));
		}
	}

	static constexpr uint32_t small_buffer = 4096;
	const IpAddress addr = own_address(0);
	std::unique_ptr<PortShare> owner = PortShare::create(addr, true, small_buffer),
				   member = PortShare::create(addr, false, small_buffer);
};

/* The end of the owner and a packet are told of together. */
TEST_F(TwinPortPair, DoesNotWatchItself)
{
	owner.reset();
	send_packet(addr);
	member->serve();
	ASSERT_TRUE(member->receiver());
	EXPECT_EQ(member->wait(), never_ns);
}

/* An owner of which the test writes each word. */
class MadOwner : public ::testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_TRUE(name && port && words && member && !member->receiver());
	}
	Fd accept() { return rendezvous_accept(name.get(), spare, refused); }
	void grant(const Fd &to, uint32_t rank)
	{
		ASSERT_TRUE(send_grant(to.get(), {.rank = rank, .owner = 0},
				       {port->fd(), name.get(), words.fd()}));
	}

	const IpAddress addr = own_address(0);
	const Fd name = rendezvous_listen(addr, port_owner);
	const std::unique_ptr<UdpReceiver> port = UdpReceiver::create(addr);
	const PortFile words = PortFile::create();
	const std::unique_ptr<PortShare> member = PortShare::create(addr, false);
	Fd spare = spare_file();
	uint64_t refused = 0;
};

/* That it need not watch and a packet are told of together. */
TEST_F(MadOwner, TellsAMemberNotToWatch)
{
	const Fd connection = accept();

	grant(connection, 0);
	member->serve();
	grant(connection, ~0u);
	send_packet(addr);
	member->serve();
	EXPECT_EQ(member->wait(), never_ns);
}

/* It has not accepted for a while, because it waits for a processor. */
TEST_F(MadOwner, IsWaitedForWhileItsQueueIsFull)
{
	std::vector<Fd> waiting;
	std::unique_ptr<PortShare> late;
	rlimit files;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < 2048)
		GTEST_SKIP() << "the queue takes 1024 connections";

	const rlimit before = files;

	files.rlim_cur = files.rlim_max;
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	while (Fd one = rendezvous_connect(addr, port_owner))
		waiting.push_back(std::move(one));
	ASSERT_EQ(errno, EAGAIN);

	std::thread joins([&] { late = PortShare::create(addr, false); });

	/* Longer than settle_tries pauses of 1 ms: a process that did not wait would have failed by now. */
	std::this_thread::sleep_for(std::chrono::milliseconds(500));
	while (accept())
		;
	joins.join();
	EXPECT_TRUE(late && !late->receiver());
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* It has no file left for the connection, for example. */
TEST_F(MadOwner, HangsUpAtOnce)
{
	const auto start = std::chrono::steady_clock::now();
	int connections = 0;

	for (int i = 0; i < 2000; ++i) {
		connections += static_cast<bool>(accept());
		member->serve();
	}

	const auto took = std::chrono::steady_clock::now() - start;

	EXPECT_LE(connections, 500 + took / std::chrono::milliseconds(50));
}

/* Another owner came and was stopped, and this process has no file left for a connection. */
TEST_F(MadOwner, IsSucceededByAProcessThatCannotConnect)
{
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
	rlimit files{};

	{
		const Fd connection = accept();

		grant(connection, 0);
		member->serve();
		words.words().owner.store(1);
		send_packet(addr);
	}
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);

	rlimit none = files;

	none.rlim_cur = 1; /* for poll() */
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (!member->receiver() && std::chrono::steady_clock::now() < deadline)
		member->serve();
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	EXPECT_TRUE(member->receiver());
}

/* It keeps its connection, and the owner gives the rank to another one. */
TEST_F(MadOwner, IsToldOfAMemberWithoutRoomForFiles)
{
	const Fd connection = accept();
	rlimit files{};
	char c;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	grant(connection, 0);

	rlimit none = files;

	none.rlim_cur = 3;
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	member->serve();
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	EXPECT_EQ(recv(connection.get(), &c, 1, MSG_DONTWAIT), 1);
	EXPECT_EQ(recv(connection.get(), &c, 1, MSG_DONTWAIT), -1) << "it hung up";
	EXPECT_EQ(member->wait(), never_ns);
}

/* The owner of which the tests are the members. */
TEST(TwinPortShare, GivesADeclinedRankToAnotherMember)
{
	constexpr uint32_t watchers = 3, no_rank = ~0u;
	const auto owner = PortShare::create(own_address(0), true);
	std::vector<Fd> members;
	const auto rank = [&](const Fd &member) {
		PortGrant grant{.rank = 77, .owner = 0};
		PortFiles files;

		owner->serve();
		return receive_grant(member.get(), grant, files) ? grant.rank : 99;
	};

	ASSERT_TRUE(owner);
	for (uint32_t i = 0; i < watchers + 2; ++i) {
		members.push_back(rendezvous_connect(own_address(0), port_owner));
		ASSERT_TRUE(members.back());
		EXPECT_EQ(rank(members.back()), i < watchers ? i : no_rank);
	}
	ASSERT_EQ(send(members[1].get(), "", 1, 0), 1);
	EXPECT_EQ(rank(members[watchers]), 1u);
	/* Not to who declined. */
	members[0].reset();
	EXPECT_EQ(rank(members[watchers + 1]), 0u);
	members[2].reset();
	EXPECT_EQ(rank(members[1]), 99u);
	EXPECT_EQ(errno, EAGAIN) << "it stays a member";
}

/* A member in a process group of its own, as a job of a shell is. */
class Job {
public:
	explicit Job(const IpAddress &addr)
	{
		int ends[2];
		char byte;

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
		pid_ = fork();
		if (!pid_) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			setpgid(0, 0);

			const Fd own = rendezvous_connect(addr, port_owner);
			const int files[] = {own.get()};

			(void)send_with_files(ends[1], "", 1, files);
			for (;;)
				pause();
		}

		pollfd p = {.fd = ends[0], .events = POLLIN, .revents = 0};
		Fd came[1];

		EXPECT_EQ(::poll(&p, 1, 60000), 1);

		EXPECT_TRUE(receive_with_files(ends[0], &byte, 1, came)) << strerror(errno);
		connection = std::move(came[0]);
		for (const int end : ends)
			close(end);
	}
	~Job()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

	Fd connection;

private:
	pid_t pid_;
};

/* Who stops the owner with its process group stops a watcher of that group as well. */
TEST(TwinPortShare, IsWatchedByOtherProcessGroups)
{
	constexpr uint32_t watchers = 3, no_rank = ~0u, none = 99;
	const IpAddress addr = own_address(0);
	const auto owner = PortShare::create(addr, true);
	const auto rank = [&](const Fd &member) {
		PortGrant grant{.rank = 77, .owner = 0};
		PortFiles files;

		owner->serve();
		return receive_grant(member.get(), grant, files) ? grant.rank : none;
	};
	std::vector<Fd> members;

	ASSERT_TRUE(owner);
	for (uint32_t i = 0; i < watchers + 1; ++i) {
		members.push_back(rendezvous_connect(addr, port_owner));
		ASSERT_TRUE(members.back());
		EXPECT_EQ(rank(members.back()), i < watchers ? i : no_rank);
	}
	std::vector<std::unique_ptr<Job>> jobs;

	for (uint32_t left = watchers; left--;) {
		jobs.push_back(std::make_unique<Job>(addr));
		EXPECT_EQ(rank(jobs.back()->connection), left);
		EXPECT_EQ(rank(members[left]), no_rank);
	}
	jobs.push_back(std::make_unique<Job>(addr));
	EXPECT_EQ(rank(jobs.back()->connection), no_rank) << "each watcher is of its own group";

	/* One that watches leaves: not a member of the owner's group takes its place. */
	ASSERT_EQ(shutdown(jobs[1]->connection.get(), SHUT_RDWR), 0);
	EXPECT_EQ(rank(jobs.back()->connection), 1u);
	EXPECT_EQ(rank(members[watchers]), none);
}

/* An owner that does not hear of members would be one to whom nobody can connect. */
TEST_F(TwinPortPair, IsNotOwnedByWhoCannotWatchItsName)
{
	owner.reset();
	no_more_watches = true;
	member->serve();
	EXPECT_FALSE(member->receiver());
	no_more_watches = false;
	ASSERT_NO_FATAL_FAILURE(pass_to_member());

	const auto another = PortShare::create(addr, false);

	ASSERT_TRUE(another);
	member->serve();
	EXPECT_NE(another->wait(), 0u) << "it is granted a rank";
}

/* What an owner says that breaks the rules is not believed, and costs no file. */
TEST(TwinPortShare, BelievesNoBadGrant)
{
	const IpAddress addr = own_address(0);
	const Fd name = rendezvous_listen(addr, port_owner);
	const auto member = PortShare::create(addr, false);
	Fd spare = spare_file(), socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	PortFile words = PortFile::create();
	const Fd unsealed(memfd_create("unsealed", MFD_CLOEXEC));
	uint64_t refused = 0;

	ASSERT_TRUE(name && member && words && unsealed);

	const size_t files = open_files();
	const auto say = [&](const PortGrant &grant, int port, int page) {
		Fd fd = rendezvous_accept(name.get(), spare, refused);
		const int given[] = {port, name.get(), page};
		pollfd again = {.fd = name.get(), .events = POLLIN, .revents = 0};

		ASSERT_TRUE(fd);
		ASSERT_TRUE(send_grant(fd.get(), grant, given));
		member->serve();
		fd.reset();
		while (!::poll(&again, 1, 0))
			serve(*member, 1);
		EXPECT_FALSE(member->receiver());
	};
	const auto port = UdpReceiver::create(addr);

	ASSERT_TRUE(port);
	say({.rank = 0, .owner = 1}, socket.get(), words.fd());
	EXPECT_EQ(open_files(), files + 1) << "no port";
	say({.rank = 0, .owner = 1}, port->fd(), unsealed.get());
	EXPECT_EQ(open_files(), files + 1) << "words that may vanish";
	say({.magic = 1, .rank = 0, .owner = 1}, port->fd(), words.fd());
	EXPECT_EQ(open_files(), files + 1) << "another version";
}

/* At least once: a busy machine is slow, but not for ever. */
TEST_F(TwinPortPair, PassesFromAStoppedOwnerWithinMilliseconds)
{
	auto best = Clock::duration::max();

	for (const auto end = Clock::now() + std::chrono::seconds(20);
	     best >= fast && Clock::now() < end;) {
		const auto stopped = Clock::now();

		ASSERT_NO_FATAL_FAILURE(pass_to_member());
		best = std::min(best, Clock::now() - stopped);

		/* What waited is there, and the old owner knows. */
		pollfd p = {.fd = member->receiver()->fd(), .events = POLLIN, .revents = 0};

		EXPECT_EQ(::poll(&p, 1, 0), 1);
		EXPECT_EQ(owner->wait(), 0u);
		owner->serve();
		EXPECT_FALSE(owner->receiver());
		ASSERT_NO_FATAL_FAILURE(renew());
	}
	EXPECT_LT(best, fast);
	printf("%.1f ms\n", std::chrono::duration<double, std::milli>(best).count());
}

/* So may the owner wait for a processor, who is not stopped then; but not for ever. */
TEST_F(TwinPortPair, IsPatientWithTheOwnerWhereItLooksLateItself)
{
	const auto stopped = Clock::now();

	ASSERT_NO_FATAL_FAILURE(pass_to_member(20000));
	EXPECT_GE(Clock::now() - stopped, std::chrono::milliseconds(400));
}

/* The socket's counter passes with it from owner to owner. */
TEST_F(TwinPortPair, CountsEachOverrunOnce)
{
	const auto overrun = [this] {
		for (int i = 0; i < 100; ++i)
			send_packet(addr);
	};

	overrun();

	const uint64_t by_owner = owner->overruns();

	EXPECT_GT(by_owner, 0u);
	EXPECT_EQ(member->overruns(), 0u) << "it does not own the port";
	ASSERT_NO_FATAL_FAILURE(pass_to_member());
	overrun();

	const uint64_t by_member = member->overruns();

	EXPECT_EQ(owner->overruns(), by_owner) << "it was stopped";
	owner->serve();
	EXPECT_EQ(owner->overruns(), by_owner) << "what was counted stays";
	EXPECT_GT(by_member, 0u);
	EXPECT_EQ(by_owner + by_member, member->receiver()->overruns());
}

} // namespace sirdma::twin::test
