// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fork.hpp"

#include <atomic>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace sirdma
{

namespace
{

/* The kernel clears it in a child. Null if it cannot (before Linux 4.14), or if there was no memory. */
std::atomic<unsigned> *number;
/* The number that was given last. A child begins with that of its parent. */
std::atomic<unsigned> last;

/*
 * Do this at load time: if a thread did this at first use, a fork meanwhile would leave the child
 * waiting for that thread.
 */
__attribute__((constructor)) void map_number() noexcept
{
	const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	void *page =
		mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	if (!madvise(page, size, MADV_WIPEONFORK))
		number = new (page) std::atomic<unsigned>;
	else
		munmap(page, size);
}

} // namespace

unsigned process_number() noexcept
{
	if (!number)
		return static_cast<unsigned>(getpid());

	unsigned n = number->load(std::memory_order_relaxed);

	if (!n) {
		/* It is raised before anybody sees the number: so a child that inherits that gets a greater one. */
		const unsigned next = last.fetch_add(1) + 1;

		if (number->compare_exchange_strong(n, next))
			n = next;
	}
	return n;
}

} // namespace sirdma
