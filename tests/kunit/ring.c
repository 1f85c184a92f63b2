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

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_has_one_owner),
	KUNIT_CASE(ring_of_a_shared_queue_is_checked),
	{},
};

static struct kunit_suite ring_suite = {
	.name = "sirdma_ring",
	.test_cases = ring_cases,
};
kunit_test_suite(ring_suite);
