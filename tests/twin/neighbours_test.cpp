/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The helper of a process among neighbours: what wakes it, and that nobody keeps it awake. */
#include <atomic>
#include <fstream>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "child.hpp"
#include "raw_neighbour.hpp"

extern "C" {
#include "model/packet.h"
}

static void (*after_epoll_ctl)(int op);

extern "C" int epoll_ctl(int epoll, int op, int fd, epoll_event *event) noexcept
{
	const long ret = syscall(SYS_epoll_ctl, epoll, op, fd, event);

	if (after_epoll_ctl)
		after_epoll_ctl(op);
	return static_cast<int>(ret);
}

namespace sirdma::twin::test
{

namespace
{

/* KiB of rings that are in memory, at both ends. */
size_t resident_rings()
{
	std::ifstream in("/proc/self/smaps");
	bool rings = false;
	size_t kib = 0;

	for (std::string line; std::getline(in, line);) {
		if (line.find("sirdma-rings") != line.npos)
			rings = true;
		else if (line.starts_with("Rss:") && std::exchange(rings, false))
			kib += std::stoul(line.substr(4));
	}
	return kib;
}

} // namespace

/* Else it sleeps without an eye on it. */
TEST_F(NeighboursTest, IsToldOfAConnectionMadeToHandADatagramOver)
{
	const auto second = Neighbours::create(own_address(0));
	uint8_t bytes[32] = {};

	ASSERT_TRUE(second);
	ASSERT_FALSE(readable());
	ASSERT_TRUE(n->forward(second->slot(), {}, bytes, sizeof(bytes), 0, false));
	EXPECT_TRUE(readable());
	serve();
	EXPECT_TRUE(n->fall_asleep());
}

/* A child keeps its parent's sockets open; epoll reports such a socket after the parent closed it. */
TEST_F(NeighboursTest, ForgetsANeighbourWhoseSocketAChildHas)
{
	const RawNeighbour raw = connect();
	const SleepingChild child;

	ASSERT_EQ(shutdown(raw.sock.get(), SHUT_RDWR), 0);
	n->serve(sink);
	EXPECT_FALSE(readable()) << "what was freed is served again";
	if (HasFailure())
		(void)n.release();
}

TEST_F(NeighboursTest, LeavesANeighbourWithABrokenRing)
{
	constexpr RecordHead broken_head = {.len = 0xffffffff, .kind = 1, .flags = 0};
	RawNeighbour raw = connect();

	raw.put();
	EXPECT_EQ(n->receive(sink), 1u);
	memcpy(raw.out.reserve(8) - sizeof(broken_head), &broken_head, sizeof(broken_head));
	EXPECT_FALSE(n->fall_asleep()) << "something waits";
	EXPECT_EQ(n->receive(sink), 0u);
	EXPECT_TRUE(n->fall_asleep());
	EXPECT_TRUE(readable());
	serve();
	EXPECT_TRUE(hung_up(raw));
	EXPECT_EQ(n->refused(), 1u);
}

/* What it sent before it learned of the refusal is lost; the rest goes by UDP. */
TEST_F(NeighboursTest, SeldomTriesANeighbourAgainThatRefusesIt)
{
	const auto burst = std::make_unique<snic_burst>();
	snic_flow flow{};
	u32 sent;
	const auto connects = [&] { return n->transmit(*burst, sent); };
	unsigned refusals = 0;

	flow.dst_ip = own_address(1).ip();
	flow.is_v4 = true;
	burst->flow = &flow;
	burst->npkts = 1;
	snic_pkt_bth(&burst->pkts[0], SIRDMA_BTH_SEND_ONLY, 0xffff, first_qpn_of(3) + 5, 0, 0);
	for (int i = 0; i < 3; ++i) {
		ASSERT_TRUE(connects()) << "the last connection was accepted before it ended";
		ASSERT_TRUE(hang_up(name, true));
		serve();
	}
	for (int i = 0; i < 1000 && !HasFailure(); ++i) {
		if (!connects())
			continue;
		++refusals;
		ASSERT_TRUE(hang_up(name, false));
		serve();
	}
	EXPECT_GE(refusals, 1u);
	EXPECT_LE(refusals, 10u);
}

/* A poll costs the same with many neighbours that send nothing; none of them is forgotten. */
TEST_F(NeighboursTest, PollsIdleNeighboursRoundRobin)
{
	constexpr unsigned count = 20, round = count;
	constexpr u64 slow_poll_ns = 60000; /* idle_us, within a factor of two, and more */
	std::vector<Fd> names;
	std::vector<RawNeighbour> all;

	for (uint32_t i = 0; i < count; ++i) {
		names.push_back(rendezvous_listen(own_address(1), 10 + i));
		ASSERT_TRUE(names.back());
		all.push_back(connect(10 + i));
	}
	for (RawNeighbour &raw : all)
		EXPECT_LE(polls_until(raw), round);
	for (RawNeighbour &raw : all)
		EXPECT_EQ(polls_until(raw), 1u) << "it has just sent something";
	for (unsigned i = 0; i < 1000; ++i)
		EXPECT_EQ(n->receive(sink, false), 0u);
	EXPECT_EQ(sink.seen, 2 * count);

	unsigned most = 0;

	for (RawNeighbour &raw : all)
		most = std::max(most, polls_until(raw));
	EXPECT_GT(most, 1u) << "idle ones are polled each time";
	EXPECT_LE(most, round);

	/* Busy and idle ones leave. */
	for (unsigned i = 0; i < 1000; ++i)
		n->receive(sink, false);
	for (unsigned i = 0; i < count; i += 4)
		polls_until(all[i]);
	for (unsigned i = 0; i < count; i += 3)
		all[i].sock.reset();
	serve();
	for (unsigned i = 0; i < count; ++i) {
		if (i % 3) {
			EXPECT_LE(polls_until(all[i]), i % 4 ? round : 1);
		}
	}
	for (unsigned i = 0; i < 1000; ++i)
		n->receive(sink, false);
	const auto compute_longer_than_idle_us = [] {
		const u64 until = port_now_ns(nullptr) + slow_poll_ns;

		while (port_now_ns(nullptr) < until)
			;
	};

	/* A process that polls seldom: one call in four looks whether it has to poll all. */
	for (RawNeighbour *raw : {&all[1], &all[2], &all[19]}) {
		compute_longer_than_idle_us();
		EXPECT_LE(polls_until(*raw), 4u);
	}
	/* Calls that find records of a busy neighbour do not count, and do not begin the count again. */
	for (RawNeighbour *raw : {&all[4], &all[5], &all[7]}) {
		const u32 before = sink.seen;
		u32 empty = 0, busy = 0;

		compute_longer_than_idle_us();
		raw->put();
		do {
			all[1].put();
			n->receive(sink, false);
			++busy;
			n->receive(sink, false);
			++empty;
		} while (empty < 20 && sink.seen == before + busy);
		EXPECT_LE(empty, 4u);
	}
	for (unsigned i = 0; i < 1000; ++i)
		n->receive(sink, false);
	/* A process that had no processor for a while */
	compute_longer_than_idle_us();
	all[8].put();
	EXPECT_EQ(n->receive(sink, false, true), 1u);
	for (unsigned i = 0; i < 1000; ++i)
		n->receive(sink, false);
	all[1].put();
	all[19].put();
	EXPECT_EQ(n->receive(sink), 2u);
}

TEST_F(NeighboursTest, GivesTheMemoryOfIdleRingsBack)
{
	const auto second = Neighbours::create(own_address(0));
	uint8_t bytes[1024] = {};

	ASSERT_TRUE(second);
	EXPECT_EQ(n->ns_until_trim(), ~0ull) << "nothing was sent";
	for (const unsigned datagrams : {150u, 400u}) {
		for (unsigned i = 0; i < datagrams; ++i) {
			ASSERT_TRUE(n->forward(second->slot(), {}, bytes, sizeof(bytes), 0, false));
			second->serve(sink);
			while (second->receive(sink))
				;
		}
		EXPECT_GE(resident_rings(), 2 * 150u);
		ASSERT_TRUE(second->fall_asleep());
		for (u64 wait; (wait = n->ns_until_trim()) != ~0ull; n->trim())
			usleep(static_cast<useconds_t>(wait / 1000));
		/* At each end a page of control words and one of each ring. */
		EXPECT_LE(resident_rings(), 2 * 3 * 4u);
	}
	EXPECT_EQ(sink.seen, 550u);
}

/* The neighbour was stopped when its ring was looked at. */
TEST_F(NeighboursTest, GivesTheMemoryOfARingBackThatIsReadLate)
{
	const auto second = Neighbours::create(own_address(0));
	uint8_t bytes[1024] = {};
	const auto trim = [&](u64 wait) {
		ASSERT_NE(wait, ~0ull);
		usleep(static_cast<useconds_t>(wait / 1000 + 1));
		n->trim();
	};

	ASSERT_TRUE(second);
	for (unsigned i = 0; i < 150; ++i)
		ASSERT_TRUE(n->forward(second->slot(), {}, bytes, sizeof(bytes), 0, false));
	serve(*second);
	for (int looks = 0; looks < 3; ++looks)
		ASSERT_NO_FATAL_FAILURE(trim(n->ns_until_trim()));
	EXPECT_GE(resident_rings(), 150u);
	while (second->receive(sink))
		;
	EXPECT_EQ(sink.seen, 150u);
	/* A poller that finds nothing for long gives back what it has read. */
	for (int i = 0; i < 1000; ++i)
		second->receive(sink, false);
	ASSERT_NO_FATAL_FAILURE(trim(n->ns_until_trim()));
	EXPECT_LE(resident_rings(), 2 * 3 * 4u);
	EXPECT_EQ(n->ns_until_trim(), ~0ull);
}

/* It hangs up, and fills its ring on and on. */
TEST_F(NeighboursTest, TakesNoMoreThanARingOfANeighbourThatLeft)
{
	std::atomic<bool> stop{false};
	RawNeighbour raw = connect();

	raw.put();
	raw.sock.reset();
	std::thread writer([&] {
		while (!stop)
			raw.put(1);
	});
	serve();
	stop = true;
	writer.join();
	EXPECT_LE(sink.seen, 2 * ring_bytes / ring_align);
}

TEST_F(NeighboursTest, IsNotHeldByANeighbourThatTalks)
{
	std::atomic<bool> stop{false};
	RawNeighbour raw = connect();
	std::thread talker([&] {
		while (!stop)
			(void)!send(raw.sock.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	});

	for (int i = 0; i < 100; ++i)
		n->serve(sink);
	stop = true;
	talker.join();
	serve();
	EXPECT_FALSE(hung_up(raw));
}

TEST_F(NeighboursTest, KeepsFewStrangers)
{
	std::vector<Fd> strangers;
	const size_t before = open_files();

	for (int i = 0; i < 300; ++i) {
		strangers.push_back(rendezvous_connect(own_address(0), n->slot()));
		ASSERT_TRUE(strangers.back());
		serve();
	}
	EXPECT_LE(open_files(), before + 300 + 64);
	EXPECT_EQ(n->refused(), 300u - 64);
	connect();
}

/* See ForgetsANeighbourWhoseSocketAChildHas. */
TEST_F(NeighboursTest, ForgetsADroppedStrangerWhoseSocketAChildHas)
{
	std::vector<Fd> strangers;
	const auto come = [&] {
		strangers.push_back(rendezvous_connect(own_address(0), n->slot()));
		ASSERT_TRUE(strangers.back());
		serve();
	};

	come();
	const SleepingChild child;

	for (int i = 0; i < 64; ++i)
		come();
	ASSERT_EQ(n->refused(), 1u);
	ASSERT_EQ(shutdown(strangers.front().get(), SHUT_RDWR), 0);
	EXPECT_FALSE(readable()) << "what was freed is served again";
}

TEST_F(NeighboursTest, KeepsFewConnectionsOfOneName)
{
	std::vector<RawNeighbour> all;

	for (int i = 0; i < 10; ++i)
		all.push_back(connect());
	EXPECT_EQ(std::count_if(all.begin(), all.end(),
				[](const RawNeighbour &m) { return !hung_up(m); }),
		  4);
	EXPECT_EQ(n->refused(), 6u);
}

/* Who cannot be let in is sent away, for a listener stays readable. */
TEST_F(NeighboursTest, SleepsWithoutRoomForMoreFiles)
{
	rlimit before{};
	std::vector<Fd> strangers;

	/* The sanitizer looks at the classes now: it needs files for that. */
	serve();
	for (int i = 0; i < 3; ++i)
		strangers.push_back(rendezvous_connect(own_address(0), n->slot()));
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);

	const rlimit none = {.rlim_cur = static_cast<rlim_t>(strangers.back().get()) + 1,
			     .rlim_max = before.rlim_max};

	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	serve();
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	EXPECT_EQ(n->refused(), 3u);
	strangers.clear();
	connect();
}

/* The helper hears of its end before the thread that connects is done. */
TEST_F(NeighboursTest, LosesANeighbourWhileAThreadConnects)
{
	constexpr uint32_t slot = 5;
	static std::atomic<bool> ended, removing;
	static Fd other;
	uint8_t bytes[32] = {};

	ended = removing = false;
	other = rendezvous_listen(own_address(0), slot);
	after_epoll_ctl = [](int op) {
		if (op == EPOLL_CTL_DEL) {
			removing = true;
		} else {
			EXPECT_TRUE(hang_up(other, true));
			ended = true;
			while (!removing)
				std::this_thread::yield();
			/* The helper goes on until it is done, or waits for this thread. */
			usleep(20000);
		}
	};

	std::thread thread([&] { (void)n->forward(slot, {}, bytes, sizeof(bytes), 0, false); });

	while (!ended)
		std::this_thread::yield();
	n->serve(sink);
	thread.join();
	after_epoll_ctl = nullptr;
	EXPECT_TRUE(n->forward(slot, {}, bytes, sizeof(bytes), 0, false));
	EXPECT_TRUE(hang_up(other, true)) << "it is connected anew";
	serve();
	other.reset();
}

} // namespace sirdma::twin::test
