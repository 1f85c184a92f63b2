// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Packets from the wire to a queue pair in the middle of its work.
//
// Input: two bytes of settings, then packets: kind, opcode, flags, PSN distance,
// length, and what the kind says. Oracles: World's; each packet is either
// dispatched or counted as rejected for one reason; a rejected one changes no
// byte, sends nothing and completes nothing.
#include "world.hpp"

namespace sirdma::test
{
namespace
{

enum Kind : u8 {
	raw = 1 << 0, // all bytes from the input
	any_qp = 1 << 1, // destination from the input
	bad_icrc = 1 << 2,
	more_follows = 1 << 3,
	other_source = 1 << 4,
	in_window = 1 << 5, // RETH names what may be written
	pass_time = 1 << 6,
	of_response = 1 << 7, // PSN near the oldest unacknowledged request
};

constexpr sirdma_stat rejects[] = {
	SIRDMA_STAT_RX_BAD_LENGTH, SIRDMA_STAT_RX_BAD_ICRC,  SIRDMA_STAT_RX_BAD_HEADER,
	SIRDMA_STAT_RX_BAD_OPCODE, SIRDMA_STAT_RX_BAD_PKEY,  SIRDMA_STAT_RX_BAD_GID,
	SIRDMA_STAT_RX_NO_QP,	   SIRDMA_STAT_RX_BAD_STATE, SIRDMA_STAT_RX_BAD_QKEY,
	SIRDMA_STAT_RX_NO_GROUP,
};

const sirdma_ip group = ip4(239, 1, 2, 3);

// The victim is the only member of the group.
void join(World &w)
{
	static const sirdma_dma_mem mem = w.b.host.alloc(sizeof(sirdma_mcast_ctx));
	auto *ctx = static_cast<sirdma_mcast_ctx *>(mem.va);
	sirdma_cqp_mcast cmd{};

	ctx->count = 1;
	ctx->qpns[0] = w.victim->b.id;
	memcpy(&cmd.ip_lo, group.b, 8);
	memcpy(&cmd.ip_hi, group.b + 8, 8);
	cmd.ctx_addr = mem.pa;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_MODIFY_MCAST_GRP);
	if (w.b.drv.exec(cmd) == SIRDMA_CQP_OK)
		return;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_CREATE_MCAST_GRP);
	EXPECT_EQ(w.b.drv.exec(cmd), SIRDMA_CQP_OK);
}

u64 rejected(Node &n)
{
	u64 sum = 0;

	for (sirdma_stat id : rejects)
		sum += n.stat(id);
	return sum;
}

// By enum sirdma_qp_type.
constexpr u8 transports[] = {SIRDMA_BTH_RC, SIRDMA_BTH_UC, SIRDMA_BTH_UD, SIRDMA_BTH_XRC,
			     SIRDMA_BTH_XRC};

void put32(u8 *p, u32 v)
{
	for (int i = 0; i < 4; i++)
		p[i] = static_cast<u8>(v >> (24 - 8 * i));
}

void put24(u8 *p, u32 v)
{
	p[0] = static_cast<u8>(v >> 16);
	p[1] = static_cast<u8>(v >> 8);
	p[2] = static_cast<u8>(v);
}

class Packets {
public:
	Packets(World &world, Input &in) : w_(world), in_(in), qp_(world.victim->b) {}

	void one()
	{
		const u8 kind = in_.byte();
		npkts_ = 0;
		std::vector<u8> bytes = kind & raw ? from_input() : built(kind);

		if (bytes.size() >= 8)
			spare_the_bystander(bytes);
		deliver(bytes, kind);
		if (kind & pass_time)
			w_.fabric.run_for(100'000);
	}

private:
	std::vector<u8> from_input()
	{
		const auto got = in_.bytes(in_.byte());

		return {got.begin(), got.end()};
	}

	std::vector<u8> built(u8 kind)
	{
		const u8 opcode = in_.byte(), flags = in_.byte();
		const auto distance = static_cast<int8_t>(in_.byte());
		const size_t payload = in_.byte() * 8u;
		std::vector<u8> p(12);

		EXPECT_EQ(qp_.upload(), SIRDMA_CQP_OK);
		const u32 psn =
			(kind & of_response ? qp_.context()->sq_psn : qp_.context()->rq_psn) +
			static_cast<u32>(distance);
		// Of the queue pair's own transport, or of any.
		p[0] = flags & 8 ? static_cast<u8>((opcode & SIRDMA_BTH_OPERATION) |
						   transports[qp_.opts.type]) :
				   opcode;
		p[1] = flags & 0xf0;
		p[2] = p[3] = 0xff;
		put24(&p[5], kind & any_qp ? wide(in_.half()) : qp_.id);
		p[8] = flags & 1 ? 0x80 : 0;
		put24(&p[9], psn);
		// Of XRC, mostly the number of the victim's queue.
		if (w_.queue) {
			p.resize(16);
			put32(&p[12], opcode & 0x80 ? in_.half() : w_.queue->id);
		}
		const size_t extended = p.size();
		const u8 operation = p[0] & SIRDMA_BTH_OPERATION;

		// Enough for every extended header; where it is payload, it is data.
		for (int i = 0; i < 28; i++)
			p.push_back(in_.byte());
		if ((kind & in_window) && qp_.opts.type == SIRDMA_QPT_UD)
			put32(&p[12], qp_.opts.qkey);
		else if (kind & in_window)
			aim(p, extended);
		if ((kind & in_window) && (operation == SIRDMA_BTH_SEND_LAST_INV ||
					   operation == SIRDMA_BTH_SEND_ONLY_INV))
			put32(&p[extended], flags & 0x10 ? w_.key :
					    flags & 0x20 ? mw_key(flags) :
							   w_.fast_key);
		p.resize(p.size() + payload, flags);
		// Lengths that do not fit the opcode come from there, too.
		p.resize(std::max<size_t>(12,
					  p.size() - std::min<size_t>(p.size(), in_.byte() % 32)));
		p.resize((p.size() + 3) / 4 * 4 + SIRDMA_ICRC_LEN);
		// A super-packet, of as many packets as it is long or of any number.
		if (flags & 2)
			npkts_ = flags & 4 ? flags >> 3 & 7 :
					     static_cast<u32>(p.size() / qp_.opts.mtu) + 1;
		return p;
	}

	// Of a window that give_work() bound.
	static u32 mw_key(u32 which) { return (World::first_mw + (which & 1)) << 8; }

	// Of the numbers that no queue pair has, that of multicast is likely.
	static u32 wide(u32 qpn) { return qpn >= 0xff00 ? SIRDMA_MCAST_QPN : qpn; }

	// @at: the first header behind the BTH, or behind the XRCETH.
	void aim(std::vector<u8> &p, size_t at)
	{
		const bool is_flush = (p[0] & SIRDMA_BTH_OPERATION) == SIRDMA_BTH_FLUSH;
		const u64 va =
			qp_.node.va(World::window_start) + (p[18] << 8 | p[19]) % World::window;
		const u32 key = p[26] & 2 ? mw_key(p[26] & 1) : w_.key;

		// A FETH of a range or a region, mostly for visibility, precedes the RETH.
		const size_t reth = is_flush ? at + 4 : at;

		if (is_flush)
			p[at + 3] = p[at + 15] & 1 ? p[at + 3] :
						     (p[at + 3] & 0x10) | SIRDMA_FLUSH_TO_GLOBAL;
		for (size_t i = 0; i < 8; i++)
			p[reth + i] = static_cast<u8>(va >> (56 - 8 * i));
		for (size_t i = 0; i < 4; i++)
			p[reth + 8 + i] = static_cast<u8>(key >> (24 - 8 * i));
		p[reth + 12] = p[reth + 13] = 0;
	}

	// Who knows its number and its PSN may speak for its peer: that is no attack.
	void spare_the_bystander(std::vector<u8> &p)
	{
		if ((u32{p[5]} << 16 | u32{p[6]} << 8 | p[7]) == w_.bystander->b.id)
			put24(&p[5], qp_.id);
	}

	void deliver(std::vector<u8> &p, u8 kind)
	{
		Node &n = qp_.node;
		snic_seg seg = {.ptr = p.data(), .len = static_cast<u32>(p.size())};
		snic_rx_pkt rx{};

		rx.src_ip = kind & other_source ? ip4(10, 0, 0, 9) : w_.a.ip;
		rx.dst_ip = p.size() > 6 && p[6] == 0xff ? group : n.ip;
		rx.segs = &seg;
		rx.nsegs = 1;
		rx.len = seg.len;
		rx.is_v4 = true;
		rx.icrc_ok = !(kind & bad_icrc);
		rx.more = kind & more_follows;
		rx.npkts = npkts_;

		const u64 taken = n.stat(SIRDMA_STAT_RX_PKTS), refused = rejected(n),
			  sent = w_.fabric.packets_sent();
		const std::vector<u8> was(n.data(World::window_start),
					  n.data(World::window_start) + World::window);

		snic_rx(n.host.dev(), &rx);
		if (n.stat(SIRDMA_STAT_RX_PKTS) != taken) {
			const u32 came = std::max(npkts_, 1u);

			EXPECT_EQ(n.stat(SIRDMA_STAT_RX_PKTS), taken + came);
			EXPECT_TRUE(rx.icrc_ok &&
				    (qp_.opts.type == SIRDMA_QPT_UD || !(kind & other_source)));
			EXPECT_LE(rejected(n), refused + came);
			return;
		}
		EXPECT_EQ(rejected(n), refused + 1) << "dropped without a trace";
		EXPECT_EQ(w_.fabric.packets_sent(), sent) << "answered a rejected packet";
		EXPECT_EQ(memcmp(was.data(), n.data(World::window_start), was.size()), 0)
			<< "a rejected packet was placed";
	}

	World &w_;
	Input &in_;
	Qp &qp_;
	u32 npkts_ = 0; // of the packet just built
};

void give_work(World &w, u8 what)
{
	Qp &a = w.victim->a, &b = w.victim->b;
	const auto at = [](Node &n, size_t off) { return n.va(World::window_start + off); };

	if (w.queue) {
		for (int i = what & 7; i; i--)
			EXPECT_EQ(w.queue->recv(i, {{at(b.node, 0), 4000, w.key}}), 0);
		return; // a target has no requests of its own
	}
	for (int i = what & 7; i; i--)
		b.recv({{at(b.node, 0), 4000, w.key}});
	for (u32 i = 0; i < 2 && b.opts.type != SIRDMA_QPT_UD; i++)
		b.post({.op = SIRDMA_OP_BIND_MW,
			.bind = sirdma_bind{.addr = at(b.node, 4096),
					    .length = 16384,
					    .window = (World::first_mw + i) << 8,
					    .region = w.key,
					    .rights = SIRDMA_ACCESS_REMOTE_READ |
						      SIRDMA_ACCESS_REMOTE_WRITE |
						      SIRDMA_ACCESS_REMOTE_ATOMIC,
					    .type1 = !i,
					    .zero_based = 0}});
	// Requests of the victim's own, lost on the way: responses have something to answer.
	w.fabric.set_filter([&](TestHost &, Packet &) { return Fabric::Verdict::drop; });
	// Datagrams have no requests that could be answered.
	if (b.opts.type == SIRDMA_QPT_UD)
		what = 0;
	if (what & 8)
		b.post({.sges = {{at(b.node, 8192), 3000, w.key}}});
	if (what & 16)
		b.post({.op = SIRDMA_OP_READ,
			.sges = {{at(b.node, 16384), 5000, w.key}},
			.remote = at(a.node, 0),
			.rkey = w.key});
	if (what & 64)
		b.post({.op = SIRDMA_OP_FETCH_ADD,
			.sges = {{at(b.node, 24576), 8, w.key}},
			.remote = at(a.node, 8192),
			.rkey = w.key,
			.swap_add = 1});
	if (what & 128)
		b.post({.op = SIRDMA_OP_ATOMIC_WRITE,
			.sges = {{at(b.node, 24576), 8, w.key}},
			.remote = at(a.node, 8192),
			.rkey = w.key});
	if (what & 32)
		b.post({.op = SIRDMA_OP_WRITE,
			.sges = {{at(b.node, 8192), 2000, w.key}},
			.remote = at(a.node, 4096),
			.rkey = w.key,
			.imm = 7});
	w.fabric.set_filter(nullptr);
}

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

	opts.mtu = static_cast<u16>(256 << settings % 5);
	opts.type = (settings & 192) == 192 ? SIRDMA_QPT_XRC_INI :
		    settings & 128	    ? SIRDMA_QPT_UD :
		    settings & 64	    ? SIRDMA_QPT_UC :
					      SIRDMA_QPT_RC;
	opts.timeout = 8;
	opts.retry_cnt = 2;
	opts.rnr_retry = 2;
	opts.access = settings & 32 ? SIRDMA_ACCESS_REMOTE_READ :
				      SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
					      SIRDMA_ACCESS_REMOTE_FLUSH;
	world.connect(opts);
	join(world);
	give_work(world, in.byte());
	Packets packets(world, in);
	for (int i = 0; i < 64 && in.more(); i++)
		packets.one();
	world.fabric.run_for(20'000'000);
	world.check();
	return 0;
}
