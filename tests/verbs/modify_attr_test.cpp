// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Attribute values of ibv_modify_qp: what is refused and how, what ibv_query_qp gives back, what takes effect.
#include "qp_states.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ostream>

namespace verbs
{
namespace
{

struct BadValue {
	const char *name;
	ibv_qp_state from;
	ibv_qp_state to;
	int extra_mask;
	void (*spoil)(ibv_qp_attr &attr);
	int other_error = 0; // also right: what the device does not offer at all
};

void PrintTo(const BadValue &bad, std::ostream *out)
{
	*out << bad.name;
}

const BadValue bad_values[] = {
	{"PortZero", IBV_QPS_RESET, IBV_QPS_INIT, 0, [](ibv_qp_attr &a) { a.port_num = 0; }},
	{"PortBeyondTheLast", IBV_QPS_RESET, IBV_QPS_INIT, 0,
	 [](ibv_qp_attr &a) {
		 a.port_num = static_cast<uint8_t>(device().attr.phys_port_cnt + 1);
	 }},
	{"PkeyIndexBeyondTheTable", IBV_QPS_RESET, IBV_QPS_INIT, 0,
	 [](ibv_qp_attr &a) { a.pkey_index = device().port_attr.pkey_tbl_len; }},
	{"UnknownAccessFlag", IBV_QPS_RESET, IBV_QPS_INIT, 0,
	 [](ibv_qp_attr &a) { a.qp_access_flags |= 1u << 15; }, EOPNOTSUPP},
	{"PkeyIndexBeyondTheTableInInit", IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_PKEY_INDEX,
	 [](ibv_qp_attr &a) { a.pkey_index = device().port_attr.pkey_tbl_len; }},
	{"PathMtuZero", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.path_mtu = static_cast<ibv_mtu>(0); }},
	{"PathMtuUnknown", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.path_mtu = static_cast<ibv_mtu>(6); }},
	{"DestinationQpWiderThan24Bits", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.dest_qp_num = 0x1000000; }},
	{"MinRnrTimerBeyond31", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.min_rnr_timer = 32; }},
	{"TooManyReadsAsResponder", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) {
		 a.max_dest_rd_atomic = static_cast<uint8_t>(device().attr.max_qp_rd_atom + 1);
	 }},
	{"AddressWithoutGlobalRoute", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.ah_attr.is_global = 0; }},
	{"AddressPortBeyondTheLast", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) {
		 a.ah_attr.port_num = static_cast<uint8_t>(device().attr.phys_port_cnt + 1);
	 }},
	{"DestinationGidZero", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) { a.ah_attr.grh.dgid = {}; },
	 ENETUNREACH}, // over IPv6 the kernel's core finds no way there before it asks the driver
	{"DestinationUnspecifiedInIpv4", IBV_QPS_INIT, IBV_QPS_RTR, 0,
	 [](ibv_qp_attr &a) {
		 a.ah_attr.grh.dgid = {};
		 std::memset(a.ah_attr.grh.dgid.raw + 10, 0xff, 2);
	 },
	 ENODEV}, // as the core says it over IPv4
	{"TimeoutBeyond31", IBV_QPS_RTR, IBV_QPS_RTS, 0, [](ibv_qp_attr &a) { a.timeout = 32; }},
	{"RetryCountBeyond7", IBV_QPS_RTR, IBV_QPS_RTS, 0, [](ibv_qp_attr &a) { a.retry_cnt = 8; }},
	{"RnrRetryBeyond7", IBV_QPS_RTR, IBV_QPS_RTS, 0, [](ibv_qp_attr &a) { a.rnr_retry = 8; }},
	{"TooManyReadsAsRequester", IBV_QPS_RTR, IBV_QPS_RTS, 0,
	 [](ibv_qp_attr &a) {
		 a.max_rd_atomic = static_cast<uint8_t>(device().attr.max_qp_init_rd_atom + 1);
	 }},
	{"MinRnrTimerBeyond31InRts", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER,
	 [](ibv_qp_attr &a) { a.min_rnr_timer = 32; }},
	{"TimeoutBeyond31InSqd", IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_TIMEOUT,
	 [](ibv_qp_attr &a) { a.timeout = 32; }},
};

class BadAttribute : public StateTest, public testing::WithParamInterface<BadValue> {};

// Refused with everything as it was, so that the same transition with good values succeeds afterwards.
TEST_P(BadAttribute, IsRefusedAndChangesNothing)
{
	const BadValue &bad = GetParam();
	const int mask = IBV_QP_STATE | find_transition(bad.from, bad.to)->required |
			 bad.extra_mask;

	drive(bad.from);
	const ibv_qp_attr before = query(a.qp.get());
	ibv_qp_attr attr = good_attr(bad.to);
	attr.rq_psn ^= 0x123; // good values, yet others than those in force
	attr.sq_psn ^= 0x321;
	bad.spoil(attr);
	const int error = modify(attr, mask);
	EXPECT_TRUE(error == EINVAL || (error && error == bad.other_error)) << std::strerror(error);
	const ibv_qp_attr after = query(a.qp.get());
	EXPECT_EQ(after.qp_state, bad.from);
	EXPECT_EQ(after.path_mtu, before.path_mtu);
	EXPECT_EQ(after.dest_qp_num, before.dest_qp_num);
	EXPECT_EQ(after.rq_psn, before.rq_psn);
	EXPECT_EQ(after.sq_psn, before.sq_psn);
	EXPECT_EQ(after.qp_access_flags, before.qp_access_flags);
	EXPECT_EQ(after.min_rnr_timer, before.min_rnr_timer);
	EXPECT_EQ(after.timeout, before.timeout);
	EXPECT_EQ(after.retry_cnt, before.retry_cnt);
	EXPECT_EQ(after.rnr_retry, before.rnr_retry);
	EXPECT_EQ(after.max_rd_atomic, before.max_rd_atomic);
	EXPECT_EQ(after.max_dest_rd_atomic, before.max_dest_rd_atomic);
	EXPECT_EQ(modify(good_attr(bad.to), mask), 0) << "the same with good values";
}

INSTANTIATE_TEST_SUITE_P(All, BadAttribute, testing::ValuesIn(bad_values),
			 [](const auto &info) { return info.param.name; });

class Attributes : public StateTest {};

TEST_F(Attributes, PathMtuAboveThePortsIsRefused)
{
	drive(IBV_QPS_INIT);
	ibv_qp_attr attr = good_attr(IBV_QPS_RTR);
	attr.path_mtu = static_cast<ibv_mtu>(device().port_attr.active_mtu + 1);
	EXPECT_EQ(modify(attr, rtr_mask), EINVAL);
	EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_INIT);
}

TEST_F(Attributes, AccessFlagsThatDescribeMemoryChangeNothing)
{
	constexpr unsigned of_memory = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED |
				       IBV_ACCESS_HUGETLB;
	if (device().is_rxe())
		GTEST_SKIP() << "soft-RoCE reports them";
	drive(IBV_QPS_RESET);
	ibv_qp_attr attr = good_attr(IBV_QPS_INIT);
	attr.qp_access_flags |= of_memory | 1u << 15;
	EXPECT_EQ(modify(attr, init_mask), EINVAL);
	EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_RESET);
	attr.qp_access_flags &= ~(1u << 15);
	ASSERT_EQ(modify(attr, init_mask), 0);
	EXPECT_EQ(query(a.qp.get()).qp_access_flags & of_memory, 0u);
}

// rdma-core's own tests set both on any device. IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT are missing in older headers.
TEST_F(Attributes, RightToFlushForPersistenceChangesNothing)
{
	constexpr unsigned global = 1u << 8, flush = 3u << 8;
	drive(IBV_QPS_RESET);
	ibv_qp_attr attr = good_attr(IBV_QPS_INIT);
	const unsigned others = attr.qp_access_flags;
	attr.qp_access_flags |= flush;
	ASSERT_EQ(modify(attr, init_mask), 0);
	if (!device().is_rxe()) {
		EXPECT_EQ(query(a.qp.get()).qp_access_flags & (others | flush), others | global);
	}
}

TEST_F(Attributes, EmptyGidEntryIsRefused)
{
	int empty = -1;
	for (int i = 0; i < std::min(device().port_attr.gid_tbl_len, 256) && empty < 0; i++) {
		ibv_gid_entry entry = {};
		if (ibv_query_gid_ex(device().context.get(), device().port,
				     static_cast<uint32_t>(i), &entry, 0))
			empty = i;
	}
	ASSERT_GE(empty, 0) << "no empty entry";
	drive(IBV_QPS_INIT);
	ibv_qp_attr attr = good_attr(IBV_QPS_RTR);
	attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(empty);
	EXPECT_EQ(modify(attr, rtr_mask), ENODATA);
	EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_INIT);
	if (device().port_attr.gid_tbl_len < 256) {
		attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(device().port_attr.gid_tbl_len);
		EXPECT_EQ(modify(attr, rtr_mask), EINVAL) << "beyond the table";
	}
	EXPECT_EQ(modify(good_attr(IBV_QPS_RTR), rtr_mask), 0);
}

// The address must be on the link and nobody's.
TEST_F(Attributes, NeighbourThatDoesNotAnswerGivesABoundedError)
{
	if (!nobody() || options().unpinned)
		GTEST_SKIP() << "no --unreachable address of this family was given, or it is the "
				"twin, whose devices are on lo, where there are no neighbours";
	drive(IBV_QPS_INIT);
	ibv_qp_attr attr = good_attr(IBV_QPS_RTR);
	attr.ah_attr.grh.dgid = *nobody();
	const auto start = std::chrono::steady_clock::now();
	const int error = modify(attr, rtr_mask);
	EXPECT_TRUE(error == ETIMEDOUT || error == EHOSTUNREACH) << std::strerror(error);
	EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
	EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_INIT);
	EXPECT_EQ(modify(good_attr(IBV_QPS_RTR), rtr_mask), 0) << "and a good address works "
								  "afterwards";
}

TEST_F(Attributes, QueryGivesBackWhatWasSet)
{
	const auto reads = static_cast<uint8_t>(
		std::min({device().attr.max_qp_rd_atom, device().attr.max_qp_init_rd_atom, 4}));

	link.mtu = IBV_MTU_512;
	link.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	link.timeout = 11;
	link.retry_cnt = 5;
	link.rnr_retry = 3;
	link.min_rnr_timer = 9;
	link.max_rd_atomic = reads;
	link.max_dest_rd_atomic = reads;
	link.traffic_class = 0x68;
	drive(IBV_QPS_INIT);
	ibv_qp_attr attr = query(a.qp.get());
	EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
	EXPECT_EQ(attr.port_num, device().port);
	EXPECT_EQ(attr.pkey_index, 0);
	EXPECT_EQ(attr.qp_access_flags & all_access,
		  static_cast<unsigned>(link.access) & all_access);
	ASSERT_EQ(to_rtr(a.qp.get(), device(), b.address(), link), 0);
	ASSERT_EQ(to_rts(a.qp.get(), a.psn, link), 0);
	attr = query(a.qp.get());
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(attr.path_mtu, IBV_MTU_512);
	EXPECT_EQ(attr.dest_qp_num, b.qp->qp_num);
	EXPECT_EQ(attr.rq_psn, b.psn);
	EXPECT_EQ(attr.sq_psn, a.psn);
	EXPECT_EQ(attr.timeout, 11);
	EXPECT_EQ(attr.retry_cnt, 5);
	EXPECT_EQ(attr.rnr_retry, 3);
	EXPECT_EQ(attr.min_rnr_timer, 9);
	EXPECT_EQ(attr.max_rd_atomic, reads);
	EXPECT_EQ(attr.max_dest_rd_atomic, reads);
	EXPECT_EQ(attr.ah_attr.is_global, 1);
	EXPECT_EQ(attr.ah_attr.port_num, device().port);
	EXPECT_EQ(std::memcmp(&attr.ah_attr.grh.dgid, &peer().gid, sizeof(ibv_gid)), 0);
	EXPECT_EQ(attr.ah_attr.grh.sgid_index, device().gid_index);
	EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x68);
}

TEST_F(Attributes, QueryGivesBackHowItWasCreated)
{
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};

	ASSERT_EQ(ibv_query_qp(a.qp.get(), &attr, IBV_QP_CAP | IBV_QP_STATE, &init), 0);
	EXPECT_EQ(init.qp_type, IBV_QPT_RC);
	EXPECT_EQ(init.send_cq, a.scq);
	EXPECT_EQ(init.recv_cq, a.rcq);
	EXPECT_EQ(attr.cap.max_send_wr, a.cap.max_send_wr);
	EXPECT_EQ(attr.cap.max_recv_wr, a.cap.max_recv_wr);
	EXPECT_EQ(attr.cap.max_send_sge, a.cap.max_send_sge);
	EXPECT_EQ(attr.cap.max_recv_sge, a.cap.max_recv_sge);
	EXPECT_EQ(init.cap.max_send_wr, a.cap.max_send_wr);
}

TEST_F(Attributes, ChangesInSqdTakeEffect)
{
	drive(IBV_QPS_SQD);
	ibv_qp_attr attr = good_attr(IBV_QPS_SQD);
	attr.timeout = 9;
	attr.retry_cnt = 2;
	attr.rnr_retry = 1;
	attr.min_rnr_timer = 5;
	EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MIN_RNR_TIMER),
		  0);
	const ibv_qp_attr after = query(a.qp.get());
	EXPECT_EQ(after.qp_state, IBV_QPS_SQD);
	EXPECT_EQ(after.timeout, 9);
	EXPECT_EQ(after.retry_cnt, 2);
	EXPECT_EQ(after.rnr_retry, 1);
	EXPECT_EQ(after.min_rnr_timer, 5);
}

class ReadDepth : public VerbsTest, public testing::WithParamInterface<int> {};

// More READs than may be outstanding queue up; all of them complete, in order and right.
TEST_P(ReadDepth, AllReadsComplete)
{
	// The same number serves both ends as requester and as responder.
	const int most =
		std::min({device().attr.max_qp_init_rd_atom, device().attr.max_qp_rd_atom,
			  peer().attr.max_qp_init_rd_atom, peer().attr.max_qp_rd_atom, 255});
	const int depth = GetParam() ? std::min(GetParam(), most) : most;
	constexpr uint32_t slot = 5000, count = 48;
	Link link = default_link();
	link.max_rd_atomic = link.max_dest_rd_atomic = static_cast<uint8_t>(depth);
	Pair pair = make_pair({.send_wr = count}, link);
	const Region local = make_region(pair.a.pd, count * slot);
	const Region remote = make_region(pair.b.pd, count * slot);

	ASSERT_TRUE(local && remote);
	for (int round = 0; round < 4; round++) {
		remote.fill(seed() + round);
		for (uint32_t i = 0; i < count; i++)
			ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_READ,
						.sges = {local.sge(i * slot, slot)},
						.wr_id = i,
						.remote_addr = remote.address(i * slot),
						.rkey = remote.mr->rkey}),
				  0);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_EQ(expect_wc(pair.a.scq).wr_id, i);
		EXPECT_TRUE(has_pattern(local.memory.bytes(), seed() + round));
	}
}

INSTANTIATE_TEST_SUITE_P(All, ReadDepth, testing::Values(1, 2, 4, 16, 0), [](const auto &info) {
	return info.param ? std::to_string(info.param) : std::string("Most");
});

class Drain : public VerbsTest {};

TEST_F(Drain, DrainedQueueSaysSoAndGoesOnLater)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 100000);
	const Region remote = make_region(pair.b.pd, 100000);
	uint64_t next = 0;

	ASSERT_TRUE(local && remote);
	const SendSpec spec = {.op = IBV_WR_RDMA_WRITE,
			       .sges = {local.sge(0, 100000)},
			       .remote_addr = remote.address(),
			       .rkey = remote.mr->rkey};
	for (int round = 0; round < 5 && !HasFailure(); round++) {
		local.fill(seed() + round);
		const uint64_t first = next;
		for (int i = 0; i < 6; i++) {
			SendSpec one = spec;
			one.wr_id = next++;
			ASSERT_EQ(post(pair.a, one), 0);
		}
		ibv_qp_attr attr = {};
		attr.qp_state = IBV_QPS_SQD;
		attr.en_sqd_async_notify = 1;
		ASSERT_EQ(ibv_modify_qp(pair.a.qp.get(), &attr,
					IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			  0);
		EXPECT_EQ(await_qp_event(device(), pair.a.qp.get()), IBV_EVENT_SQ_DRAINED);
		attr = query(pair.a.qp.get());
		EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
		EXPECT_EQ(attr.sq_draining, 0);
		ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_RTS), 0);
		for (uint64_t i = first; i < next; i++)
			EXPECT_EQ(expect_wc(pair.a.scq).wr_id, i);
		EXPECT_TRUE(has_pattern(remote.memory.bytes(), seed() + round));
	}
}

TEST_F(Drain, WorkPostedWhileDrainedWaits)
{
	Pair pair = make_pair();

	ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_SQD), 0);
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	ASSERT_EQ(post(pair.a, {.wr_id = 8}), 0);
	expect_quiet(pair.b.rcq, std::chrono::milliseconds(50));
	ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_RTS), 0);
	EXPECT_EQ(expect_wc(pair.a.scq).wr_id, 8u);
	expect_wc(pair.b.rcq);
}

TEST_F(Drain, ReceiverWorksWhileItsSendQueueIsDrained)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, 9000);
	const Region remote = make_region(pair.b.pd, 9000);

	ASSERT_TRUE(local && remote);
	ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_SQD), 0);
	for (ibv_wr_opcode op : all_ops)
		run_transfer(pair, local, remote, {op, 1, 2, 5000});
}

} // namespace
} // namespace verbs
