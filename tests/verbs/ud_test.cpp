// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Datagrams: what arrives and what is said of it, address handles, and messages that nobody can take.
#include "datagram.hpp"

#include <arpa/inet.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace verbs
{
namespace
{

using namespace std::chrono_literals;

class Datagrams : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		mtu_ = mtu_bytes(default_link().mtu);
		a_ = make_end(device(), options());
		b_ = make_end(peer(), options());
		ASSERT_TRUE(a_.qp && b_.qp);
		to_b_ = make_ah(a_.pd, device(), peer().gid);
		local_ = make_region(a_.pd, 2 * mtu_ + 100);
		remote_ = make_region(b_.pd, 2 * mtu_ + 200);
		ASSERT_TRUE(to_b_ && local_ && remote_);
		local_.fill(seed());
		remote_.fill(~seed());
	}

	static EndOptions options()
	{
		EndOptions options;

		options.type = IBV_QPT_UD;
		options.inline_data = 64;
		return options;
	}

	static End make_end(const Device &dev, const EndOptions &options, uint32_t key = qkey)
	{
		End end = End::create(dev, options);

		EXPECT_TRUE(end.qp) << std::strerror(errno);
		if (end.qp) {
			EXPECT_EQ(start(end, key), 0);
		}
		return end;
	}

	static Ah make_ah(ibv_pd *pd, const Device &from, const ibv_gid &to)
	{
		ibv_ah_attr attr = address_of(from, to);
		Ah ah(ibv_create_ah(pd, &attr));

		EXPECT_TRUE(ah) << std::strerror(errno);
		return ah;
	}

	// From a_ to b_.
	int post(const Datagram &datagram) const
	{
		return post_to(a_, to_b_.get(), b_.qp->qp_num, datagram);
	}

	// One datagram of that size arrives, every byte of it and nothing else.
	void expect_moves(uint32_t length, ibv_wr_opcode op = IBV_WR_SEND)
	{
		static uint64_t counter = 0;
		const uint64_t source_seed = seed() + 2 * ++counter, sink_seed = ~source_seed;
		const size_t at = 5, behind = at + grh_bytes + length;
		const uint32_t first = length / 3, imm = static_cast<uint32_t>(source_seed);
		const bool has_imm = op == IBV_WR_SEND_WITH_IMM;

		SCOPED_TRACE(testing::Message() << op_name(op) << " of " << length << " bytes");
		local_.fill(source_seed);
		remote_.fill(sink_seed);
		// The first fragment ends within the GRH.
		ASSERT_EQ(post_recv(b_, {remote_.sge(at, 30), remote_.sge(at + 30, 10 + mtu_)}, 7),
			  0);
		ASSERT_EQ(
			post({.sges = {local_.sge(3, first), local_.sge(3 + first, length - first)},
			      .op = op,
			      .imm = imm,
			      .wr_id = 5}),
			0);
		const ibv_wc sent = expect_wc(a_.scq);
		EXPECT_EQ(sent.wr_id, 5u);
		EXPECT_EQ(sent.opcode, IBV_WC_SEND);
		const ibv_wc wc = expect_wc(b_.rcq);
		ASSERT_FALSE(HasFailure());
		EXPECT_EQ(wc.wr_id, 7u);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
		EXPECT_EQ(wc.byte_len, grh_bytes + length);
		EXPECT_EQ(wc.qp_num, b_.qp->qp_num);
		EXPECT_EQ(wc.src_qp, a_.qp->qp_num);
		EXPECT_EQ(wc.wc_flags,
			  static_cast<unsigned>(IBV_WC_GRH | (has_imm ? IBV_WC_WITH_IMM : 0)));
		// UCX reads there what kind of header the GRH is, as mlx5 says it.
		if (!peer().is_rxe()) {
			EXPECT_EQ(wc.sl, is_v4(peer().gid) ? 2 : 1);
		}
		if (has_imm) {
			EXPECT_EQ(ntohl(wc.imm_data), imm);
		}
		check_grh(remote_.bytes(at, grh_bytes), device().gid, peer().gid, length, has_imm);
		EXPECT_TRUE(has_pattern(remote_.bytes(at + grh_bytes, length), source_seed, 3))
			<< "data";
		EXPECT_TRUE(has_pattern(remote_.bytes(0, at), sink_seed)) << "before the data";
		EXPECT_TRUE(has_pattern(remote_.bytes(behind, remote_.memory.size() - behind),
					sink_seed, behind))
			<< "after the data";
	}

	// @datagram is sent and does not arrive. A peer that has the counter @why counts it there.
	void expect_dropped(ibv_ah *ah, uint32_t qpn, const Datagram &datagram, const char *why)
	{
		const std::optional<uint64_t> before = counter(peer(), why);

		ASSERT_EQ(post_to(a_, ah, qpn, datagram), 0);
		expect_wc(a_.scq);
		expect_quiet(b_.rcq, 50ms);
		if (before) {
			EXPECT_EQ(counter(peer(), why), *before + 1) << why;
		}
	}

	uint32_t mtu_ = 0;
	End a_, b_; // on device() and peer()
	Ah to_b_;
	Region local_, remote_;
};

TEST_F(Datagrams, MoveExactlyTheBytesAsked)
{
	for (uint32_t length : {0u, 1u, 2u, 3u, 4u, 63u, 64u, 65u, 1000u, mtu_ - 1, mtu_}) {
		if (length > mtu_)
			continue;
		expect_moves(length);
		expect_moves(length, IBV_WR_SEND_WITH_IMM);
		if (HasFailure())
			break;
	}
}

TEST_F(Datagrams, InlineDataIsTakenAtOnce)
{
	char text[] = "taken at once";
	const ibv_sge sge = {reinterpret_cast<uintptr_t>(text), sizeof(text), 0};
	const std::string wanted(text, sizeof(text));

	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}), 0);
	ASSERT_EQ(post({.sges = {sge},
			.op = IBV_WR_SEND_WITH_IMM,
			.imm = 3,
			.flags = signaled | IBV_SEND_INLINE}),
		  0);
	memset(text, 0, sizeof(text));
	expect_wc(a_.scq);
	const ibv_wc wc = expect_wc(b_.rcq);
	EXPECT_EQ(wc.byte_len, grh_bytes + wanted.size());
	EXPECT_EQ(ntohl(wc.imm_data), 3u);
	EXPECT_EQ(memcmp(remote_.memory.data() + grh_bytes, wanted.data(), wanted.size()), 0);
}

TEST_F(Datagrams, AWrongQkeyIsDropped)
{
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}, 1), 0);
	expect_dropped(to_b_.get(), b_.qp->qp_num, {.sges = {local_.sge(0, 100)}, .key = qkey + 1},
		       "rx_bad_qkey");
	EXPECT_TRUE(has_pattern(remote_.memory.bytes(), ~seed()));
	ASSERT_EQ(post({.sges = {local_.sge(0, 100)}}), 0);
	expect_wc(a_.scq);
	EXPECT_EQ(expect_wc(b_.rcq).wr_id, 1u);
}

// A key with its highest bit set stands for that of the sender's queue pair (IBTA 10.2.5).
TEST_F(Datagrams, AControlledQkeyStandsForTheQueuePairsOwn)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe sends it as it is";
	const End other = make_end(device(), options(), qkey + 1);
	const Ah to_b = make_ah(other.pd, device(), peer().gid);

	ASSERT_TRUE(other.qp && to_b);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}), 0);
	ASSERT_EQ(post_to(other, to_b.get(), b_.qp->qp_num, {.key = 0x80000000u | qkey}), 0);
	expect_wc(other.scq);
	expect_quiet(b_.rcq, 50ms);
	ASSERT_EQ(post({.key = 0x80000001u}), 0);
	expect_wc(a_.scq);
	EXPECT_EQ(expect_wc(b_.rcq).src_qp, a_.qp->qp_num);
}

// The message fails, and with it those behind it; modify starts the send queue again.
TEST_F(Datagrams, LongerThanTheMtuFails)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe completes it and sends nothing";
	const uint32_t mtu = mtu_bytes(device().port_attr.active_mtu);
	const Region longer = make_region(a_.pd, mtu + 1);
	Datagram too_long = {.sges = {longer.sge(0, mtu + 1)}, .wr_id = 1};
	Datagram behind = {.sges = {local_.sge(0, 10)}, .wr_id = 2};
	ibv_send_wr second = request(behind, to_b_.get(), b_.qp->qp_num);
	ibv_send_wr first = request(too_long, to_b_.get(), b_.qp->qp_num), *bad = nullptr;

	ASSERT_EQ(post_recv(b_, {remote_.sge(0, remote_.memory.size())}, 3), 0);
	first.next = &second;
	ASSERT_EQ(ibv_post_send(a_.qp.get(), &first, &bad), 0);
	EXPECT_EQ(expect_wc(a_.scq, IBV_WC_LOC_LEN_ERR).wr_id, 1u);
	EXPECT_EQ(expect_wc(a_.scq, IBV_WC_WR_FLUSH_ERR).wr_id, 2u);
	EXPECT_EQ(state_of(a_.qp.get()), IBV_QPS_SQE);
	expect_quiet(b_.rcq, 50ms);
	// It receives as before.
	const Ah to_a = make_ah(b_.pd, peer(), device().gid);
	ASSERT_TRUE(to_a);
	ASSERT_EQ(post_recv(a_, {local_.sge(0, 100)}), 0);
	ASSERT_EQ(post_to(b_, to_a.get(), a_.qp->qp_num, {}), 0);
	expect_wc(b_.scq);
	expect_wc(a_.rcq);
	ASSERT_EQ(to_state(a_.qp.get(), IBV_QPS_RTS), 0);
	ASSERT_EQ(post({.sges = {local_.sge(0, 10)}}), 0);
	expect_wc(a_.scq);
	EXPECT_EQ(expect_wc(b_.rcq).wr_id, 3u);
}

// Whoever sends it must not be able to use up receives, or to stop the queue pair.
TEST_F(Datagrams, LargerThanTheBufferIsDropped)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe completes the receive in error";
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, grh_bytes + 100)}, 3), 0);
	expect_dropped(to_b_.get(), b_.qp->qp_num, {.sges = {local_.sge(0, 101)}}, "rx_refused");
	EXPECT_TRUE(has_pattern(remote_.memory.bytes(), ~seed()));
	ASSERT_EQ(post({.sges = {local_.sge(0, 100)}}), 0);
	expect_wc(a_.scq);
	EXPECT_EQ(expect_wc(b_.rcq).wr_id, 3u);
	EXPECT_EQ(state_of(b_.qp.get()), IBV_QPS_RTS);
}

// The GRH needs its room even if the message is empty.
TEST_F(Datagrams, BuffersWithoutRoomForTheGrhTakeNothing)
{
	if (peer().is_rxe())
		GTEST_SKIP() << "rdma_rxe completes the receive in error";
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, grh_bytes - 1)}), 0);
	expect_dropped(to_b_.get(), b_.qp->qp_num, {}, "rx_refused");
	EXPECT_EQ(state_of(b_.qp.get()), IBV_QPS_RTS);
}

TEST_F(Datagrams, WithoutAReceiveItIsDropped)
{
	expect_dropped(to_b_.get(), b_.qp->qp_num, {.sges = {local_.sge(0, 100)}}, "rx_no_recv");
	expect_moves(100);
}

TEST_F(Datagrams, ForAnUnknownQueuePairItIsDropped)
{
	End gone = make_end(peer(), options());
	ASSERT_TRUE(gone.qp);
	const uint32_t qpn = gone.qp->qp_num;

	ASSERT_EQ(destroy(gone.qp), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}), 0);
	expect_dropped(to_b_.get(), qpn, {.sges = {local_.sge(0, 100)}}, "rx_no_qp");
	ASSERT_EQ(post({}), 0);
	expect_wc(a_.scq);
	expect_wc(b_.rcq);
}

// A connected queue pair takes no datagram.
TEST_F(Datagrams, ForAConnectedQueuePairItIsDropped)
{
	Pair pair = make_pair();
	const Region sink = make_region(pair.b.pd, 200);

	ASSERT_TRUE(sink);
	ASSERT_EQ(verbs::post_recv(pair.b, {sink.sge(0, 200)}), 0);
	expect_dropped(to_b_.get(), pair.b.qp->qp_num, {.sges = {local_.sge(0, 100)}},
		       "rx_bad_opcode");
	expect_quiet(pair.b.rcq, 0ms);
	EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_RTS);
}

TEST_F(Datagrams, GoToManyDestinationsFromOneList)
{
	constexpr uint32_t ends = 6, rounds = 4, size = 100;
	std::vector<End> sinks;
	std::vector<Region> regions;
	std::vector<Ah> ahs;
	std::vector<Datagram> datagrams;
	std::vector<ibv_send_wr> wrs;
	const Ah to_a = make_ah(a_.pd, device(), device().gid);

	ASSERT_TRUE(to_a);
	for (uint32_t i = 0; i < ends; i++) {
		const Device &dev = i % 3 == 2 ? device() : peer();

		sinks.push_back(make_end(dev, options()));
		ASSERT_TRUE(sinks.back().qp);
		regions.push_back(make_region(sinks.back().pd, rounds * (grh_bytes + size)));
		ASSERT_TRUE(regions.back());
		// Half of them share one.
		ahs.push_back(i % 2 ? make_ah(a_.pd, device(), dev.gid) : Ah());
		for (uint32_t round = 0; round < rounds; round++)
			ASSERT_EQ(post_recv(sinks[i],
					    {regions[i].sge(round * (grh_bytes + size),
							    grh_bytes + size)},
					    round),
				  0);
	}
	datagrams.reserve(ends * rounds);
	for (uint32_t n = 0; n < ends * rounds; n++) {
		const uint32_t to = n % ends;
		ibv_ah *shared = to % 3 == 2 ? to_a.get() : to_b_.get();

		datagrams.push_back({.sges = {local_.sge(n, size)},
				     .op = IBV_WR_SEND_WITH_IMM,
				     .imm = n,
				     .wr_id = n});
		wrs.push_back(request(datagrams[n], ahs[to] ? ahs[to].get() : shared,
				      sinks[to].qp->qp_num));
	}
	for (size_t n = 1; n < wrs.size(); n++)
		wrs[n - 1].next = &wrs[n];
	ibv_send_wr *bad = nullptr;
	ASSERT_EQ(ibv_post_send(a_.qp.get(), wrs.data(), &bad), 0);
	for (uint64_t n = 0; n < wrs.size(); n++)
		EXPECT_EQ(expect_wc(a_.scq).wr_id, n);
	for (uint32_t i = 0; i < ends; i++) {
		for (uint32_t round = 0; round < rounds && !HasFailure(); round++) {
			const ibv_wc wc = expect_wc(sinks[i].rcq);
			const size_t at = round * (grh_bytes + size) + grh_bytes;

			EXPECT_EQ(wc.wr_id, round);
			EXPECT_EQ(ntohl(wc.imm_data), round * ends + i);
			EXPECT_TRUE(
				has_pattern(regions[i].bytes(at, size), seed(), round * ends + i));
		}
	}
}

TEST_F(Datagrams, NeedAnAddressHandleOfTheirDomain)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe looks at it when it is sent";
	const Pd other(ibv_alloc_pd(device().context.get()));
	const Ah foreign = make_ah(other.get(), device(), peer().gid);

	ASSERT_TRUE(foreign);
	EXPECT_EQ(post_to(a_, foreign.get(), b_.qp->qp_num, {}), EINVAL);
	EXPECT_EQ(post_to(a_, nullptr, b_.qp->qp_num, {}), EINVAL);
	expect_moves(100);
}

TEST_F(Datagrams, OnlySendsAreSent)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe fails it when it is sent";
	EXPECT_NE(post({.sges = {local_.sge(0, 10)}, .op = IBV_WR_RDMA_WRITE}), 0);
	EXPECT_NE(post({.sges = {local_.sge(0, 10)}, .op = IBV_WR_RDMA_READ}), 0);
	expect_moves(100);
}

TEST_F(Datagrams, AddressHandlesGoOnceTheirSendsAreDone)
{
	for (uint32_t i = 0; i < 50 && !HasFailure(); i++) {
		Ah ah = make_ah(a_.pd, device(), peer().gid);

		ASSERT_TRUE(ah);
		ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}, i), 0);
		ASSERT_EQ(post_to(a_, ah.get(), b_.qp->qp_num, {.sges = {local_.sge(i, 100)}}), 0);
		expect_wc(a_.scq);
		ASSERT_EQ(destroy(ah), 0);
		EXPECT_EQ(expect_wc(b_.rcq).wr_id, i);
		EXPECT_TRUE(has_pattern(remote_.bytes(grh_bytes, 100), seed(), i));
	}
}

// mckey sends a few datagrams and ends without waiting for their completions.
TEST_F(Datagrams, AreSentThoughTheirQueuePairIsDestroyedAtOnce)
{
	constexpr uint32_t messages = 20;

	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe drops what waits in the send queue";
	for (uint32_t round = 0; round < 5 && !HasFailure(); round++) {
		End end = make_end(device(), options());

		ASSERT_TRUE(end.qp);
		const Region data = make_region(end.pd, 100);
		Ah ah = make_ah(end.pd, device(), peer().gid);

		ASSERT_TRUE(data && ah);
		for (uint32_t i = 0; i < messages; i++)
			ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}, i), 0);
		for (uint32_t i = 0; i < messages; i++)
			ASSERT_EQ(post_to(end, ah.get(), b_.qp->qp_num,
					  {.sges = {data.sge(0, 100)}, .flags = 0}),
				  0);
		ASSERT_EQ(destroy(ah), 0);
		ASSERT_EQ(destroy(end.qp), 0);
		for (uint32_t i = 0; i < messages; i++)
			EXPECT_EQ(expect_wc(b_.rcq).wr_id, i);
	}
}

TEST_F(Datagrams, AddressHandlesKeepTheirDomainInUse)
{
	Pd pd(ibv_alloc_pd(device().context.get()));
	Ah ah = make_ah(pd.get(), device(), peer().gid);

	ASSERT_TRUE(ah);
	EXPECT_EQ(destroy(pd), EBUSY);
	ASSERT_EQ(destroy(ah), 0);
	EXPECT_EQ(destroy(pd), 0);
}

TEST_F(Datagrams, AddressHandlesWithoutARouteAreRefused)
{
	const ibv_ah_attr good = address_of(device(), peer().gid);
	ibv_ah_attr attr = good;
	const auto refused = [&](const char *what) {
		errno = 0;
		const Ah ah(ibv_create_ah(a_.pd, &attr));

		EXPECT_FALSE(ah) << what;
		EXPECT_NE(errno, 0) << what;
		attr = good;
	};

	attr.port_num = 2;
	refused("port");
	attr.is_global = 0;
	refused("no global route");
	attr.grh.sgid_index = 255;
	refused("GID index beyond the table");
	attr.grh.dgid = {};
	if (is_v4(peer().gid)) {
		inet_pton(AF_INET6, "fd77::1", attr.grh.dgid.raw);
	} else {
		inet_pton(AF_INET6, "::ffff:10.0.0.1", attr.grh.dgid.raw);
	}
	refused("address of the other IP version");
	if (!device().is_rxe()) {
		attr.sl = 8;
		refused("service level");
	}
	EXPECT_TRUE(Ah(ibv_create_ah(a_.pd, &attr)));
}

// An address that is on the link and nobody's. The kernel looks for it when the handle is made.
TEST_F(Datagrams, ToAnAddressOfNobodyGoAstrayAlone)
{
	if (!nobody())
		GTEST_SKIP() << "no --unreachable address of this family was given";
	ibv_ah_attr attr = address_of(device(), *nobody());
	const auto start = std::chrono::steady_clock::now();
	const Ah to_nobody(ibv_create_ah(a_.pd, &attr));

	EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
	if (!to_nobody) {
		EXPECT_TRUE(errno == ETIMEDOUT || errno == EHOSTUNREACH) << std::strerror(errno);
		expect_moves(100);
		return;
	}
	EXPECT_TRUE(verbs::options().unpinned) << "only on lo, where the twin's devices are, there "
						  "are no neighbours";
	for (uint32_t n = 0; n < 10 && !HasFailure(); n++) {
		ASSERT_EQ(post_to(a_, to_nobody.get(), b_.qp->qp_num, {.wr_id = 3}), 0);
		EXPECT_EQ(expect_wc(a_.scq).wr_id, 3u);
		expect_moves(100);
	}
	EXPECT_EQ(state_of(a_.qp.get()), IBV_QPS_RTS);
}

// A flow label has 20 bits. UCX sets them all.
TEST_F(Datagrams, HigherBitsOfAFlowLabelAreIgnored)
{
	ibv_ah_attr attr = address_of(device(), peer().gid);

	attr.grh.flow_label = ~0u;
	to_b_.reset(ibv_create_ah(a_.pd, &attr));
	ASSERT_TRUE(to_b_) << std::strerror(errno);
	expect_moves(100);
}

TEST_F(Datagrams, AreReceivedFromASharedQueue)
{
	if (!peer().attr.max_srq)
		GTEST_SKIP() << not_reported("max_srq");
	constexpr uint32_t ends = 3, rounds = 10, size = 200;
	EndOptions shared = options();
	ibv_srq_init_attr init = {};

	init.attr.max_wr = ends * rounds;
	init.attr.max_sge = 1;
	const Srq srq(ibv_create_srq(b_.pd, &init));
	ASSERT_TRUE(srq);
	const Region sink = make_region(b_.pd, ends * rounds * (grh_bytes + size));
	const Cq cq(ibv_create_cq(peer().context.get(), ends * rounds, nullptr, nullptr, 0));
	ASSERT_TRUE(sink && cq);
	std::vector<End> sinks; // gone before what they share
	std::map<uint32_t, uint32_t> owner;

	shared.srq = srq.get();
	shared.shared_pd = b_.pd;
	shared.shared_cq = cq.get();
	for (uint32_t i = 0; i < ends; i++) {
		sinks.push_back(make_end(peer(), shared));
		ASSERT_TRUE(sinks.back().qp);
		owner[sinks.back().qp->qp_num] = i;
	}
	for (uint32_t n = 0; n < ends * rounds; n++)
		ASSERT_EQ(verbs::post_recv(srq.get(),
					   {sink.sge(n * (grh_bytes + size), grh_bytes + size)}, n),
			  0);
	for (uint32_t n = 0; n < ends * rounds && !HasFailure(); n++) {
		ASSERT_EQ(post_to(a_, to_b_.get(), sinks[n % ends].qp->qp_num,
				  {.sges = {local_.sge(n, size)},
				   .op = IBV_WR_SEND_WITH_IMM,
				   .imm = n}),
			  0);
		expect_wc(a_.scq);
		const ibv_wc wc = expect_wc(cq.get());
		EXPECT_EQ(wc.wr_id, n);
		EXPECT_EQ(owner[wc.qp_num], n % ends);
		EXPECT_EQ(ntohl(wc.imm_data), n);
		EXPECT_EQ(wc.src_qp, a_.qp->qp_num);
		EXPECT_EQ(wc.byte_len, grh_bytes + size);
		EXPECT_TRUE(has_pattern(sink.bytes(n * (grh_bytes + size) + grh_bytes, size),
					seed(), n));
	}
}

// Those that come while it is empty are lost, and those larger than its buffers; the other queue pairs go on.
TEST_F(Datagrams, ThatASharedQueueCannotTakeAreLostAlone)
{
	if (!peer().attr.max_srq || peer().is_rxe())
		GTEST_SKIP() << "no shared receive queues, or rdma_rxe's";
	constexpr uint32_t size = 100;
	const std::optional<uint64_t> before = counter(peer(), "rx_no_recv");
	EndOptions shared = options();
	ibv_srq_init_attr init = {};

	init.attr.max_wr = 16;
	init.attr.max_sge = 1;
	const Srq srq(ibv_create_srq(b_.pd, &init));
	const Cq cq(ibv_create_cq(peer().context.get(), 64, nullptr, nullptr, 0));
	ASSERT_TRUE(srq && cq);
	shared.srq = srq.get();
	shared.shared_pd = b_.pd;
	shared.shared_cq = cq.get();
	const End first = make_end(peer(), shared), second = make_end(peer(), shared);
	ASSERT_TRUE(first.qp && second.qp);
	const auto send_to = [&](const End &end, uint32_t length, uint32_t imm) {
		ASSERT_EQ(post_to(a_, to_b_.get(), end.qp->qp_num,
				  {.sges = {local_.sge(0, length)},
				   .op = IBV_WR_SEND_WITH_IMM,
				   .imm = imm}),
			  0);
		expect_wc(a_.scq);
	};

	for (uint32_t n = 0; n < 4; n++)
		ASSERT_EQ(verbs::post_recv(srq.get(), {remote_.sge(n * 200, grh_bytes + size)}, n),
			  0);
	for (uint32_t n = 0; n < 10; n++)
		send_to(n % 2 ? first : second, size, n);
	for (uint32_t n = 0; n < 4; n++) {
		const ibv_wc wc = expect_wc(cq.get());

		EXPECT_EQ(wc.wr_id, n);
		EXPECT_EQ(ntohl(wc.imm_data), n);
	}
	expect_quiet(cq.get(), 50ms);
	if (before) {
		EXPECT_EQ(counter(peer(), "rx_no_recv"), *before + 6);
	}
	// A request that was taken for a message that does not fit is not for another queue pair any more: it completes.
	ASSERT_EQ(verbs::post_recv(srq.get(), {remote_.sge(0, grh_bytes + size)}, 7), 0);
	ASSERT_EQ(verbs::post_recv(srq.get(), {remote_.sge(200, grh_bytes + size)}, 8), 0);
	send_to(first, size + 1, 11);
	const ibv_wc failed = expect_wc(cq.get(), IBV_WC_LOC_LEN_ERR);
	EXPECT_EQ(failed.wr_id, 7u);
	EXPECT_EQ(failed.qp_num, first.qp->qp_num);
	send_to(second, size, 12);
	const ibv_wc wc = expect_wc(cq.get());
	EXPECT_EQ(wc.wr_id, 8u);
	EXPECT_EQ(ntohl(wc.imm_data), 12u);
	EXPECT_EQ(state_of(second.qp.get()), IBV_QPS_RTS);
}

// The completion and the GRH say enough to answer.
TEST_F(Datagrams, AreAnsweredByTheirCompletion)
{
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}), 0);
	ASSERT_EQ(post_recv(a_, {local_.sge(0, 140)}, 9), 0);
	ASSERT_EQ(post({.sges = {local_.sge(0, 100)}}), 0);
	expect_wc(a_.scq);
	ibv_wc wc = expect_wc(b_.rcq);
	auto *grh = reinterpret_cast<ibv_grh *>(remote_.memory.data());
	ibv_ah_attr attr = {};

	ASSERT_EQ(ibv_init_ah_from_wc(peer().context.get(), peer().port, &wc, grh, &attr), 0)
		<< std::strerror(errno);
	EXPECT_EQ(memcmp(&attr.grh.dgid, &device().gid, sizeof(ibv_gid)), 0);
	EXPECT_EQ(attr.grh.sgid_index, peer().gid_index);
	EXPECT_EQ(attr.is_global, 1);
	const Ah back(ibv_create_ah_from_wc(b_.pd, &wc, grh, peer().port));
	ASSERT_TRUE(back) << std::strerror(errno);
	ASSERT_EQ(post_to(b_, back.get(), wc.src_qp, {.sges = {remote_.sge(grh_bytes, 100)}}), 0);
	expect_wc(b_.scq);
	const ibv_wc answer = expect_wc(a_.rcq);
	EXPECT_EQ(answer.wr_id, 9u);
	EXPECT_EQ(answer.src_qp, b_.qp->qp_num);
	EXPECT_TRUE(has_pattern(local_.bytes(grh_bytes, 100), seed()));
}

TEST_F(Datagrams, AttributesAreThoseOfTheirType)
{
	const End end = End::create(device(), options());
	ASSERT_TRUE(end.qp);
	ibv_qp_attr init = init_attr(device(), {}), rtr = {}, rts = {};

	init.qkey = qkey;
	rtr.qp_state = IBV_QPS_RTR;
	rts.qp_state = IBV_QPS_RTS;
	const struct {
		ibv_qp_attr attr;
		int required;
	} steps[] = {
		{init, ud_init_mask},
		{rtr, IBV_QP_STATE},
		{rts, IBV_QP_STATE | IBV_QP_SQ_PSN},
	};

	for (const auto &step : steps) {
		SCOPED_TRACE(testing::Message() << "to state " << step.attr.qp_state);
		ibv_qp_attr attr = step.attr;

		for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
			if (step.required & bit) {
				EXPECT_EQ(ibv_modify_qp(end.qp.get(), &attr, step.required & ~bit),
					  EINVAL)
					<< "without 0x" << std::hex << bit;
			} else if ((reliable_mask | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
				    IBV_QP_DEST_QPN) &
				   bit) {
				EXPECT_EQ(ibv_modify_qp(end.qp.get(), &attr, step.required | bit),
					  EINVAL)
					<< "with 0x" << std::hex << bit;
			}
		}
		ASSERT_EQ(ibv_modify_qp(end.qp.get(), &attr, step.required), 0);
	}

	ibv_qp_attr attr = {};
	ibv_qp_init_attr made = {};

	ASSERT_EQ(ibv_query_qp(end.qp.get(), &attr, IBV_QP_STATE | IBV_QP_QKEY, &made), 0);
	EXPECT_EQ(made.qp_type, IBV_QPT_UD);
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(attr.qkey, qkey);
}

TEST_F(Datagrams, TheQkeyMayChange)
{
	ibv_qp_attr attr = {};

	attr.qp_state = IBV_QPS_RTS;
	attr.qkey = qkey + 5;
	ASSERT_EQ(ibv_modify_qp(b_.qp.get(), &attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 140)}), 0);
	expect_dropped(to_b_.get(), b_.qp->qp_num, {}, "rx_bad_qkey");
	ASSERT_EQ(post({.key = qkey + 5}), 0);
	expect_wc(a_.scq);
	expect_wc(b_.rcq);
}

TEST_F(Datagrams, WorkThroughTheExtendedInterface)
{
	if (device().is_rxe())
		GTEST_SKIP() << "rdma_rxe of Linux 6.12 completes them as flushed";
	ibv_qp_init_attr_ex init = {};

	init.qp_type = IBV_QPT_UD;
	init.send_cq = a_.scq;
	init.recv_cq = a_.rcq;
	init.cap = a_.cap;
	init.pd = a_.pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	EXPECT_EQ(ibv_create_qp_ex(device().context.get(), &init), nullptr);
	init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	Qp made(ibv_create_qp_ex(device().context.get(), &init));
	if (!made && errno == EOPNOTSUPP)
		GTEST_SKIP() << not_offered("ibv_create_qp_ex", errno);
	ASSERT_TRUE(made);
	a_.qp = std::move(made);
	ASSERT_EQ(start(a_), 0);

	char text[] = "inline";
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(a_.qp.get());
	const size_t step = 300;

	for (size_t i = 0; i < 2; i++)
		ASSERT_EQ(post_recv(b_, {remote_.sge(i * step, step)}, i), 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, to_b_.get(), b_.qp->qp_num, qkey);
	ibv_wr_set_sge(ex, local_.mr->lkey, local_.address(11), 200);
	ibv_wr_send_imm(ex, htonl(77));
	ibv_wr_set_ud_addr(ex, to_b_.get(), b_.qp->qp_num, qkey);
	ibv_wr_set_inline_data(ex, text, sizeof(text));
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(expect_wc(a_.scq).opcode, IBV_WC_SEND);
	EXPECT_EQ(expect_wc(b_.rcq).byte_len, grh_bytes + 200);
	EXPECT_EQ(expect_wc(b_.rcq).imm_data, htonl(77));
	EXPECT_TRUE(has_pattern(remote_.bytes(grh_bytes, 200), seed(), 11));
	EXPECT_EQ(memcmp(remote_.memory.data() + step + grh_bytes, text, sizeof(text)), 0);
}

// Two senders at a time, one receiver with room for all.
TEST_F(Datagrams, AreSentByThreads)
{
	constexpr uint32_t each = 100, threads = 2, size = 64;
	EndOptions large = options();
	std::map<uint32_t, std::vector<uint32_t>> seen;
	std::vector<End> sources;
	std::vector<Ah> ahs;
	std::vector<Region> regions;
	std::vector<std::jthread> senders;

	large.recv_wr = each * threads;
	const End sink = make_end(peer(), large);
	const Region into = make_region(sink.pd, grh_bytes + size);
	ASSERT_TRUE(sink.qp && into);
	for (uint32_t i = 0; i < each * threads; i++)
		ASSERT_EQ(post_recv(sink, {into.sge(0, grh_bytes + size)}, i), 0);
	for (uint32_t t = 0; t < threads; t++) {
		sources.push_back(make_end(device(), options()));
		ASSERT_TRUE(sources.back().qp);
		ahs.push_back(make_ah(sources.back().pd, device(), peer().gid));
		regions.push_back(make_region(sources.back().pd, size));
		ASSERT_TRUE(ahs.back() && regions.back());
	}
	for (uint32_t t = 0; t < threads; t++)
		senders.emplace_back([&, t] {
			for (uint32_t i = 0; i < each; i++) {
				EXPECT_EQ(post_to(sources[t], ahs[t].get(), sink.qp->qp_num,
						  {.sges = {regions[t].sge(0, size)},
						   .op = IBV_WR_SEND_WITH_IMM,
						   .imm = i}),
					  0);
				expect_wc(sources[t].scq);
			}
		});
	for (uint32_t i = 0; i < each * threads && !HasFailure(); i++) {
		const ibv_wc wc = expect_wc(sink.rcq);

		EXPECT_EQ(wc.wr_id, i);
		seen[wc.src_qp].push_back(ntohl(wc.imm_data));
	}
	senders.clear();
	for (uint32_t t = 0; t < threads; t++) {
		const std::vector<uint32_t> &from = seen[sources[t].qp->qp_num];

		ASSERT_EQ(from.size(), each);
		EXPECT_TRUE(std::is_sorted(from.begin(), from.end()));
	}
}

} // namespace
} // namespace verbs
