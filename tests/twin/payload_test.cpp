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

/* @count transfers of 1 KiB of the way that the trial asks for. Returns how often it asks to settle. */
u32 go(Trial &trial, u32 count, u64 ticks)
{
	u32 n = 0;

	while (count--)
		n += trial.note(trial.second(), kib, ticks);
	return n;
}

TEST(Trial, MeasuresBothWaysAndThenGoesOne)
{
	Trial trial;

	EXPECT_FALSE(trial.second());
	EXPECT_EQ(go(trial, Trial::measured - 1, 10), 0u);
	EXPECT_FALSE(trial.second());
	EXPECT_EQ(go(trial, 1, 10), 0u);
	EXPECT_TRUE(trial.second());
	EXPECT_EQ(go(trial, Trial::measured - 1, 7), 0u);
	EXPECT_EQ(go(trial, 1, 7), 1u);
	EXPECT_EQ(trial.cost(false), 10u);
	EXPECT_EQ(trial.cost(true), 7u);
	trial.settle(false);
	EXPECT_EQ(go(trial, Trial::settled, 1), 0u);
	EXPECT_FALSE(trial.second());
}

TEST(Trial, MeasuresAgainWhatHasChanged)
{
	Trial trial;

	go(trial, Trial::measured, 10);
	go(trial, Trial::measured, 7);
	trial.settle(true);
	go(trial, Trial::settled, 7);
	/* The way it went comes first. */
	EXPECT_TRUE(trial.second());
	go(trial, Trial::measured, 20);
	EXPECT_FALSE(trial.second());
	EXPECT_EQ(go(trial, Trial::measured, 11), 1u);
	EXPECT_EQ(trial.cost(false), 11u);
	EXPECT_EQ(trial.cost(true), 20u);
}

TEST(Trial, OneInterruptionIsNotACost)
{
	Trial trial;

	go(trial, 1, 1000000);
	go(trial, Trial::measured - 1, 10);
	EXPECT_EQ(trial.cost(false), 10u);
}

TEST(Trial, WhatIsStillOnItsWayDoesNotCount)
{
	Trial trial;

	go(trial, Trial::measured, 10);
	for (u32 i = 0; i < 2 * Trial::measured; ++i)
		EXPECT_FALSE(trial.note(false, kib, 1));
	EXPECT_EQ(trial.cost(false), 10u);
	EXPECT_EQ(go(trial, Trial::measured, 7), 1u);
}

/* Payload of @bytes until its class is settled; for 1 KiB, a copy takes @copy ticks, and a reference @refer. */
void settle(PayloadChoice &choice, u32 bytes, u64 copy, u64 refer, u32 cost)
{
	const u32 of = PayloadChoice::class_of(bytes);

	for (u32 i = 0; i < 2 * Trial::measured; ++i) {
		const bool by_reference = choice.refers(of);

		(void)choice.note(by_reference, bytes, bytes / kib * (by_reference ? refer : copy),
				  cost);
	}
}

TEST(PayloadChoice, EachClassGoesItsBetterWay)
{
	PayloadChoice choice;

	settle(choice, 8 << 10, 100, 300, 100);
	settle(choice, 16 << 10, 100, 200, 100);
	settle(choice, 64 << 10, 100, 150, 100);
	EXPECT_FALSE(choice.refers(0));
	EXPECT_FALSE(choice.refers(1));
	EXPECT_TRUE(choice.refers(2));
}

/* The writer copies as well. */
TEST(PayloadChoice, TheWritersCostCounts)
{
	PayloadChoice dear, cheap;

	settle(dear, 64 << 10, 100, 200, 101);
	settle(cheap, 64 << 10, 100, 200, 99);
	EXPECT_TRUE(dear.refers(2));
	EXPECT_FALSE(cheap.refers(2));
}

TEST(PayloadChoice, NothingIsTriedBeforeTheWritersCostIsKnown)
{
	PayloadChoice choice;

	settle(choice, 64 << 10, 100, 10, 0);
	settle(choice, 64 << 10, 100, 10, 0);
	EXPECT_FALSE(choice.refers(2));
}

TEST(PayloadChoice, OtherLengthsAreNotItsMatter)
{
	PayloadChoice choice;

	for (u32 i = 0; i < 4 * Trial::measured; ++i) {
		EXPECT_FALSE(choice.note(false, PayloadChoice::bytes_min - 1, 100, 1));
		EXPECT_FALSE(choice.note(false, PayloadChoice::bytes_max + 1, 100, 1));
		EXPECT_FALSE(choice.note(false, 0, 100, 1));
	}
}

/* Long enough that both ways are gone, from and to all places in a line, in pieces of any length. */
TEST(RingCopy, EachWayCopiesAll)
{
	constexpr u32 len_max = RingCopy::bytes_min + 300;
	std::vector<uint8_t> from(len_max + 64), to(len_max + 128);
	RingCopy copy;

	for (size_t i = 0; i < from.size(); ++i)
		from[i] = static_cast<uint8_t>(i * 7 + i / 251);
	for (u32 i = 0; i < 6 * Trial::measured; ++i) {
		const u32 len = i % 8 ? RingCopy::bytes_min + i : i * 5, first = i * 37 % (len + 1);
		const snic_seg segs[] = {{.ptr = &from[i % 61], .len = first},
					 {.ptr = &from[i % 61 + first], .len = len - first}};
		snic_seg_iter payload{};
		uint8_t *const at = &to[i % 64];

		payload.seg = first ? segs : segs + 1;
		std::fill(to.begin(), to.end(), 0xee);
		copy.copy(at, payload, len);
		ASSERT_EQ(memcmp(at, &from[i % 61], len), 0) << i;
		ASSERT_EQ(std::count(to.data(), at, 0xee), at - to.data()) << i;
		ASSERT_EQ(std::count(at + len, to.data() + to.size(), 0xee),
			  to.data() + to.size() - (at + len))
			<< i;
	}
	EXPECT_NE(copy.cost(), 0u);
}

TEST(RingCopy, ItsCostIsKnownAfterBothWays)
{
	std::vector<uint8_t> from(RingCopy::bytes_min), to(RingCopy::bytes_min);
	const snic_seg seg = {.ptr = from.data(), .len = RingCopy::bytes_min};
	RingCopy copy;

	for (u32 i = 0; i < 2 * Trial::measured; ++i) {
		snic_seg_iter payload{};

		EXPECT_EQ(copy.cost(), 0u);
		payload.seg = &seg;
		copy.copy(to.data(), payload, RingCopy::bytes_min);
	}
	EXPECT_NE(copy.cost(), 0u);
}

} // namespace

} // namespace sirdma::twin::test
