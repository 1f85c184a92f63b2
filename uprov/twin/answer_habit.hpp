/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does the program answer the messages that its polls return? While the next call after such a poll is a post, the work
 * that the message left, such as its acknowledgement, waits for that post: the answer, for which the peer waits, leaves
 * first or carries the acknowledgement. Otherwise the poll does that work before it returns, because the process may end, or
 * compute for a long time.
 *
 * When the program stops answering, one acknowledgement is late: until its next call, or until the helper looks after it
 * (1 ms), or until exit(). If the process is killed before, or calls _exit(), its peer repeats the message in vain.
 */
#pragma once

#include <atomic>

namespace sirdma::twin
{

class AnswerHabit {
public:
	/* A poll is about to return a message. Returns true if the work may wait for the next call. */
	bool note_message() noexcept
	{
		returned_.store(true, std::memory_order_relaxed);
		return answers_.load(std::memory_order_relaxed);
	}
	/* The program posts. */
	void note_post() noexcept { note_next(true); }
	/* The program polls again, and there is no completion, or the helper has to do its work. */
	void note_no_post() noexcept { note_next(false); }

private:
	void note_next(bool post) noexcept
	{
		if (!returned_.load(std::memory_order_relaxed))
			return;
		returned_.store(false, std::memory_order_relaxed);
		if (answers_.load(std::memory_order_relaxed) != post)
			answers_.store(post, std::memory_order_relaxed);
	}

	/* Hints: of two threads at a time, the updates of one may be lost. */
	std::atomic<bool> returned_{
		false}; /* a poll has returned a message, and no call came since */
	std::atomic<bool> answers_{false}; /* the call after the last message was a post */
};

} // namespace sirdma::twin
