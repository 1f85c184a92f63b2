// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Object numbers, with the kernel's mutexes and allocations. */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/kthread.h>
#include "hw/idpool.c"

static void every_number_once_then_none(struct kunit *test)
{
	const u32 first = 3, limit = SIRDMA_IDPOOL_CHUNK_BITS + 100;
	unsigned long *seen = bitmap_zalloc(limit, GFP_KERNEL);
	struct sirdma_idpool pool;
	u32 i, id;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&pool, first, limit), 0);
	for (i = first; i < limit; i++) {
		if (sirdma_idpool_get(&pool, &id) || id < first || id >= limit ||
		    __test_and_set_bit(id, seen))
			break;
	}
	KUNIT_EXPECT_EQ(test, i, limit);
	KUNIT_EXPECT_EQ(test, sirdma_idpool_get(&pool, &id), -ENOMEM);
	sirdma_idpool_put(&pool, limit - 7);
	KUNIT_EXPECT_EQ(test, sirdma_idpool_get(&pool, &id), 0);
	KUNIT_EXPECT_EQ(test, id, limit - 7);
	sirdma_idpool_fini(&pool);
	bitmap_free(seen);
}

struct takers {
	struct sirdma_idpool pool;
	atomic_t owners[64];
	atomic_t clashes;
};

static int taker(void *arg)
{
	struct takers *t = arg;
	u32 i, id;

	for (i = 0; i < 2000; i++) {
		if (sirdma_idpool_get(&t->pool, &id))
			continue;
		if (atomic_inc_return(&t->owners[id]) != 1)
			atomic_inc(&t->clashes);
		cond_resched();
		atomic_dec(&t->owners[id]);
		sirdma_idpool_put(&t->pool, id);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void threads_never_share_a_number(struct kunit *test)
{
	struct takers *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct task_struct *threads[4];
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&t->pool, 0, 3), 0);
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		threads[i] = kthread_run(taker, t, "kunit-taker-%u", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
	}
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		kthread_stop(threads[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->clashes), 0);
	KUNIT_EXPECT_EQ(test, t->pool.used, 0);
	sirdma_idpool_fini(&t->pool);
}

static struct kunit_case idpool_cases[] = {
	KUNIT_CASE(every_number_once_then_none),
	KUNIT_CASE(threads_never_share_a_number),
	{},
};

static struct kunit_suite idpool_suite = {
	.name = "sirdma_idpool",
	.test_cases = idpool_cases,
};
kunit_test_suite(idpool_suite);
