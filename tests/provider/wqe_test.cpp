/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One WQE at a time: every shape a request can take, read back by the fake device.
 */
#include "rings.hpp"

namespace sirdma::test
{

namespace
{

class WqeShape : public testing::TestWithParam<std::tuple<uint32_t, ibv_wr_opcode>> {};

bool has_imm(ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_rdma(ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       opcode == IBV_WR_RDMA_READ;
}

uint8_t wire_op(ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return SIRDMA_OP_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return SIRDMA_OP_WRITE;
	default:
		return SIRDMA_OP_SEND;
	}
}

ibv_send_wr make_request(std::vector<ibv_sge> &sges, ibv_wr_opcode opcode, unsigned flags)
{
	ibv_send_wr wr = make_send(sges, 9, opcode, flags);

	if (has_imm(opcode))
		wr.imm_data = htobe32(0x01020304);
	if (is_rdma(opcode)) {
		wr.wr.rdma.remote_addr = 0x1122334455667788;
		wr.wr.rdma.rkey = 0xdeadbeef;
	}
	return wr;
}

void expect_common(const SeenWqe &seen, ibv_wr_opcode opcode)
{
	EXPECT_EQ(seen.op, wire_op(opcode));
	EXPECT_EQ(seen.imm.has_value(), has_imm(opcode));
	EXPECT_EQ(seen.imm.value_or(0x01020304), 0x01020304u);
	EXPECT_EQ(seen.remote, is_rdma(opcode) ? 0x1122334455667788u : 0u);
	EXPECT_EQ(seen.key, is_rdma(opcode) ? 0xdeadbeefu : 0u);
}

} // namespace

TEST_P(WqeShape, CarriesEveryFragment)
{
	const auto [count, opcode] = GetParam();
	TestQp qp;
	auto sges = make_sges(count);

	ASSERT_EQ(post(*qp, make_request(sges, opcode, IBV_SEND_SIGNALED)), 0);

	auto seen = qp.sends.next();
	ASSERT_TRUE(seen);
	expect_common(*seen, opcode);
	EXPECT_TRUE(seen->signaled);
	EXPECT_FALSE(seen->inline_data);
	ASSERT_EQ(seen->sges.size(), sges.size());
	for (size_t i = 0; i < sges.size(); ++i)
		EXPECT_TRUE(same(seen->sges[i], sges[i])) << i;
	EXPECT_FALSE(qp.sends.next());
}

INSTANTIATE_TEST_SUITE_P(
	All, WqeShape,
	testing::Combine(testing::Range(0u, SIRDMA_MAX_SGE + 1u),
			 testing::Values(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ)));

class InlineShape : public testing::TestWithParam<ibv_wr_opcode> {};

TEST_P(InlineShape, CarriesEveryLengthFromSplitBuffers)
{
	std::vector<uint8_t> source(SIRDMA_MAX_INLINE);

	for (size_t i = 0; i < source.size(); ++i)
		source[i] = static_cast<uint8_t>(0xff - i);

	/* Two laps and a bit, so that both polarities meet stale quanta of the other. */
	TestQp qp({.sq_quanta = 512});
	TestCq cq;

	for (uint32_t round = 0; round < 12; ++round) {
		for (uint32_t length = 0; length <= SIRDMA_MAX_INLINE; ++length) {
			const uint32_t split = length * round / 12;
			std::vector<ibv_sge> sges = {
				{.addr = reinterpret_cast<uintptr_t>(source.data()),
				 .length = split,
				 .lkey = 0},
				{.addr = reinterpret_cast<uintptr_t>(source.data() + split),
				 .length = length - split,
				 .lkey = 0},
			};

			ASSERT_EQ(post(*qp, make_request(sges, GetParam(), IBV_SEND_INLINE)), 0);

			auto seen = qp.sends.next_request();
			ASSERT_TRUE(seen);
			expect_common(*seen, GetParam());
			EXPECT_FALSE(seen->signaled);
			ASSERT_TRUE(seen->inline_data);
			EXPECT_EQ(*seen->inline_data,
				  std::vector<uint8_t>(source.begin(), source.begin() + length));

			const auto done = complete(qp, cq, *seen);
			ASSERT_TRUE(done);
			EXPECT_EQ(done->byte_len, length);
		}
	}
}

INSTANTIATE_TEST_SUITE_P(All, InlineShape,
			 testing::Values(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					 IBV_WR_RDMA_WRITE_WITH_IMM));

TEST(Wqe, SolicitedAndFencedAreInTheHeader)
{
	TestQp qp;
	auto sges = make_sges(1);

	ASSERT_EQ(post(*qp, make_send(sges, 1, IBV_WR_SEND, IBV_SEND_SOLICITED | IBV_SEND_FENCE)),
		  0);
	ASSERT_EQ(post(*qp, make_request(sges, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED)), 0);

	auto send = qp.sends.next_request();
	ASSERT_TRUE(send);
	EXPECT_EQ(send->op, SIRDMA_OP_SEND_SOL);
	EXPECT_TRUE(send->read_fence);

	auto write = qp.sends.next_request();
	ASSERT_TRUE(write);
	EXPECT_EQ(write->op, SIRDMA_OP_WRITE_SOL);
	EXPECT_FALSE(write->read_fence);
}

TEST(Wqe, SignalAllSignalsTheUnsignaled)
{
	TestQp qp({.signal_all = true});
	auto sges = make_sges(1);

	ASSERT_EQ(post(*qp, make_send(sges, 1, IBV_WR_SEND, 0)), 0);
	auto seen = qp.sends.next();
	ASSERT_TRUE(seen);
	EXPECT_TRUE(seen->signaled);
}

} // namespace sirdma::test
