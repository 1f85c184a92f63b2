/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions. */
#include <cerrno>
#include <sys/mman.h>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

namespace
{

constexpr uint64_t page_mask = SIRDMA_PAGE_SIZE - 1;

/* This exists since Linux 5.14. The answer is determined once. */
bool can_populate() noexcept
{
	static const bool can = [] {
		alignas(page_mask + 1) static uint8_t page[page_mask + 1];

		return !madvise(page, sizeof(page), MADV_POPULATE_READ);
	}();

	return can;
}

/*
 * Fault in the memory that the device will touch, as pinning would: an address that is not mapped,
 * or not mapped for writing, fails now and not in the middle of a transfer.
 */
int populate(const sirdma_region &region) noexcept
{
	const uintptr_t start = region.start & ~page_mask;
	const uintptr_t end = (region.start + region.length + page_mask) & ~page_mask;
	const int how = region.access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE :
								 MADV_POPULATE_READ;

	if (!can_populate() || !madvise(reinterpret_cast<void *>(start), end - start, how))
		return 0;
	/* The memory is not mapped (ENOMEM), has not these rights, or is no memory (EINVAL). */
	return errno == ENOMEM || errno == EINVAL ? EFAULT : errno;
}

static_assert(SIRDMA_REREG_TRANSLATION == IBV_REREG_MR_CHANGE_TRANSLATION &&
	      SIRDMA_REREG_PD == IBV_REREG_MR_CHANGE_PD &&
	      SIRDMA_REREG_ACCESS == IBV_REREG_MR_CHANGE_ACCESS);

} // namespace

/* Register @mr as @stag, or replace the region that has this stag. Returns 0 or -errno. */
int Driver::put_mr(uint32_t stag, const DriverMr &mr, bool replace) noexcept
{
	sirdma_cqp_reg_mr_params params{};

	params.stag = stag;
	params.pd = mr.pd;
	params.va = mr.region.iova;
	params.len = mr.region.length;
	params.access = sirdma_region_rights(mr.region.access);
	params.zero_based = mr.region.access & SIRDMA_VERBS_ZERO_BASED;
	/* Process memory is contiguous in a DMA space of process addresses: no list is needed. */
	params.block_shift = 12;
	params.addr = mr.region.start & ~page_mask;
	params.replace = replace;
	return sirdma_cqp_reg_mr(&hw_, &params);
}

int Driver::reg_mr(uint32_t pd, const sirdma_region &region, uint32_t &stag)
{
	Settle settle(nic_);
	const char *why = nullptr;

	if (const int err = sirdma_region_check(&region, &why)) {
		port_warn("reg_mr: %s", why);
		return -err;
	}
	if (const int err = populate(region))
		return err;
	return add_mr({.pd = pd, .dm = 0, .region = region, .changing = false}, stag);
}

/* Register @mr, whose memory is there. The caller has counted it as a user of its device memory. */
int Driver::add_mr(const DriverMr &mr, uint32_t &stag)
{
	if (const int err = sirdma_stag_alloc(&hw_, &stag))
		return -err;
	if (const int err = put_mr(stag, mr, false)) {
		sirdma_stag_free(&hw_, stag);
		return -err;
	}
	{
		std::lock_guard hold(objects_lock_);

		if (insert(mrs_, stag, mr)) {
			++pds_[mr.pd].users;
			return 0;
		}
	}
	if (!sirdma_cqp_dealloc_stag(&hw_, stag))
		sirdma_stag_free(&hw_, stag);
	return ENOMEM;
}

/*
 * The region as it is, for a thread that will change it. As in the kernel, only one thread does at
 * a time. The caller calls release_mr(), or removes the region.
 */
int Driver::claim_mr(uint32_t stag, DriverMr &mr) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = mrs_.find(stag);

	if (it == mrs_.end())
		return ENOENT;
	if (it->second.changing)
		return EBUSY;
	mr = it->second;
	it->second.changing = true;
	return 0;
}

/* The caller has counted @mr as a user of its domain; @former has lost this user. */
void Driver::release_mr(uint32_t stag, const DriverMr &mr, uint32_t former) noexcept
{
	std::lock_guard hold(objects_lock_);

	mrs_.at(stag) = mr;
	--pds_.at(former).users;
}

int Driver::use_pd(uint32_t pd) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = pds_.find(pd);

	if (it == pds_.end())
		return ENOENT;
	++it->second.users;
	return 0;
}

/* Change @mr and the device's region. Returns 0 or an errno; on an error neither has changed. */
int Driver::change_mr(uint32_t stag, const MrChange &change, DriverMr &mr) noexcept
{
	const char *why = nullptr;
	DriverMr next = mr;

	if (const int err = sirdma_region_change(&next.region, change.flags, &change.to, &why)) {
		port_warn("rereg_mr: %s", why);
		return -err;
	}
	if (change.flags & SIRDMA_REREG_PD)
		next.pd = change.pd;
	if (change.flags & (SIRDMA_REREG_TRANSLATION | SIRDMA_REREG_ACCESS))
		if (const int err = populate(next.region))
			return err;
	/* When the device has answered, no data path uses the former memory. */
	if (const int err = put_mr(stag, next, true))
		return -err;
	mr = next;
	return 0;
}

int Driver::rereg_mr(uint32_t stag, const MrChange &change) noexcept
{
	Settle settle(nic_);
	DriverMr mr;

	if (const int err = claim_mr(stag, mr))
		return err;

	const uint32_t before = mr.pd;
	const uint32_t after = change.flags & SIRDMA_REREG_PD ? change.pd : before;
	int err = use_pd(after);

	if (err) {
		std::lock_guard hold(objects_lock_);

		mrs_.at(stag).changing = false;
		return err;
	}
	err = change_mr(stag, change, mr);
	release_mr(stag, mr, err ? after : before);
	return err;
}

int Driver::dereg_mr(uint32_t stag) noexcept
{
	Settle settle(nic_);
	DriverMr mr;

	if (const int err = claim_mr(stag, mr))
		return err;
	/* The device invalidates the region first: afterwards no data path uses it. */
	const int err = sirdma_cqp_dealloc_stag(&hw_, stag);
	{
		std::lock_guard hold(objects_lock_);

		if (err) {
			mrs_.at(stag).changing = false;
			return -err;
		}
		mrs_.erase(stag);
		--pds_.at(mr.pd).users;
		if (mr.dm)
			--dms_.at(mr.dm).users;
	}
	sirdma_stag_free(&hw_, stag);
	return 0;
}

} // namespace sirdma::twin
