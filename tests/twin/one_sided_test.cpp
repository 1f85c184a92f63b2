/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A target that makes no verbs call while peers write, read and change its memory: it sleeps or
 * computes. It deregisters the memory meanwhile, registers it again, or is killed. The latencies are
 * printed, for tests/accept/one-sided.
 */
#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "child.hpp"
#include "peer_memory.hpp"

namespace sirdma::twin::test
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr size_t size = Node::buffer_size;
constexpr size_t half = size / 2;
constexpr unsigned rounds = 10; /* with a target of their own each */

u64 count_of(const Node &node)
{
	return node.device->nic->stat(SIRDMA_STAT_ONE_SIDED);
}

/* Memory of the target and of its peers; the target makes no verbs call to see it. */
struct Shared {
	std::atomic<bool> deregister{false}; /* the target shall do so */
	std::atomic<bool> deregistered{false}; /* it has */
	std::atomic<bool> registered{false}; /* again; the members below tell how */
	std::atomic<bool> check{false}; /* nobody sends to it any more */
	std::atomic<int> wrong{-1}; /* bytes that changed since it had deregistered its memory */
	Address more[2]; /* of queue pairs of its own, and the new key */
	Address peers[2];
	std::atomic<unsigned> told{0}; /* how many of @peers are valid */
	std::atomic<unsigned> connected{0}; /* queue pairs of @more */
	std::atomic<bool> writable{
		false}; /* memory mapped for reading could be registered for writing */
};

Shared &shared()
{
	static const WithChildren<Shared> common;

	return *common;
}

template <typename Ready> bool await(Ready ready)
{
	const auto end = Clock::now() + std::chrono::seconds(30);

	while (!ready()) {
		if (Clock::now() > end)
			return false;
		usleep(50);
	}
	return true;
}

/* Targets */

[[noreturn]] void sleep_for_good(Node &, const Address &)
{
	for (;;)
		pause();
}

[[noreturn]] void compute(Node &, const Address &)
{
	for (uint64_t n = 0;; n = n * 5 + 1)
		asm volatile("" : "+r"(n));
}

/* Connect as many more queue pairs as shared() has peers. */
void connect_more(Node &node)
{
	Shared &all = shared();

	for (unsigned i = 0; i < std::size(all.more); ++i) {
		ibv_qp *const first = node.qp;

		node.qp = node.create_qp();
		all.more[i] = node.address();
		all.connected = i + 1;
		if (!await([&] { return all.told > i; }))
			_exit(1);
		node.connect(all.peers[i]);
		node.qp = first;
	}
	all.connected = 3;
}

/* When told to, end the access of the peers to the buffer by @end; then tell what has changed in it since. */
template <typename End> void end_access(const Node &node, End end)
{
	Shared &all = shared();

	if (!await([&] { return all.deregister.load(); }) || end())
		_exit(1);

	const std::vector<uint8_t> then = node.buffer;
	int wrong = 0;

	all.deregistered = true;
	if (!await([&] { return all.check.load(); }))
		_exit(1);
	for (size_t i = 0; i < size; ++i)
		wrong += then[i] != node.buffer[i];
	all.wrong = wrong;
}

[[noreturn]] void deregister_and_sleep(Node &node, const Address &to)
{
	end_access(node, [&] { return ibv_dereg_mr(node.mr); });
	sleep_for_good(node, to);
}

[[noreturn]] void fail_and_sleep(Node &node, const Address &to)
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_ERR;
	end_access(node, [&] { return ibv_modify_qp(node.qp, &attr, IBV_QP_STATE); });
	sleep_for_good(node, to);
}

/* Register a page that is mapped for reading; tell what has changed in it. */
[[noreturn]] void offer_a_page_to_read(Node &node, const Address &to)
{
	constexpr size_t bytes = 4096;
	constexpr int populate_read = 22; /* MADV_POPULATE_READ */
	Shared &all = shared();
	void *const page =
		mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(page, 77, bytes);
	if (mprotect(page, bytes, PROT_READ))
		_exit(1);

	ibv_mr *const mr = ibv_reg_mr(node.pd, page, bytes, IBV_ACCESS_REMOTE_READ);
	const ibv_mr *const writable =
		ibv_reg_mr(node.pd, page, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (!mr)
		_exit(1);
	/* Before Linux 5.14 it cannot be found out. */
	all.writable = writable && !madvise(page, bytes, populate_read);
	all.more[0].buffer = reinterpret_cast<uintptr_t>(page);
	all.more[0].rkey = mr->rkey;
	all.registered = true;
	if (!await([&] { return all.check.load(); }))
		_exit(1);

	const auto *const data = static_cast<const uint8_t *>(page);

	all.wrong = static_cast<int>(
		bytes - static_cast<size_t>(std::count(data, data + bytes, uint8_t{77})));
	sleep_for_good(node, to);
}

[[noreturn]] void sleep_with_more_peers(Node &node, const Address &to)
{
	connect_more(node);
	sleep_for_good(node, to);
}

/* Deregister the buffer, and register it anew. */
[[noreturn]] void deregister(Node &node, const Address &to)
{
	Shared &all = shared();

	end_access(node, [&] { return ibv_dereg_mr(node.mr); });
	node.mr = node.register_buffer();
	if (!node.mr)
		_exit(1);
	all.registered = true;
	connect_more(node);
	sleep_for_good(node, to);
}

/* Peers */

struct Latency {
	std::vector<double> us;

	void print(const char *what, const char *link, const char *target)
	{
		std::sort(us.begin(), us.end());
		printf("latency %s %s %s: median %.1f us, 99 %% %.1f us, most %.1f us\n", link,
		       target, what, us[us.size() / 2], us[us.size() * 99 / 100], us.back());
	}
};

/* The request that @post posts, until its completion. */
template <typename Post> void timed(Node &node, Latency &latency, Post post)
{
	const auto start = Clock::now();

	ASSERT_EQ(post(), 0);
	ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
	latency.us.push_back(std::chrono::duration<double>(Clock::now() - start).count() * 1e6);
}

uint64_t word_at(const Node &node, size_t offset)
{
	uint64_t word;

	memcpy(&word, node.buffer.data() + offset, sizeof(word));
	return word;
}

} // namespace

Config one_sided_at(unsigned number, LinkKind link)
{
	Config config = at(own_address(number), link);

	config.one_sided = true;
	return config;
}

class TwinOneSided : public ::testing::TestWithParam<LinkKind> {
protected:
	void SetUp() override { new (&shared()) Shared(); }

	static const char *link() { return GetParam() == LinkKind::udp ? "udp" : "shm"; }
	static Config near() { return one_sided_at(0, GetParam()); }
	static Config far() { return one_sided_at(1, GetParam()); }

	/* Connect @node to a queue pair that the target made by connect_more(). */
	static void join(Node &node, unsigned index)
	{
		Shared &all = shared();

		ASSERT_TRUE(await([&] { return all.connected > index; }));
		node.connect(all.more[index], 14);
		all.peers[index] = node.address();
		all.told = index + 1;
		ASSERT_TRUE(await([&] { return all.connected > index + 1; }));
	}

	/* All kinds of requests to a target that does @work, with their data. */
	void request(Child::Work work, const char *target)
	{
		static constexpr uint32_t sizes[] = {1, 8, 4096, 65536, 300000};
		Child child(far(), work);
		Node node(near());
		const Address to = child.address();
		Latency write, read, add, swap;
		uint64_t expected;

		node.connect(to, 14);
		child.connect(node.address());
		for (unsigned i = 0; i < 100 && !HasFailure(); ++i) {
			const uint32_t length = sizes[i % std::size(sizes)];

			node.fill(static_cast<uint8_t>(i));
			ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, length, &to, 4096), 0);
			ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
			ASSERT_EQ(node.post(IBV_WR_RDMA_READ, half, length, &to, 4096), 0);
			ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
			ASSERT_EQ(memcmp(node.buffer.data(), node.buffer.data() + half, length), 0)
				<< length << " bytes";
		}
		memset(node.buffer.data(), 0, 64);
		ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 8, &to), 0);
		ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
		expected = 0;
		for (uint64_t i = 0; i < 300 && !HasFailure(); ++i) {
			/* Long enough for the helpers to fall asleep. */
			usleep(1000);
			memcpy(node.buffer.data() + 128, &i, sizeof(i));
			timed(node, write,
			      [&] { return node.post(IBV_WR_RDMA_WRITE, 128, 8, &to, 64); });
			timed(node, read,
			      [&] { return node.post(IBV_WR_RDMA_READ, 192, 8, &to, 64); });
			EXPECT_EQ(word_at(node, 128), word_at(node, 192));
			timed(node, add, [&] {
				return node.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, to, 0, i);
			});
			EXPECT_EQ(word_at(node, 0), expected);
			expected += i;
			timed(node, swap, [&] {
				return node.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, to, 0,
							expected, expected + 7);
			});
			EXPECT_EQ(word_at(node, 0), expected);
			expected += 7;
		}
		if (HasFailure())
			return;
		write.print("WRITE 8 B", link(), target);
		read.print("READ 8 B", link(), target);
		add.print("FETCH_AND_ADD", link(), target);
		swap.print("CMP_AND_SWP", link(), target);
		/*
		 * A helper of the target has to be woken and to run; a machine on which this takes as
		 * long as an acknowledgement timeout (67 ms) has other problems.
		 */
		for (const Latency *latency : {&write, &read, &add, &swap})
			EXPECT_LT(latency->us[latency->us.size() / 2], 67000);
	}
};

INSTANTIATE_TEST_SUITE_P(All, TwinOneSided, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinOneSided, ReachATargetThatSleeps)
{
	request(sleep_for_good, "sleeping");
}

TEST_P(TwinOneSided, ReachATargetThatComputes)
{
	request(compute, "computing");
}

/*
 * The region goes away while requests of all lengths are under way: they end with an access error,
 * and no byte changes after ibv_dereg_mr() has returned. The same memory is then registered anew: the
 * new key reaches it, and the old one does not.
 */
TEST_P(TwinOneSided, EndAtARegionThatIsDeregistered)
{
	static constexpr uint32_t lengths[] = {64, 60000, 8, 400000, 4096};
	std::mt19937 random(7);

	for (unsigned round = 0; round < rounds && !HasFailure(); ++round) {
		const bool reads = round % 4 == 3;
		Shared &all = *new (&shared()) Shared();
		Child child(far(), deregister);
		Node node(near());
		const Address to = child.address();
		const auto start = Clock::now();
		const auto delay = std::chrono::microseconds(random() % 20000);
		ibv_wc_status status = IBV_WC_SUCCESS;
		unsigned posted = 0, flying = 0;

		node.connect(to, 14);
		child.connect(node.address());
		while (status == IBV_WC_SUCCESS) {
			all.deregister = Clock::now() - start > delay;
			for (; flying < 8; ++flying, ++posted) {
				/* What comes too late is seen: each message has other bytes. */
				memset(node.buffer.data(), static_cast<int>(posted), 256);
				ASSERT_EQ(node.post(reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
						    posted % 128,
						    lengths[posted % std::size(lengths)], &to,
						    posted % 100000),
					  0);
			}
			status = node.poll(std::chrono::seconds(60)).status;
			--flying;
			ASSERT_LT(Clock::now() - start, std::chrono::seconds(60));
		}
		EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(status);
		for (; flying; --flying)
			EXPECT_EQ(node.poll().status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_TRUE(await([&] { return all.deregistered.load(); }));
		all.check = true;
		ASSERT_TRUE(await([&] { return all.registered.load(); }));
		EXPECT_EQ(all.wrong, 0) << "bytes written after ibv_dereg_mr()";

		Node fresh(near()), stale(near());

		join(fresh, 0);
		join(stale, 1);
		EXPECT_EQ(all.more[0].buffer, to.buffer);
		EXPECT_NE(all.more[0].rkey, to.rkey);
		write_and_read(fresh, all.more[0]);
		ASSERT_EQ(stale.post(IBV_WR_RDMA_WRITE, 500000, 70000, &to), 0);
		EXPECT_EQ(stale.poll().status, IBV_WC_REM_ACCESS_ERR) << "the key of before";
		ASSERT_EQ(fresh.post(IBV_WR_RDMA_READ, 400000, 100000, &all.more[0]), 0);
		EXPECT_EQ(fresh.poll().status, IBV_WC_SUCCESS);
		EXPECT_EQ(memcmp(fresh.buffer.data(), fresh.buffer.data() + 400000, 100000), 0);
	}
}

/* The requests of a peer whose target is killed end in bounded time. */
TEST_P(TwinOneSided, EndAtATargetThatIsKilled)
{
	for (const Child::Work work : {sleep_for_good, compute}) {
		Child child(far(), work);
		Node node(near());
		const Address to = child.address();
		ibv_wc_status status = IBV_WC_SUCCESS;
		unsigned posted = 0, flying = 0;

		/* 16 ms, and four tries. */
		node.connect(to, 12, 3);
		child.connect(node.address());
		while (status == IBV_WC_SUCCESS) {
			if (posted == 400)
				child.kill();
			for (; flying < 4; ++flying, ++posted)
				ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, posted % 2 ? 8 : 200000,
						    &to),
					  0);
			status = node.poll(std::chrono::seconds(10)).status;
			--flying;
		}
		EXPECT_EQ(status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(status);
		for (; flying; --flying)
			EXPECT_EQ(node.poll().status, IBV_WC_WR_FLUSH_ERR);
	}
}

/* Two initiators change the same words at a time, by both atomics; what they add is what is there. */
TEST_P(TwinOneSided, SumTheAtomicsOfTwoInitiators)
{
	constexpr uint64_t count = 1500;
	Child child(far(), sleep_with_more_peers);
	Node first(near()), other(near()), observer(near());
	std::atomic<uint64_t> added{0}, swapped{0};

	observer.connect(child.address(), 14);
	child.connect(observer.address());
	join(first, 0);
	join(other, 1);

	const Address to = child.address();

	memset(observer.buffer.data(), 0, 16);
	ASSERT_EQ(observer.post(IBV_WR_RDMA_WRITE, 0, 16, &to), 0);
	ASSERT_EQ(observer.poll().status, IBV_WC_SUCCESS);

	const auto work = [&](Node &node, uint64_t seed) {
		uint64_t seen = 0;

		for (uint64_t i = 1; i <= count && !HasFailure(); ++i) {
			ASSERT_EQ(node.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, to, 0, i * seed),
				  0);
			ASSERT_EQ(node.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 8, to, 8, seen,
						   seen + seed),
				  0);
			ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
			ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
			added += i * seed;
			if (word_at(node, 8) == seen) {
				swapped += seed;
				seen += seed;
			} else {
				seen = word_at(node, 8);
			}
		}
	};
	std::thread thread(work, std::ref(other), 1000003);

	work(first, 3);
	thread.join();
	ASSERT_EQ(observer.post(IBV_WR_RDMA_READ, 64, 16, &to), 0);
	ASSERT_EQ(observer.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(word_at(observer, 64), added);
	EXPECT_EQ(word_at(observer, 72), swapped);
	EXPECT_GT(swapped, 0u);
}

/*
 * Over shared memory the initiator executes short WRITEs and READs itself (one_sided.hpp), if it may open
 * the target's memory.
 */
class TwinAccess : public GuardedCopies {
protected:
	void SetUp() override
	{
		const SleepingChild child;

		GuardedCopies::SetUp();
		new (&shared()) Shared();
		if (!open_memory_of(child.pid()))
			GTEST_SKIP() << "this process may not open the memory of another";
	}

	static Config near() { return one_sided_at(0, LinkKind::shm); }
	static Config far() { return one_sided_at(1, LinkKind::shm); }

	static u64 count(const Node &node) { return count_of(node); }

	/* A request of @length bytes, alone. */
	static ibv_wc_status one(Node &node, const Address &to, ibv_wr_opcode opcode, size_t offset,
				 uint32_t length, size_t remote_offset)
	{
		EXPECT_EQ(node.post(opcode, offset, length, &to, remote_offset), 0);
		return node.poll().status;
	}

	/* Connect, and write until the device executes requests by itself. */
	static void connect(Node &node, Child &child, uint8_t timeout = 14, uint8_t retries = 7)
	{
		const Address to = child.address();
		const u64 before = count(node);

		node.connect(to, timeout, retries);
		child.connect(node.address());
		ASSERT_TRUE(await([&] {
			return one(node, to, IBV_WR_RDMA_WRITE, 0, 8, 0) != IBV_WC_SUCCESS ||
			       count(node) > before;
		}));
		ASSERT_GT(count(node), before);
	}
};

/* A target that is stopped executes nothing. */
TEST_F(TwinAccess, NeedsNoThreadOfTheTarget)
{
	Child child(far(), sleep_for_good);
	Node node(near());
	const Address to = child.address();

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	stop(child.pid());

	const u64 before = count(node);
	u64 executed = 0;

	for (const uint32_t length : {1u, 7u, 8u, 64u, 1000u, 4096u}) {
		node.fill(static_cast<uint8_t>(length));
		ASSERT_EQ(one(node, to, IBV_WR_RDMA_WRITE, 3, length, 4000), IBV_WC_SUCCESS);
		ASSERT_EQ(one(node, to, IBV_WR_RDMA_READ, half, length, 4000), IBV_WC_SUCCESS);
		EXPECT_EQ(memcmp(node.buffer.data() + 3, node.buffer.data() + half, length), 0);
		executed += 2;
	}
	EXPECT_EQ(count(node) - before, executed);
	EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
	/* The connection goes on as usual, and in order. */
	write_and_read(node, to);
}

/* Two fragments, inline data, and requests without a completion. */
TEST_F(TwinAccess, TakesAllFormsOfRequests)
{
	Child child(far(), sleep_for_good);
	Node node(near());
	const Address to = child.address();
	ibv_sge sges[2];
	ibv_send_wr wr{}, *bad;

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	stop(child.pid());
	node.fill(9);
	for (int i = 0; i < 2; ++i)
		sges[i] = {.addr = reinterpret_cast<uintptr_t>(node.buffer.data() + 1000 * i),
			   .length = 100,
			   .lkey = node.mr->lkey};
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.sg_list = sges;
	wr.num_sge = 2;
	wr.wr.rdma = {.remote_addr = to.buffer + 100, .rkey = to.rkey};
	ASSERT_EQ(ibv_post_send(node.qp, &wr, &bad), 0);

	const ibv_wc wc = node.poll();

	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
	EXPECT_EQ(wc.qp_num, node.qp->qp_num);
	wr.opcode = IBV_WR_RDMA_READ;
	for (int i = 0; i < 2; ++i)
		sges[i].addr += half;
	ASSERT_EQ(ibv_post_send(node.qp, &wr, &bad), 0);
	EXPECT_EQ(node.poll().opcode, IBV_WC_RDMA_READ);
	for (int i = 0; i < 2; ++i)
		EXPECT_EQ(memcmp(node.buffer.data() + 1000 * i,
				 node.buffer.data() + half + 1000 * i, 100),
			  0);

	uint8_t bytes[33];

	memset(bytes, 77, sizeof(bytes));
	sges[0] = {.addr = reinterpret_cast<uintptr_t>(bytes), .length = sizeof(bytes), .lkey = 0};
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE | IBV_SEND_FENCE;
	ASSERT_EQ(ibv_post_send(node.qp, &wr, &bad), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_SUCCESS);
	ASSERT_EQ(one(node, to, IBV_WR_RDMA_READ, half, sizeof(bytes), 100), IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(node.buffer.data() + half, bytes, sizeof(bytes)), 0);
	EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
}

/* The peer refuses what it would refuse as a packet, and fails as then. */
TEST_F(TwinAccess, LeavesRefusalsToTheTarget)
{
	for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		Child child(far(), sleep_for_good);
		Node node(near());
		const Address to = child.address();

		ASSERT_NO_FATAL_FAILURE(connect(node, child));
		EXPECT_EQ(one(node, to, opcode, 0, 8, size - 4), IBV_WC_REM_ACCESS_ERR);
	}
}

/* /proc/PID/mem would let this process write there. */
TEST_F(TwinAccess, NeverWritesMemoryThatIsForReading)
{
	Child child(far(), offer_a_page_to_read);
	Node node(near());
	Shared &all = shared();

	ASSERT_NO_FATAL_FAILURE(connect(node, child));
	ASSERT_TRUE(await([&] { return all.registered.load(); }));
	EXPECT_FALSE(all.writable);

	const Address page = all.more[0];
	const u64 before = count(node);

	stop(child.pid());
	ASSERT_EQ(one(node, page, IBV_WR_RDMA_READ, half, 4096, 0), IBV_WC_SUCCESS);
	EXPECT_EQ(count(node), before + 1);
	EXPECT_EQ(node.buffer[half], 77);
	node.fill(1);
	ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 4096, &page), 0);
	EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(count(node), before + 1);
	all.check = true;
	ASSERT_TRUE(await([&] { return all.wrong >= 0; }));
	EXPECT_EQ(all.wrong, 0);
}

/* Single requests, so that nearly all are executed by the initiator. */
TEST_F(TwinAccess, EndsWithTheRegionOrTheQueuePair)
{
	std::mt19937 random(11);

	for (unsigned round = 0; round < 60 && !HasFailure(); ++round) {
		const bool deregisters = round % 2;
		Shared &all = *new (&shared()) Shared();
		Child child(far(), deregisters ? deregister_and_sleep : fail_and_sleep);
		Node node(near());
		const Address to = child.address();
		ibv_wc_status status = IBV_WC_SUCCESS;
		unsigned late = 0;

		/* 17 ms, and two tries: a queue pair in ERR does not answer. */
		ASSERT_NO_FATAL_FAILURE(connect(node, child, 12, 1));

		const auto tell = Clock::now() + std::chrono::microseconds(random() % 3000);
		const auto end = Clock::now() + std::chrono::seconds(30);

		for (unsigned i = 0; status == IBV_WC_SUCCESS && Clock::now() < end; ++i) {
			all.deregister = Clock::now() > tell;
			late += all.deregistered;
			memset(node.buffer.data(), static_cast<int>(i), 64);
			status = one(node, to, IBV_WR_RDMA_WRITE, 0, 64, i % 1000 * 64);
		}
		EXPECT_EQ(status, deregisters ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR)
			<< ibv_wc_status_str(status);
		/* A write that began before may have been counted, and the one that failed. */
		EXPECT_LE(late, 2u);
		ASSERT_TRUE(await([&] { return all.deregistered.load(); }));
		all.check = true;
		ASSERT_TRUE(await([&] { return all.wrong >= 0; }));
		EXPECT_EQ(all.wrong, 0) << "bytes written after the call had returned";
	}
}

namespace
{

/* Write to the peer without end; a request that fails ends it. */
[[noreturn]] void keep_writing(Node &node, const Address &to)
{
	for (unsigned i = 0;; ++i) {
		memset(node.buffer.data(), static_cast<int>(i), 64);
		if (node.post(IBV_WR_RDMA_WRITE, 0, 64, &to, i % 1000 * 64) ||
		    node.poll().status != IBV_WC_SUCCESS)
			break;
		shared().connected = static_cast<unsigned>(count_of(node));
	}
	shared().deregistered = true;
	for (;;)
		pause();
}

} // namespace

/* An initiator is stopped or killed in the middle: the target's call returns, and nothing changes after. */
TEST_F(TwinAccess, DoesNotHoldUpATargetWhoseInitiatorIsStoppedOrKilled)
{
	std::mt19937 random(13);

	for (unsigned round = 0; round < 60 && !HasFailure(); ++round) {
		const bool kills = round % 2;
		Shared &all = *new (&shared()) Shared();
		Child child(far(), keep_writing);
		Node node(near());

		node.connect(child.address(), 14);
		child.connect(node.address());
		if (!await([&] { return all.connected > 20; }))
			GTEST_SKIP() << "this process may not open the memory of another";
		usleep(random() % 300);
		if (kills)
			child.kill();
		else
			stop(child.pid());

		const auto start = Clock::now();

		ASSERT_EQ(ibv_dereg_mr(node.mr), 0);
		EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));

		const std::vector<uint8_t> then = node.buffer;

		if (!kills) {
			EXPECT_EQ(kill(child.pid(), SIGCONT), 0);
			/* It goes on, until the target refuses a request. */
			EXPECT_TRUE(await([&] { return all.deregistered.load(); }));
		}
		EXPECT_EQ(memcmp(then.data(), node.buffer.data(), size), 0) << "round " << round;
		node.mr = node.register_buffer();
		ASSERT_TRUE(node.mr);
	}
}

} // namespace sirdma::twin::test
