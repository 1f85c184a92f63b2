// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the tests of datagrams share: address handles, posting, and the header in front of the data.
#pragma once

#include "fixture.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

namespace verbs
{

inline constexpr size_t grh_bytes = 40;
inline constexpr uint32_t qkey = 0x11223344;
inline constexpr int ud_init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

struct Datagram {
	std::vector<ibv_sge> sges = {};
	ibv_wr_opcode op = IBV_WR_SEND;
	uint32_t imm = 0;
	unsigned flags = signaled;
	uint64_t wr_id = 0;
	uint32_t key = qkey;
};

inline ibv_send_wr request(const Datagram &datagram, ibv_ah *ah, uint32_t qpn)
{
	ibv_send_wr wr = {};

	wr.wr_id = datagram.wr_id;
	wr.sg_list = const_cast<ibv_sge *>(datagram.sges.data());
	wr.num_sge = static_cast<int>(datagram.sges.size());
	wr.opcode = datagram.op;
	wr.send_flags = datagram.flags;
	wr.imm_data = htonl(datagram.imm);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = datagram.key;
	return wr;
}

inline int post_to(const End &from, ibv_ah *ah, uint32_t qpn, const Datagram &datagram)
{
	ibv_send_wr wr = request(datagram, ah, qpn), *bad = nullptr;

	return ibv_post_send(from.qp.get(), &wr, &bad);
}

inline ibv_ah_attr address_of(const Device &from, const ibv_gid &to)
{
	ibv_ah_attr attr = {};

	attr.is_global = 1;
	attr.port_num = from.port;
	attr.grh.dgid = to;
	attr.grh.sgid_index = static_cast<uint8_t>(from.gid_index);
	attr.grh.hop_limit = 64;
	return attr;
}

inline uint32_t big_endian(std::span<const std::byte> bytes, size_t at, size_t len)
{
	uint32_t value = 0;

	for (size_t i = at; i < at + len; i++)
		value = value << 8 | static_cast<uint32_t>(bytes[i]);
	return value;
}

// The IP header of a datagram of @length bytes: that of IPv4 is the second half.
inline void check_grh(std::span<const std::byte> grh, const ibv_gid &from, const ibv_gid &to,
		      uint32_t length, bool has_imm)
{
	const uint32_t udp = 8 + 12 + 8 + (has_imm ? 4 : 0) + (length + 3) / 4 * 4 + 4;

	if (is_v4(from)) {
		EXPECT_TRUE(std::all_of(grh.begin(), grh.begin() + 20,
					[](std::byte b) { return b == std::byte{0}; }));
		EXPECT_EQ(static_cast<int>(grh[20]), 0x45) << "version and header length";
		EXPECT_EQ(big_endian(grh, 22, 2), 20 + udp);
		EXPECT_EQ(static_cast<int>(grh[29]), IPPROTO_UDP);
		EXPECT_NE(static_cast<int>(grh[28]), 0) << "time to live";
		EXPECT_EQ(memcmp(&grh[32], from.raw + 12, 4), 0) << "source";
		EXPECT_EQ(memcmp(&grh[36], to.raw + 12, 4), 0) << "destination";
	} else {
		EXPECT_EQ(static_cast<int>(grh[0]) >> 4, 6) << "version";
		EXPECT_EQ(big_endian(grh, 4, 2), udp);
		EXPECT_EQ(static_cast<int>(grh[6]), IPPROTO_UDP);
		EXPECT_NE(static_cast<int>(grh[7]), 0) << "hop limit";
		EXPECT_EQ(memcmp(&grh[8], from.raw, 16), 0) << "source";
		EXPECT_EQ(memcmp(&grh[24], to.raw, 16), 0) << "destination";
	}
}

// Not every device has it.
inline std::optional<uint64_t> counter(const Device &dev, const char *name)
{
	std::ifstream file("/sys/class/infiniband/" + dev.name + "/ports/1/hw_counters/" + name);
	uint64_t value;

	return file >> value ? std::optional(value) : std::nullopt;
}

// RESET to RTS; 0 or an errno.
inline int start(const End &end, uint32_t key = qkey)
{
	ibv_qp_attr attr = init_attr(*end.dev, {});
	int rc;

	attr.qkey = key;
	rc = ibv_modify_qp(end.qp.get(), &attr, ud_init_mask);
	if (!rc)
		rc = to_state(end.qp.get(), IBV_QPS_RTR);
	attr = {};
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = end.psn;
	return rc ? rc : ibv_modify_qp(end.qp.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

} // namespace verbs
