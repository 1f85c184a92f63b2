// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Frames, byte by byte, against packets that scapy's RoCE layer made (IPv4: its own
// ICRC; IPv6: its IP layer, and zlib's CRC-32 over the bytes masked as annex A17.3.3 says).
#include "fabric.hpp"

using namespace sirdma::test;

namespace
{

// Payload byte i is 7 * i + 3. Hosts: 02:aa:bb:cc:dd:ee -> 02:11:22:33:44:55.
const char ipv4_send[] = "02112233445502aabbccddee08004500003c000040004011a5fb0a010203c0a8"
			 "c809d12312b70028000004f0ffff0000123480abcdef030a11181f262d343b42"
			 "495057000000ca213e18";

const char ipv4_write_tos[] = "02112233445502aabbccddee08004568007c000040000311e2530a010203c0a8"
			      "c809d12312b7006800000a40ffff0000123400abcdef00007f001122334400ca"
			      "fe5a000003e8030a11181f262d343b424950575e656c737a81888f969da4abb2"
			      "b9c0c7ced5dce3eaf1f8ff060d141b222930373e454c535a61686f767d848b92"
			      "99a0a7aeb5bc8f2ec1e6";

const char ipv4_ack_vlan[] = "02112233445502aabbccddee8100a064080045000030000040004011a6070a01"
			     "0203c0a8c809d12312b7001c00001140ffff0000123400abcdef1f000102cb44"
			     "7b6a";

const char ipv6_write[] = "02112233445502aabbccddee86dd6b8abcde00401107fd000000000000000000"
			  "00000001000220010db8000000000000000000000009d12312b7004000000a70"
			  "ffff0000123480abcdef00007f001122334400cafe5a000003e8030a11181f26"
			  "2d343b424950575e656c737a81888f000000849f466b";

const char ipv6_send_vlan[] = "02112233445502aabbccddee81006fa086dd6000000001181140fd0000000000"
			      "0000000000000001000220010db8000000000000000000000009d12312b70118"
			      "00000440ffff0000123480abcdef030a11181f262d343b424950575e656c737a"
			      "81888f969da4abb2b9c0c7ced5dce3eaf1f8ff060d141b222930373e454c535a"
			      "61686f767d848b9299a0a7aeb5bcc3cad1d8dfe6edf4fb020910171e252c333a"
			      "41484f565d646b727980878e959ca3aab1b8bfc6cdd4dbe2e9f0f7fe050c131a"
			      "21282f363d444b525960676e757c838a91989fa6adb4bbc2c9d0d7dee5ecf3fa"
			      "01080f161d242b323940474e555c636a71787f868d949ba2a9b0b7bec5ccd3da"
			      "e1e8eff6fd040b121920272e353c434a51585f666d747b828990979ea5acb3ba"
			      "c1c8cfd6dde4ebf2f900070e151c232a31383f464d545b626970777e858c939a"
			      "a1a8afb6bdc4cbd2d9e0e7eef5fc35603b5e";
std::vector<u8> from_hex(const char *hex)
{
	std::vector<u8> out;

	for (; *hex; hex += 2) {
		const char pair[3] = {hex[0], hex[1], 0};
		out.push_back(static_cast<u8>(strtoul(pair, nullptr, 16)));
	}
	return out;
}

snic_flow v4_flow()
{
	snic_flow flow{};

	flow.src_ip = ip4(10, 1, 2, 3);
	flow.dst_ip = ip4(192, 168, 200, 9);
	memcpy(flow.src_mac, "\x02\xaa\xbb\xcc\xdd\xee", 6);
	memcpy(flow.dst_mac, "\x02\x11\x22\x33\x44\x55", 6);
	flow.udp_sport = 0xd123;
	flow.is_v4 = true;
	flow.hop_limit = 64;
	return flow;
}

snic_flow v6_flow()
{
	snic_flow flow = v4_flow();

	flow.is_v4 = false;
	flow.src_ip = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2}};
	flow.dst_ip = {{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
	return flow;
}

snic_tx_pkt packet(u8 opcode, u8 flags, bool ack_req, std::vector<u8> ext, u16 payload)
{
	snic_tx_pkt pkt{};
	sirdma_bth bth{};

	pkt.pad = -payload & 3;
	bth.opcode = opcode;
	bth.flags = flags | pkt.pad << SIRDMA_BTH_PAD_SHIFT;
	bth.pkey = 0xffff;
	bth.qpn = cpu_to_be32(0x1234);
	bth.apsn = cpu_to_be32((ack_req ? SIRDMA_BTH_ACKREQ : 0) | 0xabcdef);
	memcpy(pkt.hdr, &bth, sizeof(bth));
	std::copy(ext.begin(), ext.end(), pkt.hdr + sizeof(bth));
	pkt.hdr_len = static_cast<u8>(sizeof(bth) + ext.size());
	pkt.payload_len = payload;
	return pkt;
}

const std::vector<u8> reth = {0, 0,    0x7f, 0,	   0x11, 0x22, 0x33, 0x44,
			      0, 0xca, 0xfe, 0x5a, 0,	 0,    3,    0xe8};
const std::vector<u8> aeth = {0x1f, 0, 1, 2};

// The frame, with the payload cut into segments at the given places.
std::vector<u8> build(const snic_flow &flow, const snic_tx_pkt &pkt, std::vector<u32> cuts = {})
{
	std::vector<u8> payload(pkt.payload_len), out(SNIC_FRAME_MAX_HLEN + 4500, 0xee);
	std::vector<snic_seg> segs;
	snic_seg_iter it{};
	u32 at = 0;

	for (size_t i = 0; i < payload.size(); i++)
		payload[i] = static_cast<u8>(7 * i + 3);
	cuts.push_back(pkt.payload_len);
	for (u32 cut : cuts) {
		segs.push_back({payload.data() + at, cut - at});
		at = cut;
	}
	it.seg = segs.data();
	u32 eth = snic_frame_eth(&flow, true, out.data());
	u32 len = snic_frame_ip(&flow, &pkt, &it, out.data() + eth);
	EXPECT_EQ(len, snic_ip_len(&flow, &pkt));
	EXPECT_EQ(out[eth + len], 0xee) << "wrote beyond the packet";
	out.resize(eth + len);
	return out;
}

} // namespace

TEST(Frame, Ipv4SendMatchesScapy)
{
	auto pkt = packet(SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_SE | SIRDMA_BTH_MIGREQ, true, {}, 13);

	EXPECT_EQ(build(v4_flow(), pkt), from_hex(ipv4_send));
}

TEST(Frame, Ipv4WriteWithTosAndTtlMatchesScapy)
{
	auto pkt = packet(SIRDMA_BTH_WRITE_ONLY, SIRDMA_BTH_MIGREQ, false, reth, 64);
	auto flow = v4_flow();

	flow.traffic_class = 0x68;
	flow.hop_limit = 3;
	EXPECT_EQ(build(flow, pkt), from_hex(ipv4_write_tos));
}

TEST(Frame, Ipv4VlanAckMatchesScapy)
{
	auto pkt = packet(SIRDMA_BTH_ACK, SIRDMA_BTH_MIGREQ, false, aeth, 0);
	auto flow = v4_flow();

	flow.has_vlan = true;
	flow.vlan_id = 100;
	flow.vlan_prio = 5;
	EXPECT_EQ(build(flow, pkt), from_hex(ipv4_ack_vlan));
}

TEST(Frame, Ipv6WriteWithFlowLabelMatchesScapy)
{
	auto pkt = packet(SIRDMA_BTH_WRITE_ONLY, SIRDMA_BTH_MIGREQ, true, reth, 21);
	auto flow = v6_flow();

	flow.traffic_class = 0xb8;
	flow.hop_limit = 7;
	flow.flow_label = 0xabcde;
	EXPECT_EQ(build(flow, pkt), from_hex(ipv6_write));
}

TEST(Frame, Ipv6VlanSendMatchesScapy)
{
	auto pkt = packet(SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_MIGREQ, true, {}, 256);
	auto flow = v6_flow();

	flow.has_vlan = true;
	flow.vlan_id = 4000;
	flow.vlan_prio = 3;
	EXPECT_EQ(build(flow, pkt), from_hex(ipv6_send_vlan));
	EXPECT_EQ(snic_frame_eth(&flow, false, std::array<u8, 32>{}.data()), SNIC_ETH_HLEN)
		<< "a tag the host inserts is not in the frame";
}

TEST(Frame, SegmentsDoNotChangeTheBytes)
{
	auto pkt = packet(SIRDMA_BTH_SEND_ONLY, SIRDMA_BTH_MIGREQ, true, {}, 1021);
	auto whole = build(v4_flow(), pkt);

	EXPECT_EQ(build(v4_flow(), pkt, {1, 2, 2, 9, 500, 1020}), whole);
	EXPECT_EQ(build(v4_flow(), pkt, {7, 64, 333, 1021}), whole);
}

TEST(Frame, FieldsThatChangeOnTheWayDoNotChangeTheIcrc)
{
	for (const char *hex :
	     {ipv4_send, ipv4_write_tos, ipv4_ack_vlan, ipv6_write, ipv6_send_vlan}) {
		Packet pkt;
		pkt.bytes = from_hex(hex);
		ASSERT_TRUE(parse_frame(pkt));
		u32 icrc = 0;
		memcpy(&icrc, pkt.bytes.data() + pkt.bytes.size() - 4, 4);
		auto model_icrc = [&] {
			snic_icrc sum;
			snic_icrc_start(&sum, pkt.bytes.data() + pkt.ip, pkt.is_v4);
			snic_icrc_update(&sum, pkt.bytes.data() + pkt.bth + 12,
					 pkt.bytes.size() - pkt.bth - 12 - 4);
			return snic_icrc_final(&sum);
		};
		EXPECT_EQ(model_icrc(), icrc);
		EXPECT_EQ(reference_icrc(pkt), icrc) << "the harness must agree, too";
		std::set<size_t> free; // offsets from the IP header whose bits do not count
		if (pkt.is_v4)
			free = {1, 8, 10, 11, 26, 27, 32};
		else
			free = {1, 2, 3, 7, 46, 47, 52};
		for (size_t i = 0; i < pkt.bytes.size() - pkt.ip - 4; i++) {
			u8 &byte = pkt.bytes[pkt.ip + i], old = byte;
			// In the first byte of IPv6 only the low half is traffic class.
			byte ^= !pkt.is_v4 && i == 0 ? 0x05 : 0x5a;
			bool same = free.contains(i) || (!pkt.is_v4 && i == 0);
			EXPECT_EQ(model_icrc() == icrc, same) << "byte " << i;
			byte = old;
		}
	}
}

TEST(Frame, RandomPacketsParseBackAsWhatTheyWere)
{
	std::mt19937 rng(99);

	for (int i = 0; i < 3000; i++) {
		auto flow = rng() % 2 ? v4_flow() : v6_flow();
		flow.has_vlan = rng() % 2;
		flow.vlan_id = static_cast<u16>(rng() % 4096);
		flow.vlan_prio = rng() % 8;
		flow.traffic_class = static_cast<u8>(rng());
		flow.hop_limit = static_cast<u8>(rng());
		flow.flow_label = rng() & 0xfffff;
		flow.udp_sport = static_cast<u16>(rng());
		std::vector<u8> ext(rng() % 8 * 4, static_cast<u8>(rng()));
		auto pkt = packet(static_cast<u8>(rng()), rng() & 0xc0, rng() & 1, ext,
				  static_cast<u16>(rng() % 4097));
		Packet parsed;
		parsed.bytes = build(flow, pkt, {std::min<u32>(rng() % 4097, pkt.payload_len)});
		ASSERT_TRUE(parse_frame(parsed));
		u32 icrc;
		memcpy(&icrc, parsed.bytes.data() + parsed.bytes.size() - 4, 4);
		ASSERT_EQ(icrc, reference_icrc(parsed));
		ASSERT_EQ(parsed.transport().size(),
			  size_t{pkt.hdr_len} + pkt.payload_len + pkt.pad);
	}
}
