// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rings in host memory, contiguous or through a level-1 PBL. */
#include "ring.h"
#include "dev.h"

bool snic_ring_turn(struct snic_dev *dev, struct snic_ring *ring, u32 off)
{
	u32 number = off / SIRDMA_PAGE_SIZE, first = number * SIRDMA_PAGE_SIZE;
	u64 page = ring->addr + first;

	ring->page_end = 0;
	if (ring->vmap) {
		if (!snic_pble_read(dev, ring->first_pble + number, &page))
			return false;
		if (unlikely(page % SIRDMA_PAGE_SIZE)) {
			snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
			return false;
		}
	}
	ring->page =
		port_dma_ptr(dev->dma, page, min_t(u32, ring->bytes - first, SIRDMA_PAGE_SIZE));
	if (!ring->page)
		return false;
	ring->page_end = number + 1;
	return true;
}

bool snic_ring_valid(struct snic_dev *dev, struct snic_ring *ring)
{
	u32 off, pages = (ring->bytes + SIRDMA_PAGE_SIZE - 1) / SIRDMA_PAGE_SIZE;

	if (!ring->bytes)
		return false;
	if (!ring->vmap) {
		if (ring->addr % SNIC_RING_ALIGN || ring->addr + ring->bytes < ring->addr)
			return false;
		return port_dma_ptr(dev->dma, ring->addr, ring->bytes);
	}
	if ((u64)ring->first_pble + pages > READ_ONCE(dev->hmc.pble_count))
		return false;
	for (off = 0; off < ring->bytes; off += SIRDMA_PAGE_SIZE)
		if (!snic_ring_turn(dev, ring, off))
			return false;
	return true;
}
