/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One-sided access between two processes of a user. The initiator of a short WRITE or READ executes it in
 * the memory of a target that sleeps, computes or spins on that memory; packets would wait until the
 * target's helper got a processor. Each connection has a grant (the side of the target) and an access (the
 * side of the initiator) each way.
 *
 * The initiator reaches the memory by /proc/PID/mem: the open file is of that memory, also when the
 * process has ended and its number is another's. Opening it needs the permission to attach a debugger, as
 * payload by reference does (lease.hpp).
 *
 * The first request that could be executed on a queue pair is sent instead. Once it is acknowledged, and
 * the number of the peer's queue pair has not changed, both are in the same connection.
 */
#pragma once

#include <mutex>

#include "access_table.hpp"
#include "shm_ring.hpp"

namespace sirdma::twin
{

/* The side of the initiator. */
class Access {
public:
	/* @ring: to the target. @pid is the target's, 0 when it cannot be seen. */
	void attach(RingControl &ring, pid_t pid) noexcept;
	/* The target has sent its table. One thread at a time; a second table is ignored. */
	void take_table(const Fd &file) noexcept;

	/* Can requests be executed, and sooner than by packets? Any thread. */
	bool pays() noexcept;
	/* See snic_host_ops.one_sided(). Call this after pays(), or nothing is executed. Any thread. */
	bool execute(const snic_one_sided &request) noexcept;

private:
	enum class State { none, mapped, open, unusable };

	bool open_memory() noexcept;
	bool is_of_target(int file) const noexcept;
	bool proven(uint64_t number, u64 &note) const noexcept;
	bool copy(const snic_one_sided &request) noexcept;

	RingControl *ring_ = nullptr;
	pid_t pid_ = 0;
	AccessView view_; /* not changed once the state is not none */
	Fd memory_; /* not changed once the state is open */
	std::atomic<State> state_{State::none};
	std::mutex open_lock_; /* one thread opens the memory */
};

/* The side of the target. */
class Grant {
public:
	/* @ring: from the initiator, over @sock. @pid is the initiator's. */
	void attach(RingControl &ring, int sock, pid_t pid) noexcept;

	/* Send the table. Returns false if the initiator will not get it. */
	bool give(const AccessTable &table) noexcept;
	/* The initiator may begin no access. A Closing and await() have to follow. */
	void withdraw() noexcept { ring_->grants.store(0); }
	/*
	 * Wait until accesses are over that began before the last Closing. Returns false if an
	 * initiator that runs does not end its own before @until, as port_now_ns() counts.
	 */
	bool await(u64 until) const noexcept;

private:
	RingControl *ring_ = nullptr;
	int sock_ = -1;
	pid_t pid_ = 0;
};

} // namespace sirdma::twin
