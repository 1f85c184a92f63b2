/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIRDMA_DRV_XRCD_H
#define SIRDMA_DRV_XRCD_H

#include <rdma/ib_verbs.h>

/* An XRC domain is a number that the device compares; it needs no command. */
struct sirdma_xrcd {
	struct ib_xrcd ibxrcd;
	u32 id;
};

static inline struct sirdma_xrcd *to_sxrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct sirdma_xrcd, ibxrcd);
}

int sirdma_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int sirdma_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

#endif
