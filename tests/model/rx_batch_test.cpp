// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Packets received in batches: what a batch keeps from packet to packet, and that
// it keeps nothing beyond its end.
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "transport.hpp"

extern "C" {
#include "model/qp.h"
#include "model/stream.h"
}

using namespace sirdma::test;

namespace
{

class RxBatch : public Transport {
protected:
	RxBatch()
	{
		// What a sends is kept, and handed to b by the test.
		fabric.set_filter([this](TestHost &from, Packet &p) {
			if (&from != &a.host)
				return Fabric::Verdict::pass;
			if (taking_)
				taken_.push_back(p);
			return Fabric::Verdict::drop;
		});
	}
	// What the requests of @l.a are made of.
	std::vector<Packet> packets(Link &l)
	{
		taken_.clear();
		taking_ = true;
		l.a.kick(true);
		settle(100'000);
		taking_ = false;
		return taken_;
	}
	// @split: the ICRC is a segment of its own, and the packet is received the long way.
	void next(snic_rx_batch &batch, Packet &p, bool more = false,
		  const std::function<void(snic_rx_pkt &)> &change = {}, bool split = false)
	{
		snic_seg seg = {p.bytes.data() + p.bth, static_cast<u32>(p.bytes.size() - p.bth)};
		std::array<snic_seg, 2> parts;
		snic_rx_pkt rx{};

		rx.src_ip = a.ip;
		rx.dst_ip = b.ip;
		rx.segs = &seg;
		rx.nsegs = 1;
		rx.len = seg.len;
		rx.is_v4 = true;
		rx.icrc_ok = true;
		rx.more = more;
		if (split && seg.len >= SNIC_RX_MIN_LINEAR + SIRDMA_ICRC_LEN) {
			parts[0] = {seg.ptr, seg.len - SIRDMA_ICRC_LEN};
			parts[1] = {static_cast<u8 *>(seg.ptr) + parts[0].len, SIRDMA_ICRC_LEN};
			rx.segs = parts.data();
			rx.nsegs = 2;
		}
		if (change)
			change(rx);
		snic_rx_batch_add(&batch, &rx);
	}
	Wr write(u64 to, u32 len)
	{
		return {.op = SIRDMA_OP_WRITE,
			.sges = {a.sge(to, len)},
			.remote = b.va(to),
			.rkey = b.mr.stag()};
	}

private:
	bool taking_ = false;
	std::vector<Packet> taken_;
};

TEST_F(RxBatch, TakesPacketsOfSeveralQueuePairs)
{
	auto l = link(), other = link();
	u64 before = b.stat(SIRDMA_STAT_RX_PKTS);

	for (u32 i = 0; i < 40; i++)
		l->a.place(write(i * 100, 100));
	auto mine = packets(*l);
	for (u32 i = 40; i < 80; i++)
		other->a.place(write(i * 100, 100));
	auto theirs = packets(*other);
	ASSERT_EQ(mine.size(), 40u);
	ASSERT_EQ(theirs.size(), 40u);

	// Runs of one, two … packets of each queue pair, alternating.
	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
	for (u32 run = 1, i = 0, j = 0; i < 40 || j < 40; run++) {
		for (u32 n = 0; n < run && i < 40; n++)
			next(batch, mine[i++]);
		for (u32 n = 0; n < run && j < 40; n++)
			next(batch, theirs[j++]);
	}
	snic_rx_batch_end(&batch);
	EXPECT_EQ(batch.qp, nullptr);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_PKTS), before + 80);
	EXPECT_EQ(memcmp(a.data(), b.data(), 8000), 0);
	for (u32 i = 0; i < 40; i++) {
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		expect_ok(wait_send(other->a), SIRDMA_OP_WRITE);
	}
	EXPECT_EQ(a.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

// The receiver has seen the message complete, so its sender must, whatever the receiver does next.
TEST_F(RxBatch, WhatWaitsForTheLastPacketIsAcknowledgedBeforeTheQueuePairStops)
{
	// The last one is destroyed.
	for (const int next_state :
	     {int{SIRDMA_QPS_ERR}, int{SIRDMA_QPS_RESET}, SIRDMA_QPS_ERR + 1}) {
		auto l = link(), other = link();

		l->a.place(write(0, 100));
		auto mine = packets(*l);
		other->a.place(write(100, 100));
		auto theirs = packets(*other);
		ASSERT_EQ(mine.size(), 1u);
		ASSERT_EQ(theirs.size(), 1u);

		snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
		next(batch, mine[0], true);
		next(batch, theirs[0]);
		EXPECT_EQ(next_state <= SIRDMA_QPS_ERR ?
				  l->b.modify(static_cast<u8>(next_state), 0) :
				  l->b.destroy(),
			  SIRDMA_CQP_OK);
		snic_rx_batch_end(&batch);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		expect_ok(wait_send(other->a), SIRDMA_OP_WRITE);
	}
}

TEST_F(RxBatch, EachPacketMustLieInTheRegion)
{
	auto l = link();

	l->a.place(write(0, 64));
	l->a.place({.op = SIRDMA_OP_WRITE,
		    .sges = {a.sge(0, 64)},
		    .remote = b.va(0) + b.mr.len - 63,
		    .rkey = b.mr.stag()});
	auto sent = packets(*l);
	ASSERT_EQ(sent.size(), 2u);

	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
	next(batch, sent[0]);
	next(batch, sent[1]);
	snic_rx_batch_end(&batch);
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_RANGE), 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// The batch holds the region, yet its next packet is new work.
TEST_F(RxBatch, InvalidatedRegionTakesNoOtherPacket)
{
	static int ended;
	snic_slot_callback end = {[](snic_slot_callback *) { ended++; }, nullptr};
	auto l = link();

	ended = 0;
	l->a.place(write(0, 64));
	l->a.place(write(64, 64));
	auto sent = packets(*l);
	ASSERT_EQ(sent.size(), 2u);
	const std::vector<u8> before(b.data(64), b.data(128));

	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
	next(batch, sent[0]);
	snic_slot *slot = snic_slot_get(&b.host.dev()->mrs, b.mr.idx);
	ASSERT_TRUE(slot && snic_slot_invalidate(slot, &end));
	snic_slot_put(slot);
	EXPECT_EQ(ended, 0);
	next(batch, sent[1]);
	EXPECT_EQ(ended, 1) << "the batch let go of it";
	snic_rx_batch_end(&batch);
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	EXPECT_EQ(memcmp(b.data(), a.data(), 64), 0);
	EXPECT_EQ(memcmp(b.data(64), before.data(), 64), 0);
}

// Nor one that would follow without being looked at.
TEST_F(RxBatch, InvalidatedRegionEndsAStream)
{
	snic_slot_callback end = {[](snic_slot_callback *) {}, nullptr};
	snic_stream stream{};
	snic_stream_write last{};
	auto l = link();

	for (u32 i = 0; i < 3; i++)
		l->a.place(write(i * 8, 8));
	auto sent = packets(*l);
	ASSERT_EQ(sent.size(), 3u);
	const u8 *second = sent[1].bytes.data() + sent[1].bth,
		 *third = sent[2].bytes.data() + sent[2].bth;
	const u32 len = static_cast<u32>(sent[1].bytes.size() - sent[1].bth);

	memcpy(&stream.bth, third, sizeof(stream.bth));
	memcpy(&stream.rkey_len, third + 20, sizeof(stream.rkey_len));
	memcpy(&last.va, third + 12, sizeof(last.va));
	memcpy(last.data, third + 28, sizeof(last.data));
	stream.psn = sent[2].psn();
	stream.count = 1;
	stream.writes = &last;

	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
	EXPECT_FALSE(snic_rx_batch_try_write(&batch, second, len, 0, true)) << "behind nothing";
	next(batch, sent[0], true);
	EXPECT_TRUE(snic_rx_batch_try_write(&batch, second, len, 0, true));
	snic_slot *slot = snic_slot_get(&b.host.dev()->mrs, b.mr.idx);
	ASSERT_TRUE(slot && snic_slot_invalidate(slot, &end));
	snic_slot_put(slot);
	EXPECT_FALSE(snic_rx_batch_try_write(&batch, third, len, 0, true));
	EXPECT_EQ(snic_rx_batch_try_stream(&batch, &stream, 0, true), 0u);
	next(batch, sent[2]);
	snic_rx_batch_end(&batch);
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	EXPECT_EQ(memcmp(b.data(), a.data(), 16), 0);
}

TEST_F(RxBatch, DeregistrationWaitsForItsEnd)
{
	auto l = link();

	l->a.place(write(0, 64));
	l->a.place(write(64, 64));
	auto sent = packets(*l);
	ASSERT_EQ(sent.size(), 2u);

	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
	std::atomic<bool> gone{false};

	next(batch, sent[0]);
	std::thread other([&] {
		EXPECT_EQ(b.drv.dealloc_stag(b.mr.stag()), SIRDMA_CQP_OK);
		gone = true;
	});
	for (int i = 0; i < 1000; i++) {
		EXPECT_FALSE(gone) << "in use";
		std::this_thread::yield();
	}
	snic_rx_batch_end(&batch);
	other.join();
	next(batch, sent[1]);
	snic_rx_batch_end(&batch);
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	EXPECT_NE(memcmp(a.data(64), b.data(64), 64), 0);
	ASSERT_EQ(b.drv.reg_mr(b.mr), SIRDMA_CQP_OK);
}

// A receiver's buffer holds more small packets than full ones.
TEST_F(RxBatch, MoreSmallMessagesThanFullOnesFly)
{
	for (u32 len : {64u, 256u, 257u, 4096u}) {
		auto l = link({.mtu = 4096});

		for (u32 i = 0; i < 100; i++)
			l->a.place(write(0, len));
		EXPECT_EQ(packets(*l).size(), len <= 256 ? 64u : 16u) << len;
		l->a.error();
		l->b.error();
		settle();
	}
}

// What a packet does to its receiver.
struct Effects {
	std::array<u64, SIRDMA_STAT_COUNT> stats{};
	u8 state = 0;
	u32 psn = 0, msn = 0;
	std::vector<u8> memory;
	bool operator==(const Effects &) const = default;
};

class SmallWrites : public RxBatch {
protected:
	// A WRITE of 64 bytes, then @change of another one, in one batch or in two. Packets that are alone in their batch
	// are received the long way, unless @change_rx says of which segments they are.
	Effects effects(bool together, const std::function<void(Packet &)> &change,
			const std::function<void(snic_rx_pkt &)> &change_rx)
	{
		auto l = link({.qpn = 0x55});
		snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};
		Effects e;

		b.mem->fill(7);
		l->a.place(write(0, 64));
		l->a.place(write(256, 64));
		auto sent = packets(*l);
		EXPECT_EQ(sent.size(), 2u);
		for (int i = 0; i < SIRDMA_STAT_COUNT; i++)
			e.stats[i] = b.stat(static_cast<sirdma_stat>(i));
		next(batch, sent[0], true, {}, !together);
		if (!together)
			snic_rx_batch_end(&batch);
		if (change)
			change(sent[1]);
		next(batch, sent[1], false, change_rx, !together && !change_rx);
		snic_rx_batch_end(&batch);
		for (int i = 0; i < SIRDMA_STAT_COUNT; i++)
			e.stats[i] = b.stat(static_cast<sirdma_stat>(i)) - e.stats[i];
		e.state = l->b.state();
		const snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);
		e.psn = qp->resp.epsn;
		e.msn = qp->resp.msn;
		snic_qp_put(const_cast<snic_qp *>(qp));
		e.memory.assign(b.data(0), b.data(1024));
		l->a.error();
		l->b.error();
		settle();
		return e;
	}
	void same(const char *what, const std::function<void(Packet &)> &change,
		  const std::function<void(snic_rx_pkt &)> &change_rx = {})
	{
		SCOPED_TRACE(what);
		const Effects alone = effects(false, change, change_rx);
		const Effects behind = effects(true, change, change_rx);

		for (int i = 0; i < SIRDMA_STAT_COUNT; i++)
			EXPECT_EQ(alone.stats[i], behind.stats[i]) << "statistic " << i;
		EXPECT_EQ(alone.state, behind.state);
		EXPECT_EQ(alone.psn, behind.psn);
		EXPECT_EQ(alone.msn, behind.msn);
		EXPECT_EQ(alone.memory, behind.memory);
	}
	// The same with the byte at @off, counted from the BTH, set to @value.
	void byte(const char *what, size_t off, u8 value)
	{
		same(what, [=](Packet &p) { p.bytes[p.bth + off] = value; });
	}
};

// The general path notes where the next byte of a message goes, the other one does not, which the first takes as well.
TEST_F(SmallWrites, TakeTheirOwnPath)
{
	auto l = link();
	snic_rx_batch batch = {.dev = b.host.dev(), .qp = nullptr, .pkts = 0, .bytes = 0};

	l->a.place(write(0, 64));
	l->a.place(write(256, 64));
	auto sent = packets(*l);
	ASSERT_EQ(sent.size(), 2u);
	next(batch, sent[0], true);
	EXPECT_EQ(batch.qp->resp.wr_va, 0u);
	next(batch, sent[1], false, {}, true);
	EXPECT_EQ(batch.qp->resp.wr_va, b.va(256 + 64));
	snic_rx_batch_end(&batch);
	EXPECT_EQ(memcmp(b.data(256), a.data(256), 64), 0);
}

TEST_F(SmallWrites, HaveTheEffectsTheyHaveAlone)
{
	constexpr size_t flags = 1, pkey = 2, qpn = 7, asks = 8, psn = 11, va = 12, rkey = 20,
			 len = 24, payload = 28;
	const auto longer = [](int by) {
		return [by](Packet &p) {
			p.bytes.resize(p.bytes.size() + static_cast<size_t>(by));
		};
	};

	same("as it is", {});
	for (const u8 opcode :
	     {u8{SIRDMA_BTH_SEND_ONLY}, u8{SIRDMA_BTH_WRITE_FIRST}, u8{SIRDMA_BTH_WRITE_ONLY_IMM},
	      u8{SIRDMA_BTH_READ_REQUEST}, u8{SIRDMA_BTH_ATOMIC_WRITE}, u8{SIRDMA_BTH_ACK},
	      u8{SIRDMA_BTH_UC | SIRDMA_BTH_WRITE_ONLY}, u8{0x1f}})
		byte("opcode", 0, opcode);
	for (int bit = 0; bit < 8; bit++)
		byte("flags", flags, static_cast<u8>(SIRDMA_BTH_MIGREQ ^ 1 << bit));
	byte("partition, limited member", pkey, 0x7f);
	byte("partition, another", pkey + 1, 0xfe);
	byte("queue pair", qpn, 0x99);
	same("the same queue pair, congestion seen", [](Packet &p) { p.bytes[p.bth + 4] ^= 0x40; });
	same("asks for an acknowledgement, or not",
	     [](Packet &p) { p.bytes[p.bth + asks] ^= 0x80; });
	for (const int by : {-2, -1, 1, 2})
		same("sequence number", [=](Packet &p) {
			p.bytes[p.bth + psn] = static_cast<u8>(p.bytes[p.bth + psn] + by);
		});
	byte("address", va, 0xff);
	same("before the region", [](Packet &p) { std::fill_n(&p.bytes[p.bth + va], 8, u8{0}); });
	byte("key", rkey + 3, 0xee);
	byte("index of the key", rkey, 0xee);
	for (const u8 n : {0, 1, 61, 63, 65, 68, 255})
		byte("length", len + 3, n);
	byte("a long length", len, 0x80);
	byte("payload", payload, 0xab);
	for (const int by : {-68, -64, -4, -1, 1, 4, 1024})
		same("bytes", longer(by));
	same("without headers", [](Packet &p) { p.bytes.resize(p.bth + 16); });

	const auto rx = [&](const char *what, const std::function<void(snic_rx_pkt &)> &change) {
		same(what, {}, change);
	};
	rx("bad ICRC", [](snic_rx_pkt &p) { p.icrc_ok = false; });
	rx("congested", [](snic_rx_pkt &p) { p.traffic_class = 3; });
	rx("another class", [](snic_rx_pkt &p) { p.traffic_class = 0x20; });
	rx("another source", [](snic_rx_pkt &p) { p.src_ip.b[15] ^= 1; });
	rx("another destination", [](snic_rx_pkt &p) { p.dst_ip.b[15] ^= 8; });
	rx("a group", [](snic_rx_pkt &p) { p.dst_ip.b[12] = 239; });
	rx("another VLAN", [](snic_rx_pkt &p) { p.vlan_id = 5; });
	rx("more follows", [](snic_rx_pkt &p) { p.more = true; });
	rx("two packets", [](snic_rx_pkt &p) { p.npkts = 2; });
}

// The headers are in the first part of the packet, its payload in two more.
TEST_F(SmallWrites, InPartsHaveTheEffectsTheyHaveAlone)
{
	snic_seg parts[3];
	std::vector<u8> rest;

	same("in parts", {}, [&](snic_rx_pkt &p) {
		u8 *at = static_cast<u8 *>(p.segs[0].ptr);

		rest.assign(at + SNIC_RX_MIN_LINEAR, at + p.len);
		std::fill(at + SNIC_RX_MIN_LINEAR, at + p.len, u8{0});
		parts[0] = {at, SNIC_RX_MIN_LINEAR};
		parts[1] = {rest.data(), 8};
		parts[2] = {rest.data() + 8, static_cast<u32>(rest.size() - 8)};
		p.segs = parts;
		p.nsegs = 3;
	});
}

} // namespace
