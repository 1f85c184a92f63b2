/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The message that a connecting process sends: who it is, and the file of the rings to use. */
#pragma once

#include <sirdma/roce.h>

#include "fd.hpp"
#include "shm_ring.hpp"

namespace sirdma::twin
{

/* A change of the layout of memory that processes share changes this number. */
inline constexpr uint32_t hello_magic = 0x53520007;

struct Hello {
	uint32_t magic = hello_magic;
	uint32_t slot;
	uint32_t scope;
	sirdma_ip addr;
	uint32_t ring_size = ring_bytes;
};

static_assert(sizeof(Hello) == 32);

bool send_hello(int sock, const Hello &hello, int rings) noexcept;
/*
 * Returns false with errno: EAGAIN: nothing came yet; ENOTCONN: the other end closed the
 * connection; EPROTO: it is not a hello with a file.
 */
bool receive_hello(int sock, Hello &hello, Fd &rings) noexcept;

} // namespace sirdma::twin
