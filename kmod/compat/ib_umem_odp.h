/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Since 6.16 the pages of an on-demand umem are in a struct hmm_dma_map, and accesses are named by
 * flags of HMM.
 */
#ifndef COMPAT_IB_UMEM_ODP_H
#define COMPAT_IB_UMEM_ODP_H

#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
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

#ifdef COMPAT_HAVE_hmm_range_fault_unlocked_timeout
/*
 * Bring the pages of [start, start + count pages) in, to be written if @write. Returns 0 or an errno. In
 * these kernels ib_umem_odp_map_dma_and_lock() tries for ever to read a page of a file whose read fails:
 * handle_mm_fault() then asks for another try, and answers it by an error only with FAULT_FLAG_TRIED,
 * which hmm_do_fault() does not set (7.3). The pages may go again before that function finds them.
 */
static inline int compat_umem_odp_fault(struct ib_umem_odp *umem, u64 start, u32 count, bool write)
{
	struct mm_struct *mm = umem->umem.owning_mm;
	int locked, err = 0;
	long n;

	if (!mmget_not_zero(mm))
		return -EINVAL;
	for (; count; start += (u64)n << PAGE_SHIFT, count -= n) {
		locked = 1;
		mmap_read_lock(mm);
		n = get_user_pages_remote(mm, start, count, write ? FOLL_WRITE : 0, NULL, &locked);
		if (locked)
			mmap_read_unlock(mm);
		if (n <= 0) {
			err = n ? (int)n : -EFAULT;
			break;
		}
	}
	mmput_async(mm);
	return err;
}
#else
static inline int compat_umem_odp_fault(struct ib_umem_odp *umem, u64 start, u32 count, bool write)
{
	return 0;
}
#endif

#endif
