// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "local.h"

#include <linux/etherdevice.h>
#include <linux/gfp.h>
#include <linux/slab.h>
#include "addr.h"
#include "cpu.h"
#include "dev.h"
#include "model/frame.h"
#include "rx.h"
#include "host/trace.h"

/* Sizes of buffers: one for acknowledgements and small messages, another for bulk data. */
#define SNIC_LOCAL_SMALL 1024
#define SNIC_LOCAL_ORDER 3
#define SNIC_LOCAL_LARGE (PAGE_SIZE << SNIC_LOCAL_ORDER)

#define SNIC_LOCAL_ALIGN 64
#define SNIC_LOCAL_HLEN ALIGN(sizeof(struct snic_local), SNIC_LOCAL_ALIGN)

/* A packet in a buffer. The transport headers end where the aligned payload starts. */
struct snic_local_pkt {
	u32 size; /* offset from this packet to the next one */
	u32 len; /* length from the BTH to the ICRC */
	u16 start; /* offset of the BTH from the start of this packet */
	u16 rsvd[3];
	u8 hdr[SNIC_MAX_HDR];
	u8 payload[];
};

static_assert(sizeof(struct snic_local_pkt) % SNIC_LOCAL_ALIGN == 0);

static u32 snic_local_pkt_size(const struct snic_tx_pkt *pkt)
{
	return sizeof(struct snic_local_pkt) +
	       ALIGN(pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN, SNIC_LOCAL_ALIGN);
}

static struct snic_local *snic_local_alloc(bool large)
{
	struct snic_cpu *cpu = snic_cpu_this();
	struct snic_local *local;

	if (large && cpu->nlarge)
		local = cpu->large[--cpu->nlarge];
	else if (large)
		local = (void *)__get_free_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP,
						 SNIC_LOCAL_ORDER);
	else if (cpu->nsmall)
		local = cpu->small[--cpu->nsmall];
	else
		local = kmalloc(SNIC_LOCAL_SMALL, GFP_ATOMIC | __GFP_NOWARN);
	if (local)
		local->large = large;
	return local;
}

static void snic_local_free(struct snic_local *local)
{
	struct snic_cpu *cpu = snic_cpu_this();

	if (local->large) {
		if (cpu->nlarge < SNIC_CACHE_LARGE)
			cpu->large[cpu->nlarge++] = local;
		else
			free_pages((unsigned long)local, SNIC_LOCAL_ORDER);
	} else {
		if (cpu->nsmall < SNIC_CACHE_SMALL)
			cpu->small[cpu->nsmall++] = local;
		else
			kfree(local);
	}
}

void snic_local_drop_cache(struct snic_cpu *cpu)
{
	while (cpu->nlarge)
		free_pages((unsigned long)cpu->large[--cpu->nlarge], SNIC_LOCAL_ORDER);
	while (cpu->nsmall)
		kfree(cpu->small[--cpu->nsmall]);
}

static void snic_local_start(struct snic_local *local, const struct snic_flow *flow)
{
	local->src_ip = flow->src_ip;
	local->dst_ip = flow->dst_ip;
	memcpy(local->src_mac, flow->src_mac, sizeof(local->src_mac));
	local->flow_label = flow->flow_label;
	local->vlan_id = flow->vlan_id;
	local->has_vlan = flow->has_vlan;
	local->traffic_class = flow->traffic_class;
	local->hop_limit = flow->hop_limit;
	local->is_v4 = flow->is_v4;
	local->more = false;
	local->npkts = 0;
	local->bytes = 0;
}

static void snic_local_put_pkt(struct snic_local *local, const struct snic_tx_pkt *pkt, u32 size,
			       struct snic_seg_iter *it)
{
	struct snic_local_pkt *out = (void *)local + SNIC_LOCAL_HLEN + local->bytes;
	u8 *start = out->payload - pkt->hdr_len;

	out->size = size;
	out->len = pkt->hdr_len + pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN;
	out->start = start - (u8 *)out;
	memcpy(start, pkt->hdr, pkt->hdr_len);
	if (pkt->payload_len)
		snic_seg_copy(it, out->payload, pkt->payload_len);
	/* Padding is zero. No host checks the ICRC of a packet that was on no wire. */
	memset(out->payload + pkt->payload_len, 0, pkt->pad + SIRDMA_ICRC_LEN);
	local->bytes += size;
	local->npkts++;
}

u32 snic_local_build(struct snic_host *host, const struct snic_burst *burst, struct list_head *list)
{
	struct snic_local *local = NULL;
	u32 left = 0, room = 0, used = 0;
	struct snic_seg_iter it;
	u32 i, size;

	for (i = 0; i < burst->npkts; i++)
		left += snic_local_pkt_size(&burst->pkts[i]);
	snic_seg_iter_init(&it, burst);
	for (i = 0; i < burst->npkts; i++) {
		size = snic_local_pkt_size(&burst->pkts[i]);
		if (size > room) {
			bool large = left > SNIC_LOCAL_SMALL - SNIC_LOCAL_HLEN;

			if (local)
				local->more = true;
			local = snic_local_alloc(large);
			if (!local)
				break;
			snic_local_start(local, burst->flow);
			list_add_tail(&local->node, list);
			room = (large ? SNIC_LOCAL_LARGE : SNIC_LOCAL_SMALL) - SNIC_LOCAL_HLEN;
		}
		snic_local_put_pkt(local, &burst->pkts[i], size, &it);
		room -= size;
		left -= size;
		used += size;
	}
	if (i < burst->npkts)
		snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, burst->npkts - i);
	return used;
}

u32 snic_local_deliver(struct snic_host *host, struct snic_local *local)
{
	struct snic_rx_pkt pkt = {
		.src_ip = local->src_ip,
		.dst_ip = local->dst_ip,
		.nsegs = 1,
		.flow_label = local->is_v4 ? 0 : local->flow_label,
		.vlan_id = local->has_vlan ? local->vlan_id : 0,
		.traffic_class = local->traffic_class,
		.ttl = local->hop_limit,
		.is_v4 = local->is_v4,
		.icrc_ok = true,
	};
	struct snic_host *to;
	struct snic_seg seg;
	u32 i, off = SNIC_LOCAL_HLEN,
	       cost = max_t(u32, local->bytes, local->npkts * SNIC_RX_MIN_COST);

	ether_addr_copy(pkt.src_mac, local->src_mac);

	rcu_read_lock();
	if (unlikely(sirdma_ip_is_multicast(&local->dst_ip)))
		to = host;
	else
		to = snic_addr_find(host, &local->src_ip, local->src_mac, &local->dst_ip,
				    local->has_vlan, local->vlan_id);
	if (to) {
		struct snic_rx_batch batch = {.dev = to->dev};

		snic_cpu_this()->received += local->npkts;
		snic_stat_add(to->dev, SIRDMA_STAT_LOCAL_LOOP_PKTS, local->npkts);
		pkt.segs = &seg;
		for (i = 0; i < local->npkts; i++) {
			struct snic_local_pkt *in = (void *)local + off;

			seg.ptr = (u8 *)in + in->start;
			seg.len = in->len;
			pkt.len = in->len;
			pkt.more = local->more || i + 1 < local->npkts;
			trace_snic_rx(to->ndev, &pkt);
			snic_rx_batch_add(&batch, &pkt);
			off += in->size;
		}
		snic_rx_batch_end(&batch);
		cost += batch.copies * SNIC_RX_MIN_COST;
	} else {
		snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, local->npkts);
	}
	rcu_read_unlock();
	snic_local_free(local);
	return cost;
}
