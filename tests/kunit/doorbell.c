// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Doorbells by page fault: the timer of watched pages, and the work that unmaps them. The page table is
 * the test's own: a page is mapped or not, and a store to one that is not mapped faults.
 */
#include <kunit/test.h>

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/workqueue.h>

#include "compat/hrtimer.h"

/* Other suites have stand-ins of their own. */
#define sirdma_doorbell_add doorbell_test_add
#define sirdma_doorbell_remove doorbell_test_remove
#define sirdma_doorbell_create doorbell_test_create
#define sirdma_doorbell_entry doorbell_test_entry

static void test_fput(struct file *file);
static enum hrtimer_restart test_timer(struct hrtimer *timer);
static void test_unmap(struct address_space *mapping, loff_t start, loff_t length, int even_cows);
static vm_fault_t test_insert(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn);
#define fput test_fput
#define hrtimer_setup(timer, function, clock, mode) hrtimer_setup(timer, test_timer, clock, mode)
#define unmap_mapping_range test_unmap
#define vmf_insert_pfn test_insert

static struct workqueue_struct *urgent_wq;
#define sirdma_urgent_wq urgent_wq
#include "drv/doorbell.c"

#undef fput
#undef hrtimer_setup
#undef unmap_mapping_range
#undef vmf_insert_pfn

#define PATIENCE_MS 10000

#define PGOFF (FIRST_PGOFF | 5)

/* A page, the queue pairs that ring it, and the files that would keep it and its mappings. */
struct page_of {
	struct sirdma_doorbell *db;
	struct file *file;
	struct inode inode;
	struct vm_area_struct vma;
	struct sirdma_qp *qps;
	u32 nqps;
	spinlock_t
		table_lock; /* a store takes no time: it comes before the page is unmapped, or faults */
	bool mapped;
	void (*at_unmap)(struct page_of *page); /* runs while the page is still mapped */
};

static struct {
	struct sirdma_dev *dev;
	struct sirdma_bus bus;
	struct sirdma_user user;
	bool gone; /* no context exists: a ring is wrong */
	u32 ring_ns; /* a ring takes this long */
	atomic_t ticks; /* calls of timers */
	u64 tick_at[2]; /* times of the first ones */
	atomic_t rings;
	atomic_t in_task; /* rings that no softirq made */
	atomic_t kicks;
	atomic_t wrong;
} world;

static void count_ring(struct sirdma_bus *bus, u32 qpn)
{
	u64 start = ktime_get_ns();

	if (READ_ONCE(world.gone))
		atomic_inc(&world.wrong);
	if (!in_serving_softirq())
		atomic_inc(&world.in_task);
	while (ktime_get_ns() - start < world.ring_ns)
		cpu_relax();
	atomic_inc(&world.rings);
}

static u8 count_kick(struct sirdma_bus *bus, u32 qpn, u32 kicker)
{
	/* The device does not know who stored to the page. */
	if (READ_ONCE(world.gone) || kicker)
		atomic_inc(&world.wrong);
	atomic_inc(&world.kicks);
	return true;
}

static const struct sirdma_bus_ops ops = {
	.doorbell = count_ring,
	.kick = count_kick,
};

/* The last reference goes at once, and with it the memory of timer and work. */
static void test_fput(struct file *file)
{
	struct sirdma_doorbell *db = file->private_data;

	if (hrtimer_active(&db->timer) || work_busy(&db->work)) {
		atomic_inc(&world.wrong);
		/* Report it, rather than crash. */
		hrtimer_cancel(&db->timer);
		cancel_work_sync(&db->work);
	}
	doorbell_release(NULL, file);
}

static enum hrtimer_restart test_timer(struct hrtimer *timer)
{
	u32 tick = atomic_read(&world.ticks);

	if (tick < ARRAY_SIZE(world.tick_at))
		WRITE_ONCE(world.tick_at[tick], ktime_get_ns());
	atomic_inc(&world.ticks);
	return doorbell_timer(timer);
}

static void test_unmap(struct address_space *mapping, loff_t start, loff_t length, int even_cows)
{
	struct page_of *page = container_of(mapping, struct page_of, inode.i_data);

	if (start != (loff_t)PGOFF << PAGE_SHIFT || length != PAGE_SIZE)
		atomic_inc(&world.wrong);
	if (page->at_unmap)
		page->at_unmap(page);
	spin_lock(&page->table_lock);
	page->mapped = false;
	spin_unlock(&page->table_lock);
}

static vm_fault_t test_insert(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn)
{
	struct page_of *page = container_of(vma, struct page_of, vma);

	if (pfn != page_to_pfn(virt_to_page(page->db->page)))
		atomic_inc(&world.wrong);
	spin_lock(&page->table_lock);
	page->mapped = true;
	spin_unlock(&page->table_lock);
	return VM_FAULT_NOPAGE;
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
	page->db->inode = &page->inode;
	page->db->base.entry.start_pgoff = PGOFF;
	page->inode.i_mapping = &page->inode.i_data;
	page->vma.vm_private_data = page->db;
	spin_lock_init(&page->table_lock);
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

/* Watch the page as after a fault, without its look. */
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

static void page_fault(struct page_of *page)
{
	struct vm_fault vmf = {.vma = &page->vma};

	if (doorbell_fault(&vmf) != VM_FAULT_NOPAGE)
		atomic_inc(&world.wrong);
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
	urgent_wq = alloc_workqueue("sirdma_urgent", WQ_HIGHPRI | WQ_UNBOUND, 0);
	return urgent_wq ? 0 : -ENOMEM;
}

static void doorbell_exit(struct kunit *test)
{
	if (urgent_wq)
		destroy_workqueue(urgent_wq);
	urgent_wq = NULL;
	KUNIT_EXPECT_EQ(test, atomic_read(&world.wrong), 0);
}

/* Store, and expect that every queue pair is rung once, by a softirq or by a task. */
static void expect_rings(struct kunit *test, u32 nqps, bool softirq)
{
	struct page_of *page = page_open(test, &world.user, nqps);

	page_store(page);
	page_watch(page);
	KUNIT_EXPECT_TRUE(test, await(atomic_read(&world.rings) >= nqps));
	/* The page gets unmapped, and no queue pair is rung again. */
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

/* The work, or a last tick of the timer, finds a store of the last moment: no fault follows it. */
static void the_work_finds_the_last_store(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u32 before, i;

	page->at_unmap = page_store;
	for (i = 0; i < 50; i++) {
		before = looks();
		page_fault(page);
		KUNIT_ASSERT_TRUE(test, await(!page_is_watched(page)));
		KUNIT_ASSERT_FALSE(test, page->mapped);
		/* That of the fault, and that of the store. */
		KUNIT_ASSERT_EQ(test, looks(), before + 2);
		KUNIT_ASSERT_TRUE(test, page->db->page->wqe_alloc == NO_DOORBELL);
	}
	page_close(page);
}

/* Unmapping takes three ticks of the timer, and then as long as the timer needs to ring. */
static void unmap_slowly(struct page_of *page)
{
	u32 ticks = atomic_read(&world.ticks), rings = atomic_read(&world.rings);

	if (!await(atomic_read(&world.ticks) >= ticks + 3)) {
		atomic_inc(&world.wrong);
		return;
	}
	page_store(page);
	if (!await(atomic_read(&world.rings) == rings + 1))
		atomic_inc(&world.wrong);
}

static void the_timer_rings_while_the_work_unmaps(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u32 before, i;

	page->at_unmap = unmap_slowly;
	for (i = 0; i < 10; i++) {
		before = looks();
		page_fault(page);
		KUNIT_ASSERT_TRUE(test, await(!page_is_watched(page)));
		KUNIT_ASSERT_EQ(test, atomic_read(&world.wrong), 0);
		/* That of the fault, and that of the store. */
		KUNIT_ASSERT_EQ(test, looks(), before + 2);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&world.in_task), 0);
	page_close(page);
}

/* Store as a program does. Returns how many looks there were before. */
static u32 page_access(struct page_of *page)
{
	bool stored;
	u32 before;

	do {
		spin_lock(&page->table_lock);
		before = looks();
		stored = page->mapped;
		if (stored)
			page_store(page);
		spin_unlock(&page->table_lock);
		if (!stored)
			page_fault(page);
	} while (!stored);
	return before;
}

static void no_store_is_lost(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u32 i, before, faults;

	for (i = 1; i <= 300; i++) {
		before = page_access(page);
		KUNIT_ASSERT_TRUE(test, await(looks() > before));
		/* Pauses around the time after which the page is unmapped. */
		if (i % 32)
			usleep_range(i % 32 * 100, i % 32 * 100 + 10);
		else
			KUNIT_ASSERT_TRUE(test, await(!page_is_watched(page)));
	}
	faults = atomic64_read(&world.dev->counters.value[SIRDMA_COUNTER_DOORBELL_FAULTS]);
	KUNIT_EXPECT_GE(test, faults, 300 / 32);
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

/* Contexts end at all moments of timer and work, whose memory is freed then: see test_fput(). */
static void a_context_ends_under_its_timer(struct kunit *test)
{
	u32 i;

	for (i = 0; i < 400; i++) {
		struct page_of *page = page_open(test, &world.user, i % 2 ? 2 : LOOK_IN_TIMER + 1);

		if (i % 3)
			page_store(page);
		page_watch(page);
		if (i % 4 == 0) {
			/* The work waits for the lock when the context ends. */
			mutex_lock(&page->db->lock);
			KUNIT_EXPECT_TRUE(test, await(work_busy(&page->db->work)));
			mutex_unlock(&page->db->lock);
		} else if (i % 5) {
			usleep_range(i * 5, i * 5 + 20);
		}
		page_close(page);
		WRITE_ONCE(world.gone, true);
		if (i % 7 == 0)
			usleep_range(100, 200);
		WRITE_ONCE(world.gone, false);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&world.wrong), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.user.doorbell_load), 0);
}

/* So many pages that each has this period, in multiples of WATCH_NS. */
#define PERIODS 50
#define QPS 8
#define PAGES (PERIODS * WATCH_LOAD / (QPS + PAGE_LOAD))

/* A user that stores to many pages at will has no more timers and queue pairs run than the bound. */
static void pages_of_a_user_share_the_period(struct kunit *test)
{
	struct page_of *pages[PAGES], *alone;
	struct sirdma_user other = {};
	u32 ticks, rings, most, i;
	u64 start, ns;

	for (i = 0; i < PAGES; i++) {
		pages[i] = page_open(test, &world.user, QPS);
		page_watch(pages[i]);
	}
	start = ktime_get_ns();
	ticks = atomic_read(&world.ticks);
	rings = atomic_read(&world.rings);
	do {
		for (i = 0; i < PAGES; i++) {
			page_store(pages[i]);
			page_watch(pages[i]);
		}
		usleep_range(100, 200);
		ns = ktime_get_ns() - start;
	} while (ns < 100 * NSEC_PER_MSEC);
	ticks = atomic_read(&world.ticks) - ticks;
	rings = atomic_read(&world.rings) - rings;
	/* Each timer comes early once, since the load grew; those of pages that were idle meanwhile, again. */
	most = 2 * PAGES * ((u32)div_u64(ns, PERIODS * WATCH_NS) + 1);
	KUNIT_EXPECT_GT(test, rings, 0);
	KUNIT_EXPECT_LE(test, ticks, most);
	KUNIT_EXPECT_LE(test, rings, most * QPS);
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
	struct page_of *page = page_open(test, &world.user, 3);
	const u32 loads[][2] = {
		{0, 1},
		{1, 1},
		{WATCH_LOAD, 1},
		{WATCH_LOAD + 1, 2},
		{1000 * WATCH_LOAD, 1000},
		/* 1,000 queue pairs: of one page, of a page each; see kmod/README.md. */
		{1000 + PAGE_LOAD, 63},
		{1000 * (1 + PAGE_LOAD), 313},
	};
	u32 i;

	page_watch(page);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.user.doorbell_load), 3 + PAGE_LOAD);
	KUNIT_EXPECT_TRUE(test, await(!page_is_watched(page)));
	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		atomic_set(&world.user.doorbell_load, loads[i][0]);
		KUNIT_EXPECT_EQ(test, doorbell_periods(page->db), loads[i][1]);
	}
	atomic_set(&world.user.doorbell_load, 0);
	page_close(page);
}

static void a_slow_timer_pauses(struct kunit *test)
{
	struct page_of *page = page_open(test, &world.user, 1);
	u64 between;

	world.ring_ns = 500 * NSEC_PER_USEC;
	page_store(page);
	page_watch(page);
	KUNIT_ASSERT_TRUE(test, await(atomic_read(&world.ticks) >= 2));
	between = world.tick_at[1] - world.tick_at[0];
	KUNIT_EXPECT_GE(test, between, (1 + WATCH_PAUSE) * world.ring_ns);
	page_close(page);
}

static struct kunit_case doorbell_cases[] = {
	KUNIT_CASE(the_timer_rings_without_a_task),
	KUNIT_CASE(many_queue_pairs_are_rung_by_a_task),
	KUNIT_CASE(the_work_finds_the_last_store),
	KUNIT_CASE(the_timer_rings_while_the_work_unmaps),
	KUNIT_CASE(no_store_is_lost),
	KUNIT_CASE(the_timer_of_an_idle_page_ends),
	KUNIT_CASE(a_context_ends_under_its_timer),
	KUNIT_CASE(pages_of_a_user_share_the_period),
	KUNIT_CASE(the_period_follows_the_load),
	KUNIT_CASE(a_slow_timer_pauses),
	{},
};

static struct kunit_suite doorbell_suite = {
	.name = "sirdma_doorbell",
	.init = doorbell_init,
	.exit = doorbell_exit,
	.test_cases = doorbell_cases,
};
kunit_test_suite(doorbell_suite);
