/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue lock. It keeps nobody out where the application promised to use one thread (thread
 * domain, single-threaded CQ, SIRDMA_SINGLE_THREADED=1), and needs no atomic
 * read-modify-write while the process has only one thread.
 */
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SIRDMA_PROCESS_IS_SINGLE_THREADED (__libc_single_threaded != 0)
#else
#define SIRDMA_PROCESS_IS_SINGLE_THREADED false
#endif

namespace sirdma
{

/*
 * Wait for a short critical section of another thread: spin, then yield, then sleep. Sleeping is
 * necessary because a SCHED_FIFO thread that only yields never lets an ordinary thread on the same
 * processor run, and that thread may hold the lock.
 */
class Backoff {
public:
	/*
	 * A critical section is a few hundred instructions, unless its thread lost its
	 * processor. An attempt takes more than one instruction, so this many outlast it. The
	 * number was not tuned.
	 */
	static constexpr unsigned lock_spins = 1000;

	explicit Backoff(unsigned spins = lock_spins) noexcept : spins_(spins) {}

	/* Call this between two attempts. It is no cancellation point. */
	void pause() noexcept
	{
		++waits_;
		if (waits_ <= spins_)
			return;
		if (waits_ <= spins_ + yields)
			sched_yield();
		else
			(void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, nullptr);
	}

private:
	/* After this many yields each runnable thread of equal priority has run. */
	static constexpr unsigned yields = 100;
	/* As long as these yields take where no other thread wants the processor, 0.6 us each. */
	static constexpr timespec nap = {.tv_sec = 0, .tv_nsec = 50000};

	const unsigned spins_;
	unsigned waits_ = 0;
};

class QueueLock {
public:
	explicit QueueLock(bool needed) noexcept : needed_(needed) {}

	QueueLock(const QueueLock &) = delete;
	QueueLock &operator=(const QueueLock &) = delete;

	/* Can no other thread hold the lock, or try to, during the caller's own call? */
	bool unshared() const noexcept { return SIRDMA_PROCESS_IS_SINGLE_THREADED || !needed_; }

	/*
	 * Lock what is unshared(): the only thread of a process may store instead of exchange. The
	 * lock is still marked as held, so a thread that is created meanwhile waits for unlock():
	 * the extended poll returns to the application with the lock held.
	 */
	void lock_unshared() noexcept { word_.store(1, std::memory_order_relaxed); }

	/* False: another thread holds it. */
	bool try_lock() noexcept
	{
		if (!unshared())
			return !word_.exchange(1, std::memory_order_acquire);
		lock_unshared();
		return true;
	}

	void lock() noexcept
	{
		if (!try_lock()) [[unlikely]]
			wait();
	}

	void unlock() noexcept { word_.store(0, std::memory_order_release); }

	/* Does any thread hold the lock, or this one? */
	bool held() const noexcept { return word_.load(std::memory_order_relaxed); }

private:
	[[gnu::cold, gnu::noinline]] void wait() noexcept
	{
		do {
			Backoff backoff;

			while (word_.load(std::memory_order_relaxed))
				backoff.pause();
		} while (word_.exchange(1, std::memory_order_acquire));
	}

	std::atomic<uint32_t> word_{0};
	const bool needed_;
};

} // namespace sirdma
