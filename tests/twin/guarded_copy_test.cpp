/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is guarded by a word: a system call, moves and atomics, whose process is stopped at any instruction. */
#include <csignal>
#include <cstring>
#include <numeric>
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

/* Memory of the test and of the child that writes to it. */
struct Both {
	std::atomic<uint64_t> word{0}; /* odd: closed */
	std::atomic<uint64_t> done{0}; /* copies of the child */
	std::atomic<uint64_t> turns{0};
	alignas(64) uint64_t target[8] = {}; /* as many as are written at once */
};

enum class Way { by_the_kernel, by_stores, by_atomics };

/* Write the number @n to the target if the word is as @expected. Only the last element changes by an atomic. */
bool write_number(Way way, Both &both, const Fd &memory, uint64_t n, uint64_t expected)
{
	uint64_t numbers[sizeof(both.target) / sizeof(uint64_t)];
	auto *const at = reinterpret_cast<uint8_t *>(both.target);

	std::fill(std::begin(numbers), std::end(numbers), n);
	switch (way) {
	case Way::by_the_kernel:
		return guarded_copy(true, memory.get(), numbers, sizeof(numbers),
				    reinterpret_cast<uintptr_t>(at), both.word,
				    expected) == sizeof(numbers);
	case Way::by_stores:
		return guarded_move(true, at, numbers, sizeof(numbers), both.word, expected);
	default:
		return guarded_fetch_add(at + sizeof(numbers) - sizeof(uint64_t), 1, numbers[0],
					 both.word, expected);
	}
}

uint64_t last_number(const Both &both)
{
	return *static_cast<const volatile uint64_t *>(std::end(both.target) - 1);
}

/* A process that a debugger stops before each guarded copy. */
[[noreturn]] void copy_and_stop(Way way, Both &both, pid_t parent)
{
	const Fd memory = open_memory_of(parent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!memory || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
		_exit(1);
	for (uint64_t n = 1;; ++n) {
		const uint64_t expected = both.word.load();

		raise(SIGSTOP);
		(void)write_number(way, both, memory, n, expected);
	}
}

[[noreturn]] void keep_writing(Way way, Both &both, pid_t parent)
{
	const Fd memory = open_memory_of(parent);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!memory)
		_exit(1);
	for (uint64_t n = 1;; ++n) {
		const uint64_t word = both.word.load();

		++both.turns;
		if (word % 2 == 0 && write_number(way, both, memory, n, word))
			++both.done;
	}
}

class GuardedWays : public GuardedCopies, public ::testing::WithParamInterface<Way> {};

std::string name_of(const ::testing::TestParamInfo<Way> &info)
{
	constexpr const char *names[] = {"ByTheKernel", "ByStores", "ByAtomics"};

	return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, GuardedWays,
			 ::testing::Values(Way::by_the_kernel, Way::by_stores, Way::by_atomics),
			 name_of);

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

/* All lengths and alignments: what lies around the bytes stays. */
TEST_F(GuardedCopies, MovesAllLengths)
{
	alignas(64) uint8_t memory[160], data[160], expected[160];
	const std::atomic<uint64_t> word{7};

	for (size_t i = 0; i < sizeof(data); ++i)
		data[i] = static_cast<uint8_t>(i + 1);
	for (const bool is_write : {true, false})
		for (size_t at = 16; at < 25; ++at)
			for (size_t len = 1; len < 100; ++len) {
				uint8_t *const to = is_write ? memory : data;
				uint8_t *const from = is_write ? data : memory;

				std::iota(std::begin(memory), std::end(memory), uint8_t{100});
				std::iota(std::begin(data), std::end(data), uint8_t{1});
				memcpy(expected, to, sizeof(expected));
				memcpy(expected + (is_write ? at : 3), from + (is_write ? 3 : at),
				       len);
				EXPECT_FALSE(guarded_move(is_write, memory + at, data + 3, len,
							  word, 8));
				ASSERT_TRUE(guarded_move(is_write, memory + at, data + 3, len, word,
							 7));
				ASSERT_EQ(memcmp(to, expected, sizeof(expected)), 0)
					<< len << " bytes at " << at;
			}
}

TEST_F(GuardedCopies, ExecutesAtomicsOnlyIfTheWordIsAsExpected)
{
	const std::atomic<uint64_t> word{7};
	volatile uint64_t value = 10;
	auto *const at = const_cast<uint8_t *>(reinterpret_cast<volatile uint8_t *>(&value));
	uint64_t before = 0;

	EXPECT_FALSE(guarded_fetch_add(at, 5, before, word, 8));
	EXPECT_FALSE(guarded_cmp_swap(at, 10, 5, before, word, 8));
	EXPECT_EQ(value, 10u);
	EXPECT_TRUE(guarded_fetch_add(at, 5, before, word, 7));
	EXPECT_EQ(before, 10u);
	EXPECT_EQ(value, 15u);
	EXPECT_TRUE(guarded_cmp_swap(at, 14, 3, before, word, 7));
	EXPECT_EQ(before, 15u);
	EXPECT_EQ(value, 15u);
	EXPECT_TRUE(guarded_cmp_swap(at, 15, 3, before, word, 7));
	EXPECT_EQ(before, 15u);
	EXPECT_EQ(value, 3u);
}

/*
 * A debugger stops the process after each of the instructions in turn, and the word changes there:
 * nothing is written after that. Where it changes before the comparison or after the system call nothing
 * would be written anyway; the others are why the call is guarded.
 */
TEST_P(GuardedWays, IsNotFinishedFromAnyOfItsInstructions)
{
	constexpr int instructions = 500; /* more than there are from raise() to the end */
	const WithChildren<Both> common;
	Both &both = *common;
	int status, copied = 0;
	const pid_t parent = getpid(), child = fork();

	ASSERT_GE(child, 0);
	if (!child)
		copy_and_stop(GetParam(), both, parent);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status))
		GTEST_SKIP() << "no process may open the memory of its parent, or be debugged";
	for (int n = 0; n < instructions; ++n) {
		const uint64_t before = last_number(both);

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
		copied += last_number(both) != before;

		const uint64_t then = last_number(both);

		++both.word;
		ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, nullptr), 0);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		EXPECT_EQ(last_number(both), then) << "stopped after " << n << " instructions";
	}
	/* Without a debugger in between it does copy. */
	const uint64_t before = last_number(both);

	ASSERT_EQ(ptrace(PTRACE_CONT, child, nullptr, nullptr), 0);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_NE(last_number(both), before);
	EXPECT_EQ(copied, 0) << "each step ends the sequence";
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

/*
 * A process is stopped at any moment, the word changes meanwhile, and the process goes on: nothing is
 * written, because what it had compared before was the former word.
 */
TEST_P(GuardedWays, IsNotFinishedByAProcessThatWasStopped)
{
	constexpr int rounds = 400;
	const WithChildren<Both> common;
	Both &both = *common;
	std::mt19937 random(3);

	const pid_t parent = getpid(), child = fork();

	ASSERT_GE(child, 0);
	if (!child)
		keep_writing(GetParam(), both, parent);
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

		const uint64_t then = last_number(both), turns = both.turns.load();

		ASSERT_EQ(kill(child, SIGCONT), 0);
		while (both.turns.load() < turns + 3)
			sched_yield();
		ASSERT_EQ(last_number(both), then) << "round " << round;
		++both.word;
	}
	EXPECT_FALSE(is_stopped(child));
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, nullptr, 0), child);
	EXPECT_TRUE(is_stopped(child)) << "a process that has ended";
}

} // namespace sirdma::twin::test
