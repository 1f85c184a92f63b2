/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A real-time kernel locked the softirqs of a CPU, and the sections that disable them, against each other.
 * Since 6.18, and in stable kernels to which that was backported, it does so only with an option. If it
 * is not set, COMPAT_SOFTIRQS_OVERLAP is defined.
 */
#ifndef SIRDMA_COMPAT_SOFTIRQ_H
#define SIRDMA_COMPAT_SOFTIRQ_H

#include <linux/version.h>

#if defined(CONFIG_PREEMPT_RT) && !defined(CONFIG_PREEMPT_RT_NEEDS_BH_LOCK)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0) || defined(COMPAT_UNSET_PREEMPT_RT_NEEDS_BH_LOCK)
#define COMPAT_SOFTIRQS_OVERLAP
#endif
#endif

#endif
