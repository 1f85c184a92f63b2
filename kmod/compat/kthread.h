/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Since 6.14 kthread_run_worker() starts the thread that kthread_create_worker() only makes. */
#ifndef SIRDMA_COMPAT_KTHREAD_H
#define SIRDMA_COMPAT_KTHREAD_H

#include <linux/kthread.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define kthread_run_worker(flags, namefmt, ...) kthread_create_worker(flags, namefmt, ##__VA_ARGS__)
#endif

#endif
