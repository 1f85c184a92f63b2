/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Accesses to the memory of neighbours: which threads wait for them, and which words they may change. */
#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "guarded_copy.hpp"
#include "raw_neighbour.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr u32 pd = 3, stag = 0x1234ab;

/* Does @work end within 10 seconds? @done has its thread: the caller may end first what a stuck @work waits for. */
template <typename Work> bool ends(Work work, std::future<void> &done)
{
	done = std::async(std::launch::async, work);
	return done.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

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

	/* False if the system forbids userfaultfd(). */
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

bool maps_the_test_file()
{
	std::ifstream maps("/proc/self/maps");

	for (std::string line; std::getline(maps, line);)
		if (line.find("sirdma-neighbours-test") != line.npos)
			return true;
	return false;
}

class NeighbourAccess : public NeighboursTest {};

} // namespace

/* A neighbour is frozen within an access: the thread that closes an object waits for it, and no other thread. */
TEST_F(NeighbourAccess, IsNotHeldUpWhileAnotherThreadWaitsForAnAccess)
{
	const auto table = AccessTable::create(first_qpn_of(n->slot()));
	AccessView view;

	ASSERT_TRUE(table && view.map(table->fd()));
	n->let_access(*table);

	const Fd other_name = rendezvous_listen(own_address(1), 4);
	RawNeighbour raw = connect(), other = connect(4);
	std::atomic<bool> closed{false};
	std::future<void> helped;

	raw.rings.control(0).accesses = 1;

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
	raw.rings.control(0).accesses = 0;
	closer.join();
	EXPECT_FALSE(readable());
	EXPECT_FALSE(hung_up(raw)) << "it is given up only after a second";

	/* It never ends. Then only the first thread waits, and the connection is closed. */
	raw.rings.control(0).accesses = 1;
	n->finish_accesses();
	EXPECT_TRUE(readable());

	const u64 start = port_now_ns(nullptr);

	n->finish_accesses();
	serve();
	EXPECT_LT(port_now_ns(nullptr) - start, 500000000u);
	EXPECT_TRUE(hung_up(raw));
}

/*
 * An access waits for memory: here that of the initiator, which a test can withhold. The helper of the
 * initiator does not wait, nor does a thread that frees something, and the target may leave.
 */
TEST_F(NeighbourAccess, IsNotHeldUpByAnAccessThatWaitsForMemory)
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

/*
 * The addresses in a table say nothing about where in the file the memory is. A locked instruction on a part of two
 * cache lines stops all processors, or ends in a signal.
 */
TEST_F(NeighbourAccess, ChangesNoWordThatIsMappedUnaligned)
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

} // namespace sirdma::twin::test
