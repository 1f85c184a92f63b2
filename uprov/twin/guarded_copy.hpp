/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A system call that copies to or from another process's memory, or loads and stores that do, only if a word
 * of shared memory has the value that it had before. Between the comparison and the system call, or the last
 * store, lies nothing else: a thread that is stopped, preempted or interrupted by a signal between the two
 * does not go on (restartable sequences, rseq(2)).
 *
 * So of a process that has changed the word, with a full barrier after it: another process's thread that
 * is not running, and is not in the kernel for a copy, will not copy any more. A thread that is stopped is
 * neither.
 */
#pragma once

#include <cstddef>
#include <sys/types.h>

#include "core.hpp"

namespace sirdma::twin
{

/* Can the calling thread do this? Without sequences of the C library, or on other processors, not. */
bool can_guard_copies() noexcept;

/*
 * Copy between @data and @len bytes at @at of @memory, an open /proc/PID/mem, if @word has the value
 * @expected. The last word of what is written is written last, for readers that wait for it. Returns how many
 * bytes were copied, 0 if the process is gone, or -1 if none were.
 */
ssize_t guarded_copy(bool is_write, int memory, void *data, size_t len, uint64_t at,
		     const std::atomic<uint64_t> &word, uint64_t expected) noexcept;

/*
 * The same for memory at @at that this process has mapped as well. Returns true if all bytes were moved. Returns
 * false if the last store was not executed, which is the largest that is aligned at the end; the bytes
 * before it may have been moved.
 */
bool guarded_move(bool is_write, uint8_t *at, void *data, size_t len,
		  const std::atomic<uint64_t> &word, uint64_t expected) noexcept;

/* Atomics, by locked instructions: all of it, or nothing and false. @before: value before. */
bool guarded_fetch_add(uint8_t *at, uint64_t add, uint64_t &before,
		       const std::atomic<uint64_t> &word, uint64_t expected) noexcept;
bool guarded_cmp_swap(uint8_t *at, uint64_t compare, uint64_t swap, uint64_t &before,
		      const std::atomic<uint64_t> &word, uint64_t expected) noexcept;

} // namespace sirdma::twin
