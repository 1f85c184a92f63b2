// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Registrations that come and go: under threads, under traffic, across fork().
#include "fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace verbs
{
namespace
{

constexpr size_t page = 4096;

class RegChurn : public VerbsTest {};

// What several threads found out; gtest's own checks are for the main thread.
class Complaints {
public:
	void add(const std::string &text)
	{
		const std::lock_guard lock(mutex_);
		if (first_.empty())
			first_ = text;
	}
	bool any() const
	{
		const std::lock_guard lock(mutex_);
		return !first_.empty();
	}
	std::string first() const
	{
		const std::lock_guard lock(mutex_);
		return first_;
	}

private:
	mutable std::mutex mutex_;
	std::string first_;
};

// Writes through the key and looks; "" when right.
std::string prove_key(const Pair &pair, const Region &scratch, const ibv_mr *mr, uint64_t seed)
{
	const auto length = static_cast<uint32_t>(std::min<size_t>(mr->length, 3000));
	fill_pattern(scratch.bytes(0, length), seed);
	if (int rc = post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				   .sges = {scratch.sge(0, length)},
				   .remote_addr = reinterpret_cast<uint64_t>(mr->addr),
				   .rkey = mr->rkey}))
		return "post: " + std::string(std::strerror(rc));
	const std::optional<ibv_wc> wc = await(pair.a.scq);
	if (!wc || wc->status != IBV_WC_SUCCESS)
		return wc ? ibv_wc_status_str(wc->status) : "no completion";
	return find_mismatch({static_cast<std::byte *>(mr->addr), length}, seed) ? "wrong data" :
										   "";
}

TEST_F(RegChurn, TenThousandInThreads)
{
	constexpr int threads = 4, each = 2500;
	constexpr size_t room = 1 << 20;
	const Pd pd(ibv_alloc_pd(peer().context.get()));
	ASSERT_TRUE(pd);
	Complaints complaints;
	std::vector<Pair> pairs;
	std::vector<Region> scratch;
	std::vector<std::thread> pool;

	for (int t = 0; t < threads; t++) {
		pairs.push_back(make_pair({}, {.shared_pd = pd.get()}, default_link()));
		scratch.push_back(make_region(pairs.back().a.pd, 3000));
	}
	for (int t = 0; t < threads; t++)
		pool.emplace_back([&, t] {
			Random random(seed() + t);
			const Mapping memory = Mapping::anonymous(room);
			std::deque<Mr> live;
			for (int i = 0; i < each && !complaints.any(); i++) {
				const size_t length =
					1 + random.below(random.below(8) ? 16 * page : room);
				const size_t offset = random.below(room - length + 1);
				live.emplace_back(ibv_reg_mr(pd.get(), memory.data() + offset,
							     length, all_access));
				if (!live.back()) {
					complaints.add("ibv_reg_mr: " +
						       std::string(std::strerror(errno)));
					return;
				}
				if (i % 25 == 0) {
					const std::string wrong =
						prove_key(pairs[t], scratch[t],
							  live[random.below(live.size())].get(),
							  random.next());
					if (!wrong.empty())
						complaints.add(wrong);
				}
				if (live.size() > 16)
					live.erase(live.begin() +
						   static_cast<long>(random.below(live.size())));
			}
		});
	for (std::thread &thread : pool)
		thread.join();
	EXPECT_EQ(complaints.first(), "") << "seed " << options().seed;
}

TEST_F(RegChurn, KeysOfLiveRegionsAreUnique)
{
	const Pd pd(ibv_alloc_pd(device().context.get()));
	const Mapping memory = Mapping::anonymous(page);
	std::vector<Mr> live;
	std::set<uint32_t> keys;

	for (int i = 0; i < 2000; i++) {
		live.emplace_back(ibv_reg_mr(pd.get(), memory.data(), page, all_access));
		ASSERT_TRUE(live.back()) << std::strerror(errno);
		EXPECT_TRUE(keys.insert(live.back()->rkey).second)
			<< "key 0x" << std::hex << live.back()->rkey;
	}
}

// A key that an application kept must not open the region that took its place.
TEST_F(RegChurn, OldKeysDoNotOpenNewRegions)
{
	const Pd pd(ibv_alloc_pd(device().context.get()));
	const Mapping memory = Mapping::anonymous(page);
	uint32_t previous = 0;
	int same = 0;

	for (int i = 0; i < 200; i++) {
		const Mr mr(ibv_reg_mr(pd.get(), memory.data(), page, all_access));
		ASSERT_TRUE(mr);
		same += mr->rkey == previous;
		previous = mr->rkey;
	}
	EXPECT_LE(same, 8) << "200 registrations in a row, a random byte in each key";
}

// Posts the same operation again and again until one does not succeed.
class Traffic {
public:
	Traffic(const Pair &pair, SendSpec spec) : thread_([this, &pair, spec] { run(pair, spec); })
	{
	}
	~Traffic() { thread_.join(); }
	Traffic(const Traffic &) = delete;
	Traffic &operator=(const Traffic &) = delete;

	uint64_t completed() const { return completed_; }
	// Nothing when the traffic stopped without a completion.
	std::optional<ibv_wc_status> outcome()
	{
		await_condition([this] { return ended_.load(); }, patience() * 2);
		return ended_ ? status_ :
				std::nullopt; // ended_ is set after the last change of status_
	}

private:
	void run(const Pair &pair, const SendSpec &spec)
	{
		constexpr int depth = 8;
		for (int i = 0; i < depth; i++)
			post(pair.a, spec);
		for (;;) {
			const std::optional<ibv_wc> wc = await(pair.a.scq);
			if (wc)
				status_ = wc->status;
			if (!wc || wc->status != IBV_WC_SUCCESS)
				break;
			completed_++;
			post(pair.a, spec);
		}
		ended_ = true;
	}

	std::atomic<uint64_t> completed_ = 0;
	std::atomic<bool> ended_ = false;
	std::optional<ibv_wc_status> status_;
	std::thread thread_; // last: it uses the others
};

// Deregistering ends access at once: what is in the memory afterwards neither changes nor leaks.
class DeregUnderTraffic : public RegChurn, public testing::WithParamInterface<ibv_wr_opcode> {};

TEST_P(DeregUnderTraffic, RemoteAccessEnds)
{
	constexpr size_t length = 1 << 20;
	constexpr uint64_t secret = 0x5ec2e7;
	const ibv_wr_opcode op = GetParam();
	// rdma_rxe says nothing when the region goes in the middle of its answer to a READ (no packet to answer to is at
	// hand in its do_complete()).
	const bool may_be_silent = op == IBV_WR_RDMA_READ && peer().is_rxe();

	for (uint64_t round = 0; round < 8 && !HasFailure(); round++) {
		SCOPED_TRACE(testing::Message() << "round " << round);
		Pair pair = make_pair({.send_wr = 64});
		const Region local = make_region(pair.a.pd, length);
		Region target = make_region(pair.b.pd, length);
		ASSERT_TRUE(local && target);
		local.fill(1);
		target.fill(2);
		Traffic traffic(pair, {.op = op,
				       .sges = {local.sge(0, length)},
				       .remote_addr = target.address(),
				       .rkey = target.mr->rkey});
		EXPECT_TRUE(await_condition([&] { return traffic.completed() >= round; }));
		ASSERT_EQ(destroy(target.mr), 0);
		target.fill(secret);
		const std::optional<ibv_wc_status> outcome = traffic.outcome();
		if (!may_be_silent || outcome != IBV_WC_RETRY_EXC_ERR) {
			ASSERT_TRUE(outcome);
			EXPECT_TRUE(ends_as(*outcome, IBV_WC_REM_ACCESS_ERR))
				<< ibv_wc_status_str(*outcome);
		}
		EXPECT_TRUE(has_pattern(target.memory.bytes(), secret)) << "written afterwards";
		for (size_t at = 0; op == IBV_WR_RDMA_READ && at < length; at += page)
			EXPECT_TRUE(find_mismatch(local.bytes(at, 64), secret, at)) << "read "
										       "afterwards";
	}
}

INSTANTIATE_TEST_SUITE_P(All, DeregUnderTraffic,
			 testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ),
			 [](const auto &info) { return op_name(info.param); });

TEST_F(RegChurn, LocalDeregistrationUnderTraffic)
{
	constexpr size_t length = 1 << 20;
	Pair pair = make_pair({.send_wr = 64});
	Region local = make_region(pair.a.pd, length);
	const Region target = make_region(pair.b.pd, length);

	ASSERT_TRUE(local && target);
	local.fill(1);
	Traffic traffic(pair, {.op = IBV_WR_RDMA_WRITE,
			       .sges = {local.sge(0, length)},
			       .remote_addr = target.address(),
			       .rkey = target.mr->rkey});
	EXPECT_TRUE(await_condition([&] { return traffic.completed() >= 3; }));
	ASSERT_EQ(destroy(local.mr), 0);
	local.fill(2);
	EXPECT_EQ(traffic.outcome(), IBV_WC_LOC_PROT_ERR);
	// What was sent before may still be on its way.
	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_ERR), 0);
	for (size_t at = 0; at < length; at += page)
		EXPECT_TRUE(find_mismatch(target.bytes(at, 64), 2, at)) << "sent afterwards";
}

// The child gets copies; the parent's registered pages stay the parent's.
TEST_F(RegChurn, ForkedChildDoesNotDisturbRegisteredMemory)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 16 * page);
	const Region remote = make_region(pair.b.pd, 16 * page);
	int gate[2];

	ASSERT_TRUE(local && remote);
	// Since Linux 5.12 a child gets copies of pinned pages at once. Before, libibverbs keeps them from it when asked to
	// at its start (RDMAV_FORK_SAFE), and without that nothing is promised.
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		GTEST_SKIP() << "this kernel needs RDMAV_FORK_SAFE=1 for fork()";
	ASSERT_EQ(pipe(gate), 0);
	local.fill(1);
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		char go = 0;
		close(gate[1]);
		while (read(gate[0], &go, 1) > 0)
			;
		_exit(0);
	}
	close(gate[0]);
	for (uint64_t i = 0; i < 10; i++) {
		local.fill(seed() + i);
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
					.sges = {local.sge(0, 16 * page)},
					.remote_addr = remote.address(),
					.rkey = remote.mr->rkey}),
			  0);
		expect_wc(pair.a.scq);
		EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed() + i));
	}
	close(gate[1]);
	int status = 0;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

} // namespace
} // namespace verbs
