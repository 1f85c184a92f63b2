// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two nodes on a fabric, and connected queue pairs.
#pragma once

#include "qp.hpp"
#include "srq.hpp"

extern "C" {
#include "model/qp.h"
}

namespace sirdma::test
{

// A connected pair.
struct Link {
	Link(Node &na, Node &nb, const QpOptions &oa, const QpOptions &ob, u32 cq_entries = 4096)
		: a(na, oa, cq_entries), b(nb, ob, cq_entries)
	{
		connect();
	}
	void connect();
	Qp a, b;
};

class Transport : public ::testing::Test {
protected:
	explicit Transport(u64 seed = 1, bool v6 = false)
		: fabric(seed), a(fabric, 1, v6), b(fabric, 2, v6)
	{
		a.learn(b);
		b.learn(a);
	}

	Fabric fabric;
	Node a, b;

	std::unique_ptr<Link> link(const QpOptions &opts = {})
	{
		return std::make_unique<Link>(a, b, opts, opts);
	}
	// Next completion within @ns of virtual time; fails the test when there is none.
	Wc wait(Qp &qp, bool send, u64 ns = 10'000'000'000ull);
	Wc wait_send(Qp &qp) { return wait(qp, true); }
	Wc wait_recv(Qp &qp) { return wait(qp, false); }
	void settle(u64 ns = 1'000'000) { fabric.run_for(ns); }
	// Packets that the requester of @qp may have in flight
	static u32 cwnd_of(Qp &qp)
	{
		snic_qp *const q = snic_qp_get(qp.node.host.dev(), qp.id);
		const u32 cwnd = q->req.cwnd;

		snic_qp_put(q);
		return cwnd;
	}
	bool silent(Qp &qp) { return !qp.poll(true) && !qp.poll(false); }

	static Wr local_inv(u32 stag) { return {.op = SIRDMA_OP_LOCAL_INV, .rkey = stag}; }
	// a's operation @op by the key @rkey: b serves it.
	void served(Link &l, u8 op, u32 rkey, u64 va, u32 len);
	// b denies it, and that is the end of the connection.
	void denied(Link &l, u8 op, u32 rkey, u64 va, u32 len);
	// The same on a connection of its own.
	void denied(u8 op, u32 rkey, u64 va, u32 len) { denied(*link(), op, rkey, va, len); }

private:
	void access(Link &l, u8 op, u32 rkey, u64 va, u32 len)
	{
		l.a.post({.op = op, .sges = {a.sge(0, len)}, .remote = va, .rkey = rkey});
	}
};

inline void Link::connect()
{
	a.to_init();
	b.to_init();
	a.to_rtr(b.node, b.id, b.opts.b_psn);
	b.to_rtr(a.node, a.id, a.opts.a_psn);
	a.to_rts(a.opts.a_psn);
	b.to_rts(b.opts.b_psn);
}

inline void Transport::served(Link &l, u8 op, u32 rkey, u64 va, u32 len)
{
	access(l, op, rkey, va, len);
	expect_ok(wait_send(l.a), op);
}

inline void Transport::denied(Link &l, u8 op, u32 rkey, u64 va, u32 len)
{
	access(l, op, rkey, va, len);
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

inline Wc Transport::wait(Qp &qp, bool send, u64 ns)
{
	std::optional<Wc> wc;

	if (!fabric.run_until([&] { return (wc = qp.poll(send)).has_value(); }, ns)) {
		ADD_FAILURE() << "no completion on QP " << qp.id << (send ? " send" : " recv");
		return {};
	}
	return *wc;
}

} // namespace sirdma::test
