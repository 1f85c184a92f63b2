// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* port.h as the kernel gives it. */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include "port/port.h"

#include "port/kernel_crc32.c"

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

/* Memory that was used is given out again: fill what such an allocation returns, and free it. */
#define DIRTY 16

/* As a command does that finds no memory. */
static void *charged_after_reclaim(size_t size)
{
	return port_reclaim(SZ_64K, true) ? port_alloc_charged(size) : NULL;
}

static void expect_zeroed(struct kunit *test, void *(*alloc)(size_t size), size_t size)
{
	u8 *p[DIRTY];
	u32 round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < DIRTY; i++) {
			p[i] = alloc(size);
			KUNIT_EXPECT_NOT_NULL(test, p[i]);
			if (!p[i])
				continue;
			KUNIT_EXPECT_NULL_MSG(test, memchr_inv(p[i], 0, size),
					      "of %zu bytes, round %u", size, round);
			memset(p[i], 0xff, size);
		}
		while (i--)
			port_free(p[i]);
	}
}

static void allocation_is_zeroed_whatever_its_size(struct kunit *test)
{
	/* Of a slab, a page, more than kmalloc() has contiguously. */
	static const size_t sizes[] = {1, 100, 4096, 6000, 8 << 20};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		expect_zeroed(test, port_alloc, sizes[i]);
}

static void charged_allocation_is_zeroed(struct kunit *test)
{
	static const size_t sizes[] = {64, 512, 6000}; /* a region, a CQ, a QP */
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		expect_zeroed(test, charged_after_reclaim, sizes[i]);
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

#define CRC_MOST 4097
#define CRC_GUARD 64
#define CRC_SEED 0x12345678

struct crc_buffers {
	u8 src[CRC_MOST + CRC_GUARD];
	u8 dst[CRC_GUARD + CRC_MOST + CRC_GUARD];
	u8 head[PORT_CRC32_HEAD];
};

/* What is copied, and nothing around it. */
static void expect_copied(struct kunit *test, struct crc_buffers *b, const u8 *dst, const u8 *src,
			  u32 len)
{
	KUNIT_EXPECT_MEMEQ(test, dst, src, len);
	KUNIT_EXPECT_NULL(test, memchr_inv(b->dst, 0x5a, dst - b->dst));
	KUNIT_EXPECT_NULL(test, memchr_inv(dst + len, 0x5a, b->dst + sizeof(b->dst) - dst - len));
	memset(b->dst, 0x5a, sizeof(b->dst));
}

/* The @n bytes that were taken of @len. Vector instructions leave less than a vector. */
static bool takes_enough(u32 n, u32 len, enum port_crc32_way way)
{
	if (way == PORT_CRC32_NONE || len < PORT_CRC32_MIN)
		return !n;
	return n <= len && (way == PORT_CRC32_LIBRARY ? n == len : n > len - 16);
}

/* Sum and copy with @shift bytes before @src, and other ones before @dst: neither is aligned. */
static void expect_summed(struct kunit *test, struct crc_buffers *b, u32 len, u32 shift,
			  enum port_crc32_way way)
{
	u8 *to = b->dst + CRC_GUARD - 3 * shift, *src = b->src + shift, *head, *dst;
	u32 combination, n, sum, start;

	/* Of @head and @dst, each may be NULL. */
	for (combination = 0; combination < 4; combination++) {
		head = combination & 1 ? b->head : NULL;
		dst = combination & 2 ? to : NULL;
		start = head ? 0 : CRC_SEED;
		sum = 0x5a5a5a5a;
		n = port_crc32_fold(start, head, dst, src, len, &sum);
		KUNIT_EXPECT_TRUE_MSG(test, takes_enough(n, len, way), "way %d took %u of %u", way,
				      n, len);
		if (head)
			start = crc_bits(0, head, PORT_CRC32_HEAD);
		KUNIT_EXPECT_EQ_MSG(test, sum, n ? crc_bits(start, src, n) : 0x5a5a5a5a,
				    "way %d, combination %u, %u bytes", way, combination, len);
		expect_copied(test, b, to, src, dst ? n : 0);
	}
}

static void crc_by_instructions_is_ours(struct kunit *test)
{
	static const u32 lens[] = {1,	3,   511, 512, 513, 527,  528,
				   575, 576, 703, 704, 768, 1024, CRC_MOST};
	struct crc_buffers *b = kunit_kmalloc(test, sizeof(*b), GFP_KERNEL);
	u32 i, shift, way;

	KUNIT_ASSERT_NOT_NULL(test, b);
	/* The check value of this CRC, which begins and ends inverted. */
	KUNIT_ASSERT_EQ(test, ~crc_bits(~0u, "123456789", 9), 0xcbf43926);
	get_random_bytes(b->src, sizeof(b->src));
	get_random_bytes(b->head, sizeof(b->head));
	memset(b->dst, 0x5a, sizeof(b->dst));
	KUNIT_EXPECT_TRUE(test, port_crc32_use(PORT_CRC32_NONE));
	KUNIT_EXPECT_EQ(test, port_crc32_use(PORT_CRC32_LIBRARY),
			!!(crc32_optimizations() & CRC32_LE_OPTIMIZATION));
#ifdef CONFIG_X86_64
	KUNIT_EXPECT_EQ(test, port_crc32_use(PORT_CRC32_PCLMUL),
			!!boot_cpu_has(X86_FEATURE_PCLMULQDQ));
	KUNIT_EXPECT_EQ(test, port_crc32_use(PORT_CRC32_VPCLMUL),
			boot_cpu_has(X86_FEATURE_PCLMULQDQ) &&
				boot_cpu_has(X86_FEATURE_VPCLMULQDQ) && sirdma_may_use_avx512());
#endif
	for (way = 0; way < PORT_CRC32_WAYS; way++)
		for (i = 0; i < ARRAY_SIZE(lens) && port_crc32_use(way); i++)
			for (shift = 0; shift < 4; shift++)
				expect_summed(test, b, lens[i], shift, way);
	port_crc32_use(PORT_CRC32_NONE);
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
	KUNIT_CASE(crc_by_instructions_is_ours),
	KUNIT_CASE(counter_loses_nothing_to_an_interrupt),
	{},
};

static struct kunit_suite port_suite = {
	.name = "sirdma_port",
	.test_cases = port_cases,
};
kunit_test_suite(port_suite);
