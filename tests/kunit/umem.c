// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Page lists of pinned memory, which is made by hand here. */
#include <kunit/test.h>
#include <linux/scatterlist.h>
#include "drv/umem.c"

#define MAX_BLOCKS 64

/* Stand-in for the PBLE allocator: remembers what was written. */
static struct {
	u64 addr[MAX_BLOCKS];
	u32 written;
	u32 allocated;
	int fail;
} list;

int sirdma_pbl_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl)
{
	if (list.fail)
		return list.fail;
	list.allocated = count;
	pbl->level = 1;
	pbl->count = count;
	return 0;
}

void sirdma_pbl_set_contiguous(struct sirdma_pbl *pbl, u64 addr, u32 count)
{
	pbl->level = 0;
	pbl->addr = addr;
	pbl->count = count;
}

/* Each entry stands alone here, and is asked for in turn. */
__le64 *sirdma_pbl_entries(struct sirdma_hw *hw, const struct sirdma_pbl *pbl, u32 i, u32 *n)
{
	if (i >= MAX_BLOCKS || i != list.written)
		return NULL;
	*n = 1;
	return (__le64 *)&list.addr[list.written++];
}

struct piece {
	u64 addr;
	u32 len;
};

struct fixture {
	struct sirdma_dev *dev;
	struct ib_umem umem;
	struct sirdma_pbl pbl;
};

/* @n pieces of memory pinned for user address @start. */
static struct fixture *pinned(struct kunit *test, u64 start, const struct piece *pieces, u32 n)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct scatterlist *sg;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->dev = kunit_kzalloc(test, sizeof(*f->dev), GFP_KERNEL);
	sg = kunit_kcalloc(test, n, sizeof(*sg), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->dev);
	KUNIT_ASSERT_NOT_NULL(test, sg);
	memset(&list, 0, sizeof(list));
	sg_init_table(sg, n);
	f->umem.address = start;
	f->umem.iova = start;
	f->umem.sgt_append.sgt.sgl = sg;
	f->umem.sgt_append.sgt.nents = n;
	f->umem.sgt_append.sgt.orig_nents = n;
	for (i = 0; i < n; i++) {
		sg_dma_address(&sg[i]) = pieces[i].addr;
		sg_dma_len(&sg[i]) = pieces[i].len;
		sg[i].length = pieces[i].len;
		f->umem.length += pieces[i].len;
	}
	f->umem.length -= start % PAGE_SIZE;
	return f;
}

static void adjacent_pieces_need_no_list(struct kunit *test)
{
	static const struct piece pieces[] = {{0x100000, 0x3000}, {0x103000, 0x5000}};
	struct fixture *f = pinned(test, 0x7f0000000000, pieces, 2);

	KUNIT_EXPECT_EQ(test, sirdma_umem_to_pbl(f->dev, &f->umem, 12, 8, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.level, 0);
	KUNIT_EXPECT_EQ(test, f->pbl.addr, 0x100000);
	KUNIT_EXPECT_EQ(test, list.written, 0);
}

static void gap_makes_a_list_of_every_block(struct kunit *test)
{
	static const struct piece pieces[] = {
		{0x100000, 0x2000}, {0x104000, 0x1000}, {0x90000, 0x2000}};
	static const u64 want[] = {0x100000, 0x101000, 0x104000, 0x90000, 0x91000};
	struct fixture *f = pinned(test, 0x7f0000000000, pieces, 3);

	KUNIT_EXPECT_EQ(test, sirdma_umem_to_pbl(f->dev, &f->umem, 12, 5, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.level, 1);
	KUNIT_EXPECT_EQ(test, list.allocated, 5);
	KUNIT_EXPECT_EQ(test, list.written, 5);
	KUNIT_EXPECT_MEMEQ(test, list.addr, want, sizeof(want));
}

static void start_within_a_page_counts_the_whole_page(struct kunit *test)
{
	static const struct piece pieces[] = {{0x100000, 0x1000}, {0x200000, 0x1000}};
	static const u64 want[] = {0x100000, 0x200000};
	struct fixture *f = pinned(test, 0x7f0000000123, pieces, 2);

	KUNIT_EXPECT_EQ(test, ib_umem_num_dma_blocks(&f->umem, SZ_4K), 2);
	KUNIT_EXPECT_EQ(test, sirdma_umem_to_pbl(f->dev, &f->umem, 12, 2, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, list.written, 2);
	KUNIT_EXPECT_MEMEQ(test, list.addr, want, sizeof(want));
}

static void large_blocks_are_cut_from_large_pieces(struct kunit *test)
{
	static const struct piece pieces[] = {{SZ_2M * 5ull, SZ_4M}, {SZ_2M * 20ull, SZ_2M}};
	static const u64 want[] = {SZ_2M * 5ull, SZ_2M * 6ull, SZ_2M * 20ull};
	struct fixture *f = pinned(test, 0x7f0000000000, pieces, 2);

	KUNIT_EXPECT_EQ(test, sirdma_umem_to_pbl(f->dev, &f->umem, 21, 3, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, list.written, 3);
	KUNIT_EXPECT_MEMEQ(test, list.addr, want, sizeof(want));
}

static void part_may_be_contiguous_where_the_whole_is_not(struct kunit *test)
{
	static const struct piece pieces[] = {
		{0x900000, 0x1000}, {0x100000, 0x3000}, {0x200000, 0x1000}};
	struct fixture *f = pinned(test, 0x7f0000000000, pieces, 3);
	u64 addr = 0;

	KUNIT_EXPECT_FALSE(test, sirdma_umem_contiguous(&f->umem, 12, 0, 5, &addr));
	KUNIT_EXPECT_FALSE(test, sirdma_umem_contiguous(&f->umem, 12, 0, 2, &addr));
	KUNIT_EXPECT_FALSE(test, sirdma_umem_contiguous(&f->umem, 12, 3, 2, &addr));
	KUNIT_EXPECT_TRUE(test, sirdma_umem_contiguous(&f->umem, 12, 1, 3, &addr));
	KUNIT_EXPECT_EQ(test, addr, 0x100000);
	KUNIT_EXPECT_TRUE(test, sirdma_umem_contiguous(&f->umem, 12, 4, 1, &addr));
	KUNIT_EXPECT_EQ(test, addr, 0x200000);
	/* More than there is. */
	KUNIT_EXPECT_FALSE(test, sirdma_umem_contiguous(&f->umem, 12, 4, 2, &addr));
}

static void no_room_for_the_list_is_told(struct kunit *test)
{
	static const struct piece pieces[] = {{0x100000, 0x1000}, {0x300000, 0x1000}};
	struct fixture *f = pinned(test, 0x7f0000000000, pieces, 2);

	list.fail = -ENOMEM;
	KUNIT_EXPECT_EQ(test, sirdma_umem_to_pbl(f->dev, &f->umem, 12, 2, &f->pbl), -ENOMEM);
	KUNIT_EXPECT_EQ(test, list.written, 0);
}

static void blocks_by_address_need_a_list_where_they_are_apart(struct kunit *test)
{
	static const u64 apart[] = {0x100000, 0x101000, 0x104000, 0x90000};
	static const u64 adjacent[] = {0x100000, 0x101000, 0x102000};
	struct fixture *f = pinned(test, 0, (struct piece[]){{0, 0x1000}}, 1);

	KUNIT_EXPECT_EQ(test, sirdma_blocks_to_pbl(f->dev, adjacent, 3, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.level, 0);
	KUNIT_EXPECT_EQ(test, f->pbl.addr, 0x100000);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.block_shift, SIRDMA_PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, list.written, 0);
	KUNIT_EXPECT_EQ(test, sirdma_blocks_to_pbl(f->dev, apart + 3, 1, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, f->pbl.addr, 0x90000);

	KUNIT_EXPECT_EQ(test, sirdma_blocks_to_pbl(f->dev, apart, 4, &f->pbl), 0);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.level, 1);
	KUNIT_EXPECT_EQ(test, (u32)f->pbl.block_shift, SIRDMA_PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, list.written, 4);
	KUNIT_EXPECT_MEMEQ(test, list.addr, apart, sizeof(apart));

	list.fail = -ENOMEM;
	KUNIT_EXPECT_EQ(test, sirdma_blocks_to_pbl(f->dev, apart, 4, &f->pbl), -ENOMEM);
	KUNIT_EXPECT_EQ(test, list.written, 4);
}

static struct kunit_case umem_cases[] = {
	KUNIT_CASE(adjacent_pieces_need_no_list),
	KUNIT_CASE(gap_makes_a_list_of_every_block),
	KUNIT_CASE(start_within_a_page_counts_the_whole_page),
	KUNIT_CASE(large_blocks_are_cut_from_large_pieces),
	KUNIT_CASE(part_may_be_contiguous_where_the_whole_is_not),
	KUNIT_CASE(no_room_for_the_list_is_told),
	KUNIT_CASE(blocks_by_address_need_a_list_where_they_are_apart),
	{},
};

static struct kunit_suite umem_suite = {
	.name = "sirdma_umem",
	.test_cases = umem_cases,
};
kunit_test_suite(umem_suite);
