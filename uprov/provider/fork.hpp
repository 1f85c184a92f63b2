/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tell a process from its forked children without a system call.
 */
#pragma once

namespace sirdma
{

/*
 * The number of this process. A child with memory of its own has another one than the processes it
 * descends from, however it was made (fork(), clone()).
 */
unsigned process_number() noexcept;

} // namespace sirdma
