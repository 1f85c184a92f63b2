// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Invalidations that wait, for users of the key or for READs that came before, and what happens meanwhile: errors of
// the queue pair, refusals of later requests, other invalidations of the same key.
#include "transport.hpp"

extern "C" {
#include "model/mr.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u32 length = 3000; // three packets
constexpr size_t inbox = 1 << 20; // offset of receive buffers

class InvalidateWait : public Transport {
protected:
	InvalidateWait() : fa(fast(a)), fb(fast(b)) {}

	// A region of a slot made by ALLOC_STAG, over all of the node's memory.
	static MrParams fast(Node &n, u32 idx = 10)
	{
		MrParams mr = n.mr;

		mr.idx = idx;
		mr.key = 0x10;
		mr.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
			    SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;
		EXPECT_EQ(n.drv.alloc_stag(mr.stag()), SIRDMA_CQP_OK);
		EXPECT_EQ(n.drv.reg_mr(mr), SIRDMA_CQP_OK);
		return mr;
	}
	// A user of the region, as another queue pair in the middle of a packet. Null: the key is invalid.
	static snic_mr *use(Node &n, const MrParams &mr)
	{
		sirdma_ae_code ae;

		return snic_mr_get(n.host.dev(), mr.stag(), mr.pd, mr.va, 1, 0, &ae);
	}
	static bool usable(Node &n, const MrParams &mr)
	{
		snic_mr *found = use(n, mr);

		if (found)
			snic_mr_put(found);
		return found;
	}
	Wr send_inv(u32 stag)
	{
		return {.op = SIRDMA_OP_SEND_INV, .sges = {a.sge(0, length)}, .rkey = stag};
	}

	// A READ whose end invalidates fa, which a user delays.
	Wr read_inv()
	{
		return {.op = SIRDMA_OP_READ_LOC_INV,
			.sges = {{a.va(inbox), length, fa.stag()}},
			.remote = b.va(),
			.rkey = b.mr.stag()};
	}
	Wr write(u32 rkey)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(0, 8)},
			.remote = b.va(2 * inbox),
			.rkey = rkey};
	}
	Wr read(u32 rkey)
	{
		return {.op = SIRDMA_OP_READ,
			.sges = {a.sge(0, length)},
			.remote = b.va(),
			.rkey = rkey};
	}

	static constexpr u32 no_key = 0x7700;
	MrParams fa, fb; // of each node
};

// The last user of the key leaves, and before the queue pair notices it fails by another packet.
TEST_F(InvalidateWait, AReceiveThatWasFlushedDoesNotCompleteOnceMore)
{
	constexpr int posted = 3;
	auto l = link(), other = link();
	snic_mr *user = use(b, fb);
	std::optional<Packet> nak;

	ASSERT_TRUE(user);
	for (int i = 0; i < posted; i++)
		l->b.recv({b.sge(inbox + 4096 * i, length)});
	l->a.post(send_inv(fb.stag()));
	settle();
	EXPECT_FALSE(usable(b, fb)) << "it does not wait";
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from != &a.host)
			return Verdict::pass;
		nak = pkt;
		return Verdict::drop;
	});
	l->b.post({.op = SIRDMA_OP_WRITE, .sges = {b.sge(0, 8)}, .remote = a.va(), .rkey = no_key});
	settle();
	ASSERT_TRUE(nak);
	ASSERT_EQ(nak->opcode(), SIRDMA_BTH_ACK);
	fabric.set_filter(nullptr);
	b.host.ring(other->b.id); // the host runs it first, and then delivers the NAK
	snic_mr_put(user);
	fabric.inject(nak->bytes);
	settle();
	expect_error(wait_send(l->b), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	for (int i = 0; i < posted; i++)
		expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_FALSE(l->b.poll(false));
}

} // namespace
