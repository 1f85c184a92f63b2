// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Unreliable connection: what it delivers, what it drops, and that nobody is told.
#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 mtu = 1024;
constexpr u64 round_trip = 100'000; // ns: more than a message and all it causes take on this fabric

class Unreliable : public Transport {
protected:
	Unreliable() : Transport(11) { fabric.record(true); }

	static QpOptions uc()
	{
		QpOptions o;

		o.type = SIRDMA_QPT_UC;
		o.mtu = mtu;
		o.timeout = 0;
		o.b_psn = o.a_psn = 0xfffffc; // wraps within the first message of five packets
		return o;
	}
	std::unique_ptr<Link> link() { return Transport::link(uc()); }
	Wr send(u32 len, u32 off = 0) { return {.sges = {a.sge(off, len)}}; }
	Wr write(u32 len, u64 remote)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(0, len)},
			.remote = remote,
			.rkey = b.mr.stag()};
	}
	// One message of @len arrives, and nothing else was waiting.
	void delivers(Link &l, u32 len)
	{
		a.mem->fill(len + 1);
		b.mem->fill(len + 2);
		l.a.post(send(len));
		expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
		Wc wc = wait_recv(l.b);
		EXPECT_FALSE(wc.error);
		EXPECT_EQ(wc.len, len);
		EXPECT_EQ(memcmp(b.data(1 << 20), a.data(), len), 0);
		EXPECT_TRUE(silent(l.a));
		EXPECT_TRUE(silent(l.b));
	}
	// The sender is told nothing else, whatever becomes of it.
	void sends(Link &l, const Wr &wr)
	{
		l.a.post(wr);
		EXPECT_FALSE(wait_send(l.a).error);
		settle();
	}
	void expect_receive(Link &l) { l.b.recv({b.sge(1 << 20, 1 << 20)}); }
	void expect_works(Link &l, u32 len = 3000)
	{
		expect_receive(l);
		delivers(l, len);
	}
	// Nobody sent anything back, and both ends are as they were.
	void expect_unmoved(Link &l)
	{
		for (const Packet &pkt : fabric.sent())
			EXPECT_EQ(pkt.qpn(), l.b.id) << "an answer";
		EXPECT_EQ(l.a.state(), SIRDMA_QPS_RTS);
		EXPECT_EQ(l.b.state(), SIRDMA_QPS_RTS);
		for (Node *n : {&a, &b})
			EXPECT_FALSE(n->drv.next_aeqe());
	}
};

TEST_F(Unreliable, DeliversEveryOperationAtEverySize)
{
	auto l = link();

	for (u32 len : {0u, 1u, 3u, 101u, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 3, 200001u}) {
		SCOPED_TRACE(len);
		a.mem->fill(len);
		for (u8 op :
		     {SIRDMA_OP_SEND, SIRDMA_OP_SEND_SOL, SIRDMA_OP_WRITE, SIRDMA_OP_WRITE_SOL}) {
			for (bool imm : {false, true}) {
				for (bool is_inline : {false, true}) {
					const bool is_write = op == SIRDMA_OP_WRITE ||
							      op == SIRDMA_OP_WRITE_SOL;
					Wr wr = write(len, b.va((1 << 20) + 5));

					if (is_inline && len > SIRDMA_MAX_INLINE)
						continue;
					SCOPED_TRACE(::testing::Message()
						     << "op " << int{op} << " imm " << imm
						     << " inline " << is_inline);
					u8 *to = b.data((1 << 20) + 5);

					memset(to, ~*a.data(len), len + 1);
					wr.op = op;
					if (imm)
						wr.imm = 0x1234567 + len;
					if (is_inline) {
						wr.is_inline = true;
						wr.inl.assign(a.data(), a.data() + len);
						wr.sges.clear();
					}
					if (!is_write || imm)
						l->b.recv({b.sge((1 << 20) + 5, 1 << 19)});
					l->a.post(wr);
					expect_ok(wait_send(l->a), op);
					if (!is_write || imm) {
						Wc wc = wait_recv(l->b);

						EXPECT_FALSE(wc.error);
						EXPECT_EQ(wc.len, len);
						EXPECT_EQ(wc.imm.has_value(), imm);
						EXPECT_EQ(wc.imm.value_or(0), imm ? *wr.imm : 0);
						EXPECT_EQ(wc.solicited,
							  op == SIRDMA_OP_SEND_SOL ||
								  op == SIRDMA_OP_WRITE_SOL);
					} else {
						settle();
					}
					EXPECT_EQ(memcmp(to, a.data(), len), 0);
					EXPECT_NE(to[len], *a.data(len));
				}
			}
		}
	}
	for (const Packet &pkt : fabric.sent()) {
		EXPECT_EQ(pkt.opcode() & SIRDMA_BTH_TRANSPORT, SIRDMA_BTH_UC);
		EXPECT_FALSE(pkt.ack_req());
	}
	expect_unmoved(*l);
}

// A message that lost any of its packets is not delivered, the next one is, into the same receive.
TEST_F(Unreliable, DropsAMessageThatLostAPacket)
{
	for (u32 lost = 0; lost < 5; lost++) {
		for (bool is_write : {false, true}) {
			SCOPED_TRACE(::testing::Message()
				     << lost << (is_write ? " write" : " send"));
			auto l = link();
			const u64 gaps = b.stat(SIRDMA_STAT_RX_OUT_OF_SEQUENCE);
			u32 seen = 0;
			Wr wr = is_write ? write(4 * mtu + 1, b.va(1 << 20)) : send(4 * mtu + 1);

			wr.imm = 5;
			fabric.sent().clear();
			expect_receive(*l);
			fabric.set_filter([&](TestHost &, Packet &) {
				return seen++ == lost ? Fabric::Verdict::drop :
							Fabric::Verdict::pass;
			});
			l->a.post(wr);
			expect_ok(wait_send(l->a), SIRDMA_OP_SEND - 3 * is_write);
			settle();
			fabric.set_filter(nullptr);
			EXPECT_TRUE(silent(l->b));
			EXPECT_EQ(seen, 5u) << "sent once and no more";
			// Of a message that ends in the gap the next one tells.
			EXPECT_EQ(b.stat(SIRDMA_STAT_RX_OUT_OF_SEQUENCE), gaps + (lost < 4));
			delivers(*l, 3000);
			EXPECT_GE(b.stat(SIRDMA_STAT_RX_OUT_OF_SEQUENCE), gaps + 1);
			expect_unmoved(*l);
		}
	}
}

TEST_F(Unreliable, DropsWhatNobodyWaitsFor)
{
	auto l = link();
	Wr imm = write(2 * mtu, b.va(1 << 20));

	imm.imm = 9;
	for (const Wr &wr : {send(1), send(3 * mtu), imm}) {
		const u64 before = b.stat(SIRDMA_STAT_RX_NO_RECV);

		sends(*l, wr);
		EXPECT_EQ(b.stat(SIRDMA_STAT_RX_NO_RECV), before + 1) << "each message counts once";
	}
	expect_works(*l);
	expect_unmoved(*l);
}

TEST_F(Unreliable, DropsWhatIsLongerThanItsReceive)
{
	auto l = link();
	const u64 before = b.stat(SIRDMA_STAT_RX_REFUSED);

	l->b.recv({b.sge(1 << 20, 2 * mtu)});
	for (u32 len : {2 * mtu + 1, 8 * mtu}) {
		sends(*l, send(len));
		EXPECT_TRUE(silent(l->b));
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_REFUSED), before + 2);
	delivers(*l, 2 * mtu);
	expect_unmoved(*l);
}

TEST_F(Unreliable, DropsWhatItMayNotWrite)
{
	auto l = link();
	QpOptions shut = uc();
	const std::vector<u8> was(b.data(), b.data() + b.mem->size());
	u64 before = b.stat(SIRDMA_STAT_RX_REFUSED);
	Wr bad_key = write(3 * mtu, b.va()), outside = write(3 * mtu, b.va(b.mem->size() - mtu));

	bad_key.rkey ^= 1;
	for (const Wr &wr : {bad_key, outside}) {
		sends(*l, wr);
		EXPECT_EQ(b.stat(SIRDMA_STAT_RX_REFUSED), ++before);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_INVALID_KEY), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_RANGE), 1u);
	EXPECT_EQ(memcmp(was.data(), b.data(), was.size()), 0);
	expect_works(*l);
	expect_unmoved(*l);

	// Neither does a QP that takes no WRITEs at all.
	l.reset();
	shut.access = 0;
	fabric.sent().clear();
	l = Transport::link(shut);
	sends(*l, write(1, b.va()));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_REFUSED), ++before);
	expect_works(*l);
	expect_unmoved(*l);
}

// A fault of the receiver's own is told to the receiver.
TEST_F(Unreliable, FailsOnAReceiveOfItsOwnThatIsWrong)
{
	auto l = link();

	l->b.recv({{b.va(), 100, b.mr.stag() ^ 1}});
	l->b.recv({b.sge(0, 100)});
	l->a.post(send(100));
	EXPECT_FALSE(wait_send(l->a).error);
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
	for (const Packet &pkt : fabric.sent())
		EXPECT_EQ(pkt.qpn(), l->b.id) << "an answer";
}

// A failed send stops the send queue only, and that may go on.
TEST_F(Unreliable, AFailedSendLeavesTheReceiveQueueAlone)
{
	auto l = link();
	Wr read = write(100, b.va()), wrong = send(3 * mtu);

	read.op = SIRDMA_OP_READ;
	wrong.sges = {a.sge(0, 2 * mtu), {a.va(), mtu, a.mr.stag() ^ 1}};
	const struct {
		Wr wr;
		u16 minor;
		u32 vendor;
	} failures[] = {
		{read, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP},
		{wrong, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT},
	};

	for (const auto &failure : failures) {
		expect_receive(*l);
		l->a.place(send(2 * mtu));
		l->a.place(failure.wr);
		l->a.post(send(1));
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		expect_error(wait_send(l->a), failure.minor, failure.vendor);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_EQ(wait_recv(l->b).len, 2 * mtu);
		EXPECT_EQ(l->a.state(), SIRDMA_QPS_SQE);
		// What is posted now is flushed, what comes is received.
		l->a.post(send(1));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		l->a.recv({a.sge(0, 100)});
		l->b.post({.sges = {b.sge(0, 100)}});
		EXPECT_FALSE(wait_send(l->b).error);
		EXPECT_EQ(wait_recv(l->a).len, 100u);
		EXPECT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_OK);
		expect_works(*l, 5 * mtu);
		// Nothing that failed is waited for.
		Wr fenced = send(10);
		fenced.fence = true;
		expect_receive(*l);
		l->a.post(fenced);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(l->b).len, 10u);
	}
	EXPECT_FALSE(a.drv.next_aeqe());
	l->a.error();
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_ERR);
}

// Part by part, since packets wait for the queue pair meanwhile. None of it waits for the background.
TEST_F(Unreliable, EverythingBehindAFailedSendIsFlushed)
{
	constexpr u32 part = SIRDMA_CQP_MODIFY_FLUSHES, behind = 2 * part + part / 4;
	QpOptions options = uc();

	options.sq_quanta = 2048;
	a.host.keep_background_busy();

	auto l = Transport::link(options);
	Wr wrong = send(mtu);

	wrong.sges[0].stag ^= 1;
	expect_receive(*l);
	l->a.place(wrong);
	for (u32 i = 0; i < behind; i++)
		l->a.place(send(1));
	l->a.kick(true);
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_SQE);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);

	u32 flushed = 0, most = 0, commands = 0, status;
	const auto take = [&] {
		u32 n = 0;

		for (; const std::optional<Wc> wc = l->a.poll(true); n++)
			expect_error(*wc, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		flushed += n;
		return n;
	};

	take(); // what the failure itself has flushed
	do {
		status = l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE);
		most = std::max(most, take());
		commands++;
		EXPECT_EQ(l->a.state(),
			  status == SIRDMA_CQP_AGAIN ? SIRDMA_QPS_SQE : SIRDMA_QPS_RTS);
	} while (status == SIRDMA_CQP_AGAIN && commands < 10);
	EXPECT_EQ(status, SIRDMA_CQP_OK);
	EXPECT_EQ(flushed, behind);
	EXPECT_LE(most, part);
	EXPECT_TRUE(fabric.sent().empty());
	// It takes many turns, none of them in the background.
	delivers(*l, 1 << 20);
}

// Wherever in a part the completion queue overflows, the command is done and the queue pair failed.
TEST_F(Unreliable, AnOverflowEndsTheFlushInParts)
{
	constexpr u32 part = SIRDMA_CQP_MODIFY_FLUSHES;
	QpOptions options = uc();
	u32 first = 0;

	options.sq_quanta = 2048;
	a.host.keep_background_busy();
	for (int past = -4; past < 5; past++) {
		// Once with room for all, to see how many the failure itself has flushed.
		const u32 room = first ? first + part + static_cast<u32>(past) : 4096;
		Link l(a, b, options, options, room);
		Wr wrong = send(mtu);
		u32 status, commands = 0;

		wrong.sges[0].stag ^= 1;
		expect_receive(l);
		l.a.place(wrong);
		for (u32 i = 0; i < 3 * part; i++)
			l.a.place(send(1));
		l.a.kick(true);
		ASSERT_EQ(l.a.state(), SIRDMA_QPS_SQE);
		if (!first) {
			while (l.a.poll(true))
				first++;
			continue;
		}
		do {
			status = l.a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE);
		} while (status == SIRDMA_CQP_AGAIN && ++commands < 10);
		EXPECT_EQ(status, SIRDMA_CQP_OK) << "room for " << room;
		EXPECT_EQ(l.a.state(), SIRDMA_QPS_ERR) << "room for " << room;
	}
}

// A queue pair between two parts of the flush that takes it from SQE back to RTS: some of the WQEs behind the failed one
// are flushed, and others are not.
class BetweenParts : public Unreliable {
protected:
	static constexpr u32 part = SIRDMA_CQP_MODIFY_FLUSHES, behind = 2 * part + part / 2;

	BetweenParts()
	{
		a.host.keep_background_busy();
		options.sq_quanta = 2048;
		options.qkey = old_qkey;
		l = Transport::link(options);
	}
	// Fail a send with @behind others, and take the first part.
	void begin()
	{
		Wr wrong = send(mtu);

		wrong.sges[0].stag ^= 1;
		l->a.place(wrong);
		for (u32 i = 0; i < behind; i++)
			l->a.place(send(1));
		l->a.kick(true);
		ASSERT_EQ(l->a.state(), SIRDMA_QPS_SQE);
		expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		posted = behind;
		flushed = 0;
		take();
		ASSERT_EQ(next_part(), SIRDMA_CQP_AGAIN);
		ASSERT_LT(flushed, behind);
	}
	// The ring is full again.
	void fill()
	{
		for (; posted - flushed < options.sq_quanta - SIRDMA_SQ_CHUNK_QUANTA; posted++)
			l->a.place(send(1));
	}
	// The same command each time, with a context that sets the Q_Key.
	u32 next_part()
	{
		l->a.context()->qkey = new_qkey;
		const u32 status = l->a.modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_QKEY, SIRDMA_QPS_SQE);

		take();
		EXPECT_EQ(l->a.state(),
			  status == SIRDMA_CQP_AGAIN ? SIRDMA_QPS_SQE : SIRDMA_QPS_RTS);
		EXPECT_EQ(l->a.context()->qkey, status == SIRDMA_CQP_AGAIN ? old_qkey : new_qkey);
		return status;
	}
	// Returns the number of commands.
	u32 remaining_parts()
	{
		u32 commands = 1;

		for (; next_part() == SIRDMA_CQP_AGAIN && commands < 10; commands++)
			;
		EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
		return commands;
	}
	u32 take()
	{
		u32 n = 0;

		for (; const std::optional<Wc> wc = l->a.poll(true); n++)
			expect_error(*wc, SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		flushed += n;
		return n;
	}
	// Everything was flushed once, nothing was sent, and the queue pair sends again.
	void expect_ended()
	{
		EXPECT_EQ(flushed, posted);
		EXPECT_TRUE(fabric.sent().empty());
		expect_works(*l, 1 << 20);
	}
	// From RESET to RTS again, as new.
	void reconnect()
	{
		Qp &qp = l->a;

		qp.empty_rings();
		qp.to_init();
		qp.to_rtr(b, l->b.id, options.b_psn);
		qp.to_rts(options.a_psn);
	}

	static constexpr u32 old_qkey = 0x1111, new_qkey = 0x2222;
	QpOptions options = uc();
	std::unique_ptr<Link> l;
	u32 posted = 0, flushed = 0; // of what is behind the failed one
};

TEST_F(BetweenParts, APostIsFlushedAsWell)
{
	begin();
	for (u32 i = 0; i < 3; i++, posted++)
		l->a.place(send(1));
	EXPECT_LE(remaining_parts(), behind / part + 1);
	expect_ended();
}

TEST_F(BetweenParts, APosterThatNeverRestsDoesNotKeepItFromEnding)
{
	u32 sent = 0, commands = 0, status;
	const auto count = [&](const Wc &wc) { wc.error ? flushed++ : sent++; };

	begin();
	do {
		fill();
		status = l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE);
		while (const std::optional<Wc> wc = l->a.poll(true))
			count(*wc);
	} while (status == SIRDMA_CQP_AGAIN && ++commands < 20);
	EXPECT_EQ(status, SIRDMA_CQP_OK);
	EXPECT_LE(commands, options.sq_quanta / part) << "a whole ring, and no more";
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
	// The queue pair sends what is behind.
	while (flushed + sent < posted)
		count(wait_send(l->a));
	EXPECT_GT(sent, 0u);
	EXPECT_TRUE(silent(l->a));
}

TEST_F(BetweenParts, ARunInTheBackgroundFlushesAPartOfItsOwn)
{
	begin();
	const u32 before = flushed;

	snic_qp_run(a.host.dev(), l->a.id);
	EXPECT_GT(take(), 0u);
	EXPECT_LE(flushed - before, u32{SNIC_FLUSH_BATCH});
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_SQE) << "the command ends it, not the background";
	remaining_parts();
	snic_qp_run(a.host.dev(), l->a.id);
	expect_ended();
}

TEST_F(BetweenParts, AMoveToErrFlushesTheRest)
{
	begin();
	l->a.recv({a.sge(0, 64)});
	l->a.error();
	for (u32 i = 0; i < 10; i++)
		snic_qp_run(a.host.dev(), l->a.id);
	take();
	EXPECT_EQ(flushed, behind);
	expect_error(wait_recv(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	// The next part
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_BAD_STATE);
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_ERR);
	EXPECT_TRUE(silent(l->a));
	EXPECT_TRUE(fabric.sent().empty());
}

TEST_F(BetweenParts, AResetForgetsTheRest)
{
	begin();
	// Nearly a whole ring is flushed.
	for (u32 n = 1; n < options.sq_quanta / part - 1; n++) {
		fill();
		EXPECT_EQ(next_part(), SIRDMA_CQP_AGAIN);
	}
	const u32 before = flushed;

	EXPECT_EQ(l->a.modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
	snic_qp_run(a.host.dev(), l->a.id);
	take();
	EXPECT_EQ(flushed, before);
	// The next part
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_BAD_STATE);
	// Of the flush that was broken off nothing is left: the next one is whole.
	reconnect();
	begin();
	remaining_parts();
	expect_ended();
}

TEST_F(BetweenParts, ADestroyEndsIt)
{
	begin();
	const u32 before = flushed;

	EXPECT_EQ(l->a.destroy(), SIRDMA_CQP_OK);
	snic_qp_run(a.host.dev(), l->a.id);
	take();
	EXPECT_EQ(flushed, before);
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_NO_OBJECT);
	// Another one of its number begins anew.
	options.qpn = l->a.id;
	EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_OK);
	l = Transport::link(options);
	begin();
	remaining_parts();
	expect_ended();
}

TEST_F(Unreliable, SendsNothingTwiceWhateverTheHostHasRoomFor)
{
	HostOptions opts;

	opts.tx_room = 3;
	Node narrow(fabric, 3, false, opts);
	narrow.learn(b);
	Link l(narrow, b, uc(), uc());
	// Towards @narrow nothing is sent: one address serves.
	std::vector<u32> lens{1, 5 * mtu, 0, 64 * mtu, 100 * mtu + 7, 2};

	for (u32 len : lens) {
		l.b.recv({b.sge(1 << 20, 1 << 20)});
		l.a.place({.sges = {narrow.sge(0, len)}});
	}
	l.a.kick();
	for (u32 len : lens) {
		EXPECT_FALSE(wait_send(l.a).error);
		Wc wc = wait_recv(l.b);
		EXPECT_FALSE(wc.error);
		EXPECT_EQ(wc.len, len);
	}
	EXPECT_GT(narrow.stat(SIRDMA_STAT_TX_STALLS), 10u);
	u32 psn = uc().a_psn;
	for (const Packet &pkt : fabric.sent()) {
		EXPECT_EQ(pkt.psn(), psn);
		psn = (psn + 1) & 0xffffff;
	}
}

TEST_F(Unreliable, TakesPacketsOfItsTransportOnly)
{
	auto rc = Transport::link();
	auto l = link();
	const u64 before = b.stat(SIRDMA_STAT_RX_BAD_OPCODE);

	// What the reliable pair sends is led to the unreliable one.
	fabric.set_filter([&](TestHost &, Packet &pkt) {
		pkt.bytes[pkt.bth + 5] = static_cast<u8>(l->b.id >> 16);
		pkt.bytes[pkt.bth + 6] = static_cast<u8>(l->b.id >> 8);
		pkt.bytes[pkt.bth + 7] = static_cast<u8>(l->b.id);
		seal(pkt);
		return Fabric::Verdict::pass;
	});
	expect_receive(*l);
	rc->a.post(send(10));
	settle(round_trip);
	fabric.set_filter(nullptr);
	EXPECT_GT(b.stat(SIRDMA_STAT_RX_BAD_OPCODE), before);
	rc.reset();
	fabric.sent().clear();
	delivers(*l, 100);
	expect_unmoved(*l);
}

TEST_F(Unreliable, ASenderThatGivesAMessageUpBeginsAnother)
{
	auto l = link();
	u32 seen = 0;

	// The third packet of four becomes the beginning of a message.
	expect_receive(*l);
	fabric.set_filter([&](TestHost &, Packet &pkt) {
		if (seen++ == 2) {
			pkt.bytes[pkt.bth] = SIRDMA_BTH_UC | SIRDMA_BTH_SEND_FIRST;
			seal(pkt);
		}
		return Fabric::Verdict::pass;
	});
	l->a.post(send(4 * mtu));
	EXPECT_FALSE(wait_send(l->a).error);
	Wc wc = wait_recv(l->b);
	fabric.set_filter(nullptr);
	EXPECT_FALSE(wc.error);
	EXPECT_EQ(wc.len, 2 * mtu);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_OUT_OF_SEQUENCE), 1u);
	expect_works(*l);
	expect_unmoved(*l);
}

TEST_F(Unreliable, DrainsAndIsDescribed)
{
	auto l = link();

	EXPECT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	EXPECT_EQ(l->a.context()->qp_type, SIRDMA_QPT_UC);
	expect_receive(*l);
	l->a.place(send(3 * mtu));
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_SQD, SIRDMA_QPC_MOD_SQD_EVENT, SIRDMA_QPS_RTS),
		  SIRDMA_CQP_OK);
	settle();
	auto e = a.drv.next_aeqe();
	ASSERT_TRUE(e);
	EXPECT_EQ(e->code, SIRDMA_AE_QP_SUSPEND_COMPLETE);
	EXPECT_FALSE(l->a.poll(true)) << "it was not fetched before";
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQD), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, 3 * mtu);
	expect_unmoved(*l);
}

// Loss, duplicates, super-packets: what arrives is a message that was sent, whole and in order.
TEST_F(Unreliable, DeliversWholeMessagesInOrderOverABadNetwork)
{
	// A message in each slot of the region's upper half; a receive names its slot until it completes, and
	// fewer wait than there are slots.
	constexpr u32 count = 400, slot = 8192, slots = 32, waiting_most = 20;
	auto l = link();
	const u32 receives = uc().rq_wqes, stride = 1u << uc().rq_stride_shift;
	u32 got = 0, last = 0;
	std::vector<u32> lens(count + 1);

	fabric.record(false);
	fabric.faults() = {.loss = 0.02,
			   .duplicate = 0.02,
			   .corrupt = 0.01,
			   .merge = 0.3,
			   .by_reference = 0.5,
			   .pull_fails = 0.02};
	for (u32 i = 1; i <= count; i++) {
		const u32 len = 4 + fabric.rng()() % (slot - 4) / 4 * 4;
		auto *words = reinterpret_cast<u32 *>(a.data());

		lens[i] = len;
		std::fill(words, words + len / 4, i);
		l->b.recv({b.sge((1 << 20) + i % slots * slot, slot)});
		l->a.post(send(len));
		EXPECT_FALSE(wait_send(l->a).error);
		settle(round_trip);
		while (auto wc = l->b.poll(false)) {
			// Which of the receives, and so which slot: the first was number 1.
			const u32 nth = (wc->idx / stride + 1) % receives % slots;
			const auto *data =
				reinterpret_cast<const u32 *>(b.data((1 << 20) + nth * slot));

			EXPECT_FALSE(wc->error);
			EXPECT_GE(data[0], last);
			last = data[0];
			EXPECT_EQ(wc->len, lens.at(last));
			for (u32 k = 0; k < wc->len / 4; k++)
				ASSERT_EQ(data[k], data[0]) << "parts of two messages";
			got++;
		}
		// What was dropped left its receive to the next one.
		if (i - got > waiting_most)
			break;
	}
	EXPECT_GT(got, 10u);
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
}

// Packets that arrive for a queue pair wait for its lock while payload is copied under it.
TEST_F(Unreliable, SendsTwoBurstsUnderOneHoldOfTheLock)
{
	constexpr u32 burst = SNIC_BURST_DEFAULT / mtu;
	auto l = link();

	expect_receive(*l);
	a.host.set_room(false);
	l->a.post(send(1 << 20));
	ASSERT_EQ(fabric.packets_sent(), 0u);
	a.host.set_room(true);
	ASSERT_TRUE(a.host.run_deferred()); // the resumption
	u64 before = fabric.packets_sent();
	EXPECT_GT(before, (SNIC_HOLD_BURSTS - 1) * burst);
	EXPECT_LE(before, SNIC_HOLD_BURSTS * burst);
	ASSERT_TRUE(a.host.run_deferred()) << "the rest is not forgotten";
	// A bottom half takes the lock several times.
	EXPECT_GT(fabric.packets_sent() - before, SNIC_HOLD_BURSTS * burst);
	EXPECT_LE(fabric.packets_sent() - before, SNIC_RUN_HOLDS * SNIC_HOLD_BURSTS * burst);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, 1u << 20);
}

// The caller of a kick waits until the device is done with it, also where no window and no netdev bounds what is sent: eight bursts
// of 64 KiB, or the short packets of eight bursts. scripts/accept hold-times measures how long that takes.
TEST_F(Unreliable, AKickSendsNoMoreThanEightBursts)
{
	constexpr u64 most_bytes = 600'000, most_packets = 4000;
	QpOptions o = uc();

	o.sq_quanta = 8192;
	auto l = Transport::link(o);
	const auto kick = [&](u32 messages, u32 len) {
		const u64 before = fabric.packets_sent();

		for (u32 i = 0; i < messages; i++) {
			Wr wr = write(len, b.va(1 << 20));

			wr.signaled = i + 1 == messages;
			l->a.place(wr);
		}
		l->a.kick(true);
		const u64 sent = fabric.packets_sent() - before;

		EXPECT_GT(sent, 0u);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(fabric.packets_sent() - before, messages * std::max(1u, len / mtu));
		return sent;
	};

	EXPECT_LE(kick(8, 1 << 20) * mtu, most_bytes);
	EXPECT_LE(kick(6000, 1), most_packets);
}

} // namespace
