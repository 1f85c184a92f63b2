/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Free space of one PBLE chunk: a binary tree over its pages of 512 entries, and bitmaps
 * of the pages that are partly used. Each node of the tree holds the largest aligned
 * power-of-two run below it. About 5 KiB, and 64 bytes for each bitmap.
 */
#ifndef SIRDMA_HW_PBLE_CHUNK_H
#define SIRDMA_HW_PBLE_CHUNK_H

#include "pble.h"
#include "port/port.h"

#define SIRDMA_PBLE_CHUNK_ORDER 18 /* log2 of SIRDMA_PBLE_PER_CHUNK */
#define SIRDMA_PBLE_CHUNK_PAGES (SIRDMA_PBLE_PER_CHUNK / SIRDMA_PBLE_PER_PAGE)

struct sirdma_pble_chunk {
	u32 used; /* entries that are taken */
	/*
	 * Heap order, root 1, pages from SIRDMA_PBLE_CHUNK_PAGES: order of the largest free
	 * run + 1, 0: none.
	 */
	u8 tree[2 * SIRDMA_PBLE_CHUNK_PAGES];
	u64 *maps[SIRDMA_PBLE_CHUNK_PAGES]; /* bit set: taken; NULL: page all free or all taken */
};

/* Make a chunk of which only the first @limit entries can be taken. Returns NULL without memory. */
struct sirdma_pble_chunk *sirdma_pble_chunk_create(u32 limit);
void sirdma_pble_chunk_destroy(struct sirdma_pble_chunk *chunk);
/* The smallest order whose runs have @count entries or more. */
u32 sirdma_pble_order(u32 count);
/*
 * Find the lowest free run of 2^@order entries, aligned to its size. Returns false when there is
 * none.
 */
bool sirdma_pble_chunk_find(const struct sirdma_pble_chunk *chunk, u32 order, u32 *first);
/* Take @count free entries from @first on. Returns 0 or -ENOMEM. */
int sirdma_pble_chunk_take(struct sirdma_pble_chunk *chunk, u32 first, u32 count);
/* Give back exactly the entries that one call took. This cannot fail. */
void sirdma_pble_chunk_give(struct sirdma_pble_chunk *chunk, u32 first, u32 count);

#endif
