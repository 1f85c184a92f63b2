/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Super-packets: consecutive packets of one message that a host whose wire is
 * memory hands over as one. It has the headers and the opcode a message part of
 * that length would have, were the path MTU large enough, and takes as many PSNs as
 * the packets it stands for. Only where PORT_WIRE_IN_MEMORY: the kernel modules are built without super.c.
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
 * How many packets of @burst from @at on make up one: at least 1, and no more than
 * @max_bytes of payload when more than 1.
 */
u32 snic_super_run(const struct snic_burst *burst, u32 at, u32 max_bytes);
/* Put packets @at .. @at + @n of @burst together; their payload is back to back already. */
void snic_super_build(const struct snic_burst *burst, u32 at, u32 n, struct snic_super *out);
/* Packet @i of the @whole one, whose parts are of @mtu bytes. */
void snic_super_part(const struct snic_pkt *whole, u32 mtu, u32 i, struct snic_pkt *part);

#endif
