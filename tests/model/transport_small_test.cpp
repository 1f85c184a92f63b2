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
	Small() : Transport(std::get<0>(GetParam())) {}

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
			 ::testing::Combine(::testing::Values(1, 2, 3),
					    ::testing::Values(256u, 1024u, 4096u),
					    ::testing::Values(0.0, 0.02)));

class SmallPackets : public Transport {};

// The first takes the general path, which keeps what it decoded; those behind it take the other one.
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
	EXPECT_EQ(qp->req.sqe_slot, 0u);
	EXPECT_FALSE(qp->req.sqe_valid);
	snic_qp_put(qp);
	EXPECT_EQ(memcmp(a.data(), b.data(), 160), 0);
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
