/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When a process spins on its memory, ibv_poll_cq() waits for the peer's answer. Such a process posts a request, polls
 * for its completion, and then reads the word that the answer, a WRITE, changes. It makes no call meanwhile, so the
 * helper would have to be woken for each answer. But the answer often comes a few microseconds after the completion. So
 * the poll that returns the completion receives until the answer has come. While such waits find answers, the helper is
 * away.
 *
 * After a wait in vain the helper watches again, and the next polls return their completions at once. After a pause
 * another poll waits. Polls of extended CQs (ibv_start_poll()) do not wait. Atomics do not count as answers.
 */
#pragma once

#include <algorithm>

#include "core.hpp"

namespace sirdma::twin
{

class AnswerWait {
public:
	/*
	 * The longest waits, us, within a factor of two (ticks_per_us()). limit_us: while waits find answers. Over shared
	 * memory an answer comes 0.5 us after the completion, over UDP 5 us, and 15 us later if the peer's helper just checks
	 * whether the peer still polls: of 10,000 round trips of ib_write_lat 30 waits of 20 us were in vain, and of 40 us one. attempt_us: otherwise.
	 * The peer's answer then takes 8 to 40 us, because the peer's helper must be woken. No thread yields meanwhile: with
	 * sched_yield() after 64 polls 700 waits were in vain.
	 */
	static constexpr u64 limit_us = 40, attempt_us = 100;
	/*
	 * The longest pause: polls that return completions of requests at once after a wait in vain. The pause is one poll
	 * after the first wait in vain. Each wait in vain doubles it; each wait that finds an answer halves it, except the
	 * first one after a wait in vain.
	 */
	static constexpr u32 pause_max = 1024;

	/* Did the last wait find an answer? */
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
	void note_answer() noexcept
	{
		const u32 pause = pause_.load(std::memory_order_relaxed);

		if (!pays()) [[unlikely]]
			pays_.store(true, std::memory_order_relaxed);
		else if (pause > 1) [[unlikely]]
			pause_.store(pause / 2, std::memory_order_relaxed);
	}
	void note_no_answer() noexcept
	{
		const u32 pause = pause_.load(std::memory_order_relaxed);

		left_.store(pause, std::memory_order_relaxed);
		pause_.store(std::min(2 * pause, pause_max), std::memory_order_relaxed);
		pays_.store(false, std::memory_order_relaxed);
	}

private:
	/* Hints: of two threads that poll at a time, the updates of one may be lost. */
	std::atomic<bool> pays_{false};
	std::atomic<u32> left_{0}; /* polls until the next wait */
	std::atomic<u32> pause_{1}; /* polls without a wait after the next wait in vain */
};

} // namespace sirdma::twin
