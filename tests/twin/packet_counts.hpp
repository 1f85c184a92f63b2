/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counts what neighbours send, whatever it is. */
#pragma once

#include <atomic>

#include "connection.hpp"

namespace sirdma::twin::test
{

struct Counts final : PacketSink {
	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override { ++seen; }
	void packet(const IpAddress &, uint8_t *, size_t, uint8_t, bool) noexcept override
	{
		++seen;
	}
	void packet(const IpAddress &, const SuperPacket &, bool) noexcept override { ++seen; }
	void malformed() noexcept override { ++seen; }
	void end_batch() noexcept override {}

	std::atomic<u32> seen{0};
};

} // namespace sirdma::twin::test
