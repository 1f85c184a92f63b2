// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page requests as the driver core reads them.
#include "c_api.hpp"

#include <vector>

extern "C" {
#include "hw/hw.h"
}

namespace sirdma::test
{
namespace
{

// The core on a bus that only notes what is written to it.
class PrqRing : public ::testing::Test {
protected:
	static constexpr u32 entries = 8;
	struct Bus : sirdma_bus {
		PrqRing *test;
	};

	PrqRing()
	{
		static const sirdma_bus_ops ops = {
			.write32 =
				[](sirdma_bus *bus, u32 reg, u32 val) {
					static_cast<Bus *>(bus)->test->writes_.push_back(
						{reg, val});
				},
		};
		static const sirdma_hw_events events = {
			.cq_event = nullptr,
			.async_event = nullptr,
			.page_request =
				[](void *ctx, const sirdma_page_ask *ask) {
					static_cast<PrqRing *>(ctx)->asks_.push_back(*ask);
				},
		};

		bus_.ops = &ops;
		bus_.test = this;
		hw_.bus = &bus_;
		hw_.events = &events;
		hw_.events_ctx = this;
		hw_.prq.entries = entries;
		hw_.prq.polarity = true;
		hw_.prq.ring.va = ring_.data();
	}

	// As the device writes the request number @n, counted from the start of the ring.
	void write(u32 n, u32 list, u32 qpn, u64 block, u32 count, bool failed = false, u32 gen = 0,
		   u8 waited = 0)
	{
		// Bit positions as include/sirdma/prq.h documents them, written out.
		ring_[n % entries].block = u64{list} | block << 28;
		ring_[n % entries].qp = u64{qpn} | u64{gen} << 24 | u64{count} << 44 |
					u64{waited} << 58 | u64{failed} << 62 |
					u64{n / entries % 2 == 0} << 63;
	}

	struct Write {
		u32 reg, val;
	};
	std::vector<sirdma_page_request> ring_{entries};
	std::vector<sirdma_page_ask> asks_;
	std::vector<Write> writes_;
	Bus bus_{};
	sirdma_hw hw_{};
};

TEST_F(PrqRing, RequestsArriveDecodedOverManyLaps)
{
	constexpr u64 far = 0xf12345678; // of a sparse list, in 36 bits
	u32 n = 0;

	for (u32 batch = 0; batch < 100; batch++) {
		const u32 count = 1 + batch % entries;

		asks_.clear();
		writes_.clear();
		for (u32 i = 0; i < count; i++, n++)
			write(n, 0xfffff00 + i, 0xabcd00 + i, far + n, 0x3f00 + i, i % 2,
			      0xf0000 + n, n % 16);
		sirdma_prq_drain(&hw_);
		ASSERT_EQ(asks_.size(), count);
		for (u32 i = 0; i < count; i++) {
			EXPECT_EQ(asks_[i].first_pble, 0xfffff00 + i);
			EXPECT_EQ(asks_[i].qpn, 0xabcd00 + i);
			EXPECT_EQ(asks_[i].block, far + n - count + i);
			EXPECT_EQ(asks_[i].count, 0x3f00 + i);
			EXPECT_EQ(asks_[i].failed, i % 2 == 1);
			EXPECT_EQ(asks_[i].gen, 0xf0000 + n - count + i);
			EXPECT_EQ(asks_[i].waited, (n - count + i) % 16);
		}
		ASSERT_EQ(writes_.size(), 1u);
		EXPECT_EQ(writes_[0].reg, u32{SIRDMA_REG_PRQACK});
		EXPECT_EQ(writes_[0].val, count);
	}
}

TEST_F(PrqRing, WithoutMemoryHasNoRequests)
{
	hw_.prq.ring.va = nullptr;
	sirdma_prq_drain(&hw_);
	EXPECT_TRUE(writes_.empty());
}

TEST_F(PrqRing, SyncIsOneWrite)
{
	sirdma_pble_sync(&hw_, 7);
	ASSERT_EQ(writes_.size(), 1u);
	EXPECT_EQ(writes_[0].reg, u32{SIRDMA_REG_PBLESYNC});
	EXPECT_EQ(writes_[0].val, 7u);
}

} // namespace
} // namespace sirdma::test
