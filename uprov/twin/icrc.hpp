/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC over a UDP socket. It covers the IP and UDP headers, which the kernel
 * writes. All their fields are known, except for the identification of IPv4. Linux sockets
 * send 0 in a datagram that must not be fragmented, and count from 0 over the segments of
 * one send with UDP_SEGMENT. Other senders use any numbers.
 */
#pragma once

#include <cstdint>

#include <sirdma/roce.h>

#include "address.hpp"
#include "core.hpp"

namespace sirdma::twin
{

/* The fields of the headers of a datagram that vary. */
struct Path {
	IpAddress src;
	IpAddress dst;
	uint16_t sport;
	uint16_t dport;
	uint8_t traffic_class = 0;
	uint8_t hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;

	size_t headers_len() const noexcept
	{
		return (src.is_v4() ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN) + SNIC_UDP_HLEN;
	}
};

inline constexpr size_t headers_len_max = SNIC_IPV6_HLEN + SNIC_UDP_HLEN;
/* Segments of one send, and so the number of identifications that Linux sockets use. */
inline constexpr uint16_t max_segments = 64;

/* Write the IP and UDP headers of a datagram of @len bytes (BTH to ICRC) to @out. */
void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept;

/* Begin @icrc with the headers and the BTH at @bth. */
void icrc_begin(snic_icrc &icrc, const Path &path, uint16_t id, size_t len,
		const uint8_t *bth) noexcept;
/* Compute the ICRC of the datagram of @len bytes at @datagram, which includes room for it. */
uint32_t icrc_of(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept;

/*
 * Find an identification with which the ICRC at the end of the datagram is right, and store it in
 * @id, which contains the likely one on entry. Returns false if there is none. IdFilter decides
 * whether it is credible, because a damaged packet has one with a probability of 1 in 65536.
 */
bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept;

/*
 * Decides which identifications are credible. For a damaged packet icrc_holds() finds one
 * with a probability of 1 in 2^16, and each number is as likely as any other. So each number
 * that is accepted adds 1 in 2^32 to the probability that a damaged packet is accepted, which
 * is 1 in 2^32 if the identification is known.
 *
 * It accepts:
 *   small ones   identifications of UDP sockets, such as those of the twin: max_segments
 *   sequences    of a sender that counts, as Linux does for rdma_rxe: numbers near the last
 *                one. They differ by other traffic of the sender, by lost packets, by packets
 *                that overtook (queue pairs of rdma_rxe overtake each other by 100), and by
 *                up to one for each tick without a packet.
 *                step_back + step_max + 1, and 1 more for each ms without a packet
 *   a first one  of a new sender: 2^16. Otherwise its first packet would always be lost, and
 *                be repeated only after a timeout. Once for each place of the table in the
 *                life of a device: from a sender whose place is in use, or whose numbers jump,
 *                a second packet that continues the sequence is accepted
 *
 * So a damaged packet is accepted with a probability of 1089 in 2^32 (1 in 3.9 million) while
 * a sender sends, and of 1 in 65536 after a minute without packets and for the 64 first ones.
 * After a jump, or a damaged packet with a valid identification, numbers that continue from
 * there are accepted too: as many again.
 */
class IdFilter {
public:
	static constexpr uint32_t step_max = 512;
	static constexpr uint32_t step_back = 512;
	static constexpr uint64_t tick_ns = 1000000;
	static constexpr size_t places = 64; /* 6 bits of a hash */

	/* @now is in ns. */
	bool credible(const IpAddress &src, uint16_t id, uint64_t now) noexcept;

private:
	struct Sequence {
		IpAddress src;
		uint16_t last = 0;
		uint64_t at = 0;

		bool take(const IpAddress &from, uint16_t id, uint64_t now) noexcept;
	};
	struct Place {
		Sequence believed;
		Sequence other; /* the sequence began with one packet, and is not accepted yet */
	};

	Place places_[places];
};

} // namespace sirdma::twin
