/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device's one-sided access (one_sided.hpp): when it pays, and what peers may access. */
#include "nic.hpp"
#include "ticks.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * A thread that posts within this time after its last request, us, does nothing else: a post takes 0.1 to
 * 0.2 us, and a peer that answers by an access takes longer.
 */
constexpr u64 stream_us = 1;

thread_local bool may_access = false; /* by MayAccess */

} // namespace

bool Nic::MayAccess::begin() noexcept
{
	may_access = true;
	return true;
}

void Nic::MayAccess::end() noexcept
{
	may_access = false;
}

/*
 * A copy by the kernel takes as long as a dozen packets of a stream. So the requests of a thread that posts
 * without end are sent: it has neither polled nor computed for a moment since its last copy by the kernel.
 */
bool Nic::kernel_pays() const noexcept
{
	return waited_.load(std::memory_order_relaxed) ||
	       ticks() - accessed_at_.load(std::memory_order_relaxed) >= stream_us * ticks_per_us();
}

snic_one_sided_status Nic::one_sided_nowait(const snic_one_sided &request) noexcept
{
	if (!table_ || !may_access)
		return SNIC_ONE_SIDED_REFUSED;
	switch (neighbours_->execute_mapped(request)) {
	case OneSidedWay::mapping:
		/* The peer is at work, and may answer in this process's memory, where polls find nothing. */
		helper_.note_busy();
		return SNIC_ONE_SIDED_EXECUTED;
	case OneSidedWay::must_map:
		return SNIC_ONE_SIDED_WOULD_BLOCK;
	case OneSidedWay::kernel:
		return kernel_pays() ? SNIC_ONE_SIDED_WOULD_BLOCK : SNIC_ONE_SIDED_REFUSED;
	case OneSidedWay::packets:
		break;
	}
	return SNIC_ONE_SIDED_REFUSED;
}

bool Nic::one_sided(const snic_one_sided &request) noexcept
{
	OneSidedWay way;

	/* In a call the process counts as polling, and its helper does less. This one may wait. */
	helper_.leave_call();
	way = neighbours_->execute(request);
	if (way == OneSidedWay::packets)
		return false;
	/* The peer may answer in this process's memory, where polls find nothing. */
	helper_.note_busy();
	if (way == OneSidedWay::kernel) {
		waited_.store(false, std::memory_order_relaxed);
		accessed_at_.store(ticks(), std::memory_order_relaxed);
	}
	return true;
}

bool Nic::can_be_accessed() const noexcept
{
	return table_ != nullptr;
}

void Nic::open_region(const AccessTable::Region &region) noexcept
{
	if (table_)
		table_->open_region(region);
}

void Nic::close_region(u32 stag) noexcept
{
	bool mappable = false;

	if (!table_ || !table_->close_region(stag, mappable))
		return;
	neighbours_->finish_accesses();
	if (mappable)
		neighbours_->ask_to_unmap();
}

void Nic::open_qp(u32 qpn, u32 pd, u32 rights) noexcept
{
	if (table_)
		table_->open_qp(qpn, pd, rights);
}

void Nic::close_qp(u32 qpn) noexcept
{
	if (table_ && table_->close_qp(qpn))
		neighbours_->finish_accesses();
}

/* Accesses that have begun are executed before the failure. */
void Nic::qp_failed(u32 qpn) noexcept
{
	if (table_)
		table_->fail_qp(qpn);
}

} // namespace sirdma::twin
