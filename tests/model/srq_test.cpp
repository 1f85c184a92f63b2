// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Shared receive queues: two QPs receive from one.
#include <atomic>
#include <set>
#include <thread>

#include "transport.hpp"

extern "C" {
#include "model/qp.h"
#include "model/srq.h"
}

using namespace sirdma::test;

namespace
{

class SharedRq : public Transport {
protected:
	SharedRq() : srq(b), one(shared_link(srq)), two(shared_link(srq)) {}

	std::unique_ptr<Link> shared_link(Srq &queue, QpOptions opts = {})
	{
		QpOptions receiver = opts;

		receiver.srq = queue.id;
		return std::make_unique<Link>(a, b, opts, receiver);
	}

	// @qp has fetched a WQE for a message that is not complete.
	bool wait_fetched(Qp &qp)
	{
		return fabric.run_until(
			[&] {
				snic_qp *of = snic_qp_get(b.host.dev(), qp.id);
				const bool fetched = of->resp.rqe_valid;

				snic_qp_put(of);
				return fetched;
			},
			1'000'000'000);
	}

	u64 limit()
	{
		sirdma_cqp_wqe wqe{};
		u64 value = ~0ull;

		wqe.hdr = SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, srq.id);
		EXPECT_EQ(snic_cqp_query_srq(b.host.dev(), &wqe, &value), SIRDMA_CQP_OK);
		return value;
	}

	// The next asynchronous event of node b; @code NONE when there is none.
	TestAeqe event() { return b.drv.next_aeqe().value_or(TestAeqe{}); }
	// The next one that tells of no established connection.
	TestAeqe other_event()
	{
		TestAeqe ae;

		do
			ae = event();
		while (ae.code == SIRDMA_AE_CONNECTION_ESTABLISHED);
		return ae;
	}

	Srq srq;
	std::unique_ptr<Link> one, two;
};

/* A long message holds the first WQE while the other QP completes later ones. */
TEST_F(SharedRq, CompletesOutOfOrder)
{
	constexpr u32 len = 300000;

	a.mem->fill(1);
	b.mem->fill(2);
	ASSERT_EQ(srq.recv(1, {b.sge(0, len)}), 0);
	ASSERT_EQ(srq.recv(2, {b.sge(len, 8)}), 0);

	one->a.post({.sges = {a.sge(0, len)}});
	ASSERT_TRUE(wait_fetched(one->b));
	two->a.post({.sges = {a.sge(len, 8)}});

	const Wc short_one = wait_recv(two->b);
	EXPECT_FALSE(short_one.error);
	EXPECT_EQ(short_one.wr_id, 2u);
	EXPECT_EQ(short_one.len, 8u);

	const Wc long_one = wait_recv(one->b);
	EXPECT_FALSE(long_one.error);
	EXPECT_EQ(long_one.wr_id, 1u);
	EXPECT_EQ(long_one.len, len);
	EXPECT_EQ(memcmp(b.data(0), a.data(0), len + 8), 0);
}

/* Each WQE goes to one message, over several laps, on either QP. */
TEST_F(SharedRq, GivesEachWqeOnce)
{
	u64 id = 0;

	for (u32 round = 0; round < 4 * srq.queue.size; round += 8) {
		std::multiset<u64> posted, completed;

		for (u32 i = 0; i < 8; i++) {
			posted.insert(++id);
			ASSERT_EQ(srq.recv(id, {b.sge(i * 64, 64)}), 0);
			(i % 3 ? one : two)->a.post({.sges = {a.sge(i * 64, 64)}});
		}
		for (u32 i = 0; i < 8; i++) {
			const Wc wc = wait_recv((i % 3 ? one : two)->b);

			EXPECT_FALSE(wc.error);
			completed.insert(wc.wr_id);
		}
		ASSERT_EQ(completed, posted) << "round " << round;
	}
}

/* The ring is full while none of its WQEs is fetched, and has room again for each that was. */
TEST_F(SharedRq, HasRoomAgainForEachWqeFetched)
{
	for (u32 i = 0; i < srq.queue.size; i++)
		ASSERT_EQ(srq.recv(i, {b.sge(0, 64)}), 0);
	EXPECT_EQ(srq.recv(99, {b.sge(0, 64)}), -ENOMEM);
	one->a.post({.sges = {a.sge(0, 64)}});
	two->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(one->b);
	wait_recv(two->b);
	EXPECT_EQ(srq.recv(100, {b.sge(0, 64)}), 0);
	EXPECT_EQ(srq.recv(101, {b.sge(0, 64)}), 0);
	EXPECT_EQ(srq.recv(102, {b.sge(0, 64)}), -ENOMEM);
}

/* A QP that finds the queue empty tells its peer to wait, and goes on when there is a WQE. */
TEST_F(SharedRq, MakesThePeerWaitWhenItIsEmpty)
{
	one->a.post({.sges = {a.sge(0, 64)}});
	settle(3'000'000);
	EXPECT_GT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u);
	EXPECT_TRUE(silent(one->b));

	ASSERT_EQ(srq.recv(7, {b.sge(0, 64)}), 0);
	const Wc wc = wait_recv(one->b);
	EXPECT_FALSE(wc.error);
	EXPECT_EQ(wc.wr_id, 7u);
	expect_ok(wait_send(one->a), SIRDMA_OP_SEND);
}

/* A WRITE with immediate data consumes a WQE, too. */
TEST_F(SharedRq, GivesAWqeToAWriteWithImmediate)
{
	ASSERT_EQ(srq.recv(5, {}), 0);
	one->a.post({.op = SIRDMA_OP_WRITE,
		     .sges = {a.sge(0, 64)},
		     .remote = b.va(0),
		     .rkey = b.mr.stag(),
		     .imm = 0x1234});
	const Wc wc = wait_recv(one->b);
	EXPECT_FALSE(wc.error);
	EXPECT_EQ(wc.wr_id, 5u);
	EXPECT_EQ(wc.imm, 0x1234u);
}

/* A QP that fails leaves the WQEs of the queue to the others, and reports its last WQE. */
TEST_F(SharedRq, IsNotFlushedByOneOfItsQps)
{
	ASSERT_EQ(srq.recv(1, {b.sge(0, 64)}), 0);
	two->b.error();
	settle();
	EXPECT_FALSE(two->b.poll(false));
	const TestAeqe ae = event();
	EXPECT_EQ(ae.code, u32{SIRDMA_AE_LAST_WQE_REACHED});
	EXPECT_EQ(ae.id, two->b.id);
	two->b.error();
	EXPECT_EQ(event().code, u32{SIRDMA_AE_NONE}) << "told once";

	one->a.post({.sges = {a.sge(0, 64)}});
	const Wc wc = wait_recv(one->b);
	EXPECT_FALSE(wc.error);
	EXPECT_EQ(wc.len, 64u);
}

/* The WQE that a QP has fetched completes before the event that says that it was the last. */
TEST_F(SharedRq, CompletesTheFetchedWqeBeforeTheLastWqeEvent)
{
	constexpr u32 len = 300000;

	ASSERT_EQ(srq.recv(1, {b.sge(0, len)}), 0);
	one->a.post({.sges = {a.sge(0, len)}});
	ASSERT_TRUE(wait_fetched(one->b));
	one->b.error();
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_LAST_WQE_REACHED});

	const auto wc = one->b.poll(false);
	ASSERT_TRUE(wc);
	expect_error(*wc, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(wc->wr_id, 1u);
}

/* A malformed WQE fails the QP that fetched it, and only that; it completes with its own wr_id. */
TEST_F(SharedRq, AMalformedWqeFailsTheQpThatFetchedIt)
{
	ASSERT_EQ(srq.recv(7, {b.sge(0, 64)}), 0);
	one->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(one->b);
	ASSERT_EQ(srq.recv(1, {b.sge(0, 64)}), 0);
	srq.queue.ring[1 << Srq::shift].hdr |= SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, 9);
	ASSERT_EQ(srq.recv(2, {b.sge(0, 64)}), 0);
	one->a.post({.sges = {a.sge(0, 64)}});
	const Wc bad = wait_recv(one->b);
	expect_error(bad, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	EXPECT_EQ(bad.wr_id, 1u);
	EXPECT_EQ(one->b.state(), SIRDMA_QPS_ERR);

	two->a.post({.sges = {a.sge(0, 64)}});
	const Wc good = wait_recv(two->b);
	EXPECT_FALSE(good.error);
	EXPECT_EQ(good.wr_id, 2u);
}

/* WQEs name memory of the queue's protection domain, which may differ from the QP's. */
TEST_F(SharedRq, TakesMemoryOfItsOwnProtectionDomain)
{
	Srq foreign(b, 64, 2);
	auto third = shared_link(foreign);

	ASSERT_EQ(foreign.recv(1, {b.sge(0, 64)}), 0);
	third->a.post({.sges = {a.sge(0, 64)}});
	expect_error(wait_recv(third->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);

	MrParams mr = b.mr;
	mr.idx = 2;
	mr.pd = 2;
	b.drv.describe(mr, *b.mem, 1);
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	auto fourth = shared_link(foreign);
	ASSERT_EQ(foreign.recv(2, {{b.va(0), 64, mr.stag()}}), 0);
	fourth->a.post({.sges = {a.sge(0, 64)}});
	EXPECT_FALSE(wait_recv(fourth->b).error);
	/* WRITEs name memory of the QP's own. */
	fourth->a.post({.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(0, 64)},
			.remote = b.va(0),
			.rkey = b.mr.stag()});
	expect_ok(wait_send(fourth->a), SIRDMA_OP_SEND);
	expect_ok(wait_send(fourth->a), SIRDMA_OP_WRITE);
}

/* The limit raises one event when fewer WQEs are left, and no other until it is armed again. */
TEST_F(SharedRq, TellsOnceThatFewWqesAreLeft)
{
	for (u32 i = 0; i < 6; i++)
		ASSERT_EQ(srq.recv(i, {b.sge(0, 64)}), 0);
	EXPECT_EQ(srq.arm(5), SIRDMA_CQP_OK);
	EXPECT_EQ(limit(), 5u);
	one->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(one->b);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_NONE}) << "five are left";

	two->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(two->b);
	const TestAeqe ae = other_event();
	EXPECT_EQ(ae.code, u32{SIRDMA_AE_SRQ_LIMIT});
	EXPECT_EQ(ae.id, srq.id);
	EXPECT_EQ(ae.event_ctx, 0x5e9000u + srq.id);
	EXPECT_EQ(limit(), 0u);

	one->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(one->b);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_NONE});

	/* Three are left: at once. */
	EXPECT_EQ(srq.arm(4), SIRDMA_CQP_OK);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_SRQ_LIMIT});
	EXPECT_EQ(srq.arm(3), SIRDMA_CQP_OK);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_NONE});
	EXPECT_EQ(srq.arm(0), SIRDMA_CQP_OK);
	one->a.post({.sges = {a.sge(0, 64)}});
	wait_recv(one->b);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_NONE}) << "disarmed";
}

/* A user who arms the limit of an empty queue without end does not crowd out events of others. */
TEST_F(SharedRq, TellsOnceMoreHoweverOftenItIsArmed)
{
	for (u32 i = 0; i < 2000; i++)
		ASSERT_EQ(srq.arm(1), SIRDMA_CQP_OK);
	one->b.error();
	settle();
	EXPECT_EQ(event().code, u32{SIRDMA_AE_SRQ_LIMIT});
	EXPECT_EQ(event().code, u32{SIRDMA_AE_LAST_WQE_REACHED});
	EXPECT_EQ(event().code, u32{SIRDMA_AE_SRQ_LIMIT});
	EXPECT_EQ(event().code, u32{SIRDMA_AE_NONE});
	for (u32 i = 0; i < 5; i++) {
		ASSERT_EQ(srq.arm(1), SIRDMA_CQP_OK);
		ASSERT_EQ(event().code, u32{SIRDMA_AE_SRQ_LIMIT}) << "each that was acknowledged";
	}
}

/* The limit counts WQEs across the end of the ring, where those of the next lap follow. */
TEST_F(SharedRq, CountsWqesAcrossTheEndOfTheRing)
{
	for (u32 i = 0; i < srq.queue.size - 2; i++) {
		ASSERT_EQ(srq.recv(i, {b.sge(0, 64)}), 0);
		one->a.post({.sges = {a.sge(0, 64)}});
		wait_recv(one->b);
	}
	for (u32 i = 0; i < 5; i++)
		ASSERT_EQ(srq.recv(i, {b.sge(0, 64)}), 0);
	other_event();
	EXPECT_EQ(srq.arm(5), SIRDMA_CQP_OK);
	EXPECT_EQ(limit(), 5u);
	EXPECT_EQ(srq.arm(6), SIRDMA_CQP_OK);
	EXPECT_EQ(limit(), 0u);
	EXPECT_EQ(other_event().code, u32{SIRDMA_AE_SRQ_LIMIT});
}

TEST_F(SharedRq, IsNotDestroyedUnderItsQps)
{
	EXPECT_EQ(srq.destroy(), SIRDMA_CQP_IN_USE);
	one.reset();
	EXPECT_EQ(srq.destroy(), SIRDMA_CQP_IN_USE);
	two.reset();
	EXPECT_EQ(srq.destroy(), SIRDMA_CQP_OK);
	EXPECT_EQ(srq.destroy(), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(srq.arm(1), SIRDMA_CQP_NO_OBJECT);
}

TEST_F(SharedRq, CommandsCheckWhatTheyAreGiven)
{
	EXPECT_EQ(srq.create(64, 1), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(srq.arm(srq.queue.size + 1), SIRDMA_CQP_BAD_PARAM);

	const u32 id = srq.id;
	srq.id = 63;
	EXPECT_EQ(srq.create(0, 1), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(srq.create(48, 1), SIRDMA_CQP_BAD_PARAM) << "no power of two";
	EXPECT_EQ(srq.create(SIRDMA_MAX_SRQ_QUANTA, 1), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(srq.create(64, b.host.options().cfg.max_pds), SIRDMA_CQP_BAD_INDEX);
	srq.id = 0;
	EXPECT_EQ(srq.create(64, 1), SIRDMA_CQP_BAD_INDEX) << "0 is none";
	srq.id = b.host.options().cfg.max_srqs;
	EXPECT_EQ(srq.create(64, 1), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(srq.arm(0), SIRDMA_CQP_BAD_INDEX);
	srq.id = 63;
	for (sirdma_dma_mem *mem : {&srq.ring, &srq.area}) {
		const DmaSpace::ExpectFaults faults(b.host.dma());
		const u64 pa = std::exchange(mem->pa, 0xdead0000'00000000ull);

		EXPECT_EQ(srq.create(64, 1), SIRDMA_CQP_BAD_ADDRESS);
		mem->pa = pa + 8;
		EXPECT_EQ(srq.create(64, 1), SIRDMA_CQP_BAD_ADDRESS) << "alignment";
		mem->pa = pa;
	}
	srq.id = id;
}

/* A QP with one has no receive queue of its own, is of a type that may have one, and names one there is. */
TEST_F(SharedRq, QpsCheckWhatTheyAreGiven)
{
	Qp qp(b, {.srq = srq.id});

	EXPECT_EQ(qp.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(qp.context()->srq, srq.id);
	EXPECT_EQ(qp.context()->rq_wqes, 0u);
	EXPECT_EQ(qp.destroy(), SIRDMA_CQP_OK);

	qp.opts.rq_wqes = 64;
	EXPECT_EQ(qp.create(qp.scq.id, qp.rcq.id), SIRDMA_CQP_BAD_PARAM);
	qp.opts.rq_wqes = 0;
	qp.opts.type = SIRDMA_QPT_UC;
	EXPECT_EQ(qp.create(qp.scq.id, qp.rcq.id), SIRDMA_CQP_BAD_PARAM);
	qp.opts.type = SIRDMA_QPT_RC;
	qp.opts.srq = 62;
	EXPECT_EQ(qp.create(qp.scq.id, qp.rcq.id), SIRDMA_CQP_NO_OBJECT);
	qp.opts.srq = b.host.options().cfg.max_srqs;
	EXPECT_EQ(qp.create(qp.scq.id, qp.rcq.id), SIRDMA_CQP_NO_OBJECT);
	qp.opts.srq = srq.id;
	EXPECT_EQ(qp.create(qp.scq.id, qp.rcq.id), SIRDMA_CQP_OK);
}

/* Two threads fetch at once: each WQE goes to one of them. */
TEST_F(SharedRq, IsUsedByTwoThreads)
{
	snic_srq *device_srq = snic_srq_attach(b.host.dev(), srq.id);
	std::vector<std::atomic<u32>> taken(50 * 32);
	std::atomic<bool> go{false};
	u64 id = 0;

	for (u32 round = 0; round < 50; round++) {
		for (u32 i = 0; i < 32; i++)
			ASSERT_EQ(srq.recv(id++, {b.sge(0, 64)}), 0);
		std::vector<std::thread> threads;
		go = false;
		for (u32 t = 0; t < 2; t++) {
			threads.emplace_back([&] {
				snic_srq_share share{};
				snic_rqe rqe;

				while (!go)
					;
				while (snic_srq_fetch(device_srq, &share, 0, &rqe) == SNIC_WQE_OK)
					taken[rqe.wr_id]++;
			});
		}
		go = true;
		for (auto &t : threads)
			t.join();
	}
	for (u32 i = 0; i < taken.size(); i++)
		EXPECT_EQ(taken[i], 1u) << i;
	snic_srq_share share{};

	snic_srq_detach(device_srq, &share);
}

} // namespace
