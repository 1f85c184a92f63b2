/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * QP context: the driver describes a queue pair to the device by it, and the device writes
 * it on UPLOAD_CONTEXT. The commands of the CQP carry its DMA address.
 */
#ifndef SIRDMA_QPCTX_H
#define SIRDMA_QPCTX_H

#include "bits.h"

enum sirdma_qp_state {
	SIRDMA_QPS_RESET = 0,
	SIRDMA_QPS_INIT = 1,
	SIRDMA_QPS_RTR = 2,
	SIRDMA_QPS_RTS = 3,
	SIRDMA_QPS_SQD = 4,
	SIRDMA_QPS_SQE = 5,
	SIRDMA_QPS_ERR = 6,
};

enum sirdma_qp_type {
	SIRDMA_QPT_RC = 0,
	SIRDMA_QPT_UC = 1,
	SIRDMA_QPT_UD = 2,
	SIRDMA_QPT_XRC_INI = 3, /* an XRC initiator: it has no receive queue */
	SIRDMA_QPT_XRC_TGT = 4, /* an XRC target: it has no queues, CQs and PD of its own */
};

/* Types of the verbs API, in the numbers of enum ib_qp_type and enum ibv_qp_type. */
enum sirdma_verbs_qp_type {
	SIRDMA_VERBS_QPT_RC = 2,
	SIRDMA_VERBS_QPT_UC = 3,
	SIRDMA_VERBS_QPT_UD = 4,
	SIRDMA_VERBS_QPT_XRC_INI = 9,
	SIRDMA_VERBS_QPT_XRC_TGT = 10,
};

/* Returns the type of @verbs_type, or -1 if it is not supported. */
static inline SIRDMA_CONSTEXPR int sirdma_qp_type_from_verbs(__u32 verbs_type)
{
	switch (verbs_type) {
	case SIRDMA_VERBS_QPT_RC:
		return SIRDMA_QPT_RC;
	case SIRDMA_VERBS_QPT_UC:
		return SIRDMA_QPT_UC;
	case SIRDMA_VERBS_QPT_UD:
		return SIRDMA_QPT_UD;
	case SIRDMA_VERBS_QPT_XRC_INI:
		return SIRDMA_QPT_XRC_INI;
	case SIRDMA_VERBS_QPT_XRC_TGT:
		return SIRDMA_QPT_XRC_TGT;
	default:
		return -1;
	}
}

/* May QPs of the type receive from a shared queue that is given at their creation? */
static inline int sirdma_qp_may_share_rq(__u32 type)
{
	return type == SIRDMA_QPT_RC || type == SIRDMA_QPT_UD;
}

/* IPv4 addresses are stored v4-mapped (::ffff:a.b.c.d), network order. */
struct sirdma_ip {
	__u8 b[16];
};

static inline int sirdma_ip_is_v4(const struct sirdma_ip *ip)
{
	static const __u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return !__builtin_memcmp(ip->b, mapped, sizeof(mapped));
}

/* ff00::/8, and 224.0.0.0/4 */
static inline int sirdma_ip_is_multicast(const struct sirdma_ip *ip)
{
	return ip->b[0] == 0xff || ((ip->b[12] & 0xf0) == 0xe0 && sirdma_ip_is_v4(ip));
}

#define SIRDMA_MAX_FLOW_LABEL 0xfffffu
#define SIRDMA_MAX_VLAN_PRIO 7

/*
 * The numbers of XRC domains, which the driver chooses: a target receives from the shared queues of
 * its domain.
 */
#define SIRDMA_MAX_XRCDS 65536

struct sirdma_qp_ctx {
	/*
	 * Queues: taken at creation only. Of an XRC initiator rq_wqes and srq are 0, and recv_cq is a
	 * CQ that gets nothing. An XRC target takes compl_ctx, event_ctx, qp_type and xrcd alone, and
	 * sq_quanta, rq_wqes and srq are 0.
	 */
	__le64 compl_ctx; /* echoed in each CQE; of a user's QP it is the user's value */
	__le64 event_ctx; /* driver's cookie, echoed in each AEQE */
	__le64 sq_addr; /* DMA address, or first PBLE index with SQ_VMAP */
	__le64 rq_addr; /* same for the RQ */
	__le64 shadow_addr; /* DMA address of struct sirdma_qp_shadow */
	__le32 sq_quanta; /* power of two */
	__le32 rq_wqes; /* power of two; 0: no RQ */
	__le32 send_cq;
	__le32 recv_cq;
	__le32 srq; /* shared queue it receives from, without an RQ; 0: none */
	__le32 pd;
	__u8 qp_type; /* enum sirdma_qp_type */
	__u8 rq_stride_shift; /* log2 of the WQE stride in quanta: 0..3 */
	__u8 state; /* enum sirdma_qp_state: written on upload */
	__u8 queue_flags; /* SIRDMA_QPC_* */
	__le32 xrcd; /* an XRC target's domain, below SIRDMA_MAX_XRCDS */
	__le32 kicker; /* driver's number of the user context that may kick; 0: none may */

	/* Which groups below a MODIFY_QP applies: SIRDMA_QPC_MOD_* */
	__le32 modify;
	__le32 access; /* SIRDMA_ACCESS_REMOTE_* that inbound requests may use */

	/* Path */
	struct sirdma_ip dst_ip;
	__le32 dest_qpn;
	__le32 flow_label; /* IPv6 */
	__le16 sgid_idx; /* device SGID table: source IP, MAC, VLAN */
	__le16 arp_idx; /* device ARP table: destination MAC */
	__le16 udp_sport;
	__le16 path_mtu; /* payload bytes: 256..4096 */
	__u8 hop_limit;
	__u8 traffic_class; /* IPv4 TOS / IPv6 TC */
	__u8 vlan_prio; /* 802.1p, if the SGID has a VLAN */
	__u8 min_rnr_timer; /* IBTA code 0..31 */
	__u8 retry_cnt; /* 0..7 */
	__u8 rnr_retry; /* 0..7, 7 = for ever */
	__u8 ack_timeout; /* 4.096 us * 2^n, 0 = none; 0..31 */
	__u8 rsvd1;
	__le16 pkey;
	__le16 rsvd2;
	__le32 sq_psn; /* next PSN to send */
	__le32 rq_psn; /* next PSN expected */
	__le32 qkey;
	__u8 ord; /* outbound READs and atomics, max_rd_atomic */
	__u8 ird; /* inbound, max_dest_rd_atomic */
	__u8 sq_draining; /* written on upload */
	__u8 rsvd3;

	/* Written on upload, to diagnose a stalled QP */
	__le32 sq_una; /* oldest PSN not acknowledged */
	__le32 sq_max; /* one beyond the highest PSN sent */
	__le32 rq_msn; /* messages received */
	__u8 retry_left;
	__u8 rnr_left;
	__u8 activity; /* SIRDMA_QPC_TIMER_RUNS .. SIRDMA_QPC_SQ_ASLEEP */
	__u8 rsvd4;
	__le32 rsvd5[24];
};
SIRDMA_SIZE_IS(struct sirdma_qp_ctx, 256);
#define SIRDMA_QP_CTX_ALIGN 256

#define SIRDMA_QPC_TIMER_RUNS SIRDMA_BIT(0) /* the timer runs, for the ACK or the RNR wait */
#define SIRDMA_QPC_RNR_WAIT SIRDMA_BIT(1) /* the peer was not ready */
#define SIRDMA_QPC_TX_STALLED SIRDMA_BIT(2) /* the host had no room for a packet */
#define SIRDMA_QPC_RUN_PENDING SIRDMA_BIT(3) /* the host will run the QP again */
#define SIRDMA_QPC_RESP_PENDING SIRDMA_BIT(4) /* an acknowledgement or READ responses are owed */
#define SIRDMA_QPC_SQ_ASLEEP SIRDMA_BIT(5) /* the device sleeps: the next send WQE needs a kick */

#define SIRDMA_QPC_SQ_VMAP SIRDMA_BIT(0) /* sq_addr is a PBLE index, 4 KiB blocks, level 1 */
#define SIRDMA_QPC_RQ_VMAP SIRDMA_BIT(1)
#define SIRDMA_QPC_KICK SIRDMA_BIT(2) /* keep need_kick words in the shadow */
#define SIRDMA_QPC_SIG_ALL SIRDMA_BIT(3) /* every send WQE but NOPs completes with a CQE */
/* Completions of datagrams that came with a VLAN tag have the VLAN and the source MAC. */
#define SIRDMA_QPC_RECV_MAC SIRDMA_BIT(4)
#define SIRDMA_QPC_FAST_REG SIRDMA_BIT(5) /* a kernel consumer's: FAST_REG is allowed */

#define SIRDMA_QPC_MOD_ACCESS SIRDMA_BIT(0)
/* dst_ip, flow_label, sgid/arp, udp_sport, hop_limit, traffic_class, vlan_prio */
#define SIRDMA_QPC_MOD_PATH SIRDMA_BIT(1)
#define SIRDMA_QPC_MOD_DEST_QPN SIRDMA_BIT(2)
#define SIRDMA_QPC_MOD_MTU SIRDMA_BIT(3)
#define SIRDMA_QPC_MOD_PKEY SIRDMA_BIT(4)
#define SIRDMA_QPC_MOD_SQ_PSN SIRDMA_BIT(5)
#define SIRDMA_QPC_MOD_RQ_PSN SIRDMA_BIT(6)
#define SIRDMA_QPC_MOD_TIMEOUT SIRDMA_BIT(7)
#define SIRDMA_QPC_MOD_RETRY_CNT SIRDMA_BIT(8)
#define SIRDMA_QPC_MOD_RNR_RETRY SIRDMA_BIT(9)
#define SIRDMA_QPC_MOD_MIN_RNR SIRDMA_BIT(10)
#define SIRDMA_QPC_MOD_ORD SIRDMA_BIT(11)
#define SIRDMA_QPC_MOD_IRD SIRDMA_BIT(12)
#define SIRDMA_QPC_MOD_QKEY SIRDMA_BIT(13)
#define SIRDMA_QPC_MOD_SQD_EVENT SIRDMA_BIT(14) /* raise QP_SUSPEND_COMPLETE when drained */
#define SIRDMA_QPC_MOD_ALL SIRDMA_MASK(14, 0)

/* Rights of a memory region and of inbound requests (irdma codes). */
#define SIRDMA_ACCESS_LOCAL_READ 0x01
#define SIRDMA_ACCESS_LOCAL_WRITE 0x02
#define SIRDMA_ACCESS_REMOTE_READ 0x04
#define SIRDMA_ACCESS_REMOTE_WRITE 0x08
#define SIRDMA_ACCESS_BIND_WINDOW 0x10
/* Extension, FLUSH for global visibility; in the place of irdma's ZERO_BASED, which is no right. */
#define SIRDMA_ACCESS_REMOTE_FLUSH 0x20
#define SIRDMA_ACCESS_REMOTE_ATOMIC 0x40

#endif
