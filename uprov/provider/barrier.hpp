/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Access to words in memory that is shared with the device: little-endian, single-copy
 * atomic. Only the barriers in this file and in word.h order these accesses. All of them:
 *
 *   provider                                partner in the device
 *   WQE's body, release, header             header, acquire, body
 *   header, full fence, need_kick           need_kick, full fence, header
 *   CQE's header, acquire, its other words  other words, release, header
 *   reads of a CQE, release, cons_idx       cons_idx, acquire, new CQE in its place
 *   arm word, full fence, CQE's header      CQE's header, full fence, arm word
 *   arm word, acquire, CQE's header         arm word, release, CQE's header
 *   WQE or arm word, store fence, doorbell  doorbell, then what it reads of memory
 *
 * Release and acquire cost nothing on x86. A full fence is needed where one side stores one word and
 * then loads another while the other side does it the other way round: at least one of them sees the
 * store of the other. A list of WQEs takes one release, of its first header, because the device reads
 * those behind it later; and one full fence.
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

/* The fence orders earlier stores before later loads. */
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

/* The fence orders earlier stores to memory before later stores to registers of the device. */
inline void device_store_fence() noexcept
{
#if defined(__aarch64__)
	asm volatile("dmb oshst" ::: "memory");
#elif defined(__x86_64__)
	asm volatile("" ::: "memory"); /* the processor keeps the order of stores */
#else
	full_fence();
#endif
}

} // namespace sirdma
