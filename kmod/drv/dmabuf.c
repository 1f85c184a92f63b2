// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/slab.h>

#include "compat/dma_buf.h"
#include "device.h"
#include "dmabuf.h"
#include "hw/access.h"
#include "pd.h"
#include "sirdma/bits.h"

COMPAT_IMPORT_DMA_BUF();

static struct sirdma_dmabuf_mr *to_sdmabuf(struct sirdma_mr *mr)
{
	return container_of(mr, struct sirdma_dmabuf_mr, mr);
}

/* region->start is the offset in the buffer. sirdma_region_check() treats it as an address. */
static int sirdma_dmabuf_check(struct sirdma_dev *dev, const struct sirdma_region *region)
{
	const char *why;
	int err;

	if (region->access & SIRDMA_VERBS_ZERO_BASED) {
		why = "it is addressed by its iova";
		err = -EINVAL;
	} else {
		err = sirdma_region_check(region, &why);
	}
	if (err) {
		sirdma_refused(dev, "reg_dmabuf_mr: %llu bytes at %llu, iova %#llx, access %#x: %s",
			       region->length, region->start, region->iova, region->access, why);
	}
	return err;
}

static int sirdma_dmabuf_check_buffer(const struct dma_buf *dmabuf,
				      const struct sirdma_region *region)
{
	if (region->start > dmabuf->size || region->length > dmabuf->size - region->start)
		return -EINVAL;
	/* The descriptor is read-only, so the program may not write to the buffer. */
	if (ib_access_writable(region->access) && !(dmabuf->file->f_mode & FMODE_WRITE))
		return -EACCES;
	/*
	 * A buffer without vmap cannot be mapped for the CPU: it is memory of a device. One that has
	 * pin moves unless it is pinned.
	 */
	if (!dmabuf->ops->vmap || dmabuf->ops->pin)
		return -EOPNOTSUPP;
	/* The mapping would wait for a fence without end, and any user may make one. */
	return dma_resv_test_signaled(dmabuf->resv, DMA_RESV_USAGE_READ) ? 0 : -EBUSY;
}

/*
 * Map the buffer, and have the exporter make it ready for the CPU, which is our device's. Both last
 * as long as the region.
 */
static int sirdma_dmabuf_map(struct sirdma_dmabuf_mr *mr)
{
	int err;

	err = dma_buf_vmap_unlocked(mr->dmabuf, &mr->map);
	if (err)
		return err;
	err = -EOPNOTSUPP;
	if (mr->map.is_iomem || !IS_ALIGNED((uintptr_t)mr->map.vaddr, SIRDMA_PAGE_SIZE))
		goto err_unmap;
	err = dma_buf_begin_cpu_access(mr->dmabuf, DMA_BIDIRECTIONAL);
	if (!err)
		return 0;

err_unmap:
	dma_buf_vunmap_unlocked(mr->dmabuf, &mr->map);
	return err;
}

static void sirdma_dmabuf_unmap(struct sirdma_dmabuf_mr *mr)
{
	dma_buf_end_cpu_access(mr->dmabuf, DMA_BIDIRECTIONAL);
	dma_buf_vunmap_unlocked(mr->dmabuf, &mr->map);
}

/* Describe the region's part of the mapping, which is contiguous. */
static void sirdma_dmabuf_describe(struct sirdma_dmabuf_mr *mr, const struct sirdma_region *region)
{
	const u64 first = region->start / SIRDMA_PAGE_SIZE;
	const u64 last = (region->start + region->length - 1) / SIRDMA_PAGE_SIZE;

	sirdma_pbl_set_contiguous(&mr->mr.pbl, (uintptr_t)mr->map.vaddr + first * SIRDMA_PAGE_SIZE,
				  last - first + 1);
	mr->mr.pbl.block_shift = SIRDMA_PAGE_SHIFT;
}

/*
 * An exporter whose buffers cannot be pinned by themselves keeps a buffer in place while a device is
 * attached: for several of them a mapping in the kernel is not enough.
 */
static int sirdma_dmabuf_attach(struct sirdma_dev *dev, struct sirdma_dmabuf_mr *mr,
				const struct sirdma_region *region)
{
	int err;

	err = sirdma_dmabuf_check_buffer(mr->dmabuf, region);
	if (err)
		return err;
	mr->attachment = dma_buf_attach(mr->dmabuf, &dev->ibdev.dev);
	if (IS_ERR(mr->attachment))
		return PTR_ERR(mr->attachment);
	err = sirdma_dmabuf_map(mr);
	if (err)
		dma_buf_detach(mr->dmabuf, mr->attachment);
	return err;
}

static int sirdma_dmabuf_open(struct sirdma_dev *dev, struct sirdma_dmabuf_mr *mr,
			      const struct sirdma_region *region, int fd)
{
	int err;

	mr->dmabuf = dma_buf_get(fd);
	if (IS_ERR(mr->dmabuf))
		return PTR_ERR(mr->dmabuf);
	err = sirdma_dmabuf_attach(dev, mr, region);
	if (err)
		dma_buf_put(mr->dmabuf);
	return err;
}

static void sirdma_dmabuf_detach(struct sirdma_dmabuf_mr *mr)
{
	sirdma_dmabuf_unmap(mr);
	dma_buf_detach(mr->dmabuf, mr->attachment);
}

void sirdma_dmabuf_put(struct sirdma_mr *mr)
{
	sirdma_dmabuf_detach(to_sdmabuf(mr));
	dma_buf_put(to_sdmabuf(mr)->dmabuf);
}

struct ib_mr *sirdma_reg_dmabuf_mr(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
				   int access)
{
	const struct sirdma_region region = {
		.start = offset,
		.length = length,
		.iova = iova,
		.access = access,
	};
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_dmabuf_mr *mr;
	int err;

	if (!ib_uses_virt_dma(&dev->ibdev))
		return ERR_PTR(-EOPNOTSUPP);
	err = sirdma_dmabuf_check(dev, &region);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = sirdma_dmabuf_open(dev, mr, &region, fd);
	if (err)
		goto err_free;
	sirdma_dmabuf_describe(mr, &region);
	err = sirdma_mr_create(dev, &mr->mr, &region, to_spd(ibpd)->id);
	if (err)
		goto err_put;
	return &mr->mr.ibmr;

err_put:
	sirdma_dmabuf_put(&mr->mr);
err_free:
	kfree(mr);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	ibdev_dbg(&dev->ibdev, "reg_dmabuf_mr: %llu bytes at %llu of descriptor %d: %d\n", length,
		  offset, fd, err);
	return ERR_PTR(err);
}
