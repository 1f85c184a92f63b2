// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "gso.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/sock.h>
#include <net/udp.h>
#include "compat/netdevice.h"
#include "cpu.h"
#include "dev.h"
#include "model/frame.h"

#define SNIC_BTH_LEN ((u32)sizeof(struct sirdma_bth))
/* The longest datagram that a UDP length field can describe. */
#define SNIC_GSO_MAX_BYTES (U16_MAX - SNIC_IPV6_HLEN - SNIC_UDP_HLEN)

/* Room for IP and UDP headers and for the BTH: the ICRC starts with them. */
struct snic_gso_hdr {
	union {
		struct {
			struct iphdr ip;
			struct udphdr udp;
			u8 bth[SNIC_BTH_LEN];
		} v4;
		struct {
			struct ipv6hdr ip;
			struct udphdr udp;
			u8 bth[SNIC_BTH_LEN];
		} v6;
	};
};

static u32 snic_gso_pkt_len(const struct snic_tx_pkt *pkt)
{
	return pkt->hdr_len + pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN;
}

static u32 snic_gso_hlen(const struct snic_flow *flow)
{
	return (flow->is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN) + SNIC_UDP_HLEN;
}

/*
 * Software segmentation would touch every byte again, so the netdev must segment. An administrator
 * switches segmentation by "ethtool -K DEV tx-udp-segmentation".
 */
static bool snic_gso_usable(const struct net_device *ndev)
{
	return (ndev->features & NETIF_F_GSO_UDP_L4) && (ndev->features & NETIF_F_SG) &&
	       (ndev->features & (NETIF_F_HW_CSUM | NETIF_F_IP_CSUM));
}

u32 snic_gso_count(const struct snic_host *host, const struct snic_burst *burst, u32 first)
{
	struct net_device *ndev = host->ndev;
	u32 size = snic_gso_pkt_len(&burst->pkts[first]);
	u32 hlen = ETH_HLEN + snic_gso_hlen(burst->flow);
	/* The length of the frame must be below this, or the kernel segments it in software. */
	u32 end = min_t(u32, READ_ONCE(*compat_gso_max_size(ndev, burst->flow->is_v4)),
			hlen + SNIC_GSO_MAX_BYTES + 1);
	u32 total = hlen + size, i, len;

	if (first + 1 == burst->npkts || !snic_gso_usable(ndev))
		return 1;
	for (i = first + 1; i < burst->npkts && i - first < READ_ONCE(ndev->gso_max_segs); i++) {
		len = snic_gso_pkt_len(&burst->pkts[i]);
		if (len > size || total + len >= end)
			break;
		total += len;
		/* Only the last packet may be shorter. */
		if (len < size) {
			i++;
			break;
		}
	}
	return i - first;
}

static void snic_gso_put_udp(struct udphdr *udp, const struct snic_flow *flow)
{
	udp->source = htons(flow->udp_sport);
	udp->dest = htons(SIRDMA_ROCE_UDP_PORT);
	udp->check = 0;
}

static void snic_gso_put_headers(struct snic_gso_hdr *hdr, const struct snic_flow *flow)
{
	memset(hdr, 0, sizeof(*hdr));
	if (flow->is_v4) {
		struct iphdr *ip = &hdr->v4.ip;

		ip->version = 4;
		ip->ihl = SNIC_IPV4_HLEN / 4;
		ip->tos = flow->traffic_class;
		ip->frag_off = htons(IP_DF);
		ip->ttl = flow->hop_limit;
		ip->protocol = IPPROTO_UDP;
		memcpy(&ip->saddr, flow->src_ip.b + 12, sizeof(ip->saddr));
		memcpy(&ip->daddr, flow->dst_ip.b + 12, sizeof(ip->daddr));
		snic_gso_put_udp(&hdr->v4.udp, flow);
	} else {
		struct ipv6hdr *ip = &hdr->v6.ip;

		ip6_flow_hdr(ip, flow->traffic_class, htonl(flow->flow_label & 0xfffff));
		ip->nexthdr = IPPROTO_UDP;
		ip->hop_limit = flow->hop_limit;
		memcpy(&ip->saddr, &flow->src_ip, sizeof(ip->saddr));
		memcpy(&ip->daddr, &flow->dst_ip, sizeof(ip->daddr));
		snic_gso_put_udp(&hdr->v6.udp, flow);
	}
}

/* Set the lengths and the IPv4 identification of a datagram of @len bytes. */
static void snic_gso_put_len(struct snic_gso_hdr *hdr, bool is_v4, u32 len, u32 id)
{
	if (is_v4) {
		hdr->v4.ip.tot_len = htons(SNIC_IPV4_HLEN + SNIC_UDP_HLEN + len);
		hdr->v4.ip.id = htons(id);
		hdr->v4.udp.len = htons(SNIC_UDP_HLEN + len);
	} else {
		hdr->v6.ip.payload_len = htons(SNIC_UDP_HLEN + len);
		hdr->v6.udp.len = htons(SNIC_UDP_HLEN + len);
	}
}

/*
 * Write one segment, BTH to ICRC, at @out. @hdr: the headers that segmentation will give to the
 * segment.
 */
static void snic_gso_put_pkt(struct snic_gso_hdr *hdr, bool is_v4, const struct snic_tx_pkt *pkt,
			     struct snic_seg_iter *it, u8 *out)
{
	static const u8 zero[4];
	u32 ext = pkt->hdr_len - SNIC_BTH_LEN;
	struct snic_icrc icrc __uninitialized;
	__le32 sum;

	memcpy(is_v4 ? hdr->v4.bth : hdr->v6.bth, pkt->hdr, SNIC_BTH_LEN);
	memcpy(out, pkt->hdr, SNIC_BTH_LEN);
	snic_icrc_start(&icrc, (u8 *)hdr, is_v4);
	snic_icrc_copy(&icrc, out + SNIC_BTH_LEN, pkt->hdr + SNIC_BTH_LEN, ext);
	out += pkt->hdr_len;
	snic_seg_copy_icrc(it, out, pkt->payload_len, &icrc);
	out += pkt->payload_len;
	snic_icrc_copy(&icrc, out, zero, pkt->pad);
	sum = cpu_to_le32(snic_icrc_final(&icrc));
	memcpy(out + pkt->pad, &sum, sizeof(sum));
}

/*
 * Make contiguous room for packets of @size bytes at the end of @skb, in this CPU's page fragment.
 * *len: the bytes of all packets to come, and then those of the packets that there is room for.
 */
static u8 *snic_gso_room(struct sk_buff *skb, u32 size, u32 *len)
{
	struct page_frag *pf = &snic_cpu_this()->frag;
	int last = skb_shinfo(skb)->nr_frags - 1;
	u8 *out;

	size = min(size, *len);
	if (!skb_page_frag_refill(size, pf, GFP_ATOMIC | __GFP_NOWARN) ||
	    pf->size - pf->offset < size)
		return NULL;
	if (*len > pf->size - pf->offset)
		*len = rounddown(pf->size - pf->offset, size);
	if (skb_can_coalesce(skb, last + 1, pf->page, pf->offset)) {
		skb_frag_size_add(&skb_shinfo(skb)->frags[last], *len);
	} else {
		if (last + 1 >= MAX_SKB_FRAGS)
			return NULL;
		get_page(pf->page);
		skb_fill_page_desc(skb, last + 1, pf->page, pf->offset, *len);
	}
	out = page_address(pf->page) + pf->offset;
	pf->offset += *len;
	skb->len += *len;
	skb->data_len += *len;
	skb->truesize += *len;
	return out;
}

/* Write the headers of the super-packet as segmentation expects them (see udp_send_skb()). */
static void snic_gso_finish(struct sk_buff *skb, struct snic_gso_hdr *hdr, bool is_v4, u32 size)
{
	u32 hlen = skb_network_header_len(skb) + SNIC_UDP_HLEN;
	u32 len = skb->len - ETH_HLEN - hlen;
	u32 udp_len = SNIC_UDP_HLEN + len;

	snic_gso_put_len(hdr, is_v4, len, 0);
	if (is_v4) {
		ip_send_check(&hdr->v4.ip);
		hdr->v4.udp.check = ~udp_v4_check(udp_len, hdr->v4.ip.saddr, hdr->v4.ip.daddr, 0);
	} else {
		hdr->v6.udp.check = ~udp_v6_check(udp_len, &hdr->v6.ip.saddr, &hdr->v6.ip.daddr, 0);
	}
	memcpy(skb_network_header(skb), hdr, hlen);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(len, size);
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
}

struct sk_buff *snic_gso_build(struct snic_host *host, const struct snic_burst *burst, u32 first,
			       u32 *n, struct snic_seg_iter *it)
{
	const struct snic_flow *flow = burst->flow;
	u32 headroom = LL_RESERVED_SPACE(host->ndev); /* see snic_tx_build() */
	u32 size = snic_gso_pkt_len(&burst->pkts[first]);
	u32 left = (*n - 1) * size + snic_gso_pkt_len(&burst->pkts[first + *n - 1]);
	u32 hlen = snic_gso_hlen(flow), room = 0, i, len;
	struct snic_seg_iter at = *it;
	struct snic_gso_hdr hdr;
	struct sk_buff *skb;
	u8 *out = NULL;

	skb = alloc_skb(headroom + ETH_HLEN + hlen, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, headroom);
	skb_reset_mac_header(skb);
	snic_frame_eth(flow, false, skb_put(skb, ETH_HLEN));
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, ETH_HLEN + hlen - SNIC_UDP_HLEN);
	skb_put(skb, hlen);

	snic_gso_put_headers(&hdr, flow);
	for (i = 0; i < *n; i++) {
		if (!room) {
			room = left;
			out = snic_gso_room(skb, size, &room);
			if (!out && i < 2) {
				kfree_skb(skb);
				return NULL;
			}
			if (!out)
				break;
			left -= room;
		}
		len = snic_gso_pkt_len(&burst->pkts[first + i]);
		snic_gso_put_len(&hdr, flow->is_v4, len, i);
		snic_gso_put_pkt(&hdr, flow->is_v4, &burst->pkts[first + i], &at, out);
		out += len;
		room -= len;
	}
	*n = i;
	snic_gso_finish(skb, &hdr, flow->is_v4, size);
	*it = at;
	return skb;
}
