// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// RDMA READs as their requester lives through them: refused half way, lost, too many for the
// receiver's buffer.
#include "transport.hpp"

extern "C" {
#include "model/packet.h"
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u8 nak_access = SIRDMA_AETH_NAK | SIRDMA_NAK_REM_ACCESS;
constexpr u8 nak_operation = SIRDMA_AETH_NAK | SIRDMA_NAK_REM_OP;
constexpr u8 nak_sequence = SIRDMA_AETH_NAK | SIRDMA_NAK_PSN_SEQ;

class Reads : public Transport {
protected:
	Wr read(size_t to, size_t from, u32 len)
	{
		return {.op = SIRDMA_OP_READ,
			.sges = {a.sge(to, len)},
			.remote = b.va(from),
			.rkey = b.mr.stag()};
	}
	// Another region over b's memory, which a test takes away.
	void register_other(MrParams &mr)
	{
		mr = b.mr;
		mr.idx = 9;
		ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	}
	// The request of a READ of 4000 bytes of @mr, which is answered. Nothing if there was none.
	std::optional<Packet> read_once(Link &l, const MrParams &mr)
	{
		std::optional<Packet> request;
		Wr wr = read(0, 0, 4000);

		wr.rkey = mr.stag();
		fabric.set_filter([&](TestHost &, Packet &pkt) {
			if (!request && pkt.opcode() == SIRDMA_BTH_READ_REQUEST)
				request = pkt;
			return Verdict::pass;
		});
		l.a.post(wr);
		expect_ok(wait_send(l.a), SIRDMA_OP_READ);
		fabric.set_filter(nullptr);
		return request;
	}
	// Nothing of b passes that answers a PSN at or behind @first.
	void silence(u32 first)
	{
		fabric.set_filter([this, first](TestHost &from, Packet &pkt) {
			bool late = ((pkt.psn() - first) & 0xffffff) < 0x800000;
			return &from == &b.host && late ? Verdict::drop : Verdict::pass;
		});
	}
	void answer(Link &l, u32 psn, u8 syndrome)
	{
		snic_flow flow{};
		snic_burst burst{};
		snic_tx_pkt *pkt = &burst.pkts[0];
		snic_seg_iter it;

		flow.src_ip = b.ip;
		flow.dst_ip = a.ip;
		memcpy(flow.src_mac, b.mac().data(), 6);
		memcpy(flow.dst_mac, a.mac().data(), 6);
		flow.udp_sport = 0xc123;
		flow.is_v4 = true;
		flow.hop_limit = 64;
		snic_pkt_bth(pkt, SIRDMA_BTH_ACK, 0xffff, l.a.id, psn & 0xffffff, 0);
		snic_pkt_aeth(pkt, syndrome, 1);
		std::vector<u8> bytes(SNIC_ETH_HLEN + snic_ip_len(&flow, pkt));
		snic_seg_iter_init(&it, &burst);
		snic_frame_eth(&flow, false, bytes.data());
		snic_frame_ip(&flow, pkt, &it, bytes.data() + SNIC_ETH_HLEN);
		fabric.inject(bytes);
		settle(100'000);
	}
};

// A peer names the READ request it refuses, or the response it owes (IBTA 9.7.5.2.4); soft-RoCE does
// the first even when it has answered a part.
TEST_F(Reads, RefusedHalfWayIsARemoteError)
{
	for (u32 named : {0u, 1u, 3u, 4u, 5u, 9u}) {
		for (u8 syndrome : {nak_access, nak_operation}) {
			SCOPED_TRACE(named);
			auto l = link();
			u32 psn = l->a.opts.a_psn;
			silence(psn + 4); // four responses arrive
			u32 idx = l->a.post(read(0, 0, 10 * 1024));
			l->a.post(read(0, 0, 10));
			settle(100'000);
			ASSERT_TRUE(silent(l->a));
			answer(*l, psn + named, syndrome);
			auto wc = l->a.poll(true);
			ASSERT_TRUE(wc);
			if (syndrome == nak_access)
				expect_error(*wc, SIRDMA_FLUSH_REM_ACCESS,
					     SIRDMA_VENDOR_REM_ACCESS);
			else
				expect_error(*wc, SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP);
			EXPECT_EQ(wc->idx, idx);
			expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
			fabric.set_filter(nullptr);
		}
	}
}

TEST_F(Reads, RegionGoneHalfWayIsARemoteError)
{
	MrParams gone;
	ASSERT_NO_FATAL_FAILURE(register_other(gone));
	auto l = link();
	Wr wr = read(0, 0, 1 << 20);
	wr.rkey = gone.stag();
	u32 n = 0;
	fabric.set_filter([&](TestHost &from, Packet &) {
		n += &from == &b.host;
		return Verdict::pass;
	});
	l->a.post(wr);
	ASSERT_TRUE(fabric.run_until([&] { return n > 200; }, 1'000'000'000));
	ASSERT_EQ(b.drv.dealloc_stag(gone.stag()), SIRDMA_CQP_OK);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// The peer has its answer, and says so by another message: the owner of the region takes it back. A duplicate of
// the request, or of a part of it, is still under way.
TEST_F(Reads, LateDuplicatesHarmNothingWhenTheRegionIsGone)
{
	MrParams gone;
	ASSERT_NO_FATAL_FAILURE(register_other(gone));
	auto l = link();
	std::optional<Packet> request = read_once(*l, gone);
	ASSERT_TRUE(request);
	ASSERT_EQ(b.drv.dealloc_stag(gone.stag()), SIRDMA_CQP_OK);
	for (int i = 0; i < 2; i++)
		fabric.inject(request->bytes);
	settle();

	u8 *const bth = &request->bytes[request->bth];
	const u64 va = htobe64(b.va(1024));
	const u32 len = htobe32(4000 - 1024);
	bth[11]++; // the PSN
	memcpy(bth + 12, &va, sizeof(va));
	memcpy(bth + 24, &len, sizeof(len));
	seal(*request);
	fabric.inject(request->bytes);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 3u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 3u);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	l->a.post(read(0, 0, 4000));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

// A response was lost, so the requester repeats the READ from there while the rest is still being sent. Then it has
// its answer, and a duplicate of the first request is late.
TEST_F(Reads, LateDuplicatesOfAReadThatWasRepeatedInPartHarmNothing)
{
	constexpr u32 len = 100 << 10; // two bursts
	MrParams gone;
	ASSERT_NO_FATAL_FAILURE(register_other(gone));
	auto l = link();
	std::optional<Packet> request;
	bool lost = false;

	l->a.post(read(0, 0, 1 << 20)); // which opens the window
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &a.host) {
			if (!request && pkt.opcode() == SIRDMA_BTH_READ_REQUEST)
				request = pkt;
			return Verdict::pass;
		}
		b.host.set_room(false);
		if (lost || !request || pkt.psn() != request->psn() + 3)
			return Verdict::pass;
		lost = true;
		return Verdict::drop;
	});
	Wr wr = read(0, 0, len);
	wr.rkey = gone.stag();
	l->a.post(wr);
	settle();
	ASSERT_TRUE(lost);
	EXPECT_FALSE(l->a.poll(true)) << "the second burst has no room";
	fabric.set_filter(nullptr);
	EXPECT_GE(b.stat(SIRDMA_STAT_RX_DUPLICATE), 1u) << "repeated from the lost response on";
	b.host.set_room(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	ASSERT_EQ(b.drv.dealloc_stag(gone.stag()), SIRDMA_CQP_OK);
	fabric.inject(request->bytes);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	l->a.post(read(0, 0, 4000));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

// The host takes a part of the answer to a duplicate, and the rest when the region is gone.
TEST_F(Reads, ADuplicateWhoseAnswerIsInterruptedHarmsNothingEither)
{
	MrParams gone;
	ASSERT_NO_FATAL_FAILURE(register_other(gone));
	auto l = link();
	std::optional<Packet> request = read_once(*l, gone);
	ASSERT_TRUE(request);
	b.host.set_room(false);
	fabric.inject(request->bytes);
	settle();
	ASSERT_EQ(b.drv.dealloc_stag(gone.stag()), SIRDMA_CQP_OK);
	b.host.set_room(true);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_REM_ACCESS_SENT), 1u);
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	l->a.post(read(0, 0, 4000));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

// The responses were lost, and the region is gone.
TEST_F(Reads, WhoMissedItsAnswerIsToldThatTheRegionIsGone)
{
	MrParams gone;
	ASSERT_NO_FATAL_FAILURE(register_other(gone));
	auto l = link();
	silence(l->a.opts.a_psn);
	Wr wr = read(0, 0, 4000);
	wr.rkey = gone.stag();
	l->a.post(wr);
	settle();
	ASSERT_EQ(b.drv.dealloc_stag(gone.stag()), SIRDMA_CQP_OK);
	fabric.set_filter(nullptr);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

// The acknowledgement of a WRITE waits behind the responses to a READ, and the network duplicates an older WRITE.
TEST_F(Reads, ADuplicateDoesNotTakeAnAcknowledgementBackThatWaits)
{
	QpOptions o;
	o.timeout = 0;
	auto l = link(o);
	std::optional<Packet> first;
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (!first && &from == &a.host)
			first = pkt;
		return Verdict::pass;
	});
	const Wr write = {.op = SIRDMA_OP_WRITE,
			  .sges = {a.sge(1 << 20, 8)},
			  .remote = b.va(1 << 20),
			  .rkey = b.mr.stag()};
	l->a.post(write);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	b.host.set_room(false);
	l->a.post(read(0, 0, 4000));
	l->a.post(write);
	settle();
	ASSERT_TRUE(first);
	fabric.inject(first->bytes);
	settle();
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 1u);
	b.host.set_room(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// With an MTU of 256 the longest message takes 2^23 PSNs, the half of the circle: it is not
// behind what is acknowledged when nothing is.
TEST_F(Reads, LongestMessageOfTheSmallestMtuIsNotDoneBeforeItBegan)
{
	QpOptions opts;
	opts.mtu = 256;
	for (u8 op : {u8{SIRDMA_OP_READ}, u8{SIRDMA_OP_WRITE}}) {
		SCOPED_TRACE(op);
		auto l = link(opts);
		Wr wr = read(0, 0, SIRDMA_MAX_MSG_SIZE);
		wr.op = op;
		l->a.post(wr);
		Wc wc = wait_send(l->a);
		if (op == SIRDMA_OP_READ) // the target notices first
			expect_error(wc, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		else
			EXPECT_TRUE(wc.error);
		EXPECT_TRUE(silent(l->a));
	}
}

TEST_F(Reads, OldRefusalsHarmNothing)
{
	auto l = link();
	u32 psn = l->a.opts.a_psn;
	l->a.post(read(0, 0, 10 * 1024));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	u32 next = psn + 10;
	// Unanswered work: neither what was finished before nor what was never asked can be refused.
	silence(next + 200);
	l->a.post(read(0, 1 << 20, 300 * 1024));
	settle(100'000);
	for (u32 old : {psn, psn + 5, psn + 9, next - 0x200000, next + 0x200000})
		answer(*l, old, nak_access);
	answer(*l, next, nak_access); // of a request answered in full
	answer(*l, next + 127, nak_access);
	answer(*l, next + 130, nak_sequence); // a sequence error is one at the oldest PSN only
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
	fabric.set_filter(nullptr);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(1 << 20), 300 * 1024), 0);
}

TEST_F(Reads, EachResponseRestoresTheRetryCount)
{
	QpOptions o;
	o.retry_cnt = 1;
	o.timeout = 9;
	auto l = link(o);
	u32 seen = 0;
	// Of each answer only the first packet arrives.
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &a.host) {
			seen = 0;
			return Verdict::pass;
		}
		return pkt.opcode() >= SIRDMA_BTH_READ_RESP_FIRST && seen++ ? Verdict::drop :
									      Verdict::pass;
	});
	b.mem->fill(17);
	l->a.post(read(0, 0, 40 * 1024));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), 40 * 1024), 0);
}

// What was asked is what will come: a requester that has seen losses asks for less at a time.
TEST_F(Reads, PiecesFollowTheWindow)
{
	QpOptions o;
	o.timeout = 9;
	auto l = link(o);
	u32 most = 0;
	bool lossy = true;
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &a.host && pkt.opcode() == SIRDMA_BTH_READ_REQUEST)
			most = std::max(most, pkt.be32(pkt.bth + 12 + 12));
		return lossy && &from == &b.host ? Verdict::drop : Verdict::pass;
	});
	b.mem->fill(18);
	l->a.post(read(0, 0, 1 << 20));
	ASSERT_TRUE(fabric.run_until([&] { return a.stat(SIRDMA_STAT_ACK_TIMEOUTS) >= 3; },
				     1'000'000'000));
	most = 0;
	ASSERT_TRUE(fabric.run_until([&] { return a.stat(SIRDMA_STAT_ACK_TIMEOUTS) >= 5; },
				     1'000'000'000));
	EXPECT_LE(most, 16u * 1024);
	EXPECT_GT(most, 0u);
	lossy = false;
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), 1 << 20), 0);
	// Without losses the pieces grow again.
	most = 0;
	for (int i = 0; i < 16; i++) {
		l->a.post(read(0, 0, 1 << 20));
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	}
	EXPECT_GE(most, 64u * 1024);
}

// A host may ask for shorter READ requests, which need more of them under way.
TEST_F(Reads, AreAsShortAsTheHostWishesIfEnoughMayBeUnderWay)
{
	struct Case {
		u32 wished;
		u8 ord;
		u32 longest;
	};
	for (const Case &c : {Case{0, 16, SNIC_READ_CHUNK}, Case{65536, 16, 65536},
			      Case{65536, 15, SNIC_READ_CHUNK}, Case{1 << 20, 16, SNIC_READ_CHUNK},
			      Case{100, 16, 1024}}) {
		SCOPED_TRACE(testing::Message() << c.wished << " bytes, ord " << int{c.ord});
		HostOptions ho;
		ho.cfg.read_bytes = c.wished;
		Node reader(fabric, 3, false, ho);
		reader.learn(b);
		EXPECT_EQ(b.drv.set_arp(0, reader.mac().data()), SIRDMA_CQP_OK);
		QpOptions o;
		o.ord = o.ird = c.ord;
		Link l(reader, b, o, o);
		u32 longest = 0;
		fabric.set_filter([&](TestHost &from, Packet &pkt) {
			if (&from == &reader.host && pkt.opcode() == SIRDMA_BTH_READ_REQUEST)
				longest = std::max(longest, pkt.be32(pkt.bth + 12 + 12));
			return Verdict::pass;
		});
		b.mem->fill(19);
		// The window grows to its largest with the first ones.
		for (int i = 0; i < 4; i++) {
			longest = 0;
			l.a.post({.op = SIRDMA_OP_READ,
				  .sges = {reader.sge(0, 1 << 20)},
				  .remote = b.va(0),
				  .rkey = b.mr.stag()});
			expect_ok(wait_send(l.a), SIRDMA_OP_READ);
		}
		EXPECT_EQ(longest, c.longest);
		EXPECT_EQ(memcmp(reader.data(), b.data(), 1 << 20), 0);
		fabric.set_filter(nullptr);
	}
}

TEST_F(Reads, NoMoreOutstandingThanAgreed)
{
	for (u8 ord : {1, 2, 3, 16}) {
		SCOPED_TRACE(static_cast<int>(ord));
		QpOptions o;
		o.ord = o.ird = ord;
		o.timeout = 9;
		auto l = link(o);
		u64 naks = b.stat(SIRDMA_STAT_NAK_INV_REQ_SENT);
		fabric.faults().loss = 0.02;
		for (int i = 0; i < 4; i++)
			l->a.place(read(0, 0, 700 * 1024));
		l->a.kick(true);
		for (int i = 0; i < 4; i++)
			expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		EXPECT_EQ(b.stat(SIRDMA_STAT_NAK_INV_REQ_SENT), naks);
		fabric.faults().loss = 0;
		settle();
	}
}

// Repetitions of pieces of every size meet what the responder did and did not get of the first try.
TEST_F(Reads, LongOnesOverABadLink)
{
	static constexpr u16 mtus[] = {256, 512, 1024, 2048, 4096};

	b.mem->fill(19);
	for (u64 seed = 1; seed <= 60 && !HasFailure(); seed++) {
		SCOPED_TRACE("seed " + std::to_string(seed));
		std::mt19937_64 rng(seed);
		auto &f = fabric.faults();
		QpOptions o;

		fabric.rng().seed(seed);
		o.mtu = mtus[rng() % 5];
		o.a_psn = rng() % 2 ? 0xffffff - rng() % 500 : rng() & 0xffffff;
		o.ord = o.ird = static_cast<u8>(1 + rng() % 16);
		o.timeout = 9;
		f = {};
		f.loss = static_cast<double>(rng() % 50) / 1000;
		f.reorder = rng() % 3 ? 0 : static_cast<double>(rng() % 30) / 1000;
		f.duplicate = rng() % 3 ? 0 : static_cast<double>(rng() % 50) / 1000;
		auto l = link(o);
		std::vector<std::array<size_t, 3>> ops; // to, from, length
		for (size_t i = 0; i < 4; i++) {
			ops.push_back({i << 19, rng() % (2 << 20), rng() % (300 << 10)});
			l->a.place(read(ops[i][0], ops[i][1], static_cast<u32>(ops[i][2])));
		}
		l->a.kick(true);
		for (auto [to, from, len] : ops) {
			expect_ok(wait_send(l->a), SIRDMA_OP_READ);
			EXPECT_EQ(memcmp(a.data(to), b.data(from), len), 0);
		}
		f = {};
		settle(); // nothing of this run may reach the next
	}
}

// What soft-RoCE does with READ requests: it keeps the newest few; a repeated request must lie
// within one of them, and moves that one's start to its own. What lies before it is dropped then.
// An empty one must have the key 0 when repeated, and be the last thing it was asked for.
class SoftRoce {
public:
	SoftRoce(u32 psn, u32 mtu, size_t kept) : epsn_(psn), mtu_(mtu), kept_(kept) {}

	Verdict operator()(const Packet &pkt)
	{
		const size_t reth = pkt.bth + sizeof(sirdma_bth);
		const u64 va = u64{pkt.be32(reth)} << 32 | pkt.be32(reth + 4);
		const u32 key = pkt.be32(reth + 8);
		const u32 len = pkt.be32(reth + 12), npkts = std::max(1u, (len + mtu_ - 1) / mtu_);

		if (pkt.opcode() != SIRDMA_BTH_READ_REQUEST || distance(epsn_, pkt.psn()) < 0)
			return Verdict::pass;
		if (pkt.psn() == epsn_) {
			requests_.push_back({epsn_, npkts, va, len, len ? key : 0});
			if (requests_.size() > kept_)
				requests_.pop_front();
			epsn_ = (epsn_ + npkts) & 0xffffff;
			return Verdict::pass;
		}
		for (Request &r : requests_) {
			const s32 at = distance(pkt.psn(), r.psn);
			if (at < 0 || at >= static_cast<s32>(r.npkts))
				continue;
			if (va < r.va || len > r.len || va + len > r.va + r.len || key != r.key)
				break;
			if (!r.len && requests_.back().len)
				break;
			r.va = va;
			return Verdict::pass;
		}
		dropped++;
		return Verdict::drop;
	}

	u32 dropped = 0;

private:
	struct Request {
		u32 psn, npkts;
		u64 va, len;
		u32 key;
	};

	static s32 distance(u32 psn, u32 base) { return static_cast<s32>((psn - base) << 8) >> 8; }

	u32 epsn_;
	const u32 mtu_;
	const size_t kept_;
	std::deque<Request> requests_;
};

// A request of four packets whose responses are lost is repeated by halves. The first half gets
// lost, the second one arrives.
TEST_F(Reads, SecondHalfOfARepeatedRequestWaitsForTheFirst)
{
	QpOptions o;
	o.mtu = 1024;
	o.ord = o.ird = 4;
	auto l = link(o);
	SoftRoce peer(l->a.opts.a_psn, o.mtu, o.ird);
	const u32 psn = l->a.opts.a_psn;
	u32 asked = 0, answers = 0;

	b.mem->fill(3);
	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &b.host)
			return answers++ < 16 ? Verdict::drop : Verdict::pass;
		if (answers && pkt.psn() == psn && ++asked % 2)
			return Verdict::drop;
		return peer(pkt);
	});
	for (size_t i = 0; i < 4; i++)
		l->a.place(read(i << 16, i << 16, 16 << 10));
	l->a.kick(true);
	for (size_t i = 0; i < 4; i++) {
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		EXPECT_EQ(memcmp(a.data(i << 16), b.data(i << 16), 16 << 10), 0);
	}
	EXPECT_EQ(peer.dropped, 0u);
	fabric.set_filter(nullptr);
}

// The response to an empty READ is lost, other requests follow it, perhaps behind a NOP.
TEST_F(Reads, EmptyOneIsRepeatedWithoutAKeyAndAlone)
{
	for (const bool nop : {false, true}) {
		SCOPED_TRACE(nop);
		QpOptions o;
		auto l = link(o);
		SoftRoce peer(l->a.opts.a_psn, o.mtu, o.ird);
		u32 answers = 0;

		fabric.set_filter([&](TestHost &from, Packet &pkt) {
			if (&from == &b.host)
				return answers++ ? Verdict::pass : Verdict::drop;
			return peer(pkt);
		});
		l->a.place(read(0, 0, 0));
		if (nop)
			l->a.place({.op = SIRDMA_OP_NOP});
		l->a.place(read(4096, 4096, 1000));
		l->a.kick(true);
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		if (nop)
			expect_ok(wait_send(l->a), SIRDMA_OP_NOP);
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
		EXPECT_EQ(peer.dropped, 0u);
		fabric.set_filter(nullptr);
	}
}

TEST_F(Reads, FromSoftRoceOverABadLink)
{
	b.mem->fill(21);
	for (u64 seed = 1; seed <= 40 && !HasFailure(); seed++) {
		SCOPED_TRACE("seed " + std::to_string(seed));
		std::mt19937_64 rng(seed);
		QpOptions o;

		o.mtu = 1024;
		o.ord = o.ird = static_cast<u8>(1 + rng() % 16);
		o.timeout = 9;
		auto l = link(o);
		SoftRoce peer(l->a.opts.a_psn, o.mtu, o.ird);
		const u64 loss = rng() % 30;
		fabric.set_filter([&](TestHost &from, Packet &pkt) {
			if (rng() % 1000 < loss)
				return Verdict::drop;
			return &from == &a.host ? peer(pkt) : Verdict::pass;
		});
		std::vector<std::array<size_t, 3>> ops; // to, from, length
		for (size_t i = 0; i < 4; i++) {
			const size_t len = rng() % 3 ? rng() % (300 << 10) : 0;
			ops.push_back({i << 19, rng() % (2 << 20), len});
			l->a.place(read(ops[i][0], ops[i][1], static_cast<u32>(len)));
		}
		l->a.kick(true);
		for (auto [to, from, len] : ops) {
			expect_ok(wait_send(l->a), SIRDMA_OP_READ);
			EXPECT_EQ(memcmp(a.data(to), b.data(from), len), 0);
		}
		fabric.set_filter(nullptr);
		settle();
	}
}

// Packets that arrive for the responder wait for its lock while payload is copied under it.
TEST_F(Reads, AreAnsweredWithTwoBurstsUnderOneHoldOfTheLock)
{
	auto l = link();
	const u32 burst = SNIC_BURST_DEFAULT >> 10; // packets of 1 KiB

	ASSERT_EQ(l->b.opts.mtu, 1024u);
	l->a.post(read(0, 0, 1 << 20)); // which opens the window
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	b.host.set_room(false);
	l->a.post(read(0, 1 << 20, 512 << 10));
	settle(1'000'000);

	const u64 before = b.stat(SIRDMA_STAT_TX_PKTS);

	b.host.set_room(true);
	ASSERT_TRUE(b.host.run_deferred()); // the resumption
	EXPECT_GT(b.stat(SIRDMA_STAT_TX_PKTS) - before, (SNIC_HOLD_BURSTS - 1) * burst);
	EXPECT_LE(b.stat(SIRDMA_STAT_TX_PKTS) - before, SNIC_HOLD_BURSTS * burst);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(0), b.data(1 << 20), 512 << 10), 0);
}

// Sixteen queue pairs read at once what their machine's receive buffer cannot hold by far.
class Incast : public ::testing::TestWithParam<u32> {
protected:
	static constexpr u32 qps = 16, reads = 3, most = 1 << 20;
};

TEST_P(Incast, ReadsComeThroughASmallReceiveBuffer)
{
	for (u64 seed = 1; seed <= 3; seed++) {
		SCOPED_TRACE("seed " + std::to_string(seed));
		Fabric fabric(seed);
		Node a(fabric, 1, false, {}, qps * most), b(fabric, 2, false, {}, 2 * most);
		QpOptions o;
		std::vector<std::unique_ptr<Link>> links;
		std::vector<std::pair<u32, size_t>> asked; // length, from
		u32 done[qps] = {};
		u64 bytes = 0;

		a.learn(b);
		b.learn(a);
		b.mem->fill(static_cast<u32>(seed));
		fabric.faults().rx_bytes = GetParam();
		fabric.faults().rx_ns_per_kib = 300;
		for (u32 i = 0; i < qps; i++)
			links.push_back(std::make_unique<Link>(a, b, o, o));
		for (u32 i = 0; i < qps * reads; i++) {
			u32 len = (64 << fabric.rng()() % 5) * 1024;
			asked.emplace_back(len, fabric.rng()() % most);
			bytes += len;
		}
		for (u32 n = 0; n < reads; n++) {
			for (u32 i = 0; i < qps; i++) {
				auto [len, from] = asked[i * reads + n];
				links[i]->a.post({.op = SIRDMA_OP_READ,
						  .sges = {a.sge(i * most, len)},
						  .remote = b.va(from),
						  .rkey = b.mr.stag()});
			}
		}
		u32 left = qps * reads;
		EXPECT_TRUE(fabric.run_until(
			[&] {
				for (u32 i = 0; i < qps && left; i++) {
					while (auto wc = links[i]->a.poll(true)) {
						EXPECT_FALSE(wc->error) << "minor " << wc->minor;
						done[i]++;
						left = wc->error ? 0 : left - 1;
					}
				}
				return !left;
			},
			60'000'000'000ull));
		for (u32 i = 0; i < qps && !HasFailure(); i++) {
			auto [len, from] = asked[i * reads + reads - 1];
			EXPECT_EQ(memcmp(a.data(i * most), b.data(from), len), 0);
		}
		EXPECT_GT(fabric.overruns(), 0u) << "the buffer was large enough";
		u64 needed = bytes / 1024;
		EXPECT_LT(fabric.packets_sent(), 3 * needed) << "mostly sent in vain";
		printf("buffer %u: %llu packets for %llu, %llu overruns, %llu timeouts, %.1f ms\n",
		       GetParam(), static_cast<unsigned long long>(fabric.packets_sent()),
		       static_cast<unsigned long long>(needed),
		       static_cast<unsigned long long>(fabric.overruns()),
		       static_cast<unsigned long long>(a.stat(SIRDMA_STAT_ACK_TIMEOUTS)),
		       static_cast<double>(fabric.clock()->now()) / 1e6);
	}
}

INSTANTIATE_TEST_SUITE_P(Buffers, Incast, ::testing::Values(24u << 10, 64u << 10, 208u << 10),
			 [](const auto &info) { return std::to_string(info.param >> 10) + "KiB"; });

} // namespace
