// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Queues over many laps: order, wrap, full queues, unsignaled work, shared completion queues, threads.
#include "fixture.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace verbs
{
namespace
{

class Rings : public VerbsTest {};

// Polls one queue and expects the wr_ids in order.
void expect_in_order(ibv_cq *cq, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const ibv_wc wc = expect_wc(cq);
		ASSERT_EQ(wc.wr_id, first + i);
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	}
}

TEST_F(Rings, ManyLapsKeepOrderAndData)
{
	constexpr uint32_t depth = 16;
	constexpr uint32_t slot = 3000;
	Pair pair = make_pair({.send_wr = depth, .recv_wr = depth});
	const Region local = make_region(pair.a.pd, depth * slot);
	const Region remote = make_region(pair.b.pd, depth * slot);
	Random random(seed());
	std::vector<uint32_t> lengths(depth);

	ASSERT_TRUE(local && remote);
	for (uint64_t base = 0; base < 1600 && !HasFatalFailure(); base += depth) {
		for (uint32_t i = 0; i < depth; i++) {
			lengths[i] = static_cast<uint32_t>(random.below(slot + 1));
			fill_pattern(local.bytes(i * slot, lengths[i]), seed() + base + i);
			ASSERT_EQ(post_recv(pair.b, {remote.sge(i * slot, slot)}, base + i), 0);
		}
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post(pair.a, {.sges = {local.sge(i * slot, lengths[i])},
						.wr_id = base + i}),
				  0);
		expect_in_order(pair.a.scq, base, depth);
		for (uint32_t i = 0; i < depth; i++) {
			const ibv_wc wc = expect_wc(pair.b.rcq);
			ASSERT_EQ(wc.wr_id, base + i);
			ASSERT_EQ(wc.byte_len, lengths[i]);
			ASSERT_TRUE(
				has_pattern(remote.bytes(i * slot, lengths[i]), seed() + base + i));
		}
	}
}

// Memory for rings, as an application gives it by a parent domain.
struct PageAllocator {
	static void *give(ibv_pd *, void *context, size_t size, size_t alignment, uint64_t)
	{
		static_cast<PageAllocator *>(context)->buffers++;
		return std::aligned_alloc(alignment, size);
	}
	static void take(ibv_pd *, void *context, void *base, uint64_t)
	{
		static_cast<PageAllocator *>(context)->buffers--;
		std::free(base);
	}
	Pd over(ibv_pd *pd)
	{
		ibv_parent_domain_init_attr attr = {};

		attr.pd = pd;
		attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		attr.alloc = give;
		attr.free = take;
		attr.pd_context = this;
		return Pd(ibv_alloc_parent_domain(pd->context, &attr));
	}

	int buffers = 0; // that are out
};

Cq make_cq(ibv_pd *parent_domain, uint32_t cqe)
{
	ibv_cq_init_attr_ex attr = {};

	attr.cqe = cqe;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = parent_domain;
	return Cq(ibv_cq_ex_to_cq(ibv_create_cq_ex(parent_domain->context, &attr)));
}

// Messages of a page from a to b, @depth of them at a time.
void send_pages(const Pair &pair, const Region &local, const Region &remote, uint32_t depth,
		uint64_t first_seed, uint64_t laps)
{
	for (uint64_t seed = first_seed; seed < first_seed + laps; seed++) {
		local.fill(seed);
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 4096)}, i), 0);
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 4096)}, .wr_id = i}), 0);
		expect_in_order(pair.a.scq, 0, depth);
		expect_in_order(pair.b.rcq, 0, depth);
		ASSERT_TRUE(has_pattern(remote.bytes(0, 4096), seed));
	}
}

TEST_F(Rings, LieInMemoryOfTheApplication)
{
	constexpr uint32_t depth = 16, laps = 10;
	PageAllocator allocator;
	const Pd pd(ibv_alloc_pd(device().context.get()));
	ASSERT_TRUE(pd);
	const Pd parent = allocator.over(pd.get());
	if (!parent && lacks(device(), errno))
		GTEST_SKIP() << not_offered("ibv_alloc_parent_domain", errno);
	ASSERT_TRUE(parent) << std::strerror(errno);
	{
		const Cq cq = make_cq(parent.get(), 2 * depth);
		ASSERT_TRUE(cq);
		Pair pair = make_pair({.send_wr = depth,
				       .recv_wr = depth,
				       .shared_cq = cq.get(),
				       .shared_pd = parent.get()},
				      {.send_wr = depth, .recv_wr = depth}, default_link());
		EXPECT_EQ(allocator.buffers, 2);
		EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
		const Region local = make_region(pd.get(), 4096);
		const Region remote = make_region(pair.b.pd, 4096);
		ASSERT_TRUE(local && remote);
		send_pages(pair, local, remote, depth, seed(), laps);
		ASSERT_EQ(ibv_resize_cq(cq.get(), 8 * depth), 0);
		send_pages(pair, local, remote, depth, seed() + laps, laps);
	}
	EXPECT_EQ(allocator.buffers, 0);
}

// Such queues have no locks: the program promises that one thread at a time uses what is in a thread domain.
TEST_F(Rings, AreOfAThreadDomain)
{
	constexpr uint32_t depth = 16;
	const Pd pd(ibv_alloc_pd(device().context.get()));
	ASSERT_TRUE(pd);
	ibv_td_init_attr td_attr = {};
	ibv_td *td = ibv_alloc_td(device().context.get(), &td_attr);
	if (!td && lacks(device(), errno))
		GTEST_SKIP() << not_offered("ibv_alloc_td", errno);
	ASSERT_TRUE(td) << std::strerror(errno);
	{
		ibv_parent_domain_init_attr attr = {};
		attr.pd = pd.get();
		attr.td = td;
		const Pd parent(ibv_alloc_parent_domain(pd->context, &attr));
		ASSERT_TRUE(parent) << std::strerror(errno);
		const Cq cq = make_cq(parent.get(), 2 * depth);
		ASSERT_TRUE(cq);
		const Pair pair = make_pair({.send_wr = depth,
					     .recv_wr = depth,
					     .shared_cq = cq.get(),
					     .shared_pd = parent.get()},
					    {.send_wr = depth, .recv_wr = depth}, default_link());
		EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
		const Region local = make_region(pd.get(), 4096);
		const Region remote = make_region(pair.b.pd, 4096);
		ASSERT_TRUE(local && remote);
		send_pages(pair, local, remote, depth, seed(), 20);
	}
	EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// Work requests of changing shape take changing room in the ring, and meet its end at every alignment.
TEST_F(Rings, MixedShapesWrap)
{
	constexpr uint32_t depth = 20;
	Pair pair = make_pair({.send_wr = depth,
			       .recv_wr = depth,
			       .send_sge = 8,
			       .recv_sge = 4,
			       .inline_data = 96});
	const Region local = make_region(pair.a.pd, 1 << 16);
	const Region remote = make_region(pair.b.pd, 1 << 16);
	Random random(seed());

	ASSERT_TRUE(local && remote);
	for (uint64_t i = 0; i < 1000 && !HasFailure(); i++) {
		const auto pieces = 1 + static_cast<uint32_t>(random.below(8));
		const bool is_inline = random.below(2);
		const auto each = static_cast<uint32_t>(is_inline ? random.below(96 / pieces + 1) :
								    random.below(600));
		std::vector<ibv_sge> sges;
		for (uint32_t n = 0; n < pieces; n++)
			sges.push_back(local.sge(n * each, each));
		local.fill(seed() + i);
		const std::vector<ibv_sge> sinks(1, remote.sge(0, 1 << 16));
		ASSERT_EQ(post_recv(pair.b,
				    random.below(2) ?
					    sinks :
					    std::vector{remote.sge(0, 1), remote.sge(1, 65535)},
				    i),
			  0);
		ASSERT_EQ(post(pair.a,
			       {.op = random.below(2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
				.sges = sges,
				.wr_id = i,
				.flags = is_inline ? signaled | IBV_SEND_INLINE : signaled}),
			  0);
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, i);
		const ibv_wc wc = expect_wc(pair.b.rcq);
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_EQ(wc.byte_len, pieces * each);
		EXPECT_TRUE(has_pattern(remote.bytes(0, pieces * each), seed() + i));
	}
}

TEST_F(Rings, FullSendQueueGivesEnomem)
{
	Pair pair = make_pair({.send_wr = 8, .recv_wr = 4});
	uint32_t posted = 0;
	int error = 0;

	// Nothing is received, so nothing completes. Small requests may fit in greater number than was promised.
	while (posted < 100000 && (error = post(pair.a, {.wr_id = posted})) == 0)
		posted++;
	EXPECT_GE(posted, pair.a.cap.max_send_wr);
	EXPECT_EQ(error, ENOMEM);
	for (uint32_t done = 0; done < posted && !HasFailure(); done++) {
		ASSERT_EQ(post_recv(pair.b, {}), 0);
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, done);
		expect_wc(pair.b.rcq);
	}
	EXPECT_EQ(post(pair.a, {}), 0) << "a drained queue takes work again";
}

TEST_F(Rings, FullReceiveQueueGivesEnomem)
{
	Pair pair = make_pair({.send_wr = 4, .recv_wr = 8});
	uint32_t posted = 0;
	int error = 0;

	while (posted < 100000 && (error = post_recv(pair.b, {}, posted)) == 0)
		posted++;
	EXPECT_GE(posted, pair.b.cap.max_recv_wr);
	EXPECT_EQ(error, ENOMEM);
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_wc(pair.a.scq);
	EXPECT_EQ(expect_wc(pair.b.rcq).wr_id, 0u);
	EXPECT_EQ(post_recv(pair.b, {}), 0);
}

TEST_F(Rings, BadRequestInAListIsNamedAndTheOnesBeforeItRun)
{
	Pair pair = make_pair({.send_wr = 8, .recv_wr = 8, .send_sge = 1, .recv_sge = 1});
	const Region local = make_region(pair.a.pd, 64);
	ASSERT_TRUE(local);
	std::vector<ibv_sge> too_many(pair.a.cap.max_send_sge + 1, local.sge(0, 1));
	ibv_send_wr list[4] = {};
	ibv_send_wr *bad = nullptr;

	for (int i = 0; i < 4; i++) {
		list[i].wr_id = static_cast<uint64_t>(i);
		list[i].opcode = IBV_WR_SEND;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].next = i < 3 ? &list[i + 1] : nullptr;
	}
	list[2].sg_list = too_many.data();
	list[2].num_sge = static_cast<int>(too_many.size());
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	EXPECT_EQ(ibv_post_send(pair.a.qp.get(), list, &bad), EINVAL);
	EXPECT_EQ(bad, &list[2]);
	expect_in_order(pair.a.scq, 0, 2);
	expect_in_order(pair.b.rcq, 0, 0);
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_RTS);
}

TEST_F(Rings, AListOfRequestsIsOnePost)
{
	constexpr uint32_t count = 24;
	Pair pair = make_pair({.send_wr = count, .recv_wr = count});
	const Region local = make_region(pair.a.pd, count * 100);
	const Region remote = make_region(pair.b.pd, count * 100);
	ibv_send_wr sends[count] = {}, *bad_send = nullptr;
	ibv_recv_wr recvs[count] = {}, *bad_recv = nullptr;
	ibv_sge from[count], to[count];

	ASSERT_TRUE(local && remote);
	local.fill(seed());
	for (uint32_t i = 0; i < count; i++) {
		from[i] = local.sge(i * 100, 100);
		to[i] = remote.sge(i * 100, 100);
		recvs[i] = {i, i + 1 < count ? &recvs[i + 1] : nullptr, &to[i], 1};
		sends[i].wr_id = i;
		sends[i].next = i + 1 < count ? &sends[i + 1] : nullptr;
		sends[i].sg_list = &from[i];
		sends[i].num_sge = 1;
		sends[i].opcode = IBV_WR_SEND;
		sends[i].send_flags = IBV_SEND_SIGNALED;
	}
	ASSERT_EQ(ibv_post_recv(pair.b.qp.get(), recvs, &bad_recv), 0);
	ASSERT_EQ(ibv_post_send(pair.a.qp.get(), sends, &bad_send), 0);
	expect_in_order(pair.a.scq, 0, count);
	expect_in_order(pair.b.rcq, 0, count);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed()));
}

TEST_F(Rings, UnsignaledWorkLeavesNoCompletion)
{
	constexpr uint32_t depth = 16;
	Pair pair = make_pair({.send_wr = depth, .recv_wr = depth});

	for (uint64_t lap = 0; lap < 40 && !HasFailure(); lap++) {
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post_recv(pair.b, {}, i), 0);
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post(pair.a,
				       {.wr_id = i, .flags = i == depth - 1 ? signaled : 0u}),
				  0);
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, depth - 1);
		expect_in_order(pair.b.rcq, 0, depth);
		ibv_wc extra = {};
		EXPECT_EQ(ibv_poll_cq(pair.a.scq, 1, &extra), 0);
	}
}

TEST_F(Rings, SignalAllOverridesTheFlag)
{
	Pair pair = make_pair({.signal_all = true});

	for (uint64_t i = 0; i < 5; i++) {
		ASSERT_EQ(post_recv(pair.b, {}, i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i, .flags = 0}), 0);
	}
	expect_in_order(pair.a.scq, 0, 5);
	expect_in_order(pair.b.rcq, 0, 5);
}

TEST_F(Rings, SeveralQueuePairsShareACompletionQueue)
{
	constexpr int pairs = 4;
	constexpr uint64_t each = 50;
	Cq cq_a(ibv_create_cq(device().context.get(), pairs * 64, nullptr, nullptr, 0));
	Cq cq_b(ibv_create_cq(peer().context.get(), pairs * 64, nullptr, nullptr, 0));
	ASSERT_TRUE(cq_a && cq_b);
	std::vector<Pair> all;
	for (int i = 0; i < pairs; i++)
		all.push_back(make_pair({.shared_cq = cq_a.get()}, {.shared_cq = cq_b.get()},
					default_link()));
	std::map<uint32_t, uint64_t> next_send, next_recv;

	for (uint64_t burst = 0; burst < each; burst += 10) {
		for (const Pair &pair : all)
			for (uint64_t i = 0; i < 10; i++) {
				ASSERT_EQ(post_recv(pair.b, {}, burst + i), 0);
				ASSERT_EQ(post(pair.a, {.wr_id = burst + i}), 0);
			}
		for (uint64_t i = 0; i < pairs * 10; i++) {
			const ibv_wc sent = expect_wc(cq_a.get());
			EXPECT_EQ(sent.wr_id, next_send[sent.qp_num]++);
			const ibv_wc received = expect_wc(cq_b.get());
			EXPECT_EQ(received.wr_id, next_recv[received.qp_num]++);
		}
	}
	EXPECT_EQ(next_send.size(), static_cast<size_t>(pairs));
	for (const Pair &pair : all) {
		EXPECT_EQ(next_send[pair.a.qp->qp_num], each);
		EXPECT_EQ(next_recv[pair.b.qp->qp_num], each);
	}
}

TEST_F(Rings, OneCompletionQueueForBothQueues)
{
	Cq cq_a(ibv_create_cq(device().context.get(), 100, nullptr, nullptr, 0));
	Cq cq_b(ibv_create_cq(peer().context.get(), 100, nullptr, nullptr, 0));
	ASSERT_TRUE(cq_a && cq_b);
	Pair pair = make_pair({.shared_cq = cq_a.get()}, {.shared_cq = cq_b.get()}, default_link());

	for (uint64_t i = 0; i < 200 && !HasFailure(); i++) {
		ASSERT_EQ(post_recv(pair.a, {}, 1000 + i), 0);
		ASSERT_EQ(post_recv(pair.b, {}, 1000 + i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
		ASSERT_EQ(post(pair.b, {.wr_id = i}), 0);
		for (ibv_cq *cq : {cq_a.get(), cq_b.get()}) {
			const ibv_wc one = expect_wc(cq), two = expect_wc(cq);
			EXPECT_EQ(one.wr_id + two.wr_id, 1000 + 2 * i);
			EXPECT_NE(one.opcode & IBV_WC_RECV, two.opcode & IBV_WC_RECV);
		}
	}
}

TEST_F(Rings, BothDirectionsAtOnce)
{
	constexpr uint32_t slot = 20000;
	constexpr uint64_t depth = 8, rounds = 12;
	Pair pair = make_pair();
	const Region a_out = make_region(pair.a.pd, depth * slot),
		     a_in = make_region(pair.a.pd, depth * slot);
	const Region b_out = make_region(pair.b.pd, depth * slot),
		     b_in = make_region(pair.b.pd, depth * slot);

	ASSERT_TRUE(a_out && a_in && b_out && b_in);
	for (uint64_t round = 0; round < rounds && !HasFailure(); round++) {
		a_out.fill(seed() + round);
		b_out.fill(~seed() - round);
		for (uint64_t i = 0; i < depth; i++) {
			ASSERT_EQ(post_recv(pair.a, {a_in.sge(i * slot, slot)}, i), 0);
			ASSERT_EQ(post_recv(pair.b, {b_in.sge(i * slot, slot)}, i), 0);
		}
		for (uint64_t i = 0; i < depth; i++) {
			ASSERT_EQ(post(pair.a, {.sges = {a_out.sge(i * slot, slot)}, .wr_id = i}),
				  0);
			ASSERT_EQ(post(pair.b, {.sges = {b_out.sge(i * slot, slot)}, .wr_id = i}),
				  0);
		}
		for (const End *end : {&pair.a, &pair.b}) {
			expect_in_order(end->scq, 0, depth);
			expect_in_order(end->rcq, 0, depth);
		}
		EXPECT_TRUE(has_pattern(b_in.memory.bytes(), seed() + round));
		EXPECT_TRUE(has_pattern(a_in.memory.bytes(), ~seed() - round));
	}
}

TEST_F(Rings, DeepQueueOfReadsAndWrites)
{
	const auto depth = static_cast<uint32_t>(
		std::min({device().attr.max_qp_wr, peer().attr.max_qp_wr, 512}));
	constexpr uint32_t slot = 512;
	Pair pair = make_pair({.send_wr = depth, .recv_wr = 4});
	const Region local = make_region(pair.a.pd, depth * slot);
	const Region back = make_region(pair.a.pd, depth * slot);
	const Region remote = make_region(pair.b.pd, depth * slot);

	ASSERT_TRUE(local && back && remote);
	for (uint64_t lap = 0; lap < 3; lap++) {
		local.fill(seed() + lap);
		for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
			const Region &buffer = op == IBV_WR_RDMA_READ ? back : local;
			for (uint32_t i = 0; i < depth; i++)
				ASSERT_EQ(post(pair.a, {.op = op,
							.sges = {buffer.sge(i * slot, slot)},
							.wr_id = i,
							.remote_addr = remote.address(i * slot),
							.rkey = remote.mr->rkey}),
					  0);
			expect_in_order(pair.a.scq, 0, depth);
		}
		EXPECT_TRUE(has_pattern(back.memory.bytes(), seed() + lap));
	}
}

TEST_F(Rings, ThreadsPostToOneQueuePair)
{
	constexpr int threads = 4;
	constexpr uint64_t each = 200;
	Pair pair = make_pair({.send_wr = 64, .recv_wr = 1, .cqe = threads * each});
	const Region local = make_region(pair.a.pd, threads * 1024);
	const Region remote = make_region(pair.b.pd, threads * 1024);
	std::atomic<uint64_t> refused = 0;
	std::vector<std::thread> pool;
	std::vector<int> seen(threads * each);

	ASSERT_TRUE(local && remote);
	local.fill(seed());
	for (int t = 0; t < threads; t++)
		pool.emplace_back([&, t] {
			for (uint64_t i = 0; i < each;) {
				const int rc =
					post(pair.a, {.op = IBV_WR_RDMA_WRITE,
						      .sges = {local.sge(t * 1024, 1024)},
						      .wr_id = t * each + i,
						      .remote_addr = remote.address(t * 1024),
						      .rkey = remote.mr->rkey});
				if (rc == 0)
					i++;
				else if (rc == ENOMEM)
					std::this_thread::yield();
				else {
					refused++;
					return;
				}
			}
		});
	for (uint64_t i = 0; i < threads * each && !HasFailure(); i++) {
		const ibv_wc wc = expect_wc(pair.a.scq);
		if (wc.wr_id < seen.size())
			seen[wc.wr_id]++;
	}
	for (std::thread &thread : pool)
		thread.join();
	EXPECT_EQ(refused, 0u);
	EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(seen.size()));
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed()));
}

// What the queue holds when it gets another ring comes first, in order; rings of every size follow each other.
TEST_F(Rings, CompletionQueueIsResizedManyTimes)
{
	Pair pair = make_pair({.send_wr = 64, .recv_wr = 64});
	Random random(seed());
	uint64_t posted = 0, taken = 0;

	for (int round = 0; round < 60 && !HasFailure(); round++) {
		const auto count = static_cast<uint32_t>(1 + random.below(40 - (posted - taken)));
		for (uint32_t i = 0; i < count; i++, posted++) {
			ASSERT_EQ(post_recv(pair.b, {}, posted), 0);
			ASSERT_EQ(post(pair.a,
				       {.op = posted % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
					.wr_id = posted,
					.imm = static_cast<uint32_t>(posted)}),
				  0);
			expect_wc(pair.a.scq);
		}
		// Not all of what is there is taken before the next ring, or the one after it.
		const int size = 40 + static_cast<int>(random.below(round % 2 ? 30 : 2000));
		const int rc = ibv_resize_cq(pair.b.rcq, size);
		if (lacks(peer(), rc))
			GTEST_SKIP() << not_offered("ibv_resize_cq", rc);
		ASSERT_EQ(rc, 0);
		EXPECT_GE(pair.b.rcq->cqe, size);
		const uint64_t left = posted - taken;
		const uint64_t now = left > 30 ? left - 5 :
						 random.below(static_cast<uint32_t>(left) + 1);
		for (uint64_t i = 0; i < now && !HasFailure(); i++, taken++) {
			const ibv_wc wc = expect_wc(pair.b.rcq);
			EXPECT_EQ(wc.wr_id, taken);
			EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM,
				  taken % 3 ? 0u : unsigned{IBV_WC_WITH_IMM});
			if (taken % 3 == 0) {
				EXPECT_EQ(wc.imm_data, htonl(static_cast<uint32_t>(taken)));
			}
		}
	}
	expect_in_order(pair.b.rcq, taken, static_cast<uint32_t>(posted - taken));
}

// One thread resizes, one polls, messages flow: until the other thread, which may get its processor late, has resized often.
TEST_F(Rings, CompletionQueueIsResizedUnderTraffic)
{
	constexpr uint64_t messages = 3000, most = 100 * messages;
	constexpr int often = 10;
	Pair pair = make_pair({.send_wr = 64, .recv_wr = 64});

	const int rc = ibv_resize_cq(pair.b.rcq, 100);
	if (lacks(peer(), rc))
		GTEST_SKIP() << not_offered("ibv_resize_cq", rc);
	ASSERT_EQ(rc, 0);
	std::atomic<bool> over{false};
	std::atomic<int> failed{0}, resized{0};
	std::thread resizer([&] {
		for (int i = 0; !over; i++, resized++) {
			if (const int rc = ibv_resize_cq(pair.b.rcq, 64 + i % 7 * 100))
				failed = rc;
		}
	});
	for (uint64_t i = 0; i < 48; i++)
		EXPECT_EQ(post_recv(pair.b, {}, i), 0);
	uint64_t sent = 0, all = messages;
	for (uint64_t got = 0; got < all && !HasFailure(); got++) {
		if (got + 1 == all && resized < often && all < most)
			all += messages;
		for (; sent < all && sent < got + 32; sent++)
			EXPECT_EQ(
				post(pair.a,
				     {.wr_id = sent,
				      .flags = sent % 16 == 15 ? unsigned{IBV_SEND_SIGNALED} : 0u}),
				0);
		EXPECT_EQ(expect_wc(pair.b.rcq).wr_id, got);
		EXPECT_EQ(post_recv(pair.b, {}, got + 48), 0);
		if (got % 16 == 15)
			expect_wc(pair.a.scq);
	}
	over = true;
	resizer.join();
	EXPECT_EQ(failed, 0) << std::strerror(failed);
	EXPECT_GE(resized, often);
}

TEST_F(Rings, CompletionQueueIsNotResizedToWhatCannotBe)
{
	Pair pair = make_pair({.send_wr = 32, .recv_wr = 32});
	const int before = pair.b.rcq->cqe;

	const int rc = ibv_resize_cq(pair.b.rcq, before);
	if (lacks(peer(), rc))
		GTEST_SKIP() << not_offered("ibv_resize_cq", rc);
	ASSERT_EQ(rc, 0);
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, 0), EINVAL);
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, -1), EINVAL);
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, peer().attr.max_cqe + 1), EINVAL);
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, INT_MAX), EINVAL);
	for (uint64_t i = 0; i < 20; i++) {
		ASSERT_EQ(post_recv(pair.b, {}, i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
		expect_wc(pair.a.scq);
	}
	// The messages are acknowledged, so their receives have completed.
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, 19), EINVAL) << "it holds 20";
	EXPECT_EQ(pair.b.rcq->cqe, before);
	EXPECT_EQ(ibv_resize_cq(pair.b.rcq, 20), 0);
	expect_in_order(pair.b.rcq, 0, 20);
}

TEST_F(Rings, ResizedCompletionQueueKeepsWhatItHolds)
{
	Pair pair = make_pair({.send_wr = 32, .recv_wr = 32});

	for (uint64_t i = 0; i < 20; i++) {
		ASSERT_EQ(post_recv(pair.b, {}, i), 0);
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
	}
	expect_in_order(pair.b.rcq, 0, 20);
	const int rc = ibv_resize_cq(pair.a.scq, 200);
	if (lacks(device(), rc))
		GTEST_SKIP() << not_offered("ibv_resize_cq", rc);
	ASSERT_EQ(rc, 0);
	EXPECT_GE(pair.a.scq->cqe, 200);
	expect_in_order(pair.a.scq, 0, 20);
	ASSERT_EQ(post_recv(pair.b, {}, 20), 0);
	ASSERT_EQ(post(pair.a, {.wr_id = 20}), 0);
	expect_in_order(pair.a.scq, 20, 1);
}

} // namespace
} // namespace verbs
