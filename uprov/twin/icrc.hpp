/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC over a UDP socket. It covers IP and UDP header, which the
 * kernel writes: all of it is known or fixed but for the identification field
 * of IPv4, which is 0 in a datagram that may not be fragmented, and counts from
 * 0 over the segments of one send with UDP_SEGMENT. Other senders number freely.
 */
#pragma once

#include <cstdint>

#include "address.hpp"
#include "core.hpp"

namespace sirdma::twin
{

/* What the headers of a datagram depend on. */
struct Path {
	IpAddress src;
	IpAddress dst;
	uint16_t sport;
	uint16_t dport;

	size_t headers_len() const noexcept
	{
		return (src.is_v4() ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN) + SNIC_UDP_HLEN;
	}
};

inline constexpr size_t headers_len_max = SNIC_IPV6_HLEN + SNIC_UDP_HLEN;
/* Segments of one send, and so identifications Linux sockets use. */
inline constexpr uint16_t max_segments = SNIC_BURST_PKTS;

/* Write IP and UDP header of a datagram of @len bytes (BTH to ICRC) to @out. */
void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept;

/* CRC state after the headers and the BTH at @bth. */
uint32_t icrc_begin(const Path &path, uint16_t id, size_t len, const uint8_t *bth) noexcept;

/*
 * Is there an identification with which the ICRC at the end of the datagram
 * holds? It goes to @id, whose value on entry is the likely one. Whether to
 * believe it is up to IdFilter: any 16 bits match one packet in 65536.
 */
bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept;

/*
 * Which identifications are credible: the small ones of sockets, and from one
 * sender those that go on where it was. A sender that starts elsewhere is
 * believed from its second packet on.
 */
class IdFilter {
public:
	bool credible(const IpAddress &src, uint16_t id) noexcept;

private:
	struct Sender {
		IpAddress addr;
		uint16_t last = 0;
	};
	static constexpr size_t senders = 64; /* 6 bits of a hash */
	/* An increment beyond this is no sequence: other traffic of the sender counts too. */
	static constexpr uint16_t step_max = 512;

	Sender senders_[senders];
};

} // namespace sirdma::twin
