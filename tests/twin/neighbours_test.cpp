/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The helper of a process among neighbours: what wakes it, and that nobody keeps it awake. */
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "child.hpp"
#include "guarded_copy.hpp"
#include "hello.hpp"
#include "neighbours.hpp"

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

constexpr uint16_t record_packet = 1;
constexpr u32 pd = 3, stag = 0x1234ab;

struct Counts final : PacketSink {
	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override { ++seen; }
	void packet(const IpAddress &, uint8_t *, size_t, uint8_t, bool) noexcept override
	{
		++seen;
	}
	void packet(const IpAddress &, const SuperPacket &, bool) noexcept override { ++seen; }
	void malformed() noexcept override { ++seen; }
	void end_batch() noexcept override {}

	std::atomic<u32> seen{0};
};

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

class Helper : public ::testing::Test {
protected:
	void SetUp() override
	{
		n = Neighbours::create(own_address(0));
		name = rendezvous_listen(own_address(1), 3);
		ASSERT_TRUE(n && name);
	}
	static bool readable(const Neighbours &of)
	{
		pollfd p = {.fd = of.fd(), .events = POLLIN, .revents = 0};

		return ::poll(&p, 1, 0) == 1;
	}
	bool readable() const { return readable(*n); }
	/* As the helper does it; nothing is left to do at last. */
	void serve(Neighbours &of)
	{
		for (int i = 0; i < 1000 && readable(of); ++i)
			of.serve(sink);
		EXPECT_FALSE(readable(of)) << "the helper spins";
	}
	void serve() { serve(*n); }

	struct Mad {
		Fd sock;
		RingPair rings;
		RingWriter out;

		void put(size_t len = 32)
		{
			if (uint8_t *at = out.reserve(len)) {
				memset(at, 0, len);
				out.commit({.len = static_cast<uint32_t>(len),
					    .kind = record_packet,
					    .flags = 0});
				out.publish();
			}
		}
	};

	/* A neighbour that is served, and whose every word the test writes. @slot: it has the name. */
	Mad connect(uint32_t slot = 3)
	{
		int file = -1;
		Mad mad{.sock = rendezvous_connect(own_address(0), n->slot()),
			.rings = RingPair::create(file),
			.out = {}};
		const Fd owner(file);

		EXPECT_TRUE(mad.sock && mad.rings);
		mad.out = mad.rings.writer(0);
		EXPECT_TRUE(send_hello(mad.sock.get(),
				       {.slot = slot, .scope = 0, .addr = own_address(1).ip()},
				       file));
		serve();
		return mad;
	}
	static bool hung_up(const Mad &mad)
	{
		ssize_t n;
		char c;

		/* A table may have come (access_table.hpp). */
		while ((n = recv(mad.sock.get(), &c, 1, MSG_DONTWAIT)) > 0)
			;
		return !n || errno != EAGAIN;
	}

	/* End a connection to @listener. @accepts: the rings are attached before. */
	static bool hang_up(const Fd &listener, bool accepts)
	{
		const Fd sock(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
		Hello hello;
		Fd file;

		if (!sock || !receive_hello(sock.get(), hello, file))
			return false;
		if (accepts)
			RingPair::map(file.get()).control(1).lease_at = 1;
		return true;
	}

	/* How many polls it takes until a record of @mad is delivered. */
	unsigned polls_until(Mad &mad)
	{
		const u32 before = sink.seen;
		unsigned polls = 0;

		mad.put();
		do
			n->receive(sink, false);
		while (++polls < 100 && sink.seen == before);
		EXPECT_EQ(sink.seen, before + 1);
		return polls;
	}

	std::unique_ptr<Neighbours> n;
	Fd name;
	Counts sink;
};

} // namespace

/* Else it sleeps without an eye on it. */
TEST_F(Helper, IsToldOfAConnectionMadeToHandADatagramOver)
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
TEST_F(Helper, ForgetsANeighbourWhoseSocketAChildHas)
{
	const Mad mad = connect();
	const SleepingChild child;

	ASSERT_EQ(shutdown(mad.sock.get(), SHUT_RDWR), 0);
	n->serve(sink);
	EXPECT_FALSE(readable()) << "what was freed is served again";
	if (HasFailure())
		(void)n.release();
}

TEST_F(Helper, LeavesANeighbourWithABrokenRing)
{
	constexpr RecordHead mad_head = {.len = 0xffffffff, .kind = 1, .flags = 0};
	Mad mad = connect();

	mad.put();
	EXPECT_EQ(n->receive(sink), 1u);
	memcpy(mad.out.reserve(8) - sizeof(mad_head), &mad_head, sizeof(mad_head));
	EXPECT_FALSE(n->fall_asleep()) << "something waits";
	EXPECT_EQ(n->receive(sink), 0u);
	EXPECT_TRUE(n->fall_asleep());
	EXPECT_TRUE(readable());
	serve();
	EXPECT_TRUE(hung_up(mad));
	EXPECT_EQ(n->refused(), 1u);
}

/* What it sent before it learned of the refusal is lost; the rest goes by UDP. */
TEST_F(Helper, SeldomTriesANeighbourAgainThatRefusesIt)
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
TEST_F(Helper, PollsIdleNeighboursRoundRobin)
{
	constexpr unsigned count = 20, round = count;
	constexpr u64 slow_poll_ns = 60000; /* idle_us, within a factor of two, and more */
	std::vector<Fd> names;
	std::vector<Mad> all;

	for (uint32_t i = 0; i < count; ++i) {
		names.push_back(rendezvous_listen(own_address(1), 10 + i));
		ASSERT_TRUE(names.back());
		all.push_back(connect(10 + i));
	}
	for (Mad &mad : all)
		EXPECT_LE(polls_until(mad), round);
	for (Mad &mad : all)
		EXPECT_EQ(polls_until(mad), 1u) << "it has just sent something";
	for (unsigned i = 0; i < 1000; ++i)
		EXPECT_EQ(n->receive(sink, false), 0u);
	EXPECT_EQ(sink.seen, 2 * count);

	unsigned most = 0;

	for (Mad &mad : all)
		most = std::max(most, polls_until(mad));
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
	for (Mad *mad : {&all[1], &all[2], &all[19]}) {
		compute_longer_than_idle_us();
		EXPECT_LE(polls_until(*mad), 4u);
	}
	/* Calls that find records of a busy neighbour do not count, and do not begin the count again. */
	for (Mad *mad : {&all[4], &all[5], &all[7]}) {
		const u32 before = sink.seen;
		u32 empty = 0, busy = 0;

		compute_longer_than_idle_us();
		mad->put();
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

TEST_F(Helper, GivesTheMemoryOfIdleRingsBack)
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
TEST_F(Helper, GivesTheMemoryOfARingBackThatIsReadLate)
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
TEST_F(Helper, TakesNoMoreThanARingOfANeighbourThatLeft)
{
	std::atomic<bool> stop{false};
	Mad mad = connect();

	mad.put();
	mad.sock.reset();
	std::thread writer([&] {
		while (!stop)
			mad.put(1);
	});
	serve();
	stop = true;
	writer.join();
	EXPECT_LE(sink.seen, 2 * ring_bytes / ring_align);
}

TEST_F(Helper, IsNotHeldByANeighbourThatTalks)
{
	std::atomic<bool> stop{false};
	Mad mad = connect();
	std::thread talker([&] {
		while (!stop)
			(void)!send(mad.sock.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	});

	for (int i = 0; i < 100; ++i)
		n->serve(sink);
	stop = true;
	talker.join();
	serve();
	EXPECT_FALSE(hung_up(mad));
}

TEST_F(Helper, KeepsFewStrangers)
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
TEST_F(Helper, ForgetsADroppedStrangerWhoseSocketAChildHas)
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

TEST_F(Helper, KeepsFewConnectionsOfOneName)
{
	std::vector<Mad> all;

	for (int i = 0; i < 10; ++i)
		all.push_back(connect());
	EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Mad &m) { return !hung_up(m); }),
		  4);
	EXPECT_EQ(n->refused(), 6u);
}

namespace
{

/* Does @work end while another thread waits? */
template <typename Work> bool ends(Work work, std::future<void> &done)
{
	done = std::async(std::launch::async, work);
	return done.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

} // namespace

/* A neighbour is frozen within an access: who has closed something waits for it, but nobody else does. */
TEST_F(Helper, IsNotHeldUpWhileAnotherThreadWaitsForAnAccess)
{
	const auto table = AccessTable::create(first_qpn_of(n->slot()));
	AccessView view;

	ASSERT_TRUE(table && view.map(table->fd()));
	n->let_access(*table);

	const Fd other_name = rendezvous_listen(own_address(1), 4);
	Mad mad = connect(), other = connect(4);
	std::atomic<bool> closed{false};
	std::future<void> helped;

	mad.rings.control(0).accesses = 1;

	std::thread closer([&] {
		n->finish_accesses();
		closed = true;
	});

	while (!view.header().waiting)
		std::this_thread::yield();
	other.sock.reset();
	EXPECT_TRUE(ends(
		[&] {
			n->serve(sink);
			port_rcu_wait();
		},
		helped));
	EXPECT_FALSE(closed) << "the helper has waited for the access, too";
	mad.rings.control(0).accesses = 0;
	closer.join();
	EXPECT_FALSE(readable());
	EXPECT_FALSE(hung_up(mad)) << "it is given up only after a second";

	/* It never ends. Then only the first thread waits, and the connection is closed. */
	mad.rings.control(0).accesses = 1;
	n->finish_accesses();
	EXPECT_TRUE(readable());

	const u64 start = port_now_ns(nullptr);

	n->finish_accesses();
	serve();
	EXPECT_LT(port_now_ns(nullptr) - start, 500000000u);
	EXPECT_TRUE(hung_up(mad));
}

namespace
{

/* A page that a thread waits for when it reads it, until it is there. */
class LatePage {
public:
	LatePage()
		: at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0)),
		  faults_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)))
	{
		uffdio_api api{};
		uffdio_register range{};

		api.api = UFFD_API;
		range.range = {.start = reinterpret_cast<uintptr_t>(at_), .len = bytes};
		range.mode = UFFDIO_REGISTER_MODE_MISSING;
		if (faults_ && (ioctl(faults_.get(), UFFDIO_API, &api) ||
				ioctl(faults_.get(), UFFDIO_REGISTER, &range)))
			faults_.reset();
	}
	~LatePage() { munmap(at_, bytes); }
	LatePage(const LatePage &) = delete;
	LatePage &operator=(const LatePage &) = delete;

	/* The system may allow this to no user. */
	bool is_possible() const { return static_cast<bool>(faults_); }
	uint8_t *data() const { return static_cast<uint8_t *>(at_); }
	/* Wait until a thread waits for the page. */
	bool await_thread() const
	{
		pollfd p = {.fd = faults_.get(), .events = POLLIN, .revents = 0};

		return ::poll(&p, 1, 10000) == 1;
	}
	void come() const
	{
		uffdio_zeropage page{};

		page.range = {.start = reinterpret_cast<uintptr_t>(at_), .len = bytes};
		EXPECT_EQ(ioctl(faults_.get(), UFFDIO_ZEROPAGE, &page), 0);
	}

private:
	static constexpr size_t bytes = 4096;

	void *const at_;
	Fd faults_;
};

} // namespace

/*
 * An access waits for memory: here that of the initiator, which a test can withhold. The helper of the
 * initiator does not wait, nor does a thread that frees something, and the target may leave.
 */
TEST_F(Helper, IsNotHeldUpByAnAccessThatWaitsForMemory)
{
	constexpr u32 both = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;
	auto second = Neighbours::create(own_address(0));
	const LatePage page;
	volatile uint64_t word = ~uint64_t{0};
	const auto at = reinterpret_cast<uintptr_t>(&word);
	uint8_t bytes[32] = {};

	if (!page.is_possible() || !can_guard_copies())
		GTEST_SKIP() << "no userfaultfd, or no restartable sequences";
	ASSERT_TRUE(second);

	const u32 qpn = first_qpn_of(second->slot()) + 17;
	const auto mine = AccessTable::create(first_qpn_of(n->slot()));
	const auto table = AccessTable::create(first_qpn_of(second->slot()));
	std::future<void> freed;

	ASSERT_TRUE(mine && table);
	n->let_access(*mine);
	second->let_access(*table);
	table->open_qp(qpn, pd, both);
	table->open_region({.stag = stag,
			    .pd = pd,
			    .rights = both,
			    .base = at,
			    .length = sizeof(word),
			    .start = at});
	ASSERT_TRUE(n->forward(second->slot(), {}, bytes, sizeof(bytes), 0, false));
	serve(*second);
	while (second->receive(sink))
		;
	serve();
	ASSERT_TRUE(second->fall_asleep());

	u64 note = 0;
	snic_flow flow{};

	flow.dst_ip = own_address(0).ip();

	const snic_one_sided request = {.flow = &flow,
					.qpn = first_qpn_of(n->slot()) + 1,
					.dest_qpn = qpn,
					.va = at,
					.rkey = stag,
					.len = sizeof(word),
					.op = SNIC_ONE_SIDED_WRITE,
					.data = page.data(),
					.note = &note};

	ASSERT_EQ(n->execute_mapped(request), OneSidedWay::kernel);
	ASSERT_EQ(n->execute(request), OneSidedWay::packets) << "it is not proven yet that both "
								"are connected";

	std::atomic<int> executed{-1};
	std::thread initiator([&] {
		/* As the device's calls do. */
		port_rcu_read_lock();
		executed = n->execute(request) == OneSidedWay::kernel;
		port_rcu_read_unlock();
	});

	if (page.await_thread()) {
		EXPECT_TRUE(ends(
			[&] {
				port_rcu_wait();
				second.reset();
				serve();
			},
			freed));
		EXPECT_EQ(executed, -1);
		page.come();
	} else {
		ADD_FAILURE() << "there was no access";
	}
	initiator.join();
	EXPECT_EQ(executed, 1);
	EXPECT_EQ(word, 0u);
}

bool maps_the_test_file()
{
	std::ifstream maps("/proc/self/maps");

	for (std::string line; std::getline(maps, line);)
		if (line.find("sirdma-neighbours-test") != line.npos)
			return true;
	return false;
}

/*
 * The addresses in a table say nothing about where in the file the memory is. A locked instruction on a part of two
 * cache lines stops all processors, or ends in a signal.
 */
TEST_F(Helper, ChangesNoWordThatIsMappedUnaligned)
{
	const Fd file = new_shared_file("sirdma-neighbours-test", 4096);
	auto second = Neighbours::create(own_address(0));
	uint64_t word = 0;
	u64 note = 0;
	uint8_t bytes[32] = {};
	struct stat st;

	if (!can_guard_copies())
		GTEST_SKIP() << "no restartable sequences";
	ASSERT_TRUE(file && second);
	ASSERT_EQ(fstat(file.get(), &st), 0);

	const u32 qpn = first_qpn_of(second->slot()) + 17;
	const auto mine = AccessTable::create(first_qpn_of(n->slot()));
	const auto table = AccessTable::create(first_qpn_of(second->slot()));

	ASSERT_TRUE(mine && table);
	n->let_access(*mine);
	second->let_access(*table);
	table->open_qp(qpn, pd, SIRDMA_ACCESS_REMOTE_ATOMIC);
	for (const uint64_t offset : {8, 12})
		table->open_region({.stag = static_cast<u32>(stag + (offset << 8)),
				    .pd = pd,
				    .rights = SIRDMA_ACCESS_REMOTE_ATOMIC,
				    .base = 4096,
				    .length = 64,
				    .start = 4096,
				    .file = {.fd = file.get(),
					     .offset = offset,
					     .device = st.st_dev,
					     .inode = st.st_ino}});
	ASSERT_TRUE(n->forward(second->slot(), {}, bytes, sizeof(bytes), 0, false));
	serve(*second);
	while (second->receive(sink))
		;
	serve();

	snic_flow flow{};
	snic_one_sided request = {.flow = &flow,
				  .qpn = first_qpn_of(n->slot()) + 1,
				  .dest_qpn = qpn,
				  .va = 4096,
				  .rkey = stag + (8 << 8),
				  .len = sizeof(word),
				  .op = SNIC_ONE_SIDED_FETCH_ADD,
				  .swap_add = 5,
				  .data = reinterpret_cast<uint8_t *>(&word),
				  .note = &note};

	flow.dst_ip = own_address(0).ip();
	if (n->execute_mapped(request) != OneSidedWay::must_map)
		GTEST_SKIP() << "this process maps no files of another";
	EXPECT_FALSE(maps_the_test_file()) << "locks may be held now";
	ASSERT_EQ(n->execute(request), OneSidedWay::packets) << "it is not proven yet that both "
								"are connected";
	EXPECT_TRUE(maps_the_test_file());
	ASSERT_EQ(n->execute_mapped(request), OneSidedWay::mapping);
	ASSERT_EQ(n->execute(request), OneSidedWay::mapping);
	EXPECT_EQ(word, 5u);
	request.rkey = stag + (12 << 8);
	EXPECT_EQ(n->execute_mapped(request), OneSidedWay::must_map);
	EXPECT_EQ(n->execute(request), OneSidedWay::packets);
	EXPECT_EQ(n->execute_mapped(request), OneSidedWay::packets);
}

/* Who cannot be let in is sent away, for a listener stays readable. */
TEST_F(Helper, SleepsWithoutRoomForMoreFiles)
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
TEST_F(Helper, LosesANeighbourWhileAThreadConnects)
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
