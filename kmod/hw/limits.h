/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Identity and limits of a device, as applications query them. */
#ifndef SIRDMA_HW_LIMITS_H
#define SIRDMA_HW_LIMITS_H

#include "hw.h"

/* A locally administered OUI: this project has no vendor id of its own. */
#define SIRDMA_VENDOR_ID 0x025352
#define SIRDMA_VENDOR_PART_ID 1
#define SIRDMA_FW_MAJOR 2
#define SIRDMA_FW_MINOR 0

#define SIRDMA_MIN_CQ_ELEMENTS 4

struct sirdma_limits {
	u64 max_mr_size; /* bytes */
	u32 max_qp;
	u32 max_qp_wr;
	u32 max_sge; /* of a send and of a receive */
	u32 max_sge_rd;
	u32 max_cq;
	u32 max_cqe; /* completions; a ring has more elements */
	u32 max_srq;
	u32 max_srq_wr;
	u32 max_mr; /* regions and windows together */
	u32 max_pd;
	u32 max_ah; /* of all users together */
	u32 max_mcast_grp;
	u32 max_mcast_qp_attach; /* to one group */
	u32 max_total_mcast_qp_attach;
	u32 max_qp_rd_atom;
	u32 max_qp_init_rd_atom;
	u32 max_res_rd_atom;
};

void sirdma_hw_limits(const struct sirdma_hw *hw, struct sirdma_limits *limits);
/* Elements of the largest CQ ring; the shadow area's index cannot name more. */
u32 sirdma_max_cq_elements(const struct sirdma_hw *hw);

/* Fill the fields that struct ib_device_attr and struct ibv_device_attr have in common. */
#define SIRDMA_LIMITS_TO_VERBS(attr, limits) \
	do { \
		(attr)->hw_ver = SIRDMA_HW_VERSION; \
		(attr)->vendor_id = SIRDMA_VENDOR_ID; \
		(attr)->vendor_part_id = SIRDMA_VENDOR_PART_ID; \
		(attr)->max_mr_size = (limits)->max_mr_size; \
		(attr)->max_qp = (int)(limits)->max_qp; \
		(attr)->max_qp_wr = (int)(limits)->max_qp_wr; \
		(attr)->max_sge_rd = (int)(limits)->max_sge_rd; \
		(attr)->max_cq = (int)(limits)->max_cq; \
		(attr)->max_cqe = (int)(limits)->max_cqe; \
		(attr)->max_srq = (int)(limits)->max_srq; \
		(attr)->max_srq_wr = (int)(limits)->max_srq_wr; \
		(attr)->max_srq_sge = (int)(limits)->max_sge; \
		(attr)->max_mr = (int)(limits)->max_mr; \
		(attr)->max_mw = (int)(limits)->max_mr; \
		(attr)->max_pd = (int)(limits)->max_pd; \
		(attr)->max_ah = (int)(limits)->max_ah; \
		(attr)->max_mcast_grp = (int)(limits)->max_mcast_grp; \
		(attr)->max_mcast_qp_attach = (int)(limits)->max_mcast_qp_attach; \
		(attr)->max_total_mcast_qp_attach = (int)(limits)->max_total_mcast_qp_attach; \
		(attr)->max_qp_rd_atom = (int)(limits)->max_qp_rd_atom; \
		(attr)->max_qp_init_rd_atom = (int)(limits)->max_qp_init_rd_atom; \
		(attr)->max_res_rd_atom = (int)(limits)->max_res_rd_atom; \
		(attr)->max_pkeys = 1; \
	} while (0)

#endif
