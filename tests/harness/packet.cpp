// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "packet.hpp"

namespace sirdma::test
{

sirdma_ip ip4(u8 a, u8 b, u8 c, u8 d)
{
	return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
}

sirdma_ip ip6(u16 low)
{
	return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<u8>(low >> 8),
		 static_cast<u8>(low)}};
}

namespace
{

u16 be16(const std::vector<u8> &b, size_t off)
{
	return static_cast<u16>(b[off] << 8 | b[off + 1]);
}

u16 ipv4_sum(const u8 *ip, size_t len)
{
	u32 sum = 0;

	for (size_t i = 0; i < len; i += 2)
		sum += static_cast<u32>(ip[i] << 8 | ip[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return static_cast<u16>(sum);
}

bool parse_ipv4(Packet &pkt, size_t &udp, size_t &ip_len)
{
	const auto &b = pkt.bytes;
	size_t off = pkt.ip;

	if (b.size() < off + 20 || b[off] != 0x45)
		return false;
	if (ipv4_sum(&b[off], 20) != 0xffff)
		return false;
	if (be16(b, off + 6) & 0x3fff || b[off + 9] != 17) // a fragment, or not UDP
		return false;
	ip_len = be16(b, off + 2);
	udp = off + 20;
	return true;
}

bool parse_ipv6(Packet &pkt, size_t &udp, size_t &ip_len)
{
	const auto &b = pkt.bytes;
	size_t off = pkt.ip;

	if (b.size() < off + 40 || b[off] >> 4 != 6 || b[off + 6] != 17)
		return false;
	ip_len = be16(b, off + 4) + 40u;
	udp = off + 40;
	return true;
}

u32 crc_byte(u32 crc, u8 byte)
{
	static const auto table = [] {
		std::array<u32, 256> t{};
		for (u32 i = 0; i < 256; i++) {
			u32 c = i;
			for (int bit = 0; bit < 8; bit++)
				c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
			t[i] = c;
		}
		return t;
	}();

	return table[(crc ^ byte) & 0xff] ^ crc >> 8;
}

} // namespace

sirdma_ip Packet::address(bool dst) const
{
	sirdma_ip addr{};
	const u8 *h = bytes.data() + ip;

	if (is_v4)
		addr = ip4(h[12 + dst * 4], h[13 + dst * 4], h[14 + dst * 4], h[15 + dst * 4]);
	else
		memcpy(addr.b, h + 8 + dst * 16, 16);
	return addr;
}

void seal_ipv4(u8 *ip)
{
	ip[10] = ip[11] = 0;

	const u16 sum = static_cast<u16>(~ipv4_sum(ip, 20));

	ip[10] = static_cast<u8>(sum >> 8);
	ip[11] = static_cast<u8>(sum);
}

bool parse_frame(Packet &pkt)
{
	const auto &b = pkt.bytes;
	size_t udp = 0, ip_len = 0;
	u16 type;

	if (b.size() < 18)
		return false;
	pkt.ip = 14;
	type = be16(b, 12);
	if (type == 0x8100) {
		type = be16(b, 16);
		pkt.ip = 18;
	}
	pkt.is_v4 = type == 0x0800;
	if (!pkt.is_v4 && type != 0x86dd)
		return false;
	if (!(pkt.is_v4 ? parse_ipv4(pkt, udp, ip_len) : parse_ipv6(pkt, udp, ip_len)))
		return false;
	if (pkt.ip + ip_len != b.size() || b.size() < udp + 8)
		return false;
	if (be16(b, udp + 2) != SIRDMA_ROCE_UDP_PORT || be16(b, udp + 4) != b.size() - udp)
		return false;
	pkt.bth = udp + 8;
	return b.size() >= pkt.bth + SIRDMA_ICRC_LEN;
}

u32 reference_icrc(const Packet &pkt)
{
	std::vector<u8> m(pkt.bytes.begin() + static_cast<long>(pkt.ip), pkt.bytes.end() - 4);
	size_t udp = pkt.is_v4 ? 20 : 40;
	u32 crc = 0xffffffff;

	if (pkt.is_v4) {
		m[1] = m[8] = m[10] = m[11] = 0xff; // TOS, TTL, checksum
	} else {
		m[0] |= 0x0f; // traffic class and flow label
		m[1] = m[2] = m[3] = 0xff;
		m[7] = 0xff; // hop limit
	}
	m[udp + 6] = m[udp + 7] = 0xff; // UDP checksum
	if (m.size() > udp + 8 + 4)
		m[udp + 8 + 4] = 0xff; // BTH resv8a
	for (int i = 0; i < 8; i++)
		crc = crc_byte(crc, 0xff);
	for (u8 byte : m)
		crc = crc_byte(crc, byte);
	return ~crc;
}

void seal(Packet &pkt)
{
	u32 icrc = reference_icrc(pkt);

	for (size_t i = 0; i < 4; i++)
		pkt.bytes[pkt.bytes.size() - 4 + i] = static_cast<u8>(icrc >> (8 * i));
}

bool icrc_is_right(const Packet &pkt)
{
	u32 icrc = 0;

	for (size_t i = 4; i-- > 0;)
		icrc = icrc << 8 | pkt.bytes[pkt.bytes.size() - 4 + i];
	return icrc == reference_icrc(pkt);
}

} // namespace sirdma::test
