// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The transition table against one written independently: by name, one line for
// each transition and type, from the requirements of IBTA 11.2.5.2.
#include "c_api.hpp"

extern "C" {
#include "hw/qp_attr.h"
}

#include <sstream>

namespace sirdma::test
{
namespace
{

struct Row {
	const char *from, *to, *type, *required, *optional;
};

const Row rows[] = {
	{"RESET", "INIT", "RC", "pkey port access", ""},
	{"RESET", "INIT", "UC", "pkey port access", ""},
	{"RESET", "INIT", "UD", "pkey port qkey", ""},
	{"RESET", "INIT", "XRC_INI", "pkey port access", ""},
	{"RESET", "INIT", "XRC_TGT", "pkey port access", ""},
	{"INIT", "INIT", "RC", "", "pkey port access"},
	{"INIT", "INIT", "UC", "", "pkey port access"},
	{"INIT", "INIT", "UD", "", "pkey port qkey"},
	{"INIT", "INIT", "XRC_INI", "", "pkey port access"},
	{"INIT", "INIT", "XRC_TGT", "", "pkey port access"},
	{"INIT", "RTR", "RC", "av mtu dqpn rqpsn ird minrnr", "alt access pkey"},
	{"INIT", "RTR", "UC", "av mtu dqpn rqpsn", "alt access pkey"},
	{"INIT", "RTR", "UD", "", "pkey qkey"},
	{"INIT", "RTR", "XRC_INI", "av mtu dqpn rqpsn", "alt access pkey"},
	{"INIT", "RTR", "XRC_TGT", "av mtu dqpn rqpsn ird minrnr", "alt access pkey"},
	{"RTR", "RTS", "RC", "timeout retry rnr sqpsn ord", "cur alt access minrnr mig"},
	{"RTR", "RTS", "UC", "sqpsn", "cur alt access mig"},
	{"RTR", "RTS", "UD", "sqpsn", "cur qkey"},
	{"RTR", "RTS", "XRC_INI", "timeout retry rnr sqpsn ord", "cur alt access mig"},
	{"RTR", "RTS", "XRC_TGT", "timeout sqpsn", "cur alt access minrnr mig"},
	{"RTS", "RTS", "RC", "", "cur access alt mig minrnr"},
	{"RTS", "RTS", "UC", "", "cur access alt mig"},
	{"RTS", "RTS", "UD", "", "cur qkey"},
	{"RTS", "RTS", "XRC_INI", "", "cur access alt mig"},
	{"RTS", "RTS", "XRC_TGT", "", "cur access alt mig minrnr"},
	{"RTS", "SQD", "RC", "", "notify"},
	{"RTS", "SQD", "UC", "", "notify"},
	{"RTS", "SQD", "UD", "", "notify"},
	{"RTS", "SQD", "XRC_INI", "", "notify"},
	{"RTS", "SQD", "XRC_TGT", "", "notify"},
	{"SQD", "RTS", "RC", "", "cur alt access minrnr mig"},
	{"SQD", "RTS", "UC", "", "cur alt access mig"},
	{"SQD", "RTS", "UD", "", "cur qkey"},
	{"SQD", "RTS", "XRC_INI", "", "cur alt access mig"},
	{"SQD", "RTS", "XRC_TGT", "", "cur alt access minrnr mig"},
	{"SQD", "SQD", "RC", "", "port av timeout retry rnr ord ird alt access pkey minrnr mig"},
	{"SQD", "SQD", "UC", "", "av alt access pkey mig"},
	{"SQD", "SQD", "UD", "", "pkey qkey"},
	{"SQD", "SQD", "XRC_INI", "", "port av timeout retry rnr ord alt access pkey mig"},
	{"SQD", "SQD", "XRC_TGT", "", "port av timeout ird alt access pkey minrnr mig"},
	{"SQE", "RTS", "RC", "", ""},
	{"SQE", "RTS", "UC", "", "cur access"},
	{"SQE", "RTS", "UD", "", "cur qkey"},
	{"SQE", "RTS", "XRC_INI", "", ""},
	{"SQE", "RTS", "XRC_TGT", "", ""},
};

// Values of ib_qp_attr_mask.
const std::map<std::string, u32> bits = {
	{"state", 1 << 0},  {"cur", 1 << 1},	 {"notify", 1 << 2}, {"access", 1 << 3},
	{"pkey", 1 << 4},   {"port", 1 << 5},	 {"qkey", 1 << 6},   {"av", 1 << 7},
	{"mtu", 1 << 8},    {"timeout", 1 << 9}, {"retry", 1 << 10}, {"rnr", 1 << 11},
	{"rqpsn", 1 << 12}, {"ord", 1 << 13},	 {"alt", 1 << 14},   {"minrnr", 1 << 15},
	{"sqpsn", 1 << 16}, {"ird", 1 << 17},	 {"mig", 1 << 18},   {"cap", 1 << 19},
	{"dqpn", 1 << 20},
};
const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
const char *const types[] = {"RC", "UC", "UD", "XRC_INI", "XRC_TGT"};

u32 mask_of(const char *names)
{
	std::istringstream in(names);
	u32 mask = 0;

	for (std::string name; in >> name;)
		mask |= bits.at(name);
	return mask;
}

struct Rule {
	bool valid = false;
	u32 required = 0, optional = 0;
};

Rule rule(u32 type, u32 from, u32 to)
{
	std::string f = states[from], t = states[to];

	if (t == "RESET" || (t == "ERR" && f != "RESET"))
		return {.valid = true};
	for (const Row &row : rows)
		if (f == row.from && t == row.to && std::string(types[type]) == row.type)
			return {true, mask_of(row.required), mask_of(row.optional)};
	return {};
}

int check(u32 type, u32 from, u32 to, u32 mask, u32 *bad)
{
	return sirdma_qp_check_transition(static_cast<sirdma_qp_type>(type),
					  static_cast<sirdma_qp_state>(from),
					  static_cast<sirdma_qp_state>(to), mask, bad);
}

TEST(QpTransition, EveryPairOfStatesAndEveryAttribute)
{
	u32 state = bits.at("state"), bad;

	for (u32 type = 0; type < std::size(types); type++) {
		for (u32 from = 0; from < 7; from++) {
			for (u32 to = 0; to < 7; to++) {
				Rule r = rule(type, from, to);
				SCOPED_TRACE(std::string(types[type]) + " " + states[from] + "->" +
					     states[to]);
				if (!r.valid) {
					EXPECT_EQ(check(type, from, to, state, &bad), -EINVAL);
					EXPECT_EQ(bad, 0u);
					EXPECT_EQ(check(type, from, to, 0x1fffff, &bad), -EINVAL);
					continue;
				}
				EXPECT_EQ(check(type, from, to, state | r.required, &bad), 0);
				EXPECT_EQ(check(type, from, to, r.required, &bad), 0);
				EXPECT_EQ(check(type, from, to, state | r.required | r.optional,
						&bad),
					  0);
				EXPECT_EQ(bad, 0u);
				for (u32 bit = 2; bit < 1u << 25; bit <<= 1) {
					u32 with = state | r.required | bit;
					u32 without = (state | r.required) & ~bit;
					bool allowed = (r.required | r.optional) & bit;
					EXPECT_EQ(check(type, from, to, with, &bad),
						  allowed ? 0 : -EINVAL)
						<< std::hex << bit;
					EXPECT_EQ(bad, allowed ? 0 : bit);
					if (!(r.required & bit))
						continue;
					EXPECT_EQ(check(type, from, to, without, &bad), -EINVAL);
					EXPECT_EQ(bad, bit);
				}
			}
		}
	}
}

TEST(QpTransition, RandomMasksAgreeWithTheRules)
{
	std::mt19937 rng(7);

	for (int i = 0; i < 200000; i++) {
		u32 type = rng() % 3, from = rng() % 7, to = rng() % 7, bad;
		u32 mask = rng() & rng() & 0x1fffff;
		Rule r = rule(type, from, to);

		if (r.valid && rng() % 2)
			mask = (mask & (r.optional | 1)) | r.required;
		bool ok = r.valid && (mask & r.required) == r.required &&
			  !(mask & ~(r.required | r.optional | 1));
		ASSERT_EQ(check(type, from, to, mask, &bad), ok ? 0 : -EINVAL);
	}
}

TEST(QpTransition, NumbersOutsideTheTableAreIllegal)
{
	u32 bad;

	EXPECT_EQ(check(3, 0, 1, 1, &bad), -EINVAL);
	EXPECT_EQ(check(0, 7, 0, 1, &bad), -EINVAL);
	EXPECT_EQ(check(0, 0, 7, 1, &bad), -EINVAL);
	EXPECT_EQ(check(0, ~0u, 0, 1, &bad), -EINVAL);
}

sirdma_qp_attr good()
{
	sirdma_qp_attr a{};

	a.next = SIRDMA_QPS_RTS;
	a.access = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
		   SIRDMA_ACCESS_REMOTE_ATOMIC;
	a.pkey = 0xffff;
	a.qkey = 0x80010000;
	a.path_mtu = 4096;
	a.timeout = 31;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.min_rnr_timer = 31;
	a.max_rd_atomic = 16;
	a.max_dest_rd_atomic = 8;
	a.en_sqd_async_notify = 1;
	a.rq_psn = 0xffffff;
	a.sq_psn = 0xfffffe;
	a.dest_qpn = 0xffffff;
	a.dst_ip.b[15] = 1;
	a.flow_label = 0xfffff;
	a.sgid_idx = 3;
	a.arp_idx = 4;
	a.udp_sport = 0xffff;
	a.hop_limit = 64;
	a.traffic_class = 0xb8;
	a.vlan_prio = 7;
	return a;
}

constexpr u32 all = 0x1fffff;

TEST(QpAttr, LargestValuesPass)
{
	auto a = good();
	u32 bad = 1;

	EXPECT_EQ(sirdma_qp_check_attr(&a, all, 16, 8, &bad), 0);
	EXPECT_EQ(bad, 0u);
	for (u32 mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
		a.path_mtu = mtu;
		EXPECT_EQ(sirdma_qp_check_attr(&a, all, 16, 8, &bad), 0) << mtu;
	}
	a.max_rd_atomic = a.max_dest_rd_atomic = 0;
	EXPECT_EQ(sirdma_qp_check_attr(&a, all, 0, 0, &bad), 0);
}

TEST(QpAttr, EachValueOutOfRangeIsNamed)
{
	const std::pair<const char *, std::function<void(sirdma_qp_attr &)>> cases[] = {
		{"state", [](auto &a) { a.next = static_cast<sirdma_qp_state>(7); }},
		{"notify", [](auto &a) { a.en_sqd_async_notify = 2; }},
		{"access", [](auto &a) { a.access = SIRDMA_ACCESS_BIND_WINDOW; }},
		{"access", [](auto &a) { a.access |= 1u << 31; }},
		{"av", [](auto &a) { a.dst_ip = {}; }},
		{"av", [](auto &a) { a.flow_label = 0x100000; }},
		{"av", [](auto &a) { a.udp_sport = 0xbfff; }},
		{"av", [](auto &a) { a.vlan_prio = 8; }},
		{"mtu", [](auto &a) { a.path_mtu = 0; }},
		{"mtu", [](auto &a) { a.path_mtu = 128; }},
		{"mtu", [](auto &a) { a.path_mtu = 1500; }},
		{"mtu", [](auto &a) { a.path_mtu = 8192; }},
		{"timeout", [](auto &a) { a.timeout = 32; }},
		{"retry", [](auto &a) { a.retry_cnt = 8; }},
		{"rnr", [](auto &a) { a.rnr_retry = 8; }},
		{"minrnr", [](auto &a) { a.min_rnr_timer = 32; }},
		{"rqpsn", [](auto &a) { a.rq_psn = 0x1000000; }},
		{"sqpsn", [](auto &a) { a.sq_psn = 0x1000000; }},
		{"ord", [](auto &a) { a.max_rd_atomic = 17; }},
		{"ird", [](auto &a) { a.max_dest_rd_atomic = 9; }},
		{"dqpn", [](auto &a) { a.dest_qpn = 0; }},
		{"dqpn", [](auto &a) { a.dest_qpn = 0x1000000; }},
	};

	for (auto &[name, change] : cases) {
		auto a = good();
		u32 bad = 0, bit = bits.at(name);

		change(a);
		EXPECT_EQ(sirdma_qp_check_attr(&a, all, 16, 8, &bad), -EINVAL) << name;
		EXPECT_EQ(bad, bit) << name;
		EXPECT_EQ(sirdma_qp_check_attr(&a, all & ~bit, 16, 8, &bad), 0)
			<< name << " is not named by the mask";
	}
}

TEST(QpAttr, EachAttributeChangesItsGroupOnly)
{
	const std::pair<const char *, u64> groups[] = {
		{"access", SIRDMA_QPC_MOD_ACCESS},
		{"pkey", SIRDMA_QPC_MOD_PKEY},
		{"qkey", SIRDMA_QPC_MOD_QKEY},
		{"av", SIRDMA_QPC_MOD_PATH},
		{"mtu", SIRDMA_QPC_MOD_MTU},
		{"timeout", SIRDMA_QPC_MOD_TIMEOUT},
		{"retry", SIRDMA_QPC_MOD_RETRY_CNT},
		{"rnr", SIRDMA_QPC_MOD_RNR_RETRY},
		{"rqpsn", SIRDMA_QPC_MOD_RQ_PSN},
		{"ord", SIRDMA_QPC_MOD_ORD},
		{"minrnr", SIRDMA_QPC_MOD_MIN_RNR},
		{"sqpsn", SIRDMA_QPC_MOD_SQ_PSN},
		{"ird", SIRDMA_QPC_MOD_IRD},
		{"dqpn", SIRDMA_QPC_MOD_DEST_QPN},
		{"notify", SIRDMA_QPC_MOD_SQD_EVENT},
		{"state", 0},
		{"cur", 0},
		{"port", 0},
		{"alt", 0},
		{"mig", 0},
	};
	auto a = good();

	sirdma_qp_ctx full{};
	sirdma_qp_attr_to_ctx(&a, all, &full);
	EXPECT_EQ(full.modify, SIRDMA_QPC_MOD_ALL);
	for (auto &[name, group] : groups) {
		sirdma_qp_ctx ctx{}, rest = full;
		sirdma_qp_attr_to_ctx(&a, bits.at(name), &ctx);
		EXPECT_EQ(ctx.modify, group) << name;
		// This group and the others together are the whole.
		sirdma_qp_attr zero{};
		sirdma_qp_attr_to_ctx(&zero, bits.at(name), &rest);
		auto *one = reinterpret_cast<u8 *>(&ctx), *others = reinterpret_cast<u8 *>(&rest);
		auto *whole = reinterpret_cast<u8 *>(&full);
		for (size_t i = offsetof(sirdma_qp_ctx, access); i < sizeof(ctx); i++)
			ASSERT_EQ(one[i] | others[i], whole[i]) << name << " byte " << i;
	}
}

TEST(QpAttr, NotificationIsAskedForOnlyWhenSet)
{
	auto a = good();
	sirdma_qp_ctx ctx{};

	a.en_sqd_async_notify = 0;
	sirdma_qp_attr_to_ctx(&a, bits.at("notify"), &ctx);
	EXPECT_EQ(ctx.modify, 0u);
}

TEST(QpAttr, ContextFieldsHoldTheValues)
{
	auto a = good();
	sirdma_qp_ctx ctx{};

	sirdma_qp_attr_to_ctx(&a, all, &ctx);
	EXPECT_EQ(ctx.access, a.access);
	EXPECT_EQ(memcmp(&ctx.dst_ip, &a.dst_ip, 16), 0);
	EXPECT_EQ(ctx.dest_qpn, 0xffffffu);
	EXPECT_EQ(ctx.flow_label, 0xfffffu);
	EXPECT_EQ(ctx.sgid_idx, 3);
	EXPECT_EQ(ctx.arp_idx, 4);
	EXPECT_EQ(ctx.udp_sport, 0xffff);
	EXPECT_EQ(ctx.path_mtu, 4096);
	EXPECT_EQ(ctx.hop_limit, 64);
	EXPECT_EQ(ctx.traffic_class, 0xb8);
	EXPECT_EQ(ctx.vlan_prio, 7);
	EXPECT_EQ(ctx.min_rnr_timer, 31);
	EXPECT_EQ(ctx.retry_cnt, 7);
	EXPECT_EQ(ctx.rnr_retry, 7);
	EXPECT_EQ(ctx.ack_timeout, 31);
	EXPECT_EQ(ctx.pkey, 0xffff);
	EXPECT_EQ(ctx.sq_psn, 0xfffffeu);
	EXPECT_EQ(ctx.rq_psn, 0xffffffu);
	EXPECT_EQ(ctx.qkey, 0x80010000u);
	EXPECT_EQ(ctx.ord, 16);
	EXPECT_EQ(ctx.ird, 8);
}

TEST(QpAttr, EveryBitHasAName)
{
	std::set<std::string> names;

	for (u32 bit = 1; bit <= 1u << 20; bit <<= 1)
		EXPECT_TRUE(names.insert(sirdma_qp_attr_name(bit)).second) << bit;
	EXPECT_STREQ(sirdma_qp_attr_name(1u << 9), "timeout");
	EXPECT_STREQ(sirdma_qp_attr_name(1u << 30), "unknown attribute");
}

TEST(QpAttr, StatesHaveNames)
{
	std::set<std::string> names;

	for (u32 state = SIRDMA_QPS_RESET; state <= SIRDMA_QPS_ERR; state++)
		EXPECT_TRUE(names.insert(sirdma_qp_state_name(state)).second) << state;
	EXPECT_STREQ(sirdma_qp_state_name(SIRDMA_QPS_RTR), "RTR");
	EXPECT_STREQ(sirdma_qp_state_name(SIRDMA_QPS_ERR + 1), "?");
}

TEST(QpAttr, PathMtusOfTheVerbsApi)
{
	EXPECT_EQ(sirdma_path_mtu_bytes(0), 0u);
	for (u32 mtu = 1; mtu <= 5; mtu++)
		EXPECT_EQ(sirdma_path_mtu_bytes(mtu), 128u << mtu);
	EXPECT_EQ(sirdma_path_mtu_bytes(6), 0u);
	EXPECT_EQ(sirdma_path_mtu_bytes(0xffffffff), 0u);
}

// Field by field through a context: what was set is what a query tells.
TEST(QpAttr, VerbsAttributesSurviveTheRoundTrip)
{
	struct Verbs {
		int qp_access_flags;
		u32 qkey, rq_psn, sq_psn, dest_qp_num;
		u8 timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic,
			en_sqd_async_notify, sq_draining;
	};
	const Verbs in = {6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0};
	Verbs out;
	sirdma_qp_attr attr{};
	sirdma_qp_ctx ctx{};

	SIRDMA_QP_ATTR_FROM_VERBS(&attr, &in);
	sirdma_qp_attr_to_ctx(&attr, ~0u, &ctx);
	memset(&out, 0xee, sizeof(out));
	SIRDMA_QP_CTX_TO_VERBS(&out, &ctx);
	EXPECT_EQ(out.qp_access_flags, 7) << "a remote writer's QP writes locally";
	EXPECT_EQ(out.qkey, 1u);
	EXPECT_EQ(out.rq_psn, 2u);
	EXPECT_EQ(out.sq_psn, 3u);
	EXPECT_EQ(out.dest_qp_num, 4u);
	EXPECT_EQ(out.timeout, 5);
	EXPECT_EQ(out.retry_cnt, 6);
	EXPECT_EQ(out.rnr_retry, 7);
	EXPECT_EQ(out.min_rnr_timer, 8);
	EXPECT_EQ(out.max_rd_atomic, 9);
	EXPECT_EQ(out.max_dest_rd_atomic, 10);
	EXPECT_EQ(out.sq_draining, 0);
	EXPECT_EQ(sirdma_qp_access_to_hw(1), 0u) << "the local right is the region's matter";
	EXPECT_EQ(sirdma_qp_access_check(SIRDMA_VERBS_MW_BIND), 0);
	EXPECT_EQ(sirdma_qp_access_to_hw(SIRDMA_VERBS_MW_BIND), 0u) << "every QP binds windows";
	EXPECT_EQ(sirdma_qp_access_to_hw(SIRDMA_VERBS_FLUSH_GLOBAL),
		  u32{SIRDMA_ACCESS_REMOTE_FLUSH});
	EXPECT_EQ(sirdma_qp_access_from_hw(SIRDMA_ACCESS_REMOTE_FLUSH), SIRDMA_VERBS_FLUSH_GLOBAL);
	EXPECT_EQ(sirdma_qp_access_check(SIRDMA_VERBS_FLUSH_PERSISTENT), 0);
	EXPECT_EQ(sirdma_qp_access_check(SIRDMA_VERBS_ON_DEMAND), 0);
	EXPECT_EQ(sirdma_qp_access_to_hw(SIRDMA_VERBS_ON_DEMAND), 0u) << "a flag of memory";
	EXPECT_EQ(sirdma_qp_access_check(SIRDMA_VERBS_ACCESS_KNOWN), 0);
	EXPECT_EQ(sirdma_qp_access_check(SIRDMA_VERBS_ACCESS_KNOWN + 1), -EINVAL);
	EXPECT_EQ(sirdma_qp_access_to_hw(SIRDMA_VERBS_FLUSH_PERSISTENT), 0u);
	EXPECT_EQ(sirdma_qp_access_from_hw(SIRDMA_ACCESS_REMOTE_READ), 4u);
}

TEST(UdpSport, InRangeStableAndSpread)
{
	std::set<u16> ports;

	for (u32 q = 2; q < 2002; q++) {
		u16 port = sirdma_udp_sport(0, q, q + 1);
		EXPECT_GE(port, 0xc000);
		EXPECT_EQ(port, sirdma_udp_sport(0, q, q + 1));
		EXPECT_EQ(port, sirdma_udp_sport(0, q + 1, q)) << "both directions alike";
		ports.insert(port);
	}
	EXPECT_GT(ports.size(), 1000u);
	// As rdma_flow_label_to_udp_sport() of the kernel folds it.
	EXPECT_EQ(sirdma_udp_sport(0x12345, 9, 9), 0xc000 | (0x2345 ^ 0x12345 >> 14));
	EXPECT_EQ(sirdma_udp_sport(0xfffff, 0, 0), 0xc000 | (0x3fff ^ 0x3f));
}

} // namespace
} // namespace sirdma::test
