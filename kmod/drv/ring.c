// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/slab.h>

#include "compat/ib_umem.h"
#include "device.h"
#include "ring.h"
#include "sirdma/shadow.h"
#include "trace.h"
#include "ucontext.h"
#include "umem.h"

#define SIRDMA_POOL_MAX_PAGES 64
static_assert(SIRDMA_PAGE_SIZE / SIRDMA_POOL_ALIGN <= 32);

static struct sirdma_ring *to_sring(struct sirdma_mr *mr)
{
	return container_of(mr, struct sirdma_ring, mr);
}

static u32 sirdma_ring_pages(const struct sirdma_ring *ring)
{
	return ring->sq_pages + ring->rq_pages;
}

static bool sirdma_pool_valid(u64 length, const struct sirdma_mem_reg_req *req)
{
	return !req->sq_pages && !req->rq_pages && !req->cq_pages &&
	       IS_ALIGNED(length, SIRDMA_PAGE_SIZE) &&
	       length <= SIRDMA_POOL_MAX_PAGES * SIRDMA_PAGE_SIZE;
}

static int sirdma_ring_check(struct sirdma_dev *dev, u64 start, u64 length,
			     const struct sirdma_mem_reg_req *req)
{
	u64 need;

	if (req->reg_type == SIRDMA_MEMREG_QP)
		need = ((u64)req->sq_pages + req->rq_pages) * SIRDMA_PAGE_SIZE + SIRDMA_SHADOW_SIZE;
	else if (req->reg_type == SIRDMA_MEMREG_SRQ)
		need = req->rq_pages ? (u64)req->rq_pages * SIRDMA_PAGE_SIZE + SIRDMA_SHADOW_SIZE :
				       0;
	else if (req->reg_type == SIRDMA_MEMREG_POOL)
		need = sirdma_pool_valid(length, req) ? length : 0;
	else
		/*
		 * The shadow area of a CQ counts as one page, but may end before the end of the
		 * page.
		 */
		need = req->cq_pages ? (req->cq_pages - 1) * SIRDMA_PAGE_SIZE + SIRDMA_SHADOW_SIZE :
				       0;

	if (!need || length < need || !IS_ALIGNED(start, SIRDMA_PAGE_SIZE) ||
	    length > dev->ibdev.attrs.max_mr_size) {
		sirdma_refused(dev, "reg_mr: rings of type %u: %llu bytes at %#llx, need %llu",
			       req->reg_type, length, start, need);
		return -EINVAL;
	}
	return 0;
}

static u64 sirdma_ring_page_addr(struct sirdma_ring *ring, u32 page)
{
	u64 addr = 0;

	sirdma_umem_contiguous(ring->mr.umem, SIRDMA_PAGE_SHIFT, page, 1, &addr);
	return addr;
}

/* Each page of a pool has an address of its own: no ring in it leaves its page. */
static int sirdma_ring_map_pool(struct sirdma_ring *ring)
{
	u32 pages = ring->length / SIRDMA_PAGE_SIZE, i;

	ring->pool = kcalloc(pages, sizeof(*ring->pool), GFP_KERNEL_ACCOUNT);
	if (!ring->pool)
		return -ENOMEM;
	for (i = 0; i < pages; i++)
		ring->pool[i].pa = sirdma_ring_page_addr(ring, i);
	sirdma_pbl_set_contiguous(&ring->mr.pbl, 0, pages);
	ring->mr.pbl.block_shift = SIRDMA_PAGE_SHIFT;
	return 0;
}

/*
 * The device takes a ring as one address or as a level-1 list of 4 KiB blocks. A registration gets
 * PBLEs if any of its rings needs them.
 */
static int sirdma_ring_map(struct sirdma_dev *dev, struct sirdma_ring *ring)
{
	struct ib_umem *umem = ring->mr.umem;
	u32 pages = sirdma_ring_pages(ring);
	u64 addr;
	int err;

	if (ring->type == SIRDMA_MEMREG_POOL)
		return sirdma_ring_map_pool(ring);
	if (sirdma_umem_contiguous(umem, SIRDMA_PAGE_SHIFT, 0, ring->sq_pages, &addr) &&
	    sirdma_umem_contiguous(umem, SIRDMA_PAGE_SHIFT, ring->sq_pages, ring->rq_pages,
				   &addr)) {
		sirdma_pbl_set_contiguous(&ring->mr.pbl, 0, pages);
		ring->mr.pbl.block_shift = SIRDMA_PAGE_SHIFT;
		return 0;
	}
	err = sirdma_pbl_alloc(&dev->hw, pages, true, &ring->mr.pbl);
	if (err) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_LIST_FAILURES);
		return err;
	}
	ring->mr.pbl.block_shift = SIRDMA_PAGE_SHIFT;
	sirdma_umem_write_pbl(dev, umem, SIRDMA_PAGE_SHIFT, pages, &ring->mr.pbl);
	return 0;
}

static struct sirdma_ring *sirdma_ring_alloc(u64 start, u64 length,
					     const struct sirdma_mem_reg_req *req)
{
	struct sirdma_ring *ring;

	ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return NULL;
	ring->mm = current->mm;
	ring->start = start;
	ring->length = length;
	ring->type = req->reg_type;
	if (req->reg_type == SIRDMA_MEMREG_CQ) {
		ring->sq_pages = req->cq_pages;
	} else {
		ring->sq_pages = req->reg_type == SIRDMA_MEMREG_QP ? req->sq_pages : 0;
		ring->rq_pages = req->rq_pages;
	}
	return ring;
}

struct ib_mr *sirdma_ring_register(struct ib_pd *ibpd, u64 start, u64 length,
				   const struct sirdma_mem_reg_req *req, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_ring *ring;
	int err;

	err = sirdma_ring_check(dev, start, length, req);
	if (err)
		return ERR_PTR(err);
	ring = sirdma_ring_alloc(start, length, req);
	if (!ring)
		return ERR_PTR(-ENOMEM);

	ring->mr.umem = ib_umem_get_va(&dev->ibdev, start, length, IB_ACCESS_LOCAL_WRITE);
	trace_sirdma_mr_pin(dev, start, length, IB_ACCESS_LOCAL_WRITE,
			    PTR_ERR_OR_ZERO(ring->mr.umem));
	if (IS_ERR(ring->mr.umem)) {
		err = PTR_ERR(ring->mr.umem);
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MR_PIN_FAILURES);
		goto err_free;
	}
	err = sirdma_ring_map(dev, ring);
	trace_sirdma_mr_map(dev, &ring->mr, start, err);
	if (err)
		goto err_unpin;

	ring->uctx = sirdma_udata_to_uctx(udata);
	mutex_lock(&ring->uctx->ring_lock);
	list_add(&ring->node, &ring->uctx->rings);
	mutex_unlock(&ring->uctx->ring_lock);
	return &ring->mr.ibmr;

err_unpin:
	ib_umem_release(ring->mr.umem);
err_free:
	kfree(ring);
	trace_sirdma_mr_unwound(dev, start, length, err);
	return ERR_PTR(err);
}

int sirdma_ring_deregister(struct sirdma_dev *dev, struct sirdma_mr *mr)
{
	struct sirdma_ring *ring = to_sring(mr);
	struct sirdma_ucontext *uctx = ring->uctx;

	mutex_lock(&uctx->ring_lock);
	if (ring->users) {
		mutex_unlock(&uctx->ring_lock);
		return -EBUSY;
	}
	list_del(&ring->node);
	mutex_unlock(&uctx->ring_lock);

	sirdma_pbl_free(&dev->hw, &mr->pbl);
	ib_umem_release(mr->umem);
	kfree(ring->pool);
	kfree(ring);
	return 0;
}

struct sirdma_ring *sirdma_ring_get(struct sirdma_ucontext *uctx, u16 type, u64 start)
{
	struct sirdma_ring *ring, *found = ERR_PTR(-ENODATA);

	mutex_lock(&uctx->ring_lock);
	list_for_each_entry(ring, &uctx->rings, node) {
		if (ring->type != type || ring->start != start || ring->mm != current->mm)
			continue;
		found = ring->users ? ERR_PTR(-EBUSY) : ring;
		if (!ring->users)
			break;
	}
	if (!IS_ERR(found))
		found->users = 1;
	mutex_unlock(&uctx->ring_lock);
	return found;
}

void sirdma_ring_put(struct sirdma_ring *ring)
{
	mutex_lock(&ring->uctx->ring_lock);
	ring->users = 0;
	mutex_unlock(&ring->uctx->ring_lock);
}

static struct sirdma_ring_page *sirdma_ring_pool_page(struct sirdma_ring *ring, u64 start)
{
	return &ring->pool[(start - ring->start) / SIRDMA_PAGE_SIZE];
}

static bool sirdma_ring_part_fits(const struct sirdma_ring_part *part)
{
	return IS_ALIGNED(part->start, SIRDMA_POOL_ALIGN) && part->bytes <= SIRDMA_PAGE_SIZE &&
	       part->start % SIRDMA_PAGE_SIZE + part->bytes <= SIRDMA_PAGE_SIZE;
}

/* The bits of a part in sirdma_ring_page.used. The part lies within its page. */
static u32 sirdma_ring_part_bits(const struct sirdma_ring_part *part)
{
	u32 first = part->start % SIRDMA_PAGE_SIZE / SIRDMA_POOL_ALIGN;

	return GENMASK(first + DIV_ROUND_UP(part->bytes, SIRDMA_POOL_ALIGN) - 1, first);
}

static bool sirdma_ring_pool_has(const struct sirdma_ring *ring, u64 start)
{
	return ring->pool && ring->mm == current->mm && start >= ring->start &&
	       start - ring->start < ring->length;
}

bool sirdma_ring_in_pool(struct sirdma_ucontext *uctx, u64 start)
{
	struct sirdma_ring *ring;
	bool found = false;

	mutex_lock(&uctx->ring_lock);
	list_for_each_entry(ring, &uctx->rings, node) {
		found = sirdma_ring_pool_has(ring, start);
		if (found)
			break;
	}
	mutex_unlock(&uctx->ring_lock);
	return found;
}

/* The caller holds ring_lock. Returns 0, -ENODATA, -EINVAL or -EBUSY. */
static int sirdma_ring_take_part(struct sirdma_ring *ring, struct sirdma_ring_part *part)
{
	struct sirdma_ring_page *page;
	u32 bits;

	if (!sirdma_ring_pool_has(ring, part->start))
		return -ENODATA;
	if (!sirdma_ring_part_fits(part))
		return -EINVAL;
	bits = sirdma_ring_part_bits(part);
	page = sirdma_ring_pool_page(ring, part->start);
	if (page->used & bits)
		return -EBUSY;
	page->used |= bits;
	ring->users++;
	part->pa = page->pa + part->start % SIRDMA_PAGE_SIZE;
	return 0;
}

struct sirdma_ring *sirdma_ring_get_part(struct sirdma_ucontext *uctx,
					 struct sirdma_ring_part *part)
{
	struct sirdma_ring *ring, *found = ERR_PTR(-ENODATA);
	int err;

	mutex_lock(&uctx->ring_lock);
	list_for_each_entry(ring, &uctx->rings, node) {
		err = sirdma_ring_take_part(ring, part);
		if (err == -ENODATA)
			continue;
		found = err ? ERR_PTR(err) : ring;
		if (!err)
			break;
	}
	mutex_unlock(&uctx->ring_lock);
	return found;
}

void sirdma_ring_put_part(struct sirdma_ring *ring, const struct sirdma_ring_part *part)
{
	mutex_lock(&ring->uctx->ring_lock);
	sirdma_ring_pool_page(ring, part->start)->used &= ~sirdma_ring_part_bits(part);
	ring->users--;
	mutex_unlock(&ring->uctx->ring_lock);
}

void sirdma_ring_locate(struct sirdma_ring *ring, u32 first_page, u32 pages,
			struct sirdma_ring_addr *addr)
{
	*addr = (struct sirdma_ring_addr){};
	if (!pages)
		return;
	if (ring->mr.pbl.level) {
		addr->vmap = true;
		addr->first_pble = sirdma_pbl_first(&ring->mr.pbl) + first_page;
	} else {
		addr->pa = sirdma_ring_page_addr(ring, first_page);
	}
}

u64 sirdma_ring_shadow(struct sirdma_ring *ring, u32 page)
{
	if (ring->length < (u64)page * SIRDMA_PAGE_SIZE + SIRDMA_SHADOW_SIZE)
		return 0;
	return sirdma_ring_page_addr(ring, page);
}
