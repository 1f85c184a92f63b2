/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "one_sided.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>

#include "file_message.hpp"
#include "guarded_copy.hpp"
#include "neighbour_wait.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

/* Polls of 1 ms between two looks whether the initiator is stopped, which read some files. */
constexpr int polls_to_look = 4;

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
	state_.store(pid_ > 0 && view_.map(file.get()) ? State::mapped : State::unusable);
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

/* The kernel refuses for good, or there are no descriptors left: then it is not tried again either. */
bool Access::open_memory() noexcept
{
	const NoCancel no_cancel;
	const std::unique_lock hold(open_lock_, std::try_to_lock);
	char path[32];

	if (!hold || state_.load() != State::mapped)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid_);
	memory_ = Fd(open(path, O_RDWR | O_CLOEXEC));

	const bool usable = memory_ && is_of_target(memory_.get());

	state_.store(usable ? State::open : State::unusable);
	return usable;
}

/* A target whose helper is awake, or that polls, has packets sooner than the kernel copies. */
bool Access::pays() noexcept
{
	const State state = state_.load(std::memory_order_acquire);

	if (state == State::none || state == State::unusable)
		return false;
	if (!ring_->asleep.load(std::memory_order_relaxed) ||
	    view_.header().polled.load(std::memory_order_relaxed) || !can_guard_copies())
		return false;
	return state == State::open || open_memory();
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

bool Access::copy(const snic_one_sided &request) noexcept
{
	const AccessHeader &header = view_.header();
	const uint64_t closes = header.closes.load(std::memory_order_acquire);
	uint64_t at, number;

	if (header.waiting.load(std::memory_order_acquire) || !ring_->grants.load())
		return false;
	if (!view_.check({.qpn = request.dest_qpn,
			  .rkey = request.rkey,
			  .va = request.va,
			  .len = request.len,
			  .is_write = request.is_write},
			 at, number) ||
	    !proven(number, *request.note))
		return false;

	const ssize_t got = guarded_copy(request.is_write, memory_.get(), request.data, request.len,
					 at, header.closes, closes);

	/* The process has ended. */
	if (!got)
		state_.store(State::unusable);
	return got == static_cast<ssize_t>(request.len);
}

bool Access::execute(const snic_one_sided &request) noexcept
{
	if (state_.load(std::memory_order_acquire) != State::open)
		return false;
	/* Partner: AccessTable::Closing. Grant::await() sees this, or this thread sees the closing. */
	ring_->accesses.fetch_add(1);

	const bool done = copy(request);

	ring_->accesses.fetch_sub(1, std::memory_order_release);
	return done;
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
