// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/bitops.h>

#include "device.h"
#include "qpctx.h"

int sirdma_qpctx_init(struct sirdma_dev *dev)
{
	struct sirdma_qpctx_pool *pool = &dev->qpctx;

	sema_init(&pool->free, SIRDMA_QPCTX_COUNT);
	pool->used = 0;
	return dev->bus->ops->dma_alloc(dev->bus, SIRDMA_QPCTX_COUNT * SIRDMA_QP_CTX_ALIGN,
					&pool->mem);
}

void sirdma_qpctx_fini(struct sirdma_dev *dev)
{
	dev->bus->ops->dma_free(dev->bus, &dev->qpctx.mem);
}

void sirdma_qpctx_buf_get(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx)
{
	struct sirdma_qpctx_pool *pool = &dev->qpctx;
	unsigned int slot;

	down(&pool->free);
	/* The semaphore guarantees a clear bit; a concurrent caller can only change which one. */
	do {
		slot = find_first_zero_bit(&pool->used, SIRDMA_QPCTX_COUNT);
	} while (slot >= SIRDMA_QPCTX_COUNT || test_and_set_bit_lock(slot, &pool->used));

	ctx->slot = slot;
	ctx->va = pool->mem.va + slot * SIRDMA_QP_CTX_ALIGN;
	ctx->pa = pool->mem.pa + slot * SIRDMA_QP_CTX_ALIGN;
	memset(ctx->va, 0, sizeof(*ctx->va));
}

void sirdma_qpctx_buf_put(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx)
{
	clear_bit_unlock(ctx->slot, &dev->qpctx.used);
	up(&dev->qpctx.free);
}
