/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Words shared with the device: little-endian, single-copy atomic, ordered by
 * what is named here and nothing else.
 */
#pragma once

#include <atomic>
#include <cstdint>
#include <endian.h>

#include <sirdma/word.h>

namespace sirdma
{

inline void put(__le64 &word, uint64_t value) noexcept
{
	sirdma_put64(&word, value);
}

inline void put(__le32 &word, uint32_t value) noexcept
{
	__atomic_store_n(&word, htole32(value), __ATOMIC_RELAXED);
}

inline uint64_t get(const __le64 &word) noexcept
{
	return sirdma_get64(&word);
}

/*
 * Orders our stores before our loads: "made work visible, then asked whether
 * the device sleeps" against its "said it sleeps, then looked for work".
 */
inline void full_fence() noexcept
{
#ifdef __SANITIZE_THREAD__
	/* Which knows no fences: an access that the processor takes for one. */
	uint32_t word = 0;

	__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
	std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

} // namespace sirdma
