// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rings in host memory, contiguous or through a level-1 PBL. */
#include "ring.h"
#include "dev.h"

void *snic_ring_ptr(struct snic_dev *dev, const struct snic_ring *ring, u32 off, u32 len)
{
	u64 page;

	if (unlikely(off > ring->bytes || len > ring->bytes - off))
		return NULL;
	if (!ring->vmap)
		return port_dma_ptr(dev->dma, ring->addr + off, len);
	if (!snic_pble_read(dev, ring->first_pble + off / SIRDMA_PAGE_SIZE, &page))
		return NULL;
	if (unlikely(page % SIRDMA_PAGE_SIZE)) {
		snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
		return NULL;
	}
	return port_dma_ptr(dev->dma, page + off % SIRDMA_PAGE_SIZE, len);
}

bool snic_ring_valid(struct snic_dev *dev, const struct snic_ring *ring)
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
		if (!snic_ring_ptr(dev, ring, off, min(ring->bytes - off, SIRDMA_PAGE_SIZE)))
			return false;
	return true;
}
