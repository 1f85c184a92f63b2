// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * CRC-32 by carry-less multiplication: a register of message bits is multiplied
 * by x^d modulo the polynomial, which moves it d bits ahead without changing the
 * remainder (V. Gopal et al., "Fast CRC Computation Using PCLMULQDQ").
 */
#include "port_user.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRC32_POLY 0xedb88320u
#define LANE 16u /* bytes of a register of the narrow way, and of a lane of the wide one */
#define WIDE 64u
#define SUMS 4u /* registers that do not wait for one another */

/* Multipliers for the low and the high half of a lane. */
struct fold {
	u64 low, high;
};

/* The multipliers fold by the bytes of one lane, of SUMS lanes, and of SUMS wide registers. */
static struct fold fold_lane, fold_lanes, fold_wides;
static u64 fold_half; /* multiplier by half a lane */

/* x^n modulo the polynomial, bits reflected, moved up for the product's odd length. */
static u64 power(u32 n)
{
	u32 bits = 0x80000000u;

	while (n--)
		bits = bits & 1 ? bits >> 1 ^ CRC32_POLY : bits >> 1;
	return (u64)bits << 1;
}

static struct fold fold_by(u32 bytes)
{
	return (struct fold){.low = power(bytes * 8 + 32), .high = power(bytes * 8 - 32)};
}

#define NARROW __attribute__((target("pclmul,sse4.1")))
#define WIDER __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))

#define ALWAYS_INLINE inline __attribute__((always_inline))

NARROW static ALWAYS_INLINE __m128i lane_fold(__m128i sum, struct fold by, __m128i next)
{
	__m128i k = _mm_set_epi64x((long long)by.high, (long long)by.low);

	return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, k, 0x00),
					   _mm_clmulepi64_si128(sum, k, 0x11)),
			     next);
}

/*
 * The sum of a lane: its remainder with 32 zeroes behind it. Half of the lane is folded onto the
 * rest, then twice a word onto the remainder, and the last word is reduced by Barrett's method: the
 * quotient is the product with 1 / polynomial.
 */
NARROW static ALWAYS_INLINE u32 lane_sum(__m128i lane)
{
	const __m128i by = _mm_cvtsi64_si128((long long)fold_half);
	const __m128i barrett = _mm_set_epi64x(0x1db710641, 0x1f7011641);
	const __m128i word = _mm_set_epi32(0, 0, 0, -1);
	__m128i v;

	v = _mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00),
			  _mm_slli_si128(_mm_srli_si128(lane, 8), 4));
	v = _mm_srli_si128(_mm_xor_si128(_mm_clmulepi64_si128(_mm_slli_epi64(v, 32), by, 0x00), v),
			   4);
	v = _mm_xor_si128(_mm_srli_si128(_mm_clmulepi64_si128(_mm_slli_epi64(v, 32), by, 0x00), 4),
			  _mm_srli_epi64(v, 32));
	lane = _mm_clmulepi64_si128(_mm_and_si128(v, word), barrett, 0x00);
	lane = _mm_clmulepi64_si128(_mm_and_si128(lane, word), barrett, 0x10);
	return (u32)_mm_extract_epi32(_mm_xor_si128(lane, v), 1);
}

/* Each byte is read once: the byte that is copied is the byte that is summed. */
NARROW static ALWAYS_INLINE __m128i lane_take(const u8 *src, u8 *dst, bool copy)
{
	__m128i v = _mm_loadu_si128((const __m128i *)src);

	if (copy)
		_mm_storeu_si128((__m128i *)dst, v);
	return v;
}

NARROW static ALWAYS_INLINE u32 narrow_run(u32 crc, const u8 *head, u8 *dst, const u8 *src, u32 len,
					   u32 *out, bool copy)
{
	__m128i sum[SUMS];
	u32 i, at = head ? 0 : SUMS * LANE;

	for (i = 0; i < SUMS; i++)
		sum[i] = head ? lane_take(head + i * LANE, NULL, false) :
				lane_take(src + i * LANE, dst + (copy ? i * LANE : 0), copy);
	sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi32_si128((int)crc));
	for (; len - at >= SUMS * LANE; at += SUMS * LANE) {
		for (i = 0; i < SUMS; i++)
			sum[i] = lane_fold(sum[i], fold_lanes,
					   lane_take(src + at + i * LANE,
						     dst + (copy ? at + i * LANE : 0), copy));
	}
	for (i = 1; i < SUMS; i++)
		sum[i] = lane_fold(sum[i - 1], fold_lane, sum[i]);
	for (; len - at >= LANE; at += LANE)
		sum[SUMS - 1] = lane_fold(sum[SUMS - 1], fold_lane,
					  lane_take(src + at, dst + (copy ? at : 0), copy));
	*out = lane_sum(sum[SUMS - 1]);
	return at;
}

/* The compiler makes code for each combination of @dst and @head that may be NULL. */
#define RUN(run) \
	(dst  ? head ? run(crc, head, dst, src, len, out, true) : \
		       run(crc, NULL, dst, src, len, out, true) : \
	 head ? run(crc, head, NULL, src, len, out, false) : \
		run(crc, NULL, NULL, src, len, out, false))

NARROW static u32 narrow(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out)
{
	return len < SUMS * LANE ? 0 : RUN(narrow_run);
}

WIDER static ALWAYS_INLINE __m512i wide_fold(__m512i sum, struct fold by, __m512i next)
{
	__m512i k = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)by.high, (long long)by.low));

	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, k, 0x00),
					 _mm512_clmulepi64_epi128(sum, k, 0x11), next, 0x96);
}

WIDER static ALWAYS_INLINE __m512i wide_take(const u8 *src, u8 *dst, bool copy)
{
	__m512i v = _mm512_loadu_si512(src);

	if (copy)
		_mm512_storeu_si512(dst, v);
	return v;
}

WIDER static ALWAYS_INLINE u32 wide_run(u32 crc, const u8 *head, u8 *dst, const u8 *src, u32 len,
					u32 *out, bool copy)
{
	__m512i sum[SUMS];
	__m128i lane;
	u32 i = 0, at = 0;

	if (head)
		sum[i++] = wide_take(head, NULL, false);
	for (; i < SUMS; i++, at += WIDE)
		sum[i] = wide_take(src + at, dst + (copy ? at : 0), copy);
	sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (; len - at >= SUMS * WIDE; at += SUMS * WIDE) {
		for (i = 0; i < SUMS; i++)
			sum[i] = wide_fold(sum[i], fold_wides,
					   wide_take(src + at + i * WIDE,
						     dst + (copy ? at + i * WIDE : 0), copy));
	}
	for (i = 1; i < SUMS; i++)
		sum[i] = wide_fold(sum[i - 1], fold_lanes, sum[i]);
	for (; len - at >= WIDE; at += WIDE)
		sum[SUMS - 1] = wide_fold(sum[SUMS - 1], fold_lanes,
					  wide_take(src + at, dst + (copy ? at : 0), copy));
	lane = lane_fold(_mm512_extracti32x4_epi32(sum[SUMS - 1], 0), fold_lane,
			 _mm512_extracti32x4_epi32(sum[SUMS - 1], 1));
	lane = lane_fold(lane, fold_lane, _mm512_extracti32x4_epi32(sum[SUMS - 1], 2));
	lane = lane_fold(lane, fold_lane, _mm512_extracti32x4_epi32(sum[SUMS - 1], 3));
	for (; len - at >= LANE; at += LANE)
		lane = lane_fold(lane, fold_lane, lane_take(src + at, dst + (copy ? at : 0), copy));
	*out = lane_sum(lane);
	return at;
}

WIDER static u32 wide(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out)
{
	return len < SUMS * WIDE ? narrow(crc, head, dst, src, len, out) : RUN(wide_run);
}

static u32 none(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out)
{
	return 0;
}

static u32 (*way)(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out) = none;

bool port_crc32_use(enum port_crc32_way which)
{
	__builtin_cpu_init();
	switch (which) {
	case PORT_CRC32_NONE:
		way = none;
		return true;
	case PORT_CRC32_PCLMUL:
		if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
			return false;
		way = narrow;
		return true;
	case PORT_CRC32_VPCLMUL:
		if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1") ||
		    !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("vpclmulqdq"))
			return false;
		way = wide;
		return true;
	}
	return false;
}

__attribute__((constructor)) static void choose(void)
{
	fold_half = power(64);
	fold_lane = fold_by(LANE);
	fold_lanes = fold_by(SUMS * LANE); /* one wide register as well */
	fold_wides = fold_by(SUMS * WIDE);
	if (!port_crc32_use(PORT_CRC32_VPCLMUL))
		port_crc32_use(PORT_CRC32_PCLMUL);
}

u32 port_crc32_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out)
{
	return way(crc, head, dst, src, len, out);
}

#else

bool port_crc32_use(enum port_crc32_way which)
{
	return which == PORT_CRC32_NONE;
}

u32 port_crc32_fold(u32 crc, const void *head, void *dst, const void *src, u32 len, u32 *out)
{
	return 0;
}

#endif
