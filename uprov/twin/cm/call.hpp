/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Functions that handlers of commands share. */
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cm/agent.hpp"

namespace sirdma::twin::cm
{

/* The command at @in. Older libraries leave out its end, which is zero then. */
template <typename Command> Command parse(const uint8_t *in, size_t len) noexcept
{
	Command command{};

	memcpy(static_cast<void *>(&command), in, std::min(len, sizeof(command)));
	return command;
}

inline int respond(u64 to, const void *from, size_t len) noexcept
{
	if (!to)
		return EFAULT;
	memcpy(reinterpret_cast<void *>(to), from, len);
	return 0;
}

} // namespace sirdma::twin::cm
