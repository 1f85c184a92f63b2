// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Free space of one PBLE chunk. */
#include "pble_chunk.h"

#define PAGES SIRDMA_PBLE_CHUNK_PAGES
#define PER_PAGE ((u32)SIRDMA_PBLE_PER_PAGE)
#define PAGE_ORDER 9
#define PAGE_FREE (PAGE_ORDER + 1)
#define WORD_ORDER 6
#define MAP_WORDS (PER_PAGE / 64)

_Static_assert(1u << PAGE_ORDER == SIRDMA_PBLE_PER_PAGE, "order of a page");
_Static_assert(1u << SIRDMA_PBLE_CHUNK_ORDER == SIRDMA_PBLE_PER_CHUNK, "order of a chunk");

u32 sirdma_pble_order(u32 count)
{
	return count <= 1 ? 0 : 32 - (u32)__builtin_clz(count - 1);
}

/*
 * The first aligned free run of 2^@order bits in @map, order < PAGE_ORDER. PER_PAGE: there is none.
 */
static u32 map_find(const u64 *map, u32 order)
{
	/* aligned[n]: the bits at multiples of 2^n */
	static const u64 aligned[] = {
		~0ull,
		0x5555555555555555ull,
		0x1111111111111111ull,
		0x0101010101010101ull,
		0x0001000100010001ull,
		0x0000000100000001ull,
		1,
	};
	u32 word, i, span;
	u64 run;

	if (order <= WORD_ORDER) {
		for (word = 0; word < MAP_WORDS; word++) {
			run = ~map[word];
			for (i = 0; i < order; i++)
				run &= run >> (1u << i);
			run &= aligned[order];
			if (run)
				return word * 64 + (u32)__builtin_ctzll(run);
		}
		return PER_PAGE;
	}
	span = 1u << (order - WORD_ORDER);
	for (word = 0; word < MAP_WORDS; word += span) {
		for (run = 0, i = 0; i < span; i++)
			run |= map[word + i];
		if (!run)
			return word * 64;
	}
	return PER_PAGE;
}

static bool map_is_clear(const u64 *map)
{
	u64 any = 0;
	u32 word;

	for (word = 0; word < MAP_WORDS; word++)
		any |= map[word];
	return !any;
}

/* Tree value of a page with a map. */
static u8 map_value(const u64 *map)
{
	u32 order = PAGE_ORDER;

	if (map_is_clear(map))
		return PAGE_FREE;
	while (order--)
		if (map_find(map, order) < PER_PAGE)
			return (u8)(order + 1);
	return 0;
}

/* Set or clear bits [from, to). Returns false if one of them had that value already. */
static bool map_set(u64 *map, u32 from, u32 to, bool taken)
{
	u64 bits, bad = 0;
	u32 word, lo, hi;

	for (word = from / 64; word <= (to - 1) / 64; word++) {
		lo = from > word * 64 ? from - word * 64 : 0;
		hi = to < word * 64 + 64 ? to - word * 64 : 64;
		bits = (~0ull >> (64 - (hi - lo))) << lo;
		bad |= taken ? map[word] & bits : ~map[word] & bits;
		if (taken)
			map[word] |= bits;
		else
			map[word] &= ~bits;
	}
	return !bad;
}

/* Update the tree above pages [first, last]. */
static void tree_update(struct sirdma_pble_chunk *chunk, u32 first, u32 last)
{
	u32 lo = (PAGES + first) / 2, hi = (PAGES + last) / 2, node;
	u8 whole = PAGE_FREE, left, right;

	for (; lo; lo /= 2, hi /= 2, whole++) {
		for (node = lo; node <= hi; node++) {
			left = chunk->tree[2 * node];
			right = chunk->tree[2 * node + 1];
			if (left == whole && right == whole)
				chunk->tree[node] = whole + 1;
			else
				chunk->tree[node] = max(left, right);
		}
	}
}

/* Take or give back [first, first + count). Pages that are partly covered have a map. */
static void range_set(struct sirdma_pble_chunk *chunk, u32 first, u32 count, bool taken)
{
	u32 end = first + count, page, from, to;
	bool clean = true;
	u64 **map;

	for (page = first / PER_PAGE; page * PER_PAGE < end; page++) {
		from = first > page * PER_PAGE ? first - page * PER_PAGE : 0;
		to = min(end - page * PER_PAGE, PER_PAGE);
		map = &chunk->maps[page];
		if (*map)
			clean &= map_set(*map, from, to, taken);
		else
			clean &= to - from == PER_PAGE &&
				 chunk->tree[PAGES + page] == (taken ? PAGE_FREE : 0);
		if (to - from == PER_PAGE)
			chunk->tree[PAGES + page] = taken ? 0 : PAGE_FREE;
		else if (*map)
			chunk->tree[PAGES + page] = map_value(*map);
		/* Only a page that is partly taken has a map. */
		if (*map && map_is_clear(*map)) {
			port_free(*map);
			*map = NULL;
		}
	}
	if (!clean)
		port_warn("PBLE run %u+%u was %s", first, count, taken ? "taken" : "not taken");
	tree_update(chunk, first / PER_PAGE, (end - 1) / PER_PAGE);
	chunk->used = taken ? chunk->used + count : chunk->used - count;
}

struct sirdma_pble_chunk *sirdma_pble_chunk_create(u32 limit)
{
	struct sirdma_pble_chunk *chunk = port_alloc(sizeof(*chunk));

	if (!chunk)
		return NULL;
	memset(chunk->tree + PAGES, PAGE_FREE, PAGES);
	tree_update(chunk, 0, PAGES - 1);
	if (limit < SIRDMA_PBLE_PER_CHUNK) {
		if (sirdma_pble_chunk_take(chunk, limit, SIRDMA_PBLE_PER_CHUNK - limit)) {
			sirdma_pble_chunk_destroy(chunk);
			return NULL;
		}
		chunk->used = 0;
	}
	return chunk;
}

void sirdma_pble_chunk_destroy(struct sirdma_pble_chunk *chunk)
{
	u32 page;

	for (page = 0; page < PAGES; page++)
		port_free(chunk->maps[page]);
	port_free(chunk);
}

bool sirdma_pble_chunk_find(const struct sirdma_pble_chunk *chunk, u32 order, u32 *first)
{
	u32 node = 1, level = SIRDMA_PBLE_CHUNK_ORDER, page;

	if (chunk->tree[1] <= order)
		return false;
	for (; level > order && level > PAGE_ORDER; level--) {
		node *= 2;
		if (chunk->tree[node] <= order)
			node++;
	}
	if (order >= PAGE_ORDER) {
		*first = (node << order) - SIRDMA_PBLE_PER_CHUNK;
		return true;
	}
	page = node - PAGES;
	*first = page * PER_PAGE;
	if (chunk->maps[page])
		*first += map_find(chunk->maps[page], order);
	return true;
}

int sirdma_pble_chunk_take(struct sirdma_pble_chunk *chunk, u32 first, u32 count)
{
	u32 end = first + count, pages[2], i;
	u64 **map;

	/*
	 * Allocate the maps of the pages at both ends now, so that giving back entries never
	 * allocates.
	 */
	pages[0] = first / PER_PAGE;
	pages[1] = (end - 1) / PER_PAGE;
	for (i = 0; i < 2; i++) {
		map = &chunk->maps[pages[i]];
		if (*map || (i ? end : first) % PER_PAGE == 0)
			continue;
		*map = port_alloc(MAP_WORDS * sizeof(u64));
		if (!*map)
			goto err_free_maps;
	}
	range_set(chunk, first, count, true);
	return 0;

err_free_maps:
	while (i--) {
		map = &chunk->maps[pages[i]];
		if (*map && map_is_clear(*map)) {
			port_free(*map);
			*map = NULL;
		}
	}
	return -ENOMEM;
}

void sirdma_pble_chunk_give(struct sirdma_pble_chunk *chunk, u32 first, u32 count)
{
	range_set(chunk, first, count, false);
}
