/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Everything that the portable code (kmod/hw, kmod/model) needs of its environment. The
 * kernel and the userspace build each implement the same names; portable code includes
 * this header and include/sirdma, and nothing else.
 *
 * Types: u8..u64, s32, s64, bool, __le and __be types with le32_to_cpu() and
 * friends; __uninitialized (a large local variable that is written before it is read need
 * not be zeroed first); memcpy/memset/memcmp/memmove; READ_ONCE/WRITE_ONCE, smp_wmb/rmb/mb,
 * smp_load_acquire/smp_store_release; likely/unlikely; min/max/ARRAY_SIZE;
 * errno names; container_of; fallthrough.
 *
 * Functions, with the same meaning in both builds:
 *
 *   struct port_lock            spin lock; holder runs with softirqs off
 *     port_lock_init/port_lock/port_unlock
 *     port_lock_over/port_unlock_over: the same, where another function unlocks
 *     port_lock_holders_mark() -> u64, port_lock_holders_passed(mark) -> bool: has each hold of any
 *     port_lock ended that had begun at the mark? Always false where the port cannot tell. A mark may interrupt each
 *     processor once
 *   struct port_irq_lock        spin lock for any context, also with interrupts off
 *     port_irq_lock_init, port_irq_lock(l) -> unsigned long flags, port_irq_unlock(l, flags)
 *   struct port_mutex           sleeping lock. Storage that is reached through the device may need it to connect again,
 *     so its holder does not wait for storage, nor for memory that storage has to write out
 *     port_mutex_init/port_mutex_lock/port_mutex_unlock/port_mutex_trylock
 *   struct port_ref             reference count
 *     port_ref_init(r, n), port_ref_get(r), port_ref_get_unless_zero(r) -> bool (acquire),
 *     port_ref_put(r) -> bool: true when it reached zero
 *   struct port_event           one-shot event
 *     port_event_init, port_event_set (any context),
 *     port_event_wait(e, timeout_ms) -> bool: false on timeout; may sleep
 *   void *port_alloc(size)      zeroed, may sleep, NULL on failure; port_free(p)
 *     (large sizes are fine: virtually contiguous is enough). For what all users of a
 *     device share: in the kernel no cgroup is charged, and it fails rather than wait for storage
 *   void *port_alloc_charged(size)  the same for a small object of one user, physically
 *     contiguous: in the kernel the caller's cgroup is charged. It fails rather than
 *     reclaim memory, so that it may be called under a mutex that others wait for;
 *     a caller that holds none calls port_reclaim() and tries again
 *   void port_cond_resched(void)  let others have the CPU if they wait for it; may sleep. For
 *     loops of commands over all objects of a device
 *   bool port_reclaim(size_t size, bool charged)  make room for so many bytes; may sleep for long.
 *     False when there is none to be had
 *   port_rcu_read_lock/unlock   readers of port_rcu_assign()ed pointers
 *     port_rcu_deref(p), port_rcu_assign(p, v), port_free_rcu(ptr, member)
 *     with a struct port_rcu member inside *ptr: freed after all readers left
 *   struct port_timer           one-shot timer; callback in atomic context
 *     port_timer_init(t, clock, fn), port_timer_arm(t, ns from now) (re-arms),
 *     port_timer_cancel(t) (no wait), port_timer_cancel_sync(t) (waits; not
 *     under a lock the callback takes)
 *   u64 port_now_ns(clock)      monotonic; NULL: real time, for timeouts of waits
 *   u32 port_random_u32(void)
 *   struct port_hash_key        random key of a hash
 *     port_hash_key_init(k), port_hash_4u32(k, a, b, c, d) -> u32: who does not know the key
 *     cannot choose words that have the same hash (SipHash-1-3)
 *   u32 port_cpu(void)          index of this CPU or thread, stable while a
 *     port_lock is held; < port_nr_cpus()
 *   void *port_dma_ptr(dma, addr, len)  CPU pointer to device address range
 *     [addr, addr + len), which lies inside one mapped block; NULL when not mapped
 *   void *port_dma_ptr_checked(dma, addr, len)  the same of a range that no driver vouches
 *     for, because a peer may have named it: NULL unless there is memory
 *   Memory that may not be there (SIRDMA_CQP_STAG_MAY_FAULT), in builds with PORT_MEMORY_MAY_FAULT:
 *     port_dma_may_fault(dma) -> bool: the host can access such memory
 *     port_dma_read(dma, addr, to, len), port_dma_write(dma, addr, from, len)  copy @len bytes. They
 *     return 0, -EFAULT if memory is missing or must not be accessed so, or -EAGAIN if the same
 *     access may succeed later. A part may be copied then
 *     port_dma_atomic(dma, addr, op, operand, compare, u64 *before)  the operation @op on the
 *     aligned eight bytes at @addr, atomic also for other CPUs, as port_user_*() below. The same
 *     errors; the bytes did not change then
 *   port_cas64(u64 *p, old, new) -> bool  atomic, fully ordered; false: *p was not old
 *   port_user_cmpxchg64(u64 *p, old, new) -> u64, port_user_fetch_add64(u64 *p, n) -> u64  on
 *     memory that applications access as well; atomic, fully ordered; return the value before
 *   port_user_store64(u64 *p, v)  on such memory: atomic, after all writes before it
 *   struct port_stats           n counters from 0; add and read in any context
 *     port_stats_init(s, n) -> 0 or -ENOMEM, port_stats_fini(s) (also of zeroed memory),
 *     port_stats_add(s, i, n), port_stats_read(s, i) -> u64
 *   u32 port_crc32_fold(crc, head, dst, src, len, u32 *sum)  CRC-32 (reflected, poly
 *     0xedb88320) by instructions of this CPU, over @head (64 bytes, or NULL; with it
 *     @crc must be 0) and the front of @src, which it reads once, and copies to @dst
 *     unless that is NULL. Returns how many bytes of @src it took; 0: it took nothing,
 *     and the caller sums by itself
 *   port_warn(fmt, ...)         rate-limited log line
 *
 * Constants:
 *
 *   bool PORT_WIRE_IN_MEMORY    hosts of this build share memory with their peers: they
 *     hand over super-packets (model/super.h) and payload by reference to that memory.
 *     Where it is false, the code for either is not in the object files. Payload in memory
 *     of this host may be handed over by reference in all builds (model/kept.h)
 *   bool PORT_MEMORY_MAY_FAULT  hosts of this build may have regions of memory that comes and goes
 *     without their knowledge. Where it is false, the code for such regions is not in the object
 *     files
 *   bool PORT_ONE_UNIT          the model is compiled as one unit (nic.c), so that a call through
 *     a constant table is a direct one
 *   PORT_HOST_OPS(ops)          @ops, the operations of a device's host; a constant where
 *     all devices of this build have the same, so that they are called directly
 */
#ifndef SIRDMA_PORT_H
#define SIRDMA_PORT_H

#ifdef __KERNEL__
#include "port_kernel.h"
#else
#include "port_user.h"
#endif

#endif
