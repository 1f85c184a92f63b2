/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Protection domains, and thread domains, whose queues need no locks.
 */
#pragma once

#include <atomic>
#include <cstdint>

#include "domain_name.hpp"
#include "ibverbs_private.hpp"

namespace sirdma
{

/* The application promises to use the objects created with it from one thread at a time. */
struct Td {
	ibv_td base{};
	std::atomic<uint32_t> users{0};

	static Td &of(ibv_td *td) noexcept { return *reinterpret_cast<Td *>(td); }
};

/* What an allocator of the application is to give memory for: its argument resource_type. */
enum class RingKind : uint64_t { cq = 1, qp = 2, srq = 3 };

/* The application's functions for the memory of rings, from ibv_alloc_parent_domain(). */
struct RingAllocator {
	decltype(ibv_parent_domain_init_attr::alloc) alloc = nullptr; /* null: there are none */
	decltype(ibv_parent_domain_init_attr::free) free = nullptr;
	void *context = nullptr;
};

/*
 * A protection domain, or a parent domain. A parent domain has the kernel handle of the
 * protection domain it contains, and optionally a thread domain and allocators.
 */
struct Pd {
	ibv_pd base{};
	uint32_t pd_id = 0;
	Pd *contained = nullptr;
	Td *td = nullptr;
	RingAllocator rings;
	/*
	 * The number of parent domains over this one, of buffers that its allocator gave, and of
	 * CQs that will ask it for their next ring.
	 */
	std::atomic<uint32_t> users{0};
	/*
	 * A bit of users: the application has unimported the domain. Then the object is freed with
	 * the last parent domain over it.
	 */
	static constexpr uint32_t unimported = 1u << 31;

	static Pd &of(ibv_pd *pd) noexcept { return *reinterpret_cast<Pd *>(pd); }

	/* Do queues that are created under the domain need their locks? */
	bool locked() const noexcept { return !td; }

	DomainName name() const noexcept { return {base.context->device, pd_id}; }
};

static_assert(offsetof(Pd, base) == 0 && offsetof(Td, base) == 0);

} // namespace sirdma
