/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* struct port_lock for std::lock_guard. */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

class ShortLock {
public:
	ShortLock() noexcept { port_lock_init(&lock_); }
	ShortLock(const ShortLock &) = delete;
	ShortLock &operator=(const ShortLock &) = delete;

	void lock() noexcept { port_lock(&lock_); }
	bool try_lock() noexcept { return port_trylock(&lock_); }
	void unlock() noexcept { port_unlock(&lock_); }

private:
	struct port_lock lock_;
};

} // namespace sirdma::twin
