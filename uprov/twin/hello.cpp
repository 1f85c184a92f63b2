/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hello.hpp"

#include <cerrno>

#include "file_message.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin
{

bool send_hello(int sock, const Hello &hello, int rings) noexcept
{
	return send_with_files(sock, &hello, sizeof(hello), {&rings, 1});
}

bool receive_hello(int sock, Hello &hello, Fd &rings) noexcept
{
	if (!receive_with_files(sock, &hello, sizeof(hello), {&rings, 1})) {
		errno = errno == EMFILE ? EPROTO : errno;
		return false;
	}
	errno = EPROTO;
	return hello.magic == hello_magic && hello.ring_size == ring_bytes &&
	       hello.slot < num_slots;
}

} // namespace sirdma::twin
