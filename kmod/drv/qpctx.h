/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Buffers for QP contexts. A buffer is needed only while a command runs, so a
 * device has a page of them instead of one per QP.
 */
#ifndef SIRDMA_DRV_QPCTX_H
#define SIRDMA_DRV_QPCTX_H

#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include "sirdma/bus.h"
#include "sirdma/qpctx.h"

#define SIRDMA_QPCTX_COUNT (SIRDMA_PAGE_SIZE / SIRDMA_QP_CTX_ALIGN)

struct sirdma_dev;

struct sirdma_qpctx_pool {
	struct sirdma_dma_mem mem;
	struct semaphore free;
	unsigned long used; /* bit per buffer, changed atomically */
};

struct sirdma_qpctx_buf {
	struct sirdma_qp_ctx *va;
	u64 pa;
	unsigned int slot;
};

int sirdma_qpctx_init(struct sirdma_dev *dev);
void sirdma_qpctx_fini(struct sirdma_dev *dev);
/*
 * A zeroed buffer. The function waits until one is free. All users of the device share the few
 * buffers: the caller holds one for one command or one modify, and reclaims no memory meanwhile.
 */
void sirdma_qpctx_buf_get(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx);
void sirdma_qpctx_buf_put(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx);

#endif
