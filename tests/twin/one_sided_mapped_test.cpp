/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Targets whose memory their peers can map: peers write, read and change it without a system call and
 * without the target, until the region or one of the processes ends.
 */
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "child.hpp"
#include "peer_memory.hpp"

namespace sirdma::twin::test
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr size_t page = 4096, bytes = 64 * page;
constexpr char file_name[] = "sirdma-mapped-test";

/* Memory of a file that the test and the target have mapped. */
class SharedBytes {
public:
	explicit SharedBytes(bool sealed = true)
		: fd_(memfd_create(file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING))
	{
		EXPECT_EQ(ftruncate(fd_, bytes), 0);
		if (sealed) {
			EXPECT_EQ(fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		}
		at_ = static_cast<uint8_t *>(
			mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
		EXPECT_NE(at_, MAP_FAILED);
	}
	~SharedBytes()
	{
		munmap(at_, bytes);
		close(fd_);
	}
	SharedBytes(const SharedBytes &) = delete;
	SharedBytes &operator=(const SharedBytes &) = delete;

	uint8_t *at() const { return at_; }
	int fd() const { return fd_; }
	std::atomic_ref<uint64_t> word(size_t offset) const
	{
		return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(at_ + offset));
	}

private:
	const int fd_;
	uint8_t *at_;
};

/* One region more than an initiator maps of a process */
constexpr size_t parts_max = Mappings::count_max + 1;

struct Part {
	size_t offset, length;
	int access;
};

constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/* What the test and its child tell each other; the child makes no verbs call to see it. */
struct Told {
	const SharedBytes *memory = nullptr;
	std::array<Part, parts_max> parts{};
	unsigned count = 1;
	std::array<Address, parts_max> regions{}; /* of the parts */
	Address qp{}; /* a second one of the child */
	Address peer{}; /* to which it has to be connected */
	std::atomic<bool> has_peer{false}, has_second{false};
	std::atomic<bool> registered{false}, deregister{false}, deregistered{false}, check{false};
	std::atomic<bool> work{false};
	std::atomic<uint64_t> done{0};
	std::atomic<int> wrong{-1};
};

Told &told()
{
	static const WithChildren<Told> common;

	return *common;
}

template <typename Ready> bool await(Ready ready)
{
	const auto end = Clock::now() + std::chrono::seconds(60);

	while (!ready()) {
		if (Clock::now() > end)
			return false;
		usleep(50);
	}
	return true;
}

bool maps_the_file()
{
	std::ifstream maps("/proc/self/maps");
	std::string line;
	int n = 0;

	while (std::getline(maps, line))
		n += line.find(file_name) != std::string::npos;
	return n > 1; /* the test itself has it once */
}

/* Targets */

std::array<ibv_mr *, parts_max> register_parts(const Node &node)
{
	Told &all = told();
	std::array<ibv_mr *, parts_max> regions{};

	for (unsigned i = 0; i < all.count; ++i) {
		uint8_t *const at = all.memory->at() + all.parts[i].offset;

		regions[i] = ibv_reg_mr(node.pd, at, all.parts[i].length, all.parts[i].access);
		if (!regions[i])
			_exit(1);
		all.regions[i].buffer = reinterpret_cast<uintptr_t>(at);
		all.regions[i].rkey = regions[i]->rkey;
	}
	all.registered = true;
	return regions;
}

[[noreturn]] void offer(Node &node, const Address &)
{
	register_parts(node);
	for (;;)
		pause();
}

[[noreturn]] void offer_device_memory(Node &node, const Address &)
{
	ibv_alloc_dm_attr attr{.length = 2 * page, .log_align_req = 0, .comp_mask = 0};
	ibv_dm *const dm = ibv_alloc_dm(node.context, &attr);
	Told &all = told();
	uint64_t number = 40;
	ibv_mr *const mr =
		dm ? ibv_reg_dm_mr(node.pd, dm, 64, page, all_access | IBV_ACCESS_ZERO_BASED) :
		     nullptr;

	if (!mr || ibv_memcpy_to_dm(dm, 64, &number, sizeof(number)))
		_exit(1);
	all.regions[0].buffer = 0;
	all.regions[0].rkey = mr->rkey;
	all.registered = true;
	if (!await([&] { return all.check.load(); }) ||
	    ibv_memcpy_from_dm(&number, dm, 64, sizeof(number)))
		_exit(1);
	all.wrong = static_cast<int>(number);
	for (;;)
		pause();
}

/* When told to, deregister; then tell what has changed since. */
[[noreturn]] void offer_for_a_while(Node &node, const Address &)
{
	Told &all = told();
	const auto regions = register_parts(node);

	if (!await([&] { return all.deregister.load(); }) || ibv_dereg_mr(regions[0]))
		_exit(1);

	const std::vector<uint8_t> then(all.memory->at(), all.memory->at() + bytes);
	int wrong = 0;

	all.deregistered = true;
	if (!await([&] { return all.check.load(); }))
		_exit(1);
	for (size_t i = 0; i < bytes; ++i)
		wrong += then[i] != all.memory->at()[i];
	all.wrong = wrong;
	for (;;)
		pause();
}

/* Poll without end: packets would be received at once. */
[[noreturn]] void offer_and_poll(Node &node, const Address &)
{
	ibv_wc wc;

	register_parts(node);
	for (;;)
		ibv_poll_cq(node.cq, 1, &wc);
}

/* Add to the first word by the processor itself, and serve another queue pair. */
[[noreturn]] void offer_and_add(Node &node, const Address &)
{
	Told &all = told();
	ibv_qp *const first = node.qp;

	register_parts(node);
	node.qp = node.create_qp();
	all.qp = node.address();
	all.has_second = true;
	if (!await([&] { return all.has_peer.load(); }))
		_exit(1);
	node.connect(all.peer);
	node.qp = first;
	all.registered = true;
	if (!await([&] { return all.work.load(); }))
		_exit(1);
	for (unsigned i = 0; i < 200000; ++i) {
		all.memory->word(0).fetch_add(1);
		if (i % 1000 == 0)
			sched_yield();
	}
	all.done = 200000;
	for (;;)
		pause();
}

/* Serve a second queue pair that answers neither READs nor atomics. */
[[noreturn]] void offer_without_answers(Node &node, const Address &)
{
	Told &all = told();

	register_parts(node);
	node.qp = node.create_qp();
	node.answers = 0;
	all.qp = node.address();
	all.has_second = true;
	if (!await([&] { return all.has_peer.load(); }))
		_exit(1);
	node.connect(all.peer);
	all.registered = true;
	for (;;)
		pause();
}

/* An initiator: write to the peer's page without end; a request that fails ends it. */
[[noreturn]] void keep_writing(Node &node, const Address &to)
{
	Told &all = told();
	const Address &page_of_peer = all.regions[0];

	(void)to;
	if (!await([&] { return all.registered.load(); }))
		_exit(1);
	for (unsigned i = 0;; ++i) {
		memset(node.buffer.data(), static_cast<int>(i), page);
		if (node.post(IBV_WR_RDMA_WRITE, 0, page, &page_of_peer) ||
		    node.poll().status != IBV_WC_SUCCESS)
			break;
		all.done = node.device->nic->stat(SIRDMA_STAT_ONE_SIDED);
	}
	all.deregistered = true;
	for (;;)
		pause();
}

Config config_of(unsigned number)
{
	Config config = at(own_address(number), LinkKind::shm);

	config.one_sided = true;
	return config;
}

class TwinMapped : public GuardedCopies {
protected:
	void SetUp() override
	{
		const SleepingChild child;

		GuardedCopies::SetUp();
		new (&told()) Told();
		if (!open_memory_of(child.pid()))
			GTEST_SKIP() << "this process may not open the memory of another";
#ifdef SYS_pidfd_getfd
		const Fd process(static_cast<int>(syscall(SYS_pidfd_open, child.pid(), 0)));
		const Fd file(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), 0, 0)));

		if (!file && errno != EBADF)
			GTEST_SKIP() << "this process gets no files of another";
#else
		GTEST_SKIP() << "the C library knows no pidfd_getfd()";
#endif
	}

	/* Offer @parts; the child is made after this. */
	static void parts(const SharedBytes &memory, std::initializer_list<Part> parts)
	{
		Told &all = told();

		all.memory = &memory;
		all.count = static_cast<unsigned>(parts.size());
		std::copy(parts.begin(), parts.end(), all.parts.begin());
	}

	static u64 count(const Node &node)
	{
		return node.device->nic->stat(SIRDMA_STAT_ONE_SIDED);
	}

	static ibv_wc_status one(Node &node, const Address &to, ibv_wr_opcode opcode, size_t offset,
				 uint32_t length, size_t remote_offset)
	{
		EXPECT_EQ(node.post(opcode, offset, length, &to, remote_offset), 0);
		return node.poll().status;
	}
	static ibv_wc_status add(Node &node, const Address &to, size_t remote_offset, uint64_t n)
	{
		EXPECT_EQ(node.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, to, remote_offset, n),
			  0);
		return node.poll().status;
	}
	static uint64_t result(const Node &node)
	{
		uint64_t word;

		memcpy(&word, node.buffer.data(), sizeof(word));
		return word;
	}

	/* Connect, and add 0 until the device executes that by itself: only mapped memory has atomics. */
	static void connect(Node &node, Child &child, uint8_t timeout = 14, uint8_t retries = 7)
	{
		const u64 before = count(node);

		node.connect(child.address(), timeout, retries);
		child.connect(node.address());
		ASSERT_TRUE(await([&] { return told().registered.load(); }));
		ASSERT_TRUE(await([&] {
			return add(node, told().regions[0], 0, 0) != IBV_WC_SUCCESS ||
			       count(node) > before;
		}));
		ASSERT_GT(count(node), before);
	}
};

} // namespace

/* Two regions of a file, at any offset, of a target that is stopped. */
TEST_F(TwinMapped, NeedsNoThreadOfTheTarget)
{
	const SharedBytes memory;

	parts(memory, {{.offset = 3 * page + 40, .length = 2 * page, .access = all_access},
		       {.offset = 20 * page + 8, .length = page, .access = all_access}});

	Child child(config_of(1), offer);
	Node node(config_of(0));

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	stop(child.pid());
	for (unsigned part = 0; part < 2; ++part) {
		const Address &to = told().regions[part];
		uint8_t *const at = memory.at() + told().parts[part].offset;
		u64 before = count(node);

		memory.word(told().parts[part].offset).store(1000);
		ASSERT_EQ(add(node, to, 0, 5), IBV_WC_SUCCESS);
		EXPECT_EQ(result(node), 1000u);
		ASSERT_EQ(node.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, to, 0, 1005, 77), 0);
		ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
		EXPECT_EQ(result(node), 1005u);
		ASSERT_EQ(node.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, to, 0, 1005, 78), 0);
		ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
		EXPECT_EQ(result(node), 77u);
		EXPECT_EQ(memory.word(told().parts[part].offset), 77u);
		EXPECT_EQ(count(node) - before, 3u);
		for (const uint32_t length : {1u, 7u, 8u, 12u, 64u, 1000u, 4096u}) {
			const size_t offset = length == 4096 ? 0 : 11;

			before = count(node);
			node.fill(static_cast<uint8_t>(length + part));
			ASSERT_EQ(one(node, to, IBV_WR_RDMA_WRITE, 3, length, offset),
				  IBV_WC_SUCCESS);
			EXPECT_EQ(memcmp(node.buffer.data() + 3, at + offset, length), 0);
			ASSERT_EQ(one(node, to, IBV_WR_RDMA_READ, 500000, length, offset),
				  IBV_WC_SUCCESS);
			EXPECT_EQ(memcmp(node.buffer.data() + 500000, at + offset, length), 0);
			EXPECT_EQ(count(node) - before, 2u);
		}
	}
	EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
	write_and_read(node, child.address());
}

/* What finds no place among the mappings is copied by the kernel while the target sleeps. */
TEST_F(TwinMapped, ReachesMoreRegionsThanItMaps)
{
	const SharedBytes memory;

	parts(memory, {});
	told().count = parts_max;
	for (size_t i = 0; i < parts_max; ++i)
		told().parts[i] = {.offset = i % 64 * page, .length = page, .access = all_access};

	Child child(config_of(1), offer);
	Node node(config_of(0));

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	for (size_t i = 0; i < parts_max; ++i) {
		const u64 before = count(node);

		ASSERT_TRUE(await([&] {
			return one(node, told().regions[i], IBV_WR_RDMA_WRITE, 0, 8, 0) !=
				       IBV_WC_SUCCESS ||
			       count(node) > before;
		}));
		EXPECT_EQ(count(node) - before, 1u) << "region " << i;
	}
}

TEST_F(TwinMapped, ReachesATargetThatPolls)
{
	const SharedBytes memory;

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer_and_poll);
	Node node(config_of(0));

	ASSERT_NO_FATAL_FAILURE(connect(node, child));

	const u64 before = count(node);

	for (uint64_t i = 0; i < 100; ++i)
		ASSERT_EQ(add(node, told().regions[0], 8, 1), IBV_WC_SUCCESS);
	EXPECT_EQ(count(node) - before, 100u);
	EXPECT_EQ(memory.word(8), 100u);
}

TEST_F(TwinMapped, ReachesDeviceMemory)
{
	Child child(config_of(1), offer_device_memory);
	Node node(config_of(0));

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	stop(child.pid());
	ASSERT_EQ(add(node, told().regions[0], 0, 2), IBV_WC_SUCCESS);
	EXPECT_EQ(result(node), 40u);
	EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
	told().check = true;
	ASSERT_TRUE(await([&] { return told().wrong >= 0; }));
	EXPECT_EQ(told().wrong, 42);
}

/* The target refuses what its region does not permit, as without a mapping. */
TEST_F(TwinMapped, LeavesRefusalsToTheTarget)
{
	for (const int access :
	     {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	      all_access}) {
		const SharedBytes memory;

		new (&told()) Told();
		parts(memory, {{.offset = 0, .length = page, .access = access}});

		Child child(config_of(1), offer);
		Node node(config_of(0));
		const bool writable = access & IBV_ACCESS_REMOTE_WRITE;

		ASSERT_NO_FATAL_FAILURE(connect(node, child));
		node.fill(1);
		EXPECT_EQ(one(node, told().regions[0], IBV_WR_RDMA_WRITE, 0, 8,
			      writable ? page - 4 : 0),
			  IBV_WC_REM_ACCESS_ERR);
		for (size_t i = 0; i < 2 * page; i += 8)
			ASSERT_EQ(memory.word(i), 0u);
	}

	/* A queue pair whose max_dest_rd_atomic is 0. */
	for (const bool reads : {false, true}) {
		const SharedBytes memory;
		Told &all = *new (&told()) Told();

		parts(memory, {{.offset = 0, .length = page, .access = all_access}});

		Child child(config_of(1), offer_without_answers);
		Node node(config_of(0)), first(config_of(0));

		first.connect(child.address());
		child.connect(first.address());
		ASSERT_TRUE(await([&] { return all.has_second.load(); }));
		node.connect(all.qp, 14);
		all.peer = node.address();
		all.has_peer = true;
		ASSERT_TRUE(await([&] { return all.registered.load(); }));

		const Address &to = all.regions[0];

		ASSERT_TRUE(await([&] {
			return one(node, to, IBV_WR_RDMA_WRITE, 0, 8, 8) != IBV_WC_SUCCESS ||
			       count(node) > 0;
		}));
		ASSERT_GT(count(node), 0u);
		EXPECT_EQ(reads ? one(node, to, IBV_WR_RDMA_READ, 0, 8, 0) : add(node, to, 0, 1),
			  IBV_WC_REM_INV_REQ_ERR);
		EXPECT_EQ(memory.word(0), 0u);
	}
}

TEST_F(TwinMapped, LeavesAtomicsThatAreNotAlignedToTheTarget)
{
	const SharedBytes memory;

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer);
	Node node(config_of(0));

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	EXPECT_EQ(add(node, told().regions[0], 4, 1), IBV_WC_REM_INV_REQ_ERR);
}

/* A file that can shrink is not mapped. When it does the kernel tells the initiator, who gets no signal. */
TEST_F(TwinMapped, SurvivesAFileThatIsCutShort)
{
	const SharedBytes memory(false);

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer);
	Node node(config_of(0));
	const Address &to = told().regions[0];
	const u64 before = count(node);

	node.connect(child.address(), 14, 2);
	child.connect(node.address());
	ASSERT_TRUE(await([&] { return told().registered.load(); }));
	ASSERT_TRUE(await([&] {
		return one(node, to, IBV_WR_RDMA_WRITE, 0, 8, 0) != IBV_WC_SUCCESS ||
		       count(node) > before;
	}));

	const u64 executed = count(node);

	EXPECT_GT(executed, before);
	ASSERT_EQ(add(node, to, 0, 1), IBV_WC_SUCCESS);
	EXPECT_EQ(count(node), executed) << "it was mapped";
	EXPECT_FALSE(maps_the_file());
	stop(child.pid());
	ASSERT_EQ(ftruncate(memory.fd(), 0), 0);
	EXPECT_EQ(one(node, to, IBV_WR_RDMA_WRITE, 0, 8, 0), IBV_WC_RETRY_EXC_ERR);
}

/* No byte changes after ibv_dereg_mr() has returned, and the initiator unmaps the region. */
TEST_F(TwinMapped, EndsWithTheRegion)
{
	std::mt19937 random(11);

	for (unsigned round = 0; round < 40 && !HasFailure(); ++round) {
		const SharedBytes memory;
		Told &all = *new (&told()) Told();
		const uint32_t length = round % 2 ? 8 : page;

		parts(memory, {{.offset = page, .length = 32 * page, .access = all_access}});

		Child child(config_of(1), offer_for_a_while);
		Node node(config_of(0));
		ibv_wc_status status = IBV_WC_SUCCESS;

		ASSERT_NO_FATAL_FAILURE(connect(node, child));
		EXPECT_TRUE(maps_the_file());

		const auto tell = Clock::now() + std::chrono::microseconds(random() % 3000);
		const auto end = Clock::now() + std::chrono::seconds(60);

		for (unsigned i = 0; status == IBV_WC_SUCCESS && Clock::now() < end; ++i) {
			all.deregister = Clock::now() > tell;
			memset(node.buffer.data(), static_cast<int>(i), page);
			status = one(node, all.regions[0], IBV_WR_RDMA_WRITE, 0, length,
				     i % 30 * page);
		}
		EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(status);
		ASSERT_TRUE(await([&] { return all.deregistered.load(); }));
		all.check = true;
		ASSERT_TRUE(await([&] { return all.wrong >= 0; }));
		EXPECT_EQ(all.wrong, 0) << "bytes written after the call had returned";
		EXPECT_TRUE(await([] { return !maps_the_file(); })) << "it is mapped for good";
	}
}

TEST_F(TwinMapped, EndsWithTheTarget)
{
	const SharedBytes memory;

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer);
	Node node(config_of(0));
	ibv_wc_status status = IBV_WC_SUCCESS;

	ASSERT_NO_FATAL_FAILURE(connect(node, child, 14, 2));
	child.kill();
	/* Until the end of the connection is known, its memory is written to. */
	for (const auto end = Clock::now() + std::chrono::seconds(30);
	     status == IBV_WC_SUCCESS && Clock::now() < end;)
		status = one(node, told().regions[0], IBV_WR_RDMA_WRITE, 0, 8, 0);
	EXPECT_EQ(status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(status);
	EXPECT_TRUE(await([] { return !maps_the_file(); }));
}

/* A child that is forked has none of the mappings. */
TEST_F(TwinMapped, IsNotInherited)
{
	const SharedBytes memory;

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer);
	Node node(config_of(0));
	int status = 0;

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	ASSERT_TRUE(maps_the_file());

	/* As fork() does, without the handlers of sanitizers. */
	const SleepingChild forked;
	const std::string path = "/proc/" + std::to_string(forked.pid()) + "/maps";
	std::ifstream maps(path);
	std::string line;

	while (std::getline(maps, line))
		status += line.find(file_name) != std::string::npos;
	EXPECT_EQ(status, 1);
	EXPECT_EQ(add(node, told().regions[0], 0, 1), IBV_WC_SUCCESS);
}

/*
 * An initiator by its mapping, the responder of the target by packets, and a processor add to one word: what
 * they add is what is there.
 */
TEST_F(TwinMapped, SumsTheAtomicsOfAll)
{
	constexpr uint64_t count_of_each = 4000;
	const SharedBytes memory;

	parts(memory, {{.offset = 0, .length = page, .access = all_access}});

	Child child(config_of(1), offer_and_add);
	Node node(config_of(0)), other(at(own_address(0), LinkKind::shm));

	node.connect(child.address(), 14);
	child.connect(node.address());
	ASSERT_TRUE(await([&] { return told().has_second.load(); }));
	other.connect(told().qp, 14);
	told().peer = other.address();
	told().has_peer = true;
	ASSERT_TRUE(await([&] { return told().registered.load(); }));

	const Address to = told().regions[0];

	while (count(node) == 0)
		ASSERT_EQ(add(node, to, 0, 0), IBV_WC_SUCCESS);
	told().work = true;

	/* Its device sends packets only. */
	std::thread thread([&] {
		for (uint64_t i = 0; i < count_of_each && !HasFailure(); i += 4) {
			for (int n = 0; n < 4; ++n)
				ASSERT_EQ(other.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, to, 0,
							    1000003),
					  0);
			for (int n = 0; n < 4; ++n)
				ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
		}
	});
	const u64 before = count(node);
	uint64_t n = 0;

	for (; (n < count_of_each || !told().done) && !HasFailure(); ++n)
		ASSERT_EQ(add(node, to, 0, 1ull << 40), IBV_WC_SUCCESS);
	thread.join();
	EXPECT_GE(count(node) - before, n / 2);
	EXPECT_EQ(memory.word(0), (n << 40) + count_of_each * 1000003 + told().done);
	EXPECT_GE(other.device->nic->stat(SIRDMA_STAT_TX_PKTS), count_of_each);
}

/* An initiator is stopped or killed in the middle: the target's call returns, and nothing changes after. */
TEST_F(TwinMapped, DoesNotHoldUpATargetWhoseInitiatorIsStoppedOrKilled)
{
	std::mt19937 random(13);

	for (unsigned round = 0; round < 40 && !HasFailure(); ++round) {
		const bool kills = round % 2;
		const SharedBytes memory;
		Told &all = *new (&told()) Told();
		Child child(config_of(1), keep_writing);
		Node node(config_of(0));
		ibv_mr *const mr = ibv_reg_mr(node.pd, memory.at() + page, page, all_access);

		ASSERT_TRUE(mr);
		all.regions[0].buffer = reinterpret_cast<uintptr_t>(memory.at() + page);
		all.regions[0].rkey = mr->rkey;
		all.registered = true;
		node.connect(child.address(), 14);
		/* It begins its work when it is connected. */
		child.connect(node.address());
		ASSERT_TRUE(await([&] { return all.done > 20; }));
		usleep(random() % 300);
		if (kills)
			child.kill();
		else
			stop(child.pid());

		const auto start = Clock::now();

		ASSERT_EQ(ibv_dereg_mr(mr), 0);
		EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));

		const std::vector<uint8_t> then(memory.at(), memory.at() + bytes);

		if (!kills) {
			EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
			/* It goes on, until the target refuses a request. */
			EXPECT_TRUE(await([&] { return all.deregistered.load(); }));
		}
		EXPECT_EQ(memcmp(then.data(), memory.at(), bytes), 0) << "round " << round;
	}
}

} // namespace sirdma::twin::test
