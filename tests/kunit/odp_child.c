// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Children of an implicit region: how many are looked at under one hold of their mutex. */
#include <kunit/test.h>

#include <linux/slab.h>

/* Other suites have stand-ins of their own. */
#define sirdma_pbl_try_alloc odp_child_test_pbl_alloc
#define sirdma_pbl_free odp_child_test_pbl_free
#define sirdma_pble_sync odp_child_test_pble_sync
#define ib_umem_odp_alloc_child odp_child_test_alloc_umem
#define ib_umem_odp_release odp_child_test_release_umem

#include "drv/odp_child.c"

#define CHILDREN 200

/* What the children use. Their memory is never there. */

const struct mmu_interval_notifier_ops sirdma_odp_notifier_ops;

struct ib_umem_odp *ib_umem_odp_alloc_child(struct ib_umem_odp *root, unsigned long addr,
					    size_t size,
					    const struct mmu_interval_notifier_ops *ops)
{
	return root;
}

void ib_umem_odp_release(struct ib_umem_odp *umem) {}

int sirdma_pbl_try_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl)
{
	return 0;
}

void sirdma_pbl_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl) {}
void sirdma_pble_sync(struct sirdma_hw *hw, u32 pd) {}

int sirdma_sparse_alloc(struct sirdma_hw *hw, u32 *root)
{
	return 0;
}

void sirdma_sparse_free(struct sirdma_hw *hw, u32 root) {}

int sirdma_sparse_link(struct sirdma_hw *hw, u32 root, u64 block, const struct sirdma_pbl *leaf)
{
	return 0;
}

void sirdma_sparse_unlink(struct sirdma_hw *hw, u32 root, u64 block, struct sirdma_sparse_cut *cut)
{
}

void sirdma_sparse_free_cut(struct sirdma_hw *hw, const struct sirdma_sparse_cut *cut) {}

__le64 *sirdma_sparse_end(struct sirdma_hw *hw, u32 root, u64 block)
{
	return NULL;
}

void sirdma_odp_range_begin(struct sirdma_odp_range *range) {}
void sirdma_odp_range_end(struct sirdma_odp_range *range) {}

bool sirdma_odp_range_end_empty(struct sirdma_odp_range *range, bool force)
{
	return true;
}

bool sirdma_odp_range_is_empty(struct sirdma_odp_range *range)
{
	return true;
}

int sirdma_odp_range_map(struct sirdma_odp_range *range, u32 first, u32 count, bool write,
			 bool fault)
{
	return 0;
}

bool sirdma_odp_range_lock(struct sirdma_odp_range *range)
{
	return true;
}

void sirdma_odp_range_unlock(struct sirdma_odp_range *range) {}

__le64 *sirdma_odp_range_entry(struct sirdma_odp_range *range, u32 block)
{
	return NULL;
}

bool sirdma_odp_user_charge(struct sirdma_odp_user *user, u64 pages)
{
	return true;
}

void sirdma_odp_user_uncharge(struct sirdma_odp_user *user, u64 pages) {}

/* The suite */

struct world {
	struct sirdma_odp_children children;
	struct sirdma_dev dev;
	u32 works; /* calls of collect_in */
	unsigned long delay; /* of the last one, jiffies */
};

static void test_collect_in(struct sirdma_odp_children *children, unsigned long delay)
{
	struct world *world = container_of(children, struct world, children);

	world->works++;
	world->delay = delay;
}

/* All are held for a queue pair but the last one. */
static int odp_child_init(struct kunit *test)
{
	struct world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);
	struct sirdma_odp_children *children;
	struct sirdma_odp_child *child;
	unsigned long i;

	KUNIT_ASSERT_NOT_NULL(test, world);
	test->priv = world;
	children = &world->children;
	children->dev = &world->dev;
	children->collect_in = test_collect_in;
	KUNIT_ASSERT_EQ(test, sirdma_odp_children_begin(children), 0);
	for (i = 0; i < CHILDREN; i++) {
		child = child_alloc(children, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(child));
		KUNIT_ASSERT_EQ(test, child_insert(child), 0);
		child->held_until = jiffies + 1000 * HZ;
		child->held_for = i < CHILDREN - 1 ? 5 : 0;
	}
	return 0;
}

static void odp_child_exit(struct kunit *test)
{
	struct world *world = test->priv;

	if (world)
		sirdma_odp_children_end(&world->children);
}

/* Run the work as often as it comes at once. Returns that number. */
static u32 collect(struct world *world)
{
	u32 n = 0;

	do {
		world->works = 0;
		sirdma_odp_children_collect(&world->children);
		n++;
	} while (world->works && !world->delay);
	return n;
}

static void empty_children_are_looked_at_in_batches(struct kunit *test)
{
	struct world *world = test->priv;
	struct sirdma_odp_children *children = &world->children;
	struct sirdma_odp_child *child;
	unsigned long number;

	xa_for_each(&children->set, number, child)
		xa_set_mark(&children->set, number, CHILD_EMPTIED);
	KUNIT_EXPECT_EQ(test, collect(world), DIV_ROUND_UP(CHILDREN, COLLECT_BATCH));
	KUNIT_EXPECT_NULL(test, xa_load(&children->set, CHILDREN - 1));
	KUNIT_EXPECT_NOT_NULL(test, xa_load(&children->set, CHILDREN - 2));

	/* It comes back for those that were held. */
	KUNIT_EXPECT_EQ(test, world->works, 1);
	KUNIT_EXPECT_EQ(test, world->delay, CHILD_HOLD_END);
	xa_for_each(&children->set, number, child)
		child->held_until = jiffies;
	collect(world);
	KUNIT_EXPECT_EQ(test, world->works, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&children->set));
}

static void held_children_get_a_second_chance_in_batches(struct kunit *test)
{
	const struct sirdma_odp_need need = {.qpn = 6};
	struct world *world = test->priv;
	u32 n = 1;

	while (n < CHILDREN && !children_reclaim(&world->children, &need))
		n++;
	KUNIT_EXPECT_EQ(test, n, DIV_ROUND_UP(CHILDREN, COLLECT_BATCH));
	KUNIT_EXPECT_NULL(test, xa_load(&world->children.set, CHILDREN - 1));
	KUNIT_EXPECT_FALSE(test, children_reclaim(&world->children, &need));
}

static struct kunit_case odp_child_cases[] = {
	KUNIT_CASE(empty_children_are_looked_at_in_batches),
	KUNIT_CASE(held_children_get_a_second_chance_in_batches),
	{},
};

static struct kunit_suite odp_child_suite = {
	.name = "sirdma_odp_child",
	.init = odp_child_init,
	.exit = odp_child_exit,
	.test_cases = odp_child_cases,
};
kunit_test_suite(odp_child_suite);
