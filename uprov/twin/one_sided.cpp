/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "one_sided.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>

#include "file_message.hpp"
#include "guarded_copy.hpp"
#include "neighbour_wait.hpp"
#include "no_cancel.hpp"
#include "rcu_guard.hpp"

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

OneSidedWay Access::unmapped_way(const snic_one_sided &request) const noexcept
{
	return kernel_pays(request) ? OneSidedWay::kernel : OneSidedWay::packets;
}

/*
 * Map what @request needs.
 *
 * After a region was mapped the target is told, and wakes this process when it closes a region: partner of
 * Nic::close_region(). At least one of the two sees the other's store.
 */
void Access::prepare(const snic_one_sided &request) noexcept
{
	AccessView::Found found;

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
	if (closes == swept_at_ && !mappings_.retired_any())
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

/*
 * An access exists while a thread does what its closing waits for. Partner: AccessTable::Closing.
 * Grant::await() sees it, or may_begin() and the word of closes see the closing.
 */
class Access::InProgress {
public:
	explicit InProgress(RingControl &ring) noexcept : ring_(ring)
	{
		ring_.accesses.fetch_add(1);
	}
	~InProgress() { ring_.accesses.fetch_sub(1, std::memory_order_release); }
	InProgress(const InProgress &) = delete;
	InProgress &operator=(const InProgress &) = delete;

private:
	RingControl &ring_;
};

bool Access::may_begin() const noexcept
{
	return !view_.header().waiting.load(std::memory_order_acquire) && ring_->grants.load();
}

bool Access::copy_by_kernel(const snic_one_sided &request) noexcept
{
	const InProgress access(*ring_);
	const std::atomic<uint64_t> &word = view_.header().closes;
	const uint64_t closes = word.load(std::memory_order_acquire);
	AccessView::Found found;

	if (!may_begin() || !check(request, found) || !proven(found.qp_number, *request.note))
		return false;

	const ssize_t got = guarded_copy(request.op == SNIC_ONE_SIDED_WRITE, memory_.get(),
					 request.data, request.len, found.at, word, closes);

	/* The process has ended. */
	if (!got)
		state_.store(State::unusable);
	return got == static_cast<ssize_t>(request.len);
}

/* The caller holds a guard. */
bool Access::copy_mapped(const snic_one_sided &request, const AccessView::Found &found,
			 const Mappings::Mapping &mapping) noexcept
{
	uint8_t *const at = mapping.memory(found, request.len, request.op != SNIC_ONE_SIDED_READ);
	const std::atomic<uint64_t> &word = view_.header().closes;
	uint64_t before = 0;

	/* The table decides where in the file the region begins. */
	if (!at || (is_atomic(request) && reinterpret_cast<uintptr_t>(at) % SIRDMA_ATOMIC_LEN))
		return false;

	const InProgress access(*ring_);
	const uint64_t closes = word.load(std::memory_order_acquire);

	if (!may_begin() || !view_.is_current(request.dest_qpn, found) ||
	    !proven(found.qp_number, *request.note))
		return false;
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

/* The table of a target that never had memory to map is not searched. */
OneSidedWay Access::execute_mapped(const snic_one_sided &request) noexcept
{
	const State state = state_.load(std::memory_order_acquire);
	AccessView::Found found;

	if (state == State::none || state == State::unusable || !can_guard_copies())
		return OneSidedWay::packets;
	if (!view_.header().any_mappable.load(std::memory_order_relaxed))
		return unmapped_way(request);
	if (!check(request, found))
		return OneSidedWay::packets;
	if (found.file.fd < 0)
		return unmapped_way(request);
	if (state != State::open)
		return OneSidedWay::must_map;

	const Mappings::Mapping *const mapping = mappings_.find(found);

	if (!mapping && mappings_.can_map())
		return OneSidedWay::must_map;
	if (!mapping || !*mapping)
		return unmapped_way(request);
	/* What is mapped costs less than a packet, whatever the target does. */
	return copy_mapped(request, found, *mapping) ? OneSidedWay::mapping : OneSidedWay::packets;
}

OneSidedWay Access::execute(const snic_one_sided &request) noexcept
{
	if (state_.load(std::memory_order_acquire) != State::open && !open_memory())
		return OneSidedWay::packets;

	const auto try_mapped = [&] {
		const RcuGuard guard;

		return execute_mapped(request);
	};
	OneSidedWay way = try_mapped();

	if (way == OneSidedWay::must_map) {
		prepare(request);
		way = try_mapped();
	}
	/* There is no room for it, or another thread maps one. */
	if (way == OneSidedWay::must_map)
		way = unmapped_way(request);
	if (way == OneSidedWay::mapping || (way == OneSidedWay::kernel && copy_by_kernel(request)))
		return way;
	return OneSidedWay::packets;
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
