/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tracepoints of the device: the traffic between driver, device and wire. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sirdma_nic

#if !defined(SNIC_HOST_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SNIC_HOST_TRACE_H

#include <linux/netdevice.h>
#include <linux/tracepoint.h>
#include "model/snic.h"
#include "sirdma/regs.h"
#include "sirdma/stats.h"

#ifndef SNIC_TRACE_HELPERS
#define SNIC_TRACE_HELPERS

/* What is shown of a register's value. An address on this bus is an address of the kernel. */
static inline u32 snic_trace_reg_value(u32 reg, u32 val)
{
	return reg == SIRDMA_REG_CCQPHIGH || reg == SIRDMA_REG_CCQPLOW ? 0 : val;
}

/* The BTH of the packet, at any address, or zeros. If the packet has one, the first segment contains it. */
static inline struct sirdma_bth snic_trace_bth(const struct snic_rx_pkt *pkt)
{
	struct sirdma_bth bth = {};

	if (pkt->nsegs && pkt->segs[0].len >= sizeof(bth))
		memcpy(&bth, pkt->segs[0].ptr, sizeof(bth));
	return bth;
}

#endif

TRACE_EVENT(snic_reg_write,
	TP_PROTO(const struct net_device *ndev, u32 reg, u32 val),
	TP_ARGS(ndev, reg, val),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, reg)
		__field(u32, val)
	),
	TP_fast_assign(
		__entry->ifindex = ndev->ifindex;
		__entry->reg = reg;
		__entry->val = snic_trace_reg_value(reg, val);
	),
	TP_printk("ifindex=%d %s=0x%x", __entry->ifindex,
		  __print_symbolic(__entry->reg,
				   { SIRDMA_REG_CTRL, "CTRL" },
				   { SIRDMA_REG_CCQPLOW, "CCQPLOW" },
				   { SIRDMA_REG_CCQPHIGH, "CCQPHIGH" },
				   { SIRDMA_REG_CQPDB, "CQPDB" },
				   { SIRDMA_REG_PMPDINV, "PMPDINV" },
				   { SIRDMA_REG_AEQALLOC, "AEQALLOC" },
				   { SIRDMA_REG_CQARM, "CQARM" },
				   { SIRDMA_REG_WQEALLOC, "WQEALLOC" },
				   { SIRDMA_REG_INT_MASK, "INT_MASK" },
				   { SIRDMA_REG_CEQACK, "CEQACK" }), __entry->val)
);

TRACE_EVENT(snic_kick,
	TP_PROTO(const struct net_device *ndev, u32 qpn),
	TP_ARGS(ndev, qpn),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, qpn)
	),
	TP_fast_assign(
		__entry->ifindex = ndev->ifindex;
		__entry->qpn = qpn;
	),
	TP_printk("ifindex=%d qpn=0x%x", __entry->ifindex, __entry->qpn)
);

TRACE_EVENT(snic_irq,
	TP_PROTO(const struct net_device *ndev, u32 vector),
	TP_ARGS(ndev, vector),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, vector)
	),
	TP_fast_assign(
		__entry->ifindex = ndev->ifindex;
		__entry->vector = vector;
	),
	TP_printk("ifindex=%d vector=%u", __entry->ifindex, __entry->vector)
);

TRACE_EVENT(snic_tx,
	TP_PROTO(const struct net_device *ndev, const struct snic_burst *burst, u32 accepted,
		 bool local),
	TP_ARGS(ndev, burst, accepted, local),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, qpn)
		__field(u32, npkts)
		__field(u32, accepted)
		__field(u8, opcode)
		__field(bool, local)
	),
	TP_fast_assign(
		__entry->ifindex = ndev->ifindex;
		__entry->qpn = burst->qpn;
		__entry->npkts = burst->npkts;
		__entry->accepted = accepted;
		__entry->opcode = burst->npkts ? burst->pkts[0].hdr[0] : 0;
		__entry->local = local;
	),
	TP_printk("ifindex=%d qpn=0x%x packets=%u accepted=%u first_opcode=0x%02x%s",
		  __entry->ifindex, __entry->qpn, __entry->npkts, __entry->accepted,
		  __entry->opcode, __entry->local ? " local" : "")
);

TRACE_EVENT(snic_rx,
	TP_PROTO(const struct net_device *ndev, const struct snic_rx_pkt *pkt),
	TP_ARGS(ndev, pkt),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, len)
		__field(u8, opcode)
		__field(bool, icrc_ok)
		__field(bool, more)
	),
	TP_fast_assign(
		const struct sirdma_bth bth = snic_trace_bth(pkt);

		__entry->ifindex = ndev->ifindex;
		__entry->qpn = be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK;
		__entry->psn = be32_to_cpu(bth.apsn) & SIRDMA_PSN_MASK;
		__entry->opcode = bth.opcode;
		__entry->len = pkt->len;
		__entry->icrc_ok = pkt->icrc_ok;
		__entry->more = pkt->more;
	),
	TP_printk("ifindex=%d qpn=0x%x opcode=0x%02x psn=0x%x len=%u icrc=%s%s", __entry->ifindex,
		  __entry->qpn, __entry->opcode, __entry->psn, __entry->len,
		  __entry->icrc_ok ? "ok" : "bad", __entry->more ? " more" : "")
);

#define SNIC_STAT_NAME(id, name) { SIRDMA_STAT_##id, #name },
#define SNIC_STAT_END { SIRDMA_STAT_COUNT, "none" }

TRACE_EVENT(snic_rx_reject,
	TP_PROTO(const struct net_device *ndev, enum sirdma_stat why),
	TP_ARGS(ndev, why),
	TP_STRUCT__entry(
		__field(int, ifindex)
		__field(u32, why)
	),
	TP_fast_assign(
		__entry->ifindex = ndev->ifindex;
		__entry->why = why;
	),
	TP_printk("ifindex=%d why=%s", __entry->ifindex,
		  __print_symbolic(__entry->why, SIRDMA_STATS(SNIC_STAT_NAME) SNIC_STAT_END))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH host
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
