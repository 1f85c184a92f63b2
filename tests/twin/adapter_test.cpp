// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "adapter.hpp"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace sirdma::twin::test
{

namespace
{

// Interrupts alone: there is no device behind it.
class Interrupts : public Adapter {
public:
	Interrupts() { EXPECT_EQ(create_device({}, 4096, 64, 0, nullptr), 0); }
	~Interrupts() override { destroy_device(); }

	using Adapter::interrupt;
	using Adapter::raise;

	void run_qp(u32) noexcept override {}
	bool poll() noexcept override { return false; }
	void expect_event() noexcept override {}

private:
	u32 transmit(snic_burst &burst) noexcept override { return burst.npkts; }
	snic_burst *burst() noexcept override { return nullptr; }
};

struct Handler {
	std::atomic<u32> inside{0}, overlaps{0};
	std::atomic<u64> raised{0}, seen{0};

	static u32 call(void *ctx, u32, u32 budget)
	{
		auto &self = *static_cast<Handler *>(ctx);

		self.overlaps += self.inside.fetch_add(1) != 0;
		const u64 now = self.raised.load(), before = self.seen.exchange(now);
		std::this_thread::yield();
		self.inside.fetch_sub(1);
		return static_cast<u32>(std::min<u64>(now - before, budget));
	}
};

TEST(TwinAdapter, AVectorsHandlerRunsInOneThreadAtATimeAndMissesNothing)
{
	constexpr u64 threads = 4, rounds = 2000;
	Interrupts adapter;
	sirdma_bus *bus = adapter.bus();
	Handler handlers[2];
	std::vector<std::thread> raisers;

	for (u32 v = 0; v < 2; v++)
		ASSERT_EQ(bus->ops->irq_request(bus, v, Handler::call, &handlers[v]), 0);
	for (u64 t = 0; t < threads; t++) {
		raisers.emplace_back([&] {
			for (u64 i = 0; i < rounds; i++) {
				handlers[i % 2].raised++;
				adapter.raise(static_cast<u32>(i % 2));
				adapter.interrupt();
			}
		});
	}
	for (auto &t : raisers)
		t.join();
	for (u32 v = 0; v < 2; v++) {
		EXPECT_EQ(handlers[v].overlaps, 0u) << "vector " << v;
		EXPECT_EQ(handlers[v].seen, threads * rounds / 2) << "vector " << v;
		bus->ops->irq_free(bus, v);
	}
}

} // namespace

} // namespace sirdma::twin::test
