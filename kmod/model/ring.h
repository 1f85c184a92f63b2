/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring in host memory: physically contiguous, or a level-1 PBL of 4 KiB
 * blocks. The device keeps the address of the page that it used last, so the memory of a ring and
 * its PBLEs stay as they are until the object is destroyed.
 */
#ifndef SNIC_RING_H
#define SNIC_RING_H

#include "port/port.h"
#include "sirdma/bits.h"

struct snic_dev;

/* Alignment of a contiguous ring. */
#define SNIC_RING_ALIGN 256

/* The lock of the object that the ring belongs to protects it. */
struct snic_ring {
	union {
		u64 addr; /* contiguous ring: DMA address */
		u32 first_pble; /* vmap ring: index of the first PBLE */
	};
	u8 *page; /* the page that was used last */
	u32 page_end; /* number of that page plus one; 0: there is none */
	u32 bytes : 31;
	u32 vmap : 1;
};

/* Check that all of the ring resolves now. */
bool snic_ring_valid(struct snic_dev *dev, struct snic_ring *ring);
/* Make the page of @off the page that was used last. Returns false on a fault. */
bool snic_ring_turn(struct snic_dev *dev, struct snic_ring *ring, u32 off);

/* Pointer to [off, off + len), which must not cross a 4 KiB boundary; NULL on a fault. */
static inline void *snic_ring_ptr(struct snic_dev *dev, struct snic_ring *ring, u32 off, u32 len)
{
	if (unlikely(off > ring->bytes || len > ring->bytes - off))
		return NULL;
	if (unlikely(off / SIRDMA_PAGE_SIZE + 1 != ring->page_end) &&
	    !snic_ring_turn(dev, ring, off))
		return NULL;
	return ring->page + off % SIRDMA_PAGE_SIZE;
}

#endif
