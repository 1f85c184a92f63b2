// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// QP commands: creation checks, the transition table, modify, drain, upload,
// reset, destruction.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

class State : public Transport {
protected:
	// A QP in @state, reached the usual way.
	std::unique_ptr<Qp> in_state(u8 state, const QpOptions &o = {})
	{
		auto qp = std::make_unique<Qp>(a, o);
		if (state == SIRDMA_QPS_RESET)
			return qp;
		if (state == SIRDMA_QPS_ERR) {
			qp->error();
			return qp;
		}
		qp->to_init();
		if (state >= SIRDMA_QPS_RTR)
			qp->to_rtr(b, 900, 5);
		if (state >= SIRDMA_QPS_RTS)
			qp->to_rts(7);
		if (state == SIRDMA_QPS_SQD) {
			EXPECT_EQ(qp->modify(SIRDMA_QPS_SQD, 0), SIRDMA_CQP_OK);
		}
		return qp;
	}
	u32 command(u8 opcode, u32 id, u64 ctx)
	{
		sirdma_cqp_qp cmd{};
		cmd.ctx_addr = ctx;
		cmd.hdr = qp_cmd_hdr(static_cast<sirdma_cqp_op>(opcode), id);
		return a.drv.exec(cmd);
	}
};

/* Of a user's kicks only those of the context that made the queue pair count. */
TEST_F(State, KicksOfOtherContextsAreRefused)
{
	auto mine = in_state(SIRDMA_QPS_RTS, {.kicker = 7});
	auto kernels = in_state(SIRDMA_QPS_RTS, {.kicker = 0});

	for (Qp *qp : {mine.get(), kernels.get()}) {
		qp->place({.op = SIRDMA_OP_NOP, .signaled = true});
		for (u32 other : {0u, 1u, 6u, 8u, ~0u})
			EXPECT_FALSE(a.host.kick_by(qp->id, other)) << other;
		EXPECT_FALSE(qp->poll(true));
	}
	EXPECT_FALSE(a.host.kick_by(kernels->id, 7));
	EXPECT_FALSE(a.host.kick_by(0, 7));
	EXPECT_FALSE(a.host.kick_by(mine->id + 1000, 7));
	EXPECT_FALSE(a.host.kick_by(~0u, 7));
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_KICKS), 0u);
	EXPECT_FALSE(mine->poll(true));

	EXPECT_TRUE(a.host.kick_by(mine->id, 7));
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_KICKS), 1u);
	const auto wc = mine->poll(true);
	ASSERT_TRUE(wc);
	expect_ok(*wc, SIRDMA_OP_NOP);
	ASSERT_EQ(mine->destroy(), SIRDMA_CQP_OK);
	EXPECT_FALSE(a.host.kick_by(mine->id, 7));
}

TEST_F(State, TransitionTable)
{
	constexpr u8 R = SIRDMA_QPS_RESET, I = SIRDMA_QPS_INIT, T = SIRDMA_QPS_RTR,
		     S = SIRDMA_QPS_RTS, D = SIRDMA_QPS_SQD, Q = SIRDMA_QPS_SQE, E = SIRDMA_QPS_ERR;
	std::map<u8, std::set<u8>> legal = {{R, {R, I, E}},    {I, {R, I, T, E}}, {T, {R, T, S, E}},
					    {S, {R, S, D, E}}, {D, {R, D, S, E}}, {E, {R, E}}};

	for (auto &[from, nexts] : legal) {
		for (u8 next : {R, I, T, S, D, Q, E}) {
			SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(next));
			auto qp = in_state(from);
			EXPECT_EQ(qp->state(), from);
			u32 want = nexts.count(next) ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_STATE;
			EXPECT_EQ(qp->modify(next, 0), want);
			EXPECT_EQ(qp->state(), want == SIRDMA_CQP_OK ? next : from);
		}
	}
	auto qp = in_state(R);
	EXPECT_EQ(qp->modify(7, 0), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(qp->modify(I, 0, S), SIRDMA_CQP_BAD_STATE) << "the current state is checked";
	EXPECT_EQ(qp->state(), R);
}

TEST_F(State, CreationChecksItsContext)
{
	struct Case {
		const char *what;
		std::function<void(sirdma_qp_ctx &)> spoil;
		u32 status;
	};
	const Case cases[] = {
		{"type", [](auto &c) { c.qp_type = SIRDMA_QPT_UD + 1; }, SIRDMA_CQP_BAD_PARAM},
		{"sq size 0", [](auto &c) { c.sq_quanta = 0; }, SIRDMA_CQP_BAD_PARAM},
		{"sq size 4", [](auto &c) { c.sq_quanta = 4; }, SIRDMA_CQP_BAD_PARAM},
		{"sq size 24", [](auto &c) { c.sq_quanta = 24; }, SIRDMA_CQP_BAD_PARAM},
		{"sq size 64k", [](auto &c) { c.sq_quanta = 65536; }, SIRDMA_CQP_BAD_PARAM},
		{"sq size max", [](auto &c) { c.sq_quanta = 0x80000000; }, SIRDMA_CQP_BAD_PARAM},
		{"rq size 3", [](auto &c) { c.rq_wqes = 3; }, SIRDMA_CQP_BAD_PARAM},
		{"rq too big", [](auto &c) { c.rq_wqes = 16384; }, SIRDMA_CQP_BAD_PARAM},
		{"stride", [](auto &c) { c.rq_stride_shift = 4; }, SIRDMA_CQP_BAD_PARAM},
		{"flags", [](auto &c) { c.queue_flags = 0x80; }, SIRDMA_CQP_BAD_PARAM},
		{"srq", [](auto &c) { c.srq = 1; }, SIRDMA_CQP_BAD_PARAM},
		{"pd", [](auto &c) { c.pd = 1 << 20; }, SIRDMA_CQP_BAD_INDEX},
		{"send cq", [](auto &c) { c.send_cq = 999; }, SIRDMA_CQP_NO_OBJECT},
		{"recv cq", [](auto &c) { c.recv_cq = 0xffffffff; }, SIRDMA_CQP_NO_OBJECT},
		{"sq unmapped", [](auto &c) { c.sq_addr = 0x1000; }, SIRDMA_CQP_BAD_ADDRESS},
		{"sq beyond", [](auto &c) { c.sq_quanta = 32768; }, SIRDMA_CQP_BAD_ADDRESS},
		{"rq unmapped", [](auto &c) { c.rq_addr = ~0ull; }, SIRDMA_CQP_BAD_ADDRESS},
		{"sq misaligned", [](auto &c) { c.sq_addr += 32; }, SIRDMA_CQP_BAD_ADDRESS},
		{"shadow 0", [](auto &c) { c.shadow_addr = 0; }, SIRDMA_CQP_BAD_ADDRESS},
		{"shadow odd", [](auto &c) { c.shadow_addr += 8; }, SIRDMA_CQP_BAD_ADDRESS},
		{"shadow unmapped", [](auto &c) { c.shadow_addr = 0x40; }, SIRDMA_CQP_BAD_ADDRESS},
		{"pble",
		 [](auto &c) {
			 c.queue_flags |= SIRDMA_QPC_SQ_VMAP;
			 c.sq_addr = 1ull << 40;
		 },
		 SIRDMA_CQP_BAD_ADDRESS},
		{"pbles",
		 [](auto &c) {
			 c.queue_flags |= SIRDMA_QPC_RQ_VMAP;
			 c.rq_addr = 0xfffffff;
		 },
		 SIRDMA_CQP_BAD_ADDRESS},
	};
	DmaSpace::ExpectFaults faults(a.host.dma());
	QpOptions o;
	Qp good(a, o);
	sirdma_qp_ctx ctx = *good.context();
	u32 id = 500;

	for (auto &c : cases) {
		SCOPED_TRACE(c.what);
		*good.context() = ctx;
		c.spoil(*good.context());
		EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, id, good.ctx.pa), c.status);
		EXPECT_EQ(command(SIRDMA_CQP_DESTROY_QP, id, 0), SIRDMA_CQP_NO_OBJECT);
	}
	*good.context() = ctx;
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, good.id, good.ctx.pa), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, 0, good.ctx.pa), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, 1024, good.ctx.pa), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, 0xffffff, good.ctx.pa), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, id, 0), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, id, good.ctx.pa + 8), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(command(SIRDMA_CQP_CREATE_QP, id, a.host.dma().unmapped_address()),
		  SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(command(SIRDMA_CQP_MODIFY_QP, 700, good.ctx.pa), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(command(SIRDMA_CQP_UPLOAD_CONTEXT, 700, good.ctx.pa), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(a.drv.destroy_cq(good.scq), SIRDMA_CQP_IN_USE);
}

TEST_F(State, ModifyIsAllOrNothing)
{
	struct Case {
		const char *what;
		u32 group;
		std::function<void(sirdma_qp_ctx &)> spoil;
	};
	const Case cases[] = {
		{"access", SIRDMA_QPC_MOD_ACCESS, [](auto &c) { c.access = 1; }},
		{"sgid", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.sgid_idx = 3; }},
		{"sgid range", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.sgid_idx = 60000; }},
		{"arp", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.arp_idx = 9; }},
		{"port", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.udp_sport = 80; }},
		{"hop", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.hop_limit = 0; }},
		{"label", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.flow_label = 1 << 20; }},
		{"prio", SIRDMA_QPC_MOD_PATH, [](auto &c) { c.vlan_prio = 8; }},
		{"qpn", SIRDMA_QPC_MOD_DEST_QPN, [](auto &c) { c.dest_qpn = 1 << 24; }},
		{"mtu", SIRDMA_QPC_MOD_MTU, [](auto &c) { c.path_mtu = 1500; }},
		{"mtu small", SIRDMA_QPC_MOD_MTU, [](auto &c) { c.path_mtu = 128; }},
		{"mtu large", SIRDMA_QPC_MOD_MTU, [](auto &c) { c.path_mtu = 8192; }},
		{"pkey", SIRDMA_QPC_MOD_PKEY, [](auto &c) { c.pkey = 0x8000; }},
		{"sq psn", SIRDMA_QPC_MOD_SQ_PSN, [](auto &c) { c.sq_psn = 1 << 24; }},
		{"rq psn", SIRDMA_QPC_MOD_RQ_PSN, [](auto &c) { c.rq_psn = 1 << 24; }},
		{"timeout", SIRDMA_QPC_MOD_TIMEOUT, [](auto &c) { c.ack_timeout = 32; }},
		{"retry", SIRDMA_QPC_MOD_RETRY_CNT, [](auto &c) { c.retry_cnt = 8; }},
		{"rnr retry", SIRDMA_QPC_MOD_RNR_RETRY, [](auto &c) { c.rnr_retry = 8; }},
		{"min rnr", SIRDMA_QPC_MOD_MIN_RNR, [](auto &c) { c.min_rnr_timer = 32; }},
		{"ord", SIRDMA_QPC_MOD_ORD, [](auto &c) { c.ord = 129; }},
		{"ird", SIRDMA_QPC_MOD_IRD, [](auto &c) { c.ird = 17; }},
		{"unknown group", 1u << 20, [](auto &) {}},
	};
	auto qp = in_state(SIRDMA_QPS_INIT);
	qp->context()->dst_ip = b.ip;
	qp->context()->udp_sport = 0xc001;
	qp->context()->hop_limit = 9;
	qp->context()->path_mtu = 512;
	ASSERT_EQ(qp->upload(), SIRDMA_CQP_OK);
	sirdma_qp_ctx before = *qp->context();
	sirdma_qp_ctx good = before;
	good.dst_ip = b.ip;
	good.udp_sport = 0xc001;
	good.hop_limit = 9;
	good.path_mtu = 512;
	good.qkey = 77;

	for (auto &c : cases) {
		SCOPED_TRACE(c.what);
		*qp->context() = good;
		c.spoil(*qp->context());
		// Valid groups beside the bad one do not take effect either.
		EXPECT_EQ(qp->modify(SIRDMA_QPS_INIT, c.group | SIRDMA_QPC_MOD_QKEY),
			  SIRDMA_CQP_BAD_PARAM);
		ASSERT_EQ(qp->upload(), SIRDMA_CQP_OK);
		EXPECT_EQ(memcmp(qp->context(), &before, sizeof(before)), 0);
	}
}

TEST_F(State, WhatIsFixedByThenCannotChange)
{
	auto qp = in_state(SIRDMA_QPS_RTS);
	for (u32 group : {SIRDMA_QPC_MOD_SQ_PSN, SIRDMA_QPC_MOD_RQ_PSN, SIRDMA_QPC_MOD_MTU,
			  SIRDMA_QPC_MOD_DEST_QPN})
		EXPECT_EQ(qp->modify(SIRDMA_QPS_RTS, static_cast<u32>(group)),
			  SIRDMA_CQP_BAD_STATE);
	EXPECT_EQ(qp->modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_ACCESS | SIRDMA_QPC_MOD_MIN_RNR),
		  SIRDMA_CQP_OK);
}

TEST_F(State, UploadReturnsWhatWasSet)
{
	auto l = link();
	l->b.recv({b.sge(0, 5000)});
	l->a.post({.sges = {a.sge(0, 5000)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	memset(l->a.context(), 0xff, sizeof(sirdma_qp_ctx));
	ASSERT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	auto *c = l->a.context();
	EXPECT_EQ(c->state, SIRDMA_QPS_RTS);
	EXPECT_EQ(c->sq_psn, l->a.opts.a_psn + 5);
	EXPECT_EQ(c->rq_psn, l->a.opts.b_psn);
	EXPECT_EQ(c->path_mtu, 1024);
	EXPECT_EQ(c->dest_qpn, l->b.id);
	EXPECT_EQ(memcmp(c->dst_ip.b, b.ip.b, 16), 0);
	EXPECT_EQ(c->retry_cnt, 7);
	EXPECT_EQ(c->rnr_retry, 7);
	EXPECT_EQ(c->ack_timeout, 10);
	EXPECT_EQ(c->ord, 16);
	EXPECT_EQ(c->ird, 16);
	EXPECT_EQ(c->pkey, 0xffff);
	EXPECT_EQ(c->sq_draining, 0);
	EXPECT_EQ(c->hop_limit, 64);
	EXPECT_EQ(c->send_cq, l->a.scq.id);
	ASSERT_EQ(l->b.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(l->b.context()->rq_psn, l->a.opts.a_psn + 5);
}

TEST_F(State, DrainFinishesWhatWasStartedOnly)
{
	auto l = link();
	while (a.drv.next_aeqe())
		;
	for (int i = 0; i < 3; i++)
		l->b.recv({b.sge(0, 50000)});
	l->a.post({.sges = {a.sge(0, 50000)}});
	ASSERT_EQ(l->a.modify(SIRDMA_QPS_SQD, SIRDMA_QPC_MOD_SQD_EVENT), SIRDMA_CQP_OK);
	ASSERT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(l->a.context()->sq_draining, 1);
	EXPECT_FALSE(a.drv.next_aeqe());
	l->a.place({.sges = {a.sge(0, 10)}});
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	settle();
	EXPECT_FALSE(l->a.poll(true)) << "started although draining";
	auto e = a.drv.next_aeqe();
	ASSERT_TRUE(e);
	EXPECT_EQ(e->code, SIRDMA_AE_QP_SUSPEND_COMPLETE);
	EXPECT_EQ(e->id, l->a.id);
	EXPECT_FALSE(a.drv.next_aeqe());
	ASSERT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(l->a.context()->sq_draining, 0);
	// The responder serves while the send queue is drained.
	l->a.recv({a.sge(0, 100)});
	l->b.post({.sges = {b.sge(0, 100)}});
	expect_ok(wait_send(l->b), SIRDMA_OP_SEND);
	ASSERT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	// Nothing in flight: drained at once.
	ASSERT_EQ(l->a.modify(SIRDMA_QPS_SQD, SIRDMA_QPC_MOD_SQD_EVENT), SIRDMA_CQP_OK);
	e = a.drv.next_aeqe();
	ASSERT_TRUE(e);
	EXPECT_EQ(e->code, SIRDMA_AE_QP_SUSPEND_COMPLETE);
}

TEST_F(State, ConnectionEstablishedIsToldOnce)
{
	QpOptions o;
	Qp qa(a, o), qb(b, o);
	qa.to_init();
	qb.to_init();
	qa.to_rtr(b, qb.id, o.b_psn);
	qb.to_rtr(a, qa.id, o.a_psn);
	qa.to_rts(o.a_psn);
	for (int i = 0; i < 3; i++) {
		qb.recv({b.sge(0, 10)});
		qa.post({.sges = {a.sge(0, 10)}});
		expect_ok(wait_send(qa), SIRDMA_OP_SEND); // answered in RTR
	}
	auto e = b.drv.next_aeqe();
	ASSERT_TRUE(e);
	EXPECT_EQ(e->code, SIRDMA_AE_CONNECTION_ESTABLISHED);
	EXPECT_EQ(e->id, qb.id);
	EXPECT_FALSE(b.drv.next_aeqe());
	qb.place({.sges = {b.sge(0, 10)}});
	qb.kick(true);
	settle();
	EXPECT_EQ(fabric.packets_sent(), 6u) << "nothing is sent before RTS";
	qa.recv({a.sge(0, 10)});
	qb.to_rts(o.b_psn);
	expect_ok(wait_send(qb), SIRDMA_OP_SEND);
}

TEST_F(State, ResetForgetsEverything)
{
	auto l = link();
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 7; i++)
			l->b.recv({b.sge(0, 100)});
		for (int i = 0; i < 5; i++)
			l->a.place({.sges = {a.sge(0, 100)}});
		l->a.kick(true);
		if (round % 2)
			expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		for (Qp *qp : {&l->a, &l->b}) {
			if (round == 3)
				qp->error();
			ASSERT_EQ(qp->modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
			qp->empty_rings();
			EXPECT_EQ(qp->area()->need_kick, 0u);
			EXPECT_EQ(qp->area()->rq_need_kick, 0u);
			EXPECT_EQ(qp->area()->sq_tail, 0u);
		}
		settle();
		while (l->a.poll(true) || l->b.poll(false))
			;
		l->connect();
		l->b.recv({b.sge(0, 100)});
		l->a.post({.sges = {a.sge(0, 100)}});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(l->b).idx, 0u);
		for (Qp *qp : {&l->a, &l->b}) {
			ASSERT_EQ(qp->modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
			qp->empty_rings();
		}
		l->connect();
	}
}

TEST_F(State, DestroyInFlight)
{
	for (int i = 0; i < 50; i++) {
		auto l = link();
		l->b.recv({b.sge(0, 100000)});
		l->a.post({.sges = {a.sge(0, 100000)}});
		l->a.post({.op = SIRDMA_OP_READ,
			   .sges = {a.sge(0, 100000)},
			   .remote = b.va(),
			   .rkey = b.mr.stag()});
		fabric.run_for(static_cast<u64>(i) * 700);
	}
	settle(100'000'000);
}

TEST_F(State, VirtuallyContiguousRings)
{
	QpOptions o;
	o.sq_quanta = 1024;
	o.rq_wqes = 256;
	o.rq_stride_shift = 1;
	Qp qa(a, o), qb(b, o);
	for (Qp *qp : {&qa, &qb}) {
		MiniDriver &drv = qp->node.drv;
		auto list = [&](sirdma_dma_mem &mem) {
			u32 pages = static_cast<u32>(mem.size / 4096), idx = drv.alloc_pbles(pages);
			for (u32 i = 0; i < pages; i++)
				drv.write_pble(idx + i, mem.pa + i * 4096);
			return idx;
		};
		ASSERT_EQ(qp->destroy(), SIRDMA_CQP_OK);
		u64 sq = qp->sq.pa, rq = qp->rq.pa;
		u32 sq_list = list(qp->sq), rq_list = list(qp->rq);
		qp->opts.queue_flags |= SIRDMA_QPC_SQ_VMAP | SIRDMA_QPC_RQ_VMAP;
		qp->sq.pa = sq_list;
		qp->rq.pa = rq_list;
		EXPECT_EQ(qp->create(qp->scq.id, qp->rcq.id), SIRDMA_CQP_OK);
		qp->sq.pa = sq;
		qp->rq.pa = rq;
	}
	qa.to_init();
	qb.to_init();
	qa.to_rtr(b, qb.id, o.b_psn);
	qb.to_rtr(a, qa.id, o.a_psn);
	qa.to_rts(o.a_psn);
	qb.to_rts(o.b_psn);
	for (u32 i = 0; i < 1500; i++) {
		qb.recv({b.sge(0, 100), b.sge(200, 4)});
		qa.post({.sges = {a.sge(0, 50), a.sge(60, 40)}});
		expect_ok(wait_send(qa), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(qb).len, 90u);
	}
}

// The number of the general services' queue pair is one like others; 0 is not.
TEST_F(State, QueuePairOneExists)
{
	QpOptions o;

	o.qpn = 1;
	auto l = link(o);
	EXPECT_EQ(l->b.id, 1u);
	l->b.recv({b.sge(0, 100)});
	l->a.post({.sges = {a.sge(0, 100)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, 100u);
	l->b.id = 0;
	EXPECT_EQ(l->b.create(l->b.scq.id, l->b.rcq.id), SIRDMA_CQP_BAD_INDEX);
	l->b.id = 1;
}

} // namespace
