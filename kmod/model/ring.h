/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring in host memory: physically contiguous, or a level-1 PBL of 4 KiB
 * blocks. Each access resolves the address through the HMC, so it notices a page that is
 * not backed.
 */
#ifndef SNIC_RING_H
#define SNIC_RING_H

#include "port/port.h"

struct snic_dev;

/* Alignment of a contiguous ring. */
#define SNIC_RING_ALIGN 256

struct snic_ring {
	u64 addr; /* contiguous: DMA address */
	u32 first_pble; /* vmap: index of the first PBLE */
	u32 bytes;
	bool vmap;
};

/* Check that all of the ring resolves now. */
bool snic_ring_valid(struct snic_dev *dev, const struct snic_ring *ring);
/* Pointer to [off, off + len), which must not cross a 4 KiB boundary; NULL on a fault. */
void *snic_ring_ptr(struct snic_dev *dev, const struct snic_ring *ring, u32 off, u32 len);

#endif
