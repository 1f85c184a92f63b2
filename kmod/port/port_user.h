/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * port.h for userspace: C11 and pthreads. Implementation in port_user.c and user_*.c.
 * C++ may include it: macros that clash with the language are left out there.
 */
#ifndef SIRDMA_PORT_USER_H
#define SIRDMA_PORT_USER_H

#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The same types as __u64 and __le64: uint64_t may be another one of the same size. */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "little-endian hosts only"
#endif
#define le16_to_cpu(x) ((u16)(x))
#define le32_to_cpu(x) ((u32)(x))
#define le64_to_cpu(x) ((u64)(x))
#define cpu_to_le16(x) ((__le16)(x))
#define cpu_to_le32(x) ((__le32)(x))
#define cpu_to_le64(x) ((__le64)(x))
#define be16_to_cpu(x) __builtin_bswap16(x)
#define be32_to_cpu(x) __builtin_bswap32(x)
#define be64_to_cpu(x) __builtin_bswap64(x)
#define cpu_to_be16(x) ((__be16)__builtin_bswap16(x))
#define cpu_to_be32(x) ((__be32)__builtin_bswap32(x))
#define cpu_to_be64(x) ((__be64)__builtin_bswap64(x))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#ifndef __cplusplus
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define fallthrough __attribute__((__fallthrough__))
#define noinline __attribute__((__noinline__))
#define __aligned(bytes) __attribute__((__aligned__(bytes)))
#define __uninitialized
#define __section(name) __attribute__((__section__(name)))
#endif
#define ENOTSUPP 524

#if defined(__SANITIZE_THREAD__)
#define PORT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PORT_TSAN 1
#endif
#endif
/*
 * ThreadSanitizer does not know fences. So the accesses beside a fence get its order, from which
 * the sanitizer sees which thread is ordered after which, and by which word. The fence itself is an
 * access to a word of the thread's own.
 */
#ifdef PORT_TSAN
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)
static inline void port_fence(void)
{
	u32 word = 0;

	__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
}
#define smp_mb() port_fence()
#define smp_rmb() smp_mb()
#define smp_wmb() smp_mb()
#else
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A spin lock. Most holders need a few hundred instructions; for one that lost its processor, or makes a system
 * call, waiters yield and then sleep. Unlocking is a store. pthread_mutex_unlock() is a locked instruction, which
 * waits until the stores before it, as of a packet, are visible.
 */
struct port_lock {
	u32 word;
};

void port_lock_wait(struct port_lock *lock);

static inline void port_lock_init(struct port_lock *lock)
{
	lock->word = 0;
}

/* For threads that try often: they do not take the cache line from the holder. */
static inline bool port_trylock(struct port_lock *lock)
{
	return !__atomic_load_n(&lock->word, __ATOMIC_RELAXED) &&
	       !__atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE);
}

static inline void port_lock(struct port_lock *lock)
{
	if (unlikely(__atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE)))
		port_lock_wait(lock);
}

static inline void port_unlock(struct port_lock *lock)
{
	__atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
}

/* There is no list of all locks. */
static inline u64 port_lock_holders_mark(void)
{
	return 0;
}

static inline bool port_lock_holders_passed(u64 mark)
{
	(void)mark;
	return false;
}

#define port_lock_over(lock) port_lock(lock)
#define port_unlock_over(lock) port_unlock(lock)

struct port_irq_lock {
	pthread_mutex_t m;
};

static inline void port_irq_lock_init(struct port_irq_lock *lock)
{
	pthread_mutex_init(&lock->m, NULL);
}

static inline unsigned long port_irq_lock(struct port_irq_lock *lock)
{
	pthread_mutex_lock(&lock->m);
	return 0;
}

static inline void port_irq_unlock(struct port_irq_lock *lock, unsigned long flags)
{
	(void)flags;
	pthread_mutex_unlock(&lock->m);
}

struct port_mutex {
	pthread_mutex_t m;
};

static inline void port_mutex_init(struct port_mutex *mutex)
{
	pthread_mutex_init(&mutex->m, NULL);
}

static inline void port_mutex_lock(struct port_mutex *mutex)
{
	pthread_mutex_lock(&mutex->m);
}

static inline void port_mutex_unlock(struct port_mutex *mutex)
{
	pthread_mutex_unlock(&mutex->m);
}

static inline bool port_mutex_trylock(struct port_mutex *mutex)
{
	return pthread_mutex_trylock(&mutex->m) == 0;
}

struct port_ref {
	u32 n;
};

static inline void port_ref_init(struct port_ref *ref, u32 n)
{
	__atomic_store_n(&ref->n, n, __ATOMIC_RELAXED);
}

static inline void port_ref_get(struct port_ref *ref)
{
	__atomic_fetch_add(&ref->n, 1, __ATOMIC_RELAXED);
}

static inline bool port_ref_get_unless_zero(struct port_ref *ref)
{
	u32 n = __atomic_load_n(&ref->n, __ATOMIC_RELAXED);

	do {
		if (!n)
			return false;
	} while (!__atomic_compare_exchange_n(&ref->n, &n, n + 1, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	return true;
}

static inline bool port_ref_put(struct port_ref *ref)
{
	return __atomic_sub_fetch(&ref->n, 1, __ATOMIC_ACQ_REL) == 0;
}

struct port_event {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool set;
};

void port_event_init(struct port_event *event);
void port_event_set(struct port_event *event);
bool port_event_wait(struct port_event *event, u32 timeout_ms);

void *port_alloc(size_t size);
void *port_alloc_charged(size_t size);
void port_free(const void *p);
bool port_reclaim(size_t size, bool charged);
/* Nothing to do: the kernel preempts threads. */
static inline void port_cond_resched(void) {}

/*
 * Test hook: when non-NULL it is asked before each allocation and fails it
 * by returning true; port_reclaim() asks with PORT_RECLAIM,
 * whatever its size.
 */
#define PORT_RECLAIM 65536
extern bool (*port_alloc_fail)(size_t size);

/*
 * RCU: a reader marks its thread's slot and never waits. The writer frees an object once every
 * reader that may still see it has left.
 */
struct port_rcu {
	char unused;
};

void port_rcu_read_lock(void);
void port_rcu_read_unlock(void);
/*
 * End all read sections of this thread for now, and begin them again: nobody waits for the thread in
 * between. What it had looked up may be gone afterwards, whatever function it belongs to.
 */
u32 port_rcu_suspend(void);
void port_rcu_resume(u32 nesting);
/* Wait until all RCU read sections that are running now have ended. */
void port_rcu_wait(void);
/* The same without waiting: they have ended when port_rcu_passed() returns true for the mark that this returns. */
u64 port_rcu_mark(void);
bool port_rcu_passed(u64 mark);
void port_rcu_wait_and_free(void *p);
#define port_rcu_deref(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define port_rcu_assign(p, v) __atomic_store_n(&(p), v, __ATOMIC_RELEASE)
/* A reader must not call this: it may wait for readers. */
#define port_free_rcu(ptr, member) port_rcu_wait_and_free(ptr)

/*
 * A clock owns the timers created on it. port_clock_advance() runs a virtual
 * clock (deterministic: timers fire in time order, ties in arming order);
 * port_clock_run() fires what was due on a real one.
 */
struct port_clock;
struct port_timer {
	struct port_clock *clock;
	void (*fn)(struct port_timer *timer);
	/* Armed timers are a pairing heap by due time. */
	struct port_timer *child; /* first child */
	struct port_timer *next; /* sibling */
	struct port_timer *prev; /* sibling before, or parent of a first child */
	u64 due; /* ns */
	u64 seq; /* arming order */
	bool armed;
};

struct port_clock *port_clock_create(bool is_virtual);
void port_clock_destroy(struct port_clock *clock);
void port_clock_advance(struct port_clock *clock, u64 ns);
/*
 * Fire the timers that are due at @until. One thread at a time fires; a second one returns at once.
 */
void port_clock_run(struct port_clock *clock, u64 until);
/* ns until the next timer is due (0: now), ~0 when none is armed. */
u64 port_clock_next(struct port_clock *clock);
/* When the next timer is due, or ~0 when none is armed. This needs no look at the clock. */
u64 port_clock_due(struct port_clock *clock);

void port_timer_init(struct port_timer *timer, struct port_clock *clock,
		     void (*fn)(struct port_timer *timer));
void port_timer_arm(struct port_timer *timer, u64 ns);
void port_timer_cancel(struct port_timer *timer);
void port_timer_cancel_sync(struct port_timer *timer);
u64 port_now_ns(struct port_clock *clock);

/*
 * Processes. A child that was forked has its parent's memory, but not its threads: their work will
 * never be done, and their locks stay locked. So each process has a number of its own, which an
 * object notes when it is made; a later user of the object asks first whether it is still in the
 * process that made it.
 *
 * The word is 0 in a child, however it was made (fork(), clone()), until the child asks for
 * its number.
 */
extern u32 *port_process_word;
/*
 * The number of this process, not 0. In a child the first call runs the functions of
 * port_on_fork().
 */
u32 port_process(void);
/* Is @number the number of this process? */
static inline bool port_process_is(u32 number)
{
	return likely(__atomic_load_n(port_process_word, __ATOMIC_RELAXED) == number);
}

/*
 * Call @fn in each child, before anything there gets the child's number. At most four of them.
 * @fn calls nothing that asks for the number: port_process(), port_cpu(), RCU, port_warn().
 */
void port_on_fork(void (*fn)(void));

u32 port_random_u32(void);
/* Make the random numbers of the calling thread repeatable. */
void port_random_seed(u64 seed);

struct port_hash_key {
	u64 key[2];
};

void port_hash_key_init(struct port_hash_key *key);
u32 port_hash_4u32(const struct port_hash_key *key, u32 a, u32 b, u32 c, u32 d);

/* A number of the calling thread, lowest free first: no two live threads share one. */
u32 port_cpu(void);
u32 port_nr_cpus(void);

enum port_atomic {
	PORT_ATOMIC_ADD, /* add the operand */
	PORT_ATOMIC_SWAP_IF, /* store the operand if the value is the one to compare with */
	PORT_ATOMIC_STORE, /* store the operand */
};

struct port_dma;

/* Access to memory that may not be there: see port_dma_read() to port_dma_atomic() in port.h. */
struct port_dma_access {
	int (*read)(struct port_dma *dma, u64 addr, void *to, u32 len);
	int (*write)(struct port_dma *dma, u64 addr, const void *from, u32 len);
	int (*atomic)(struct port_dma *dma, u64 addr, enum port_atomic op, u64 operand, u64 compare,
		      u64 *before);
};

/* DMA: address translation belongs to the host of the device. */
struct port_dma {
	void *(*ptr)(struct port_dma *dma, u64 addr, u32 len);
	const struct port_dma_access *access; /* NULL: the host has no memory that may not be there */
};

static inline void *port_dma_ptr(struct port_dma *dma, u64 addr, u32 len)
{
	return dma->ptr(dma, addr, len);
}

/* Each look-up checks its address. */
static inline void *port_dma_ptr_checked(struct port_dma *dma, u64 addr, u32 len)
{
	return port_dma_ptr(dma, addr, len);
}

#define PORT_MEMORY_MAY_FAULT true

static inline bool port_dma_may_fault(const struct port_dma *dma)
{
	return dma->access != NULL;
}

static inline int port_dma_read(struct port_dma *dma, u64 addr, void *to, u32 len)
{
	return dma->access->read(dma, addr, to, len);
}

static inline int port_dma_write(struct port_dma *dma, u64 addr, const void *from, u32 len)
{
	return dma->access->write(dma, addr, from, len);
}

static inline int port_dma_atomic(struct port_dma *dma, u64 addr, enum port_atomic op, u64 operand,
				  u64 compare, u64 *before)
{
	return dma->access->atomic(dma, addr, op, operand, compare, before);
}

static inline bool port_cas64(u64 *p, u64 old, u64 val)
{
	return __atomic_compare_exchange_n(p, &old, val, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline u64 port_user_cmpxchg64(u64 *p, u64 old, u64 val)
{
	__atomic_compare_exchange_n(p, &old, val, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

static inline u64 port_user_fetch_add64(u64 *p, u64 n)
{
	return __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST);
}

static inline void port_user_store64(u64 *p, u64 val)
{
	__atomic_store_n(p, val, __ATOMIC_RELEASE);
}

/*
 * Per thread, on cache lines of its own: no two live threads have the same port_cpu(), so an
 * update takes neither a lock nor another thread's line.
 */
struct port_stats {
	void *memory; /* for all threads; a page without counts takes no memory */
	u64 *counters; /* counters of the first thread */
	u32 stride; /* distance between the counters of two threads */
};

int port_stats_init(struct port_stats *stats, u32 n);
void port_stats_fini(struct port_stats *stats);
u64 port_stats_read(const struct port_stats *stats, u32 i);

static inline void port_stats_add(struct port_stats *stats, u32 i, u64 n)
{
	u64 *counter = &stats->counters[port_cpu() * stats->stride + i];

	/* Only this thread writes it; others read. */
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

u32 port_crc32_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum);

/*
 * Test hook: the ways of port_crc32_fold(), of which the best is chosen at start. Returns false
 * if this CPU does not have it.
 */
enum port_crc32_way { PORT_CRC32_NONE, PORT_CRC32_PCLMUL, PORT_CRC32_VPCLMUL };
bool port_crc32_use(enum port_crc32_way which);

#define PORT_WIRE_IN_MEMORY true
#define PORT_ONE_UNIT false
#define PORT_HOST_OPS(ops) (ops)

void port_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
