/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Protection domains, and thread domains, whose queues need no locks.
 */
#pragma once

#include <atomic>
#include <cstdint>

#include "ibverbs_private.hpp"

namespace sirdma
{

/* The application promises to use the objects created with it from one thread at a time. */
struct Td {
	ibv_td base{};
	std::atomic<uint32_t> users{0};

	static Td &of(ibv_td *td) noexcept { return *reinterpret_cast<Td *>(td); }
};

/*
 * A protection domain, or a parent domain. A parent domain has the kernel handle of the
 * protection domain it contains, and optionally a thread domain.
 */
struct Pd {
	ibv_pd base{};
	uint32_t pd_id = 0;
	Pd *contained = nullptr;
	Td *td = nullptr;
	std::atomic<uint32_t> users{0}; /* parent domains over this one */

	static Pd &of(ibv_pd *pd) noexcept { return *reinterpret_cast<Pd *>(pd); }

	/* Whether queues created under it need their locks. */
	bool locked() const noexcept { return !td; }

	/* The protection domain itself. */
	const Pd &domain() const noexcept { return contained ? *contained : *this; }
};

static_assert(offsetof(Pd, base) == 0 && offsetof(Td, base) == 0);

} // namespace sirdma
