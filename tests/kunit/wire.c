// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames out as super-packets and in as whatever the stack makes of them. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <net/gso.h>
#include "model/frame.h"

/* Tracepoints belong to the module that is tested. */
#define SNIC_HOST_TRACE_H
#define trace_snic_rx(ndev, pkt) ((void)(ndev), (void)(pkt))
#define trace_snic_rx_reject(ndev, why) ((void)(ndev), (void)(why))

/* The allocations of a receiver: the one of this number fails; 0: none does. */
static u32 fails;

static bool memory(void)
{
	return !fails || --fails;
}

static struct sk_buff *share_check(struct sk_buff *skb)
{
	if (memory())
		return skb;
	kfree_skb(skb);
	return NULL;
}

#define skb_share_check(skb, gfp) share_check(skb)
#define skb_clone(skb, gfp) (memory() ? skb_clone(skb, gfp) : NULL)
#define pskb_trim(skb, len) (memory() ? pskb_trim(skb, len) : -ENOMEM)
#define pskb_may_pull(skb, len) (memory() && pskb_may_pull(skb, len))

static u32 scheduled; /* how often a bottom half was scheduled */

#define napi_schedule(napi) ((void)(napi), scheduled++)

#include "host/gso.c"
#include "host/rx.c"

#define PACKETS 6
#define PAYLOAD 1024
#define LAST_PAYLOAD 101
#define QPN 17

/* Stand-ins for the rest of the host, and for the model, which remembers what it was given. */
static struct {
	u32 packets;
	u32 good; /* with an intact ICRC */
	u32 strangers; /* for a queue pair it has not */
	u32 bytes;
	u8 data[PACKETS * (SNIC_MAX_HDR + PAYLOAD + 8)]; /* BTH to ICRC of each */
	u32 rejects[SIRDMA_STAT_COUNT];
	u16 vlan_id; /* of the last one */
	bool more;
} model;

static u32 copies; /* what the model returns of each packet */
static struct snic_rx_scratch scratch;
static struct snic_cpu cpu = {.rx = &scratch};
static struct sirdma_ip mine;
static u16 my_vlan;
static struct sirdma_ip joined; /* the multicast group of the device */
static const u8 upper_mac[ETH_ALEN] = {2, 0, 0,
				       0, 0, 7}; /* of the netdev above that has the address */

u32 snic_rx(struct snic_dev *dev, const struct snic_rx_pkt *pkt)
{
	u32 i;

	model.packets++;
	model.good += pkt->icrc_ok;
	model.more = pkt->more;
	model.vlan_id = pkt->vlan_id;
	for (i = 0; i < pkt->nsegs; i++) {
		if (model.bytes + pkt->segs[i].len > sizeof(model.data))
			break;
		memcpy(model.data + model.bytes, pkt->segs[i].ptr, pkt->segs[i].len);
		model.bytes += pkt->segs[i].len;
	}
	return copies;
}

bool snic_rx_has_qp(struct snic_dev *dev, const struct snic_rx_pkt *pkt)
{
	const struct sirdma_bth *bth = pkt->segs[0].ptr;

	if (be32_to_cpu(bth->qpn) == QPN)
		return true;
	model.strangers++;
	return false;
}

void snic_rx_reject(struct snic_dev *dev, enum sirdma_stat why)
{
	model.rejects[why]++;
}

struct snic_cpu *snic_cpu_this(void)
{
	return &cpu;
}

struct snic_cpu *snic_cpu_of(int i)
{
	return &cpu;
}

void snic_enter(void) {}

void snic_leave(void) {}

bool snic_addr_is_mine(const struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
		       u16 vlan_id, const u8 *mac)
{
	return !memcmp(ip, &mine, sizeof(mine)) && vlan_id == my_vlan &&
	       (!mac || ether_addr_equal_unaligned(mac, upper_mac));
}

bool snic_mcast_has(struct snic_dev *dev, const struct sirdma_ip *ip)
{
	return !memcmp(ip, &joined, sizeof(joined));
}

struct fixture {
	struct snic_host *host;
	struct snic_flow flow;
	struct snic_burst burst;
	u8 payload[PACKETS * PAYLOAD];
	u8 flat[PACKETS * (SNIC_MAX_HDR + PAYLOAD + 8)]; /* BTH to payload's pad, packet by packet */
};

static struct fixture *fixture(struct kunit *test)
{
	return test->priv;
}

/* A burst of equal packets, the last one shorter, between two addresses of one kind. */
static void describe(struct fixture *f, bool is_v4)
{
	static const u8 v4[16] = {[10] = 0xff, [11] = 0xff, 10, 77, 1, 0};
	static const u8 v6[16] = {0xfd, 0x77};
	u32 i;

	memset(&f->flow, 0, sizeof(f->flow));
	memcpy(&f->flow.src_ip, is_v4 ? v4 : v6, 16);
	memcpy(&f->flow.dst_ip, is_v4 ? v4 : v6, 16);
	f->flow.src_ip.b[15] = 1;
	f->flow.dst_ip.b[15] = 2;
	mine = f->flow.dst_ip;
	my_vlan = 0;
	f->flow.is_v4 = is_v4;
	f->flow.hop_limit = 64;
	f->flow.traffic_class = 0x2a;
	f->flow.flow_label = is_v4 ? 0 : 0x12345;
	f->flow.udp_sport = 0xc123;
	f->burst.flow = &f->flow;
	f->burst.npkts = PACKETS;
	for (i = 0; i < PACKETS; i++) {
		struct snic_tx_pkt *pkt = &f->burst.pkts[i];
		struct sirdma_bth *bth = (struct sirdma_bth *)pkt->hdr;

		memset(pkt, 0, sizeof(*pkt));
		pkt->hdr_len = sizeof(*bth);
		pkt->payload_len = i == PACKETS - 1 ? LAST_PAYLOAD : PAYLOAD;
		pkt->pad = -pkt->payload_len & 3;
		bth->opcode = SIRDMA_BTH_SEND_MIDDLE;
		bth->flags = pkt->pad << SIRDMA_BTH_PAD_SHIFT;
		bth->pkey = cpu_to_be16(0xffff);
		bth->qpn = cpu_to_be32(QPN);
		bth->apsn = cpu_to_be32(i);
	}
	/* Payload in pieces that end nowhere near where packets do. */
	f->burst.nsegs = 3;
	f->burst.segs[0] = (struct snic_seg){f->payload, 700};
	f->burst.segs[1] = (struct snic_seg){f->payload + 700, 1};
	f->burst.segs[2] = (struct snic_seg){f->payload + 701, sizeof(f->payload) - 701};
}

static int wire_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->host = kunit_kzalloc(test, sizeof(*f->host), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->host);
	f->host->ndev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, f->host->ndev);
	fails = 0;
	scheduled = 0;
	cpu.rx_cost = 0;
	skb_queue_head_init(&cpu.waiting);
	f->host->ndev->features = NETIF_F_GSO_UDP_L4 | NETIF_F_SG | NETIF_F_HW_CSUM;
	for (i = 0; i < sizeof(f->payload); i++)
		f->payload[i] = i * 31 + 7;
	memset(&model, 0, sizeof(model));
	describe(f, true);
	return 0;
}

static void wire_exit(struct kunit *test)
{
	struct fixture *f = test->priv;
	if (f && f->host && f->host->ndev)
		free_netdev(f->host->ndev);
	if (cpu.frag.page)
		put_page(cpu.frag.page);
	memset(&cpu.frag, 0, sizeof(cpu.frag));
	skb_queue_purge(&cpu.waiting);
}

/* As snic_frame_ip() has them: the transport parts of packets @first on, ICRCs left out. */
static u32 flatten(struct fixture *f, u32 first, u32 n)
{
	struct snic_seg_iter it;
	u8 *out = f->flat;
	u32 i;

	snic_seg_iter_init(&it, &f->burst);
	for (i = 0; i < first + n; i++) {
		const struct snic_tx_pkt *pkt = &f->burst.pkts[i];

		if (i < first)
			out = f->flat;
		memcpy(out, pkt->hdr, pkt->hdr_len);
		out += pkt->hdr_len;
		snic_seg_copy(&it, out, pkt->payload_len);
		out += pkt->payload_len;
		memset(out, 0, pkt->pad);
		out += pkt->pad;
	}
	return out - f->flat;
}

/* What the model was given, without the ICRCs, is what the burst held. */
static void expect_burst(struct kunit *test, u32 npkts)
{
	struct fixture *f = fixture(test);
	u32 i, off = 0, at = 0, len;

	flatten(f, 0, npkts);
	KUNIT_EXPECT_EQ(test, model.packets, npkts);
	KUNIT_EXPECT_EQ(test, model.good, npkts);
	for (i = 0; i < npkts; i++) {
		len = snic_gso_pkt_len(&f->burst.pkts[i]) - SIRDMA_ICRC_LEN;
		KUNIT_ASSERT_LE(test, off + len + SIRDMA_ICRC_LEN, model.bytes);
		KUNIT_EXPECT_MEMEQ(test, model.data + off, f->flat + at, len);
		off += len + SIRDMA_ICRC_LEN;
		at += len;
	}
	KUNIT_EXPECT_EQ(test, off, model.bytes);
	KUNIT_EXPECT_FALSE(test, model.more);
}

/* Packet @i of the burst as an skb at its IP header; @paged: payload in page fragments of odd lengths. */
static struct sk_buff *packet(struct kunit *test, u32 i, bool paged)
{
	struct fixture *f = fixture(test);
	u32 len = snic_ip_len(&f->flow, &f->burst.pkts[i]), n, off, linear;
	struct snic_seg_iter it;
	struct sk_buff *skb;
	struct page *page;
	u8 *bytes;

	/* The packets before it may be longer. */
	bytes = kunit_kzalloc(test, max(len, snic_ip_len(&f->flow, &f->burst.pkts[0])), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bytes);
	snic_seg_iter_init(&it, &f->burst);
	for (n = 0; n <= i; n++)
		snic_frame_ip(&f->flow, &f->burst.pkts[n], &it, bytes);
	linear = paged ? 70 : len;
	skb = alloc_skb(NET_SKB_PAD + ETH_HLEN + len + 64, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_reserve(skb, NET_SKB_PAD + ETH_HLEN);
	skb_set_mac_header(skb, -ETH_HLEN);
	memset(skb_mac_header(skb), 0, ETH_HLEN);
	skb_reset_network_header(skb);
	skb_put_data(skb, bytes, linear);
	for (off = linear, n = 0; off < len; off += n) {
		n = min(len - off, 333u);
		page = alloc_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, page);
		memcpy(page_address(page) + 5, bytes + off, n);
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, 5, n, PAGE_SIZE);
	}
	skb->protocol = htons(f->flow.is_v4 ? ETH_P_IP : ETH_P_IPV6);
	skb->pkt_type = PACKET_HOST;
	skb->dev = f->host->ndev;
	return skb;
}

/* The hook's verdict; @skb is gone. */
static unsigned int receive(struct kunit *test, struct sk_buff *skb)
{
	unsigned int verdict;

	local_bh_disable();
	verdict = snic_rx_hook(fixture(test)->host, skb, NULL);
	local_bh_enable();
	if (verdict != NF_STOLEN)
		kfree_skb(skb);
	return verdict;
}

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
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 0), PACKETS);
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 2), PACKETS - 2);
	f->burst.pkts[2].payload_len = PAYLOAD - 4;
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 0), 3);
	f->burst.pkts[2].payload_len = PAYLOAD + 4;
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 0), 2);
	describe(f, true);
	WRITE_ONCE(f->host->ndev->gso_max_segs, 4);
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 0), 4);
	WRITE_ONCE(f->host->ndev->gso_max_segs, GSO_MAX_SEGS);
	f->host->ndev->features &= ~NETIF_F_GSO_UDP_L4;
	KUNIT_EXPECT_EQ(test, snic_gso_run(f->host, &f->burst, 0), 1);
}

static struct sk_buff *super_packet(struct kunit *test, struct snic_seg_iter *it, u32 first, u32 n)
{
	struct fixture *f = fixture(test);
	struct sk_buff *skb;

	local_bh_disable();
	skb = snic_gso_build(f->host, &f->burst, first, n, it);
	local_bh_enable();
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->protocol = htons(f->flow.is_v4 ? ETH_P_IP : ETH_P_IPV6);
	skb->dev = f->host->ndev;
	skb->pkt_type = PACKET_HOST;
	return skb;
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
	}
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
	KUNIT_EXPECT_TRUE(test, snic_rx_waiting(&cpu, 0));
	KUNIT_EXPECT_EQ(test, model.packets, 1);
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	KUNIT_EXPECT_EQ(test, model.packets, 1);
	kfree_skb(skb_dequeue_tail(&cpu.waiting));
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
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
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, 1);
}

/* The bottom half ran on another CPU between the decision to wait and the frame's place in the list. */
static void frame_that_waits_schedules_the_bottom_half(struct kunit *test)
{
	struct sk_buff *skb = packet(test, 0, false);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_EQ(test, cpu.rx_cost, 0);
	snic_rx_wait(&cpu, fixture(test)->host, skb);
	KUNIT_EXPECT_EQ(test, scheduled, 1);
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
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
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
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
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, SNIC_RX_WAITING);
}

static void address_may_go_while_a_frame_waits(struct kunit *test)
{
	use_up(test);
	KUNIT_EXPECT_EQ(test, receive(test, packet(test, 0, false)), NF_STOLEN);
	mine.b[15] = 9;
	KUNIT_EXPECT_FALSE(test, snic_rx_waiting(&cpu, U64_MAX));
	KUNIT_EXPECT_EQ(test, model.packets, 0);
	KUNIT_EXPECT_EQ(test, model.rejects[SIRDMA_STAT_RX_BAD_GID], 1);
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
	KUNIT_CASE(segmented_super_packet_is_the_burst),
	KUNIT_CASE(super_packet_is_received_as_it_is),
	KUNIT_CASE(packets_for_no_queue_pair_are_not_summed),
	KUNIT_CASE(list_of_packets_is_received_one_by_one),
	KUNIT_CASE(what_would_be_cut_into_fragments_is_refused),
	KUNIT_CASE(frames_beyond_the_limit_wait_for_the_bottom_half),
	KUNIT_CASE(packets_of_groups_cost_as_much_for_each_member),
	KUNIT_CASE(frame_that_waits_schedules_the_bottom_half),
	KUNIT_CASE(short_packets_of_a_super_packet_count_one_by_one),
	KUNIT_CASE(device_that_stops_forgets_the_frames_that_wait),
	KUNIT_CASE(frames_too_many_to_wait_are_counted),
	KUNIT_CASE(address_may_go_while_a_frame_waits),
	{},
};

static struct kunit_suite wire_suite = {
	.name = "sirdma_wire",
	.init = wire_init,
	.exit = wire_exit,
	.test_cases = wire_cases,
};
kunit_test_suite(wire_suite);
