/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstdint>
#include <ctime>

namespace sirdma
{

inline constexpr uint64_t ns_per_second = 1000000000;

/* The time of a clock of the kernel, in ns. */
inline uint64_t clock_ns(clockid_t clock) noexcept
{
	timespec now{};

	clock_gettime(clock, &now);
	return static_cast<uint64_t>(now.tv_sec) * ns_per_second +
	       static_cast<uint64_t>(now.tv_nsec);
}

} // namespace sirdma
