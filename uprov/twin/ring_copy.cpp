/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ring_copy.hpp"

#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

extern "C" {
#include "model/frame.h"
}

namespace sirdma::twin
{

namespace
{

#ifdef __SSE2__
constexpr size_t line = 64;

/*
 * Partial lines use ordinary stores: for a partial non-temporal store the memory controller would read the
 * line.
 */
void copy_run_non_temporal(uint8_t *to, const uint8_t *from, size_t len) noexcept
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

void copy_non_temporal(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
{
	for (u32 run; len; len -= run, to += run) {
		const void *from = snic_seg_next(&payload, len, &run);

		copy_run_non_temporal(to, static_cast<const uint8_t *>(from), run);
	}
	/* These stores are not ordered with others, such as that of the record's head. */
	_mm_sfence();
}
#else
/* This build has no non-temporal stores. */
void copy_non_temporal(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
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

	const u64 start = ticks();
	const bool measured = trial_.measures(start);
	const Way way = trial_.way();

	if (way == non_temporal_stores)
		copy_non_temporal(to, payload, len);
	else
		snic_seg_copy(&payload, to, len);
	if (!measured) [[likely]]
		return;

	const u64 end = ticks();

	if (trial_.note(way, len, end - start))
		decide(end);
}

/*
 * Non-temporal stores cost the reader about as much again as the writer, since it reads from memory. What
 * it costs the reader is not known here.
 */
void RingCopy::decide(u64 now) noexcept
{
	const bool ordinary = trial_.cost(ordinary_stores) <= 2 * trial_.cost(non_temporal_stores);
	const Way way = ordinary ? ordinary_stores : non_temporal_stores;

	trial_.decide(way, now);
	cost_ = static_cast<u32>(std::min<u64>(trial_.cost(way), UINT32_MAX));
}

} // namespace sirdma::twin
