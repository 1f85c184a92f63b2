/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pair attributes: which of them a transition requires and allows (IBTA 11.2.5.2,
 * table 97 ff.), their ranges, and the QP context they are encoded in.
 *
 * Mask bits and state numbers are those of the verbs API (ib_qp_attr_mask,
 * enum ib_qp_state), which are the same in kernel and userspace.
 */
#ifndef SIRDMA_HW_QP_ATTR_H
#define SIRDMA_HW_QP_ATTR_H

#include "access.h"
#include "port/port.h"
#include "sirdma/qpctx.h"

#define SIRDMA_QP_STATE (1u << 0)
#define SIRDMA_QP_CUR_STATE (1u << 1)
#define SIRDMA_QP_EN_SQD_ASYNC_NOTIFY (1u << 2)
#define SIRDMA_QP_ACCESS_FLAGS (1u << 3)
#define SIRDMA_QP_PKEY_INDEX (1u << 4)
#define SIRDMA_QP_PORT (1u << 5)
#define SIRDMA_QP_QKEY (1u << 6)
#define SIRDMA_QP_AV (1u << 7)
#define SIRDMA_QP_PATH_MTU (1u << 8)
#define SIRDMA_QP_TIMEOUT (1u << 9)
#define SIRDMA_QP_RETRY_CNT (1u << 10)
#define SIRDMA_QP_RNR_RETRY (1u << 11)
#define SIRDMA_QP_RQ_PSN (1u << 12)
#define SIRDMA_QP_MAX_QP_RD_ATOMIC (1u << 13)
#define SIRDMA_QP_ALT_PATH (1u << 14)
#define SIRDMA_QP_MIN_RNR_TIMER (1u << 15)
#define SIRDMA_QP_SQ_PSN (1u << 16)
#define SIRDMA_QP_MAX_DEST_RD_ATOMIC (1u << 17)
#define SIRDMA_QP_PATH_MIG_STATE (1u << 18)
#define SIRDMA_QP_CAP (1u << 19)
#define SIRDMA_QP_DEST_QPN (1u << 20)

/* Attributes of one modify. Addresses are resolved to indices of the device's tables. */
struct sirdma_qp_attr {
	enum sirdma_qp_state next; /* SIRDMA_QP_STATE */
	u32 access; /* SIRDMA_ACCESS_REMOTE_* */
	u16 pkey;
	u32 qkey;
	u32 path_mtu; /* bytes */
	u8 timeout;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 min_rnr_timer;
	u8 max_rd_atomic;
	u8 max_dest_rd_atomic;
	u8 en_sqd_async_notify;
	u32 rq_psn;
	u32 sq_psn;
	u32 dest_qpn;
	/* SIRDMA_QP_AV */
	struct sirdma_ip dst_ip;
	u32 flow_label;
	u16 sgid_idx;
	u16 arp_idx;
	u16 udp_sport;
	u8 hop_limit;
	u8 traffic_class;
	u8 vlan_prio;
};

/*
 * May @type go from cur to next with exactly the attributes in @mask? Returns 0, or -EINVAL with
 * *bad = the missing or excess bits (0 when the transition itself is illegal).
 */
int sirdma_qp_check_transition(enum sirdma_qp_type type, enum sirdma_qp_state cur,
			       enum sirdma_qp_state next, u32 mask, u32 *bad);
/*
 * Check the ranges of the attributes in @mask. Returns 0, or -EINVAL with *bad = the first
 * offending bit.
 */
int sirdma_qp_check_attr(const struct sirdma_qp_attr *attr, u32 mask, u32 max_ord, u32 max_ird,
			 u32 *bad);
/* Fill the groups of @ctx that @mask names and ctx->modify. */
void sirdma_qp_attr_to_ctx(const struct sirdma_qp_attr *attr, u32 mask, struct sirdma_qp_ctx *ctx);
/* The bytes of a path MTU of the verbs API (enum ib_mtu). 0: there is no such MTU. */
u32 sirdma_path_mtu_bytes(u32 verbs_mtu);

/*
 * struct ib_qp_attr and struct ibv_qp_attr are two types whose fields have the same
 * names. From either to struct sirdma_qp_attr, all but next, path_mtu, pkey and the path:
 */
#define SIRDMA_QP_ATTR_FROM_VERBS(hw, verbs) \
	do { \
		(hw)->access = sirdma_qp_access_to_hw((u32)(verbs)->qp_access_flags); \
		(hw)->qkey = (verbs)->qkey; \
		(hw)->timeout = (verbs)->timeout; \
		(hw)->retry_cnt = (verbs)->retry_cnt; \
		(hw)->rnr_retry = (verbs)->rnr_retry; \
		(hw)->min_rnr_timer = (verbs)->min_rnr_timer; \
		(hw)->max_rd_atomic = (verbs)->max_rd_atomic; \
		(hw)->max_dest_rd_atomic = (verbs)->max_dest_rd_atomic; \
		(hw)->en_sqd_async_notify = (verbs)->en_sqd_async_notify; \
		(hw)->rq_psn = (verbs)->rq_psn; \
		(hw)->sq_psn = (verbs)->sq_psn; \
		(hw)->dest_qpn = (verbs)->dest_qp_num; \
	} while (0)

/* Copy from a context that the device filled to either type, all but states and path. */
#define SIRDMA_QP_CTX_TO_VERBS(verbs, ctx) \
	do { \
		(verbs)->qp_access_flags = \
			(int)sirdma_qp_access_from_hw(le32_to_cpu((ctx)->access)); \
		(verbs)->qkey = le32_to_cpu((ctx)->qkey); \
		(verbs)->rq_psn = le32_to_cpu((ctx)->rq_psn); \
		(verbs)->sq_psn = le32_to_cpu((ctx)->sq_psn); \
		(verbs)->dest_qp_num = le32_to_cpu((ctx)->dest_qpn); \
		(verbs)->sq_draining = (ctx)->sq_draining; \
		(verbs)->max_rd_atomic = (ctx)->ord; \
		(verbs)->max_dest_rd_atomic = (ctx)->ird; \
		(verbs)->min_rnr_timer = (ctx)->min_rnr_timer; \
		(verbs)->timeout = (ctx)->ack_timeout; \
		(verbs)->retry_cnt = (ctx)->retry_cnt; \
		(verbs)->rnr_retry = (ctx)->rnr_retry; \
	} while (0)

/* Names of a state and of an attribute bit, for log lines. */
const char *sirdma_qp_state_name(u32 state);
const char *sirdma_qp_attr_name(u32 bit);
/* The UDP source port of a flow, 0xc000..0xffff (in the style of IBTA annex A17.9.2). */
u16 sirdma_udp_sport(u32 flow_label, u32 lqpn, u32 rqpn);

#endif
