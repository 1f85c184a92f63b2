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
	u32 cookies; /* cookies that were handed out */
};

/* Returns 0, -EINVAL for an empty range, or -ENOMEM. */
int sirdma_idpool_init(struct sirdma_idpool *pool, u32 first, u32 limit);
void sirdma_idpool_fini(struct sirdma_idpool *pool);
/* Take a free id. Returns -ENOMEM if there is none. Sleeps. */
int sirdma_idpool_get(struct sirdma_idpool *pool, u32 *id);
void sirdma_idpool_put(struct sirdma_idpool *pool, u32 id);

/*
 * A cookie of object @id for the device, which gives it back in events. An event in a queue
 * outlives its object, and its number may be another object's when it arrives; the cookie is
 * not. It has 56 bits: the number, and a generation above it. Sleeps.
 */
u64 sirdma_idpool_cookie(struct sirdma_idpool *pool, u32 id);

static inline u32 sirdma_cookie_id(u64 cookie)
{
	return cookie & 0xffffff;
}

#endif
