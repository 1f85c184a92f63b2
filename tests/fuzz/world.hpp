// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two nodes with two connections between them: the victim, which the input is
// about, and a bystander that nothing may happen to. Of each node's memory the
// devices may touch one window; the rest is compared with what it was.
//
// The oracles are the harness's EXPECTs, which end the process here.
#pragma once

#include "input.hpp"
#include "transport.hpp"

namespace sirdma::test
{

class World {
public:
	static constexpr size_t memory = 64 << 10, window_start = 16 << 10, window = 32 << 10;
	// Memory windows of each node: one of type 1, one of type 2.
	static constexpr u32 first_mw = 102;
	static constexpr u32 xrcd = 1;

	World()
		: fabric(1), a(fabric, 1, false, options(), memory),
		  b(fabric, 2, false, options(), memory)
	{
		a.learn(b);
		b.learn(a);
		for (Node *n : {&a, &b}) {
			MrParams mr;

			mr.idx = 100;
			mr.va = n->va(window_start);
			mr.len = window;
			mr.access |= SIRDMA_ACCESS_BIND_WINDOW | SIRDMA_ACCESS_REMOTE_FLUSH;
			n->drv.describe(mr, *n->mem, 1, window_start / 4096);
			EXPECT_EQ(n->drv.reg_mr(mr), SIRDMA_CQP_OK);
			region_[n] = mr;
			EXPECT_EQ(n->drv.dealloc_stag(n->mr.stag()), SIRDMA_CQP_OK);
			key = mr.stag();
			// Another of the same memory, which work requests may invalidate.
			mr.idx = 101;
			fast_key = mr.stag();
			// Its list for fast registration is the window, too.
			constexpr u32 blocks = window / 4096;
			const u32 first = n->drv.alloc_pbles(2 * blocks);

			for (u32 i = 0; i < blocks; i++)
				n->drv.write_pble(first + blocks + i,
						  n->mem->blocks()[window_start / 4096 + i]);
			EXPECT_EQ(n->drv.alloc_fast(fast_key, first, blocks), SIRDMA_CQP_OK);
			fast_[n] = mr;
		}
		address(a, b);
		address(b, a);
	}

	// Both connections anew, as at the beginning of each input. An XRC initiator has a target, and that a queue.
	void connect(const QpOptions &opts)
	{
		QpOptions other = opts;

		if (opts.type == SIRDMA_QPT_XRC_INI) {
			other.type = SIRDMA_QPT_XRC_TGT;
			other.xrcd = xrcd;
		}
		victim = std::make_unique<Link>(a, b, opts, other, cq_entries);
		if (opts.type == SIRDMA_QPT_XRC_INI)
			queue = std::make_unique<Srq>(
				b, 64, 1,
				SIRDMA_CQP_SRQ_XRC | SIRDMA_PREP(SIRDMA_CQP_SRQ_XRCD, xrcd) |
					SIRDMA_PREP(SIRDMA_CQP_SRQ_CQ, victim->b.rcq.id));
		bystander = std::make_unique<Link>(a, b, small(), small(), cq_entries);
		for (Node *n : {&a, &b}) {
			const u32 status = n->drv.reg_mr(fast_[n]);

			EXPECT_TRUE(status == SIRDMA_CQP_OK || status == SIRDMA_CQP_IN_USE);
			EXPECT_EQ(n->drv.alloc_mw(first_mw, true), SIRDMA_CQP_OK);
			EXPECT_EQ(n->drv.alloc_mw(first_mw + 1, false), SIRDMA_CQP_OK);
			before_[n].assign(n->data(), n->data() + memory);
		}
	}

	// What lies outside the windows is as it was, and the bystander does not know that anything happened.
	enum class Faults { none, allowed }; // accesses of the device outside what is mapped for it
	void check(Faults faults = Faults::none)
	{
		for (Node *n : {&a, &b}) {
			const std::vector<u8> &was = before_[n];

			EXPECT_EQ(memcmp(n->data(), was.data(), window_start), 0) << "below the "
										     "window";
			EXPECT_EQ(memcmp(n->data(window_start + window),
					 &was[window_start + window],
					 memory - window_start - window),
				  0)
				<< "above the window";
			EXPECT_TRUE(faults == Faults::allowed || !n->host.dma().violations());
			while (n->drv.next_aeqe())
				;
		}
		queue.reset();
		victim.reset();
		for (Node *n : {&a, &b}) {
			// Whatever was bound, nothing is left of it: the region can go.
			EXPECT_EQ(n->drv.dealloc_mw(first_mw), SIRDMA_CQP_OK);
			EXPECT_EQ(n->drv.dealloc_mw(first_mw + 1), SIRDMA_CQP_OK);
			EXPECT_EQ(n->drv.dealloc_stag(key), SIRDMA_CQP_OK);
			EXPECT_EQ(n->drv.reg_mr(region_[n]), SIRDMA_CQP_OK);
		}
		exchange(bystander->a, bystander->b);
		exchange(bystander->b, bystander->a);
		bystander.reset();
	}

	Fabric fabric;
	Node a, b;
	std::unique_ptr<Link> victim, bystander;
	std::unique_ptr<Srq> queue; // of the victim's XRC domain
	u32 key = 0, fast_key = 0;

private:
	std::map<Node *, MrParams> fast_, region_;
	static constexpr u32 cq_entries = 1024;

	static QpOptions small()
	{
		QpOptions opts;

		opts.sq_quanta = 32;
		opts.rq_wqes = 8;
		return opts;
	}

	static HostOptions options()
	{
		HostOptions opts;

		opts.cfg.max_qps = opts.cfg.max_cqs =
			2048; // the Node takes its own from the first 1024
		opts.cfg.max_pds = 16;
		opts.cfg.max_sds = 16;
		return opts;
	}

	// Address vector 1 of each leads to the other.
	static void address(Node &from, Node &to)
	{
		sirdma_av *av = from.drv.av(1);

		for (u8 byte : to.mac())
			av->mac = av->mac << 8 | byte;
		av->dst_ip = to.ip;
		av->udp_sport = 0xc001;
		av->hop_limit = 64;
		av->ctrl = SIRDMA_PREP(SIRDMA_AV_PD, 1) | SIRDMA_AV_VALID;
	}

	void exchange(Qp &from, Qp &to)
	{
		constexpr u32 length = 3000;
		u8 *source = from.node.data(window_start),
		   *sink = to.node.data(window_start + 8192);

		for (u32 i = 0; i < length; i++)
			source[i] = static_cast<u8>(i * 7 + from.id);
		memset(sink, 0, length);
		to.recv({{to.node.va(window_start + 8192), length, key}});
		from.post({.sges = {{from.node.va(window_start), length, key}}});
		expect_completion(from, true);
		expect_completion(to, false);
		EXPECT_EQ(memcmp(source, sink, length), 0);
		EXPECT_FALSE(from.poll(true) || from.poll(false) || to.poll(true) || to.poll(false))
			<< "the bystander completes what it was not asked";
	}

	void expect_completion(Qp &qp, bool send)
	{
		std::optional<Wc> wc;

		EXPECT_TRUE(fabric.run_until([&] { return (wc = qp.poll(send)).has_value(); },
					     1'000'000'000))
			<< "the bystander stands still";
		EXPECT_FALSE(wc->error) << "minor " << wc->minor;
	}

	std::map<Node *, std::vector<u8>> before_;
};

} // namespace sirdma::test
