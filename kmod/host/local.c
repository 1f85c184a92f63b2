// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "local.h"

#include <linux/bitfield.h>
#include <linux/etherdevice.h>
#include <linux/gfp.h>
#include <linux/slab.h>
#include "addr.h"
#include "cpu.h"
#include "dev.h"
#include "model/frame.h"
#include "model/kept.h"
#include "model/packet.h"
#include "rx.h"
#include "host/trace.h"

/* Sizes of buffers: one for acknowledgements and small messages, another for bulk data. */
#define SNIC_LOCAL_SMALL 1024
#define SNIC_LOCAL_ORDER 3
#define SNIC_LOCAL_LARGE (PAGE_SIZE << SNIC_LOCAL_ORDER)

#define SNIC_LOCAL_ALIGN 64
#define SNIC_LOCAL_HLEN ALIGN(sizeof(struct snic_local), SNIC_LOCAL_ALIGN)

/*
 * A burst is kept if it has this many bytes of payload, and if its packets have this many on average. In
 * User-Mode Linux, ib_write_bw between queue pairs of one device: messages of 4 KiB have 1.25 to 1.4 times the
 * bandwidth that they have when they are copied twice; messages of 64 KiB 1.5 times with a path MTU (-m) of 512, 1.4
 * with 1024, 1.0 with 2048, 1.8 with 4096. Less was not measured.
 */
#define SNIC_LOCAL_KEEP_MIN 4096
#define SNIC_LOCAL_KEEP_PKT_MIN 512

/* A packet in a buffer. The transport headers end where the aligned payload starts. */
struct snic_local_pkt {
	u32 size; /* offset from this packet to the next one */
	u32 len; /* length from the BTH to the ICRC */
	u16 start; /* offset of the BTH from the start of this packet */
	u16 nsegs; /* by reference: number of segments, which stand in the place of the payload */
	u32 psn;
	u8 hdr[SNIC_MAX_HDR];
	union {
		DECLARE_FLEX_ARRAY(u8, payload);
		DECLARE_FLEX_ARRAY(struct snic_seg, segs);
	};
};

static_assert(sizeof(struct snic_local_pkt) % SNIC_LOCAL_ALIGN == 0);

/* The head of a buffer of packets by reference. */
struct snic_local_kept {
	struct snic_txq *q;
	u32 qpn; /* the sender */
	u32 gen; /* the generation of its snic_txq_readable when the payload was kept */
	enum snic_side side;
	struct snic_kept regions;
};

#define SNIC_LOCAL_KEPT_LEN ALIGN(sizeof(struct snic_local_kept), SNIC_LOCAL_ALIGN)
#define SNIC_LOCAL_ROOM(large) (((large) ? SNIC_LOCAL_LARGE : SNIC_LOCAL_SMALL) - SNIC_LOCAL_HLEN)

/*
 * The room that a burst by reference needs at most. A packet has segments for its headers and its tail, and
 * its end may cut one of the payload.
 */
#define SNIC_LOCAL_KEPT_ROOM(npkts, nsegs) \
	(SNIC_LOCAL_KEPT_LEN + (nsegs) * sizeof(struct snic_seg) + \
	 (npkts) * \
		 (sizeof(struct snic_local_pkt) + 3 * sizeof(struct snic_seg) + SNIC_LOCAL_ALIGN))

static_assert(SNIC_LOCAL_KEPT_ROOM(SNIC_BURST_PKTS, SNIC_BURST_SEGS) <= SNIC_LOCAL_ROOM(true));
static_assert(SNIC_LOCAL_HLEN <= 128); /* seven acknowledgements fit a small buffer */

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
	out->psn = snic_pkt_psn(pkt);
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

static struct snic_local_kept *snic_local_kept(const struct snic_local *local)
{
	return (void *)local + SNIC_LOCAL_HLEN;
}

static bool snic_local_is_worth_keeping(const struct snic_burst *burst)
{
	u32 i, payload = 0;

	if (!burst->regions)
		return false;
	for (i = 0; i < burst->npkts; i++)
		payload += burst->pkts[i].payload_len;
	return payload >= SNIC_LOCAL_KEEP_MIN && payload >= burst->npkts * SNIC_LOCAL_KEEP_PKT_MIN;
}

/*
 * Put @burst, which is charged @bytes, into one buffer, with its payload by reference. Returns false if it
 * has to be copied.
 */
static bool snic_local_build_kept(struct snic_txq *q, struct snic_burst *burst, u32 bytes,
				  struct list_head *list)
{
	struct snic_txq_readable *may = snic_txq_readable(q, burst->qpn);
	struct snic_local_kept *kept;
	struct snic_local *local;
	struct snic_seg_iter it;
	u32 i;

	if (!snic_local_is_worth_keeping(burst))
		return false;
	local = snic_local_alloc(SNIC_LOCAL_KEPT_ROOM(burst->npkts, burst->nsegs) >
				 SNIC_LOCAL_ROOM(false));
	if (!local)
		return false;
	kept = snic_local_kept(local);
	if (!snic_burst_keep(burst, &kept->regions)) {
		snic_local_free(local);
		return false;
	}
	snic_local_start(local, burst->flow);
	local->by_reference = true;
	local->used = SNIC_LOCAL_KEPT_LEN;
	local->bytes = bytes;
	kept->q = q;
	kept->qpn = burst->qpn;
	kept->side = burst->side;
	kept->gen = may->gen[burst->side];
	/* The line is the reader's, so it is written only if need be. */
	if (burst->una != SNIC_UNA_KNOWN && burst->una != may->una)
		WRITE_ONCE(may->una, burst->una);
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
			bool large = left > SNIC_LOCAL_ROOM(false);

			if (local)
				local->more = true;
			local = snic_local_alloc(large);
			if (!local)
				break;
			snic_local_start(local, burst->flow);
			list_add_tail(&local->node, list);
			room = SNIC_LOCAL_ROOM(large);
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
		snic_cpu_this()->psn = in->psn;
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
		snic_kept_put(&snic_local_kept(local)->regions);
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
	u32 i, off = SNIC_LOCAL_HLEN + (local->by_reference ? SNIC_LOCAL_KEPT_LEN : 0),
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
		if (local->by_reference)
			snic_stat_add(to->dev, SIRDMA_STAT_LOCAL_KEPT_PKTS, local->npkts);
		cpu->delivering = local;
		for (i = 0; i < local->npkts; i++) {
			struct snic_local_pkt *in = (void *)local + off;

			snic_local_read_pkt(local, in, &seg, &pkt);
			pkt.more = local->more || i + 1 < local->npkts;
			trace_snic_rx(to->ndev, &pkt);
			snic_rx_batch_add(&batch, &pkt);
			off += in->size;
		}
		snic_rx_batch_end(&batch);
		cpu->delivering = NULL;
		cost += batch.copies * SNIC_RX_MIN_COST;
	} else {
		snic_stat_add(host->dev, SIRDMA_STAT_TX_DROPS, local->npkts);
	}
	rcu_read_unlock();
	snic_local_put(local);
	return cost;
}

/* May the payload of the packet with @psn be read? */
static bool snic_local_may_read(const struct snic_local_kept *kept, u32 psn)
{
	const struct snic_txq_readable *may = snic_txq_readable(kept->q, kept->qpn);

	return READ_ONCE(may->gen[kept->side]) == kept->gen &&
	       (kept->side == SNIC_RESPONDER || snic_psn_diff(psn, READ_ONCE(may->una)) >= 0);
}

static u64 snic_local_copying(const struct snic_local_kept *kept, u32 psn)
{
	return SNIC_COPYING | (kept->side == SNIC_RESPONDER ? SNIC_COPYING_RESPONSE : 0) |
	       FIELD_PREP(SNIC_COPYING_QPN, kept->qpn) | FIELD_PREP(SNIC_COPYING_PSN, psn);
}

bool snic_local_pull(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len)
{
	const struct snic_cpu *cpu = snic_cpu_this();
	const struct snic_local_kept *kept = snic_local_kept(cpu->delivering);
	u64 *copying = &kept->q->copying;
	const void *from;
	bool ok;
	u32 run;

	/* snic_txq_wait_copied() spins until the copy is made: no task may preempt this one. */
	preempt_disable();
	/* pairs with snic_txq_copying(): the copies before this one have ended */
	smp_store_release(copying, snic_local_copying(kept, cpu->psn));
	smp_mb(); /* pairs with that of snic_txq_copying() */
	ok = likely(snic_local_may_read(kept, cpu->psn));
	/* The source and the place may overlap. */
	for (; ok && len; len -= run, to += run) {
		from = snic_seg_next(it, len, &run);
		memmove(to, from, run);
	}
	/* pairs with snic_txq_wait_copied() */
	smp_store_release(copying, 0);
	preempt_enable();
	return ok;
}

void snic_local_finish_kept(struct snic_host *host, u32 qpn, enum snic_side side)
{
	if (host->txqs)
		snic_txq_finish_kept(snic_host_txq(host, qpn), qpn, side);
}

void snic_local_finish_kept_before(struct snic_host *host, u32 qpn, u32 una)
{
	snic_txq_finish_kept_before(snic_host_txq(host, qpn), qpn, una);
}
