/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Payload by reference. The sender of a long message does not copy its payload into the
 * ring. The record names the addresses of the payload, and the receiver copies the payload
 * from the sender's memory into its own, once (process_vm_readv).
 *
 * A lease is the permission of one neighbour to do so. Each connection has one lease, and
 * each reference carries its number:
 *
 *   Connection::attach()                                          Connection closes,
 *        |                                                        neighbour dies
 *        v      used()               end()                               |
 *      unused ----------> in use ----------> unused, next number ------> v
 *        ^                  |                                         closed
 *        +------------------+
 *           the neighbour read all references
 *
 * When a region is deregistered or a queue pair fails, finish() waits until the neighbour has read
 * all references. A neighbour that runs does so soon. If a neighbour is stopped, finish() calls
 * end(), which ends the lease of that neighbour only. Closed connections and dead neighbours lose
 * their leases by end() as well.
 *
 * A fork ends no lease. The neighbour reads the parent's memory by the parent's process id;
 * the child has neither the rings nor the connections.
 *
 * The receiver learns of the end in two ways. The ring has the number that holds, so stale
 * references are not read at all. And the sender's memory has it, which the receiver reads
 * together with the payload and after it: the payload was read in time if the number still
 * holds.
 *
 * A page fault in the sender's memory holds up the copy, and with it all that the receiving process receives, and its
 * posts to the queue pair that receives. So the receiver waits for whoever serves that memory: a network file system, or a thread with
 * userfaultfd.
 */
#pragma once

#include <mutex>

#include "shm_ring.hpp"

namespace sirdma::twin
{

/* The side of the sender, of one connection. */
class Lease {
public:
	/* @sock leads to the neighbour: the other end of @sock closes when the neighbour dies. */
	explicit Lease(int sock) noexcept;
	~Lease() { close(); }
	Lease(const Lease &) = delete;
	Lease &operator=(const Lease &) = delete;

	/* @ring carries the references. Call this before any other function. */
	void attach(RingControl &ring) noexcept;

	/* The thread that writes references calls the next two functions. */

	/* The number for the next reference; 0: send none. */
	uint64_t number() const noexcept
	{
		return usable_.load(std::memory_order_relaxed) ? number_.load() : 0;
	}
	/* A reference was written that ends at @pos of the ring. */
	void used(uint64_t pos) noexcept { used_until_.store(pos); }

	/* Any thread may call the functions below. */

	/* May the neighbour have payload to read? */
	bool in_use() const noexcept { return used_until_.load(); }
	/*
	 * Wait until the neighbour has read all payload that was sent by reference before this
	 * call. If it has not done so by @until, the lease ends.
	 */
	void finish(u64 until) noexcept;
	/* End the lease: no reference is sent any more. This does not wait for the neighbour. */
	void close() noexcept;

private:
	void end() noexcept;
	bool all_read(uint64_t pos, u64 until) const noexcept;
	bool reading_is_over() const noexcept;

	/* Neighbours read the number together with payload, so it has a cache line of its own. */
	alignas(64) std::atomic<uint64_t> number_; /* not 0 */
	alignas(64) std::atomic<bool> usable_{false};
	std::atomic<uint64_t> used_until_{0}; /* of the ring; 0: nothing was sent by reference */
	const int sock_;
	RingControl *ring_ = nullptr;
	std::mutex finish_lock_; /* one thread waits for the neighbour, and others for it */
};

/* The side of the receiver, of one connection. One thread at a time uses it. */
class LeaseReader {
public:
	/* @ring carries the references; @pid is the sender's, 0 when it cannot be seen. */
	void attach(RingControl &ring, pid_t pid) noexcept;

	/* Has the sender attached its lease, too? */
	bool offered() const noexcept { return ring_ && ring_->lease_at.load(); }

	/*
	 * On the first call, try to read the sender's memory. Returns true if this call was the
	 * first, and succeeded.
	 */
	bool try_once() noexcept;
	/* Can the sender's memory be read, as far as known? */
	bool readable() const noexcept { return memory_ == Memory::readable; }
	/*
	 * Read @len bytes of references with lease @number. Returns false on failure: the contents
	 * of @to are undefined then.
	 */
	bool read(uint64_t number, snic_seg_iter &it, void *to, u32 len) noexcept;

private:
	enum class Memory { untried, readable, unreadable };

	Memory memory_ = Memory::untried;
	RingControl *ring_ = nullptr;
	pid_t pid_ = 0;
};

} // namespace sirdma::twin
