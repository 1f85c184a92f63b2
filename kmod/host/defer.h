/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sets of QPs to be looked at from a fresh context. */
#ifndef SNIC_HOST_DEFER_H
#define SNIC_HOST_DEFER_H

#include <linux/compiler.h>
#include <linux/kthread.h>
#include <linux/types.h>

struct snic_host;

/* One bit per QP, and one per group of QPs that has any. */
struct snic_qpset {
	unsigned long *bits;
	unsigned long groups;
	u32 group_qps; /* QPs in a group */
	u32 qps; /* a multiple of BITS_PER_LONG */
	u32 next; /* where the next run begins, so that each member has its turn */
};

int snic_qpset_init(struct snic_qpset *set, u32 max_qps);
void snic_qpset_fini(struct snic_qpset *set);
/* Any context. */
void snic_qpset_add(struct snic_qpset *set, u32 qpn);

static inline bool snic_qpset_empty(const struct snic_qpset *set)
{
	return !READ_ONCE(set->groups);
}

/*
 * Take members out and call @fn for each, until ktime_get_ns() reaches @end, and at
 * least one. False when none was left at the end. Softirqs are off, or a task.
 */
bool snic_qpset_run(struct snic_qpset *set, struct snic_host *host,
		    void (*fn)(struct snic_host *host, u32 qpn), u64 end);

/* Deferred QPs of every host, until @end, and those that wait for room; true when more is to be done. Softirq. */
bool snic_defer_run(u64 end);
/* Work of @qpn that may wait for everything else: a thread of low priority does it. Any context. */
void snic_defer_background(struct snic_host *host, u32 qpn);
/* What the thread does for a host, its argument &snic_host.background_work. */
void snic_background_work(struct kthread_work *work);
int snic_background_init(void);
void snic_background_exit(void);

#endif
