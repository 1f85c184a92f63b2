/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "access_table.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sys/stat.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace sirdma::twin
{

namespace
{

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
/* With these, whoever has the file can only read it. */
constexpr int all_seals = size_seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr u32 remote_rights = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			      SIRDMA_ACCESS_REMOTE_ATOMIC;

AccessMap *map_table(int file, int protection) noexcept
{
	void *const at = mmap(nullptr, sizeof(AccessMap), protection, MAP_SHARED, file, 0);

	if (at == MAP_FAILED)
		return nullptr;
	/* A forked child uses no device of its parent. */
	if (madvise(at, sizeof(AccessMap), MADV_DONTFORK)) {
		munmap(at, sizeof(AccessMap));
		return nullptr;
	}
	return static_cast<AccessMap *>(at);
}

} // namespace

/* The time makes numbers larger than those of any earlier table. */
AccessTable::AccessTable(Fd file, AccessMap *map, u32 first_qpn) noexcept
	: file_(std::move(file)), map_(map), first_qpn_(first_qpn),
	  word_(port_now_ns(nullptr) | 1ull << 63), number_(port_now_ns(nullptr))
{
	map_->header.word_at = reinterpret_cast<uintptr_t>(&word_);
	map_->header.word = word_;
}

AccessTable::~AccessTable()
{
	munmap(map_, sizeof(AccessMap));
}

std::unique_ptr<AccessTable> AccessTable::create(u32 first_qpn) noexcept
{
	Fd file(memfd_create("sirdma-access", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (!file || ftruncate(file.get(), sizeof(AccessMap)))
		return nullptr;

	AccessMap *const map = map_table(file.get(), PROT_READ | PROT_WRITE);

	if (!map)
		return nullptr;
	if (fcntl(file.get(), F_ADD_SEALS, all_seals)) {
		munmap(map, sizeof(AccessMap));
		return nullptr;
	}

	std::unique_ptr<AccessTable> self(new (std::nothrow)
						  AccessTable(std::move(file), map, first_qpn));

	if (!self)
		munmap(map, sizeof(AccessMap));
	return self;
}

AccessRegion &AccessTable::region(u32 stag) noexcept
{
	return map_->regions[access_place(stag)];
}

/* Null: the queue pair has no entry, as that of management datagrams. */
AccessQp *AccessTable::qp(u32 qpn) noexcept
{
	return qpn - first_qpn_ < qpns_per_slot ? &map_->qps[qpn - first_qpn_] : nullptr;
}

void AccessTable::open_region(const Region &region) noexcept
{
	AccessRegion &entry = this->region(region.stag);

	if (!(region.rights & remote_rights))
		return;
	std::lock_guard hold(regions_lock_);

	if (entry.number.load(std::memory_order_relaxed))
		return;
	smp_wmb(); /* a reader that sees the new contents sees the number 0 after them */
	entry.base.store(region.base, std::memory_order_relaxed);
	entry.length.store(region.length, std::memory_order_relaxed);
	entry.start.store(region.start, std::memory_order_relaxed);
	entry.stag.store(region.stag, std::memory_order_relaxed);
	entry.pd.store(region.pd, std::memory_order_relaxed);
	entry.rights.store(region.rights, std::memory_order_relaxed);
	entry.file.store(region.file.fd, std::memory_order_relaxed);
	entry.file_offset.store(region.file.offset, std::memory_order_relaxed);
	entry.file_device.store(region.file.device, std::memory_order_relaxed);
	entry.file_inode.store(region.file.inode, std::memory_order_relaxed);
	entry.number.store(next_number(), std::memory_order_release);
	if (region.file.fd >= 0)
		map_->header.any_mappable.store(1, std::memory_order_relaxed);
}

bool AccessTable::close_region(u32 stag, bool &mappable) noexcept
{
	AccessRegion &entry = region(stag);
	std::lock_guard hold(regions_lock_);

	if (!entry.number.load(std::memory_order_relaxed) ||
	    entry.stag.load(std::memory_order_relaxed) != stag)
		return false;
	mappable = entry.file.load(std::memory_order_relaxed) >= 0;
	entry.number.store(0);
	return true;
}

void AccessTable::open_qp(u32 qpn, u32 pd, u32 rights) noexcept
{
	AccessQp *const entry = qp(qpn);

	if (!entry)
		return;
	smp_wmb(); /* as in open_region() */
	entry->pd.store(pd, std::memory_order_relaxed);
	entry->rights.store(rights, std::memory_order_relaxed);
	entry->number.store(next_number());
	/* Partner: fail_qp(). At least one of the two sees the other's store. */
	if (failed_[qpn - first_qpn_].load())
		entry->number.store(0);
}

bool AccessTable::close_qp(u32 qpn) noexcept
{
	AccessQp *const entry = qp(qpn);

	if (!entry)
		return false;
	/* Neighbours may still be in accesses that began before the queue pair failed. */
	const bool failed = failed_[qpn - first_qpn_].exchange(false);

	return entry->number.exchange(0) || failed;
}

void AccessTable::fail_qp(u32 qpn) noexcept
{
	AccessQp *const entry = qp(qpn);

	if (!entry)
		return;
	failed_[qpn - first_qpn_].store(true);
	entry->number.store(0);
}

AccessView::~AccessView()
{
	if (map_)
		munmap(const_cast<AccessMap *>(map_), sizeof(AccessMap));
}

bool AccessView::map(int file) noexcept
{
	const int seals = fcntl(file, F_GET_SEALS);
	struct stat st;

	/* Else the file could become shorter, and reading raise a signal. */
	if (map_ || seals < 0 || (seals & size_seals) != size_seals || fstat(file, &st) ||
	    st.st_size != sizeof(AccessMap))
		return false;
	map_ = map_table(file, PROT_READ);
	return map_;
}

bool AccessView::check(const Request &request, Found &found) const noexcept
{
	constexpr auto relaxed = std::memory_order_relaxed;
	const AccessRegion &region = map_->regions[access_place(request.rkey)];
	const AccessQp &qp = this->qp(request.qpn);
	const uint64_t qp_number = qp.number.load(std::memory_order_acquire);
	const uint64_t region_number = region.number.load(std::memory_order_acquire);
	const u32 pd = qp.pd.load(relaxed), rights = region.rights.load(relaxed);

	if (!qp_number || !region_number)
		return false;
	if (!(qp.rights.load(relaxed) & rights & request.right) || region.pd.load(relaxed) != pd ||
	    region.stag.load(relaxed) != request.rkey)
		return false;

	const uint64_t offset = request.va - region.base.load(relaxed);
	const uint64_t length = region.length.load(relaxed);
	const uint64_t start = region.start.load(relaxed);

	/* The length is compared first, so that an address below the base, which gives a large offset, fails. */
	if (offset >= length || request.len > length - offset ||
	    request.va + request.len - 1 < request.va)
		return false;
	/* Addresses of a process are positive, and file offsets must be. The table may say anything. */
	if (start > INT64_MAX || offset > INT64_MAX - start ||
	    request.len > INT64_MAX - start - offset)
		return false;
	found.at = start + offset;
	found.qp_number = qp_number;
	found.number = region_number;
	found.stag = request.rkey;
	found.rights = rights;
	found.offset = offset;
	found.length = length;
	found.file = {.fd = region.file.load(relaxed), .offset = 0, .device = 0, .inode = 0};
	smp_rmb(); /* partner: the barriers of open_region() and open_qp() */
	return qp.number.load(relaxed) == qp_number && region.number.load(relaxed) == region_number;
}

bool AccessView::read_file(Found &found) const noexcept
{
	constexpr auto relaxed = std::memory_order_relaxed;
	const AccessRegion &region = map_->regions[access_place(found.stag)];

	found.file.offset = region.file_offset.load(relaxed);
	found.file.device = region.file_device.load(relaxed);
	found.file.inode = region.file_inode.load(relaxed);
	smp_rmb(); /* partner: the barrier of open_region() */
	return region.number.load(relaxed) == found.number;
}

} // namespace sirdma::twin
