// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Unreliable datagram: address vectors, Q_Keys, the GRH, and what is dropped or fails.
#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 mtu = 1024;
constexpr u32 qkey = 0x12345678;
constexpr u64 to = 1 << 20; // where receives lie

// A datagram end: it has no peer, so its path is not set.
class Datagrams {
public:
	Datagrams(Node &node, QpOptions options) : qp(node, options) { start(); }

	void start()
	{
		qp.to_init();
		qp.context()->path_mtu = qp.opts.mtu;
		EXPECT_EQ(qp.modify(SIRDMA_QPS_RTR, SIRDMA_QPC_MOD_MTU, SIRDMA_QPS_INIT),
			  SIRDMA_CQP_OK);
		qp.context()->sq_psn = qp.opts.a_psn;
		EXPECT_EQ(qp.modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_SQ_PSN, SIRDMA_QPS_RTR),
			  SIRDMA_CQP_OK);
	}

	Qp qp;
};

class Datagram : public Transport {
protected:
	explicit Datagram(bool v6 = false) : Transport(13, v6)
	{
		fabric.record(true);
		address(1, b);
	}

	static QpOptions ud()
	{
		QpOptions o;

		o.type = SIRDMA_QPT_UD;
		o.mtu = mtu;
		o.timeout = 0;
		o.qkey = qkey;
		return o;
	}
	// Address vector @idx of @a, towards @peer.
	sirdma_av *address(u32 idx, Node &peer, u32 pd = 1)
	{
		sirdma_av *av = a.drv.av(idx);

		__atomic_store_n(&av->ctrl, 0, __ATOMIC_SEQ_CST);
		av->mac = sirdma_mac_to_word(peer.mac().data());
		av->dst_ip = peer.ip;
		av->flow_label = 0;
		av->sgid_idx = 0;
		av->udp_sport = 0xc123;
		av->hop_limit = 33;
		av->traffic_class = 0x28;
		__atomic_store_n(&av->ctrl,
				 SIRDMA_PREP(SIRDMA_AV_PD, pd) | SIRDMA_PREP(SIRDMA_AV_SEQ, ++seq) |
					 SIRDMA_AV_VALID,
				 __ATOMIC_SEQ_CST);
		return av;
	}
	Wr send(u32 len, const Qp &dest, u32 key = qkey, u32 av = 1)
	{
		return {.sges = {a.sge(0, len)},
			.remote = sirdma_send_dest(dest.id, key),
			.rkey = av};
	}
	void receive(Qp &qp, u32 len = 4096) { qp.recv({b.sge(to, len)}); }
	// It arrives whole, behind its GRH.
	Wc arrives(Qp &from, Qp &at, u32 len)
	{
		Wc wc = wait_recv(at);

		EXPECT_FALSE(wc.error);
		EXPECT_EQ(wc.len, SIRDMA_GRH_LEN + len);
		EXPECT_EQ(wc.src_qpn, from.id);
		EXPECT_EQ(wc.op & ~1u, u32{SIRDMA_CQE_OP_DATAGRAM | SIRDMA_BTH_SEND_ONLY});
		EXPECT_EQ(memcmp(b.data(to + SIRDMA_GRH_LEN), a.data(), len), 0);
		return wc;
	}
	void works(Qp &from, Qp &at, u32 len = 100)
	{
		a.mem->fill(len + 1);
		receive(at);
		from.post(send(len, at));
		expect_ok(wait_send(from), SIRDMA_OP_SEND);
		arrives(from, at, len);
		EXPECT_TRUE(silent(from));
		EXPECT_TRUE(silent(at));
	}
	// Sent, and not received; @why counts it.
	void drops(Qp &from, Qp &at, const Wr &wr, sirdma_stat why)
	{
		const u64 before = b.stat(why);

		from.post(wr);
		expect_ok(wait_send(from), SIRDMA_OP_SEND);
		settle();
		EXPECT_EQ(b.stat(why), before + 1);
		EXPECT_TRUE(silent(at));
		EXPECT_EQ(at.state(), SIRDMA_QPS_RTS);
	}

	u32 seq = 0;
};

class DatagramV6 : public Datagram {
protected:
	DatagramV6() : Datagram(true) {}
};

TEST_F(Datagram, DeliversEveryFormAtEverySize)
{
	Datagrams x(a, ud()), y(b, ud());

	for (u32 len : {0u, 1u, 3u, 8u, 9u, 101u, mtu - 1, mtu}) {
		for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_SEND_SOL}) {
			for (bool imm : {false, true}) {
				for (bool is_inline : {false, true}) {
					Wr wr = send(len, y.qp);

					if (is_inline && len > SIRDMA_MAX_INLINE)
						continue;
					SCOPED_TRACE(::testing::Message()
						     << len << " bytes, op " << int{op} << " imm "
						     << imm << " inline " << is_inline);
					a.mem->fill(len);
					memset(b.data(to), ~*a.data(len), 4096);
					wr.op = op;
					if (imm)
						wr.imm = 0xabcdef00 + len;
					if (is_inline) {
						wr.is_inline = true;
						wr.inl.assign(a.data(), a.data() + len);
						wr.sges.clear();
					}
					receive(y.qp);
					x.qp.post(wr);
					expect_ok(wait_send(x.qp), op);
					const Wc wc = arrives(x.qp, y.qp, len);
					EXPECT_EQ(wc.imm, wr.imm);
					EXPECT_EQ(wc.solicited, op == SIRDMA_OP_SEND_SOL);
					EXPECT_NE(b.data(to + SIRDMA_GRH_LEN)[len], *a.data(len));
				}
			}
		}
	}
	for (const Packet &pkt : fabric.sent()) {
		EXPECT_EQ(pkt.opcode() & SIRDMA_BTH_TRANSPORT, SIRDMA_BTH_UD);
		EXPECT_EQ(pkt.qpn(), y.qp.id) << "nobody answers";
		EXPECT_EQ(pkt.be32(pkt.bth + 12), qkey);
		EXPECT_EQ(pkt.be24(pkt.bth + 17), x.qp.id);
	}
}

// The header of IPv4 is the second half, as hardware delivers it.
TEST_F(Datagram, GrhHoldsTheHeaderOfIpv4)
{
	Datagrams x(a, ud()), y(b, ud());
	const u8 *grh = b.data(to), *ip = grh + 20;
	u32 sum = 0;

	memset(b.data(to), 0xee, 64);
	works(x.qp, y.qp, 101);
	EXPECT_TRUE(std::all_of(grh, ip, [](u8 byte) { return byte == 0; }));
	EXPECT_EQ(ip[0], 0x45);
	EXPECT_EQ(ip[1], 0x28);
	EXPECT_EQ(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 104 + 4);
	EXPECT_EQ(ip[8], 33);
	EXPECT_EQ(ip[9], 17);
	EXPECT_EQ(memcmp(ip + 12, a.ip.b + 12, 4), 0);
	EXPECT_EQ(memcmp(ip + 16, b.ip.b + 12, 4), 0);
	for (int i = 0; i < 20; i += 2)
		sum += u32{ip[i]} << 8 | ip[i + 1];
	EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu) << "checksum";
}

TEST_F(DatagramV6, GrhIsTheHeaderOfIpv6)
{
	Datagrams x(a, ud()), y(b, ud());
	const u8 *grh = b.data(to);

	a.drv.av(1)->flow_label = 0xabcde;
	works(x.qp, y.qp, 100);
	EXPECT_EQ(grh[0] >> 4, 6);
	EXPECT_EQ((grh[0] & 0xf) << 4 | grh[1] >> 4, 0x28);
	EXPECT_EQ((grh[1] & 0xf) << 16 | grh[2] << 8 | grh[3], 0xabcde);
	EXPECT_EQ(grh[4] << 8 | grh[5], 8 + 12 + 8 + 100 + 4);
	EXPECT_EQ(grh[6], 17);
	EXPECT_EQ(grh[7], 33);
	EXPECT_EQ(memcmp(grh + 8, a.ip.b, 16), 0);
	EXPECT_EQ(memcmp(grh + 24, b.ip.b, 16), 0);
}

// The VLAN tells which of the receiver's addresses it is; without a tag nothing has to be told.
TEST_F(Datagram, TellsVlanAndSourceMacToThoseWhoAsk)
{
	constexpr u16 vlan = 5;
	QpOptions asks = ud();

	asks.queue_flags |= SIRDMA_QPC_RECV_MAC;
	Datagrams x(a, ud()), y(b, asks), z(b, ud());
	EXPECT_EQ(a.drv.set_sgid(1, a.ip, a.mac().data(), true, vlan), SIRDMA_CQP_OK);
	address(2, b)->sgid_idx = 1;

	for (bool imm : {false, true}) {
		for (u32 av : {1, 2}) {
			for (Qp *to_qp : {&y.qp, &z.qp}) {
				Wr wr = send(10, *to_qp, qkey, av);

				if (imm)
					wr.imm = 77;
				receive(*to_qp);
				x.qp.post(wr);
				expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
				const Wc wc = arrives(x.qp, *to_qp, 10);
				EXPECT_EQ(wc.imm, wr.imm);
				ASSERT_EQ(wc.mac_vlan.has_value(), av == 2 && to_qp == &y.qp);
				if (wc.mac_vlan) {
					EXPECT_EQ(*wc.mac_vlan,
						  sirdma_mac_to_word(a.mac().data()) |
							  SIRDMA_PREP(SIRDMA_CQE_EXT_VLAN, vlan));
				}
			}
		}
	}
}

// One kick sends to many addresses about as much as to one.
TEST_F(Datagram, ManyAddressesCostNoMoreTurnsThanMessages)
{
	Datagrams x(a, ud()), y(b, ud());

	address(2, b);
	for (u32 i = 0; i < 60; i++)
		y.qp.recv({b.sge(to + i * 2048, 2048)});
	for (u32 i = 0; i < 60; i++)
		x.qp.place(send(10, y.qp, qkey, 1 + i % 2));
	fabric.sent().clear();
	x.qp.kick(true);
	EXPECT_EQ(fabric.sent().size(), 60u) << "in the call of the kick";
	for (u32 i = 0; i < 60; i++)
		expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
}

TEST_F(Datagram, DropsWhatIsNotForIt)
{
	Datagrams x(a, ud()), y(b, ud());
	Wr nobody = send(10, y.qp), general = send(10, y.qp, qkey);

	receive(y.qp, SIRDMA_GRH_LEN + 500);
	drops(x.qp, y.qp, send(10, y.qp, qkey + 1), SIRDMA_STAT_RX_BAD_QKEY);
	nobody.remote = sirdma_send_dest(999, qkey);
	drops(x.qp, y.qp, nobody, SIRDMA_STAT_RX_NO_QP);
	// Larger than the receive, which stays for the next one.
	drops(x.qp, y.qp, send(501, y.qp), SIRDMA_STAT_RX_REFUSED);
	x.qp.post(send(500, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	arrives(x.qp, y.qp, 500);
	drops(x.qp, y.qp, send(10, y.qp), SIRDMA_STAT_RX_NO_RECV);
	// A receive without room for the GRH is of no use.
	y.qp.recv({b.sge(to, SIRDMA_GRH_LEN - 1)});
	drops(x.qp, y.qp, send(0, y.qp), SIRDMA_STAT_RX_REFUSED);
	EXPECT_FALSE(b.drv.next_aeqe());
}

// Management datagrams have one size. Their receivers read all of it.
TEST_F(Datagram, OfTheGeneralServicesIsWhole)
{
	QpOptions general = ud();

	general.qpn = SIRDMA_GSI_QPN;
	Datagrams x(a, ud()), y(b, general);

	for (u32 len : {0u, SIRDMA_MAD_LEN - 1u, SIRDMA_MAD_LEN + 1u}) {
		receive(y.qp);
		drops(x.qp, y.qp, send(len, y.qp), SIRDMA_STAT_RX_BAD_LENGTH);
	}
	x.qp.post(send(SIRDMA_MAD_LEN, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	arrives(x.qp, y.qp, SIRDMA_MAD_LEN);
}

TEST_F(Datagram, IsNotForConnectedQueuePairs)
{
	Datagrams x(a, ud());
	auto l = link();
	const u64 before = b.stat(SIRDMA_STAT_RX_BAD_OPCODE);

	x.qp.post(send(10, l->b));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_OPCODE), before + 1);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
}

// IBTA 10.2.5: users cannot name a controlled Q_Key, only use that of their queue pair.
TEST_F(Datagram, QkeyWithTheHighestBitStandsForThatOfTheQueuePair)
{
	QpOptions controlled = ud();

	controlled.qkey = 0x80010000;
	Datagrams x(a, controlled), y(b, controlled), z(b, ud());

	receive(y.qp);
	x.qp.post(send(20, y.qp, 0x80000000));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	arrives(x.qp, y.qp, 20);
	receive(z.qp);
	drops(x.qp, z.qp, send(20, z.qp, 0x80000000 | qkey), SIRDMA_STAT_RX_BAD_QKEY);
}

TEST_F(Datagram, EachMessageHasItsOwnDestination)
{
	Datagrams x(a, ud()), y(b, ud()), z(b, ud());

	address(2, b)->traffic_class = 0x48;
	a.mem->fill(3);
	for (u32 i = 0; i < 8; i++) {
		y.qp.recv({b.sge(to + i * 4096, 2048)});
		z.qp.recv({b.sge(to + i * 4096 + 2048, 2048)});
	}
	for (u32 i = 0; i < 16; i++)
		x.qp.place(send(100 + i, i % 2 ? z.qp : y.qp, qkey, 1 + i / 2 % 2));
	x.qp.kick(true);
	for (u32 i = 0; i < 16; i++)
		expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	for (u32 i = 0; i < 16; i++) {
		const Wc wc = wait_recv(i % 2 ? z.qp : y.qp);
		const size_t at = to + i / 2 * 4096 + i % 2 * 2048;

		EXPECT_EQ(wc.len, SIRDMA_GRH_LEN + 100 + i);
		EXPECT_EQ(b.data(at)[21], i / 2 % 2 ? 0x48 : 0x28) << i;
		EXPECT_EQ(memcmp(b.data(at + SIRDMA_GRH_LEN), a.data(), 100 + i), 0);
	}
}

// It fails, what follows is flushed, and the queue goes on after SQE.
TEST_F(Datagram, WhatCannotBeSentFails)
{
	Datagrams x(a, ud()), y(b, ud());
	Wr long_one = send(mtu + 1, y.qp), read = send(10, y.qp), write = send(10, y.qp),
	   bad_memory = send(10, y.qp);

	address(3, b, 2);
	address(4, b)->hop_limit = 0;
	address(5, b)->udp_sport = 4791;
	address(6, b);
	a.drv.av(6)->ctrl = 0;
	read.op = SIRDMA_OP_READ;
	write.op = SIRDMA_OP_WRITE;
	bad_memory.sges[0].stag ^= 1;
	const struct {
		const char *what;
		Wr wr;
		u16 minor;
		u32 vendor;
	} failures[] = {
		{"too long", long_one, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN},
		{"READ", read, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP},
		{"WRITE", write, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP},
		{"memory", bad_memory, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT},
		{"no vector", send(10, y.qp, qkey, 0), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"of another protection domain", send(10, y.qp, qkey, 3), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"hop limit", send(10, y.qp, qkey, 4), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"UDP port", send(10, y.qp, qkey, 5), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"destroyed", send(10, y.qp, qkey, 6), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"not backed", send(10, y.qp, qkey, 100), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
		{"beyond the last", send(10, y.qp, qkey, 128), SIRDMA_FLUSH_LOC_QP_OP,
		 SIRDMA_VENDOR_LOC_QP_OP},
	};

	for (const auto &failure : failures) {
		SCOPED_TRACE(failure.what);
		a.mem->fill(9);
		receive(y.qp);
		x.qp.place(send(50, y.qp));
		x.qp.place(failure.wr);
		x.qp.post(send(1, y.qp));
		expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
		expect_error(wait_send(x.qp), failure.minor, failure.vendor);
		expect_error(wait_send(x.qp), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		arrives(x.qp, y.qp, 50);
		EXPECT_EQ(x.qp.state(), SIRDMA_QPS_SQE);
		EXPECT_EQ(x.qp.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_OK);
		works(x.qp, y.qp);
	}
	EXPECT_FALSE(a.drv.next_aeqe());
}

// The driver may write a vector anew for another handle: the next message follows it.
TEST_F(Datagram, FollowsAVectorThatWasWrittenAnew)
{
	Datagrams x(a, ud()), y(b, ud());

	works(x.qp, y.qp);
	EXPECT_EQ(b.data(to)[21], 0x28);
	address(1, b)->traffic_class = 0x10;
	works(x.qp, y.qp);
	EXPECT_EQ(b.data(to)[21], 0x10);
	a.drv.av(1)->ctrl = 0;
	x.qp.post(send(1, y.qp));
	expect_error(wait_send(x.qp), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
}

// Its source address goes: nothing is sent from an address that is gone.
TEST_F(Datagram, SendsNothingFromAnAddressThatIsGone)
{
	Datagrams x(a, ud()), y(b, ud());
	const u64 before = a.stat(SIRDMA_STAT_TX_DROPS);

	works(x.qp, y.qp);
	receive(y.qp);
	EXPECT_EQ(a.drv.set_sgid(0, a.ip, a.mac().data(), false), SIRDMA_CQP_OK);
	x.qp.post(send(10, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	settle();
	EXPECT_TRUE(silent(y.qp));
	EXPECT_EQ(a.stat(SIRDMA_STAT_TX_DROPS), before + 1);
}

TEST_F(Datagram, ReceivesIntoASharedQueue)
{
	Srq srq(b);
	QpOptions shared = ud();

	shared.srq = srq.id;
	Datagrams x(a, ud()), y(b, shared), z(b, shared);

	a.mem->fill(4);
	for (u64 id : {7u, 8u}) {
		Qp &at = id == 7 ? y.qp : z.qp;

		EXPECT_EQ(srq.recv(id, {b.sge(to, 2048)}), 0);
		x.qp.post(send(60, at));
		expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
		EXPECT_EQ(arrives(x.qp, at, 60).wr_id, id);
	}
	drops(x.qp, y.qp, send(60, y.qp), SIRDMA_STAT_RX_NO_RECV);

	// One that is too small is given back: the others of the queue must not lose it.
	EXPECT_EQ(srq.recv(9, {b.sge(to, 100)}), 0);
	x.qp.post(send(61, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	const Wc wc = wait_recv(y.qp);
	expect_error(wc, SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
	EXPECT_EQ(wc.wr_id, 9u);
	EXPECT_EQ(y.qp.state(), SIRDMA_QPS_RTS);
	EXPECT_EQ(srq.recv(10, {b.sge(to, 2048)}), 0);
	x.qp.post(send(61, z.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	EXPECT_EQ(arrives(x.qp, z.qp, 61).wr_id, 10u);
}

// A sender with a larger MTU.
TEST_F(Datagram, DropsWhatIsLongerThanItsMtu)
{
	QpOptions wide = ud();

	wide.mtu = 2048;
	Datagrams x(a, wide), y(b, ud());

	receive(y.qp);
	drops(x.qp, y.qp, send(mtu + 1, y.qp), SIRDMA_STAT_RX_REFUSED);
	a.mem->fill(1);
	x.qp.post(send(mtu, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	arrives(x.qp, y.qp, mtu);
}

// A CQ without room for the flush fails the queue pair, and it does not come back by itself.
TEST_F(Datagram, AnOverflowWhileItIsFlushedIsNotForgotten)
{
	Datagrams x(a, ud()), y(b, ud());
	QpOptions small = ud();
	Qp narrow(a, small, 8);

	narrow.to_init();
	narrow.context()->path_mtu = mtu;
	EXPECT_EQ(narrow.modify(SIRDMA_QPS_RTR, SIRDMA_QPC_MOD_MTU, SIRDMA_QPS_INIT),
		  SIRDMA_CQP_OK);
	EXPECT_EQ(narrow.modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_SQ_PSN, SIRDMA_QPS_RTR),
		  SIRDMA_CQP_OK);
	narrow.post(send(mtu + 1, y.qp));
	EXPECT_EQ(narrow.state(), SIRDMA_QPS_SQE);
	for (u32 i = 0; i < 20; i++)
		narrow.place(send(1, y.qp));
	EXPECT_EQ(narrow.modify(SIRDMA_QPS_RTS, 0, SIRDMA_QPS_SQE), SIRDMA_CQP_OK);
	EXPECT_EQ(narrow.state(), SIRDMA_QPS_ERR);
}

TEST_F(Datagram, FailsOnAReceiveOfItsOwnThatIsWrong)
{
	Datagrams x(a, ud()), y(b, ud());

	y.qp.recv({{b.va(), 200, b.mr.stag() ^ 1}});
	y.qp.recv({b.sge(0, 200)});
	x.qp.post(send(100, y.qp));
	expect_ok(wait_send(x.qp), SIRDMA_OP_SEND);
	expect_error(wait_recv(y.qp), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	expect_error(wait_recv(y.qp), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	EXPECT_EQ(y.qp.state(), SIRDMA_QPS_ERR);
}

TEST_F(Datagram, SendsNothingTwiceWhateverTheHostHasRoomFor)
{
	HostOptions narrow;

	narrow.tx_room = 3;
	Node c(fabric, 3, false, narrow);
	Datagrams y(b, ud());
	std::unique_ptr<Datagrams> x;
	sirdma_av *av = c.drv.av(1);

	*av = *a.drv.av(1);
	x = std::make_unique<Datagrams>(c, ud());
	for (u32 i = 0; i < 40; i++)
		y.qp.recv({b.sge(to + i * 2048, 2048)});
	fabric.sent().clear();
	for (u32 i = 0; i < 40; i++)
		x->qp.place({.sges = {c.sge(0, 200 + i)},
			     .remote = sirdma_send_dest(y.qp.id, qkey),
			     .rkey = 1});
	x->qp.kick(true);
	for (u32 i = 0; i < 40; i++)
		expect_ok(wait_send(x->qp), SIRDMA_OP_SEND);
	for (u32 i = 0; i < 40; i++)
		EXPECT_EQ(wait_recv(y.qp).len, SIRDMA_GRH_LEN + 200 + i);
	EXPECT_EQ(fabric.sent().size(), 40u);
}

// A packet of each wrong length, and one whose DETH is cut off.
TEST_F(Datagram, RefusesMalformedPackets)
{
	Datagrams x(a, ud()), y(b, ud());

	works(x.qp, y.qp, 64);
	const Packet good = fabric.sent().back();
	receive(y.qp);
	for (u8 op : {SIRDMA_BTH_SEND_FIRST, SIRDMA_BTH_SEND_LAST, SIRDMA_BTH_WRITE_ONLY,
		      SIRDMA_BTH_ACK, SIRDMA_BTH_READ_REQUEST}) {
		const u64 before = b.stat(SIRDMA_STAT_RX_BAD_OPCODE);
		Packet pkt = good;

		pkt.bytes[pkt.bth] = SIRDMA_BTH_UD | op;
		seal(pkt);
		fabric.inject(pkt.bytes);
		settle();
		EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_OPCODE), before + 1) << int{op};
	}
	EXPECT_TRUE(silent(y.qp));
	EXPECT_EQ(y.qp.state(), SIRDMA_QPS_RTS);
}

} // namespace

// Then each post is a kick again: a program may end without waiting for its last datagrams.
TEST_F(Datagram, IsPolledForAFewEmptyPeriods)
{
	constexpr u64 period = 50'000;
	HostOptions options;

	options.cfg.sq_poll_ns = period;
	Node c(fabric, 3, false, options);
	c.learn(b);
	EXPECT_EQ(b.drv.set_arp(0, c.mac().data()), SIRDMA_CQP_OK);
	sirdma_av *av = c.drv.av(1);
	*av = *a.drv.av(1);
	Datagrams from(c, ud()), at(b, ud());

	for (u32 i = 0; i < 200; i++) {
		Wr wr = send(8, at.qp);
		wr.sges = {c.sge(0, 8)};
		wr.signaled = false;
		from.qp.post(wr);
		settle(period / 10);
	}
	ASSERT_LT(c.stat(SIRDMA_STAT_KICKS), 100u) << "the timer polls";
	ASSERT_FALSE(from.qp.area()->need_kick);
	settle(2 * period);
	EXPECT_FALSE(from.qp.area()->need_kick);
	settle(4 * period);
	EXPECT_TRUE(from.qp.area()->need_kick);
}
