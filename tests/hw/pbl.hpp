// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page lists, entry by entry.
#pragma once

#include "c_api.hpp"

extern "C" {
#include "hw/hw.h"
}

namespace sirdma::test
{

// Writes entry @i; nothing where there is none.
inline void pbl_write(sirdma_hw &hw, const sirdma_pbl &pbl, u32 i, u64 addr)
{
	u32 n;

	if (__le64 *entry = sirdma_pbl_entries(&hw, &pbl, i, &n))
		WRITE_ONCE(*entry, cpu_to_le64(addr));
}

} // namespace sirdma::test
