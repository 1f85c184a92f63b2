/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The contents of "rdma resource show -d" for CQs, MRs, QPs and SRQs. */
#ifndef SIRDMA_DRV_RESTRACK_H
#define SIRDMA_DRV_RESTRACK_H

#include <rdma/ib_verbs.h>

int sirdma_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int sirdma_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int sirdma_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int sirdma_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
