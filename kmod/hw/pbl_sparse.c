// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Sparse page lists. */
#include "pbl_sparse.h"

#include "hw.h"

#define PER_TABLE SIRDMA_PBLE_PER_LEAF
#define TABLE_BITS 9
#define LEAF_SHIFT TABLE_BITS /* of the entries that name leaves */
#define ROOT_SHIFT (SIRDMA_PBL_SPARSE_BITS - TABLE_BITS)

_Static_assert(1u << TABLE_BITS == PER_TABLE, "entries of a table");
_Static_assert(PER_TABLE == SIRDMA_PBLE_PER_PAGE, "a table is one page");

static struct sirdma_pbl table_list(u32 first)
{
	return (struct sirdma_pbl){.first = first, .level = 1, .count = PER_TABLE};
}

/* All entries of a table are contiguous. */
static __le64 *table_entries(struct sirdma_hw *hw, u32 first)
{
	const struct sirdma_pbl list = table_list(first);
	u32 n;

	return sirdma_pbl_entries(hw, &list, 0, &n);
}

static __le64 *table_entry(struct sirdma_hw *hw, u32 table, u64 block, u32 shift)
{
	return table_entries(hw, table) + (block >> shift) % PER_TABLE;
}

/* An index of a table is a multiple of the entries of one. */
static bool names_table(const __le64 *entry)
{
	return !(le64_to_cpu(*entry) & (SIRDMA_PBLE_ABSENT | SIRDMA_PBLE_ERROR));
}

static u32 table_of(const __le64 *entry)
{
	return (u32)SIRDMA_GET(SIRDMA_PBLE_LEAF_IDX, le64_to_cpu(*entry));
}

static bool table_is_empty(struct sirdma_hw *hw, u32 table)
{
	const __le64 *entry = table_entries(hw, table);
	u32 i;

	for (i = 0; i < PER_TABLE; i++)
		if (names_table(entry + i))
			return false;
	return true;
}

static int table_alloc(struct sirdma_hw *hw, bool reclaim, u32 *first)
{
	struct sirdma_pbl list;
	__le64 *entry;
	u32 i;
	int err;

	err = reclaim ? sirdma_pbl_alloc(hw, PER_TABLE, true, &list) :
			sirdma_pbl_try_alloc(hw, PER_TABLE, true, &list);
	if (err)
		return err;
	*first = list.first;
	entry = table_entries(hw, *first);
	for (i = 0; i < PER_TABLE; i++)
		WRITE_ONCE(entry[i], cpu_to_le64(SIRDMA_PBLE_ABSENT));
	return 0;
}

static void table_free(struct sirdma_hw *hw, u32 first)
{
	struct sirdma_pbl list = table_list(first);

	sirdma_pbl_free(hw, &list);
}

static void entry_name(__le64 *entry, u32 table)
{
	/* The device reads the entries of @table after it has read this one. */
	smp_store_release(entry, cpu_to_le64(SIRDMA_PREP(SIRDMA_PBLE_LEAF_IDX, table)));
}

int sirdma_sparse_alloc(struct sirdma_hw *hw, u32 *root)
{
	return table_alloc(hw, true, root);
}

void sirdma_sparse_free(struct sirdma_hw *hw, u32 root)
{
	const __le64 *top = table_entries(hw, root), *low;
	u32 i, j;

	for (i = 0; i < PER_TABLE; i++) {
		if (!names_table(top + i))
			continue;
		low = table_entries(hw, table_of(top + i));
		for (j = 0; j < PER_TABLE; j++)
			if (names_table(low + j))
				table_free(hw, table_of(low + j));
		table_free(hw, table_of(top + i));
	}
	table_free(hw, root);
}

int sirdma_sparse_link(struct sirdma_hw *hw, u32 root, u64 block, const struct sirdma_pbl *leaf)
{
	u32 shift, table = root, next;
	__le64 *entry;
	int err;

	for (shift = ROOT_SHIFT; shift > LEAF_SHIFT; shift -= TABLE_BITS) {
		entry = table_entry(hw, table, block, shift);
		if (!names_table(entry)) {
			err = table_alloc(hw, false, &next);
			if (err)
				return err;
			entry_name(entry, next);
		}
		table = table_of(entry);
	}
	entry_name(table_entry(hw, table, block, LEAF_SHIFT), sirdma_pbl_first(leaf));
	return 0;
}

void sirdma_sparse_unlink(struct sirdma_hw *hw, u32 root, u64 block, struct sirdma_sparse_cut *cut)
{
	__le64 *top = table_entry(hw, root, block, ROOT_SHIFT);
	__le64 *low = table_entry(hw, table_of(top), block, ROOT_SHIFT - TABLE_BITS);
	const __le64 absent = cpu_to_le64(SIRDMA_PBLE_ABSENT);

	cut->count = 0;
	WRITE_ONCE(*table_entry(hw, table_of(low), block, LEAF_SHIFT), absent);
	if (!table_is_empty(hw, table_of(low)))
		return;
	cut->tables[cut->count++] = table_of(low);
	WRITE_ONCE(*low, absent);
	if (!table_is_empty(hw, table_of(top)))
		return;
	cut->tables[cut->count++] = table_of(top);
	WRITE_ONCE(*top, absent);
}

void sirdma_sparse_free_cut(struct sirdma_hw *hw, const struct sirdma_sparse_cut *cut)
{
	u32 i;

	for (i = 0; i < cut->count; i++)
		table_free(hw, cut->tables[i]);
}

__le64 *sirdma_sparse_end(struct sirdma_hw *hw, u32 root, u64 block)
{
	u32 shift, table = root;
	__le64 *entry;

	for (shift = ROOT_SHIFT; shift >= LEAF_SHIFT; shift -= TABLE_BITS) {
		entry = table_entry(hw, table, block, shift);
		if (!names_table(entry))
			return entry;
		table = table_of(entry);
	}
	return NULL;
}
