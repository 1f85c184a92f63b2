// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pair attributes: transitions, ranges, QP context. */
#include "qp_attr.h"
#include "sirdma/roce.h"

#define NUM_STATES (SIRDMA_QPS_ERR + 1)
#define NUM_TYPES (SIRDMA_QPT_XRC_TGT + 1)

#define MAX_TIMEOUT 31
#define MAX_RETRY 7
#define MAX_RNR_TIMER 31

/*
 * Attributes that a transition requires, and that it allows besides. SIRDMA_QP_STATE is always
 * allowed.
 */
struct transition {
	bool valid;
	struct {
		u32 required;
		u32 optional;
	} type[NUM_TYPES];
};

/* Attributes that QPs of all types have. */
#define CONNECTED_INIT (SIRDMA_QP_PKEY_INDEX | SIRDMA_QP_PORT | SIRDMA_QP_ACCESS_FLAGS)
#define DATAGRAM_INIT (SIRDMA_QP_PKEY_INDEX | SIRDMA_QP_PORT | SIRDMA_QP_QKEY)
#define CONNECTED_PEER (SIRDMA_QP_AV | SIRDMA_QP_PATH_MTU | SIRDMA_QP_DEST_QPN | SIRDMA_QP_RQ_PSN)
#define CONNECTED_RTR (SIRDMA_QP_ALT_PATH | SIRDMA_QP_ACCESS_FLAGS | SIRDMA_QP_PKEY_INDEX)
#define RELIABLE_RECEIVE (SIRDMA_QP_MAX_DEST_RD_ATOMIC | SIRDMA_QP_MIN_RNR_TIMER)
#define RELIABLE_SEND (SIRDMA_QP_TIMEOUT | SIRDMA_QP_RETRY_CNT | SIRDMA_QP_RNR_RETRY)
#define CONNECTED_PATH (SIRDMA_QP_ALT_PATH | SIRDMA_QP_ACCESS_FLAGS | SIRDMA_QP_PATH_MIG_STATE)
#define CONNECTED_RTS (SIRDMA_QP_CUR_STATE | CONNECTED_PATH)
#define RELIABLE_RTS (CONNECTED_RTS | SIRDMA_QP_MIN_RNR_TIMER)
#define DATAGRAM_RTS (SIRDMA_QP_CUR_STATE | SIRDMA_QP_QKEY)

#define PLAIN \
	{ \
		.valid = true \
	}
/*
 * A transition without required attributes, and the attributes that it allows for RC, UC, UD, XRC
 * initiators and XRC targets.
 */
#define OPTIONAL(rc, uc, ud, ini, tgt) \
	{ \
		.valid = true, .type = { \
			[SIRDMA_QPT_RC].optional = rc, \
			[SIRDMA_QPT_UC].optional = uc, \
			[SIRDMA_QPT_UD].optional = ud, \
			[SIRDMA_QPT_XRC_INI].optional = ini, \
			[SIRDMA_QPT_XRC_TGT].optional = tgt, \
		} \
	}

/* IBTA 11.2.5.2, as the kernel's verbs core enforces it: RESET to ERR is not a transition. */
/* clang-format off */
static const struct transition transitions[NUM_STATES][NUM_STATES] = {
	[SIRDMA_QPS_RESET] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_INIT] = {
			.valid = true,
			.type = {
				[SIRDMA_QPT_RC].required = CONNECTED_INIT,
				[SIRDMA_QPT_UC].required = CONNECTED_INIT,
				[SIRDMA_QPT_UD].required = DATAGRAM_INIT,
				[SIRDMA_QPT_XRC_INI].required = CONNECTED_INIT,
				[SIRDMA_QPT_XRC_TGT].required = CONNECTED_INIT,
			},
		},
	},
	[SIRDMA_QPS_INIT] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
		[SIRDMA_QPS_INIT] = OPTIONAL(CONNECTED_INIT, CONNECTED_INIT, DATAGRAM_INIT,
					     CONNECTED_INIT, CONNECTED_INIT),
		[SIRDMA_QPS_RTR] = {
			.valid = true,
			.type = {
				[SIRDMA_QPT_RC] = {
					.required = CONNECTED_PEER | RELIABLE_RECEIVE,
					.optional = CONNECTED_RTR,
				},
				[SIRDMA_QPT_UC] = {
					.required = CONNECTED_PEER,
					.optional = CONNECTED_RTR,
				},
				[SIRDMA_QPT_UD].optional = SIRDMA_QP_PKEY_INDEX | SIRDMA_QP_QKEY,
				[SIRDMA_QPT_XRC_INI] = {
					.required = CONNECTED_PEER,
					.optional = CONNECTED_RTR,
				},
				[SIRDMA_QPT_XRC_TGT] = {
					.required = CONNECTED_PEER | RELIABLE_RECEIVE,
					.optional = CONNECTED_RTR,
				},
			},
		},
	},
	[SIRDMA_QPS_RTR] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
		[SIRDMA_QPS_RTS] = {
			.valid = true,
			.type = {
				[SIRDMA_QPT_RC] = {
					.required = RELIABLE_SEND | SIRDMA_QP_SQ_PSN |
						SIRDMA_QP_MAX_QP_RD_ATOMIC,
					.optional = RELIABLE_RTS,
				},
				[SIRDMA_QPT_UC] = {
					.required = SIRDMA_QP_SQ_PSN,
					.optional = CONNECTED_RTS,
				},
				[SIRDMA_QPT_UD] = {
					.required = SIRDMA_QP_SQ_PSN,
					.optional = DATAGRAM_RTS,
				},
				[SIRDMA_QPT_XRC_INI] = {
					.required = RELIABLE_SEND | SIRDMA_QP_SQ_PSN |
						SIRDMA_QP_MAX_QP_RD_ATOMIC,
					.optional = CONNECTED_RTS,
				},
				[SIRDMA_QPT_XRC_TGT] = {
					.required = SIRDMA_QP_TIMEOUT | SIRDMA_QP_SQ_PSN,
					.optional = RELIABLE_RTS,
				},
			},
		},
	},
	[SIRDMA_QPS_RTS] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
		[SIRDMA_QPS_RTS] = OPTIONAL(RELIABLE_RTS, CONNECTED_RTS, DATAGRAM_RTS, CONNECTED_RTS,
					    RELIABLE_RTS),
		[SIRDMA_QPS_SQD] = OPTIONAL(SIRDMA_QP_EN_SQD_ASYNC_NOTIFY,
					    SIRDMA_QP_EN_SQD_ASYNC_NOTIFY,
					    SIRDMA_QP_EN_SQD_ASYNC_NOTIFY,
					    SIRDMA_QP_EN_SQD_ASYNC_NOTIFY,
					    SIRDMA_QP_EN_SQD_ASYNC_NOTIFY),
	},
	[SIRDMA_QPS_SQD] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
		[SIRDMA_QPS_RTS] = OPTIONAL(RELIABLE_RTS, CONNECTED_RTS, DATAGRAM_RTS, CONNECTED_RTS,
					    RELIABLE_RTS),
		[SIRDMA_QPS_SQD] = OPTIONAL(CONNECTED_PATH | SIRDMA_QP_AV | SIRDMA_QP_PKEY_INDEX |
						    RELIABLE_SEND | SIRDMA_QP_PORT |
						    SIRDMA_QP_MAX_QP_RD_ATOMIC |
						    SIRDMA_QP_MAX_DEST_RD_ATOMIC |
						    SIRDMA_QP_MIN_RNR_TIMER,
					    CONNECTED_PATH | SIRDMA_QP_AV | SIRDMA_QP_PKEY_INDEX,
					    SIRDMA_QP_PKEY_INDEX | SIRDMA_QP_QKEY,
					    CONNECTED_PATH | SIRDMA_QP_AV | SIRDMA_QP_PKEY_INDEX |
						    RELIABLE_SEND | SIRDMA_QP_PORT |
						    SIRDMA_QP_MAX_QP_RD_ATOMIC,
					    CONNECTED_PATH | SIRDMA_QP_AV | SIRDMA_QP_PKEY_INDEX |
						    RELIABLE_RECEIVE | SIRDMA_QP_PORT |
						    SIRDMA_QP_TIMEOUT),
	},
	[SIRDMA_QPS_SQE] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
		[SIRDMA_QPS_RTS] = OPTIONAL(0, SIRDMA_QP_CUR_STATE | SIRDMA_QP_ACCESS_FLAGS,
					    DATAGRAM_RTS, 0, 0),
	},
	[SIRDMA_QPS_ERR] = {
		[SIRDMA_QPS_RESET] = PLAIN,
		[SIRDMA_QPS_ERR] = PLAIN,
	},
};
/* clang-format on */

const char *sirdma_qp_state_name(u32 state)
{
	static const char *const names[NUM_STATES] = {
		[SIRDMA_QPS_RESET] = "RESET", [SIRDMA_QPS_INIT] = "INIT", [SIRDMA_QPS_RTR] = "RTR",
		[SIRDMA_QPS_RTS] = "RTS",     [SIRDMA_QPS_SQD] = "SQD",	  [SIRDMA_QPS_SQE] = "SQE",
		[SIRDMA_QPS_ERR] = "ERR",
	};

	return state < NUM_STATES ? names[state] : "?";
}

int sirdma_qp_check_transition(enum sirdma_qp_type type, enum sirdma_qp_state cur,
			       enum sirdma_qp_state next, u32 mask, u32 *bad)
{
	const struct transition *t;
	u32 required, optional;

	*bad = 0;
	if ((u32)type >= NUM_TYPES || (u32)cur >= NUM_STATES || (u32)next >= NUM_STATES)
		return -EINVAL;
	t = &transitions[cur][next];
	if (!t->valid)
		return -EINVAL;
	required = t->type[type].required;
	optional = t->type[type].optional | SIRDMA_QP_STATE;
	*bad = required & ~mask;
	if (!*bad)
		*bad = mask & ~(required | optional);
	return *bad ? -EINVAL : 0;
}

static bool path_mtu_valid(u32 mtu)
{
	return mtu >= 256 && mtu <= 4096 && !(mtu & (mtu - 1));
}

static bool path_valid(const struct sirdma_qp_attr *attr)
{
	static const struct sirdma_ip any;

	return memcmp(&attr->dst_ip, &any, sizeof(any)) &&
	       attr->flow_label <= SIRDMA_MAX_FLOW_LABEL &&
	       attr->udp_sport >= SIRDMA_ROCE_UDP_SPORT_MIN &&
	       attr->vlan_prio <= SIRDMA_MAX_VLAN_PRIO;
}

int sirdma_qp_check_attr(const struct sirdma_qp_attr *attr, u32 mask, u32 max_ord, u32 max_ird,
			 u32 *bad)
{
	const u32 rights = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			   SIRDMA_ACCESS_REMOTE_ATOMIC | SIRDMA_ACCESS_REMOTE_FLUSH;
	const struct {
		u32 bit;
		bool ok;
	} checks[] = {
		{SIRDMA_QP_STATE, (u32)attr->next < NUM_STATES},
		{SIRDMA_QP_EN_SQD_ASYNC_NOTIFY, attr->en_sqd_async_notify <= 1},
		{SIRDMA_QP_ACCESS_FLAGS, !(attr->access & ~rights)},
		{SIRDMA_QP_AV, path_valid(attr)},
		{SIRDMA_QP_PATH_MTU, path_mtu_valid(attr->path_mtu)},
		{SIRDMA_QP_TIMEOUT, attr->timeout <= MAX_TIMEOUT},
		{SIRDMA_QP_RETRY_CNT, attr->retry_cnt <= MAX_RETRY},
		{SIRDMA_QP_RNR_RETRY, attr->rnr_retry <= MAX_RETRY},
		{SIRDMA_QP_RQ_PSN, attr->rq_psn <= SIRDMA_PSN_MASK},
		{SIRDMA_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic <= max_ord},
		{SIRDMA_QP_MIN_RNR_TIMER, attr->min_rnr_timer <= MAX_RNR_TIMER},
		{SIRDMA_QP_SQ_PSN, attr->sq_psn <= SIRDMA_PSN_MASK},
		{SIRDMA_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic <= max_ird},
		{SIRDMA_QP_DEST_QPN, attr->dest_qpn && attr->dest_qpn <= SIRDMA_QPN_MASK},
	};
	u32 i;

	*bad = 0;
	for (i = 0; i < ARRAY_SIZE(checks); i++) {
		if ((mask & checks[i].bit) && !checks[i].ok) {
			*bad = checks[i].bit;
			return -EINVAL;
		}
	}
	return 0;
}

/* The group of the context for each attribute bit. */
static const struct {
	u32 bit;
	u32 mod;
	const char *name;
} attrs[] = {
	{SIRDMA_QP_STATE, 0, "state"},
	{SIRDMA_QP_CUR_STATE, 0, "current state"},
	{SIRDMA_QP_EN_SQD_ASYNC_NOTIFY, 0, "SQD notification"},
	{SIRDMA_QP_ACCESS_FLAGS, SIRDMA_QPC_MOD_ACCESS, "access flags"},
	{SIRDMA_QP_PKEY_INDEX, SIRDMA_QPC_MOD_PKEY, "P_Key index"},
	{SIRDMA_QP_PORT, 0, "port"},
	{SIRDMA_QP_QKEY, SIRDMA_QPC_MOD_QKEY, "Q_Key"},
	{SIRDMA_QP_AV, SIRDMA_QPC_MOD_PATH, "address vector"},
	{SIRDMA_QP_PATH_MTU, SIRDMA_QPC_MOD_MTU, "path MTU"},
	{SIRDMA_QP_TIMEOUT, SIRDMA_QPC_MOD_TIMEOUT, "timeout"},
	{SIRDMA_QP_RETRY_CNT, SIRDMA_QPC_MOD_RETRY_CNT, "retry count"},
	{SIRDMA_QP_RNR_RETRY, SIRDMA_QPC_MOD_RNR_RETRY, "RNR retry count"},
	{SIRDMA_QP_RQ_PSN, SIRDMA_QPC_MOD_RQ_PSN, "RQ PSN"},
	{SIRDMA_QP_MAX_QP_RD_ATOMIC, SIRDMA_QPC_MOD_ORD, "max_rd_atomic"},
	{SIRDMA_QP_ALT_PATH, 0, "alternate path"},
	{SIRDMA_QP_MIN_RNR_TIMER, SIRDMA_QPC_MOD_MIN_RNR, "minimum RNR timer"},
	{SIRDMA_QP_SQ_PSN, SIRDMA_QPC_MOD_SQ_PSN, "SQ PSN"},
	{SIRDMA_QP_MAX_DEST_RD_ATOMIC, SIRDMA_QPC_MOD_IRD, "max_dest_rd_atomic"},
	{SIRDMA_QP_PATH_MIG_STATE, 0, "path migration state"},
	{SIRDMA_QP_CAP, 0, "capabilities"},
	{SIRDMA_QP_DEST_QPN, SIRDMA_QPC_MOD_DEST_QPN, "destination QPN"},
};

const char *sirdma_qp_attr_name(u32 bit)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(attrs); i++)
		if (attrs[i].bit == bit)
			return attrs[i].name;
	return "unknown attribute";
}

static void path_to_ctx(const struct sirdma_qp_attr *attr, struct sirdma_qp_ctx *ctx)
{
	ctx->dst_ip = attr->dst_ip;
	ctx->flow_label = cpu_to_le32(attr->flow_label);
	ctx->sgid_idx = cpu_to_le16(attr->sgid_idx);
	ctx->arp_idx = cpu_to_le16(attr->arp_idx);
	ctx->udp_sport = cpu_to_le16(attr->udp_sport);
	ctx->hop_limit = attr->hop_limit;
	ctx->traffic_class = attr->traffic_class;
	ctx->vlan_prio = attr->vlan_prio;
}

void sirdma_qp_attr_to_ctx(const struct sirdma_qp_attr *attr, u32 mask, struct sirdma_qp_ctx *ctx)
{
	u32 i, mod = 0;

	for (i = 0; i < ARRAY_SIZE(attrs); i++)
		if (mask & attrs[i].bit)
			mod |= attrs[i].mod;
	if ((mask & SIRDMA_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify)
		mod |= SIRDMA_QPC_MOD_SQD_EVENT;
	ctx->modify = cpu_to_le32(mod);

	if (mod & SIRDMA_QPC_MOD_ACCESS)
		ctx->access = cpu_to_le32(attr->access);
	if (mod & SIRDMA_QPC_MOD_PATH)
		path_to_ctx(attr, ctx);
	if (mod & SIRDMA_QPC_MOD_DEST_QPN)
		ctx->dest_qpn = cpu_to_le32(attr->dest_qpn);
	if (mod & SIRDMA_QPC_MOD_MTU)
		ctx->path_mtu = cpu_to_le16((u16)attr->path_mtu);
	if (mod & SIRDMA_QPC_MOD_PKEY)
		ctx->pkey = cpu_to_le16(attr->pkey);
	if (mod & SIRDMA_QPC_MOD_SQ_PSN)
		ctx->sq_psn = cpu_to_le32(attr->sq_psn);
	if (mod & SIRDMA_QPC_MOD_RQ_PSN)
		ctx->rq_psn = cpu_to_le32(attr->rq_psn);
	if (mod & SIRDMA_QPC_MOD_TIMEOUT)
		ctx->ack_timeout = attr->timeout;
	if (mod & SIRDMA_QPC_MOD_RETRY_CNT)
		ctx->retry_cnt = attr->retry_cnt;
	if (mod & SIRDMA_QPC_MOD_RNR_RETRY)
		ctx->rnr_retry = attr->rnr_retry;
	if (mod & SIRDMA_QPC_MOD_MIN_RNR)
		ctx->min_rnr_timer = attr->min_rnr_timer;
	if (mod & SIRDMA_QPC_MOD_ORD)
		ctx->ord = attr->max_rd_atomic;
	if (mod & SIRDMA_QPC_MOD_IRD)
		ctx->ird = attr->max_dest_rd_atomic;
	if (mod & SIRDMA_QPC_MOD_QKEY)
		ctx->qkey = cpu_to_le32(attr->qkey);
}

u32 sirdma_path_mtu_bytes(u32 verbs_mtu)
{
	return verbs_mtu >= 1 && verbs_mtu <= 5 ? 128u << verbs_mtu : 0;
}

/*
 * All packets of a flow must take one path, and flows should spread over paths: fold the
 * flow label, or without one the two QP numbers, to 14 bits.
 */
u16 sirdma_udp_sport(u32 flow_label, u32 lqpn, u32 rqpn)
{
	u32 hash = flow_label & SIRDMA_MAX_FLOW_LABEL;
	u64 product;

	if (!hash) {
		product = (u64)lqpn * rqpn;
		product ^= product >> 20;
		product ^= product >> 40;
		hash = (u32)product & SIRDMA_MAX_FLOW_LABEL;
	}
	return (u16)(SIRDMA_ROCE_UDP_SPORT_MIN | ((hash ^ hash >> 14) & 0x3fff));
}
