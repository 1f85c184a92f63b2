/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A poster, a poller and a device in threads of their own. Meant for
 * ThreadSanitizer too: everything shared must be ordered by the rings alone.
 */
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <semaphore>
#include <thread>

#include "rings.hpp"

namespace sirdma::test
{

namespace
{

/* Only a failure waits so long. */
constexpr std::chrono::seconds patience(60);

/* A device that sleeps until it is kicked. */
struct Sleeper {
	explicit Sleeper(TestQp &of) : qp(of) { of->send.doorbell.kick_by_call(kick, this, 0); }

	static void kick(void *self, uint32_t) noexcept
	{
		static_cast<Sleeper *>(self)->kicks.release();
	}

	/* Say that it sleeps. False: a request became valid meanwhile, which is @seen. */
	bool sleep(std::optional<SeenWqe> &seen)
	{
		put(qp.shadow.need_kick, 1);
		full_fence();
		seen = qp.sends.next_request();
		if (seen)
			put(qp.shadow.need_kick, 0);
		return !seen;
	}

	/* The next request; none when nobody kicks a device that sleeps. */
	std::optional<SeenWqe> next()
	{
		for (;;) {
			auto seen = qp.sends.next_request();

			if (seen || !sleep(seen))
				return seen;
			if (!kicks.try_acquire_for(patience))
				return std::nullopt;
			put(qp.shadow.need_kick, 0);
		}
	}

	TestQp &qp;
	std::counting_semaphore<> kicks{0};
};

/* A device whose first kick returns when the test lets it. */
struct BusyDevice {
	explicit BusyDevice(TestQp &of) : qp(of) { of->send.doorbell.kick_by_call(run, this, 0); }

	static void run(void *self, uint32_t) noexcept
	{
		auto &device = *static_cast<BusyDevice *>(self);

		put(device.qp.shadow.need_kick, 0);
		put(device.qp.shadow.rq_need_kick, 0);
		device.runs.release();
		device.done.acquire();
	}

	TestQp &qp;
	std::binary_semaphore runs{0}, done{0};
};

/* While one thread's @post runs the device, another's does not wait for it. */
void expect_no_wait(const std::function<void(TestQp &)> &post)
{
	TestQp qp;
	BusyDevice device(qp);

	qp.shadow.need_kick = htole64(1);
	qp.shadow.rq_need_kick = htole64(1);
	auto first = std::async(std::launch::async, [&] { post(qp); });
	EXPECT_TRUE(device.runs.try_acquire_for(patience)) << "no kick";
	auto second = std::async(std::launch::async, [&] { post(qp); });
	EXPECT_EQ(second.wait_for(patience), std::future_status::ready);
	EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
	device.done.release();
}

} // namespace

TEST(Concurrency, AKickDoesNotHoldUpOtherPosters)
{
	expect_no_wait([](TestQp &qp) {
		auto sges = make_sges(1);

		EXPECT_EQ(post(*qp, make_send(sges)), 0);
	});
}

TEST(Concurrency, AKickDoesNotHoldUpOthersThatPostAList)
{
	expect_no_wait([](TestQp &qp) {
		const sirdma_send work = {.opcode = SIRDMA_WR_SEND};

		qp->send.start();
		EXPECT_EQ(qp->send.take(work), 0);
		EXPECT_EQ(qp->send.complete(), 0);
	});
}

TEST(Concurrency, AKickDoesNotHoldUpOtherReceivers)
{
	expect_no_wait([](TestQp &qp) {
		auto sges = make_sges(1);

		EXPECT_EQ(post_recv(*qp, 1, sges), 0);
	});
}

/* A thread waits for events, or requests one, while another is between ibv_start_poll() and ibv_end_poll(). */
TEST(Concurrency, EventsDoNotWaitForAnExtendedPoll)
{
	TestQp qp;
	TestCq cq;
	Completion c;
	auto sges = make_sges(1);

	ASSERT_EQ(post(*qp, make_send(sges)), 0);
	const auto seen = qp.sends.next_request();
	ASSERT_TRUE(seen);
	cq.device.write(qp.completion_of(*seen));
	ASSERT_TRUE(cq->begin(c));
	auto armed = std::async(std::launch::async, [&] { cq->arm(false); });
	EXPECT_EQ(armed.wait_for(patience), std::future_status::ready);
	auto taken = std::async(std::launch::async, [&] { cq->event_taken(); });
	EXPECT_EQ(taken.wait_for(patience), std::future_status::ready);
	cq->end();
	armed.get();
	taken.get();
	EXPECT_TRUE(SIRDMA_GET(SIRDMA_CQ_SHADOW_ARM_NEXT, get(cq.shadow.arm)));
}

/* Two threads may ring in another order than they posted: none of their requests is left lying. */
TEST(Concurrency, PostersWakeADeviceThatSleeps)
{
	constexpr uint64_t threads = 2;
	constexpr uint64_t each = 20000;
	TestQp qp({.sq_quanta = 512});
	TestCq cq(64);
	Sleeper device(qp);
	std::atomic<bool> failed{false};
	std::vector<std::thread> posters;
	std::vector<uint64_t> completed(threads);

	for (uint64_t t = 0; t < threads; ++t) {
		posters.emplace_back([&, t] {
			auto sges = make_sges(1);

			for (uint64_t i = 0; i < each && !failed;) {
				ibv_send_wr wr = make_send(sges, t << 32 | i);
				const ibv_send_wr *bad;

				if (qp->send.post(&wr, &bad) == 0)
					++i;
				else
					std::this_thread::yield();
			}
		});
	}
	for (uint64_t n = 0; n < threads * each; ++n) {
		const auto seen = device.next();

		if (!seen) {
			ADD_FAILURE() << "asleep with " << n << " requests done";
			failed = true;
			break;
		}
		cq.device.write(qp.completion_of(*seen));
		for (const ibv_wc &wc : cq.poll(4))
			EXPECT_EQ(wc.wr_id & 0xffffffff, completed[wc.wr_id >> 32]++);
	}
	for (auto &poster : posters)
		poster.join();
	EXPECT_EQ(completed, std::vector<uint64_t>(threads, each));
}

TEST(Concurrency, PosterPollerAndDeviceAgree)
{
	constexpr uint64_t count = 50000;
	TestQp qp({.sq_quanta = 512, .max_send_sge = 4});
	TestCq cq(64);
	std::atomic<bool> stop{false};

	std::thread device([&] {
		while (!stop) {
			/* Room for this one, with an element to spare. */
			if (cq.device.in_use() >= 60) {
				std::this_thread::yield();
				continue;
			}
			if (auto seen = qp.sends.next_request()) {
				if (seen->signaled)
					cq.device.write(qp.completion_of(*seen));
			} else {
				std::this_thread::yield();
			}
		}
	});
	std::thread poster([&] {
		for (uint64_t i = 0; i < count;) {
			auto sges = make_sges(1 + i % 4);
			const unsigned flags = i % 3 == 2 ? IBV_SEND_SIGNALED : 0;
			ibv_send_wr wr = make_send(sges, i, IBV_WR_SEND, flags);
			const ibv_send_wr *bad;

			if (qp->send.post(&wr, &bad) == 0)
				++i;
			else
				std::this_thread::yield();
		}
	});

	uint64_t expected = 2;

	while (expected < count) {
		for (const ibv_wc &wc : cq.poll(16)) {
			ASSERT_EQ(wc.wr_id, expected);
			ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
			expected += 3;
		}
	}
	poster.join();
	stop = true;
	device.join();
}

TEST(Concurrency, ManyPostersShareAQueue)
{
	constexpr int threads = 3;
	constexpr int each = 5000;
	TestQp qp({.sq_quanta = 512});
	TestCq cq(64);
	std::atomic<int> left{threads};
	std::vector<std::thread> posters;
	std::vector<int> seen_per_thread(threads);

	for (int t = 0; t < threads; ++t) {
		posters.emplace_back([&, t] {
			auto sges = make_sges(2);

			for (int i = 0; i < each;) {
				ibv_send_wr wr = make_send(sges, static_cast<uint64_t>(t));
				const ibv_send_wr *bad;

				if (qp->send.post(&wr, &bad) == 0)
					++i;
				else
					std::this_thread::yield();
			}
			--left;
		});
	}
	for (;;) {
		const bool done = left == 0;
		auto seen = qp.sends.next_request();

		if (seen) {
			cq.device.write(qp.completion_of(*seen));
			for (const ibv_wc &wc : cq.poll(4))
				++seen_per_thread[wc.wr_id];
		} else if (done) {
			break;
		}
	}
	for (auto &poster : posters)
		poster.join();
	for (int n : seen_per_thread)
		EXPECT_EQ(n, each);
}

} // namespace sirdma::test
