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
#include "rcu_guard.hpp"

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

uint64_t page_size() noexcept
{
	return static_cast<uint64_t>(getpagesize());
}

} // namespace

Mappings::Pages::~Pages()
{
	if (at_)
		munmap(at_, bytes_);
}

Mappings::Slots::~Slots()
{
	for (Slot &slot : *this)
		delete slot.load(std::memory_order_relaxed);
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

bool Mappings::is_open(const AccessView &view, const Mapping &mapping) noexcept
{
	return view.region_number(mapping.stag_) == mapping.number_;
}

/* Nobody finds it any more. Its bytes count until it is unmapped. The caller holds the lock. */
void Mappings::retire(Slot &slot) noexcept
{
	std::unique_ptr<Mapping> gone(slot.exchange(nullptr));

	gone->next_ = std::move(retired_);
	retired_ = std::move(gone);
	any_retired_.store(true, std::memory_order_relaxed);
}

/* Those that no thread uses any more. The caller holds the lock, and frees them without it. */
std::unique_ptr<Mappings::Mapping> Mappings::take_passed() noexcept
{
	std::unique_ptr<Mapping> passed, *at = &retired_;
	u64 mark = 0;

	/* The latest come first. */
	for (Mapping *m = retired_.get(); m && !m->mark_; m = m->next_.get())
		m->mark_ = mark ? mark : (mark = port_rcu_mark());
	while (*at) {
		if (!port_rcu_passed((*at)->mark_)) {
			at = &(*at)->next_;
			continue;
		}

		std::unique_ptr<Mapping> gone = std::move(*at);

		*at = std::move(gone->next_);
		bytes_ -= gone->pages_.bytes();
		gone->next_ = std::move(passed);
		passed = std::move(gone);
	}
	any_retired_.store(retired_ != nullptr, std::memory_order_relaxed);
	return passed;
}

size_t Mappings::count_retired() const noexcept
{
	size_t n = 0;

	for (const Mapping *m = retired_.get(); m; m = m->next_.get())
		n += static_cast<bool>(*m);
	return n;
}

/* A free slot for @stag, or null. Only the caller fills slots. */
Mappings::Slot *Mappings::room(const AccessView &view, u32 stag, uint64_t &bytes_left) noexcept
{
	const size_t first = first_slot(stag);
	std::unique_ptr<Mapping> gone; /* freed without the lock */
	const std::lock_guard hold(lock_);
	Slot *free = nullptr;

	for (size_t i = first; i < first + ways && !free && count_retired() < count_max; ++i) {
		Slot &slot = (*slots_)[i];
		const Mapping *const m = slot.load(std::memory_order_relaxed);

		if (m && is_open(view, *m))
			continue;
		if (m)
			retire(slot);
		free = &slot;
	}
	gone = take_passed();
	bytes_left = bytes_max - bytes_;
	return free;
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

/* The table may say anything: trust only what the kernel says of the file. */
Mappings::Pages Mappings::map(const AccessView::Found &region, uint64_t bytes_left) const noexcept
{
	const uint64_t page = page_size();
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

Mappings::Mapping::Mapping(const AccessView::Found &region, Pages pages) noexcept
	: number_(region.number), stag_(region.stag), writable_(region.rights & changes_memory),
	  length_(region.length), pages_(std::move(pages)),
	  at_(pages_ ? pages_.at() + (region.file.offset & (page_size() - 1)) : nullptr)
{
}

/* Was it mapped, or found unmappable? */
bool Mappings::was_tried(const AccessView::Found &region) const noexcept
{
	const RcuGuard guard;

	return find(region);
}

bool Mappings::map_once(const AccessView &view, const AccessView::Found &region) noexcept
{
	if (region.file.fd < 0 || !process_ || was_tried(region))
		return false;

	const NoCancel no_cancel;
	const std::unique_lock hold(map_lock_, std::try_to_lock);

	if (!hold || was_tried(region))
		return false;

	AccessView::Found with_file = region;

	if (!view.read_file(with_file))
		return false;

	const int err = errno;
	uint64_t bytes_left;
	Slot *const slot = room(view, region.stag, bytes_left);
	bool mapped = false;

	if (slot) {
		/* Also if there are no pages, so that this is not tried again. */
		auto *const m = new (std::nothrow) Mapping(with_file, map(with_file, bytes_left));

		mapped = m && *m;
		if (m) {
			const std::lock_guard hold_slots(lock_);

			bytes_ += m->pages_.bytes();
			slot->store(m, std::memory_order_release);
		}
	}
	errno = err;
	return mapped;
}

size_t Mappings::sweep(const AccessView &view) noexcept
{
	if (!slots_)
		return 0;

	std::unique_ptr<Mapping> gone; /* freed without the lock */
	const std::lock_guard hold(lock_);
	size_t mapped = 0;

	for (Slot &slot : *slots_) {
		const Mapping *const m = slot.load(std::memory_order_relaxed);

		if (m && is_open(view, *m))
			mapped += static_cast<bool>(*m);
		else if (m)
			retire(slot);
	}
	gone = take_passed();
	return mapped + count_retired();
}

} // namespace sirdma::twin
