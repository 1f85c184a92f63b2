/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* port.h for the kernel. DMA addresses of our bus are kernel virtual addresses. */
#ifndef SIRDMA_PORT_KERNEL_H
#define SIRDMA_PORT_KERNEL_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/errno.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched/mm.h>
#include <linux/siphash.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#include "compat/crc32.h"
#include "compat/hrtimer.h"

struct port_lock {
	spinlock_t l;
};

/* This is a macro, so that each call site gets a lockdep class of its own. */
#define port_lock_init(lock) spin_lock_init(&(lock)->l)

static inline void port_lock(struct port_lock *lock)
{
	spin_lock_bh(&lock->l);
}

static inline void port_unlock(struct port_lock *lock)
{
	spin_unlock_bh(&lock->l);
}

/* sparse expects a function to unlock what it locks. */
static inline void port_lock_over(struct port_lock *lock)
{
	port_lock(lock);
	__release(lock);
}

static inline void port_unlock_over(struct port_lock *lock)
{
	__acquire(lock);
	port_unlock(lock);
}

/*
 * A holder runs with softirqs off, which a grace period waits for. On real-time kernels the lock itself is an RCU read
 * section.
 */
static inline u64 port_lock_holders_mark(void)
{
	return start_poll_synchronize_rcu_expedited();
}

static inline bool port_lock_holders_passed(u64 mark)
{
	return poll_state_synchronize_rcu((unsigned long)mark);
}

struct port_irq_lock {
	spinlock_t l;
};

#define port_irq_lock_init(lock) spin_lock_init(&(lock)->l)

static inline unsigned long port_irq_lock(struct port_irq_lock *lock)
{
	unsigned long flags;

	spin_lock_irqsave(&lock->l, flags);
	/* sparse expects a function to unlock what it locks. */
	__release(&lock->l);
	return flags;
}

static inline void port_irq_unlock(struct port_irq_lock *lock, unsigned long flags)
{
	__acquire(&lock->l);
	spin_unlock_irqrestore(&lock->l, flags);
}

struct port_mutex {
	struct mutex m;
};

#define port_mutex_init(mutex) \
	do { \
		mutex_init(&(mutex)->m); \
		port_mutex_teach_lockdep(&(mutex)->m); \
	} while (0)

/* Tell lockdep that storage may need @mutex while it writes memory out. */
static inline void port_mutex_teach_lockdep(struct mutex *mutex)
{
	fs_reclaim_acquire(GFP_KERNEL);
	might_lock(mutex);
	fs_reclaim_release(GFP_KERNEL);
}

static inline void port_mutex_lock(struct port_mutex *mutex)
{
	mutex_lock(&mutex->m);
}

static inline void port_mutex_unlock(struct port_mutex *mutex)
{
	mutex_unlock(&mutex->m);
}

static inline bool port_mutex_trylock(struct port_mutex *mutex)
{
	return mutex_trylock(&mutex->m);
}

struct port_ref {
	refcount_t r;
};

static inline void port_ref_init(struct port_ref *ref, u32 n)
{
	refcount_set(&ref->r, n);
}

static inline void port_ref_get(struct port_ref *ref)
{
	refcount_inc(&ref->r);
}

static inline bool port_ref_get_unless_zero(struct port_ref *ref)
{
	if (!refcount_inc_not_zero(&ref->r))
		return false;
	smp_acquire__after_ctrl_dep();
	return true;
}

static inline bool port_ref_put(struct port_ref *ref)
{
	return refcount_dec_and_test(&ref->r);
}

struct port_event {
	struct completion c;
};

static inline void port_event_init(struct port_event *event)
{
	init_completion(&event->c);
}

static inline void port_event_set(struct port_event *event)
{
	complete_all(&event->c);
}

static inline bool port_event_wait(struct port_event *event, u32 timeout_ms)
{
	return wait_for_completion_timeout(&event->c, msecs_to_jiffies(timeout_ms)) != 0;
}

/*
 * Flags for @size bytes for a holder of a port_mutex: the allocation fails rather than wait until another thread frees
 * memory. More than a page is tried for once, as Linux 6.1 to 6.8 would try without end.
 */
static inline gfp_t port_mutex_gfp(size_t size)
{
	return GFP_NOIO | __GFP_NOWARN | (size > PAGE_SIZE ? __GFP_NORETRY : __GFP_RETRY_MAYFAIL);
}

static inline void *port_alloc(size_t size)
{
	/* Not all that vmalloc() allocates by itself heeds the flags. */
	const unsigned int scope = memalloc_noio_save();
	void *p = kvzalloc(size, port_mutex_gfp(size));

	memalloc_noio_restore(scope);
	return p;
}

static inline void *port_alloc_charged(size_t size)
{
	return kzalloc(size, GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
}

static inline void port_free(const void *p)
{
	kvfree(p);
}

static inline void port_cond_resched(void)
{
	cond_resched();
}

/*
 * Memory that is charged and freed again is available to the next allocation. A thread of the kernel, or one that
 * must not wait for storage, may be storage that connects again.
 */
static inline bool port_reclaim(size_t size, bool charged)
{
	const bool storage = current->flags &
			     (PF_KTHREAD | PF_MEMALLOC | PF_MEMALLOC_NOIO | PF_MEMALLOC_NOFS);
	const gfp_t gfp = charged ? GFP_KERNEL_ACCOUNT :
				    GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
	void *room = kvmalloc(size, storage ? port_mutex_gfp(size) : gfp);

	kvfree(room);
	return room;
}

struct port_rcu {
	struct rcu_head h;
};

#define port_rcu_read_lock() rcu_read_lock()
#define port_rcu_read_unlock() rcu_read_unlock()
#define port_rcu_deref(p) READ_ONCE(p)
/* This store pairs with the address dependency of port_rcu_deref(). */
#define port_rcu_assign(p, v) smp_store_release(&(p), v)
#define port_free_rcu(ptr, member) kvfree_rcu(ptr, member.h)

struct port_clock;

struct port_timer {
	struct hrtimer t;
	void (*fn)(struct port_timer *timer);
};

static inline enum hrtimer_restart port_timer_fire(struct hrtimer *t)
{
	struct port_timer *timer = container_of(t, struct port_timer, t);

	timer->fn(timer);
	return HRTIMER_NORESTART;
}

static inline void port_timer_init(struct port_timer *timer, struct port_clock *clock,
				   void (*fn)(struct port_timer *timer))
{
	timer->fn = fn;
	hrtimer_setup(&timer->t, port_timer_fire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

static inline void port_timer_arm(struct port_timer *timer, u64 ns)
{
	hrtimer_start(&timer->t, ns_to_ktime(ns), HRTIMER_MODE_REL_SOFT);
}

static inline void port_timer_cancel(struct port_timer *timer)
{
	hrtimer_try_to_cancel(&timer->t);
}

static inline void port_timer_cancel_sync(struct port_timer *timer)
{
	hrtimer_cancel(&timer->t);
}

static inline u64 port_now_ns(struct port_clock *clock)
{
	return ktime_get_ns();
}

static inline u32 port_random_u32(void)
{
	return get_random_u32();
}

struct port_hash_key {
	hsiphash_key_t key;
};

static inline void port_hash_key_init(struct port_hash_key *key)
{
	get_random_bytes(&key->key, sizeof(key->key));
}

static inline u32 port_hash_4u32(const struct port_hash_key *key, u32 a, u32 b, u32 c, u32 d)
{
	return hsiphash_4u32(a, b, c, d, &key->key);
}

static inline u32 port_cpu(void)
{
	return raw_smp_processor_id();
}

static inline u32 port_nr_cpus(void)
{
	return nr_cpu_ids;
}

struct port_dma;

static inline void *port_dma_ptr(struct port_dma *dma, u64 addr, u32 len)
{
	return (void *)(uintptr_t)addr;
}

/*
 * A kernel consumer chose the address, or a peer that got IB_PD_UNSAFE_GLOBAL_RKEY from a consumer.
 * The function refuses memory without a linear mapping (vmalloc, user and high memory, MMIO). It
 * does not refuse memory that the linear mapping has, but protects, such as the kernel's text: that
 * check would cost a look at the page tables, and a peer that may name such an address may
 * overwrite any other. Both ends suffice: virt_addr_valid() judges 2 MiB at once or more, and no
 * burst is as long.
 */
static inline void *port_dma_ptr_checked(struct port_dma *dma, u64 addr, u32 len)
{
	void *first = port_dma_ptr(dma, addr, len), *last = first + len - 1;

	return last >= first && virt_addr_valid(first) && (len == 1 || virt_addr_valid(last)) ?
		       first :
		       NULL;
}

/*
 * The kernel pins memory, or is told before it goes away (MMU notifiers): a region of memory that the
 * device may lack has a page list, whose entries say so.
 */
#define PORT_MEMORY_MAY_FAULT false

enum port_atomic {
	PORT_ATOMIC_ADD,
	PORT_ATOMIC_SWAP_IF,
	PORT_ATOMIC_STORE,
};

static inline bool port_dma_may_fault(const struct port_dma *dma)
{
	return false;
}

static inline int port_dma_read(struct port_dma *dma, u64 addr, void *to, u32 len)
{
	return -EFAULT;
}

static inline int port_dma_write(struct port_dma *dma, u64 addr, const void *from, u32 len)
{
	return -EFAULT;
}

static inline int port_dma_atomic(struct port_dma *dma, u64 addr, enum port_atomic op, u64 operand,
				  u64 compare, u64 *before)
{
	return -EFAULT;
}

static inline bool port_cas64(u64 *p, u64 old, u64 new)
{
	return cmpxchg64(p, old, new) == old;
}

#if BITS_PER_LONG != 64
#error "atomics of 64 bits and of the RDMA device must be the same instructions"
#endif

static inline u64 port_user_cmpxchg64(u64 *p, u64 old, u64 new)
{
	return cmpxchg64(p, old, new);
}

static inline u64 port_user_fetch_add64(u64 *p, u64 n)
{
	return atomic64_fetch_add(n, (atomic64_t *)p);
}

static inline void port_user_store64(u64 *p, u64 val)
{
	smp_store_release(p, val); /* a reader that acquires it sees all writes before it */
}

/* The counters are per CPU: no update is lost, and updates of CPUs share no cache line. */
struct port_stats {
	u64 __percpu *counters;
};

static inline int port_stats_init(struct port_stats *stats, u32 n)
{
	stats->counters = __alloc_percpu(n * sizeof(u64), sizeof(u64));
	return stats->counters ? 0 : -ENOMEM;
}

static inline void port_stats_fini(struct port_stats *stats)
{
	free_percpu(stats->counters);
}

static inline void port_stats_add(struct port_stats *stats, u32 i, u64 n)
{
	this_cpu_add(stats->counters[i], n);
}

static inline u64 port_stats_read(const struct port_stats *stats, u32 i)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&stats->counters[i], cpu));
	return sum;
}

#define PORT_CRC32_HEAD 64

/*
 * Bytes from which on vector instructions are worth saving the vector registers. The value is the
 * threshold of the kernel's library for CRC-32C. The tables of the model take 140 ns for as many, the
 * instructions 9 to 17 ns (a Xeon with AVX-512).
 */
#define PORT_CRC32_MIN 512

/*
 * The ways of port_crc32_fold(). The host chooses the quickest before there is a device. NONE
 * takes nothing. LIBRARY copies first, then the kernel's library sums. PCLMUL and VPCLMUL do both at once,
 * in registers of 16 and of 64 bytes.
 */
enum port_crc32_way {
	PORT_CRC32_NONE,
	PORT_CRC32_LIBRARY,
	PORT_CRC32_PCLMUL,
	PORT_CRC32_VPCLMUL,
};
#define PORT_CRC32_WAYS 4

/* Returns false if this CPU, or this kernel, lacks the way. */
bool port_crc32_use(enum port_crc32_way way);
u32 port_crc32_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum);

#define PORT_WIRE_IN_MEMORY false
#define PORT_ONE_UNIT true

extern const struct snic_host_ops snic_kernel_host_ops;
#define PORT_HOST_OPS(ops) (&snic_kernel_host_ops)

#define port_warn(fmt, ...) pr_warn_ratelimited("sirdma: " fmt "\n", ##__VA_ARGS__)

#endif
