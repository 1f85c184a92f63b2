/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages of the communication manager: management datagrams of 256 bytes between the QPs 1 of
 * two ports (IBTA volume 1, 12.6 and 13.4). Fields of less than a byte are the SIRDMA_CM_* bits
 * of the member that holds them.
 */
#ifndef SIRDMA_CM_H
#define SIRDMA_CM_H

#include "bits.h"
#include "roce.h"

#define SIRDMA_GSI_QKEY 0x80010000u

#define SIRDMA_MAD_BASE_VERSION 1
#define SIRDMA_MAD_CLASS_CM 7
#define SIRDMA_MAD_CLASS_CM_VERSION 2
#define SIRDMA_MAD_METHOD_SEND 3

struct sirdma_mad_hdr {
	__u8 base_version;
	__u8 mgmt_class;
	__u8 class_version;
	__u8 method;
	__be16 status;
	__be16 class_specific;
	__be64 tid;
	__be16 attr_id; /* enum sirdma_cm_attr */
	__be16 reserved;
	__be32 attr_mod;
};
SIRDMA_SIZE_IS(struct sirdma_mad_hdr, 24);

enum sirdma_cm_attr {
	SIRDMA_CM_REQ = 0x10,
	SIRDMA_CM_MRA = 0x11,
	SIRDMA_CM_REJ = 0x12,
	SIRDMA_CM_REP = 0x13,
	SIRDMA_CM_RTU = 0x14,
	SIRDMA_CM_DREQ = 0x15,
	SIRDMA_CM_DREP = 0x16,
	SIRDMA_CM_SIDR_REQ = 0x17,
	SIRDMA_CM_SIDR_REP = 0x18,
};

/* Reasons of a REJ (table 109) */
enum sirdma_cm_reject {
	SIRDMA_CM_REJECT_TIMEOUT = 4,
	SIRDMA_CM_REJECT_SERVICE_ID = 8,
	SIRDMA_CM_REJECT_TRANSPORT = 9,
	SIRDMA_CM_REJECT_STALE = 10,
	SIRDMA_CM_REJECT_GID = 12,
	SIRDMA_CM_REJECT_MTU = 26,
	SIRDMA_CM_REJECT_CONSUMER = 28,
	SIRDMA_CM_REJECT_VENDOR_OPTION = 35,
};

/* Status of a SIDR_REP (table 121) */
enum sirdma_cm_sidr_status {
	SIRDMA_CM_SIDR_VALID = 0,
	SIRDMA_CM_SIDR_SERVICE_ID = 1,
	SIRDMA_CM_SIDR_REJECTED = 2,
};

/* The message that an MRA or a REJ answers, bits 7:6 of its member */
enum sirdma_cm_answered {
	SIRDMA_CM_ANSWERS_REQ = 0,
	SIRDMA_CM_ANSWERS_REP = 1,
	SIRDMA_CM_ANSWERS_OTHER = 2,
};
#define SIRDMA_CM_ANSWERED_SHIFT 6

#define SIRDMA_CM_TIMEOUT_SHIFT 3 /* times of 4.096 us << n, in bits 7:3 of their member */
#define SIRDMA_CM_HIGH24_SHIFT 8 /* a QP number or PSN, in bits 31:8 of its member */

/* A path from the sender's port to the receiver's */
struct sirdma_cm_path {
	__be16 local_lid;
	__be16 remote_lid;
	__u8 local_gid[16];
	__u8 remote_gid[16];
	__be32 flow_rate; /* flow label 31:12, rate 5:0 */
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 sl; /* 7:4, subnet-local bit 3 */
	__u8 ack_timeout; /* 7:3 */
};
SIRDMA_SIZE_IS(struct sirdma_cm_path, 44);

#define SIRDMA_CM_PERMISSIVE_LID 0xffff

#define SIRDMA_CM_REQ_PRIVATE 92
#define SIRDMA_CM_REP_PRIVATE 196
#define SIRDMA_CM_REJ_PRIVATE 148
#define SIRDMA_CM_SIDR_REQ_PRIVATE 216
#define SIRDMA_CM_SIDR_REP_PRIVATE 136

struct sirdma_cm_req {
	__be32 local_id;
	__be32 vendor_id; /* 23:0, of ECE, whose options are the header's attr_mod */
	__be64 service_id;
	__be64 ca_guid;
	__be32 reserved;
	__be32 qkey;
	__be32 qpn_resources; /* QP number 31:8, responder resources 7:0 */
	__be32 eecn_depth; /* initiator depth 7:0 */
	__u8 remote_eecn[3];
	__u8 remote_timeout; /* 7:3, SIRDMA_CM_REQ_TRANSPORT, flow control bit 0 */
	__be32 psn_retry; /* PSN 31:8, local response timeout 7:3, retry count 2:0 */
	__be16 pkey;
	__u8 mtu; /* 7:4, RNR retry count 2:0 */
	__u8 cm_retries; /* 7:4, SIRDMA_CM_REQ_SRQ */
	struct sirdma_cm_path primary;
	struct sirdma_cm_path alternate;
	__u8 private_data[SIRDMA_CM_REQ_PRIVATE];
};
SIRDMA_SIZE_IS(struct sirdma_cm_req, 232);
SIRDMA_OFFSET_IS(struct sirdma_cm_req, psn_retry, 44);
SIRDMA_OFFSET_IS(struct sirdma_cm_req, primary, 52);
SIRDMA_OFFSET_IS(struct sirdma_cm_req, private_data, 140);

#define SIRDMA_CM_REQ_TRANSPORT 0x06 /* 0: RC, 1: UC */
#define SIRDMA_CM_REQ_FLOW_CONTROL 0x01
#define SIRDMA_CM_REQ_RETRIES 0x07
#define SIRDMA_CM_REQ_MTU_SHIFT 4
#define SIRDMA_CM_REQ_CM_RETRIES_SHIFT 4
#define SIRDMA_CM_REQ_SRQ 0x08

/* All messages but REQ and those of SIDR begin with these. */
struct sirdma_cm_ids {
	__be32 local_id;
	__be32 remote_id;
};

struct sirdma_cm_mra {
	struct sirdma_cm_ids ids;
	__u8 answered; /* 7:6 */
	__u8 service_timeout; /* 7:3 */
	__u8 private_data[222];
};
SIRDMA_SIZE_IS(struct sirdma_cm_mra, 232);

struct sirdma_cm_rej {
	struct sirdma_cm_ids ids;
	__u8 answered; /* 7:6 */
	__u8 info_len; /* 7:1 */
	__be16 reason;
	__u8 info[72];
	__u8 private_data[SIRDMA_CM_REJ_PRIVATE];
};
SIRDMA_SIZE_IS(struct sirdma_cm_rej, 232);

struct sirdma_cm_rep {
	struct sirdma_cm_ids ids;
	__be32 qkey;
	__be32 qpn; /* 31:8; bits 7:0 of this and the next two: vendor_id 23:16, 15:8 and 7:0 */
	__be32 eecn;
	__be32 psn; /* 31:8 */
	__u8 resources;
	__u8 depth;
	__u8 ack_delay; /* 7:3, flow control bit 0 */
	__u8 rnr_retry; /* 7:5, SIRDMA_CM_REP_SRQ */
	__be64 ca_guid;
	__u8 private_data[SIRDMA_CM_REP_PRIVATE];
} __attribute__((packed, aligned(4)));
SIRDMA_SIZE_IS(struct sirdma_cm_rep, 232);
SIRDMA_OFFSET_IS(struct sirdma_cm_rep, private_data, 36);

#define SIRDMA_CM_REP_FLOW_CONTROL 0x01
#define SIRDMA_CM_REP_RNR_SHIFT 5
#define SIRDMA_CM_REP_SRQ 0x10

struct sirdma_cm_dreq {
	struct sirdma_cm_ids ids;
	__be32 remote_qpn; /* 31:8 */
	__u8 private_data[220];
};
SIRDMA_SIZE_IS(struct sirdma_cm_dreq, 232);

struct sirdma_cm_sidr_req {
	__be32 request_id;
	__be16 pkey;
	__be16 reserved;
	__be64 service_id;
	__u8 private_data[SIRDMA_CM_SIDR_REQ_PRIVATE];
};
SIRDMA_SIZE_IS(struct sirdma_cm_sidr_req, 232);

struct sirdma_cm_sidr_rep {
	__be32 request_id;
	__u8 status; /* enum sirdma_cm_sidr_status */
	__u8 info_len;
	__be16 vendor_high; /* vendor_id 23:8 */
	__be32 qpn; /* 31:8, vendor_id 7:0 */
	__be64 service_id;
	__be32 qkey;
	__u8 info[72];
	__u8 private_data[SIRDMA_CM_SIDR_REP_PRIVATE];
} __attribute__((packed, aligned(4)));
SIRDMA_SIZE_IS(struct sirdma_cm_sidr_rep, 232);
SIRDMA_OFFSET_IS(struct sirdma_cm_sidr_rep, private_data, 96);

struct sirdma_mad {
	struct sirdma_mad_hdr hdr;
	union {
		struct sirdma_cm_req req;
		struct sirdma_cm_ids ids;
		struct sirdma_cm_mra mra;
		struct sirdma_cm_rej rej;
		struct sirdma_cm_rep rep;
		struct sirdma_cm_dreq dreq;
		struct sirdma_cm_sidr_req sidr_req;
		struct sirdma_cm_sidr_rep sidr_rep;
		__u8 data[232];
	};
};
SIRDMA_SIZE_IS(struct sirdma_mad, SIRDMA_MAD_LEN);

/*
 * A connection by IP addresses: the service ID is this and the port, and private data of a REQ or
 * SIDR_REQ begins with the addresses (IBTA annex A11).
 */
#define SIRDMA_CM_IP_SERVICE(port_space, port) ((__u64)(port_space) << 16 | (port))

struct sirdma_cm_ip {
	__u8 version; /* 0 */
	__u8 ip_version; /* 7:4 */
	__be16 port; /* of the requester */
	__u8 src[16]; /* an IPv4 address is in the last four bytes */
	__u8 dst[16];
};
SIRDMA_SIZE_IS(struct sirdma_cm_ip, 36);

#define SIRDMA_CM_IP_VERSION_SHIFT 4

#endif
