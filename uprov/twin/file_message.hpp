/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages with file descriptors (SCM_RIGHTS) between two processes of this host. */
#pragma once

#include <cstddef>
#include <span>
#include <sys/types.h>

#include "fd.hpp"

namespace sirdma::twin
{

inline constexpr size_t message_files_max = 4;

/*
 * Send @len bytes with at most message_files_max files, without blocking. Returns false with errno.
 */
bool send_with_files(int sock, const void *message, size_t len,
		     std::span<const int> files) noexcept;
/*
 * Receive exactly @len bytes and as many files as @files has; further files are closed. Returns
 * false with errno: EAGAIN: there is no message; EMFILE: no descriptors are left for the files;
 * ENOTCONN: the other end closed the connection; EPROTO: the message has another form.
 */
bool receive_with_files(int sock, void *message, size_t len, std::span<Fd> files) noexcept;
/*
 * Receive at most @len bytes, and the file @file if one comes with them. Returns how many bytes, as
 * recv(), without blocking.
 */
ssize_t receive_with_file(int sock, void *message, size_t len, Fd &file) noexcept;

} // namespace sirdma::twin
