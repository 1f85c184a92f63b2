// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Packets that a switch has marked: who receives one notifies the sender, and the sender's window shrinks.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr u8 ect = 2;
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
	ip[1] |= 3;
	seal_ipv4(ip);
}

class Marked : public Transport, public ::testing::WithParamInterface<bool> {
protected:
	Marked() : Transport(3, GetParam())
	{
		fabric.record(true);
		fabric.set_filter([this](TestHost &from, Packet &pkt) {
			if (marked_sender == &from && (!only || pkt.opcode() == *only)) {
				marked++;
				mark(pkt);
			}
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
	std::vector<Packet> notifications()
	{
		std::vector<Packet> found;

		for (const Packet &pkt : fabric.sent())
			if (pkt.opcode() == cnp)
				found.push_back(pkt);
		return found;
	}

	std::unique_ptr<Link> link(u8 type = SIRDMA_QPT_RC, u8 traffic_class = ect)
	{
		QpOptions o;

		o.type = type;
		o.traffic_class = traffic_class;
		if (type == SIRDMA_QPT_UC)
			o.timeout = 0;
		return Transport::link(o);
	}

	TestHost *marked_sender = nullptr;
	std::optional<u8> only; // Only its packets with this opcode are marked.
	u64 marked = 0;
};

INSTANTIATE_TEST_SUITE_P(Ip, Marked, ::testing::Bool(),
			 [](const auto &p) { return p.param ? "V6" : "V4"; });

} // namespace

TEST_P(Marked, RequestsAreAnsweredByANotification)
{
	auto l = link();
	const u32 before = cwnd_of(l->a);

	marked_sender = &a.host;
	write(*l, 10'000);
	settle();
	EXPECT_GE(marked, 10u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_ECN), marked);
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_SENT), 1u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), 1u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_SENT), 0u);
	EXPECT_LT(cwnd_of(l->a), before);

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

	marked_sender = &a.host;
	for (int i = 0; i < 40; i++)
		write(*l, 64 * 1024);

	const u64 most = (fabric.clock()->now() - begin) / interval + 2,
		  sent = notifications().size();

	EXPECT_GE(sent, 2u);
	EXPECT_LE(sent, most);
	EXPECT_LT(sent, marked / 4);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), sent);
	// The window gets as small as it may, and the queue pair goes on.
	EXPECT_LT(cwnd_of(l->a), cwnd_of(other->a) / 4);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	marked_sender = nullptr;

	const u32 least = cwnd_of(l->a);

	for (int i = 0; i < 10; i++)
		write(*l, 64 * 1024);
	EXPECT_GT(cwnd_of(l->a), least) << "it does not recover";
}

TEST_P(Marked, ResponsesShrinkTheRequestersWindow)
{
	auto l = link();
	const u32 before = cwnd_of(l->a);

	marked_sender = &b.host;
	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(0, 64 * 1024)},
		   .remote = b.va(1 << 20),
		   .rkey = b.mr.stag()});
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	settle();
	EXPECT_EQ(memcmp(a.data(), b.data(1 << 20), 64 * 1024), 0);
	EXPECT_LT(cwnd_of(l->a), before);
	EXPECT_GE(a.stat(SIRDMA_STAT_CNPS_SENT), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_CNPS_RCVD), a.stat(SIRDMA_STAT_CNPS_SENT));
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

// The way of the acknowledgements is congested, not that of the data.
TEST_P(Marked, AcknowledgementsAreOnlyCounted)
{
	auto l = link();
	auto other = link();

	write(*other, 64 * 1024);
	marked_sender = &b.host;
	write(*l, 64 * 1024);
	settle();
	EXPECT_GT(marked, 0u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RX_ECN), marked);
	EXPECT_EQ(cwnd_of(l->a), cwnd_of(other->a));
	EXPECT_EQ(notifications().size(), 0u);
}

// A packet that is not the next one may be anybody's.
TEST_P(Marked, DuplicatesAreOnlyCounted)
{
	auto l = link();

	write(*l, 64);
	fabric.sent().clear();
	write(*l, 64);

	Packet again = fabric.sent().front();

	ASSERT_EQ(again.opcode(), SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY);
	mark(again);
	fabric.inject(again.bytes);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_ECN), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 1u);
	EXPECT_EQ(notifications().size(), 0u);
}

// No switch marks what is not ECN-capable, nor sends a host what is marked already.
TEST_P(Marked, NotificationsNeedACapableSender)
{
	for (const u8 traffic_class : {0, 3, 0xff, 0x68}) {
		auto l = link(SIRDMA_QPT_RC, traffic_class), other = link();
		const u64 refused = a.stat(SIRDMA_STAT_RX_BAD_OPCODE);

		marked_sender = nullptr;
		write(*other, 64 * 1024);
		marked_sender = &a.host;
		write(*l, 64 * 1024);
		settle();
		EXPECT_EQ(cwnd_of(l->a), cwnd_of(other->a));
		EXPECT_GT(a.stat(SIRDMA_STAT_RX_BAD_OPCODE), refused);
		EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), 0u);
	}
}

// Marks after a loss are signs of the same congestion.
TEST_P(Marked, WindowIsReducedOnceForALossAndMarksAfterIt)
{
	auto l = link();
	unsigned writes = 0;

	// A window that is not the least
	for (int i = 0; i < 10; i++)
		write(*l, 64 * 1024);

	const u32 before = cwnd_of(l->a);

	marked_sender = &a.host;
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from != &a.host || pkt.opcode() != (SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_MIDDLE))
			return Fabric::Verdict::pass;
		if (++writes == 1)
			return Fabric::Verdict::drop;
		mark(pkt);
		return Fabric::Verdict::pass;
	});
	write(*l, 32 * 1024);
	settle();
	EXPECT_EQ(a.stat(SIRDMA_STAT_SEQ_NAK_RCVD), 1u);
	EXPECT_GE(a.stat(SIRDMA_STAT_CNPS_RCVD), 1u);
	EXPECT_GE(cwnd_of(l->a), before / 2);
}

// Without acknowledgements nobody has a window.
TEST_P(Marked, UnreliablePacketsAreOnlyCounted)
{
	auto l = link(SIRDMA_QPT_UC);

	marked_sender = &a.host;
	write(*l, 10'000);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_ECN), marked);
	EXPECT_EQ(notifications().size(), 0u);
}

TEST_P(Marked, OnePacketIsEnough)
{
	auto l = link();
	const u32 before = cwnd_of(l->a);

	marked_sender = &a.host;
	only = SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_LAST;
	write(*l, 10'000);
	EXPECT_EQ(a.stat(SIRDMA_STAT_CNPS_RCVD), 1u) << "the last packet of a message counts as "
							"well";
	EXPECT_LT(cwnd_of(l->a), before);
}
