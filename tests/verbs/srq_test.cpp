// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Shared receive queues: their limits, requests for several queue pairs, events, and what is refused.
#include "fixture.hpp"

#include <arpa/inet.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <thread>

namespace verbs
{
namespace
{

using namespace std::chrono_literals;

constexpr size_t room = 64 << 10;
constexpr uint32_t depth = 64;

class SharedReceive : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (!peer().attr.max_srq)
			GTEST_SKIP() << not_reported("max_srq");
		pd_.reset(ibv_alloc_pd(peer().context.get()));
		cq_.reset(ibv_create_cq(peer().context.get(), 1024, nullptr, nullptr, 0));
		ASSERT_TRUE(pd_ && cq_);
		drain_async(peer());
		srq_ = make_srq();
		ASSERT_TRUE(srq_);
		local_ = make_region(pd_.get(), room);
		ASSERT_TRUE(local_);
	}

	Srq make_srq()
	{
		init_ = {};
		init_.srq_context = this;
		init_.attr.max_wr = depth;
		init_.attr.max_sge = 2;
		init_.attr.srq_limit = ~0u; // to be ignored (ibv_create_srq(3))
		return Srq(ibv_create_srq(pd_.get(), &init_));
	}

	// The peer's queue pair receives from the queue, and all its completions are in cq_.
	Pair make_pair()
	{
		EndOptions b;

		b.srq = srq_.get();
		b.shared_pd = pd_.get();
		b.shared_cq = cq_.get();
		return VerbsTest::make_pair({}, b, default_link());
	}

	int arm(uint32_t limit)
	{
		ibv_srq_attr attr = {};

		attr.srq_limit = limit;
		return ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT);
	}

	ibv_srq_attr attr()
	{
		ibv_srq_attr out = {};

		EXPECT_EQ(ibv_query_srq(srq_.get(), &out), 0);
		return out;
	}

	// One small message from @pair's initiator, and its completions.
	ibv_wc send_one(const Pair &pair)
	{
		EXPECT_EQ(post(pair.a, {}), 0);
		expect_wc(pair.a.scq);
		return expect_wc(cq_.get());
	}

	Pd pd_;
	Cq cq_;
	ibv_srq_init_attr init_ = {};
	Srq srq_;
	Region local_;
};

TEST_F(SharedReceive, HasWhatWasAskedFor)
{
	EXPECT_GE(init_.attr.max_wr, depth);
	EXPECT_GE(init_.attr.max_sge, 2u);
	EXPECT_EQ(attr().max_wr, init_.attr.max_wr);
	EXPECT_EQ(attr().max_sge, init_.attr.max_sge);
	if (!peer().is_rxe()) { // which takes the limit
		EXPECT_EQ(attr().srq_limit, 0u);
	}
	EXPECT_EQ(srq_->srq_context, this);
}

TEST_F(SharedReceive, TakesAsManyRequestsAsItSays)
{
	for (uint32_t i = 0; i < init_.attr.max_wr; i++)
		ASSERT_EQ(post_recv(srq_.get(), {local_.sge(0, 8)}, i), 0) << i;
	EXPECT_EQ(post_recv(srq_.get(), {local_.sge(0, 8)}), ENOMEM);

	Pair pair = make_pair();
	EXPECT_EQ(send_one(pair).wr_id, 0u);
	EXPECT_EQ(post_recv(srq_.get(), {local_.sge(0, 8)}), 0);
}

TEST_F(SharedReceive, RefusesWhatIsBeyondItsLimits)
{
	const ibv_device_attr &limits = peer().attr;
	const std::vector<ibv_sge> many(init_.attr.max_sge + 1, local_.sge(0, 8));
	ibv_srq_init_attr init = {};

	EXPECT_EQ(post_recv(srq_.get(), many), EINVAL);

	auto refused = [&](uint32_t wr, uint32_t sge) {
		init.attr.max_wr = wr;
		init.attr.max_sge = sge;
		const Srq srq(ibv_create_srq(pd_.get(), &init));
		return !srq && errno == EINVAL;
	};
	EXPECT_TRUE(refused(static_cast<uint32_t>(limits.max_srq_wr) + 1, 1));
	EXPECT_TRUE(refused(16, static_cast<uint32_t>(limits.max_srq_sge) + 1));
	EXPECT_EQ(arm(init_.attr.max_wr + 1), EINVAL);

	init.attr = {static_cast<uint32_t>(limits.max_srq_wr),
		     static_cast<uint32_t>(limits.max_srq_sge), 0};
	EXPECT_TRUE(Srq(ibv_create_srq(pd_.get(), &init)));
}

// IBV_DEVICE_SRQ_RESIZE is not reported, so the call is refused.
TEST_F(SharedReceive, ResizesOnlyIfTheDeviceSaysSo)
{
	ibv_srq_attr attr = {};

	if (peer().attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)
		GTEST_SKIP() << "it does";
	attr.max_wr = 2 * depth;
	EXPECT_EQ(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	EXPECT_EQ(ibv_modify_srq(srq_.get(), &attr, 1 << 7), EINVAL);
	EXPECT_EQ(this->attr().max_wr, init_.attr.max_wr);
}

// Each request completes once, on the queue pair that got a message, with the data of that message.
TEST_F(SharedReceive, GivesEachRequestToOneMessage)
{
	constexpr uint32_t rounds = 20, pairs = 4, size = 256;
	std::vector<Pair> all;
	std::map<uint32_t, size_t> owner;

	for (uint32_t i = 0; i < pairs; i++) {
		all.push_back(make_pair());
		owner[all.back().b.qp->qp_num] = i;
	}
	std::vector<Region> sources;
	for (uint32_t i = 0; i < pairs; i++) {
		sources.push_back(make_region(all[i].a.pd, size));
		ASSERT_TRUE(sources[i]);
		sources[i].fill(100 + i);
	}

	for (uint32_t round = 0; round < rounds && !HasFailure(); round++) {
		std::set<uint64_t> posted;

		local_.fill(7);
		for (uint32_t i = 0; i < 2 * pairs; i++) {
			ASSERT_EQ(post_recv(srq_.get(), {local_.sge(i * size, size)}, i), 0);
			posted.insert(i);
		}
		for (uint32_t i = 0; i < 2 * pairs; i++)
			ASSERT_EQ(post(all[i % pairs].a, {.op = IBV_WR_SEND_WITH_IMM,
							  .sges = {sources[i % pairs].sge(0, size)},
							  .imm = i % pairs}),
				  0);
		for (uint32_t i = 0; i < 2 * pairs; i++) {
			const ibv_wc wc = expect_wc(cq_.get());

			ASSERT_TRUE(owner.contains(wc.qp_num));
			EXPECT_EQ(posted.erase(wc.wr_id), 1u);
			EXPECT_EQ(wc.byte_len, size);
			EXPECT_EQ(wc.opcode, IBV_WC_RECV);
			EXPECT_EQ(ntohl(wc.imm_data), owner[wc.qp_num]);
			EXPECT_TRUE(has_pattern(local_.bytes(wc.wr_id * size, size),
						100 + owner[wc.qp_num]));
		}
		for (uint32_t i = 0; i < 2 * pairs; i++)
			expect_wc(all[i % pairs].a.scq);
	}
}

TEST_F(SharedReceive, GivesARequestToAWriteWithImmediate)
{
	Pair pair = make_pair();
	const Region source = make_region(pair.a.pd, 100);

	ASSERT_TRUE(source);
	source.fill(5);
	ASSERT_EQ(post_recv(srq_.get(), {}, 9), 0);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE_WITH_IMM,
				.sges = {source.sge(0, 100)},
				.remote_addr = local_.address(50),
				.rkey = local_.mr->rkey,
				.imm = 77}),
		  0);
	const ibv_wc wc = expect_wc(cq_.get());
	EXPECT_EQ(wc.wr_id, 9u);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ntohl(wc.imm_data), 77u);
	EXPECT_TRUE(has_pattern(local_.bytes(50, 100), 5));
}

TEST_F(SharedReceive, MessagesWaitWhileItIsEmpty)
{
	Pair pair = make_pair();

	ASSERT_EQ(post(pair.a, {}), 0);
	expect_quiet(cq_.get(), 50ms);
	ASSERT_EQ(post_recv(srq_.get(), {}, 3), 0);
	EXPECT_EQ(expect_wc(cq_.get()).wr_id, 3u);
	expect_wc(pair.a.scq);
}

TEST_F(SharedReceive, TellsOnceThatFewRequestsAreLeft)
{
	Pair pair = make_pair();

	for (uint32_t i = 0; i < 6; i++)
		ASSERT_EQ(post_recv(srq_.get(), {}, i), 0);
	ASSERT_EQ(arm(5), 0);
	EXPECT_EQ(attr().srq_limit, 5u);
	send_one(pair);
	EXPECT_FALSE(await_srq_event(peer(), srq_.get(), 50ms)) << "five are left";
	send_one(pair);
	EXPECT_EQ(await_srq_event(peer(), srq_.get()), IBV_EVENT_SRQ_LIMIT_REACHED);
	if (!peer().is_rxe()) { // which goes on reporting the limit
		EXPECT_EQ(attr().srq_limit, 0u);
	}
	send_one(pair);
	EXPECT_FALSE(await_srq_event(peer(), srq_.get(), 50ms)) << "it was told once";
}

// The event comes at once when fewer requests are left at the time of arming (IBTA, Modify SRQ).
TEST_F(SharedReceive, TellsAtOnceWhenFewAreLeftAlready)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe looks when a message takes a request";
	ASSERT_EQ(post_recv(srq_.get(), {}), 0);
	ASSERT_EQ(arm(2), 0);
	EXPECT_EQ(await_srq_event(peer(), srq_.get()), IBV_EVENT_SRQ_LIMIT_REACHED);
}

// A sender that does not wait for a request fails alone; those that do are served when there is one.
TEST_F(SharedReceive, WhoDoesNotWaitFailsAloneWhenItIsEmpty)
{
	EndOptions b;
	Link hasty = default_link();

	b.srq = srq_.get();
	b.shared_pd = pd_.get();
	b.shared_cq = cq_.get();
	hasty.rnr_retry = 0;
	Pair failing = VerbsTest::make_pair({}, b, hasty), waiting = make_pair();
	ASSERT_EQ(post(waiting.a, {.wr_id = 1}), 0);
	ASSERT_EQ(post(failing.a, {.wr_id = 2}), 0);
	EXPECT_EQ(expect_wc(failing.a.scq, IBV_WC_RNR_RETRY_EXC_ERR).wr_id, 2u);
	expect_quiet(cq_.get(), 20ms);
	ASSERT_EQ(post_recv(srq_.get(), {}, 3), 0);
	const ibv_wc wc = expect_wc(cq_.get());
	EXPECT_EQ(wc.wr_id, 3u);
	EXPECT_EQ(wc.qp_num, waiting.b.qp->qp_num);
	EXPECT_EQ(expect_wc(waiting.a.scq).wr_id, 1u);
	EXPECT_EQ(state_of(failing.b.qp.get()), IBV_QPS_RTS) << "its peer may connect it anew";
}

// It fails with the request that it took; the other requests are for the other queue pairs.
TEST_F(SharedReceive, AMessageLargerThanTheBufferStopsItsQueuePairAlone)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe answers it as an operational error";
	Pair first = make_pair(), second = make_pair();
	const Region source = make_region(first.a.pd, 101);

	ASSERT_TRUE(source);
	ASSERT_EQ(post_recv(srq_.get(), {local_.sge(0, 100)}, 1), 0);
	ASSERT_EQ(post_recv(srq_.get(), {local_.sge(200, 100)}, 2), 0);
	ASSERT_EQ(post(first.a, {.sges = {source.sge(0, 101)}}), 0);
	expect_wc(first.a.scq, IBV_WC_REM_INV_REQ_ERR);
	const ibv_wc wc = expect_wc(cq_.get(), IBV_WC_LOC_LEN_ERR);
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_EQ(wc.qp_num, first.b.qp->qp_num);
	EXPECT_EQ(await_qp_event(peer(), first.b.qp.get()), IBV_EVENT_QP_LAST_WQE_REACHED);
	EXPECT_EQ(send_one(second).wr_id, 2u);
	EXPECT_EQ(state_of(second.b.qp.get()), IBV_QPS_RTS);
}

// A queue pair in error leaves the requests in the queue to the others.
TEST_F(SharedReceive, AQueuePairInErrorSaysThatItTookItsLast)
{
	Pair first = make_pair(), second = make_pair();

	ASSERT_EQ(post_recv(srq_.get(), {}, 1), 0);
	ASSERT_EQ(to_state(first.b.qp.get(), IBV_QPS_ERR), 0);
	EXPECT_EQ(await_qp_event(peer(), first.b.qp.get()), IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_quiet(cq_.get(), 20ms);
	EXPECT_EQ(send_one(second).wr_id, 1u);
}

TEST_F(SharedReceive, CompletionsOfADestroyedQueuePairAreGone)
{
	Pair first = make_pair(), second = make_pair();

	for (uint32_t i = 0; i < 2; i++)
		ASSERT_EQ(post_recv(srq_.get(), {}, i), 0);
	ASSERT_EQ(post(first.a, {}), 0);
	expect_wc(first.a.scq);
	ASSERT_EQ(destroy(first.b.qp), 0);
	if (!peer().is_rxe()) // which leaves them
		expect_quiet(cq_.get(), 20ms);
	else
		expect_wc(cq_.get());
	EXPECT_EQ(send_one(second).wr_id, 1u);
}

TEST_F(SharedReceive, IsNotDestroyedUnderItsQueuePairs)
{
	Pair pair = make_pair();

	EXPECT_EQ(destroy(srq_), EBUSY);
	ASSERT_EQ(destroy(pair.b.qp), 0);
	EXPECT_EQ(destroy(srq_), 0);
}

TEST_F(SharedReceive, KeepsItsProtectionDomainInUse)
{
	local_ = {};
	EXPECT_EQ(destroy(pd_), EBUSY);
	ASSERT_EQ(destroy(srq_), 0);
	EXPECT_EQ(destroy(pd_), 0);
}

TEST_F(SharedReceive, QueuePairsHaveNoReceiveQueueOfTheirOwn)
{
	Pair pair = make_pair();

	if (!peer().is_rxe()) { // which repeats what was asked for
		EXPECT_EQ(pair.b.cap.max_recv_wr, 0u);
	}
	EXPECT_NE(post_recv(pair.b, {}), 0);

	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};
	ASSERT_EQ(ibv_query_qp(pair.b.qp.get(), &attr, IBV_QP_STATE, &init), 0);
	EXPECT_EQ(init.srq, srq_.get());
}

TEST_F(SharedReceive, UnreliableConnectionsHaveNone)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe takes it";
	EndOptions options;

	options.type = IBV_QPT_UC;
	options.srq = srq_.get();
	options.shared_pd = pd_.get();
	const End end = End::create(peer(), options);
	EXPECT_FALSE(end.qp);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

// Jain's index: 1 when all shares are equal, 1/n when one has everything.
double jain(const std::map<uint32_t, uint32_t> &shares)
{
	double sum = 0, squares = 0;

	for (const auto &[qpn, n] : shares) {
		sum += n;
		squares += static_cast<double>(n) * n;
	}
	return sum * sum / (static_cast<double>(shares.size()) * squares);
}

// All of them always have messages on their way, far more than there are requests: whoever comes first must not come always.
TEST_F(SharedReceive, HasEqualSharesForManyQueuePairs)
{
	if (device().is_rxe() || peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe has no shares";
	constexpr uint32_t pairs = 64, in_flight = 4, requests = 16, messages = 400;
	const Cq sends(
		ibv_create_cq(device().context.get(), 2 * pairs * in_flight, nullptr, nullptr, 0));
	EndOptions a, b;
	std::vector<Pair> all;
	std::map<uint32_t, uint32_t> got; // by queue pair
	uint32_t total = 0;

	ASSERT_TRUE(sends);
	a.shared_cq = sends.get();
	b.srq = srq_.get();
	b.shared_pd = pd_.get();
	b.shared_cq = cq_.get();
	for (uint32_t i = 0; i < pairs; i++) {
		all.push_back(VerbsTest::make_pair(a, b, default_link()));
		got[all.back().b.qp->qp_num] = 0;
	}
	for (uint32_t i = 0; i < requests; i++)
		ASSERT_EQ(post_recv(srq_.get(), {}), 0);
	for (uint32_t i = 0; i < pairs * in_flight; i++)
		ASSERT_EQ(post(all[i % pairs].a, {.wr_id = i % pairs}), 0);

	const auto step = [&] {
		ibv_wc wc;

		while (ibv_poll_cq(sends.get(), 1, &wc) == 1) {
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
			EXPECT_EQ(post(all[wc.wr_id].a, {.wr_id = wc.wr_id}), 0);
		}
		while (ibv_poll_cq(cq_.get(), 1, &wc) == 1) {
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
			EXPECT_EQ(post_recv(srq_.get(), {}), 0);
			got[wc.qp_num]++;
			total++;
		}
		return total >= pairs * messages || HasFailure();
	};
	EXPECT_TRUE(await_condition(step)) << total << " messages";
	EXPECT_EQ(got.size(), pairs);
	const auto least = std::min_element(got.begin(), got.end(),
					    [](auto &x, auto &y) { return x.second < y.second; });
	EXPECT_GT(least->second, 0u);
	EXPECT_GE(jain(got), 0.9) << "the least is " << least->second << " of " << total;
	std::printf("jain %.3f, least %u of %u\n", jain(got), least->second, total);
}

// Threads post while messages arrive: no request is lost, none completes twice.
TEST_F(SharedReceive, IsPostedToByThreads)
{
	constexpr uint64_t each = 300, threads = 3;
	Pair first = make_pair(), second = make_pair();
	std::vector<std::jthread> posters;
	std::set<uint64_t> seen;

	for (uint64_t t = 0; t < threads; t++)
		posters.emplace_back([&, t](const std::stop_token &stop) {
			for (uint64_t i = 0; i < each && !stop.stop_requested(); i++) {
				while (post_recv(srq_.get(), {}, t * each + i) == ENOMEM &&
				       !stop.stop_requested())
					std::this_thread::yield();
			}
		});
	for (uint64_t sent = 0; sent < threads * each && !HasFailure(); sent++) {
		const Pair &pair = sent % 2 ? first : second;

		EXPECT_EQ(post(pair.a, {}), 0);
		EXPECT_TRUE(seen.insert(expect_wc(cq_.get()).wr_id).second);
		expect_wc(pair.a.scq);
	}
	posters.clear(); // stops and joins them
	EXPECT_EQ(seen.size(), threads * each);
}

} // namespace
} // namespace verbs
