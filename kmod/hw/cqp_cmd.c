// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands of the control queue. */
#include "cqp_cmd.h"
#include "sirdma/roce.h"
#include "sirdma/cqp.h"
#include "sirdma/stats.h"
#include "sirdma/wqe.h"

static u64 header(enum sirdma_cqp_op op)
{
	return SIRDMA_PREP(SIRDMA_CQP_OPCODE, op);
}

/* @cmd: one of the 64-byte command structures. */
static int exec_cmd(struct sirdma_hw *hw, const void *cmd)
{
	struct sirdma_cqp_wqe wqe;

	memcpy(&wqe, cmd, sizeof(wqe));
	return sirdma_cqp_exec(hw, &wqe, NULL);
}

/* Execute a command that makes an object; see sirdma_cqp_make_room(). */
static int exec_make(struct sirdma_hw *hw, const void *cmd)
{
	u32 tries = 0;
	int err;

	do {
		err = exec_cmd(hw, cmd);
	} while (sirdma_cqp_make_room(err, &tries));
	return err;
}

static int exec_header(struct sirdma_hw *hw, u64 hdr)
{
	const struct sirdma_cqp_wqe wqe = {.hdr = cpu_to_le64(hdr)};

	return sirdma_cqp_exec(hw, &wqe, NULL);
}

/* Queue pairs */

static int exec_qp(struct sirdma_hw *hw, u64 hdr, u64 ctx_pa)
{
	const struct sirdma_cqp_qp cmd = {
		.ctx_addr = cpu_to_le64(ctx_pa),
		.hdr = cpu_to_le64(hdr),
	};

	return exec_cmd(hw, &cmd);
}

/*
 * Execute a command that the device does in @parts or one more. Returns -EIO if it takes more: the
 * device is defective and never ends it.
 */
static int exec_qp_in_parts(struct sirdma_hw *hw, u64 hdr, u64 ctx_pa, u32 parts)
{
	u32 left = parts + 1;
	int err;

	do {
		err = exec_qp(hw, hdr, ctx_pa);
	} while (err == -EAGAIN && left--);
	return err == -EAGAIN ? -EIO : err;
}

int sirdma_cqp_create_qp(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa)
{
	return exec_qp(hw,
		       header(SIRDMA_CQP_CREATE_QP) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, qpn) |
			       SIRDMA_PREP(SIRDMA_CQP_QP_NEXT_STATE, SIRDMA_QPS_RESET),
		       ctx_pa);
}

int sirdma_cqp_modify_qp(struct sirdma_hw *hw, const struct sirdma_cqp_modify_qp_params *params)
{
	u64 hdr = header(SIRDMA_CQP_MODIFY_QP) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, params->qpn) |
		  SIRDMA_PREP(SIRDMA_CQP_QP_NEXT_STATE, params->next);

	if (params->check_cur)
		hdr |= SIRDMA_CQP_QP_CUR_STATE_VALID |
		       SIRDMA_PREP(SIRDMA_CQP_QP_CUR_STATE, params->cur);
	/* A send queue has no more WQEs than its ring has quanta. */
	return exec_qp_in_parts(hw, hdr, params->ctx_pa,
				SIRDMA_MAX_WQ_QUANTA / SIRDMA_CQP_MODIFY_FLUSHES);
}

int sirdma_cqp_destroy_qp(struct sirdma_hw *hw, u32 qpn)
{
	const u64 hdr = header(SIRDMA_CQP_DESTROY_QP) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, qpn);

	/* A QP cannot have more windows than there are. */
	return exec_qp_in_parts(hw, hdr, 0, hw->caps.max_mrs / SIRDMA_CQP_DESTROY_WINDOWS);
}

int sirdma_cqp_upload_ctx(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa)
{
	return exec_qp(hw, header(SIRDMA_CQP_UPLOAD_CONTEXT) | SIRDMA_PREP(SIRDMA_CQP_QP_ID, qpn),
		       ctx_pa);
}

int sirdma_cqp_flush_wqes(struct sirdma_hw *hw, u32 qpn, bool sq, bool rq)
{
	u64 hdr = header(SIRDMA_CQP_FLUSH_WQES) | SIRDMA_PREP(SIRDMA_CQP_FLUSH_QPID, qpn);

	if (sq)
		hdr |= SIRDMA_CQP_FLUSH_SQ;
	if (rq)
		hdr |= SIRDMA_CQP_FLUSH_RQ;
	return exec_header(hw, hdr);
}

/* Completion queues */

static int exec_cq(struct sirdma_hw *hw, u64 hdr, const struct sirdma_cqp_cq_params *params)
{
	struct sirdma_cqp_cq cmd = {
		.size = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_CQ_SIZE, params->entries)),
		/*
		 * The device's context of a CQ has 64 bits, of which the lowest is 0 and is not in
		 * the command. It is twice the cookie, so the command has the cookie itself.
		 */
		.ctx = cpu_to_le64(params->cookie),
		.shadow_addr = cpu_to_le64(params->shadow_pa),
	};

	hdr |= SIRDMA_PREP(SIRDMA_CQP_CQ_ID, params->cq_id) | SIRDMA_CQP_CQ_CHKOVERFLOW;
	if (!params->no_events)
		hdr |= SIRDMA_PREP(SIRDMA_CQP_CQ_CEQID, params->ceq_id) | SIRDMA_CQP_CQ_CEQIDVALID |
		       SIRDMA_CQP_CQ_ENCEQE;
	if (params->is_ccq)
		hdr |= SIRDMA_CQP_CQ_IS_CCQ;
	if (params->elem_64b)
		hdr |= SIRDMA_CQP_CQ_64B;
	if (params->timestamps)
		hdr |= SIRDMA_CQP_CQ_TIMESTAMPS;
	if (params->vmap) {
		hdr |= SIRDMA_CQP_CQ_VMAP;
		cmd.first_pble =
			cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_FIRST_PBLE, params->first_pble));
	} else {
		cmd.addr = cpu_to_le64(params->pa);
	}
	cmd.hdr = cpu_to_le64(hdr);
	return exec_make(hw, &cmd);
}

int sirdma_cqp_create_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params)
{
	return exec_cq(hw, header(SIRDMA_CQP_CREATE_CQ), params);
}

int sirdma_cqp_resize_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params)
{
	return exec_cq(hw, header(SIRDMA_CQP_MODIFY_CQ) | SIRDMA_CQP_CQ_RESIZE, params);
}

int sirdma_cqp_moderate_cq(struct sirdma_hw *hw, u32 cq_id, u32 count, u32 period_us)
{
	const struct sirdma_cqp_cq cmd = {
		.moderation = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_CQ_COUNT, count) |
					  SIRDMA_PREP(SIRDMA_CQP_CQ_PERIOD, period_us)),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_MODIFY_CQ) | SIRDMA_CQP_CQ_MODERATE |
				   SIRDMA_PREP(SIRDMA_CQP_CQ_ID, cq_id)),
	};

	if (count > SIRDMA_MAX_CQ_COUNT || period_us > SIRDMA_MAX_CQ_PERIOD)
		return -EINVAL;
	return exec_make(hw, &cmd);
}

int sirdma_cqp_destroy_cq(struct sirdma_hw *hw, u32 cq_id)
{
	return exec_header(hw,
			   header(SIRDMA_CQP_DESTROY_CQ) | SIRDMA_PREP(SIRDMA_CQP_CQ_ID, cq_id));
}

/* Shared receive queues */

int sirdma_cqp_create_srq(struct sirdma_hw *hw, const struct sirdma_cqp_srq_params *params)
{
	u64 hdr = header(SIRDMA_CQP_CREATE_SRQ) | SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, params->srq_id) |
		  SIRDMA_PREP(SIRDMA_CQP_SRQ_STRIDE, params->stride_shift);
	struct sirdma_cqp_srq cmd = {
		.size = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_SRQ_WQES, params->wqes)),
		.ctx = cpu_to_le64(params->cookie),
		.pd = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_SRQ_PD, params->pd)),
		.shadow_addr = cpu_to_le64(params->shadow_pa),
	};

	if (params->vmap) {
		hdr |= SIRDMA_CQP_SRQ_VMAP;
		cmd.first_pble =
			cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_FIRST_PBLE, params->first_pble));
	} else {
		cmd.addr = cpu_to_le64(params->pa);
	}
	if (params->xrc)
		cmd.xrc = cpu_to_le64(SIRDMA_CQP_SRQ_XRC |
				      SIRDMA_PREP(SIRDMA_CQP_SRQ_XRCD, params->xrcd) |
				      SIRDMA_PREP(SIRDMA_CQP_SRQ_CQ, params->cq_id));
	cmd.hdr = cpu_to_le64(hdr);
	return exec_make(hw, &cmd);
}

int sirdma_cqp_arm_srq(struct sirdma_hw *hw, u32 srq_id, u32 limit)
{
	const struct sirdma_cqp_srq cmd = {
		.size = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_SRQ_LIMIT, limit)),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_MODIFY_SRQ) |
				   SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, srq_id)),
	};

	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_query_srq(struct sirdma_hw *hw, u32 srq_id, u32 *limit)
{
	const struct sirdma_cqp_wqe wqe = {
		.hdr = cpu_to_le64(header(SIRDMA_CQP_QUERY_SRQ) |
				   SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, srq_id)),
	};
	u64 value;
	int err;

	err = sirdma_cqp_exec(hw, &wqe, &value);
	if (!err)
		*limit = (u32)value;
	return err;
}

int sirdma_cqp_destroy_srq(struct sirdma_hw *hw, u32 srq_id)
{
	return exec_header(hw,
			   header(SIRDMA_CQP_DESTROY_SRQ) | SIRDMA_PREP(SIRDMA_CQP_SRQ_ID, srq_id));
}

/* Memory regions */

int sirdma_hpage_size(u8 block_shift)
{
	switch (block_shift) {
	case 12:
		return SIRDMA_HPAGE_4K;
	case 21:
		return SIRDMA_HPAGE_2M;
	case 30:
		return SIRDMA_HPAGE_1G;
	default:
		return -EINVAL;
	}
}

int sirdma_cqp_reg_mr(struct sirdma_hw *hw, const struct sirdma_cqp_reg_mr_params *params)
{
	const u8 remote = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC | SIRDMA_ACCESS_REMOTE_FLUSH;
	const bool all_addresses = params->all_memory || params->level == SIRDMA_PBL_LEVEL_SPARSE;
	int hpage = sirdma_hpage_size(params->block_shift);
	struct sirdma_cqp_stag cmd = {};
	u64 hdr, offset;

	/* The masks would cut off excess bits: the region would have another size. */
	if (hpage < 0 || params->level > SIRDMA_PBL_LEVEL_SPARSE ||
	    params->len > SIRDMA_CQP_STAG_LEN || (all_addresses && params->len) ||
	    (all_addresses && params->replace) ||
	    (params->level && !all_addresses && !params->len) ||
	    (params->all_memory && params->level) ||
	    (params->may_fault && params->level == SIRDMA_PBL_LEVEL_SPARSE))
		return -EINVAL;
	offset = (1ull << params->block_shift) - 1;
	if (!params->level && (params->addr & offset))
		return -EINVAL;

	hdr = header(SIRDMA_CQP_REG_MR) | SIRDMA_CQP_STAG_MR |
	      SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, params->level) |
	      SIRDMA_PREP(SIRDMA_CQP_STAG_HPAGESIZE, hpage) |
	      SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, params->access);
	if (params->access & remote)
		hdr |= SIRDMA_CQP_STAG_REMACCENABLED;
	if (params->access & SIRDMA_ACCESS_REMOTE_ATOMIC)
		hdr |= SIRDMA_CQP_STAG_ATOMICS;
	if (params->access & SIRDMA_ACCESS_REMOTE_FLUSH)
		hdr |= SIRDMA_CQP_STAG_FLUSH;
	if (!params->zero_based)
		hdr |= SIRDMA_CQP_STAG_VABASED;
	if (params->all_memory)
		hdr |= SIRDMA_CQP_STAG_ALL_MEMORY;
	if (params->may_fault)
		hdr |= SIRDMA_CQP_STAG_MAY_FAULT;
	if (params->replace)
		hdr |= SIRDMA_CQP_STAG_REPLACE;

	cmd.va = cpu_to_le64(params->zero_based ? params->va & offset : params->va);
	cmd.len_pd = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_LEN, params->len) |
				 SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, params->pd));
	cmd.pd_hi = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_HI, params->pd >> 18));
	cmd.stag = cpu_to_le64(params->stag);
	if (params->level)
		cmd.first_pble =
			cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_FIRST_PBLE, params->first_pble));
	else
		cmd.addr = cpu_to_le64(params->addr);
	cmd.hdr = cpu_to_le64(hdr);
	return exec_make(hw, &cmd);
}

int sirdma_cqp_alloc_mr(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mr_params *params)
{
	const struct sirdma_cqp_stag cmd = {
		.len_pd = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, params->pd)),
		.pd_hi = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_HI, params->pd >> 18)),
		.stag = cpu_to_le64(params->stag),
		.first_pble = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_FIRST_PBLE, params->first_pble) |
					  SIRDMA_PREP(SIRDMA_CQP_STAG_BLOCKS, params->blocks)),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_ALLOC_STAG) | SIRDMA_CQP_STAG_MR),
	};

	return exec_make(hw, &cmd);
}

int sirdma_cqp_dealloc_stag(struct sirdma_hw *hw, u32 stag)
{
	const struct sirdma_cqp_stag cmd = {
		.stag = cpu_to_le64(stag),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_DEALLOC_STAG) | SIRDMA_CQP_STAG_MR),
	};

	return exec_cmd(hw, &cmd);
}

/* Memory windows: the commands of regions without SIRDMA_CQP_STAG_MR */

int sirdma_cqp_alloc_mw(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mw_params *params)
{
	const struct sirdma_cqp_stag cmd = {
		.len_pd = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_LO, params->pd)),
		.pd_hi = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_STAG_PDID_HI, params->pd >> 18)),
		.stag = cpu_to_le64(params->stag),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_ALLOC_STAG) |
				   (params->type1 ? SIRDMA_CQP_STAG_MWTYPE : 0)),
	};

	return exec_make(hw, &cmd);
}

int sirdma_cqp_dealloc_mw(struct sirdma_hw *hw, u32 stag)
{
	const struct sirdma_cqp_stag cmd = {
		.stag = cpu_to_le64(stag),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_DEALLOC_STAG)),
	};

	return exec_cmd(hw, &cmd);
}

/* Addresses */

int sirdma_cqp_set_arp(struct sirdma_hw *hw, u32 idx, const u8 mac[6])
{
	const struct sirdma_cqp_arp cmd = {
		.mac = cpu_to_le64(sirdma_mac_to_word(mac)),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_MANAGE_ARP) | SIRDMA_CQP_ARP_ENTRYVALID |
				   SIRDMA_PREP(SIRDMA_CQP_ARP_IDX, idx)),
	};

	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_clear_arp(struct sirdma_hw *hw, u32 idx)
{
	return exec_header(hw,
			   header(SIRDMA_CQP_MANAGE_ARP) | SIRDMA_PREP(SIRDMA_CQP_ARP_IDX, idx));
}

static u64 ip_word(const u8 *bytes)
{
	u64 word = 0;
	int i;

	for (i = 7; i >= 0; i--)
		word = word << 8 | bytes[i];
	return word;
}

int sirdma_cqp_set_sgid(struct sirdma_hw *hw, const struct sirdma_cqp_sgid_params *params)
{
	u64 mac = sirdma_mac_to_word(params->mac);
	struct sirdma_cqp_sgid cmd = {
		.ip_lo = cpu_to_le64(ip_word(params->ip.b)),
		.ip_hi = cpu_to_le64(ip_word(params->ip.b + 8)),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_MANAGE_SGID) | SIRDMA_CQP_SGID_ENTRYVALID |
				   SIRDMA_PREP(SIRDMA_CQP_SGID_IDX, params->idx)),
	};

	if (params->has_vlan)
		mac |= SIRDMA_CQP_SGID_VLANVALID |
		       SIRDMA_PREP(SIRDMA_CQP_SGID_VLAN, params->vlan_id);
	cmd.mac = cpu_to_le64(mac);
	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_clear_sgid(struct sirdma_hw *hw, u32 idx)
{
	return exec_header(hw,
			   header(SIRDMA_CQP_MANAGE_SGID) | SIRDMA_PREP(SIRDMA_CQP_SGID_IDX, idx));
}

/* Event queues */

int sirdma_cqp_create_ceq(struct sirdma_hw *hw, u32 id, u64 pa, u32 entries)
{
	const struct sirdma_cqp_ceq cmd = {
		.size = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_CEQ_SIZE, entries)),
		.addr = cpu_to_le64(pa),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_CREATE_CEQ) |
				   SIRDMA_PREP(SIRDMA_CQP_CEQ_ID, id)),
	};

	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_destroy_ceq(struct sirdma_hw *hw, u32 id)
{
	return exec_header(hw, header(SIRDMA_CQP_DESTROY_CEQ) | SIRDMA_PREP(SIRDMA_CQP_CEQ_ID, id));
}

int sirdma_cqp_create_aeq(struct sirdma_hw *hw, u64 pa, u32 entries)
{
	const struct sirdma_cqp_aeq cmd = {
		.size = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_CEQ_SIZE, entries)),
		.addr = cpu_to_le64(pa),
		.hdr = cpu_to_le64(header(SIRDMA_CQP_CREATE_AEQ)),
	};

	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_destroy_aeq(struct sirdma_hw *hw)
{
	return exec_header(hw, header(SIRDMA_CQP_DESTROY_AEQ));
}

/* Commands with a buffer: they share the queue's, under buf_lock */

static int exec_buf(struct sirdma_hw *hw, enum sirdma_cqp_op op, u32 len)
{
	const struct sirdma_cqp_buf cmd = {
		.addr = cpu_to_le64(hw->cqp.buf.pa),
		.len = cpu_to_le64(len),
		.hdr = cpu_to_le64(header(op)),
	};

	return exec_cmd(hw, &cmd);
}

int sirdma_cqp_update_sds(struct sirdma_hw *hw, const struct sirdma_sd_entry *entries, u32 count)
{
	const u32 inline_max = 3, buffered = count > inline_max ? count - inline_max : 0;
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cqp_sds cmd = {};
	int err;

	if (!count || count > SIRDMA_CQP_SDS_MAX)
		return -EINVAL;
	cmd.cmd0 = entries[0].cmd;
	cmd.data0 = entries[0].data;
	if (count > 1) {
		cmd.cmd1 = entries[1].cmd;
		cmd.data1 = entries[1].data;
	}
	if (count > 2) {
		cmd.cmd2 = entries[2].cmd;
		cmd.data2 = entries[2].data;
	}
	cmd.hdr = cpu_to_le64(header(SIRDMA_CQP_UPDATE_SDS) |
			      SIRDMA_PREP(SIRDMA_CQP_SDS_BUF_COUNT, buffered));
	if (!buffered)
		return exec_cmd(hw, &cmd);

	port_mutex_lock(&cqp->buf_lock);
	memcpy(cqp->buf.va, entries + inline_max, buffered * sizeof(*entries));
	cmd.buf = cpu_to_le64(cqp->buf.pa);
	err = exec_cmd(hw, &cmd);
	port_mutex_unlock(&cqp->buf_lock);
	return err;
}

int sirdma_cqp_query_fpm(struct sirdma_hw *hw, struct sirdma_fpm_query *out)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	int err;

	port_mutex_lock(&cqp->buf_lock);
	err = exec_buf(hw, SIRDMA_CQP_QUERY_FPM, sizeof(*out));
	if (!err)
		memcpy(out, cqp->buf.va, sizeof(*out));
	port_mutex_unlock(&cqp->buf_lock);
	return err;
}

int sirdma_cqp_commit_fpm(struct sirdma_hw *hw, const struct sirdma_fpm_commit *commit)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	int err;

	port_mutex_lock(&cqp->buf_lock);
	memcpy(cqp->buf.va, commit, sizeof(*commit));
	err = exec_buf(hw, SIRDMA_CQP_COMMIT_FPM, sizeof(*commit));
	port_mutex_unlock(&cqp->buf_lock);
	return err;
}

int sirdma_cqp_mcast(struct sirdma_hw *hw, enum sirdma_cqp_op op,
		     const struct sirdma_cqp_mcast_params *params)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	const struct sirdma_cqp_mcast cmd = {
		.ip_lo = cpu_to_le64(ip_word(params->ip.b)),
		.ip_hi = cpu_to_le64(ip_word(params->ip.b + 8)),
		.ctx_addr = cpu_to_le64(cqp->buf.pa),
		.hdr = cpu_to_le64(header(op) | SIRDMA_PREP(SIRDMA_CQP_MCAST_ID, params->id)),
	};
	struct sirdma_mcast_ctx *ctx = cqp->buf.va;
	int err;
	u32 i;

	port_mutex_lock(&cqp->buf_lock);
	memset(ctx, 0, sizeof(*ctx));
	ctx->count = cpu_to_le32(params->count);
	for (i = 0; i < params->count; i++)
		ctx->qpns[i] = cpu_to_le32(params->qpns[i]);
	err = exec_cmd(hw, &cmd);
	port_mutex_unlock(&cqp->buf_lock);
	return err;
}

int sirdma_cqp_gather_stats(struct sirdma_hw *hw, u64 *stats)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	const __le64 *buf = cqp->buf.va;
	int err;
	u32 i;

	port_mutex_lock(&cqp->buf_lock);
	err = exec_buf(hw, SIRDMA_CQP_GATHER_STATS, SIRDMA_STAT_COUNT * sizeof(*buf));
	for (i = 0; !err && i < SIRDMA_STAT_COUNT; i++)
		stats[i] = le64_to_cpu(buf[i]);
	port_mutex_unlock(&cqp->buf_lock);
	return err;
}
