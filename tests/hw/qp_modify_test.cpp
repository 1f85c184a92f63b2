// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What every driver refuses before it asks the device: modifies, access rights,
// regions; and what it tells of the device.
#include "c_api.hpp"

extern "C" {
#include "hw/access.h"
#include "hw/event.h"
#include "hw/limits.h"
#include "hw/qp_modify.h"
}

namespace sirdma::test
{
namespace
{

constexpr u32 rtr_mask = SIRDMA_QP_STATE | SIRDMA_QP_AV | SIRDMA_QP_PATH_MTU | SIRDMA_QP_DEST_QPN |
			 SIRDMA_QP_RQ_PSN | SIRDMA_QP_MAX_DEST_RD_ATOMIC | SIRDMA_QP_MIN_RNR_TIMER;

// INIT to RTR with good values, and every other attribute good as well.
sirdma_qp_modify good()
{
	sirdma_qp_modify mod{};

	mod.type = SIRDMA_QPT_RC;
	mod.qpn = 7;
	mod.cur = SIRDMA_QPS_INIT;
	mod.mask = rtr_mask;
	mod.qp_state = SIRDMA_QPS_RTR;
	mod.cur_qp_state = SIRDMA_QPS_INIT;
	mod.path_mtu = 3;
	mod.port_mtu = 3;
	mod.port_num = 1;
	mod.path.dst_ip.b[15] = 9;
	mod.path.port_num = 1;
	mod.path.has_grh = true;
	mod.path.hop_limit = 64;
	mod.attr.dest_qpn = 11;
	return mod;
}

int check(sirdma_qp_modify &mod)
{
	sirdma_hw_caps caps{};

	caps.max_ird = caps.max_ord = 16;
	return sirdma_qp_modify_check(&caps, &mod);
}

TEST(QpModify, GoodOneFillsTheAttributes)
{
	sirdma_qp_modify mod = good();

	ASSERT_EQ(check(mod), 0) << mod.bad << " " << mod.why;
	EXPECT_EQ(mod.next, SIRDMA_QPS_RTR);
	EXPECT_EQ(mod.attr.next, SIRDMA_QPS_RTR);
	EXPECT_EQ(mod.attr.path_mtu, 1024u);
	EXPECT_EQ(mod.attr.pkey, 0xffff);
	EXPECT_EQ(mod.attr.dst_ip.b[15], 9);
	EXPECT_EQ(mod.attr.hop_limit, 64);
	EXPECT_EQ(mod.attr.udp_sport, sirdma_udp_sport(0, 7, 11));
}

TEST(QpModify, FlowOfAPathAloneIsThatOfTheKnownPeer)
{
	sirdma_qp_modify mod = good();

	mod.cur = SIRDMA_QPS_SQD;
	mod.mask = SIRDMA_QP_AV;
	mod.cur_dest_qpn = 12;
	ASSERT_EQ(check(mod), 0) << mod.bad << " " << mod.why;
	EXPECT_EQ(mod.next, SIRDMA_QPS_SQD);
	EXPECT_EQ(mod.attr.udp_sport, sirdma_udp_sport(0, 7, 12));
}

struct Spoiled {
	const char *bad;
	const char *why;
	int err;
	void (*spoil)(sirdma_qp_modify &mod);
};

TEST(QpModify, BadOnesAreNamed)
{
	const Spoiled cases[] = {
		{"state", "is unknown", -EINVAL, [](auto &m) { m.qp_state = 7; }},
		{"current state", "is another one", -EINVAL,
		 [](auto &m) {
			 m.mask |= SIRDMA_QP_CUR_STATE;
			 m.cur_qp_state = SIRDMA_QPS_RTS;
		 }},
		{"transition", "does not exist", -EINVAL,
		 [](auto &m) { m.qp_state = SIRDMA_QPS_RTS; }},
		{"path MTU", "is missing", -EINVAL, [](auto &m) { m.mask &= ~SIRDMA_QP_PATH_MTU; }},
		{"Q_Key", "is not allowed here", -EINVAL,
		 [](auto &m) { m.mask |= SIRDMA_QP_QKEY; }},
		{"alternate path", "is not supported", -EOPNOTSUPP,
		 [](auto &m) { m.mask |= SIRDMA_QP_ALT_PATH; }},
		{"P_Key index", "is not 0", -EINVAL,
		 [](auto &m) {
			 m.mask |= SIRDMA_QP_PKEY_INDEX;
			 m.pkey_index = 1;
		 }},
		{"access flags", "is unknown", -EINVAL,
		 [](auto &m) {
			 m.mask |= SIRDMA_QP_ACCESS_FLAGS;
			 m.access_flags = 1u << 15 | SIRDMA_VERBS_REMOTE_ATOMIC;
		 }},
		{"access flags", "is not supported", -EOPNOTSUPP,
		 [](auto &m) {
			 m.mask |= SIRDMA_QP_ACCESS_FLAGS;
			 m.access_flags = 1u << 6; // on demand
		 }},
		{"path MTU", "is unknown", -EINVAL, [](auto &m) { m.path_mtu = 0; }},
		{"path MTU", "is unknown", -EINVAL, [](auto &m) { m.path_mtu = 6; }},
		{"path MTU", "does not fit the port's MTU", -EINVAL,
		 [](auto &m) { m.path_mtu = 4; }},
		{"destination QPN", "is out of range", -EINVAL,
		 [](auto &m) { m.attr.dest_qpn = 1 << 24; }},
		{"max_dest_rd_atomic", "is out of range", -EINVAL,
		 [](auto &m) { m.attr.max_dest_rd_atomic = 17; }},
		{"address vector", "has a port that is not 1", -EINVAL,
		 [](auto &m) { m.path.port_num = 2; }},
		{"address vector", "has no global route", -EINVAL,
		 [](auto &m) { m.path.has_grh = false; }},
		{"address vector", "has a service level above 7", -EINVAL,
		 [](auto &m) { m.path.sl = 8; }},
		{"address vector", "has no destination", -EINVAL,
		 [](auto &m) { m.path.dst_ip = {}; }},
		{"address vector", "has no destination", -EINVAL,
		 [](auto &m) {
			 m.path.dst_ip = {};
			 m.path.dst_ip.b[10] = m.path.dst_ip.b[11] = 0xff;
		 }},
	};

	for (const Spoiled &one : cases) {
		sirdma_qp_modify mod = good();

		one.spoil(mod);
		EXPECT_EQ(check(mod), one.err) << one.bad << " " << one.why;
		EXPECT_STREQ(mod.bad, one.bad);
		EXPECT_STREQ(mod.why, one.why);
	}
}

TEST(QpModify, WhatTheMaskDoesNotNameIsNotLookedAt)
{
	sirdma_qp_modify mod{};

	mod.cur = SIRDMA_QPS_RTS;
	mod.mask = SIRDMA_QP_STATE;
	mod.qp_state = SIRDMA_QPS_ERR;
	mod.cur_qp_state = ~0u;
	mod.access_flags = ~0u;
	mod.path_mtu = ~0u;
	mod.path_mig_state = ~0u;
	mod.pkey_index = ~0u;
	mod.attr.timeout = 0xff;
	EXPECT_EQ(check(mod), 0) << mod.bad << " " << mod.why;
}

// As the kernel's iboe_get_mtu() counts headers.
TEST(QpModify, PathMtuFitsThePort)
{
	EXPECT_EQ(sirdma_path_mtu_of_port(68), 0u);
	EXPECT_EQ(sirdma_path_mtu_of_port(256 + 95), 0u);
	EXPECT_EQ(sirdma_path_mtu_of_port(256 + 96), 1u);
	EXPECT_EQ(sirdma_path_mtu_of_port(1500), 3u);
	EXPECT_EQ(sirdma_path_mtu_of_port(4096 + 95), 4u);
	EXPECT_EQ(sirdma_path_mtu_of_port(4096 + 96), 5u);
	EXPECT_EQ(sirdma_path_mtu_of_port(65535), 5u);
}

TEST(RegionCheck, RefusesWithTheRightErrno)
{
	const sirdma_region ok = {.start = 0x1000, .length = 0x3000, .iova = 0x7000, .access = 7};
	const struct {
		int err;
		void (*spoil)(sirdma_region &region);
	} cases[] = {
		{0, [](auto &) {}},
		{0, [](auto &r) { r.access |= 1u << 20; }}, // a hint
		{-EINVAL, [](auto &r) { r.access = SIRDMA_VERBS_REMOTE_WRITE; }},
		{-EINVAL, [](auto &r) { r.access |= 1u << 14; }},
		{-EINVAL, [](auto &r) { r.access |= 1u << 14 | 1u << 6; }},
		{-EOPNOTSUPP, [](auto &r) { r.access |= 1u << 6; }}, // on demand
		{0, [](auto &r) { r.access |= SIRDMA_VERBS_MW_BIND; }},
		{0, [](auto &r) { r.access |= SIRDMA_VERBS_MW_BIND | SIRDMA_VERBS_ZERO_BASED; }},
		{0, [](auto &r) { r.access |= SIRDMA_VERBS_REMOTE_ATOMIC; }},
		{0, [](auto &r) { r.access |= SIRDMA_VERBS_ZERO_BASED; }},
		{-EINVAL, [](auto &r) { r.length = 0; }},
		{0, [](auto &r) { r.length = SIRDMA_MAX_MR_SIZE; }},
		{-EINVAL, [](auto &r) { r.length = SIRDMA_MAX_MR_SIZE + 1; }},
		{0, [](auto &r) { r.start = 0 - r.length; }},
		{-EINVAL, [](auto &r) { r.start = 0x1000 - r.length; }},
		{-EINVAL, [](auto &r) { r.iova = 0x1000 - r.length; }},
		{-EINVAL, [](auto &r) { r.iova++; }},
	};

	for (const auto &one : cases) {
		sirdma_region region = ok;
		const char *why = "";

		one.spoil(region);
		EXPECT_EQ(sirdma_region_check(&region, &why), one.err)
			<< &one - cases << ": " << why;
	}
	EXPECT_EQ(sirdma_region_rights(0), SIRDMA_ACCESS_LOCAL_READ);
	EXPECT_EQ(sirdma_region_rights(SIRDMA_VERBS_MW_BIND),
		  SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_BIND_WINDOW);
	EXPECT_EQ(sirdma_region_rights(SIRDMA_VERBS_MW_BIND | SIRDMA_VERBS_ZERO_BASED),
		  SIRDMA_ACCESS_LOCAL_READ)
		<< "there are no windows in zero-based regions";
	EXPECT_EQ(sirdma_region_rights(7), SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
						   SIRDMA_ACCESS_REMOTE_READ |
						   SIRDMA_ACCESS_REMOTE_WRITE);
}

TEST(Limits, AreWhatTheNumbersLeave)
{
	sirdma_hw hw{};
	sirdma_limits limits;

	hw.caps.max_ird = 255;
	hw.caps.max_ord = 7;
	hw.caps.max_cqe = 1 << 10;
	hw.qp_ids.first = 2;
	hw.qp_ids.limit = 1 << 24;
	sirdma_hw_limits(&hw, &limits);
	EXPECT_EQ(limits.max_qp, (1u << 24) - 2);
	EXPECT_EQ(limits.max_cqe, 511u);
	EXPECT_EQ(limits.max_qp_rd_atom, 255u);
	EXPECT_EQ(limits.max_qp_init_rd_atom, 7u);
	EXPECT_EQ(limits.max_res_rd_atom, 0x7fffffffu) << "an int for applications";
}

TEST(Events, OfObjectsHaveANumberOfTheVerbsApi)
{
	EXPECT_EQ(sirdma_event_verbs_type(SIRDMA_EVENT_NONE), -1);
	EXPECT_EQ(sirdma_event_verbs_type(SIRDMA_EVENT_ADDRESS), -1);
	EXPECT_EQ(sirdma_event_verbs_type(SIRDMA_EVENT_BAD_COMMAND), -1);
	EXPECT_EQ(sirdma_event_verbs_type(SIRDMA_EVENT_QP_ACCESS), 3);
	EXPECT_EQ(sirdma_event_verbs_type(SIRDMA_EVENT_LAST_WQE), 16);
}

} // namespace
} // namespace sirdma::test
