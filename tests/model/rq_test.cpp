// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Receive queues that two QPs take from: nothing creates one yet, so the test makes
// the second QP receive from the first one's.
#include <atomic>
#include <set>
#include <thread>

#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 kWqes = 64;

class SharedRq : public Transport {
protected:
	SharedRq() : one(link()), two(link())
	{
		port_lock_init(&lock);
		set_shared(one->b, one->b);
		set_shared(two->b, one->b);
	}

	~SharedRq() override
	{
		for (auto *l : {one.get(), two.get()}) {
			snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);
			qp->rq = &qp->own_rq;
			qp->own_rq.lock = nullptr;
			snic_qp_put(qp);
		}
	}

	void set_shared(Qp &qp, Qp &owner)
	{
		snic_qp *to = snic_qp_get(b.host.dev(), qp.id);
		snic_qp *from = snic_qp_get(b.host.dev(), owner.id);

		from->own_rq.lock = &lock;
		to->rq = &from->own_rq;
		snic_qp_put(to);
		snic_qp_put(from);
	}

	struct port_lock lock;
	std::unique_ptr<Link> one, two;
};

/* A long message holds the first entry while the other QP completes later ones. */
TEST_F(SharedRq, CompletesOutOfOrder)
{
	constexpr u32 len = 300000;

	a.mem->fill(1);
	b.mem->fill(2);
	const u32 first = one->b.recv({b.sge(0, len)});
	const u32 second = one->b.recv({b.sge(len, 8)});

	one->a.post({.sges = {a.sge(0, len)}});
	ASSERT_TRUE(fabric.run_until(
		[&] {
			snic_qp *qp = snic_qp_get(b.host.dev(), one->b.id);
			const bool taken = qp->resp.rqe_valid;

			snic_qp_put(qp);
			return taken;
		},
		1'000'000'000));
	two->a.post({.sges = {a.sge(len, 8)}});

	const Wc short_one = wait_recv(two->b);
	EXPECT_FALSE(short_one.error);
	EXPECT_EQ(short_one.idx, second);
	EXPECT_EQ(short_one.len, 8u);

	const Wc long_one = wait_recv(one->b);
	EXPECT_FALSE(long_one.error);
	EXPECT_EQ(long_one.idx, first);
	EXPECT_EQ(long_one.len, len);
	EXPECT_EQ(memcmp(b.data(0), a.data(0), len + 8), 0);
}

/* Each entry goes to one message, over several laps, whoever receives it. */
TEST_F(SharedRq, GivesEachEntryOnce)
{
	for (u32 round = 0; round < 4 * kWqes; round += 8) {
		std::multiset<u32> posted, completed;

		for (u32 i = 0; i < 8; i++) {
			posted.insert(one->b.recv({b.sge(i * 64, 64)}));
			(i % 3 ? one : two)->a.post({.sges = {a.sge(i * 64, 64)}});
		}
		for (u32 i = 0; i < 8; i++) {
			const Wc wc = wait_recv((i % 3 ? one : two)->b);

			EXPECT_FALSE(wc.error);
			completed.insert(wc.idx);
		}
		ASSERT_EQ(completed, posted) << "round " << round;
	}
}

/* A QP that fails leaves the entries of the queue to the others. */
TEST_F(SharedRq, IsNotFlushedByOneOfItsQps)
{
	one->b.recv({b.sge(0, 64)});
	two->b.error();
	settle();
	EXPECT_FALSE(two->b.poll(false));

	one->a.post({.sges = {a.sge(0, 64)}});
	const Wc wc = wait_recv(one->b);
	EXPECT_FALSE(wc.error);
	EXPECT_EQ(wc.len, 64u);
}

/* Two threads: the queue's own lock keeps its entries apart. */
TEST_F(SharedRq, IsTakenFromByTwoThreads)
{
	snic_qp *qp = snic_qp_get(b.host.dev(), one->b.id);
	std::atomic<u32> taken[kWqes] = {};
	std::atomic<bool> go{false};

	for (u32 round = 0; round < 50; round++) {
		for (u32 i = 0; i < kWqes / 2; i++)
			one->b.recv({b.sge(0, 64)});
		std::vector<std::thread> threads;
		go = false;
		for (u32 t = 0; t < 2; t++) {
			threads.emplace_back([&] {
				snic_rqe rqe;

				while (!go)
					;
				while (snic_rq_fetch(qp->rq, &rqe) == SNIC_WQE_OK)
					taken[rqe.idx >> qp->rq->stride_shift]++;
			});
		}
		go = true;
		for (auto &t : threads)
			t.join();
	}
	for (u32 i = 0; i < kWqes; i++)
		EXPECT_EQ(taken[i], 25u) << i;
	snic_qp_put(qp);
}

} // namespace
