// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Bringing a device up and down, with everything failing once.
#include "fake_device.hpp"
#include "nop.hpp"

extern "C" {
#include "hw/limits.h"
}

namespace sirdma::test
{
namespace
{

TEST(Probe, UsesWhatTheDeviceReports)
{
	FakeHost host({.max_sds = 5, .max_pbles = 1000000, .max_ids = 300, .num_vectors = 3},
		      {.num_ceqs = 16});
	auto &caps = host.hw.caps;

	EXPECT_EQ(caps.max_qps, 300u);
	EXPECT_EQ(caps.max_mrs, 300u);
	EXPECT_EQ(caps.max_pbles, 1000000u);
	EXPECT_EQ(host.hw.hmc.max_sds, 5u);
	EXPECT_EQ(host.hw.cfg.num_ceqs, 2u) << "no more than there are vectors";
	EXPECT_EQ(host.hw.cfg.cqp_entries, 64u);
}

TEST(Probe, MorePblesThanSegmentsAreCut)
{
	FakeHost host({.max_sds = 2, .max_pbles = 100 * 262144});

	EXPECT_EQ(host.hw.caps.max_pbles, 2u * 262144);
}

TEST(Probe, NumbersStartAfterTheReservedOnes)
{
	FakeHost host;
	u32 id;

	ASSERT_EQ(sirdma_idpool_get(&host.hw.qp_ids, &id), 0);
	EXPECT_EQ(id, 2u);
	sirdma_idpool_put(&host.hw.qp_ids, id);
	ASSERT_EQ(sirdma_idpool_get(&host.hw.cq_ids, &id), 0);
	EXPECT_EQ(id, 1u) << "0 is the CCQ";
	sirdma_idpool_put(&host.hw.cq_ids, id);
}

TEST(Probe, ADeviceMayHaveNoSharedReceiveQueues)
{
	FakeHost host({.has_srqs = false});
	sirdma_limits limits;

	sirdma_hw_limits(&host.hw, &limits);
	EXPECT_EQ(limits.max_srq, 0u);
	EXPECT_GT(limits.max_qp, 0u);
}

TEST(Probe, RefusesUnusableConfigurations)
{
	FakeDevice one_vector({.num_vectors = 1});
	FakeDevice dev;
	sirdma_hw hw{};
	sirdma_hw_config cfg{}, eq = Config{.ceq_entries = 1 << 20};

	EXPECT_EQ(sirdma_hw_probe(&hw, one_vector.bus(), &cfg, nullptr, nullptr), -EINVAL);
	EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &eq, nullptr, nullptr), -EINVAL);
}

TEST(Probe, HandsOutTheQueuePairNumbersOfItsConfiguration)
{
	FakeHost host({}, Config{.first_qpn = 16, .limit_qpn = 20, .start_qpn = 18});
	u32 id;

	for (u32 expected : {18u, 19u, 16u, 17u}) {
		ASSERT_EQ(sirdma_idpool_get(&host.hw.qp_ids, &id), 0);
		EXPECT_EQ(id, expected);
	}
	EXPECT_EQ(sirdma_idpool_get(&host.hw.qp_ids, &id), -ENOMEM);
	for (id = 16; id < 20; id++)
		sirdma_idpool_put(&host.hw.qp_ids, id);
}

TEST(Probe, RefusesRangesOfNumbersTheDeviceDoesNotHave)
{
	u32 has;
	{
		FakeHost host;
		has = host.hw.caps.max_qps;
	}
	for (const Config &range :
	     {Config{.limit_qpn = has + 1}, Config{.first_qpn = has}, Config{.limit_qpn = 2},
	      Config{.first_qpn = 16, .limit_qpn = 16}, Config{.first_qpn = 16, .start_qpn = 15},
	      Config{.limit_qpn = 20, .start_qpn = 20}}) {
		FakeDevice dev;
		sirdma_hw hw{};
		const sirdma_hw_config cfg = range;

		EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), -EINVAL)
			<< range.first_qpn << " to " << range.limit_qpn;
	}
}

// A bus that shows another device.
TEST(Probe, ForeignDeviceIsRefused)
{
	struct Foreign : sirdma_bus {
		u32 id, version;
	};
	static const sirdma_bus_ops ops = {
		.read32 = [](sirdma_bus *b, u32 reg) -> u32 {
			auto *f = static_cast<Foreign *>(b);
			return reg == SIRDMA_REG_ID	 ? f->id :
			       reg == SIRDMA_REG_VERSION ? f->version :
							   0;
		},
		.write32 = [](sirdma_bus *, u32 reg, u32) { ADD_FAILURE() << "write to " << reg; },
		.dma_alloc = nullptr,
		.dma_free = nullptr,
		.irq_request = nullptr,
		.irq_free = nullptr,
	};
	sirdma_hw hw{};
	sirdma_hw_config cfg{};

	for (auto [id, version] : {std::pair{0u, SIRDMA_HW_VERSION},
				   {~0u, ~0u},
				   {SIRDMA_ID_MAGIC, 0x00030000u},
				   {SIRDMA_ID_MAGIC, 0x00010005u}}) {
		Foreign bus{};
		bus.ops = &ops;
		bus.num_vectors = 2;
		bus.id = id;
		bus.version = version;
		EXPECT_EQ(sirdma_hw_probe(&hw, &bus, &cfg, nullptr, nullptr), -ENODEV);
	}
}

TEST(Probe, EveryFailingAllocationUnwinds)
{
	static int countdown;
	auto fail = [](size_t) { return countdown-- == 0; };

	for (bool dma : {false, true}) {
		bool failed = true;
		int n = 0;
		for (; failed; n++) {
			FakeDevice dev;
			sirdma_hw hw{};
			sirdma_hw_config cfg = Config{.num_ceqs = 3};

			ASSERT_LT(n, 100);
			countdown = n;
			if (dma)
				dev.set_dma_fail(fail);
			else
				port_alloc_fail = fail;
			int err = sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr);
			port_alloc_fail = nullptr;
			dev.set_dma_fail(nullptr);
			failed = countdown < 0;
			if (failed)
				EXPECT_EQ(err, -ENOMEM);
			else
				sirdma_hw_remove(&hw);
			EXPECT_EQ(dev.dma_blocks(), 0u);
		}
		EXPECT_GT(n, 5);
	}
}

TEST(Probe, EveryFailingCommandUnwinds)
{
	bool failed = true;
	u64 n = 0;

	for (; failed; n++) {
		FakeDevice dev;
		sirdma_hw hw{};
		sirdma_hw_config cfg = Config{.num_ceqs = 2};
		u64 seen = 0;

		ASSERT_LT(n, 50u);
		dev.set_script([&](auto &) -> std::optional<FakeDevice::Reply> {
			if (seen++ == n)
				return FakeDevice::Reply{.status = 0xffff0000 |
								   SIRDMA_CQP_NO_OBJECT};
			return std::nullopt;
		});
		int err = sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr);
		failed = err != 0;
		if (failed)
			EXPECT_EQ(err, -ENOENT);
		else
			sirdma_hw_remove(&hw);
		EXPECT_EQ(dev.dma_blocks(), 0u);
	}
	EXPECT_GE(n, 6u);
}

TEST(Remove, WorksOnADeadDevice)
{
	FakeHost host({}, {.cmd_timeout_ms = 20});
	sirdma_pbl pbl;

	ASSERT_EQ(sirdma_pbl_alloc(&host.hw, 300000, false, &pbl), 0);
	sirdma_pbl_free(&host.hw, &pbl);
	host.dev.set_script([](auto &) { return FakeDevice::Reply{.lost = true}; });
	EXPECT_EQ(nop(host.hw), -ETIMEDOUT);
	// The destructors look for leaks.
}

TEST(Remove, ReportsWhatWasLeftBehind)
{
	FakeDevice dev;
	sirdma_hw hw{};
	sirdma_hw_config cfg{};
	sirdma_pbl pbl;
	u32 id;

	ASSERT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), 0);
	ASSERT_EQ(sirdma_idpool_get(&hw.pd_ids, &id), 0);
	ASSERT_EQ(sirdma_pbl_alloc(&hw, 5, false, &pbl), 0);
	testing::internal::CaptureStderr();
	sirdma_hw_remove(&hw);
	std::string out = testing::internal::GetCapturedStderr();
	EXPECT_NE(out.find("1 protection domains left behind"), std::string::npos) << out;
	EXPECT_NE(out.find("5 PBLEs left behind"), std::string::npos) << out;
}

TEST(Remove, ProbeWorksAgainAfterwards)
{
	FakeDevice dev;
	sirdma_hw_config cfg{};

	for (int i = 0; i < 20; i++) {
		sirdma_hw hw{};
		ASSERT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), 0);
		EXPECT_EQ(nop(hw), 0);
		sirdma_hw_remove(&hw);
		EXPECT_EQ(dev.dma_blocks(), 0u);
	}
}

} // namespace
} // namespace sirdma::test
