/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device model as its host sees it: create, registers, packets in and out.
 *
 * The host (kernel adapter, twin, test harness) owns the wire, DMA memory,
 * interrupts and time; the model owns everything between the register page
 * and the packets.
 *
 * Contexts: snic_reg_write() of CQPDB, CCQPHIGH and CTRL may sleep; every other
 * entry point may be called from softirq and does not sleep. Host callbacks
 * are made with a QP or CQ lock held: they must not call back into the model.
 */
#ifndef SNIC_H
#define SNIC_H

#include "burst.h"
#include "port/port.h"
#include "sirdma/regs.h"
#include "sirdma/stats.h"

struct snic_dev;
struct snic_host;
struct snic_qp;

struct snic_config {
	u32 max_qps; /* 3 .. 1 << 18; numbers below it: 0 is none, 1 the general services' */
	u32 max_cqs; /* .. 1 << 19 */
	u32 max_mrs; /* .. 1 << 24 */
	u32 max_pds; /* .. 1 << 18 */
	u32 max_sds; /* HMC size: .. SIRDMA_HMC_MAX_SD */
	u32 max_ceqs; /* .. 1023; interrupt vectors are max_ceqs + 1 */
	u32 max_arp; /* .. 65536 */
	u32 max_sgids; /* .. 1024 */
	u32 max_cqe; /* .. 1 << 20 */
	u32 window_bytes; /* unacknowledged bytes per QP, 0 = default */
	u32 sq_poll_ns; /* period of polling the send queue of a poster that does not wait; 0: never */
	u8 mac[6];
};

struct snic_host_ops {
	/* Raise interrupt @vector. Latched by the host and delivered after the model's locks are dropped. */
	void (*irq)(struct snic_host *host, u32 vector);
	/*
	 * May QP @qpn fill a burst? If not, the host remembers it, and calls
	 * snic_tx_resume(dev, qpn) once there is room and its turn. NULL: always.
	 */
	bool (*room)(struct snic_host *host, u32 qpn);
	/*
	 * Transmit @burst: packets of one flow, in order. The host copies what it
	 * needs before returning, and may say in burst->next what suits this peer.
	 * Returns the number of packets accepted from the front; when fewer than
	 * burst->npkts, the host calls snic_tx_resume(dev, burst->qpn) once there is
	 * room again.
	 */
	u32 (*tx)(struct snic_host *host, struct snic_burst *burst);
	/*
	 * Call snic_qp_run(dev, qpn) soon, from a fresh softirq-like context: there is more work
	 * than one call may do. @background: it may be late, others come first.
	 */
	void (*defer)(struct snic_host *host, u32 qpn, bool background);
	/* Burst buffer of this CPU or thread; valid while the caller holds a port_lock. */
	struct snic_burst *(*burst)(struct snic_host *host);
	/*
	 * For hosts that hand packets in by reference: fetch the next @len bytes of @it,
	 * payload of the packet being received, to @to. False when they can be had no
	 * more: the packet counts as lost.
	 */
	bool (*pull)(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len);
	/* For hosts that transmit by reference: what they have not delivered so far must not be read any more. */
	void (*revoke)(struct snic_host *host);
};

/*
 * The model keeps @host, @ops, @dma and @clock for its lifetime. NULL with a
 * port_warn() when @cfg is out of range or memory is short.
 */
struct snic_dev *snic_dev_create(const struct snic_config *cfg, const struct snic_host_ops *ops,
				 struct snic_host *host, struct port_dma *dma,
				 struct port_clock *clock);
/* No entry point may be running or called afterwards. Frees all objects. */
void snic_dev_destroy(struct snic_dev *dev);
/* Set SIRDMA_STATUS_FAULT, as a fault of the device would: its driver has to find it. */
void snic_dev_fault(struct snic_dev *dev);

u32 snic_reg_read(struct snic_dev *dev, u32 reg);
void snic_reg_write(struct snic_dev *dev, u32 reg, u32 val);

/* Look at the send queue (and, in the error state, both queues) of @qpn. */
void snic_qp_run(struct snic_dev *dev, u32 qpn);
/* The host has room again for @qpn after a short tx(). */
void snic_tx_resume(struct snic_dev *dev, u32 qpn);

/*
 * A received packet whose Ethernet, IP and UDP headers the host has parsed.
 * Everything else is unverified. Payload follows the transport headers in
 * segs[]; the first segment holds at least BTH and extended headers contiguously
 * (SNIC_RX_MIN_LINEAR bytes or the whole packet). Length includes pad and ICRC.
 *
 * By reference, the first segment holds the headers and nothing else, and only
 * snic_host_ops.pull() knows how to read the others.
 */
#define SNIC_RX_MIN_LINEAR 64
struct snic_rx_pkt {
	struct sirdma_ip src_ip; /* v4-mapped for IPv4 */
	struct sirdma_ip dst_ip;
	const struct snic_seg *segs; /* from the BTH on */
	u32 nsegs;
	u32 len; /* BTH to ICRC inclusive */
	u16 vlan_id; /* 0: untagged, or tagged for its priority only */
	u8 traffic_class;
	u8 ttl;
	bool is_v4;
	bool icrc_ok; /* the host checked it (or the packet never left this device) */
	u32 npkts; /* a super-packet of so many (super.h); 0, 1: an ordinary one */
	bool by_reference;
	bool more; /* another packet of the same flow follows at once: acknowledgements may wait */
};

/*
 * Does the queue pair that @pkt names exist? If not, the packet is counted and done with.
 * A host asks before it sums the ICRC, so that packets for nobody cost it little.
 */
bool snic_rx_has_qp(struct snic_dev *dev, const struct snic_rx_pkt *pkt);

/* Process one packet; what is wrong with it is counted, never propagated. */
void snic_rx(struct snic_dev *dev, const struct snic_rx_pkt *pkt);

/*
 * Packets that came together: what the last one's QP and region were is kept, the
 * QP locked, from one to the next. Begins as {.dev = dev}; ends before the host
 * does anything else that enters the model or waits.
 */
struct snic_rx_batch {
	struct snic_dev *dev;
	struct snic_qp *qp;
	u32 pkts; /* of qp */
	u32 bytes;
};

void snic_rx_batch_add(struct snic_rx_batch *batch, const struct snic_rx_pkt *pkt);
void snic_rx_batch_end(struct snic_rx_batch *batch);

/* Count a packet the host had to reject itself (SIRDMA_STAT_RX_*). */
void snic_rx_reject(struct snic_dev *dev, enum sirdma_stat why);

/* Port state for SIRDMA_REG_LINK; @mtu in bytes of L3. */
void snic_link_set(struct snic_dev *dev, bool up, u32 mtu);
void snic_mac_set(struct snic_dev *dev, const u8 mac[6]);

u64 snic_stat_read(struct snic_dev *dev, enum sirdma_stat id);
void snic_stat_add(struct snic_dev *dev, enum sirdma_stat id, u64 n);

#endif
