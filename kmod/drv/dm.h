/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory: pages of the host that a user context owns. A process maps them, and regions lie
 * over them. All users together have SIRDMA_DM_BYTES of it, see sirdma_dm_is_fair().
 */
#ifndef SIRDMA_DRV_DM_H
#define SIRDMA_DRV_DM_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

struct sirdma_dms {
	struct mutex lock; /* protects the numbers of bytes, here and in struct sirdma_user */
	u64 bytes; /* device memory of all users */
};

static inline void sirdma_dms_init(struct sirdma_dms *dms)
{
	mutex_init(&dms->lock);
	dms->bytes = 0;
}

/* All contexts are gone. */
static inline void sirdma_dms_fini(struct sirdma_dms *dms)
{
	WARN_ON(dms->bytes);
	mutex_destroy(&dms->lock);
}

struct ib_dm *sirdma_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibuctx,
			      struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
struct sirdma_dm_resp;

/* What a process needs to map the memory. */
void sirdma_dm_describe(const struct ib_dm *ibdm, struct sirdma_dm_resp *resp);
/* The RDMA core calls this when no region is over the memory. */
int sirdma_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *sirdma_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			       struct uverbs_attr_bundle *attrs);

#endif
