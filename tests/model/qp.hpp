// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Queue pairs as an application with its own ring code sees them. Requests are put into the
// rings by the codec that posters use.
#pragma once

#include "node.hpp"

#include <sirdma/decode.h>
#include <sirdma/workq.h>

namespace sirdma::test
{

struct QpOptions {
	u8 type = SIRDMA_QPT_RC;
	u32 qpn = 0; // 0: whichever the node has next
	u32 sq_quanta = 512;
	u32 rq_wqes = 64;
	u8 rq_stride_shift = 2;
	u8 queue_flags = SIRDMA_QPC_KICK;
	u16 mtu = 1024;
	u32 a_psn = 0x100; // first PSN each side sends
	u32 b_psn = 0xfff000;
	u8 timeout = 10; // 4.2 ms
	u8 retry_cnt = 7;
	u8 rnr_retry = 7;
	u8 min_rnr_timer = 12; // 0.64 ms
	u8 ord = 16;
	u8 ird = 16;
	u32 access = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
		     SIRDMA_ACCESS_REMOTE_ATOMIC;
	u16 pkey = 0xffff;
	u32 qkey = 0x11111111; // of datagrams
	u32 srq = 0; // of both ends, or of whom it is given to; without a receive queue then
	u32 xrcd = 0; // of an XRC target
	u32 kicker = 0; // number of the user context that may kick
	u8 traffic_class = 0;
};

struct Wr {
	u8 op = SIRDMA_OP_SEND;
	std::vector<Sge> sges{};
	u64 remote = 0;
	u32 rkey = 0; // also the stag of LOCAL_INV and SEND_INV
	std::optional<u32> imm{};
	std::vector<u8> inl{};
	bool is_inline = false;
	bool signaled = true;
	bool fence = false;
	u64 swap_add = 0; // of an atomic
	u64 compare = 0;
	std::optional<u32> srqn{}; // of an XRC initiator's
	std::optional<sirdma_bind> bind{};
	std::optional<sirdma_fast_reg> reg{};
	std::optional<sirdma_flush> flush{};
};

inline bool is_xrc(u8 type)
{
	return type == SIRDMA_QPT_XRC_INI || type == SIRDMA_QPT_XRC_TGT;
}

inline bool is_atomic(u8 op)
{
	return op == SIRDMA_OP_CMP_SWAP || op == SIRDMA_OP_FETCH_ADD;
}

struct Wc {
	bool sq;
	u8 op;
	u16 major, minor;
	u32 vendor;
	u32 len;
	u32 idx;
	u32 qpn;
	bool error, solicited;
	bool shared; // wr_id is valid, idx is not
	u32 src_qpn; // of a datagram
	bool v4;
	std::optional<u64> mac_vlan; // second half of an extended completion
	u64 wr_id;
	std::optional<u32> imm;
	std::optional<u32> inv; // the key that a SEND invalidated
};

class Qp {
public:
	Qp(Node &node, const QpOptions &opts, u32 cq_entries = 4096);
	~Qp();
	Qp(const Qp &) = delete;
	Qp &operator=(const Qp &) = delete;

	Node &node;
	QpOptions opts;
	u32 id;
	TestCq scq, rcq;
	sirdma_dma_mem sq{}, rq{}, shadow{}, ctx{};
	sirdma_sq queue{}; // over sq; without a limit of what is outstanding
	u32 rq_head = 0;
	bool rq_pol = true;

	sirdma_qp_ctx *context() { return static_cast<sirdma_qp_ctx *>(ctx.va); }
	sirdma_qp_shadow *area() { return static_cast<sirdma_qp_shadow *>(shadow.va); }
	u32 create(u32 cq_send, u32 cq_recv);
	u32 destroy();
	u32 modify(u8 next, u32 groups, int cur = -1);
	u32 upload();
	u32 flush();
	u8 state();
	void to_init();
	void to_rtr(Node &peer, u32 peer_qpn, u32 rq_psn);
	void to_rts(u32 sq_psn);
	void error() { EXPECT_EQ(modify(SIRDMA_QPS_ERR, 0), SIRDMA_CQP_OK); }

	// Place a request; kick() or post() makes the device see it. Returns its index.
	u32 place(const Wr &wr);
	void kick(bool always = false);
	u32 post(const Wr &wr);
	u32 recv(const std::vector<Sge> &sges);
	void kick_recv();
	std::optional<Wc> poll(bool send);
	sirdma_wqe *quantum(u32 i) { return static_cast<sirdma_wqe *>(sq.va) + i; }
	// Empty the rings, as after RESET.
	void empty_rings();

private:
	// Write a request that the codec refuses to posters.
	void place_raw(const Wr &wr, sirdma_send send);

	std::vector<sirdma_sq_slot> slots_;
	bool alive_ = false;
};

inline void expect_ok(const Wc &wc, u8 op)
{
	EXPECT_FALSE(wc.error) << "minor " << wc.minor << " vendor " << std::hex << wc.vendor;
	EXPECT_EQ(wc.op, op);
}

inline void expect_error(const Wc &wc, u16 minor, u32 vendor)
{
	EXPECT_TRUE(wc.error);
	EXPECT_EQ(wc.major, SIRDMA_CQE_MAJ_FLUSH);
	EXPECT_EQ(wc.minor, minor);
	EXPECT_EQ(wc.vendor, vendor);
}

inline Qp::Qp(Node &n, const QpOptions &o, u32 cq_entries)
	: node(n), opts(o), id(o.qpn ? o.qpn : n.new_qp()), slots_(o.sq_quanta)
{
	EXPECT_EQ(node.drv.create_cq(scq, node.new_cq(), cq_entries), SIRDMA_CQP_OK);
	EXPECT_EQ(node.drv.create_cq(rcq, node.new_cq(), cq_entries), SIRDMA_CQP_OK);
	if (o.type == SIRDMA_QPT_XRC_TGT)
		opts.sq_quanta = 0;
	else
		sq = node.host.alloc(o.sq_quanta * 32);
	queue.ring = opts.sq_quanta ? quantum(0) : nullptr;
	queue.slots = slots_.data();
	queue.size = opts.sq_quanta;
	queue.max_sge = queue.max_read_sge = SIRDMA_MAX_SGE;
	queue.max_inline = SIRDMA_MAX_INLINE;
	queue.qp_type = sirdma_send_on(o.type);
	sirdma_sq_init(&queue);
	if (o.srq || is_xrc(o.type))
		opts.rq_wqes = 0;
	if (opts.rq_wqes)
		rq = node.host.alloc(o.rq_wqes * (32u << o.rq_stride_shift));
	shadow = node.host.alloc(SIRDMA_SHADOW_SIZE);
	ctx = node.host.alloc(sizeof(sirdma_qp_ctx));
	EXPECT_EQ(create(scq.id, rcq.id), SIRDMA_CQP_OK);
}

inline Qp::~Qp()
{
	if (alive_) {
		EXPECT_EQ(destroy(), SIRDMA_CQP_OK);
	}
	EXPECT_EQ(node.drv.destroy_cq(scq), SIRDMA_CQP_OK);
	EXPECT_EQ(node.drv.destroy_cq(rcq), SIRDMA_CQP_OK);
	for (auto *m : {&sq, &rq, &shadow, &ctx, &scq.ring, &scq.shadow, &rcq.ring, &rcq.shadow})
		if (m->va)
			node.host.free(*m);
}

inline u64 qp_cmd_hdr(sirdma_cqp_op op, u32 qpn)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, op) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, qpn);
}

inline u32 Qp::create(u32 cq_send, u32 cq_recv)
{
	sirdma_qp_ctx *c = context();
	sirdma_cqp_qp cmd{};

	memset(c, 0, sizeof(*c));
	c->compl_ctx = 0xc0de0000ull + id;
	c->event_ctx = 0xeee0000ull + id;
	c->sq_addr = sq.pa;
	c->rq_addr = rq.pa;
	c->shadow_addr = shadow.pa;
	c->sq_quanta = opts.sq_quanta;
	c->rq_wqes = opts.rq_wqes;
	c->rq_stride_shift = opts.rq_stride_shift;
	c->send_cq = cq_send;
	c->recv_cq = cq_recv;
	c->srq = opts.srq;
	c->pd = 1;
	c->qp_type = opts.type;
	c->xrcd = opts.xrcd;
	c->kicker = opts.kicker;
	c->queue_flags = opts.queue_flags;
	cmd.ctx_addr = ctx.pa;
	cmd.hdr = qp_cmd_hdr(SIRDMA_CQP_CREATE_QP, id);
	u32 status = node.drv.exec(cmd);
	alive_ |= status == SIRDMA_CQP_OK;
	return status;
}

inline u32 Qp::destroy()
{
	sirdma_cqp_qp cmd{};

	alive_ = false;
	cmd.hdr = qp_cmd_hdr(SIRDMA_CQP_DESTROY_QP, id);
	return node.drv.exec(cmd);
}

inline u32 Qp::modify(u8 next, u32 groups, int cur)
{
	sirdma_cqp_qp cmd{};

	context()->modify = groups;
	cmd.ctx_addr = ctx.pa;
	cmd.hdr = qp_cmd_hdr(SIRDMA_CQP_MODIFY_QP, id) |
		  SIRDMA_PREP(SIRDMA_CQP_QP_NEXT_STATE, next);
	if (cur >= 0)
		cmd.hdr |= SIRDMA_CQP_QP_CUR_STATE_VALID |
			   SIRDMA_PREP(SIRDMA_CQP_QP_CUR_STATE, cur);
	return node.drv.exec(cmd);
}

inline u32 Qp::upload()
{
	sirdma_cqp_qp cmd{};

	cmd.ctx_addr = ctx.pa;
	cmd.hdr = qp_cmd_hdr(SIRDMA_CQP_UPLOAD_CONTEXT, id);
	return node.drv.exec(cmd);
}

inline u32 Qp::flush()
{
	sirdma_cqp_flush cmd{};

	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_FLUSH_WQES) |
		  SIRDMA_PREP(SIRDMA_CQP_FLUSH_QPID, id) | SIRDMA_CQP_FLUSH_SQ |
		  SIRDMA_CQP_FLUSH_RQ;
	return node.drv.exec(cmd);
}

inline u8 Qp::state()
{
	EXPECT_EQ(upload(), SIRDMA_CQP_OK);
	return context()->state;
}

inline void Qp::to_init()
{
	sirdma_qp_ctx *c = context();

	c->access = opts.access;
	c->pkey = opts.pkey;
	c->qkey = opts.qkey;
	EXPECT_EQ(modify(SIRDMA_QPS_INIT,
			 SIRDMA_QPC_MOD_ACCESS | SIRDMA_QPC_MOD_PKEY | SIRDMA_QPC_MOD_QKEY,
			 SIRDMA_QPS_RESET),
		  SIRDMA_CQP_OK);
}

inline void Qp::to_rtr(Node &peer, u32 peer_qpn, u32 rq_psn)
{
	sirdma_qp_ctx *c = context();

	c->dst_ip = peer.ip;
	c->dest_qpn = peer_qpn;
	c->sgid_idx = 0;
	c->arp_idx = 0;
	c->udp_sport = 0xc000 | (id & 0x3fff);
	c->hop_limit = 64;
	c->traffic_class = opts.traffic_class;
	c->path_mtu = opts.mtu;
	c->rq_psn = rq_psn;
	c->ird = opts.ird;
	c->min_rnr_timer = opts.min_rnr_timer;
	EXPECT_EQ(modify(SIRDMA_QPS_RTR,
			 SIRDMA_QPC_MOD_PATH | SIRDMA_QPC_MOD_DEST_QPN | SIRDMA_QPC_MOD_MTU |
				 SIRDMA_QPC_MOD_RQ_PSN | SIRDMA_QPC_MOD_IRD |
				 SIRDMA_QPC_MOD_MIN_RNR,
			 SIRDMA_QPS_INIT),
		  SIRDMA_CQP_OK);
}

inline void Qp::to_rts(u32 sq_psn)
{
	sirdma_qp_ctx *c = context();

	c->sq_psn = sq_psn;
	c->ack_timeout = opts.timeout;
	c->retry_cnt = opts.retry_cnt;
	c->rnr_retry = opts.rnr_retry;
	c->ord = opts.ord;
	EXPECT_EQ(modify(SIRDMA_QPS_RTS,
			 SIRDMA_QPC_MOD_SQ_PSN | SIRDMA_QPC_MOD_TIMEOUT | SIRDMA_QPC_MOD_RETRY_CNT |
				 SIRDMA_QPC_MOD_RNR_RETRY | SIRDMA_QPC_MOD_ORD,
			 SIRDMA_QPS_RTR),
		  SIRDMA_CQP_OK);
}

// The posters' opcode and flags of @wr in @send. Returns false if there are none.
inline bool to_codec(const Wr &wr, sirdma_send &send)
{
	if ((wr.op == SIRDMA_OP_BIND_MW) != wr.bind.has_value() ||
	    (wr.op == SIRDMA_OP_FAST_REG) != wr.reg.has_value() ||
	    (wr.op == SIRDMA_OP_FLUSH) != wr.flush.has_value())
		return false;
	send.flags = (wr.is_inline ? SIRDMA_SEND_INLINE : 0) |
		     (wr.signaled ? SIRDMA_SEND_SIGNALED : 0) | (wr.fence ? SIRDMA_SEND_FENCE : 0);
	for (u32 opcode :
	     {u32{SIRDMA_WR_WRITE}, u32{SIRDMA_WR_WRITE_IMM}, u32{SIRDMA_WR_SEND},
	      u32{SIRDMA_WR_SEND_IMM}, u32{SIRDMA_WR_READ}, u32{SIRDMA_WR_CMP_SWAP},
	      u32{SIRDMA_WR_FETCH_ADD}, u32{SIRDMA_WR_LOCAL_INV}, u32{SIRDMA_WR_BIND_MW},
	      u32{SIRDMA_WR_SEND_INV}, u32{SIRDMA_WR_FLUSH}, u32{SIRDMA_WR_ATOMIC_WRITE},
	      u32{SIRDMA_WR_READ_INV}, u32{SIRDMA_WR_FAST_REG}}) {
		const u32 entry = sirdma_send_op(opcode);

		if (!!(entry & SIRDMA_SEND_OP_IMM) != wr.imm.has_value())
			continue;
		send.opcode = opcode;
		if (SIRDMA_GET(SIRDMA_SEND_OP_CODE, entry) == wr.op)
			return true;
		if (SIRDMA_GET(SIRDMA_SEND_OP_CODE_SOL, entry) == wr.op) {
			send.flags |= SIRDMA_SEND_SOLICITED;
			return true;
		}
	}
	return false;
}

inline void Qp::place_raw(const Wr &wr, sirdma_send send)
{
	u32 quanta = sirdma_frag_quanta(send.num_sge + (wr.imm || wr.srqn));
	u64 hdr = SIRDMA_PREP(SIRDMA_WQE_OPCODE, wr.op) | SIRDMA_PREP(SIRDMA_WQE_REMSTAG, wr.rkey) |
		  (wr.signaled ? SIRDMA_WQE_SIGCOMPL : 0) | (wr.fence ? SIRDMA_WQE_READFENCE : 0) |
		  (wr.imm ? SIRDMA_WQE_IMMDATA_FLAG : 0);
	const auto bytes = static_cast<u32>(wr.inl.size());

	if (is_atomic(wr.op))
		quanta = SIRDMA_ATOMIC_WQE_QUANTA;
	else if (wr.is_inline)
		quanta = sirdma_inline_quanta(bytes);
	if (wr.op == SIRDMA_OP_NOP || wr.op == SIRDMA_OP_LOCAL_INV || wr.bind || wr.reg || wr.flush)
		quanta = 1;
	ASSERT_EQ(sirdma_sq_place(&queue, quanta), 0);

	sirdma_wqe *wqe = queue.wqe;
	const u64 valid = queue.valid;

	if (wr.op == SIRDMA_OP_NOP)
		hdr |= sirdma_put_nop(wqe, valid);
	else if (wr.op == SIRDMA_OP_LOCAL_INV)
		hdr = sirdma_put_local_inv(wqe, &send, hdr, valid);
	else if (wr.bind)
		hdr = sirdma_put_bind(wqe, &*wr.bind, hdr, valid);
	else if (wr.reg)
		hdr = sirdma_put_fast_reg(wqe, &*wr.reg, hdr, valid);
	else if (wr.flush)
		hdr = sirdma_put_flush(wqe, &send, hdr, valid);
	else if (is_atomic(wr.op))
		hdr = sirdma_put_atomic(wqe, &send, hdr, valid);
	else if (wr.is_inline)
		hdr = sirdma_put_send_inline(wqe, &send, hdr, bytes, valid);
	else
		hdr = sirdma_put_send(wqe, &send, hdr, valid);
	queue.slot->wr_id = 0;
	sirdma_sq_set_length(&queue, 0);
	sirdma_sq_commit(&queue, quanta, hdr);
}

inline u32 Qp::place(const Wr &wr)
{
	std::vector<sirdma_sge> sges = to_codec(wr.sges);
	const u32 from = queue.head;
	sirdma_send send{};

	if (wr.is_inline)
		sges = {{.addr = reinterpret_cast<uintptr_t>(wr.inl.data()),
			 .length = static_cast<u32>(wr.inl.size()),
			 .lkey = 0}};
	if (is_atomic(wr.op))
		sges.resize(1);
	send.remote_addr = wr.remote;
	send.key = wr.rkey;
	send.imm = wr.imm.value_or(0);
	send.swap_add = wr.swap_add;
	send.compare = wr.compare;
	send.srq = wr.srqn ? sirdma_send_srq(*wr.srqn) : 0;
	send.sges = sges.data();
	send.num_sge = static_cast<u32>(sges.size());
	if (wr.bind)
		send.bind = &*wr.bind;
	if (wr.reg)
		send.reg = &*wr.reg;
	if (wr.flush)
		send.flush = &*wr.flush;
	// Tests know what the device has read.
	queue.tail = queue.head;
	if (!to_codec(wr, send) || sirdma_sq_take(&queue, &send))
		place_raw(wr, send);
	sirdma_sq_publish(&queue);

	// NOPs of one quantum fill the end of a chunk.
	u32 index = from;
	while (index != queue.head && sirdma_sq_slot_at(&queue, index)->end != queue.head)
		index++;
	return index & (queue.size - 1);
}

inline void Qp::empty_rings()
{
	sirdma_sq_reset(&queue);
	if (rq.va)
		memset(rq.va, 0, rq.size);
	rq_head = 0;
	rq_pol = true;
}

inline void Qp::kick(bool always)
{
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (always || __atomic_load_n(&area()->need_kick, __ATOMIC_RELAXED))
		node.host.kick(id);
}

inline u32 Qp::post(const Wr &wr)
{
	u32 idx = place(wr);

	kick();
	return idx;
}

inline u32 Qp::recv(const std::vector<Sge> &sges)
{
	const u32 idx = rq_head;
	const std::vector<sirdma_sge> list = to_codec(sges);
	auto *wqe = reinterpret_cast<sirdma_wqe *>(static_cast<u8 *>(rq.va) +
						   idx * (32ull << opts.rq_stride_shift));

	sirdma_put64_release(&wqe->hdr,
			     sirdma_put_recv(wqe, list.data(), static_cast<u32>(list.size()), 0,
					     rq_pol ? SIRDMA_WQE_VALID : 0));
	if (++rq_head == opts.rq_wqes) {
		rq_head = 0;
		rq_pol = !rq_pol;
	}
	kick_recv();
	return idx << opts.rq_stride_shift;
}

inline void Qp::kick_recv()
{
	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (__atomic_load_n(&area()->rq_need_kick, __ATOMIC_RELAXED))
		node.host.kick(id);
}

// The pollers' codec reads the same from the element.
inline void expect_decoded(TestCq::Entry &e, const Wc &wc)
{
	const sirdma_cqe_at at = {
		.cqe = &e.cqe, .ext = e.extended ? &e.ext : nullptr, .hdr = e.cqe.hdr};
	sirdma_wc read{};

	sirdma_cqe_decode_common(&at, &read);
	EXPECT_EQ(read.status != SIRDMA_WC_SUCCESS, wc.error);
	EXPECT_EQ(read.vendor_err, wc.vendor);
	EXPECT_EQ(read.qp_num, wc.qpn);
	EXPECT_EQ((read.flags & SIRDMA_WC_HAS_IMM) != 0, wc.imm.has_value());
	EXPECT_EQ(read.imm, wc.imm.value_or(0));
	EXPECT_EQ((read.flags & SIRDMA_WC_HAS_MAC) != 0, wc.mac_vlan.has_value());
	if (wc.sq)
		return;
	sirdma_cqe_decode_recv(&at, &read);
	EXPECT_EQ(read.byte_len, wc.error ? 0 : wc.len);
	if (read.flags & SIRDMA_WC_HAS_GRH) {
		EXPECT_EQ(read.src_qp, wc.src_qpn);
	} else {
		EXPECT_EQ((read.flags & SIRDMA_WC_HAS_INV) != 0, wc.inv.has_value());
	}
}

inline std::optional<Wc> Qp::poll(bool send)
{
	auto e = (send ? scq : rcq).poll();

	if (!e)
		return std::nullopt;
	u64 hdr = e->cqe.hdr;
	Wc wc{};
	wc.sq = hdr & SIRDMA_CQE_SQ;
	wc.op = static_cast<u8>(SIRDMA_GET(SIRDMA_CQE_OP, hdr));
	wc.major = static_cast<u16>(SIRDMA_GET(SIRDMA_CQE_MAJERR, hdr));
	wc.minor = static_cast<u16>(SIRDMA_GET(SIRDMA_CQE_MINERR, hdr));
	wc.error = hdr & SIRDMA_CQE_ERROR;
	wc.solicited = hdr & SIRDMA_CQE_SOLICITED;
	wc.idx = static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_WQEIDX, hdr));
	wc.len = static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_PAYLDLEN, e->cqe.len));
	wc.vendor = wc.error ? static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_VENDOR_ERR, e->cqe.len)) : 0;
	wc.qpn = static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_QPID, e->cqe.qp));
	if (e->extended && (e->ext.hdr & SIRDMA_CQE_EXT_IMMVALID))
		wc.imm = static_cast<u32>(e->ext.imm);
	if (e->extended && (e->ext.hdr & SIRDMA_CQE_EXT_SMACVALID))
		wc.mac_vlan = e->ext.smac_vlan;
	if (hdr & SIRDMA_CQE_STAG)
		wc.inv = static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_INVSTAG, e->cqe.qp));
	wc.shared = hdr & SIRDMA_CQE_SRQ;
	wc.src_qpn = static_cast<u32>(SIRDMA_GET(SIRDMA_CQE_SRCQPN, e->cqe.qp));
	wc.v4 = hdr & SIRDMA_CQE_IPV4;
	EXPECT_EQ(wc.qpn, id);
	EXPECT_EQ(wc.sq, send);
	EXPECT_EQ(wc.shared, !send && (opts.srq || is_xrc(opts.type)));
	if (wc.shared)
		wc.wr_id = e->cqe.compl_ctx;
	else
		EXPECT_EQ(e->cqe.compl_ctx, 0xc0de0000ull + id);
	expect_decoded(*e, wc);
	return wc;
}

} // namespace sirdma::test
