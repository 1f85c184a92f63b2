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

/* Follow advice: fault in the memory of @part. Without MADV_POPULATE_* it is read only. */
int prefetch(const sirdma_region &part) noexcept
{
	const uint64_t end = part.start + part.length;

	if (can_populate())
		return populate(part);
	for (uint64_t at = part.start; at < end; at = (at | page_mask) + 1)
		if (!ProcessMemory::is_readable(at))
			return EFAULT;
	return 0;
}

/* Check a region that is registered on demand. Returns 0, or -errno with *why set. */
int check_on_demand(const sirdma_region &region, const char **why) noexcept
{
	sirdma_region rest = region;

	rest.access &= ~SIRDMA_VERBS_ON_DEMAND;
	if (!ProcessMemory::may_fault()) {
		*why = "this system does not let the device copy memory on demand";
		return -EOPNOTSUPP;
	}
	if (!is_implicit(region)) {
		rest.access &= ~SIRDMA_VERBS_HUGETLB;
		return sirdma_region_check(&rest, why);
	}
	*why = "a region of all addresses begins at address 0 and iova 0";
	return rest.iova ? -EINVAL : sirdma_region_access_check(rest.access, why);
}

int check_region(const sirdma_region &region, const char **why) noexcept
{
	return is_on_demand(region) ? check_on_demand(region, why) :
				      sirdma_region_check(&region, why);
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
	params.access = sirdma_region_rights(mr.region.access);
	/* Process memory is contiguous in a DMA space of process addresses: no list is needed. */
	params.block_shift = 12;
	params.may_fault = is_on_demand(mr.region);
	params.replace = replace;
	if (is_implicit(mr.region)) {
		params.all_memory = true;
	} else {
		params.va = mr.region.iova;
		params.len = mr.region.length;
		params.zero_based = mr.region.access & SIRDMA_VERBS_ZERO_BASED;
		params.addr = mr.region.start & ~page_mask;
	}
	return sirdma_cqp_reg_mr(&hw_, &params);
}

/* The file from which peers can map the region's memory, if they may access it. */
SharedFile Driver::file_of(const sirdma_region &region) noexcept
{
	constexpr u32 remote = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			       SIRDMA_ACCESS_REMOTE_ATOMIC;

	if (!nic_.can_be_accessed() || is_on_demand(region) ||
	    !(sirdma_region_rights(region.access) & remote))
		return {};
	return shared_file_of(region.start, region.length);
}

/*
 * Peers may access the region without the device, unless its memory comes on demand. They could write to
 * memory that is mapped for reading, so it must be known that this one is not.
 */
void Driver::open_region(uint32_t stag, const DriverMr &mr) noexcept
{
	const sirdma_region &region = mr.region;
	const u32 rights = sirdma_region_rights(region.access);

	if (!is_on_demand(region))
		nic_.open_region({.stag = stag,
				  .pd = mr.pd,
				  .rights = can_populate() ?
						    rights :
						    rights & ~(SIRDMA_ACCESS_REMOTE_WRITE |
							       SIRDMA_ACCESS_REMOTE_ATOMIC),
				  .base = region.access & SIRDMA_VERBS_ZERO_BASED ? 0 : region.iova,
				  .length = region.length,
				  .start = region.start,
				  .file = mr.file});
}

int Driver::reg_mr(uint32_t pd, const sirdma_region &region, uint32_t &stag)
{
	Settle settle(nic_);
	const char *why = nullptr;

	if (const int err = check_region(region, &why)) {
		port_warn("reg_mr: %s", why);
		return -err;
	}
	if (!is_on_demand(region))
		if (const int err = populate(region))
			return err;
	return add_mr({.pd = pd, .dm = 0, .region = region, .file = {}, .changing = false}, stag);
}

/* Register @mr, whose memory is there. The caller has counted it as a user of its device memory. */
int Driver::add_mr(DriverMr mr, uint32_t &stag)
{
	mr.file = file_of(mr.region);
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
			open_region(stag, mr);
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

	if (is_on_demand(mr.region)) {
		port_warn("rereg_mr: the memory of the region comes on demand");
		return EOPNOTSUPP;
	}
	if (const int err = sirdma_region_change(&next.region, change.flags, &change.to, &why)) {
		port_warn("rereg_mr: %s", why);
		return -err;
	}
	if (change.flags & SIRDMA_REREG_PD)
		next.pd = change.pd;
	if (change.flags & (SIRDMA_REREG_TRANSLATION | SIRDMA_REREG_ACCESS))
		if (const int err = populate(next.region))
			return err;
	next.file = file_of(next.region);
	/* When the device has answered, no data path uses the former memory. */
	nic_.close_region(stag);

	const int err = put_mr(stag, next, true);

	if (!err)
		mr = next;
	open_region(stag, mr);
	return -err;
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
	nic_.close_region(stag);
	/* The device invalidates the region first: afterwards no data path uses it. */
	const int err = sirdma_cqp_dealloc_stag(&hw_, stag);
	{
		std::lock_guard hold(objects_lock_);

		if (err) {
			mrs_.at(stag).changing = false;
			open_region(stag, mr);
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

/* Advice */

namespace
{

constexpr auto prefetch_no_fault = static_cast<ibv_advise_mr_advice>(2);

/* As the kernel, which takes the memory for one that the device writes to. */
bool is_writable(const sirdma_region &region) noexcept
{
	return region.access & (SIRDMA_VERBS_LOCAL_WRITE | SIRDMA_VERBS_REMOTE_WRITE |
				SIRDMA_VERBS_REMOTE_ATOMIC | SIRDMA_VERBS_MW_BIND);
}

/* The part of @region that @sge names. Returns false if not all of it is there. */
bool part_of(const sirdma_region &region, const ibv_sge &sge, sirdma_region &part) noexcept
{
	const uint64_t base = region.access & SIRDMA_VERBS_ZERO_BASED ? 0 : region.iova;
	const uint64_t offset = sge.addr - base;

	if (offset >= region.length || sge.length > region.length - offset)
		return false;
	part = region;
	part.start += offset;
	part.length = sge.length;
	return true;
}

} // namespace

/* Check advice on @sge, which is followed for @part. Returns 0 or an errno. */
int Driver::advised(uint32_t pd, ibv_advise_mr_advice advice, const ibv_sge &sge,
		    sirdma_region &part) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = mrs_.find(sge.lkey);

	if (it == mrs_.end() || !is_on_demand(it->second.region))
		return ENOENT;
	part.length = 0;
	if (!sge.length)
		return 0;
	if (it->second.pd != pd ||
	    (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !is_writable(it->second.region)))
		return EPERM;
	if (!part_of(it->second.region, sge, part))
		return EFAULT;
	part.access = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0;
	return 0;
}

int Driver::advise_mr(uint32_t pd, ibv_advise_mr_advice advice, bool flush,
		      std::span<const ibv_sge> sges) noexcept
{
	sirdma_region part{};

	if (advice > prefetch_no_fault)
		return EOPNOTSUPP;
	/* Nothing is fetched if a part of the advice is wrong. */
	for (const ibv_sge &sge : sges)
		if (const int err = advised(pd, advice, sge, part))
			return err;
	/* The device keeps no list of the pages that are there, so this advice tells it nothing. */
	if (advice == prefetch_no_fault)
		return 0;
	for (const ibv_sge &sge : sges) {
		if (const int err = advised(pd, advice, sge, part))
			return err;
		/* The region may end meanwhile. The pages are the application's anyway. */
		const int err = part.length ? prefetch(part) : 0;

		/* Without the flag the call need not wait for the pages, and reports nothing of them. */
		if (err && flush)
			return err;
	}
	return 0;
}

} // namespace sirdma::twin
