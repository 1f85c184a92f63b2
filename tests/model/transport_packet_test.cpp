// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Packets made by hand: what is rejected and under which counter, stale answers,
// protocol violations, and mutated packets that must not touch anything else.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

struct Violation {
	const char *what;
	std::vector<std::pair<u8, std::vector<u8>>> packets; // the last one violates
};

class Packets : public Transport {
protected:
	// Frame @from -> @to with this transport part (BTH to payload and pad).
	Packet frame(Node &from, Node &to, const std::vector<u8> &transport)
	{
		Packet p;
		auto &v = p.bytes;
		auto mac = to.mac(), src = from.mac();
		u16 udp_len = static_cast<u16>(8 + transport.size() + 4), ip_len = udp_len + 20;
		auto be16 = [&](u32 x) {
			v.push_back(static_cast<u8>(x >> 8));
			v.push_back(static_cast<u8>(x));
		};

		v.insert(v.end(), mac.begin(), mac.end());
		v.insert(v.end(), src.begin(), src.end());
		be16(0x0800);
		v.insert(v.end(), {0x45, 0});
		be16(ip_len);
		be16(0);
		be16(0x4000);
		v.insert(v.end(), {64, 17, 0, 0});
		v.insert(v.end(), from.ip.b + 12, from.ip.b + 16);
		v.insert(v.end(), to.ip.b + 12, to.ip.b + 16);
		seal_ipv4(&v[14]);
		be16(0xc123);
		be16(4791);
		be16(udp_len);
		be16(0);
		v.insert(v.end(), transport.begin(), transport.end());
		v.resize(v.size() + 4);
		EXPECT_TRUE(parse_frame(p));
		seal(p);
		return p;
	}
	static std::vector<u8> bth(u8 opcode, u32 qpn, u32 psn, u8 flags = 0x40, u16 pkey = 0xffff)
	{
		return {opcode,
			flags,
			static_cast<u8>(pkey >> 8),
			static_cast<u8>(pkey),
			0,
			static_cast<u8>(qpn >> 16),
			static_cast<u8>(qpn >> 8),
			static_cast<u8>(qpn),
			0x80,
			static_cast<u8>(psn >> 16),
			static_cast<u8>(psn >> 8),
			static_cast<u8>(psn)};
	}
	static std::vector<u8> cat(std::vector<u8> x, const std::vector<u8> &y)
	{
		x.insert(x.end(), y.begin(), y.end());
		return x;
	}
	static std::vector<u8> be(u64 v, int bytes)
	{
		std::vector<u8> out;
		while (bytes--)
			out.push_back(bytes < 8 ? static_cast<u8>(v >> (8 * bytes)) : 0);
		return out;
	}
	static std::vector<u8> reth(u64 va, u32 rkey, u32 len)
	{
		return cat(cat(be(va, 8), be(rkey, 4)), be(len, 4));
	}
	// To a queue pair with an MTU of 1024, and memory at @va.
	static std::vector<Violation> violations(u64 va, u32 stag)
	{
		const u32 mtu = 1024;
		const std::vector<u8> full(mtu), part(100), word(4);
		const auto w = reth(va, stag, 3 * mtu);

		return {
			{"middle without first", {{SIRDMA_BTH_SEND_MIDDLE, full}}},
			{"last without first", {{SIRDMA_BTH_SEND_LAST, part}}},
			{"write middle without first", {{SIRDMA_BTH_WRITE_MIDDLE, full}}},
			{"first in a message",
			 {{SIRDMA_BTH_SEND_FIRST, full}, {SIRDMA_BTH_SEND_FIRST, full}}},
			{"only in a message",
			 {{SIRDMA_BTH_SEND_FIRST, full}, {SIRDMA_BTH_SEND_ONLY, part}}},
			{"other kind",
			 {{SIRDMA_BTH_SEND_FIRST, full}, {SIRDMA_BTH_WRITE_LAST, part}}},
			{"read in a message",
			 {{SIRDMA_BTH_SEND_FIRST, full},
			  {SIRDMA_BTH_READ_REQUEST, reth(va, stag, 4)}}},
			{"short first", {{SIRDMA_BTH_SEND_FIRST, part}}},
			{"long only", {{SIRDMA_BTH_SEND_ONLY, std::vector<u8>(mtu + 4)}}},
			{"empty last", {{SIRDMA_BTH_SEND_FIRST, full}, {SIRDMA_BTH_SEND_LAST, {}}}},
			{"short middle",
			 {{SIRDMA_BTH_SEND_FIRST, full}, {SIRDMA_BTH_SEND_MIDDLE, word}}},
			{"invalidate without first",
			 {{SIRDMA_BTH_SEND_LAST_INV, cat(be(stag, 4), part)}}},
			{"invalidate in a message",
			 {{SIRDMA_BTH_SEND_FIRST, full},
			  {SIRDMA_BTH_SEND_ONLY_INV, cat(be(stag, 4), part)}}},
			{"invalidate after a write",
			 {{SIRDMA_BTH_WRITE_FIRST, cat(w, full)},
			  {SIRDMA_BTH_SEND_LAST_INV, cat(be(stag, 4), part)}}},
			{"write longer than its RETH",
			 {{SIRDMA_BTH_WRITE_ONLY, cat(reth(va, stag, 96), part)}}},
			{"write shorter than its RETH",
			 {{SIRDMA_BTH_WRITE_ONLY, cat(reth(va, stag, 104), part)}}},
			{"write ends early",
			 {{SIRDMA_BTH_WRITE_FIRST, cat(w, full)}, {SIRDMA_BTH_WRITE_LAST, part}}},
			{"write does not end",
			 {{SIRDMA_BTH_WRITE_FIRST, cat(w, full)},
			  {SIRDMA_BTH_WRITE_MIDDLE, full},
			  {SIRDMA_BTH_WRITE_MIDDLE, full}}},
			{"huge write",
			 {{SIRDMA_BTH_WRITE_FIRST, cat(reth(va, stag, 0x80000001), full)}}},
			{"huge read", {{SIRDMA_BTH_READ_REQUEST, reth(va, stag, 0xffffffff)}}},
			{"misaligned atomic",
			 {{SIRDMA_BTH_FETCH_ADD, cat(cat(be(va + 4, 8), be(stag, 4)), be(0, 16))}}},
			{"atomic in a message",
			 {{SIRDMA_BTH_SEND_FIRST, full},
			  {SIRDMA_BTH_CMP_SWAP, cat(cat(be(va, 8), be(stag, 4)), be(0, 16))}}},
			{"flush", {{SIRDMA_BTH_FLUSH, std::vector<u8>(20)}}},
			{"atomic write", {{SIRDMA_BTH_ATOMIC_WRITE, std::vector<u8>(24)}}},
		};
	}
	void inject(Node &from, Node &to, const std::vector<u8> &transport)
	{
		fabric.inject(frame(from, to, transport).bytes);
		settle(100'000);
	}
	// The packet counts as @why, and the link works on.
	void rejected(Link &l, const std::vector<u8> &transport, sirdma_stat why)
	{
		u64 before = b.stat(why);
		inject(a, b, transport);
		EXPECT_EQ(b.stat(why), before + 1);
		works(l);
	}
	void works(Link &l)
	{
		l.b.recv({b.sge(0, 64)});
		l.a.post({.sges = {a.sge(0, 64)}});
		expect_ok(wait_send(l.a), SIRDMA_OP_SEND);
		EXPECT_FALSE(wait_recv(l.b).error);
		EXPECT_TRUE(silent(l.a));
		EXPECT_TRUE(silent(l.b));
	}
	u32 next_psn(Qp &qp)
	{
		EXPECT_EQ(qp.upload(), SIRDMA_CQP_OK);
		return qp.context()->rq_psn;
	}
};

// What a host asks before it sums an ICRC.
TEST_F(Packets, QueuePairsThatAreNotThereAreCountedWithoutALookAtTheRest)
{
	auto l = link();
	auto has_qp = [&](u32 qpn) {
		std::vector<u8> bytes = bth(SIRDMA_BTH_SEND_ONLY, qpn, 0);
		snic_seg seg = {bytes.data(), static_cast<u32>(bytes.size())};
		snic_rx_pkt rx{};

		rx.segs = &seg;
		rx.nsegs = 1;
		rx.len = seg.len;
		return snic_rx_has_qp(b.host.dev(), &rx);
	};
	u64 before = b.host.stat(SIRDMA_STAT_RX_NO_QP);

	EXPECT_TRUE(has_qp(l->b.id));
	EXPECT_EQ(b.host.stat(SIRDMA_STAT_RX_NO_QP), before);
	for (u32 qpn : {0u, 1u, l->b.id + 1, 0xfffffeu})
		EXPECT_FALSE(has_qp(qpn));
	EXPECT_EQ(b.host.stat(SIRDMA_STAT_RX_NO_QP), before + 4);
	// A multicast group's number, and no group here.
	before = b.host.stat(SIRDMA_STAT_RX_NO_GROUP);
	EXPECT_FALSE(has_qp(0xffffff));
	EXPECT_EQ(b.host.stat(SIRDMA_STAT_RX_NO_GROUP), before + 1);
}

// A host that says so of anything but payload is not believed.
TEST_F(Packets, SuperPacketsArePayload)
{
	std::vector<u8> bytes = cat(bth(SIRDMA_BTH_ATOMIC_ACK, 5, 0), be(0x1f000000, 12));
	enum sirdma_stat why;
	snic_rx_pkt rx{};
	snic_pkt pkt;

	bytes.resize(bytes.size() + SIRDMA_ICRC_LEN);
	snic_seg seg = {bytes.data(), static_cast<u32>(bytes.size())};
	rx.segs = &seg;
	rx.nsegs = 1;
	rx.len = seg.len;
	rx.icrc_ok = true;
	rx.npkts = 1;
	EXPECT_TRUE(snic_pkt_parse(&rx, &pkt, &why));
	rx.npkts = 64;
	EXPECT_FALSE(snic_pkt_parse(&rx, &pkt, &why));
	EXPECT_EQ(why, SIRDMA_STAT_RX_BAD_LENGTH);
}

TEST_F(Packets, MalformedOnesAreCountedAndDropped)
{
	auto l = link();
	u32 q = l->b.id;
	auto psn = [&] { return next_psn(l->b); };

	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, q, psn(), 0x41), SIRDMA_STAT_RX_BAD_HEADER);
	// Reserved opcodes: it is the queue pair that refuses them.
	for (u8 op : {0x15, 0x18, 0x1b, 0x1e, 0x1f, 0x60, 0x80, 0xe4, 0xff}) {
		rejected(*l, bth(op, q, psn()), SIRDMA_STAT_RX_BAD_OPCODE);
		rejected(*l, bth(op, 0xfffffe, psn()), SIRDMA_STAT_RX_NO_QP);
	}
	// Nobody asked for it.
	rejected(*l, cat(bth(SIRDMA_BTH_ATOMIC_ACK, q, psn()), be(0x1f000000, 12)),
		 SIRDMA_STAT_RX_STALE_ACK);
	// Without all of its header, and with payload.
	rejected(*l, cat(bth(SIRDMA_BTH_FETCH_ADD, q, psn()), be(0, 24)),
		 SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, cat(bth(SIRDMA_BTH_CMP_SWAP, q, psn()), be(0, 32)), SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, bth(SIRDMA_BTH_WRITE_ONLY, q, psn()), SIRDMA_STAT_RX_BAD_LENGTH);
	for (u8 op : {SIRDMA_BTH_SEND_LAST_INV, SIRDMA_BTH_SEND_ONLY_INV})
		rejected(*l, bth(op, q, psn()), SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, cat(bth(SIRDMA_BTH_READ_REQUEST, q, psn()), be(0, 12)),
		 SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, bth(SIRDMA_BTH_ACK, q, psn()), SIRDMA_STAT_RX_BAD_LENGTH);
	// Pad without payload, a payload that is no whole number of words, payload on a READ request.
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, q, psn(), 0x70), SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, cat(bth(SIRDMA_BTH_SEND_ONLY, q, psn()), be(0, 3)), SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l,
		 cat(cat(bth(SIRDMA_BTH_READ_REQUEST, q, psn()), reth(b.va(), b.mr.stag(), 4)),
		     be(0, 4)),
		 SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, 1, psn()), SIRDMA_STAT_RX_NO_QP);
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, 0xfffffe, psn()), SIRDMA_STAT_RX_NO_QP);
	// The number of multicast, at an address of one host.
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, 0xffffff, psn()), SIRDMA_STAT_RX_BAD_GID);
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, q, psn(), 0x40, 0x8001), SIRDMA_STAT_RX_BAD_PKEY);
	rejected(*l, bth(SIRDMA_BTH_SEND_ONLY, q, psn(), 0x40, 0), SIRDMA_STAT_RX_BAD_PKEY);
	for (size_t len = 0; len < 12; len++)
		rejected(*l, std::vector<u8>(len), SIRDMA_STAT_RX_BAD_LENGTH);
}

// Congestion notifications: a reliable queue pair takes those of its peer, and shrinks its window once for what is in flight.
TEST_F(Packets, CongestionNotificationsAreTakenFromThePeer)
{
	constexpr u8 op = SIRDMA_BTH_CNP | SIRDMA_BTH_CNP_OPERATION;
	QpOptions o;

	o.traffic_class = 2; // ECN-capable

	auto l = link(o);
	const u32 before = cwnd_of(l->b);

	EXPECT_EQ(snic_opcode_hdr_len(op), 12 + 16);
	rejected(*l, cat(bth(op, l->b.id, 0), be(0, 12)), SIRDMA_STAT_RX_BAD_LENGTH);
	rejected(*l, cat(bth(op, 0xfffff0, 0), be(0, 16)), SIRDMA_STAT_RX_NO_QP);
	rejected(*l, cat(bth(op, l->b.id, 0, 0x40, 0x8001), be(0, 16)), SIRDMA_STAT_RX_BAD_PKEY);
	rejected(*l, cat(bth(op + 1, l->b.id, 0), be(0, 16)), SIRDMA_STAT_RX_BAD_OPCODE);
	rejected(*l, cat(bth(op, l->b.id, 0), be(0, 20)), SIRDMA_STAT_RX_BAD_OPCODE);
	EXPECT_EQ(cwnd_of(l->b), before);
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_RCVD), 0u);
	for (u32 i = 0; i < 10; i++)
		inject(a, b, cat(bth(op, l->b.id, i), be(0, 16)));
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_RCVD), 10u);
	EXPECT_EQ(cwnd_of(l->b), before / 2) << "the others are of the same congestion";
	EXPECT_EQ(b.stat(SIRDMA_STAT_TX_PKTS), 5u) << "the acknowledgements of the messages above "
						      "alone";
	works(*l);

	Node c(fabric, 3, false);
	const u64 strangers = b.stat(SIRDMA_STAT_RX_BAD_GID);

	inject(c, b, cat(bth(op, l->b.id, 0), be(0, 16)));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_GID), strangers + 1);

	o.type = SIRDMA_QPT_UC;
	o.timeout = 0;

	auto unreliable = link(o);

	rejected(*unreliable, cat(bth(op, unreliable->b.id, 0), be(0, 16)),
		 SIRDMA_STAT_RX_BAD_OPCODE);
}

// Other transports are known by their opcodes, and by the length of their headers.
TEST_F(Packets, OpcodesOfOtherTransportsAreRefusedByTheQpTheyMeet)
{
	auto l = link();
	const struct {
		u8 opcode;
		int own; // bytes of the transport's own headers
		int extended; // and of those of the operation
	} others[] = {
		{SIRDMA_BTH_UC | SIRDMA_BTH_SEND_ONLY, 0, 0},
		{SIRDMA_BTH_UC | SIRDMA_BTH_WRITE_ONLY_IMM, 0, 20},
		{SIRDMA_BTH_RD | SIRDMA_BTH_SEND_ONLY, 12, 0},
		{SIRDMA_BTH_RD | SIRDMA_BTH_ACK, 4, 4},
		{SIRDMA_BTH_RD | SIRDMA_BTH_RESYNC, 12, 0},
		{SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY, 8, 0},
		{SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY_IMM, 8, 4},
		{SIRDMA_BTH_XRC | SIRDMA_BTH_SEND_FIRST, 4, 0},
		{SIRDMA_BTH_XRC | SIRDMA_BTH_READ_RESP_MIDDLE, 0, 0},
		{SIRDMA_BTH_XRC | SIRDMA_BTH_CMP_SWAP, 4, 28},
	};

	for (const auto &other : others) {
		SCOPED_TRACE(::testing::Message() << "opcode " << int{other.opcode});
		const int len = other.own + other.extended;

		EXPECT_EQ(snic_opcode_hdr_len(other.opcode), 12 + len);
		rejected(*l, cat(bth(other.opcode, l->b.id, next_psn(l->b)), be(0, len)),
			 SIRDMA_STAT_RX_BAD_OPCODE);
		if (len)
			rejected(*l,
				 cat(bth(other.opcode, l->b.id, next_psn(l->b)), be(0, len - 4)),
				 SIRDMA_STAT_RX_BAD_LENGTH);
		// Nobody has such a queue pair.
		rejected(*l, cat(bth(other.opcode, 0xfffff0, 0), be(0, len)), SIRDMA_STAT_RX_NO_QP);
	}
}

TEST_F(Packets, LimitedMembersTalkToFullOnes)
{
	QpOptions full, limited;
	limited.pkey = 0x7fff;
	Link l(a, b, full, limited);
	works(l);
	Link both(a, b, limited, limited);
	u64 before = b.stat(SIRDMA_STAT_RX_BAD_PKEY);
	both.a.post({.sges = {a.sge(0, 4)}});
	settle();
	EXPECT_GT(b.stat(SIRDMA_STAT_RX_BAD_PKEY), before);
}

TEST_F(Packets, StrangersAreNotHeard)
{
	auto l = link();
	Node c(fabric, 3, false);
	u64 before = b.stat(SIRDMA_STAT_RX_BAD_GID);
	l->b.recv({b.sge(0, 64)});
	inject(c, b, bth(SIRDMA_BTH_SEND_ONLY, l->b.id, next_psn(l->b)));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_GID), before + 1);
	EXPECT_TRUE(silent(l->b));
}

// Two VLANs may have the same addresses, and their hosts nothing to do with each other.
TEST_F(Packets, OtherVlansAreNotHeard)
{
	for (Node *n : {&a, &b})
		ASSERT_EQ(n->drv.set_sgid(0, n->ip, n->mac().data(), true, 7), SIRDMA_CQP_OK);
	auto l = link();
	works(*l);
	u64 before = b.stat(SIRDMA_STAT_RX_BAD_GID);
	for (bool tagged : {true, false}) {
		fabric.set_filter([tagged](TestHost &, Packet &pkt) {
			EXPECT_EQ(pkt.ip, 18u);
			pkt.bytes[15] = 8;
			if (!tagged) {
				pkt.bytes.erase(pkt.bytes.begin() + 12, pkt.bytes.begin() + 16);
				pkt.ip -= 4;
				pkt.bth -= 4;
			}
			return Fabric::Verdict::pass;
		});
		l->b.recv({b.sge(0, 64)});
		l->a.post({.sges = {a.sge(0, 64)}});
		settle(100'000);
		EXPECT_TRUE(silent(l->b));
		EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_GID), ++before);
		fabric.set_filter(nullptr);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_FALSE(wait_recv(l->b).error);
	}
}

TEST_F(Packets, StateDecidesWhoIsHeard)
{
	QpOptions o;
	Qp qb(b, o);
	u64 before = b.stat(SIRDMA_STAT_RX_BAD_STATE);
	inject(a, b, bth(SIRDMA_BTH_SEND_ONLY, qb.id, 0));
	qb.to_init();
	inject(a, b, bth(SIRDMA_BTH_SEND_ONLY, qb.id, 0));
	qb.to_rtr(a, 2, 0);
	inject(a, b, cat(bth(SIRDMA_BTH_ACK, qb.id, 0), be(0x1f000000, 4)));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_STATE), before + 3);
	qb.recv({b.sge(0, 64)});
	inject(a, b, bth(SIRDMA_BTH_SEND_ONLY, qb.id, 0));
	EXPECT_TRUE(qb.poll(false)) << "RTR receives";
	qb.error();
	inject(a, b, bth(SIRDMA_BTH_SEND_ONLY, qb.id, 1));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_STATE), before + 4);
}

TEST_F(Packets, StaleAcknowledgementsAreIgnored)
{
	auto l = link();
	works(*l);
	u32 sent = l->a.opts.a_psn + 1; // next PSN of a
	u64 stale = a.stat(SIRDMA_STAT_RX_STALE_ACK);
	u32 n = 0;
	auto answer = [&](u8 op, u32 psn, u32 aeth, std::vector<u8> payload = {}) {
		auto t = cat(bth(op, l->a.id, psn), be(aeth, 4));
		inject(b, a, cat(t, payload));
		n++;
	};
	// Nothing is in flight: no answer can be right.
	for (u32 psn : {sent - 2, sent - 1, sent, sent + 1, sent + 0x400000, sent - 0x400000}) {
		answer(SIRDMA_BTH_ACK, psn & 0xffffff, 0x1f000001);
		answer(SIRDMA_BTH_ACK, psn & 0xffffff, 0x60000001);
		answer(SIRDMA_BTH_ACK, psn & 0xffffff, 0x63000001);
		answer(SIRDMA_BTH_ACK, psn & 0xffffff, 0x21000001);
		answer(SIRDMA_BTH_READ_RESP_ONLY, psn & 0xffffff, 0x1f000001, be(0, 8));
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_RX_STALE_ACK) - stale, n);
	works(*l);
	// In flight: PSNs beyond what was sent are stale, too.
	bool block = true;
	fabric.set_filter([&](TestHost &, Packet &) {
		return block ? Fabric::Verdict::drop : Fabric::Verdict::pass;
	});
	sent++;
	l->b.recv({b.sge(0, 64)});
	l->a.post({.sges = {a.sge(0, 64)}});
	answer(SIRDMA_BTH_ACK, sent + 1, 0x1f000001);
	answer(SIRDMA_BTH_ACK, sent - 1, 0x1f000001);
	EXPECT_FALSE(l->a.poll(true));
	// A READ response to a SEND is nonsense.
	answer(SIRDMA_BTH_READ_RESP_ONLY, sent, 0x1f000001, be(0, 8));
	EXPECT_FALSE(l->a.poll(true));
	block = false;
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
}

TEST_F(Packets, ProtocolViolationsAreInvalidRequests)
{
	for (const Violation &c : violations(b.va(), b.mr.stag())) {
		SCOPED_TRACE(c.what);
		auto l = link();
		for (int i = 0; i < 4; i++)
			l->b.recv({b.sge(1 << 20, 1 << 16)});
		u64 naks = b.stat(SIRDMA_STAT_NAK_INV_REQ_SENT);
		u32 psn = l->b.opts.a_psn;
		for (auto &[op, rest] : c.packets)
			inject(a, b, cat(bth(op, l->b.id, psn++), rest));
		EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_INV_REQ_SENT), naks + 1);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		bool told = false;
		while (auto e = b.drv.next_aeqe())
			told |= e->code == SIRDMA_AE_IB_INVALID_REQUEST && e->id == l->b.id;
		EXPECT_TRUE(told);
	}
}

TEST_F(Packets, DuplicateReadIsAnsweredFromTheRequestedPlace)
{
	auto l = link();
	b.mem->fill(31);
	u32 psn = l->b.opts.a_psn;
	fabric.record(true);
	auto responses = [&](u32 at, u64 va, u32 len) {
		fabric.sent().clear();
		inject(a, b,
		       cat(bth(SIRDMA_BTH_READ_REQUEST, l->b.id, at), reth(va, b.mr.stag(), len)));
		std::vector<std::pair<u8, u32>> out;
		for (auto &p : fabric.sent())
			out.push_back({p.opcode(), p.psn()});
		return out;
	};
	using R = std::vector<std::pair<u8, u32>>;
	R all = {{SIRDMA_BTH_READ_RESP_FIRST, psn},
		 {SIRDMA_BTH_READ_RESP_MIDDLE, psn + 1},
		 {SIRDMA_BTH_READ_RESP_MIDDLE, psn + 2},
		 {SIRDMA_BTH_READ_RESP_LAST, psn + 3}};
	EXPECT_EQ(responses(psn, b.va(), 4000), all);
	EXPECT_EQ(responses(psn, b.va(), 4000), all);
	EXPECT_EQ(responses(psn + 2, b.va(2048), 4000 - 2048),
		  (R{{SIRDMA_BTH_READ_RESP_FIRST, psn + 2}, {SIRDMA_BTH_READ_RESP_LAST, psn + 3}}));
	EXPECT_EQ(responses(psn + 3, b.va(3072), 928), (R{{SIRDMA_BTH_READ_RESP_ONLY, psn + 3}}));
	// Not part of what was asked before: no answer.
	EXPECT_EQ(responses(psn + 1, b.va(0), 4000), R{});
	EXPECT_EQ(responses(psn + 1, b.va(1024), 4000), R{});
	EXPECT_EQ(responses(psn - 1, b.va(0), 4), R{});
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	// Asked for in parts that arrive together: each is answered as the request it is.
	fabric.sent().clear();
	for (u32 at : {1u, 2u, 3u})
		fabric.inject(frame(a, b,
				    cat(bth(SIRDMA_BTH_READ_REQUEST, l->b.id, psn + at),
					reth(b.va(1024 * at), b.mr.stag(), at == 3 ? 928 : 1024)))
				      .bytes);
	settle(100'000);
	R parts;
	for (auto &p : fabric.sent())
		parts.push_back({p.opcode(), p.psn()});
	EXPECT_EQ(parts, (R{{SIRDMA_BTH_READ_RESP_ONLY, psn + 1},
			    {SIRDMA_BTH_READ_RESP_ONLY, psn + 2},
			    {SIRDMA_BTH_READ_RESP_ONLY, psn + 3}}));
	// The next request goes on behind the READ.
	EXPECT_EQ(responses(psn + 4, b.va(), 8), (R{{SIRDMA_BTH_READ_RESP_ONLY, psn + 4}}));
}

} // namespace
