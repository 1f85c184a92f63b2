/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Super-packets: consecutive packets of one message that a host transfers as one. A
 * super-packet has the headers and the opcode of a part of that length under a larger path
 * MTU, and takes as many PSNs as the packets it replaces. They exist only where
 * PORT_WIRE_IN_MEMORY: the kernel modules are built without super.c.
 */
#ifndef SNIC_SUPER_H
#define SNIC_SUPER_H

#include "packet.h"

struct snic_super {
	union {
		struct sirdma_bth bth;
		u8 hdr[SNIC_MAX_HDR];
	};
	u8 hdr_len;
	u8 pad;
	u16 npkts;
	u32 payload_len;
};

/*
 * How many packets of @burst from @at on fit one super-packet: at least 1; more than 1 only
 * up to @max_bytes of payload.
 */
u32 snic_super_count(const struct snic_burst *burst, u32 at, u32 max_bytes);
/* Build a super-packet of the @n packets of @burst from @at on, whose payload is contiguous. */
void snic_super_build(const struct snic_burst *burst, u32 at, u32 n, struct snic_super *out);
/*
 * The bytes of headers and ICRCs, from the BTH on, that the packets of @whole had and the
 * super-packet has not.
 */
u32 snic_super_saved(const struct snic_pkt *whole);
/* Fill @part: packet @i of super-packet @whole, at a path MTU of @mtu bytes. */
void snic_super_part(const struct snic_pkt *whole, u32 mtu, u32 i, struct snic_pkt *part);

#endif
