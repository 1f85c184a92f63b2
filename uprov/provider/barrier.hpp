/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Words shared with the device: little-endian, single-copy atomic, ordered by
 * what is named here and nothing else.
 */
#pragma once

#include <atomic>
#include <cstdint>
#include <endian.h>

#include <linux/types.h>

namespace sirdma
{

/* No order: the release store of a header, or the fence, publishes it. */
inline void put(__le64 &word, uint64_t value) noexcept
{
	__atomic_store_n(&word, htole64(value), __ATOMIC_RELAXED);
}

inline void put(__le32 &word, uint32_t value) noexcept
{
	__atomic_store_n(&word, htole32(value), __ATOMIC_RELAXED);
}

inline uint64_t get(const __le64 &word) noexcept
{
	return le64toh(__atomic_load_n(&word, __ATOMIC_RELAXED));
}

/* Everything written before is visible to who sees @value. Partner: the device's acquire. */
inline void put_release(__le64 &word, uint64_t value) noexcept
{
	__atomic_store_n(&word, htole64(value), __ATOMIC_RELEASE);
}

/* What the device wrote before the value seen here is visible. Partner: its release. */
inline uint64_t get_acquire(const __le64 &word) noexcept
{
	return le64toh(__atomic_load_n(&word, __ATOMIC_ACQUIRE));
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
