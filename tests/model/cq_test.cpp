// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Completion queues: element layout, polarity, extended elements, overflow, arming, resize.
#include "cq.hpp"

#include <atomic>
#include <thread>

using namespace sirdma::test;

TEST_F(CqTest, ElementCarriesEveryField)
{
	TestCq cq;
	snic_completion c{};

	ASSERT_EQ(drv_.create_cq(cq, 3, 16), SIRDMA_CQP_OK);
	c.compl_ctx = 0x1122334455667788;
	c.qpn = 0xabcdef;
	c.len = 0x7fffffff;
	c.wqe_idx = 0x7abc;
	c.inv_stag = 0xdeadbeef;
	c.op = 0x17;
	c.has_inv = true;
	c.solicited = true;
	ASSERT_TRUE(post(3, c));
	auto e = cq.poll();
	ASSERT_TRUE(e);
	EXPECT_FALSE(e->extended);
	EXPECT_EQ(e->cqe.len, 0x7fffffffu);
	EXPECT_EQ(e->cqe.compl_ctx, 0x1122334455667788u);
	EXPECT_EQ(e->cqe.qp, 0x00abcdefdeadbeefu);
	// Bit positions of irdma's GEN2 CQE, written out.
	EXPECT_EQ(e->cqe.hdr,
		  1ull << 63 | 0x17ull << 56 | 1ull << 54 | 1ull << 53 | 0x7abcull << 32);

	c = plain(5);
	c.major = SIRDMA_CQE_MAJ_FLUSH;
	c.minor = SIRDMA_FLUSH_RETRY_EXC;
	c.vendor_err = SIRDMA_VENDOR_RETRY_EXC;
	ASSERT_TRUE(post(3, c));
	e = cq.poll();
	ASSERT_TRUE(e);
	EXPECT_EQ(e->cqe.hdr, 3ull << 62 | 1ull << 55 | 5ull << 32 | 1 << 16 | 8);
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQE_VENDOR_ERR, e->cqe.len), 0x81u);
	EXPECT_FALSE(cq.poll());
}

TEST_F(CqTest, PolarityFlipsWithEachLapOfAnySize)
{
	u32 id = 1;

	for (u32 entries : {4u, 5u, 7u, 16u, 130u}) {
		TestCq cq;
		ASSERT_EQ(drv_.create_cq(cq, id, entries), SIRDMA_CQP_OK);
		std::mt19937 rng(entries);
		u32 in = 0, out = 0;
		while (out < entries * 20) {
			for (u32 n = rng() % entries; n && in - out < entries - 1; n--)
				ASSERT_TRUE(post(id, plain(in++)));
			while (auto e = cq.poll())
				ASSERT_EQ(e->cqe.compl_ctx, 0x1000 + out++);
			ASSERT_EQ(in, out);
		}
		id++;
	}
}

// Extension: the second half of each completion says when it was written.
TEST_F(CqTest, TimestampsAreOfTheDevicesClock)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 3, 9,
				 SIRDMA_CQP_CQ_ENCEQE | SIRDMA_CQP_CQ_CEQIDVALID |
					 SIRDMA_CQP_CQ_TIMESTAMPS),
		  SIRDMA_CQP_OK);
	for (u32 n = 0; n < 60; n++) {
		const bool imm = n % 2;

		host_.clock().advance(1000 + n);
		ASSERT_TRUE(post(3, imm ? with_imm(n) : plain(n)));
		const u64 written = host_.clock().now();
		host_.clock().advance(1);
		auto e = cq.poll();
		ASSERT_TRUE(e && e->extended);
		EXPECT_EQ(e->cqe.compl_ctx, 0x1000 + n);
		EXPECT_EQ(e->ext.timestamp, written);
		EXPECT_EQ(e->ext.hdr & ~SIRDMA_CQE_VALID,
			  SIRDMA_CQE_EXT_TSVALID | (imm ? SIRDMA_CQE_EXT_IMMVALID : 0));
		if (imm) {
			EXPECT_EQ(e->ext.imm, ~n);
		}
	}
	// Two elements each: room for as many as a queue without timestamps has for immediate data.
	for (u32 n = 0; n < 4; n++)
		EXPECT_TRUE(post(3, plain(n)));
	EXPECT_FALSE(post(3, plain(4)));
}

TEST_F(CqTest, ExtendedElementsWrapBetweenTheirHalves)
{
	TestCq cq;
	std::mt19937 rng(4);
	u32 split = 0;

	ASSERT_EQ(drv_.create_cq(cq, 1, 9), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 500; n++) {
		bool imm = rng() % 2;
		split += imm && cq.cons == 8;
		ASSERT_TRUE(post(1, imm ? with_imm(n) : plain(n)));
		auto e = cq.poll();
		ASSERT_TRUE(e);
		ASSERT_EQ(e->extended, imm);
		ASSERT_EQ(e->cqe.compl_ctx, 0x1000 + n);
		if (imm) {
			ASSERT_EQ(e->ext.imm, ~n);
			ASSERT_EQ(e->ext.hdr & ~SIRDMA_CQE_VALID, SIRDMA_CQE_EXT_IMMVALID);
		}
		ASSERT_FALSE(cq.poll());
	}
	EXPECT_GT(split, 10u);
}

TEST_F(CqTest, SixtyFourByteElementsHoldBothHalves)
{
	TestCq cq;
	u32 cons = 0;
	bool polarity = true;

	EXPECT_EQ(drv_.create_cq(cq, 1, 17, SIRDMA_CQP_CQ_64B), SIRDMA_CQP_BAD_PARAM) << "odd size";
	ASSERT_EQ(drv_.create_cq(cq, 1, 16, SIRDMA_CQP_CQ_64B), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 50; n++) {
		bool imm = n % 3 == 0;
		ASSERT_TRUE(post(1, imm ? with_imm(n) : plain(n)));
		auto *e = static_cast<sirdma_cqe *>(cq.ring.va) + 2 * cons;
		ASSERT_EQ(!!(e[0].hdr & SIRDMA_CQE_VALID), polarity);
		ASSERT_EQ(e[0].compl_ctx, 0x1000 + n);
		if (imm) {
			ASSERT_EQ(!!(e[1].hdr & SIRDMA_CQE_VALID), polarity);
			ASSERT_EQ(e[1].len, static_cast<u32>(~n));
		}
		if (++cons == 8) {
			cons = 0;
			polarity = !polarity;
		}
		cq.area()->cons_idx = cons;
	}
}

TEST_F(CqTest, OverflowKillsTheQueueWithOneEvent)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 5, 8), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 7; n++)
		ASSERT_TRUE(post(5, plain(n)));
	EXPECT_FALSE(post(5, plain(7)));
	EXPECT_FALSE(post(5, plain(8)));
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQ_OVERFLOWS), 1u);
	auto ae = drv_.next_aeqe();
	ASSERT_TRUE(ae);
	EXPECT_EQ(ae->code, u32{SIRDMA_AE_CQ_CATASTROPHIC});
	EXPECT_EQ(ae->source, u32{SIRDMA_AE_SRC_CQ});
	EXPECT_EQ(ae->id, 5u);
	EXPECT_EQ(ae->event_ctx, 0xabc000u + 10);
	EXPECT_FALSE(drv_.next_aeqe());
	for (u32 n = 0; n < 7; n++) {
		auto e = cq.poll();
		ASSERT_TRUE(e) << "what was written stays readable";
		EXPECT_EQ(e->cqe.compl_ctx, 0x1000 + n);
	}
	EXPECT_FALSE(cq.poll());
	EXPECT_FALSE(post(5, plain(9))) << "dead for good";
	EXPECT_EQ(drv_.destroy_cq(cq), SIRDMA_CQP_OK);
}

TEST_F(CqTest, ExtendedElementNeedsRoomForBothHalves)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 5, 8), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 6; n++)
		ASSERT_TRUE(post(5, plain(n)));
	EXPECT_FALSE(post(5, with_imm(6)));
	for (u32 n = 0; n < 6; n++)
		ASSERT_TRUE(cq.poll());
	EXPECT_FALSE(cq.poll()) << "no half of it was written";
}

TEST_F(CqTest, InsaneConsumerIndexHarmsNoOneElse)
{
	TestCq bad, good;
	std::mt19937_64 rng(17);

	ASSERT_EQ(drv_.create_cq(good, 2, 64), SIRDMA_CQP_OK);
	for (int round = 0; round < 200; round++) {
		ASSERT_EQ(drv_.create_cq(bad, 1, 4 + rng() % 60), SIRDMA_CQP_OK);
		for (int n = 0; n < 100; n++) {
			bad.area()->cons_idx = rng();
			bad.area()->arm = rng();
			post(1, rng() % 2 ? plain(n) : with_imm(n));
			if (rng() % 4 == 0)
				host_.write32(SIRDMA_REG_CQARM, 1);
			while (drv_.next_ceqe())
				;
		}
		ASSERT_TRUE(post(2, plain(round)));
		ASSERT_TRUE(good.poll());
		ASSERT_EQ(drv_.destroy_cq(bad), SIRDMA_CQP_OK);
		host_.free(bad.ring);
		host_.free(bad.shadow);
		while (drv_.next_aeqe())
			;
	}
}

TEST_F(CqTest, EachArmingGivesOneEvent)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	post(4, plain(0));
	EXPECT_FALSE(drv_.next_ceqe()) << "not armed";
	for (int i = 0; i < 20; i++) {
		cq.arm();
		EXPECT_FALSE(drv_.next_ceqe());
		post(4, plain(1));
		post(4, plain(2));
		EXPECT_EQ(drv_.next_ceqe(), 0xabc000u + 8);
		EXPECT_FALSE(drv_.next_ceqe());
		while (cq.poll())
			;
	}
	EXPECT_EQ(host_.irq_count(SIRDMA_VECTOR_CEQ(0)), 20u);
}

TEST_F(CqTest, ArmingFourTimesWithoutCompletionLosesNothing)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	for (int idle = 1; idle < 10; idle++) {
		for (int i = 0; i < idle; i++)
			cq.arm();
		post(4, plain(1));
		EXPECT_TRUE(drv_.next_ceqe()) << idle << " armings before the completion";
		while (cq.poll())
			;
	}
}

TEST_F(CqTest, SolicitedArmingWaitsForSolicitedOrError)
{
	TestCq cq;
	auto solicited = plain(3), failed = plain(4);

	solicited.solicited = true;
	failed.minor = SIRDMA_FLUSH_GENERAL;
	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	for (const auto &c : {solicited, failed}) {
		cq.arm(true);
		post(4, plain(1));
		EXPECT_FALSE(drv_.next_ceqe());
		post(4, c);
		EXPECT_TRUE(drv_.next_ceqe());
		post(4, c);
		EXPECT_FALSE(drv_.next_ceqe());
	}
}

TEST_F(CqTest, CqarmRegisterFindsElementsThatAlreadyWait)
{
	TestCq cq;
	auto solicited = plain(1);
	auto arm = [&](bool only_solicited) {
		cq.arm(only_solicited);
		host_.write32(SIRDMA_REG_CQARM, 4);
		return drv_.next_ceqe().has_value();
	};

	solicited.solicited = true;
	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	host_.write32(SIRDMA_REG_CQARM, 999); // no such CQ
	EXPECT_FALSE(arm(false)) << "empty";
	post(4, plain(0));
	EXPECT_TRUE(drv_.next_ceqe());
	EXPECT_TRUE(arm(false)) << "one element waits";
	host_.write32(SIRDMA_REG_CQARM, 4);
	EXPECT_FALSE(drv_.next_ceqe()) << "disarmed by the event";
	EXPECT_FALSE(arm(true)) << "not a solicited one";
	post(4, solicited);
	EXPECT_TRUE(drv_.next_ceqe());
	EXPECT_TRUE(arm(true));
	while (cq.poll())
		;
	EXPECT_FALSE(arm(true)) << "the solicited one was consumed";
}

// Whoever has polled the completion that an event is raised for finds that no event is requested for the next one.
TEST_F(CqTest, ElementIsThereWhenItsRequestIsGone)
{
	constexpr u32 rounds = 50'000;
	TestCq cq;
	std::atomic<u32> due{0};

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	std::thread device([&] {
		for (u32 n = 1; n <= rounds; n++) {
			u32 now;
			while ((now = due.load()) < n)
				;
			if (now > rounds)
				return;
			post(4, plain(n));
		}
	});
	for (u32 n = 1; n <= rounds && !HasFailure(); n++) {
		cq.arm();
		due = n;
		while (!cq.poll())
			;
		EXPECT_EQ(cq.area()->arm & SIRDMA_CQ_SHADOW_ARM_NEXT, 0u) << n;
		drv_.next_ceqe();
	}
	due = rounds + 1;
	device.join();
}

TEST_F(CqTest, QueueWithoutCeqHasNoEvents)
{
	TestCq cq;

	ASSERT_EQ(drv_.create_cq(cq, 4, 64, 0), SIRDMA_CQP_OK);
	cq.arm();
	post(4, solicited(1));
	EXPECT_FALSE(drv_.next_ceqe());
	EXPECT_EQ(moderate(4, 5, 50), SIRDMA_CQP_OK);
	EXPECT_EQ(moderate(4, SIRDMA_MAX_CQ_COUNT + 1, 1), SIRDMA_CQP_BAD_PARAM);
	cq.arm();
	post(4, plain(2));
	host_.clock().advance(1'000'000);
	EXPECT_FALSE(drv_.next_ceqe());
	EXPECT_EQ(drv_.destroy_cq(cq), SIRDMA_CQP_OK);
}

TEST_F(CqTest, NoEventIsLostBetweenArmingAndPosting)
{
	TestCq cq;
	constexpr u32 total = 20000;
	std::atomic<u32> taken{0};

	ASSERT_EQ(drv_.create_cq(cq, 4, 64), SIRDMA_CQP_OK);
	std::thread producer([&] {
		for (u32 n = 0; n < total; n++) {
			while (n - taken >= 60)
				std::this_thread::yield();
			post(4, plain(n));
		}
	});
	u64 woken = 0, events = host_.irq_count(1);
	auto drain = [&] {
		while (auto e = cq.poll()) {
			EXPECT_EQ(e->cqe.compl_ctx, 0x1000 + taken);
			taken++;
		}
	};
	while (taken < total) {
		cq.arm();
		drain();
		if (taken == total)
			break;
		// Sleep as an application does: only the event wakes it, a lost one hangs.
		auto start = std::chrono::steady_clock::now();
		while (host_.irq_count(1) == events) {
			if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10)) {
				ADD_FAILURE() << "event lost after " << taken;
				producer.detach();
				return;
			}
			std::this_thread::yield();
		}
		events = host_.irq_count(1);
		while (drv_.next_ceqe())
			woken++;
	}
	producer.join();
	EXPECT_GT(woken, 0u);
}

// The consumer reads what the old rings held before it reads the new one: that is what an event may be asked for.
TEST_F(CqTest, CqarmRegisterFindsElementsOfRingsBefore)
{
	TestCq cq;
	sirdma_cqp_cq cmd{};
	std::vector<sirdma_dma_mem> rings;
	const auto arm = [&](bool only_solicited) {
		cq.arm(only_solicited);
		host_.write32(SIRDMA_REG_CQARM, 4);
		return drv_.next_ceqe().has_value();
	};
	const auto resize = [&] {
		rings.push_back(host_.alloc(64 * sizeof(sirdma_cqe)));
		cmd.addr = rings.back().pa;
		return drv_.exec(cmd);
	};

	ASSERT_EQ(drv_.create_cq(cq, 4, 16), SIRDMA_CQP_OK);
	cmd.size = 64;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_MODIFY_CQ) |
		  SIRDMA_PREP(SIRDMA_CQP_CQ_ID, 4) | SIRDMA_CQP_CQ_RESIZE;
	for (u32 n = 0; n < 3; n++) {
		post(4, n == 1 ? solicited(n) : plain(n));
		ASSERT_TRUE(n || cq.poll());
	}
	ASSERT_EQ(resize(), SIRDMA_CQP_OK);
	EXPECT_EQ(cq.area()->cons_idx, 0u) << "it was of the old ring";
	EXPECT_TRUE(arm(false));
	EXPECT_TRUE(arm(true));
	ASSERT_EQ(resize(), SIRDMA_CQP_OK);
	EXPECT_TRUE(arm(true)) << "two rings before";
	post(4, plain(3));
	EXPECT_TRUE(arm(true));
	cq.area()->cons_idx = htole64(1);
	EXPECT_FALSE(arm(false)) << "all were consumed";
	ASSERT_EQ(resize(), SIRDMA_CQP_OK);
	cq.area()->cons_idx = 0;
	EXPECT_FALSE(arm(false)) << "none was left";
}

TEST_F(CqTest, ResizeContinuesAtElementZeroOfTheNewRing)
{
	TestCq cq;
	sirdma_cqp_cq cmd{};

	ASSERT_EQ(drv_.create_cq(cq, 4, 16), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 12; n++) {
		post(4, plain(n));
		if (n < 10) {
			ASSERT_TRUE(cq.poll());
		}
	}
	auto ring = host_.alloc(64 * sizeof(sirdma_cqe));
	cmd.size = 64;
	cmd.addr = ring.pa;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_MODIFY_CQ) |
		  SIRDMA_PREP(SIRDMA_CQP_CQ_ID, 4);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM) << "modify what?";
	cmd.hdr |= SIRDMA_CQP_CQ_RESIZE;
	cmd.size = 3;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
	cmd.size = 64;
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	// A consumer that does not know of the new ring yet writes its index of the old one: that must not read as an overflow.
	cq.area()->cons_idx = htole64(10);
	for (u32 n = 12; n < 12 + 40; n++)
		ASSERT_TRUE(post(4, plain(n)));
	for (u32 n = 10; n < 12; n++) {
		auto e = cq.poll();
		ASSERT_TRUE(e);
		EXPECT_EQ(e->cqe.compl_ctx, 0x1000 + n);
	}
	ASSERT_FALSE(cq.poll());
	host_.free(cq.ring);
	cq.ring = ring;
	cq.entries = 64;
	cq.cons = 0;
	cq.polarity = true;
	for (u32 n = 12; n < 500; n++) {
		if (n >= 52) {
			ASSERT_TRUE(post(4, plain(n)));
		}
		auto e = cq.poll();
		ASSERT_TRUE(e);
		EXPECT_EQ(e->cqe.compl_ctx, 0x1000 + n);
	}
}

TEST_F(CqTest, RingsThroughPblesFollowThePageList)
{
	UserMemory mem(host_.dma(), 4 << 12);
	TestCq cq;
	sirdma_cqp_cq cmd{};

	cq.entries = (4 << 12) / sizeof(sirdma_cqe);
	cq.ring.va = mem.data();
	cq.shadow = host_.alloc(64);
	u32 pble = drv_.alloc_pbles(4);
	for (u32 i = 0; i < 4; i++)
		drv_.write_pble(pble + i, mem.blocks()[i]);
	cmd.size = cq.entries;
	cmd.shadow_addr = cq.shadow.pa;
	cmd.first_pble = pble;
	cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_CREATE_CQ) |
		  SIRDMA_PREP(SIRDMA_CQP_CQ_ID, 9) | SIRDMA_CQP_CQ_VMAP;
	cmd.first_pble = SIRDMA_HMC_SD_SIZE / 8 - 3;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS) << "beyond the committed PBLEs";
	cmd.first_pble = pble;
	drv_.write_pble(pble + 3, mem.blocks()[3] + 32);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS);
	drv_.write_pble(pble + 3, mem.blocks()[3]);
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	for (u32 n = 0; n < 3 * cq.entries; n++) {
		ASSERT_TRUE(post(9, n % 3 ? plain(n) : with_imm(n)));
		auto e = cq.poll();
		ASSERT_TRUE(e);
		ASSERT_EQ(e->cqe.compl_ctx, 0x1000 + n);
	}
	// A page that goes away under the queue: the queue dies, nothing is touched.
	drv_.write_pble(pble + cq.cons * 32 / 4096, 0);
	{
		DmaSpace::ExpectFaults faults(host_.dma());
		EXPECT_FALSE(post(9, plain(0)));
	}
	auto ae = drv_.next_aeqe();
	while (ae && ae->code == SIRDMA_AE_BAD_COMMAND)
		ae = drv_.next_aeqe();
	ASSERT_TRUE(ae);
	EXPECT_EQ(ae->code, u32{SIRDMA_AE_CQ_CATASTROPHIC});
}

TEST_F(CqTest, CreationIsChecked)
{
	TestCq cq;
	const u64 ceq = SIRDMA_CQP_CQ_ENCEQE | SIRDMA_CQP_CQ_CEQIDVALID;

	EXPECT_EQ(drv_.create_cq(cq, 1024, 16), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.create_cq(cq, 1, 3), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.create_cq(cq, 1, 65537), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.create_cq(cq, 1, 16, SIRDMA_CQP_CQ_ENCEQE), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.create_cq(cq, 1, 16, ceq, 3), SIRDMA_CQP_BAD_INDEX) << "no such CEQ";
	EXPECT_EQ(drv_.create_cq(cq, 1, 16, ceq, 900), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.create_cq(cq, 1, 16, SIRDMA_CQP_CQ_IS_CCQ | SIRDMA_CQP_CQ_64B),
		  SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.create_cq(cq, 1, 65536), SIRDMA_CQP_OK);
	TestCq second;
	EXPECT_EQ(drv_.create_cq(second, 1, 16), SIRDMA_CQP_IN_USE);
	sirdma_cqp_ceq destroy{};
	destroy.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_DESTROY_CEQ);
	EXPECT_EQ(drv_.exec(destroy), SIRDMA_CQP_IN_USE) << "a CQ raises events there";
	EXPECT_EQ(drv_.destroy_cq(cq), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.destroy_cq(cq), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(drv_.exec(destroy), SIRDMA_CQP_OK);
}
