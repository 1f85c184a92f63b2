/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "icrc.hpp"

#include <cstring>
#include <iterator>
#include <utility>

namespace sirdma::twin
{

namespace
{

constexpr uint32_t poly = 0xedb88320; /* CRC-32, reflected: x^0 is the top bit */
constexpr uint8_t version_ihl = 0x45;
constexpr uint8_t version_6 = 0x60;
constexpr size_t ipv4_id = 4;
constexpr uint16_t dont_fragment = 0x4000;

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

/* The order of x, since the polynomial is primitive. */
constexpr uint32_t order = 0xffffffff;

uint32_t power(uint32_t exponent) noexcept
{
	uint32_t result = 0x80000000u; /* 1 */
	uint32_t base = 0x40000000u; /* x */

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			result = multiply(base, result);
		base = multiply(base, base);
	}
	return result;
}

/* x^(-8 * 2^i): multiplying by it removes 2^i zero bytes from the end. */
struct Inverses {
	uint32_t of[17];

	Inverses() noexcept
	{
		for (unsigned i = 0; i < std::size(of); ++i)
			of[i] = power(order - (8u << i));
	}
};

/* The CRC state that becomes @state after @bytes zero bytes follow. */
uint32_t rewind(uint32_t state, size_t bytes) noexcept
{
	static const Inverses inverses;

	for (unsigned i = 0; bytes; ++i, bytes >>= 1)
		if (bytes & 1)
			state = multiply(inverses.of[i], state);
	return state;
}

void put_ipv4(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept
{
	const in_addr src = path.src.v4(), dst = path.dst.v4();

	out[0] = version_ihl;
	out[1] = path.traffic_class;
	put16(out + 2, static_cast<uint16_t>(SNIC_IPV4_HLEN + SNIC_UDP_HLEN + len));
	put16(out + ipv4_id, id);
	put16(out + 6, dont_fragment);
	out[8] = path.hop_limit;
	out[9] = IPPROTO_UDP;
	memcpy(out + 12, &src, sizeof(src));
	memcpy(out + 16, &dst, sizeof(dst));
}

void put_ipv6(const Path &path, size_t len, uint8_t *out) noexcept
{
	put16(out, static_cast<uint16_t>(version_6 << 8 | path.traffic_class << 4));
	put16(out + 4, static_cast<uint16_t>(SNIC_UDP_HLEN + len));
	out[6] = IPPROTO_UDP;
	out[7] = path.hop_limit;
	memcpy(out + 8, path.src.ip().b, sizeof(path.src.ip().b));
	memcpy(out + 24, path.dst.ip().b, sizeof(path.dst.ip().b));
}

} // namespace

void put_headers(const Path &path, uint16_t id, size_t len, uint8_t *out) noexcept
{
	const bool v4 = path.src.is_v4();
	uint8_t *udp = out + (v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN);

	memset(out, 0, path.headers_len());
	if (v4)
		put_ipv4(path, id, len, out);
	else
		put_ipv6(path, len, out);
	put16(udp, path.sport);
	put16(udp + 2, path.dport);
	put16(udp + 4, static_cast<uint16_t>(SNIC_UDP_HLEN + len));
}

void icrc_begin(snic_icrc &icrc, const Path &path, uint16_t id, size_t len,
		const uint8_t *bth) noexcept
{
	uint8_t bytes[headers_len_max + sizeof(sirdma_bth)];

	put_headers(path, id, len, bytes);
	memcpy(bytes + path.headers_len(), bth, sizeof(sirdma_bth));
	snic_icrc_start(&icrc, bytes, path.src.is_v4());
}

uint32_t icrc_of(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept
{
	snic_icrc icrc;

	icrc_begin(icrc, path, id, len, datagram);
	snic_icrc_update(&icrc, datagram + sizeof(sirdma_bth),
			 static_cast<u32>(len - sizeof(sirdma_bth) - SIRDMA_ICRC_LEN));
	return snic_icrc_final(&icrc);
}

bool icrc_holds(const Path &path, const uint8_t *datagram, size_t len, uint16_t &id) noexcept
{
	if (len < sizeof(sirdma_bth) + SIRDMA_ICRC_LEN)
		return false;

	uint32_t stored;

	memcpy(&stored, datagram + len - SIRDMA_ICRC_LEN, sizeof(stored));

	const uint32_t difference = icrc_of(path, id, datagram, len) ^ stored;

	if (!difference)
		return true;
	if (!path.src.is_v4())
		return false;
	/*
	 * The CRC is linear: a change of the identification changes the state by the bits that
	 * differ, multiplied by x for each bit after them. Divide the difference of the states
	 * by that power of x: if only bits of the identification remain, they are the change.
	 */
	const size_t after_id = path.headers_len() - ipv4_id + len - SIRDMA_ICRC_LEN;
	const uint32_t bits = rewind(difference, after_id);

	if (bits >> 16)
		return false;
	id = static_cast<uint16_t>(id ^ (bits & 0xff) << 8 ^ bits >> 8);
	return true;
}

/* Does @id continue the sequence? If it does, it becomes the last number of the sequence. */
bool IdFilter::Sequence::take(const IpAddress &from, uint16_t id, uint64_t now) noexcept
{
	const uint16_t ahead = static_cast<uint16_t>(id - last + step_back);

	if (!(src == from) || ahead > step_back + step_max + (now - at) / tick_ns)
		return false;
	if (ahead > step_back)
		last = id;
	at = now;
	return true;
}

bool IdFilter::credible(const IpAddress &src, uint16_t id, uint64_t now) noexcept
{
	if (id < max_segments)
		return true;

	uint32_t hash;

	memcpy(&hash, src.ip().b + 12, sizeof(hash));

	Place &place = places_[hash * 0x9e3779b9u >> 26];

	if (place.believed.take(src, id, now))
		return true;
	if (place.other.take(src, id, now)) {
		std::swap(place.believed, place.other);
		return true;
	}

	const bool first = place.believed.src.any();

	(first ? place.believed : place.other) = {.src = src, .last = id, .at = now};
	return first;
}

} // namespace sirdma::twin
