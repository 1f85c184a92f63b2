/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One-sided access between two processes of a user. The initiator of a short request executes it in the
 * memory of the target; packets would wait until the target polled, or its helper got a processor. Each
 * connection has a grant (the side of the target) and an access (the side of the initiator) each way.
 *
 *   memory of the target             the initiator executes            while the target
 *   it can be mapped                 WRITE, READ and atomics by        does anything
 *   (shared_file.hpp)                instructions
 *   any other                        WRITE and READ by pwritev() and   sleeps, computes, or spins on that
 *                                    pread() of /proc/PID/mem          memory
 *
 * The open /proc/PID/mem is of that memory, also when the process has ended and its number is another's. The
 * target's table names the descriptor, device and inode of a file. The initiator looks in /proc/PID/fd whether
 * they belong together before it fetches the descriptor with pidfd_getfd(), and again before it maps the
 * file. All need the permission to attach a debugger, as payload by reference does (lease.hpp): the
 * initiator gets nothing that it could not have anyway. A target that replaces the descriptor
 * between the two looks has the initiator open and close a file of the target's choice, which drops the
 * locks that the initiator has on that file (fcntl(2), F_SETLK).
 *
 * The responder's atomics are locked instructions of the processor, as those of the initiator are. So all
 * atomics to memory that can be mapped are atomic together, whoever executes them.
 *
 * What is given up for it:
 *   Keys       Each process of the user that connects gets the target's table, with the keys and addresses
 *              of all its regions, whether or not it may open the memory. A process that may open it could find
 *              them there.
 *   Rights     The kernel lets a debugger write to private memory that is mapped for reading; shared memory
 *              and files it protects. A region can be registered for writing only if its memory is mapped
 *              for writing, and only such regions are written to. But memory that is mapped for reading
 *              later, or replaced by other memory, is written to as long as the region exists, as memory
 *              that a device has pinned would be. A store of the process itself would end in SIGSEGV.
 *   Mappings   The file of a mapped region stays in use, and memory of it that the application unmaps while
 *              it is registered is written to, as memory that a device has pinned would be. The initiator
 *              unmaps it soon after the region is closed. F_SEAL_WRITE cannot be added to a file meanwhile.
 *   Waiting    A copy by the kernel waits for pages that the target's memory lacks: what was swapped out, or is
 *              that of a file system that does not answer. So these copies are made only by calls that post and
 *              by polls that find nothing, under no lock or guard. An access to memory that is mapped
 *              waits only for a page fault of this process: the page may be swapped out, as the source of a packet
 *              may be. The lock of the queue pair is held meanwhile. What waits is that call, whatever else
 *              its thread was to do, later requests of the queue pair, its end (ibv_destroy_qp(), and
 *              commands of the device behind it), and the target's ibv_dereg_mr(),
 *              ibv_modify_qp() and ibv_destroy_qp(): these for a second at most, for all initiators
 *              together. An initiator that is stopped (SIGSTOP) is not awaited. One that is frozen in a
 *              copy is, and its connection is closed then; the copy, of SNIC_ONE_SIDED_MAX bytes at most,
 *              goes on when it is thawed, whatever the memory is used for by then.
 *
 * The first request that could be executed on a queue pair is sent instead. Once it is acknowledged, and
 * the number of the peer's queue pair has not changed, both are in the same connection.
 */
#pragma once

#include <mutex>

#include "mappings.hpp"
#include "shm_ring.hpp"

namespace sirdma::twin
{

/* How a request was executed, or what it takes to execute it. */
enum class OneSidedWay : uint8_t {
	packets, /* it has to be sent */
	mapping, /* in memory that is mapped */
	kernel, /* by a copy of the kernel's, which may wait */
	must_map, /* the memory has to be opened, or mapped, by system calls */
};

/* The side of the initiator. */
class Access {
public:
	/* @ring: to the target. @pid is the target's, 0 when it cannot be seen. */
	void attach(RingControl &ring, pid_t pid) noexcept;
	/* The target has sent its table. One thread at a time; a second table is ignored. */
	void take_table(const Fd &file) noexcept;

	/*
	 * Execute @request if the memory is mapped: this does not wait. Returns mapping if it was executed, or else
	 * what it takes if that is sooner than packets. Any thread, under a guard; locks may be held.
	 */
	OneSidedWay execute_mapped(const snic_one_sided &request) noexcept;
	/* Unmap regions that are closed, unless a thread uses them. One thread at a time. */
	void unmap_closed() noexcept;
	/* Has it left some? */
	bool has_retired() const noexcept { return mappings_.retired_any(); }
	/*
	 * Execute a @request for which execute_mapped() was not enough. Returns how it was executed; packets: it was
	 * not. Any thread, under no lock and no guard.
	 */
	OneSidedWay execute(const snic_one_sided &request) noexcept;

private:
	enum class State { none, has_table, open, unusable };
	class InProgress;

	bool open_memory() noexcept;
	bool is_of_target(int file) const noexcept;
	bool proven(uint64_t number, u64 &note) const noexcept;
	bool check(const snic_one_sided &request, AccessView::Found &found) const noexcept;
	bool kernel_pays(const snic_one_sided &request) const noexcept;
	OneSidedWay unmapped_way(const snic_one_sided &request) const noexcept;
	void prepare(const snic_one_sided &request) noexcept;
	bool may_begin() const noexcept;
	bool copy_mapped(const snic_one_sided &request, const AccessView::Found &found,
			 const Mappings::Mapping &mapping) noexcept;
	bool copy_by_kernel(const snic_one_sided &request) noexcept;

	std::atomic<State> state_{State::none};
	pid_t pid_ = 0;
	RingControl *ring_ = nullptr;
	AccessView view_; /* not changed once the state is not none */
	Mappings mappings_;
	uint64_t swept_at_ = 0; /* closes before the last sweep, see unmap_closed() */
	Fd memory_; /* not changed once the state is open */
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
	/* May accesses be under way that began before the Closing @number? */
	bool in_use(uint64_t number) const noexcept
	{
		return over_.load() < number && ring_->accesses.load();
	}
	/*
	 * Wait until these are over. Returns false if an initiator that runs does not end its own
	 * before @until, as port_now_ns() counts.
	 */
	bool await(uint64_t number, u64 until) noexcept;
	/* Has the initiator mapped regions? */
	bool has_mappings() const noexcept { return ring_->mappings.load(); }
	/* Never wait for the initiator again. */
	void give_up() noexcept;

private:
	bool are_over(u64 until) const noexcept;

	RingControl *ring_ = nullptr;
	int sock_ = -1;
	pid_t pid_ = 0;
	/* Accesses are over that began before the Closing with this number; ~0: nobody waits for others. */
	std::atomic<uint64_t> over_{0};
};

} // namespace sirdma::twin
