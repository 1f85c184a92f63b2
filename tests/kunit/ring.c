// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ring memory is found again by its address, by one owner at a time. */
#include <kunit/test.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_mr_pin(dev, start, length, access, err) ((void)(access))
#define trace_sirdma_mr_map(dev, mr, start, err) ((void)(err))
#define trace_sirdma_mr_unwound(dev, start, length, err) ((void)(err))

#include "drv/ring.c"

void sirdma_pbl_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl) {}

u32 sirdma_pbl_first(const struct sirdma_pbl *pbl)
{
	return 0;
}

static struct sirdma_ring *registered(struct kunit *test, struct sirdma_ucontext *uctx, u16 type,
				      u64 start)
{
	const struct sirdma_mem_reg_req req = {.reg_type = type, .sq_pages = 1, .cq_pages = 1};
	struct sirdma_ring *ring = sirdma_ring_alloc(start, 2 * SIRDMA_PAGE_SIZE, &req);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	ring->uctx = uctx;
	list_add(&ring->node, &uctx->rings);
	return ring;
}

static void ring_has_one_owner(struct kunit *test)
{
	struct sirdma_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx), GFP_KERNEL);
	struct sirdma_ring *qp, *cq, *twice;

	KUNIT_ASSERT_NOT_NULL(test, uctx);
	mutex_init(&uctx->ring_lock);
	INIT_LIST_HEAD(&uctx->rings);
	qp = registered(test, uctx, SIRDMA_MEMREG_QP, 0x1000);
	cq = registered(test, uctx, SIRDMA_MEMREG_CQ, 0x1000);

	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x2000),
			    ERR_PTR(-ENODATA));
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x1000), qp);
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x1000), ERR_PTR(-EBUSY));
	KUNIT_EXPECT_EQ(test, sirdma_ring_deregister(NULL, &qp->mr), -EBUSY);
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_CQ, 0x1000), cq);
	sirdma_ring_put(qp);
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x1000), qp);

	/* The same memory registered twice is two registrations. */
	twice = registered(test, uctx, SIRDMA_MEMREG_QP, 0x1000);
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x1000), twice);
	/* So it is with another process of the context that has the same address. */
	twice->users = 0;
	twice->mm = (const struct mm_struct *)test;
	KUNIT_EXPECT_PTR_EQ(test, sirdma_ring_get(uctx, SIRDMA_MEMREG_QP, 0x1000), ERR_PTR(-EBUSY));
	KUNIT_EXPECT_EQ(test, twice->users, 0);
	kfree(twice);
	kfree(cq);
	kfree(qp);
}

/* A shared receive queue has pages of WQEs and the shadow area on a page behind them. */
static void ring_of_a_shared_queue_is_checked(struct kunit *test)
{
	struct sirdma_mem_reg_req req = {.reg_type = SIRDMA_MEMREG_SRQ, .rq_pages = 2};
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	const u64 need = 2 * SIRDMA_PAGE_SIZE + SIRDMA_SHADOW_SIZE;
	struct sirdma_ring *ring;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ibdev.attrs.max_mr_size = U64_MAX;
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, need, &req), 0);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, need - 1, &req), -EINVAL);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1010, need, &req), -EINVAL);
	ring = sirdma_ring_alloc(0x1000, need, &req);
	KUNIT_ASSERT_NOT_NULL(test, ring);
	KUNIT_EXPECT_EQ(test, ring->rq_pages, 2);
	KUNIT_EXPECT_EQ(test, ring->sq_pages, 0);
	kfree(ring);
	req.rq_pages = 0;
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, need, &req), -EINVAL);
}

#define POOL_START 0x10000ull
#define POOL_PA 0xabc000ull

static struct sirdma_ring *pool(struct kunit *test, struct sirdma_ucontext *uctx, u32 pages)
{
	struct sirdma_ring *ring = registered(test, uctx, SIRDMA_MEMREG_POOL, POOL_START);
	u32 i;

	ring->length = pages * SIRDMA_PAGE_SIZE;
	ring->pool = kunit_kcalloc(test, pages, sizeof(*ring->pool), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ring->pool);
	for (i = 0; i < pages; i++)
		ring->pool[i].pa = POOL_PA - i * SIRDMA_PAGE_SIZE;
	return ring;
}

/* Takes @bytes at @offset of the pool, and returns 0 or the error. */
static int take(struct sirdma_ucontext *uctx, struct sirdma_ring_part *part, u64 offset, u32 bytes)
{
	part->start = POOL_START + offset;
	part->bytes = bytes;
	return PTR_ERR_OR_ZERO(sirdma_ring_get_part(uctx, part));
}

static void parts_of_a_pool_have_one_owner_each(struct kunit *test)
{
	struct sirdma_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx), GFP_KERNEL);
	struct sirdma_ring_part first, second, other;
	struct sirdma_ring *ring;

	KUNIT_ASSERT_NOT_NULL(test, uctx);
	mutex_init(&uctx->ring_lock);
	INIT_LIST_HEAD(&uctx->rings);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 0, 64), -ENODATA);
	ring = pool(test, uctx, 2);

	KUNIT_EXPECT_TRUE(test, sirdma_ring_in_pool(uctx, POOL_START + 2 * SIRDMA_PAGE_SIZE - 1));
	KUNIT_EXPECT_FALSE(test, sirdma_ring_in_pool(uctx, POOL_START + 2 * SIRDMA_PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, sirdma_ring_in_pool(uctx, POOL_START - 1));
	KUNIT_EXPECT_EQ(test, take(uctx, &first, SIRDMA_PAGE_SIZE + 256, 832), 0);
	KUNIT_EXPECT_EQ(test, first.pa, POOL_PA - SIRDMA_PAGE_SIZE + 256);
	KUNIT_EXPECT_EQ(test, take(uctx, &second, SIRDMA_PAGE_SIZE + 1280, 4096 - 1280), 0);

	KUNIT_EXPECT_EQ(test, take(uctx, &other, SIRDMA_PAGE_SIZE, 257), -EBUSY);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, SIRDMA_PAGE_SIZE + 1024, 64), -EBUSY);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 64, 64), -EINVAL);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 256, 4096 - 255), -EINVAL);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 0, ~0u), -EINVAL);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 2 * SIRDMA_PAGE_SIZE, 64), -ENODATA);
	KUNIT_EXPECT_EQ(test, sirdma_ring_deregister(NULL, &ring->mr), -EBUSY);

	sirdma_ring_put_part(ring, &first);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, SIRDMA_PAGE_SIZE, 1280), 0);
	sirdma_ring_put_part(ring, &other);
	KUNIT_EXPECT_EQ(test, sirdma_ring_deregister(NULL, &ring->mr), -EBUSY);
	sirdma_ring_put_part(ring, &second);
	KUNIT_EXPECT_EQ(test, ring->users, 0);
	KUNIT_EXPECT_EQ(test, take(uctx, &other, 0, 4096), 0);
	kfree(ring);
}

static void memory_of_a_pool_is_checked(struct kunit *test)
{
	struct sirdma_mem_reg_req req = {.reg_type = SIRDMA_MEMREG_POOL};
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	const u64 most = SIRDMA_POOL_MAX_PAGES * SIRDMA_PAGE_SIZE;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ibdev.attrs.max_mr_size = U64_MAX;
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, most, &req), 0);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, most + SIRDMA_PAGE_SIZE, &req),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, 0, &req), -EINVAL);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, most - 64, &req), -EINVAL);
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1040, most, &req), -EINVAL);
	req.sq_pages = 1;
	KUNIT_EXPECT_EQ(test, sirdma_ring_check(dev, 0x1000, most, &req), -EINVAL);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(parts_of_a_pool_have_one_owner_each),
	KUNIT_CASE(memory_of_a_pool_is_checked),
	KUNIT_CASE(ring_has_one_owner),
	KUNIT_CASE(ring_of_a_shared_queue_is_checked),
	{},
};

static struct kunit_suite ring_suite = {
	.name = "sirdma_ring",
	.test_cases = ring_cases,
};
kunit_test_suite(ring_suite);
