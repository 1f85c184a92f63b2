// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mini_driver.hpp"

namespace sirdma::test
{

namespace
{
u64 op(sirdma_cqp_op code)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, code);
}
} // namespace

std::optional<TestCq::Entry> TestCq::poll()
{
	auto *cqes = static_cast<sirdma_cqe *>(ring.va);
	auto valid = [&](u32 i, bool pol) {
		u64 hdr = __atomic_load_n(&cqes[i].hdr, __ATOMIC_ACQUIRE);
		return !!(hdr & SIRDMA_CQE_VALID) == pol;
	};
	Entry e{};

	if (!valid(cons, polarity))
		return std::nullopt;
	e.cqe = cqes[cons];
	auto advance = [&] {
		if (++cons == entries) {
			cons = 0;
			polarity = !polarity;
		}
	};
	advance();
	if (e.cqe.hdr & SIRDMA_CQE_EXT) {
		EXPECT_TRUE(valid(cons, polarity)) << "second half must be valid before the first";
		memcpy(&e.ext, &cqes[cons], sizeof(e.ext));
		e.extended = true;
		advance();
	}
	__atomic_store_n(&area()->cons_idx, cons, __ATOMIC_RELEASE);
	return e;
}

void TestCq::arm(bool solicited_only)
{
	seq = (seq + 1) & 3;
	u64 word = SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, seq) |
		   (solicited_only ? SIRDMA_CQ_SHADOW_ARM_NEXT_SE : SIRDMA_CQ_SHADOW_ARM_NEXT);
	__atomic_store_n(&area()->arm, word, __ATOMIC_SEQ_CST);
}

MiniDriver::MiniDriver(TestHost &host, u32 cqp_entries) : host_(host), entries_(cqp_entries) {}

bool MiniDriver::start(u32 entries)
{
	entries_ = entries;
	head_ = 0;
	polarity_ = true;
	if (!ring_.va)
		ring_ = host_.alloc(SIRDMA_CQP_MAX_ENTRIES * sizeof(sirdma_cqp_wqe));
	memset(ring_.va, 0, ring_.size);
	if (!ctx_.va)
		ctx_ = host_.alloc(4096);
	auto *ctx = static_cast<sirdma_cqp_ctx *>(ctx_.va);
	ctx->sq_base = ring_.pa;
	ctx->sq_entries = entries;
	ctx->version = SIRDMA_HW_VERSION;
	ctx->compl_ctx = 0xc0ffee;
	host_.write32(SIRDMA_REG_CCQPLOW, static_cast<u32>(ctx_.pa));
	host_.write32(SIRDMA_REG_CCQPHIGH, static_cast<u32>(ctx_.pa >> 32));
	return host_.read32(SIRDMA_REG_CCQPSTATUS) == SIRDMA_CCQPSTATUS_DONE;
}

void MiniDriver::bring_up(u32 sds)
{
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	ASSERT_TRUE(host_.read32(SIRDMA_REG_STATUS) & SIRDMA_STATUS_READY);
	ASSERT_TRUE(start(entries_));
	ASSERT_EQ(create_aeq(256), SIRDMA_CQP_OK);
	ASSERT_EQ(create_ceq(0, 256), SIRDMA_CQP_OK);
	for (u32 i = 0; i < sds; i++) {
		sds_.push_back(host_.alloc(SIRDMA_HMC_SD_SIZE));
		ASSERT_EQ(update_sd(pble_base_sd + i,
				    sds_[i].pa | SIRDMA_SDDATA_VALID | SIRDMA_SDDATA_DIRECT),
			  SIRDMA_CQP_OK);
	}
	av_pds_ = host_.alloc(SIRDMA_PAGE_SIZE);
	avs_ = host_.alloc(SIRDMA_PAGE_SIZE);
	*static_cast<u64 *>(av_pds_.va) = avs_.pa | SIRDMA_PD_VALID;
	ASSERT_EQ(update_sd(av_sd, av_pds_.pa | SIRDMA_SDDATA_VALID), SIRDMA_CQP_OK);
	ASSERT_EQ(commit_pbles(pble_base_sd, sds * (SIRDMA_HMC_SD_SIZE / 8), num_avs),
		  SIRDMA_CQP_OK);
}

void MiniDriver::place(const sirdma_cqp_wqe &wqe)
{
	sirdma_cqp_wqe w = wqe;

	w.hdr &= ~SIRDMA_CQP_VALID;
	w.hdr |= polarity_ ? SIRDMA_CQP_VALID : 0;
	*slot(head_) = w;
	if (++head_ == entries_) {
		head_ = 0;
		polarity_ = !polarity_;
	}
}

void MiniDriver::ring()
{
	host_.write32(SIRDMA_REG_CQPDB, head_);
}

u32 MiniDriver::status()
{
	u32 tail = host_.read32(SIRDMA_REG_CQPTAIL);

	if (tail & SIRDMA_CQPTAIL_OP_ERR)
		return host_.read32(SIRDMA_REG_CQPERRCODES) & 0xffff;
	return SIRDMA_CQP_OK;
}

u32 MiniDriver::exec(sirdma_cqp_wqe wqe)
{
	place(wqe);
	ring();
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQPTAIL_WQTAIL, host_.read32(SIRDMA_REG_CQPTAIL)), head_);
	return status();
}

u32 MiniDriver::create_aeq(u32 entries)
{
	sirdma_cqp_aeq cmd{};

	aeq_ = {host_.alloc(entries * sizeof(sirdma_aeqe)), entries};
	cmd.size = entries;
	cmd.addr = aeq_.mem.pa;
	cmd.hdr = op(SIRDMA_CQP_CREATE_AEQ);
	return exec(cmd);
}

u32 MiniDriver::create_ceq(u32 id, u32 entries)
{
	sirdma_cqp_ceq cmd{};

	ceqs_[id] = {host_.alloc(entries * sizeof(sirdma_ceqe)), entries};
	cmd.size = entries;
	cmd.addr = ceqs_[id].mem.pa;
	cmd.hdr = op(SIRDMA_CQP_CREATE_CEQ) | SIRDMA_PREP(SIRDMA_CQP_CEQ_ID, id);
	return exec(cmd);
}

std::optional<TestAeqe> MiniDriver::next_aeqe(bool ack)
{
	auto *e = static_cast<sirdma_aeqe *>(aeq_.mem.va) + aeq_.cons;
	u64 val = __atomic_load_n(&e->val, __ATOMIC_ACQUIRE);

	if (!!(val & SIRDMA_AEQE_VALID) != aeq_.polarity)
		return std::nullopt;
	TestAeqe out{
		.code = static_cast<u32>(SIRDMA_GET(SIRDMA_AEQE_AECODE, val)),
		.source = static_cast<u32>(SIRDMA_GET(SIRDMA_AEQE_AESRC, val)),
		.id = static_cast<u32>(SIRDMA_GET(SIRDMA_AEQE_QPCQID_LOW, val) |
				       SIRDMA_GET(SIRDMA_AEQE_QPCQID_HI, val) << 18),
		.wqe_idx = static_cast<u32>(SIRDMA_GET(SIRDMA_AEQE_WQDESCIDX, val)),
		.state = static_cast<u32>(SIRDMA_GET(SIRDMA_AEQE_QPSTATE, val)),
		.event_ctx = e->event_ctx,
		.overflow = !!(val & SIRDMA_AEQE_OVERFLOW),
	};
	if (++aeq_.cons == aeq_.entries) {
		aeq_.cons = 0;
		aeq_.polarity = !aeq_.polarity;
	}
	if (ack)
		host_.write32(SIRDMA_REG_AEQALLOC, 1);
	return out;
}

std::optional<u64> MiniDriver::next_ceqe(u32 id, bool ack)
{
	Eq &eq = ceqs_[id];
	auto *e = static_cast<sirdma_ceqe *>(eq.mem.va) + eq.cons;
	u64 val = __atomic_load_n(&e->val, __ATOMIC_ACQUIRE);

	if (!!(val & SIRDMA_CEQE_VALID) != eq.polarity)
		return std::nullopt;
	if (++eq.cons == eq.entries) {
		eq.cons = 0;
		eq.polarity = !eq.polarity;
	}
	if (ack)
		host_.write32(SIRDMA_REG_CEQACK,
			      static_cast<u32>(SIRDMA_PREP(SIRDMA_CEQACK_ID, id)) | 1);
	return SIRDMA_GET(SIRDMA_CEQE_CQCTX, val) << 1;
}

u32 MiniDriver::create_cq(TestCq &cq, u32 id, u32 entries, u64 flags, u32 ceq)
{
	sirdma_cqp_cq cmd{};

	cq = {};
	cq.id = id;
	cq.entries = entries;
	cq.ring = host_.alloc(entries * sizeof(sirdma_cqe));
	cq.shadow = host_.alloc(SIRDMA_SHADOW_SIZE);
	cmd.size = entries;
	cmd.ctx = (0xabc000ull + id * 2) >> 1;
	cmd.addr = cq.ring.pa;
	cmd.shadow_addr = cq.shadow.pa;
	cmd.hdr = op(SIRDMA_CQP_CREATE_CQ) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, id) |
		  SIRDMA_PREP(SIRDMA_CQP_CQ_CEQID, ceq) | flags;
	return exec(cmd);
}

u32 MiniDriver::destroy_cq(TestCq &cq)
{
	sirdma_cqp_cq cmd{};

	cmd.hdr = op(SIRDMA_CQP_DESTROY_CQ) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, cq.id);
	return exec(cmd);
}

u32 MiniDriver::update_sd(u32 idx, u64 data, bool valid)
{
	sirdma_cqp_sds cmd{};

	cmd.cmd0 = SIRDMA_PREP(SIRDMA_SDCMD_SDIDX, idx) | SIRDMA_SDCMD_WR | SIRDMA_SDCMD_VALID;
	cmd.data0 = valid ? data : 0;
	cmd.hdr = op(SIRDMA_CQP_UPDATE_SDS);
	return exec(cmd);
}

u32 MiniDriver::commit_pbles(u32 base_sd, u32 count, u32 avs)
{
	sirdma_cqp_buf cmd{};
	auto mem = host_.alloc(4096);
	auto *commit = static_cast<sirdma_fpm_commit *>(mem.va);

	commit->obj[SIRDMA_HMC_OBJ_PBLE].base =
		base_sd * (SIRDMA_HMC_SD_SIZE / SIRDMA_HMC_FPM_UNIT);
	commit->obj[SIRDMA_HMC_OBJ_PBLE].count = count;
	commit->obj[SIRDMA_HMC_OBJ_AV].base = av_sd * (SIRDMA_HMC_SD_SIZE / SIRDMA_HMC_FPM_UNIT);
	commit->obj[SIRDMA_HMC_OBJ_AV].count = avs;
	cmd.addr = mem.pa;
	cmd.len = sizeof(*commit);
	cmd.hdr = op(SIRDMA_CQP_COMMIT_FPM);
	u32 ret = exec(cmd);
	host_.free(mem);
	return ret;
}

u32 MiniDriver::alloc_pbles(u32 count, u32 align)
{
	u32 idx = (next_pble_ + align - 1) / align * align;

	next_pble_ = idx + count;
	EXPECT_LE(next_pble_, sds_.size() * (SIRDMA_HMC_SD_SIZE / 8));
	return idx;
}

void MiniDriver::write_pble(u32 idx, u64 val)
{
	constexpr u32 per_sd = SIRDMA_HMC_SD_SIZE / 8;

	// The device may be reading it.
	__atomic_store_n(&static_cast<__le64 *>(sds_[idx / per_sd].va)[idx % per_sd], val,
			 __ATOMIC_RELAXED);
}

void MiniDriver::describe(MrParams &mr, const UserMemory &mem, u8 level, size_t first)
{
	const auto &blocks = mem.blocks();
	u32 count = static_cast<u32>(blocks.size() - first);

	mr.level = level;
	mr.block_shift = mem.block_shift();
	if (level == 0) {
		mr.addr = blocks[first];
		return;
	}
	if (level == 1) {
		mr.first_pble = alloc_pbles(count);
		for (u32 i = 0; i < count; i++)
			write_pble(mr.first_pble + i, blocks[first + i]);
		return;
	}
	u32 leaves = (count + SIRDMA_PBLE_PER_LEAF - 1) / SIRDMA_PBLE_PER_LEAF;
	mr.first_pble = alloc_pbles(leaves);
	for (u32 l = 0; l < leaves; l++) {
		alloc_pbles(l % 3); // leaves need not be adjacent
		u32 leaf = alloc_pbles(SIRDMA_PBLE_PER_LEAF);
		write_pble(mr.first_pble + l, leaf);
		for (u32 i = 0; i < SIRDMA_PBLE_PER_LEAF; i++) {
			size_t b = first + l * SIRDMA_PBLE_PER_LEAF + i;
			if (b < blocks.size())
				write_pble(leaf + i, blocks[b]);
		}
	}
}

u32 MiniDriver::reg_mr(const MrParams &mr)
{
	sirdma_cqp_stag cmd{};
	u64 page = mr.block_shift == 30 ? SIRDMA_HPAGE_1G :
		   mr.block_shift == 21 ? SIRDMA_HPAGE_2M :
					  SIRDMA_HPAGE_4K;

	cmd.va = mr.va;
	cmd.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_LEN, mr.len) |
		     SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, mr.pd);
	cmd.pd_hi = SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_HI, mr.pd >> 18);
	cmd.stag = SIRDMA_PREP(SIRDMA_CQP_STAG_KEY, mr.key) |
		   SIRDMA_PREP(SIRDMA_CQP_STAG_IDX, mr.idx);
	cmd.addr = mr.level ? 0 : mr.addr;
	cmd.first_pble = mr.level ? mr.first_pble : 0;
	cmd.hdr = op(SIRDMA_CQP_REG_MR) | (mr.is_mr ? SIRDMA_CQP_STAG_MR : 0) |
		  SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, mr.level) |
		  SIRDMA_PREP(SIRDMA_CQP_STAG_HPAGESIZE, page) |
		  SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, mr.access & 0x1f) |
		  (mr.access & SIRDMA_ACCESS_REMOTE_ATOMIC ? SIRDMA_CQP_STAG_ATOMICS : 0) |
		  (mr.access & SIRDMA_ACCESS_REMOTE_FLUSH ? SIRDMA_CQP_STAG_FLUSH : 0) |
		  (mr.access & (SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
				SIRDMA_ACCESS_REMOTE_ATOMIC | SIRDMA_ACCESS_REMOTE_FLUSH) ?
			   SIRDMA_CQP_STAG_REMACCENABLED :
			   0) |
		  (mr.zero_based ? 0 : SIRDMA_CQP_STAG_VABASED) |
		  (mr.all_memory ? SIRDMA_CQP_STAG_ALL_MEMORY : 0) |
		  (mr.may_fault ? SIRDMA_CQP_STAG_MAY_FAULT : 0) |
		  (mr.replace ? SIRDMA_CQP_STAG_REPLACE : 0);
	return exec(cmd);
}

// A command that names a region and nothing else.
u32 MiniDriver::exec_region(u64 hdr, u32 stag)
{
	sirdma_cqp_stag cmd{};

	cmd.stag = SIRDMA_PREP(SIRDMA_CQP_STAG_KEY, stag) |
		   SIRDMA_PREP(SIRDMA_CQP_STAG_IDX, stag >> 8);
	cmd.hdr = hdr | SIRDMA_CQP_STAG_MR;
	return exec(cmd);
}

u32 MiniDriver::alloc_stag(u32 stag)
{
	return exec_region(op(SIRDMA_CQP_ALLOC_STAG), stag);
}

u32 MiniDriver::alloc_fast(u32 stag, u32 first_pble, u32 blocks, u32 pd)
{
	sirdma_cqp_stag cmd{};

	cmd.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, pd);
	cmd.pd_hi = SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_HI, pd >> 18);
	cmd.stag = stag;
	cmd.first_pble = SIRDMA_PREP(SIRDMA_CQP_FIRST_PBLE, first_pble) |
			 SIRDMA_PREP(SIRDMA_CQP_STAG_BLOCKS, blocks);
	cmd.hdr = op(SIRDMA_CQP_ALLOC_STAG) | SIRDMA_CQP_STAG_MR;
	return exec(cmd);
}

u32 MiniDriver::dealloc_stag(u32 stag)
{
	return exec_region(op(SIRDMA_CQP_DEALLOC_STAG), stag);
}

u32 MiniDriver::alloc_mw(u32 idx, bool type1, u32 pd)
{
	sirdma_cqp_stag cmd{};

	cmd.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, pd);
	cmd.stag = SIRDMA_PREP(SIRDMA_CQP_STAG_IDX, idx);
	cmd.hdr = op(SIRDMA_CQP_ALLOC_STAG) | (type1 ? SIRDMA_CQP_STAG_MWTYPE : 0);
	return exec(cmd);
}

u32 MiniDriver::dealloc_mw(u32 idx)
{
	sirdma_cqp_stag cmd{};

	cmd.stag = SIRDMA_PREP(SIRDMA_CQP_STAG_IDX, idx);
	cmd.hdr = op(SIRDMA_CQP_DEALLOC_STAG);
	return exec(cmd);
}

u32 MiniDriver::set_arp(u32 idx, const u8 mac[6], bool valid)
{
	sirdma_cqp_arp cmd{};

	cmd.mac = sirdma_mac_to_word(mac);
	cmd.hdr = op(SIRDMA_CQP_MANAGE_ARP) | SIRDMA_PREP(SIRDMA_CQP_ARP_IDX, idx) |
		  (valid ? SIRDMA_CQP_ARP_ENTRYVALID : 0);
	return exec(cmd);
}

u32 MiniDriver::set_sgid(u32 idx, const sirdma_ip &ip, const u8 mac[6], bool valid, int vlan)
{
	sirdma_cqp_sgid cmd{};

	memcpy(&cmd.ip_lo, ip.b, 8);
	memcpy(&cmd.ip_hi, ip.b + 8, 8);
	cmd.mac = sirdma_mac_to_word(mac);
	if (vlan >= 0)
		cmd.mac |= SIRDMA_PREP(SIRDMA_CQP_SGID_VLAN, vlan) | SIRDMA_CQP_SGID_VLANVALID;
	cmd.hdr = op(SIRDMA_CQP_MANAGE_SGID) | SIRDMA_PREP(SIRDMA_CQP_SGID_IDX, idx) |
		  (valid ? SIRDMA_CQP_SGID_ENTRYVALID : 0);
	return exec(cmd);
}

} // namespace sirdma::test
