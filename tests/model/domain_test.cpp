// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Which queue pairs a write of SIRDMA_REG_PBLESYNC waits for: those that may use regions of the protection domain, and no others.
#include "prq.hpp"

#include <atomic>
#include <ctime>
#include <cstdio>
#include <functional>
#include <thread>

using namespace sirdma::test;
using namespace sirdma::test::prq;

namespace
{

constexpr u32 other_pd = 5; // of shared queues
constexpr u32 xrcd = 7, other_xrcd = 8;

QpOptions target(u32 domain)
{
	QpOptions opts;

	opts.type = SIRDMA_QPT_XRC_TGT;
	opts.xrcd = domain;
	return opts;
}

QpOptions receiver(const Srq &srq)
{
	QpOptions opts;

	opts.srq = srq.id;
	return opts;
}

// The lock of a queue pair, as a data path holds it
class Hold {
public:
	explicit Hold(const Qp &qp) : Hold(snic_qp_get(qp.node.host.dev(), qp.id)) {}
	// Takes over the reference.
	explicit Hold(snic_qp *qp) : qp_(qp), refs_(refs()) { port_lock(&qp_->lock); }
	~Hold()
	{
		port_unlock(&qp_->lock);
		snic_qp_put(qp_);
	}
	Hold(const Hold &) = delete;
	Hold &operator=(const Hold &) = delete;
	// Who waits for the lock of a queue pair that does nothing has a reference to it.
	bool is_awaited() const { return refs() > refs_; }

private:
	u32 refs() const { return __atomic_load_n(&qp_->obj.refs.n, __ATOMIC_RELAXED); }

	snic_qp *qp_;
	u32 refs_;
};

class Domains : public Transport {
protected:
	static u64 xrc_word(const Qp &qp, u32 domain)
	{
		return SIRDMA_CQP_SRQ_XRC | SIRDMA_PREP(SIRDMA_CQP_SRQ_XRCD, domain) |
		       SIRDMA_PREP(SIRDMA_CQP_SRQ_CQ, qp.rcq.id);
	}
	std::unique_ptr<Srq> queue(const Qp &qp, u32 domain, u32 of)
	{
		return std::make_unique<Srq>(b, 64, of, xrc_word(qp, domain));
	}
	// Does @work wait for the end of @hold?
	static bool waits(std::unique_ptr<Hold> hold, const std::function<void()> &work)
	{
		std::atomic<bool> ended{false};
		std::thread worker([&] {
			work();
			ended = true;
		});

		while (!ended && !hold->is_awaited())
			std::this_thread::yield();
		const bool waits = !ended;
		hold.reset();
		worker.join();
		return waits;
	}
	static bool waits(const Qp &qp, const std::function<void()> &work)
	{
		return waits(std::make_unique<Hold>(qp), work);
	}
	bool sync_waits(const Qp &qp, u32 of)
	{
		return waits(qp, [&] { b.host.write32(SIRDMA_REG_PBLESYNC, of); });
	}
	bool sync_ends(const Qp &qp, u32 of) { return !sync_waits(qp, of); }
};

TEST_F(Domains, SyncWaitsForTheQueuePairsOfItsDomainOnly)
{
	auto l = link(), second = link();

	for (const Qp *qp : {&l->b, &second->b}) {
		EXPECT_TRUE(sync_waits(*qp, pd));
		EXPECT_TRUE(sync_ends(*qp, pd + 1));
		EXPECT_TRUE(sync_ends(*qp, other_pd));
	}
	for (const u32 none :
	     {b.host.options().cfg.max_pds, b.host.options().cfg.max_pds + xrcd, ~0u})
		EXPECT_TRUE(sync_ends(l->b, none));
	second.reset();
	EXPECT_TRUE(sync_waits(l->b, pd));
}

TEST_F(Domains, SyncWaitsForWhatReceivesIntoTheDomain)
{
	Srq srq(b, 64, other_pd), own(b, 64, pd);
	auto plain = std::make_unique<Qp>(b, QpOptions{}),
	     usual = std::make_unique<Qp>(b, receiver(own)),
	     first = std::make_unique<Qp>(b, receiver(srq)),
	     second = std::make_unique<Qp>(b, receiver(srq));

	for (const Qp *qp : {first.get(), second.get()}) {
		EXPECT_TRUE(sync_waits(*qp, pd));
		EXPECT_TRUE(sync_waits(*qp, other_pd));
		EXPECT_TRUE(sync_ends(*qp, pd + 1));
	}
	first.reset();
	EXPECT_TRUE(sync_waits(*second, other_pd));
	second.reset();
	EXPECT_TRUE(sync_ends(*plain, other_pd));
	EXPECT_TRUE(sync_ends(*usual, other_pd));
	EXPECT_TRUE(sync_waits(*usual, pd));
}

TEST_F(Domains, SyncWaitsForTheTargetsOfQueuesOfTheDomain)
{
	Qp plain(b, {}), near(b, target(xrcd)), far(b, target(other_xrcd));

	EXPECT_TRUE(sync_ends(near, pd)) << "there is no queue yet";
	auto first = queue(plain, xrcd, pd), second = queue(plain, xrcd, pd),
	     third = queue(plain, xrcd, other_pd), fourth = queue(plain, other_xrcd, other_pd);

	EXPECT_TRUE(sync_waits(near, pd));
	EXPECT_TRUE(sync_waits(near, other_pd));
	EXPECT_TRUE(sync_ends(far, pd));
	EXPECT_TRUE(sync_waits(far, other_pd));
	EXPECT_TRUE(sync_ends(far, pd + 1));
	EXPECT_TRUE(sync_waits(plain, pd));
	EXPECT_TRUE(sync_ends(plain, other_pd));

	Qp late(b, target(xrcd));
	EXPECT_TRUE(sync_waits(late, pd));
	first.reset();
	EXPECT_TRUE(sync_waits(near, pd)) << "another queue is left";
	second.reset();
	EXPECT_TRUE(sync_ends(near, pd));
	EXPECT_TRUE(sync_waits(near, other_pd));
	fourth.reset();
	EXPECT_TRUE(sync_ends(far, other_pd));
	EXPECT_TRUE(sync_waits(near, other_pd));
}

// A target uses memory until it releases its lock, and no sync finds it by the queue that is gone.
TEST_F(Domains, DestroyingTheLastQueueWaitsForItsTargets)
{
	Qp plain(b, {}), near(b, target(xrcd)), far(b, target(other_xrcd));
	auto srq = queue(plain, xrcd, pd);

	EXPECT_TRUE(waits(near, [&] { EXPECT_EQ(srq->destroy(), SIRDMA_CQP_OK); }));
	srq = queue(plain, xrcd, pd);
	EXPECT_FALSE(waits(far, [&] { EXPECT_EQ(srq->destroy(), SIRDMA_CQP_OK); }));
}

// A queue pair stays in the list until the last reference is gone, whatever commands do meanwhile.
TEST_F(Domains, SyncWaitsForAQueuePairThatIsBeingDestroyed)
{
	auto l = link(), before = link();
	snic_dev *dev = b.host.dev();
	snic_qp *qp = snic_qp_get(dev, l->b.id);
	const u32 id = l->b.id;

	ASSERT_NE(qp, nullptr);
	std::thread destroy([&] { EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_OK); });
	while (snic_table_has(&dev->qps, id))
		std::this_thread::yield();
	EXPECT_TRUE(waits(std::make_unique<Hold>(qp),
			  [&] { b.host.write32(SIRDMA_REG_PBLESYNC, pd); }));
	destroy.join();
	EXPECT_TRUE(sync_waits(before->b, pd));
}

// Whatever comes and goes meanwhile, a sync neither loses its place nor a queue pair that stays.
TEST_F(Domains, SyncGoesOnWhileQueuePairsComeAndGo)
{
	Srq srq(b, 64, other_pd);
	Qp first(b, receiver(srq));
	std::atomic<bool> end{false};
	std::atomic<u32> synced{0};
	std::thread driver([&] {
		for (; !end; synced++)
			b.host.write32(SIRDMA_REG_PBLESYNC, synced % 2 ? pd : other_pd);
	});

	Qp plain(b, {}), near(b, target(xrcd)), shared(b, receiver(srq));
	Srq of_near(b, 64, pd, xrc_word(plain, xrcd));

	for (u32 i = 0; i < 300 || synced < 100; i++) {
		for (Qp *qp : {&plain, &near, &shared})
			EXPECT_EQ(qp->destroy(), SIRDMA_CQP_OK);
		EXPECT_EQ(of_near.destroy(), SIRDMA_CQP_OK);
		for (Qp *qp : {&shared, &plain, &near})
			EXPECT_EQ(qp->create(qp->scq.id, qp->rcq.id), SIRDMA_CQP_OK);
		EXPECT_EQ(of_near.create(64, i % 3 ? pd : other_pd, xrc_word(plain, xrcd)),
			  SIRDMA_CQP_OK);
	}
	end = true;
	driver.join();
	EXPECT_TRUE(sync_waits(first, pd));
	EXPECT_TRUE(sync_waits(first, other_pd));
}

u64 cpu_ns()
{
	timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return static_cast<u64>(ts.tv_sec) * 1'000'000'000 + static_cast<u64>(ts.tv_nsec);
}

// The least time of several syncs: what disturbs this thread adds to some of them only.
u64 sync_ns(Node &node, u32 of)
{
	u64 least = ~0ull;

	for (int i = 0; i < 30; i++) {
		const u64 start = cpu_ns();

		node.host.write32(SIRDMA_REG_PBLESYNC, of);
		least = std::min(least, cpu_ns() - start);
	}
	return least;
}

// Memory is taken back page by page while the kernel is short of it: the time must not depend on what others have.
TEST(DomainsOfManyQueuePairs, SyncCostsNothingForQueuePairsOfOtherDomains)
{
	constexpr u32 first = 1000, count = 10000;
	Fabric fabric(1);
	HostOptions opts;

	opts.cfg.max_qps = first + count;
	Node node(fabric, 1, false, opts);
	Qp of_all(node, {}); // the queue pairs share its rings, as they do no work
	const auto all = [&](sirdma_cqp_op op) {
		for (u32 qpn = first; qpn < first + count; qpn++) {
			sirdma_cqp_qp cmd{};

			cmd.ctx_addr = of_all.ctx.pa;
			cmd.hdr = qp_cmd_hdr(op, qpn);
			ASSERT_EQ(node.drv.exec(cmd), SIRDMA_CQP_OK);
		}
	};
	const u64 alone = sync_ns(node, other_pd);

	all(SIRDMA_CQP_CREATE_QP);
	const u64 with_others = sync_ns(node, other_pd), of_them = sync_ns(node, pd);
	all(SIRDMA_CQP_DESTROY_QP);
	RecordProperty("alone_ns", std::to_string(alone));
	RecordProperty("with_others_ns", std::to_string(with_others));
	RecordProperty("of_them_ns", std::to_string(of_them));
	std::printf("%u other queue pairs: %llu ns, without them %llu ns; a sync of theirs %llu "
		    "ns\n",
		    count, static_cast<unsigned long long>(with_others),
		    static_cast<unsigned long long>(alone),
		    static_cast<unsigned long long>(of_them));
	EXPECT_LT(with_others, of_them / 20);
}

// A command that finds no memory leaves nothing behind in the lists.
TEST_F(Domains, CreationSurvivesEveryFailingAllocation)
{
	static int budget;
	Srq srq(b, 64, other_pd);
	Qp near(b, target(xrcd)), plain(b, {}), shared(b, receiver(srq));
	const u32 number = b.new_srq();
	const auto after_failures = [&](const std::function<u32()> &create) {
		for (int failing = 0;; failing++) {
			budget = failing;
			port_alloc_fail = [](size_t) { return budget-- <= 0; };
			const u32 status = create();
			port_alloc_fail = nullptr;
			if (status == SIRDMA_CQP_OK)
				return failing;
			EXPECT_EQ(status, SIRDMA_CQP_NO_MEMORY);
		}
	};

	EXPECT_EQ(shared.destroy(), SIRDMA_CQP_OK);
	EXPECT_TRUE(sync_ends(plain, other_pd));
	EXPECT_GE(after_failures([&] { return shared.create(shared.scq.id, shared.rcq.id); }), 3);
	EXPECT_TRUE(sync_waits(shared, other_pd));
	EXPECT_EQ(shared.destroy(), SIRDMA_CQP_OK);
	EXPECT_TRUE(sync_ends(plain, other_pd));

	Srq own(b, 64, pd, 0, number);
	EXPECT_EQ(own.destroy(), SIRDMA_CQP_OK);
	EXPECT_GE(after_failures([&] { return own.create(64, pd, xrc_word(plain, xrcd)); }), 2);
	EXPECT_TRUE(sync_waits(near, pd));
	EXPECT_EQ(own.destroy(), SIRDMA_CQP_OK);
	EXPECT_TRUE(sync_ends(near, pd));
}

} // namespace
