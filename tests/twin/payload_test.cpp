/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How payload goes through a ring: which way is chosen, and that each way copies it all. */
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "payload_choice.hpp"
#include "ring_copy.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr u32 kib = 1024;
constexpr u64 holds = Trial::result_holds_us * 6000; /* ticks of the fastest processors */

/* @count transfers of 1 KiB of the way that the trial asks for. Returns how often it asks for a decision. */
u32 transfer(Trial &trial, u32 count, u64 took)
{
	u32 n = 0;

	while (count--)
		n += trial.measures(0) && trial.note(trial.way(), kib, took);
	return n;
}

TEST(Trial, MeasuresBothWaysAndKeepsTheDecision)
{
	Trial trial;

	EXPECT_EQ(trial.way(), Way::first);
	EXPECT_EQ(transfer(trial, Trial::transfers - 1, 10), 0u);
	EXPECT_EQ(trial.way(), Way::first);
	EXPECT_EQ(transfer(trial, 1, 10), 0u);
	EXPECT_EQ(trial.way(), Way::second);
	EXPECT_EQ(transfer(trial, Trial::transfers - 1, 7), 0u);
	EXPECT_EQ(transfer(trial, 1, 7), 1u);
	EXPECT_EQ(trial.cost(Way::first), 10u);
	EXPECT_EQ(trial.cost(Way::second), 7u);
	trial.decide(Way::first, 0);
	EXPECT_FALSE(trial.measures(1));
	EXPECT_EQ(trial.way(), Way::first);
}

TEST(Trial, MeasuresAgainAfterSomeTime)
{
	Trial trial;

	transfer(trial, Trial::transfers, 10);
	transfer(trial, Trial::transfers, 7);
	trial.decide(Way::second, 0);
	EXPECT_FALSE(trial.measures(1));
	EXPECT_TRUE(trial.measures(holds));
	/* The way in use comes first. */
	EXPECT_EQ(trial.way(), Way::second);
	transfer(trial, Trial::transfers, 20);
	EXPECT_EQ(trial.way(), Way::first);
	EXPECT_EQ(transfer(trial, Trial::transfers, 11), 1u);
	EXPECT_EQ(trial.cost(Way::first), 11u);
	EXPECT_EQ(trial.cost(Way::second), 20u);
}

/* Some are interrupted; of others the device drops the payload, as those without a receive request. */
TEST(Trial, AFewOddTransfersChangeNothing)
{
	Trial trial;

	transfer(trial, Trial::transfers / 3, 1000000);
	transfer(trial, Trial::transfers / 3, 0);
	transfer(trial, Trial::transfers - 2 * (Trial::transfers / 3), 10);
	EXPECT_EQ(trial.cost(Way::first), 10u);
}

TEST(Trial, TransfersOfTheOtherWayAreNotCounted)
{
	Trial trial;

	transfer(trial, Trial::transfers, 10);
	for (u32 i = 0; i < 2 * Trial::transfers; ++i)
		EXPECT_FALSE(trial.note(Way::first, kib, 1));
	EXPECT_EQ(trial.cost(Way::first), 10u);
	EXPECT_EQ(transfer(trial, Trial::transfers, 7), 1u);
}

/*
 * Payload of @bytes until its class is decided. For 1 KiB the reader takes @read ticks for a copy and @refer
 * for a reference, and the writer @copy_cost.
 */
void decide(PayloadChoice &choice, u32 bytes, u64 read, u64 refer, u32 copy_cost)
{
	const u32 of = PayloadChoice::class_of(bytes);

	for (u32 i = 0; i < 2 * Trial::transfers; ++i) {
		const bool by_reference = choice.refers(of);

		ASSERT_TRUE(choice.measures(bytes, 0));
		(void)choice.note(by_reference, bytes, 0,
				  bytes / kib * (by_reference ? refer : read), copy_cost);
	}
}

TEST(PayloadChoice, DecidesForEachClass)
{
	PayloadChoice choice;

	decide(choice, 8 << 10, 100, 300, 100);
	decide(choice, 16 << 10, 100, 200, 100);
	decide(choice, 64 << 10, 100, 149, 100);
	EXPECT_FALSE(choice.refers(0));
	EXPECT_FALSE(choice.refers(1));
	EXPECT_TRUE(choice.refers(2));
}

/* The mean of the sum, 300, and the longer one, 200, of either side. */
TEST(PayloadChoice, AddsTheWritersCostToACopy)
{
	PayloadChoice by_reader, by_writer, copied;

	decide(by_reader, 64 << 10, 200, 249, 100);
	decide(by_writer, 64 << 10, 100, 249, 200);
	decide(copied, 64 << 10, 100, 251, 200);
	EXPECT_TRUE(by_reader.refers(2));
	EXPECT_TRUE(by_writer.refers(2));
	EXPECT_FALSE(copied.refers(2));
}

TEST(PayloadChoice, ChoosesForItsLengthsOnly)
{
	EXPECT_FALSE(PayloadChoice::chooses(PayloadChoice::bytes_min - 1));
	EXPECT_TRUE(PayloadChoice::chooses(PayloadChoice::bytes_min));
	EXPECT_TRUE(PayloadChoice::chooses(PayloadChoice::bytes_max));
	EXPECT_FALSE(PayloadChoice::chooses(PayloadChoice::bytes_max + 1));
	EXPECT_EQ(PayloadChoice::class_of(PayloadChoice::bytes_min), 0u);
	EXPECT_EQ(PayloadChoice::class_of(PayloadChoice::bytes_max), PayloadChoice::classes - 1);
}

/* From and to all places in a line, in pieces of any length. */
TEST(RingCopy, CopiesAllByOrdinaryAndByNonTemporalStores)
{
	constexpr u32 len_max = RingCopy::bytes_min + 300;
	std::vector<uint8_t> from(len_max + 64), to(len_max + 128);
	u32 copies[2] = {};
	RingCopy copy;

	for (size_t i = 0; i < from.size(); ++i)
		from[i] = static_cast<uint8_t>(i * 7 + i / 251);
	for (u32 i = 0; i < 3 * Trial::transfers; ++i) {
		const u32 len = i % 8 ? RingCopy::bytes_min + i : i * 5, first = i * 37 % (len + 1);
		const snic_seg segs[] = {{.ptr = &from[i % 61], .len = first},
					 {.ptr = &from[i % 61 + first], .len = len - first}};
		snic_seg_iter payload{};
		uint8_t *const at = &to[i % 64];

		if (len >= RingCopy::bytes_min)
			++copies[copy.non_temporal()];
		payload.seg = first ? segs : segs + 1;
		std::fill(to.begin(), to.end(), 0xee);
		copy.copy(at, payload, len);
		ASSERT_EQ(memcmp(at, &from[i % 61], len), 0) << i;
		ASSERT_EQ(std::count(to.data(), at, 0xee), at - to.data()) << i;
		ASSERT_EQ(std::count(at + len, to.data() + to.size(), 0xee),
			  to.data() + to.size() - (at + len))
			<< i;
	}
	EXPECT_GE(copies[false], Trial::transfers);
	EXPECT_GE(copies[true], Trial::transfers);
	EXPECT_NE(copy.cost(), 0u);
}

TEST(RingCopy, ItsCostIsKnownAfterBothWays)
{
	std::vector<uint8_t> from(RingCopy::bytes_min), to(RingCopy::bytes_min);
	const snic_seg seg = {.ptr = from.data(), .len = RingCopy::bytes_min};
	RingCopy copy;

	for (u32 i = 0; i < 2 * Trial::transfers; ++i) {
		snic_seg_iter payload{};

		EXPECT_EQ(copy.cost(), 0u);
		payload.seg = &seg;
		copy.copy(to.data(), payload, RingCopy::bytes_min);
	}
	EXPECT_NE(copy.cost(), 0u);
}

} // namespace

} // namespace sirdma::twin::test
