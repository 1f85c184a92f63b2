/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A poster, a poller and a device in threads of their own. Meant for
 * ThreadSanitizer too: everything shared must be ordered by the rings alone.
 */
#include <atomic>
#include <cerrno>
#include <thread>

#include "rings.hpp"

namespace sirdma::test
{

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
