/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "mappings.hpp"

#include <cerrno>
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

} // namespace

Mappings::~Mappings()
{
	for (const Slot &slot : slots_)
		if (slot.pages)
			munmap(slot.pages, slot.bytes);
}

void Mappings::attach(pid_t pid) noexcept
{
	pid_ = pid;
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

	for (size_t i = first; i < first + ways; ++i)
		if (slots_[i].number.load(std::memory_order_acquire) == region.number)
			return &slots_[i];
	return nullptr;
}

bool Mappings::is_open(const AccessView &view, const Slot &slot) noexcept
{
	return view.region_number(slot.stag) == slot.number.load(std::memory_order_relaxed);
}

/* The caller holds the lock. Returns false if threads use the memory: the last one unmaps it. */
bool Mappings::unmap(Slot &slot) noexcept
{
	slot.number.store(0);
	/* Partner: Use. Either it sees the 0, or this thread sees the user. */
	if (slot.users.load())
		return false;
	if (slot.pages) {
		munmap(slot.pages, slot.bytes);
		bytes_ -= slot.bytes;
	}
	slot.pages = nullptr;
	slot.region.store(nullptr, std::memory_order_relaxed);
	return true;
}

/* The caller holds the lock. A free slot for @stag, or null. */
Mappings::Slot *Mappings::room(const AccessView &view, u32 stag) noexcept
{
	const size_t first = (stag >> SNIC_STAG_KEY_BITS) * ways % count_max;

	for (size_t i = first; i < first + ways; ++i) {
		Slot &slot = slots_[i];

		if ((!slot.number.load(std::memory_order_relaxed) || !is_open(view, slot)) &&
		    unmap(slot))
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

/* The caller holds the lock. The table may say anything: trust only what the kernel says of the file. */
void Mappings::map(Slot &slot, const AccessView::Found &region) noexcept
{
	const auto page = static_cast<uint64_t>(getpagesize());
	const uint64_t first = region.file.offset & ~(page - 1);
	const bool write = region.rights & changes_memory;

	if (region.length > bytes_max - page || region.file.offset > INT64_MAX - bytes_max)
		return;

	const uint64_t end = region.file.offset + region.length;
	const uint64_t bytes = ((end + page - 1) & ~(page - 1)) - first;

	if (bytes > bytes_max - bytes_)
		return;

	const Fd file = fetch(region.file, end);

	if (!file)
		return;

	void *const at = mmap(nullptr, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ,
			      MAP_SHARED, file.get(), static_cast<off_t>(first));

	if (at == MAP_FAILED)
		return;
	/* A forked child uses no device of its parent. */
	if (madvise(at, bytes, MADV_DONTFORK)) {
		munmap(at, bytes);
		return;
	}
	slot.pages = static_cast<uint8_t *>(at);
	slot.region.store(slot.pages + (region.file.offset - first), std::memory_order_relaxed);
	slot.bytes = bytes;
	slot.length = region.length;
	slot.writable = write;
	bytes_ += bytes;
}

bool Mappings::has(const AccessView &view, const AccessView::Found &region, bool &fresh) noexcept
{
	fresh = false;
	if (region.file.fd < 0)
		return false;
	if (const Slot *slot = find(region)) [[likely]]
		return slot->region.load(std::memory_order_relaxed);

	const NoCancel no_cancel;
	const std::unique_lock hold(lock_, std::try_to_lock);

	if (!hold || !process_ || find(region))
		return false;

	const int err = errno;
	Slot *const slot = room(view, region.stag);

	if (slot) {
		map(*slot, region);
		slot->stag = region.stag;
		/* Also if it cannot be mapped, so that this is not tried again. */
		slot->number.store(region.number, std::memory_order_release);
	}
	errno = err;
	fresh = slot && slot->pages;
	return fresh;
}

size_t Mappings::sweep(const AccessView &view) noexcept
{
	const std::lock_guard hold(lock_);
	size_t mapped = 0;

	for (Slot &slot : slots_) {
		const bool is_free = !slot.number.load(std::memory_order_relaxed);

		if ((is_free && !slot.pages) || (!is_free && is_open(view, slot)) || !unmap(slot))
			mapped += slot.pages != nullptr;
	}
	return mapped;
}

/* Whoever has found the region closed first may not have unmapped it because of this user. */
void Mappings::put(Slot &slot) noexcept
{
	/* Partner: unmap(). */
	if (slot.users.fetch_sub(1) != 1 || slot.number.load()) [[likely]]
		return;

	const std::lock_guard hold(lock_);

	if (!slot.number.load(std::memory_order_relaxed))
		(void)unmap(slot);
}

Mappings::Use::Use(Mappings &all, const AccessView::Found &region, u32 len, bool write) noexcept
	: all_(all), slot_(region.file.fd < 0 ? nullptr : all.find(region))
{
	if (!slot_)
		return;
	slot_->users.fetch_add(1);
	/* Partner: unmap(). */
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
