// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Extended completion queues: lazy polling, every field, timestamps, flags.
#include "fixture.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

namespace verbs
{
namespace
{

using std::chrono::milliseconds;

constexpr uint64_t timestamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
constexpr uint64_t wallclock = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

ibv_device_attr_ex attributes(const Device &dev)
{
	ibv_device_attr_ex attr = {};
	EXPECT_EQ(ibv_query_device_ex(dev.context.get(), nullptr, &attr), 0);
	return attr;
}

uint64_t time_of(clockid_t clock)
{
	timespec now = {};
	clock_gettime(clock, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// Null with errno.
ibv_cq_ex *create(const Device &dev, uint32_t cqe, uint64_t wc_flags, uint32_t flags = 0,
		  uint32_t comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS)
{
	ibv_cq_init_attr_ex attr = {};
	attr.cqe = cqe;
	attr.wc_flags = wc_flags;
	attr.comp_mask = comp_mask;
	attr.flags = flags;
	errno = 0;
	return ibv_create_cq_ex(dev.context.get(), &attr);
}

class ExtendedCq : public VerbsTest {
protected:
	// Receives at the peer complete in cq(), sends in an ordinary queue. False: not offered.
	bool make(uint64_t wc_flags, uint32_t flags = 0, uint32_t cqe = 128)
	{
		ex_ = create(peer(), cqe, wc_flags, flags);
		if (!ex_ && lacks(peer(), errno))
			return false;
		EXPECT_TRUE(ex_) << std::strerror(errno);
		if (!ex_)
			return false;
		owner_.reset(ibv_cq_ex_to_cq(ex_));
		pair_ = make_pair({.send_wr = 128}, {.recv_wr = 128, .shared_cq = owner_.get()},
				  default_link());
		return pair_.b.qp != nullptr;
	}

	ibv_cq_ex *cq() const { return ex_; }

	// Sends without data, received with these wr_ids.
	void deliver(uint64_t first, uint32_t count)
	{
		for (uint64_t i = first; i < first + count; i++) {
			ASSERT_EQ(post_recv(pair_.b, {}, i), 0);
			ASSERT_EQ(post(pair_.a, {.wr_id = i}), 0);
		}
		for (uint32_t i = 0; i < count && !HasFailure(); i++)
			expect_wc(pair_.a.scq);
	}

	// True with the poll started.
	bool begin()
	{
		ibv_poll_cq_attr attr = {};
		int rc = 0;
		const bool found = await_condition(
			[&] { return (rc = ibv_start_poll(ex_, &attr)) != ENOENT; });
		EXPECT_TRUE(found) << "no completion";
		EXPECT_EQ(rc, 0) << std::strerror(rc);
		return found && !rc;
	}

	Cq owner_;
	ibv_cq_ex *ex_ = nullptr;
	Pair pair_;
};

#define OFFERED_OR_SKIP(made) \
	if (!(made)) { \
		if (HasFailure()) \
			return; \
		GTEST_SKIP() << not_offered("ibv_create_cq_ex", errno); \
	}

TEST_F(ExtendedCq, EveryStandardFieldIsRead)
{
	OFFERED_OR_SKIP(make(IBV_WC_STANDARD_FLAGS));
	const Region local = make_region(pair_.a.pd, 4096), remote = make_region(pair_.b.pd, 4096);

	ASSERT_TRUE(local && remote);
	ASSERT_EQ(post_recv(pair_.b, {remote.sge(0, 4096)}, 71), 0);
	ASSERT_EQ(
		post(pair_.a,
		     {.op = IBV_WR_SEND_WITH_IMM, .sges = {local.sge(0, 1000)}, .imm = 0x12345678}),
		0);
	ASSERT_TRUE(begin());
	EXPECT_EQ(cq()->wr_id, 71u);
	EXPECT_EQ(cq()->status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_wc_read_opcode(cq()), IBV_WC_RECV);
	EXPECT_EQ(ibv_wc_read_vendor_err(cq()), 0u);
	EXPECT_EQ(ibv_wc_read_byte_len(cq()), 1000u);
	EXPECT_EQ(ibv_wc_read_imm_data(cq()), htonl(0x12345678));
	EXPECT_EQ(ibv_wc_read_qp_num(cq()), pair_.b.qp->qp_num);
	// rdma_rxe says of each message that it has a GRH, which only datagrams have in their buffers.
	const unsigned rxe_flags = peer().is_rxe() ? IBV_WC_GRH : 0;
	EXPECT_EQ(ibv_wc_read_wc_flags(cq()) & ~rxe_flags, unsigned{IBV_WC_WITH_IMM});
	ibv_wc_read_src_qp(cq()); // of datagrams only
	EXPECT_EQ(ibv_wc_read_slid(cq()), 0u);
	EXPECT_EQ(ibv_wc_read_sl(cq()), 0u);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq()), 0u);
	EXPECT_EQ(ibv_next_poll(cq()), ENOENT);
	ibv_end_poll(cq());
	expect_wc(pair_.a.scq);

	ASSERT_EQ(post_recv(pair_.b, {remote.sge(0, 4096)}, 72), 0);
	ASSERT_EQ(post(pair_.a, {.op = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .sges = {local.sge(0, 10)},
				 .remote_addr = remote.address(),
				 .rkey = remote.mr->rkey,
				 .imm = 5}),
		  0);
	ASSERT_TRUE(begin());
	EXPECT_EQ(cq()->wr_id, 72u);
	EXPECT_EQ(ibv_wc_read_opcode(cq()), IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ibv_wc_read_byte_len(cq()), 10u);
	EXPECT_EQ(ibv_wc_read_imm_data(cq()), htonl(5));
	ibv_end_poll(cq());
	expect_wc(pair_.a.scq);

	ASSERT_EQ(post_recv(pair_.b, {}, 73), 0);
	ASSERT_EQ(to_state(pair_.b.qp.get(), IBV_QPS_ERR), 0);
	ASSERT_TRUE(begin());
	EXPECT_EQ(cq()->wr_id, 73u);
	EXPECT_EQ(cq()->status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(ibv_wc_read_qp_num(cq()), pair_.b.qp->qp_num);
	ibv_end_poll(cq());
}

TEST_F(ExtendedCq, AnEmptyQueueSaysEnoentAndIsNotLocked)
{
	OFFERED_OR_SKIP(make(0));
	ibv_poll_cq_attr attr = {};
	ibv_wc wc = {};

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(ibv_start_poll(cq(), &attr), ENOENT);
	EXPECT_EQ(ibv_poll_cq(owner_.get(), 1, &wc), 0);
	if (!peer().is_rxe()) { // which looks at no mask
		attr.comp_mask = 1;
		EXPECT_EQ(ibv_start_poll(cq(), &attr), EINVAL);
		attr.comp_mask = 0;
	}
	deliver(1, 1);
	EXPECT_EQ(expect_wc(owner_.get()).wr_id, 1u) << "both ways of polling take from one queue";
	EXPECT_EQ(ibv_start_poll(cq(), &attr), ENOENT);
}

// Each batch is read within one poll; the queue goes round many times.
TEST_F(ExtendedCq, BatchesOverManyLapsKeepTheirOrder)
{
	OFFERED_OR_SKIP(make(IBV_WC_EX_WITH_BYTE_LEN, 0, 40));
	Random random(seed());
	uint64_t next = 0;

	while (next < 2000 && !HasFailure()) {
		const auto count = static_cast<uint32_t>(1 + random.below(40));

		deliver(next, count);
		ASSERT_TRUE(begin());
		for (uint32_t i = 0; i < count; i++) {
			ASSERT_EQ(cq()->wr_id, next + i);
			ASSERT_EQ(cq()->status, IBV_WC_SUCCESS);
			ASSERT_EQ(ibv_next_poll(cq()), i + 1 < count ? 0 : ENOENT);
		}
		ibv_end_poll(cq());
		next += count;
	}
}

// start_poll() locks the queue, end_poll() unlocks it.
TEST_F(ExtendedCq, ThreadsThatPollShareTheCompletions)
{
	constexpr uint32_t count = 100;
	OFFERED_OR_SKIP(make(0));
	std::vector<int> seen(count, 0);
	std::vector<std::thread> threads;
	std::atomic<uint32_t> taken{0};

	for (int t = 0; t < 2; t++) {
		threads.emplace_back([&] {
			ibv_poll_cq_attr attr = {};

			await_condition([&] {
				if (ibv_start_poll(cq(), &attr) == 0) {
					do {
						seen.at(cq()->wr_id)++; // under the queue's lock
						taken++;
					} while (ibv_next_poll(cq()) == 0);
					ibv_end_poll(cq());
				}
				return taken >= count;
			});
		});
	}
	deliver(0, count);
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(count));
}

TEST_F(ExtendedCq, SingleThreadedQueuesWorkTheSame)
{
	OFFERED_OR_SKIP(make(IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED));
	ibv_poll_cq_attr attr = {};

	deliver(0, 100);
	ASSERT_TRUE(begin());
	for (uint64_t i = 0; i < 100; i++) {
		ASSERT_EQ(cq()->wr_id, i);
		ASSERT_EQ(ibv_next_poll(cq()), i < 99 ? 0 : ENOENT);
	}
	ibv_end_poll(cq());
	EXPECT_EQ(ibv_start_poll(cq(), &attr), ENOENT);
}

class Timestamps : public ExtendedCq {
protected:
	// The device's clock; 0 if it cannot be read.
	static uint64_t raw_clock()
	{
		ibv_values_ex values = {};
		values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
		if (ibv_query_rt_values_ex(peer().context.get(), &values) ||
		    values.comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
			return 0;
		return static_cast<uint64_t>(values.raw_clock.tv_sec) * 1000000000 +
		       static_cast<uint64_t>(values.raw_clock.tv_nsec);
	}
};

TEST_F(Timestamps, AreReportedWithTheClockTheyAreReadFrom)
{
	const ibv_device_attr_ex attr = attributes(peer());

	if (!attr.completion_timestamp_mask) {
		EXPECT_FALSE(create(peer(), 4, timestamps)) << "not reported, but offered";
		EXPECT_TRUE(peer().is_rxe()) << "sirdma has timestamps";
		GTEST_SKIP() << not_reported("completion_timestamp_mask");
	}
	ASSERT_GT(attr.hca_core_clock, 0u);
	const uint64_t real = time_of(CLOCK_MONOTONIC), raw = raw_clock();
	ASSERT_GT(raw, 0u);
	await_condition([&] { return time_of(CLOCK_MONOTONIC) - real > 100000000; });
	const uint64_t raw_later = raw_clock(), real_later = time_of(CLOCK_MONOTONIC);
	const double ticks = static_cast<double>(raw_later - raw);
	const double ns = static_cast<double>(real_later - real);
	// hca_core_clock is in kHz. The clocks are not read at one time, and a guest may stand still between.
	EXPECT_NEAR(ticks * 1e6 / static_cast<double>(attr.hca_core_clock) / ns, 1.0, 0.2);

	ibv_values_ex nothing = {};
	EXPECT_EQ(ibv_query_rt_values_ex(peer().context.get(), &nothing), 0);
	EXPECT_EQ(nothing.comp_mask, 0u);
}

TEST_F(Timestamps, LieBetweenThePostAndThePoll)
{
	OFFERED_OR_SKIP(make(timestamps | IBV_WC_EX_WITH_IMM));
	uint64_t last = 0;

	for (uint64_t i = 0; i < 200 && !HasFailure(); i++) {
		const bool imm = i % 3 == 0;
		const uint64_t before = raw_clock();

		ASSERT_EQ(post_recv(pair_.b, {}, i), 0);
		ASSERT_EQ(post(pair_.a, {.op = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
					 .imm = static_cast<uint32_t>(i)}),
			  0);
		ASSERT_TRUE(begin());
		const uint64_t written = ibv_wc_read_completion_ts(cq());
		const uint64_t after = raw_clock();
		EXPECT_EQ(cq()->wr_id, i);
		EXPECT_EQ(ibv_wc_read_wc_flags(cq()), imm ? unsigned{IBV_WC_WITH_IMM} : 0u);
		if (imm) {
			EXPECT_EQ(ibv_wc_read_imm_data(cq()), htonl(static_cast<uint32_t>(i)));
		}
		EXPECT_GE(written, before);
		EXPECT_LE(written, after);
		EXPECT_GE(written, last);
		last = written;
		ibv_end_poll(cq());
		expect_wc(pair_.a.scq);
	}
}

TEST_F(Timestamps, OfTheTimeOfDay)
{
	OFFERED_OR_SKIP(make(timestamps | wallclock));
	constexpr uint64_t inaccuracy =
		50000000; // of comparing two clocks on a busy machine, in ns
	uint64_t last = 0, last_raw = 0;

	for (int round = 0; round < 20 && !HasFailure(); round++) {
		const uint64_t before = time_of(CLOCK_REALTIME);

		deliver(0, 5);
		ASSERT_TRUE(begin());
		for (int i = 0; i < 5; i++) {
			const uint64_t raw = ibv_wc_read_completion_ts(cq());
			const uint64_t written = ibv_wc_read_completion_wallclock_ns(cq());
			const uint64_t after = time_of(CLOCK_REALTIME);

			EXPECT_GE(written + inaccuracy, before);
			EXPECT_LE(written, after + inaccuracy);
			if (i) {
				EXPECT_NEAR(static_cast<double>(written - last),
					    static_cast<double>(raw - last_raw), 1e7);
			}
			last = written;
			last_raw = raw;
			ASSERT_EQ(ibv_next_poll(cq()), i < 4 ? 0 : ENOENT);
		}
		ibv_end_poll(cq());
	}
}

// A completion with a timestamp is longer in the ring; the queue still holds as many as were asked for.
TEST_F(Timestamps, AQueueHoldsAsManyAsItWasCreatedFor)
{
	OFFERED_OR_SKIP(make(timestamps, 0, 64));

	for (int round = 0; round < 5 && !HasFailure(); round++) {
		uint64_t last = 0;

		deliver(0, 64);
		ASSERT_TRUE(begin());
		for (uint64_t i = 0; i < 64; i++) {
			ASSERT_EQ(cq()->wr_id, i);
			EXPECT_GE(ibv_wc_read_completion_ts(cq()), last);
			last = ibv_wc_read_completion_ts(cq());
			ASSERT_EQ(ibv_next_poll(cq()), i < 63 ? 0 : ENOENT);
		}
		ibv_end_poll(cq());
	}
}

TEST_F(Timestamps, PlainPollingIgnoresThem)
{
	OFFERED_OR_SKIP(make(timestamps));
	for (uint64_t i = 0; i < 300 && !HasFailure(); i++) {
		deliver(i, 1);
		const ibv_wc wc = expect_wc(owner_.get());
		ASSERT_EQ(wc.wr_id, i);
		ASSERT_EQ(wc.wc_flags, 0u);
	}
}

} // namespace
} // namespace verbs
