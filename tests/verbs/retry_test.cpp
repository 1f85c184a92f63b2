// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Receiver not ready, and a peer that does not answer: counts, timers, statuses.
#include "fixture.hpp"

#include <arpa/inet.h>

#include <chrono>
#include <string>

namespace verbs
{
namespace
{

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr unsigned retry_exceeded_vendor_err = 0x81; // as adapters report it

class Rnr : public VerbsTest {};

TEST_F(Rnr, WaitsForTheReceiver)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 5000);
	const Region remote = make_region(pair.b.pd, 5000);

	ASSERT_TRUE(local && remote);
	local.fill(seed());
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 5000)}}), 0);
	expect_quiet(pair.a.scq, milliseconds(100));
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_RTS);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 5000)}), 0);
	expect_wc(pair.b.rcq);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed()));
}

TEST_F(Rnr, WriteWithImmediateWaitsToo)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 5000);
	const Region remote = make_region(pair.b.pd, 5000);

	ASSERT_TRUE(local && remote);
	local.fill(seed());
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE_WITH_IMM,
				.sges = {local.sge(0, 5000)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey,
				.imm = 77}),
		  0);
	expect_quiet(pair.a.scq, milliseconds(50));
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	EXPECT_EQ(expect_wc(pair.b.rcq).byte_len, 5000u);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed()));
}

// Many messages against a receiver that is always late: none lost, none twice, none out of order.
TEST_F(Rnr, EveryMessageArrivesOnceAtASlowReceiver)
{
	constexpr uint64_t count = 40;
	Pair pair = make_pair({.send_wr = count});
	const Region local = make_region(pair.a.pd, 64);
	const Region remote = make_region(pair.b.pd, 64);

	ASSERT_TRUE(local && remote);
	for (uint64_t i = 0; i < count; i++)
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND_WITH_IMM,
					.sges = {local.sge(0, 64)},
					.wr_id = i,
					.imm = static_cast<uint32_t>(i)}),
			  0);
	for (uint64_t i = 0; i < count && !HasFailure(); i++) {
		ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 64)}, i), 0);
		const ibv_wc wc = expect_wc(pair.b.rcq);
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_EQ(ntohl(wc.imm_data), i);
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, i);
	}
}

TEST_F(Rnr, NoRetryAllowedFailsAtOnce)
{
	Link link = default_link();
	link.rnr_retry = 0;
	Pair pair = make_pair({}, link);

	ASSERT_EQ(post(pair.a, {.wr_id = 3}), 0);
	EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_RNR_RETRY_EXC_ERR).wr_id, 3u);
	EXPECT_TRUE(await_condition([&] { return state_of(pair.a.qp.get()) == IBV_QPS_ERR; }));
}

struct RnrTime {
	uint8_t retries;
	uint8_t timer;
	int least_ms; // retries x the timer's value
};

class RnrTimer : public VerbsTest, public testing::WithParamInterface<RnrTime> {};

// The requester must not come back before the time the responder asked for.
TEST_P(RnrTimer, IsWaitedForBeforeEachRetry)
{
	Link link = default_link();
	link.rnr_retry = GetParam().retries;
	link.min_rnr_timer = GetParam().timer;
	Pair pair = make_pair({}, link);

	const auto start = steady_clock::now();
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_wc(pair.a.scq, IBV_WC_RNR_RETRY_EXC_ERR);
	const auto elapsed = duration_cast<milliseconds>(steady_clock::now() - start).count();
	EXPECT_GE(elapsed, GetParam().least_ms);
	EXPECT_LE(elapsed, GetParam().least_ms * 4 + patience(2000).count());
}

INSTANTIATE_TEST_SUITE_P(All, RnrTimer,
			 testing::Values(RnrTime{3, 20, 30}, // 10.24 ms
					 RnrTime{6, 16, 15}, // 2.56 ms
					 RnrTime{1, 28, 163}, // 163.84 ms
					 RnrTime{1, 0, 655}), // 0 means 655.36 ms
			 [](const auto &info) {
				 return "Timer" + std::to_string(info.param.timer) + "Retries" +
					std::to_string(info.param.retries);
			 });

class Retry : public VerbsTest {
protected:
	static Link impatient(uint8_t timeout, uint8_t count)
	{
		Link link = default_link();
		link.timeout = timeout;
		link.retry_cnt = count;
		return link;
	}

	static void expect_retry_exceeded(const Pair &pair)
	{
		const ibv_wc wc = expect_wc(pair.a.scq, IBV_WC_RETRY_EXC_ERR);
		EXPECT_EQ(static_cast<int>(wc.status), 12);
		if (!device().is_rxe()) {
			EXPECT_EQ(wc.vendor_err, retry_exceeded_vendor_err);
		}
		EXPECT_TRUE(
			await_condition([&] { return state_of(pair.a.qp.get()) == IBV_QPS_ERR; }));
	}
};

TEST_F(Retry, PeerInReset)
{
	for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		SCOPED_TRACE(op_name(op));
		Pair pair = make_pair({}, impatient(8, 2));
		const Region local = make_region(pair.a.pd, 64);
		const Region remote = make_region(pair.b.pd, 64);
		ASSERT_TRUE(local && remote);
		ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {local.sge(0, 64)},
					.remote_addr = remote.address(),
					.rkey = remote.mr->rkey}),
			  0);
		expect_retry_exceeded(pair);
	}
}

TEST_F(Retry, PeerInError)
{
	Pair pair = make_pair({}, impatient(8, 2));

	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_ERR), 0);
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_retry_exceeded(pair);
}

TEST_F(Retry, PeerDestroyed)
{
	Pair pair = make_pair({}, impatient(8, 2));

	ASSERT_EQ(destroy(pair.b.qp), 0);
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_retry_exceeded(pair);
}

TEST_F(Retry, WorkBehindTheLostOneIsFlushed)
{
	Pair pair = make_pair({}, impatient(8, 1));

	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
	for (uint64_t i = 0; i < 5; i++)
		ASSERT_EQ(post(pair.a, {.wr_id = i}), 0);
	EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_RETRY_EXC_ERR).wr_id, 0u);
	for (uint64_t i = 1; i < 5; i++)
		EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_WR_FLUSH_ERR).wr_id, i);
}

// C9-141: at least the timeout, at most four times it, for the first try and for each retry.
TEST_F(Retry, TakesAsLongAsTheTimeoutSays)
{
	Pair pair = make_pair({}, impatient(13, 3)); // 33.5 ms

	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
	const auto start = steady_clock::now();
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_retry_exceeded(pair);
	const auto elapsed = duration_cast<milliseconds>(steady_clock::now() - start).count();
	EXPECT_GE(elapsed, 33 * 4);
	EXPECT_LE(elapsed, 33.6 * 4 * 4 + patience(2000).count());
}

TEST_F(Retry, NoRetriesStillWaitsOnce)
{
	Pair pair = make_pair({}, impatient(13, 0));

	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
	const auto start = steady_clock::now();
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_retry_exceeded(pair);
	EXPECT_GE(duration_cast<milliseconds>(steady_clock::now() - start).count(), 33);
}

// Timeout 0 switches the timer off.
TEST_F(Retry, TimeoutZeroNeverGivesUp)
{
	Pair pair = make_pair({}, impatient(0, 1));

	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_RESET), 0);
	ASSERT_EQ(post(pair.a, {}), 0);
	expect_quiet(pair.a.scq, milliseconds(300));
	EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_RTS);
}

TEST_F(Retry, ReachesAPeerThatBecomesReadyLate)
{
	Pair pair;
	pair.link = impatient(14, 7);
	pair.a = End::create(device());
	pair.b = End::create(peer());
	ASSERT_TRUE(pair.a.qp && pair.b.qp);
	const Region local = make_region(pair.a.pd, 9000);
	const Region remote = make_region(pair.b.pd, 9000);
	ASSERT_TRUE(local && remote);
	local.fill(seed());
	ASSERT_EQ(to_init(pair.a.qp.get(), device(), pair.link), 0);
	ASSERT_EQ(to_init(pair.b.qp.get(), peer(), pair.link), 0);
	ASSERT_EQ(to_rtr(pair.a.qp.get(), device(), pair.b.address(), pair.link), 0);
	ASSERT_EQ(to_rts(pair.a.qp.get(), pair.a.psn, pair.link), 0);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 9000)}), 0) << "INIT takes receives";
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 9000)}}), 0);
	expect_quiet(pair.a.scq, milliseconds(30));
	ASSERT_EQ(to_rtr(pair.b.qp.get(), peer(), pair.a.address(), pair.link), 0);
	expect_wc(pair.b.rcq);
	expect_wc(pair.a.scq);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed()));
}

TEST_F(Retry, QueuePairWithWorkInFlightIsDestroyed)
{
	for (int i = 0; i < 20; i++) {
		Pair pair = make_pair({}, impatient(10, 7));
		const Region local = make_region(pair.a.pd, 100000);
		ASSERT_TRUE(local);
		ASSERT_EQ(to_state(pair.b.qp.get(), i % 2 ? IBV_QPS_RESET : IBV_QPS_ERR), 0);
		for (int n = 0; n < 8; n++)
			ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 100000)}}), 0);
		EXPECT_EQ(destroy(pair.a.qp), 0);
	}
}

} // namespace
} // namespace verbs
