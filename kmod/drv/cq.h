/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#ifndef SIRDMA_DRV_CQ_H
#define SIRDMA_DRV_CQ_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

#include "obj.h"

struct sirdma_dev;
struct sirdma_kcq;
struct sirdma_ring;
struct uverbs_attr_bundle;

struct sirdma_cq {
	struct ib_cq ibcq;
	u32 id;
	struct sirdma_kcq *kcq; /* ring of a kernel consumer; NULL for a user's CQ */
	/* Protects ring from the creation of the CQ on, and kcq and shadow when the CQ goes. */
	struct mutex resize;
	struct sirdma_ring *ring; /* ring of a user's CQ */
	struct sirdma_ring *shadow; /* shadow area of a user's CQ */
	/* For "rdma resource show": the ring's elements and the moderation. Read without a lock. */
	u32 entries;
	u16 count;
	u16 period;
	struct sirdma_obj obj; /* events find the CQ while it exists */
};

static inline struct sirdma_cq *to_scq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct sirdma_cq, ibcq);
}

int sirdma_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs);
int sirdma_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
/* Give a user's CQ a ring of @entries elements, which was registered before. */
int sirdma_resize_cq(struct ib_cq *ibcq, u32 entries, struct ib_udata *udata);
/*
 * For which completion is the CQ armed: "next", "solicited" or "no"? The CQ may be going away; then
 * it is not armed.
 */
const char *sirdma_cq_armed(struct sirdma_cq *cq);
int sirdma_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

#endif
