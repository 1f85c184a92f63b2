/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Access to words in memory that is shared with the device: little-endian, single-copy
 * atomic. Only the barriers in this file order these accesses.
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
 * The fence orders earlier stores before later loads. The provider makes a WQE valid and then reads
 * need_kick; the device sets need_kick and then reads the ring. With a full fence on both sides at
 * least one of them sees the other's store.
 */
inline void full_fence() noexcept
{
#ifdef __SANITIZE_THREAD__
	/*
	 * ThreadSanitizer does not support fences: use a read-modify-write, which is a fence on the
	 * processor.
	 */
	uint32_t word = 0;

	__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
	std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

} // namespace sirdma
