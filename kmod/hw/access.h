/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of the access rights and of the memory regions that applications request.
 * Flags are those of the verbs API: enum ib_access_flags, enum ibv_access_flags.
 */
#ifndef SIRDMA_HW_ACCESS_H
#define SIRDMA_HW_ACCESS_H

#include "port/port.h"
#include "sirdma/qpctx.h"

#define SIRDMA_VERBS_LOCAL_WRITE (1u << 0)
#define SIRDMA_VERBS_REMOTE_WRITE (1u << 1)
#define SIRDMA_VERBS_REMOTE_READ (1u << 2)
#define SIRDMA_VERBS_REMOTE_ATOMIC (1u << 3)
#define SIRDMA_VERBS_MW_BIND (1u << 4)
#define SIRDMA_VERBS_ZERO_BASED (1u << 5)
#define SIRDMA_VERBS_ON_DEMAND (1u << 6)
/* A hint about the memory of an explicit region on demand. */
#define SIRDMA_VERBS_HUGETLB (1u << 7)
#define SIRDMA_VERBS_FLUSH_GLOBAL (1u << 8)
#define SIRDMA_VERBS_FLUSH_PERSISTENT (1u << 9)
/* All flags that the verbs API defines, up to FLUSH_PERSISTENT. */
#define SIRDMA_VERBS_ACCESS_KNOWN 0x3ffu
/* Hints: a device may ignore them. */
#define SIRDMA_VERBS_ACCESS_OPTIONAL 0x3ff00000u

#define SIRDMA_MAX_MR_SIZE (1ull << 40)

/* A memory region as an application describes it. */
struct sirdma_region {
	u64 start; /* virtual address in the application */
	u64 length;
	u64 iova;
	u32 access;
};

/* Check access flags. Returns 0, or -EINVAL or -EOPNOTSUPP with *why set for a log line. */
int sirdma_region_access_check(u32 access, const char **why);
/*
 * Check the access flags of a region, then the region. Returns as sirdma_region_access_check() does.
 */
int sirdma_region_check(const struct sirdma_region *region, const char **why);

/* What changes of a region: enum ib_mr_rereg_flags, enum ibv_rereg_mr_flags. */
#define SIRDMA_REREG_TRANSLATION (1u << 0)
#define SIRDMA_REREG_PD (1u << 1)
#define SIRDMA_REREG_ACCESS (1u << 2)
#define SIRDMA_REREG_KNOWN (SIRDMA_REREG_TRANSLATION | SIRDMA_REREG_PD | SIRDMA_REREG_ACCESS)

/*
 * Change @region as @flags say: the address, length and iova to those of @to, the access flags to
 * its access flags. Returns 0, or as sirdma_region_check() does, and -EINVAL for no flag or
 * -EOPNOTSUPP for an unknown one; @region has not changed then.
 */
int sirdma_region_change(struct sirdma_region *region, u32 flags, const struct sirdma_region *to,
			 const char **why);
/* SIRDMA_ACCESS_* of a region with these flags. */
u8 sirdma_region_rights(u32 access);

/* Check the access flags of a QP. Returns -EINVAL if a flag is unknown. */
int sirdma_qp_access_check(u32 flags);
/*
 * SIRDMA_ACCESS_REMOTE_* of flags, and back: the right to write remotely implies the local one.
 * Every QP may bind windows, as on other devices, so that flag changes nothing.
 */
u32 sirdma_qp_access_to_hw(u32 flags);
u32 sirdma_qp_access_from_hw(u32 access);

#endif
