/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The identifiers of devices besides their addresses. They follow from the addresses. */
#pragma once

#include <array>
#include <cstdint>

#include "address.hpp"

namespace sirdma::twin
{

/* A locally administered address. Different IPv4 addresses give different ones. */
inline std::array<uint8_t, 6> device_mac(const IpAddress &addr) noexcept
{
	std::array<uint8_t, 6> mac = {0x02, 0x53, 0, 0, 0, 0};

	for (size_t i = addr.is_v4() ? 12 : 0; i < sizeof(addr.ip().b); ++i)
		mac[2 + i % 4] ^= addr.ip().b[i];
	return mac;
}

/* EUI-64 of the MAC address. */
inline uint64_t device_guid(const IpAddress &addr) noexcept
{
	const std::array<uint8_t, 6> mac = device_mac(addr);
	const uint8_t eui[8] = {static_cast<uint8_t>(mac[0] ^ 2),
				mac[1],
				mac[2],
				0xff,
				0xfe,
				mac[3],
				mac[4],
				mac[5]};
	uint64_t guid = 0;

	for (const uint8_t byte : eui)
		guid = guid << 8 | byte;
	return guid;
}

} // namespace sirdma::twin
