// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Streams of small messages among other ones: each arrives once, in order, and as it was posted.
#include "transport.hpp"

#include <map>

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

struct Message {
	Wr wr;
	std::vector<u8> bytes;
};

class Small : public Transport, public ::testing::WithParamInterface<std::tuple<u64, u32, double>> {
protected:
	// Half of the streams are between hosts that give the only message of a queue pair no other path.
	Small() : Transport(std::get<0>(GetParam()))
	{
		if (std::get<0>(GetParam()) % 2)
			a.host.forget_one_sided();
	}

	u32 pick(u32 n) { return static_cast<u32>(fabric.rng()() % n); }
	// WRITEs go to places of their own: @slot names it.
	Message message(u32 slot)
	{
		static const u32 sizes[] = {1, 7, 8, 9, 63, 64, 255, 256, 257, 1023, 1024, 1500};
		const u32 len = sizes[pick(std::size(sizes))], at = pick(100000);
		Message m;

		m.wr.op = pick(2) ? u8{SIRDMA_OP_WRITE} : u8{SIRDMA_OP_SEND};
		m.wr.signaled = pick(3) == 0;
		m.wr.remote = b.va(slot * 2048);
		m.wr.rkey = b.mr.stag();
		if (pick(8) == 0)
			m.wr.imm = slot;
		if (pick(2) && len <= SIRDMA_MAX_INLINE) {
			m.wr.is_inline = true;
			m.wr.inl.assign(a.data(at), a.data(at) + len);
		} else if (pick(8) == 0 && len > 1) {
			m.wr.sges = {a.sge(at, 1), a.sge(at + 1, len - 1)};
		} else {
			m.wr.sges = {a.sge(at, len)};
		}
		m.bytes.assign(a.data(at), a.data(at) + len);
		return m;
	}
};

TEST_P(Small, MessagesArriveAsTheyWerePosted)
{
	constexpr u32 places = 256, total = 4000;
	QpOptions o;
	o.mtu = static_cast<u16>(std::get<1>(GetParam()));
	o.sq_quanta = 256;
	o.rq_wqes = 64;
	o.a_psn = 0xfffe00;
	auto l = link(o);
	std::map<u32, Message> posted; // by number
	u32 next = 0, done = 0, received = 0, taken = 0;
	std::vector<u32> arrivals; // numbers of the messages that take a receive

	fabric.faults().loss = std::get<2>(GetParam());
	a.mem->fill(3);
	for (u32 i = 0; i < 60; i++)
		l->b.recv({b.sge((places + i) * 2048, 2048)});
	const auto work = [&] {
		while (next < total && next - done < 60) {
			for (u32 list = 1 + pick(16); list && next < total; list--, next++) {
				Message m = message(next % places);
				if (next == total - 1 || next - done > 55)
					m.wr.signaled = true;
				l->a.place(m.wr);
				if (m.wr.op == SIRDMA_OP_SEND || m.wr.imm)
					arrivals.push_back(next);
				posted[next] = std::move(m);
			}
			l->a.kick();
			if (next - done > 55)
				break;
		}
		while (auto wc = l->b.poll(false)) {
			ASSERT_LT(taken, arrivals.size());
			const Message &m = posted[arrivals[taken]];
			ASSERT_FALSE(wc->error);
			EXPECT_EQ(wc->len, m.bytes.size());
			EXPECT_EQ(wc->imm, m.wr.imm);
			const u32 at = (places + taken % 60) * 2048;
			if (m.wr.op == SIRDMA_OP_SEND) {
				EXPECT_EQ(memcmp(b.data(at), m.bytes.data(), m.bytes.size()), 0);
			}
			taken++;
			l->b.recv({b.sge(at, 2048)});
		}
		// A completion covers all messages before it.
		while (auto wc = l->a.poll(true)) {
			ASSERT_FALSE(wc->error);
			while (!posted[done].wr.signaled)
				done++;
			EXPECT_EQ(wc->op, posted[done].wr.op);
			done++;
			for (; received < done; received++) {
				const Message &m = posted[received];
				if (m.wr.op == SIRDMA_OP_WRITE && received + places >= next) {
					EXPECT_EQ(memcmp(b.data(received % places * 2048),
							 m.bytes.data(), m.bytes.size()),
						  0)
						<< received;
				}
			}
		}
	};
	fabric.run_until(
		[&] {
			work();
			return HasFatalFailure() || (done == total && taken == arrivals.size());
		},
		600'000'000'000ull);
	EXPECT_EQ(done, total);
	EXPECT_EQ(taken, arrivals.size());
	EXPECT_TRUE(silent(l->a));
}

INSTANTIATE_TEST_SUITE_P(Streams, Small,
			 ::testing::Combine(::testing::Values(1, 2, 3, 4),
					    ::testing::Values(256u, 1024u, 4096u),
					    ::testing::Values(0.0, 0.02)));

class SmallPackets : public Transport {
protected:
	SmallPackets() { a.host.forget_one_sided(); }
	// Quanta of the WQE that the general path decoded last; 0: none yet.
	u32 decoded(const Qp &of)
	{
		snic_qp *qp = snic_qp_get(a.host.dev(), of.id);
		const u32 quanta = qp->req.sqe.quanta;
		snic_qp_put(qp);
		return quanta;
	}
	void write(Qp &qp, u32 len)
	{
		qp.place({.op = SIRDMA_OP_WRITE,
			  .sges = {a.sge(0, len)},
			  .remote = b.va(),
			  .rkey = b.mr.stag()});
	}
};

// The first as well, which finds the region.
TEST_F(SmallPackets, TakeTheirOwnPath)
{
	auto l = link();
	const auto write = [&](u32 i) {
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(i * 8, 8)},
			    .remote = b.va(i * 8),
			    .rkey = b.mr.stag(),
			    .signaled = i == 19});
	};

	for (u32 i = 0; i < 20; i++)
		write(i);
	l->a.kick();
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	snic_qp *qp = snic_qp_get(a.host.dev(), l->a.id);
	EXPECT_EQ(qp->req.tail, 20u);
	EXPECT_FALSE(qp->req.sqe_valid);
	snic_qp_put(qp);
	EXPECT_EQ(decoded(l->a), 0u);
	EXPECT_EQ(memcmp(a.data(), b.data(), 160), 0);
}

// WQEs with the header of the one before, over the ends of pages and of the ring, and now and then another.
TEST_F(SmallPackets, OfOneHeaderDifferInAddressAndPayload)
{
	constexpr u32 places = 512;

	fabric.record(true);
	for (u32 quanta : {32u, 256u}) {
		QpOptions o;
		o.mtu = 4096;
		o.sq_quanta = quanta;
		o.rq_wqes = 64;
		o.a_psn = 0xffff00;
		auto l = link(o);
		std::mt19937_64 rng(quanta);
		u32 next = 0, psn = 0xffff00;

		for (u32 round = 0; round < 80; round++) {
			const u32 list = 1 + static_cast<u32>(rng() % 24);
			std::vector<u64> values(list);
			std::vector<bool> sends(list);
			const size_t before = fabric.sent().size();
			u32 taken = 0;

			for (u32 i = 0; i < list; i++) {
				Wr wr{.op = SIRDMA_OP_WRITE,
				      .remote = b.va((next + i) % places * 8),
				      .rkey = b.mr.stag(),
				      .is_inline = true,
				      .signaled = i + 1 == list || rng() % 16 == 0};
				const u64 kind = rng() % 24;

				values[i] = rng();
				sends[i] = kind < 2 || (round % 8 == 0 && kind < 20);
				if (sends[i]) {
					wr.op = SIRDMA_OP_SEND;
					l->b.recv({b.sge((places + i) * 8, 8)});
				}
				wr.inl.assign(reinterpret_cast<u8 *>(&values[i]),
					      reinterpret_cast<u8 *>(&values[i]) +
						      (kind == 23 ? 5 : 8));
				if (kind == 23)
					values[i] &= 0xffffffffff;
				memset(b.data((next + i) % places * 8), 0, 8);
				memset(b.data((places + i) * 8), 0, 8);
				l->a.place(wr);
			}
			l->a.kick();
			settle(1'000'000);
			for (u32 i = 0; i < list; i++) {
				const u32 place = sends[i] ? places + i : (next + i) % places;

				EXPECT_EQ(memcmp(b.data(place * 8), &values[i], 8), 0) << i;
				taken += sends[i];
			}
			for (size_t i = before; i < fabric.sent().size(); i++) {
				const Packet &p = fabric.sent()[i];

				if (p.opcode() != SIRDMA_BTH_WRITE_ONLY &&
				    p.opcode() != SIRDMA_BTH_SEND_ONLY)
					continue;
				EXPECT_EQ(p.psn(), psn);
				psn = (psn + 1) & SIRDMA_PSN_MASK;
			}
			while (auto wc = l->a.poll(true))
				EXPECT_FALSE(wc->error);
			for (; auto wc = l->b.poll(false); taken--) {
				EXPECT_FALSE(wc->error);
				EXPECT_TRUE(wc->len == 8 || wc->len == 5);
			}
			EXPECT_EQ(taken, 0u);
			next += list;
			ASSERT_FALSE(HasFailure()) << quanta << ' ' << round;
		}
		EXPECT_EQ(psn, (0xffff00 + next) & SIRDMA_PSN_MASK);
		EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	}
}

TEST_F(SmallPackets, OneThatFillsAPacketTakesThePathAlone)
{
	for (u32 mtu : {256u, 1024u, 4096u}) {
		auto l = link({.mtu = static_cast<u16>(mtu)});

		a.mem->fill(mtu);
		for (u32 len : {257u, 1000u, mtu}) {
			if (len > mtu)
				continue;
			write(l->a, len);
			l->a.kick();
			expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
			EXPECT_EQ(decoded(l->a), 0u) << len;
			EXPECT_EQ(memcmp(a.data(), b.data(), len), 0) << len;
		}
		write(l->a, mtu + 1);
		l->a.kick();
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(decoded(l->a), 1u);
		EXPECT_EQ(memcmp(a.data(), b.data(), mtu + 1), 0);
	}
}

// The window may not allow the second one.
TEST_F(SmallPackets, ALongOneBehindAnotherDoesNotTakeThePath)
{
	auto l = link();

	write(l->a, 1024);
	write(l->a, 1024);
	l->a.kick();
	for (int i = 0; i < 2; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(decoded(l->a), 1u);
}

// What the path does not find is named and counted once, by the general path.
TEST_F(SmallPackets, ABadKeyIsReportedOnce)
{
	auto l = link();

	l->a.place({.op = SIRDMA_OP_WRITE,
		    .sges = {{.addr = a.va(), .len = 8, .stag = a.mr.stag() ^ 1}},
		    .remote = b.va(),
		    .rkey = b.mr.stag()});
	l->a.kick();
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_MR_INVALID_KEY), 1u);
}

// One acknowledgement is asked for in sixteen packets, and by the last one of a burst.
TEST_F(SmallPackets, AskForAcknowledgementsNowAndThen)
{
	auto l = link({.mtu = 4096});
	std::vector<u32> asking;

	fabric.record(true);
	for (u32 i = 0; i < 40; i++)
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(i * 8, 8)},
			    .remote = b.va(i * 8),
			    .rkey = b.mr.stag(),
			    .signaled = i == 39});
	l->a.kick();
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	u32 n = 0;
	for (const Packet &p : fabric.sent()) {
		if (p.opcode() != SIRDMA_BTH_WRITE_ONLY)
			continue;
		EXPECT_EQ(p.psn(), l->a.opts.a_psn + n);
		if (p.ack_req())
			asking.push_back(n);
		n++;
	}
	EXPECT_EQ(n, 40u);
	ASSERT_GE(asking.size(), 3u);
	EXPECT_EQ(asking.back(), 39u);
	for (size_t i = 0; i + 1 < asking.size(); i++)
		EXPECT_LE(asking[i + 1] - asking[i], 16u);
	EXPECT_LE(asking.size(), 12u);
}

// To a near peer, small WRITEs without completion are acknowledged with a later packet.
class Unasked : public Transport {
protected:
	Unasked()
	{
		a.host.set_limits({.burst = 0, .window = 0, .near = true});
		a.mem->fill(5);
	}
	// The path to the peer is known from the first packet on, which asks.
	std::unique_ptr<Link> near_link(const QpOptions &o = {.mtu = 4096})
	{
		auto l = link(o);

		write(*l, 1);
		settle(100'000);
		EXPECT_EQ(acks(), 1u);
		asked_ = acks();
		return l;
	}
	Wr small(u32 i, bool signaled = false)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(i * 8, 8)},
			.remote = b.va(i * 8),
			.rkey = b.mr.stag(),
			.signaled = signaled};
	}
	// Posts @n to @l, one by one.
	void write(Link &l, u32 n, bool signaled = false)
	{
		for (u32 i = 0; i < n; i++)
			l.a.post(small(i, signaled));
	}
	void expect_arrived(u32 n) { EXPECT_EQ(memcmp(a.data(), b.data(), n * 8), 0); }
	u64 acks() { return b.stat(SIRDMA_STAT_ACKS_SENT) - asked_; }
	void expect_no_loss()
	{
		EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
		EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	}
	void expect_idle(Link &l)
	{
		snic_qp *qp = snic_qp_get(a.host.dev(), l.a.id);

		EXPECT_EQ(qp->req.head, qp->req.tail);
		snic_qp_put(qp);
	}
	static constexpr u64 timeout_ns = 4'194'304; // of QpOptions, which is 10

private:
	u64 asked_ = 0;
};

TEST_F(Unasked, AreAcknowledgedWithOneThatAsks)
{
	auto l = near_link();

	write(*l, 3);
	settle(100'000);
	expect_arrived(3);
	EXPECT_EQ(acks(), 0u);
	write(*l, 1, true);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(acks(), 1u);
	settle(10 * timeout_ns);
	EXPECT_EQ(acks(), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 0u);
	expect_no_loss();
}

TEST_F(Unasked, AreAcknowledgedOnceInSixteen)
{
	auto l = near_link();

	// None waits for the timer, although nobody kicks a device that expects answers.
	for (u32 i = 0; i < 6; i++) {
		a.mem->fill(i);
		write(*l, 16);
		settle(100'000);
		expect_arrived(16);
	}
	EXPECT_GE(acks(), 5u);
	EXPECT_LE(acks(), 12u);
	expect_no_loss();
}

TEST_F(Unasked, AreAcknowledgedWhenNothingMoreComes)
{
	auto l = near_link();

	write(*l, 3);
	settle(100'000);
	b.host.acknowledge_lingering();
	settle(100'000);
	EXPECT_EQ(acks(), 1u);
	expect_idle(*l);
	b.host.acknowledge_lingering();
	write(*l, 1);
	settle(100'000);
	b.host.acknowledge_lingering();
	settle(10 * timeout_ns);
	EXPECT_EQ(acks(), 2u);
	expect_no_loss();
}

TEST_F(Unasked, AreAcknowledgedAfterTheTimeoutAtLast)
{
	auto l = near_link();

	write(*l, 3);
	settle(timeout_ns / 2);
	EXPECT_EQ(acks(), 0u);
	settle(2 * timeout_ns);
	EXPECT_EQ(acks(), 1u);
	expect_idle(*l);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 1u) << "the last one asks";
	fabric.record(true);
	settle(10 * timeout_ns);
	EXPECT_TRUE(fabric.sent().empty());
	expect_no_loss();
}

TEST_F(Unasked, ArriveAlsoWhenTheyWereLost)
{
	for (u32 lost : {1u, 2u, 4u, 5u, 7u}) { // of three, as bits
		auto l = link({.mtu = 4096});
		u32 sent = 0;

		write(*l, 1);
		settle(100'000);
		a.mem->fill(lost + 8);
		fabric.set_filter([&](TestHost &from, Packet &p) {
			const bool drops = &from == &a.host && sent < 3 && (lost >> sent & 1);

			sent += &from == &a.host && p.opcode() == SIRDMA_BTH_WRITE_ONLY;
			return drops ? Fabric::Verdict::drop : Fabric::Verdict::pass;
		});
		write(*l, 3);
		settle(8 * timeout_ns);
		expect_arrived(3);
		fabric.set_filter({});
		write(*l, 4, true);
		for (u32 i = 0; i < 4; i++)
			expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		expect_arrived(4);
	}
}

// Their receiver has seen them: its end is no failure of theirs.
TEST_F(Unasked, AreAcknowledgedBeforeTheReceiverEnds)
{
	for (const int next_state :
	     {int{SIRDMA_QPS_ERR}, int{SIRDMA_QPS_RESET}, SIRDMA_QPS_ERR + 1}) {
		auto l = link({.mtu = 4096});

		write(*l, 1);
		settle(100'000);
		write(*l, 3);
		settle(100'000);
		if (next_state > SIRDMA_QPS_ERR)
			EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_OK);
		else
			EXPECT_EQ(l->b.modify(static_cast<u8>(next_state), 0), SIRDMA_CQP_OK);
		settle(100 * timeout_ns);
		expect_idle(*l);
		EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS) << next_state;
		EXPECT_TRUE(silent(l->a));
	}
}

TEST_F(Unasked, DoNotHoldUpTheDraining)
{
	auto l = near_link();

	write(*l, 3);
	settle(100'000);
	EXPECT_EQ(l->a.modify(SIRDMA_QPS_SQD, 0, SIRDMA_QPS_RTS), SIRDMA_CQP_OK);
	settle(100'000);
	EXPECT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	EXPECT_FALSE(l->a.context()->sq_draining);
	expect_no_loss();
}

// A local operation is done when the messages before it are.
TEST_F(Unasked, DoNotHoldUpLocalOperations)
{
	for (const bool one_list : {false, true}) {
		auto l = link({.mtu = 4096});

		write(*l, 1);
		settle(100'000);
		l->a.place(small(1));
		if (!one_list) {
			l->a.kick();
			settle(100'000);
		}
		l->a.place({.op = SIRDMA_OP_NOP});
		l->a.kick();
		expect_ok(wait(l->a, true, timeout_ns / 2), SIRDMA_OP_NOP);
	}
}

TEST_F(Unasked, DoNotHoldUpAReadThatFillsTheWindow)
{
	auto l = link({.mtu = 256, .ord = 1});

	write(*l, 1);
	settle(100'000);
	write(*l, 3);
	settle(100'000);
	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(65536, 300'000)},
		   .remote = b.va(0),
		   .rkey = b.mr.stag()});
	expect_ok(wait(l->a, true, timeout_ns / 2), SIRDMA_OP_READ);
}

// What was delivered cannot be read again: an error, but no standstill.
TEST_F(Unasked, ThatCannotBeRepeatedFail)
{
	auto l = near_link();

	write(*l, 3);
	settle(100'000);
	l->a.quantum(3)->frag_stag ^= SIRDMA_PREP(SIRDMA_FRAG_LEN, 8 ^ 9);
	settle(20 * timeout_ns);
	const auto wc = l->a.poll(true);
	EXPECT_TRUE(!wc || wc->error);
	snic_qp *qp = snic_qp_get(a.host.dev(), l->a.id);
	EXPECT_TRUE(qp->state == SIRDMA_QPS_ERR || qp->req.head == qp->req.tail);
	snic_qp_put(qp);
}

TEST_F(Unasked, AskAtOnceWithoutATimeout)
{
	auto l = link({.mtu = 4096, .timeout = 0});

	write(*l, 4);
	settle(100'000);
	expect_idle(*l);
}

TEST_F(Unasked, AskOfAPeerThatIsNotNear)
{
	a.host.set_limits({});
	auto l = link({.mtu = 4096});

	write(*l, 4);
	settle(100'000);
	expect_idle(*l);
}

TEST_F(SmallPackets, OfAQueueThatSignalsAllAreSignaled)
{
	auto l = link({.queue_flags = SIRDMA_QPC_KICK | SIRDMA_QPC_SIG_ALL});

	for (u32 i = 0; i < 5; i++)
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(i * 8, 8)},
			    .remote = b.va(i * 8),
			    .rkey = b.mr.stag(),
			    .signaled = false});
	l->a.kick();
	for (u32 i = 0; i < 5; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// A READ before them is fenced off, also where they are behind another that was sent.
TEST_F(SmallPackets, WaitBehindAReadWhenFenced)
{
	auto l = link();
	const std::vector<u8> before(b.data(0), b.data(8));

	a.mem->fill(9);
	l->a.place({.op = SIRDMA_OP_READ,
		    .sges = {a.sge(4096, 8)},
		    .remote = b.va(0),
		    .rkey = b.mr.stag()});
	for (u32 i = 0; i < 3; i++)
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .remote = b.va(0),
			    .rkey = b.mr.stag(),
			    .inl = std::vector<u8>(8, 0x5a),
			    .is_inline = true,
			    .fence = true});
	fabric.record(true);
	l->a.kick();
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	for (u32 i = 0; i < 3; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	std::vector<u8> opcodes;
	for (const Packet &p : fabric.sent())
		opcodes.push_back(p.opcode());
	ASSERT_GE(opcodes.size(), 3u);
	EXPECT_EQ(opcodes[0], SIRDMA_BTH_READ_REQUEST);
	EXPECT_EQ(opcodes[1], SIRDMA_BTH_READ_RESP_ONLY) << "the WRITE did not wait";
	EXPECT_EQ(memcmp(a.data(4096), before.data(), 8), 0);
}

// A host without room gets each message later, once.
TEST_F(SmallPackets, WaitForTheHost)
{
	auto l = link();

	a.host.set_room(false);
	for (u32 i = 0; i < 20; i++)
		l->a.place({.op = SIRDMA_OP_WRITE,
			    .sges = {a.sge(i * 8, 8)},
			    .remote = b.va(i * 8),
			    .rkey = b.mr.stag()});
	l->a.kick();
	settle();
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(a.stat(SIRDMA_STAT_TX_STALLS), 1u);
	for (u32 id : a.host.set_room(true))
		snic_tx_resume(a.host.dev(), id);
	for (u32 i = 0; i < 20; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(), 160), 0);
}

} // namespace
