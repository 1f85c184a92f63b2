/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Since 6.16 the pages of an on-demand umem are in a struct hmm_dma_map, and accesses are named by
 * flags of HMM.
 */
#ifndef COMPAT_IB_UMEM_ODP_H
#define COMPAT_IB_UMEM_ODP_H

#include <linux/hmm.h>
#include <rdma/ib_umem_odp.h>

#ifdef COMPAT_HAVE_hmm_dma_map
static inline unsigned long *compat_umem_odp_pfns(struct ib_umem_odp *umem)
{
	return umem->map.pfn_list;
}

#define COMPAT_ODP_READ 0
#define COMPAT_ODP_WRITE HMM_PFN_WRITE
#else
static inline unsigned long *compat_umem_odp_pfns(struct ib_umem_odp *umem)
{
	return umem->pfn_list;
}

#define COMPAT_ODP_READ ODP_READ_ALLOWED_BIT
#define COMPAT_ODP_WRITE (ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT)
#endif

#endif
