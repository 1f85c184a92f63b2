/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The processor's counter of time: reading it takes a few ns, where the system's clock takes 20 to 50. */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

/* The counters of two processors may differ a little. */
inline u64 ticks() noexcept
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	u64 count;

	asm volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return port_now_ns(nullptr);
#endif
}

/* So many ticks make a microsecond, within a factor of two: those of x86-64 run at 2 to 5 GHz. */
inline u64 ticks_per_us() noexcept
{
#if defined(__x86_64__)
	return 3000;
#elif defined(__aarch64__)
	u64 hz;

	asm("mrs %0, cntfrq_el0" : "=r"(hz));
	return hz < 1000000 ? 1 : hz / 1000000;
#else
	return 1000;
#endif
}

} // namespace sirdma::twin
