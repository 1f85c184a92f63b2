// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames that the receive hook leaves to the bottom half. */
#include <linux/module.h>
#include "model/frame.c"
#include "model/icrc.c"
#include "port/kernel_crc32.c"
#include "wire.h"

/* Frames until the hook has taken what it may take at once. Returns their number. */
static u32 use_up(struct kunit *test)
{
	u32 n = 0;

	while (!scheduled && n < SNIC_RX_COST / SNIC_RX_MIN_COST) {
		KUNIT_ASSERT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
		n++;
	}
	KUNIT_ASSERT_EQ(test, model.packets, n);
	memset(&model, 0, sizeof(model));
	return n;
}

static void frames_beyond_the_limit_wait_for_the_bottom_half(struct kunit *test)
{
	u32 n = use_up(test), i;

	KUNIT_EXPECT_EQ(test, n,
			DIV_ROUND_UP(SNIC_RX_COST, snic_ip_len(&fixture(test)->flow,
							       &fixture(test)->burst.pkts[0])));
	for (i = 0; i < PACKETS; i++)
		KUNIT_EXPECT_EQ(test, receive(test, packet(test, i, i & 1)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 0);
	KUNIT_EXPECT_EQ(test, scheduled, 1);

	/* The time is over: one frame at a time, in their order. */
	KUNIT_EXPECT_TRUE(test, snic_rx_take_waiting(&cpu, 0));
	KUNIT_EXPECT_EQ(test, model.packets, 1);
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 1);
	kfree_skb(skb_dequeue_tail(&cpu.waiting));
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	expect_burst(test, PACKETS);

	memset(&model, 0, sizeof(model));
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 1);
}

/* Each packet is for a group of 32 queue pairs: far fewer frames are taken at once. */
static void packets_of_groups_cost_as_much_for_each_member(struct kunit *test)
{
	u32 n;

	copies = 31;
	n = use_up(test);
	copies = 0;
	KUNIT_EXPECT_GE(test, n, SNIC_RX_COST / (40 * SNIC_RX_MIN_COST));
	KUNIT_EXPECT_LE(test, n, SNIC_RX_COST / (32 * SNIC_RX_MIN_COST) + 1);
	KUNIT_EXPECT_EQ(test, scheduled, 1);
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 0);
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, 1);
}

/*
 * The bottom half ran on another CPU between the decision to wait and the frame's place in the
 * list.
 */
static void frame_that_waits_schedules_the_bottom_half(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_EQ(test, cpu.rx_cost, 0);
	snic_rx_wait(&cpu, fixture(test)->host, skb);
	KUNIT_EXPECT_EQ(test, scheduled, 1);
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, 1);
}

/* A super-packet of short packets costs as much as they would one by one. */
static void short_packets_of_a_super_packet_count_one_by_one(struct kunit *test)
{
	struct fixture *f = fixture(test);
	u32 i, frames, most = DIV_ROUND_UP(SNIC_RX_COST, PACKETS * SNIC_RX_MIN_COST);
	struct snic_seg_iter it;
	struct sk_buff *skb;

	for (i = 0; i < PACKETS; i++) {
		f->burst.pkts[i].payload_len = 4;
		f->burst.pkts[i].pad = 0;
		f->burst.pkts[i].bth.flags = 0;
	}
	for (frames = 0; frames < most + 3; frames++) {
		KUNIT_EXPECT_EQ(test, scheduled, frames >= most);
		snic_seg_iter_init(&it, &f->burst);
		skb = super_packet(test, &it, 0, PACKETS);
		skb_pull(skb, ETH_HLEN);
		KUNIT_ASSERT_EQ(test, receive(test, skb), NF_STOLEN);
	}
	KUNIT_EXPECT_EQ(test, model.packets, most * PACKETS);
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, frames * PACKETS);
	KUNIT_EXPECT_EQ(test, model.good, frames * PACKETS);
}

static void device_that_stops_forgets_the_frames_that_wait(struct kunit *test)
{
	struct snic_host *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	struct snic_host *host = fixture(test)->host;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, other);
	use_up(test);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
		if (i & 1)
			*snic_rx_owner(skb_peek_tail(&cpu.waiting)) = other;
	}
	snic_rx_forget(&cpu, host);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&cpu.waiting), 2);
	KUNIT_EXPECT_PTR_EQ(test, *snic_rx_owner(skb_peek(&cpu.waiting)), other);
	KUNIT_EXPECT_PTR_EQ(test, *snic_rx_owner(skb_peek_tail(&cpu.waiting)), other);
}

static void frames_too_many_to_wait_are_counted(struct kunit *test)
{
	u32 i;

	use_up(test);
	for (i = 0; i < SNIC_RX_WAITING + 3; i++)
		KUNIT_ASSERT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_OVERRUNS], 3);
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, SNIC_RX_WAITING);
}

static void address_may_go_while_a_frame_waits(struct kunit *test)
{
	use_up(test);
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	mine.b[15] = 9;
	KUNIT_EXPECT_FALSE(test, snic_rx_take_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, 0);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_GID], 1);
}

static struct kunit_case waiting_cases[] = {
	KUNIT_CASE(frames_beyond_the_limit_wait_for_the_bottom_half),
	KUNIT_CASE(packets_of_groups_cost_as_much_for_each_member),
	KUNIT_CASE(frame_that_waits_schedules_the_bottom_half),
	KUNIT_CASE(short_packets_of_a_super_packet_count_one_by_one),
	KUNIT_CASE(device_that_stops_forgets_the_frames_that_wait),
	KUNIT_CASE(frames_too_many_to_wait_are_counted),
	KUNIT_CASE(address_may_go_while_a_frame_waits),
	{},
};

static struct kunit_suite waiting_suite = {
	.name = "sirdma_waiting",
	.init = wire_init,
	.exit = wire_exit,
	.test_cases = waiting_cases,
};
kunit_test_suite(waiting_suite);

MODULE_DESCRIPTION("tests of the frames that wait for sirdma_nic's bottom half");
MODULE_LICENSE("GPL");
