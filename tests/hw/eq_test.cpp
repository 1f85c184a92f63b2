// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fake_device.hpp"
#include "nop.hpp"

extern "C" {
#include "hw/event.h"
}

namespace sirdma::test
{
namespace
{

u64 aeqe(u32 code, u32 source, u32 id, u32 state, u32 wqe_idx = 0)
{
	// Bit positions as include/sirdma/cqe.h documents them, written out.
	return u64{id & 0x3ffff} | u64{wqe_idx} << 18 | u64{code} << 34 | u64{id >> 18} << 46 |
	       u64{source} << 50 | u64{state} << 54;
}

TEST(Aeq, ClassesOfEvents)
{
	auto of = [](u32 code, sirdma_ae_source source) {
		sirdma_async_event ev{};
		ev.code = static_cast<sirdma_ae_code>(code);
		ev.source = source;
		return sirdma_event_classify(&ev);
	};
	constexpr auto rq = SIRDMA_AE_SRC_RQ, sq = SIRDMA_AE_SRC_SQ;

	EXPECT_EQ(of(SIRDMA_AE_AMP_BOUNDS_VIOLATION, rq), SIRDMA_EVENT_QP_ACCESS);
	EXPECT_EQ(of(SIRDMA_AE_IB_INVALID_REQUEST, rq), SIRDMA_EVENT_QP_REQUEST);
	// A request of our own tells by its completion.
	EXPECT_EQ(of(SIRDMA_AE_AMP_BOUNDS_VIOLATION, sq), SIRDMA_EVENT_NONE);
	EXPECT_EQ(of(SIRDMA_AE_IB_INVALID_REQUEST, SIRDMA_AE_SRC_OUT_RR), SIRDMA_EVENT_NONE);
	// These are told whatever they come from.
	for (auto source : {rq, sq}) {
		EXPECT_EQ(of(SIRDMA_AE_QP_CATASTROPHIC, source), SIRDMA_EVENT_QP_FATAL);
		EXPECT_EQ(of(SIRDMA_AE_CONNECTION_ESTABLISHED, source), SIRDMA_EVENT_COMM_EST);
		EXPECT_EQ(of(SIRDMA_AE_QP_SUSPEND_COMPLETE, source), SIRDMA_EVENT_SQ_DRAINED);
		EXPECT_EQ(of(SIRDMA_AE_LAST_WQE_REACHED, source), SIRDMA_EVENT_LAST_WQE);
		EXPECT_EQ(of(SIRDMA_AE_CQ_CATASTROPHIC, source), SIRDMA_EVENT_CQ_ERROR);
		EXPECT_EQ(of(SIRDMA_AE_FUNCTION_CATASTROPHIC, source), SIRDMA_EVENT_DEVICE_FATAL);
		EXPECT_EQ(of(SIRDMA_AE_BAD_COMMAND, source), SIRDMA_EVENT_BAD_COMMAND);
		EXPECT_EQ(of(SIRDMA_AE_STALE_ARP_ENTRY, source), SIRDMA_EVENT_ADDRESS);
		EXPECT_EQ(of(SIRDMA_AE_PAGE_REQUEST, source), SIRDMA_EVENT_PAGES);
		EXPECT_EQ(of(0xffff, source), SIRDMA_EVENT_NONE);
	}
}

TEST(Aeq, EventsArriveDecodedAndInOrder)
{
	FakeHost host;

	host.dev.raise_aeqe(0xdead00beef, aeqe(0x105, 0x5, 0x5abcd, 6, 0x7fff), false);
	host.dev.raise_aeqe(2, aeqe(0x702, 0x2, 7, 0), false);
	host.dev.raise_irq(0);
	ASSERT_EQ(host.log.async.size(), 2u);
	auto &ev = host.log.async[0];
	EXPECT_EQ(ev.code, SIRDMA_AE_AMP_BAD_PD);
	EXPECT_EQ(ev.source, SIRDMA_AE_SRC_SQ);
	EXPECT_EQ(ev.id, 0x5abcdu);
	EXPECT_EQ(ev.state, SIRDMA_QPS_ERR);
	EXPECT_EQ(ev.wqe_idx, 0x7fffu);
	EXPECT_EQ(ev.cookie, 0xdead00beefu);
	EXPECT_FALSE(ev.overflow);
	EXPECT_EQ(host.log.async[1].code, SIRDMA_AE_CQ_CATASTROPHIC);
	EXPECT_EQ(host.log.async[1].cookie, 1u) << "a CQ's context is its cookie doubled";
	EXPECT_EQ(host.dev.aeq_pending(), 0u) << "all acknowledged";
}

TEST(Aeq, WrapsAndReportsLostEvents)
{
	FakeHost host({}, {.aeq_entries = 8});

	for (u32 i = 0; i < 100; i++)
		ASSERT_TRUE(host.dev.raise_aeqe(i, aeqe(0x801, 1, i, 3)));
	ASSERT_EQ(host.log.async.size(), 100u);
	for (u32 i = 0; i < 100; i++)
		EXPECT_EQ(host.log.async[i].cookie, i);
	// A full ring in one go.
	for (u32 i = 0; i < 8; i++)
		ASSERT_TRUE(host.dev.raise_aeqe(i, aeqe(0x801, 1, i, 3), false));
	EXPECT_FALSE(host.dev.raise_aeqe(8, 0, false));
	host.dev.raise_irq(0);
	EXPECT_EQ(host.log.async.size(), 108u);
	host.dev.raise_aeqe(0, aeqe(0x801, 1, 0, 3) | 1ull << 33);
	EXPECT_TRUE(host.log.async.back().overflow);
	EXPECT_EQ(host.hw.aeq.overflows, 1u);
}

TEST(Ceq, EventsReachTheirQueueOverManyLaps)
{
	FakeHost host({}, {.num_ceqs = 3, .ceq_entries = 4});

	for (u64 i = 1; i <= 100; i++)
		ASSERT_TRUE(host.dev.raise_ceqe(static_cast<u32>(i % 3), i));
	ASSERT_EQ(host.log.cqs.size(), 100u);
	for (u64 i = 1; i <= 100; i++)
		EXPECT_EQ(host.log.cqs[i - 1], i);
	// A cookie has 63 bits.
	host.dev.raise_ceqe(0, 0x7fff888012345678ull);
	EXPECT_EQ(host.log.cqs.back(), 0x7fff888012345678ull);
	for (u32 id = 0; id < 3; id++)
		EXPECT_EQ(host.dev.ceq_pending(id), 0u);
}

TEST(Ceq, HandlerRaisedWithinItsOwnCallbackIsNotLost)
{
	FakeHost host({}, {.ceq_entries = 8});
	u64 left = 50;

	host.log.on_cq = [&](u64) {
		if (left) {
			left--;
			EXPECT_TRUE(host.dev.raise_ceqe(0, 2));
		}
	};
	host.dev.raise_ceqe(0, 2);
	EXPECT_EQ(left, 0u);
	EXPECT_EQ(host.log.cqs.size(), 51u);
	EXPECT_EQ(host.dev.ceq_pending(0), 0u);
	host.log.on_cq = nullptr;
}

TEST(Ceq, OneCallTakesNoMoreThanItsBudget)
{
	FakeHost host({}, {.ceq_entries = 64, .aeq_entries = 64});

	for (u64 i = 0; i < 50; i++) {
		ASSERT_TRUE(host.dev.raise_ceqe(0, i << 1, false));
		ASSERT_TRUE(host.dev.raise_aeqe(i, aeqe(0x801, 1, 0, 3), false));
	}
	for (u32 vector : {0u, 1u}) {
		const auto taken = [&] {
			return vector ? host.log.cqs.size() : host.log.async.size();
		};
		// As many as the budget: the bus calls again.
		EXPECT_EQ(host.dev.call(vector, 10), 10u);
		EXPECT_EQ(taken(), 10u);
		EXPECT_EQ(host.dev.call(vector, 40), 40u);
		EXPECT_EQ(host.dev.call(vector, 40), 0u);
		EXPECT_EQ(taken(), 50u);
	}
	EXPECT_EQ(host.dev.ceq_pending(0), 0u) << "all acknowledged";
	EXPECT_EQ(host.dev.aeq_pending(), 0u);
}

// Of events that never end, each call takes its share and returns.
TEST(Ceq, EndlessEventsEndACall)
{
	FakeHost host({}, {.ceq_entries = 8});
	bool endless = true;

	host.log.on_cq = [&](u64) {
		if (endless)
			host.dev.raise_ceqe(0, 2, false);
	};
	host.dev.raise_ceqe(0, 2, false);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(host.dev.call(1, 16), 16u);
	endless = false;
	EXPECT_EQ(host.dev.call(1, 16), 1u);
	host.log.on_cq = nullptr;
}

TEST(Ceq, ManyRaisersLoseNothing)
{
	FakeHost host;
	std::vector<std::thread> threads;

	for (u64 t = 0; t < 4; t++) {
		threads.emplace_back([&, t] {
			for (u64 i = 0; i < 2000; i++)
				while (!host.dev.raise_ceqe(0, (t + 1) << 32 | i << 1))
					std::this_thread::yield();
		});
	}
	for (auto &t : threads)
		t.join();
	host.dev.raise_irq(1);
	EXPECT_EQ(host.log.cqs.size(), 8000u);
	std::array<u64, 5> next{};
	for (u64 cq : host.log.cqs)
		EXPECT_EQ((cq & 0xffffffff) >> 1, next[cq >> 32]++) << "in order for each";
}

TEST(Ceq, CommandCompletionsAndQueueEventsShareOneRing)
{
	FakeHost host({.async = true}, {.cqp_entries = 8, .ceq_entries = 16});
	std::vector<std::thread> threads;

	host.dev.set_script([](auto &cmd) -> std::optional<FakeDevice::Reply> {
		std::this_thread::sleep_for(std::chrono::microseconds(200));
		return cmd.op == SIRDMA_CQP_NOP ? std::optional(FakeDevice::Reply{}) : std::nullopt;
	});
	for (int t = 0; t < 3; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 200; i++)
				ASSERT_EQ(nop(host.hw), 0);
		});
	}
	for (u64 i = 0; i < 1000; i++)
		while (!host.dev.raise_ceqe(0, 0x1000))
			std::this_thread::yield();
	for (auto &t : threads)
		t.join();
	host.dev.raise_irq(1);
	EXPECT_EQ(host.log.cqs.size(), 1000u) << "the CCQ's own events stay inside";
}

} // namespace
} // namespace sirdma::test
