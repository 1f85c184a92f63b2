// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Bursts whose payload the host keeps, in place of copying it: which it may keep, and how long their regions stay.
#include "transport.hpp"

extern "C" {
#include "model/mr.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 length = 3000; // three packets
constexpr size_t inbox = 1 << 20;

class Kept : public Transport {
protected:
	Kept()
	{
		a.host.keep_bursts();
		b.host.keep_bursts();
	}
	~Kept() override
	{
		a.host.drop_kept();
		b.host.drop_kept();
	}

	// The first PSN of @qp that is not acknowledged.
	static u32 una(Qp &qp)
	{
		snic_qp *const q = snic_qp_get(qp.node.host.dev(), qp.id);
		const u32 psn = q->req.una;

		snic_qp_put(q);
		return psn;
	}
	static MrParams fast(Node &n)
	{
		MrParams mr = n.mr;

		mr.idx = 10;
		mr.key = 0x10;
		EXPECT_EQ(n.drv.alloc_stag(mr.stag()), SIRDMA_CQP_OK);
		EXPECT_EQ(n.drv.reg_mr(mr), SIRDMA_CQP_OK);
		return mr;
	}
	Wr write(std::vector<Sge> sges)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = std::move(sges),
			.remote = b.va(inbox),
			.rkey = b.mr.stag()};
	}
	// How many bursts the hosts keep for @wrs, which are sent as one burst and succeed.
	size_t kept_for(const std::vector<Wr> &wrs, const QpOptions &opts = {})
	{
		const size_t before = a.host.kept_bursts() + b.host.kept_bursts();
		auto l = link(opts);

		l->b.recv({b.sge(inbox, length)});
		for (const Wr &wr : wrs)
			l->a.place(wr);
		l->a.kick();
		for (size_t i = 0; i < wrs.size(); i++)
			EXPECT_FALSE(wait_send(l->a).error);
		settle();
		return a.host.kept_bursts() + b.host.kept_bursts() - before;
	}
	size_t kept_for(const Wr &wr, const QpOptions &opts = {})
	{
		return kept_for(std::vector{wr}, opts);
	}
};

TEST_F(Kept, ARequestsPayloadMayBeKept)
{
	EXPECT_EQ(kept_for(write({a.sge(0, length)})), 1u);
	EXPECT_EQ(kept_for(Wr{.sges = {a.sge(0, length)}}), 1u);
}

TEST_F(Kept, AResponsesPayloadMayBeKept)
{
	EXPECT_EQ(kept_for(Wr{.op = SIRDMA_OP_READ,
			      .sges = {a.sge(0, length)},
			      .remote = b.va(inbox),
			      .rkey = b.mr.stag()}),
		  1u);
	EXPECT_EQ(b.host.kept_bursts(), 1u);
}

// Their requests complete when they are sent, and the memory is the application's again.
TEST_F(Kept, PayloadThatNobodyAcknowledgesIsNot)
{
	EXPECT_EQ(kept_for(write({a.sge(0, length)}), {.type = SIRDMA_QPT_UC, .timeout = 0}), 0u);
}

// It lies in the send queue, whose memory no region keeps.
TEST_F(Kept, InlineDataIsNot)
{
	Wr wr = write({});

	wr.inl = std::vector<u8>(100, 7);
	wr.is_inline = true;
	EXPECT_EQ(kept_for({write({a.sge(0, length)}), wr}), 0u);
	EXPECT_EQ(kept_for({write({a.sge(0, length)}), write({a.sge(0, 100)})}), 1u);
}

TEST_F(Kept, AllMemoryIsNot)
{
	const MrParams all{.idx = 20, .access = a.mr.access, .all_memory = true};

	const sirdma_dma_mem mem = a.host.alloc(length);

	ASSERT_EQ(a.drv.reg_mr(all), SIRDMA_CQP_OK);
	EXPECT_EQ(kept_for(write({{mem.pa, length, all.stag()}})), 0u);
}

TEST_F(Kept, FewRegionsAre)
{
	std::vector<Sge> sges;

	for (u32 i = 0; i <= SNIC_KEPT_MAX; i++) {
		MrParams mr = a.mr;

		mr.idx = 30 + i;
		ASSERT_EQ(a.drv.reg_mr(mr), SIRDMA_CQP_OK);
		sges.push_back({a.va(100 * i), 100, mr.stag()});
	}
	EXPECT_EQ(kept_for(write(sges)), 0u);
	sges.pop_back();
	EXPECT_EQ(kept_for(write(sges)), 1u);
}

// Whoever invalidates a key may change the memory once that has completed.
TEST_F(Kept, ARegionStaysUntilTheHostDropsIt)
{
	const MrParams mr = fast(a);
	auto l = link();

	l->a.post(write({{a.va(), length, mr.stag()}}));
	EXPECT_FALSE(wait_send(l->a).error);
	ASSERT_EQ(a.host.kept_bursts(), 1u);
	l->a.post(local_inv(mr.stag()));
	settle();
	EXPECT_TRUE(silent(l->a)) << "the key is in use";
	a.host.drop_kept();
	expect_ok(wait_send(l->a), SIRDMA_OP_LOCAL_INV);
}

TEST_F(Kept, RegionsWhoseMemoryMayGoAreNot)
{
	MrParams mr = a.mr;

	mr.idx = 40;
	mr.may_fault = true;
	ASSERT_NE(mr.level, 0u);
	ASSERT_EQ(a.drv.reg_mr(mr), SIRDMA_CQP_OK);
	EXPECT_EQ(kept_for(write({{a.va(), length, mr.stag()}})), 0u);
	EXPECT_EQ(kept_for(write({a.sge(0, length)})), 1u);
}

using Finished = std::vector<std::pair<u32, snic_side>>;
using Before = std::vector<std::pair<u32, u32>>;

// When a request completes, its memory is the application's again: a peer that acknowledges what it has not received
// does not receive it later. Nothing is said of requests that were not kept.
TEST_F(Kept, AnAcknowledgementFinishesThePayloadOfItsRequests)
{
	auto l = link();
	const u32 first = l->a.opts.a_psn;
	Wr quiet = write({a.sge(0, length)});

	l->a.post(write({a.sge(0, length)}));
	EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_EQ(a.host.finished_before(), (Before{{l->a.id, first + 3}}));
	quiet.signaled = false;
	l->a.post(quiet);
	settle();
	l->a.post({.op = SIRDMA_OP_NOP});
	EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_EQ(a.host.finished_before(), (Before{{l->a.id, first + 3}, {l->a.id, first + 6}}));
	Wr small = write({});
	small.inl = std::vector<u8>(8, 7);
	small.is_inline = true;
	l->a.post(small);
	EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_EQ(a.host.finished_before().size(), 2u);
	EXPECT_TRUE(b.host.finished_before().empty());
}

// What is sent again may end before packets that were kept earlier, and are still under way.
TEST_F(Kept, ARetransmissionLeavesLaterPacketsKept)
{
	// As many as may be in flight; after a timeout few may.
	constexpr u32 packets = SNIC_BURST_PKTS;
	auto l = link();
	const u32 first = l->a.opts.a_psn, later = snic_psn_add(first, packets - 8);
	u32 lost_from = first;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		return &from == &a.host && snic_psn_diff(pkt.psn(), lost_from) >= 0 ?
			       Fabric::Verdict::drop :
			       Fabric::Verdict::pass;
	});
	l->a.post(write({a.sge(0, packets * 1024)}));
	ASSERT_EQ(a.host.kept_bursts(), 1u);

	// Of what is sent again the first burst is kept, and arrives.
	a.host.keep_bursts(1);
	lost_from = later;
	fabric.run_until([&] { return snic_psn_diff(una(l->a), later) == 0; }, 1'000'000'000);
	ASSERT_EQ(a.host.kept_bursts(), 2u);
	ASSERT_EQ(una(l->a), later);
	lost_from = snic_psn_add(first, packets);
	EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_EQ(a.host.finished_before().back().second, snic_psn_add(first, packets));
}

// A request that ends in error leaves its payload to the application.
TEST_F(Kept, AnErrorFinishesTheQueuePairsPayload)
{
	auto l = link(), other = link();

	other->a.post(write({a.sge(0, length)}));
	EXPECT_FALSE(wait_send(other->a).error);
	for (Qp *qp : {&l->a, &other->a}) {
		EXPECT_TRUE(a.host.finished_kept().empty()) << "nothing of the first one was kept";
		qp->error();
		qp->post(write({a.sge(0, length)}));
		EXPECT_TRUE(wait_send(*qp).error);
	}
	EXPECT_EQ(a.host.finished_kept(), (Finished{{other->a.id, SNIC_REQUESTER}}));
}

// Whoever moves a queue pair to ERR may change memory that its peer has read.
TEST_F(Kept, AResponderThatIsStoppedFinishesItsPayload)
{
	auto l = link();

	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(0, length)},
		   .remote = b.va(inbox),
		   .rkey = b.mr.stag()});
	EXPECT_FALSE(wait_send(l->a).error);
	l->b.error();
	EXPECT_EQ(b.host.finished_kept(), (Finished{{l->b.id, SNIC_RESPONDER}}));
}

// A responder that refuses a request has answered those before.
TEST_F(Kept, AResponderThatRefusesARequestDoesNot)
{
	auto l = link();
	Wr bad = write({a.sge(0, length)});

	bad.rkey ^= 1;
	l->a.place({.op = SIRDMA_OP_READ,
		    .sges = {a.sge(0, length)},
		    .remote = b.va(inbox),
		    .rkey = b.mr.stag()});
	l->a.place(bad);
	l->a.kick();
	EXPECT_FALSE(wait_send(l->a).error);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
	EXPECT_EQ(b.host.kept_bursts(), 1u);
	EXPECT_TRUE(b.host.finished_kept().empty());
	EXPECT_EQ(a.host.finished_kept(), (Finished{{l->a.id, SNIC_REQUESTER}})) << "the WRITE";
	l->b.error();
	EXPECT_EQ(b.host.finished_kept(), (Finished{{l->b.id, SNIC_RESPONDER}}));
}

// A queue pair that fails by itself finishes both: its requests are flushed, and so are its receives.
TEST_F(Kept, ATimeoutFinishesRequestsAndResponses)
{
	auto l = link({.timeout = 8, .retry_cnt = 1});

	l->b.post({.op = SIRDMA_OP_READ,
		   .sges = {b.sge(0, length)},
		   .remote = a.va(inbox),
		   .rkey = a.mr.stag()});
	EXPECT_FALSE(wait_send(l->b).error);
	fabric.set_filter([](TestHost &, Packet &) { return Fabric::Verdict::drop; });
	l->a.post(write({a.sge(0, length)}));
	EXPECT_TRUE(a.host.finished_kept().empty());
	expect_error(wait_send(l->a), SIRDMA_FLUSH_RETRY_EXC, SIRDMA_VENDOR_RETRY_EXC);
	EXPECT_EQ(a.host.finished_kept(),
		  (Finished{{l->a.id, SNIC_REQUESTER}, {l->a.id, SNIC_RESPONDER}}));
	fabric.set_filter(nullptr);
}

TEST_F(Kept, TheEndOfAQueuePairFinishesItsPayload)
{
	auto l = link();
	const u32 id = l->a.id;

	l->a.post(write({a.sge(0, length)}));
	EXPECT_FALSE(wait_send(l->a).error);
	EXPECT_TRUE(a.host.finished_kept().empty());
	l.reset();
	EXPECT_EQ(a.host.finished_kept(), (Finished{{id, SNIC_REQUESTER}}));
}

} // namespace
