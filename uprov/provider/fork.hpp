/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tell a process from its forked children without a system call.
 */
#pragma once

namespace sirdma
{

/* Count the forks from now on. This is done once, however often it is called. Returns an error number. */
int count_forks() noexcept;

/* How many calls of fork() led to this process: a child has one more than its parent. */
unsigned fork_depth() noexcept;

} // namespace sirdma
