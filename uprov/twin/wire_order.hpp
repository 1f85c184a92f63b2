/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

/*
 * What a thread wrote is seen by who received what it sent afterwards. Thread
 * sanitizer does not know that of sockets, nor of memory mapped twice.
 */
inline void order_by_wire() noexcept
{
#ifdef PORT_TSAN
	static std::atomic<u32> wire;

	wire.fetch_add(1);
#endif
}

} // namespace sirdma::twin
