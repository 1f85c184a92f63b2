/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Object numbers: the next free one after the last allocated, so that a freed number is not
 * reused at once.
 */
#ifndef SIRDMA_IDPOOL_H
#define SIRDMA_IDPOOL_H

#include "port/port.h"

#define SIRDMA_IDPOOL_CHUNK_BITS 32768

struct sirdma_idpool {
	struct port_mutex lock;
	u64 **chunks; /* bitmap chunks of SIRDMA_IDPOOL_CHUNK_BITS, made on demand */
	u32 num_chunks;
	u32 first;
	u32 limit; /* ids first .. limit-1 */
	u32 hint;
	u32 used;
};

/* 0, -EINVAL for an empty range, or -ENOMEM. */
int sirdma_idpool_init(struct sirdma_idpool *pool, u32 first, u32 limit);
void sirdma_idpool_fini(struct sirdma_idpool *pool);
/* A free id, or -ENOMEM. Sleeps. */
int sirdma_idpool_get(struct sirdma_idpool *pool, u32 *id);
void sirdma_idpool_put(struct sirdma_idpool *pool, u32 id);

#endif
