// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Fast registration: what a request is refused for, which memory peers reach by the region, and its place in the
// send queue.
#include "transport.hpp"

extern "C" {
#include "model/dev.h"
#include "model/mr.h"
#include "model/qp.h"
}

using namespace sirdma::test;

namespace
{

using Verdict = Fabric::Verdict;

constexpr u32 slot = 40, blocks = 8, page = 4096;
constexpr u64 base = 0x7700'0000'0100; // where peers address it: not the address of any memory
constexpr u32 in_page = base % page;
constexpr u32 all = SIRDMA_ACCESS_LOCAL_WRITE | SIRDMA_ACCESS_REMOTE_READ |
		    SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC;

// b registers, a uses what is registered.
class FastReg : public Transport {
protected:
	FastReg() : first_(alloc(slot)) {}

	// The PBLEs of a new slot.
	u32 alloc(u32 idx, u32 pd = 1)
	{
		const u32 first = b.drv.alloc_pbles(2 * blocks);

		for (u32 i = 0; i < 2 * blocks; i++)
			b.drv.write_pble(first + i, SIRDMA_PBLE_ABSENT);
		EXPECT_EQ(b.drv.alloc_fast(idx << 8, first, blocks, pd), SIRDMA_CQP_OK);
		return first;
	}
	// The list that the driver writes: blocks of b's memory, from @from on, in reverse.
	void list(u32 from, u32 count = blocks) { list_of(first_, from, count); }
	void list_of(u32 first, u32 from, u32 count = blocks)
	{
		for (u32 i = 0; i < count; i++)
			b.drv.write_pble(first + blocks + i, b.mem->blocks()[from + count - 1 - i]);
	}
	// Byte @off of the region, whose list begins with block @from.
	u8 *byte(u32 from, u64 off, u32 count = blocks)
	{
		const u64 at = in_page + off;

		return b.data((from + count - 1 - at / page) * page + at % page);
	}
	static sirdma_fast_reg reg(u8 key = 1, u64 len = 6 * page, u32 idx = slot)
	{
		return {.addr = base,
			.length = len,
			.stag = idx << 8 | key,
			.rights = all,
			.hpage = SIRDMA_HPAGE_4K};
	}
	static Wr wr(const sirdma_fast_reg &what)
	{
		return {.op = SIRDMA_OP_FAST_REG, .reg = what};
	}
	std::unique_ptr<Link> trusted(QpOptions opts = {})
	{
		opts.queue_flags |= SIRDMA_QPC_FAST_REG;
		return link(opts);
	}
	void registered(Qp &qp, const sirdma_fast_reg &what)
	{
		qp.post(wr(what));
		expect_ok(wait_send(qp), SIRDMA_OP_FAST_REG);
	}
	// It fails, and so does its queue pair.
	void refused(const sirdma_fast_reg &what)
	{
		auto l = trusted();
		const u64 before = b.stat(SIRDMA_STAT_MR_BAD_FAST_REG);

		l->b.post(wr(what));
		expect_error(wait_send(l->b), SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_FAST_REG), before + 1);
	}
	// A reads the region and finds the blocks of a list that begins with @from.
	void reads(Link &l, u32 rkey, u32 from, u32 len = 6 * page)
	{
		served(l, SIRDMA_OP_READ, rkey, base, len);
		for (u32 i = 0; i < len; i++)
			ASSERT_EQ(*a.data(i), *byte(from, i)) << i;
	}
	bool usable(u32 stag)
	{
		sirdma_ae_code ae;
		snic_mr *found = snic_mr_get(b.host.dev(), stag, 1, base, 1, 0, &ae);

		if (found)
			snic_mr_put(found);
		return found;
	}

	u32 first_;
};

} // namespace

TEST_F(FastReg, PeersReachTheBlocksOfTheListAndNothingElse)
{
	auto l = trusted();
	const u32 key = reg().stag;

	list(3);
	denied(SIRDMA_OP_READ, key, base, 1);
	registered(l->b, reg());
	reads(*l, key, 3);
	memset(a.data(), 0x5b, 9000);
	served(*l, SIRDMA_OP_WRITE, key, base + 100, 9000);
	for (u32 i = 0; i < 9000; i++)
		ASSERT_EQ(*byte(3, 100 + i), 0x5b) << i;
	served(*l, SIRDMA_OP_FETCH_ADD, key, base, 8);
	served(*l, SIRDMA_OP_READ, key, base + 6 * page - 1, 1);
	denied(SIRDMA_OP_READ, key, base - 1, 1);
	denied(SIRDMA_OP_READ, key, base + 6 * page, 1);
	denied(SIRDMA_OP_READ, key, base + 6 * page - 1, 2);
	EXPECT_FALSE(b.host.dma().violations());
}

TEST_F(FastReg, TheKeyIsThatOfTheRequest)
{
	auto l = trusted();

	list(3);
	for (u8 key : {7, 200, 0}) {
		registered(l->b, reg(key));
		reads(*l, slot << 8 | key, 3);
		denied(SIRDMA_OP_READ, slot << 8 | (key ^ 1), base, 1);
		l->b.post(local_inv(slot << 8 | key));
		expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
		denied(SIRDMA_OP_READ, slot << 8 | key, base, 1);
	}
}

TEST_F(FastReg, RightsAreThoseOfTheRequest)
{
	auto l = trusted();
	sirdma_fast_reg what = reg();

	list(3);
	what.rights = SIRDMA_ACCESS_REMOTE_READ;
	registered(l->b, what);
	reads(*l, what.stag, 3);
	denied(SIRDMA_OP_WRITE, what.stag, base, 8);
	denied(SIRDMA_OP_FETCH_ADD, what.stag, base, 8);
	// Its owner may send from it, and not receive into it.
	l->b.post({.op = SIRDMA_OP_WRITE,
		   .sges = {{base + 5, 8000, what.stag}},
		   .remote = a.va(),
		   .rkey = a.mr.stag()});
	expect_ok(wait_send(l->b), SIRDMA_OP_WRITE);
	for (u32 i = 0; i < 8000; i++)
		ASSERT_EQ(*a.data(i), *byte(3, 5 + i)) << i;
	l->b.post({.op = SIRDMA_OP_READ,
		   .sges = {{base, 8, what.stag}},
		   .remote = a.va(),
		   .rkey = a.mr.stag()});
	EXPECT_TRUE(wait_send(l->b).error);
}

// What the driver writes is for the next registration, whenever it writes it.
TEST_F(FastReg, TheListOfAValidRegionDoesNotChange)
{
	auto l = trusted();

	list(3);
	registered(l->b, reg(1));
	list(100);
	reads(*l, slot << 8 | 1, 3);
	l->b.place(local_inv(slot << 8 | 1));
	l->b.post(wr(reg(2)));
	expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
	expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
	reads(*l, slot << 8 | 2, 100);
}

TEST_F(FastReg, InvalidatedAndRegisteredAThousandTimes)
{
	auto l = trusted();

	list(0);
	registered(l->b, reg(0));
	for (u32 i = 1; i <= 1000; i++) {
		const u32 old = slot << 8 | ((i - 1) & 0xff);

		list(i % 500);
		l->b.place(local_inv(old));
		l->b.post(wr(reg(static_cast<u8>(i), page)));
		expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
		expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
		ASSERT_FALSE(usable(old)) << i;
		reads(*l, slot << 8 | (i & 0xff), i % 500, 64);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_FAST_REG), 0u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(FastReg, ThePeerInvalidatesIt)
{
	auto l = trusted();

	for (u8 key : {1, 2}) {
		list(key);
		registered(l->b, reg(key));
		reads(*l, slot << 8 | key, key);
		l->b.recv({b.sge(0, 64)});
		l->a.post(
			{.op = SIRDMA_OP_SEND_INV, .sges = {a.sge(0, 8)}, .rkey = slot << 8 | key});
		expect_ok(wait_send(l->a), SIRDMA_OP_SEND_INV);
		EXPECT_EQ(wait_recv(l->b).inv, std::optional<u32>(slot << 8 | key));
	}
	denied(SIRDMA_OP_READ, slot << 8 | 2, base, 1);
}

TEST_F(FastReg, RefusedRequestsChangeNothing)
{
	const u32 other_pd = 41, window = 42, too_far = 5000;
	auto l = trusted();
	std::vector<sirdma_fast_reg> wrong(12, reg());

	// Only its domain is wrong; and behind the list of the slot lie addresses that would do.
	const u32 foreign = alloc(other_pd, 2);
	list_of(foreign, 3);
	ASSERT_EQ(foreign, first_ + 2 * blocks);
	for (u32 i = 0; i < blocks; i++)
		b.drv.write_pble(foreign + i, b.mem->blocks()[i]);
	ASSERT_EQ(b.drv.alloc_mw(window, false), SIRDMA_CQP_OK);
	wrong[0].stag = other_pd << 8;
	wrong[1].stag = window << 8;
	wrong[2].stag = b.mr.stag(); // registered by a command
	wrong[3].stag = 43 << 8;
	wrong[4].stag = too_far << 8;
	wrong[5].length = 8 * page - in_page + 1; // nine blocks
	wrong[6].length = 0;
	wrong[7].addr = ~0ull - page;
	wrong[8].rights = SIRDMA_ACCESS_REMOTE_WRITE;
	wrong[9].rights = all | SIRDMA_ACCESS_BIND_WINDOW;
	wrong[10].hpage = 3;
	wrong[11].hpage = SIRDMA_HPAGE_2M; // of which the list's addresses are none
	list(3);
	for (const sirdma_fast_reg &what : wrong) {
		SCOPED_TRACE(::testing::Message() << "case " << &what - wrong.data());
		const u64 before = snic_slot_peek(&b.host.dev()->mrs, what.stag >> 8);

		refused(what);
		EXPECT_EQ(snic_slot_peek(&b.host.dev()->mrs, what.stag >> 8), before);
		EXPECT_FALSE(usable(reg().stag));
	}
	// The longest list is served, and an entry within that is no block's address is not.
	const u64 longest = 8 * page - in_page;
	registered(l->b, reg(9, longest));
	reads(*l, slot << 8 | 9, 3, longest);
	refused(reg(10)); // it is valid
	EXPECT_TRUE(usable(slot << 8 | 9));
	EXPECT_FALSE(usable(slot << 8 | 10));
	l->b.post(local_inv(slot << 8 | 9));
	expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
	b.drv.write_pble(first_ + blocks + 2, b.mem->blocks()[0] + 8);
	refused(reg(11));
	EXPECT_FALSE(usable(slot << 8 | 11));
	{
		const DmaSpace::ExpectFaults faults(b.host.dma());

		for (u64 nowhere : {u64{0}, b.host.dma().unmapped_address()}) {
			b.drv.write_pble(first_ + blocks + 2, nowhere);
			refused(reg(11));
			EXPECT_FALSE(usable(slot << 8 | 11));
		}
	}
	list(3);
	registered(l->b, reg(12));
	reads(*l, slot << 8 | 12, 3);
}

TEST_F(FastReg, UsersMayNot)
{
	auto l = link();
	const u64 before = b.stat(SIRDMA_STAT_WQE_INVALID);

	list(3);
	l->b.post(wr(reg()));
	expect_error(wait_send(l->b), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
	EXPECT_EQ(b.stat(SIRDMA_STAT_WQE_INVALID), before + 1);
	EXPECT_FALSE(usable(reg().stag));
}

// What irdma's driver could say by its words and this device does not do.
TEST_F(FastReg, RequestsOfAnotherFormAreInvalid)
{
	list(3);
	for (int form = 0; form < 6; form++) {
		SCOPED_TRACE(form);
		auto l = trusted();
		sirdma_wqe *wqe = l->b.quantum(l->b.place(wr(reg())));

		switch (form) {
		case 0:
			wqe->frag_stag = b.mem->blocks()[0];
			break;
		case 1:
			wqe->remote |= 1ull << 48;
			break;
		case 2:
			wqe->hdr &= ~SIRDMA_WQE_COPY_PBL;
			break;
		case 3:
			wqe->hdr &= ~SIRDMA_WQE_VABASED;
			break;
		case 4:
			wqe->hdr ^= SIRDMA_PREP(SIRDMA_WQE_LPBLSIZE, 3);
			break;
		default:
			wqe->hdr |= SIRDMA_WQE_INLINE;
		}
		l->b.kick();
		expect_error(wait_send(l->b), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
		EXPECT_FALSE(usable(reg().stag));
	}
}

TEST_F(FastReg, DatagramQueuePairsHaveNone)
{
	auto l = trusted({.type = SIRDMA_QPT_UD});

	list(3);
	l->b.post(wr(reg()));
	expect_error(wait_send(l->b), SIRDMA_FLUSH_LOC_QP_OP, SIRDMA_VENDOR_LOC_QP_OP);
}

TEST_F(FastReg, UnreliableConnectionsRegisterToo)
{
	auto l = trusted({.type = SIRDMA_QPT_UC});

	list(3);
	registered(l->b, reg());
	memset(a.data(), 0x5e, 3000);
	served(*l, SIRDMA_OP_WRITE, reg().stag, base, 3000);
	settle();
	for (u32 i = 0; i < 3000; i++)
		ASSERT_EQ(*byte(3, i), 0x5e) << i;
}

// It does not wait for answers to what precedes it, completes behind it, and is not repeated with it.
TEST_F(FastReg, KeepsItsPlaceInTheQueueAndCostsNoRoundTrip)
{
	auto l = trusted();
	bool deaf = true;

	fabric.set_filter([&](TestHost &from, Packet &) {
		return &from == &b.host && deaf ? Verdict::drop : Verdict::pass;
	});
	list(3);
	for (int i = 0; i < 2; i++)
		l->a.recv({a.sge(page, 64)});
	l->b.place({.op = SIRDMA_OP_SEND, .sges = {b.sge(0, 8)}});
	l->b.place(wr(reg()));
	l->b.post({.op = SIRDMA_OP_SEND, .sges = {{base, 8, reg().stag}}});
	EXPECT_TRUE(usable(reg().stag));
	settle();
	EXPECT_FALSE(l->b.poll(true));
	deaf = false;
	for (u8 op : {SIRDMA_OP_SEND, SIRDMA_OP_FAST_REG, SIRDMA_OP_SEND})
		expect_ok(wait_send(l->b), op);
	EXPECT_GT(b.stat(SIRDMA_STAT_RETRANSMITS), 0u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_FAST_REG), 0u);
	EXPECT_EQ(memcmp(a.data(page), byte(3, 0), 8), 0);
}

TEST_F(FastReg, WaitsForTheFence)
{
	auto l = trusted();
	bool deaf = true;
	Wr fenced = wr(reg());

	fabric.set_filter([&](TestHost &from, Packet &) {
		return &from == &a.host && deaf ? Verdict::drop : Verdict::pass;
	});
	list(3);
	fenced.fence = true;
	l->b.place({.op = SIRDMA_OP_READ,
		    .sges = {b.sge(0, 8)},
		    .remote = a.va(),
		    .rkey = a.mr.stag()});
	l->b.post(fenced);
	settle();
	EXPECT_FALSE(usable(reg().stag));
	deaf = false;
	expect_ok(wait_send(l->b), SIRDMA_OP_READ);
	expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
}

// Each of many slots again and again, in one queue, with losses: a key is sent to the peer behind its registration.
TEST_F(FastReg, ManyAreInFlight)
{
	constexpr u32 slots = 48, rounds = 8, first_idx = 60;
	auto l = trusted({.sq_quanta = 1024});
	std::vector<u32> first(slots);

	fabric.faults().loss = 0.05;
	for (u32 i = 0; i < slots; i++)
		first[i] = alloc(first_idx + i);
	for (u32 round = 0; round < rounds; round++) {
		for (u32 i = 0; i < slots; i++) {
			const u32 idx = first_idx + i, key = round << 4 | (i & 15);

			list_of(first[i], (round * slots + i) % 600);
			if (round)
				l->b.place(local_inv(idx << 8 | ((round - 1) << 4 | (i & 15))));
			l->b.place(wr(reg(static_cast<u8>(key), page, idx)));
			l->b.place({.op = SIRDMA_OP_WRITE,
				    .sges = {{base, 16, idx << 8 | key}},
				    .remote = a.va(i * 16),
				    .rkey = a.mr.stag()});
		}
		l->b.kick();
		for (u32 i = 0; i < slots; i++) {
			if (round)
				expect_ok(wait_send(l->b), SIRDMA_OP_LOCAL_INV);
			expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
			expect_ok(wait_send(l->b), SIRDMA_OP_WRITE);
		}
		for (u32 i = 0; i < slots; i++)
			ASSERT_EQ(memcmp(a.data(i * 16), byte((round * slots + i) % 600, 0), 16), 0)
				<< round << ' ' << i;
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_MR_BAD_FAST_REG), 0u);
}

// More than the queue pair remembers messages: none of them has an answer.
TEST_F(FastReg, ManyInARow)
{
	constexpr u32 slots = 300, first_idx = 200;
	auto l = trusted({.sq_quanta = 1024});

	for (u32 i = 0; i < slots; i++) {
		list_of(alloc(first_idx + i), i);
		l->b.place(wr(reg(5, page, first_idx + i)));
	}
	l->b.kick();
	for (u32 i = 0; i < slots; i++)
		expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
	reads(*l, (first_idx + slots - 1) << 8 | 5, slots - 1, page);
}

TEST_F(FastReg, AKickExecutesAFewAndTheBottomHalfTheOthers)
{
	constexpr u32 slots = 120, first_idx = 200;
	const u32 few = SNIC_RUN_HOLDS * SNIC_HOLD_BURSTS * 8; // of one run of the queue pair
	auto l = trusted({.sq_quanta = 1024});
	u32 done = 0;

	for (u32 i = 0; i < slots; i++) {
		list_of(alloc(first_idx + i), i);
		l->b.place(wr(reg(5, page, first_idx + i)));
	}
	l->b.kick();
	for (u32 i = 0; i < slots; i++)
		done += usable((first_idx + i) << 8 | 5);
	EXPECT_GT(done, 0u);
	EXPECT_LE(done, few);
	for (u32 i = 0; i < slots; i++)
		expect_ok(wait_send(l->b), SIRDMA_OP_FAST_REG);
}

TEST_F(FastReg, TheErrorStateRegistersNothing)
{
	auto l = trusted();

	list(3);
	l->b.error();
	l->b.place(wr(reg()));
	l->b.kick(true);
	EXPECT_EQ(wait_send(l->b).minor, SIRDMA_FLUSH_GENERAL);
	EXPECT_FALSE(usable(reg().stag));
	registered(trusted()->b, reg());
}

// Neither list begins where a page of HMC space does, or ends there.
TEST_F(FastReg, ListsOfSeveralPagesOfHmcSpace)
{
	constexpr u32 idx = 50, count = 1200;
	auto l = trusted();
	const u32 first = b.drv.alloc_pbles(2 * count);

	ASSERT_NE(first % 512, 0u);
	ASSERT_NE((first + count) % 512, first % 512);
	ASSERT_EQ(b.drv.alloc_fast(idx << 8, first, count), SIRDMA_CQP_OK);
	for (u32 i = 0; i < count; i++) {
		b.drv.write_pble(first + count + i, b.mem->blocks()[i * 7 % 600]);
		b.drv.write_pble(first + i, SIRDMA_PBLE_ABSENT);
	}
	registered(l->b, reg(3, u64{count} * page - in_page, idx));
	for (u32 i = 0; i < count; i++) {
		served(*l, SIRDMA_OP_READ, idx << 8 | 3, base + i * page, 8);
		ASSERT_EQ(memcmp(a.data(), b.data(i * 7 % 600 * page + in_page), 8), 0) << i;
	}
}

TEST_F(FastReg, LargeBlocks)
{
	auto l = trusted();
	UserMemory large(b.host.dma(), 4 << 20, 21);
	sirdma_fast_reg what = reg();

	what.addr = base + (1 << 20);
	what.length = 2 << 20;
	what.hpage = SIRDMA_HPAGE_2M;
	for (u32 i = 0; i < 2; i++)
		b.drv.write_pble(first_ + blocks + i, large.blocks()[i]);
	large.fill(9);
	registered(l->b, what);
	const u64 offset = what.addr & ((2 << 20) - 1);
	const u64 at = (2 << 20) - offset - 3000; // of the end of the first block
	served(*l, SIRDMA_OP_READ, what.stag, what.addr + at, 6000);
	EXPECT_EQ(memcmp(a.data(), large.data() + offset + at, 6000), 0);
}

TEST_F(FastReg, SlotsNameWhatTheDeviceHas)
{
	const u32 count = b.host.dev()->hmc.pble_count;

	EXPECT_EQ(b.drv.alloc_fast(50 << 8, count - 16, 9), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(b.drv.alloc_fast(50 << 8, 0x0fffffff, 1), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(b.drv.alloc_fast(50 << 8, 0, 0x0fffffff), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(b.drv.alloc_fast(50 << 8, 0, 8, 0xfffff), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(b.drv.alloc_fast(0, 0, 8), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(b.drv.alloc_fast(50 << 8, count - 16, 8), SIRDMA_CQP_OK);
	EXPECT_EQ(b.drv.alloc_fast(50 << 8, count - 16, 8), SIRDMA_CQP_IN_USE);
}

// By its index, since the driver does not know its key.
TEST_F(FastReg, ValidRegionIsDeallocated)
{
	auto l = trusted();

	list(3);
	registered(l->b, reg(77));
	reads(*l, slot << 8 | 77, 3);
	EXPECT_EQ(b.drv.dealloc_stag(slot << 8 | 1), SIRDMA_CQP_OK);
	denied(SIRDMA_OP_READ, slot << 8 | 77, base, 1);
	refused(reg(77));
	EXPECT_EQ(b.drv.dealloc_stag(slot << 8 | 77), SIRDMA_CQP_NO_OBJECT);
}

TEST_F(FastReg, DeviceGoesWithRegisteredRegions)
{
	list(3);
	registered(trusted()->b, reg());
	// The harness destroys the device, and the sanitizer finds what is left.
}
