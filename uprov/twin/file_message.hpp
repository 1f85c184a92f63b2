/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A message that brings files with it, between two processes of this host. */
#pragma once

#include <cstddef>
#include <span>

#include "fd.hpp"

namespace sirdma::twin
{

inline constexpr size_t message_files_max = 4;

/* @len bytes with at most message_files_max files, without waiting. False with errno. */
bool send_with_files(int sock, const void *message, size_t len,
		     std::span<const int> files) noexcept;
/*
 * Exactly @len bytes and as many files as @files has; further ones are closed. False with
 * errno: EAGAIN when nothing came, EMFILE when there was no room for the files, ENOTCONN when
 * the other end hung up, EPROTO when what came is no such message.
 */
bool receive_with_files(int sock, void *message, size_t len, std::span<Fd> files) noexcept;

} // namespace sirdma::twin
