/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include "adapter.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

/*
 * Guard for a call into the driver: runs Adapter::settle() before it, and again after it, when
 * the driver's locks are free. The call is no cancellation point.
 */
class Settle {
public:
	explicit Settle(Adapter &nic) noexcept : nic_(nic) { nic_.settle(); }
	~Settle()
	{
		nic_.settle();
		nic_.timers_armed();
	}
	Settle(const Settle &) = delete;
	Settle &operator=(const Settle &) = delete;

private:
	const NoCancel no_cancel_;
	Adapter &nic_;
};

} // namespace sirdma::twin
