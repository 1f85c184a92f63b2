/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "process_memory.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The C library's clone(), past the wrapper of ThreadSanitizer: the child must not run its runtime. */
extern "C" int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

namespace sirdma::twin
{

namespace
{

/* May the same access succeed later? */
int error_of(int err) noexcept
{
	return err == ENOMEM || err == EAGAIN || err == EINTR ? -EAGAIN : -EFAULT;
}

using Copy = ssize_t (*)(pid_t, const iovec *, unsigned long, const iovec *, unsigned long,
			 unsigned long);

/*
 * The process is named by the calling thread, which has the memory. The main thread may have ended, and
 * has none then.
 */
int copy_all(Copy copy, u64 addr, uint8_t *buffer, size_t len) noexcept
{
	const auto self = static_cast<pid_t>(syscall(SYS_gettid));

	while (len) {
		const iovec local = {.iov_base = buffer, .iov_len = len};
		const iovec remote = {.iov_base = reinterpret_cast<void *>(addr), .iov_len = len};
		const ssize_t n = copy(self, &local, 1, &remote, 1, 0);

		/* A part is copied up to the first missing page. The next call tells why. */
		if (n <= 0)
			return n ? error_of(errno) : -EFAULT;
		buffer += n;
		addr += static_cast<u64>(n);
		len -= static_cast<size_t>(n);
	}
	return 0;
}

/* Atomics in a child */

struct AtomicJob {
	u64 *at;
	port_atomic op;
	u64 operand, compare;
	u64 before;
	bool done; /* the child did not die of a signal before */
};

/*
 * The child shares the thread's own data with its parent, which waits. So it runs no code of a
 * sanitizer, and calls nothing of the C library but syscall().
 */
#define IN_CHILD __attribute__((noinline, no_sanitize("address", "thread", "undefined")))

#ifdef __x86_64__
IN_CHILD u64 execute(u64 *at, port_atomic op, u64 operand, u64 compare) noexcept
{
	u64 before = operand;

	switch (op) {
	case PORT_ATOMIC_ADD:
		asm volatile("lock xaddq %0, %1" : "+r"(before), "+m"(*at) : : "memory", "cc");
		break;
	case PORT_ATOMIC_SWAP_IF:
		before = compare;
		asm volatile("lock cmpxchgq %2, %1"
			     : "+a"(before), "+m"(*at)
			     : "r"(operand)
			     : "memory", "cc");
		break;
	case PORT_ATOMIC_STORE:
		asm volatile("xchgq %0, %1" : "+r"(before), "+m"(*at) : : "memory");
		break;
	}
	return before;
}
#else
IN_CHILD u64 execute(u64 *at, port_atomic op, u64 operand, u64 compare) noexcept
{
	switch (op) {
	case PORT_ATOMIC_ADD:
		return __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);
	case PORT_ATOMIC_SWAP_IF:
		__atomic_compare_exchange_n(at, &compare, operand, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		return compare;
	default:
		return __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST);
	}
}
#endif

/* The kernel's structure, whose sets of signals have 64 bits. */
struct KernelSigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)();
	uint64_t mask;
};
constexpr unsigned long has_restorer = 0x04000000; /* x86-64 raises no signal without */

constexpr uint64_t bit_of(int signal) noexcept
{
	return 1ull << (signal - 1);
}

IN_CHILD void end_child(int) noexcept
{
	for (;;)
		syscall(SYS_exit, 1);
}

IN_CHILD void not_reached() noexcept
{
	end_child(0);
}

/*
 * All signals are blocked. A signal of an access that fails must find a handler: without one the kernel
 * would dump the memory and end all that share it.
 */
IN_CHILD int run_child(void *arg) noexcept
{
	const KernelSigaction action = {
		.handler = end_child,
		.flags = has_restorer,
		.restorer = not_reached,
		.mask = ~uint64_t{0},
	};
	const uint64_t faults = bit_of(SIGSEGV) | bit_of(SIGBUS);
	auto *job = static_cast<AtomicJob *>(arg);

	if (syscall(SYS_rt_sigaction, SIGSEGV, &action, nullptr, sizeof(action.mask)) ||
	    syscall(SYS_rt_sigaction, SIGBUS, &action, nullptr, sizeof(action.mask)) ||
	    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &faults, nullptr, sizeof(faults)))
		return 1;
	job->before = execute(job->at, job->op, job->operand, job->compare);
	job->done = true;
	syscall(SYS_exit, 0);
	return 0;
}

/*
 * The child ends without a signal to its parent, and no wait() of the application finds it without
 * __WALL. It shares the table of files, which else would be copied, and each file be flushed at its end.
 */
constexpr int child_flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | CLONE_SYSVSEM;

/* Returns 0 or the errno of clone(). The child has ended when this returns. */
int run_in_child(AtomicJob &job, uint8_t *stack_end) noexcept
{
	const uint64_t all = ~uint64_t{0};
	uint64_t before;

	/* No handler of the application runs in the child, and none here before the child has ended. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));

	const int child = __clone(run_child, stack_end, child_flags, &job);
	const int err = child > 0 ? 0 : errno;

	if (child > 0)
		while (syscall(SYS_wait4, child, nullptr, __WALL, nullptr) < 0 && errno == EINTR)
			;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
	return err;
}

/* Valgrind runs vfork(), and ends programs that call clone() like this. */
bool is_under_valgrind() noexcept
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "/vgpreload_");
}

} // namespace

const port_dma_access ProcessMemory::checked = {
	.read = read,
	.write = write,
	.atomic = atomic,
};

ProcessMemory::ProcessMemory() noexcept : port_dma{.ptr = pointer, .access = &checked} {}

void *ProcessMemory::pointer(port_dma *, u64 addr, u32)
{
	return reinterpret_cast<void *>(addr);
}

int ProcessMemory::read(port_dma *, u64 addr, void *to, u32 len)
{
	return copy_all(process_vm_readv, addr, static_cast<uint8_t *>(to), len);
}

int ProcessMemory::write(port_dma *, u64 addr, const void *from, u32 len)
{
	return copy_all(process_vm_writev, addr, static_cast<uint8_t *>(const_cast<void *>(from)),
			len);
}

int ProcessMemory::atomic(port_dma *dma, u64 addr, port_atomic op, u64 operand, u64 compare,
			  u64 *before)
{
	ProcessMemory &self = of(dma);
	AtomicJob job = {.at = reinterpret_cast<u64 *>(addr),
			 .op = op,
			 .operand = operand,
			 .compare = compare,
			 .before = 0,
			 .done = false};
	std::lock_guard hold(self.lock_);
	const int err = run_in_child(job, self.stack_.data() + self.stack_.size());

	/* A sandbox that came later forbids clone() for good: EPERM or ENOSYS. */
	if (err)
		return error_of(err);
	*before = job.before;
	return job.done ? 0 : -EFAULT;
}

bool ProcessMemory::is_readable(u64 addr) noexcept
{
	uint8_t byte;

	return !copy_all(process_vm_readv, addr, &byte, sizeof(byte));
}

/* Returns 0; -EAGAIN if there is no process to be had at the moment; or -EFAULT. */
int ProcessMemory::try_out(void *missing) noexcept
{
	const u64 absent = reinterpret_cast<uintptr_t>(missing), two = 2;
	u64 word = 1, got = 0;
	const u64 addr = reinterpret_cast<uintptr_t>(&word);
	int err;

	if (write(this, addr, &two, sizeof(two)) || read(this, addr, &got, sizeof(got)) ||
	    got != 2 || read(this, absent, &got, sizeof(got)) != -EFAULT)
		return -EFAULT;
	err = atomic(this, addr, PORT_ATOMIC_ADD, 1, 0, &got);
	if (err)
		return err;
	if (got != 2 || word != 3)
		return -EFAULT;
	err = atomic(this, absent, PORT_ATOMIC_ADD, 1, 0, &got);
	return err == -EFAULT ? 0 : err ? err : -EFAULT;
}

int ProcessMemory::probe() noexcept
{
	constexpr size_t length = 4096;
	const auto memory = std::unique_ptr<ProcessMemory>(new (std::nothrow) ProcessMemory);
	void *const missing = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (missing == MAP_FAILED)
		return -EAGAIN;
	const int err = is_under_valgrind() ? -EFAULT : memory ? memory->try_out(missing) : -EAGAIN;

	munmap(missing, length);
	return err;
}

/*
 * No lock is held while the system calls are tried out: a process that forks meanwhile would keep it. Two
 * threads may try them out at once.
 */
bool ProcessMemory::may_fault() noexcept
{
	enum : int { unknown, yes, no };
	static constinit std::atomic<int> answer = unknown;

	if (answer.load(std::memory_order_relaxed) == unknown) {
		const int err = probe();

		if (err == -EAGAIN)
			return false;
		answer.store(err ? no : yes, std::memory_order_relaxed);
	}
	return answer.load(std::memory_order_relaxed) == yes;
}

} // namespace sirdma::twin
