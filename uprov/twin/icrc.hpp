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
inline constexpr uint16_t max_segments = 64;

/* Write IP and UDP header of a datagram of @len bytes (BTH to ICRC) to @out. */
void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept;

/* @icrc begins with the headers and the BTH at @bth. */
void icrc_begin(snic_icrc &icrc, const Path &path, uint16_t id, size_t len,
		const uint8_t *bth) noexcept;
/* The ICRC of the datagram of @len bytes at @datagram, where it ends with one. */
uint32_t icrc_of(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept;

/*
 * Is there an identification with which the ICRC at the end of the datagram
 * holds? It goes to @id, whose value on entry is the likely one. Whether to
 * believe it is up to IdFilter: any 16 bits match one packet in 65536.
 */
bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept;

/*
 * Which of the identifications found are credible. For a damaged packet one is found with
 * a probability of 1 in 2^16, and may be any: so each that is believed adds 1 in 2^32 to the
 * probability that damage passes, which is 1 in 2^32 where the identification is known.
 *
 *   small ones   those of sockets, ours among them: max_segments
 *   sequences    a sender that counts, as Linux does for rdma_rxe: near its last one, by other
 *                traffic of it, by what was lost, overtaken (queue pairs of rdma_rxe overtake
 *                each other by 100) and by up to one in each tick it was silent.
 *                step_back + step_max + 1, and 1 more for each silent ms
 *   a first one  from a sender not heard before: 2^16. Otherwise its first packet would always
 *                be lost, and come again only after a timeout. Once for each place of the table
 *                in a device's life: who finds its place taken, or jumps, is believed from a
 *                second packet on that follows the first
 *
 * So damage passes with 1089 in 2^32 (1 in 3.9 million) while a sender talks, with 1 in 65536 after
 * a minute of silence, and in the 64 packets that are a first one. After a jump, or damage that
 * found an identification, what would go on from there is believed too: as many again.
 */
class IdFilter {
public:
	static constexpr uint32_t step_max = 512;
	static constexpr uint32_t step_back = 512;
	static constexpr uint64_t tick_ns = 1000000;
	static constexpr size_t places = 64; /* 6 bits of a hash */

	/* @now in ns. */
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
		Sequence other; /* may become one */
	};

	Place places_[places];
};

} // namespace sirdma::twin
