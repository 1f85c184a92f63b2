// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Small WRITEs and acknowledgements are received with few decisions: with the same result as by the way that
// all packets can take, whatever is in them.
#include "transport.hpp"

extern "C" {
#include "model/packet.h"
#include "model/qp.h"
#include "model/stream.h"
#include "model/super.h"
}

using namespace sirdma::test;

namespace
{

enum class Key { flat, scattered, read_only, none };

// What a packet says, in terms that hold in every world.
struct Draft {
	u8 opcode;
	u8 flags; // of the BTH
	u16 pkey;
	u32 qpn_off; // to the number of the queue pair
	u32 psn_off; // to the PSN that is due
	u32 len; // bytes of the payload, with pad
	u32 reth_len;
	u64 at; // in the region
	Key key;
	u8 syndrome;
	u8 traffic_class;
	u16 vlan_id;
	bool ack_req, icrc_ok, from_peer, more, ends_batch;
};

// A receiver in the middle of its work: three requests of its own are in flight.
class World : public Transport {
public:
	using Transport::a, Transport::b, Transport::fabric;

	void TestBody() override {}

	// @read: one of the three is a READ, the others are WRITEs.
	explicit World(bool read = false) : flat(b.host.dma(), 4096, 12, true)
	{
		MrParams mr = b.mr;

		for (Key key : {Key::flat, Key::read_only}) {
			mr.idx = key == Key::flat ? 70 : 71;
			mr.va = flat.va();
			mr.len = flat.size();
			mr.access = key == Key::flat ? b.mr.access : u8{SIRDMA_ACCESS_REMOTE_READ};
			b.drv.describe(mr, flat, 0);
			EXPECT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
			(key == Key::flat ? flat_key : read_only_key) = mr.stag();
		}
		b.host.set_limits({.burst = 0, .window = 0, .near = true});
		l = link({.mtu = 256});
		fabric.set_filter([](TestHost &, Packet &) { return Fabric::Verdict::drop; });
		for (u32 i = 0; i < 3; i++)
			l->b.place({.op = read && i == 1 ? u8{SIRDMA_OP_READ} : u8{SIRDMA_OP_WRITE},
				    .sges = {b.sge(i * 8, 8)},
				    .remote = a.va(i * 8),
				    .rkey = a.mr.stag()});
		l->b.kick();
		qp = snic_qp_get(b.host.dev(), l->b.id);
		batch.dev = b.host.dev();
	}
	~World() override
	{
		snic_rx_batch_end(&batch);
		snic_qp_put(qp);
	}

	// @whole: in one piece, as the quick way needs it.
	void receive(const Draft &d, bool whole)
	{
		std::vector<u8> bytes = build(d);
		const u32 len = static_cast<u32>(bytes.size());
		const snic_seg segs[] = {
			{bytes.data(), whole ? len : len - SIRDMA_ICRC_LEN},
			{bytes.data() + len - SIRDMA_ICRC_LEN, SIRDMA_ICRC_LEN},
		};

		add(d, {segs, whole ? 1u : 2u}, len, d.more);
		if (d.ends_batch)
			snic_rx_batch_end(&batch);
	}

	// The same, of the flow of the packet before, as a host offers it that takes it for the next of a stream.
	void receive_next(const Draft &d)
	{
		std::vector<u8> bytes = build(d);

		if (!snic_rx_batch_try_write(&batch, bytes.data(), static_cast<u32>(bytes.size()),
					     d.traffic_class, d.more)) {
			receive(d, true);
			return;
		}
		taken++;
		if (d.ends_batch)
			snic_rx_batch_end(&batch);
	}

	// @drafts are a stream: all have the BTH, the key and the length of the first. @whole: in one record.
	void receive_stream(const std::vector<Draft> &drafts, bool whole)
	{
		const Draft &last = drafts.back();
		std::vector<snic_stream_write> writes;
		std::vector<u8> first = build(drafts[0]);
		snic_stream stream{};

		memcpy(&stream.bth, first.data(), sizeof(stream.bth));
		memcpy(&stream.rkey_len, first.data() + 20, sizeof(stream.rkey_len));
		stream.psn = (qp->resp.epsn + drafts[0].psn_off) & SIRDMA_PSN_MASK;
		stream.count = static_cast<u32>(drafts.size());
		stream.ackreq = last.ack_req;
		for (const Draft &d : drafts) {
			std::vector<u8> bytes = build(d);
			snic_stream_write write{};

			memcpy(&write.va, bytes.data() + sizeof(sirdma_bth), sizeof(write.va));
			memcpy(write.data, bytes.data() + 28, std::min<size_t>(8, d.len));
			writes.push_back(write);
		}
		stream.writes = writes.data();
		while (stream.count) {
			u32 n = whole ? snic_rx_batch_try_stream(&batch, &stream,
								 last.traffic_class, last.more) :
					0;

			taken += n;
			if (!n) {
				u8 bytes[SNIC_STREAM_PKT_MAX];
				const u32 len = snic_stream_first(&stream, bytes),
					  cut = whole ? len : len - SIRDMA_ICRC_LEN;
				const snic_seg segs[] = {{bytes, cut},
							 {bytes + cut, SIRDMA_ICRC_LEN}};

				add(last, {segs, whole ? 1u : 2u}, len,
				    last.more || stream.count > 1);
				n = 1;
			}
			snic_stream_skip(&stream, n);
		}
		if (last.ends_batch)
			snic_rx_batch_end(&batch);
	}

	// All that a packet can change
	std::vector<u64> state()
	{
		const snic_req &req = qp->req;
		const snic_resp &resp = qp->resp;
		std::vector<u64> all = {
			qp->state,	 resp.epsn,	  resp.msn,	     resp.ack_due,
			resp.ack_psn,	 resp.nak_sent,	  resp.ack_syndrome, resp.fatal,
			resp.owed,	 req.una,	  req.nxt,	     req.max,
			req.head,	 req.cur,	  req.tail,	     req.cwnd,
			req.retry_left,	 req.restarted,	  req.wait,	     req.deadline,
			resp.lingers,	 resp.rd_pending, req.probe,	     req.unasked,
			qp->timer_armed, qp->deferred,	  req.last_signaled,
		};

		for (int id = 0; id < SIRDMA_STAT_COUNT; id++)
			all.push_back(b.stat(static_cast<sirdma_stat>(id)));
		for (UserMemory *memory : {&flat, b.mem.get()})
			for (u8 byte : memory->bytes().first(4096))
				all.push_back(byte);
		return all;
	}

	u32 taken = 0; // packets that a stream went on with
	UserMemory flat;
	u32 flat_key = 0, read_only_key = 0;
	std::unique_ptr<Link> l;
	snic_qp *qp;
	snic_rx_batch batch{};

private:
	void add(const Draft &d, std::span<const snic_seg> segs, u32 len, bool more)
	{
		snic_rx_pkt rx{};

		rx.src_ip = d.from_peer ? a.ip : ip4(10, 9, 8, 7);
		rx.dst_ip = b.ip;
		rx.segs = segs.data();
		rx.nsegs = static_cast<u32>(segs.size());
		rx.len = len;
		rx.traffic_class = d.traffic_class;
		rx.vlan_id = d.vlan_id;
		rx.is_v4 = true;
		rx.icrc_ok = d.icrc_ok;
		rx.more = more;
		snic_rx_batch_add(&batch, &rx);
	}
	std::vector<u8> build(const Draft &d)
	{
		const bool is_write = d.opcode == SIRDMA_BTH_WRITE_ONLY;
		const u32 psn = (is_write ? qp->resp.epsn : qp->req.una) + d.psn_off;
		const u32 key = d.key == Key::flat	? flat_key :
				d.key == Key::scattered ? b.mr.stag() :
				d.key == Key::read_only ? read_only_key :
							  0x12345678;
		const u64 base = d.key == Key::scattered ? b.va(0) : flat.va();
		std::vector<u8> bytes(sizeof(sirdma_bth));
		sirdma_bth bth{};

		bth.opcode = d.opcode;
		bth.flags = d.flags;
		bth.pkey = cpu_to_be16(d.pkey);
		bth.qpn = cpu_to_be32(l->b.id + d.qpn_off);
		bth.apsn =
			cpu_to_be32((psn & SIRDMA_PSN_MASK) | (d.ack_req ? SIRDMA_BTH_ACKREQ : 0));
		memcpy(bytes.data(), &bth, sizeof(bth));
		if (is_write) {
			const sirdma_reth reth = {.va = cpu_to_be64(base + d.at),
						  .rkey = cpu_to_be32(key),
						  .len = cpu_to_be32(d.reth_len)};

			append(bytes, &reth, sizeof(reth));
		} else {
			const sirdma_aeth aeth = {.smsn = cpu_to_be32(u32{d.syndrome} << 24 | 5)};

			append(bytes, &aeth, sizeof(aeth));
		}
		for (u32 i = 0; i < d.len; i++)
			bytes.push_back(static_cast<u8>(d.at * 7 + i + 1));
		bytes.resize(bytes.size() + SIRDMA_ICRC_LEN);
		return bytes;
	}
	static void append(std::vector<u8> &bytes, const void *from, size_t len)
	{
		const u8 *p = static_cast<const u8 *>(from);

		bytes.insert(bytes.end(), p, p + len);
	}
};

class Drafts {
public:
	explicit Drafts(u64 seed) : rng_(seed) {}

	// Mostly right; now and then one thing is wrong.
	Draft next()
	{
		static const u32 sizes[] = {1, 3, 4, 8, 61, 64, 200, 255, 256};
		const bool is_write = pick(3) != 0;
		const u32 len = is_write ? sizes[pick(std::size(sizes))] : 0, pad = -len & 3;
		Draft d = {
			.opcode = is_write ? u8{SIRDMA_BTH_WRITE_ONLY} : u8{SIRDMA_BTH_ACK},
			.flags = static_cast<u8>(pad << SIRDMA_BTH_PAD_SHIFT | SIRDMA_BTH_MIGREQ),
			.pkey = 0xffff,
			.qpn_off = 0,
			.psn_off = is_write ? 0 : pick(2),
			.len = len + pad,
			.reth_len = len,
			.at = pick(3000),
			.key = pick(3) ? Key::flat : Key::scattered,
			.syndrome = SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID,
			.traffic_class = 0,
			.vlan_id = 0,
			.ack_req = pick(2) == 0,
			.icrc_ok = true,
			.from_peer = true,
			.more = pick(2) == 0,
			.ends_batch = pick(3) == 0,
		};

		if (pick(5) == 0)
			spoil(d);
		return d;
	}

protected:
	u32 pick(u32 n) { return static_cast<u32>(rng_() % n); }

private:
	void spoil(Draft &d)
	{
		switch (pick(18)) {
		case 0:
			d.flags ^= static_cast<u8>(1 + pick(255));
			break;
		case 1:
			d.pkey = pick(2) ? 0x7fff : 0x8001;
			break;
		case 2:
			d.qpn_off = 1 + pick(3);
			break;
		case 3:
			d.psn_off += pick(2) ? 1 + pick(5) : 0xffffff;
			break;
		case 4:
			d.len += 4 * pick(3);
			break;
		case 5:
			d.reth_len += pick(2) ? 1 : 0xffffffff;
			break;
		case 6:
			d.at = 4096 - pick(8);
			break;
		case 7:
			d.key = pick(2) ? Key::none : Key::read_only;
			break;
		case 8:
			d.syndrome = static_cast<u8>(pick(256));
			break;
		case 9:
			d.traffic_class = 3;
			break;
		case 10:
			d.vlan_id = 7;
			break;
		case 11:
			d.icrc_ok = false;
			break;
		case 12:
			d.from_peer = false;
			break;
		case 13:
			d.len = 0;
			break;
		case 14:
			d.len += 1 + pick(3);
			break;
		case 15:
			d.reth_len = 0;
			break;
		case 16:
			d.flags ^= static_cast<u8>(1 << (SIRDMA_BTH_PAD_SHIFT + pick(2)));
			break;
		default: // no whole number of words
			d.flags &= static_cast<u8>(~SIRDMA_BTH_PAD);
			d.len = d.reth_len += 1 + pick(3);
			break;
		}
	}

	std::mt19937_64 rng_;
};

// A world each gets the same packets, one in one piece and the other in two.
TEST(SmallReceived, AreReceivedAsAllPacketsAre)
{
	u64 writes = 0, acknowledged = 0;

	for (u64 seed = 1; seed <= 60; seed++) {
		World quick(seed % 2), general(seed % 2);
		Drafts drafts(seed);

		for (u32 i = 0; i < 60; i++) {
			Draft d = drafts.next();

			d.ends_batch = d.ends_batch || i == 59;
			quick.receive(d, true);
			general.receive(d, false);
			ASSERT_EQ(quick.qp->resp.epsn, general.qp->resp.epsn) << seed << ' ' << i;
			ASSERT_EQ(quick.qp->req.una, general.qp->req.una) << seed << ' ' << i;
			if (d.ends_batch) {
				ASSERT_EQ(quick.state(), general.state()) << seed << ' ' << i;
				ASSERT_EQ(quick.qp->resp.unacked, general.qp->resp.unacked);
			}
		}
		writes += quick.qp->resp.msn;
		acknowledged += quick.b.stat(SIRDMA_STAT_ACKS_RCVD);
	}
	EXPECT_GT(writes, 400u);
	EXPECT_GT(acknowledged, 80u);
}

// Draws that follow each other often differ in address and PSN only.
class StreamDrafts : public Drafts {
public:
	explicit StreamDrafts(u64 seed) : Drafts(seed) {}

	Draft next()
	{
		const Draft fresh = Drafts::next();

		if (pick(4) == 0 || last_.opcode != SIRDMA_BTH_WRITE_ONLY) {
			last_ = fresh;
			return last_;
		}
		last_.at = pick(16) ? pick(3000) : 4090 + pick(8);
		last_.psn_off = pick(16) ? 0 : 1;
		last_.ack_req = fresh.ack_req;
		last_.more = fresh.more;
		last_.ends_batch = pick(8) == 0;
		return last_;
	}

private:
	Draft last_{};
};

TEST(SmallReceived, OfAStreamAreReceivedAsAllPacketsAre)
{
	u64 taken = 0;

	for (u64 seed = 1; seed <= 24; seed++) {
		World quick(seed % 2), general(seed % 2);
		StreamDrafts drafts(seed);
		Draft before{};

		for (u32 i = 0; i < 120; i++) {
			Draft d = drafts.next();

			d.ends_batch = d.ends_batch || i == 119;
			// A host knows a flow by the address, and looks at ICRC and VLAN itself.
			if (d.from_peer == before.from_peer && d.icrc_ok && !d.vlan_id &&
			    !before.vlan_id)
				quick.receive_next(d);
			else
				quick.receive(d, true);
			general.receive(d, false);
			before = d;
			ASSERT_EQ(quick.qp->resp.epsn, general.qp->resp.epsn) << seed << ' ' << i;
			if (d.ends_batch) {
				ASSERT_EQ(quick.state(), general.state()) << seed << ' ' << i;
				ASSERT_EQ(quick.qp->resp.unacked, general.qp->resp.unacked);
			}
		}
		taken += quick.taken;
	}
	EXPECT_GT(taken, 200u);
}

TEST(SmallReceived, InOneRecordAreReceivedAsAllPacketsAre)
{
	std::mt19937_64 rng(1);
	const auto pick = [&](u32 n) { return static_cast<u32>(rng() % n); };
	u64 taken = 0;

	for (u64 seed = 1; seed <= 24; seed++) {
		World quick(seed % 2), general(seed % 2);
		Drafts others(seed);

		for (u32 round = 0; round < 20; round++) {
			const u32 len = 1 + pick(8), pad = -len & 3, psn_off = pick(8) ? 0 : 1;
			const Key key = pick(8) ? Key::flat : Key::scattered;
			std::vector<Draft> drafts(1 + pick(SNIC_BURST_PKTS));
			Draft other = others.next();
			const bool ends = round == 19 || pick(3) == 0, more = pick(2);

			for (Draft &d : drafts) {
				d = {};
				d.opcode = SIRDMA_BTH_WRITE_ONLY;
				d.flags = static_cast<u8>(pad << SIRDMA_BTH_PAD_SHIFT |
							  SIRDMA_BTH_MIGREQ);
				d.pkey = 0xffff;
				d.psn_off = psn_off;
				d.len = len + pad;
				d.reth_len = len;
				d.at = pick(40) ? pick(3000) : 4090 + pick(8);
				d.key = key;
				d.icrc_ok = d.from_peer = d.more = true;
			}
			drafts.back().ack_req = pick(2);
			drafts.back().more = more;
			drafts.back().ends_batch = ends;
			quick.receive_stream(drafts, true);
			general.receive_stream(drafts, false);
			ASSERT_EQ(quick.qp->resp.epsn, general.qp->resp.epsn)
				<< seed << ' ' << round;
			if (ends) {
				ASSERT_EQ(quick.state(), general.state()) << seed << ' ' << round;
				// An acknowledgement that is due covers all of a record.
				ASSERT_LE(quick.qp->resp.unacked, general.qp->resp.unacked);
			}
			if (pick(3) == 0) {
				other.from_peer = true;
				quick.receive(other, true);
				general.receive(other, false);
			}
		}
		taken += quick.taken;
	}
	EXPECT_GT(taken, 1500u);
}

Draft right(u64 at, bool more)
{
	Draft d{};

	d.opcode = SIRDMA_BTH_WRITE_ONLY;
	d.flags = SIRDMA_BTH_MIGREQ;
	d.pkey = 0xffff;
	d.len = d.reth_len = 8;
	d.at = at;
	d.ack_req = d.icrc_ok = d.from_peer = d.ends_batch = true;
	d.more = more;
	return d;
}

// A reference that remains would keep the region.
TEST(SmallReceived, KeepNoRegion)
{
	World w;
	Draft refused = right(8, false);

	w.receive(right(40, false), true);
	EXPECT_EQ(w.flat.data()[40], static_cast<u8>(40 * 7 + 1));
	refused.key = Key::read_only;
	w.receive(refused, true);
	for (u32 key : {w.flat_key, w.read_only_key})
		EXPECT_EQ(w.b.drv.dealloc_stag(key), SIRDMA_CQP_OK);
}

// The answer that a poster sends goes first, and the acknowledgement of the question behind it.
TEST(AnswerAndAcknowledgement, AreOneBurst)
{
	World w;
	const u64 acks = w.b.stat(SIRDMA_STAT_ACKS_SENT);

	w.receive(right(8, true), true);
	EXPECT_EQ(w.b.stat(SIRDMA_STAT_ACKS_SENT), acks) << "it did not wait";
	w.fabric.record(true);
	w.l->b.place({.op = SIRDMA_OP_WRITE,
		      .sges = {w.b.sge(0, 8)},
		      .remote = w.a.va(0),
		      .rkey = w.a.mr.stag()});
	w.l->b.kick(true);
	ASSERT_EQ(w.fabric.sent().size(), 2u);
	EXPECT_EQ(w.fabric.sent()[0].opcode(), SIRDMA_BTH_WRITE_ONLY);
	EXPECT_EQ(w.fabric.sent()[0].psn(), w.qp->req.max - 1);
	EXPECT_EQ(w.fabric.sent()[1].opcode(), SIRDMA_BTH_ACK);
	EXPECT_EQ(w.fabric.sent()[1].psn(), w.qp->resp.epsn - 1);
	EXPECT_EQ(w.b.stat(SIRDMA_STAT_ACKS_SENT), acks + 1);
	// What was deferred for the acknowledgement finds nothing to do.
	while (w.b.host.run_deferred())
		;
	EXPECT_EQ(w.fabric.sent().size(), 2u);
	EXPECT_EQ(w.b.stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

// A peer's acknowledgement behind its WRITE does not make ours leave before the answer.
TEST(AnswerAndAcknowledgement, WaitBehindAnAcknowledgement)
{
	World w;
	Draft ack = right(0, false);

	ack.opcode = SIRDMA_BTH_ACK;
	ack.len = 0;
	ack.syndrome = SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID;
	ack.ack_req = false;
	w.receive(right(8, true), true);
	w.fabric.record(true);
	w.receive(ack, true);
	EXPECT_TRUE(w.fabric.sent().empty());
	EXPECT_TRUE(w.b.host.run_deferred());
	ASSERT_EQ(w.fabric.sent().size(), 1u);
	EXPECT_EQ(w.fabric.sent()[0].opcode(), SIRDMA_BTH_ACK);
}

// Behind a part of a message it is no packet of it.
TEST(AnswerAndAcknowledgement, IsNoPartOfAMessage)
{
	auto burst = std::make_unique<snic_burst>();

	burst->npkts = 4;
	for (u32 i = 0; i < 4; i++) {
		static const u8 opcodes[] = {SIRDMA_BTH_WRITE_FIRST, SIRDMA_BTH_WRITE_MIDDLE,
					     SIRDMA_BTH_ACK, SIRDMA_BTH_WRITE_ONLY};

		snic_pkt_bth(&burst->pkts[i], SIRDMA_BTH_RC | opcodes[i], 0xffff, 5, i,
			     opcodes[i] == SIRDMA_BTH_ACK ? 0 : 256);
	}
	EXPECT_EQ(snic_super_count(burst.get(), 0, 1 << 20), 2u);
	EXPECT_EQ(snic_super_count(burst.get(), 2, 1 << 20), 1u);
}

// A long message would delay it: it leaves in a burst of its own.
TEST(AnswerAndAcknowledgement, IsNotInTheBurstOfALongMessage)
{
	World w;

	w.receive(right(8, true), true);
	w.l->b.place({.op = SIRDMA_OP_WRITE,
		      .sges = {w.b.sge(0, 16'000)},
		      .remote = w.a.va(0),
		      .rkey = w.a.mr.stag()});
	w.l->b.kick(true);
	EXPECT_EQ(w.b.stat(SIRDMA_STAT_ACKS_SENT), 1u);
	EXPECT_EQ(w.b.host.longest_burst(), 16'000u);
}

// An invalid request ends the queue pair, but the acknowledgement leaves before.
TEST(AnswerAndAcknowledgement, LeavesBeforeTheQueuePairFails)
{
	World w;

	w.l->b.post({.op = SIRDMA_OP_WRITE,
		     .sges = {w.b.sge(0, 8)},
		     .remote = w.a.va(0),
		     .rkey = w.a.mr.stag()});
	// All before it is acknowledged, so that it fails at once.
	Draft ack = right(0, false);
	ack.opcode = SIRDMA_BTH_ACK;
	ack.len = 0;
	ack.psn_off = 3;
	ack.syndrome = SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID;
	w.receive(ack, true);
	w.receive(right(8, true), true);
	w.fabric.record(true);
	w.l->b.place({.op = SIRDMA_OP_WRITE,
		      .sges = {{w.b.va(0), 8, 0x7777777}},
		      .remote = w.a.va(0),
		      .rkey = w.a.mr.stag()});
	w.l->b.kick(true);
	EXPECT_EQ(w.qp->state, SIRDMA_QPS_ERR);
	ASSERT_EQ(w.fabric.sent().size(), 1u);
	EXPECT_EQ(w.fabric.sent()[0].opcode(), SIRDMA_BTH_ACK);
}

TEST(AnswerAndAcknowledgement, WithoutAnAnswerItGoesAlone)
{
	World w;

	w.receive(right(8, true), true);
	w.fabric.record(true);
	w.l->b.kick(true);
	ASSERT_EQ(w.fabric.sent().size(), 1u);
	EXPECT_EQ(w.fabric.sent()[0].opcode(), SIRDMA_BTH_ACK);
}

} // namespace
