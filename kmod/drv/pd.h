/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIRDMA_DRV_PD_H
#define SIRDMA_DRV_PD_H

#include <rdma/ib_verbs.h>

/* A protection domain is a number that the device compares; it needs no command. */
struct sirdma_pd {
	struct ib_pd ibpd;
	u32 id;
};

static inline struct sirdma_pd *to_spd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct sirdma_pd, ibpd);
}

int sirdma_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int sirdma_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif
