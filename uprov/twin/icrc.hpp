/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC over a UDP socket. It covers IP and UDP header, which the
 * kernel writes: all of it is known or fixed but for the identification field,
 * which is 0 in a datagram that may not be fragmented, and counts from 0 over
 * the segments of one send with UDP_SEGMENT.
 */
#pragma once

#include <cstdint>
#include <netinet/in.h>

#include "core.hpp"

namespace sirdma::twin
{

/* What the headers of a datagram depend on. */
struct Path {
	in_addr src;
	in_addr dst;
	uint16_t sport;
	uint16_t dport;
};

inline constexpr size_t headers_len = SNIC_IPV4_HLEN + SNIC_UDP_HLEN;
/* Segments of one send, and so identifications worth a try. */
inline constexpr uint16_t max_segments = SNIC_BURST_PKTS;

/* Write IP and UDP header of a datagram of @len bytes (BTH to ICRC) to @out. */
void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept;

/* CRC state after the headers and the BTH at @bth. */
uint32_t icrc_begin(const Path &path, uint16_t id, size_t len, const uint8_t *bth) noexcept;

/*
 * Does the ICRC at the end of the datagram hold, with identification @id or any
 * other below max_segments? @id becomes the one that did.
 */
bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept;

} // namespace sirdma::twin
