/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "icrc.hpp"

#include <arpa/inet.h>
#include <cstring>

namespace sirdma::twin
{

namespace
{

constexpr uint32_t poly = 0xedb88320; /* CRC-32, reflected: x^0 is the top bit */
constexpr uint8_t version_ihl = 0x45;
constexpr uint16_t dont_fragment = 0x4000;
constexpr uint8_t ttl = 64;

void put16(uint8_t *p, uint16_t value) noexcept
{
	p[0] = static_cast<uint8_t>(value >> 8);
	p[1] = static_cast<uint8_t>(value);
}

/* Product of two polynomials modulo the CRC's. */
uint32_t multiply(uint32_t a, uint32_t b) noexcept
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		if (a & 0x80000000u)
			product ^= b;
		b = b & 1 ? b >> 1 ^ poly : b >> 1;
	}
	return product;
}

/* x^(8 * bytes): what @bytes further bytes multiply a CRC state with. */
uint32_t power_of_bytes(size_t bytes) noexcept
{
	uint32_t result = 0x80000000u; /* 1 */
	uint32_t base = 0x00800000u; /* x^8 */

	for (; bytes; bytes >>= 1) {
		if (bytes & 1)
			result = multiply(base, result);
		base = multiply(base, base);
	}
	return result;
}

} // namespace

void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept
{
	uint8_t *udp = out + SNIC_IPV4_HLEN;

	memset(out, 0, headers_len);
	out[0] = version_ihl;
	put16(out + 2, static_cast<uint16_t>(headers_len + len));
	put16(out + 4, id);
	put16(out + 6, dont_fragment);
	out[8] = ttl;
	out[9] = IPPROTO_UDP;
	memcpy(out + 12, &path.src, sizeof(path.src));
	memcpy(out + 16, &path.dst, sizeof(path.dst));
	put16(udp, path.sport);
	put16(udp + 2, path.dport);
	put16(udp + 4, static_cast<uint16_t>(SNIC_UDP_HLEN + len));
}

uint32_t icrc_begin(const Path &path, uint16_t id, size_t len, const uint8_t *bth) noexcept
{
	uint8_t bytes[headers_len + sizeof(sirdma_bth)];

	put_headers(path, id, len, bytes);
	memcpy(bytes + headers_len, bth, sizeof(sirdma_bth));
	return snic_icrc_start(bytes, true);
}

bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept
{
	if (len < sizeof(sirdma_bth) + SIRDMA_ICRC_LEN)
		return false;

	const u32 rest = static_cast<u32>(len - sizeof(sirdma_bth) - SIRDMA_ICRC_LEN);
	const uint32_t first = icrc_begin(path, id, len, datagram);
	const uint32_t last = snic_icrc_update(first, datagram + sizeof(sirdma_bth), rest);
	uint32_t stored;

	memcpy(&stored, datagram + len - SIRDMA_ICRC_LEN, sizeof(stored));
	if (snic_icrc_final(last) == stored)
		return true;
	/*
	 * The CRC is linear: the state after the rest is the state before it, times a
	 * power of x, plus what the rest adds. So no other id needs the rest again.
	 */
	const uint32_t factor = power_of_bytes(rest);
	const uint32_t wanted = snic_icrc_final(stored) ^ last ^ multiply(factor, first);

	for (uint16_t other = 0; other < max_segments; ++other) {
		if (multiply(factor, icrc_begin(path, other, len, datagram)) == wanted) {
			id = other;
			return true;
		}
	}
	return false;
}

} // namespace sirdma::twin
