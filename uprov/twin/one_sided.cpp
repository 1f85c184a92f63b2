/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "one_sided.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <utility>

#include "file_message.hpp"
#include "guarded_copy.hpp"
#include "neighbour_wait.hpp"
#include "no_cancel.hpp"

extern "C" {
#include "sirdma/wqe.h"
}

namespace sirdma::twin
{

namespace
{

/* Polls of 1 ms between two looks whether the initiator is stopped, which read some files. */
constexpr int polls_to_look = 4;

bool is_atomic(const snic_one_sided &request) noexcept
{
	return request.op == SNIC_ONE_SIDED_FETCH_ADD || request.op == SNIC_ONE_SIDED_CMP_SWAP;
}

u32 right_for(const snic_one_sided &request) noexcept
{
	if (is_atomic(request))
		return SIRDMA_ACCESS_REMOTE_ATOMIC;
	return request.op == SNIC_ONE_SIDED_READ ? SIRDMA_ACCESS_REMOTE_READ :
						   SIRDMA_ACCESS_REMOTE_WRITE;
}

} // namespace

/* Initiator */

void Access::attach(RingControl &ring, pid_t pid) noexcept
{
	ring_ = &ring;
	pid_ = pid;
}

void Access::take_table(const Fd &file) noexcept
{
	if (state_.load() != State::none)
		return;
	state_.store(pid_ > 0 && view_.map(file.get()) ? State::has_table : State::unusable);
}

/* Is @file the memory of the process that has sent the table? */
bool Access::is_of_target(int file) const noexcept
{
	const AccessHeader &header = view_.header();
	uint64_t word = 0;

	return header.word_at <= INT64_MAX &&
	       pread(file, &word, sizeof(word), static_cast<off_t>(header.word_at)) ==
		       sizeof(word) &&
	       word == header.word;
}

/* If the kernel refuses, or no descriptor is left, the access stays unusable. */
bool Access::open_memory() noexcept
{
	const NoCancel no_cancel;
	const std::unique_lock hold(open_lock_, std::try_to_lock);
	char path[32];

	if (!hold || state_.load() != State::has_table)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid_);
	/*
	 * attach() opens the process by its number. is_of_target() verifies the memory after that, and the
	 * process is still alive then. So the number was the target's.
	 */
	mappings_.attach(pid_);
	memory_ = Fd(open(path, O_RDWR | O_CLOEXEC));

	const bool usable = memory_ && is_of_target(memory_.get());

	if (!mappings_.is_alive())
		mappings_.detach();

	state_.store(usable ? State::open : State::unusable);
	return usable;
}

bool Access::check(const snic_one_sided &request, AccessView::Found &found) const noexcept
{
	/* The responder refuses atomics that are not aligned. */
	return view_.check({.qpn = request.dest_qpn,
			    .rkey = request.rkey,
			    .va = request.va,
			    .len = request.len,
			    .right = right_for(request)},
			   found) &&
	       (!is_atomic(request) || !((request.va | found.at) % SIRDMA_ATOMIC_LEN));
}

/* A target whose helper is awake, or that polls, has packets sooner than the kernel copies. */
bool Access::kernel_pays(const snic_one_sided &request) const noexcept
{
	return !is_atomic(request) && ring_->asleep.load(std::memory_order_relaxed) &&
	       !view_.header().polled.load(std::memory_order_relaxed);
}

/*
 * What is mapped costs less than a packet, whatever the target does. The table of a target that never had
 * memory to map is not searched.
 */
OneSidedWay Access::way(const snic_one_sided &request) noexcept
{
	const State state = state_.load(std::memory_order_acquire);
	AccessView::Found found;

	if (state == State::none || state == State::unusable || !can_guard_copies())
		return OneSidedWay::packets;
	if (view_.header().any_mappable.load(std::memory_order_relaxed) && check(request, found) &&
	    (state == State::open ? mappings_.may_have(found) : found.file.fd >= 0))
		return OneSidedWay::mapping;
	return kernel_pays(request) ? OneSidedWay::kernel : OneSidedWay::packets;
}

/*
 * Open and map what @request needs. The caller tries the request again.
 *
 * After a region was mapped the target is told, and wakes this process when it closes a region: partner of
 * Nic::close_region(). At least one of the two sees the other's store.
 */
void Access::prepare(const snic_one_sided &request) noexcept
{
	AccessView::Found found;

	if (state_.load(std::memory_order_acquire) != State::open && !open_memory())
		return;
	if (!check(request, found) || !mappings_.map_once(view_, found))
		return;
	ring_->mappings.store(1);
	smp_mb();
	if (view_.region_number(found.stag) != found.number)
		(void)mappings_.sweep(view_);
}

void Access::unmap_closed() noexcept
{
	if (state_.load() != State::open || !ring_->mappings.load())
		return;

	const uint64_t closes = view_.header().closes.load();

	/* A region is closed before this counter is raised. */
	if (closes == swept_at_)
		return;
	swept_at_ = closes;
	/* A thread that maps a region meanwhile sets it after that, and looks whether it was closed. */
	ring_->mappings.store(0);
	if (!mappings_.sweep(view_))
		return;
	ring_->mappings.store(1);
	/*
	 * Partner: Grants::ask_to_unmap(). A region that was closed since the sweep is seen here, or the target
	 * sees that this process has mappings.
	 */
	smp_mb();
	(void)mappings_.sweep(view_);
}

/* The note is a number that was seen; its lowest bit: requests were acknowledged since. */
bool Access::proven(uint64_t number, u64 &note) const noexcept
{
	if (note >> 1 == number) {
		note |= 1;
		return true;
	}
	note = number << 1;
	return false;
}

bool Access::copy_by_kernel(const snic_one_sided &request, uint64_t at, uint64_t closes) noexcept
{
	const ssize_t got = guarded_copy(request.op == SNIC_ONE_SIDED_WRITE, memory_.get(),
					 request.data, request.len, at, view_.header().closes,
					 closes);

	/* The process has ended. */
	if (!got)
		state_.store(State::unusable);
	return got == static_cast<ssize_t>(request.len);
}

bool Access::copy_mapped(const snic_one_sided &request, uint8_t *at, uint64_t closes) noexcept
{
	const std::atomic<uint64_t> &word = view_.header().closes;
	uint64_t before = 0;

	switch (request.op) {
	case SNIC_ONE_SIDED_FETCH_ADD:
		if (!guarded_fetch_add(at, request.swap_add, before, word, closes))
			return false;
		break;
	case SNIC_ONE_SIDED_CMP_SWAP:
		if (!guarded_cmp_swap(at, request.compare, request.swap_add, before, word, closes))
			return false;
		break;
	default:
		return guarded_move(request.op == SNIC_ONE_SIDED_WRITE, at, request.data,
				    request.len, word, closes);
	}
	memcpy(request.data, &before, sizeof(before));
	return true;
}

/*
 * @needs_prepare: the caller calls prepare() and tries again. If it is false on entry it stays false, and the
 * request takes a slower way.
 */
OneSidedWay Access::copy(const snic_one_sided &request, bool &needs_prepare) noexcept
{
	const AccessHeader &header = view_.header();
	const uint64_t closes = header.closes.load(std::memory_order_acquire);
	AccessView::Found found;
	const bool may_prepare = std::exchange(needs_prepare, false);

	if (header.waiting.load(std::memory_order_acquire) || !ring_->grants.load())
		return OneSidedWay::packets;
	if (!check(request, found) || !proven(found.qp_number, *request.note))
		return OneSidedWay::packets;

	const Mappings::Use mapped(mappings_, found, request.len,
				   request.op != SNIC_ONE_SIDED_READ);

	if (mapped.memory()) {
		/* The table decides where in the file the region begins. */
		if (is_atomic(request) &&
		    reinterpret_cast<uintptr_t>(mapped.memory()) % SIRDMA_ATOMIC_LEN)
			return OneSidedWay::packets;
		return copy_mapped(request, mapped.memory(), closes) ? OneSidedWay::mapping :
								       OneSidedWay::packets;
	}
	needs_prepare = may_prepare && mappings_.may_have(found);
	/* way() asks neither of a region that may be mapped. */
	if (needs_prepare || is_atomic(request) || (found.file.fd >= 0 && !kernel_pays(request)))
		return OneSidedWay::packets;
	return copy_by_kernel(request, found.at, closes) ? OneSidedWay::kernel :
							   OneSidedWay::packets;
}

OneSidedWay Access::attempt(const snic_one_sided &request, bool &needs_prepare) noexcept
{
	const State state = state_.load(std::memory_order_acquire);

	if (state != State::open) {
		needs_prepare &= state == State::has_table;
		return OneSidedWay::packets;
	}
	/* Partner: AccessTable::Closing. Grant::await() sees this, or this thread sees the closing. */
	ring_->accesses.fetch_add(1);

	const OneSidedWay way = copy(request, needs_prepare);

	ring_->accesses.fetch_sub(1, std::memory_order_release);
	return way;
}

OneSidedWay Access::execute(const snic_one_sided &request) noexcept
{
	bool needs_prepare = true;
	const OneSidedWay way = attempt(request, needs_prepare);

	if (!needs_prepare) [[likely]]
		return way;
	prepare(request);
	needs_prepare = false;
	return attempt(request, needs_prepare);
}

/* Target */

void Grant::attach(RingControl &ring, int sock, pid_t pid) noexcept
{
	ring_ = &ring;
	sock_ = sock;
	pid_ = pid;
}

bool Grant::give(const AccessTable &table) noexcept
{
	const int file = table.fd();

	ring_->grants.store(1);
	/* An initiator that does not get the file goes on with packets. */
	return send_with_files(sock_, "", 1, {&file, 1});
}

bool Grant::are_over(u64 until) const noexcept
{
	for (int i = 0; ring_->accesses.load(std::memory_order_acquire); ++i) {
		if (!wait_for_neighbour(sock_, i))
			return true;
		if (i < wait_yields)
			continue;
		/* Guarded copies do not begin after the process was stopped. */
		if (!(i % polls_to_look) && is_stopped(pid_))
			return true;
		if (port_now_ns(nullptr) > until)
			return false;
	}
	return true;
}

bool Grant::await(uint64_t number, u64 until) noexcept
{
	uint64_t over = over_.load();

	if (!are_over(until))
		return false;
	/* An initiator that is stopped has its access still under way, and is not awaited again. */
	while (over < number && !over_.compare_exchange_weak(over, number))
		;
	return true;
}

void Grant::give_up() noexcept
{
	withdraw();
	over_.store(~uint64_t{0});
}

} // namespace sirdma::twin
