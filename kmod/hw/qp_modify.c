// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What is the same in every driver of a modify: its checks, and the command. */
#include "qp_modify.h"
#include "access.h"
#include "cqp_cmd.h"
#include "sirdma/roce.h"

#define STANDARD_MASK ((SIRDMA_QP_DEST_QPN << 1) - 1)
#define MIGRATED 0u /* IB_MIG_MIGRATED: no alternate path */
#define MTU_256 1u /* enum ib_mtu */
/* Headers of the largest kind of packet, as the kernel's iboe_get_mtu() counts them. */
#define MTU_HEADERS 96
/* A QP moves by itself at most twice: from RTS to SQE, and from there to ERR. */
#define MOVES_BY_ITSELF 2

static int reject(struct sirdma_qp_modify *mod, const char *bad, const char *why, int err)
{
	mod->bad = bad;
	mod->why = why;
	return err;
}

static int reject_bits(struct sirdma_qp_modify *mod, u32 bits, const char *why, int err)
{
	return reject(mod, sirdma_qp_attr_name(bits & -bits), why, err);
}

static int check_transition(struct sirdma_qp_modify *mod)
{
	u32 bad = 0;
	int err;

	if ((mod->mask & SIRDMA_QP_STATE) && mod->qp_state > SIRDMA_QPS_ERR)
		return reject_bits(mod, SIRDMA_QP_STATE, "is unknown", -EINVAL);
	mod->next = (enum sirdma_qp_state)(mod->mask & SIRDMA_QP_STATE ? mod->qp_state : mod->cur);
	if ((mod->mask & SIRDMA_QP_CUR_STATE) && mod->cur_qp_state != mod->cur)
		return reject_bits(mod, SIRDMA_QP_CUR_STATE, "is another one", -EINVAL);
	err = sirdma_qp_check_transition(mod->type, (enum sirdma_qp_state)mod->cur, mod->next,
					 mod->mask, &bad);
	if (!err)
		return 0;
	if (!bad)
		return reject(mod, "transition", "does not exist", err);
	return reject_bits(mod, bad, bad & mod->mask ? "is not allowed here" : "is missing", err);
}

/* Refuse attributes that this device does not have at all. */
static int check_device(struct sirdma_qp_modify *mod)
{
	const int access_err = sirdma_qp_access_check(mod->access_flags);
	const struct {
		u32 bits;
		bool ok;
		int err;
		const char *why;
	} checks[] = {
		{~STANDARD_MASK, false, -EOPNOTSUPP, "is not supported"},
		{SIRDMA_QP_ALT_PATH | SIRDMA_QP_CAP, false, -EOPNOTSUPP, "is not supported"},
		{SIRDMA_QP_PATH_MIG_STATE, mod->path_mig_state == MIGRATED, -EOPNOTSUPP,
		 "is not supported"},
		{SIRDMA_QP_PORT, mod->port_num == 1, -EINVAL, "is not 1"},
		{SIRDMA_QP_PKEY_INDEX, !mod->pkey_index, -EINVAL, "is not 0"},
		{SIRDMA_QP_ACCESS_FLAGS, !access_err, access_err,
		 access_err == -EINVAL ? "is unknown" : "is not supported"},
		{SIRDMA_QP_PATH_MTU, sirdma_path_mtu_bytes(mod->path_mtu) != 0, -EINVAL,
		 "is unknown"},
		{SIRDMA_QP_PATH_MTU, mod->path_mtu <= mod->port_mtu, -EINVAL,
		 "does not fit the port's MTU"},
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(checks); i++)
		if ((mod->mask & checks[i].bits) && !checks[i].ok)
			return reject_bits(mod, mod->mask & checks[i].bits, checks[i].why,
					   checks[i].err);
	return 0;
}

static int check_path(struct sirdma_qp_modify *mod)
{
	const char *why = sirdma_path_refusal(&mod->path);

	return why ? reject_bits(mod, SIRDMA_QP_AV, why, -EINVAL) : 0;
}

static void fill_path(struct sirdma_qp_modify *mod)
{
	const struct sirdma_path *path = &mod->path;
	struct sirdma_qp_attr *attr = &mod->attr;
	u32 dest = mod->mask & SIRDMA_QP_DEST_QPN ? attr->dest_qpn : mod->cur_dest_qpn;

	attr->dst_ip = path->dst_ip;
	attr->flow_label = sirdma_path_flow_label(path);
	attr->udp_sport = sirdma_udp_sport(path->flow_label, mod->qpn, dest);
	attr->hop_limit = sirdma_path_hop_limit(path);
	attr->traffic_class = path->traffic_class;
	attr->vlan_prio = path->sl;
}

int sirdma_qp_modify_check(const struct sirdma_hw_caps *caps, struct sirdma_qp_modify *mod)
{
	u32 bad = 0;
	int err;

	err = check_transition(mod);
	if (!err)
		err = check_device(mod);
	if (!err && (mod->mask & SIRDMA_QP_AV))
		err = check_path(mod);
	if (err)
		return err;
	mod->attr.next = mod->next;
	mod->attr.pkey = SIRDMA_DEFAULT_PKEY;
	mod->attr.path_mtu = sirdma_path_mtu_bytes(mod->path_mtu);
	fill_path(mod);
	mod->apply = mod->mask;
	/* Datagrams have no path MTU of their own: a message is a packet that the port carries. */
	if (mod->type == SIRDMA_QPT_UD && mod->next == SIRDMA_QPS_RTR) {
		mod->apply |= SIRDMA_QP_PATH_MTU;
		mod->attr.path_mtu = sirdma_path_mtu_bytes(max_t(u32, mod->port_mtu, MTU_256));
	}
	err = sirdma_qp_check_attr(&mod->attr, mod->apply, caps->max_ord, caps->max_ird, &bad);
	return err ? reject_bits(mod, bad, "is out of range", err) : 0;
}

int sirdma_qp_modify_read(struct sirdma_hw *hw, struct sirdma_qp_modify *mod,
			  struct sirdma_qp_ctx *ctx, u64 ctx_pa)
{
	int err = sirdma_cqp_upload_ctx(hw, mod->qpn, ctx_pa);

	if (err)
		return err;
	mod->cur = ctx->state;
	mod->cur_dest_qpn = le32_to_cpu(ctx->dest_qpn);
	return 0;
}

static int command(struct sirdma_hw *hw, const struct sirdma_qp_modify *mod,
		   struct sirdma_qp_ctx *ctx, u64 ctx_pa)
{
	const struct sirdma_cqp_modify_qp_params params = {
		.qpn = mod->qpn,
		.ctx_pa = ctx_pa,
		.cur = (enum sirdma_qp_state)mod->cur,
		.next = mod->next,
		.check_cur = true,
	};

	memset(ctx, 0, sizeof(*ctx));
	sirdma_qp_attr_to_ctx(&mod->attr, mod->apply, ctx);
	return sirdma_cqp_modify_qp(hw, &params);
}

int sirdma_qp_modify_execute(struct sirdma_hw *hw, struct sirdma_qp_modify *mod,
			     struct sirdma_qp_ctx *ctx, u64 ctx_pa)
{
	int err = command(hw, mod, ctx, ctx_pa);
	u32 moves, named;

	mod->bad = NULL;
	for (moves = 0; err == -EINVAL && moves < MOVES_BY_ITSELF; moves++) {
		named = mod->cur;
		/* The device refused the command. Did the QP leave the state that it named? */
		if (sirdma_qp_modify_read(hw, mod, ctx, ctx_pa) || mod->cur == named)
			break;
		err = sirdma_qp_modify_check(&hw->caps, mod);
		if (err)
			break;
		err = command(hw, mod, ctx, ctx_pa);
	}
	return err;
}

u32 sirdma_path_mtu_of_port(u32 bytes)
{
	u32 mtu;

	for (mtu = SIRDMA_MAX_PATH_MTU; mtu >= MTU_256; mtu--)
		if (bytes >= sirdma_path_mtu_bytes(mtu) + MTU_HEADERS)
			break;
	return mtu;
}
