// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Keys, bounds, rights and protection domains, at both ends. A refused operation moves nothing.
#include "fixture.hpp"

#include <sys/mman.h>

#include <ostream>
#include <string>
#include <tuple>

namespace verbs
{
namespace
{

constexpr size_t room = 16384;
constexpr uint64_t sink_seed = 0x51;
constexpr uint64_t source_seed = 0x50;

struct LocalFault {
	const char *name;
	// What the work request names instead of a good piece of `good`; `foreign` is of another protection domain.
	ibv_sge (*sge)(const Region &good, const Region &foreign);
};

const LocalFault local_faults[] = {
	{"WrongKeyByte",
	 [](const Region &good, const Region &) -> ibv_sge {
		 return {good.address(), 100, good.mr->lkey ^ 0x01};
	 }},
	{"UnknownKey",
	 [](const Region &good, const Region &) -> ibv_sge {
		 return {good.address(), 100, 0xfffffe00u};
	 }},
	{"BeforeTheStart",
	 [](const Region &good, const Region &) -> ibv_sge {
		 return {good.address() - 1, 100, good.mr->lkey};
	 }},
	{"PastTheEnd",
	 [](const Region &good, const Region &) -> ibv_sge {
		 return {good.address(room - 99), 100, good.mr->lkey};
	 }},
	{"AddressWraps",
	 [](const Region &good, const Region &) -> ibv_sge {
		 return {~0ull - 50, 100, good.mr->lkey};
	 }},
	{"OtherProtectionDomain",
	 [](const Region &, const Region &foreign) { return foreign.sge(0, 100); }},
};

void PrintTo(const LocalFault &fault, std::ostream *out)
{
	*out << fault.name;
}

// After a refused operation both sides hold what they held before.
void expect_untouched(const Region &local, const Region &target)
{
	EXPECT_TRUE(has_pattern(target.memory.bytes(), sink_seed)) << "the target";
	EXPECT_TRUE(has_pattern(local.memory.bytes(), source_seed)) << "the requester's buffer";
}

template <typename Fault>
std::string op_and_fault(const testing::TestParamInfo<std::tuple<ibv_wr_opcode, Fault>> &info)
{
	return std::string(op_name(std::get<0>(info.param))) + "_" + std::get<1>(info.param).name;
}

class LocalProtection : public VerbsTest,
			public testing::WithParamInterface<std::tuple<ibv_wr_opcode, LocalFault>> {
};

TEST_P(LocalProtection, CompletesWithAnErrorAndStopsTheQueuePair)
{
	const auto [op, fault] = GetParam();
	Pair pair = make_pair();
	const Region good = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);
	const Pd other(ibv_alloc_pd(device().context.get()));
	const Region foreign = make_region(other.get(), room);

	ASSERT_TRUE(good && remote && foreign);
	good.fill(sink_seed);
	foreign.fill(sink_seed);
	remote.fill(sink_seed);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, room)}), 0);
	ASSERT_EQ(post(pair.a, {.op = op,
				.sges = {fault.sge(good, foreign)},
				.wr_id = 1,
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey}),
		  0);
	EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_LOC_PROT_ERR).wr_id, 1u);
	EXPECT_TRUE(await_condition([&] { return state_of(pair.a.qp.get()) == IBV_QPS_ERR; }));
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), sink_seed));
	EXPECT_TRUE(has_pattern(good.memory.bytes(), sink_seed));
	EXPECT_TRUE(has_pattern(foreign.memory.bytes(), sink_seed));
}

INSTANTIATE_TEST_SUITE_P(All, LocalProtection,
			 testing::Combine(testing::Values(IBV_WR_SEND, IBV_WR_RDMA_WRITE,
							  IBV_WR_RDMA_READ),
					  testing::ValuesIn(local_faults)),
			 op_and_fault<LocalFault>);

class ReceiveProtection : public VerbsTest, public testing::WithParamInterface<LocalFault> {};

// A receive buffer that may not be written is the responder's own fault: it tells the requester "operational error".
TEST_P(ReceiveProtection, FailsBothEnds)
{
	const LocalFault fault = GetParam();
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region good = make_region(pair.b.pd, room);
	const Pd other(ibv_alloc_pd(peer().context.get()));
	const Region foreign = make_region(other.get(), room);

	ASSERT_TRUE(local && good && foreign);
	good.fill(sink_seed);
	foreign.fill(sink_seed);
	ASSERT_EQ(post_recv(pair.b, {fault.sge(good, foreign)}, 9), 0);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 100)}}), 0);
	EXPECT_EQ(expect_wc(pair.b.rcq, IBV_WC_LOC_PROT_ERR).wr_id, 9u);
	expect_wc(pair.a.scq, IBV_WC_REM_OP_ERR);
	EXPECT_TRUE(has_pattern(good.memory.bytes(), sink_seed));
	EXPECT_TRUE(has_pattern(foreign.memory.bytes(), sink_seed));
}

INSTANTIATE_TEST_SUITE_P(All, ReceiveProtection, testing::ValuesIn(local_faults),
			 [](const auto &info) { return info.param.name; });

class Protection : public VerbsTest {};

TEST_F(Protection, ReadIntoMemoryWithoutLocalWrite)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room, 0);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	local.fill(sink_seed);
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_READ,
				.sges = {local.sge(0, 100)},
				.remote_addr = remote.address(),
				.rkey = remote.mr->rkey}),
		  0);
	expect_wc(pair.a.scq, IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(has_pattern(local.memory.bytes(), sink_seed));
}

TEST_F(Protection, ReceiveIntoMemoryWithoutLocalWrite)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room, IBV_ACCESS_REMOTE_READ);

	ASSERT_TRUE(local && remote);
	remote.fill(sink_seed);
	ASSERT_EQ(post_recv(pair.b, {remote.sge(0, 100)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = {local.sge(0, 100)}}), 0);
	expect_wc(pair.b.rcq, IBV_WC_LOC_PROT_ERR);
	expect_wc(pair.a.scq, IBV_WC_REM_OP_ERR);
	EXPECT_TRUE(has_pattern(remote.memory.bytes(), sink_seed));
}

TEST_F(Protection, FaultInALaterPieceMovesNoByteOfTheMessage)
{
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region remote = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && remote);
	ibv_sge bad = local.sge(0, 100);
	bad.lkey ^= 1;
	ASSERT_EQ(post(pair.a, {.op = IBV_WR_SEND, .sges = {local.sge(0, 100), bad}}), 0);
	expect_wc(pair.a.scq, IBV_WC_LOC_PROT_ERR);
}

// What is wrong with the remote side of an RDMA operation.
struct RemoteFault {
	const char *name;
	int access; // rights of the target region
	int64_t start; // first byte, relative to the region
	uint32_t key_flip;
	bool foreign; // the region is of another protection domain than the queue pair
	bool writes_refused;
	bool reads_refused;
};

const RemoteFault remote_faults[] = {
	{"WrongKeyByte", all_access, 0, 0x01, false, true, true},
	{"WrongKeyIndex", all_access, 0, 0xfff000, false, true, true},
	{"BeforeTheStart", all_access, -1, 0, false, true, true},
	{"PastTheEnd", all_access, room - 1999, 0, false, true, true},
	{"FarAway", all_access, 1ll << 40, 0, false, true, true},
	{"AddressWraps", all_access, INT64_MIN, 0, false, true, true},
	{"OtherProtectionDomain", all_access, 0, 0, true, true, true},
	{"NoRemoteRights", IBV_ACCESS_LOCAL_WRITE, 0, 0, false, true, true},
	{"OnlyRemoteRead", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0, false, true,
	 false},
	{"OnlyRemoteWrite", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0, false, false,
	 true},
};

void PrintTo(const RemoteFault &fault, std::ostream *out)
{
	*out << fault.name;
}

class RemoteProtection
	: public VerbsTest,
	  public testing::WithParamInterface<std::tuple<ibv_wr_opcode, RemoteFault>> {
protected:
	static constexpr uint32_t length = 2000; // more than one packet at the smaller path MTUs

	// Connects two ends and posts the faulty operation.
	void aim(const Link &link)
	{
		const auto [op, fault] = GetParam();
		pair = make_pair({}, link);
		other.reset(ibv_alloc_pd(peer().context.get()));
		local = make_region(pair.a.pd, room);
		target = make_region(fault.foreign ? other.get() : pair.b.pd, room, fault.access);
		ASSERT_TRUE(local && target);
		local.fill(source_seed);
		target.fill(sink_seed);
		const uint64_t address =
			fault.start == INT64_MIN ?
				~0ull - 500 :
				target.address() + static_cast<uint64_t>(fault.start);
		ASSERT_EQ(post_recv(pair.b, {}, 9), 0);
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {local.sge(0, length)},
					.wr_id = 1,
					.remote_addr = address,
					.rkey = target.mr->rkey ^ fault.key_flip}),
			  0);
	}

	static bool refused()
	{
		const auto [op, fault] = GetParam();
		return op == IBV_WR_RDMA_READ ? fault.reads_refused : fault.writes_refused;
	}

	Pair pair;
	Pd other;
	Region local, target;
};

TEST_P(RemoteProtection, RefusedWithoutTouchingMemory)
{
	const auto [op, fault] = GetParam();
	Link link = default_link();
	link.mtu = IBV_MTU_1024;
	ASSERT_NO_FATAL_FAILURE(aim(link));
	if (!refused()) {
		expect_wc(pair.a.scq);
		EXPECT_TRUE(has_pattern(op == IBV_WR_RDMA_READ ? local.bytes(0, length) :
								 target.bytes(0, length),
					op == IBV_WR_RDMA_READ ? sink_seed : source_seed));
		return;
	}
	EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR).wr_id, 1u);
	EXPECT_TRUE(await_condition([&] { return state_of(pair.a.qp.get()) == IBV_QPS_ERR; }));
	expect_untouched(local, target);
}

TEST_P(RemoteProtection, RespondersQueuePairFailsAndSaysSo)
{
	if (!refused())
		return; // the operation is a legal one
	ASSERT_NO_FATAL_FAILURE(aim(default_link()));
	expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(expect_wc(pair.b.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, 9u);
	EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
	EXPECT_EQ(await_qp_event(peer(), pair.b.qp.get()), IBV_EVENT_QP_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, RemoteProtection,
			 testing::Combine(testing::Values(IBV_WR_RDMA_WRITE,
							  IBV_WR_RDMA_WRITE_WITH_IMM,
							  IBV_WR_RDMA_READ),
					  testing::ValuesIn(remote_faults)),
			 op_and_fault<RemoteFault>);

class QpRights : public VerbsTest, public testing::WithParamInterface<ibv_wr_opcode> {};

// Table 58 names this an invalid request; some adapters answer with an access error instead.
TEST_P(QpRights, QueuePairWithoutTheRightRefuses)
{
	const ibv_wr_opcode op = GetParam();
	Link link = default_link();
	link.access = IBV_ACCESS_LOCAL_WRITE |
		      (op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);
	Pair pair = make_pair({}, link);
	const Region local = make_region(pair.a.pd, room);
	const Region target = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && target);
	target.fill(sink_seed);
	local.fill(source_seed);
	ASSERT_EQ(post_recv(pair.b, {}), 0);
	ASSERT_EQ(post(pair.a, {.op = op,
				.sges = {local.sge(0, 2000)},
				.remote_addr = target.address(),
				.rkey = target.mr->rkey}),
		  0);
	const std::optional<ibv_wc> wc = await(pair.a.scq);
	ASSERT_TRUE(wc);
	EXPECT_TRUE(ends_as(wc->status, IBV_WC_REM_INV_REQ_ERR) ||
		    ends_as(wc->status, IBV_WC_REM_ACCESS_ERR))
		<< ibv_wc_status_str(wc->status);
	expect_untouched(local, target);
}

INSTANTIATE_TEST_SUITE_P(All, QpRights,
			 testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					 IBV_WR_RDMA_READ),
			 [](const auto &info) { return op_name(info.param); });

TEST_F(Protection, KeyOfADeregisteredRegionIsDead)
{
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		SCOPED_TRACE(op_name(op));
		Pair pair = make_pair();
		const Region local = make_region(pair.a.pd, room);
		Region target = make_region(pair.b.pd, room);
		ASSERT_TRUE(local && target);
		const uint32_t rkey = target.mr->rkey;
		target.fill(sink_seed);
		local.fill(source_seed);
		ASSERT_EQ(destroy(target.mr), 0);
		ASSERT_EQ(post(pair.a, {.op = op,
					.sges = {local.sge(0, 3000)},
					.remote_addr = target.address(),
					.rkey = rkey}),
			  0);
		expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR);
		expect_untouched(local, target);
	}
}

// A refusal answers all requests before it, also READs whose data is still under way then.
TEST_F(Protection, ReadBeforeAFaultSucceeds)
{
	constexpr uint32_t length = 64 << 10;

	if (options().lossy)
		GTEST_SKIP() << lost_answers;
	for (int i = 0; i < 20 && !HasFailure(); i++) {
		Pair pair = make_pair();
		const Region local = make_region(pair.a.pd, 2 * length);
		const Region remote = make_region(pair.b.pd, length);
		ASSERT_TRUE(local && remote);
		remote.fill(7);
		ibv_sge sges[] = {local.sge(0, length), local.sge(length, 8)};
		ibv_send_wr write{.wr_id = 2,
				  .sg_list = &sges[1],
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = signaled};
		write.wr.rdma = {remote.address(), remote.mr->rkey ^ 0x55};
		ibv_send_wr read{.wr_id = 1,
				 .next = &write,
				 .sg_list = &sges[0],
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = signaled},
			*bad;
		read.wr.rdma = {remote.address(), remote.mr->rkey};
		ASSERT_EQ(ibv_post_send(pair.a.qp.get(), &read, &bad), 0);
		EXPECT_EQ(expect_wc(pair.a.scq).wr_id, 1u);
		EXPECT_EQ(expect_wc(pair.a.scq, IBV_WC_REM_ACCESS_ERR).wr_id, 2u);
		EXPECT_TRUE(has_pattern(local.bytes(0, length), 7));
	}
}

// Requests posted after the faulty one are flushed and have no effect at the other end.
TEST_F(Protection, WorkBehindAFaultIsFlushed)
{
	if (options().lossy)
		GTEST_SKIP() << lost_answers;
	Pair pair = make_pair();
	const Region local = make_region(pair.a.pd, room);
	const Region target = make_region(pair.b.pd, room);

	ASSERT_TRUE(local && target);
	target.fill(sink_seed);
	local.fill(source_seed);
	for (uint64_t i = 0; i < 8; i++)
		ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
					.sges = {local.sge(0, 1000)},
					.wr_id = i,
					.remote_addr = target.address(i * 1000),
					.rkey = target.mr->rkey ^ (i == 2 ? 0x01 : 0)}),
			  0);
	for (uint64_t i = 0; i < 8; i++)
		EXPECT_EQ(expect_wc(pair.a.scq, i < 2  ? IBV_WC_SUCCESS :
						i == 2 ? IBV_WC_REM_ACCESS_ERR :
							 IBV_WC_WR_FLUSH_ERR)
				  .wr_id,
			  i);
	EXPECT_TRUE(has_pattern(target.bytes(0, 1000), source_seed));
	EXPECT_TRUE(has_pattern(target.bytes(2000, room - 2000), sink_seed, 2000));
}

} // namespace
} // namespace verbs
