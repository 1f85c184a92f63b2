/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows. Work requests bind them, which is between an application and the device. */
#ifndef SIRDMA_DRV_MW_H
#define SIRDMA_DRV_MW_H

#include <rdma/ib_verbs.h>

struct sirdma_mw {
	struct ib_mw ibmw; /* rkey is the key as it was allocated; binds change its lowest byte */
};

int sirdma_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int sirdma_dealloc_mw(struct ib_mw *ibmw);

#endif
