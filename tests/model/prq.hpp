// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Page requests: two nodes whose regions lack pages, and the drivers' sides of their queues.
#pragma once

#include "transport.hpp"

extern "C" {
#include "model/qp.h"
#include "model/qp_cmd.h"
#include "sirdma/prq.h"
}

namespace sirdma::test::prq
{

constexpr u64 ms = 1'000'000, page = 4096;
constexpr u64 cookie = 0x1122334455667788;
constexpr u32 pd = 1; // of all queue pairs and regions
constexpr u32 length =
	4 * page; // of messages, one request of a READ; page 2 is the one that is taken

struct Request {
	u32 list, qpn;
	u64 block;
	u32 count;
	bool failed;
	u64 gen, waited;
};

// The driver's side of a node's queue.
class Prq {
public:
	Prq(Node &node, u32 entries) : node_(node), entries_(entries)
	{
		ring_ = node.host.alloc(entries * sizeof(sirdma_page_request));
	}
	u32 create(u64 size, u64 addr)
	{
		sirdma_cqp_prq cmd{};

		cmd.size = size;
		cmd.ctx = cookie;
		cmd.addr = addr;
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_CREATE_PRQ);
		return node_.drv.exec(cmd);
	}
	u32 create() { return create(entries_, ring_.pa); }
	u32 destroy()
	{
		sirdma_cqp_prq cmd{};

		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_DESTROY_PRQ);
		return node_.drv.exec(cmd);
	}
	std::optional<Request> next(bool ack = true)
	{
		const auto &e = static_cast<sirdma_page_request *>(ring_.va)[cons_];
		const u64 qp = __atomic_load_n(&e.qp, __ATOMIC_ACQUIRE), block = e.block;

		if (!!(qp & SIRDMA_PRQ_VALID) != polarity_)
			return std::nullopt;
		if (++cons_ == entries_) {
			cons_ = 0;
			polarity_ = !polarity_;
		}
		if (ack)
			this->ack(1);
		return Request{
			.list = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_PBLE, block)),
			.qpn = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_QPN, qp)),
			.block = SIRDMA_GET(SIRDMA_PRQ_BLOCK, block),
			.count = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_COUNT, qp)),
			.failed = !!(qp & SIRDMA_PRQ_FAILED),
			.gen = SIRDMA_GET(SIRDMA_PRQ_GEN, qp),
			.waited = SIRDMA_GET(SIRDMA_PRQ_WAITED, qp),
		};
	}
	void ack(u32 count) { node_.host.write32(SIRDMA_REG_PRQACK, count); }

private:
	Node &node_;
	u32 entries_, cons_ = 0;
	bool polarity_ = true;
	sirdma_dma_mem ring_;
};

class PageRequests : public Transport {
protected:
	PageRequests() : at_a(a, 16), at_b(b, 16) {}
	void SetUp() override
	{
		ASSERT_EQ(at_a.create(), SIRDMA_CQP_OK);
		ASSERT_EQ(at_b.create(), SIRDMA_CQP_OK);
	}
	static void set(Node &node, size_t block, u64 mark)
	{
		node.drv.write_pble(node.mr.first_pble + static_cast<u32>(block),
				    mark ? mark : node.mem->blocks()[block]);
	}
	// The mark that answers the latest requests of the queue pair
	u64 error_of(const Qp &qp)
	{
		snic_qp *at = snic_qp_get(qp.node.host.dev(), qp.id);
		const u64 gen =
			std::max(at->asks.gen[SNIC_REQUESTER], at->asks.gen[SNIC_RESPONDER]);

		snic_qp_put(at);
		return SIRDMA_PBLE_ERROR | SIRDMA_PREP(SIRDMA_PBLE_ERROR_QPN, qp.id) |
		       SIRDMA_PREP(SIRDMA_PBLE_ERROR_GEN, gen);
	}
	Wr wr(u8 op, u32 len)
	{
		Wr wr{.op = op, .sges = {a.sge(0, len)}};

		if (op != SIRDMA_OP_SEND) {
			wr.remote = b.va();
			wr.rkey = b.mr.stag();
		}
		return wr;
	}
	void expect_request(Prq &prq, const Node &node, const Qp &qp, u32 block, u32 count,
			    bool failed = false)
	{
		const auto got = prq.next();

		ASSERT_TRUE(got);
		EXPECT_EQ(got->list, node.mr.first_pble);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
		EXPECT_EQ(got->count, count);
		EXPECT_EQ(got->failed, failed);
		EXPECT_NE(got->gen, 0u);
	}
	// Requests for the memory that the queue pair has made since then come first.
	void expect_failure(Prq &prq, const Qp &qp, u64 block)
	{
		auto got = prq.next();

		while (got && !got->failed)
			got = prq.next();
		ASSERT_TRUE(got);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
	}
	// READs of @l that were posted: their requests and what a answers are recorded, and repeated by hand.
	std::vector<Packet> read_requests(Link &l, u32 count)
	{
		std::vector<Packet> requests;

		fabric.record(true);
		for (u32 n = 0; n < count; n++)
			l.a.place(wr(SIRDMA_OP_READ, length));
		l.a.kick(true);
		settle(ms / 10);
		for (const Packet &pkt : fabric.sent())
			if (pkt.opcode() == SIRDMA_BTH_READ_REQUEST)
				requests.push_back(pkt);
		EXPECT_EQ(requests.size(), count);
		fabric.sent().clear();
		return requests;
	}
	// The peer repeats @request from packet @from on, in a batch of its own.
	void repeat(Packet request, u32 from = 0, u32 mtu = 1024)
	{
		const auto put = [&](size_t at, u32 add) {
			u32 word = request.be32(at) + add;

			for (size_t i = 4; i--; word >>= 8)
				request.bytes[at + i] = static_cast<u8>(word);
		};

		put(request.bth + 8, from); // PSN
		put(request.bth + 16, from * mtu); // address, low half
		put(request.bth + 24, -from * mtu); // length
		seal(request);
		fabric.inject(request.bytes);
		settle(ms / 10);
	}
	// The NAKs of kind @kind, SIRDMA_AETH_NAK or _RNR_NAK, since the record was cleared
	std::vector<Packet> naks(u8 kind)
	{
		std::vector<Packet> naks;

		for (const Packet &pkt : fabric.sent())
			if (pkt.opcode() == SIRDMA_BTH_ACK &&
			    (pkt.bytes[pkt.bth + 12] & SIRDMA_AETH_KIND) == kind)
				naks.push_back(pkt);
		return naks;
	}
	static u32 msn(const Packet &ack) { return ack.be24(ack.bth + 13); }
	// The number of requests that the device makes in so many seconds
	u32 wait_absent(u32 seconds)
	{
		u32 asked = 0;

		for (u32 s = 0; s < seconds; s++) {
			settle(1000 * ms);
			while (at_a.next())
				asked++;
		}
		return asked;
	}
	Prq at_a, at_b;
};

} // namespace sirdma::test::prq
