// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page requests of regions with sparse page lists: tables may be absent, and the device asks for pages beyond them.
#include "prq.hpp"

using namespace sirdma::test;
using namespace sirdma::test::prq;

namespace
{

// A region of all addresses of the peer. The tests name its addresses as they like, and give them b's memory.
class SparseRequests : public PageRequests {
protected:
	static constexpr u32 per_table = SIRDMA_PBLE_PER_LEAF;
	// The last page but one of what the list can name: all levels of the tree count.
	static constexpr u64 far_page = (1ull << SIRDMA_PBL_SPARSE_BITS) - 2;

	void SetUp() override
	{
		PageRequests::SetUp();
		mr.idx = 9;
		mr.access |= SIRDMA_ACCESS_BIND_WINDOW;
		mr.level = SIRDMA_PBL_LEVEL_SPARSE;
		mr.first_pble = table();
		ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	}
	u32 table()
	{
		const u32 first = b.drv.alloc_pbles(per_table, per_table);

		for (u32 i = 0; i < per_table; i++)
			b.drv.write_pble(first + i, SIRDMA_PBLE_ABSENT);
		return first;
	}
	// Index of the entry for page @page in @table, @level levels above the leaves.
	static u32 entry(u32 table, u64 page, u32 level)
	{
		return table + static_cast<u32>((page >> 9 * level) % per_table);
	}
	// Make the tables above @page, and return its leaf.
	u32 grow(u64 page)
	{
		u32 at = mr.first_pble;

		for (u32 level = 3; level; level--) {
			const u32 next = table();

			b.drv.write_pble(entry(at, page, level), next);
			at = next;
		}
		return at;
	}
	void put(u32 leaf, u64 page, size_t block)
	{
		b.drv.write_pble(entry(leaf, page, 0), b.mem->blocks()[block]);
	}
	Wr far(u8 op, u64 at_page, u32 len)
	{
		return {.op = op,
			.sges = {a.sge(0, len)},
			.remote = at_page * page,
			.rkey = mr.stag()};
	}
	// The first request since then; later ones are repetitions.
	void expect_asked(const Qp &qp, u64 block, u32 count)
	{
		const auto got = at_b.next();

		ASSERT_TRUE(got);
		EXPECT_EQ(got->list, mr.first_pble);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
		EXPECT_EQ(got->count, count);
		EXPECT_FALSE(got->failed);
		while (at_b.next())
			;
	}
	// The peer tries again.
	void again(Link &l)
	{
		while (at_b.next())
			;
		l.b.kick(true);
		settle(100 * ms);
	}
	MrParams mr;
};

} // namespace

// The device asks with whatever levels of tables there are, and finds the page once all of them are.
TEST_F(SparseRequests, AsksUntilTheTablesReachThePage)
{
	auto l = link({.rnr_retry = 7});
	u32 at = mr.first_pble;

	l->a.post(far(SIRDMA_OP_WRITE, far_page, 2 * page));
	settle(ms / 10);
	for (u32 level = 3; level; level--) {
		expect_asked(l->b, far_page, 2);
		const u32 next = table();
		b.drv.write_pble(entry(at, far_page, level), next);
		at = next;
		again(*l);
	}
	expect_asked(l->b, far_page, 2);
	put(at, far_page, 4);
	again(*l);
	expect_asked(l->b, far_page + 1, 1);
	put(at, far_page + 1, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(4 * page), page), 0);
	EXPECT_EQ(memcmp(a.data(page), b.data(2 * page), page), 0);
	b.mem->fill(77);
	l->a.post(far(SIRDMA_OP_READ, far_page, 2 * page));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(4 * page), page), 0);
	EXPECT_EQ(memcmp(a.data(page), b.data(2 * page), page), 0);
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(SparseRequests, MarkAtAnyLevelFailsTheAccess)
{
	for (u32 level = 0; level < 4; level++) {
		auto l = link();
		u32 at = mr.first_pble;

		for (u32 above = 3; above > level; above--) {
			const u32 next = table();
			b.drv.write_pble(entry(at, far_page, above), next);
			at = next;
		}
		l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
		settle(ms / 10);
		expect_asked(l->b, far_page, 1);
		b.drv.write_pble(entry(at, far_page, level), error_of(l->b));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		expect_failure(at_b, l->b, far_page);
		b.drv.write_pble(entry(mr.first_pble, far_page, 3), SIRDMA_PBLE_ABSENT);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(SparseRequests, MarkOfAnotherQueuePairIsNone)
{
	auto l = link(), other = link();

	b.drv.write_pble(entry(mr.first_pble, far_page, 3), error_of(other->b));
	l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
	settle(ms / 10);
	expect_asked(l->b, far_page, 1);
	put(grow(far_page), far_page, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

TEST_F(SparseRequests, EndsWhereTheListEnds)
{
	const u64 end = SIRDMA_PBL_SPARSE_BYTES;

	put(grow(far_page), far_page + 1, 0);
	served(*link(), SIRDMA_OP_WRITE, mr.stag(), end - 10, 10);
	denied(SIRDMA_OP_WRITE, mr.stag(), end - 10, 11);
	denied(SIRDMA_OP_WRITE, mr.stag(), end, 1);
	denied(SIRDMA_OP_WRITE, mr.stag(), ~0ull - 5, 3);
}

// A table is one page of HMC space. Whatever else an entry says is an error of the driver, and harms nobody else.
TEST_F(SparseRequests, TablesThatAreNoneAreFaults)
{
	const u64 bad[] = {mr.first_pble + 4, 1ull << 28, 0xfffffffffffffe00,
			   SIRDMA_CQP_FIRST_PBLE & ~511ull};

	for (u64 entry_value : bad) {
		const u64 faults = b.stat(SIRDMA_STAT_HMC_FAULTS);
		auto l = link();

		b.drv.write_pble(entry(mr.first_pble, far_page, 3), entry_value);
		l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
		EXPECT_TRUE(wait_send(l->a).error);
		EXPECT_GT(b.stat(SIRDMA_STAT_HMC_FAULTS), faults) << std::hex << entry_value;
	}
	// A tree that names itself ends nevertheless: the walk has four steps.
	const u64 self = (1ull << SIRDMA_PBL_SPARSE_BITS) - 1;
	b.drv.write_pble(entry(mr.first_pble, self, 3), mr.first_pble);
	auto l = link();
	l->a.post(far(SIRDMA_OP_WRITE, self, 8));
	settle(ms / 10);
	EXPECT_TRUE(l->a.poll(true) || at_b.next());
}

TEST_F(SparseRequests, MayHaveWindowsFarFromItsBeginning)
{
	const u64 at = (far_page - 1) * page + 100;
	const u32 leaf = grow(far_page);
	u32 idx = 30;

	put(leaf, far_page - 1, 1);
	put(leaf, far_page, 2);
	for (int zero_based : {0, 1}) {
		auto l = link();
		const sirdma_bind bind = {.addr = at,
					  .length = page,
					  .window = idx << 8 | 7,
					  .region = mr.stag(),
					  .rights = SIRDMA_ACCESS_REMOTE_WRITE,
					  .type1 = !zero_based,
					  .zero_based = zero_based};
		const u64 first = zero_based ? 0 : at;

		ASSERT_EQ(b.drv.alloc_mw(idx, !zero_based), SIRDMA_CQP_OK);
		l->b.post({.op = SIRDMA_OP_BIND_MW, .bind = bind});
		expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
		a.mem->fill(idx++);
		served(*l, SIRDMA_OP_WRITE, bind.window, first, page);
		EXPECT_EQ(memcmp(a.data(), b.data(page + 100), page), 0);
		// A window asks for blocks of the region's list.
		b.drv.write_pble(entry(leaf, far_page, 0), SIRDMA_PBLE_ABSENT);
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {a.sge(0, page)},
			   .remote = first,
			   .rkey = bind.window});
		settle(ms / 10);
		expect_asked(l->b, far_page, 1);
		put(leaf, far_page, 2);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		denied(*l, SIRDMA_OP_WRITE, bind.window, first + 1, page);
	}
}

TEST_F(SparseRequests, RegistrationNamesNoPartOfIt)
{
	const auto status = [&](auto change) {
		MrParams p = mr;

		p.idx = 10;
		change(p);
		return b.drv.reg_mr(p);
	};

	EXPECT_EQ(status([](auto &p) { p.len = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.va = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.zero_based = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.all_memory = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.may_fault = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.block_shift = 21; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.replace = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.first_pble++; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([](auto &p) { p.first_pble = 0xffffe00; }), SIRDMA_CQP_BAD_ADDRESS);
	// Nor is it replaced by another one.
	MrParams other = b.mr;
	other.idx = mr.idx;
	other.key = mr.key;
	other.replace = true;
	EXPECT_EQ(b.drv.reg_mr(other), SIRDMA_CQP_BAD_STATE);
	EXPECT_EQ(b.drv.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
}
