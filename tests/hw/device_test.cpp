// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The driver core over the real device model, behind the harness's IOMMU: any
// access of the device outside what is mapped at that moment fails the test.
#include "c_api.hpp"
#include "nop.hpp"
#include "pbl.hpp"
#include "test_host.hpp"

extern "C" {
#include "hw/cqp_cmd.h"
#include "hw/hw.h"
#include "hw/qp_attr.h"
#include "hw/stag.h"
}

namespace sirdma::test
{
namespace
{

constexpr u32 per_chunk = 262144;

struct Events {
	std::mutex lock;
	std::vector<u64> cqs;
	std::vector<sirdma_async_event> async;

	static const sirdma_hw_events *ops()
	{
		static const sirdma_hw_events events = {
			.cq_event =
				[](void *ctx, u64 cq) {
					auto *self = static_cast<Events *>(ctx);
					std::lock_guard hold(self->lock);
					self->cqs.push_back(cq);
				},
			.async_event =
				[](void *ctx, const sirdma_async_event *ev) {
					auto *self = static_cast<Events *>(ctx);
					std::lock_guard hold(self->lock);
					self->async.push_back(*ev);
				},
		};
		return &events;
	}
};

// A region as a driver registers it: list, stag, command, with full unwind.
class Region {
public:
	Region(TestHost &host, sirdma_hw &hw, UserMemory &mem, u64 off, u64 len, u8 force_level)
		: host_(host), hw_(hw), mem_(mem), off_(off), len_(len)
	{
		u64 block = 1ull << mem.block_shift();
		u64 first = off >> mem.block_shift();
		u32 count = static_cast<u32>(((off + len - 1) >> mem.block_shift()) - first + 1);
		sirdma_cqp_reg_mr_params p{
			.stag = 0,
			.pd = 5,
			.va = iova(),
			.len = len,
			.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE,
			.block_shift = static_cast<u8>(mem.block_shift()),
			.level = 0,
			.addr = 0,
			.first_pble = 0,
			.zero_based = false,
		};

		EXPECT_EQ((mem.va() & (block - 1)), 0u);
		if (force_level == 0) {
			sirdma_pbl_set_contiguous(&pbl_, mem.blocks()[first], count);
		} else {
			err_ = sirdma_pbl_alloc(&hw, count, false, &pbl_);
			if (err_)
				return;
			for (u32 i = 0; i < count; i++)
				pbl_write(hw, pbl_, i, mem.blocks()[first + i]);
		}
		err_ = sirdma_stag_alloc(&hw, &stag_);
		if (err_)
			goto err_pbl;
		p.stag = stag_;
		p.level = pbl_.level;
		if (pbl_.level)
			p.first_pble = sirdma_pbl_first(&pbl_);
		else
			p.addr = pbl_.addr;
		err_ = sirdma_cqp_reg_mr(&hw, &p);
		if (!err_)
			return;
		sirdma_stag_free(&hw, stag_);
err_pbl:
		sirdma_pbl_free(&hw, &pbl_);
	}
	~Region()
	{
		if (err_)
			return;
		EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, stag_), 0);
		sirdma_stag_free(&hw_, stag_);
		sirdma_pbl_free(&hw_, &pbl_);
	}
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;

	int error() const
	{
		return err_;
	}
	u32 stag() const
	{
		return stag_;
	}
	const sirdma_pbl &pbl() const
	{
		return pbl_;
	}
	// The test freed its parts.
	void abandon()
	{
		err_ = -EIO;
	}
	u64 iova() const
	{
		return mem_.va() + off_;
	}

	// Do @len bytes at @at, as the device finds them, match the process's?
	void expect_bytes(u64 at, u32 len)
	{
		sirdma_ae_code ae;
		snic_mr *mr = snic_mr_get(host_.dev(), stag_, 5, iova() + at, len,
					  SIRDMA_ACCESS_LOCAL_READ, &ae);
		ASSERT_NE(mr, nullptr) << std::hex << ae;
		for (u32 done = 0, run; done < len; done += run) {
			void *p;
			ASSERT_EQ(bytes_at(host_.dev(), mr, iova() + at + done, len - done, &p,
					   &run),
				  SNIC_MEM_OK);
			ASSERT_GT(run, 0u);
			ASSERT_EQ(p, mem_.data() + off_ + at + done);
		}
		snic_mr_put(mr);
	}
	void expect_all(std::mt19937 &rng, int samples = 50)
	{
		expect_bytes(0, 1);
		expect_bytes(len_ - 1, 1);
		for (int i = 0; i < samples; i++) {
			u64 at = rng() % len_;
			expect_bytes(at,
				     static_cast<u32>(1 + rng() % std::min<u64>(len_ - at, 70000)));
		}
	}

private:
	TestHost &host_;
	sirdma_hw &hw_;
	UserMemory &mem_;
	u64 off_, len_;
	int err_ = 0;
	u32 stag_ = 0;
	sirdma_pbl pbl_{};
};

class DeviceTest : public testing::Test {
protected:
	void start(HostOptions opts = {}, u32 cqp_entries = 0)
	{
		sirdma_hw_config cfg{};

		cfg.cqp_entries = cqp_entries;
		cfg.num_ceqs = 2;
		host_ = std::make_unique<TestHost>(opts);
		ASSERT_EQ(sirdma_hw_probe(&hw_, host_->bus(), &cfg, Events::ops(), &events_), 0);
		up_ = true;
	}
	void stop()
	{
		if (!up_)
			return;
		up_ = false;
		host_->stop_irq_thread();
		sirdma_hw_remove(&hw_);
		EXPECT_EQ(host_->dma_blocks(), 0u);
		EXPECT_EQ(host_->dma().violations(), 0u);
		host_.reset();
	}
	void TearDown() override { stop(); }

	std::unique_ptr<TestHost> host_;
	sirdma_hw hw_{};
	Events events_;
	bool up_ = false;
};

TEST_F(DeviceTest, ComesUpAndGoesDownAgainAndAgain)
{
	for (int i = 0; i < 5; i++) {
		start();
		EXPECT_EQ(hw_.caps.max_qps, host_->options().cfg.max_qps);
		EXPECT_EQ(hw_.caps.max_pbles, 63 * per_chunk) << "one segment is not theirs";
		EXPECT_EQ(hw_.caps.max_avs, SIRDMA_MAX_AVS);
		EXPECT_EQ(nop(hw_), 0);
		stop();
	}
}

TEST_F(DeviceTest, CommandRingWraps)
{
	start({}, 4);
	u64 stats[SIRDMA_STAT_COUNT];

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(nop(hw_), 0);
	ASSERT_EQ(sirdma_cqp_gather_stats(&hw_, stats), 0);
	EXPECT_GE(stats[SIRDMA_STAT_CQP_COMMANDS], 100u);
	EXPECT_EQ(stats[SIRDMA_STAT_CQP_ERRORS], 0u);
}

TEST_F(DeviceTest, EveryFailingAllocationOfProbeUnwinds)
{
	static int countdown;

	for (bool dma : {false, true}) {
		bool failed = true;
		int n = 0;
		for (; failed; n++) {
			TestHost host;
			sirdma_hw hw{};
			sirdma_hw_config cfg{};

			ASSERT_LT(n, 100);
			countdown = n;
			if (dma)
				host.fail_alloc_after(n);
			else
				port_alloc_fail = [](size_t) { return countdown-- <= 0; };
			int err = sirdma_hw_probe(&hw, host.bus(), &cfg, Events::ops(), &events_);
			port_alloc_fail = nullptr;
			host.fail_alloc_after(-1);
			failed = err != 0;
			if (failed)
				EXPECT_EQ(err, -ENOMEM);
			else
				sirdma_hw_remove(&hw);
			EXPECT_EQ(host.dma_blocks(), 0u);
			EXPECT_EQ(host.dma().violations(), 0u);
		}
		EXPECT_GT(n, 5);
	}
}

TEST_F(DeviceTest, Level0RegionsOfEveryBlockSize)
{
	std::mt19937 rng(1);

	start();
	for (u32 shift : {12u, 21u}) {
		UserMemory mem(host_->dma(), 8u << 20, shift, true);
		for (auto [off, len] : {std::pair<u64, u64>{0, 8 << 20},
					{1, 1},
					{4095, 2},
					{12345, 7 << 20},
					{(8 << 20) - 1, 1}}) {
			Region r(*host_, hw_, mem, off, len, 0);
			ASSERT_EQ(r.error(), 0);
			r.expect_all(rng);
		}
	}
}

TEST_F(DeviceTest, Level1RegionsOfManySizesAndOffsets)
{
	std::mt19937 rng(2);

	start();
	UserMemory mem(host_->dma(), 12u << 20, 12);
	for (int i = 0; i < 200; i++) {
		u64 off = rng() % mem.size();
		u64 len = 1 + rng() % (mem.size() - off);
		Region r(*host_, hw_, mem, off, len, 1);
		ASSERT_EQ(r.error(), 0);
		ASSERT_EQ(r.pbl().level, 1);
		r.expect_all(rng, 10);
	}
	UserMemory huge(host_->dma(), 32u << 20, 21);
	Region r(*host_, hw_, huge, 3 << 20 | 17, 20 << 20, 1);
	ASSERT_EQ(r.error(), 0);
	r.expect_all(rng);
	EXPECT_EQ(hw_.pble.in_use, 11u);
}

TEST_F(DeviceTest, Level2RegionsResolveThroughTheirLeaves)
{
	std::mt19937 rng(3);
	HostOptions opts;

	opts.cfg.max_sds = 1;
	start(opts);
	// Fragment the only chunk, so that no run longer than a page is left.
	std::vector<sirdma_pbl> pages;
	sirdma_pbl pbl;
	while (sirdma_pbl_alloc(&hw_, 512, true, &pbl) == 0)
		pages.push_back(pbl);
	for (size_t i = 0; i < pages.size(); i += 2)
		sirdma_pbl_free(&hw_, &pages[i]);
	{
		UserMemory mem(host_->dma(), 24u << 20, 12);
		Region a(*host_, hw_, mem, 5000, 20 << 20, 2);
		Region b(*host_, hw_, mem, 0, mem.size(), 2);
		ASSERT_EQ(a.error(), 0);
		ASSERT_EQ(b.error(), 0);
		EXPECT_EQ(a.pbl().level, 2);
		EXPECT_EQ(b.pbl().level, 2);
		a.expect_all(rng);
		b.expect_all(rng);
	}
	for (auto &p : pages)
		sirdma_pbl_free(&hw_, &p);
	EXPECT_EQ(hw_.pble.in_use, 0u);
}

TEST_F(DeviceTest, DeregisteredRegionIsGone)
{
	sirdma_ae_code ae;
	u32 stag;
	u64 va;

	start();
	UserMemory mem(host_->dma(), 1u << 20);
	{
		Region r(*host_, hw_, mem, 0, mem.size(), 1);
		ASSERT_EQ(r.error(), 0);
		stag = r.stag();
		va = r.iova();
		EXPECT_EQ(snic_mr_get(host_->dev(), stag ^ 1, 5, va, 1, SIRDMA_ACCESS_LOCAL_READ,
				      &ae),
			  nullptr);
		EXPECT_EQ(ae, SIRDMA_AE_AMP_BAD_STAG_KEY);
	}
	EXPECT_EQ(snic_mr_get(host_->dev(), stag, 5, va, 1, SIRDMA_ACCESS_LOCAL_READ, &ae),
		  nullptr);
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, stag), -ENOENT);
}

TEST_F(DeviceTest, RegionOfAllMemoryIsAskedForInSoManyWords)
{
	start();
	UserMemory mem(host_->dma(), 4096);
	sirdma_cqp_reg_mr_params p{};
	sirdma_ae_code ae;

	p.pd = 5;
	p.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE;
	p.block_shift = 12;
	ASSERT_EQ(sirdma_stag_alloc(&hw_, &p.stag), 0);
	ASSERT_EQ(sirdma_cqp_reg_mr(&hw_, &p), 0);
	EXPECT_EQ(snic_mr_get(host_->dev(), p.stag, 5, mem.pa(0), 1, SIRDMA_ACCESS_LOCAL_WRITE,
			      &ae),
		  nullptr)
		<< "no length is not all of it";
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, p.stag), 0);
	p.all_memory = true;
	p.len = 4096;
	EXPECT_EQ(sirdma_cqp_reg_mr(&hw_, &p), -EINVAL);
	p.len = 0;
	ASSERT_EQ(sirdma_cqp_reg_mr(&hw_, &p), 0);
	snic_mr *mr = snic_mr_get(host_->dev(), p.stag, 5, mem.pa(0), 4096,
				  SIRDMA_ACCESS_LOCAL_WRITE, &ae);
	ASSERT_NE(mr, nullptr);
	void *at;
	u32 run;
	EXPECT_EQ(bytes_at(host_->dev(), mr, mem.pa(0), 4096, &at, &run), SNIC_MEM_OK);
	EXPECT_EQ(at, mem.data());
	snic_mr_put(mr);
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, p.stag), 0);
	sirdma_stag_free(&hw_, p.stag);
}

TEST_F(DeviceTest, WindowsAreAllocatedAndFreed)
{
	start();
	sirdma_cqp_alloc_mw_params p{};

	p.pd = 5;
	for (bool type1 : {true, false}) {
		p.type1 = type1;
		ASSERT_EQ(sirdma_stag_alloc(&hw_, &p.stag), 0);
		ASSERT_EQ(sirdma_cqp_alloc_mw(&hw_, &p), 0);
		EXPECT_EQ(sirdma_cqp_alloc_mw(&hw_, &p), -EBUSY) << "the index is taken";
		EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, p.stag), -ENOENT) << "it is no region";
		// A bind may have changed the key.
		EXPECT_EQ(sirdma_cqp_dealloc_mw(&hw_, p.stag ^ 0x55), 0);
		EXPECT_EQ(sirdma_cqp_dealloc_mw(&hw_, p.stag), -ENOENT);
		sirdma_stag_free(&hw_, p.stag);
	}
	p.pd = ~0u;
	EXPECT_EQ(sirdma_cqp_alloc_mw(&hw_, &p), -EINVAL);
}

TEST_F(DeviceTest, RegionsForFastRegistrationAreAllocatedAndFreed)
{
	start();
	sirdma_cqp_alloc_mr_params p{};
	sirdma_pbl pbl;

	p.pd = 5;
	p.blocks = 512;
	ASSERT_EQ(sirdma_pbl_alloc(&hw_, 2 * p.blocks, true, &pbl), 0);
	p.first_pble = sirdma_pbl_first(&pbl);
	ASSERT_EQ(sirdma_stag_alloc(&hw_, &p.stag), 0);
	ASSERT_EQ(sirdma_cqp_alloc_mr(&hw_, &p), 0);
	EXPECT_EQ(sirdma_cqp_alloc_mr(&hw_, &p), -EBUSY) << "the index is taken";
	EXPECT_EQ(sirdma_cqp_dealloc_mw(&hw_, p.stag), -ENOENT) << "it is no window";
	// A work request may have changed the key.
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, p.stag ^ 0x55), 0);
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, p.stag), -ENOENT);
	p.pd = ~0u;
	EXPECT_EQ(sirdma_cqp_alloc_mr(&hw_, &p), -EINVAL);
	p.pd = 5;
	p.first_pble = hw_.caps.max_pbles - 2 * p.blocks + 1;
	EXPECT_NE(sirdma_cqp_alloc_mr(&hw_, &p), 0);
	sirdma_stag_free(&hw_, p.stag);
	sirdma_pbl_free(&hw_, &pbl);
}

TEST_F(DeviceTest, HmcGrowsShrinksAndTheDeviceFollows)
{
	start();
	std::vector<sirdma_pbl> lists(5);
	u64 val, faults;

	for (u32 i = 0; i < lists.size(); i++) {
		ASSERT_EQ(sirdma_pbl_alloc(&hw_, per_chunk, true, &lists[i]), 0);
		for (u32 k = 0; k < per_chunk; k += 511)
			pbl_write(hw_, lists[i], k, u64{i} << 40 | k);
	}
	EXPECT_EQ(hw_.hmc.direct_sds, 4u);
	EXPECT_EQ(hw_.hmc.paged_sds, 2u) << "the first one, and that of the address vectors";
	for (u32 i = 0; i < lists.size(); i++) {
		for (u32 k = 0; k < per_chunk; k += 511) {
			ASSERT_TRUE(snic_pble_read(host_->dev(), sirdma_pbl_first(&lists[i]) + k,
						   &val));
			ASSERT_EQ(val, u64{i} << 40 | k);
		}
	}
	u32 gone = sirdma_pbl_first(&lists[4]);
	for (auto &pbl : lists)
		sirdma_pbl_free(&hw_, &pbl);
	faults = host_->stat(SIRDMA_STAT_HMC_FAULTS);
	EXPECT_FALSE(snic_pble_read(host_->dev(), gone, &val));
	EXPECT_EQ(host_->stat(SIRDMA_STAT_HMC_FAULTS), faults + 1);
}

TEST_F(DeviceTest, PagesTakenBackAreInvalidated)
{
	start();
	sirdma_pbl a, b;
	u64 val;

	ASSERT_EQ(sirdma_pbl_alloc(&hw_, 512, true, &a), 0);
	host_->fail_alloc_after(3);
	EXPECT_EQ(sirdma_pbl_alloc(&hw_, 4096, true, &b), -ENOMEM);
	host_->fail_alloc_after(-1);
	// The device read some of them meanwhile, or would now: all must be gone.
	for (u32 page = 1; page < 512; page++)
		EXPECT_FALSE(snic_pble_read(host_->dev(), page * 512, &val)) << page;
	ASSERT_EQ(sirdma_pbl_alloc(&hw_, 4096, true, &b), 0);
	for (u32 i = 0; i < 4096; i++)
		pbl_write(hw_, b, i, i * 3);
	for (u32 i = 0; i < 4096; i++) {
		ASSERT_TRUE(snic_pble_read(host_->dev(), sirdma_pbl_first(&b) + i, &val));
		ASSERT_EQ(val, i * 3);
	}
	sirdma_pbl_free(&hw_, &a);
	sirdma_pbl_free(&hw_, &b);
}

TEST_F(DeviceTest, ExhaustionOfRegionsAndSpaceUnwinds)
{
	HostOptions opts;

	opts.cfg.max_mrs = 100;
	opts.cfg.max_sds = 1;
	start(opts);
	UserMemory mem(host_->dma(), 1u << 20);
	{
		std::vector<std::unique_ptr<Region>> all;
		for (;;) {
			all.push_back(std::make_unique<Region>(*host_, hw_, mem, 0, mem.size(), 1));
			if (all.back()->error())
				break;
		}
		EXPECT_EQ(all.back()->error(), -ENOMEM);
		EXPECT_EQ(all.size(), 100u);
		EXPECT_EQ(hw_.pble.in_use, 99u * 256);
	}
	EXPECT_EQ(hw_.pble.in_use, 0u);
	EXPECT_EQ(hw_.stag_ids.used, 0u);
}

TEST_F(DeviceTest, EveryFailingAllocationOfARegistrationUnwinds)
{
	static int countdown;
	std::mt19937 rng(5);

	for (bool dma : {false, true}) {
		// From the beginning: nothing backed yet.
		start();
		auto mem = std::make_unique<UserMemory>(host_->dma(), 4u << 20);
		for (int n = 0, err = -1; err; n++) {
			ASSERT_LT(n, 60);
			countdown = n;
			if (dma)
				host_->fail_alloc_after(n);
			else
				port_alloc_fail = [](size_t) { return countdown-- <= 0; };
			Region r(*host_, hw_, *mem, 100, 3 << 20, 1);
			port_alloc_fail = nullptr;
			host_->fail_alloc_after(-1);
			err = r.error();
			if (err) {
				EXPECT_EQ(err, -ENOMEM);
				EXPECT_EQ(hw_.pble.in_use, 0u);
				EXPECT_EQ(hw_.stag_ids.used, 0u);
			} else {
				r.expect_all(rng);
			}
		}
		mem.reset();
		stop();
	}
}

TEST_F(DeviceTest, ThreadsRegisterAndDeregister)
{
	for (bool irqs : {false, true}) {
		start({}, 8);
		if (irqs)
			host_->start_irq_thread();
		std::vector<std::thread> threads;
		for (u32 t = 0; t < 4; t++) {
			threads.emplace_back([&, t] {
				std::mt19937 rng(t);
				UserMemory mem(host_->dma(), 2u << 20);
				for (int i = 0; i < 100; i++) {
					u64 off = rng() % mem.size();
					u64 len = 1 + rng() % (mem.size() - off);
					Region r(*host_, hw_, mem, off, len, 1);
					ASSERT_EQ(r.error(), 0);
					r.expect_all(rng, 3);
				}
			});
		}
		for (auto &t : threads)
			t.join();
		EXPECT_EQ(hw_.pble.in_use, 0u);
		EXPECT_EQ(hw_.cqp.timeouts, 0u);
		EXPECT_EQ(hw_.cqp.failures, 0u);
		stop();
	}
}

TEST_F(DeviceTest, QueueEventsComeOncePerArming)
{
	start();
	constexpr u64 cookie = 0xfeed0;
	auto ring = host_->alloc(64 * 32), shadow = host_->alloc(64);
	auto *area = static_cast<sirdma_cq_shadow *>(shadow.va);
	const sirdma_cqp_cq_params params{
		.cq_id = 3,
		.entries = 64,
		.ceq_id = 1,
		.cookie = cookie,
		.shadow_pa = shadow.pa,
		.pa = ring.pa,
		.first_pble = 0,
		.vmap = false,
		.is_ccq = false,
		.elem_64b = false,
	};
	auto post = [&] {
		snic_completion c{};
		snic_cq *cq = snic_cq_get(host_->dev(), 3);
		EXPECT_TRUE(snic_cq_post(host_->dev(), cq, &c));
		snic_cq_put(cq);
	};
	u64 arm = SIRDMA_CQ_SHADOW_ARM_NEXT;

	ASSERT_EQ(sirdma_cqp_create_cq(&hw_, &params), 0);
	post();
	host_->deliver_interrupts();
	EXPECT_TRUE(events_.cqs.empty()) << "not armed";
	area->cons_idx = 1;
	WRITE_ONCE(area->arm, arm | SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, 1));
	post();
	post();
	host_->deliver_interrupts();
	EXPECT_EQ(events_.cqs, std::vector<u64>{cookie});
	area->cons_idx = 3;
	WRITE_ONCE(area->arm, arm | SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, 2));
	post();
	ASSERT_EQ(sirdma_cqp_destroy_cq(&hw_, 3), 0);
	host_->deliver_interrupts();
	EXPECT_EQ(events_.cqs.size(), 2u) << "an event that was under way comes late";
	host_->free(ring);
	host_->free(shadow);
}

TEST_F(DeviceTest, BadCommandIsRefusedAndReported)
{
	start();
	EXPECT_EQ(sirdma_cqp_destroy_cq(&hw_, 77), -ENOENT);
	host_->deliver_interrupts();
	EXPECT_EQ(sirdma_cqp_destroy_cq(&hw_, 1u << 20), -EINVAL);
	host_->deliver_interrupts();
	EXPECT_EQ(sirdma_cqp_destroy_qp(&hw_, 0xfffff), -EINVAL);
	host_->deliver_interrupts();
	ASSERT_EQ(events_.async.size(), 3u);
	for (auto &ev : events_.async)
		EXPECT_EQ(ev.code, SIRDMA_AE_BAD_COMMAND);
	EXPECT_EQ(nop(hw_), 0);
}

TEST_F(DeviceTest, AttributesReachTheQpAndComeBack)
{
	start();
	auto ring = host_->alloc(64 * 32), cq_mem = host_->alloc(64 * 32),
	     shadow = host_->alloc(64), cq_shadow = host_->alloc(64), ctx_mem = host_->alloc(4096);
	const sirdma_cqp_cq_params cq{
		.cq_id = 1,
		.entries = 64,
		.ceq_id = 0,
		.cookie = 1,
		.shadow_pa = cq_shadow.pa,
		.pa = cq_mem.pa,
		.first_pble = 0,
		.vmap = false,
		.is_ccq = false,
		.elem_64b = false,
	};
	auto *ctx = static_cast<sirdma_qp_ctx *>(ctx_mem.va);
	const u8 mac[6] = {2, 0, 0, 0, 0, 9};
	sirdma_cqp_sgid_params sgid{
		.idx = 0, .ip = {}, .mac = {2}, .has_vlan = false, .vlan_id = 0};
	sirdma_qp_attr a{};
	sirdma_qp_state cur = SIRDMA_QPS_RESET;
	auto modify = [&](sirdma_qp_state next, u32 mask) {
		u32 bad;

		memset(ctx, 0, sizeof(*ctx));
		EXPECT_EQ(sirdma_qp_check_transition(SIRDMA_QPT_RC, cur, next,
						     mask | SIRDMA_QP_STATE, &bad),
			  0);
		EXPECT_EQ(sirdma_qp_check_attr(&a, mask, 16, 16, &bad), 0);
		sirdma_qp_attr_to_ctx(&a, mask, ctx);
		const sirdma_cqp_modify_qp_params p{.qpn = 2,
						    .ctx_pa = ctx_mem.pa,
						    .cur = cur,
						    .next = next,
						    .check_cur = true};
		int err = sirdma_cqp_modify_qp(&hw_, &p);
		if (!err)
			cur = next;
		return err;
	};

	ASSERT_EQ(sirdma_cqp_create_cq(&hw_, &cq), 0);
	ctx->sq_addr = ring.pa;
	ctx->shadow_addr = shadow.pa;
	ctx->sq_quanta = 64;
	ctx->send_cq = ctx->recv_cq = 1;
	ctx->pd = 1;
	ASSERT_EQ(sirdma_cqp_create_qp(&hw_, 2, ctx_mem.pa), 0);
	EXPECT_EQ(sirdma_cqp_create_qp(&hw_, 2, ctx_mem.pa), -EBUSY);
	EXPECT_EQ(sirdma_cqp_destroy_cq(&hw_, 1), -EBUSY);

	sgid.ip.b[15] = 7;
	ASSERT_EQ(sirdma_cqp_set_sgid(&hw_, &sgid), 0);
	ASSERT_EQ(sirdma_cqp_set_arp(&hw_, 3, mac), 0);
	a.pkey = 0xffff;
	a.access = SIRDMA_ACCESS_REMOTE_WRITE;
	a.path_mtu = 2048;
	a.dest_qpn = 0x4321;
	a.rq_psn = 0xabcdef;
	a.sq_psn = 0xfedcba;
	a.max_dest_rd_atomic = 4;
	a.max_rd_atomic = 8;
	a.min_rnr_timer = 12;
	a.timeout = 14;
	a.retry_cnt = 6;
	a.rnr_retry = 5;
	a.dst_ip.b[15] = 9;
	a.arp_idx = 3;
	a.udp_sport = sirdma_udp_sport(0, 2, 0x4321);
	a.hop_limit = 63;
	a.traffic_class = 0x20;
	ASSERT_EQ(modify(SIRDMA_QPS_INIT,
			 SIRDMA_QP_PKEY_INDEX | SIRDMA_QP_PORT | SIRDMA_QP_ACCESS_FLAGS),
		  0);
	ASSERT_EQ(modify(SIRDMA_QPS_RTR, SIRDMA_QP_AV | SIRDMA_QP_PATH_MTU | SIRDMA_QP_DEST_QPN |
						 SIRDMA_QP_RQ_PSN | SIRDMA_QP_MAX_DEST_RD_ATOMIC |
						 SIRDMA_QP_MIN_RNR_TIMER),
		  0);
	ASSERT_EQ(modify(SIRDMA_QPS_RTS, SIRDMA_QP_TIMEOUT | SIRDMA_QP_RETRY_CNT |
						 SIRDMA_QP_RNR_RETRY | SIRDMA_QP_SQ_PSN |
						 SIRDMA_QP_MAX_QP_RD_ATOMIC),
		  0);

	// The driver's idea of the state is wrong: refused, nothing changes.
	cur = SIRDMA_QPS_INIT;
	EXPECT_EQ(modify(SIRDMA_QPS_INIT, SIRDMA_QP_ACCESS_FLAGS), -EINVAL);
	memset(ctx, 0xff, sizeof(*ctx));
	ASSERT_EQ(sirdma_cqp_upload_ctx(&hw_, 2, ctx_mem.pa), 0);
	EXPECT_EQ(ctx->state, SIRDMA_QPS_RTS);
	EXPECT_EQ(ctx->access, SIRDMA_ACCESS_REMOTE_WRITE);
	EXPECT_EQ(ctx->path_mtu, 2048);
	EXPECT_EQ(ctx->dest_qpn, 0x4321u);
	EXPECT_EQ(ctx->rq_psn, 0xabcdefu);
	EXPECT_EQ(ctx->sq_psn, 0xfedcbau);
	EXPECT_EQ(ctx->ird, 4);
	EXPECT_EQ(ctx->ord, 8);
	EXPECT_EQ(ctx->min_rnr_timer, 12);
	EXPECT_EQ(ctx->ack_timeout, 14);
	EXPECT_EQ(ctx->retry_cnt, 6);
	EXPECT_EQ(ctx->rnr_retry, 5);
	EXPECT_EQ(ctx->dst_ip.b[15], 9);
	EXPECT_EQ(ctx->udp_sport, a.udp_sport);
	EXPECT_EQ(ctx->hop_limit, 63);

	EXPECT_EQ(sirdma_cqp_destroy_qp(&hw_, 2), 0);
	EXPECT_EQ(sirdma_cqp_destroy_qp(&hw_, 2), -ENOENT);
	EXPECT_EQ(sirdma_cqp_destroy_cq(&hw_, 1), 0);
	for (auto *mem : {&ring, &cq_mem, &shadow, &cq_shadow, &ctx_mem})
		host_->free(*mem);
}

TEST_F(DeviceTest, ResetUnderLiveRegionsLeavesNothing)
{
	start();
	UserMemory mem(host_->dma(), 1u << 20);
	auto region = std::make_unique<Region>(*host_, hw_, mem, 0, mem.size(), 1);
	sirdma_ae_code ae;

	ASSERT_EQ(region->error(), 0);
	u32 stag = region->stag();
	ASSERT_EQ(sirdma_hw_reset(&hw_), 0);
	EXPECT_EQ(snic_mr_get(host_->dev(), stag, 5, mem.va(), 1, SIRDMA_ACCESS_LOCAL_READ, &ae),
		  nullptr);
	// The queue is gone with the reset; the driver finds out by its timeout.
	hw_.cfg.cmd_timeout_ms = 30;
	EXPECT_EQ(nop(hw_), -ETIMEDOUT);
	EXPECT_EQ(sirdma_cqp_dealloc_stag(&hw_, stag), -EIO);
	sirdma_pbl pbl = region->pbl();
	sirdma_pbl_free(&hw_, &pbl);
	sirdma_stag_free(&hw_, stag);
	region->abandon();
}

} // namespace
} // namespace sirdma::test
