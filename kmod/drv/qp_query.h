/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_query_qp. */
#ifndef SIRDMA_DRV_QP_QUERY_H
#define SIRDMA_DRV_QP_QUERY_H

#include <rdma/ib_verbs.h>
#include "sirdma/qpctx.h"

int sirdma_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init);

#endif
