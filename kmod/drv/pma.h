/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Port counters in sysfs, which the core reads as a performance management agent's (IBTA 16.1). */
#ifndef SIRDMA_DRV_PMA_H
#define SIRDMA_DRV_PMA_H

#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

/*
 * This function answers the core's own requests only. MADs from the wire are passed on without an
 * answer.
 */
int sirdma_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		       const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		       size_t *out_size, u16 *out_pkey_index);

#endif
