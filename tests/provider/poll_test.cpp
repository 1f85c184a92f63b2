/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From CQEs to work completions.
 */
#include <cerrno>
#include <deque>
#include <functional>

#include <infiniband/opcode.h>

#include "rings.hpp"

namespace sirdma::test
{

namespace
{

SeenWqe recv_one(TestQp &qp, uint64_t wr_id)
{
	auto sges = make_sges(1);

	EXPECT_EQ(post_recv(*qp, wr_id, sges), 0);
	auto seen = qp.recvs.next();
	EXPECT_TRUE(seen);
	return seen.value_or(SeenWqe{});
}

void replace_ring(TestCq &cq, std::vector<sirdma_cqe> &ring)
{
	auto kept = std::make_unique<sirdma_cqe[]>(cq->room_to_keep() + 1);

	EXPECT_EQ(cq->replace_ring(ring, std::move(kept), [] { return 0; }), 0);
}

} // namespace

TEST(Poll, EmptyQueueHasNothing)
{
	TestCq cq;

	EXPECT_TRUE(cq.poll().empty());
}

TEST(Poll, SendCompletionNamesItsRequest)
{
	TestQp qp;
	TestCq cq;
	const SeenWqe seen = send_one(qp, 0x1234567890, 4096);

	cq.device.write(qp.completion_of(seen));

	auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 0x1234567890u);
	EXPECT_EQ(wcs[0].status, IBV_WC_SUCCESS);
	EXPECT_EQ(wcs[0].opcode, IBV_WC_SEND);
	EXPECT_EQ(wcs[0].byte_len, 4096u);
	EXPECT_EQ(wcs[0].qp_num, TestQp::number);
	EXPECT_EQ(wcs[0].src_qp, TestQp::number);
	EXPECT_EQ(wcs[0].vendor_err, 0u);
	EXPECT_EQ(wcs[0].wc_flags, 0u);
	EXPECT_EQ(wcs[0].imm_data, 0u);
	EXPECT_EQ(wcs[0].sl, 0);
	EXPECT_TRUE(cq.poll().empty());
}

TEST(Poll, SendOpcodesFollowTheCqe)
{
	const std::pair<uint8_t, ibv_wc_opcode> cases[] = {
		{SIRDMA_OP_WRITE, IBV_WC_RDMA_WRITE},	 {SIRDMA_OP_WRITE_SOL, IBV_WC_RDMA_WRITE},
		{SIRDMA_OP_READ, IBV_WC_RDMA_READ},	 {SIRDMA_OP_SEND, IBV_WC_SEND},
		{SIRDMA_OP_SEND_SOL, IBV_WC_SEND},	 {SIRDMA_OP_SEND_INV, IBV_WC_SEND},
		{SIRDMA_OP_LOCAL_INV, IBV_WC_LOCAL_INV}, {SIRDMA_OP_BIND_MW, IBV_WC_BIND_MW},
		{SIRDMA_OP_FETCH_ADD, IBV_WC_FETCH_ADD}, {SIRDMA_OP_CMP_SWAP, IBV_WC_COMP_SWAP},
	};
	TestQp qp;
	TestCq cq;

	for (const auto &[op, expected] : cases) {
		CqeSpec spec = qp.completion_of(send_one(qp, 1));

		spec.op = op;
		cq.device.write(spec);
		auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 1u);
		EXPECT_EQ(wcs[0].opcode, expected) << int{op};
		EXPECT_EQ(wcs[0].status, IBV_WC_SUCCESS);
	}
}

TEST(Poll, UnknownSendOpcodeIsAnError)
{
	TestQp qp;
	TestCq cq;
	CqeSpec spec = qp.completion_of(send_one(qp, 1));

	spec.op = 0x3d;
	cq.device.write(spec);
	EXPECT_EQ(cq.poll().at(0).status, IBV_WC_GENERAL_ERR);
}

TEST(Poll, ReceiveOpcodesFollowTheLastPacket)
{
	const std::tuple<uint8_t, bool, ibv_wc_opcode> cases[] = {
		{IBV_OPCODE_SEND_ONLY, false, IBV_WC_RECV},
		{IBV_OPCODE_SEND_LAST, false, IBV_WC_RECV},
		{IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE, true, IBV_WC_RECV},
		{IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE, true, IBV_WC_RECV},
		{IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE, true, IBV_WC_RECV_RDMA_WITH_IMM},
		{IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE, true, IBV_WC_RECV_RDMA_WITH_IMM},
	};
	TestQp qp;
	TestCq cq;

	for (const auto &[op, imm, expected] : cases) {
		CqeSpec spec = qp.completion_of(recv_one(qp, 40 + op), false);

		spec.op = op;
		spec.length = 1000;
		if (imm)
			spec.imm = 0xa1b2c3d4;
		cq.device.write(spec);

		auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 1u);
		EXPECT_EQ(wcs[0].wr_id, 40u + op);
		EXPECT_EQ(wcs[0].opcode, expected);
		EXPECT_EQ(wcs[0].byte_len, 1000u);
		EXPECT_EQ(wcs[0].wc_flags, imm ? unsigned{IBV_WC_WITH_IMM} : 0u);
		EXPECT_EQ(wcs[0].imm_data, imm ? htobe32(0xa1b2c3d4) : 0u);
	}
}

TEST(Poll, InvalidatedStagIsReportedAsItIs)
{
	TestQp qp;
	TestCq cq;
	CqeSpec spec = qp.completion_of(recv_one(qp, 1), false);

	spec.inv_stag = 0x01020304;
	cq.device.write(spec);
	auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wc_flags, IBV_WC_WITH_INV);
	EXPECT_EQ(wcs[0].invalidated_rkey, 0x01020304u);
}

/* An odd ring makes the two halves of an extended CQE straddle the wrap in every other lap. */
TEST(Poll, ImmediateDataSurvivesTheWrap)
{
	TestQp qp;
	TestCq cq(7);

	for (uint32_t i = 0; i < 100; ++i) {
		CqeSpec spec = qp.completion_of(recv_one(qp, i), false);

		spec.op = IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE;
		spec.imm = i * 3;
		cq.device.write(spec);
		auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 1u) << i;
		EXPECT_EQ(wcs[0].wr_id, i);
		EXPECT_EQ(wcs[0].imm_data, htobe32(i * 3));
		EXPECT_EQ(cq.device.in_use(), 0u);
	}
}

TEST(Poll, WaitsForTheSecondHalf)
{
	for (uint32_t offset = 0; offset < 8; ++offset) {
		TestQp qp;
		TestCq cq(7);

		for (uint32_t i = 0; i < offset; ++i) {
			cq.device.write(qp.completion_of(send_one(qp, i)));
			ASSERT_EQ(cq.poll().size(), 1u);
		}

		CqeSpec spec = qp.completion_of(recv_one(qp, 77), false);
		spec.imm = 5;
		cq.device.write_first_half(spec);
		EXPECT_TRUE(cq.poll().empty()) << offset;
		cq.device.write_second_half(spec);
		EXPECT_EQ(cq.poll().size(), 1u) << offset;
	}
}

TEST(Poll, EveryErrorCodeHasItsStatus)
{
	const std::pair<uint16_t, ibv_wc_status> cases[] = {
		{SIRDMA_FLUSH_GENERAL, IBV_WC_WR_FLUSH_ERR},
		{SIRDMA_FLUSH_PROT, IBV_WC_LOC_PROT_ERR},
		{SIRDMA_FLUSH_REM_ACCESS, IBV_WC_REM_ACCESS_ERR},
		{SIRDMA_FLUSH_LOC_QP_OP, IBV_WC_LOC_QP_OP_ERR},
		{SIRDMA_FLUSH_REM_OP, IBV_WC_REM_OP_ERR},
		{SIRDMA_FLUSH_LOC_LEN, IBV_WC_LOC_LEN_ERR},
		{7, IBV_WC_FATAL_ERR}, // irdma's code of it
		{SIRDMA_FLUSH_RETRY_EXC, IBV_WC_RETRY_EXC_ERR},
		{SIRDMA_FLUSH_MW_BIND, IBV_WC_MW_BIND_ERR},
		{SIRDMA_FLUSH_REM_INV_REQ, IBV_WC_REM_INV_REQ_ERR},
		{SIRDMA_FLUSH_RNR_RETRY_EXC, IBV_WC_RNR_RETRY_EXC_ERR},
		{SIRDMA_FLUSH_LOC_ACCESS, IBV_WC_LOC_ACCESS_ERR},
		{SIRDMA_FLUSH_INVALID, IBV_WC_FATAL_ERR},
		{999, IBV_WC_FATAL_ERR},
	};
	TestQp qp;
	TestCq cq;

	for (const auto &[minor, expected] : cases) {
		CqeSpec spec = qp.completion_of(send_one(qp, minor));

		spec.error = true;
		spec.minor = minor;
		spec.vendor_err = 0x1000u + minor;
		cq.device.write(spec);
		auto wcs = cq.poll();
		ASSERT_EQ(wcs.size(), 1u);
		EXPECT_EQ(wcs[0].wr_id, minor);
		EXPECT_EQ(wcs[0].status, expected) << minor;
		EXPECT_EQ(wcs[0].vendor_err, 0x1000u + minor);
	}

	CqeSpec spec = qp.completion_of(send_one(qp, 1));
	spec.error = true;
	spec.major = 2;
	cq.device.write(spec);
	EXPECT_EQ(cq.poll().at(0).status, IBV_WC_GENERAL_ERR);
}

TEST(Poll, FlushReturnsEveryRequestOfBothQueues)
{
	TestQp qp;
	TestCq cq;
	auto sges = make_sges(5);

	for (uint64_t i = 0; i < 10; ++i) {
		ASSERT_EQ(post(*qp, make_send(sges, i, IBV_WR_SEND, 0)), 0);
		auto one = make_sges(1);
		ASSERT_EQ(post_recv(*qp, 100 + i, one), 0);
	}
	while (auto seen = qp.sends.next_request()) {
		CqeSpec spec = qp.completion_of(*seen);

		spec.error = true;
		spec.minor = SIRDMA_FLUSH_GENERAL;
		cq.device.write(spec);
	}
	while (auto seen = qp.recvs.next()) {
		CqeSpec spec = qp.completion_of(*seen, false);

		spec.error = true;
		spec.minor = SIRDMA_FLUSH_GENERAL;
		spec.length = 12345;
		cq.device.write(spec);
	}

	auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 20u);
	for (uint64_t i = 0; i < 10; ++i) {
		EXPECT_EQ(wcs[i].wr_id, i);
		EXPECT_EQ(wcs[i].status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wcs[10 + i].wr_id, 100 + i);
		EXPECT_EQ(wcs[10 + i].status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wcs[10 + i].byte_len, 0u);
	}
}

TEST(Poll, GivesBackElementsAfterEachCallAndDuringLongOnes)
{
	TestQp qp({.sq_quanta = 2048});
	TestCq cq(512);

	for (int i = 0; i < 300; ++i)
		cq.device.write(qp.completion_of(send_one(qp, 1)));
	EXPECT_EQ(cq.device.in_use(), 300u);
	EXPECT_EQ(cq.poll(10).size(), 10u);
	EXPECT_EQ(cq.device.in_use(), 290u);
	EXPECT_EQ(cq.poll(1000).size(), 290u);
	EXPECT_EQ(cq.device.in_use(), 0u);
}

TEST(Poll, CqeThatNamesNoOutstandingRequestIsDropped)
{
	TestQp qp;
	TestCq cq;
	const SeenWqe seen = send_one(qp, 1);
	CqeSpec spec = qp.completion_of(seen);

	spec.position = 200;
	cq.device.write(spec);
	EXPECT_TRUE(cq.poll().empty());
	EXPECT_EQ(cq.device.in_use(), 0u);
	cq.device.write(qp.completion_of(seen));
	EXPECT_EQ(cq.poll().size(), 1u);
}

TEST(Poll, ForgottenQpLeavesTheOthersInPlace)
{
	TestQp gone;
	TestQp stays;
	TestCq cq(15);

	/* Wrap once, and let the remembered state differ from the start. */
	for (int i = 0; i < 10; ++i) {
		cq.device.write(gone.completion_of(send_one(gone, 1)));
		ASSERT_EQ(cq.poll().size(), 1u);
	}
	for (uint64_t i = 0; i < 4; ++i) {
		CqeSpec dead = gone.completion_of(recv_one(gone, 1), false);

		dead.imm = 3;
		cq.device.write(dead);
		cq.device.write(stays.completion_of(send_one(stays, i)));
	}
	cq->forget(&*gone, 0);

	auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 4u);
	for (uint64_t i = 0; i < 4; ++i)
		EXPECT_EQ(wcs[i].wr_id, i);
	EXPECT_EQ(cq.device.in_use(), 0u);
}

TEST(Poll, CompletionsOfASharedQueueNeedNoQueue)
{
	TestQp stays;
	TestCq cq(15);
	CqeSpec spec{.compl_ctx = 0x1234567890,
		     .op = IBV_OPCODE_SEND_ONLY,
		     .send = false,
		     .shared = true,
		     .length = 100,
		     .qp_id = 8};

	spec.imm = 3;
	cq.device.write(spec);
	auto wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 0x1234567890u);
	EXPECT_EQ(wcs[0].qp_num, 8u);
	EXPECT_EQ(wcs[0].byte_len, 100u);
	EXPECT_EQ(wcs[0].opcode, IBV_WC_RECV);
	EXPECT_EQ(be32toh(wcs[0].imm_data), 3u);

	/* Those of a queue pair that is gone are found by its number. */
	for (uint64_t i = 0; i < 3; ++i) {
		spec.compl_ctx = i;
		spec.qp_id = i == 1 ? 9 : 8;
		cq.device.write(spec);
	}
	cq.device.write(stays.completion_of(send_one(stays, 5)));
	cq->forget(nullptr, 8);
	wcs = cq.poll();
	ASSERT_EQ(wcs.size(), 2u);
	EXPECT_EQ(wcs[0].wr_id, 1u);
	EXPECT_EQ(wcs[0].qp_num, 9u);
	EXPECT_EQ(wcs[1].wr_id, 5u);
	EXPECT_EQ(cq.device.in_use(), 0u);
}

TEST(Poll, ExtendedPollWalksAndGivesBack)
{
	TestQp qp;
	TestCq cq;
	Completion c;

	EXPECT_FALSE(cq->begin(c));
	cq.device.write(qp.completion_of(send_one(qp, 1)));
	cq.device.write(qp.completion_of(send_one(qp, 2)));
	ASSERT_TRUE(cq->begin(c));
	EXPECT_EQ(c.wr_id, 1u);
	ASSERT_TRUE(cq->next(c));
	EXPECT_EQ(c.wr_id, 2u);
	EXPECT_FALSE(cq->next(c));
	cq->end();
	EXPECT_EQ(cq.device.in_use(), 0u);
	EXPECT_TRUE(cq.poll().empty());
}

/*
 * Plain completions are decoded apart from the others. Each kind comes before and behind each, also
 * where the ring ends and where a call ends.
 */
TEST(Poll, CompletionsOfAllKindsComeInOrder)
{
	enum Kind : unsigned { send, recv, imm, error, shared, unknown, kinds };
	TestQp qp, other;
	TestCq cq(31);
	uint64_t next = 1, expected = 1;
	std::deque<unsigned> written;
	const auto check = [&](const auto &c, uint64_t wr_id, unsigned status, unsigned opcode,
			       uint32_t length, uint32_t qp_num) {
		while (written.front() == unknown)
			written.pop_front();
		const unsigned kind = written.front();

		written.pop_front();
		EXPECT_EQ(wr_id, expected++);
		EXPECT_EQ(status, kind == error ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
		EXPECT_EQ(opcode, kind == send || kind == error ? IBV_WC_SEND : IBV_WC_RECV);
		EXPECT_EQ(length, kind == send || kind == error ? 10 * wr_id :
				  kind == recv			? 20 * wr_id :
								  0);
		EXPECT_EQ(qp_num, kind == shared ? 8u : TestQp::number);
		EXPECT_EQ(c.vendor_err, 0u);
	};

	for (unsigned step = 0; step < 40 * kinds * kinds; ++step) {
		/* Lists of up to 9, in which each pair of kinds occurs. */
		for (unsigned i = 0; i <= step % 9; ++i) {
			const unsigned kind = (step * (i + 1) + i / 2) % kinds;
			TestQp &of = step / 7 % 2 ? qp : other;
			CqeSpec spec;

			if (kind == shared)
				spec = {.compl_ctx = next,
					.op = IBV_OPCODE_SEND_ONLY,
					.send = false,
					.shared = true,
					.qp_id = 8};
			else if (kind == send || kind == error)
				spec = of.completion_of(
					send_one(of, next, static_cast<uint32_t>(10 * next)));
			else if (kind == unknown)
				spec = of.completion_of(send_one(of, 0));
			else
				spec = of.completion_of(recv_one(of, next), false);
			if (kind == recv || kind == imm)
				spec.op = IBV_OPCODE_SEND_ONLY;
			if (kind == recv)
				spec.length = static_cast<uint32_t>(20 * next);
			if (kind == imm)
				spec.imm = 1;
			if (kind == error) {
				spec.error = true;
				spec.minor = SIRDMA_FLUSH_GENERAL;
			}
			/* It names a quantum in which no request begins. */
			if (kind == unknown) {
				CqeSpec none = spec;

				none.position = (none.position + 100) & 255;
				cq.device.write(none);
				spec.compl_ctx = 0;
				spec.error = true;
			}
			cq.device.write(spec);
			written.push_back(kind);
			next += kind != unknown;
		}
		if (step % 3 == 2) {
			Completion c;

			if (cq->begin(c)) {
				do
					check(c, c.wr_id, c.status, c.opcode, c.byte_len, c.qp_num);
				while (cq->next(c));
				cq->end();
			}
		} else {
			for (const ibv_wc &wc : cq.poll(1 + step % 10))
				check(wc, wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num);
			for (const ibv_wc &wc : cq.poll())
				check(wc, wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num);
		}
		ASSERT_EQ(expected, next) << step;
		ASSERT_EQ(cq.device.in_use(), 0u) << step;
	}
}

/* What a replaced ring held is read first, from wherever in its lap it was; then what the next rings held. */
TEST(ReplacedRing, KeepsWhatWasNotRead)
{
	std::vector<sirdma_cqe> second(8), third(32);
	TestQp qp;
	TestCq cq(8);
	uint64_t posted = 0, read = 0;
	const auto complete_into = [&](CompletionWriter &device, uint32_t count) {
		for (uint32_t i = 0; i < count; ++i, ++posted) {
			CqeSpec spec = qp.completion_of(recv_one(qp, posted), false);

			if (posted % 2)
				spec.imm = static_cast<uint32_t>(posted);
			device.write(spec);
		}
	};
	const auto read_some = [&](size_t count) {
		const std::vector<ibv_wc> wcs = cq.poll(count);

		EXPECT_EQ(wcs.size(), count);
		for (const ibv_wc &wc : wcs) {
			EXPECT_EQ(wc.wr_id, read);
			EXPECT_EQ(wc.wc_flags, read % 2 ? unsigned{IBV_WC_WITH_IMM} : 0u);
			++read;
		}
	};
	const auto replace = [&](std::vector<sirdma_cqe> &ring) {
		replace_ring(cq, ring);
		EXPECT_EQ(le64toh(cq.shadow.cons_idx), 0u);
		EXPECT_EQ(cq->capacity(), ring.size());
	};

	complete_into(cq.device, 4);
	read_some(4);
	complete_into(cq.device, 4); /* six elements of eight, over the end of the ring */
	read_some(1);
	EXPECT_EQ(cq->unread(), 3u);
	replace(second);
	CompletionWriter into_second(second, cq.shadow);
	EXPECT_EQ(cq->unread(), 3u);
	complete_into(into_second, 3);
	EXPECT_EQ(cq->unread(), 6u);
	read_some(1);
	replace(third);
	CompletionWriter into_third(third, cq.shadow);
	complete_into(into_third, 5);
	EXPECT_EQ(cq->unread(), 10u);
	cq->arm(false);
	EXPECT_EQ(arm_field(cq, SIRDMA_CQ_SHADOW_ARM_NEXT), 1u) << "asked of the device";
	read_some(6);
	EXPECT_EQ(le64toh(cq.shadow.cons_idx), 2u) << "only of the ring that the device fills";
	read_some(4);
	EXPECT_TRUE(cq.poll().empty());
	EXPECT_EQ(into_third.in_use(), 0u);
	complete_into(into_third, 2);
	read_some(2);
}

TEST(ReplacedRing, ForgetsAQueuePairInAllItHolds)
{
	std::vector<sirdma_cqe> second(8);
	TestQp gone, stays;
	TestCq cq(8);

	cq.device.write(gone.completion_of(recv_one(gone, 1), false));
	cq.device.write(stays.completion_of(recv_one(stays, 2), false));
	replace_ring(cq, second);
	CompletionWriter(second, cq.shadow).write(gone.completion_of(recv_one(gone, 3), false));
	cq->forget(&*gone, 7);

	const std::vector<ibv_wc> wcs = cq.poll();

	ASSERT_EQ(wcs.size(), 1u);
	EXPECT_EQ(wcs[0].wr_id, 2u);
}

} // namespace sirdma::test
