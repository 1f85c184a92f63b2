// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Shared receive queues as an application with its own ring code sees them.
#pragma once

#include "node.hpp"

#include <sirdma/workq.h>

namespace sirdma::test
{

// A shared receive queue, written by the codec.
class Srq {
public:
	// @xrc: the last word of the command.
	explicit Srq(Node &node, u32 wqes = 64, u32 pd = 1, u64 xrc = 0, u32 number = 0);
	~Srq();
	Srq(const Srq &) = delete;
	Srq &operator=(const Srq &) = delete;

	static constexpr u32 shift = 1; // two fragments
	Node &node;
	u32 id;
	sirdma_dma_mem ring{}, area{};
	sirdma_shared_rq queue{};

	u32 exec(sirdma_cqp_op op, u32 limit = 0);
	u32 create(u32 wqes, u32 pd, u64 xrc = 0);
	u32 destroy();
	u32 arm(u32 limit) { return exec(SIRDMA_CQP_MODIFY_SRQ, limit); }
	// 0 or -errno of the codec.
	int recv(u64 wr_id, const std::vector<Sge> &sges);

private:
	bool alive_ = false;
};

inline Srq::Srq(Node &n, u32 wqes, u32 pd, u64 xrc, u32 number)
	: node(n), id(number ? number : n.new_srq())
{
	ring = node.host.alloc(wqes * (32u << shift));
	area = node.host.alloc(SIRDMA_SHADOW_SIZE);
	queue = {.ring = static_cast<sirdma_wqe *>(ring.va),
		 .shadow = static_cast<sirdma_srq_shadow *>(area.va),
		 .size = wqes,
		 .shift = shift,
		 .max_sge = 2,
		 .head = 0,
		 .fetched = 0};
	EXPECT_EQ(create(wqes, pd, xrc), SIRDMA_CQP_OK);
}

inline Srq::~Srq()
{
	if (alive_) {
		EXPECT_EQ(destroy(), SIRDMA_CQP_OK);
	}
	node.host.free(ring);
	node.host.free(area);
}

inline u32 Srq::exec(sirdma_cqp_op op, u32 limit)
{
	sirdma_cqp_srq cmd{};

	cmd.size = SIRDMA_PREP(SIRDMA_CQP_SRQ_LIMIT, limit);
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, op) | SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, id);
	return node.drv.exec(cmd);
}

inline u32 Srq::create(u32 wqes, u32 pd, u64 xrc)
{
	sirdma_cqp_srq cmd{};

	cmd.size = SIRDMA_PREP(SIRDMA_CQP_SRQ_WQES, wqes);
	cmd.ctx = 0x5e9000 + id;
	cmd.pd = pd;
	cmd.addr = ring.pa;
	cmd.shadow_addr = area.pa;
	cmd.xrc = xrc;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_CREATE_SRQ) |
		  SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, id) | SIRDMA_PREP(SIRDMA_CQP_SRQ_STRIDE, shift);

	const u32 status = node.drv.exec(cmd);

	alive_ |= status == SIRDMA_CQP_OK;
	return status;
}

inline u32 Srq::destroy()
{
	const u32 status = exec(SIRDMA_CQP_DESTROY_SRQ);

	alive_ &= status != SIRDMA_CQP_OK;
	return status;
}

inline int Srq::recv(u64 wr_id, const std::vector<Sge> &sges)
{
	const std::vector<sirdma_sge> list = to_codec(sges);

	return sirdma_shared_rq_take(&queue, wr_id, list.data(), static_cast<u32>(list.size()));
}

} // namespace sirdma::test
