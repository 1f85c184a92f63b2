/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "guarded_copy.hpp"

#include <cerrno>
#include <sys/syscall.h>
#include <sys/uio.h>

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define SIRDMA_HAS_SEQUENCES true
#else
#define SIRDMA_HAS_SEQUENCES false
#endif

namespace sirdma::twin
{

#if SIRDMA_HAS_SEQUENCES

namespace
{

/* A thread that is interrupted so often in a row is not likely to get through. */
constexpr int tries = 4;

static_assert(RSEQ_SIG == 0x53053053, "the number before the label 4 below");

char *area_of_thread() noexcept
{
	char *self;

	asm("movq %%fs:0, %0" : "=r"(self));
	return self + __rseq_offset;
}

/*
 * From label 1 to label 2 the kernel continues at label 4 whenever the thread was interrupted. The
 * system call is the last instruction: its return address is label 2, where the sequence is over.
 * Returns what the system call does, or -EAGAIN if there was none.
 */
long call_if_equal(long number, int file, void *data, size_t len, uint64_t at,
		   const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	auto &section =
		*reinterpret_cast<uint64_t *>(area_of_thread() + offsetof(struct rseq, rseq_cs));
	register uint64_t offset asm("r10") = at;
	register uint64_t upper_offset asm("r8") = 0; /* of pwritev() */

	asm volatile(
		".pushsection __rseq_cs, \"aw\"\n"
		".balign 32\n"
		"3:\n"
		".long 0, 0\n"
		".quad 1f, 2f - 1f, 4f\n"
		".popsection\n"
		"leaq 3b(%%rip), %%rcx\n"
		"movq %%rcx, %[section]\n"
		"1:\n"
		"cmpq %[expected], %[word]\n"
		"jne 4f\n"
		"syscall\n"
		"2:\n"
		/* The library may be unloaded, and the kernel must not look for the sequence. */
		"movq $0, %[section]\n"
		".pushsection __rseq_failure, \"ax\"\n"
		".byte 0x0f, 0xb9, 0x3d\n" /* an invalid instruction with the number as operand */
		".long 0x53053053\n"
		"4:\n"
		"movq %[again], %%rax\n"
		"jmp 2b\n"
		".popsection\n"
		: "+a"(number), [section] "+m"(section)
		: "D"(static_cast<long>(file)), "S"(data), "d"(len), "r"(offset),
		  "r"(upper_offset), [word] "m"(word), [expected] "r"(expected), [again] "i"(-EAGAIN)
		: "rcx", "r11", "memory", "cc");
	return number;
}

/*
 * A sequence that ends with its last instruction. The kernel continues at label 4 if the thread was
 * interrupted before that was executed; @ok is 0 then. A page fault alone does not interrupt it.
 */
#define GUARDED(INSTRUCTIONS) \
	".pushsection __rseq_cs, \"aw\"\n" \
	".balign 32\n" \
	"3:\n" \
	".long 0, 0\n" \
	".quad 1f, 2f - 1f, 4f\n" \
	".popsection\n" \
	"leaq 3b(%%rip), %[ok]\n" \
	"movq %[ok], %[section]\n" \
	"1:\n" \
	"cmpq %[expected], %[word]\n" \
	"jne 4f\n" INSTRUCTIONS "2:\n" \
	"movq $0, %[section]\n" \
	".pushsection __rseq_failure, \"ax\"\n" \
	".byte 0x0f, 0xb9, 0x3d\n" \
	".long 0x53053053\n" \
	"4:\n" \
	"xorl %k[ok], %k[ok]\n" \
	"jmp 2b\n" \
	".popsection\n"

/* Move @first bytes, and then as many as @MOVE does at once. The address in @ok is not 0 if it succeeds. */
#define MOVE_LAST(M, S) "5:\n" M " (%%rsi), %" S "[last]\n" M " %" S "[last], (%%rdi)\n"
#define MOVE_IF_EQUAL(MOVE, SIZE) \
	asm volatile(GUARDED("jrcxz 5f\n" \
			     "rep movsb\n" MOVE_LAST(MOVE, SIZE)) \
		     : [ok] "=&r"(ok), [section] "+m"(section), [last] "=&q"(last), "+&D"(to), \
		       "+&S"(from), "+&c"(first) \
		     : [word] "m"(word), [expected] "r"(expected) \
		     : "memory", "cc")

/* The sequence of this thread. */
uint64_t &section_of_thread() noexcept
{
	return *reinterpret_cast<uint64_t *>(area_of_thread() + offsetof(struct rseq, rseq_cs));
}

/* @size: 1, 2, 4 or 8 */
bool move_if_equal(void *to, const void *from, size_t first, size_t size,
		   const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	uint64_t &section = section_of_thread();
	uint64_t ok, last;

	switch (size) {
	case 8:
		MOVE_IF_EQUAL("movq", "q");
		break;
	case 4:
		MOVE_IF_EQUAL("movl", "k");
		break;
	case 2:
		MOVE_IF_EQUAL("movw", "w");
		break;
	default:
		MOVE_IF_EQUAL("movb", "b");
	}
	return ok;
}

/* The largest store that is aligned and ends at @end, of @len bytes at most. */
size_t last_store(uintptr_t end, size_t len) noexcept
{
	size_t size = sizeof(uint64_t);

	while (size > len || end % size)
		size /= 2;
	return size;
}

/* Try until @sequence was not interrupted, or @word has changed. */
template <typename Sequence>
bool try_sequence(const std::atomic<uint64_t> &word, uint64_t expected, Sequence sequence) noexcept
{
	for (int i = 0; i < tries; ++i) {
		if (sequence())
			return true;
		if (word.load(std::memory_order_relaxed) != expected)
			break;
	}
	return false;
}

} // namespace

bool guarded_move(bool is_write, uint8_t *at, void *data, size_t len,
		  const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	const size_t size = last_store(reinterpret_cast<uintptr_t>(at) + len, len);
	void *const to = is_write ? at : data;
	const void *const from = is_write ? data : at;

	return try_sequence(word, expected, [&] {
		return move_if_equal(to, from, len - size, size, word, expected);
	});
}

bool guarded_fetch_add(uint8_t *at, uint64_t add, uint64_t &before,
		       const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	uint64_t &section = section_of_thread();
	auto &value = *reinterpret_cast<uint64_t *>(at);

	return try_sequence(word, expected, [&] {
		uint64_t ok;

		before = add;
		asm volatile(GUARDED("lock xaddq %[before], %[value]\n")
			     : [ok] "=&r"(ok), [section] "+m"(section), [before] "+&r"(before),
			       [value] "+m"(value)
			     : [word] "m"(word), [expected] "r"(expected)
			     : "memory", "cc");
		return ok != 0;
	});
}

bool guarded_cmp_swap(uint8_t *at, uint64_t compare, uint64_t swap, uint64_t &before,
		      const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	uint64_t &section = section_of_thread();
	auto &value = *reinterpret_cast<uint64_t *>(at);

	return try_sequence(word, expected, [&] {
		uint64_t ok;

		before = compare;
		asm volatile(GUARDED("lock cmpxchgq %[swap], %[value]\n")
			     : [ok] "=&r"(ok), [section] "+m"(section),
			       "+&a"(before), [value] "+m"(value)
			     : [word] "m"(word), [expected] "r"(expected), [swap] "r"(swap)
			     : "memory", "cc");
		return ok != 0;
	});
}

bool can_guard_copies() noexcept
{
	int cpu;

	if (!__rseq_size)
		return false;
	/* The kernel writes the number of the processor for each thread that is registered. */
	cpu = __atomic_load_n(
		reinterpret_cast<int *>(area_of_thread() + offsetof(struct rseq, cpu_id)),
		__ATOMIC_RELAXED);
	return cpu >= 0;
}

ssize_t guarded_copy(bool is_write, int memory, void *data, size_t len, uint64_t at,
		     const std::atomic<uint64_t> &word, uint64_t expected) noexcept
{
	auto *const bytes = static_cast<uint8_t *>(data);
	const uint64_t last_word = (at + len - 1) & ~uint64_t{7};
	const size_t first = last_word > at ? last_word - at : 0;
	/* The kernel copies them one after the other. */
	iovec parts[] = {{bytes, first}, {bytes + first, len - first}};
	long number = is_write ? SYS_pwrite64 : SYS_pread64;
	long got = -EAGAIN;

	if (is_write && first) {
		number = SYS_pwritev;
		data = parts;
		len = std::size(parts);
	}
	for (int i = 0; i < tries && got == -EAGAIN; ++i) {
		if (word.load(std::memory_order_relaxed) != expected)
			return -1;
		got = call_if_equal(number, memory, data, len, at, word, expected);
	}
	return got < 0 ? -1 : got;
}

#else

bool can_guard_copies() noexcept
{
	return false;
}

ssize_t guarded_copy(bool, int, void *, size_t, uint64_t, const std::atomic<uint64_t> &,
		     uint64_t) noexcept
{
	return -1;
}

bool guarded_move(bool, uint8_t *, void *, size_t, const std::atomic<uint64_t> &, uint64_t) noexcept
{
	return false;
}

bool guarded_fetch_add(uint8_t *, uint64_t, uint64_t &, const std::atomic<uint64_t> &,
		       uint64_t) noexcept
{
	return false;
}

bool guarded_cmp_swap(uint8_t *, uint64_t, uint64_t, uint64_t &, const std::atomic<uint64_t> &,
		      uint64_t) noexcept
{
	return false;
}

#endif

} // namespace sirdma::twin
