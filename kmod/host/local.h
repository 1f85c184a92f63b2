/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets between two devices of one network namespace and VRF, or two QPs of one
 * device. They never become frames: their headers are copied into a recycled buffer, and so is short
 * payload. The receiving model reads them there. The payload of a long burst stays in the sender's
 * regions, whose references the buffer holds, and the receiving model copies it from there.
 */
#ifndef SNIC_HOST_LOCAL_H
#define SNIC_HOST_LOCAL_H

#include <linux/if_ether.h>
#include <linux/list.h>
#include "model/burst.h"
#include "model/kept.h"

struct snic_charge;
struct snic_cpu;
struct snic_host;
struct snic_txq;

/* One buffer with packets of one flow, back to back. */
struct snic_local {
	struct list_head node; /* entry of struct snic_txq.local */
	struct snic_charge *charge;
	struct sirdma_ip src_ip;
	struct sirdma_ip dst_ip;
	u8 src_mac[ETH_ALEN];
	u16 vlan_id;
	u32 flow_label;
	u8 traffic_class;
	u8 hop_limit;
	bool has_vlan;
	bool is_v4;
	bool large;
	bool more; /* another buffer of the same burst follows */
	bool by_reference;
	u32 npkts;
	u32 bytes; /* bytes that the packets use, or would use if their payload were copied */
	u32 used; /* bytes of the buffer */
	/* by_reference: */
	u32 finished; /* snic_txq.finished when the burst was transmitted */
	struct snic_txq *q;
	struct snic_kept kept;
};

/*
 * Put the packets of @burst, which go through @q, into buffers appended to @list. Returns the bytes that
 * the packets use. Packets that find no buffer are dropped and counted. Softirqs are off.
 */
u32 snic_local_build(struct snic_txq *q, struct snic_burst *burst, struct list_head *list);
/*
 * Hand @local's packets to the device that owns their destination, or to the sender's own device if
 * the destination is a group. Then free @local. Returns the cost in bytes, in which a short packet
 * counts as SNIC_RX_MIN_COST, and a group with its members. Softirqs are off.
 */
u32 snic_local_deliver(struct snic_host *host, struct snic_local *local);
/* snic_host_ops.pull() and finish_references() */
bool snic_local_pull(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len);
void snic_local_finish_references(struct snic_host *host, u32 qpn);
/* Free the recycled buffers of @cpu. */
void snic_local_drop_cache(struct snic_cpu *cpu);

#endif
