/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The interface between the device model and its host: creation, registers, packets.
 *
 * The host (kernel module, twin, test harness) provides the network, DMA memory,
 * interrupts and time. The model does everything between the register page and the
 * packets.
 *
 * Contexts: snic_reg_write() of CQPDB, CCQPHIGH, CTRL and PBLESYNC may sleep. Every other entry point
 * may be called from softirq and does not sleep. The model calls the host with a QP or CQ
 * lock held, so the host must not call the model from its callbacks.
 */
#ifndef SNIC_H
#define SNIC_H

#include "burst.h"
#include "port/port.h"
#include "qp_side.h"
#include "run.h"
#include "sirdma/regs.h"
#include "sirdma/stats.h"

struct snic_dev;
struct snic_host;
struct snic_qp;
struct snic_stream;

struct snic_config {
	u32 max_qps; /* 3 .. 1 << 18; number 0 is none, and 1 is the GSI QP */
	u32 max_cqs; /* .. 1 << 19 */
	u32 max_srqs; /* 2 .. 1 << 16; 0 is none */
	u32 max_mrs; /* .. 1 << 24 */
	u32 max_pds; /* .. (1 << 18) - 1 */
	u32 max_sds; /* HMC size: .. SIRDMA_HMC_MAX_SD */
	u32 max_ceqs; /* .. 1023; interrupt vectors are max_ceqs + 1 */
	u32 max_arp; /* .. 65536 */
	u32 max_sgids; /* .. 1024 */
	u32 max_cqe; /* .. 1 << 20 */
	u32 window_bytes; /* unacknowledged bytes per QP, 0 = default */
	/* length of a READ request where 16 may be under way, bytes; 0: SNIC_READ_CHUNK, which is the most */
	u32 read_bytes;
	u32 sq_poll_ns; /* period of the poll timer, for posters that do not wait; 0: no timer */
	u8 mac[6];
};

/*
 * A request for the host to execute in the memory of the peer. Everything that the QP requested before is
 * done, and nothing that it requests later is sent before the host has returned.
 */
#define SNIC_ONE_SIDED_MAX 4096
enum snic_one_sided_op {
	SNIC_ONE_SIDED_READ,
	SNIC_ONE_SIDED_WRITE,
	SNIC_ONE_SIDED_FETCH_ADD, /* of SIRDMA_ATOMIC_LEN bytes, in CPU byte order; also the next one */
	SNIC_ONE_SIDED_CMP_SWAP,
};
struct snic_one_sided {
	const struct snic_flow *flow; /* the addresses of both ends */
	u32 qpn;
	u32 dest_qpn;
	u64 va; /* of the peer's region */
	u32 rkey;
	u32 len; /* 1 .. SNIC_ONE_SIDED_MAX */
	u8 op; /* enum snic_one_sided_op */
	u64 swap_add; /* of an atomic */
	u64 compare;
	u8 *data; /* @len bytes to write, or room for what is read; in snic_burst.copies when the host may wait */
	/*
	 * The host's own, 0 since the QP left RESET. If the host refuses a request, the peer has executed and
	 * acknowledged it before the QP asks again.
	 */
	u64 *note;
};

/*
 * What the host has done with a request. If it was not executed, only @data of a READ and a part of the memory to
 * be written have changed; an atomic has changed no memory.
 */
enum snic_one_sided_status {
	SNIC_ONE_SIDED_REFUSED, /* it has to be sent */
	SNIC_ONE_SIDED_EXECUTED,
	SNIC_ONE_SIDED_WOULD_BLOCK, /* one_sided() may execute it */
};

struct snic_host_ops {
	/* Raise interrupt @vector. The host delivers it after the model has dropped its locks. */
	void (*irq)(struct snic_host *host, u32 vector);
	/*
	 * Is there room for a burst of QP @qpn? If not, the host queues the QP and calls
	 * snic_tx_resume(dev, qpn) when there is room and the QP is next. NULL: always.
	 */
	bool (*room)(struct snic_host *host, u32 qpn);
	/*
	 * Transmit @burst. The host copies or keeps the parts that it needs before it returns, and may set
	 * limits for this peer in burst->next. Returns how many packets, from the first on, it
	 * accepted; if fewer than burst->npkts, the host calls snic_tx_resume(dev, burst->qpn) when
	 * there is room again.
	 */
	u32 (*tx)(struct snic_host *host, struct snic_burst *burst);
	/*
	 * Call snic_qp_run(dev, qpn) soon, from a bottom half of its own: there is more work than
	 * one call may do. @background: other QPs come first.
	 */
	void (*defer)(struct snic_host *host, u32 qpn, bool background);
	/*
	 * The burst buffer of this CPU or thread; the caller may use it while it holds a
	 * port_lock.
	 */
	struct snic_burst *(*burst)(struct snic_host *host);
	/*
	 * For hosts that receive by reference: copy the next @len bytes at @it, payload of the
	 * packet being received, to @to. Returns false when the memory may not be read any more: the
	 * packet counts as lost.
	 */
	bool (*pull)(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len);
	/*
	 * For hosts that transmit by reference: the memory is about to be reused. After this call
	 * has returned, peers read no payload that was transmitted before the call.
	 */
	void (*finish_references)(struct snic_host *host);
	/*
	 * For hosts that keep bursts (kept.h): the same for the payload of QP @qpn that the host keeps.
	 * finish_kept(): for its requests or for its responses. finish_kept_before(): for requests before
	 * PSN @una, which are acknowledged. Calls for one QP do not overlap.
	 */
	void (*finish_kept)(struct snic_host *host, u32 qpn, enum snic_side side);
	void (*finish_kept_before)(struct snic_host *host, u32 qpn, u32 una);
	/*
	 * For hosts that reach the memory of some peers: execute @request without waiting, if the peer would accept
	 * it, and packets would not be faster. NULL: all requests are sent. The host has snic_burst.copies.
	 */
	enum snic_one_sided_status (*one_sided_nowait)(struct snic_host *host,
						       const struct snic_one_sided *request);
	/*
	 * The same, and the host may wait: called after one_sided_nowait() has returned
	 * SNIC_ONE_SIDED_WOULD_BLOCK. Returns false if the request has to be sent. The model holds no lock and reads
	 * nothing under RCU during the call, so that it may wait.
	 */
	bool (*one_sided)(struct snic_host *host, const struct snic_one_sided *request);
	/*
	 * QP @qpn has received messages that nobody wants acknowledged soon. Call snic_qp_acknowledge(dev, qpn)
	 * when nothing more comes, and before the process may end. NULL: the host does not.
	 */
	void (*linger)(struct snic_host *host, u32 qpn);
	/* QP @qpn has left the states in which it receives, by an error. May be NULL. */
	void (*qp_failed)(struct snic_host *host, u32 qpn);
};

/*
 * @host, @ops, @dma and @clock must outlive the device. Returns NULL, with a port_warn(), when @cfg
 * is out of range or memory is short.
 */
struct snic_dev *snic_dev_create(const struct snic_config *cfg, const struct snic_host_ops *ops,
				 struct snic_host *host, struct port_dma *dma,
				 struct port_clock *clock);
/* Free the device and all objects. No other entry point may be running, or called afterwards. */
void snic_dev_destroy(struct snic_dev *dev);
/* Set SIRDMA_STATUS_FAULT, to test how the driver handles a fault of the device. */
void snic_dev_fault(struct snic_dev *dev);

u32 snic_reg_read(struct snic_dev *dev, u32 reg);
void snic_reg_write(struct snic_dev *dev, u32 reg, u32 val);

/*
 * The doorbell of QP @qpn: something was posted, or absent memory is present again. The call
 * processes the send queue and, in the error state, both queues.
 */
void snic_qp_kick(struct snic_dev *dev, u32 qpn);
/*
 * The same doorbell, from the user context with the driver's number @kicker. Returns false, and does
 * nothing, if that context has no such QP.
 */
bool snic_qp_kick_by(struct snic_dev *dev, u32 qpn, u32 kicker);
/*
 * Called after kicks: has QP @qpn, of RC or UC, received one message since the last call? Then its poster and its
 * peer's most likely wait for each other in turns.
 */
bool snic_qp_takes_turns(struct snic_dev *dev, u32 qpn);
/* The same doorbell for callers in any context: the host calls snic_qp_run() soon. */
void snic_qp_ring(struct snic_dev *dev, u32 qpn);
/* Do the pending work of QP @qpn, if there is any: deferred work, or a doorbell of snic_qp_ring(). */
void snic_qp_run(struct snic_dev *dev, u32 qpn);
/* Acknowledge what QP @qpn has received, see snic_host_ops.linger(). */
void snic_qp_acknowledge(struct snic_dev *dev, u32 qpn);
/* The host has room for QP @qpn, which it refused in room() or tx() before. */
void snic_tx_resume(struct snic_dev *dev, u32 qpn);

/*
 * A received packet. The host has parsed the Ethernet, IP and UDP headers; the rest is
 * unverified. segs[] holds transport headers, payload, pad and ICRC. The first segment has
 * at least SNIC_RX_MIN_LINEAR bytes or the whole packet, so that the headers are
 * contiguous.
 *
 * Of a packet by reference the first segment has the headers, and inline data of a WQE if that is in
 * snic_tx_pkt.hdr. The payload is read by snic_host_ops.pull().
 */
#define SNIC_RX_MIN_LINEAR 64
struct snic_rx_pkt {
	struct sirdma_ip src_ip; /* v4-mapped for IPv4 */
	struct sirdma_ip dst_ip;
	const struct snic_seg *segs; /* all bytes from the BTH on */
	u32 nsegs;
	u32 len; /* BTH to ICRC inclusive */
	u32 flow_label; /* IPv6, 20 bits */
	u16 vlan_id; /* 0: untagged, or tagged for its priority only */
	u8 src_mac[6];
	u8 traffic_class;
	u8 ttl;
	bool is_v4;
	bool icrc_ok; /* the host checked the ICRC (or the packet never left this device) */
	u32 npkts; /* packets in a super-packet (super.h); 0 or 1: the packet is an ordinary one */
	bool by_reference; /* the payload is pulled (snic_host_ops.pull()) */
	bool more; /* another packet of the same flow follows at once: acknowledgements may wait */
};

/*
 * Does the QP that @pkt names exist, or does its multicast group? If not, the packet is counted and
 * the host drops it. The host asks before it computes the ICRC, so that packets without a QP cost
 * little.
 */
bool snic_rx_has_qp(struct snic_dev *dev, const struct snic_rx_pkt *pkt);

/* Does a queue pair receive packets to the multicast address @ip? Any context. */
bool snic_mcast_has(struct snic_dev *dev, const struct sirdma_ip *ip);

/*
 * Process one packet. Errors are counted, not returned. Returns how many queue pairs beyond the
 * first the packet was offered to: a multicast packet costs as much for each.
 */
u32 snic_rx(struct snic_dev *dev, const struct snic_rx_pkt *pkt);

/* The small WRITE that a batch received last: what the next one has in common with it in most cases (stream.h). */
struct snic_rx_last {
	__be64 bth; /* all but the last word */
	__be64 rkey_len; /* of the RETH */
	u32 len; /* BTH to ICRC; 0: the last packet was none */
	u16 payload_len;
	u8 traffic_class;
	u8 hlen; /* bytes of a frame before the BTH */
};

/*
 * Packets received together. From one packet to the next the batch keeps the QP locked and
 * its region referenced. It begins as {.dev = dev}, and must end before the host enters
 * the model otherwise, or sleeps.
 */
struct snic_rx_batch {
	struct snic_dev *dev;
	struct snic_qp *qp;
	struct snic_rx_mem mem;
	u32 pkts; /* packets received since qp was locked */
	u32 bytes; /* bytes of their payload */
	u32 request_bytes; /* bytes of payload of requests as they came, valid or not; the model never resets it */
	u32 frames; /* frames that carried them, each counted for one queue pair only */
	u32 frame_bytes; /* bytes of those frames, Ethernet header to ICRC */
	u32 copies; /* of all packets of the batch, what snic_rx() returns for one */
	struct snic_rx_last last; /* only with PORT_WIRE_IN_MEMORY */
};

void snic_rx_batch_add(struct snic_rx_batch *batch, const struct snic_rx_pkt *pkt);
/*
 * Receive a packet of the same flow as the last one of the batch: @len contiguous bytes, BTH to
 * ICRC, which need not be checked; @more as in struct snic_rx_pkt. Returns false if it is no small
 * WRITE like that one: nothing has changed, and the host describes it to snic_rx_batch_add(). Only
 * with PORT_WIRE_IN_MEMORY, as the next function.
 */
bool snic_rx_batch_try_write(struct snic_rx_batch *batch, const u8 *data, u32 len, u8 traffic_class,
			     bool more);
/*
 * The same for the packets of a stream, whose writes may change meanwhile. Returns how many were received, from the
 * first on.
 */
u32 snic_rx_batch_try_stream(struct snic_rx_batch *batch, const struct snic_stream *stream,
			     u8 traffic_class, bool more);
void snic_rx_batch_end(struct snic_rx_batch *batch);

/* Count a packet that the host rejected (SIRDMA_STAT_RX_*). */
void snic_rx_reject(struct snic_dev *dev, enum sirdma_stat why);

/* Set the port state for SIRDMA_REG_LINK. @mtu is in bytes of L3. */
void snic_link_set(struct snic_dev *dev, bool up, u32 mtu);
void snic_mac_set(struct snic_dev *dev, const u8 mac[6]);

u64 snic_stat_read(struct snic_dev *dev, enum sirdma_stat id);
void snic_stat_add(struct snic_dev *dev, enum sirdma_stat id, u64 n);

#endif
