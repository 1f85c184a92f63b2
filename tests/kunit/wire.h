/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames for the receive hook, whose sources are part of this header, and stand-ins for the rest of
 * the host and for the model. One source of a module includes it.
 */
#ifndef SIRDMA_KUNIT_WIRE_H
#define SIRDMA_KUNIT_WIRE_H

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
	u32 batches; /* in which it got them */
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

void snic_rx_batch_add(struct snic_rx_batch *batch, const struct snic_rx_pkt *pkt)
{
	u32 i;

	batch->pkts++;
	batch->copies += copies;
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
}

void snic_rx_batch_end(struct snic_rx_batch *batch)
{
	model.batches += batch->pkts != 0;
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

/*
 * Packet @i of the burst as an skb at its IP header; @paged: payload in page fragments of odd
 * lengths.
 */
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

static struct sk_buff *super_packet(struct kunit *test, struct snic_seg_iter *it, u32 first, u32 n)
{
	struct fixture *f = fixture(test);
	struct sk_buff *skb;

	local_bh_disable();
	skb = snic_gso_build(f->host, &f->burst, first, &n, it);
	local_bh_enable();
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->protocol = htons(f->flow.is_v4 ? ETH_P_IP : ETH_P_IPV6);
	skb->dev = f->host->ndev;
	skb->pkt_type = PACKET_HOST;
	return skb;
}

#endif
