/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory of this process that another process can map: shared memory of a file that this process has open.
 *
 * Only files that are sealed against shrinking count: whoever has mapped another file gets a signal (SIGBUS)
 * when it touches a page behind the end. Seals exist for files of memfd_create() only. Of these, those of
 * huge pages do not count either: a page that the owner has removed cannot be had again when no huge page
 * is left, which ends in the same signal. Pages of other files lack only when memory does, where memory is
 * overcommitted (mappings.cpp).
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

#include "fd.hpp"

namespace sirdma::twin
{

struct SharedFile {
	int fd = -1; /* descriptor in the process that has the memory; -1: it cannot be mapped */
	uint64_t offset = 0; /* of the first byte of the memory */
	dev_t device = 0;
	ino_t inode = 0;
};

/* The file of [@start, @start + @length) of this process, if all of it lies in one mapping of one. */
SharedFile shared_file_of(uintptr_t start, size_t length) noexcept;

/*
 * Is @file the file @what, sealed against shrinking, not of huge pages, and @end bytes long or longer? Then whoever
 * maps its bytes before @end gets no signal.
 */
bool is_mappable(int file, const SharedFile &what, uint64_t end) noexcept;

/* Is the descriptor in @what, of the process @pid, one of the file in @what? */
bool is_file_of(pid_t pid, const SharedFile &what) noexcept;

/* A new file of @bytes that can be mapped, or none, with errno. */
Fd new_shared_file(const char *name, size_t bytes) noexcept;

} // namespace sirdma::twin
