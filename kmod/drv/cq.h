/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#ifndef SIRDMA_DRV_CQ_H
#define SIRDMA_DRV_CQ_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

struct sirdma_dev;
struct sirdma_kcq;
struct sirdma_ring;
struct uverbs_attr_bundle;

struct sirdma_cq {
	struct ib_cq ibcq;
	u32 id;
	struct sirdma_kcq *kcq; /* ring of a kernel consumer; NULL for a user's CQ */
	struct sirdma_ring *ring; /* of a user's CQ */
	struct sirdma_ring *shadow; /* of a user's CQ */
	refcount_t refs; /* 1 while it exists, more while an event is delivered */
	struct completion idle; /* refs reached zero */
};

static inline struct sirdma_cq *to_scq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct sirdma_cq, ibcq);
}

int sirdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs);
int sirdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* The CQ of that number, held; NULL. Any context. */
struct sirdma_cq *sirdma_cq_get(struct sirdma_dev *dev, u32 id);
void sirdma_cq_put(struct sirdma_cq *cq);

#endif
