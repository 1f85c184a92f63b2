// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Command queue and registers: start, wrap, completion in both ways, doorbells
// from many threads, and whatever a broken driver may write.
#include "mini_driver.hpp"

using namespace sirdma::test;

namespace
{

u64 op(u64 code)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, code);
}

sirdma_cqp_wqe nop()
{
	sirdma_cqp_wqe wqe{};

	wqe.hdr = op(SIRDMA_CQP_NOP);
	return wqe;
}

class CqpTest : public ::testing::Test {
protected:
	CqpTest() : drv_(host_, 8) {}

	u32 tail() { return host_.read32(SIRDMA_REG_CQPTAIL) & SIRDMA_CQPTAIL_WQTAIL; }

	// Write a context and start; the resulting status register.
	u32 start(const sirdma_cqp_ctx &ctx, u64 offset = 0)
	{
		DmaSpace::ExpectFaults faults(host_.dma());
		auto mem = host_.alloc(4096);
		memcpy(static_cast<u8 *>(mem.va) + offset, &ctx, sizeof(ctx));
		host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
		host_.write32(SIRDMA_REG_CCQPLOW, static_cast<u32>(mem.pa + offset));
		EXPECT_EQ(host_.read32(SIRDMA_REG_CCQPLOW), static_cast<u32>(mem.pa + offset));
		host_.write32(SIRDMA_REG_CCQPHIGH, static_cast<u32>(mem.pa >> 32));
		host_.free(mem);
		return host_.read32(SIRDMA_REG_CCQPSTATUS);
	}

	TestHost host_;
	MiniDriver drv_;
};

} // namespace

TEST_F(CqpTest, RegistersIdentifyTheDevice)
{
	EXPECT_EQ(host_.read32(SIRDMA_REG_ID), 0x4d445253u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_VERSION), 0x00020000u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
	EXPECT_EQ(host_.read32(SIRDMA_REG_MACLOW), 0x00495302u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_MACHIGH), 0x0100u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_LINK), 9000u << 16 | 1);
	snic_link_set(host_.dev(), false, 100000);
	EXPECT_EQ(host_.read32(SIRDMA_REG_LINK), 0xffffu << 16);
	for (u32 reg = 0; reg < 2 * SIRDMA_REG_SIZE; reg++)
		host_.read32(reg);
	for (u32 reg = 0x4c; reg < SIRDMA_REG_SIZE; reg += 4)
		host_.write32(reg, ~0u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
}

TEST_F(CqpTest, ContextIsChecked)
{
	auto ring = host_.alloc(4096);
	sirdma_cqp_ctx good{}, ctx;

	good.sq_base = ring.pa;
	good.sq_entries = 16;
	good.version = SIRDMA_HW_VERSION;
	EXPECT_EQ(start(good), SIRDMA_CCQPSTATUS_DONE);
	EXPECT_EQ(start(good, 64), SIRDMA_CCQPSTATUS_DONE);
	EXPECT_EQ(start(good, 8), SIRDMA_CCQPSTATUS_ERR);
	for (u32 entries : {0u, 1u, 2u, 12u, 4096u, 0x80000000u}) {
		ctx = good;
		ctx.sq_entries = entries;
		EXPECT_EQ(start(ctx), SIRDMA_CCQPSTATUS_ERR) << entries;
	}
	ctx = good;
	ctx.sq_entries = 128; // longer than the ring that is mapped
	EXPECT_EQ(start(ctx), SIRDMA_CCQPSTATUS_ERR);
	ctx = good;
	ctx.sq_base += 64;
	EXPECT_EQ(start(ctx), SIRDMA_CCQPSTATUS_ERR);
	ctx = good;
	ctx.version = 0x00030000;
	EXPECT_EQ(start(ctx), SIRDMA_CCQPSTATUS_ERR);
	ctx = good;
	ctx.version = SIRDMA_HW_VERSION + 7; // a later revision of this generation
	EXPECT_EQ(start(ctx), SIRDMA_CCQPSTATUS_DONE);
	// Twice without a reset.
	EXPECT_TRUE(drv_.start(8) == false);
}

// On the kernel's bus a DMA address is an address of the kernel's.
TEST_F(CqpTest, RefusedContextIsReportedWithoutItsAddress)
{
	testing::internal::CaptureStderr();
	EXPECT_EQ(start(sirdma_cqp_ctx{}), SIRDMA_CCQPSTATUS_ERR);
	std::string text = testing::internal::GetCapturedStderr();
	EXPECT_EQ(text.find("0x"), std::string::npos) << text;
}

TEST_F(CqpTest, WrapsWithPolarityForManyLaps)
{
	for (u32 entries : {4u, 8u, 64u, 2048u}) {
		host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
		ASSERT_TRUE(drv_.start(entries));
		std::mt19937 rng(entries);
		u64 before = host_.stat(SIRDMA_STAT_CQP_COMMANDS), sent = 0;
		while (sent < entries * 7) {
			// Up to a full ring in one doorbell.
			for (u32 n = rng() % entries; n; n--, sent++)
				drv_.place(nop());
			drv_.ring();
			ASSERT_EQ(tail(), drv_.head());
			ASSERT_EQ(drv_.status(), SIRDMA_CQP_OK);
		}
		EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_COMMANDS) - before, sent);
	}
}

TEST_F(CqpTest, CompletesThroughTheCcqInOrder)
{
	TestCq ccq;
	sirdma_cqp_wqe bad{};

	drv_.bring_up(0);
	ASSERT_EQ(drv_.create_cq(ccq, 0, 16,
				 SIRDMA_CQP_CQ_IS_CCQ | SIRDMA_CQP_CQ_ENCEQE |
					 SIRDMA_CQP_CQ_CEQIDVALID),
		  SIRDMA_CQP_OK);
	auto own = ccq.poll();
	ASSERT_TRUE(own) << "its own creation is the first command it reports";
	EXPECT_EQ(SIRDMA_GET(SIRDMA_CQP_OPCODE, own->cqe.qp), u64{SIRDMA_CQP_CREATE_CQ});
	bad.hdr = op(0x3f);
	for (u32 n = 0; n < 100; n++) {
		u32 idx = drv_.head();
		if (n % 5 == 0)
			ccq.arm();
		drv_.exec(n % 3 ? nop() : bad);
		EXPECT_EQ(drv_.next_ceqe().has_value(), n % 5 == 0);
		auto e = ccq.poll();
		ASSERT_TRUE(e);
		EXPECT_EQ(e->cqe.compl_ctx, 0xc0ffeeu);
		EXPECT_EQ(SIRDMA_GET(SIRDMA_CQE_WQEIDX, e->cqe.hdr), idx);
		EXPECT_EQ(SIRDMA_GET(SIRDMA_CQP_OPCODE, e->cqe.qp), n % 3 ? 0x24u : 0x3fu);
		EXPECT_EQ(!!(e->cqe.hdr & SIRDMA_CQE_ERROR), n % 3 == 0);
		if (n % 3 == 0) {
			EXPECT_EQ(e->cqe.hdr & 0xffffffff, 0xffff0001u);
		}
		EXPECT_FALSE(ccq.poll());
		while (drv_.next_aeqe())
			;
	}
	TestCq second;
	EXPECT_EQ(drv_.create_cq(second, 1, 16, SIRDMA_CQP_CQ_IS_CCQ), SIRDMA_CQP_IN_USE);
	ASSERT_TRUE(ccq.poll());
	EXPECT_EQ(drv_.destroy_cq(ccq), SIRDMA_CQP_OK);
	EXPECT_FALSE(ccq.poll()) << "a queue that is gone is not written";
	EXPECT_EQ(drv_.exec(nop()), SIRDMA_CQP_OK);
}

TEST_F(CqpTest, CcqOverflowIsADeviceFault)
{
	TestCq ccq;

	drv_.bring_up(0);
	ASSERT_EQ(drv_.create_cq(ccq, 0, 4, SIRDMA_CQP_CQ_IS_CCQ), SIRDMA_CQP_OK);
	for (int n = 0; n < 5; n++)
		drv_.exec(nop());
	EXPECT_EQ(host_.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY | SIRDMA_STATUS_FAULT);
	auto ae = drv_.next_aeqe();
	ASSERT_TRUE(ae);
	EXPECT_EQ(ae->code, u32{SIRDMA_AE_CQ_CATASTROPHIC});
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(host_.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
}

TEST_F(CqpTest, WrongPolarityAndBadDoorbellAreReported)
{
	drv_.bring_up(0);
	u64 errors = host_.stat(SIRDMA_STAT_CQP_ERRORS);

	// A doorbell one beyond what was placed: that slot still has the last lap's polarity.
	drv_.place(nop());
	host_.write32(SIRDMA_REG_CQPDB, (drv_.head() + 1) % 8);
	EXPECT_EQ(drv_.status(), SIRDMA_CQP_BAD_RING);
	EXPECT_EQ(host_.read32(SIRDMA_REG_CQPERRCODES), 0xffff0009u);
	auto ae = drv_.next_aeqe();
	ASSERT_TRUE(ae);
	EXPECT_EQ(ae->code, u32{SIRDMA_AE_BAD_COMMAND});
	EXPECT_EQ(ae->wqe_idx, drv_.head());
	u32 at = tail();
	for (u32 head : {8u, 2048u, ~0u}) {
		host_.write32(SIRDMA_REG_CQPDB, head);
		EXPECT_TRUE(drv_.next_aeqe());
	}
	EXPECT_EQ(tail(), at) << "a head beyond the ring moves nothing";
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_ERRORS), errors + 4);
}

TEST_F(CqpTest, DoorbellBeforeStartOrAfterRingIsGoneIsHarmless)
{
	host_.write32(SIRDMA_REG_CQPDB, 3);
	ASSERT_TRUE(drv_.start(8));
	drv_.place(nop());
	// The driver frees the ring without a reset.
	sirdma_dma_mem ring{drv_.slot(0), 0, 0};
	(void)ring;
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	host_.write32(SIRDMA_REG_CQPDB, 1);
	EXPECT_EQ(host_.read32(SIRDMA_REG_CQPTAIL), 0u);
	EXPECT_EQ(host_.read32(SIRDMA_REG_CCQPSTATUS), 0u);
	ASSERT_TRUE(drv_.start(8));
	EXPECT_EQ(drv_.exec(nop()), SIRDMA_CQP_OK);
}

TEST_F(CqpTest, EveryDoorbellOfManyThreadsIsServed)
{
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	ASSERT_TRUE(drv_.start(1024));
	std::mutex place;
	u64 before = host_.stat(SIRDMA_STAT_CQP_COMMANDS);
	std::atomic<u64> placed{0};
	auto poster = [&] {
		for (int i = 0; i < 5000; i++) {
			std::lock_guard hold(place); // heads reach the register in order
			while (placed - (host_.stat(SIRDMA_STAT_CQP_COMMANDS) - before) > 1000)
				std::this_thread::yield();
			drv_.place(nop());
			placed++;
			drv_.ring();
		}
	};
	std::vector<std::thread> threads;
	for (int t = 0; t < 4; t++)
		threads.emplace_back(poster);
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(tail(), drv_.head());
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_COMMANDS) - before, 20000u);
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_ERRORS), 0u);
}

TEST_F(CqpTest, DoorbellThatFindsTheQueueBusyIsNotLost)
{
	constexpr u32 rounds = 20000;
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	ASSERT_TRUE(drv_.start(8));
	u64 before = host_.stat(SIRDMA_STAT_CQP_COMMANDS);
	std::atomic<u32> posted{0};
	// In turns: each rings once the other's command is done, often before the other let go.
	auto poster = [&](u32 turn) {
		for (; turn < rounds; turn += 2) {
			auto start = std::chrono::steady_clock::now();
			while (posted != turn || tail() != turn % 8) {
				if (std::chrono::steady_clock::now() - start >
				    std::chrono::seconds(10)) {
					ADD_FAILURE() << "command " << turn << " is not executed";
					posted = rounds;
					return;
				}
			}
			drv_.place(nop());
			posted++;
			drv_.ring();
		}
	};
	std::thread other(poster, 1);
	poster(0);
	other.join();
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_COMMANDS) - before, rounds);
	EXPECT_EQ(host_.stat(SIRDMA_STAT_CQP_ERRORS), 0u);
}

TEST_F(CqpTest, TablesOfAddressesReadBack)
{
	const u8 mac[6] = {2, 1, 2, 3, 4, 5};
	u8 got[6];
	snic_sgid sgid;

	drv_.bring_up(0);
	u32 gen = host_.dev()->tables_gen, sgids_gen = host_.dev()->sgids_gen;
	EXPECT_FALSE(snic_arp_read(host_.dev(), 9, got));
	EXPECT_EQ(drv_.set_arp(9, mac), SIRDMA_CQP_OK);
	EXPECT_TRUE(snic_arp_read(host_.dev(), 9, got));
	EXPECT_EQ(memcmp(got, mac, 6), 0);
	EXPECT_NE(host_.dev()->tables_gen, gen) << "cached flows must notice";
	EXPECT_EQ(host_.dev()->sgids_gen, sgids_gen) << "the host would read all addresses again";
	EXPECT_EQ(drv_.set_arp(256, mac), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.set_arp(9, mac, false), SIRDMA_CQP_OK);
	EXPECT_EQ(drv_.set_arp(9, mac, false), SIRDMA_CQP_NO_OBJECT);
	EXPECT_FALSE(snic_arp_read(host_.dev(), 9, got));
	EXPECT_FALSE(snic_arp_read(host_.dev(), ~0u, got));

	sirdma_ip ip{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
	gen = host_.dev()->tables_gen;
	EXPECT_EQ(drv_.set_sgid(15, ip, mac, true, 4094), SIRDMA_CQP_OK);
	ASSERT_TRUE(snic_sgid_read(host_.dev(), 15, &sgid));
	EXPECT_NE(host_.dev()->tables_gen, gen);
	EXPECT_NE(host_.dev()->sgids_gen, sgids_gen) << "the host must read them again";
	EXPECT_EQ(memcmp(sgid.ip.b, ip.b, 16), 0);
	EXPECT_EQ(memcmp(sgid.mac, mac, 6), 0);
	EXPECT_TRUE(sgid.has_vlan);
	EXPECT_EQ(sgid.vlan_id, 4094u);
	EXPECT_EQ(drv_.set_sgid(15, ip, mac, true, 4095), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.set_sgid(15, ip, mac, true, 0), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(drv_.set_sgid(16, ip, mac), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(drv_.set_sgid(15, ip, mac, false), SIRDMA_CQP_OK);
	EXPECT_FALSE(snic_sgid_read(host_.dev(), 15, &sgid));
}

TEST_F(CqpTest, QueryAndStatsFillTheirBuffers)
{
	auto mem = host_.alloc(4096);
	sirdma_cqp_buf cmd{};
	DmaSpace::ExpectFaults faults(host_.dma());

	drv_.bring_up(0);
	cmd.addr = mem.pa;
	cmd.len = sizeof(sirdma_fpm_query);
	cmd.hdr = op(SIRDMA_CQP_QUERY_FPM);
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	auto *query = static_cast<sirdma_fpm_query *>(mem.va);
	EXPECT_EQ(query->max_qps, 1024u);
	EXPECT_EQ(query->max_mrs, 4096u);
	EXPECT_EQ(query->max_pbles, 64u * SIRDMA_HMC_SD_SIZE / 8);
	EXPECT_GT(query->max_ird, 0u);
	cmd.len--;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
	cmd.len++;
	cmd.addr += 4;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS);
	cmd.addr = mem.pa + 4096 - 64;
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_ADDRESS) << "runs beyond the mapping";

	auto *stats = static_cast<__le64 *>(mem.va);
	cmd.addr = mem.pa;
	cmd.len = 7;
	cmd.hdr = op(SIRDMA_CQP_GATHER_STATS);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
	memset(mem.va, 0xee, 4096);
	cmd.len = 4096;
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	EXPECT_EQ(stats[SIRDMA_STAT_CQP_ERRORS], host_.stat(SIRDMA_STAT_CQP_ERRORS));
	EXPECT_EQ(stats[SIRDMA_STAT_COUNT], 0xeeeeeeeeeeeeeeeeull) << "not beyond the counters";
	memset(mem.va, 0xee, 4096);
	cmd.len = 16;
	ASSERT_EQ(drv_.exec(cmd), SIRDMA_CQP_OK);
	EXPECT_EQ(stats[2], 0xeeeeeeeeeeeeeeeeull) << "no more than the driver has room for";
}

TEST_F(CqpTest, CommitRefusesObjectsTheDeviceKeepsItself)
{
	auto mem = host_.alloc(4096);
	auto *commit = static_cast<sirdma_fpm_commit *>(mem.va);
	sirdma_cqp_buf cmd{};

	drv_.bring_up(0);
	commit->obj[0].count = 1; // irdma's queue pairs
	cmd.addr = mem.pa;
	cmd.len = sizeof(*commit);
	cmd.hdr = op(SIRDMA_CQP_COMMIT_FPM);
	EXPECT_EQ(drv_.exec(cmd), SIRDMA_CQP_BAD_PARAM);
}

// Whatever the words say, a command gets a status, and the device goes on working.
TEST_F(CqpTest, AnyGarbageGetsAStatus)
{
	std::mt19937_64 rng(20240607);
	HostOptions opts;
	opts.seed = 77;
	TestHost host(opts);
	MiniDriver drv(host, 32);
	DmaSpace::ExpectFaults faults(host.dma());
	UserMemory user(host.dma(), 16 << 12);
	auto page = host.alloc(1 << 16);
	std::vector<TestCq> keep;

	drv.bring_up(1);
	for (int i = 0; i < 40000; i++) {
		auto word = [&]() -> u64 {
			switch (rng() % 9) {
			case 0:
				return 0;
			case 1:
				return ~0ull;
			case 2:
				return page.pa + rng() % 64 * 256;
			case 3:
				return rng() % 64;
			case 4:
				return user.blocks()[rng() % 16];
			case 5:
				return 1ull << rng() % 64;
			case 6:
				return page.pa;
			default:
				return rng();
			}
		};
		sirdma_cqp_wqe w{word(), word(), word(), word(), word(), word(), word(), word()};
		u64 code = i % SIRDMA_CQP_OP_COUNT;
		if (rng() % 3)
			w.hdr &= 0xffffff00000000ffull; // object numbers that may exist
		w.hdr = (w.hdr & ~SIRDMA_CQP_OPCODE) | op(code);
		// The harness's own queues are not given to the fuzz: it would write over them.
		u32 status = drv.exec(w);
		ASSERT_LE(status, u32{SIRDMA_CQP_AGAIN}) << "opcode " << code;
		if (code > SIRDMA_CQP_DESTROY_PRQ) {
			ASSERT_EQ(status, u32{SIRDMA_CQP_BAD_OPCODE});
		}
		for (int j = 0; j < 16; j++)
			static_cast<u64 *>(page.va)[rng() % (page.size / 8)] = word();
		if (rng() % 16 == 0)
			host.write32(SIRDMA_REG_CQARM, rng() % 64);
		if (rng() % 16 == 0)
			host.write32(SIRDMA_REG_PMPDINV, static_cast<u32>(rng()));
		if (rng() % 16 == 0)
			host.write32(SIRDMA_REG_CEQACK, static_cast<u32>(rng()));
		if (rng() % 8 == 0)
			host.write32(SIRDMA_REG_AEQALLOC, static_cast<u32>(rng()));
		if (host.read32(SIRDMA_REG_STATUS) & SIRDMA_STATUS_FAULT) {
			host.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
			ASSERT_TRUE(drv.start(32));
		}
	}
	EXPECT_EQ(drv.exec(nop()), SIRDMA_CQP_OK);
	host.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(host.read32(SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
}

TEST_F(CqpTest, ResetLetsGoOfEveryObjectAndItsMemory)
{
	drv_.bring_up(2);
	auto user = std::make_unique<UserMemory>(host_.dma(), 8 << 12);
	MrParams mr{.va = 0, .len = 8 << 12};
	TestCq cq;
	const u8 mac[6] = {2};
	u8 got[6];

	drv_.describe(mr, *user, 1);
	ASSERT_EQ(drv_.reg_mr(mr), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.create_cq(cq, 1, 16), SIRDMA_CQP_OK);
	ASSERT_EQ(drv_.set_arp(1, mac), SIRDMA_CQP_OK);
	host_.write32(SIRDMA_REG_INT_MASK, 3);
	host_.write32(SIRDMA_REG_CTRL, 2); // not the reset bit
	EXPECT_EQ(host_.read32(SIRDMA_REG_INT_MASK), 3u);
	host_.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	user.reset();
	host_.free(cq.ring);
	host_.free(cq.shadow);
	EXPECT_EQ(host_.read32(SIRDMA_REG_INT_MASK), 0u);
	EXPECT_FALSE(snic_arp_read(host_.dev(), 1, got));
	EXPECT_EQ(snic_cq_get(host_.dev(), 1), nullptr);
	enum sirdma_ae_code ae;
	EXPECT_EQ(snic_mr_get(host_.dev(), mr.stag(), 1, 0, 1, 1, &ae), nullptr);
	EXPECT_EQ(host_.dev()->mrs.count + host_.dev()->cqs.count, 0u);
	ASSERT_TRUE(drv_.start(8));
	EXPECT_EQ(drv_.exec(nop()), SIRDMA_CQP_OK);
}

TEST(Device, ConfigurationIsChecked)
{
	const snic_config good = HostOptions{}.cfg;
	Clock clock;
	DmaSpace dma(1);
	auto works = [&](auto change) {
		snic_config cfg = good;
		change(cfg);
		static const snic_host_ops ops{};
		snic_dev *dev = snic_dev_create(&cfg, &ops, nullptr, dma.port(), clock.get());
		if (dev)
			snic_dev_destroy(dev);
		return dev != nullptr;
	};

	EXPECT_TRUE(works([](auto &) {}));
	EXPECT_FALSE(works([](auto &c) { c.max_qps = 2; }));
	EXPECT_FALSE(works([](auto &c) { c.max_qps = (1 << 18) + 1; }));
	EXPECT_FALSE(works([](auto &c) { c.max_cqs = 0; }));
	EXPECT_FALSE(works([](auto &c) { c.max_mrs = (1 << 24) + 1; }));
	EXPECT_TRUE(works([](auto &c) { c.max_mrs = 1 << 24; }));
	EXPECT_FALSE(works([](auto &c) { c.max_sds = SIRDMA_HMC_MAX_SD + 1; }));
	EXPECT_FALSE(works([](auto &c) { c.max_ceqs = 1024; }));
	EXPECT_FALSE(works([](auto &c) { c.max_arp = 0; }));
	EXPECT_FALSE(works([](auto &c) { c.max_cqe = 3; }));
}

TEST(Device, CreationSurvivesEveryFailingAllocation)
{
	static int budget;
	Clock clock;
	DmaSpace dma(1);
	const snic_config cfg = HostOptions{}.cfg;
	static const snic_host_ops ops{};
	int tries = 0;

	for (;; tries++) {
		budget = tries;
		port_alloc_fail = [](size_t) { return budget-- <= 0; };
		snic_dev *dev = snic_dev_create(&cfg, &ops, nullptr, dma.port(), clock.get());
		port_alloc_fail = nullptr;
		if (dev) {
			snic_dev_destroy(dev);
			break;
		}
	}
	EXPECT_GE(tries, 6);
}
