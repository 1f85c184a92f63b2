/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A burst: the unit that the model gives its host to transmit. Packets of one flow, in
 * order, with their transport headers and a common scatter list of payload.
 */
#ifndef SNIC_BURST_H
#define SNIC_BURST_H

#include "port/port.h"
#include "qp_side.h"
#include "sirdma/qpctx.h"
#include "sirdma/roce.h"

struct snic_mrc;

struct snic_seg {
	void *ptr;
	u32 len;
};

/* The addresses of a flow, for the headers below the BTH. */
struct snic_flow {
	struct sirdma_ip src_ip; /* v4-mapped for IPv4 */
	struct sirdma_ip dst_ip;
	u8 src_mac[6];
	u8 dst_mac[6];
	u32 flow_label; /* IPv6, 20 bits */
	u16 udp_sport;
	u16 vlan_id;
	u8 vlan_prio;
	bool has_vlan;
	bool is_v4;
	u8 traffic_class;
	u8 hop_limit;
};

/* BTH + the longest run of extended headers, or RETH and inline data; rounded up. */
#define SNIC_MAX_HDR 48
#define SNIC_BURST_PKTS 64
#define SNIC_BURST_SEGS 128
/* Bytes of payload of a burst: the largest limit that a host may set, and the default limit. */
#define SNIC_BURST_BYTES (256 * 1024)
#define SNIC_BURST_DEFAULT 65536
/*
 * Bytes of payload of a burst that begins within a message: with its headers the burst fits one GSO
 * packet (64 KiB).
 */
#define SNIC_BURST_GSO 61440

struct snic_tx_pkt {
	union {
		struct sirdma_bth bth;
		/* BTH and extended headers, pad count set; then inline data (snic_pkt_inline_data()) */
		u8 hdr[SNIC_MAX_HDR];
	};
	u8 hdr_len; /* of all that hdr has */
	u8 pad; /* bytes of zero padding after the payload, 0..3 */
	u16 payload_len; /* payload in the scatter list */
};

/* What the host says of the path to a peer. */
struct snic_limits {
	u32 burst; /* payload of a burst, bytes: that of one packet .. SNIC_BURST_BYTES; 0: the default */
	u32 window : 31; /* bytes that may be unacknowledged; 0: the default */
	/*
	 * The peer is near and idles with us: packets get lost with it only, and it acknowledges what it was
	 * not asked to when nothing more comes (snic_host_ops.linger()). Only with PORT_WIRE_IN_MEMORY. One-sided
	 * execution has to wait for such acknowledgements.
	 */
	u32 near : 1;
};

/* In snic_burst.una: the host knows it from finish_kept_before(), or from an earlier burst that it keeps. */
#define SNIC_UNA_KNOWN (~0u)

struct snic_burst {
	const struct snic_flow *flow;
	u32 qpn; /* The local QP. Hosts choose a queue by it, and account for it. */
	u32 npkts;
	u32 nsegs;
	struct snic_limits next; /* limits from the next burst on; tx() may set them */
	/*
	 * The host's room for SNIC_BURST_BYTES of payload that the model copies, only where
	 * port_dma_may_fault(). Byte n of the payload is copied to the place n, and stays until tx()
	 * has returned.
	 */
	u8 *copies;
	/*
	 * The host must have read the payload when tx() returns, so it must not transmit it by reference: some of it is in
	 * copies, or belongs to a request that completes when it is sent. Only with PORT_MEMORY_MAY_FAULT or
	 * PORT_WIRE_IN_MEMORY.
	 */
	bool transient;
	bool signaled; /* a request in it has a completion; only with PORT_WIRE_IN_MEMORY */
	/*
	 * The regions in which all payload lies, until tx() returns. NULL: the payload may not be kept,
	 * or snic_burst_keep() has taken the regions.
	 */
	struct snic_mrc *regions;
	/* If it may be kept: */
	enum snic_side side; /* requests, or responses to READs */
	u32 una; /* SNIC_UNA_KNOWN, or PSN of the oldest request that is not acknowledged */
	struct snic_tx_pkt pkts[SNIC_BURST_PKTS];
	struct snic_seg segs[SNIC_BURST_SEGS]; /* payload of all packets, back to back */
};

/* A position in the payload of a burst or packet. */
struct snic_seg_iter {
	const struct snic_seg *seg;
	u32 off;
	bool by_reference; /* see struct snic_rx_pkt */
};

/*
 * Return the next contiguous bytes at @it, set *run to their number (at most @len), and advance @it
 * past them.
 */
static inline void *snic_seg_next(struct snic_seg_iter *it, u32 len, u32 *run)
{
	const struct snic_seg *seg = it->seg;
	void *p = (u8 *)seg->ptr + it->off;
	u32 left = seg->len - it->off;

	*run = len < left ? len : left; /* not min(), which C++ defines differently */
	it->off += *run;
	if (it->off == seg->len) {
		it->seg++;
		it->off = 0;
	}
	return p;
}

/*
 * The next @len bytes at @it, which is advanced past them. NULL: they are in several pieces, and
 * nothing has changed.
 */
static inline void *snic_seg_whole(struct snic_seg_iter *it, u32 len)
{
	u32 run;

	return len <= it->seg->len - it->off ? snic_seg_next(it, len, &run) : NULL;
}

static inline void snic_seg_iter_init(struct snic_seg_iter *it, const struct snic_burst *burst)
{
	it->seg = burst->segs;
	it->off = 0;
	it->by_reference = false;
}

#endif
