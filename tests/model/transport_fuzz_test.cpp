// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Garbage in rings and mutated packets. Oracle: nothing outside what was
// registered or posted for it changes, no access leaves mapped memory, and a
// fresh QP works afterwards. SIRDMA_FUZZ_SEED runs one round, SIRDMA_FUZZ_ROUNDS changes how many.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

u64 env(const char *name, u64 otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, nullptr, 0) : otherwise;
}

class Fuzz : public Transport {
protected:
	void each_round(u64 rounds, const std::function<void(std::mt19937_64 &)> &body)
	{
		if (u64 seed = env("SIRDMA_FUZZ_SEED", 0)) {
			std::mt19937_64 rng(seed);
			body(rng);
			return;
		}
		rounds = env("SIRDMA_FUZZ_ROUNDS", rounds);
		for (u64 seed = 1; seed <= rounds && !HasFailure(); seed++) {
			SCOPED_TRACE("seed " + std::to_string(seed));
			std::mt19937_64 rng(seed);
			fabric.rng().seed(seed);
			body(rng);
		}
	}
	void works()
	{
		auto l = link();
		l->b.recv({b.sge(0, 64)});
		l->a.post({.sges = {a.sge(0, 64)}});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	}
	void drain(Node &node)
	{
		while (node.drv.next_aeqe())
			;
	}
};

TEST_F(Fuzz, GarbageInTheRings)
{
	each_round(400, [&](std::mt19937_64 &rng) {
		QpOptions o;
		o.sq_quanta = 64;
		o.rq_wqes = 16;
		o.timeout = 8;
		o.retry_cnt = 1;
		o.rnr_retry = 1;
		auto l = link(o);
		std::vector<u8> before(b.data(), b.data() + b.mem->size());
		for (int turn = 0; turn < 6; turn++) {
			for (Qp *qp : {&l->a, &l->b}) {
				auto *sq = static_cast<u64 *>(qp->sq.va);
				auto *rq = static_cast<u64 *>(qp->rq.va);
				for (size_t i = 0; i < qp->sq.size / 8; i++)
					if (rng() % 2)
						sq[i] = rng();
				// Plausible opcodes and keys go deeper than noise.
				for (u32 q = 0; q < o.sq_quanta; q++) {
					auto *w = qp->quantum(q);
					static constexpr u8 ops[] = {0,	  1,   3,    5,
								     0xc, 0xd, 0x20, 0x21};
					if (rng() % 2)
						w->hdr = (w->hdr & ~SIRDMA_WQE_OPCODE) |
							 SIRDMA_PREP(SIRDMA_WQE_OPCODE,
								     ops[rng() % 8]);
					if (rng() % 2)
						w->frag_stag =
							(w->frag_stag & ~0x7fffff00ffffffffull) |
							qp->node.mr.stag();
					if (rng() % 2)
						w->frag_addr = qp->node.va(rng() % 4096);
				}
				for (size_t i = 0; i < qp->rq.size / 8; i++)
					if (rng() % 2)
						rq[i] = rng();
				qp->kick(true);
			}
			fabric.run_for(2'000'000);
			while (l->a.scq.poll() || l->a.rcq.poll() || l->b.scq.poll() ||
			       l->b.rcq.poll())
				;
		}
		drain(a);
		drain(b);
		EXPECT_EQ(a.host.dma().violations() + b.host.dma().violations(), 0u);
	});
	works();
}

// Flip, overwrite or cut some bytes behind the UDP header and make the ICRC right again.
Packet mutate(const Packet &from, std::mt19937_64 &rng)
{
	Packet p = from;
	size_t body = p.bytes.size() - p.bth - 4;

	for (u64 n = 1 + rng() % 4; n--;) {
		// Headers are more interesting than payload.
		size_t at = p.bth + (rng() % 4 ? rng() % std::min<size_t>(body, 32) : rng() % body);
		switch (rng() % 4) {
		case 0:
			p.bytes[at] ^= static_cast<u8>(1 << rng() % 8);
			break;
		case 1:
			p.bytes[at] = static_cast<u8>(rng());
			break;
		case 2:
			p.bytes[at] = rng() % 2 ? 0xff : 0;
			break;
		default:
			p.bytes[at] = static_cast<u8>(p.bytes[at] + (rng() % 2 ? 1 : -1));
		}
	}
	if (rng() % 4 == 0 && p.is_v4) { // another length
		size_t len = rng() % (body + 64);
		p.bytes.resize(p.bth + len + 4);
		u8 *b = p.bytes.data();
		size_t udp = p.bth - 8, ip_len = p.bytes.size() - p.ip;
		b[udp + 4] = static_cast<u8>((ip_len - 20) >> 8);
		b[udp + 5] = static_cast<u8>(ip_len - 20);
		b[p.ip + 2] = static_cast<u8>(ip_len >> 8);
		b[p.ip + 3] = static_cast<u8>(ip_len);
		b[p.ip + 10] = b[p.ip + 11] = 0;
		u32 sum = 0;
		for (size_t i = 0; i < 20; i += 2)
			sum += static_cast<u32>(b[p.ip + i] << 8 | b[p.ip + i + 1]);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = ~(sum + (sum >> 16));
		b[p.ip + 10] = static_cast<u8>(sum >> 8);
		b[p.ip + 11] = static_cast<u8>(sum);
	}
	seal(p);
	return p;
}

TEST_F(Fuzz, MutatedPackets)
{
	constexpr size_t kWindow = 64 * 1024, kStart = 1 << 20;
	u64 mutated = 0;

	// What the peer may write lies in the middle; everything else must stay.
	each_round(1500, [&](std::mt19937_64 &rng) {
		MrParams mr;
		mr.idx = 100;
		mr.key = static_cast<u8>(rng());
		mr.va = b.va(kStart);
		mr.len = kWindow;
		for (Node *n : {&a, &b}) {
			mr.va = n->va(kStart);
			n->drv.describe(mr, *n->mem, 0);
			mr.level = 1;
			static std::map<Node *, u32> lists;
			if (!lists.count(n)) {
				lists[n] = n->drv.alloc_pbles(kWindow / 4096);
				for (u32 i = 0; i < kWindow / 4096; i++)
					n->drv.write_pble(lists[n] + i,
							  n->mem->pa(kStart + i * 4096));
			}
			mr.first_pble = lists[n];
			ASSERT_EQ(n->drv.reg_mr(mr), SIRDMA_CQP_OK);
		}
		// The node's own big region is out of reach for this round.
		for (Node *n : {&a, &b})
			ASSERT_EQ(n->drv.dealloc_stag(n->mr.stag()), SIRDMA_CQP_OK);
		QpOptions o;
		o.mtu = rng() % 2 ? 256 : 1024;
		o.timeout = 8;
		o.retry_cnt = 2;
		o.rnr_retry = 2;
		auto l = link(o);
		std::vector<u8> wa(a.data(), a.data() + a.mem->size()),
			wb(b.data(), b.data() + b.mem->size());
		fabric.set_filter([&](TestHost &, Packet &p) {
			u64 dice = rng() % 8;
			if (dice < 2) {
				Packet m = mutate(p, rng);
				mutated++;
				fabric.inject(m.bytes, fabric.faults().delay_ns);
				return dice ? Fabric::Verdict::drop : Fabric::Verdict::pass;
			}
			return Fabric::Verdict::pass;
		});
		for (Qp *qp : {&l->a, &l->b}) {
			Node &peer = qp == &l->a ? b : a;
			for (int i = 0; i < 3; i++)
				qp->recv({{qp->node.va(kStart), 5000, mr.stag()}});
			qp->place({.sges = {{qp->node.va(kStart + 8192), 3000, mr.stag()}}});
			qp->place({.op = SIRDMA_OP_WRITE,
				   .sges = {{qp->node.va(kStart + 8192), 4000, mr.stag()}},
				   .remote = peer.va(kStart + 20000),
				   .rkey = mr.stag(),
				   .imm = 1});
			qp->place({.op = SIRDMA_OP_READ,
				   .sges = {{qp->node.va(kStart + 30000), 4000, mr.stag()}},
				   .remote = peer.va(kStart + 40000),
				   .rkey = mr.stag()});
			qp->kick(true);
		}
		fabric.run_for(40'000'000);
		fabric.set_filter(nullptr);
		settle(1'000'000);
		for (auto [node, was] : {std::pair{&a, &wa}, std::pair{&b, &wb}}) {
			EXPECT_EQ(memcmp(node->data(), was->data(), kStart), 0);
			EXPECT_EQ(memcmp(node->data(kStart + kWindow),
					 was->data() + kStart + kWindow,
					 node->mem->size() - kStart - kWindow),
				  0);
			drain(*node);
			ASSERT_EQ(node->drv.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
			ASSERT_EQ(node->drv.reg_mr(node->mr), SIRDMA_CQP_OK);
			EXPECT_EQ(node->host.dma().violations(), 0u);
		}
	});
	works();
	std::cout << mutated << " mutated packets\n";
}

TEST_F(Fuzz, RingsWrittenByAnotherThread)
{
	QpOptions o;
	o.timeout = 8;
	o.retry_cnt = 1;
	std::mt19937_64 rng(5);

	for (int round = 0; round < 20; round++) {
		auto l = link(o);
		std::atomic<bool> stop{false};
		std::thread scribbler([&, seed = rng()] {
			std::mt19937_64 r(seed);
			while (!stop) {
				auto *w = reinterpret_cast<u64 *>(
					l->a.quantum(static_cast<u32>(r() % 512)));
				__atomic_store_n(&w[r() % 4], r(), __ATOMIC_RELAXED);
				w = static_cast<u64 *>(l->a.rq.va) + r() % (l->a.rq.size / 8);
				__atomic_store_n(w, r(), __ATOMIC_RELAXED);
			}
		});
		for (int i = 0; i < 40; i++) {
			l->a.kick(true);
			fabric.run_for(100'000);
			while (l->a.scq.poll() || l->a.rcq.poll())
				;
		}
		stop = true;
		scribbler.join();
		drain(a);
		drain(b);
	}
	works();
}

// Doorbells and resumes from other threads, for QPs that come and go.
TEST_F(Fuzz, KicksFromOtherThreads)
{
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	for (u64 n = 0; n < 2; n++)
		threads.emplace_back([&, n] {
			std::mt19937_64 r(n);
			while (!stop) {
				Node &node = r() % 2 ? a : b;
				u32 qpn = static_cast<u32>(r() % 40);
				if (r() % 8)
					snic_qp_run(node.host.dev(), qpn);
				else
					snic_tx_resume(node.host.dev(), qpn);
			}
		});
	for (int round = 0; round < 30; round++) {
		auto l = link();
		for (int i = 0; i < 20; i++) {
			l->b.recv({b.sge(0, 3000)});
			l->a.post({.sges = {a.sge(0, 3000)}});
			l->a.post({.op = SIRDMA_OP_READ,
				   .sges = {a.sge(1 << 20, 5000)},
				   .remote = b.va(),
				   .rkey = b.mr.stag()});
		}
		for (int i = 0; i < 40; i++)
			EXPECT_FALSE(wait_send(l->a).error);
		if (round % 2)
			l->a.error();
	}
	stop = true;
	for (auto &t : threads)
		t.join();
}

} // namespace
