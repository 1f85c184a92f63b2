// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What an application may write into its rings, and kicks in between.
//
// Input: one byte of settings, then actions on either end's rings: a request
// with some fields from the input, raw words anywhere, a kick, time. Oracles:
// World's; every completion names its own queue pair and a place in its ring, and
// there are no more of them than the ring could hold requests.
#include "world.hpp"

namespace sirdma::test
{
namespace
{

class Rings {
public:
	Rings(World &world, Input &in) : w_(world), in_(in) {}

	void one()
	{
		const u8 what = in_.byte();

		qp_ = what & 0x80 ? &w_.victim->b : &w_.victim->a;
		switch (what & 7) {
		case 0:
		case 1:
			request(what);
			break;
		case 2:
			receive();
			break;
		case 3:
			words(static_cast<u64 *>(qp_->sq.va), qp_->sq.size / 8);
			break;
		case 4:
			words(static_cast<u64 *>(qp_->rq.va), qp_->rq.size / 8);
			break;
		case 5: // the tail of the device's own words, read back by it
			words(reinterpret_cast<u64 *>(qp_->area()), sizeof(sirdma_qp_shadow) / 8);
			break;
		case 6:
			qp_->kick(true);
			kicks_++;
			break;
		default:
			w_.fabric.run_for(in_.half() * 100ull);
			drain();
		}
	}

	void finish()
	{
		for (Qp *qp : {&w_.victim->a, &w_.victim->b}) {
			qp->kick(true);
			kicks_++;
		}
		w_.fabric.run_for(40'000'000);
		drain();
		// However it got there, it can be stopped.
		for (Qp *qp : {&w_.victim->a, &w_.victim->b}) {
			qp_ = qp;
			qp->error();
			EXPECT_EQ(qp->state(), SIRDMA_QPS_ERR);
		}
		w_.fabric.run_for(1'000'000);
		drain();
	}

private:
	u64 address(u8 how)
	{
		const u64 offset = in_.half();

		return how & 1 ? in_.word() :
				 qp_->node.va(World::window_start) + offset % World::window;
	}

	Sge sge(u8 how)
	{
		const u64 at = address(how & 1);
		const u32 len = how & 2 ? static_cast<u32>(in_.word()) : in_.half() % 8192;

		return {at, len,
			how & 4	  ? static_cast<u32>(in_.word()) :
			how & 128 ? w_.fast_key :
				    w_.key};
	}

	void request(u8 what)
	{
		const u8 how = in_.byte();
		Qp &peer = qp_ == &w_.victim->a ? w_.victim->b : w_.victim->a;
		const u64 remote = peer.node.va(World::window_start) + in_.half() % World::window;
		Wr wr;

		wr.op = in_.byte() & 0x3f;
		for (int i = what >> 3 & 7; i; i--)
			wr.sges.push_back(sge(how));
		const bool datagram = qp_->opts.type == SIRDMA_QPT_UD;

		wr.remote = how & 8  ? in_.word() :
			    datagram ? sirdma_send_dest(peer.id, peer.opts.qkey) :
				       remote;
		wr.rkey = how & 16  ? static_cast<u32>(in_.word()) :
			  datagram  ? 1 :
			  what & 64 ? mw_key() :
			  how & 1   ? w_.fast_key :
				      w_.key;
		wr.fence = how & 32;
		wr.signaled = !(how & 64);
		if (how & 128)
			wr.imm = in_.byte();
		if (is_atomic(wr.op)) {
			wr.swap_add = in_.word();
			wr.compare = in_.byte();
		}
		if (wr.op == SIRDMA_OP_FLUSH)
			wr.flush = sirdma_flush{.length = in_.half(),
						.placement = in_.byte() & 0xffu,
						.level = in_.byte() & 0xffu};
		if (wr.op == SIRDMA_OP_BIND_MW)
			wr.bind = bind(how);
		if (wr.op == SIRDMA_OP_FAST_REG)
			wr.reg = fast_reg(how);
		qp_->place(wr);
	}

	u32 mw_key()
	{
		const u8 bits = in_.byte();

		return (World::first_mw + (bits & 1)) << 8 | (bits >> 1 & 3);
	}

	// Of an own window, mostly.
	sirdma_bind bind(u8 how)
	{
		const u8 bits = in_.byte();
		const u32 mw = mw_key();
		const bool type1 = mw >> 8 == World::first_mw;

		return {.addr = address(bits & 1),
			.length = bits & 2 ? in_.word() : in_.half(),
			.window = bits & 4 ? static_cast<u32>(in_.word()) : mw,
			.region = bits & 8  ? static_cast<u32>(in_.word()) :
				  bits & 16 ? w_.fast_key :
					      w_.key,
			.rights = bits & 32 ? in_.byte() & 0x7fu :
					      u32{SIRDMA_ACCESS_REMOTE_READ |
						  SIRDMA_ACCESS_REMOTE_WRITE |
						  SIRDMA_ACCESS_REMOTE_ATOMIC},
			.type1 = type1 != !!(bits & 64),
			.zero_based = (how & 2) != 0};
	}

	// Of the slot for that, mostly.
	sirdma_fast_reg fast_reg(u8 how)
	{
		const u8 bits = in_.byte();

		return {.addr = bits & 1 ? in_.word() : qp_->node.va(World::window_start),
			.length = bits & 2 ? in_.word() : in_.half(),
			.stag = bits & 4 ? static_cast<u32>(in_.word()) :
					   (w_.fast_key & ~0xffu) | in_.byte(),
			.rights = bits & 8 ? in_.byte() & 0x7fu :
					     u32{SIRDMA_ACCESS_LOCAL_WRITE |
						 SIRDMA_ACCESS_REMOTE_READ |
						 SIRDMA_ACCESS_REMOTE_WRITE},
			.hpage = how & 2 ? bits >> 4 & 3u : 0u};
	}

	void receive()
	{
		const u8 how = in_.byte();
		std::vector<Sge> sges;

		for (int i = how >> 3 & 3; i; i--)
			sges.push_back(sge(how));
		qp_->recv(sges);
	}

	void words(u64 *base, size_t count)
	{
		size_t at = in_.half() % count;

		for (int n = in_.byte() % 8 + 1; n; n--, at = (at + 1) % count) {
			const u64 value = in_.word();

			__atomic_store_n(&base[at], in_.byte() & 1 ? value : base[at] ^ value,
					 __ATOMIC_RELEASE);
		}
	}

	void drain()
	{
		for (Qp *qp : {&w_.victim->a, &w_.victim->b}) {
			for (bool send : {true, false}) {
				while (auto wc = qp->poll(send)) {
					EXPECT_LT(wc->idx,
						  send ? qp->opts.sq_quanta :
							 qp->opts.rq_wqes
								  << qp->opts.rq_stride_shift);
					completions_++;
				}
			}
		}
		// A kick can find a ring full of valid requests, and time one more for each retry.
		EXPECT_LE(completions_, (kicks_ + 64ull) * 2 * 4 * (64 + 16));
	}

	World &w_;
	Input &in_;
	Qp *qp_ = nullptr;
	u64 kicks_ = 0, completions_ = 0;
};

} // namespace
} // namespace sirdma::test

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	using namespace sirdma::test;

	fail_loudly();

	static World world;
	Input in(data, size);
	QpOptions opts;
	const u8 settings = in.byte();

	opts.sq_quanta = 64;
	opts.rq_wqes = 16;
	opts.mtu = static_cast<u16>(256 << settings % 5);
	opts.type = settings & 128 ? SIRDMA_QPT_UD : settings & 32 ? SIRDMA_QPT_UC : SIRDMA_QPT_RC;
	opts.timeout = 8;
	opts.retry_cnt = 1;
	opts.rnr_retry = 1;
	if (settings & 64)
		opts.queue_flags |= SIRDMA_QPC_SIG_ALL;
	if (settings & 16)
		opts.queue_flags |=
			SIRDMA_QPC_FAST_REG; // a kernel consumer, whose list alone is the driver's
	world.connect(opts);
	Rings rings(world, in);
	for (int i = 0; i < 64 && in.more(); i++)
		rings.one();
	rings.finish();
	world.check();
	return 0;
}
