/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Pinned user memory as a list of blocks the device understands. */
#ifndef SIRDMA_DRV_UMEM_H
#define SIRDMA_DRV_UMEM_H

#include <rdma/ib_umem.h>
#include "hw/pble.h"

struct sirdma_dev;

/*
 * Are the @count blocks of 2^@shift bytes from block @first on contiguous? *addr: address of the
 * first block.
 */
bool sirdma_umem_contiguous(struct ib_umem *umem, u32 shift, u32 first, u32 count, u64 *addr);
/*
 * Describe the first @count blocks of 2^@shift bytes: at level 0 if they are contiguous, else in
 * PBLEs. Returns 0 or the errno of sirdma_pbl_alloc().
 */
int sirdma_umem_to_pbl(struct sirdma_dev *dev, struct ib_umem *umem, u32 shift, u32 count,
		       struct sirdma_pbl *pbl);
/* The same for the @count blocks of SIRDMA_PAGE_SIZE bytes at these DMA addresses. */
int sirdma_blocks_to_pbl(struct sirdma_dev *dev, const u64 *blocks, u32 count,
			 struct sirdma_pbl *pbl);
/* Write the first @count blocks into @pbl, which is of level 1 or 2. */
void sirdma_umem_write_pbl(struct sirdma_dev *dev, struct ib_umem *umem, u32 shift, u32 count,
			   struct sirdma_pbl *pbl);

#endif
