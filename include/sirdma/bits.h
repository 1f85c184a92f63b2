/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Named bit fields of the hardware interface.
 *
 * A field is a contiguous mask; its value is moved in and out with
 * SIRDMA_PREP()/SIRDMA_GET(), which work on CPU-endian 64-bit words.
 */
#ifndef SIRDMA_BITS_H
#define SIRDMA_BITS_H

#include <linux/types.h>

#define SIRDMA_BIT(n) (1ULL << (n))
#define SIRDMA_MASK(hi, lo) ((~0ULL >> (63 - (hi))) & (~0ULL << (lo)))

/* Value of field @mask, shifted into place; excess bits of @val are cut off. */
#define SIRDMA_PREP(mask, val) ((((__u64)(val)) << __builtin_ctzll(mask)) & (mask))
/* Field @mask of @word. */
#define SIRDMA_GET(mask, word) ((((__u64)(word)) & (mask)) >> __builtin_ctzll(mask))

/* The device's page, of rings, page descriptors and doorbells, whatever the kernel's is. */
#define SIRDMA_PAGE_SHIFT 12
#define SIRDMA_PAGE_SIZE (1u << SIRDMA_PAGE_SHIFT)

/* Bytes. Padding of this size between two members keeps them in different cache lines of most processors. */
#define SIRDMA_CACHE_LINE 64

/* A function of a header that is seldom called: not to be inlined into its callers. */
#define SIRDMA_COLD __attribute__((__cold__, __noinline__, __unused__))

#ifdef __cplusplus
#define SIRDMA_STATIC_ASSERT(cond, msg) static_assert(cond, msg)
/* In front of a function that C++ evaluates for tables. */
#define SIRDMA_CONSTEXPR constexpr
#else
#define SIRDMA_STATIC_ASSERT(cond, msg) _Static_assert(cond, msg)
#define SIRDMA_CONSTEXPR
#endif

/* Layout check of a hardware structure: total size in bytes. */
#define SIRDMA_SIZE_IS(type, size) \
	SIRDMA_STATIC_ASSERT(sizeof(type) == (size), #type " has a fixed size")
/* clang-format off */
#define SIRDMA_OFFSET_IS(type, member, off) \
	SIRDMA_STATIC_ASSERT(__builtin_offsetof(type, member) == (off), \
			     #type "." #member " has a fixed offset")
/* clang-format on */

#endif
