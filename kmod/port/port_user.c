// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The parts of port.h for userspace that are too large for inline functions. */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "port/port.h"

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull

/* The C library's nanosleep() is a cancellation point, but a waiting thread may hold locks. */
static void nap(long ns)
{
	const struct timespec pause = {.tv_nsec = ns};

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
}

/*
 * Spin, yield, then sleep, for the reasons of class Backoff (uprov/provider/lock.hpp), and as often. The count goes
 * on when another thread gets the lock first.
 */
#define LOCK_SPINS 1000
#define LOCK_YIELDS 100
#define LOCK_NAP_NS 50000

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

void port_lock_wait(struct port_lock *lock)
{
	u32 waits;

	for (waits = 0; !port_trylock(lock); waits++) {
		if (waits < LOCK_SPINS)
			relax();
		else if (waits < LOCK_SPINS + LOCK_YIELDS)
			sched_yield();
		else
			nap(LOCK_NAP_NS);
	}
}

/* Events */

void port_event_init(struct port_event *event)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&event->c, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&event->m, NULL);
	event->set = false;
}

void port_event_set(struct port_event *event)
{
	/*
	 * The waiter may free the event as soon as it gets the mutex: do not touch the event after
	 * this.
	 */
	pthread_mutex_lock(&event->m);
	event->set = true;
	pthread_cond_broadcast(&event->c);
	pthread_mutex_unlock(&event->m);
}

bool port_event_wait(struct port_event *event, u32 timeout_ms)
{
	u64 until = port_now_ns(NULL) + timeout_ms * NSEC_PER_MSEC;
	struct timespec ts = {
		.tv_sec = (time_t)(until / NSEC_PER_SEC),
		.tv_nsec = (long)(until % NSEC_PER_SEC),
	};
	bool set;

	pthread_mutex_lock(&event->m);
	while (!event->set && !pthread_cond_timedwait(&event->c, &event->m, &ts))
		;
	set = event->set;
	pthread_mutex_unlock(&event->m);
	return set;
}

/* Memory */

bool (*port_alloc_fail)(size_t size);

void *port_alloc(size_t size)
{
	if (port_alloc_fail && port_alloc_fail(size))
		return NULL;
	return calloc(1, size ? size : 1);
}

void *port_alloc_charged(size_t size)
{
	return port_alloc(size);
}

bool port_reclaim(size_t size, bool charged)
{
	void *room = port_alloc(PORT_RECLAIM);

	port_free(room);
	return room;
}

void port_free(const void *p)
{
	free((void *)(uintptr_t)p);
}

/*
 * Each thread that calls port_cpu() or reads under RCU claims a slot, and its exit returns the
 * slot. Slots are static, so that neither a claim nor a grace period takes a lock: a reader may
 * hold any lock of its caller.
 */
#define PORT_MAX_THREADS 4096

struct port_thread {
	u64 epoch; /* RCU epoch in which the thread entered; 0: it is outside */
	u32 nesting; /* only the owner uses it */
	bool claimed;
} __attribute__((aligned(64)));

static struct port_thread threads[PORT_MAX_THREADS];
static u32 threads_used; /* no thread has ever claimed the slots from here on */
static u64 rcu_epoch = 1;
/* Writers fence all threads, see rcu_fence_all(): readers have no fence. Set when the process begins. */
static bool rcu_writers_fence;
static bool rcu_membarrier; /* the kernel knows membarrier(2), and has not refused it */
/*
 * These few bytes fit into the memory that the C library keeps free for libraries that are loaded
 * late.
 */
#define SELF_TLS __thread __attribute__((tls_model("initial-exec")))
#define PROCESS_NONE (~0u)
/*
 * The slot, and the process it is a slot of. In a child the cloned thread finds its parent's
 * number here: unless it comes first, another thread of the child may have that slot.
 */
static SELF_TLS struct port_thread *self;
static SELF_TLS u32 self_process = PROCESS_NONE;
static pthread_key_t self_key;

static void thread_exit(void *arg)
{
	struct port_thread *thread = arg;

	if (!port_process_is(self_process))
		return;
	self_process = PROCESS_NONE;
	__atomic_store_n(&thread->epoch, 0, __ATOMIC_RELEASE);
	thread->nesting = 0;
	__atomic_store_n(&thread->claimed, false, __ATOMIC_RELEASE);
}

/* Processes */

#define PROCESS_BECOMING 1u /* in place of a number: a thread of the child runs the functions */
#define FORK_FNS 4

static u32 fallback_word;
u32 *port_process_word = &fallback_word;
/* The number that was given last. A child begins with the number of its parent. */
static u32 process_last = PROCESS_BECOMING;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static void (*fork_fns[FORK_FNS])(void);
static u32 fork_fns_used;
static pthread_mutex_t warn_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Only the forking thread of @parent lives on in the child. It keeps its slot if it claims the slot
 * first.
 */
static void process_init_child(u32 parent)
{
	const struct port_thread *kept = self_process == parent ? self : NULL;
	u32 i;

	for (i = 0; i < threads_used; i++)
		if (&threads[i] != kept)
			memset(&threads[i], 0, sizeof(threads[i]));
	if (kept)
		self_process = process_last;
	pthread_mutex_init(&warn_lock, NULL);
	for (i = 0; i < FORK_FNS; i++)
		if (fork_fns[i])
			fork_fns[i]();
}

/* This runs at once after fork(). The kernel may be too old to have cleared the word. */
static void process_forked(void)
{
	__atomic_store_n(port_process_word, 0, __ATOMIC_RELAXED);
	port_process();
}

static void process_setup(void)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_key_create(&self_key, thread_exit);
#ifndef PORT_TSAN
	/* Children inherit the registration. With other threads it waits some ms for all processors, once. */
	rcu_membarrier = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	rcu_writers_fence = rcu_membarrier;
#endif
	if (page != MAP_FAILED) {
		/* Children of clone() run no handlers. Before Linux 4.14 they are not noticed. */
		(void)madvise(page, bytes, MADV_WIPEONFORK);
		port_process_word = page;
	}
	pthread_atfork(NULL, NULL, process_forked);
}

u32 port_process(void)
{
	u32 number, parent;

	pthread_once(&process_once, process_setup);
	for (;;) {
		number = 0;
		if (__atomic_compare_exchange_n(port_process_word, &number, PROCESS_BECOMING, false,
						__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
			parent = process_last;
			number = ++process_last;
			if (parent != PROCESS_BECOMING)
				process_init_child(parent);
			__atomic_store_n(port_process_word, number, __ATOMIC_RELEASE);
		}
		if (number != PROCESS_BECOMING)
			return number;
		nap(100000);
	}
}

void port_on_fork(void (*fn)(void))
{
	u32 i;

	port_process();
	i = __atomic_fetch_add(&fork_fns_used, 1, __ATOMIC_RELAXED);
	if (i >= FORK_FNS)
		abort();
	__atomic_store_n(&fork_fns[i], fn, __ATOMIC_RELEASE);
}

static struct port_thread *thread_claim(void)
{
	/* The slots of a parent's threads are free in a child. */
	const u32 process = port_process();
	u32 i, used;

	if (self_process == process)
		return self;
	for (i = 0; i < PORT_MAX_THREADS; i++) {
		if (__atomic_exchange_n(&threads[i].claimed, true, __ATOMIC_ACQ_REL))
			continue;
		used = __atomic_load_n(&threads_used, __ATOMIC_RELAXED);
		while (used < i + 1 &&
		       !__atomic_compare_exchange_n(&threads_used, &used, i + 1, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
		self = &threads[i];
		self_process = process;
		pthread_setspecific(self_key, self);
		return self;
	}
	/* Sharing a slot would corrupt the data that port_cpu() indexes. */
	fputs("sirdma: too many threads\n", stderr);
	abort();
}

static inline struct port_thread *thread_self(void)
{
	return port_process_is(self_process) ? self : thread_claim();
}

u32 port_cpu(void)
{
	return (u32)(thread_self() - threads);
}

u32 port_nr_cpus(void)
{
	return PORT_MAX_THREADS;
}

/* Counters */

#define STATS_LINE 64

int port_stats_init(struct port_stats *stats, u32 n)
{
	const u32 per_line = STATS_LINE / sizeof(u64);

	stats->stride = (n + per_line - 1) / per_line * per_line;
	stats->memory = port_alloc(PORT_MAX_THREADS * stats->stride * sizeof(u64) + STATS_LINE - 1);
	if (!stats->memory)
		return -ENOMEM;
	stats->counters =
		(u64 *)(((uintptr_t)stats->memory + STATS_LINE - 1) & ~(uintptr_t)(STATS_LINE - 1));
	return 0;
}

void port_stats_fini(struct port_stats *stats)
{
	port_free(stats->memory);
}

u64 port_stats_read(const struct port_stats *stats, u32 i)
{
	const u32 used = __atomic_load_n(&threads_used, __ATOMIC_ACQUIRE);
	u64 sum = 0;
	u32 t;

	for (t = 0; t < used; t++)
		sum += __atomic_load_n(&stats->counters[t * stats->stride + i], __ATOMIC_RELAXED);
	return sum;
}

/*
 * Make every thread of the process execute a fence (membarrier(2)). Then readers need none, which would wait for
 * their earlier stores. If the kernel refuses the call from some time on (seccomp(2), with an errno), readers
 * use fences again, and the pause lasts until the stores of those without one are visible: these take less than
 * a us, or a switch of threads.
 */
static void rcu_fence_all(void)
{
	const int before = errno;
	u64 start;

	smp_mb();
	if (!__atomic_load_n(&rcu_membarrier, __ATOMIC_ACQUIRE) ||
	    !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		return;
	__atomic_store_n(&rcu_writers_fence, false, __ATOMIC_SEQ_CST);
	/* The sleep may be interrupted, or refused as well. */
	for (start = port_now_ns(NULL); port_now_ns(NULL) - start < NSEC_PER_MSEC;)
		nap(NSEC_PER_MSEC);
	__atomic_store_n(&rcu_membarrier, false, __ATOMIC_RELEASE);
	errno = before;
}

void port_rcu_read_lock(void)
{
	struct port_thread *thread = thread_self();
	u64 epoch;

	if (thread->nesting++)
		return;
	epoch = __atomic_load_n(&rcu_epoch, __ATOMIC_SEQ_CST);
#ifdef PORT_TSAN
	__atomic_exchange_n(&thread->epoch, epoch, __ATOMIC_SEQ_CST);
#else
	__atomic_store_n(&thread->epoch, epoch, __ATOMIC_RELAXED);
#endif
	/*
	 * This pairs with port_rcu_wait(): the writer sees this epoch, or this reader sees the
	 * object unlinked.
	 */
	if (likely(__atomic_load_n(&rcu_writers_fence, __ATOMIC_RELAXED)))
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	else
		smp_mb();
}

void port_rcu_read_unlock(void)
{
	struct port_thread *thread = self;

	if (!--thread->nesting)
		__atomic_store_n(&thread->epoch, 0, __ATOMIC_RELEASE);
}

u32 port_rcu_suspend(void)
{
	struct port_thread *thread = thread_self();
	const u32 nesting = thread->nesting;

	thread->nesting = 0;
	__atomic_store_n(&thread->epoch, 0, __ATOMIC_RELEASE);
	return nesting;
}

void port_rcu_resume(u32 nesting)
{
	if (!nesting)
		return;
	port_rcu_read_lock();
	thread_self()->nesting = nesting;
}

u64 port_rcu_mark(void)
{
	port_process(); /* who fences is decided then */
	rcu_fence_all(); /* this pairs with port_rcu_read_lock() */
	return __atomic_add_fetch(&rcu_epoch, 1, __ATOMIC_SEQ_CST);
}

/* Is the thread in no read section that began before @mark? */
static bool rcu_thread_passed(u32 thread, u64 mark)
{
	u64 seen = __atomic_load_n(&threads[thread].epoch, __ATOMIC_SEQ_CST);

	return !seen || seen >= mark;
}

bool port_rcu_passed(u64 mark)
{
	u32 i, used = __atomic_load_n(&threads_used, __ATOMIC_SEQ_CST);

	for (i = 0; i < used; i++)
		if (!rcu_thread_passed(i, mark))
			return false;
	return true;
}

void port_rcu_wait(void)
{
	u64 mark = port_rcu_mark();
	u32 i, spins, used;

	used = __atomic_load_n(&threads_used, __ATOMIC_SEQ_CST);
	for (i = 0; i < used; i++) {
		for (spins = 0; !rcu_thread_passed(i, mark); spins++) {
			if (spins < 100)
				sched_yield();
			else
				nap(20000);
		}
	}
}

void port_rcu_wait_and_free(void *p)
{
	if (!p)
		return;
	port_rcu_wait();
	port_free(p);
}

/*
 * Random numbers: splitmix64, whose state is a counter that threads can share, unless they have one
 * of their own.
 */

#define RANDOM_STEP 0x9e3779b97f4a7c15ull

static u64 random_state;
static _Thread_local u64 own_random_state;
static _Thread_local bool own_random_seeded;
static pthread_once_t random_once = PTHREAD_ONCE_INIT;

static void random_setup(void)
{
	u64 seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = port_now_ns(NULL) ^ ((u64)getpid() << 32);
	__atomic_store_n(&random_state, seed, __ATOMIC_RELAXED);
}

void port_random_seed(u64 seed)
{
	own_random_seeded = true;
	own_random_state = seed;
}

u32 port_random_u32(void)
{
	u64 x;

	if (own_random_seeded) {
		x = own_random_state += RANDOM_STEP;
	} else {
		pthread_once(&random_once, random_setup);
		x = __atomic_add_fetch(&random_state, RANDOM_STEP, __ATOMIC_RELAXED);
	}
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return (u32)(x >> 32) ^ (u32)(x >> 1);
}

/* SipHash-1-3, folded to 32 bits: the kernel's hsiphash_4u32() of 64-bit machines. */

static u64 rotate(u64 x, u32 bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(u64 v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

void port_hash_key_init(struct port_hash_key *key)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(key->key); i++)
		key->key[i] = (u64)port_random_u32() << 32 | port_random_u32();
}

u32 port_hash_4u32(const struct port_hash_key *key, u32 a, u32 b, u32 c, u32 d)
{
	/* The last word is the length: 16 bytes. */
	const u64 words[] = {(u64)b << 32 | a, (u64)d << 32 | c, 16ull << 56};
	u64 v[] = {
		key->key[0] ^ 0x736f6d6570736575ull,
		key->key[1] ^ 0x646f72616e646f6dull,
		key->key[0] ^ 0x6c7967656e657261ull,
		key->key[1] ^ 0x7465646279746573ull,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		v[3] ^= words[i];
		sip_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	for (i = 0; i < 3; i++)
		sip_round(v);
	return (u32)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

/* Log lines: bursts of 10 in 5 seconds, as the kernel's default. */

#define WARN_BURST 10
#define WARN_INTERVAL_NS (5 * NSEC_PER_SEC)

void port_warn(const char *fmt, ...)
{
	static u64 begin;
	static u32 count, suppressed;
	char text[640];
	u32 missed = 0;
	va_list args;
	size_t len;
	bool print;
	u64 now;

	/* This is a child, and a thread of the parent may have held the lock. */
	port_process();
	now = port_now_ns(NULL);
	pthread_mutex_lock(&warn_lock);
	if (!begin || now - begin > WARN_INTERVAL_NS) {
		begin = now;
		count = 0;
		missed = suppressed;
		suppressed = 0;
	}
	print = count < WARN_BURST;
	if (print)
		count++;
	else
		suppressed++;
	pthread_mutex_unlock(&warn_lock);
	if (!print)
		return;
	text[0] = 0;
	if (missed)
		snprintf(text, sizeof(text), "sirdma: %u messages suppressed\n", missed);
	strcat(text, "sirdma: ");
	len = strlen(text);
	va_start(args, fmt);
	vsnprintf(text + len, sizeof(text) - len - 1, fmt, args);
	va_end(args);
	strcat(text, "\n");
	/*
	 * The C library's write() is a cancellation point, but the calling thread may hold
	 * locks.
	 */
	(void)!syscall(SYS_write, STDERR_FILENO, text, strlen(text));
}
