/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Record of the packets sent and received, for Wireshark. */
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "icrc.hpp"

namespace sirdma::twin
{

class PcapWriter {
public:
	/* Null, with a message on stderr, when the file cannot be made. %p in @name is the process id. */
	static std::unique_ptr<PcapWriter> create(const std::string &name);

	/* @datagram: BTH to ICRC. */
	void write(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept;

	/* The same, with an ICRC as it would have travelled. */
	void write_unsummed(const Path &path, const uint8_t *datagram, size_t len) noexcept;

private:
	struct Close {
		void operator()(FILE *file) const noexcept { fclose(file); }
	};

	explicit PcapWriter(FILE *file) noexcept : file_(file) {}

	std::mutex lock_; /* protects the file's order */
	std::unique_ptr<FILE, Close> file_;
};

} // namespace sirdma::twin
