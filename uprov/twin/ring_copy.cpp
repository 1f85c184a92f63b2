/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ring_copy.hpp"

#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ticks.hpp"

extern "C" {
#include "model/frame.h"
}

namespace sirdma::twin
{

namespace
{

#ifdef __SSE2__
constexpr size_t line = 64;

/* A part of a line would go through the caches, or make memory read it. */
void copy_past_caches(uint8_t *to, const uint8_t *from, size_t len) noexcept
{
	const size_t before = std::min(-reinterpret_cast<uintptr_t>(to) % line, len);

	memcpy(to, from, before);
	to += before;
	from += before;
	len -= before;
	for (; len >= line; len -= line, to += line, from += line) {
		const auto *in = reinterpret_cast<const __m128i *>(from);
		auto *out = reinterpret_cast<__m128i *>(to);
		const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1),
			      c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);

		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
	memcpy(to, from, len);
}

void copy_past_caches(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
{
	for (u32 run; len; len -= run, to += run) {
		const void *from = snic_seg_next(&payload, len, &run);

		copy_past_caches(to, static_cast<const uint8_t *>(from), run);
	}
	/* These stores are not ordered with others, such as that of the record's head. */
	_mm_sfence();
}
#else
/* There are no such stores here. */
void copy_past_caches(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
{
	snic_seg_copy(&payload, to, len);
}
#endif

} // namespace

void RingCopy::copy(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
{
	if (len < bytes_min) {
		snic_seg_copy(&payload, to, len);
		return;
	}

	const bool past_caches = trial_.second();
	const u64 start = ticks();

	if (past_caches)
		copy_past_caches(to, payload, len);
	else
		snic_seg_copy(&payload, to, len);
	if (!trial_.note(past_caches, len, ticks() - start)) [[likely]]
		return;

	/* Past the caches the reader takes about as long again, since it reads from memory. */
	const bool second = trial_.cost(false) > 2 * trial_.cost(true);

	trial_.settle(second);
	cost_ = static_cast<u32>(std::min<u64>(trial_.cost(second) + 1, UINT32_MAX));
}

} // namespace sirdma::twin
