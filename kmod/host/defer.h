/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sets of QPs whose work runs in another context: a bottom half or a thread. */
#ifndef SNIC_HOST_DEFER_H
#define SNIC_HOST_DEFER_H

#include <linux/compiler.h>
#include <linux/kthread.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct snic_host;

/* One bit for each QP, and one for each group of QPs that may have a bit set. */
struct snic_qpset {
	unsigned long *bits;
	unsigned long groups;
	u32 group_qps; /* QPs in a group */
	u32 qps; /* a multiple of BITS_PER_LONG */
	u32 next; /* number of the QP where the next run begins: round robin */
};

int snic_qpset_init(struct snic_qpset *set, u32 max_qps);
void snic_qpset_fini(struct snic_qpset *set);
/* Callers may be in any context. */
void snic_qpset_add(struct snic_qpset *set, u32 qpn);

static inline bool snic_qpset_empty(const struct snic_qpset *set)
{
	return !READ_ONCE(set->groups);
}

/*
 * Remove members and call @fn for each, at least one, until ktime_get_ns() reaches @end.
 * Returns whether members are left. Called by tasks, and with softirqs off.
 */
bool snic_qpset_run(struct snic_qpset *set, struct snic_host *host,
		    void (*fn)(struct snic_host *host, u32 qpn), u64 end);

/*
 * Run deferred QPs of every host, and resume those that wait for room, until @end: one QP at least.
 * The next run begins where this one ends. Returns whether work is left. Softirq.
 */
bool snic_defer_run(u64 end);
/* Run @qpn in a thread of low priority: all other work may go before its work. Any context. */
void snic_defer_background(struct snic_host *host, u32 qpn);
/* The function of snic_host.background_work. */
void snic_background_work(struct kthread_work *work);
int snic_background_init(void);
void snic_background_exit(void);

/*
 * Run the GSI QP in a task, soon. The bottom half would run on the poster's CPU before the poster goes
 * on, and would do the receiver's work there as well if the receiver is on this machine. The task runs
 * on another CPU if one is idle, and takes many management datagrams at once; what it leaves, the
 * bottom half does. `cmtime -c 200` took 1.80 ms for each connection in an emulated guest with 2 CPUs,
 * and 52 us to disconnect it; by the bottom half 2.62 ms and 380 us, and 1.97 ms by a task of high
 * priority, which preempts the poster. Any context.
 */
void snic_defer_gsi(struct snic_host *host);
/* The function of snic_host.gsi_work. */
void snic_gsi_work(struct work_struct *work);
int snic_gsi_init(void);
void snic_gsi_exit(void);

#endif
