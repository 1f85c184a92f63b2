// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Doorbells by page fault: the timer of watched pages. Nothing is mapped here; a page is watched as
 * after a fault.
 */
#include <kunit/test.h>

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/preempt.h>

/* Other suites have stand-ins of their own. */
#define sirdma_doorbell_add doorbell_test_add
#define sirdma_doorbell_remove doorbell_test_remove
#define sirdma_doorbell_create doorbell_test_create
#define sirdma_doorbell_entry doorbell_test_entry

static void test_fput(struct file *file);
#define fput test_fput

#include "drv/doorbell.c"

#undef fput

#define PATIENCE_MS 10000

/* A page, the queue pairs that ring it, and the file that would keep it. */
struct page_of {
	struct sirdma_doorbell *db;
	struct file *file;
	struct sirdma_qp *qps;
	u32 nqps;
};

static struct {
	struct sirdma_dev *dev;
	struct sirdma_bus bus;
	struct sirdma_user user;
	bool gone; /* nobody may ring */
	atomic_t rings;
	atomic_t in_task; /* rings that no softirq made */
	atomic_t kicks;
	atomic_t wrong;
} world;

static void count_ring(struct sirdma_bus *bus, u32 qpn)
{
	if (READ_ONCE(world.gone))
		atomic_inc(&world.wrong);
	if (!in_serving_softirq())
		atomic_inc(&world.in_task);
	atomic_inc(&world.rings);
}

static void count_kick(struct sirdma_bus *bus, u32 qpn)
{
	if (READ_ONCE(world.gone))
		atomic_inc(&world.wrong);
	atomic_inc(&world.kicks);
}

static const struct sirdma_bus_ops ops = {
	.doorbell = count_ring,
	.kick = count_kick,
};

/* The last reference goes at once. */
static void test_fput(struct file *file)
{
	doorbell_release(NULL, file);
}

static struct page_of *page_open(struct kunit *test, struct sirdma_user *user, u32 nqps)
{
	struct page_of *page = kunit_kzalloc(test, sizeof(*page), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, page);
	page->file = kunit_kzalloc(test, sizeof(*page->file), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page->file);
	page->qps = kvcalloc(nqps, sizeof(*page->qps), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page->qps);
	page->db = doorbell_alloc(world.dev, user);
	KUNIT_ASSERT_NOT_NULL(test, page->db);
	page->db->file = page->file;
	page->file->private_data = page->db;
	page->nqps = nqps;
	for (i = 0; i < nqps; i++) {
		page->qps[i].doorbell = page->db;
		sirdma_doorbell_add(&page->qps[i]);
	}
	return page;
}

/* Destroy the context while its page may be watched. */
static void page_close(struct page_of *page)
{
	u32 i;

	for (i = 0; i < page->nqps; i++)
		sirdma_doorbell_remove(&page->qps[i]);
	doorbell_stop(&page->db->base);
	kvfree(page->qps);
}

static void page_watch(struct page_of *page)
{
	mutex_lock(&page->db->lock);
	if (!page->db->watched)
		doorbell_watch(page->db, 0);
	mutex_unlock(&page->db->lock);
}

static void page_store(struct page_of *page)
{
	WRITE_ONCE(page->db->page->wqe_alloc, cpu_to_le32(2));
}

static bool page_is_watched(struct page_of *page)
{
	bool watched;

	mutex_lock(&page->db->lock);
	watched = page->db->watched;
	mutex_unlock(&page->db->lock);
	return watched;
}

#define await(condition) \
	({ \
		unsigned long end = jiffies + msecs_to_jiffies(PATIENCE_MS); \
		while (!(condition) && time_before(jiffies, end)) \
			usleep_range(50, 100); \
		(condition); \
	})

static int doorbell_init(struct kunit *test)
{
	memset(&world, 0, sizeof(world));
	world.dev = kunit_kzalloc(test, sizeof(*world.dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, world.dev);
	world.bus.ops = &ops;
	world.dev->bus = &world.bus;
	return sirdma_doorbell_init();
}

static void doorbell_exit(struct kunit *test)
{
	if (doorbell_wq)
		sirdma_doorbell_fini();
	doorbell_wq = NULL;
}

/* Store, and expect that every queue pair is rung once, by a softirq or by none. */
static void expect_rings(struct kunit *test, u32 nqps, bool softirq)
{
	struct page_of *page = page_open(test, &world.user, nqps);

	page_store(page);
	page_watch(page);
	KUNIT_EXPECT_TRUE(test, await(atomic_read(&world.rings) >= nqps));
	/* The page gets unmapped, and nobody rings again. */
	KUNIT_EXPECT_TRUE(test, await(!page_is_watched(page)));
	KUNIT_EXPECT_EQ(test, atomic_read(&world.rings), nqps);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.in_task), softirq ? 0 : nqps);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.kicks), 0);
	page_close(page);
}

static void the_timer_rings_without_a_task(struct kunit *test)
{
	expect_rings(test, LOOK_IN_TIMER, true);
}

static void many_queue_pairs_are_rung_by_a_task(struct kunit *test)
{
	expect_rings(test, LOOK_IN_TIMER + 1, false);
}

static u32 looks(void)
{
	return atomic_read(&world.rings) + atomic_read(&world.kicks);
}

/* Whoever finds a store, the timer or the work that unmaps the page, does so once. */
static void no_store_is_lost(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u32 i;

	for (i = 1; i <= 300; i++) {
		page_store(page);
		/* A store to a page that is not mapped faults. */
		page_watch(page);
		KUNIT_ASSERT_TRUE(test, await(looks() >= i));
		/* Pauses around the time after which the page is unmapped. */
		usleep_range(i % 16 * 100, i % 16 * 100 + 10);
	}
	KUNIT_EXPECT_EQ(test, looks(), i - 1);
	page_close(page);
}

static void the_timer_of_an_idle_page_ends(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);

	page_watch(page);
	KUNIT_EXPECT_TRUE(test, await(!page_is_watched(page)));
	KUNIT_EXPECT_TRUE(test, await(!hrtimer_active(&page->db->timer)));
	KUNIT_EXPECT_EQ(test, atomic_read(&world.user.doorbell_load), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.rings), 0);
	/* A store is found before the page is unmapped for good. */
	page_store(page);
	page_watch(page);
	KUNIT_EXPECT_TRUE(test, await(atomic_read(&world.rings) == 1));
	page_close(page);
}

/* Contexts end at all moments of timer and work, whose memory is freed then. */
static void a_context_ends_under_its_timer(struct kunit *test)
{
	u32 i;

	for (i = 0; i < 400; i++) {
		struct page_of *page = page_open(test, &world.user, i % 2 ? 2 : LOOK_IN_TIMER + 1);

		if (i % 3)
			page_store(page);
		page_watch(page);
		if (i % 5)
			usleep_range(i * 5, i * 5 + 20);
		page_close(page);
		WRITE_ONCE(world.gone, true);
		if (i % 7 == 0)
			usleep_range(100, 200);
		WRITE_ONCE(world.gone, false);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&world.wrong), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.user.doorbell_load), 0);
}

#define PAGES 100
#define QPS 8

/* A user who stores to many pages at will has no more queue pairs run than the bound. */
static void pages_of_a_user_share_the_period(struct kunit *test)
{
	u32 bound = WATCH_QPS * num_online_cpus(), rings, i;
	struct sirdma_user other = {};
	struct page_of *pages[PAGES], *alone;
	u64 start, ns;

	for (i = 0; i < PAGES; i++) {
		pages[i] = page_open(test, &world.user, QPS);
		page_watch(pages[i]);
	}
	start = ktime_get_ns();
	rings = atomic_read(&world.rings);
	do {
		for (i = 0; i < PAGES; i++) {
			page_store(pages[i]);
			page_watch(pages[i]);
		}
		usleep_range(100, 200);
		ns = ktime_get_ns() - start;
	} while (ns < 100 * NSEC_PER_MSEC);
	rings = atomic_read(&world.rings) - rings;
	KUNIT_EXPECT_GT(test, rings, 0);
	/* Each timer may fire early once, since the load grew; pages that were idle meanwhile do so again. */
	KUNIT_EXPECT_LE(test, rings, 2 * ((u32)div_u64(ns, WATCH_NS) * bound + PAGES * QPS));
	/* What others do does not delay this user. */
	alone = page_open(test, &other, 1);
	page_watch(alone);
	KUNIT_EXPECT_EQ(test, doorbell_periods(alone->db), 1);
	page_close(alone);
	KUNIT_EXPECT_EQ(test, atomic_read(&other.doorbell_load), 0);
	for (i = 0; i < PAGES; i++)
		page_close(pages[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.user.doorbell_load), 0);
}

static void the_period_follows_the_load(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u32 bound = WATCH_QPS * num_online_cpus(), i;
	const u32 loads[][2] = {{0, 1}, {1, 1}, {bound, 1}, {bound + 1, 2}, {1000 * bound, 1000}};

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		atomic_set(&world.user.doorbell_load, loads[i][0]);
		KUNIT_EXPECT_EQ(test, doorbell_periods(page->db), loads[i][1]);
	}
	atomic_set(&world.user.doorbell_load, 0);
	page_close(page);
}

static struct kunit_case doorbell_cases[] = {
	KUNIT_CASE(the_timer_rings_without_a_task),
	KUNIT_CASE(many_queue_pairs_are_rung_by_a_task),
	KUNIT_CASE(no_store_is_lost),
	KUNIT_CASE(the_timer_of_an_idle_page_ends),
	KUNIT_CASE(a_context_ends_under_its_timer),
	KUNIT_CASE(pages_of_a_user_share_the_period),
	KUNIT_CASE(the_period_follows_the_load),
	{},
};

static struct kunit_suite doorbell_suite = {
	.name = "sirdma_doorbell",
	.init = doorbell_init,
	.exit = doorbell_exit,
	.test_cases = doorbell_cases,
};
kunit_test_suite(doorbell_suite);
