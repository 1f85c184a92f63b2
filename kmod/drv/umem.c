// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "compat/ib_umem.h"
#include "device.h"
#include "umem.h"

bool sirdma_umem_contiguous(struct ib_umem *umem, u32 shift, u32 first, u32 count, u64 *addr)
{
	struct ib_block_iter biter;
	u64 expected = 0;
	u32 i = 0;

	rdma_umem_for_each_dma_block(umem, &biter, BIT(shift)) {
		u64 block = rdma_block_iter_dma_address(&biter);

		if (i >= first + count)
			break;
		if (i == first)
			*addr = block;
		else if (i > first && block != expected)
			return false;
		expected = block + BIT(shift);
		i++;
	}
	return i >= first + count;
}

void sirdma_umem_write_pbl(struct sirdma_dev *dev, struct ib_umem *umem, u32 shift, u32 count,
			   struct sirdma_pbl *pbl)
{
	struct sirdma_pbl_walk walk = {.pbl = pbl};
	struct ib_block_iter biter;
	__le64 *entry;

	rdma_umem_for_each_dma_block(umem, &biter, BIT(shift)) {
		if (walk.next == count)
			break;
		entry = sirdma_pbl_next(&dev->hw, &walk);
		if (!entry)
			break;
		WRITE_ONCE(*entry, cpu_to_le64(rdma_block_iter_dma_address(&biter)));
	}
}

int sirdma_umem_to_pbl(struct sirdma_dev *dev, struct ib_umem *umem, u32 shift, u32 count,
		       struct sirdma_pbl *pbl)
{
	u64 addr;
	int err;

	if (sirdma_umem_contiguous(umem, shift, 0, count, &addr)) {
		sirdma_pbl_set_contiguous(pbl, addr, count);
		err = 0;
	} else {
		err = sirdma_pbl_alloc(&dev->hw, count, false, pbl);
	}
	pbl->block_shift = shift;
	if (!err && pbl->level)
		sirdma_umem_write_pbl(dev, umem, shift, count, pbl);
	return err;
}

static bool sirdma_blocks_contiguous(const u64 *blocks, u32 count)
{
	u32 i;

	for (i = 1; i < count; i++)
		if (blocks[i] != blocks[i - 1] + SIRDMA_PAGE_SIZE)
			return false;
	return true;
}

static void sirdma_blocks_write_pbl(struct sirdma_dev *dev, const u64 *blocks, u32 count,
				    struct sirdma_pbl *pbl)
{
	struct sirdma_pbl_walk walk = {.pbl = pbl};
	__le64 *entry;
	u32 i;

	for (i = 0; i < count; i++) {
		entry = sirdma_pbl_next(&dev->hw, &walk);
		if (!entry)
			break;
		WRITE_ONCE(*entry, cpu_to_le64(blocks[i]));
	}
}

int sirdma_blocks_to_pbl(struct sirdma_dev *dev, const u64 *blocks, u32 count,
			 struct sirdma_pbl *pbl)
{
	int err = 0;

	if (sirdma_blocks_contiguous(blocks, count))
		sirdma_pbl_set_contiguous(pbl, blocks[0], count);
	else
		err = sirdma_pbl_alloc(&dev->hw, count, false, pbl);
	pbl->block_shift = SIRDMA_PAGE_SHIFT;
	if (!err && pbl->level)
		sirdma_blocks_write_pbl(dev, blocks, count, pbl);
	return err;
}
