// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Regions whose memory may be missing without the driver's knowledge (SIRDMA_CQP_STAG_MAY_FAULT): what is there is moved,
// what is missing fails the access, on the side whose memory it is, and what is busy is asked for again.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr u64 ms = 1'000'000;
constexpr u32 length = 50000;
constexpr size_t size = 1 << 20;
constexpr u32 index_of_region = 9;

class MayFault : public Transport {
protected:
	// Memory at both ends, contiguous for the device, and a region of it.
	struct Area {
		Area(Node &node, u64 seed) : node(node), mem(node.host.dma(), size, 12, true)
		{
			mem.fill(seed);
			mr.idx = index_of_region;
			mr.va = mem.va() + 5;
			mr.len = size - 5;
			mr.access |= SIRDMA_ACCESS_BIND_WINDOW;
			mr.may_fault = true;
			node.drv.describe(mr, mem, 0);
			EXPECT_EQ(node.drv.reg_mr(mr), SIRDMA_CQP_OK);
		}
		Sge sge(size_t at, u32 len) const { return {mr.va + at, len, mr.stag()}; }
		u8 *data(size_t at = 0) { return mem.data() + 5 + at; }

		Node &node;
		UserMemory mem;
		MrParams mr;
	};

	Wr wr(u8 op, size_t from, u32 len, size_t to = 0)
	{
		Wr wr{.op = op, .sges = {mine.sge(from, len)}};

		if (op != SIRDMA_OP_SEND) {
			wr.remote = theirs.mr.va + to;
			wr.rkey = theirs.mr.stag();
		}
		return wr;
	}
	Wr atomic(u8 op, u64 swap_add, u64 compare = 0)
	{
		Wr wr = this->wr(op, 0, 8, 3);

		wr.swap_add = swap_add;
		wr.compare = compare;
		return wr;
	}
	u64 word()
	{
		u64 value;

		memcpy(&value, theirs.data(3), sizeof(value));
		return value;
	}
	void set_word(u64 value) { memcpy(theirs.data(3), &value, sizeof(value)); }
	void moves(Link &l, u8 op, u32 len)
	{
		static u64 seed = 100;

		mine.mem.fill(seed++);
		theirs.mem.fill(seed++);
		if (op == SIRDMA_OP_SEND)
			l.b.recv({theirs.sge(77, len)});
		l.a.post(wr(op, 13, len, 77));
		expect_ok(wait_send(l.a), op);
		if (op == SIRDMA_OP_SEND) {
			EXPECT_EQ(wait_recv(l.b).len, len);
		}
		EXPECT_EQ(memcmp(mine.data(13), theirs.data(77), len), 0) << int{op};
	}

	Area mine{a, 1}, theirs{b, 2};
};

constexpr u8 moving[] = {SIRDMA_OP_SEND, SIRDMA_OP_WRITE, SIRDMA_OP_READ};

} // namespace

TEST_F(MayFault, MovesWhatIsThere)
{
	auto l = link();

	for (u8 op : moving)
		for (u32 len : {1u, 1000u, 4097u, length})
			moves(*l, op, len);
}

TEST_F(MayFault, MovesByReferenceAndWhateverIsLost)
{
	auto l = link();

	fabric.faults() = {.loss = 0.02,
			   .duplicate = 0.02,
			   .merge = 0.5,
			   .by_reference = 0.6,
			   .pull_fails = 0.02};
	for (int i = 0; i < 20; i++)
		for (u8 op : moving)
			moves(*l, op, length);
}

TEST_F(MayFault, PayloadIsCopiedBeforeItIsHandedOver)
{
	auto l = link();

	mine.mem.fill(3);
	std::vector<u8> was(mine.data(), mine.data() + length);
	l->a.post(wr(SIRDMA_OP_WRITE, 0, length));
	fabric.run_for(0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(theirs.data(), was.data(), length), 0);
	// A burst of both kinds of memory.
	a.mem->fill(4);
	l->a.post({.op = SIRDMA_OP_WRITE,
		   .sges = {a.sge(9, 700), mine.sge(0, 900), a.sge(5000, 1)},
		   .remote = theirs.mr.va,
		   .rkey = theirs.mr.stag()});
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(theirs.data(), a.data(9), 700), 0);
	EXPECT_EQ(memcmp(theirs.data(700), mine.data(), 900), 0);
	EXPECT_EQ(theirs.data(1600)[0], a.data(5000)[0]);
}

TEST_F(MayFault, MissingMemoryOfTheSenderFailsItsRequest)
{
	mine.mem.unmap();
	for (u8 op : moving) {
		auto l = link();

		l->b.recv({theirs.sge(0, length)});
		l->a.post(wr(op, 0, length));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	}
	EXPECT_GE(a.stat(SIRDMA_STAT_PAGE_ERRORS), 3u);
}

TEST_F(MayFault, MissingMemoryOfTheReceiverIsItsAccessError)
{
	theirs.mem.unmap();
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		l->a.post(wr(op, 0, length));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
	}
	auto l = link();

	l->b.recv({theirs.sge(0, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP);
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

TEST_F(MayFault, RegionMayComeBeforeItsMemory)
{
	const u64 was = theirs.mr.addr;

	theirs.mem.unmap();
	ASSERT_EQ(b.drv.dealloc_stag(theirs.mr.stag()), SIRDMA_CQP_OK);
	theirs.mr.addr = b.host.dma().unmapped_address(size);
	ASSERT_EQ(b.drv.reg_mr(theirs.mr), SIRDMA_CQP_OK);
	denied(SIRDMA_OP_WRITE, theirs.mr.stag(), theirs.mr.va, 8);
	ASSERT_NE(theirs.mr.addr, was);
}

TEST_F(MayFault, BusyMemoryIsAskedForAgain)
{
	for (u8 op : moving) {
		auto l = link();

		for (Node *node : {&a, &b}) {
			node->host.dma().be_busy(3);
			moves(*l, op, length);
		}
	}
	EXPECT_GT(a.stat(SIRDMA_STAT_MR_ABSENT), 3u);
	EXPECT_GT(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 3u);
	auto l = link();

	set_word(5);
	b.host.dma().be_busy(2);
	l->a.post(atomic(SIRDMA_OP_FETCH_ADD, 3));
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(word(), 8u);
}

TEST_F(MayFault, AtomicsChangeOneWordOrNone)
{
	u64 before;
	auto l = link();

	set_word(5);
	for (u8 op : {SIRDMA_OP_FETCH_ADD, SIRDMA_OP_CMP_SWAP, SIRDMA_OP_CMP_SWAP}) {
		const u64 now = word();

		l->a.post(atomic(op, 7, 12));
		expect_ok(wait_send(l->a), op);
		memcpy(&before, mine.data(), sizeof(before));
		EXPECT_EQ(before, now);
		EXPECT_EQ(word(), op == SIRDMA_OP_FETCH_ADD ? 12 : 7);
	}
	l->a.post(wr(SIRDMA_OP_ATOMIC_WRITE, 0, 8, 3));
	expect_ok(wait_send(l->a), SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(memcmp(mine.data(), theirs.data(3), 8), 0);

	theirs.mem.unmap();
	for (u8 op : {SIRDMA_OP_FETCH_ADD, SIRDMA_OP_CMP_SWAP, SIRDMA_OP_ATOMIC_WRITE}) {
		auto fresh = link();

		fresh->a.post(atomic(op, 7, 12));
		expect_error(wait_send(fresh->a), SIRDMA_FLUSH_REM_ACCESS,
			     SIRDMA_VENDOR_REM_ACCESS);
	}
}

TEST_F(MayFault, AllMemoryHasEveryAddress)
{
	const MrParams all{.idx = 20, .all_memory = true, .may_fault = true};
	const u64 at = theirs.mr.addr + 5;

	ASSERT_EQ(b.drv.reg_mr(all), SIRDMA_CQP_OK);
	auto l = link();

	served(*l, SIRDMA_OP_WRITE, all.stag(), at, length);
	EXPECT_EQ(memcmp(a.data(), theirs.data(), length), 0);
	served(*l, SIRDMA_OP_READ, all.stag(), at, length);
	for (u64 missing : {u64{0}, b.host.dma().unmapped_address(), ~u64{0} - 8})
		denied(SIRDMA_OP_WRITE, all.stag(), missing, 8);
	denied(SIRDMA_OP_WRITE, all.stag(), ~u64{0} - 7, 8);
}

TEST_F(MayFault, WindowsHaveTheirPartAlone)
{
	const MrParams all{.idx = 20,
			   .access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
				     SIRDMA_ACCESS_BIND_WINDOW,
			   .all_memory = true,
			   .may_fault = true};
	u32 idx = 40;

	ASSERT_EQ(b.drv.reg_mr(all), SIRDMA_CQP_OK);
	for (const MrParams &of : {theirs.mr, all}) {
		const u64 at = of.all_memory ? theirs.mr.addr + 5 + 9000 : theirs.mr.va + 9000;
		auto l = link();

		ASSERT_EQ(b.drv.alloc_mw(idx, true), SIRDMA_CQP_OK);
		const sirdma_bind bind = {.addr = at,
					  .length = length,
					  .window = idx << 8 | 1,
					  .region = of.stag(),
					  .rights = SIRDMA_ACCESS_REMOTE_WRITE,
					  .type1 = 1,
					  .zero_based = 0};
		l->b.post({.op = SIRDMA_OP_BIND_MW, .bind = bind});
		expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
		a.mem->fill(idx);
		served(*l, SIRDMA_OP_WRITE, bind.window, at, length);
		EXPECT_EQ(memcmp(a.data(), theirs.data(9000), length), 0);
		denied(SIRDMA_OP_WRITE, bind.window, at + 1, length);
		idx++;
	}
}

TEST_F(MayFault, CommandNamesOneRange)
{
	auto status = [&](auto change) {
		MrParams mr = theirs.mr;
		mr.idx = 30;
		change(mr);
		return b.drv.reg_mr(mr);
	};

	EXPECT_EQ(status([](auto &m) { m.addr += 8; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([](auto &m) { m.addr = ~0ull << 12; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([](auto &m) { m.all_memory = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &) {}), SIRDMA_CQP_OK);
}

TEST_F(MayFault, UnreliableSenderFailsItsRequest)
{
	auto l = link({.type = SIRDMA_QPT_UC});

	moves(*l, SIRDMA_OP_SEND, length);
	mine.mem.unmap();
	l->b.recv({theirs.sge(0, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	settle(10 * ms);
	EXPECT_TRUE(silent(l->b));
}

TEST_F(MayFault, UnreliableReceiverFailsItsReceive)
{
	auto l = link({.type = SIRDMA_QPT_UC});

	theirs.mem.unmap();
	l->b.recv({theirs.sge(0, length)});
	l->a.post(wr(SIRDMA_OP_SEND, 0, length));
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}
