// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Limits: what the device reported, cut to what the verbs interface can express. */
#include "limits.h"
#include "access.h"
#include "sirdma/geometry.h"
#include "sirdma/shadow.h"

#define VERBS_INT_MAX 0x7fffffffu

u32 sirdma_max_cq_elements(const struct sirdma_hw *hw)
{
	return min_t(u32, hw->caps.max_cqe, SIRDMA_CQ_SHADOW_CQEIDX);
}

void sirdma_hw_limits(const struct sirdma_hw *hw, struct sirdma_limits *limits)
{
	const struct sirdma_hw_caps *caps = &hw->caps;

	memset(limits, 0, sizeof(*limits));
	limits->max_mr_size = SIRDMA_MAX_MR_SIZE;
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
