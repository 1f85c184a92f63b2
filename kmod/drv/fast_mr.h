/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions for fast registration by kernel consumers: ib_alloc_mr(), ib_map_mr_sg(), IB_WR_REG_MR.
 * The page list is written to PBLEs that no valid region uses; the device copies it when it
 * executes the work request.
 */
#ifndef SIRDMA_DRV_FAST_MR_H
#define SIRDMA_DRV_FAST_MR_H

#include <rdma/ib_verbs.h>

struct sirdma_fast_reg;
struct sirdma_qp;

/* Entries of a page list, as many as rdma_rxe and irdma have. Both lists of a region take 8 KiB. */
#define SIRDMA_FAST_MR_MAX_PAGES 512

struct ib_mr *sirdma_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int sirdma_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset);
/*
 * The work request for the codec. Returns -EINVAL or -EOPNOTSUPP if it contradicts itself or its
 * page list.
 */
int sirdma_fast_reg_fill(const struct sirdma_qp *qp, const struct ib_reg_wr *wr,
			 struct sirdma_fast_reg *reg);

#endif
