/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the functions that take the place of libibverbs' own stand before. */
#pragma once

#include "entry.hpp"

namespace sirdma::twin
{

/* Null when there is none. */
const sirdma_twin_ops *shim_twin() noexcept;
/* The library finds devices itself, in a tree of sysfs the launcher made for it or the system's. */
bool shim_in_sysfs() noexcept;

} // namespace sirdma::twin
