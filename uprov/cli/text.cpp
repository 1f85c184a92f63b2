/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "text.hpp"

#include <arpa/inet.h>
#include <cstdio>

namespace sirdma::cli
{

std::string hex_groups(const uint8_t *bytes, size_t count)
{
	std::string out;
	char group[8];

	for (size_t i = 0; i < count; i += 2) {
		snprintf(group, sizeof(group), "%s%02x%02x", i ? ":" : "", bytes[i], bytes[i + 1]);
		out += group;
	}
	return out;
}

std::string guid_text(uint64_t guid)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; ++i)
		bytes[i] = static_cast<uint8_t>(guid >> (56 - 8 * i));
	return hex_groups(bytes, sizeof(bytes));
}

std::string ipv4_of_gid(const std::string &gid)
{
	char text[INET_ADDRSTRLEN];
	in6_addr addr;

	if (inet_pton(AF_INET6, gid.c_str(), &addr) != 1 || !IN6_IS_ADDR_V4MAPPED(&addr))
		return {};
	return inet_ntop(AF_INET, &addr.s6_addr[12], text, sizeof(text));
}

} // namespace sirdma::cli
