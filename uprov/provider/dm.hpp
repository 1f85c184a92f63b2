/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory: mapped into the process, which copies to and from it by ordinary instructions.
 */
#pragma once

#include "commands.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

struct Dm {
	ibv_dm base{};
	PageBuffer mapping; /* empty if the memory is the driver's, in this process */
	uint8_t *memory = nullptr;
	size_t length = 0; /* bytes that the application asked for */

	static Dm &of(ibv_dm *dm) noexcept { return *reinterpret_cast<Dm *>(dm); }
};

static_assert(offsetof(Dm, base) == 0);

/*
 * Copies are made of words of this size, at multiples of it, as on other devices: other copies and
 * atomic operations of peers find a word whole, before or after.
 */
inline constexpr size_t dm_word = 4;

} // namespace sirdma
