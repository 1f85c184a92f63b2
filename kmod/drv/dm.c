// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compiler.h"
#include "compat/ib_umem.h"
#include "device.h"
#include "hw/limits.h"
#include "mr.h"
#include "pd.h"
#include "sirdma/abi.h"
#include "ucontext.h"
#include "umem.h"

/*
 * The pages of device memory. They are single pages with references of their own, which mappings of
 * processes and frames on their way hold as well. So the memory of a page is freed when the last of
 * them is gone, in whatever order process, device memory and device end.
 */
struct sirdma_dm_memory {
	struct sirdma_mmap_entry base;
	struct sirdma_user *user;
	u64 bytes; /* counted for the user */
	unsigned long num_pages;
	struct page *pages[] __counted_by(num_pages);
};

struct sirdma_dm {
	struct ib_dm ibdm;
	struct sirdma_dm_memory *memory;
	struct sg_table sgt; /* the pages, mapped for the device */
	u32 count;
	u64 blocks[]; /* DMA addresses of the SIRDMA_PAGE_SIZE blocks */
};

static struct sirdma_dm *to_sdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct sirdma_dm, ibdm);
}

static struct sirdma_dm_memory *to_dm_memory(struct sirdma_mmap_entry *entry)
{
	return container_of(entry, struct sirdma_dm_memory, base);
}

/* Count @bytes for @user. Returns false if that is more than its share. */
static bool sirdma_dm_count(struct sirdma_dev *dev, struct sirdma_user *user, u64 bytes)
{
	bool fair;

	mutex_lock(&dev->dms.lock);
	fair = sirdma_dm_is_fair(dev->dms.bytes, user->dm_bytes, bytes);
	if (fair) {
		dev->dms.bytes += bytes;
		user->dm_bytes += bytes;
	}
	mutex_unlock(&dev->dms.lock);
	return fair;
}

static void sirdma_dm_uncount(struct sirdma_dev *dev, struct sirdma_user *user, u64 bytes)
{
	mutex_lock(&dev->dms.lock);
	dev->dms.bytes -= bytes;
	user->dm_bytes -= bytes;
	mutex_unlock(&dev->dms.lock);
}

static int sirdma_dm_map_user(struct sirdma_mmap_entry *entry, struct ib_ucontext *ibuctx,
			      struct vm_area_struct *vma)
{
	struct sirdma_dm_memory *memory = to_dm_memory(entry);

	return vm_map_pages_zero(vma, memory->pages, memory->num_pages);
}

static void sirdma_dm_memory_free(struct sirdma_dm_memory *memory)
{
	unsigned long i;

	for (i = 0; i < memory->num_pages && memory->pages[i]; i++)
		put_page(memory->pages[i]);
	kvfree(memory);
}

/* The device memory is gone, and no mmap() is under way. */
static void sirdma_dm_entry_free(struct sirdma_mmap_entry *entry)
{
	struct sirdma_dm_memory *memory = to_dm_memory(entry);

	sirdma_dm_uncount(to_sdev(entry->entry.ucontext->device), memory->user, memory->bytes);
	sirdma_dm_memory_free(memory);
}

static struct sirdma_dm_memory *sirdma_dm_memory_alloc(u64 bytes)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;
	unsigned long i, num_pages = bytes >> PAGE_SHIFT;
	struct sirdma_dm_memory *memory;

	memory = kvzalloc(struct_size(memory, pages, num_pages), GFP_KERNEL_ACCOUNT);
	if (!memory)
		return NULL;
	memory->base.map = sirdma_dm_map_user;
	memory->base.free = sirdma_dm_entry_free;
	memory->bytes = bytes;
	memory->num_pages = num_pages;
	for (i = 0; i < num_pages; i++) {
		memory->pages[i] = alloc_page(gfp);
		if (!memory->pages[i]) {
			sirdma_dm_memory_free(memory);
			return NULL;
		}
	}
	return memory;
}

/* Map the pages for the device and note the addresses of their blocks. */
static int sirdma_dm_map_device(struct sirdma_dev *dev, struct sirdma_dm *dm)
{
	struct sirdma_dm_memory *memory = dm->memory;
	struct ib_block_iter biter;
	u32 i = 0;
	int err;

	err = sg_alloc_table_from_pages(&dm->sgt, memory->pages, memory->num_pages, 0,
					memory->bytes, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	err = ib_dma_map_sgtable_attrs(&dev->ibdev, &dm->sgt, DMA_BIDIRECTIONAL, 0);
	if (err) {
		sg_free_table(&dm->sgt);
		return err;
	}
	rdma_for_each_block(dm->sgt.sgl, &biter, dm->sgt.nents, SIRDMA_PAGE_SIZE) {
		if (i < dm->count)
			dm->blocks[i++] = rdma_block_iter_dma_address(&biter);
	}
	return 0;
}

static void sirdma_dm_unmap_device(struct sirdma_dev *dev, struct sirdma_dm *dm)
{
	ib_dma_unmap_sgtable_attrs(&dev->ibdev, &dm->sgt, DMA_BIDIRECTIONAL, 0);
	sg_free_table(&dm->sgt);
}

static struct sirdma_dm *sirdma_dm_create(struct sirdma_dev *dev, u64 bytes)
{
	const u32 count = bytes / SIRDMA_PAGE_SIZE;
	struct sirdma_dm *dm;

	dm = kvzalloc(struct_size(dm, blocks, count), GFP_KERNEL_ACCOUNT);
	if (!dm)
		return NULL;
	dm->count = count;
	dm->memory = sirdma_dm_memory_alloc(bytes);
	if (!dm->memory)
		goto err_free;
	if (sirdma_dm_map_device(dev, dm))
		goto err_memory;
	return dm;

err_memory:
	sirdma_dm_memory_free(dm->memory);
err_free:
	kvfree(dm);
	return NULL;
}

static void sirdma_dm_fill_response(const struct sirdma_dm *dm, u64 length,
				    struct sirdma_dm_resp *resp)
{
	*resp = (struct sirdma_dm_resp){
		.mmap_key = rdma_user_mmap_get_offset(&dm->memory->base.entry),
		.map_bytes = dm->memory->bytes,
		.length = length,
	};
}

void sirdma_dm_describe(const struct ib_dm *ibdm, struct sirdma_dm_resp *resp)
{
	sirdma_dm_fill_response(container_of(ibdm, struct sirdma_dm, ibdm), ibdm->length, resp);
}

struct ib_dm *sirdma_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibuctx,
			      struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct sirdma_user *user = to_suctx(ibuctx)->user;
	struct sirdma_dev *dev = to_sdev(ibdev);
	u64 bytes = PAGE_ALIGN(attr->length);
	struct sirdma_dm_resp resp;
	struct sirdma_dm *dm;
	const char *why;
	int err;

	err = sirdma_dm_check(attr->length, attr->alignment, &why);
	if (err) {
		sirdma_refused(dev, "alloc_dm: %llu bytes: %s", attr->length, why);
		return ERR_PTR(err);
	}
	if (!sirdma_dm_count(dev, user, bytes)) {
		sirdma_refused(dev,
			       "alloc_dm: %llu bytes: more than this user's share of what is left",
			       bytes);
		return ERR_PTR(-ENOMEM);
	}
	err = -ENOMEM;
	dm = sirdma_dm_create(dev, bytes);
	if (!dm)
		goto err_uncount;
	dm->memory->user = user;
	if (rdma_user_mmap_entry_insert(ibuctx, &dm->memory->base.entry, bytes))
		goto err_unmap;
	sirdma_dm_fill_response(dm, attr->length, &resp);
	err = uverbs_copy_to(attrs, SIRDMA_ATTR_ALLOC_DM_RESP, &resp, sizeof(resp));
	if (!err)
		return &dm->ibdm;

	/* The entry owns the memory, and the count of it. */
	sirdma_dm_unmap_device(dev, dm);
	rdma_user_mmap_entry_remove(&dm->memory->base.entry);
	kvfree(dm);
	return ERR_PTR(err);

err_unmap:
	sirdma_dm_unmap_device(dev, dm);
	sirdma_dm_memory_free(dm->memory);
	kvfree(dm);
err_uncount:
	sirdma_dm_uncount(dev, user, bytes);
	return ERR_PTR(err);
}

int sirdma_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct sirdma_dm *dm = to_sdm(ibdm);

	sirdma_dm_unmap_device(to_sdev(ibdm->device), dm);
	rdma_user_mmap_entry_remove(&dm->memory->base.entry);
	kvfree(dm);
	return 0;
}

static struct sirdma_mr *sirdma_dm_mr_create(struct ib_pd *ibpd, const struct sirdma_dm *dm,
					     const struct sirdma_region *region)
{
	const u32 first = region->start / SIRDMA_PAGE_SIZE;
	const u32 end = DIV_ROUND_UP(region->start + region->length, SIRDMA_PAGE_SIZE);
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_mr *mr;
	int err = 0;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	if (region->length)
		err = sirdma_blocks_to_pbl(dev, dm->blocks + first, end - first, &mr->pbl);
	else
		mr->pbl.block_shift = __ffs(SIRDMA_PAGE_SIZE);
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_LIST_FAILURES);
		goto err_free;
	}
	err = sirdma_mr_create(dev, mr, region, to_spd(ibpd)->id);
	if (err)
		goto err_pbl;
	return mr;

err_pbl:
	sirdma_pbl_free(&dev->hw, &mr->pbl);
err_free:
	kfree(mr);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_FAILURES);
	return ERR_PTR(err);
}

struct ib_mr *sirdma_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			       struct uverbs_attr_bundle *attrs)
{
	const struct sirdma_region region = {
		.start = attr->offset,
		.length = attr->length,
		.iova = attr->offset,
		.access = attr->access_flags,
	};
	struct sirdma_mr *mr;
	const char *why;
	int err;

	err = sirdma_dm_region_check(ibdm->length, attr->offset, attr->length, attr->access_flags,
				     &why);
	if (err) {
		sirdma_refused(to_sdev(ibpd->device),
			       "reg_dm_mr: %llu bytes at %llu of %u, access %#x: %s", attr->length,
			       attr->offset, ibdm->length, attr->access_flags, why);
		return ERR_PTR(err);
	}
	mr = sirdma_dm_mr_create(ibpd, to_sdm(ibdm), &region);
	return IS_ERR(mr) ? ERR_CAST(mr) : &mr->ibmr;
}
