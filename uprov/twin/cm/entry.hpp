/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The operations of the shim for rdma_cm. */
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace sirdma::twin::cm
{

/* Make a new event channel, a descriptor of the program. Returns -1 with errno on failure. */
int open_channel() noexcept;
/* The program closes the channel. */
void close_channel(int file) noexcept;
/* Execute a command to the channel. Returns its length, or a negative errno. */
ssize_t command(int file, const void *bytes, size_t len) noexcept;

} // namespace sirdma::twin::cm
