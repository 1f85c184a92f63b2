/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames: the bytes of a RoCEv2 packet from the Ethernet header to the ICRC,
 * and the invariant CRC (IBTA annex A17.3.3).
 */
#ifndef SNIC_FRAME_H
#define SNIC_FRAME_H

#include "burst.h"

#define SNIC_ETH_HLEN 14
#define SNIC_VLAN_HLEN 4
#define SNIC_IPV4_HLEN 20
#define SNIC_IPV6_HLEN 40
#define SNIC_UDP_HLEN 8
#define SNIC_FRAME_MAX_HLEN (SNIC_ETH_HLEN + SNIC_VLAN_HLEN + SNIC_IPV6_HLEN + SNIC_UDP_HLEN)

/* Bytes of a frame before the BTH. */
static inline u32 snic_frame_hlen(bool is_v4, bool has_vlan)
{
	return SNIC_ETH_HLEN + (has_vlan ? SNIC_VLAN_HLEN : 0) +
	       (is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN) + SNIC_UDP_HLEN;
}

/* Bytes of the IP packet (IP header to ICRC) that carries @pkt. */
static inline u32 snic_ip_len(const struct snic_flow *flow, const struct snic_tx_pkt *pkt)
{
	return (flow->is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN) + SNIC_UDP_HLEN + pkt->hdr_len +
	       pkt->payload_len + pkt->pad + SIRDMA_ICRC_LEN;
}

/* Write the Ethernet header to @out, with the VLAN tag if @inline_vlan. Returns its length. */
u32 snic_frame_eth(const struct snic_flow *flow, bool inline_vlan, u8 *out);

/* Write the header of an IP packet of @len bytes, header included, to @out. */
void snic_frame_ip_header(const struct snic_flow *flow, u32 len, u8 *out);

/*
 * Write IP header to ICRC of @pkt to @out. The payload at @it is copied and summed in one
 * pass. IPv4 is sent with DF, identification 0, header checksum filled in; the UDP checksum
 * is 0 for IPv4 and IPv6 (RoCEv2 permits it in both). Returns snic_ip_len().
 */
u32 snic_frame_ip(const struct snic_flow *flow, const struct snic_tx_pkt *pkt,
		  struct snic_seg_iter *it, u8 *out);

/* Copy @len bytes of payload to @out and advance. */
void snic_seg_copy(struct snic_seg_iter *it, void *out, u32 len);
/*
 * State of an ICRC computation. The computation gathers short runs, headers among them, and sums
 * them together with the long run that follows.
 */
#define SNIC_ICRC_HEAD 64
struct snic_icrc {
	/* zeros, then the gathered bytes, which the sum does not include yet */
	u8 bytes[2 * SNIC_ICRC_HEAD];
	u32 n; /* number of gathered bytes */
	u32 sum;
};

/* Copy as snic_seg_copy() does, and add the bytes to @icrc. */
void snic_seg_copy_icrc(struct snic_seg_iter *it, void *out, u32 len, struct snic_icrc *icrc);

/*
 * ICRC of a packet. @ip: IP header (IPv4 without options), UDP header and BTH, contiguous.
 * Pass the bytes from behind the BTH up to the ICRC to snic_icrc_update(), then compare
 * snic_icrc_final() with the last four bytes of the packet, which are little-endian.
 */
void snic_icrc_start(struct snic_icrc *icrc, const u8 *ip, bool is_v4);
void snic_icrc_update(struct snic_icrc *icrc, const void *data, u32 len);
void snic_icrc_copy(struct snic_icrc *icrc, void *dst, const void *src, u32 len);
u32 snic_icrc_final(const struct snic_icrc *icrc);

#endif
