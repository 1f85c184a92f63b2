/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include "core.hpp"

namespace sirdma::twin
{

/* While a guard exists, connections and mappings that were found are not freed. */
class RcuGuard {
public:
	RcuGuard() noexcept { port_rcu_read_lock(); }
	~RcuGuard() { port_rcu_read_unlock(); }
	RcuGuard(const RcuGuard &) = delete;
	RcuGuard &operator=(const RcuGuard &) = delete;
};

} // namespace sirdma::twin
