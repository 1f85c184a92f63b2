/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* hrtimer_setup() came with 6.13; before it the callback was assigned by hand. */
#ifndef SIRDMA_COMPAT_HRTIMER_H
#define SIRDMA_COMPAT_HRTIMER_H

#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

#endif
