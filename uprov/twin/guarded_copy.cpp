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

} // namespace

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

#endif

} // namespace sirdma::twin
