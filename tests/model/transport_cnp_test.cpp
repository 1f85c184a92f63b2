// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Packets that a switch has marked: who receives one notifies the sender, and the sender's window shrinks.
#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr u8 cnp = SIRDMA_BTH_CNP | SIRDMA_BTH_CNP_OPERATION;
constexpr u64 interval = 1 << 16; // ns in which a queue pair sends one

// Set both bits (congestion experienced), as a router does.
void mark(Packet &pkt)
{
	u8 *const ip = pkt.bytes.data() + pkt.ip;

	if (!pkt.is_v4) {
		ip[1] = static_cast<u8>(ip[1] | 0x30);
		return;
	}

	u32 sum = 0;

	ip[1] |= 3;
	ip[10] = ip[11] = 0;
	for (size_t i = 0; i < 20; i += 2)
		sum += static_cast<u32>(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~(sum + (sum >> 16));
	ip[10] = static_cast<u8>(sum >> 8);
	ip[11] = static_cast<u8>(sum);
}

class Marked : public Transport, public ::testing::WithParamInterface<bool> {
protected:
	Marked() : Transport(3, GetParam())
	{
		fabric.record(true);
		fabric.set_filter([this](TestHost &from, Packet &pkt) {
			if (marks == &from && (marked++, true))
				mark(pkt);
			return Fabric::Verdict::pass;
		});
	}
	void write(Link &l, u32 len)
	{
		l.a.post({.op = SIRDMA_OP_WRITE,
			  .sges = {a.sge(0, len)},
			  .remote = b.va(1 << 20),
			  .rkey = b.mr.stag()});
		expect_ok(wait_send(l.a), SIRDMA_OP_WRITE);
		settle(100'000); // An unreliable one is complete when it is sent.
		EXPECT_EQ(memcmp(a.data(), b.data(1 << 20), len), 0);
	}
	// Packets that may be in flight
	static u32 window(Qp &qp)
	{
		snic_qp *const q = snic_qp_get(qp.node.host.dev(), qp.id);
		const u32 cwnd = q->req.cwnd;

		snic_qp_put(q);
		return cwnd;
	}
	std::vector<Packet> notifications()
	{
		std::vector<Packet> found;

		for (const Packet &pkt : fabric.sent())
			if (pkt.opcode() == cnp)
				found.push_back(pkt);
		return found;
	}

	TestHost *marks = nullptr; // whose packets are marked
	u64 marked = 0;
};

INSTANTIATE_TEST_SUITE_P(Ip, Marked, ::testing::Bool(), [](const auto &p) { return p.param ? "V6" : "V4"; });

} // namespace

TEST_P(Marked, RequestsAreAnsweredByANotification)
{
	auto l = link();
	const u32 before = window(l->a);

	marks = &a.host;
	write(*l, 10'000);
	settle();
	EXPECT_GE(marked, 10u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_ECN), marked);
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_SENT), 1u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), 1u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_SENT), 0u);
	EXPECT_LT(window(l->a), before);

	const auto sent = notifications();

	ASSERT_EQ(sent.size(), 1u);

	const Packet &pkt = sent[0];
	const u8 *const bth = pkt.bytes.data() + pkt.bth, *const ip = pkt.bytes.data() + pkt.ip;

	EXPECT_EQ(pkt.transport().size(), 12u + 16u);
	EXPECT_EQ(pkt.qpn(), l->a.id);
	EXPECT_EQ(bth[4], 0x40) << "BECN";
	EXPECT_EQ(pkt.psn(), 0u);
	EXPECT_FALSE(pkt.ack_req());
	for (size_t i = 12; i < 28; i++)
		EXPECT_EQ(bth[i], 0);
	EXPECT_EQ(pkt.is_v4 ? ip[1] & 3 : ip[1] & 0x30, 0) << "it may be marked";
}

// Many marks in a moment are one sign of congestion.
TEST_P(Marked, PacketsAreNotifiedOnceInAnInterval)
{
	auto l = link(), other = link();

	for (int i = 0; i < 40; i++)
		write(*other, 64 * 1024);

	const u64 begin = fabric.clock()->now();

	marks = &a.host;
	for (int i = 0; i < 40; i++)
		write(*l, 64 * 1024);

	const u64 most = (fabric.clock()->now() - begin) / interval + 2, sent = notifications().size();

	EXPECT_GE(sent, 2u);
	EXPECT_LE(sent, most);
	EXPECT_LT(sent, marked / 4);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), sent);
	// The window gets as small as it may, and the queue pair goes on.
	EXPECT_LT(window(l->a), window(other->a) / 4);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	marks = nullptr;

	const u32 least = window(l->a);

	for (int i = 0; i < 10; i++)
		write(*l, 64 * 1024);
	EXPECT_GT(window(l->a), least) << "it does not recover";
}

TEST_P(Marked, AnswersShrinkTheWindowOfWhoAskedForThem)
{
	auto l = link();
	const u32 before = window(l->a);

	marks = &b.host;
	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(0, 64 * 1024)},
		   .remote = b.va(1 << 20),
		   .rkey = b.mr.stag()});
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	settle();
	EXPECT_EQ(memcmp(a.data(), b.data(1 << 20), 64 * 1024), 0);
	EXPECT_LT(window(l->a), before);
	EXPECT_GE(a.stat(SIRDMA_STAT_CNPS_SENT), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_RCVD), a.stat(SIRDMA_STAT_CNPS_SENT));
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

// Without acknowledgements nobody has a window.
TEST_P(Marked, UnreliablePacketsAreOnlyCounted)
{
	QpOptions o;

	o.type = SIRDMA_QPT_UC;
	o.timeout = 0;

	auto l = link(o);

	marks = &a.host;
	write(*l, 10'000);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_ECN), marked);
	EXPECT_EQ(notifications().size(), 0u);
}
