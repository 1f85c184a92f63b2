/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bottom halves: NAPI instances of a netdev that exists for them alone. NAPI
 * gives each its share of the softirq, runs it on one CPU at a time, and can be
 * scheduled from any context.
 */
#ifndef SNIC_HOST_NAPI_H
#define SNIC_HOST_NAPI_H

#include <linux/netdevice.h>

/*
 * The time after which a poll begins no more work, ns. A poll reports its time as units of budget.
 * net_rx_action() has 300 units (net.core.netdev_budget) and gives at most 64 to one poll, so it
 * ends after five such polls. With the work that each has begun it takes less than 2 ms.
 */
#define SNIC_POLL_NS 200000

int snic_napi_init(void);
void snic_napi_exit(void);
/* Add a bottom half, disabled. May sleep. */
void snic_napi_add(struct napi_struct *napi, int (*poll)(struct napi_struct *napi, int budget));
/* Delete a disabled bottom half. Its memory must outlive a grace period. May sleep. */
void snic_napi_del(struct napi_struct *napi);
/*
 * Schedule a poll, by a task with interrupts on, or by a softirq. If softirqs are on, the poll runs
 * before this function returns.
 */
void snic_napi_schedule(struct napi_struct *napi);
/*
 * The return value of a poll that began at @start (ktime_get_ns()). @more: the softirq must poll
 * again.
 */
int snic_napi_polled(struct napi_struct *napi, u64 start, int budget, bool more);

#endif
