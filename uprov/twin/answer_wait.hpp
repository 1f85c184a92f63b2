/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Polls of a process that spins on its memory. Such a process posts a request, polls until its completion, and then
 * reads the word that the peer's answer, a WRITE, changes. It makes no call meanwhile, so that the helper would have
 * to be woken for each answer. But the answer often comes within a few microseconds of the completion. So the poll
 * that returns the completion waits for it, while such waits find answers, and the helper may be away.
 *
 * A wait that finds none ends this, and the helper is woken for each answer again. After a while another wait tries.
 */
#pragma once

#include <algorithm>

#include "core.hpp"

namespace sirdma::twin
{

class AnswerWait {
public:
	/*
	 * The longest waits, us. Over shared memory an answer comes 0.5 us after the completion of the request, over UDP 5
	 * us. A process that computes before it looks for the answer loses so much at each. But it takes 10 to 40 us while
	 * the peer has its helper woken: until both wait, an attempt takes longer.
	 */
	static constexpr u64 limit_us = 20, attempt_us = 100;
	/*
	 * The most completions that are returned at once after a wait in vain. They are one after the first such wait; each
	 * further one doubles them, and each wait halves them that finds an answer while waits pay.
	 */
	static constexpr u32 pause_max = 1024;

	/* Did the last wait find an answer? Then the helper need not watch. */
	bool pays() const noexcept { return pays_.load(std::memory_order_relaxed); }
	u64 longest_us() const noexcept { return pays() ? limit_us : attempt_us; }

	/* Is the poll that returns a completion to wait for an answer? */
	bool is_due() noexcept
	{
		const u32 left = left_.load(std::memory_order_relaxed);

		if (left)
			left_.store(left - 1, std::memory_order_relaxed);
		return !left;
	}
	void found() noexcept
	{
		const u32 pause = pause_.load(std::memory_order_relaxed);

		if (!pays()) [[unlikely]]
			pays_.store(true, std::memory_order_relaxed);
		else if (pause > 1) [[unlikely]]
			pause_.store(pause / 2, std::memory_order_relaxed);
	}
	void found_none() noexcept
	{
		const u32 pause = pause_.load(std::memory_order_relaxed);

		left_.store(pause, std::memory_order_relaxed);
		pause_.store(std::min(2 * pause, pause_max), std::memory_order_relaxed);
		pays_.store(false, std::memory_order_relaxed);
	}

private:
	/* Hints: of two threads that poll at a time, the words of one may be lost. */
	std::atomic<bool> pays_{false};
	std::atomic<u32> left_{0}; /* completions until the next wait */
	std::atomic<u32> pause_{1}; /* their number after the next wait in vain */
};

} // namespace sirdma::twin
