/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions over DMA buffers. DMA addresses of our bus are addresses of the kernel (see sirdma_bus),
 * so such a region is the buffer's mapping in the kernel, which the exporter keeps in place, and not
 * a list of addresses for an attached device. Each region maps the whole buffer, since
 * dma_buf_vmap() maps no part of one.
 */
#ifndef SIRDMA_DRV_DMABUF_H
#define SIRDMA_DRV_DMABUF_H

#include <linux/iosys-map.h>
#include "mr.h"

struct dma_buf;
struct dma_buf_attachment;

struct sirdma_dmabuf_mr {
	struct sirdma_mr mr;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attachment;
	struct iosys_map map;
};

/* Of an application's regions only those over DMA buffers have neither pinned pages nor a ring. */
static inline bool sirdma_mr_is_dmabuf(const struct sirdma_mr *mr)
{
	return mr->ibmr.type == IB_MR_TYPE_USER && !mr->umem && !sirdma_mr_is_ring(mr);
}

struct ib_mr *sirdma_reg_dmabuf_mr(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
				   int access);
/* The device does not use the region any more. */
void sirdma_dmabuf_put(struct sirdma_mr *mr);

#endif
