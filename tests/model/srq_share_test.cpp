// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Shares of a shared receive queue that is short of WQEs: many QPs receive from one, and its consumer posts fewer than arrive.
#include "transport.hpp"

#include <algorithm>

extern "C" {
#include "model/srq.h"
}

using namespace sirdma::test;

namespace
{

class SharedRqShares : public Transport {
protected:
	static constexpr u32 qps = 64;

	SharedRqShares() : srq(b, 64), got(qps) {}

	void connect(u32 n, QpOptions opts = {})
	{
		QpOptions receiver = opts;

		receiver.srq = srq.id;
		for (u32 i = 0; i < n; i++)
			links.push_back(std::make_unique<Link>(a, b, opts, receiver, 64));
	}

	void keep_sending(u32 depth)
	{
		for (u32 n = 0; n < depth; n++)
			for (const auto &link : links)
				link->a.post({.sges = {a.sge(0, 64)}});
	}

	// Take completions; each sender posts one message for each that arrived.
	void collect(bool again = true)
	{
		for (u32 i = 0; i < links.size(); i++) {
			while (const auto wc = links[i]->b.poll(false)) {
				EXPECT_FALSE(wc->error);
				got[i]++;
				total++;
			}
			while (const auto wc = links[i]->a.poll(true)) {
				EXPECT_FALSE(wc->error);
				if (again)
					links[i]->a.post({.sges = {a.sge(0, 64)}});
			}
		}
	}

	void refill(u32 wqes)
	{
		for (u32 i = 0; i < wqes; i++)
			posted += !srq.recv(i, {b.sge(0, 64)});
	}

	// Jain's index of what the QPs from @first on got: 1 when all are equal, 1/n when one has everything.
	double jain(u32 first = 0) const
	{
		double sum = 0, squares = 0;

		for (u32 i = first; i < got.size(); i++) {
			sum += got[i];
			squares += double(got[i]) * got[i];
		}
		return sum * sum / (double(got.size() - first) * squares);
	}

	u32 waiting()
	{
		snic_srq_share nobody{};
		snic_srq *of = snic_srq_attach(b.host.dev(), srq.id);
		const u32 n = of->waiting;

		snic_srq_detach(of, &nobody);
		return n;
	}

	Srq srq;
	std::vector<std::unique_ptr<Link>> links;
	std::vector<u32> got; // messages of each QP
	u32 total = 0, posted = 0;
};

struct Refill {
	const char *name;
	u32 wqes; // posted at once
	u64 period_ns;
	u32 depth; // messages that each sender keeps in flight
};

class SlowConsumer : public SharedRqShares, public ::testing::WithParamInterface<Refill> {};

TEST_P(SlowConsumer, GivesEqualShares)
{
	const Refill &how = GetParam();

	connect(qps);
	keep_sending(how.depth);
	for (u32 n = 0; posted < qps * 40; n++) {
		ASSERT_LT(n, 100'000u) << total;
		refill(how.wqes);
		settle(how.period_ns);
		collect();
	}
	EXPECT_GE(jain(), 0.95);
	EXPECT_GE(*std::min_element(got.begin(), got.end()), 35u);
	/* The WQEs are not kept from those who come. */
	EXPECT_GE(total + 64, posted);
}

INSTANTIATE_TEST_SUITE_P(Shares, SlowConsumer,
			 ::testing::Values(Refill{"OneAtATime", 1, 100'000, 4},
					   Refill{"OneSlowly", 1, 2'000'000, 4},
					   Refill{"OneFast", 1, 10'000, 4},
					   Refill{"OneAtATimeDeep", 1, 100'000, 64},
					   Refill{"OnePerRnrTime", 1, 640'000, 4},
					   Refill{"Batches", 16, 3'000'000, 16},
					   Refill{"LargeBatches", 48, 5'000'000, 64}),
			 [](const auto &info) { return std::string(info.param.name); });

/* Each WQE waits for a QP that comes again, and each does so within the longest backoff, 2 ms. */
TEST_F(SharedRqShares, KeepFewBuffersBusy)
{
	connect(qps);
	keep_sending(4);
	refill(4);
	for (u32 n = 0; n < 10'000; n++) {
		const u32 before = total;

		settle(100'000);
		collect();
		refill(total - before);
	}
	/* One second; each of the four comes again after 2 ms at most. */
	EXPECT_GE(total, 4u * 1000 / 2);
	EXPECT_GE(jain(), 0.95);
}

/* Peers that are gone do not come again; what was kept for them goes to the others. */
TEST_F(SharedRqShares, WqesKeptForDeadPeersGoToTheOthers)
{
	constexpr u32 gone = qps / 2;

	connect(qps);
	keep_sending(4);
	settle(5'000'000);
	EXPECT_EQ(waiting(), qps);
	for (u32 i = 0; i < gone; i++)
		links[i]->a.error();
	for (u32 n = 0; n < 640; n++) {
		refill(1);
		settle(1'000'000);
		for (u32 i = gone; i < qps; i++) {
			while (links[i]->b.poll(false))
				got[i]++, total++;
			while (links[i]->a.poll(true))
				links[i]->a.post({.sges = {a.sge(0, 64)}});
		}
	}
	EXPECT_GE(total, 620u);
	EXPECT_GE(jain(gone), 0.95);
}

/* A QP that fails or is destroyed ceases to wait at once. */
TEST_F(SharedRqShares, FailedOrDestroyedQpEndsItsWait)
{
	connect(4);
	keep_sending(1);
	settle(3'000'000);
	EXPECT_EQ(waiting(), 4u);
	links[0]->b.error();
	settle();
	EXPECT_EQ(waiting(), 3u);
	EXPECT_EQ(links[1]->b.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
	EXPECT_EQ(waiting(), 2u);
	links.erase(links.begin() + 2);
	EXPECT_EQ(waiting(), 1u);
	refill(1);
	EXPECT_FALSE(wait_recv(links[2]->b).error);
	EXPECT_EQ(waiting(), 0u);
}

/* With enough WQEs nobody waits, and one QP may have all of them. */
TEST_F(SharedRqShares, DoNotMatterWhereThereIsEnough)
{
	connect(2);
	for (u32 n = 0; n < 1000; n++) {
		refill(1);
		links[0]->a.post({.sges = {a.sge(0, 64)}});
		EXPECT_FALSE(wait_recv(links[0]->b).error);
		collect(false);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u);
	EXPECT_EQ(waiting(), 0u);
}

/* A queue pair of rdma_cm asks its peer to wait for 655 ms: WQEs are not kept from it. */
TEST_F(SharedRqShares, LongRnrTimersLeaveNoWqeUnused)
{
	QpOptions slow;

	slow.min_rnr_timer = 0;
	connect(32, slow);
	refill(16);
	keep_sending(1);
	settle(1'000'000);
	collect(false);
	EXPECT_EQ(total, 16u); // the others were refused
	refill(16);
	// Those that were served go on at once, although others were refused.
	for (u32 i = 0; i < links.size(); i++)
		if (got[i])
			links[i]->a.post({.sges = {a.sge(0, 64)}});
	settle(1'000'000);
	collect(false);
	EXPECT_EQ(total, 32u);
	refill(16);
	settle(700'000'000);
	collect(false);
	EXPECT_EQ(total, 48u);
}

/* A peer that gives up after some refusals is refused only when there is no WQE. */
TEST_F(SharedRqShares, FewRetriesAreNotSpentOnTurns)
{
	QpOptions few;

	few.rnr_retry = 1;
	few.min_rnr_timer = 1; // 10 us
	connect(8);
	keep_sending(1);
	settle(1'000'000);
	EXPECT_EQ(waiting(), 8u);
	for (const auto &link : links)
		link->a.error(); // gone, and the queue waits for them
	const auto gone = std::move(links);
	links.clear();
	connect(1, few);
	refill(8);
	for (int i = 0; i < 8; i++)
		links[0]->a.post({.sges = {a.sge(0, 64)}});
	settle(5'000'000);
	collect(false);
	EXPECT_EQ(total, 8u);
}

/* More QPs wait than the queue has WQEs: half of it is kept, and the rest is for those who come. */
TEST_F(SharedRqShares, HalfOfTheQueueIsForThoseWhoCome)
{
	constexpr u32 late = 4;

	connect(qps + late);
	for (u32 i = 0; i < qps; i++)
		links[i]->a.post({.sges = {a.sge(0, 64)}});
	settle(1'000'000);
	EXPECT_EQ(waiting(), qps);
	for (u32 i = 0; i < qps; i++)
		links[i]->a.error();
	refill(64);
	for (u32 n = 0; n < 8; n++)
		for (u32 i = qps; i < qps + late; i++)
			links[i]->a.post({.sges = {a.sge(0, 64)}});
	settle(2'000'000);
	u32 arrived = 0;
	for (u32 i = qps; i < qps + late; i++)
		while (links[i]->b.poll(false))
			arrived++;
	EXPECT_GE(arrived, 30u);
}

} // namespace
