// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Fast registration by a consumer in the kernel: b registers, and a uses what b has registered. */
#include "consumer.h"
#include "hw/access.h"

#include <linux/scatterlist.h>

#define PAGES 8
#define FIRST_OFFSET 100 /* of the region in its first page */
#define REUSES 1000
#define MANY 16
#define ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* A region, and memory that it may be registered for. */
struct fast {
	struct ib_mr *mr;
	struct page *pages[PAGES];
	struct scatterlist sg[PAGES];
	u32 mapped; /* pages */
};

/* Memory from which a writes and into which it reads. */
struct local {
	u8 *bytes;
	u64 addr;
};

static void local_make(struct kunit *test, struct local *local)
{
	struct consumer *c = test->priv;

	local->bytes = kunit_kzalloc(test, PAGES * PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, local->bytes);
	local->addr =
		ib_dma_map_single(c->ibdev, local->bytes, PAGES * PAGE_SIZE, DMA_BIDIRECTIONAL);
	KUNIT_ASSERT_EQ(test, ib_dma_mapping_error(c->ibdev, local->addr), 0);
}

static void local_free(struct kunit *test, struct local *local)
{
	struct consumer *c = test->priv;

	ib_dma_unmap_single(c->ibdev, local->addr, PAGES * PAGE_SIZE, DMA_BIDIRECTIONAL);
}

static void fast_make(struct kunit *test, struct fast *fast, struct ib_pd *pd, u32 max)
{
	u32 i;

	memset(fast, 0, sizeof(*fast));
	for (i = 0; i < PAGES; i++) {
		fast->pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		KUNIT_ASSERT_NOT_NULL(test, fast->pages[i]);
	}
	fast->mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, max);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fast->mr);
}

static void fast_unmap(struct kunit *test, struct fast *fast)
{
	struct consumer *c = test->priv;

	if (fast->mapped)
		ib_dma_unmap_sg(c->ibdev, fast->sg, fast->mapped, DMA_BIDIRECTIONAL);
	fast->mapped = 0;
}

static void fast_free(struct kunit *test, struct fast *fast)
{
	u32 i;

	fast_unmap(test, fast);
	if (fast->mr)
		KUNIT_EXPECT_EQ(test, ib_dereg_mr(fast->mr), 0);
	for (i = 0; i < PAGES; i++)
		__free_page(fast->pages[i]);
}

/* Page @i of the region: its pages are those of the memory, backwards. */
static u8 *fast_page(const struct fast *fast, u32 count, u32 i)
{
	return page_address(fast->pages[count - 1 - i]);
}

static u8 *fast_byte(const struct fast *fast, u32 count, u32 i)
{
	i += FIRST_OFFSET;
	return fast_page(fast, count, i / PAGE_SIZE) + i % PAGE_SIZE;
}

/* Map @count pages; returns what ib_map_mr_sg() does. */
static int fast_map(struct kunit *test, struct fast *fast, u32 count)
{
	struct consumer *c = test->priv;
	u32 i;

	fast_unmap(test, fast);
	sg_init_table(fast->sg, count);
	for (i = 0; i < count; i++)
		sg_set_page(&fast->sg[i], fast->pages[count - 1 - i],
			    PAGE_SIZE - (i ? 0 : FIRST_OFFSET), i ? 0 : FIRST_OFFSET);
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(c->ibdev, fast->sg, count, DMA_BIDIRECTIONAL),
			(int)count);
	fast->mapped = count;
	return ib_map_mr_sg(fast->mr, fast->sg, count, NULL, SZ_4K);
}

/* Map the same pages again, but the second one has an address without memory. */
static int fast_map_nowhere(struct fast *fast, u32 count)
{
	u64 addr = sg_dma_address(&fast->sg[1]);
	int n;

	sg_dma_address(&fast->sg[1]) = 0;
	n = ib_map_mr_sg(fast->mr, fast->sg, count, NULL, SZ_4K);
	sg_dma_address(&fast->sg[1]) = addr;
	return n;
}

static struct ib_reg_wr fast_wr(const struct fast *fast)
{
	return (struct ib_reg_wr){
		.wr = {.wr_id = 1, .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED},
		.mr = fast->mr,
		.key = fast->mr->rkey,
		.access = ACCESS,
	};
}

static struct ib_send_wr inv_wr(u32 rkey)
{
	return (struct ib_send_wr){
		.wr_id = 2,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};
}

static void fast_next_key(struct fast *fast)
{
	ib_update_fast_reg_key(fast->mr, ib_inc_rkey(fast->mr->rkey));
}

static enum ib_wc_status fast_register(struct kunit *test, struct fast *fast)
{
	struct consumer *c = test->priv;
	struct ib_reg_wr wr = fast_wr(fast);

	return consumer_complete(test, c->qp[1], &wr.wr);
}

static enum ib_wc_status fast_invalidate(struct kunit *test, u32 rkey)
{
	struct consumer *c = test->priv;
	struct ib_send_wr wr = inv_wr(rkey);

	return consumer_complete(test, c->qp[1], &wr);
}

/* What a does by @rkey. */
static enum ib_wc_status fast_use(struct kunit *test, enum ib_wr_opcode opcode,
				  const struct local *local, u32 len, u64 remote, u32 rkey)
{
	struct consumer *c = test->priv;
	struct ib_sge sge = {local->addr, len, c->pd->local_dma_lkey};

	return consumer_rdma(test, opcode, sge, remote, rkey);
}

/* Another connection, after an error. */
static void fast_reconnect(struct kunit *test)
{
	consumer_destroy_qps(test->priv);
	consumer_make_qps_on(test, NULL);
	consumer_connect(test);
}

/*
 * The peer writes and reads the pages in the order of the list, by the key of the request and by no
 * other.
 */
static void fast_peer_reaches_the_pages(struct kunit *test)
{
	const u32 len = 3 * PAGE_SIZE - FIRST_OFFSET;
	struct consumer *c = test->priv;
	struct local local;
	struct fast fast;
	u32 old, i;

	KUNIT_EXPECT_TRUE(test, c->ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS);
	KUNIT_EXPECT_GE(test, c->ibdev->attrs.max_fast_reg_page_list_len, 256);
	consumer_connect(test);
	local_make(test, &local);
	fast_make(test, &fast, c->pd, PAGES);
	for (i = 0; i < len; i++)
		local.bytes[i] = i % 251;
	KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 3), 3);
	KUNIT_EXPECT_EQ(test, fast.mr->length, (u64)len);
	KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_WRITE, &local, len, fast.mr->iova, fast.mr->rkey),
			IB_WC_SUCCESS);
	for (i = 0; i < len && *fast_byte(&fast, 3, i) == i % 251; i++)
		;
	KUNIT_EXPECT_EQ(test, i, len);
	memset(fast_page(&fast, 3, 1), 0x77, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_READ, &local, len, fast.mr->iova, fast.mr->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, local.bytes[PAGE_SIZE - FIRST_OFFSET - 1],
			(PAGE_SIZE - FIRST_OFFSET - 1) % 251);
	KUNIT_EXPECT_EQ(test, local.bytes[PAGE_SIZE - FIRST_OFFSET], 0x77);

	old = fast.mr->rkey;
	KUNIT_EXPECT_EQ(test, fast_invalidate(test, old), IB_WC_SUCCESS);
	fast_next_key(&fast);
	KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_READ, &local, 8, fast.mr->iova, fast.mr->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, fast_use(test, IB_WR_RDMA_READ, &local, 8, fast.mr->iova, old),
			IB_WC_REM_ACCESS_ERR);
	fast_free(test, &fast);
	local_free(test, &local);
}

/* The region is invalidated and registered anew many times, with other pages. */
static void fast_region_is_reused(struct kunit *test)
{
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	struct local local;
	struct fast fast;
	u32 round;

	consumer_connect(test);
	local_make(test, &local);
	fast_make(test, &fast, c->pd, PAGES);
	KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 1), 1);
	KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	for (round = 0; round < REUSES; round++) {
		struct ib_send_wr inv = inv_wr(fast.mr->rkey);
		u32 count = 1 + round % PAGES;
		struct ib_reg_wr reg;

		KUNIT_ASSERT_EQ(test, fast_map(test, &fast, count), (int)count);
		fast_next_key(&fast);
		reg = fast_wr(&fast);
		inv.next = &reg.wr;
		KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[1], &inv, &bad), 0);
		consumer_succeed(test, 2);
		memcpy(local.bytes, &round, sizeof(round));
		KUNIT_ASSERT_EQ(test,
				fast_use(test, IB_WR_RDMA_WRITE, &local, sizeof(round),
					 fast.mr->iova, fast.mr->rkey),
				IB_WC_SUCCESS);
		KUNIT_ASSERT_EQ(test,
				memcmp(fast_page(&fast, count, 0) + FIRST_OFFSET, &round,
				       sizeof(round)),
				0);
	}
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_WRITE, &local, 4, fast.mr->iova,
				 ib_inc_rkey(fast.mr->rkey)),
			IB_WC_REM_ACCESS_ERR);
	fast_free(test, &fast);
	local_free(test, &local);
}

/* The peer invalidates the key that it has used, and is told of. */
static void fast_peer_invalidates(struct kunit *test)
{
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	struct ib_send_wr wr = {
		.wr_id = 5,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct local local;
	struct fast fast;
	struct ib_wc wc;
	u32 i;

	consumer_connect(test);
	local_make(test, &local);
	fast_make(test, &fast, c->pd, PAGES);
	KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 2), 2);
	KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, 1), 0);
	wr.ex.invalidate_rkey = fast.mr->rkey;
	KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[0], &wr, &bad), 0);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, consumer_next(c, &wc), 0);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
		if (wc.qp != c->qp[1])
			continue;
		KUNIT_EXPECT_TRUE(test, wc.wc_flags & IB_WC_WITH_INVALIDATE);
		KUNIT_EXPECT_EQ(test, wc.ex.invalidate_rkey, fast.mr->rkey);
	}
	fast_next_key(&fast);
	KUNIT_EXPECT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_READ, &local, 8, fast.mr->iova, fast.mr->rkey),
			IB_WC_SUCCESS);
	fast_free(test, &fast);
	local_free(test, &local);
}

/* IBTA 11.6.2 calls it a memory management operation error. */
static void fast_device_refuses(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct local local;
	struct fast fast, foreign;
	struct ib_pd *pd;

	consumer_connect(test);
	local_make(test, &local);
	fast_make(test, &fast, c->pd, PAGES);
	KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 2), 2);
	KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, fast_register(test, &fast), IB_WC_MW_BIND_ERR);
	/* It is as it was. */
	fast_reconnect(test);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_READ, &local, 8, fast.mr->iova, fast.mr->rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, fast_invalidate(test, fast.mr->rkey ^ 1), IB_WC_MW_BIND_ERR);

	/* A list that names no memory, as after a mapping whose failure nobody has looked at. */
	fast_reconnect(test);
	KUNIT_ASSERT_EQ(test, fast_invalidate(test, fast.mr->rkey), IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, fast_map_nowhere(&fast, 2), 2);
	KUNIT_EXPECT_EQ(test, fast_register(test, &fast), IB_WC_MW_BIND_ERR);

	pd = ib_alloc_pd(c->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	fast_make(test, &foreign, pd, PAGES);
	KUNIT_ASSERT_EQ(test, fast_map(test, &foreign, 2), 2);
	fast_reconnect(test);
	KUNIT_EXPECT_EQ(test, fast_register(test, &foreign), IB_WC_MW_BIND_ERR);
	fast_reconnect(test);
	KUNIT_EXPECT_EQ(test,
			fast_use(test, IB_WR_RDMA_READ, &local, 8, foreign.mr->iova,
				 foreign.mr->rkey),
			IB_WC_REM_ACCESS_ERR);
	fast_free(test, &foreign);
	ib_dealloc_pd(pd);
	fast_free(test, &fast);
	local_free(test, &local);
}

/* Only a region of an application can be changed. */
static void fast_is_not_changed(struct kunit *test, struct ib_mr *mr)
{
	struct consumer *c = test->priv;
	struct ib_udata udata = {};

	mr = c->ibdev->ops.rereg_user_mr(mr, IB_MR_REREG_ACCESS, 0, 0, 0, IB_ACCESS_LOCAL_WRITE,
					 c->pd, &udata);
	KUNIT_EXPECT_EQ(test, PTR_ERR(mr), -EOPNOTSUPP);
}

/* What the driver refuses before the device sees it. */
static void fast_driver_refuses(struct kunit *test)
{
	struct consumer *c = test->priv;
	u32 max = c->ibdev->attrs.max_fast_reg_page_list_len;
	const struct ib_send_wr *bad;
	struct ib_reg_wr wr;
	struct fast fast;
	struct ib_mr *mr;

	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG, 0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG, max + 1)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_alloc_mr(c->pd, IB_MR_TYPE_SG_GAPS, 8)), -EOPNOTSUPP);
	mr = ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG, max);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	fast_is_not_changed(test, mr);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
	KUNIT_ASSERT_NOT_NULL(test, c->pd->__internal_mr);
	fast_is_not_changed(test, c->pd->__internal_mr);

	consumer_connect(test);
	fast_make(test, &fast, c->pd, 4);
	wr = fast_wr(&fast);
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL); /* no list */
	/* A list that is too long is cut, and the consumer is told where. */
	KUNIT_EXPECT_EQ(test, fast_map(test, &fast, PAGES), 4);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(fast.mr, fast.sg, 2, NULL, SZ_8K), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL);
	KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 2), 2);
	fast.mr->length++; /* beyond the list */
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL);
	fast.mr->length--;
	fast.mr->iova++; /* not in the page */
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL);
	fast.mr->iova--;
	wr.key = fast.mr->rkey + 0x100;
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL);
	wr.key = fast.mr->rkey;
	wr.access = IB_ACCESS_REMOTE_WRITE;
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EINVAL);
	wr.access = ACCESS | IB_ACCESS_MW_BIND;
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EOPNOTSUPP);
	wr.access = ACCESS | SIRDMA_VERBS_FLUSH_GLOBAL;
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), -EOPNOTSUPP);
	KUNIT_EXPECT_PTR_EQ(test, bad, (const struct ib_send_wr *)&wr.wr);
	/* None of these has reached the queue. */
	KUNIT_EXPECT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
	fast_free(test, &fast);
}

/* All of them and their uses in one list of requests. */
static void fast_many_are_in_flight(struct kunit *test)
{
	struct fast *fast = kunit_kcalloc(test, MANY, sizeof(*fast), GFP_KERNEL);
	struct ib_reg_wr *reg = kunit_kcalloc(test, MANY, sizeof(*reg), GFP_KERNEL);
	struct ib_rdma_wr *use = kunit_kcalloc(test, MANY, sizeof(*use), GFP_KERNEL);
	struct ib_sge *sge = kunit_kcalloc(test, MANY, sizeof(*sge), GFP_KERNEL);
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	struct fast sink;
	struct ib_wc wc;
	u32 i;

	KUNIT_ASSERT_TRUE(test, fast && reg && use && sge);
	consumer_connect(test);
	/* a's own region, into which b writes from its. */
	fast_make(test, &sink, c->pd, PAGES);
	KUNIT_ASSERT_EQ(test, fast_map(test, &sink, 1), 1);
	reg[0] = fast_wr(&sink);
	KUNIT_ASSERT_EQ(test, consumer_complete(test, c->qp[0], &reg[0].wr), IB_WC_SUCCESS);
	for (i = 0; i < MANY; i++) {
		fast_make(test, &fast[i], c->pd, PAGES);
		memset(fast_page(&fast[i], 1, 0), i + 1, PAGE_SIZE);
		KUNIT_ASSERT_EQ(test, fast_map(test, &fast[i], 1), 1);
		reg[i] = fast_wr(&fast[i]);
		reg[i].wr.wr_id = 2 * i;
		reg[i].wr.next = &use[i].wr;
		sge[i] = (struct ib_sge){fast[i].mr->iova, 16, fast[i].mr->lkey};
		use[i] = (struct ib_rdma_wr){
			.wr = {.wr_id = 2 * i + 1,
			       .opcode = IB_WR_RDMA_WRITE,
			       .send_flags = IB_SEND_SIGNALED,
			       .sg_list = &sge[i],
			       .num_sge = 1,
			       .next = i + 1 < MANY ? &reg[i + 1].wr : NULL},
			.remote_addr = sink.mr->iova + 16 * i,
			.rkey = sink.mr->rkey,
		};
	}
	KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[1], &reg[0].wr, &bad), 0);
	for (i = 0; i < 2 * MANY; i++) {
		KUNIT_ASSERT_EQ(test, consumer_next(c, &wc), 0);
		KUNIT_ASSERT_EQ(test, wc.status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, wc.wr_id, (u64)i);
	}
	for (i = 0; i < MANY; i++) {
		KUNIT_EXPECT_EQ(test, fast_page(&sink, 1, 0)[FIRST_OFFSET + 16 * i], (u8)(i + 1));
		fast_free(test, &fast[i]);
	}
	fast_free(test, &sink);
}

static void fast_valid_region_is_deregistered(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct local local;
	struct fast fast;
	u32 i, rkey;
	u64 iova;

	consumer_connect(test);
	local_make(test, &local);
	for (i = 0; i < 100; i++) {
		fast_make(test, &fast, c->pd, PAGES);
		KUNIT_ASSERT_EQ(test, fast_map(test, &fast, 2), 2);
		fast_next_key(&fast); /* the device knows it by its index */
		KUNIT_ASSERT_EQ(test, fast_register(test, &fast), IB_WC_SUCCESS);
		rkey = fast.mr->rkey;
		iova = fast.mr->iova;
		fast_free(test, &fast);
	}
	KUNIT_EXPECT_EQ(test, fast_use(test, IB_WR_RDMA_READ, &local, 8, iova, rkey),
			IB_WC_REM_ACCESS_ERR);
	local_free(test, &local);
}

struct drain {
	struct ib_cqe cqe;
	u32 done;
	u32 flushed;
	u32 wrong;
};

static void fast_drained(struct ib_cq *cq, struct ib_wc *wc)
{
	struct drain *drain = container_of(wc->wr_cqe, struct drain, cqe);

	drain->done += wc->status == IB_WC_SUCCESS;
	drain->flushed += wc->status == IB_WC_WR_FLUSH_ERR;
	drain->wrong += wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR;
}

/*
 * As storage protocols end a connection: what was posted completes, done or flushed, and regions
 * go.
 */
static void fast_queue_is_drained(struct kunit *test)
{
	struct drain drain = {.cqe.done = fast_drained};
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	struct fast *fast = kunit_kcalloc(test, MANY, sizeof(*fast), GFP_KERNEL);
	struct ib_reg_wr wr;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, fast);
	/* The core polls it while it waits, as it does for consumers that poll for themselves. */
	c->cq->poll_ctx = IB_POLL_DIRECT;
	consumer_connect(test);
	for (i = 0; i < MANY; i++) {
		fast_make(test, &fast[i], c->pd, PAGES);
		KUNIT_ASSERT_EQ(test, fast_map(test, &fast[i], 2), 2);
	}
	for (i = 0; i < MANY; i++) {
		wr = fast_wr(&fast[i]);
		wr.wr.wr_cqe = &drain.cqe;
		KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[1], &wr.wr, &bad), 0);
		if (i == MANY / 2)
			ib_drain_sq(c->qp[1]);
	}
	ib_drain_qp(c->qp[1]);
	KUNIT_EXPECT_EQ(test, drain.done + drain.flushed, (u32)MANY);
	KUNIT_EXPECT_GE(test, drain.flushed, (u32)(MANY / 2 - 1));
	KUNIT_EXPECT_EQ(test, drain.wrong, 0u);
	for (i = 0; i < MANY; i++)
		fast_free(test, &fast[i]);
}

static struct kunit_case consumer_fast_cases[] = {
	KUNIT_CASE(fast_peer_reaches_the_pages),
	KUNIT_CASE(fast_region_is_reused),
	KUNIT_CASE(fast_peer_invalidates),
	KUNIT_CASE(fast_device_refuses),
	KUNIT_CASE(fast_driver_refuses),
	KUNIT_CASE(fast_many_are_in_flight),
	KUNIT_CASE(fast_valid_region_is_deregistered),
	KUNIT_CASE(fast_queue_is_drained),
	{},
};

static struct kunit_suite consumer_fast_suite = {
	.name = "sirdma_consumer_fast",
	.init = consumer_init,
	.exit = consumer_exit,
	.test_cases = consumer_fast_cases,
};

kunit_test_suite(consumer_fast_suite);
