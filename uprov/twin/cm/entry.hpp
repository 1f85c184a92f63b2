/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The operations of the shim for rdma_cm. */
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace sirdma::twin::cm
{

/* A new event channel, a descriptor of the program's; -1 with errno. */
int open_channel() noexcept;
/* The program closes it. */
void close_channel(int file) noexcept;
/* A command to it: its length, or a negative errno. */
ssize_t command(int file, const void *bytes, size_t len) noexcept;

} // namespace sirdma::twin::cm
