/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles.
 */
#pragma once

#include <cstdint>

#include "domain_name.hpp"
#include "ibverbs_private.hpp"

namespace sirdma
{

struct Ah {
	ibv_ah base{};
	DomainName domain;
	uint32_t index = 0; /* index of the address vector */

	static Ah &of(ibv_ah *ah) noexcept { return *reinterpret_cast<Ah *>(ah); }
};

static_assert(offsetof(Ah, base) == 0);

} // namespace sirdma
