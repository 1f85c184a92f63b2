// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Creation of a queue pair for which the device finds no memory at first. */
#include <kunit/test.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_qp_create(dev, qpn, sq, rq, err) ((void)(dev))
#define trace_sirdma_qp_destroy(dev, qpn, err) ((void)(dev))

/* Other suites have the real ones, or stand-ins of their own. */
#define sirdma_arp_put qp_test_arp_put
#define sirdma_cqp_create_qp qp_test_cqp_create_qp
#define sirdma_cqp_destroy_qp qp_test_cqp_destroy_qp
#define sirdma_cqp_make_room qp_test_cqp_make_room
#define sirdma_dev_fail qp_test_dev_fail
#define sirdma_kqp_create qp_test_kqp_create
#define sirdma_kqp_destroy qp_test_kqp_destroy
#define sirdma_kqp_locate_rings qp_test_kqp_locate_rings
#define sirdma_kqp_post_send qp_test_kqp_post_send
#define sirdma_qp_create_to_ctx qp_test_create_to_ctx
#define sirdma_qpctx_buf_get qp_test_buf_get
#define sirdma_qpctx_buf_put qp_test_buf_put
#define sirdma_qpctx_fini qp_test_qpctx_fini
#define sirdma_qpctx_init qp_test_qpctx_init
#define sirdma_ring_get qp_test_ring_get
#define sirdma_ring_locate qp_test_ring_locate
#define sirdma_ring_put qp_test_ring_put
#define sirdma_ring_get_part qp_test_ring_get_part
#define sirdma_ring_put_part qp_test_ring_put_part
#define sirdma_ring_in_pool qp_test_ring_in_pool
#define sirdma_ring_shadow qp_test_ring_shadow
#define sirdma_sgid_put qp_test_sgid_put

#include "drv/qp.c"
#include "drv/qpctx.c"

#define FIRST_QPN 2

/* Stand-ins for the device, which has no memory for the first commands, and for memory. */
static struct {
	struct kunit *test;
	struct sirdma_dev *dev;
	u32 no_memory;
	u32 commands;
	u32 reclaims;
	u32 reclaims_with_buffer;
	u32 forgotten; /* number of the QP whose memory was dropped */
} world;

int sirdma_cqp_create_qp(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa)
{
	return world.commands++ < world.no_memory ? -ENOMEM : 0;
}

int sirdma_cqp_destroy_qp(struct sirdma_hw *hw, u32 qpn)
{
	return 0;
}

bool sirdma_cqp_make_room(int err, u32 *tries)
{
	if (err != -ENOMEM || ++*tries > 3)
		return false;
	world.reclaims++;
	world.reclaims_with_buffer += world.dev->qpctx.used != 0;
	return true;
}

void sirdma_arp_put(struct sirdma_dev *dev, struct sirdma_arp *arp) {}
void sirdma_doorbell_add(struct sirdma_qp *qp) {}
void sirdma_doorbell_remove(struct sirdma_qp *qp) {}
void sirdma_dev_fail(struct sirdma_dev *dev, int err) {}
void sirdma_sgid_put(struct sirdma_dev *dev, struct sirdma_sgid *sgid) {}

void sirdma_qp_create_to_ctx(const struct sirdma_qp_create *qp, struct sirdma_qp_ctx *ctx) {}

int sirdma_qp_size(const struct ib_qp_cap *cap, enum sirdma_qp_sizing sizing, bool shared,
		   struct sirdma_qp_size *size)
{
	return 0;
}

struct sirdma_kqp *sirdma_kqp_create(struct sirdma_dev *dev, struct sirdma_qp *qp,
				     const struct sirdma_qp_size *size)
{
	return NULL;
}

void sirdma_kqp_destroy(struct sirdma_dev *dev, struct sirdma_kqp *kqp)
{
	world.forgotten = kqp->qp->ibqp.qp_num;
}

void sirdma_kqp_locate_rings(const struct sirdma_kqp *kqp, struct sirdma_qp_create *create) {}

int sirdma_kqp_post_send(struct sirdma_kqp *kqp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad_wr)
{
	return 0;
}

struct sirdma_ring *sirdma_ring_get(struct sirdma_ucontext *uctx, u16 type, u64 start)
{
	return NULL;
}

void sirdma_ring_put(struct sirdma_ring *ring) {}

struct sirdma_ring *sirdma_ring_get_part(struct sirdma_ucontext *uctx,
					 struct sirdma_ring_part *part)
{
	return NULL;
}

void sirdma_ring_put_part(struct sirdma_ring *ring, const struct sirdma_ring_part *part) {}

bool sirdma_ring_in_pool(struct sirdma_ucontext *uctx, u64 start)
{
	return false;
}

void sirdma_ring_locate(struct sirdma_ring *ring, u32 first_page, u32 pages,
			struct sirdma_ring_addr *addr)
{
}

u64 sirdma_ring_shadow(struct sirdma_ring *ring, u32 page)
{
	return 0;
}

static int alloc_page_of_buffers(struct sirdma_bus *bus, u64 size, struct sirdma_dma_mem *mem)
{
	mem->va = kunit_kzalloc(world.test, size, GFP_KERNEL);
	return mem->va ? 0 : -ENOMEM;
}

static void no_memory_for(struct kunit *test, u32 commands, int err)
{
	static const struct sirdma_bus_ops ops = {.dma_alloc = alloc_page_of_buffers};
	static const struct sirdma_qp_size size;
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct sirdma_bus *bus = kunit_kzalloc(test, sizeof(*bus), GFP_KERNEL);
	struct sirdma_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct sirdma_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct sirdma_pd *pd = kunit_kzalloc(test, sizeof(*pd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, bus);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	KUNIT_ASSERT_NOT_NULL(test, cq);
	KUNIT_ASSERT_NOT_NULL(test, pd);
	memset(&world, 0, sizeof(world));
	world.test = test;
	world.dev = dev;
	world.no_memory = commands;
	bus->ops = &ops;
	dev->bus = bus;
	xa_init_flags(&dev->qps, XA_FLAGS_ACCOUNT);
	KUNIT_ASSERT_EQ(test, sirdma_qpctx_init(dev), 0);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&dev->hw.qp_ids, FIRST_QPN, 64), 0);
	qp->kqp = kunit_kzalloc(test, sizeof(*qp->kqp), GFP_KERNEL);
	qp->kqp->qp = qp;
	qp->ibqp.send_cq = &cq->ibcq;
	qp->ibqp.recv_cq = &cq->ibcq;
	qp->ibqp.pd = &pd->ibpd;

	KUNIT_EXPECT_EQ(test, sirdma_qp_start(dev, qp, &size, 0), err);
	KUNIT_EXPECT_EQ(test, world.reclaims, min(commands, 3));
	KUNIT_EXPECT_EQ(test, world.commands, world.reclaims + 1);
	KUNIT_EXPECT_EQ(test, world.reclaims_with_buffer, 0);
	KUNIT_EXPECT_EQ(test, dev->qpctx.used, 0);
	KUNIT_EXPECT_EQ(test, !xa_empty(&dev->qps), !err);
	if (err)
		sirdma_qp_drop_memory(dev, qp);
	else
		sirdma_qp_stop(dev, qp);
	/* Of a QP that never was, the number may be another's by now. */
	KUNIT_EXPECT_EQ(test, world.forgotten, err ? 0 : FIRST_QPN);
	KUNIT_EXPECT_TRUE(test, xa_empty(&dev->qps));
	sirdma_idpool_fini(&dev->hw.qp_ids);
	xa_destroy(&dev->qps);
}

static void buffers_are_free_while_memory_is_reclaimed(struct kunit *test)
{
	no_memory_for(test, 0, 0);
	no_memory_for(test, 1, 0);
	no_memory_for(test, 3, 0);
	no_memory_for(test, 100, -ENOMEM);
}

static void a_target_is_its_users(struct kunit *test)
{
	struct ib_qp_init_attr init = {.qp_type = IB_QPT_XRC_TGT};
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct sirdma_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct sirdma_xrcd *xrcd = kunit_kzalloc(test, sizeof(*xrcd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	KUNIT_ASSERT_NOT_NULL(test, xrcd);
	memset(&world, 0, sizeof(world));
	init.xrcd = &xrcd->ibxrcd;
	qp->ibqp.device = &dev->ibdev;
	/* There is no number, so it ends before the device is asked. */
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&dev->hw.qp_ids, FIRST_QPN, FIRST_QPN + 1), 0);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_get(&dev->hw.qp_ids, &qp->ibqp.qp_num), 0);
	KUNIT_EXPECT_EQ(test, sirdma_create_qp(&qp->ibqp, &init, NULL), -ENOMEM);
	KUNIT_EXPECT_TRUE(test, uid_valid(qp->uid));
	KUNIT_EXPECT_TRUE(test, uid_eq(qp->uid, sirdma_user_id()));
	sirdma_idpool_put(&dev->hw.qp_ids, FIRST_QPN);
	sirdma_idpool_fini(&dev->hw.qp_ids);
}

static struct kunit_case qp_cases[] = {
	KUNIT_CASE(a_target_is_its_users),
	KUNIT_CASE(buffers_are_free_while_memory_is_reclaimed),
	{},
};

static struct kunit_suite qp_suite = {
	.name = "sirdma_qp",
	.test_cases = qp_cases,
};
kunit_test_suite(qp_suite);
