/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 on the wire: BTH and extended transport headers (IBTA volume 1,
 * chapter 9), carried over UDP destination port 4791 (annex A17).
 */
#ifndef SIRDMA_ROCE_H
#define SIRDMA_ROCE_H

#include "bits.h"

#define SIRDMA_ROCE_UDP_PORT 4791
#define SIRDMA_ROCE_UDP_SPORT_MIN 0xc000u
#define SIRDMA_ICRC_LEN 4
#define SIRDMA_DEFAULT_PKEY 0xffff
#define SIRDMA_PKEY_FULL_MEMBER 0x8000
#define SIRDMA_DEFAULT_HOP_LIMIT 64 /* Linux's, unless an administrator chose another (RFC 1700) */
#define SIRDMA_GRH_LEN 40 /* before the payload of a received datagram */
#define SIRDMA_GSI_QPN 1 /* of the general services, for management datagrams */
#define SIRDMA_MAD_LEN 256 /* bytes of a management datagram (IBTA 13.4.2) */
#define SIRDMA_PSN_MASK 0xffffffu
#define SIRDMA_QPN_MASK 0xffffffu
#define SIRDMA_CNP_LEN 16 /* reserved bytes of a congestion notification (annex A17.9.3) */
/* Of the traffic class (RFC 3168) */
#define SIRDMA_ECN_MASK 0x03
#define SIRDMA_ECN_CE 0x03 /* congestion experienced */
#define SIRDMA_MCAST_QPN 0xffffffu /* the queue pairs of a multicast group (IBTA 9.2.3) */

/* A MAC address as a number: the first byte on the wire is in bits 47:40. */
static inline __u64 sirdma_mac_to_word(const __u8 mac[6])
{
	__u64 word = 0;
	int i;

	for (i = 0; i < 6; i++)
		word = word << 8 | mac[i];
	return word;
}

static inline void sirdma_mac_from_word(__u64 word, __u8 mac[6])
{
	int i;

	for (i = 6; i--; word >>= 8)
		mac[i] = (__u8)word;
}

struct sirdma_bth {
	__u8 opcode; /* enum sirdma_bth_op */
	__u8 flags; /* SIRDMA_BTH_SE … */
	__be16 pkey;
	__be32 qpn; /* FECN/BECN and reserved 31:24 (masked in the ICRC), QPN 23:0 */
	__be32 apsn; /* SIRDMA_BTH_ACKREQ, PSN 23:0 */
};
SIRDMA_SIZE_IS(struct sirdma_bth, 12);

#define SIRDMA_BTH_SE 0x80
#define SIRDMA_BTH_MIGREQ 0x40
#define SIRDMA_BTH_PAD 0x30
#define SIRDMA_BTH_PAD_SHIFT 4
#define SIRDMA_BTH_TVER 0x0f
#define SIRDMA_BTH_BECN 0x40000000u /* of qpn */
#define SIRDMA_BTH_ACKREQ 0x80000000u

struct sirdma_reth {
	__be64 va;
	__be32 rkey;
	__be32 len;
} __attribute__((packed, aligned(4)));
SIRDMA_SIZE_IS(struct sirdma_reth, 16);

struct sirdma_aeth {
	__be32 smsn; /* syndrome 31:24, MSN 23:0 */
};
SIRDMA_SIZE_IS(struct sirdma_aeth, 4);

struct sirdma_immdt {
	__be32 imm;
};

struct sirdma_ieth {
	__be32 rkey;
};

struct sirdma_atomiceth {
	__be64 va;
	__be32 rkey;
	__be64 swap_add;
	__be64 compare;
} __attribute__((packed, aligned(4)));
SIRDMA_SIZE_IS(struct sirdma_atomiceth, 28);

struct sirdma_atomicacketh {
	__be64 orig;
} __attribute__((packed, aligned(4)));

struct sirdma_feth {
	__be32 flush; /* SIRDMA_FETH_* (annex A19) */
};

#define SIRDMA_FETH_PLT 0x0f /* placement type: SIRDMA_FLUSH_TO_* */
#define SIRDMA_FETH_SEL 0x30 /* selectivity */
#define SIRDMA_FETH_SEL_SHIFT 4
/* Placement types */
#define SIRDMA_FLUSH_TO_GLOBAL 0x1 /* all readers see the data */
#define SIRDMA_FLUSH_TO_PERSISTENT 0x2 /* the data outlives a loss of power */
/* Selectivity levels */
#define SIRDMA_FLUSH_RANGE 0 /* the bytes that the RETH names */
#define SIRDMA_FLUSH_REGION 1 /* all of the region; address and length of the RETH mean nothing */

struct sirdma_deth {
	__be32 qkey;
	__be32 sqpn; /* 23:0 */
};

struct sirdma_rdeth {
	__be32 ee; /* end-to-end context 23:0 */
};

struct sirdma_xrceth {
	__be32 xrcsrq; /* 23:0 */
};

/* AETH syndrome: bits 6:5 kind, 4:0 credits, RNR timer or NAK code. */
#define SIRDMA_AETH_KIND 0x60
#define SIRDMA_AETH_ACK 0x00
#define SIRDMA_AETH_RNR_NAK 0x20
#define SIRDMA_AETH_NAK 0x60
#define SIRDMA_AETH_VALUE 0x1f
#define SIRDMA_AETH_CREDIT_INVALID 0x1f /* no end-to-end credits */
#define SIRDMA_NAK_PSN_SEQ 0x00
#define SIRDMA_NAK_INV_REQ 0x01
#define SIRDMA_NAK_REM_ACCESS 0x02
#define SIRDMA_NAK_REM_OP 0x03
#define SIRDMA_NAK_INV_RD_REQ 0x04

/*
 * Opcode of the BTH: transport and operation. An operation has the same number in every
 * transport (IBTA table 38).
 */
#define SIRDMA_BTH_TRANSPORT 0xe0
#define SIRDMA_BTH_OPERATION 0x1f

#define SIRDMA_BTH_RC 0x00
#define SIRDMA_BTH_UC 0x20
#define SIRDMA_BTH_RD 0x40
#define SIRDMA_BTH_UD 0x60
#define SIRDMA_BTH_CNP 0x80 /* congestion notification (annex A17.9.3), with one operation: */
#define SIRDMA_BTH_CNP_OPERATION 0x01
#define SIRDMA_BTH_XRC 0xa0

/* Opcodes of RC, and operations of all transports */
enum sirdma_bth_op {
	SIRDMA_BTH_SEND_FIRST = 0x00,
	SIRDMA_BTH_SEND_MIDDLE = 0x01,
	SIRDMA_BTH_SEND_LAST = 0x02,
	SIRDMA_BTH_SEND_LAST_IMM = 0x03,
	SIRDMA_BTH_SEND_ONLY = 0x04,
	SIRDMA_BTH_SEND_ONLY_IMM = 0x05,
	SIRDMA_BTH_WRITE_FIRST = 0x06,
	SIRDMA_BTH_WRITE_MIDDLE = 0x07,
	SIRDMA_BTH_WRITE_LAST = 0x08,
	SIRDMA_BTH_WRITE_LAST_IMM = 0x09,
	SIRDMA_BTH_WRITE_ONLY = 0x0a,
	SIRDMA_BTH_WRITE_ONLY_IMM = 0x0b,
	SIRDMA_BTH_READ_REQUEST = 0x0c,
	SIRDMA_BTH_READ_RESP_FIRST = 0x0d,
	SIRDMA_BTH_READ_RESP_MIDDLE = 0x0e,
	SIRDMA_BTH_READ_RESP_LAST = 0x0f,
	SIRDMA_BTH_READ_RESP_ONLY = 0x10,
	SIRDMA_BTH_ACK = 0x11,
	SIRDMA_BTH_ATOMIC_ACK = 0x12,
	SIRDMA_BTH_CMP_SWAP = 0x13,
	SIRDMA_BTH_FETCH_ADD = 0x14,
	SIRDMA_BTH_RESYNC = 0x15,
	SIRDMA_BTH_SEND_LAST_INV = 0x16,
	SIRDMA_BTH_SEND_ONLY_INV = 0x17,
	SIRDMA_BTH_FLUSH = 0x1c, /* this and the next: annex A19 */
	SIRDMA_BTH_ATOMIC_WRITE = 0x1d,
};

#endif
