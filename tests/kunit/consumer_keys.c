// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The keys of a consumer in the kernel: what they open, atomics, and invalidation. */
#include "compat/ib_verbs.h"
#include "consumer.h"

#define MESSAGE 10000 /* bytes, no multiple of a packet's */

/* Memory of a consumer, mapped for the device. */
struct buffer {
	u8 *bytes;
	u64 addr;
};

static void buffer_make(struct kunit *test, struct buffer *buf, u8 first)
{
	struct consumer *c = test->priv;
	u32 i;

	buf->bytes = kunit_kmalloc(test, MESSAGE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf->bytes);
	for (i = 0; i < MESSAGE; i++)
		buf->bytes[i] = first + i % 251;
	buf->addr = ib_dma_map_single(c->ibdev, buf->bytes, MESSAGE, DMA_BIDIRECTIONAL);
	KUNIT_ASSERT_EQ(test, ib_dma_mapping_error(c->ibdev, buf->addr), 0);
}

/* From here on the CPU may look at it. */
static void buffer_unmap(struct kunit *test, const struct buffer *buf)
{
	struct consumer *c = test->priv;

	ib_dma_unmap_single(c->ibdev, buf->addr, MESSAGE, DMA_BIDIRECTIONAL);
}

static struct ib_sge buffer_sge(const struct consumer *c, const struct buffer *buf)
{
	return (struct ib_sge){buf->addr, MESSAGE, c->pd->local_dma_lkey};
}

/* One request of a, from or to the buffer; the status of its completion. */
static enum ib_wc_status consumer_do(struct kunit *test, enum ib_wr_opcode opcode,
				     const struct buffer *local, u64 remote, u32 rkey)
{
	return consumer_rdma(test, opcode, buffer_sge(test->priv, local), remote, rkey);
}

/* Each PD has a key for all memory, which serves who posts and no peer. */
static void consumer_uses_its_local_dma_key(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_sge sge;
	struct ib_send_wr send = {.wr_id = 1,
				  .opcode = IB_WR_SEND,
				  .send_flags = IB_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1};
	struct ib_recv_wr recv = {.wr_id = 2, .sg_list = &sge, .num_sge = 1};
	const struct ib_send_wr *bad;
	struct buffer from, to;
	u8 expected;

	consumer_connect(test);
	buffer_make(test, &from, 1);
	buffer_make(test, &to, 2);
	sge = buffer_sge(c, &to);
	KUNIT_ASSERT_EQ(test, ib_post_recv(c->qp[1], &recv, NULL), 0);
	sge = buffer_sge(c, &from);
	KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[0], &send, &bad), 0);
	consumer_succeed(test, 2);
	buffer_unmap(test, &to);
	KUNIT_EXPECT_EQ(test, memcmp(from.bytes, to.bytes, MESSAGE), 0);

	buffer_make(test, &to, 2);
	expected = to.bytes[MESSAGE - 1];
	KUNIT_EXPECT_EQ(test,
			consumer_do(test, IB_WR_RDMA_WRITE, &from, to.addr, c->pd->local_dma_lkey),
			IB_WC_REM_ACCESS_ERR);
	buffer_unmap(test, &to);
	KUNIT_EXPECT_EQ(test, to.bytes[0], 2);
	KUNIT_EXPECT_EQ(test, to.bytes[MESSAGE - 1], expected);
	buffer_unmap(test, &from);
}

/* Who asks for a global key lets peers reach all memory, and nothing that is none. */
static void consumer_gives_away_a_global_key(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct buffer from, to;
	u32 rkey;

	consumer_free_qps(c);
	consumer_make_qps(test, IB_PD_UNSAFE_GLOBAL_RKEY);
	consumer_connect(test);
	rkey = c->pd->unsafe_global_rkey;
	buffer_make(test, &from, 1);
	buffer_make(test, &to, 2);
	KUNIT_EXPECT_EQ(test, consumer_do(test, IB_WR_RDMA_WRITE, &from, to.addr, rkey),
			IB_WC_SUCCESS);
	buffer_unmap(test, &to);
	KUNIT_EXPECT_EQ(test, memcmp(from.bytes, to.bytes, MESSAGE), 0);

	buffer_make(test, &to, 3);
	KUNIT_EXPECT_EQ(test, consumer_do(test, IB_WR_RDMA_READ, &from, to.addr, rkey),
			IB_WC_SUCCESS);
	buffer_unmap(test, &from);
	KUNIT_EXPECT_EQ(test, memcmp(from.bytes, to.bytes, MESSAGE), 0);

	buffer_make(test, &from, 1);
	KUNIT_EXPECT_EQ(test, consumer_do(test, IB_WR_RDMA_WRITE, &from, PAGE_SIZE, rkey),
			IB_WC_REM_OP_ERR);
	buffer_unmap(test, &from);
	buffer_unmap(test, &to);
}

/* An atomic with its result in @local; the status of its completion. */
static enum ib_wc_status consumer_atomic(struct kunit *test, enum ib_wr_opcode opcode,
					 const struct buffer *local, u64 remote, u32 rkey,
					 u64 compare_add, u64 swap)
{
	struct consumer *c = test->priv;
	struct ib_sge sge = {local->addr, sizeof(u64), c->pd->local_dma_lkey};
	struct ib_atomic_wr wr = {
		.wr = {.wr_id = opcode,
		       .opcode = opcode,
		       .send_flags = IB_SEND_SIGNALED,
		       .sg_list = &sge,
		       .num_sge = 1},
		.remote_addr = remote,
		.compare_add = compare_add,
		.swap = swap,
		.rkey = rkey,
	};

	return consumer_complete(test, c->qp[0], &wr.wr);
}

static void consumer_does_atomics(struct kunit *test)
{
	const int access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC;
	struct consumer *c = test->priv;
	struct buffer result, word;
	u64 *value, *was;
	struct ib_mr *mr;

	consumer_connect(test);
	mr = c->ibdev->ops.get_dma_mr(c->pd, access);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	/* As ib_alloc_pd() does for its own. */
	mr->device = c->ibdev;
	mr->pd = c->pd;
	buffer_make(test, &result, 1);
	buffer_make(test, &word, 2);
	value = (u64 *)word.bytes;
	was = (u64 *)result.bytes;
	*value = 40;
	KUNIT_EXPECT_EQ(test,
			consumer_atomic(test, IB_WR_ATOMIC_FETCH_AND_ADD, &result, word.addr,
					mr->rkey, 2, 0),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, *was, 40ull);
	KUNIT_EXPECT_EQ(test, *value, 42ull);
	KUNIT_EXPECT_EQ(test,
			consumer_atomic(test, IB_WR_ATOMIC_CMP_AND_SWP, &result, word.addr,
					mr->rkey, 42, 7),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, *was, 42ull);
	KUNIT_EXPECT_EQ(test, *value, 7ull);
	KUNIT_EXPECT_EQ(test,
			consumer_atomic(test, IB_WR_ATOMIC_CMP_AND_SWP, &result, word.addr + 4,
					mr->rkey, 0, 1),
			IB_WC_REM_INV_REQ_ERR);
	KUNIT_EXPECT_EQ(test, *value, 7ull);
	buffer_unmap(test, &result);
	buffer_unmap(test, &word);
	KUNIT_EXPECT_EQ(test, c->ibdev->ops.dereg_mr(mr, NULL), 0);
}

static void consumer_does_atomic_writes(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct buffer from, to;
	struct ib_sge sge;
	u32 rkey;

	consumer_free_qps(c);
	consumer_make_qps(test, IB_PD_UNSAFE_GLOBAL_RKEY);
	consumer_connect(test);
	rkey = c->pd->unsafe_global_rkey;
	buffer_make(test, &from, 1);
	buffer_make(test, &to, 2);
	sge = (struct ib_sge){from.addr, sizeof(u64), c->pd->local_dma_lkey};
	KUNIT_EXPECT_EQ(test, consumer_rdma(test, IB_WR_ATOMIC_WRITE, sge, to.addr, rkey),
			IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, memcmp(from.bytes, to.bytes, sizeof(u64)), 0);
	KUNIT_EXPECT_EQ(test, to.bytes[sizeof(u64)], 2 + sizeof(u64));
	KUNIT_EXPECT_EQ(test, consumer_rdma(test, IB_WR_ATOMIC_WRITE, sge, to.addr + 4, rkey),
			IB_WC_REM_INV_REQ_ERR);
	buffer_unmap(test, &from);
	buffer_unmap(test, &to);
}

/* Work requests may not invalidate a key that they did not register. */
static void consumer_may_not_invalidate_other_keys(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_send_wr wr = {
		.wr_id = 5,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = c->pd->local_dma_lkey,
	};
	const struct ib_send_wr *bad;
	struct buffer from, to;
	struct ib_wc wc;
	u32 i;

	buffer_make(test, &from, 1);
	buffer_make(test, &to, 2);
	consumer_connect(test);
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, 1), 0);
	KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[0], &wr, &bad), 0);
	/* Both ends complete in error, in any order. */
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, consumer_next(c, &wc), 0);
		KUNIT_EXPECT_EQ(test, wc.status,
				wc.qp == c->qp[0] ? IB_WC_REM_ACCESS_ERR : IB_WC_REM_INV_REQ_ERR);
	}
	consumer_destroy_qps(c);
	consumer_make_qps_on(test, NULL);
	consumer_connect(test);
	wr.opcode = IB_WR_LOCAL_INV;
	KUNIT_EXPECT_EQ(test, consumer_complete(test, c->qp[0], &wr), IB_WC_MW_BIND_ERR);
	/* The READ places its data before it fails. */
	consumer_free_qps(c);
	consumer_make_qps(test, IB_PD_UNSAFE_GLOBAL_RKEY);
	consumer_connect(test);
	KUNIT_EXPECT_EQ(test,
			consumer_do(test, IB_WR_RDMA_READ_WITH_INV, &to, from.addr,
				    c->pd->unsafe_global_rkey),
			IB_WC_MW_BIND_ERR);
	buffer_unmap(test, &to);
	KUNIT_EXPECT_EQ(test, memcmp(from.bytes, to.bytes, MESSAGE), 0);
	buffer_unmap(test, &from);
}

/*
 * Applications' windows: the core allocates for them what the driver fills. The driver's own part is
 * the key and its number, which come and go with the window.
 */
static void consumer_windows_come_and_go(struct kunit *test)
{
	struct consumer *c = test->priv;
	const struct ib_device_ops *ops = &c->ibdev->ops;
	struct ib_mw *mw[2];
	u32 i;

	KUNIT_EXPECT_TRUE(test, c->ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_WINDOW);
	KUNIT_EXPECT_TRUE(test, c->ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_WINDOW_TYPE_2B);
	KUNIT_EXPECT_EQ(test, c->ibdev->attrs.max_mw, c->ibdev->attrs.max_mr);
	for (i = 0; i < ARRAY_SIZE(mw); i++) {
		mw[i] = kunit_kzalloc(test, ops->size_ib_mw, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, mw[i]);
		mw[i]->device = c->ibdev;
		mw[i]->pd = c->pd;
		mw[i]->type = i ? IB_MW_TYPE_2 : IB_MW_TYPE_1;
		KUNIT_ASSERT_EQ(test, ops->alloc_mw(mw[i], NULL), 0);
	}
	KUNIT_EXPECT_NE(test, mw[0]->rkey >> 8, 0u);
	KUNIT_EXPECT_NE(test, mw[0]->rkey >> 8, mw[1]->rkey >> 8);
	for (i = 0; i < ARRAY_SIZE(mw); i++)
		KUNIT_EXPECT_EQ(test, ops->dealloc_mw(mw[i]), 0);
}

/* RDS does so where it cannot pin the memory. */
static void consumer_registers_no_memory_of_users(struct kunit *test)
{
	const int rights[] = {IB_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_ON_DEMAND};
	struct consumer *c = test->priv;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rights); i++) {
		struct ib_mr *mr =
			ib_reg_user_mr(c->pd, PAGE_SIZE, PAGE_SIZE, PAGE_SIZE, rights[i]);

		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	}
}

static struct kunit_case consumer_keys_cases[] = {
	KUNIT_CASE(consumer_uses_its_local_dma_key),
	KUNIT_CASE(consumer_gives_away_a_global_key),
	KUNIT_CASE(consumer_does_atomics),
	KUNIT_CASE(consumer_does_atomic_writes),
	KUNIT_CASE(consumer_may_not_invalidate_other_keys),
	KUNIT_CASE(consumer_windows_come_and_go),
	KUNIT_CASE(consumer_registers_no_memory_of_users),
	{},
};

static struct kunit_suite consumer_keys_suite = {
	.name = "sirdma_consumer_keys",
	.init = consumer_init,
	.exit = consumer_exit,
	.test_cases = consumer_keys_cases,
};

kunit_test_suite(consumer_keys_suite);
