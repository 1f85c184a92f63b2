/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ib_umem_get() has been renamed to ib_umem_get_va(), and the iterator over a umem's blocks has
 * moved to a header of its own, in stable releases too.
 */
#ifndef COMPAT_IB_UMEM_H
#define COMPAT_IB_UMEM_H

#include <rdma/ib_umem.h>
#ifdef COMPAT_HAVE_rdma_iter
#include <rdma/iter.h>
#endif

#ifndef COMPAT_HAVE_ib_umem_get_va
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

#endif
