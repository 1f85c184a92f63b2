/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue lock. Costs nothing where the application promised one thread (thread
 * domain, single-threaded CQ, SIRDMA_SINGLE_THREADED=1) and no atomic
 * read-modify-write while the process has one thread only.
 */
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SIRDMA_PROCESS_IS_SINGLE_THREADED (__libc_single_threaded != 0)
#else
#define SIRDMA_PROCESS_IS_SINGLE_THREADED false
#endif

namespace sirdma
{

class QueueLock {
public:
	explicit QueueLock(bool needed) noexcept : needed_(needed) {}

	QueueLock(const QueueLock &) = delete;
	QueueLock &operator=(const QueueLock &) = delete;

	void lock() noexcept
	{
		if (!needed_)
			return;
		/*
		 * A lone thread may store instead of exchange. The word still says
		 * "taken", so a thread born while we hold it (the extended poll
		 * returns to the application with the lock held) waits for unlock().
		 */
		if (SIRDMA_PROCESS_IS_SINGLE_THREADED)
			word_.store(1, std::memory_order_relaxed);
		else if (word_.exchange(1, std::memory_order_acquire))
			lock_slow();
	}

	void unlock() noexcept
	{
		if (needed_)
			word_.store(0, std::memory_order_release);
	}

	bool needed() const noexcept { return needed_; }

private:
	void lock_slow() noexcept
	{
		do {
			for (unsigned spins = 0; word_.load(std::memory_order_relaxed); ++spins) {
				if (spins >= spins_before_yield)
					sched_yield();
			}
		} while (word_.exchange(1, std::memory_order_acquire));
	}

	/* The holder leaves within a few hundred instructions unless it lost its CPU. */
	static constexpr unsigned spins_before_yield = 1000;

	std::atomic<uint32_t> word_{0};
	const bool needed_;
};

} // namespace sirdma
