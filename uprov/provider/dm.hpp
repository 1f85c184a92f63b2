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
 * A copy consists of words of this size, as on other devices. A word is read or written at once, so
 * that a concurrent copy or atomic operation sees all of it or nothing.
 */
inline constexpr size_t dm_word = 4;

} // namespace sirdma
