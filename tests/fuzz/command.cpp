// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Commands of a driver that has lost its mind.
//
// Input: commands, some at once: a well-formed one chosen by two bytes, then words of
// it changed. Oracles: World's; each command is answered once, and counted as an error
// exactly when its status is one; what was created can be created again only after it
// was destroyed, and all of it can be destroyed at the end.
#include "world.hpp"

namespace sirdma::test
{
namespace
{

constexpr u32 pages = 32, ids = 6;
// Numbers below are the World's own.
constexpr u32 first_qp = 1100, first_cq = 1100, first_stag = 200, first_sd = 8;

u64 op(u64 code)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, code);
}

u64 at_least(u64 word, u64 mask, u64 first)
{
	const u64 unit = mask & -mask, value = (word & mask) / unit;

	return value >= first ? word : (word & ~mask) | (value + first) * unit;
}

// Memory that commands name.
struct Arena {
	explicit Arena(Node &n)
		: user(n.host.dma(), pages << 12), ctx(n.host.alloc(4096)),
		  block(n.host.alloc(SIRDMA_HMC_SD_SIZE)), first_pble(n.drv.alloc_pbles(pages)),
		  root(n.drv.alloc_pbles(SIRDMA_PBLE_PER_LEAF, SIRDMA_PBLE_PER_LEAF))
	{
		for (u32 i = 0; i < SIRDMA_PBLE_PER_LEAF; i++)
			n.drv.write_pble(root + i, i % 2 ? SIRDMA_PBLE_ABSENT : SIRDMA_PBLE_ERROR);
		for (u32 i = 0; i < pages; i++)
			n.drv.write_pble(first_pble + i, user.blocks()[i]);
	}

	UserMemory user;
	sirdma_dma_mem ctx, block;
	u32 first_pble, root; // a page list, and the root of a sparse one
};

class Commands {
public:
	Commands(Node &node, Arena &arena, Input &in) : n_(node), arena_(arena), in_(in) {}

	void one()
	{
		const u64 done = n_.stat(SIRDMA_STAT_CQP_COMMANDS),
			  bad = n_.stat(SIRDMA_STAT_CQP_ERRORS);
		const u32 status = n_.drv.exec(next());

		EXPECT_EQ(n_.stat(SIRDMA_STAT_CQP_COMMANDS), done + 1);
		EXPECT_EQ(n_.stat(SIRDMA_STAT_CQP_ERRORS), bad + (status != SIRDMA_CQP_OK));
		EXPECT_LE(status, u32{SIRDMA_CQP_AGAIN});
		account(status);
	}

	// What is left goes away when it is told to.
	void clean_up()
	{
		for (u32 id : qps_)
			expect_ok(op(SIRDMA_CQP_DESTROY_QP) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, id));
		for (u32 id : cqs_)
			expect_ok(op(SIRDMA_CQP_DESTROY_CQ) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, id));
		for (auto [idx, key] : stags_)
			EXPECT_EQ(n_.drv.dealloc_stag(idx << 8 | key), SIRDMA_CQP_OK);
		for (u32 idx : windows_)
			EXPECT_EQ(n_.drv.dealloc_mw(idx), SIRDMA_CQP_OK);
		for (u32 id : ceqs_)
			expect_ok(op(SIRDMA_CQP_DESTROY_CEQ) | id);
		for (u32 sd = first_sd; sd < n_.host.options().cfg.max_sds; sd++)
			EXPECT_EQ(n_.drv.update_sd(sd, 0, false), SIRDMA_CQP_OK);
	}

private:
	u32 pick(u32 n) { return in_.byte() % n; }
	u64 page() { return arena_.user.blocks()[pick(pages)]; }

	void expect_ok(u64 hdr)
	{
		sirdma_cqp_wqe w{};

		w.hdr = hdr;
		EXPECT_EQ(n_.drv.exec(w), SIRDMA_CQP_OK) << std::hex << hdr;
	}

	sirdma_cqp_wqe stag_command(u32 code)
	{
		sirdma_cqp_stag c{};
		const bool sparse = code == SIRDMA_CQP_REG_MR && !pick(8);
		const u32 level = sparse ? SIRDMA_PBL_LEVEL_SPARSE : pick(2), count = 1 + pick(8);

		c.va = 0x10000 + in_.half() % 4096;
		c.len_pd = SIRDMA_PREP(SIRDMA_CQP_STAG_LEN, count * 4096 - (c.va & 4095)) |
			   SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, pick(4));
		c.stag = (first_stag + pick(ids)) << 8 | pick(4);
		if (level)
			c.first_pble = arena_.first_pble + pick(pages - 8);
		else
			c.addr = arena_.block.pa;
		if (sparse) {
			c.va = 0;
			c.len_pd &= ~SIRDMA_CQP_STAG_LEN;
			c.first_pble = arena_.root;
		}
		c.hdr = op(code) | SIRDMA_CQP_STAG_VABASED | SIRDMA_CQP_STAG_REMACCENABLED |
			SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, level) |
			SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, 2 | pick(16)) |
			(code == SIRDMA_CQP_REG_MR || pick(4) ? SIRDMA_CQP_STAG_MR : 0) |
			(code == SIRDMA_CQP_REG_MR && !pick(4) ? SIRDMA_CQP_STAG_REPLACE : 0) |
			(code == SIRDMA_CQP_REG_MR && !pick(4) ? SIRDMA_CQP_STAG_MAY_FAULT : 0);
		return std::bit_cast<sirdma_cqp_wqe>(c);
	}

	sirdma_cqp_wqe cq_command(u32 code)
	{
		sirdma_cqp_cq c{};
		const bool vmap = pick(2);

		c.size = 4 + pick(120);
		c.ctx = in_.byte();
		c.addr = vmap ? 0 : page();
		c.first_pble = vmap ? arena_.first_pble + pick(pages) : 0;
		c.shadow_addr = page() + pick(64) * 64;
		c.hdr = op(code) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, first_cq + pick(ids)) |
			(vmap ? SIRDMA_CQP_CQ_VMAP : 0) | SIRDMA_CQP_CQ_ENCEQE |
			SIRDMA_CQP_CQ_CEQIDVALID |
			(code != SIRDMA_CQP_MODIFY_CQ ? 0 :
			 pick(2)		      ? SIRDMA_CQP_CQ_RESIZE :
							SIRDMA_CQP_CQ_MODERATE);
		c.moderation = pick(8) | pick(8) << 16;
		return std::bit_cast<sirdma_cqp_wqe>(c);
	}

	sirdma_cqp_wqe qp_command(u32 code)
	{
		auto *ctx = static_cast<sirdma_qp_ctx *>(arena_.ctx.va);
		sirdma_cqp_qp c{};

		memset(ctx, 0, sizeof(*ctx));
		ctx->sq_addr = page();
		ctx->rq_addr = page();
		ctx->shadow_addr = page();
		ctx->sq_quanta = 8u << pick(5);
		ctx->rq_wqes = 1u << pick(7);
		ctx->send_cq = first_cq + pick(ids);
		ctx->recv_cq = first_cq + pick(ids);
		ctx->modify = in_.half();
		ctx->hop_limit = 64;
		ctx->udp_sport = 0xc000;
		ctx->pkey = 0xffff;
		ctx->path_mtu = static_cast<u16>(256 << pick(5));
		for (u32 n = pick(4); n; n--) {
			const u32 at = in_.half() % sizeof(*ctx);

			static_cast<u8 *>(arena_.ctx.va)[at] ^= in_.byte();
		}
		c.ctx_addr = arena_.ctx.pa;
		c.hdr = op(code) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, first_qp + pick(ids)) |
			SIRDMA_PREP(SIRDMA_CQP_QP_NEXT_STATE, pick(7));
		return std::bit_cast<sirdma_cqp_wqe>(c);
	}

	sirdma_cqp_wqe other_command(u32 code)
	{
		sirdma_cqp_wqe w{};

		w.hdr = op(code) | pick(8) | (pick(2) ? SIRDMA_CQP_ARP_ENTRYVALID : 0);
		switch (code) {
		case SIRDMA_CQP_UPDATE_SDS:
			w.hdr = op(code);
			w.w0 = SIRDMA_SDCMD_VALID | SIRDMA_SDCMD_WR | (first_sd + pick(8));
			w.w1 = arena_.block.pa | SIRDMA_SDDATA_VALID |
			       (pick(2) ? SIRDMA_SDDATA_DIRECT : 0);
			break;
		case SIRDMA_CQP_MANAGE_SGID:
			w.w2 = in_.word() >> 16;
			break;
		default:
			w.w0 = 4 + in_.half() % 500;
			w.w2 = page();
			w.w4 = in_.byte() & 1 ? page() : 4096;
		}
		return w;
	}

	sirdma_cqp_wqe well_formed(u32 code)
	{
		switch (code) {
		case SIRDMA_CQP_REG_MR:
		case SIRDMA_CQP_ALLOC_STAG:
		case SIRDMA_CQP_QUERY_STAG:
		case SIRDMA_CQP_DEALLOC_STAG:
			return stag_command(code);
		case SIRDMA_CQP_CREATE_CQ:
		case SIRDMA_CQP_MODIFY_CQ:
		case SIRDMA_CQP_DESTROY_CQ:
			return cq_command(code);
		case SIRDMA_CQP_CREATE_QP:
		case SIRDMA_CQP_MODIFY_QP:
		case SIRDMA_CQP_DESTROY_QP:
		case SIRDMA_CQP_UPLOAD_CONTEXT:
		case SIRDMA_CQP_FLUSH_WQES:
			return qp_command(code);
		default:
			return other_command(code);
		}
	}

	// A driver may do to its objects what it wants; the World's are another's.
	void leave_the_worlds(sirdma_cqp_wqe &w, u32 code)
	{
		w.hdr = (w.hdr & ~SIRDMA_CQP_OPCODE) | op(code);
		switch (code) {
		case SIRDMA_CQP_CREATE_QP:
		case SIRDMA_CQP_MODIFY_QP:
		case SIRDMA_CQP_DESTROY_QP:
		case SIRDMA_CQP_UPLOAD_CONTEXT:
			w.hdr = at_least(w.hdr, SIRDMA_CQP_QP_ID, first_qp);
			break;
		case SIRDMA_CQP_FLUSH_WQES:
			w.hdr = at_least(w.hdr, SIRDMA_CQP_FLUSH_QPID, first_qp);
			break;
		case SIRDMA_CQP_CREATE_CQ:
		case SIRDMA_CQP_MODIFY_CQ:
		case SIRDMA_CQP_DESTROY_CQ:
			w.hdr = at_least(w.hdr & ~SIRDMA_CQP_CQ_IS_CCQ, SIRDMA_CQP_CQ_ID, first_cq);
			break;
		case SIRDMA_CQP_UPDATE_SDS:
			// One entry, in the command itself.
			w.w0 = at_least(w.w0, SIRDMA_SDCMD_SDIDX, first_sd);
			w.hdr = op(code);
			break;
		case SIRDMA_CQP_MANAGE_ARP:
		case SIRDMA_CQP_MANAGE_SGID:
		case SIRDMA_CQP_CREATE_CEQ:
		case SIRDMA_CQP_DESTROY_CEQ:
			if (!(w.hdr & 0x3ff))
				w.hdr |= 1;
			break;
		default:
			w.w2 = at_least(w.w2, SIRDMA_CQP_STAG_IDX, first_stag);
		}
	}

	sirdma_cqp_wqe next()
	{
		static constexpr u8 codes[] = {
			SIRDMA_CQP_CREATE_QP,
			SIRDMA_CQP_MODIFY_QP,
			SIRDMA_CQP_DESTROY_QP,
			SIRDMA_CQP_CREATE_CQ,
			SIRDMA_CQP_MODIFY_CQ,
			SIRDMA_CQP_DESTROY_CQ,
			SIRDMA_CQP_ALLOC_STAG,
			SIRDMA_CQP_REG_MR,
			SIRDMA_CQP_QUERY_STAG,
			SIRDMA_CQP_DEALLOC_STAG,
			SIRDMA_CQP_MANAGE_ARP,
			SIRDMA_CQP_UPLOAD_CONTEXT,
			SIRDMA_CQP_CREATE_CEQ,
			SIRDMA_CQP_DESTROY_CEQ,
			SIRDMA_CQP_UPDATE_SDS,
			SIRDMA_CQP_FLUSH_WQES,
			SIRDMA_CQP_NOP,
			SIRDMA_CQP_GATHER_STATS,
			SIRDMA_CQP_MANAGE_SGID,
			SIRDMA_CQP_QUERY_FPM,
			SIRDMA_CQP_CREATE_AEQ,
			0x1c,
			0x1e,
			0x3f,
		};
		const u32 code = codes[pick(std::size(codes))];
		u64 *words = reinterpret_cast<u64 *>(&wqe_);

		wqe_ = well_formed(code);
		for (u8 change = in_.byte(), i = 0; i < 8; i++)
			if (change & 1 << i)
				words[i] ^= in_.byte() & 1 ? in_.word() : 1ull << in_.byte() % 64;
		leave_the_worlds(wqe_, code);
		return wqe_;
	}

	// @tracked: object @id is there now. A failure with the object there is its being in use.
	void destroyed(bool there, bool ok, u32 status)
	{
		EXPECT_EQ(ok || status == SIRDMA_CQP_IN_USE, there)
			<< "status " << status << ", header 0x" << std::hex << wqe_.hdr;
	}

	void account(u32 status)
	{
		const bool ok = status == SIRDMA_CQP_OK;
		const u32 qp = SIRDMA_GET(SIRDMA_CQP_QP_ID, wqe_.hdr),
			  cq = SIRDMA_GET(SIRDMA_CQP_CQ_ID, wqe_.hdr),
			  stag = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, wqe_.w2);

		switch (SIRDMA_GET(SIRDMA_CQP_OPCODE, wqe_.hdr)) {
		case SIRDMA_CQP_CREATE_QP:
			EXPECT_FALSE(ok && !qps_.insert(qp).second);
			break;
		case SIRDMA_CQP_DESTROY_QP:
			destroyed(qps_.count(qp), ok, status);
			if (ok)
				qps_.erase(qp);
			break;
		case SIRDMA_CQP_CREATE_CQ:
			EXPECT_FALSE(ok && !cqs_.insert(cq).second);
			break;
		case SIRDMA_CQP_DESTROY_CQ:
			destroyed(cqs_.count(cq), ok, status);
			if (ok)
				cqs_.erase(cq);
			break;
		case SIRDMA_CQP_ALLOC_STAG:
		case SIRDMA_CQP_REG_MR:
			if (ok && !(wqe_.hdr & SIRDMA_CQP_STAG_MR))
				windows_.insert(stag);
			else if (ok)
				stags_[stag] = wqe_.w2 & 0xff;
			// Its key does not matter from here on.
			if (ok && stags_.contains(stag) &&
			    SIRDMA_GET(SIRDMA_CQP_OPCODE, wqe_.hdr) == SIRDMA_CQP_ALLOC_STAG)
				fast_.insert(stag);
			break;
		case SIRDMA_CQP_DEALLOC_STAG: {
			const auto it = stags_.find(stag);

			if (!(wqe_.hdr & SIRDMA_CQP_STAG_MR)) {
				EXPECT_EQ(ok, windows_.erase(stag) == 1);
				break;
			}
			EXPECT_EQ(ok, it != stags_.end() && (fast_.contains(stag) ||
							     it->second == (wqe_.w2 & 0xff)));
			if (ok) {
				stags_.erase(it);
				fast_.erase(stag);
			}
			break;
		}
		case SIRDMA_CQP_CREATE_CEQ:
			EXPECT_FALSE(ok && !ceqs_.insert(wqe_.hdr & 0x3ff).second);
			break;
		case SIRDMA_CQP_DESTROY_CEQ:
			destroyed(ceqs_.count(wqe_.hdr & 0x3ff), ok, status);
			if (ok)
				ceqs_.erase(wqe_.hdr & 0x3ff);
			break;
		default:
			break;
		}
	}

	Node &n_;
	Arena &arena_;
	Input &in_;
	sirdma_cqp_wqe wqe_{};
	std::set<u32> qps_, cqs_, ceqs_, windows_, fast_;
	std::map<u32, u8> stags_; // index to key
};

} // namespace
} // namespace sirdma::test

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	using namespace sirdma::test;

	fail_loudly();

	static World world;
	static Arena arena(world.b);
	Input in(data, size);
	QpOptions opts;

	opts.timeout = 8;
	world.connect(opts);
	{
		// Commands name addresses that nothing is behind: those are refused or faults of the device's own.
		DmaSpace::ExpectFaults faults(world.b.host.dma());
		Commands commands(world.b, arena, in);

		for (int i = 0; i < 64 && in.more(); i++)
			commands.one();
		world.fabric.run_for(1'000'000);
		commands.clean_up();
	}
	world.check(World::Faults::allowed);
	return 0;
}
