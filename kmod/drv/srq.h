/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues. */
#ifndef SIRDMA_DRV_SRQ_H
#define SIRDMA_DRV_SRQ_H

#include <rdma/ib_verbs.h>

#include "obj.h"

struct sirdma_dev;
struct sirdma_ksrq;
struct sirdma_ring;

struct sirdma_srq {
	struct ib_srq ibsrq;
	u32 id;
	u32 max_wr;
	u32 max_sge;
	struct sirdma_ksrq *ksrq; /* ring of a kernel consumer; NULL for a user's */
	struct sirdma_ring *ring; /* memory of a user's ring; the shadow area is behind the ring */
	struct sirdma_obj obj; /* events find the queue while it exists */
};

static inline struct sirdma_srq *to_ssrq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct sirdma_srq, ibsrq);
}

int sirdma_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int sirdma_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		      struct ib_udata *udata);
int sirdma_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int sirdma_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

#endif
