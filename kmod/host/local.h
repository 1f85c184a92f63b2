/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets between two devices of one network namespace and VRF, or two QPs of one
 * device. They never become frames: headers and payload are copied once into a
 * recycled buffer, and the receiving model reads from there. Of a long burst whose payload may be kept
 * (model/kept.h) the buffer has the headers and says where the payload is; the receiving model copies it
 * from there to its place.
 */
#ifndef SNIC_HOST_LOCAL_H
#define SNIC_HOST_LOCAL_H

#include <linux/if_ether.h>
#include <linux/list.h>
#include "model/burst.h"

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
	bool by_reference; /* the buffer begins with a struct snic_local_kept */
	u32 npkts;
	u32 used; /* bytes of the buffer */
	u32 bytes; /* what the packets are charged: the bytes that they use if their payload is copied */
};

/*
 * Put the packets of @burst, which go through @q, into buffers appended to @list, and keep the payload or
 * copy it. Returns the bytes that the packets are charged. Packets that find no buffer are dropped and
 * counted. Softirqs are off.
 */
u32 snic_local_build(struct snic_txq *q, struct snic_burst *burst, struct list_head *list);
/*
 * Hand @local's packets to the device that owns their destination, or to the sender's own device if
 * the destination is a group. Then free @local. Returns the cost in bytes, in which a short packet
 * counts as SNIC_RX_MIN_COST, and a group with its members. Softirqs are off.
 */
u32 snic_local_deliver(struct snic_host *host, struct snic_local *local);
/* snic_host_ops.pull(), finish_kept() and finish_kept_before() */
bool snic_local_pull(struct snic_host *host, struct snic_seg_iter *it, void *to, u32 len);
void snic_local_finish_kept(struct snic_host *host, u32 qpn, enum snic_side side);
void snic_local_finish_kept_before(struct snic_host *host, u32 qpn, u32 una);
/* Free the recycled buffers of @cpu. */
void snic_local_drop_cache(struct snic_cpu *cpu);

#endif
