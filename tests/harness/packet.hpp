// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// RoCEv2 packets as bytes of Ethernet frames, parsed and checked without the model's code.
#pragma once

#include "c_api.hpp"

namespace sirdma::test
{

sirdma_ip ip4(u8 a, u8 b, u8 c, u8 d);
// fd00::<low>
sirdma_ip ip6(u16 low);

// A frame as it crossed the fabric, taken apart.
struct Packet {
	std::vector<u8> bytes; // from the Ethernet header to the ICRC
	size_t ip = 0; // offsets
	size_t bth = 0;
	bool is_v4 = false;

	sirdma_ip src_ip() const { return address(false); }
	sirdma_ip dst_ip() const { return address(true); }
	// 0: untagged, or tagged for its priority only.
	u16 vlan_id() const
	{
		return ip == 14 ? u16{0} : static_cast<u16>((bytes[14] << 8 | bytes[15]) & 0xfff);
	}
	u8 opcode() const { return bytes[bth]; }
	u32 qpn() const { return be24(bth + 5); }
	u32 psn() const { return be24(bth + 9); }
	bool ack_req() const { return bytes[bth + 8] & 0x80; }
	u32 be24(size_t off) const
	{
		return u32{bytes[off]} << 16 | u32{bytes[off + 1]} << 8 | bytes[off + 2];
	}
	u32 be32(size_t off) const { return u32{bytes[off]} << 24 | be24(off + 1); }
	// BTH up to, but without, the ICRC.
	std::span<const u8> transport() const
	{
		return {bytes.data() + bth, bytes.size() - bth - SIRDMA_ICRC_LEN};
	}

private:
	sirdma_ip address(bool dst) const;
};

// Fills in the offsets; false when these bytes are no RoCEv2 packet with intact IP and UDP headers.
bool parse_frame(Packet &pkt);
// Write the right checksum into the IPv4 header at @ip, which has no options.
void seal_ipv4(u8 *ip);
// ICRC of a parsed packet, computed byte by byte from the rules of annex A17.3.3.
u32 reference_icrc(const Packet &pkt);
// Write the right ICRC into the last four bytes.
void seal(Packet &pkt);
bool icrc_is_right(const Packet &pkt);

} // namespace sirdma::test
