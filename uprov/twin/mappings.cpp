/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "mappings.hpp"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "no_cancel.hpp"

extern "C" {
#include "model/mr.h"
}

/* The C library may be older than these. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace sirdma::twin
{

namespace
{

constexpr u32 changes_memory = SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC;

/*
 * Without overcommit (vm.overcommit_memory 2) a page that the owner of the file has removed may not be had
 * again although memory is free, which ends in SIGBUS.
 */
bool overcommits() noexcept
{
	const Fd file(open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
	char mode = '2';

	return file && read(file.get(), &mode, 1) == 1 && mode != '2';
}

} // namespace

Mappings::Pages::~Pages()
{
	if (at_)
		munmap(at_, bytes_);
}

void Mappings::attach(pid_t pid) noexcept
{
	pid_ = pid;
	slots_.reset(new (std::nothrow) Slots);
	if (!slots_ || !overcommits())
		return;
	process_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

/* The file is readable when the process has ended. */
bool Mappings::is_alive() const noexcept
{
	pollfd end = {.fd = process_.get(), .events = POLLIN, .revents = 0};

	return process_ && !raw_syscall::poll(&end, 1, {});
}

Mappings::Slot *Mappings::find(const AccessView::Found &region) noexcept
{
	const size_t first = (region.stag >> SNIC_STAG_KEY_BITS) * ways % count_max;

	if (!slots_)
		return nullptr;
	for (size_t i = first; i < first + ways; ++i)
		if ((*slots_)[i].number.load(std::memory_order_acquire) == region.number)
			return &(*slots_)[i];
	return nullptr;
}

bool Mappings::is_open(const AccessView &view, const Slot &slot) noexcept
{
	return view.region_number(slot.stag) == slot.number.load(std::memory_order_relaxed);
}

/*
 * The caller holds the lock, and frees @gone, which is empty now, without it. Returns false if threads use
 * the memory: the last one unmaps it.
 */
bool Mappings::take_out(Slot &slot, Pages &gone) noexcept
{
	slot.number.store(0);
	/* Partner: Use. Either it sees the 0, or this thread sees the user. */
	if (slot.users.load())
		return false;
	bytes_ -= slot.pages.bytes();
	gone = std::move(slot.pages);
	slot.region.store(nullptr, std::memory_order_relaxed);
	return true;
}

/* The caller holds the lock. A free slot for @stag, or null. */
Mappings::Slot *Mappings::room(const AccessView &view, u32 stag, Pages &gone) noexcept
{
	const size_t first = (stag >> SNIC_STAG_KEY_BITS) * ways % count_max;

	for (size_t i = first; i < first + ways; ++i) {
		Slot &slot = (*slots_)[i];

		if ((!slot.number.load(std::memory_order_relaxed) || !is_open(view, slot)) &&
		    take_out(slot, gone))
			return &slot;
	}
	return nullptr;
}

/*
 * The file, if bytes before @end of it can be mapped. What the table names may be another file, so it is
 * looked at before it is fetched: when the descriptor of a file is closed, the kernel drops the locks that
 * this process has on it (fcntl(2)), and calls its file system.
 */
Fd Mappings::fetch(const SharedFile &what, uint64_t end) const noexcept
{
	if (!is_file_of(pid_, what))
		return {};

	Fd file(static_cast<int>(syscall(SYS_pidfd_getfd, process_.get(), what.fd, 0)));

	/* Since then the number may have become another file's. */
	return file && is_mappable(file.get(), what, end) ? std::move(file) : Fd();
}

/* A free slot for @stag, of which the caller is a user, so that no other thread gets it; or null. */
Mappings::Slot *Mappings::reserve(const AccessView &view, u32 stag, uint64_t &bytes_left) noexcept
{
	Pages gone;
	const std::lock_guard hold(lock_);
	Slot *const slot = room(view, stag, gone);

	if (slot)
		slot->users.fetch_add(1);
	bytes_left = bytes_max - bytes_;
	return slot;
}

/* The table may say anything: trust only what the kernel says of the file. */
Mappings::Pages Mappings::map(const AccessView::Found &region, uint64_t bytes_left) const noexcept
{
	const auto page = static_cast<uint64_t>(getpagesize());
	const uint64_t first = region.file.offset & ~(page - 1);
	const bool write = region.rights & changes_memory;

	if (region.length > bytes_max - page || region.file.offset > INT64_MAX - bytes_max)
		return {};

	const uint64_t end = region.file.offset + region.length;
	const uint64_t bytes = ((end + page - 1) & ~(page - 1)) - first;

	if (bytes > bytes_left)
		return {};

	const Fd file = fetch(region.file, end);

	if (!file)
		return {};

	void *const at = mmap(nullptr, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ,
			      MAP_SHARED, file.get(), static_cast<off_t>(first));

	if (at == MAP_FAILED)
		return {};

	Pages pages(at, bytes);

	/* A forked child uses no device of its parent. */
	return madvise(at, bytes, MADV_DONTFORK) ? Pages() : std::move(pages);
}

/* Also if there are no @pages, so that this is not tried again. */
void Mappings::publish(Slot &slot, const AccessView::Found &region, Pages pages) noexcept
{
	const uint64_t in_page = region.file.offset & (static_cast<uint64_t>(getpagesize()) - 1);
	const std::lock_guard hold(lock_);

	slot.region.store(pages ? pages.at() + in_page : nullptr, std::memory_order_relaxed);
	bytes_ += pages.bytes();
	slot.pages = std::move(pages);
	slot.length = region.length;
	slot.writable = region.rights & changes_memory;
	slot.stag = region.stag;
	slot.number.store(region.number, std::memory_order_release);
}

bool Mappings::may_have(const AccessView::Found &region) noexcept
{
	if (region.file.fd < 0)
		return false;

	const Slot *const slot = find(region);

	return slot ? slot->region.load(std::memory_order_relaxed) != nullptr :
		      static_cast<bool>(process_);
}

bool Mappings::map_once(const AccessView &view, const AccessView::Found &region) noexcept
{
	if (region.file.fd < 0 || !process_ || find(region))
		return false;

	const NoCancel no_cancel;
	const std::unique_lock hold(map_lock_, std::try_to_lock);

	if (!hold || find(region))
		return false;

	AccessView::Found with_file = region;

	if (!view.read_file(with_file))
		return false;

	const int err = errno;
	uint64_t bytes_left;
	Slot *const slot = reserve(view, region.stag, bytes_left);
	bool mapped = false;

	if (slot) {
		Pages pages = map(with_file, bytes_left);

		mapped = static_cast<bool>(pages);
		publish(*slot, with_file, std::move(pages));
		put(*slot);
	}
	errno = err;
	return mapped;
}

size_t Mappings::sweep(const AccessView &view) noexcept
{
	if (!slots_)
		return 0;

	std::array<Pages, count_max> gone; /* unmapped when the lock is free */
	const std::lock_guard hold(lock_);
	size_t mapped = 0, n = 0;

	for (Slot &slot : *slots_) {
		const bool is_free = !slot.number.load(std::memory_order_relaxed);

		if ((is_free && !slot.pages) || (!is_free && is_open(view, slot)) ||
		    !take_out(slot, gone[n++]))
			mapped += static_cast<bool>(slot.pages);
	}
	return mapped;
}

/* Whoever has found the region closed first may not have unmapped it because of this user. */
void Mappings::put(Slot &slot) noexcept
{
	/* Partner: take_out(). */
	if (slot.users.fetch_sub(1) != 1 || slot.number.load()) [[likely]]
		return;

	Pages gone;
	const std::lock_guard hold(lock_);

	if (!slot.number.load(std::memory_order_relaxed))
		(void)take_out(slot, gone);
}

Mappings::Use::Use(Mappings &all, const AccessView::Found &region, u32 len, bool write) noexcept
	: all_(all), slot_(region.file.fd < 0 ? nullptr : all.find(region))
{
	if (!slot_)
		return;
	slot_->users.fetch_add(1);
	/* Partner: take_out(). */
	if (slot_->number.load() != region.number || (write && !slot_->writable))
		return;

	uint8_t *const memory = slot_->region.load(std::memory_order_relaxed);

	if (memory && region.offset <= slot_->length && len <= slot_->length - region.offset)
		memory_ = memory + region.offset;
}

Mappings::Use::~Use()
{
	if (slot_)
		all_.put(*slot_);
}

} // namespace sirdma::twin
