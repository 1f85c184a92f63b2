// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Building frames: Ethernet, IP, UDP around a transport packet. */
#include "frame.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100
#define VLAN_PRIO_SHIFT 13
#define VLAN_ID_MASK 0x0fff
#define IPPROTO_UDP_NUM 17
#define IPV4_VERSION_IHL 0x45u
#define IPV4_DF 0x4000u
#define IPV6_VERSION 6u
#define IPV6_FLOW_MASK 0xfffffu
#define V4_IN_MAPPED 12 /* offset of the IPv4 address in a v4-mapped address */

/* A few instructions: the compiler would make calls of them, since there are many. */
static __always_inline u8 *put_be16(u8 *p, u16 val)
{
	__be16 be = cpu_to_be16(val);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static __always_inline u8 *put_be32(u8 *p, u32 val)
{
	__be32 be = cpu_to_be32(val);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

u32 snic_frame_eth(const struct snic_flow *flow, bool inline_vlan, u8 *out)
{
	u8 *p = out;

	memcpy(p, flow->dst_mac, sizeof(flow->dst_mac));
	p += sizeof(flow->dst_mac);
	memcpy(p, flow->src_mac, sizeof(flow->src_mac));
	p += sizeof(flow->src_mac);
	if (inline_vlan && flow->has_vlan) {
		p = put_be16(p, ETHERTYPE_VLAN);
		p = put_be16(p,
			     flow->vlan_prio << VLAN_PRIO_SHIFT | (flow->vlan_id & VLAN_ID_MASK));
	}
	p = put_be16(p, flow->is_v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	return p - out;
}

static __always_inline u32 get_be32(const u8 *p)
{
	__be32 be;

	memcpy(&be, p, sizeof(be));
	return be32_to_cpu(be);
}

/* The checksum (RFC 1071) of a header whose 32-bit words have this sum. */
static u16 words_csum(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/* The identification is 0: an atomic datagram (RFC 6864). */
static u8 *put_ipv4(u8 *p, const struct snic_flow *flow, u16 len)
{
	u32 first = IPV4_VERSION_IHL << 24 | (u32)flow->traffic_class << 16 | len;
	u32 ttl = (u32)flow->hop_limit << 24 | IPPROTO_UDP_NUM << 16;
	u32 src = get_be32(flow->src_ip.b + V4_IN_MAPPED);
	u32 dst = get_be32(flow->dst_ip.b + V4_IN_MAPPED);

	p = put_be32(p, first);
	p = put_be32(p, IPV4_DF);
	p = put_be32(p, ttl | words_csum((u64)first + IPV4_DF + ttl + src + dst));
	p = put_be32(p, src);
	return put_be32(p, dst);
}

static u8 *put_ipv6(u8 *p, const struct snic_flow *flow, u16 len)
{
	p = put_be32(p, IPV6_VERSION << 28 | (u32)flow->traffic_class << 20 |
				(flow->flow_label & IPV6_FLOW_MASK));
	p = put_be16(p, len - SNIC_IPV6_HLEN);
	*p++ = IPPROTO_UDP_NUM;
	*p++ = flow->hop_limit;
	memcpy(p, flow->src_ip.b, sizeof(flow->src_ip.b));
	p += sizeof(flow->src_ip.b);
	memcpy(p, flow->dst_ip.b, sizeof(flow->dst_ip.b));
	return p + sizeof(flow->dst_ip.b);
}

static u8 *put_ip(u8 *p, const struct snic_flow *flow, u32 len)
{
	return flow->is_v4 ? put_ipv4(p, flow, (u16)len) : put_ipv6(p, flow, (u16)len);
}

void snic_frame_ip_header(const struct snic_flow *flow, u32 len, u8 *out)
{
	put_ip(out, flow, len);
}

void snic_seg_copy_icrc(struct snic_seg_iter *it, void *out, u32 len, struct snic_icrc *icrc)
{
	const void *from;
	u8 *to = out;
	u32 run;

	for (; len; len -= run, to += run) {
		from = snic_seg_next(it, len, &run);
		snic_icrc_copy(icrc, to, from, run);
	}
}

void snic_seg_copy(struct snic_seg_iter *it, void *out, u32 len)
{
	const void *from;
	u8 *to = out;
	u32 run;

	for (; len; len -= run, to += run) {
		from = snic_seg_next(it, len, &run);
		memcpy(to, from, run);
	}
}

u32 snic_frame_ip(const struct snic_flow *flow, const struct snic_tx_pkt *pkt,
		  struct snic_seg_iter *it, u8 *out)
{
	static const u8 zero[4];
	u32 ip_len = snic_ip_len(flow, pkt);
	u32 udp_len = SNIC_UDP_HLEN + pkt->hdr_len + pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN;
	struct snic_icrc icrc __uninitialized;
	__le32 sum;
	u8 *p;

	p = put_ip(out, flow, ip_len);
	p = put_be32(p, (u32)flow->udp_sport << 16 | SIRDMA_ROCE_UDP_PORT);
	p = put_be32(p, udp_len << 16); /* no checksum */

	memcpy(p, pkt->hdr, pkt->hdr_len);
	snic_icrc_start(&icrc, out, flow->is_v4);
	snic_icrc_update(&icrc, p + sizeof(struct sirdma_bth),
			 pkt->hdr_len - sizeof(struct sirdma_bth));
	p += pkt->hdr_len;
	snic_seg_copy_icrc(it, p, pkt->payload_len, &icrc);
	p += pkt->payload_len;
	snic_icrc_copy(&icrc, p, zero, pkt->pad);
	p += pkt->pad;
	sum = cpu_to_le32(snic_icrc_final(&icrc));
	memcpy(p, &sum, sizeof(sum));
	return ip_len;
}
