// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * CRC-32 by instructions of the processor: those of the kernel's library, or carry-less
 * multiplication in one pass with the copy, in registers of 16 or 64 bytes. user_crc32.c explains the method.
 */
#include "port/port.h"

/* User-Mode Linux on x86-64 is X86_64, too. */
#if defined(CONFIG_X86_64) && !defined(__CHECKER__)
#include <asm/cpufeature.h>

#include "compat/fpu.h"

#define LANE 16u /* bytes of a register */
#define SUMS 4u /* registers that do not wait for one another */

/* The kernel has no header of intrinsics, and only these functions may use such registers. */
#define WITH_PCLMUL __attribute__((target("sse2,pclmul")))

#define VECTOR long long __attribute__((vector_size(16)))

/* A vector at any address. */
struct memory_lane {
	VECTOR v;
} __packed __attribute__((may_alias));

#define WIDE 64u /* bytes of a register of four lanes */
#define WITH_VPCLMUL __attribute__((target("sse2,pclmul,avx512f,vpclmulqdq")))
#define WIDE_VECTOR long long __attribute__((vector_size(64)))

/* Such a register at any address. */
struct memory_wide {
	WIDE_VECTOR v;
} __packed __attribute__((may_alias));

/* @head fills one wide register, or four narrow ones, and no run is shorter than its first registers. */
static_assert(PORT_CRC32_HEAD == WIDE && PORT_CRC32_HEAD == SUMS * LANE);
static_assert(PORT_CRC32_MIN >= SUMS * WIDE);

/* x^(n + 32) and x^(n - 32) modulo the polynomial, n: the bits of a lane, of SUMS lanes, of SUMS wide registers. */
static const u64 fold_lane[] = {0x1751997d0, 0x0ccaa009e};
static const u64 fold_lanes[] = {0x154442bd4, 0x1c6e41596}; /* one wide register as well */
static const u64 fold_wides[] = {0x11542778a, 0x1322d1430};

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
#define RUN(run) \
	(dst  ? head ? run(crc, head, dst, src, len, out) : run(crc, NULL, dst, src, len, out) : \
	 head ? run(crc, head, NULL, src, len, out) : \
		run(crc, NULL, NULL, src, len, out))

WITH_PCLMUL static noinline u32 pclmul(u32 crc, const u8 *head, u8 *dst, const u8 *src, u32 len,
				       u8 *out)
{
	return RUN(pclmul_run);
}

/* Inline assembly: GCC and clang have different builtins for this instruction. */
WITH_VPCLMUL static __always_inline WIDE_VECTOR wide_fold(WIDE_VECTOR sum, const u64 *by,
							  WIDE_VECTOR next)
{
	const long long low = (long long)by[0], high = (long long)by[1];
	const WIDE_VECTOR k = {low, high, low, high, low, high, low, high};
	WIDE_VECTOR lows, highs;

	asm("vpclmulqdq $0x00, %2, %1, %0" : "=v"(lows) : "v"(sum), "v"(k));
	asm("vpclmulqdq $0x11, %2, %1, %0" : "=v"(highs) : "v"(sum), "v"(k));
	return lows ^ highs ^ next;
}

WITH_VPCLMUL static __always_inline WIDE_VECTOR wide_take(const u8 *src, u8 *dst, u32 at)
{
	WIDE_VECTOR v = ((const struct memory_wide *)(src + at))->v;

	if (dst)
		((struct memory_wide *)(dst + at))->v = v;
	return v;
}

/* Like pclmul_run(). @head and @src together have at least SUMS * WIDE bytes; @head fills one register. */
WITH_VPCLMUL static __always_inline u32 vpclmul_run(u32 crc, const u8 *head, u8 *dst, const u8 *src,
						    u32 len, u8 *out)
{
	const WIDE_VECTOR start = {crc};
	u32 at = head ? 0 : WIDE, i;
	WIDE_VECTOR sum[SUMS];
	struct memory_wide last;
	VECTOR lane;

	sum[0] = (head ? wide_take(head, NULL, 0) : wide_take(src, dst, 0)) ^ start;
	sum[1] = wide_take(src, dst, at);
	sum[2] = wide_take(src, dst, at + WIDE);
	sum[3] = wide_take(src, dst, at + 2 * WIDE);
	for (at += 3 * WIDE; len - at >= SUMS * WIDE; at += SUMS * WIDE) {
		sum[0] = wide_fold(sum[0], fold_wides, wide_take(src, dst, at));
		sum[1] = wide_fold(sum[1], fold_wides, wide_take(src, dst, at + WIDE));
		sum[2] = wide_fold(sum[2], fold_wides, wide_take(src, dst, at + 2 * WIDE));
		sum[3] = wide_fold(sum[3], fold_wides, wide_take(src, dst, at + 3 * WIDE));
	}
	sum[1] = wide_fold(sum[0], fold_lanes, sum[1]);
	sum[2] = wide_fold(sum[1], fold_lanes, sum[2]);
	sum[3] = wide_fold(sum[2], fold_lanes, sum[3]);
	for (; len - at >= WIDE; at += WIDE)
		sum[3] = wide_fold(sum[3], fold_lanes, wide_take(src, dst, at));
	last.v = sum[3];
	lane = lane_take((const u8 *)&last, NULL, 0);
	for (i = 1; i < WIDE / LANE; i++)
		lane = lane_fold(lane, fold_lane, lane_take((const u8 *)&last, NULL, i * LANE));
	for (; len - at >= LANE; at += LANE)
		lane = lane_fold(lane, fold_lane, lane_take(src, dst, at));
	((struct memory_lane *)out)->v = lane;
	return at;
}

WITH_VPCLMUL static noinline u32 vpclmul(u32 crc, const u8 *head, u8 *dst, const u8 *src, u32 len,
					 u8 *out)
{
	return RUN(vpclmul_run);
}

static bool has_instructions(enum port_crc32_way way)
{
	if (!boot_cpu_has(X86_FEATURE_PCLMULQDQ))
		return false;
	return way == PORT_CRC32_PCLMUL ||
	       (boot_cpu_has(X86_FEATURE_VPCLMULQDQ) && sirdma_may_use_avx512());
}

static u32 multiply(enum port_crc32_way way, u32 crc, const void *head, void *dst, const void *src,
		    u32 len, u32 *sum)
{
	u8 last[LANE];
	u32 half, n;

	/* Not in an interrupt of code that uses the registers itself. */
	if (!irq_fpu_usable())
		return 0;
	kernel_fpu_begin();
	if (way == PORT_CRC32_VPCLMUL)
		n = vpclmul(crc, head, dst, src, len, last);
	else
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
static bool has_instructions(enum port_crc32_way way)
{
	return false;
}

static u32 multiply(enum port_crc32_way way, u32 crc, const void *head, void *dst, const void *src,
		    u32 len, u32 *sum)
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
	if ((way == PORT_CRC32_PCLMUL || way == PORT_CRC32_VPCLMUL) && !has_instructions(way))
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
	case PORT_CRC32_VPCLMUL:
		return multiply(crc32_way, crc, head, dst, src, len, sum);
	default:
		return 0;
	}
}
