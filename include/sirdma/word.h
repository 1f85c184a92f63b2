/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Accesses to the words that both sides of a ring share: little-endian, single-copy atomic,
 * with the order that the name says and no other. They are the kernel's primitives in the
 * kernel, the compiler's elsewhere.
 */
#ifndef SIRDMA_WORD_H
#define SIRDMA_WORD_H

#ifdef __KERNEL__
#include <asm/barrier.h>
#include <asm/byteorder.h>
#include <linux/compiler.h>
#endif

#include "bits.h"

#ifdef __KERNEL__

static inline __u64 sirdma_get64(const __le64 *word)
{
	return le64_to_cpu(READ_ONCE(*word));
}

static inline __u64 sirdma_get64_acquire(const __le64 *word)
{
	/* Pairs with the other side's release: what it wrote before is visible. */
	return le64_to_cpu(smp_load_acquire(word));
}

static inline void sirdma_put64(__le64 *word, __u64 value)
{
	WRITE_ONCE(*word, cpu_to_le64(value));
}

static inline void sirdma_put64_release(__le64 *word, __u64 value)
{
	/* Pairs with the other side's acquire. */
	smp_store_release(word, cpu_to_le64(value));
}

static inline __u32 sirdma_load32(const __u32 *word)
{
	return READ_ONCE(*word);
}

static inline __u32 sirdma_load32_acquire(const __u32 *word)
{
	/* As that of 64 bits. */
	return smp_load_acquire(word);
}

static inline void sirdma_store32(__u32 *word, __u32 value)
{
	WRITE_ONCE(*word, value);
}

static inline void sirdma_store32_release(__u32 *word, __u32 value)
{
	/* As that of 64 bits. */
	smp_store_release(word, value);
}

#else

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SIRDMA_LE64(x) ((__u64)(x))
#else
#define SIRDMA_LE64(x) __builtin_bswap64(x)
#endif

/* Unordered: combine it with an acquire, a release or a fence. */
static inline __u64 sirdma_get64(const __le64 *word)
{
	return SIRDMA_LE64(__atomic_load_n(word, __ATOMIC_RELAXED));
}

/* Acquire: what the other side wrote before this value is visible. Partner: its release. */
static inline __u64 sirdma_get64_acquire(const __le64 *word)
{
	return SIRDMA_LE64(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

static inline void sirdma_put64(__le64 *word, __u64 value)
{
	__atomic_store_n(word, SIRDMA_LE64(value), __ATOMIC_RELAXED);
}

/* Release: a side that sees @value sees everything written before. Partner: its acquire. */
static inline void sirdma_put64_release(__le64 *word, __u64 value)
{
	__atomic_store_n(word, SIRDMA_LE64(value), __ATOMIC_RELEASE);
}

/* Indices that the poster and the poller of a queue share; the device does not see them. */
static inline __u32 sirdma_load32(const __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline __u32 sirdma_load32_acquire(const __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void sirdma_store32(__u32 *word, __u32 value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void sirdma_store32_release(__u32 *word, __u32 value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

#endif

#endif
