// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Valid commands with a few bits turned: the device's tables must follow the
// statuses it gave, object by object.
#include "fabric.hpp"
#include "mini_driver.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

u64 op(u64 code)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, code);
}

class CqpFuzz : public ::testing::TestWithParam<u64> {
protected:
	static constexpr u32 pages = 64, ids = 12;

	CqpFuzz() : rng_(GetParam()), drv_(host_, 32), user_(host_.dma(), pages << 12)
	{
		ctx_ = host_.alloc(4096);
		block_ = host_.alloc(SIRDMA_HMC_SD_SIZE);
		mcast_ = host_.alloc(sizeof(sirdma_mcast_ctx));
		static_cast<sirdma_mcast_ctx *>(mcast_.va)->count = 1;
	}
	void SetUp() override
	{
		const u8 mac[6] = {2, 0, 0, 0, 0, 9};
		drv_.bring_up(2);
		first_ = drv_.alloc_pbles(pages);
		for (u32 i = 0; i < pages; i++)
			drv_.write_pble(first_ + i, user_.blocks()[i]);
		root_ = drv_.alloc_pbles(SIRDMA_PBLE_PER_LEAF, SIRDMA_PBLE_PER_LEAF);
		for (u32 i = 0; i < SIRDMA_PBLE_PER_LEAF; i++)
			drv_.write_pble(root_ + i, i % 2 ? SIRDMA_PBLE_ABSENT : SIRDMA_PBLE_ERROR);
		ASSERT_EQ(drv_.set_arp(0, mac), SIRDMA_CQP_OK);
		ASSERT_EQ(drv_.set_sgid(0, ip4(10, 0, 0, 1), mac), SIRDMA_CQP_OK);
	}

	u32 pick(u32 n) { return static_cast<u32>(rng_() % n); }
	u64 page() { return user_.blocks()[pick(pages)]; }

	sirdma_cqp_wqe reg_mr();
	sirdma_cqp_wqe create_cq();
	sirdma_cqp_wqe srq_command();
	sirdma_cqp_wqe qp_command();
	sirdma_cqp_wqe device_command();
	sirdma_cqp_wqe any();
	void mutate(sirdma_cqp_wqe &w);
	void account(const sirdma_cqp_wqe &w, u32 status);
	void account_stag(const sirdma_cqp_wqe &w, u32 status);
	static void account_queue(std::set<u32> &ids, u32 id, bool made, u32 status);

	std::mt19937_64 rng_;
	TestHost host_;
	MiniDriver drv_;
	UserMemory user_;
	sirdma_dma_mem ctx_{}, block_{}, mcast_{};
	u32 first_ = 0, root_ = 0; // a page list, and the root of a sparse one
	std::map<u32, u8> mrs_, slots_; // index to key: registered, and free
	std::set<u32> windows_, fast_;
	std::set<u32> cqs_, srqs_, qps_;
	std::map<u32, u32> accepted_; // by opcode
	u32 replaced_ = 0; // regions
};

sirdma_cqp_wqe CqpFuzz::reg_mr()
{
	sirdma_cqp_stag c{};
	u32 level = pick(2), count = 1 + pick(8);

	c.va = 0x10000 + pick(4096);
	c.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_LEN, count * 4096 - (c.va & 4095)) |
		   SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, pick(4));
	c.stag = (1 + pick(ids)) << 8 | pick(4);
	if (level) {
		c.first_pble = first_ + pick(pages - 8);
	} else {
		c.addr = block_.pa;
	}
	if (!pick(8)) {
		level = SIRDMA_PBL_LEVEL_SPARSE;
		c.va = c.addr = 0;
		c.len_pd &= ~SIRDMA_CQP_STAG_LEN;
		c.first_pble = root_;
	}
	c.hdr = op(SIRDMA_CQP_REG_MR) | SIRDMA_CQP_STAG_MR | SIRDMA_CQP_STAG_VABASED |
		SIRDMA_CQP_STAG_REMACCENABLED | SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, level) |
		SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, 2 | pick(16)) |
		(pick(4) ? 0 : SIRDMA_CQP_STAG_REPLACE) | (pick(4) ? 0 : SIRDMA_CQP_STAG_MAY_FAULT);
	return std::bit_cast<sirdma_cqp_wqe>(c);
}

sirdma_cqp_wqe CqpFuzz::create_cq()
{
	sirdma_cqp_cq c{};
	bool vmap = pick(2);

	c.size = 4 + pick(120);
	c.ctx = pick(1000);
	c.addr = vmap ? 0 : page();
	c.first_pble = vmap ? first_ + pick(pages) : 0;
	c.shadow_addr = page() + pick(64) * 64;
	c.hdr = op(SIRDMA_CQP_CREATE_CQ) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, 1 + pick(ids)) |
		(vmap ? SIRDMA_CQP_CQ_VMAP : 0) | SIRDMA_CQP_CQ_ENCEQE | SIRDMA_CQP_CQ_CEQIDVALID;
	return std::bit_cast<sirdma_cqp_wqe>(c);
}

sirdma_cqp_wqe CqpFuzz::srq_command()
{
	const u64 ops[] = {SIRDMA_CQP_CREATE_SRQ, SIRDMA_CQP_MODIFY_SRQ, SIRDMA_CQP_QUERY_SRQ,
			   SIRDMA_CQP_DESTROY_SRQ};
	const bool vmap = pick(2);
	sirdma_cqp_srq c{};

	c.size = SIRDMA_PREP(SIRDMA_CQP_SRQ_WQES, 1u << pick(6)) |
		 SIRDMA_PREP(SIRDMA_CQP_SRQ_LIMIT, pick(40));
	c.pd = pick(4);
	c.addr = vmap ? 0 : page();
	c.first_pble = vmap ? first_ + pick(pages) : 0;
	c.shadow_addr = page() + pick(64) * 64;
	if (pick(2))
		c.xrc = SIRDMA_CQP_SRQ_XRC | SIRDMA_PREP(SIRDMA_CQP_SRQ_XRCD, pick(2)) |
			SIRDMA_PREP(SIRDMA_CQP_SRQ_CQ, 1 + pick(ids));
	c.hdr = op(ops[pick(std::size(ops))]) | SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, 1 + pick(ids)) |
		SIRDMA_PREP(SIRDMA_CQP_SRQ_STRIDE, pick(3)) | (vmap ? SIRDMA_CQP_SRQ_VMAP : 0);
	return std::bit_cast<sirdma_cqp_wqe>(c);
}

sirdma_cqp_wqe CqpFuzz::qp_command()
{
	const u64 ops[] = {SIRDMA_CQP_CREATE_QP,      SIRDMA_CQP_MODIFY_QP,  SIRDMA_CQP_MODIFY_QP,
			   SIRDMA_CQP_UPLOAD_CONTEXT, SIRDMA_CQP_DESTROY_QP, SIRDMA_CQP_FLUSH_WQES};
	auto *ctx = static_cast<sirdma_qp_ctx *>(ctx_.va);
	sirdma_cqp_qp c{};

	if (pick(8)) {
		memset(ctx, 0, sizeof(*ctx));
		ctx->sq_addr = page();
		ctx->rq_addr = page();
		ctx->shadow_addr = page();
		ctx->sq_quanta = 8u << pick(5);
		ctx->srq = pick(4) ? 0 : 1 + pick(ids);
		ctx->rq_wqes = ctx->srq ? 0 : 1u << pick(7);
		ctx->qp_type = static_cast<u8>(pick(2) ? u32{SIRDMA_QPT_RC} : pick(8));
		ctx->xrcd = pick(2);
		if (ctx->qp_type == SIRDMA_QPT_XRC_TGT)
			ctx->sq_quanta = ctx->rq_wqes = ctx->srq = 0;
		if (ctx->qp_type == SIRDMA_QPT_XRC_INI)
			ctx->rq_wqes = ctx->srq = 0;
		ctx->send_cq = 1 + pick(ids);
		ctx->recv_cq = 1 + pick(ids);
		ctx->modify = 1u << pick(15) | 1u << pick(15);
		ctx->hop_limit = 64;
		ctx->udp_sport = 0xc000;
		ctx->pkey = 0xffff;
		ctx->path_mtu = 256 << pick(5);
	}
	for (u32 n = pick(3); n; n--)
		static_cast<u8 *>(ctx_.va)[pick(sizeof(*ctx))] ^= 1u << pick(8);
	c.ctx_addr = ctx_.pa;
	c.hdr = op(ops[pick(std::size(ops))]) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, 2 + pick(ids)) |
		SIRDMA_PREP(SIRDMA_CQP_QP_NEXT_STATE, pick(7));
	return std::bit_cast<sirdma_cqp_wqe>(c);
}

sirdma_cqp_wqe CqpFuzz::device_command()
{
	sirdma_cqp_wqe w{};

	switch (pick(6)) {
	case 5:
		w.hdr = op(pick(2) ? SIRDMA_CQP_CREATE_MCAST_GRP :
			   pick(2) ? SIRDMA_CQP_MODIFY_MCAST_GRP :
				     SIRDMA_CQP_DESTROY_MCAST_GRP) |
			pick(ids);
		w.w0 = 0xff | pick(ids) << 8;
		w.w2 = mcast_.pa;
		break;
	case 0:
		w.hdr = op(SIRDMA_CQP_UPDATE_SDS);
		w.w0 = SIRDMA_SDCMD_VALID | SIRDMA_SDCMD_WR | (8 + pick(8));
		w.w1 = block_.pa | SIRDMA_SDDATA_VALID | (pick(2) ? SIRDMA_SDDATA_DIRECT : 0);
		break;
	case 1:
		w.hdr = op(SIRDMA_CQP_MANAGE_ARP) | (1 + pick(ids)) |
			(pick(2) ? SIRDMA_CQP_ARP_ENTRYVALID : 0);
		break;
	case 2:
		w.hdr = op(SIRDMA_CQP_MANAGE_SGID) | (1 + pick(ids)) |
			(pick(2) ? SIRDMA_CQP_SGID_ENTRYVALID : 0);
		w.w2 = rng_() >> 16;
		break;
	case 3:
		w.hdr = op(SIRDMA_CQP_GATHER_STATS);
		w.w2 = page();
		w.w4 = 4096;
		break;
	default:
		w.hdr = op(SIRDMA_CQP_CREATE_CEQ) | (1 + pick(3));
		if (pick(2))
			w.hdr = op(SIRDMA_CQP_DESTROY_CEQ) | (1 + pick(3));
		w.w0 = 4 + pick(500);
		w.w4 = page();
	}
	return w;
}

sirdma_cqp_wqe CqpFuzz::any()
{
	sirdma_cqp_wqe w{};

	switch (pick(9)) {
	case 0:
	case 1:
		return reg_mr();
	case 8:
		return srq_command();
	case 2:
		w.w2 = (1 + pick(ids)) << 8 | pick(4);
		w.hdr = op(pick(4) ? SIRDMA_CQP_DEALLOC_STAG :
			   pick(2) ? SIRDMA_CQP_QUERY_STAG :
				     SIRDMA_CQP_ALLOC_STAG) |
			(pick(3) ? SIRDMA_CQP_STAG_MR : 0);
		return w;
	case 3:
		return create_cq();
	case 4:
		w = create_cq();
		w.hdr = (w.hdr & ~SIRDMA_CQP_OPCODE) |
			op(pick(2) ? SIRDMA_CQP_DESTROY_CQ : SIRDMA_CQP_MODIFY_CQ) |
			(pick(2) ? SIRDMA_CQP_CQ_RESIZE : SIRDMA_CQP_CQ_MODERATE);
		w.w7 = rng_() & 0x7fff7fff;
		return w;
	case 5:
		return device_command();
	default:
		return qp_command();
	}
}

void CqpFuzz::mutate(sirdma_cqp_wqe &w)
{
	auto *words = reinterpret_cast<u64 *>(&w);

	if (pick(3))
		return;
	for (u32 n = 1 + pick(2); n; n--) {
		u64 &word = words[pick(8)], old = word;
		switch (pick(4)) {
		case 0:
			word = rng_();
			break;
		case 1:
			word = 0;
			break;
		default:
			word ^= 1ull << pick(64);
		}
		if (&word == &words[3]) // same command still
			word = (word & ~SIRDMA_CQP_OPCODE) | (old & SIRDMA_CQP_OPCODE);
	}
	// A CCQ would report every later command: none of this fuzz's business.
	if (SIRDMA_GET(SIRDMA_CQP_OPCODE, w.hdr) == SIRDMA_CQP_CREATE_CQ)
		w.hdr &= ~SIRDMA_CQP_CQ_IS_CCQ;
}

void CqpFuzz::account_stag(const sirdma_cqp_wqe &w, u32 status)
{
	const u32 code = SIRDMA_GET(SIRDMA_CQP_OPCODE, w.hdr),
		  id = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, w.w2);
	const u8 key = w.w2 & 0xff;
	const bool ok = status == SIRDMA_CQP_OK, region = w.hdr & SIRDMA_CQP_STAG_MR;
	const bool used = mrs_.contains(id) || windows_.contains(id);

	if (code == SIRDMA_CQP_DEALLOC_STAG && !region) {
		ASSERT_EQ(ok, windows_.erase(id) == 1);
	} else if (code == SIRDMA_CQP_DEALLOC_STAG) {
		auto &in = slots_.contains(id) ? slots_ : mrs_;
		auto it = in.find(id);

		ASSERT_EQ(ok, it != in.end() && (fast_.contains(id) || it->second == key));
		if (ok) {
			in.erase(it);
			fast_.erase(id);
		}
	} else if (code == SIRDMA_CQP_REG_MR && (w.hdr & SIRDMA_CQP_STAG_REPLACE)) {
		const auto it = mrs_.find(id);
		const bool there = it != mrs_.end() && it->second == key && !fast_.contains(id);

		ASSERT_TRUE(there || !ok);
		ASSERT_TRUE(!there || status != SIRDMA_CQP_NO_OBJECT);
		replaced_ += ok;
	} else if (status == SIRDMA_CQP_IN_USE) {
		ASSERT_TRUE(used || (code == SIRDMA_CQP_ALLOC_STAG && slots_.contains(id)));
	} else if (ok && code == SIRDMA_CQP_REG_MR) {
		ASSERT_TRUE(mrs_.emplace(id, key).second);
		slots_.erase(id);
	} else if (ok) {
		ASSERT_FALSE(used || slots_.contains(id));
		if (region) {
			slots_.emplace(id, key);
			fast_.insert(id); // its key does not matter from here on
		} else {
			windows_.insert(id);
		}
	}
}

// Numbers of queue pairs, completion queues or shared receive queues: what is made was not there, and what is destroyed was.
void CqpFuzz::account_queue(std::set<u32> &ids, u32 id, bool made, u32 status)
{
	const bool ok = status == SIRDMA_CQP_OK;

	if (made) {
		ASSERT_TRUE(!ok || ids.insert(id).second);
		return;
	}
	ASSERT_EQ(ok || status == SIRDMA_CQP_IN_USE, ids.contains(id));
	if (ok)
		ids.erase(id);
}

void CqpFuzz::account(const sirdma_cqp_wqe &w, u32 status)
{
	const u32 code = SIRDMA_GET(SIRDMA_CQP_OPCODE, w.hdr);

	accepted_[code] += status == SIRDMA_CQP_OK;
	switch (code) {
	case SIRDMA_CQP_ALLOC_STAG:
	case SIRDMA_CQP_REG_MR:
	case SIRDMA_CQP_DEALLOC_STAG:
		account_stag(w, status);
		break;
	case SIRDMA_CQP_CREATE_CQ:
	case SIRDMA_CQP_DESTROY_CQ:
		account_queue(cqs_, SIRDMA_GET(SIRDMA_CQP_CQ_ID, w.hdr),
			      code == SIRDMA_CQP_CREATE_CQ, status);
		break;
	case SIRDMA_CQP_CREATE_SRQ:
	case SIRDMA_CQP_DESTROY_SRQ:
		account_queue(srqs_, SIRDMA_GET(SIRDMA_CQP_SRQ_ID, w.hdr),
			      code == SIRDMA_CQP_CREATE_SRQ, status);
		break;
	case SIRDMA_CQP_QUERY_SRQ:
		ASSERT_EQ(status == SIRDMA_CQP_OK,
			  srqs_.contains(SIRDMA_GET(SIRDMA_CQP_SRQ_ID, w.hdr)));
		break;
	case SIRDMA_CQP_DESTROY_QP:
		ASSERT_NE(status, SIRDMA_CQP_IN_USE); // nothing uses one
		[[fallthrough]];
	case SIRDMA_CQP_CREATE_QP:
		account_queue(qps_, SIRDMA_GET(SIRDMA_CQP_QP_ID, w.hdr),
			      code == SIRDMA_CQP_CREATE_QP, status);
		break;
	default:
		break;
	}
}

} // namespace

TEST_P(CqpFuzz, TablesFollowTheStatuses)
{
	DmaSpace::ExpectFaults faults(host_.dma());

	for (int i = 0; i < 20000; i++) {
		sirdma_cqp_wqe w = any();
		mutate(w);
		u32 status = drv_.exec(w);
		ASSERT_LE(status, u32{SIRDMA_CQP_AGAIN});
		ASSERT_NO_FATAL_FAILURE(account(w, status)) << "command " << i;
		while (drv_.next_aeqe())
			;
	}
	EXPECT_EQ(host_.dev()->mrs.count, mrs_.size() + slots_.size() + windows_.size());
	EXPECT_EQ(host_.dev()->cqs.count, cqs_.size());
	EXPECT_EQ(host_.dev()->srqs.count, srqs_.size());
	EXPECT_EQ(host_.dev()->qps.count, qps_.size());
	for (u32 code :
	     {SIRDMA_CQP_ALLOC_STAG,	   SIRDMA_CQP_REG_MR,		SIRDMA_CQP_DEALLOC_STAG,
	      SIRDMA_CQP_QUERY_STAG,	   SIRDMA_CQP_CREATE_CQ,	SIRDMA_CQP_MODIFY_CQ,
	      SIRDMA_CQP_DESTROY_CQ,	   SIRDMA_CQP_CREATE_QP,	SIRDMA_CQP_MODIFY_QP,
	      SIRDMA_CQP_DESTROY_QP,	   SIRDMA_CQP_UPLOAD_CONTEXT,	SIRDMA_CQP_UPDATE_SDS,
	      SIRDMA_CQP_MANAGE_ARP,	   SIRDMA_CQP_MANAGE_SGID,	SIRDMA_CQP_CREATE_CEQ,
	      SIRDMA_CQP_DESTROY_CEQ,	   SIRDMA_CQP_CREATE_SRQ,	SIRDMA_CQP_MODIFY_SRQ,
	      SIRDMA_CQP_DESTROY_SRQ,	   SIRDMA_CQP_QUERY_SRQ,	SIRDMA_CQP_CREATE_MCAST_GRP,
	      SIRDMA_CQP_MODIFY_MCAST_GRP, SIRDMA_CQP_DESTROY_MCAST_GRP})
		EXPECT_GT(accepted_[code], 10u) << "opcode " << code << " is not really exercised";
	EXPECT_GT(replaced_, 10u);
	// Every region that is left still answers for its own key and no other.
	for (auto [idx, key] : mrs_) {
		snic_slot *slot = snic_slot_get(&host_.dev()->mrs, idx);
		ASSERT_NE(slot, nullptr);
		EXPECT_EQ(snic_slot_key(slot), key);
		snic_slot_put(slot);
	}
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(host_.dev()->mrs.count + host_.dev()->cqs.count + host_.dev()->srqs.count +
			  host_.dev()->qps.count + host_.dev()->mcasts.groups.count,
		  0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CqpFuzz, ::testing::Range<u64>(1, 9));
