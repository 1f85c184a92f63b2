/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Record of the packets sent and received, for Wireshark. Processes may share a file:
 * each packet is appended in one piece, and the file is whole whenever one is killed.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fd.hpp"
#include "icrc.hpp"

namespace sirdma::twin
{

class PcapWriter {
public:
	/*
	 * Null, with a message on stderr, when the file cannot be made. %p in @name is the
	 * process id: such a file begins anew, unless another process (of that number, in
	 * another namespace) is writing to it.
	 */
	static std::unique_ptr<PcapWriter> create(const std::string &name);

	/* @datagram: BTH to ICRC. */
	void write(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept;

	/* The same, with an ICRC as it would have travelled. */
	void write_unsummed(const Path &path, const uint8_t *datagram, size_t len) noexcept;

private:
	explicit PcapWriter(Fd file) noexcept : file_(std::move(file)) {}

	void append(const Path &path, uint16_t id, const uint8_t *datagram, size_t len,
		    const void *icrc) noexcept;

	const Fd file_;
};

} // namespace sirdma::twin
