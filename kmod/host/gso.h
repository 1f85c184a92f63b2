/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Super-packets: packets of one length (the last may be shorter) as one UDP GSO frame, which costs
 * the network stack as much as one packet. The stack or the netdev cuts it into segments. Segment i
 * gets IPv4 identification i, for which its ICRC was computed.
 */
#ifndef SNIC_HOST_GSO_H
#define SNIC_HOST_GSO_H

#include "model/burst.h"

struct sk_buff;
struct snic_host;

/* How many packets of @burst from @first on may share a super-packet; 1: only one. */
u32 snic_gso_count(const struct snic_host *host, const struct snic_burst *burst, u32 first);
/*
 * Build a frame of @n packets of @burst from @first on, their payload at @it, or of fewer, and say of
 * how many, if there is no memory for the rest. Returns NULL without memory for two: @it stays where
 * it was. The caller sets netdev, protocol, hash and VLAN tag.
 */
struct sk_buff *snic_gso_build(struct snic_host *host, const struct snic_burst *burst, u32 first,
			       u32 *n, struct snic_seg_iter *it);

#endif
