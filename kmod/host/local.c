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

/*
 * A burst of this many bytes or more is not copied. Shorter ones save less by that than the references to
 * regions cost.
 */
#define SNIC_LOCAL_KEEP_MIN 4096

/* A packet in a buffer. The transport headers end where the aligned payload starts. */
struct snic_local_pkt {
	u32 size; /* offset from this packet to the next one */
	u32 len; /* length from the BTH to the ICRC */
	u16 start; /* offset of the BTH from the start of this packet */
	u16 nsegs; /* by reference: number of segments, which stand in the place of the payload */
	u16 rsvd[2];
	u8 hdr[SNIC_MAX_HDR];
	union {
		DECLARE_FLEX_ARRAY(u8, payload);
		DECLARE_FLEX_ARRAY(struct snic_seg, segs);
	};
};

static_assert(sizeof(struct snic_local_pkt) % SNIC_LOCAL_ALIGN == 0);

/* A burst by reference: packets with their headers and tail, and payload that any of them may cut. */
static_assert(SNIC_LOCAL_HLEN +
		      SNIC_BURST_PKTS * (sizeof(struct snic_local_pkt) + SNIC_LOCAL_ALIGN) +
		      (3 * SNIC_BURST_PKTS + SNIC_BURST_SEGS) * sizeof(struct snic_seg) <=
	      SNIC_LOCAL_LARGE);

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
	local->by_reference = false;
	local->npkts = 0;
	local->bytes = 0;
	local->used = 0;
}

/* Append the headers of @pkt. The caller adds the size of the packet. */
static struct snic_local_pkt *snic_local_add(struct snic_local *local,
					     const struct snic_tx_pkt *pkt)
{
	struct snic_local_pkt *out = (void *)local + SNIC_LOCAL_HLEN + local->used;
	u8 *start = (u8 *)(out + 1) - pkt->hdr_len;

	out->len = pkt->hdr_len + pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN;
	out->start = start - (u8 *)out;
	memcpy(start, pkt->hdr, pkt->hdr_len);
	local->npkts++;
	return out;
}

static void snic_local_add_copy(struct snic_local *local, const struct snic_tx_pkt *pkt, u32 size,
				struct snic_seg_iter *it)
{
	struct snic_local_pkt *out = snic_local_add(local, pkt);

	if (pkt->payload_len)
		snic_seg_copy(it, out->payload, pkt->payload_len);
	/* Padding is zero. No host checks the ICRC of a packet that was on no wire. */
	memset(out->payload + pkt->payload_len, 0, pkt->pad + SIRDMA_ICRC_LEN);
	out->size = size;
	local->used += size;
	local->bytes += size;
}

/* The padding and ICRC of packets by reference. */
static u8 snic_local_tail[3 + SIRDMA_ICRC_LEN];

static void snic_local_add_reference(struct snic_local *local, const struct snic_tx_pkt *pkt,
				     struct snic_seg_iter *it)
{
	struct snic_local_pkt *out = snic_local_add(local, pkt);
	struct snic_seg *seg = out->segs;
	u32 left;

	seg->ptr = (u8 *)out + out->start;
	seg->len = pkt->hdr_len;
	seg++;
	for (left = pkt->payload_len; left; left -= seg->len, seg++)
		seg->ptr = snic_seg_next(it, left, &seg->len);
	seg->ptr = snic_local_tail;
	seg->len = pkt->pad + SIRDMA_ICRC_LEN;
	seg++;
	out->nsegs = seg - out->segs;
	out->size = ALIGN((u8 *)seg - (u8 *)out, SNIC_LOCAL_ALIGN);
	local->used += out->size;
}

/*
 * Put @burst, which would take @bytes, into one buffer, with its payload by reference. Returns false if it
 * has to be copied.
 */
static bool snic_local_build_kept(struct snic_txq *q, struct snic_burst *burst, u32 bytes,
				  struct list_head *list)
{
	struct snic_local *local;
	struct snic_seg_iter it;
	u32 i;

	if (bytes < SNIC_LOCAL_KEEP_MIN || !burst->regions)
		return false;
	local = snic_local_alloc(true);
	if (!local)
		return false;
	if (!snic_burst_keep(burst, &local->kept)) {
		snic_local_free(local);
		return false;
	}
	snic_local_start(local, burst->flow);
	local->by_reference = true;
	local->q = q;
	local->finished = atomic_read(&q->finished);
	local->bytes = bytes;
	snic_seg_iter_init(&it, burst);
	for (i = 0; i < burst->npkts; i++)
		snic_local_add_reference(local, &burst->pkts[i], &it);
	list_add_tail(&local->node, list);
	return true;
}

u32 snic_local_build(struct snic_txq *q, struct snic_burst *burst, struct list_head *list)
{
	struct snic_local *local = NULL;
	u32 left = 0, room = 0, used = 0;
	struct snic_seg_iter it;
	u32 i, size;

	for (i = 0; i < burst->npkts; i++)
		left += snic_local_pkt_size(&burst->pkts[i]);
	if (snic_local_build_kept(q, burst, left, list))
		return left;
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
		snic_local_add_copy(local, &burst->pkts[i], size, &it);
		room -= size;
		left -= size;
		used += size;
	}
	if (i < burst->npkts)
		snic_stat_add(q->host->dev, SIRDMA_STAT_TX_DROPS, burst->npkts - i);
	return used;
}

/* Describe the packet @in of @local. @seg: for a packet that was copied. */
static void snic_local_read_pkt(const struct snic_local *local, struct snic_local_pkt *in,
				struct snic_seg *seg, struct snic_rx_pkt *pkt)
{
	pkt->len = in->len;
	if (local->by_reference) {
		pkt->segs = in->segs;
		pkt->nsegs = in->nsegs;
	} else {
		seg->ptr = (u8 *)in + in->start;
		seg->len = in->len;
		pkt->segs = seg;
		pkt->nsegs = 1;
	}
}

static void snic_local_put(struct snic_local *local)
{
	if (local->by_reference)
		snic_kept_put(&local->kept);
	snic_local_free(local);
}

u32 snic_local_deliver(struct snic_host *host, struct snic_local *local)
{
	struct snic_rx_pkt pkt = {
		.src_ip = local->src_ip,
		.dst_ip = local->dst_ip,
		.flow_label = local->is_v4 ? 0 : local->flow_label,
		.vlan_id = local->has_vlan ? local->vlan_id : 0,
		.traffic_class = local->traffic_class,
		.ttl = local->hop_limit,
		.is_v4 = local->is_v4,
		.by_reference = local->by_reference,
		.icrc_ok = true,
	};
	struct snic_cpu *cpu = snic_cpu_this();
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

		cpu->received += local->npkts;
		snic_stat_add(to->dev, SIRDMA_STAT_LOCAL_LOOP_PKTS, local->npkts);
		cpu->local = local;
		for (i = 0; i < local->npkts; i++) {
			struct snic_local_pkt *in = (void *)local + off;

			snic_local_read_pkt(local, in, &seg, &pkt);
			pkt.more = local->more || i + 1 < local->npkts;
			trace_snic_rx(to->ndev, &pkt);
			snic_rx_batch_add(&batch, &pkt);
			off += in->size;
		}
		snic_rx_batch_end(&batch);
		cpu->local = NULL;
		cost += batch.copies * SNIC_RX_MIN_COST;
	} else {
		snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, local->npkts);
	}
	rcu_read_unlock();
	snic_local_put(local);
	return cost;
}

bool snic_local_pull(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len)
{
	const struct snic_local *local = snic_cpu_this()->local;
	struct snic_txq *q = local->q;
	bool ok;

	/* snic_txq_finish_references() spins until the copy is made: no task may preempt it. */
	preempt_disable();
	WRITE_ONCE(q->copying, q->copying + 1);
	smp_mb(); /* pairs with snic_txq_finish_references(): one of the two sees the other */
	ok = likely(atomic_read(&q->finished) == local->finished);
	if (ok)
		snic_seg_copy(it, to, len);
	/* pairs with the acquire of snic_txq_finish_references() */
	smp_store_release(&q->copying, q->copying + 1);
	preempt_enable();
	return ok;
}

void snic_local_finish_references(struct snic_host *host, u32 qpn)
{
	unsigned int i;

	if (qpn) {
		snic_txq_finish_references(snic_host_txq(host, qpn));
		return;
	}
	for (i = 0; i < SNIC_TXQS; i++)
		snic_txq_finish_references(&host->txqs->q[i]);
}
