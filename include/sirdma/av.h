/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address vectors: where the datagrams of an address handle go. They are an array in HMC
 * space, whose indices the WQEs of datagram queue pairs carry (SIRDMA_WQE_AHID). The driver
 * writes them without a command, so that kernel consumers may create address handles in
 * atomic context.
 */
#ifndef SIRDMA_AV_H
#define SIRDMA_AV_H

#include "qpctx.h"

/*
 * Written by the driver, read by the device for each WQE that names it. The driver clears
 * SIRDMA_AV_VALID, then writes the other words, then the first one with a new sequence
 * number. The device uses a copy when the first word was the same before and after it. A WQE
 * fails with SIRDMA_FLUSH_LOC_QP_OP when its vector is not valid, belongs to another protection
 * domain, or holds a value out of range.
 */
struct sirdma_av {
	__le64 ctrl; /* SIRDMA_AV_PD .. SIRDMA_AV_VALID */
	__le64 mac; /* destination MAC 47:0, first byte on the wire in 47:40 */
	struct sirdma_ip dst_ip;
	__le32 flow_label; /* IPv6, 20 bits */
	__le16 sgid_idx; /* device SGID table: source IP, MAC, VLAN */
	__le16 udp_sport; /* SIRDMA_ROCE_UDP_SPORT_MIN or more */
	__u8 hop_limit; /* not 0 */
	__u8 traffic_class; /* IPv4 TOS / IPv6 TC */
	__u8 vlan_prio; /* 802.1p, 0..7, if the SGID has a VLAN */
	__u8 rsvd0[5];
	__le64 rsvd1[2];
};
SIRDMA_SIZE_IS(struct sirdma_av, 64);

/* Only queue pairs of this protection domain may use it. */
#define SIRDMA_AV_PD SIRDMA_MASK(23, 0)
#define SIRDMA_AV_SEQ SIRDMA_MASK(55, 24) /* changes with each write */
#define SIRDMA_AV_VALID SIRDMA_BIT(63)

#define SIRDMA_AV_PER_PAGE (SIRDMA_PAGE_SIZE / (__u32)sizeof(struct sirdma_av))

#endif
