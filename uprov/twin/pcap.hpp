/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Capture of the packets sent and received, for Wireshark. Processes may share a file: each
 * packet is appended by one write, so the file stays valid when a process is killed.
 */
#pragma once

#include <atomic>
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
	 * Null, with a message on stderr, if the file cannot be created. %p in @name is the
	 * process id. Such a file is truncated, unless another process is writing to it, which
	 * has the same id in another PID namespace.
	 */
	static std::unique_ptr<PcapWriter> create(const std::string &name);

	/* @datagram has all bytes from the BTH to the ICRC. */
	void write(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept;

	/* The same for a packet without an ICRC. The function computes the ICRC. */
	void write_unsummed(const Path &path, const uint8_t *datagram, size_t len) noexcept;

private:
	PcapWriter(Fd file, const std::string &path, bool is_pipe)
		: file_(std::move(file)), path_(path), is_pipe_(is_pipe)
	{
	}

	/* Say once on stderr that a write failed. */
	void report(int err) noexcept;
	void append(const Path &path, uint16_t id, const uint8_t *datagram, size_t len,
		    const void *icrc) noexcept;

	const Fd file_;
	const std::string path_;
	const bool is_pipe_;
	std::atomic<bool> reported_{false};
};

} // namespace sirdma::twin
