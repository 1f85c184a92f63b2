/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Identifiers as the kernel writes them in sysfs. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sirdma::cli
{

/* Groups of four hexadecimal digits, like those of a GID. */
std::string hex_groups(const uint8_t *bytes, size_t count);
std::string guid_text(uint64_t guid);
/*
 * The IPv4 address in @gid, which is eight such groups. It is empty if the GID has no IPv4 address.
 */
std::string ipv4_of_gid(const std::string &gid);

} // namespace sirdma::cli
