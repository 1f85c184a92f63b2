/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tell a process from its forked children without a system call.
 */
#pragma once

namespace sirdma
{

/*
 * The number of this process. A child with memory of its own never has one that any process had before
 * the child was made, however that was done (fork(), clone()).
 */
unsigned process_number() noexcept;

} // namespace sirdma
