// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Every operation at boundary sizes and path MTUs, data compared.
#include "transport.hpp"

extern "C" {
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

constexpr size_t kArea = 1 << 20; // local and remote halves of a node's region

std::vector<u32> sizes(u32 mtu)
{
	return {0,	 1,	      3,       4,	    mtu - 1, mtu,
		mtu + 1, 2 * mtu - 1, 2 * mtu, 5 * mtu + 3, 65536,   200001};
}

class Sizes : public Transport, public ::testing::WithParamInterface<std::tuple<u32, bool>> {
protected:
	Sizes() : Transport(7, std::get<1>(GetParam())) {}
	u32 mtu() const { return std::get<0>(GetParam()); }
	QpOptions opts() const
	{
		QpOptions o;
		o.mtu = static_cast<u16>(mtu());
		return o;
	}
};

TEST_P(Sizes, SendDeliversData)
{
	auto l = link(opts());

	for (u32 len : sizes(mtu())) {
		SCOPED_TRACE(len);
		a.mem->fill(len + 1);
		b.mem->fill(len + 2);
		u32 ridx = l->b.recv({b.sge(17, len ? len : 1)});
		u32 idx = l->a.post({.sges = {a.sge(3, len)}});
		Wc r = wait_recv(l->b), s = wait_send(l->a);
		expect_ok(s, SIRDMA_OP_SEND);
		EXPECT_EQ(s.idx, idx);
		EXPECT_FALSE(r.error);
		EXPECT_EQ(r.len, len);
		EXPECT_EQ(r.idx, ridx);
		EXPECT_FALSE(r.imm);
		EXPECT_EQ(memcmp(b.data(17), a.data(3), len), 0);
	}
}

TEST_P(Sizes, SendImmCarriesImmediate)
{
	auto l = link(opts());

	for (u32 len : sizes(mtu())) {
		SCOPED_TRACE(len);
		a.mem->fill(len + 3);
		l->b.recv({b.sge(0, 300000)});
		l->a.post({.op = SIRDMA_OP_SEND_SOL, .sges = {a.sge(0, len)}, .imm = 0x12345678});
		Wc r = wait_recv(l->b);
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND_SOL);
		EXPECT_EQ(r.len, len);
		EXPECT_TRUE(r.solicited);
		EXPECT_EQ(r.imm, 0x12345678u);
		EXPECT_EQ(memcmp(b.data(), a.data(), len), 0);
	}
}

TEST_P(Sizes, WritePlacesDataSilently)
{
	auto l = link(opts());

	for (u32 len : sizes(mtu())) {
		SCOPED_TRACE(len);
		a.mem->fill(len + 5);
		b.mem->fill(len + 6);
		std::vector<u8> before(b.data(), b.data() + b.mem->size());
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {a.sge(1, len)},
			   .remote = b.va(kArea + 5),
			   .rkey = b.mr.stag()});
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_FALSE(l->b.poll(false));
		memcpy(before.data() + kArea + 5, a.data(1), len);
		EXPECT_EQ(memcmp(before.data(), b.data(), before.size()), 0);
	}
}

TEST_P(Sizes, WriteImmCompletesAReceive)
{
	auto l = link(opts());

	for (u32 len : sizes(mtu())) {
		SCOPED_TRACE(len);
		a.mem->fill(len + 7);
		u32 ridx = l->b.recv({});
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {a.sge(1, len)},
			   .remote = b.va(kArea),
			   .rkey = b.mr.stag(),
			   .imm = len});
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		Wc r = wait_recv(l->b);
		EXPECT_EQ(r.imm, len);
		EXPECT_EQ(r.idx, ridx);
		EXPECT_EQ(r.len, len);
		EXPECT_TRUE(r.op == SIRDMA_BTH_WRITE_LAST_IMM || r.op == SIRDMA_BTH_WRITE_ONLY_IMM);
		EXPECT_EQ(memcmp(b.data(kArea), a.data(1), len), 0);
	}
}

TEST_P(Sizes, ReadFetchesData)
{
	auto l = link(opts());

	for (u32 len : sizes(mtu())) {
		SCOPED_TRACE(len);
		a.mem->fill(len + 8);
		b.mem->fill(len + 9);
		std::vector<u8> before(a.data(), a.data() + a.mem->size());
		l->a.post({.op = SIRDMA_OP_READ,
			   .sges = {a.sge(9, len)},
			   .remote = b.va(kArea + 1),
			   .rkey = b.mr.stag()});
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		memcpy(before.data() + 9, b.data(kArea + 1), len);
		EXPECT_EQ(memcmp(before.data(), a.data(), before.size()), 0);
	}
}

TEST_P(Sizes, InlineDataIsSent)
{
	auto l = link(opts());

	for (u32 len : {0u, 1u, 7u, 8u, 9u, 38u, 39u, 40u, 70u, 71u, 100u, 101u}) {
		SCOPED_TRACE(len);
		std::vector<u8> bytes(len);
		for (u32 i = 0; i < len; i++)
			bytes[i] = static_cast<u8>(i * 7 + len);
		l->b.recv({b.sge(0, 101)});
		l->a.post({.imm = len, .inl = bytes, .is_inline = true});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(l->b).len, len);
		EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), b.data()));
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .remote = b.va(kArea),
			   .rkey = b.mr.stag(),
			   .inl = bytes,
			   .is_inline = true});
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), b.data(kArea)));
	}
}

INSTANTIATE_TEST_SUITE_P(Mtu, Sizes,
			 ::testing::Combine(::testing::Values(256u, 512u, 1024u, 2048u, 4096u),
					    ::testing::Bool()));

class Basic : public Transport {};

TEST_F(Basic, ScatterGatherOfThirteen)
{
	QpOptions o;
	o.rq_stride_shift = 3;
	auto l = link(o);

	for (u32 n = 1; n <= 13; n++) {
		SCOPED_TRACE(n);
		std::vector<Sge> from, to;
		std::vector<u8> want;
		u32 total = 0;
		a.mem->fill(n);
		for (u32 i = 0; i < n; i++) {
			u32 len = 1 + (i * 977) % 3000;
			from.push_back(a.sge(i * 8192 + i, len));
			want.insert(want.end(), a.data(i * 8192 + i), a.data(i * 8192 + i) + len);
			total += len;
		}
		u32 left = total;
		for (u32 i = 0; i < n; i++) {
			u32 len = i + 1 == n ? left : left / 3;
			to.push_back(b.sge(i * 65536, len));
			left -= len;
		}
		auto check = [&](Node &node) {
			std::vector<u8> got;
			for (auto &s : to) {
				const u8 *p = node.data(s.addr - node.va());
				got.insert(got.end(), p, p + s.len);
			}
			EXPECT_EQ(got, want);
		};
		l->b.recv(to);
		l->a.post({.sges = from, .imm = n});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
		EXPECT_EQ(wait_recv(l->b).len, total);
		check(b);
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = from,
			   .remote = b.va(kArea),
			   .rkey = b.mr.stag()});
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		EXPECT_EQ(memcmp(b.data(kArea), want.data(), total), 0);
		for (auto &s : to)
			memset(reinterpret_cast<u8 *>(s.addr), 0, s.len);
		l->b.post(
			{.op = SIRDMA_OP_READ, .sges = to, .remote = a.va(), .rkey = a.mr.stag()});
		want.assign(a.data(), a.data() + total);
		expect_ok(wait_send(l->b), SIRDMA_OP_READ);
		check(b);
	}
}

TEST_F(Basic, ManyMessagesWrapRingsAndPsn)
{
	QpOptions o;
	o.a_psn = 0xffffc0;
	o.sq_quanta = 512;
	o.rq_wqes = 32;
	auto l = link(o);
	u32 posted = 0, sent = 0, received = 0;

	for (u32 i = 0; i < 16; i++)
		l->b.recv({b.sge(i * 4096, 4096)});
	fabric.run_until(
		[&] {
			while (posted < 3000 && posted - sent < 100) {
				u32 len = (posted * 131) % 3000;
				l->a.post({.sges = {a.sge(posted % 5000, len)}, .imm = posted});
				posted++;
			}
			while (auto wc = l->a.poll(true)) {
				EXPECT_FALSE(wc->error);
				sent++;
			}
			while (auto wc = l->b.poll(false)) {
				EXPECT_EQ(wc->imm, received);
				EXPECT_EQ(wc->len, (received * 131) % 3000);
				EXPECT_EQ(memcmp(b.data(received % 16 * 4096),
						 a.data(received % 5000), wc->len),
					  0);
				l->b.recv({b.sge(received % 16 * 4096, 4096)});
				received++;
			}
			return sent == 3000;
		},
		60'000'000'000ull);
	EXPECT_EQ(sent, 3000u);
	EXPECT_EQ(received, 3000u);
	EXPECT_EQ(l->a.upload(), SIRDMA_CQP_OK);
	u32 expect_psn = 0xffffc0;
	for (u32 i = 0; i < 3000; i++) {
		u32 len = (i * 131) % 3000;
		expect_psn += len ? (len + 1023) / 1024 : 1;
	}
	EXPECT_EQ(l->a.context()->sq_psn, expect_psn & 0xffffff);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

TEST_F(Basic, NothingIsFetchedWithoutRoomAndItIsAskedForOnce)
{
	auto l = link();

	l->b.recv({b.sge(0, 65536)});
	a.host.set_room(false);
	l->a.post({.sges = {a.sge(0, 100)}});
	l->a.kick(true);
	l->a.kick(true);
	settle(50'000'000);
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_TX_PKTS), 0u);
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	// The message is still the poster's to write: nobody has read it.
	a.data(0)[0] ^= 0xff;
	EXPECT_EQ(a.host.set_room(true), std::vector<u32>{l->a.id});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_FALSE(wait_recv(l->b).error);
	EXPECT_EQ(b.data(0)[0], a.data(0)[0]);
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_TX_STALLS), 1u);

	// Answers ask as well.
	b.host.set_room(false);
	l->a.post({.op = SIRDMA_OP_READ,
		   .sges = {a.sge(4096, 100)},
		   .remote = b.va(0),
		   .rkey = b.mr.stag()});
	settle(1'000'000);
	EXPECT_FALSE(l->a.poll(true));
	EXPECT_EQ(b.host.set_room(true), std::vector<u32>{l->b.id});
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

TEST_F(Basic, WhoHasNothingToSendDoesNotWaitForRoom)
{
	auto l = link();

	a.host.set_room(false);
	l->a.kick(true);
	l->a.post({.op = SIRDMA_OP_NOP});
	expect_ok(wait_send(l->a), SIRDMA_OP_NOP);
	EXPECT_EQ(a.host.set_room(true), std::vector<u32>{});

	// Nor does one whose window is full.
	fabric.set_filter([](TestHost &, Packet &) { return Fabric::Verdict::drop; });
	l->a.post({.op = SIRDMA_OP_WRITE,
		   .sges = {a.sge(0, 1 << 20)},
		   .remote = b.va(0),
		   .rkey = b.mr.stag()});
	settle(100'000);
	EXPECT_GT(a.host.stat(SIRDMA_STAT_TX_PKTS), 0u);
	a.host.set_room(false);
	l->a.kick(true);
	EXPECT_EQ(a.host.set_room(true), std::vector<u32>{});
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_TX_STALLS), 0u);
	fabric.set_filter(nullptr);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// Its peer's timer runs, and it is small.
TEST_F(Basic, AnAcknowledgementDoesNotWaitInLine)
{
	auto l = link();

	l->b.recv({b.sge(0, 100)});
	b.host.set_room(false);
	l->a.post({.sges = {a.sge(0, 100)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(b.host.stat(SIRDMA_STAT_TX_STALLS), 0u);
}

TEST_F(Basic, AnAcknowledgementDoesNotWaitForDataOfItsQueuePair)
{
	auto l = link();

	l->a.recv({a.sge(4096, 100)});
	l->b.recv({b.sge(0, 100)});
	b.host.set_room(false);
	l->b.post({.sges = {b.sge(4096, 100)}});
	l->b.kick(true);
	EXPECT_EQ(b.host.stat(SIRDMA_STAT_TX_STALLS), 1u);
	l->a.post({.sges = {a.sge(0, 100)}});
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(a.host.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
	EXPECT_EQ(b.host.set_room(true), std::vector<u32>{l->b.id});
	expect_ok(wait_send(l->b), SIRDMA_OP_SEND);
}

TEST_F(Basic, AcknowledgementsCoalesce)
{
	auto l = link();

	for (int i = 0; i < 60; i++)
		l->b.recv({b.sge(0, 64)});
	for (int i = 0; i < 60; i++)
		l->a.place({.sges = {a.sge(0, 64)}, .signaled = i == 59});
	l->a.kick(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_LE(b.stat(SIRDMA_STAT_ACKS_SENT), 8u);
	EXPECT_FALSE(l->a.poll(true)); // unsignaled ones stay silent
}

TEST_F(Basic, TwoWayTrafficOfAllKinds)
{
	auto l = link();
	u32 done = 0;

	for (u32 i = 0; i < 20; i++) {
		l->a.recv({a.sge(2 * kArea, 8192)});
		l->b.recv({b.sge(2 * kArea, 8192)});
		for (Qp *qp : {&l->a, &l->b}) {
			Node &peer = qp == &l->a ? b : a;
			qp->post({.sges = {qp->node.sge(0, 5000)}});
			qp->post({.op = SIRDMA_OP_WRITE,
				  .sges = {qp->node.sge(0, 9000)},
				  .remote = peer.va(kArea),
				  .rkey = peer.mr.stag()});
			qp->post({.op = SIRDMA_OP_READ,
				  .sges = {qp->node.sge(3 * kArea, 70000)},
				  .remote = peer.va(0),
				  .rkey = peer.mr.stag()});
		}
		for (int n = 0; n < 3; n++) {
			EXPECT_FALSE(wait_send(l->a).error);
			EXPECT_FALSE(wait_send(l->b).error);
			done++;
		}
		EXPECT_EQ(memcmp(a.data(3 * kArea), b.data(0), 70000), 0);
		EXPECT_EQ(memcmp(b.data(3 * kArea), a.data(0), 70000), 0);
	}
	EXPECT_EQ(done, 60u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS) + b.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

// As they cross the wire, from the Ethernet header to the ICRC. Those of a super-packet, too.
class ByteCounters : public Transport,
		     public ::testing::WithParamInterface<std::tuple<bool, bool>> {
protected:
	ByteCounters() : Transport(5, std::get<0>(GetParam())) {}
};

TEST_P(ByteCounters, CountFrames)
{
	auto l = link();

	fabric.faults().merge = std::get<1>(GetParam()) ? 1 : 0;
	fabric.record(true);
	for (u32 len : {0u, 1u, 1024u, 1025u, 4096u, 70001u}) {
		l->b.recv({b.sge(2 * kArea, 100000)});
		l->b.recv({b.sge(2 * kArea, 100000)});
		l->a.post({.op = SIRDMA_OP_SEND_SOL, .sges = {a.sge(0, len)}, .imm = 7});
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {a.sge(0, len)},
			   .remote = b.va(kArea),
			   .rkey = b.mr.stag(),
			   .imm = 9});
		l->a.post({.op = SIRDMA_OP_READ,
			   .sges = {a.sge(3 * kArea, len)},
			   .remote = b.va(0),
			   .rkey = b.mr.stag()});
		for (int n = 0; n < 3; n++)
			EXPECT_FALSE(wait_send(l->a).error);
	}
	settle();

	u64 from_a = 0, from_b = 0, packets = 0;
	for (const Packet &pkt : fabric.sent()) {
		(memcmp(pkt.src_ip().b, a.ip.b, sizeof(a.ip.b)) ? from_b : from_a) +=
			pkt.bytes.size();
		packets++;
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_TX_PKTS) + b.stat(SIRDMA_STAT_TX_PKTS), packets);
	EXPECT_EQ(a.stat(SIRDMA_STAT_TX_BYTES), from_a);
	EXPECT_EQ(b.stat(SIRDMA_STAT_TX_BYTES), from_b);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BYTES), from_a);
	EXPECT_EQ(a.stat(SIRDMA_STAT_RX_BYTES), from_b);
}

INSTANTIATE_TEST_SUITE_P(Basic, ByteCounters,
			 ::testing::Combine(::testing::Bool(), ::testing::Bool()),
			 [](const auto &info) {
				 return std::string(std::get<0>(info.param) ? "V6" : "V4") +
					(std::get<1>(info.param) ? "Merged" : "");
			 });

TEST_F(Basic, MoreSignaledNopsThanTheDeviceKeepsMessages)
{
	auto l = link({.sq_quanta = 1024});

	for (u32 i = 0; i < 3 * SNIC_OUT_MSGS; i++)
		l->a.place({.op = SIRDMA_OP_NOP});
	l->a.kick();
	for (u32 i = 0; i < 3 * SNIC_OUT_MSGS; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_NOP);
}

TEST_F(Basic, SleepingDeviceIsKickedAndAwakeOneIsNot)
{
	auto l = link();

	EXPECT_EQ(l->a.area()->need_kick, 1u);
	for (int i = 0; i < 32; i++)
		l->b.recv({b.sge(0, 64)});
	u64 kicks = a.stat(SIRDMA_STAT_KICKS);
	for (int i = 0; i < 32; i++)
		l->a.post({.sges = {a.sge(0, 64)}});
	EXPECT_EQ(l->a.area()->need_kick, 0u); // enough in flight: answers wake it
	EXPECT_EQ(a.stat(SIRDMA_STAT_KICKS) - kicks, 8u);
	for (int i = 0; i < 32; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(l->a.area()->need_kick, 1u);
	EXPECT_EQ(l->a.area()->sq_tail, 32u);
}

TEST_F(Basic, QueuePairIsSmall)
{
	EXPECT_LE(sizeof(snic_qp), 4096u);
}

} // namespace
