/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_modify_qp: check, resolve, build the new context, commit. */
#ifndef SIRDMA_DRV_QP_MODIFY_H
#define SIRDMA_DRV_QP_MODIFY_H

#include <rdma/ib_verbs.h>

int sirdma_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);

#endif
