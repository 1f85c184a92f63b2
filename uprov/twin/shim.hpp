/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Functions that the parts of the shim share, and how the twin calls the shim: see entry.hpp. */
#pragma once

#include "entry.hpp"

/* The first descriptor of the device that is not below @fd, or ~0. Any thread. */
using sirdma_next_file = unsigned (*)(unsigned fd);

#define SIRDMA_GUARD_FILES "sirdma_guard_files"

/* The twin calls this to tell the shim which descriptors the program must not close. */
extern "C" void sirdma_guard_files(sirdma_next_file next);

namespace sirdma::twin
{

/* The twin's operations, or null if it cannot be loaded. */
const sirdma_twin_ops *shim_twin() noexcept;
/* Is @fd an event channel of rdma_cm? */
bool is_event_channel(int fd) noexcept;
/* The program closes the event channels in this range. */
void close_event_channels(unsigned first, unsigned last) noexcept;
/*
 * The program writes a command to an event channel. Like the kernel's write(), the function may
 * wait for an event, and be interrupted or cancelled then.
 */
ssize_t write_event_channel(int fd, const void *bytes, size_t len);
/* Is the view the sysfs view, in which the library itself finds the devices? */
bool shim_in_sysfs() noexcept;

} // namespace sirdma::twin
