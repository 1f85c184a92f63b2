/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

/*
 * Tell ThreadSanitizer that a message is received after the sender's earlier writes. It does not
 * know this for sockets, nor for memory that is mapped twice.
 */
inline void order_by_wire() noexcept
{
#ifdef PORT_TSAN
	static std::atomic<u32> wire;

	wire.fetch_add(1);
#endif
}

} // namespace sirdma::twin
