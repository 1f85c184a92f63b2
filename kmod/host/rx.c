// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "rx.h"

#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netfilter_netdev.h>
#include <linux/rtnetlink.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/ip.h>
#include "addr.h"
#include "compat/skbuff.h"
#include "cpu.h"
#include "dev.h"
#include "host/trace.h"
#include "model/frame.h"

#ifndef CONFIG_NETFILTER_INGRESS
#error "packets are taken by a netfilter ingress hook: set CONFIG_NETFILTER_INGRESS=y"
#endif

#define SNIC_BTH_LEN ((u32)sizeof(struct sirdma_bth))
/* The IP and UDP headers and the BTH: the ICRC starts with them. */
#define SNIC_RX_ICRC_HLEN (SNIC_IPV6_HLEN + SNIC_UDP_HLEN + sizeof(struct sirdma_bth))

/*
 * The bytes of frames that the hook takes before the bottom half has run. A short packet counts as
 * SNIC_RX_MIN_COST, and a super-packet as the packets that it consists of: any program may send
 * super-packets of 128 segments of a few bytes each (UDP_SEGMENT), which veth hands over whole. The
 * kernel passes up to 64 frames of a backlog to the hook in one poll, each of up to 64 KiB. With an
 * eighth of that limit the softirq hands half of the CPU to a program that polls there, and the wire
 * has half of its bandwidth (2 CPUs, WRITEs of 1 MiB).
 */
#define SNIC_RX_COST (512 * 1024)
/*
 * What is checked of a frame before the first packet of it is delivered: packets, which are bits of a
 * u64, and bytes, which then are still in the processor's first cache. Not tuned.
 */
#define SNIC_RX_BATCH 64
#define SNIC_RX_BATCH_BYTES 16384
/* The number of frames that may wait: that of a backlog (net.core.netdev_max_backlog). */
#define SNIC_RX_WAITING 1000

/* The verdict on a packet, from its headers. */
enum snic_rx_verdict {
	SNIC_RX_PASS, /* the packet is for the IP stack */
	SNIC_RX_TAKE,
	SNIC_RX_REJECT, /* the packet is ours, and malformed */
};

struct snic_datagram {
	struct snic_rx_pkt pkt; /* addresses; the other members are filled per packet */
	enum sirdma_stat why; /* the counter of a reject */
	u32 ip_len; /* length of the IP packet as a whole */
	u32 hlen; /* length of IP and UDP headers */
	u32 ip_id;
};

/* Position in a list of segments. */
struct snic_rx_cursor {
	const struct snic_seg *seg;
	u32 off;
};

/* The packets of a frame, all of one size; the last may be shorter. */
struct snic_rx_parts {
	struct snic_rx_cursor cursor; /* where the next packet begins */
	const void *ip;
	u32 size;
	u32 left; /* bytes from there on */
	bool fixed_id; /* the packets have the same IPv4 identification */
};

static enum snic_rx_verdict snic_rx_bad(struct snic_datagram *d, enum sirdma_stat why)
{
	d->why = why;
	return SNIC_RX_REJECT;
}

/*
 * The destination of the frame is a link-layer group. Is it a group of this device, in a VLAN in
 * which the device has an address?
 */
static bool snic_rx_is_joined(const struct snic_host *host, const struct snic_rx_pkt *pkt)
{
	if (!sirdma_ip_is_multicast(&pkt->dst_ip) ||
	    (pkt->vlan_id && !test_bit(pkt->vlan_id, host->vlans)))
		return false;
	if (snic_mcast_has(host->dev, &pkt->dst_ip))
		return true;
	trace_snic_rx_reject(host->ndev, SIRDMA_STAT_RX_NO_GROUP);
	snic_rx_reject(host->dev, SIRDMA_STAT_RX_NO_GROUP);
	return false;
}

static bool snic_rx_is_mine(const struct snic_host *host, const struct sk_buff *skb,
			    struct snic_rx_pkt *pkt)
{
	u16 vlan_id = skb_vlan_tag_present(skb) ? skb_vlan_tag_get_id(skb) : 0;
	/*
	 * A MAC address that is not the netdev's may be the address of a VLAN or MAC-VLAN above it.
	 */
	const u8 *mac = skb->pkt_type == PACKET_HOST ? NULL : eth_hdr(skb)->h_dest;

	ether_addr_copy(pkt->src_mac, eth_hdr(skb)->h_source);
	/* A tag with VLAN 0 carries a priority only (IEEE 802.1Q). */
	pkt->vlan_id = vlan_id;
	if (unlikely(skb->pkt_type == PACKET_MULTICAST))
		return snic_rx_is_joined(host, pkt);
	return snic_addr_is_mine(host, &pkt->dst_ip, vlan_id != 0, vlan_id, mac);
}

/* Is there a UDP header for the RoCEv2 port at @off? *len is the length field of the header. */
static bool snic_rx_udp(const struct sk_buff *skb, u32 off, u32 *len)
{
	struct udphdr buf;
	const struct udphdr *udp = skb_header_pointer(skb, off, sizeof(buf), &buf);

	if (!udp || udp->dest != htons(SIRDMA_ROCE_UDP_PORT))
		return false;
	*len = ntohs(udp->len);
	return true;
}

static enum snic_rx_verdict snic_rx_lengths(const struct sk_buff *skb, struct snic_datagram *d,
					    u32 ip_hlen, u32 udp_len)
{
	d->hlen = ip_hlen + SNIC_UDP_HLEN;
	if (d->ip_len > skb->len || d->ip_len < d->hlen + SNIC_BTH_LEN + SIRDMA_ICRC_LEN ||
	    udp_len != d->ip_len - ip_hlen)
		return snic_rx_bad(d, SIRDMA_STAT_RX_BAD_LENGTH);
	return SNIC_RX_TAKE;
}

static enum snic_rx_verdict snic_rx_parse_v4(const struct snic_host *host,
					     const struct sk_buff *skb, struct snic_datagram *d)
{
	struct iphdr buf;
	const struct iphdr *ip = skb_header_pointer(skb, 0, sizeof(buf), &buf);
	u32 udp_len;

	/* Only the first fragment has the port; the stack's reassembly drops the others. */
	if (!ip || ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_UDP ||
	    (ip->frag_off & htons(IP_OFFSET)) || !snic_rx_udp(skb, ip->ihl * 4, &udp_len))
		return SNIC_RX_PASS;
	ipv6_addr_set_v4mapped(ip->saddr, (struct in6_addr *)&d->pkt.src_ip);
	ipv6_addr_set_v4mapped(ip->daddr, (struct in6_addr *)&d->pkt.dst_ip);
	if (!snic_rx_is_mine(host, skb, &d->pkt))
		return SNIC_RX_PASS;
	if (ip->frag_off & htons(IP_MF))
		return snic_rx_bad(d, SIRDMA_STAT_RX_FRAGMENTS);
	if (ip->ihl != 5 || ip_fast_csum(ip, ip->ihl))
		return snic_rx_bad(d, SIRDMA_STAT_RX_BAD_HEADER);
	d->pkt.is_v4 = true;
	d->pkt.traffic_class = ip->tos;
	d->pkt.ttl = ip->ttl;
	d->ip_id = ntohs(ip->id);
	d->ip_len = ntohs(ip->tot_len);
	return snic_rx_lengths(skb, d, SNIC_IPV4_HLEN, udp_len);
}

static enum snic_rx_verdict snic_rx_parse_v6(const struct snic_host *host,
					     const struct sk_buff *skb, struct snic_datagram *d)
{
	struct ipv6hdr buf;
	const struct ipv6hdr *ip = skb_header_pointer(skb, 0, sizeof(buf), &buf);
	u32 udp_len;

	if (!ip || ip->version != 6 || ip->nexthdr != IPPROTO_UDP ||
	    !snic_rx_udp(skb, SNIC_IPV6_HLEN, &udp_len))
		return SNIC_RX_PASS;
	memcpy(&d->pkt.src_ip, &ip->saddr, sizeof(d->pkt.src_ip));
	memcpy(&d->pkt.dst_ip, &ip->daddr, sizeof(d->pkt.dst_ip));
	if (!snic_rx_is_mine(host, skb, &d->pkt))
		return SNIC_RX_PASS;
	d->pkt.is_v4 = false;
	d->pkt.flow_label = ntohl(ip6_flowlabel(ip));
	d->pkt.traffic_class = ipv6_get_dsfield(ip);
	d->pkt.ttl = ip->hop_limit;
	d->ip_id = 0;
	d->ip_len = SNIC_IPV6_HLEN + ntohs(ip->payload_len);
	return snic_rx_lengths(skb, d, SNIC_IPV6_HLEN, udp_len);
}

static int snic_rx_add_seg(struct snic_rx_scratch *s, int n, void *ptr, u32 len)
{
	if (!len || n < 0)
		return n;
	if (n >= SNIC_RX_SEGS)
		return -E2BIG;
	s->all[n].ptr = ptr;
	s->all[n].len = len;
	return n + 1;
}

static int snic_rx_add_frags(struct snic_rx_scratch *s, int n, const struct sk_buff *skb)
{
	int i;

	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		n = snic_rx_add_seg(s, n, skb_frag_address(frag), skb_frag_size(frag));
	}
	return n;
}

/*
 * Collect the bytes after the UDP header as segments in s->all. Returns the number of segments, or
 * -E2BIG.
 */
static int snic_rx_collect(struct snic_rx_scratch *s, const struct sk_buff *skb, u32 hlen)
{
	const struct sk_buff *it;
	int n;

	n = snic_rx_add_seg(s, 0, skb->data + hlen, skb_headlen(skb) - hlen);
	n = snic_rx_add_frags(s, n, skb);
	skb_walk_frags(skb, it) {
		if (skb_has_frag_list(it))
			return -E2BIG;
		n = snic_rx_add_seg(s, n, it->data, skb_headlen(it));
		n = snic_rx_add_frags(s, n, it);
	}
	return n;
}

/* Take @len bytes at @c as segments. Returns the number of segments. */
static u32 snic_rx_slice(struct snic_rx_cursor *c, u32 len, struct snic_seg *out)
{
	u32 n = 0;

	while (len) {
		u32 run = min(len, c->seg->len - c->off);

		if (run) {
			out[n].ptr = c->seg->ptr + c->off;
			out[n++].len = run;
			c->off += run;
			len -= run;
		}
		if (c->off == c->seg->len) {
			c->seg++;
			c->off = 0;
		}
	}
	return n;
}

/* Take the next packet of @len bytes as s->pkt, with all headers in its first segment. */
static u32 snic_rx_next(struct snic_rx_scratch *s, struct snic_rx_cursor *c, u32 len)
{
	u32 need = min_t(u32, len, SNIC_RX_MIN_LINEAR);
	struct snic_rx_cursor start = *c;
	u32 i, n, off = 0;

	n = snic_rx_slice(c, len, s->pkt);
	if (s->pkt[0].len >= need)
		return n;
	*c = start;
	n = snic_rx_slice(c, need, s->pkt);
	for (i = 0; i < n; i++) {
		memcpy(s->head + off, s->pkt[i].ptr, s->pkt[i].len);
		off += s->pkt[i].len;
	}
	s->pkt[0].ptr = s->head;
	s->pkt[0].len = need;
	return 1 + snic_rx_slice(c, len - need, s->pkt + 1);
}

/* Sum the bytes after the first @skip ones into @icrc, and copy the packet's own ICRC to *tail. */
static void snic_rx_icrc(struct snic_icrc *icrc, const struct snic_rx_pkt *pkt, u32 skip,
			 __le32 *tail)
{
	u32 left = pkt->len - SIRDMA_ICRC_LEN, pos = 0, i;
	u8 *out = (u8 *)tail;

	for (i = 0; i < pkt->nsegs; i++) {
		const u8 *ptr = pkt->segs[i].ptr;
		u32 len = pkt->segs[i].len;
		u32 covered = min(len, left - min(left, pos));

		if (covered > skip)
			snic_icrc_update(icrc, ptr + skip, covered - skip);
		skip -= min(skip, covered);
		for (pos += covered; covered < len; covered++, pos++)
			*out++ = ptr[covered];
	}
}

/* Does the ICRC hold if the packet came with IPv4 identification @id? */
static bool snic_rx_icrc_ok(const struct snic_datagram *d, const void *ip,
			    const struct snic_rx_pkt *pkt, u32 id)
{
	u8 hdr[SNIC_RX_ICRC_HLEN] __aligned(8) __uninitialized;
	struct udphdr *udp = (void *)hdr + d->hlen - SNIC_UDP_HLEN;
	struct snic_icrc icrc __uninitialized;
	__le32 tail = 0;

	/* The lengths are constants, so that the compiler copies by a few loads and stores. */
	if (pkt->is_v4)
		memcpy(hdr, ip, SNIC_IPV4_HLEN + SNIC_UDP_HLEN);
	else
		memcpy(hdr, ip, SNIC_IPV6_HLEN + SNIC_UDP_HLEN);
	memcpy(hdr + d->hlen, pkt->segs[0].ptr, SNIC_BTH_LEN);
	/* The sender summed the lengths of this segment, not those of the super-packet. */
	udp->len = htons(SNIC_UDP_HLEN + pkt->len);
	if (pkt->is_v4) {
		struct iphdr *v4 = (void *)hdr;

		v4->tot_len = htons(d->hlen + pkt->len);
		v4->id = htons(id);
	} else {
		((struct ipv6hdr *)hdr)->payload_len = udp->len;
	}
	snic_icrc_start(&icrc, hdr, pkt->is_v4);
	snic_rx_icrc(&icrc, pkt, SNIC_BTH_LEN, &tail);
	return snic_icrc_final(&icrc) == le32_to_cpu(tail);
}

/* The hook takes frames of @bytes more. Frames that follow may have to wait for the bottom half. */
static void snic_rx_charge(struct snic_cpu *cpu, u32 bytes)
{
	cpu->rx_cost += bytes;
	if (cpu->rx_cost >= SNIC_RX_COST)
		napi_schedule(&cpu->napi);
}

/* Cut the next packet of a frame, which becomes d->pkt. Returns false at the end of the frame. */
static bool snic_rx_cut(struct snic_rx_parts *parts, struct snic_datagram *d,
			struct snic_rx_scratch *s)
{
	u32 len = min(parts->left, parts->size);

	if (len < SNIC_BTH_LEN + SIRDMA_ICRC_LEN)
		return false;
	parts->left -= len;
	d->pkt.len = len;
	d->pkt.more = parts->left != 0;
	d->pkt.nsegs = snic_rx_next(s, &parts->cursor, len);
	return true;
}

/* Is the packet @i of the frame for a QP of the device? Sets d->pkt.icrc_ok. */
static bool snic_rx_check(struct snic_host *host, struct snic_rx_parts *parts,
			  struct snic_datagram *d, u32 i)
{
	if (!snic_rx_has_qp(host->dev, &d->pkt))
		return false;
	d->pkt.icrc_ok =
		snic_rx_icrc_ok(d, parts->ip, &d->pkt, d->ip_id + (parts->fixed_id ? 0 : i));
	if (unlikely(!d->pkt.icrc_ok) && d->pkt.is_v4 && i && !parts->fixed_id) {
		parts->fixed_id = snic_rx_icrc_ok(d, parts->ip, &d->pkt, d->ip_id);
		d->pkt.icrc_ok = parts->fixed_id;
	}
	return true;
}

/*
 * Deliver the next packets of the frame, of which @done were delivered before. A QP is locked once for
 * those that follow one another, so their ICRCs are summed before. Returns how many there were.
 */
static u32 snic_rx_deliver_some(struct snic_host *host, struct snic_rx_parts *parts,
				struct snic_datagram *d, struct snic_rx_scratch *s, u32 done)
{
	struct snic_rx_batch batch = {.dev = host->dev};
	struct snic_rx_parts at = *parts;
	u64 wanted = 0, intact = 0;
	u32 i, n;

	for (n = 0; n < SNIC_RX_BATCH && at.left - parts->left < SNIC_RX_BATCH_BYTES; n++) {
		if (!snic_rx_cut(parts, d, s))
			break;
		if (!snic_rx_check(host, parts, d, done + n))
			continue;
		wanted |= BIT_ULL(n);
		if (likely(d->pkt.icrc_ok))
			intact |= BIT_ULL(n);
	}
	for (i = 0; i < n; i++) {
		/* The only packet of a frame is still in d->pkt. */
		if (n > 1)
			snic_rx_cut(&at, d, s);
		if (!(wanted & BIT_ULL(i)))
			continue;
		d->pkt.icrc_ok = intact & BIT_ULL(i);
		trace_snic_rx(host->ndev, &d->pkt);
		snic_rx_batch_add(&batch, &d->pkt);
	}
	snic_rx_batch_end(&batch);
	if (unlikely(batch.copies))
		snic_rx_charge(snic_cpu_this(), batch.copies * SNIC_RX_MIN_COST);
	return n;
}

/*
 * Deliver @d as packets of @size bytes; the last may be shorter. Segments of an IPv4
 * super-packet have identifications id, id + 1 ... if the sender's segmentation made
 * them, or all the same one if the receiver's coalescing found them so.
 */
static void snic_rx_deliver(struct snic_host *host, struct snic_datagram *d,
			    struct snic_rx_scratch *s, const void *ip, u32 size)
{
	struct snic_rx_parts parts = {
		.cursor = {.seg = s->all},
		.ip = ip,
		.size = size,
		.left = d->ip_len - d->hlen,
	};
	u32 done = 0, n;

	d->pkt.segs = s->pkt;
	do {
		n = snic_rx_deliver_some(host, &parts, d, s, done);
		done += n;
	} while (n && parts.left);
	if (parts.left)
		snic_rx_reject(host->dev, SIRDMA_STAT_RX_BAD_LENGTH);
	snic_cpu_this()->received += done;
}

static void snic_rx_reject_one(struct snic_host *host, enum sirdma_stat why)
{
	trace_snic_rx_reject(host->ndev, why);
	snic_rx_reject(host->dev, why);
}

static enum snic_rx_verdict snic_rx_parse(struct snic_host *host, const struct sk_buff *skb,
					  struct snic_datagram *d)
{
	if (skb->protocol == htons(ETH_P_IP))
		return snic_rx_parse_v4(host, skb, d);
	if (skb->protocol == htons(ETH_P_IPV6))
		return snic_rx_parse_v6(host, skb, d);
	return SNIC_RX_PASS;
}

/* The stack does not get @skb in any case: it belongs to a frame that was for the device. */
static enum snic_rx_verdict snic_rx_parse_ours(struct snic_host *host, const struct sk_buff *skb,
					       struct snic_datagram *d)
{
	enum snic_rx_verdict verdict = snic_rx_parse(host, skb, d);

	return verdict == SNIC_RX_PASS ? snic_rx_bad(d, SIRDMA_STAT_RX_BAD_GID) : verdict;
}

/* @skb is not shared. This function does not free it. */
static void snic_rx_take(struct snic_host *host, struct sk_buff *skb, struct snic_datagram *d)
{
	struct snic_rx_scratch *s = snic_cpu_this()->rx;
	u32 size = d->ip_len - d->hlen;
	u32 pull = min_t(u32, d->ip_len, d->hlen + SNIC_RX_MIN_LINEAR);

	if (!skb_frags_readable(skb)) {
		snic_rx_reject_one(host, SIRDMA_STAT_RX_BAD_LENGTH);
		return;
	}
	if (pskb_trim(skb, d->ip_len) || !pskb_may_pull(skb, pull))
		goto no_memory;
	if (skb_is_gso(skb) && !(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST))
		size = skb_shinfo(skb)->gso_size;
	if (snic_rx_collect(s, skb, d->hlen) < 0) {
		/* The packet has more segments than the scratch takes. */
		if (skb_linearize(skb) || snic_rx_collect(s, skb, d->hlen) < 0)
			goto no_memory;
	}
	snic_rx_deliver(host, d, s, skb->data, size);
	return;
no_memory:
	snic_rx_reject_one(host, SIRDMA_STAT_RX_OVERRUNS);
}

static void snic_rx_one(struct snic_host *host, struct sk_buff *skb, struct snic_datagram *d,
			enum snic_rx_verdict verdict)
{
	if (verdict == SNIC_RX_TAKE)
		snic_rx_take(host, skb, d);
	else if (verdict == SNIC_RX_REJECT)
		snic_rx_reject_one(host, d->why);
	/* To this CPU's cache, from which the next frame that it sends is taken. */
	napi_consume_skb(skb, in_softirq());
}

/*
 * Take packets that GRO put into a list (rx-gro-list) instead of one super-packet. The headers of
 * each lie before its data, and are as long as those of the first. Other readers may have the
 * packets of the list, so this function takes clones.
 */
static void snic_rx_list(struct snic_host *host, struct sk_buff *skb, struct snic_datagram *d)
{
	u32 hlen = d->hlen, first = skb->len;
	struct sk_buff_head rest;
	struct sk_buff *it;

	__skb_queue_head_init(&rest);
	skb_walk_frags(skb, it) {
		struct sk_buff *clone = skb_clone(it, GFP_ATOMIC);

		first -= it->len;
		if (!clone) {
			snic_rx_reject_one(host, SIRDMA_STAT_RX_OVERRUNS);
			continue;
		}
		/* The kernel took the VLAN tag out of the first packet only. */
		clone->protocol = skb->protocol;
		__vlan_hwaccel_copy_tag(clone, skb);
		__skb_queue_tail(&rest, clone);
	}
	d->ip_len = first;
	snic_rx_one(host, skb, d, SNIC_RX_TAKE);
	while ((it = __skb_dequeue(&rest))) {
		enum snic_rx_verdict verdict = SNIC_RX_REJECT;
		struct snic_datagram part = {.why = SIRDMA_STAT_RX_BAD_LENGTH};

		if (skb_headroom(it) >= hlen) {
			__skb_push(it, hlen);
			verdict = snic_rx_parse_ours(host, it, &part);
		}
		snic_rx_one(host, it, &part, verdict);
	}
}

static void snic_rx_frame(struct snic_host *host, struct sk_buff *skb, struct snic_datagram *d)
{
	snic_enter();
	if (unlikely(skb_is_gso(skb) && (skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST)))
		snic_rx_list(host, skb, d);
	else
		snic_rx_one(host, skb, d, SNIC_RX_TAKE);
	snic_leave();
}

/* The device of a frame that waits. */
static struct snic_host **snic_rx_owner(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct snic_host *) > sizeof(skb->cb));
	return (struct snic_host **)skb->cb;
}

/* Leave @skb to the bottom half, which is scheduled. */
static void snic_rx_wait(struct snic_cpu *cpu, struct snic_host *host, struct sk_buff *skb)
{
	if (skb_queue_len_lockless(&cpu->waiting) >= SNIC_RX_WAITING) {
		snic_rx_reject_one(host, SIRDMA_STAT_RX_OVERRUNS);
		kfree_skb(skb);
		return;
	}
	*snic_rx_owner(skb) = host;
	snic_cpu_waiting_add(cpu, skb);
	/* Another CPU may have run the bottom half of this one, and may have found no frame. */
	if (unlikely(READ_ONCE(cpu->rx_cost) < SNIC_RX_COST))
		napi_schedule(&cpu->napi);
}

/* The addresses of the device may have changed while @skb waited, so its headers are read again. */
static void snic_rx_late(struct snic_host *host, struct sk_buff *skb)
{
	struct snic_datagram d = {};

	if (snic_rx_parse_ours(host, skb, &d) == SNIC_RX_TAKE) {
		snic_rx_frame(host, skb, &d);
		return;
	}
	snic_rx_reject_one(host, d.why);
	kfree_skb(skb);
}

bool snic_rx_take_waiting(struct snic_cpu *cpu, u64 end)
{
	struct sk_buff *skb;

	while ((skb = snic_cpu_waiting_take(cpu))) {
		snic_rx_late(*snic_rx_owner(skb), skb);
		if (ktime_get_ns() >= end && !skb_queue_empty_lockless(&cpu->waiting))
			return true;
	}
	WRITE_ONCE(cpu->rx_cost, 0);
	return false;
}

/* Free the frames of @host that wait for the bottom half of @cpu. */
static void snic_rx_forget(struct snic_cpu *cpu, const struct snic_host *host)
{
	struct sk_buff *skb, *next;
	unsigned long flags;

	spin_lock_irqsave(&cpu->waiting.lock, flags);
	skb_queue_walk_safe(&cpu->waiting, skb, next)
	{
		if (*snic_rx_owner(skb) != host)
			continue;
		__snic_cpu_waiting_take(cpu, skb);
		dev_kfree_skb_irq(skb);
	}
	spin_unlock_irqrestore(&cpu->waiting.lock, flags);
}

/* The cost of taking a frame: that of its bytes, or that of its packets if they are short. */
static u32 snic_rx_frame_cost(const struct sk_buff *skb, const struct snic_datagram *d)
{
	u32 packets = 1;

	if (skb_is_gso(skb))
		packets = DIV_ROUND_UP(d->ip_len - d->hlen, skb_shinfo(skb)->gso_size);
	return max_t(u32, skb->len, packets * SNIC_RX_MIN_COST);
}

/*
 * May the hook take @skb at once? If not, neither may it take those that follow, until the bottom
 * half has taken all that wait. Schedules the bottom half.
 */
static bool snic_rx_now(struct snic_cpu *cpu, const struct sk_buff *skb,
			const struct snic_datagram *d)
{
	if (cpu->rx_cost >= SNIC_RX_COST)
		return false;
	snic_rx_charge(cpu, snic_rx_frame_cost(skb, d));
	return true;
}

static unsigned int snic_rx_hook(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const bool multicast = skb->pkt_type == PACKET_MULTICAST;
	struct snic_host *host = priv;
	struct snic_datagram d = {};
	struct snic_cpu *cpu;
	/*
	 * Other programs of this host may be members as well, so the stack gets a multicast packet,
	 * too.
	 */
	const unsigned int refused = multicast ? NF_ACCEPT : NF_DROP;

	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_OTHERHOST && !multicast)
		return NF_ACCEPT;
	switch (snic_rx_parse(host, skb, &d)) {
	case SNIC_RX_PASS:
		return NF_ACCEPT;
	case SNIC_RX_REJECT:
		snic_rx_reject_one(host, d.why);
		return refused;
	case SNIC_RX_TAKE:
		break;
	}
	/* A datagram that is yet to be cut into IP fragments. */
	if (unlikely(skb_is_gso(skb) && !(skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4))) {
		snic_rx_reject_one(host, SIRDMA_STAT_RX_FRAGMENTS);
		return refused;
	}
	skb = multicast ? skb_clone(skb, GFP_ATOMIC) : skb_share_check(skb, GFP_ATOMIC);
	if (!skb) {
		snic_rx_reject_one(host, SIRDMA_STAT_RX_OVERRUNS);
		return multicast ? NF_ACCEPT : NF_STOLEN;
	}
	cpu = snic_cpu_this();
	if (likely(snic_rx_now(cpu, skb, &d)))
		snic_rx_frame(host, skb, &d);
	else
		snic_rx_wait(cpu, host, skb);
	return multicast ? NF_ACCEPT : NF_STOLEN;
}

int snic_rx_attach(struct snic_host *host)
{
	int err;

	host->hook.hook = snic_rx_hook;
	host->hook.priv = host;
	host->hook.dev = host->ndev;
	host->hook.pf = NFPROTO_NETDEV;
	host->hook.hooknum = NF_NETDEV_INGRESS;
	/* The hook runs after the administrator's filters. */
	host->hook.priority = INT_MAX;
	rtnl_lock(); /* the netdev stays in its network namespace */
	err = nf_register_net_hook(dev_net(host->ndev), &host->hook);
	rtnl_unlock();
	return err;
}

void snic_rx_detach(struct snic_host *host)
{
	int i;

	rtnl_lock(); /* the netdev stays in its network namespace */
	nf_unregister_net_hook(dev_net(host->ndev), &host->hook);
	rtnl_unlock();
	synchronize_net(); /* the hook adds no frame any more */
	for_each_possible_cpu(i)
		snic_rx_forget(snic_cpu_of(i), host);
	synchronize_net(); /* no bottom half has a frame of the host any more */
}
