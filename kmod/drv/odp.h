/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * On-demand paging: regions whose pages are not pinned. The device asks for pages as it needs them
 * (sirdma/prq.h), and MMU notifiers take them back.
 */
#ifndef SIRDMA_DRV_ODP_H
#define SIRDMA_DRV_ODP_H

#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include "mr.h"

struct sirdma_dev;
struct sirdma_page_ask;

struct sirdma_odp {
	struct xarray lists; /* first PBLE -> struct sirdma_odp_mr; its lock covers the jobs, too */
	struct xarray keys; /* stag -> struct sirdma_odp_mr */
};

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING

void sirdma_odp_init(struct sirdma_dev *dev);
void sirdma_odp_fini(struct sirdma_dev *dev);
/* There is no device any more. Waits for the page faults of regions that are gone. */
void sirdma_odp_exit(void);
/* The capabilities of ibv_query_device_ex(). */
void sirdma_odp_caps(const struct sirdma_dev *dev, struct ib_device_attr *attr);
/* Register @region, whose access flags ask for it. Returns an error as reg_user_mr does. */
struct ib_mr *sirdma_odp_reg(struct ib_pd *ibpd, const struct sirdma_region *region);
/*
 * Release the memory of @mr, and @mr itself when its last page fault has ended, for which the caller
 * does not wait. The device does not use the region any more. Sleeps.
 */
void sirdma_odp_release(struct sirdma_dev *dev, struct sirdma_mr *mr);
/* The device asks for pages. Atomic context. */
void sirdma_odp_ask(void *ctx, const struct sirdma_page_ask *ask);
int sirdma_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		     struct ib_sge *sges, u32 count, struct uverbs_attr_bundle *attrs);

static inline bool sirdma_mr_is_odp(const struct sirdma_mr *mr)
{
	return mr->umem && mr->umem->is_odp;
}

#else

static inline void sirdma_odp_init(struct sirdma_dev *dev) {}
static inline void sirdma_odp_fini(struct sirdma_dev *dev) {}
static inline void sirdma_odp_exit(void) {}
static inline void sirdma_odp_caps(const struct sirdma_dev *dev, struct ib_device_attr *attr) {}
static inline struct ib_mr *sirdma_odp_reg(struct ib_pd *ibpd, const struct sirdma_region *region)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void sirdma_odp_release(struct sirdma_dev *dev, struct sirdma_mr *mr) {}
#define sirdma_odp_ask NULL
#define sirdma_advise_mr NULL
static inline bool sirdma_mr_is_odp(const struct sirdma_mr *mr)
{
	return false;
}

#endif

#endif
