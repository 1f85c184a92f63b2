// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The limits that the device reported, cut to the values that the verbs interface can express. */
#include "limits.h"
#include "access.h"
#include "qp_modify.h"
#include "sirdma/abi.h"
#include "sirdma/geometry.h"
#include "sirdma/roce.h"
#include "sirdma/shadow.h"

#define VERBS_INT_MAX 0x7fffffffu

u32 sirdma_max_cq_elements(const struct sirdma_hw *hw)
{
	return min_t(u32, hw->caps.max_cqe, SIRDMA_CQ_SHADOW_CQEIDX);
}

u32 sirdma_srq_ring_quanta(u32 max_wr, u32 max_sge)
{
	if (max_wr > SIRDMA_MAX_SRQ_WR || max_sge > SIRDMA_MAX_SGE)
		return 0;
	return sirdma_srq_quanta(max_wr, sirdma_rq_shift(max_sge), SIRDMA_MIN_WQ_QUANTA,
				 SIRDMA_MAX_SRQ_QUANTA);
}

int sirdma_srq_modify_check(u32 mask, u32 limit, u32 max_wr, const char **why)
{
	if (mask & ~(SIRDMA_SRQ_MAX_WR | SIRDMA_SRQ_LIMIT)) {
		*why = "an attribute is unknown";
		return -EINVAL;
	}
	/* The device attributes do not offer SRQ_RESIZE. */
	if (mask & SIRDMA_SRQ_MAX_WR) {
		*why = "the size cannot change";
		return -EOPNOTSUPP;
	}
	if ((mask & SIRDMA_SRQ_LIMIT) && limit > max_wr) {
		*why = "the limit is more than the queue holds";
		return -EINVAL;
	}
	return 0;
}

int sirdma_dm_check(u64 length, u32 log_align, const char **why)
{
	if (!length)
		*why = "no bytes";
	else if (length > SIRDMA_MAX_DM_SIZE)
		*why = "more than one user may have";
	else if (log_align > SIRDMA_MAX_DM_LOG_ALIGN)
		*why = "the alignment is larger than a page";
	else
		return 0;
	return -EINVAL;
}

bool sirdma_dm_is_fair(u64 used, u64 mine, u64 bytes)
{
	return sirdma_share_is_fair(SIRDMA_DM_BYTES - used, mine, bytes);
}

int sirdma_dm_region_check(u64 size, u64 offset, u64 length, u32 access, const char **why)
{
	const struct sirdma_region region = {
		.start = offset,
		.length = length,
		.iova = offset,
		.access = access,
	};

	/* ibv_reg_dm_mr(3): the application has no address of it. */
	if (!(access & SIRDMA_VERBS_ZERO_BASED)) {
		*why = "device memory is addressed from 0";
		return -EINVAL;
	}
	if (offset > size || length > size - offset) {
		*why = "beyond the end of the device memory";
		return -EINVAL;
	}
	/* A region of no bytes serves messages of no bytes, as on other devices. */
	return length ? sirdma_region_check(&region, why) : sirdma_region_access_check(access, why);
}

void sirdma_hw_port_limits(u32 bytes, struct sirdma_port_limits *port)
{
	memset(port, 0, sizeof(*port));
	port->max_mtu = SIRDMA_MAX_PATH_MTU;
	port->active_mtu = sirdma_path_mtu_of_port(bytes);
	port->max_msg_sz = SIRDMA_MAX_MSG_SIZE;
	port->pkey_tbl_len = SIRDMA_PKEY_TABLE_LEN;
	port->max_vl_num = 1; /* a RoCE port has VL 0 alone (IBTA annex A16) */
}

void sirdma_hw_context(const struct sirdma_hw *hw, struct sirdma_alloc_ucontext_resp *resp)
{
	resp->kernel_ver = SIRDMA_ABI_VERSION;
	/* CQ_RESIZE only makes the provider register a CQ's shadow area by itself. */
	resp->feature_flags = SIRDMA_FEATURE_RTS_AE | SIRDMA_FEATURE_CQ_RESIZE |
			      SIRDMA_FEATURE_ATOMICS | SIRDMA_FEATURE_PLACEMENT |
			      SIRDMA_FEATURE_XRC;
	resp->max_hw_wq_frags = SIRDMA_MAX_SGE;
	resp->max_hw_read_sges = SIRDMA_MAX_READ_SGE;
	resp->max_hw_inline = SIRDMA_MAX_INLINE;
	resp->max_hw_rq_quanta = SIRDMA_MAX_WQ_QUANTA;
	resp->max_hw_wq_quanta = SIRDMA_MAX_WQ_QUANTA;
	resp->min_hw_cq_size = SIRDMA_MIN_CQ_ELEMENTS;
	resp->max_hw_cq_size = sirdma_max_cq_elements(hw);
	resp->max_hw_sq_chunk = SIRDMA_SQ_CHUNK_QUANTA;
	resp->hw_rev = SIRDMA_HW_REV_GEN2;
	resp->min_hw_wq_size = SIRDMA_MIN_WQ_QUANTA;
	resp->max_hw_srq_quanta = SIRDMA_MAX_SRQ_QUANTA;
	resp->comp_mask = SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_MAX_HW_SRQ_QUANTA |
			  SIRDMA_UCTX_CQ_FLAGS;
}

void sirdma_hw_limits(const struct sirdma_hw *hw, struct sirdma_limits *limits)
{
	const struct sirdma_hw_caps *caps = &hw->caps;

	memset(limits, 0, sizeof(*limits));
	limits->max_mr_size = SIRDMA_MAX_MR_SIZE;
	limits->max_dm_size = SIRDMA_MAX_DM_SIZE;
	limits->max_qp = hw->qp_ids.limit - hw->qp_ids.first;
	limits->max_qp_wr = SIRDMA_MAX_QP_WR;
	limits->max_sge = SIRDMA_MAX_SGE;
	limits->max_sge_rd = SIRDMA_MAX_READ_SGE;
	limits->max_cq = hw->cq_ids.limit - hw->cq_ids.first;
	limits->max_cqe = sirdma_cq_completions(sirdma_max_cq_elements(hw));
	limits->max_srq = hw->srq_ids.limit - hw->srq_ids.first;
	limits->max_srq_wr = SIRDMA_MAX_SRQ_WR;
	limits->max_mr = hw->stag_ids.limit - hw->stag_ids.first;
	limits->max_pd = hw->pd_ids.limit - hw->pd_ids.first;
	limits->max_ah = sirdma_av_user_limit(hw);
	limits->max_mcast_grp = caps->max_mcast_grps;
	limits->max_mcast_qp_attach = caps->max_mcast_grps ? SIRDMA_MCAST_MAX_QPS : 0;
	limits->max_total_mcast_qp_attach = caps->max_mcast_grps * SIRDMA_MCAST_MAX_QPS;
	limits->max_qp_rd_atom = caps->max_ird;
	limits->max_qp_init_rd_atom = caps->max_ord;
	limits->max_res_rd_atom =
		(u32)min_t(u64, (u64)limits->max_qp * caps->max_ird, VERBS_INT_MAX);
}
