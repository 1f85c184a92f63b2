// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tx.h"

#include <linux/etherdevice.h>
#include <linux/hash.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include "addr.h"
#include "cpu.h"
#include "dev.h"
#include "gso.h"
#include "host/trace.h"
#include "local.h"
#include "model/frame.h"

/*
 * The network stack frees the frame, in softirq or process context. Nothing else uses
 * destructor_arg of a packet without zero-copy fragments, or tskey of one without a socket. tskey
 * keeps the bytes that were charged: the stack may change skb->truesize.
 */
static void snic_tx_destruct(struct sk_buff *skb)
{
	snic_txq_uncharge(skb_shinfo(skb)->destructor_arg, skb_shinfo(skb)->tskey);
}

/* Charge the frame. Returns the charged bytes. */
static u32 snic_tx_own(struct snic_txq *q, struct sk_buff *skb)
{
	skb_shinfo(skb)->destructor_arg = snic_txq_charge(q, skb->truesize);
	skb_shinfo(skb)->tskey = skb->truesize;
	skb->destructor = snic_tx_destruct;
	return skb->truesize;
}

static u32 snic_tx_own_local(struct snic_txq *q, struct list_head *list, u32 bytes)
{
	struct snic_charge *charge = snic_txq_charge(q, bytes);
	struct snic_local *local;

	list_for_each_entry(local, list, node)
		local->charge = charge;
	return bytes;
}

/*
 * A frame with room for @len bytes in this CPU's page fragment, which is used from its start again when
 * its frames are gone: so a frame by itself takes neither an allocator's time nor, with init_on_alloc,
 * that of zeroing what is written next.
 */
static struct sk_buff *snic_tx_alloc(u32 len)
{
	u32 size = SKB_DATA_ALIGN(len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	struct page_frag *pf = &snic_cpu_this()->frag;
	struct sk_buff *skb;

	pf->offset = ALIGN(pf->offset, SMP_CACHE_BYTES);
	if (!skb_page_frag_refill(size, pf, GFP_ATOMIC | __GFP_NOWARN) ||
	    pf->size - pf->offset < size)
		return alloc_skb(len, GFP_ATOMIC | __GFP_NOWARN);
	skb = napi_build_skb(page_address(pf->page) + pf->offset, size);
	if (!skb)
		return NULL;
	get_page(pf->page);
	pf->offset += size;
	return skb;
}

static struct sk_buff *snic_tx_build(struct snic_host *host, const struct snic_flow *flow,
				     const struct snic_tx_pkt *pkt, struct snic_seg_iter *it)
{
	/* Read it once: a bridge may change it between the allocation and the reservation. */
	u32 headroom = LL_RESERVED_SPACE(host->ndev);
	u32 ip_len = snic_ip_len(flow, pkt);
	struct sk_buff *skb;

	skb = snic_tx_alloc(headroom + ETH_HLEN + ip_len);
	if (!skb)
		return NULL;
	skb_reserve(skb, headroom);
	skb_reset_mac_header(skb);
	snic_frame_eth(flow, false, skb_put(skb, ETH_HLEN));
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, ETH_HLEN + (flow->is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN));
	snic_frame_ip(flow, pkt, it, skb_put(skb, ip_len));
	return skb;
}

static void snic_tx_finish(struct snic_host *host, const struct snic_burst *burst,
			   struct sk_buff *skb)
{
	const struct snic_flow *flow = burst->flow;

	skb->dev = host->ndev;
	skb->protocol = htons(flow->is_v4 ? ETH_P_IP : ETH_P_IPV6);
	/*
	 * The hash spreads QPs over the queues of the netdev; the stack need not parse the headers.
	 */
	__skb_set_sw_hash(skb, hash_32(burst->qpn, 32), true);
	if (flow->has_vlan)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q),
				       flow->vlan_id | flow->vlan_prio << VLAN_PRIO_SHIFT);
}

/*
 * Append frames of @burst to @list. Packets for which there is no memory are lost, as on a wire. A
 * packet that is longer than the netdev's MTU, which may have shrunk, is lost with all packets
 * after it. Returns the charged bytes.
 */
static u32 snic_tx_frames(struct snic_host *host, struct snic_txq *q,
			  const struct snic_burst *burst, struct sk_buff_head *list)
{
	struct snic_seg_iter it;
	struct sk_buff *skb;
	u32 i, n, bytes = 0;

	snic_seg_iter_init(&it, burst);
	for (i = 0; i < burst->npkts; i += n) {
		/* Only the last packet of a run may have another length, which must be shorter. */
		if (unlikely(snic_ip_len(burst->flow, &burst->pkts[i]) >
			     READ_ONCE(host->ndev->mtu))) {
			snic_stat_add(host->dev, SIRDMA_STAT_TX_OVER_MTU, burst->npkts - i);
			break;
		}
		n = snic_gso_count(host, burst, i);
		skb = n > 1 ? snic_gso_build(host, burst, i, &n, &it) : NULL;
		if (!skb) {
			n = 1;
			skb = snic_tx_build(host, burst->flow, &burst->pkts[i], &it);
		}
		if (unlikely(!skb)) {
			snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, burst->npkts - i);
			break;
		}
		snic_tx_finish(host, burst, skb);
		bytes += snic_tx_own(q, skb);
		__skb_queue_tail(list, skb);
	}
	return bytes;
}

bool snic_host_tx_room(struct snic_host *host, u32 qpn)
{
	return snic_txq_room(snic_host_txq(host, qpn), qpn);
}

u32 snic_tx(struct snic_host *host, struct snic_burst *burst)
{
	struct snic_txq *q = snic_host_txq(host, burst->qpn);
	const struct snic_flow *flow = burst->flow;
	struct sk_buff_head wire;
	bool multicast = sirdma_ip_is_multicast(&flow->dst_ip), is_local;
	LIST_HEAD(local);
	u32 bytes = 0;

	__skb_queue_head_init(&wire);
	rcu_read_lock();
	is_local = unlikely(multicast) ?
			   snic_mcast_has(host->dev, &flow->dst_ip) :
			   !!snic_addr_find(host, &flow->src_ip, flow->src_mac, &flow->dst_ip,
					    flow->has_vlan, flow->vlan_id);
	rcu_read_unlock();
	trace_snic_tx(host->ndev, burst, burst->npkts, is_local);
	if (is_local)
		bytes += snic_tx_own_local(q, &local, snic_local_build(q, burst, &local));
	/* No wire brings a multicast packet back to the members that this device has itself. */
	if (!is_local || multicast)
		bytes += snic_tx_frames(host, q, burst, &wire);
	if (!list_empty(&local) || !skb_queue_empty(&wire))
		snic_txq_add(q, &wire, &local, bytes);
	return burst->npkts;
}

void snic_tx_xmit(struct snic_host *host, struct sk_buff *skb)
{
	u32 packets = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
	int rc = dev_queue_xmit(skb);

	/* RC retransmits the packets that the netdev or its queue dropped. */
	if (unlikely(net_xmit_eval(rc)))
		snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, packets);
}
