// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * CRC-32 by instructions of the processor: those of the kernel's library, or carry-less
 * multiplication in one pass with the copy. user_crc32.c explains the method.
 */
#include "port/port.h"

/* User-Mode Linux on x86-64 is X86_64, too. */
#if defined(CONFIG_X86_64) && !defined(__CHECKER__)
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>

#define LANE 16u /* bytes of a register */
#define SUMS 4u /* registers that do not wait for one another */

/* The kernel has no header of intrinsics, and only these functions may use such registers. */
#define WITH_PCLMUL __attribute__((target("sse2,pclmul")))

#define VECTOR long long __attribute__((vector_size(16)))

/* A vector at any address. */
struct memory_lane {
	VECTOR v;
} __packed __attribute__((may_alias));

/* x^(n + 32) and x^(n - 32) modulo the polynomial, n: the bits of a lane, of SUMS lanes. */
static const u64 fold_lane[] = {0x1751997d0, 0x0ccaa009e};
static const u64 fold_lanes[] = {0x154442bd4, 0x1c6e41596};

WITH_PCLMUL static __always_inline VECTOR lane_fold(VECTOR sum, const u64 *by, VECTOR next)
{
	const VECTOR k = {(long long)by[0], (long long)by[1]};

	return __builtin_ia32_pclmulqdq128(sum, k, 0x00) ^
	       __builtin_ia32_pclmulqdq128(sum, k, 0x11) ^ next;
}

/*
 * The lane at @at. Each byte is read once: the byte that is copied is the byte that is summed. @dst
 * is NULL if there is no copy.
 */
WITH_PCLMUL static __always_inline VECTOR lane_take(const u8 *src, u8 *dst, u32 at)
{
	VECTOR v = ((const struct memory_lane *)(src + at))->v;

	if (dst)
		((struct memory_lane *)(dst + at))->v = v;
	return v;
}

/* @out: LANE bytes that have the sum of those taken. Returns how many of @src were taken. */
WITH_PCLMUL static __always_inline u32 pclmul_run(u32 crc, const u8 *head, u8 *dst, const u8 *src,
						  u32 len, u8 *out)
{
	const VECTOR start = {crc, 0};
	const u8 *first = head ? head : src;
	u8 *first_dst = head ? NULL : dst;
	u32 at = head ? 0 : SUMS * LANE;
	VECTOR sum[SUMS];

	/* The indices are constant, so that the compiler keeps the sums in registers. */
	sum[0] = lane_take(first, first_dst, 0) ^ start;
	sum[1] = lane_take(first, first_dst, LANE);
	sum[2] = lane_take(first, first_dst, 2 * LANE);
	sum[3] = lane_take(first, first_dst, 3 * LANE);
	for (; len - at >= SUMS * LANE; at += SUMS * LANE) {
		sum[0] = lane_fold(sum[0], fold_lanes, lane_take(src, dst, at));
		sum[1] = lane_fold(sum[1], fold_lanes, lane_take(src, dst, at + LANE));
		sum[2] = lane_fold(sum[2], fold_lanes, lane_take(src, dst, at + 2 * LANE));
		sum[3] = lane_fold(sum[3], fold_lanes, lane_take(src, dst, at + 3 * LANE));
	}
	sum[1] = lane_fold(sum[0], fold_lane, sum[1]);
	sum[2] = lane_fold(sum[1], fold_lane, sum[2]);
	sum[3] = lane_fold(sum[2], fold_lane, sum[3]);
	for (; len - at >= LANE; at += LANE)
		sum[3] = lane_fold(sum[3], fold_lane, lane_take(src, dst, at));
	((struct memory_lane *)out)->v = sum[3];
	return at;
}

/* The compiler makes code for each combination of @dst and @head that may be NULL. */
WITH_PCLMUL static noinline u32 pclmul(u32 crc, const u8 *head, u8 *dst, const u8 *src, u32 len,
				       u8 *out)
{
	if (dst && head)
		return pclmul_run(crc, head, dst, src, len, out);
	if (dst)
		return pclmul_run(crc, NULL, dst, src, len, out);
	if (head)
		return pclmul_run(crc, head, NULL, src, len, out);
	return pclmul_run(crc, NULL, NULL, src, len, out);
}

static bool pclmul_exists(void)
{
	return boot_cpu_has(X86_FEATURE_PCLMULQDQ);
}

static u32 pclmul_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum)
{
	u8 last[LANE];
	u32 half, n;

	/* Not in an interrupt of code that uses the registers itself. */
	if (!irq_fpu_usable())
		return 0;
	kernel_fpu_begin();
	n = pclmul(crc, head, dst, src, len, last);
	kernel_fpu_end();
	/*
	 * From 16 bytes on, crc32_le() of Linux 6.14 and later uses vector instructions, too: it would save
	 * and restore the registers once more.
	 */
	half = crc32_le(0, last, LANE / 2);
	*sum = crc32_le(half, last + LANE / 2, LANE / 2);
	return n;
}
#else
static bool pclmul_exists(void)
{
	return false;
}

static u32 pclmul_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum)
{
	return 0;
}
#endif

static u32 library_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum)
{
	/* The bytes may change meanwhile: the copy is summed. */
	if (dst)
		memcpy(dst, src, len);
	if (head)
		crc = crc32_le(crc, head, PORT_CRC32_HEAD);
	*sum = crc32_le(crc, dst ? dst : src, len);
	return len;
}

static enum port_crc32_way crc32_way __read_mostly;

bool port_crc32_use(enum port_crc32_way way)
{
	if (way == PORT_CRC32_LIBRARY && !(crc32_optimizations() & CRC32_LE_OPTIMIZATION))
		return false;
	if (way == PORT_CRC32_PCLMUL && !pclmul_exists())
		return false;
	crc32_way = way;
	return true;
}

u32 port_crc32_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *sum)
{
	if (len < PORT_CRC32_MIN)
		return 0;
	switch (crc32_way) {
	case PORT_CRC32_LIBRARY:
		return library_fold(crc, head, dst, src, len, sum);
	case PORT_CRC32_PCLMUL:
		return pclmul_fold(crc, head, dst, src, len, sum);
	default:
		return 0;
	}
}
