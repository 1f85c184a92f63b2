// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Clocks and timers of port.h for userspace, real and virtual. */
#include <stdlib.h>
#include <time.h>
#include "port/port.h"

#define NSEC_PER_SEC 1000000000ull

struct port_clock {
	pthread_mutex_t lock; /* protects everything below; not held over callbacks */
	pthread_cond_t idle; /* a callback returned */
	struct port_timer *heap;
	struct port_timer *firing; /* timer whose callback runs now */
	pthread_t runner; /* thread that fires, when busy */
	u64 now; /* virtual clock, ns */
	u64 next_due; /* due time of the heap's root, ~0 when empty; read without the lock */
	u64 seq;
	bool busy; /* one thread fires */
	bool is_virtual;
};

u64 port_now_ns(struct port_clock *clock)
{
	struct timespec ts;

	if (clock && clock->is_virtual)
		return __atomic_load_n(&clock->now, __ATOMIC_RELAXED);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

static bool timer_before(const struct port_timer *a, const struct port_timer *b)
{
	return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

/* Merge two heaps whose roots have no siblings. */
static struct port_timer *heap_meld(struct port_timer *a, struct port_timer *b)
{
	struct port_timer *t;

	if (!a || !b)
		return a ? a : b;
	if (timer_before(b, a)) {
		t = a;
		a = b;
		b = t;
	}
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	b->prev = a;
	a->child = b;
	return a;
}

/* Merge a list of siblings into one heap: in pairs, then all of the pairs. */
static struct port_timer *heap_meld_siblings(struct port_timer *first)
{
	struct port_timer *pairs = NULL, *root = NULL, *a, *b;

	while (first) {
		a = first;
		b = a->next;
		first = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = heap_meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		a = pairs;
		pairs = a->next;
		a->next = NULL;
		root = heap_meld(root, a);
	}
	if (root)
		root->prev = NULL;
	return root;
}

static void clock_note_next(struct port_clock *clock)
{
	__atomic_store_n(&clock->next_due, clock->heap ? clock->heap->due : ~0ull,
			 __ATOMIC_RELEASE);
}

static void timer_enqueue(struct port_timer *timer, u64 due)
{
	struct port_clock *clock = timer->clock;

	timer->due = due;
	timer->seq = clock->seq++;
	timer->child = NULL;
	timer->next = NULL;
	timer->prev = NULL;
	timer->armed = true;
	clock->heap = heap_meld(clock->heap, timer);
	clock_note_next(clock);
}

static void timer_dequeue(struct port_timer *timer)
{
	struct port_clock *clock = timer->clock;
	struct port_timer *rest;

	if (!timer->armed)
		return;
	rest = heap_meld_siblings(timer->child);
	if (timer == clock->heap) {
		clock->heap = rest;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		clock->heap = heap_meld(clock->heap, rest);
	}
	timer->child = NULL;
	timer->next = NULL;
	timer->prev = NULL;
	timer->armed = false;
	clock_note_next(clock);
}

struct port_clock *port_clock_create(bool is_virtual)
{
	struct port_clock *clock = calloc(1, sizeof(*clock));

	if (!clock)
		return NULL;
	pthread_mutex_init(&clock->lock, NULL);
	pthread_cond_init(&clock->idle, NULL);
	clock->is_virtual = is_virtual;
	clock->now = NSEC_PER_SEC; /* a number that is not 0, which code may take for "never" */
	clock->next_due = ~0ull;
	return clock;
}

void port_clock_destroy(struct port_clock *clock)
{
	if (!clock)
		return;
	if (clock->heap)
		port_warn("clock destroyed with armed timers");
	pthread_cond_destroy(&clock->idle);
	pthread_mutex_destroy(&clock->lock);
	free(clock);
}

static bool clock_runs_here(const struct port_clock *clock)
{
	return clock->busy && pthread_equal(clock->runner, pthread_self());
}

/*
 * Fire all timers that are due by @until. The caller holds the lock; the function drops it during
 * callbacks.
 */
static void clock_fire(struct port_clock *clock, u64 until)
{
	struct port_timer *timer;

	clock->busy = true;
	clock->runner = pthread_self();
	while (clock->heap && clock->heap->due <= until) {
		timer = clock->heap;
		if (clock->is_virtual && timer->due > clock->now)
			__atomic_store_n(&clock->now, timer->due, __ATOMIC_RELAXED);
		timer_dequeue(timer);
		clock->firing = timer;
		pthread_mutex_unlock(&clock->lock);
		timer->fn(timer);
		pthread_mutex_lock(&clock->lock);
		clock->firing = NULL;
		pthread_cond_broadcast(&clock->idle);
	}
	clock->busy = false;
}

void port_clock_advance(struct port_clock *clock, u64 ns)
{
	u64 until;

	pthread_mutex_lock(&clock->lock);
	until = clock->now + ns;
	if (!clock->busy)
		clock_fire(clock, until);
	if (clock->is_virtual && clock->now < until)
		__atomic_store_n(&clock->now, until, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&clock->lock);
}

u64 port_clock_due(struct port_clock *clock)
{
	return __atomic_load_n(&clock->next_due, __ATOMIC_ACQUIRE);
}

u64 port_clock_next(struct port_clock *clock)
{
	u64 due = port_clock_due(clock);
	u64 now;

	if (due == ~0ull)
		return due;
	now = port_now_ns(clock);
	return due > now ? due - now : 0;
}

void port_clock_run(struct port_clock *clock, u64 until)
{
	/* Pollers call this all the time: take no lock when no timer is due. */
	if (port_clock_due(clock) > until)
		return;
	pthread_mutex_lock(&clock->lock);
	if (!clock->busy)
		clock_fire(clock, until);
	pthread_mutex_unlock(&clock->lock);
}

void port_timer_init(struct port_timer *timer, struct port_clock *clock,
		     void (*fn)(struct port_timer *timer))
{
	memset(timer, 0, sizeof(*timer));
	timer->clock = clock;
	timer->fn = fn;
}

void port_timer_arm(struct port_timer *timer, u64 ns)
{
	struct port_clock *clock = timer->clock;

	pthread_mutex_lock(&clock->lock);
	timer_dequeue(timer);
	timer_enqueue(timer, port_now_ns(clock) + ns);
	pthread_mutex_unlock(&clock->lock);
}

void port_timer_cancel(struct port_timer *timer)
{
	pthread_mutex_lock(&timer->clock->lock);
	timer_dequeue(timer);
	pthread_mutex_unlock(&timer->clock->lock);
}

void port_timer_cancel_sync(struct port_timer *timer)
{
	struct port_clock *clock = timer->clock;

	pthread_mutex_lock(&clock->lock);
	timer_dequeue(timer);
	while (clock->firing == timer && !clock_runs_here(clock)) {
		pthread_cond_wait(&clock->idle, &clock->lock);
		/* The callback may have armed it again. */
		timer_dequeue(timer);
	}
	pthread_mutex_unlock(&clock->lock);
}
