// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Event queues: wrap, full rings, lost and kept events, masking.
#include "mini_driver.hpp"

using namespace sirdma::test;

namespace
{

class EqTest : public ::testing::Test {
protected:
	EqTest() : drv_(host_) {}
	void SetUp() override
	{
		host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
		ASSERT_TRUE(drv_.start(32));
	}

	void raise(enum sirdma_ae_code code, u32 id)
	{
		snic_aeq_events &of = objects_[id];

		snic_aeq_events_init(&of, id, id * 3ull);
		snic_aeq_post(host_.dev(), &of, code, SIRDMA_AE_SRC_SQ, id & 0x7fff,
			      SIRDMA_QPS_ERR);
	}

	void complete(u32 id)
	{
		snic_cq *cq = snic_cq_get(host_.dev(), id);
		snic_completion c{};
		ASSERT_NE(cq, nullptr);
		EXPECT_TRUE(snic_cq_post(host_.dev(), cq, &c));
		snic_cq_put(cq);
	}

	// The numbers whose events the driver reads now.
	std::vector<u32> read_ids()
	{
		std::vector<u32> ids;

		while (auto ae = drv_.next_aeqe())
			ids.push_back(ae->id);
		return ids;
	}

	std::map<u32, snic_aeq_events> objects_;
	TestHost host_;
	MiniDriver drv_;
};

} // namespace

TEST_F(EqTest, AeqeCarriesEveryFieldOverManyLaps)
{
	ASSERT_EQ(drv_.create_aeq(5), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 100; n++) {
		u32 id = n * 0x1fff & 0x7ffff; // 19 bits: the high one lies apart
		raise(SIRDMA_AE_QP_CATASTROPHIC, id);
		auto ae = drv_.next_aeqe();
		ASSERT_TRUE(ae);
		EXPECT_EQ(ae->code, 0x700u);
		EXPECT_EQ(ae->source, u32{SIRDMA_AE_SRC_SQ});
		EXPECT_EQ(ae->id, id);
		EXPECT_EQ(ae->wqe_idx, id & 0x7fff);
		EXPECT_EQ(ae->state, u32{SIRDMA_QPS_ERR});
		EXPECT_EQ(ae->event_ctx, id * 3ull);
		EXPECT_FALSE(ae->overflow);
		EXPECT_FALSE(drv_.next_aeqe());
	}
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_AEQ), 100u);
	EXPECT_EQ(host_.stat(SIRDMA_STAT_AEQES), 100u);
}

TEST_F(EqTest, FullAeqLosesNoEvent)
{
	constexpr u32 objects = 500;
	std::vector<u32> want(objects);

	std::iota(want.begin(), want.end(), 0);
	ASSERT_EQ(drv_.create_aeq(8), SIRDMA_CQP_OK);
	for (u32 again = 0; again < 3; again++) {
		for (u32 n = 0; n < objects; n++)
			raise(n % 2 ? SIRDMA_AE_CONNECTION_ESTABLISHED : SIRDMA_AE_QP_CATASTROPHIC,
			      n);
		EXPECT_EQ(read_ids(), want);
	}
	EXPECT_EQ(host_.stat(SIRDMA_STAT_AEQ_MERGED), 0u);
}

// However often an object raises an event, others have room, and are told before its second.
TEST_F(EqTest, NoObjectCrowdsOutAnother)
{
	ASSERT_EQ(drv_.create_aeq(8), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 1000; n++)
		raise(SIRDMA_AE_SRQ_LIMIT, 1);
	for (u32 id : {2u, 3u, 4u})
		raise(SIRDMA_AE_QP_CATASTROPHIC, id);
	EXPECT_EQ(read_ids(), (std::vector<u32>{1, 2, 3, 4, 1})) << "one in the ring and one that "
								    "waited";
	EXPECT_EQ(host_.stat(SIRDMA_STAT_AEQ_MERGED), 998u);
}

// The driver acts on an event before it acknowledges it, and what follows may raise it again.
TEST_F(EqTest, AnEventRaisedBeforeTheAcknowledgementOfTheLastIsNotLost)
{
	ASSERT_EQ(drv_.create_aeq(8), SIRDMA_CQP_OK);
	raise(SIRDMA_AE_SRQ_LIMIT, 1);
	ASSERT_TRUE(drv_.next_aeqe(false));
	raise(SIRDMA_AE_SRQ_LIMIT, 1);
	EXPECT_FALSE(drv_.next_aeqe(false));
	const u64 irqs = host_.irq_count(SIRDMA_VECTOR_AEQ);
	host_.write32(SIRDMA_REG_AEQALLOC, 1);
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_AEQ), irqs + 1);
	EXPECT_TRUE(drv_.next_aeqe());
	EXPECT_FALSE(drv_.next_aeqe());
}

// Events of different kinds are not merged, and keep their order.
TEST_F(EqTest, AnObjectKeepsOneEventOfEachKind)
{
	const std::vector<u32> codes{SIRDMA_AE_CONNECTION_ESTABLISHED,
				     SIRDMA_AE_QP_SUSPEND_COMPLETE, SIRDMA_AE_QP_CATASTROPHIC,
				     SIRDMA_AE_LAST_WQE_REACHED};
	std::vector<u32> got;

	ASSERT_EQ(drv_.create_aeq(8), SIRDMA_CQP_OK);
	raise(SIRDMA_AE_LAST_WQE_REACHED, 1);
	for (u32 again = 0; again < 3; again++)
		for (u32 code : codes)
			raise(static_cast<sirdma_ae_code>(code), 1);
	raise(SIRDMA_AE_QP_CATASTROPHIC, 1); // the object has failed already
	ASSERT_TRUE(drv_.next_aeqe());
	while (auto ae = drv_.next_aeqe())
		got.push_back(ae->code);
	EXPECT_EQ(got, codes);
}

// What waits for room at a destroyed object is dropped; the others' stays in order.
TEST_F(EqTest, DestroyedObjectsWaitForNothing)
{
	ASSERT_EQ(drv_.create_aeq(4), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 12; n++)
		raise(SIRDMA_AE_QP_CATASTROPHIC, n);
	for (u32 gone : {11u, 4u, 7u, 0u})
		snic_aeq_detach(host_.dev(), &objects_[gone]);
	EXPECT_EQ(read_ids(), (std::vector<u32>{0, 1, 2, 3, 5, 6, 8, 9, 10}));
}

TEST_F(EqTest, EventsWithoutAnAeqVanish)
{
	raise(SIRDMA_AE_QP_CATASTROPHIC, 1);
	EXPECT_EQ(host_.irqs_pending(), 0u);
	ASSERT_EQ(drv_.create_aeq(4), SIRDMA_CQP_OK);
	EXPECT_FALSE(drv_.next_aeqe());
}

TEST_F(EqTest, FullCeqLosesNoEvent)
{
	constexpr u32 cqs = 40;
	std::vector<TestCq> cq(cqs);

	ASSERT_EQ(drv_.create_aeq(16), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.create_ceq(0, 8), SIRDMA_CQP_OK);
	for (u32 i = 0; i < cqs; i++)
		ASSERT_EQ(drv_.create_cq(cq[i], i, 16), SIRDMA_CQP_OK);
	for (int round = 0; round < 5; round++) {
		std::set<u64> seen;
		for (u32 i = 0; i < cqs; i++) {
			cq[i].arm();
			complete(i);
		}
		while (auto ctx = drv_.next_ceqe())
			EXPECT_TRUE(seen.insert(*ctx).second) << "event given twice";
		EXPECT_EQ(seen.size(), cqs);
		for (auto &q : cq)
			EXPECT_TRUE(q.poll());
	}
}

// Who finds the CEQ full is told first come first served, once, and not if it is gone by then.
TEST_F(EqTest, FullCeqIsServedInOrder)
{
	constexpr u32 cqs = 20;
	std::vector<TestCq> cq(cqs);
	std::vector<u64> order;

	ASSERT_EQ(drv_.create_aeq(16), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.create_ceq(0, 4), SIRDMA_CQP_OK);
	for (u32 i = 0; i < cqs; i++)
		ASSERT_EQ(drv_.create_cq(cq[i], i, 16), SIRDMA_CQP_OK);
	for (int again = 0; again < 3; again++) {
		for (u32 i = cqs; i--;) {
			cq[i].arm();
			complete(i);
		}
	}
	// First, last and one in the middle of those that wait.
	for (u32 gone : {15u, 0u, 7u})
		ASSERT_EQ(drv_.destroy_cq(cq[gone]), SIRDMA_CQP_OK);
	while (auto ctx = drv_.next_ceqe())
		order.push_back(*ctx);

	std::vector<u64> want;
	for (u32 i = cqs; i--;)
		if (i != 15 && i != 0 && i != 7)
			want.push_back(0xabc000 + i * 2);
	// The first four had found room, and were armed again when there was none.
	for (u32 i : {19u, 18u, 17u, 16u})
		want.push_back(0xabc000 + i * 2);
	EXPECT_EQ(order, want);
}

TEST_F(EqTest, AcknowledgementsOfAnySizeAreHarmless)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_aeq(4), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.create_ceq(0, 4), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.create_cq(cq, 0, 64), SIRDMA_CQP_OK);
	for (u32 val : {0xffffffffu, 0xfffffu, 0x00100001u, 5u}) {
		host_.write32(SIRDMA_REG_CEQACK, val);
		host_.write32(SIRDMA_REG_AEQALLOC, val);
	}
	for (int i = 0; i < 20; i++) {
		cq.arm();
		complete(0);
		EXPECT_TRUE(drv_.next_ceqe());
		raise(SIRDMA_AE_QP_CATASTROPHIC, 3);
		EXPECT_TRUE(drv_.next_aeqe());
	}
}

TEST_F(EqTest, MaskedVectorRaisesWhenUnmasked)
{
	ASSERT_EQ(drv_.create_aeq(8), SIRDMA_CQP_OK);
	host_.write32(SIRDMA_REG_INT_MASK, 1u << SIRDMA_VECTOR_AEQ);
	EXPECT_EQ(host_.read32(SIRDMA_REG_INT_MASK), 1u);
	raise(SIRDMA_AE_QP_CATASTROPHIC, 1);
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_AEQ), 0u);
	host_.write32(SIRDMA_REG_INT_MASK, 0);
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_AEQ), 1u);
	EXPECT_TRUE(drv_.next_aeqe());
	host_.write32(SIRDMA_REG_INT_MASK, ~0u);
	host_.write32(SIRDMA_REG_INT_MASK, 0);
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_AEQ), 1u) << "nothing waits any more";
}

TEST_F(EqTest, CreationIsChecked)
{
	auto mem = host_.alloc(4096);
	sirdma_cqp_ceq ceq{};
	sirdma_cqp_aeq aeq{};
	auto op = [](u64 code) { return SIRDMA_PREP(SIRDMA_CQP_OPCODE, code); };
	auto make = [&](u32 id, u64 size, u64 addr) {
		DmaSpace::ExpectFaults faults(host_.dma());
		ceq.size = size;
		ceq.addr = addr;
		ceq.hdr = op(SIRDMA_CQP_CREATE_CEQ) | SIRDMA_PREP(SIRDMA_CQP_CEQ_ID, id);
		return drv_.exec(ceq);
	};

	EXPECT_EQ(make(4, 16, mem.pa), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(make(0, 3, mem.pa), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(make(0, (1 << 20) + 1, mem.pa), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(make(0, ~0ull, mem.pa), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(make(0, 16, mem.pa + 8), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(make(0, 513, mem.pa), SIRDMA_CQP_BAD_ADDRESS) << "longer than what is mapped";
	EXPECT_EQ(make(0, 512, ~0xfffull), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(make(0, 512, mem.pa), SIRDMA_CQP_OK);
	EXPECT_EQ(make(0, 512, mem.pa), SIRDMA_CQP_IN_USE);
	ceq.hdr = op(SIRDMA_CQP_DESTROY_CEQ) | SIRDMA_PREP(SIRDMA_CQP_CEQ_ID, 1);
	EXPECT_EQ(drv_.exec(ceq), SIRDMA_CQP_NO_OBJECT);
	ceq.hdr = op(SIRDMA_CQP_DESTROY_CEQ);
	EXPECT_EQ(drv_.exec(ceq), SIRDMA_CQP_OK);

	aeq.hdr = op(SIRDMA_CQP_DESTROY_AEQ);
	EXPECT_EQ(drv_.exec(aeq), SIRDMA_CQP_NO_OBJECT);
	aeq.hdr = op(SIRDMA_CQP_CREATE_AEQ);
	aeq.size = 16;
	aeq.addr = mem.pa;
	EXPECT_EQ(drv_.exec(aeq), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.exec(aeq), SIRDMA_CQP_IN_USE);
	aeq.hdr = op(SIRDMA_CQP_DESTROY_AEQ);
	EXPECT_EQ(drv_.exec(aeq), SIRDMA_CQP_OK);
	host_.free(mem);
	raise(SIRDMA_AE_QP_CATASTROPHIC, 1); // the freed ring must not be touched
}
