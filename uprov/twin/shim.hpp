/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the parts of the shim share, and the twin's way to it: see entry.hpp. */
#pragma once

#include "entry.hpp"

/* The first descriptor from @fd on that is the device's; ~0 when there is none. Any thread. */
using sirdma_next_file = unsigned (*)(unsigned fd);

#define SIRDMA_GUARD_FILES "sirdma_guard_files"

/* The twin tells the shim by this what the program may not close. */
extern "C" void sirdma_guard_files(sirdma_next_file next);

namespace sirdma::twin
{

/* Null when there is none. */
const sirdma_twin_ops *shim_twin() noexcept;
/* The library finds devices itself, in a tree of sysfs the launcher made for it or the system's. */
bool shim_in_sysfs() noexcept;

} // namespace sirdma::twin
