// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames out as super-packets and in as whatever the stack makes of them. */
#include "wire.h"

static void expect_rejected(struct kunit *test, struct sk_buff *skb, enum sirdma_stat why)
{
	u32 before = model.rejects[why];

	KUNIT_EXPECT_NE(test, receive(test, skb), NF_ACCEPT);
	KUNIT_EXPECT_EQ(test, model.rejects[why], before + 1);
	KUNIT_EXPECT_EQ(test, model.packets, 0);
}

static void packet_reaches_the_model_whole(struct kunit *test)
{
	struct fixture *f = fixture(test);
	u32 i;

	for (i = 0; i < 4; i++) {
		memset(&model, 0, sizeof(model));
		describe(f, i & 1);
		f->burst.npkts = 1;
		KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, i & 2)), NF_STOLEN);
		expect_burst(test, 1);
	}
}

static void padding_of_the_link_is_cut_off(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	skb_put_zero(skb, 17);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	expect_burst(test, 1);
}

static void what_is_not_ours_is_left_to_the_stack(struct kunit *test)
{
	struct sk_buff *skb;

	mine.b[15] = 9;
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_ACCEPT);
	describe(fixture(test), true);

	skb = packet(test, 0, false);
	((struct udphdr *)(skb->data + SNIC_IPV4_HLEN))->dest = htons(4790);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);

	skb = packet(test, 0, false);
	ip_hdr(skb)->protocol = IPPROTO_TCP;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);

	skb = packet(test, 0, false);
	ip_hdr(skb)->frag_off = htons(100); /* a later fragment */
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);

	skb = packet(test, 0, false);
	skb->pkt_type = PACKET_OTHERHOST;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);

	skb = packet(test, 0, false);
	skb->protocol = htons(ETH_P_ARP);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	KUNIT_EXPECT_EQ(test, model.packets, 0);
}

static void mac_address_of_a_netdev_above_is_heard(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	skb->pkt_type = PACKET_OTHERHOST;
	ether_addr_copy(eth_hdr(skb)->h_dest, upper_mac);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	expect_burst(test, 1);
}

/* The stack gets it as well: others may be members. */
static void multicast_packet_is_copied(struct kunit *test)
{
	struct fixture *f = fixture(test);
	struct sk_buff *skb;
	u32 len, i;

	for (i = 0; i < 4; i++) {
		memset(&model, 0, sizeof(model));
		describe(f, i & 1);
		f->burst.npkts = 1;
		f->flow.dst_ip.b[i & 1 ? 12 : 0] = i & 1 ? 239 : 0xff;
		joined = f->flow.dst_ip;
		skb = skb_get(packet(test, 0, i & 2));
		skb->pkt_type = PACKET_MULTICAST;
		len = skb->len;
		KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
		KUNIT_EXPECT_EQ(test, skb->len, len);
		kfree_skb(skb);
		expect_burst(test, 1);
	}

	/* A group of nobody here, a VLAN in which the device has no address, a unicast address. */
	memset(&model, 0, sizeof(model));
	joined.b[15]++;
	skb = packet(test, 0, false);
	skb->pkt_type = PACKET_MULTICAST;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_NO_GROUP], 1);
	joined = f->flow.dst_ip;
	skb = packet(test, 0, false);
	skb->pkt_type = PACKET_MULTICAST;
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), 5);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	describe(f, true);
	skb = packet(test, 0, false);
	skb->pkt_type = PACKET_MULTICAST;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	KUNIT_EXPECT_EQ(test, model.packets, 0);
}

static void vlan_decides_whose_packet_it_is(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), 5);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	skb = packet(test, 0, false);
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), 3 << VLAN_PRIO_SHIFT); /* priority only */
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	expect_burst(test, 1);
	KUNIT_EXPECT_EQ(test, model.vlan_id, 0);

	my_vlan = 5;
	skb = packet(test, 0, false);
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), 5 | 3 << VLAN_PRIO_SHIFT);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 2);
	KUNIT_EXPECT_EQ(test, model.vlan_id, 5);
}

static void malformed_ones_are_counted_and_dropped(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	ip_hdr(skb)->frag_off = htons(IP_MF);
	expect_rejected(test, skb, SIRDMA_STAT_RX_FRAGMENTS);
	skb = packet(test, 0, false);
	ip_hdr(skb)->check ^= 1;
	expect_rejected(test, skb, SIRDMA_STAT_RX_BAD_HEADER);
	skb = packet(test, 0, false);
	((struct udphdr *)(skb->data + SNIC_IPV4_HLEN))->len = htons(99);
	expect_rejected(test, skb, SIRDMA_STAT_RX_BAD_LENGTH);
	skb = packet(test, 0, true);
	pskb_trim(skb, skb->len - 1);
	expect_rejected(test, skb, SIRDMA_STAT_RX_BAD_LENGTH);
}

/*
 * As a netdev with rx-gro-list hands packets up: the first with the others in its list,
 * which begin behind their UDP headers.
 */
static struct sk_buff *fraglist_packet(struct kunit *test)
{
	struct fixture *f = fixture(test);
	u32 hlen = snic_gso_hlen(&f->flow), i;
	struct sk_buff *first = packet(test, 0, false), *skb,
		       **tail = &skb_shinfo(first)->frag_list;

	skb_set_transport_header(first, hlen - SNIC_UDP_HLEN);
	first->mac_len = ETH_HLEN;
	skb_shinfo(first)->gso_size = first->len - hlen;
	skb_shinfo(first)->gso_segs = PACKETS;
	skb_shinfo(first)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	for (i = 1; i < PACKETS; i++) {
		skb = packet(test, i, false);
		skb_set_transport_header(skb, hlen - SNIC_UDP_HLEN);
		skb_pull(skb, hlen);
		*tail = skb;
		tail = &skb->next;
		first->len += skb->len;
		first->data_len += skb->len;
		first->truesize += skb->truesize;
	}
	if (f->flow.is_v4) {
		ip_hdr(first)->tot_len = htons(first->len);
		ip_hdr(first)->check = 0;
		ip_hdr(first)->check = ip_fast_csum(ip_hdr(first), ip_hdr(first)->ihl);
	} else {
		ipv6_hdr(first)->payload_len = htons(first->len - SNIC_IPV6_HLEN);
	}
	udp_hdr(first)->len = htons(first->len - hlen + SNIC_UDP_HLEN);
	first->ip_summed = CHECKSUM_UNNECESSARY;
	return first;
}

/* A tag as netdevs leave it in the frame that do not take it out themselves. */
static void tag_in_band(struct sk_buff *skb, u16 tci)
{
	struct vlan_ethhdr *eth;

	skb->mac_header -= VLAN_HLEN;
	eth = (struct vlan_ethhdr *)skb_mac_header(skb);
	memmove(eth, (u8 *)eth + VLAN_HLEN, 2 * ETH_ALEN);
	eth->h_vlan_proto = htons(ETH_P_8021Q);
	eth->h_vlan_TCI = htons(tci);
	eth->h_vlan_encapsulated_proto = skb->protocol;
	skb->protocol = htons(ETH_P_8021Q);
}

/* The kernel takes the tag out of the first packet only. */
static void list_of_tagged_packets_is_received_whole(struct kunit *test)
{
	struct sk_buff *skb, *it;
	u32 v4;

	for (v4 = 0; v4 < 2; v4++) {
		memset(&model, 0, sizeof(model));
		describe(fixture(test), v4);
		my_vlan = 5;
		skb = fraglist_packet(test);
		skb_walk_frags(skb, it)
			tag_in_band(it, 5 | 3 << VLAN_PRIO_SHIFT);
		tag_in_band(skb, 5 | 3 << VLAN_PRIO_SHIFT);
		skb_push(skb, VLAN_HLEN);
		skb = skb_vlan_untag(skb);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_ASSERT_NE(test, (__force u16)skb->protocol, htons(ETH_P_8021Q));
		KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
		expect_burst(test, PACKETS);
		KUNIT_EXPECT_EQ(test, model.vlan_id, 5);
		KUNIT_EXPECT_NULL(test, memchr_inv(model.rejects, 0, sizeof(model.rejects)));
	}
}

static void packet_of_a_list_that_is_not_ours_is_counted(struct kunit *test)
{
	struct sk_buff *skb = fraglist_packet(test);

	udp_hdr(skb_shinfo(skb)->frag_list)->dest = htons(4790);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, PACKETS - 1);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_GID], 1);
}

static void what_there_is_no_memory_for_is_counted(struct kunit *test)
{
	struct sk_buff *skb;
	u32 n;

	/* To have the skb alone, to cut off padding, to have the headers side by side. */
	for (n = 1; n <= 3; n++) {
		fails = n;
		KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, true)), NF_STOLEN);
		KUNIT_EXPECT_EQ(test, fails, 0);
		KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_OVERRUNS], n);
	}
	KUNIT_EXPECT_EQ(test, model.packets, 0);

	/* The others of a list are received. */
	fails = 3;
	KUNIT_EXPECT_EQ(test, receive(test, fraglist_packet(test)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_OVERRUNS], n);
	KUNIT_EXPECT_EQ(test, model.packets, PACKETS - 1);
	KUNIT_EXPECT_EQ(test, model.good, PACKETS - 1);

	/* The stack has its own copy of a multicast packet. */
	fixture(test)->flow.dst_ip.b[12] = 239;
	joined = fixture(test)->flow.dst_ip;
	skb = packet(test, 0, false);
	skb->pkt_type = PACKET_MULTICAST;
	fails = 1;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_ACCEPT);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_OVERRUNS], n + 1);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_LENGTH], 0);
}

static void spoilt_payload_is_told_to_the_model(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, true);

	((u8 *)skb_frag_address(&skb_shinfo(skb)->frags[1]))[3] ^= 0x10;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 1);
	KUNIT_EXPECT_EQ(test, model.good, 0);
}

static void run_ends_where_packets_stop_being_equal(struct kunit *test)
{
	struct fixture *f = fixture(test);

	/* Only the last may be shorter. */
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), PACKETS);
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 2), PACKETS - 2);
	f->burst.pkts[2].payload_len = PAYLOAD - 4;
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), 3);
	f->burst.pkts[2].payload_len = PAYLOAD + 4;
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), 2);
	describe(f, true);
	WRITE_ONCE(f->host->ndev->gso_max_segs, 4);
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), 4);
	WRITE_ONCE(f->host->ndev->gso_max_segs, GSO_MAX_SEGS);
	f->host->ndev->features &= ~NETIF_F_GSO_UDP_L4;
	KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), 1);
}

/* Does the netdev segment a frame that is made of the first @n packets? */
static bool netdev_segments(struct kunit *test, u32 n)
{
	struct snic_seg_iter it;
	struct sk_buff *skb;
	bool segments;

	snic_seg_iter_init(&it, &fixture(test)->burst);
	skb = super_packet(test, &it, 0, n);
	segments = netif_skb_features(skb) & NETIF_F_GSO_UDP_L4;
	kfree_skb(skb);
	return segments;
}

static void frame_is_as_long_as_the_netdev_segments(struct kunit *test)
{
	static const struct net_device_ops ops = {};
	struct fixture *f = fixture(test);
	unsigned int *max;
	u32 v4, n, len;

	f->host->ndev->netdev_ops = &ops;
	for (v4 = 0; v4 < 2; v4++) {
		describe(f, v4);
		max = compat_gso_max_size(f->host->ndev, v4);
		n = PACKETS - 2;
		len = ETH_HLEN + snic_gso_hlen(&f->flow) + n * snic_gso_pkt_len(&f->burst.pkts[0]);
		WRITE_ONCE(*max, len + 1);
		KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), n);
		KUNIT_EXPECT_TRUE(test, netdev_segments(test, n));
		WRITE_ONCE(*max, len);
		KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), n - 1);
		KUNIT_EXPECT_FALSE(test, netdev_segments(test, n));
		/* Not even one packet fits. */
		WRITE_ONCE(*max, 0);
		KUNIT_EXPECT_EQ(test, snic_gso_count(f->host, &f->burst, 0), 1);
		WRITE_ONCE(*max, GSO_LEGACY_MAX_SIZE);
	}
}

/* What segmentation by the stack makes of a super-packet has the ICRCs it needs. */
static void segmented_super_packet_is_the_burst(struct kunit *test)
{
	struct fixture *f = fixture(test);
	struct sk_buff *skb, *segs, *seg, *next;
	struct snic_seg_iter it;
	u32 v4, n;

	for (v4 = 0; v4 < 2; v4++) {
		memset(&model, 0, sizeof(model));
		describe(f, v4);
		snic_seg_iter_init(&it, &f->burst);
		skb = super_packet(test, &it, 0, PACKETS);
		segs = skb_gso_segment(skb, 0);
		consume_skb(skb);
		KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(segs));
		n = 0;
		skb_list_walk_safe(segs, seg, next) {
			skb_mark_not_on_list(seg);
			skb_pull(seg, ETH_HLEN);
			skb_reset_network_header(seg);
			KUNIT_EXPECT_EQ(test, receive(test, seg), NF_STOLEN);
			n++;
		}
		KUNIT_EXPECT_EQ(test, n, PACKETS);
		expect_burst(test, PACKETS);
	}
}

/* As it arrives over a virtual link: nobody has cut it. */
static void super_packet_is_received_as_it_is(struct kunit *test)
{
	struct fixture *f = fixture(test);
	struct snic_seg_iter it;
	struct sk_buff *skb;
	u32 v4;

	for (v4 = 0; v4 < 2; v4++) {
		memset(&model, 0, sizeof(model));
		describe(f, v4);
		snic_seg_iter_init(&it, &f->burst);
		skb = super_packet(test, &it, 0, PACKETS);
		skb_pull(skb, ETH_HLEN);
		KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
		expect_burst(test, PACKETS);
		KUNIT_EXPECT_EQ(test, model.batches, 1);
	}
}

/* A frame of @n copies of packet 0, as GRO makes them of packets with one IPv4 identification. */
static struct sk_buff *copies_of_packet(struct kunit *test, u32 n)
{
	struct fixture *f = fixture(test);
	u32 len = snic_gso_pkt_len(&f->burst.pkts[0]), hlen = snic_gso_hlen(&f->flow), i;
	struct sk_buff *one = packet(test, 0, false);
	struct sk_buff *skb = alloc_skb(NET_SKB_PAD + ETH_HLEN + hlen + n * len, GFP_KERNEL);
	struct udphdr *udp;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_reserve(skb, NET_SKB_PAD + ETH_HLEN);
	skb_set_mac_header(skb, -ETH_HLEN);
	memset(skb_mac_header(skb), 0, ETH_HLEN);
	skb_reset_network_header(skb);
	skb_put_data(skb, one->data, hlen);
	for (i = 0; i < n; i++)
		skb_put_data(skb, one->data + hlen, len);
	kfree_skb(one);
	ip_hdr(skb)->tot_len = htons(skb->len);
	ip_send_check(ip_hdr(skb));
	udp = (struct udphdr *)(skb->data + SNIC_IPV4_HLEN);
	udp->len = htons(skb->len - SNIC_IPV4_HLEN);
	skb_shinfo(skb)->gso_size = len;
	skb_shinfo(skb)->gso_segs = n;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb->protocol = htons(ETH_P_IP);
	skb->dev = f->host->ndev;
	skb->pkt_type = PACKET_HOST;
	return skb;
}

static void packets_of_a_frame_are_batches_of_64(struct kunit *test)
{
	struct fixture *f = fixture(test);
	u32 hlen = snic_gso_hlen(&f->flow), len, i;
	struct sk_buff *skb;

	f->burst.pkts[0].payload_len = 64;
	len = snic_gso_pkt_len(&f->burst.pkts[0]);
	KUNIT_EXPECT_EQ(test, receive(test, copies_of_packet(test, 130)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 130);
	KUNIT_EXPECT_EQ(test, model.good, 130);
	KUNIT_EXPECT_EQ(test, model.batches, 3);
	KUNIT_EXPECT_FALSE(test, model.more);

	/* A damaged packet does not affect the others of its frame. */
	memset(&model, 0, sizeof(model));
	skb = copies_of_packet(test, 70);
	for (i = 3; i < 70; i += 64)
		skb->data[hlen + i * len + sizeof(struct sirdma_bth)] ^= 1;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 70);
	KUNIT_EXPECT_EQ(test, model.good, 68);

	/* The last is too short to be a packet. */
	memset(&model, 0, sizeof(model));
	skb = copies_of_packet(test, 70);
	skb_shinfo(skb)->gso_size = len + 1;
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_LENGTH], 1);
}

static void list_of_packets_is_received_one_by_one(struct kunit *test)
{
	u32 v4;

	for (v4 = 0; v4 < 2; v4++) {
		memset(&model, 0, sizeof(model));
		describe(fixture(test), v4);
		KUNIT_EXPECT_EQ(test, receive(test, fraglist_packet(test)), NF_STOLEN);
		KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_LENGTH], 0);
		expect_burst(test, PACKETS);
	}
}

static void what_would_be_cut_into_fragments_is_refused(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	skb_shinfo(skb)->gso_size = 512;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP;
	expect_rejected(test, skb, SIRDMA_STAT_RX_FRAGMENTS);
}

static void packets_for_no_queue_pair_are_not_summed(struct kunit *test)
{
	struct fixture *f = fixture(test);
	struct snic_seg_iter it;
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < PACKETS; i += 2)
		f->burst.pkts[i].bth.qpn = cpu_to_be32(QPN + 1);
	snic_seg_iter_init(&it, &f->burst);
	skb = super_packet(test, &it, 0, PACKETS);
	skb_pull(skb, ETH_HLEN);
	KUNIT_EXPECT_EQ(test, receive(test, skb), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.strangers, PACKETS / 2);
	KUNIT_EXPECT_EQ(test, model.packets, PACKETS / 2);
	KUNIT_EXPECT_EQ(test, model.good, PACKETS / 2);
}

static struct kunit_case wire_cases[] = {
	KUNIT_CASE(packet_reaches_the_model_whole),
	KUNIT_CASE(padding_of_the_link_is_cut_off),
	KUNIT_CASE(what_is_not_ours_is_left_to_the_stack),
	KUNIT_CASE(mac_address_of_a_netdev_above_is_heard),
	KUNIT_CASE(multicast_packet_is_copied),
	KUNIT_CASE(vlan_decides_whose_packet_it_is),
	KUNIT_CASE(malformed_ones_are_counted_and_dropped),
	KUNIT_CASE(what_there_is_no_memory_for_is_counted),
	KUNIT_CASE(spoilt_payload_is_told_to_the_model),
	KUNIT_CASE(run_ends_where_packets_stop_being_equal),
	KUNIT_CASE(frame_is_as_long_as_the_netdev_segments),
	KUNIT_CASE(segmented_super_packet_is_the_burst),
	KUNIT_CASE(super_packet_is_received_as_it_is),
	KUNIT_CASE(packets_of_a_frame_are_batches_of_64),
	KUNIT_CASE(packets_for_no_queue_pair_are_not_summed),
	KUNIT_CASE(list_of_packets_is_received_one_by_one),
	KUNIT_CASE(list_of_tagged_packets_is_received_whole),
	KUNIT_CASE(packet_of_a_list_that_is_not_ours_is_counted),
	KUNIT_CASE(what_would_be_cut_into_fragments_is_refused),
	{},
};

static struct kunit_suite wire_suite = {
	.name = "sirdma_wire",
	.init = wire_init,
	.exit = wire_exit,
	.test_cases = wire_cases,
};
kunit_test_suite(wire_suite);
