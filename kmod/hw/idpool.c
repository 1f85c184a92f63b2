// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Object numbers. */
#include "idpool.h"

#define WORD_BITS 64
#define CHUNK_WORDS (SIRDMA_IDPOOL_CHUNK_BITS / WORD_BITS)

int sirdma_idpool_init(struct sirdma_idpool *pool, u32 first, u32 limit)
{
	u32 num_chunks = limit / SIRDMA_IDPOOL_CHUNK_BITS + 1;

	memset(pool, 0, sizeof(*pool));
	if (first >= limit)
		return -EINVAL;
	pool->chunks = port_alloc(num_chunks * sizeof(*pool->chunks));
	if (!pool->chunks)
		return -ENOMEM;
	port_mutex_init(&pool->lock);
	pool->num_chunks = num_chunks;
	pool->first = first;
	pool->limit = limit;
	pool->hint = first;
	return 0;
}

void sirdma_idpool_fini(struct sirdma_idpool *pool)
{
	u32 i;

	if (!pool->chunks)
		return;
	for (i = 0; i < pool->num_chunks; i++)
		port_free(pool->chunks[i]);
	port_free(pool->chunks);
	pool->chunks = NULL;
}

/* Take the lowest free id in [from, to). Returns 0, -ENOSPC or -ENOMEM. */
static int idpool_find(struct sirdma_idpool *pool, u32 from, u32 to, u32 *id)
{
	u64 **chunk, free;
	u32 bit;

	for (*id = from; *id < to; *id = (*id / WORD_BITS + 1) * WORD_BITS) {
		chunk = &pool->chunks[*id / SIRDMA_IDPOOL_CHUNK_BITS];
		if (!*chunk)
			*chunk = port_alloc(CHUNK_WORDS * sizeof(u64));
		if (!*chunk)
			return -ENOMEM;
		bit = *id % WORD_BITS;
		free = ~(*chunk)[*id / WORD_BITS % CHUNK_WORDS] & (~0ull << bit);
		if (!free)
			continue;
		*id += (u32)__builtin_ctzll(free) - bit;
		return *id < to ? 0 : -ENOSPC;
	}
	return -ENOSPC;
}

int sirdma_idpool_get(struct sirdma_idpool *pool, u32 *id)
{
	int err;

	port_mutex_lock(&pool->lock);
	if (pool->used == pool->limit - pool->first) {
		err = -ENOMEM;
		goto out;
	}
	err = idpool_find(pool, pool->hint, pool->limit, id);
	if (err == -ENOSPC)
		err = idpool_find(pool, pool->first, pool->hint, id);
	if (err) {
		err = -ENOMEM;
		goto out;
	}
	pool->chunks[*id / SIRDMA_IDPOOL_CHUNK_BITS][*id / WORD_BITS % CHUNK_WORDS] |=
		1ull << (*id % WORD_BITS);
	pool->used++;
	pool->hint = *id + 1 < pool->limit ? *id + 1 : pool->first;
out:
	port_mutex_unlock(&pool->lock);
	return err;
}

u64 sirdma_idpool_cookie(struct sirdma_idpool *pool, u32 id)
{
	u32 generation;

	port_mutex_lock(&pool->lock);
	generation = ++pool->cookies;
	port_mutex_unlock(&pool->lock);
	return (u64)generation << 24 | id;
}

void sirdma_idpool_put(struct sirdma_idpool *pool, u32 id)
{
	u64 *chunk = NULL, bit = 1ull << (id % WORD_BITS);
	u32 word = id / WORD_BITS % CHUNK_WORDS;

	port_mutex_lock(&pool->lock);
	if (id >= pool->first && id < pool->limit)
		chunk = pool->chunks[id / SIRDMA_IDPOOL_CHUNK_BITS];
	if (chunk && (chunk[word] & bit)) {
		chunk[word] &= ~bit;
		pool->used--;
	} else {
		port_warn("id %u freed, which is not in use", id);
	}
	port_mutex_unlock(&pool->lock);
}
