/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "lease.hpp"

#include <cstring>
#include <sys/uio.h>

#include "neighbour_wait.hpp"

namespace sirdma::twin
{

/* The time makes the number larger than that of any earlier lease at this address. */
Lease::Lease(int sock) noexcept : number_(port_now_ns(nullptr) | 1ull << 63), sock_(sock) {}

void Lease::attach(RingControl &ring) noexcept
{
	ring_ = &ring;
	ring_->lease_at.store(reinterpret_cast<uintptr_t>(&number_));
	ring_->lease.store(number_.load());
	usable_.store(true);
}

/* References with the old number that are being written now are stale when they are read. */
void Lease::end() noexcept
{
	ring_->lease.store(number_.fetch_add(1) + 1);
}

void Lease::close() noexcept
{
	if (usable_.exchange(false))
		end();
}

/* Returns false if the neighbour died, or did not read up to @pos before @until. */
bool Lease::all_read(uint64_t pos, u64 until) const noexcept
{
	for (int i = 0; ring_->head.load(std::memory_order_acquire) < pos; ++i)
		if (!wait_for_neighbour(sock_, i) ||
		    (i >= wait_yields && port_now_ns(nullptr) > until))
			return false;
	return true;
}

/* Call this after end(). Returns false if the neighbour is stuck. Partner: LeaseReader::read(). */
bool Lease::reading_is_over() const noexcept
{
	const u64 start = port_now_ns(nullptr);

	smp_mb();
	for (int i = 0; ring_->reading.load(std::memory_order_acquire); ++i) {
		if (!wait_for_neighbour(sock_, i))
			return true;
		if (i >= wait_yields && port_now_ns(nullptr) - start > reader_stuck_ns)
			return false;
	}
	return true;
}

void Lease::finish(u64 until) noexcept
{
	if (!used_until_.load())
		return;
	std::lock_guard hold(finish_lock_);
	uint64_t pos = used_until_.load();

	if (!pos)
		return;
	if (!all_read(pos, until)) {
		end();
		if (!reading_is_over())
			close();
	}
	/* References sent meanwhile are to memory that stays registered. */
	used_until_.compare_exchange_strong(pos, 0);
}

void LeaseReader::attach(RingControl &ring, pid_t pid) noexcept
{
	ring_ = &ring;
	pid_ = pid;
}

bool LeaseReader::try_once() noexcept
{
	uint64_t number;
	const iovec to = {.iov_base = &number, .iov_len = sizeof(number)};
	const iovec from = {.iov_base = reinterpret_cast<void *>(ring_->lease_at.load()),
			    .iov_len = sizeof(number)};

	if (memory_ != Memory::untried)
		return false;

	const bool got = pid_ && from.iov_base &&
			 process_vm_readv(pid_, &to, 1, &from, 1, 0) == ssize_t(sizeof(number));

	memory_ = got ? Memory::readable : Memory::unreadable;
	return got;
}

bool LeaseReader::read(uint64_t number, snic_seg_iter &it, void *to, u32 len) noexcept
{
	iovec from[SNIC_BURST_SEGS + 1];
	uint64_t holds = 0;
	const iovec into[] = {{.iov_base = to, .iov_len = len},
			      {.iov_base = &holds, .iov_len = sizeof(holds)}};
	u32 n = 0;

	for (u32 left = len, run; left; left -= run) {
		if (n == SNIC_BURST_SEGS) [[unlikely]]
			return false;
		from[n].iov_base = const_cast<void *>(snic_seg_next(&it, left, &run));
		from[n++].iov_len = run;
	}
	/* Read the number last: if the lease holds now, it held while the payload was read. */
	from[n++] = {.iov_base = reinterpret_cast<void *>(ring_->lease_at.load()),
		     .iov_len = sizeof(holds)};
	/* Partner: Lease::reading_is_over(), after the lease ended. */
	ring_->reading.store(1, std::memory_order_relaxed);
	smp_mb();
	if (ring_->lease.load(std::memory_order_acquire) == number) [[likely]] {
		const ssize_t got = process_vm_readv(pid_, into, std::size(into), from, n, 0);

		if (got != static_cast<ssize_t>(len + sizeof(holds))) [[unlikely]]
			memory_ = Memory::unreadable;
		/* The lease ended: the sender may have reused the memory. */
		if (holds != number) [[unlikely]]
			memset(to, 0, len);
	}
	ring_->reading.store(0, std::memory_order_release);
	return holds == number;
}

} // namespace sirdma::twin
