/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Before 6.3 drivers changed the flags of a mapping by hand. */
#ifndef COMPAT_MM_H
#define COMPAT_MM_H

#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

#endif
