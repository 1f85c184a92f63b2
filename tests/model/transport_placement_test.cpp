// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// ATOMIC WRITE and FLUSH (IBTA annex A19): executed once, whatever is lost, and with the rights that region
// and queue pair give.
#include "transport.hpp"

extern "C" {
#include "model/packet.h"
#include "model/responder.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u64 initial = 0x1122334455667788, other = 0x99aabbccddeeff00;

u64 value(const u8 *p)
{
	u64 out;

	memcpy(&out, p, sizeof(out));
	return out;
}

void put16(Packet &pkt, size_t at, size_t value)
{
	pkt.bytes[at] = static_cast<u8>(value >> 8);
	pkt.bytes[at + 1] = static_cast<u8>(value);
}

// Make the lengths and the checksum in the headers of IPv4 and UDP those of a packet that was cut or extended.
void fit_headers(Packet &pkt)
{
	u32 sum = 0;

	put16(pkt, pkt.bth - 4, pkt.bytes.size() - pkt.bth + 8);
	put16(pkt, pkt.ip + 2, pkt.bytes.size() - pkt.ip);
	put16(pkt, pkt.ip + 10, 0);
	for (size_t at = pkt.ip; at < pkt.bth - 8; at += 2)
		sum += u32{pkt.bytes[at]} << 8 | pkt.bytes[at + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put16(pkt, pkt.ip + 10, ~(sum + (sum >> 16)) & 0xffff);
}

class Placement : public Transport {
protected:
	Placement()
	{
		memcpy(b.data(), &initial, sizeof(initial));
		memcpy(a.data(), &other, sizeof(other));
	}
	u64 remote(size_t at = 0) { return value(b.data(at)); }
	// Write the eight bytes at @from of the requester's memory to @at.
	Wr store(size_t from = 0, size_t at = 0)
	{
		return {.op = SIRDMA_OP_ATOMIC_WRITE,
			.sges = {a.sge(from, 8)},
			.remote = b.va(at),
			.rkey = b.mr.stag()};
	}
	Wr store_inline(u64 what, size_t at = 0)
	{
		Wr wr = store(0, at);

		wr.sges = {};
		wr.is_inline = true;
		wr.inl.resize(sizeof(what));
		memcpy(wr.inl.data(), &what, sizeof(what));
		return wr;
	}
	// Drop the first @n packets of @from with @opcode.
	void lose(Node &from, u8 opcode, u32 n)
	{
		fabric.set_filter(
			[host = &from.host, opcode, n](TestHost &sender, Packet &pkt) mutable {
				if (&sender != host || pkt.opcode() != opcode || !n)
					return Verdict::pass;
				n--;
				return Verdict::drop;
			});
	}
	// @wr fails with these codes, and changes nothing.
	void refused(const Wr &wr, u16 minor, u32 vendor, const QpOptions &opts = {})
	{
		auto l = link(opts);

		l->a.post(wr);
		expect_error(wait_send(l->a), minor, vendor);
		EXPECT_EQ(remote(), initial);
	}
	void invalid(const Wr &wr, const QpOptions &opts = {})
	{
		refused(wr, SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ, opts);
	}
	void denied_access(const Wr &wr)
	{
		refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
	}
	// Post @wr; its first packet is changed on its way. It fails as an invalid request.
	template <typename Change> void spoiled(const Wr &wr, Change change)
	{
		bool first = true;

		fabric.set_filter([&](TestHost &from, Packet &pkt) {
			if (&from == &a.host && first) {
				first = false;
				change(pkt);
				seal(pkt);
			}
			return Verdict::pass;
		});
		invalid(wr);
		fabric.set_filter(nullptr);
	}
};

class AtomicWrites : public Placement {};

TEST_F(AtomicWrites, WriteFromMemoryAndInline)
{
	const u64 behind = remote(24);
	auto l = link();

	memcpy(a.data(64), &initial, 4);
	memcpy(a.data(72), &other, 4);
	l->a.post(store(0, 0));
	l->a.post(store_inline(~other, 8));
	// From two pieces of memory.
	Wr pieces = store(64, 16);
	pieces.sges = {a.sge(64, 4), a.sge(72, 4)};
	l->a.post(pieces);
	for (int i = 0; i < 3; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(remote(0), other);
	EXPECT_EQ(remote(8), ~other);
	EXPECT_EQ(remote(16), (other & 0xffffffff) << 32 | (initial & 0xffffffff));
	EXPECT_EQ(remote(24), behind);
}

TEST_F(AtomicWrites, AreAnsweredByAnEmptyReadResponse)
{
	auto l = link();

	fabric.record(true);
	l->a.post(store());
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	const auto &sent = fabric.sent();
	ASSERT_EQ(sent.size(), 2u);
	EXPECT_EQ(sent[0].opcode(), SIRDMA_BTH_ATOMIC_WRITE);
	EXPECT_EQ(sent[1].opcode(), SIRDMA_BTH_READ_RESP_ONLY);
	EXPECT_EQ(sent[1].psn(), sent[0].psn());
	EXPECT_EQ(sent[1].bytes.size() - sent[1].bth,
		  sizeof(sirdma_bth) + sizeof(sirdma_aeth) + SIRDMA_ICRC_LEN);
}

TEST_F(AtomicWrites, RequestIsLost)
{
	auto l = link();

	lose(a, SIRDMA_BTH_ATOMIC_WRITE, 3);
	l->a.post(store());
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(remote(), other);
}

// The duplicate is answered, but what the program has written meanwhile stays.
TEST_F(AtomicWrites, LostResponseIsSentAgainAndNothingIsWrittenTwice)
{
	auto l = link();
	const u32 count = l->a.opts.ord;

	lose(b, SIRDMA_BTH_READ_RESP_ONLY, count);
	for (u32 i = 0; i < count; i++)
		l->a.post(store_inline(i + 1, 8 * i));
	ASSERT_TRUE(
		fabric.run_until([&] { return remote(8 * (count - 1)) == count; }, 1'000'000'000));
	for (u32 i = 0; i < count; i++)
		memcpy(b.data(8 * i), &initial, sizeof(initial));
	for (u32 i = 0; i < count; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	for (u32 i = 0; i < count; i++)
		EXPECT_EQ(remote(8 * i), initial) << i;
	EXPECT_GT(b.stat(SIRDMA_STAT_RX_DUPLICATE), 0u);
}

TEST_F(AtomicWrites, NoMoreAreUnansweredThanAgreed)
{
	QpOptions opts;

	opts.ord = 2;
	opts.ird = 2;
	auto l = link(opts);
	u32 asked = 0, answered = 0, most = 0;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		asked += &from == &a.host && (pkt.opcode() == SIRDMA_BTH_ATOMIC_WRITE ||
					      pkt.opcode() == SIRDMA_BTH_READ_REQUEST);
		answered += pkt.opcode() == SIRDMA_BTH_READ_RESP_ONLY;
		most = std::max(most, asked - answered);
		return Verdict::pass;
	});
	Wr read = store(4096);
	read.op = SIRDMA_OP_READ;
	for (u32 i = 0; i < 10; i++)
		l->a.post(i % 3 ? store() : read);
	for (u32 i = 0; i < 10; i++)
		expect_ok(wait_send(l->a), i % 3 ? SIRDMA_OP_ATOMIC_WRITE : SIRDMA_OP_READ);
	EXPECT_EQ(most, 2u);
}

TEST_F(AtomicWrites, MoreThanAgreedIsAnInvalidRequest)
{
	QpOptions none;

	none.ird = 0;
	Link l(a, b, {}, none);

	l.a.post(store());
	expect_error(wait_send(l.a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
	EXPECT_EQ(remote(), initial);
}

TEST_F(AtomicWrites, NeedResponsesOfTheirOwn)
{
	QpOptions none;

	none.ord = 0;
	Link l(a, b, none, {});

	l.a.post(store());
	expect_error(wait_send(l.a), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	EXPECT_EQ(remote(), initial);
}

TEST_F(AtomicWrites, ComeInOrderWithOtherOperationsOnABadWire)
{
	auto l = link();
	constexpr u32 rounds = 100;

	fabric.faults().loss = 0.05;
	fabric.faults().reorder = 0.05;
	for (u32 i = 0; i < rounds; i++) {
		l->a.post(store_inline(i, 0));
		l->a.post({.op = SIRDMA_OP_FETCH_ADD,
			   .sges = {a.sge(4096 + 16 * i, 8)},
			   .remote = b.va(),
			   .rkey = b.mr.stag(),
			   .swap_add = 1000});
		l->a.post({.op = SIRDMA_OP_READ,
			   .sges = {a.sge(4096 + 16 * i + 8, 8)},
			   .remote = b.va(),
			   .rkey = b.mr.stag(),
			   .fence = true});
		for (u8 op : {SIRDMA_OP_ATOMIC_WRITE, SIRDMA_OP_FETCH_ADD, SIRDMA_OP_READ})
			expect_ok(wait_send(l->a), op);
		ASSERT_EQ(value(a.data(4096 + 16 * i)), i);
		ASSERT_EQ(value(a.data(4096 + 16 * i + 8)), i + 1000);
	}
	EXPECT_EQ(remote(), rounds - 1 + 1000);
}

// A fence makes the next request wait for the response.
TEST_F(AtomicWrites, FenceWaitsForThem)
{
	auto l = link();

	lose(b, SIRDMA_BTH_READ_RESP_ONLY, ~0u);
	l->a.post(store());
	Wr write = store(4096, 4096);
	write.op = SIRDMA_OP_WRITE;
	write.fence = true;
	const u64 before = remote(4096);
	memcpy(a.data(4096), &other, sizeof(other));
	l->a.post(write);
	settle(10'000'000);
	EXPECT_EQ(remote(), other);
	EXPECT_EQ(remote(4096), before);
	fabric.set_filter(nullptr);
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(remote(4096), other);
}

TEST_F(AtomicWrites, RightsBoundsAndAlignment)
{
	MrParams read_only = b.mr;
	QpOptions no_access;
	Wr wr = store();

	read_only.idx = 9;
	read_only.access &= static_cast<u8>(~SIRDMA_ACCESS_REMOTE_WRITE);
	ASSERT_EQ(b.drv.reg_mr(read_only), SIRDMA_CQP_OK);
	no_access.access = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_ATOMIC;

	for (u64 off : {1, 2, 4, 7}) {
		wr.remote = b.va(off);
		invalid(wr);
	}
	invalid(store(), no_access);
	wr = store();
	wr.rkey = read_only.stag();
	denied_access(wr);
	wr = store();
	wr.rkey ^= 1;
	denied_access(wr);
	wr = store();
	wr.remote = b.mr.va + b.mr.len;
	denied_access(wr);
	wr.remote = b.mr.va - 8;
	denied_access(wr);
}

// Region addresses begin at 0, and its memory in the middle of a word.
TEST_F(AtomicWrites, MemoryOfAZeroBasedRegionMustBeAlignedToo)
{
	MrParams mr = b.mr;
	Wr wr = store();

	mr.idx = 9;
	mr.zero_based = true;
	mr.va = 4;
	mr.len = 4096;
	ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	wr.rkey = mr.stag();
	wr.remote = 8;
	invalid(wr);
}

// The RETH says how long the data is, and the packet has as much: eight bytes.
TEST_F(AtomicWrites, OtherLengthsAreInvalidRequests)
{
	const auto set_length = [](Packet &pkt, u8 len) {
		pkt.bytes[pkt.bth + sizeof(sirdma_bth) + sizeof(sirdma_reth) - 1] = len;
	};
	const auto resize = [&](Packet &pkt, s32 by) {
		const auto end = pkt.bytes.end() - SIRDMA_ICRC_LEN;

		if (by > 0)
			pkt.bytes.insert(end, static_cast<size_t>(by), 0);
		else
			pkt.bytes.erase(end + by, end);
		fit_headers(pkt);
	};

	spoiled(store(), [&](Packet &pkt) { set_length(pkt, 4); });
	spoiled(store(), [&](Packet &pkt) { set_length(pkt, 16); });
	spoiled(store(), [&](Packet &pkt) { resize(pkt, -4); });
	spoiled(store(), [&](Packet &pkt) { resize(pkt, -8); });
	spoiled(store(), [&](Packet &pkt) { resize(pkt, 4); });
	spoiled(store(), [&](Packet &pkt) {
		resize(pkt, -4);
		set_length(pkt, 4);
	});
	spoiled(store(), [&](Packet &pkt) {
		resize(pkt, 1024);
		set_length(pkt, 0);
	});
}

TEST_F(AtomicWrites, OfOtherLengthsAreBadRequests)
{
	for (u32 len : {0u, 4u, 7u, 9u, 16u}) {
		SCOPED_TRACE(len);
		Wr wr = store();

		wr.sges = {a.sge(0, len)};
		refused(wr, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
		wr = store_inline(0);
		wr.inl.resize(len);
		refused(wr, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	}
	Wr wr = store();
	wr.imm = 1;
	refused(wr, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
}

TEST_F(AtomicWrites, ReadLocalMemoryThatMayBeRead)
{
	Wr wr = store();

	wr.sges[0].stag ^= 1;
	refused(wr, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

// The requests behind one whose memory is absent keep their responses apart.
TEST_F(AtomicWrites, AbsentLocalMemoryWaits)
{
	auto l = link();
	const auto page = [&](bool present) {
		a.drv.write_pble(a.mr.first_pble,
				 a.mem->blocks()[0] | (present ? 0 : SIRDMA_PBLE_ABSENT));
	};

	page(false);
	for (size_t i = 0; i < 3; i++)
		l->a.post(store(0, 8 * i));
	settle(2'000'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(remote(), initial);
	page(true);
	for (size_t i = 0; i < 3; i++) {
		expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
		EXPECT_EQ(remote(8 * i), other);
	}
}

TEST_F(AtomicWrites, AbsentMemoryIsNotReady)
{
	auto l = link();
	const auto page = [&](bool present) {
		b.drv.write_pble(b.mr.first_pble,
				 b.mem->blocks()[0] | (present ? 0 : SIRDMA_PBLE_ABSENT));
	};

	page(false);
	l->a.post(store());
	settle(2'000'000);
	EXPECT_TRUE(silent(l->a));
	EXPECT_GT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 0u);
	page(true);
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(remote(), other);
}

// Only an empty response to it completes one.
TEST_F(AtomicWrites, ResponseWithDataIsAnError)
{
	bool change = true;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &b.host && change) {
			change = false;
			pkt.bytes.insert(pkt.bytes.end() - SIRDMA_ICRC_LEN, 8, 0);
			fit_headers(pkt);
			seal(pkt);
		}
		return Verdict::pass;
	});
	auto l = link();
	l->a.post(store());
	expect_error(wait_send(l->a), SIRDMA_FLUSH_LOC_LEN, SIRDMA_VENDOR_LOC_LEN);
}

TEST_F(AtomicWrites, AcknowledgementAloneDoesNotCompleteOne)
{
	bool change = true;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		if (&from == &b.host && change) {
			change = false;
			pkt.bytes[pkt.bth] = SIRDMA_BTH_ACK;
			seal(pkt);
		}
		return Verdict::pass;
	});
	auto l = link();
	l->a.post(store());
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	// It was asked for again.
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_DUPLICATE), 1u);
}

TEST_F(AtomicWrites, OfUnreliableConnectionsAreBadRequests)
{
	QpOptions opts;

	opts.type = SIRDMA_QPT_UC;
	refused(store(), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP, opts);
}

class Flushes : public Placement {
protected:
	Flushes()
	{
		flushed_ = b.mr;
		flushed_.idx = 9;
		flushed_.access |= SIRDMA_ACCESS_REMOTE_FLUSH;
		EXPECT_EQ(b.drv.reg_mr(flushed_), SIRDMA_CQP_OK);
	}
	static QpOptions flush_options()
	{
		QpOptions opts;

		opts.access |= SIRDMA_ACCESS_REMOTE_FLUSH;
		return opts;
	}
	Wr flush(u32 len = 4096, u32 level = SIRDMA_FLUSH_RANGE,
		 u32 placement = SIRDMA_FLUSH_TO_GLOBAL)
	{
		return {.op = SIRDMA_OP_FLUSH,
			.remote = b.va(),
			.rkey = flushed_.stag(),
			.flush = sirdma_flush{
				.length = len, .placement = placement, .level = level}};
	}
	void flushes(const Wr &wr)
	{
		auto l = link(flush_options());

		l->a.post(wr);
		expect_ok(wait_send(l->a), SIRDMA_OP_FLUSH);
	}
	MrParams flushed_;
};

TEST_F(Flushes, OfARangeAndOfARegion)
{
	flushes(flush());
	flushes(flush(static_cast<u32>(b.mr.len)));
	flushes(flush(4, SIRDMA_FLUSH_REGION));
	// An empty range has no bytes that could lie outside.
	Wr wr = flush(0);
	wr.remote = 0;
	flushes(wr);
	// Of a region, address and length mean nothing.
	wr = flush(~0u, SIRDMA_FLUSH_REGION);
	wr.remote = ~0ull;
	flushes(wr);
}

TEST_F(Flushes, HaveTheFormatOfTheStandard)
{
	auto l = link(flush_options());

	fabric.record(true);
	l->a.post(flush(0x1234));
	l->a.post(flush(0x1234, SIRDMA_FLUSH_REGION));
	for (int i = 0; i < 2; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_FLUSH);
	u32 requests = 0, responses = 0;
	for (const Packet &pkt : fabric.sent()) {
		if (pkt.opcode() == SIRDMA_BTH_READ_RESP_ONLY) {
			responses++;
			EXPECT_EQ(pkt.transport().size(), sizeof(sirdma_bth) + sizeof(sirdma_aeth));
			continue;
		}
		ASSERT_EQ(pkt.opcode(), SIRDMA_BTH_FLUSH);
		// FETH, then RETH, and no payload.
		ASSERT_EQ(pkt.transport().size(), sizeof(sirdma_bth) + 4 + sizeof(sirdma_reth));
		EXPECT_EQ(pkt.be32(pkt.bth + 12), requests++ ? 0x11u : 0x01u);
		EXPECT_EQ(pkt.be32(pkt.bth + 24), flushed_.stag());
		EXPECT_EQ(pkt.be32(pkt.bth + 28), 0x1234u);
	}
	EXPECT_EQ(requests, 2u);
	EXPECT_EQ(responses, 2u);
}

TEST_F(Flushes, RequestAndResponseAreLost)
{
	auto l = link(flush_options());

	lose(a, SIRDMA_BTH_FLUSH, 2);
	l->a.post(flush());
	expect_ok(wait_send(l->a), SIRDMA_OP_FLUSH);
	lose(b, SIRDMA_BTH_READ_RESP_ONLY, 2);
	l->a.post(flush());
	expect_ok(wait_send(l->a), SIRDMA_OP_FLUSH);
	EXPECT_GT(b.stat(SIRDMA_STAT_RX_DUPLICATE), 0u);
}

TEST_F(Flushes, ComeInOrderWithOtherOperationsOnABadWire)
{
	auto l = link(flush_options());
	constexpr u32 rounds = 100;

	fabric.faults().loss = 0.05;
	fabric.faults().reorder = 0.05;
	for (u32 i = 0; i < rounds; i++) {
		Wr write = store(4096, 4096);

		write.op = SIRDMA_OP_WRITE;
		write.sges[0].len = 3000;
		a.data(4096)[0] = static_cast<u8>(i);
		l->a.post(write);
		l->a.post(flush());
		l->a.post(store_inline(i));
		for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_FLUSH, SIRDMA_OP_ATOMIC_WRITE})
			expect_ok(wait_send(l->a), op);
		ASSERT_EQ(memcmp(a.data(4096), b.data(4096), 3000), 0);
		ASSERT_EQ(remote(), i);
	}
}

TEST_F(Flushes, NoMoreAreUnansweredThanAgreed)
{
	QpOptions opts = flush_options();

	opts.ord = 2;
	opts.ird = 2;
	auto l = link(opts);
	u32 asked = 0, answered = 0, most = 0;

	fabric.set_filter([&](TestHost &from, Packet &pkt) {
		asked += &from == &a.host && pkt.opcode() == SIRDMA_BTH_FLUSH;
		answered += pkt.opcode() == SIRDMA_BTH_READ_RESP_ONLY;
		most = std::max(most, asked - answered);
		return Verdict::pass;
	});
	for (u32 i = 0; i < 10; i++)
		l->a.post(flush());
	for (u32 i = 0; i < 10; i++)
		expect_ok(wait_send(l->a), SIRDMA_OP_FLUSH);
	EXPECT_EQ(most, 2u);
	fabric.set_filter(nullptr);

	QpOptions none = flush_options();
	none.ird = 0;
	Link refusing(a, b, flush_options(), none);
	refusing.a.post(flush());
	expect_error(wait_send(refusing.a), SIRDMA_FLUSH_REM_INV_REQ, SIRDMA_VENDOR_REM_INV_REQ);
}

TEST_F(Flushes, RightsAndBounds)
{
	const QpOptions opts = flush_options();
	const auto denied_flush = [&](const Wr &wr) {
		refused(wr, SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS, opts);
	};
	Wr wr = flush();

	invalid(wr); // the queue pair has no right to it
	wr.rkey = b.mr.stag(); // nor has this region
	denied_flush(wr);
	wr.flush->length = 0;
	denied_flush(wr);
	wr.flush->level = SIRDMA_FLUSH_REGION;
	denied_flush(wr);
	wr = flush();
	wr.rkey ^= 1;
	denied_flush(wr);
	wr = flush(static_cast<u32>(b.mr.len) + 1);
	denied_flush(wr);
	wr = flush();
	wr.remote = b.mr.va - 1;
	denied_flush(wr);
	wr = flush(~0u);
	wr.remote = ~0ull - 16;
	denied_flush(wr);
}

// No region can be flushed so that its data outlives a loss of power.
TEST_F(Flushes, ForPersistenceAreDenied)
{
	for (u32 level : {SIRDMA_FLUSH_RANGE, SIRDMA_FLUSH_REGION})
		for (u32 placement : {SIRDMA_FLUSH_TO_PERSISTENT,
				      SIRDMA_FLUSH_TO_PERSISTENT | SIRDMA_FLUSH_TO_GLOBAL})
			refused(flush(8, level, placement), SIRDMA_FLUSH_REM_ACCESS,
				SIRDMA_VENDOR_REM_ACCESS, flush_options());
}

// A FETH that asks for nothing that the standard defines. Its reserved bits are ignored.
TEST_F(Flushes, UnknownKindsAreInvalidRequests)
{
	const auto arrives = [&](u32 feth) {
		fabric.set_filter([&, feth](TestHost &from, Packet &pkt) {
			if (&from == &a.host && pkt.opcode() == SIRDMA_BTH_FLUSH) {
				for (size_t i = 0; i < 4; i++)
					pkt.bytes[pkt.bth + 12 + i] =
						static_cast<u8>(feth >> (24 - 8 * i));
				seal(pkt);
			}
			return Verdict::pass;
		});
	};

	for (u32 feth : {0x0u, 0x10u, 0x4u, 0x5u, 0x8u, 0x9u, 0x21u, 0x31u}) {
		SCOPED_TRACE(feth);
		arrives(feth);
		invalid(flush(), flush_options());
	}
	arrives(0xffffffc1);
	flushes(flush());
	fabric.set_filter(nullptr);
}

TEST_F(Flushes, OfUnknownKindsAreBadRequests)
{
	const auto bad = [&](const Wr &wr) {
		refused(wr, SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP, flush_options());
	};

	bad(flush(8, SIRDMA_FLUSH_RANGE, 0));
	bad(flush(8, SIRDMA_FLUSH_RANGE, 5));
	bad(flush(8, SIRDMA_FLUSH_RANGE, 0x80));
	bad(flush(8, SIRDMA_FLUSH_REGION + 1));
	for (u64 spoiled :
	     {SIRDMA_WQE_INLINE, SIRDMA_WQE_IMMDATA_FLAG, SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, 2)}) {
		auto l = link(flush_options());
		const u32 idx = l->a.place(flush());

		l->a.quantum(idx)->hdr |= spoiled;
		l->a.kick();
		expect_error(wait_send(l->a), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	}
	auto l = link(flush_options());
	const u32 idx = l->a.place(flush());
	l->a.quantum(idx)->frag_stag = 1;
	l->a.kick();
	expect_error(wait_send(l->a), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
}

// A window has no right to be flushed, whatever its region has.
TEST_F(Flushes, OfAWindowAreDenied)
{
	MrParams region = flushed_;
	auto l = link(flush_options());

	region.idx = 10;
	region.access |= SIRDMA_ACCESS_BIND_WINDOW;
	ASSERT_EQ(b.drv.reg_mr(region), SIRDMA_CQP_OK);
	ASSERT_EQ(b.drv.alloc_mw(11, true), SIRDMA_CQP_OK);
	l->b.post({.op = SIRDMA_OP_BIND_MW,
		   .bind = sirdma_bind{.addr = b.va(),
				       .length = 4096,
				       .window = 11 << 8 | 1,
				       .region = region.stag(),
				       .rights = SIRDMA_ACCESS_REMOTE_WRITE,
				       .type1 = 1,
				       .zero_based = 0}});
	expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
	Wr wr = flush();
	wr.rkey = 11 << 8 | 1;
	l->a.post(wr);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
}

} // namespace
