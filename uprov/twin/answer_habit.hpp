/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does the program answer the messages that its polls return? As long as it posts a send request soon after each such
 * poll, what the message left to do, such as its acknowledgement, waits for that post: the peer waits for the answer.
 * Otherwise the poll does it before it returns, because the program may compute for a long time, or the process may end.
 *
 * When the program stops answering, one acknowledgement is late: until the program polls again and finds no completion,
 * until exit(), or until the helper finds that the process does not poll, after two of its checks (2 ms, more on a busy
 * machine). If the process is killed before, or calls _exit() or execve(), the request of its peer fails with
 * IBV_WC_RETRY_EXC_ERR, although the message was received.
 */
#pragma once

#include <atomic>

#include "ticks.hpp"

namespace sirdma::twin
{

/* Threads that post read it, so it has a cache line of its own. */
class alignas(64) AnswerHabit {
public:
	/*
	 * A later post is no answer: the acknowledgement could have left meanwhile. A datagram takes 3 us to send; between
	 * the poll and the post of ib_send_lat pass 0.3 us. Not tuned.
	 */
	static constexpr u64 soon_us = 5;

	/* A poll returns a message that left something to do. Returns true if that may wait for the next call. */
	bool note_message(u64 now) noexcept
	{
		/* If the last message was not answered, this poll does the work of both. */
		note_no_post();
		returned_at_.store(now, std::memory_order_relaxed);
		return answers_.load(std::memory_order_relaxed);
	}
	/* The program posts a send request. */
	void note_post() noexcept
	{
		const u64 returned_at = returned_at_.load(std::memory_order_relaxed);

		if (returned_at)
			note_next(ticks() - returned_at <= soon_us * ticks_per_us());
	}
	/* The program polls and finds no completion, or the helper works. */
	void note_no_post() noexcept
	{
		if (returned_at_.load(std::memory_order_relaxed))
			note_next(false);
	}

private:
	void note_next(bool answer) noexcept
	{
		returned_at_.store(0, std::memory_order_relaxed);
		if (answers_.load(std::memory_order_relaxed) != answer)
			answers_.store(answer, std::memory_order_relaxed);
	}

	/* These are hints: if two threads change them at a time, one of the changes may be lost. */
	std::atomic<u64> returned_at_{
		0}; /* when a poll returned such a message, ticks(); 0: a post or poll followed */
	std::atomic<bool> answers_{false}; /* the last such message was answered soon */
};

} // namespace sirdma::twin
