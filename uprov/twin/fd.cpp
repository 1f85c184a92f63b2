/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fd.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <dlfcn.h>
#include <unistd.h>

#include "core.hpp"
#include "shim.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * One bit for each descriptor. Descriptors from this number on are not closed in child
 * processes.
 */
constexpr unsigned fds_max = 1 << 20;
constexpr unsigned word_bits = 64;

std::atomic<uint64_t> open_fds[fds_max / word_bits];
std::atomic<unsigned> words_used;

void close_in_child() noexcept
{
	for (unsigned i = 0; i < words_used; ++i)
		for (uint64_t bits = open_fds[i].exchange(0); bits; bits &= bits - 1)
			close(static_cast<int>(i * word_bits) + std::countr_zero(bits));
}

unsigned next_file(unsigned fd) noexcept
{
	for (unsigned i = fd / word_bits; i < words_used; ++i) {
		uint64_t bits = open_fds[i];

		if (i == fd / word_bits)
			bits &= ~0ull << fd % word_bits;
		if (bits)
			return i * word_bits + static_cast<unsigned>(std::countr_zero(bits));
	}
	return ~0u;
}

/*
 * Do this at load time: if a thread did this at first use, a fork meanwhile would leave the child
 * waiting for that thread.
 */
__attribute__((constructor)) void hook_fork() noexcept
{
	port_on_fork(close_in_child);
}

/* Without a shim that intercepts close(), no file is guarded. */
void guard_once() noexcept
{
	using Guard = decltype(&sirdma_guard_files);
	static std::atomic<bool> begun{false};

	if (begun.load(std::memory_order_relaxed) || begun.exchange(true))
		return;
	if (auto guard = reinterpret_cast<Guard>(dlsym(RTLD_DEFAULT, SIRDMA_GUARD_FILES)))
		guard(next_file);
}

} // namespace

void Fd::note(int fd, bool open) noexcept
{
	const unsigned number = static_cast<unsigned>(fd), word = number / word_bits;
	const uint64_t bit = 1ull << number % word_bits;

	/* In a child, close the parent's files before the first one of the child is recorded. */
	(void)port_process();
	guard_once();
	if (fd < 0 || number >= fds_max)
		return;
	if (!open) {
		open_fds[word].fetch_and(~bit);
		return;
	}
	open_fds[word].fetch_or(bit);
	for (unsigned used = words_used; used <= word;)
		if (words_used.compare_exchange_weak(used, word + 1))
			break;
}

int Fd::release() noexcept
{
	note(fd_, false);
	return std::exchange(fd_, -1);
}

void Fd::reset() noexcept
{
	const int saved = errno;

	if (fd_ < 0)
		return;
	note(fd_, false);
	close(std::exchange(fd_, -1));
	errno = saved;
}

} // namespace sirdma::twin
