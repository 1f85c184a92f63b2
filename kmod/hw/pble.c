// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* PBLE allocator. */
#include "pble.h"
#include "hmc.h"
#include "hw.h"
#include "pble_chunk.h"

#define FIRST_TABLE_SIZE 8
#define FIRST_RUNS 4
#define LEAF_ORDER 9

_Static_assert(1u << LEAF_ORDER == SIRDMA_PBLE_PER_LEAF, "order of a leaf");

int sirdma_pble_init(struct sirdma_hw *hw)
{
	struct sirdma_pble_pool *pool = &hw->pble;

	memset(pool, 0, sizeof(*pool));
	port_mutex_init(&pool->lock);
	pool->max_chunks = (hw->caps.max_pbles + SIRDMA_PBLE_PER_CHUNK - 1) / SIRDMA_PBLE_PER_CHUNK;
	return 0;
}

/* Chunks */

static int table_grow(struct sirdma_pble_pool *pool)
{
	u32 size = pool->table_size ? 2 * pool->table_size : FIRST_TABLE_SIZE;
	struct sirdma_pble_chunk **table;

	size = min(size, pool->max_chunks);
	table = port_alloc(size * sizeof(*table));
	if (!table)
		return -ENOMEM;
	if (pool->table_size)
		memcpy(table, pool->chunks, pool->table_size * sizeof(*table));
	port_free(pool->chunks);
	pool->chunks = table;
	pool->table_size = size;
	return 0;
}

/* Add a chunk at the lowest free index. Returns 0, -ENOSPC or -ENOMEM. */
static int chunk_add(struct sirdma_hw *hw, u32 *idx)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	u32 i = 0, limit;
	int err;

	while (i < pool->table_size && pool->chunks[i])
		i++;
	if (i == pool->max_chunks)
		return -ENOSPC;
	if (i == pool->table_size) {
		err = table_grow(pool);
		if (err)
			return err;
	}
	limit = min(hw->caps.max_pbles - i * SIRDMA_PBLE_PER_CHUNK, (u32)SIRDMA_PBLE_PER_CHUNK);
	pool->chunks[i] = sirdma_pble_chunk_create(limit);
	if (!pool->chunks[i])
		return -ENOMEM;
	pool->num_chunks++;
	*idx = i;
	return 0;
}

static void chunk_remove(struct sirdma_hw *hw, u32 idx)
{
	struct sirdma_pble_pool *pool = &hw->pble;

	if (sirdma_hmc_release_sd(hw, idx))
		return;
	sirdma_pble_chunk_destroy(pool->chunks[idx]);
	pool->chunks[idx] = NULL;
	pool->num_chunks--;
}

/* Remove all unused chunks but the lowest, because the next list would need that one again. */
static void chunks_trim(struct sirdma_hw *hw)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	bool kept = false;
	u32 i;

	for (i = 0; i < pool->table_size; i++) {
		if (!pool->chunks[i] || pool->chunks[i]->used)
			continue;
		if (kept)
			chunk_remove(hw, i);
		kept = true;
	}
}

void sirdma_pble_fini(struct sirdma_hw *hw)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	u32 i;

	if (pool->in_use)
		port_warn("%llu PBLEs left behind", (unsigned long long)pool->in_use);
	for (i = 0; i < pool->table_size; i++) {
		if (!pool->chunks[i])
			continue;
		/* sirdma_hmc_fini() frees the segments that the device refuses to release. */
		sirdma_hmc_release_sd(hw, i);
		sirdma_pble_chunk_destroy(pool->chunks[i]);
	}
	port_free(pool->chunks);
	memset(pool, 0, sizeof(*pool));
}

/* Runs */

/*
 * Take @count entries of a free run of 2^@order in chunk @idx. Returns 0, -ENOSPC, or another
 * errno.
 */
static int run_take(struct sirdma_hw *hw, u32 idx, u32 order, u32 count,
		    struct sirdma_pble_run *run)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	struct sirdma_pble_chunk *chunk = pool->chunks[idx];
	u32 first;
	int err;

	if (!sirdma_pble_chunk_find(chunk, order, &first))
		return -ENOSPC;
	err = sirdma_pble_chunk_take(chunk, first, count);
	if (err)
		return err;
	err = sirdma_hmc_back(hw, (u64)idx * SIRDMA_HMC_SD_SIZE + (u64)first * SIRDMA_PBLE_SIZE,
			      count * SIRDMA_PBLE_SIZE);
	if (err) {
		sirdma_pble_chunk_give(chunk, first, count);
		return err;
	}
	pool->in_use += count;
	run->first = idx * SIRDMA_PBLE_PER_CHUNK + first;
	run->count = count;
	run->start = 0;
	return 0;
}

static void run_give(struct sirdma_hw *hw, const struct sirdma_pble_run *run)
{
	struct sirdma_pble_pool *pool = &hw->pble;

	sirdma_pble_chunk_give(pool->chunks[run->first / SIRDMA_PBLE_PER_CHUNK],
			       run->first % SIRDMA_PBLE_PER_CHUNK, run->count);
	pool->in_use -= run->count;
}

/* Take a run in an existing chunk. */
static int run_find(struct sirdma_hw *hw, u32 order, u32 count, struct sirdma_pble_run *run)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	int err = -ENOSPC;
	u32 i;

	for (i = 0; i < pool->table_size && err == -ENOSPC; i++)
		if (pool->chunks[i])
			err = run_take(hw, i, order, count, run);
	return err;
}

/* Take a run in a new chunk. */
static int run_grow(struct sirdma_hw *hw, u32 order, u32 count, struct sirdma_pble_run *run)
{
	u32 idx;
	int err;

	err = chunk_add(hw, &idx);
	if (err)
		return err;
	err = run_take(hw, idx, order, count, run);
	if (err)
		chunk_remove(hw, idx);
	return err;
}

/* Allocate one run of @count entries. */
static int run_alloc(struct sirdma_hw *hw, u32 count, struct sirdma_pble_run *run)
{
	u32 order = sirdma_pble_order(count);
	int err;

	err = run_find(hw, order, count, run);
	return err == -ENOSPC ? run_grow(hw, order, count, run) : err;
}

/*
 * Take the next run of leaves for a list that lacks @left entries: the longest free one,
 * of whole leaves unless it ends the list.
 */
static int leaves_take(struct sirdma_hw *hw, u32 left, struct sirdma_pble_run *run)
{
	u32 want = min_t(u32, left, SIRDMA_PBLE_PER_CHUNK);
	u32 longest = sirdma_pble_order(want);
	u32 shortest = min_t(u32, longest, LEAF_ORDER);
	u32 order = longest;
	int err;

	for (;;) {
		err = run_find(hw, order, min(want, 1u << order), run);
		if (err != -ENOSPC)
			return err;
		if (order == shortest)
			return run_grow(hw, longest, want, run);
		order--;
	}
}

/* Lists */

static int runs_append(struct sirdma_pbl *pbl, u32 *room, const struct sirdma_pble_run *run)
{
	u32 bigger = *room ? 2 * *room : FIRST_RUNS;
	struct sirdma_pble_run *runs;

	if (pbl->num_runs == *room) {
		runs = port_alloc(bigger * sizeof(*runs));
		if (!runs)
			return -ENOMEM;
		if (pbl->num_runs)
			memcpy(runs, pbl->runs, pbl->num_runs * sizeof(*runs));
		port_free(pbl->runs);
		pbl->runs = runs;
		*room = bigger;
	}
	pbl->runs[pbl->num_runs++] = *run;
	return 0;
}

static void entry_write(struct sirdma_hw *hw, u32 idx, u64 val)
{
	__le64 *pble = sirdma_hmc_va(hw, (u64)idx * SIRDMA_PBLE_SIZE);

	if (pble)
		WRITE_ONCE(*pble, cpu_to_le64(val));
}

static void root_write(struct sirdma_hw *hw, const struct sirdma_pbl *pbl,
		       const struct sirdma_pble_run *run)
{
	u32 off;

	for (off = 0; off < run->count; off += SIRDMA_PBLE_PER_LEAF)
		entry_write(hw, pbl->first + (run->start + off) / SIRDMA_PBLE_PER_LEAF,
			    SIRDMA_PREP(SIRDMA_PBLE_LEAF_IDX, run->first + off));
}

static u32 leaves_of(u32 count)
{
	return (count + SIRDMA_PBLE_PER_LEAF - 1) / SIRDMA_PBLE_PER_LEAF;
}

/* The first run of a list: the whole list at level 1, its root at level 2. */
static struct sirdma_pble_run first_run(const struct sirdma_pbl *pbl)
{
	return (struct sirdma_pble_run){
		.first = pbl->first,
		.count = pbl->level == 1 ? pbl->count : leaves_of(pbl->count),
	};
}

static void list_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl)
{
	struct sirdma_pble_run first = first_run(pbl);
	u32 i;

	for (i = 0; i < pbl->num_runs; i++)
		run_give(hw, &pbl->runs[i]);
	port_free(pbl->runs);
	run_give(hw, &first);
	memset(pbl, 0, sizeof(*pbl));
	chunks_trim(hw);
}

static int level1_alloc(struct sirdma_hw *hw, u32 count, struct sirdma_pbl *pbl)
{
	struct sirdma_pble_run run;
	int err;

	if (count > SIRDMA_PBLE_PER_CHUNK)
		return -ENOSPC;
	err = run_alloc(hw, count, &run);
	if (err)
		return err;
	pbl->first = run.first;
	pbl->level = 1;
	pbl->count = count;
	return 0;
}

static int level2_alloc(struct sirdma_hw *hw, u32 count, struct sirdma_pbl *pbl)
{
	struct sirdma_pble_run run;
	u32 done = 0, room = 0;
	int err;

	err = run_alloc(hw, leaves_of(count), &run);
	if (err)
		return err;
	pbl->first = run.first;
	pbl->level = 2;
	pbl->count = count;
	while (!err && done < count) {
		err = leaves_take(hw, count - done, &run);
		if (err)
			break;
		run.start = done;
		err = runs_append(pbl, &room, &run);
		if (err) {
			run_give(hw, &run);
			break;
		}
		root_write(hw, pbl, &run);
		done += run.count;
	}
	if (err)
		list_free(hw, pbl);
	return err;
}

/*
 * Tries to allocate a list while memory is short. Between them memory is reclaimed for the list, of at most one segment:
 * others may take it before the next try.
 */
#define LIST_TRIES 3
#define LIST_ROOM SIRDMA_HMC_SD_SIZE

/* As sirdma_pbl_try_alloc(), but returns -ENOSPC if the device has no room for the list. */
static int list_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl)
{
	struct sirdma_pble_pool *pool = &hw->pble;
	int err;

	memset(pbl, 0, sizeof(*pbl));
	if (!count || count > (level1_only ? SIRDMA_PBLE_PER_CHUNK : SIRDMA_PBL_MAX_BLOCKS))
		return -EINVAL;
	port_mutex_lock(&pool->lock);
	err = level1_alloc(hw, count, pbl);
	/*
	 * The list has a single leaf, which would need a run of the same length, and there is none.
	 */
	if ((err == -ENOSPC || err == -ENOMEM) && !level1_only && count > SIRDMA_PBLE_PER_LEAF)
		err = level2_alloc(hw, count, pbl);
	if (!err && pbl->level == 1)
		pool->allocs_l1++;
	else if (!err)
		pool->allocs_l2++;
	port_mutex_unlock(&pool->lock);
	return err;
}

/* What an allocation returns whose last try returned @err. */
static int list_result(struct sirdma_hw *hw, int err)
{
	struct sirdma_pble_pool *pool = &hw->pble;

	if (err != -ENOSPC && err != -ENOMEM)
		return err;
	port_mutex_lock(&pool->lock);
	pool->failures++;
	port_mutex_unlock(&pool->lock);
	return -ENOMEM;
}

int sirdma_pbl_try_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl)
{
	return list_result(hw, list_alloc(hw, count, level1_only, pbl));
}

int sirdma_pbl_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl)
{
	const u64 room = min_t(u64, (u64)count * sizeof(__le64) + SIRDMA_PAGE_SIZE, LIST_ROOM);
	u32 tries = 0;
	int err;

	do {
		err = list_alloc(hw, count, level1_only, pbl);
	} while (err == -ENOMEM && ++tries < LIST_TRIES && port_reclaim(room, false));
	return list_result(hw, err);
}

void sirdma_pbl_set_contiguous(struct sirdma_pbl *pbl, u64 addr, u32 count)
{
	memset(pbl, 0, sizeof(*pbl));
	pbl->addr = addr;
	pbl->count = count;
}

/* The run that contains entry @i. */
static struct sirdma_pble_run run_of(const struct sirdma_pbl *pbl, u32 i)
{
	u32 lo = 0, hi = pbl->num_runs, mid;

	if (pbl->level == 1)
		return first_run(pbl);
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (pbl->runs[mid].start <= i)
			lo = mid;
		else
			hi = mid;
	}
	return pbl->runs[lo];
}

__le64 *sirdma_pbl_entries(struct sirdma_hw *hw, const struct sirdma_pbl *pbl, u32 i, u32 *n)
{
	struct sirdma_pble_run run;
	u32 idx;

	if (!pbl->level || i >= pbl->count)
		return NULL;
	run = run_of(pbl, i);
	idx = run.first + i - run.start;
	/* Pages of a paged segment need not be contiguous. */
	*n = min_t(u32, run.start + run.count - i,
		   SIRDMA_PBLE_PER_PAGE - idx % SIRDMA_PBLE_PER_PAGE);
	return sirdma_hmc_va(hw, (u64)idx * SIRDMA_PBLE_SIZE);
}

u32 sirdma_pbl_first(const struct sirdma_pbl *pbl)
{
	return pbl->level ? pbl->first : SIRDMA_PBLE_INVALID_IDX;
}

void sirdma_pbl_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl)
{
	struct sirdma_pble_pool *pool = &hw->pble;

	if (!pbl->level) {
		memset(pbl, 0, sizeof(*pbl));
		return;
	}
	port_mutex_lock(&pool->lock);
	list_free(hw, pbl);
	port_mutex_unlock(&pool->lock);
}
