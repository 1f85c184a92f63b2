// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What every driver refuses before it asks the device: modifies, access rights,
// regions; and what it tells of the device.
#include "fake_device.hpp"

extern "C" {
#include "hw/access.h"
#include "hw/event.h"
#include "hw/limits.h"
#include "hw/qp_create.h"
#include "hw/qp_modify.h"
#include "sirdma/abi.h"
#include "sirdma/geometry.h"
#include "sirdma/roce.h"
#include "sirdma/wqe.h"
}

#include <map>
#include <utility>

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

TEST(QpModify, HopLimitOfZeroIsTheDefault)
{
	sirdma_qp_modify mod = good();

	mod.path.hop_limit = 0;
	ASSERT_EQ(check(mod), 0) << mod.bad << " " << mod.why;
	EXPECT_EQ(mod.attr.hop_limit, SIRDMA_DEFAULT_HOP_LIMIT);
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

// One queue pair of a device that moves it by itself.
class MovingQp : public ::testing::Test {
protected:
	MovingQp()
	{
		EXPECT_EQ(host_.dev.bus()->ops->dma_alloc(host_.dev.bus(), sizeof(sirdma_qp_ctx),
							  &ctx_),
			  0);
		host_.dev.set_script(
			[this](const FakeDevice::Command &cmd) { return answer(cmd); });
	}
	~MovingQp()
	{
		host_.dev.set_script(nullptr);
		host_.dev.bus()->ops->dma_free(host_.dev.bus(), &ctx_);
	}

	// As a driver does it: read the state, check, execute.
	int modify(u32 next, u32 more = 0)
	{
		auto *ctx = static_cast<sirdma_qp_ctx *>(ctx_.va);

		mod_ = good();
		mod_.type = SIRDMA_QPT_UC;
		mod_.mask = SIRDMA_QP_STATE | more;
		mod_.qp_state = next;
		EXPECT_EQ(sirdma_qp_modify_read(&host_.hw, &mod_, ctx, ctx_.pa), 0);
		EXPECT_EQ(sirdma_qp_modify_check(&host_.hw.caps, &mod_), 0)
			<< mod_.bad << " " << mod_.why;
		mod_.bad = "of a check before";
		return sirdma_qp_modify_execute(&host_.hw, &mod_, ctx, ctx_.pa);
	}

	FakeHost host_;
	sirdma_qp_modify mod_{};
	u8 state_ = SIRDMA_QPS_RTS;
	std::vector<u8> moves_; // the states that follow, one after each upload
	sirdma_cqp_status refusal_ = SIRDMA_CQP_OK; // of every modify
	u32 uploads_ = 0, modifies_ = 0;

private:
	std::optional<FakeDevice::Reply> answer(const FakeDevice::Command &cmd)
	{
		const u64 hdr = cmd.wqe.hdr;

		if (cmd.op == SIRDMA_CQP_UPLOAD_CONTEXT) {
			static_cast<sirdma_qp_ctx *>(ctx_.va)->state = state_;
			if (uploads_ < moves_.size())
				state_ = moves_[uploads_];
			uploads_++;
		}
		if (cmd.op != SIRDMA_CQP_MODIFY_QP)
			return std::nullopt;
		modifies_++;
		EXPECT_TRUE(hdr & SIRDMA_CQP_QP_CUR_STATE_VALID);
		if (refusal_)
			return failed(refusal_);
		if (SIRDMA_GET(SIRDMA_CQP_QP_CUR_STATE, hdr) != state_)
			return failed(SIRDMA_CQP_BAD_STATE);
		state_ = static_cast<u8>(SIRDMA_GET(SIRDMA_CQP_QP_NEXT_STATE, hdr));
		return std::nullopt;
	}
	static FakeDevice::Reply failed(sirdma_cqp_status minor)
	{
		return {.status = u32{SIRDMA_CQP_MAJ_ERROR} << 16 | minor};
	}

	sirdma_dma_mem ctx_{};
};

TEST_F(MovingQp, OneCommandSufficesForOneThatStays)
{
	EXPECT_EQ(modify(SIRDMA_QPS_SQD), 0);
	EXPECT_EQ(state_, SIRDMA_QPS_SQD);
	EXPECT_EQ(uploads_, 1u);
	EXPECT_EQ(modifies_, 1u);
}

TEST_F(MovingQp, LeavesRtsBetweenUploadAndCommand)
{
	moves_ = {SIRDMA_QPS_ERR};
	EXPECT_EQ(modify(SIRDMA_QPS_ERR), 0);
	EXPECT_EQ(state_, SIRDMA_QPS_ERR);
	EXPECT_EQ(modifies_, 2u);
}

TEST_F(MovingQp, MovesTwice)
{
	moves_ = {SIRDMA_QPS_SQE, SIRDMA_QPS_ERR};
	EXPECT_EQ(modify(SIRDMA_QPS_RESET), 0);
	EXPECT_EQ(state_, SIRDMA_QPS_RESET);
	EXPECT_EQ(modifies_, 3u);
}

// The request does not suit the state that the QP moved to.
TEST_F(MovingQp, IsRefusedByTheCheckOfItsNewState)
{
	moves_ = {SIRDMA_QPS_ERR};
	EXPECT_EQ(modify(SIRDMA_QPS_SQD), -EINVAL);
	EXPECT_EQ(state_, SIRDMA_QPS_ERR);
	EXPECT_EQ(mod_.cur, static_cast<u32>(SIRDMA_QPS_ERR));
	EXPECT_STREQ(mod_.bad, "transition");
	EXPECT_EQ(modifies_, 1u);
}

TEST_F(MovingQp, RefusedByTheDeviceInTheNamedStateIsRefused)
{
	refusal_ = SIRDMA_CQP_BAD_PARAM;
	EXPECT_EQ(modify(SIRDMA_QPS_SQD), -EINVAL);
	EXPECT_EQ(mod_.bad, nullptr) << "no attribute is wrong";
	EXPECT_EQ(uploads_, 2u);
	EXPECT_EQ(modifies_, 1u);
}

TEST_F(MovingQp, OtherErrorsAreNotRepeated)
{
	moves_ = {SIRDMA_QPS_ERR};
	refusal_ = SIRDMA_CQP_NO_MEMORY;
	EXPECT_EQ(modify(SIRDMA_QPS_ERR), -ENOMEM);
	EXPECT_EQ(uploads_, 1u);
	EXPECT_EQ(modifies_, 1u);
}

// No device of ours does that; the driver does not follow it for ever.
TEST_F(MovingQp, NeverRests)
{
	for (int i = 0; i < 10; i++) {
		moves_.push_back(SIRDMA_QPS_SQE);
		moves_.push_back(SIRDMA_QPS_RTS);
	}
	EXPECT_EQ(modify(SIRDMA_QPS_ERR), -EINVAL);
	EXPECT_EQ(mod_.bad, nullptr);
	EXPECT_EQ(modifies_, 3u);
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

TEST(RegionChange, ChangesWhatItIsAskedForAndNothingOnAnError)
{
	const sirdma_region old = {.start = 0x1000, .length = 0x3000, .iova = 0x7000, .access = 7};
	const sirdma_region to = {.start = 0x5000, .length = 0x1000, .iova = 0x5000, .access = 1};
	const u32 place = SIRDMA_REREG_TRANSLATION, pd = SIRDMA_REREG_PD,
		  access = SIRDMA_REREG_ACCESS;
	const auto change = [&](u32 flags, sirdma_region asked, int err) {
		sirdma_region region = old;
		const char *why = "";

		EXPECT_EQ(sirdma_region_change(&region, flags, &asked, &why), err) << why;
		return region;
	};
	const auto is = [](const sirdma_region &region, const sirdma_region &where, u32 rights) {
		return region.start == where.start && region.length == where.length &&
		       region.iova == where.iova && region.access == rights;
	};

	EXPECT_TRUE(is(change(place, to, 0), to, 7));
	EXPECT_TRUE(is(change(access, to, 0), old, 1));
	EXPECT_TRUE(is(change(pd, to, 0), old, 7));
	EXPECT_TRUE(is(change(place | access, to, 0), to, 1));
	EXPECT_TRUE(is(change(place | access | pd, to, 0), to, 1));
	EXPECT_TRUE(is(change(0, to, -EINVAL), old, 7));
	EXPECT_TRUE(is(change(place | 8, to, -EOPNOTSUPP), old, 7));
	EXPECT_TRUE(is(change(1u << 31, to, -EOPNOTSUPP), old, 7));

	sirdma_region bad = to;

	bad.length = 0;
	EXPECT_TRUE(is(change(place, bad, -EINVAL), old, 7));
	EXPECT_TRUE(is(change(access, bad, 0), old, 1)) << "the place is not read";
	bad = to;
	bad.access = SIRDMA_VERBS_REMOTE_WRITE;
	EXPECT_TRUE(is(change(access, bad, -EINVAL), old, 7));
	EXPECT_TRUE(is(change(place, bad, 0), to, 7)) << "the access flags are not read";
	bad.access = 1u << 6; // on demand
	EXPECT_TRUE(is(change(place | access, bad, -EOPNOTSUPP), old, 7));
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

TEST(Limits, OfASharedReceiveQueue)
{
	EXPECT_EQ(sirdma_srq_ring_quanta(SIRDMA_MAX_SRQ_WR + 1, 1), 0u);
	EXPECT_EQ(sirdma_srq_ring_quanta(1, SIRDMA_MAX_SGE + 1), 0u);
	EXPECT_EQ(sirdma_srq_ring_quanta(0, 1), 0u);
	for (u32 sge = 0; sge <= SIRDMA_MAX_SGE; sge++) {
		const u32 quanta = sirdma_srq_ring_quanta(SIRDMA_MAX_SRQ_WR, sge);

		ASSERT_NE(quanta, 0u) << sge;
		EXPECT_LE(quanta, u32{SIRDMA_MAX_SRQ_QUANTA});
		EXPECT_GE(sirdma_srq_wrs(quanta, sirdma_rq_shift(sge)), u32{SIRDMA_MAX_SRQ_WR});
	}
}

// The numbers from which a provider computes its rings are those by which the driver checks them.
TEST(Limits, ThatAProviderIsToldAreTheDrivers)
{
	sirdma_hw hw{};
	sirdma_alloc_ucontext_resp resp{};

	hw.caps.max_cqe = 1 << 10;
	sirdma_hw_context(&hw, &resp);
	EXPECT_EQ(resp.max_hw_cq_size, sirdma_max_cq_elements(&hw));
	EXPECT_EQ(resp.max_hw_wq_frags, u32{SIRDMA_MAX_SGE});
	EXPECT_EQ(sirdma_srq_quanta(SIRDMA_MAX_SRQ_WR, 3, resp.min_hw_wq_size,
				    resp.max_hw_srq_quanta),
		  sirdma_srq_ring_quanta(SIRDMA_MAX_SRQ_WR, SIRDMA_MAX_SGE));
	EXPECT_EQ(resp.feature_flags & SIRDMA_FEATURE_SRQ, 0u) << "not every provider can use them";
	EXPECT_EQ(resp.comp_mask & (SIRDMA_UCTX_KICK | SIRDMA_UCTX_USE_RAW_ATTR), 0u);
	EXPECT_EQ(resp.db_mmap_key, 0u);
}

TEST(Limits, OfAPort)
{
	sirdma_port_limits port;

	sirdma_hw_port_limits(1500, &port);
	EXPECT_EQ(port.max_mtu, 5u) << "4096";
	EXPECT_EQ(port.active_mtu, 3u) << "1024 and its headers fit, 2048 does not";
	EXPECT_EQ(port.max_msg_sz, u32{SIRDMA_MAX_MSG_SIZE});
	EXPECT_EQ(port.pkey_tbl_len, 1u);
	EXPECT_EQ(port.max_vl_num, 1u);
	sirdma_hw_port_limits(65535, &port);
	EXPECT_EQ(port.active_mtu, port.max_mtu);
	sirdma_hw_port_limits(300, &port);
	EXPECT_EQ(port.active_mtu, 0u) << "no MTU fits";
}

// To verbs types that have the fields in another order, and an enumeration.
TEST(Limits, OfAPortInTypesOfTheVerbsApi)
{
	enum Mtu : u32 { mtu_1024 = 3, mtu_4096 = 5 };
	struct {
		u8 max_vl_num = 0;
		u16 pkey_tbl_len = 0;
		u32 max_msg_sz = 0;
		Mtu active_mtu{}, max_mtu{};
	} attr;
	sirdma_port_limits port;

	sirdma_hw_port_limits(1500, &port);
	SIRDMA_PORT_LIMITS_TO_VERBS(&attr, &port);
	EXPECT_EQ(attr.max_mtu, mtu_4096);
	EXPECT_EQ(attr.active_mtu, mtu_1024);
	EXPECT_EQ(attr.max_msg_sz, u32{SIRDMA_MAX_MSG_SIZE});
	EXPECT_EQ(attr.pkey_tbl_len, 1u);
	EXPECT_EQ(attr.max_vl_num, 1u);
}

TEST(Limits, OfASharedReceiveQueueThatChanges)
{
	const char *why = nullptr;

	EXPECT_EQ(sirdma_srq_modify_check(0, 9, 8, &why), 0) << "the limit is not meant";
	EXPECT_EQ(sirdma_srq_modify_check(SIRDMA_SRQ_LIMIT, 0, 8, &why), 0);
	EXPECT_EQ(sirdma_srq_modify_check(SIRDMA_SRQ_LIMIT, 8, 8, &why), 0);
	EXPECT_EQ(why, nullptr);
	EXPECT_EQ(sirdma_srq_modify_check(SIRDMA_SRQ_LIMIT, 9, 8, &why), -EINVAL);
	EXPECT_NE(std::exchange(why, nullptr), nullptr);
	EXPECT_EQ(sirdma_srq_modify_check(SIRDMA_SRQ_MAX_WR, 0, 8, &why), -EOPNOTSUPP);
	EXPECT_NE(std::exchange(why, nullptr), nullptr);
	EXPECT_EQ(sirdma_srq_modify_check(SIRDMA_SRQ_MAX_WR | 1 << 2, 0, 8, &why), -EINVAL)
		<< "an unknown bit is the worse fault";
	EXPECT_NE(why, nullptr);
}

sirdma_qp_create with_rings()
{
	sirdma_qp_create qp{};

	qp.type = SIRDMA_QPT_RC;
	qp.rq_shift = 2;
	qp.sq = {.addr = 0x1000, .quanta = 64, .vmap = false};
	qp.rq = {.addr = 0x5000, .quanta = 32, .vmap = false};
	qp.shadow = 0x9000;
	qp.compl_ctx = 0x1122334455667788;
	qp.cookie = 0x8877665544332211;
	qp.send_cq = 3;
	qp.recv_cq = 4;
	qp.pd = 5;
	return qp;
}

TEST(QpCreate, FillsTheQueuesAlone)
{
	const sirdma_qp_create qp = with_rings();
	sirdma_qp_ctx ctx{}, rest{};

	sirdma_qp_create_to_ctx(&qp, &ctx);
	EXPECT_EQ(le64_to_cpu(ctx.compl_ctx), qp.compl_ctx);
	EXPECT_EQ(le64_to_cpu(ctx.event_ctx), qp.cookie);
	EXPECT_EQ(le64_to_cpu(ctx.sq_addr), 0x1000u);
	EXPECT_EQ(le64_to_cpu(ctx.rq_addr), 0x5000u);
	EXPECT_EQ(le64_to_cpu(ctx.shadow_addr), 0x9000u);
	EXPECT_EQ(le32_to_cpu(ctx.sq_quanta), 64u);
	EXPECT_EQ(le32_to_cpu(ctx.rq_wqes), 8u) << "in WQEs, of 4 quanta each";
	EXPECT_EQ(ctx.rq_stride_shift, 2);
	EXPECT_EQ(le32_to_cpu(ctx.send_cq), 3u);
	EXPECT_EQ(le32_to_cpu(ctx.recv_cq), 4u);
	EXPECT_EQ(le32_to_cpu(ctx.srq), 0u);
	EXPECT_EQ(le32_to_cpu(ctx.pd), 5u);
	EXPECT_EQ(ctx.qp_type, SIRDMA_QPT_RC);
	EXPECT_EQ(ctx.queue_flags, SIRDMA_QPC_KICK);
	// What a modify sets is zero.
	constexpr size_t queues = offsetof(sirdma_qp_ctx, modify);

	EXPECT_EQ(memcmp(reinterpret_cast<char *>(&ctx) + queues,
			 reinterpret_cast<char *>(&rest) + queues, sizeof(ctx) - queues),
		  0);
}

TEST(QpCreate, WithASharedQueueItHasNoReceiveQueue)
{
	sirdma_qp_create qp = with_rings();
	sirdma_qp_ctx ctx{};

	qp.rq.quanta = 0;
	qp.srq = 6;
	sirdma_qp_create_to_ctx(&qp, &ctx);
	EXPECT_EQ(le32_to_cpu(ctx.rq_wqes), 0u);
	EXPECT_EQ(le32_to_cpu(ctx.srq), 6u);
}

TEST(QpCreate, TargetsHaveADomainAlone)
{
	sirdma_qp_create qp{};
	sirdma_qp_ctx ctx{};

	qp.type = SIRDMA_QPT_XRC_TGT;
	qp.xrcd = 77;
	sirdma_qp_create_to_ctx(&qp, &ctx);
	EXPECT_EQ(ctx.qp_type, SIRDMA_QPT_XRC_TGT);
	EXPECT_EQ(le32_to_cpu(ctx.xrcd), 77u);
	EXPECT_EQ(le32_to_cpu(ctx.sq_quanta), 0u);
}

TEST(QpCreate, TypesOfTheVerbsApi)
{
	const std::map<u32, int> types{{2, SIRDMA_QPT_RC},
				       {3, SIRDMA_QPT_UC},
				       {4, SIRDMA_QPT_UD},
				       {9, SIRDMA_QPT_XRC_INI},
				       {10, SIRDMA_QPT_XRC_TGT}};

	for (u32 verbs = 0; verbs < 300; verbs++)
		EXPECT_EQ(sirdma_qp_type_from_verbs(verbs),
			  types.count(verbs) ? types.at(verbs) : -1);
	EXPECT_TRUE(sirdma_qp_may_share_rq(SIRDMA_QPT_RC));
	EXPECT_TRUE(sirdma_qp_may_share_rq(SIRDMA_QPT_UD));
	for (int other : {int{SIRDMA_QPT_UC}, int{SIRDMA_QPT_XRC_INI}, int{SIRDMA_QPT_XRC_TGT}, -1})
		EXPECT_FALSE(sirdma_qp_may_share_rq(static_cast<u32>(other)));
}

TEST(QpCreate, FlagsSayWhereRingsAreAndWhoUsesThem)
{
	constexpr u8 base = SIRDMA_QPC_KICK;
	const struct {
		sirdma_qp_type type;
		bool sig_all, sq_vmap, rq_vmap, kernel;
		u8 flags;
	} cases[] = {
		{SIRDMA_QPT_UD, false, false, false, false, base},
		{SIRDMA_QPT_RC, true, false, false, false, base | SIRDMA_QPC_SIG_ALL},
		{SIRDMA_QPT_RC, false, true, false, false, base | SIRDMA_QPC_SQ_VMAP},
		{SIRDMA_QPT_RC, false, false, true, false, base | SIRDMA_QPC_RQ_VMAP},
		{SIRDMA_QPT_RC, false, false, false, true, base | SIRDMA_QPC_FAST_REG},
		{SIRDMA_QPT_UC, false, false, false, true, base | SIRDMA_QPC_FAST_REG},
		{SIRDMA_QPT_UD, false, false, false, true,
		 base | SIRDMA_QPC_FAST_REG | SIRDMA_QPC_RECV_MAC},
	};

	for (const auto &c : cases) {
		sirdma_qp_create qp = with_rings();
		sirdma_qp_ctx ctx{};

		qp.type = c.type;
		qp.sig_all = c.sig_all;
		qp.sq.vmap = c.sq_vmap;
		qp.rq.vmap = c.rq_vmap;
		qp.kernel = c.kernel;
		sirdma_qp_create_to_ctx(&qp, &ctx);
		EXPECT_EQ(ctx.queue_flags, c.flags) << &c - cases;
	}
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
