// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* port.h as the kernel gives it. */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include "port/port.h"

#define MS 1000000ull

struct bell {
	struct port_timer timer;
	struct port_event rang;
	u64 when;
	u32 times;
	bool in_hardirq;
};

static void bell_ring(struct port_timer *timer)
{
	struct bell *bell = container_of(timer, struct bell, timer);

	bell->when = port_now_ns(NULL);
	bell->times++;
	bell->in_hardirq = in_hardirq();
	port_event_set(&bell->rang);
}

static struct bell *bell_new(struct kunit *test)
{
	struct bell *bell = kunit_kzalloc(test, sizeof(*bell), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bell);
	port_event_init(&bell->rang);
	port_timer_init(&bell->timer, NULL, bell_ring);
	return bell;
}

static void timer_fires_once_and_not_early(struct kunit *test)
{
	struct bell *bell = bell_new(test);
	u64 start = port_now_ns(NULL);

	port_timer_arm(&bell->timer, 2 * MS);
	KUNIT_EXPECT_TRUE(test, port_event_wait(&bell->rang, 5000));
	port_timer_cancel_sync(&bell->timer);
	KUNIT_EXPECT_GE(test, bell->when - start, 2 * MS);
	KUNIT_EXPECT_EQ(test, bell->times, 1);
	/* Its callback takes locks that only keep softirqs away. */
	KUNIT_EXPECT_FALSE(test, bell->in_hardirq);
}

static void timer_armed_again_forgets_the_first_time(struct kunit *test)
{
	struct bell *bell = bell_new(test);

	port_timer_arm(&bell->timer, 3600 * 1000 * MS);
	port_timer_arm(&bell->timer, 1 * MS);
	KUNIT_EXPECT_TRUE(test, port_event_wait(&bell->rang, 5000));
	port_timer_cancel_sync(&bell->timer);
	KUNIT_EXPECT_EQ(test, bell->times, 1);
}

static void timer_cancelled_does_not_fire(struct kunit *test)
{
	struct bell *bell = bell_new(test);

	port_timer_arm(&bell->timer, 5 * MS);
	port_timer_cancel_sync(&bell->timer);
	KUNIT_EXPECT_FALSE(test, port_event_wait(&bell->rang, 30));
	KUNIT_EXPECT_EQ(test, bell->times, 0);
}

struct setter {
	struct work_struct work;
	struct port_event event;
};

static void setter_work(struct work_struct *work)
{
	port_event_set(&container_of(work, struct setter, work)->event);
}

static void event_is_awaited_and_remembered(struct kunit *test)
{
	struct setter *setter = kunit_kzalloc(test, sizeof(*setter), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, setter);
	port_event_init(&setter->event);
	KUNIT_EXPECT_FALSE(test, port_event_wait(&setter->event, 1));
	INIT_WORK(&setter->work, setter_work);
	schedule_work(&setter->work);
	KUNIT_EXPECT_TRUE(test, port_event_wait(&setter->event, 5000));
	KUNIT_EXPECT_TRUE(test, port_event_wait(&setter->event, 0));
	flush_work(&setter->work);
}

static void lock_keeps_softirqs_away(struct kunit *test)
{
	struct port_lock lock;

	port_lock_init(&lock);
	KUNIT_EXPECT_EQ(test, softirq_count(), 0);
	port_lock(&lock);
	KUNIT_EXPECT_NE(test, softirq_count(), 0);
	KUNIT_EXPECT_LT(test, port_cpu(), port_nr_cpus());
	port_unlock(&lock);
	KUNIT_EXPECT_EQ(test, softirq_count(), 0);
}

static void reference_counts_to_zero_once(struct kunit *test)
{
	struct port_ref ref;

	port_ref_init(&ref, 1);
	port_ref_get(&ref);
	KUNIT_EXPECT_FALSE(test, port_ref_put(&ref));
	KUNIT_EXPECT_TRUE(test, port_ref_get_unless_zero(&ref));
	KUNIT_EXPECT_FALSE(test, port_ref_put(&ref));
	KUNIT_EXPECT_TRUE(test, port_ref_put(&ref));
	KUNIT_EXPECT_FALSE(test, port_ref_get_unless_zero(&ref));
}

static void allocation_is_zeroed_whatever_its_size(struct kunit *test)
{
	static const size_t sizes[] = {1, 4096, 8 << 20};
	size_t i, off;
	u8 *p;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		p = port_alloc(sizes[i]);
		KUNIT_ASSERT_NOT_NULL(test, p);
		for (off = 0; off < sizes[i] && !p[off]; off++)
			;
		KUNIT_EXPECT_EQ(test, off, sizes[i]);
		memset(p, 0xff, sizes[i]);
		port_free(p);
	}
}

static void charged_allocation_is_zeroed(struct kunit *test)
{
	const size_t size = 6000;
	u8 *p;

	KUNIT_EXPECT_TRUE(test, port_reclaim());
	p = port_alloc_charged(size);
	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_EXPECT_NULL(test, memchr_inv(p, 0, size));
	port_free(p);
}

static void compare_and_swap_tells_who_was_first(struct kunit *test)
{
	u64 word = 5;

	KUNIT_EXPECT_FALSE(test, port_cas64(&word, 4, 6));
	KUNIT_EXPECT_EQ(test, word, 5);
	KUNIT_EXPECT_TRUE(test, port_cas64(&word, 5, ~0ull));
	KUNIT_EXPECT_EQ(test, word, ~0ull);
}

static void *checked(const void *p, u32 len)
{
	return port_dma_ptr_checked(NULL, (uintptr_t)p, len);
}

static void address_of_a_peer_is_memory_or_nothing(struct kunit *test)
{
	const u32 size = 2 * PAGE_SIZE;
	void *linear = kunit_kmalloc(test, size, GFP_KERNEL), *mapped = vmalloc(size);

	KUNIT_ASSERT_NOT_NULL(test, linear);
	KUNIT_ASSERT_NOT_NULL(test, mapped);
	KUNIT_EXPECT_PTR_EQ(test, checked(linear, size), linear);
	KUNIT_EXPECT_PTR_EQ(test, checked(high_memory - 8, 8), high_memory - 8);
	KUNIT_EXPECT_NULL(test, checked(mapped, size));
	KUNIT_EXPECT_NULL(test, checked(mapped + PAGE_SIZE, 1));
	KUNIT_EXPECT_NULL(test, checked(NULL, 1));
	KUNIT_EXPECT_NULL(test, checked((void *)PAGE_SIZE, 8));
	KUNIT_EXPECT_NULL(test, checked(high_memory - 8, 9));
	KUNIT_EXPECT_NULL(test, checked((void *)-8l, 16));
	vfree(mapped);
}

static u32 crc_bits(u32 crc, const u8 *p, u32 len)
{
	u32 bit;

	while (len--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return crc;
}

static void crc_of_the_library_is_ours(struct kunit *test)
{
	static const u32 lens[] = {1, 63, 64, 511, 512, 4097};
	u8 *src = kunit_kmalloc(test, 8192, GFP_KERNEL),
	   *dst = kunit_kzalloc(test, 8192, GFP_KERNEL);
	u8 head[PORT_CRC32_HEAD];
	u32 i, len, sum;

	KUNIT_ASSERT_NOT_NULL(test, src);
	KUNIT_ASSERT_NOT_NULL(test, dst);
	get_random_bytes(src, 8192);
	get_random_bytes(head, sizeof(head));
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		len = lens[i];
		sum = crc_bits(0x12345678, src, len);
		KUNIT_EXPECT_EQ(test, port_crc32_library(0x12345678, NULL, NULL, src, len), sum);
		KUNIT_EXPECT_EQ(test, port_crc32_library(0x12345678, NULL, dst, src, len), sum);
		KUNIT_EXPECT_EQ(test, memcmp(dst, src, len), 0);
		KUNIT_EXPECT_EQ(test, port_crc32_library(0, head, NULL, src, len),
				crc_bits(crc_bits(0, head, sizeof(head)), src, len));
		/* What it takes, if it takes anything, is what the tables would make of it. */
		if (port_crc32_fold(0x12345678, NULL, NULL, src, len, &sum) == len)
			KUNIT_EXPECT_EQ(test, sum, crc_bits(0x12345678, src, len));
	}
}

#define BEATS 2000

/* An interrupt that counts what the test counts, again and again. */
struct drum {
	struct hrtimer timer;
	struct port_stats stats;
	u32 beats;
};

static enum hrtimer_restart drum_beat(struct hrtimer *timer)
{
	struct drum *drum = container_of(timer, struct drum, timer);

	port_stats_add(&drum->stats, 1, 1);
	WRITE_ONCE(drum->beats, drum->beats + 1);
	hrtimer_forward_now(timer, ns_to_ktime(10000));
	return drum->beats < BEATS ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static void counter_loses_nothing_to_an_interrupt(struct kunit *test)
{
	struct drum *drum = kunit_kzalloc(test, sizeof(*drum), GFP_KERNEL);
	u64 counted = 0;

	KUNIT_ASSERT_NOT_NULL(test, drum);
	KUNIT_ASSERT_EQ(test, port_stats_init(&drum->stats, 2), 0);
	hrtimer_setup(&drum->timer, drum_beat, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&drum->timer, ns_to_ktime(10000), HRTIMER_MODE_REL_HARD);
	while (READ_ONCE(drum->beats) < BEATS) {
		port_stats_add(&drum->stats, 1, 1);
		counted++;
		if (counted % 1024 == 0)
			cond_resched();
	}
	hrtimer_cancel(&drum->timer);
	KUNIT_EXPECT_EQ(test, port_stats_read(&drum->stats, 1), counted + BEATS);
	KUNIT_EXPECT_EQ(test, port_stats_read(&drum->stats, 0), 0);
	port_stats_fini(&drum->stats);
}

static struct kunit_case port_cases[] = {
	KUNIT_CASE(timer_fires_once_and_not_early),
	KUNIT_CASE(timer_armed_again_forgets_the_first_time),
	KUNIT_CASE(timer_cancelled_does_not_fire),
	KUNIT_CASE(event_is_awaited_and_remembered),
	KUNIT_CASE(lock_keeps_softirqs_away),
	KUNIT_CASE(reference_counts_to_zero_once),
	KUNIT_CASE(allocation_is_zeroed_whatever_its_size),
	KUNIT_CASE(charged_allocation_is_zeroed),
	KUNIT_CASE(compare_and_swap_tells_who_was_first),
	KUNIT_CASE(address_of_a_peer_is_memory_or_nothing),
	KUNIT_CASE(crc_of_the_library_is_ours),
	KUNIT_CASE(counter_loses_nothing_to_an_interrupt),
	{},
};

static struct kunit_suite port_suite = {
	.name = "sirdma_port",
	.test_cases = port_cases,
};
kunit_test_suite(port_suite);
