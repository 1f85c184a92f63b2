/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A real-time kernel always locked the softirqs of a CPU against each other, and the sections that
 * disable them. Since 6.18, and in stable kernels that took it over, it does so with an option only:
 * else COMPAT_SOFTIRQS_OVERLAP is defined.
 */
#ifndef SIRDMA_COMPAT_SOFTIRQ_H
#define SIRDMA_COMPAT_SOFTIRQ_H

#include <linux/version.h>

#if defined(CONFIG_PREEMPT_RT) && !defined(CONFIG_PREEMPT_RT_NEEDS_BH_LOCK)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0) || defined(COMPAT_ASKS_PREEMPT_RT_NEEDS_BH_LOCK)
#define COMPAT_SOFTIRQS_OVERLAP
#endif
#endif

#endif
