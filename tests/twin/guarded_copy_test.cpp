/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The system call that is guarded by a word, whose process is stopped at any instruction. */
#include <csignal>
#include <random>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "neighbour_wait.hpp"
#include "peer_memory.hpp"

namespace sirdma::twin::test
{

namespace
{

/* A process that a debugger stops before each guarded copy. */
[[noreturn]] void copy_and_stop(std::atomic<uint64_t> &word, pid_t parent, uint64_t at)
{
	const Fd memory = open_memory_of(parent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!memory || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
		_exit(1);
	for (uint64_t n = 1;; ++n) {
		const uint64_t expected = word.load();

		raise(SIGSTOP);
		(void)guarded_copy(true, memory.get(), &n, sizeof(n), at, word, expected);
	}
}

/* Memory of the test and of the child that writes to the test's memory. */
struct Both {
	std::atomic<uint64_t> word{0}; /* odd: closed */
	std::atomic<uint64_t> done{0}; /* copies of the child */
	std::atomic<uint64_t> turns{0};
};

[[noreturn]] void keep_writing(Both &both, pid_t parent, uint64_t at)
{
	const Fd memory = open_memory_of(parent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!memory)
		_exit(1);
	for (uint64_t n = 1;; ++n) {
		const uint64_t word = both.word.load();

		++both.turns;
		if (word % 2 == 0 && guarded_copy(true, memory.get(), &n, sizeof(n), at, both.word,
						  word) == sizeof(n))
			++both.done;
	}
}

} // namespace

TEST_F(GuardedCopies, CopiesOnlyIfTheWordIsAsExpected)
{
	const Fd memory = open_memory_of(getpid());
	std::atomic<uint64_t> word{7};
	uint64_t to = 1, from = 2;
	const auto at = reinterpret_cast<uintptr_t>(&to);

	ASSERT_TRUE(memory);
	EXPECT_EQ(guarded_copy(true, memory.get(), &from, sizeof(from), at, word, 8), -1);
	EXPECT_EQ(*static_cast<volatile uint64_t *>(&to), 1u);
	EXPECT_EQ(guarded_copy(true, memory.get(), &from, sizeof(from), at, word, 7), 8);
	EXPECT_EQ(*static_cast<volatile uint64_t *>(&to), 2u);
	to = 3;
	EXPECT_EQ(guarded_copy(false, memory.get(), &from, sizeof(from), at, word, 7), 8);
	EXPECT_EQ(*static_cast<volatile uint64_t *>(&from), 3u);
	EXPECT_EQ(guarded_copy(false, memory.get(), &from, sizeof(from), 8, word, 7), -1) << "no "
											     "memor"
											     "y";
}

/*
 * A debugger stops the process after each of the instructions in turn, and the word changes there:
 * nothing is written after that. Where it changes before the comparison or after the system call nothing
 * would be written anyway; the others are why the call is guarded.
 */
TEST_F(GuardedCopies, IsNotFinishedFromAnyOfItsInstructions)
{
	constexpr int instructions = 300; /* more than there are from raise() to the end */
	const WithChildren<std::atomic<uint64_t>> common;
	std::atomic<uint64_t> &word = *common;
	volatile uint64_t target = 0;
	int status, copied = 0;
	const pid_t parent = getpid(), child = fork();

	ASSERT_GE(child, 0);
	if (!child)
		copy_and_stop(word, parent, reinterpret_cast<uintptr_t>(&target));
	ASSERT_EQ(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status))
		GTEST_SKIP() << "no process may open the memory of its parent, or be debugged";
	for (int n = 0; n < instructions; ++n) {
		const uint64_t before = target;

		for (int i = 0; i < n; ++i) {
			ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
			ASSERT_EQ(waitpid(child, &status, 0), child);
			ASSERT_TRUE(WIFSTOPPED(status));
			/* The child has come to its next raise(). */
			if (WSTOPSIG(status) == SIGSTOP)
				break;
		}
		if (n && WSTOPSIG(status) == SIGSTOP)
			break;
		copied += target != before;

		const uint64_t then = target;

		++word;
		ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, nullptr), 0);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		EXPECT_EQ(target, then) << "stopped after " << n << " instructions";
	}
	/* Without a debugger in between it does copy. */
	const uint64_t before = target;

	ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, nullptr), 0);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_NE(target, before);
	EXPECT_EQ(copied, 0) << "each step ends the sequence";
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

/*
 * A process is stopped at any moment, the word changes meanwhile, and the process goes on: nothing is
 * written, because what it had compared before was the former word.
 */
TEST_F(GuardedCopies, IsNotFinishedByAProcessThatWasStopped)
{
	constexpr int rounds = 400;
	const WithChildren<Both> common;
	Both &both = *common;
	volatile uint64_t target = 0;
	std::mt19937 random(3);

	const pid_t parent = getpid(), child = fork();

	ASSERT_GE(child, 0);
	if (!child)
		keep_writing(both, parent, reinterpret_cast<uintptr_t>(&target));
	for (int round = 0; round < rounds; ++round) {
		const uint64_t before = both.done.load();
		int status;

		while (both.done.load() == before) {
			if (waitpid(child, &status, WNOHANG) == child)
				GTEST_SKIP() << "no process may open the memory of its parent";
			sched_yield();
		}
		usleep(random() % 50);
		ASSERT_EQ(kill(child, SIGSTOP), 0);
		ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
		ASSERT_TRUE(is_stopped(child));
		++both.word;

		const uint64_t then = target, turns = both.turns.load();

		ASSERT_EQ(kill(child, SIGCONT), 0);
		while (both.turns.load() < turns + 3)
			sched_yield();
		ASSERT_EQ(target, then) << "round " << round;
		++both.word;
	}
	EXPECT_FALSE(is_stopped(child));
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, nullptr, 0), child);
	EXPECT_TRUE(is_stopped(child)) << "a process that has ended";
}

} // namespace sirdma::twin::test
